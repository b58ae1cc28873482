//! Counts alone: a machine that goes on warming functionally in its region counts what its caches hit and miss,
//! and other organizations are asked beside its own, each by what leaves the on-chip caches.

use super::{Machine, MachineError};
use crate::counts::Counts;
use crate::energy::counters_of;
use crate::spec::SystemSpec;
use std::collections::BTreeSet;
use tierscope_model::activity::Activity;
use tierscope_model::organization::{Organization, OrganizationReport};

/// Counters of what takes time, or of what only a run in time does.
const OF_TIMES: [&str; 10] = [
    "completion_interrupts",
    "context_switches",
    "interrupts",
    "line_prefetches",
    "line_prefetches_late",
    "prefetch_hits",
    "prefetched_pages",
    "stale_loads",
    "tag_store_bytes",
    "throttled_writes",
];

/// An organization that is asked beside the machine's own.
pub(super) struct Beside {
    organization: Box<dyn Organization>,
    name: String,
    /// What had been counted when the region began.
    before: OrganizationReport,
}

impl Beside {
    pub(super) fn warm(&mut self, now_ps: u64, core: u16, address: u64, write: bool) {
        self.organization.warm(now_ps, core, address, write);
    }

    pub(super) fn warm_clean(&mut self, now_ps: u64, address: u64) {
        self.organization.warm_clean(now_ps, address);
    }

    pub(super) fn warm_flush(&mut self, now_ps: u64) {
        self.organization.warm_flush(now_ps);
    }

    pub(super) fn begin_region(&mut self) {
        self.before = self.organization.report();
    }

    pub(super) fn fork(&mut self) -> Beside {
        let Beside { organization, name, before } = self;
        Beside { organization: organization.fork(), name: name.clone(), before: before.clone() }
    }
}

impl Machine {
    /// Asks the organization of another description beside the machine's own, from the start on. Nothing but its
    /// organization may differ, and the operating system must not page ([`crate::counts::together`]).
    pub(crate) fn count_beside(&mut self, spec: &SystemSpec) -> Result<(), MachineError> {
        let organization = spec.build_organization().ok_or(MachineError::Incomplete)?;
        if organization.takes_clean() {
            self.shared.tell_clean();
        }
        let name = spec.organization().unwrap_or_default().to_string();
        self.beside.push(Beside { before: organization.report(), organization, name });
        Ok(())
    }

    /// What has been counted in the region, and then what it would have been with each organization beside it; nothing
    /// before the region has begun.
    pub(crate) fn counts(&mut self) -> Vec<Counts> {
        let name = self.spec.organization().unwrap_or_default().to_string();
        if !self.region.has_begun() {
            let none = |organization| Counts { organization, ..Counts::default() };
            return std::iter::once(name)
                .chain(self.beside.iter().map(|beside| beside.name.clone()))
                .map(none)
                .collect();
        }
        let mut all = vec![self.counts_as(name)];
        let mut beside = std::mem::take(&mut self.beside);
        for one in &mut beside {
            self.exchange(one);
            all.push(self.counts_as(one.name.clone()));
            self.exchange(one);
        }
        self.beside = beside;
        all
    }

    fn exchange(&mut self, one: &mut Beside) {
        std::mem::swap(&mut self.organization, &mut one.organization);
        std::mem::swap(&mut self.region.organization, &mut one.before);
    }

    fn counts_as(&self, organization: String) -> Counts {
        let (misses, lookups) = self.misses_and_lookups();
        // No device has been asked for anything.
        let of_devices: BTreeSet<_> = counters_of(&Activity::default()).into_keys().collect();
        let mut counters = self.counters(&Activity::default());
        counters.retain(|name, _| !OF_TIMES.contains(&name.as_str()) && !of_devices.contains(name));
        // Of what is served at once, all is counted as hits of the first level.
        let beyond = &self.account.served_beyond;
        let caches = self.spec.processor.iter().flat_map(|processor| &processor.caches);
        for (level, cache) in caches.take(beyond.len() - 1).enumerate() {
            let hits = counters.entry(format!("hits_{}", cache.name.to_lowercase())).or_default();
            *hits = if level == 0 { *hits - beyond.iter().sum::<u64>() } else { beyond[level] };
        }
        let traffic = self.organization_report().traffic;
        let bytes = [
            ("dram_read_bytes", traffic.dram_read_bytes),
            ("dram_written_bytes", traffic.dram_written_bytes),
            ("store_read_bytes", traffic.store_read_bytes),
            ("store_written_bytes", traffic.store_written_bytes),
        ];
        counters.extend(bytes.map(|(name, count)| (name.to_string(), count)));
        Counts {
            organization,
            skipped: self.region.skipped,
            instructions: self.instructions(),
            accesses: self.accesses(),
            lookups,
            hits: lookups - misses,
            misses,
            miss_rate: if lookups == 0 { 0.0 } else { misses as f64 / lookups as f64 },
            miss_kind: self.miss_kind().to_string(),
            counters,
        }
    }
}
