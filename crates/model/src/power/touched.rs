//! Which lines a judge has to look at anew.

use std::ops::Range;

/// How many ranges there may be before they are put together.
const LEAST_RANGES: usize = 4096;

/// Lines of which something may have changed; nothing is noted before [`Touched::begin`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Touched {
    ranges: Option<Vec<Range<u64>>>,
    /// How many ranges there are when they are put together next.
    most: usize,
}

impl Touched {
    /// From now on.
    pub(crate) fn begin(&mut self) {
        *self = Touched::following();
    }

    /// Nothing yet, and what is added from now on.
    pub(crate) fn following() -> Self {
        Touched { ranges: Some(Vec::new()), most: LEAST_RANGES }
    }

    /// Takes all that another has.
    pub(crate) fn append(&mut self, other: &mut Touched) {
        self.extend(&other.take());
    }

    /// All of these.
    pub(crate) fn extend(&mut self, ranges: &[Range<u64>]) {
        ranges.iter().for_each(|range| self.add(range.start, range.end - range.start));
    }

    /// So many lines from `first` on.
    #[inline]
    pub(crate) fn add(&mut self, first: u64, lines: u64) {
        let Some(ranges) = &mut self.ranges else { return };
        let end = first + lines;
        if let Some(last) = ranges.last_mut()
            && first <= last.end
            && last.start <= end
        {
            *last = first.min(last.start)..end.max(last.end);
            return;
        }
        ranges.push(first..end);
        if ranges.len() >= self.most {
            join(ranges);
            self.most = LEAST_RANGES.max(2 * ranges.len());
        }
    }

    /// All there are, of which nothing is known from now on.
    pub(crate) fn take(&mut self) -> Vec<Range<u64>> {
        self.most = LEAST_RANGES;
        self.ranges.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// Puts ranges in order, none of which touches another.
pub(super) fn join(ranges: &mut Vec<Range<u64>>) {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, kept| {
        let joins = next.start <= kept.end;
        if joins {
            kept.end = kept.end.max(next.end);
        }
        joins
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn ranges_hold_what_was_added_and_nothing_else(
            added in prop::collection::vec((0..400u64, 1..9u64), 0..80), most in 1..9usize,
        ) {
            let mut touched = Touched::default();
            touched.add(3, 1);
            prop_assert!(touched.take().is_empty());
            touched.begin();
            touched.most = most;
            for &(first, lines) in &added {
                touched.add(first, lines);
            }
            let mut ranges = touched.take();
            join(&mut ranges);
            prop_assert!(ranges.windows(2).all(|two| two[0].end < two[1].start));
            let found: Vec<u64> = ranges.into_iter().flatten().collect();
            let all: BTreeSet<u64> =
                added.iter().flat_map(|&(first, lines)| first..first + lines).collect();
            prop_assert!(found.into_iter().eq(all));
            prop_assert!(touched.take().is_empty());
        }
    }
}
