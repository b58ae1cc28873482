//! What a program used between two windows of a recording, in the order of its last use: what caches,
//! tables and memory need to be as they would be, at a fraction of the accesses.
//!
//! A cache that lets go what was used least recently holds the same lines after each line's last use
//! alone as after all uses (Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems
//! Journal 9(2), 1970); Wenisch et al., "Simulation Sampling with Live-Points", ISPASS 2006, store warmed
//! state by it. Of lines that were not used for long their pages remain.

use crate::op::Op;
use tierscope_kernel::NumberMap;

/// Address bits of a line of 64 B, and of a page of 4 KiB.
const LINE_SHIFT: u32 = 6;
const PAGE_SHIFT: u32 = 12;
/// Lines that are told at most, 16 MiB of them; and pages of those used before, 4 GiB of them.
const MOST_LINES: usize = 1 << 18;
const MOST_PAGES: usize = 1 << 20;
/// Lines of the small direct-mapped cache in front, 32 KiB: what it serves has been used just before.
const NEAR_LINES: usize = 512;
/// Marks of an entry, in the bits of its address below the line: there is one, and it was written.
const USED: u64 = 1;
const WRITTEN: u64 = 2;
/// Bytes of a recording that a use takes at most before compression.
pub const MOST_USE_BYTES: u64 = 16;

/// Lines and pages used since it was emptied.
#[derive(Default)]
pub struct Recency {
    near: Box<[u64]>,
    /// Lines that have come into it since it was emptied.
    near_lines: usize,
    lines: Order,
    pages: Order,
    /// Entries of each at most; 0 for as many as there are by default.
    most: usize,
}

impl Recency {
    /// With no more than so many lines, and as many pages.
    pub fn with_most(most: usize) -> Recency {
        Recency { most: most.max(1), ..Recency::default() }
    }

    /// The program uses the bytes that an operation says.
    #[inline]
    pub fn access(&mut self, op: Op, write: bool) {
        let first = op.word >> LINE_SHIFT;
        let last = op.word.saturating_add(u64::from(op.size().max(1)) - 1) >> LINE_SHIFT;
        for line in first..=last {
            self.use_line(line << LINE_SHIFT, write);
        }
    }

    #[inline]
    fn use_line(&mut self, address: u64, write: bool) {
        if self.near.is_empty() {
            self.near = vec![0; NEAR_LINES].into();
        }
        let entry = &mut self.near[(address >> LINE_SHIFT) as usize % NEAR_LINES];
        let used = address | USED | if write { WRITTEN } else { 0 };
        if *entry | WRITTEN == used | WRITTEN {
            *entry |= used;
            return;
        }
        let left = std::mem::replace(entry, used);
        if left == 0 {
            self.near_lines += 1;
        } else {
            self.take(left);
        }
    }

    /// A line has left the cache in front.
    fn take(&mut self, entry: u64) {
        let most = |by_default: usize| match self.most {
            0 => by_default,
            most => most.min(by_default),
        };
        let (most_lines, most_pages) = (most(MOST_LINES), most(MOST_PAGES));
        self.lines.take(entry, LINE_SHIFT);
        if self.lines.entries.len() >= 2 * most_lines {
            let Recency { lines, pages, .. } = self;
            lines.shorten(LINE_SHIFT, most_lines, |old| pages.take(old, PAGE_SHIFT));
            if pages.entries.len() >= 2 * most_pages {
                pages.shorten(PAGE_SHIFT, most_pages, |_| {});
            }
        }
    }

    /// Uses at most that there are to tell.
    pub fn most_uses(&self) -> u64 {
        (self.near_lines + self.lines.places.len() + self.pages.places.len()) as u64
    }

    /// Forgets what was used in any of these ranges.
    pub fn forget(&mut self, ranges: &Ranges) {
        let gone = |entry: &u64| ranges.hold(entry & !(USED | WRITTEN));
        self.near.iter_mut().filter(|entry| gone(entry)).for_each(|entry| *entry = 0);
        self.lines.retain(LINE_SHIFT, |entry| !gone(entry));
        self.pages.retain(PAGE_SHIFT, |entry| !gone(entry));
    }

    /// Appends what was used, the oldest first, and forgets it.
    pub fn tell(&mut self, kept: &mut Vec<Op>) {
        for index in 0..self.near.len() {
            match std::mem::take(&mut self.near[index]) {
                0 => {}
                entry => self.take(entry),
            }
        }
        self.near_lines = 0;
        for order in [&mut self.pages, &mut self.lines] {
            order.entries.retain(|entry| *entry != 0);
            sort_by_age(&mut order.entries);
            let used = order.entries.iter();
            kept.extend(used.map(|e| Op::used(e & !(USED | WRITTEN), e & WRITTEN != 0)));
            order.entries.clear();
            order.places.clear();
        }
    }
}

/// Sorts entries by address among those of about the same age, which takes half of the bytes where a
/// program jumps about: the first is the oldest, and none comes to lie further from its place than an
/// eighth of its distance from the end. The latest keep their order.
fn sort_by_age(entries: &mut [u64]) {
    const KEPT: usize = 4096;
    let mut left = entries.len();
    let mut start = 0;
    while left > KEPT {
        let length = left / 8;
        entries[start..start + length].sort_unstable();
        (start, left) = (start + length, left - length);
    }
}

/// Entries in the order of their last use, each once.
#[derive(Default)]
struct Order {
    /// 0 where one was that came again.
    entries: Vec<u64>,
    /// Where the entry of a unit, a line or a page, is.
    places: NumberMap<u32>,
}

impl Order {
    #[inline]
    fn take(&mut self, mut entry: u64, shift: u32) {
        let place = self.entries.len() as u32;
        if let Some(before) = self.places.insert(entry >> shift, place) {
            entry |= std::mem::take(&mut self.entries[before as usize]) & WRITTEN;
        }
        self.entries.push(entry);
    }

    /// Keeps the latest `most` and closes up; the others go, the oldest first.
    fn shorten(&mut self, shift: u32, most: usize, mut leaves: impl FnMut(u64)) {
        let mut over = self.places.len().saturating_sub(most);
        self.retain(shift, |entry| {
            let stays = over == 0;
            if !stays {
                over -= 1;
                leaves(*entry);
            }
            stays
        });
    }

    /// Keeps those that are to stay, and closes up.
    fn retain(&mut self, shift: u32, mut stays: impl FnMut(&u64) -> bool) {
        self.entries.retain(|entry| *entry != 0 && stays(entry));
        self.places.clear();
        let places = self.entries.iter().zip(0..).map(|(entry, place)| (entry >> shift, place));
        self.places.extend(places);
    }
}

/// Ranges of addresses, in order, none of which touches another.
#[derive(Default)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Of starts and ends in any order.
    pub fn of(mut ranges: Vec<(u64, u64)>) -> Ranges {
        ranges.sort_unstable();
        ranges.dedup_by(|next, before| {
            let joined = next.0 <= before.1;
            before.1 = if joined { before.1.max(next.1) } else { before.1 };
            joined
        });
        Ranges(ranges)
    }

    fn hold(&self, address: u64) -> bool {
        let after = self.0.partition_point(|(start, _)| *start <= address);
        after > 0 && address < self.0[after - 1].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(recency: &mut Recency) -> Vec<(u64, bool)> {
        let mut ops = Vec::new();
        recency.tell(&mut ops);
        ops.iter().map(|op| (op.word, op.flags() != 0)).collect()
    }

    proptest! {
        #[test]
        fn each_line_is_told_once_in_the_order_of_its_last_use_and_written_if_it_ever_was(
            uses in proptest::collection::vec((0u64..3000, any::<bool>()), 1..4000)
        ) {
            let mut recency = Recency::default();
            // Every line of the cache in front has been used, or has another behind it: so that the
            // order is that of uses, all but those of its lines.
            let mut last: Vec<(u64, bool)> = Vec::new();
            for (line, write) in &uses {
                recency.access(Op::load(line * 64 + 8, 8, 1), *write);
                let before = last.iter().position(|(known, _)| known == line);
                let written = before.is_some_and(|at| last.remove(at).1);
                last.push((*line, written | *write));
            }
            let found = told(&mut recency);
            let mut sorted: Vec<_> = found.iter().map(|(at, write)| (at / 64, *write)).collect();
            // Lines that share a place in front keep their order.
            for place in 0..NEAR_LINES as u64 {
                let of = |all: &[(u64, bool)]| -> Vec<u64> {
                    all.iter().map(|it| it.0).filter(|line| line % 512 == place).collect()
                };
                prop_assert_eq!(of(&sorted), of(&last));
            }
            sorted.sort_unstable();
            last.sort_unstable();
            prop_assert_eq!(sorted, last);
            prop_assert_eq!(told(&mut recency), []);
        }
    }

    #[test]
    fn of_lines_not_used_for_long_their_pages_remain() {
        let mut recency = Recency::with_most(600);
        (0..64 * 100u64).for_each(|line| recency.access(Op::load(line * 64, 8, 1), line == 70));
        let found = told(&mut recency);
        let (pages, lines) = found.split_at(found.iter().position(|it| it.0 / 4096 >= 60).unwrap());
        assert!(lines.len() < 64 * 40 && found.len() < 1400, "{} {}", lines.len(), found.len());
        let numbers: Vec<u64> = found.iter().map(|(at, _)| at / 4096).collect();
        let last = found.len() - NEAR_LINES;
        assert!(numbers[..last].is_sorted(), "the oldest first, those in the cache in front last");
        assert!((0..100).all(|page| numbers.contains(&page)), "none is left out");
        assert_eq!(pages.iter().filter(|it| it.1).count(), 1);
        assert_eq!(pages.iter().find(|it| it.1).unwrap().0 / 4096, 1, "of line 70");
    }

    #[test]
    fn those_of_about_the_same_age_are_sorted() {
        let mut entries: Vec<u64> = (0..100_000u64).map(|n| n * 0x9E37_79B1 % (1 << 32)).collect();
        let before = entries.clone();
        sort_by_age(&mut entries);
        assert_eq!(entries[96_000..], before[96_000..]);
        assert!(entries[..12_500].is_sorted() && !entries[..12_501].is_sorted());
        for (place, entry) in before.iter().enumerate().step_by(997) {
            let found = entries.iter().position(|it| it == entry).unwrap();
            let age = before.len() - place.min(found);
            assert!(found.abs_diff(place) <= age / 8, "{place} is at {found}");
        }
    }

    #[test]
    fn what_was_used_in_a_range_is_forgotten() {
        let mut recency = Recency::default();
        (0..2000u64).for_each(|line| recency.access(Op::load(line * 64, 8, 1), false));
        let ranges = vec![(64 * 900, 64 * 2000), (64 * 10, 64 * 500), (64 * 400, 64 * 800)];
        recency.forget(&Ranges::of(ranges));
        let mut left: Vec<u64> = told(&mut recency).iter().map(|(at, _)| at / 64).collect();
        left.sort_unstable();
        assert_eq!(left, (0..10).chain(800..900).collect::<Vec<_>>());
    }
}
