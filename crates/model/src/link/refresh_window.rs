//! A device on a module of DRAM that moves data only while the module refreshes.
//!
//! NVDIMM-C (C. Lee et al., "NVDIMM-C: A Byte-Addressable Non-Volatile Memory Module for Compatibility with
//! Standard DDR Memory Interfaces", HPCA 2020): the memory controller keeps away from the module for tRFC after
//! each refresh command; tRFC is set longer than the chips need, and the device on the module has what is left.

use super::{AnyLink, Direction, Flow, Kind, Lane, Leg, Link, LinkDescription, Message};
use serde::{Deserialize, Serialize};
use tierscope_units::{Bandwidth, Duration, Problems};

/// Bytes of a line of the module's DRAM.
const LINE_BYTES: u64 = 64;

/// Windows of time in which a device on the module reaches its DRAM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RefreshWindowSpec {
    /// From one window to the next: the interval of refreshes, tREFI.
    pub interval: Duration,
    /// Length of each window: what tRFC is set to, less what the chips need.
    pub window: Duration,
    /// Bandwidth of the device in a window.
    pub bandwidth: Bandwidth,
    /// Time from one end to the other, added to each message.
    pub latency: Duration,
}

impl LinkDescription for RefreshWindowSpec {
    fn check(&self, path: &str, problems: &mut Problems) {
        super::check_bandwidth(&format!("{path}.bandwidth"), self.bandwidth, problems);
        let shortest = Duration::from_picoseconds(1_000);
        problems.at_least(path, "window", self.window, shortest);
        problems.at_most(path, "interval", self.interval, Duration::from_picoseconds(1 << 40));
        if self.window > self.interval {
            problems.add(
                "contradiction",
                format!("{path}.window"),
                self.window.to_string(),
                format!("windows follow each other by {} ({path}.interval)", self.interval),
                format!("write {} or less", self.interval),
            );
        }
    }

    fn build(&self) -> AnyLink {
        RefreshWindowLink::new(self).into()
    }
}

/// A link that moves bytes in windows alone, in one direction at a time: a transfer that does not fit into a
/// window goes on in the next.
///
/// It counts the time of its windows: a lane that knows no other time moves the bytes, and its time is
/// stretched over the windows. The first window ends with the first interval.
#[derive(Clone, Debug)]
pub struct RefreshWindowLink {
    lane: Lane,
    interval_ps: u64,
    window_ps: u64,
    latency_ps: u64,
}

impl RefreshWindowLink {
    /// A link with nothing on it. The description has been checked.
    pub fn new(spec: &RefreshWindowSpec) -> Self {
        RefreshWindowLink {
            lane: Lane::new(spec.bandwidth.bytes_per_second()),
            interval_ps: spec.interval.picoseconds(),
            window_ps: spec.window.picoseconds(),
            latency_ps: spec.latency.picoseconds(),
        }
    }

    /// How much of the windows has passed at a time.
    fn within(&self, now_ps: u64) -> u64 {
        let closed_ps = self.interval_ps - self.window_ps;
        let in_this = (now_ps % self.interval_ps).saturating_sub(closed_ps);
        now_ps / self.interval_ps * self.window_ps + in_this
    }

    /// The first time at which so much of the windows has passed.
    fn when(&self, within_ps: u64) -> u64 {
        let closed_ps = self.interval_ps - self.window_ps;
        let whole = within_ps.saturating_sub(1) / self.window_ps;
        let rest = within_ps - whole * self.window_ps;
        let start_ps = whole * self.interval_ps;
        if rest == 0 { start_ps } else { start_ps + closed_ps + rest }
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::link_laws;
    use proptest::prelude::*;

    fn ns(time: u64) -> Duration {
        Duration::from_picoseconds(time * 1_000)
    }

    /// 900 of each 7,800 ns, 760 MB/s in them: 684 bytes a window.
    fn spec() -> RefreshWindowSpec {
        RefreshWindowSpec {
            interval: ns(7_800),
            window: ns(900),
            bandwidth: "760MB/s".parse().unwrap(),
            latency: ns(0),
        }
    }

    /// Where windows leave no gaps, it is a link like others.
    #[test]
    fn the_links_laws_hold_where_it_is_always_open() {
        for latency in [0, 50] {
            let spec = RefreshWindowSpec { window: ns(7_800), latency: ns(latency), ..spec() };
            link_laws(760_000_000, || RefreshWindowLink::new(&spec));
        }
    }

    #[test]
    fn a_page_takes_as_many_windows_as_its_bytes_need() {
        let mut link = RefreshWindowLink::new(&spec());
        let page = Message::new(Kind::Answer, 4096);
        // Five whole windows hold 3,420 bytes; the other 676 take 889.474 ns of the sixth.
        let (start_ps, end_ps) = link.transfer(0, page, Direction::Up);
        assert_eq!((start_ps, end_ps), (0, 5 * 7_800_000 + 6_900_000 + 889_474));
        // What comes next has what is left of that window, and then five more.
        let (_, next_ps) = link.transfer(end_ps, page, Direction::Down);
        assert!(next_ps > end_ps + 5 * 7_800_000 && next_ps < end_ps + 6 * 7_800_000);
        // A command, or its end, is a line of the module's DRAM, which the device sees in a window.
        for kind in [Kind::Request, Kind::Done] {
            let mut link = RefreshWindowLink::new(&spec());
            let (_, end_ps) = link.transfer(0, Message::new(kind, 4096), Direction::Down);
            assert_eq!(end_ps, 6_900_000 + 84_211);
        }
    }

    proptest! {
        /// Picosecond by picosecond: a byte a picosecond, in windows alone.
        #[test]
        fn bytes_move_in_windows_alone(
            interval in 1..40u64,
            share in 0..100u64,
            script in proptest::collection::vec((0..120u64, 0..60u64), 1..30),
        ) {
            let window = (interval * share / 100).max(1);
            let mut link = RefreshWindowLink {
                lane: Lane::new(1_000_000_000_000),
                interval_ps: interval,
                window_ps: window,
                latency_ps: 0,
            };
            let (mut now_ps, mut free_ps) = (0u64, 0u64);
            for (gap_ps, bytes) in script {
                now_ps += gap_ps;
                let (_, end_ps) = link.transfer(now_ps, Message::new(Kind::Data, bytes), Direction::Down);
                let (mut time_ps, mut left) = (now_ps.max(free_ps), bytes);
                while left > 0 {
                    left -= u64::from(time_ps % interval >= interval - window);
                    time_ps += 1;
                }
                if bytes > 0 {
                    prop_assert_eq!(end_ps, time_ps);
                    free_ps = time_ps;
                }
            }
        }
    }

    #[test]
    fn every_parameter_changes_an_output_in_its_direction() {
        let end_ps = |change: &dyn Fn(&mut RefreshWindowSpec)| {
            let mut spec = spec();
            change(&mut spec);
            let mut link = RefreshWindowLink::new(&spec);
            link.transfer(0, Message::new(Kind::Data, 4096), Direction::Down).1
        };
        let was_ps = end_ps(&|_| ());
        assert!(end_ps(&|s| s.interval = ns(3_900)) < was_ps);
        assert!(end_ps(&|s| s.window = ns(400)) > was_ps);
        assert!(end_ps(&|s| s.bandwidth = "100MB/s".parse().unwrap()) > was_ps);
        assert!(end_ps(&|s| s.latency = ns(50)) == was_ps + 50_000);
    }
}
