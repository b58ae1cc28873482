//! Pages between units of a sampled run, where the store is asked for them in detail all the same: at DRAM each takes what
//! those like it took before, and no line of it moves.

use std::collections::VecDeque;

/// Pages that are at DRAM besides are told apart by powers of two.
const LOADS: usize = 16;

/// What a page at DRAM is one of: whether it goes to the store, and how many were there when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class {
    to_store: bool,
    load: usize,
}

/// What pages took at DRAM, and which are there now without its knowing.
#[derive(Clone, Debug, Default)]
pub(super) struct Passing {
    /// Whether pages pass by DRAM.
    pub on: bool,
    /// Pages that are there, or wait to be.
    there: u64,
    /// Of those that did not pass by, by classes: how long they took, together, and their bytes.
    took: [[(u64, u64); LOADS]; 2],
    /// When pages will have been there, in order.
    ends: VecDeque<(u64, u32)>,
}

impl Passing {
    /// A page comes to DRAM.
    pub fn enter(&mut self, to_store: bool) -> Class {
        let load = (self.there + 1).ilog2() as usize;
        self.there += 1;
        Class { to_store, load: load.min(LOADS - 1) }
    }

    /// A page has been at DRAM, in detail.
    pub fn took(&mut self, class: Class, duration_ps: u64, bytes: u32) {
        let (spent_ps, moved) = &mut self.took[usize::from(class.to_store)][class.load];
        *spent_ps = spent_ps.saturating_add(duration_ps);
        *moved = moved.saturating_add(bytes.into());
        self.leave();
    }

    /// A page that has entered passes by DRAM instead.
    pub fn begin(&mut self, now_ps: u64, (id, class): (u32, Class), bytes: u32) {
        let at_ps = now_ps.saturating_add(self.expect_ps(class, bytes));
        let last_ps = self.ends.back().map_or(0, |(at_ps, _)| *at_ps);
        self.ends.push_back((last_ps.max(at_ps), id));
    }

    /// The mean of pages of the nearest load that some met; nothing where none was.
    fn expect_ps(&self, class: Class, bytes: u32) -> u64 {
        let loads = &self.took[usize::from(class.to_store)];
        let met = (0..LOADS).filter(|load| loads[*load].1 > 0);
        let Some(load) = met.min_by_key(|load| load.abs_diff(class.load)) else { return 0 };
        let (spent_ps, moved) = loads[load];
        (u128::from(spent_ps) * u128::from(bytes) / u128::from(moved)) as u64
    }

    pub fn next_event_ps(&self) -> Option<u64> {
        self.ends.front().map(|(at_ps, _)| *at_ps)
    }

    /// The next page that has been there by now, and since when.
    pub fn ended(&mut self, now_ps: u64) -> Option<(u64, u32)> {
        let ended = self.ends.pop_front_if(|(at_ps, _)| *at_ps <= now_ps);
        if ended.is_some() {
            self.leave();
        }
        ended
    }

    fn leave(&mut self) {
        self.there = self.there.saturating_sub(1);
    }

    /// Power has failed: nothing is under way.
    pub fn drop_all(&mut self) {
        self.ends.clear();
        self.there = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_takes_what_pages_like_it_took_and_none_goes_ahead_of_another() {
        let mut passing = Passing::default();
        for duration_ps in [300, 500] {
            let class = passing.enter(false);
            passing.took(class, duration_ps, 4096);
        }
        let classes = [(); 3].map(|()| passing.enter(true));
        for class in classes {
            passing.took(class, 7_000, 4096);
        }
        let mut begin = |now_ps, id, to_store, bytes| {
            let class = passing.enter(to_store);
            passing.begin(now_ps, (id, class), bytes);
        };
        begin(1_000, 7, false, 4096);
        begin(1_000, 8, false, 512);
        begin(1_000, 9, true, 4096);
        assert_eq!(passing.next_event_ps(), Some(1_400));
        assert_eq!(passing.ended(1_399), None);
        assert_eq!(passing.ended(1_400), Some((1_400, 7)));
        assert_eq!(passing.ended(1_400), Some((1_400, 8)));
        assert_eq!(passing.ended(8_000), Some((8_000, 9)));
        assert_eq!((passing.ended(u64::MAX), passing.next_event_ps()), (None, None));
    }

    #[test]
    fn what_pages_take_follows_how_many_are_there() {
        let mut passing = Passing::default();
        let classes = [(); 4].map(|()| passing.enter(true));
        assert_eq!(classes.map(|class| class.load), [0, 1, 1, 2]);
        for (class, duration_ps) in classes.into_iter().zip([100, 200, 300, 400]) {
            passing.took(class, duration_ps, 64);
        }
        let expected = classes.map(|class| passing.expect_ps(class, 64));
        assert_eq!(expected, [100, 250, 250, 400]);
        assert_eq!(passing.expect_ps(Class { to_store: true, load: 9 }, 128), 800);
        assert_eq!(passing.expect_ps(Class { to_store: false, load: 0 }, 64), 0);
        // All have left.
        assert_eq!(passing.enter(true).load, 0);
    }
}
