//! The sequences of `docs/models/hams.md`: what happens to each access, stage by stage, and what the drive is asked
//! for, when.

use super::*;
use crate::organization::literate::{Scene, all_or_none, asked, page_says_what_happens};
use std::collections::VecDeque;

/// The machine that the first line of a block names, and what the drive's writes take beyond its reads.
fn machine(line: &str) -> (HamsSpec, u64) {
    let mut words = line.split(", ");
    let mut shape = match words.next() {
        Some("loose extend") => spec(Coupling::Loose, Mode::Extend),
        Some("loose persist") => spec(Coupling::Loose, Mode::Persist),
        Some("tight extend") => spec(Coupling::Tight, Mode::Extend),
        Some("tight persist") => spec(Coupling::Tight, Mode::Persist),
        machine => panic!("no machine is {machine:?}"),
    };
    let mut slower_ps = 0;
    for word in words {
        let number = word.split_whitespace().find_map(|word| word.parse::<u32>().ok());
        let number = number.unwrap_or_else(|| panic!("{word:?}: write a number"));
        match word.split_once(' ') {
            Some((_, "places to wait")) => shape.wait_entries = number,
            Some((_, "clone" | "clones")) => shape.prp_slots = number,
            Some((_, "commands")) => shape.queue_entries = number + 1,
            Some(("writes", "take 30 us")) => slower_ps = u64::from(number) * 1_000_000 - DRIVE_PS,
            _ => panic!("no machine has {word:?}"),
        }
    }
    (shape, slower_ps)
}

/// HAMS, and what was seen of it.
struct Watched {
    hams: Hams<Erratic, Erratic>,
    page_bytes: u64,
    seen: HamsCounts,
    /// The last of those that entered the wait queue, requests that stand still, and pages that come or go.
    waited: u64,
    stalled: Vec<u32>,
    misses: Vec<u64>,
    /// Requests that have not been looked up.
    coming: VecDeque<u32>,
    looked_up: u64,
}

impl Watched {
    fn new(spec: &HamsSpec, slower_ps: u64) -> Self {
        let memory = Erratic::new(MEMORY_PS, 0, Stage::Dram, 64, 1);
        let mut drive = Erratic::new(DRIVE_PS, 0, Stage::Medium, 64, 1);
        drive.slower_ps = slower_ps;
        Watched {
            hams: Hams::new(spec, SIZES, memory, drive, true),
            page_bytes: spec.page.bytes(),
            seen: HamsCounts::default(),
            waited: 0,
            stalled: Vec::new(),
            misses: Vec::new(),
            coming: VecDeque::new(),
            looked_up: 0,
        }
    }
}

impl Scene for Watched {
    fn memory(&mut self) -> &mut dyn Organization {
        &mut self.hams
    }

    fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    fn asks(&mut self, id: u32, _address: u64) {
        self.coming.push_back(id);
    }

    fn after(&mut self) -> Vec<(u32, String)> {
        let manager = self.hams.manager();
        let counts = manager.hams_report().counts;
        let since = counts.since(&self.seen);
        self.seen = counts;
        let looked_up: Vec<_> =
            self.coming.drain(..(manager.lookups - self.looked_up) as usize).collect();
        self.looked_up = manager.lookups;
        let hit = all_or_none(since.hits, looked_up.len());
        let hits: Vec<_> =
            looked_up.into_iter().filter(|_| hit).map(|id| (id, "hit".to_owned())).collect();
        let mut said = Vec::new();
        let misses: Vec<_> = manager.misses.iter().map(|(_, miss)| miss.page).collect();
        let mut begun: Vec<_> =
            misses.iter().copied().filter(|page| !self.misses.contains(page)).collect();
        assert_eq!(begun.len() as u64, since.fills, "begin them apart");
        for waiting in manager.wait_queue.iter().filter(|it| it.number >= self.waited) {
            let held = &manager.held[waiting.slot];
            let page = held.address / self.page_bytes;
            let what = match begun.iter().position(|other| *other == page) {
                Some(place) => {
                    begun.remove(place);
                    let evicts =
                        manager.misses.iter().any(|(_, it)| it.page == page && it.victim.is_some());
                    if evicts { "evict and fill" } else { "fill" }
                }
                None => "waits",
            };
            said.push((held.id, what.to_owned()));
        }
        assert_eq!(said.len() as u64, since.waits, "begin them apart");
        let stalled: Vec<_> = manager.stalled.iter().copied().collect();
        let still = stalled.iter().filter(|slot| !self.stalled.contains(slot));
        said.extend(still.map(|slot| (manager.held[*slot].id, "stands still".to_owned())));
        said.extend(hits);
        (self.waited, self.stalled, self.misses) = (manager.waited, stalled, misses);
        said
    }

    fn log(&self, name: &str) -> Option<Vec<(u64, String)>> {
        let drive = (name == "drive").then(|| self.hams.drive())?;
        let said = |(at_ps, request, manner): &(u64, Request, Manner)| {
            let forced = if manner.force_unit_access { ", forced" } else { "" };
            (*at_ps, asked(request, self.page_bytes, forced))
        };
        Some(drive.log.iter().map(said).collect())
    }
}

#[test]
fn the_sequences_of_the_documentation_are_what_happens() {
    let kinds = [
        "loose extend\nat 0 ns",
        "loose persist\nat 0 ns",
        "tight extend\nat 0 ns",
        "tight persist\nat 0 ns",
        "places to wait",
        "1 clone\n",
        "2 commands\n",
        "writes take 30 us",
        "stands still",
        "waits",
        "taken at",
        "evict and fill",
    ];
    page_says_what_happens("hams", &kinds, |first| {
        let (shape, slower_ps) = machine(first);
        Some(Box::new(Watched::new(&shape, slower_ps)))
    });
}
