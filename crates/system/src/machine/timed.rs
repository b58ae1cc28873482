//! How long things of a kind took, and where that time went: of calls by their thread's owners of time, of faults by stages.

use crate::result::{FaultResult, LatencySummary};
use tierscope_kernel::LatencyHistogram;

/// Things of a kind that have ended, with their time by each of so many parts.
#[derive(Clone, Debug)]
pub(super) struct Timed<const PARTS: usize> {
    latencies: LatencyHistogram,
    times: [u128; PARTS],
}

impl<const PARTS: usize> Default for Timed<PARTS> {
    fn default() -> Self {
        Timed { latencies: LatencyHistogram::default(), times: [0; PARTS] }
    }
}

impl<const PARTS: usize> Timed<PARTS> {
    /// One has, which has taken so much in each part.
    pub fn record(&mut self, times: &[u64; PARTS]) {
        self.latencies.record(times.iter().sum());
        let sums = self.times.iter_mut().zip(times);
        sums.for_each(|(sum_ps, own_ps)| *sum_ps += u128::from(*own_ps));
    }

    /// What is told of them, where there were any; `name` names a part.
    pub fn result(&self, name: impl Fn(usize) -> &'static str) -> Option<FaultResult> {
        let count = self.latencies.count();
        let each_ns = |time_ps: u128| time_ps as f64 / 1e3 / count as f64;
        let spent = self.times.iter().enumerate().filter(|(_, time_ps)| **time_ps > 0);
        Some(FaultResult {
            count,
            time_ns: self.latencies.sum_ps() as f64 / 1e3,
            latency_ns: LatencySummary::of(&self.latencies)?,
            stages_ns: spent
                .map(|(at, time_ps)| (name(at).to_string(), each_ns(*time_ps)))
                .collect(),
        })
    }
}
