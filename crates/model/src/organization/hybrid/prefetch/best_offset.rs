//! Best-offset prefetching.

use super::Run;

/// A phase of learning ends with the round in which a score comes to this (Michaud, HPCA 2016, Table 2: SCOREMAX).
const MOST_SCORE: u32 = 31;
/// Rounds of a phase at most (there: ROUNDMAX).
const MOST_ROUNDS: u32 = 100;
/// With a best score up to this nothing is prefetched (there: BADSCORE).
const BAD_SCORE: u32 = 1;
/// Entries of the table of recent requests (there: RR table).
const RECENT: usize = 256;
/// The largest offset.
const LARGEST: u64 = 256;

/// Looks for the offset by which a page is prefetched (Michaud, HPCA 2016): each page that is missed, or
/// used after a prefetch, tries one offset in turn, which scores if the page that far before has been
/// brought lately, so that a prefetch from there would have come in time. In a round each offset is tried once. The
/// best of a phase, which is of whole rounds, is used in the next.
#[derive(Clone, Debug)]
pub(super) struct BestOffset {
    /// Numbers up to [`LARGEST`] with no prime factor above 5, with their scores.
    scores: Vec<(u64, u32)>,
    /// The offset that is tried next.
    turn: usize,
    /// Of this phase.
    rounds: u32,
    /// A score has come to its most in this phase.
    complete: bool,
    /// Base pages of what came lately; a page may push another out.
    recent: Vec<u64>,
    offset: u64,
    on: bool,
}

impl BestOffset {
    pub(super) fn new() -> Self {
        let smooth = |n: &u64| {
            let mut rest = *n;
            for prime in [2, 3, 5] {
                while rest.is_multiple_of(prime) {
                    rest /= prime;
                }
            }
            rest == 1
        };
        let scores = (1..=LARGEST).filter(smooth).map(|offset| (offset, 0)).collect();
        let recent = vec![u64::MAX; RECENT];
        BestOffset { scores, turn: 0, rounds: 0, complete: false, recent, offset: 1, on: true }
    }

    /// A page's place in the table: its low bits and the next ones folded onto them.
    fn place(page: u64) -> usize {
        ((page ^ page >> 8) % RECENT as u64) as usize
    }

    /// A page was missed, or a prefetched one used.
    pub(super) fn seen(&mut self, page: u64) -> Option<Run> {
        self.learn(page);
        let run = Run::behind(page, self.offset as i64, 1, 1);
        run.filter(|_| self.on)
    }

    fn learn(&mut self, page: u64) {
        let (offset, score) = &mut self.scores[self.turn];
        let base = page.checked_sub(*offset);
        let is_recent = base.is_some_and(|base| self.recent[Self::place(base)] == base);
        *score += u32::from(is_recent);
        self.complete |= *score == MOST_SCORE;
        self.turn = (self.turn + 1) % self.scores.len();
        if self.turn == 0 {
            self.rounds += 1;
            if self.complete || self.rounds == MOST_ROUNDS {
                self.end_phase();
            }
        }
    }

    /// Takes the best offset, the smallest of several, and begins anew.
    fn end_phase(&mut self) {
        let mut best = (1, 0);
        for (offset, score) in &mut self.scores {
            if *score > best.1 {
                best = (*offset, *score);
            }
            *score = 0;
        }
        (self.offset, self.on) = (best.0, best.1 > BAD_SCORE);
        (self.rounds, self.complete) = (0, false);
    }

    /// A page has come: by a prefetch, from its base; while none are made, by itself.
    pub(super) fn filled(&mut self, page: u64, prefetch: bool) {
        let base = match (prefetch, self.on) {
            (true, true) => page.checked_sub(self.offset),
            (false, false) => Some(page),
            _ => None,
        };
        if let Some(base) = base {
            self.recent[Self::place(base)] = base;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offsets_are_those_of_the_paper() {
        let best = BestOffset::new();
        assert_eq!(best.scores.len(), 52);
        let first: Vec<_> = best.scores.iter().map(|(offset, _)| *offset).take(10).collect();
        assert_eq!(first, [1, 2, 3, 4, 5, 6, 8, 9, 10, 12]);
    }

    /// "The current learning phase finishes at the end of a round" (Michaud, HPCA 2016).
    #[test]
    fn a_phase_ends_with_the_round_in_which_a_score_is_complete() {
        let mut best = BestOffset::new();
        let rounds = u64::from(MOST_SCORE);
        let tries = best.scores.len() as u64 * rounds;
        for step in 0..tries {
            let page = 3 * step;
            let run = best.seen(page);
            let last = step + 1 == tries;
            assert_eq!(run.map(|run| run.next - page), Some(if last { 3 } else { 1 }), "{step}");
            best.filled(page + 1, true);
        }
    }
}
