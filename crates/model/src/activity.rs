//! What the media of a machine did and took up to a time: commands of DRAM, and energy by part.

use crate::device::disk::DiskCounts;
use crate::device::nvm::NvmReport;
use crate::device::raid::AdapterCounts;
use crate::device::ssd::SsdReport;
use crate::link::LINK;
use crate::link::nvme::NvmeCounts;
use crate::medium::dram::{DramCounts, DramEnergy, InterfaceEnergy};

/// Components of devices that go through all their steps in functional warming ([`Ssd`](crate::device::ssd::Ssd) and
/// [`Nvm`](crate::device::nvm::Nvm)): what they do then is counted as ever.
const WARMED: [&str; 4] = ["flash", "drive_controller", "drive_dram", "nvm"];
/// Components of main memory, which is passed by in functional warming.
const MAIN_MEMORY: [&str; 2] = ["dram", "dram_interface"];

/// What media did and took, up to a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activity {
    /// Commands and row states of DRAM, refreshes that nobody waited for included.
    pub dram: DramCounts,
    /// What a drive did, where there is one.
    pub drive: Option<Box<SsdReport>>,
    /// What byte-addressable non-volatile memory did, where there is any.
    pub nvm: Option<Box<NvmReport>>,
    /// What a disk did, where there is one.
    pub disk: Option<DiskCounts>,
    /// What NVM Express sent, where it drives a store.
    pub nvme: Option<NvmeCounts>,
    /// What the cache of an adapter did, where there is one.
    pub adapter: Option<AdapterCounts>,
    /// Where energy went.
    pub energy: Energy,
}

impl Activity {
    /// Of a DRAM: what it did, and what its chips took, and its interface.
    pub fn of_dram(dram: DramCounts, chips: DramEnergy, interface: InterfaceEnergy) -> Self {
        let energy = Energy::of_dram(chips).and(Energy::of_interface(interface));
        Activity { dram, energy, ..Activity::default() }
    }

    /// Of a store, with what its link took, where that is known.
    #[must_use]
    pub fn with_link(self, of_link: Option<Energy>) -> Self {
        let store = match self.energy == Energy::default() {
            true => Energy::default().without("store", "the model of its medium has no energies"),
            false => self.energy,
        };
        let energy = match of_link {
            Some(of_link) => store.and(of_link),
            None => store.without(LINK, "its description says no energy"),
        };
        Activity { energy, ..self }
    }

    /// Adds what a store and its link did and took, as far as that is known.
    #[must_use]
    pub fn with_store(self, store: Activity) -> Self {
        let store = if store.energy == Energy::default() { store.with_link(None) } else { store };
        Activity { dram: self.dram, energy: self.energy.and(store.energy), ..store }
    }

    /// With what the store's devices did of another, without its energy.
    #[must_use]
    pub fn with_devices_of(self, other: Activity) -> Activity {
        Activity { dram: self.dram, energy: self.energy, ..other }
    }

    /// With what drives and memories did of another that go through all their steps in functional warming, but for programs
    /// that gave way to reads: what is done at once gives way to nothing.
    #[must_use]
    pub fn with_warmed_of(self, other: Activity) -> Activity {
        let drive = match (self.drive, other.drive) {
            (Some(own), Some(mut drive)) => {
                drive.nand.suspends = own.nand.suspends;
                Some(drive)
            }
            (own, _) => own,
        };
        Activity { drive, nvm: other.nvm, ..self }
    }

    /// Of two devices of the same kind side by side.
    #[must_use]
    pub fn beside(self, other: Activity) -> Activity {
        let drive = match (self.drive, other.drive) {
            (Some(one), Some(other)) => Some(Box::new(one.beside(&other))),
            (one, other) => one.or(other),
        };
        let disk = match (self.disk, other.disk) {
            (Some(one), Some(other)) => Some(one.together(&other)),
            (one, other) => one.or(other),
        };
        let nvme = match (self.nvme, other.nvme) {
            (Some(one), Some(other)) => Some(one.together(&other)),
            (one, other) => one.or(other),
        };
        let nvm = match (self.nvm, other.nvm) {
            (Some(one), Some(other)) => Some(Box::new(one.beside(&other))),
            (one, other) => one.or(other),
        };
        let adapter = match (self.adapter, other.adapter) {
            (Some(one), Some(other)) => Some(one.together(&other)),
            (one, other) => one.or(other),
        };
        let (dram, energy) = (self.dram.together(&other.dram), self.energy.beside(other.energy));
        Activity { dram, drive, nvm, disk, nvme, adapter, energy }
    }

    /// What came since `before`.
    #[must_use]
    pub fn since(&self, before: &Activity) -> Activity {
        let drive = self.drive.as_ref().map(|drive| match &before.drive {
            Some(before) => Box::new(drive.since(before)),
            None => drive.clone(),
        });
        let nvm = self.nvm.as_ref().map(|nvm| match &before.nvm {
            Some(before) => Box::new(nvm.since(before)),
            None => nvm.clone(),
        });
        let disk = self.disk.map(|disk| disk.since(&before.disk.unwrap_or_default()));
        let nvme = self.nvme.map(|sent| sent.since(&before.nvme.unwrap_or_default()));
        let adapter = self.adapter.map(|did| did.since(&before.adapter.unwrap_or_default()));
        let (dram, energy) = (self.dram.since(&before.dram), self.energy.since(&before.energy));
        Activity { dram, drive, nvm, disk, nvme, adapter, energy }
    }
}

/// Where energy went, by component and part, and what is not counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Energy {
    /// What is counted. Components that have parts are known whole.
    pub parts: Vec<EnergyPart>,
    /// What is not, and why: none of it has a part.
    pub not_counted: Vec<NotCounted>,
}

/// Energy of a part of a component.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EnergyPart {
    /// The component: `dram`.
    pub component: &'static str,
    /// What of it: `activate`.
    pub part: &'static str,
    /// How much, in joules. An activate is counted as what it takes beyond standby: with the standby
    /// of all banks charged to the first (`dram.shared_standby` of 1), that may be less than nothing.
    pub energy_j: f64,
}

/// A component whose energy is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotCounted {
    /// The component.
    pub component: &'static str,
    /// Why not.
    pub reason: &'static str,
}

impl Energy {
    fn of_dram(energy: DramEnergy) -> Self {
        Energy::of_parts("dram", &energy.parts())
    }

    fn of_interface(energy: InterfaceEnergy) -> Self {
        let InterfaceEnergy { read_j, write_j } = energy;
        Energy::of_parts("dram_interface", &[("read", read_j), ("write", write_j)])
    }

    /// Of a component, part by part.
    pub fn of_parts(component: &'static str, parts: &[(&'static str, f64)]) -> Self {
        let part = |&(part, energy_j): &(_, _)| EnergyPart { component, part, energy_j };
        Energy { parts: parts.iter().map(part).collect(), not_counted: Vec::new() }
    }

    /// Adds that of other components.
    #[must_use]
    pub fn and(mut self, other: Energy) -> Self {
        self.parts.extend(other.parts);
        self.not_counted.extend(other.not_counted);
        self
    }

    /// Adds those of another device with the same parts.
    fn beside(mut self, other: Energy) -> Self {
        for part in other.parts {
            let same =
                |own: &&mut EnergyPart| (own.component, own.part) == (part.component, part.part);
            match self.parts.iter_mut().find(same) {
                Some(own) => own.energy_j += part.energy_j,
                None => self.parts.push(part),
            }
        }
        self
    }

    /// Counts a component, all parts of it.
    #[must_use]
    pub fn with(mut self, parts: impl IntoIterator<Item = EnergyPart>) -> Self {
        self.parts.extend(parts);
        self
    }

    /// Says of a component that it is not counted.
    #[must_use]
    pub fn without(mut self, component: &'static str, reason: &'static str) -> Self {
        self.not_counted.push(NotCounted { component, reason });
        self
    }

    /// Sum of the parts, in joules; `None` where nothing is counted.
    pub fn total_j(&self) -> Option<f64> {
        let sum_j: f64 = self.parts.iter().map(|part| part.energy_j).sum();
        (!self.parts.is_empty()).then_some(sum_j)
    }

    /// That of components which count in functional warming, too: of a store that is asked in detail all of it, else of
    /// what goes through its steps there.
    #[must_use]
    pub fn warmed(&self, asks_store: bool) -> Energy {
        let counts = |component: &str| match asks_store {
            true => !MAIN_MEMORY.contains(&component),
            false => WARMED.contains(&component),
        };
        let parts = self.parts.iter().filter(|part| counts(part.component)).copied().collect();
        Energy { parts, not_counted: Vec::new() }
    }

    /// What came since `before`.
    #[must_use]
    pub fn since(&self, before: &Energy) -> Energy {
        let then_j = |part: &EnergyPart| {
            let same =
                |other: &&EnergyPart| (other.component, other.part) == (part.component, part.part);
            before.parts.iter().find(same).map_or(0.0, |other| other.energy_j)
        };
        let left =
            |part: &EnergyPart| EnergyPart { energy_j: part.energy_j - then_j(part), ..*part };
        Energy {
            parts: self.parts.iter().map(left).collect(),
            not_counted: self.not_counted.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_the_sum_of_the_parts_and_what_is_unknown_has_none() {
        let energy = DramEnergy { activate_j: 1.0, pump_j: 0.5, ..DramEnergy::default() };
        let interface = InterfaceEnergy { read_j: 0.25, write_j: 2.0 };
        let known = Activity::of_dram(DramCounts::default(), energy, interface).energy;
        assert_eq!(known.total_j(), Some(energy.total_j() + 2.25));
        assert_eq!(known.parts.len(), 11);
        let unknown = Energy::default().without("store", "no source");
        assert_eq!((unknown.total_j(), unknown.not_counted[0].component), (None, "store"));
    }

    #[test]
    fn what_came_before_is_taken_away_part_by_part() {
        let at = |activate_j, refresh_j, activates| {
            let energy = DramEnergy { activate_j, refresh_j, ..DramEnergy::default() };
            let counts = DramCounts { activates, ..DramCounts::default() };
            Activity::of_dram(counts, energy, InterfaceEnergy::default())
        };
        let left = at(3.0, 1.0, 7).since(&at(1.0, 0.25, 3));
        assert_eq!((left.dram.activates, left.energy.total_j()), (4, Some(2.75)));
        assert_eq!(at(3.0, 1.0, 7).since(&Activity::default()), at(3.0, 1.0, 7));
    }
}
