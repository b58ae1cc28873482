//! What a user says of DRAM.

use serde::{Deserialize, Serialize};
use tierscope_units::{Duration, Problems, Size};

/// DRAM behind its controller: channels, banks, rows and timing. Its capacity is said where it is
/// used (`hybrid.cache.capacity`, `storage.dram_capacity` …): rows extend to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DramSpec {
    /// Channels, each with its own data bus and controller.
    pub channels: u32,
    /// Ranks of each channel.
    pub ranks: u32,
    /// Banks of each rank.
    pub banks: u32,
    /// Bytes of an open row over all chips of a rank.
    pub row: Size,
    /// Width of the data bus of a channel, in bits.
    pub bus_bits: u32,
    /// Period of the command clock; data move twice in it.
    pub clock_period: Duration,
    /// Column read to first data, in clocks.
    pub t_cl: u32,
    /// Activate to column command, in clocks.
    pub t_rcd: u32,
    /// Precharge to activate, in clocks.
    pub t_rp: u32,
    /// Activate to precharge, in clocks.
    pub t_ras: u32,
    /// Column write to first data, in clocks.
    pub t_cwl: u32,
    /// End of write data to precharge, in clocks.
    pub t_wr: u32,
    /// Data transfers of a burst: 8 for 64 B over 64 bits.
    pub burst_length: u32,
    /// Mean time between refreshes of a rank; all its banks close.
    pub t_refi: Duration,
    /// Time of one refresh.
    pub t_rfc: Duration,
    /// Line requests that a channel's controller holds at most.
    pub queue_depth: u32,
    /// Time of the controller itself, added to each request.
    pub controller_latency: Duration,
}

impl DramSpec {
    /// Collects every semantic mistake below `path`.
    pub fn check(&self, path: &str, problems: &mut Problems) {
        for (name, value) in [
            ("channels", self.channels),
            ("ranks", self.ranks),
            ("banks", self.banks),
            ("t_cl", self.t_cl),
            ("t_rcd", self.t_rcd),
            ("t_rp", self.t_rp),
            ("t_ras", self.t_ras),
            ("t_cwl", self.t_cwl),
            ("burst_length", self.burst_length),
            ("queue_depth", self.queue_depth),
        ] {
            problems.at_least(path, name, value, 1);
        }
        // Each bank has a state of its own: more than any machine has would only fill memory.
        problems.at_most(path, "channels", self.channels, 1024);
        problems.at_most(path, "ranks", self.ranks, 16);
        problems.at_most(path, "banks", self.banks, 256);
        problems.at_least(path, "clock_period", self.clock_period, Duration::from_picoseconds(1));
        if !self.bus_bits.is_multiple_of(8) || self.bus_bits == 0 {
            problems.add(
                "impossible-value",
                format!("{path}.bus_bits"),
                self.bus_bits.to_string(),
                "a data bus is a whole number of bytes wide".into(),
                "write 64".into(),
            );
        }
        if !self.row.bytes().is_power_of_two() || self.row.bytes() < 64 {
            problems.add(
                "impossible-value",
                format!("{path}.row"),
                self.row.to_string(),
                "a row is a power of two of at least 64B".into(),
                "write 1KiB".into(),
            );
        }
        if self.t_ras < self.t_rcd {
            problems.add(
                "contradiction",
                format!("{path}.t_ras"),
                self.t_ras.to_string(),
                format!("a row stays open at least for t_rcd = {}", self.t_rcd),
                format!("write {} or more", self.t_rcd),
            );
        }
        if self.t_refi.picoseconds() <= self.t_rfc.picoseconds() {
            problems.add(
                "contradiction",
                format!("{path}.t_rfc"),
                self.t_rfc.to_string(),
                format!("refreshes come every {}: nothing would be left", self.t_refi),
                "write less than t_refi".into(),
            );
        }
    }
}
