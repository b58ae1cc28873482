//! Stream buffers.

use super::Run;

/// Streams of pages (Jouppi, ISCA 1990, multi-way stream buffers): a miss that no stream expects begins
/// one, in place of the one that was used longest ago, and each page that is used brings the next. What
/// they bring lies in DRAM like any other page, not in buffers of their own.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    /// The page that each expects, the last used first.
    expected: Vec<u64>,
    most: usize,
}

impl Streams {
    pub(super) fn new(most: usize) -> Self {
        Streams { expected: Vec::with_capacity(most), most }
    }

    /// A stream that was late begins anew where it is.
    pub(super) fn missed(&mut self, page: u64, pages: u64) -> Option<Run> {
        let own = self.expected.iter().position(|expected| *expected == page);
        match own {
            Some(at) => {
                self.expected.remove(at);
            }
            None if self.expected.len() == self.most => {
                self.expected.pop();
            }
            None => {}
        }
        self.expected.insert(0, page + 1);
        Run::behind(page, 1, 1, pages)
    }

    pub(super) fn used(&mut self, page: u64, pages: u64) -> Option<Run> {
        // Pages may be used out of order: the stream is the one that has asked for this one.
        let ahead = |expected: &u64| (*expected..expected.saturating_add(pages)).contains(&page);
        let at = self.expected.iter().position(ahead)?;
        let from = self.expected.remove(at);
        self.expected.insert(0, page + 1);
        let steps = page + 1 - from;
        Run::behind(from, 1, pages, steps)
    }
}
