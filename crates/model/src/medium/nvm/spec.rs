//! What a user says of a byte-addressable non-volatile memory.

use crate::link::check_bandwidth;
use serde::{Deserialize, Serialize};
use tierscope_units::{Bandwidth, Duration, Energy, Power, Problems, Size, TransferRate};

/// The cells and their controller: channels of banks, row buffers, write pulses, and queues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NvmArraySpec {
    /// Bytes read or written as one: a power of two from 64B to 4KiB.
    pub line: Size,
    /// Channels, each with its own bus and queues.
    pub channels: u32,
    /// Banks of each channel.
    pub banks: u32,
    /// Bytes that a read brings from the array into a row buffer: a power of two, whole lines.
    pub row: Size,
    /// Row buffers of each bank.
    pub row_buffers: u32,
    /// Bytes that follow each other in a channel before the next has its turn: whole lines.
    pub channel_interleave: Size,
    /// Bytes that follow each other in a bank before the next of the channel has its turn: whole
    /// lines.
    pub bank_interleave: Size,
    /// Time to bring a row from the array into a row buffer (tRCD).
    pub read_latency: Duration,
    /// Time from a column command to its data, of reads and of writes (tCL, tCWL).
    pub column_latency: Duration,
    /// Time of the pulse that writes a line, behind its data.
    pub write_latency: Duration,
    /// What becomes of a pulse when a read comes for its bank, while writes are not drained.
    pub preemption: Preemption,
    /// Iterations of a pulse, after each of which it may pause, where `preemption` is `pause`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_iterations: Option<u32>,
    /// Share of a pulse after which it is no longer given up, where `preemption` is `cancel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_below: Option<f64>,
    /// Data rate of the bus of a channel.
    pub bus_rate: TransferRate,
    /// Width of that bus in bits.
    pub bus_bits: u32,
    /// Lines that a channel's controller reads at most.
    pub read_queue_depth: u32,
    /// Lines that it writes at most.
    pub write_queue_depth: u32,
    /// When so many lines are to be written, they go ahead of reads.
    pub write_high: u32,
    /// When so few are left, reads go ahead again.
    pub write_low: u32,
}

/// What becomes of a write pulse when a read comes for its bank (Qureshi et al., HPCA 2010).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preemption {
    /// It goes on to its end.
    None,
    /// It stops at the end of the iteration under way, and goes on when no read waits.
    Pause,
    /// It is given up, unless much of it is done, and begins anew when no read waits.
    Cancel,
}

/// How lines wear, and how that is levelled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NvmWearSpec {
    /// Writes that a cell stands.
    pub endurance: u64,
    /// Writes of a bank between two moves of its gap (Start-Gap); 0 for no levelling.
    pub gap_interval: u32,
    /// Whether lines of a bank are dealt to their places by a fixed random order, before the gap moves
    /// them (randomized Start-Gap). Neighbours then lie in different rows.
    pub randomized: bool,
}

/// What operations take, for each bit, and what the whole memory takes when nothing is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NvmEnergySpec {
    /// Of each bit of a row that is read from the array.
    pub array_read: Energy,
    /// Of each bit of a line that is written to the array.
    pub array_write: Energy,
    /// Of each bit of a line that is read from a row buffer.
    pub buffer_read: Energy,
    /// Of each bit of a line that is written to a row buffer.
    pub buffer_write: Energy,
    /// Of all channels, when nothing is done.
    pub standby: Power,
}

/// Writes that no cell stands: magnetic ones are said to stand 10¹⁵.
const MOST_ENDURANCE: u64 = 1_000_000_000_000_000_000;

impl NvmArraySpec {
    /// Bandwidth of the bus of a channel.
    pub(super) fn bus_bandwidth(&self) -> Bandwidth {
        let rate = u128::from(self.bus_rate.transfers_per_second());
        let bytes = rate * u128::from(self.bus_bits / 8);
        Bandwidth::from_bytes_per_second(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// Collects every semantic mistake below `path`.
    pub fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "channels", self.channels, 1);
        problems.at_most(path, "channels", self.channels, 256);
        problems.at_least(path, "banks", self.banks, 1);
        problems.at_most(path, "banks", self.banks, 4096);
        problems.at_least(path, "row_buffers", self.row_buffers, 1);
        problems.at_most(path, "row_buffers", self.row_buffers, 64);
        self.check_sizes(path, problems);
        self.check_preemption(path, problems);
        self.check_queues(path, problems);
        if !self.bus_bits.is_multiple_of(8) || !(8..=1024).contains(&self.bus_bits) {
            problems.add(
                "impossible-value",
                format!("{path}.bus_bits"),
                self.bus_bits.to_string(),
                "a data bus is a whole number of bytes wide, at most 1024 bits".into(),
                "write 64".into(),
            );
        } else {
            check_bandwidth(&format!("{path}.bus_rate"), self.bus_bandwidth(), problems);
        }
    }

    fn check_sizes(&self, path: &str, problems: &mut Problems) {
        let (line, row) = (self.line.bytes(), self.row.bytes());
        if !line.is_power_of_two() || !(64..=4096).contains(&line) {
            problems.add(
                "impossible-value",
                format!("{path}.line"),
                self.line.to_string(),
                "what is read or written as one is a power of two from 64B to 4KiB".into(),
                "write 64B".into(),
            );
            return;
        }
        if !row.is_power_of_two() || row < line {
            problems.add(
                "contradiction",
                format!("{path}.row"),
                self.row.to_string(),
                format!("a row is a power of two, and holds lines of {} ({path}.line)", self.line),
                format!("write \"{}\" or a power of two above it", self.line),
            );
        }
        for (key, run) in [
            ("channel_interleave", self.channel_interleave),
            ("bank_interleave", self.bank_interleave),
        ] {
            if run.bytes() == 0 || !run.bytes().is_multiple_of(line) {
                problems.add(
                    "contradiction",
                    format!("{path}.{key}"),
                    run.to_string(),
                    format!("it is not a whole number of lines of {} ({path}.line)", self.line),
                    format!("write a multiple of {}", self.line),
                );
            }
        }
    }

    fn check_preemption(&self, path: &str, problems: &mut Problems) {
        let written = serde_word(self.preemption);
        let said = [
            ("write_iterations", "pause", self.write_iterations.is_some(), "4"),
            ("cancel_below", "cancel", self.cancel_below.is_some(), "0.75"),
        ];
        for (key, of, is_said, example) in said {
            let reason = match (written == of, is_said) {
                (true, false) => format!("{path}.preemption = \"{of}\" needs it"),
                (false, true) => format!("{path}.preemption is \"{written}\", not \"{of}\""),
                _ => continue,
            };
            let mend = if is_said {
                format!("remove it, or write {path}.preemption = \"{of}\"")
            } else {
                format!("write {path}.{key} = {example}")
            };
            problems.add(
                if is_said { "contradiction" } else { "missing-part" },
                format!("{path}.{key}"),
                String::new(),
                reason,
                mend,
            );
        }
        if let Some(iterations) = self.write_iterations {
            problems.at_least(path, "write_iterations", iterations, 1);
            problems.at_most(path, "write_iterations", iterations, 4096);
        }
        if let Some(share) = self.cancel_below {
            problems.at_least(path, "cancel_below", share, 0.0);
            problems.at_most(path, "cancel_below", share, 1.0);
        }
    }

    fn check_queues(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "read_queue_depth", self.read_queue_depth, 1);
        problems.at_least(path, "write_queue_depth", self.write_queue_depth, 1);
        problems.at_least(path, "write_high", self.write_high, 1);
        if self.write_high > self.write_queue_depth {
            problems.add(
                "contradiction",
                format!("{path}.write_high"),
                self.write_high.to_string(),
                format!("the queue holds {} ({path}.write_queue_depth)", self.write_queue_depth),
                format!("write {} or less", self.write_queue_depth),
            );
        }
        if self.write_low >= self.write_high {
            problems.add(
                "contradiction",
                format!("{path}.write_low"),
                self.write_low.to_string(),
                format!("a drain begins at {} ({path}.write_high)", self.write_high),
                format!("write {} or less", self.write_high.saturating_sub(1)),
            );
        }
    }

    /// What a capacity is a whole multiple of, so that banks are alike, where sizes are right.
    pub fn share(&self) -> Option<Size> {
        let channels = u64::from(self.channels);
        let runs = channels.checked_mul(self.channel_interleave.bytes())?;
        let banks = channels.checked_mul(u64::from(self.banks))?;
        let banks = banks.checked_mul(self.bank_interleave.bytes())?;
        let divisor = greatest_divisor(runs, banks);
        let both = (runs / divisor.max(1)).checked_mul(banks)?;
        (both > 0).then_some(Size::from_bytes(both))
    }
}

fn greatest_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

/// As users write it.
fn serde_word(preemption: Preemption) -> &'static str {
    match preemption {
        Preemption::None => "none",
        Preemption::Pause => "pause",
        Preemption::Cancel => "cancel",
    }
}

impl NvmWearSpec {
    /// Collects every semantic mistake below `path`.
    pub fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "endurance", self.endurance, 1);
        problems.at_most(path, "endurance", self.endurance, MOST_ENDURANCE);
    }
}
