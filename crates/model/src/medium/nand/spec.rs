//! What a user says of an array of NAND flash.

use super::NandCounts;
use crate::link::check_bandwidth;
use serde::{Deserialize, Serialize};
use tierscope_units::{Bandwidth, Current, Duration, Problems, Size, TransferRate, Voltage};

/// How long a page of one type takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PageTimesSpec {
    /// Time from the array into the page register (tR).
    pub read_latency: Duration,
    /// Time from the page register into the array (tPROG).
    pub program_latency: Duration,
}

/// What a die takes, as data sheets of flash say it. Energy is current times voltage times time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NandPowerSpec {
    /// Supply voltage (VCC).
    pub voltage: Voltage,
    /// Current of a die while its array reads (ICC1).
    pub read_current: Current,
    /// Current of a die while its array programs (ICC2).
    pub program_current: Current,
    /// Current of a die while its array erases (ICC3).
    pub erase_current: Current,
    /// Current of the die whose data cross the channel (ICC4R, ICC4W).
    pub transfer_current: Current,
    /// Current of every die, whatever it does (ISB).
    pub standby_current: Current,
}

impl NandPowerSpec {
    /// Joules of an array of so many dies that did `counts` in `time_ps`, by part.
    pub fn energies_j(
        &self,
        counts: &NandCounts,
        dies: u64,
        time_ps: u64,
    ) -> [(&'static str, f64); 5] {
        let of = |current: Current, time_ps: f64| {
            let amperes = current.nanoamperes() as f64 * 1e-9;
            self.voltage.microvolts() as f64 * 1e-6 * amperes * time_ps * 1e-12
        };
        [
            ("read", of(self.read_current, counts.read_ps as f64)),
            ("program", of(self.program_current, counts.program_ps as f64)),
            ("erase", of(self.erase_current, counts.erase_ps as f64)),
            ("transfer", of(self.transfer_current, counts.bus_ps as f64)),
            ("standby", of(self.standby_current, dies as f64 * time_ps as f64)),
        ]
    }
}

/// Which pages of the planes of a die are read by one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MultiPlaneReads {
    /// One page at a time.
    None,
    /// Pages of the same block and page number.
    SamePage,
    /// Any pages, one of each plane.
    AnyPage,
}

/// An array of NAND flash: channels, and what hangs on each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NandSpec {
    /// Channels: buses that work at the same time.
    pub channels: u32,
    /// Ways: packages on each channel.
    pub ways: u32,
    /// Dies (logical units) of a package, each of which works by itself.
    pub dies: u32,
    /// Planes of a die, which do the same thing at the same time. At most 16.
    pub planes: u32,
    /// Blocks of a plane.
    pub blocks: u32,
    /// Pages of a block.
    pub pages: u32,
    /// Bytes of a page, without its spare bytes: a power of two from 512B to 64KiB.
    pub page: Size,
    /// Times of the lower pages of the cells (least significant bit); of all pages where a cell
    /// holds one bit.
    pub lower: PageTimesSpec,
    /// Times of the middle pages, where a cell holds three bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub middle: Option<PageTimesSpec>,
    /// Times of the upper pages (most significant bit), where a cell holds two or three bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper: Option<PageTimesSpec>,
    /// Time to erase a block (tBERS).
    pub erase_latency: Duration,
    /// Transfers a second of each channel (ONFI: up to 50MT/s asynchronous, to 200 NV-DDR, 533
    /// NV-DDR2, 1600 NV-DDR3, 2400 NV-LPDDR4).
    pub bus_rate: TransferRate,
    /// Bits of each transfer: 8 or 16.
    pub bus_bits: u32,
    /// Time of each command and address cycle on the channel.
    pub command_cycle: Duration,
    /// Which pages one command reads.
    pub multi_plane_reads: MultiPlaneReads,
    /// Whether one command programs a page in each plane, and one erases a block in each.
    pub multi_plane_programs: bool,
    /// Whether a die reads its next page while one crosses the channel.
    pub cache_read: bool,
    /// Whether the data of the next page cross the channel while a die programs one.
    pub cache_program: bool,
    /// How often reads may suspend a program or an erase; 0 for never.
    pub suspends: u32,
    /// Time that a die takes to suspend, and again to resume.
    pub suspend_latency: Duration,
    /// Reads that may pass what has waited longer, at a die and at a channel; 0 for first come,
    /// first served.
    pub reads_ahead: u32,
    /// What dies take; without it their energy is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<NandPowerSpec>,
}

impl NandSpec {
    /// The most blocks of a plane.
    pub const MOST_BLOCKS: u32 = 1 << 20;

    /// Dies of the whole array.
    pub fn all_dies(&self) -> u64 {
        u64::from(self.channels) * u64::from(self.ways) * u64::from(self.dies)
    }

    /// Bytes of the whole array.
    pub fn bytes(&self) -> u128 {
        let planes = u128::from(self.all_dies()) * u128::from(self.planes);
        let pages = u128::from(self.blocks) * u128::from(self.pages);
        planes * pages * u128::from(self.page.bytes())
    }

    /// Bytes a second of a channel.
    pub fn bus_bandwidth(&self) -> Bandwidth {
        let bits = u128::from(self.bus_rate.transfers_per_second()) * u128::from(self.bus_bits);
        Bandwidth::from_bytes_per_second(u64::try_from(bits / 8).unwrap_or(u64::MAX))
    }

    /// The times of each type of page, in the order in which the pages of a block have them: the
    /// n-th page is of the type n modulo their number.
    pub fn page_types(&self) -> impl Iterator<Item = &PageTimesSpec> + Clone {
        [Some(&self.lower), self.middle.as_ref(), self.upper.as_ref()].into_iter().flatten()
    }

    /// Collects every semantic mistake below `path`.
    pub fn check(&self, path: &str, problems: &mut Problems) {
        for (field, count, most) in [
            ("channels", self.channels, 256),
            ("ways", self.ways, 256),
            ("dies", self.dies, 64),
            ("planes", self.planes, 16),
            ("blocks", self.blocks, Self::MOST_BLOCKS),
            ("pages", self.pages, 1 << 16),
        ] {
            problems.at_least(path, field, count, 1);
            problems.at_most(path, field, count, most);
        }
        self.check_page(path, problems);
        if self.middle.is_some() && self.upper.is_none() {
            problems.add(
                "contradiction",
                format!("{path}.middle"),
                "a table".into(),
                "cells that have a middle page have an upper one too".into(),
                format!("write {path}.upper, or leave the middle out"),
            );
        }
        if self.suspends > 0 && self.reads_ahead == 0 {
            problems.add(
                "contradiction",
                format!("{path}.suspends"),
                self.suspends.to_string(),
                format!("no read passes anything ({path}.reads_ahead), so none suspends anything"),
                format!("write 0, or {path}.reads_ahead = 8"),
            );
        }
    }

    fn check_page(&self, path: &str, problems: &mut Problems) {
        if !self.page.bytes().is_power_of_two() || !(512..=65_536).contains(&self.page.bytes()) {
            problems.add(
                "impossible-value",
                format!("{path}.page"),
                self.page.to_string(),
                "a page of flash is a power of two from 512B to 64KiB".into(),
                "write 16KiB".into(),
            );
        }
        if ![8, 16].contains(&self.bus_bits) {
            problems.add(
                "impossible-value",
                format!("{path}.bus_bits"),
                self.bus_bits.to_string(),
                "a channel of flash has 8 or 16 bits".into(),
                "write 8".into(),
            );
        } else {
            check_bandwidth(&format!("{path}.bus_rate"), self.bus_bandwidth(), problems);
        }
    }
}
