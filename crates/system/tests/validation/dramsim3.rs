//! Rung 6: DRAM against reference runs of DRAMsim3 (umd-memsys/DRAMsim3 at 2981759), whose figures
//! are committed here. `docs/models/dram.md` says how they were made, and why what differs differs.
//!
//! Every figure has a bound on both sides: a difference that is explained there is asserted, so that
//! it cannot close or grow unnoticed.

use super::support::Sets;
use std::ops::RangeInclusive;
use std::sync::atomic::AtomicBool;
use tierscope_model::medium::DramSpec;
use tierscope_system::alone::Requests;
use tierscope_system::result::SystemResult;
use tierscope_system::run::{RunOptions, run_alone};
use tierscope_system::spec::{self, SystemSpec};
use tierscope_workload::requests::{Pattern, Patterned};

/// What both were given: 200,000 requests within 1 GiB, seed 1.
const COUNT: u64 = 200_000;

/// A reference run of requests that come one by one.
struct Reference {
    device: &'static str,
    pattern: Pattern,
    /// Clocks from a request to the next.
    gap: u64,
    /// Activates that DRAMsim3 gave.
    activates: u64,
    /// Refreshes that it gave.
    refreshes: u64,
    /// Its mean latency of reads, in clocks.
    read_latency_clocks: f64,
    /// Its mean power, in milliwatts, and what ours is of it without the word lines' pump: first with
    /// the standby of a rank that has a row open, as it counts, then with that of each open bank.
    /// Nothing where its currents are of another part.
    power_mw: Option<(f64, [RangeInclusive<f64>; 2])>,
    /// What ours is of theirs: activates, latency of reads.
    ours: [RangeInclusive<f64>; 2],
}

pub const DDR4: &str = "device/ddr4-2400";
const DDR3: &str = "device/ddr3-1333";

/// The same commands, a clock or two less.
const REFERENCES: [Reference; 8] = [
    Reference {
        device: DDR4,
        pattern: Pattern::Random,
        gap: 10,
        activates: 200_326,
        refreshes: 213,
        read_latency_clocks: 106.557,
        power_mw: Some((1267.295, [0.999..=1.001, 1.23..=1.25])),
        ours: [0.999..=1.001, 0.975..=0.99],
    },
    Reference {
        device: DDR4,
        pattern: Pattern::Sequential,
        gap: 10,
        activates: 1_763,
        refreshes: 213,
        read_latency_clocks: 46.545,
        power_mw: Some((854.610, [0.999..=1.001, 0.93..=0.94])),
        ours: [1.0..=1.0, 0.965..=0.98],
    },
    Reference {
        device: DDR4,
        pattern: Pattern::Sequential,
        gap: 6,
        activates: 1_691,
        refreshes: 128,
        read_latency_clocks: 93.263,
        power_mw: Some((1092.365, [0.999..=1.001, 0.96..=0.97])),
        ours: [1.0..=1.0, 0.985..=1.0],
    },
    Reference {
        device: DDR4,
        pattern: Pattern::Zipf,
        gap: 10,
        activates: 186_674,
        refreshes: 213,
        read_latency_clocks: 128.545,
        power_mw: Some((1206.389, [1.0..=1.01, 1.22..=1.24])),
        ours: [0.999..=1.002, 0.975..=0.99],
    },
    Reference {
        device: DDR3,
        pattern: Pattern::Random,
        gap: 10,
        activates: 200_336,
        refreshes: 384,
        read_latency_clocks: 48.486,
        power_mw: None,
        ours: [0.999..=1.001, 0.965..=0.98],
    },
    Reference {
        device: DDR3,
        pattern: Pattern::Sequential,
        gap: 10,
        activates: 1_923,
        refreshes: 384,
        read_latency_clocks: 16.673,
        power_mw: None,
        ours: [1.0..=1.0, 0.925..=0.945],
    },
    Reference {
        device: DDR3,
        pattern: Pattern::Sequential,
        gap: 6,
        activates: 1_789,
        refreshes: 230,
        read_latency_clocks: 18.103,
        power_mw: None,
        ours: [1.0..=1.0, 0.92..=0.94],
    },
    Reference {
        device: DDR3,
        pattern: Pattern::Zipf,
        gap: 10,
        activates: 192_406,
        refreshes: 384,
        read_latency_clocks: 61.580,
        power_mw: None,
        ours: [0.999..=1.003, 0.995..=1.01],
    },
];

/// Requests that all come at once: pattern, bytes a second that DRAMsim3 read, what ours are of them.
const AT_ONCE: [(&str, Pattern, f64, RangeInclusive<f64>); 4] = [
    (DDR4, Pattern::Random, 11.18e9, 0.99..=1.02),
    (DDR4, Pattern::Sequential, 15.02e9, 1.14..=1.17),
    (DDR3, Pattern::Random, 8.05e9, 1.01..=1.04),
    (DDR3, Pattern::Sequential, 10.45e9, 0.99..=1.01),
];

/// The device as DRAMsim3's description has it: one rank; columns next to the line.
fn described(device: &str) -> SystemSpec {
    // Of a part of 1 Gb instead of 2.
    let of_1_gb: Sets<'_> = &[("dram.t_rfc", "111ns")];
    described_with(device, if device == DDR3 { of_1_gb } else { &[] })
}

/// The same with further changes.
pub fn described_with(device: &str, changes: Sets<'_>) -> SystemSpec {
    let mapping = [("dram.mapping", "ro-ra-ba-bg-co-ch")];
    let sets = mapping.iter().chain(changes);
    let sets: Vec<_> = sets.map(|(a, b)| (a.to_string(), b.to_string())).collect();
    spec::load(device, &sets).unwrap().spec
}

pub fn ours(spec: &SystemSpec, pattern: Pattern, gap: u64) -> SystemResult {
    let writes = if pattern == Pattern::Zipf { 30 } else { 0 };
    let source = Box::new(Patterned::new(pattern, COUNT, 1 << 30, gap, writes, 1));
    let requests = Requests { source, clock: None, outstanding: None };
    let never = AtomicBool::new(false);
    let options = RunOptions::default();
    let mut ended = run_alone(std::slice::from_ref(spec), vec![requests], &options, &(), &never);
    assert_eq!(ended[0].partial_reason, None);
    ended.remove(0).result
}

/// Mean power of the chips without the word lines' pump, in milliwatts.
fn power_mw(found: &SystemResult) -> f64 {
    let parts = found.energy.parts_j.iter();
    let counted =
        parts.filter(|(name, _)| name.starts_with("dram.") && name.as_str() != "dram.pump");
    let without_pump_j: f64 = counted.map(|(_, energy_j)| energy_j).sum();
    without_pump_j / found.time_s * 1e3
}

#[test]
fn requests_one_by_one_take_what_dramsim3_says() {
    for it in REFERENCES {
        let spec = described(it.device);
        let found = ours(&spec, it.pattern, it.gap);
        let device = found.device.as_ref().unwrap();
        let (period_ps, of) = spec.dram_clock().unwrap().period();
        let period_ns = period_ps as f64 / of as f64 * 1e-3;
        let name = format!("{} {:?} every {} clocks", it.device, it.pattern, it.gap);
        let ratios = [
            device.activates as f64 / it.activates as f64,
            device.read_latency_ns.as_ref().unwrap().mean / (it.read_latency_clocks * period_ns),
        ];
        for (ratio, bounds) in ratios.iter().zip(&it.ours) {
            assert!(bounds.contains(ratio), "{name}: {ratios:?} of theirs, not {:?}", it.ours);
        }
        if let Some((theirs_mw, bounds)) = it.power_mw {
            let by_rank = DramSpec { shared_standby: Some(1.0), ..spec.dram.clone().unwrap() };
            let by_rank =
                ours(&SystemSpec { dram: Some(by_rank), ..spec.clone() }, it.pattern, it.gap);
            for (found, bounds) in [&by_rank, &found].into_iter().zip(bounds) {
                let ratio = power_mw(found) / theirs_mw;
                assert!(bounds.contains(&ratio), "{name}: {ratio} of their power");
            }
        }
        assert!(device.refreshes.abs_diff(it.refreshes) <= 1, "{name}: {}", device.refreshes);
    }
}

#[test]
fn requests_all_at_once_move_what_dramsim3_says() {
    for (device, pattern, bytes_per_s, bounds) in AT_ONCE {
        let found = ours(&described(device), pattern, 0);
        let ratio = found.device.unwrap().bytes_per_s / bytes_per_s;
        assert!(bounds.contains(&ratio), "{device} {pattern:?}: {ratio} of theirs");
    }
}
