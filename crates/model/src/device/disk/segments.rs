//! What the buffer holds of what was read: segments, each of pages that follow each other.

/// A segment. Empty where both ends are the same.
#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    first: u64,
    end: u64,
    /// Behind the last page that the host has asked for.
    wanted: u64,
    /// When it was used last, in uses of all.
    used: u64,
}

/// All segments.
#[derive(Clone, Debug)]
pub struct Segments {
    all: Vec<Segment>,
    /// Pages that a segment holds.
    most: u64,
    uses: u64,
}

impl Segments {
    /// So many empty ones, which hold `most` pages each.
    pub fn new(count: u32, most: u64) -> Self {
        Segments { all: vec![Segment::default(); count as usize], most, uses: 0 }
    }

    /// The same with nothing in it.
    pub fn emptied(&self) -> Self {
        Segments { all: vec![Segment::default(); self.all.len()], ..*self }
    }

    /// Whether the page is held.
    pub fn holds(&self, page: u64) -> bool {
        self.all.iter().any(|it| (it.first..it.end).contains(&page))
    }

    /// The host asks for a page: whether it is held.
    pub fn read(&mut self, page: u64) -> bool {
        self.uses += 1;
        let found = self.all.iter_mut().find(|it| (it.first..it.end).contains(&page));
        let Some(segment) = found else { return false };
        segment.used = self.uses;
        segment.wanted = segment.wanted.max(page + 1);
        true
    }

    /// The segment for pages from this one on, which are about to be read: the one that ends there, or
    /// else the one that was used longest ago.
    pub fn begin(&mut self, page: u64) -> usize {
        self.uses += 1;
        let follows = |it: &Segment| it.first < it.end && it.end == page;
        let (mut slot, mut best) = (0, (false, u64::MAX));
        for (other, it) in self.all.iter().enumerate() {
            let rank = (follows(it), u64::MAX - it.used);
            if other == 0 || rank > best {
                (slot, best) = (other, rank);
            }
        }
        let segment = &mut self.all[slot];
        if !follows(segment) {
            *segment = Segment { first: page, end: page, wanted: page, used: 0 };
        }
        segment.used = self.uses;
        slot
    }

    /// A page has been read into a segment; `wanted` by the host, or ahead.
    pub fn add(&mut self, slot: usize, page: u64, wanted: bool) {
        let segment = &mut self.all[slot];
        if segment.end != page {
            segment.first = page;
        }
        segment.end = page + 1;
        segment.first = segment.first.max(segment.end.saturating_sub(self.most));
        if wanted {
            segment.wanted = segment.wanted.max(page + 1);
        }
    }

    /// The page that is next to be read into a segment, and how many lie between it and the last one that
    /// the host has asked for.
    pub fn next(&self, slot: usize) -> (u64, u64) {
        let segment = &self.all[slot];
        (segment.end, segment.end.saturating_sub(segment.wanted))
    }

    /// A page is written: what is held of it is old.
    pub fn forget(&mut self, page: u64) {
        for segment in &mut self.all {
            if (segment.first..segment.end).contains(&page) {
                // What lies behind is kept: a stream that overwrites what it read goes on.
                segment.first = page + 1;
            }
        }
    }
}
