//! What a recording of windows tells of its whole program. What is there counts as it was: the start, which
//! is recorded whole, windows, and calls wherever they are. What lies between windows takes for each
//! instruction what windows did outside of calls, for each window is a unit of a systematic sample, and for
//! pages that the program used for the first time so many times what they take by the machine's description as
//! at the start, or in windows: which there were is known, and what is so dear and so uneven would be met by few
//! windows or by none.
//!
//! Strata, of which one is taken whole: Cochran, *Sampling Techniques*, 3rd ed., ch. 5. Ratio estimates: ch.
//! 6. Regression estimates, whose coefficient is known beforehand, here of the start, or of units: sections
//! 7.2 and 7.3. What warms a machine between windows is less than the program ([`super::between`]), which no
//! interval tells: so it is told how much longer their first halves took.

use super::Machine;
use super::thread::{Thread, is_asleep};
use crate::result::{RecordedWindows, WindowHalfWidths};
use crate::sampling::{CONFIDENCE, LEAST_UNITS, WarmingError, half_width};
use std::collections::BTreeSet;
use std::ops::Sub;
use tierscope_workload::windows::WindowSpec;

/// A machine's windows so far.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    spec: WindowSpec,
    /// Accesses that may be under way when a window ends, at most.
    in_flight: u64,
    /// What the start took that is recorded whole, once it has ended.
    start: Option<Sums>,
    /// Accesses when the one under way, or the next, began.
    since: u64,
    /// It has ended, but for what of it is under way.
    closed: bool,
    /// How things stood at its beginning and in its middle, once it came there.
    began: Option<Sums>,
    middle: Option<Sums>,
    units: Vec<Unit>,
    /// Instructions and accesses of the program that lay between windows.
    skipped: Amount,
    /// What was done in part by functional warming, since some thread was between windows while others
    /// were not; and where it began, while it lasts.
    warmed: Sums,
    paused: Sums,
    /// Sums of all units.
    taken: Sums,
    /// Time that threads spent in calls.
    called_ps: u64,
    /// Pages that the program used, and what their first uses take by the machine's description.
    used: BTreeSet<u64>,
    first_uses_ps: u64,
    /// Of a page that needs nothing from the store, and of one that does.
    faults_ps: [u64; 2],
    /// What warming leaves out of what is between windows, as a share of it.
    left_out: f64,
}

/// So much of a program.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Amount {
    pub instructions: u64,
    pub accesses: u64,
}

/// What one window took, and the first half of it.
#[derive(Clone, Copy, Debug)]
struct Unit {
    whole: Sums,
    first: Sums,
}

/// Sums at a time, or of a stretch.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// Time that threads were at work or waited for the machine.
    live_ps: u64,
    /// Of that, in calls.
    called_ps: u64,
    instructions: u64,
    accesses: u64,
    latency_ps: u128,
    /// What pages that the program used for the first time take by the machine's description.
    first_uses_ps: u64,
}

impl Sums {
    /// Time outside of calls.
    fn own_ps(&self) -> f64 {
        self.live_ps.saturating_sub(self.called_ps) as f64
    }

    fn add(&mut self, more: &Sums) {
        self.live_ps += more.live_ps;
        self.called_ps += more.called_ps;
        self.instructions += more.instructions;
        self.accesses += more.accesses;
        self.latency_ps += more.latency_ps;
        self.first_uses_ps += more.first_uses_ps;
    }
}

impl Sub for Sums {
    type Output = Sums;

    fn sub(self, before: Sums) -> Sums {
        Sums {
            // Where warming ends, threads that were ahead of others stand nanoseconds further back.
            live_ps: self.live_ps.saturating_sub(before.live_ps),
            called_ps: self.called_ps.saturating_sub(before.called_ps),
            instructions: self.instructions - before.instructions,
            accesses: self.accesses - before.accesses,
            latency_ps: self.latency_ps - before.latency_ps,
            first_uses_ps: self.first_uses_ps - before.first_uses_ps,
        }
    }
}

/// Between the windows of a recording.
const BETWEEN_WINDOWS: WarmingError = WarmingError { store: 0.03, memory: 0.002 };

impl Windows {
    /// Of a recording with such windows, on a machine that has so many accesses under way at most, and
    /// whose faults take so long, without the store, if it has one, and with it.
    pub fn new(spec: WindowSpec, in_flight: u64, faults_ps: [u64; 2], has_store: bool) -> Windows {
        Windows {
            spec,
            in_flight,
            start: (spec.start_accesses == 0).then(Sums::default),
            since: 0,
            closed: false,
            began: None,
            middle: None,
            units: Vec::new(),
            skipped: Amount::default(),
            warmed: Sums::default(),
            paused: Sums::default(),
            taken: Sums::default(),
            called_ps: 0,
            used: BTreeSet::new(),
            first_uses_ps: 0,
            faults_ps,
            left_out: BETWEEN_WINDOWS.of(f64::from(has_store)),
        }
    }

    /// The program used a page that was not mapped, which came from the store or did not.
    pub fn fault(&mut self, page: u64, from_store: bool) {
        if self.used.insert(page) {
            self.first_uses_ps += self.faults_ps[usize::from(from_store)];
        }
    }

    /// A call has taken so much of a thread's time.
    pub fn add_call(&mut self, time_ps: u64) {
        self.called_ps += time_ps;
    }

    /// Operations until there may be something to be looked at, once the program has made so many accesses.
    pub fn budget(&self, accesses: u64) -> u64 {
        let next = match (&self.began, &self.middle) {
            _ if self.start.is_none() || self.closed => return u64::MAX,
            (None, _) => self.since + 1,
            (Some(_), None) => self.since + self.spec.window_accesses / 2,
            _ => return u64::MAX,
        };
        next.saturating_sub(accesses).max(1)
    }

    /// What there is to be looked at once the program has made so many accesses.
    #[inline]
    fn is_due(&self, accesses: u64) -> bool {
        match (&self.began, &self.middle) {
            _ if self.start.is_none() => false,
            (None, _) => !self.closed && accesses > self.since,
            (Some(_), None) => accesses >= self.since + self.spec.window_accesses / 2,
            _ => false,
        }
    }

    /// Accesses of the stretch under way that is recorded: of the start, or of a window.
    fn length(&self) -> u64 {
        if self.start.is_none() { self.spec.start_accesses } else { self.spec.window_accesses }
    }

    /// The time that so many instructions take at the pace of the units so far, or of the start before
    /// the first, in picoseconds; none without either.
    pub fn time_of(&self, instructions: u64) -> Option<u64> {
        let taken = if self.units.is_empty() { self.start? } else { self.taken };
        let own_ps = taken.live_ps.saturating_sub(taken.called_ps);
        let time_ps = u128::from(instructions) * u128::from(own_ps);
        time_ps.checked_div(taken.instructions.into())?.try_into().ok()
    }

    fn add(&mut self, unit: Unit) {
        self.taken.add(&unit.whole);
        self.units.push(unit);
    }

    /// What the program's rest between windows comes to, of a figure that goes with an amount, and with
    /// first uses beside; and half the width of its interval.
    fn estimate_rest(
        &self,
        rest: &Sums,
        figure: fn(&Sums) -> f64,
        amount: fn(&Sums) -> f64,
    ) -> (f64, Option<f64>) {
        let (sum, size) = (figure(&self.taken), amount(&self.taken));
        let (pace, share) = (sum / size, self.taken.first_uses_ps as f64 / size);
        // How much of the figure, and of first uses, there is beyond what windows have for the amount.
        let beyond = |sums: &Sums| {
            let size = amount(sums);
            (figure(sums) - pace * size, sums.first_uses_ps as f64 - share * size)
        };
        let units = || self.units.iter().map(|unit| beyond(&unit.whole));
        // How many times what it should a first use takes: what windows tell where enough of them met any.
        let met = self.units.iter().filter(|unit| unit.whole.first_uses_ps > 0).count();
        let (products, squares) =
            units().fold((0.0, 0.0), |(a, b), (more, uses)| (a + more * uses, b + uses * uses));
        let (each, other) = if met >= LEAST_UNITS && squares > 0.0 {
            (products / squares, products / squares)
        } else {
            // Else as at the start, or nothing, whichever leaves less of the windows unexplained; and the
            // interval is wider by the difference.
            let at_start = match beyond(&self.start.unwrap_or_default()) {
                (more, uses) if uses > 0.0 => (more / uses).max(0.0),
                _ => 0.0,
            };
            let gained = at_start * (2.0 * products - at_start * squares);
            if gained < 0.0 { (0.0, at_start) } else { (at_start, 0.0) }
        };
        let left = units().map(|(more, uses)| more - each * uses);
        let more_uses = beyond(rest).1;
        let whole = pace * amount(rest) + each * more_uses;
        let half = half_width(left, self.units.len(), sum);
        let unknown = ((each - other) * more_uses).abs();
        (whole.max(0.0), half.map(|half| half * pace * amount(rest) + unknown))
    }

    /// What they come to, of a program of which the machine has done so much, in windows and outside.
    fn estimate(&self, done: &Sums) -> RecordedWindows {
        let start = self.start.unwrap_or_default();
        let mut all = *done;
        all.instructions = all.instructions.saturating_add(self.skipped.instructions);
        all.accesses = all.accesses.saturating_add(self.skipped.accesses);
        let mut known = start;
        known.add(&self.taken);
        let rest = all - known;
        let latency = |sums: &Sums| sums.latency_ps as f64;
        let (time_ps, time_half_ps) =
            self.estimate_rest(&rest, Sums::own_ps, |it| it.instructions as f64);
        let (latency_ps, latency_half_ps) =
            self.estimate_rest(&rest, latency, |it| it.accesses as f64);
        let wider = |half_ps: Option<f64>, rest_ps: f64| {
            half_ps.map(|half_ps| half_ps.hypot(self.left_out * rest_ps))
        };
        let time_half_ps = wider(time_half_ps, time_ps);
        let latency_half_ps = wider(latency_half_ps, latency_ps);
        let time_ps = known.own_ps() + all.called_ps as f64 + time_ps;
        let latency_ps = latency(&known) + latency_ps;
        let mut first = Sums::default();
        self.units.iter().for_each(|unit| first.add(&unit.first));
        let pace = |sums: Sums| sums.own_ps() / sums.instructions as f64;
        let first_halves = pace(first) / pace(self.taken - first);
        let met = !self.units.is_empty();
        RecordedWindows {
            windows: self.units.len() as u64,
            program_instructions: all.instructions,
            start_instructions: start.instructions,
            thread_time_s: met.then_some(time_ps / 1e12),
            mean_latency_ns: met.then_some(latency_ps / all.accesses as f64 / 1e3),
            first_halves: Some(first_halves).filter(|ratio| ratio.is_finite()),
            confidence: CONFIDENCE,
            half_widths: WindowHalfWidths {
                thread_time: time_half_ps.map(|half_ps| half_ps / time_ps),
                mean_latency: latency_half_ps.map(|half_ps| half_ps / latency_ps),
            },
        }
    }
}

impl Machine {
    /// The program did so much here that is not recorded.
    pub(super) fn pass_skip(&mut self, skipped: Amount) {
        let (sums, accesses) = (self.window_sums(), self.account.accesses());
        let closes = self.between.warms_at_once();
        let Some(windows) = &mut self.windows else { return };
        let Amount { instructions, accesses: passed } = &mut windows.skipped;
        *instructions = instructions.saturating_add(skipped.instructions);
        *passed = passed.saturating_add(skipped.accesses);
        let made = accesses - windows.since;
        // Of several threads each says so where it leaves a window: the last one ends it, while its latest
        // accesses are under way.
        if windows.closed {
            return;
        }
        if made + windows.in_flight < windows.length() {
            if made == 0 {
                windows.began = None;
            }
            return;
        }
        if windows.start.is_none() {
            windows.start = Some(sums);
        } else if let (Some(began), Some(middle)) = (windows.began.take(), windows.middle.take()) {
            windows.add(Unit { whole: sums - began, first: middle - began });
        }
        windows.since = accesses;
        windows.closed = closes;
    }

    /// Looks whether a window has begun, or has come to its middle, after something has happened.
    #[inline]
    pub(super) fn mind_windows(&mut self) {
        let Some(windows) = &self.windows else { return };
        if self.between.is_warming() || !windows.is_due(self.account.accesses()) {
            return;
        }
        let sums = self.window_sums();
        if let Some(windows) = &mut self.windows {
            let moment =
                if windows.began.is_none() { &mut windows.began } else { &mut windows.middle };
            *moment = Some(sums);
        }
    }

    /// What comes is not of windows.
    pub(super) fn pause_windows(&mut self) {
        let sums = self.sums_in_all();
        if let Some(windows) = &mut self.windows {
            windows.paused = sums;
            // What was under way has ended.
            if std::mem::take(&mut windows.closed) {
                windows.since = sums.accesses;
            }
        }
    }

    /// What comes is of windows again; time goes on where it stood.
    pub(super) fn resume_windows(&mut self) {
        let sums = self.sums_in_all();
        if let Some(windows) = &mut self.windows {
            let passed = Sums { live_ps: 0, called_ps: 0, ..sums - windows.paused };
            windows.warmed.add(&passed);
        }
    }

    /// What was done in detail.
    fn window_sums(&self) -> Sums {
        let Some(windows) = &self.windows else { return Sums::default() };
        let warming = self.between.is_warming();
        let sums = if warming { windows.paused } else { self.sums_in_all() };
        sums - windows.warmed
    }

    fn sums_in_all(&self) -> Sums {
        let windows = self.windows.as_ref();
        let latencies = self.account.latencies_by_stage(|level| self.hit_latency_ps(level));
        Sums {
            live_ps: self.threads.iter().map(live_ps).sum(),
            called_ps: windows.map_or(0, |it| it.called_ps),
            first_uses_ps: windows.map_or(0, |it| it.first_uses_ps),
            instructions: self.account.instructions,
            accesses: self.account.accesses(),
            latency_ps: latencies.map(|(_, latency_ps)| latency_ps).sum(),
        }
    }

    /// What the windows of a recording tell of its program.
    pub(super) fn recorded_windows(&self) -> Option<RecordedWindows> {
        let windows = self.windows.as_ref()?;
        Some(windows.estimate(&self.sums_in_all()))
    }

    /// A thread begins a call.
    pub(super) fn begin_call_of_windows(&mut self, id: usize) {
        if self.windows.is_some() {
            let thread = &mut self.threads[id];
            thread.called_at_ps = Some(live_ps(thread));
        }
    }

    /// It has returned. While others warm the machine its time stands still.
    pub(super) fn end_call_of_windows(&mut self, id: usize) {
        let thread = &mut self.threads[id];
        let Some(called_at_ps) = thread.called_at_ps.take() else { return };
        let took_ps = live_ps(thread).saturating_sub(called_at_ps);
        if !self.between.is_warming()
            && let Some(windows) = &mut self.windows
        {
            windows.add_call(took_ps);
        }
    }
}

/// Time that a thread was at work or waited for the machine.
pub(super) fn live_ps(thread: &Thread) -> u64 {
    let at_work = thread.times.iter().enumerate().filter(|(owner, _)| !is_asleep(*owner));
    at_work.map(|(_, time_ps)| time_ps).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(live_ps: u64, first_ps: u64, latency_ps: u128) -> Unit {
        let (whole_ps, half) = (live_ps, latency_ps / 2);
        let sums = |live_ps, instructions, accesses, latency_ps| Sums {
            live_ps,
            instructions,
            accesses,
            latency_ps,
            ..Sums::default()
        };
        Unit {
            whole: sums(whole_ps, 2000, 1000, latency_ps),
            first: sums(first_ps, 1000, 500, half),
        }
    }

    /// Eight of them, which take 28,000 ps for 16,000 instructions.
    fn units() -> impl Iterator<Item = Unit> {
        (0..8).map(|n| unit(3000 + 1000 * (n % 2), 2000, 4000))
    }

    /// Windows of 1000 accesses in 10,000, and the whole start.
    fn windows(units: impl Iterator<Item = Unit>, start: Sums, skipped: Amount) -> Windows {
        let spec = WindowSpec::new(1000, 10_000).unwrap();
        let mut windows =
            Windows { start: Some(start), skipped, ..Windows::new(spec, 100, [1, 1], false) };
        units.for_each(|unit| windows.add(unit));
        windows
    }

    /// What the machine did: the start, units, and something beside.
    fn done(windows: &Windows, beside: Sums) -> Sums {
        let mut done = windows.taken;
        done.add(&windows.start.unwrap_or_default());
        done.add(&beside);
        done
    }

    #[test]
    fn the_program_takes_for_each_instruction_what_windows_take() {
        let skipped = Amount { instructions: 984_000, accesses: 492_000 };
        let windows = windows(units(), Sums::default(), skipped);
        let found = windows.estimate(&done(&windows, Sums::default()));
        assert_eq!((found.windows, found.program_instructions), (8, 1_000_000));
        // 28,000 ps for 16,000 instructions.
        assert!((found.thread_time_s.unwrap() / 1.75e-6 - 1.0).abs() < 1e-12);
        assert!((found.mean_latency_ns.unwrap() / 4e-3 - 1.0).abs() < 1e-12);
        // 16,000 ps in first halves, 12,000 in second ones.
        let ratio = found.first_halves.unwrap();
        assert!((ratio - 16.0 / 12.0).abs() < 1e-12, "{ratio}");
        // Residuals of 500 each: sqrt(8 · 8 · 500² / 7) = 1511.858; t(7; 0.975) = 2.364624. What units
        // took is no estimate.
        let half = found.half_widths.thread_time.unwrap();
        let expected = f64::hypot(2.364_624 * 1511.858 / 28_000.0, BETWEEN_WINDOWS.memory);
        assert!((half - 0.984 * expected).abs() < 1e-5, "{half}");
        let half = found.half_widths.mean_latency.unwrap();
        assert!((half - 0.984 * BETWEEN_WINDOWS.memory).abs() < 1e-9, "{half}");
    }

    #[test]
    fn the_start_and_calls_count_as_they_were() {
        let start = Sums {
            live_ps: 70_000,
            instructions: 20_000,
            accesses: 2_000,
            latency_ps: 90_000,
            ..Sums::default()
        };
        let skipped = Amount { instructions: 24_000, accesses: 8_000 };
        let windows = windows(units(), start, skipped);
        let call = Sums { live_ps: 5_000, called_ps: 5_000, ..Sums::default() };
        let found = windows.estimate(&done(&windows, call));
        assert_eq!((found.program_instructions, found.start_instructions), (60_000, 20_000));
        // Windows 28,000 ps, the call, and 24,000 instructions of the rest at 1.75 ps.
        let time_s = found.thread_time_s.unwrap();
        assert!((time_s / 145_000e-12 - 1.0).abs() < 1e-12, "{time_s}");
        let latency_ns = found.mean_latency_ns.unwrap();
        let told_ns = (90_000.0 + 32_000.0 + 32_000.0) / 18_000.0 / 1e3;
        assert!((latency_ns / told_ns - 1.0).abs() < 1e-12, "{latency_ns}");
    }

    /// Windows have no first use; the start has 100 of 1 ps, which took 500 ps each, and the rest 20.
    #[test]
    fn first_uses_between_windows_take_what_they_took_at_the_start() {
        let start = Sums {
            live_ps: 35_000 + 50_000,
            instructions: 20_000,
            accesses: 10_000,
            first_uses_ps: 100,
            ..Sums::default()
        };
        let skipped = Amount { instructions: 24_000, accesses: 8_000 };
        let windows = windows(units(), start, skipped);
        let beside = Sums { first_uses_ps: 20, ..Sums::default() };
        let found = windows.estimate(&done(&windows, beside));
        let time_s = found.thread_time_s.unwrap();
        let told_s = (85_000.0 + 28_000.0 + 24_000.0 * 1.75 + 20.0 * 500.0) / 1e12;
        assert!((time_s / told_s - 1.0).abs() < 1e-12, "{time_s} {told_s}");
    }

    #[test]
    fn of_no_window_nothing_is_told_and_of_few_no_interval() {
        let none = Windows::new(WindowSpec::new(1000, 10_000).unwrap(), 100, [1, 1], false);
        let none = none.estimate(&Sums::default());
        assert_eq!(
            (none.thread_time_s, none.mean_latency_ns, none.first_halves),
            (None, None, None)
        );
        let few = windows(units().take(7), Sums::default(), Amount::default());
        let found = few.estimate(&done(&few, Sums::default()));
        assert!(found.thread_time_s.is_some());
        assert_eq!(found.half_widths.thread_time, None);
    }
}
