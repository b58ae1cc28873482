//! What media did and took, as results tell it.

use crate::result::{EnergyResult, NvdimmResult};
use crate::spec::SystemSpec;
use std::collections::BTreeMap;
use tierscope_model::activity::{Activity, Energy, EnergyPart};

/// A part by its name: `flash.program`.
pub(crate) fn part_name(part: &EnergyPart) -> String {
    format!("{}.{}", part.component, part.part)
}

/// Energy of a run of `time_s` seconds.
pub(crate) fn energy_result(energy: &Energy, time_s: f64) -> EnergyResult {
    let parts = energy.parts.iter();
    let parts_j: BTreeMap<String, f64> = parts.map(|it| (part_name(it), it.energy_j)).collect();
    let total_j = energy.total_j();
    let not_counted = energy.not_counted.iter();
    EnergyResult {
        total_j,
        average_w: total_j.filter(|_| time_s > 0.0).map(|total_j| total_j / time_s),
        parts_j,
        not_counted: not_counted.map(|it| (it.component.into(), it.reason.into())).collect(),
    }
}

/// What saving the DRAM and restoring it take, where it has a backup.
pub(crate) fn nvdimm_result(spec: &SystemSpec) -> Option<NvdimmResult> {
    let dram = spec.dram.as_ref()?;
    let backup = dram.backup.as_ref()?;
    let capacity_bytes = spec.dram_sizes()?.bytes;
    let modules = capacity_bytes / backup.module.bytes().max(1);
    let costs = backup.costs();
    let all = modules as f64;
    Some(NvdimmResult {
        modules,
        capacity_bytes,
        save_s: costs.save_ps as f64 / 1e12,
        restore_s: costs.restore_ps as f64 / 1e12,
        charge_s: costs.charge_ps as f64 / 1e12,
        save_j: all * costs.save_j,
        restore_j: all * costs.restore_j,
        energy_at_hand_j: all * costs.energy_j,
        suffices: costs.saved_bytes == backup.module.bytes(),
        saved_bytes: modules * costs.saved_bytes,
    })
}

/// What a reader must know of a backup whose energy does not suffice.
pub(crate) fn nvdimm_note(spec: &SystemSpec) -> Option<String> {
    let found = nvdimm_result(spec).filter(|found| !found.suffices)?;
    Some(format!(
        "the NVDIMM's energy does not suffice: saving its {} bytes takes {:.3} J, and {:.3} J are at hand; \
         a power failure would leave no image (give it more dram.backup.energy)",
        found.capacity_bytes, found.save_j, found.energy_at_hand_j
    ))
}

/// Counters of DRAM, of NVM Express where that drives the store, and of an adapter's cache, by name.
pub(crate) fn counters_of(activity: &Activity) -> BTreeMap<String, u64> {
    let of_nvme = activity.nvme.map(|sent| {
        [
            ("nvme_doorbells", sent.doorbells),
            ("nvme_command_fetches", sent.command_fetches),
            ("nvme_list_fetches", sent.list_fetches),
            ("nvme_interrupts", sent.interrupts),
            ("nvme_held_back_ns", sent.held_back_ps / 1_000),
        ]
    });
    let of_adapter = activity.adapter.map(|did| {
        [
            ("adapter_read_hits", did.read_hits),
            ("adapter_read_misses", did.read_misses),
            ("adapter_cached_writes", did.cached_writes),
            ("adapter_waiting_writes", did.waiting_writes),
            ("adapter_passed_writes", did.passed_writes),
            ("adapter_write_backs", did.write_backs),
            ("adapter_written_back_pages", did.written_back_pages),
        ]
    });
    let dram = &activity.dram;
    let of_dram = [
        ("dram_row_hits", dram.row_hits),
        ("dram_row_closed", dram.row_closed),
        ("dram_row_conflicts", dram.row_conflicts),
        ("dram_activates", dram.activates),
        ("dram_refreshes", dram.refreshes),
        ("dram_read_lines", dram.read_lines),
        ("dram_written_lines", dram.written_lines),
        ("dram_forwarded_lines", dram.forwarded_lines),
    ];
    let of_store = of_nvme.into_iter().flatten().chain(of_adapter.into_iter().flatten());
    let named = of_dram.into_iter().chain(of_store);
    named.map(|(name, count)| (name.to_owned(), count)).collect()
}
