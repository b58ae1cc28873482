//! A device of pages behind a link: what the host sees of it.

mod pages;
mod port;
mod queues;

pub use pages::{DonePage, PageAccess, PageControl, PageDone, Pages};

use crate::activity::Activity;
use crate::link::nvme::{COMMAND_BYTES, NvmeCounts};
use crate::link::{AnyLink, Direction, Flow, Leg, Link, LinkDescription, LinkEnergySpec};
use crate::power::{Content, Outage, UnderWay, Weakness, Weaknesses};
use crate::request::{
    Ahead, Completion, Control, Device, Fetching, Full, Manner, MediumWait, Refreshes, Request,
    Tell, Tie,
};
use port::{NEVER, Parcel, Port, What};
use queues::Queues;
use std::hint::select_unpredictable;
use tierscope_kernel::{EventQueue, Slab, Stage, Timeline};

/// A request that the device holds: done with the last of its pages.
#[derive(Clone, Copy, Debug)]
struct Held {
    request: Request,
    /// A part of a read that is wanted first.
    ahead: Option<Ahead>,
    manner: Manner,
    /// What is asked for instead of a read or a write.
    control: Option<PageControl>,
    submitted_ps: u64,
    /// Its submission queue, where there are queues, and what it waited for there.
    queue: u32,
    waits: Waits,
    /// The device knows where in the host's memory its data lie.
    listed: bool,
    pages_left: u32,
    /// The part that was done last: its stages are those of the request.
    last: u32,
}

/// When what became of a request in its queues.
#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    /// The device was told of it.
    told_ps: u64,
    /// The device began to fetch it.
    fetched_ps: u64,
    /// Its completion was entered.
    entered_ps: u64,
    /// The interrupt was raised.
    raised_ps: u64,
    /// Its number among those of the device, where it tells of others, too.
    interrupt: u32,
}

impl Waits {
    /// The stages of a request up to when the device began to fetch it.
    fn stages(&self, submitted_ps: u64) -> Timeline {
        let mut stages = Timeline::new();
        stages.push(Stage::Link, self.told_ps - submitted_ps);
        stages.push(Stage::HostQueue, self.fetched_ps - self.told_ps);
        stages
    }
}

/// A fetch that has come to memory, which the requester reads.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// Under which it was told.
    id: u32,
    held: u32,
    /// What was fetched, and which of its messages has come.
    what: What,
    leg: u32,
}

/// A page of a request.
#[derive(Clone, Debug)]
struct Part<D> {
    held: u32,
    page: u64,
    /// Bytes of it that the request wants.
    bytes: u32,
    /// When it was handed to the device.
    arrived_ps: u64,
    /// Of these bytes, those that are wanted first; 0 for none.
    ahead_bytes: u32,
    /// What the device said when these had been read.
    ahead: Option<Box<D>>,
}

/// A device of pages behind a link. A request is carried as the link's flow says: its command comes down; what
/// is read comes up page by page, and what is written goes down; and what the protocol has at its
/// end. A write is done when the device has it. Requests of several pages are split, and done with
/// their last page. Part of a page puts only its own bytes on the link.
#[derive(Clone, Debug)]
pub struct Linked<P: Pages> {
    device: P,
    link: AnyLink,
    /// What the link takes, where that is said.
    link_energy: Option<LinkEnergySpec>,
    /// What is sent for a read, and for a write.
    flows: [Flow; 2],
    ports: [Port; 2],
    /// Queues out of which the device fetches commands, where these are described.
    queues: Option<Box<Queues>>,
    /// What NVM Express has sent, where that is the protocol.
    sent: Option<NvmeCounts>,
    /// What somebody takes time to send.
    pending: EventQueue<Parcel>,
    /// Fetches that wait for their requester to read memory.
    reading: Vec<Reading>,
    held: Slab<Held>,
    parts: Slab<Part<P::Done>>,
    /// What the device said of each part when it had been read or written, by the part's number; of others, anything.
    reports: Vec<P::Done>,
    page_bytes: u64,
    /// By how many bits an address is shifted to the number of its page, where pages are a power of two.
    page_shift: Option<u32>,
    queue_depth: u64,
    /// Requests that it holds at most, where these are bounded by themselves.
    commands: usize,
    held_pages: u64,
    /// What happens next, and when; and what does beside the device.
    upcoming: (u64, Event),
    beside: (u64, Event),
    /// Room for what the device reports, kept to spare the allocation.
    done: Vec<P::Done>,
}

impl<P: Pages> Linked<P> {
    /// A device of pages of `page_bytes` with nothing to do, behind an empty link; it is asked for
    /// `queue_depth` pages at once. The description of the link has been checked.
    pub fn behind(
        link: &dyn LinkDescription,
        device: P,
        page_bytes: u64,
        queue_depth: u32,
    ) -> Self {
        let (queues, link_energy) = (link.queues(), link.energy().cloned());
        let sent = link.is_nvme().then(NvmeCounts::default);
        let link = link.build();
        Linked {
            device,
            sent,
            link_energy,
            flows: [link.flow(false), link.flow(true)],
            link,
            ports: [Port::new(Direction::Down), Port::new(Direction::Up)],
            queues: queues.map(|queues| Box::new(Queues::new(queues))),
            pending: EventQueue::new(),
            reading: Vec::new(),
            held: Slab::new(),
            parts: Slab::new(),
            reports: Vec::new(),
            page_bytes,
            page_shift: page_bytes.is_power_of_two().then(|| page_bytes.ilog2()),
            queue_depth: u64::from(queue_depth),
            commands: usize::MAX,
            held_pages: 0,
            upcoming: (NEVER, Event::Device),
            beside: (NEVER, Event::Send),
            done: Vec::new(),
        }
    }

    /// The same, with so many requests at once at most, of however many pages.
    #[must_use]
    pub fn with_commands(self, commands: u32) -> Self {
        Linked { commands: commands as usize, ..self }
    }

    /// The device without its link.
    pub fn device(&self) -> &P {
        &self.device
    }

    /// The page of an address.
    #[inline]
    fn page_of(&self, address: u64) -> u64 {
        match self.page_shift {
            Some(shift) => address >> shift,
            None => address / self.page_bytes,
        }
    }

    /// Pages of a request: the first, and how many.
    #[inline]
    fn pages(&self, request: &Request) -> (u64, u64) {
        let last_byte = request.address + u64::from(request.bytes.max(1)) - 1;
        let first = self.page_of(request.address);
        (first, self.page_of(last_byte) - first + 1)
    }

    /// Bytes of `page` that a request wants.
    #[inline]
    fn bytes_of(&self, request: &Request, page: u64) -> u32 {
        let start = request.address.max(page * self.page_bytes);
        let end = (request.address + u64::from(request.bytes)).min((page + 1) * self.page_bytes);
        end.saturating_sub(start) as u32
    }

    fn split(&mut self, index: u32, page: u64) -> u32 {
        let Held { request, ahead, .. } = self.held[index];
        let bytes = self.bytes_of(&request, page);
        let ahead_bytes = ahead
            .filter(|ahead| self.page_of(request.address + u64::from(ahead.offset)) == page)
            .map_or(0, |ahead| ahead.bytes.min(bytes));
        self.parts.insert(Part {
            held: index,
            page,
            bytes,
            arrived_ps: 0,
            ahead_bytes,
            ahead: None,
        })
    }

    /// The messages for `what`, whose data have so many bytes, of a request that is in the background
    /// or not.
    #[inline]
    fn legs(&self, what: What) -> (&[Leg], u64, bool) {
        let of = |request: &Request| (&self.flows[usize::from(request.write)], request.background);
        match what {
            What::Doorbell(_)
            | What::Fetch(_)
            | What::List(..)
            | What::Entry(_)
            | What::Interrupt(_) => self.legs_of_queues(what),
            What::Command(index) | What::Done(index) => {
                let request = &self.held[index].request;
                let (flow, background) = of(request);
                let command = matches!(what, What::Command(_));
                let legs = if command { &flow.command } else { &flow.done };
                (legs, u64::from(request.bytes), background)
            }
            What::Data(part) | What::Ahead(part) => {
                let part = &self.parts[part];
                let (flow, background) = of(&self.held[part.held].request);
                let ahead = matches!(what, What::Ahead(_));
                let sent_bytes = part.ahead.as_ref().map_or(0, |_| part.ahead_bytes);
                let bytes = if ahead { sent_bytes } else { part.bytes - sent_bytes };
                (&flow.data, u64::from(bytes), background)
            }
            What::After { write } => (&self.flows[usize::from(write)].after, 0, false),
        }
    }

    /// The same, of what is sent only where there are queues.
    fn legs_of_queues(&self, what: What) -> (&[Leg], u64, bool) {
        let Some(queues) = &self.queues else { return (&[], 0, false) };
        let flow = &queues.flow;
        let background = |index: u32| self.held[index].request.background;
        match what {
            What::Doorbell(index) => (&flow.doorbell, 0, background(index)),
            What::Fetch(batch) => {
                let batch = queues.batch(batch);
                let all = batch.iter().all(|index| background(*index));
                (&flow.fetch, COMMAND_BYTES * batch.len() as u64, all)
            }
            What::List(index, entries) => {
                (&flow.fetch, flow.spec.list_page(entries.into()).0, background(index))
            }
            What::Entry(index) => (&flow.entry, 0, background(index)),
            _ => (&flow.interrupt, 0, false),
        }
    }

    /// Sends message `leg` for `what` at `now_ps`, or goes on if that was the last.
    fn go(&mut self, now_ps: u64, what: What, leg: u32, out: &mut Vec<Completion>) {
        if let (0, Some(sent)) = (leg, &mut self.sent) {
            what.count(sent);
        }
        let (legs, bytes, background) = self.legs(what);
        let Some(&next) = legs.get(leg as usize) else { return self.arrive(now_ps, what, out) };
        let Leg { direction, after_ps, .. } = next;
        let is_last = leg as usize + 1 == legs.len();
        let message = next.message(bytes);
        // Somebody waits for what is wanted first.
        let posted = next.posted && !matches!(what, What::Ahead(_));
        let parcel = Parcel { what, leg, is_last, message, direction, posted, background };
        if after_ps > 0 {
            self.pending.push(now_ps + after_ps, 0, parcel);
        } else {
            self.send(now_ps, parcel);
        }
    }

    #[inline]
    fn send(&mut self, now_ps: u64, parcel: Parcel) {
        self.ports[parcel.direction as usize].send(&mut self.link, now_ps, parcel);
    }

    /// A fetch has come to memory. Whether the requester reads it, and was told.
    fn tell_of_fetch(
        &mut self,
        at_ps: u64,
        (what, leg): (What, u32),
        out: &mut Vec<Completion>,
    ) -> bool {
        let (one, batch) = match (what, &self.queues) {
            (What::Command(index) | What::List(index, _), _) => ([index], &[][..]),
            (What::Fetch(batch), Some(queues)) => ([0], queues.batch(batch)),
            _ => return false,
        };
        let is_list = matches!(what, What::List(..));
        let before = self.reading.len();
        for &held in if batch.is_empty() { &one[..] } else { batch } {
            let Held { request, manner, submitted_ps, waits, .. } = self.held[held];
            let Some(ids) = manner.fetches else { continue };
            let mut stages = Timeline::new();
            if !is_list || request.write {
                stages = waits.stages(submitted_ps);
                stages.push(Stage::Link, at_ps - waits.fetched_ps);
            }
            let id = ids[usize::from(is_list)];
            self.reading.push(Reading { id, held, what, leg });
            out.push(Completion::new(id, at_ps, stages));
        }
        self.reading.len() > before
    }

    /// All messages for `what` have come.
    fn arrive(&mut self, at_ps: u64, what: What, out: &mut Vec<Completion>) {
        match what {
            What::Command(index) => self.begin(at_ps, index, out),
            What::Doorbell(index) => {
                let held = &mut self.held[index];
                held.waits.told_ps = at_ps;
                if let Some(queues) = &mut self.queues {
                    queues.tell(held.queue, index);
                }
                self.fetch(at_ps, out);
            }
            What::Fetch(batch) => {
                let batch = self.queues.as_mut().map(|queues| queues.fetched(batch));
                for index in batch.into_iter().flatten() {
                    self.known(at_ps, index, out);
                }
                self.fetch(at_ps, out);
            }
            What::List(index, entries) => {
                let left = self
                    .queues
                    .as_ref()
                    .map_or(0, |queues| queues.flow.spec.list_page(entries.into()).1 as u32);
                self.list(at_ps, index, left, out);
            }
            What::Entry(index) => {
                let held = &mut self.held[index];
                held.waits.entered_ps = at_ps;
                let queue = held.queue;
                let batch = self.queues.as_mut().and_then(|it| it.complete(at_ps, queue, index));
                self.interrupt(at_ps, batch, out);
                self.fetch(at_ps, out);
            }
            What::Interrupt(batch) => {
                let batch = self.queues.as_mut().map(|queues| queues.told(batch));
                for index in batch.into_iter().flatten() {
                    self.answer(at_ps, index, out);
                }
                self.go(at_ps, What::After { write: true }, 0, out);
            }
            What::Data(part) if self.held[self.parts[part].held].request.write => {
                if self.device.fetches() {
                    self.device.fetched(at_ps, part);
                } else {
                    self.submit_page(at_ps, part);
                }
            }
            What::Data(part) => {
                self.device.sent(at_ps, part);
                self.finish(at_ps, part, out);
            }
            What::Ahead(part) => self.answer_ahead(at_ps, part, out),
            What::Done(index) => {
                let write = self.held[index].request.write;
                self.answer(at_ps, index, out);
                self.go(at_ps, What::After { write }, 0, out);
            }
            What::After { .. } => {}
        }
    }

    /// The device knows what a request wants.
    fn begin(&mut self, at_ps: u64, index: u32, out: &mut Vec<Completion>) {
        if let Some(control) = self.held[index].control {
            return self.submit_control_page(at_ps, index, control);
        }
        let request = self.held[index].request;
        let (first, count) = self.pages(&request);
        for page in first..first + count {
            let part = self.split(index, page);
            if request.write && !self.device.fetches() {
                self.go(at_ps, What::Data(part), 0, out);
            } else {
                self.submit_page(at_ps, part);
            }
        }
    }

    /// The device fetches commands out of queues, as long as it has room.
    fn fetch(&mut self, now_ps: u64, out: &mut Vec<Completion>) {
        while let Some(batch) = self.next_batch(now_ps) {
            self.go(now_ps, What::Fetch(batch), 0, out);
        }
    }

    /// The commands that the device fetches next.
    fn next_batch(&mut self, now_ps: u64) -> Option<u32> {
        let (queue, most) = self.queues.as_mut()?.turn()?;
        let queues = self.queues.as_ref()?;
        let (mut count, mut pages) = (0, 0);
        for &index in queues.waiting(queue).take(most as usize) {
            let wanted = u64::from(self.held[index].pages_left);
            let held = (self.held_pages + pages, queues.working + count as usize);
            if !self.has_room(wanted, held) {
                break;
            }
            self.held[index].waits.fetched_ps = now_ps;
            (count, pages) = (count + 1, pages + wanted);
        }
        self.held_pages += pages;
        self.queues.as_mut().filter(|_| count > 0).map(|queues| queues.fetch(queue, count))
    }

    /// Entries of the list of the host's pages that a request has.
    fn listed_pages(&self, index: u32) -> u32 {
        let bytes = u64::from(self.held[index].request.bytes);
        self.queues.as_ref().map_or(0, |queues| queues.flow.spec.listed_pages(bytes)) as u32
    }

    /// The device has fetched a command. It reads its medium while it fetches the list of the host's pages; what is
    /// written it can fetch once it has that.
    fn known(&mut self, at_ps: u64, index: u32, out: &mut Vec<Completion>) {
        let entries = self.listed_pages(index);
        self.held[index].listed = entries == 0;
        if entries > 0 && !self.held[index].request.write {
            self.begin(at_ps, index, out);
        }
        self.list(at_ps, index, entries, out);
    }

    /// The device goes on with the list of the host's pages, of which so many entries are left, or with the
    /// request.
    fn list(&mut self, at_ps: u64, index: u32, entries: u32, out: &mut Vec<Completion>) {
        if entries > 0 {
            return self.go(at_ps, What::List(index, entries), 0, out);
        }
        let had_begun = !self.held[index].listed && !self.held[index].request.write;
        self.held[index].listed = true;
        if !had_begun {
            return self.begin(at_ps, index, out);
        }
        let read = self.queues.as_mut().map(|queues| queues.read_by_now(index));
        read.into_iter().flatten().for_each(|what| self.go(at_ps, what, 0, out));
    }

    /// What has been read goes up, once the device knows where to.
    fn send_up(&mut self, at_ps: u64, index: u32, what: What, out: &mut Vec<Completion>) {
        match &mut self.queues {
            Some(queues) if !self.held[index].listed => queues.unlisted.push((index, what)),
            _ => self.go(at_ps, what, 0, out),
        }
    }

    /// The device interrupts for these completions, if there are any.
    fn interrupt(&mut self, at_ps: u64, batch: Option<u32>, out: &mut Vec<Completion>) {
        let (Some(batch), Some(queues)) = (batch, &self.queues) else { return };
        let batch_of = queues.batch(batch);
        let mut held_back_ps = 0;
        let interrupt = match &self.sent {
            Some(sent) if batch_of.len() > 1 => (sent.interrupts as u32).wrapping_add(1),
            _ => 0,
        };
        for index in batch_of {
            let waits = &mut self.held[*index].waits;
            (waits.raised_ps, waits.interrupt) = (at_ps, interrupt);
            held_back_ps += at_ps - waits.entered_ps;
        }
        if let Some(sent) = &mut self.sent {
            sent.held_back_ps += held_back_ps;
        }
        self.go(at_ps, What::Interrupt(batch), 0, out);
    }

    /// A flush or a trim has come; it has one part, without bytes.
    fn submit_control_page(&mut self, at_ps: u64, index: u32, control: PageControl) {
        let part = self.split(index, 0);
        self.parts[part].arrived_ps = at_ps;
        self.device.submit_control(at_ps, part, control);
    }

    /// A flush or a trim, as the device without its link is told of it.
    fn page_control(&self, control: Control) -> PageControl {
        match control {
            Control::Flush => PageControl::Flush,
            Control::Trim { address, bytes } => self.within(address, bytes),
        }
    }

    /// The pages that lie within some bytes.
    fn within(&self, address: u64, bytes: u64) -> PageControl {
        let first = address.div_ceil(self.page_bytes);
        let end = address.saturating_add(bytes).min(self.device.pages() * self.page_bytes);
        PageControl::Trim { first, count: (end / self.page_bytes).saturating_sub(first) }
    }

    #[inline]
    fn submit_page(&mut self, at_ps: u64, token: u32) {
        let part = &mut self.parts[token];
        part.arrived_ps = at_ps;
        let Part { page, bytes, ahead_bytes, held, .. } = *part;
        let Held { request: Request { write, background, .. }, manner, .. } = self.held[held];
        let whole = u64::from(bytes) == self.page_bytes;
        let first = self.page_of(self.held[held].request.address);
        let access = PageAccess {
            token,
            page,
            write,
            background,
            whole,
            bytes,
            ahead_bytes,
            force_unit_access: manner.force_unit_access,
            content: manner.content + (page - first),
        };
        self.device.submit(at_ps, access);
    }

    /// Pages have been written, or read and are to be sent up; whether there were any.
    #[inline]
    fn take_from_device(&mut self, at_ps: u64, out: &mut Vec<Completion>) -> bool {
        let mut done = std::mem::take(&mut self.done);
        self.device.advance(at_ps, &mut done);
        let any = !done.is_empty();
        if any {
            self.take_pages(&mut done, out);
        }
        self.done = done;
        any
    }

    #[inline(never)]
    fn take_pages(&mut self, done: &mut Vec<P::Done>, out: &mut Vec<Completion>) {
        for page in done.drain(..) {
            let (token, at_ps) = (page.token(), page.at_ps());
            let part = &mut self.parts[token];
            let index = part.held;
            if page.fetches() {
                self.go(at_ps, What::Data(token), 0, out);
                continue;
            }
            if page.is_ahead() {
                part.ahead = Some(Box::new(page));
                self.send_up(at_ps, index, What::Ahead(token), out);
                continue;
            }
            self.report(token, page);
            if self.held[index].request.write {
                self.finish(at_ps, token, out);
            } else {
                self.send_up(at_ps, index, What::Data(token), out);
            }
        }
    }

    /// The device says of a part that it has been read or written.
    #[inline]
    fn report(&mut self, token: u32, done: P::Done) {
        match self.reports.get_mut(token as usize) {
            Some(report) => *report = done,
            None => self.reports.resize(token as usize + 1, done),
        }
    }

    /// The data that are wanted first have come up.
    fn answer_ahead(&mut self, at_ps: u64, token: u32, out: &mut Vec<Completion>) {
        let part = &self.parts[token];
        let held = &self.held[part.held];
        if let (Some(ahead), Some(done)) = (held.ahead, &part.ahead) {
            out.push(completion(ahead.id, held, at_ps, part.arrived_ps, done.as_ref()));
        }
    }

    /// A page is done; if it was the last of its request, the host is told.
    fn finish(&mut self, at_ps: u64, token: u32, out: &mut Vec<Completion>) {
        let Part { held: index, page, arrived_ps, .. } = self.parts[token];
        self.held_pages -= 1;
        let held = &mut self.held[index];
        held.pages_left -= 1;
        let ended = held.pages_left == 0;
        if ended {
            held.last = token;
        }
        let Held { request, manner, .. } = self.held[index];
        if let Some(first) = manner.pages.filter(|_| !request.write) {
            let id = first + (page - self.page_of(request.address)) as u32;
            let done = &self.reports[token as usize];
            out.push(completion(id, &self.held[index], at_ps, arrived_ps, done));
        }
        if ended {
            let what = if self.queues.is_some() { What::Entry(index) } else { What::Done(index) };
            self.go(at_ps, what, 0, out);
        } else {
            self.parts.remove(token);
        }
        self.fetch(at_ps, out);
    }

    /// The host knows that a request is done.
    fn answer(&mut self, at_ps: u64, index: u32, out: &mut Vec<Completion>) {
        let held = self.held.remove(index);
        let part = self.parts.remove(held.last);
        let report = &self.reports[held.last as usize];
        // Up to its completion entry; then the device holds back the interrupt.
        let entered_ps = self.queues.as_ref().map_or(at_ps, |_| held.waits.entered_ps);
        let mut done = completion(held.request.id, &held, entered_ps, part.arrived_ps, report);
        if let Some(queues) = &mut self.queues {
            queues.leave(held.queue);
            done.stages.push(Stage::Device, held.waits.raised_ps - entered_ps);
            done.stages.push(Stage::Link, at_ps - held.waits.raised_ps);
            (done.at_ps, done.interrupt) = (at_ps, held.waits.interrupt);
        }
        out.push(done);
    }

    fn take(
        &mut self,
        now_ps: u64,
        request: Request,
        ahead: Option<Ahead>,
        manner: Manner,
    ) -> Result<(), Full> {
        let (first, count) = self.pages(&request);
        let (last, pages) = (first + count - 1, self.device.pages());
        assert!(last < pages, "page {last} of a device of {pages}");
        let queue = self.admit(request.write, request.background, count).ok_or(Full)?;
        self.hold(Held {
            request,
            ahead,
            manner,
            control: None,
            submitted_ps: now_ps,
            queue,
            waits: Waits { told_ps: now_ps, fetched_ps: now_ps, ..Waits::default() },
            listed: true,
            pages_left: count as u32,
            last: 0,
        });
        Ok(())
    }

    /// Whether the device, which has so many pages and commands, takes a command of so many pages.
    #[inline]
    fn has_room(&self, pages: u64, held: (u64, usize)) -> bool {
        let (held_pages, commands) = held;
        let pages_fit = held_pages == 0 || held_pages + pages <= self.queue_depth;
        pages_fit && commands < self.commands
    }

    /// The queue of a request of so many pages, if it has room there; where there are no queues, the device itself
    /// must have.
    #[inline]
    fn admit(&mut self, write: bool, background: bool, pages: u64) -> Option<u32> {
        match &mut self.queues {
            Some(queues) => queues.submit(write, background),
            None => self.has_room(pages, (self.held_pages, self.held.len())).then_some(0),
        }
    }

    /// The command of a request is on its way, or in its queue.
    #[inline]
    fn hold(&mut self, held: Held) {
        let now_ps = held.submitted_ps;
        let queued = self.queues.is_some();
        self.held_pages += if queued { 0 } else { u64::from(held.pages_left) };
        let index = self.held.insert(held);
        let what = if queued { What::Doorbell(index) } else { What::Command(index) };
        let mut none = Vec::new();
        self.go(now_ps, what, 0, &mut none);
        debug_assert!(none.is_empty(), "nothing is done before the store has been asked");
        self.renew();
    }

    /// What happens next may be something else.
    #[inline]
    fn renew(&mut self) {
        let [down, up] = &self.ports;
        let mut first = (down.arrival_ps, Event::Arrive(Direction::Down));
        // Without a branch for each: any of them may be the first.
        for (at_ps, event) in [
            (up.arrival_ps, Event::Arrive(Direction::Up)),
            (self.pending.first_ps(), Event::Send),
            (self.timer_ps(), Event::Interrupt),
            (down.free_ps, Event::SendNext(Direction::Down)),
            (up.free_ps, Event::SendNext(Direction::Up)),
        ] {
            first.1 = select_unpredictable(at_ps < first.0, event, first.1);
            first.0 = first.0.min(at_ps);
        }
        self.beside = first;
        self.renew_device();
    }

    /// The same where the device alone has changed. What has come down is in it before it goes on at that time; all
    /// else comes behind.
    #[inline]
    fn renew_device(&mut self) {
        let device_ps = self.device.next_event_ps().unwrap_or(NEVER);
        let (at_ps, event) = self.beside;
        let is_down = matches!(event, Event::Arrive(Direction::Down));
        let is_device = device_ps < at_ps || device_ps == at_ps && !is_down;
        self.upcoming = if is_device { (device_ps, Event::Device) } else { (at_ps, event) };
    }

    /// When an interrupt comes that was held back.
    #[inline]
    fn timer_ps(&self) -> u64 {
        self.queues.as_ref().and_then(|queues| queues.timer_ps()).unwrap_or(NEVER)
    }

    fn happen(&mut self, at_ps: u64, event: Event, out: &mut Vec<Completion>) {
        match event {
            Event::Arrive(direction) => {
                let sent = self.ports[direction as usize].take_sent(&self.link);
                match sent {
                    Some((at_ps, Parcel { what, is_last: true, .. })) => {
                        self.arrive(at_ps, what, out)
                    }
                    Some((at_ps, Parcel { what, leg, .. })) => {
                        let fetches = direction == Direction::Up && self.sent.is_some();
                        if !(fetches && self.tell_of_fetch(at_ps, (what, leg), out)) {
                            self.go(at_ps, what, leg + 1, out);
                        }
                    }
                    None => {}
                }
            }
            Event::Device => {
                self.take_from_device(at_ps, out);
            }
            Event::Send => {
                if let Some((at_ps, parcel)) = self.pending.pop() {
                    self.send(at_ps, parcel);
                }
            }
            Event::Interrupt => {
                let batch = self.queues.as_mut().and_then(|queues| queues.expire());
                self.interrupt(at_ps, batch, out);
            }
            Event::SendNext(direction) => {
                self.ports[direction as usize].send_next(&mut self.link);
            }
        }
    }
}

/// What is told of a part of a request that has come at `at_ps`.
fn completion<D: PageDone>(
    id: u32,
    held: &Held,
    at_ps: u64,
    arrived_ps: u64,
    done: &D,
) -> Completion {
    let mut stages = held.waits.stages(held.submitted_ps);
    stages.push(Stage::Link, arrived_ps - held.waits.fetched_ps);
    done.write_stages(&mut stages);
    stages.push(Stage::Link, at_ps - done.at_ps());
    Completion::new(id, at_ps, stages)
}

/// Something that happens in the device.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A message comes.
    Arrive(Direction),
    /// The device without its link has something to do.
    Device,
    /// Somebody has taken the time to send something.
    Send,
    /// An interrupt comes that was held back for as long as may be.
    Interrupt,
    /// What waits for the link may be sent.
    SendNext(Direction),
}

impl<P: Pages> Device for Linked<P> {
    /// Takes a request for one or more bytes.
    ///
    /// # Panics
    /// If it reaches beyond the capacity: callers know what they own.
    fn submit(&mut self, now_ps: u64, request: Request) -> Result<(), Full> {
        self.take(now_ps, request, None, Manner::default())
    }

    /// As [`Device::submit`]; the part that is wanted first crosses the link ahead of the rest of its
    /// page, in packets of its own, and is had from the device as soon as that hands it up.
    fn submit_ahead(&mut self, now_ps: u64, request: Request, ahead: Ahead) -> Result<(), Full> {
        self.take(now_ps, request, Some(ahead).filter(|_| !request.write), Manner::default())
    }

    fn submit_as(&mut self, now_ps: u64, request: Request, manner: Manner) -> Result<(), Full> {
        self.take(now_ps, request, None, manner)
    }

    fn takes_control(&self) -> bool {
        self.device.takes_control()
    }

    /// Carried as a write without data.
    fn submit_control(&mut self, now_ps: u64, id: u32, control: Control) -> Result<(), Full> {
        let queue = self.admit(true, false, 1).ok_or(Full)?;
        let control = self.page_control(control);
        self.hold(Held {
            request: Request { id, address: 0, bytes: 0, write: true, background: false },
            ahead: None,
            manner: Manner::default(),
            control: Some(control),
            submitted_ps: now_ps,
            queue,
            waits: Waits { told_ps: now_ps, fetched_ps: now_ps, ..Waits::default() },
            listed: true,
            pages_left: 1,
            last: 0,
        });
        Ok(())
    }

    #[inline]
    fn next_event_ps(&self) -> Option<u64> {
        Some(self.upcoming.0).filter(|&at_ps| at_ps != NEVER)
    }

    fn advance(&mut self, now_ps: u64, out: &mut Vec<Completion>) {
        loop {
            let (at_ps, event) = self.upcoming;
            if at_ps > now_ps || at_ps == NEVER {
                return;
            }
            if let Event::Device = event {
                if self.take_from_device(at_ps, out) {
                    self.renew();
                } else {
                    self.renew_device();
                }
            } else {
                self.happen(at_ps, event, out);
                self.renew();
            }
        }
    }

    fn depths(&self, tell: &mut Tell<'_>) {
        tell("store.requests", self.held.len());
        self.device.depths(tell);
    }

    fn in_flight(&self) -> usize {
        self.held.len()
    }

    /// Of the device and its link, as far as their energies are known.
    fn activity(&self, now_ps: u64) -> Activity {
        let moved_bytes = self.ports.iter().map(|port| port.moved_bytes).sum();
        let of_link = self.link_energy.as_ref().map(|spec| spec.taken(moved_bytes, now_ps));
        Activity { nvme: self.sent, ..self.device.activity(now_ps).with_link(of_link) }
    }

    fn fetching(&self) -> Fetching {
        match (&self.sent, &self.queues) {
            (None, _) => Fetching::Nothing,
            (Some(_), None) => Fetching::Commands,
            (Some(_), Some(_)) => Fetching::CommandsAndLists,
        }
    }

    /// What was fetched together comes together.
    fn memory_read(&mut self, now_ps: u64, fetch: u32) {
        let Some(at) = self.reading.iter().position(|reading| reading.id == fetch) else { return };
        let Reading { held, what, leg, .. } = self.reading.swap_remove(at);
        let held = &mut self.held[held];
        // What a read wants may have been read while its list is fetched.
        if held.request.write || !matches!(what, What::List(..)) {
            held.submitted_ps = now_ps;
            (held.waits.told_ps, held.waits.fetched_ps) = (now_ps, now_ps);
        }
        if self.reading.iter().all(|other| other.what != what) {
            let mut none = Vec::new();
            self.go(now_ps, what, leg + 1, &mut none);
            debug_assert!(none.is_empty(), "nothing is done before a command has come");
        }
        self.renew();
    }

    fn units(&self) -> u64 {
        self.device.units()
    }

    fn keeps_answered(&self) -> bool {
        self.device.keeps_answered()
    }

    fn follow_contents(&mut self, weaknesses: Weaknesses) -> bool {
        self.device.follow_contents(weaknesses)
    }

    /// What is on the link, or waits for it, is gone, too.
    fn cut_power(&mut self, now_ps: u64) -> Outage {
        self.ports = self.ports.each_ref().map(Port::emptied);
        self.pending = EventQueue::new();
        self.reading.clear();
        (self.held, self.parts, self.held_pages) = (Slab::new(), Slab::new(), 0);
        self.queues = self.queues.as_ref().map(|queues| Box::new(queues.emptied()));
        let mut outage = self.device.cut_power(now_ps);
        self.renew();
        outage.touched.iter_mut().for_each(|page| *page *= self.page_bytes);
        outage
    }

    fn can_lack(&self, weakness: Weakness) -> bool {
        self.device.can_lack(weakness)
    }

    fn fork(&mut self) -> Self {
        Linked {
            device: self.device.fork(),
            link: self.link.clone(),
            link_energy: self.link_energy.clone(),
            flows: self.flows.clone(),
            ports: self.ports.clone(),
            queues: self.queues.clone(),
            sent: self.sent,
            pending: self.pending.clone(),
            reading: self.reading.clone(),
            held: self.held.clone(),
            parts: self.parts.clone(),
            reports: self.reports.clone(),
            page_bytes: self.page_bytes,
            page_shift: self.page_shift,
            queue_depth: self.queue_depth,
            commands: self.commands,
            held_pages: self.held_pages,
            upcoming: self.upcoming,
            beside: self.beside,
            done: Vec::new(),
        }
    }

    fn content(&self, address: u64) -> Content {
        self.device.content(address / self.page_bytes)
    }

    fn warm(&mut self, now_ps: u64, request: Request, manner: Manner) {
        let (first, count) = self.pages(&request);
        for page in first..first + count {
            let bytes = self.bytes_of(&request, page);
            self.device.warm(
                now_ps,
                PageAccess {
                    token: 0,
                    page,
                    write: request.write,
                    background: request.background,
                    whole: u64::from(bytes) == self.page_bytes,
                    bytes,
                    ahead_bytes: 0,
                    force_unit_access: manner.force_unit_access,
                    content: 0,
                },
            );
        }
        self.renew_device();
    }

    fn warm_control(&mut self, now_ps: u64, control: Control) {
        let control = self.page_control(control);
        self.device.warm_control(now_ps, control);
        self.renew_device();
    }

    fn take_over_warmed(&mut self, warmed: &mut Self) {
        self.device.take_over_warmed(&mut warmed.device);
        self.renew_device();
    }

    fn medium_wait(&self, address: u64) -> MediumWait {
        self.device.medium_wait(address / self.page_bytes)
    }

    fn under_way(&self) -> UnderWay {
        self.device.under_way()
    }

    fn tie(&self) -> Option<Tie> {
        self.link.tie()
    }

    /// What was to come, or to be sent, may be so later than was known.
    fn tell_refreshes(&mut self, refreshes: Refreshes) {
        self.link.tell_refreshes(refreshes);
    }

    fn bus_free_ps(&mut self, _now_ps: u64, _channel: usize) -> u64 {
        self.link.free_ps(Direction::Down)
    }

    fn keep_off_bus(&mut self, _now_ps: u64, until_ps: u64, _channel: usize) {
        self.link.keep_off(until_ps);
    }
}
