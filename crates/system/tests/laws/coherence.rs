//! Coherence of private caches: what it costs, to the picosecond, and that data are right whatever threads do.

use crate::common::random::past;
use crate::common::{ANONYMOUS, PAGE, Script, call};
use crate::thorough::of_many;
use proptest::prelude::*;
use tierscope_system::machine::Machine;
use tierscope_system::result::SystemResult;
use tierscope_system::run::RunOptions;
use tierscope_system::spec::{SystemSpec, load};
use tierscope_workload::op::{Call, FLAG_DEPENDENT, FLAG_KEEP, FLAG_ORDERED, FLAG_STORES};
use tierscope_workload::{Op, OpKind};

const LINE: u64 = 64;
/// Of the processor of [HYB15] at 2 GHz: cycles are half a nanosecond.
const CYCLE_PS: u64 = 500;
const L2_PS: u64 = 12 * CYCLE_PS;
const L3_PS: u64 = 40 * CYCLE_PS;
const TRANSFER_PS: u64 = 83 * CYCLE_PS;
const INVALIDATION_PS: u64 = 65 * CYCLE_PS;
/// So many instructions between accesses that none waits for the one before.
const APART: u32 = 20_000;

fn system(sets: &[(&str, &str)]) -> SystemSpec {
    let own = |(path, value): &(&str, &str)| (path.to_string(), value.to_string());
    // The kernel's own lines are shared, too: its paths touch none, so that they count for nothing.
    let paths = ["fault", "system_call", "wake_up", "context_switch", "interrupt"];
    let quiet = paths.map(|path| (format!("os.paths.{path}.lines"), "0".to_string()));
    let sets: Vec<_> = sets.iter().map(own).chain(quiet).collect();
    load("oracle/quick", &sets).unwrap_or_else(|problems| panic!("{problems}")).spec
}

fn run(spec: &SystemSpec, threads: &[Vec<Op>], batch_limit: u64) -> SystemResult {
    let options = RunOptions { batch_limit, ..RunOptions::default() };
    let mut machine = Machine::new(spec, Script::stream(threads), &options).unwrap();
    while !machine.run(|_| true).unwrap() {
        machine.check_conservation().unwrap();
    }
    machine.check_conservation().unwrap();
    let result = machine.result();
    SystemResult { wall_s: 0.0, accesses_per_wall_s: 0.0, ..result }
}

/// The same with a fork in the middle; both have to end alike.
fn run_forked(spec: &SystemSpec, threads: &[Vec<Op>]) -> [SystemResult; 2] {
    let options = RunOptions::default();
    let mut machine = Machine::new(spec, Script::stream(threads), &options).unwrap();
    machine.run(|_| true).unwrap();
    let mut fork = machine.fork();
    [&mut machine, &mut fork].map(|one| {
        assert!(one.run(|_| false).unwrap());
        SystemResult { wall_s: 0.0, accesses_per_wall_s: 0.0, ..one.result() }
    })
}

/// Sum of the latencies of all accesses.
fn latency_ps(result: &SystemResult) -> u64 {
    let mean_ns: f64 = result.stages_ns.values().sum();
    (mean_ns * 1e3 * result.accesses as f64).round() as u64
}

/// `count` lines, in another set of the caches each.
fn lines(count: u64) -> impl Iterator<Item = u64> {
    (1..=count).map(|line| ANONYMOUS + line * LINE)
}

fn loads(count: u64) -> Vec<Op> {
    lines(count).map(|at| Op::load(at, 8, APART).with_flags(FLAG_DEPENDENT)).collect()
}

fn stores(count: u64) -> Vec<Op> {
    lines(count).map(|at| Op::store(at, 8, APART)).collect()
}

/// The first thread does its part, then the second does its own, and so on; the page is known to all before.
fn in_turn(parts: &[Vec<Op>]) -> Vec<Vec<Op>> {
    let mut threads = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let mut ops = Vec::new();
        if index == 0 {
            ops.push(Op::store(ANONYMOUS, 8, APART));
            // The kernel has cleared the page in this core's caches: others take their place.
            ops.extend((1..200).map(|page| Op::store(ANONYMOUS + page * PAGE, 8, APART)));
            ops.extend((1..parts.len() as u32).flat_map(|thread| call(Call::Spawn { thread })));
        } else {
            let thread = index as u32 - 1;
            // It runs until all have been started, so that each has a core of its own.
            ops.push(Op::load(ANONYMOUS, 8, APART));
            ops.extend(call(Call::Wait { thread, sequence: 1 }));
        }
        ops.extend(part);
        ops.extend(call(Call::Signal { sequence: 1 }));
        threads.push(ops);
    }
    threads
}

/// What the last thread's further accesses take each, and what they add to a counter.
fn adds(spec: &SystemSpec, parts: &[Vec<Op>], more: Vec<Op>, counter: &str) -> (u64, u64) {
    let accesses = |op: &&Op| matches!(op.kind(), Some(OpKind::Load | OpKind::Store));
    let count = more.iter().filter(accesses).count() as u64;
    let before = run(spec, &in_turn(parts), 0);
    let mut parts = parts.to_vec();
    parts.last_mut().unwrap().extend(more);
    let after = run(spec, &in_turn(&parts), 0);
    assert_eq!(after.accesses - before.accesses, count);
    let counted = |result: &SystemResult| result.counters.get(counter).copied().unwrap_or(0);
    let added = counted(&after) - counted(&before);
    ((latency_ps(&after) - latency_ps(&before)) / count, added)
}

#[test]
fn a_line_that_another_core_has_written_comes_from_there() {
    let spec = system(&[]);
    let found = adds(&spec, &[stores(32), vec![]], loads(32), "cache_transfers");
    assert_eq!(found, (TRANSFER_PS, 32));
    let found = adds(&spec, &[stores(32), vec![]], stores(32), "cache_invalidations");
    assert_eq!(found, (TRANSFER_PS, 32));
}

#[test]
fn a_line_that_others_have_only_read_comes_from_the_shared_cache() {
    let spec = system(&[]);
    let found = adds(&spec, &[loads(32), vec![]], loads(32), "cache_transfers");
    assert_eq!(found, (L3_PS, 0));
    // Where no cache is shared, it comes from theirs.
    let spec = system(&[("processor.caches.L3.shared", "false")]);
    let found = adds(&spec, &[loads(32), vec![]], loads(32), "cache_transfers");
    assert_eq!(found, (TRANSFER_PS, 32));
}

#[test]
fn a_store_to_a_shared_line_waits_until_the_others_have_given_it_up() {
    let spec = system(&[]);
    let shared = [loads(32), loads(32)];
    assert_eq!(adds(&spec, &shared, stores(32), "cache_upgrades"), (INVALIDATION_PS, 32));
    assert_eq!(adds(&spec, &shared, stores(32), "cache_invalidations"), (INVALIDATION_PS, 32));
    // Three others give it up at once.
    let shared = [loads(32), loads(32), loads(32), loads(32)];
    assert_eq!(adds(&spec, &shared, stores(32), "cache_invalidations"), (INVALIDATION_PS, 96));
    // It is its own then, as is what nobody else has.
    let own = [loads(32), [loads(32), stores(32)].concat()];
    assert_eq!(adds(&spec, &own, stores(32), "cache_upgrades"), (4 * CYCLE_PS, 0));
    assert_eq!(adds(&spec, &[vec![], loads(32)], stores(32), "cache_upgrades"), (4 * CYCLE_PS, 0));
}

/// The same lines, each stored to as a whole past the caches.
fn past_caches(count: u64) -> Vec<Op> {
    lines(count).map(|at| Op::non_temporal_store(at, 64, APART)).collect()
}

#[test]
fn a_line_stored_past_the_caches_is_not_read_and_is_in_none_of_them() {
    let spec = system(&[]);
    let nobody = [vec![], vec![]];
    // Memory takes it while the shared caches are asked.
    assert_eq!(adds(&spec, &nobody, past_caches(32), "non_temporal_lines"), (L3_PS, 32));
    let flushed: Vec<Op> = lines(32).map(|at| Op::flush(at, 0, APART)).collect();
    let nowhere = [vec![], flushed];
    assert_eq!(adds(&spec, &nowhere, past_caches(32), "memory_reads").1, 0);
    assert_eq!(adds(&spec, &nowhere, stores(32), "memory_reads").1, 32);
    let held = [loads(32), vec![]];
    assert_eq!(adds(&spec, &held, past_caches(32), "cache_invalidations"), (INVALIDATION_PS, 32));
    // What was there is read anew: its own, and another's.
    for parts in [[vec![], [stores(32), past_caches(32)].concat()], [stores(32), past_caches(32)]] {
        assert_eq!(adds(&spec, &parts, loads(32), "memory_reads").1, 32);
    }
}

#[test]
fn stores_past_the_caches_to_one_line_are_combined() {
    let spec = system(&[]);
    let pieces = |count: u64| -> Vec<Op> {
        lines(count)
            .flat_map(|at| (0..8).map(move |i| Op::non_temporal_store(at + 8 * i, 8, 1)))
            .collect()
    };
    let parts = [vec![], vec![]];
    assert_eq!(adds(&spec, &parts, pieces(32), "non_temporal_lines").1, 32);
    // A line that is not full goes at a fence, and the rest of it by itself.
    let half = |count| -> Vec<Op> {
        pieces(count)
            .chunks(4)
            .flat_map(|part| [part, &[Op::fence(FLAG_STORES, 1)]].concat())
            .collect()
    };
    assert_eq!(adds(&spec, &parts, half(32), "non_temporal_lines").1, 2 * 32);
}

/// What a round of these operations takes, beyond the instructions, and adds to a counter.
fn rounds(spec: &SystemSpec, round: &[Op], counter: &str) -> (u64, u64) {
    let result = |count| run(spec, &in_turn(&[round.repeat(count)]), 0);
    let (few, many) = (result(20), result(120));
    let instructions: u64 = round.iter().map(|op| u64::from(op.instructions())).sum();
    // Two instructions a cycle.
    let busy_ps = 100 * instructions * CYCLE_PS / 2;
    let counted = |result: &SystemResult| result.counters.get(counter).copied().unwrap_or(0);
    ((many.time_ps - few.time_ps - busy_ps) / 100, (counted(&many) - counted(&few)) / 100)
}

#[test]
fn fences_wait_for_flushes_which_wait_for_memory_to_take_what_was_written() {
    let spec = system(&[]);
    // The instructions of the fence and of what comes behind it run meanwhile.
    let waits_ps = L3_PS - 2 * CYCLE_PS;
    let at = ANONYMOUS + 5 * LINE;
    let (load, store) = (Op::load(at, 8, 2), Op::store(at, 8, 2));
    let other = Op::load(ANONYMOUS + 40 * LINE, 8, 2);
    let (flush, keep) = (Op::flush(at, 0, 2), Op::flush(at, FLAG_KEEP, 2));
    let (fence, of_stores) = (Op::fence(0, 2), Op::fence(FLAG_STORES, 2));
    assert_eq!(rounds(&spec, &[flush, fence, other], "cache_flushes"), (waits_ps, 1));
    assert_eq!(rounds(&spec, &[flush, fence, other], "cache_flush_writes").1, 0);
    assert_eq!(rounds(&spec, &[store, keep, fence, other], "cache_flush_writes"), (waits_ps, 1));
    // It is still there, clean: neither is it read again, nor written twice.
    assert_eq!(rounds(&spec, &[store, keep, fence, load], "memory_reads"), (waits_ps, 0));
    assert_eq!(rounds(&spec, &[keep, fence, load], "cache_flush_writes"), (waits_ps, 0));
    assert_eq!(rounds(&spec, &[load, flush, fence], "memory_reads").1, 1);
    // A fence of stores lets loads pass; the next flush waits.
    assert_eq!(
        rounds(&spec, &[flush, of_stores, other], "cache_flushes"),
        (waits_ps - CYCLE_PS, 1)
    );
    // Those in order wait for each other; others overlap.
    let eight = |flags| -> Vec<Op> {
        (0..8).map(|i| Op::flush(at + i * LINE, flags, 1)).chain([fence, other]).collect()
    };
    let (ordered, _) = rounds(&spec, &eight(FLAG_ORDERED), "cache_flushes");
    let (free, _) = rounds(&spec, &eight(0), "cache_flushes");
    assert!(ordered > 8 * (L3_PS - 8 * CYCLE_PS), "{ordered}");
    assert!((L3_PS - 8 * CYCLE_PS..2 * L3_PS).contains(&free), "{free}");
}

/// Four threads that each do this so many times at a place of their own, so far from each other.
fn four(times: usize, distance: u64, what: impl Fn(u64) -> Vec<Op>) -> Vec<Vec<Op>> {
    let threads = 4;
    let mut all: Vec<Vec<Op>> =
        (0..threads).map(|thread| what(ANONYMOUS + thread * distance).repeat(times)).collect();
    let start: Vec<Op> =
        (1..threads as u32).flat_map(|thread| call(Call::Spawn { thread })).collect();
    all[0].splice(0..0, start);
    all
}

#[test]
fn false_sharing_takes_a_hand_over_after_the_other() {
    let spec = system(&[]);
    let store = |at| vec![Op::store(at, 8, 2)];
    let [few, many] = [50_000, 150_000].map(|times| run(&spec, &four(times, 8, store), 0));
    let hand_overs = many.counters["cache_transfers"] - few.counters["cache_transfers"];
    assert!(hand_overs > 500, "the threads contend: {hand_overs}");
    // While the line is on its way the others wait in line; its new owner's store ends the way.
    let expected_ps = hand_overs * (TRANSFER_PS - L2_PS);
    let found_ps = many.time_ps - few.time_ps;
    let off = found_ps as f64 / expected_ps as f64;
    assert!((0.98..1.02).contains(&off), "{found_ps} ps instead of {expected_ps} ps");
    // Updates wait for their loads, and so for the line.
    let update = |at| {
        [Op::load(at, 8, 2), Op::store(at, 8, 2)].map(|op| op.with_flags(FLAG_DEPENDENT)).to_vec()
    };
    let [near, apart] = [8, LINE].map(|distance| run(&spec, &four(5_000, distance, update), 0));
    assert!(apart.counters["cache_transfers"] < 100, "lines apart are their threads' own");
    assert!(near.time_ps > 2 * apart.time_ps, "{} against {}", near.time_ps, apart.time_ps);
}

/// What a thread of a litmus test does: the line, what with it (load, store, and from 2 on what passes the caches by),
/// whether it waits, and work before.
type Step = (u64, u8, bool, u32);

fn litmus(threads: &[Vec<Step>]) -> Vec<Vec<Op>> {
    let op = |(line, what, dependent, work): &Step| {
        // Lines of eight pages, four of a page.
        let at = ANONYMOUS + line / 4 * PAGE + line % 4 * LINE;
        let op = match what {
            0 => Op::load(at, 8, *work),
            1 => Op::store(at, 8, *work),
            what => return past(what - 2, at, *work),
        };
        op.with_flags(if *dependent { FLAG_DEPENDENT } else { 0 })
    };
    let mut all: Vec<Vec<Op>> =
        threads.iter().map(|steps| steps.iter().map(op).collect()).collect();
    let start: Vec<Op> =
        (1..threads.len() as u32).flat_map(|thread| call(Call::Spawn { thread })).collect();
    all[0].splice(0..0, start);
    all
}

fn doings() -> impl Strategy<Value = u8> {
    prop_oneof![6 => 0u8..2, 1 => 2u8..10]
}

const SMALL: &[(&str, &str)] = &[
    ("check_data", "true"),
    ("processor.caches.L1D.capacity", "256B"),
    ("processor.caches.L1D.ways", "2"),
    ("processor.caches.L2.capacity", "512B"),
    ("processor.caches.L2.ways", "2"),
    ("processor.caches.L3.capacity", "1KiB"),
    ("processor.caches.L3.ways", "2"),
];

/// An inclusive L3 of five sets of four lines, and private caches that hold less.
const INCLUSIVE: &[(&str, &str)] = &[
    ("processor.caches.L1D.capacity", "512B"),
    ("processor.caches.L1D.ways", "4"),
    ("processor.caches.L2.capacity", "1KiB"),
    ("processor.caches.L2.ways", "4"),
    ("processor.caches.L3.capacity", "1280B"),
    ("processor.caches.L3.ways", "4"),
    ("processor.caches.L3.inclusive", "true"),
];

#[test]
fn what_an_inclusive_cache_drops_goes_from_its_cores_though_they_use_it() {
    // One line is used before each of eight, all of one set of the L3. Of four ways, it is there for three more.
    let round: Vec<u64> =
        (1..=8).flat_map(|other| [0, other * 5]).map(|line| ANONYMOUS + line * LINE).collect();
    let rounds = |count: usize| {
        vec![round.repeat(count).into_iter().map(|at| Op::load(at, 8, APART)).collect()]
    };
    let more = |spec: &SystemSpec, counter: &str| {
        let [few, many] = [10, 30].map(|count| run(spec, &rounds(count), 0));
        assert_eq!(many.accesses - few.accesses, 20 * 16);
        many.counters[counter] - few.counters[counter]
    };
    let inclusive = system(INCLUSIVE);
    assert_eq!(more(&inclusive, "memory_reads"), 20 * (8 + 2));
    assert_eq!(more(&inclusive, "cache_back_invalidations"), 20 * (8 + 2));
    let other = [INCLUSIVE, &[("processor.caches.L3.inclusive", "false")]].concat();
    assert_eq!(more(&system(&other), "memory_reads"), 0, "the private caches hold all nine");
}

#[test]
fn what_an_inclusive_cache_dropped_comes_from_memory_and_from_no_other_core() {
    let others: Vec<Op> =
        (20..64).map(|line| Op::load(ANONYMOUS + line * LINE, 8, APART)).collect();
    let spec = system(INCLUSIVE);
    for first in [loads(4), stores(4)] {
        let parts = [first, others.clone(), vec![]];
        let found = adds(&spec, &parts, loads(4), "cache_transfers");
        let nobody = adds(&spec, &[vec![], others.clone(), vec![]], loads(4), "cache_transfers");
        assert_eq!(found.1, 0);
        assert!(
            found.0 > TRANSFER_PS && found.0.abs_diff(nobody.0) < 10_000,
            "{found:?} {nobody:?}"
        );
        let other = system(&[INCLUSIVE, &[("processor.caches.L3.inclusive", "false")]].concat());
        assert_eq!(adds(&other, &parts, loads(4), "cache_transfers"), (TRANSFER_PS, 4));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: of_many(100, 2_000), ..ProptestConfig::default() })]

    /// Every load has what was last stored before it, in the machine's own order; a line that a core may
    /// write is nowhere else (`check_conservation`); and neither batches nor forks change anything.
    #[test]
    fn one_core_writes_or_many_read_and_every_load_has_the_last_store(
        threads in proptest::collection::vec(
            proptest::collection::vec((0u64..12, doings(), any::<bool>(), 1u32..40), 1..120),
            2..7,
        ),
        last in 0u8..3,
        two in any::<bool>(),
        inner in any::<bool>(),
        ahead in proptest::option::of((0..3usize, 1u32..5, 1u32..9)),
    ) {
        let mut sets = SMALL.to_vec();
        let ahead = ahead.map(|(kind, lines, outstanding)| {
            let kind = ["next-line", "stride", "stream"][kind];
            format!(
                "{{ kind = \"{kind}\", degree = {lines}, distance = {lines}, trackers = 2, \
                 outstanding = {outstanding}, into = \"private\" }}"
            )
        });
        if let Some(ahead) = &ahead {
            sets.push(("processor.prefetch", ahead));
        }
        match last {
            0 => sets.push(("processor.caches.L3.shared", "false")),
            1 => sets.push(("processor.caches.L3.inclusive", "true")),
            _ => {}
        }
        if inner {
            sets.push(("processor.caches.L2.inclusive", "true"));
        }
        if two {
            sets.push(("processor.threads_per_core", "2"));
        }
        let (spec, script) = (system(&sets), litmus(&threads));
        let whole = run(&spec, &script, 0);
        prop_assert_eq!(whole.counters["stale_loads"], 0);
        for limit in [1, 5] {
            prop_assert_eq!(&run(&spec, &script, limit), &whole, "batches of {}", limit);
        }
        for other in run_forked(&spec, &script) {
            prop_assert_eq!(&other, &whole);
        }
        let unchecked = system(&[&sets[1..], &[("check_data", "false")]].concat());
        prop_assert_eq!(run(&unchecked, &script, 0), whole);
    }
}

/// A thread loads what the other of its core is writing to, and has written when the request is served.
#[test]
fn a_load_that_waited_for_a_store_of_its_own_core_has_what_that_stored() {
    let own = [("processor.caches.L3.shared", "false"), ("processor.threads_per_core", "2")];
    let load = |line, work| (line, 0, false, work);
    let first = vec![load(0, 27), load(1, 8), load(0, 1)];
    let others = [4, 4, 4, 0].map(|line| vec![load(line, 1)]);
    let threads: Vec<Vec<Step>> = [vec![first], others.to_vec()].concat();
    let whole = run(&system(&[SMALL, &own].concat()), &litmus(&threads), 0);
    assert_eq!(whole.counters["stale_loads"], 0);
}

/// A store that waited for a walk is served by its core's own cache, and told later. An inclusive cache drops the line
/// between: what was stored is in it.
#[test]
fn what_was_stored_behind_a_walk_is_in_its_line_before_the_store_is_told() {
    let sets =
        [SMALL, &[("processor.caches.L3.inclusive", "true"), ("processor.threads_per_core", "2")]]
            .concat();
    let load = |line, work| (line, 0, false, work);
    let threads: Vec<Vec<Step>> = vec![
        vec![load(0, 34)],
        vec![load(5, 1), load(0, 1)],
        vec![load(5, 1), load(0, 1)],
        vec![load(9, 1), load(0, 1)],
        vec![load(4, 26), (1, 1, false, 34), (1, 0, true, 2)],
    ];
    let whole = run(&system(&sets), &litmus(&threads), 0);
    assert_eq!(whole.counters["stale_loads"], 0);
}
