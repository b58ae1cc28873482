//! From what a process calls its threads, files and addresses to what the program does.

use crate::capture::FLUSHES;
use crate::sink::Counts;
use crate::syscalls::untold_in_words;
use std::collections::{BTreeMap, HashMap, HashSet};
use tierscope_workload::op::{Buffer, NO_FILE};
use tierscope_workload::{Call, FileId, Op, OpKind, ThreadId};

/// Bits of an address that a process uses: the lower half of the canonical ones.
const ADDRESS_BITS: u32 = 48;

/// Translates the operations of one process.
pub struct Translator<F> {
    /// The process's number, above its addresses: pages of different processes are different.
    tag: u64,
    /// Files by the process's own numbers.
    pub files: HashMap<FileId, FileId>,
    /// Threads, by their numbers in the run, that the process has started.
    pub started: HashSet<ThreadId>,
    /// What calls did that is not recorded, and how often.
    pub untold: BTreeMap<&'static str, u64>,
    /// Flushes of lines that are not recorded, by their instruction, and how often.
    pub flushes: BTreeMap<&'static str, u64>,
    thread: F,
}

impl<F: FnMut(ThreadId) -> ThreadId> Translator<F> {
    /// Of the process with this number; `thread` translates its numbers of threads.
    pub fn new(process: u32, thread: F) -> Self {
        let tag = u64::from(process) << ADDRESS_BITS;
        Translator {
            tag,
            files: HashMap::new(),
            started: HashSet::new(),
            untold: BTreeMap::new(),
            flushes: BTreeMap::new(),
            thread,
        }
    }

    /// A thread's number.
    pub fn thread(&mut self, thread: ThreadId) -> ThreadId {
        (self.thread)(thread)
    }

    /// Translates operations, and counts them. Half a call, and what follows it, is left out.
    pub fn translate(&mut self, ops: &mut Vec<Op>) -> Counts {
        let mut counts = Counts::default();
        let mut at = 0;
        while let Some(op) = ops.get_mut(at) {
            let kind = op.kind();
            match kind {
                Some(OpKind::Load | OpKind::Store) => {
                    op.word = self.tag | op.word & ((1 << ADDRESS_BITS) - 1);
                    counts.loads += u64::from(kind == Some(OpKind::Load));
                    counts.stores += u64::from(kind == Some(OpKind::Store));
                    at += 1;
                }
                Some(OpKind::Flush) => {
                    op.word = self.tag | op.word & ((1 << ADDRESS_BITS) - 1);
                    at += 1;
                }
                Some(OpKind::Compute) => {
                    // Flags are the number of a flush of which this is left.
                    let flush = usize::from(op.flags()).checked_sub(1);
                    if let Some(name) = flush.and_then(|number| FLUSHES.get(number)) {
                        *self.flushes.entry(name).or_default() += 1;
                    }
                    *op = Op::compute(op.instructions());
                    at += 1;
                }
                // All processes agree on numbers of sites.
                Some(OpKind::Site | OpKind::Fence) => at += 1,
                Some(OpKind::Call) => {
                    let whole = *op;
                    let Some(next) = self.translate_call(whole, at, ops) else { break };
                    counts.calls += 1;
                    counts.instructions += u64::from(whole.instructions());
                    at = next;
                    continue;
                }
                // The recorder tells uses where it writes.
                Some(OpKind::Argument | OpKind::Used) | None => break,
            }
            counts.instructions += u64::from(ops[at - 1].instructions());
        }
        ops.truncate(at);
        counts
    }

    /// Translates the call at a place; the place of what follows it.
    fn translate_call(&mut self, op: Op, at: usize, ops: &mut Vec<Op>) -> Option<usize> {
        let call = Call::decode(op, &ops[at + 1..])?;
        let end = at + 1 + usize::from(op.size());
        let further: Vec<Buffer> = call
            .further_buffers(op, &ops[at + 1..])
            .map(|buffer| Buffer { address: self.address(buffer.address), ..buffer })
            .collect();
        let mut translated = Vec::new();
        let call = self.call(call);
        let further = if call.takes_buffers() { &further[..] } else { &[] };
        call.encode_with(further, op.instructions(), &mut translated);
        let next = at + translated.len();
        if next == end {
            ops[at..end].copy_from_slice(&translated);
        } else {
            ops.splice(at..end, translated);
        }
        Some(next)
    }

    /// The process's number.
    pub fn process(&self) -> u64 {
        self.tag >> ADDRESS_BITS
    }

    fn address(&self, address: u64) -> u64 {
        self.tag | address & ((1 << ADDRESS_BITS) - 1)
    }

    fn file(&self, file: FileId) -> FileId {
        self.files.get(&file).copied().unwrap_or(NO_FILE)
    }

    /// Gives files their numbers here, but for none; whether all have one.
    fn renumber_all<const N: usize>(&self, files: [&mut FileId; N]) -> bool {
        let mut all = true;
        for file in files {
            let had = *file;
            *file = self.file(had);
            all &= had == NO_FILE || *file != NO_FILE;
        }
        all
    }

    fn call(&mut self, call: Call) -> Call {
        let call = self.relocated(call);
        match call {
            Call::Spawn { thread } => {
                let thread = (self.thread)(thread);
                self.started.insert(thread);
                Call::Spawn { thread }
            }
            Call::Fork { process, thread, .. } => {
                Call::Fork { parent: self.process(), process, thread: (self.thread)(thread) }
            }
            Call::Exec { .. } => Call::Exec { process: self.process() },
            Call::LockAll { flags, .. } => Call::LockAll { process: self.process(), flags },
            Call::Exit { .. } => Call::Exit { process: self.process() },
            Call::Wait { thread, sequence } => {
                Call::Wait { thread: (self.thread)(thread), sequence }
            }
            Call::Other { number } => {
                if let Some(words) = untold_in_words(number) {
                    *self.untold.entry(words).or_default() += 1;
                }
                call
            }
            call => self.with_file(call),
        }
    }

    fn relocated(&self, mut call: Call) -> Call {
        match &mut call {
            Call::Map { address, .. }
            | Call::Unmap { address, .. }
            | Call::Advise { address, .. }
            | Call::Lock { address, .. }
            | Call::Unlock { address, .. }
            | Call::Populate { address, .. }
            | Call::Protect { address, .. }
            | Call::Read { address, .. }
            | Call::Write { address, .. }
            | Call::ReadDirect { address, .. }
            | Call::WriteDirect { address, .. }
            | Call::SyncRange { address, .. } => *address = self.address(*address),
            Call::Remap { old_address, new_address, .. } => {
                *old_address = self.address(*old_address);
                *new_address = self.address(*new_address);
            }
            // All named, so that a new call is looked at here.
            Call::Open { .. }
            | Call::Close { .. }
            | Call::Sync { .. }
            | Call::SyncData { .. }
            | Call::SyncAll {}
            | Call::SyncFileRange { .. }
            | Call::Unlink { .. }
            | Call::Truncate { .. }
            | Call::CopyRange { .. }
            | Call::SpliceRead { .. }
            | Call::SpliceWrite { .. }
            | Call::Allocate { .. }
            | Call::AdviseFile { .. }
            | Call::LockAll { .. }
            | Call::MakeDirectory { .. }
            | Call::RemoveDirectory { .. }
            | Call::ReadDirectory { .. }
            | Call::Rename { .. }
            | Call::Link { .. }
            | Call::Unname { .. }
            | Call::Within { .. }
            | Call::Exists { .. }
            | Call::Stat { .. }
            | Call::Spawn { .. }
            | Call::Signal { .. }
            | Call::Wait { .. }
            | Call::Sleep { .. }
            | Call::Other { .. }
            | Call::Marker { .. }
            | Call::Skip { .. }
            | Call::Fork { .. }
            | Call::Exec { .. }
            | Call::Exit { .. } => {}
        }
        call
    }

    fn with_file(&self, mut call: Call) -> Call {
        match &mut call {
            Call::Map { file, .. } => *file = self.file(*file),
            Call::Rename { file, parent, replaced, .. } => {
                let known = self.renumber_all([file, parent, replaced]);
                if !known {
                    return Call::Other { number: 0 };
                }
            }
            Call::MakeDirectory { file, parent }
            | Call::Link { file, parent }
            | Call::Unname { file, parent }
            | Call::Exists { file, parent, .. }
            | Call::Within { file, parent, .. } => {
                let known = self.renumber_all([file, parent]);
                if !known {
                    return Call::Other { number: 0 };
                }
            }
            Call::CopyRange { source, file, .. } => {
                (*source, *file) = (self.file(*source), self.file(*file));
                if *source == NO_FILE || *file == NO_FILE {
                    return Call::Other { number: 0 };
                }
            }
            other => {
                if let Some(file) = other.file_mut() {
                    *file = self.file(*file);
                    if *file == NO_FILE {
                        // It was never announced: the process was killed in between.
                        return Call::Other { number: 0 };
                    }
                }
            }
        }
        call
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierscope_workload::op::MAP_WRITABLE;

    #[test]
    fn a_process_has_its_own_addresses_and_shares_numbers_of_threads_and_files() {
        let mut translator = Translator::new(3, |thread| thread + 10);
        translator.files.insert(1, 7);
        let map = |address, file| Call::Map {
            address,
            length: 4096,
            flags: MAP_WRITABLE,
            file,
            offset: 0,
        };
        let mut ops = vec![Op::load(0x7fff_1234, 8, 5), Op::compute(9)];
        let mut expected = vec![Op::load(3 << 48 | 0x7fff_1234, 8, 5), Op::compute(9)];
        for (call, translated) in [
            (map(0x1000, 1), map(3 << 48 | 0x1000, 7)),
            (map(0x1000, NO_FILE), map(3 << 48 | 0x1000, NO_FILE)),
            (Call::Spawn { thread: 1 }, Call::Spawn { thread: 11 }),
            (Call::Wait { thread: 2, sequence: 4 }, Call::Wait { thread: 12, sequence: 4 }),
            (Call::Signal { sequence: 1 }, Call::Signal { sequence: 1 }),
            (
                Call::Read { file: 1, offset: 5, length: 6, address: 0x2000 },
                Call::Read { file: 7, offset: 5, length: 6, address: 3 << 48 | 0x2000 },
            ),
            (Call::Close { file: 99 }, Call::Other { number: 0 }),
            (
                Call::Fork { parent: 0, process: 9, thread: 3 },
                Call::Fork { parent: 3, process: 9, thread: 13 },
            ),
            (Call::Exec { process: 0 }, Call::Exec { process: 3 }),
            (Call::Exit { process: 0 }, Call::Exit { process: 3 }),
            (
                Call::Remap { old_address: 1, old_length: 2, new_address: 3, new_length: 4 },
                Call::Remap {
                    old_address: 3 << 48 | 1,
                    old_length: 2,
                    new_address: 3 << 48 | 3,
                    new_length: 4,
                },
            ),
        ] {
            call.encode(2, &mut ops);
            translated.encode(2, &mut expected);
        }
        let read =
            |tag: u64, file| Call::Read { file, offset: 5, length: 90, address: tag | 0x2000 };
        let buffer = |tag: u64| [Buffer { address: tag | 0x7000, length: 40 }];
        read(0, 1).encode_with(&buffer(0), 2, &mut ops);
        read(3 << 48, 7).encode_with(&buffer(3 << 48), 2, &mut expected);
        let copy =
            |source, file| Call::CopyRange { source, source_offset: 1, file, offset: 2, length: 3 };
        copy(1, 1).encode(2, &mut ops);
        copy(7, 7).encode(2, &mut expected);
        copy(99, 1).encode(2, &mut ops);
        Call::Other { number: 0 }.encode(2, &mut expected);
        let counts = translator.translate(&mut ops);
        assert_eq!(ops, expected);
        assert_eq!(counts, Counts::of(&expected));
        assert!(translator.started.contains(&11));
        assert!(translator.untold.is_empty());
        let mut ops = Vec::new();
        let attached = 5 << 32 | libc::SYS_shmat as u64;
        for number in [attached, attached, libc::SYS_shmat as u64, 99 << 32] {
            Call::Other { number }.encode(1, &mut ops);
        }
        translator.translate(&mut ops);
        let words = "attached segments of shared memory (shmat)";
        assert_eq!(translator.untold, BTreeMap::from([(words, 2)]));
        let flush = |number| Op::compute(3).with_flags(number);
        let mut ops = vec![flush(1), flush(3), Op::compute(4), flush(3), flush(9)];
        let counts = translator.translate(&mut ops);
        assert_eq!(ops, [3, 3, 4, 3, 3].map(Op::compute));
        assert_eq!(counts, Counts { instructions: 16, ..Counts::default() });
        assert_eq!(translator.flushes, BTreeMap::from([("CLFLUSH", 1), ("CLWB", 2)]));
    }

    #[test]
    fn what_is_damaged_is_left_out() {
        let mut translator = Translator::new(1, |thread| thread);
        let mut ops = vec![Op::compute(1)];
        Call::Signal { sequence: 1 }.encode(1, &mut ops);
        let mut half = ops[..2].to_vec();
        assert_eq!(
            translator.translate(&mut half),
            Counts { instructions: 1, ..Counts::default() }
        );
        assert_eq!(half, [Op::compute(1)]);
        let mut nothing = vec![Op { word: u64::MAX, meta: u64::MAX }];
        translator.translate(&mut nothing);
        assert_eq!(nothing, []);
    }
}
