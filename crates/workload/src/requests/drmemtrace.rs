//! `drmemtrace`: the final traces of DynamoRIO's drmemtrace, decompressed from their zip archive or as
//! gzip: packed records of 12 bytes of a 64-bit program.
//!
//! Reads and writes are requests, at their virtual addresses. Prefetches, flushes, markers, times and
//! encodings are left out; instructions are counted on a machine with a processor, and left out else. Up to
//! the first instruction of a trace each access counts as one: what was made of requests has none.
//!
//! What is written is one thread's data accesses, and the instructions up to each where the source tells how many they
//! were: all at one address, which is not the program's, and without encodings. The trace says of itself that its
//! instruction addresses are filtered, so that nobody looks for their order. There is what DynamoRIO's own reader asks for: a header with the
//! version, a file type, the thread and its process, the lengths of lines and pages, and a time, before the
//! first access; an exit and a footer behind the last. A size has 16 bits: requests of 64 KiB and more become
//! several.

use super::format::{
    Branch, Instruction, OfInstructions, OfProgram, Program, ReadInstructions, Several,
    WriteInstructions,
};
use super::{
    Converted, Extent, Format, MOST_REQUEST_BYTES, Out, Parse, RequestKind, Told, TraceRequest,
};
use std::collections::{BTreeSet, VecDeque};

/// The format.
pub const FORMAT: Format = Format {
    name: "drmemtrace",
    summary: "Accesses of a program, from a final trace of DynamoRIO's drmemtrace (records of 12 \
              bytes); on a device alone requests come as fast as they are taken",
    grammar: "12 bytes: u16 type, u16 size, u64 address",
    opening: &OPENING,
    closing: &CLOSING,
    end: Some(|record| matches!(entry(record), Ok((FOOTER, ..)))),
    extent: Extent::Bytes,
    most_bytes: u16::MAX as u32,
    source: "DynamoRIO/dynamorio:clients/drcachesim/common/trace_entry.h, version 5 of the trace",
    parse: Parse::Records(12, parse),
    write: Some(write),
    write_instructions: Some(WriteInstructions {
        write: write_instructions,
        most_at_once: 1 << 12,
    }),
    program: Some(OfProgram { new: || Box::new(Drmemtrace::default()), several: Several::Named }),
    instructions: Some(OfInstructions {
        read: || Box::new(Entries::default()),
        write: Some(write_instruction),
    }),
    ..Format::PLAIN
};

const READ: u16 = 0;
const WRITE: u16 = 1;
const INSTRUCTION: u16 = 10;
const CONDITIONAL: u16 = 13;
const RETURN: u16 = 16;
const BUNDLE: u16 = 17;
const THREAD: u16 = 22;
const THREAD_EXIT: u16 = 23;
const PROCESS: u16 = 24;
const HEADER: u16 = 25;
const FOOTER: u16 = 26;
const MARKER: u16 = 28;
/// The marker that says when what follows was (`TRACE_MARKER_TYPE_TIMESTAMP`).
const TIME: u16 = 2;
const SYSENTER: u16 = 31;
const TAKEN: u16 = 48;
const UNTAKEN: u16 = 49;
/// What branches are.
const BRANCHES: [(u16, Branch); 8] = [
    (11, Branch::Jump),
    (12, Branch::IndirectJump),
    (CONDITIONAL, Branch::Conditional),
    (14, Branch::Call),
    (15, Branch::IndirectCall),
    (RETURN, Branch::Return),
    (TAKEN, Branch::Conditional),
    (UNTAKEN, Branch::Conditional),
];

/// An entry as it stands in a file.
const fn packed(kind: u16, size: u16, address: u64) -> [u8; 12] {
    let ([a, b], [c, d]) = (kind.to_le_bytes(), size.to_le_bytes());
    let [e, f, g, h, i, j, k, l] = address.to_le_bytes();
    [a, b, c, d, e, f, g, h, i, j, k, l]
}

/// Entries one behind the other.
const fn joined<const BYTES: usize>(entries: &[[u8; 12]]) -> [u8; BYTES] {
    assert!(BYTES == 12 * entries.len());
    let mut all = [0; BYTES];
    let mut at = 0;
    while at < BYTES {
        all[at] = entries[at / 12][at % 12];
        at += 1;
    }
    all
}

/// The oldest version that has all of what we write, and file types: x86-64, instructions filtered.
const VERSION: u64 = 3;
const FILE_TYPE: u64 = 0x40 | 0x80;
const THREAD_NUMBER: u64 = 1;
const OPENING: [u8; 9 * 12] = joined(&[
    packed(HEADER, 0, VERSION),
    packed(MARKER, 12, VERSION),
    packed(MARKER, 9, FILE_TYPE),
    packed(THREAD, 0, THREAD_NUMBER),
    packed(PROCESS, 0, THREAD_NUMBER),
    packed(MARKER, 10, 64),
    packed(MARKER, 18, 4096),
    // A time, which must not be 0, and a processor.
    packed(MARKER, TIME, 1),
    packed(MARKER, 3, 0),
]);
const CLOSING: [u8; 2 * 12] =
    joined(&[packed(THREAD_EXIT, 0, THREAD_NUMBER), packed(FOOTER, 0, 0)]);

/// One of no more bytes than a record tells.
fn write(request: &TraceRequest, to: &mut Vec<u8>) {
    let kind = if request.is_write() { WRITE } else { READ };
    let size = u16::try_from(request.bytes).unwrap_or(u16::MAX);
    to.extend_from_slice(&packed(kind, size, request.address));
}

/// Where all instructions are, and the bytes of each.
const INSTRUCTION_ADDRESS: u64 = 0x40_0000;
const INSTRUCTION_BYTES: u16 = 4;

fn write_instructions(count: u64, request: Option<&TraceRequest>, to: &mut Vec<u8>) -> u64 {
    for _ in 0..count {
        to.extend_from_slice(&packed(INSTRUCTION, INSTRUCTION_BYTES, INSTRUCTION_ADDRESS));
    }
    request.inspect(|request| write(request, to));
    count
}

/// A trace on its way to another of instructions.
#[derive(Default)]
struct Entries {
    /// Whether there has been an instruction.
    counts: bool,
    /// The instruction whose accesses come.
    current: Option<Instruction>,
    /// Instructions that were told by their number.
    before: u64,
    threads: BTreeSet<u64>,
    process: Option<u64>,
    /// What the last marker of time said: microseconds since 1601.
    time: Option<u64>,
    /// What it said as the instruction whose accesses come began.
    began: Option<u64>,
}

impl ReadInstructions for Entries {
    fn read(&mut self, record: &[u8], out: &mut VecDeque<Instruction>) -> Result<(), String> {
        let (kind, size, address) = entry(record)?;
        match kind {
            READ | WRITE => {
                if !self.counts {
                    out.extend(self.current.take());
                }
                let counts = !self.counts;
                if self.current.is_none() {
                    self.began = self.time;
                }
                let current = self
                    .current
                    .get_or_insert_with(|| Instruction { counts, ..Instruction::default() });
                let (bytes, kind) = (size.max(1).into(), RequestKind::of(kind == WRITE));
                current.accesses.push(TraceRequest { address, bytes, kind, ticks: None });
            }
            INSTRUCTION..=RETURN | SYSENTER | TAKEN | UNTAKEN => {
                self.counts = true;
                out.extend(self.current.take());
                self.began = self.time;
                let branch = BRANCHES.iter().find(|(code, _)| *code == kind);
                let branch = branch.map(|(_, branch)| *branch);
                let taken = match kind {
                    UNTAKEN => Some(false),
                    CONDITIONAL => None,
                    _ => branch.map(|_| true),
                };
                self.current = Some(Instruction {
                    before: std::mem::take(&mut self.before),
                    counts: size > 0,
                    address: Some(address),
                    bytes: size,
                    branch,
                    taken,
                    ..Instruction::default()
                });
            }
            BUNDLE => {
                out.extend(self.current.take());
                self.before += u64::from(size);
            }
            THREAD => {
                // What it did last is whole.
                out.extend(self.current.take());
                self.threads.insert(address);
            }
            PROCESS => self.process = Some(address),
            MARKER if size == TIME => self.time = Some(address),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, out: &mut VecDeque<Instruction>) {
        out.extend(self.current.take());
        let before = std::mem::take(&mut self.before);
        if before > 0 {
            out.push_back(Instruction { before, ..Instruction::default() });
        }
    }

    fn threads(&self) -> BTreeSet<u64> {
        self.threads.clone()
    }

    fn process(&self) -> Option<u64> {
        self.process
    }

    fn time(&self) -> Option<u64> {
        if self.current.is_some() { self.began } else { self.time }
    }
}

fn write_instruction(one: &Instruction, to: &mut Vec<u8>, done: &mut Converted) {
    if one.counts {
        let kind = match (one.branch, one.taken) {
            (Some(Branch::Conditional), Some(true)) => TAKEN,
            (Some(Branch::Conditional), Some(false)) => UNTAKEN,
            (branch, _) => {
                let told = BRANCHES.iter().find(|(_, it)| Some(*it) == branch);
                done.branches_left_out += u64::from(branch.is_some() && told.is_none());
                told.map_or(INSTRUCTION, |(code, _)| *code)
            }
        };
        let bytes = if one.bytes > 0 { one.bytes } else { INSTRUCTION_BYTES };
        let address = one.address.unwrap_or(INSTRUCTION_ADDRESS);
        to.extend_from_slice(&packed(kind, bytes, address));
    }
    for access in one.accesses.iter().flat_map(|access| FORMAT.parts(access)) {
        write(&access, to);
        done.written += 1;
    }
    done.registers_left_out += u64::from(one.registers.is_some());
}

/// Type, size and address of a record.
fn entry(record: &[u8]) -> Result<(u16, u16, u64), String> {
    let half = |at: usize| u16::from_le_bytes([record[at], record[at + 1]]);
    let address = record[4..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    match half(0) {
        kind @ 0..=UNTAKEN => Ok((kind, half(2), address)),
        kind => Err(format!("its type is {kind}, and the last that is known is {UNTAKEN}")),
    }
}

fn parse(record: &[u8], out: &mut Out) -> Result<(), String> {
    let (kind, size, address) = entry(record)?;
    if let READ | WRITE = kind {
        let bytes = u32::from(size).clamp(1, MOST_REQUEST_BYTES);
        let kind = RequestKind::of(kind == WRITE);
        out.push_back(TraceRequest { address, bytes, kind, ticks: None });
    }
    Ok(())
}

/// A trace on its way to a processor.
#[derive(Clone, Default)]
struct Drmemtrace {
    /// Whether there has been an instruction.
    counts: bool,
}

impl Program for Drmemtrace {
    fn read(&mut self, record: &[u8], told: &mut Told) -> Result<(), String> {
        let (kind, size, address) = entry(record)?;
        match kind {
            READ | WRITE => {
                if !self.counts {
                    told.instructions(1);
                }
                told.access(kind == WRITE, address, size.max(1), 0);
            }
            // One of no bytes tells where the accesses behind it are of, of a trace whose instructions are filtered.
            INSTRUCTION..=RETURN | SYSENTER | TAKEN | UNTAKEN => {
                self.counts = true;
                told.instructions(u32::from(size > 0));
            }
            BUNDLE => told.instructions(u32::from(size)),
            THREAD => told.thread(address)?,
            PROCESS => told.process(address)?,
            _ => {}
        }
        Ok(())
    }

    fn fork(&self) -> Box<dyn Program> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::tests::Scratch;
    use super::*;

    pub fn record(kind: u16, size: u16, address: u64) -> Vec<u8> {
        [&kind.to_le_bytes()[..], &size.to_le_bytes(), &address.to_le_bytes()].concat()
    }

    /// What DynamoRIO's `file_reader_t` and `reader_t` ask of a trace, in their order.
    #[test]
    fn what_is_written_has_what_dynamorios_reader_asks_for() {
        let entries: Vec<_> = OPENING.chunks(12).map(|one| entry(one).unwrap()).collect();
        assert_eq!(entries[0], (HEADER, 0, VERSION));
        let place = |wanted: u16| entries.iter().position(|(kind, ..)| *kind == wanted).unwrap();
        assert!(place(THREAD) < place(PROCESS), "a process is the thread's before it");
        let behind = &entries[place(PROCESS) + 1..];
        assert!(behind.iter().all(|(kind, ..)| *kind == MARKER));
        let time = behind.iter().find(|(_, marker, _)| *marker == 2);
        assert!(
            time.is_some_and(|(.., at)| *at > 0),
            "a thread without a time is read without end"
        );
        let ends: Vec<_> = CLOSING.chunks(12).map(|one| entry(one).unwrap()).collect();
        assert_eq!(ends, [(THREAD_EXIT, 0, THREAD_NUMBER), (FOOTER, 0, 0)]);
    }

    #[test]
    fn requests_that_sixteen_bits_cannot_tell_become_several() {
        for (bytes, expected) in [
            (64, &[64][..]),
            (65_535, &[65_535]),
            (65_536, &[32_768, 32_768]),
            (100_000, &[32_768, 32_768, 34_464]),
        ] {
            let whole = TraceRequest { address: 4096, bytes, ..TraceRequest::default() };
            let (mut next, mut sizes) = (4096, Vec::new());
            for part in FORMAT.parts(&whole) {
                let mut to = Vec::new();
                write(&part, &mut to);
                assert_eq!(entry(&to), Ok((READ, part.bytes as u16, next)));
                next += u64::from(part.bytes);
                sizes.push(part.bytes);
            }
            assert_eq!((&sizes[..], next), (expected, 4096 + u64::from(bytes)));
        }
    }

    /// What is said to be written is what is read back, of requests and of instructions, with their number.
    #[test]
    fn parts_of_larger_requests_are_counted_as_they_are_written() {
        let read_back = |bytes: &[u8]| {
            let file = Scratch::new(bytes);
            let mut reader = file.open("drmemtrace").unwrap();
            let next = || super::super::RequestSource::next(&mut reader).unwrap();
            std::iter::from_fn(next).map(|one| u64::from(one.bytes)).collect::<Vec<_>>()
        };
        let how = super::super::How::default();
        let text = Scratch::new(b"0 0 0 200 1\n10 0 4096 1 0\n");
        let (mut source, mut to) = (text.open("mqsim").unwrap(), Vec::new());
        let done = super::super::convert(&mut source, &FORMAT, &how, &mut to, |_| true).unwrap();
        assert_eq!((done.read, done.written), (2, 4));
        assert_eq!(read_back(&to), [32_768, 32_768, 36_864, 512]);
        let text = Scratch::new(b"I  400000,3\n L 1000,100000\n S 2000,8\nI  400003,2\n");
        let lackey = super::super::find("lackey").unwrap();
        let mut source =
            super::super::InstructionSource::open(std::slice::from_ref(&text.0), lackey, &FORMAT)
                .unwrap()
                .unwrap();
        to.clear();
        let done =
            super::super::convert_instructions(&mut source, &FORMAT, &how, None, &mut to, |_| true);
        let done = done.unwrap();
        assert_eq!((done.read, done.written, done.instructions), (2, 4, 2));
        assert_eq!(read_back(&to), [32_768, 32_768, 34_464, 8]);
    }

    #[test]
    fn reads_and_writes_are_requests_and_all_else_is_left_out() {
        let bytes = [record(25, 0, 5), record(10, 4, 64), record(0, 8, 4096), record(1, 0, 64)];
        let bytes = bytes.concat();
        let file = Scratch::new(&bytes);
        let mut reader = file.open("drmemtrace").unwrap();
        let read: Vec<_> =
            std::iter::from_fn(|| super::super::RequestSource::next(&mut reader).unwrap())
                .collect();
        let told: Vec<_> =
            read.iter().map(|one| (one.is_write(), one.address, one.bytes)).collect();
        assert_eq!(told, [(false, 4096, 8), (true, 64, 1)]);
        assert!(super::super::RequestSource::remarks(&reader)[0].contains("it was cut there"));
        let whole = Scratch::new(&[bytes, record(26, 0, 0)].concat());
        let mut reader = whole.open("drmemtrace").unwrap();
        while super::super::RequestSource::next(&mut reader).unwrap().is_some() {}
        assert!(super::super::RequestSource::remarks(&reader).is_empty());
        let told = Scratch::new(&record(50, 0, 0)).said("drmemtrace");
        assert!(told.contains("its type is 50, and the last that is known is 49"), "{told}");
    }
}
