//! A device on a channel of DRAM: its registers and its data share the channel's wires with the modules.
//!
//! After the tight coupling of \[HAMS21\] §IV-C: the memory controller deselects the module (chip select),
//! writes a 64-byte command into the device's registers in one burst, and passes the bus to the device by
//! a lock register when data are ready to move; meanwhile the module's accesses wait.

use super::{
    AnyLink, Direction, Flow, Kind, Lane, Leg, Link, LinkDescription, LinkEnergySpec, Message,
};
use crate::request::Tie;
use serde::{Deserialize, Serialize};
use tierscope_units::{Duration, Problems, TransferRate};

/// A channel of DRAM that a device shares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DdrChannelSpec {
    /// The channel of the DRAM, from 0.
    pub channel: u32,
    /// Data rate: at most that of the DRAM. A device may be slower, and holds the bus the longer.
    pub data_rate: TransferRate,
    /// Width in bits of the data bus that the device drives: at most that of the DRAM.
    pub bus_bits: u32,
    /// Time in which nobody drives the bus each time that it is handed over, from modules to device or
    /// back: the other is deselected, and drivers and termination turn (as tRTRS between ranks).
    pub hand_over: Duration,
    /// Time of the controller to set the lock register before data of the device, and of the device to
    /// clear it: the bus is held meanwhile.
    pub lock_latency: Duration,
    /// What it takes; not counted, where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<LinkEnergySpec>,
}

/// Transfers of a burst, as of DDR4: \[HAMS21\] §IV-C sends a command of 64 bytes in eight beats.
const BURST: u64 = 8;
/// A command in the device's registers (NVM Express' 64 bytes; \[HAMS21\] §IV-C).
const COMMAND_BYTES: u64 = 64;

impl DdrChannelSpec {
    fn bytes_per_second(&self) -> u64 {
        let rate = u128::from(self.data_rate.transfers_per_second());
        u64::try_from(rate * u128::from(self.bus_bits / 8)).unwrap_or(u64::MAX)
    }
}

impl LinkDescription for DdrChannelSpec {
    fn check(&self, path: &str, problems: &mut Problems) {
        let least = TransferRate::from_transfers_per_second(1_000_000);
        problems.at_least(path, "data_rate", self.data_rate, least);
        let longest = Duration::from_picoseconds(1_000_000_000);
        problems.at_most(path, "hand_over", self.hand_over, longest);
        problems.at_most(path, "lock_latency", self.lock_latency, longest);
        if !self.bus_bits.is_multiple_of(8) || !(8..=1024).contains(&self.bus_bits) {
            problems.add(
                "impossible-value",
                format!("{path}.bus_bits"),
                self.bus_bits.to_string(),
                "a data bus is a whole number of bytes wide, at most 1024 bits".into(),
                "write 64".into(),
            );
        }
    }

    fn build(&self) -> AnyLink {
        DdrChannelLink::new(self).into()
    }

    fn energy(&self) -> Option<&LinkEnergySpec> {
        self.energy.as_ref()
    }

    fn shared_channel(&self) -> Option<&DdrChannelSpec> {
        Some(self)
    }
}

/// A device on a DDR channel: bursts in either direction, one after another, each message between two
/// hand-overs of the bus. What the modules do meanwhile is told to it ([`Link::keep_off`]), and what it
/// does to them.
#[derive(Clone, Debug)]
pub struct DdrChannelLink {
    lane: Lane,
    channel: u32,
    burst_bytes: u64,
    /// Both hand-overs of a message, as bytes.
    hand_over_bytes: u64,
    /// Setting the lock and clearing it, as bytes.
    lock_bytes: u64,
    /// Until when the modules have the bus.
    taken_until_ps: u64,
}

impl DdrChannelLink {
    /// A channel with nothing on it. The description has been checked.
    pub fn new(spec: &DdrChannelSpec) -> Self {
        let rate = spec.bytes_per_second();
        let twice = |time: Duration| {
            let bytes = 2 * u128::from(time.picoseconds()) * u128::from(rate);
            u64::try_from(bytes.div_ceil(1_000_000_000_000)).unwrap_or(u64::MAX)
        };
        DdrChannelLink {
            lane: Lane::new(rate),
            channel: spec.channel,
            burst_bytes: BURST * u64::from(spec.bus_bits / 8),
            hand_over_bytes: twice(spec.hand_over),
            lock_bytes: twice(spec.lock_latency),
            taken_until_ps: 0,
        }
    }
}

impl Link for DdrChannelLink {
    #[inline]
    fn transfer(&mut self, now_ps: u64, message: Message, _: Direction) -> (u64, u64) {
        let wire_bytes = self.wire_bytes(message);
        self.lane.transfer(now_ps.max(self.taken_until_ps), wire_bytes)
    }

    /// From when on the device has nothing left to send: the modules' bursts are not counted, as the bus
    /// is asked for when there is something to send.
    #[inline]
    fn free_ps(&self, _: Direction) -> u64 {
        self.lane.free_ps()
    }

    /// Whole bursts. Data are moved under the lock; commands are written by the controller.
    fn wire_bytes(&self, message: Message) -> u64 {
        let lock = match message.kind {
            Kind::Answer | Kind::Data => self.lock_bytes,
            Kind::Request | Kind::Control | Kind::Done => 0,
        };
        self.moved_bytes(message) + self.hand_over_bytes + lock
    }

    /// The bursts.
    fn moved_bytes(&self, message: Message) -> u64 {
        let bytes = match message.kind {
            Kind::Request => COMMAND_BYTES,
            Kind::Done => self.burst_bytes,
            Kind::Answer | Kind::Data | Kind::Control => message.bytes,
        };
        bytes.div_ceil(self.burst_bytes).max(1) * self.burst_bytes
    }

    /// A command into the registers, then each page under the lock, either way. Clearing the lock says
    /// that a read is done; a write is done when the medium has it, which the host sees in a register.
    fn flow(&self, write: bool) -> Flow {
        let command = vec![Leg::down(Kind::Request, None)];
        if write {
            Flow {
                command,
                data: vec![Leg::down(Kind::Data, None)],
                done: vec![Leg::up(Kind::Done, None)],
                ..Flow::default()
            }
        } else {
            Flow { command, data: vec![Leg::up(Kind::Answer, None)], ..Flow::default() }
        }
    }

    fn is_duplex(&self) -> bool {
        false
    }

    fn tie(&self) -> Option<Tie> {
        Some(Tie::Bus(self.channel as usize))
    }

    fn keep_off(&mut self, until_ps: u64) {
        self.taken_until_ps = until_ps;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::conformance::link_laws;

    /// 2000 MT/s on 64 bits: 16 GB/s.
    pub fn spec() -> DdrChannelSpec {
        DdrChannelSpec {
            channel: 0,
            data_rate: TransferRate::from_transfers_per_second(2_000_000_000),
            bus_bits: 64,
            hand_over: Duration::from_picoseconds(2_000),
            lock_latency: Duration::from_picoseconds(5_000),
            energy: None,
        }
    }

    #[test]
    fn the_links_laws_hold() {
        link_laws(16_000_000_000, || DdrChannelLink::new(&spec()));
        let odd = TransferRate::from_transfers_per_second(1_333_333_333);
        let odd = DdrChannelSpec { data_rate: odd, bus_bits: 32, ..spec() };
        link_laws(5_333_333_332, || DdrChannelLink::new(&odd));
    }

    #[test]
    fn a_message_takes_its_bursts_and_both_hand_overs_and_data_the_lock_too() {
        let mut link = DdrChannelLink::new(&spec());
        let mut end = |kind, bytes| {
            let at_ps = link.free_ps(Direction::Up);
            link.transfer(at_ps, Message::new(kind, bytes), Direction::Up).1 - at_ps
        };
        // 64 B at 16 GB/s are 4 ns; twice 2 ns; twice 5 ns.
        assert_eq!(end(Kind::Request, 4096), 4_000 + 4_000);
        assert_eq!(end(Kind::Data, 4096), 256_000 + 4_000 + 10_000);
        assert_eq!(end(Kind::Answer, 65), 8_000 + 4_000 + 10_000);
        assert_eq!(end(Kind::Done, 4096), 4_000 + 4_000);
    }

    #[test]
    fn it_waits_for_the_modules_at_t_minus_1_and_not_at_t() {
        for (now_ps, start_ps) in [(999, 1_000), (1_000, 1_000), (1_001, 1_001)] {
            let mut link = DdrChannelLink::new(&spec());
            link.keep_off(1_000);
            assert_eq!(
                link.transfer(now_ps, Message::new(Kind::Request, 0), Direction::Down).0,
                start_ps
            );
        }
    }

    #[test]
    fn every_parameter_changes_an_output_in_its_direction() {
        let end_ps = |change: &dyn Fn(&mut DdrChannelSpec)| {
            let mut spec = spec();
            change(&mut spec);
            let mut link = DdrChannelLink::new(&spec);
            link.transfer(0, Message::new(Kind::Data, 4096), Direction::Down).1
        };
        let was_ps = end_ps(&|_| ());
        assert!(
            end_ps(&|s| s.data_rate = TransferRate::from_transfers_per_second(1 << 30)) > was_ps
        );
        assert!(end_ps(&|s| s.bus_bits = 32) > was_ps);
        assert!(end_ps(&|s| s.hand_over = Duration::from_picoseconds(9_000)) > was_ps);
        assert!(end_ps(&|s| s.lock_latency = Duration::from_picoseconds(9_000)) > was_ps);
        let second = DdrChannelSpec { channel: 1, ..spec() };
        assert_eq!(second.build().tie(), Some(Tie::Bus(1)));
    }
}
