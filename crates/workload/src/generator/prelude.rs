//! What the first thread of a generated workload does before its own part.

use crate::op::{Call, MAP_WRITABLE, NO_FILE, Op, OpKind, ThreadId};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// The mark with which the region of interest begins: `region::mark::START` of the crate
/// `tierscope-system`.
pub(crate) const REGION_BEGINS: u64 = 1;

/// Whether what a workload has is written to first.
pub(super) const TOUCHED: super::Parameter = super::Parameter {
    name: "touched",
    default: "true",
    meaning: "whether each page is written to once before the region of interest, which then begins, as \
              programs do that fill what they use",
};

/// Where tables without a file are mapped.
pub(crate) const BASE_ADDRESS: u64 = 0x10_0000_0000;

/// Instructions of a call that maps, of one that opens, and of starting a thread: our assumptions.
const MAP_INSTRUCTIONS: u32 = 100;
const OPEN_INSTRUCTIONS: u32 = 1000;
const SPAWN_INSTRUCTIONS: u32 = 1000;
/// Instructions of writing to the next page: our assumption, as of `gups`.
const TOUCH_INSTRUCTIONS: u32 = 4;
const TOUCH_BYTES: u16 = 8;
const PAGE_BYTES: u64 = super::PAGE_BYTES;

/// Opening and mapping; writing to each page of some ranges once, where that precedes the region of
/// interest, which a mark then begins; and starting the other threads. Its place is a number of
/// operations.
#[derive(Clone, Debug, Default)]
pub struct Prelude {
    head: Arc<Vec<Op>>,
    /// First addresses and pages of what is written to.
    touched: Arc<Vec<(u64, u64)>>,
    tail: Arc<Vec<Op>>,
    at: u64,
}

impl Prelude {
    /// Maps a table of its own, without a file, at [`BASE_ADDRESS`].
    pub(crate) fn table(bytes: u64) -> Prelude {
        Prelude::default().map(BASE_ADDRESS, bytes, MAP_WRITABLE, NO_FILE)
    }

    /// Opens a file of so many bytes as well.
    pub(crate) fn open(mut self, file: u32, size: u64) -> Prelude {
        Call::Open { file, size }.encode(OPEN_INSTRUCTIONS, Arc::make_mut(&mut self.head));
        self
    }

    /// Maps as well, a file from its start on.
    pub(crate) fn map(mut self, address: u64, length: u64, flags: u64, file: u32) -> Prelude {
        let call = Call::Map { address, length, flags, file, offset: 0 };
        call.encode(MAP_INSTRUCTIONS, Arc::make_mut(&mut self.head));
        self
    }

    /// Writes to each page of a range once as well, before the region of interest, where that is asked
    /// for.
    pub(crate) fn touch(mut self, address: u64, bytes: u64, asked: bool) -> Prelude {
        if asked {
            let pages = bytes.div_ceil(PAGE_BYTES);
            Arc::make_mut(&mut self.touched).push((address, pages));
        }
        self
    }

    /// Ends with the mark of the region, where pages were written to, and the starts of all threads.
    pub(crate) fn finish(self, threads: u32) -> Prelude {
        let mut tail = Vec::new();
        if self.marks() {
            Call::Marker { mark: REGION_BEGINS }.encode(1, &mut tail);
        }
        self.end(tail, threads)
    }

    /// The same without the mark.
    pub(crate) fn finish_unmarked(self, threads: u32) -> Prelude {
        self.end(Vec::new(), threads)
    }

    fn end(mut self, mut tail: Vec<Op>, threads: u32) -> Prelude {
        for thread in 1..threads as ThreadId {
            Call::Spawn { thread }.encode(SPAWN_INSTRUCTIONS, &mut tail);
        }
        self.tail = Arc::new(tail);
        self
    }

    /// Whether it marks where the region begins.
    pub(crate) fn marks(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Whether another has the same operations from start to end, wherever both stand.
    pub fn is_as(&self, other: &Prelude) -> bool {
        (&self.head, &self.touched, &self.tail) == (&other.head, &other.touched, &other.tail)
    }

    /// A number for [`Prelude::is_as`]: the same for those that are.
    pub fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.head, &self.touched, &self.tail).hash(&mut hasher);
        hasher.finish()
    }

    /// Operations of it that were taken.
    pub fn taken(&self) -> u64 {
        self.at
    }

    /// Pages that it writes to, one access each.
    pub fn pages(&self) -> u64 {
        self.touched.iter().map(|(_, pages)| pages).sum()
    }

    /// Accesses before the mark of the region, where it marks one.
    pub(crate) fn before_region(&self) -> Option<u64> {
        self.marks().then(|| self.pages())
    }

    /// Instructions of what it writes; those of its few calls are left out.
    pub(crate) fn instructions(&self) -> u64 {
        self.pages() * u64::from(TOUCH_INSTRUCTIONS)
    }

    /// Goes on by up to `count` operations, or to the end of the call that goes beyond; how many those
    /// were. They are appended to `out`, if there is one.
    pub(crate) fn go_on(&mut self, count: u64, mut out: Option<&mut Vec<Op>>) -> u64 {
        let from = self.at;
        let (touches, pages) = (self.head.len() as u64, self.pages());
        let tail = touches + pages;
        while self.at - from < count {
            let left = count - (self.at - from);
            self.at += if self.at < touches {
                whole(&self.head, self.at, &mut out)
            } else if self.at < tail {
                let number = self.at - touches;
                let some = left.min(pages - number);
                if let Some(out) = out.as_deref_mut() {
                    out.extend((number..number + some).map(|number| self.page(number)));
                }
                some
            } else if self.at - tail < self.tail.len() as u64 {
                whole(&self.tail, self.at - tail, &mut out)
            } else {
                break;
            };
        }
        self.at - from
    }

    /// Writing to a page, counted over all ranges.
    fn page(&self, mut number: u64) -> Op {
        for &(address, pages) in self.touched.iter() {
            if number < pages {
                return Op::store(address + number * PAGE_BYTES, TOUCH_BYTES, TOUCH_INSTRUCTIONS);
            }
            number -= pages;
        }
        unreachable!("the page lies in one of the ranges")
    }
}

/// Operations of the one at a place, its arguments included; they are appended to `out`, if there is one.
pub(super) fn whole(ops: &[Op], at: u64, out: &mut Option<&mut Vec<Op>>) -> u64 {
    let at = at as usize;
    let end = at + length_of(ops[at]);
    if let Some(out) = out.as_deref_mut() {
        out.extend_from_slice(&ops[at..end]);
    }
    (end - at) as u64
}

/// Operations that one is, with its arguments.
pub(crate) fn length_of(op: Op) -> usize {
    1 + if op.kind_code() == OpKind::Call as u8 { usize::from(op.size()) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_of_each_range_is_written_once_then_the_region_begins() {
        let prelude = || {
            let begun = Prelude::table(5 * PAGE_BYTES).touch(BASE_ADDRESS, 3 * PAGE_BYTES, true);
            begun.touch(BASE_ADDRESS + 4 * PAGE_BYTES, 5000, true).finish(2)
        };
        let mut ops = Vec::new();
        let all = prelude().go_on(u64::MAX, Some(&mut ops));
        assert_eq!(all, ops.len() as u64);
        assert_eq!((prelude().pages(), prelude().marks()), (5, true));
        let stored: Vec<u64> = ops[4..9].iter().map(|op| (op.word - BASE_ADDRESS) / 4096).collect();
        assert_eq!(stored, [0, 1, 2, 4, 5]);
        assert_eq!(Call::decode(ops[9], &ops[10..]), Some(Call::Marker { mark: REGION_BEGINS }));
        assert_eq!(Call::decode(ops[11], &ops[12..]), Some(Call::Spawn { thread: 1 }));
        let (mut by_one, mut single) = (Vec::new(), prelude());
        while single.go_on(1, Some(&mut by_one)) > 0 {}
        assert_eq!(by_one, ops);
        let untouched = Prelude::table(4096).touch(BASE_ADDRESS, 4096, false).finish(1);
        assert!(!untouched.marks());
    }
}
