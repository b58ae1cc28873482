//! What a format of traces says of itself, and what it asks of those who read or write it.

use super::told::Told;
use super::{Converted, RequestKind, Times, TraceRequest, Volume};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A format of traces of requests.
#[derive(Debug)]
pub struct Format {
    /// Name, as it stands before the file: `dramsim3:FILE`.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub summary: &'static str,
    /// A line, in words: `0xADDRESS READ|WRITE CYCLE`; of a binary format, a record.
    pub grammar: &'static str,
    /// A line that is right; empty for a binary format.
    pub example: &'static str,
    /// A first line that says what the columns are, which a file may have; empty where there is none.
    pub heading: &'static str,
    /// What a file of it begins with, where we write it.
    pub opening: &'static [u8],
    /// What a file of it ends with, where we write it.
    pub closing: &'static [u8],
    /// Whether a record is the one with which a whole trace ends, where there is such a record.
    pub end: Option<fn(&[u8]) -> bool>,
    /// What times are counted in, unless an option says otherwise.
    pub times: Times,
    /// Whether times count from somewhere before the trace, so that the first of a trace is its start.
    pub epoch: bool,
    /// How requests say how much they move.
    pub extent: Extent,
    /// The most bytes of a request; one of more is written as several.
    pub most_bytes: u32,
    /// Whether it has flushes and trims.
    pub marks: Marks,
    /// Whether it does not tell writes, so that all requests are reads.
    pub only_reads: bool,
    /// Whether address 0 means that there is none, so that no request for it can be written.
    pub nought_is_none: bool,
    /// What records without a request are, where that is worth telling: `records of size 0`.
    pub left_out: Option<&'static str>,
    /// What of every request is lost when it is written, beyond what is counted; empty where nothing is.
    pub loses: &'static str,
    /// What may be said of how a file is to be read.
    pub options: &'static [FormatOption],
    /// Where the format is defined.
    pub source: &'static str,
    /// How it is read.
    pub parse: Parse,
    /// How a request is written, whatever is said; `None` where it is only read, or that depends on options.
    pub write: Option<Write>,
    /// How a request is written where that depends on options.
    pub writer: Option<Writer>,
    /// How a request is written with the instructions up to it, where the format tells those.
    pub write_instructions: Option<WriteInstructions>,
    /// How it is read for a machine with a processor, where it tells what a program's instructions do, or
    /// which thread asks.
    pub program: Option<OfProgram>,
    /// How it tells of instructions one by one, where it does.
    pub instructions: Option<OfInstructions>,
}

impl Format {
    /// Of lines of memory, without times, flushes or options, only read, to devices alone: a format says what is
    /// otherwise, and its name, words, source and how it is read.
    pub const PLAIN: Format = Format {
        name: "",
        summary: "",
        grammar: "",
        example: "",
        heading: "",
        opening: b"",
        closing: b"",
        end: None,
        times: Times::Absent,
        epoch: false,
        extent: Extent::Line,
        most_bytes: u32::MAX,
        marks: Marks { flush: false, trim: false, forced: false },
        only_reads: false,
        nought_is_none: false,
        left_out: None,
        loses: "",
        options: &[],
        source: "",
        parse: Parse::Lines(|_| Err("the format does not say how it is read".to_owned())),
        write: None,
        writer: None,
        write_instructions: None,
        program: None,
        instructions: None,
    };

    /// The requests that one is written as: itself, or, where it is larger than the format's may be, parts of the largest
    /// power of two of bytes that may, and a rest.
    pub(super) fn parts(
        &self,
        request: &TraceRequest,
    ) -> impl Iterator<Item = TraceRequest> + use<> {
        let (most, whole) = (self.most_bytes, *request);
        let mut left = Some(whole);
        std::iter::from_fn(move || {
            let rest = left?;
            let bytes = if rest.bytes > most { 1 << most.ilog2() } else { rest.bytes };
            let address = rest.address.wrapping_add(bytes.into());
            left = Some(TraceRequest { address, bytes: rest.bytes - bytes, ..rest });
            left = left.filter(|left| left.bytes > 0);
            Some(TraceRequest { bytes, ..rest })
        })
    }

    /// What of every request is lost when it is written so, beyond what is counted; empty where nothing is.
    pub fn loses(&self, choices: &Choices) -> &'static str {
        let script = self.writer.and_then(|writer| (writer.new)(choices).ok());
        script.map_or(self.loses, |script| script.loses())
    }

    /// Whether traces of it are written, and not only read.
    pub fn is_written(&self) -> bool {
        self.write.is_some() || self.writer.is_some()
    }
}

/// Appends a request as the format has it: a line with its end, or a record. What the format has no
/// place for has been left out before, and times and sizes are in its own units.
pub type Write = fn(&TraceRequest, &mut Vec<u8>);

/// How a format is written where that depends on options.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    /// What may be said of how it is written.
    pub options: &'static [FormatOption],
    /// What writes a request, by what was said.
    pub new: fn(&Choices) -> Result<Box<dyn WriteScript>, ChoiceError>,
}

/// What writes requests, as [`Write`] does.
pub trait WriteScript {
    /// What a file begins with, where that is not what the format says.
    fn opening(&self) -> Option<&'static [u8]> {
        None
    }

    /// What of every request is lost by it, beyond what is counted; empty where nothing is.
    fn loses(&self) -> &'static str {
        ""
    }

    /// Appends a request.
    fn write(&self, request: &TraceRequest, to: &mut Vec<u8>);
}

/// How instructions are written.
#[derive(Clone, Copy, Debug)]
pub struct WriteInstructions {
    /// Appends so many instructions, the last of which is that of the request, where there is one; how many they
    /// are in the format.
    pub write: fn(u64, Option<&TraceRequest>, &mut Vec<u8>) -> u64,
    /// How many are written at a time at most, and what precedes them without a request.
    pub most_at_once: u64,
}

/// What a branch is, as ChampSim and DynamoRIO tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// To an address in the instruction.
    Jump,
    /// To an address in a register or in memory.
    IndirectJump,
    /// To an address in the instruction, or not.
    Conditional,
    /// A call of an address in the instruction.
    Call,
    /// A call of an address in a register or in memory.
    IndirectCall,
    /// Back to where a call came from.
    Return,
    /// One of which the trace does not say what it is.
    Other,
}

/// An instruction, as far as a trace tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// Instructions before it of which nothing is told.
    pub before: u64,
    /// Whether it is an instruction itself, and not an access that is of none.
    pub counts: bool,
    /// Where it is.
    pub address: Option<u64>,
    /// Its own bytes; 0 where they are not told.
    pub bytes: u16,
    /// What branch it is, if it is one.
    pub branch: Option<Branch>,
    /// Whether it was taken, where that is told.
    pub taken: Option<bool>,
    /// Registers that it writes (2) and reads (4), by ChampSim's numbers.
    pub registers: Option<[u8; 6]>,
    /// What it loads and stores, in order; of 0 bytes where their number is not told.
    pub accesses: Vec<TraceRequest>,
}

/// How a format tells of instructions one by one.
#[derive(Clone, Copy, Debug)]
pub struct OfInstructions {
    /// What is known at the beginning of a file.
    pub read: fn() -> Box<dyn ReadInstructions>,
    /// Appends an instruction with its accesses, but not those before it, and counts what is lost; `None` where accesses
    /// are told with how many instructions were before.
    pub write: Option<fn(&Instruction, &mut Vec<u8>, &mut Converted)>,
}

/// What is known after some lines or records of a trace of instructions.
pub trait ReadInstructions: Send {
    /// Reads the next line, which has no blanks around it and is not empty, or record, and appends what is whole by it.
    ///
    /// # Errors
    /// What is wrong with it.
    fn read(&mut self, record: &[u8], out: &mut VecDeque<Instruction>) -> Result<(), String>;

    /// Appends what is left at the end.
    fn end(&mut self, _out: &mut VecDeque<Instruction>) {}

    /// Numbers of the threads that there were, where their records name them.
    fn threads(&self) -> BTreeSet<u64> {
        BTreeSet::new()
    }

    /// The process whose addresses they are, where that is told.
    fn process(&self) -> Option<u64> {
        None
    }

    /// When the instruction that is whole next was, by a clock that all files of a trace share, where that is told.
    fn time(&self) -> Option<u64> {
        None
    }
}

/// How requests of a format say how much they move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// They do not: the line that holds the address is meant.
    Line,
    /// In bytes.
    Bytes,
    /// In sectors of so many bytes, in which addresses are counted too.
    Sectors(u32),
}

impl Extent {
    /// Bytes that addresses and sizes are whole numbers of.
    pub fn grain_bytes(self) -> u64 {
        match self {
            Extent::Line | Extent::Bytes => 1,
            Extent::Sectors(bytes) => u64::from(bytes),
        }
    }
}

/// What a format tells beside reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Flushes.
    pub flush: bool,
    /// Trims.
    pub trim: bool,
    /// That a write is forced.
    pub forced: bool,
}

/// What may be said of how a file is to be read.
#[derive(Clone, Copy, Debug)]
pub struct FormatOption {
    /// Its name: `--set workload.NAME=VALUE`.
    pub name: &'static str,
    /// What is taken unless it is said, in words.
    pub default: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

/// What was said of the options of a format.
pub type Choices = BTreeMap<String, String>;

/// A choice that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} = {value}: {reason}; {mend}")]
pub struct ChoiceError {
    /// The option.
    pub name: &'static str,
    /// What was said.
    pub value: String,
    /// Why it makes no sense.
    pub reason: String,
    /// What to write.
    pub mend: String,
}

/// Requests that a line or record has given, in order.
pub type Out = VecDeque<TraceRequest>;

/// Bytes that a trim of a trace has at most: more than any device, so that a slip of units is told.
const MOST_TRIM_BYTES: u64 = 1 << 46;

/// Appends a trim, which may be of a whole device, in parts of 1 GiB.
///
/// # Errors
/// Where it has more than 64 TiB, or goes beyond the last address.
pub(super) fn push_trim(
    address: u64,
    bytes: u64,
    ticks: Option<u64>,
    out: &mut Out,
) -> Result<(), String> {
    if bytes > MOST_TRIM_BYTES || address.checked_add(bytes).is_none() {
        return Err("it trims more than 64 TiB, or beyond 2^64 - 1 bytes; look at its unit".into());
    }
    let most = u64::from(super::MOST_REQUEST_BYTES);
    let mut done = 0;
    while done < bytes {
        let part = (bytes - done).min(most);
        let (address, bytes) = (address + done, part as u32);
        out.push_back(TraceRequest { address, bytes, kind: RequestKind::Trim, ticks });
        done += part;
    }
    Ok(())
}

/// How a format is read.
#[derive(Clone, Copy, Debug)]
pub enum Parse {
    /// Each line is a request, whatever was before. The line has no blanks around it and is not empty.
    Lines(fn(&str) -> Result<TraceRequest, String>),
    /// What a line means depends on those before, or on options.
    Script(fn(&Choices) -> Result<Box<dyn Script>, ChoiceError>),
    /// Records whose length they say themselves.
    Messages(fn(&Choices) -> Result<Box<dyn Messages>, ChoiceError>),
    /// Records of so many bytes, each of any number of requests.
    Records(usize, fn(&[u8], &mut Out) -> Result<(), String>),
}

/// What is known after some lines of a trace.
pub trait Script: Send {
    /// Reads the next line, which has no blanks around it and is not empty.
    ///
    /// # Errors
    /// What is wrong with it.
    fn read(&mut self, line: &str, out: &mut Out) -> Result<Read, String>;

    /// What times are counted in; those of the format, where it says nothing else.
    fn times(&self) -> Option<Times> {
        None
    }

    /// What is known of the volumes, where the format names them.
    fn volume(&mut self) -> Option<&mut Volume> {
        None
    }

    /// A second one that stands at the same place.
    fn fork(&self) -> Box<dyn Script>;
}

/// What is known after some records of a trace that say their length.
pub trait Messages: Send {
    /// Bytes that the record needs of which these are the first, as far as they tell: as many as there
    /// are where it is whole.
    ///
    /// # Errors
    /// What is wrong with them.
    fn needs(&self, begun: &[u8]) -> Result<usize, String>;

    /// Reads a whole record; false where it is one that was left out, which is worth telling.
    ///
    /// # Errors
    /// What is wrong with it.
    fn read(&mut self, record: &[u8], out: &mut Out) -> Result<bool, String>;

    /// What times are counted in; those of the format, where it says nothing else.
    fn times(&self) -> Option<Times> {
        None
    }

    /// What is known of the volumes, where the format names them.
    fn volume(&mut self) -> Option<&mut Volume> {
        None
    }

    /// A second one that stands at the same place.
    fn fork(&self) -> Box<dyn Messages>;
}

/// How traces of a format are read for a machine with a processor.
#[derive(Clone, Copy, Debug)]
pub struct OfProgram {
    /// What is known at the beginning of a file.
    pub new: fn() -> Box<dyn Program>,
    /// Whether a trace may have several files.
    pub several: Several,
}

/// What several files of a trace are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Several {
    /// There is one only.
    No,
    /// Each is a process of its own, with an address space of its own.
    Processes,
    /// Their records name threads and processes.
    Named,
}

/// What is known after some lines or records of a trace of a program.
pub trait Program: Send {
    /// Reads the next line, which has no blanks around it and is not empty, or record; of a format that
    /// [is of requests](Program::of_requests), which thread its requests are of.
    ///
    /// # Errors
    /// What is wrong with it.
    fn read(&mut self, record: &[u8], told: &mut Told) -> Result<(), String>;

    /// Whether what threads do are the requests of the trace, each of which counts as an instruction.
    fn of_requests(&self) -> bool {
        false
    }

    /// A second one that stands at the same place.
    fn fork(&self) -> Box<dyn Program>;
}

/// Whether more is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// More may come.
    Goes,
    /// All that follows is no part of the trace.
    Ends,
}
