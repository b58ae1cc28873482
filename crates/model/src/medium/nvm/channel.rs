//! A channel: its controller's queues, its banks and its bus.

use super::bank::Cells;
use super::place::Place;
use super::report::NvmCounts;
use super::wear::WearCounts;
use super::{Board, Event, Held, NvmArraySpec, NvmWearSpec, Preemption};
use crate::link::Lane;
use std::collections::VecDeque;
use tierscope_kernel::Slab;

/// A time that never comes.
const NEVER: u64 = u64::MAX;

/// Reads of other rows, or behind it, that may pass the oldest read of a bank.
const PASSES: u32 = 16;

/// What holds for all channels.
#[derive(Clone, Debug)]
pub struct Rules {
    line_bytes: u64,
    column_ps: u64,
    write_ps: u64,
    preemption: Preemption,
    /// Time of one iteration of a pulse.
    iteration_ps: u64,
    /// A pulse that has been on for so long is not cancelled any more.
    cancel_below_ps: u64,
    read_depth: u32,
    write_depth: u32,
    write_high: u32,
    write_low: u32,
}

impl Rules {
    /// The rules of a description that has been checked.
    pub fn new(spec: &NvmArraySpec) -> Self {
        let write_ps = spec.write_latency.picoseconds();
        Rules {
            line_bytes: spec.line.bytes(),
            column_ps: spec.column_latency.picoseconds(),
            write_ps,
            preemption: spec.preemption,
            iteration_ps: write_ps.div_ceil(u64::from(spec.write_iterations.unwrap_or(1))).max(1),
            cancel_below_ps: (write_ps as f64 * spec.cancel_below.unwrap_or(0.0)) as u64,
            read_depth: spec.read_queue_depth,
            write_depth: spec.write_queue_depth,
            write_high: spec.write_high,
            write_low: spec.write_low,
        }
    }
}

impl Rules {
    /// Time of a pulse.
    pub fn write_ps(&self) -> u64 {
        self.write_ps
    }
}

/// A pulse, of which so much is left.
#[derive(Clone, Copy, Debug)]
struct Pulse {
    /// Line of the bank.
    line: u64,
    left_ps: u64,
}

/// What a bank does.
#[derive(Clone, Copy, Debug)]
enum State {
    Idle,
    /// The row of the read with this number is brought into a row buffer.
    Sensing(u32),
    /// A column command has been given; the next may follow.
    Column,
    /// The data of a line to write cross the bus.
    Receiving(u64),
    /// A write pulse is on since then.
    Pulsing(Pulse, u64),
    /// A pulse ends with the iteration under way; that much is left behind it.
    Pausing(Pulse),
    /// Wear levelling copies a line.
    Moving,
}

/// A bank and what waits for it.
#[derive(Clone, Debug)]
struct Bank {
    cells: Cells,
    /// Numbers of reads, oldest first.
    reads: VecDeque<u32>,
    /// Lines of the bank to write, oldest first, none twice.
    writes: VecDeque<u64>,
    state: State,
    /// When what it does ends.
    due_ps: u64,
    /// A pulse that reads have stopped.
    paused: Option<Pulse>,
    /// Reads that have passed the oldest.
    passes: u32,
}

impl Bank {
    fn fork(&mut self) -> Self {
        Bank {
            cells: self.cells.fork(),
            reads: self.reads.clone(),
            writes: self.writes.clone(),
            ..*self
        }
    }

    /// The line whose pulse is on, or about to be, or stopped.
    fn written_line(&self) -> Option<u64> {
        match self.state {
            State::Receiving(line) => Some(line),
            State::Pulsing(pulse, _) | State::Pausing(pulse) => Some(pulse.line),
            _ => self.paused.map(|pulse| pulse.line),
        }
    }

    /// Whether the controller still has the data of a line.
    fn holds_data_of(&self, line: u64) -> bool {
        self.written_line() == Some(line) || self.writes.contains(&line)
    }

    /// Takes the read that goes next: of those that somebody waits for, one whose row is open, else the
    /// oldest; the oldest of all when it has been passed often enough.
    fn take_read(&mut self, held: &Slab<Held>) -> Option<u32> {
        let key = |position: &usize| {
            let Held { access, place, .. } = &held[self.reads[*position]];
            (access.background, !self.cells.is_open(place.line), *position)
        };
        let oldest = self.reads.len().min(1).checked_sub(1);
        let first = (0..self.reads.len()).min_by_key(key);
        let position = if self.passes < PASSES { first } else { oldest }?;
        self.passes = if position == 0 { 0 } else { self.passes + 1 };
        self.reads.remove(position)
    }
}

/// A channel with its banks.
#[derive(Clone, Debug)]
pub struct Channel {
    number: u16,
    banks: Vec<Bank>,
    bus: Lane,
    /// Reads in the queue, until their data have moved.
    reads_held: u32,
    /// Writes in the queue, until their pulses have ended.
    writes_held: u32,
    /// Reads for which the queue has no room.
    read_door: VecDeque<u32>,
    /// Writes for which it has none, and reads of their lines behind them.
    write_door: VecDeque<u32>,
    /// Writes go before reads.
    draining: bool,
    counts: NvmCounts,
}

impl Channel {
    /// A channel with nothing to do, of banks of `lines` lines numbered from `first`.
    pub fn new(spec: &NvmArraySpec, wear: &NvmWearSpec, lines: u64, first: u64) -> Self {
        let (interval, randomized) = (u64::from(wear.gap_interval), wear.randomized);
        let bank = |number: u32| Bank {
            cells: Cells::new(spec, lines, interval, randomized, first + u64::from(number)),
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            state: State::Idle,
            due_ps: NEVER,
            paused: None,
            passes: 0,
        };
        Channel {
            number: (first / u64::from(spec.banks)) as u16,
            banks: (0..spec.banks).map(bank).collect(),
            bus: Lane::new(spec.bus_bandwidth().bytes_per_second()),
            reads_held: 0,
            writes_held: 0,
            read_door: VecDeque::new(),
            write_door: VecDeque::new(),
            draining: false,
            counts: NvmCounts::default(),
        }
    }

    /// As [`NvmArray::fork`](super::NvmArray::fork).
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Channel {
            banks: self.banks.iter_mut().map(Bank::fork).collect(),
            bus: self.bus.clone(),
            read_door: self.read_door.clone(),
            write_door: self.write_door.clone(),
            ..*self
        }
    }

    /// Writes in the queue, until their pulses have ended.
    pub fn writes_held(&self) -> u32 {
        self.writes_held
    }

    /// What it did.
    pub fn counts(&self) -> NvmCounts {
        self.banks.iter().fold(self.counts, |counts, bank| counts.with_cells(&bank.cells))
    }

    /// An access is done without time.
    pub fn serve_at_once(&mut self, place: Place, write: bool, rules: &Rules) {
        let cells = &mut self.banks[place.bank].cells;
        if write {
            self.counts.write_lines += 1;
            cells.end_write(place.line, rules.write_ps);
        } else {
            self.counts.read_lines += 1;
            cells.read(place.line);
        }
    }

    /// An access comes to the controller.
    pub fn arrive(&mut self, now_ps: u64, index: u32, rules: &Rules, board: &mut Board) {
        let Held { access, place, .. } = board.held[index];
        if access.write {
            self.counts.write_lines += 1;
            if !self.write_door.is_empty() || !self.take_write(now_ps, index, rules, board) {
                self.write_door.push_back(index);
            }
            return;
        }
        self.counts.read_lines += 1;
        let same = |other: &u32| {
            let Held { access, place: its, .. } = &board.held[*other];
            access.write && *its == place
        };
        if self.write_door.iter().any(same) {
            self.write_door.push_back(index);
        } else if self.banks[place.bank].holds_data_of(place.line) {
            self.forward(now_ps, index, board);
        } else if self.reads_held < rules.read_depth {
            self.take_read(now_ps, index, rules, board);
        } else {
            self.read_door.push_back(index);
        }
    }

    /// A read gets the data of a write that waits.
    fn forward(&mut self, now_ps: u64, index: u32, board: &mut Board) {
        self.counts.forwarded_lines += 1;
        board.answered(index, now_ps);
    }

    fn take_read(&mut self, now_ps: u64, index: u32, rules: &Rules, board: &mut Board) {
        self.reads_held += 1;
        let held = &mut board.held[index];
        held.queued = true;
        let bank = held.place.bank;
        self.banks[bank].reads.push_back(index);
        self.preempt(now_ps, bank, rules, board);
        self.kick(now_ps, bank, rules, board);
    }

    /// Takes a write into the queue, or its data into those of one that waits there for the same line;
    /// whether there was room.
    fn take_write(&mut self, now_ps: u64, index: u32, rules: &Rules, board: &mut Board) -> bool {
        let place = board.held[index].place;
        let bank = &mut self.banks[place.bank];
        if bank.writes.contains(&place.line) {
            self.counts.merged_lines += 1;
            board.answered(index, now_ps);
            return true;
        }
        if self.writes_held == rules.write_depth {
            return false;
        }
        bank.writes.push_back(place.line);
        self.writes_held += 1;
        self.draining |= self.writes_held >= rules.write_high;
        board.answered(index, now_ps);
        self.kick(now_ps, place.bank, rules, board);
        true
    }

    /// The data of a read have moved: there is room for another.
    pub fn left(&mut self, now_ps: u64, rules: &Rules, board: &mut Board) {
        self.reads_held -= 1;
        if let Some(index) = self.read_door.pop_front() {
            self.take_read(now_ps, index, rules, board);
        }
    }

    /// A pulse has ended: there is room for another write.
    fn written(&mut self, now_ps: u64, rules: &Rules, board: &mut Board) {
        self.writes_held -= 1;
        self.draining &= self.writes_held > rules.write_low;
        while let Some(&index) = self.write_door.front() {
            if !board.held[index].access.write {
                self.forward(now_ps, index, board);
            } else if !self.take_write(now_ps, index, rules, board) {
                return;
            }
            self.write_door.pop_front();
        }
    }

    /// A bank does something until `due_ps`.
    fn busy(&mut self, bank: usize, state: State, due_ps: u64, board: &mut Board) {
        let it = &mut self.banks[bank];
        (it.state, it.due_ps) = (state, due_ps);
        board.events.push(due_ps, 1, Event::Bank(self.number, bank as u16));
    }

    /// Lets a bank begin what it is to do next, if it does nothing.
    fn kick(&mut self, now_ps: u64, bank: usize, rules: &Rules, board: &mut Board) {
        let (draining, it) = (self.draining, &mut self.banks[bank]);
        if !matches!(it.state, State::Idle) {
            return;
        }
        let writes = draining || it.reads.is_empty();
        if let (true, Some(pulse)) = (writes, it.paused) {
            it.paused = None;
            self.busy(bank, State::Pulsing(pulse, now_ps), now_ps + pulse.left_ps, board);
        } else if let (true, None, Some(line)) = (writes, it.paused, it.writes.front().copied()) {
            it.writes.pop_front();
            let earliest_ps = now_ps + rules.column_ps;
            let (_, end_ps) = self.bus.transfer(earliest_ps, rules.line_bytes);
            self.busy(bank, State::Receiving(line), end_ps, board);
        } else if let Some(index) = it.take_read(&board.held) {
            let Held { place, done, .. } = &mut board.held[index];
            done.started_ps = now_ps;
            let open_ps = now_ps + it.cells.read(place.line);
            if open_ps == now_ps {
                self.column(now_ps, bank, index, rules, board);
            } else {
                self.busy(bank, State::Sensing(index), open_ps, board);
            }
        }
    }

    /// The row of a read is open: its line moves as soon as the bus is free. The column command is given
    /// when its data will find the bus free, and the next of the bank may follow a burst later.
    fn column(&mut self, now_ps: u64, bank: usize, index: u32, rules: &Rules, board: &mut Board) {
        let ready_ps = now_ps + rules.column_ps;
        let (bus_ps, end_ps) = self.bus.transfer(ready_ps, rules.line_bytes);
        let done = &mut board.held[index].done;
        (done.ready_ps, done.bus_ps, done.at_ps) = (ready_ps, bus_ps, end_ps);
        board.done(index, end_ps);
        self.busy(bank, State::Column, end_ps - rules.column_ps, board);
    }

    /// Reads wait for a bank: its pulse is stopped, where that is allowed.
    fn preempt(&mut self, now_ps: u64, bank: usize, rules: &Rules, board: &mut Board) {
        let it = &mut self.banks[bank];
        let State::Pulsing(pulse, since_ps) = it.state else { return };
        if self.draining || it.reads.is_empty() {
            return;
        }
        let on_ps = now_ps - since_ps;
        match rules.preemption {
            Preemption::None => {}
            Preemption::Cancel if on_ps < rules.cancel_below_ps => {
                it.cells.abort_write(pulse.line, on_ps);
                (it.state, it.due_ps) = (State::Idle, NEVER);
                self.counts.cancelled_writes += 1;
                self.put_back(now_ps, bank, pulse.line, rules, board);
            }
            Preemption::Cancel => {}
            Preemption::Pause => {
                let end_ps = on_ps.next_multiple_of(rules.iteration_ps);
                if end_ps < pulse.left_ps {
                    it.cells.pulsed(end_ps);
                    let left = Pulse { left_ps: pulse.left_ps - end_ps, ..pulse };
                    self.counts.paused_writes += 1;
                    self.busy(bank, State::Pausing(left), since_ps + end_ps, board);
                }
            }
        }
    }

    /// A write that was cancelled waits again, before the others; unless newer data of its line do.
    fn put_back(&mut self, now_ps: u64, bank: usize, line: u64, rules: &Rules, board: &mut Board) {
        let writes = &mut self.banks[bank].writes;
        if writes.contains(&line) {
            self.counts.merged_lines += 1;
            self.written(now_ps, rules, board);
        } else {
            writes.push_front(line);
        }
    }

    /// What a bank did ends at `now_ps`, unless it has been stopped before.
    pub fn end_of(&mut self, now_ps: u64, bank: usize, rules: &Rules, board: &mut Board) {
        let it = &mut self.banks[bank];
        if it.due_ps != now_ps {
            return;
        }
        it.due_ps = NEVER;
        match std::mem::replace(&mut it.state, State::Idle) {
            State::Sensing(index) => return self.column(now_ps, bank, index, rules, board),
            State::Receiving(line) => {
                let pulse = Pulse { line, left_ps: rules.write_ps };
                self.busy(bank, State::Pulsing(pulse, now_ps), now_ps + rules.write_ps, board);
                self.preempt(now_ps, bank, rules, board);
            }
            State::Pausing(pulse) => it.paused = Some(pulse),
            State::Pulsing(pulse, _) => {
                if let Some(move_ps) = it.cells.end_write(pulse.line, pulse.left_ps) {
                    self.busy(bank, State::Moving, now_ps + move_ps, board);
                }
                self.written(now_ps, rules, board);
            }
            State::Idle | State::Column | State::Moving => {}
        }
        self.kick(now_ps, bank, rules, board);
    }

    /// How the lines of all its banks have worn.
    pub fn wear(&self) -> WearCounts {
        self.banks.iter().fold(WearCounts::default(), |all, bank| all.plus(bank.cells.wear()))
    }
}
