//! What a user says of a disk.

use super::DiskDevice;
use super::arm::SeekCurve;
use super::geometry::Geometry;
use crate::device::raid::{Raid, RaidSpec};
use crate::device::{AnyDevice, DeviceDescription};
use crate::link::LinkDescription;
use serde::{Deserialize, Serialize};
use tierscope_units::{Duration, Power, Problems, Size};

/// A disk: platters, an arm with heads, a buffer, and the choice of what is done next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskSpec {
    /// Capacity.
    pub capacity: Size,
    /// Bytes that its buffer holds as one: a power of two, and whole sectors. Part of a page takes as long
    /// as the page.
    pub page: Size,
    /// Commands that it holds at most.
    pub queue_depth: u32,
    /// Time of its controller for each command.
    pub controller_latency: Duration,
    /// Of so many of those that wait longest, the one whose first sector is reached first is done next;
    /// with 1, they are done in the order of their coming.
    pub window: u32,
    /// What has waited for longer is done first, whatever the way to it.
    pub age_limit: Duration,
    /// The platters, and how they are divided.
    pub platters: PlattersSpec,
    /// The arm.
    pub arm: ArmSpec,
    /// The buffer.
    pub buffer: DiskBufferSpec,
    /// What it takes; without it its energy is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<DiskPowerSpec>,
    /// Several of it side by side, over which data are dealt in stripes (RAID-0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<RaidSpec>,
}

/// The platters of a disk, and how they are divided into tracks and sectors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlattersSpec {
    /// Revolutions a minute.
    pub rpm: u32,
    /// Surfaces with data, each with a head.
    pub heads: u32,
    /// Tracks of a surface.
    pub cylinders: u32,
    /// Zones of as many cylinders each: from the outermost to the innermost, their tracks have fewer and
    /// fewer sectors, in equal steps.
    pub zones: u32,
    /// Sectors of a track of the outermost zone.
    pub outer_sectors: u32,
    /// Sectors of a track of the innermost zone.
    pub inner_sectors: u32,
    /// Bytes of a sector.
    pub sector: Size,
    /// By how much later than on the track before it on its cylinder a track's first sector comes below
    /// its head, so that there is time to switch heads.
    pub track_skew: Duration,
    /// The same, of the first track of a cylinder behind the last of the one before.
    pub cylinder_skew: Duration,
}

/// The arm of a disk. The time of a seek, by its distance, is a curve through the three that are given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArmSpec {
    /// Time of a seek to the next cylinder, settling included.
    pub single_seek: Duration,
    /// The same, the mean over all pairs of cylinders.
    pub average_seek: Duration,
    /// The same, from the first cylinder to the last.
    pub full_seek: Duration,
    /// What seeks take longer before writes, but for those to the next cylinder.
    pub write_settle: Duration,
    /// Time to switch to another head of the same cylinder.
    pub head_switch: Duration,
}

/// The buffer of a disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskBufferSpec {
    /// What it has for data that are read.
    pub capacity: Size,
    /// Parts of it, each for a stream of reads.
    pub segments: u32,
    /// How far a disk with nothing else to do reads on behind the last page that was asked for; at most a
    /// segment.
    pub read_ahead: Size,
    /// Whether a write is done when it is in the buffer, or when it is on the platter.
    pub write_cache: bool,
    /// What it has for data that wait to be written; further writes wait. Only with a write cache.
    pub dirty: Size,
}

/// What a disk takes, as its specification says it: motors and electronics together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskPowerSpec {
    /// While the platters turn and nothing is asked for.
    pub idle: Power,
    /// While arm and heads are positioned; not less than when idle.
    pub seek: Power,
    /// While the heads wait for a sector, or sectors pass below them; not less than when idle.
    pub transfer: Power,
}

impl DiskPowerSpec {
    /// Joules in `time_ps`, in which arm and heads were positioned and sectors waited for or passed for so many
    /// picoseconds, by part: what it takes anyway, and what both take beyond that.
    pub fn energies_j(
        &self,
        [seek_ps, access_ps]: [u64; 2],
        time_ps: u64,
    ) -> [(&'static str, f64); 3] {
        let beyond = |power: Power, time_ps| power.joules(time_ps) - self.idle.joules(time_ps);
        [
            ("idle", self.idle.joules(time_ps)),
            ("seek", beyond(self.seek, seek_ps)),
            ("transfer", beyond(self.transfer, access_ps)),
        ]
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        for (key, power) in [("idle", self.idle), ("seek", self.seek), ("transfer", self.transfer)]
        {
            problems.at_most(path, key, power, Power::MOST_OF_A_PART);
        }
        problems.at_least(path, "seek", self.seek, self.idle);
        problems.at_least(path, "transfer", self.transfer, self.idle);
    }
}

const MOST_CYLINDERS: u32 = 10_000_000;
const MOST_SECTORS: u32 = 1_000_000;

impl PlattersSpec {
    fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "rpm", self.rpm, 60);
        problems.at_most(path, "rpm", self.rpm, 1_000_000);
        problems.at_least(path, "heads", self.heads, 1);
        problems.at_most(path, "heads", self.heads, 256);
        problems.at_least(path, "cylinders", self.cylinders, 3);
        problems.at_most(path, "cylinders", self.cylinders, MOST_CYLINDERS);
        problems.at_least(path, "zones", self.zones, 1);
        problems.at_most(path, "zones", self.zones, self.cylinders.clamp(1, 4096));
        problems.at_least(path, "inner_sectors", self.inner_sectors, 1);
        problems.at_most(path, "outer_sectors", self.outer_sectors, MOST_SECTORS);
        if self.outer_sectors < self.inner_sectors {
            problems.add(
                "contradiction",
                format!("{path}.outer_sectors"),
                self.outer_sectors.to_string(),
                format!("the innermost track has {} ({path}.inner_sectors)", self.inner_sectors),
                "write as many at least: tracks outside are longer".into(),
            );
        }
        let sector = self.sector.bytes();
        if !sector.is_power_of_two() || !(512..=65_536).contains(&sector) {
            problems.add(
                "impossible-value",
                format!("{path}.sector"),
                self.sector.to_string(),
                "a sector is a power of two from 512B to 64KiB".into(),
                "write 512B, or 4KiB".into(),
            );
        }
        if self.rpm >= 60 {
            let turn = Duration::from_picoseconds(60_000_000_000_000 / u64::from(self.rpm));
            problems.at_most(path, "track_skew", self.track_skew, turn);
            problems.at_most(path, "cylinder_skew", self.cylinder_skew, turn);
        }
    }
}

impl ArmSpec {
    fn check(&self, path: &str, problems: &mut Problems) {
        let longest = Duration::from_picoseconds(1_000_000_000_000);
        problems.at_most(path, "full_seek", self.full_seek, longest);
        problems.at_most(path, "write_settle", self.write_settle, longest);
        problems.at_most(path, "head_switch", self.head_switch, longest);
        let before = problems.len();
        problems.at_least(path, "average_seek", self.average_seek, self.single_seek);
        problems.at_least(path, "full_seek", self.full_seek, self.average_seek);
        if problems.len() == before && !SeekCurve::new(self, 3).is_monotone() {
            problems.add(
                "contradiction",
                format!("{path}.average_seek"),
                self.average_seek.to_string(),
                format!(
                    "no curve from {} to {} that always rises has this mean",
                    self.single_seek, self.full_seek
                ),
                format!("write from {} to {}", self.least_average(), self.most_average()),
            );
        }
    }

    /// With less, short seeks would be no longer than one over a single cylinder.
    fn least_average(&self) -> Duration {
        let (single, full) = (self.single_seek.picoseconds(), self.full_seek.picoseconds());
        Duration::from_picoseconds((10 * single + 5 * full).div_ceil(15))
    }

    /// With more, the longest seeks would take less than shorter ones.
    fn most_average(&self) -> Duration {
        let (single, full) = (self.single_seek.picoseconds(), self.full_seek.picoseconds());
        Duration::from_picoseconds((4 * single + 11 * full) / 15)
    }
}

impl DiskBufferSpec {
    fn check(&self, path: &str, page: Size, problems: &mut Problems) {
        problems.at_least(path, "segments", self.segments, 1);
        problems.at_most(path, "segments", self.segments, 1024);
        problems.at_most(path, "capacity", self.capacity, Size::from_bytes(1 << 36));
        problems.at_most(path, "dirty", self.dirty, Size::from_bytes(1 << 36));
        let segment = self.capacity.bytes() / u64::from(self.segments.max(1));
        if segment < page.bytes() {
            problems.add(
                "contradiction",
                format!("{path}.capacity"),
                self.capacity.to_string(),
                format!("{} segments do not hold a page of {page} each", self.segments),
                "write more, or fewer segments".into(),
            );
        } else {
            problems.at_most(path, "read_ahead", self.read_ahead, Size::from_bytes(segment));
        }
        if self.write_cache {
            problems.at_least(path, "dirty", self.dirty, page);
        }
    }
}

impl DiskSpec {
    fn check_page(&self, path: &str, problems: &mut Problems) {
        let (page, sector) = (self.page.bytes(), self.platters.sector.bytes());
        if !page.is_power_of_two() || page < sector || page > 1 << 20 {
            problems.add(
                "contradiction",
                format!("{path}.page"),
                self.page.to_string(),
                format!("it is a power of two from a sector of {} to 1MiB", self.platters.sector),
                "write 4KiB".into(),
            );
        } else if self.capacity.bytes() < page || !self.capacity.bytes().is_multiple_of(page) {
            problems.add(
                "contradiction",
                format!("{path}.capacity"),
                self.capacity.to_string(),
                format!("it is not a whole number of pages of {}", self.page),
                "write a multiple of the page".into(),
            );
        }
    }

    fn check_room(&self, path: &str, problems: &mut Problems) {
        let sectors = u128::from(Geometry::new(&self.platters).sectors());
        let bytes = sectors * u128::from(self.platters.sector.bytes());
        if u128::from(self.capacity.bytes()) > bytes {
            problems.add(
                "contradiction",
                format!("{path}.capacity"),
                self.capacity.to_string(),
                format!("the tracks of {path}.platters hold {bytes} bytes"),
                "write no more, or more cylinders".into(),
            );
        }
    }
}

impl DeviceDescription for DiskSpec {
    fn rotates(&self) -> bool {
        true
    }

    fn capacity(&self) -> Size {
        self.raid.as_ref().map_or(self.capacity, |raid| raid.capacity(self.capacity))
    }

    fn page(&self) -> Size {
        self.page
    }

    fn is_warmed_in_detail(&self) -> bool {
        true
    }

    /// The arm goes as far as it does on average, and the platters turn by half.
    fn usual_read_ps(&self) -> u64 {
        let half_turn_ps = 30 * 1_000_000_000_000 / u64::from(self.platters.rpm.max(1));
        let controller_ps = self.controller_latency.picoseconds();
        controller_ps + self.arm.average_seek.picoseconds() + half_turn_ps
    }

    fn build(&self, link: &dyn LinkDescription) -> AnyDevice {
        match &self.raid {
            Some(raid) => Raid::new(raid, self.page, || DiskDevice::new(self, link).into()).into(),
            None => DiskDevice::new(self, link).into(),
        }
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "queue_depth", self.queue_depth, 1);
        problems.at_least(path, "window", self.window, 1);
        problems.at_most(path, "window", self.window, 4096);
        let before = problems.len();
        self.platters.check(&format!("{path}.platters"), problems);
        if problems.len() == before {
            self.check_page(path, problems);
            self.check_room(path, problems);
        }
        self.arm.check(&format!("{path}.arm"), problems);
        self.buffer.check(&format!("{path}.buffer"), self.page, problems);
        if let Some(power) = &self.power {
            power.check(&format!("{path}.power"), problems);
        }
        if let Some(raid) = &self.raid {
            raid.check(&format!("{path}.raid"), self.page, self.capacity, problems);
        }
    }
}
