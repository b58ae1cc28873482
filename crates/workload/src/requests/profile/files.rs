//! What calls of a workload of threads ask of files: which they are, how much is read and written of which,
//! and how soon a page of a file is touched again, as a page cache that holds nothing else would see it.
//!
//! What mappings of files are asked for is memory, and counted as such; it touches the page of the file, too, once as
//! long as the accesses one behind the other stay in it. A page that is cut off, or whose file is deleted, is held by no cache any more: distances do not count it, and one that comes in its place
//! is touched for the first time.

use super::super::TraceRequest;
use super::curve::{MissRatio, Reuse};
use super::mapped::Mappings;
use super::stack::mixed;
use super::touches::{Sample, Touches};
use super::working_set::Window;
use crate::op::{Call, FileId, NO_FILE, fallocate};
use crate::stream::FileInfo;
use serde::Serialize;
use std::collections::BTreeMap;

/// Bytes of a page of a file: those of Linux's page cache.
const PAGE_BYTES: u64 = 4096;
/// Bytes that a call moves at most: as many as Linux does (`MAX_RW_COUNT`).
const MOST_BYTES: u64 = 0x7fff_f000;
/// Pages of a file that have numbers of their own: 4 PiB.
const PAGE_BITS: u32 = 40;
/// Files that are told one by one.
const MOST_FILES: usize = 16;
/// Accesses that are kept for pictures.
const MOST_KEPT: usize = 1 << 13;

/// How many calls on files there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileCalls {
    /// Files opened.
    pub opens: u64,
    /// Files closed.
    pub closes: u64,
    /// Reads through the page cache.
    pub reads: u64,
    /// Writes through the page cache.
    pub writes: u64,
    /// Reads past the page cache.
    pub direct_reads: u64,
    /// Writes past the page cache.
    pub direct_writes: u64,
    /// Files forced to the store, all with them or their data alone (fsync, fdatasync), of ranges (sync_file_range), and
    /// all files at once (sync, syncfs).
    pub syncs: u64,
    /// Copies in the kernel from one file to another (copy_file_range, sendfile).
    pub copies: u64,
    /// Reads to pipes and sockets, and writes from pipes (sendfile, splice).
    pub splices: u64,
    /// Files whose size was set, those that opening emptied included.
    pub truncates: u64,
    /// Changes of the blocks that a file has (fallocate), but for the next.
    pub allocates: u64,
    /// Ranges of files that were made holes or zeroed, taken out or put in (fallocate).
    pub holes: u64,
    /// Files deleted, those whose name a rename took included.
    pub deletes: u64,
    /// Files and directories renamed.
    pub renames: u64,
    /// Further names given to files (link), and taken away from those with several.
    pub links: u64,
    /// Directories made and removed.
    pub directories: u64,
    /// Reads of names of directories (getdents).
    pub lists: u64,
    /// Advice on files (posix_fadvise, readahead).
    pub advices: u64,
    /// Mappings of files.
    pub maps: u64,
}

/// How much of a file is read and written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileUse {
    /// Its name.
    pub name: String,
    /// Reads of it, direct ones included.
    pub reads: u64,
    /// Writes to it, direct ones included.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// The byte behind the last that was read or written.
    pub end_byte: u64,
    /// Where the access before ended.
    #[serde(skip)]
    next: Option<u64>,
    /// Its size now, where that is known.
    #[serde(skip)]
    size: Option<u64>,
}

/// A read or write of a file, which is kept for pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FileAccess {
    /// Its number among all reads and writes, from 0.
    pub number: u64,
    /// The file's number.
    pub file: FileId,
    /// Its first byte.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Whether it writes.
    pub write: bool,
}

/// What calls ask of files.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Files {
    /// Calls of each kind.
    pub calls: FileCalls,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Reads and writes that begin where the one before, of the same file, ended.
    pub sequential: u64,
    /// Reads and writes by size: bytes, a power of two, that they have at least and less than twice of; and
    /// how many.
    pub sizes: Vec<(u64, u64)>,
    /// Different files that are read or written.
    pub files: u64,
    /// Those of which most is read and written, with the most first.
    pub most_used: Vec<FileUse>,
    /// Bytes of a page, in which everything that follows is counted.
    pub page_bytes: u64,
    /// Touches of pages: a read or write touches each page of which it has a byte, once.
    pub touches: u64,
    /// Of these, touches by loads and stores through mappings.
    pub mapped_touches: u64,
    /// Different pages touched: an estimate where `sample` is there. Pages of a file that is made anew are others.
    pub pages: u64,
    /// Pages at a time at most, of files that were there: less than `pages` where files are deleted.
    pub most_pages: u64,
    /// Different pages that are written.
    pub written_pages: u64,
    /// Pages followed where there were too many to follow all.
    pub sample: Option<Sample>,
    /// Touches by stack distance, in pages.
    pub reuse: Vec<Reuse>,
    /// Share of touches that miss a cache of each size, which keeps the pages touched last.
    pub miss_ratio: Vec<MissRatio>,
    /// Different pages touched in each of consecutive windows.
    pub working_set: Vec<Window>,
    /// Reads and writes for pictures: all, or some, each with the same chance.
    #[serde(skip)]
    pub accesses: Vec<FileAccess>,
}

/// One pass over the calls of a workload.
pub(super) struct FilePass {
    calls: FileCalls,
    sizes: BTreeMap<u64, u64>,
    sequential: u64,
    files: BTreeMap<FileId, FileUse>,
    touches: Touches,
    mappings: Mappings,
    /// The page of memory that the last access through a mapping was to, and whether it has been stored to.
    mapped: (u64, bool),
    mapped_touches: u64,
    /// Reads and writes so far.
    moved: u64,
    kept: Vec<FileAccess>,
    /// How often those that are kept were halved.
    halved: u32,
}

/// The page of a file that has a byte.
fn page(file: FileId, offset: u64) -> u64 {
    u64::from(file) << PAGE_BITS | ((offset / PAGE_BYTES) & ((1 << PAGE_BITS) - 1))
}

impl FilePass {
    /// Of so many pages that are followed at most.
    pub fn new(most_pages: usize) -> Self {
        FilePass {
            calls: FileCalls::default(),
            sizes: BTreeMap::new(),
            sequential: 0,
            files: BTreeMap::new(),
            touches: Touches::new(most_pages),
            mappings: Mappings::default(),
            mapped: (u64::MAX, false),
            mapped_touches: 0,
            moved: 0,
            kept: Vec::new(),
            halved: 0,
        }
    }

    /// A load or store, which may reach a page of a file.
    #[inline]
    pub fn access(&mut self, request: &TraceRequest) {
        let write = request.is_write();
        let last = (request.end() - 1) / PAGE_BYTES;
        for page in request.address / PAGE_BYTES..=last {
            if self.mapped.0 == page && (self.mapped.1 || !write) {
                continue;
            }
            let Some(of) = self.mappings.reached(page, write) else { continue };
            self.mapped = (page, write);
            self.mapped_touches += 1;
            self.touches.touch(self::page(of.file, of.index * PAGE_BYTES), write && of.shared);
        }
    }

    /// A call, up to where `goes_on`, which is asked for each page, says no; whether it moves data of a file.
    pub fn take(&mut self, call: &Call, goes_on: &mut impl FnMut() -> bool) -> bool {
        self.mappings.take(call);
        self.mapped.0 = u64::MAX;
        let calls = &mut self.calls;
        let (count, file, offset, length, write) = match *call {
            Call::Read { file, offset, length, .. } => {
                (&mut calls.reads, file, offset, length, false)
            }
            Call::Write { file, offset, length, .. } => {
                (&mut calls.writes, file, offset, length, true)
            }
            Call::ReadDirect { file, offset, length, .. } => {
                (&mut calls.direct_reads, file, offset, length, false)
            }
            Call::WriteDirect { file, offset, length, .. } => {
                (&mut calls.direct_writes, file, offset, length, true)
            }
            Call::SpliceRead { file, offset, length } => {
                (&mut calls.splices, file, offset, length, false)
            }
            Call::SpliceWrite { file, offset, length } => {
                (&mut calls.splices, file, offset, length, true)
            }
            Call::CopyRange { source, source_offset, file, offset, length } => {
                self.moves(source, source_offset, length, false, goes_on);
                (&mut self.calls.copies, file, offset, length, true)
            }
            _ => {
                self.other(call);
                goes_on();
                return false;
            }
        };
        *count += 1;
        self.moves(file, offset, length, write, goes_on);
        true
    }

    fn other(&mut self, call: &Call) {
        let calls = &mut self.calls;
        match *call {
            Call::Open { file, size } => {
                calls.opens += 1;
                self.files.entry(file).or_default().size.get_or_insert(size);
            }
            Call::Close { .. } => calls.closes += 1,
            Call::Sync { .. }
            | Call::SyncData { .. }
            | Call::SyncAll {}
            | Call::SyncFileRange { .. } => calls.syncs += 1,
            Call::Map { file, .. } if file != NO_FILE => calls.maps += 1,
            Call::Truncate { file, length } => {
                calls.truncates += 1;
                self.cut(file, length);
            }
            Call::Unlink { file, .. } => {
                calls.deletes += 1;
                self.cut(file, 0);
            }
            Call::Rename { replaced, names, .. } => {
                calls.renames += 1;
                if names == 0 && replaced != NO_FILE {
                    calls.deletes += 1;
                    self.cut(replaced, 0);
                }
            }
            Call::Link { .. } | Call::Unname { .. } => calls.links += 1,
            Call::MakeDirectory { .. } | Call::RemoveDirectory { .. } => calls.directories += 1,
            Call::ReadDirectory { .. } => calls.lists += 1,
            Call::AdviseFile { .. } => calls.advices += 1,
            Call::Allocate { file, mode, offset, length } => {
                self.allocate(file, mode, offset, length)
            }
            _ => {}
        }
    }

    fn moves(
        &mut self,
        file: FileId,
        offset: u64,
        length: u64,
        write: bool,
        goes_on: &mut impl FnMut() -> bool,
    ) {
        let number = self.moved;
        self.moved += 1;
        let of_file = self.files.entry(file).or_default();
        // A read ends with the file.
        let there = match of_file.size {
            Some(size) if !write => size.saturating_sub(offset),
            _ => u64::MAX - offset,
        };
        let length = length.min(MOST_BYTES).min(there);
        let (count, bytes) = if write {
            (&mut of_file.writes, &mut of_file.written_bytes)
        } else {
            (&mut of_file.reads, &mut of_file.read_bytes)
        };
        *count += 1;
        *bytes = bytes.saturating_add(length);
        let end = offset + length;
        self.sequential += u64::from(of_file.next == Some(offset));
        of_file.next = Some(end);
        of_file.end_byte = of_file.end_byte.max(end);
        if write {
            of_file.size = of_file.size.map(|size| size.max(end));
        }
        self.keep(FileAccess { number, file, offset, bytes: length, write });
        if length == 0 {
            goes_on();
            return;
        }
        *self.sizes.entry(1 << length.ilog2()).or_default() += 1;
        for of_pages in offset / PAGE_BYTES..=(end - 1) / PAGE_BYTES {
            self.touches.touch(page(file, of_pages * PAGE_BYTES), write);
            if !goes_on() {
                return;
            }
        }
    }

    /// The blocks that a file has change.
    fn allocate(&mut self, file: FileId, mode: u64, offset: u64, length: u64) {
        use fallocate::{COLLAPSE_RANGE, INSERT_RANGE, KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE};
        let end = offset.saturating_add(length);
        let moves = mode & (COLLAPSE_RANGE | INSERT_RANGE) != 0;
        let is_hole = moves || mode & (PUNCH_HOLE | ZERO_RANGE) != 0;
        let size = &mut self.files.entry(file).or_default().size;
        *size = size.map(|size| match mode {
            mode if mode & COLLAPSE_RANGE != 0 => size.saturating_sub(length),
            mode if mode & INSERT_RANGE != 0 => size.saturating_add(length),
            mode if mode & (KEEP_SIZE | PUNCH_HOLE) == 0 => size.max(end),
            _ => size,
        });
        let count = if is_hole { &mut self.calls.holes } else { &mut self.calls.allocates };
        *count += 1;
        if is_hole {
            // What is behind a range that is taken out or put in has other pages from then on.
            let last = if moves { u64::MAX } else { end / PAGE_BYTES };
            self.forget(file, offset.div_ceil(PAGE_BYTES), last);
        }
    }

    /// The pages of a file from a length on are there no more.
    fn cut(&mut self, file: FileId, length: u64) {
        let of_file = self.files.entry(file).or_default();
        (of_file.next, of_file.size) = (None, Some(length));
        self.forget(file, length.div_ceil(PAGE_BYTES), u64::MAX);
    }

    /// Pages of a file, from the first to that before the last, are there no more.
    fn forget(&mut self, file: FileId, first: u64, last: u64) {
        // Mappings may have touched pages that no call has.
        let of_calls = self.files.entry(file).or_default().end_byte.div_ceil(PAGE_BYTES);
        let end = if self.mapped_touches > 0 { last } else { last.min(of_calls) };
        let many = end.saturating_sub(first) > self.touches.followed_count() as u64;
        let gone: Vec<u64> = if many {
            let own = page(file, 0)..=page(file, u64::MAX);
            let numbers = first..last;
            let number = |it: &u64| it & ((1 << PAGE_BITS) - 1);
            let is_gone = |it: &u64| own.contains(it) && numbers.contains(&number(it));
            self.touches.followed().filter(is_gone).collect()
        } else {
            (first..end).map(|number| page(file, number * PAGE_BYTES)).collect()
        };
        gone.into_iter().for_each(|it| self.touches.forget(it));
    }

    /// Keeps an access for pictures: of many those whose numbers have a low hash, so that a loop's round is no
    /// step that is missed.
    fn keep(&mut self, access: FileAccess) {
        if !self.keeps(&access) {
            return;
        }
        self.kept.push(access);
        while self.kept.len() > MOST_KEPT {
            self.halved += 1;
            let kept = std::mem::take(&mut self.kept);
            self.kept = kept.into_iter().filter(|it| self.keeps(it)).collect();
        }
    }

    fn keeps(&self, access: &FileAccess) -> bool {
        self.halved == 0 || mixed(access.number) >> (64 - self.halved) == 0
    }

    /// All of it, with the files' names; nothing where there were no calls on files.
    pub fn finish(self, names: &[FileInfo]) -> Option<Files> {
        if self.calls == FileCalls::default() {
            return None;
        }
        let found = self.touches.finish(PAGE_BYTES);
        let sum = |bytes: fn(&FileUse) -> u64| {
            self.files.values().map(bytes).fold(0u64, u64::saturating_add)
        };
        let (read_bytes, written_bytes) = (sum(|it| it.read_bytes), sum(|it| it.written_bytes));
        let is_used = |it: &FileUse| it.reads + it.writes > 0;
        let files = self.files.values().filter(|it| is_used(it)).count() as u64;
        let mut most_used: Vec<FileUse> = self
            .files
            .into_iter()
            .filter(|(_, of_file)| is_used(of_file))
            .map(|(file, of_file)| {
                let name = names.get(file as usize).map(|it| it.name.clone());
                FileUse { name: name.unwrap_or_else(|| format!("file {file}")), ..of_file }
            })
            .collect();
        let moved = |it: &FileUse| it.read_bytes.saturating_add(it.written_bytes);
        most_used.sort_by_key(|it| std::cmp::Reverse(moved(it)));
        most_used.truncate(MOST_FILES);
        Some(Files {
            calls: self.calls,
            read_bytes,
            written_bytes,
            sequential: self.sequential,
            sizes: self.sizes.into_iter().collect(),
            files,
            most_used,
            page_bytes: PAGE_BYTES,
            touches: found.touches,
            mapped_touches: self.mapped_touches,
            pages: found.blocks,
            most_pages: found.most_blocks,
            written_pages: found.written_blocks,
            sample: found.sample,
            reuse: found.reuse,
            miss_ratio: found.miss_ratio,
            working_set: found.working_set,
            accesses: self.kept,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::RequestKind;
    use proptest::prelude::*;

    fn of(calls: &[Call], most_pages: usize) -> Files {
        let mut pass = FilePass::new(most_pages);
        for call in calls {
            pass.take(call, &mut || true);
        }
        let names = [FileInfo { name: "first".into(), size_bytes: 0 }];
        pass.finish(&names).unwrap()
    }

    /// Reads and writes of a few files, which are cut off and deleted now and then.
    fn calls() -> impl Strategy<Value = Vec<Call>> {
        let (file, offset) = (0u32..4, 0u64..60_000);
        let moves = (file.clone(), offset.clone(), 0u64..9000, 0u8..4).prop_map(
            |(file, offset, length, kind)| match kind {
                0 => Call::Read { file, offset, length, address: 0 },
                1 => Call::Write { file, offset, length, address: 0 },
                2 => Call::ReadDirect { file, offset, length, address: 0 },
                _ => Call::WriteDirect { file, offset, length, address: 0 },
            },
        );
        let cuts =
            (file.clone(), offset).prop_map(|(file, length)| Call::Truncate { file, length });
        let deletes = file.prop_map(|file| Call::Unlink { file, size: 0 });
        proptest::collection::vec(prop_oneof![12 => moves, 2 => cuts, 1 => deletes], 1..200)
    }

    proptest! {
        #[test]
        fn pages_of_files_are_those_of_a_list(calls in calls()) {
            prop_assume!(!calls.is_empty());
            let found = of(&calls, 1 << 20);
            // The pages touched last, the newest first; distances; pages that ever were, and those written.
            let mut list: Vec<(u32, u64)> = Vec::new();
            let (mut distances, mut first, mut most) = (Vec::new(), 0u64, 0);
            let mut written = std::collections::BTreeSet::new();
            let mut written_in_all = 0;
            let mut bytes = [0u64; 2];
            let mut moved = 0;
            // Files whose size has become known.
            let mut sizes = [None; 4];
            for call in &calls {
                match *call {
                    Call::Truncate { file, length } => {
                        sizes[file as usize] = Some(length);
                        let gone = |it: &(u32, u64)| it.0 == file && it.1 * 4096 >= length;
                        list.retain(|it| !gone(it));
                        written.retain(|it| !gone(it));
                    }
                    Call::Unlink { file, .. } => {
                        sizes[file as usize] = Some(0);
                        list.retain(|it| it.0 != file);
                        written.retain(|it: &(u32, u64)| it.0 != file);
                    }
                    Call::Read { file, offset, length, .. }
                    | Call::Write { file, offset, length, .. }
                    | Call::ReadDirect { file, offset, length, .. }
                    | Call::WriteDirect { file, offset, length, .. } => {
                        let write = matches!(call, Call::Write { .. } | Call::WriteDirect { .. });
                        let size = &mut sizes[file as usize];
                        let length = match size {
                            Some(size) if !write => length.min(size.saturating_sub(offset)),
                            _ => length,
                        };
                        if write {
                            *size = size.map(|size| size.max(offset + length));
                        }
                        bytes[usize::from(write)] += length;
                        moved += 1;
                        for number in 0..u64::MAX {
                            let at = offset / 4096 + number;
                            if length == 0 || at * 4096 >= offset + length {
                                break;
                            }
                            match list.iter().position(|it| *it == (file, at)) {
                                Some(place) => {
                                    list.remove(place);
                                    distances.push(place as u64 + 1);
                                }
                                None => first += 1,
                            }
                            list.insert(0, (file, at));
                            most = most.max(list.len() as u64);
                            written_in_all += u64::from(write && written.insert((file, at)));
                        }
                    }
                    _ => {}
                }
            }
            prop_assert_eq!(found.touches, first + distances.len() as u64);
            prop_assert_eq!((found.pages, found.most_pages), (first, most));
            prop_assert_eq!(found.written_pages, written_in_all);
            prop_assert_eq!([found.read_bytes, found.written_bytes], bytes);
            prop_assert_eq!(found.accesses.len(), moved);
            for one in &found.miss_ratio {
                let hits = distances.iter().filter(|it| **it * 4096 <= one.cache_bytes).count() as u64;
                let misses = (found.touches - hits) as f64 / found.touches as f64;
                prop_assert!((one.miss_ratio - misses).abs() < 1e-9, "{:?}: {}", one, misses);
            }
        }
    }

    #[test]
    fn calls_are_counted_by_kind_and_files_have_their_names() {
        let map = |file| Call::Map { address: 0, length: 1, flags: 0, file, offset: 0 };
        let found = of(
            &[
                Call::Open { file: 0, size: 0 },
                Call::Open { file: 5, size: 9 },
                map(0),
                map(NO_FILE),
                Call::Write { file: 0, offset: 0, length: 100, address: 0 },
                Call::Write { file: 0, offset: 100, length: 5000, address: 0 },
                Call::Read { file: 0, offset: 5000, length: 1 << 20, address: 0 },
                Call::Sync { file: 0 },
                Call::SyncAll {},
                Call::ReadDirect { file: 7, offset: u64::MAX - 3, length: u64::MAX, address: 0 },
                Call::Close { file: 0 },
                Call::Unlink { file: 7, size: 0 },
                Call::MakeDirectory { file: 8, parent: NO_FILE },
                Call::Rename { file: 0, parent: 8, replaced: NO_FILE, size: 0, names: 0 },
                Call::Rename { file: 0, parent: 8, replaced: 9, size: 5, names: 0 },
                Call::Rename { file: 0, parent: 8, replaced: 9, size: 5, names: 1 },
                Call::Link { file: 0, parent: 8 },
                Call::Unname { file: 0, parent: 8 },
                Call::ReadDirectory { file: 8, length: 24 },
                Call::RemoveDirectory { file: 8 },
            ],
            1 << 20,
        );
        let calls = FileCalls {
            opens: 2,
            closes: 1,
            reads: 1,
            writes: 2,
            direct_reads: 1,
            syncs: 2,
            deletes: 2,
            renames: 3,
            links: 2,
            directories: 2,
            lists: 1,
            maps: 1,
            ..FileCalls::default()
        };
        assert_eq!(found.calls, calls);
        assert_eq!((found.sequential, found.files, found.touches, found.pages), (1, 2, 5, 3));
        let used: Vec<_> = found
            .most_used
            .iter()
            .map(|it| (it.name.as_str(), it.read_bytes, it.written_bytes))
            .collect();
        assert_eq!(used, [("first", 100, 5100), ("file 7", 3, 0)]);
        assert_eq!(found.sizes, [(2, 1), (64, 2), (4096, 1)]);
    }

    #[test]
    fn copies_and_holes_are_told_of_the_pages_that_they_touch_and_take() {
        let write = |file: FileId, pages: u64| Call::Write {
            file,
            offset: 0,
            length: pages * 4096,
            address: 0,
        };
        let hole = |mode: u64, first: u64, pages: u64| {
            let (offset, length) = (first * 4096, pages * 4096);
            Call::Allocate { file: 0, mode, offset, length }
        };
        let found = of(
            &[
                Call::Open { file: 0, size: 0 },
                write(0, 8),
                Call::CopyRange { source: 0, source_offset: 0, file: 1, offset: 0, length: 8192 },
                Call::SpliceRead { file: 0, offset: 0, length: 4096 },
                Call::SpliceWrite { file: 1, offset: 8192, length: 4096 },
                hole(0, 0, 9),
                hole(fallocate::PUNCH_HOLE | fallocate::KEEP_SIZE, 2, 3),
                write(0, 8),
                hole(fallocate::COLLAPSE_RANGE, 6, 1),
                write(0, 8),
            ],
            1 << 20,
        );
        let calls = FileCalls {
            opens: 1,
            writes: 3,
            copies: 1,
            splices: 2,
            allocates: 1,
            holes: 2,
            ..FileCalls::default()
        };
        assert_eq!(found.calls, calls);
        // 8 pages of one, 3 of the other; 3 that came in the place of a hole, 2 behind what was taken out.
        assert_eq!((found.touches, found.pages, found.most_pages), (8 + 4 + 1 + 1 + 16, 16, 11));
        assert_eq!([found.read_bytes, found.written_bytes], [8192 + 4096, 3 * 32768 + 8192 + 4096]);
    }

    #[test]
    fn what_is_loaded_and_stored_through_a_mapping_touches_the_pages_of_its_file() {
        let mut pass = FilePass::new(1 << 20);
        let (address, length) = (1 << 30, 4 * 4096);
        let map =
            Call::Map { address, length, flags: crate::op::MAP_SHARED, file: 0, offset: 4096 };
        pass.take(&map, &mut || true);
        let of =
            |at: u64, kind| TraceRequest { address: address + at, bytes: 8, kind, ticks: None };
        let (read, write) = (RequestKind::Read, RequestKind::Write);
        for (at, kind) in
            [(0, read), (8, read), (16, write), (24, read), (4092, write), (40_000, write)]
        {
            pass.access(&of(at, kind));
        }
        // The file's second page by a call; its third is touched by the store that goes over an end.
        let read = Call::Read { file: 0, offset: 4096, length: 4096, address: 0 };
        pass.take(&read, &mut || true);
        let found = pass.finish(&[]).unwrap();
        assert_eq!((found.touches, found.mapped_touches), (4, 3));
        assert_eq!((found.pages, found.written_pages), (2, 2));
    }

    #[test]
    fn a_large_call_is_broken_off_in_its_middle() {
        let length = 1 << 30;
        for call in [
            Call::Write { file: 0, offset: 0, length, address: 0 },
            Call::CopyRange { source: 0, source_offset: 0, file: 1, offset: 0, length },
        ] {
            let (mut pass, mut left) = (FilePass::new(1 << 20), 100);
            let mut goes_on = || {
                left -= i32::from(left > 0);
                left > 0
            };
            assert!(pass.take(&call, &mut goes_on));
            assert!((100..=101).contains(&pass.finish(&[]).unwrap().touches), "{call:?}");
        }
    }

    #[test]
    fn of_many_accesses_some_are_kept_from_everywhere() {
        let calls: Vec<Call> = (0..100_000)
            .map(|at| Call::Read { file: 0, offset: at % 64 * 4096, length: 4096, address: 0 })
            .collect();
        let found = of(&calls, 1 << 20);
        let kept = &found.accesses;
        assert!((MOST_KEPT / 3..=MOST_KEPT).contains(&kept.len()), "{}", kept.len());
        // No place of the loop, and no part of the way, is passed over.
        let places: std::collections::BTreeSet<u64> = kept.iter().map(|it| it.offset).collect();
        assert_eq!(places.len(), 64);
        let parts: std::collections::BTreeSet<u64> =
            kept.iter().map(|it| it.number / 1000).collect();
        assert_eq!(parts.len(), 100);
    }

    #[test]
    fn a_file_cut_off_that_has_fewer_pages_than_its_length_is_gone_all_the_same() {
        let far = 1 << 50;
        let at = |offset| Call::Write { file: 0, offset, length: 4096, address: 0 };
        let cut = Call::Truncate { file: 0, length: 8192 };
        let found = of(&[at(0), at(far), cut, at(0), at(far)], 1 << 20);
        assert_eq!((found.touches, found.pages, found.most_pages), (4, 3, 2));
    }
}
