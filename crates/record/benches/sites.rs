//! What it costs to tell where in a program's code accesses come from: recording to nothing and to a
//! file, and simulating what was recorded; without, by function, and by address, by turns.
//!
//! `cargo bench -p tierscope-record --bench sites [-- smoke]`; prints one JSON object a line: the
//! fastest of the rounds of each, and the rounds. Needs what the benchmark `recording` needs.

mod common;

use common::{accesses, loops, record, scratch};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use tierscope_record::job::SinkJob;
use tierscope_record::sink::tst::TstJob;
use tierscope_system::run::{RunOptions, run_machines};
use tierscope_system::spec::load;
use tierscope_workload::SiteGrain;
use tierscope_workload::trace::{TstMetadata, TstReader};

const GRAINS: [Option<SiteGrain>; 3] = [None, Some(SiteGrain::Function), Some(SiteGrain::Address)];

/// Seconds that a machine takes for a recording, told as finely as is asked for.
fn simulate_s(file: &Path, sites: Option<SiteGrain>) -> f64 {
    let spec = load("hybrid/quick", &[]).unwrap_or_else(|problems| panic!("{problems}")).spec;
    let reader = TstReader::open(file, false).unwrap_or_else(|error| panic!("{error}"));
    let options = RunOptions { sites, ..RunOptions::default() };
    let stop = AtomicBool::new(false);
    let begun = Instant::now();
    let outcomes = run_machines(&[spec], vec![Box::new(reader)], &options, &(), &stop);
    assert_eq!(outcomes[0].partial_reason, None);
    begun.elapsed().as_secs_f64()
}

/// Wall-clock times of one grain, round by round, and the size of its file.
#[derive(Default)]
struct Times {
    to_nothing_s: Vec<f64>,
    to_file_s: Vec<f64>,
    simulated_s: Vec<f64>,
    accesses: f64,
    file_bytes: u64,
}

fn measure_round(program: &Path, arguments: &[&str], grain: Option<SiteGrain>, times: &mut Times) {
    let counted = record(program, arguments, SinkJob::Discard { sites: grain });
    let path = scratch().join("sites.tst");
    let metadata = TstMetadata { sites: grain, ..TstMetadata::default() };
    let sink = SinkJob::Tst(TstJob { path: path.clone(), metadata, max_bytes: None });
    let written = record(program, arguments, sink);
    times.accesses = accesses(&counted);
    times.to_nothing_s.push(counted.wall_s);
    times.to_file_s.push(written.wall_s);
    times.file_bytes = std::fs::metadata(&path).map_or(0, |status| status.len());
    times.simulated_s.push(simulate_s(&path, grain));
    std::fs::remove_file(&path).unwrap_or_default();
}

fn print(name: &str, grain: Option<SiteGrain>, times: &Times) {
    let speed = |rounds: &[f64]| {
        let fastest_s = rounds.iter().copied().fold(f64::INFINITY, f64::min);
        format!("{:.1} M/s {rounds:.2?}", times.accesses / fastest_s / 1e6)
    };
    println!(
        "{{\"name\": \"{name}\", \"by\": \"{}\", \"accesses\": {:.0}, \"to_nothing\": \"{}\", \
         \"to_file\": \"{}\", \"simulated\": \"{}\", \"file_bytes_per_access\": {:.3}}}",
        grain.map_or("nothing".into(), |grain| format!("{grain:?}").to_lowercase()),
        times.accesses,
        speed(&times.to_nothing_s),
        speed(&times.to_file_s),
        speed(&times.simulated_s),
        times.file_bytes as f64 / times.accesses,
    );
}

fn measure(name: &str, program: &Path, arguments: &[&str], rounds: usize) {
    let mut times: [Times; GRAINS.len()] = Default::default();
    for _ in 0..rounds {
        for (grain, times) in GRAINS.into_iter().zip(&mut times) {
            measure_round(program, arguments, grain, times);
        }
    }
    for (grain, times) in GRAINS.into_iter().zip(&times) {
        print(name, grain, times);
    }
}

fn main() {
    let smoke = std::env::args().any(|a| a == "smoke");
    let (scale, rounds) = if smoke { (100, 1) } else { (1, 3) };
    let loops = loops();
    measure("random updates", &loops, &["updates", &(4_000_000 / scale).to_string()], rounds);
    let query = format!(
        "WITH RECURSIVE row (id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM row WHERE id < {}) \
         SELECT count(*), sum(x) FROM (SELECT id * 2654435761 % 1000003 AS x FROM row ORDER BY x)",
        30_000 / scale
    );
    measure("sqlite3, a sort", Path::new("sqlite3"), &[":memory:", &query], rounds);
}
