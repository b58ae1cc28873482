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
//!
//! An access whose address is made of what an earlier load gives has its place in the window and begins once that load is done; what
//! comes behind it goes on. Where that load was served by the first level, nothing is outstanding: when its data are there
//! is all that is kept of it, and a chain of such loads keeps the thread back once it is as far behind as the window reaches.

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
    /// Index of its miss, or of the one that it waits for, or [`NO_MISS`].
    pub miss: u32,
    /// How long after that miss it is finished.
    pub after_ps: u32,
    /// What it holds until it is finished.
    pub holds: Holds,
    /// Whether it takes a miss register.
    pub takes_register: bool,
}

impl Outstanding {
    /// An access that begins so, and was served by the core's own caches beyond the first level, so long after that.
    #[inline]
    pub fn served(instruction: u64, write: bool, (start, latency_ps): (Start, u64)) -> Outstanding {
        let (done_ps, miss, after_ps) = match start.known() {
            Ok(at_ps) => (at_ps + latency_ps, NO_MISS, 0),
            Err((miss, after_ps)) => (UNKNOWN, miss, after_ps.saturating_add(latency_ps as u32)),
        };
        let takes_register = miss == NO_MISS;
        Outstanding {
            instruction,
            done_ps,
            miss,
            after_ps,
            holds: Holds::of(write),
            takes_register,
        }
    }
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

/// When the address of an access is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At this time.
    At(u64),
    /// So long after a miss is finished.
    Behind(u32, u32),
    /// Once both of two misses are: of a load that crosses a line neither half is there.
    BehindBoth(u32, u32),
}

impl Start {
    /// When both are. What is known is not later than what is not.
    fn and(self, other: Start) -> Start {
        match (self, other) {
            (Start::At(one_ps), Start::At(other_ps)) => Start::At(one_ps.max(other_ps)),
            (Start::At(_), behind) | (behind, Start::At(_)) => behind,
            (Start::Behind(one, one_ps), Start::Behind(of, of_ps)) if one == of => {
                Start::Behind(one, one_ps.max(of_ps))
            }
            (Start::Behind(one, _), Start::Behind(of, _)) => Start::BehindBoth(one, of),
            (both, _) => both,
        }
    }

    /// The time, or the miss behind which it is, of two the first, and how long behind that.
    pub fn known(self) -> Result<u64, (u32, u32)> {
        match self {
            Start::At(at_ps) => Ok(at_ps),
            Start::Behind(miss, after_ps) => Err((miss, after_ps)),
            Start::BehindBoth(miss, _) => Err((miss, 0)),
        }
    }

    /// What keeps an access from beginning at `now_ps`.
    pub fn block(self, now_ps: u64) -> Block {
        match self {
            Start::At(at_ps) if at_ps <= now_ps => Block::None,
            Start::At(at_ps) => Block::Until(at_ps),
            Start::Behind(miss, _) | Start::BehindBoth(miss, _) => Block::On(miss),
        }
    }
}

/// What keeps a thread from issuing its next access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// Nothing.
    None,
    /// It can go on at this time.
    Until(u64),
    /// It waits for a miss whose time is not known.
    On(u32),
}

/// Loads and stores that were issued while anything was outstanding.
#[derive(Clone, Copy, Debug, Default)]
struct Issued {
    loads: u64,
    stores: u64,
}

/// Loads on which a later access may depend.
pub const LOADS: usize = 16;
/// In the place of a number of loads back: the entry of the page table that a walk has loaded last.
pub const WALKED: u8 = u8::MAX;

/// What an access gives to those that depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// Nothing: a store, or one of the kernel's.
    Nothing,
    /// The value of a load.
    Load,
    /// The rest of the value of the load before, which crosses a line.
    RestOfLoad,
    /// An entry of the page table, for the access that waits for it.
    Walked,
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
    /// When the data of the program's last loads are there, one behind the other, and where the last of them stands.
    loads: [Start; LOADS],
    last_load: usize,
    /// The same of the entry of the page table that was loaded by itself last.
    walked: Start,
    /// How far, in time, instructions of a whole window reach.
    reach_ps: u64,
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
            loads: [Start::At(0); LOADS],
            last_load: 0,
            walked: Start::At(0),
            reach_ps: u64::MAX,
            gone: 0,
            fenced: 0,
            fenced_stores: 0,
        }
    }

    /// What is outstanding, of which nothing is left here.
    #[must_use]
    pub fn take(&mut self) -> Window {
        let empty = Window { reach_ps: self.reach_ps, ..Window::new(self.sizes) };
        std::mem::replace(self, empty)
    }

    /// Instructions of a whole window take so long from now on.
    #[inline]
    pub fn set_reach(&mut self, reach_ps: u64) {
        self.reach_ps = reach_ps;
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
    pub fn push(&mut self, entry: Outstanding, gives: Gives) {
        self.taken += usize::from(entry.takes_register);
        self.entries.push_back((entry, self.issued));
        match entry.holds {
            Holds::Window => {
                let done = match entry.done_ps {
                    UNKNOWN => Start::Behind(entry.miss, entry.after_ps),
                    done_ps => Start::At(done_ps),
                };
                self.give(done, gives);
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

    /// When the address of an access is known that comes at `now_ps` and depends on the load so many loads back, or on none.
    #[inline]
    pub fn start(&self, loads_back: u8, now_ps: u64) -> Start {
        if loads_back == 0 {
            return Start::At(now_ps);
        }
        let load = self.last_load.wrapping_sub(usize::from(loads_back) - 1);
        match if loads_back == WALKED { self.walked } else { self.loads[load % LOADS] } {
            Start::At(at_ps) => Start::At(at_ps.max(now_ps)),
            behind => behind,
        }
    }

    /// Notes when what an access gives is there.
    #[inline]
    fn give(&mut self, done: Start, gives: Gives) {
        let load = match gives {
            Gives::Nothing => return,
            Gives::Walked => &mut self.walked,
            Gives::Load | Gives::RestOfLoad => {
                self.last_load = self.last_load.wrapping_add(usize::from(gives == Gives::Load));
                &mut self.loads[self.last_load % LOADS]
            }
        };
        *load = if gives == Gives::RestOfLoad { load.and(done) } else { done };
    }

    /// An access that begins so was served by the first level, after `latency_ps`. It has its place in a queue behind what is
    /// outstanding. The time until which the thread is kept back, as a chain of loads of which it is one is as far behind as
    /// the window reaches.
    #[inline]
    pub fn was_immediate(
        &mut self,
        (start, gives): (Start, Gives),
        (write, instruction): (bool, u64),
        (now_ps, latency_ps): (u64, u64),
    ) -> u64 {
        if !self.entries.is_empty() {
            self.take_place(write, instruction);
        }
        if gives == Gives::Nothing {
            return now_ps;
        }
        let done = match start {
            Start::At(at_ps) => Start::At(at_ps + latency_ps),
            Start::Behind(miss, after_ps) => {
                Start::Behind(miss, after_ps.saturating_add(latency_ps as u32))
            }
            both => both,
        };
        self.give(done, gives);
        match done {
            Start::At(at_ps) => now_ps.max(at_ps.saturating_sub(self.reach_ps)),
            _ => now_ps,
        }
    }

    /// What waited for its address has it, and takes a miss register: of those there may be more than there are, as many as
    /// wait for one load.
    pub fn begin(&mut self, miss: u32) {
        let waits = |it: &&mut Outstanding| it.miss == miss && it.done_ps == UNKNOWN;
        if let Some(entry) = self.entries.iter_mut().map(|(entry, _)| entry).find(waits) {
            self.taken += usize::from(!entry.takes_register);
            entry.takes_register = true;
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

    /// What keeps the access with this instruction count from being issued at `now_ps`, but for its address. Call
    /// [`Window::retire`] first.
    #[inline]
    pub fn blocks(&self, instruction: u64, write: bool, now_ps: u64) -> Block {
        if self.entries.is_empty() {
            return Block::None;
        }
        self.blocks_slow(instruction, write, now_ps)
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
        let waits = entries.map(|(_, entry)| entry);
        if let Some(unknown) = waits.clone().find(|entry| entry.done_ps == UNKNOWN) {
            return Block::On(unknown.miss);
        }
        waits.max_by_key(|entry| entry.done_ps).map_or(Block::None, |it| Self::wait_for(*it))
    }

    #[inline]
    fn blocks_slow(&self, instruction: u64, write: bool, now_ps: u64) -> Block {
        if self.fenced_stores > self.gone {
            match self.fence_block(write, now_ps) {
                Block::None => {}
                block => return block,
            }
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
            Some(first) => Block::Until(first.done_ps),
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
        if entry.done_ps == UNKNOWN { Block::On(entry.miss) } else { Block::Until(entry.done_ps) }
    }

    /// What has to be finished before the window is empty: unknown times first.
    pub fn drain_block(&self, now_ps: u64) -> Block {
        if let Some(entry) = self.outstanding().find(|e| e.done_ps == UNKNOWN) {
            return Block::On(entry.miss);
        }
        let last = self.outstanding().filter(|e| e.done_ps > now_ps).max_by_key(|e| e.done_ps);
        last.map_or(Block::None, |e| Block::Until(e.done_ps))
    }

    /// A miss is finished.
    pub fn finish(&mut self, miss: u32, done_ps: u64) {
        for (entry, _) in &mut self.entries {
            if entry.miss == miss && entry.done_ps == UNKNOWN {
                entry.done_ps = done_ps + u64::from(entry.after_ps);
                if entry.takes_register {
                    entry.takes_register = false;
                    self.taken -= 1;
                }
            }
        }
        for load in self.loads.iter_mut().chain([&mut self.walked]) {
            *load = match *load {
                Start::Behind(of, after_ps) if of == miss => {
                    Start::At(done_ps + u64::from(after_ps))
                }
                Start::BehindBoth(of, other) if of == miss => Start::Behind(other, 0),
                Start::BehindBoth(other, of) if of == miss => Start::Behind(other, 0),
                load => load,
            };
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
        Outstanding {
            instruction,
            done_ps,
            miss,
            after_ps: 0,
            holds: Holds::Window,
            takes_register: true,
        }
    }

    /// An access is served by the first level.
    fn at_once(window: &mut Window, write: bool, instruction: u64) {
        let gives = if write { Gives::Nothing } else { Gives::Load };
        window.was_immediate((Start::At(0), gives), (write, instruction), (0, 0));
    }

    fn window(reorder_window: u64, miss_registers: usize) -> Window {
        let (load_queue, store_queue) = (u64::MAX, u64::MAX);
        Window::new(Sizes { reorder_window, miss_registers, load_queue, store_queue })
    }

    #[test]
    fn a_load_waits_for_the_oldest_load_where_its_queue_is_full_whatever_the_loads_between_took() {
        let sizes = Sizes { load_queue: 4, ..window(1000, 8).sizes };
        let mut window = Window::new(sizes);
        window.push(load(0, UNKNOWN, 7), Gives::Load);
        at_once(&mut window, true, 1);
        at_once(&mut window, false, 1);
        window.push(load(2, 50, NO_MISS), Gives::Load);
        assert_eq!(window.blocks(3, false, 60), Block::None, "three of four");
        at_once(&mut window, false, 3);
        assert_eq!(window.blocks(3, false, 60), Block::None, "of the same instruction");
        at_once(&mut window, false, 3);
        assert_eq!(window.blocks(4, false, 60), Block::On(7));
        assert_eq!(window.blocks(4, true, 60), Block::None, "stores have their own");
        window.finish(7, 70);
        window.retire(70);
        assert!(window.is_empty(), "those behind retire with it");
        assert_eq!(window.blocks(4, false, 70), Block::None);
    }

    #[test]
    fn stores_leave_their_queue_in_order_and_not_before_older_loads_are_done() {
        let sizes = Sizes { store_queue: 2, ..window(1000, 8).sizes };
        for oldest in [Holds::Window, Holds::StoreQueue] {
            let mut window = Window::new(sizes);
            window.push(Outstanding { holds: Holds::Nothing, ..load(0, UNKNOWN, 6) }, Gives::Load);
            window.push(Outstanding { holds: oldest, ..load(0, UNKNOWN, 7) }, Gives::Load);
            at_once(&mut window, true, 1);
            if oldest == Holds::Window {
                assert_eq!(window.blocks(2, true, 0), Block::None, "one of two");
                at_once(&mut window, true, 2);
            }
            assert_eq!(
                window.blocks(2, true, 0),
                if oldest == Holds::Window { Block::None } else { Block::On(7) },
                "{oldest:?}: of the same instruction, or not"
            );
            assert_eq!(window.blocks(3, true, 0), Block::On(7), "{oldest:?}");
            assert_eq!(window.blocks(3, false, 0), Block::None, "loads have their own");
            window.finish(7, 50);
            window.retire(50);
            assert_eq!(window.blocks(3, true, 50), Block::None);
        }
    }

    /// Behind an entry that is not done for long, what is done goes, and nothing else changes.
    #[test]
    fn a_window_stays_small_behind_what_is_not_done() {
        let mut window = window(1_000_000_000, 8);
        window.push(Outstanding { holds: Holds::Nothing, ..load(0, UNKNOWN, 1) }, Gives::Load);
        window
            .push(Outstanding { holds: Holds::StoreQueue, ..load(0, UNKNOWN, 2) }, Gives::Nothing);
        for step in 1..10_000 {
            if step == 5_000 {
                window.push(
                    Outstanding { holds: Holds::StoreQueue, ..load(step, UNKNOWN, 3) },
                    Gives::Nothing,
                );
                window.fence(true);
            }
            window.retire(10 * step);
            window.push(load(step, 10 * step + 10, NO_MISS), Gives::Load);
            assert!(window.len() <= 70, "{} at {step}", window.len());
        }
        window.finish(2, 200_000);
        window.retire(200_000);
        assert_eq!(window.blocks(10_000, true, 200_000), Block::On(1), "before the fence");
        assert_eq!(window.blocks(10_000, false, 200_000), Block::None);
        window.finish(1, 200_000);
        assert_eq!(window.blocks(10_000, true, 200_000), Block::On(3), "a store, too");
        window.finish(3, 200_000);
        assert_eq!(window.blocks(10_000, true, 200_000), Block::None);
        window.retire(200_000);
        assert!(window.is_empty());
    }

    #[test]
    fn the_window_holds_one_instruction_too_late_and_not_one_too_early() {
        let mut window = window(128, 8);
        window.push(load(1000, UNKNOWN, 7), Gives::Load);
        assert_eq!(window.blocks(1127, false, 0), Block::None);
        assert_eq!(window.blocks(1128, false, 0), Block::On(7));
    }

    #[test]
    fn stores_do_not_hold_the_window() {
        let mut window = window(128, 8);
        window
            .push(Outstanding { holds: Holds::StoreQueue, ..load(0, UNKNOWN, 1) }, Gives::Nothing);
        assert_eq!(window.blocks(10_000, false, 0), Block::None);
    }

    #[test]
    fn registers_bound_the_misses_and_come_free_out_of_order() {
        let mut window = window(1000, 2);
        window.push(load(0, UNKNOWN, 0), Gives::Load);
        window.push(load(1, UNKNOWN, 1), Gives::Load);
        assert_eq!(window.register_block(), Block::On(0));
        window.finish(1, 50);
        window.retire(50);
        assert_eq!(window.register_block(), Block::None);
        assert_eq!(window.len(), 2, "the first still holds its place in order");
    }

    #[test]
    fn a_dependent_access_begins_when_the_last_load_is_done_and_others_at_once() {
        let mut window = window(1000, 8);
        window.push(load(0, 70, NO_MISS), Gives::Load);
        assert_eq!(window.start(1, 10), Start::At(70));
        assert_eq!(window.start(1, 80), Start::At(80));
        assert_eq!(window.start(0, 10), Start::At(10));
        window.push(load(1, UNKNOWN, 4), Gives::Load);
        assert_eq!(window.start(1, 10), Start::Behind(4, 0));
        assert_eq!(window.start(1, 10).block(10), Block::On(4));
        assert_eq!(window.start(0, 10), Start::At(10));
        window
            .push(Outstanding { holds: Holds::StoreQueue, ..load(2, UNKNOWN, 5) }, Gives::Nothing);
        assert_eq!(window.start(1, 10), Start::Behind(4, 0), "no load");
        window.finish(4, 90);
        assert_eq!(window.start(1, 10).block(10), Block::Until(90));
        assert_eq!(window.start(1, 90).block(90), Block::None);
    }

    #[test]
    fn loads_are_found_as_far_back_as_they_lie_and_are_there_with_their_later_half() {
        let mut window = window(1000, 8);
        for number in 0..u64::from(LOADS as u8) {
            let entry = load(number, 100 + number, NO_MISS);
            window.push(Outstanding { holds: Holds::Window, ..entry }, Gives::Load);
            window.push(Outstanding { done_ps: 900, ..entry }, Gives::Nothing);
        }
        for back in 1..=LOADS as u8 {
            assert_eq!(window.start(back, 0), Start::At(100 + LOADS as u64 - u64::from(back)));
        }
        window.push(load(20, 300, NO_MISS), Gives::Load);
        window.push(load(20, 200, NO_MISS), Gives::RestOfLoad);
        assert_eq!([1, 2].map(|it| window.start(it, 0)), [300, 115].map(Start::At));
        window.push(load(21, UNKNOWN, 5), Gives::Load);
        window.push(load(21, 800, NO_MISS), Gives::RestOfLoad);
        assert_eq!(window.start(1, 0), Start::Behind(5, 0), "the half that is not known counts");
        window.push(load(22, UNKNOWN, 6), Gives::Load);
        window.push(load(22, UNKNOWN, 7), Gives::RestOfLoad);
        assert_eq!(window.start(1, 0).block(0), Block::On(6));
        window.finish(6, 400);
        assert_eq!(window.start(1, 0).block(400), Block::On(7), "and the other half");
        window.push(load(23, UNKNOWN, 8), Gives::Walked);
        assert_eq!(window.start(WALKED, 0), Start::Behind(8, 0));
        assert_eq!(window.start(1, 0), Start::Behind(7, 0), "an entry of the page table is none");
        [5, 7, 8].into_iter().for_each(|miss| window.finish(miss, 500));
        assert_eq!([1, 2, WALKED].map(|it| window.start(it, 0)), [Start::At(500); 3]);
    }

    #[test]
    fn what_waits_for_a_miss_is_done_so_long_after_it_and_takes_its_register_as_it_begins() {
        let mut window = window(1000, 1);
        window.push(load(0, UNKNOWN, 1), Gives::Load);
        // Two levels of hits that wait for it, of which one is outstanding, and a miss that waits for them.
        let start = window.start(1, 10);
        window.was_immediate((start, Gives::Load), (false, 1), (10, 4));
        let hit = Outstanding { after_ps: 4 + 12, takes_register: false, ..load(2, UNKNOWN, 1) };
        window.push(hit, Gives::Load);
        assert_eq!(window.start(1, 10), Start::Behind(1, 16));
        window.push(Outstanding { takes_register: false, ..load(3, UNKNOWN, 2) }, Gives::Load);
        assert_eq!(window.register_block(), Block::On(1), "one register");
        window.finish(1, 100);
        assert_eq!(window.register_block(), Block::None);
        window.begin(2);
        assert_eq!(window.register_block(), Block::On(2));
        window.retire(115);
        assert_eq!(window.len(), 2, "the hit is not done");
        window.retire(116);
        assert_eq!(window.len(), 1);
    }

    /// Of loads that the first level serves, one behind the other, the window holds so many as reach as far as it does.
    #[test]
    fn a_chain_of_hits_keeps_the_thread_back_once_it_is_a_window_behind() {
        let mut window = window(10, 8);
        window.set_reach(10 * 2);
        let mut now_ps = 0;
        for step in 1..100 {
            let start = window.start(1, now_ps + 2);
            now_ps = window.was_immediate((start, Gives::Load), (false, step), (now_ps + 2, 8));
            assert_eq!(now_ps, (2 * step).max((8 * step + 2).saturating_sub(20)), "{step}");
        }
        let chain = window.start(1, now_ps);
        let other = (Start::At(now_ps), Gives::Load);
        assert_eq!(window.was_immediate(other, (false, 100), (now_ps, 8)), now_ps);
        assert_eq!(window.start(1, now_ps), Start::At(now_ps + 8), "another chain");
        assert_eq!(window.start(2, now_ps), chain);
        let store = (chain, Gives::Nothing);
        assert_eq!(window.was_immediate(store, (true, 101), (now_ps, 8)), now_ps);
        assert_eq!(window.start(2, now_ps), chain, "a store gives nothing");
    }

    #[test]
    fn a_fence_of_stores_holds_stores_for_stores_and_a_full_one_all_for_all() {
        let store = |miss| Outstanding { holds: Holds::StoreQueue, ..load(0, UNKNOWN, miss) };
        let mut window = window(1000, 8);
        window.push(load(0, UNKNOWN, 1), Gives::Load);
        window.push(store(2), Gives::Nothing);
        window.fence(true);
        window.push(store(3), Gives::Nothing);
        let (loads, stores) = (false, true);
        assert_eq!(window.blocks(1, loads, 0), Block::None);
        assert_eq!(window.blocks(1, stores, 0), Block::On(2), "not for a load, nor behind it");
        window.finish(2, 50);
        window.retire(50);
        assert_eq!(window.blocks(1, stores, 50), Block::None);
        window.fence(false);
        assert!(matches!(window.blocks(1, loads, 50), Block::On(1 | 3)));
        window.finish(1, 60);
        window.finish(3, 70);
        window.retire(60);
        assert!(matches!(window.blocks(1, loads, 60), Block::Until(70)));
        window.retire(70);
        window.push(load(2, UNKNOWN, 4), Gives::Load);
        assert_eq!(window.blocks(3, stores, 70), Block::None, "what came behind it");
    }
}
