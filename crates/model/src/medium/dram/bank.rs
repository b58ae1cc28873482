//! One bank: its open row, what waits for it, and the command that it wants next.

use super::candidates::{BACKGROUND, Kind, Order};
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
    /// Of commands that can start together the least goes first.
    pub order: Order,
    /// The entry.
    pub slot: u32,
    /// The bank's group.
    pub group: u16,
    /// The bank's rank.
    pub rank: u16,
    /// Its kind: a column command, an activate, a precharge.
    pub kind: Kind,
    /// The command.
    pub command: Command,
    /// Its column in tables.
    pub next: Next,
}

impl Wish {
    /// None, of a bank.
    pub fn nothing(bank: &Bank) -> Self {
        Wish {
            ready: 0,
            order: 0,
            slot: NONE,
            group: bank.group as u16,
            rank: bank.rank as u16,
            kind: Kind::Precharge,
            command: Command::Precharge,
            next: Next::Precharge,
        }
    }
}

/// What is wanted next: a kind of command, for an entry that is demand or background.
pub struct Wanted {
    /// The kind.
    pub kind: Kind,
    /// The kind, and whether the entry goes as background.
    pub order: Order,
    /// The entry.
    pub slot: u32,
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
    pub fn wanted(&self, entries: &Entries, write: bool, aged: u64) -> Wanted {
        let demand = Class::demand(write);
        let (mut list, mut behind) = (&self.lists[demand], 0);
        if !self.lists[demand + 1].is_empty() {
            (list, behind) = self.demand_or_background(entries, demand, aged);
        }
        let (kind, slot) = if self.row == CLOSED {
            (Kind::Activate, list.head)
        } else if list.hit == list.head || list.hit != NONE && entries[list.head].arrival >= aged {
            (Kind::Column, list.hit)
        } else {
            (Kind::Precharge, list.head)
        };
        Wanted { kind, order: kind.order() | behind, slot }
    }

    /// The list that goes first where there is background, and whether it goes as background.
    #[cold]
    fn demand_or_background(&self, entries: &Entries, demand: usize, aged: u64) -> (&List, Order) {
        let old = |list: &List| !list.is_empty() && entries[list.head].arrival < aged;
        let [first, second] = [&self.lists[demand], &self.lists[demand + 1]];
        if !first.is_empty() && (old(first) || !old(second)) {
            (first, 0)
        } else {
            (second, if old(second) { 0 } else { BACKGROUND })
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
