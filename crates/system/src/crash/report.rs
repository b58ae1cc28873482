//! What came of failures of power.

use super::failures::{Cut, Judged};
use super::{CrashOptions, Point, Points, Track};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use tierscope_model::power::{Failure, Guarantees, Harm, UnderWay, shown};

/// Failing points that are told.
const MOST_FAILING: usize = 20;

/// Least, mean and most of what points took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Range {
    /// The least.
    pub least: f64,
    /// The mean.
    pub mean: f64,
    /// The most.
    pub most: f64,
    #[serde(skip)]
    count: u64,
}

impl Range {
    fn add(&mut self, value: f64) {
        self.least = if self.count == 0 { value } else { self.least.min(value) };
        self.most = self.most.max(value);
        self.count += 1;
        self.mean += (value - self.mean) / self.count as f64;
    }
}

/// A line that is not as it was promised.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultyLine {
    /// Its physical address, or its place on the store.
    pub address: u64,
    /// What it is, where its address does not say it.
    pub what: Option<String>,
    /// `lost`, `unreadable`, `invented` or `stale`.
    pub harm: &'static str,
    /// The newest version that was promised, in the order of all stores; 0 for what was there at the start. None where a
    /// sync has promised a size that no change of its file has.
    pub promised: Option<u64>,
    /// The version that was found; None where that is none of it.
    pub found: Option<u64>,
}

/// A point at which a promise was broken.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failing {
    /// The point, as `--replay` takes it.
    pub point: Point,
    /// Simulated time of the first cut, in picoseconds.
    pub time_ps: u64,
    /// What was under way.
    pub under_way: Vec<&'static str>,
    /// How many lines are not as they were promised.
    pub lines: u64,
    /// The first of them, at most 64.
    pub faults: Vec<FaultyLine>,
}

/// A moment of a point's timeline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moment {
    /// Simulated time, in picoseconds; that of the outage itself, whose length is anybody's, not counted.
    pub time_ps: u64,
    /// `event`, `cut`, `saved`, `ready`, `scanned` or `recovered`.
    pub what: &'static str,
    /// How many there were of each kind under way.
    pub under_way: BTreeMap<&'static str, u64>,
}

impl Moment {
    pub(super) fn event(time_ps: u64, under_way: &UnderWay) -> Self {
        Moment { time_ps, what: "event", under_way: counts(under_way) }
    }

    fn at(time_ps: u64, what: &'static str) -> Self {
        Moment { time_ps, what, under_way: BTreeMap::new() }
    }
}

/// What came of all points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CrashReport {
    /// The machine.
    pub system: String,
    /// How points were chosen.
    pub chosen: Points,
    /// Of the choice of points.
    pub seed: u64,
    /// What was left out on purpose.
    pub weaken: Vec<&'static str>,
    /// What is compared, and called a line below: `lines` of the on-chip caches; `pages` of a drive alone; `files`, their
    /// pages, sizes and maps, and blocks of metadata.
    pub judged: &'static str,
    /// What the machine promises.
    pub guarantees: Option<Guarantees>,
    /// Events below the caches in the window.
    pub events: u64,
    /// Points tried.
    pub points: u64,
    /// Of these, those at which power failed again in the middle of recovery.
    pub second_cuts: u64,
    /// Points by what was under way; a point can count for several.
    pub under_way: BTreeMap<&'static str, u64>,
    /// Lines compared, over all points.
    pub lines: u64,
    /// Of these, those with a promise.
    pub promised_lines: u64,
    /// Syncs of files that had returned before the last point, and had promised something; None of machines without a
    /// file system.
    pub syncs: Option<u64>,
    /// Why the workload ended before it had done what was asked; None where it has not.
    pub ended_early: Option<String>,
    /// Points at which a promise was broken.
    pub failing_points: u64,
    /// Lines that were not as they were promised, by what was wrong.
    pub faults: BTreeMap<&'static str, u64>,
    /// Pages of files that showed what their blocks held before, where that is permitted.
    pub stale_permitted: u64,
    /// Lines that are there thanks to a safeguard, over all points: those found in NVDIMM that was saved,
    /// those that evictions brought to flash which were carried out again, and pages of the drive's buffer.
    pub saved: BTreeMap<&'static str, u64>,
    /// Commands that were carried out again.
    pub reissued: u64,
    /// Transactions of journals that were carried out again.
    pub replayed_transactions: u64,
    /// Points at which capacitors were empty before all was saved.
    pub short_points: u64,
    /// Pages that were torn, and lost from volatile buffers.
    pub torn_pages: u64,
    /// See `torn_pages`.
    pub lost_pages: u64,
    /// Seconds for which parts go on after the failure; None, as those below, where `untold` says why.
    pub hold_s: Option<Range>,
    /// Seconds from the return of power until nothing is to be done again.
    pub recovery_s: Option<Range>,
    /// Of these, those in which what was interrupted is carried out again.
    pub reissue_s: Option<Range>,
    /// Why times are not told, where they are not.
    pub untold: Option<&'static str>,
    /// Joules of both together, where parts tell theirs.
    pub energy_j: Option<Range>,
    /// The first failing points.
    pub failing: Vec<Failing>,
    /// Of a point that was replayed.
    pub timeline: Vec<Moment>,
    /// The last requests before it, and what became of each.
    pub requests: Vec<Track>,
    /// Points in a second of the wall's clock, from when the run with them began: without the run ahead that draws them.
    pub points_per_wall_s: f64,
    /// Seconds of the wall's clock, in all.
    pub wall_s: f64,
}

impl CrashReport {
    pub(super) fn new(system: &str, options: &CrashOptions) -> Self {
        let chosen = match options {
            CrashOptions { replay: Some(_), .. } => Points::Replay,
            CrashOptions { adversarial: true, .. } => Points::Adversarial,
            CrashOptions { points: None, .. } => Points::Every,
            _ => Points::Random,
        };
        CrashReport {
            system: system.to_owned(),
            chosen,
            seed: options.seed,
            weaken: options.weaken.iter().map(|weakness| weakness.name()).collect(),
            judged: "lines",
            guarantees: None,
            events: 0,
            points: 0,
            second_cuts: 0,
            under_way: UnderWay::KINDS.iter().map(|kind| (*kind, 0)).collect(),
            lines: 0,
            promised_lines: 0,
            syncs: None,
            ended_early: None,
            failing_points: 0,
            faults: Harm::ALL.map(|harm| (harm.name(), 0)).into(),
            stale_permitted: 0,
            saved: ["nvdimm", "commands_again", "capacitor_pages"].map(|by| (by, 0)).into(),
            reissued: 0,
            replayed_transactions: 0,
            short_points: 0,
            torn_pages: 0,
            lost_pages: 0,
            hold_s: None,
            recovery_s: None,
            reissue_s: None,
            untold: None,
            energy_j: None,
            failing: Vec::new(),
            timeline: Vec::new(),
            requests: Vec::new(),
            points_per_wall_s: 0.0,
            wall_s: 0.0,
        }
    }

    /// Whether every promise was kept.
    pub fn holds(&self) -> bool {
        self.failing_points == 0
    }

    pub(super) fn add(&mut self, judged: &Judged, line_bytes: u64) {
        let (under_way, failure) = (&judged.cut.under_way, &judged.failure);
        let Failure { outage, recovery, verdict, .. } = failure;
        self.points += 1;
        self.second_cuts += u64::from(failure.cuts > 1);
        for kind in kinds(under_way) {
            *self.under_way.entry(kind).or_default() += 1;
        }
        self.lines += verdict.lines;
        self.promised_lines += verdict.promised;
        for (by, count) in [
            ("nvdimm", verdict.in_memory),
            ("commands_again", recovery.reissued_lines),
            ("capacitor_pages", outage.saved_pages),
        ] {
            *self.saved.entry(by).or_default() += count;
        }
        self.reissued += recovery.reissued;
        self.replayed_transactions += recovery.transactions;
        self.stale_permitted += verdict.stale;
        self.short_points += u64::from(outage.short);
        self.torn_pages += outage.torn_pages;
        self.lost_pages += outage.lost_pages;
        self.untold = self.untold.or(outage.untold);
        if outage.untold.is_none() {
            let add = |range: &mut Option<Range>, ps: u64| {
                range.get_or_insert_default().add(ps as f64 * 1e-12);
            };
            add(&mut self.hold_s, outage.hold_ps);
            add(&mut self.recovery_s, failure.recovery_ps());
            add(&mut self.reissue_s, failure.reissue_ps);
            if let Some(joules) = failure.energy_j() {
                self.energy_j.get_or_insert_default().add(joules);
            }
        }
        self.add_faults(judged, line_bytes);
    }

    fn add_faults(&mut self, judged: &Judged, line_bytes: u64) {
        let (Cut { at_ps, under_way, .. }, failure) = (&judged.cut, &judged.failure);
        let faults = &failure.verdict.faults;
        for harm in Harm::ALL {
            *self.faults.entry(harm.name()).or_default() += failure.verdict.of(harm);
        }
        self.failing_points += u64::from(!faults.is_empty());
        if faults.is_empty() || self.failing.len() >= MOST_FAILING {
            return;
        }
        let told = faults.iter().enumerate().map(|(n, fault)| FaultyLine {
            address: fault.line * line_bytes,
            what: judged.names.get(n).cloned().flatten(),
            harm: fault.harm.name(),
            promised: shown(fault.promised),
            found: fault.found.and_then(shown),
        });
        self.failing.push(Failing {
            point: judged.point(),
            time_ps: *at_ps,
            under_way: kinds(under_way).collect(),
            lines: failure.verdict.broken(),
            faults: told.collect(),
        });
    }

    /// The timeline of the one point.
    pub(super) fn draw(
        &mut self,
        before: impl Iterator<Item = Moment>,
        at_ps: u64,
        failure: &Failure,
    ) {
        self.timeline.extend(before);
        let mut at_ps = at_ps;
        self.timeline.push(Moment::at(at_ps, "cut"));
        for (what, took_ps) in [
            ("saved", failure.outage.hold_ps),
            ("ready", failure.outage.ready_ps),
            ("scanned", failure.recovery.scan_ps),
            ("recovered", failure.reissue_ps),
        ] {
            at_ps = at_ps.saturating_add(took_ps);
            self.timeline.push(Moment::at(at_ps, what));
        }
    }

    pub(super) fn end(&mut self, points: Duration, all: Duration) {
        self.points_per_wall_s = self.points as f64 / points.as_secs_f64().max(1e-9);
        self.wall_s = all.as_secs_f64();
    }
}

fn counts(under_way: &UnderWay) -> BTreeMap<&'static str, u64> {
    UnderWay::KINDS.into_iter().zip(under_way.counts()).filter(|(_, count)| *count > 0).collect()
}

fn kinds(under_way: &UnderWay) -> impl Iterator<Item = &'static str> {
    let bits = under_way.kinds();
    UnderWay::KINDS
        .into_iter()
        .enumerate()
        .filter(move |(n, _)| bits >> n & 1 == 1)
        .map(|(_, kind)| kind)
}
