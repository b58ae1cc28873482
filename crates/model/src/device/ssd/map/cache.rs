//! Pages of the map that are in memory, by how long ago they were used.

use tierscope_kernel::{CowMap, Slab};

const NONE: u32 = u32::MAX;

/// What is true of a page in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Flash has the same.
    Clean,
    /// Flash has not.
    Changed,
    /// It is being programmed.
    Writing,
    /// It has changed since it began to be programmed.
    Rewritten,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    map: u32,
    state: State,
    /// Used before this one, and after it, among those that are not being programmed.
    older: u32,
    newer: u32,
}

/// Pages of the map in memory.
#[derive(Clone, Debug)]
pub struct Cache {
    capacity: usize,
    slots: Slab<Slot>,
    slot_of: CowMap<u32>,
    oldest: u32,
    newest: u32,
}

impl Cache {
    /// With room for so many, and none.
    pub fn new(capacity: usize) -> Self {
        let slot_of = CowMap::new(NONE);
        Cache { capacity, slots: Slab::new(), slot_of, oldest: NONE, newest: NONE }
    }

    /// For how many there is room.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many it has.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// The slot of a page of the map.
    #[inline]
    pub fn find(&self, map: u32) -> Option<u32> {
        let slot = self.slot_of.get(u64::from(map));
        (slot != NONE).then_some(slot)
    }

    /// A page is used.
    #[inline]
    pub fn touch(&mut self, slot: u32) {
        if slot != self.newest && matches!(self.slots[slot].state, State::Clean | State::Changed) {
            self.unlink(slot);
            self.link_newest(slot);
        }
    }

    /// A page is changed.
    pub fn change(&mut self, slot: u32) {
        self.touch(slot);
        let state = &mut self.slots[slot].state;
        *state = match *state {
            State::Clean | State::Changed => State::Changed,
            State::Writing | State::Rewritten => State::Rewritten,
        };
    }

    /// A page comes, for which there is room.
    pub fn insert(&mut self, map: u32, changed: bool) {
        let state = if changed { State::Changed } else { State::Clean };
        let slot = self.slots.insert(Slot { map, state, older: NONE, newer: NONE });
        self.slot_of.set(u64::from(map), slot);
        self.link_newest(slot);
    }

    /// The page used least recently of those that are not being programmed.
    pub fn oldest(&self) -> Option<(u32, State)> {
        (self.oldest != NONE).then(|| (self.oldest, self.slots[self.oldest].state))
    }

    /// A page that is not being programmed leaves.
    pub fn remove(&mut self, slot: u32) {
        self.unlink(slot);
        let Slot { map, .. } = self.slots.remove(slot);
        self.slot_of.set(u64::from(map), NONE);
    }

    /// A page is being programmed from now on; which one.
    pub fn begin_write(&mut self, slot: u32) -> u32 {
        self.unlink(slot);
        self.slots[slot].state = State::Writing;
        self.slots[slot].map
    }

    /// A page has been programmed: unless it was changed since, it is the first to leave.
    pub fn end_write(&mut self, slot: u32) {
        if self.slots[slot].state == State::Writing {
            self.slots[slot].state = State::Clean;
            self.link_oldest(slot);
        } else {
            self.slots[slot].state = State::Changed;
            self.link_newest(slot);
        }
    }

    fn link_newest(&mut self, slot: u32) {
        let older = std::mem::replace(&mut self.newest, slot);
        (self.slots[slot].older, self.slots[slot].newer) = (older, NONE);
        match older {
            NONE => self.oldest = slot,
            _ => self.slots[older].newer = slot,
        }
    }

    fn link_oldest(&mut self, slot: u32) {
        let newer = std::mem::replace(&mut self.oldest, slot);
        (self.slots[slot].older, self.slots[slot].newer) = (NONE, newer);
        match newer {
            NONE => self.newest = slot,
            _ => self.slots[newer].older = slot,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { older, newer, .. } = self.slots[slot];
        match older {
            NONE => self.oldest = newer,
            _ => self.slots[older].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            _ => self.slots[newer].older = older,
        }
    }
}
