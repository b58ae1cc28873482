//! Hardware threads of a core: who has instructions to run shares its pace.

use crate::common::{ANONYMOUS, Script, call};
use tierscope_system::machine::Machine;
use tierscope_system::result::SystemResult;
use tierscope_system::run::RunOptions;
use tierscope_system::spec::load;
use tierscope_workload::Op;
use tierscope_workload::op::{Call, FLAG_DEPENDENT};

/// Time of an instruction: 2 GHz, and half a cycle each.
const INSTRUCTION_PS: u64 = 250;
const WORK: u64 = 4_000_000;

fn run(cores: &str, threads_per_core: &str, threads: &[Vec<Op>], batch_limit: u64) -> SystemResult {
    let sets = [("processor.cores", cores), ("processor.threads_per_core", threads_per_core)];
    run_with(&sets, threads, batch_limit)
}

fn run_with(sets: &[(&str, &str)], threads: &[Vec<Op>], batch_limit: u64) -> SystemResult {
    let sets: Vec<_> =
        sets.iter().map(|(path, value)| (path.to_string(), value.to_string())).collect();
    let spec = load("oracle/quick", &sets).unwrap().spec;
    let options = RunOptions { batch_limit, ..RunOptions::default() };
    let mut machine = Machine::new(&spec, Script::stream(threads), &options).unwrap();
    assert!(machine.run(|_| false).unwrap());
    machine.result()
}

fn computing() -> Vec<Op> {
    vec![Op::compute(1000); (WORK / 1000) as usize]
}

/// The first thread starts the others; each does its own.
fn together(mut threads: Vec<Vec<Op>>) -> Vec<Vec<Op>> {
    let others = 1..threads.len() as u32;
    let start: Vec<Op> = others.flat_map(|thread| call(Call::Spawn { thread })).collect();
    threads[0].splice(0..0, start);
    threads
}

/// Time in units of what one thread's work takes alone.
fn times(result: &SystemResult) -> f64 {
    result.time_ps as f64 / (WORK * INSTRUCTION_PS) as f64
}

fn is_near(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() < 0.01
}

#[test]
fn a_thread_alone_has_the_whole_core_and_two_have_half_each() {
    let alone = run("1", "2", &together(vec![computing()]), 0);
    assert!(is_near(times(&alone), 1.0), "{}", times(&alone));
    let two = run("1", "2", &together(vec![computing(), computing()]), 0);
    assert!(is_near(times(&two), 2.0), "{}", times(&two));
    let four = run("1", "4", &together(vec![computing(); 4]), 0);
    assert!(is_near(times(&four), 4.0), "{}", times(&four));
    // Free cores come first.
    let apart = run("2", "2", &together(vec![computing(), computing()]), 0);
    assert!(is_near(times(&apart), 1.0), "{}", times(&apart));
}

#[test]
fn threads_that_share_miss_registers_overlap_as_many_misses_as_one_of_them_alone() {
    const LINES: u64 = 8192;
    const PASSES: [u64; 2] = [2, 4];
    /// Of the third level, at 2 GHz.
    const LATENCY_PS: f64 = 20_000.0;
    // What a load takes of lines that all lie in the third level, and no load waits for another.
    let load_ps = |partitioned: &str, threads: u64| {
        let sets = [
            ("processor.cores", "1"),
            ("processor.threads_per_core", "2"),
            ("processor.partitioned", partitioned),
            ("processor.reorder_window", "1000"),
            ("processor.miss_registers", "8"),
            ("processor.tlb.entries", "1024"),
        ];
        let [few_ps, many_ps] = PASSES.map(|passes| {
            let loads = |thread: u64| -> Vec<Op> {
                let first = ANONYMOUS + thread * LINES * 64;
                (0..passes * LINES).map(|i| Op::load(first + i % LINES * 64, 8, 1)).collect()
            };
            run_with(&sets, &together((0..threads).map(loads).collect()), 0).time_ps
        });
        (many_ps - few_ps) as f64 / ((PASSES[1] - PASSES[0]) * LINES) as f64
    };
    for (partitioned, threads, registers) in
        [("false", 1, 8.0), ("false", 2, 8.0), ("true", 1, 8.0), ("true", 2, 4.0)]
    {
        let found = load_ps(partitioned, threads);
        let off = found / (LATENCY_PS / registers) - 1.0;
        assert!(off.abs() < 0.05, "{partitioned}, {threads}: {found} ps a load");
    }
}

#[test]
fn a_thread_that_sleeps_or_waits_for_memory_leaves_the_core_to_the_other() {
    let sleeping = call(Call::Sleep { duration_ps: WORK * INSTRUCTION_PS / 2 });
    let asleep = run("1", "2", &together(vec![computing(), sleeping]), 0);
    assert!(is_near(times(&asleep), 1.0), "{}", times(&asleep));
    // A chase of lines in memory, an instruction each: it hardly ever has any to run.
    let line = |i: u64| ANONYMOUS + i * 7919 % 20_000 * 64;
    let step = |i| Op::load(line(i), 8, 1).with_flags(FLAG_DEPENDENT);
    let chasing: Vec<Op> = (0..5_000).map(step).collect();
    let both = together(vec![computing(), chasing]);
    let waiting = run("1", "2", &both, 0);
    assert!((1.0..1.3).contains(&times(&waiting)), "{}", times(&waiting));
    for limit in [1, 7] {
        let other = run("1", "2", &both, limit);
        assert_eq!(other.time_ps, waiting.time_ps, "batches of {limit}");
        assert_eq!(other.counters, waiting.counters, "batches of {limit}");
    }
}
