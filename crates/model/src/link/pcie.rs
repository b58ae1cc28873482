//! PCI Express by generation, width, payload and packets.
//!
//! Sources: PCI Express Base Specification, revision 5.0 (packets, framing, the recommended limits of
//! acknowledgements and of credit updates) and 6.0 (flits); R. Neugebauer et al., "Understanding
//! PCIe performance for end host networking", SIGCOMM 2018, and its model, pcie-bench/pcie-model at
//! 1fe7cde, which quotes the tables of limits; NVM Express Base Specification (sizes of entries).

use super::{
    AnyLink, Direction, Duplex, Flow, Kind, Leg, Link, LinkDescription, LinkEnergySpec, Message,
    NvmeSpec, nvme,
};
use serde::{Deserialize, Serialize};
use tierscope_units::{Duration, Problems, Size};

/// What drives a device behind PCI Express.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PcieProtocol {
    /// NVM Express: a doorbell; the device fetches the command and moves the data by itself, writes
    /// a completion entry, and interrupts.
    Nvme,
    /// Reads and writes of the device's memory: a request and its completions, or posted writes.
    Memory,
    /// Registers: the driver writes a request into them; the device moves the data by itself and
    /// interrupts; the driver reads from a register which request is done (HASTE, \[NVM10\] §III-A).
    Registers,
}

/// PCI Express: two directions, each of its own, of so many lanes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PcieSpec {
    /// Generation: 1 to 6, for 2.5, 5, 8, 16, 32 or 64 GT/s a lane.
    pub generation: u32,
    /// Lanes: 1, 2, 4, 8 or 16.
    pub lanes: u32,
    /// Bytes that a write carries at most: a power of two from 128B to 4KiB.
    pub max_payload: Size,
    /// Bytes that a read asks for at most: a power of two from 128B to 4KiB.
    pub max_read_request: Size,
    /// Bytes of each completion of a read: a multiple of 64B, up to the payload. Root complexes that
    /// answer line by line send 64B (the read completion boundary).
    pub read_completion: Size,
    /// What drives the device.
    pub protocol: PcieProtocol,
    /// Time from one end to the other, added to each message.
    pub latency: Duration,
    /// Time of the root complex: until it answers a read of the device from memory, or sends on a
    /// read of the host.
    pub root_complex_latency: Duration,
    /// Queues of NVM Express, their arbitration and interrupts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvme: Option<NvmeSpec>,
    /// What it takes; not counted, where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<LinkEnergySpec>,
}

/// What a packet has around header and payload: framing and sequence number 4 bytes, LCRC 4.
const FRAMING_BYTES: u64 = 8;
/// Header of a read or a write with a 64-bit address: four double words.
const REQUEST_HEADER_BYTES: u64 = 16;
/// Header of a completion: three double words.
const COMPLETION_HEADER_BYTES: u64 = 12;
/// A data-link packet (Ack, UpdateFC) with its framing.
const DLLP_BYTES: u64 = 8;
/// What the recommended limits count for each packet beside its payload, in symbol times.
const LIMIT_OVERHEAD: u64 = 28;
/// Of a flit of 256 bytes those of packets: the rest is 6 of data link, 8 of CRC, 6 of ECC.
const FLIT_SHARE: (u64, u64) = (236, 256);

impl PcieSpec {
    fn has_flits(&self) -> bool {
        self.generation >= 6
    }

    /// Bytes in a second of all lanes, and the share of them that is left by encoding.
    fn line_rate(&self) -> (u64, (u64, u64)) {
        let mega_transfers = match self.generation {
            1 => 2_500,
            2 => 5_000,
            later => 8_000 << (later - 3),
        };
        let bytes_per_second = mega_transfers * 1_000_000 * u64::from(self.lanes) / 8;
        let encoding = match self.generation {
            1 | 2 => (8, 10),
            3..=5 => (128, 130),
            _ => FLIT_SHARE,
        };
        (bytes_per_second, encoding)
    }

    /// Bytes in which a direction carries one Ack and one UpdateFC: the recommended limit, AckFactor
    /// × (payload + overhead) / lanes + internal delay, in symbol times, each a byte on each lane.
    fn acknowledged_bytes(&self) -> u64 {
        let (payload, lanes) = (self.max_payload.bytes(), u64::from(self.lanes));
        let factor_tenths = match (payload <= 256, lanes) {
            (true, ..=4) => 14,
            (true, 5..=8) => 25,
            (true, _) => 30,
            (false, ..=8) => 10,
            (false, _) => 20,
        };
        let delay = match self.generation {
            1 => 19,
            2 => 70,
            _ => 115,
        };
        ((payload + LIMIT_OVERHEAD) * factor_tenths / (10 * lanes) + delay) * lanes
    }

    /// Share of the bytes that is left by skip ordered sets: four symbols of 1538 at most (8b/10b), a
    /// block of 375 (128b/130b).
    fn skips(&self) -> (u64, u64) {
        if self.generation <= 2 { (1_538 - 4, 1_538) } else { (374, 375) }
    }

    /// What each direction has for packets, in bytes a second, rounded down: encoding, acknowledgements
    /// and credits, and skip ordered sets have been taken off. Those two are in the flits of
    /// generation 6.
    pub fn packet_bytes_per_second(&self) -> u64 {
        let (bytes_per_second, encoding) = self.line_rate();
        let mut shares = vec![encoding];
        if !self.has_flits() {
            let period = self.acknowledged_bytes();
            shares.extend([(period - 2 * DLLP_BYTES, period), self.skips()]);
        }
        let left = |rate: u128, (of, all): &(u64, u64)| rate * u128::from(*of) / u128::from(*all);
        // Multiplied up, so that only the last digit is rounded.
        let scaled = u128::from(bytes_per_second) << 32;
        (shares.iter().fold(scaled, left) >> 32) as u64
    }
}

impl LinkDescription for PcieSpec {
    fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "generation", self.generation, 1);
        problems.at_most(path, "generation", self.generation, 6);
        super::check_lanes(path, self.lanes, problems);
        for (name, size) in
            [("max_payload", self.max_payload), ("max_read_request", self.max_read_request)]
        {
            if !size.bytes().is_power_of_two() || !(128..=4096).contains(&size.bytes()) {
                problems.add(
                    "impossible-value",
                    format!("{path}.{name}"),
                    size.to_string(),
                    "PCI Express has powers of two from 128B to 4KiB".into(),
                    "write 256B".into(),
                );
            }
        }
        let completion = self.read_completion.bytes();
        if completion == 0 || !completion.is_multiple_of(64) {
            problems.add(
                "impossible-value",
                format!("{path}.read_completion"),
                self.read_completion.to_string(),
                "completions end at multiples of 64B (the read completion boundary)".into(),
                "write 64B".into(),
            );
        } else if completion > self.max_payload.bytes() && self.max_payload.bytes() >= 64 {
            problems.add(
                "contradiction",
                format!("{path}.read_completion"),
                self.read_completion.to_string(),
                format!("a packet carries {} at most ({path}.max_payload)", self.max_payload),
                format!("write {} or less", self.max_payload),
            );
        }
        if let Some(nvme) = &self.nvme {
            nvme.check(&format!("{path}.nvme"), problems);
            if self.protocol != PcieProtocol::Nvme {
                problems.add(
                    "contradiction",
                    format!("{path}.nvme"),
                    "a table".into(),
                    format!("the device has no queues ({path}.protocol = \"memory\")"),
                    format!("leave it out, or write {path}.protocol = \"nvme\""),
                );
            }
        }
    }

    fn build(&self) -> AnyLink {
        PcieLink::new(self).into()
    }

    fn energy(&self) -> Option<&LinkEnergySpec> {
        self.energy.as_ref()
    }

    fn is_nvme(&self) -> bool {
        self.protocol == PcieProtocol::Nvme
    }

    fn queues(&self) -> Option<nvme::NvmeQueues> {
        let root_complex_ps = self.root_complex_latency.picoseconds();
        self.nvme.clone().map(|spec| nvme::NvmeQueues::new(spec, root_complex_ps))
    }
}

/// PCI Express: each direction a bandwidth of its own, for packets as the transaction layer makes
/// them.
#[derive(Clone, Debug)]
pub struct PcieLink {
    duplex: Duplex,
    payload_bytes: u64,
    read_request_bytes: u64,
    completion_bytes: u64,
    framing_bytes: u64,
    protocol: PcieProtocol,
    root_complex_ps: u64,
}

impl PcieLink {
    /// A link with nothing on it. The description has been checked.
    pub fn new(spec: &PcieSpec) -> Self {
        PcieLink {
            duplex: Duplex::new(spec.packet_bytes_per_second(), spec.latency.picoseconds()),
            payload_bytes: spec.max_payload.bytes(),
            read_request_bytes: spec.max_read_request.bytes(),
            completion_bytes: spec.read_completion.bytes(),
            framing_bytes: if spec.has_flits() { 0 } else { FRAMING_BYTES },
            protocol: spec.protocol,
            root_complex_ps: spec.root_complex_latency.picoseconds(),
        }
    }

    /// What NVM Express sends: a doorbell of 4 bytes; the device's fetch of the submission entry, 64
    /// bytes; the data, which it writes to memory or reads from there; the completion entry, 16
    /// bytes; MSI-X, 4 bytes; and the host's doorbell for the completion queue.
    fn nvme(&self, write: bool) -> Flow {
        let answered = |bytes| Leg::down(Kind::Answer, bytes).after(self.root_complex_ps);
        let doorbell = Leg::down(Kind::Control, Some(4));
        let data = if write {
            vec![Leg::up(Kind::Request, None), answered(None)]
        } else {
            vec![Leg::up(Kind::Data, None).posted()]
        };
        Flow {
            command: vec![doorbell, Leg::up(Kind::Request, Some(64)), answered(Some(64))],
            data,
            done: vec![Leg::up(Kind::Control, Some(16)).posted(), Leg::up(Kind::Control, Some(4))],
            after: vec![doorbell],
        }
    }

    /// What a device with registers and DMA of its own sends: a request of two words of 64 bits, written by the
    /// driver; the data as under NVM Express; an interrupt of 4 bytes; and the driver's read of a status of 4 bytes.
    fn registers(&self, write: bool) -> Flow {
        Flow {
            command: vec![Leg::down(Kind::Control, Some(16))],
            data: self.nvme(write).data,
            done: vec![
                Leg::up(Kind::Control, Some(4)),
                Leg::down(Kind::Request, Some(4)).after(self.root_complex_ps),
                Leg::up(Kind::Answer, Some(4)),
            ],
            after: Vec::new(),
        }
    }

    /// Reads and writes of the host, which the root complex sends on.
    fn memory(&self, write: bool) -> Flow {
        let mut flow = Flow::plain(write);
        let first = if write { &mut flow.data[0] } else { &mut flow.command[0] };
        *first = first.after(self.root_complex_ps);
        flow
    }
}

impl Link for PcieLink {
    #[inline]
    fn transfer(&mut self, now_ps: u64, message: Message, direction: Direction) -> (u64, u64) {
        let wire_bytes = self.wire_bytes(message);
        self.duplex.transfer(now_ps, wire_bytes, direction)
    }

    #[inline]
    fn free_ps(&self, direction: Direction) -> u64 {
        self.duplex.free_ps(direction)
    }

    fn wire_bytes(&self, message: Message) -> u64 {
        let (part_bytes, header_bytes) = match message.kind {
            Kind::Request => (self.read_request_bytes, REQUEST_HEADER_BYTES),
            Kind::Data | Kind::Control => (self.payload_bytes, REQUEST_HEADER_BYTES),
            Kind::Answer => (self.completion_bytes, COMPLETION_HEADER_BYTES),
            Kind::Done => (u64::MAX, COMPLETION_HEADER_BYTES),
        };
        let packets = message.bytes.div_ceil(part_bytes).max(1);
        message.payload_bytes() + packets * (self.framing_bytes + header_bytes)
    }

    fn flow(&self, write: bool) -> Flow {
        match self.protocol {
            PcieProtocol::Nvme => self.nvme(write),
            PcieProtocol::Memory => self.memory(write),
            PcieProtocol::Registers => self.registers(write),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::conformance::link_laws;

    /// PCIe 3.0 ×4 with NVM Express. Latencies: 115 symbol times (SimpleSSD `util/interface.cc`); a
    /// DMA read of 64 B takes 547 ns there and back (Neugebauer et al., SIGCOMM 2018).
    pub fn spec() -> PcieSpec {
        PcieSpec {
            generation: 3,
            lanes: 4,
            max_payload: Size::from_bytes(256),
            max_read_request: Size::from_bytes(512),
            read_completion: Size::from_bytes(256),
            protocol: PcieProtocol::Nvme,
            latency: Duration::from_picoseconds(115_000),
            root_complex_latency: Duration::from_picoseconds(300_000),
            nvme: None,
            energy: None,
        }
    }

    #[test]
    fn the_links_laws_hold() {
        for (generation, lanes, payload, completion) in
            [(1, 1, 128, 64), (3, 4, 256, 256), (4, 8, 512, 64), (6, 16, 4096, 512)]
        {
            let spec = PcieSpec {
                generation,
                lanes,
                max_payload: Size::from_bytes(payload),
                read_completion: Size::from_bytes(completion),
                ..spec()
            };
            link_laws(spec.packet_bytes_per_second(), || PcieLink::new(&spec));
        }
    }

    /// Payload that a direction carries in messages of `kind` and `bytes`, in bytes a second.
    fn bandwidth(spec: &PcieSpec, kind: Kind, bytes: u64) -> f64 {
        let mut link = PcieLink::new(spec);
        let count = 20_000;
        for _ in 0..count {
            link.transfer(0, Message::new(kind, bytes), Direction::Up);
        }
        (count * bytes) as f64 / link.free_ps(Direction::Up) as f64 * 1e12
    }

    fn assert_close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-6, "{found}, and {expected} by the formula");
    }

    #[test]
    fn bandwidth_is_the_payloads_share_of_what_encoding_and_data_link_leave() {
        let written = |spec: &PcieSpec, period: f64, skips: f64| {
            let (rate, encoding) = spec.line_rate();
            let left = rate as f64 * encoding.0 as f64 / encoding.1 as f64;
            let payload = spec.max_payload.bytes() as f64;
            left * (1.0 - 16.0 / period) * skips * payload / (payload + 24.0)
        };
        let third = spec();
        let expected = written(&third, 214.0 * 4.0, 374.0 / 375.0);
        assert_close(bandwidth(&third, Kind::Data, 4096), expected);
        assert!((expected / 1e9 - 3.52).abs() < 0.01, "{expected}");
        // A completion has a double word less.
        assert_close(bandwidth(&third, Kind::Answer, 4096), expected * 280.0 / 276.0);
        let first = PcieSpec {
            generation: 1,
            lanes: 8,
            max_payload: Size::from_bytes(128),
            read_completion: Size::from_bytes(64),
            ..spec()
        };
        let expected = written(&first, 67.0 * 8.0, 1534.0 / 1538.0);
        assert_close(bandwidth(&first, Kind::Data, 4096), expected);
        // Completions of a line: 64 B of 84.
        let lines = expected / (128.0 / 152.0) * 64.0 / 84.0;
        assert_close(bandwidth(&first, Kind::Answer, 4096), lines);
        // Flits: 64 GT/s, 236 of 256 bytes, a header of 16.
        let sixth = PcieSpec { generation: 6, ..spec() };
        assert_close(bandwidth(&sixth, Kind::Data, 4096), 32e9 * 236.0 / 256.0 * 256.0 / 272.0);
    }

    #[test]
    fn the_distance_to_published_figures_is_what_the_documentation_says() {
        let assert_off = |found: f64, published: f64, percent: f64| {
            let off = (found / published - 1.0) * 100.0;
            assert!((off - percent).abs() < 0.05, "{found} of {published}: {off:.2} %");
        };
        // HASTE, PCIe 1.1 x8 ([NVM10] §V-A): large writes and reads.
        let haste = PcieSpec {
            generation: 1,
            lanes: 8,
            max_payload: Size::from_bytes(128),
            read_completion: Size::from_bytes(64),
            ..spec()
        };
        assert_off(bandwidth(&haste, Kind::Data, 4096), 1.7e9, -4.14);
        assert_off(bandwidth(&haste, Kind::Answer, 4096), 1.5e9, -1.70);
        // Samsung 970 PRO, PCIe 3.0 x4, pages read by NVM Express (NVMeVirt ssd_config.h).
        let pages = spec().packet_bytes_per_second() as f64 * 4096.0 / 4572.0;
        assert_off(pages, 3.36e9, 2.77);
        // Above the data link, PCIe 3.0 x8 (SIGCOMM 2018).
        let eight = PcieSpec { lanes: 8, ..spec() };
        assert_off(eight.packet_bytes_per_second() as f64 * 8.0, 57.88e9, 7.51);
    }

    #[test]
    fn limits_are_those_of_the_specifications_tables() {
        let limit = |generation, lanes, payload| {
            let spec =
                PcieSpec { generation, lanes, max_payload: Size::from_bytes(payload), ..spec() };
            spec.acknowledged_bytes() / u64::from(lanes)
        };
        for (generation, lanes, payload, symbols) in [
            (1, 1, 128, 237),
            (1, 1, 4096, 4143),
            (1, 4, 256, 118),
            (1, 8, 128, 67),
            (1, 8, 512, 86),
            (1, 16, 256, 72),
            (2, 8, 256, 158),
            (2, 16, 1024, 201),
            (3, 1, 256, 512),
            (3, 4, 256, 214),
            (3, 16, 4096, 630),
        ] {
            let found = limit(generation, lanes, payload);
            assert_eq!(found, symbols, "generation {generation} x{lanes}, {payload} B");
        }
    }

    #[test]
    fn every_message_is_made_of_its_packets() {
        let link = PcieLink::new(&spec());
        for (kind, bytes, packets, header) in [
            (Kind::Request, 64, 1, 24),
            (Kind::Request, 4096, 8, 24),
            (Kind::Answer, 4096, 16, 20),
            (Kind::Answer, 257, 2, 20),
            (Kind::Data, 4096, 16, 24),
            (Kind::Control, 4, 1, 24),
            (Kind::Done, 4096, 1, 20),
        ] {
            let message = Message::new(kind, bytes);
            let expected = message.payload_bytes() + packets * header;
            assert_eq!(link.wire_bytes(message), expected, "{message:?}");
        }
    }

    #[test]
    fn what_nvme_sends_is_counted_by_size_and_direction() {
        let link = PcieLink::new(&spec());
        let sent = |write| {
            let flow = link.flow(write);
            let mut bytes = [0, 0];
            for leg in [flow.command, flow.data, flow.done, flow.after].concat() {
                bytes[leg.direction as usize] += link.wire_bytes(leg.message(4096));
            }
            bytes
        };
        // Two doorbells and the submission entry; its fetch, the data, completion and interrupt.
        let (control, fetched) = (2 * (4 + 24), 64 + 20);
        let (fetch, told) = (24, 16 + 24 + 4 + 24);
        assert_eq!(sent(false), [control + fetched, fetch + 4096 + 16 * 24 + told]);
        assert_eq!(sent(true), [control + fetched + 4096 + 16 * 20, fetch + 8 * 24 + told]);
    }

    #[test]
    fn wrong_descriptions_are_refused_with_place_and_mend() {
        let wrong = PcieSpec {
            generation: 7,
            lanes: 3,
            max_payload: Size::from_bytes(192),
            max_read_request: Size::from_bytes(64),
            read_completion: Size::from_bytes(32),
            ..spec()
        };
        let mut problems = Problems::new();
        wrong.check("pcie", &mut problems);
        let told: Vec<_> = problems.iter().map(|one| (one.path.as_str(), one.code)).collect();
        let all = ["generation", "lanes", "max_payload", "max_read_request", "read_completion"];
        let all = all.map(|name| format!("pcie.{name}"));
        assert_eq!(told, all.each_ref().map(|path| (path.as_str(), "impossible-value")));
        let larger = PcieSpec { read_completion: Size::from_bytes(512), ..spec() };
        let mut problems = Problems::new();
        larger.check("pcie", &mut problems);
        let only: Vec<_> = problems.iter().map(|one| (one.code, one.mend.as_str())).collect();
        assert_eq!(only, [("contradiction", "write 256B or less")]);
    }
}
