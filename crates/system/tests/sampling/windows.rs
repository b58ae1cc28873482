//! Recordings of windows: what their replays estimate, against replays of all of the program.

use super::work::work;
use super::{machines, run};
use std::sync::atomic::AtomicBool;
use tierscope_system::machine::{Bound, Machine};
use tierscope_system::result::{RecordedWindows, SystemResult};
use tierscope_system::run::{Outcome, RunOptions, run_machines};
use tierscope_system::spec::SystemSpec;
use tierscope_workload::windows::{WindowSpec, Windows};
use tierscope_workload::{Op, OpKind, Pull, Stream, StreamError, ThreadId};

const WINDOW: u64 = 1_000;
const PERIOD: u64 = 20_000;

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
fn windows(program: &[Vec<Op>]) -> Vec<Vec<Op>> {
    let mut windows = Windows::new(WindowSpec::new(WINDOW, PERIOD).unwrap());
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

fn options() -> RunOptions {
    RunOptions { window_accesses: Some(WINDOW), ..RunOptions::default() }
}

fn replay(system: &SystemSpec, recorded: &[Vec<Op>]) -> SystemResult {
    let outcome = run(system, Written::of(recorded), &options());
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
    for (name, system) in machines() {
        for pattern in ["uniform", "zipf", "filter", "chase"] {
            let program = program(pattern, 1, 800_000);
            let whole = run(&system, Written::of(&program), &RunOptions::default()).result;
            let recorded = windows(&program);
            let found = told(&replay(&system, &recorded));
            let before = told(&replay(&system, &cold(&recorded)));
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
    assert!(missed_cold.len() >= 4, "what is cold is wrong: {missed_cold:?}");
}

#[test]
fn what_warms_a_machine_between_windows_is_not_counted() {
    for (name, system) in machines() {
        let recorded = windows(&program("uniform", 1, 200_000));
        let result = replay(&system, &recorded);
        let access = |whole: &&[Op]| (1..3).contains(&whole[0].kind_code());
        let accesses = recorded.iter().map(|ops| whole(ops).filter(access).count()).sum::<usize>();
        assert_eq!(result.accesses, accesses as u64, "{name}");
        // A few lines for each access and its walk, and those of pages that moved.
        let (lines, store) = (result.dram_bytes.read / 64, result.store_bytes);
        let most = 4 * result.accesses + (store.read + store.written) / 64;
        assert!(lines < most, "{name}: {lines} of {most}");
        let owners: f64 = result.time_breakdown_ns.values().sum();
        assert!((owners / (result.time_s * 1e9) - 1.0).abs() < 1e-9, "{name}");
        // The time is that of windows and of what little lies around them.
        let told = told(&result);
        let share = told.thread_time_s.unwrap() / result.time_s;
        assert!((10.0..21.0).contains(&share), "{name}: {share} of the program's time");
    }
}

#[test]
fn batches_and_forks_change_no_replay_of_windows() {
    for (name, system) in machines() {
        let recorded = windows(&program("two threads", 2, 60_000));
        let one = |limit: u64| {
            let options = RunOptions { batch_limit: limit, ..options() };
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
    let recorded = windows(&program("uniform", 1, 400_000));
    let all = replay(&system, &recorded);
    let limit_ps = all.time_ps / 2;
    let options = RunOptions { stops: vec![Bound::TimePs(limit_ps)], ..options() };
    let never = AtomicBool::new(false);
    let systems = std::slice::from_ref(&system);
    let Outcome { result, .. } =
        run_machines(systems, vec![Written::of(&recorded)], &options, &(), &never).remove(0);
    let ratio = result.time_ps as f64 / limit_ps as f64;
    assert!((0.99..1.01).contains(&ratio), "{ratio}");
}
