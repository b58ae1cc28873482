//! Tags that lie in DRAM, with a cache of them on chip: a look-up whose tags are there costs nothing more,
//! any other reads them from DRAM first (Meza et al., IEEE CAL 2012; Huang & Nagarajan, PACT 2014).

use super::action::{Action, Place, Purpose, Token};
use super::controller::{Controller, set_bits};
use super::page_map::PageMap;
use super::write_back::NONE;
use crate::cache::{LruLines, flag};
use crate::organization::{HybridSpec, TagStore};
use tierscope_kernel::{BoundedQueue, Slab, Timeline};

counters! {
    /// What a tag cache counted of itself.
    pub struct TagCacheReport {
        /// Look-ups, by demand.
        pub lookups,
        /// Of these, those that did not find their tags there.
        pub misses,
        /// Lines of tags read from DRAM, by prefetches as well.
        pub reads,
        /// Lines of tags written to DRAM.
        pub writes,
    }
}

/// How tags lie in DRAM, behind the data: those of a set side by side, in a power of two bytes, so that a
/// line of them has several sets, or a set several lines, which then come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::organization) struct TagLayout {
    /// Bytes that come at once.
    pub line_bytes: u32,
    /// Bits of a set's number below that of its line.
    pub set_shift: u32,
    /// Bytes of all.
    pub bytes: u64,
}

impl TagLayout {
    /// Where `spec` has tags in DRAM.
    pub(in crate::organization) fn new(
        spec: &HybridSpec,
        store_bytes: u64,
        line_bytes: u32,
    ) -> Option<Self> {
        let cache = &spec.cache;
        if cache.tags != TagStore::Dram {
            return None;
        }
        let sets = cache.capacity.bytes() / (cache.page.bytes() * u64::from(cache.ways.max(1)));
        let set_bytes = set_bits(spec, store_bytes).div_ceil(8).next_power_of_two() as u32;
        let line_bytes = line_bytes.max(set_bytes);
        let set_shift = (line_bytes / set_bytes).trailing_zeros();
        let bytes = sets.div_ceil(1 << set_shift) * u64::from(line_bytes);
        Some(TagLayout { line_bytes, set_shift, bytes })
    }
}

/// A line of tags on its way from DRAM.
#[derive(Clone, Copy, Debug)]
struct TagRead {
    line: u64,
    /// First and last request that waits for it, or [`NONE`].
    first: u32,
    last: u32,
    /// Its tags have changed meanwhile.
    changed: bool,
    prefetch: bool,
    /// What it went through.
    stages: Timeline,
}

/// The tag cache, and lines of tags on their way.
#[derive(Clone, Debug)]
pub(super) struct TagCache {
    lines: LruLines,
    layout: TagLayout,
    /// First byte of the tags in DRAM.
    base: u64,
    /// Whether a hit changes the order of its set.
    notes_uses: bool,
    reads: Slab<TagRead>,
    /// The read of each line that has one.
    reading: PageMap,
    /// Reads that have come and wait for room among the writes, oldest first.
    arrived: BoundedQueue<u32>,
    writes: Slab<()>,
    most_writes: usize,
    /// A prefetch reads its tags.
    prefetching: bool,
    pub(super) report: TagCacheReport,
}

impl TagCache {
    /// A tag cache as `spec` says, if it has one: for as many requests as the controller holds.
    pub(super) fn new(spec: &HybridSpec, store_bytes: u64, line_bytes: u32) -> Option<Self> {
        let layout = TagLayout::new(spec, store_bytes, line_bytes)?;
        let cache = &spec.cache;
        let kept = cache.tag_cache.as_ref()?;
        let depth = spec.queue_depth as usize;
        Some(TagCache {
            lines: LruLines::new(kept.sets(layout.line_bytes), kept.ways as usize),
            layout,
            base: cache.capacity.bytes(),
            notes_uses: cache.ways > 1 && cache.replacement.notes_uses(),
            reads: Slab::new(),
            reading: PageMap::with_capacity(depth + 1),
            arrived: BoundedQueue::with_capacity(depth + 1),
            writes: Slab::new(),
            most_writes: depth,
            prefetching: false,
            report: TagCacheReport::default(),
        })
    }

    /// Reads and writes of tags under way.
    pub(super) fn in_flight(&self) -> usize {
        self.reads.len() + self.writes.len()
    }

    /// Whether one more line of tags can be written.
    fn has_room(&self) -> bool {
        self.writes.len() < self.most_writes
    }

    /// Whether a line is here, or on its way.
    fn has(&self, line: u64) -> bool {
        self.lines.contains(line) || self.reading.get(line).is_some()
    }

    fn address(&self, line: u64) -> u64 {
        self.base + line * u64::from(self.layout.line_bytes)
    }

    /// A new read of `line`, which has none.
    fn read(&mut self, line: u64, prefetch: bool, actions: &mut Vec<Action>) -> u32 {
        self.report.reads += 1;
        let (stages, changed) = (Timeline::new(), false);
        let read = TagRead { line, first: NONE, last: NONE, changed, prefetch, stages };
        let index = self.reads.insert(read);
        self.reading.insert(line, index);
        actions.push(Action::ReadDram {
            token: Token::new(Purpose::TagRead, index),
            address: self.address(line),
            bytes: self.layout.line_bytes,
            into: Place::Nowhere,
            background: prefetch,
        });
        index
    }

    /// Writes a line of tags to DRAM; there is room for it.
    fn write(&mut self, line: u64, actions: &mut Vec<Action>) {
        self.report.writes += 1;
        actions.push(Action::WriteDram {
            token: Token::new(Purpose::TagWrite, self.writes.insert(())),
            address: self.address(line),
            bytes: self.layout.line_bytes,
            from: Place::Nowhere,
            background: true,
        });
    }

    /// Marks the line as changed, if it is here or on its way; whether it is.
    fn change(&mut self, line: u64) -> bool {
        if self.lines.set_dirty(line) {
            return true;
        }
        let Some(index) = self.reading.get(line) else { return false };
        self.reads[index].changed = true;
        true
    }
}

impl Controller {
    /// The line of tags that has those of a page; the tag cache is there.
    fn tag_line(&self, page: u64) -> u64 {
        let shift = self.tag_cache.as_ref().map_or(0, |cache| cache.layout.set_shift);
        u64::from(self.tags.set_of(page)) >> shift
    }

    /// Whether the tags for a request are on chip. Else they are on their way, and it is looked up when
    /// they have come.
    pub(super) fn finds_tags(&mut self, slot: u32, actions: &mut Vec<Action>) -> bool {
        if self.tag_cache.is_none() {
            return true;
        }
        let line = self.tag_line(self.held[slot].address >> self.page_shift);
        let Some(cache) = &mut self.tag_cache else { return true };
        cache.report.lookups += 1;
        if cache.lines.access(line, false) {
            return true;
        }
        cache.report.misses += 1;
        let index = match cache.reading.get(line) {
            Some(index) => index,
            None => cache.read(line, false, actions),
        };
        let read = &mut cache.reads[index];
        if read.first == NONE {
            read.first = slot;
        } else {
            self.held[read.last].next = slot;
        }
        read.last = slot;
        false
    }

    /// Whether the tags of a page are on chip.
    pub(super) fn has_tags(&self, page: u64) -> bool {
        let line = self.tag_line(page);
        self.tag_cache.as_ref().is_none_or(|cache| cache.lines.contains(line))
    }

    /// Whether the tags for a prefetch are on chip. Else they are on their way, one line for prefetches at
    /// a time.
    pub(super) fn prefetch_finds_tags(&mut self, sector: u64, actions: &mut Vec<Action>) -> bool {
        let line = self.tag_line(self.page_of(sector));
        let Some(cache) = &mut self.tag_cache else { return true };
        if cache.lines.contains(line) {
            return true;
        }
        if !cache.prefetching && cache.reading.get(line).is_none() {
            cache.prefetching = true;
            cache.read(line, true, actions);
        }
        false
    }

    /// Tags have come from DRAM.
    pub(super) fn tags_read(
        &mut self,
        now_ps: u64,
        index: u32,
        stages: &Timeline,
        actions: &mut Vec<Action>,
    ) {
        let Some(cache) = &mut self.tag_cache else { return };
        cache.reads[index].stages = *stages;
        let kept = cache.arrived.push(index);
        debug_assert!(kept.is_ok(), "a request, or the one prefetch, waits for each");
        self.install_tags(now_ps, actions);
    }

    /// Tags have been written to DRAM.
    pub(super) fn tags_written(&mut self, now_ps: u64, index: u32, actions: &mut Vec<Action>) {
        let Some(cache) = &mut self.tag_cache else { return };
        cache.writes.remove(index);
        self.install_tags(now_ps, actions);
    }

    /// Tags that have come enter the tag cache, each while there is room to write those that go for it; the
    /// requests that have waited for them are looked up.
    fn install_tags(&mut self, now_ps: u64, actions: &mut Vec<Action>) {
        while let Some(cache) = &mut self.tag_cache
            && cache.has_room()
            && let Some(index) = cache.arrived.pop()
        {
            let TagRead { line, first, changed, prefetch, stages, .. } = cache.reads.remove(index);
            cache.reading.remove(line);
            cache.prefetching &= !prefetch;
            let gone = cache.lines.insert(line, changed);
            if let Some(gone) = gone.filter(|gone| gone.dirty) {
                cache.write(gone.line, actions);
            }
            let mut slot = first;
            while slot != NONE {
                let next = std::mem::replace(&mut self.held[slot].next, NONE);
                self.set_prefix(now_ps, slot, &stages);
                self.look_up(now_ps, slot, actions);
                slot = next;
            }
        }
    }

    /// A request has found its page, which had these flags: what that changes of its tags.
    #[inline]
    pub(super) fn hit_changes_tags(&mut self, page: u64, write: bool, flags: u8) {
        if self.tag_cache.is_some() {
            let first_write = write && (self.sectors.is_some() || flags & flag::DIRTY == 0);
            let line = self.tag_line(page);
            if let Some(cache) = &mut self.tag_cache
                && (cache.notes_uses || first_write)
            {
                cache.change(line);
            }
        }
    }

    /// Whether the tags of a page can change now.
    pub(super) fn tags_can_change(&self, page: u64) -> bool {
        let line = self.tag_line(page);
        self.tag_cache.as_ref().is_none_or(|cache| cache.has(line) || cache.has_room())
    }

    /// A page, or a sector, comes: its tags change. Those that have left the tag cache meanwhile the miss
    /// still has, and writes.
    pub(super) fn change_tags(&mut self, page: u64, actions: &mut Vec<Action>) {
        let line = self.tag_line(page);
        if let Some(cache) = &mut self.tag_cache
            && !cache.change(line)
        {
            cache.write(line, actions);
        }
    }

    /// What changes of a page's tags is noted where they are on chip.
    pub(super) fn note_change(&mut self, page: u64) {
        let line = self.tag_line(page);
        if let Some(cache) = &mut self.tag_cache {
            cache.change(line);
        }
    }

    /// Tags come on chip at once, in functional warming.
    #[inline]
    pub(super) fn warm_tags(&mut self, page: u64, demand: bool) {
        if self.tag_cache.is_none() {
            return;
        }
        let line = self.tag_line(page);
        let Some(cache) = &mut self.tag_cache else { return };
        let found =
            if demand { cache.lines.access(line, false) } else { cache.lines.contains(line) };
        cache.report.lookups += u64::from(demand);
        if found {
            return;
        }
        cache.report.misses += u64::from(demand);
        cache.report.reads += 1;
        let gone = cache.lines.insert(line, false);
        cache.report.writes += u64::from(gone.is_some_and(|gone| gone.dirty));
    }

    /// Bytes of tags that were read from DRAM and written to it so far.
    #[inline]
    pub(super) fn tag_bytes_moved(&self) -> [u64; 2] {
        self.tag_cache.as_ref().map_or([0; 2], |cache| {
            let bytes = u64::from(cache.layout.line_bytes);
            [cache.report.reads * bytes, cache.report.writes * bytes]
        })
    }
}
