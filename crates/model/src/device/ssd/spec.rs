//! What a user says of a solid-state drive.

use super::translation::{self, Geometry, InitialFlash, VictimPolicy};
use super::{Ssd, SsdDevice};
use crate::device::{AnyDevice, DeviceDescription, Linked};
use crate::link::{LinkDescription, check_bandwidth};
use crate::medium::NandSpec;
use serde::{Deserialize, Serialize};
use tierscope_kernel::Counter;
use tierscope_units::{Bandwidth, Duration, Problems, Size};

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
    /// Whether data that were read or programmed are kept while there is room.
    pub read_cache: bool,
    /// Time of each access to it, besides that of the data.
    pub latency: Duration,
    /// Bandwidth.
    pub bandwidth: Bandwidth,
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
const MOST_BLOCKS: u64 = 1 << 24;
/// Blocks of a die that are neither free nor filled: one is filled for the host, one by collection,
/// and one is collected.
const UNFILLED: u32 = 3;

impl SsdSpec {
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

    /// Blocks of a lane that hold its share of the capacity, with those that cannot be filled.
    pub(super) fn least_blocks(&self, geometry: &Geometry) -> u32 {
        let units = self.capacity.bytes() / self.page.bytes();
        let share = units.div_ceil(u64::from(geometry.lanes));
        // A round of pages more, as capacities seldom are a multiple of it.
        let share = share + u64::from(geometry.planes) * u64::from(geometry.page_units);
        let filled = share.div_ceil(u64::from(geometry.block_units())) as u32;
        filled + self.collection.free_blocks + UNFILLED
    }

    fn check_split(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "split", self.split, 1);
        if self.split > 0 && !self.nand.channels.is_multiple_of(self.split) {
            problems.add(
                "contradiction",
                format!("{path}.split"),
                self.split.to_string(),
                format!("it does not divide {path}.nand.channels = {}", self.nand.channels),
                "write 1".into(),
            );
        }
    }

    /// Pages of the drive and of flash fit each other.
    fn check_pages(&self, path: &str, problems: &mut Problems) {
        let flash = self.nand.page.bytes() * u64::from(self.split);
        let page = self.page.bytes();
        if !page.is_power_of_two() || page < 512 {
            problems.add(
                "impossible-value",
                format!("{path}.page"),
                self.page.to_string(),
                "what is mapped as one is a power of two of at least 512B".into(),
                "write 4KiB".into(),
            );
        } else if !flash.is_multiple_of(page) || flash / page > 32 {
            problems.add(
                "contradiction",
                format!("{path}.page"),
                self.page.to_string(),
                format!(
                    "a page of flash, {} over {path}.split = {} channels, holds 1 to 32 of them",
                    self.nand.page, self.split
                ),
                "write 4KiB".into(),
            );
        } else if !self.capacity.bytes().is_multiple_of(page) || self.capacity.bytes() == 0 {
            problems.add(
                "contradiction",
                format!("{path}.capacity"),
                self.capacity.to_string(),
                format!("the capacity is not a whole number of pages of {}", self.page),
                "write a multiple of the page".into(),
            );
        }
    }

    /// Flash is enough for the capacity, and numbers of 32 bits for flash.
    fn check_space(&self, path: &str, problems: &mut Problems) {
        let units = self.nand.bytes() / u128::from(self.page.bytes());
        if units > u128::from(translation::MOST_PLACES) {
            problems.add(
                "impossible-value",
                format!("{path}.nand"),
                format!("{units} pages of {}", self.page),
                "places in flash are numbered with 32 bits".into(),
                format!("write a larger {path}.page, or less flash"),
            );
            return;
        }
        let geometry = Geometry::new(&self.nand, self.split, self.page.bytes());
        let blocks = u64::from(geometry.lanes) * u64::from(geometry.blocks);
        if blocks > MOST_BLOCKS
            || u64::from(geometry.lanes) * u64::from(geometry.block_units()) > MOST_BLOCKS
        {
            problems.add(
                "impossible-value",
                format!("{path}.nand"),
                format!("{blocks} blocks of all planes of a die"),
                "what is kept of each would not fit into memory".into(),
                format!("write fewer {path}.nand.blocks, or fewer dies"),
            );
            return;
        }
        let least = self.least_blocks(&geometry);
        let usable = self.usable(&geometry).into_iter().min().unwrap_or(0);
        if usable < least {
            problems.add(
                "contradiction",
                format!("{path}.capacity"),
                self.capacity.to_string(),
                format!(
                    "each die needs {least} blocks for its share, for those that are filled or \
                     collected and for {path}.collection.free_blocks, and the worst has {usable}"
                ),
                format!("write a smaller capacity, or more {path}.nand.blocks"),
            );
        }
    }

    fn check_buffer(&self, path: &str, problems: &mut Problems) {
        let buffer = &self.buffer;
        let path = format!("{path}.buffer");
        check_bandwidth(&format!("{path}.bandwidth"), buffer.bandwidth, problems);
        problems.at_least(&path, "dirty", buffer.dirty, self.page);
        for (field, size) in [("dirty", buffer.dirty), ("flush_above", buffer.flush_above)] {
            if size > buffer.capacity {
                problems.add(
                    "contradiction",
                    format!("{path}.{field}"),
                    size.to_string(),
                    format!("the buffer holds {} ({path}.capacity)", buffer.capacity),
                    format!("write {} or less", buffer.capacity),
                );
            }
        }
    }
}

impl DeviceDescription for SsdSpec {
    fn capacity(&self) -> Size {
        self.capacity
    }

    fn page(&self) -> Size {
        self.page
    }

    fn build(&self, link: &dyn LinkDescription) -> AnyDevice {
        SsdDevice::new(self, link).into()
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        let before = problems.len();
        self.nand.check(&format!("{path}.nand"), problems);
        problems.at_least(path, "queue_depth", self.queue_depth, 1);
        problems.at_least(&format!("{path}.firmware"), "cores", self.firmware.cores, 1);
        problems.at_most(&format!("{path}.firmware"), "cores", self.firmware.cores, 256);
        let collection = format!("{path}.collection");
        problems.at_least(&collection, "free_blocks", self.collection.free_blocks, 2);
        problems.at_least(&collection, "copies", self.collection.copies, 1);
        let wear = format!("{path}.wear");
        problems.at_least(&wear, "endurance", self.wear.endurance, 1);
        problems.at_least(&wear, "factory_bad", self.wear.factory_bad, 0.0);
        problems.at_most(&wear, "factory_bad", self.wear.factory_bad, 0.5);
        if !translation::is_order(&self.striping) {
            problems.add(
                "impossible-value",
                format!("{path}.striping"),
                self.striping.clone(),
                "an order has each of c, w, d and p once".into(),
                "write \"c-w-d-p\"".into(),
            );
        }
        self.check_split(path, problems);
        self.check_buffer(path, problems);
        if problems.len() == before {
            self.check_pages(path, problems);
        }
        if problems.len() == before {
            self.check_space(path, problems);
        }
    }
}

impl SsdDevice {
    /// A drive with nothing to do, behind an empty link. The descriptions have been checked.
    pub fn new(spec: &SsdSpec, link: &dyn LinkDescription) -> Self {
        Linked::behind(link, Ssd::new(spec), spec.page.bytes(), spec.queue_depth)
    }
}
