//! The data bus of a channel that a device shares: what the DRAM takes of it, and what it leaves; and refreshes,
//! after which a device has its module for itself.

use super::Dram;
use super::rules::Rules;
use super::standard::{Command, Next};
use crate::request::Refreshes;

impl Dram {
    /// From when on the bursts of all commands that `channel` has given by `now_ps` have left its bus,
    /// in picoseconds; after a read once the ranks could be written, after a write once they could be read.
    pub(super) fn bursts_end_ps(&mut self, now_ps: u64, channel: usize) -> u64 {
        self.catch_up(now_ps, channel);
        self.set_earliest(channel);
        let t = &self.rules.timings;
        let apart = t.ccd_s.max(t.burst);
        // The ranks allow the next burst when this one has had its time; 0 where there was none.
        let end = |earliest: u64, to_data: u64| match earliest {
            0 => 0,
            earliest => (earliest + to_data + t.burst).saturating_sub(apart),
        };
        let ends = self.channels[channel].ranks.iter().map(|rank| {
            let [read, write] = [Next::Read, Next::Write].map(|next| rank.earliest[next as usize]);
            end(read, t.cl).max(end(write, t.cwl))
        });
        self.rules.clock.cycles_to_ps(ends.max().unwrap_or(0)).max(now_ps)
    }

    /// The refreshes of the first rank of `channel` by `now_ps`, each of the whole rank.
    pub(super) fn refreshes_by(&mut self, now_ps: u64, channel: usize) -> Refreshes {
        self.catch_up(now_ps, channel);
        self.set_earliest(channel);
        let Rules { timings: t, clock, description, .. } = &self.rules;
        let rank = &self.channels[channel].ranks[0];
        Refreshes {
            told_ps: now_ps,
            done: rank.refresh.done,
            last_ps: clock.cycles_to_ps(rank.last_given(Command::Refresh).unwrap_or(0)),
            first_ps: t.refi_ps / u64::from(description.ranks),
            interval_ps: t.refi_ps,
            busy_ps: clock.cycles_to_ps(t.rfc),
        }
    }

    /// No burst of a command that `channel` has not given by `now_ps` is on its bus before `until_ps`,
    /// and tRTRS later.
    pub(super) fn leave_bus(&mut self, now_ps: u64, until_ps: u64, channel: usize) {
        self.catch_up(now_ps, channel);
        let Rules { timings: t, clock, .. } = &self.rules;
        let until = clock.ps_to_cycles_ceil(until_ps) + t.rtrs;
        for rank in &mut self.channels[channel].ranks {
            for (next, to_data) in [(Next::Read, t.cl), (Next::Write, t.cwl)] {
                let earliest = &mut rank.earliest[next as usize];
                *earliest = (*earliest).max(until.saturating_sub(to_data));
            }
        }
        self.channels[channel].choose_again(&self.rules);
        self.set_earliest(channel);
    }
}
