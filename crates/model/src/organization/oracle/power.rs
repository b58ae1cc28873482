//! Failures of power: DRAM is lost, and NVDIMM saves itself.

use super::{Data, Oracle};
use crate::medium::BackupSpec;
use crate::power::{
    Guarantees, Origin, Outage, PowerFailure, Recovery, Saving, UnderWay, Weakness, Weaknesses,
};
use crate::request::Device;
use std::ops::Range;
use tierscope_kernel::{CowMap, Slab};

/// What becomes of an oracle's memory.
#[derive(Clone)]
pub(super) struct Power {
    saving: Saving,
    weaknesses: Weaknesses,
}

impl Power {
    pub(super) fn new(backup: Option<&BackupSpec>, capacity_bytes: u64) -> Self {
        let saving = Saving::new(backup, capacity_bytes);
        Power { saving, weaknesses: Weaknesses::default() }
    }
}

impl Oracle {
    /// Whether memory saves itself.
    pub(super) fn saves(&self) -> bool {
        self.power.saving.holds(Weaknesses::default())
    }

    fn followed(&self) -> &Data {
        match &self.data {
            Some(data) => data,
            None => unreachable!("whoever lets power fail checks data"),
        }
    }
}

impl PowerFailure for Oracle {
    fn prepare(&mut self, weaknesses: &[Weakness]) -> Result<(), Option<Weakness>> {
        let backed = self.power.saving.is_backed();
        let means_nothing = |one: &&Weakness| **one != Weakness::NoBackup || !backed;
        if let Some(&one) = weaknesses.iter().find(means_nothing) {
            return Err(Some(one));
        }
        self.power.weaknesses = weaknesses.iter().copied().collect();
        let Some(data) = &mut self.data else { return Err(None) };
        data.versions.history.follow();
        Ok(())
    }

    fn guarantees(&self) -> Guarantees {
        let flush = match self.power.saving.holds(Weaknesses::default()) {
            true => "survives, in the NVDIMM, once its line is written back",
            false => "nothing: memory is DRAM",
        };
        Guarantees { store: "nothing while its line is in on-chip caches", flush, fua: "no store" }
    }

    fn under_way(&self) -> UnderWay {
        UnderWay { commands: self.dram.in_flight() as u64, ..UnderWay::default() }
    }

    /// What the memory controller has taken is written before memory is saved.
    fn cut(&mut self, _now_ps: u64) -> Outage {
        let saved = self.power.saving.save(self.power.weaknesses);
        while let Some(at_ps) = self.dram.next_event_ps().filter(|_| self.dram.in_flight() > 0) {
            self.dram.advance(at_ps, &mut self.done);
        }
        self.done.clear();
        if let Some(data) = &mut self.data {
            let pending = std::mem::replace(&mut data.pending, Slab::new());
            for (_, request) in pending.iter().filter(|(_, request)| request.write) {
                let line = request.address / u64::from(self.line_bytes);
                let content = data.content.get_mut(line);
                *content = request.version.max(*content);
                data.versions.history.touch(line, 1);
            }
            if saved.is_none() {
                data.content = CowMap::new(0);
            }
        }
        saved.unwrap_or_else(|| Outage::untold("DRAM that is not saved has nothing to recover"))
    }

    /// There is nothing to be done.
    fn recover(&mut self, _now_ps: u64) -> Recovery {
        Recovery::default()
    }

    fn found(&self, address: u64) -> Option<(u64, Origin)> {
        let version = self.followed().content.get(address / u64::from(self.line_bytes));
        Some((version, Origin::Memory))
    }

    fn promised(&self, line: u64) -> u64 {
        match self.power.saving.is_backed() {
            true => self.answered(line),
            false => 0,
        }
    }

    fn answered(&self, line: u64) -> u64 {
        self.followed().versions.history.answered().get(line)
    }

    fn promise(&mut self, line: u64, version: u64) {
        if let Some(data) = &mut self.data {
            data.versions.history.promise(line, version);
        }
    }

    fn synced(&self, line: u64) -> u64 {
        self.followed().versions.history.synced(line)
    }

    fn written(&self, line: u64) -> u64 {
        self.followed().versions.history.submitted().get(line)
    }

    fn each_written(&self, tell: &mut dyn FnMut(u64, u64)) {
        self.followed()
            .versions
            .history
            .submitted()
            .iter()
            .for_each(|(line, newest)| tell(line, newest));
    }

    fn touched(&mut self) -> Vec<Range<u64>> {
        self.data.as_mut().map(|data| data.versions.history.take_touched()).unwrap_or_default()
    }

    fn line_of(&self, version: u64) -> Option<u64> {
        self.followed().versions.history.line_of(version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::dram::tests::spec as dram_spec;
    use crate::medium::{DramSpec, backup::tests::spec as backup};
    use crate::organization::{OracleSpec, Organization};
    use crate::power::{Harm, fail};
    use crate::request::LineRequest;
    use tierscope_units::Size;

    fn after_two_writes(backup: Option<BackupSpec>, weaknesses: &[Weakness]) -> Oracle {
        let dram = DramSpec { backup, ..dram_spec() };
        let spec = OracleSpec { capacity: Size::from_bytes(1 << 30) };
        let mut oracle = Oracle::new(&spec, &dram, 64, true);
        oracle.prepare(weaknesses).unwrap();
        for version in 1..3 {
            let request =
                LineRequest { id: 0, core: 0, address: 64 * version, write: true, version };
            oracle.submit(0, request).unwrap();
        }
        oracle.advance(1_000_000, &mut Vec::new());
        let late = LineRequest { id: 1, core: 0, address: 64, write: true, version: 3 };
        oracle.submit(1_000_000, late).unwrap();
        oracle
    }

    #[test]
    fn nvdimm_keeps_what_was_answered_and_dram_promises_nothing() {
        for (backup, weaknesses, promised, lost) in [
            (Some(backup()), &[][..], 2, 0),
            (Some(backup()), &[Weakness::NoBackup][..], 2, 2),
            (None, &[][..], 0, 0),
        ] {
            let mut oracle = after_two_writes(backup, weaknesses);
            let failure = fail(&mut oracle, 1_000_000, Some(1), 64).unwrap();
            let verdict = failure.verdict;
            assert_eq!((verdict.lines, verdict.promised), (2, promised));
            assert_eq!(verdict.of(Harm::Lost), lost);
        }
    }

    #[test]
    fn memory_without_a_backup_has_none_to_take_away() {
        let spec = OracleSpec { capacity: Size::from_bytes(1 << 30) };
        let mut oracle = Oracle::new(&spec, &dram_spec(), 64, true);
        assert_eq!(oracle.prepare(&[Weakness::NoBackup]), Err(Some(Weakness::NoBackup)));
        assert_eq!(oracle.prepare(&[Weakness::NoClones]), Err(Some(Weakness::NoClones)));
    }
}
