//! How many wait in queues, over time, by samples.

use crate::LatencyHistogram;

const COLUMNS: u64 = 128;

/// Samples of how many each of several queues holds, by time: at most 128 columns, each of a power of two of
/// picoseconds, the shortest that suffice. A sample counts for the time since the one before.
#[derive(Clone, Debug, Default)]
pub struct DepthSeries {
    column_shift: u32,
    /// Of each column, the time that samples count for.
    times: Vec<u64>,
    queues: Vec<Queue>,
    samples: u64,
}

/// What one queue held.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Its name.
    pub name: &'static str,
    /// Of each column, depths times the time that they count for; and the greatest depth.
    columns: Vec<(u128, u64)>,
    /// Depths, each for the time that it counts for.
    depths: LatencyHistogram,
}

impl DepthSeries {
    /// Of nothing; columns are of `2^column_shift` ps at least.
    pub fn new(column_shift: u32) -> Self {
        DepthSeries { column_shift, ..DepthSeries::default() }
    }

    /// At a time, queues hold so many, which counts for `weight` since the sample before. Names are the same, in the
    /// same order, in each sample; of queues with one name the sum counts.
    pub fn sample(&mut self, at_ps: u64, weight: u64, depths: &mut Vec<(&'static str, u64)>) {
        join_equal(depths);
        if self.samples == 0 {
            let queue = |&(name, _): &(&'static str, u64)| Queue {
                name,
                columns: Vec::new(),
                depths: LatencyHistogram::new(),
            };
            self.queues = depths.iter().map(queue).collect();
        }
        let at_ps = at_ps.saturating_sub(1);
        while at_ps >> self.column_shift >= COLUMNS {
            self.join_columns();
        }
        let column = (at_ps >> self.column_shift) as usize;
        if self.times.len() <= column {
            self.times.resize(column + 1, 0);
        }
        self.times[column] += weight;
        self.samples += 1;
        for (queue, &(name, depth)) in self.queues.iter_mut().zip(depths.iter()) {
            assert_eq!(queue.name, name, "queues come in one order");
            queue.columns.resize(self.times.len(), (0, 0));
            let (sum, most) = &mut queue.columns[column];
            *sum += u128::from(depth) * u128::from(weight);
            *most = (*most).max(depth);
            queue.depths.record_n(depth, weight);
        }
    }

    fn join_columns(&mut self) {
        self.column_shift += 1;
        self.times = self.times.chunks(2).map(|pair| pair.iter().sum()).collect();
        for queue in &mut self.queues {
            let join = |pair: &[(u128, u64)]| {
                let most = pair.iter().map(|it| it.1).max();
                (pair.iter().map(|it| it.0).sum(), most.unwrap_or(0))
            };
            queue.columns = queue.columns.chunks(2).map(join).collect();
        }
    }

    /// Samples taken.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Picoseconds of a column.
    pub fn column_ps(&self) -> u64 {
        1 << self.column_shift
    }

    /// What queues held.
    pub fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// Of each column the mean depth of a queue, and the greatest; nothing of a column without a sample.
    pub fn columns<'a>(
        &'a self,
        queue: &'a Queue,
    ) -> impl Iterator<Item = Option<(f64, u64)>> + 'a {
        queue
            .columns
            .iter()
            .zip(&self.times)
            .map(|(&(sum, most), &time)| (time > 0).then(|| (sum as f64 / time as f64, most)))
    }
}

impl Queue {
    /// Depths over all of the time, each for the time that it counts for.
    pub fn depths(&self) -> &LatencyHistogram {
        &self.depths
    }
}

/// Adds up what has one name, at the place of the first.
fn join_equal(depths: &mut Vec<(&'static str, u64)>) {
    let mut at = 0;
    while at < depths.len() {
        let (name, depth) = depths[at];
        match depths[..at].iter().position(|it| it.0 == name) {
            Some(first) => {
                depths[first].1 += depth;
                depths.remove(at);
            }
            None => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn columns_have_the_mean_and_the_greatest_of_their_samples(
            samples in prop::collection::vec((1..1u64 << 14, 0..2000u64, 0..20u64), 1..300),
        ) {
            let mut series = DepthSeries::new(10);
            let mut at_ps = 0;
            let mut taken = Vec::new();
            for (after_ps, one, other) in samples {
                at_ps += after_ps;
                taken.push((at_ps, after_ps, one));
                series.sample(at_ps, after_ps, &mut vec![("a", one), ("b", other), ("a", 1)]);
            }
            let column_ps = series.column_ps();
            let columns = (at_ps - 1) / column_ps + 1;
            prop_assert!(columns <= COLUMNS && (columns > COLUMNS / 2 || column_ps == 1 << 10));
            let queue = &series.queues()[0];
            let found: Vec<_> = series.columns(queue).collect();
            prop_assert_eq!(found.len() as u64, columns);
            for (column, found) in (0..).zip(found) {
                let of = taken.iter().filter(|it| (it.0 - 1) / column_ps == column);
                let (time, sum, most) = of.fold((0, 0, 0), |all, &(_, weight, depth)| {
                    (all.0 + weight, all.1 + weight * (depth + 1), all.2.max(depth + 1))
                });
                let expected = (time > 0).then(|| (sum as f64 / time as f64, most));
                prop_assert_eq!(found, expected);
            }
            prop_assert_eq!(queue.depths().count(), at_ps);
            prop_assert_eq!(series.queues().len(), 2);
            prop_assert_eq!(series.samples(), taken.len() as u64);
        }
    }
}
