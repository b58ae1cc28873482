//! A hardware prefetcher of a core: it watches which lines its caches ask the next ones for,
//! and says which lines will probably be asked for next. It never leaves a page: the next one may lie
//! anywhere in memory.
//!
//! Public descriptions of such prefetchers: Intel, "64 and IA-32 Architectures Optimization Reference
//! Manual", data prefetch to L2 and L3 (the streamer follows one stream a page, forwards or backwards,
//! up to 20 lines ahead); J. Fu, J. Patel, B. Janssens, "Stride Directed Prefetching in Scalar
//! Processors", MICRO 1992, by page here instead of by instruction, whose address a recording may lack.

use serde::{Deserialize, Serialize};
use tierscope_units::Problems;

/// What a prefetcher follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PrefetchKind {
    /// The lines behind each line that is asked for.
    NextLine,
    /// A constant distance between accesses to a page, once it has come twice.
    Stride,
    /// A direction of accesses to a page, once two have gone the same way.
    Stream,
}

/// Which caches take the lines of a prefetcher.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum PrefetchInto {
    /// The shared ones; it sees what they are asked for.
    #[default]
    Shared,
    /// The core's own behind its first level, or the only one, and those that the line passes on its way; it sees what
    /// the first level has not.
    Private,
}

/// A hardware prefetcher of each core, into the shared caches or its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinePrefetchSpec {
    /// What it follows: `next-line`, `stride` or `stream`.
    pub kind: PrefetchKind,
    /// Lines that it asks for at most upon each access.
    pub degree: u32,
    /// How far ahead of the access they may be, in lines; of `stride` in strides.
    pub distance: u32,
    /// Pages that it follows at once.
    pub trackers: u32,
    /// Lines that it may be waiting for at once.
    pub outstanding: u32,
    /// Which caches take the lines: `shared`, or `private`, those of the core.
    #[serde(default)]
    pub into: PrefetchInto,
}

impl LinePrefetchSpec {
    /// Collects every semantic mistake below `path`.
    pub fn check(&self, path: &str, problems: &mut Problems) {
        for (key, value) in [
            ("degree", self.degree),
            ("distance", self.distance),
            ("trackers", self.trackers),
            ("outstanding", self.outstanding),
        ] {
            problems.at_least(path, key, value, 1);
            problems.at_most(path, key, value, 1024);
        }
        if self.degree > self.distance && self.distance > 0 {
            problems.add(
                "contradiction",
                format!("{path}.degree"),
                self.degree.to_string(),
                format!("lines are at most {} ahead (distance)", self.distance),
                format!("write {} or less", self.distance),
            );
        }
    }
}

/// What it knows of a page.
#[derive(Clone, Copy, Debug)]
struct Tracker {
    page: u64,
    /// The last line asked for, from the page's beginning.
    last: i64,
    /// The last distance, or its direction: −1, 1; 0 before there is one.
    step: i64,
    /// The furthest line that was prefetched, where `step` is known to go on.
    ahead: i64,
    used: u64,
}

/// A prefetcher of a core.
#[derive(Clone, Debug)]
pub struct LinePrefetcher {
    spec: LinePrefetchSpec,
    lines_of_page: i64,
    page_shift: u32,
    trackers: Vec<Tracker>,
    clock: u64,
}

impl LinePrefetcher {
    /// One that has seen nothing; a page has `1 << page_shift` lines. The description has been checked.
    pub fn new(spec: &LinePrefetchSpec, page_shift: u32) -> Self {
        LinePrefetcher {
            lines_of_page: 1 << page_shift,
            page_shift,
            trackers: Vec::with_capacity(spec.trackers as usize),
            clock: 0,
            spec: spec.clone(),
        }
    }

    /// Lines that it may be waiting for at once.
    pub fn outstanding(&self) -> u32 {
        self.spec.outstanding
    }

    /// Whether its lines go into the core's own caches.
    #[inline]
    pub fn is_private(&self) -> bool {
        self.spec.into == PrefetchInto::Private
    }

    /// A line is asked for: adds the lines to prefetch, the nearest first.
    pub fn observe(&mut self, line: u64, out: &mut Vec<u64>) {
        let page = line >> self.page_shift;
        let base = page << self.page_shift;
        let at = (line - base) as i64;
        let degree = i64::from(self.spec.degree);
        if self.spec.kind == PrefetchKind::NextLine {
            let until = (at + degree).min(self.lines_of_page - 1);
            out.extend((at + 1..=until).map(|line| base + line as u64));
            return;
        }
        let stream = self.spec.kind == PrefetchKind::Stream;
        let (far, lines_of_page) = (i64::from(self.spec.distance), self.lines_of_page);
        let tracker = self.tracker(page, at);
        let step = at - tracker.last;
        if step == 0 {
            return;
        }
        tracker.last = at;
        let step = if stream { step.signum() } else { step };
        if step != tracker.step {
            (tracker.step, tracker.ahead) = (step, at);
            return;
        }
        // What was prefetched lies ahead of the access, or it has been overtaken.
        let overtaken = (tracker.ahead - at) * step.signum() < 0;
        let mut ahead = if overtaken { at } else { tracker.ahead };
        for _ in 0..degree {
            let next = ahead + step;
            let inside = (0..lines_of_page).contains(&next);
            if !inside || (next - at).abs() > far * step.abs() {
                break;
            }
            out.push(base + next as u64);
            ahead = next;
        }
        tracker.ahead = ahead;
    }

    /// What is known of a page: of one that it does not follow, that this is its first line, in the
    /// place of the page that nothing was asked of for longest.
    fn tracker(&mut self, page: u64, at: i64) -> &mut Tracker {
        self.clock += 1;
        let known = self.trackers.iter().position(|tracker| tracker.page == page);
        let place = known.unwrap_or_else(|| {
            let fresh = Tracker { page, last: at, step: 0, ahead: at, used: 0 };
            if self.trackers.len() < self.spec.trackers as usize {
                self.trackers.push(fresh);
                return self.trackers.len() - 1;
            }
            let ages = self.trackers.iter().enumerate().map(|(place, one)| (one.used, place));
            let oldest = ages.min().map_or(0, |(_, place)| place);
            self.trackers[oldest] = fresh;
            oldest
        });
        let tracker = &mut self.trackers[place];
        tracker.used = self.clock;
        tracker
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn of(kind: PrefetchKind, degree: u32, distance: u32) -> LinePrefetcher {
        let spec = LinePrefetchSpec {
            kind,
            degree,
            distance,
            trackers: 2,
            outstanding: 8,
            into: PrefetchInto::Shared,
        };
        LinePrefetcher::new(&spec, 6)
    }

    fn told(prefetcher: &mut LinePrefetcher, lines: &[u64]) -> Vec<Vec<u64>> {
        let told = |line: &u64| {
            let mut out = Vec::new();
            prefetcher.observe(*line, &mut out);
            out
        };
        lines.iter().map(told).collect()
    }

    #[test]
    fn next_lines_end_with_the_page() {
        let mut next = of(PrefetchKind::NextLine, 2, 2);
        assert_eq!(told(&mut next, &[64, 126, 127]), [vec![65, 66], vec![127], vec![]]);
    }

    #[test]
    fn a_stream_is_followed_from_its_third_line_and_stays_ahead() {
        let mut stream = of(PrefetchKind::Stream, 2, 4);
        let steps = told(&mut stream, &[64, 65, 66, 67, 68]);
        assert_eq!(steps, [vec![], vec![], vec![67, 68], vec![69, 70], vec![71, 72]]);
        // At most four ahead; backwards; and with lines left out.
        assert_eq!(told(&mut stream, &[69, 70]), [vec![73], vec![74]]);
        assert_eq!(
            told(&mut stream, &[30, 28, 27, 24]),
            [vec![], vec![], vec![26, 25], vec![23, 22]]
        );
    }

    #[test]
    fn a_stride_has_to_come_twice() {
        let mut stride = of(PrefetchKind::Stride, 1, 2);
        assert_eq!(
            told(&mut stride, &[0, 5, 10, 15, 21, 27]),
            [vec![], vec![], vec![15], vec![20], vec![], vec![33]]
        );
    }

    #[test]
    fn the_page_not_used_for_longest_is_forgotten() {
        let mut stream = of(PrefetchKind::Stream, 1, 8);
        told(&mut stream, &[0, 1, 64, 65, 2]);
        assert_eq!(told(&mut stream, &[128, 3, 66]), [vec![], vec![4], vec![]]);
    }

    proptest! {
        /// Whatever it sees: never more than it may, never beyond the page, never the line itself, and
        /// while a stream goes on no line twice.
        #[test]
        fn what_it_asks_for_is_bounded(
            kind in prop_oneof![
                Just(PrefetchKind::NextLine), Just(PrefetchKind::Stride), Just(PrefetchKind::Stream)
            ],
            degree in 1..5u32,
            more in 0..20u32,
            lines in proptest::collection::vec(0..200u64, 1..200),
        ) {
            let mut prefetcher = of(kind, degree, degree + more);
            for line in lines {
                let mut out = Vec::new();
                prefetcher.observe(line, &mut out);
                prop_assert!(out.len() <= degree as usize);
                prop_assert!(out.iter().all(|one| one >> 6 == line >> 6 && *one != line));
            }
            let mut seen = BTreeSet::new();
            let mut stream = of(PrefetchKind::Stream, degree, degree + more);
            for line in 0..64 {
                let mut out = Vec::new();
                stream.observe(line, &mut out);
                prop_assert!(out.iter().all(|one| seen.insert(*one)));
            }
            prop_assert_eq!(seen, (3..64).collect::<BTreeSet<_>>());
        }
    }
}
