//! A log of commands, for the protocol checker and for people.

use super::standard::Command;
use std::fmt;

/// No bank, no row: the command is the rank's.
pub const WHOLE_RANK: u32 = u32::MAX;

/// A command that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The last clock that it takes on its bus: what timings count from.
    pub clock: u64,
    /// The command.
    pub command: Command,
    /// Its rank.
    pub rank: u32,
    /// Its bank within the rank (group × banks + bank), or [`WHOLE_RANK`]. Of a refresh of the same
    /// bank of every group: that bank of the first.
    pub bank: u32,
    /// The row that is opened; 0 for other commands.
    pub row: u64,
}

impl fmt::Display for Logged {
    /// `clock command rank bank row`, as [`Logged::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Logged { clock, command, rank, bank, row } = self;
        write!(f, "{clock} {} {rank} ", command.name())?;
        match *bank {
            WHOLE_RANK => write!(f, "- {row}"),
            bank => write!(f, "{bank} {row}"),
        }
    }
}

impl Logged {
    /// Reads a line of a log.
    pub fn parse(line: &str) -> Option<Logged> {
        let mut words = line.split_ascii_whitespace();
        let clock = words.next()?.parse().ok()?;
        let name = words.next()?;
        let command = *Command::ALL.iter().find(|command| command.name() == name)?;
        let rank = words.next()?.parse().ok()?;
        let bank = match words.next()? {
            "-" => WHOLE_RANK,
            bank => bank.parse().ok()?,
        };
        let row = words.next()?.parse().ok()?;
        words.next().is_none().then_some(Logged { clock, command, rank, bank, row })
    }
}
