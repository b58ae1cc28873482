//! The region of interest: what of a run is measured. What comes before it warms the machine, and is
//! not counted.

use super::counts::Beside;
use super::thread::{BUSY, OWNERS};
use super::{Event, Machine};
use crate::result::Skipped;
use crate::run::RunOptions;
use serde::{Deserialize, Serialize};
use tierscope_model::activity::Activity;
use tierscope_model::organization::OrganizationReport;
use tierscope_model::os::block_layer::{BlockLayer, BlockLayerCounts};
use tierscope_model::os::buffer_cache::BufferCacheCounters;
use tierscope_model::os::file_system::FileSystemCounters;
use tierscope_model::os::paging::OsCounters;
use tierscope_model::os::reclaim::ReclaimCounters;

/// Where a region begins, counted from the start of the run, or ends, counted from its beginning:
/// on each machine by itself.
///
/// Counts are of the program, all threads together. A mark is exact. A count is met to the access
/// where one thread runs, and within a few accesses where several do; a time within an operation, or
/// a path through the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Bound {
    /// After so many accesses.
    Accesses(u64),
    /// After so many instructions.
    Instructions(u64),
    /// After so much simulated time, in picoseconds.
    TimePs(u64),
    /// When any thread passes this mark: see [`mark`].
    Mark(u64),
}

/// How what precedes the region of interest, and what a sampled run passes over, warms the machine.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Warming {
    /// Caches, TLBs, page tables, page cache and DRAM cache become as they would, at once: accesses
    /// and transfers take no time, and queues and row buffers start empty. Where a time is skipped,
    /// data are checked, or a DRAM cache prefetches, it is in detail all the same.
    #[default]
    Functional,
    /// As in the region itself.
    Detailed,
    /// The first, whether or not a DRAM cache prefetches: all that it would prefetch finds room. So nearly all does
    /// where what is skipped goes through memory in order; elsewhere some would have been dropped. In what a sampled
    /// run passes over, each takes a place for as long as they did in detail, in the mean.
    Untimed,
}

/// Marks that the program gives ([`tierscope_workload::Call::Marker`]).
pub mod mark {
    /// The region of interest begins.
    pub const START: u64 = 1;
    /// The region of interest ends.
    pub const STOP: u64 = 2;
}

/// Where the run stands with respect to its region.
#[derive(Clone, Debug, Default)]
pub(super) struct Region {
    start: Option<Bound>,
    stops: Vec<Bound>,
    begun: bool,
    /// What comes before it warms the machine so.
    warming: Warming,
    /// What is in it only warms the machine, too.
    counts_alone: bool,
    ended_by: Option<Bound>,
    /// When it began.
    pub start_ps: u64,
    pub skipped: Option<Skipped>,
    /// What had been counted when it began.
    pub organization: OrganizationReport,
    pub activity: Activity,
    pub os: OsCounters,
    pub reclaim: ReclaimCounters,
    pub buffer_cache: BufferCacheCounters,
    pub file_system: FileSystemCounters,
    pub block_layer: BlockLayerCounts,
    /// Events of the queue that are bounds.
    pub events: usize,
}

impl Region {
    /// Of a machine that can be warmed functionally, or without times alone, or in detail alone.
    pub fn new(options: &RunOptions, quickest: Warming) -> Self {
        let RunOptions { start, warming, counts_alone, .. } = *options;
        let at_a_time = matches!(start, Some(Bound::TimePs(_)));
        let warming = match (warming, quickest) {
            (Warming::Functional | Warming::Untimed, Warming::Functional) if !at_a_time => quickest,
            (Warming::Untimed, Warming::Untimed) if !at_a_time => quickest,
            _ => Warming::Detailed,
        };
        Region {
            start,
            stops: options.stops.clone(),
            begun: start.is_none(),
            warming,
            counts_alone,
            ..Region::default()
        }
    }

    /// Whether what happens now only warms the machine.
    #[inline]
    pub fn warms_functionally(&self) -> bool {
        (!self.begun || self.counts_alone) && self.warming != Warming::Detailed
    }

    /// Whether what happens now is counted.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// The bounds of which any comes next.
    #[inline]
    fn next(&self) -> &[Bound] {
        if self.begun { &self.stops } else { self.start.as_slice() }
    }

    /// Operations that may be run before the next bound has to be looked at again.
    #[inline]
    pub fn budget(&self, accesses: u64, instructions: u64) -> u64 {
        let budgets = self.next().iter().map(|bound| match bound {
            Bound::Accesses(count) => count.saturating_sub(accesses).max(1),
            // An operation has a few instructions, mostly.
            Bound::Instructions(count) => (count.saturating_sub(instructions) / 64).max(1),
            Bound::TimePs(_) | Bound::Mark(_) => u64::MAX,
        });
        budgets.min().unwrap_or(u64::MAX)
    }

    /// Whether no count is gone beyond that has to be looked at, where there will be so many accesses and instructions.
    #[inline]
    pub fn has_room(&self, accesses: u64, instructions: u64) -> bool {
        self.next().iter().all(|bound| match bound {
            Bound::Accesses(count) => accesses <= *count,
            Bound::Instructions(count) => instructions <= *count,
            Bound::TimePs(_) | Bound::Mark(_) => true,
        })
    }

    /// The count that has been reached, if one has.
    fn reached(&self, accesses: u64, instructions: u64) -> Option<Bound> {
        let reached = |bound: &&Bound| match **bound {
            Bound::Accesses(count) => accesses >= count,
            Bound::Instructions(count) => instructions >= count,
            Bound::TimePs(_) | Bound::Mark(_) => false,
        };
        self.next().iter().find(reached).copied()
    }
}

impl Machine {
    /// What ended the region before the workload ended, if something did.
    pub fn region_ended_by(&self) -> Option<Bound> {
        self.region.ended_by
    }

    /// What the region waits for in vain, if the workload ended before it began.
    pub fn region_never_began(&self) -> Option<Bound> {
        self.region.start.filter(|_| !self.region.begun)
    }

    /// Whether the workload ended before a mark that was to end the region.
    pub fn region_stop_was_missed(&self) -> bool {
        let by_mark = |bound: &Bound| matches!(bound, Bound::Mark(_));
        self.region.begun
            && self.region.ended_by.is_none()
            && self.finished()
            && self.region.stops.iter().any(by_mark)
    }

    /// Looks at the next bounds, after something has happened; whether the region has ended.
    #[inline]
    pub(super) fn mind_region(&mut self) -> bool {
        if !self.region.next().is_empty()
            && let Some(bound) = self.region.reached(self.accesses(), self.instructions())
        {
            // No later event, and no running thread, will be charged for time before this.
            let running_ps = self.first_running().map(|index| self.contexts[index].now_ps);
            let soonest_ps = running_ps.into_iter().chain(self.next_event_ps()).min();
            self.pass_bound(bound, soonest_ps.unwrap_or(self.now_ps()));
        }
        self.region.ended_by.is_some()
    }

    /// A thread gives a mark, at the time of an event.
    pub(super) fn pass_mark(&mut self, given: u64, now_ps: u64) {
        if self.region.next().contains(&Bound::Mark(given)) {
            self.pass_bound(Bound::Mark(given), now_ps);
        }
    }

    /// The time of a bound has come.
    pub(super) fn pass_time_bound(&mut self, now_ps: u64) {
        self.region.events -= 1;
        // Time between windows does not count; when it ends, bounds are looked for anew.
        if self.between.is_warming() {
            return;
        }
        let bound = Bound::TimePs(now_ps - self.region.start_ps);
        // A time of a region that has not begun by then is not one of these.
        if self.region.next().contains(&bound) {
            self.pass_bound(bound, now_ps);
            if self.region.ended_by.is_some() {
                // What still waits has waited up to here.
                self.charge_all(now_ps);
            }
        }
    }

    pub(super) fn schedule_bounds(&mut self) {
        for bound in self.region.next().to_vec() {
            if let Bound::TimePs(after_ps) = bound {
                let at_ps = self.region.start_ps.saturating_add(after_ps);
                self.region.events += 1;
                self.queue.push(at_ps, self.fixed.interval_sources, Event::Bound);
            }
        }
    }

    fn pass_bound(&mut self, bound: Bound, now_ps: u64) {
        if self.region.begun {
            self.region.ended_by = Some(bound);
            return;
        }
        self.begin_region(now_ps);
        self.schedule_bounds();
        self.begin_sampling(now_ps);
    }

    /// All that is counted begins anew. Nothing that comes is charged for time before `start_ps`.
    fn begin_region(&mut self, start_ps: u64) {
        self.region.begun = true;
        self.functional = self.region.counts_alone;
        self.beside.iter_mut().for_each(Beside::begin_region);
        self.region.skipped = Some(Skipped {
            accesses: self.account.accesses(),
            instructions: self.account.instructions,
            time_ps: start_ps,
            warming: self.region.warming,
        });
        self.region.start_ps = start_ps;
        self.region.organization = self.organization.report();
        self.region.activity = self.organization.activity(start_ps);
        self.region.os = self.paging.counters;
        self.region.reclaim = self.paging.reclaim_counters();
        self.region.buffer_cache = self.paging.buffer_cache_counters().unwrap_or_default();
        self.region.file_system = self.paging.file_system_counters().unwrap_or_default();
        self.region.block_layer = self.all_block_layer_counts().unwrap_or_default();
        self.account.restart(start_ps);
        self.cores.iter_mut().for_each(|core| core.occupancy.restart(start_ps));
        for thread in &mut self.threads {
            // Waiting that goes on is charged once it is known to what; its part before the region
            // counts no more.
            if thread.clock_ps < start_ps {
                thread.charge_until(thread.waits_on(), start_ps);
            }
            let mut times = [0; OWNERS];
            times[BUSY] = thread.clock_ps - start_ps;
            thread.set_times(times);
        }
    }

    /// What the organization has counted in the region.
    pub(super) fn organization_report(&self) -> OrganizationReport {
        self.organization.report().since(&self.region.organization)
    }

    /// What the operating system has counted in the region.
    pub(super) fn os_counters(&self) -> OsCounters {
        self.paging.counters.since(&self.region.os)
    }

    /// What reclaim has done in the region.
    pub(super) fn reclaim_counters(&self) -> ReclaimCounters {
        self.paging.reclaim_counters().since(&self.region.reclaim)
    }

    /// What the extended buffer cache has done in the region, where there is one.
    pub(super) fn buffer_cache_counters(&self) -> Option<BufferCacheCounters> {
        let counters = self.paging.buffer_cache_counters()?;
        Some(counters.since(&self.region.buffer_cache))
    }
    /// What the file system has done in the region, where one is described.
    pub(super) fn file_system_counters(&self) -> Option<FileSystemCounters> {
        let counters = self.paging.file_system_counters()?;
        Some(counters.since(&self.region.file_system))
    }

    /// What the block layer has done since the start, where one is described.
    pub(super) fn all_block_layer_counts(&self) -> Option<BlockLayerCounts> {
        self.block_layer.as_ref().map(|layer: &BlockLayer| layer.counts)
    }

    /// What it has done in the region.
    pub(super) fn block_layer_counts(&self) -> Option<BlockLayerCounts> {
        Some(self.all_block_layer_counts()?.since(&self.region.block_layer))
    }
}
