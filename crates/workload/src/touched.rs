//! What a workload touches: its footprint, counted by going through its operations once, on no
//! machine.

use crate::op::{Call, Op, OpKind, ThreadId};
use crate::stream::{Pull, Stream, StreamError};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Unit in which a footprint is counted.
pub const PAGE_BYTES: u64 = 4096;

const PAGES_IN_A_CHUNK: u64 = 4096;
const AT_ONCE: usize = 1 << 16;

/// What was touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Different pages of memory that were loaded from or stored to, by calls too, in bytes.
    pub memory_bytes: u64,
    /// Different pages of files that were read or written by calls, in bytes. A page of a file that
    /// is both mapped and read by calls counts here and in memory.
    pub file_bytes: u64,
}

impl Touched {
    /// All of it.
    pub fn bytes(self) -> u64 {
        self.memory_bytes + self.file_bytes
    }
}

/// Goes through a workload and counts what it touches; `None` where `goes_on`, which is asked now
/// and then, said no.
///
/// Memory that is given back and taken anew counts once where its addresses are the same, and what
/// is moved to other addresses twice. The count ends early where the workload says how much it maps
/// and all of that has been touched.
///
/// # Errors
/// The stream's.
pub fn touched(
    stream: &mut dyn Stream,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Option<Touched>, StreamError> {
    let mapped_pages = stream.footprint().map(|footprint| footprint.bytes / PAGE_BYTES);
    let mut count = Count::default();
    let mut started = BTreeSet::from([0]);
    let mut ended: HashSet<ThreadId> = HashSet::new();
    let mut ops = Vec::new();
    while let Some(thread) = started.pop_first() {
        if !ended.insert(thread) {
            continue;
        }
        loop {
            ops.clear();
            if stream.pull(thread, AT_ONCE, &mut ops)? == Pull::End {
                break;
            }
            count.take(&ops, &mut started);
            let whole = mapped_pages.is_some_and(|pages| count.memory.pages >= pages);
            if whole && stream.files().is_empty() {
                return Ok(Some(count.touched()));
            }
            if !goes_on() {
                return Ok(None);
            }
        }
    }
    Ok(Some(count.touched()))
}

#[derive(Default)]
struct Count {
    memory: Pages,
    files: HashMap<u32, Pages>,
}

impl Count {
    fn take(&mut self, ops: &[Op], started: &mut BTreeSet<ThreadId>) {
        let mut rest = ops.iter();
        while let Some(op) = rest.next() {
            match op.kind() {
                Some(OpKind::Load | OpKind::Store) => {
                    self.memory.add(op.word, u64::from(op.size()));
                }
                Some(OpKind::Call) => {
                    let arguments = rest.as_slice();
                    match Call::decode(*op, arguments) {
                        Some(Call::Spawn { thread }) => _ = started.insert(thread),
                        Some(call) => self.call(call),
                        None => {}
                    }
                    rest = arguments[usize::from(op.size()).min(arguments.len())..].iter();
                }
                _ => {}
            }
        }
    }

    fn call(&mut self, call: Call) {
        if let Call::Read { file, offset, length, address }
        | Call::Write { file, offset, length, address } = call
            && length > 0
        {
            self.memory.add(address, length);
            self.files.entry(file).or_default().add(offset, length);
        }
    }

    fn touched(&self) -> Touched {
        let in_files: u64 = self.files.values().map(|pages| pages.pages).sum();
        Touched { memory_bytes: self.memory.pages * PAGE_BYTES, file_bytes: in_files * PAGE_BYTES }
    }
}

/// A set of pages, a bit each.
#[derive(Default)]
struct Pages {
    chunks: HashMap<u64, Box<[u64; (PAGES_IN_A_CHUNK / 64) as usize]>>,
    /// The page that was added last: most accesses are to the same.
    last: Option<u64>,
    pages: u64,
}

impl Pages {
    #[inline]
    fn add(&mut self, address: u64, bytes: u64) {
        let first = address / PAGE_BYTES;
        let last = address.saturating_add(bytes.max(1) - 1) / PAGE_BYTES;
        if first == last && self.last == Some(first) {
            return;
        }
        self.last = Some(last);
        (first..=last).for_each(|page| self.add_page(page));
    }

    fn add_page(&mut self, page: u64) {
        let chunk = self.chunks.entry(page / PAGES_IN_A_CHUNK);
        let bits = chunk.or_insert_with(|| Box::new([0; (PAGES_IN_A_CHUNK / 64) as usize]));
        let place = page % PAGES_IN_A_CHUNK;
        let (word, bit) = (&mut bits[(place / 64) as usize], 1 << (place % 64));
        if *word & bit == 0 {
            *word |= bit;
            self.pages += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::find;
    use crate::op::NO_FILE;
    use serde_json::Value;

    fn gups(sets: &[(&str, Value)]) -> Box<dyn Stream> {
        let sets: Vec<_> = sets.iter().map(|(n, v)| (n.to_string(), v.clone())).collect();
        find("gups").unwrap().make(&sets, 1).unwrap().0
    }

    fn bytes_of(stream: &mut dyn Stream) -> u64 {
        touched(stream, &mut || true).unwrap().unwrap().bytes()
    }

    #[test]
    fn every_page_counts_once_however_many_threads_touch_it() {
        for threads in [1, 3] {
            let sets = [
                ("table", "1MiB".into()),
                ("updates", 150_000.into()),
                ("random", 0.0.into()),
                ("threads", threads.into()),
            ];
            assert_eq!(bytes_of(&mut *gups(&sets)), 1 << 20);
        }
    }

    #[test]
    fn what_is_only_mapped_does_not_count() {
        let sets = [("table", "1GiB".into()), ("updates", 10.into()), ("random", 0.0.into())];
        assert_eq!(bytes_of(&mut *gups(&sets)), PAGE_BYTES);
    }

    #[test]
    fn a_workload_without_end_is_counted_once_all_that_it_maps_was_touched() {
        let sets = [("table", "1MiB".into()), ("updates", 1_000_000_000_000_u64.into())];
        assert_eq!(bytes_of(&mut *gups(&sets)), 1 << 20);
    }

    #[test]
    fn who_says_stop_gets_nothing() {
        let sets = [("updates", 1_000_000.into())];
        assert_eq!(touched(&mut *gups(&sets), &mut || false), Ok(None));
    }

    #[test]
    fn calls_count_pages_of_files_and_of_memory() {
        let mut ops = Vec::new();
        Call::Map { address: 0, length: 1 << 30, flags: 0, file: NO_FILE, offset: 0 }
            .encode(1, &mut ops);
        Call::Read { file: 0, offset: 100, length: 8192, address: 4000 }.encode(1, &mut ops);
        Call::Write { file: 1, offset: 0, length: 1, address: 4000 }.encode(1, &mut ops);
        Call::Read { file: 0, offset: 0, length: 0, address: 4000 }.encode(1, &mut ops);
        ops.push(Op::store(3 * PAGE_BYTES - 1, 2, 1));
        let mut count = Count::default();
        count.take(&ops, &mut BTreeSet::new());
        // Memory: bytes 4000 to 12191 are on pages 0 to 2, and the store reaches page 3.
        assert_eq!(count.memory.pages, 4);
        assert_eq!(count.touched(), Touched { memory_bytes: 4 * 4096, file_bytes: 4 * 4096 });
    }
}
