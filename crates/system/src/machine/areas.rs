//! Who causes it: misses and stalls by what of the address space they concern.

use super::thread::{Access, Place};
use super::{Context, Fixed, Machine};
use crate::result::AreaResult;
use std::collections::BTreeMap;
use tierscope_kernel::{Stage, StageTimes, Timeline};
use tierscope_model::os::paging::{Area, Paging};

/// What accesses to an area have cost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AreaCounts {
    accesses: u64,
    store_accesses: u64,
    call_waits: u64,
    pub memory_reads: u64,
    latency_ps: u64,
    pub stall_ps: u64,
}

/// Counts by area, in the order of [`Area::index`].
#[derive(Clone, Debug, Default)]
pub(super) struct Areas(Vec<AreaCounts>);

impl AreaCounts {
    /// A call on a file has waited, for the store or only for main memory.
    pub fn wait_in_call(&mut self, duration_ps: u64, from_store: bool) {
        self.call_waits += u64::from(from_store);
        self.stall_ps += duration_ps;
    }
}

impl Areas {
    pub fn of(&mut self, area: u32) -> &mut AreaCounts {
        let index = area as usize;
        if index >= self.0.len() {
            self.0.resize(index + 1, AreaCounts::default());
        }
        &mut self.0[index]
    }

    /// Accesses, and the sum of their latencies in picoseconds, of all areas.
    pub fn totals(&self) -> (u64, u64) {
        let sum = |of: fn(&AreaCounts) -> u64| self.0.iter().map(of).sum();
        (sum(|counts| counts.accesses), sum(|counts| counts.latency_ps))
    }

    /// An access whose stages have been recorded.
    pub fn record(
        &mut self,
        area: u32,
        latency_ps: u64,
        timeline: &Timeline,
        fault: Option<&StageTimes>,
    ) {
        let counts = self.of(area);
        counts.accesses += 1;
        counts.latency_ps += latency_ps;
        let mut from_store = timeline.iter().any(|(stage, _)| stage == Stage::Medium);
        if let Some(fault) = fault {
            // What it waited for before it faulted has been told as that's stall.
            counts.stall_ps += fault.iter().sum::<u64>() - fault[Stage::Core as usize];
            from_store |= fault[Stage::Medium as usize] > 0;
        }
        counts.store_accesses += u64::from(from_store);
    }
}

impl Context {
    /// The area that an access of the program concerns.
    #[inline]
    pub(super) fn area_of(&mut self, paging: &Paging, fixed: &Fixed, access: &Access) -> u32 {
        let Place::Virtual(address) = access.place else { return Area::REST };
        let page = address >> fixed.page_shift;
        if !self.area.pages.contains(&page) {
            self.area = paging.area(page);
        }
        self.area.index
    }
}

impl Machine {
    /// Mappings have changed: what was seen of areas may be so no more.
    pub(super) fn forget_areas(&mut self) {
        for context in &mut self.contexts {
            context.area = Area::default();
        }
    }

    /// What the accesses to each area have cost, by its name. Files of one name are one.
    pub(super) fn areas(&self) -> BTreeMap<String, AreaResult> {
        let files = self.stream.files();
        let mut areas: BTreeMap<String, AreaResult> = BTreeMap::new();
        for (index, counts) in self.account.areas.0.iter().enumerate() {
            if counts.accesses == 0 && counts.call_waits == 0 {
                continue;
            }
            let name = match Area::file(index as u32) {
                Some(file) => files
                    .get(file as usize)
                    .map_or_else(|| format!("file {file}"), |file| file.name.clone()),
                None => Area::NAMES[index].to_owned(),
            };
            let sum = areas.entry(name).or_default();
            sum.accesses += counts.accesses;
            sum.store_accesses += counts.store_accesses;
            sum.call_waits += counts.call_waits;
            sum.memory_reads += counts.memory_reads;
            sum.latency_ns += counts.latency_ps as f64 / 1e3;
            sum.stall_ns += counts.stall_ps as f64 / 1e3;
        }
        areas
    }
}
