//! What a user says of a solid-state drive.

use super::translation::{Geometry, InitialFlash, VictimPolicy};
use super::{BufferReplacement, Ssd, SsdDevice};
use crate::device::raid::{Raid, RaidSpec};
use crate::device::{AnyDevice, DeviceDescription, Linked};
use crate::link::{Lane, LinkDescription};
use crate::medium::{NandSpec, PageTimesSpec};
use serde::{Deserialize, Serialize};
use tierscope_kernel::Counter;
use tierscope_units::{Bandwidth, Duration, Energy, Power, Problems, Size};

/// A solid-state drive: flash, a translation layer, a buffer, and firmware.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SsdSpec {
    /// What it offers to the host.
    pub capacity: Size,
    /// Bytes that are mapped as one: a power of two. At most a page of flash, times `split`.
    pub page: Size,
    /// Pages that it is asked for at most at once.
    pub queue_depth: u32,
    /// Channels over which each page is split, so that they move parts of it at the same time.
    pub split: u32,
    /// In which order pages that are written are dealt to channels (c), ways (w), dies (d) and
    /// planes (p): what changes first stands first, as in `c-w-d-p`.
    pub striping: String,
    /// What flash holds when a run starts.
    pub initial: InitialFlash,
    /// Flash.
    pub nand: NandSpec,
    /// The drive's own DRAM, as far as it holds data.
    pub buffer: SsdBufferSpec,
    /// The processors of the drive.
    pub firmware: SsdFirmwareSpec,
    /// How space is won back.
    pub collection: CollectionSpec,
    /// How flash wears.
    pub wear: WearSpec,
    /// The map of pages in flash; without it the drive's memory has all of the map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<MapSpec>,
    /// A map of blocks with logs; without it the map is one of pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogSpec>,
    /// What controller and interface take at all times, and all else that a figure of the whole drive has in it;
    /// without it their energy is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_power: Option<Power>,
    /// What the drive's own DRAM takes; without it its energy is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dram_power: Option<SsdDramPowerSpec>,
    /// Several of it side by side, over which data are dealt in stripes (RAID-0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<RaidSpec>,
}

/// The drive's own DRAM, as far as it holds data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SsdBufferSpec {
    /// What it holds in all.
    pub capacity: Size,
    /// What of it may wait to be programmed; writes wait beyond that.
    pub dirty: Size,
    /// Data that were written stay in it until there is more than this; then the oldest are
    /// programmed.
    pub flush_above: Size,
    /// Whether a write is done when it is in the buffer, or when it is in flash.
    pub write_back: bool,
    /// Whether capacitors keep what is in it when power fails: flushes end at once then.
    pub capacitors: bool,
    /// What they hold when they are charged, for flash, controller, memory and interface; without it, enough for all
    /// that may wait in the buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacitor_energy: Option<Energy>,
    /// For how long they hold the drive up; without it, as long as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_up_time: Option<Duration>,
    /// Whether data that were read or programmed are kept while there is room.
    pub read_cache: bool,
    /// Which of these data give way to others: `lru`, `fifo`, `clock` or `srrip`; without it, `lru`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<BufferReplacement>,
    /// Time of each access to it, besides that of the data.
    pub latency: Duration,
    /// Bandwidth.
    pub bandwidth: Bandwidth,
}

/// What the drive's own DRAM takes, by Micron's method (TN-41-01).
///
/// Its chips take something at all times, and each bit that moves through the buffer something beyond that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SsdDramPowerSpec {
    /// All of its chips at all times, whatever moves: standby and refresh.
    pub standby: Power,
    /// Each bit that is read from it, with its share of opening a row.
    pub read_per_bit: Energy,
    /// Each bit that is written to it, with its share of opening a row.
    pub write_per_bit: Energy,
}

/// The processors of the drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SsdFirmwareSpec {
    /// Processors that work at the same time.
    pub cores: u32,
    /// Time for which each page of a request occupies one of them.
    pub page_time: Duration,
    /// Time that a read takes besides, which occupies none.
    pub read_latency: Duration,
    /// Time that a write takes besides, which occupies none.
    pub write_latency: Duration,
    /// Time to decode the error-correcting code of what was read from flash.
    pub decode_latency: Duration,
}

/// How space is won back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CollectionSpec {
    /// By what blocks are chosen.
    pub policy: VictimPolicy,
    /// Among how many of those that were filled first; 0 for all. With 1, the one filled first is
    /// taken, whatever the policy.
    pub window: u32,
    /// Erased blocks of each die below which one is collected. At least 2.
    pub free_blocks: u32,
    /// Pages that a die's collection has under way at once.
    pub copies: u32,
    /// Collection ahead of need, while the host wants nothing; without it there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleSpec>,
}

/// Collection ahead of need, while the host wants nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IdleSpec {
    /// Time from the end of the host's last command until it begins.
    pub after: Duration,
    /// Erased blocks of each die with which it ends: more than `ssd.collection.free_blocks`, below which
    /// blocks are collected in any case.
    pub free_blocks: u32,
}

/// The map of pages, in flash, of which the drive's memory has a part (DFTL).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MapSpec {
    /// What of the map is in memory at once, in whole pages: the page used least recently gives way.
    pub cache: Size,
    /// What the map has of each page of the drive: a power of two, at most a page.
    pub entry: Size,
}

/// A map of blocks with logs (FAST): what is written out of order waits in logs to be merged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogSpec {
    /// Log blocks of each die for pages out of order, besides one for pages in order.
    pub blocks: u32,
}

/// How flash wears.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WearSpec {
    /// Erases that a block stands.
    pub endurance: u32,
    /// By how many erases two blocks of a die may differ before the one with fewer is collected,
    /// whatever it holds (static levelling); 0 for never.
    pub difference: u32,
    /// Share of blocks that are bad from the factory.
    pub factory_bad: f64,
}

/// The most blocks that a drive may have, and the most lists of blocks by what they hold: some
/// 600 MB, and a hundred times as many as drives of a TiB have.
pub(super) const MOST_BLOCKS: u64 = 1 << 24;
/// Blocks of a die that are neither free nor filled: one is filled for the host, one by collection,
/// and one is collected; and one for the map, where that lies in flash.
const UNFILLED: u32 = 3;

/// With a map of blocks: the sequential log block, one that a merge fills, and one that is erased.
const LOG_SPARES: u32 = 3;

fn lane(bandwidth: Bandwidth) -> Lane {
    Lane::new(bandwidth.bytes_per_second())
}

impl SsdSpec {
    /// Pages of the drive.
    fn pages(&self) -> u64 {
        self.capacity.bytes() / self.page.bytes()
    }

    /// A time of flash, the mean of the types of its pages.
    fn mean_ps(&self, time: impl Fn(&PageTimesSpec) -> Duration) -> u64 {
        let types = self.nand.page_types();
        let count = types.clone().count() as u64;
        types.map(|times| time(times).picoseconds()).sum::<u64>() / count
    }

    /// What a read of a page takes while nothing else is under way, its way over the link not counted.
    fn read_ps(&self) -> u64 {
        let firmware = &self.firmware;
        let firmware_ps = [firmware.page_time, firmware.read_latency, firmware.decode_latency]
            .map(|time| time.picoseconds());
        let bytes = self.page.bytes() / u64::from(self.split);
        let channel_ps = lane(self.nand.bus_bandwidth()).idle_ps(bytes);
        firmware_ps.iter().sum::<u64>() + self.mean_ps(|times| times.read_latency) + channel_ps
    }

    fn write_ps(&self) -> u64 {
        let (firmware, buffer) = (&self.firmware, &self.buffer);
        let into_buffer_ps = firmware.page_time.picoseconds()
            + firmware.write_latency.picoseconds()
            + buffer.latency.picoseconds()
            + lane(buffer.bandwidth).idle_ps(self.page.bytes());
        let program_ps = self.mean_ps(|times| times.program_latency);
        if !buffer.write_back {
            return into_buffer_ps + program_ps;
        }
        let planes = if self.nand.multi_plane_programs { self.nand.planes } else { 1 };
        let bytes_at_once = self.nand.page.bytes() * u64::from(planes) * self.nand.all_dies();
        into_buffer_ps.max(program_ps * self.page.bytes() / bytes_at_once)
    }

    /// Pages of the map that lie in flash.
    pub(super) fn map_pages(&self) -> u64 {
        let reach = |map: &MapSpec| self.page.bytes() / map.entry.bytes();
        self.map.as_ref().map_or(0, |map| self.pages().div_ceil(reach(map)))
    }

    /// Usable blocks of each lane: those that the worst of its planes has. Which of the others stand
    /// in for a bad one is of no matter for time.
    pub(super) fn usable(&self, geometry: &Geometry) -> Vec<u32> {
        let share = self.wear.factory_bad;
        let draws = Counter::stream(0, "ssd.factory-bad");
        let blocks = u64::from(geometry.blocks);
        let planes = u64::from(geometry.planes) * u64::from(self.split);
        let good = |plane: u64| {
            let first = plane * blocks;
            let is_good = |block: &u64| draws.unit_at(first + block) >= share;
            (0..blocks).filter(is_good).count() as u32
        };
        let of_lane = |lane: u64| (lane * planes..(lane + 1) * planes).map(good).min();
        if share <= 0.0 {
            return vec![geometry.blocks; geometry.lanes as usize];
        }
        (0..u64::from(geometry.lanes)).filter_map(of_lane).collect()
    }

    /// Blocks of a lane with which collection always goes on: those that hold its share of the capacity
    /// with as much room as keeps them from being worth collecting, and those that cannot be filled.
    /// With as many on each lane, one of all lanes has a block that is worth it.
    pub(super) fn least_blocks(&self, geometry: &Geometry) -> u32 {
        let share = self.pages().div_ceil(u64::from(geometry.lanes));
        // A round of pages more, as capacities seldom are a multiple of it.
        let share = share + u64::from(geometry.planes) * u64::from(geometry.page_units);
        if let Some(log) = &self.log {
            let logical = share.div_ceil(u64::from(geometry.block_pages()));
            return u32::try_from(logical).unwrap_or(u32::MAX / 2) + log.blocks + LOG_SPARES;
        }
        let map_share = self.map_pages().div_ceil(u64::from(geometry.lanes));
        // In the worst case every block has one valid unit too many to be worth collecting.
        let stuck_units = u64::from(geometry.most_gaining()) + 1;
        let filled = share.div_ceil(stuck_units) + map_share.div_ceil(stuck_units);
        let filled = u32::try_from(filled).unwrap_or(u32::MAX / 2);
        filled + self.collection.free_blocks + UNFILLED + u32::from(self.map.is_some())
    }
}

impl DeviceDescription for SsdSpec {
    fn capacity(&self) -> Size {
        self.raid.as_ref().map_or(self.capacity, |raid| raid.capacity(self.capacity))
    }

    fn page(&self) -> Size {
        self.page
    }

    /// A read passes firmware, array, channel and decoder. So does a write of a drive without a buffer that answers;
    /// else it takes its share of what flash programs, or its way into the buffer where that is longer. Nothing is told
    /// of drives behind an adapter's cache.
    fn page_times_ps(&self) -> Option<(u64, u64)> {
        (!self.is_warmed_in_detail()).then(|| (self.read_ps(), self.write_ps()))
    }

    fn is_warmed_in_detail(&self) -> bool {
        self.raid.as_ref().is_some_and(|raid| raid.cache.is_some())
    }

    fn usual_read_ps(&self) -> u64 {
        self.read_ps()
    }

    /// A block is collected, of which all is valid: read, programmed and erased.
    fn settling_ps(&self) -> u64 {
        let page_ps =
            self.mean_ps(|times| times.read_latency) + self.mean_ps(|times| times.program_latency);
        u64::from(self.nand.pages)
            .saturating_mul(page_ps)
            .saturating_add(self.nand.erase_latency.picoseconds())
    }

    /// What it has read for one who was told is to be there when it is asked for again. Of drives side by side none
    /// knows what the others do.
    fn tells_of_waits(&self) -> bool {
        self.raid.is_none() && self.buffer.read_cache
    }

    fn build(&self, link: &dyn LinkDescription) -> AnyDevice {
        match &self.raid {
            Some(raid) => Raid::new(raid, self.page, || SsdDevice::new(self, link).into()).into(),
            None => SsdDevice::new(self, link).into(),
        }
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        self.check_all(path, problems);
        if let Some(raid) = &self.raid {
            raid.check(&format!("{path}.raid"), self.page, self.capacity, problems);
        }
    }
}

impl SsdDevice {
    /// A drive with nothing to do, behind an empty link. The descriptions have been checked.
    pub fn new(spec: &SsdSpec, link: &dyn LinkDescription) -> Self {
        Linked::behind(link, Ssd::new(spec), spec.page.bytes(), spec.queue_depth)
    }
}
