//! The cache against plain sets.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

/// What is asked of the cache.
#[derive(Clone, Debug)]
enum Step {
    Read(u64, u64),
    Keep(u64),
    Write(u64, u64),
    Drop(u64, u64),
    Take(usize, u64),
    /// The run that was taken first has been written.
    Written,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..24u64, 1..5u64).prop_map(|(first, count)| Step::Read(first, count)),
        3 => (0..24u64).prop_map(Step::Keep),
        5 => (0..24u64, 1..5u64).prop_map(|(first, count)| Step::Write(first, count)),
        1 => (0..24u64, 1..9u64).prop_map(|(first, count)| Step::Drop(first, count)),
        3 => (0..2usize, 1..4u64).prop_map(|(drive, most)| Step::Take(drive, most)),
        3 => Just(Step::Written),
    ];
    prop::collection::vec(step, 0..200)
}

/// Pages, odd and even ones on a drive each.
fn pages(first: u64, count: u64) -> impl Iterator<Item = (usize, u64)> + Clone {
    (first..first + count).map(|page| ((page % 2) as usize, page / 2))
}

proptest! {
    #[test]
    fn the_cache_equals_plain_sets(capacity in 1..12u64, steps in steps()) {
        let mut cache = Cache::new(capacity, 2);
        // Clean pages, the least recently used first; what waits to be written, and what is being.
        let mut clean: Vec<(usize, u64)> = Vec::new();
        let mut dirty: BTreeSet<(usize, u64)> = BTreeSet::new();
        let mut writing: BTreeSet<(usize, u64)> = BTreeSet::new();
        // What is being written and is to be written again.
        let mut again: BTreeSet<(usize, u64)> = BTreeSet::new();
        let (mut at, mut runs) = ([0u64; 2], VecDeque::new());
        for step in steps {
            match step {
                Step::Read(first, count) => {
                    let known = |page: &(usize, u64)| {
                        clean.contains(page) || dirty.contains(page) || writing.contains(page)
                    };
                    let has = pages(first, count).all(|page| known(&page));
                    prop_assert_eq!(cache.read(pages(first, count)), has);
                    for page in pages(first, count).filter(|_| has) {
                        if clean.contains(&page) {
                            clean.retain(|other| *other != page);
                            clean.push(page);
                        }
                    }
                }
                Step::Keep(page) => {
                    let page = pages(page, 1).next().unwrap();
                    cache.keep(page);
                    if !dirty.contains(&page) && !writing.contains(&page) {
                        let was = clean.contains(&page);
                        clean.retain(|other| *other != page);
                        let full = clean.len() + dirty.len() + writing.len() >= capacity as usize;
                        if full && !was && !clean.is_empty() {
                            clean.remove(0);
                        }
                        if was || clean.len() + dirty.len() + writing.len() < capacity as usize {
                            clean.push(page);
                        }
                    }
                }
                Step::Write(first, count) => {
                    let is_new = |page: &(usize, u64)| !dirty.contains(page) && !writing.contains(page);
                    let new = pages(first, count).filter(is_new).count();
                    let takes = dirty.len() + writing.len() + new <= capacity as usize;
                    prop_assert_eq!(cache.write(pages(first, count)), takes);
                    for page in pages(first, count).filter(|_| takes) {
                        clean.retain(|other| *other != page);
                        if writing.contains(&page) {
                            again.insert(page);
                        } else {
                            dirty.insert(page);
                        }
                    }
                    while clean.len() + dirty.len() + writing.len() > capacity as usize {
                        clean.remove(0);
                    }
                }
                Step::Drop(first, count) => {
                    let dropped: Vec<_> = pages(first, count).collect();
                    for drive in 0..2 {
                        let mut of: Vec<_> =
                            dropped.iter().filter(|page| page.0 == drive).map(|page| page.1).collect();
                        of.sort_unstable();
                        if let (Some(first), Some(last)) = (of.first(), of.last()) {
                            cache.drop_range(drive, *first..*last + 1);
                        }
                    }
                    clean.retain(|page| !dropped.contains(page));
                    dirty.retain(|page| !dropped.contains(page));
                    again.retain(|page| !dropped.contains(page));
                }
                Step::Take(drive, most) => {
                    let mine: Vec<u64> =
                        dirty.iter().filter(|page| page.0 == drive).map(|page| page.1).collect();
                    let first = mine.iter().find(|page| **page >= at[drive]).or(mine.first());
                    let count = first.map(|first| {
                        (0..most).take_while(|n| mine.contains(&(first + n))).count() as u64
                    });
                    let run = first.copied().zip(count);
                    prop_assert_eq!(cache.take_run(drive, most), run);
                    if let Some((first, count)) = run {
                        at[drive] = first + count;
                        for page in first..first + count {
                            dirty.remove(&(drive, page));
                            writing.insert((drive, page));
                        }
                        runs.push_back((drive, first, count));
                    }
                }
                Step::Written => {
                    let Some((drive, first, count)) = runs.pop_front() else { continue };
                    cache.written(drive, first, count);
                    for page in (first..first + count).map(|page| (drive, page)) {
                        writing.remove(&page);
                        if again.remove(&page) {
                            dirty.insert(page);
                        } else {
                            clean.push(page);
                        }
                    }
                }
            }
            let order: Vec<_> = cache.clean.values().copied().collect();
            prop_assert_eq!(&order, &clean);
            let waits: Vec<_> = (0..2usize)
                .flat_map(|drive| cache.dirty[drive].iter().map(move |page| (drive, *page)))
                .collect();
            prop_assert_eq!(waits, dirty.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(cache.pages.len(), clean.len() + dirty.len() + writing.len());
        }
    }
}
