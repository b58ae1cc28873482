//! What is sent over a link, and waits for it.

use crate::link::nvme::NvmeCounts;
use crate::link::{self, AnyLink, Direction, Link, Message};
use std::collections::VecDeque;

/// A time that never comes.
pub(super) const NEVER: u64 = u64::MAX;

/// What a message is sent for: a place in the flow of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The command of the request with this number.
    Command(u32),
    /// The host tells of the request with this number, which is in a queue.
    Doorbell(u32),
    /// The batch of commands with this number, out of a queue.
    Fetch(u32),
    /// The list of pages of the request with this number, of which so many entries are left.
    List(u32, u32),
    /// The data of the part with this number, or what is left of them.
    Data(u32),
    /// Those of its data that are wanted first.
    Ahead(u32),
    /// The end of the request with this number.
    Done(u32),
    /// The completion entry of the request with this number, in a queue.
    Entry(u32),
    /// The interrupt for the batch of completions with this number.
    Interrupt(u32),
    /// What follows a request that has been written, or read.
    After { write: bool },
}

impl What {
    /// Counts what NVM Express sends, as it begins: a command without queues is told of, and fetched, by itself,
    /// and its completion interrupts.
    #[inline]
    pub(super) fn count(self, sent: &mut NvmeCounts) {
        match self {
            What::Command(_) => {
                sent.doorbells += 1;
                sent.command_fetches += 1;
            }
            What::Doorbell(_) | What::After { .. } => sent.doorbells += 1,
            What::Fetch(_) => sent.command_fetches += 1,
            What::List(..) => sent.list_fetches += 1,
            What::Done(_) | What::Interrupt(_) => sent.interrupts += 1,
            What::Data(_) | What::Ahead(_) | What::Entry(_) => {}
        }
    }
}

/// A message on its way, or about to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parcel {
    pub(super) what: What,
    /// Which of its messages, and whether that is the last.
    pub(super) leg: u32,
    pub(super) is_last: bool,
    pub(super) message: Message,
    pub(super) direction: Direction,
    pub(super) posted: bool,
    pub(super) background: bool,
}

/// One direction of the link with what waits for it: first what ends a request, right behind its own
/// data, then demand. Nothing is booked ahead, so that what is ready first goes first.
#[derive(Clone, Debug)]
pub(super) struct Port {
    direction: Direction,
    ends: VecDeque<Parcel>,
    demand: VecDeque<Parcel>,
    background: VecDeque<Parcel>,
    /// When the next one that waits can be sent.
    pub(super) free_ps: u64,
    /// When the next of what has been sent has come, or left.
    pub(super) arrival_ps: u64,
    /// Bytes that the link has moved.
    pub(super) moved_bytes: u64,
    /// Sent, in the order in which they have come, or have left where nobody waits for more.
    sent: VecDeque<Sent>,
}

/// A parcel that has been sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// When it has come, or left, as far as is known.
    at_ps: u64,
    /// How the link finds it again, and how much later than it has left it has come.
    mark: u64,
    after_ps: u64,
    parcel: Parcel,
}

impl Port {
    pub(super) fn new(direction: Direction) -> Self {
        Port {
            direction,
            ends: VecDeque::new(),
            demand: VecDeque::new(),
            background: VecDeque::new(),
            free_ps: NEVER,
            arrival_ps: NEVER,
            moved_bytes: 0,
            sent: VecDeque::new(),
        }
    }

    /// The same with nothing on it, or waiting.
    pub(super) fn emptied(&self) -> Self {
        Port { moved_bytes: self.moved_bytes, ..Port::new(self.direction) }
    }

    /// Sends a parcel at `now_ps`, or lets it wait for the link.
    #[inline]
    pub(super) fn send(&mut self, link: &mut AnyLink, now_ps: u64, parcel: Parcel) {
        let free_ps = link.free_ps(self.direction);
        if free_ps <= now_ps && self.free_ps == NEVER {
            self.put_on(link, now_ps, parcel);
            return;
        }
        let queue = match parcel.what {
            What::Done(_) | What::Entry(_) | What::Interrupt(_) | What::After { .. } => {
                &mut self.ends
            }
            _ if parcel.background => &mut self.background,
            _ => &mut self.demand,
        };
        queue.push_back(parcel);
        self.free_ps = free_ps.max(now_ps);
    }

    #[inline]
    pub(super) fn put_on(&mut self, link: &mut AnyLink, now_ps: u64, parcel: Parcel) {
        let link::Sent { at_ps, mark, after_ps, moved_bytes } =
            link.send(now_ps, parcel.message, self.direction, parcel.posted);
        self.moved_bytes += moved_bytes;
        let sent = Sent { at_ps, mark, after_ps, parcel };
        // As a rule it is the last.
        match self.sent.iter().rev().take_while(|sent| sent.at_ps > at_ps).count() {
            0 => self.sent.push_back(sent),
            later => self.sent.insert(self.sent.len() - later, sent),
        }
        self.note_first();
    }

    /// The first of what has been sent may be another.
    #[inline]
    fn note_first(&mut self) {
        self.arrival_ps = self.sent.front().map_or(NEVER, |sent| sent.at_ps);
    }

    /// The first that has been sent has come, or left, and when; unless it does so later than was known.
    #[inline]
    pub(super) fn take_sent(&mut self, link: &AnyLink) -> Option<(u64, Parcel)> {
        let first = self.sent.front_mut()?;
        let left_ps = link.left_ps(first.mark);
        if left_ps > 0 && left_ps + first.after_ps > first.at_ps {
            first.at_ps = left_ps + first.after_ps;
            self.arrival_ps = first.at_ps;
            return None;
        }
        let (at_ps, parcel) = (first.at_ps, first.parcel);
        self.sent.pop_front();
        self.note_first();
        Some((at_ps, parcel))
    }

    /// The link has become free, unless the other direction of one that is not duplex was faster.
    pub(super) fn send_next(&mut self, link: &mut AnyLink) {
        let free_ps = link.free_ps(self.direction);
        if free_ps > self.free_ps {
            self.free_ps = free_ps;
            return;
        }
        let next = self.ends.pop_front().or_else(|| self.demand.pop_front());
        if let Some(parcel) = next.or_else(|| self.background.pop_front()) {
            self.put_on(link, self.free_ps, parcel);
        }
        let queues = [&self.ends, &self.demand, &self.background];
        let idle = queues.into_iter().all(VecDeque::is_empty);
        self.free_ps = if idle { NEVER } else { link.free_ps(self.direction) };
    }
}
