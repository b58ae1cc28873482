//! Serial ATA with native command queueing, behind a host adapter (AHCI).
//!
//! Sources: Serial ATA Revision 3.0, Serial ATA International Organization: encoding and primitives
//! (link layer), frame information structures (transport layer), first-party DMA (native command
//! queueing); Serial ATA AHCI 1.3.1, Intel, for what the adapter fetches.

use super::{
    AnyLink, Direction, Flow, Kind, Lane, Leg, Link, LinkDescription, LinkEnergySpec, Message,
};
use serde::{Deserialize, Serialize};
use tierscope_units::{Duration, Problems};

/// Serial ATA: one frame at a time, in either direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SataSpec {
    /// Generation: 1, 2 or 3, for 1.5, 3 or 6 Gbit/s.
    pub generation: u32,
    /// Time of the host adapter for each command: its register is written, and it fetches command
    /// header, command table and the list of where the data lie.
    pub adapter_latency: Duration,
    /// Time that each frame takes the link beyond its own bytes: both ends agree before it
    /// (X_RDY, R_RDY), and the receiver answers after it (WTRM, R_OK).
    pub handshake: Duration,
    /// Time from one end to the other, added to each frame.
    pub latency: Duration,
    /// What it takes; not counted, where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<LinkEnergySpec>,
}

/// What a frame has around its content: SOF, CRC and EOF, a double word each.
const FRAME_BYTES: u64 = 12;
/// Bytes of data that a frame carries at most: 2048 double words.
const DATA_BYTES: u64 = 8192;
/// What precedes data in a frame: the first double word of a Data FIS.
const DATA_HEADER_BYTES: u64 = 4;
/// Register FIS, host to device: a command; device to host: it has been taken.
const REGISTER_BYTES: u64 = 20;
/// DMA Setup FIS: the device begins to move the data of a command.
const DMA_SETUP_BYTES: u64 = 28;
/// Set Device Bits FIS: commands have been done.
const SET_DEVICE_BITS_BYTES: u64 = 8;

impl SataSpec {
    /// What the link has for frames, in bytes a second, rounded down: 8b/10b, and two ALIGN of each
    /// 256 double words, have been taken off.
    pub fn frame_bytes_per_second(&self) -> u64 {
        let bytes_per_second = 150_000_000 << (self.generation - 1);
        bytes_per_second * 254 / 256
    }
}

impl LinkDescription for SataSpec {
    fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "generation", self.generation, 1);
        problems.at_most(path, "generation", self.generation, 3);
        let longest = Duration::from_picoseconds(1_000_000_000);
        problems.at_most(path, "handshake", self.handshake, longest);
    }

    fn build(&self) -> AnyLink {
        SataLink::new(self).into()
    }

    fn energy(&self) -> Option<&LinkEnergySpec> {
        self.energy.as_ref()
    }
}

/// Serial ATA: a frame takes the link in both directions, as its receiver answers meanwhile.
#[derive(Clone, Debug)]
pub struct SataLink {
    lane: Lane,
    /// What the hand-shake of a frame takes, as bytes.
    handshake_bytes: u64,
    adapter_ps: u64,
    latency_ps: u64,
}

impl SataLink {
    /// A link with nothing on it. The description has been checked.
    pub fn new(spec: &SataSpec) -> Self {
        let rate = spec.frame_bytes_per_second();
        let handshake = u128::from(spec.handshake.picoseconds()) * u128::from(rate);
        SataLink {
            lane: Lane::new(rate),
            handshake_bytes: handshake.div_ceil(1_000_000_000_000) as u64,
            adapter_ps: spec.adapter_latency.picoseconds(),
            latency_ps: spec.latency.picoseconds(),
        }
    }
}

impl Link for SataLink {
    #[inline]
    fn transfer(&mut self, now_ps: u64, message: Message, _: Direction) -> (u64, u64) {
        let (start_ps, end_ps) = self.lane.transfer(now_ps, self.wire_bytes(message));
        (start_ps, end_ps + self.latency_ps)
    }

    #[inline]
    fn free_ps(&self, _: Direction) -> u64 {
        self.lane.free_ps()
    }

    fn wire_bytes(&self, message: Message) -> u64 {
        frames(message, FRAME_BYTES + self.handshake_bytes)
    }

    /// All but the time of the hand-shake.
    fn moved_bytes(&self, message: Message) -> u64 {
        frames(message, FRAME_BYTES)
    }

    /// A command queued natively: it is sent and taken; the device sets up the transfer of each page,
    /// which is activated with that; a Set Device Bits FIS says that all has been done, and
    /// interrupts.
    fn flow(&self, write: bool) -> Flow {
        let setup = Leg::up(Kind::Control, Some(DMA_SETUP_BYTES));
        let data = if write { Leg::down(Kind::Data, None) } else { Leg::up(Kind::Answer, None) };
        Flow {
            command: vec![
                Leg::down(Kind::Request, None).after(self.adapter_ps),
                Leg::up(Kind::Control, Some(REGISTER_BYTES)),
            ],
            data: vec![setup, data],
            done: vec![Leg::up(Kind::Done, None)],
            after: Vec::new(),
        }
    }

    fn is_duplex(&self) -> bool {
        false
    }
}

/// Bytes of the frames of a message, each of which has so many around its content.
fn frames(message: Message, around_bytes: u64) -> u64 {
    match message.kind {
        Kind::Request => REGISTER_BYTES + around_bytes,
        Kind::Done => SET_DEVICE_BITS_BYTES + around_bytes,
        Kind::Control => message.bytes + around_bytes,
        Kind::Answer | Kind::Data => {
            let frames = message.bytes.div_ceil(DATA_BYTES).max(1);
            message.bytes + frames * (DATA_HEADER_BYTES + around_bytes)
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::conformance::link_laws;

    /// SATA of 6 Gbit/s. Times are assumptions: see `docs/models/link.md`.
    pub fn spec() -> SataSpec {
        SataSpec {
            generation: 3,
            adapter_latency: Duration::from_picoseconds(1_000_000),
            handshake: Duration::from_picoseconds(200_000),
            latency: Duration::from_picoseconds(50_000),
            energy: None,
        }
    }

    #[test]
    fn the_links_laws_hold() {
        for generation in [1, 2, 3] {
            let spec = SataSpec { generation, ..spec() };
            link_laws(spec.frame_bytes_per_second(), || SataLink::new(&spec));
        }
    }

    #[test]
    fn bandwidth_is_the_datas_share_of_frames_and_hand_shakes() {
        let instant = SataSpec { handshake: Duration::from_picoseconds(0), ..spec() };
        for (spec, handshake_ps) in [(instant, 0.0), (spec(), 200_000.0)] {
            for generation in [2, 3] {
                let spec = SataSpec { generation, ..spec.clone() };
                let mut link = SataLink::new(&spec);
                for _ in 0..20_000 {
                    link.transfer(0, Message::new(Kind::Answer, 8192), Direction::Up);
                }
                let found = 20_000.0 * 8192.0 / link.free_ps(Direction::Up) as f64 * 1e12;
                let rate = [300e6, 600e6][generation as usize - 2] * 254.0 / 256.0;
                let frame_s = (8192.0 + 16.0) / rate + handshake_ps * 1e-12;
                let share = found * frame_s / 8192.0;
                // A hand-shake is a whole number of bytes, rounded up.
                assert!((share - 1.0).abs() < 2e-4, "{found} B/s, generation {generation}");
            }
        }
    }

    #[test]
    fn both_directions_are_one() {
        let mut link = SataLink::new(&spec());
        link.transfer(0, Message::new(Kind::Data, 8192), Direction::Down);
        let free_ps = link.free_ps(Direction::Up);
        assert!(free_ps > 13_000_000, "{free_ps}");
        assert_eq!(link.transfer(0, Message::new(Kind::Done, 0), Direction::Up).0, free_ps);
    }

    #[test]
    fn what_a_command_sends_is_counted_frame_by_frame() {
        let instant = SataSpec { handshake: Duration::from_picoseconds(0), ..spec() };
        let link = SataLink::new(&instant);
        for write in [false, true] {
            let flow = link.flow(write);
            let all = [flow.command, flow.data, flow.done, flow.after].concat();
            let bytes: u64 = all.iter().map(|leg| link.wire_bytes(leg.message(4096))).sum();
            // Command, taken, set up, data, done: five frames.
            assert_eq!(bytes, 20 + 20 + 28 + (4 + 4096) + 8 + 5 * 12);
        }
        assert_eq!(link.wire_bytes(Message::new(Kind::Data, 8193)), 8193 + 2 * 16);
    }

    #[test]
    fn there_are_three_generations() {
        let mut problems = Problems::new();
        SataSpec { generation: 4, ..spec() }.check("sata", &mut problems);
        let told: Vec<_> = problems.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(told, ["sata.generation"]);
    }
}
