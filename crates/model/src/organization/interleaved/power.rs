//! Failures of power: all controllers lose theirs together, and recover side by side.

use super::{Interleaved, Layout};
use crate::power::{Guarantees, Origin, Outage, PowerFailure, Recovery, Step, UnderWay, Weakness};
use std::ops::Range;

impl Interleaved {
    fn powers_mut(&mut self) -> impl Iterator<Item = &mut dyn PowerFailure> {
        self.parts.iter_mut().map(|part| match part.power_mut() {
            Some(power) => power,
            None => unreachable!("power is asked for where all controllers may lose it"),
        })
    }

    fn powers(&self) -> impl Iterator<Item = &dyn PowerFailure> {
        (0..self.parts.len()).map(|index| self.power_of(index))
    }

    fn power_of(&self, index: usize) -> &dyn PowerFailure {
        match self.parts[index].power() {
            Some(power) => power,
            None => unreachable!("power is asked for where all controllers may lose it"),
        }
    }

    /// The controller of a line, and the line there.
    fn at(&self, line: u64) -> (&dyn PowerFailure, u64) {
        let (index, line) = self.lines.place(line);
        (self.power_of(index), line)
    }

    /// All begin anew, or go on.
    fn look_at_all(&mut self) {
        (0..self.parts.len()).for_each(|index| self.look(index));
    }
}

impl Layout {
    /// The address of what lies at an address of a controller.
    fn global(self, controller: usize, address: u64) -> u64 {
        let (run, within) = (address >> self.shift, address & ((1 << self.shift) - 1));
        (run * self.count + controller as u64) << self.shift | within
    }
}

/// Whose parts may all lose their power; they are alike, and so is what they promise.
impl PowerFailure for Interleaved {
    fn prepare(&mut self, weaknesses: &[Weakness]) -> Result<(), Option<Weakness>> {
        self.powers_mut().try_for_each(|power| power.prepare(weaknesses))
    }

    fn promises_by_flush(&self) -> bool {
        self.powers().any(|power| power.promises_by_flush())
    }

    fn name(&self, address: u64) -> Option<String> {
        let (index, address) = self.layout.place(address);
        self.power_of(index).name(address)
    }

    fn guarantees(&self) -> Guarantees {
        self.power_of(0).guarantees()
    }

    fn under_way(&self) -> UnderWay {
        let all = self.powers().map(|power| power.under_way());
        all.fold(UnderWay::default(), |sum, one| sum.together(&one))
    }

    fn steps(&self) -> Vec<Step> {
        let count = self.parts.len() as u64;
        let of = |(index, power): (usize, &dyn PowerFailure)| {
            power.steps().into_iter().map(move |step| Step {
                number: step.number * count + index as u64,
                address: self.layout.global(index, step.address),
                ..step
            })
        };
        self.powers().enumerate().flat_map(of).collect()
    }

    fn cut(&mut self, now_ps: u64) -> Outage {
        let layout = self.layout;
        let outages = self.powers_mut().enumerate().map(|(index, power)| {
            let mut outage = power.cut(now_ps);
            outage.touched.iter_mut().for_each(|page| *page = layout.global(index, *page));
            outage
        });
        let outage = outages.reduce(Outage::with).unwrap_or_default();
        self.flushed.fill(false);
        self.look_at_all();
        outage
    }

    fn recover(&mut self, now_ps: u64) -> Recovery {
        let all = self.powers_mut().map(|power| power.recover(now_ps));
        let recovery = all.reduce(Recovery::beside).unwrap_or_default();
        self.look_at_all();
        recovery
    }

    fn found(&self, address: u64) -> Option<(u64, Origin)> {
        let (index, address) = self.layout.place(address);
        self.power_of(index).found(address)
    }

    fn promised(&self, line: u64) -> u64 {
        let (power, line) = self.at(line);
        power.promised(line)
    }

    fn answered(&self, line: u64) -> u64 {
        let (power, line) = self.at(line);
        power.answered(line)
    }

    fn promise(&mut self, line: u64, version: u64) {
        let (index, line) = self.lines.place(line);
        if let Some(power) = self.parts[index].power_mut() {
            power.promise(line, version);
        }
    }

    fn synced(&self, line: u64) -> u64 {
        let (power, line) = self.at(line);
        power.synced(line)
    }

    fn written(&self, line: u64) -> u64 {
        let (power, line) = self.at(line);
        power.written(line)
    }

    fn each_written(&self, tell: &mut dyn FnMut(u64, u64)) {
        for (index, power) in self.powers().enumerate() {
            power.each_written(&mut |line, newest| tell(self.lines.global(index, line), newest));
        }
    }

    /// What lies between lines of a controller is the others', and told with them.
    fn touched(&mut self) -> Vec<Range<u64>> {
        let lines = self.lines;
        let of = |(index, power): (usize, &mut dyn PowerFailure)| {
            let own = power.touched().into_iter().filter(|own| !own.is_empty());
            own.map(move |own| lines.global(index, own.start)..lines.global(index, own.end - 1) + 1)
        };
        self.powers_mut().enumerate().flat_map(of).collect()
    }

    fn line_of(&self, version: u64) -> Option<u64> {
        let of = |(index, power): (usize, &dyn PowerFailure)| {
            Some(self.lines.global(index, power.line_of(version)?))
        };
        self.powers().enumerate().find_map(of)
    }
}
