//! The data bus of a channel: which clocks are taken, and by whom.

use super::earliest::NEVER;
use super::timing::Timing;

/// Who moves data in an interval, as far as the next one has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// Rank that drives or receives.
    pub rank: u32,
    /// Towards DRAM.
    pub write: bool,
}

/// Clocks that lie free between two intervals that are taken.
#[derive(Clone, Copy, Debug)]
struct Gap {
    start: u64,
    end: u64,
    before: User,
    after: User,
}

/// Gaps remembered. Without any, random lines on a channel of 8 banks come at 58 % of the rate
/// that they have with 4; with 8 they come at 105 % of it, at a quarter more of our own time.
const GAPS: usize = 4;

/// The data bus: taken up to some clock, but for a few gaps.
#[derive(Clone, Debug)]
pub struct Bus {
    free: u64,
    last: User,
    gaps: [Gap; GAPS],
    /// No gap ends later than here.
    latest_gap_end: u64,
}

impl Bus {
    /// A bus that nobody has used.
    pub fn new() -> Self {
        let nobody = User { rank: 0, write: false };
        let past = Gap { start: 0, end: 0, before: nobody, after: nobody };
        Bus { free: 0, last: nobody, gaps: [past; GAPS], latest_gap_end: 0 }
    }

    /// The clock from which on nothing is taken.
    #[inline]
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Takes the first `clocks` in a row that begin at `earliest` or later and leave the bus the
    /// time to turn around on both sides. Returns their start.
    #[inline]
    pub fn reserve(&mut self, timing: &Timing, earliest: u64, clocks: u64, user: User) -> u64 {
        if earliest < self.latest_gap_end
            && let Some(start) = self.fill_gap(timing, earliest, clocks, user)
        {
            return start;
        }
        let start = earliest.max(self.free + timing.turnaround(self.last, user));
        if start - self.free >= timing.line_clocks {
            self.remember(Gap { start: self.free, end: start, before: self.last, after: user });
        }
        self.free = start + clocks;
        self.last = user;
        start
    }

    fn fill_gap(&mut self, timing: &Timing, earliest: u64, clocks: u64, user: User) -> Option<u64> {
        let (mut start, mut index) = (NEVER, 0);
        for (i, gap) in self.gaps.iter().enumerate() {
            let from = earliest.max(gap.start + timing.turnaround(gap.before, user));
            let fits = from + clocks + timing.turnaround(user, gap.after) <= gap.end;
            let better = fits & (from < start);
            start = if better { from } else { start };
            index = if better { i } else { index };
        }
        if start == NEVER {
            return None;
        }
        let gap = self.gaps[index];
        self.gaps[index] = Gap { start: start + clocks, before: user, ..gap };
        if start - gap.start >= timing.line_clocks {
            self.remember(Gap { end: start, after: user, ..gap });
        }
        Some(start)
    }

    /// Keeps a gap in the place of the one that passes first.
    fn remember(&mut self, gap: Gap) {
        let oldest = (0..GAPS).min_by_key(|&i| self.gaps[i].end).unwrap_or(0);
        self.gaps[oldest] = gap;
        self.latest_gap_end = self.latest_gap_end.max(gap.end);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::spec;
    use super::*;
    use proptest::prelude::*;

    fn timing() -> Timing {
        Timing::new(&spec(), 64)
    }

    const READ: User = User { rank: 0, write: false };
    const WRITE: User = User { rank: 0, write: true };

    #[test]
    fn a_later_request_that_is_ready_earlier_fills_the_gap() {
        let timing = timing();
        let mut bus = Bus::new();
        assert_eq!(bus.reserve(&timing, 100, 4, READ), 100);
        assert_eq!(bus.reserve(&timing, 20, 4, READ), 20);
        assert_eq!(bus.reserve(&timing, 20, 4, READ), 24);
        assert_eq!(bus.reserve(&timing, 96, 4, READ), 96);
        assert_eq!(bus.reserve(&timing, 96, 4, READ), 104, "4 clocks are no longer free before");
        assert_eq!(bus.free(), 108);
    }

    #[test]
    fn the_bus_turns_around_no_clock_too_early() {
        let timing = timing();
        let mut bus = Bus::new();
        assert_eq!(bus.reserve(&timing, 10, 4, WRITE), 10);
        assert_eq!(bus.reserve(&timing, 14, 4, READ), 14 + timing.cl, "write to read");
        let end = bus.free();
        assert_eq!(bus.reserve(&timing, end, 4, WRITE), end + 2, "read to write");
        assert_eq!(
            bus.reserve(&timing, 0, 4, User { rank: 1, write: false }),
            0,
            "the time before the first use is free"
        );
    }

    proptest! {
        #[test]
        fn no_clock_is_taken_twice_and_every_turn_is_kept(
            asks in proptest::collection::vec((0..300u64, 1..20u64, 0..2u32, any::<bool>()), 1..60),
        ) {
            let timing = timing();
            let mut bus = Bus::new();
            let mut taken = Vec::new();
            for (earliest, clocks, rank, write) in asks {
                let user = User { rank, write };
                let start = bus.reserve(&timing, earliest, clocks, user);
                prop_assert!(start >= earliest);
                taken.push((start, start + clocks, user));
            }
            taken.sort_by_key(|&(start, ..)| start);
            for pair in taken.windows(2) {
                let ((_, end, before), (start, _, after)) = (pair[0], pair[1]);
                prop_assert!(start >= end + timing.turnaround(before, after), "{:?}", pair);
            }
        }
    }
}
