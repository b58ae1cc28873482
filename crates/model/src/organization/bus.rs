//! What DRAM and store share: a bus, whose bandwidth is one resource in time, or a module, which the store has for
//! itself while the DRAM refreshes.
//!
//! The store goes first: what it has to move goes as soon as the bursts have left the bus that the DRAM has
//! begun, and the DRAM begins none until the store has done (\[HAMS21\] §IV-C: the lock register is set
//! when data are ready to move, and accesses to the module wait until it is cleared).

use crate::request::{Device, Tie};

/// Before the store does something at `now_ps`: it is told until when the DRAM has the bus, or of its refreshes.
#[inline]
pub(crate) fn pass_to_store<D: Device, S: Device>(
    now_ps: u64,
    tie: Option<Tie>,
    dram: &mut D,
    store: &mut S,
) {
    match tie {
        None => {}
        Some(Tie::Bus(channel)) => {
            let until_ps = dram.bus_free_ps(now_ps, channel);
            store.keep_off_bus(now_ps, until_ps, channel);
        }
        Some(Tie::Refreshes(channel)) => store.tell_refreshes(dram.refreshes(now_ps, channel)),
    }
}

/// After that: the DRAM is told until when the store has it.
#[inline]
pub(crate) fn pass_to_dram<D: Device, S: Device>(
    now_ps: u64,
    tie: Option<Tie>,
    dram: &mut D,
    store: &mut S,
) {
    if let Some(Tie::Bus(channel)) = tie {
        let until_ps = store.bus_free_ps(now_ps, channel);
        if until_ps > now_ps {
            dram.keep_off_bus(now_ps, until_ps, channel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{organization_laws, page_organization_laws};
    use crate::link::{DdrChannelLink, DdrChannelSpec, Direction, Kind, Link, Message};
    use crate::medium::DramSpec;
    use crate::medium::dram::checker::Checker;
    use crate::medium::dram::{Dram, standard};
    use crate::organization::hybrid::tests::behind as hybrid_behind;
    use crate::organization::storage::tests::behind as storage_behind;
    use crate::request::{Completion, Full, Request};
    use proptest::prelude::*;
    use tierscope_units::{Duration, TransferRate};

    const CAPACITY: u64 = 8 << 30;

    fn dram_spec() -> DramSpec {
        DramSpec {
            mapping: "ro-ra-ba-co-bg-ch".into(),
            controller_latency: Duration::from_picoseconds(0),
            ..DramSpec::of_part("ddr4-2133-8gb-x8", 1)
        }
    }

    fn link_spec() -> DdrChannelSpec {
        DdrChannelSpec {
            channel: 0,
            data_rate: TransferRate::from_transfers_per_second(2_133_333_333),
            bus_bits: 64,
            hand_over: Duration::from_picoseconds(1_875),
            lock_latency: Duration::from_picoseconds(5_000),
            energy: None,
        }
    }

    /// A device that moves what it is asked for at once, as soon as it has the bus; what it moved, and
    /// when.
    #[derive(Clone)]
    struct Mover {
        link: DdrChannelLink,
        moved: Vec<(u64, u64)>,
    }

    impl Mover {
        fn new() -> Self {
            Mover { link: DdrChannelLink::new(&link_spec()), moved: Vec::new() }
        }
    }

    impl Device for Mover {
        fn submit(&mut self, now_ps: u64, request: Request) -> Result<(), Full> {
            let message = Message::new(Kind::Data, u64::from(request.bytes));
            self.moved.push(self.link.transfer(now_ps, message, Direction::Down));
            Ok(())
        }

        fn next_event_ps(&self) -> Option<u64> {
            None
        }

        fn advance(&mut self, _: u64, _: &mut Vec<Completion>) {}

        fn in_flight(&self) -> usize {
            0
        }

        fn bus_free_ps(&mut self, _: u64, _: usize) -> u64 {
            self.link.free_ps(Direction::Down)
        }

        fn keep_off_bus(&mut self, _: u64, until_ps: u64, _: usize) {
            self.link.keep_off(until_ps);
        }
    }

    fn line(id: u32, number: u64, write: bool) -> Request {
        Request { id, address: number * 64, bytes: 64, write, background: false }
    }

    fn ask(now_ps: u64, dram: &mut Dram, mover: &mut Mover, bytes: u32) {
        pass_to_store(now_ps, Some(Tie::Bus(0)), dram, mover);
        let request = Request { id: 0, address: 0, bytes, write: false, background: false };
        mover.submit(now_ps, request).unwrap();
        pass_to_dram(now_ps, Some(Tie::Bus(0)), dram, mover);
    }

    /// When bursts are on the bus, by the commands of the log.
    fn bursts(dram: &mut Dram) -> Vec<(u64, u64)> {
        let log = dram.take_log(0, true);
        let d = dram.description().clone();
        let mut checker = Checker::new(&d);
        let mut all = Vec::new();
        for logged in log {
            checker.check(logged).unwrap_or_else(|fault| panic!("{fault}"));
            if logged.command.is_column() {
                let write = matches!(
                    logged.command,
                    standard::Command::Write | standard::Command::WritePrecharge
                );
                let first = logged.clock + if write { d.timings.cwl } else { d.timings.cl };
                let ps = |clock| d.clock.cycles_to_ps(clock);
                all.push((ps(first), ps(first + d.timings.burst)));
            }
        }
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_bus_has_one_user_at_a_time_and_the_dram_keeps_its_protocol(
            script in proptest::collection::vec(
                (0..40_000u64, 0..4_096u64, any::<bool>(), prop_oneof![4 => Just(0u32), 1 => 1..5_000u32]),
                1..300,
            ),
        ) {
            let mut dram = Dram::new(&dram_spec(), CAPACITY, 64);
            dram.start_log();
            let (mut mover, mut now_ps, mut out) = (Mover::new(), 0, Vec::new());
            for (id, (gap_ps, number, write, moves)) in (0..).zip(script) {
                now_ps += gap_ps;
                dram.advance(now_ps, &mut out);
                if moves > 0 {
                    ask(now_ps, &mut dram, &mut mover, moves);
                }
                let _ = dram.submit(now_ps, line(id, number * 129, write));
            }
            dram.advance(u64::MAX / 4, &mut out);
            prop_assert_eq!(dram.in_flight(), 0);
            let mut users: Vec<(u64, u64)> = bursts(&mut dram);
            users.extend(&mover.moved);
            users.sort_unstable();
            for pair in users.windows(2) {
                prop_assert!(pair[0].1 <= pair[1].0, "{:?}", pair);
            }
        }
    }

    #[test]
    fn an_idle_bus_is_had_at_once_and_a_busy_one_after_the_bursts_that_were_begun() {
        let mut dram = Dram::new(&dram_spec(), CAPACITY, 64);
        let mut mover = Mover::new();
        ask(5_000, &mut dram, &mut mover, 4096);
        // 4 KiB at 17.07 GB/s are 240 ns; two hand-overs and the lock, set and cleared, 13.75 ns.
        let (start_ps, end_ps) = mover.moved[0];
        assert_eq!(start_ps, 5_000);
        assert!((end_ps - start_ps).abs_diff(240_000 + 13_750) < 100, "{}", end_ps - start_ps);
        // A read that comes meanwhile has its data four clocks of a burst after the bus is free, and tRTRS.
        let mut out = Vec::new();
        dram.submit(6_000, line(0, 0, false)).unwrap();
        dram.advance(u64::MAX / 4, &mut out);
        let clocks = |clocks: u64| dram.description().clock.cycles_to_ps(clocks);
        let late_ps = out[0].at_ps - end_ps;
        assert!((clocks(5)..=clocks(6)).contains(&late_ps), "{late_ps}");
        // The device that comes while that read is under way waits for its burst, and the two clocks that
        // a write would wait for behind it.
        let mut dram = Dram::new(&dram_spec(), CAPACITY, 64);
        let (mut mover, mut out) = (Mover::new(), Vec::new());
        dram.submit(0, line(0, 0, false)).unwrap();
        dram.advance(20_000, &mut out);
        ask(20_000, &mut dram, &mut mover, 64);
        dram.advance(u64::MAX / 4, &mut out);
        assert_eq!(mover.moved[0].0, out[0].at_ps + dram.description().clock.cycles_to_ps(2));
    }

    #[test]
    fn what_the_device_takes_of_the_time_a_stream_of_reads_loses() {
        let spec = DramSpec {
            t_refi: Some(Duration::from_picoseconds(1 << 55)),
            read_queue_depth: 4096,
            ..dram_spec()
        };
        let bandwidth = |every_ps: u64| {
            let mut dram = Dram::new(&spec, CAPACITY, 64);
            let (mut mover, mut out, mut number) = (Mover::new(), Vec::new(), 0u64);
            let (end_ps, step_ps) = (200_000_000, 500_000);
            for now_ps in (0..end_ps).step_by(step_ps) {
                dram.advance(now_ps, &mut out);
                while dram.submit(now_ps, line(number as u32, number, false)).is_ok() {
                    number += 1;
                }
                if every_ps > 0 && now_ps % every_ps == 0 {
                    ask(now_ps, &mut dram, &mut mover, 4096);
                }
            }
            dram.advance(end_ps, &mut out);
            let busy_ps: u64 = mover.moved.iter().map(|(from, to)| to - from).sum();
            let bytes = out.iter().filter(|done| done.at_ps <= end_ps).count() as f64 * 64.0;
            (bytes / end_ps as f64, busy_ps as f64 / end_ps as f64, mover.moved.len())
        };
        let (alone, ..) = bandwidth(0);
        for every_ps in [1_000_000, 2_000_000, 500_000] {
            let (found, share, count) = bandwidth(every_ps);
            // Each time the pipeline from command to data runs empty and is filled again: tCL and tRTRS at
            // most, some of it under the device's transfer.
            let refill = count as f64 * 25_000.0 / 200_000_000.0;
            let (most, least) = (alone * (1.0 - share), alone * (1.0 - share - refill));
            assert!(
                (least..=most * 1.001).contains(&found),
                "{every_ps}: {found} of {alone}, {share}"
            );
        }
    }

    #[test]
    fn the_organizations_laws_hold_where_the_store_shares_a_channel() {
        for spec in [link_spec(), DdrChannelSpec { bus_bits: 8, ..link_spec() }] {
            organization_laws(|check_data| hybrid_behind(&spec, check_data));
            organization_laws(|check_data| storage_behind(&spec, check_data));
            page_organization_laws(|check_data| storage_behind(&spec, check_data));
        }
    }
}
