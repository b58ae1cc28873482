//! What a drive did.

use super::Ssd;
use super::translation::TranslationCounts;
use crate::medium::nand::NandCounts;

/// What a drive did since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct SsdReport {
    /// Pages that the host read.
    pub host_read_pages: u64,
    /// Of these, those that the buffer had.
    pub buffer_hits: u64,
    /// Pages that the host wrote.
    pub host_written_pages: u64,
    /// Operations of flash.
    pub nand: NandCounts,
    /// What was written, moved and erased.
    pub translation: TranslationCounts,
    /// Erases of the blocks in use since the start: least, mean and most.
    pub erases: (u32, f64, u32),
    /// Erases that a block stands.
    pub endurance: u32,
    /// Share of the time until now in which each channel was taken.
    pub channels_busy: Vec<f64>,
    /// Share of the time until now in which the array of each die worked.
    pub dies_busy: Vec<f64>,
}

impl SsdReport {
    /// Units programmed in flash for each unit that came from the buffer; `None` where none came.
    pub fn write_amplification(&self) -> Option<f64> {
        let it = &self.translation;
        let all = it.host_units + it.moved_units + it.padded_units;
        (it.host_units > 0).then(|| all as f64 / it.host_units as f64)
    }

    /// How long flash would stand what it was given in `time_ps`, until blocks have been erased
    /// `endurance` times in the mean, in years of 365 days; `None` where nothing was erased.
    pub fn lifetime_years(&self, time_ps: u64) -> Option<f64> {
        let (_, mean, _) = self.erases;
        let years = time_ps as f64 / (365.0 * 86_400.0 * 1e12);
        (mean > 0.0).then(|| years * f64::from(self.endurance) / mean)
    }
}

impl Ssd {
    /// What it did up to `now_ps`.
    pub fn report(&self, now_ps: u64) -> SsdReport {
        let share = |busy_ps: u64| busy_ps as f64 / now_ps.max(1) as f64;
        SsdReport {
            host_read_pages: self.host_read_pages,
            buffer_hits: self.hits,
            host_written_pages: self.host_written_pages,
            nand: self.nand.counts(),
            translation: self.layer.counts(),
            erases: self.layer.wear(),
            endurance: self.endurance,
            channels_busy: self.nand.channels_busy_ps().map(share).collect(),
            dies_busy: self.nand.dies_busy_ps().map(share).collect(),
        }
    }
}
