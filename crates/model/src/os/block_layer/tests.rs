use super::*;
use proptest::prelude::*;
use tierscope_units::Size;

const PAGE: u64 = 4096;

fn spec(scheduler: SchedulerKind) -> BlockLayerSpec {
    BlockLayerSpec {
        scheduler,
        merges: true,
        segments: 127,
        requests: 128,
        hardware_queues: 1,
        lock: Duration::default(),
        deadline: DeadlineSpec::default(),
        cfq: CfqSpec::default(),
    }
}

/// Requests of 32 pages at most.
fn layer(spec: &BlockLayerSpec, depth: u32, rotates: bool) -> BlockLayer {
    BlockLayer::new(spec, 32 * PAGE, depth, rotates)
}

/// A page of the store that goes from or to the frame of its number, for somebody who waits.
fn bio(page: u64, write: bool) -> Bio {
    Bio {
        id: page as u32,
        address: page * PAGE,
        bytes: PAGE,
        memory_address: page * PAGE,
        write,
        sync: true,
        alone: false,
        first: false,
        content: 0,
        thread: 0,
        continues: false,
    }
}

fn reads(pages: impl IntoIterator<Item = u64>) -> Vec<Bio> {
    pages.into_iter().map(|page| bio(page, false)).collect()
}

/// Writes that nobody waits for.
fn background(pages: impl IntoIterator<Item = u64>) -> Vec<Bio> {
    pages.into_iter().map(|page| Bio { sync: false, ..bio(page, true) }).collect()
}

/// Reads of pages that are one bio.
fn of_one(pages: std::ops::Range<u64>) -> Vec<Bio> {
    let first = pages.start;
    pages.map(|page| Bio { continues: page > first, ..bio(page, false) }).collect()
}

/// First page and number of pages of what goes next.
fn next(layer: &mut BlockLayer, now_ps: u64) -> Option<(u32, u64, usize)> {
    match layer.next(now_ps) {
        Pick::Request(id) => {
            let request = layer.request(id);
            Some((id, request.address / PAGE, request.bios.len()))
        }
        Pick::Later(_) | Pick::Nothing => None,
    }
}

/// All that goes by `now_ps`, each done before the next, as first pages and numbers of pages.
fn order(layer: &mut BlockLayer, now_ps: u64) -> Vec<(u64, usize)> {
    let mut found = Vec::new();
    while let Some((id, page, count)) = next(layer, now_ps) {
        found.push((page, count));
        finish(layer, now_ps, id);
    }
    found
}

fn finish(layer: &mut BlockLayer, now_ps: u64, id: u32) {
    while layer.moved(now_ps, id, true).is_none() {}
}

const ALL: [SchedulerKind; 4] =
    [SchedulerKind::None, SchedulerKind::Noop, SchedulerKind::MqDeadline, SchedulerKind::Cfq];

#[test]
fn pages_side_by_side_are_one_request_up_to_the_largest() {
    for kind in ALL {
        let mut layer = layer(&spec(kind), 4, false);
        let made = layer.submit(0, 0, &reads((0..70).chain([100])));
        assert_eq!(made, 4, "{kind:?}");
        assert_eq!(order(&mut layer, 0), [(0, 32), (32, 32), (64, 6), (100, 1)], "{kind:?}");
        assert_eq!((layer.counts.requests, layer.counts.pages), (4, 71));
    }
}

#[test]
fn a_request_has_no_more_runs_of_frames_than_the_device_takes() {
    let few = BlockLayerSpec { segments: 3, ..spec(SchedulerKind::None) };
    let scattered = |page| Bio { memory_address: page * 2 * PAGE, ..bio(page, false) };
    let mut one = layer(&few, 4, false);
    one.submit(0, 0, &(0..8).map(scattered).collect::<Vec<_>>());
    assert_eq!(order(&mut one, 0), [(0, 3), (3, 3), (6, 2)]);
    let mut adjacent = layer(&few, 4, false);
    adjacent.submit(0, 0, &reads(0..8));
    assert_eq!(order(&mut adjacent, 0), [(0, 3), (3, 3), (6, 2)], "each bio has its own");
    let mut one_bio = layer(&few, 4, false);
    one_bio.submit(0, 0, &of_one(0..8));
    assert_eq!(order(&mut one_bio, 0), [(0, 8)]);
}

#[test]
fn nothing_is_merged_where_that_is_said() {
    let apart = BlockLayerSpec { merges: false, ..spec(SchedulerKind::MqDeadline) };
    let mut layer = layer(&apart, 4, false);
    assert_eq!(layer.submit(0, 0, &reads(0..3)), 3);
    layer.submit(0, 0, &reads([3]));
    assert_eq!(order(&mut layer, 0), [(0, 1), (1, 1), (2, 1), (3, 1)]);
    assert_eq!(layer.counts.merged_pages, 0);
}

#[test]
fn what_is_asked_for_joins_what_waits_behind_it_and_in_front() {
    for kind in ALL {
        let mut layer = layer(&spec(kind), 1, false);
        layer.submit(0, 0, &reads([1000]));
        let (at_device, ..) = next(&mut layer, 0).unwrap();
        layer.submit(0, 0, &reads(10..12));
        layer.submit(0, 0, &reads(12..14));
        layer.submit(0, 0, &reads([9]));
        assert_eq!(next(&mut layer, 0), None, "{kind:?}: the device takes one");
        finish(&mut layer, 0, at_device);
        assert_eq!(order(&mut layer, 0), [(9, 5)], "{kind:?}");
        assert_eq!(layer.counts.merged_pages, 3, "{kind:?}");
    }
}

#[test]
fn noop_looks_in_front_of_what_was_merged_last_alone() {
    for (kind, in_front) in ALL.into_iter().zip([true, false, true, true]) {
        let mut layer = layer(&spec(kind), 1, false);
        layer.submit(0, 0, &reads([1000]));
        let (at_device, ..) = next(&mut layer, 0).unwrap();
        for page in [10, 500, 501, 9] {
            layer.submit(0, 0, &reads([page]));
        }
        finish(&mut layer, 0, at_device);
        let found = order(&mut layer, 0);
        assert_eq!(found.contains(&(9, 2)), in_front, "{kind:?}");
        assert!(found.contains(&(500, 2)), "{kind:?}");
    }
}

#[test]
fn a_bio_joins_as_a_whole_or_not_at_all() {
    for kind in ALL {
        let mut layer = layer(&spec(kind), 1, false);
        layer.submit(0, 0, &reads([1000]));
        let (at_device, ..) = next(&mut layer, 0).unwrap();
        layer.submit(0, 0, &of_one(0..30));
        layer.submit(0, 0, &of_one(30..34));
        layer.submit(0, 0, &reads(100..104));
        layer.submit(0, 0, &of_one(104..133));
        finish(&mut layer, 0, at_device);
        let mut found = order(&mut layer, 0);
        found.sort_unstable();
        assert_eq!(found, [(0, 30), (30, 4), (100, 4), (104, 29)], "{kind:?}");
    }
}

#[test]
fn a_page_between_two_requests_makes_them_one() {
    for (kind, closes) in [
        (SchedulerKind::MqDeadline, true),
        (SchedulerKind::Cfq, true),
        // Without a scheduler nobody looks for the next.
        (SchedulerKind::None, false),
    ] {
        let mut layer = layer(&spec(kind), 1, false);
        layer.submit(0, 0, &reads([1000]));
        let (at_device, ..) = next(&mut layer, 0).unwrap();
        layer.submit(0, 0, &reads([10, 12]));
        layer.submit(0, 0, &reads([11]));
        finish(&mut layer, 0, at_device);
        let expected = if closes { vec![(10, 3)] } else { vec![(10, 2), (12, 1)] };
        assert_eq!(order(&mut layer, 0), expected, "{kind:?}");
    }
}

#[test]
fn a_request_that_had_no_room_once_takes_nothing_more() {
    for kind in ALL {
        let mut layer = layer(&spec(kind), 1, false);
        layer.submit(0, 0, &reads([1000]));
        let (at_device, ..) = next(&mut layer, 0).unwrap();
        layer.submit(0, 0, &of_one(100..120));
        layer.submit(0, 0, &of_one(120..140));
        // It would have room for this one.
        layer.submit(0, 0, &of_one(99..100));
        finish(&mut layer, 0, at_device);
        let mut found = order(&mut layer, 0);
        found.sort_unstable();
        assert_eq!(found, [(99, 1), (100, 20), (120, 20)], "{kind:?}");
    }
}

#[test]
fn reads_and_writes_and_what_is_forced_stay_apart() {
    for kind in ALL {
        let mut layer = layer(&spec(kind), 8, false);
        let forced = Bio { alone: true, ..bio(2, true) };
        layer.submit(0, 0, &[bio(0, false), bio(1, true), forced, bio(3, true)]);
        let mut all = order(&mut layer, 0);
        all.sort_unstable();
        assert_eq!(all, [(0, 1), (1, 1), (2, 1), (3, 1)], "{kind:?}");
    }
}

#[test]
fn a_flush_goes_before_all_that_wait() {
    for kind in ALL {
        let mut layer = layer(&spec(kind), 8, false);
        layer.submit(0, 0, &reads([5]));
        let flush = Bio { id: 77, first: true, ..bio(0, true) };
        layer.submit(0, 0, &[flush]);
        let (id, ..) = next(&mut layer, 0).unwrap();
        assert_eq!(layer.request(id).bios, [77], "{kind:?}");
        finish(&mut layer, 0, id);
        layer.submit(0, 0, &background([9]));
        assert_eq!(order(&mut layer, 0), [(5, 1), (9, 1)], "{kind:?}: it has never waited there");
    }
}

#[test]
fn without_a_scheduler_only_the_last_eight_are_looked_at() {
    for (kind, joins) in [(SchedulerKind::None, [false, true]), (SchedulerKind::Noop, [true, true])]
    {
        for (others, joins) in [(8, joins[0]), (7, joins[1])] {
            let mut layer = layer(&spec(kind), 1, false);
            layer.submit(0, 0, &reads([5000]));
            next(&mut layer, 0).unwrap();
            layer.submit(0, 0, &reads([10]));
            layer.submit(0, 0, &reads((0..others).map(|i| 100 + 2 * i)));
            layer.submit(0, 0, &reads([11]));
            assert_eq!(layer.counts.merged_pages, u64::from(joins), "{kind:?}, {others}");
        }
    }
}

#[test]
fn contents_in_a_row_go_together_and_others_do_not() {
    let mut layer = layer(&spec(SchedulerKind::None), 8, false);
    let write = |page, content| Bio { content, ..bio(page, true) };
    layer.submit(0, 0, &[write(0, 7), write(1, 8), write(2, 10), write(3, 11), write(4, 0)]);
    assert_eq!(order(&mut layer, 0), [(0, 2), (2, 2), (4, 1)]);
}

// ---- deadline -----------------------------------------------------------------------------------

/// What waits for a device that is busy meanwhile.
fn waiting(spec: &BlockLayerSpec, rotates: bool, bios: &[Bio]) -> BlockLayer {
    let mut layer = layer(spec, 1, rotates);
    for bio in bios {
        layer.submit(0, 0, &[*bio]);
    }
    layer
}

#[test]
fn deadline_gives_batches_by_address_and_writes_after_two_of_reads() {
    let few = DeadlineSpec { fifo_batch: 2, ..DeadlineSpec::default() };
    let spec = BlockLayerSpec { deadline: few, ..spec(SchedulerKind::MqDeadline) };
    let mut bios = reads([50, 10, 90, 30, 70, 20]);
    bios.extend(background([60, 40, 80]));
    let mut layer = waiting(&spec, false, &bios);
    // Batches go on from where the direction was; after two of reads that writes have waited for, writes.
    let expected = [10, 20, 30, 50, 40, 60, 70, 90, 80];
    let found: Vec<u64> = order(&mut layer, 0).into_iter().map(|(page, _)| page).collect();
    assert_eq!(found, expected);
}

#[test]
fn deadline_goes_back_to_what_is_late_when_its_batch_ends() {
    let few = DeadlineSpec { fifo_batch: 2, ..DeadlineSpec::default() };
    let spec = BlockLayerSpec { deadline: few, ..spec(SchedulerKind::MqDeadline) };
    let late_ps = few_ms(500);
    let mut layer = layer(&spec, 1, false);
    layer.submit(0, 0, &reads([50]));
    let (id, ..) = next(&mut layer, 0).unwrap();
    layer.submit(0, 0, &reads([10]));
    layer.submit(late_ps - 1, 0, &reads([60, 70, 80, 90]));
    finish(&mut layer, 0, id);
    let mut at = |now_ps| {
        let (id, page, _) = next(&mut layer, now_ps).unwrap();
        finish(&mut layer, now_ps, id);
        page
    };
    assert_eq!(
        [at(0), at(late_ps - 1), at(late_ps)],
        [60, 70, 80],
        "by address until a batch ends"
    );
    assert_eq!([at(late_ps), at(late_ps)], [10, 90], "then from what is late");
}

fn few_ms(ms: u64) -> u64 {
    ms * 1_000_000_000
}

// ---- CFQ ----------------------------------------------------------------------------------------

fn of_thread(thread: u32, pages: impl IntoIterator<Item = u64>) -> Vec<Bio> {
    pages.into_iter().map(|page| Bio { thread, ..bio(page, false) }).collect()
}

/// The pages that CFQ gives, each request of which takes so long.
fn at_steps(step_ps: u64, bios: &[Bio]) -> Vec<u64> {
    let mut layer = waiting(&spec(SchedulerKind::Cfq), false, bios);
    let give = |step| {
        let (id, page, _) = next(&mut layer, step * step_ps).unwrap();
        finish(&mut layer, (step + 1) * step_ps, id);
        page
    };
    (0..bios.len() as u64).map(give).collect()
}

#[test]
fn cfq_serves_one_thread_for_its_slice_and_then_the_next() {
    let mut bios = of_thread(1, [10, 500, 20]);
    bios.extend(of_thread(2, [600, 15, 700]));
    // A slice of 100 ms begins with its first answer: three requests of 60 ms fit, and the third does not end it.
    assert_eq!(at_steps(few_ms(60), &bios), [10, 20, 500, 600, 700, 15]);
}

#[test]
fn cfq_ends_a_slice_that_has_lasted_long_enough() {
    let mut bios = of_thread(1, [10, 20, 30]);
    bios.extend(of_thread(2, [600, 610, 620]));
    assert_eq!(at_steps(few_ms(100), &bios), [10, 20, 600, 610, 30, 620]);
}

#[test]
fn cfq_leaves_a_disk_idle_for_the_thread_whose_slice_it_is_and_nothing_else() {
    for (rotates, waits) in [(true, true), (false, false)] {
        let mut layer = layer(&spec(SchedulerKind::Cfq), 1, rotates);
        layer.submit(0, 0, &of_thread(1, [10]));
        let (id, ..) = next(&mut layer, 0).unwrap();
        layer.submit(0, 0, &of_thread(2, [600]));
        finish(&mut layer, few_ms(1), id);
        let until_ps = few_ms(1) + few_ms(8);
        if waits {
            assert_eq!(layer.next(few_ms(1)), Pick::Later(until_ps));
            layer.submit(few_ms(2), 0, &of_thread(1, [11]));
            let (id, page, _) = next(&mut layer, few_ms(2)).unwrap();
            assert_eq!(page, 11, "the thread has come again");
            finish(&mut layer, few_ms(3), id);
            assert_eq!(layer.next(few_ms(3)), Pick::Later(few_ms(11)));
            assert_eq!(next(&mut layer, few_ms(11)).unwrap().1, 600, "it has not");
            assert_eq!(layer.counts.idled, 2);
        } else {
            assert_eq!(next(&mut layer, few_ms(1)).unwrap().1, 600);
            assert_eq!(layer.counts.idled, 0);
        }
    }
}

#[test]
fn cfq_leaves_no_disk_idle_for_a_thread_that_thinks_for_long() {
    // Its slice does not end meanwhile: only how long it thinks can end it.
    let cfq =
        CfqSpec { slice_sync: Duration::from_picoseconds(few_ms(100_000)), ..CfqSpec::default() };
    for (think_ms, idles) in [(20, false), (9, false), (7, true), (2, true)] {
        let spec = BlockLayerSpec { cfq: cfq.clone(), ..spec(SchedulerKind::Cfq) };
        let mut layer = layer(&spec, 1, true);
        let mut now_ps = 0;
        // Each sample counts an eighth: by the third the thread is known, and by the last the first is forgotten.
        for page in 0..40 {
            layer.submit(now_ps, 0, &of_thread(1, [10 * page]));
            let (id, ..) = next(&mut layer, now_ps).unwrap();
            now_ps += few_ms(1);
            finish(&mut layer, now_ps, id);
            now_ps += few_ms(think_ms);
        }
        layer.submit(now_ps, 0, &of_thread(1, [5000]));
        let (id, ..) = next(&mut layer, now_ps).unwrap();
        layer.submit(now_ps, 0, &of_thread(2, [600]));
        finish(&mut layer, now_ps, id);
        let expected = if idles { None } else { Some(600) };
        let found = next(&mut layer, now_ps).map(|(_, page, _)| page);
        assert_eq!(found, expected, "{think_ms} ms");
    }
}

#[test]
fn cfq_leaves_a_disk_idle_but_shortly_for_a_thread_that_seeks_far() {
    // 4 MiB is as far as is not far; the first request is none, and three samples are needed.
    for (step, requests, idle_ms) in [(1020, 9, 8), (1300, 9, 2), (1300, 2, 8), (100_000, 9, 2)] {
        let mut layer = layer(&spec(SchedulerKind::Cfq), 1, true);
        let mut now_ps = 0;
        for nth in 0..requests {
            layer.submit(now_ps, 0, &of_thread(1, [1_000_000 + step * nth]));
            let (id, ..) = next(&mut layer, now_ps).unwrap();
            if nth + 1 == requests {
                layer.submit(now_ps, 0, &of_thread(2, [600]));
            }
            now_ps += few_ms(1);
            finish(&mut layer, now_ps, id);
        }
        let found = layer.next(now_ps);
        assert_eq!(found, Pick::Later(now_ps + few_ms(idle_ms)), "{requests} by {step}");
    }
}

#[test]
fn cfq_lets_nothing_be_written_in_the_background_while_somebody_waits() {
    let mut layer = layer(&spec(SchedulerKind::Cfq), 8, false);
    layer.submit(0, 0, &background([100, 200]));
    assert_eq!(next(&mut layer, 0).unwrap().1, 100, "nobody waits");
    layer.submit(0, 0, &of_thread(1, [10]));
    let (id, page, _) = next(&mut layer, 0).unwrap();
    assert_eq!(page, 10, "who waits takes the slice");
    assert_eq!(next(&mut layer, 0), None);
    finish(&mut layer, 0, id);
    assert_eq!(next(&mut layer, 0).unwrap().1, 200);
}

#[test]
fn cfq_gives_the_device_a_few_requests_of_one_while_others_wait() {
    let mut bios = of_thread(1, (0..20).map(|i| 10 * i));
    let mut alone = waiting(&spec(SchedulerKind::Cfq), false, &bios);
    alone.depth = 32;
    let given = |layer: &mut BlockLayer| (0..20).map_while(|_| next(layer, 0)).count();
    assert_eq!(given(&mut alone), 20);
    bios.extend(of_thread(2, [5000]));
    let mut together = waiting(&spec(SchedulerKind::Cfq), false, &bios);
    together.depth = 32;
    assert_eq!(given(&mut together), 8);
}

#[test]
fn cfq_goes_back_where_that_is_nearer() {
    let near = |back: u64, forth: u64| {
        let mut layer = layer(&spec(SchedulerKind::Cfq), 1, false);
        layer.submit(0, 0, &of_thread(1, [10_000]));
        let (id, ..) = next(&mut layer, 0).unwrap();
        layer.submit(0, 0, &of_thread(1, [10_001 - back, 10_001 + forth]));
        finish(&mut layer, 0, id);
        next(&mut layer, 0).unwrap().1 < 10_000
    };
    assert!(near(10, 21), "a way back is twice as long");
    assert!(!near(10, 20));
    assert!(!near(4097, 40_000), "no further than 16 MiB");
    assert!(near(4096, 40_000));
}

// ---- Options ------------------------------------------------------------------------------------

/// When each request begins, and its first page, of two threads that each read one page after another and two now and
/// then, while much is written in the background; the device takes two requests, and a few milliseconds for each.
fn play(spec: &BlockLayerSpec, rotates: bool) -> Vec<(u64, u64, usize)> {
    let mut layer = layer(spec, 2, rotates);
    let (mut at_device, mut found): (Vec<(u64, u32)>, _) = (Vec::new(), Vec::new());
    let mut owners = BTreeMap::new();
    let (mut now_ps, mut asked) = (0, [0u64; 2]);
    let mut ask = |layer: &mut BlockLayer, now_ps: u64, thread: u64| {
        let at = asked[thread as usize];
        asked[thread as usize] += 1;
        // Forth, and at times back.
        let page = 100_000 * thread + 40 * at - if at % 5 == 4 { 150 } else { 0 };
        let count = if at % 7 == 3 { 2 } else { 1 };
        for first in (0..count).rev() {
            owners.insert(page + first, thread);
            layer.submit(now_ps, 0, &of_thread(thread as u32, [page + first]));
        }
        owners.clone()
    };
    layer.submit(0, 0, &background((0..120).map(|at| 50_000 + 3 * (at * 37 % 120))));
    // One of them has asked for more before, here and there.
    layer.submit(0, 0, &of_thread(1, [104_000, 101_000, 100_950, 102_000, 120_000]));
    let mut owner_of = ask(&mut layer, 0, 0);
    owner_of.extend(ask(&mut layer, 0, 1));
    for _ in 0..400 {
        let mut later_ps = u64::MAX;
        loop {
            match layer.next(now_ps) {
                Pick::Request(id) => {
                    let request = layer.request(id);
                    let page = request.address / PAGE;
                    let duration_ps = few_ms(3) + page % 7 * 100_000_000;
                    found.push((now_ps, page, request.bios.len()));
                    at_device.push((now_ps + duration_ps, id));
                }
                Pick::Later(at_ps) => {
                    later_ps = at_ps;
                    break;
                }
                Pick::Nothing => break,
            }
        }
        at_device.sort_unstable();
        if at_device.first().is_none_or(|(end_ps, _)| later_ps < *end_ps) {
            if later_ps == u64::MAX {
                break;
            }
            now_ps = later_ps;
            continue;
        }
        let (end_ps, id) = at_device.remove(0);
        now_ps = end_ps;
        let pages: Vec<u64> = layer.request(id).bios.iter().map(|id| u64::from(*id)).collect();
        finish(&mut layer, now_ps, id);
        if let Some(thread) = owner_of.get(&pages[0]).copied() {
            owner_of = ask(&mut layer, now_ps + few_ms(1) / 2, thread);
        }
    }
    found
}

#[test]
fn each_option_of_a_scheduler_changes_what_it_does() {
    let ms = |ms: u64| Duration::from_picoseconds(few_ms(ms));
    let plain = DeadlineSpec { fifo_batch: 4, ..DeadlineSpec::default() };
    let deadline = |deadline| BlockLayerSpec { deadline, ..spec(SchedulerKind::MqDeadline) };
    let base = play(&deadline(plain.clone()), false);
    for (name, changed) in [
        ("read_expire", DeadlineSpec { read_expire: ms(0), ..plain.clone() }),
        ("write_expire", DeadlineSpec { write_expire: ms(0), ..plain.clone() }),
        ("writes_starved", DeadlineSpec { writes_starved: 5, ..plain.clone() }),
        ("fifo_batch", DeadlineSpec { fifo_batch: 3, ..plain.clone() }),
        ("front_merges", DeadlineSpec { front_merges: false, ..plain.clone() }),
    ] {
        assert!(play(&deadline(changed), false) != base, "deadline.{name}");
    }
    let plain = CfqSpec::default();
    let cfq = |cfq| BlockLayerSpec { cfq, ..spec(SchedulerKind::Cfq) };
    let base = play(&cfq(plain.clone()), true);
    for (name, changed) in [
        ("slice_sync", CfqSpec { slice_sync: ms(10), ..plain.clone() }),
        ("slice_async", CfqSpec { slice_async: ms(4), ..plain.clone() }),
        ("slice_idle", CfqSpec { slice_idle: ms(0), ..plain.clone() }),
        ("quantum", CfqSpec { quantum: 1, ..plain.clone() }),
        ("fifo_expire_sync", CfqSpec { fifo_expire_sync: ms(0), ..plain.clone() }),
        ("fifo_expire_async", CfqSpec { fifo_expire_async: ms(0), ..plain.clone() }),
        ("back_seek_max", CfqSpec { back_seek_max: Size::from_bytes(0), ..plain.clone() }),
        ("back_seek_penalty", CfqSpec { back_seek_penalty: 1000, ..plain.clone() }),
    ] {
        assert!(play(&cfq(changed), true) != base, "cfq.{name}");
    }
}

// ---- Laws ---------------------------------------------------------------------------------------

proptest! {
    /// Whatever comes: each page goes once, in a request of pages side by side of one kind, no larger than the largest;
    /// nothing is left, and no more is at the device than it takes.
    #[test]
    fn every_page_goes_once(
        kind in 0..4usize,
        rotates in any::<bool>(),
        depth in 1..5u32,
        queues in 1..3u32,
        steps in proptest::collection::vec(
            (0..200u64, 1..6u64, any::<bool>(), 0..3u32, 0..2usize, 0..20u64, any::<bool>()), 1..60),
    ) {
        let spec = BlockLayerSpec { hardware_queues: queues, segments: 5, ..spec(ALL[kind]) };
        let mut layer = BlockLayer::new(&spec, 8 * PAGE, depth, rotates);
        let mut known: Vec<Bio> = Vec::new();
        let mut at_device: VecDeque<u32> = VecDeque::new();
        let mut gone: Vec<u32> = Vec::new();
        let mut now_ps = 0;
        let mut take = |layer: &mut BlockLayer, at_device: &mut VecDeque<u32>, known: &[Bio], now_ps| {
            loop {
                let id = match layer.next(now_ps) {
                    Pick::Request(id) => id,
                    Pick::Later(at_ps) => return Some(at_ps),
                    Pick::Nothing => return None,
                };
                let request = layer.request(id).clone();
                assert!(request.end - request.address <= 8 * PAGE);
                let mut runs = 1;
                for (at, bio) in request.bios.iter().enumerate() {
                    let bio = &known[*bio as usize];
                    assert_eq!(bio.address, request.address + at as u64 * PAGE);
                    assert_eq!(bio.write, request.write);
                    assert!(ALL[kind] != SchedulerKind::Cfq || bio.sync == request.sync);
                    let before = at.checked_sub(1).map(|at| known[request.bios[at] as usize]);
                    runs += u32::from(before.is_some_and(|it| it.memory_address + PAGE != bio.memory_address));
                }
                assert!(runs <= 5);
                gone.extend(&request.bios);
                at_device.push_back(id);
            }
        };
        for (page, count, write, thread, core, elapsed, ends) in steps {
            now_ps += elapsed * 1_000_000_000;
            let bios: Vec<Bio> = (page..page + count).map(|page| {
                let id = known.len() as u32;
                let bio = Bio {
                    id,
                    thread,
                    sync: !write || thread > 0,
                    memory_address: u64::from(id / 3 * 4 + id % 3) * PAGE,
                    ..bio(page, write)
                };
                known.push(bio);
                bio
            }).collect();
            layer.submit(now_ps, core, &bios);
            take(&mut layer, &mut at_device, &known, now_ps);
            prop_assert!(at_device.len() <= (depth * queues) as usize);
            if ends && let Some(id) = at_device.pop_front() {
                finish(&mut layer, now_ps, id);
            }
        }
        let mut later = None;
        while layer.waiting_bios() > 0 || !at_device.is_empty() {
            if let Some(id) = at_device.pop_front() {
                finish(&mut layer, now_ps, id);
            } else if let Some(at_ps) = later {
                prop_assert!(at_ps > now_ps, "held back until a time that has come");
                now_ps = at_ps;
            }
            let before = layer.waiting_bios();
            later = take(&mut layer, &mut at_device, &known, now_ps);
            prop_assert!(before == 0 || later.is_some() || !at_device.is_empty(), "what waits goes some time");
        }
        gone.sort_unstable();
        prop_assert_eq!(gone, (0..known.len() as u32).collect::<Vec<_>>());
        prop_assert_eq!(layer.depths(), (0, 0));
        prop_assert_eq!(layer.counts.pages, known.len() as u64);
    }
}

#[test]
fn seven_eighths_of_the_requests_are_too_many_reads() {
    let mut plain = spec(SchedulerKind::Noop);
    plain.merges = false;
    let mut layer = layer(&plain, 4, false);
    // 113 of 128, and again below 103: those at the device count.
    layer.submit(0, 0, &background((0..200).map(|at| at * 100)));
    assert!(!layer.reads_are_congested(), "nobody waits for them");
    let mut submitted = 0;
    while !layer.reads_are_congested() {
        layer.submit(0, 0, &reads([100_000 + 2 * submitted]));
        submitted += 1;
    }
    assert_eq!(submitted, 113);
    let mut left = submitted;
    while layer.reads_are_congested() {
        let Pick::Request(id) = layer.next(0) else { panic!("nothing goes") };
        let is_read = !layer.request(id).write;
        layer.moved(0, id, true);
        left -= u64::from(is_read);
    }
    assert_eq!(left, 102);
    for (kind, queues) in [(SchedulerKind::None, 1), (SchedulerKind::Noop, 2)] {
        let many = BlockLayerSpec { hardware_queues: queues, ..spec(kind) };
        let mut layer = BlockLayer::new(&many, PAGE, 4, false);
        layer.submit(0, 0, &reads((0..400).map(|at| 2 * at)));
        assert!(!layer.reads_are_congested(), "{kind:?} of {queues}");
    }
}
