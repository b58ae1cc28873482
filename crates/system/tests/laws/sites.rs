//! What is told by where in the program's code accesses come from.

use crate::common::random::{doing, script};
use crate::common::{ANONYMOUS, Script};
use proptest::prelude::*;
use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tierscope_system::result::{CodeCost, Cost, SystemResult};
use tierscope_system::run::{Bound, RunOptions, check_sites, run_machines};
use tierscope_system::spec::{SystemSpec, load};
use tierscope_workload::op::FLAG_DEPENDENT;
use tierscope_workload::site::OTHER_SITES;
use tierscope_workload::{Op, OpKind, Site, SiteGrain, SiteId, SiteTable, Stream};

const ALL: [&str; 3] = ["oracle/quick", "hybrid/quick", "storage/quick"];
/// Functions that workloads here have, and instructions of each.
const FUNCTIONS: SiteId = 5;
const INSTRUCTIONS: SiteId = 4;

fn table() -> Arc<SiteTable> {
    let mut table = SiteTable::new(SiteGrain::Address);
    for number in 0..FUNCTIONS * INSTRUCTIONS {
        let start = u64::from(number / INSTRUCTIONS) * 0x100;
        let function = format!("f{}", number / INSTRUCTIONS).into();
        let address = start + u64::from(number % INSTRUCTIONS);
        table.set(number + 2, Site { file: "app".into(), function, start, address });
    }
    Arc::new(table)
}

fn sited(threads: &[Vec<Op>]) -> Box<dyn Stream> {
    Script::sited(threads, table())
}

fn tight(name: &str) -> SystemSpec {
    let all = [
        ("processor.caches.L3.capacity", "320KiB"),
        ("hybrid.cache.capacity", "2MiB"),
        ("storage.dram_capacity", "4MiB"),
    ];
    let organization = name.split('/').next().unwrap();
    let sets: Vec<_> = all
        .iter()
        .filter(|(path, _)| path.starts_with("processor") || path.starts_with(organization))
        .map(|(path, value)| (path.to_string(), value.to_string()))
        .collect();
    load(name, &sets).unwrap_or_else(|problems| panic!("{problems}")).spec
}

fn run(spec: &SystemSpec, stream: Box<dyn Stream>, options: &RunOptions) -> SystemResult {
    let stop = AtomicBool::new(false);
    let outcome = run_machines(from_ref(spec), vec![stream], options, &(), &stop).remove(0);
    assert!(!outcome.failed, "{:?}", outcome.partial_reason);
    let mut result = outcome.result;
    (result.wall_s, result.accesses_per_wall_s) = (0.0, 0.0);
    result
}

fn by(grain: SiteGrain) -> RunOptions {
    RunOptions { sites: Some(grain), ..RunOptions::default() }
}

/// Sums over the rows: hits and all else.
fn totals<'a>(costs: impl Iterator<Item = (u64, &'a Cost)>) -> (u64, [u64; 4], [f64; 2]) {
    let mut sums = (0, [0; 4], [0.0; 2]);
    for (hits, cost) in costs {
        sums.0 += hits;
        let counts = [cost.accesses, cost.store_accesses, cost.call_waits, cost.memory_reads];
        for (sum, count) in sums.1.iter_mut().zip(counts) {
            *sum += count;
        }
        sums.2[0] += cost.latency_ns;
        sums.2[1] += cost.stall_ns;
    }
    sums
}

fn of_code(rows: &[CodeCost]) -> (u64, [u64; 4], [f64; 2]) {
    totals(rows.iter().map(|row| (row.hits, &row.cost)))
}

/// Tables whose rows are the machine's own sums.
fn check_sums(result: &SystemResult) {
    let code = result.code.as_ref().unwrap();
    let (_, counts, times) = totals(result.areas.values().map(|cost| (0, cost)));
    for rows in [Some(&code.functions), code.addresses.as_ref()].into_iter().flatten() {
        let (hits, by_code, times_by_code) = of_code(rows);
        assert_eq!(hits + by_code[0], result.accesses);
        assert_eq!(by_code, counts);
        let latency = result.latency_ns.as_ref().unwrap().mean * result.accesses as f64;
        assert!(times_by_code[0] <= latency * (1.0 + 1e-9));
        for (one, other) in times.iter().zip(times_by_code) {
            let apart = (one - other).abs();
            assert!(apart <= one * 1e-9 + 1e-6, "{times:?} and {times_by_code:?}");
        }
        // No picosecond of a thread is told twice.
        let times_of_threads = &result.time_breakdown_ns;
        let not_busy = times_of_threads.values().sum::<f64>() - times_of_threads["busy"];
        let begun_before = result.skipped.is_some();
        assert!(begun_before || times_by_code[1] <= not_busy * (1.0 + 1e-9) + 1e-6, "{result:?}");
    }
}

/// Puts sites before operations, of numbers that follow from `salt`; some are of no site.
fn with_sites(threads: &[Vec<Op>], salt: u32) -> Vec<Vec<Op>> {
    let mut random = salt | 1;
    let mut next = || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        random >> 8
    };
    let mut sited = Vec::new();
    for ops in threads {
        let mut out = Vec::new();
        let mut at = 0;
        while at < ops.len() {
            if next() % 3 > 0 {
                let number = next() % (FUNCTIONS * INSTRUCTIONS + 4);
                out.push(Op::site(if number == 0 { SiteId::MAX } else { number }));
            }
            let call = ops[at].kind_code() == OpKind::Call as u8;
            let end = at + 1 + if call { usize::from(ops[at].size()) } else { 0 };
            out.extend_from_slice(&ops[at..end]);
            at = end;
        }
        out.push(Op::site(OTHER_SITES));
        sited.push(out);
    }
    sited
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn sites_change_no_figure_and_their_sums_are_the_machines(
        threads in prop::collection::vec(prop::collection::vec(doing(), 1..200), 1..6),
        salt: u32,
    ) {
        let script = script(&threads, false);
        let with = with_sites(&script, salt);
        for name in ALL {
            let spec = tight(name);
            let plain = run(&spec, Script::stream(&script), &RunOptions::default());
            let unasked = run(&spec, sited(&with), &RunOptions::default());
            prop_assert_eq!(&unasked, &plain, "{}: sites that nobody asked for", name);
            let mut told = run(&spec, sited(&with), &by(SiteGrain::Address));
            check_sums(&told);
            let few = RunOptions { batch_limit: 1, ..by(SiteGrain::Address) };
            prop_assert_eq!(&run(&spec, sited(&with), &few), &told, "{}: batches of one", name);
            let functions = run(&spec, sited(&with), &by(SiteGrain::Function));
            let code = told.code.take().unwrap();
            prop_assert_eq!(functions.code.unwrap().functions, code.functions);
            prop_assert_eq!(&told, &plain, "{}: sites that were asked for", name);
        }
    }
}

/// Numbers of the first instruction of two functions.
const STREAMS: SiteId = 2;
const CHASES: SiteId = 2 + INSTRUCTIONS;

/// One function goes over a small array again and again, the other follows pointers far apart.
fn two_functions() -> Vec<Op> {
    let mut ops = Vec::new();
    for round in 0..200u64 {
        ops.push(Op::site(STREAMS));
        ops.extend((0..100u64).map(|i| Op::load(ANONYMOUS + 8 * i, 8, 3)));
        ops.push(Op::site(CHASES));
        let far = (1 << 42) + round * 12_345 * 64 % (32 << 20);
        ops.push(Op::load(far, 8, 3).with_flags(FLAG_DEPENDENT));
    }
    ops
}

#[test]
fn the_function_that_misses_is_told_apart_from_the_one_that_hits() {
    // Without the first faults, whose kernel paths find the machine cold.
    let options = RunOptions { start: Some(Bound::Accesses(101)), ..by(SiteGrain::Function) };
    let result = run(&tight("hybrid/quick"), sited(&[two_functions()]), &options);
    check_sums(&result);
    let code = result.code.unwrap();
    assert_eq!(code.addresses, None);
    let [chases, streams] = &code.functions[..] else { panic!("{:?}", code.functions) };
    assert_eq!((chases.function.as_str(), streams.function.as_str()), ("f1", "f0"));
    assert_eq!((chases.address, chases.file.as_str()), (0x100, "app"));
    // What is under way as the region begins is counted in it.
    let (of_chases, of_streams) =
        (chases.hits + chases.cost.accesses, streams.hits + streams.cost.accesses);
    assert_eq!(of_chases + of_streams, 199 * 101);
    assert!((199..=200).contains(&of_chases), "{of_chases}");
    assert!(chases.cost.memory_reads >= 190 && streams.cost.memory_reads <= 40);
    let ratio = chases.cost.stall_ns / streams.cost.stall_ns;
    assert!(ratio > 20.0, "{ratio}: {code:?}");
}

#[test]
fn what_precedes_the_region_is_not_told() {
    let options = RunOptions { start: Some(Bound::Accesses(10_000)), ..by(SiteGrain::Address) };
    let result = run(&tight("hybrid/quick"), sited(&[two_functions()]), &options);
    assert_eq!(result.accesses + result.skipped.unwrap().accesses, 200 * 101);
    check_sums(&result);
    assert_eq!(result.code.unwrap().addresses.unwrap().len(), 2);
}

#[test]
fn a_workload_that_tells_less_than_is_asked_for_is_refused() {
    let plain = Script::stream(&[Vec::new()]);
    assert_eq!(check_sites(&*plain, None), Ok(()));
    let why = check_sites(&*plain, Some(SiteGrain::Function)).unwrap_err();
    assert!(why.contains("run a program, as -- PROGRAM ARGS"), "{why}");
    let table = Arc::new(SiteTable::new(SiteGrain::Function));
    let functions = Script::sited(&[Vec::new()], table);
    assert_eq!(check_sites(&*functions, Some(SiteGrain::Function)), Ok(()));
    let why = check_sites(&*functions, Some(SiteGrain::Address)).unwrap_err();
    assert!(why.contains("record it again with --by address"), "{why}");
}
