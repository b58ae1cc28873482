//! What a drive did, and what that took.

use super::translation::TranslationCounts;
use super::{IdleCounts, LogCounts, MapCounts, Ssd, SsdDramPowerSpec};
use crate::activity::Energy;
use crate::medium::nand::NandCounts;

counters! {
    /// What the host did with a drive.
    pub struct HostCounts {
        /// Pages that it read.
        pub read_pages,
        /// Of these, those that the buffer had.
        pub buffer_hits,
        /// Pages that it wrote.
        pub written_pages,
        /// Flushes.
        pub flushes,
    }
}

counters! {
    /// What moved through the drive's own DRAM.
    pub struct DramTraffic {
        /// Bytes read from it: to the host, and into flash.
        pub read_bytes,
        /// Bytes written to it: by the host, and from flash.
        pub written_bytes,
    }
}

impl SsdDramPowerSpec {
    /// Joules in `time_ps` in which so much moved, by part.
    pub fn energies_j(&self, traffic: &DramTraffic, time_ps: u64) -> [(&'static str, f64); 3] {
        [
            ("standby", self.standby.joules(time_ps)),
            ("read", self.read_per_bit.joules() * 8.0 * traffic.read_bytes as f64),
            ("write", self.write_per_bit.joules() * 8.0 * traffic.written_bytes as f64),
        ]
    }
}

/// What a drive did since the start, or since an earlier report.
#[derive(Clone, Debug, PartialEq)]
pub struct SsdReport {
    /// What the host did.
    pub host: HostCounts,
    /// What moved through its DRAM.
    pub dram: DramTraffic,
    /// Bytes of a page: what is mapped as one.
    pub page_bytes: u64,
    /// Operations of flash.
    pub nand: NandCounts,
    /// What was written, moved and erased.
    pub translation: TranslationCounts,
    /// What the map did, where it lies in flash.
    pub map: MapCounts,
    /// Merges, where the map is one of blocks.
    pub log: LogCounts,
    /// What collection did in pauses.
    pub idle: IdleCounts,
    /// Erases of the blocks in use since the start, whatever the report begins with: least, mean and
    /// most. A block is here one of each plane, erased together.
    pub erases: (u32, f64, u32),
    /// Of these blocks, at place `k` those that were erased `k` times more than the one that was erased least.
    pub blocks_by_erases: Vec<u64>,
    /// Blocks in use.
    pub blocks: u64,
    /// Erases that a block stands.
    pub endurance: u32,
    /// Picoseconds in which each channel was taken.
    pub channels_busy_ps: Vec<u64>,
    /// Picoseconds in which the array of each die worked.
    pub dies_busy_ps: Vec<u64>,
}

impl SsdReport {
    /// What was done since `before`, an earlier report of the same drive.
    #[must_use]
    pub fn since(&self, before: &SsdReport) -> SsdReport {
        let left = |now: &[u64], then: &[u64]| {
            now.iter().zip(then).map(|(now, then)| now - then).collect()
        };
        SsdReport {
            host: self.host.since(&before.host),
            dram: self.dram.since(&before.dram),
            nand: self.nand.since(&before.nand),
            translation: self.translation.since(&before.translation),
            map: self.map.since(&before.map),
            log: self.log.since(&before.log),
            idle: self.idle.since(&before.idle),
            channels_busy_ps: left(&self.channels_busy_ps, &before.channels_busy_ps),
            dies_busy_ps: left(&self.dies_busy_ps, &before.dies_busy_ps),
            blocks_by_erases: self.blocks_by_erases.clone(),
            ..*self
        }
    }

    /// Of two drives side by side.
    #[must_use]
    pub fn beside(&self, other: &SsdReport) -> SsdReport {
        let all = |one: &[u64], other: &[u64]| [one, other].concat();
        let blocks = self.blocks + other.blocks;
        let erased = self.erases.1 * self.blocks as f64 + other.erases.1 * other.blocks as f64;
        SsdReport {
            host: self.host.together(&other.host),
            dram: self.dram.together(&other.dram),
            nand: self.nand.together(&other.nand),
            translation: self.translation.together(&other.translation),
            map: self.map.together(&other.map),
            log: self.log.together(&other.log),
            idle: self.idle.together(&other.idle),
            erases: (
                self.erases.0.min(other.erases.0),
                erased / blocks.max(1) as f64,
                self.erases.2.max(other.erases.2),
            ),
            blocks_by_erases: self.blocks_by_erases_beside(other),
            blocks,
            channels_busy_ps: all(&self.channels_busy_ps, &other.channels_busy_ps),
            dies_busy_ps: all(&self.dies_busy_ps, &other.dies_busy_ps),
            ..*self
        }
    }

    fn blocks_by_erases_beside(&self, other: &SsdReport) -> Vec<u64> {
        let least = self.erases.0.min(other.erases.0);
        let mut blocks: Vec<u64> = Vec::new();
        for report in [self, other] {
            let first = (report.erases.0 - least) as usize;
            for (place, count) in (first..).zip(&report.blocks_by_erases) {
                if blocks.len() <= place {
                    blocks.resize(place + 1, 0);
                }
                blocks[place] += count;
            }
        }
        blocks
    }

    /// Pages programmed in flash for each page that left the buffer; `None` where none did.
    pub fn write_amplification(&self) -> Option<f64> {
        let left = self.translation.host_units;
        (left > 0).then(|| self.programmed_units() as f64 / left as f64)
    }

    /// Bytes programmed in flash: what left the buffer, what collection moved, the map, and padding.
    pub fn programmed_bytes(&self) -> u64 {
        self.programmed_units().saturating_mul(self.page_bytes)
    }

    fn programmed_units(&self) -> u64 {
        let it = &self.translation;
        it.host_units + it.moved_units + it.map_units + it.padded_units
    }

    /// How long flash that is new would stand what it was given in `time_ps`, until its blocks have been
    /// erased `endurance` times in the mean, in years of 365 days; `None` where nothing was erased.
    pub fn lifetime_years(&self, time_ps: u64) -> Option<f64> {
        let erases = self.translation.erases as f64 / self.blocks.max(1) as f64;
        let years = time_ps as f64 / (365.0 * 86_400.0 * 1e12);
        (erases > 0.0).then(|| years * f64::from(self.endurance) / erases)
    }

    /// The same until the first block has been erased `endurance` times, if blocks go on to differ as they do since
    /// the start; `None` while they have been erased less than once in the mean, as that says little of it.
    pub fn first_block_lifetime_years(&self, time_ps: u64) -> Option<f64> {
        let (_, mean, most) = self.erases;
        let years = self.lifetime_years(time_ps).filter(|_| mean >= 1.0)?;
        Some(years * mean / f64::from(most))
    }
}

impl Ssd {
    /// What it did so far.
    pub fn report(&self) -> SsdReport {
        SsdReport {
            host: self.host,
            dram: self.traffic,
            page_bytes: u64::from(self.page_bytes),
            nand: self.nand.counts(),
            translation: self.layer.counts(),
            map: self.map_counts(),
            log: self.log_counts(),
            idle: self.idle_counts(),
            erases: self.layer.wear(),
            blocks_by_erases: self.layer.blocks_by_erases(),
            blocks: self.layer.blocks_in_use(),
            endurance: self.endurance,
            channels_busy_ps: self.nand.channels_busy_ps().collect(),
            dies_busy_ps: self.nand.dies_busy_ps().collect(),
        }
    }

    /// What that took up to `now_ps`.
    pub(super) fn energy(&self, report: &SsdReport, now_ps: u64) -> Energy {
        let dies = report.dies_busy_ps.len() as u64;
        let flash = match &self.power {
            Some(power) => Energy::of_parts("flash", &power.energies_j(&report.nand, dies, now_ps)),
            None => Energy::default().without("flash", "no source gives the currents of its dies"),
        };
        let controller = match self.controller_w {
            Some(watts) => Energy::of_parts(
                "drive_controller",
                &[("all_times", watts * now_ps as f64 * 1e-12)],
            ),
            None => Energy::default()
                .without("drive_controller", "no source gives what controller and interface take"),
        };
        let dram = match &self.dram_power {
            Some(power) => Energy::of_parts("drive_dram", &power.energies_j(&report.dram, now_ps)),
            None => Energy::default()
                .without("drive_dram", "no source gives what the drive's own memory takes"),
        };
        flash.and(controller).and(dram)
    }
}
