//! Requests of several pages: one command of the store, as the block layer of the operating system makes them.
//!
//! The pages of a read are written to DRAM as they come, where the store tells of them; those of a write are read from
//! DRAM in order, and the command goes with the first. All are answered at once, with the interrupt of the command.

use super::{Page, Storage, Waiting};
use crate::request::{Completion, Device, Full, Manner, PageRequest, Request, Response};
use std::collections::BTreeMap;
use tierscope_kernel::{Slab, Stage};

/// Of ids at the store those of requests of several pages, and of their pages: single pages go by their places.
const OF_REQUESTS: u32 = 1 << 31;

/// A request of several pages.
#[derive(Clone, Debug)]
pub(super) struct Command {
    /// Its pages, in order of address.
    pages: Vec<u32>,
    /// Its id at the store; those of the store's pages follow.
    tag: u32,
    /// Pages whose way to or from DRAM is not done.
    at_dram: u32,
    /// The interrupt with which the store has answered, once it has.
    answered: Option<u32>,
}

/// All that are under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Commands {
    all: Slab<Command>,
    by_tag: BTreeMap<u32, u32>,
    next_tag: u32,
    /// Pages of all of them.
    pages: usize,
    /// So many have been answered: numbers of interrupts where the store numbers none.
    interrupts: u32,
}

impl Commands {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Pages of all of them.
    pub(super) fn pages(&self) -> usize {
        self.pages
    }

    /// Power has failed: nothing is left of them.
    pub(super) fn drop_all(&mut self) {
        let interrupts = self.interrupts;
        *self = Commands { interrupts, ..Commands::default() };
    }

    /// Numbers for a command and so many pages of the store, of which none is used.
    fn tags(&mut self, pages: u32) -> u32 {
        if self.next_tag.saturating_add(pages) >= OF_REQUESTS - 1 {
            self.next_tag = 0;
        }
        let tag = self.next_tag;
        self.next_tag += pages + 1;
        tag | OF_REQUESTS
    }

    /// The command of an id at the store, and which of the store's pages it is of, if it is of one.
    fn find(&self, id: u32) -> Option<(u32, Option<u32>)> {
        let (tag, command) = self.by_tag.range(..=id).next_back()?;
        Some((*command, (id - tag).checked_sub(1)))
    }
}

/// Whether an id at the store belongs to a request of several pages.
pub(super) fn is_of_request(id: u32) -> bool {
    id & OF_REQUESTS != 0
}

impl Storage {
    /// Requests under way, one of several pages counted once.
    pub(super) fn requests(&self) -> usize {
        self.pages.len() - self.commands.pages() + self.commands.len()
    }

    /// Takes pages that lie side by side on the store as one request.
    pub(super) fn take_request(
        &mut self,
        now_ps: u64,
        requests: &[PageRequest],
    ) -> Result<(), Full> {
        if self.requests() >= self.most_pages {
            return Err(Full);
        }
        let write = requests[0].write;
        let of_store: u64 = requests.iter().map(|it| self.store_pages(it)).sum();
        let tag = self.commands.tags(of_store as u32);
        let command = self.commands.all.insert(Command {
            pages: Vec::with_capacity(requests.len()),
            tag,
            at_dram: requests.len() as u32,
            answered: None,
        });
        self.commands.by_tag.insert(tag, command);
        self.commands.pages += requests.len();
        for request in requests {
            let versions = self.versions_to_store(request);
            let mut page = Page::new(now_ps, *request, None, versions);
            page.command = Some(command);
            page.parts_left = self.store_pages(request) as u32;
            let id = self.pages.insert(page);
            self.commands.all[command].pages.push(id);
            if write && !(self.for_dram.is_empty() && self.start_dma(now_ps, id)) {
                self.for_dram.push_back(id);
            }
        }
        if !write {
            self.offer_request(now_ps, command);
        }
        Ok(())
    }

    fn store_pages(&self, request: &PageRequest) -> u64 {
        u64::from(request.bytes).div_ceil(self.store_page_bytes)
    }

    fn offer_request(&mut self, now_ps: u64, command: u32) {
        if !self.for_store.is_empty() || !self.start_request(now_ps, command) {
            self.for_store.push_back(Waiting::Request(command));
        }
    }

    /// Offers a request to the store; false where it is full.
    pub(super) fn start_request(&mut self, now_ps: u64, command: u32) -> bool {
        let Command { pages, tag, .. } = &self.commands.all[command];
        let first = self.pages[pages[0]].request;
        let bytes = pages.iter().map(|id| self.pages[*id].request.bytes).sum();
        let PageRequest { store_address: address, write, background, content, .. } = first;
        let id = *tag;
        let request = Request { id, address, bytes, write, background };
        let pages = Some(id + 1).filter(|_| !write);
        let content = self.carried(content);
        let manner = Manner { pages, content, ..Manner::default() };
        if self.with_bus(now_ps, |store| store.submit_as(now_ps, request, manner)).is_err() {
            return false;
        }
        for id in &self.commands.all[command].pages {
            let page = &mut self.pages[*id];
            // What is still being read from DRAM goes on with that.
            if !write || page.parts_left == 0 {
                page.stages.push(Stage::StoreQueue, now_ps - page.clock_ps);
                page.clock_ps = now_ps;
            }
        }
        true
    }

    /// The store has done a request of several pages, or a page of it.
    pub(super) fn request_done(&mut self, done: &Completion, out: &mut Vec<Response>) {
        let Some((id, part)) = self.commands.find(done.id) else { return };
        if let Some(part) = part {
            let first = self.pages[self.commands.all[id].pages[0]].request;
            let of_page = self.store_pages(&first) as u32;
            let page = self.commands.all[id].pages[(part / of_page) as usize];
            self.pages[page].parts_left -= 1;
            if self.pages[page].parts_left == 0 {
                self.page_came(page, done);
            }
            return;
        }
        let command = &mut self.commands.all[id];
        command.answered = Some(done.interrupt);
        let pages = command.pages.clone();
        for page in pages {
            let request = self.pages[page].request;
            if request.write {
                self.note_stored(&request);
                self.traffic.store_written_bytes += u64::from(request.bytes);
                let page = &mut self.pages[page];
                if page.parts_left == 0 {
                    let since_ps = done.at_ps - page.clock_ps;
                    page.stages.append_tail(&done.stages, Stage::StoreQueue, since_ps);
                    page.clock_ps = done.at_ps;
                }
            } else if self.pages[page].parts_left > 0 {
                // The store does not tell of pages by themselves.
                self.pages[page].parts_left = 0;
                self.page_came(page, done);
            }
        }
        self.end_request(id, done.at_ps, out);
    }

    /// A page of a read has come: it goes to DRAM.
    fn page_came(&mut self, id: u32, done: &Completion) {
        let page = &mut self.pages[id];
        page.stages.append(&done.stages);
        page.clock_ps = done.at_ps;
        self.traffic.store_read_bytes += u64::from(page.request.bytes);
        if !self.for_dram.is_empty() || !self.start_dma(done.at_ps, id) {
            self.for_dram.push_back(id);
        }
    }

    /// A page of a request has been written to DRAM, or read from there.
    pub(super) fn moved_at_dram(&mut self, id: u32, page: u32, out: &mut Vec<Response>) {
        let Page { request, clock_ps: now_ps, parts_left, .. } = &mut self.pages[page];
        let (write, now_ps) = (request.write, *now_ps);
        *parts_left = 0;
        let command = &mut self.commands.all[id];
        command.at_dram -= 1;
        if write && command.at_dram as usize == command.pages.len() - 1 {
            self.offer_request(now_ps, id);
        } else {
            self.end_request(id, now_ps, out);
        }
    }

    /// The request is done, once the store has answered it and all its pages are where they had to go.
    fn end_request(&mut self, id: u32, now_ps: u64, out: &mut Vec<Response>) {
        let command = &self.commands.all[id];
        let Some(interrupt) = command.answered else { return };
        if command.at_dram > 0 {
            return;
        }
        let Command { pages, tag, .. } = self.commands.all.remove(id);
        self.commands.by_tag.remove(&tag);
        self.commands.pages -= pages.len();
        self.commands.interrupts = (self.commands.interrupts + 1) % OF_REQUESTS;
        let own = self.commands.interrupts | OF_REQUESTS;
        let interrupt = if interrupt == 0 { own } else { interrupt };
        for id in pages {
            let page = &mut self.pages[id];
            page.stages.push(Stage::StoreQueue, now_ps - page.clock_ps);
            page.clock_ps = now_ps;
            page.interrupt = interrupt;
            self.end_page(id, out);
        }
    }
}
