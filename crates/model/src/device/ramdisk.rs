//! `ramdisk`: memory of the host as a block device (`brd`, drivers/block/brd.c), of which each line may take longer
//! than DRAM: \[NVM10\] §III-B emulates memories on the DDR bus so.
//!
//! It has no link, and moves nothing by itself: whoever hands a request over copies it, line by line, through the
//! on-chip caches and the machine's DRAM, which the disk shares with main memory ([`InDram`]). What is here is the
//! time that a copy takes beyond that of DRAM where a thread of the kernel makes it that no hardware thread is charged
//! for.

use super::{AnyDevice, DeviceDescription, InDram, check_pages};
use crate::link::LinkDescription;
use crate::request::{Completion, Device, Full, Request, Tell};
use serde::{Deserialize, Serialize};
use tierscope_kernel::{EventQueue, Stage, Timeline};
use tierscope_units::{Duration, Problems, Size};

/// Bytes of a line of it.
const LINE_BYTES: u64 = 64;
/// Lines that a copy has under way at once which no hardware thread is charged for: line fill buffers of a core of
/// the time (Nehalem, 7-cpu.com).
const LINES_OF_A_COPY: u64 = 10;

/// Who waits for what a line takes longer than in DRAM.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum DelayKind {
    /// Memory: lines that on-chip caches do not have, as many at once as a core has misses under way.
    #[default]
    Memory,
    /// The driver: each line that it copies, one after the other, whether caches have it or not.
    Driver,
}

/// Memory of the host as a block device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RamdiskSpec {
    /// Capacity, of DRAM beside main memory.
    pub capacity: Size,
    /// Bytes that it is asked for as one: a power of two.
    pub page: Size,
    /// Latency of the memory that it stands for, in reading.
    pub read_latency: Duration,
    /// The same in writing.
    pub write_latency: Duration,
    /// What of either DRAM takes by itself; a line takes the rest longer.
    pub dram_latency: Duration,
    /// Who waits for that.
    pub delays: DelayKind,
    /// Lines of it that are read and written at once; more push back.
    pub lines: u32,
}

impl DeviceDescription for RamdiskSpec {
    fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "lines", self.lines, 1);
        check_pages(path, self.page, Size::from_bytes(512), self.capacity, problems);
        // Longer, and simulated time would overflow before a workload of some size is done.
        let most = Duration::from_picoseconds(1_000_000_000_000);
        for (key, latency) in
            [("read_latency", self.read_latency), ("write_latency", self.write_latency)]
        {
            problems.at_most(path, key, latency, most);
            if latency < self.dram_latency {
                problems.add(
                    "contradiction",
                    format!("{path}.{key}"),
                    latency.to_string(),
                    format!("DRAM alone takes {} of it ({path}.dram_latency)", self.dram_latency),
                    format!("write {} or more", self.dram_latency),
                );
            }
        }
    }

    fn capacity(&self) -> Size {
        self.capacity
    }

    fn page(&self) -> Size {
        self.page
    }

    fn page_times_ps(&self) -> Option<(u64, u64)> {
        let page = self.page.bytes();
        Some((self.in_dram().copy_ps(page, false), self.in_dram().copy_ps(page, true)))
    }

    fn lies_in_dram(&self) -> Option<InDram> {
        Some(self.in_dram())
    }

    /// Behind no link, whatever is given.
    fn build(&self, _link: &dyn LinkDescription) -> AnyDevice {
        Ramdisk::new(self).into()
    }

    fn build_in_dram(&self) -> Option<AnyDevice> {
        Some(Ramdisk::new(self).into())
    }
}

impl RamdiskSpec {
    fn in_dram(&self) -> InDram {
        let longer_ps = |latency: Duration| {
            latency.picoseconds().saturating_sub(self.dram_latency.picoseconds())
        };
        let times_ps = (longer_ps(self.read_latency), longer_ps(self.write_latency));
        let (memory_ps, driver_ps) = match self.delays {
            DelayKind::Memory => (times_ps, (0, 0)),
            DelayKind::Driver => ((0, 0), times_ps),
        };
        InDram { capacity_bytes: self.capacity.bytes(), memory_ps, driver_ps, lines: self.lines }
    }
}

impl InDram {
    /// How much longer than in DRAM a line takes, in picoseconds.
    pub fn line_ps(&self, write: bool) -> u64 {
        if write { self.memory_ps.1 } else { self.memory_ps.0 }
    }

    /// What the driver waits for so many bytes that it copies, in picoseconds.
    pub fn driver_ps(&self, bytes: u64, write: bool) -> u64 {
        bytes.div_ceil(LINE_BYTES) * if write { self.driver_ps.1 } else { self.driver_ps.0 }
    }

    /// What so many bytes take beyond DRAM's time, copied by themselves.
    fn copy_ps(&self, bytes: u64, write: bool) -> u64 {
        let at_once = LINES_OF_A_COPY.min(u64::from(self.lines));
        let rounds = bytes.div_ceil(LINE_BYTES).div_ceil(at_once);
        rounds * self.line_ps(write) + self.driver_ps(bytes, write)
    }
}

/// The copies under way of threads that no hardware thread is charged for, by the time when they are done.
#[derive(Clone, Debug)]
pub struct Ramdisk {
    times: InDram,
    done: EventQueue<Completion>,
}

impl Ramdisk {
    /// One with nothing to do. The description has been checked.
    pub fn new(spec: &RamdiskSpec) -> Self {
        Ramdisk { times: spec.in_dram(), done: EventQueue::new() }
    }
}

impl Device for Ramdisk {
    /// Each copy takes its own time: as many go on at once as there are threads that make them.
    fn submit(&mut self, now_ps: u64, request: Request) -> Result<(), Full> {
        if self.done.len() >= self.times.lines as usize {
            return Err(Full);
        }
        let took_ps = self.times.copy_ps(u64::from(request.bytes), request.write);
        let stages = Timeline::of([(Stage::Medium, took_ps)]);
        let completion = Completion::new(request.id, now_ps + took_ps, stages);
        self.done.push(completion.at_ps, 0, completion);
        Ok(())
    }

    fn next_event_ps(&self) -> Option<u64> {
        self.done.peek_ps()
    }

    fn advance(&mut self, now_ps: u64, out: &mut Vec<Completion>) {
        while self.done.peek_ps().is_some_and(|at_ps| at_ps <= now_ps) {
            out.extend(self.done.pop().map(|(_, completion)| completion));
        }
    }

    /// The memory that it stands for keeps what has come to it.
    fn keeps_answered(&self) -> bool {
        true
    }

    fn depths(&self, tell: &mut Tell<'_>) {
        tell("store.requests", self.done.len());
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::conformance::{SPACE_BYTES, device_laws};

    /// A disk whose reads and writes take so many nanoseconds longer than DRAM, of so many lines at once.
    pub fn spec(read_ns: u64, write_ns: u64, lines: u32) -> RamdiskSpec {
        let ns = |ns: u64| Duration::from_picoseconds(ns * 1000);
        RamdiskSpec {
            capacity: Size::from_bytes(SPACE_BYTES),
            page: Size::from_bytes(4096),
            read_latency: ns(25 + read_ns),
            write_latency: ns(25 + write_ns),
            dram_latency: ns(25),
            delays: DelayKind::Memory,
            lines,
        }
    }

    #[test]
    fn the_devices_laws_hold() {
        device_laws(|| Ramdisk::new(&spec(300, 500, 7)));
    }

    #[test]
    fn lines_of_a_page_overlap_in_memory_and_not_in_the_driver() {
        let overlapped = spec(100, 200, 384);
        assert_eq!(overlapped.page_times_ps(), Some((7 * 100_000, 7 * 200_000)));
        let serial = RamdiskSpec { delays: DelayKind::Driver, ..overlapped };
        assert_eq!(serial.page_times_ps(), Some((64 * 100_000, 64 * 200_000)));
    }

    #[test]
    fn a_memory_quicker_than_dram_is_refused() {
        let mut problems = Problems::new();
        let quick = RamdiskSpec { read_latency: Duration::default(), ..spec(0, 0, 1) };
        quick.check("ramdisk", &mut problems);
        let found: Vec<_> = problems.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(found, ["ramdisk.read_latency"]);
    }
}
