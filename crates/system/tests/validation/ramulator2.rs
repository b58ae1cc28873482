//! Rung 6: DRAM against reference runs of Ramulator 2.1 (CMU-SAFARI/ramulator2 at c5b1c3a), whose figures
//! are committed here. `docs/models/dram.md` says how they were made, and why what differs differs.
//!
//! Every figure has a bound on both sides: a difference that is explained there is asserted, so that
//! it cannot close or grow unnoticed.

use super::dramsim3::{DDR4, described_with, ours};
use std::ops::RangeInclusive;
use tierscope_workload::requests::Pattern;

/// A reference run of 200,000 reads that come one by one.
struct Reference {
    pattern: Pattern,
    /// Clocks from a request to the next; 0 where all come at once.
    gap: u64,
    /// Requests that found no row open, and another one: each needs an activate.
    activates: u64,
    /// Refreshes that it gave.
    refreshes: u64,
    /// Its mean latency of reads from the queue on, in clocks; where all come at once, its clocks.
    clocks: f64,
    /// What ours is of theirs: activates, refreshes, and clocks.
    ours: [RangeInclusive<f64>; 3],
}

const REFERENCES: [Reference; 5] = [
    Reference {
        pattern: Pattern::Random,
        gap: 10,
        activates: 196_934 + 3_037,
        refreshes: 213,
        clocks: 105.501,
        ours: [1.0..=1.005, 1.0..=1.0, 1.0..=1.02],
    },
    Reference {
        pattern: Pattern::Sequential,
        gap: 10,
        activates: 1_774,
        refreshes: 213,
        clocks: 47.483,
        ours: [0.99..=1.0, 1.0..=1.0, 0.97..=0.985],
    },
    Reference {
        pattern: Pattern::Sequential,
        gap: 6,
        activates: 1_693,
        refreshes: 129,
        clocks: 81.219,
        ours: [0.99..=1.0, 0.99..=1.0, 1.09..=1.13],
    },
    Reference {
        pattern: Pattern::Random,
        gap: 0,
        activates: 198_927 + 926,
        refreshes: 147,
        clocks: 1_385_836.0,
        ours: [1.0..=1.005, 0.99..=1.0, 0.98..=1.0],
    },
    Reference {
        pattern: Pattern::Sequential,
        gap: 0,
        activates: 1_477 + 258,
        refreshes: 92,
        clocks: 865_222.0,
        ours: [0.99..=1.0, 1.0..=1.03, 1.02..=1.035],
    },
];

#[test]
fn reads_take_what_ramulator_2_says() {
    // Its refresh of 8 Gb takes 360 ns.
    let spec = described_with(DDR4, &[("dram.t_rfc", "360ns")]);
    let (period_ps, of) = spec.dram_clock().unwrap().period();
    let period_ns = period_ps as f64 / of as f64 * 1e-3;
    for it in REFERENCES {
        let found = ours(&spec, it.pattern, it.gap);
        let device = found.device.as_ref().unwrap();
        // It counts from the queue on, and does not take a request while that is full.
        let door_ns = found.stages_ns.get("host_queue").copied().unwrap_or(0.0);
        let latency_ns = device.read_latency_ns.as_ref().unwrap().mean - door_ns;
        let ns = if it.gap > 0 { latency_ns } else { found.time_s * 1e9 };
        let ratios = [
            device.activates as f64 / it.activates as f64,
            device.refreshes as f64 / it.refreshes as f64,
            ns / period_ns / it.clocks,
        ];
        for (ratio, bounds) in ratios.iter().zip(&it.ours) {
            let name = format!("{:?} every {} clocks", it.pattern, it.gap);
            assert!(bounds.contains(ratio), "{name}: {ratios:?} of theirs, not {:?}", it.ours);
        }
    }
}
