//! Functional warming, where it takes short cuts: accesses that a workload tells together leave what they leave one by
//! one; and warming without times.

use crate::thorough::of_many;
use std::sync::atomic::AtomicBool;
use tierscope_system::machine::Machine;
use tierscope_system::result::SystemResult;
use tierscope_system::run::{Bound, RunOptions, Sampling, Warming, run_machines};
use tierscope_system::spec::{self, SystemSpec};
use tierscope_workload::{Op, Pull, Stream, StreamError, ThreadId, generator};

/// A stream that tells nothing together.
struct Apart(Box<dyn Stream>);

impl Stream for Apart {
    fn pull(
        &mut self,
        thread: ThreadId,
        limit: usize,
        out: &mut Vec<Op>,
    ) -> Result<Pull, StreamError> {
        self.0.pull(thread, limit, out)
    }

    fn fork(&self) -> Box<dyn Stream> {
        Box::new(Apart(self.0.fork()))
    }
}

fn system(name: &str) -> SystemSpec {
    spec::load(name, &[]).unwrap().spec
}

/// Workloads that do so: of one thread and of several, which read, write, and call on files.
fn works() -> Vec<(&'static str, Box<dyn Stream>)> {
    let make = |name: &'static str, sets: &[(&str, serde_json::Value)]| {
        let sets: Vec<_> =
            sets.iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
        (name, generator::find(name).unwrap().make(&sets, 5).unwrap().0)
    };
    let size = |size: &str| ("size", serde_json::Value::from(size));
    vec![
        make("sqlite/rnd-select", &[size("48MiB"), ("transactions", 4000.into())]),
        make("sqlite/rnd-insert", &[size("24MiB"), ("transactions", 3000.into())]),
        make("mmap-benchmark/rnd-write", &[size("4MiB"), ("passes", 1.into())]),
        make("rodinia/kmeans", &[size("3MiB"), ("touched", false.into())]),
        make("rodinia/nn", &[size("1MiB")]),
    ]
}

fn run(system: &SystemSpec, stream: Box<dyn Stream>, options: &RunOptions) -> SystemResult {
    let never = AtomicBool::new(false);
    let systems = std::slice::from_ref(system);
    let outcome = run_machines(systems, vec![stream], options, &(), &never).remove(0);
    assert!(!outcome.failed, "{:?}", outcome.partial_reason);
    SystemResult { wall_s: 0.0, accesses_per_wall_s: 0.0, ..outcome.result }
}

fn memory_reads(result: &SystemResult) -> f64 {
    result.counters["memory_reads"] as f64
}

/// Warmed functionally, and then run in detail: where the region begins, and what it finds.
#[test]
fn what_is_told_together_warms_as_what_is_told_apart() {
    let start = 1_000_003;
    let options = RunOptions {
        start: Some(Bound::Accesses(start)),
        stops: vec![Bound::Accesses(start + 400_000)],
        warming: Warming::Functional,
        ..RunOptions::default()
    };
    for name in ["oracle/quick", "hams-le/quick", "mmap/quick", "hybrid/quick"] {
        let system = system(name);
        for ((work, together), (_, apart)) in works().into_iter().zip(works()) {
            let apart = run(&system, Box::new(Apart(apart)), &options);
            let together = run(&system, together, &options);
            let (one, other) = (&together, &apart);
            let skipped = |result: &SystemResult| result.skipped.as_ref().unwrap().accesses;
            // Several threads may each go a few accesses further.
            assert!((start..start + 9).contains(&skipped(one)), "{name}, {work}: {}", skipped(one));
            let off = one.accesses as f64 / other.accesses as f64 - 1.0;
            assert!(off.abs() < 1e-4, "{name}, {work}: accesses {off:+.6}");
            let near = |what: &str, of: &dyn Fn(&SystemResult) -> f64, bound: f64| {
                let off = of(one) / of(other).max(1e-30) - 1.0;
                if std::env::var_os("TIERSCOPE_SHOW").is_some() {
                    println!("{name}, {work}: {what} {off:+.5}, {}", of(one));
                }
                assert!(off.abs() <= bound, "{name}, {work}: {what} {off:+.4}");
            };
            near("instructions", &|it| it.instructions as f64, 1e-4);
            near("time", &|it| it.time_s, 0.015);
            near("reads of memory", &|it| 100.0 + memory_reads(it), 0.025);
            near("bytes from the store", &|it| 1e4 + it.store_bytes.read as f64, 0.015);
        }
    }
}

/// The same of a sampled run, of which most is warming.
#[test]
fn a_sampled_run_is_told_the_same_by_either() {
    let sampling = Some(Sampling { unit_ps: Some(20_000_000), every: Some(10) });
    let options = RunOptions { sampling, ..RunOptions::default() };
    let system = system("oracle/quick");
    for ((work, together), (_, apart)) in works().into_iter().zip(works()) {
        let apart = run(&system, Box::new(Apart(apart)), &options);
        let together = run(&system, together, &options);
        assert!(together.sampling.as_ref().is_some_and(|told| told.units > 1), "{work}");
        assert_eq!(together.accesses, apart.accesses, "{work}");
        assert_eq!(together.instructions, apart.instructions, "{work}");
        let off = together.time_s / apart.time_s - 1.0;
        assert!(off.abs() < 0.03, "{work}: {off:+.4}");
        let hits = |it: &SystemResult| -> f64 { 1.0 - memory_reads(it) / it.accesses as f64 };
        assert!((hits(&together) - hits(&apart)).abs() < 1e-4, "{work}");
    }
}

/// Where batches end, and where a machine is forked, changes nothing.
#[test]
fn batches_and_forks_change_nothing_of_what_is_told_together() {
    let sampling = Some(Sampling { unit_ps: Some(20_000_000), every: Some(7) });
    let system = system("oracle/quick");
    for number in 0..works().len() {
        let work = || works().swap_remove(number);
        // Which accesses of several threads come before a count is left to batches.
        let bounded = work().0.starts_with("sqlite");
        let start = bounded.then_some(Bound::Accesses(300_001));
        let stops = bounded.then_some(Bound::Accesses(1_500_000)).into_iter().collect();
        let options = RunOptions { sampling, start, stops, ..RunOptions::default() };
        let of = work().0;
        let one = |batch_limit: u64| {
            run(&system, work().1, &RunOptions { batch_limit, ..options.clone() })
        };
        let whole = one(0);
        assert!(whole.sampling.is_some(), "{of}");
        assert_eq!(one(7), whole, "{of}");
        let mut machine = Machine::new(&system, work().1, &options).unwrap();
        let mut turns = 0;
        while !machine
            .run(|_| {
                turns += 1;
                turns % 400 == 0
            })
            .unwrap()
        {
            machine = machine.fork();
        }
        assert_eq!(machine.result(), whole, "{of}");
    }
}

/// A DRAM cache that prefetches may be warmed without times: what its region finds is near what warming in detail
/// leaves. At 25 us, where prefetches wait longest; after a table is touched, and after updates at random.
#[test]
fn a_cache_that_prefetches_may_be_warmed_without_times() {
    let sets = [("store.read_latency", "25us"), ("store.write_latency", "250us")];
    let sets = sets.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let system = spec::load("hybrid/quick", &sets).unwrap().spec;
    let cases = [(true, 16, 131_072), (false, 1, 60_000), (true, 1, 131_072)];
    for (touched, threads, skip) in cases.into_iter().take(of_many(2, 3)) {
        let run = |warming| {
            let updates = ("updates".to_owned(), if touched { 5_000 } else { 70_000 }.into());
            let threads = ("threads".to_owned(), threads.into());
            let parameters = [updates, threads, ("touched".to_owned(), touched.into())];
            let work = generator::find("gups").unwrap().make(&parameters, 5).unwrap().0;
            let start = Some(Bound::Accesses(skip));
            run(&system, work, &RunOptions { start, warming, ..RunOptions::default() })
        };
        let (untimed, detailed) = (run(Warming::Untimed), run(Warming::Detailed));
        if of_many(!touched, true) {
            assert_eq!(run(Warming::Functional), detailed, "it warms in detail unless asked");
        }
        assert_eq!(untimed.skipped.as_ref().unwrap().warming, Warming::Untimed);
        let off = |of: &dyn Fn(&SystemResult) -> f64| of(&untimed) / of(&detailed) - 1.0;
        let (time, misses) = (off(&|it| it.time_s), off(&|it| it.miss_rate));
        if std::env::var_os("TIERSCOPE_SHOW").is_some() {
            println!("{touched}, {threads}: time {time:+.4}, misses {misses:+.4}");
        }
        assert!(time.abs() < 0.05, "{touched}, {threads}: {time:+.4}");
        assert!(misses.abs() < 0.05, "{touched}, {threads}: {misses:+.4}");
    }
}
