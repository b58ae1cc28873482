//! Requests per second of processor time through readers and writers of traces, on one core, and as a share of
//! the plainest that could be done with the same bytes: of binary formats a copy of them, of texts a loop
//! over their lines.
//!
//! `cargo bench -p tierscope-workload --bench requests` prints a line for each format that is written:
//! requests, bytes, and of reading and writing requests per second and how many times as long as the
//! plainest; of formats that tell what a program's threads do, how fast operations of these are read as well.
//! Names of formats behind `--` measure these alone. With `--test`, as `cargo test --benches` passes, each runs small, so that it cannot rot.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use tierscope_kernel::Clock;
use tierscope_workload::requests::{
    Choices, FORMATS, Format, How, Parse, Pattern, Patterned, ProgramTrace, RequestSource,
    TraceReader, convert, find,
};
use tierscope_workload::trace::{TstMetadata, TstReader, TstWriter};
use tierscope_workload::{Op, Pull, Stream};

/// Runs of each, of which the fastest counts: on a machine with other work most runs are disturbed.
const RUNS: usize = 5;

/// Seconds that this thread has had of a processor: what else the machine does counts less than in wall
/// time (proc(5), `/proc/pid/schedstat`).
fn processor_s() -> f64 {
    // What is told is brought up to date as a thread gives way.
    std::thread::yield_now();
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let ns: u64 = told.split(' ').next().and_then(|ns| ns.parse().ok()).expect("it is a number");
    ns as f64 / 1e9
}

/// The seconds of the fastest of several runs.
fn fastest(mut run: impl FnMut()) -> f64 {
    let times = (0..RUNS).map(|_| {
        let begun = processor_s();
        run();
        processor_s() - begun
    });
    times.fold(f64::INFINITY, f64::min)
}

fn source(requests: u64) -> Patterned {
    Patterned::new(Pattern::Random, requests, 1 << 30, 4, 30, 1)
}

fn how() -> How {
    How { clock: Some(Clock::from_hertz(1_200_000_000)), ..How::default() }
}

/// A trace of a format, of so many requests.
fn written(format: &Format, requests: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    convert(&mut source(requests), format, &how(), &mut bytes, |_| true).expect("it is written");
    bytes
}

/// What the plainest does with the bytes.
fn plainest(format: &Format, bytes: &[u8]) -> f64 {
    let mut copy = vec![0u8; bytes.len()];
    fastest(|| match format.parse {
        Parse::Records(..) | Parse::Messages(_) => {
            copy.copy_from_slice(bytes);
            std::hint::black_box(&copy);
        }
        Parse::Lines(_) | Parse::Script(_) => {
            let mut line = Vec::new();
            let mut reader = bytes;
            while reader.read_until(b'\n', &mut line).expect("memory can be read") > 0 {
                std::hint::black_box(&line);
                line.clear();
            }
        }
    })
}

/// How many times a loop over lines of `dramsim3` the reading or writing of a request takes at most, in text and in records,
/// with the checks of tests too: three times the most that was measured. The loop does some 75 million requests a second.
const SLOWEST: [f64; 2] = [30.0, 10.0];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let small = arguments.iter().any(|argument| argument == "--test");
    let named: Vec<&String> = arguments.iter().filter(|it| !it.starts_with('-')).collect();
    let wanted = |name: &str| named.is_empty() || named.iter().any(|it| *it == name);
    let requests = if small { 50_000 } else { 2_000_000 };
    let file: PathBuf =
        std::env::temp_dir().join(format!("tierscope-bench-{}.trc", std::process::id()));
    let making = fastest(|| {
        let mut source = source(requests);
        while let Ok(Some(one)) = source.next() {
            std::hint::black_box(one);
        }
    });
    let of_lines = find("dramsim3").expect("it is a format");
    let lines = plainest(of_lines, &written(of_lines, requests));
    let formats = FORMATS.iter().filter(|format| format.is_written() && wanted(format.name));
    for format in formats {
        let bytes = written(format, requests);
        std::fs::write(&file, &bytes).expect("temporary files can be written");
        let plain = plainest(format, &bytes);
        let mut read = 0u64;
        let reading = fastest(|| {
            let choices = Choices::new();
            let mut reader = TraceReader::open(&file, format, &choices).expect("it is right");
            read = 0;
            while let Some(one) = reader.next().expect("it is right") {
                std::hint::black_box(one);
                read += 1;
            }
        });
        let writing = fastest(|| {
            let mut to = std::io::sink();
            convert(&mut source(requests), format, &how(), &mut to, |_| true)
                .expect("it is written");
        });
        // What makes the requests is no part of writing them.
        let writing = (writing - making).max(f64::MIN_POSITIVE);
        let rate = |seconds: f64| read as f64 / seconds / 1e6;
        println!(
            "{:<16} {read:>9} requests {:>10} bytes: read {:>7.2} M/s, {:>6.1}x; written {:>7.2} \
             M/s, {:>6.1}x; plainest {:>8.2} M/s",
            format.name,
            bytes.len(),
            rate(reading),
            reading / plain,
            rate(writing),
            writing / plain,
            rate(plain),
        );
        let is_text = !format.example.is_empty();
        for (what, seconds) in [("reading", reading), ("writing", writing)] {
            let (name, ratio) = (format.name, seconds / lines);
            let most = SLOWEST[usize::from(!is_text)];
            assert!(ratio < most, "{what} {name} takes {ratio:.0} times a loop over lines");
        }
        if format.program.is_some() {
            let mut ops = 0;
            let pulling = fastest(|| {
                let files = [file.clone()];
                let mut trace =
                    ProgramTrace::open(&files, format, &Choices::new(), 1).expect("it is right");
                let mut out = Vec::new();
                ops = 0;
                while trace.pull(0, 4096, &mut out).expect("it is right") == Pull::More {
                    ops += std::hint::black_box(&out).len();
                    out.clear();
                }
            });
            println!("{:<16} {ops:>9} operations of a thread: read {:>7.2} M/s", "", {
                ops as f64 / pulling / 1e6
            });
        }
    }
    if wanted("tst") {
        recording(&file, requests);
    }
    std::fs::remove_file(&file).ok();
}

/// The same accesses as a recording, which is compressed: operations of one thread, written and read.
fn recording(file: &Path, requests: u64) {
    let mut source = source(requests);
    let mut ops = Vec::new();
    while let Ok(Some(one)) = source.next() {
        ops.push(match one.is_write() {
            true => Op::store(one.address, 8, 1),
            false => Op::load(one.address, 8, 1),
        });
    }
    let writing = fastest(|| {
        std::fs::remove_file(file).ok();
        let mut writer = TstWriter::create(file, &TstMetadata::default()).expect("it is written");
        for some in ops.chunks(4096) {
            writer.append(0, some).expect("it is written");
        }
        writer.finish("exit 0").expect("it is written");
    });
    let bytes = std::fs::metadata(file).expect("it is there").len();
    let mut read = 0;
    let reading = fastest(|| {
        let mut reader = TstReader::open(file, false).expect("it is right");
        let mut out = Vec::new();
        read = 0;
        while reader.pull(0, 4096, &mut out).expect("it is right") == Pull::More {
            read += std::hint::black_box(&out).len();
            out.clear();
        }
    });
    assert_eq!(read, ops.len());
    let rate = |seconds: f64| read as f64 / seconds / 1e6;
    println!(
        "{:<16} {read:>9} operations {bytes:>8} bytes: read {:>7.2} M/s; written {:>7.2} M/s",
        "tst",
        rate(reading),
        rate(writing)
    );
}
