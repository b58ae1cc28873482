//! HASTE: formulas, the token against a ring that is walked hop by hop, order, buffers, laws of devices.

use super::*;
use crate::conformance::{SPACE_BYTES, device_laws};
use crate::device::disk::tests::access;
use crate::device::linked::DonePage;
use crate::link::packet::tests::spec as link_spec;
use proptest::prelude::*;
use tierscope_units::{Duration, Size};

const NS: u64 = 1000;

/// That of \[NVM10\], with the times of PCM.
fn spec() -> HasteSpec {
    let ns = |ns: u64| Duration::from_picoseconds(ns * NS);
    HasteSpec {
        capacity: Size::from_bytes(SPACE_BYTES),
        page: Size::from_bytes(4096),
        queue_depth: 64,
        scheduler_latency: ns(37),
        buffers: 4,
        nodes: 4,
        ring_bandwidth: Bandwidth::from_bytes_per_second(4_500_000_000),
        ring_latency: ns(88),
        controllers: 8,
        controller_bandwidth: Bandwidth::from_bytes_per_second(4_000_000_000),
        read_latency: ns(67),
        write_latency: ns(215),
    }
}

/// 4 KiB at 4 GB/s, and 16 bytes.
const PAGE_PS: u64 = 1_024_000;
const COMMAND_PS: u64 = 4_000;
const HOP_PS: u64 = 22_000;

/// Accesses at their times, where data come to a buffer `fetch_ps` after they are asked for, and leave it
/// `send_ps` after they have been read: what is reported, by token.
fn run(
    spec: &HasteSpec,
    (fetch_ps, send_ps): (u64, u64),
    all: &[(u64, PageAccess)],
) -> Vec<DonePage> {
    let mut device = Haste::new(spec);
    let mut host: EventQueue<(bool, u32)> = EventQueue::new();
    let (mut done, mut out, mut next) = (Vec::new(), Vec::new(), 0);
    let (mut buffered, mut most) = (0u32, 0);
    loop {
        let submit_ps = all.get(next).map(|(at_ps, _)| *at_ps);
        let times = [submit_ps, host.peek_ps(), device.next_event_ps()];
        let Some(now_ps) = times.into_iter().flatten().min() else { break };
        if submit_ps == Some(now_ps) {
            device.submit(now_ps, all[next].1);
            next += 1;
        } else if host.peek_ps() == Some(now_ps) {
            let (_, (write, token)) = host.pop().expect("it was there");
            if write {
                device.fetched(now_ps, token);
            } else {
                buffered -= 1;
                device.sent(now_ps, token);
            }
        }
        device.advance(now_ps, &mut out);
        for one in out.drain(..) {
            let HastePageDone { token, at_ps, stages, fetches } = one;
            assert_eq!(at_ps, now_ps);
            if fetches {
                host.push(at_ps + fetch_ps, 0, (true, token));
            } else {
                done.push(DonePage { token, at_ps, stages });
                let write =
                    all.iter().find(|(_, it)| it.token == token).expect("asked for").1.write;
                if !write {
                    buffered += 1;
                    host.push(at_ps + send_ps, 0, (false, token));
                }
            }
        }
        most = most.max(buffered);
    }
    assert_eq!(done.len(), all.len());
    assert!(most <= spec.buffers, "{most} pages in {} buffers", spec.buffers);
    done.sort_by_key(|one| one.token);
    done
}

#[test]
fn an_unloaded_read_takes_token_command_row_and_data() {
    // The second controller of node 1; the token passes node 0 at multiples of 88 ns.
    let done = run(&spec(), (0, 0), &[(10 * NS, access(0, 3, false))]);
    let asked_ps = 88 * NS + COMMAND_PS + HOP_PS;
    // The token left node 0 when the command had: it passes node 1 a hop later, and every 88 ns.
    let opened_ps = asked_ps + 67 * NS;
    let token_ps = asked_ps + 88 * NS;
    let expected = [
        (Stage::Device, 37 * NS),
        (Stage::StoreQueue, 88 * NS - 47 * NS),
        (Stage::Device, COMMAND_PS + HOP_PS),
        (Stage::Medium, 67 * NS),
        (Stage::StoreQueue, token_ps - opened_ps),
        (Stage::Device, PAGE_PS + 3 * HOP_PS),
    ];
    assert_eq!(done[0].stages.iter().collect::<Vec<_>>(), expected);
    assert_eq!(done[0].at_ps, token_ps + PAGE_PS + 3 * HOP_PS);
}

#[test]
fn an_unloaded_write_is_fetched_and_then_streamed() {
    let done = run(&spec(), (2_000 * NS, 0), &[(0, access(0, 4, true))]);
    let fetched_ps = (37 + 2_000) * NS;
    let token_ps = fetched_ps.next_multiple_of(88 * NS);
    let expected = [
        (Stage::Device, 37 * NS),
        (Stage::Link, 2_000 * NS),
        (Stage::StoreQueue, token_ps - fetched_ps),
        (Stage::Device, PAGE_PS + 2 * HOP_PS),
    ];
    assert_eq!(done[0].stages.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn a_controller_waits_for_the_precharge_after_a_write_alone() {
    let of = |write_latency: u64, second: bool| {
        let write_latency = Duration::from_picoseconds(write_latency * NS);
        let spec =
            HasteSpec { write_latency, ring_latency: Duration::from_picoseconds(0), ..spec() };
        // The second comes while the first is streamed.
        let all = [(0, access(0, 0, true)), (500 * NS, access(1, 8, second))];
        let done = run(&spec, (0, 0), &all);
        [done[0].at_ps, done[1].at_ps]
    };
    for write in [true, false] {
        let (short, long) = (of(0, write), of(300, write));
        assert_eq!(short[0], long[0]);
        assert_eq!(short[1] + 300 * NS, long[1]);
    }
}

#[test]
fn requests_take_buffers_in_order() {
    // Four reads have the buffers, until they leave late; a write behind them waits, and what is behind it.
    let mut all: Vec<_> = (0..4).map(|n| (0, access(n, u64::from(n), false))).collect();
    all.push((0, access(4, 4, true)));
    all.push((0, access(5, 5, false)));
    let done = run(&spec(), (0, 50_000 * NS), &all);
    let latest = done[..4].iter().map(|one| one.at_ps).max().expect("four");
    assert!(done[4].at_ps > done[0].at_ps.min(done[1].at_ps) + 50_000 * NS);
    assert!(done[5].at_ps > latest.min(done[4].at_ps));
    // With room for all nothing waits for what leaves.
    let done = run(&HasteSpec { buffers: 6, ..spec() }, (0, 50_000 * NS), &all);
    assert!(done.iter().all(|one| one.at_ps < 20_000 * NS));
}

/// When the token comes to a node where something waits, walked hop by hop from where it was let go.
fn walked(free: (u64, u32), nodes: u32, hop_ps: u64, now_ps: u64, waits: &[bool]) -> (u64, u32) {
    let (mut at_ps, mut node) = free;
    loop {
        if at_ps >= now_ps && waits[node as usize] {
            return (at_ps, node);
        }
        (at_ps, node) = (at_ps + hop_ps, (node + 1) % nodes);
    }
}

proptest! {
    #[test]
    fn the_token_is_where_a_walk_around_the_ring_brings_it(
        nodes in 1..6u32, hop_ps in 1..50u64, free_ps in 0..1_000u64, from in 0..6u32,
        later_ps in 0..1_000u64, waits in prop::collection::vec(any::<bool>(), 6),
    ) {
        let waits = &waits[..nodes as usize];
        prop_assume!(waits.contains(&true));
        let mut ring = Ring::new(nodes, hop_ps * u64::from(nodes));
        ring.release(free_ps, from % nodes);
        for node in (0..nodes).filter(|node| waits[*node as usize]) {
            ring.push(node, node);
        }
        let now_ps = free_ps + later_ps;
        let expected = walked((free_ps, from % nodes), nodes, hop_ps, now_ps, waits);
        let (at_ps, generation) = ring.next_token(now_ps).expect("something waits");
        prop_assert!(ring.is_current(generation));
        prop_assert_eq!(ring.take().map(|(node, parcel)| (at_ps, node, parcel)),
            Some((expected.0, expected.1, expected.1)));
        prop_assert!(!ring.is_current(generation));
        prop_assert_eq!(ring.next_token(now_ps), None);
    }
}

#[test]
fn the_devices_laws_hold() {
    let small = HasteSpec { queue_depth: 3, buffers: 1, nodes: 1, controllers: 1, ..spec() };
    let odd = HasteSpec {
        nodes: 5,
        controllers: 3,
        buffers: 2,
        ring_latency: Duration::from_picoseconds(88_001),
        page: Size::from_bytes(512),
        ..spec()
    };
    for spec in [spec(), small, odd] {
        device_laws(|| HasteDevice::new(&spec, &link_spec()));
    }
    let registers = crate::link::PcieSpec {
        protocol: crate::link::pcie::PcieProtocol::Registers,
        ..crate::link::pcie::tests::spec()
    };
    device_laws(|| HasteDevice::new(&spec(), &registers));
}

/// PCI Express 1.1 x8, as \[NVM10\] has it.
fn pcie() -> crate::link::PcieSpec {
    crate::link::PcieSpec {
        generation: 1,
        lanes: 8,
        max_payload: Size::from_bytes(128),
        read_completion: Size::from_bytes(64),
        protocol: crate::link::pcie::PcieProtocol::Registers,
        ..crate::link::pcie::tests::spec()
    }
}

/// Bytes a second, and the mean latency in microseconds, of so many requests of these bytes, `depth` at a time.
fn closed_loop(spec: &HasteSpec, depth: usize, bytes: u32, write: bool, count: u64) -> (f64, f64) {
    use crate::request::{Device, Request};
    let mut device = HasteDevice::new(spec, &pcie());
    let places = spec.capacity.bytes() / u64::from(bytes);
    let (mut now_ps, mut sent, mut latency_ps, mut out) = (0, 0, 0, Vec::new());
    while sent < count || device.in_flight() > 0 {
        while sent < count && device.in_flight() < depth {
            let address = sent * 7 % places * u64::from(bytes);
            let request = Request { id: sent as u32, address, bytes, write, background: false };
            device.submit(now_ps, request).expect("there is room");
            sent += 1;
        }
        now_ps = device.next_event_ps().expect("it goes on");
        device.advance(now_ps, &mut out);
        latency_ps += out.drain(..).map(|done| done.stages.total_ps()).sum::<u64>();
    }
    let moved = count as f64 * f64::from(bytes);
    (moved / now_ps as f64 * 1e12, latency_ps as f64 / count as f64 * 1e-6)
}

#[test]
fn buffers_hide_what_is_not_the_link_and_one_does_not() {
    let memory = HasteSpec { capacity: Size::from_bytes(64 << 20), ..spec() };
    for write in [false, true] {
        let (_, alone_us) = closed_loop(&memory, 1, 4096, write, 500);
        let (many, _) = closed_loop(&memory, 16, 4096, write, 5_000);
        let (large, _) = closed_loop(&memory, 16, 131_072, write, 500);
        let one = HasteSpec { buffers: 1, ..memory.clone() };
        let (single, _) = closed_loop(&one, 16, 4096, write, 5_000);
        eprintln!(
            "write {write}: {alone_us:.2} us, {many:.3e} B/s, large {large:.3e}, one buffer {single:.3e}"
        );
        // The link: 2 GB/s for packets of 128 B with 24 B around them; of reads of the host, of 64 B with 20 B.
        assert!(many < 2e9 && large <= 2e9 && many > 1.2e9);
        assert!(single < many * 0.75, "{single} with one buffer, {many} with four");
    }
}
