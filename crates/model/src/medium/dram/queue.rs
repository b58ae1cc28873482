//! Requests that wait in a channel's controller: entries, and the lists of each bank.

/// No entry: the slot of one that never waits, so that what is next to none may be written without asking.
pub const NONE: u32 = 0;

/// The place of an entry that the controller has not seen: no other's.
const UNSEEN: u64 = u64::MAX;

/// What an entry is to the scheduler: its list in its bank. Reads first, each demand first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class(u8);

impl Class {
    /// How many there are.
    pub const COUNT: usize = 4;

    /// Of a request.
    #[inline]
    pub const fn new(write: bool, background: bool) -> Self {
        Class((write as u8) << 1 | background as u8)
    }

    /// The demand class of a direction.
    #[inline]
    pub const fn demand(write: bool) -> usize {
        (write as usize) << 1
    }

    /// Its place in a bank's lists.
    #[inline]
    pub const fn index(self) -> usize {
        // Masked only so that no bounds are checked.
        self.0 as usize % Self::COUNT
    }

    /// Whether it goes towards DRAM.
    #[inline]
    pub const fn writes(self) -> bool {
        self.0 >= 2
    }
}

/// Lines of one row that a request wants.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The clock at which the controller looks at it first.
    pub arrival: u64,
    /// Place among all entries of the channel, in order of arrival.
    pub sequence: u64,
    /// Row of its bank.
    pub row: u64,
    /// When its request was submitted.
    pub submitted_ps: u64,
    /// First line of its request, and how many it has: those in this row are the entry's.
    pub first_line: u64,
    /// Lines of the request.
    pub request_lines: u32,
    /// Lines of the entry.
    pub lines: u32,
    /// Column commands of the entry.
    pub bursts: u32,
    /// Column commands not yet given.
    pub bursts_left: u32,
    /// The request's id, or its place among the requests of several runs.
    pub owner: u32,
    /// Its bank in the channel.
    pub bank: u32,
    /// Its list.
    pub class: Class,
    /// Whether its request has several runs.
    pub shared: bool,
    /// Whether its request was answered when it was taken: a write of one line.
    pub posted: bool,
    /// Whether its row had to be opened for it.
    pub activated: bool,
    /// Whether another row had to be closed for it.
    pub precharged: bool,
    /// Whether another waits until this one is done.
    pub waited_for: bool,
    /// The entry before it in its list.
    previous: u32,
    /// The entry behind it in its list.
    pub next: u32,
}

impl Entry {
    /// One that waits in no list yet.
    #[expect(clippy::too_many_arguments, reason = "an entry is made in one place")]
    pub fn new(
        arrival: u64,
        row: u64,
        bank: u32,
        class: Class,
        lines: u32,
        bursts: u32,
        owner: (u32, bool),
        submitted_ps: u64,
        request: (u64, u32),
    ) -> Self {
        Entry {
            arrival,
            sequence: UNSEEN,
            row,
            submitted_ps,
            first_line: request.0,
            request_lines: request.1,
            lines,
            bursts,
            bursts_left: bursts,
            owner: owner.0,
            bank,
            class,
            shared: owner.1,
            posted: class.writes() && request.1 == 1,
            activated: false,
            precharged: false,
            waited_for: false,
            previous: NONE,
            next: NONE,
        }
    }

    /// Whether the order of two entries of a bank matters: one writes what the other touches.
    #[inline]
    pub fn conflicts(&self, other: &Entry) -> bool {
        let apart = self.first_line + u64::from(self.request_lines) <= other.first_line
            || other.first_line + u64::from(other.request_lines) <= self.first_line;
        self.row == other.row && !apart && (self.class.writes() || other.class.writes())
    }

    /// Whether the entry is a write of this line that was answered: a read gets its data.
    #[inline]
    pub fn holds(&self, line: u64) -> bool {
        self.posted && self.first_line == line
    }
}

/// How many entries touch what, by a hash: where none does, no entry need be looked for.
#[derive(Clone, Debug)]
pub struct Touched {
    /// By line, of requests of one line: entries that read and that write.
    lines: Box<[[u32; 2]; Self::PLACES]>,
    /// By row, of larger requests.
    rows: Box<[[u32; 2]; Self::PLACES]>,
    /// How many are of larger requests.
    larger: u32,
}

impl Touched {
    const BITS: u32 = 11;
    const PLACES: usize = 1 << Self::BITS;

    #[inline]
    fn place(what: u64) -> usize {
        (what.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - Self::BITS)) as usize
    }

    #[inline]
    fn place_of_row(entry: &Entry) -> usize {
        Self::place(entry.row ^ u64::from(entry.bank) << 32)
    }

    #[inline]
    fn count(&mut self, entry: &Entry) -> &mut u32 {
        let counts = if entry.request_lines == 1 {
            &mut self.lines[Self::place(entry.first_line)]
        } else {
            &mut self.rows[Self::place_of_row(entry)]
        };
        &mut counts[usize::from(entry.class.writes())]
    }

    /// Counts an entry that is taken.
    #[inline]
    pub fn add(&mut self, entry: &Entry) {
        *self.count(entry) += 1;
        self.larger += u32::from(entry.request_lines > 1);
    }

    /// An entry is done.
    #[inline]
    pub fn remove(&mut self, entry: &Entry) {
        *self.count(entry) -= 1;
        self.larger -= u32::from(entry.request_lines > 1);
    }

    /// Whether some request of one line may write a line.
    #[inline]
    pub fn may_be_written(&self, line: u64) -> bool {
        self.lines[Self::place(line)][1] > 0
    }

    /// Whether an entry that is counted may conflict with another.
    #[inline]
    pub fn may_conflict(&self, entry: &Entry) -> bool {
        let [mut reads, mut writes] = self.lines[Self::place(entry.first_line)];
        if self.larger > 0 {
            if entry.request_lines > 1 {
                return true;
            }
            let rows = self.rows[Self::place_of_row(entry)];
            (reads, writes) = (reads + rows[0], writes + rows[1]);
        }
        // Without a branch, as nobody knows what comes: the entry itself is counted.
        let write = u32::from(entry.class.writes());
        (reads & write.wrapping_neg()) + writes > write
    }
}

impl Default for Touched {
    fn default() -> Self {
        let none = Box::new([[0; 2]; Self::PLACES]);
        Touched { lines: none.clone(), rows: none, larger: 0 }
    }
}

/// The entries of a channel, in slots that are used again.
#[derive(Clone, Debug)]
pub struct Entries {
    slots: Vec<Entry>,
    free: Vec<u32>,
}

impl Default for Entries {
    fn default() -> Self {
        let none = Entry::new(0, 0, 0, Class::new(false, false), 0, 0, (0, false), 0, (0, 0));
        Entries { slots: vec![none], free: Vec::new() }
    }
}

impl Entries {
    /// Keeps an entry; its slot.
    #[inline]
    pub fn insert(&mut self, entry: Entry) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = entry;
            return slot;
        }
        self.slots.push(entry);
        (self.slots.len() - 1) as u32
    }

    /// How many are kept. The first slot is none.
    pub fn len(&self) -> usize {
        self.slots.len() - 1 - self.free.len()
    }

    /// Frees a slot.
    #[inline]
    pub fn remove(&mut self, slot: u32) {
        self.free.push(slot);
    }
}

impl std::ops::Index<u32> for Entries {
    type Output = Entry;

    #[inline]
    fn index(&self, slot: u32) -> &Entry {
        &self.slots[slot as usize]
    }
}

impl std::ops::IndexMut<u32> for Entries {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut Entry {
        &mut self.slots[slot as usize]
    }
}

/// Entries of one bank and class, oldest first.
#[derive(Clone, Copy, Debug)]
pub struct List {
    /// The oldest.
    pub head: u32,
    tail: u32,
    /// The oldest for the open row.
    pub hit: u32,
    /// Rows that were waited for since the list was empty: a bit each, which several share.
    rows: u64,
    /// Of these, those for which two may have waited at a time.
    twice: u64,
}

impl List {
    /// An empty list.
    pub const EMPTY: List = List { head: NONE, tail: NONE, hit: NONE, rows: 0, twice: 0 };

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Adds the youngest; `open_row` is the bank's.
    #[inline]
    pub fn push(&mut self, entries: &mut Entries, slot: u32, open_row: u64) {
        // Without a branch, as nobody knows what comes.
        let tail = self.tail;
        entries[tail].next = slot;
        let entry = &mut entries[slot];
        entry.previous = tail;
        let row = bit_of(entry.row);
        self.twice |= self.rows & row;
        self.rows |= row;
        let hits = (self.hit == NONE) & (entry.row == open_row);
        self.hit = if hits { slot } else { self.hit };
        self.head = if tail == NONE { slot } else { self.head };
        self.tail = slot;
    }

    /// Takes out the oldest hit, which is done, and finds the next.
    #[inline]
    pub fn remove_hit(&mut self, entries: &mut Entries) {
        let Entry { row, previous, next, .. } = entries[self.hit];
        entries[previous].next = next;
        entries[next].previous = previous;
        self.head = if previous == NONE { next } else { self.head };
        self.tail = if next == NONE { previous } else { self.tail };
        let kept = u64::from(self.head == NONE).wrapping_sub(1);
        self.rows &= kept;
        self.twice &= kept;
        // Looked for only where there may be another: how many wait here no processor can foretell.
        let another = self.twice & bit_of(row) != 0;
        self.hit = if another { first_of(entries, next, row) } else { NONE };
    }

    /// A row was opened, while none was.
    #[inline]
    pub fn open(&mut self, entries: &Entries, row: u64) {
        if self.rows & bit_of(row) != 0 {
            // As a rule it is opened for the oldest.
            let head = self.head;
            let first = entries[head].row == row;
            self.hit = if first { head } else { first_of(entries, entries[head].next, row) };
        }
    }
}

#[inline]
fn bit_of(row: u64) -> u64 {
    1 << (row % 64)
}

#[inline]
fn first_of(entries: &Entries, mut slot: u32, row: u64) -> u32 {
    while slot != NONE && entries[slot].row != row {
        slot = entries[slot].next;
    }
    slot
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(row: u64) -> Entry {
        Entry::new(0, row, 0, Class::new(false, false), 1, 1, (0, false), 0, (0, 1))
    }

    proptest! {
        /// The oldest and the oldest hit are those of a plain list, whichever rows come, are opened,
        /// served and closed; rows 64 apart share a bit.
        #[test]
        fn a_list_knows_its_oldest_hit(
            steps in proptest::collection::vec((0..4u32, 0..3u64, any::<bool>()), 1..200),
        ) {
            let mut entries = Entries::default();
            let mut list = List::EMPTY;
            let mut plain: Vec<(u32, u64)> = Vec::new();
            let mut open = u64::MAX;
            for (step, row, far) in steps {
                let row = row + 64 * u64::from(far);
                match step {
                    0 | 1 => {
                        let slot = entries.insert(entry(row));
                        list.push(&mut entries, slot, open);
                        plain.push((slot, row));
                    }
                    2 if list.hit != NONE => {
                        let slot = list.hit;
                        list.remove_hit(&mut entries);
                        entries.remove(slot);
                        plain.retain(|(other, _)| *other != slot);
                    }
                    _ => {
                        (list.hit, open) = (NONE, plain.first().map_or(row, |(_, row)| *row));
                        open = if far { row } else { open };
                        list.open(&entries, open);
                    }
                }
                let oldest = plain.first().map_or(NONE, |(slot, _)| *slot);
                let hit = plain.iter().find(|(_, row)| *row == open).map_or(NONE, |(slot, _)| *slot);
                prop_assert_eq!((list.head, list.hit), (oldest, hit));
            }
        }
    }
}
