//! The cells of a bank: what an operation takes, which rows are open, how lines wear.

use super::NvmArraySpec;
use super::start_gap::{GapMove, StartGap};
use super::wear::{Wear, WearCounts};
use crate::medium::{Medium, Operation};

/// What a bank was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellCounts {
    /// Reads that found their row open.
    pub row_hits: u64,
    /// Rows that were read from the array into a row buffer.
    pub row_reads: u64,
    /// Time in which write pulses were on, in picoseconds: all that were begun, gap moves included.
    pub pulse_ps: u64,
    /// Lines copied by wear levelling.
    pub gap_moves: u64,
}

/// The cells of a bank, their row buffers, and how lines are levelled over them.
///
/// Lines are written through: the pulse is of the line's own cells, and a row buffer that holds the row
/// has the new data (partial writes; NVMain calls it write-through). A write opens no row.
#[derive(Clone, Debug)]
pub struct Cells {
    line_bytes: u64,
    lines: u64,
    row_lines: u64,
    read_ps: u64,
    write_ps: u64,
    row_buffers: usize,
    /// Rows that are open, that used last at the end.
    open: Vec<u64>,
    gap: StartGap,
    wear: Wear,
    counts: CellCounts,
}

impl Cells {
    /// Bank number `bank`, of `lines` lines, with no row open. The description has been checked.
    pub fn new(
        spec: &NvmArraySpec,
        lines: u64,
        interval: u64,
        randomized: bool,
        bank: u64,
    ) -> Self {
        Cells {
            line_bytes: spec.line.bytes(),
            lines,
            row_lines: spec.row.bytes() / spec.line.bytes(),
            read_ps: spec.read_latency.picoseconds(),
            write_ps: spec.write_latency.picoseconds(),
            row_buffers: spec.row_buffers as usize,
            open: Vec::new(),
            gap: StartGap::new(lines, interval, randomized, bank),
            wear: Wear::new(),
            counts: CellCounts::default(),
        }
    }

    /// The same, of which wear is shared until one of the two changes it.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Cells { open: self.open.clone(), gap: self.gap.clone(), wear: self.wear.fork(), ..*self }
    }

    /// Whether a row buffer holds the line.
    #[inline]
    pub fn is_open(&self, line: u64) -> bool {
        let row = self.gap.place(line) / self.row_lines;
        self.open.contains(&row)
    }

    /// Brings the line's row into a row buffer; the time that takes.
    pub fn read(&mut self, line: u64) -> u64 {
        let row = self.gap.place(line) / self.row_lines;
        let found = self.open.iter().position(|open| *open == row);
        if let Some(position) = found {
            self.open.remove(position);
        } else if self.open.len() == self.row_buffers {
            self.open.remove(0);
        }
        self.open.push(row);
        if found.is_some() {
            self.counts.row_hits += 1;
            return 0;
        }
        self.counts.row_reads += 1;
        self.read_ps
    }

    /// A pulse on the line's cells has ended, of which this was the last part; the time of the gap move
    /// that is due, if one is.
    pub fn end_write(&mut self, line: u64, last_ps: u64) -> Option<u64> {
        self.pulsed(last_ps);
        self.wear.write(self.gap.place(line));
        let GapMove { to, .. } = self.gap.written()?;
        // Row buffers go by place: one that holds the row of the copy has the new data.
        self.wear.write(to);
        self.counts.gap_moves += 1;
        self.pulsed(self.write_ps);
        Some(self.read_ps + self.write_ps)
    }

    /// A pulse is given up after `on_ps`: it has worn the cells, if it was on at all.
    pub fn abort_write(&mut self, line: u64, on_ps: u64) {
        if on_ps > 0 {
            self.pulsed(on_ps);
            self.wear.write(self.gap.place(line));
        }
    }

    /// A pulse has been on for so long, and stops for a while.
    #[inline]
    pub fn pulsed(&mut self, on_ps: u64) {
        self.counts.pulse_ps += on_ps;
    }

    /// What it was asked for.
    pub fn counts(&self) -> CellCounts {
        self.counts
    }

    /// How its lines have worn.
    pub fn wear(&self) -> WearCounts {
        self.wear.counts()
    }

    /// How often each line has been written, by its place; one place more than there are lines.
    pub fn writes_by_place(&self) -> impl Iterator<Item = u32> + '_ {
        (0..=self.lines).map(|place| self.wear.of(place))
    }
}

/// A bank by itself, as a unit of a device: one operation at a time, gap moves with the write that
/// makes them due.
impl Medium for Cells {
    fn page_bytes(&self) -> u64 {
        self.line_bytes
    }

    fn pages(&self) -> u64 {
        self.lines
    }

    fn start(&mut self, now_ps: u64, operation: Operation, page: u64) -> u64 {
        match operation {
            Operation::Read => now_ps + self.read(page),
            Operation::Write => {
                let move_ps = self.end_write(page, self.write_ps).unwrap_or(0);
                now_ps + self.write_ps + move_ps
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::medium_laws;
    use crate::medium::nvm::tests::array;
    use tierscope_units::Size;

    #[test]
    fn the_mediums_laws_hold() {
        let spec = NvmArraySpec { row: Size::from_bytes(256), row_buffers: 2, ..array() };
        for (interval, randomized) in [(0, false), (1, false), (3, true), (100, true)] {
            medium_laws(|| Cells::new(&spec, 1000, interval, randomized, 5));
        }
        medium_laws(|| Cells::new(&spec, 1, 1, true, 0));
    }

    #[test]
    fn rows_that_were_used_last_stay_open() {
        let spec = NvmArraySpec { row: Size::from_bytes(256), row_buffers: 2, ..array() };
        let mut cells = Cells::new(&spec, 64, 0, false, 0);
        let read_ps = spec.read_latency.picoseconds();
        // Rows of four lines: 0, 1, 0 again, 2 in the place of 1, and 1 anew.
        let times: Vec<_> = [0, 4, 3, 8, 2, 5].map(|line| cells.read(line)).into();
        assert_eq!(times, [read_ps, read_ps, 0, read_ps, 0, read_ps]);
        assert_eq!((cells.counts().row_hits, cells.counts().row_reads), (2, 4));
    }

    #[test]
    fn a_hot_line_wears_all_lines_of_its_bank_alike() {
        let spec = array();
        let write = |cells: &mut Cells, times: u64| {
            for _ in 0..times {
                cells.start(0, Operation::Write, 7);
            }
        };
        let mut plain = Cells::new(&spec, 16, 0, false, 0);
        write(&mut plain, 17 * 16 * 4);
        assert_eq!(plain.wear().most, 17 * 16 * 4);
        // Four rounds of the gap through 17 places with a move every 16 writes, 16 rounds in all.
        let mut levelled = Cells::new(&spec, 16, 16, false, 0);
        write(&mut levelled, 17 * 16 * 16);
        let all: Vec<u32> = levelled.writes_by_place().collect();
        let (least, most) = (all.iter().min().unwrap(), all.iter().max().unwrap());
        assert_eq!(all.iter().map(|n| u64::from(*n)).sum::<u64>(), 17 * 16 * 16 + 17 * 16);
        assert!(f64::from(*most) < 1.15 * f64::from(*least), "{all:?}");
    }

    #[test]
    fn gap_moves_cost_one_write_in_every_interval() {
        let mut cells = Cells::new(&array(), 1 << 20, 100, true, 0);
        for line in 0..10_000 {
            cells.start(0, Operation::Write, line);
        }
        assert_eq!(cells.counts().gap_moves, 100);
        assert_eq!(cells.wear().total, 10_100);
    }
}
