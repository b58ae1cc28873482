//! The tags of a set-associative cache of any size.

use super::Modulo;
use crate::replacement::{MAX_WAYS, Policy};
use tierscope_kernel::CowVec;

/// What a way's entry says beside the line's number.
pub mod flag {
    /// The way holds a line.
    pub const VALID: u8 = 1;
    /// The line was written since it was filled.
    pub const DIRTY: u8 = 2;
    /// The line was brought by a prefetch and nobody has asked for it yet.
    pub const PREFETCHED: u8 = 4;
    /// The way may not be taken: its line is on the way, or in use.
    pub const PINNED: u8 = 8;
    /// Free for the owner of the store (coherence states and the like).
    pub const OWNER: [u8; 4] = [16, 32, 64, 128];
}

const FLAG_BITS: u32 = 8;
const LINE_MASK: u64 = !0 << FLAG_BITS;
const VALID: u64 = flag::VALID as u64;
const DIRTY: u64 = flag::DIRTY as u64;
const PINNED: u64 = flag::PINNED as u64;

/// The number of the lines that lie in every frame of a prefilled store at the start. No look-up
/// asks for it.
const UNRELATED: u64 = (1 << Modulo::BITS) - 1;

/// A line and whether it is written, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineAccess(u64);

impl LineAccess {
    /// An access to `line`, a write or a read.
    #[inline]
    pub const fn new(line: u64, write: bool) -> Self {
        LineAccess(line << 1 | write as u64)
    }

    /// The line's number.
    #[inline]
    pub const fn line(self) -> u64 {
        self.0 >> 1
    }

    /// Whether it is written.
    #[inline]
    pub const fn write(self) -> bool {
        self.0 & 1 == 1
    }
}

/// One way of one set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WayRef {
    set: u32,
    way: u32,
}

impl WayRef {
    /// The set.
    #[inline]
    pub const fn set(self) -> u32 {
        self.set
    }

    /// The way in the set.
    #[inline]
    pub const fn way(self) -> u32 {
        self.way
    }
}

/// What an access found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Where.
    pub way: WayRef,
    /// Its flags before the access.
    pub flags: u8,
}

/// A line that had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Its number, or `None` for one of the unrelated lines of a prefilled store, which are clean.
    pub line: Option<u64>,
    /// Its flags when it went.
    pub flags: u8,
}

impl Evicted {
    /// Whether it was written since it was filled.
    #[inline]
    pub const fn dirty(self) -> bool {
        self.flags & flag::DIRTY != 0
    }
}

/// Where a new line would go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Into a way that holds nothing.
    Free(WayRef),
    /// Into a way whose line has to go.
    Taken(WayRef, Evicted),
    /// Nowhere: every way of the set is pinned.
    Pinned,
}

/// Tags, flags and replacement order of a set-associative cache: `sets` × `ways`.
///
/// The number of sets need not be a power of two; lines go to sets by their remainder. An entry is
/// one word (56 bits of line number, 8 of flags); a set's entries and its policy's state lie beside
/// each other, in chunks that exist only once they are written: a store for 64 GiB of 4 KiB pages
/// costs what it touches, and a fork costs what is written after it.
#[derive(Clone, Debug)]
pub struct TagStore<P: Policy> {
    /// For each set `ways` entries, XORed with `initial`, then the policy's words.
    words: CowVec<u64>,
    sets: Modulo,
    ways: usize,
    stride: usize,
    /// The entry that stands in every way at the start.
    initial: u64,
    dirty: u64,
    policy: P,
}

impl<P: Policy> TagStore<P> {
    /// A store of `sets` (1 to 2³²) × `ways` (1 to [`MAX_WAYS`]), empty or, if `prefilled`, with an
    /// unrelated clean line in every way. `seed` is for policies that draw lots.
    ///
    /// # Panics
    /// If sets or ways are out of range: a specification's check comes first.
    pub fn new(sets: u64, ways: usize, prefilled: bool, seed: u64) -> Self {
        assert!((1..=MAX_WAYS).contains(&ways), "a set has from 1 to {MAX_WAYS} ways: {ways}");
        let stride = ways + P::words(ways);
        TagStore {
            words: CowVec::with_group(sets * stride as u64, 0, stride as u64),
            sets: Modulo::new(sets),
            ways,
            stride,
            initial: if prefilled { UNRELATED << FLAG_BITS | VALID } else { 0 },
            dirty: 0,
            policy: P::new(ways, seed),
        }
    }

    /// Number of sets.
    #[inline]
    pub fn sets(&self) -> u64 {
        self.sets.divisor()
    }

    /// Number of ways of each set.
    #[inline]
    pub fn ways(&self) -> usize {
        self.ways
    }

    /// Number of dirty lines.
    #[inline]
    pub fn dirty_lines(&self) -> u64 {
        self.dirty
    }

    /// Bytes of memory that the store has taken so far, those shared with forks included.
    pub fn touched_bytes(&self) -> u64 {
        self.words.touched_bytes()
    }

    /// The set where `line` belongs.
    #[inline]
    pub fn set_of(&self, line: u64) -> u32 {
        self.sets.of(line) as u32
    }

    /// The number of a way among all ways: set × ways + way.
    #[inline]
    pub fn frame(&self, at: WayRef) -> u64 {
        u64::from(at.set) * self.ways as u64 + u64::from(at.way)
    }

    /// Finds `line` (below 2⁵⁶ − 1) without any effect.
    #[inline]
    pub fn lookup(&self, line: u64) -> Option<WayRef> {
        let set = self.set_of(line);
        let entries = &self.record(set)[..self.ways];
        let way = find(entries, self.key(line))?;
        Some(WayRef { set, way: way as u32 })
    }

    /// Uses `line`: where it is present, it becomes dirty if `write`, and the policy is told.
    #[inline]
    pub fn access(&mut self, line: u64, write: bool) -> Option<Hit> {
        let key = self.key(line);
        let set = self.sets.of(line) as usize;
        let record = self.words.slice_mut((set * self.stride) as u64, self.stride as u64);
        let (entries, state) = record.split_at_mut(self.ways);
        let guess = P::first_guess(state).filter(|guess| matches(entries[*guess], key));
        let way = match guess {
            Some(way) => way,
            None => {
                let way = find(entries, key)?;
                self.policy.on_hit(state, set, way);
                way
            }
        };
        let before = entries[way];
        // The initial entry is clean: its XOR leaves this bit alone.
        let after = before | (DIRTY * u64::from(write));
        if after != before {
            entries[way] = after;
            self.dirty += 1;
        }
        let flags = (before ^ self.initial) as u8;
        Some(Hit { way: WayRef { set: set as u32, way: way as u32 }, flags })
    }

    /// Uses the lines of `accesses` in order up to the first that is absent; how many were present.
    #[inline]
    pub fn hit_run(&mut self, accesses: &[LineAccess]) -> usize {
        let absent = accesses.iter().position(|a| self.access(a.line(), a.write()).is_none());
        absent.unwrap_or(accesses.len())
    }

    /// Tells the policy that the line at `at` was used.
    #[inline]
    pub fn touch(&mut self, at: WayRef) {
        let record =
            self.words.slice_mut(u64::from(at.set) * self.stride as u64, self.stride as u64);
        let state = &mut record[self.ways..];
        if P::first_guess(state) != Some(at.way as usize) {
            self.policy.on_hit(state, at.set as usize, at.way as usize);
        }
    }

    /// Where `line`, which is absent, would go. Asking has no effect.
    pub fn place(&self, line: u64) -> Place {
        let set = self.set_of(line);
        let (entries, state) = self.record(set).split_at(self.ways);
        let mut candidates = 0;
        for (way, stored) in entries.iter().enumerate() {
            let entry = stored ^ self.initial;
            if entry & VALID == 0 {
                return Place::Free(WayRef { set, way: way as u32 });
            }
            candidates |= u64::from(entry & PINNED == 0) << way;
        }
        if candidates == 0 {
            return Place::Pinned;
        }
        let way = self.policy.victim(state, set as usize, candidates);
        let at = WayRef { set, way: way as u32 };
        Place::Taken(at, evicted(entries[way] ^ self.initial))
    }

    /// The line that would go if `line`, which is absent, came now.
    pub fn victim(&self, line: u64) -> Option<Evicted> {
        match self.place(line) {
            Place::Taken(_, evicted) => Some(evicted),
            Place::Free(_) | Place::Pinned => None,
        }
    }

    /// Puts `line`, which is absent, where [`TagStore::place`] says; what had to go.
    ///
    /// # Panics
    /// If every way of the set is pinned: who pins ways asks for the place first.
    pub fn insert(&mut self, line: u64, flags: u8) -> Option<Evicted> {
        match self.place(line) {
            Place::Free(at) => {
                self.insert_at(at, line, flags);
                None
            }
            Place::Taken(at, evicted) => {
                self.insert_at(at, line, flags);
                Some(evicted)
            }
            Place::Pinned => panic!("every way of the set of line {line} is pinned"),
        }
    }

    /// Puts `line`, which is absent, at `at`, a place that [`TagStore::place`] gave for it.
    pub fn insert_at(&mut self, at: WayRef, line: u64, flags: u8) {
        debug_assert!(self.lookup(line).is_none(), "line {line} is present");
        let stride = self.stride as u64;
        let record = self.words.slice_mut(u64::from(at.set) * stride, stride);
        let (entries, state) = record.split_at_mut(self.ways);
        let entry = line << FLAG_BITS | u64::from(flags) | VALID;
        let before = std::mem::replace(&mut entries[at.way as usize], entry ^ self.initial);
        self.policy.on_fill(state, at.set as usize, at.way as usize);
        self.dirty += (entry & DIRTY) / DIRTY;
        self.dirty -= (before & DIRTY) / DIRTY;
    }

    /// Removes `line`; its flags, if it was present.
    pub fn invalidate(&mut self, line: u64) -> Option<u8> {
        let at = self.lookup(line)?;
        let flags = self.flags(at);
        self.replace(at, |_| 0);
        Some(flags)
    }

    /// The line at `at`, if there is one that a look-up could find.
    #[inline]
    pub fn line(&self, at: WayRef) -> Option<u64> {
        let entry = self.entry(at);
        (entry & VALID != 0 && entry >> FLAG_BITS != UNRELATED).then_some(entry >> FLAG_BITS)
    }

    /// The flags at `at`.
    #[inline]
    pub fn flags(&self, at: WayRef) -> u8 {
        self.entry(at) as u8
    }

    /// Sets `flags` at `at` beside those that are set.
    #[inline]
    pub fn set_flags(&mut self, at: WayRef, flags: u8) {
        self.replace(at, |entry| entry | u64::from(flags));
    }

    /// Clears `flags` at `at`.
    #[inline]
    pub fn clear_flags(&mut self, at: WayRef, flags: u8) {
        self.replace(at, |entry| entry & !u64::from(flags));
    }

    /// Marks the line at `at` dirty.
    #[inline]
    pub fn set_dirty(&mut self, at: WayRef) {
        self.set_flags(at, flag::DIRTY);
    }

    /// Marks the line at `at` clean.
    #[inline]
    pub fn clear_dirty(&mut self, at: WayRef) {
        self.clear_flags(at, flag::DIRTY);
    }

    /// The first way at frame `from` or behind it that holds a dirty line, with the line's number.
    ///
    /// Frames are numbered as by [`TagStore::frame`]; what was never written is skipped at once.
    pub fn next_dirty(&self, from: u64) -> Option<(WayRef, u64)> {
        if self.dirty == 0 {
            return None;
        }
        let mut set = from as usize / self.ways;
        let mut first_way = from as usize % self.ways;
        while set < self.sets.divisor() as usize {
            let entries = &self.record(set as u32)[first_way..self.ways];
            if let Some(offset) = entries.iter().position(|entry| entry & DIRTY != 0) {
                let at = WayRef { set: set as u32, way: (first_way + offset) as u32 };
                return Some((at, self.entry(at) >> FLAG_BITS));
            }
            first_way = 0;
            set += 1;
        }
        None
    }

    /// Dirty lines with their places, in order of the frames.
    pub fn iter_dirty(&self) -> impl Iterator<Item = (WayRef, u64)> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let found = self.next_dirty(from)?;
            from = self.frame(found.0) + 1;
            Some(found)
        })
    }

    /// A second store that stands where this one stands; memory is shared until written.
    pub fn fork(&mut self) -> Self {
        TagStore { words: self.words.fork(), policy: self.policy.clone(), ..*self }
    }

    #[inline]
    fn key(&self, line: u64) -> u64 {
        debug_assert!(line < UNRELATED);
        (line << FLAG_BITS | VALID) ^ self.initial
    }

    #[inline]
    fn record(&self, set: u32) -> &[u64] {
        self.words.slice(u64::from(set) * self.stride as u64, self.stride as u64)
    }

    #[inline]
    fn entry(&self, at: WayRef) -> u64 {
        self.record(at.set)[at.way as usize] ^ self.initial
    }

    /// Replaces the entry at `at` and keeps the count of dirty lines.
    #[inline]
    fn replace(&mut self, at: WayRef, change: impl FnOnce(u64) -> u64) {
        let record =
            self.words.slice_mut(u64::from(at.set) * self.stride as u64, self.stride as u64);
        let stored = &mut record[at.way as usize];
        let before = *stored ^ self.initial;
        let after = change(before);
        *stored = after ^ self.initial;
        self.dirty += (after & DIRTY) / DIRTY;
        self.dirty -= (before & DIRTY) / DIRTY;
    }
}

#[inline]
fn matches(stored: u64, key: u64) -> bool {
    (stored ^ key) & (LINE_MASK | VALID) == 0
}

/// The way that holds the line of `key`. Compares all ways of a block without a branch, since
/// which way it is cannot be predicted.
#[inline]
fn find(entries: &[u64], key: u64) -> Option<usize> {
    const BLOCK: usize = 8;
    let mut mask = 0u64;
    let (blocks, rest) = entries.as_chunks::<BLOCK>();
    for (index, block) in blocks.iter().enumerate() {
        let mut part = 0;
        for (way, stored) in block.iter().enumerate() {
            part |= u64::from(matches(*stored, key)) << way;
        }
        mask |= part << (index * BLOCK);
    }
    for (way, stored) in rest.iter().enumerate() {
        mask |= u64::from(matches(*stored, key)) << (blocks.len() * BLOCK + way);
    }
    (mask != 0).then_some(mask.trailing_zeros() as usize)
}

fn evicted(entry: u64) -> Evicted {
    let line = entry >> FLAG_BITS;
    Evicted { line: (line != UNRELATED).then_some(line), flags: entry as u8 }
}
