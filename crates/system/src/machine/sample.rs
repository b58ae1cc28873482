//! Sampling of long runs (after SMARTS: Wunderlich et al., ISCA 2003): parts of a run are measured in
//! detail; between them the machine is warmed functionally, and time goes on at the rate last measured.
//!
//! One unit, an interval of simulated time, lies in each period, at a place drawn by the machine's
//! seed, so that nothing that recurs can be met always at the same place. Each goes through
//! [`Phase`]s; the first of a run gives only the rate.

use super::account::Account;
use super::thread::{BUSY, OWNERS, State, Thread, is_asleep};
use super::transfer_times::{Class, TransferTimes};
use super::{Doing, Event, Machine, MachineError};
use crate::energy::part_name;
use crate::result::SamplingResult;
use crate::run::{Sampling, Warming};
use crate::sampling::{ByCause, Cause, StoreEnergy, Stretch, Totals, Unit};
use tierscope_kernel::{Random, Stage, Timeline};
use tierscope_model::activity::{Activity, Energy, EnergyPart};
use tierscope_model::organization::OrganizationReport;
use tierscope_model::os::paging::Transfer;

/// Where a sampled machine stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Accesses take no time of their own; instructions take what they took in the last unit.
    Skimming,
    /// In detail, so that queues, buffers and open rows become as they are; not measured.
    Refilling,
    /// In detail, and measured.
    Measuring,
    /// No thread goes on; what is under way ends; not measured.
    Settling,
}

/// A sampled machine's units, and what is counted outside of them.
#[derive(Debug)]
pub(super) struct Sampler {
    plan: Plan,
    /// What is simulated in detail before a unit, at least: as long as any one's end took to let what was under way end, for
    /// as much of it has to come to be under way again.
    refill_ps: u64,
    /// The same before the next unit: by up to a unit longer, where what is under way begins anew there.
    next_refill_ps: u64,
    /// How what is passed over warms the machine.
    warming: Warming,
    phase: Phase,
    random: Random,
    /// When the first period began, and how many have been begun.
    origin_ps: u64,
    periods: u64,
    /// Events of the queue that are its own.
    pub events: usize,
    /// Nothing has been passed over yet: the run may still end as one that is all in detail. The last
    /// part of this gives the first rates, and is no unit.
    pilot: bool,
    /// What that part measured, and what all that came before the first stretch without detail did.
    first: Unit,
    start: Unit,
    start_began: Began,
    rates: Rates,
    /// What transfers took in units: between them each takes as long.
    transfers: TransferTimes,
    work_ns: StoreWork,
    /// When the phase began.
    since_ps: u64,
    /// Time of the event last seen while settling.
    settled_ps: u64,
    /// Which hardware threads were at work when that began.
    at_work: Vec<bool>,
    detailed_ps: u64,
    /// Of that, what was measured: the start, and units.
    measured_ps: u64,
    stretches: Vec<Stretch>,
    /// The stretch since the last unit, up to where what is under way of it began; and what had been counted at that
    /// unit's end.
    stretch: Stretch,
    part_began: Sums,
    left_off: ByCause<u64>,
    /// While a unit is counted, what is not of one; else what units have counted, and before the first of them
    /// what the start did.
    apart: Account,
    /// What the start did, once a unit has begun. Until then it stands in `apart`, and here is the empty account by
    /// which units will count.
    start_account: Account,
    units: Vec<Unit>,
    began: Began,
    kept: Kept,
    /// What stood there before the first unit.
    start_kept: Kept,
    /// What media had done, outside of units, when the unit under way began.
    activity: Activity,
}

/// What stood where when a unit began.
#[derive(Clone, Debug, Default)]
struct Began {
    at_ps: u64,
    sums: Sums,
    /// What each thread had been charged in units, and up to when it was charged.
    charged_ps: Vec<(u64, u64)>,
}

/// Sums at a time.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    instructions: u64,
    counts: ByCause<u64>,
    latency_ps: ByCause<u128>,
    misses: u64,
    fetches: u64,
    energy_j: f64,
    /// Time in which cores had threads to run.
    running_ps: u64,
    /// Time that threads were at work or waited for the machine.
    live_ps: u64,
    /// Of that, what paths and instructions take in any case, and what causes take; and of that of the store, what threads
    /// waited for their turn.
    paths_ps: u64,
    spent_ps: ByCause<u64>,
    ready_ps: u64,
    /// What threads waited for in syncs, by the causes that this was charged to; from the machine's start on.
    synced_ps: ByCause<u64>,
    /// What threads took to wake others and to switch to them, which is as certain as a path; from the machine's start on.
    handed_ps: u64,
}

/// What the account does not hold of all units, while none is measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    pub times: Vec<[u64; OWNERS]>,
    activity: Activity,
}

/// What causes took in units, the latest counting most.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    spent_ps: ByCause<f64>,
    counts: ByCause<f64>,
    /// Whether the store tells what it takes, so that what was never met can be told roughly.
    store_known: bool,
    /// Syncs are told by that, too.
    flushes: bool,
}

impl Rates {
    /// Weight of all units before against one more: what the last two took is most of it, as the
    /// estimate takes two units to each side of a stretch.
    const KEPT: f64 = 0.5;

    fn add(&mut self, spent_ps: ByCause<f64>, counts: ByCause<u64>) {
        // A unit without one of a cause tells nothing of it: what it spent belongs to one before.
        for cause in (0..Cause::ALL.len()).filter(|cause| counts[*cause] > 0) {
            self.spent_ps[cause] = self.spent_ps[cause] * Self::KEPT + spent_ps[cause];
            self.counts[cause] = self.counts[cause] * Self::KEPT + counts[cause] as f64;
        }
    }

    /// What one of a cause takes, in picoseconds.
    fn of(&self, cause: Cause) -> f64 {
        let (spent_ps, count) = (self.spent_ps[cause as usize], self.counts[cause as usize]);
        match cause {
            // Paths are executed as in detail.
            Cause::Access | Cause::Entry => 0.0,
            // In nanoseconds of its own times.
            Cause::Store if count < 1e-3 && self.store_known => 1e3,
            _ if count < 1e-3 => 0.0,
            _ => spent_ps / count,
        }
    }

    /// What one of a cause takes that no unit met: a program may sync once, at its end.
    fn unmet_ps(&self) -> ByCause<f64> {
        let mut unmet_ps = [0.0; Cause::ALL.len()];
        unmet_ps[Cause::Sync as usize] = if self.store_known && self.flushes { 1e3 } else { 0.0 };
        unmet_ps
    }
}

/// What a page costs the store, in nanoseconds: the measure of its work. A page written takes many
/// times as long as one read, so that their numbers alone would not tell when writing begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreWork {
    read: u64,
    write: u64,
}

impl StoreWork {
    /// So many of each cause tell what one takes: of the store, pages; of flushes, those of writes one after another.
    fn enough(self, flushes: bool) -> ByCause<u64> {
        let mut enough = [PAGES_IN_A_UNIT; Cause::ALL.len()];
        enough[Cause::Store as usize] = PAGES_IN_A_UNIT.saturating_mul(self.read);
        if flushes {
            enough[Cause::Sync as usize] = PAGES_IN_A_UNIT.saturating_mul(self.write);
        }
        enough
    }

    fn of(self, read_pages: u64, written_pages: u64) -> u64 {
        (read_pages.saturating_mul(self.read))
            .saturating_add(written_pages.saturating_mul(self.write))
    }
}

/// How much came of something each time in detail: as much does, in the mean, in what is passed over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    times: u64,
    came: u64,
}

impl Seen {
    pub fn saw(&mut self, came: u64) {
        self.times += 1;
        self.came += came;
    }

    /// How much comes the next time; `left` is what is left over of the times before.
    pub fn next(self, left: &mut f64) -> u64 {
        *left += self.came as f64 / self.times.max(1) as f64;
        let comes = left.floor();
        *left -= comes;
        comes as u64
    }
}

/// What accesses wait for in functional warming, in picoseconds; nothing unless the run is sampled.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waits {
    pub beyond_ps: u64,
    pub memory_ps: u64,
    /// For a page from the store, and for one to it.
    pub fetch_ps: u64,
    pub write_back_ps: u64,
}

/// Lengths, in picoseconds of simulated time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Of a unit.
    pub unit_ps: u64,
    /// Of what is simulated in detail before it, at least.
    pub refill_ps: u64,
    /// Of a period, in which one unit lies; the first is all in detail.
    pub period_ps: u64,
}

/// A unit is so many times as long as a page from the store takes, at least, the path of a fault for it
/// included: the mean of a ratio is off by the square of how its parts vary, here 1/100.
const PAGES_IN_A_UNIT: u64 = 100;
/// Shortest unit that is chosen where none is asked for: 1 ms.
const UNIT_PS: u64 = 1_000_000_000;
/// A period has so many units' time where nothing else is asked for.
pub(crate) const UNITS_IN_A_PERIOD: u64 = 20;
/// The fewest: half a unit more, at least, is simulated in detail before each.
pub(crate) const LEAST_IN_A_PERIOD: u64 = 3;

impl Plan {
    /// Lengths for a machine on which a page from the store takes so long, what the store begins by itself goes
    /// on for so long, and what a cache that prefetches has to write back waits for so long: in the detail before a unit
    /// that comes to be under way again, as it was before the last unit's end let it end.
    pub(super) fn new(
        asked: Sampling,
        page_ps: u64,
        (settling_ps, backlog_ps): (u64, u64),
    ) -> Result<Self, String> {
        let settled_ps = settling_ps.saturating_mul(2);
        let own_ps = page_ps.saturating_mul(PAGES_IN_A_UNIT).max(UNIT_PS).max(settled_ps);
        let unit_ps = asked.unit_ps.unwrap_or(own_ps);
        let every = asked.every.unwrap_or(UNITS_IN_A_PERIOD);
        if unit_ps < 1_000_000 {
            let us = unit_ps as f64 / 1e6;
            return Err(format!("a unit of {us} us is too short; give 1us at least"));
        }
        if every < LEAST_IN_A_PERIOD {
            return Err(format!(
                "one unit in {every} leaves nothing out, for half as much again, at least, is simulated in detail \
                 before each; measure one in {LEAST_IN_A_PERIOD} at most, or run all in detail"
            ));
        }
        let period_ps = unit_ps.saturating_mul(every);
        let refill_ps = (unit_ps / 2).max(settled_ps).max(backlog_ps);
        let least = refill_ps.div_ceil(unit_ps).saturating_add(2);
        if every < least {
            return Err(format!(
                "what the store has under way takes {} ms to be as it was, and is simulated in detail before each \
                 unit; measure one in {least} at most, or longer units",
                settled_ps.max(backlog_ps) as f64 / 1e9
            ));
        }
        Ok(Plan { unit_ps, refill_ps, period_ps })
    }
}

impl Sampler {
    /// Of a machine that counts nothing yet, whose store takes so long to read and to write a page, and whose syncs have
    /// memory flushed, or not; what is not of the start is counted by the accounts `apart`.
    pub fn new(
        (plan, warming): (Plan, Warming),
        store_ps: Option<(u64, u64)>,
        flushes: bool,
        seed: u64,
        [apart, start_account]: [Account; 2],
    ) -> Self {
        let (read_ps, write_ps) = store_ps.unwrap_or_default();
        Sampler {
            plan,
            refill_ps: plan.refill_ps,
            next_refill_ps: plan.refill_ps,
            warming,
            work_ns: StoreWork { read: (read_ps / 1000).max(1), write: (write_ps / 1000).max(1) },
            phase: Phase::Refilling,
            random: Random::stream(seed, "sampling"),
            origin_ps: 0,
            periods: 0,
            events: 0,
            pilot: true,
            rates: Rates { store_known: store_ps.is_some(), flushes, ..Rates::default() },
            transfers: TransferTimes::default(),
            since_ps: 0,
            settled_ps: 0,
            at_work: Vec::new(),
            detailed_ps: 0,
            measured_ps: 0,
            stretches: Vec::new(),
            stretch: Stretch::default(),
            first: Unit::NONE,
            start: Unit::NONE,
            start_began: Began::default(),
            part_began: Sums::default(),
            left_off: [0; Cause::ALL.len()],
            apart,
            start_account,
            units: Vec::new(),
            began: Began::default(),
            kept: Kept::default(),
            start_kept: Kept::default(),
            activity: Activity::default(),
        }
    }

    pub fn fork(&mut self) -> Self {
        Sampler {
            random: self.random.clone(),
            transfers: self.transfers.clone(),
            apart: self.apart.fork(),
            start_account: self.start_account.fork(),
            at_work: self.at_work.clone(),
            units: self.units.clone(),
            stretches: self.stretches.clone(),
            began: self.began.clone(),
            start_began: self.start_began.clone(),
            kept: self.kept.clone(),
            start_kept: self.start_kept.clone(),
            activity: self.activity.clone(),
            ..*self
        }
    }

    /// Whether what happens now is counted.
    fn counts(&self) -> bool {
        self.phase == Phase::Measuring && !self.pilot
    }

    /// When the next unit's warming in detail begins: in the next period that has room for it. What begins anew there, all
    /// at a time, may go on by turns, as programs do that begin together on all dies of a store, end together and so once
    /// more: so that units do not all meet the same turn, it is drawn how long that goes on before each.
    fn next_unit_ps(&mut self, now_ps: u64, begins_anew: bool) -> u64 {
        let Plan { unit_ps, period_ps, .. } = self.plan;
        let more_ps = if begins_anew { self.random.below(unit_ps) } else { 0 };
        let refill_ps = self.refill_ps.saturating_add(more_ps);
        self.next_refill_ps = refill_ps;
        loop {
            let start_ps = self.origin_ps.saturating_add(self.periods.saturating_mul(period_ps));
            self.periods += 1;
            // Where that does not fit, units lie farther apart.
            let room_ps = (period_ps - unit_ps).saturating_sub(refill_ps).max(unit_ps);
            let place_ps = self.random.below(room_ps);
            let at_ps = start_ps.saturating_add(place_ps);
            if at_ps >= now_ps {
                return at_ps;
            }
        }
    }

    /// What comes is of the next phase; the time since the last change.
    fn change(&mut self, phase: Phase, now_ps: u64) -> u64 {
        self.phase = phase;
        now_ps - std::mem::replace(&mut self.since_ps, now_ps)
    }
}

impl Machine {
    /// Begins to sample, for the region of interest has begun.
    pub(super) fn begin_sampling(&mut self, now_ps: u64) {
        self.syncing.begin_counting();
        let sums = self.unit_sums(now_ps);
        if let Some(sampler) = &mut self.sampler {
            sampler.since_ps = now_ps;
            for account in [&mut sampler.apart, &mut sampler.start_account] {
                account.since_ps = self.account.since_ps;
            }
            sampler.start_began = Began { at_ps: now_ps, sums, charged_ps: Vec::new() };
            // A first period is all in detail: what is only at a start has no part in units.
            let at_ps = now_ps.saturating_add(sampler.plan.period_ps - sampler.plan.unit_ps);
            self.schedule_phase(at_ps);
        }
    }

    fn schedule_phase(&mut self, at_ps: u64) {
        let Some(sampler) = &mut self.sampler else { return };
        sampler.events += 1;
        self.queue.push(at_ps, self.fixed.interval_sources, Event::Sample);
    }

    /// The time of a change of phase has come.
    pub(super) fn change_phase(&mut self, now_ps: u64) {
        let Some(sampler) = &mut self.sampler else { return };
        sampler.events -= 1;
        let (Plan { unit_ps, .. }, refill_ps) = (sampler.plan, sampler.next_refill_ps);
        match sampler.phase {
            Phase::Skimming => {
                self.end_skim(now_ps);
                self.functional = false;
                self.organization.pass_by_memory(false);
                self.waits = Waits::default();
                self.schedule_phase(now_ps.saturating_add(refill_ps));
            }
            Phase::Refilling => {
                self.charge_all(now_ps);
                let stretch = self.stretch(now_ps);
                let Some(sampler) = &mut self.sampler else { return };
                let passed_ps = sampler.change(Phase::Measuring, now_ps);
                sampler.detailed_ps += passed_ps;
                sampler.measured_ps += if sampler.pilot { passed_ps } else { 0 };
                self.begin_unit(now_ps, stretch);
                self.schedule_phase(now_ps.saturating_add(unit_ps));
            }
            Phase::Measuring => self.end_unit(now_ps),
            Phase::Settling => {}
        }
    }

    /// Whether no thread goes on until what is under way has ended.
    #[inline]
    pub(super) fn settles(&self) -> bool {
        self.sampler.as_ref().is_some_and(|sampler| sampler.phase == Phase::Settling)
    }

    /// What a sync takes that begins now: where it has memory flushed, in nanoseconds of the store's own times, else it is
    /// one that waits for what is on its way; and how long that takes by the units so far, in picoseconds. Nothing unless
    /// the run is sampled.
    pub(super) fn sync_work(&self) -> (u64, u64) {
        let Some(sampler) = &self.sampler else { return (0, 0) };
        if !sampler.rates.flushes {
            return (1, sampler.rates.of(Cause::Sync).round() as u64);
        }
        let work = self.organization.flush_writes().saturating_mul(sampler.work_ns.write);
        (work, self.syncing.flush_ps(work))
    }

    /// Whether what happens now is passed over.
    pub(super) fn passes_over(&self) -> bool {
        self.sampler.as_ref().is_some_and(|sampler| sampler.phase == Phase::Skimming)
    }

    /// Whether the machine is warmed functionally, and nobody waits for the store: where the operating system pages,
    /// transfers in what is passed over take what they took in units, and threads wait for them.
    #[inline]
    pub(super) fn nobody_waits(&self) -> bool {
        self.functional && !(self.fixed.paging && self.passes_over())
    }

    /// Whether what is passed over asks the store for pages in detail.
    #[inline]
    pub(super) fn asks_store(&self) -> bool {
        self.fixed.asks_store && self.passes_over()
    }

    /// Whether transfers are not asked of the store, for the machine is warmed functionally.
    #[inline]
    pub(super) fn skips_store(&self) -> bool {
        self.functional && !self.asks_store()
    }

    /// What a transfer takes that begins now, in functional warming: nothing unless the run is sampled. One of a kind
    /// that no unit has met takes what a page takes the store by itself.
    pub(super) fn warm_transfer_ps(&self, class: Class, write: bool) -> u64 {
        let Some(sampler) = self.sampler.as_deref().filter(|_| self.passes_over()) else {
            return 0;
        };
        let own_ns = if write { sampler.work_ns.write } else { sampler.work_ns.read };
        sampler.transfers.expect_ps(class).unwrap_or(own_ns * 1000)
    }

    /// What a transfer is one of that begins now, where the run is sampled.
    pub(super) fn class_of(&self, transfer: &Transfer) -> Class {
        match self.sampler {
            Some(_) => Class::of(transfer, self.transfers.values().map(|io| io.pages).sum()),
            None => Class::default(),
        }
    }

    /// A transfer has ended that was in detail, and took so long.
    pub(super) fn note_transfer(&mut self, class: Class, duration_ps: u64) {
        if let Some(sampler) = &mut self.sampler
            && sampler.phase == Phase::Measuring
        {
            sampler.transfers.took(class, duration_ps);
        }
    }

    /// Lets the next of what is under way end, or goes on without detail once nothing is.
    pub(super) fn settle(&mut self) -> Result<(), MachineError> {
        let Some(at_ps) = self.next_until_quiet()? else {
            self.skim();
            return Ok(());
        };
        if let Some(sampler) = &mut self.sampler {
            sampler.settled_ps = at_ps;
        }
        self.happen(at_ps)
    }

    /// Goes on without detail, until the next unit.
    fn skim(&mut self) {
        let Some(sampler) = &mut self.sampler else { return };
        let (settled_ps, ended_ps) = (sampler.settled_ps, sampler.since_ps);
        sampler.change(Phase::Skimming, settled_ps);
        sampler.refill_ps =
            sampler.refill_ps.max(settled_ps - ended_ps).min(sampler.plan.period_ps);
        // Where the operating system pages, transfers are under way between units, too.
        let at_ps = sampler.next_unit_ps(settled_ps, !self.fixed.paging);
        let rate_ps = |cause| sampler.rates.of(cause).round() as u64;
        let work_ps = |ns: u64| (sampler.rates.of(Cause::Store) * ns as f64).round() as u64;
        self.waits = Waits {
            beyond_ps: rate_ps(Cause::Beyond),
            memory_ps: rate_ps(Cause::Memory),
            fetch_ps: work_ps(sampler.work_ns.read),
            write_back_ps: work_ps(sampler.work_ns.write),
        };
        self.functional = true;
        self.organization.pass_by_memory(self.fixed.asks_store);
        let at_work = self.contexts.iter().zip(&sampler.at_work).filter(|(_, at_work)| **at_work);
        let running = at_work.map(|(it, _)| it).filter(|it| it.doing == Doing::Running);
        let waited_ps = running.clone().map(|context| context.now_ps.saturating_sub(ended_ps));
        let (running, waited_ps) = (running.count() as u64, waited_ps.sum::<u64>());
        self.resume_at(settled_ps);
        self.charge_all(settled_ps);
        let began = self.unit_sums(settled_ps);
        let asks_store = self.fixed.asks_store;
        if let Some(sampler) = &mut self.sampler {
            let waited_ps = waited_ps / running.max(1);
            sampler.detailed_ps += waited_ps;
            // What causes take in units has it: what is under way at their end is as much as at their beginning. Of a store
            // that is asked throughout it is time of the run. That nobody goes on until all is quiet is not.
            sampler.measured_ps += if asks_store { waited_ps } else { 0 };
            sampler.part_began = began;
        }
        self.schedule_phase(at_ps);
    }

    fn end_skim(&mut self, now_ps: u64) {
        self.charge_all(now_ps);
        let (stretch, part_began) = (self.stretch(now_ps), self.unit_sums(now_ps));
        if let Some(sampler) = &mut self.sampler {
            (sampler.stretch, sampler.part_began) = (stretch, part_began);
            sampler.change(Phase::Refilling, now_ps);
        }
    }

    /// What has passed since the last unit, but for what was waited for until all was quiet. What is in detail before a
    /// unit is of it: queues and buffers fill there, so that it takes less time than it would.
    fn stretch(&self, now_ps: u64) -> Stretch {
        let Some(sampler) = self.sampler.as_deref() else { return Stretch::default() };
        let (before, began, end) = (sampler.stretch, &sampler.part_began, self.unit_sums(now_ps));
        let time_ps = now_ps.saturating_sub(sampler.since_ps);
        let contexts_ps = time_ps as f64 * self.contexts.len() as f64;
        let worked_ps = ((end.live_ps - began.live_ps) as f64).min(contexts_ps);
        let paths_ps = (end.paths_ps - began.paths_ps + end.handed_ps - began.handed_ps) as f64;
        let mut spent_ps = less(end.spent_ps, began.spent_ps);
        spent_ps[Cause::Store as usize] = 0;
        let others_ps = paths_ps + spent_ps.iter().sum::<u64>() as f64;
        let store_ps = if self.fixed.asks_store { (worked_ps - others_ps).max(0.0) } else { 0.0 };
        Stretch {
            time_ps: before.time_ps + time_ps,
            worked_ps: before.worked_ps + worked_ps,
            paths_ps: before.paths_ps + paths_ps,
            store_ps: before.store_ps + store_ps,
            counts: less(end.counts, sampler.left_off),
        }
    }

    /// A unit begins behind such a stretch. All threads have been charged.
    fn begin_unit(&mut self, now_ps: u64, stretch: Stretch) {
        let activity = self.organization.activity(now_ps);
        let Some(sampler) = &mut self.sampler else { return };
        if !sampler.pilot {
            sampler.stretches.push(stretch);
            sampler.stretch = Stretch::default();
            if sampler.units.is_empty() {
                std::mem::swap(&mut sampler.apart, &mut sampler.start_account);
                // Intervals of the start are followed by units.
                sampler.apart.intervals = std::mem::take(&mut sampler.start_account.intervals);
                sampler.start_kept = std::mem::take(&mut sampler.kept);
            }
            std::mem::swap(&mut self.account, &mut sampler.apart);
            let Kept { times, activity: measured } = std::mem::take(&mut sampler.kept);
            // As if units followed each other: what came between them is taken away.
            sampler.activity = activity.since(&measured);
            for (index, thread) in self.threads.iter_mut().enumerate() {
                thread.set_times(times.get(index).copied().unwrap_or([0; OWNERS]));
            }
            self.begin_interval();
        }
        let (sums, charged_ps) = (self.unit_sums(now_ps), self.charged_ps());
        if let Some(sampler) = &mut self.sampler {
            sampler.began = Began { at_ps: now_ps, sums, charged_ps };
        }
    }

    fn end_unit(&mut self, now_ps: u64) {
        self.charge_all(now_ps);
        self.assert_charged();
        let counts = self.sampler.as_ref().is_some_and(|sampler| sampler.counts());
        if counts {
            self.take_interval(now_ps - self.region.start_ps);
        }
        let sums = self.unit_sums(now_ps);
        let activity = self.activity(now_ps);
        let times: Vec<_> = self.threads.iter().map(|thread| thread.times).collect();
        let contexts = self.contexts.len() as f64;
        let Some(sampler) = &mut self.sampler else { return };
        std::mem::swap(&mut self.account, &mut sampler.apart);
        let unit = sampler.began.measure(now_ps, &sums, contexts);
        sampler.rates.add(unit.spent_ps, unit.counts);
        sampler.transfers.end_unit(Rates::KEPT);
        let passed_ps = sampler.change(Phase::Settling, now_ps);
        sampler.detailed_ps += passed_ps;
        sampler.measured_ps += passed_ps;
        sampler.settled_ps = now_ps;
        sampler.at_work = self.contexts.iter().map(|it| it.doing != Doing::Idle).collect();
        if !counts {
            sampler.pilot = false;
            sampler.first = unit;
            sampler.start = sampler.start_began.measure(now_ps, &sums, contexts);
            sampler.origin_ps = now_ps;
        } else if sampler.units.is_empty() && unit.instructions == 0 {
            // All waited, and the start still tells of the run.
            std::mem::swap(&mut sampler.apart, &mut sampler.start_account);
            sampler.apart.intervals = std::mem::take(&mut sampler.start_account.intervals);
            sampler.kept = std::mem::take(&mut sampler.start_kept);
            return self.leave_unit(now_ps);
        } else {
            sampler.units.push(unit);
        }
        sampler.kept = Kept { times, activity };
        self.leave_unit(now_ps);
    }

    /// A stretch between units begins.
    fn leave_unit(&mut self, now_ps: u64) {
        let counted = self.unit_sums(now_ps).counts;
        if let Some(sampler) = &mut self.sampler {
            sampler.left_off = counted;
        }
        self.take_back();
    }

    /// Ends the unit under way, if one is, because the run has ended.
    pub(super) fn close_sample(&mut self) {
        if self.sampling().is_none() {
            // All was in detail.
            self.sampler = None;
        }
        let Some(sampler) = &self.sampler else { return };
        let now_ps = self.reached_ps();
        if sampler.counts() && now_ps > sampler.began.at_ps {
            self.end_unit(now_ps);
        }
    }

    /// Charges what waits up to now, where a unit or the region ends, so that it has all of its own time.
    pub(super) fn charge_all(&mut self, now_ps: u64) {
        /// Where a miss may wait: in main memory, and, where hardware asks a store for it, there.
        const WAITS: [Stage; 8] = [
            Stage::Controller,
            Stage::ControllerQueue,
            Stage::DramQueue,
            Stage::Dram,
            Stage::Link,
            Stage::StoreQueue,
            Stage::Device,
            Stage::Medium,
        ];
        let waits = if self.fixed.paging { &WAITS[..4] } else { &WAITS };
        // A run of which nothing has been passed over may yet be one that is all in detail.
        let cuts_units = self.sampling().is_some();
        for thread in &mut self.threads {
            if thread.clock_ps >= now_ps {
                continue;
            }
            match thread.state {
                State::OnMemory => thread.charge_sync(&Timeline::new(), now_ps),
                // Where its miss is delayed is known when that ends: units, which cut many, take it to be as before.
                State::Running(context)
                    if matches!(self.contexts[context].doing, Doing::Stalled(_)) =>
                {
                    let waits = if cuts_units { waits } else { &[] };
                    thread.charge_as_before(waits, now_ps);
                }
                _ => thread.charge_until(thread.waits_on(), now_ps),
            }
        }
    }

    /// What each thread has been charged, and up to when.
    fn charged_ps(&self) -> Vec<(u64, u64)> {
        let of = |thread: &Thread| (thread.times.iter().sum(), thread.clock_ps);
        self.threads.iter().map(of).collect()
    }

    /// Every picosecond of a unit has one owner.
    fn assert_charged(&self) {
        let Some(Sampler { began, .. }) = self.sampler.as_deref() else { return };
        for (index, (sum_ps, clock_ps)) in self.charged_ps().into_iter().enumerate() {
            let before = began.charged_ps.get(index).copied().unwrap_or((0, began.at_ps));
            let (charged_ps, passed_ps) = (sum_ps - before.0, clock_ps - before.1);
            assert_eq!(charged_ps, passed_ps, "a thread's time is not fully charged");
        }
    }

    /// What the account counted of each cause but the store.
    fn counts_of(&self, account: &Account) -> ByCause<u64> {
        let mut counts = [0; Cause::ALL.len()];
        counts[Cause::Access as usize] = account.accesses();
        counts[Cause::Entry as usize] = account.faults + account.calls;
        counts[Cause::Beyond as usize] = account.beyond_first;
        counts[Cause::Memory as usize] = account.memory_reads;
        counts
    }

    /// The store's work for what was moved: pages, or lines where it is read and written line by line, without pages
    /// that are promoted, for which nobody waits. Where a DRAM cache prefetches as it finds time, time must not go on
    /// by what it prefetches: there, demand's pages alone are told.
    fn store_work(&self, report: &OrganizationReport) -> u64 {
        let traffic = &report.traffic;
        let bytes = [traffic.store_read_bytes, traffic.store_written_bytes];
        let [read, written] = if self.fixed.paging {
            bytes.map(|bytes| bytes >> self.fixed.page_shift)
        } else if self.fixed.lines_of_store {
            let pages = [report.fetched_pages, report.write_backs];
            let promoted = pages.map(|pages| pages * self.fixed.promoted_page_bytes);
            [0, 1].map(|it| (bytes[it] - promoted[it]) >> self.fixed.line_shift)
        } else {
            [report.fetched_pages, report.displaced_pages]
        };
        self.sampler.as_ref().map_or(0, |sampler| sampler.work_ns.of(read, written))
    }

    fn unit_sums(&self, now_ps: u64) -> Sums {
        let account = &self.account;
        let report = self.organization.report();
        let mut sums = Sums {
            instructions: account.instructions,
            counts: self.counts_of(account),
            misses: report.misses,
            fetches: report.fetched_pages,
            energy_j: self.energy_of_units(&self.activity_since_base(now_ps).energy),
            running_ps: self.cores.iter().map(|core| core.occupancy.running_ps(now_ps)).sum(),
            ..Sums::default()
        };
        sums.counts[Cause::Store as usize] = self.store_work(&report);
        sums.counts[Cause::Sync as usize] = self.syncing.work(now_ps);
        for (stage, latency_ps) in account.latencies_by_stage(|level| self.hit_latency_ps(level)) {
            sums.latency_ps[Cause::of(stage) as usize] += latency_ps;
        }
        for thread in &self.threads {
            sums.ready_ps += thread.times[Stage::Ready as usize];
            sums.handed_ps += thread.handed_ps;
            for cause in 0..Cause::ALL.len() {
                sums.synced_ps[cause] += thread.synced_ps[cause];
            }
            for (owner, time_ps) in thread.times.iter().enumerate() {
                match owner {
                    asleep if is_asleep(asleep) => continue,
                    BUSY => sums.paths_ps += time_ps,
                    stage => match Cause::of(Stage::ALL[stage]) {
                        Cause::Entry => sums.paths_ps += time_ps,
                        // Waiting in the core for a line of its own caches.
                        Cause::Access => sums.spent_ps[Cause::Beyond as usize] += time_ps,
                        cause => sums.spent_ps[cause as usize] += time_ps,
                    },
                }
                sums.live_ps += time_ps;
            }
        }
        sums
    }

    /// The sampler, once something has been passed over.
    #[inline]
    pub(super) fn sampling(&self) -> Option<&Sampler> {
        self.sampler.as_deref().filter(|sampler| !sampler.pilot)
    }

    /// Since when time is charged that is counted now.
    pub(super) fn counted_since_ps(&self) -> u64 {
        self.sampler.as_ref().map_or(0, |it| it.began.at_ps).max(self.region.start_ps)
    }

    /// What units have counted, while nothing that happens is counted.
    pub(super) fn kept(&self) -> Option<&Kept> {
        self.sampling().filter(|sampler| !sampler.counts()).map(|sampler| &sampler.kept)
    }

    /// What media did in units, or in the region where the run is not sampled.
    pub(super) fn activity(&self, now_ps: u64) -> Activity {
        match self.kept() {
            Some(kept) => kept.activity.clone(),
            None => self.activity_since_base(now_ps),
        }
    }

    /// What media did in the whole region of a sampled run: between units, too, as far as it is counted there.
    pub(super) fn whole_activity(&self) -> Option<Activity> {
        self.sampling()?;
        Some(self.organization.activity(self.reached_ps()).since(&self.region.activity))
    }

    /// Of an energy, what is known of units alone, in joules.
    fn energy_of_units(&self, energy: &Energy) -> f64 {
        let joules = |energy: &Energy| energy.total_j().unwrap_or(0.0);
        joules(energy) - joules(&energy.warmed(self.fixed.asks_store))
    }

    /// How many times the instructions of units, those of the kernel included, the run has.
    fn instructed(&self) -> f64 {
        let units = self.counted().instructions + self.counted().kernel_instructions;
        let all = self.in_all(|account| account.instructions + account.kernel_instructions);
        all as f64 / units.max(1) as f64
    }

    /// What the store took in the whole region of a sampled run, part by part.
    fn store_energy(&self) -> Vec<StoreEnergy> {
        const LATER_PS: u64 = 1_000_000_000_000;
        let Some(whole) = self.whole_activity() else { return Vec::new() };
        let at_ps = self.reached_ps().saturating_add(LATER_PS);
        let later = self.organization.activity(at_ps).since(&self.region.activity);
        let idle = later.energy.since(&whole.energy).warmed(self.fixed.asks_store);
        let parts = whole.energy.warmed(self.fixed.asks_store).parts;
        let of = |(part, idle): (EnergyPart, EnergyPart)| StoreEnergy {
            name: part_name(&part),
            energy_j: part.energy_j,
            idle_w: idle.energy_j / (LATER_PS as f64 / 1e12),
        };
        parts.into_iter().zip(idle.parts).map(of).collect()
    }

    fn activity_since_base(&self, now_ps: u64) -> Activity {
        let base = self.sampling().map_or(&self.region.activity, |it| &it.activity);
        self.organization.activity(now_ps).since(base)
    }

    /// The account of what happens in units.
    pub(super) fn counted(&self) -> &Account {
        match self.sampling() {
            Some(sampler) if !sampler.counts() => &sampler.apart,
            _ => &self.account,
        }
    }

    /// The other accounts of a sampled run.
    #[inline]
    pub(super) fn others(&self) -> impl Iterator<Item = &Account> {
        self.sampler.iter().flat_map(|sampler| [&sampler.apart, &sampler.start_account])
    }

    /// Units, that under way included, and what the run has counted in all. Before any unit the start tells of the run:
    /// it stands in a unit's place.
    pub(super) fn units(&self) -> Option<(Vec<Unit>, SamplingResult, Totals)> {
        let sampler = self.sampling()?;
        let mut units = sampler.units.clone();
        let now_ps = self.reached_ps();
        let since_ps = now_ps.saturating_sub(sampler.since_ps);
        let (mut detailed_ps, mut measured_ps) = (sampler.detailed_ps, sampler.measured_ps);
        let mut stretches = sampler.stretches.clone();
        match sampler.phase {
            Phase::Skimming => stretches.push(self.stretch(now_ps)),
            Phase::Refilling => {
                stretches.push(self.stretch(now_ps));
                detailed_ps += since_ps;
            }
            Phase::Measuring => {
                detailed_ps += since_ps;
                measured_ps += since_ps;
            }
            Phase::Settling => {}
        }
        if sampler.counts() && now_ps > sampler.began.at_ps {
            let (sums, contexts) = (self.unit_sums(now_ps), self.contexts.len() as f64);
            units.push(sampler.began.measure(now_ps, &sums, contexts));
        }
        let Plan { unit_ps, refill_ps, period_ps } = sampler.plan;
        let warming = sampler.warming;
        let lengths =
            SamplingResult { unit_ps, refill_ps, period_ps, warming, ..SamplingResult::default() };
        let mut counts = self.counts_of(&self.account);
        for account in self.others() {
            let others = self.counts_of(account);
            counts.iter_mut().zip(others).for_each(|(count, other)| *count += other);
        }
        let start = if units.is_empty() {
            units.push(sampler.start);
            None
        } else {
            Some(sampler.start)
        };
        let report = self.organization_report();
        counts[Cause::Store as usize] = self.store_work(&report);
        counts[Cause::Sync as usize] = self.syncing.work(now_ps);
        let (misses, lookups) = self.misses_and_lookups();
        let totals = Totals {
            instructions: self.instructions(),
            counts,
            fetches: report.fetched_pages,
            lookups,
            misses: (self.fixed.paging || self.fixed.lines_of_store).then_some(misses),
            detailed_ps,
            measured_ps,
            pilot: sampler.first,
            asks_store: self.fixed.asks_store,
            by_hardware: !self.fixed.paging && self.spec.ssd.is_some(),
            instructed: self.instructed(),
            clock_ps: now_ps - self.region.start_ps,
            store_energy: self.store_energy(),
            private_hits: self.private_hits(),
            line_bytes: self.fixed.paging.then_some(1 << self.fixed.line_shift),
            start,
            enough: sampler.work_ns.enough(sampler.rates.flushes),
            unmet_ps: sampler.rates.unmet_ps(),
            stretches,
        };
        Some((units, lengths, totals))
    }
}

impl Began {
    /// The unit that ends with these sums.
    fn measure(&self, now_ps: u64, end: &Sums, contexts: f64) -> Unit {
        let time_ps = now_ps - self.at_ps;
        let before = &self.sums;
        let counts = less(end.counts, before.counts);
        let synced = less(end.synced_ps, before.synced_ps);
        let spent = less(less(end.spent_ps, before.spent_ps), synced);
        // As many threads run as are at work, as far as there is room for them; while one waits for
        // the store, another may run.
        let live = (end.live_ps - before.live_ps) as f64 / time_ps as f64;
        let worked_ps = time_ps as f64 * live.min(contexts);
        let mut spent_ps = spent.map(|ps| ps as f64);
        let handed_ps = (end.handed_ps - before.handed_ps) as f64;
        let paths_ps = (end.paths_ps - before.paths_ps) as f64 + handed_ps;
        let ready_ps = (end.ready_ps - before.ready_ps) as f64;
        let of_store_ps =
            std::mem::take(&mut spent_ps[Cause::Store as usize]) - ready_ps - handed_ps;
        let of_syncs_ps = synced.iter().sum::<u64>() as f64;
        let rest_ps = (worked_ps - paths_ps - spent_ps.iter().sum::<f64>()).max(0.0);
        // Threads may have waited for both at a time: each has as large a part as they waited for it.
        let waited_ps = of_store_ps + of_syncs_ps;
        let share = if waited_ps > 0.0 { of_syncs_ps / waited_ps } else { 0.0 };
        spent_ps[Cause::Sync as usize] = rest_ps * share;
        spent_ps[Cause::Store as usize] = rest_ps * (1.0 - share);
        Unit {
            time_ps,
            worked_ps,
            paths_ps,
            spent_ps,
            instructions: end.instructions - before.instructions,
            counts,
            latency_ps: less(end.latency_ps, before.latency_ps),
            misses: end.misses - before.misses,
            fetches: end.fetches - before.fetches,
            energy_j: end.energy_j - before.energy_j,
            running_ps: end.running_ps - before.running_ps,
        }
    }
}

fn less<T: Copy + std::ops::Sub<Output = T>>(a: ByCause<T>, b: ByCause<T>) -> ByCause<T> {
    std::array::from_fn(|cause| a[cause] - b[cause])
}
