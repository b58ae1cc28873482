//! The drive's own DRAM, as far as it holds data: what was written and is not in flash yet, and what
//! was read.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Which of what a drive keeps gives way to what comes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum BufferReplacement {
    /// What was used least recently.
    #[default]
    Lru,
    /// What came first.
    Fifo,
    /// What came first, of what has not been used since it was passed over last.
    Clock,
    /// What is expected to be used last, by two bits of each, hit priority (Jaleel et al., "High performance
    /// cache replacement using re-reference interval prediction (RRIP)", ISCA 2010).
    Srrip,
}

/// Lists of what is clean: by when it is expected to be used again, soon first; or one alone.
const CLASSES: usize = 4;
/// Where what comes stands among them.
const LONG: usize = CLASSES - 2;
/// Where what gives way stands.
const DISTANT: usize = CLASSES - 1;

/// Number of an entry.
pub type Entry = u32;

const NONE: u32 = u32::MAX;

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The same as flash.
    Clean,
    /// It was written, and waits to be programmed.
    Dirty,
    /// It is being programmed.
    Flushing,
    /// It is being programmed, and has been written again meanwhile.
    Rewritten,
    /// It is being programmed, and nobody wants it any more.
    Dropped,
    /// It holds nothing.
    Free,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    unit: u64,
    state: State,
    /// Its list of those of what is clean.
    class: u8,
    /// It was used since it was passed over last.
    used: bool,
    /// Neighbours in the list of its state.
    before: u32,
    behind: u32,
    /// The next with the same hash.
    next: u32,
    /// The first of those who wait until what is being programmed is in flash.
    waiters: u32,
    /// The first of those who wait until what is to be programmed is.
    later: u32,
    /// The epoch in which what waits for flash, or is being programmed, was first written.
    epoch: u32,
    /// The same of what was written again while that is being programmed.
    later_epoch: u32,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
    length: u32,
}

const EMPTY: List = List { first: NONE, last: NONE, length: 0 };

/// Entries of one unit each, found by the unit. What is clean gives way to what comes.
#[derive(Clone, Debug)]
pub struct Buffer {
    capacity: u32,
    /// Entries that may be dirty or being programmed.
    most_dirty: u32,
    keeps_clean: bool,
    replacement: BufferReplacement,
    slots: Vec<Slot>,
    heads: Vec<u32>,
    clean: [List; CLASSES],
    /// Which of these lists is that of what is expected soon: the others follow in turn.
    soon: usize,
    dirty: List,
    free: u32,
    flushing: u32,
    /// What was written between two flushes makes an epoch: for each from [`Buffer::first_epoch`] on to
    /// the one under way, how many versions are not in flash.
    missing: VecDeque<u32>,
    first_epoch: u32,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is in this entry.
    In(Entry),
    /// There is no room until something has been programmed.
    NoRoom,
}

impl Buffer {
    /// A buffer of `capacity` entries, at least one, of which `most_dirty` may wait for flash.
    pub fn new(
        capacity: u32,
        most_dirty: u32,
        keeps_clean: bool,
        replacement: BufferReplacement,
    ) -> Self {
        Buffer {
            capacity,
            most_dirty: most_dirty.min(capacity),
            keeps_clean,
            replacement,
            slots: Vec::new(),
            heads: vec![NONE; 64],
            clean: [EMPTY; CLASSES],
            soon: 0,
            dirty: EMPTY,
            free: NONE,
            flushing: 0,
            missing: VecDeque::from([0]),
            first_epoch: 0,
        }
    }

    /// An empty one of the same size.
    pub fn like(other: &Buffer) -> Self {
        Buffer::new(other.capacity, other.most_dirty, other.keeps_clean, other.replacement)
    }

    /// Entries that wait to be programmed.
    #[inline]
    pub fn dirty(&self) -> u32 {
        self.dirty.length
    }

    #[inline]
    fn head(&self, unit: u64) -> usize {
        let hash = unit.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        hash as usize & (self.heads.len() - 1)
    }

    #[inline]
    fn find(&self, unit: u64) -> Option<Entry> {
        let mut entry = self.heads[self.head(unit)];
        while entry != NONE {
            let slot = &self.slots[entry as usize];
            if slot.unit == unit {
                return Some(entry);
            }
            entry = slot.next;
        }
        None
    }

    /// Whether it holds a unit, without the use being noted.
    pub fn holds(&self, unit: u64) -> bool {
        self.find(unit).is_some_and(|entry| self.slots[entry as usize].state != State::Dropped)
    }

    /// Whether it holds a unit, which is read.
    pub fn read(&mut self, unit: u64) -> bool {
        let Some(entry) = self.find(unit) else { return false };
        let state = self.slots[entry as usize].state;
        if state == State::Clean {
            self.use_clean(entry);
        }
        state != State::Dropped
    }

    /// A unit is written.
    pub fn write(&mut self, unit: u64) -> Written {
        if let Some(entry) = self.find(unit) {
            return self.rewrite(entry);
        }
        if self.dirty.length + self.flushing >= self.most_dirty || !self.make_room() {
            return Written::NoRoom;
        }
        let entry = self.insert(unit);
        self.link(entry, State::Dirty);
        self.slots[entry as usize].epoch = self.begin_missing();
        Written::In(entry)
    }

    fn rewrite(&mut self, entry: Entry) -> Written {
        match self.slots[entry as usize].state {
            State::Clean if self.dirty.length + self.flushing >= self.most_dirty => {
                return Written::NoRoom;
            }
            State::Clean => {
                self.unlink(entry);
                self.link(entry, State::Dirty);
                self.slots[entry as usize].epoch = self.begin_missing();
            }
            State::Flushing | State::Dropped => {
                let epoch = self.begin_missing();
                let slot = &mut self.slots[entry as usize];
                (slot.state, slot.later_epoch) = (State::Rewritten, epoch);
            }
            State::Dirty | State::Rewritten | State::Free => {}
        }
        Written::In(entry)
    }

    /// A unit that has been read from flash is kept, if there is room that nothing dirty needs; whether it is written
    /// into the buffer.
    pub fn keep(&mut self, unit: u64) -> bool {
        let keeps = self.keeps_clean && self.find(unit).is_none() && self.make_room();
        if keeps {
            let entry = self.insert(unit);
            self.link(entry, State::Clean);
        }
        keeps
    }

    /// The entry that has waited longest to be programmed.
    pub fn first_dirty(&self) -> Option<Entry> {
        (self.dirty.first != NONE).then_some(self.dirty.first)
    }

    /// The one that has waited longest of those that have not waited as long as `entry`.
    pub fn next_dirty(&self, entry: Entry) -> Option<Entry> {
        let behind = self.slots[entry as usize].behind;
        (behind != NONE).then_some(behind)
    }

    /// Takes the entry that has waited longest to be programmed.
    pub fn flush(&mut self) -> Option<Entry> {
        let entry = self.first_dirty()?;
        self.take_dirty(entry);
        Some(entry)
    }

    /// Takes an entry that waits to be programmed.
    pub fn take_dirty(&mut self, entry: Entry) {
        self.unlink(entry);
        let slot = &mut self.slots[entry as usize];
        slot.state = State::Flushing;
        debug_assert_eq!(slot.waiters, NONE);
        slot.waiters = std::mem::replace(&mut slot.later, NONE);
        self.flushing += 1;
    }

    /// The unit of an entry.
    pub fn unit(&self, entry: Entry) -> u64 {
        self.slots[entry as usize].unit
    }

    /// Chains an entry that is being programmed to the one before it.
    pub fn chain(&mut self, entry: Entry, next: Entry) {
        self.slots[entry as usize].behind = next;
    }

    /// An entry has been programmed: the entry chained behind it, and the first who waited for it.
    pub fn flushed(&mut self, entry: Entry) -> (Option<Entry>, Option<u32>) {
        let slot = &mut self.slots[entry as usize];
        let some = |number| (number != NONE).then_some(number);
        let chained = some(std::mem::replace(&mut slot.behind, NONE));
        let waiter = some(std::mem::replace(&mut slot.waiters, NONE));
        let (state, epoch) = (slot.state, std::mem::replace(&mut slot.epoch, slot.later_epoch));
        self.flushing -= 1;
        self.end_missing(epoch);
        match state {
            State::Rewritten => self.link(entry, State::Dirty),
            State::Dropped => self.remove(entry),
            _ if self.keeps_clean => self.link(entry, State::Clean),
            _ => self.remove(entry),
        }
        (chained, waiter)
    }

    /// Nobody wants a unit any more; but what somebody waits for is programmed all the same.
    pub fn drop_unit(&mut self, unit: u64) {
        let Some(entry) = self.find(unit) else { return };
        let Slot { state, epoch, later_epoch, later, .. } = self.slots[entry as usize];
        match state {
            State::Clean => {
                self.unlink(entry);
                self.remove(entry);
            }
            State::Dirty if later == NONE => {
                self.unlink(entry);
                self.remove(entry);
                self.end_missing(epoch);
            }
            State::Flushing => self.slots[entry as usize].state = State::Dropped,
            State::Rewritten if later == NONE => {
                self.slots[entry as usize].state = State::Dropped;
                self.end_missing(later_epoch);
            }
            State::Dirty | State::Rewritten | State::Dropped | State::Free => {}
        }
    }

    // ---- Flushes ---------------------------------------------------------------------------------

    /// A version comes that is not in flash; its epoch.
    fn begin_missing(&mut self) -> u32 {
        if let Some(missing) = self.missing.back_mut() {
            *missing += 1;
        }
        self.first_epoch.wrapping_add(self.missing.len() as u32 - 1)
    }

    /// A version of this epoch is in flash, or need not get there.
    fn end_missing(&mut self, epoch: u32) {
        self.missing[epoch.wrapping_sub(self.first_epoch) as usize] -= 1;
        while self.missing.len() > 1 && self.missing[0] == 0 {
            self.missing.pop_front();
            self.first_epoch = self.first_epoch.wrapping_add(1);
        }
    }

    /// Ends an epoch: what to ask [`Buffer::is_kept`] for. `None` where all that was written is in flash.
    pub fn end_epoch(&mut self) -> Option<u32> {
        if self.missing.iter().all(|&missing| missing == 0) {
            return None;
        }
        self.missing.push_back(0);
        Some(self.first_epoch.wrapping_add(self.missing.len() as u32 - 2))
    }

    /// Whether all that was written in this epoch, and in all before it, is in flash.
    pub fn is_kept(&self, epoch: u32) -> bool {
        // It lies before the first of those that are not.
        epoch.wrapping_sub(self.first_epoch) > u32::MAX / 2
    }

    /// The entry of a unit that is not in flash as it was last written, where there is one.
    pub fn unsaved(&self, unit: u64) -> Option<Entry> {
        let unsaved = [State::Dirty, State::Flushing, State::Rewritten];
        self.find(unit).filter(|entry| unsaved.contains(&self.slots[*entry as usize].state))
    }

    /// `waiter` reads an entry once that is in flash, as it was last written; who waited before it.
    pub fn wait_to_read(&mut self, entry: Entry, waiter: u32) -> Option<u32> {
        let slot = &mut self.slots[entry as usize];
        if slot.state != State::Flushing {
            return self.wait(entry, waiter);
        }
        let before = std::mem::replace(&mut slot.waiters, waiter);
        (before != NONE).then_some(before)
    }

    /// `waiter` waits until what an entry holds now is in flash; who waited before it.
    pub fn wait(&mut self, entry: Entry, waiter: u32) -> Option<u32> {
        let before = std::mem::replace(&mut self.slots[entry as usize].later, waiter);
        (before != NONE).then_some(before)
    }

    // ---- Entries ---------------------------------------------------------------------------------

    /// Whether an entry can be had: there is a free one, or a clean one gave way.
    fn make_room(&mut self) -> bool {
        if self.free != NONE || self.slots.len() < self.capacity as usize {
            return true;
        }
        let Some(victim) = self.victim() else { return false };
        self.unlink(victim);
        self.remove(victim);
        true
    }

    /// The clean entry that gives way, if there is one.
    fn victim(&mut self) -> Option<Entry> {
        if self.clean.iter().all(|list| list.length == 0) {
            return None;
        }
        if self.replacement == BufferReplacement::Srrip {
            while self.clean[self.class(DISTANT)].length == 0 {
                // All are expected later: the list that is empty becomes that of what is expected soon.
                self.soon = self.class(DISTANT);
            }
            return Some(self.clean[self.class(DISTANT)].first);
        }
        loop {
            let first = self.clean[0].first;
            if !self.slots[first as usize].used {
                return Some(first);
            }
            self.unlink(first);
            self.link(first, State::Clean);
        }
    }

    /// The list of what is expected so late.
    #[inline]
    fn class(&self, late: usize) -> usize {
        (self.soon + late) % CLASSES
    }

    /// A clean entry is used.
    #[inline]
    fn use_clean(&mut self, entry: Entry) {
        match self.replacement {
            BufferReplacement::Fifo => {}
            BufferReplacement::Clock => self.slots[entry as usize].used = true,
            BufferReplacement::Lru => {
                self.unlink(entry);
                self.link(entry, State::Clean);
            }
            BufferReplacement::Srrip => {
                self.unlink(entry);
                self.slots[entry as usize].class = self.soon as u8;
                self.append(entry, State::Clean);
            }
        }
    }

    /// An entry for a unit that is in none, in no list yet.
    fn insert(&mut self, unit: u64) -> Entry {
        if self.slots.len() >= self.heads.len() {
            self.grow();
        }
        let head = self.head(unit);
        let next = self.heads[head];
        let slot = Slot {
            unit,
            state: State::Free,
            class: 0,
            used: false,
            before: NONE,
            behind: NONE,
            next,
            waiters: NONE,
            later: NONE,
            epoch: 0,
            later_epoch: 0,
        };
        let entry = match self.free {
            NONE => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
            entry => {
                self.free = self.slots[entry as usize].behind;
                self.slots[entry as usize] = slot;
                entry
            }
        };
        self.heads[head] = entry;
        entry
    }

    /// Twice as many heads.
    #[cold]
    fn grow(&mut self) {
        self.heads = vec![NONE; self.heads.len() * 2];
        for entry in 0..self.slots.len() {
            if self.slots[entry].state != State::Free {
                let head = self.head(self.slots[entry].unit);
                self.slots[entry].next = self.heads[head];
                self.heads[head] = entry as u32;
            }
        }
    }

    /// An entry that is in no list holds nothing any more.
    fn remove(&mut self, entry: Entry) {
        let slot = self.slots[entry as usize];
        let head = self.head(slot.unit);
        let mut at = self.heads[head];
        if at == entry {
            self.heads[head] = slot.next;
        } else {
            while self.slots[at as usize].next != entry {
                at = self.slots[at as usize].next;
            }
            self.slots[at as usize].next = slot.next;
        }
        let slot = &mut self.slots[entry as usize];
        slot.state = State::Free;
        slot.behind = self.free;
        self.free = entry;
    }

    fn list(&mut self, state: State, class: u8) -> &mut List {
        if state == State::Clean { &mut self.clean[usize::from(class)] } else { &mut self.dirty }
    }

    /// Adds an entry to the end of the list of clean ones, as one that comes, or of dirty ones.
    fn link(&mut self, entry: Entry, state: State) {
        let of_many = self.replacement == BufferReplacement::Srrip;
        let class = if of_many { self.class(LONG) } else { 0 };
        let slot = &mut self.slots[entry as usize];
        (slot.class, slot.used) = (class as u8, false);
        self.append(entry, state);
    }

    /// Adds an entry to the end of its list.
    fn append(&mut self, entry: Entry, state: State) {
        let class = self.slots[entry as usize].class;
        let list = self.list(state, class);
        let last = std::mem::replace(&mut list.last, entry);
        list.length += 1;
        if last == NONE {
            list.first = entry;
        }
        if last != NONE {
            self.slots[last as usize].behind = entry;
        }
        let slot = &mut self.slots[entry as usize];
        (slot.state, slot.before, slot.behind) = (state, last, NONE);
    }

    /// Takes an entry out of its list.
    fn unlink(&mut self, entry: Entry) {
        let Slot { state, class, before, behind, .. } = self.slots[entry as usize];
        let list = self.list(state, class);
        list.length -= 1;
        if before == NONE {
            list.first = behind;
        }
        if behind == NONE {
            list.last = before;
        }
        if before != NONE {
            self.slots[before as usize].behind = behind;
        }
        if behind != NONE {
            self.slots[behind as usize].before = before;
        }
        let slot = &mut self.slots[entry as usize];
        (slot.before, slot.behind) = (NONE, NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same, said plainly: units by age.
    #[derive(Default)]
    struct Plain {
        replacement: BufferReplacement,
        /// Each with whether it was used, or how late it is expected.
        clean: VecDeque<(u64, usize)>,
        /// Each with the number of its first write.
        dirty: VecDeque<(u64, u32)>,
        flushing: Vec<Programmed>,
        writes: u32,
    }

    /// A unit that is being programmed.
    struct Programmed {
        unit: u64,
        written: u32,
        /// The first of the writes since.
        rewritten: Option<u32>,
        dropped: bool,
    }

    impl Programmed {
        fn is_held(&self) -> bool {
            !self.dropped || self.rewritten.is_some()
        }
    }

    impl Plain {
        fn holds(&self, unit: u64) -> bool {
            self.is_clean(unit)
                || self.dirty.iter().any(|(other, _)| *other == unit)
                || self.flushing.iter().any(|other| other.unit == unit && other.is_held())
        }

        fn is_clean(&self, unit: u64) -> bool {
            self.clean.iter().any(|(other, _)| *other == unit)
        }

        fn become_clean(&mut self, unit: u64) {
            let srrip = self.replacement == BufferReplacement::Srrip;
            self.clean.push_back((unit, if srrip { 2 } else { 0 }));
        }

        fn read(&mut self, unit: u64) {
            let Some(at) = self.clean.iter().position(|(other, _)| *other == unit) else { return };
            match self.replacement {
                BufferReplacement::Fifo => {}
                BufferReplacement::Clock => self.clean[at].1 = 1,
                BufferReplacement::Lru | BufferReplacement::Srrip => {
                    self.clean.remove(at);
                    self.clean.push_back((unit, 0));
                }
            }
        }

        fn room(&mut self, capacity: usize) -> bool {
            let length = self.clean.len() + self.dirty.len() + self.flushing.len();
            length < capacity || self.give_way()
        }

        fn give_way(&mut self) -> bool {
            if self.replacement == BufferReplacement::Srrip {
                let Some(latest) = self.clean.iter().map(|(_, late)| *late).max() else {
                    return false;
                };
                self.clean.iter_mut().for_each(|(_, late)| *late += 3 - latest);
                let at = self.clean.iter().position(|(_, late)| *late == 3);
                return at.and_then(|at| self.clean.remove(at)).is_some();
            }
            while let Some((unit, used)) = self.clean.pop_front() {
                if used == 0 {
                    return true;
                }
                self.clean.push_back((unit, 0));
            }
            false
        }

        fn write(&mut self, unit: u64, capacity: usize, most_dirty: usize) -> bool {
            self.writes += 1;
            if self.dirty.iter().any(|(other, _)| *other == unit) {
                return true;
            }
            if let Some(found) = self.flushing.iter_mut().find(|other| other.unit == unit) {
                found.rewritten = found.rewritten.or(Some(self.writes));
                return true;
            }
            if self.dirty.len() + self.flushing.len() >= most_dirty {
                return false;
            }
            if !self.is_clean(unit) && !self.room(capacity) {
                return false;
            }
            self.clean.retain(|(other, _)| *other != unit);
            self.dirty.push_back((unit, self.writes));
            true
        }

        fn drop_unit(&mut self, unit: u64) {
            self.clean.retain(|(other, _)| *other != unit);
            self.dirty.retain(|(other, _)| *other != unit);
            if let Some(found) = self.flushing.iter_mut().find(|other| other.unit == unit) {
                (found.dropped, found.rewritten) = (true, None);
            }
        }

        /// Whether nothing that was written by then is missing in flash.
        fn is_kept(&self, by: u32) -> bool {
            let dirty = self.dirty.iter().map(|(_, written)| *written);
            let flushing = self.flushing.iter().map(|one| one.written);
            let again = self.flushing.iter().filter_map(|one| one.rewritten);
            dirty.chain(flushing).chain(again).all(|written| written > by)
        }
    }

    proptest! {
        #[test]
        fn it_holds_what_a_plain_list_holds(
            script in proptest::collection::vec((0..7u32, 0..40u64), 1..400),
            capacity in 1..20u32,
            most_dirty in 1..20u32,
            keeps_clean in any::<bool>(),
            replacement in prop_oneof![
                Just(BufferReplacement::Lru),
                Just(BufferReplacement::Fifo),
                Just(BufferReplacement::Clock),
                Just(BufferReplacement::Srrip),
            ],
        ) {
            let most_dirty = most_dirty.min(capacity);
            let mut buffer = Buffer::new(capacity, most_dirty, keeps_clean, replacement);
            let mut plain = Plain { replacement, ..Plain::default() };
            let mut under_way = VecDeque::new();
            let mut flushes: Vec<(u32, u32)> = Vec::new();
            let (size, dirty) = (capacity as usize, most_dirty as usize);
            for (kind, unit) in script {
                match kind {
                    0 => {
                        let held = plain.holds(unit);
                        plain.read(unit);
                        prop_assert_eq!(buffer.read(unit), held);
                    }
                    1 => {
                        let taken = plain.write(unit, size, dirty);
                        prop_assert_eq!(buffer.write(unit) != Written::NoRoom, taken);
                    }
                    2 => {
                        buffer.keep(unit);
                        let programmed = plain.flushing.iter().any(|other| other.unit == unit);
                        if keeps_clean && !programmed && !plain.holds(unit) && plain.room(size) {
                            plain.become_clean(unit);
                        }
                    }
                    3 => {
                        let entry = buffer.flush();
                        let oldest = plain.dirty.pop_front();
                        let unit = oldest.map(|(unit, _)| unit);
                        prop_assert_eq!(entry.map(|entry| buffer.unit(entry)), unit);
                        under_way.extend(entry);
                        plain.flushing.extend(oldest.map(|(unit, written)| Programmed {
                            unit,
                            written,
                            rewritten: None,
                            dropped: false,
                        }));
                    }
                    4 => {
                        buffer.drop_unit(unit);
                        plain.drop_unit(unit);
                    }
                    5 => {
                        let epoch = buffer.end_epoch();
                        prop_assert_eq!(epoch.is_none(), plain.is_kept(plain.writes));
                        flushes.extend(epoch.map(|epoch| (epoch, plain.writes)));
                    }
                    _ => {
                        let Some(entry) = under_way.pop_front() else { continue };
                        let Programmed { unit, rewritten, dropped, .. } = plain.flushing.remove(0);
                        prop_assert_eq!(buffer.flushed(entry), (None, None));
                        if let Some(written) = rewritten {
                            plain.dirty.push_back((unit, written));
                        } else if keeps_clean && !dropped {
                            plain.become_clean(unit);
                        }
                    }
                }
                prop_assert_eq!(buffer.dirty() as usize, plain.dirty.len());
                for (epoch, writes) in &flushes {
                    prop_assert_eq!(buffer.is_kept(*epoch), plain.is_kept(*writes));
                }
                for unit in 0..40 {
                    prop_assert_eq!(buffer.holds(unit), plain.holds(unit), "unit {}", unit);
                }
            }
        }
    }
}
