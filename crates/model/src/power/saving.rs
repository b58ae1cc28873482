//! NVDIMM-N when power fails: saved whole, or lost.

use super::{Outage, Weakness, Weaknesses};
use crate::medium::BackupSpec;

/// The modules of a memory, and how they save themselves, if they do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Saving {
    backup: Option<BackupSpec>,
    modules: u64,
}

impl Saving {
    pub(crate) fn new(backup: Option<&BackupSpec>, capacity_bytes: u64) -> Self {
        let modules = backup.map_or(0, |backup| capacity_bytes / backup.module.bytes().max(1));
        Saving { backup: backup.cloned(), modules }
    }

    /// Whether its energy source, charged, lasts for a save.
    pub(crate) fn holds(&self, weaknesses: Weaknesses) -> bool {
        let costs = self.backup.as_ref().map(BackupSpec::costs);
        let lasts = costs.is_some_and(|costs| costs.energy_j >= costs.save_j);
        lasts && !weaknesses.has(Weakness::NoBackup)
    }

    /// Whether it is to save itself, well or not.
    pub(crate) fn is_backed(&self) -> bool {
        self.backup.is_some()
    }

    /// What a failure costs; `None` if the content is lost.
    pub(crate) fn save(&self, weaknesses: Weaknesses) -> Option<Outage> {
        let costs = self.backup.as_ref()?.costs();
        self.holds(weaknesses).then(|| Outage {
            hold_ps: costs.save_ps,
            hold_j: Some(costs.save_j * self.modules as f64),
            ready_ps: costs.restore_ps,
            ready_j: Some(costs.restore_j * self.modules as f64),
            ..Outage::default()
        })
    }
}
