//! How long page faults take, from the access that needs the page until it can go on, by what they need.

use crate::result::{FaultResult, LatencySummary};
use std::collections::BTreeMap;
use tierscope_kernel::{LatencyHistogram, Stage, StageTimes};
use tierscope_model::os::paging::{OsCounters, Work};

/// What a fault needs: where it needs several things, the last of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// Nothing but entries, or a page of zeros.
    #[default]
    Minor,
    /// A copy of a page that others have, too, or a file.
    Copy,
    /// A huge page.
    Huge,
    /// To move its page to another node of memory, or to be told that it stays.
    Hint,
    /// A page of a file, from the store.
    Major,
    /// A page from swap.
    Swap,
}

impl FaultKind {
    const ALL: [(FaultKind, &str); 6] = [
        (FaultKind::Minor, "minor"),
        (FaultKind::Copy, "copy"),
        (FaultKind::Huge, "huge"),
        (FaultKind::Hint, "hint"),
        (FaultKind::Major, "major"),
        (FaultKind::Swap, "swap"),
    ];

    /// What a decision was about, by what it has counted and the work that it has asked for.
    pub fn of(before: &OsCounters, after: &OsCounters, work: &[Work]) -> FaultKind {
        if after.major_faults > before.major_faults {
            let swaps = after.swap_ins > before.swap_ins;
            return if swaps { FaultKind::Swap } else { FaultKind::Major };
        }
        if after.hint_faults > before.hint_faults {
            FaultKind::Hint
        } else if after.huge_page_faults > before.huge_page_faults {
            FaultKind::Huge
        } else if work.iter().any(|it| matches!(it, Work::CopyFrame(..))) {
            FaultKind::Copy
        } else {
            FaultKind::Minor
        }
    }
}

/// Faults of a kind that have ended.
#[derive(Clone, Debug)]
struct OfKind {
    latencies: LatencyHistogram,
    times: [u128; Stage::ALL.len()],
}

impl Default for OfKind {
    fn default() -> Self {
        OfKind { latencies: LatencyHistogram::default(), times: [0; Stage::ALL.len()] }
    }
}

/// Faults that have ended, by kind.
#[derive(Clone, Debug, Default)]
pub struct Ended([OfKind; FaultKind::ALL.len()]);

impl Ended {
    /// One has, which has taken so much in each stage.
    pub fn record(&mut self, kind: FaultKind, times: &StageTimes) {
        let of_kind = &mut self.0[kind as usize];
        of_kind.latencies.record(times.iter().sum());
        let sums = of_kind.times.iter_mut().zip(times);
        sums.for_each(|(sum_ps, own_ps)| *sum_ps += u128::from(*own_ps));
    }

    /// Of each kind that there were any of.
    pub fn results(&self) -> BTreeMap<String, FaultResult> {
        let named = FaultKind::ALL.iter().zip(&self.0);
        let told = named.filter_map(|((_, name), OfKind { latencies, times })| {
            let count = latencies.count();
            let per_fault_ns = |time_ps: u128| time_ps as f64 / 1e3 / count as f64;
            let spent = Stage::ALL.iter().zip(times).filter(|(_, time_ps)| **time_ps > 0);
            let result = FaultResult {
                count,
                time_ns: latencies.sum_ps() as f64 / 1e3,
                latency_ns: LatencySummary::of(latencies)?,
                stages_ns: spent
                    .map(|(stage, time_ps)| (stage.name().to_string(), per_fault_ns(*time_ps)))
                    .collect(),
            };
            Some((name.to_string(), result))
        });
        told.collect()
    }
}
