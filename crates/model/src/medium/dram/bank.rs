//! One bank: its open row, what waits for it, and the command that it wants next.

use super::queue::{Class, Entries, List, NONE};
use super::standard::{Command, Next};
use super::table::Earliest;

/// No row is open.
pub const CLOSED: u64 = u64::MAX;

/// The state of a bank.
#[derive(Clone, Debug)]
pub struct Bank {
    /// Until when each command is refused by the bank itself.
    pub earliest: Earliest,
    /// The open row.
    pub row: u64,
    /// What waits, by class.
    pub lists: [List; Class::COUNT],
    /// When its row was last used.
    pub used_at: u64,
    /// Its rank.
    pub rank: u32,
    /// Its bank group, among all of the channel.
    pub group: u32,
}

/// The command that a bank wants next: what a choice needs to know of it, side by side.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Before when it cannot start, for what the bank itself forbids.
    pub ready: u64,
    /// The entry's age, above it whether it is background, above that the command's kind: the least
    /// goes first.
    pub order: u64,
    /// The entry.
    pub slot: u32,
    /// The bank's group.
    pub group: u32,
    /// The bank's rank.
    pub rank: u32,
    /// The command.
    pub command: Command,
    /// Its column in tables.
    pub next: Next,
}

/// Bits of [`Wish::order`] below the command's kind.
pub const AGE_BITS: u32 = 40;
/// Background behind demand.
const BACKGROUND: u64 = 1 << (AGE_BITS - 1);
/// Column commands first, for the bus's sake.
pub const ORDER_COLUMN: u64 = 1 << AGE_BITS;
/// Then activates, which are slow.
const ORDER_ACTIVATE: u64 = 2 << AGE_BITS;
/// Then precharges.
const ORDER_PRECHARGE: u64 = 3 << AGE_BITS;
/// Then closing what nobody uses.
pub const ORDER_TIMEOUT: u64 = 4 << AGE_BITS;

impl Wish {
    /// None.
    pub const NOTHING: Wish = Wish {
        ready: 0,
        order: 0,
        slot: NONE,
        group: 0,
        rank: 0,
        command: Command::Precharge,
        next: Next::Precharge,
    };
}

impl Wish {
    /// What kind of command it is: a column command, an activate, a precharge.
    #[inline]
    pub fn kind(&self) -> usize {
        (self.order >> AGE_BITS) as usize - 1
    }
}

impl Bank {
    /// A bank without an open row.
    pub fn new(rank: u32, group: u32) -> Self {
        Bank {
            earliest: [0; Next::COUNT],
            row: CLOSED,
            lists: [List::EMPTY; Class::COUNT],
            used_at: 0,
            rank,
            group,
        }
    }

    /// Whether anything waits in a direction.
    #[inline]
    pub fn wants(&self, write: bool) -> bool {
        let demand = Class::demand(write);
        !(self.lists[demand].is_empty() && self.lists[demand + 1].is_empty())
    }

    /// Whether any entry waits for the open row.
    #[inline]
    pub fn has_hits(&self) -> bool {
        self.lists.iter().any(|list| list.hit != NONE)
    }

    /// What is wanted next in a direction in which something waits: a hit before others, demand
    /// before background, and first come, first served for who came before `aged`.
    #[inline]
    pub fn wish(&self, entries: &Entries, write: bool, aged: u64) -> Wish {
        let demand = Class::demand(write);
        let old = |list: &List| !list.is_empty() && entries[list.head].arrival < aged;
        let mut list = &self.lists[demand];
        let mut behind = 0;
        if list.is_empty() || old(&self.lists[demand + 1]) && !old(list) {
            list = &self.lists[demand + 1];
            behind = if old(list) { 0 } else { BACKGROUND };
        }
        let head = &entries[list.head];
        let (command, next, order, slot) = if self.row == CLOSED {
            (Command::Activate, Next::Activate, ORDER_ACTIVATE, list.head)
        } else if list.hit != NONE && (head.arrival >= aged || head.row == self.row) {
            let (command, next) =
                if write { (Command::Write, Next::Write) } else { (Command::Read, Next::Read) };
            (command, next, ORDER_COLUMN, list.hit)
        } else {
            (Command::Precharge, Next::Precharge, ORDER_PRECHARGE, list.head)
        };
        Wish {
            ready: self.earliest[next as usize],
            order: order + behind + entries[slot].sequence,
            slot,
            group: self.group,
            rank: self.rank,
            command,
            next,
        }
    }

    /// A row is opened.
    #[inline]
    pub fn open(&mut self, entries: &Entries, row: u64) {
        self.row = row;
        for list in self.lists.iter_mut().filter(|list| !list.is_empty()) {
            list.open(entries, row);
        }
    }

    /// The row is closed.
    #[inline]
    pub fn close(&mut self) {
        self.row = CLOSED;
        for list in &mut self.lists {
            list.hit = NONE;
        }
    }
}
