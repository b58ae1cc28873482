//! What each parameter changes, and counts that stay.

use super::*;

#[test]
fn the_tag_store_has_its_size_from_the_formula() {
    let mut shape = spec(1, 1);
    shape.cache.capacity = Size::from_bytes(64 << 30);
    let bits = |ways: u32, store_bytes: u64| {
        let mut shape = shape.clone();
        shape.cache.ways = ways;
        let bytes = Controller::new(&shape, store_bytes, 64).report().tag_store_bytes;
        bytes as f64 * 8.0 / (64u64 << 18) as f64
    };
    // b − c = 4; a and the order of replacement take as many bits each; valid and dirty one each.
    assert_eq!(bits(16, 1 << 40), 4.0 + 4.0 + 2.0 + 4.0);
    assert_eq!(bits(1, 1 << 40), 4.0 + 2.0);
    assert_eq!(bits(64, 1 << 40), 4.0 + 6.0 + 2.0 + 6.0);
    assert_eq!(bits(16, 1 << 41), 5.0 + 4.0 + 2.0 + 4.0);
    let of_a_set = |policy: PolicyKind| policy.hardware_bits(16);
    // A way's place in the order; nothing; the last; a tree; a mark each and a hand; two bits each.
    assert_eq!(
        PolicyKind::ALL.iter().map(|policy| of_a_set(*policy)).collect::<Vec<_>>(),
        [64, 64, 0, 4, 15, 20, 32, 32, 32]
    );
}

#[test]
fn every_parameter_changes_an_output_in_its_direction() {
    let base = || {
        let mut base = spec(32, 4);
        base.write_back_buffer_pages = 1;
        base
    };
    let change = |change: &dyn Fn(&mut HybridSpec)| {
        let mut shape = base();
        change(&mut shape);
        shape
    };
    let busy_ps = |shape: &HybridSpec| offer(real(shape), 600, 64).now_ps;
    let misses = |shape: &HybridSpec| offer(real(shape), 600, 64).hybrid.report().misses;
    assert!(busy_ps(&change(&|s| s.queue_depth = 2)) > busy_ps(&base()));
    assert!(busy_ps(&change(&|s| s.fills = 1)) > busy_ps(&base()));
    assert!(busy_ps(&change(&|s| s.write_back_buffer_pages = 4)) < busy_ps(&base()));
    let twice = Size::from_bytes(64 * PAGE_BYTES);
    assert!(misses(&change(&|s| s.cache.capacity = twice)) < misses(&base()));

    // Pages that lie 8 apart share a set of 32 frames in 4 ways, and of no more than 4 others.
    let conflicts = |shape: &HybridSpec| {
        let mut run = Run::new(real(shape));
        for id in 0..60 {
            run.submit(id, page(u64::from(id % 6) * 8), false);
            run.drain();
        }
        run.hybrid.report().misses
    };
    assert!(conflicts(&change(&|s| s.cache.ways = 8)) < conflicts(&base()));

    let first_ps = |shape: &HybridSpec, again: bool| {
        let mut run = Run::new(real(shape));
        run.submit(0, page(1), false);
        run.drain();
        run.submit(1, page(1), false);
        run.drain();
        run.answer(u32::from(again)).stages.total_ps()
    };
    let later = Duration::from_picoseconds;
    let slow = change(&|s| s.controller_latency = later(CONTROLLER_PS + 3_000));
    assert_eq!(first_ps(&slow, true), first_ps(&base(), true) + 3_000);
    let slow = change(&|s| s.cache.tag_latency = later(TAGS_PS + 3_000));
    assert_eq!(first_ps(&slow, true), first_ps(&base(), true) + 3_000);
    let first = change(&|s| s.critical_line_first = true);
    // 63 of 64 lines at 4 GB/s on the bus of the unit, and on the link.
    let saved_ps = first_ps(&base(), false) - first_ps(&first, false);
    assert!((63 * 16_000..64 * 16_000 + 300_000).contains(&saved_ps), "{saved_ps}");

    let walk_ps = |shape: &HybridSpec| {
        let mut run = Run::new(real(shape));
        for id in 0..24 {
            run.submit(id, page(u64::from(id)), false);
            run.drain();
        }
        run.now_ps
    };
    assert!(walk_ps(&change(&|s| s.prefetch_pages = 4)) < walk_ps(&base()));
    let with_data = |tags| {
        change(&|s| {
            s.cache.ways = 1;
            s.cache.tags = tags;
            s.cache.tag_latency = later(3_000);
        })
    };
    let (sram, data) = (with_data(TagStore::Sram), with_data(TagStore::WithData));
    // But for where they fall between two clocks of the DRAM.
    let saved_ps = first_ps(&sram, true) - first_ps(&data, true);
    assert!((1_500..=4_500).contains(&saved_ps), "no tags to wait for: {saved_ps}");
    assert!(first_ps(&data, false) > first_ps(&sram, false), "a miss pays an access for its tag");
    let ahead = change(&|s| {
        s.eager_write_back = true;
        s.write_back_buffer_pages = 4;
    });
    let written = |shape: &HybridSpec| offer(real(shape), 600, 64).hybrid.report().write_backs;
    assert!(written(&ahead) > written(&change(&|s| s.write_back_buffer_pages = 4)));
    let read = |shape: &HybridSpec| offer(real(shape), 600, 64).hybrid.report().traffic;
    let mut guesses = data.clone();
    guesses.cache.miss_predictor = MissPredictorKind::Region;
    assert!(read(&guesses).store_read_bytes > read(&data).store_read_bytes, "some are wrong");
    let large = change(&|s| s.cache.page = Size::from_bytes(2 * PAGE_BYTES));
    let read_bytes =
        |shape: &HybridSpec| offer(real(shape), 1, 64).hybrid.report().traffic.store_read_bytes;
    assert_eq!((read_bytes(&base()), read_bytes(&large)), (PAGE_BYTES, 2 * PAGE_BYTES));
}

#[test]
fn what_dram_holds_at_the_start_changes_nothing_but_what_it_says() {
    // Unrelated clean pages are older than anything: they go first, as empty frames do.
    let mut prefilled = spec(32, 4);
    prefilled.cache.initial = InitialContent::Prefilled;
    let (empty, full) = (offer(real(&spec(32, 4)), 600, 64), offer(real(&prefilled), 600, 64));
    assert_eq!(empty.out, full.out);
}

#[test]
fn counts_stay_as_they_are() {
    let mut shape = spec(32, 4);
    shape.prefetch_pages = 2;
    shape.fills = 32;
    shape.write_back_buffer_pages = 8;
    let run = offer(steady(&shape), 5_000, 48);
    let report = run.hybrid.report();
    let counts = [
        report.lookups,
        report.misses,
        report.prefetched_pages,
        report.prefetch_hits,
        report.write_backs,
        run.now_ps,
    ];
    assert_eq!(counts, [5_000, 2_521, 106, 56, 1_128, 150_236_000]);
}
