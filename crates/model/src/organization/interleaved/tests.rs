mod literate;

use super::*;
use crate::conformance::organization_laws;
use crate::medium::DramSpec;
use crate::medium::dram::tests::spec as dram_spec;
use crate::organization::hybrid::tests::parts_of_memory;
use crate::organization::{Oracle, OracleSpec};
use crate::request::LineResponse;
use proptest::prelude::*;

fn controllers(count: u32, interleave_bytes: u64) -> ControllersSpec {
    ControllersSpec { count, interleave: Size::from_bytes(interleave_bytes) }
}

fn layout(count: u64, interleave_bytes: u64) -> Layout {
    Layout { count, shift: interleave_bytes.trailing_zeros() }
}

fn oracle(capacity_bytes: u64, dram: &DramSpec) -> Box<dyn Organization> {
    let spec = OracleSpec { capacity: Size::from_bytes(capacity_bytes) };
    Box::new(Oracle::new(&spec, dram, 64, true))
}

/// Every request in turn, a nanosecond apart, as far as there is room; and all answers.
fn answers(memory: &mut dyn Organization, lines: &[(u64, bool)]) -> Vec<(u32, u64, u64)> {
    let mut out = Vec::new();
    for (id, &(line, write)) in lines.iter().enumerate() {
        let (mut now_ps, id) = (id as u64 * 1_000, id as u32);
        let version = if write { u64::from(id) + 1 } else { 0 };
        let request = LineRequest { id, core: 0, address: line * 64, write, version };
        memory.advance(now_ps, &mut out);
        while memory.submit(now_ps, request).is_err() {
            now_ps = memory.next_event_ps().expect("what is full has something under way");
            memory.advance(now_ps, &mut out);
        }
        memory.advance(now_ps, &mut out);
    }
    while let Some(at_ps) = memory.next_event_ps().filter(|_| memory.in_flight() > 0) {
        memory.advance(at_ps, &mut out);
    }
    let line = |response: Response| match response {
        Response::Line(LineResponse { id, at_ps, version, .. }) => (id, at_ps, version),
        Response::Page(page) => panic!("{page:?} was not asked for"),
    };
    out.into_iter().map(line).collect()
}

/// Controllers whose hybrids are tight, of devices that take any time: whatever interleaves them.
#[test]
fn the_organizations_laws_hold() {
    for (count, interleave_bytes) in [(1, 4096), (2, 64), (2, 4096), (3, 1024), (4, 8192)] {
        organization_laws(|check_data| {
            let parts = (0..count).map(|seed| parts_of_memory(seed, check_data)).collect();
            Box::new(Interleaved::new(
                &controllers(count as u32, interleave_bytes),
                Size::from_bytes(64),
                parts,
            ))
        });
    }
}

proptest! {
    /// Addresses and places are one to one, and a controller's follow each other.
    #[test]
    fn each_address_has_a_place_of_its_own(count in 1..9u64, shift in 6..14u32) {
        let layout = Layout { count, shift };
        let mut next = vec![0; count as usize];
        for address in (0..count << (shift + 2)).step_by(64) {
            let (controller, place) = layout.place(address);
            prop_assert_eq!(place, next[controller]);
            next[controller] += 64;
        }
    }

    /// What a controller has of some bytes is what is found byte by byte.
    #[test]
    fn a_run_of_bytes_is_a_run_at_each_controller(
        count in 1..6u64, shift in 0..4u32, start in 0..200u64, bytes in 0..100u64,
    ) {
        let layout = Layout { count, shift };
        for controller in 0..count as usize {
            let own = (start..start + bytes).map(|address| layout.place(address));
            let own: Vec<_> = own.filter(|(at, _)| *at == controller).map(|(_, to)| to).collect();
            let part = layout.part(&(start..start + bytes), controller);
            prop_assert_eq!(own, part.collect::<Vec<_>>());
        }
    }

    /// One controller answers as it does by itself.
    #[test]
    fn one_is_as_none(lines in proptest::collection::vec((0..4096u64, any::<bool>()), 1..200)) {
        let dram = DramSpec { read_queue_depth: 4, write_queue_depth: 4, write_high: 3, write_low: 1, ..dram_spec() };
        let mut one = Interleaved::new(&controllers(1, 4096), Size::from_bytes(64), vec![oracle(1 << 20, &dram)]);
        prop_assert_eq!(answers(&mut one, &lines), answers(&mut *oracle(1 << 20, &dram), &lines));
        prop_assert_eq!(one.report(), {
            let mut alone = oracle(1 << 20, &dram);
            answers(&mut *alone, &lines);
            alone.report()
        });
    }

    /// Each controller is asked for what lies there, and answers as if the others were not.
    #[test]
    fn each_goes_its_own_way(lines in proptest::collection::vec((0..4096u64, any::<bool>()), 1..100)) {
        let (dram, layout) = (dram_spec(), layout(2, 1024));
        let parts = vec![oracle(1 << 20, &dram), oracle(1 << 20, &dram)];
        let mut both = Interleaved::new(&controllers(2, 1024), Size::from_bytes(64), parts);
        let mut all = answers(&mut both, &lines);
        all.sort_unstable();
        for controller in 0..2 {
            let mut alone = oracle(1 << 20, &dram);
            let mut out = Vec::new();
            for (id, &(line, write)) in lines.iter().enumerate() {
                let now_ps = id as u64 * 1_000;
                alone.advance(now_ps, &mut out);
                let (at, address) = layout.place(line * 64);
                let version = if write { id as u64 + 1 } else { 0 };
                let request = LineRequest { id: id as u32, core: 0, address, write, version };
                if at == controller {
                    prop_assert!(alone.submit(now_ps, request).is_ok());
                }
            }
            alone.advance(u64::MAX / 2, &mut out);
            for response in out {
                let Response::Line(line) = response else { panic!("{response:?}") };
                prop_assert_eq!(all[line.id as usize], (line.id, line.at_ps, line.version));
            }
        }
    }
}

#[test]
fn what_is_impossible_is_said() {
    let said = |count, interleave_bytes| {
        let mut problems = Problems::new();
        let spec = controllers(count, interleave_bytes);
        spec.check("controllers", Some(Size::from_bytes(64)), &mut problems);
        spec.check_memory("controllers", 3 << 20, &mut problems);
        problems.to_string()
    };
    assert_eq!(said(2, 4096), "");
    assert!(said(0, 4096).contains("controllers.count"));
    assert!(said(65, 4096).contains("controllers.count"));
    assert!(said(2, 96).contains("power of two"));
    assert!(said(2, 32).contains("holds a line of 64B"));
    assert!(said(2, 2 << 20).contains("not a whole number of these"));
}
