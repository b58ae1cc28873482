//! The rules of a standard as distances: after a command, how long until each next one, where.

use super::description::Description;
use super::standard::{Command, Next, Scope};

/// Before when each next command cannot start: its first clock, where the standard's rules count from
/// the last.
pub type Earliest = [u64; Next::COUNT];

/// The next commands that requests need, which come first among all: activate, precharge, read, write.
pub const USUAL: usize = 4;

/// The same for these alone.
pub type UsualEarliest = [u64; USUAL];

/// A next command that waits, and for how many clocks.
#[derive(Clone, Copy, Debug)]
struct Wait {
    next: Next,
    clocks: u64,
}

/// Which next commands a command makes wait: a few of all.
#[derive(Clone, Copy, Debug)]
struct Waits {
    count: usize,
    waits: [Wait; Next::COUNT],
}

impl Waits {
    const NONE: Waits =
        Waits { count: 0, waits: [Wait { next: Next::Activate, clocks: 0 }; Next::COUNT] };

    /// Of several rules for a pair, the longest holds.
    fn add(&mut self, next: Next, clocks: u64) {
        let count = self.count;
        if let Some(known) = self.waits[..count].iter_mut().find(|known| known.next == next) {
            known.clocks = clocks.max(known.clocks);
        } else {
            self.waits[count] = Wait { next, clocks };
            self.count += 1;
        }
    }

    fn all(&self) -> &[Wait] {
        &self.waits[..self.count]
    }

    #[inline]
    fn raise<const N: usize>(&self, earliest: &mut [u64; N], at: u64) {
        for place in 0..self.count.min(Next::COUNT) {
            let Wait { next, clocks } = self.waits[place];
            // Masked only so that no bounds are checked.
            let earliest = &mut earliest[next as usize % N];
            *earliest = (at + clocks).max(*earliest);
        }
    }
}

/// The commands that make one next command wait, and for how many clocks each.
#[derive(Clone, Copy, Debug)]
struct Behind {
    count: usize,
    waits: [(Command, u64); Command::ALL.len()],
}

impl Behind {
    const NONE: Behind = Behind { count: 0, waits: [(Command::Activate, 0); Command::ALL.len()] };

    /// The same rules as of each command, seen from a next one.
    fn new(others: &[Waits; Command::ALL.len()], next: Next) -> Self {
        let mut behind = Behind::NONE;
        for (command, waits) in Command::ALL.into_iter().zip(others) {
            if let Some(wait) = waits.all().iter().find(|wait| wait.next == next) {
                behind.waits[behind.count] = (command, wait.clocks);
                behind.count += 1;
            }
        }
        behind
    }
}

/// What each command makes wait within one scope.
#[derive(Clone, Copy, Debug)]
struct Distances {
    /// Of what requests need.
    usual: [Waits; Command::ALL.len()],
    /// Of the rest.
    others: [Waits; Command::ALL.len()],
}

impl Distances {
    const NONE: Distances = Distances {
        usual: [Waits::NONE; Command::ALL.len()],
        others: [Waits::NONE; Command::ALL.len()],
    };

    fn add(&mut self, after: Command, next: Next, clocks: u64) {
        let of = if (next as usize) < USUAL { &mut self.usual } else { &mut self.others };
        of[after as usize].add(next, clocks);
    }
}

/// All distances of a description, each from the last clock of a command to the first of the next.
#[derive(Clone, Debug)]
pub struct Table {
    bank: Distances,
    group: Distances,
    rank: Distances,
    other_rank: Distances,
    /// What next commands that no request needs wait for at their rank.
    others_of_rank: [Behind; Next::COUNT],
}

impl Table {
    /// The distances of a description, without those before what its controller never does: to power
    /// down, where it does not `power_down`, and to refresh banks one by one or all at once.
    /// A next command starts so many clocks `before` the one that the standard's rules count to.
    pub fn new(description: &Description, power_down: bool, before: impl Fn(Next) -> u64) -> Self {
        let none = Distances::NONE;
        let others_of_rank = [Behind::NONE; Next::COUNT];
        let mut table =
            Table { bank: none, group: none, rank: none, other_rank: none, others_of_rank };
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
                    distances.add(after, next, clocks.saturating_sub(before(next)));
                }
            }
        }
        let usual = |distances: &Distances| distances.others.iter().all(|others| others.count == 0);
        assert!(usual(&table.group) && usual(&table.other_rank), "kept by bank and rank alone");
        table.assert_groups();
        for next in Command::ALL.map(Next::from) {
            table.others_of_rank[next as usize] = Behind::new(&table.rank.others, next);
        }
        table
    }

    /// Within a bank group an activate makes activates wait, a column command column commands, and no
    /// other anything: so candidates take it.
    fn assert_groups(&self) {
        for command in Command::ALL {
            let taken = |next: Next| match next {
                Next::Activate => command == Command::Activate,
                Next::Read | Next::Write => command.is_column(),
                _ => false,
            };
            let mut waits = self.group.usual[command as usize].all().iter();
            assert!(waits.all(|wait| taken(wait.next)), "a rule of bank groups that is not kept");
        }
    }

    /// What follows at the bank of a command given at `at`.
    #[inline(always)]
    pub fn raise_bank(&self, earliest: &mut Earliest, command: Command, at: u64) {
        self.bank.usual[command as usize].raise(earliest, at);
        self.bank.others[command as usize].raise(earliest, at);
    }

    /// What follows at its bank group.
    #[inline(always)]
    pub fn raise_group(&self, earliest: &mut UsualEarliest, command: Command, at: u64) {
        self.group.usual[command as usize].raise(earliest, at);
    }

    /// What follows at its rank, of what requests need.
    #[inline(always)]
    pub fn raise_rank(&self, earliest: &mut UsualEarliest, command: Command, at: u64) {
        self.rank.usual[command as usize].raise(earliest, at);
    }

    /// What follows at the other ranks.
    #[inline]
    pub fn raise_other_rank(&self, earliest: &mut UsualEarliest, command: Command, at: u64) {
        self.other_rank.usual[command as usize].raise(earliest, at);
    }

    /// What a next command that no request needs waits for at its rank: each command, and how many clocks.
    #[inline]
    pub fn others_of_rank(&self, next: Next) -> &[(Command, u64)] {
        let Behind { count, waits } = &self.others_of_rank[next as usize];
        &waits[..*count]
    }
}
