//! CXL.mem: memory of a device, read and written line by line.
//!
//! Sources: Compute Express Link Specification, revision 2.0: flits of 68 bytes and their slots (CXL
//! link layers), messages of CXL.mem (M2S Req and RwD, S2M NDR and DRS); the physical layer is that
//! of PCI Express 5.0. What the link costs beyond its bandwidth: SkyByte (HPCA 2025) has 40 ns for
//! the protocol; H. Al Maruf et al., "TPP", ASPLOS 2023: 50 to 100 ns above local memory.

use super::{
    AnyLink, Direction, Duplex, Flow, Kind, Leg, Link, LinkDescription, LinkEnergySpec, Message,
};
use serde::{Deserialize, Serialize};
use tierscope_units::{Duration, Problems};

/// CXL.mem on PCI Express: two directions, each of its own, in flits of 68 bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CxlMemSpec {
    /// Generation of PCI Express below: 3, 4 or 5, for 8, 16 or 32 GT/s a lane.
    pub generation: u32,
    /// Lanes: 1, 2, 4, 8 or 16.
    pub lanes: u32,
    /// Time from one end to the other, through the ports of both, added to each message.
    pub latency: Duration,
    /// What it takes; not counted, where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<LinkEnergySpec>,
}

/// Bytes of a line, which a message reads or writes.
const LINE_BYTES: u64 = 64;
/// A flit of 68 bytes has four slots of 16, and two bytes of protocol and two of CRC: 17 a slot.
const SLOT_BYTES: u64 = 17;
/// Slots of the data of a line.
const DATA_SLOTS: u64 = 4;
/// Answers without data that share a slot.
const ANSWERS_OF_SLOT: u64 = 2;

impl CxlMemSpec {
    /// What each direction has for flits, in bytes a second, rounded down: 128b/130b has been taken
    /// off.
    pub fn flit_bytes_per_second(&self) -> u64 {
        let bytes_per_second = (1_000_000_000 * u64::from(self.lanes)) << (self.generation - 3);
        bytes_per_second * 128 / 130
    }
}

impl LinkDescription for CxlMemSpec {
    fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "generation", self.generation, 3);
        problems.at_most(path, "generation", self.generation, 5);
        super::check_lanes(path, self.lanes, problems);
    }

    fn build(&self) -> AnyLink {
        CxlMemLink::new(self).into()
    }

    fn energy(&self) -> Option<&LinkEnergySpec> {
        self.energy.as_ref()
    }
}

/// CXL.mem: each direction a bandwidth of its own, of slots.
#[derive(Clone, Debug)]
pub struct CxlMemLink {
    duplex: Duplex,
}

impl CxlMemLink {
    /// A link with nothing on it. The description has been checked.
    pub fn new(spec: &CxlMemSpec) -> Self {
        CxlMemLink { duplex: Duplex::new(spec.flit_bytes_per_second(), spec.latency.picoseconds()) }
    }
}

impl Link for CxlMemLink {
    #[inline]
    fn transfer(&mut self, now_ps: u64, message: Message, direction: Direction) -> (u64, u64) {
        let wire_bytes = self.wire_bytes(message);
        self.duplex.transfer(now_ps, wire_bytes, direction)
    }

    #[inline]
    fn free_ps(&self, direction: Direction) -> u64 {
        self.duplex.free_ps(direction)
    }

    /// Slots are packed without gaps: a request takes one (M2S Req), data a header and four (S2M
    /// DRS, M2S RwD), two answers without data one (S2M NDR).
    fn wire_bytes(&self, message: Message) -> u64 {
        let lines = message.bytes.div_ceil(LINE_BYTES).max(1);
        let slots = match message.kind {
            Kind::Request => lines,
            Kind::Answer | Kind::Data | Kind::Control => lines * (1 + DATA_SLOTS),
            Kind::Done => lines.div_ceil(ANSWERS_OF_SLOT),
        };
        slots * SLOT_BYTES
    }

    /// Each line is read by a request and its data, or written with its data and answered.
    fn flow(&self, write: bool) -> Flow {
        let done = if write { vec![Leg::up(Kind::Done, None)] } else { Vec::new() };
        Flow { done, ..Flow::plain(write) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::conformance::link_laws;

    /// On PCI Express 5.0 ×8; SkyByte's time.
    pub fn spec() -> CxlMemSpec {
        CxlMemSpec {
            generation: 5,
            lanes: 8,
            latency: Duration::from_picoseconds(20_000),
            energy: None,
        }
    }

    #[test]
    fn the_links_laws_hold() {
        for (generation, lanes) in [(5, 8), (3, 1), (4, 16)] {
            let spec = CxlMemSpec { generation, lanes, ..spec() };
            link_laws(spec.flit_bytes_per_second(), || CxlMemLink::new(&spec));
        }
    }

    #[test]
    fn a_line_takes_five_slots_of_seventeen_bytes() {
        let link = CxlMemLink::new(&spec());
        for (kind, bytes, slots) in [
            (Kind::Request, 64, 1),
            (Kind::Request, 4096, 64),
            (Kind::Answer, 64, 5),
            (Kind::Data, 4096, 320),
            (Kind::Done, 64, 1),
            (Kind::Done, 4096, 32),
        ] {
            let message = Message::new(kind, bytes);
            assert_eq!(link.wire_bytes(message), slots * 17, "{message:?}");
        }
    }

    #[test]
    fn bandwidth_is_64_of_85_bytes_of_what_encoding_leaves() {
        let mut link = CxlMemLink::new(&spec());
        for _ in 0..50_000 {
            link.transfer(0, Message::new(Kind::Answer, 4096), Direction::Up);
        }
        let found = 50_000.0 * 4096.0 / link.free_ps(Direction::Up) as f64 * 1e12;
        let expected = 32e9 * 128.0 / 130.0 * 64.0 / 85.0;
        assert!((found / expected - 1.0).abs() < 1e-6, "{found}");
        assert!((expected / 1e9 - 23.72).abs() < 0.01);
    }

    #[test]
    fn writes_are_answered_and_reads_are_not_twice() {
        let link = CxlMemLink::new(&spec());
        assert_eq!(link.flow(true).done, [Leg::up(Kind::Done, None)]);
        assert_eq!(link.flow(false), Flow::plain(false));
    }

    #[test]
    fn wrong_descriptions_are_refused() {
        let mut problems = Problems::new();
        CxlMemSpec { generation: 6, lanes: 12, ..spec() }.check("cxl_mem", &mut problems);
        let told: Vec<_> = problems.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(told, ["cxl_mem.generation", "cxl_mem.lanes"]);
    }
}
