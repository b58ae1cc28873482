//! The reorder window of a hardware thread: which accesses it is still waiting for.
//!
//! A thread goes on past an unfinished access until the oldest unfinished load is `reorder_window`
//! instructions behind, or all miss registers are taken. Stores retire into a buffer: they take a
//! miss register, but do not hold the window. Behind a fence, accesses wait for those before it: all for all, or
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
    /// Whether it holds the reorder window (loads do).
    pub holds_window: bool,
    /// Whether it takes a miss register.
    pub takes_register: bool,
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

/// The window.
#[derive(Clone, Debug)]
pub struct Window {
    entries: VecDeque<Outstanding>,
    reorder_window: u64,
    registers: usize,
    taken: usize,
    last_load: Option<Outstanding>,
    /// Entries that have left the window.
    gone: u64,
    /// Entries before the last fence, those that are gone included: of all accesses, and of stores.
    fenced: u64,
    fenced_stores: u64,
}

impl Window {
    /// An empty window.
    pub fn new(reorder_window: u32, miss_registers: u32) -> Self {
        Window {
            entries: VecDeque::with_capacity(64),
            reorder_window: u64::from(reorder_window),
            registers: miss_registers as usize,
            taken: 0,
            last_load: None,
            gone: 0,
            fenced: 0,
            fenced_stores: 0,
        }
    }

    /// What is outstanding, of which nothing is left here.
    #[must_use]
    pub fn take(&mut self) -> Window {
        let empty = Window {
            entries: VecDeque::with_capacity(64),
            taken: 0,
            last_load: None,
            gone: 0,
            fenced: 0,
            fenced_stores: 0,
            ..*self
        };
        std::mem::replace(self, empty)
    }

    /// It has so much of both from now on. What is outstanding beyond that stays until it is done.
    #[inline]
    pub fn set_sizes(&mut self, reorder_window: u64, miss_registers: usize) {
        (self.reorder_window, self.registers) = (reorder_window, miss_registers);
    }

    /// Whether nothing is outstanding.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Lets go of what is finished by `now_ps`.
    #[inline]
    pub fn retire(&mut self, now_ps: u64) {
        while let Some(first) = self.entries.front() {
            if first.done_ps > now_ps {
                break;
            }
            self.taken -= usize::from(first.takes_register);
            self.entries.pop_front();
            self.gone += 1;
        }
        if self.taken >= self.registers {
            self.release_registers(now_ps);
        }
    }

    /// Registers come free out of order.
    fn release_registers(&mut self, now_ps: u64) {
        for entry in &mut self.entries {
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
        if entry.holds_window {
            self.last_load = Some(entry);
        }
        self.entries.push_back(entry);
    }

    /// A load was served at once: a later access that depends on it need not wait.
    #[inline]
    pub fn load_was_immediate(&mut self) {
        self.last_load = None;
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
        let entries = self.entries.iter().enumerate().filter(|(index, entry)| {
            let fenced = *index < all || write && *index < stores && !entry.holds_window;
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
        let oldest = self.entries.iter().find(|e| e.holds_window && e.done_ps > now_ps);
        if let Some(oldest) = oldest
            && instruction.saturating_sub(oldest.instruction) >= self.reorder_window
        {
            return Self::wait_for(*oldest);
        }
        Block::None
    }

    /// What keeps an access that needs a miss register from getting one.
    pub fn register_block(&self) -> Block {
        if self.taken < self.registers {
            return Block::None;
        }
        let known = self.entries.iter().filter(|e| e.takes_register && e.done_ps != UNKNOWN);
        match known.min_by_key(|e| e.done_ps) {
            Some(first) => Block::Until(first.done_ps, *first),
            None => self.oldest_unknown(),
        }
    }

    fn oldest_unknown(&self) -> Block {
        let unknown = self.entries.iter().find(|e| e.takes_register && e.done_ps == UNKNOWN);
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
        if let Some(entry) = self.entries.iter().find(|e| e.done_ps == UNKNOWN) {
            return Block::On(entry.miss);
        }
        let last = self.entries.iter().filter(|e| e.done_ps > now_ps).max_by_key(|e| e.done_ps);
        last.map_or(Block::None, |e| Block::Until(e.done_ps, *e))
    }

    /// A miss is finished.
    pub fn finish(&mut self, miss: u32, done_ps: u64) {
        for entry in &mut self.entries {
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
        Outstanding { instruction, done_ps, miss, holds_window: true, takes_register: true }
    }

    #[test]
    fn the_window_holds_one_instruction_too_late_and_not_one_too_early() {
        let mut window = Window::new(128, 8);
        window.push(load(1000, UNKNOWN, 7));
        assert_eq!(window.blocks(1127, false, false, 0), Block::None);
        assert_eq!(window.blocks(1128, false, false, 0), Block::On(7));
    }

    #[test]
    fn stores_do_not_hold_the_window() {
        let mut window = Window::new(128, 8);
        window.push(Outstanding { holds_window: false, ..load(0, UNKNOWN, 1) });
        assert_eq!(window.blocks(10_000, false, false, 0), Block::None);
    }

    #[test]
    fn registers_bound_the_misses_and_come_free_out_of_order() {
        let mut window = Window::new(1000, 2);
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
        let mut window = Window::new(1000, 8);
        window.push(load(0, 70, NO_MISS));
        let entry = load(0, 70, NO_MISS);
        assert_eq!(window.blocks(1, false, true, 10), Block::Until(70, entry));
        assert_eq!(window.blocks(1, false, true, 70), Block::None);
        assert_eq!(window.blocks(1, false, false, 10), Block::None);
    }

    #[test]
    fn a_fence_of_stores_holds_stores_for_stores_and_a_full_one_all_for_all() {
        let store = |miss| Outstanding { holds_window: false, ..load(0, UNKNOWN, miss) };
        let mut window = Window::new(1000, 8);
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
