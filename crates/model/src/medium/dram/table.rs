//! The rules of a standard as distances: after a command, how long until each next one, where.

use super::description::Description;
use super::standard::{Command, Next, Scope};

/// Before when each next command cannot start: its first clock, where the standard's rules count from
/// the last.
pub type Earliest = [u64; Next::COUNT];

/// Which next commands a command makes wait, and for how many clocks: a few of all.
#[derive(Clone, Copy, Debug, Default)]
struct Distances {
    count: u8,
    next: [u8; Next::COUNT],
    clocks: [u64; Next::COUNT],
}

impl Distances {
    /// Of several rules for a pair, the longest holds.
    fn add(&mut self, next: Next, clocks: u64) {
        let count = usize::from(self.count);
        if let Some(known) = self.next[..count].iter().position(|&known| known == next as u8) {
            self.clocks[known] = clocks.max(self.clocks[known]);
        } else {
            (self.next[count], self.clocks[count]) = (next as u8, clocks);
            self.count += 1;
        }
    }

    #[inline]
    fn raise(&self, earliest: &mut Earliest, at: u64) {
        for place in 0..usize::from(self.count).min(Next::COUNT) {
            // Masked only so that no bounds are checked.
            let earliest = &mut earliest[usize::from(self.next[place]) % Next::COUNT];
            *earliest = (at + self.clocks[place]).max(*earliest);
        }
    }
}

/// All distances of a description, each from the last clock of a command to the first of the next.
#[derive(Clone, Debug)]
pub struct Table {
    bank: [Distances; Command::ALL.len()],
    group: [Distances; Command::ALL.len()],
    rank: [Distances; Command::ALL.len()],
    other_rank: [Distances; Command::ALL.len()],
}

impl Table {
    /// The distances of a description, without those before what its controller never does: to power
    /// down, where it does not `power_down`, and to refresh banks one by one or all at once.
    /// A next command starts so many clocks `before` the one that the standard's rules count to.
    pub fn new(description: &Description, power_down: bool, before: impl Fn(Next) -> u64) -> Self {
        let none = [Distances::default(); Command::ALL.len()];
        let mut table = Table { bank: none, group: none, rank: none, other_rank: none };
        let at_once = description.refresh_units == 1;
        let comes = |next: Next| match next {
            Next::Refresh => at_once,
            Next::RefreshBank => !at_once,
            Next::PowerDown | Next::PowerUp => power_down,
            _ => true,
        };
        for rule in description.standard.constraints() {
            let clocks = (rule.clocks)(&description.timings);
            let distances = match rule.scope {
                Scope::Bank => &mut table.bank,
                Scope::Group => &mut table.group,
                Scope::Rank => &mut table.rank,
                Scope::OtherRank => &mut table.other_rank,
            };
            for &after in rule.after {
                for &next in rule.next.iter().filter(|&&next| clocks > 0 && comes(next)) {
                    distances[after as usize].add(next, clocks.saturating_sub(before(next)));
                }
            }
        }
        table
    }

    /// What follows at the bank of a command given at `at`.
    #[inline]
    pub fn raise_bank(&self, earliest: &mut Earliest, command: Command, at: u64) {
        self.bank[command as usize].raise(earliest, at);
    }

    /// What follows at its bank group.
    #[inline]
    pub fn raise_group(&self, earliest: &mut Earliest, command: Command, at: u64) {
        self.group[command as usize].raise(earliest, at);
    }

    /// What follows at its rank.
    #[inline]
    pub fn raise_rank(&self, earliest: &mut Earliest, command: Command, at: u64) {
        self.rank[command as usize].raise(earliest, at);
    }

    /// What follows at the other ranks.
    #[inline]
    pub fn raise_other_rank(&self, earliest: &mut Earliest, command: Command, at: u64) {
        self.other_rank[command as usize].raise(earliest, at);
    }
}
