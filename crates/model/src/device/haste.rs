//! HASTE: memory behind controllers on a token ring, reached through a few buffers by DMA.
//!
//! The emulator of future memories of \[NVM10\] (A. Caulfield et al., SC 2010, §III-A). A scheduler takes
//! requests in order. Each page of them needs a DMA buffer: what is written is fetched into it from the
//! host and then streamed over the ring to a memory controller; what is read comes the other way. [`Haste`]
//! is the device without its link, page by page; as [`HasteDevice`] it is behind a link. What is modelled
//! is said in `docs/models/haste.md`.

mod ring;
mod spec;

pub use spec::HasteSpec;

use super::arrivals::Arrivals;
use super::linked::{Linked, PageAccess, PageDone, Pages};
use crate::link::LinkDescription;
use crate::request::Tell;
use ring::Ring;
use std::collections::VecDeque;
use tierscope_kernel::{EventQueue, Slab, Stage, Timeline};
use tierscope_units::Bandwidth;

/// HASTE behind its link.
pub type HasteDevice = Linked<Haste>;

impl HasteDevice {
    /// A device with nothing to do, behind an empty link. The descriptions have been checked.
    pub fn new(spec: &HasteSpec, link: &dyn LinkDescription) -> Self {
        let haste = Haste::new(spec);
        Linked::behind(link, haste, spec.page.bytes(), u32::MAX).with_commands(spec.queue_depth)
    }
}

/// What the device says of a page.
#[derive(Clone, Copy, Debug)]
pub struct HastePageDone {
    token: u32,
    at_ps: u64,
    stages: Timeline,
    /// There is a buffer for the data of a write: they are to be fetched.
    fetches: bool,
}

impl PageDone for HastePageDone {
    #[inline]
    fn token(&self) -> u32 {
        self.token
    }

    #[inline]
    fn at_ps(&self) -> u64 {
        self.at_ps
    }

    #[inline]
    fn fetches(&self) -> bool {
        self.fetches
    }

    #[inline]
    fn write_stages(&self, stages: &mut Timeline) {
        stages.append(&self.stages);
    }
}

/// The node of the ring that has the link, the scheduler and the buffers.
const HOST_NODE: u32 = 0;
/// Bytes by which a controller is asked for a page: address, length and tag, two words of 64 bits.
const COMMAND_BYTES: u64 = 16;

/// A page that the device holds.
#[derive(Clone, Debug)]
struct Held {
    access: PageAccess,
    /// Time up to which `stages` reaches.
    clock_ps: u64,
    stages: Timeline,
}

impl Held {
    #[inline]
    fn pass(&mut self, stage: Stage, until_ps: u64) {
        self.stages.push(stage, until_ps - self.clock_ps);
        self.clock_ps = until_ps;
    }
}

/// What crosses the ring for a page.
#[derive(Clone, Copy, Debug)]
enum Parcel {
    /// A controller is asked to read this page.
    Command(u32),
    /// The data of this page, from or to its controller.
    Data(u32),
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The token comes to a node where something waits for it, unless the ring has changed since.
    Token { generation: u32 },
    /// The ring has sent what it had; the token goes on from this node.
    Sent { node: u32 },
    /// A controller has been asked for a page.
    Asked { page: u32 },
    /// A row is open, and its data can leave.
    Opened { page: u32 },
    /// A page that was read is in its buffer.
    Read { page: u32 },
    /// The data of a write have left their buffer.
    Left,
    /// The data of a write are in their row.
    Written { page: u32 },
    /// A controller has nothing more to do for its page.
    Free { controller: u32 },
}

/// A memory controller: one page at a time.
#[derive(Clone, Debug, Default)]
struct Controller {
    busy: bool,
    waiting: VecDeque<u32>,
}

/// The state of the device without its link. Requests in it are bounded by whoever submits.
#[derive(Clone, Debug)]
pub struct Haste {
    pages: u64,
    scheduler_ps: u64,
    read_ps: u64,
    write_ps: u64,
    /// By which rates data stream: that of a controller's memory, and that of the ring.
    rates: [Bandwidth; 2],
    ring: Ring<Parcel>,
    nodes: u32,
    controllers: Vec<Controller>,
    buffers: u32,
    /// On their way through the scheduler.
    arriving: Arrivals,
    /// What waits for a buffer, in order.
    waiting: VecDeque<u32>,
    /// The page of each access, by the requester's number: a write is fetched while it is held here.
    tokens: Vec<u32>,
    held: Slab<Held>,
    events: EventQueue<Event>,
}

impl Haste {
    /// A device with nothing to do. The description has been checked.
    pub fn new(spec: &HasteSpec) -> Self {
        Haste {
            pages: spec.capacity.bytes() / spec.page.bytes(),
            scheduler_ps: spec.scheduler_latency.picoseconds(),
            read_ps: spec.read_latency.picoseconds(),
            write_ps: spec.write_latency.picoseconds(),
            rates: [spec.controller_bandwidth, spec.ring_bandwidth],
            ring: Ring::new(spec.nodes, spec.ring_latency.picoseconds()),
            nodes: spec.nodes,
            controllers: vec![Controller::default(); spec.controllers as usize],
            buffers: spec.buffers,
            arriving: Arrivals::default(),
            waiting: VecDeque::new(),
            tokens: Vec::new(),
            held: Slab::new(),
            events: EventQueue::new(),
        }
    }

    /// Pages are dealt to controllers in turn.
    #[inline]
    fn controller_of(&self, page: u32) -> u32 {
        (self.held[page].access.page % self.controllers.len() as u64) as u32
    }

    /// Controllers are spread over the nodes, neighbours on the same.
    #[inline]
    fn node_of(&self, page: u32) -> u32 {
        let controllers = self.controllers.len() as u64;
        (u64::from(self.controller_of(page)) * u64::from(self.nodes) / controllers) as u32
    }

    /// Time in which so many bytes stream at the slower of two rates, rounded up.
    fn stream_ps(&self, bytes: u64) -> u64 {
        let rate = self.rates[0].min(self.rates[1]).bytes_per_second();
        (u128::from(bytes) * 1_000_000_000_000).div_ceil(u128::from(rate)) as u64
    }

    /// What waits longest takes the buffers that are free.
    fn give_buffers(&mut self, now_ps: u64, out: &mut Vec<HastePageDone>) {
        while self.buffers > 0
            && let Some(page) = self.waiting.pop_front()
        {
            self.buffers -= 1;
            let held = &mut self.held[page];
            held.pass(Stage::StoreQueue, now_ps);
            let PageAccess { token, write, .. } = held.access;
            if write {
                let stages = held.stages;
                out.push(HastePageDone { token, at_ps: now_ps, stages, fetches: true });
            } else {
                self.want_controller(now_ps, page);
            }
        }
    }

    /// A page takes its controller, or waits for it.
    fn want_controller(&mut self, now_ps: u64, page: u32) {
        let number = self.controller_of(page);
        let controller = &mut self.controllers[number as usize];
        if controller.busy {
            controller.waiting.push_back(page);
        } else {
            controller.busy = true;
            self.begin(now_ps, page);
        }
    }

    /// A page has its controller: it is asked for the page, or gets the data.
    fn begin(&mut self, now_ps: u64, page: u32) {
        let write = self.held[page].access.write;
        let parcel = if write { Parcel::Data(page) } else { Parcel::Command(page) };
        self.send(now_ps, HOST_NODE, parcel);
    }

    /// Something is to cross the ring from a node on.
    fn send(&mut self, now_ps: u64, node: u32, parcel: Parcel) {
        self.ring.push(node, parcel);
        self.announce_token(now_ps);
    }

    fn announce_token(&mut self, now_ps: u64) {
        if let Some((at_ps, generation)) = self.ring.next_token(now_ps) {
            self.events.push(at_ps, 1, Event::Token { generation });
        }
    }

    /// The token has come to a node: what waits there crosses the ring.
    fn take_token(&mut self, now_ps: u64) {
        let Some((node, parcel)) = self.ring.take() else { return };
        let (Parcel::Command(page) | Parcel::Data(page)) = parcel;
        self.held[page].pass(Stage::StoreQueue, now_ps);
        let PageAccess { write, bytes, .. } = self.held[page].access;
        let memory_node = self.node_of(page);
        let to_memory = write || matches!(parcel, Parcel::Command(_));
        let way_ps = self.ring.way_ps(node, if to_memory { memory_node } else { HOST_NODE });
        let sent_ps = now_ps
            + match parcel {
                Parcel::Command(_) => self.stream_ps(COMMAND_BYTES),
                Parcel::Data(_) => self.stream_ps(u64::from(bytes)),
            };
        self.events.push(sent_ps, 0, Event::Sent { node });
        let come_ps = sent_ps + way_ps;
        self.held[page].pass(Stage::Device, come_ps);
        match parcel {
            Parcel::Command(_) => self.events.push(come_ps, 0, Event::Asked { page }),
            Parcel::Data(_) if write => {
                self.events.push(sent_ps, 0, Event::Left);
                self.events.push(come_ps, 0, Event::Written { page });
            }
            Parcel::Data(_) => {
                // The memory is read as fast as it leaves.
                let controller = self.controller_of(page);
                self.events.push(sent_ps, 0, Event::Free { controller });
                self.events.push(come_ps, 0, Event::Read { page });
            }
        }
    }

    fn report(&mut self, at_ps: u64, page: u32, out: &mut Vec<HastePageDone>) {
        let Held { access, stages, clock_ps } = self.held.remove(page);
        debug_assert_eq!(clock_ps, at_ps);
        out.push(HastePageDone { token: access.token, at_ps, stages, fetches: false });
    }

    fn happen(&mut self, at_ps: u64, event: Event, out: &mut Vec<HastePageDone>) {
        match event {
            Event::Token { generation } => {
                if self.ring.is_current(generation) {
                    self.take_token(at_ps);
                }
            }
            Event::Sent { node } => {
                self.ring.release(at_ps, node);
                self.announce_token(at_ps);
            }
            Event::Asked { page } => {
                self.events.push(at_ps + self.read_ps, 0, Event::Opened { page });
            }
            Event::Opened { page } => {
                self.held[page].pass(Stage::Medium, at_ps);
                let node = self.node_of(page);
                self.send(at_ps, node, Parcel::Data(page));
            }
            Event::Read { page } => self.report(at_ps, page, out),
            Event::Left => self.free_buffer(at_ps, out),
            Event::Written { page } => {
                let controller = self.controller_of(page);
                // The precharge takes longer; nobody waits for it but who wants the controller next.
                self.events.push(at_ps + self.write_ps, 0, Event::Free { controller });
                self.report(at_ps, page, out);
            }
            Event::Free { controller } => {
                let controller = &mut self.controllers[controller as usize];
                match controller.waiting.pop_front() {
                    Some(page) => self.begin(at_ps, page),
                    None => controller.busy = false,
                }
            }
        }
    }

    fn free_buffer(&mut self, now_ps: u64, out: &mut Vec<HastePageDone>) {
        self.buffers += 1;
        self.give_buffers(now_ps, out);
    }
}

impl Pages for Haste {
    type Done = HastePageDone;

    fn depths(&self, tell: &mut Tell<'_>) {
        tell("haste.pages", self.held.len());
    }

    /// A write is done when its data are in their row, which the emulated memory keeps.
    fn keeps_answered(&self) -> bool {
        true
    }

    #[inline]
    fn pages(&self) -> u64 {
        self.pages
    }

    fn submit(&mut self, now_ps: u64, access: PageAccess) {
        let (page, pages) = (access.page, self.pages);
        assert!(page < pages, "page {page} of a device of {pages}");
        let ready_ps = now_ps + self.scheduler_ps;
        let mut held = Held { access, clock_ps: now_ps, stages: Timeline::new() };
        held.pass(Stage::Device, ready_ps);
        let index = self.held.insert(held);
        let token = access.token as usize;
        if token >= self.tokens.len() {
            self.tokens.resize(token + 1, 0);
        }
        self.tokens[token] = index;
        self.arriving.push(ready_ps, index);
    }

    fn fetches(&self) -> bool {
        true
    }

    /// What is written has come into its buffer.
    fn fetched(&mut self, now_ps: u64, token: u32) {
        let page = self.tokens[token as usize];
        self.held[page].pass(Stage::Link, now_ps);
        self.want_controller(now_ps, page);
    }

    /// What was read has left its buffer.
    fn sent(&mut self, now_ps: u64, _token: u32) {
        self.events.push(now_ps, 0, Event::Left);
    }

    #[inline]
    fn next_event_ps(&self) -> Option<u64> {
        self.arriving.next_ps(self.events.peek_ps())
    }

    fn advance(&mut self, now_ps: u64, out: &mut Vec<HastePageDone>) {
        while let Some(at_ps) = self.next_event_ps()
            && at_ps <= now_ps
        {
            if let Some(index) = self.arriving.take(at_ps) {
                self.waiting.push_back(index);
                self.give_buffers(at_ps, out);
            } else if let Some((_, event)) = self.events.pop() {
                self.happen(at_ps, event, out);
            }
        }
    }
}

#[cfg(test)]
mod tests;
