//! Accesses on their way through a controller that takes the same time for each: they come in the order
//! in which they were submitted.

use std::collections::VecDeque;

/// When each comes, and its number, the next one first.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    waiting: VecDeque<(u64, u32)>,
}

impl Arrivals {
    /// An access has been submitted, and comes at `at_ps`, not before those submitted earlier.
    #[inline]
    pub fn push(&mut self, at_ps: u64, index: u32) {
        self.waiting.push_back((at_ps, index));
    }

    /// When something happens next: an access comes, or what happens behind the controller at
    /// `behind_ps`.
    #[inline]
    pub fn next_ps(&self, behind_ps: Option<u64>) -> Option<u64> {
        let arrival_ps = self.waiting.front().map(|&(at_ps, _)| at_ps);
        match (arrival_ps, behind_ps) {
            (Some(arrival_ps), Some(behind_ps)) => Some(arrival_ps.min(behind_ps)),
            (arrival_ps, behind_ps) => arrival_ps.or(behind_ps),
        }
    }

    /// The access that comes at `at_ps`, if one does. Of what happens at the same time, arrivals come
    /// first: what becomes free chooses from all that has come by then.
    #[inline]
    pub fn take(&mut self, at_ps: u64) -> Option<u32> {
        let (_, index) = self.waiting.pop_front_if(|&mut (arrival_ps, _)| arrival_ps == at_ps)?;
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_come_in_order_and_before_what_happens_at_the_same_time() {
        let mut arrivals = Arrivals::default();
        assert_eq!((arrivals.next_ps(None), arrivals.next_ps(Some(5))), (None, Some(5)));
        arrivals.push(10, 7);
        arrivals.push(10, 8);
        arrivals.push(20, 9);
        assert_eq!((arrivals.next_ps(None), arrivals.next_ps(Some(5))), (Some(10), Some(5)));
        assert_eq!((arrivals.take(5), arrivals.next_ps(Some(10))), (None, Some(10)));
        assert_eq!([10, 10, 10].map(|at_ps| arrivals.take(at_ps)), [Some(7), Some(8), None]);
        assert_eq!((arrivals.next_ps(None), arrivals.take(20)), (Some(20), Some(9)));
    }
}
