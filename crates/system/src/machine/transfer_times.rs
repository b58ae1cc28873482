//! How long transfers between memory and store take in a sampled run: measured in units, and taken as long between them.

use tierscope_model::os::paging::{Moves, Transfer};

/// What transfers move, as far as the store takes its time for it in another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    /// With force unit access.
    Forced,
    /// Nothing: the device writes what it has buffered.
    Flush,
    /// Nothing: the device forgets something.
    Discard,
}

const KINDS: usize = 5;
/// Sizes, and how much is under way besides, are told apart by powers of two of pages.
const SIZES: usize = 10;

/// What a transfer is one of: its kind, its size, and how much is under way at the store when it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Class {
    kind: usize,
    size: usize,
    load: usize,
}

/// What transfers took, by their classes: kinds, sizes and loads.
#[derive(Clone, Debug)]
pub(super) struct TransferTimes {
    /// In units, the latest counting most: the sum of their times, in picoseconds, and how many they were.
    kept: [[[(f64, f64); SIZES]; SIZES]; KINDS],
    /// The same in the unit under way.
    unit: [[[(u64, u64); SIZES]; SIZES]; KINDS],
}

impl Default for TransferTimes {
    fn default() -> Self {
        TransferTimes {
            kept: [[[(0.0, 0.0); SIZES]; SIZES]; KINDS],
            unit: [[[(0, 0); SIZES]; SIZES]; KINDS],
        }
    }
}

impl Class {
    /// Of a transfer that begins when so many pages are under way.
    pub fn of(transfer: &Transfer, pages_under_way: u64) -> Class {
        let size_of = |pages: u64| (pages.ilog2() as usize).min(SIZES - 1);
        Class {
            kind: kind_of(transfer) as usize,
            size: size_of(transfer.pages.len().max(1) as u64),
            load: size_of(pages_under_way + 1),
        }
    }
}

impl TransferTimes {
    /// A transfer has ended in a unit.
    pub fn took(&mut self, class: Class, duration_ps: u64) {
        let Class { kind, size, load } = class;
        let (sum_ps, count) = &mut self.unit[kind][size][load];
        (*sum_ps, *count) = (*sum_ps + duration_ps, *count + 1);
    }

    /// A unit has ended, against which those before it keep such a weight. What it has met nothing of is as it was
    /// known.
    pub fn end_unit(&mut self, weight: f64) {
        let unit = self.unit.as_flattened_mut().as_flattened_mut();
        for (kept, unit) in self.kept.as_flattened_mut().as_flattened_mut().iter_mut().zip(unit) {
            let (sum_ps, count) = std::mem::take(unit);
            if count > 0 {
                *kept = (kept.0 * weight + sum_ps as f64, kept.1 * weight + count as f64);
            }
        }
    }

    /// What a transfer takes, in picoseconds: the mean of those of its kind that were most like it. `None` where there
    /// was none.
    pub fn expect_ps(&self, class: Class) -> Option<u64> {
        let Class { kind, size, load } = class;
        let classes = (0..SIZES).flat_map(|size| (0..SIZES).map(move |load| (size, load)));
        let met = classes.filter(|(size, load)| self.kept[kind][*size][*load].1 > 0.0);
        let distance = |(other, met): &(usize, usize)| other.abs_diff(size) + met.abs_diff(load);
        let (size, load) = met.min_by_key(distance)?;
        let (sum_ps, count) = self.kept[kind][size][load];
        Some((sum_ps / count).round() as u64)
    }
}

fn kind_of(transfer: &Transfer) -> Kind {
    match transfer.moves {
        Moves::Nothing => Kind::Flush,
        Moves::Discard { .. } => Kind::Discard,
        Moves::Metadata { forced: true } => Kind::Forced,
        _ if transfer.write => Kind::Write,
        _ => Kind::Read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_takes_what_those_took_that_were_most_like_it() {
        let class =
            |kind: Kind, size: usize, load: usize| Class { kind: kind as usize, size, load };
        let mut times = TransferTimes::default();
        assert_eq!(times.expect_ps(class(Kind::Read, 0, 0)), None);
        for (kind, size, load, duration_ps) in [
            (Kind::Read, 0, 0, 20),
            (Kind::Read, 0, 0, 40),
            (Kind::Read, 3, 5, 100),
            (Kind::Write, 5, 0, 700),
        ] {
            times.took(class(kind, size, load), duration_ps);
        }
        assert_eq!(times.expect_ps(class(Kind::Read, 0, 0)), None, "before the unit has ended");
        times.end_unit(0.5);
        let expect =
            |times: &TransferTimes, kind, size, load| times.expect_ps(class(kind, size, load));
        assert_eq!(expect(&times, Kind::Read, 0, 0), Some(30));
        assert_eq!(expect(&times, Kind::Read, 1, 1), Some(30));
        assert_eq!(expect(&times, Kind::Read, 2, 9), Some(100));
        assert_eq!(expect(&times, Kind::Write, 0, 9), Some(700));
        assert_eq!(expect(&times, Kind::Flush, 0, 0), None);
        // The two of the unit before count half as much as one of this; what this has none of stays.
        times.took(class(Kind::Read, 0, 0), 60);
        times.end_unit(0.5);
        assert_eq!(expect(&times, Kind::Read, 0, 0), Some(45));
        assert_eq!(expect(&times, Kind::Read, 3, 5), Some(100));
    }
}
