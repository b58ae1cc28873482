//! Who causes it: what accesses have cost, by what of the address space they concern, and by where
//! in the program's code they come from.

use super::sites::Sites;
use crate::result::Cost;
use tierscope_kernel::{Stage, StageTimes, Timeline};
use tierscope_workload::SiteId;

/// What an access is counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    /// What it concerns, as [`tierscope_model::os::paging::Area::index`].
    pub area: u32,
    /// Where it comes from.
    pub site: SiteId,
}

/// What accesses have cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub accesses: u64,
    store_accesses: u64,
    pub call_waits: u64,
    memory_reads: u64,
    pub latency_ps: u128,
    pub stall_ps: u128,
}

/// Costs by area, in the order of their indices, and by site where that is asked for: the sums of
/// both are equal.
#[derive(Clone, Debug, Default)]
pub(super) struct Causes {
    areas: Vec<Counts>,
    pub sites: Option<Sites>,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.accesses += other.accesses;
        self.store_accesses += other.store_accesses;
        self.call_waits += other.call_waits;
        self.memory_reads += other.memory_reads;
        self.latency_ps += other.latency_ps;
        self.stall_ps += other.stall_ps;
    }

    /// As the result has it.
    pub fn cost(&self) -> Cost {
        Cost {
            accesses: self.accesses,
            store_accesses: self.store_accesses,
            call_waits: self.call_waits,
            memory_reads: self.memory_reads,
            latency_ns: self.latency_ps as f64 / 1e3,
            stall_ns: self.stall_ps as f64 / 1e3,
        }
    }
}

impl Causes {
    /// Nothing counted yet; by site too, if `by_site`.
    pub fn new(by_site: bool) -> Self {
        Causes { areas: Vec::new(), sites: by_site.then(Sites::default) }
    }

    fn add(&mut self, cause: Cause, counts: &Counts) {
        let index = cause.area as usize;
        if index >= self.areas.len() {
            self.areas.resize(index + 1, Counts::default());
        }
        self.areas[index].add(counts);
        if let Some(sites) = &mut self.sites {
            sites.of(cause.site).counts.add(counts);
        }
    }

    /// Counts by area.
    pub fn by_area(&self) -> impl Iterator<Item = (u32, &Counts)> {
        (0..).zip(&self.areas)
    }

    /// Sums over all areas.
    pub fn totals(&self) -> Counts {
        let mut totals = Counts::default();
        self.areas.iter().for_each(|counts| totals.add(counts));
        totals
    }

    /// An access whose stages have been recorded.
    pub fn record(
        &mut self,
        cause: Cause,
        latency_ps: u64,
        timeline: &Timeline,
        fault: Option<&StageTimes>,
    ) {
        let mut from_store = timeline.iter().any(|(stage, _)| stage == Stage::Medium);
        let mut stall_ps = 0;
        if let Some(fault) = fault {
            // What it waited for before it faulted has been told as that's stall.
            stall_ps = fault.iter().sum::<u64>() - fault[Stage::Core as usize];
            from_store |= fault[Stage::Medium as usize] > 0;
        }
        let store_accesses = u64::from(from_store);
        let (latency_ps, stall_ps) = (u128::from(latency_ps), u128::from(stall_ps));
        let counts =
            Counts { accesses: 1, store_accesses, latency_ps, stall_ps, ..Counts::default() };
        self.add(cause, &counts);
    }

    /// A line is read from main memory for it.
    pub fn memory_read(&mut self, cause: Cause) {
        self.add(cause, &Counts { memory_reads: 1, ..Counts::default() });
    }

    /// A thread has stood still for it.
    pub fn stall(&mut self, cause: Cause, stall_ps: u64) {
        self.add(cause, &Counts { stall_ps: stall_ps.into(), ..Counts::default() });
    }

    /// A call on a file has waited, for the store or only for main memory.
    pub fn wait_in_call(&mut self, cause: Cause, stall_ps: u64, from_store: bool) {
        let (call_waits, stall_ps) = (u64::from(from_store), u128::from(stall_ps));
        self.add(cause, &Counts { call_waits, stall_ps, ..Counts::default() });
    }
}
