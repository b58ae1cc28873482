//! A device on a module of DRAM that moves data only while the module refreshes.
//!
//! NVDIMM-C (C. Lee et al., "NVDIMM-C: A Byte-Addressable Non-Volatile Memory Module for Compatibility with
//! Standard DDR Memory Interfaces", HPCA 2020): the memory controller keeps away from the module for tRFC after
//! each refresh command; tRFC is set longer than the chips need, and the device on the module, which sees the
//! command on the bus, has what is left.

use super::{AnyLink, Direction, Flow, Kind, Lane, Leg, Link, LinkDescription, Message};
use crate::request::{Refreshes, Tie};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use tierscope_units::{Bandwidth, Duration, Problems};

/// Bytes of a line of the module's DRAM.
const LINE_BYTES: u64 = 64;

/// Windows of time, after refreshes, in which a device on the module reaches its DRAM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RefreshWindowSpec {
    /// The channel of the DRAM whose first rank is the module's, counted from 0.
    pub channel: u32,
    /// What the chips need of each tRFC; the device has the rest.
    pub chips: Duration,
    /// Bandwidth of the device in a window.
    pub bandwidth: Bandwidth,
    /// Time from one end to the other, added to each message.
    pub latency: Duration,
}

impl LinkDescription for RefreshWindowSpec {
    fn check(&self, path: &str, problems: &mut Problems) {
        super::check_bandwidth(&format!("{path}.bandwidth"), self.bandwidth, problems);
    }

    fn build(&self) -> AnyLink {
        RefreshWindowLink::new(self).into()
    }

    fn refresh_windows(&self) -> Option<&RefreshWindowSpec> {
        Some(self)
    }
}

/// A link that moves bytes in windows alone, in one direction at a time: a transfer that does not fit into a
/// window goes on in the next.
///
/// It counts the time of its windows: a lane that knows no other time moves the bytes. When a refresh comes is known
/// once its command is given, and not sooner than it falls due: until then a time is the first that is possible, and
/// [`Link::left_ps`] says it anew. Before it has been told of refreshes it is always open.
#[derive(Clone, Debug)]
pub struct RefreshWindowLink {
    lane: Lane,
    chips_ps: u64,
    latency_ps: u64,
    channel: u32,
    refreshes: Refreshes,
}

impl RefreshWindowLink {
    /// A link with nothing on it. The description has been checked.
    pub fn new(spec: &RefreshWindowSpec) -> Self {
        RefreshWindowLink {
            lane: Lane::new(spec.bandwidth.bytes_per_second()),
            chips_ps: spec.chips.picoseconds(),
            latency_ps: spec.latency.picoseconds(),
            channel: spec.channel,
            refreshes: Refreshes::default(),
        }
    }

    /// Length of a window; 0 where nothing is known of refreshes.
    fn window_ps(&self) -> u64 {
        self.refreshes.busy_ps.saturating_sub(self.chips_ps)
    }

    /// How much of the windows has passed at a time, not before that of the last that was told.
    fn within(&self, now_ps: u64) -> u64 {
        let Refreshes { done, last_ps, .. } = self.refreshes;
        match (self.window_ps(), done) {
            (0, _) => now_ps,
            (_, 0) => 0,
            (window_ps, done) => {
                let in_last_ps = now_ps.saturating_sub(last_ps + self.chips_ps).min(window_ps);
                (done - 1) * window_ps + in_last_ps
            }
        }
    }

    /// The first time at which so much of the windows has passed, where the refresh is known that opens the last of
    /// them; else the first at which it can have.
    fn when(&self, within_ps: u64) -> u64 {
        let window_ps = self.window_ps();
        if window_ps == 0 || within_ps == 0 {
            return within_ps;
        }
        let Refreshes { told_ps, done, last_ps, first_ps, interval_ps, .. } = self.refreshes;
        let number = (within_ps - 1) / window_ps;
        let after_ps = self.chips_ps + within_ps - number * window_ps;
        let due_ps = first_ps + number * interval_ps;
        match (number + 1).cmp(&done) {
            Ordering::Less => due_ps + after_ps,
            Ordering::Equal => last_ps + after_ps,
            Ordering::Greater => due_ps.max(told_ps) + after_ps,
        }
    }
}

impl Link for RefreshWindowLink {
    /// It starts when it is taken, though its first byte moves in the next window.
    #[inline]
    fn transfer(&mut self, now_ps: u64, message: Message, direction: Direction) -> (u64, u64) {
        let start_ps = self.free_ps(direction).max(now_ps);
        let wire_bytes = self.wire_bytes(message);
        let (_, end_ps) = self.lane.transfer(self.within(now_ps), wire_bytes);
        (start_ps, self.when(end_ps).max(start_ps) + self.latency_ps)
    }

    fn free_ps(&self, _: Direction) -> u64 {
        self.when(self.lane.free_ps())
    }

    /// The time of windows.
    fn mark(&self) -> u64 {
        self.lane.free_ps()
    }

    fn left_ps(&self, mark: u64) -> u64 {
        self.when(mark)
    }

    /// Commands, and what says that they are done, are lines in the module's DRAM, which the device looks
    /// for in its windows.
    fn wire_bytes(&self, message: Message) -> u64 {
        match message.kind {
            Kind::Request | Kind::Done => LINE_BYTES,
            Kind::Answer | Kind::Data | Kind::Control => message.bytes,
        }
    }

    /// A command, the data, and a line that says that they are there.
    fn flow(&self, write: bool) -> Flow {
        let command = vec![Leg::down(Kind::Request, None)];
        Flow { command, done: vec![Leg::up(Kind::Done, None)], ..Flow::plain(write) }
    }

    fn is_duplex(&self) -> bool {
        false
    }

    fn tie(&self) -> Option<Tie> {
        Some(Tie::Refreshes(self.channel as usize))
    }

    fn tell_refreshes(&mut self, refreshes: Refreshes) {
        self.refreshes = refreshes;
    }
}

#[cfg(test)]
mod tests;
