//! What media did and took, as results tell it.

use crate::result::EnergyResult;
use std::collections::BTreeMap;
use tierscope_model::activity::Energy;
use tierscope_model::medium::dram::DramCounts;

/// Energy of a run of `time_s` seconds.
pub(crate) fn energy_result(energy: &Energy, time_s: f64) -> EnergyResult {
    let parts = energy.parts.iter();
    let parts_j: BTreeMap<String, f64> =
        parts.map(|it| (format!("{}.{}", it.component, it.part), it.energy_j)).collect();
    let total_j = energy.total_j();
    let not_counted = energy.not_counted.iter();
    EnergyResult {
        total_j,
        average_w: total_j.filter(|_| time_s > 0.0).map(|total_j| total_j / time_s),
        parts_j,
        not_counted: not_counted.map(|it| (it.component.into(), it.reason.into())).collect(),
    }
}

/// Counters of DRAM, by name.
pub(crate) fn dram_counters(dram: &DramCounts) -> BTreeMap<String, u64> {
    let named = [
        ("dram_row_hits", dram.row_hits),
        ("dram_row_closed", dram.row_closed),
        ("dram_row_conflicts", dram.row_conflicts),
        ("dram_activates", dram.activates),
        ("dram_refreshes", dram.refreshes),
        ("dram_read_lines", dram.read_lines),
        ("dram_written_lines", dram.written_lines),
        ("dram_forwarded_lines", dram.forwarded_lines),
    ];
    named.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}
