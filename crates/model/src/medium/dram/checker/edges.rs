//! Rung 2, made from the tables: every rule of every standard, for every part and every pair of commands
//! that it is of, at t − 1 (refused) and at t (accepted), by the checker and by the controller's distances.
//! A new rule is tested as it is written.

use super::super::standard::{self, Constraint};
use super::super::table::{Table, USUAL};
use super::*;
use crate::medium::{DramSpec, RefreshPolicy};

/// When the first command of a pair is given.
const AT: u64 = 1_000_000;

/// Two commands at two places of a channel of two ranks.
struct Pair {
    first: Logged,
    second: Logged,
}

impl Pair {
    /// The places of a rule: as close together as its scope says, and no closer where that can be.
    fn new(d: &Description, scope: Scope, first: Command, second: Command) -> Self {
        let (rank, bank) = match scope {
            Scope::Bank => (0, 0),
            Scope::Group => (0, 1.min(d.banks - 1)),
            Scope::Rank if d.groups > 1 => (0, d.banks),
            Scope::Rank => (0, 1),
            Scope::OtherRank => (1, 0),
        };
        let at = |command, rank, bank| {
            let whole = matches!(
                command,
                Command::PrechargeAll | Command::Refresh | Command::PowerDown | Command::PowerUp
            );
            let bank = if whole { WHOLE_RANK } else { bank };
            Logged { clock: AT, command, rank, bank, row: 1 }
        };
        Pair { first: at(first, 0, 0), second: at(second, rank, bank) }
    }

    /// A checker to which the first has been told, while rows are open.
    fn told(&self, d: &Description) -> Checker {
        let mut checker = Checker::new(d);
        checker.rows.fill(Some(1));
        let banks = checker.banks_of(self.first);
        checker.remember(self.first, &banks);
        checker
    }

    /// Whether the checker's rules let the second come so many clocks after the first.
    fn may_come(&self, d: &Description, clocks: u64) -> bool {
        let checker = self.told(d);
        let second = Logged { clock: AT + clocks, ..self.second };
        checker.check_rules(second, &checker.banks_of(second)).is_ok()
    }

    /// The scopes in which the two are together.
    fn together(&self, d: &Description) -> Vec<Scope> {
        if self.first.rank != self.second.rank {
            return vec![Scope::OtherRank];
        }
        let [first, second] = [Checker::new(d), self.told(d)];
        let mut open = first;
        open.rows.fill(Some(1));
        let (first, second) = (open.banks_of(self.first), second.banks_of(self.second));
        let group = |bank: &usize| bank / d.banks as usize;
        let mut all = vec![Scope::Rank];
        if second.iter().any(|bank| first.iter().any(|other| group(other) == group(bank))) {
            all.push(Scope::Group);
        }
        if second.iter().any(|bank| first.contains(bank)) {
            all.push(Scope::Bank);
        }
        all
    }

    /// The distance by all rules of the standard together.
    fn distance(&self, d: &Description) -> u64 {
        let together = self.together(d);
        let next = Next::from(self.second.command);
        let of_pair = |rule: &&Constraint| {
            rule.after.contains(&self.first.command)
                && rule.next.contains(&next)
                && together.contains(&rule.scope)
        };
        let rules = d.standard.constraints().filter(of_pair);
        rules.map(|rule| (rule.clocks)(&d.timings)).max().unwrap_or(0)
    }

    /// The same by the controller's table.
    fn by_table(&self, d: &Description) -> u64 {
        let table = Table::new(d, true, |_| 0);
        let (mut of_bank, mut usual, mut other) = ([0; Next::COUNT], [0; USUAL], 0);
        let (command, next) = (self.first.command, Next::from(self.second.command));
        for scope in self.together(d) {
            match scope {
                Scope::Bank => table.raise_bank(&mut of_bank, command, AT),
                Scope::Group => table.raise_group(&mut usual, command, AT),
                Scope::Rank => {
                    table.raise_rank(&mut usual, command, AT);
                    let mut others = table.others_of_rank(next).iter();
                    other = others.find(|rule| rule.0 == command).map_or(0, |rule| AT + rule.1);
                }
                Scope::OtherRank => table.raise_other_rank(&mut usual, command, AT),
            }
        }
        let usual = usual.get(next as usize).copied().unwrap_or(0);
        of_bank[next as usize].max(usual).max(other).saturating_sub(AT)
    }
}

/// The description of a part whose refreshes are of banks, or of all.
fn described(part: &str, refresh: RefreshPolicy) -> Description {
    Description::new(&DramSpec { ranks: 2, refresh, ..DramSpec::of_part(part, 1) })
}

#[test]
fn every_rule_of_every_standard_holds_at_its_edge() {
    for (standard, part) in standard::parts() {
        let of_bank = match standard.bank_refresh {
            BankRefresh::None => RefreshPolicy::AllBank,
            BankRefresh::Single => RefreshPolicy::PerBank,
            BankRefresh::SameInEveryGroup => RefreshPolicy::SameBank,
        };
        let mut edges = 0;
        for rule in standard.constraints() {
            for (first, next) in rule
                .after
                .iter()
                .flat_map(|first| rule.next.iter().map(move |next| (*first, *next)))
            {
                if next == Next::RefreshBank && standard.bank_refresh == BankRefresh::None {
                    continue; // A rule for all standards, of which this one has no such command.
                }
                let refresh = if next == Next::Refresh { RefreshPolicy::AllBank } else { of_bank };
                let d = described(part.name, refresh);
                let own = (rule.clocks)(&d.timings);
                let seconds = Command::ALL.into_iter().filter(|second| Next::from(*second) == next);
                for second in seconds {
                    let pair = Pair::new(&d, rule.scope, first, second);
                    let name = format!("{}: {:?} {first:?} {second:?}", part.name, rule.scope);
                    if !pair.together(&d).contains(&rule.scope) {
                        // The row of the first is closed, and the second closes no other of its bank.
                        assert!(second == Command::PrechargeAll, "{name} is never tested");
                        continue;
                    }
                    let all = pair.distance(&d);
                    assert!(all >= own, "{name}");
                    assert!(pair.may_come(&d, all), "{name} at {all}");
                    assert!(all == 0 || !pair.may_come(&d, all - 1), "{name} at {all} - 1");
                    assert!(own == 0 || !pair.may_come(&d, own - 1), "{name} at {own} - 1");
                    assert_eq!(pair.by_table(&d), all, "{name}, by the controller");
                    edges += 1;
                }
            }
        }
        assert!(edges >= standard.constraints().count(), "{}: {edges} edges", part.name);
    }
}
