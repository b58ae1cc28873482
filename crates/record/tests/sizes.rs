//! Recordings that are kept small: by a largest size, and by leaving out what a first-level cache serves.

mod common;

use common::{guest, record_as, run_through, scratch_file, start};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use tierscope_record::job::SinkJob;
use tierscope_record::launch::Report;
use tierscope_record::sink::tst::{LEAST_MAX_BYTES, TstJob};
use tierscope_record::symbols::Region;
use tierscope_system::result::{Bytes, Interval, SystemResult};
use tierscope_system::run::{Observer, Progress, RunOptions, run_machines};
use tierscope_system::spec::load;
use tierscope_units::Size;
use tierscope_workload::filter::FilterSpec;
use tierscope_workload::trace::{TstMetadata, TstReader, TstTotals};

fn recorded(program: &Path, arguments: &[&str], job: TstJob) -> (Report, TstTotals) {
    let path = job.path.clone();
    let report = start(program, arguments, SinkJob::Tst(job)).unwrap().finish().unwrap();
    assert_eq!(report.errors, Vec::<String>::new());
    let reader = TstReader::open(&path, false).unwrap();
    (report, reader.totals().unwrap().clone())
}

fn job(filter: Option<u64>, max_bytes: Option<u64>) -> TstJob {
    let filter = filter.map(|bytes| FilterSpec::new(Size::from_bytes(bytes)).unwrap());
    let metadata = TstMetadata { filter, ..TstMetadata::default() };
    TstJob { path: scratch_file("sizes.tst"), metadata, max_bytes }
}

#[test]
fn a_recording_ends_whole_before_it_is_too_large_and_the_program_goes_on() {
    needs_qemu!();
    // At 1.4 bytes an access, several times as much.
    let updates = ["updates", "6000000"];
    for max_bytes in [LEAST_MAX_BYTES, 3 << 20] {
        let job = job(None, Some(max_bytes));
        let path = job.path.clone();
        let (report, totals) = recorded(&guest("loops"), &updates, job);
        assert_eq!(report.exit_status, 0, "the program ran to its end");
        assert!(!report.is_complete());
        let result = report.result.unwrap();
        assert_eq!(
            (&result["ended"]["how"], &result["sink"]["full"]),
            (&"stopped".into(), &true.into())
        );
        assert!(totals.cut);
        let size = Size::from_bytes(max_bytes);
        assert_eq!(totals.ended, format!("the largest size of {size} was reached"));
        let bytes = std::fs::metadata(&path).unwrap().len();
        let least = max_bytes - max_bytes / 3;
        assert!((least..=max_bytes).contains(&bytes), "{bytes} of {max_bytes}");
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_recording_with_room_to_spare_is_whole() {
    needs_qemu!();
    let job = job(None, Some(64 << 20));
    let path = job.path.clone();
    let (report, totals) = recorded(&guest("loops"), &["updates", "100000"], job);
    assert!(report.is_complete(), "{report:?}");
    assert!(!totals.cut);
    assert_eq!(report.result.unwrap()["sink"]["full"], false);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_filtered_recording_of_threads_and_processes_keeps_their_order_and_calls() {
    needs_qemu!();
    let filter = Some(FilterSpec::new(Size::from_bytes(32 << 10)).unwrap());
    for name in ["producer_consumer", "barrier", "forks"] {
        let metadata = TstMetadata { filter, ..TstMetadata::default() };
        let (recording, _) = record_as(&guest(name), &[], Region::default(), metadata);
        assert!(recording.threads.len() > 1, "{name}");
        assert!(run_through(&recording) > 0, "{name}: threads wait for each other");
        assert!(recording.totals.left_out_loads > recording.totals.loads, "{name}");
    }
}

struct Quiet;

impl Observer for Quiet {
    fn progress(&self, _: usize, _: Progress) {}
    fn interval(&self, _: usize, _: &Interval) {}
}

fn replayed(path: &Path, system: &str, sets: &[(&str, &str)]) -> SystemResult {
    let sets: Vec<_> =
        sets.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let spec = load(system, &sets).unwrap_or_else(|problems| panic!("{problems}")).spec;
    let reader = Box::new(TstReader::open(path, false).unwrap());
    let (options, stop) = (RunOptions::default(), AtomicBool::new(false));
    let mut outcomes = run_machines(&[spec], vec![reader], &options, &Quiet, &stop);
    let outcome = outcomes.remove(0);
    assert_eq!(outcome.partial_reason, None);
    outcome.result
}

/// Caches that are soon full, and one that is no larger than the filter's.
const SMALL_L3: (&str, &str) = ("processor.caches.L3.capacity", "640KiB");
const SMALL_L1: (&str, &str) = ("processor.caches.L1D.capacity", "32KiB");
const SMALL_DRAM: (&str, &str) = ("hybrid.cache.capacity", "4MiB");
/// What was left out has no place in queues.
const NO_LOAD_QUEUE: (&str, &str) = ("processor.load_queue", "1000000");
const NO_STORE_QUEUE: (&str, &str) = ("processor.store_queue", "1000000");
/// Which prefetches are dropped hangs on time, and a little of it may move the store's traffic by 2 %.
const NO_PREFETCH: (&str, &str) = ("hybrid.prefetch_pages", "0");

/// A program, recorded whole and filtered.
fn both(program: &Path, arguments: &[&str]) -> [(PathBuf, TstTotals); 2] {
    [None, Some(32 << 10)].map(|filter| {
        let job = job(filter, None);
        let path = job.path.clone();
        let (report, totals) = recorded(program, arguments, job);
        assert!(report.is_complete(), "{report:?}");
        (path, totals)
    })
}

/// Whether a filtered recording gives what the whole one does: time and what DRAM moves to a hundredth,
/// what the store moves to a hundredth or a transfer or two.
fn near(what: &str, whole: &SystemResult, filtered: &SystemResult) {
    let close = |name: &str, one: u64, other: u64, spare: u64| {
        let apart = one.abs_diff(other);
        assert!(apart <= one / 100 + spare, "{what}: {name}: {one} of all, {other} filtered");
    };
    assert_eq!(whole.instructions, filtered.instructions, "{what}");
    close("time", whole.time_ps, filtered.time_ps, 0);
    for (name, of) in [("read", 0), ("written", 1)] {
        let bytes = |bytes: Bytes| if of == 0 { bytes.read } else { bytes.written };
        close(
            &format!("DRAM {name}"),
            bytes(whole.dram_bytes),
            bytes(filtered.dram_bytes),
            64 << 8,
        );
        close(
            &format!("store {name}"),
            bytes(whole.store_bytes),
            bytes(filtered.store_bytes),
            1 << 17,
        );
    }
}

#[test]
fn what_a_filter_leaves_out_reaches_no_memory() {
    needs_qemu!();
    let counts = "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done";
    let programs: [(&str, &Path, &[&str]); 3] = [
        ("updates", &guest("loops"), &["updates", "60000"]),
        ("stores", &guest("loops"), &["stores", "2"]),
        ("counts", Path::new("sh"), &["-c", counts]),
    ];
    for (name, program, arguments) in programs {
        let [(whole, all), (filtered, kept)] = both(program, arguments);
        assert_eq!(kept.instructions, all.instructions, "{name}");
        assert_eq!(kept.loads + kept.left_out_loads, all.loads, "{name}");
        assert_eq!(kept.stores + kept.left_out_stores, all.stores, "{name}");
        let [large, small] = [&whole, &filtered].map(|path| std::fs::metadata(path).unwrap().len());
        assert!(name == "updates" || small < large / 3, "{name}: {small} of {large} B");
        for (system, sets) in [
            ("oracle/quick", &[SMALL_L3, SMALL_L1][..]),
            ("hybrid/quick", &[SMALL_L3, SMALL_L1, SMALL_DRAM, NO_PREFETCH]),
            ("storage/quick", &[SMALL_L3, SMALL_L1, ("storage.dram_capacity", "12MiB")]),
        ] {
            let sets = [sets, &[NO_LOAD_QUEUE, NO_STORE_QUEUE]].concat();
            let [a, b] = [&whole, &filtered].map(|path| replayed(path, system, &sets));
            near(&format!("{name} on {system}"), &a, &b);
        }
        // With queues a run in order is quicker, of whose hits none is left to fill them.
        let times = [&whole, &filtered]
            .map(|path| replayed(path, "oracle/quick", &[SMALL_L3, SMALL_L1]).time_ps as f64);
        let off = times[1] / times[0] - 1.0;
        let most = if name == "stores" { 0.19 } else { 0.02 };
        assert!((-most..0.01).contains(&off), "{name}: {off:+.3} with queues");
        std::fs::remove_file(whole).unwrap();
        std::fs::remove_file(filtered).unwrap();
    }
}
