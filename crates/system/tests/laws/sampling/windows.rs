//! Recordings of windows: what their replays estimate, against replays of all of the program.

use super::work::work;
use super::{machines, run};
use crate::thorough::of_many;
use std::sync::atomic::AtomicBool;
use tierscope_system::machine::{Bound, Machine};
use tierscope_system::result::{RecordedWindows, SystemResult};
use tierscope_system::run::{Outcome, RunOptions, run_machines};
use tierscope_system::spec::SystemSpec;
use tierscope_workload::windows::{WindowSpec, Windows};
use tierscope_workload::{Op, OpKind, Pull, Stream, StreamError, ThreadId};

const WINDOW: u64 = 1_000;
const PERIOD: u64 = 20_000;

fn spec() -> WindowSpec {
    WindowSpec::new(WINDOW, PERIOD).unwrap()
}

/// As recordings were before they had a start of their own.
fn old() -> WindowSpec {
    WindowSpec { start_accesses: 0, ..spec() }
}

/// Operations written down, by thread.
#[derive(Clone)]
struct Written {
    threads: Vec<Vec<Op>>,
    taken: Vec<usize>,
}

impl Written {
    fn of(threads: &[Vec<Op>]) -> Box<dyn Stream> {
        Box::new(Written { threads: threads.to_vec(), taken: vec![0; threads.len()] })
    }
}

impl Stream for Written {
    fn pull(&mut self, t: ThreadId, limit: usize, out: &mut Vec<Op>) -> Result<Pull, StreamError> {
        let (ops, at) = (&self.threads[t as usize], &mut self.taken[t as usize]);
        let start = *at;
        while *at < ops.len() && *at - start < limit.max(1) {
            let op = ops[*at];
            *at += 1 + if op.kind() == Some(OpKind::Call) { usize::from(op.size()) } else { 0 };
        }
        out.extend_from_slice(&ops[start..*at]);
        Ok(if *at == start { Pull::End } else { Pull::More })
    }

    fn fork(&self) -> Box<dyn Stream> {
        Box::new(self.clone())
    }
}

/// The first operations of a workload, so many of a thread.
fn program(name: &str, threads: u32, count: usize) -> Vec<Vec<Op>> {
    let mut stream = work(name, 8 << 20, 1);
    let of = |thread| {
        let mut ops = Vec::new();
        while ops.len() < count && stream.pull(thread, 4096, &mut ops) == Ok(Pull::More) {}
        ops
    };
    (0..threads).map(of).collect()
}

/// What a recording of windows has of a program whose threads take turns of 2,000 operations.
fn windows(program: &[Vec<Op>], spec: WindowSpec) -> Vec<Vec<Op>> {
    let mut windows = Windows::new(spec);
    let mut kept = vec![Vec::new(); program.len()];
    let mut at = vec![0; program.len()];
    while at.iter().zip(program).any(|(at, ops)| *at < ops.len()) {
        for (thread, ops) in program.iter().enumerate() {
            let start = at[thread];
            while at[thread] < ops.len() && at[thread] - start < 2_000 {
                let op = ops[at[thread]];
                let call = op.kind() == Some(OpKind::Call);
                at[thread] += 1 + if call { usize::from(op.size()) } else { 0 };
            }
            windows.apply(thread as u32, &ops[start..at[thread]], &mut kept[thread]);
        }
    }
    windows.rest().into_iter().for_each(|(thread, ops)| kept[thread as usize].extend(ops));
    kept
}

/// Operations, calls with their arguments.
fn whole(ops: &[Op]) -> impl Iterator<Item = &[Op]> {
    let mut rest = ops;
    std::iter::from_fn(move || {
        let op = rest.first()?;
        let call = op.kind() == Some(OpKind::Call);
        let (whole, after) = rest.split_at(1 + if call { usize::from(op.size()) } else { 0 });
        rest = after;
        Some(whole)
    })
}

/// Without what was used between windows: as recordings were before they told it.
fn cold(recorded: &[Vec<Op>]) -> Vec<Vec<Op>> {
    let of = |ops: &Vec<Op>| {
        let kept = whole(ops).filter(|whole| whole[0].kind() != Some(OpKind::Used));
        kept.collect::<Vec<_>>().concat()
    };
    recorded.iter().map(of).collect()
}

fn options(spec: WindowSpec) -> RunOptions {
    RunOptions { windows: Some(spec), ..RunOptions::default() }
}

fn replay(system: &SystemSpec, recorded: &[Vec<Op>], spec: WindowSpec) -> SystemResult {
    let outcome = run(system, Written::of(recorded), &options(spec));
    assert!(!outcome.failed && outcome.partial_reason.is_none(), "{outcome:?}");
    outcome.result
}

fn told(result: &SystemResult) -> RecordedWindows {
    result.recorded_windows.unwrap()
}

/// How far an estimate is off, and how far its interval says that it may be.
fn off(estimate: &RecordedWindows, whole_s: f64) -> (f64, f64) {
    (estimate.thread_time_s.unwrap() / whole_s - 1.0, estimate.half_widths.thread_time.unwrap())
}

/// Of every machine and pattern the interval of a warm replay holds what the whole takes, but for a few
/// per cent that warming leaves out; that of a cold one does not where the cold costs much.
#[test]
fn windows_that_begin_warm_tell_what_the_whole_program_takes() {
    let mut missed_cold = Vec::new();
    for (number, (name, system)) in machines().into_iter().enumerate() {
        // Each pattern on one machine or two: all of all take minutes.
        let patterns = ["uniform", "zipf", "filter", "chase"];
        for pattern in
            [patterns[(number + 2) % 4], patterns[number % 4]].into_iter().take(of_many(1, 2))
        {
            let program = program(pattern, 1, 800_000);
            let whole = run(&system, Written::of(&program), &RunOptions::default()).result;
            let recorded = windows(&program, spec());
            let found = told(&replay(&system, &recorded, spec()));
            let before = told(&replay(&system, &cold(&windows(&program, old())), old()));
            assert_eq!(found.program_instructions, whole.instructions, "{name}, {pattern}");
            assert!(found.windows >= 39, "{name}, {pattern}: {found:?}");
            let ((warm, bound), (cold, cold_bound)) =
                (off(&found, whole.time_s), off(&before, whole.time_s));
            if std::env::var_os("TIERSCOPE_SHOW").is_some() {
                println!(
                    "{name}, {pattern}: {warm:+.4} of {bound:.4}, cold {cold:+.4} of {cold_bound:.4}, \
                     first halves {:.3} {:.3}",
                    found.first_halves.unwrap(),
                    before.first_halves.unwrap()
                );
            }
            assert!(warm.abs() < bound + 0.05, "{name}, {pattern}: {warm:+.3} of {bound:.3}");
            if cold.abs() > cold_bound + 0.05 {
                missed_cold.push((name, pattern));
            }
        }
    }
    assert!(!missed_cold.is_empty(), "what is cold is wrong: {missed_cold:?}");
}

/// A program that uses so many pages at its start, and then some memory again and again, with a few new
/// pages now and then, seldom in a window.
fn starter() -> Vec<Op> {
    let page = |n: u64| Op::load((1 << 32) + n * 4096, 8, 4);
    let start = (0..6_000).map(page).chain((0..12_000).map(|n| Op::load(n % 512 * 64, 8, 4)));
    let rest = (0..782_000u64).map(|n| match n % 23_000 {
        part @ 0..40 => page(6_000 + n / 23_000 * 40 + part),
        _ => Op::load(n * 5 % 512 * 64, 8, 4),
    });
    start.chain(rest).collect()
}

/// What is dear and comes once, at the start or seldom, is known and not estimated: of recordings that have no
/// start of their own, it is missing on machines whose store it comes from.
#[test]
fn a_start_that_is_like_nothing_else_counts_as_it_was() {
    let program = vec![starter()];
    let mut missed = Vec::new();
    for (name, system) in machines() {
        let whole = run(&system, Written::of(&program), &RunOptions::default()).result;
        let of = |spec| told(&replay(&system, &windows(&program, spec), spec));
        let (found, before) = (of(spec()), of(old()));
        let ((off_now, half), (off_before, half_before)) =
            (off(&found, whole.time_s), off(&before, whole.time_s));
        if std::env::var_os("TIERSCOPE_SHOW").is_some() {
            println!(
                "{name}: {off_now:+.4} of {half:.4}, before {off_before:+.4} of {half_before:.4}"
            );
        }
        assert_eq!((found.windows, before.windows), (39, 40), "{name}");
        assert!(off_now.abs() < half.min(0.12) + 0.02, "{name}: {off_now:+.3} of {half:.3}");
        if off_before.abs() > 0.5 {
            missed.push(name);
        }
    }
    assert!(missed.len() >= 2, "a start is like the rest: {missed:?}");
}

#[test]
fn what_warms_a_machine_between_windows_is_not_counted() {
    for (name, system) in machines() {
        let recorded = windows(&program("chase", 1, 200_000), spec());
        let result = replay(&system, &recorded, spec());
        let access = |whole: &&[Op]| (1..3).contains(&whole[0].kind_code());
        let accesses = recorded.iter().map(|ops| whole(ops).filter(access).count()).sum::<usize>();
        assert_eq!(result.accesses, accesses as u64, "{name}");
        // A few lines for each access and its walk, and those of pages that moved.
        let (lines, store) = (result.dram_bytes.read / 64, result.store_bytes);
        let most = 4 * result.accesses + (store.read + store.written) / 64;
        assert!(lines < most, "{name}: {lines} of {most}");
        let owners: f64 = result.time_breakdown_ns.values().sum();
        assert!((owners / (result.time_s * 1e9) - 1.0).abs() < 1e-9, "{name}");
        // The time is that of the start, of windows and of what little lies around them: 29 parts in 200,
        // and the dearer ones.
        let told = told(&result);
        let share = told.thread_time_s.unwrap() / result.time_s;
        assert!((2.0..10.0).contains(&share), "{name}: {share} of the program's time");
    }
}

#[test]
fn batches_and_forks_change_no_replay_of_windows() {
    for (name, system) in machines() {
        let recorded = windows(&program("two threads", 2, 60_000), spec());
        let one = |limit: u64| {
            let options = RunOptions { batch_limit: limit, ..options(spec()) };
            let mut machine = Machine::new(&system, Written::of(&recorded), &options).unwrap();
            let mut turns = 0;
            while !machine.run(|_| true).unwrap() {
                turns += 1;
                if turns % 3 == 0 {
                    machine = machine.fork();
                }
            }
            machine.check_conservation().unwrap();
            machine.result()
        };
        let (short, long) = (one(7), one(0));
        assert_eq!(short, long, "{name}");
    }
}

#[test]
fn a_limit_of_simulated_time_holds_without_what_passes_between_windows() {
    let (_, system) = machines().swap_remove(0);
    let recorded = windows(&program("uniform", 1, 400_000), spec());
    let all = replay(&system, &recorded, spec());
    let limit_ps = all.time_ps / 2;
    let options = RunOptions { stops: vec![Bound::TimePs(limit_ps)], ..options(spec()) };
    let never = AtomicBool::new(false);
    let systems = std::slice::from_ref(&system);
    let Outcome { result, .. } =
        run_machines(systems, vec![Written::of(&recorded)], &options, &(), &never).remove(0);
    let ratio = result.time_ps as f64 / limit_ps as f64;
    assert!((0.99..1.01).contains(&ratio), "{ratio}");
}
