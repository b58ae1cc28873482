//! Laws and formulas of two nodes of memory.

use super::*;
use crate::conformance::organization_laws;
use crate::device::AnyDevice;
use crate::device::DeviceDescription;
use crate::device::ssd::tests::spec as ssd;
use crate::link::LinkDescription;
use crate::medium::dram::Dram;
use crate::medium::dram::tests::spec as dram_spec;
use crate::organization::tiered::tests::{LINE, PAGE, link, memory_link, store};
use crate::organization::{OracleSpec, TieredSpec};
use tierscope_kernel::Stage;
use tierscope_units::{Duration, Size};

const US: u64 = 1_000_000;
const NEAR: u64 = 1 << 20;

fn spec(host_queue_depth: u32, copy_lines: u32) -> TieringSpec {
    TieringSpec {
        capacity: Size::from_bytes(NEAR),
        host_queue_depth,
        read_latency: Duration::from_picoseconds(300_000),
        write_latency: Duration::from_picoseconds(100_000),
        copy_lines,
        balancing: None,
    }
}

fn before(
    spec: &TieringSpec,
    store: &dyn DeviceDescription,
    link: &dyn LinkDescription,
    check_data: bool,
) -> Tiering<Dram, AnyDevice> {
    let near = Oracle::new(&OracleSpec { capacity: spec.capacity }, &dram_spec(), LINE, check_data);
    let far = TieredSpec {
        host_queue_depth: spec.host_queue_depth,
        read_latency: spec.read_latency,
        write_latency: spec.write_latency,
        long_reads: None,
        promotion: None,
    };
    let bytes = store.capacity().bytes();
    let far = Tiered::new(&far, bytes, LINE as u32, None, store.build(link), check_data);
    Tiering::new(spec, near, far, LINE as u32)
}

fn make(spec: &TieringSpec) -> Tiering<Dram, AnyDevice> {
    before(spec, &store(), &link(), true)
}

fn line(id: u32, address: u64, write: bool) -> LineRequest {
    LineRequest { id, core: 0, address, write, version: if write { u64::from(id) + 1 } else { 0 } }
}

fn page(id: u32, from: u64, to: u64) -> PageRequest {
    PageRequest {
        id,
        store_address: to * PAGE,
        memory_address: from * PAGE,
        bytes: PAGE as u32,
        write: true,
        background: true,
        force_unit_access: false,
        content: 0,
    }
}

#[test]
fn the_organizations_laws_hold() {
    for spec in [spec(16, 4), spec(1, 1)] {
        organization_laws(|check_data| Box::new(before(&spec, &store(), &link(), check_data)));
        organization_laws(|check_data| Box::new(before(&spec, &ssd(), &memory_link(), check_data)));
    }
}

#[test]
fn lines_below_drams_end_are_drams_and_the_others_the_stores() {
    let mut memory = make(&spec(16, 4));
    assert_eq!(memory.memory_bytes(), NEAR + store().capacity.bytes());
    let mut out = Vec::new();
    for (id, address) in [(0, NEAR - LINE), (1, NEAR), (2, NEAR - LINE)] {
        memory.submit(u64::from(id) * 100 * US, line(id, address, false)).unwrap();
        memory.advance(u64::from(id) * 100 * US + 50 * US, &mut out);
    }
    let from_store = |response: &Response| match response {
        Response::Line(line) => line.stages.iter().any(|(stage, _)| stage == Stage::Medium),
        Response::Page(page) => panic!("{page:?}"),
    };
    assert_eq!(out.iter().map(from_store).collect::<Vec<_>>(), [false, true, false]);
    let report = memory.report();
    assert_eq!((report.lookups, report.misses), (3, 1));
    let traffic = report.traffic;
    assert_eq!((traffic.dram_read_bytes, traffic.store_read_bytes), (2 * LINE, LINE));
}

#[test]
fn a_page_is_copied_to_the_store_line_by_line_with_what_was_written() {
    for copy_lines in [1, 4, 64] {
        let mut memory = make(&spec(16, copy_lines));
        let mut out = Vec::new();
        memory.submit(0, line(7, 3 * PAGE + 128, true)).unwrap();
        memory.submit(0, line(8, NEAR + 5 * PAGE + 128, true)).unwrap();
        memory.advance(100 * US, &mut out);
        memory.submit_page(100 * US, page(9, 3, 5)).unwrap();
        memory.advance(10_000 * US, &mut out);
        memory.submit(10_000 * US, line(10, NEAR + 5 * PAGE + 128, false)).unwrap();
        memory.advance(20_000 * US, &mut out);
        let copied = out.iter().find_map(|one| match one {
            Response::Page(page) => Some(*page),
            Response::Line(_) => None,
        });
        let copied = copied.expect("the page is answered");
        assert_eq!(copied.id, 9);
        assert_eq!(copied.stages.total_ps(), copied.at_ps - 100 * US);
        let Some(Response::Line(read)) = out.last() else { panic!("{out:?}") };
        assert_eq!((read.id, read.version), (10, 8), "what line 7 of the page in DRAM held");
        let traffic = memory.report().traffic;
        assert_eq!(traffic.dram_read_bytes, PAGE);
        assert_eq!(traffic.store_written_bytes, PAGE + LINE);
        assert_eq!((memory.in_flight(), memory.report().stale_reads), (0, 0));
    }
}

#[test]
fn more_lines_under_way_copy_a_page_sooner_until_the_store_is_busy() {
    let time = |copy_lines| {
        let mut memory = make(&spec(64, copy_lines));
        memory.submit_page(0, page(0, 0, 0)).unwrap();
        let mut out = Vec::new();
        memory.advance(10_000 * US, &mut out);
        match out.as_slice() {
            [Response::Page(page)] => page.at_ps,
            other => panic!("{other:?}"),
        }
    };
    let [one, four, all] = [1, 4, 64].map(time);
    // Lines are written by four units.
    assert!(four < one * 2 / 5, "{four} of {one}");
    assert!(all <= four, "{all} of {four}");
}

#[test]
fn pages_wait_for_each_other_and_no_more_than_there_is_room_for() {
    let mut memory = make(&spec(16, 4));
    let taken = (0..40).filter(|id| memory.submit_page(0, page(*id, 0, u64::from(*id))).is_ok());
    assert_eq!(taken.count(), 32);
    let mut out = Vec::new();
    memory.advance(100_000 * US, &mut out);
    let order: Vec<u32> = out
        .iter()
        .map(|one| match one {
            Response::Page(page) => page.id,
            Response::Line(line) => panic!("{line:?}"),
        })
        .collect();
    assert_eq!(order, (0..32).collect::<Vec<_>>());
}
