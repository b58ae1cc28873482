//! Requests made by a pattern and a seed, for comparisons with other simulators and for tests.

use super::{MemoryRequest, RequestSource};
use crate::stream::StreamError;
use tierscope_kernel::{Counter, Permutation};

/// Bytes of a line.
const LINE_BYTES: u64 = 64;

/// Which line each request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Any line with equal chance.
    Random,
    /// One after the other.
    Sequential,
    /// Some lines much more often than others: the chance of a line falls with its rank as in Zipf's
    /// law of exponent 1, each octave of ranks being as likely as the others, and equally likely
    /// within. Ranks lie scattered over memory.
    Zipf,
}

/// Requests of a pattern, one every few cycles. Equal fields give equal requests on every computer:
/// everything is made of integers.
#[derive(Clone, Debug)]
pub struct Patterned {
    pattern: Pattern,
    /// How many there are.
    count: u64,
    /// Lines that they lie in: a power of two.
    lines: u64,
    /// Cycles from one to the next.
    gap_cycles: u64,
    /// How many of a hundred are writes.
    write_percent: u64,
    choices: Counter,
    places: Permutation,
    next: u64,
}

impl Patterned {
    /// `count` requests within `memory_bytes`, one every `gap_cycles`, of which `write_percent` of a
    /// hundred are writes.
    ///
    /// # Panics
    /// Where the memory is no power of two of lines.
    pub fn new(
        pattern: Pattern,
        count: u64,
        memory_bytes: u64,
        gap_cycles: u64,
        write_percent: u64,
        seed: u64,
    ) -> Self {
        let lines = memory_bytes / LINE_BYTES;
        assert!(lines.is_power_of_two(), "{memory_bytes} bytes are no power of two of lines");
        Patterned {
            pattern,
            count,
            lines,
            gap_cycles,
            write_percent,
            choices: Counter::stream(seed, "patterned requests"),
            places: Permutation::new(seed, "places of patterned requests", lines),
            next: 0,
        }
    }

    fn line(&self, number: u64) -> u64 {
        match self.pattern {
            Pattern::Random => self.choices.below_at(3 * number, self.lines),
            Pattern::Sequential => number % self.lines,
            // One line has no ranks.
            Pattern::Zipf if self.lines == 1 => 0,
            Pattern::Zipf => {
                let octaves = u64::from(self.lines.trailing_zeros());
                let octave = self.choices.below_at(3 * number, octaves);
                let rank = (1 << octave) + self.choices.below_at(3 * number + 1, 1 << octave);
                self.places.at(rank)
            }
        }
    }
}

impl RequestSource for Patterned {
    fn next(&mut self) -> Result<Option<MemoryRequest>, StreamError> {
        if self.next >= self.count {
            return Ok(None);
        }
        let number = self.next;
        self.next += 1;
        Ok(Some(MemoryRequest {
            address: self.line(number) * LINE_BYTES,
            write: self.choices.below_at(3 * number + 2, 100) < self.write_percent,
            cycle: Some(number * self.gap_cycles),
        }))
    }

    fn place(&self) -> String {
        format!("request {}", self.next)
    }

    fn fork(&self) -> Result<Box<dyn RequestSource>, StreamError> {
        Ok(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn all(mut source: Patterned) -> Vec<MemoryRequest> {
        std::iter::from_fn(|| source.next().unwrap()).collect()
    }

    #[test]
    fn requests_are_as_many_as_asked_for_within_memory_and_at_their_cycles() {
        for pattern in [Pattern::Random, Pattern::Sequential, Pattern::Zipf] {
            let requests = all(Patterned::new(pattern, 10_000, 1 << 20, 7, 30, 1));
            assert_eq!(requests.len(), 10_000);
            for (number, one) in requests.iter().enumerate() {
                assert!(one.address < 1 << 20 && one.address % 64 == 0);
                assert_eq!(one.cycle, Some(7 * number as u64));
            }
            let writes = requests.iter().filter(|one| one.write).count();
            assert!((2_850..3_150).contains(&writes), "{writes}");
            assert_eq!(requests, all(Patterned::new(pattern, 10_000, 1 << 20, 7, 30, 1)));
        }
    }

    #[test]
    fn memory_of_one_line_takes_every_pattern() {
        for pattern in [Pattern::Random, Pattern::Sequential, Pattern::Zipf] {
            let requests = all(Patterned::new(pattern, 100, LINE_BYTES, 1, 50, 1));
            assert_eq!(requests.len(), 100);
            assert!(requests.iter().all(|one| one.address == 0), "{pattern:?}");
        }
    }

    #[test]
    fn octaves_of_ranks_are_equally_likely() {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for one in all(Patterned::new(Pattern::Zipf, 100_000, 1 << 20, 1, 0, 3)) {
            *counts.entry(one.address).or_default() += 1;
        }
        let mut often: Vec<u64> = counts.into_values().collect();
        often.sort_unstable_by(|a, b| b.cmp(a));
        // Fourteen octaves: the first rank alone has a fourteenth, and so have the next two.
        assert!((6_800..7_500).contains(&often[0]), "{}", often[0]);
        assert!((6_800..7_500).contains(&(often[1] + often[2])), "{often:?}");
    }
}
