//! What a user says of HASTE.

use super::HasteDevice;
use crate::device::{AnyDevice, DeviceDescription, check_pages};
use crate::link::{LinkDescription, check_bandwidth};
use serde::{Deserialize, Serialize};
use tierscope_units::{Bandwidth, Duration, Problems, Size};

/// Memory behind controllers on a token ring, reached through a few buffers by DMA.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HasteSpec {
    /// Capacity.
    pub capacity: Size,
    /// Bytes that a controller reads or writes as one, and that a buffer holds: a power of two.
    pub page: Size,
    /// Requests in flight at most, which are taken in order.
    pub queue_depth: u32,
    /// Time of the scheduler and of the buffers, for each page.
    pub scheduler_latency: Duration,
    /// DMA buffers: pages that are between host and ring at most.
    pub buffers: u32,
    /// Nodes of the ring; the first has link and buffers, and controllers are spread over all.
    pub nodes: u32,
    /// Bandwidth of the ring, which sends one page at a time.
    pub ring_bandwidth: Bandwidth,
    /// Time once around the ring.
    pub ring_latency: Duration,
    /// Memory controllers; pages are dealt to them in turn.
    pub controllers: u32,
    /// Bandwidth of the memory of one controller.
    pub controller_bandwidth: Bandwidth,
    /// Time until a row gives data: of the emulated memory between row and column access, once a page.
    pub read_latency: Duration,
    /// Time after a write until the controller can go on: the precharge of the emulated memory, once a page.
    pub write_latency: Duration,
}

impl DeviceDescription for HasteSpec {
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
        HasteDevice::new(self, link).into()
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        for (name, count, most) in [
            ("queue_depth", self.queue_depth, 1 << 16),
            ("buffers", self.buffers, 1 << 16),
            ("nodes", self.nodes, 256),
            ("controllers", self.controllers, 1 << 16),
        ] {
            problems.at_least(path, name, count, 1);
            problems.at_most(path, name, count, most);
        }
        check_pages(path, self.page, Size::from_bytes(64), self.capacity, problems);
        for (name, bandwidth) in [
            ("ring_bandwidth", self.ring_bandwidth),
            ("controller_bandwidth", self.controller_bandwidth),
        ] {
            check_bandwidth(&format!("{path}.{name}"), bandwidth, problems);
        }
    }
}
