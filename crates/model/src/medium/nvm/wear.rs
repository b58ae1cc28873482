//! How often each line has been written.

use tierscope_kernel::CowMap;

/// Writes of the lines of a memory. Only lines that were written take memory.
#[derive(Clone, Debug)]
pub struct Wear {
    /// Writes of each line, by its place.
    writes: CowMap<u32>,
    most: u32,
    written_lines: u64,
    total: u64,
    /// As [`WearCounts::lines_by_writes`].
    by_writes: LinesByWrites,
}

/// Lines by how often they were written: at place `k` those from 2^k times on, and not 2^(k + 1) times.
pub type LinesByWrites = [u64; 32];

/// What lines have been through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WearCounts {
    /// Writes of the line that was written most.
    pub most: u32,
    /// Lines that were ever written.
    pub lines: u64,
    /// Writes of all of them.
    pub total: u64,
    /// The lines that were ever written, by how often.
    pub lines_by_writes: LinesByWrites,
}

impl WearCounts {
    /// Of these lines and others.
    #[must_use]
    pub fn plus(self, other: WearCounts) -> Self {
        WearCounts {
            most: self.most.max(other.most),
            lines: self.lines + other.lines,
            total: self.total + other.total,
            lines_by_writes: std::array::from_fn(|k| {
                self.lines_by_writes[k] + other.lines_by_writes[k]
            }),
        }
    }
}

impl Wear {
    /// Lines that were never written.
    pub fn new() -> Self {
        Wear {
            writes: CowMap::new(0),
            most: 0,
            written_lines: 0,
            total: 0,
            by_writes: LinesByWrites::default(),
        }
    }

    /// The same, shared until one of the two changes it.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Wear { writes: self.writes.fork(), ..*self }
    }

    /// The line at `place` is written.
    #[inline]
    pub fn write(&mut self, place: u64) {
        let writes = self.writes.get_mut(place);
        self.written_lines += u64::from(*writes == 0);
        let before = *writes;
        *writes = writes.saturating_add(1);
        if writes.is_power_of_two() && *writes != before {
            let class = writes.trailing_zeros() as usize;
            self.by_writes[class] += 1;
            if class > 0 {
                self.by_writes[class - 1] -= 1;
            }
        }
        self.most = self.most.max(*writes);
        self.total += 1;
    }

    /// How often the line at `place` was written.
    pub fn of(&self, place: u64) -> u32 {
        self.writes.get(place)
    }

    /// What is known of all lines.
    pub fn counts(&self) -> WearCounts {
        WearCounts {
            most: self.most,
            lines: self.written_lines,
            total: self.total,
            lines_by_writes: self.by_writes,
        }
    }
}

impl Default for Wear {
    fn default() -> Self {
        Wear::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_and_the_sum_are_those_of_the_lines() {
        let mut wear = Wear::new();
        for place in [3, 1 << 40, 3, 3, 7] {
            wear.write(place);
        }
        let mut lines_by_writes = [0; 32];
        lines_by_writes[..2].copy_from_slice(&[2, 1]);
        assert_eq!(wear.counts(), WearCounts { most: 3, lines: 3, total: 5, lines_by_writes });
        assert_eq!([3, 7, 8].map(|place| wear.of(place)), [3, 1, 0]);
    }
}
