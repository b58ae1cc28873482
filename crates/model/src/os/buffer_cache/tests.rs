use super::*;
use proptest::prelude::*;

pub fn spec() -> BufferCacheSpec {
    BufferCacheSpec {
        capacity: Size::from_bytes(16 * 4096),
        ways: 16,
        replacement: PolicyKind::Lru,
        read_slowdown: 400.0,
        program_slowdown: 1000.0,
        read_time: None,
        program_time: None,
        on_hit: OnHit::Move,
        insertion: Insertion::Synchronous,
        queue_pages: 4,
        readahead: HeldPages::Ignore,
    }
}

fn cache(change: impl FnOnce(&mut BufferCacheSpec)) -> BufferCache {
    let mut spec = spec();
    change(&mut spec);
    BufferCache::new(&spec, 4096, 4.096e9, 1).expect("it has a capacity")
}

const US: u64 = 1_000_000;

#[test]
fn slowdowns_are_multiples_of_the_time_of_dram_and_times_take_their_place() {
    // 4096 bytes at 4.096 GB/s take a microsecond.
    assert_eq!(spec().times_ps(4096, 4.096e9), (400 * US, 1000 * US));
    assert_eq!(spec().times_ps(8192, 4.096e9), (800 * US, 2000 * US));
    let time = Some(Duration::from_picoseconds(7 * US));
    let absolute = BufferCacheSpec { read_time: time, program_time: time, ..spec() };
    assert_eq!(absolute.times_ps(4096, 4.096e9), (7 * US, 7 * US));
}

#[test]
fn no_capacity_is_no_cache() {
    let none = BufferCacheSpec { capacity: Size::from_bytes(0), ..spec() };
    assert!(BufferCache::new(&none, 4096, 1e9, 1).is_none());
}

#[test]
fn what_waits_to_be_programmed_is_bounded_and_goes_one_by_one() {
    let mut cache = cache(|spec| {
        spec.insertion = Insertion::Asynchronous;
        spec.queue_pages = 2;
    });
    let at_once = Entered::Programmed { stall_ps: 0 };
    assert_eq!([1, 2, 3].map(|page| cache.enter(page, 0)), [at_once, at_once, Entered::Dropped]);
    assert_eq!(cache.enter(3, 1000 * US - 1), Entered::Dropped, "the first is not done yet");
    assert_eq!(cache.enter(3, 1000 * US), at_once);
    assert_eq!(cache.enter(4, 1000 * US), Entered::Dropped, "2 and 3 wait");
    // 3 began when 2 was done.
    assert_eq!(cache.enter(4, 2000 * US), at_once);
    assert_eq!((cache.counters.insertions, cache.counters.dropped), (4, 3));
}

#[test]
fn slips_of_the_pen_are_told() {
    let told = |change: fn(&mut BufferCacheSpec)| {
        let mut problems = Problems::new();
        let mut spec = spec();
        change(&mut spec);
        spec.check("storage.buffer_cache", &mut problems);
        spec.check_with("storage.buffer_cache", Size::from_bytes(4096), &mut problems);
        problems.iter().map(|problem| problem.path.clone()).collect::<Vec<_>>()
    };
    assert!(told(|_| {}).is_empty());
    assert!(told(|it| it.capacity = Size::from_bytes(0)).is_empty(), "the unmodified kernel");
    assert_eq!(told(|it| it.ways = 65)[0], "storage.buffer_cache.ways");
    assert_eq!(told(|it| it.ways = 0)[0], "storage.buffer_cache.ways");
    assert_eq!(told(|it| it.ways = 3), ["storage.buffer_cache.capacity"]);
    assert_eq!(told(|it| it.queue_pages = 0), ["storage.buffer_cache.queue_pages"]);
    assert_eq!(told(|it| it.read_slowdown = -1.0), ["storage.buffer_cache.read_slowdown"]);
    assert_eq!(
        told(|it| it.program_slowdown = f64::NAN),
        ["storage.buffer_cache.program_slowdown"]
    );
}

/// The pages that it holds, the one used longest ago first.
#[derive(Default)]
struct Naive {
    pages: Vec<u64>,
    counters: BufferCacheCounters,
}

impl Naive {
    fn find(&self, page: u64) -> Option<usize> {
        self.pages.iter().position(|held| *held == page)
    }
}

proptest! {
    #[test]
    fn it_holds_what_a_list_of_pages_holds(
        moves in any::<bool>(),
        steps in proptest::collection::vec((0u8..4, 0u64..40), 1..400),
    ) {
        const PAGES: usize = 16;
        let mut cache = cache(|spec| {
            spec.on_hit = if moves { OnHit::Move } else { OnHit::Copy };
        });
        let mut naive = Naive::default();
        for (what, page) in steps {
            let at = naive.find(page);
            prop_assert_eq!(cache.holds(page), at.is_some());
            match (what, at) {
                (0, Some(at)) => {
                    cache.take(page);
                    naive.pages.remove(at);
                    naive.counters.lookups += 1;
                    naive.counters.hits += 1;
                    if !moves {
                        naive.pages.push(page);
                    }
                }
                (0, None) => {
                    cache.miss();
                    naive.counters.lookups += 1;
                }
                (1 | 2, Some(at)) => {
                    prop_assert_eq!(cache.enter(page, 0), Entered::Kept);
                    naive.pages.remove(at);
                    naive.pages.push(page);
                    naive.counters.kept += 1;
                }
                (1 | 2, None) => {
                    let stall_ps = 1000 * US;
                    prop_assert_eq!(cache.enter(page, 0), Entered::Programmed { stall_ps });
                    naive.counters.insertions += 1;
                    if naive.pages.len() == PAGES {
                        naive.pages.remove(0);
                        naive.counters.evictions += 1;
                    }
                    naive.pages.push(page);
                }
                (_, at) => {
                    cache.invalidate(page);
                    naive.counters.invalidations += u64::from(at.is_some());
                    at.map(|at| naive.pages.remove(at));
                }
            }
            prop_assert_eq!(cache.counters, naive.counters);
        }
    }
}
