//! A second opinion: every command of a random run, checked against the timing rules pair by pair,
//! by a checker that knows nothing of how they were booked.

use super::mapping::Place;
use super::tests::{CAPACITY, spec};
use super::*;
use proptest::prelude::*;
use tierscope_units::Duration;

/// What a channel has booked.
#[derive(Clone, Copy, Debug)]
pub enum Command {
    /// A refresh of a rank, from `at` for tRFC.
    Refresh { rank: u32, at: u64 },
    /// A run: precharge and activate where `opening` clocks are needed before the first column
    /// command, the first command at `first`, data on the bus from `data` to `end`.
    Access { place: Place, write: bool, first: u64, opening: u64, data: u64, end: u64 },
}

/// What the checker knows of a bank.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    row: Option<u64>,
    activated: u64,
    /// A row is closed since then, precharge included, or a refresh over.
    closed: u64,
    /// The last column command's burst is over on the command side.
    column_end: u64,
    /// The last write data have moved.
    write_end: u64,
}

impl Seen {
    fn assert_may_precharge(&self, spec: &DramSpec, at: u64) {
        assert!(at >= self.activated + u64::from(spec.t_ras), "tRAS: {self:?} at {at}");
        assert!(at >= self.column_end, "a precharge during a burst: {self:?} at {at}");
        let recovered = self.write_end + u64::from(spec.t_wr);
        assert!(self.write_end == 0 || at >= recovered, "tWR: {self:?} at {at}");
    }
}

/// Checks one channel's log: rows and refreshes of each bank in order, then the data bus.
fn check(spec: &DramSpec, log: &[Command]) {
    let period_ps = spec.clock_period.picoseconds();
    let t_rfc = spec.t_rfc.picoseconds().div_ceil(period_ps);
    let mut banks = vec![Seen::default(); (spec.ranks * spec.banks) as usize];
    let mut bus = Vec::new();
    for &command in log {
        match command {
            Command::Refresh { rank, at } => {
                let of_rank = (rank * spec.banks) as usize..((rank + 1) * spec.banks) as usize;
                for seen in &mut banks[of_rank] {
                    if seen.row.take().is_some() {
                        seen.assert_may_precharge(spec, at - u64::from(spec.t_rp));
                    }
                    assert!(at >= seen.closed, "a refresh of a busy bank: {seen:?} at {at}");
                    seen.closed = at + t_rfc;
                }
            }
            Command::Access { place, write, first, opening, data, end } => {
                let seen = &mut banks[(place.rank * spec.banks + place.bank) as usize];
                let column = data - u64::from(if write { spec.t_cwl } else { spec.t_cl });
                check_row(spec, seen, place.row, first, opening, column);
                assert!(column >= seen.column_end, "two column commands at once");
                let bursts_end = column + (end - data);
                seen.column_end = bursts_end;
                seen.write_end = if write { end } else { seen.write_end };
                bus.push((data, end, place.rank, write));
            }
        }
    }
    check_bus(spec, bus);
}

fn check_row(spec: &DramSpec, seen: &mut Seen, row: u64, first: u64, opening: u64, column: u64) {
    let [rcd, rp] = [spec.t_rcd, spec.t_rp].map(u64::from);
    match seen.row {
        Some(open) if open == row => {
            assert_eq!(opening, 0);
            assert!(column >= seen.activated + rcd, "tRCD: {seen:?} at {column}");
            return;
        }
        Some(_) => {
            assert_eq!(opening, rp + rcd);
            seen.assert_may_precharge(spec, first);
            seen.activated = first + rp;
        }
        None => {
            assert_eq!(opening, rcd);
            assert!(first >= seen.closed, "tRP or tRFC: {seen:?} at {first}");
            seen.activated = first;
        }
    }
    *seen = Seen { row: Some(row), activated: seen.activated, ..Seen::default() };
    assert!(column >= seen.activated + rcd, "tRCD: {seen:?} at {column}");
}

fn check_bus(spec: &DramSpec, mut bus: Vec<(u64, u64, u32, bool)>) {
    bus.sort_unstable();
    for pair in bus.windows(2) {
        let ((_, end, rank, write), (data, _, next_rank, next_write)) = (pair[0], pair[1]);
        let rest = match (write, next_write) {
            (true, false) if rank == next_rank => u64::from(spec.t_cl),
            (false, true) => 2,
            _ => 0,
        };
        assert!(data >= end + rest, "the bus: {pair:?}");
    }
}

/// Lines and pages on a few rows, demand and background.
fn requests() -> impl Strategy<Value = Vec<(u64, Request)>> {
    let gap_ps = prop_oneof![4 => Just(0), 4 => 0..100_000u64, 1 => 0..20_000_000u64];
    let bytes = prop_oneof![4 => Just(64u32), 1 => Just(4096u32)];
    let place = (0..64u64, 0..3u64).prop_map(|(low, high)| low * 64 + high * (32 << 10));
    let one = (gap_ps, place, bytes, any::<bool>(), prop::bool::weighted(0.2)).prop_map(
        |(gap_ps, address, bytes, write, background)| {
            let address = address / u64::from(bytes) * u64::from(bytes);
            (gap_ps, Request { id: 0, address, bytes, write, background })
        },
    );
    prop::collection::vec(one, 1..200)
}

fn described() -> impl Strategy<Value = DramSpec> {
    let times = (1..14u32, 1..14u32, 1..14u32, 0..20u32, 1..12u32, 0..12u32);
    (1..4u32, 1..3u32, 1..9u32, times, 1..40u64).prop_map(
        |(channels, ranks, banks, (t_cl, t_rcd, t_rp, more, t_cwl, t_wr), refi)| DramSpec {
            channels,
            ranks,
            banks,
            t_cl,
            t_rcd,
            t_rp,
            t_ras: t_rcd + more,
            t_cwl,
            t_wr,
            t_refi: Duration::from_picoseconds(200_000 * refi),
            ..spec()
        },
    )
}

proptest! {
    #[test]
    fn no_command_breaks_a_timing_rule(spec in described(), requests in requests()) {
        let mut dram = Dram::new(&spec, CAPACITY, 64);
        let mut out = Vec::new();
        let mut now_ps = 0;
        for (gap_ps, request) in requests {
            now_ps += gap_ps;
            dram.advance(now_ps, &mut out);
            while dram.submit(now_ps, request).is_err() {
                now_ps = dram.next_event_ps().expect("a full device has something to do");
                dram.advance(now_ps, &mut out);
            }
        }
        dram.advance(u64::MAX, &mut out);
        for channel in &dram.channels {
            check(&spec, channel.log());
        }
    }
}
