//! Failures of power of a cache in DRAM: it is lost, and what a flush had brought to the store is there; or, in
//! NVDIMM, it is saved, with the controller's tags and buffers, and what was under way goes on.

use super::{Controller, Hybrid, Versions};
use crate::organization::hybrid::Port;
use crate::organization::versions::History;
use crate::power::{
    Guarantees, Origin, Outage, PowerFailure, Recovery, Saving, Touched, UnderWay, Weakness,
    Weaknesses, cut_store,
};
use crate::request::Device;
use std::ops::Range;
use tierscope_kernel::{CowMap, Stage};

/// What becomes of a hybrid when power fails.
#[derive(Debug)]
pub(super) struct Power {
    /// The controller as it starts.
    fresh: Controller,
    weaknesses: Weaknesses,
    /// What was answered when the flush began that is under way.
    flushing: Option<CowMap<u64>>,
    /// Lines that were answered between the flush before it and that, and since.
    flushed: Touched,
    answered: Touched,
    /// What flushes have promised.
    promised: CowMap<u64>,
}

impl Power {
    pub(super) fn fork(&mut self) -> Self {
        Power {
            fresh: self.fresh.fork(),
            weaknesses: self.weaknesses,
            flushing: self.flushing.as_mut().map(CowMap::fork),
            flushed: self.flushed.clone(),
            answered: self.answered.clone(),
            promised: self.promised.fork(),
        }
    }
}

impl<D: Device, S: Device> Hybrid<D, S> {
    fn followed(&self) -> (&Power, &Versions) {
        match (&self.power, &self.versions) {
            (Some(power), Some(versions)) => (power, versions),
            _ => unreachable!("whoever lets power fail has prepared it"),
        }
    }

    fn history(&self) -> &History {
        &self.followed().1.requests.history
    }

    /// The same, of DRAM that may save itself when power fails.
    pub(super) fn with_saving(mut self, saving: Saving) -> Self {
        self.saving = saving;
        self
    }

    fn weaknesses(&self) -> Weaknesses {
        self.power.as_ref().map_or(Weaknesses::default(), |it| it.weaknesses)
    }

    /// Whether the cache is there after a failure.
    fn saves(&self) -> bool {
        self.saving.holds(self.weaknesses())
    }

    /// A write of the line at this byte has been answered.
    pub(super) fn note_answered(&mut self, request: u32) {
        if let (Some(power), Some(versions)) = (&mut self.power, &self.versions) {
            power.answered.add(versions.requests.line(request), 1);
        }
    }

    /// A flush goes on, or is done: then what had been answered before it is in the store. Whether it is told to be
    /// done.
    pub(super) fn note_flush(&mut self, done: bool) -> bool {
        let (Some(power), Some(versions)) = (&mut self.power, &mut self.versions) else {
            return done;
        };
        let early = power.weaknesses.has(Weakness::EarlyCompletion);
        let history = &mut versions.requests.history;
        let begun = power.flushing.take().unwrap_or_else(|| {
            power.flushed.append(&mut power.answered);
            history.fork_answered()
        });
        match done || early {
            true => {
                power.promised = begun;
                history.touch_all(&mut power.flushed);
            }
            false => power.flushing = Some(begun),
        }
        done || early
    }
}

impl<D: Device + Send + 'static, S: Device + Send + 'static> PowerFailure for Hybrid<D, S> {
    fn prepare(&mut self, weaknesses: &[Weakness]) -> Result<(), Option<Weakness>> {
        let backed = self.saving.is_backed();
        let means_nothing = |one: &&Weakness| match one {
            Weakness::NoBackup => !backed,
            Weakness::EarlyCompletion => backed,
            _ => true,
        };
        if let Some(&one) = weaknesses.iter().find(means_nothing) {
            return Err(Some(one));
        }
        let keeps = self.store.device().keeps_answered();
        let Some(versions) = self.versions.as_mut().filter(|_| keeps) else { return Err(None) };
        versions.requests.history.follow();
        self.store.device_mut().follow_contents(Weaknesses::default());
        self.power = Some(Box::new(Power {
            fresh: self.controller.fork(),
            weaknesses: weaknesses.iter().copied().collect(),
            flushing: None,
            flushed: Touched::following(),
            answered: Touched::following(),
            promised: CowMap::new(0),
        }));
        Ok(())
    }

    fn promises_by_flush(&self) -> bool {
        !self.saving.is_backed()
    }

    fn guarantees(&self) -> Guarantees {
        if self.saving.is_backed() {
            return Guarantees {
                store: "nothing while its line is in on-chip caches",
                flush: match self.saving.holds(Weaknesses::default()) {
                    true => {
                        "survives, in the NVDIMM that is the cache or in the store, once its line is written back"
                    }
                    false => "nothing: the energy source of the NVDIMM does not last for a save",
                },
                fua: "not used",
            };
        }
        Guarantees {
            store: "nothing: on-chip caches and the DRAM cache are lost",
            flush: "survives, in the store, once the controller's flush of its page is done",
            fua: "not used",
        }
    }

    fn under_way(&self) -> UnderWay {
        let flushing = self.power.as_ref().is_some_and(|power| power.flushing.is_some());
        UnderWay {
            commands: self.controller.in_flight() as u64,
            barriers: u64::from(flushing),
            ..self.store.device().under_way()
        }
    }

    /// What is saved goes on where it stood: the controller's buffers hold what was answered, and commands to the
    /// store are given again.
    fn cut(&mut self, now_ps: u64) -> Outage {
        let weaknesses = self.weaknesses();
        if let Some(saved) = self.saving.save(weaknesses) {
            return saved.with(self.store.device_mut().fork().cut_power(now_ps));
        }
        let outage = cut_store(self.store.device_mut(), now_ps);
        let _of_dram = cut_store(self.dram.device_mut(), now_ps);
        let Some(power) = &mut self.power else { return outage };
        power.flushing = None;
        self.controller = power.fresh.fork();
        let tokens = self.controller.tokens();
        self.dram = Port::new(self.dram.device_mut().fork(), tokens, Stage::DramQueue);
        self.store = Port::new(self.store.device_mut().fork(), tokens, Stage::StoreQueue);
        (self.actions, self.completions) = (Vec::new(), Vec::new());
        if let Some(versions) = &mut self.versions {
            versions.cut();
        }
        outage
    }

    /// The cache starts anew, and there is nothing to be done; or it goes on, and what was under way is done again.
    fn recover(&mut self, _now_ps: u64) -> Recovery {
        let again = if self.saves() { self.controller.pages_under_way() } else { 0 };
        let page_lines = self.controller.page_bytes() / self.controller.line_bytes();
        let reissued_lines = again * u64::from(page_lines);
        Recovery { reissued: again, reissued_lines, ..Recovery::default() }
    }

    fn found(&self, address: u64) -> Option<(u64, Origin)> {
        let versions = self.followed().1;
        let in_dram = self.controller.in_dram(address).filter(|_| self.saves());
        let stored = versions.stored(address);
        // Memory is what it owes to the cache: the store does not have it.
        Some(match in_dram.map(|place| versions.cached(place)) {
            Some(cached) if cached > stored => (cached, Origin::Memory),
            cached => (cached.unwrap_or(stored), Origin::Store),
        })
    }

    fn promised(&self, line: u64) -> u64 {
        match self.saving.is_backed() {
            true => self.answered(line),
            false => self.followed().0.promised.get(line),
        }
    }

    fn answered(&self, line: u64) -> u64 {
        self.history().answered().get(line)
    }

    fn promise(&mut self, line: u64, version: u64) {
        if let Some(versions) = &mut self.versions {
            versions.requests.history.promise(line, version);
        }
    }

    fn synced(&self, line: u64) -> u64 {
        self.history().synced(line)
    }

    fn written(&self, line: u64) -> u64 {
        self.history().submitted().get(line)
    }

    fn each_written(&self, tell: &mut dyn FnMut(u64, u64)) {
        self.history().submitted().iter().for_each(|(line, newest)| tell(line, newest));
    }

    fn touched(&mut self) -> Vec<Range<u64>> {
        self.versions.as_mut().map(|it| it.requests.history.take_touched()).unwrap_or_default()
    }

    fn line_of(&self, version: u64) -> Option<u64> {
        self.history().line_of(version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::organization::Organization;
    use crate::organization::hybrid::tests::failing;
    use crate::power::{Failure, fail};
    use crate::request::LineRequest;
    use tierscope_kernel::Counter;

    /// Random writes, with a flush now and then; power fails at every event.
    fn fail_everywhere(weaknesses: &[Weakness], flushes: bool) -> Vec<Failure> {
        let mut hybrid = failing();
        hybrid.prepare(weaknesses).unwrap();
        let draw = Counter::stream(3, "hybrid.power");
        let (mut now_ps, mut asked, mut flushing) = (0, 0, false);
        let (mut failures, mut out) = (Vec::new(), Vec::new());
        for turn in 0..40_000 {
            if asked < 400 && turn % 50 == 0 {
                let address = draw.below_at(turn, 64) * 4096 + draw.below_at(turn + 50_000, 4) * 64;
                let version = asked + 1;
                let request =
                    LineRequest { id: turn as u32, core: 0, address, write: true, version };
                asked += u64::from(hybrid.submit(now_ps, request).is_ok());
            }
            flushing = flushing || flushes && turn % 997 == 0;
            flushing = flushing && !hybrid.flush(now_ps);
            now_ps = hybrid.next_event_ps().unwrap_or(now_ps);
            hybrid.advance(now_ps, &mut out);
            if turn % 29 != 0 {
                continue;
            }
            failures.extend(fail(hybrid.fork().as_mut(), now_ps, Some(1), 64));
        }
        failures
    }

    fn faults(failures: &[Failure]) -> u64 {
        failures.iter().map(|one| one.verdict.broken()).sum()
    }

    #[test]
    fn what_was_flushed_is_in_the_store_and_nothing_else_is_promised() {
        let failures = fail_everywhere(&[], true);
        assert_eq!(faults(&failures), 0);
        assert!(failures.iter().any(|one| one.verdict.promised > 0));
        let none = fail_everywhere(&[], false);
        assert!(faults(&none) == 0 && none.iter().all(|one| one.verdict.promised == 0));
    }

    #[test]
    fn a_flush_that_is_told_before_it_is_done_shows() {
        assert!(faults(&fail_everywhere(&[Weakness::EarlyCompletion], true)) > 0);
    }
}
