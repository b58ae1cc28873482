//! A module of byte-addressable non-volatile memory: cells behind a controller, with or without a buffer
//! that combines writes, and the link to it.
//!
//! [`Nvm`] is the module without its link, access by access; as [`NvmDevice`] it is behind a link and
//! takes requests of any size. What is modelled is said in `docs/models/nvm.md`.

mod buffer;
mod report;
mod spec;

pub use buffer::BufferCounts;
pub use report::NvmReport;
pub use spec::{NvmBufferSpec, NvmSpec};

use crate::activity::Activity;
use crate::device::arrivals::Arrivals;
use crate::device::{Linked, PageAccess, PageDone, Pages};
use crate::link::LinkDescription;
use crate::medium::nvm::{LineAccess, LineDone, NvmArray};
use crate::request::Tell;
use buffer::{Answer, Buffer, Outcome};
use tierscope_kernel::{Slab, Stage, Timeline};

/// A module behind a link. A write is done when the module has it where it survives a power failure: in
/// its buffer, or in its write queue.
pub type NvmDevice = Linked<Nvm>;

impl NvmDevice {
    /// A module with nothing to do, behind an empty link. The descriptions have been checked.
    pub fn new(spec: &NvmSpec, link: &dyn LinkDescription) -> Self {
        Linked::behind(link, Nvm::new(spec), spec.access().bytes(), spec.queue_depth)
    }
}

/// What the module says of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NvmPageDone {
    token: u32,
    at_ps: u64,
    /// Controller, and look-up in the buffer.
    controller_ps: u64,
    /// Waiting for a bank, a place or a row of the buffer.
    queue_ps: u64,
    medium_ps: u64,
    /// Waiting for the bus of a channel, and moving over it.
    bus_wait_ps: u64,
    bus_ps: u64,
}

impl PageDone for NvmPageDone {
    #[inline]
    fn token(&self) -> u32 {
        self.token
    }

    #[inline]
    fn at_ps(&self) -> u64 {
        self.at_ps
    }

    #[inline]
    fn write_stages(&self, stages: &mut Timeline) {
        stages.push(Stage::Device, self.controller_ps);
        stages.push(Stage::StoreQueue, self.queue_ps);
        stages.push(Stage::Medium, self.medium_ps);
        stages.push(Stage::StoreQueue, self.bus_wait_ps);
        stages.push(Stage::Device, self.bus_ps);
    }
}

/// An access that the module holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    access: PageAccess,
    /// When the controller, and the look-up in the buffer, were done with it.
    arrived_ps: u64,
}

/// A module without its link. Accesses in it are bounded by whoever submits.
#[derive(Clone, Debug)]
pub struct Nvm {
    /// Time of the controller and of a look-up in the buffer.
    controller_ps: u64,
    pages: u64,
    held: Slab<Held>,
    /// On their way through the controller, which takes the same time for each.
    arriving: Arrivals,
    array: NvmArray,
    buffer: Option<Buffer>,
    endurance: u64,
    access_bytes: u64,
    host_writes: u64,
    /// Room for what array and buffer report, kept to spare the allocation.
    lines: Vec<LineDone>,
    answers: Vec<Answer>,
}

impl Nvm {
    /// A module with nothing to do. The description has been checked.
    pub fn new(spec: &NvmSpec) -> Self {
        let array =
            NvmArray::new(&spec.array, &spec.wear, spec.energy.as_ref(), spec.capacity.bytes());
        let buffer = spec.buffer.as_ref();
        let look_up_ps = buffer.map_or(0, |buffer| buffer.latency.picoseconds());
        Nvm {
            controller_ps: spec.controller_latency.picoseconds() + look_up_ps,
            pages: spec.capacity.bytes() / spec.access().bytes(),
            held: Slab::new(),
            arriving: Arrivals::default(),
            array,
            buffer: buffer.map(|buffer| Buffer::new(buffer, spec.array.line.bytes())),
            endurance: spec.wear.endurance,
            access_bytes: spec.access().bytes(),
            host_writes: 0,
            lines: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// The controller passes an access on: to the buffer, or to the array.
    fn arrive(&mut self, at_ps: u64, index: u32, out: &mut Vec<NvmPageDone>) {
        let PageAccess { page, write, background, .. } = self.held[index].access;
        if let Some(buffer) = &mut self.buffer {
            buffer.access(at_ps, (index, page, write), &mut self.array, &mut self.answers);
            self.answer(out);
        } else {
            self.array.submit(at_ps, LineAccess { token: index, line: page, write, background });
        }
    }

    /// The array has done something: for the buffer, or for accesses themselves.
    fn take_from_array(&mut self, at_ps: u64, out: &mut Vec<NvmPageDone>) {
        let mut lines = std::mem::take(&mut self.lines);
        self.array.advance(at_ps, &mut lines);
        lines.drain(..).for_each(|line| self.line_done(line, out));
        self.lines = lines;
    }

    /// The array has read or taken a line.
    fn line_done(&mut self, line: LineDone, out: &mut Vec<NvmPageDone>) {
        if let Some(buffer) = &mut self.buffer {
            buffer.line_done(line, &mut self.array, &mut self.answers);
            self.answer(out);
        } else {
            out.push(self.done(line.token, Outcome::Line(line), line.at_ps));
        }
    }

    /// What the buffer answered.
    fn answer(&mut self, out: &mut Vec<NvmPageDone>) {
        let mut answers = std::mem::take(&mut self.answers);
        out.extend(answers.drain(..).map(|it| self.done(it.index, it.outcome, it.at_ps)));
        self.answers = answers;
    }

    /// An access is done: where its time went. What others had begun before it came is none of it.
    fn done(&mut self, index: u32, outcome: Outcome, at_ps: u64) -> NvmPageDone {
        let Held { access, arrived_ps } = self.held.remove(index);
        let (started_ps, ready_ps, bus_ps) = match outcome {
            Outcome::Buffer => (at_ps, at_ps, at_ps),
            Outcome::Line(line) => (line.started_ps, line.ready_ps, line.bus_ps),
        };
        let started_ps = started_ps.max(arrived_ps);
        let ready_ps = ready_ps.max(started_ps);
        let bus_ps = bus_ps.max(ready_ps);
        NvmPageDone {
            token: access.token,
            at_ps,
            controller_ps: self.controller_ps,
            queue_ps: started_ps - arrived_ps,
            medium_ps: ready_ps - started_ps,
            bus_wait_ps: bus_ps - ready_ps,
            bus_ps: at_ps - bus_ps,
        }
    }
}

impl Pages for Nvm {
    type Done = NvmPageDone;

    fn depths(&self, tell: &mut Tell<'_>) {
        tell("nvm.lines", self.array.in_flight());
        tell("nvm.writes", self.array.waiting_writes() as usize);
    }

    /// What its controller has taken is within reach of the energy of the power supply (ADR).
    fn keeps_answered(&self) -> bool {
        true
    }

    fn fork(&mut self) -> Self {
        Nvm {
            held: self.held.clone(),
            arriving: self.arriving.clone(),
            array: self.array.fork(),
            buffer: self.buffer.clone(),
            lines: Vec::new(),
            answers: Vec::new(),
            ..*self
        }
    }

    #[inline]
    fn pages(&self) -> u64 {
        self.pages
    }

    #[inline]
    fn submit(&mut self, now_ps: u64, access: PageAccess) {
        let (page, pages) = (access.page, self.pages);
        assert!(page < pages, "access {page} of a module of {pages}");
        self.host_writes += u64::from(access.write);
        let arrived_ps = now_ps + self.controller_ps;
        let index = self.held.insert(Held { access, arrived_ps });
        self.arriving.push(arrived_ps, index);
    }

    #[inline]
    fn next_event_ps(&self) -> Option<u64> {
        self.arriving.next_ps(self.array.next_event_ps())
    }

    fn advance(&mut self, now_ps: u64, out: &mut Vec<NvmPageDone>) {
        while let Some(at_ps) = self.next_event_ps()
            && at_ps <= now_ps
        {
            match self.arriving.take(at_ps) {
                Some(index) => self.arrive(at_ps, index, out),
                None => self.take_from_array(at_ps, out),
            }
        }
    }

    /// Lines go to the cells one by one: none waits in a queue for another write of it. What is on its way into the
    /// cells comes there first.
    fn warm(&mut self, now_ps: u64, access: PageAccess) {
        let mut out = Vec::new();
        self.advance(u64::MAX, &mut out);
        self.host_writes += u64::from(access.write);
        self.array.set_at_once(true);
        let index = self.held.insert(Held { access, arrived_ps: now_ps });
        self.arrive(now_ps, index, &mut out);
        while let Some(line) = self.array.take_done_at_once() {
            self.line_done(line, &mut out);
        }
        self.array.set_at_once(false);
    }

    fn take_over_warmed(&mut self, warmed: &mut Self) {
        *self = warmed.fork();
    }

    fn activity(&self, now_ps: u64) -> Activity {
        let nvm = Some(Box::new(self.report(now_ps)));
        Activity { nvm, energy: self.energy(now_ps), ..Activity::default() }
    }
}

#[cfg(test)]
pub(crate) mod tests;
