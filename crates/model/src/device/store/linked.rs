//! A store behind a link: what the host sees.

use super::{PageAccess, PageDone, Store, StoreSpec};
use crate::link::{AnyLink, Direction, Link, LinkDescription};
use crate::medium::AnyMedium;
use crate::request::{Ahead, Completion, Device, Full, Request};
use std::collections::VecDeque;
use tierscope_kernel::{Slab, Stage, Timeline};

/// A time that never comes.
const NEVER: u64 = u64::MAX;

/// A request that the device holds: done with the last of its pages.
#[derive(Clone, Copy, Debug)]
struct Held {
    request: Request,
    /// A part of a read that is wanted first.
    ahead: Option<Ahead>,
    submitted_ps: u64,
    pages_left: u32,
}

/// A page of a request.
#[derive(Clone, Copy, Debug)]
struct Part {
    held: u32,
    page: u64,
    /// Bytes of it that the request wants.
    bytes: u32,
    /// When its command or data had come down.
    arrived_ps: u64,
    /// Of these bytes, those that are wanted first; 0 for none.
    ahead_bytes: u32,
    /// When these had been read.
    ahead_at_ps: u64,
    /// What the store said when the page had been read or written.
    done: Option<PageDone>,
}

/// Something to send down the link.
#[derive(Clone, Copy, Debug)]
enum Down {
    /// The command of a read: all pages of the request with this number.
    Command(u32),
    /// The data of the part with this number.
    Data(u32),
}

/// Something to send up the link.
#[derive(Clone, Copy, Debug)]
enum Up {
    /// The data of the part with this number, or what is left of them.
    Data(u32),
    /// Those of its data that are wanted first.
    Ahead(u32),
}

/// One direction of the link with what waits for it: demand first. Nothing is booked ahead, so
/// that what is ready first goes first.
#[derive(Clone, Debug)]
struct Port<P> {
    direction: Direction,
    demand: VecDeque<(P, u32)>,
    background: VecDeque<(P, u32)>,
    /// When the next one that waits can be sent.
    free_ps: u64,
    /// Sent, in order of arrival.
    sent: VecDeque<(u64, P)>,
}

impl<P> Port<P> {
    fn new(direction: Direction) -> Self {
        Port {
            direction,
            demand: VecDeque::new(),
            background: VecDeque::new(),
            free_ps: NEVER,
            sent: VecDeque::new(),
        }
    }

    /// Sends a parcel of `bytes` at `now_ps`, or lets it wait for the link.
    #[inline]
    fn send(&mut self, link: &mut AnyLink, now_ps: u64, parcel: P, bytes: u32, background: bool) {
        let free_ps = link.free_ps(self.direction);
        if free_ps <= now_ps && self.free_ps == NEVER {
            self.put_on(link, now_ps, parcel, bytes);
            return;
        }
        let queue = if background { &mut self.background } else { &mut self.demand };
        queue.push_back((parcel, bytes));
        self.free_ps = free_ps.max(now_ps);
    }

    #[inline]
    fn put_on(&mut self, link: &mut AnyLink, now_ps: u64, parcel: P, bytes: u32) {
        let (_, end_ps) = link.transfer(now_ps, u64::from(bytes), self.direction);
        self.sent.push_back((end_ps, parcel));
    }

    /// The link has become free.
    fn send_next(&mut self, link: &mut AnyLink) {
        let next = self.demand.pop_front().or_else(|| self.background.pop_front());
        if let Some((parcel, bytes)) = next {
            self.put_on(link, self.free_ps, parcel, bytes);
        }
        let idle = self.demand.is_empty() && self.background.is_empty();
        self.free_ps = if idle { NEVER } else { link.free_ps(self.direction) };
    }

    #[inline]
    fn arrival_ps(&self) -> u64 {
        self.sent.front().map_or(NEVER, |&(at_ps, _)| at_ps)
    }
}

/// A store behind a link. A read sends a command down the link, is read from the medium and comes
/// up page by page; a write sends its data down and is done when the medium has it. Requests of
/// several pages are split, and done with their last page. Part of a page takes as long as the
/// page in the store, and only its own bytes on the link.
#[derive(Clone, Debug)]
pub struct StoreDevice {
    store: Store,
    link: AnyLink,
    down: Port<Down>,
    up: Port<Up>,
    held: Slab<Held>,
    parts: Slab<Part>,
    page_bytes: u64,
    queue_depth: u64,
    held_pages: u64,
    /// Room for what the store reports, kept to spare the allocation.
    done: Vec<PageDone>,
}

impl StoreDevice {
    /// A store with nothing to do, behind an empty link. The descriptions have been checked.
    pub fn new(spec: &StoreSpec, link: &dyn LinkDescription) -> Self {
        StoreDevice::with_medium(spec, &spec.medium(), link)
    }

    /// As [`StoreDevice::new`], with units of a copy of `medium` each, whatever the description
    /// says of its times.
    pub fn with_medium(spec: &StoreSpec, medium: &AnyMedium, link: &dyn LinkDescription) -> Self {
        StoreDevice {
            store: Store::new(spec, medium),
            link: link.build(),
            down: Port::new(Direction::Down),
            up: Port::new(Direction::Up),
            held: Slab::new(),
            parts: Slab::new(),
            page_bytes: spec.page.bytes(),
            queue_depth: u64::from(spec.queue_depth),
            held_pages: 0,
            done: Vec::new(),
        }
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
            ahead_at_ps: 0,
            done: None,
        })
    }

    fn send_down(&mut self, now_ps: u64, index: u32) {
        let Held { request, .. } = self.held[index];
        if !request.write {
            let parcel = Down::Command(index);
            self.down.send(&mut self.link, now_ps, parcel, 0, request.background);
            return;
        }
        let (first, count) = self.pages(&request);
        for page in first..first + count {
            let part = self.split(index, page);
            let bytes = self.parts[part].bytes;
            self.down.send(&mut self.link, now_ps, Down::Data(part), bytes, request.background);
        }
    }

    /// A command or the data of a page have come down.
    fn arrive_down(&mut self) {
        let Some((at_ps, parcel)) = self.down.sent.pop_front() else { return };
        match parcel {
            Down::Command(index) => {
                let (first, count) = self.pages(&self.held[index].request);
                for page in first..first + count {
                    let part = self.split(index, page);
                    self.submit_page(at_ps, part);
                }
            }
            Down::Data(part) => self.submit_page(at_ps, part),
        }
    }

    #[inline]
    fn submit_page(&mut self, at_ps: u64, token: u32) {
        let part = &mut self.parts[token];
        part.arrived_ps = at_ps;
        let Part { page, ahead_bytes, held, .. } = *part;
        let Request { write, background, .. } = self.held[held].request;
        let access = PageAccess { token, page, write, background, ahead_bytes };
        self.store.submit(at_ps, access);
    }

    /// Pages have been written, or read and are to be sent up.
    fn take_from_store(&mut self, at_ps: u64, out: &mut Vec<Completion>) {
        let mut done = std::mem::take(&mut self.done);
        self.store.advance(at_ps, &mut done);
        for page in done.drain(..) {
            let part = &mut self.parts[page.token];
            part.done = Some(page);
            let Part { held, bytes, ahead_bytes, .. } = *part;
            let Request { write, background, .. } = self.held[held].request;
            if write {
                self.finish(page.at_ps, page.token, out);
                continue;
            }
            let (parcel, bytes) = if page.ahead {
                part.ahead_at_ps = page.at_ps;
                (Up::Ahead(page.token), ahead_bytes)
            } else {
                (Up::Data(page.token), bytes - ahead_bytes)
            };
            self.up.send(&mut self.link, page.at_ps, parcel, bytes, background);
        }
        self.done = done;
    }

    /// The data of a page have come up, or those wanted first.
    fn arrive_up(&mut self, out: &mut Vec<Completion>) {
        match self.up.sent.pop_front() {
            Some((at_ps, Up::Data(part))) => self.finish(at_ps, part, out),
            Some((at_ps, Up::Ahead(part))) => {
                let part = self.parts[part];
                let done = part.done.map(|done| PageDone { at_ps: part.ahead_at_ps, ..done });
                if let Held { ahead: Some(ahead), submitted_ps, .. } = self.held[part.held] {
                    out.push(completion(ahead.id, submitted_ps, at_ps, &Part { done, ..part }));
                }
            }
            None => (),
        }
    }

    /// A page is done; so is its request, if it was the last.
    fn finish(&mut self, at_ps: u64, token: u32, out: &mut Vec<Completion>) {
        let part = self.parts.remove(token);
        self.held_pages -= 1;
        let held = &mut self.held[part.held];
        held.pages_left -= 1;
        if held.pages_left > 0 {
            return;
        }
        let Held { request, submitted_ps, .. } = self.held.remove(part.held);
        out.push(completion(request.id, submitted_ps, at_ps, &part));
    }

    fn take(&mut self, now_ps: u64, request: Request, ahead: Option<Ahead>) -> Result<(), Full> {
        let (first, count) = self.pages(&request);
        self.store.assert_holds(first + count - 1);
        if self.held_pages > 0 && self.held_pages + count > self.queue_depth {
            return Err(Full);
        }
        self.held_pages += count;
        let (submitted_ps, pages_left) = (now_ps, count as u32);
        let index = self.held.insert(Held { request, ahead, submitted_ps, pages_left });
        self.send_down(now_ps, index);
        Ok(())
    }

    /// The earliest of all that can happen. What has come down is in the store before the store
    /// goes on at that time.
    #[inline]
    fn next(&self) -> (u64, Event) {
        let mut first = (self.down.arrival_ps(), Event::ArriveDown);
        let store_ps = self.store.next_event_ps().unwrap_or(NEVER);
        for (at_ps, event) in [
            (store_ps, Event::Store),
            (self.up.arrival_ps(), Event::ArriveUp),
            (self.down.free_ps, Event::SendDown),
            (self.up.free_ps, Event::SendUp),
        ] {
            if at_ps < first.0 {
                first = (at_ps, event);
            }
        }
        first
    }
}

/// What is told of a part that has come at `at_ps`.
fn completion(id: u32, submitted_ps: u64, at_ps: u64, part: &Part) -> Completion {
    let mut stages = Timeline::new();
    stages.push(Stage::Link, part.arrived_ps - submitted_ps);
    if let Some(done) = part.done {
        done.write_stages(&mut stages);
        stages.push(Stage::Link, at_ps - done.at_ps);
    }
    Completion { id, at_ps, stages }
}

/// Something that happens in the device.
#[derive(Clone, Copy, Debug)]
enum Event {
    ArriveDown,
    Store,
    ArriveUp,
    SendDown,
    SendUp,
}

impl Device for StoreDevice {
    /// Takes a request for one or more bytes.
    ///
    /// # Panics
    /// If it reaches beyond the capacity: callers know what they own.
    fn submit(&mut self, now_ps: u64, request: Request) -> Result<(), Full> {
        self.take(now_ps, request, None)
    }

    /// As [`Device::submit`]; the part that is wanted first crosses the unit's bus and the link
    /// ahead of the rest of its page, in packets of its own.
    fn submit_ahead(&mut self, now_ps: u64, request: Request, ahead: Ahead) -> Result<(), Full> {
        self.take(now_ps, request, Some(ahead).filter(|_| !request.write))
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
            match event {
                Event::ArriveDown => self.arrive_down(),
                Event::Store => self.take_from_store(at_ps, out),
                Event::ArriveUp => self.arrive_up(out),
                Event::SendDown => self.down.send_next(&mut self.link),
                Event::SendUp => self.up.send_next(&mut self.link),
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.held.len()
    }
}
