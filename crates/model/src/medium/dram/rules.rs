//! What a channel's controller goes by: the description and its policies, in clocks and column
//! commands.

use super::super::{DramSpec, PagePolicy};
use super::description::Description;
use super::standard::{BankRefresh, Command, Next, Scope, Timings};
use super::table::Table;
use tierscope_kernel::Clock;

/// Everything about a DRAM that does not change.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Part, organization, timings.
    pub description: Description,
    /// The same as `description.timings`.
    pub timings: Timings,
    /// Distances between commands.
    pub table: Table,
    /// The command clock.
    pub clock: Clock,
    /// The controller's own time, before it looks at banks.
    pub controller_ps: u64,
    /// Column commands of a line.
    pub bursts_of_line: u32,
    /// Clocks of an activate and of a column command on their bus, less one.
    pub more_clocks: [u64; 2],
    /// From the last clock of an activate to the first of the fourth behind it.
    pub faw: u64,
    /// The bus of each next command.
    pub bus_of: [usize; Next::COUNT],
    /// Whether rows close by themselves, and when.
    pub page_policy: PagePolicy,
    /// Clocks after which an unused row is closed.
    pub row_timeout: u64,
    /// Clocks after which nobody passes a request.
    pub age_cap: u64,
    /// Clocks after which an idle rank is powered down.
    pub power_down_after: Option<u64>,
    /// Column commands of writes that go ahead of reads, and that may be left.
    pub write_high: u64,
    /// See `write_high`.
    pub write_low: u64,
    /// Lines to read and to write that a channel holds.
    pub depth: [u64; 2],
    /// No request is done sooner after its first command.
    pub least_latency: u64,
    /// The same as a time.
    pub least_latency_ps: u64,
    /// Between column commands to one row, reads and writes.
    spacings: [u64; 2],
    /// Column command to first data, of reads and writes.
    to_data: [u64; 2],
    /// Clocks of the own commands and the last data of a read and of a write, by whether its row had to
    /// be opened, and another closed: see [`Rules::own_clocks`].
    own: [[u64; 4]; 2],
    /// Whether row and column commands have a bus each.
    pub two_buses: bool,
    /// Whether the standard has rules for bank groups.
    pub grouped: bool,
    /// No column commands of one entry come closer.
    pub least_spacing: u64,
    /// Whether a refresh of one bank is of that bank in every group.
    pub same_bank_of_groups: bool,
}

impl Rules {
    /// The rules of a description that has been checked, for lines of `line_bytes`.
    pub fn new(spec: &DramSpec, line_bytes: u64) -> Self {
        let description = Description::new(spec);
        let (timings, clock) = (description.timings, description.clock);
        let of = |time: tierscope_units::Duration| clock.ps_to_cycles_ceil(time.picoseconds());
        let bursts_of_line = line_bytes.div_ceil(description.burst_bytes).max(1);
        let standard = description.standard;
        let before = per_next(|command| standard.command_clocks(command) - 1);
        let power_down = spec.power_down_after.is_some();
        let mut rules = Rules {
            table: Table::new(&description, power_down, |next| before[next as usize]),
            faw: timings.faw.saturating_sub(before[Next::Activate as usize]),
            timings,
            clock,
            controller_ps: spec.controller_latency.picoseconds(),
            bursts_of_line: bursts_of_line as u32,
            more_clocks: [standard.activate_clocks - 1, standard.column_clocks - 1],
            bus_of: per_next(|command| {
                usize::from(standard.two_command_buses && command.is_column())
            }),
            page_policy: spec.page_policy,
            row_timeout: spec.row_timeout.map_or(0, of),
            age_cap: of(spec.age_cap),
            power_down_after: spec.power_down_after.map(of),
            write_high: u64::from(spec.write_high) * bursts_of_line,
            write_low: u64::from(spec.write_low) * bursts_of_line,
            depth: [spec.read_queue_depth, spec.write_queue_depth].map(u64::from),
            least_latency: timings.cl.min(timings.cwl) + timings.burst,
            least_latency_ps: clock.cycles_to_ps(timings.cl.min(timings.cwl) + timings.burst),
            two_buses: standard.two_command_buses,
            grouped: standard.constraints().any(|rule| rule.scope == Scope::Group),
            least_spacing: 0,
            spacings: [0; 2],
            to_data: [timings.cl, timings.cwl],
            own: [[0; 4]; 2],
            same_bank_of_groups: standard.bank_refresh == BankRefresh::SameInEveryGroup,
            description,
        };
        rules.spacings = [false, true].map(|write| rules.spacing_of(write));
        rules.own = [false, true].map(|write| rules.own_of(write));
        rules.least_spacing = rules.spacings[0].min(rules.spacings[1]);
        rules
    }

    /// Column command to first data.
    #[inline]
    pub fn to_data(&self, write: bool) -> u64 {
        self.to_data[usize::from(write)]
    }

    /// Between column commands to one row.
    #[inline]
    pub fn spacing(&self, write: bool) -> u64 {
        self.spacings[usize::from(write)]
    }

    /// Clocks of the own commands and data of an entry of so many bursts, without any wait.
    #[inline]
    pub fn own_clocks(&self, write: bool, activated: bool, precharged: bool, bursts: u32) -> u64 {
        let opening = usize::from(activated) | usize::from(precharged) << 1;
        self.own[usize::from(write)][opening] + u64::from(bursts - 1) * self.spacing(write)
    }

    fn own_of(&self, write: bool) -> [u64; 4] {
        let t = &self.timings;
        let rcd = if write { t.rcd_wr } else { t.rcd };
        let [activate, column] = self.more_clocks;
        let opening = [column, activate + rcd, column, t.rp + rcd];
        opening.map(|clocks| clocks + self.to_data(write) + t.burst)
    }

    /// Between column commands to one row.
    fn spacing_of(&self, write: bool) -> u64 {
        let t = &self.timings;
        let apart = if !self.grouped {
            t.ccd_s
        } else if write {
            t.ccd_l_wr
        } else {
            t.ccd_l
        };
        apart.max(t.burst)
    }
}

/// A value for each next command.
fn per_next<T: Copy + Default>(of: impl Fn(Command) -> T) -> [T; Next::COUNT] {
    let mut all = [T::default(); Next::COUNT];
    for command in Command::ALL {
        all[Next::from(command) as usize] = of(command);
    }
    all
}
