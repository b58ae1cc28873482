//! What a user says of the backing store.

use super::StoreDevice;
use crate::device::{AnyDevice, DeviceDescription, check_pages};
use crate::link::{LinkDescription, check_bandwidth};
use crate::medium::{AnyMedium, Paged};
use serde::{Deserialize, Serialize};
use tierscope_units::{Bandwidth, Duration, Power, Problems, Size};

/// A backing store: parallel units of a medium behind a controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StoreSpec {
    /// Capacity.
    pub capacity: Size,
    /// Bytes read or written as one: a power of two.
    pub page: Size,
    /// Time of the medium to read a page, transfers not included.
    pub read_latency: Duration,
    /// Time of the medium to write a page, transfers not included.
    pub write_latency: Duration,
    /// Units (packages, dies) that work in parallel; pages are dealt to them in turn.
    pub units: u32,
    /// Bandwidth between one unit and the device's controller.
    pub unit_bandwidth: Bandwidth,
    /// Time of the device's controller for each command.
    pub controller_latency: Duration,
    /// Page requests that the device holds at most.
    pub queue_depth: u32,
    /// What its units take; without it their energy is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<StorePowerSpec>,
}

/// What a unit of a store takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StorePowerSpec {
    /// While its medium reads.
    pub read: Power,
    /// While its medium writes.
    pub write: Power,
    /// At all times, whatever it does.
    pub standby: Power,
}

impl StorePowerSpec {
    /// Joules of so many units up to `now_ps`, whose media have read and written for so many picoseconds, by part.
    pub fn energies_j(
        &self,
        [read_ps, write_ps]: [u64; 2],
        units: u64,
        now_ps: u64,
    ) -> [(&'static str, f64); 3] {
        [
            ("read", self.read.joules(read_ps)),
            ("write", self.write.joules(write_ps)),
            ("standby", units as f64 * self.standby.joules(now_ps)),
        ]
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        for (key, power) in [("read", self.read), ("write", self.write), ("standby", self.standby)]
        {
            problems.at_most(path, key, power, Power::MOST_OF_A_PART);
        }
    }
}

impl StoreSpec {
    /// Pages of the store.
    pub(super) fn pages(&self) -> u64 {
        self.capacity.bytes() / self.page.bytes()
    }

    /// The medium of one unit: its share of the pages, the largest where they are not equal.
    pub(super) fn medium(&self) -> AnyMedium {
        let medium = Paged {
            pages: self.pages().div_ceil(u64::from(self.units)),
            page_bytes: self.page.bytes(),
            read_ps: self.read_latency.picoseconds(),
            write_ps: self.write_latency.picoseconds(),
        };
        medium.into()
    }
}

impl DeviceDescription for StoreSpec {
    fn capacity(&self) -> Size {
        self.capacity
    }

    fn page(&self) -> Size {
        self.page
    }

    fn page_times_ps(&self) -> Option<(u64, u64)> {
        Some((self.read_latency.picoseconds(), self.write_latency.picoseconds()))
    }

    fn build(&self, link: &dyn LinkDescription) -> AnyDevice {
        StoreDevice::new(self, link).into()
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "units", self.units, 1);
        problems.at_most(path, "units", self.units, 1 << 16);
        problems.at_least(path, "queue_depth", self.queue_depth, 1);
        check_pages(path, self.page, Size::from_bytes(64), self.capacity, problems);
        check_bandwidth(&format!("{path}.unit_bandwidth"), self.unit_bandwidth, problems);
        if let Some(power) = &self.power {
            power.check(&format!("{path}.power"), problems);
        }
    }
}
