//! What a recording of windows tells of its whole program: each window is a unit of a systematic
//! sample, and the ratios of what they took are those of the program, as far as sampling goes.
//!
//! Ratio estimates of a sample: Cochran, *Sampling Techniques*, 3rd ed., ch. 6. What warms a machine between
//! windows is less than the program ([`super::between`]), which no interval tells: so it is told how much
//! longer their first halves took.

use super::Machine;
use super::thread::{BLOCKED, IDLE};
use crate::result::{RecordedWindows, WindowHalfWidths};
use crate::sampling::{CONFIDENCE, half_width};
use std::ops::Sub;

/// A machine's windows so far.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    /// Accesses of a window, and those that may be under way when it ends, at most.
    accesses: u64,
    in_flight: u64,
    /// Accesses when the one under way, or the next, began.
    since: u64,
    /// It has ended, but for what of it is under way.
    closed: bool,
    /// How things stood at its beginning and in its middle, once it came there.
    began: Option<Sums>,
    middle: Option<Sums>,
    units: Vec<Unit>,
    /// Instructions of the program that lay between windows.
    skipped_instructions: u64,
    /// What was done in part by functional warming, since some thread was between windows while others
    /// were not; and where it began, while it lasts.
    warmed: Sums,
    paused: Sums,
    /// Sums of all units.
    taken: Sums,
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
    instructions: u64,
    accesses: u64,
    latency_ps: u128,
}

impl Sub for Sums {
    type Output = Sums;

    fn sub(self, before: Sums) -> Sums {
        Sums {
            // Where warming ends, threads that were ahead of others stand nanoseconds further back.
            live_ps: self.live_ps.saturating_sub(before.live_ps),
            instructions: self.instructions - before.instructions,
            accesses: self.accesses - before.accesses,
            latency_ps: self.latency_ps - before.latency_ps,
        }
    }
}

impl Windows {
    /// Of a recording with windows of so many accesses, on a machine that has so many under way at most.
    pub fn new(accesses: u64, in_flight: u64) -> Windows {
        Windows {
            accesses,
            in_flight,
            since: 0,
            closed: false,
            began: None,
            middle: None,
            units: Vec::new(),
            skipped_instructions: 0,
            warmed: Sums::default(),
            paused: Sums::default(),
            taken: Sums::default(),
        }
    }

    /// What there is to be looked at once the program has made so many accesses.
    #[inline]
    fn is_due(&self, accesses: u64) -> bool {
        match (&self.began, &self.middle) {
            (None, _) => !self.closed && accesses > self.since,
            (Some(_), None) => accesses >= self.since + self.accesses / 2,
            _ => false,
        }
    }

    /// The time that so many instructions take at the pace of the units so far, in picoseconds; none
    /// without one.
    pub fn time_of(&self, instructions: u64) -> Option<u64> {
        let Sums { live_ps, instructions: counted, .. } = self.taken;
        let time_ps = u128::from(instructions) * u128::from(live_ps);
        time_ps.checked_div(counted.into())?.try_into().ok()
    }

    fn add(&mut self, unit: Unit) {
        self.taken.live_ps += unit.whole.live_ps;
        self.taken.instructions += unit.whole.instructions;
        self.units.push(unit);
    }

    /// What they come to, of a program of which the machine has executed so many instructions.
    fn estimate(&self, instructions: u64) -> RecordedWindows {
        let units = &self.units;
        let sum = |of: fn(&Unit) -> f64| units.iter().map(of).sum::<f64>();
        let (time_ps, counted) =
            (sum(|it| it.whole.live_ps as f64), sum(|it| it.whole.instructions as f64));
        let (latency_ps, accesses) =
            (sum(|it| it.whole.latency_ps as f64), sum(|it| it.whole.accesses as f64));
        let (pace, mean_ps) = (time_ps / counted, latency_ps / accesses);
        let times =
            units.iter().map(|it| it.whole.live_ps as f64 - pace * it.whole.instructions as f64);
        let latencies =
            units.iter().map(|it| it.whole.latency_ps as f64 - mean_ps * it.whole.accesses as f64);
        let (first_ps, first) =
            (sum(|it| it.first.live_ps as f64), sum(|it| it.first.instructions as f64));
        let second = (time_ps - first_ps) / (counted - first);
        let all = instructions.saturating_add(self.skipped_instructions);
        let known = !units.is_empty();
        RecordedWindows {
            windows: units.len() as u64,
            program_instructions: all,
            thread_time_s: known.then(|| pace * all as f64 / 1e12),
            mean_latency_ns: known.then_some(mean_ps / 1e3),
            first_halves: Some(first_ps / first / second).filter(|ratio| ratio.is_finite()),
            confidence: CONFIDENCE,
            half_widths: WindowHalfWidths {
                thread_time: half_width(times, units.len(), time_ps),
                mean_latency: half_width(latencies, units.len(), latency_ps),
            },
        }
    }
}

impl Machine {
    /// The program did so much here that is not recorded.
    pub(super) fn pass_skip(&mut self, instructions: u64) {
        let (sums, accesses) = (self.window_sums(), self.account.accesses());
        let closes = self.between.warms_at_once();
        let Some(windows) = &mut self.windows else { return };
        windows.skipped_instructions = windows.skipped_instructions.saturating_add(instructions);
        let made = accesses - windows.since;
        // Of several threads each says so where it leaves a window: the last one ends it, while its latest
        // accesses are under way.
        if windows.closed {
            return;
        }
        if made + windows.in_flight < windows.accesses {
            if made == 0 {
                windows.began = None;
            }
            return;
        }
        if let (Some(began), Some(middle)) = (windows.began.take(), windows.middle.take()) {
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
            let Sums { instructions, accesses, latency_ps, .. } = windows.paused;
            windows.warmed.instructions += sums.instructions - instructions;
            windows.warmed.accesses += sums.accesses - accesses;
            windows.warmed.latency_ps += sums.latency_ps - latency_ps;
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
        let live = |thread: &super::Thread| {
            thread.times.iter().sum::<u64>() - thread.times[BLOCKED] - thread.times[IDLE]
        };
        let latencies = self.account.latencies_by_stage(|level| self.hit_latency_ps(level));
        Sums {
            live_ps: self.threads.iter().map(live).sum(),
            instructions: self.account.instructions,
            accesses: self.account.accesses(),
            latency_ps: latencies.map(|(_, latency_ps)| latency_ps).sum(),
        }
    }

    /// What the windows of a recording tell of its program.
    pub(super) fn recorded_windows(&self) -> Option<RecordedWindows> {
        let windows = self.windows.as_ref()?;
        Some(windows.estimate(self.account.instructions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(live_ps: u64, first_ps: u64, latency_ps: u128) -> Unit {
        let whole = Sums { live_ps, instructions: 2000, accesses: 1000, latency_ps };
        let first = Sums {
            live_ps: first_ps,
            instructions: 1000,
            accesses: 500,
            latency_ps: latency_ps / 2,
        };
        Unit { whole, first }
    }

    #[test]
    fn the_program_takes_for_each_instruction_what_windows_take() {
        let units = (0..8).map(|n| unit(3000 + 1000 * (n % 2), 2000, 4000)).collect();
        let windows = Windows { units, skipped_instructions: 984_000, ..Windows::new(1000, 100) };
        let found = windows.estimate(16_000);
        assert_eq!((found.windows, found.program_instructions), (8, 1_000_000));
        // 28,000 ps for 16,000 instructions.
        assert_eq!(found.thread_time_s, Some(1.75e-6));
        assert_eq!(found.mean_latency_ns, Some(4e-3));
        // 16,000 ps in first halves, 12,000 in second ones.
        let ratio = found.first_halves.unwrap();
        assert!((ratio - 16.0 / 12.0).abs() < 1e-12, "{ratio}");
        // Residuals of 500 each: sqrt(8 · 8 · 500² / 7) = 1511.858; t(7; 0.975) = 2.364624.
        let half = found.half_widths.thread_time.unwrap();
        assert!((half - 2.364_624 * 1511.858 / 28_000.0).abs() < 1e-5, "{half}");
        assert_eq!(found.half_widths.mean_latency, Some(0.0));
    }

    #[test]
    fn of_no_window_nothing_is_told_and_of_few_no_interval() {
        let none = Windows::new(1000, 100).estimate(0);
        assert_eq!(
            (none.thread_time_s, none.mean_latency_ns, none.first_halves),
            (None, None, None)
        );
        let few = Windows { units: vec![unit(3000, 2000, 4000); 7], ..Windows::new(1000, 100) };
        let found = few.estimate(14_000);
        assert!(found.thread_time_s.is_some());
        assert_eq!(found.half_widths.thread_time, None);
    }
}
