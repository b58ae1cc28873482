//! Pages on their way to the store as the block layer's requests.

use super::calls::CallKind;
use super::kernel::path_steps;
use super::memory::PageIo;
use super::{Event, Machine};
use crate::spec::SystemSpec;
use tierscope_kernel::Stage;
use tierscope_model::os::block_layer::{Bio, BlockLayer, Pick};
use tierscope_model::os::paging::TransferId;
use tierscope_model::request::{Control, PageRequest};

/// Nobody's: of what the kernel's own threads ask for.
const KERNEL: u32 = u32::MAX;

/// The block layer of a machine, where its operating system has one.
pub(super) fn block_layer(spec: &SystemSpec) -> Option<BlockLayer> {
    let (storage, _) = spec.paging()?;
    let layer = storage.block_layer.as_ref()?;
    let page_bytes = spec.os.as_ref()?.page.bytes();
    let largest_bytes = storage.largest_request.bytes().max(page_bytes);
    Some(BlockLayer::new(layer, largest_bytes, storage.host_queue_depth, spec.store_rotates()))
}

impl Machine {
    /// Whether a thread is in a call that makes data durable.
    pub(super) fn is_syncing(&self, thread: usize) -> bool {
        let called = self.threads[thread].called.as_ref();
        called.is_some_and(|called| called.kind() == CallKind::Sync)
    }

    /// Whether a thread has to wait before it hands anything over.
    pub(super) fn requests_are_full(&self, index: usize) -> bool {
        let core = self.contexts[index].core;
        !self.skips_store() && self.block_layer.as_ref().is_some_and(|layer| layer.is_full(core))
    }

    /// The block layer, where there is one, gets pages of a transfer; `sync` tells that somebody waits for them, `one_bio`
    /// that neighbours are one bio, as of files; of swap each page is one (`__swap_writepage`, `swap_read_folio`).
    pub(super) fn queue_pages(
        &mut self,
        index: usize,
        by: Option<usize>,
        pages: &[u32],
        sync: bool,
        one_bio: bool,
        now_ps: u64,
    ) {
        let Some(layer) = &mut self.block_layer else { return };
        let page_bytes = 1u64 << self.fixed.page_shift;
        let bios = pages.iter().enumerate().map(|(at, id)| {
            let PageIo { frame, store_address, write, forced, control, content, .. } =
                self.pages[*id];
            let bytes = match control {
                Some(Control::Trim { bytes, .. }) => bytes,
                _ => page_bytes,
            };
            Bio {
                id: *id,
                address: store_address,
                bytes,
                memory_address: frame << self.fixed.page_shift,
                write,
                sync,
                alone: forced || control.is_some(),
                first: control == Some(Control::Flush),
                content,
                thread: by.map_or(KERNEL, |thread| thread as u32),
                continues: one_bio && at > 0,
            }
        });
        let bios: Vec<Bio> = bios.collect();
        let made = layer.submit(now_ps, self.contexts[index].core, &bios);
        self.paging.tell_congestion(layer.reads_are_congested());
        // What is not one request costs its paths so many times; those of whole ones have been paid.
        let paid = self.paging.dealt_parts(bios.len() as u64);
        let (more, paths) = (made.saturating_sub(paid), &self.os.paths);
        if let (Some(thread), 1..) = (by, more) {
            let mut steps = path_steps(Stage::BlockLayer, paths.block_layer, more);
            steps.extend(path_steps(Stage::Driver, paths.driver, more));
            self.threads[thread].do_first(&steps);
        }
    }

    /// A page as the store is asked for it.
    pub(super) fn page_request(&self, id: u32) -> PageRequest {
        let page = &self.pages[id];
        PageRequest {
            id,
            store_address: page.store_address,
            memory_address: page.frame << self.fixed.page_shift,
            bytes: 1 << self.fixed.page_shift,
            write: page.write,
            background: page.background,
            force_unit_access: page.forced,
            content: page.content,
        }
    }

    /// Offers the organization the block layer's requests, until it is full or none may go.
    pub(super) fn pump_requests(&mut self, now_ps: u64) {
        loop {
            let Some(layer) = &mut self.block_layer else { return };
            let id = match layer.next(now_ps) {
                Pick::Request(id) => id,
                Pick::Later(at_ps) => {
                    if self.dispatch_ps != at_ps {
                        self.dispatch_ps = at_ps;
                        self.queue.push(at_ps, self.memory_source(), Event::Dispatch);
                    }
                    return;
                }
                Pick::Nothing => return,
            };
            let pages: Vec<u32> = layer.request(id).bios.iter().copied().collect();
            let control = pages.first().and_then(|page| self.pages[*page].control);
            let taken = match (control, pages.as_slice()) {
                (Some(control), [page]) => self.organization.submit_control(now_ps, *page, control),
                (_, pages) => {
                    let requests: Vec<_> = pages.iter().map(|id| self.page_request(*id)).collect();
                    self.organization.submit_request(now_ps, &requests)
                }
            };
            if taken.is_err() {
                self.block_layer.iter_mut().for_each(|layer| layer.put_back(id));
                return;
            }
            self.pages_at_device += pages.len() as u64;
            for page in pages {
                let page = &mut self.pages[page];
                (page.submitted_ps, page.request) = (now_ps, Some(id));
            }
        }
    }

    /// A page of a request has moved, with which its transfer has ended or not. The interrupt of a request with which
    /// none ends is taken all the same.
    pub(super) fn moved_of_request(
        &mut self,
        request: u32,
        (transfer, ended): (TransferId, bool),
        now_ps: u64,
    ) {
        let Some(layer) = &mut self.block_layer else { return };
        let told = layer.moved(now_ps, request, ended);
        self.paging.tell_congestion(layer.reads_are_congested());
        if told == Some(false) {
            self.interrupt_in_between(transfer, now_ps);
        }
    }
}
