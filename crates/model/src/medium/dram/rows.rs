//! Whether a row is wanted again: what [`PagePolicy::Adaptive`](crate::medium::PagePolicy::Adaptive)
//! expects of a bank, as of its last rows.

use super::bank::CLOSED;

/// Two bits of a bank, as a branch predictor has them: rows that nobody waits for are closed where
/// twice in a row another was wanted next, and left open where twice the same was (after Xu, Agarwal
/// and Davis, *Prediction in dynamic SDRAM controller policies*, SAMOS 2009).
#[derive(Clone, Debug)]
pub struct RowPredictor {
    /// The row that nobody waited for when it was last used.
    left: u64,
    /// From 0, certainly wanted again, to 3, certainly not.
    state: u8,
}

impl RowPredictor {
    /// A bank of which nothing is known: its rows stay open.
    pub const NEW: RowPredictor = RowPredictor { left: CLOSED, state: 1 };

    /// A request begins in a row: so much is known of the one that was left before it.
    pub fn wants(&mut self, row: u64) {
        match std::mem::replace(&mut self.left, CLOSED) {
            CLOSED => {}
            left if left == row => self.state = self.state.saturating_sub(1),
            _ => self.state = (self.state + 1).min(3),
        }
    }

    /// Nobody waits for a row any more. Returns whether it is closed.
    pub fn leaves(&mut self, row: u64) -> bool {
        self.left = row;
        self.state > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of each of these rows, each left before the next is wanted: `.` open, `x` closed.
    fn closed(rows: &[u64]) -> String {
        let mut predictor = RowPredictor::NEW;
        let leave = |&row: &u64| {
            predictor.wants(row);
            if predictor.leaves(row) { 'x' } else { '.' }
        };
        rows.iter().map(leave).collect()
    }

    #[test]
    fn two_of_a_kind_change_its_mind() {
        assert_eq!(closed(&[1, 2, 3, 4, 5]), ".xxxx");
        assert_eq!(closed(&[1, 1, 1, 2, 1, 2, 2, 2, 2]), "....xxx..");
        assert_eq!(closed(&[1, 1, 2, 2, 3, 3, 4, 4]), "........");
    }

    #[test]
    fn what_is_wanted_while_others_wait_says_nothing() {
        let mut predictor = RowPredictor::NEW;
        for row in 0..9 {
            predictor.wants(row);
        }
        assert!(!predictor.leaves(9));
    }
}
