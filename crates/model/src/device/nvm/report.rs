//! What a module did.

use super::Nvm;
use super::buffer::{Buffer, BufferCounts};
use crate::activity::Energy;
use crate::medium::nvm::{NvmCounts, WearCounts};

/// What a module did since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct NvmReport {
    /// What the cells and their queues did.
    pub array: NvmCounts,
    /// What the buffer did, where there is one.
    pub buffer: Option<BufferCounts>,
    /// How lines have worn.
    pub wear: WearCounts,
    /// Lines that it offers, and bytes of one.
    pub lines: u64,
    /// Bytes of a line.
    pub line_bytes: u64,
    /// Bytes that the host asks for at once.
    pub access_bytes: u64,
    /// Accesses of the host that wrote.
    pub host_writes: u64,
    /// Writes that a cell stands.
    pub endurance: u64,
    /// Until when lines have worn, since they were new, in picoseconds.
    pub until_ps: u64,
}

/// Picoseconds of a year of 365 days.
/// Writes of a line from which on they tell how fast it wears: fewer are mostly chance.
pub const TELLING_WRITES: u32 = 100;
const YEAR_PS: f64 = 365.0 * 86_400.0 * 1e12;

impl NvmReport {
    /// What it did since `before`, which is an earlier state of the same module. What lines have been
    /// through stays.
    #[must_use]
    pub fn since(&self, before: &NvmReport) -> NvmReport {
        let buffer = self.buffer.map(|it| it.since(&before.buffer.unwrap_or_default()));
        let host_writes = self.host_writes - before.host_writes;
        NvmReport { array: self.array.since(&before.array), buffer, host_writes, ..self.clone() }
    }

    /// Of two modules of the same kind side by side.
    #[must_use]
    pub fn beside(&self, other: &NvmReport) -> NvmReport {
        let buffer = self.buffer.map(|it| it.together(&other.buffer.unwrap_or_default()));
        NvmReport {
            array: self.array.together(&other.array),
            buffer,
            wear: self.wear.plus(other.wear),
            lines: self.lines + other.lines,
            host_writes: self.host_writes + other.host_writes,
            ..self.clone()
        }
    }

    /// Bytes written to the cells for each byte that the host wrote; `None` where it wrote none.
    pub fn write_amplification(&self) -> Option<f64> {
        let written = (self.array.line_writes * self.line_bytes) as f64;
        let host = (self.host_writes * self.access_bytes) as f64;
        (host > 0.0).then(|| written / host)
    }

    /// How long the line that was written most would stand what it was given since it was new, in years of
    /// 365 days; `None` where it was written fewer than 100 times: chance decides between
    /// one write and two.
    pub fn worst_line_years(&self) -> Option<f64> {
        let years = self.until_ps as f64 / YEAR_PS;
        let most = self.wear.most;
        (most >= TELLING_WRITES).then(|| years * self.endurance as f64 / f64::from(most))
    }

    /// How long the memory would stand what was written in `time_ps` if all lines wore alike, in years of
    /// 365 days: the bound of every levelling; `None` where nothing was written.
    pub fn levelled_years(&self, time_ps: u64) -> Option<f64> {
        let years = time_ps as f64 / YEAR_PS;
        let each = self.array.line_writes as f64 / self.lines as f64;
        (each > 0.0).then(|| years * self.endurance as f64 / each)
    }
}

impl Nvm {
    /// What it did up to `now_ps`.
    pub fn report(&self, now_ps: u64) -> NvmReport {
        NvmReport {
            array: self.array.counts(),
            buffer: self.buffer.as_ref().map(Buffer::counts),
            wear: self.array.wear(),
            lines: self.array.lines(),
            line_bytes: self.array.line_bytes(),
            access_bytes: self.access_bytes,
            host_writes: self.host_writes,
            endurance: self.endurance,
            until_ps: now_ps,
        }
    }

    /// What that took.
    pub(super) fn energy(&self, now_ps: u64) -> Energy {
        match self.array.energy(now_ps) {
            Some(energy) => Energy::of_parts("nvm", &energy.parts()),
            None => Energy::default().without("nvm", "no source gives the energies of its cells"),
        }
    }
}
