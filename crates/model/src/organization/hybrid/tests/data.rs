//! No read is stale, and a controller that is broken on purpose is caught.

use super::*;

#[test]
fn a_controller_that_forgets_its_write_back_buffer_is_caught() {
    let mut hybrid = steady(&spec(1, 1));
    hybrid.controller.forget_write_backs();
    let mut run = Run::new(hybrid);
    run.submit(0, page(0) + 64, true);
    run.drain();
    run.submit(1, page(1), false);
    run.wait(100_000);
    run.submit(2, page(0) + 64, false);
    run.drain();
    assert_eq!(run.answer(2).version, 0, "stale");
    assert_eq!(run.hybrid.report().stale_reads, 1);
}

#[test]
fn the_laws_catch_a_controller_that_forgets_its_write_back_buffer() {
    let shape = spec(2, 1);
    let caught = std::panic::catch_unwind(|| {
        organization_laws(|check_data| {
            let mut hybrid = erratic(&shape, 3, 2, 1);
            hybrid.controller.forget_write_backs();
            checking(check_data, hybrid)
        });
    });
    assert!(caught.is_err());
}

#[test]
fn no_read_is_stale_in_long_histories() {
    for (seed, shape) in shapes().into_iter().enumerate() {
        for (dram_ps, store_ps) in [(60_000, 3_000_000), (3_000_000, 60_000)] {
            let mut hybrid = erratic(&shape, 3, 2, seed as u64);
            hybrid.dram = Port::new(
                Erratic::new(0, dram_ps, Stage::Dram, 3, seed as u64),
                hybrid.controller.tokens(),
                Stage::DramQueue,
            );
            hybrid.store = Port::new(
                Erratic::new(100, store_ps, Stage::Medium, 2, !seed as u64),
                hybrid.controller.tokens(),
                Stage::StoreQueue,
            );
            long_history(&shape, Run::new(hybrid), seed as u64);
        }
    }
}

/// Random requests to few pages, while flushes of all, of a range, with and without invalidation
/// come and go.
fn long_history(shape: &HybridSpec, mut run: Run<Erratic, Erratic>, mut lots: u64) {
    let requests = 4_000;
    let step_bytes = LINE_BYTES.max(shape.cache.sector.map_or(0, |sector| sector.bytes() - 64));
    for id in 0..requests {
        let number = draw(&mut lots, if id % 1_000 < 500 { 7 } else { 40 });
        let line = draw(&mut lots, 3) * step_bytes / LINE_BYTES * LINE_BYTES;
        run.submit(id, page(number) + line, draw(&mut lots, 2) == 0);
        let gap_ps = [0, 20_000, 1_000_000][draw(&mut lots, 3) as usize];
        run.wait(draw(&mut lots, gap_ps + 1));
        match draw(&mut lots, 8) {
            0 => {
                run.hybrid.flush(run.now_ps);
            }
            1 => {
                let invalidate = draw(&mut lots, 2) == 0;
                run.hybrid.flush_range(run.now_ps, page(2), 5 * PAGE_BYTES, invalidate);
            }
            _ => {}
        }
    }
    run.drain();
    assert_eq!(run.out.len(), requests as usize);
    assert_eq!(run.hybrid.report().stale_reads, 0, "{shape:?}");
}
