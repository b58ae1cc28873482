//! What a drive holds, against a plain map.

use super::*;
use crate::device::ssd::translation::Stream;
use proptest::prelude::*;
use std::collections::HashMap;

/// A translation layer whose flash holds versions: what is at a place is what was programmed there
/// last, and nothing after an erase. Steps are done at once, without time.
struct Flash {
    layer: Translation,
    /// The version at each place. What was there at the start is version 0.
    versions: HashMap<u32, u64>,
    free_blocks: u32,
}

impl Flash {
    fn new(spec: &SsdSpec) -> Self {
        let drive = Ssd::new(spec);
        let layer = drive.layer().clone();
        Flash { layer, versions: HashMap::new(), free_blocks: spec.collection.free_blocks }
    }

    fn write(&mut self, lane: u32, writes: &[(u64, u64)]) {
        let lanes = self.layer.geometry().lanes;
        let lane = (0..lanes)
            .map(|n| (lane + n) % lanes)
            .find(|&lane| self.layer.has_room(lane, Stream::Host))
            .expect("some lane has room");
        let page = self.layer.allocate(lane, Stream::Host).unwrap();
        for (n, &(unit, version)) in (0..).zip(writes) {
            let place = self.layer.geometry().place(page, n);
            self.layer.put(unit, place, Stream::Host);
            self.versions.insert(place, version);
        }
        self.layer.programmed(page);
        for lane in 0..lanes {
            self.collect(lane);
        }
    }

    fn collect(&mut self, lane: u32) {
        let geometry = *self.layer.geometry();
        while self.layer.free_blocks(lane) < self.free_blocks {
            let Some(block) = self.layer.begin_collection(lane, true) else { return };
            let mut gathered = Vec::new();
            for page in 0..geometry.block_pages() {
                let page = Page { lane, block, page };
                let live = self.layer.live(page);
                for n in (0..geometry.page_units).filter(|n| live >> n & 1 == 1) {
                    let place = geometry.place(page, n);
                    gathered.push((self.layer.unit(place).unwrap(), place));
                }
            }
            for units in gathered.chunks(geometry.page_units as usize) {
                let page = self.layer.allocate(lane, Stream::Moved).expect("room is reserved");
                for (n, &(unit, from)) in (0..).zip(units) {
                    let place = geometry.place(page, n);
                    let version = self.versions.get(&from).copied().unwrap_or(0);
                    self.layer.put_moved(unit, from, place);
                    self.versions.insert(place, version);
                }
                self.layer.programmed(page);
            }
            self.layer.erased(lane, block);
            let first = geometry.place(Page { lane, block, page: 0 }, 0);
            for place in first..first + geometry.block_units() {
                self.versions.insert(place, u64::MAX);
            }
        }
    }

    fn read(&self, unit: u64) -> Option<u64> {
        let place = self.layer.place(unit)?;
        Some(self.versions.get(&place).copied().unwrap_or(0))
    }
}

fn drives() -> impl Strategy<Value = SsdSpec> {
    let initial = prop_oneof![
        Just(InitialFlash::Erased),
        Just(InitialFlash::Written),
        Just(InitialFlash::Steady)
    ];
    let policy = prop_oneof![Just(VictimPolicy::Greedy), Just(VictimPolicy::CostBenefit)];
    let shape = (1..3u32, 1..3u32, 0..3u32, prop_oneof![Just(2048u64), Just(4096), Just(16_384)]);
    let striping = prop_oneof![Just("c-w-d-p"), Just("p-d-w-c"), Just("w-p-c-d")];
    let difference = prop_oneof![Just(0u32), 1..4u32];
    let idle = prop::option::of((0..2000u64, 3..9u32));
    let maps = prop::option::of((0..20u64, prop_oneof![Just(4u64), Just(512), Just(1024)]));
    let levels = (difference, idle);
    (initial, policy, 0..4u32, shape, striping, levels, maps).prop_map(
        |(initial, policy, window, (planes, dies, bad, page), striping, levels, map)| {
            let (difference, idle) = levels;
            let idle = idle.map(|(after, free_blocks)| IdleSpec { after: us(after), free_blocks });
            let flash = NandSpec {
                planes,
                dies,
                blocks: 14,
                pages: 5,
                page: Size::from_bytes(page),
                ..nand()
            };
            let split = if page == 2048 { 2 } else { 1 };
            let pages = flash.bytes() as u64 / 4096 * 4 / 10;
            SsdSpec {
                capacity: Size::from_bytes(pages * 4096),
                split,
                nand: flash,
                initial,
                striping: striping.into(),
                collection: CollectionSpec { policy, window, idle, ..spec().collection },
                map: map.map(|(more, entry)| MapSpec {
                    cache: Size::from_bytes(page.max(4096) + more * 4096),
                    entry: Size::from_bytes(entry),
                }),
                wear: WearSpec { difference, factory_bad: f64::from(bad) * 0.01, endurance: 3 },
                ..spec()
            }
        },
    )
}

/// What is done: pages written together, or one given back.
type Script = Vec<(Vec<u64>, u32, bool)>;

fn scripts() -> impl Strategy<Value = Script> {
    let step = (prop::collection::vec(any::<u64>(), 1..5), 0..8u32, prop::bool::weighted(0.1));
    prop::collection::vec(step, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_unit_holds_what_was_written_last(spec in drives(), script in scripts()) {
        let mut problems = tierscope_units::Problems::new();
        crate::device::DeviceDescription::check(&spec, "ssd", &mut problems);
        prop_assume!(problems.is_empty());
        let units = spec.capacity.bytes() / 4096;
        let mut flash = Flash::new(&spec);
        let filled = spec.initial != InitialFlash::Erased;
        let mut plain: HashMap<u64, Option<u64>> = HashMap::new();
        let of_map = spec.map_pages();
        flash.layer.check(units + of_map);
        for (version, (pages, lane, trims)) in (1..).zip(script) {
            let mut pages: Vec<_> = pages.iter().map(|page| page % units).collect();
            pages.sort_unstable();
            pages.dedup();
            pages.truncate(flash.layer.geometry().page_units as usize);
            if trims {
                flash.layer.trim(pages[0]);
                plain.insert(pages[0], None);
                continue;
            }
            let writes: Vec<_> = pages.iter().map(|&page| (page, version)).collect();
            flash.write(lane, &writes);
            plain.extend(writes.iter().map(|&(page, version)| (page, Some(version))));
        }
        flash.layer.check(units + of_map);
        for unit in 0..units {
            let expected = plain.get(&unit).copied().unwrap_or(filled.then_some(0));
            prop_assert_eq!(flash.read(unit), expected, "unit {}", unit);
        }
    }

    #[test]
    fn a_drive_under_way_loses_nothing_and_counts_agree(
        spec in drives(),
        script in prop::collection::vec((any::<u64>(), any::<bool>(), 0..400u64), 1..300),
    ) {
        let mut problems = tierscope_units::Problems::new();
        crate::device::DeviceDescription::check(&spec, "ssd", &mut problems);
        prop_assume!(problems.is_empty());
        let units = spec.capacity.bytes() / 4096;
        let mut drive = Ssd::new(&spec);
        let mut now_ps = 0;
        let accesses: Vec<_> = (0..).zip(&script).map(|(token, &(page, write, gap))| {
            now_ps += gap * US / 4;
            (now_ps, page_access(token, page % units, write))
        }).collect();
        let done = run(&mut drive, &accesses);
        prop_assert_eq!(done.len(), accesses.len());
        drive.layer.check(units + spec.map_pages());
        let report = drive.report();
        let writes = script.iter().filter(|(_, write, _)| *write).count() as u64;
        prop_assert_eq!(report.host.written_pages, writes);
        prop_assert_eq!(report.host.read_pages + writes, script.len() as u64);
        let it = report.translation;
        // Every unit that was programmed was put or is padding, and every die did its part.
        let programmed = (it.host_units + it.moved_units + it.map_units + it.padded_units)
            / u64::from(drive.layer.geometry().page_units);
        prop_assert_eq!(report.nand.programs, programmed * u64::from(spec.split));
        prop_assert_eq!(it.map_units, report.map.writes);
        prop_assert_eq!(report.nand.erases, it.erases * u64::from(spec.split));
        prop_assert!(it.host_units <= writes, "overwritten in the buffer, or written once");
        prop_assert!(drive.jobs.is_empty() && drive.accesses.is_empty());
    }
}
