//! What a machine counts, and the two accounts of time: stages of accesses, owners of threads.

use super::calls::Returned;
use super::causes::{Cause, Causes};
use super::faults::Ended;
use super::memory::Miss;
use super::prefetch::{Ahead, PREFETCH};
use super::thread::{Access, BUSY, Begun, IDLE, OWNERS, Thread, owner_name};
use super::{Core, Event, Fixed, Machine};
use crate::disk::disk_result;
use crate::distributions::{distribution, heat_map, queues};
use crate::drive::{bound_shares, drive_result};
use crate::energy::{counters_of, energy_result, nvdimm_note, nvdimm_result};
use crate::nvm::nvm_result;
use crate::result::{Bytes, Distribution, EnergyResult, Interval, LatencySummary, SystemResult};
use crate::sampling::estimate;
use std::collections::BTreeMap;
use tierscope_kernel::{
    CowMap, DepthSeries, HeatMap, LatencyHistogram, Stage, StageTimes, Timeline,
};
use tierscope_model::activity::{Activity, Energy};
use tierscope_model::organization::Durable;
use tierscope_model::os::readahead::Folio;
use tierscope_model::processor::OnChipCacheSpec;
use tierscope_model::processor::energy::ProcessorUse;
use tierscope_model::request::Traffic;
use tierscope_workload::SiteId;
use tierscope_workload::op::FileId;

/// The counter of hits in a cache.
fn hits_of(cache: &OnChipCacheSpec) -> String {
    format!("hits_{}", cache.name.to_lowercase())
}

/// Length of the first intervals; after every 512 it doubles.
pub(super) const FIRST_INTERVAL_PS: u64 = 100_000_000;
const INTERVALS_OF_A_LENGTH: usize = 512;
/// Time from one end of an interval that nobody counts to the next.
const UNUSED_INTERVAL_PS: u64 = 1_000_000_000_000;
/// Samples of queues in an interval.
const SAMPLES_OF_AN_INTERVAL: u64 = 16;
pub(super) const FIRST_SAMPLE_PS: u64 = FIRST_INTERVAL_PS / SAMPLES_OF_AN_INTERVAL;
/// Accesses are told apart by pages of 4 KiB at most, and these counts by 1.024 ns.
const PAGE_SHIFT: u32 = 12;
const COLUMN_SHIFT: u32 = 10;

/// Versions of the newest data, where data are checked.
#[derive(Debug)]
struct Golden {
    memory: CowMap<u64>,
    store: CowMap<u64>,
    /// What the extended buffer cache holds, by place in the store.
    kept: CowMap<u64>,
    next: u64,
}

/// What an interval counts, from the beginning. Sums of latencies are wider than a latency: with
/// many accesses under way they pass what counts a run's time.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    instructions: u64,
    accesses: u64,
    latency_ps: u128,
    misses: u64,
    store_read_bytes: u64,
    store_written_bytes: u64,
}

/// A hit of a private cache that had waited, walked or faulted before.
pub(super) struct SlowHit {
    pub write: bool,
    pub area: u32,
    pub end_ps: u64,
    pub timeline: Timeline,
    /// Time by stage of a fault before these.
    pub fault: Option<Box<StageTimes>>,
}

/// Counters of what the program's accesses bring about, as they stood.
pub(super) type Incidental = [u64; 21];

/// Counters.
#[derive(Debug)]
pub(super) struct Account {
    /// Hits of the program by private level, without and with the second-level TLB.
    hits: Vec<[u64; 2]>,
    /// Further hits of the program by private level: those that had waited, walked or faulted
    /// before. Their stages are recorded.
    late_hits: Vec<u64>,
    /// Of the hits, in functional warming, those that the first level did not serve, by the private level that did;
    /// behind these, those that none did.
    pub served_beyond: Vec<u64>,
    histogram: LatencyHistogram,
    /// Accesses of the program that were recorded, by address and time.
    heat: HeatMap,
    /// What queues held.
    depths: DepthSeries,
    /// When it began to count.
    pub since_ps: u64,
    pub returned: Returned,
    /// Faults that have ended.
    pub ended: Ended,
    /// Sums of all that were recorded.
    stages: [u128; Stage::ALL.len()],
    recorded: u64,
    pub causes: Causes,
    pub instructions: u64,
    pub kernel_instructions: u64,
    pub walks: u64,
    pub shared_hits: u64,
    /// Lines that prefetchers have asked main memory for, and misses that came while they were on
    /// their way.
    pub prefetches: u64,
    pub late_prefetches: u64,
    pub memory_reads: u64,
    /// Copies that cores had to give up for another's store, lines that one core's caches gave another's, and
    /// stores to lines that their own core's caches had, shared with others.
    pub invalidations: u64,
    pub cache_transfers: u64,
    pub upgrades: u64,
    /// Copies that cores had to give up as an inclusive shared cache dropped their line.
    pub back_invalidations: u64,
    /// Lines stored to past the caches, flushes, and lines that were written back by these.
    pub lines_past: u64,
    pub flushes: u64,
    pub flushed_lines: u64,
    /// Hints of what a program will need, and those of addresses at which nothing is mapped.
    pub hints: u64,
    pub hints_unmapped: u64,
    /// Flushes of a DRAM cache that syncs of files have asked for.
    pub flushes_of_cache: u64,
    /// Accesses that the first level of the core's caches could not serve, but for those that wait for
    /// a line on its way for another: without time, as in functional warming, it would be there.
    pub beyond_first: u64,
    pub faults: u64,
    pub calls: u64,
    /// Calls that ask for the durability of a file (fsync, fdatasync, msync).
    pub syncs: u64,
    /// Bytes that calls read from files, and wrote to them.
    pub file_read_bytes: u64,
    pub file_written_bytes: u64,
    /// Of these, past the page cache.
    pub direct_read_bytes: u64,
    pub direct_written_bytes: u64,
    /// Direct calls (`O_DIRECT`) where there is no page cache that they could go past.
    pub direct_in_vain: u64,
    pub interrupts: u64,
    /// Interrupts that pass completions on to another hardware thread.
    pub completion_interrupts: u64,
    pub context_switches: u64,
    /// Of these, away from reads that take long.
    pub long_reads: u64,
    pub shootdowns: u64,
    /// Times that a thread had to wait for the lock of a file.
    pub file_lock_waits: u64,
    /// Cores that were interrupted to forget translations.
    pub shootdown_interrupts: u64,
    /// Processes forked.
    pub forks: u64,
    pub started: u64,
    pub stale_loads: u64,
    golden: Option<Golden>,
    pub intervals: Vec<Interval>,
    interval_ps: u64,
    /// Samples of the interval under way.
    samples: u64,
    before: Sums,
    end_ps: Option<u64>,
}

impl Account {
    pub fn new(private_levels: usize, check_data: bool, by_site: bool) -> Self {
        Account {
            hits: vec![[0; 2]; private_levels],
            late_hits: vec![0; private_levels],
            served_beyond: vec![0; private_levels + 1],
            histogram: LatencyHistogram::new(),
            heat: HeatMap::new(PAGE_SHIFT, COLUMN_SHIFT),
            depths: DepthSeries::new(COLUMN_SHIFT),
            since_ps: 0,
            returned: Returned::default(),
            ended: Ended::default(),
            stages: [0; Stage::ALL.len()],
            recorded: 0,
            causes: Causes::new(by_site),
            instructions: 0,
            kernel_instructions: 0,
            walks: 0,
            shared_hits: 0,
            prefetches: 0,
            late_prefetches: 0,
            memory_reads: 0,
            invalidations: 0,
            cache_transfers: 0,
            upgrades: 0,
            back_invalidations: 0,
            lines_past: 0,
            flushes: 0,
            flushed_lines: 0,
            hints: 0,
            hints_unmapped: 0,
            flushes_of_cache: 0,
            beyond_first: 0,
            faults: 0,
            calls: 0,
            syncs: 0,
            file_read_bytes: 0,
            file_written_bytes: 0,
            direct_read_bytes: 0,
            direct_written_bytes: 0,
            direct_in_vain: 0,
            interrupts: 0,
            completion_interrupts: 0,
            context_switches: 0,
            long_reads: 0,
            shootdowns: 0,
            file_lock_waits: 0,
            shootdown_interrupts: 0,
            forks: 0,
            started: 0,
            stale_loads: 0,
            golden: check_data.then(|| Golden {
                memory: CowMap::new(0),
                store: CowMap::new(0),
                kept: CowMap::new(0),
                next: 0,
            }),
            intervals: Vec::new(),
            interval_ps: FIRST_INTERVAL_PS,
            samples: 0,
            before: Sums::default(),
            end_ps: None,
        }
    }

    /// A hit of a private level whose latency is the level's.
    #[inline]
    pub fn hit(&mut self, measured: bool, level: usize, second_tlb: bool, site: SiteId) {
        self.hits[level][usize::from(second_tlb)] += u64::from(measured);
        self.hits_of_site(site, u64::from(measured));
    }

    /// Hits of the program in the first level. By site they are counted apart.
    #[inline]
    pub fn hits_of_first_level(&mut self, count: u64) {
        self.hits[0][0] += count;
    }

    /// Counts hits by the site that they come from, where that is asked for.
    #[inline]
    pub fn hits_of_site(&mut self, site: SiteId, count: u64) {
        if let Some(sites) = &mut self.causes.sites {
            sites.hit(site, count);
        }
    }

    /// The hit just counted had waited, or had faulted before: its own stages are recorded instead.
    pub fn slow_hit(
        &mut self,
        (access, cause): (Access, Cause),
        thread: &mut Thread,
        level: usize,
        now_ps: u64,
        (tlb_ps, latency_ps): (u64, u64),
    ) -> Option<SlowHit> {
        let Begun { start_ps, mut timeline, fault } = thread.begin(access, now_ps, &mut self.ended);
        if !access.measured {
            return None;
        }
        timeline.push(Stage::Tlb, tlb_ps);
        timeline.push(Stage::Cache, latency_ps);
        self.hits[level][usize::from(tlb_ps != 0)] -= 1;
        self.late_hits[level] += 1;
        if let Some(sites) = &mut self.causes.sites {
            sites.take_hit_back(cause.site);
        }
        let recorded_ps = self.record(cause, &timeline, fault.as_deref());
        let end_ps = now_ps + tlb_ps + latency_ps;
        self.heat.count(access.place.address(), end_ps.saturating_sub(self.since_ps));
        debug_assert_eq!(recorded_ps, end_ps - start_ps);
        Some(SlowHit { write: access.write, area: cause.area, end_ps, timeline, fault })
    }

    /// A miss has its data.
    pub fn finish(&mut self, miss: &Miss, at_ps: u64) {
        if miss.measured {
            let recorded_ps = self.record(miss.cause, &miss.timeline, miss.fault.as_deref());
            let latency_ps = at_ps - miss.start_ps;
            assert_eq!(recorded_ps, latency_ps, "stages do not add up: {:?}", miss.timeline);
            self.heat.count(miss.address, at_ps.saturating_sub(self.since_ps));
            if let Some(level) = miss.level {
                self.late_hits[level] += 1;
            }
        }
    }

    /// An access that joined a miss has its data.
    pub fn finish_merged(
        &mut self,
        (cause, address): (Cause, u64),
        timeline: &Timeline,
        fault: Option<&StageTimes>,
        at_ps: u64,
    ) {
        self.record(cause, timeline, fault);
        self.heat.count(address, at_ps.saturating_sub(self.since_ps));
    }

    /// Records an access's stages, those of a fault before them included; its latency.
    pub fn record(&mut self, cause: Cause, timeline: &Timeline, fault: Option<&StageTimes>) -> u64 {
        let mut latency_ps = timeline.total_ps();
        for (stage, time_ps) in timeline.iter() {
            self.stages[stage as usize] += u128::from(time_ps);
        }
        for (sum_ps, time_ps) in self.stages.iter_mut().zip(fault.into_iter().flatten()) {
            *sum_ps += u128::from(*time_ps);
            latency_ps += time_ps;
        }
        self.histogram.record(latency_ps);
        self.recorded += 1;
        self.causes.record(cause, latency_ps, timeline, fault);
        latency_ps
    }

    /// Sum of latencies by stage; `of_level` tells what a hit of a private level takes in
    /// caches, and more with the second-level TLB.
    pub fn latencies_by_stage(
        &self,
        of_level: impl Fn(usize) -> (u64, u64),
    ) -> impl Iterator<Item = (Stage, u128)> {
        let mut sums_ps = self.stages;
        for (level, counts) in self.hits.iter().enumerate() {
            let (cache_ps, tlb_ps) = of_level(level);
            sums_ps[Stage::Cache as usize] +=
                u128::from(cache_ps) * u128::from(counts[0] + counts[1]);
            sums_ps[Stage::Tlb as usize] += u128::from(tlb_ps) * u128::from(counts[1]);
        }
        Stage::ALL.into_iter().zip(sums_ps)
    }

    /// Accesses of the program so far.
    pub fn accesses(&self) -> u64 {
        self.recorded + self.hits.iter().flatten().sum::<u64>()
    }

    /// Compares the version that an access found with the newest; for a write, the new version.
    pub fn check(&mut self, line: u64, found: u64, write: bool) -> Option<u64> {
        let golden = self.golden.as_mut()?;
        self.stale_loads += u64::from(found != golden.memory.get(line));
        if !write {
            return None;
        }
        golden.next += 1;
        golden.memory.set(line, golden.next);
        Some(golden.next)
    }

    /// A line is stored to where no cache has it: its new version, where data are checked.
    pub fn overwritten(&mut self, line: u64) -> u64 {
        self.golden.as_mut().map_or(0, |golden| {
            golden.next += 1;
            golden.memory.set(line, golden.next);
            golden.next
        })
    }

    /// A version newer than all before, where data are checked.
    pub fn next_version(&mut self) -> u64 {
        self.golden.as_mut().map_or(0, |golden| {
            golden.next += 1;
            golden.next
        })
    }

    /// Newest version of a line, where data are checked.
    pub fn newest(&self, line: u64) -> u64 {
        self.golden.as_ref().map_or(0, |golden| golden.memory.get(line))
    }

    /// A page goes to the store.
    pub fn page_out(&mut self, frame: u64, store_address: u64, fixed: &Fixed) {
        let Some(golden) = &mut self.golden else { return };
        for (line, stored) in page_lines(frame, store_address, fixed) {
            golden.store.set(stored, golden.memory.get(line));
        }
    }

    /// A page has come from the store.
    pub fn page_in(&mut self, frame: u64, store_address: u64, fixed: &Fixed) {
        let Some(golden) = &mut self.golden else { return };
        for (line, stored) in page_lines(frame, store_address, fixed) {
            golden.memory.set(line, golden.store.get(stored));
        }
    }

    fn incidental_counters(&mut self) -> [&mut u64; 21] {
        [
            &mut self.kernel_instructions,
            &mut self.walks,
            &mut self.shared_hits,
            &mut self.prefetches,
            &mut self.late_prefetches,
            &mut self.memory_reads,
            &mut self.invalidations,
            &mut self.cache_transfers,
            &mut self.upgrades,
            &mut self.back_invalidations,
            &mut self.lines_past,
            &mut self.flushes,
            &mut self.flushed_lines,
            &mut self.flushes_of_cache,
            &mut self.beyond_first,
            &mut self.faults,
            &mut self.interrupts,
            &mut self.completion_interrupts,
            &mut self.shootdowns,
            &mut self.file_lock_waits,
            &mut self.shootdown_interrupts,
        ]
    }

    /// Counters of what accesses bring about, which functional warming does too.
    pub fn incidental(&mut self) -> Incidental {
        self.incidental_counters().map(|counter| *counter)
    }

    /// What was counted since they stood so is forgotten.
    pub fn set_incidental(&mut self, counts: Incidental) {
        self.incidental_counters().into_iter().zip(counts).for_each(|(to, count)| *to = count);
    }

    /// The extended buffer cache has a page as the store has it now.
    pub fn page_kept(&mut self, store_address: u64, fixed: &Fixed) {
        let Some(golden) = &mut self.golden else { return };
        for (_, stored) in page_lines(0, store_address, fixed) {
            golden.kept.set(stored, golden.store.get(stored));
        }
    }

    /// The extended buffer cache gives a page, which must be what the store has.
    pub fn page_given(&mut self, store_address: u64, fixed: &Fixed) {
        let Some(golden) = &mut self.golden else { return };
        let lines = page_lines(0, store_address, fixed);
        let stale = lines.filter(|(_, at)| golden.kept.get(*at) != golden.store.get(*at)).count();
        self.stale_loads += stale as u64;
    }

    /// Begins to count anew at a time; what data are stays known.
    pub fn restart(&mut self, start_ps: u64) {
        let fresh = Account::new(self.hits.len(), false, self.causes.sites.is_some());
        let before = std::mem::replace(self, fresh);
        self.since_ps = start_ps;
        self.samples = before.samples;
        self.started = before.started;
        self.stale_loads = before.stale_loads;
        self.golden = before.golden;
    }

    /// The run is over: every thread is charged to its end, and the account, which began at
    /// `start_ps`, must be complete.
    pub fn end(&mut self, start_ps: u64, threads: &mut [Thread]) {
        let end_ps = threads.iter().map(|t| t.clock_ps).max().unwrap_or(0);
        for thread in threads.iter_mut() {
            thread.charge_until(IDLE, end_ps);
            let sum_ps: u64 = thread.times.iter().sum();
            assert_eq!(sum_ps, end_ps - start_ps, "a thread's time is not fully charged");
        }
        self.end_ps = Some(end_ps);
    }

    pub fn fork(&mut self) -> Self {
        Account {
            hits: self.hits.clone(),
            late_hits: self.late_hits.clone(),
            served_beyond: self.served_beyond.clone(),
            histogram: self.histogram.clone(),
            heat: self.heat.clone(),
            depths: self.depths.clone(),
            returned: self.returned.clone(),
            ended: self.ended.clone(),
            golden: self.golden.as_mut().map(|golden| Golden {
                memory: golden.memory.fork(),
                store: golden.store.fork(),
                kept: golden.kept.fork(),
                next: golden.next,
            }),
            intervals: self.intervals.clone(),
            causes: self.causes.clone(),
            ..*self
        }
    }
}

fn page_lines(frame: u64, store_address: u64, fixed: &Fixed) -> impl Iterator<Item = (u64, u64)> {
    let shift = fixed.page_shift - fixed.line_shift;
    let (first, stored) = (frame << shift, store_address >> fixed.line_shift);
    (0..1u64 << shift).map(move |line| (first + line, stored + line))
}

impl Machine {
    /// Sums so far.
    fn sums(&self) -> Sums {
        let account = self.counted();
        let traffic = self.organization_report().traffic;
        let hits_ps = self.hit_latencies().map(|(ps, count, _)| u128::from(ps) * u128::from(count));
        Sums {
            instructions: account.instructions,
            accesses: account.accesses(),
            latency_ps: hits_ps.sum::<u128>() + account.stages.iter().sum::<u128>(),
            misses: self.misses_and_lookups().0,
            store_read_bytes: traffic.store_read_bytes,
            store_written_bytes: traffic.store_written_bytes,
        }
    }

    pub(super) fn schedule_interval(&mut self, at_ps: u64) {
        let source = self.fixed.interval_sources;
        self.queue.push(at_ps, source, Event::Interval);
    }

    /// A part of an interval ends, and with the last of them the interval.
    pub(super) fn end_part_of_interval(&mut self, now_ps: u64) {
        if self.finished() {
            return;
        }
        let counts = self.sampling().is_none() && !self.between.is_warming();
        let counts = counts && self.region.has_begun() && now_ps > self.region.start_ps;
        if counts {
            self.sample_queues(now_ps);
        }
        self.account.samples = (self.account.samples + 1) % SAMPLES_OF_AN_INTERVAL;
        if counts && self.account.samples == 0 {
            self.take_interval(now_ps - self.region.start_ps);
            if self.account.intervals.len().is_multiple_of(INTERVALS_OF_A_LENGTH) {
                self.account.interval_ps *= 2;
            }
        }
        // Of a sampled run units take the place of intervals.
        let next_ps = match self.sampling() {
            Some(_) => UNUSED_INTERVAL_PS,
            None => self.account.interval_ps / SAMPLES_OF_AN_INTERVAL,
        };
        self.schedule_interval(now_ps + next_ps);
    }

    /// Looks at how much queues hold, from the cores down.
    fn sample_queues(&mut self, now_ps: u64) {
        let mut depths = std::mem::take(&mut self.depths);
        depths.clear();
        // Those into cores' own caches are among the misses.
        let ahead: usize = self.cores.iter().map(|core| core.ahead.len()).sum();
        let own = [
            ("os.ready_threads", self.ready.len()),
            ("core.misses", self.misses.len() - ahead),
            ("core.prefetches", self.prefetches.len() + ahead),
            ("memory.waiting", self.outgoing.len()),
            ("host.waiting_pages", self.waiting_outside().1 as usize),
        ];
        depths.extend(own.map(|(name, depth)| (name, depth as u64)));
        self.organization.depths(&mut |name, depth| depths.push((name, depth as u64)));
        let weight = self.account.interval_ps / FIRST_INTERVAL_PS;
        let since_ps = now_ps - self.region.start_ps;
        self.account.depths.sample(since_ps, weight, &mut depths);
        self.depths = depths;
    }

    /// An interval begins that need not follow the last.
    pub(super) fn begin_interval(&mut self) {
        self.account.before = self.sums();
    }

    /// Ends an interval, so long after the region's beginning.
    pub(super) fn take_interval(&mut self, now_ps: u64) {
        let sums = self.sums();
        let before = std::mem::replace(&mut self.account.before, sums);
        let latency_ps = sums.latency_ps - before.latency_ps;
        self.account.intervals.push(Interval {
            end_ps: now_ps,
            instructions: sums.instructions - before.instructions,
            accesses: sums.accesses - before.accesses,
            latency_ps: u64::try_from(latency_ps).unwrap_or(u64::MAX),
            misses: sums.misses - before.misses,
            store_read_bytes: sums.store_read_bytes - before.store_read_bytes,
            store_written_bytes: sums.store_written_bytes - before.store_written_bytes,
        });
    }

    /// Intervals that have ended so far.
    pub fn intervals(&self) -> &[Interval] {
        &self.counted().intervals
    }

    /// What a hit of a private level takes in caches, and in the second-level TLB if it is asked.
    pub(super) fn hit_latency_ps(&self, level: usize) -> (u64, u64) {
        (self.cores[0].caches.latency_ps(level), self.fixed.second_tlb_ps)
    }

    /// Latency, count and TLB share of the hits that are only counted.
    fn hit_latencies(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.counted().hits.iter().enumerate().flat_map(|(level, counts)| {
            let cache_ps = self.cores[0].caches.latency_ps(level);
            let tlb_ps = self.fixed.second_tlb_ps;
            [(cache_ps, counts[0], 0), (cache_ps + tlb_ps, counts[1], tlb_ps)]
        })
    }

    /// What is counted whether it is measured or not.
    pub(super) fn in_all(&self, of: impl Fn(&Account) -> u64) -> u64 {
        of(&self.account) + self.others().map(of).sum::<u64>()
    }

    /// Misses, and the look-ups that they are a share of.
    pub(super) fn misses_and_lookups(&self) -> (u64, u64) {
        if self.fixed.paging {
            let counters = self.os_counters();
            let misses = counters.major_faults;
            (misses, self.in_all(|account| account.memory_reads) + misses)
        } else {
            let report = self.organization_report();
            (report.misses, report.lookups)
        }
    }

    pub(super) fn miss_kind(&self) -> &'static str {
        if self.fixed.paging {
            "page cache"
        } else if self.organization_report().lookups > 0 {
            "DRAM cache"
        } else {
            "none"
        }
    }

    /// Time up to which a result counts.
    pub(super) fn reached_ps(&self) -> u64 {
        let threads = self.threads.iter().map(|thread| thread.clock_ps);
        let reached_ps = self.account.end_ps.unwrap_or_else(|| threads.max().unwrap_or(0));
        reached_ps.max(self.region.start_ps)
    }

    /// The result as far as the run has come. A run that has ended is closed exactly; one that was
    /// stopped counts up to where each thread stands.
    pub fn result(&mut self) -> SystemResult {
        self.close_sample();
        let time_ps = self.reached_ps() - self.region.start_ps;
        let begun = self.region.has_begun() && self.sampler.is_none();
        if begun && self.account.intervals.last().is_none_or(|last| last.end_ps < time_ps) {
            self.take_interval(time_ps);
        }
        self.result_so_far()
    }

    /// The result as far as the run has come, without the interval under way: the run goes on as
    /// if it had not been asked.
    pub fn result_so_far(&self) -> SystemResult {
        let organization = self.spec.organization().unwrap_or_default().to_string();
        if !self.region.has_begun() {
            // What was counted is not what was asked for.
            return SystemResult { organization, ..SystemResult::default() };
        }
        let end_ps = self.reached_ps();
        let units = self.units();
        // Of a sampled run those of some units are known alone; where there are windows a call may stand still while others
        // are warmed.
        let tells_calls = units.is_none() && self.windows.is_none();
        let time_ps = match &units {
            Some((units, ..)) => units.iter().map(|unit| unit.time_ps).sum(),
            None => end_ps - self.region.start_ps,
        };
        let running_ps: u128 = match &units {
            Some((units, ..)) => units.iter().map(|unit| u128::from(unit.running_ps)).sum(),
            None => {
                let of_core = |core: &Core| u128::from(core.occupancy.running_ps(end_ps));
                self.cores.iter().map(of_core).sum()
            }
        };
        let account = self.counted();
        let accesses = account.accesses();
        let (latency_ns, latency_distribution, stages_ns) = self.latencies(accesses);
        let owners = self.owners(time_ps);
        let time_breakdown_ns = owners
            .iter()
            .enumerate()
            .filter(|(owner, time_ps)| **time_ps > 0 || *owner == BUSY)
            .map(|(owner, time_ps)| (owner_name(owner).to_string(), *time_ps as f64 / 1e3))
            .collect();
        let (misses, lookups) = self.misses_and_lookups();
        let cycles = self.fixed.clock.ps_to_cycles_ceil(time_ps).max(1);
        let Traffic { store_read_bytes, store_written_bytes, dram_read_bytes, dram_written_bytes } =
            self.organization_report().traffic;
        let (activity, store_time_ps) = match self.whole_activity() {
            None => (self.activity(end_ps), time_ps),
            // What the store did is known of the whole run.
            Some(whole) => {
                let in_units = self.activity(end_ps);
                let told = match self.fixed.asks_store {
                    true => in_units.with_devices_of(whole),
                    false => in_units.with_warmed_of(whole),
                };
                (told, end_ps - self.region.start_ps)
            }
        };
        let mut drive = drive_result(&activity, store_written_bytes, store_time_ps);
        if units.is_none() {
            drive.iter_mut().for_each(bound_shares);
        }
        let nvm = nvm_result(&activity, store_time_ps);
        let disk = disk_result(&self.spec, &activity, store_time_ps);
        let counted = SystemResult {
            organization,
            time_s: time_ps as f64 / 1e12,
            time_ps,
            skipped: self.region.skipped,
            instructions: self.instructions(),
            kernel_instructions: self.in_all(|account| account.kernel_instructions),
            ipc: account.instructions as f64 / cycles as f64,
            slowdown: None,
            accesses: self.accesses(),
            miss_rate: if lookups == 0 { 0.0 } else { misses as f64 / lookups as f64 },
            miss_kind: self.miss_kind().to_string(),
            latency_ns,
            latency_distribution,
            stages_ns,
            time_breakdown_ns,
            store_bytes: Bytes { read: store_read_bytes, written: store_written_bytes },
            dram_bytes: Bytes { read: dram_read_bytes, written: dram_written_bytes },
            areas: self.areas(),
            heat_map: heat_map(&account.heat),
            queues: queues(&account.depths),
            code: self.code(),
            counters: self.counters(&activity),
            calls: if tells_calls { account.returned.results() } else { BTreeMap::new() },
            faults: if tells_calls { account.ended.results() } else { BTreeMap::new() },
            energy: self.energy(activity.energy, running_ps, time_ps),
            nvdimm: nvdimm_result(&self.spec),
            drive,
            nvm,
            disk,
            device: None,
            sampling: None,
            recorded_windows: self.recorded_windows(),
            wall_s: 0.0,
            accesses_per_wall_s: 0.0,
            notes: self.notes(),
        };
        let Some((units, lengths, totals)) = units else { return counted };
        let mut estimated = estimate(counted, &units, lengths, &totals);
        estimated.notes.extend(self.syncs_between_units());
        estimated
    }

    /// What is said of syncs that wait for memory where a run is sampled: nothing is on its way between units, and they are
    /// told by those in units.
    fn syncs_between_units(&self) -> Option<String> {
        let syncs = self.in_all(|account| account.syncs);
        let waits = syncs > 0 && self.fixed.durable != Durable::Never;
        waits.then(|| {
            format!(
                "{} asked that a file be made durable (fsync, msync) and wait for memory; between units they \
                 take what those in detail took: where they take much of the time, that and the bytes written to the \
                 store were up to 42 and 60 % off where it was measured; without sampling they are right",
                so_many(syncs, "call")
            )
        })
    }

    /// Time of all threads by owner, in a time counted that is so long.
    fn owners(&self, time_ps: u64) -> [u128; OWNERS] {
        let mut owners = [0u128; OWNERS];
        for (index, thread) in self.threads.iter().enumerate() {
            let kept =
                self.kept().map(|kept| kept.times.get(index).copied().unwrap_or([0; OWNERS]));
            let times = kept.unwrap_or(thread.times);
            for (sum, time_ps) in owners.iter_mut().zip(times) {
                *sum += u128::from(time_ps);
            }
            // One that has ended, or that is yet to come.
            owners[IDLE] += u128::from(time_ps.saturating_sub(times.iter().sum()));
        }
        owners
    }

    fn latencies(
        &self,
        accesses: u64,
    ) -> (Option<LatencySummary>, Option<Distribution>, BTreeMap<String, f64>) {
        let account = self.counted();
        let mut histogram = account.histogram.clone();
        let mut stages = account.stages;
        for (latency_ps, count, tlb_ps) in self.hit_latencies() {
            histogram.record_n(latency_ps, count);
            stages[Stage::Cache as usize] += u128::from(latency_ps - tlb_ps) * u128::from(count);
            stages[Stage::Tlb as usize] += u128::from(tlb_ps) * u128::from(count);
        }
        assert_eq!(histogram.count(), accesses, "an access's latency was not recorded");
        let causes = &account.causes;
        let by_area = causes.totals();
        let singly = (account.recorded, account.stages.iter().sum::<u128>());
        let recorded = (by_area.accesses, by_area.latency_ps);
        assert_eq!(recorded, singly, "an access belongs to no area, or to two");
        assert_eq!(account.heat.total(), account.recorded, "an access has no address, or two");
        if let Some(sites) = &causes.sites {
            let by_site = sites.totals();
            assert_eq!(by_site, (accesses, by_area), "an access belongs to no site, or to two");
        }
        assert_eq!(histogram.sum_ps(), stages.iter().sum(), "stages do not sum to latencies");
        let summary = LatencySummary::of(&histogram);
        let per_access = accesses.max(1) as f64 * 1e3;
        let stages = Stage::ALL
            .iter()
            .filter(|stage| stages[**stage as usize] > 0)
            .map(|stage| (stage.name().to_string(), stages[*stage as usize] as f64 / per_access))
            .collect();
        (summary, distribution(&histogram), stages)
    }

    /// Where energy went in what was counted, `time_ps` in which cores had threads to run for
    /// `running_ps`, as far as it is known.
    fn energy(&self, energy: Energy, running_ps: u128, time_ps: u64) -> EnergyResult {
        let processor = self.spec.processor.as_ref();
        let energy = match processor.and_then(|it| it.energy.as_ref()) {
            Some(spec) => energy.with(spec.parts(&self.processor_use(running_ps, time_ps))),
            None => energy.without("processor", "the description has no [processor.energy]"),
        };
        let energy = match self.buffer_cache_counters() {
            Some(_) => energy.without("buffer_cache", "no source says what its flash takes"),
            None => energy,
        };
        energy_result(&energy, time_ps as f64 / 1e12)
    }

    /// What the processor did in what was counted. A look-up of each level is one of the program's: the
    /// kernel's lines and page walks are not counted.
    fn processor_use(&self, running_ps: u128, time_ps: u64) -> ProcessorUse {
        let account = self.counted();
        let caches = self.spec.processor.iter().flat_map(|processor| &processor.caches);
        let private = account.hits.iter().zip(&account.late_hits);
        let hits = private.map(|(counts, late)| counts.iter().sum::<u64>() + late);
        let mut lookups = account.accesses();
        let mut lookups_j = 0.0;
        for (cache, hits) in
            caches.zip(hits.chain([account.shared_hits]).chain(std::iter::repeat(0)))
        {
            let access_fj = cache.access_energy.map_or(0, |energy| energy.femtojoules());
            lookups_j += lookups as f64 * access_fj as f64 * 1e-15;
            lookups = lookups.saturating_sub(hits);
        }
        ProcessorUse {
            time_ps,
            cores: self.cores.len() as u64,
            clock_hertz: self
                .spec
                .processor
                .as_ref()
                .map_or(0, |processor| processor.clock.hertz()),
            running_ps,
            instructions: account.instructions + account.kernel_instructions,
            lookups_j,
        }
    }

    pub(super) fn counters(&self, activity: &Activity) -> BTreeMap<String, u64> {
        let account = self.counted();
        let report = self.organization_report();
        let os = self.os_counters();
        let reclaim = self.reclaim_counters();
        let mut counters: BTreeMap<String, u64> = [
            ("tlb_walks", self.in_all(|account| account.walks)),
            ("shared_cache_hits", self.in_all(|account| account.shared_hits)),
            ("cache_invalidations", self.in_all(|account| account.invalidations)),
            ("cache_transfers", self.in_all(|account| account.cache_transfers)),
            ("cache_upgrades", self.in_all(|account| account.upgrades)),
            ("memory_reads", self.in_all(|account| account.memory_reads)),
            ("line_prefetches", self.in_all(|account| account.prefetches)),
            ("line_prefetches_late", self.in_all(|account| account.late_prefetches)),
            ("faults", self.in_all(|account| account.faults)),
            ("minor_faults", os.minor_faults),
            ("major_faults", os.major_faults),
            ("readahead_requests", os.readahead_requests),
            ("readahead_pages", os.readahead_pages),
            ("readahead_hits", os.readahead_hits),
            ("readahead_wasted", os.readahead_wasted),
            ("page_cache_hits", os.page_cache_hits),
            ("page_cache_misses", os.page_cache_misses),
            ("reclaimed_pages", os.reclaimed_pages),
            ("background_reclaimed_pages", os.background_reclaimed_pages),
            ("reclaim_scanned_pages", reclaim.scanned_pages),
            ("refaults", reclaim.refaults),
            ("refaults_activated", reclaim.refaults_activated),
            ("activated_pages", reclaim.activations),
            ("deactivated_pages", reclaim.deactivations),
            ("throttled_writes", os.throttled_writes),
            ("swap_out_pages", os.swap_outs),
            ("swap_in_pages", os.swap_ins),
            ("file_write_back_pages", os.file_write_backs),
            ("file_read_bytes", self.in_all(|account| account.file_read_bytes)),
            ("file_written_bytes", self.in_all(|account| account.file_written_bytes)),
            ("system_calls", self.in_all(|account| account.calls)),
            ("interrupts", account.interrupts),
            ("completion_interrupts", account.completion_interrupts),
            ("context_switches", account.context_switches),
            ("tlb_shootdowns", self.in_all(|account| account.shootdowns)),
            ("shootdown_interrupts", self.in_all(|account| account.shootdown_interrupts)),
            ("dram_cache_lookups", report.lookups),
            ("dram_cache_misses", report.misses),
            ("prefetched_pages", report.prefetched_pages),
            ("prefetch_hits", report.prefetch_hits),
            ("write_back_pages", report.write_backs),
            ("tag_store_bytes", report.tag_store_bytes),
            ("footprint_bytes", self.paging.most_used_bytes()),
            ("stale_loads", self.stale_loads()),
        ]
        .into_iter()
        .map(|(name, count)| (name.to_string(), count))
        .collect();
        let direct_read = self.in_all(|account| account.direct_read_bytes);
        let direct_written = self.in_all(|account| account.direct_written_bytes);
        if direct_read + direct_written > 0 {
            let direct =
                [("direct_read_bytes", direct_read), ("direct_written_bytes", direct_written)];
            counters.extend(direct.map(|(name, count)| (name.to_string(), count)));
        }
        let past = [
            ("non_temporal_lines", self.in_all(|account| account.lines_past)),
            ("cache_flushes", self.in_all(|account| account.flushes)),
            ("cache_flush_writes", self.in_all(|account| account.flushed_lines)),
            ("dram_cache_flushes", self.in_all(|account| account.flushes_of_cache)),
        ];
        let past = past.into_iter().filter(|(_, count)| *count > 0);
        counters.extend(past.map(|(name, count)| (name.to_string(), count)));
        if self.shared.inclusive_level().is_some() {
            let copies = self.in_all(|account| account.back_invalidations);
            counters.insert("cache_back_invalidations".into(), copies);
        }
        let forks = self.in_all(|account| account.forks);
        if forks > 0 {
            let of_processes = [("forks", forks), ("fork_copies", os.fork_copies)];
            counters.extend(of_processes.map(|(name, count)| (name.to_string(), count)));
        }
        let file_lock_waits = self.in_all(|account| account.file_lock_waits);
        if file_lock_waits > 0 {
            counters.insert("file_lock_waits".into(), file_lock_waits);
        }
        if os.locked_pages > 0 {
            counters.insert("locked_pages".into(), os.locked_pages);
        }
        if self.paging.moves_between_nodes() {
            let of_nodes = [
                ("scanned_entries", os.scanned_entries),
                ("protected_pages", os.protected_pages),
                ("hint_faults", os.hint_faults),
                ("promotion_candidates", os.promotion_candidates),
                ("promoted_pages", os.promoted_pages),
                ("demoted_pages", os.demoted_pages),
            ];
            counters.extend(of_nodes.map(|(name, count)| (name.to_string(), count)));
        }
        if self.paging.makes_huge_pages() {
            let of_huge = [
                ("huge_page_faults", os.huge_page_faults),
                ("huge_page_fallbacks", os.huge_page_fallbacks),
                ("huge_page_splits", os.huge_page_splits),
                ("huge_page_swap_outs", os.huge_page_swap_outs),
            ];
            counters.extend(of_huge.map(|(name, count)| (name.to_string(), count)));
        }
        if let Some(cache) = self.buffer_cache_counters() {
            let named = cache.named();
            counters.extend(named.map(|(name, count)| (format!("buffer_cache_{name}"), count)));
        }
        if let Some(system) = self.file_system_counters() {
            counters.extend(system.named().map(|(name, count)| (name.to_string(), count)));
        }
        if let Some(layer) = self.block_layer_counts() {
            counters.extend(layer.named().map(|(name, count)| (format!("block_{name}"), count)));
        }
        if let Some(tags) = report.tag_cache {
            let of_tags = [
                ("tag_cache_lookups", tags.lookups),
                ("tag_cache_misses", tags.misses),
                ("tag_line_reads", tags.reads),
                ("tag_line_writes", tags.writes),
            ];
            counters.extend(of_tags.map(|(name, count)| (name.to_string(), count)));
        }
        let guesses = report.miss_predictor.iter().flat_map(|guesses| guesses.named());
        counters.extend(guesses.map(|(name, count)| (name.to_string(), count)));
        if self.fixed.tells {
            counters.insert("long_read_switches".into(), account.long_reads);
        }
        let fills = report.fill.iter().flat_map(|fills| fills.named());
        counters.extend(fills.map(|(name, count)| (name.to_string(), count)));
        let promotion = report.promotion.iter().flat_map(|promotion| promotion.named());
        counters.extend(promotion.map(|(name, count)| (name.to_string(), count)));
        let caches = self.spec.processor.iter().flat_map(|processor| &processor.caches);
        counters.extend(counters_of(activity));
        let own = report.hams.iter().flat_map(|hams| hams.named());
        counters.extend(own.map(|(name, count)| (name.to_string(), count)));
        for ((counts, late), cache) in account.hits.iter().zip(&account.late_hits).zip(caches) {
            let all = counts.iter().sum::<u64>() + late;
            counters.insert(hits_of(cache), all);
        }
        counters
    }

    /// Counters of hits in private caches, from the first on.
    pub(super) fn private_hits(&self) -> Vec<String> {
        let caches = self.spec.processor.iter().flat_map(|processor| &processor.caches);
        caches.take(self.account.hits.len()).map(hits_of).collect()
    }

    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<_> = nvdimm_note(&self.spec).into_iter().collect();
        notes.extend(self.spec.without_effect(self.organization.takes_control()));
        let stale = self.stale_loads();
        let syncs = self.in_all(|account| account.syncs);
        if syncs > 0 && !self.fixed.paging && self.fixed.durable == Durable::Never {
            notes.push(format!(
                "{} asked that a file be made durable (fsync, msync) and took their path through \
                 the kernel only: files lie in main memory here, which a failure of power takes, so that \
                 such calls give no durability",
                so_many(syncs, "call")
            ));
        } else if syncs > 0 && !self.fixed.paging && !self.organization.keeps() {
            notes.push(format!(
                "{} asked that a file be made durable (fsync, msync), and what they have written \
                 back lies in a buffer of the store that a failure of power takes, so that such calls give \
                 no durability",
                so_many(syncs, "call")
            ));
        }
        let hints = self.in_all(|account| account.hints);
        if hints > 0 && !self.fixed.paging && !self.organization.takes_hints() {
            notes.push(format!(
                "{} of what will be needed (madvise, --hints) had no effect: this machine brings \
                 nothing ahead of need; hybrid does, and machines whose operating system pages files",
                so_many(hints, "hint")
            ));
        }
        let unmapped = self.in_all(|account| account.hints_unmapped);
        if unmapped > 0 {
            notes.push(format!(
                "{} of what will be needed (madvise, --hints) had no effect: nothing is mapped \
                 at their addresses",
                so_many(unmapped, "hint")
            ));
        }
        notes.extend(self.stream.remarks());
        let in_vain = self.in_all(|account| account.direct_in_vain);
        if in_vain > 0 {
            notes.push(format!(
                "{in_vain} reads and writes asked to go past the page cache (O_DIRECT), which has no effect: \
                 files lie in main memory here, and no page cache is before them"
            ));
        }
        if stale > 0 {
            notes.push(format!("{stale} accesses found older data than they had to"));
        }
        notes
    }

    /// Software threads that have started.
    pub fn threads(&self) -> u32 {
        self.in_all(|account| account.started) as u32
    }

    /// Pages of files that are dirty at the moment, and those on their way to the store.
    pub fn dirty_pages(&self) -> (u64, u64) {
        self.paging.dirty_pages()
    }

    /// From now on it is written down what readahead adds to the page cache.
    pub fn watch_readahead(&mut self) {
        self.paging.watch_readahead();
    }

    /// What readahead has added since: requests in their order, each with its folios, by files.
    pub fn readahead_seen(&self) -> impl Iterator<Item = (FileId, &[Folio])> {
        self.paging.readahead_seen()
    }

    /// Laws that hold at any moment of a run: nothing is lost between the parts.
    pub fn check_conservation(&self) -> Result<(), String> {
        let (lines, pages) = self.waiting_outside();
        let is_asked = |id: &u32| id & PREFETCH == 0 && self.misses[*id].ahead == Ahead::No;
        let asked = self.line_misses.values().filter(|id| is_asked(id)).count();
        if self.finished() && asked > 0 {
            return Err(format!("{asked} lines asked for were never answered"));
        }
        if pages + self.pages_at_device != self.pages.len() as u64 {
            return Err("a page is neither queued nor at the device".into());
        }
        if lines > 0 && self.organization.next_event_ps().is_none() {
            return Err("lines wait for an organization that has nothing to do".into());
        }
        self.check_coherence()
    }
}

/// So many of something, as a sentence has them.
fn so_many(count: u64, one: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {one}{plural}")
}
