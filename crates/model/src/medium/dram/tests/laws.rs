//! Rung 3: the laws of devices, conservation, golden counts, and the edges of descriptions.

use super::*;
use crate::conformance::device_laws;
use crate::medium::RefreshPolicy;
use proptest::prelude::*;

/// A tenth of a second.
const TENTH_PS: u64 = 100_000_000_000;

#[test]
fn the_devices_laws_hold() {
    let small = |spec: DramSpec| Dram::new(&spec, 1 << 20, 64);
    device_laws(|| small(spec()));
    device_laws(|| small(DramSpec { controller_latency: ps(0), ..spec() }));
    let tight = DramSpec {
        channels: 4,
        read_queue_depth: 5,
        write_queue_depth: 4,
        write_high: 3,
        write_low: 1,
        ranks: 2,
        ..spec()
    };
    device_laws(|| small(tight.clone()));
    device_laws(|| small(DramSpec { channels: 3, banks: Some(3), ..spec() }));
    device_laws(|| small(closing()));
    let stacked = DramSpec {
        page_policy: PagePolicy::Timeout,
        row_timeout: Some(ps(60_000)),
        refresh: RefreshPolicy::PerBank,
        postponed_refreshes: 8,
        age_cap: ps(20_000),
        ..DramSpec::of_part("hbm3-6400-4gb", 2)
    };
    device_laws(|| small(stacked.clone()));
}

fn closing() -> DramSpec {
    DramSpec {
        page_policy: PagePolicy::Closed,
        refresh: RefreshPolicy::SameBank,
        postponed_refreshes: 2,
        power_down_after: Some(ps(50_000)),
        ..DramSpec::of_part("ddr5-4800-16gb-x8", 2)
    }
}

/// Of a read and a posted write that are answered at one instant the one that came first goes first,
/// whether or not the read's commands had been given when the write came.
#[test]
fn answers_of_one_instant_come_in_order_of_submission() {
    let new = || Dram::new(&spec(), CAPACITY, 64);
    let end_ps = run(new(), &[(0, read(0, 0))])[0].at_ps;
    let at_ps = end_ps - spec().controller_latency.picoseconds();
    for caught_up in [false, true] {
        let (mut dram, mut out) = (new(), Vec::new());
        dram.submit(0, read(0, 0)).unwrap();
        if caught_up {
            dram.catch_up(at_ps, 0);
        }
        dram.submit(at_ps, write(1, 64)).unwrap();
        dram.advance(u64::MAX, &mut out);
        let answers: Vec<_> = out.iter().map(|answer| (answer.id, answer.at_ps)).collect();
        assert_eq!(answers, [(0, end_ps), (1, end_ps)], "caught up: {caught_up}");
    }
}

/// The controller counts clocks from an epoch that it renews: where that happens while requests wait,
/// nothing shows of it.
#[test]
fn a_new_epoch_changes_nothing() {
    let spec = calm();
    let clock = Dram::new(&spec, CAPACITY, 64).description().clock;
    let burst: Vec<_> = random_lines(30).take(400).map(|(_, request)| request).collect();
    // The same thrice: rows are as the first left them, and in the last there is a new epoch.
    let starts = [1, candidates::EPOCH_CLOCKS / 2, candidates::EPOCH_CLOCKS - 500];
    let mut requests = Vec::new();
    for (start, (i, request)) in
        starts.iter().flat_map(|s| burst.iter().enumerate().map(move |r| (s, r)))
    {
        let id = requests.len() as u32;
        requests.push((clock.cycles_to_ps(start + i as u64 * 5), Request { id, ..*request }));
    }
    let answers = run(Dram::new(&spec, CAPACITY, 64), &requests);
    let block = |number: usize| {
        let start_ps = clock.cycles_to_ps(starts[number]);
        answers[number * burst.len()..]
            .iter()
            .take(burst.len())
            .map(move |answer| answer.at_ps - start_ps)
    };
    // Clocks are fractions of picoseconds.
    let same = |(one_ps, other_ps): (u64, u64)| one_ps.abs_diff(other_ps) <= 1;
    assert!(block(1).zip(block(2)).all(same));
}

/// Commands so far away that their keys do not tell them apart come in order all the same.
#[test]
fn a_refresh_of_a_million_times_the_usual_length_ends() {
    let answers = |rfc_ps: u64| {
        let second_ps = 1_000_000_000_000;
        let spec = DramSpec { t_refi: Some(ps(second_ps)), t_rfc: Some(ps(rfc_ps)), ..spec() };
        let way = ways(&spec);
        let first = (second_ps + 1_000_000, read(0, 0));
        let others = (1..4).map(|i| (first.0, read(i, u64::from(i) * way.next_bank)));
        let requests: Vec<_> = std::iter::once(first).chain(others).collect();
        run(Dram::new(&spec, CAPACITY, 64), &requests)
    };
    // Nine milliseconds, and sixty: beyond the keys. Both are whole clocks.
    let (near, far) = (answers(9_000_000_000), answers(60_000_000_000));
    for (near, far) in near.iter().zip(&far) {
        assert!((far.at_ps - near.at_ps).abs_diff(51_000_000_000) <= 1, "{near:?}, {far:?}");
    }
}

/// A write that is done must not be taken for the one that has its slot next, which the controller
/// has not seen: reads would turn to writes too soon.
#[test]
fn the_age_of_the_first_write_ends_with_it() {
    let request = |address, bytes, write| {
        let id = 0;
        Request { id, address, bytes, write, background: false }
    };
    let script = [
        (0, request(0, 64, true)),
        (0, request(4096, 4096, true)),
        (0, request(0, 4096, false)),
        (0, request(0, 16384, true)),
        (161_250, request(16384, 4096, false)),
    ];
    let commands = |every_event: bool| {
        let mut dram = Dram::new(&closing(), 1 << 20, 64);
        dram.start_log();
        let (mut now_ps, mut out) = (0, Vec::new());
        for (id, (gap_ps, request)) in script.into_iter().enumerate() {
            let until_ps = now_ps + gap_ps;
            let next = |dram: &Dram| dram.next_event_ps().filter(|&at_ps| at_ps <= until_ps);
            while every_event && let Some(at_ps) = next(&dram) {
                dram.advance(at_ps, &mut out);
            }
            now_ps = until_ps;
            dram.advance(now_ps, &mut out);
            while dram.submit(now_ps, Request { id: id as u32, ..request }).is_err() {
                now_ps = dram.next_event_ps().unwrap();
                dram.advance(now_ps, &mut out);
            }
        }
        while let Some(at_ps) = dram.next_event_ps() {
            dram.advance(at_ps, &mut out);
        }
        assert_eq!(out.len(), script.len());
        [0, 1].map(|channel| format!("{:?}", dram.take_log(channel, true)))
    };
    assert_eq!(commands(true), commands(false));
}

#[test]
fn occupancy_equals_rate_times_latency() {
    let mut dram = Dram::new(&DramSpec { channels: 2, ..spec() }, CAPACITY, 64);
    let mut out = Vec::new();
    let (mut area, mut last_ps) = (0u128, 0);
    let mut advance = |dram: &mut Dram, to_ps: u64| {
        while let Some(next_ps) = dram.next_event_ps().filter(|&next_ps| next_ps <= to_ps) {
            area += u128::from(next_ps - last_ps) * dram.in_flight() as u128;
            dram.advance(next_ps, &mut out);
            last_ps = next_ps;
        }
        if dram.in_flight() > 0 {
            area += u128::from(to_ps - last_ps) * dram.in_flight() as u128;
        }
        last_ps = to_ps;
    };
    for (at_ps, request) in random_lines(30) {
        advance(&mut dram, at_ps);
        dram.submit(at_ps, request).expect("the queue is deep enough for the rate");
    }
    advance(&mut dram, 1 << 50);
    let latency_ps: u128 = out.iter().map(|c| u128::from(c.stages.total_ps())).sum();
    assert_eq!(area, latency_ps, "Little's law over the whole run");
}

#[test]
fn a_full_channel_refuses_and_an_idle_one_takes_more_than_its_queue() {
    let mut dram = Dram::new(&DramSpec { read_queue_depth: 4, ..calm() }, CAPACITY, 64);
    assert!(dram.submit(0, Request { bytes: PAGE, ..read(0, 0) }).is_ok(), "idle: a page of 64");
    assert_eq!(dram.submit(0, read(1, 0)), Err(Full));
    assert!(dram.submit(0, write(1, 0)).is_ok(), "writes have a queue of their own");
    let mut out = Vec::new();
    dram.advance(u64::MAX, &mut out);
    let now_ps = out.iter().map(|completion| completion.at_ps).max().expect("two");
    for id in 0..4 {
        assert!(dram.submit(now_ps, read(id, 0)).is_ok());
    }
    assert_eq!(dram.submit(now_ps, read(4, 0)), Err(Full));
    assert_eq!(dram.submit(now_ps, Request { bytes: PAGE, ..read(4, 0) }), Err(Full));
}

#[test]
fn one_full_channel_does_not_close_the_other() {
    let spec = DramSpec { channels: 2, read_queue_depth: 1, ..calm() };
    let mut dram = Dram::new(&spec, CAPACITY, 64);
    assert!(dram.submit(0, read(0, 0)).is_ok());
    assert_eq!(dram.submit(0, read(1, 128)), Err(Full), "channel 0");
    assert!(dram.submit(0, read(2, 64)).is_ok(), "channel 1");
}

proptest! {
    #[test]
    fn a_request_never_beats_its_own_commands(
        requests in proptest::collection::vec((0..100_000u64, 0..1u64 << 14, any::<bool>()), 1..80),
    ) {
        let spec = spec();
        let mut at_ps = 0;
        let requests: Vec<_> = (0..)
            .zip(requests)
            .map(|(id, (gap_ps, line, write))| {
                at_ps += gap_ps;
                (at_ps, Request { write, ..read(id, line * 64) })
            })
            .collect();
        let mut dram = Dram::new(&spec, CAPACITY, 64);
        let mut all = Vec::new();
        play(&mut dram, &requests, &mut all);
        all.sort_by_key(|completion| completion.id);
        let (mut ends, mut forwarded) = (Vec::new(), 0);
        for (completion, (_, request)) in all.iter().zip(&requests) {
            let latency_ps = completion.stages.total_ps();
            if request.write || latency_ps == 3_000 {
                prop_assert_eq!(latency_ps, 3_000, "a line to write is taken for good");
                forwarded += u64::from(!request.write);
                continue;
            }
            prop_assert!(latency_ps >= 3_000 + (10 + 4) * 1_500);
            ends.push(completion.at_ps);
        }
        prop_assert_eq!(forwarded, dram.counts().forwarded_lines);
        ends.sort_unstable();
        prop_assert!(ends.windows(2).all(|pair| pair[1] - pair[0] >= 6_000), "a burst each");
    }
}

#[test]
fn a_description_at_the_edge_of_what_is_allowed_still_goes_on() {
    // Refreshes that leave little; bursts as wide as a line; a line of several rows; queues of one.
    let spec = DramSpec {
        t_refi: Some(ps(96_000)),
        t_rfc: Some(ps(1_000)),
        t_ras: Some(10),
        t_wr: Some(0),
        t_rtp: Some(0),
        row: Some(Size::from_bytes(64)),
        bus_bits: Some(1024),
        read_queue_depth: 1,
        write_queue_depth: 1,
        write_high: 1,
        write_low: 0,
        age_cap: ps(0),
        ..spec()
    };
    let mut problems = tierscope_units::Problems::new();
    spec.check("dram", &mut problems);
    assert!(problems.is_empty(), "{problems}");
    device_laws(|| Dram::new(&spec, 1 << 20, 128));
}

#[test]
fn refreshes_of_idle_time_are_counted_at_once_as_if_each_had_been_done() {
    for (part, refresh) in [
        ("ddr4-2400-8gb-x8", RefreshPolicy::AllBank),
        ("lpddr5-6400-16gb-x16", RefreshPolicy::PerBank),
    ] {
        for power_down_after in [None, Some(ps(20_000))] {
            let ranks = 2;
            let plain = DramSpec::of_part(part, 1);
            let spec = DramSpec { refresh, ranks, power_down_after, ..plain };
            let requests: Vec<_> = (0..40u32)
                .map(|i| (u64::from(i) * 2_310_017, read(i, u64::from(i) << 20)))
                .collect();
            let mut one_by_one = Dram::new(&spec, CAPACITY, 64);
            one_by_one.start_log();
            let mut at_once = Dram::new(&spec, CAPACITY, 64);
            let (mut slow, mut fast) = (Vec::new(), Vec::new());
            play(&mut one_by_one, &requests, &mut slow);
            play(&mut at_once, &requests, &mut fast);
            assert_eq!(slow, fast);
            assert_eq!(one_by_one.counts(), at_once.counts());
            let [slow, fast] = [&one_by_one, &at_once].map(|dram| dram.counts_and_energy(TENTH_PS));
            assert_eq!(slow.0, fast.0);
            assert_close("energy", fast.1.total_j(), slow.1.total_j(), 1e-9);
        }
    }
}

#[test]
fn a_fixed_run_counts_what_it_always_counted() {
    let mut dram = Dram::new(&DramSpec { channels: 2, ranks: 2, ..spec() }, CAPACITY, 64);
    let mut out = Vec::new();
    for (at_ps, request) in random_lines(30) {
        // Close together, so that there are hits; every tenth is a page, of which every third is
        // background.
        let request = Request { address: request.address % (256 << 10), ..request };
        let page = request.id.is_multiple_of(10);
        let (address, bytes) =
            if page { (request.address / 4096 * 4096, PAGE) } else { (request.address, LINE) };
        let background = request.id.is_multiple_of(30);
        let at_ps = at_ps * 8;
        dram.advance(at_ps, &mut out);
        dram.submit(at_ps, Request { address, bytes, background, ..request }).expect("room");
    }
    dram.advance(u64::MAX, &mut out);
    let latency_ps: u64 = out.iter().map(|completion| completion.stages.total_ps()).sum();
    let counts = dram.counts();
    let expected = DramCounts {
        row_hits: 2_658,
        row_closed: 4_985,
        row_conflicts: 18_357,
        activates: 23_750,
        refreshes: 656,
        read_lines: 102_396,
        written_lines: 43_604,
        forwarded_lines: 0,
    };
    assert_eq!((counts, latency_ps), (expected, 1_380_084_000));
}
