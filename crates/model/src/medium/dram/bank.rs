//! One bank: its open row, what waits for it, and the command that it wants next.

use super::super::PagePolicy;
use super::candidates::{BACKGROUND, Candidates, Kind, Order};
use super::queue::{Class, Entries, List, NONE};
use super::rows::RowPredictor;
use super::rules::Rules;
use super::standard::Next;
use super::table::{Earliest, USUAL, UsualEarliest};

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
    /// The entry that the row was opened for, while it has got no column command.
    pub unused_by: u32,
    /// When its row was last used.
    pub used_at: u64,
    /// The command that it wants next in the present direction, if anything waits in it.
    pub wish: Wish,
    /// Its rank.
    pub rank: u32,
    /// Its bank group, among all of the channel.
    pub group: u32,
    /// Its number in the channel.
    pub number: u32,
    /// Its place among the candidates.
    pub place: u32,
    /// Whether a refresh keeps it from others.
    pub blocked: bool,
    /// What is expected of its rows.
    pub predictor: RowPredictor,
}

/// A command that a bank wants.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The entry.
    pub slot: u32,
    /// Its kind: a column command, an activate, a precharge.
    pub kind: Kind,
    /// Its column in tables.
    pub next: Next,
    /// Whether it is a column command against the present direction: its row was opened for it before
    /// the turn, and would have been opened in vain.
    pub against: bool,
}

/// What is wanted next: a kind of command, for an entry that is demand or background.
struct Wanted {
    /// The kind.
    kind: Kind,
    /// The kind, and whether the entry goes as background.
    order: Order,
    /// The entry.
    slot: u32,
    /// See [`Wish::against`].
    against: bool,
}

impl Bank {
    /// A bank without an open row.
    pub fn new(number: u32, rank: u32, group: u32, place: u32) -> Self {
        Bank {
            earliest: [0; Next::COUNT],
            row: CLOSED,
            lists: [List::EMPTY; Class::COUNT],
            unused_by: NONE,
            used_at: 0,
            wish: Wish { slot: NONE, kind: Kind::Precharge, next: Next::Precharge, against: false },
            rank,
            group,
            number,
            place,
            blocked: false,
            predictor: RowPredictor::NEW,
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

    /// Whether its row is closed because nobody waits for it.
    #[inline]
    pub fn leaves_closed(&mut self, rules: &Rules) -> bool {
        match rules.page_policy {
            PagePolicy::Open | PagePolicy::Timeout => false,
            PagePolicy::Closed => !self.has_hits(),
            PagePolicy::Adaptive => !self.has_hits() && self.predictor.leaves(self.row),
        }
    }

    /// An entry gets its first column command.
    #[inline]
    pub fn begins(&mut self, rules: &Rules, row: u64) {
        if rules.page_policy == PagePolicy::Adaptive {
            self.predictor.wants(row);
        }
    }

    /// Finds out what it wants next in a direction in which something waits, and is among the
    /// candidates with it, if no refresh keeps it from others. Its `group` has so much earliest.
    #[inline(always)]
    pub fn decide(
        &mut self,
        entries: &Entries,
        group: &UsualEarliest,
        candidates: &mut Candidates,
        writing: bool,
        aged: u64,
    ) {
        let Wanted { kind, order, slot, against } = self.wanted(entries, writing, aged);
        let next = match kind {
            Kind::Column if writing != against => Next::Write,
            Kind::Column => Next::Read,
            Kind::Activate => Next::Activate,
            _ => Next::Precharge,
        };
        self.wish = Wish { slot, kind, next, against };
        let order = candidates.order(order, entries[slot].sequence, self.number as usize);
        self.enlist(group, candidates, order);
    }

    /// It is among the candidates with what it wants, in this order.
    #[inline(always)]
    pub fn enlist(&self, group: &UsualEarliest, candidates: &mut Candidates, order: Order) {
        let (place, Wish { kind, next, against, .. }) = (self.place as usize, self.wish);
        // What makes others of its kind wait is not what makes it wait: it is looked for by itself.
        if self.blocked || against {
            candidates.set_blocked(place, kind, order);
            return;
        }
        // What requests need comes first among all: masked only so that no bounds are checked.
        let ready = self.earliest[next as usize].max(group[next as usize % USUAL]);
        candidates.set(place, ready, kind, order);
    }

    /// What is wanted next in a direction in which something waits: a hit before others, demand
    /// before background, and first come, first served for who came before `aged`.
    #[inline(always)]
    fn wanted(&self, entries: &Entries, write: bool, aged: u64) -> Wanted {
        let demand = Class::demand(write);
        let (mut list, mut behind) = (&self.lists[demand], 0);
        if !self.lists[demand + 1].is_empty() {
            (list, behind) = self.demand_or_background(entries, demand, aged);
        }
        let (kind, slot) = if self.row == CLOSED {
            (Kind::Activate, list.head)
        } else if list.hit == list.head || list.hit != NONE && entries[list.head].arrival >= aged {
            (Kind::Column, list.hit)
        } else if self.unused_by != NONE {
            return self.first_use(entries, write, list.head, behind, aged);
        } else {
            (Kind::Precharge, list.head)
        };
        Wanted { kind, order: kind.order() | behind, slot, against: false }
    }

    /// What is wanted by a bank whose row nobody has used since it was opened for an entry: if that waits
    /// for the other direction, its column command before the row is closed, which only who came before
    /// `aged` does not wait for.
    #[cold]
    fn first_use(
        &self,
        entries: &Entries,
        write: bool,
        head: u32,
        behind: Order,
        aged: u64,
    ) -> Wanted {
        let slot = self.unused_by;
        let against = entries[slot].class.writes() != write && entries[head].arrival >= aged;
        let (kind, slot) = if against { (Kind::Column, slot) } else { (Kind::Precharge, head) };
        Wanted { kind, order: kind.order() | behind, slot, against }
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

    /// The row of an entry is opened for it.
    #[inline]
    pub fn open(&mut self, entries: &Entries, slot: u32) {
        let row = entries[slot].row;
        self.row = row;
        self.unused_by = slot;
        for list in self.lists.iter_mut() {
            list.open(entries, row);
        }
    }

    /// The row is closed.
    #[inline]
    pub fn close(&mut self) {
        self.row = CLOSED;
        self.unused_by = NONE;
        for list in &mut self.lists {
            list.hit = NONE;
        }
    }
}
