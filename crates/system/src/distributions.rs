//! Distributions, as results tell them: latencies, depths of queues, accesses over address and time, wear.

use crate::result::{Distribution, HeatMapResult, QueueResult, QueuesResult, WearClass};
use tierscope_kernel::{DepthSeries, HeatMap, LatencyHistogram};

/// Classes of wear that are told at most.
const WEAR_CLASSES: u64 = 64;

/// A whole histogram; none where it holds nothing.
pub(crate) fn distribution(histogram: &LatencyHistogram) -> Option<Distribution> {
    let mut told = Distribution::default();
    for (from_ps, to_ps, count) in histogram.coarse() {
        told.from_ps.push(from_ps);
        told.to_ps.push(to_ps);
        told.counts.push(count);
    }
    (histogram.count() > 0).then_some(told)
}

/// Counts by address and time; none where nothing was counted.
pub(crate) fn heat_map(map: &HeatMap) -> Option<HeatMapResult> {
    let map = map.settled();
    let (addresses, counts): (Vec<u64>, Vec<Vec<u64>>) =
        map.rows().map(|(address, counts)| (address, counts.to_vec())).unzip();
    (!addresses.is_empty()).then(|| HeatMapResult {
        row_bytes: map.row_bytes(),
        column_ps: map.column_ps(),
        addresses,
        counts,
    })
}

/// What queues held over time; none where no sample was taken.
pub(crate) fn queues(series: &DepthSeries) -> Option<QueuesResult> {
    let thousandths = |mean: f64| (mean * 1e3).round() / 1e3;
    let of = |queue| {
        let columns = || series.columns(queue);
        let depths = queue.depths();
        let result = QueueResult {
            mean: thousandths(depths.mean_ps()),
            p50: depths.quantile_ps(0.5),
            p99: depths.quantile_ps(0.99),
            max: depths.max_ps(),
            means: columns().map(|it| it.map(|(mean, _)| thousandths(mean))).collect(),
            most: columns().map(|it| it.map(|(_, most)| most)).collect(),
        };
        (queue.name.to_owned(), result)
    };
    (series.samples() > 0).then(|| QueuesResult {
        samples: series.samples(),
        column_ps: series.column_ps(),
        queues: series.queues().iter().map(of).collect(),
    })
}

/// Blocks by how often they were erased, where `blocks[k]` were erased `least + k` times: in classes of equal
/// width, as narrow as 64 of them can be.
pub(crate) fn wear_of_blocks(least: u64, blocks: &[u64]) -> Vec<WearClass> {
    let width = (blocks.len() as u64).div_ceil(WEAR_CLASSES).max(1);
    let classes = (0..).zip(blocks.chunks(width as usize));
    let class = |(class, blocks): (u64, &[u64])| WearClass {
        from: least + class * width,
        to: least + (class + 1) * width - 1,
        count: blocks.iter().sum(),
    };
    classes.map(class).filter(|class| class.count > 0).collect()
}

/// Lines by how often they were written, where `lines[k]` were written from 2^k times on.
pub(crate) fn wear_of_lines(lines: &[u64]) -> Vec<WearClass> {
    let class =
        |(k, count): (u32, &u64)| WearClass { from: 1 << k, to: (1 << (k + 1)) - 1, count: *count };
    (0..).zip(lines).map(class).filter(|class| class.count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_wear_hold_each_block_and_line_once() {
        let blocks: Vec<u64> = (0..200).map(|k| k % 3).collect();
        let classes = wear_of_blocks(7, &blocks);
        assert_eq!(classes.iter().map(|it| it.count).sum::<u64>(), blocks.iter().sum::<u64>());
        assert!(classes.len() <= 64 && classes[0].from == 7, "{classes:?}");
        for class in &classes {
            let held = &blocks[(class.from - 7) as usize..=((class.to - 7) as usize).min(199)];
            assert_eq!(class.count, held.iter().sum::<u64>());
        }
        assert_eq!(wear_of_blocks(3, &[5])[0], WearClass { from: 3, to: 3, count: 5 });
        let lines = wear_of_lines(&[4, 0, 1]);
        assert_eq!(
            lines,
            [(1, 1, 4), (4, 7, 1)].map(|(from, to, count)| WearClass { from, to, count })
        );
    }
}
