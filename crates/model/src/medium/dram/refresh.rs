//! Refresh and power-down of a channel's ranks.
//!
//! A refresh that falls due is done at once where no request waits for the rank; else it is owed
//! until none does, or until no more may be owed. Power-down is found out when it ends: nothing
//! depends on it before.

use super::super::PagePolicy;
use super::channel::Channel;
use super::log::Logged;
use super::rank::Rank;
use super::rules::Rules;
use super::standard::Command;

/// So many idle refreshes are done one by one at least: the rest is counted at once.
const STEPS_AT_LEAST: u64 = 8;

impl Channel {
    /// What falls due now is owed, and done if it is time.
    #[cold]
    pub(super) fn refreshes_fall_due(&mut self, rules: &Rules) {
        for index in 0..self.ranks.len() {
            let refresh = &mut self.ranks[index].refresh;
            if refresh.due > self.now {
                continue;
            }
            refresh.fallen_due += 1;
            refresh.owed += 1;
            refresh.due = rules.description.refresh_due(index as u32, refresh.fallen_due);
            self.start_refresh_if_due(rules, index as u32);
        }
        self.find_next_due();
        self.choose_again(rules);
    }

    /// Starts a refresh of a rank that owes one, where nothing waits for it, or it owes too many.
    fn start_refresh_if_due(&mut self, rules: &Rules, rank: u32) {
        let state = &self.ranks[rank as usize];
        let refresh = &state.refresh;
        let urgent = refresh.owed > rules.description.most_owed;
        if refresh.under_way || refresh.owed == 0 || !(urgent || state.waiting == 0) {
            return;
        }
        self.wake(rules, rank, self.now);
        self.ranks[rank as usize].refresh.under_way = true;
        self.block(rules, rank, true);
    }

    /// The last request for a rank has got its commands.
    pub(super) fn rank_has_no_requests(&mut self, rules: &Rules, rank: u32) {
        self.start_refresh_if_due(rules, rank);
    }

    /// Gives the next command of a refresh that is under way.
    #[cold]
    pub(super) fn go_on_with_refresh(&mut self, rules: &Rules, rank: u32, at: u64) {
        let (command, bank, _) = self.refresh_command(rules, rank, at);
        match (command, bank) {
            (Command::PrechargeAll, _) => self.close_all(rules, rank, at),
            (Command::Precharge, Some(bank)) => self.close(rules, bank, at),
            (Command::Refresh, _) => {
                self.give_rank(rules, command, rank, at);
                self.log_rank(command, rank, at);
                self.refreshed(rules, rank);
            }
            (_, bank) => {
                for index in self.refresh_targets(rules, rank) {
                    rules.table.raise_bank(&mut self.banks[index].earliest, command, at);
                }
                self.give_rank(rules, command, rank, at);
                let of_rank = rules.description.banks_of_rank();
                let bank = bank.map_or(0, |bank| bank as u32) - rank * of_rank;
                self.write_log(Logged { clock: at, command, rank, bank, row: 0 });
                self.refreshed(rules, rank);
            }
        }
    }

    fn refreshed(&mut self, rules: &Rules, rank: u32) {
        self.block(rules, rank, false);
        let refresh = &mut self.ranks[rank as usize].refresh;
        refresh.under_way = false;
        refresh.owed -= 1;
        refresh.done += 1;
        refresh.unit = (refresh.unit + 1) % rules.description.refresh_units;
        self.start_refresh_if_due(rules, rank);
    }

    /// Ends a rank's power-down at `at`, if it was in it. Returns whether it was.
    pub(super) fn wake(&mut self, rules: &Rules, rank: u32, at: u64) -> bool {
        let Some(after) = rules.power_down_after else { return false };
        let state = &mut self.ranks[rank as usize];
        let Some(begin) = state.powered_down(&rules.table, at, after) else { return false };
        state.give(&rules.table, Command::PowerDown, begin);
        let end = at.max(begin + rules.timings.cke);
        state.give(&rules.table, Command::PowerUp, end);
        state.residency.power_down(end - begin);
        state.idle_since = end;
        self.log_rank(Command::PowerDown, rank, begin);
        self.log_rank(Command::PowerUp, rank, end);
        true
    }

    /// Does the refresh that falls due now where nothing waits in the channel and nothing comes between its
    /// commands before clock `end`. Returns whether it did, or began it. What it leaves is as if it had been
    /// owed, and each command chosen.
    pub(super) fn refresh_alone(&mut self, rules: &Rules, end: u64) -> bool {
        let d = &rules.description;
        let steady = d.refresh_units == 1 && rules.page_policy != PagePolicy::Timeout;
        if !steady || self.is_busy() || self.is_refreshing() {
            return false;
        }
        let mut due = self.ranks.iter().zip(0..).filter(|(rank, _)| rank.refresh.due <= self.now);
        let (Some((Rank { refresh, .. }, rank)), None) = (due.next(), due.next()) else {
            return false;
        };
        if refresh.owed > 0 {
            return false;
        }
        let next = d.refresh_due(rank, refresh.fallen_due + 1);
        let refresh = &mut self.ranks[rank as usize].refresh;
        (refresh.fallen_due, refresh.due) = (refresh.fallen_due + 1, next);
        self.find_next_due();
        self.wake(rules, rank, self.now);
        while let Some((command, at)) = self.refresh_before(rules, rank, end) {
            self.now = self.now.max(at);
            if command == Command::PrechargeAll {
                self.close_all(rules, rank, at);
                continue;
            }
            self.give_rank(rules, command, rank, at);
            self.log_rank(command, rank, at);
            self.ranks[rank as usize].refresh.done += 1;
            return true;
        }
        self.ranks[rank as usize].refresh.owed = 1;
        self.start_refresh_if_due(rules, rank);
        self.choose_again(rules);
        true
    }

    /// The next command of a refresh of a rank, if it comes before clock `end` and before another refresh falls due.
    fn refresh_before(&self, rules: &Rules, rank: u32, end: u64) -> Option<(Command, u64)> {
        let (command, _, at) = self.refresh_command(rules, rank, self.floors()[0]);
        (at < end && at < self.next_due()).then_some((command, at))
    }

    /// Counts refreshes of ranks that have been idle for long, and will be until clock `end`, all at once.
    /// Returns whether it did. What it leaves is as if each had been done; with a log each is.
    pub(super) fn skip_refreshes(&mut self, rules: &Rules, end: u64) -> bool {
        let quiet = self.ranks.iter().all(|rank| self.is_quiet(rank));
        if self.is_busy() || self.has_log() || !quiet {
            return false;
        }
        let mut skipped = false;
        for rank in 0..self.ranks.len() as u32 {
            skipped |= self.skip_refreshes_of(rules, rank, end);
        }
        if skipped {
            self.find_next_due();
            self.choose_again(rules);
        }
        skipped
    }

    fn skip_refreshes_of(&mut self, rules: &Rules, rank: u32, end: u64) -> bool {
        let d = &rules.description;
        let refresh = &self.ranks[rank as usize].refresh;
        let (first, due) = (refresh.fallen_due, refresh.due);
        // The least time between two, rounded down: none of those skipped lies beyond `end`.
        let apart =
            rules.clock.ps_to_cycles_ceil(rules.timings.refi_ps) / u64::from(d.refresh_units);
        let fit = end.saturating_sub(due) / (apart + 1);
        let count = fit.saturating_sub(STEPS_AT_LEAST);
        if count < STEPS_AT_LEAST {
            return false;
        }
        let last = d.refresh_due(rank, first + count - 1);
        self.wake(rules, rank, due);
        let (command, busy) = if d.refresh_units == 1 {
            (Command::Refresh, rules.timings.rfc)
        } else {
            (Command::RefreshBank, rules.timings.rfc_bank)
        };
        let mut given = last;
        if let Some(after) = rules.power_down_after {
            let t = &rules.timings;
            let awake = t.xp + busy.max(after).max(t.cke);
            if apart > awake + t.cke + 1 {
                let clocks = (last - due) - (count - 1) * awake;
                self.ranks[rank as usize].residency.power_down(clocks);
                given = last + t.xp;
            }
        }
        self.give_rank(rules, command, rank, given);
        let refresh = &mut self.ranks[rank as usize].refresh;
        refresh.fallen_due = first + count;
        refresh.done += count;
        refresh.due = d.refresh_due(rank, first + count);
        refresh.unit = ((u64::from(refresh.unit) + count) % u64::from(d.refresh_units)) as u32;
        true
    }
}
