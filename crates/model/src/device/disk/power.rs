//! Failures of power: what the platters hold, page by page, and what is gone with the buffer.
//!
//! Contents are followed by name ([`Content`]). What is written counts from the end of its page on the
//! platters: of a page in the middle of that, sectors are the old or the new ones, each whole, so that nothing
//! newer than the old page may be counted on. There are no capacitors: what waits in the buffer is lost.

use super::{Asked, Disk};
use crate::device::arrivals::Arrivals;
use crate::power::{Content, Outage, UnderWay, Weakness, Weaknesses};
use std::collections::{BTreeSet, VecDeque};
use tierscope_kernel::{CowMap, Slab};

/// What each page holds on the platters and, where that is something else, in the buffer.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    platters: CowMap<Content>,
    /// 0 where the platters have what was written last.
    buffered: CowMap<Content>,
    count: u64,
}

impl Contents {
    fn new() -> Self {
        Contents { platters: CowMap::new(0), buffered: CowMap::new(0), count: 0 }
    }

    fn fork(&mut self) -> Self {
        let Contents { platters, buffered, count } = self;
        Contents { platters: platters.fork(), buffered: buffered.fork(), count: *count }
    }

    /// A write is in the buffer.
    fn buffer(&mut self, page: u64, content: Content) {
        let before = std::mem::replace(self.buffered.get_mut(page), content);
        self.count = self.count + u64::from(content != 0) - u64::from(before != 0);
    }
}

impl Disk {
    /// A write is in the buffer.
    pub(super) fn note_buffered(&mut self, index: u32) {
        if let (Some(contents), Asked::Page(access)) = (&mut self.contents, self.held[index].asked)
        {
            contents.buffer(access.page, access.content);
        }
    }

    /// What a page brings that is about to be written, for somebody or from the buffer.
    pub(super) fn brought(&self, page: u64, waiter: Option<u32>) -> Content {
        let Some(contents) = &self.contents else { return 0 };
        match waiter.map(|index| self.held[index].asked) {
            Some(Asked::Page(access)) => access.content,
            _ => contents.buffered.get(page),
        }
    }

    /// A page has been written to the platters.
    pub(super) fn note_written(&mut self, page: u64, content: Content) {
        if let Some(contents) = &mut self.contents {
            contents.platters.set(page, content);
            if content != 0 && contents.buffered.get(page) == content {
                contents.buffer(page, 0);
            }
        }
    }

    /// What is held is followed from now on.
    pub(super) fn follow(&mut self, weaknesses: Weaknesses) {
        self.early = weaknesses.has(Weakness::EarlyCompletion);
        self.contents = Some(Box::new(Contents::new()));
    }

    /// What a page holds on the platters.
    pub(super) fn kept_content(&self, page: u64) -> Content {
        self.contents.as_ref().map_or(0, |contents| contents.platters.get(page))
    }

    /// What could be harmed.
    pub(super) fn exposed(&self) -> UnderWay {
        UnderWay {
            barriers: (self.flushes.len() + self.forced.len()) as u64,
            programs: u64::from(self.is_writing()),
            buffered: self.contents.as_ref().map_or(0, |contents| contents.count),
            ..UnderWay::default()
        }
    }

    /// Power fails: the heads are parked, and what was asked for, and what is in the buffer, is gone.
    pub(super) fn fail(&mut self) -> Outage {
        let mut outage = Outage::untold("how long a disk takes to spin up is not described");
        if let Some(work) = self.work.as_ref().filter(|_| self.is_writing()) {
            outage.torn_pages = 1;
            outage.touched.push(work.page);
        }
        if let Some(contents) = &mut self.contents {
            let buffered = std::mem::replace(&mut contents.buffered, CowMap::new(0));
            outage.touched.extend(buffered.iter().map(|(page, _)| page));
            outage.lost_pages = std::mem::take(&mut contents.count);
        }
        (self.work, self.run, self.reading) = (None, None, None);
        self.heads = super::Heads::default();
        self.pending = self.pending.emptied();
        self.segments = self.segments.emptied();
        self.dirty = BTreeSet::new();
        (self.waiting, self.flushes) = (VecDeque::new(), VecDeque::new());
        self.forced.clear();
        (self.held, self.arriving) = (Slab::new(), Arrivals::default());
        outage
    }

    /// The same as a clone, but for contents, which are shared until one of the two changes them.
    pub(super) fn fork_contents(&mut self) -> Self {
        let mut contents = self.contents.take();
        let fork = contents.as_mut().map(|contents| Box::new(contents.fork()));
        let other = Disk { contents: fork, ..self.clone() };
        self.contents = contents;
        other
    }
}
