//! Timing against closed formulas, conservation, and what pausing and levelling do.

mod formulas;
mod preemption;

use super::*;
use tierscope_units::{Duration, Size, TransferRate};

/// A line of 64 bytes every 5 ns over the bus; a row of four lines in 50 ns, a column in 10, a pulse of
/// 160 ns.
pub(crate) fn array() -> NvmArraySpec {
    let ns = |n: u64| Duration::from_picoseconds(n * 1000);
    NvmArraySpec {
        line: Size::from_bytes(64),
        channels: 1,
        banks: 4,
        row: Size::from_bytes(256),
        row_buffers: 1,
        channel_interleave: Size::from_bytes(64),
        bank_interleave: Size::from_bytes(256),
        read_latency: ns(50),
        column_latency: ns(10),
        write_latency: ns(160),
        preemption: Preemption::None,
        write_iterations: None,
        cancel_below: None,
        bus_rate: TransferRate::from_transfers_per_second(1_600_000_000),
        bus_bits: 64,
        read_queue_depth: 8,
        write_queue_depth: 8,
        write_high: 6,
        write_low: 2,
    }
}

pub(crate) fn no_levelling() -> NvmWearSpec {
    NvmWearSpec { endurance: 100_000_000, gap_interval: 0, randomized: false }
}

/// A memory of 1 MiB.
fn memory(spec: &NvmArraySpec) -> NvmArray {
    NvmArray::new(spec, &no_levelling(), None, 1 << 20)
}

fn access(token: u32, line: u64, write: bool) -> LineAccess {
    LineAccess { token, line, write, background: false }
}

/// What is done when, of accesses that come at given times: token and time, in order of tokens.
fn play(memory: &mut NvmArray, script: &[(u64, LineAccess)]) -> Vec<LineDone> {
    let mut out = Vec::new();
    for &(at_ps, access) in script {
        memory.advance(at_ps, &mut out);
        memory.submit(at_ps, access);
    }
    memory.advance(u64::MAX, &mut out);
    assert_eq!((memory.in_flight(), memory.waiting_writes()), (0, 0));
    assert!(out.is_sorted_by_key(|done| done.at_ps));
    out.sort_by_key(|done| done.token);
    out
}
