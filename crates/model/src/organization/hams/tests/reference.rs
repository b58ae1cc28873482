//! HAMS against a naive model of the same semantics: a list of frames.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What each frame holds: the page, and whether it is dirty; requests one after the other.
#[derive(Default)]
struct Plain {
    frames: BTreeMap<u64, (u64, bool)>,
    hits: u64,
    fills: u64,
    evictions: u64,
    lines: BTreeMap<u64, u64>,
}

impl Plain {
    /// An access; the version that a read returns.
    fn access(&mut self, spec: &HamsSpec, address: u64, write: bool, version: u64) -> u64 {
        let page = address / spec.page.bytes();
        let frame = page % 4;
        match self.frames.get_mut(&frame) {
            Some((held, dirty)) if *held == page => {
                self.hits += 1;
                *dirty |= write;
            }
            other => {
                self.fills += 1;
                self.evictions += u64::from(other.is_some_and(|(_, dirty)| *dirty));
                self.frames.insert(frame, (page, write));
            }
        }
        let line = self.lines.entry(address / LINE_BYTES).or_default();
        if write {
            *line = version;
        }
        if write { 0 } else { *line }
    }
}

fn scripts() -> impl Strategy<Value = Vec<(u64, bool)>> {
    let page = prop_oneof![3 => 0..6u64, 1 => 0..64u64];
    let access = (page, 0..4u64, any::<bool>())
        .prop_map(|(page, line, write)| (page * 8 * KIB + line * 1_024, write));
    proptest::collection::vec(access, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn one_after_the_other_it_does_what_a_list_of_frames_does(
        script in scripts(),
        tight in any::<bool>(),
        persist in any::<bool>(),
        seed in 0..1_000u64,
    ) {
        let coupling = if tight { Coupling::Tight } else { Coupling::Loose };
        let mode = if persist { Mode::Persist } else { Mode::Extend };
        let spec = spec(coupling, mode);
        let mut run = Run::new(erratic(&spec, (3, 2), seed, true));
        let mut warm = erratic(&spec, (3, 2), seed, false);
        let mut plain = Plain::default();
        for (address, write) in script {
            let answer = run.ask(address, write);
            prop_assert_eq!(answer.version, plain.access(&spec, address, write, run.version));
            warm.warm(0, 0, address, write);
        }
        for hams in [&run.hams, &warm] {
            let counts = hams.manager().hams_report().counts;
            let ours = (counts.hits, counts.fills, counts.evictions, counts.clones);
            prop_assert_eq!(ours, (plain.hits, plain.fills, plain.evictions, plain.evictions));
            let report = hams.report();
            prop_assert_eq!(report.misses + counts.hits, report.lookups);
            prop_assert_eq!(report.traffic.store_read_bytes, plain.fills * spec.page.bytes());
            let written = plain.evictions * spec.page.bytes();
            prop_assert_eq!(report.traffic.store_written_bytes, written);
        }
        // One at a time, warming leaves and counts what detail does, but for the time.
        prop_assert_eq!(run.hams.report().traffic, warm.report().traffic);
        let mut detailed = run.hams.manager().hams_report().counts;
        prop_assert!(detailed.waited_ps > 0 || plain.fills == 0);
        detailed.waited_ps = 0;
        prop_assert_eq!(detailed, warm.manager().hams_report().counts);
        let asked = |hams: &Hams<Erratic, Erratic>| {
            let asked = hams.drive().log.iter().map(|(_, request, manner)| {
                let Request { address, bytes, write, .. } = *request;
                (address, bytes, write, manner.force_unit_access)
            });
            let mut asked: Vec<_> = asked.collect();
            asked.sort_unstable();
            asked
        };
        prop_assert_eq!(asked(&warm), asked(&run.hams), "what the drive is asked for");
    }
}
