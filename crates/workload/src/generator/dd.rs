//! `dd-read` and `dd-write`: a file copied to `/dev/null`, and zeros copied to a file that is then forced
//! to the store, by calls of one block each, as dd does (\[HYB15\] §3.2: a file of 64 MB; writing with
//! `conv=fdatasync`). The file begins on the store. One thread.
//!
//! Of `/dev/null` and `/dev/zero` the calls alone are told, and that zeros are written to the buffer. The
//! program itself counts the blocks that it read and wrote.

use super::prelude::{BASE_ADDRESS, Prelude};
use super::units::{Units, in_units};
use super::{Generator, Made, PAGE_BYTES, Parameter, find_value, integer, size, wrong};
use crate::op::{Call, MAP_WRITABLE, NO_FILE, Op, ThreadId};
use crate::stream::{FileInfo, Footprint};
use serde_json::Value;

const FILE: Parameter = Parameter {
    name: "file",
    default: "\"64MiB\"",
    meaning: "size of the file, 64 MB in [HYB15] §3.2: a whole number of blocks",
};
const BLOCK: Parameter = Parameter {
    name: "block",
    default: "\"512B\"",
    meaning: "what a call moves, up to 1MiB: dd's own 512 B (POSIX, dd), as [HYB15] names no other",
};
const INSTRUCTIONS: Parameter = Parameter {
    name: "instructions",
    default: "60",
    meaning: "the program's own instructions between two calls; assumption: a loop around read and \
              write that counts",
};

/// Registration.
pub const GENERATORS: &[Generator] = &[
    Generator {
        name: "dd-read",
        summary: "a file on the store read by calls, as dd does",
        dependences: "",
        parameters: &[FILE, BLOCK, INSTRUCTIONS],
        build: |parameters, _| build(parameters, false),
    },
    Generator {
        name: "dd-write",
        summary: "a file written by calls and forced to the store, as dd does",
        dependences: "",
        parameters: &[FILE, BLOCK, INSTRUCTIONS],
        build: |parameters, _| build(parameters, true),
    },
];

const LINE_BYTES: u64 = 64;
/// Numbers of system calls (Linux, x86-64): read and write.
const READ: u64 = 0;
const WRITE: u64 = 1;

fn build(parameters: &[(String, Value)], writes: bool) -> Made {
    let (file_bytes, block_bytes) = (size(parameters, "file")?, size(parameters, "block")?);
    if !(LINE_BYTES..=1 << 20).contains(&block_bytes) || !block_bytes.is_multiple_of(LINE_BYTES) {
        let reason = "not a whole number of lines of 64B, of 1MiB at most";
        return Err(wrong("block", find_value(parameters, "block"), reason, "write 512B or 4KiB"));
    }
    if file_bytes == 0 || !file_bytes.is_multiple_of(block_bytes) || file_bytes > 1 << 50 {
        let reason = "not a whole number of blocks, of 1PiB at most";
        return Err(wrong("file", find_value(parameters, "file"), reason, "write 64MiB"));
    }
    let instructions = integer(parameters, "instructions", 8..=1_000_000)? as u32;
    Ok(in_units(Dd { file_bytes, block_bytes, instructions, writes }))
}

#[derive(Clone)]
struct Dd {
    file_bytes: u64,
    block_bytes: u64,
    instructions: u32,
    writes: bool,
}

impl Dd {
    /// The buffer, and a page behind it.
    fn memory_bytes(&self) -> u64 {
        self.block_bytes.next_multiple_of(PAGE_BYTES) + PAGE_BYTES
    }

    fn blocks(&self) -> u64 {
        self.file_bytes / self.block_bytes
    }

    /// Lines of zeros that a block gets.
    fn lines(&self) -> u64 {
        if self.writes { self.block_bytes / LINE_BYTES } else { 0 }
    }

    /// A count that goes up: the first of what was read, the second of what was written.
    fn count(&self, number: u64, instructions: u32, out: &mut Vec<Op>) {
        let counts = BASE_ADDRESS + self.block_bytes.next_multiple_of(PAGE_BYTES);
        let at = counts + 8 * number;
        out.push(Op::load(at, 8, instructions / 2));
        out.push(Op::store(at, 8, instructions - instructions / 2));
    }
}

impl Units for Dd {
    fn threads(&self) -> u32 {
        1
    }

    fn prelude(&self) -> Prelude {
        let size = if self.writes { 0 } else { self.file_bytes };
        let opened = Prelude::default().open(0, size);
        opened.map(BASE_ADDRESS, self.memory_bytes(), MAP_WRITABLE, NO_FILE)
    }

    fn units(&self, _thread: ThreadId) -> u64 {
        self.blocks()
    }

    fn unit(&self, _thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        let (address, length, half) = (BASE_ADDRESS, self.block_bytes, self.instructions / 4);
        let (offset, rest) = (unit * length, self.instructions - 3 * half);
        if !self.writes {
            Call::Read { file: 0, offset, length, address }.encode(half, out);
            self.count(0, half, out);
            Call::Other { number: WRITE }.encode(rest, out);
            self.count(1, half, out);
            return;
        }
        Call::Other { number: READ }.encode(half, out);
        let lines = (0..self.lines()).map(|line| address + line * LINE_BYTES);
        out.extend(lines.map(|line| Op::store(line, LINE_BYTES as u16, 1)));
        self.count(0, half, out);
        Call::Write { file: 0, offset, length, address }.encode(rest, out);
        self.count(1, half, out);
        if unit + 1 == self.blocks() {
            Call::SyncData { file: 0 }.encode(half, out);
        }
    }

    fn before(&self, _thread: ThreadId, unit: u64) -> Option<u64> {
        // A read or a write has two operations of arguments, the other calls have one; and two counts.
        let sync = if self.writes && unit == self.blocks() { 2 } else { 0 };
        Some(unit * (9 + self.lines()) + sync)
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: self.file_bytes + self.memory_bytes(), parameter: "file" }
    }

    fn accesses(&self) -> Option<u64> {
        Some(self.blocks() * (4 + self.lines()))
    }

    fn files(&self) -> Vec<FileInfo> {
        let size_bytes = if self.writes { 0 } else { self.file_bytes };
        vec![FileInfo { name: "dd.data".into(), size_bytes }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{calls_of_thread, stream_laws};
    use crate::generator::find;

    fn calls(name: &str, sets: &[(String, Value)]) -> Vec<Call> {
        let (mut stream, _) = find(name).unwrap().make(sets, 0).unwrap();
        calls_of_thread(stream.as_mut(), 0)
    }

    #[test]
    fn the_streams_laws_hold_and_each_byte_is_moved_once_in_order() {
        let sets = [("file".to_owned(), Value::from("16KiB")), ("block".to_owned(), "512B".into())];
        for (name, syncs) in [("dd-read", 0), ("dd-write", 1)] {
            stream_laws(|| find(name).unwrap().make(&sets, 0).unwrap().0);
            let all = calls(name, &sets);
            let offsets: Vec<u64> = all
                .iter()
                .filter_map(|call| match *call {
                    Call::Read { offset, length: 512, .. } if name == "dd-read" => Some(offset),
                    Call::Write { offset, length: 512, .. } if name == "dd-write" => Some(offset),
                    _ => None,
                })
                .collect();
            assert_eq!(offsets, (0..32).map(|block| block * 512).collect::<Vec<u64>>());
            let synced = all.iter().filter(|call| matches!(call, Call::SyncData { .. })).count();
            assert_eq!(synced, syncs);
            assert!(syncs == 0 || matches!(all.last(), Some(Call::SyncData { file: 0 })));
        }
    }

    #[test]
    fn wrong_parameters_are_refused() {
        for (name, value, mend) in [("block", "100B", "512B or 4KiB"), ("file", "1000B", "64MiB")] {
            let given = [(name.to_owned(), Value::from(value))];
            let told = find("dd-read").unwrap().make(&given, 0).err().unwrap();
            assert!(told.to_string().contains(mend), "{told}");
        }
    }
}
