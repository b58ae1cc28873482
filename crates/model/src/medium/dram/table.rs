//! The rules of a standard as distances: after a command, how long until each next one, where.

use super::description::Description;
use super::standard::{Command, Next, Scope};

/// Until when each next command is refused.
pub type Earliest = [u64; Next::COUNT];

/// Which next commands a command makes wait, and for how many clocks: a few of all. Behind those
/// come places that forbid nothing: no rank that takes commands waits to be powered up.
#[derive(Clone, Copy, Debug)]
struct Distances {
    count: usize,
    next: [u8; Next::COUNT],
    clocks: [u64; Next::COUNT],
}

impl Distances {
    const NONE: Distances =
        Distances { count: 0, next: [Next::PowerUp as u8; Next::COUNT], clocks: [0; Next::COUNT] };

    /// Of several rules for a pair, the longest holds.
    fn add(&mut self, next: Next, clocks: u64) {
        let count = self.count;
        if let Some(known) = self.next[..count].iter().position(|&known| known == next as u8) {
            self.clocks[known] = clocks.max(self.clocks[known]);
        } else {
            (self.next[count], self.clocks[count]) = (next as u8, clocks);
            self.count += 1;
        }
    }

}

/// The distances of one scope.
#[derive(Clone, Debug)]
struct Within {
    of: [Distances; Command::ALL.len()],
    /// The most that any command has: so many places are looked at, always, so that no branch
    /// depends on the command.
    most: usize,
}

impl Within {
    const NONE: Within = Within { of: [Distances::NONE; Command::ALL.len()], most: 0 };

    #[inline]
    fn raise(&self, earliest: &mut Earliest, command: Command, at: u64) {
        let distances = &self.of[command as usize];
        for place in 0..self.most.min(Next::COUNT) {
            // Masked only so that no bounds are checked.
            let earliest = &mut earliest[usize::from(distances.next[place]) % Next::COUNT];
            *earliest = (at + distances.clocks[place]).max(*earliest);
        }
    }
}

/// All distances of a description.
#[derive(Clone, Debug)]
pub struct Table {
    bank: Within,
    group: Within,
    rank: Within,
    other_rank: Within,
}

impl Table {
    /// The distances of a description, without those before what its controller never does: to power
    /// down, where it does not `power_down`, and to refresh banks one by one or all at once.
    pub fn new(description: &Description, power_down: bool) -> Self {
        let mut table = Table {
            bank: Within::NONE,
            group: Within::NONE,
            rank: Within::NONE,
            other_rank: Within::NONE,
        };
        let at_once = description.refresh_units == 1;
        let comes = |next: Next| match next {
            Next::Refresh => at_once,
            Next::RefreshBank => !at_once,
            Next::PowerDown | Next::PowerUp => power_down,
            _ => true,
        };
        for rule in description.standard.constraints() {
            let clocks = (rule.clocks)(&description.timings);
            let within = match rule.scope {
                Scope::Bank => &mut table.bank,
                Scope::Group => &mut table.group,
                Scope::Rank => &mut table.rank,
                Scope::OtherRank => &mut table.other_rank,
            };
            for &after in rule.after {
                for &next in rule.next.iter().filter(|&&next| clocks > 0 && comes(next)) {
                    let distances = &mut within.of[after as usize];
                    distances.add(next, clocks);
                    within.most = within.most.max(distances.count);
                }
            }
        }
        table
    }

    /// What follows at the bank of a command given at `at`.
    #[inline]
    pub fn raise_bank(&self, earliest: &mut Earliest, command: Command, at: u64) {
        self.bank.raise(earliest, command, at);
    }

    /// What follows at its bank group.
    #[inline]
    pub fn raise_group(&self, earliest: &mut Earliest, command: Command, at: u64) {
        self.group.raise(earliest, command, at);
    }

    /// What follows at its rank.
    #[inline]
    pub fn raise_rank(&self, earliest: &mut Earliest, command: Command, at: u64) {
        self.rank.raise(earliest, command, at);
    }

    /// What follows at the other ranks.
    #[inline]
    pub fn raise_other_rank(&self, earliest: &mut Earliest, command: Command, at: u64) {
        self.other_rank.raise(earliest, command, at);
    }
}
