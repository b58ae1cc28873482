//! Fuzzing of everything that reads a user's file: traces of requests in every format, traces of programs and of
//! instructions, recordings, Filebench's language.
//!
//! An input is a file that is right, in which some bytes or numbers are changed; one whose outcome (what was read, or
//! what kind of error was told) was not seen before is kept, and changed further. Recordings are changed within their
//! blocks, too, with lengths and check sums made right again. Of each input these laws are checked: nothing
//! panics, nothing takes longer than seconds, an error says something, a fork of a reader goes on as the reader does, and
//! what is converted is read again.
//!
//! As a test each reader gets some hundred inputs. `make fuzz` goes on for longer:
//!
//! | variable | what |
//! |---|---|
//! | `TIERSCOPE_FUZZ_SECONDS` | how long, in the place of a count of inputs |
//! | `TIERSCOPE_FUZZ_SEED` | another seed than 1 |
//! | `TIERSCOPE_FUZZ_ONLY` | only readers whose names contain this |
//! | `TIERSCOPE_FUZZ_FILE` | this one input, to see a fault again |

use std::collections::BTreeSet;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tierscope_kernel::Clock;
use tierscope_units::Size;
use tierscope_workload::filebench::{self, Options, language};
use tierscope_workload::filter::FilterSpec;
use tierscope_workload::requests::{
    Accesses, Choices, FORMATS, First, Format, How, InstructionSource, Pattern, Patterned,
    ProgramTrace, RequestSource, TraceRequest, convert, convert_instructions, open, profile,
};
use tierscope_workload::site::{Site, SiteGrain};
use tierscope_workload::trace::{TstMetadata, TstReader, TstWriter};
use tierscope_workload::windows::WindowSpec;
use tierscope_workload::{Call, FileInfo, Op, Pull, Stream, StreamError};

/// Inputs of each reader as a test.
const INPUTS: u64 = 200;
/// An input that takes longer, as tests are built, hangs.
const MOST_TIME: Duration = Duration::from_secs(20);
/// Bytes of an input at most.
const MOST_BYTES: usize = 1 << 16;
/// Requests, and operations of a thread, that are read of an input at most.
const MOST_READ: u64 = 20_000;
/// Bytes that requests ask for in all, of those that are profiled and converted.
const MOST_MOVED: u64 = 1 << 20;
/// Bytes that are written of instructions at most.
const MOST_WRITTEN: usize = 1 << 24;
/// Inputs that are kept of each reader.
const MOST_KEPT: usize = 400;

/// Numbers, SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// One of so many.
    fn below(&mut self, count: usize) -> usize {
        (self.next() % count.max(1) as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// What reads an input.
#[derive(Clone, Copy)]
enum Reader {
    /// A trace, as requests for a device, and to be converted.
    Requests(&'static Format),
    /// A trace, as the threads of a program.
    Program(&'static Format),
    /// A trace, instruction by instruction.
    Instructions(&'static Format),
    /// A recording.
    Recording,
    /// Filebench's language.
    Filebench,
}

impl Reader {
    fn all() -> Vec<Reader> {
        let programs = FORMATS.iter().filter(|format| format.program.is_some());
        let instructions = FORMATS.iter().filter(|format| format.instructions.is_some());
        (FORMATS.iter().map(|format| Reader::Requests(format)))
            .chain(programs.map(|format| Reader::Program(format)))
            .chain(instructions.map(|format| Reader::Instructions(format)))
            .chain([Reader::Recording, Reader::Filebench])
            .collect()
    }

    fn name(self) -> String {
        match self {
            Reader::Requests(format) => format!("requests-{}", format.name),
            Reader::Program(format) => format!("program-{}", format.name),
            Reader::Instructions(format) => format!("instructions-{}", format.name),
            Reader::Recording => "recording".into(),
            Reader::Filebench => "filebench".into(),
        }
    }

    /// Files that are right.
    fn seeds(self) -> Vec<Vec<u8>> {
        match self {
            Reader::Requests(format) | Reader::Program(format) | Reader::Instructions(format) => {
                seeds_of(format)
            }
            Reader::Recording => recordings(),
            Reader::Filebench => {
                let files =
                    ["examples/notes.f", "tests/programs/mail.f", "tests/programs/mail-threads.f"];
                files.map(|name| std::fs::read(repository().join(name)).unwrap()).to_vec()
            }
        }
    }

    /// Reads the input at `path` to its end, and says what came of it. What is drawn is drawn from `numbers`.
    fn read(self, path: &Path, numbers: &mut Numbers) -> String {
        match self {
            Reader::Requests(format) => read_requests(path, format, numbers),
            Reader::Program(format) => {
                let files = [path.to_owned()];
                match ProgramTrace::open(&files, format, &Choices::new(), 4) {
                    Ok(trace) => read_threads(Box::new(trace), numbers),
                    Err(why) => why.to_string(),
                }
            }
            Reader::Instructions(format) => read_instructions(path, format, numbers),
            Reader::Recording => match TstReader::open(path, numbers.one_in(3)) {
                Ok(reader) => read_threads(Box::new(reader), numbers),
                Err(why) => why.to_string(),
            },
            Reader::Filebench => read_filebench(path, numbers),
        }
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn how() -> How {
    How {
        clock: Some(Clock::from_hertz(1_200_000_000)),
        interval_ps: Some(10_000),
        ..How::default()
    }
}

/// Lines and records of which some are in no trace that is written here.
const TEXTS: &[(&str, &str)] = &[
    ("dramsim3", "# made\n\n0x40 READ 1\r\n  0x80 \t WRITE 1\n0xffffffffffffffc0 READ 9"),
    ("dramsys", "1: read 0x40\n2: (8) write 0x48 0011223344556677\n"),
    ("ramulator-cpu", "3 20734016 20841280\n1 0x40 W\n0 64\n9 12 R\n"),
    ("nvmain", "NVMV1\n1 R 40 00 0\n2 W 80 0011 0022 3\n7 R c0 00 11 2\n"),
    ("lackey", "==1== Lackey\nI  04000000,3\n L 1ffeffe7e0,8\nI  04000003,5\n M 40,4\n S 50,16\n"),
    (
        "fio",
        "fio version 2 iolog\n/a add\n/a open\n/a read 0 4096\n/a wait 9\n/a sync\n/a trim 0 8192\n/a close\n",
    ),
    (
        "fio",
        "fio version 3 iolog\n2 a add\n2 b add\n8 a write 0 16384\n9 b read 0 512\n9 a datasync 0 0\n",
    ),
    (
        "msr",
        "128166372003061629,hm,1,Read,383496192,32768,413\n128166372016382155,hm,0,Write,0,512,9\n",
    ),
    (
        "systor17",
        "Timestamp,Response,IOType,LUN,Offset,Size\n1455592201.0,0.1,R,0,0,512\n1455592201.5,,,1,512,512\n",
    ),
    ("alibaba", "0,R,4096,4096,10\n7,W,8192,512,20\n"),
    ("tencent", "1538323200,4096,8,0,1283\n1538323200,0,8,1,1284\n"),
    ("mqsim", "0 0 0 8 1\n5 1 8 16 0\n"),
    (
        "blkparse",
        "8,0 3 1 0.000000000 697 Q WS 8 + 8 [x]\n8,16 1 2 0.000000009 697 D FWS 0 + 0 [y]\n  8,0 0 3 0.1 9 Q DS 8 + 4194304 [z]\n",
    ),
    ("libcachesim-csv", "time,object,size\n1,7,512\n2.5,8,4096\n"),
    ("ramulator2-vector", "R 0,0,1,2,3,4\nW 0,0,3,3,65535,127\n"),
];

/// A trace of requests in a format, and what its reader knows besides.
fn seeds_of(format: &'static Format) -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for (count, footprint) in [(3, 1 << 12), (40, 1 << 24)] {
        if format.is_written() {
            let mut source = Patterned::new(Pattern::Random, count, footprint, 4, 30, 1);
            let mut bytes = Vec::new();
            convert(&mut source, format, &how(), &mut bytes, |_| true).unwrap();
            seeds.push(bytes);
            let mut bytes = Vec::new();
            let mut source = Accesses::of(Box::new(Operations::some()), None);
            convert(&mut source, format, &how(), &mut bytes, |_| true).unwrap();
            seeds.push(bytes);
        }
    }
    if !format.example.is_empty() {
        let opening = String::from_utf8_lossy(format.opening);
        seeds.push(format!("{opening}{}\n", format.example).into_bytes());
    }
    let texts = TEXTS.iter().filter(|(name, _)| *name == format.name);
    seeds.extend(texts.map(|(_, text)| text.as_bytes().to_vec()));
    if format.name == "fio" {
        for name in ["fio-mixed", "fio-random", "fio-sequential"] {
            let packed =
                std::fs::File::open(repository().join(format!("tests/programs/{name}.log.xz")));
            let mut text = Vec::new();
            let unpacked = liblzma::read::XzDecoder::new(packed.unwrap());
            std::io::Read::read_to_end(&mut std::io::Read::take(unpacked, 4000), &mut text)
                .unwrap();
            seeds.push(text);
        }
    }
    seeds
}

/// One thread's operations, each kind among them.
#[derive(Clone)]
struct Operations(Vec<Op>, usize);

impl Operations {
    fn some() -> Self {
        let mut ops = Vec::new();
        for at in 0..60u64 {
            ops.push(Op::load(at << 6, 8, 3));
            ops.push(Op::store(at << 12 | 4, 16, 1));
            ops.push(Op::non_temporal_store(at << 6, 64, 2));
            ops.push(Op::flush(at << 6, 0, 1));
            ops.push(Op::fence(0, 1));
            ops.push(Op::compute(at as u32));
            Call::Read { file: 1, offset: at << 12, length: 512, address: at << 20 }
                .encode(5, &mut ops);
        }
        Operations(ops, 0)
    }
}

impl Stream for Operations {
    fn pull(&mut self, _: u32, _: usize, out: &mut Vec<Op>) -> Result<Pull, StreamError> {
        out.extend_from_slice(&self.0[self.1..]);
        let more = self.1 < self.0.len();
        self.1 = self.0.len();
        Ok(if more { Pull::More } else { Pull::End })
    }

    fn fork(&self) -> Box<dyn Stream> {
        Box::new(self.clone())
    }
}

/// Recordings of two threads: plain, with sites, with a filter, with windows.
fn recordings() -> Vec<Vec<u8>> {
    let path = scratch("seed.tst");
    let plain = || TstMetadata {
        command: vec!["app".into()],
        recorder: "test".into(),
        ..TstMetadata::default()
    };
    let filter = FilterSpec::new(Size::from_bytes(512)).unwrap();
    let window = WindowSpec { window_accesses: 1000, period_accesses: 2000, start_accesses: 2000 };
    let all = [
        plain(),
        TstMetadata { sites: Some(SiteGrain::Address), ..plain() },
        TstMetadata { filter: Some(filter), ..plain() },
        TstMetadata { windows: Some(window), ..plain() },
    ];
    let each = all.iter().map(|metadata| {
        let mut writer = TstWriter::create(&path, metadata).unwrap();
        for name in ["a", "b"] {
            writer.add_file(&FileInfo { name: name.into(), size_bytes: 4096 }).unwrap();
        }
        let mut first = Vec::new();
        Call::Spawn { thread: 1 }.encode(1, &mut first);
        if metadata.sites.is_some() {
            let (file, function) = ("/bin/app".into(), "main".into());
            writer.add_site(2, Site { file, function, start: 4096, address: 4100 }).unwrap();
            first.push(Op::site(2));
        }
        writer.append(0, &first).unwrap();
        // As many as some windows take.
        let times = if metadata.windows.is_some() { 20 } else { 1 };
        for thread in [0, 1].repeat(times) {
            writer.append(thread, &Operations::some().0).unwrap();
        }
        let mut last = Vec::new();
        Call::Signal { sequence: 1 }.encode(1, &mut last);
        writer.append(1, &last).unwrap();
        last.clear();
        Call::Wait { thread: 1, sequence: 1 }.encode(1, &mut last);
        writer.append(0, &last).unwrap();
        writer.add_missing("a process");
        writer.finish("exit status 0").unwrap();
        std::fs::read(&path).unwrap()
    });
    let each = each.collect();
    std::fs::remove_file(&path).ok();
    each
}

/// Requests up to the end, with what ends them.
fn drain(source: &mut dyn RequestSource) -> (Vec<TraceRequest>, Option<String>) {
    let mut all = Vec::new();
    loop {
        match source.next() {
            Ok(Some(one)) if (all.len() as u64) < MOST_READ => all.push(one),
            Ok(_) => return (all, None),
            Err(why) => return (all, Some(why.to_string())),
        }
    }
}

/// What may be said of how formats are read.
const SAID: &[(&str, &str)] = &[
    ("volumes", "measured"),
    ("volumes", "1MiB"),
    ("volumes", "64GiB"),
    ("volume", "0"),
    ("event", "D"),
    ("unit", "us"),
    ("header", "yes"),
    ("delimiter", "tab"),
    ("size", "1"),
    ("levels", "2:1:4:4:1024:128"),
];

fn read_requests(path: &Path, format: &'static Format, numbers: &mut Numbers) -> String {
    let mut choices = Choices::new();
    let may: Vec<_> =
        SAID.iter().filter(|said| format.options.iter().any(|it| it.name == said.0)).collect();
    if !may.is_empty() && numbers.one_in(2) {
        let (name, value) = numbers.of(&may);
        choices.insert((*name).to_owned(), (*value).to_owned());
    }
    let files = vec![path.to_owned(); if numbers.one_in(8) { 2 } else { 1 }];
    let opened = || open(&files, format, &choices, &mut || true);
    let mut source = match opened() {
        Ok(source) => source,
        Err(why) => return why.to_string(),
    };
    let (read, wrong) = drain(&mut *source);
    let mut again = opened().expect("it was opened before");
    let at = numbers.below(read.len() + 1);
    for one in &read[..at] {
        assert_eq!(again.next(), Ok(Some(*one)), "a reader is not the same twice");
    }
    let fork = drain(&mut *again.fork().expect("it can be opened twice"));
    if (read.len() as u64) < MOST_READ {
        assert!(fork == (read[at..].to_vec(), wrong.clone()), "a fork goes on otherwise: {fork:?}");
    }
    // A beginning that asks for little in all is profiled and converted: the work is by bytes.
    let mut bytes = 0;
    let most = read.iter().take_while(|one| {
        bytes += u64::from(one.bytes);
        bytes <= MOST_MOVED
    });
    let most = most.count() as u64;
    let opened = || First::new(opened().expect("it was opened before"), most);
    let block_bytes = *numbers.of(&[8, 64, 4096, 1 << 20]);
    let _ = profile::profile(&mut opened(), block_bytes, None, |_| true);
    let target = *numbers.of(FORMATS);
    if target.is_written() {
        convert_and_read(&mut opened(), target);
    }
    format!(
        "{} {} {wrong:?} {:?}",
        read.len(),
        read.iter().filter(|it| it.is_write()).count(),
        source.remarks()
    )
}

/// Whatever is converted is read again.
fn convert_and_read(source: &mut dyn RequestSource, target: &'static Format) {
    let path = scratch("converted");
    let mut bytes = Vec::new();
    if let Ok(done) = convert(source, target, &how(), &mut bytes, |_| true)
        && done.written > 0
    {
        std::fs::write(&path, &bytes).unwrap();
        let read = open(std::slice::from_ref(&path), target, &Choices::new(), &mut || true);
        let mut read = read.unwrap_or_else(|why| panic!("what was converted is refused: {why}"));
        let mut count = 0;
        loop {
            match read.next() {
                Ok(Some(_)) => count += 1,
                Ok(None) => break,
                Err(why) => panic!("what was converted is refused: {why}"),
            }
        }
        // Accesses of 64 KiB and more are several in `drmemtrace`.
        let is_whole = count == done.written || target.name == "drmemtrace" && count > done.written;
        let (name, written) = (target.name, done.written);
        assert!(is_whole, "of {written} requests that were converted to {name} {count} are read");
    }
}

/// Operations of a thread up to the end, with what ends them.
fn pull_all(stream: &mut dyn Stream, thread: u32) -> (Vec<Op>, Option<String>) {
    let mut all = Vec::new();
    while (all.len() as u64) < MOST_READ {
        let before = all.len();
        match stream.pull(thread, 500, &mut all) {
            Ok(Pull::More) => assert!(all.len() > before, "a pull of more gave nothing"),
            Ok(Pull::End) => return (all, None),
            Err(why) => return (all, Some(why.to_string())),
        }
    }
    (all, Some("there is more".into()))
}

fn read_threads(mut stream: Box<dyn Stream>, numbers: &mut Numbers) -> String {
    let mut fork = stream.fork();
    let mut sum = Accesses::of(stream.fork(), None);
    let mut told = String::new();
    for thread in 0..3 {
        let mut begun = Vec::new();
        if numbers.one_in(2) {
            let _ = stream.pull(thread, 1 + numbers.below(50), &mut begun);
        }
        fork = if numbers.one_in(2) { fork } else { stream.fork() };
        let (ops, wrong) = pull_all(&mut *stream, thread);
        told += &format!("{} {wrong:?} ", ops.len());
        let _ = pull_all(&mut *fork, thread);
    }
    let _ = profile::profile_threads(&mut sum, 64, Some(MOST_READ), |_| true);
    told
}

/// Where so many bytes can be written and no more: a line may say more instructions than any disk holds.
struct Bounded(usize);

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn read_instructions(path: &Path, format: &'static Format, numbers: &mut Numbers) -> String {
    let targets: Vec<_> = FORMATS.iter().filter(|it| it.write_instructions.is_some()).collect();
    let target = **numbers.of(&targets);
    // By itself, or joined with itself, as though it were the threads of one process.
    let files = vec![path.to_owned(); *numbers.of(&[1, 2])];
    let mut source = match InstructionSource::open(&files, format, target) {
        Ok(Some(source)) => source,
        Ok(None) => return "none".into(),
        Err(why) => return why.to_string(),
    };
    let mut bytes = Bounded(MOST_WRITTEN);
    let done =
        convert_instructions(&mut source, target, &how(), Some(MOST_READ), &mut bytes, |_| true);
    match done {
        Ok(done) => format!("{} {} {:?}", target.name, done.written, source.remarks()),
        Err(why) => why.to_string(),
    }
}

fn read_filebench(path: &Path, numbers: &mut Numbers) -> String {
    let bytes = std::fs::read(path).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    let model = match language::read(&text, &[]) {
        Ok(model) => model,
        Err(why) => return why.to_string(),
    };
    let options = Options { seed: numbers.next(), loops: 1, instructions: 100, touched: false };
    let threads = model.threads.len();
    match filebench::stream(Arc::new(model), options, "file") {
        Ok(mut stream) => {
            let mut fork = stream.fork();
            let mut told = format!("{threads}");
            for thread in 0..threads.min(3) as u32 {
                let (ops, wrong) = pull_all(&mut *stream, thread);
                told += &format!(" {} {wrong:?}", ops.len() / 8);
                if thread == 0 {
                    assert!(pull_all(&mut *fork, 0) == (ops, wrong), "a fork goes on otherwise");
                }
            }
            told
        }
        Err(why) => why.to_string(),
    }
}

/// A file of this test, which runs in a thread of its own.
fn scratch(name: &str) -> PathBuf {
    let thread = format!("{:?}", std::thread::current().id());
    let number: String = thread.chars().filter(char::is_ascii_digit).collect();
    std::env::temp_dir().join(format!("tierscope-fuzz-{}-{number}-{name}", std::process::id()))
}

/// Words that take the place of a number in a text.
const WORDS: &[&str] = &[
    "0",
    "1",
    "-1",
    "63",
    "64",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "1073741825",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "0x",
    "0xffffffffffffffff",
    "0x10000000000000000",
    "1e400",
    "1.5",
    "nan",
    "",
    "R",
    "WRITE",
    "é",
    "\u{0}",
    "1k",
    "9999999999999999999g",
];

/// Changes some bytes, or some numbers of a text.
fn change(bytes: &mut Vec<u8>, others: &[Vec<u8>], numbers: &mut Numbers) {
    for _ in 0..1 + numbers.below(4) {
        if bytes.is_empty() {
            bytes.extend_from_slice(b"0 0 0");
        }
        let at = numbers.below(bytes.len());
        let end = (at + 1 + numbers.below(16)).min(bytes.len());
        match numbers.below(12) {
            0 => bytes[at] ^= 1 << numbers.below(8),
            1 => bytes[at] = numbers.next() as u8,
            2 => drop(bytes.drain(at..end)),
            3 => bytes.truncate(at),
            4 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            5 => {
                // The rest of another.
                let other = numbers.of(others);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[numbers.below(other.len() + 1)..]);
            }
            6 | 7 => {
                // A number of some bytes.
                let edge = 1u64.checked_shl(numbers.below(65) as u32).unwrap_or(0);
                let number = edge.wrapping_add(numbers.below(3) as u64).wrapping_sub(1);
                let width = *numbers.of(&[1, 2, 4, 8]);
                let to = (at + width).min(bytes.len());
                let number = if numbers.one_in(4) { number.swap_bytes() } else { number };
                bytes[at..to].copy_from_slice(&number.to_le_bytes()[..to - at]);
            }
            8..=10 => {
                // A word of a text.
                let is_word = |byte: &u8| byte.is_ascii_alphanumeric();
                let begin = bytes[..at].iter().rposition(|it| !is_word(it)).map_or(0, |it| it + 1);
                let end = bytes[at..]
                    .iter()
                    .position(|it| !is_word(it))
                    .map_or(bytes.len(), |it| at + it);
                let word = numbers.of(WORDS).as_bytes().to_vec();
                bytes.splice(begin..end.max(begin), word);
            }
            _ => {
                // A line, or as much, elsewhere.
                let end =
                    bytes[at..].iter().position(|it| *it == b'\n').map_or(end, |it| at + it + 1);
                let line: Vec<u8> = bytes.drain(at..end).collect();
                let to = numbers.below(bytes.len() + 1);
                bytes.splice(to..to, line);
            }
        }
    }
    bytes.truncate(MOST_BYTES);
}

/// As it is, or compressed; sometimes changed again then.
fn pack(bytes: Vec<u8>, others: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    let mut packed = match numbers.below(24) {
        0 => {
            let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            to.write_all(&bytes).unwrap();
            to.finish().unwrap()
        }
        1 => {
            let mut to = liblzma::write::XzEncoder::new(Vec::new(), 0);
            to.write_all(&bytes).unwrap();
            to.finish().unwrap()
        }
        2 => zstd::encode_all(&bytes[..], 1).unwrap(),
        3 => zipped(&bytes),
        _ => return bytes,
    };
    if numbers.one_in(2) {
        change(&mut packed, others, numbers);
    }
    packed
}

/// An archive of one stored file (APPNOTE 6.3.10, 4.3.7, 4.3.12, 4.3.16).
fn zipped(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u32).to_le_bytes();
    let mut about = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    about.extend(crc32fast::hash(bytes).to_le_bytes());
    about.extend([length, length].concat());
    about.extend([1, 0, 0, 0]);
    let mut all = [b"PK\x03\x04", &about[..], b"a", bytes].concat();
    let directory = all.len() as u32;
    let entry = [b"PK\x01\x02\x14\x00", &about[..], &[0; 14], b"a"].concat();
    all.extend_from_slice(&entry);
    all.extend(
        [b"PK\x05\x06", &[0, 0, 0, 0, 1, 0, 1, 0][..], &(entry.len() as u32).to_le_bytes()]
            .concat(),
    );
    all.extend([&directory.to_le_bytes()[..], &[0, 0]].concat());
    all
}

/// Bytes of the header of a block of a recording (`docs/formats/tst.md`).
const BLOCK_HEADER: usize = 40;

/// Changes a recording within its header, its blocks or their headers, and makes lengths and check sums right again.
fn change_inside(bytes: &[u8], numbers: &mut Numbers) -> Option<Vec<u8>> {
    let chosen = numbers.below(8);
    let header_too = numbers.one_in(4);
    rebuilt(bytes, |number, header, content| {
        if number == chosen {
            if header_too {
                change(header, &[vec![0]], numbers);
            } else {
                change(content, &[vec![0]], numbers);
            }
        }
    })
}

/// A recording whose parts are changed one by one: its metadata, with number 0, and its blocks, each with its header and
/// its content before compression.
fn rebuilt(
    bytes: &[u8],
    mut change: impl FnMut(usize, &mut Vec<u8>, &mut Vec<u8>),
) -> Option<Vec<u8>> {
    let u32_at =
        |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize);
    let metadata_end = 16 + u32_at(12)?;
    let mut all = bytes.get(..12)?.to_vec();
    let mut metadata = bytes.get(16..metadata_end)?.to_vec();
    change(0, &mut all, &mut metadata);
    all.resize(12, 0);
    all.extend((metadata.len() as u32).to_le_bytes());
    all.extend(metadata);
    all.extend(crc32fast::hash(&all).to_le_bytes());
    let mut at = metadata_end + 4;
    let mut offsets = Vec::new();
    let mut index_at = 0;
    while bytes.get(at..at + 4)? == b"TBLK" {
        let stored = u32_at(at + 32)?;
        let mut header = bytes.get(at..at + 28)?.to_vec();
        let payload = bytes.get(at + BLOCK_HEADER..at + BLOCK_HEADER + stored)?;
        let mut content = zstd::decode_all(payload).ok()?;
        if header[4] == 3 {
            // Where blocks are now.
            for (entry, offset) in content.chunks_mut(16).zip(&offsets) {
                entry[..8].copy_from_slice(&u64::to_le_bytes(*offset));
            }
            index_at = all.len() as u64;
        }
        offsets.push(all.len() as u64);
        change(offsets.len(), &mut header, &mut content);
        header.resize(28, 0);
        header[..4].copy_from_slice(b"TBLK");
        let payload = zstd::encode_all(&content[..], 1).ok()?;
        header.extend((content.len() as u32).to_le_bytes());
        header.extend((payload.len() as u32).to_le_bytes());
        let sum = crc32fast::hash(&[&header[..], &payload].concat());
        all.extend(header);
        all.extend(sum.to_le_bytes());
        all.extend(payload);
        at += BLOCK_HEADER + stored;
    }
    let mut trailer = bytes.get(at..at + 32)?.to_vec();
    trailer[..8].copy_from_slice(&index_at.to_le_bytes());
    let sum = crc32fast::hash(&trailer[..20]);
    trailer[20..24].copy_from_slice(&sum.to_le_bytes());
    all.extend(trailer);
    Some(all)
}

#[test]
fn a_recording_that_is_taken_apart_and_put_together_is_the_same_to_its_reader() {
    for bytes in recordings() {
        let again = rebuilt(&bytes, |_, _, _| {}).expect("it is whole");
        let told = attempt(Reader::Recording, &again, 1);
        assert_eq!(told, attempt(Reader::Recording, &bytes, 1));
        let told = told.unwrap();
        assert!(told.contains("None"), "it is not read to its end: {told}");
    }
}

/// What came of an input without its numbers and names: two of one kind are one.
fn kind_of(outcome: &str) -> String {
    let tail = outcome.rsplit_once("`: ").map_or(outcome, |(_, tail)| tail);
    tail.chars().map(|it| if it.is_ascii_digit() { '0' } else { it }).take(120).collect()
}

/// Reads one input, with all laws; what came of it, or the law that is broken.
fn attempt(reader: Reader, input: &[u8], seed: u64) -> Result<String, String> {
    let path = scratch("input");
    std::fs::write(&path, input).unwrap();
    let begun = Instant::now();
    let done = catch_unwind(AssertUnwindSafe(|| reader.read(&path, &mut Numbers(seed))));
    std::fs::remove_file(&path).ok();
    let told = done.map_err(|why| {
        let text = why.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| why.downcast_ref::<&str>().copied());
        format!("it panics: {}", text.unwrap_or("without a word"))
    })?;
    let taken = begun.elapsed();
    if taken > MOST_TIME {
        return Err(format!("it takes {} s", taken.as_secs()));
    }
    if told.trim().is_empty() {
        return Err("an error says nothing".into());
    }
    Ok(told.replace(&path.display().to_string(), "FILE"))
}

#[test]
fn no_input_makes_a_reader_fail_otherwise_than_with_an_error() {
    let said = |name: &str| std::env::var(name).ok().filter(|said| !said.is_empty());
    let number = |name: &str| said(name).map(|it| it.parse::<u64>().expect("it is a number"));
    let first_seed = number("TIERSCOPE_FUZZ_SEED").unwrap_or(1);
    let seconds = number("TIERSCOPE_FUZZ_SECONDS");
    let only = said("TIERSCOPE_FUZZ_ONLY").unwrap_or_default();
    // Devices are fuzzed in `crates/system/tests/fuzz.rs`.
    if only.starts_with("device/") {
        return;
    }
    let readers: Vec<_> =
        Reader::all().into_iter().filter(|it| it.name().contains(&only)).collect();
    assert!(!readers.is_empty(), "no reader's name contains {only}");
    if let Some(file) = said("TIERSCOPE_FUZZ_FILE") {
        let input = std::fs::read(&file).unwrap();
        for reader in readers {
            for seed in 0..64 {
                let told = attempt(reader, &input, seed)
                    .map_err(|why| format!("{}: {why}", reader.name()));
                assert!(told.is_ok(), "{told:?}");
            }
        }
        return;
    }
    let share = seconds.map(|it| Duration::from_secs(it) / readers.len() as u32);
    let mut faults = Vec::new();
    for reader in readers {
        let mut numbers = Numbers(first_seed);
        let mut kept = reader.seeds();
        let mut seen = BTreeSet::new();
        for seed in &kept {
            let told = attempt(reader, seed, first_seed);
            seen.insert(kind_of(&told.unwrap_or_else(|why| panic!("{}: {why}", reader.name()))));
        }
        let begun = Instant::now();
        let mut count = 0u64;
        while share.map_or(count < INPUTS, |share| begun.elapsed() < share) {
            count += 1;
            let mut input = numbers.of(&kept).clone();
            let inside = matches!(reader, Reader::Recording) && !numbers.one_in(4);
            match inside.then(|| change_inside(&input, &mut numbers)).flatten() {
                Some(changed) => input = changed,
                None => change(&mut input, &kept, &mut numbers),
            }
            if matches!(reader, Reader::Requests(_)) {
                input = pack(input, &kept, &mut numbers);
            }
            match attempt(reader, &input, numbers.next()) {
                Ok(told) => {
                    if kept.len() < MOST_KEPT && seen.insert(kind_of(&told)) {
                        kept.push(input);
                    }
                }
                Err(why) => {
                    let file =
                        std::env::temp_dir().join(format!("tierscope-fuzz-{}", reader.name()));
                    std::fs::write(&file, &input).unwrap();
                    faults.push(format!(
                        "{}, seed {first_seed}, input {count}: {why}\n    again: TIERSCOPE_FUZZ_ONLY={} \
                         TIERSCOPE_FUZZ_FILE={} make fuzz",
                        reader.name(),
                        reader.name(),
                        file.display(),
                    ));
                    break;
                }
            }
        }
        eprintln!("{:<30} {count:>8} inputs, {:>4} kinds of outcome", reader.name(), seen.len());
    }
    std::fs::remove_file(scratch("converted")).ok();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
