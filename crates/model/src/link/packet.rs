//! A packet link: PCIe and its like, with the bandwidth, the packets and the latency as numbers.

use super::{
    AnyLink, Direction, Duplex, Link, LinkDescription, LinkEnergySpec, Message, check_bandwidth,
};
use serde::{Deserialize, Serialize};
use tierscope_units::{Bandwidth, Duration, Problems, Size};

/// A link: bandwidth is a resource in time, each direction its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Bandwidth of each direction, encoding already taken off.
    pub bandwidth: Bandwidth,
    /// Bytes of payload in each packet at most.
    pub payload: Size,
    /// Bytes that each packet adds.
    pub packet_overhead: Size,
    /// Time from one end to the other (root complex, switches), added to each transfer.
    pub latency: Duration,
    /// What it takes; not counted, where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<LinkEnergySpec>,
}

/// What a packet adds at most: as much as the largest payload of PCI Express. Its own packets add
/// 20 to 30 bytes, those of Ethernet with TCP/IP 78.
const MOST_OVERHEAD: Size = Size::from_bytes(4096);

impl LinkDescription for LinkSpec {
    fn check(&self, path: &str, problems: &mut Problems) {
        check_bandwidth(&format!("{path}.bandwidth"), self.bandwidth, problems);
        problems.at_least(path, "payload", self.payload, Size::from_bytes(1));
        problems.at_most(path, "packet_overhead", self.packet_overhead, MOST_OVERHEAD);
    }

    fn build(&self) -> AnyLink {
        PacketLink::new(self).into()
    }

    fn energy(&self) -> Option<&LinkEnergySpec> {
        self.energy.as_ref()
    }
}

/// A full-duplex link: each direction a bandwidth of its own. Bytes travel in packets of at most
/// the payload, each with its overhead; a message without payload is one packet of overhead only,
/// such as a request. Overheads by protocol are in `docs/models/link.md`.
#[derive(Clone, Debug)]
pub struct PacketLink {
    duplex: Duplex,
    payload_bytes: u64,
    overhead_bytes: u64,
}

impl PacketLink {
    /// A link with nothing on it. The description has been checked.
    pub fn new(spec: &LinkSpec) -> Self {
        PacketLink {
            duplex: Duplex::new(spec.bandwidth.bytes_per_second(), spec.latency.picoseconds()),
            payload_bytes: spec.payload.bytes(),
            overhead_bytes: spec.packet_overhead.bytes(),
        }
    }
}

impl Link for PacketLink {
    #[inline]
    fn transfer(&mut self, now_ps: u64, message: Message, direction: Direction) -> (u64, u64) {
        let wire_bytes = self.wire_bytes(message);
        self.duplex.transfer(now_ps, wire_bytes, direction)
    }

    #[inline]
    fn free_ps(&self, direction: Direction) -> u64 {
        self.duplex.free_ps(direction)
    }

    #[inline]
    fn wire_bytes(&self, message: Message) -> u64 {
        let bytes = message.payload_bytes();
        bytes + bytes.div_ceil(self.payload_bytes).max(1) * self.overhead_bytes
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::conformance::link_laws;
    use crate::link::Kind;

    fn data(bytes: u64) -> Message {
        Message::new(Kind::Data, bytes)
    }

    /// PCIe 3.0 x16 as \[HYB15\] has it (table 2): 16 GB/s, 90 % of it payload.
    pub fn spec() -> LinkSpec {
        LinkSpec {
            bandwidth: Bandwidth::from_bytes_per_second(16_000_000_000),
            payload: Size::from_bytes(256),
            packet_overhead: Size::from_bytes(24),
            latency: Duration::from_picoseconds(100_000),
            energy: None,
        }
    }

    #[test]
    fn the_links_laws_hold() {
        for (bytes_per_second, payload, overhead) in [
            (16_000_000_000, 256, 24),
            (3_938_461_538, 4096, 7),
            (333_333_333, 1, 0),
            (1_000_003, 64, 9),
        ] {
            let spec = pcie(bytes_per_second, payload, overhead, 100_001);
            link_laws(bytes_per_second, || PacketLink::new(&spec));
        }
    }

    #[test]
    fn a_transfer_takes_its_packets_and_the_latency() {
        let mut link = PacketLink::new(&spec());
        // 16 packets of 280 B at 62.5 ps a byte.
        assert_eq!(link.transfer(5, data(4096), Direction::Down), (5, 5 + 280_000 + 100_000));
        assert_eq!(
            link.transfer(5, Message::new(Kind::Request, 4096), Direction::Up),
            (5, 5 + 1_500 + 100_000)
        );
        assert_eq!(link.wire_bytes(data(257)), 257 + 48);
    }

    #[test]
    fn directions_do_not_wait_for_each_other() {
        let mut link = PacketLink::new(&spec());
        link.transfer(0, data(1 << 20), Direction::Down);
        assert_eq!(link.transfer(0, data(64), Direction::Up).0, 0);
        assert!(link.transfer(0, data(64), Direction::Down).0 > 0);
    }

    #[test]
    fn bandwidth_is_the_payloads_share_of_the_wire() {
        let mut link = PacketLink::new(&spec());
        let count = 100_000;
        for _ in 0..count {
            link.transfer(0, data(4096), Direction::Up);
        }
        let bytes_per_second = (count * 4096) as f64 / link.free_ps(Direction::Up) as f64 * 1e12;
        assert!((bytes_per_second / (16e9 * 256.0 / 280.0) - 1.0).abs() < 1e-9);
    }

    fn pcie(bytes_per_second: u64, payload: u64, overhead: u64, latency_ps: u64) -> LinkSpec {
        LinkSpec {
            bandwidth: Bandwidth::from_bytes_per_second(bytes_per_second),
            payload: Size::from_bytes(payload),
            packet_overhead: Size::from_bytes(overhead),
            latency: Duration::from_picoseconds(latency_ps),
            energy: None,
        }
    }

    /// `value` lies so many percent of `published` from it, to a tenth.
    fn assert_off(value: f64, published: f64, percent: f64) {
        let off = (value / published - 1.0) * 100.0;
        assert!((off - percent).abs() < 0.05, "{value} against {published}: {off:.2} %");
    }

    #[test]
    fn the_distance_to_published_figures_is_what_the_documentation_says() {
        // SimpleSSD's PCIe 3.0 x4: packets of 4096 B with 36 B, 115 symbols of 1 ns of delay.
        let ns = |bytes| {
            let spec = pcie(4_000_000_000 * 128 / 130, 4096, 36, 115_000);
            PacketLink::new(&spec).transfer(0, data(bytes), Direction::Up).1 as f64 / 1e3
        };
        assert_off(ns(64), 143.0, -1.82);
        assert_off(ns(4096), 1167.0, -0.25);
        assert_off(ns(131_072), 37_300.0, -9.68);
        // PCIe 1.1 x8 at 128 B with 24 B, against HASTE's 1.7 GB/s written ([NVM10]).
        let mut link = PacketLink::new(&pcie(2_000_000_000, 128, 24, 0));
        let (_, end_ps) = link.transfer(0, data(1 << 30), Direction::Down);
        assert_off((1u64 << 30) as f64 / end_ps as f64 * 1e3, 1.7, -0.93);
    }

    #[test]
    fn every_parameter_changes_an_output_in_its_direction() {
        let end_ps = |change: &dyn Fn(&mut LinkSpec)| {
            let mut spec = spec();
            change(&mut spec);
            PacketLink::new(&spec).transfer(0, data(4096), Direction::Up).1
        };
        let was_ps = end_ps(&|_| ());
        let half = Bandwidth::from_bytes_per_second(8_000_000_000);
        assert!(end_ps(&|s| s.bandwidth = half) > was_ps);
        assert!(end_ps(&|s| s.payload = Size::from_bytes(128)) > was_ps);
        assert!(end_ps(&|s| s.packet_overhead = Size::from_bytes(28)) > was_ps);
        assert!(end_ps(&|s| s.latency = Duration::from_picoseconds(100_001)) > was_ps);
    }
}
