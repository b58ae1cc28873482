//! What is counted of a device alone, and the result that it makes.

use super::{Flight, Passed};
use crate::disk::disk_result;
use crate::distributions::{distribution, heat_map, queues};
use crate::drive::{bound_shares, drive_result, settling_result};
use crate::energy::{energy_result, nvdimm_note, nvdimm_result};
use crate::machine::Warming;
use crate::nvm::nvm_result;
use crate::result::{Bytes, DeviceResult, Interval, LatencySummary, Skipped, SystemResult};
use crate::spec::SystemSpec;
use std::collections::BTreeMap;
use tierscope_kernel::{DepthSeries, HeatMap, LatencyHistogram, Stage};
use tierscope_model::activity::Activity;
use tierscope_model::organization::{Organization, OrganizationReport};
use tierscope_workload::requests::RequestKind;

/// Length of the first intervals; after every 512 it doubles.
const FIRST_INTERVAL_PS: u64 = 100_000_000;
const INTERVALS_OF_A_LENGTH: usize = 512;
/// Between the first samples of queues; after every 8,192 it doubles.
const FIRST_SAMPLE_PS: u64 = FIRST_INTERVAL_PS / 16;
const SAMPLES_OF_A_DISTANCE: u64 = 16 * INTERVALS_OF_A_LENGTH as u64;
/// Requests are told apart by 64 bytes at most, and times by 1.024 ns.
const ROW_SHIFT: u32 = 6;
const COLUMN_SHIFT: u32 = 10;

/// Requests that a device has no use for: they were not given to it.
#[derive(Clone, Copy, Debug, Default)]
struct LeftOut {
    flushes: u64,
    trims: u64,
}

/// How a region ended whose device went on by itself.
struct End {
    at_ps: u64,
    done: (OrganizationReport, Activity),
}

/// Counters of the region of interest.
pub(super) struct Account {
    begun: bool,
    start_ps: u64,
    skipped: Option<Skipped>,
    /// What had been done before.
    before: (OrganizationReport, Activity),
    /// What had been done at its end, where the device goes on after that.
    end: Option<End>,
    taken: u64,
    waited: u64,
    most_in_flight: u64,
    /// Sum of the times from when requests were taken until they were answered.
    at_device_ps: u128,
    reads: LatencyHistogram,
    writes: LatencyHistogram,
    /// Of the writes, those that are forced.
    forced: LatencyHistogram,
    flushes: LatencyHistogram,
    trims: LatencyHistogram,
    /// Bytes that requests asked for.
    bytes: Bytes,
    /// Requests that the device has no use for.
    left_out: LeftOut,
    stages: [u128; Stage::ALL.len()],
    intervals: Vec<Interval>,
    /// The interval under way, and its length.
    under_way: Interval,
    interval_ps: u64,
    /// Requests by address and time.
    heat: HeatMap,
    /// What queues held, the distance of the next sample from the one before, and when it is due.
    depths: DepthSeries,
    sample_ps: u64,
    sample_due_ps: u64,
}

impl Account {
    /// An account that counts from the start, or from [`Account::begin`] on.
    pub fn new(begun: bool) -> Self {
        Account {
            begun,
            start_ps: 0,
            skipped: None,
            before: Default::default(),
            end: None,
            taken: 0,
            waited: 0,
            most_in_flight: 0,
            at_device_ps: 0,
            reads: LatencyHistogram::new(),
            writes: LatencyHistogram::new(),
            forced: LatencyHistogram::new(),
            flushes: LatencyHistogram::new(),
            trims: LatencyHistogram::new(),
            bytes: Bytes::default(),
            left_out: LeftOut::default(),
            stages: [0; Stage::ALL.len()],
            intervals: Vec::new(),
            under_way: Interval::default(),
            interval_ps: FIRST_INTERVAL_PS,
            heat: HeatMap::new(ROW_SHIFT, COLUMN_SHIFT),
            depths: DepthSeries::new(COLUMN_SHIFT),
            sample_ps: FIRST_SAMPLE_PS,
            sample_due_ps: FIRST_SAMPLE_PS,
        }
    }

    /// Whether the region of interest has begun.
    pub fn begun(&self) -> bool {
        self.begun
    }

    /// When it began.
    pub fn start_ps(&self) -> u64 {
        self.start_ps
    }

    /// Requests of it that were taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The region begins, after so many requests.
    pub fn begin(&mut self, now_ps: u64, skipped: u64, organization: &dyn Organization) {
        self.begun = true;
        self.start_ps = now_ps;
        self.sample_due_ps = now_ps.saturating_add(self.sample_ps);
        self.skipped = Some(Skipped {
            accesses: skipped,
            instructions: 0,
            time_ps: now_ps,
            warming: Warming::Detailed,
        });
        self.before = (organization.report(), organization.activity(now_ps));
    }

    /// The last request was answered by `now_ps`: what the device does from now on nobody waits for.
    pub fn end(&mut self, now_ps: u64, organization: &dyn Organization) {
        let done = (organization.report(), organization.activity(now_ps));
        self.end = Some(End { at_ps: now_ps, done });
    }

    /// Whether the last request was answered.
    pub fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// When queues are to be looked at next, if that is by `now_ps`.
    #[inline]
    pub fn sample_due(&self, now_ps: u64) -> Option<u64> {
        let due = self.sample_due_ps <= now_ps && self.begun && self.end.is_none();
        due.then_some(self.sample_due_ps)
    }

    /// That time has come: so much queues hold.
    pub fn sample(&mut self, depths: &mut Vec<(&'static str, u64)>) {
        let weight = self.sample_ps / FIRST_SAMPLE_PS;
        self.depths.sample(self.sample_due_ps - self.start_ps, weight, depths);
        if self.depths.samples().is_multiple_of(SAMPLES_OF_A_DISTANCE) {
            self.sample_ps *= 2;
        }
        self.sample_due_ps = self.sample_due_ps.saturating_add(self.sample_ps);
    }

    /// A request of the region was taken, at once or after a wait at the door; with it, so many are
    /// under way.
    pub fn take(&mut self, waited: bool, in_flight: u64) {
        self.taken += 1;
        self.waited += u64::from(waited);
        self.most_in_flight = self.most_in_flight.max(in_flight);
    }

    /// A request was left out: the device has no use for its kind.
    pub fn leave_out(&mut self, kind: RequestKind) {
        match kind {
            RequestKind::Flush => self.left_out.flushes += u64::from(self.begun),
            _ => self.left_out.trims += u64::from(self.begun),
        }
    }

    /// A request of the region was answered at `at_ps`.
    pub fn answer(&mut self, flight: &Flight, at_ps: u64, stages: &Passed<'_>) {
        let latency_ps = at_ps - flight.arrival_ps;
        let of_kind = match flight.request.kind {
            RequestKind::Flush => &mut self.flushes,
            RequestKind::Write => &mut self.writes,
            RequestKind::ForcedWrite => {
                self.forced.record(latency_ps);
                &mut self.writes
            }
            RequestKind::Trim => &mut self.trims,
            RequestKind::Read => &mut self.reads,
        };
        of_kind.record(latency_ps);
        if flight.request.kind != RequestKind::Flush {
            self.heat.count(flight.request.address, at_ps - self.start_ps);
        }
        self.at_device_ps += u128::from(at_ps - flight.taken_ps);
        if flight.request.is_write() {
            self.bytes.written += flight.bytes;
        } else if flight.request.moves() {
            self.bytes.read += flight.bytes;
        }
        for (stage, time_ps) in stages.iter() {
            self.stages[stage as usize] += u128::from(time_ps);
        }
        // What is answered as an interval ends is of that interval: a run may end then.
        self.end_intervals((at_ps - self.start_ps).saturating_sub(1));
        self.under_way.accesses += 1;
        self.under_way.latency_ps = self.under_way.latency_ps.saturating_add(latency_ps);
    }

    /// Ends the intervals that end by `now_ps`, so long after the region's beginning.
    fn end_intervals(&mut self, now_ps: u64) {
        let mut end_ps = self.intervals_end_ps() + self.interval_ps;
        while end_ps <= now_ps {
            self.end_interval(end_ps);
            end_ps += self.interval_ps;
        }
    }

    fn end_interval(&mut self, end_ps: u64) {
        self.intervals.push(Interval { end_ps, ..std::mem::take(&mut self.under_way) });
        if self.intervals.len().is_multiple_of(INTERVALS_OF_A_LENGTH) {
            self.interval_ps *= 2;
        }
    }

    /// The run has ended: so does the interval under way.
    pub fn end_last_interval(&mut self, now_ps: u64) {
        if !self.begun {
            return;
        }
        let time_ps = self.end.as_ref().map_or(now_ps, |end| end.at_ps) - self.start_ps;
        self.end_intervals(time_ps);
        if self.intervals_end_ps() < time_ps {
            self.end_interval(time_ps);
        }
    }

    fn intervals_end_ps(&self) -> u64 {
        self.intervals.last().map_or(0, |last| last.end_ps)
    }

    /// Intervals that have ended so far.
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// The result of a run that has come to `now_ps`.
    pub fn result(
        &self,
        spec: &SystemSpec,
        organization: &dyn Organization,
        now_ps: u64,
    ) -> SystemResult {
        let name = spec.organization().unwrap_or_default().to_owned();
        if !self.begun {
            return SystemResult { organization: name, ..SystemResult::default() };
        }
        let (report, activity) = (organization.report(), organization.activity(now_ps));
        let (end_ps, report, activity, settling) = match &self.end {
            None => (now_ps, report, activity, None),
            Some(End { at_ps, done }) => {
                let settling = settling_result(&activity.since(&done.1), now_ps - at_ps);
                (*at_ps, done.0.clone(), done.1.clone(), Some(settling))
            }
        };
        let time_ps = end_ps.saturating_sub(self.start_ps);
        let time_s = time_ps as f64 / 1e12;
        let activity = activity.since(&self.before.1);
        let report = report.since(&self.before.0);
        let mut all = self.reads.clone();
        all.merge(&self.writes);
        all.merge(&self.flushes);
        all.merge(&self.trims);
        assert_eq!(all.sum_ps(), self.stages.iter().sum(), "stages do not sum to latencies");
        let traffic = report.traffic;
        let moved_bytes = traffic.dram_read_bytes + traffic.dram_written_bytes;
        let device = self.device(spec, &activity, moved_bytes, time_ps);
        let device = DeviceResult { settling, ..device };
        let mut drive = drive_result(&activity, traffic.store_written_bytes, time_ps);
        drive.iter_mut().for_each(bound_shares);
        SystemResult {
            organization: name,
            time_s,
            time_ps,
            skipped: self.skipped,
            accesses: all.count(),
            miss_kind: "none".into(),
            latency_ns: LatencySummary::of(&all),
            latency_distribution: distribution(&all),
            heat_map: heat_map(&self.heat),
            queues: queues(&self.depths),
            stages_ns: self.stages_ns(all.count()),
            store_bytes: Bytes {
                read: traffic.store_read_bytes,
                written: traffic.store_written_bytes,
            },
            dram_bytes: Bytes {
                read: traffic.dram_read_bytes,
                written: traffic.dram_written_bytes,
            },
            counters: self.counters(&activity, &report),
            energy: energy_result(&activity.energy, time_s),
            nvdimm: nvdimm_result(spec),
            drive,
            nvm: nvm_result(&activity, time_ps),
            disk: disk_result(spec, &activity, time_ps),
            device: Some(device),
            notes: self.notes(spec, &report),
            ..SystemResult::default()
        }
    }

    fn stages_ns(&self, requests: u64) -> BTreeMap<String, f64> {
        let per_request = requests.max(1) as f64 * 1e3;
        let stages = Stage::ALL.iter().zip(self.stages).filter(|(_, sum_ps)| *sum_ps > 0);
        stages.map(|(stage, sum_ps)| (stage.name().into(), sum_ps as f64 / per_request)).collect()
    }

    fn device(
        &self,
        spec: &SystemSpec,
        activity: &Activity,
        moved_bytes: u64,
        time_ps: u64,
    ) -> DeviceResult {
        let time_s = time_ps as f64 / 1e12;
        let over_time = |sum: f64| if time_ps > 0 { sum / time_s } else { 0.0 };
        let bytes_per_s = over_time((self.bytes.read + self.bytes.written) as f64);
        let peak_bytes_per_s = spec.peak_bytes_per_s();
        let dram = &activity.dram;
        DeviceResult {
            reads: self.reads.count(),
            writes: self.writes.count(),
            forced_writes: self.forced.count(),
            flushes: self.flushes.count(),
            trims: self.trims.count(),
            requested_bytes: self.bytes,
            waited_at_door: self.waited,
            under_way_mean: over_time(self.stages.iter().sum::<u128>() as f64 / 1e12),
            in_flight_mean: over_time(self.at_device_ps as f64 / 1e12),
            in_flight_max: self.most_in_flight,
            requests_per_s: over_time((self.reads.count() + self.writes.count()) as f64),
            bytes_per_s,
            peak_bytes_per_s,
            peak_share: peak_bytes_per_s.map(|peak| over_time(moved_bytes as f64) / peak),
            read_latency_ns: LatencySummary::of(&self.reads),
            write_latency_ns: LatencySummary::of(&self.writes),
            forced_write_latency_ns: LatencySummary::of(&self.forced),
            flush_latency_ns: LatencySummary::of(&self.flushes),
            trim_latency_ns: LatencySummary::of(&self.trims),
            row_hits: dram.row_hits,
            row_closed: dram.row_closed,
            row_conflicts: dram.row_conflicts,
            activates: dram.activates,
            refreshes: dram.refreshes,
            settling: None,
        }
    }

    fn counters(&self, activity: &Activity, report: &OrganizationReport) -> BTreeMap<String, u64> {
        let mut counters = crate::energy::counters_of(activity);
        counters.insert("flushes_left_out".into(), self.left_out.flushes);
        counters.insert("trims_left_out".into(), self.left_out.trims);
        counters.insert("stale_loads".into(), report.stale_reads);
        counters
    }

    fn notes(&self, spec: &SystemSpec, report: &OrganizationReport) -> Vec<String> {
        let LeftOut { flushes, trims } = self.left_out;
        let told = [
            (report.stale_reads, "requests found older data than they had to"),
            (flushes, "flushes were left out: a memory has none"),
            (trims, "trims were left out: the device has none"),
        ];
        let told = told.into_iter().filter(|(count, _)| *count > 0);
        let told = told.map(|(count, what)| format!("{count} {what}"));
        nvdimm_note(spec).into_iter().chain(told).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierscope_kernel::Timeline;
    use tierscope_workload::requests::TraceRequest;

    #[test]
    fn what_is_answered_as_the_run_ends_is_of_its_last_interval() {
        let request = TraceRequest { address: 0, bytes: 64, kind: RequestKind::Read, ticks: None };
        let flight = Flight {
            number: 0,
            request,
            bytes: 64,
            arrival_ps: 0,
            taken_ps: 0,
            left: 0,
            counted: true,
            in_loop: false,
        };
        for at_ps in [FIRST_INTERVAL_PS - 1, FIRST_INTERVAL_PS, FIRST_INTERVAL_PS + 1] {
            let mut account = Account::new(true);
            let device = &Timeline::new();
            let stages = Passed { host_queue_ps: 0, store_queue_ps: 0, device };
            account.answer(&flight, at_ps, &stages);
            account.end_last_interval(at_ps);
            let accesses: u64 = account.intervals().iter().map(|one| one.accesses).sum();
            assert_eq!(accesses, 1, "at {at_ps}");
            assert_eq!(account.intervals_end_ps(), at_ps);
        }
    }
}
