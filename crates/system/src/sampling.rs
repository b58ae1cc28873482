//! The statistics of sampled runs: what a run came to, from what its units measured and from what was
//! counted all along, and how wide the intervals are.
//!
//! Time is measured in units only, but what takes time is counted throughout: instructions, accesses
//! beyond the first cache, reads of main memory, requests to the store. So a figure of the run is not
//! the units' mean times the run's length, but the sum over these causes of what one took in units
//! times how many the run had: a regression estimate (Cochran, *Sampling Techniques*, 3rd ed., ch. 7),
//! whose error is what the causes leave unexplained.

use crate::drive::bound_shares;
use crate::result::{HalfWidths, SamplingResult, SystemResult};
use crate::run::Warming;
use std::f64::consts::{FRAC_PI_2, PI};
use tierscope_kernel::Stage;

/// Of so many runs' intervals in a hundred, as many hold what the whole run gives.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// What an interval has beside sampling's error: what functional warming leaves out, as shares of a time or a latency. Of runs
/// that were compared with complete ones, 95 in 100 are off by less than both together (docs/models/sampling.md).
#[derive(Clone, Copy, Debug)]
pub(crate) struct WarmingError {
    /// Of what the store takes.
    pub store: f64,
    /// Of all else.
    pub memory: f64,
}

/// Between the units of a sampled run.
const BETWEEN_UNITS: WarmingError = WarmingError { store: 0.02, memory: 0.001 };
/// The same where hardware alone asks a drive: what would wait together there comes one after the other, so that less merges, and
/// nothing gives way to anything.
const OF_DRIVES: WarmingError = WarmingError { store: 0.07, ..BETWEEN_UNITS };
/// The same of the energy that is known of units alone: states of cores.
const OF_ENERGY: f64 = 0.01;

impl WarmingError {
    /// Of a figure of which the store takes this share.
    pub fn of(self, store_share: f64) -> f64 {
        let share = store_share.clamp(0.0, 1.0);
        self.store * share + self.memory * (1.0 - share)
    }
}

/// What time is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// An access of the program: what the first cache takes.
    Access,
    /// An entry to the kernel: its paths.
    Entry,
    /// An access beyond the first cache.
    Beyond,
    /// A read of main memory.
    Memory,
    /// What the store does, in nanoseconds of its own times for pages.
    Store,
    /// A sync of a file in main memory: a flush of it, in nanoseconds of the store's own times, or, where none is flushed,
    /// one that waits for what is on its way.
    Sync,
}

impl Cause {
    pub const ALL: [Cause; 6] =
        [Cause::Access, Cause::Entry, Cause::Beyond, Cause::Memory, Cause::Store, Cause::Sync];

    /// The stage that takes most of it, mostly.
    fn main_stage(self) -> Stage {
        match self {
            Cause::Access => Stage::Cache,
            Cause::Entry => Stage::Fault,
            Cause::Beyond => Stage::Core,
            Cause::Memory => Stage::Dram,
            Cause::Store | Cause::Sync => Stage::Medium,
        }
    }

    /// What a stage of an access, or of a thread's time outside of syncs, is for.
    pub fn of(stage: Stage) -> Cause {
        match stage {
            Stage::Cache => Cause::Access,
            Stage::Core | Stage::Tlb => Cause::Beyond,
            Stage::Fault
            | Stage::SystemCall
            | Stage::PageCache
            | Stage::BufferCache
            | Stage::Migration
            | Stage::FileSystem
            | Stage::BlockLayer
            | Stage::Driver => Cause::Entry,
            Stage::Controller | Stage::ControllerQueue | Stage::DramQueue | Stage::Dram => {
                Cause::Memory
            }
            Stage::HostQueue
            | Stage::ContextSwitch
            | Stage::Interrupt
            | Stage::WakeUp
            | Stage::Ready
            | Stage::Link
            | Stage::StoreQueue
            | Stage::Device
            | Stage::Medium
            | Stage::Dma
            | Stage::FileLock => Cause::Store,
        }
    }
}

/// A figure for each cause.
pub(crate) type ByCause<T> = [T; Cause::ALL.len()];

const NOTHING: ByCause<f64> = [0.0; Cause::ALL.len()];

/// What one unit measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unit {
    /// How long it was.
    pub time_ps: u64,
    /// Time of hardware threads that were at work, or waited with the thread that they ran.
    pub worked_ps: f64,
    /// Of that, what instructions and the kernel's paths take in any case.
    pub paths_ps: f64,
    /// Of that, what causes took.
    pub spent_ps: ByCause<f64>,
    pub instructions: u64,
    pub counts: ByCause<u64>,
    /// Latencies of accesses.
    pub latency_ps: ByCause<u128>,
    pub misses: u64,
    /// Pages that demand asked of the store.
    pub fetches: u64,
    /// Of what media take, what is not counted throughout.
    pub energy_j: f64,
    /// Time in which cores had threads to run, summed over cores.
    pub running_ps: u64,
}

impl Unit {
    /// One that measured nothing.
    pub const NONE: Unit = Unit {
        time_ps: 0,
        worked_ps: 0.0,
        paths_ps: 0.0,
        spent_ps: [0.0; Cause::ALL.len()],
        instructions: 0,
        counts: [0; Cause::ALL.len()],
        latency_ps: [0; Cause::ALL.len()],
        misses: 0,
        fetches: 0,
        energy_j: 0.0,
        running_ps: 0,
    };
}

/// A stretch of a run that was not measured: what was passed over, and what was in detail before the next unit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stretch {
    /// By the machine's clock, which goes on at the rates of the latest units in what is passed over.
    pub time_ps: u64,
    /// Time of hardware threads, by that clock.
    pub worked_ps: f64,
    /// Of that, what instructions and the kernel's paths took.
    pub paths_ps: f64,
    /// Of that, what threads waited for the store, where it was asked in detail.
    pub store_ps: f64,
    pub counts: ByCause<u64>,
}

/// A part of the store's energy, which was counted throughout, by the machine's clock.
#[derive(Clone, Debug)]
pub(crate) struct StoreEnergy {
    pub name: String,
    pub energy_j: f64,
    /// What it takes while the store does nothing.
    pub idle_w: f64,
}

/// What a run counted in all, measured or not.
#[derive(Clone, Debug)]
pub(crate) struct Totals {
    pub instructions: u64,
    pub counts: ByCause<u64>,
    pub fetches: u64,
    pub lookups: u64,
    /// Misses, where they are counted throughout.
    pub misses: Option<u64>,
    /// Time that passed in detail; and of that what was measured: the start, and units.
    pub detailed_ps: u64,
    pub measured_ps: u64,
    /// What came before the first stretch that was not in detail, all of it, unless it stands in a unit's place; and
    /// the last of it.
    pub start: Option<Unit>,
    pub pilot: Unit,
    /// The store was asked in detail throughout: what it took is known of all stretches.
    pub asks_store: bool,
    /// Hardware alone asks a drive.
    pub by_hardware: bool,
    /// How many times the instructions of units, those of the kernel included, the run has.
    pub instructed: f64,
    /// How long the run was by the machine's clock.
    pub clock_ps: u64,
    /// Parts of the store's energy that were counted throughout.
    pub store_energy: Vec<StoreEnergy>,
    /// Counters of hits in private caches, from the first on.
    pub private_hits: Vec<String>,
    /// Bytes of a line, where all that is moved in DRAM is lines and pages: these are known throughout.
    pub line_bytes: Option<u64>,
    /// So many of each cause tell what one takes well enough.
    pub enough: ByCause<u64>,
    /// What one of each takes that no unit met, in picoseconds.
    pub unmet_ps: ByCause<f64>,
    /// Stretches that were not in detail, each before the unit of the same number.
    pub stretches: Vec<Stretch>,
}

impl Totals {
    /// What the start did that is in no unit.
    fn start(&self) -> Unit {
        self.start.unwrap_or(Unit::NONE)
    }

    /// What functional warming leaves out.
    fn left_out(&self) -> WarmingError {
        if self.by_hardware { OF_DRIVES } else { BETWEEN_UNITS }
    }

    /// What causes took in a unit, by which stretches are told: without what is known of these themselves.
    fn to_tell(&self, unit: &Unit) -> ByCause<f64> {
        let mut spent_ps = unit.spent_ps;
        if self.asks_store {
            spent_ps[Cause::Store as usize] = 0.0;
        }
        spent_ps
    }

    /// Of a run that counted nothing.
    #[cfg(test)]
    fn none() -> Totals {
        Totals {
            instructions: 0,
            counts: [0; Cause::ALL.len()],
            fetches: 0,
            lookups: 0,
            misses: None,
            detailed_ps: 0,
            measured_ps: 0,
            start: Some(Unit::NONE),
            pilot: Unit::NONE,
            asks_store: false,
            by_hardware: false,
            instructed: 1.0,
            clock_ps: 0,
            store_energy: Vec::new(),
            private_hits: Vec::new(),
            line_bytes: None,
            enough: [100; Cause::ALL.len()],
            unmet_ps: [0.0; Cause::ALL.len()],
            stretches: Vec::new(),
        }
    }
}

/// Sums of all units, and how a run's totals compare with them.
struct Sums {
    units: usize,
    all: Unit,
    /// How many times the run has what units have, by cause.
    factors: ByCause<f64>,
    instructions: f64,
    /// Of the time.
    time: f64,
    /// What latencies, and what threads waited for, come to in the run.
    latency_ps: ByCause<f64>,
    spent_ps: ByCause<f64>,
}

impl Sums {
    fn of(units: &[Unit], totals: &Totals) -> Sums {
        let mut all = Unit::NONE;
        for unit in units {
            all.time_ps += unit.time_ps;
            all.worked_ps += unit.worked_ps;
            all.paths_ps += unit.paths_ps;
            all.instructions += unit.instructions;
            all.misses += unit.misses;
            all.fetches += unit.fetches;
            all.energy_j += unit.energy_j;
            for cause in 0..Cause::ALL.len() {
                all.spent_ps[cause] += unit.spent_ps[cause];
                all.counts[cause] += unit.counts[cause];
                all.latency_ps[cause] += unit.latency_ps[cause];
            }
        }
        let times = |total: u64, part: u64| total as f64 / part as f64;
        let instructions = times(totals.instructions, all.instructions);
        let of = |cause: Cause| {
            let factor = times(totals.counts[cause as usize], all.counts[cause as usize]);
            // A cause that no unit met: its time is unknown, and what else was charged to it grows
            // as the run.
            if factor.is_finite() { factor } else { instructions }
        };
        let time_ps = estimated_ps(units, totals);
        let time = time_ps / all.time_ps as f64;
        let n = units.len();
        let start = totals.start();
        let latency_ps = Took::of(units, totals, latency, NOTHING);
        let latency_ps = latency_ps.whole(n, totals, latency(&start));
        let spent_ps = Took::of(units, totals, |unit| unit.spent_ps, totals.unmet_ps);
        let mut spent_ps = spent_ps.whole(n, totals, start.spent_ps);
        if totals.asks_store {
            const STORE: usize = Cause::Store as usize;
            let passed_ps = totals.stretches.iter().map(|stretch| stretch.store_ps).sum::<f64>();
            let told_ps = totals.stretches.iter().map(|stretch| stretch.time_ps).sum::<u64>();
            let told_ps = (told_ps + all.time_ps) as f64;
            // What was in detail and no unit is as the rest.
            let more = (time_ps - start.time_ps as f64) / told_ps.max(1.0);
            spent_ps[STORE] = start.spent_ps[STORE] + (all.spent_ps[STORE] + passed_ps) * more;
        }
        let factors = Cause::ALL.map(of);
        Sums { units: n, factors, instructions, time, latency_ps, spent_ps, all }
    }

    fn factor(&self, cause: Cause) -> f64 {
        self.factors[cause as usize]
    }

    /// How many times the run waited for a cause what units did. Syncs wait for the store, mostly.
    fn waits(&self, cause: Cause) -> f64 {
        let of = |spent_ps: &ByCause<f64>| match cause {
            Cause::Store => spent_ps[cause as usize] + spent_ps[Cause::Sync as usize],
            _ => spent_ps[cause as usize],
        };
        let (whole, part) = (of(&self.spent_ps), of(&self.all.spent_ps));
        if part > 0.0 { whole / part } else { self.factor(cause) }
    }
}

/// Units to each side that tell what causes took, at least. More would blur how it changes as a run goes
/// on.
const NEAR: usize = 2;
/// Fewer units than these give no interval: its own error would be as large as what it tells, and few
/// units seldom meet what is rare.
pub(crate) const LEAST_UNITS: usize = 8;

/// What units took, the pilot first, so that what those near a place took is known at once.
struct Took {
    /// Sums of those before each.
    sums: Vec<(ByCause<f64>, ByCause<u64>)>,
    enough: ByCause<u64>,
    unmet: ByCause<f64>,
}

impl Took {
    /// Of a figure that a unit has by causes; what one takes of a cause that no unit met.
    fn of(
        units: &[Unit],
        totals: &Totals,
        figure: impl Fn(&Unit) -> ByCause<f64>,
        unmet: ByCause<f64>,
    ) -> Took {
        let mut sums = vec![([0.0; Cause::ALL.len()], [0; Cause::ALL.len()])];
        for (index, unit) in std::iter::once(&totals.pilot).chain(units).enumerate() {
            let ((before, met), took) = (sums[index], figure(unit));
            sums.push((
                std::array::from_fn(|cause| before[cause] + took[cause]),
                std::array::from_fn(|cause| met[cause] + unit.counts[cause]),
            ));
        }
        Took { sums, enough: totals.enough, unmet }
    }

    /// The run's figure by causes: that of its start, which was all in detail, of units, and of what was
    /// between them, each stretch by the units near it.
    fn whole(&self, units: usize, totals: &Totals, start: ByCause<f64>) -> ByCause<f64> {
        let (pilot, all) = (self.sums[1], self.sums[self.sums.len() - 1]);
        std::array::from_fn(|cause| {
            let (mut sum, mut count) =
                (all.0[cause] - pilot.0[cause], all.1[cause] - pilot.1[cause]);
            for (index, stretch) in totals.stretches.iter().enumerate() {
                let place = (index + 1).min(units + 1);
                sum += self.mean((place, place), cause) * stretch.counts[cause] as f64;
                count += stretch.counts[cause];
            }
            let counted = totals.counts[cause].saturating_sub(totals.start().counts[cause]);
            // What was in detail and no unit is as the rest.
            let more = if count > 0 { counted as f64 / count as f64 } else { 1.0 };
            start[cause] + sum * more
        })
    }

    /// What so many of each cause take by the units before `end` and from `start` on, the pilot counted
    /// as the first: the nearest that met enough of the cause. The mean of a ratio is off by the square
    /// of how its parts vary, over its number.
    fn expect(&self, place: (usize, usize), counts: &ByCause<u64>) -> f64 {
        (0..Cause::ALL.len()).map(|cause| self.mean(place, cause) * counts[cause] as f64).sum()
    }

    fn mean(&self, (end, start): (usize, usize), cause: usize) -> f64 {
        let all = self.sums.len() - 1;
        let mut reach = NEAR;
        loop {
            let (first, last) = (end.saturating_sub(reach), all.min(start + reach).max(start));
            let met = |place: usize| self.sums[place].1[cause];
            let met = met(end) - met(first) + met(last) - met(start);
            if met >= self.enough[cause] || first == 0 && last == all {
                let took = |place: usize| self.sums[place].0[cause];
                let took = took(end) - took(first) + took(last) - took(start);
                return if met > 0 { took / met as f64 } else { self.unmet[cause] };
            }
            reach *= 2;
        }
    }
}

/// The run's time: what was measured, and each stretch between units as causes took in those near
/// it. The machine's clock went on at the rates of the units before, or as queues and buffers filled, and is put right. Syncs take as long whether one
/// thread waits for them or as many as there is room for.
fn estimated_ps(units: &[Unit], totals: &Totals) -> f64 {
    const SYNC: usize = Cause::Sync as usize;
    let figure = |unit: &Unit| {
        let mut spent_ps = totals.to_tell(unit);
        spent_ps[SYNC] *= unit.time_ps as f64 / unit.worked_ps.max(1.0);
        spent_ps
    };
    let took = Took::of(units, totals, figure, totals.unmet_ps);
    let stretches = totals.stretches.iter().enumerate().map(|(index, stretch)| {
        // Each lies before the unit of its number, and the last may have none behind it.
        let place = (index + 1).min(units.len() + 1);
        let mut others = stretch.counts;
        let syncs_ps = took.mean((place, place), SYNC) * std::mem::take(&mut others[SYNC]) as f64;
        let known_ps = stretch.paths_ps + stretch.store_ps;
        let expected_ps = known_ps + took.expect((place, place), &others);
        let right = if stretch.worked_ps > 0.0 { expected_ps / stretch.worked_ps } else { 1.0 };
        stretch.time_ps as f64 * right + syncs_ps
    });
    totals.measured_ps as f64 + stretches.sum::<f64>()
}

/// What each unit took of a figure beyond what those near it would have had it take, as stretches are
/// estimated.
fn residuals(
    units: &[Unit],
    totals: &Totals,
    figure: impl Fn(&Unit) -> ByCause<f64>,
) -> impl Iterator<Item = f64> {
    let took = Took::of(units, totals, &figure, NOTHING);
    let residual = |(index, unit): (usize, &Unit)| {
        figure(unit).iter().sum::<f64>() - took.expect((index + 1, index + 2), &unit.counts)
    };
    units.iter().enumerate().map(residual).collect::<Vec<_>>().into_iter()
}

fn latency(unit: &Unit) -> ByCause<f64> {
    unit.latency_ps.map(|latency_ps| latency_ps as f64)
}

/// Half the width of the confidence interval of a total whose units leave these residuals and have
/// this sum, as a share of the total. `None` with too few units, or where the sum is 0.
///
/// Student's t of `n − 1` degrees of freedom times the standard error of `n` residuals. Units are one
/// to a period, at random places: their variance is taken as that of a simple random sample, which is
/// too large rather than too small where neighbours are alike.
pub(crate) fn half_width(
    residuals: impl Iterator<Item = f64>,
    units: usize,
    sum: f64,
) -> Option<f64> {
    if units < LEAST_UNITS || sum <= 0.0 {
        return None;
    }
    let (n, squares) = (units as f64, residuals.map(|residual| residual * residual).sum::<f64>());
    let error = (squares / (n - 1.0) * n).sqrt() / sum;
    Some(students_t(units - 1)? * error)
}

/// Student's t beyond which lies what the confidence leaves, on both sides together. `None` without a
/// degree of freedom.
fn students_t(freedom: usize) -> Option<f64> {
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    // The angle whose tangent is t/√n, to the last digit that a double tells.
    for _ in 0..64 {
        let angle = 0.5 * (low + high);
        let side = if within(angle, freedom)? < CONFIDENCE { &mut low } else { &mut high };
        *side = angle;
    }
    Some((0.5 * (low + high)).tan() * (freedom as f64).sqrt())
}

/// The probability that Student's t of so many degrees of freedom lies within ±√n·tan of an angle: the
/// finite sums of Abramowitz and Stegun, *Handbook of Mathematical Functions*, 26.7.3 (odd) and 26.7.4
/// (even).
fn within(angle: f64, freedom: usize) -> Option<f64> {
    let (sine, cosine) = angle.sin_cos();
    let odd = freedom % 2;
    let terms = freedom.checked_sub(1)? / 2 + (1 - odd);
    let (mut sum, mut term) = (0.0, if odd == 1 { cosine } else { 1.0 });
    for index in 1..=terms {
        sum += term;
        let even = (2 * index) as f64;
        let ratio = if odd == 1 { even / (even + 1.0) } else { (even - 1.0) / even };
        term *= ratio * cosine * cosine;
    }
    Some(if odd == 1 { 2.0 / PI * (angle + sine * sum) } else { sine * sum })
}

fn half_widths(units: &[Unit], sums: &Sums, totals: &Totals, energy: EnergyShares) -> HalfWidths {
    let Sums { units: n, all, .. } = sums;
    let to_tell = |unit: &Unit| totals.to_tell(unit);
    let time = half_width(residuals(units, totals, to_tell), *n, all.worked_ps);
    let asked = totals.asks_store.then(|| store_half_width(units, sums, totals)).flatten();
    let beside = left_out_of_time(sums, totals).hypot(asked.unwrap_or(0.0));
    let time = time.map(|half| (half * unmeasured_share(sums, totals)).hypot(beside));
    let latency_ps: u128 = all.latency_ps.iter().sum();
    let latency_half = half_width(residuals(units, totals, latency), *n, latency_ps as f64);
    // Of what the start took, nothing is estimated.
    let estimated: f64 = sums.latency_ps.iter().sum::<f64>();
    let start: f64 = latency(&totals.start()).iter().sum();
    let rest = 1.0 - start / estimated;
    let left_out = totals.left_out().of(of_store(&sums.latency_ps) / estimated) * rest;
    let per_fetch = all.misses as f64 / all.fetches as f64;
    let misses = units.iter().map(|unit| unit.misses as f64 - per_fetch * unit.fetches as f64);
    let power = all.energy_j / all.time_ps as f64;
    let of_units = units.iter().map(|unit| unit.energy_j - power * unit.time_ps as f64);
    let power_half = match all.energy_j > 0.0 {
        true => half_width(of_units, *n, all.energy_j),
        false => Some(0.0),
    };
    HalfWidths {
        time,
        mean_latency: latency_half.map(|half| (half * rest).hypot(left_out)),
        miss_rate: match totals.misses {
            Some(_) => None,
            // Units that met nothing but pages on their way tell nothing of those that are asked for.
            None if all.fetches == 0 => None,
            None => half_width(misses, *n, all.misses as f64),
        },
        // Of the power and of the time, as if one did not depend on the other.
        energy: power_half
            .zip(time)
            .map(|(power, time)| energy.half_width(power, time, totals.left_out())),
    }
}

/// What of a figure by causes the store took.
fn of_store(by_cause: &ByCause<f64>) -> f64 {
    by_cause[Cause::Store as usize] + by_cause[Cause::Sync as usize]
}

/// What of the time was in detail, measured or not.
fn detailed_share(sums: &Sums, totals: &Totals) -> f64 {
    let time_ps = sums.all.time_ps as f64 * sums.time;
    // Detail goes by the clock, and is told by counts where it is not measured: it may have taken longer than it is told to.
    (totals.detailed_ps as f64 / time_ps.max(1.0)).min(1.0)
}

/// What of the time was not measured.
fn unmeasured_share(sums: &Sums, totals: &Totals) -> f64 {
    1.0 - totals.measured_ps as f64 / (sums.all.time_ps as f64 * sums.time)
}

/// What functional warming leaves out of the time, as a share of it.
fn left_out_of_time(sums: &Sums, totals: &Totals) -> f64 {
    let share = of_store(&sums.all.spent_ps) / sums.all.worked_ps.max(1.0);
    totals.left_out().of(share) * (1.0 - detailed_share(sums, totals))
}

/// Of a store that was asked throughout, half the width of the interval of its part in the time. What it took is not
/// estimated, but pages came in another order than in detail, and heads stood elsewhere: it is as of two runs that differ
/// by chance, in each of which it varies as it does between units.
fn store_half_width(units: &[Unit], sums: &Sums, totals: &Totals) -> Option<f64> {
    let figure = |unit: &Unit| {
        let mut spent_ps = NOTHING;
        spent_ps[Cause::Store as usize] = unit.spent_ps[Cause::Store as usize];
        spent_ps
    };
    let in_units = half_width(residuals(units, totals, figure), sums.units, sums.all.worked_ps)?;
    Some(in_units * (2.0 / sums.time.max(1.0)).sqrt())
}

/// Makes of what was counted all along, and of what units measured, the estimate of the run.
///
/// `result` has counts of the run where they are counted throughout, and of the units where not.
pub(crate) fn estimate(
    mut result: SystemResult,
    units: &[Unit],
    lengths: SamplingResult,
    totals: &Totals,
) -> SystemResult {
    let sums = Sums::of(units, totals);
    let measured = if totals.start.is_some() { units.len() } else { 0 };
    let energy = set_energy(&mut result, &sums, totals);
    let sampling = SamplingResult {
        units: measured as u64,
        measured_time_ps: sums.all.time_ps,
        measured_instructions: sums.all.instructions,
        measured_accesses: sums.all.counts[Cause::Access as usize],
        detailed_share: detailed_share(&sums, totals),
        confidence: CONFIDENCE,
        warming_error: left_out_of_time(&sums, totals),
        half_widths: half_widths(units, &sums, totals, energy),
        ..lengths
    };
    if sums.all.instructions == 0 {
        // Nothing was measured from which anything could be estimated.
        return SystemResult {
            organization: result.organization,
            skipped: result.skipped,
            sampling: Some(sampling),
            notes: result.notes,
            ..SystemResult::default()
        };
    }
    if measured < LEAST_UNITS {
        result.notes.push(few_units(measured, lengths.period_ps));
    }
    if sampling.warming == Warming::Untimed {
        result.notes.push(UNTIMED.to_owned());
    }
    result.sampling = Some(sampling);
    set_time(&mut result, &sums);
    set_misses(&mut result, &sums, totals);
    set_latencies(&mut result, &sums);
    set_costs(&mut result, &sums);
    set_counters(&mut result, &sums, totals);
    set_drive(&mut result, &sums, totals);
    result
}

/// What of the energy of a run its interval is of, as shares of all of it.
#[derive(Clone, Copy, Debug, Default)]
struct EnergyShares {
    /// What media take, as far as it is known of units alone.
    media: f64,
    /// What is known of units alone, the processor's included.
    of_units: f64,
    /// What the store takes in any case, for as long as the run is.
    idle: f64,
    /// What the store takes for what it does.
    active: f64,
}

impl EnergyShares {
    /// Half the width of the energy's interval, from those of what units take a second and of the time, all as shares.
    fn half_width(self, power: f64, time: f64, left_out: WarmingError) -> f64 {
        let of_units = (self.media * power).hypot(self.of_units * OF_ENERGY);
        let of_time = (self.of_units + self.idle) * time;
        of_units.hypot(of_time).hypot(self.active * left_out.store)
    }
}

/// The energy of the whole run: what units took grows as the time; what the store took is known, but for how long the run was.
fn set_energy(result: &mut SystemResult, sums: &Sums, totals: &Totals) -> EnergyShares {
    let time_ps = sums.all.time_ps as f64 * sums.time;
    let longer_s = (time_ps - totals.clock_ps as f64) / 1e12;
    let energy = &mut result.energy;
    let media_j = |name: &String| !name.starts_with("processor.");
    for (name, energy_j) in &mut energy.parts_j {
        // Instructions are counted throughout.
        let counted = name == "processor.instructions";
        *energy_j *= if counted { totals.instructed } else { sums.time };
    }
    for part in &totals.store_energy {
        energy.parts_j.insert(part.name.clone(), part.energy_j + part.idle_w * longer_s);
    }
    let sum_j = || energy.parts_j.values().sum::<f64>();
    let Some(total_j) = energy.total_j.map(|_| sum_j()) else { return EnergyShares::default() };
    energy.total_j = Some(total_j);
    energy.average_w = (time_ps > 0.0).then_some(total_j / time_ps * 1e12);
    if total_j <= 0.0 {
        return EnergyShares::default();
    }
    let of_store_j: f64 = totals.store_energy.iter().map(|it| energy.parts_j[&it.name]).sum();
    let idle_w: f64 = totals.store_energy.iter().map(|it| it.idle_w).sum();
    let (of_store, idle) = (of_store_j / total_j, idle_w * time_ps / 1e12 / total_j);
    let of_media_j: f64 = energy.parts_j.iter().filter(|it| media_j(it.0)).map(|it| it.1).sum();
    let media = of_media_j / total_j - of_store;
    EnergyShares { media, of_units: 1.0 - of_store, idle, active: of_store - idle }
}

/// A drive and a memory that wears: what they did is of the whole run, and lasts as the run does; programs gave way to reads
/// in units alone.
fn set_drive(result: &mut SystemResult, sums: &Sums, totals: &Totals) {
    let longer = sums.all.time_ps as f64 * sums.time / totals.clock_ps.max(1) as f64;
    if let Some(drive) = &mut result.drive {
        let years = [&mut drive.lifetime_years, &mut drive.first_block_lifetime_years];
        years.into_iter().flatten().for_each(|years| *years *= longer);
        let shares = drive.channels_busy.iter_mut().chain(&mut drive.dies_busy);
        shares.for_each(|share| *share /= longer.max(f64::MIN_POSITIVE));
        let busiest = drive.dies_busy.iter().copied().fold(0.0, f64::max);
        bound_shares(drive);
        if busiest > MOST_BUSY {
            result.notes.push(too_busy(busiest, result.time_s));
            let half = result.sampling.as_mut().and_then(|it| it.half_widths.time.as_mut());
            half.into_iter().for_each(|half| *half = half.max(busiest - 1.0));
        }
        if !totals.asks_store {
            grow(&mut drive.suspends, sums.time);
        }
    }
    if let Some(years) = result.nvm.as_mut().and_then(|nvm| nvm.levelled_years.as_mut()) {
        *years *= longer;
    }
}

/// Flash that was at work for more of the time that is told contradicts it: what pages take is a mean of those in detail.
const MOST_BUSY: f64 = 1.05;

/// What is said of a time that is too short for what flash did, which counts throughout.
fn too_busy(busiest: f64, time_s: f64) -> String {
    format!(
        "a die of flash was at work for {:.3} s by what was counted throughout, so that the {time_s:.3} s that are told are too \
         short; run it without sampling",
        busiest * time_s
    )
}

/// What is said of a machine that is warmed without times between units.
const UNTIMED: &str = "what was passed over warmed the DRAM cache without times, and no interval holds what that is off \
     by: up to 9 % of the time where it was measured";

/// What is said where no interval can be told.
fn few_units(units: usize, period_ps: u64) -> String {
    let met = match units {
        0 => format!(
            "no unit was measured beyond the {} ms that are simulated in detail at the start, which tell of the rest",
            period_ps as f64 / 1e9
        ),
        1 => "only 1 unit was measured".to_owned(),
        _ => format!("only {units} units were measured"),
    };
    format!(
        "{met}, and an interval needs {LEAST_UNITS} units at least: how far these figures are off is not known; run it \
         without sampling"
    )
}

fn set_time(result: &mut SystemResult, sums: &Sums) {
    let measured_ps = sums.all.time_ps as f64;
    let time_ps = measured_ps * sums.time;
    result.time_ps = time_ps.round() as u64;
    result.time_s = result.time_ps as f64 / 1e12;
    // That of the units is their instructions over cycles of their time.
    result.ipc *= sums.instructions / sums.time;
    let threads_ns = result.time_breakdown_ns.values().sum::<f64>() * sums.time;
    for (owner, time_ns) in &mut result.time_breakdown_ns {
        *time_ns *= match stage(owner) {
            Some(stage) if stage != Stage::FileLock => match Cause::of(stage) {
                Cause::Entry => sums.factor(Cause::Entry),
                // What threads wait for in the core is charged to lines beyond the first cache.
                Cause::Access => sums.waits(Cause::Beyond),
                cause => sums.waits(cause),
            },
            None if owner == "busy" => sums.instructions,
            // Waiting for another thread, as that takes: on no cause.
            _ => sums.time,
        };
    }
    let sum_ns: f64 = result.time_breakdown_ns.values().sum();
    if sum_ns > 0.0 {
        let parts = result.time_breakdown_ns.values_mut();
        parts.for_each(|time_ns| *time_ns *= threads_ns / sum_ns);
    }
}

fn set_misses(result: &mut SystemResult, sums: &Sums, totals: &Totals) {
    let start = totals.start();
    let fetches = totals.fetches.saturating_sub(start.fetches) as f64;
    // A page that is asked for once may be missed several times until it has come.
    let misses = match (totals.misses, sums.all.fetches) {
        (Some(misses), _) => misses as f64,
        (None, 0) => start.misses as f64 + fetches,
        (None, met) => start.misses as f64 + sums.all.misses as f64 / met as f64 * fetches,
    };
    result.miss_rate = if totals.lookups > 0 { misses / totals.lookups as f64 } else { 0.0 };
    if totals.misses.is_none()
        && let Some(count) = result.counters.get_mut("dram_cache_misses")
    {
        *count = misses.round() as u64;
    }
}

fn stage(name: &str) -> Option<Stage> {
    Stage::ALL.into_iter().find(|stage| stage.name() == name)
}

/// Stages grow as their causes, and the mean is their sum. Percentiles are those of the units.
fn set_latencies(result: &mut SystemResult, sums: &Sums) {
    let accesses = sums.factor(Cause::Access) * sums.all.counts[Cause::Access as usize] as f64;
    if accesses <= 0.0 {
        return;
    }
    for cause in Cause::ALL {
        let (whole_ps, part_ps) =
            (sums.latency_ps[cause as usize], sums.all.latency_ps[cause as usize]);
        let stages = result.stages_ns.iter_mut();
        let of_cause =
            stages.filter(|(name, _)| stage(name).is_some_and(|stage| Cause::of(stage) == cause));
        if part_ps > 0 {
            let part_ns = part_ps as f64 / sums.all.counts[Cause::Access as usize] as f64 / 1e3;
            of_cause.for_each(|(_, mean_ns)| *mean_ns *= whole_ps / 1e3 / accesses / part_ns);
        } else if whole_ps > 0.0 {
            // Only at the start: it is not known of which of the cause's stages.
            let name = cause.main_stage().name().to_owned();
            *result.stages_ns.entry(name).or_default() += whole_ps / 1e3 / accesses;
        }
    }
    if let Some(latency) = &mut result.latency_ns {
        latency.mean = result.stages_ns.values().sum();
    }
}

/// A count of units becomes one of the run.
fn grow(count: &mut u64, factor: f64) {
    *count = (*count as f64 * factor).round() as u64;
}

fn set_costs(result: &mut SystemResult, sums: &Sums) {
    let accesses = sums.factor(Cause::Access);
    let code = result
        .code
        .iter_mut()
        .flat_map(|code| code.functions.iter_mut().chain(code.addresses.iter_mut().flatten()));
    let code = code.map(|row| {
        grow(&mut row.hits, accesses);
        &mut row.cost
    });
    for cost in result.areas.values_mut().chain(code) {
        grow(&mut cost.accesses, sums.factor(Cause::Beyond));
        grow(&mut cost.store_accesses, sums.factor(Cause::Store));
        grow(&mut cost.call_waits, sums.factor(Cause::Store));
        grow(&mut cost.memory_reads, sums.factor(Cause::Memory));
        cost.latency_ns *= sums.time;
        cost.stall_ns *= sums.time;
    }
}

/// Counters that were counted in units alone, by what they grow with.
const IN_UNITS: [(&str, Option<Cause>); 23] = [
    ("interrupts", Some(Cause::Store)),
    ("completion_interrupts", Some(Cause::Store)),
    ("context_switches", Some(Cause::Store)),
    ("dram_row_hits", Some(Cause::Memory)),
    ("dram_row_closed", Some(Cause::Memory)),
    ("dram_row_conflicts", Some(Cause::Memory)),
    ("dram_activates", Some(Cause::Memory)),
    ("dram_read_lines", Some(Cause::Memory)),
    ("dram_written_lines", Some(Cause::Memory)),
    ("dram_forwarded_lines", Some(Cause::Memory)),
    ("nvme_doorbells", Some(Cause::Store)),
    ("nvme_command_fetches", Some(Cause::Store)),
    ("nvme_list_fetches", Some(Cause::Store)),
    ("nvme_interrupts", Some(Cause::Store)),
    ("nvme_held_back_ns", Some(Cause::Store)),
    ("adapter_read_hits", Some(Cause::Store)),
    ("adapter_read_misses", Some(Cause::Store)),
    ("adapter_cached_writes", Some(Cause::Store)),
    ("adapter_waiting_writes", Some(Cause::Store)),
    ("adapter_passed_writes", Some(Cause::Store)),
    ("adapter_write_backs", Some(Cause::Store)),
    ("adapter_written_back_pages", Some(Cause::Store)),
    ("dram_refreshes", None),
];

fn set_counters(result: &mut SystemResult, sums: &Sums, totals: &Totals) {
    for (level, name) in totals.private_hits.iter().enumerate() {
        let cause = if level == 0 { Cause::Access } else { Cause::Beyond };
        if let Some(count) = result.counters.get_mut(name) {
            grow(count, sums.factor(cause));
        }
    }
    const LINES: [&str; 2] = ["dram_read_lines", "dram_written_lines"];
    let whole = totals.line_bytes.map(|line_bytes| {
        [result.dram_bytes.read, result.dram_bytes.written].map(|bytes| bytes / line_bytes)
    });
    let in_units = LINES.map(|name| result.counters.get(name).copied().unwrap_or(0));
    let of_lines = whole
        .filter(|_| in_units != [0; 2])
        .map(|whole| whole.iter().sum::<u64>() as f64 / in_units.iter().sum::<u64>() as f64);
    let of_store = |name: &str| name.starts_with("nvme_") || name.starts_with("adapter_");
    let told = IN_UNITS.into_iter().filter(|(name, _)| !(totals.asks_store && of_store(name)));
    for (name, cause) in told {
        let factor = match (cause, of_lines) {
            (Some(Cause::Memory), Some(of_lines)) => of_lines,
            (Some(cause), _) => sums.factor(cause),
            (None, _) => sums.time,
        };
        if let Some(count) = result.counters.get_mut(name) {
            grow(count, factor);
        }
    }
    for (name, count) in LINES.into_iter().zip(whole.into_iter().flatten()) {
        if let Some(told) = result.counters.get_mut(name) {
            *told = count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::DriveResult;
    use tierscope_kernel::Random;

    /// A unit of so much time, of which one cause took all, by so many.
    fn unit(worked_ps: f64, count: u64) -> Unit {
        let mut unit = Unit { time_ps: worked_ps as u64, worked_ps, ..Unit::NONE };
        unit.counts[Cause::Store as usize] = count;
        unit.spent_ps[Cause::Store as usize] = worked_ps;
        unit
    }

    fn with_stretch(time_ps: u64, count: u64) -> Totals {
        let mut stretch = Stretch { time_ps, worked_ps: time_ps as f64, ..Stretch::default() };
        stretch.counts[Cause::Store as usize] = count;
        Totals { pilot: unit(0.0, 0), stretches: vec![stretch], ..Totals::none() }
    }

    fn width(units: &[Unit]) -> Option<f64> {
        let totals = with_stretch(1_000_000, 1_000);
        half_widths(units, &Sums::of(units, &totals), &totals, EnergyShares::default()).time
    }

    #[test]
    fn what_causes_explain_has_the_width_of_warming_and_of_few_units_it_is_unknown() {
        let units: Vec<_> = (1..=8).map(|count| unit(2.0 * count as f64, count)).collect();
        assert_eq!(width(&units), Some(BETWEEN_UNITS.store));
        assert_eq!((width(&units[1..]), width(&units[..1]), width(&[])), (None, None, None));
    }

    /// A run that is told to be as long as its only unit, 1 ms, by the machine's clock as well, and the same with a clock that
    /// went twice as long.
    #[test]
    fn a_time_in_which_flash_could_not_have_done_what_it_did_is_told_to_be_too_short() {
        let units = [unit(1e9, 1)];
        let told = |clock_ps: u64, busy: f64, half: Option<f64>| {
            let totals = Totals { clock_ps, measured_ps: clock_ps, ..with_stretch(0, 0) };
            let dies_busy = vec![0.1, busy];
            let half_widths = HalfWidths { time: half, ..HalfWidths::default() };
            let mut result = SystemResult {
                drive: Some(DriveResult { dies_busy, ..DriveResult::default() }),
                sampling: Some(SamplingResult { half_widths, ..SamplingResult::default() }),
                ..SystemResult::default()
            };
            let sums = Sums { time: 1.0, ..Sums::of(&units, &totals) };
            set_drive(&mut result, &sums, &totals);
            let half = result.sampling.and_then(|it| it.half_widths.time);
            (result.notes.len(), half, result.drive.map(|it| it.dies_busy[1]))
        };
        let clock_ps = 1_000_000_000;
        assert_eq!(told(clock_ps, 1.02, Some(0.1)), (0, Some(0.1), Some(1.0)));
        assert_eq!(told(clock_ps, 3.0, Some(0.1)), (1, Some(2.0), Some(1.0)));
        assert_eq!(told(clock_ps, 3.0, None), (1, None, Some(1.0)));
        assert_eq!(told(2 * clock_ps, 0.75, Some(0.1)), (1, Some(0.5), Some(1.0)));
        assert_eq!(told(2 * clock_ps, 0.25, Some(0.1)), (0, Some(0.1), Some(0.5)));
    }

    /// Of a run of twice its units' time, which ran longer than its clock went by 1 ms: DRAM takes twice what units took, the
    /// drive what was counted of all of the run, and rests 1 ms longer.
    #[test]
    fn energy_of_a_drive_is_what_it_took_in_the_whole_run() {
        let units = [unit(1e9, 1)];
        let drive = || StoreEnergy { name: "store.drive".into(), energy_j: 5.0, idle_w: 2.0 };
        let clock_ps = 1_000_000_000;
        let measured_ps = clock_ps;
        let store_energy = vec![drive()];
        let totals = Totals { clock_ps, measured_ps, store_energy, ..with_stretch(clock_ps, 1) };
        let sums = Sums::of(&units, &totals);
        assert_eq!((sums.time, sums.all.time_ps), (2.0, 1_000_000_000));
        let mut result = SystemResult::default();
        let of_units = [("dram.refresh", 0.25), ("store.drive", 1.0)];
        result.energy.parts_j = of_units.map(|(name, energy_j)| (name.into(), energy_j)).into();
        result.energy.total_j = Some(1.25);
        set_energy(&mut result, &sums, &totals);
        assert_eq!(result.energy.parts_j["dram.refresh"], 0.5);
        assert_eq!(result.energy.parts_j["store.drive"], 5.002);
        assert_eq!(result.energy.total_j, Some(5.502));
        let average_w = result.energy.average_w.unwrap_or_default();
        assert!((average_w - 2_751.0).abs() < 1e-9, "{average_w}");
    }

    #[test]
    fn students_t_is_that_of_published_tables() {
        // Abramowitz and Stegun, table 26.10, for 0.95 on both sides together.
        let table = [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (4, 2.776),
            (9, 2.262),
            (10, 2.228),
            (30, 2.042),
            (120, 1.980),
        ];
        for (freedom, expected) in table {
            let found = students_t(freedom).unwrap_or_default();
            assert!((found - expected).abs() < 6e-4, "{freedom}: {found}");
        }
        assert_eq!(students_t(0), None);
        assert!((students_t(100_000).unwrap_or_default() - 1.96).abs() < 1e-3);
    }

    #[test]
    fn the_width_is_that_of_a_calculation_by_hand() {
        // Each is told by the seven others, which are not enough: 2 by 18/7, 3 by 17/7. Residuals of 4/7
        // each give a sum's standard error of sqrt(8 · 8 · (16/49) / 7) = 1.727838, of a sum of 20, and
        // t(7; 0.975) = 2.364624.
        let units: Vec<_> = (0..8).map(|index| unit(2.0 + f64::from(index % 2), 1)).collect();
        let expected = f64::hypot(2.364_624 * 1.727_838 / 20.0, BETWEEN_UNITS.store);
        let found = width(&units).unwrap_or_default();
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }

    #[test]
    fn the_estimate_is_what_passed_in_detail_and_the_rest_by_its_causes() {
        // The clock took 2 each for what took 3 in the units that follow; what others took, which are
        // far from it, is nothing to it.
        let mut units = vec![unit(6e6, 2_000); NEAR];
        units.push(unit(9e9, 1_000));
        let totals = Totals { measured_ps: 7_000_000, ..with_stretch(4_000_000, 2_000) };
        assert_eq!(estimated_ps(&units, &totals), 13e6);
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_claim() {
        // What one takes varies by half either way: the truth is known. Each unit is told by others, so
        // that intervals are a little wider than they need be here.
        let mut random = Random::stream(7, "test");
        let (mut held, runs) = (0, 2_000);
        for _ in 0..runs {
            let draw = |random: &mut Random| unit(5e5 + random.below(1_000_001) as f64, 1);
            let units: Vec<Unit> = (0..30).map(|_| draw(&mut random)).collect();
            let worked: f64 = units.iter().map(|unit| unit.worked_ps).sum();
            let found = worked / 30e6;
            // Nothing is left out here.
            let half = width(&units).unwrap_or_default();
            let half = (half.powi(2) - BETWEEN_UNITS.store.powi(2)).sqrt() * found;
            held += u32::from((found - 1.0).abs() <= half);
        }
        let share = f64::from(held) / f64::from(runs);
        assert!((0.93..0.98).contains(&share), "{share}");
    }

    #[test]
    fn every_stage_has_a_cause_and_stages_are_known_by_their_names() {
        for one in Stage::ALL {
            assert_eq!(stage(one.name()), Some(one));
            assert!(Cause::ALL.contains(&Cause::of(one)));
        }
        assert_eq!(stage("busy"), None);
    }
}
