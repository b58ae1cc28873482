//! The reorder window of a hardware thread: which accesses it is still waiting for.
//!
//! A thread goes on past an unfinished access until the oldest unfinished load is `reorder_window`
//! instructions behind, or all miss registers are taken, or the queue for what it does next is full. A load has its
//! place in the load queue until it retires, in order: until no load before it is unfinished. A store retires into the
//! store queue: it takes a miss register, but does not hold the window; it has its place until it is in the caches, in
//! order (Intel SDM volume 3, §9.2.2: stores are not reordered with stores, nor go before older loads). What
//! passes the caches by leaves the queue at once, for a buffer of its own. What one instruction loads, or stores, has one place:
//! a string instruction moves lines, and here is an access for each element. Behind a fence, accesses wait for those before it: all for all, or
//! stores for stores.

use std::collections::VecDeque;

/// The time is not known yet: it comes with a response.
pub const UNKNOWN: u64 = u64::MAX;
/// The access is not in any slab: its time was known from the start.
pub const NO_MISS: u32 = u32::MAX;

/// An access that is not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// The thread's instruction count when it was issued.
    pub instruction: u64,
    /// When it will be finished, or [`UNKNOWN`].
    pub done_ps: u64,
    /// Index of its miss, or [`NO_MISS`].
    pub miss: u32,
    /// What it holds until it is finished.
    pub holds: Holds,
    /// Whether it takes a miss register.
    pub takes_register: bool,
}

/// What an access holds until it is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// The reorder window, and with it both queues: a load.
    Window,
    /// The store queue: a store.
    StoreQueue,
    /// Neither: what passes the caches by.
    Nothing,
}

impl Holds {
    /// Of an access through the caches.
    pub fn of(write: bool) -> Holds {
        if write { Holds::StoreQueue } else { Holds::Window }
    }
}

/// Sizes of what a thread has in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Instructions from the oldest unfinished load.
    pub reorder_window: u64,
    /// Misses.
    pub miss_registers: usize,
    /// Loads that have not retired.
    pub load_queue: u64,
    /// Stores that are not in the caches.
    pub store_queue: u64,
}

impl Sizes {
    /// The part of one of several that share it.
    #[must_use]
    pub fn part(self, of: usize) -> Sizes {
        Sizes {
            reorder_window: self.reorder_window / of as u64,
            miss_registers: self.miss_registers / of,
            load_queue: self.load_queue / of as u64,
            store_queue: self.store_queue / of as u64,
        }
    }
}

/// What keeps a thread from issuing its next access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// Nothing.
    None,
    /// It can go on at this time, when the given entry's data are there.
    Until(u64, Outstanding),
    /// It waits for a miss whose time is not known.
    On(u32),
}

/// Loads and stores that were issued while anything was outstanding.
#[derive(Clone, Copy, Debug, Default)]
struct Issued {
    loads: u64,
    stores: u64,
}

/// So many entries are few.
const CROWDED: usize = 64;

/// The window.
#[derive(Clone, Debug)]
pub struct Window {
    /// Each with the loads and stores that there had been before it.
    entries: VecDeque<(Outstanding, Issued)>,
    /// So many entries there are before those that are done are looked for among them.
    crowded: usize,
    sizes: Sizes,
    taken: usize,
    issued: Issued,
    /// Instruction counts of the load and of the store that took a place last.
    last_load_at: u64,
    last_store_at: u64,
    last_load: Option<Outstanding>,
    /// Entries that have left the window.
    gone: u64,
    /// Entries before the last fence, those that are gone included: of all accesses, and of stores.
    fenced: u64,
    fenced_stores: u64,
}

impl Window {
    /// An empty window.
    pub fn new(sizes: Sizes) -> Self {
        Window {
            entries: VecDeque::with_capacity(64),
            crowded: CROWDED,
            sizes,
            taken: 0,
            issued: Issued::default(),
            last_load_at: u64::MAX,
            last_store_at: u64::MAX,
            last_load: None,
            gone: 0,
            fenced: 0,
            fenced_stores: 0,
        }
    }

    /// What is outstanding, of which nothing is left here.
    #[must_use]
    pub fn take(&mut self) -> Window {
        let empty = Window::new(self.sizes);
        std::mem::replace(self, empty)
    }

    /// It has so much of all from now on. What is outstanding beyond that stays until it is done.
    #[inline]
    pub fn set_sizes(&mut self, sizes: Sizes) {
        self.sizes = sizes;
    }

    /// Whether nothing is outstanding.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Lets go of what is finished by `now_ps`.
    #[inline]
    pub fn retire(&mut self, now_ps: u64) {
        while let Some((first, _)) = self.entries.front() {
            if first.done_ps > now_ps {
                break;
            }
            self.taken -= usize::from(first.takes_register);
            self.entries.pop_front();
            self.gone += 1;
        }
        if self.entries.len() >= self.crowded {
            self.thin_out(now_ps);
        }
        if self.taken >= self.sizes.miss_registers {
            self.release_registers(now_ps);
        }
    }

    /// Behind one that is not done for long (a buffer that stays open, a store from a slow store), those that are done go: nobody
    /// asks for them. So what is looked through stays as long as what is outstanding.
    #[cold]
    fn thin_out(&mut self, now_ps: u64) {
        let (gone, mut index) = (self.gone, 0);
        let (mut behind_all, mut behind_stores, mut removed) = (0, 0, 0);
        let (fenced, fenced_stores) = (self.fenced, self.fenced_stores);
        let taken = &mut self.taken;
        self.entries.retain(|(entry, _)| {
            let stays = entry.done_ps > now_ps;
            if !stays {
                *taken -= usize::from(entry.takes_register);
                removed += 1;
                behind_all += u64::from(gone + index >= fenced);
                behind_stores += u64::from(gone + index >= fenced_stores);
            }
            index += 1;
            stays
        });
        // As if they had left at the front: before a fence is what was before it and stays.
        self.gone += removed;
        self.fenced += behind_all;
        self.fenced_stores += behind_stores;
        self.crowded = CROWDED.max(2 * self.entries.len());
    }

    /// Registers come free out of order.
    fn release_registers(&mut self, now_ps: u64) {
        for (entry, _) in &mut self.entries {
            if entry.takes_register && entry.done_ps <= now_ps {
                entry.takes_register = false;
                self.taken -= 1;
            }
        }
    }

    /// Enters an access.
    #[inline]
    pub fn push(&mut self, entry: Outstanding) {
        self.taken += usize::from(entry.takes_register);
        self.entries.push_back((entry, self.issued));
        match entry.holds {
            Holds::Window => {
                self.last_load = Some(entry);
                self.take_place(false, entry.instruction);
            }
            Holds::StoreQueue => self.take_place(true, entry.instruction),
            Holds::Nothing => {}
        }
    }

    /// Whether an access has its place in a queue by an earlier one of the same instruction.
    #[inline]
    fn has_place(&self, write: bool, instruction: u64) -> bool {
        instruction == if write { self.last_store_at } else { self.last_load_at }
    }

    #[inline]
    fn take_place(&mut self, write: bool, instruction: u64) {
        let new = u64::from(!self.has_place(write, instruction));
        if write {
            self.issued.stores += new;
            self.last_store_at = instruction;
        } else {
            self.issued.loads += new;
            self.last_load_at = instruction;
        }
    }

    /// An access was served at once. It has its place in a queue behind what is outstanding, and a later access that
    /// depends on a load need not wait.
    #[inline]
    pub fn was_immediate(&mut self, write: bool, instruction: u64) {
        if self.entries.is_empty() {
            return;
        }
        self.take_place(write, instruction);
        if !write {
            self.last_load = None;
        }
    }

    /// Accesses from now on wait until those before are done; only stores for stores, if so.
    pub fn fence(&mut self, stores_only: bool) {
        let before = self.gone + self.entries.len() as u64;
        self.fenced_stores = before;
        if !stores_only {
            self.fenced = before;
        }
    }

    /// What keeps the access with this instruction count from being issued at `now_ps`. Call
    /// [`Window::retire`] first.
    #[inline]
    pub fn blocks(&self, instruction: u64, write: bool, dependent: bool, now_ps: u64) -> Block {
        if self.entries.is_empty() {
            return Block::None;
        }
        self.blocks_slow(instruction, write, dependent, now_ps)
    }

    /// What a fence has this access wait for.
    #[cold]
    fn fence_block(&self, write: bool, now_ps: u64) -> Block {
        let within = |fenced: u64| fenced.saturating_sub(self.gone) as usize;
        let (all, stores) = (within(self.fenced), within(self.fenced_stores));
        let entries = self.entries.iter().map(|(entry, _)| entry).enumerate();
        let entries = entries.filter(|(index, entry)| {
            let is_store = entry.holds != Holds::Window;
            let fenced = *index < all || write && *index < stores && is_store;
            fenced && entry.done_ps > now_ps
        });
        let last = entries.max_by_key(|(_, entry)| entry.done_ps);
        last.map_or(Block::None, |(_, entry)| Self::wait_for(*entry))
    }

    #[inline]
    fn blocks_slow(&self, instruction: u64, write: bool, dependent: bool, now_ps: u64) -> Block {
        if self.fenced_stores > self.gone {
            match self.fence_block(write, now_ps) {
                Block::None => {}
                block => return block,
            }
        }
        if dependent
            && let Some(load) = self.last_load
            && load.done_ps > now_ps
        {
            return Self::wait_for(load);
        }
        let mut unfinished = self.entries.iter().filter(|(entry, _)| entry.done_ps > now_ps);
        let needs_place = !self.has_place(write, instruction);
        if write && needs_place {
            // Behind the oldest that is not done, which keeps all stores behind it where they are.
            let mut oldest = unfinished.clone();
            if let Some((oldest, before)) = oldest.find(|(entry, _)| entry.holds != Holds::Nothing)
                && self.issued.stores - before.stores >= self.sizes.store_queue
            {
                return Self::wait_for(*oldest);
            }
        }
        let oldest = unfinished.find(|(entry, _)| entry.holds == Holds::Window);
        if let Some((oldest, before)) = oldest {
            let loads = self.issued.loads - before.loads;
            if instruction.saturating_sub(oldest.instruction) >= self.sizes.reorder_window
                || !write && needs_place && loads >= self.sizes.load_queue
            {
                return Self::wait_for(*oldest);
            }
        }
        Block::None
    }

    /// What keeps an access that needs a miss register from getting one.
    pub fn register_block(&self) -> Block {
        if self.taken < self.sizes.miss_registers {
            return Block::None;
        }
        let known = self.outstanding().filter(|e| e.takes_register && e.done_ps != UNKNOWN);
        match known.min_by_key(|e| e.done_ps) {
            Some(first) => Block::Until(first.done_ps, *first),
            None => self.oldest_unknown(),
        }
    }

    fn outstanding(&self) -> impl Iterator<Item = &Outstanding> {
        self.entries.iter().map(|(entry, _)| entry)
    }

    fn oldest_unknown(&self) -> Block {
        let unknown = self.outstanding().find(|e| e.takes_register && e.done_ps == UNKNOWN);
        unknown.map_or(Block::None, |e| Block::On(e.miss))
    }

    fn wait_for(entry: Outstanding) -> Block {
        if entry.done_ps == UNKNOWN {
            Block::On(entry.miss)
        } else {
            Block::Until(entry.done_ps, entry)
        }
    }

    /// What has to be finished before the window is empty: unknown times first.
    pub fn drain_block(&self, now_ps: u64) -> Block {
        if let Some(entry) = self.outstanding().find(|e| e.done_ps == UNKNOWN) {
            return Block::On(entry.miss);
        }
        let last = self.outstanding().filter(|e| e.done_ps > now_ps).max_by_key(|e| e.done_ps);
        last.map_or(Block::None, |e| Block::Until(e.done_ps, *e))
    }

    /// A miss is finished.
    pub fn finish(&mut self, miss: u32, done_ps: u64) {
        for (entry, _) in &mut self.entries {
            if entry.miss == miss {
                entry.done_ps = done_ps;
                if entry.takes_register {
                    entry.takes_register = false;
                    self.taken -= 1;
                }
            }
        }
        if let Some(load) = &mut self.last_load
            && load.miss == miss
        {
            load.done_ps = done_ps;
        }
    }

    /// Accesses outstanding.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(instruction: u64, done_ps: u64, miss: u32) -> Outstanding {
        Outstanding { instruction, done_ps, miss, holds: Holds::Window, takes_register: true }
    }

    fn window(reorder_window: u64, miss_registers: usize) -> Window {
        let (load_queue, store_queue) = (u64::MAX, u64::MAX);
        Window::new(Sizes { reorder_window, miss_registers, load_queue, store_queue })
    }

    #[test]
    fn a_load_waits_for_the_oldest_load_where_its_queue_is_full_whatever_the_loads_between_took() {
        let sizes = Sizes { load_queue: 4, ..window(1000, 8).sizes };
        let mut window = Window::new(sizes);
        window.push(load(0, UNKNOWN, 7));
        window.was_immediate(true, 1);
        window.was_immediate(false, 1);
        window.push(load(2, 50, NO_MISS));
        assert_eq!(window.blocks(3, false, false, 60), Block::None, "three of four");
        window.was_immediate(false, 3);
        assert_eq!(window.blocks(3, false, false, 60), Block::None, "of the same instruction");
        window.was_immediate(false, 3);
        assert_eq!(window.blocks(4, false, false, 60), Block::On(7));
        assert_eq!(window.blocks(4, true, false, 60), Block::None, "stores have their own");
        window.finish(7, 70);
        window.retire(70);
        assert!(window.is_empty(), "those behind retire with it");
        assert_eq!(window.blocks(4, false, false, 70), Block::None);
    }

    #[test]
    fn stores_leave_their_queue_in_order_and_not_before_older_loads_are_done() {
        let sizes = Sizes { store_queue: 2, ..window(1000, 8).sizes };
        for oldest in [Holds::Window, Holds::StoreQueue] {
            let mut window = Window::new(sizes);
            window.push(Outstanding { holds: Holds::Nothing, ..load(0, UNKNOWN, 6) });
            window.push(Outstanding { holds: oldest, ..load(0, UNKNOWN, 7) });
            window.was_immediate(true, 1);
            if oldest == Holds::Window {
                assert_eq!(window.blocks(2, true, false, 0), Block::None, "one of two");
                window.was_immediate(true, 2);
            }
            assert_eq!(
                window.blocks(2, true, false, 0),
                if oldest == Holds::Window { Block::None } else { Block::On(7) },
                "{oldest:?}: of the same instruction, or not"
            );
            assert_eq!(window.blocks(3, true, false, 0), Block::On(7), "{oldest:?}");
            assert_eq!(window.blocks(3, false, false, 0), Block::None, "loads have their own");
            window.finish(7, 50);
            window.retire(50);
            assert_eq!(window.blocks(3, true, false, 50), Block::None);
        }
    }

    /// Behind an entry that is not done for long, what is done goes, and nothing else changes.
    #[test]
    fn a_window_stays_small_behind_what_is_not_done() {
        let mut window = window(1_000_000_000, 8);
        window.push(Outstanding { holds: Holds::Nothing, ..load(0, UNKNOWN, 1) });
        window.push(Outstanding { holds: Holds::StoreQueue, ..load(0, UNKNOWN, 2) });
        for step in 1..10_000 {
            if step == 5_000 {
                window.push(Outstanding { holds: Holds::StoreQueue, ..load(step, UNKNOWN, 3) });
                window.fence(true);
            }
            window.retire(10 * step);
            window.push(load(step, 10 * step + 10, NO_MISS));
            assert!(window.len() <= 70, "{} at {step}", window.len());
        }
        window.finish(2, 200_000);
        window.retire(200_000);
        assert_eq!(window.blocks(10_000, true, false, 200_000), Block::On(3), "before the fence");
        window.finish(3, 200_000);
        assert_eq!(window.blocks(10_000, true, false, 200_000), Block::On(1), "a store, too");
        assert_eq!(window.blocks(10_000, false, false, 200_000), Block::None);
        window.finish(1, 200_000);
        assert_eq!(window.blocks(10_000, true, false, 200_000), Block::None);
        window.retire(200_000);
        assert!(window.is_empty());
    }

    #[test]
    fn the_window_holds_one_instruction_too_late_and_not_one_too_early() {
        let mut window = window(128, 8);
        window.push(load(1000, UNKNOWN, 7));
        assert_eq!(window.blocks(1127, false, false, 0), Block::None);
        assert_eq!(window.blocks(1128, false, false, 0), Block::On(7));
    }

    #[test]
    fn stores_do_not_hold_the_window() {
        let mut window = window(128, 8);
        window.push(Outstanding { holds: Holds::StoreQueue, ..load(0, UNKNOWN, 1) });
        assert_eq!(window.blocks(10_000, false, false, 0), Block::None);
    }

    #[test]
    fn registers_bound_the_misses_and_come_free_out_of_order() {
        let mut window = window(1000, 2);
        window.push(load(0, UNKNOWN, 0));
        window.push(load(1, UNKNOWN, 1));
        assert_eq!(window.register_block(), Block::On(0));
        window.finish(1, 50);
        window.retire(50);
        assert_eq!(window.register_block(), Block::None);
        assert_eq!(window.len(), 2, "the first still holds its place in order");
    }

    #[test]
    fn a_dependent_access_waits_for_the_last_load() {
        let mut window = window(1000, 8);
        window.push(load(0, 70, NO_MISS));
        let entry = load(0, 70, NO_MISS);
        assert_eq!(window.blocks(1, false, true, 10), Block::Until(70, entry));
        assert_eq!(window.blocks(1, false, true, 70), Block::None);
        assert_eq!(window.blocks(1, false, false, 10), Block::None);
    }

    #[test]
    fn a_fence_of_stores_holds_stores_for_stores_and_a_full_one_all_for_all() {
        let store = |miss| Outstanding { holds: Holds::StoreQueue, ..load(0, UNKNOWN, miss) };
        let mut window = window(1000, 8);
        window.push(load(0, UNKNOWN, 1));
        window.push(store(2));
        window.fence(true);
        window.push(store(3));
        let (loads, stores) = (false, true);
        assert_eq!(window.blocks(1, loads, false, 0), Block::None);
        assert_eq!(
            window.blocks(1, stores, false, 0),
            Block::On(2),
            "not for a load, nor behind it"
        );
        window.finish(2, 50);
        window.retire(50);
        assert_eq!(window.blocks(1, stores, false, 50), Block::None);
        window.fence(false);
        assert!(matches!(window.blocks(1, loads, false, 50), Block::On(1 | 3)));
        window.finish(1, 60);
        window.finish(3, 70);
        window.retire(60);
        assert!(matches!(window.blocks(1, loads, false, 60), Block::Until(70, _)));
        window.retire(70);
        window.push(load(2, UNKNOWN, 4));
        assert_eq!(window.blocks(3, stores, false, 70), Block::None, "what came behind it");
    }
}
