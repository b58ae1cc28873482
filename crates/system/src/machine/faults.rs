//! How long page faults take, from the access that needs the page until it can go on, by what they need.

use super::timed::Timed;
use crate::result::FaultResult;
use std::collections::BTreeMap;
use tierscope_kernel::{Stage, StageTimes};
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

/// Faults that have ended, by kind.
#[derive(Clone, Debug, Default)]
pub struct Ended([Timed<{ Stage::ALL.len() }>; FaultKind::ALL.len()]);

impl Ended {
    /// One has, which has taken so much in each stage.
    pub fn record(&mut self, kind: FaultKind, times: &StageTimes) {
        self.0[kind as usize].record(times);
    }

    /// Of each kind that there were any of.
    pub fn results(&self) -> BTreeMap<String, FaultResult> {
        let named = FaultKind::ALL.iter().zip(&self.0);
        let told = named.filter_map(|((_, name), of_kind)| {
            Some((name.to_string(), of_kind.result(|stage| Stage::ALL[stage].name())?))
        });
        told.collect()
    }
}
