//! `tiering`: main memory is DRAM and, behind it in the addresses, the store behind its link, line by line: two nodes
//! of memory, as a machine has them with a memory expander on CXL. Where a page lies, and whether it moves, is the
//! operating system's to say ([`crate::os::tiering`]).
//!
//! [`Tiering`] carries lines to the node that has them, and copies pages from DRAM to the store for the kernel's
//! thread. What is modelled, and how far it is checked, is said in `docs/models/tiering.md`.

mod copies;
mod spec;

#[cfg(test)]
mod tests;

pub use spec::TieringSpec;

use super::oracle::Oracle;
use super::tiered::Tiered;
use super::{Organization, OrganizationReport, PagesMoved};
use crate::activity::Activity;
use crate::request::{
    Device, Full, LineRequest, LineResponse, PageRequest, Response, Tell, earlier,
};
use copies::Copies;
use tierscope_kernel::Slab;

/// What a line is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// By the host, under this id.
    Host(u32),
    /// For a page that is copied, of which it is this line.
    Copy(u32),
}

/// Two nodes of memory.
pub struct Tiering<D, S> {
    near: Oracle,
    far: Tiered<D, S>,
    near_bytes: u64,
    line_bytes: u32,
    asked: Slab<Asked>,
    copies: Copies,
    lookups: u64,
    misses: u64,
    responses: Vec<Response>,
}

impl<D: Device + Send + 'static, S: Device + Send + 'static> Tiering<D, S> {
    /// Memory of `near`, and of `far`, which promotes nothing itself. On-chip caches ask for lines of `line_bytes`.
    pub fn new(spec: &TieringSpec, near: Oracle, far: Tiered<D, S>, line_bytes: u32) -> Self {
        Tiering {
            near_bytes: near.memory_bytes(),
            near,
            far,
            line_bytes,
            asked: Slab::new(),
            copies: Copies::new(spec.copy_lines, line_bytes),
            lookups: 0,
            misses: 0,
            responses: Vec::new(),
        }
    }

    /// Asks the node that has a line for it.
    fn ask(&mut self, now_ps: u64, asked: Asked, request: LineRequest) -> Result<(), Full> {
        let id = self.asked.insert(asked);
        let taken = match request.address.checked_sub(self.near_bytes) {
            Some(address) => self.far.submit(now_ps, LineRequest { id, address, ..request }),
            None => self.near.submit(now_ps, LineRequest { id, ..request }),
        };
        if taken.is_err() {
            self.asked.remove(id);
        }
        taken
    }

    /// Asks for what the page that is copied needs next, as far as there is room.
    fn pump(&mut self, now_ps: u64) {
        while let Some((part, request)) = self.copies.next() {
            if self.ask(now_ps, Asked::Copy(part.line), request).is_err() {
                return;
            }
            self.copies.taken(part);
        }
    }

    /// A node has answered.
    fn answered(&mut self, response: &LineResponse, out: &mut Vec<Response>) {
        match self.asked.remove(response.id) {
            Asked::Host(id) => out.push(Response::Line(LineResponse { id, ..*response })),
            Asked::Copy(line) => {
                out.extend(self.copies.answered(line, response).map(Response::Page));
            }
        }
    }
}

impl<D: Device + Send + 'static, S: Device + Send + 'static> Organization for Tiering<D, S> {
    fn memory_bytes(&self) -> u64 {
        self.near_bytes + self.far.memory_bytes()
    }

    fn submit(&mut self, now_ps: u64, request: LineRequest) -> Result<(), Full> {
        self.ask(now_ps, Asked::Host(request.id), request)?;
        self.lookups += 1;
        self.misses += u64::from(request.address >= self.near_bytes);
        Ok(())
    }

    /// Copies a page from DRAM to the store: the kernel's thread does.
    fn submit_page(&mut self, now_ps: u64, request: PageRequest) -> Result<(), Full> {
        debug_assert!(
            request.write,
            "{request:?}: pages come to DRAM by the hand of who wants them"
        );
        let store_address = self.near_bytes + request.store_address;
        self.copies.submit(now_ps, PageRequest { store_address, ..request })?;
        self.pump(now_ps);
        Ok(())
    }

    fn next_event_ps(&self) -> Option<u64> {
        earlier(self.near.next_event_ps(), self.far.next_event_ps())
    }

    fn advance(&mut self, now_ps: u64, out: &mut Vec<Response>) {
        // One event at a time, so that answers come in order over both nodes.
        while let Some(at_ps) = self.next_event_ps().filter(|at_ps| *at_ps <= now_ps) {
            let mut responses = std::mem::take(&mut self.responses);
            self.near.advance(at_ps, &mut responses);
            self.far.advance(at_ps, &mut responses);
            for response in responses.drain(..) {
                match response {
                    Response::Line(line) => self.answered(&line, out),
                    Response::Page(page) => out.push(Response::Page(page)),
                }
            }
            self.responses = responses;
            self.pump(at_ps);
        }
    }

    fn depths(&self, tell: &mut Tell<'_>) {
        self.near.depths(tell);
        self.far.depths(tell);
        tell("controller.copies", self.copies.pages());
    }

    fn in_flight(&self) -> usize {
        self.asked.len() + self.copies.pages()
    }

    /// The store may have a cache of its own, whose content depends on when it was asked.
    fn can_warm(&self) -> bool {
        false
    }

    fn warm(&mut self, now_ps: u64, core: u16, address: u64, write: bool) -> PagesMoved {
        self.lookups += 1;
        match address.checked_sub(self.near_bytes) {
            Some(address) => {
                self.misses += 1;
                self.far.warm(now_ps, core, address, write)
            }
            None => self.near.warm(now_ps, core, address, write),
        }
    }

    fn warm_page(&mut self, _now_ps: u64, request: PageRequest) {
        for _ in 0..request.bytes / self.line_bytes {
            self.near.warm(0, 0, 0, false);
            self.far.warm(0, 0, 0, true);
        }
    }

    /// Nothing is in DRAM that has its place in the store.
    fn flush(&mut self, now_ps: u64) -> bool {
        self.far.flush(now_ps)
    }

    fn report(&self) -> OrganizationReport {
        let both = self.near.report().together(&self.far.report());
        OrganizationReport { lookups: self.lookups, misses: self.misses, ..both }
    }

    fn activity(&self, now_ps: u64) -> Activity {
        self.near.activity(now_ps).with_store(self.far.store_activity(now_ps))
    }

    fn fork(&mut self) -> Box<dyn Organization> {
        Box::new(Tiering {
            near: self.near.fork_itself(),
            far: self.far.fork_itself(),
            asked: self.asked.clone(),
            copies: self.copies.clone(),
            responses: Vec::new(),
            ..*self
        })
    }
}
