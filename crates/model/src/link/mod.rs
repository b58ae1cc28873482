//! Links: what carries data.

mod lane;

use crate::device::LinkSpec;
pub use lane::Lane;

/// A direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From host to device.
    Down,
    /// From device to host.
    Up,
}

/// A full-duplex link: each direction a bandwidth of its own. Bytes travel in packets of at most
/// the payload, each with its overhead; a transfer without payload is one packet of overhead only,
/// such as a command. Overheads by protocol are in `docs/models/link.md`.
#[derive(Clone, Debug)]
pub struct Link {
    lanes: [Lane; 2],
    payload_bytes: u64,
    overhead_bytes: u64,
    latency_ps: u64,
}

impl Link {
    /// A link with nothing on it. The description has been checked ([`LinkSpec::check`]).
    pub fn new(spec: &LinkSpec) -> Self {
        let lane = Lane::new(spec.bandwidth.bytes_per_second());
        Link {
            lanes: [lane.clone(), lane],
            payload_bytes: spec.payload.bytes(),
            overhead_bytes: spec.packet_overhead.bytes(),
            latency_ps: spec.latency.picoseconds(),
        }
    }

    /// Bytes that the link moves for `bytes` of payload.
    #[inline]
    pub fn wire_bytes(&self, bytes: u64) -> u64 {
        bytes + bytes.div_ceil(self.payload_bytes).max(1) * self.overhead_bytes
    }

    /// Sends `bytes` of payload once the direction is free. When the first byte leaves, and when
    /// the last has come to the other end, in picoseconds.
    #[inline]
    pub fn transfer(&mut self, now_ps: u64, bytes: u64, direction: Direction) -> (u64, u64) {
        let wire_bytes = self.wire_bytes(bytes);
        let (start_ps, end_ps) = self.lanes[direction as usize].transfer(now_ps, wire_bytes);
        (start_ps, end_ps + self.latency_ps)
    }

    /// From when on the direction has nothing left to send.
    #[inline]
    pub fn free_ps(&self, direction: Direction) -> u64 {
        self.lanes[direction as usize].free_ps()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tierscope_units::{Bandwidth, Duration, Size};

    /// PCIe 3.0 x16 as [HYB15] has it (HYB-011): 16 GB/s, 90 % of it payload.
    pub fn spec() -> LinkSpec {
        LinkSpec {
            bandwidth: Bandwidth::from_bytes_per_second(16_000_000_000),
            payload: Size::from_bytes(256),
            packet_overhead: Size::from_bytes(24),
            latency: Duration::from_picoseconds(100_000),
        }
    }

    #[test]
    fn a_transfer_takes_its_packets_and_the_latency() {
        let mut link = Link::new(&spec());
        // 16 packets of 280 B at 62.5 ps a byte.
        assert_eq!(link.transfer(5, 4096, Direction::Down), (5, 5 + 280_000 + 100_000));
        assert_eq!(link.transfer(5, 0, Direction::Up), (5, 5 + 1_500 + 100_000), "a command");
        assert_eq!(link.wire_bytes(257), 257 + 48);
    }

    #[test]
    fn directions_do_not_wait_for_each_other() {
        let mut link = Link::new(&spec());
        link.transfer(0, 1 << 20, Direction::Down);
        assert_eq!(link.transfer(0, 64, Direction::Up).0, 0);
        assert!(link.transfer(0, 64, Direction::Down).0 > 0);
    }

    #[test]
    fn bandwidth_is_the_payloads_share_of_the_wire() {
        let mut link = Link::new(&spec());
        let count = 100_000;
        for _ in 0..count {
            link.transfer(0, 4096, Direction::Up);
        }
        let bytes_per_second = (count * 4096) as f64 / link.free_ps(Direction::Up) as f64 * 1e12;
        assert!((bytes_per_second / (16e9 * 256.0 / 280.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn every_parameter_changes_an_output_in_its_direction() {
        let end_ps = |change: &dyn Fn(&mut LinkSpec)| {
            let mut spec = spec();
            change(&mut spec);
            Link::new(&spec).transfer(0, 4096, Direction::Up).1
        };
        let was_ps = end_ps(&|_| ());
        let half = Bandwidth::from_bytes_per_second(8_000_000_000);
        assert!(end_ps(&|s| s.bandwidth = half) > was_ps);
        assert!(end_ps(&|s| s.payload = Size::from_bytes(128)) > was_ps);
        assert!(end_ps(&|s| s.packet_overhead = Size::from_bytes(28)) > was_ps);
        assert!(end_ps(&|s| s.latency = Duration::from_picoseconds(100_001)) > was_ps);
    }
}
