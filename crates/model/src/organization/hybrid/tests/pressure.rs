//! Caches of few ways under writes that all miss.

use super::*;

/// Offers `writes` to pages none of which comes twice while it could still be there, as fast as they are
/// taken; latencies in order of coming, and how often the controller refused.
fn pressed(shape: &HybridSpec, writes: u32) -> (Vec<u64>, u64, Hybrid<Dram, StoreDevice>) {
    let mut run = Run::new(real(shape));
    let pages = SPACE_BYTES / PAGE_BYTES;
    let mut refused = 0;
    for id in 0..writes {
        let address = page(u64::from(id) * 37 % pages);
        let request = LineRequest { id, core: 0, address, write: true, version: u64::from(id) + 1 };
        while run.hybrid.submit(run.now_ps, request).is_err() {
            refused += 1;
            run.step();
        }
        assert!(run.hybrid.in_flight() <= bound(shape), "{} in flight", run.hybrid.in_flight());
    }
    run.drain();
    let latencies = (0..writes).map(|id| run.answer(id).stages.total_ps()).collect();
    (latencies, refused, run.hybrid)
}

/// Requests, their misses, those of prefetches, and write-backs.
fn bound(shape: &HybridSpec) -> usize {
    2 * (shape.queue_depth + shape.fills + shape.write_back_buffer_pages) as usize
}

#[test]
fn few_ways_under_writes_push_back_and_do_not_run_away() {
    for (ways, eager) in [(1, false), (2, false), (1, true), (2, true)] {
        let mut shape = spec(16, ways);
        (shape.prefetch_pages, shape.eager_write_back) = (2, eager);
        let (latencies_ps, refused, hybrid) = pressed(&shape, 1_000);
        assert!(refused > 500, "{ways} ways: {refused} refused");
        let worst = |part: &[u64]| part.iter().copied().max().unwrap_or(0);
        let (early, late) = (worst(&latencies_ps[200..600]), worst(&latencies_ps[600..]));
        assert!(late <= early + early / 4, "{ways} ways: {early} ps, then {late}");
        // What a place waits for at most is every other's write at the rate of four units.
        let most_ps = 250_000_000 * bound(&shape) as u64;
        assert!(late < most_ps, "{late} ps");
        let report = hybrid.report();
        assert!(report.write_backs >= 900, "{} of 1000 pages", report.write_backs);
        assert_eq!(report.stale_reads, 0);
    }
}
