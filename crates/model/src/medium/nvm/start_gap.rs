//! Start-Gap wear levelling (Qureshi et al., "Enhancing Lifetime and Security of PCM-Based Main Memory
//! with Start-Gap Wear Leveling", MICRO 2009, §3 and §4).
//!
//! A bank has one line more than it offers: the gap. Every so many writes the line before the gap is
//! copied into it, so that the gap wanders through the bank and each line with it: two registers say
//! where all of them are. With the randomized form a fixed permutation stands before that (§4.1: any
//! invertible function of the address serves).

use tierscope_kernel::Permutation;

/// A line that is copied: one read and one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapMove {
    /// Where it lay: the gap from now on.
    pub from: u64,
    /// Where it lies: what was the gap.
    pub to: u64,
}

/// Where the lines of a bank are.
#[derive(Clone, Debug)]
pub struct StartGap {
    lines: u64,
    start: u64,
    gap: u64,
    /// Writes between two moves; 0 for none.
    interval: u64,
    writes: u64,
    order: Option<Permutation>,
}

impl StartGap {
    /// The lines of bank number `bank`, each at its own place, the gap behind the last. One move every
    /// `interval` writes, none with 0.
    pub fn new(lines: u64, interval: u64, randomized: bool, bank: u64) -> Self {
        let order = randomized.then(|| Permutation::new(bank, "nvm.start-gap", lines));
        StartGap { lines, start: 0, gap: lines, interval, writes: 0, order }
    }

    /// Where line `line` of the bank lies, of one line more than there are.
    #[inline]
    pub fn place(&self, line: u64) -> u64 {
        debug_assert!(line < self.lines, "line {line} of {}", self.lines);
        let line = self.order.map_or(line, |order| order.at(line));
        let turned = line + self.start;
        let place = if turned < self.lines { turned } else { turned - self.lines };
        place + u64::from(place >= self.gap)
    }

    /// A line has been written: the move that is due, which is made at once.
    #[inline]
    pub fn written(&mut self) -> Option<GapMove> {
        self.writes += 1;
        if self.interval == 0 || !self.writes.is_multiple_of(self.interval) {
            return None;
        }
        let to = self.gap;
        if to == 0 {
            self.start = (self.start + 1) % self.lines;
            self.gap = self.lines;
        } else {
            self.gap = to - 1;
        }
        Some(GapMove { from: self.gap, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn every_line_reads_what_was_written_to_it_as_in_a_plain_map(
            lines in 1..40u64,
            interval in 1..5u64,
            randomized: bool,
            script in proptest::collection::vec(any::<u64>(), 0..400),
        ) {
            let mut gap = StartGap::new(lines, interval, randomized, 3);
            let (mut cells, mut plain) = (vec![0u64; lines as usize + 1], HashMap::new());
            let mut moves = 0;
            for (version, line) in (1..).zip(script.iter().map(|it| it % lines)) {
                cells[gap.place(line) as usize] = version;
                plain.insert(line, version);
                if let Some(GapMove { from, to }) = gap.written() {
                    cells[to as usize] = cells[from as usize];
                    moves += 1;
                }
                for line in 0..lines {
                    let version = plain.get(&line).copied().unwrap_or(0);
                    prop_assert_eq!(cells[gap.place(line) as usize], version);
                }
            }
            prop_assert_eq!(moves, script.len() as u64 / interval);
        }
    }

    #[test]
    fn no_two_lines_share_a_place_and_the_gap_is_free() {
        let mut gap = StartGap::new(8, 1, false, 0);
        for _ in 0..200 {
            gap.written();
            let mut places: Vec<u64> = (0..8).map(|line| gap.place(line)).collect();
            places.push(gap.gap);
            places.sort_unstable();
            assert_eq!(places, (0..9).collect::<Vec<_>>());
        }
    }

    #[test]
    fn after_a_round_of_the_gap_each_line_lies_one_further() {
        let mut gap = StartGap::new(4, 1, false, 0);
        let places = |gap: &StartGap| (0..4).map(|line| gap.place(line)).collect::<Vec<_>>();
        assert_eq!(places(&gap), [0, 1, 2, 3]);
        for _ in 0..5 {
            gap.written();
        }
        assert_eq!(places(&gap), [1, 2, 3, 0]);
    }

    #[test]
    fn without_levelling_nothing_moves() {
        let mut gap = StartGap::new(4, 0, false, 0);
        assert!((0..1000).all(|_| gap.written().is_none()));
        assert_eq!((0..4).map(|line| gap.place(line)).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }
}
