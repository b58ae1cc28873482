//! Stores behind queues of NVM Express: what queues, lists of pages and interrupts add.

use super::links::{alone, ended, wire_ps};
use super::*;
use crate::link::nvme::{NvmeCoalescingSpec, NvmePrioritiesSpec, NvmePriority, NvmeSpec};
use crate::link::pcie::tests::spec as pcie;
use crate::link::{LinkEnergySpec, PcieSpec};
use crate::request::Control;
use tierscope_units::{Energy, Power};

fn nvme() -> NvmeSpec {
    NvmeSpec {
        queues: 1,
        entries: 1024,
        burst: 1,
        fetches: 1024,
        memory_page: Size::from_bytes(4096),
        vectors: 1,
        priorities: None,
        coalescing: None,
    }
}

fn behind(nvme: NvmeSpec) -> PcieSpec {
    PcieSpec { nvme: Some(nvme), ..pcie() }
}

/// The classes of reads and writes that somebody waits for, with their weights.
fn classes(reads: NvmePriority, writes: NvmePriority) -> NvmePrioritiesSpec {
    NvmePrioritiesSpec {
        reads,
        writes,
        background: NvmePriority::Low,
        high_weight: 3,
        medium_weight: 2,
        low_weight: 1,
    }
}

fn coalesced(threshold: u32, time_us: u64) -> NvmeSpec {
    let time = Duration::from_picoseconds(time_us * US);
    NvmeSpec { coalescing: Some(NvmeCoalescingSpec { threshold, time }), ..nvme() }
}

#[test]
fn one_queue_in_which_nothing_waits_is_as_none() {
    let requests: Vec<_> = (0..64)
        .map(|i| if i % 3 == 0 { write(i, u64::from(i * 7 % 40)) } else { read(i, u64::from(i)) })
        .collect();
    assert_eq!(ended(&spec(), &behind(nvme()), &requests), ended(&spec(), &pcie(), &requests));
}

#[test]
fn the_devices_laws_hold_behind_queues() {
    let small = StoreSpec {
        capacity: Size::from_bytes(1 << 20),
        units: 3,
        queue_depth: 5,
        read_latency: Duration::from_picoseconds(125_000),
        write_latency: Duration::from_picoseconds(1_250_000),
        ..super::spec()
    };
    let priorities = Some(classes(NvmePriority::Urgent, NvmePriority::Medium));
    let few = NvmeSpec { queues: 2, entries: 3, burst: 2, vectors: 3, priorities, ..nvme() };
    let held_back = NvmeSpec { queues: 3, vectors: 2, ..coalesced(4, 100) };
    for nvme in [nvme(), few, held_back] {
        device_laws(|| StoreDevice::new(&small, &behind(nvme.clone())));
    }
}

/// Time of a list of so many pages beyond the first: one request, and eight bytes for each.
fn list_ps(link: &PcieSpec, listed: u64) -> u64 {
    let wire = |bytes| wire_ps(bytes, link.packet_bytes_per_second());
    let root_ps = link.root_complex_latency.picoseconds();
    let list_ps = wire(24) + root_ps + wire(20 + 8 * listed) + 2 * link.latency.picoseconds();
    if listed > 0 { list_ps } else { 0 }
}

#[test]
fn a_list_of_pages_is_fetched_before_data_are_and_while_the_medium_is_read() {
    let link = behind(nvme());
    for (pages, listed) in [(2, 0), (3, 2), (8, 7)] {
        for (request, waits) in [(read(0, 0), false), (write(0, 0), true)] {
            let request = Request { bytes: pages * PAGE, ..request };
            let more_ps = alone(&link, request).1 - alone(&pcie(), request).1;
            let expected_ps = if waits { list_ps(&link, listed) } else { 0 };
            assert!(more_ps.abs_diff(expected_ps) <= 2, "{request:?}: {more_ps}, {expected_ps}");
        }
    }
    // Pages of the host of 64 KiB: nothing is listed.
    let large = behind(NvmeSpec { memory_page: Size::from_bytes(64 << 10), ..nvme() });
    let request = Request { bytes: 8 * PAGE, ..read(0, 0) };
    assert_eq!(alone(&large, request), alone(&pcie(), request));
}

#[test]
fn what_has_been_read_goes_up_once_its_list_of_pages_is_there() {
    let at_once = StoreSpec {
        units: 16,
        read_latency: Duration::from_picoseconds(US),
        unit_bandwidth: Bandwidth::from_bytes_per_second(100_000_000_000),
        controller_latency: Duration::from_picoseconds(0),
        ..spec()
    };
    let slow = Duration::from_picoseconds(50 * US);
    let plain = PcieSpec { root_complex_latency: slow, ..pcie() };
    let link = PcieSpec { nvme: Some(nvme()), ..plain.clone() };
    let end_ps = |link: &PcieSpec, pages: u32| {
        let request = Request { bytes: pages * PAGE, ..read(0, 0) };
        ended(&at_once, link, &[request]).last().expect("it ends").at_ps
    };
    let wire = |bytes: u64| wire_ps(bytes, link.packet_bytes_per_second());
    for pages in [3, 8] {
        // All pages have been read long before: of the time of the list, only their own is hidden.
        let more_ps = end_ps(&link, pages) - end_ps(&plain, pages);
        let list_ps = list_ps(&link, u64::from(pages) - 1);
        let hidden_ps = list_ps - more_ps;
        let read_ps = US + u64::from(pages) * wire(4096 + 16 * 24);
        assert!((US..read_ps).contains(&hidden_ps), "{pages}: {more_ps} of {list_ps}");
    }
}

#[test]
fn an_interrupt_alone_is_held_back_for_all_of_its_time() {
    for time_us in [100, 25_500] {
        let link = behind(coalesced(2, time_us));
        let held = ended(&spec(), &link, &[read(0, 5)])[0];
        let plain = ended(&spec(), &pcie(), &[read(0, 5)])[0];
        // The interrupt is rounded up by itself then.
        assert!((held.at_ps - plain.at_ps).abs_diff(time_us * US) <= 1, "{held:?} and {plain:?}");
        let at_device_ps = |one: &Completion| {
            let own = one.stages.iter().filter(|(stage, _)| *stage == Stage::Device);
            own.map(|(_, ps)| ps).sum::<u64>()
        };
        assert_eq!(at_device_ps(&held) - at_device_ps(&plain), time_us * US);
        let handled = held.stages.iter().any(|(stage, _)| stage == Stage::Interrupt);
        assert!(!handled, "what handles interrupts is no part of the device: {held:?}");
    }
}

#[test]
fn as_many_completions_as_the_threshold_are_told_of_at_once() {
    let link = behind(coalesced(4, 25_500));
    let requests: Vec<_> = (0..8).map(|id| read(id, u64::from(id))).collect();
    let told: Vec<_> = ended(&spec(), &link, &requests);
    let numbers: Vec<u32> = told.iter().map(|one| one.interrupt).collect();
    assert_eq!(numbers, [1, 1, 1, 1, 2, 2, 2, 2]);
    let done: Vec<u64> = told.iter().map(|one| one.at_ps).collect();
    let plain: Vec<u64> = ended(&spec(), &pcie(), &requests).iter().map(|one| one.at_ps).collect();
    assert!(done[..4].iter().all(|at| *at == done[3]) && done[4..].iter().all(|at| *at == done[7]));
    // The last of each four waits for nobody, and three interrupts fewer are before it.
    for last in [3, 7] {
        assert!(done[last] <= plain[last] && plain[last] - done[last] < US, "{done:?} {plain:?}");
    }
}

#[test]
fn fewer_interrupts_and_larger_bursts_move_fewer_bytes() {
    let energy = LinkEnergySpec {
        per_bit: Energy::from_femtojoules(125),
        idle_power: Power::from_nanowatts(0),
    };
    // Bytes for reads of a page each.
    let moved = |nvme: NvmeSpec, count: u32| {
        let link = PcieSpec { energy: Some(energy.clone()), ..behind(nvme) };
        let mut device = StoreDevice::new(&spec(), &link);
        let mut out = Vec::new();
        (0..count).for_each(|id| device.submit(0, read(id, u64::from(id))).expect("room"));
        device.advance(u64::MAX >> 8, &mut out);
        assert_eq!(out.len(), count as usize);
        (device.activity(US).energy.total_j().expect("it is told") * 1e12).round() as u64
    };
    // Doorbell, fetch and command, data, entry; an interrupt and a doorbell each.
    let each = 28 + 24 + 84 + 4096 + 16 * 24 + 40;
    assert_eq!(moved(nvme(), 8), 8 * (each + 28 + 28));
    assert_eq!(moved(coalesced(8, 100), 8), 8 * each + 28 + 28);
    assert_eq!(moved(coalesced(3, 100), 8), 8 * each + 3 * (28 + 28));
    // Of nine, eight come while the first is fetched: one request, and two packets, for the seven that are left of
    // the burst, and the last by itself.
    let bursts = NvmeSpec { burst: 8, fetches: 1, ..nvme() };
    assert_eq!(moved(bursts, 9), 9 * (each + 28 + 28) - 6 * 24 - 5 * 20);
}

/// Doorbells, fetches of commands and of lists, and interrupts for eight reads of so many pages each.
fn sent(link: &PcieSpec, pages: u32) -> [u64; 4] {
    let mut device = StoreDevice::new(&spec(), link);
    let bytes = pages * PAGE;
    let reads = (0..8).map(|id| Request { bytes, ..read(id, u64::from(id * pages)) });
    reads.for_each(|read| device.submit(0, read).expect("room"));
    device.advance(u64::MAX >> 8, &mut Vec::new());
    let sent = device.activity(US).nvme.expect("NVM Express drives it");
    [sent.doorbells, sent.command_fetches, sent.list_fetches, sent.interrupts]
}

#[test]
fn doorbells_fetches_and_interrupts_are_counted_with_and_without_queues() {
    assert_eq!(sent(&pcie(), 1), [16, 8, 0, 8]);
    assert_eq!(sent(&behind(nvme()), 1), [16, 8, 0, 8]);
    // One interrupt, and one doorbell, for four.
    assert_eq!(sent(&behind(coalesced(4, 25_500)), 1), [10, 8, 0, 2]);
    // The first is fetched alone; the seven that came meanwhile take two bursts.
    assert_eq!(sent(&behind(NvmeSpec { burst: 4, fetches: 1, ..nvme() }), 1), [16, 3, 0, 8]);
    // Lists of 1,023 entries: a page that ends with where the next one lies.
    let small = behind(NvmeSpec { entries: 9, ..nvme() });
    assert_eq!((sent(&small, 2)[2], sent(&small, 3)[2]), (0, 8));
    let one = Request { bytes: 1_024 * PAGE, ..read(0, 0) };
    let large = StoreSpec { queue_depth: 4_096, ..spec() };
    let mut device = StoreDevice::new(&large, &small);
    device.submit(0, one).expect("room");
    device.advance(u64::MAX >> 8, &mut Vec::new());
    assert_eq!(device.activity(US).nvme.map(|sent| sent.list_fetches), Some(2));
    // What is not driven by NVM Express sends none of them.
    let memory = PcieSpec { protocol: crate::link::pcie::PcieProtocol::Memory, ..pcie() };
    assert_eq!(StoreDevice::new(&spec(), &memory).activity(US).nvme, None);
}

#[test]
fn one_fetch_at_a_time_bounds_commands_by_its_time_and_the_burst() {
    let fast = StoreSpec {
        units: 1024,
        queue_depth: 4096,
        read_latency: Duration::from_picoseconds(US),
        unit_bandwidth: Bandwidth::from_bytes_per_second(10_000_000_000),
        ..spec()
    };
    let (link, count) = (behind(nvme()), 4_000u32);
    for burst in [1, 4] {
        let entries = 65_536;
        let link = behind(NvmeSpec { burst, fetches: 1, entries, ..nvme() });
        let requests: Vec<_> =
            (0..count).map(|id| Request { bytes: 64, ..read(id, u64::from(id)) }).collect();
        let done = ended(&fast, &link, &requests);
        let wire = |bytes| wire_ps(bytes, link.packet_bytes_per_second());
        let fetch_ps = wire(24)
            + link.root_complex_latency.picoseconds()
            + wire(20 + u64::from(burst) * 64)
            + 2 * link.latency.picoseconds();
        let found_ps = done.last().expect("some").at_ps * u64::from(burst) / u64::from(count);
        // Nothing is faster; a fetch may wait for the packets of what was fetched before.
        let slowest_ps = fetch_ps + fetch_ps * 3 / 20;
        assert!((fetch_ps..slowest_ps).contains(&found_ps), "{burst}: {found_ps}, {fetch_ps}");
    }
    let several: Vec<_> = (0..8).map(|id| read(id, 0)).collect();
    assert_eq!(ended(&fast, &link, &several), ended(&fast, &pcie(), &several));
}

#[test]
fn reads_and_writes_have_their_shares_by_weight_where_the_store_is_busy() {
    let priorities = Some(classes(NvmePriority::High, NvmePriority::Low));
    let link = behind(NvmeSpec { priorities, ..nvme() });
    let busy =
        StoreSpec { queue_depth: 1, write_latency: Duration::from_picoseconds(25 * US), ..spec() };
    let requests: Vec<_> = (0..200u32)
        .map(|id| if id % 2 == 0 { read(id, u64::from(id)) } else { write(id, u64::from(id)) })
        .collect();
    let done = ended(&busy, &link, &requests);
    // Both wait until 100 reads are done: one write for three reads.
    let reads = done[1..121].iter().filter(|one| one.id % 2 == 0).count();
    assert!(reads.abs_diff(90) <= 1, "{reads} of 120");
    let urgent = Some(classes(NvmePriority::Low, NvmePriority::Urgent));
    let link = behind(NvmeSpec { priorities: urgent, ..nvme() });
    let done = ended(&busy, &link, &requests);
    let writes = done[1..101].iter().filter(|one| one.id % 2 == 1).count();
    assert_eq!(writes, 100, "after the first, which found nothing there, writes come first");
}

#[test]
fn what_waits_in_a_queue_is_the_hosts_time() {
    let link = behind(NvmeSpec { entries: 5, ..nvme() });
    let one = StoreSpec { queue_depth: 1, ..spec() };
    let mut device = StoreDevice::new(&one, &link);
    for id in 0..4 {
        device.submit(0, read(id, 0)).expect("four of five entries");
    }
    assert!(
        device.submit(0, read(9, 0)).is_err()
            && device.submit_control(0, 9, Control::Flush).is_err()
    );
    let mut out = Vec::new();
    device.advance(u64::MAX >> 8, &mut out);
    let waits = |one: &Completion| {
        let of_queue = one.stages.iter().filter(|(stage, _)| *stage == Stage::HostQueue);
        of_queue.map(|(_, ps)| ps).sum::<u64>()
    };
    let waited: Vec<u64> = out.iter().map(waits).collect();
    assert!(waited[0] == 0 && waited.windows(2).all(|two| two[1] > two[0] + 25 * US), "{waited:?}");
}
