//! The rules of a standard as distances: after a command, how long until each next one, where.

use super::description::Description;
use super::standard::{Command, Next, Scope};

/// Clocks to each next command; [`NO_RULE`] where there is none.
type Distances = [i64; Next::COUNT];

/// So far back that it forbids nothing.
const NO_RULE: i64 = i64::MIN / 2;

/// Until when each next command is refused.
pub type Earliest = [u64; Next::COUNT];

/// All distances of a description.
#[derive(Clone, Debug)]
pub struct Table {
    bank: [Distances; Command::ALL.len()],
    group: [Distances; Command::ALL.len()],
    rank: [Distances; Command::ALL.len()],
    other_rank: [Distances; Command::ALL.len()],
}

impl Table {
    /// The distances of a description: of several rules for a pair, the longest holds.
    pub fn new(description: &Description) -> Self {
        let none = [[NO_RULE; Next::COUNT]; Command::ALL.len()];
        let mut table = Table { bank: none, group: none, rank: none, other_rank: none };
        for rule in description.standard.constraints() {
            let clocks = (rule.clocks)(&description.timings) as i64;
            let distances = match rule.scope {
                Scope::Bank => &mut table.bank,
                Scope::Group => &mut table.group,
                Scope::Rank => &mut table.rank,
                Scope::OtherRank => &mut table.other_rank,
            };
            for &after in rule.after {
                for &next in rule.next {
                    let distance = &mut distances[after as usize][next as usize];
                    *distance = clocks.max(*distance);
                }
            }
        }
        table
    }

    /// What follows at the bank of a command given at `at`.
    #[inline]
    pub fn raise_bank(&self, earliest: &mut Earliest, command: Command, at: u64) {
        raise(earliest, &self.bank[command as usize], at);
    }

    /// What follows at its bank group.
    #[inline]
    pub fn raise_group(&self, earliest: &mut Earliest, command: Command, at: u64) {
        raise(earliest, &self.group[command as usize], at);
    }

    /// What follows at its rank.
    #[inline]
    pub fn raise_rank(&self, earliest: &mut Earliest, command: Command, at: u64) {
        raise(earliest, &self.rank[command as usize], at);
    }

    /// What follows at the other ranks.
    #[inline]
    pub fn raise_other_rank(&self, earliest: &mut Earliest, command: Command, at: u64) {
        raise(earliest, &self.other_rank[command as usize], at);
    }
}

#[inline]
fn raise(earliest: &mut Earliest, distances: &Distances, at: u64) {
    for (earliest, &distance) in earliest.iter_mut().zip(distances) {
        // Without branches: every column is looked at, and most have no rule.
        *earliest = (at as i64 + distance).max(*earliest as i64) as u64;
    }
}
