//! What is told of single requests of a machine: it agrees with the result, and changes nothing.

use crate::common::Script;
use crate::common::random::{doing, script};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::slice::from_ref;
use std::sync::atomic::AtomicBool;
use tierscope_kernel::Stage;
use tierscope_system::result::SystemResult;
use tierscope_system::run::{Bound, Outcome, RunOptions, Sampling, run_machines};
use tierscope_system::spec::{SystemSpec, load};
use tierscope_workload::Stream;

/// So little memory that a few hundred pages make both evict and write back.
const TIGHT: [&[(&str, &str)]; 2] = [
    &[("processor.caches.L3.capacity", "320KiB"), ("hybrid.cache.capacity", "2MiB")],
    &[("processor.caches.L3.capacity", "320KiB"), ("storage.dram_capacity", "4MiB")],
];
const HEAD: [&str; 7] =
    ["request", "kind", "hardware_thread", "address", "area", "arrival_ps", "latency_ps"];

fn system(name: &str, sets: &[(&str, &str)]) -> SystemSpec {
    let sets: Vec<_> =
        sets.iter().map(|(path, value)| (path.to_string(), value.to_string())).collect();
    load(name, &sets).unwrap_or_else(|problems| panic!("{problems}")).spec
}

fn run(spec: &SystemSpec, stream: Box<dyn Stream>, options: &RunOptions) -> Outcome {
    let stop = AtomicBool::new(false);
    let mut outcome = run_machines(from_ref(spec), vec![stream], options, &(), &stop).remove(0);
    (outcome.result.wall_s, outcome.result.accesses_per_wall_s) = (0.0, 0.0);
    outcome
}

/// Two files of this test's own, which are gone when it ends.
struct Files(PathBuf);

impl Files {
    fn new() -> Self {
        let thread = std::thread::current().id();
        let name = format!("tierscope-requests-{}-{thread:?}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Files(folder)
    }

    fn table(&self) -> PathBuf {
        self.0.join("requests.csv")
    }

    fn timeline(&self) -> PathBuf {
        self.0.join("timeline.json")
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// The rows of a table: each cell by its column.
fn rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    assert_eq!(columns[..HEAD.len()], HEAD);
    let cells = |line: &str| -> Vec<String> {
        let line = line.replace("\"image, stack and kernel\"", "rest");
        line.split(',').map(str::to_owned).collect()
    };
    lines
        .map(|line| columns.iter().map(|column| column.to_string()).zip(cells(line)).collect())
        .collect()
}

fn number(row: &BTreeMap<String, String>, column: &str) -> u64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} of {row:?}"))
}

fn of_kind(rows: &[BTreeMap<String, String>], kinds: &[&str]) -> u64 {
    rows.iter().filter(|row| kinds.contains(&row["kind"].as_str())).count() as u64
}

/// Rows and result agree, and each row with itself.
fn check_table(rows: &[BTreeMap<String, String>], result: &SystemResult, storage: bool) {
    let mut end_ps = 0;
    for (at, row) in rows.iter().enumerate() {
        assert_eq!(number(row, "request"), at as u64);
        let stages_ps: u64 =
            Stage::ALL.iter().map(|stage| number(row, &format!("{}_ps", stage.name()))).sum();
        assert_eq!(stages_ps, number(row, "latency_ps"), "{row:?}");
        end_ps = end_ps.max(number(row, "arrival_ps") + stages_ps);
        assert_eq!(row["hardware_thread"].is_empty(), row["kind"].contains("page"), "{row:?}");
    }
    let accesses = of_kind(rows, &["load", "store", "joined"]);
    assert!(0 < accesses && accesses <= result.accesses, "{accesses} of {}", result.accesses);
    let is_access = |row: &&BTreeMap<String, String>| {
        ["load", "store", "joined"].contains(&row["kind"].as_str())
    };
    let slowest = rows.iter().filter(is_access).map(|row| number(row, "latency_ps")).max();
    let most_ns = result.latency_ns.as_ref().unwrap().max;
    assert_eq!(slowest.unwrap() as f64 / 1e3, most_ns, "the slowest access is among the rows");
    // Hits of private caches have no row, and time in caches and TLB only.
    for stage in Stage::ALL.iter().filter(|stage| !matches!(stage, Stage::Cache | Stage::Tlb)) {
        let column = format!("{}_ps", stage.name());
        let of_accesses = rows.iter().filter(is_access);
        let sum_ps: u64 = of_accesses.map(|row| number(row, &column)).sum();
        let mean_ns = result.stages_ns.get(stage.name()).copied().unwrap_or_default();
        let expected_ps = mean_ns * 1e3 * result.accesses as f64;
        assert!(
            (sum_ps as f64 - expected_ps).abs() <= 1e-9 * expected_ps + 1.0,
            "{column}: {sum_ps}, {expected_ps}"
        );
    }
    for (kind, calls) in &result.calls {
        let of_calls = rows.iter().filter(|row| row["kind"] == format!("call_{kind}"));
        let latencies_ps: Vec<u64> = of_calls.map(|row| number(row, "latency_ps")).collect();
        assert_eq!(latencies_ps.len() as u64, calls.count, "{kind}");
        let sum_ns = latencies_ps.iter().sum::<u64>() as f64 / 1e3;
        assert!((sum_ns - calls.time_ns).abs() <= 1e-9 * sum_ns, "{kind}");
    }
    if storage {
        let read = of_kind(rows, &["page_read", "background_page_read"]);
        assert_eq!(read * 4096, result.store_bytes.read);
    }
}

/// Slices nest, and each request's stages fill it.
fn check_timeline(path: &Path, rows: usize) {
    let text = std::fs::read_to_string(path).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
    let mut open: BTreeMap<u64, Vec<(String, f64)>> = BTreeMap::new();
    let mut requests = 0;
    for event in trace["traceEvents"].as_array().unwrap() {
        let name = event["name"].as_str().unwrap().to_owned();
        let phase = event["ph"].as_str().unwrap();
        if phase == "M" {
            continue;
        }
        let (id, at_us) = (event["id"].as_u64().unwrap(), event["ts"].as_f64().unwrap());
        let slices = open.entry(id).or_default();
        match phase {
            "b" => slices.push((name, at_us)),
            "e" => {
                let (begun, since_us) = slices.pop().expect("something is open");
                assert_eq!(begun, name);
                assert!(since_us <= at_us);
                if slices.is_empty() {
                    requests += 1;
                }
            }
            other => panic!("phase {other}"),
        }
    }
    assert!(open.values().all(Vec::is_empty));
    assert_eq!(requests, rows);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn rows_agree_with_the_result_and_change_nothing(
        threads in proptest::collection::vec(proptest::collection::vec(doing(), 1..250), 1..4),
        skipped in 0u64..100,
    ) {
        let script = script(&threads, false);
        for (name, sets) in ["hybrid/quick", "storage/quick"].into_iter().zip(TIGHT) {
            let spec = system(name, sets);
            let files = Files::new();
            let options = RunOptions {
                latencies: vec![files.table()],
                timelines: vec![files.timeline()],
                start: Some(Bound::Accesses(skipped)),
                ..RunOptions::default()
            };
            let told = run(&spec, Script::stream(&script), &options);
            let quiet = RunOptions { latencies: vec![], timelines: vec![], ..options };
            let plain = run(&spec, Script::stream(&script), &quiet);
            prop_assert_eq!(&told.partial_reason, &plain.partial_reason);
            prop_assume!(told.partial_reason.is_none() && told.result.accesses > 0);
            prop_assert_eq!(&told.result, &plain.result);
            let rows = rows(&files.table());
            check_table(&rows, &told.result, name.starts_with("storage"));
            let drawn = rows.iter().filter(|row| !row["kind"].starts_with("call_")).count();
            check_timeline(&files.timeline(), drawn);
        }
    }
}

fn failure(options: &RunOptions) -> String {
    let script = script(&[vec![]], false);
    let outcome = run(&system("hybrid/quick", &[]), Script::stream(&script), options);
    assert!(outcome.failed);
    outcome.partial_reason.unwrap()
}

#[test]
fn a_place_that_cannot_be_written_and_a_sample_are_said() {
    let nowhere = RunOptions { timelines: vec!["/nowhere/x.json".into()], ..RunOptions::default() };
    let told = failure(&nowhere);
    assert!(
        told.starts_with("the timeline cannot be written to /nowhere/x.json: no such"),
        "{told}"
    );
    let files = Files::new();
    std::fs::write(files.0.join("requests.csv.partial"), "mine").unwrap();
    let taken = RunOptions { latencies: vec![files.table()], ..RunOptions::default() };
    assert!(failure(&taken).contains("remove it, or name another file"));
    let sampled = RunOptions {
        latencies: vec![files.0.join("other.csv")],
        sampling: Some(Sampling::default()),
        ..RunOptions::default()
    };
    let spec = system("storage/quick", &[]);
    let outcome = run(&spec, Script::stream(&script(&[vec![]], false)), &sampled);
    assert!(outcome.partial_reason.unwrap().contains("a sampled run passes most requests over"));
}
