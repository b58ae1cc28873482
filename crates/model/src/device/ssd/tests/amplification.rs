//! Write amplification of random writes against the analysis.

use super::*;
use crate::device::ssd::translation::Stream;
use tierscope_kernel::Random;

/// A die of so many blocks of 64 pages, of which a share holds what the host has.
fn die(
    blocks: u32,
    share: f64,
    initial: InitialFlash,
    policy: VictimPolicy,
    window: u32,
) -> SsdSpec {
    let flash = NandSpec { channels: 1, ways: 1, blocks, pages: 64, ..nand() };
    let pages = (flash.bytes() as f64 / 4096.0 * share) as u64;
    checked(SsdSpec {
        capacity: Size::from_bytes(pages * 4096),
        nand: flash,
        initial,
        collection: CollectionSpec { policy, window, ..spec().collection },
        ..spec()
    })
}

/// Writes units at random, and collects at once; the amplification of the second half.
fn amplification(spec: &SsdSpec, overwrites: u64) -> f64 {
    overwritten(spec, overwrites).1
}

/// The same, with the state in the end.
fn overwritten(spec: &SsdSpec, overwrites: u64) -> (Translation, f64) {
    let mut layer = Ssd::new(spec).layer().clone();
    let units = spec.capacity.bytes() / 4096;
    let mut random = Random::stream(1, "overwrite");
    let geometry = *layer.geometry();
    let mut half = layer.counts();
    for n in 0..overwrites * units {
        if n == overwrites * units / 2 {
            half = layer.counts();
        }
        while layer.free_blocks(0) < spec.collection.free_blocks {
            let Some(block) = layer.begin_collection(0, true) else { break };
            for page in 0..geometry.block_pages() {
                let from = geometry.place(Page { lane: 0, block, page }, 0);
                if let Some(unit) = layer.unit(from) {
                    let to = layer.allocate(0, Stream::Moved).expect("room is reserved");
                    layer.put_moved(unit, from, geometry.place(to, 0));
                    layer.programmed(to);
                }
            }
            layer.erased(0, block);
        }
        let page = layer.allocate(0, Stream::Host).expect("collection has made room");
        layer.put(random.below(units), geometry.place(page, 0), Stream::Host);
        layer.programmed(page);
    }
    let counts = layer.counts().since(&half);
    let factor = (counts.host_units + counts.moved_units) as f64 / counts.host_units as f64;
    (layer, factor)
}

/// Greedy collection of blocks of n pages, filled blocks having `spare` times the units of the host:
/// a block that is written with n valid pages and collected with m lives for the time in which it
/// loses n − m, each after a time in proportion to 1 / i while i are left; so that spare =
/// n (1/(m+1) + … + 1/n) / (n − m), and the amplification is n / (n − m) (Desnoyers, "Analytic
/// modeling of SSD write performance", SYSTOR 2012, §4; the limit of many choices of Van Houdt's mean
/// field, SIGMETRICS 2013). Between whole m it is interpolated.
fn greedy(spare: f64, n: u32) -> f64 {
    let (mut sum, mut last) = (0.0, None);
    for m in (0..n).rev() {
        sum += 1.0 / f64::from(m + 1);
        let factor = f64::from(n) * sum / f64::from(n - m);
        if factor >= spare {
            let Some((factor_before, m_before)) = last else { return f64::from(n) };
            let part = (spare - factor_before) / (factor - factor_before);
            let m = m_before + part * (f64::from(m) - m_before);
            return f64::from(n) / (f64::from(n) - m);
        }
        last = Some((factor, f64::from(m)));
    }
    1.0
}

/// Collection of the block that was filled first: the amplification a solves 1 − 1/a =
/// exp(−spare / a) (Desnoyers, SYSTOR 2012, §3; Hu et al., "Write amplification analysis in
/// flash-based solid state drives", SYSTOR 2009, for a window of one).
fn oldest_first(spare: f64) -> f64 {
    let (mut low, mut high) = (1.0_f64, 1e6_f64);
    for _ in 0..200 {
        let a = (low * high).sqrt();
        // Below the solution more is invalid than the block wins.
        if 1.0 - 1.0 / a < (-spare / a).exp() { low = a } else { high = a }
    }
    low
}

/// Blocks that are filled, of all: without those that are erased or being filled.
fn spare(spec: &SsdSpec) -> f64 {
    let blocks = f64::from(spec.nand.blocks) - f64::from(spec.collection.free_blocks) - 0.5;
    blocks * 64.0 * 4096.0 / spec.capacity.bytes() as f64
}

#[test]
fn greedy_collection_writes_as_much_as_the_analysis_says() {
    for share in [0.93, 0.875, 0.8, 0.7, 0.5] {
        let spec = die(1024, share, InitialFlash::Written, VictimPolicy::Greedy, 0);
        let (found, expected) = (amplification(&spec, 6), greedy(spare(&spec), 64));
        let off = found / expected - 1.0;
        assert!(off.abs() < 0.02, "{share} full: {found}, {expected} by the analysis");
    }
}

#[test]
fn collection_of_the_oldest_writes_as_much_as_the_analysis_says() {
    for share in [0.9, 0.8, 0.7, 0.5] {
        let spec = die(1024, share, InitialFlash::Written, VictimPolicy::Greedy, 1);
        let (found, expected) = (amplification(&spec, 6), oldest_first(spare(&spec)));
        let off = found / expected - 1.0;
        assert!(off.abs() < 0.02, "{share} full: {found}, {expected} by the analysis");
    }
}

#[test]
fn a_window_and_ages_lie_between_the_oldest_and_the_fewest() {
    let found =
        |policy, window| amplification(&die(512, 0.8, InitialFlash::Written, policy, window), 5);
    let greedy = found(VictimPolicy::Greedy, 0);
    let oldest = found(VictimPolicy::Greedy, 1);
    let window = found(VictimPolicy::Greedy, 16);
    let aged = found(VictimPolicy::CostBenefit, 0);
    assert!(greedy < window && window < oldest, "{greedy}, {window}, {oldest}");
    // Under uniform writes age says nothing that the number of valid pages does not.
    assert!(greedy * 0.999 < aged && aged < oldest, "{greedy}, {aged}, {oldest}");
}

#[test]
fn a_drive_that_starts_in_the_steady_state_stays_in_it() {
    for share in [0.9, 0.75] {
        let long = die(1024, share, InitialFlash::Written, VictimPolicy::Greedy, 0);
        let steady = SsdSpec { initial: InitialFlash::Steady, ..long.clone() };
        // From the start on: each half of a single overwrite is as the end of six.
        let (found, expected) = (amplification(&steady, 1), amplification(&long, 6));
        let off = found / expected - 1.0;
        assert!(off.abs() < 0.03, "{share} full: {found} from the start, {expected} in the end");
    }
}

#[test]
fn the_steady_state_has_the_histogram_of_a_die_that_was_overwritten() {
    for share in [0.9, 0.8, 0.6] {
        let long = die(1024, share, InitialFlash::Written, VictimPolicy::Greedy, 0);
        let steady = SsdSpec { initial: InitialFlash::Steady, ..long.clone() };
        let built = Ssd::new(&steady).layer().filled_units();
        let (layer, _) = overwritten(&long, 6);
        let simulated = layer.filled_units();
        assert!(simulated.len() > 1000 && built.len() > 1000);
        // The largest difference of the two distributions of valid pages over blocks.
        let below = |all: &[u32], most: u32| {
            all.iter().filter(|units| **units <= most).count() as f64 / all.len() as f64
        };
        let off = (0..=64).map(|most| (below(&built, most) - below(&simulated, most)).abs());
        let most = off.fold(0.0, f64::max);
        assert!(most < 0.05, "{share} full: {most}");
    }
}

/// A drive of 32 dies that is asked for a page each 300 us, every other time to write one, at random: what collection
/// moved and how long reads took, of eighths of the time in which the host fills a block of each die.
fn lightly_asked(initial: InitialFlash, eighths: u64) -> Vec<(u64, u64)> {
    let flash = NandSpec { channels: 8, ways: 4, blocks: 256, pages: 32, ..nand() };
    let pages = flash.bytes() as u64 / 4096 * 8 / 10;
    let capacity = Size::from_bytes(pages * 4096);
    let mut drive = Ssd::new(&checked(SsdSpec { capacity, nand: flash, initial, ..spec() }));
    let mut random = Random::stream(7, "lightly");
    let (mut out, mut found, mut moved) = (Vec::new(), Vec::new(), 0);
    for eighth in 0..eighths {
        for n in 0..2 * 32 * 4u32 {
            let now_ps = (eighth * 256 + u64::from(n)) * 300 * US;
            drive.advance(now_ps, &mut out);
            drive.submit(now_ps, page_access(n, random.below(pages), n % 2 == 1));
        }
        let all = drive.report().translation.moved_units;
        let reads = out.drain(..).filter(|done| done.token % 2 == 0);
        let latencies: Vec<_> = reads.map(|done| done.stages.total_ps() / 1000).collect();
        let mean_ns = latencies.iter().sum::<u64>() / latencies.len() as u64;
        found.push((std::mem::replace(&mut moved, all).abs_diff(all), mean_ns));
    }
    found
}

#[test]
fn collection_of_a_steady_drive_goes_on_from_the_first_write_as_ever_after() {
    let found = lightly_asked(InitialFlash::Steady, 48);
    let mean = |of: fn(&(u64, u64)) -> u64, part: &[(u64, u64)]| {
        part.iter().map(of).sum::<u64>() as f64 / part.len() as f64
    };
    let (moved, latency_ns) = (mean(|it| it.0, &found), mean(|it| it.1, &found));
    for (at, part) in found.chunks(8).enumerate() {
        let of = mean(|it| it.0, part) / moved;
        assert!((0.85..1.15).contains(&of), "{of} of the mean is moved in block {at}: {found:?}");
    }
    // Nor do all dies collect at once: the first eighth of the first block moves no more than others may.
    let first = found[0].0 as f64 / moved;
    assert!((0.3..2.0).contains(&first), "{first} of the mean at first: {found:?}");
    let first = found[0].1 as f64 / latency_ns;
    assert!((0.7..1.3).contains(&first), "reads take {first} of the mean at first: {found:?}");
}
