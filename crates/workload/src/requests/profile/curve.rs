//! Stack distances counted, and what follows from them for caches of every size.

use serde::Serialize;
use std::collections::BTreeMap;

/// Steps into which each doubling of a distance is divided.
const STEPS: u64 = 4;

/// Touches whose stack distance lies in a range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reuse {
    /// The largest distance of the range, in blocks; it begins behind that of the row before. Nothing
    /// for first touches.
    pub distance_blocks: Option<u64>,
    /// How many: an estimate where blocks were sampled.
    pub touches: f64,
}

/// What a cache of a size misses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MissRatio {
    /// Its size.
    pub cache_bytes: u64,
    /// Share of touches that miss, first touches included.
    pub miss_ratio: f64,
}

/// Distances, counted by range.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    /// Weight by the largest distance of each range.
    ranges: BTreeMap<u64, f64>,
    cold: f64,
}

/// The largest distance of the range that holds a distance: 1, 2, 3, 4, then four ranges for each
/// doubling.
fn end_of_range(distance: u64) -> u64 {
    if distance <= STEPS {
        return distance;
    }
    let step = 1 << (distance - 1).ilog2() >> STEPS.ilog2();
    distance.next_multiple_of(step)
}

impl Histogram {
    /// A touch of a block that had not been touched before.
    #[inline]
    pub fn add_cold(&mut self, weight: f64) {
        self.cold += weight;
    }

    /// A touch at a distance.
    #[inline]
    pub fn add(&mut self, distance: u64, weight: f64) {
        *self.ranges.entry(end_of_range(distance)).or_default() += weight;
    }

    /// Lets weights sum to the number of touches: what a sample has too much or too little of is mostly
    /// what is touched most often, at the shortest distances (SHARDS, §3.3: the adjustment). How much
    /// that was.
    pub fn adjust(&mut self, touches: u64) -> f64 {
        let mut more = touches as f64 - self.cold - self.ranges.values().sum::<f64>();
        let adjusted = more.abs();
        for weight in self.ranges.values_mut() {
            let given = more.max(-*weight);
            *weight += given;
            more -= given;
            if more == 0.0 {
                break;
            }
        }
        adjusted
    }

    /// Every range that has touches, shortest distances first, first touches last.
    pub fn rows(&self) -> Vec<Reuse> {
        let known = self.ranges.iter().filter(|(_, touches)| **touches > 0.0);
        let row = |(distance, touches): (&u64, &f64)| Reuse {
            distance_blocks: Some(*distance),
            touches: *touches,
        };
        let cold = Reuse { distance_blocks: None, touches: self.cold };
        known.map(row).chain((self.cold > 0.0).then_some(cold)).collect()
    }

    /// Misses of caches whose sizes are the ends of ranges, up to one that holds everything.
    pub fn miss_ratios(&self, touches: u64, block_bytes: u64) -> Vec<MissRatio> {
        if touches == 0 {
            return Vec::new();
        }
        let mut misses = self.cold + self.ranges.values().sum::<f64>();
        let all = misses.max(f64::MIN_POSITIVE);
        let first = self.ranges.first_key_value().is_none_or(|(distance, _)| *distance > 1);
        let one = first.then_some((1, 0.0));
        let rows = one.into_iter().chain(self.ranges.iter().map(|(size, hits)| (*size, *hits)));
        rows.map(|(size, hits)| {
            misses -= hits;
            MissRatio {
                cache_bytes: size.saturating_mul(block_bytes),
                miss_ratio: (misses / all).clamp(0.0, 1.0),
            }
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_short_and_their_ends_belong_to_them() {
        let ends: Vec<u64> = (1..=16).map(end_of_range).collect();
        assert_eq!(ends, [1, 2, 3, 4, 5, 6, 7, 8, 10, 10, 12, 12, 14, 14, 16, 16]);
        for distance in (1..4000).chain([1 << 40, (1 << 40) + 1]) {
            let end = end_of_range(distance);
            assert!(end >= distance && end <= distance + distance / STEPS, "{distance}: {end}");
            assert_eq!(end_of_range(end), end);
        }
    }
}
