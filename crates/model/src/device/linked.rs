//! A device of pages behind a link: what the host sees of it.

use crate::activity::Activity;
use crate::link::{AnyLink, Direction, Flow, Leg, Link, LinkDescription, LinkEnergySpec, Message};
use crate::power::{Content, Outage, UnderWay, Weakness, Weaknesses};
use crate::request::{Ahead, Completion, Control, Device, Full, Manner, Request};
use std::collections::VecDeque;
use std::fmt;
use tierscope_kernel::{EventQueue, Slab, Stage, Timeline};

/// A time that never comes.
const NEVER: u64 = u64::MAX;

/// A page to read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageAccess {
    /// Chosen by the requester, returned when it is done.
    pub token: u32,
    /// Number of the page in the device.
    pub page: u64,
    /// Whether it is written.
    pub write: bool,
    /// Whether nobody waits for it.
    pub background: bool,
    /// Whether the whole page is wanted, or written.
    pub whole: bool,
    /// Bytes of it that are.
    pub bytes: u32,
    /// Bytes of a read that the device hands up before the rest and reports by themselves; 0 for
    /// none.
    pub ahead_bytes: u32,
    /// Whether a write is done only once it is in the medium, and a read comes from there.
    pub force_unit_access: bool,
    /// What a write carries, where contents are followed.
    pub content: Content,
}

/// What is asked of a device of pages that moves no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageControl {
    /// That all that was written, and reported, is kept whatever happens to its power.
    Flush,
    /// That pages may be forgotten.
    Trim {
        /// The first.
        first: u64,
        /// How many.
        count: u64,
    },
}

/// What a device says when a page has been read into its controller, or has been written.
pub trait PageDone: Copy + fmt::Debug {
    /// The access's.
    fn token(&self) -> u32;

    /// When it was done.
    fn at_ps(&self) -> u64;

    /// Whether only the bytes wanted ahead have come so far: the page is reported again. By default pages
    /// come whole.
    fn is_ahead(&self) -> bool {
        false
    }

    /// Adds the stages from submission to [`PageDone::at_ps`].
    fn write_stages(&self, stages: &mut Timeline);
}

/// What a device says of a page whose stages it has kept one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DonePage {
    /// The access's.
    pub token: u32,
    /// When it was done.
    pub at_ps: u64,
    /// From submission to then.
    pub stages: Timeline,
}

impl PageDone for DonePage {
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
        stages.append(&self.stages);
    }
}

/// A device of pages, without its link. What it holds is bounded by whoever submits.
pub trait Pages: Clone {
    /// What it says of a page.
    type Done: PageDone;

    /// How many pages it has.
    fn pages(&self) -> u64;

    /// Takes a page at `now_ps`, which never goes back between calls.
    ///
    /// # Panics
    /// If there is no such page: callers know what they own.
    fn submit(&mut self, now_ps: u64, access: PageAccess);

    /// Whether it knows what is asked for by [`Pages::submit_control`].
    fn takes_control(&self) -> bool {
        false
    }

    /// Takes a flush or a trim at `now_ps`, where it knows them; it is reported as a page is, under this
    /// token.
    fn submit_control(&mut self, _now_ps: u64, _token: u32, _control: PageControl) {}

    /// When something happens next, if anything will.
    fn next_event_ps(&self) -> Option<u64>;

    /// Does all that is due until `now_ps` and appends what was done by then, in order of time.
    fn advance(&mut self, now_ps: u64, out: &mut Vec<Self::Done>);

    /// What it did and took up to `now_ps`, which is not before the last call; by default nothing is
    /// known of it.
    fn activity(&self, _now_ps: u64) -> Activity {
        Activity::default()
    }

    /// As [`Device::keeps_answered`].
    fn keeps_answered(&self) -> bool {
        false
    }

    /// As [`Device::follow_contents`].
    fn follow_contents(&mut self, _weaknesses: Weaknesses) -> bool {
        false
    }

    /// As [`Device::cut_power`]; what is touched is told in pages.
    fn cut_power(&mut self, _now_ps: u64) -> Outage {
        Outage::of_undescribed_start()
    }

    /// As [`Device::can_lack`].
    fn can_lack(&self, _weakness: Weakness) -> bool {
        false
    }

    /// As [`Device::fork`].
    #[must_use]
    fn fork(&mut self) -> Self {
        self.clone()
    }

    /// What a page holds for good.
    fn content(&self, _page: u64) -> Content {
        0
    }

    /// As [`Device::under_way`].
    fn under_way(&self) -> UnderWay {
        UnderWay::default()
    }
}

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
    pages_left: u32,
    /// The part that was done last: its stages are those of the request.
    last: u32,
}

/// A page of a request.
#[derive(Clone, Copy, Debug)]
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
    ahead: Option<D>,
    /// What it said when the page had been read or written.
    done: Option<D>,
}

/// What a message is sent for: a place in the flow of a request.
#[derive(Clone, Copy, Debug)]
enum What {
    /// The command of the request with this number.
    Command(u32),
    /// The data of the part with this number, or what is left of them.
    Data(u32),
    /// Those of its data that are wanted first.
    Ahead(u32),
    /// The end of the request with this number.
    Done(u32),
    /// What follows a request that has been written, or read.
    After { write: bool },
}

/// A message on its way, or about to be sent.
#[derive(Clone, Copy, Debug)]
struct Parcel {
    what: What,
    /// Which of its messages.
    leg: u32,
    message: Message,
    direction: Direction,
    posted: bool,
    background: bool,
}

/// One direction of the link with what waits for it: first what ends a request, right behind its own
/// data, then demand. Nothing is booked ahead, so that what is ready first goes first.
#[derive(Clone, Debug)]
struct Port {
    direction: Direction,
    ends: VecDeque<Parcel>,
    demand: VecDeque<Parcel>,
    background: VecDeque<Parcel>,
    /// When the next one that waits can be sent.
    free_ps: u64,
    /// Bytes that the link has moved.
    moved_bytes: u64,
    /// Sent, in the order in which they have come, or have left where nobody waits for more.
    sent: VecDeque<(u64, Parcel)>,
}

impl Port {
    fn new(direction: Direction) -> Self {
        Port {
            direction,
            ends: VecDeque::new(),
            demand: VecDeque::new(),
            background: VecDeque::new(),
            free_ps: NEVER,
            moved_bytes: 0,
            sent: VecDeque::new(),
        }
    }

    /// Sends a parcel at `now_ps`, or lets it wait for the link.
    #[inline]
    fn send(&mut self, link: &mut AnyLink, now_ps: u64, parcel: Parcel) {
        let free_ps = link.free_ps(self.direction);
        if free_ps <= now_ps && self.free_ps == NEVER {
            self.put_on(link, now_ps, parcel);
            return;
        }
        let queue = match parcel.what {
            What::Done(_) | What::After { .. } => &mut self.ends,
            _ if parcel.background => &mut self.background,
            _ => &mut self.demand,
        };
        queue.push_back(parcel);
        self.free_ps = free_ps.max(now_ps);
    }

    #[inline]
    fn put_on(&mut self, link: &mut AnyLink, now_ps: u64, parcel: Parcel) {
        let (_, come_ps) = link.transfer(now_ps, parcel.message, self.direction);
        self.moved_bytes += link.moved_bytes(parcel.message);
        let at_ps = if parcel.posted { link.free_ps(self.direction) } else { come_ps };
        let later = self.sent.iter().rev().take_while(|(sent_ps, _)| *sent_ps > at_ps).count();
        self.sent.insert(self.sent.len() - later, (at_ps, parcel));
    }

    /// The link has become free, unless the other direction of one that is not duplex was faster.
    fn send_next(&mut self, link: &mut AnyLink) {
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

    /// When the next of what has been sent has come, or left.
    #[inline]
    fn arrival_ps(&self) -> u64 {
        self.sent.front().map_or(NEVER, |&(at_ps, _)| at_ps)
    }
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
    /// What somebody takes time to send.
    pending: EventQueue<Parcel>,
    held: Slab<Held>,
    parts: Slab<Part<P::Done>>,
    page_bytes: u64,
    queue_depth: u64,
    /// Requests that it holds at most, where these are bounded by themselves.
    commands: usize,
    held_pages: u64,
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
        let (link, link_energy) = (link.build(), link.energy().cloned());
        Linked {
            device,
            link_energy,
            flows: [link.flow(false), link.flow(true)],
            link,
            ports: [Port::new(Direction::Down), Port::new(Direction::Up)],
            pending: EventQueue::new(),
            held: Slab::new(),
            parts: Slab::new(),
            page_bytes,
            queue_depth: u64::from(queue_depth),
            commands: usize::MAX,
            held_pages: 0,
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

    /// Pages of a request: the first, and how many.
    #[inline]
    fn pages(&self, request: &Request) -> (u64, u64) {
        let last_byte = request.address + u64::from(request.bytes.max(1)) - 1;
        let first = request.address / self.page_bytes;
        (first, last_byte / self.page_bytes - first + 1)
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
            .filter(|ahead| (request.address + u64::from(ahead.offset)) / self.page_bytes == page)
            .map_or(0, |ahead| ahead.bytes.min(bytes));
        self.parts.insert(Part {
            held: index,
            page,
            bytes,
            arrived_ps: 0,
            ahead_bytes,
            ahead: None,
            done: None,
        })
    }

    /// The messages for `what`, whose data have so many bytes, of a request that is in the background
    /// or not.
    #[inline]
    fn legs(&self, what: What) -> (&[Leg], u64, bool) {
        let of = |request: &Request| (&self.flows[usize::from(request.write)], request.background);
        match what {
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
                let sent_bytes = part.ahead.map_or(0, |_| part.ahead_bytes);
                let bytes = if ahead { sent_bytes } else { part.bytes - sent_bytes };
                (&flow.data, u64::from(bytes), background)
            }
            What::After { write } => (&self.flows[usize::from(write)].after, 0, false),
        }
    }

    /// Sends message `leg` for `what` at `now_ps`, or goes on if that was the last.
    fn go(&mut self, now_ps: u64, what: What, leg: u32, out: &mut Vec<Completion>) {
        let (legs, bytes, background) = self.legs(what);
        let Some(&next) = legs.get(leg as usize) else { return self.arrive(now_ps, what, out) };
        let Leg { direction, after_ps, .. } = next;
        let message = next.message(bytes);
        // Somebody waits for what is wanted first.
        let posted = next.posted && !matches!(what, What::Ahead(_));
        let parcel = Parcel { what, leg, message, direction, posted, background };
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

    /// All messages for `what` have come.
    fn arrive(&mut self, at_ps: u64, what: What, out: &mut Vec<Completion>) {
        match what {
            What::Command(index) => {
                if let Some(control) = self.held[index].control {
                    return self.submit_control_page(at_ps, index, control);
                }
                let request = self.held[index].request;
                let (first, count) = self.pages(&request);
                for page in first..first + count {
                    let part = self.split(index, page);
                    if request.write {
                        self.go(at_ps, What::Data(part), 0, out);
                    } else {
                        self.submit_page(at_ps, part);
                    }
                }
            }
            What::Data(part) if self.held[self.parts[part].held].request.write => {
                self.submit_page(at_ps, part);
            }
            What::Data(part) => self.finish(at_ps, part, out),
            What::Ahead(part) => self.answer_ahead(at_ps, part, out),
            What::Done(index) => self.answer(at_ps, index, out),
            What::After { .. } => {}
        }
    }

    /// A flush or a trim has come; it has one part, without bytes.
    fn submit_control_page(&mut self, at_ps: u64, index: u32, control: PageControl) {
        let part = self.split(index, 0);
        self.parts[part].arrived_ps = at_ps;
        self.device.submit_control(at_ps, part, control);
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
        let first = self.held[held].request.address / self.page_bytes;
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

    /// Pages have been written, or read and are to be sent up.
    fn take_from_device(&mut self, at_ps: u64, out: &mut Vec<Completion>) {
        let mut done = std::mem::take(&mut self.done);
        self.device.advance(at_ps, &mut done);
        for page in done.drain(..) {
            let (token, at_ps) = (page.token(), page.at_ps());
            let part = &mut self.parts[token];
            let write = self.held[part.held].request.write;
            if page.is_ahead() {
                part.ahead = Some(page);
                self.go(at_ps, What::Ahead(token), 0, out);
                continue;
            }
            part.done = Some(page);
            if write {
                self.finish(at_ps, token, out);
            } else {
                self.go(at_ps, What::Data(token), 0, out);
            }
        }
        self.done = done;
    }

    /// The data that are wanted first have come up.
    fn answer_ahead(&mut self, at_ps: u64, token: u32, out: &mut Vec<Completion>) {
        let part = &self.parts[token];
        if let Held { ahead: Some(ahead), submitted_ps, .. } = self.held[part.held] {
            out.push(completion(ahead.id, submitted_ps, at_ps, part.arrived_ps, part.ahead));
        }
    }

    /// A page is done; if it was the last of its request, the host is told.
    fn finish(&mut self, at_ps: u64, token: u32, out: &mut Vec<Completion>) {
        let Part { held: index, page, arrived_ps, done, .. } = self.parts[token];
        self.held_pages -= 1;
        let Held { request, manner, submitted_ps, .. } = self.held[index];
        if let Some(first) = manner.pages.filter(|_| !request.write) {
            let id = first + (page - request.address / self.page_bytes) as u32;
            out.push(completion(id, submitted_ps, at_ps, arrived_ps, done));
        }
        let held = &mut self.held[index];
        held.pages_left -= 1;
        if held.pages_left > 0 {
            self.parts.remove(token);
            return;
        }
        held.last = token;
        self.go(at_ps, What::Done(index), 0, out);
    }

    /// The host knows that a request is done.
    fn answer(&mut self, at_ps: u64, index: u32, out: &mut Vec<Completion>) {
        let Held { request, submitted_ps, last, .. } = self.held.remove(index);
        let part = self.parts.remove(last);
        out.push(completion(request.id, submitted_ps, at_ps, part.arrived_ps, part.done));
        self.go(at_ps, What::After { write: request.write }, 0, out);
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
        let pages_fit = self.held_pages == 0 || self.held_pages + count <= self.queue_depth;
        if !pages_fit || self.held.len() >= self.commands {
            return Err(Full);
        }
        self.hold(Held {
            request,
            ahead,
            manner,
            control: None,
            submitted_ps: now_ps,
            pages_left: count as u32,
            last: 0,
        });
        Ok(())
    }

    /// The command of a request is on its way.
    #[inline]
    fn hold(&mut self, held: Held) {
        let now_ps = held.submitted_ps;
        self.held_pages += u64::from(held.pages_left);
        let index = self.held.insert(held);
        let mut none = Vec::new();
        self.go(now_ps, What::Command(index), 0, &mut none);
        debug_assert!(none.is_empty(), "nothing is done before the store has been asked");
    }

    /// The earliest of all that can happen. What has come down is in the device before the device
    /// goes on at that time.
    #[inline]
    fn next(&self) -> (u64, Event) {
        let [down, up] = &self.ports;
        let mut first = (down.arrival_ps(), Event::Arrive(Direction::Down));
        let device_ps = self.device.next_event_ps().unwrap_or(NEVER);
        for (at_ps, event) in [
            (device_ps, Event::Device),
            (up.arrival_ps(), Event::Arrive(Direction::Up)),
            (self.pending.peek_ps().unwrap_or(NEVER), Event::Send),
            (down.free_ps, Event::SendNext(Direction::Down)),
            (up.free_ps, Event::SendNext(Direction::Up)),
        ] {
            if at_ps < first.0 {
                first = (at_ps, event);
            }
        }
        first
    }

    fn happen(&mut self, at_ps: u64, event: Event, out: &mut Vec<Completion>) {
        match event {
            Event::Arrive(direction) => {
                let sent = self.ports[direction as usize].sent.pop_front();
                if let Some((at_ps, Parcel { what, leg, .. })) = sent {
                    self.go(at_ps, what, leg + 1, out);
                }
            }
            Event::Device => self.take_from_device(at_ps, out),
            Event::Send => {
                if let Some((at_ps, parcel)) = self.pending.pop() {
                    self.send(at_ps, parcel);
                }
            }
            Event::SendNext(direction) => {
                self.ports[direction as usize].send_next(&mut self.link);
            }
        }
    }
}

/// What is told of a part that has come at `at_ps`.
fn completion<D: PageDone>(
    id: u32,
    submitted_ps: u64,
    at_ps: u64,
    arrived_ps: u64,
    done: Option<D>,
) -> Completion {
    let mut stages = Timeline::new();
    stages.push(Stage::Link, arrived_ps - submitted_ps);
    if let Some(done) = done {
        done.write_stages(&mut stages);
        stages.push(Stage::Link, at_ps - done.at_ps());
    }
    Completion { id, at_ps, stages }
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
        if self.held_pages >= self.queue_depth || self.held.len() >= self.commands {
            return Err(Full);
        }
        let control = match control {
            Control::Flush => PageControl::Flush,
            Control::Trim { address, bytes } => self.within(address, bytes),
        };
        self.hold(Held {
            request: Request { id, address: 0, bytes: 0, write: true, background: false },
            ahead: None,
            manner: Manner::default(),
            control: Some(control),
            submitted_ps: now_ps,
            pages_left: 1,
            last: 0,
        });
        Ok(())
    }

    #[inline]
    fn next_event_ps(&self) -> Option<u64> {
        Some(self.next().0).filter(|&at_ps| at_ps != NEVER)
    }

    fn advance(&mut self, now_ps: u64, out: &mut Vec<Completion>) {
        loop {
            let (at_ps, event) = self.next();
            if at_ps > now_ps || at_ps == NEVER {
                return;
            }
            self.happen(at_ps, event, out);
        }
    }

    fn in_flight(&self) -> usize {
        self.held.len()
    }

    /// Of the device and its link, as far as their energies are known.
    fn activity(&self, now_ps: u64) -> Activity {
        let moved_bytes = self.ports.iter().map(|port| port.moved_bytes).sum();
        let of_link = self.link_energy.as_ref().map(|spec| spec.taken(moved_bytes, now_ps));
        self.device.activity(now_ps).with_link(of_link)
    }

    fn keeps_answered(&self) -> bool {
        self.device.keeps_answered()
    }

    fn follow_contents(&mut self, weaknesses: Weaknesses) -> bool {
        self.device.follow_contents(weaknesses)
    }

    /// What is on the link, or waits for it, is gone, too.
    fn cut_power(&mut self, now_ps: u64) -> Outage {
        self.ports = [Port::new(Direction::Down), Port::new(Direction::Up)].map(|port| Port {
            moved_bytes: self.ports[port.direction as usize].moved_bytes,
            ..port
        });
        self.pending = EventQueue::new();
        (self.held, self.parts, self.held_pages) = (Slab::new(), Slab::new(), 0);
        let mut outage = self.device.cut_power(now_ps);
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
            pending: self.pending.clone(),
            held: self.held.clone(),
            parts: self.parts.clone(),
            page_bytes: self.page_bytes,
            queue_depth: self.queue_depth,
            commands: self.commands,
            held_pages: self.held_pages,
            done: Vec::new(),
        }
    }

    fn content(&self, address: u64) -> Content {
        self.device.content(address / self.page_bytes)
    }

    fn under_way(&self) -> UnderWay {
        self.device.under_way()
    }

    fn shared_channel(&self) -> Option<usize> {
        self.link.shared_channel().map(|channel| channel as usize)
    }

    fn bus_free_ps(&mut self, _now_ps: u64, _channel: usize) -> u64 {
        self.link.free_ps(Direction::Down)
    }

    fn keep_off_bus(&mut self, _now_ps: u64, until_ps: u64, _channel: usize) {
        self.link.keep_off(until_ps);
    }
}
