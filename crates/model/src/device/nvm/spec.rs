//! What a user says of a module of byte-addressable non-volatile memory.

use super::NvmDevice;
use crate::device::raid::{Raid, RaidSpec};
use crate::device::{AnyDevice, DeviceDescription};
use crate::link::LinkDescription;
use crate::medium::{NvmArraySpec, NvmEnergySpec, NvmWearSpec};
use serde::{Deserialize, Serialize};
use tierscope_units::{Duration, Problems, Size};

/// Byte-addressable non-volatile memory: cells, their controller, and what combines writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NvmSpec {
    /// Capacity.
    pub capacity: Size,
    /// Time of the controller for each access.
    pub controller_latency: Duration,
    /// Accesses that it holds at most.
    pub queue_depth: u32,
    /// The cells, and the queues before them.
    pub array: NvmArraySpec,
    /// What combines writes before the cells, where something does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<NvmBufferSpec>,
    /// How lines wear.
    pub wear: NvmWearSpec,
    /// What operations take, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<NvmEnergySpec>,
    /// Several such modules side by side, over which data are dealt in stripes (interleaving).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<RaidSpec>,
}

/// A buffer of whole lines of the array, which is asked for parts of them.
///
/// Reads bring a line into it, writes are combined in it, and a line that leaves it incomplete is read
/// before it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NvmBufferSpec {
    /// What it holds: whole lines of the array.
    pub capacity: Size,
    /// What it is asked for: a power of two, less than a line of the array.
    pub access: Size,
    /// Time of each look-up.
    pub latency: Duration,
}

impl NvmSpec {
    /// What the module is asked for: a line of the array, or a part of one where there is a buffer.
    pub fn access(&self) -> Size {
        self.buffer.as_ref().map_or(self.array.line, |buffer| buffer.access)
    }

    fn check_capacity(&self, path: &str, problems: &mut Problems) {
        let Some(share) = self.array.share() else { return };
        if self.capacity < share || !self.capacity.bytes().is_multiple_of(share.bytes()) {
            problems.add(
                "contradiction",
                format!("{path}.capacity"),
                self.capacity.to_string(),
                format!(
                    "{} channels of {} banks do not share it evenly ({path}.array)",
                    self.array.channels, self.array.banks
                ),
                format!("write a multiple of {share}"),
            );
        }
    }
}

impl NvmBufferSpec {
    fn check(&self, path: &str, line: Size, problems: &mut Problems) {
        let access = self.access.bytes();
        if !access.is_power_of_two() || access < 64 || access >= line.bytes() {
            problems.add(
                "contradiction",
                format!("{path}.access"),
                self.access.to_string(),
                format!("it is a power of two from 64B up, and less than a line of {line}"),
                "write 64B, with lines of 256B; or remove the buffer".into(),
            );
        }
        if self.capacity < line || !self.capacity.bytes().is_multiple_of(line.bytes()) {
            problems.add(
                "contradiction",
                format!("{path}.capacity"),
                self.capacity.to_string(),
                format!("it is not a whole number of lines of {line}"),
                format!("write a multiple of {line}"),
            );
        }
        problems.at_most(path, "capacity", self.capacity, Size::from_bytes(1 << 20));
    }
}

impl NvmSpec {
    /// Time up to the array: controller, and buffer where there is one.
    fn arrival_ps(&self) -> u64 {
        let look_up_ps = self.buffer.as_ref().map_or(0, |buffer| buffer.latency.picoseconds());
        self.controller_latency.picoseconds() + look_up_ps
    }
}

impl DeviceDescription for NvmSpec {
    fn capacity(&self) -> Size {
        self.raid.as_ref().map_or(self.capacity, |raid| raid.capacity(self.capacity))
    }

    fn page(&self) -> Size {
        self.access()
    }

    /// A read passes controller, buffer, a row and the bus; a write the controller and the buffer, or it takes its share of what
    /// all banks write at once, where that is longer. Nothing is told of modules behind an adapter's cache.
    fn page_times_ps(&self) -> Option<(u64, u64)> {
        let array = &self.array;
        let banks = u64::from(array.channels) * u64::from(array.banks);
        let write_ps = array.write_latency.picoseconds() / banks.max(1);
        let times_ps = || (self.usual_read_ps(), self.arrival_ps().max(write_ps));
        (!self.is_warmed_in_detail()).then(times_ps)
    }

    fn is_warmed_in_detail(&self) -> bool {
        self.raid.as_ref().is_some_and(|raid| raid.cache.is_some())
    }

    fn usual_read_ps(&self) -> u64 {
        let array = &self.array;
        self.arrival_ps() + array.read_latency.picoseconds() + array.column_latency.picoseconds()
    }

    fn build(&self, link: &dyn LinkDescription) -> AnyDevice {
        match &self.raid {
            Some(raid) => {
                Raid::new(raid, self.access(), || NvmDevice::new(self, link).into()).into()
            }
            None => NvmDevice::new(self, link).into(),
        }
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        let before = problems.len();
        problems.at_least(path, "queue_depth", self.queue_depth, 1);
        self.array.check(&format!("{path}.array"), problems);
        self.wear.check(&format!("{path}.wear"), problems);
        if problems.len() == before {
            self.check_capacity(path, problems);
        }
        if let Some(buffer) = &self.buffer {
            buffer.check(&format!("{path}.buffer"), self.array.line, problems);
        }
        if let Some(raid) = &self.raid {
            raid.check(&format!("{path}.raid"), self.access(), self.capacity, problems);
        }
    }
}
