//! Requests per second of wall time through readers and writers of traces, on one core, and as a share of
//! the plainest that could be done with the same bytes: of binary formats a copy of them, of texts a loop
//! over their lines.
//!
//! `cargo bench -p tierscope-workload --bench requests` prints a line for each format that is written:
//! requests, bytes, and of reading and writing requests per second and how many times as long as the
//! plainest. With `--test`, as `cargo test --benches` passes, each runs small, so that it cannot rot.

use std::io::BufRead;
use std::path::PathBuf;
use std::time::Instant;
use tierscope_kernel::Clock;
use tierscope_workload::requests::{
    Choices, FORMATS, Format, How, Parse, Pattern, Patterned, RequestSource, TraceReader, convert,
};

/// Runs of each, of which the fastest counts.
const RUNS: usize = 3;

/// The seconds of the fastest of several runs.
fn fastest(mut run: impl FnMut()) -> f64 {
    let times = (0..RUNS).map(|_| {
        let begun = Instant::now();
        run();
        begun.elapsed().as_secs_f64()
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

fn main() {
    let small = std::env::args().any(|argument| argument == "--test");
    let requests = if small { 1000 } else { 2_000_000 };
    let file: PathBuf =
        std::env::temp_dir().join(format!("tierscope-bench-{}.trc", std::process::id()));
    let making = fastest(|| {
        let mut source = source(requests);
        while let Ok(Some(one)) = source.next() {
            std::hint::black_box(one);
        }
    });
    for format in FORMATS.iter().filter(|format| format.write.is_some()) {
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
    }
    std::fs::remove_file(&file).ok();
}
