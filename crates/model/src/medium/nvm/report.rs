//! What a memory did, and what that took.

use super::bank::Cells;
use super::wear::WearCounts;
use super::{NvmArray, NvmEnergySpec};

counters! {
    /// What a memory did since the start.
    pub struct NvmCounts {
        /// Lines to read that came.
        pub read_lines,
        /// Lines to write that came.
        pub write_lines,
        /// Of the lines read, those that came from writes that waited.
        pub forwarded_lines,
        /// Writes that took the place of one that waited for the same line.
        pub merged_lines,
        /// Reads that found their row open.
        pub row_hits,
        /// Rows that were read from the array into a row buffer.
        pub row_reads,
        /// Lines whose cells were written: pulses that ended or were given up, and gap moves.
        pub line_writes,
        /// Time in which pulses were on, of all banks, in picoseconds.
        pub pulse_ps,
        /// Times that a pulse was stopped for reads, to go on later.
        pub paused_writes,
        /// Pulses that were given up for reads, to begin anew later.
        pub cancelled_writes,
        /// Lines copied by wear levelling.
        pub gap_moves,
    }
}

impl NvmCounts {
    /// With what the cells of a bank did.
    pub(super) fn with_cells(self, cells: &Cells) -> Self {
        let counts = cells.counts();
        NvmCounts {
            row_hits: self.row_hits + counts.row_hits,
            row_reads: self.row_reads + counts.row_reads,
            line_writes: self.line_writes + cells.wear().total,
            pulse_ps: self.pulse_ps + counts.pulse_ps,
            gap_moves: self.gap_moves + counts.gap_moves,
            ..self
        }
    }

    fn plus(self, other: NvmCounts) -> Self {
        NvmCounts {
            read_lines: self.read_lines + other.read_lines,
            write_lines: self.write_lines + other.write_lines,
            forwarded_lines: self.forwarded_lines + other.forwarded_lines,
            merged_lines: self.merged_lines + other.merged_lines,
            row_hits: self.row_hits + other.row_hits,
            row_reads: self.row_reads + other.row_reads,
            line_writes: self.line_writes + other.line_writes,
            pulse_ps: self.pulse_ps + other.pulse_ps,
            paused_writes: self.paused_writes + other.paused_writes,
            cancelled_writes: self.cancelled_writes + other.cancelled_writes,
            gap_moves: self.gap_moves + other.gap_moves,
        }
    }
}

/// Where the energy of a memory went, in joules.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NvmEnergy {
    /// Rows read from the array, and lines read by wear levelling.
    pub array_read_j: f64,
    /// Pulses, in proportion to the time for which they were on.
    pub array_write_j: f64,
    /// Lines read from row buffers and written through them.
    pub buffer_j: f64,
    /// Standby.
    pub standby_j: f64,
}

impl NvmEnergy {
    /// What counts and time take: bits of a line and of a row, and the time of a whole pulse, in
    /// picoseconds.
    pub(super) fn of(
        spec: &NvmEnergySpec,
        counts: &NvmCounts,
        time_ps: u64,
        (line_bits, row_bits, write_ps): (u64, u64, u64),
    ) -> Self {
        let bits_j = |energy: tierscope_units::Energy, bits: f64| energy.joules() * bits;
        let (line_bits, row_bits) = (line_bits as f64, row_bits as f64);
        let read_bits = counts.row_reads as f64 * row_bits + counts.gap_moves as f64 * line_bits;
        let pulses = counts.pulse_ps as f64 / write_ps.max(1) as f64;
        let read_lines = (counts.row_reads + counts.row_hits) as f64;
        NvmEnergy {
            array_read_j: bits_j(spec.array_read, read_bits),
            array_write_j: bits_j(spec.array_write, pulses * line_bits),
            buffer_j: bits_j(spec.buffer_read, read_lines * line_bits)
                + bits_j(spec.buffer_write, pulses * line_bits),
            standby_j: spec.standby.joules(time_ps),
        }
    }

    /// Its parts, by name.
    pub fn parts(&self) -> [(&'static str, f64); 4] {
        [
            ("array_read", self.array_read_j),
            ("array_write", self.array_write_j),
            ("row_buffer", self.buffer_j),
            ("standby", self.standby_j),
        ]
    }
}

impl NvmArray {
    /// What it did.
    pub fn counts(&self) -> NvmCounts {
        let start = NvmCounts::default();
        self.channels.iter().fold(start, |all, channel| all.plus(channel.counts()))
    }

    /// How its lines have worn.
    pub fn wear(&self) -> WearCounts {
        let start = WearCounts::default();
        self.channels.iter().fold(start, |all, channel| all.plus(channel.wear()))
    }

    /// Where energy went up to `now_ps`; `None` where that is not known. A pulse counts when it ends.
    pub fn energy(&self, now_ps: u64) -> Option<NvmEnergy> {
        let bits = (self.line_bits, self.row_bits, self.rules.write_ps());
        let spec = self.energy.as_ref()?;
        Some(NvmEnergy::of(spec, &self.counts(), now_ps, bits))
    }
}
