//! The queue of coming events.

use std::collections::VecDeque;
use std::hint::select_unpredictable;

const COUNT_BITS: u32 = 48;
const ARITY: usize = 4;
/// The most events that are kept sorted.
const NEAR: usize = 64;
/// As many come out of the heap at once.
const REFILL: usize = 16;
/// Rows of events that were pushed in the order in which they come.
const ROWS: usize = 4;
/// A key behind those of all events.
const NEVER: u128 = u128::MAX;

/// Events in order of (time, source, number of the push among the pushes of its source).
///
/// The order depends only on what each source pushes, not on how the pushes of different sources
/// interleave: however work is cut into batches, events come in the same order. A source is one
/// part of a machine; numbers from 0 upwards keep the table of counts short.
///
/// Most of what a part pushes comes a fixed time later: such events come in the order in which they are pushed. So
/// there are a few rows, each for another time as it were; an event goes behind the latest last one that is before it.
/// Where there is none, it goes among others that are sorted as they come: the next of them stand in a row, as most
/// queues of parts are short, and the rest lies in a 4-ary heap of `Copy` items, shallower than a binary one, where
/// the children of a node are neighbours in memory.
///
/// ```
/// use tierscope_kernel::EventQueue;
/// let mut events = EventQueue::new();
/// events.push(50, 1, "second of its time");
/// events.push(50, 0, "first of its time");
/// assert_eq!(events.pop(), Some((50, "first of its time")));
/// ```
#[derive(Clone, Debug)]
pub struct EventQueue<E: Copy> {
    /// The key of the first event, or [`NEVER`], and the row that it stands in; [`ROWS`] for none.
    first: u128,
    row: usize,
    /// Events that were pushed in their order.
    rows: [Row<E>; ROWS],
    /// The next ones, the first of them last.
    near: Vec<Entry<E>>,
    /// All others, none before any of those.
    heap: Vec<Entry<E>>,
    pushes: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    at_ps: u64,
    /// Source in the upper 16 bits, number of the push in the lower 48.
    order: u64,
    event: E,
}

/// Events in their order.
#[derive(Clone, Debug)]
struct Row<E> {
    entries: VecDeque<Entry<E>>,
    /// The key of the first, or [`NEVER`].
    first: u128,
    /// When the last happens, or 0.
    last_ps: u64,
}

impl<E: Copy> Row<E> {
    const EMPTY: Self = Row { entries: VecDeque::new(), first: NEVER, last_ps: 0 };

    #[inline]
    fn push(&mut self, entry: Entry<E>) {
        self.last_ps = entry.at_ps;
        self.first = self.first.min(entry.key());
        self.entries.push_back(entry);
    }

    #[inline]
    fn pop(&mut self) -> Option<Entry<E>> {
        let first = self.entries.pop_front();
        match self.entries.front() {
            Some(next) => self.first = next.key(),
            None => (self.first, self.last_ps) = (NEVER, 0),
        }
        first
    }
}

impl<E> Entry<E> {
    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.at_ps) << 64 | u128::from(self.order)
    }
}

impl<E: Copy> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue::new()
    }
}

impl<E: Copy> EventQueue<E> {
    /// No events.
    pub const fn new() -> Self {
        EventQueue {
            first: NEVER,
            row: ROWS,
            rows: [Row::EMPTY; ROWS],
            near: Vec::new(),
            heap: Vec::new(),
            pushes: Vec::new(),
        }
    }

    /// Adds what `source` wants to happen at `at_ps`.
    #[inline]
    pub fn push(&mut self, at_ps: u64, source: u16, event: E) {
        let order = self.next_order(source);
        let entry = Entry { at_ps, order, event };
        // The latest last one, plus one: 0 where there is none before this.
        let (mut row, mut latest) = (ROWS, 0);
        for (place, other) in self.rows.iter().enumerate() {
            let fits = if other.last_ps < at_ps { other.last_ps + 1 } else { 0 };
            row = if fits > latest { place } else { row };
            latest = latest.max(fits);
        }
        let key = entry.key();
        if key < self.first {
            (self.first, self.row) = (key, row);
        }
        match self.rows.get_mut(row) {
            Some(row) => row.push(entry),
            None => self.push_among(entry),
        }
    }

    /// Adds an event that may come before others of each row.
    #[inline(never)]
    fn push_among(&mut self, entry: Entry<E>) {
        let key = entry.key();
        if self.heap.first().is_some_and(|first| first.key() < key) {
            return self.push_far(entry);
        }
        let place = self.near.partition_point(|other| other.key() > key);
        self.near.insert(place, entry);
        if self.near.len() > NEAR {
            self.thin_out();
        }
    }

    /// Takes the first event, with its time in picoseconds.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, E)> {
        let entry = match self.rows.get_mut(self.row) {
            Some(row) => row.pop()?,
            None => self.pop_among()?,
        };
        self.row = ROWS;
        self.first = self.near.last().map_or(NEVER, Entry::key);
        for (place, row) in self.rows.iter().enumerate() {
            self.row = select_unpredictable(row.first < self.first, place, self.row);
            self.first = self.first.min(row.first);
        }
        Some((entry.at_ps, entry.event))
    }

    /// Takes the first of those that are in no row.
    #[inline]
    fn pop_among(&mut self) -> Option<Entry<E>> {
        let first = self.near.pop()?;
        if self.near.is_empty() && !self.heap.is_empty() {
            self.refill();
        }
        Some(first)
    }

    /// When the first event happens, in picoseconds.
    #[inline]
    pub fn peek_ps(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.first_ps())
    }

    /// The same, or `u64::MAX` where none will.
    #[inline]
    pub fn first_ps(&self) -> u64 {
        (self.first >> 64) as u64
    }

    /// The later half of the sorted goes into the heap.
    #[inline(never)]
    fn thin_out(&mut self) {
        for place in 0..NEAR / 2 {
            self.push_far(self.near[place]);
        }
        self.near.drain(..NEAR / 2);
    }

    /// The first of the heap are sorted.
    #[inline(never)]
    fn refill(&mut self) {
        while self.near.len() < REFILL
            && let Some(first) = self.pop_far()
        {
            self.near.push(first);
        }
        self.near.reverse();
    }

    #[inline(never)]
    fn push_far(&mut self, entry: Entry<E>) {
        self.heap.push(entry);
        self.sift_up(self.heap.len() - 1, entry);
    }

    fn pop_far(&mut self) -> Option<Entry<E>> {
        let last = self.heap.pop()?;
        let Some(&first) = self.heap.first() else { return Some(last) };
        let hole = self.sink_hole();
        self.sift_up(hole, last);
        Some(first)
    }

    /// Number of events.
    #[inline]
    pub fn len(&self) -> usize {
        let of_rows: usize = self.rows.iter().map(|row| row.entries.len()).sum();
        of_rows + self.near.len() + self.heap.len()
    }

    /// Whether nothing will happen.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first == NEVER
    }

    #[inline]
    fn next_order(&mut self, source: u16) -> u64 {
        let index = usize::from(source);
        if index >= self.pushes.len() {
            self.pushes.resize(index + 1, 0);
        }
        let count = self.pushes[index];
        debug_assert!(count < 1 << COUNT_BITS);
        self.pushes[index] = count + 1;
        u64::from(source) << COUNT_BITS | count
    }

    /// Puts `entry` at `hole` or above it, wherever the order of the heap wants it.
    #[inline]
    fn sift_up(&mut self, mut hole: usize, entry: Entry<E>) {
        let heap = self.heap.as_mut_slice();
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if heap[parent].key() <= entry.key() {
                break;
            }
            heap[hole] = heap[parent];
            hole = parent;
        }
        heap[hole] = entry;
    }

    /// Moves the least child up from the root to a leaf; the place that becomes free. The entry
    /// that fills it comes from the bottom and seldom rises, so it is not compared on the way.
    #[inline]
    fn sink_hole(&mut self) -> usize {
        let heap = self.heap.as_mut_slice();
        let mut hole = 0;
        loop {
            let first = hole * ARITY + 1;
            let least = match heap.get(first..first + ARITY) {
                Some(children) => first + least_of_four(children),
                None if first < heap.len() => first + least_of(&heap[first..]),
                None => return hole,
            };
            heap[hole] = heap[least];
            hole = least;
        }
    }
}

#[inline]
fn least_of_four<E>(children: &[Entry<E>]) -> usize {
    let [a, b, c, d] = [0, 1, 2, 3].map(|i: usize| children[i].key());
    let (left, left_key) = if b < a { (1, b) } else { (0, a) };
    let (right, right_key) = if d < c { (3, d) } else { (2, c) };
    if right_key < left_key { right } else { left }
}

#[inline]
fn least_of<E>(children: &[Entry<E>]) -> usize {
    let mut least = 0;
    for i in 1..children.len() {
        if children[i].key() < children[least].key() {
            least = i;
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_times_go_by_source_and_then_by_push() {
        let mut queue = EventQueue::new();
        queue.push(5, 2, 'd');
        queue.push(5, 1, 'b');
        queue.push(5, 1, 'c');
        queue.push(4, 9, 'a');
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [(4, 'a'), (5, 'b'), (5, 'c'), (5, 'd')]);
    }

    #[test]
    fn the_count_of_a_source_outlives_its_events() {
        let mut queue = EventQueue::new();
        queue.push(1, 0, 0);
        queue.pop();
        let mut fork = queue.clone();
        for queue in [&mut queue, &mut fork] {
            queue.push(7, 0, 1);
            queue.push(7, 0, 2);
            assert_eq!((queue.pop(), queue.pop(), queue.pop()), (Some((7, 1)), Some((7, 2)), None));
        }
    }

    /// A push (time, source) or a pop.
    fn steps() -> impl Strategy<Value = Vec<Option<(u64, u16)>>> {
        prop::collection::vec(prop::option::weighted(0.6, (0..20u64, 0..4u16)), 0..1000)
    }

    proptest! {
        #[test]
        fn the_heap_equals_a_sorted_list(steps in steps()) {
            let mut queue = EventQueue::new();
            let mut list: Vec<(u64, u16, usize)> = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                if let Some((at_ps, source)) = step {
                    queue.push(at_ps, source, number);
                    list.push((at_ps, source, number));
                    list.sort_unstable();
                } else {
                    let expected = (!list.is_empty()).then(|| list.remove(0));
                    prop_assert_eq!(queue.pop(), expected.map(|(at_ps, _, number)| (at_ps, number)));
                }
                prop_assert_eq!(queue.len(), list.len());
                prop_assert_eq!(queue.is_empty(), list.is_empty());
                prop_assert_eq!(queue.peek_ps(), list.first().map(|first| first.0));
            }
        }

        #[test]
        fn the_order_does_not_depend_on_how_sources_interleave(
            pushes in prop::collection::vec((0..8u64, 0..4u16), 0..300),
        ) {
            let mut interleaved = EventQueue::new();
            let mut by_source = EventQueue::new();
            for (number, &(at_ps, source)) in pushes.iter().enumerate() {
                interleaved.push(at_ps, source, number);
            }
            for wanted in (0..4).rev() {
                for (number, &(at_ps, source)) in pushes.iter().enumerate() {
                    if source == wanted {
                        by_source.push(at_ps, source, number);
                    }
                }
            }
            for _ in 0..=pushes.len() {
                prop_assert_eq!(interleaved.pop(), by_source.pop());
            }
        }
    }
}
