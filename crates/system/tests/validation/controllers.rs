//! Machines with several memory controllers, each with DRAM and a store.

use super::sensitivity::together;
use crate::common::{ANONYMOUS, Script};
use std::sync::atomic::AtomicBool;
use tierscope_system::result::SystemResult;
use tierscope_system::run::{Bound, RunOptions, Warming, run_machines};
use tierscope_system::spec::{SystemSpec, load};
use tierscope_workload::Op;

fn try_system(name: &str, sets: &[(&str, &str)]) -> Result<SystemSpec, String> {
    let sets: Vec<_> = sets.iter().map(|(path, to)| (path.to_string(), to.to_string())).collect();
    load(name, &sets).map(|found| found.spec).map_err(|problems| problems.to_string())
}

fn system(name: &str, sets: &[(&str, &str)]) -> SystemSpec {
    try_system(name, sets).unwrap()
}

const TWO: (&str, &str) = ("controllers", "{ count = 2, interleave = \"4KiB\" }");
/// So little DRAM that pages come and go.
const TIGHT: [(&str, &str); 4] = [
    ("processor.caches.L3.capacity", "320KiB"),
    ("hybrid.cache.capacity", "1MiB"),
    ("hybrid.prefetch_pages", "0"),
    TWO,
];

fn mixed(number: u64) -> u64 {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) * 64
}

/// Reads and writes of 8 MiB by so many threads.
fn anywhere(threads: u64, count: u64) -> Vec<Vec<Op>> {
    let op = |number: u64| {
        let address = ANONYMOUS + mixed(number) % (8 << 20);
        if number.is_multiple_of(3) { Op::store(address, 8, 4) } else { Op::load(address, 8, 4) }
    };
    let of_thread = |thread| (0..count).map(|i| op(thread * count + i)).collect();
    together((0..threads).map(of_thread).collect())
}

fn run(spec: &SystemSpec, threads: &[Vec<Op>], options: &RunOptions) -> SystemResult {
    let stop = AtomicBool::new(false);
    let streams = vec![Script::stream(threads)];
    let mut outcomes = run_machines(std::slice::from_ref(spec), streams, options, &(), &stop);
    let outcome = outcomes.remove(0);
    assert_eq!(outcome.partial_reason, None);
    outcome.result
}

#[test]
fn each_controller_has_memory_as_the_tables_say() {
    for name in
        ["oracle/quick", "hybrid/quick", "hams-le/quick", "flatflash-m/quick", "optane-p/quick"]
    {
        let memory = |sets| system(name, sets).build_organization().unwrap().memory_bytes();
        let one = memory(&[]);
        let two = memory(&[TWO]);
        assert!(two <= 2 * one && two > 2 * one - (8 << 10), "{name}: {one}, {two}");
    }
}

/// With data checked, in detail and warmed functionally first.
#[test]
fn what_is_written_is_read_whichever_controller_has_it() {
    let ops = anywhere(4, 20_000);
    let checked =
        system("hybrid/quick", &[TIGHT[0], TIGHT[1], TIGHT[2], TWO, ("check_data", "true")]);
    let result = run(&checked, &ops, &RunOptions::default());
    assert!(result.counters["dram_cache_misses"] > 1_000, "pages come and go");
    assert!(result.store_bytes.written > 0);
    let warm = RunOptions {
        start: Some(Bound::Accesses(40_000)),
        warming: Warming::Functional,
        ..RunOptions::default()
    };
    let warmed = run(&system("hybrid/quick", &TIGHT), &ops, &warm);
    assert!(warmed.counters["dram_cache_misses"] > 500);
}

/// What one channel of DRAM is too slow for takes half the time with two controllers of a channel each, and no
/// longer with two than with two channels of one by more than their imbalance.
#[test]
fn two_controllers_carry_twice_as_much() {
    let ops = anywhere(4, 30_000);
    let with = |more: &[(&str, &str)]| {
        let slow = ("processor.caches.L3.capacity", "320KiB");
        let sets = [&[slow, ("dram.channels", "1"), ("dram.banks", "1")], more].concat();
        run(&system("oracle/quick", &sets), &ops, &RunOptions::default())
    };
    let (one, two) = (with(&[]), with(&[("controllers", "{ count = 2, interleave = \"64B\" }")]));
    let ratio = one.time_s / two.time_s;
    assert!((1.5..2.1).contains(&ratio), "{ratio}");
    // The same lines, whoever has them, but for what threads ask for again that others took from them, and for what a
    // fault touches where two threads meet in one.
    let of = |result: &SystemResult| {
        [result.dram_bytes.read, result.dram_bytes.written].map(|bytes| bytes as f64)
    };
    for (one, two) in of(&one).into_iter().zip(of(&two)) {
        assert!((0.95..1.05).contains(&(one / two)), "{one}, {two}");
    }
}

#[test]
fn what_has_one_controller_says_so() {
    for (name, why) in [
        ("storage/quick", "the operating system pages between one DRAM and one store"),
        ("device/ddr4-2400", "a device alone has none"),
        ("device/z-ssd", "a device alone has none"),
    ] {
        let said = try_system(name, &[TWO]).unwrap_err();
        assert!(said.contains("controllers") && said.contains(why), "{said}");
    }
    let odd =
        try_system("oracle/quick", &[("controllers", "{ count = 2, interleave = \"48KiB\" }")]);
    assert!(odd.unwrap_err().contains("a power of two"));
    let large = try_system(
        "oracle/quick",
        &[("controllers", "{ count = 2, interleave = \"4GiB\" }"), ("oracle.capacity", "3GiB")],
    );
    assert!(large.unwrap_err().contains("not a whole number of these"));
}
