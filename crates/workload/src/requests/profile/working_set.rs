//! Different blocks touched in each of consecutive windows, of a trace whose length is not known before
//! its end: windows double as it grows, and stay exact.
//!
//! A touch is the first of its block in a window if the touch before lies outside. Of windows of 2^l
//! touches that holds for all l up to the highest bit in which the numbers of the two touches differ:
//! one count by that bit, for each of the finest windows, gives all coarser ones.

use serde::Serialize;

/// Windows that are kept at most.
const MOST_WINDOWS: usize = 512;
/// Windows that are told at most.
const MOST_TOLD: usize = 128;
const BITS: usize = 65;

/// Different blocks touched in a window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Window {
    /// Number of the touch that ends it, from 1.
    pub end_touches: u64,
    /// How many different blocks: an estimate where blocks were sampled.
    pub blocks: f64,
}

/// Counts of all windows so far.
#[derive(Clone, Debug, Default)]
pub(super) struct WorkingSet {
    /// Touches of the finest windows, as a power of two.
    level: u32,
    /// For each of them, weight of touches by the highest window level for which they are first.
    windows: Vec<[f64; BITS]>,
}

impl WorkingSet {
    /// A touch, and the one of its block before, both numbered from 0 among all touches.
    #[inline]
    pub fn touch(&mut self, now: u64, before: Option<u64>, weight: f64) {
        let mut index = (now >> self.level) as usize;
        while index >= MOST_WINDOWS {
            self.coarsen();
            index = (now >> self.level) as usize;
        }
        if index >= self.windows.len() {
            self.windows.resize(index + 1, [0.0; BITS]);
        }
        // The windows of level l of two numbers differ where their bits from l on do.
        let first_up_to = match before {
            None => BITS - 1,
            Some(before) => match (now ^ before).checked_ilog2() {
                Some(bit) => bit as usize,
                None => return,
            },
        };
        self.windows[index][first_up_to] += weight;
    }

    /// Windows twice as long.
    fn coarsen(&mut self) {
        self.level += 1;
        let merged = self.windows.chunks(2).map(|pair| {
            let mut sum = pair[0];
            for other in &pair[1..] {
                sum.iter_mut().zip(other).for_each(|(own, more)| *own += more);
            }
            sum
        });
        self.windows = merged.collect();
    }

    /// All windows, of a trace of so many touches.
    pub fn windows(mut self, touches: u64) -> Vec<Window> {
        while self.windows.len() > MOST_TOLD {
            self.coarsen();
        }
        let level = self.level as usize;
        let window = |(number, counts): (u64, &[f64; BITS])| Window {
            end_touches: ((number + 1) << self.level).min(touches),
            blocks: counts[level..].iter().sum(),
        };
        (0u64..).zip(&self.windows).map(window).collect()
    }
}
