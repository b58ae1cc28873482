//! A protocol checker: reads the log of a channel's commands and finds every broken rule.
//!
//! It knows the description and nothing of the controller. It goes by the last time of each command
//! at each bank, bank group and rank, and looks every rule of the standard up for every command.

use super::description::Description;
use super::log::{Logged, WHOLE_RANK};
use super::standard::{BankRefresh, Command, Next, Scope};

/// When each command was last given somewhere.
type Last = [Option<u64>; Command::ALL.len()];

/// A checker of one channel.
#[derive(Clone, Debug)]
pub struct Checker {
    description: Description,
    rows: Vec<Option<u64>>,
    banks: Vec<Last>,
    groups: Vec<Last>,
    ranks: Vec<Last>,
    /// The last activates of each rank, oldest first.
    activates: Vec<Vec<u64>>,
    down: Vec<bool>,
    refreshes: Vec<u64>,
    /// The last clock taken on each command bus.
    buses: [Option<u64>; 2],
    /// From when on each data bus is free: of each rank where it has its own, else the first's.
    data: Vec<u64>,
    commands: u64,
    clock: u64,
}

impl Checker {
    /// A checker of a channel that has done nothing yet.
    pub fn new(description: &Description) -> Self {
        let (ranks, groups) = (description.ranks as usize, description.groups as usize);
        let none: Last = [None; Command::ALL.len()];
        Checker {
            rows: vec![None; ranks * description.banks_of_rank() as usize],
            banks: vec![none; ranks * description.banks_of_rank() as usize],
            groups: vec![none; ranks * groups],
            ranks: vec![none; ranks],
            activates: vec![Vec::new(); ranks],
            down: vec![false; ranks],
            refreshes: vec![0; ranks],
            buses: [None; 2],
            data: vec![0; ranks],
            commands: 0,
            clock: 0,
            description: description.clone(),
        }
    }

    /// Commands seen.
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// Takes the next command, in order of time.
    ///
    /// # Errors
    /// The rule that it breaks, with what it follows.
    pub fn check(&mut self, command: Logged) -> Result<(), String> {
        let fail = |what: String| -> Result<(), String> { Err(format!("`{command}` {what}")) };
        if command.clock < self.clock {
            return fail(format!("comes after clock {}", self.clock));
        }
        if command.rank as usize >= self.ranks.len() {
            return fail(format!("is for one of {} ranks", self.ranks.len()));
        }
        let banks = self.banks_of(command);
        if command.bank != WHOLE_RANK && command.bank >= self.description.banks_of_rank() {
            return fail(format!("is for one of {} banks", self.description.banks_of_rank()));
        }
        self.check_state(command, &banks).or_else(fail)?;
        self.check_rules(command, &banks).or_else(fail)?;
        self.check_window(command).or_else(fail)?;
        self.check_buses(command).or_else(fail)?;
        self.check_refresh(command).or_else(fail)?;
        self.remember(command, &banks);
        Ok(())
    }

    /// The end of a log at `clock`: no refresh may be missing.
    ///
    /// # Errors
    /// The rank that has not been refreshed.
    pub fn finish(&self, clock: u64) -> Result<(), String> {
        for (rank, &done) in self.refreshes.iter().enumerate() {
            if clock > self.latest_refresh(rank, done) {
                return Err(format!("rank {rank} lacks refresh {done} at clock {clock}"));
            }
        }
        Ok(())
    }

    /// The banks that a command concerns, among all of the channel.
    fn banks_of(&self, command: Logged) -> Vec<usize> {
        let d = &self.description;
        let of_rank = d.banks_of_rank() as usize;
        let base = command.rank as usize * of_rank;
        match command.command {
            Command::PrechargeAll => {
                (base..base + of_rank).filter(|&bank| self.rows[bank].is_some()).collect()
            }
            Command::Refresh => (base..base + of_rank).collect(),
            Command::PowerDown | Command::PowerUp => Vec::new(),
            Command::RefreshBank if d.standard.bank_refresh == BankRefresh::SameInEveryGroup => {
                let step = d.banks as usize;
                (base + command.bank as usize % step..base + of_rank).step_by(step).collect()
            }
            _ => vec![base + command.bank as usize],
        }
    }

    fn check_state(&self, command: Logged, banks: &[usize]) -> Result<(), String> {
        let down = self.down[command.rank as usize];
        if down != (command.command == Command::PowerUp) {
            return Err(if down { "comes in power-down" } else { "ends no power-down" }.into());
        }
        let open = |bank: &&usize| self.rows[**bank].is_some();
        let wants_open = match command.command {
            Command::Activate | Command::Refresh | Command::RefreshBank => false,
            Command::Precharge => true,
            command if command.is_column() => true,
            _ => return Ok(()),
        };
        match banks.iter().find(|bank| open(bank) != wants_open) {
            Some(bank) if wants_open => Err(format!("finds no open row in bank {bank}")),
            Some(bank) => Err(format!("finds an open row in bank {bank}")),
            None => Ok(()),
        }
    }

    fn check_rules(&self, command: Logged, banks: &[usize]) -> Result<(), String> {
        let d = &self.description;
        let next = Next::from(command.command);
        let rank = command.rank as usize;
        for rule in d.standard.constraints().filter(|rule| rule.next.contains(&next)) {
            let clocks = (rule.clocks)(&d.timings);
            for &after in rule.after {
                let last = |last: &Last| last[after as usize];
                let latest = match rule.scope {
                    Scope::Bank => banks.iter().filter_map(|&bank| last(&self.banks[bank])).max(),
                    Scope::Group => banks
                        .iter()
                        .filter_map(|&bank| last(&self.groups[bank / d.banks as usize]))
                        .max(),
                    Scope::Rank => last(&self.ranks[rank]),
                    Scope::OtherRank => {
                        let others = self.ranks.iter().enumerate();
                        others
                            .filter(|(other, _)| *other != rank)
                            .filter_map(|(_, l)| last(l))
                            .max()
                    }
                };
                if let Some(latest) = latest.filter(|latest| command.clock < latest + clocks) {
                    return Err(format!(
                        "comes {} clocks after {} at {latest}, of {clocks} ({:?})",
                        command.clock - latest,
                        after.name(),
                        rule.scope
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_window(&self, command: Logged) -> Result<(), String> {
        let activates = &self.activates[command.rank as usize];
        let faw = self.description.timings.faw;
        if command.command == Command::Activate
            && activates.len() == 4
            && command.clock < activates[0] + faw
        {
            return Err(format!(
                "is the fifth activate since {}, within tFAW = {faw}",
                activates[0]
            ));
        }
        Ok(())
    }

    fn check_buses(&self, command: Logged) -> Result<(), String> {
        let d = &self.description;
        if command.command.takes_a_slot() {
            let first = (command.clock + 1).checked_sub(d.standard.command_clocks(command.command));
            let taken = self.buses[self.bus(command.command)];
            if first.is_none() || taken.is_some_and(|taken| first <= Some(taken)) {
                return Err(format!("finds its command bus taken until {taken:?}"));
            }
        }
        if let Some(begin) = self.data_begin(command) {
            let free = self.data[self.data_bus(command.rank)];
            if begin < free {
                return Err(format!("has data at {begin}, and the bus is taken until {free}"));
            }
        }
        Ok(())
    }

    fn bus(&self, command: Command) -> usize {
        usize::from(self.description.standard.two_command_buses && command.is_column())
    }

    fn data_bus(&self, rank: u32) -> usize {
        if self.description.standard.rank_is_pseudo_channel { rank as usize } else { 0 }
    }

    fn data_begin(&self, command: Logged) -> Option<u64> {
        let t = &self.description.timings;
        match command.command {
            Command::Read | Command::ReadPrecharge => Some(command.clock + t.cl),
            Command::Write | Command::WritePrecharge => Some(command.clock + t.cwl),
            _ => None,
        }
    }

    /// The last clock at which refresh `done` of a rank may come: the one after those that may be
    /// owed falls due one interval later.
    fn latest_refresh(&self, rank: usize, done: u64) -> u64 {
        self.description.refresh_due(rank as u32, done + u64::from(self.description.most_owed) + 1)
    }

    fn check_refresh(&self, command: Logged) -> Result<(), String> {
        if !matches!(command.command, Command::Refresh | Command::RefreshBank) {
            return Ok(());
        }
        let d = &self.description;
        let done = self.refreshes[command.rank as usize];
        let (due, latest) =
            (d.refresh_due(command.rank, done), self.latest_refresh(command.rank as usize, done));
        if command.clock < due || command.clock > latest {
            return Err(format!("is refresh {done}, due at {due}, at the latest at {latest}"));
        }
        let unit = done % u64::from(d.refresh_units);
        if command.command == Command::RefreshBank && u64::from(command.bank) != unit {
            return Err(format!("passes over bank {unit}"));
        }
        if (d.refresh_units == 1) != (command.command == Command::Refresh) {
            return Err("is not the kind of refresh that was chosen".into());
        }
        Ok(())
    }

    fn remember(&mut self, command: Logged, banks: &[usize]) {
        let (clock, what, rank) = (command.clock, command.command, command.rank as usize);
        for &bank in banks {
            self.banks[bank][what as usize] = Some(clock);
            self.groups[bank / self.description.banks as usize][what as usize] = Some(clock);
            match what {
                Command::Activate => self.rows[bank] = Some(command.row),
                Command::Read | Command::Write => {}
                _ => self.rows[bank] = None,
            }
        }
        self.ranks[rank][what as usize] = Some(clock);
        if what == Command::Activate {
            self.activates[rank].push(clock);
            if self.activates[rank].len() > 4 {
                self.activates[rank].remove(0);
            }
        }
        match what {
            Command::PowerDown => self.down[rank] = true,
            Command::PowerUp => self.down[rank] = false,
            Command::Refresh | Command::RefreshBank => self.refreshes[rank] += 1,
            _ => {}
        }
        if what.takes_a_slot() {
            let bus = self.bus(what);
            self.buses[bus] = Some(clock);
        }
        if let Some(begin) = self.data_begin(command) {
            let bus = self.data_bus(command.rank);
            self.data[bus] = begin + self.description.timings.burst;
        }
        self.commands += 1;
        self.clock = clock;
    }
}

#[cfg(test)]
mod edges;
