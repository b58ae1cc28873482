//! The write-back buffer: pages on their way from DRAM to the store.

use super::controller::append_tail;
use super::page_map::PageMap;
use crate::cache::WayRef;
use tierscope_kernel::{Slab, Timeline};

/// No miss, no write-back.
pub(super) const NONE: u32 = u32::MAX;

/// A page that leaves DRAM, or is copied from it by a flush.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteBack {
    pub page: u64,
    /// Its sectors that are written back.
    pub sectors: u64,
    /// Reads from DRAM, or writes to the store, that are under way.
    pub outstanding: u32,
    /// The page's way in DRAM; none where lines go around the cache.
    pub way: Option<WayRef>,
    /// The page has been read from DRAM: its data are in the buffer.
    pub ready: bool,
    /// An earlier write of the same page that the store has not finished, or [`NONE`]. The store
    /// need not keep their order, so this one waits.
    pub older: u32,
    /// A later write of the same page, or [`NONE`].
    pub newer: u32,
    /// The last of the misses whose page takes this one's frame, or [`NONE`] if the page stays where it
    /// is.
    pub replaced_by: u32,
    /// The last of the misses that take what they want from here instead of from the store, or
    /// [`NONE`].
    pub wanted_by: u32,
    /// A flush waits for it.
    pub flush: bool,
    /// The page is to leave DRAM once it has been read, unless it was written meanwhile.
    pub invalidate: bool,
    /// Stages of the miss whose page takes its frame, up to its own beginning, and since then, up to
    /// `charged_ps`.
    pub stages: Timeline,
    pub charged_ps: u64,
}

impl WriteBack {
    /// Adds the stages of what it has waited for.
    pub(super) fn charge(&mut self, now_ps: u64, stages: &Timeline) {
        append_tail(&mut self.stages, stages, now_ps - self.charged_ps);
        self.charged_ps = now_ps;
    }
}

/// A bounded buffer of [`WriteBack`]s. At most one that is newest for each page.
#[derive(Clone, Debug)]
pub(super) struct WriteBackBuffer {
    items: Slab<WriteBack>,
    newest: PageMap,
    capacity: usize,
}

impl WriteBackBuffer {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        WriteBackBuffer { items: Slab::new(), newest: PageMap::with_capacity(capacity), capacity }
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether a further page finds a place while `kept` places stay free.
    pub(super) fn has_room(&self, kept: usize) -> bool {
        self.items.len() + kept < self.capacity
    }

    /// The newest write-back of these sectors of `page`.
    pub(super) fn newest(&self, page: u64, sectors: u64) -> Option<u32> {
        let mut index = self.newest.get(page)?;
        while self.items[index].sectors & sectors == 0 {
            index = self.items[index].older;
            if index == NONE {
                return None;
            }
        }
        Some(index)
    }

    /// The newest write-back of `page`.
    pub(super) fn newest_of(&self, page: u64) -> Option<u32> {
        self.newest.get(page)
    }

    /// The page that leaves the frame of `way` and has not been read yet.
    pub(super) fn leaving(&self, way: WayRef) -> Option<u32> {
        let leaves =
            |item: &WriteBack| item.way == Some(way) && item.replaced_by != NONE && !item.ready;
        self.items.iter().find(|(_, item)| leaves(item)).map(|(index, _)| index)
    }

    /// Takes a page in, behind an earlier write of it if there is one. `stages` are what those have
    /// waited for who make it leave.
    pub(super) fn insert(
        &mut self,
        now_ps: u64,
        (page, sectors): (u64, u64),
        way: Option<WayRef>,
        stages: &Timeline,
    ) -> u32 {
        debug_assert!(self.items.len() < self.capacity);
        let older = self.newest.get(page).unwrap_or(NONE);
        let index = self.items.insert(WriteBack {
            page,
            sectors,
            outstanding: 0,
            way,
            ready: false,
            older,
            newer: NONE,
            replaced_by: NONE,
            wanted_by: NONE,
            flush: false,
            invalidate: false,
            stages: *stages,
            charged_ps: now_ps,
        });
        if older != NONE {
            self.items[older].newer = index;
        }
        self.newest.insert(page, index);
        index
    }

    /// The store has taken write-back `index`: it, and the later write of its page that had to
    /// wait for it.
    pub(super) fn remove(&mut self, index: u32) -> (WriteBack, Option<u32>) {
        let gone = self.items.remove(index);
        if self.newest.get(gone.page) == Some(index) {
            self.newest.remove(gone.page);
        }
        if gone.newer == NONE {
            return (gone, None);
        }
        self.items[gone.newer].older = NONE;
        (gone, Some(gone.newer))
    }

    /// Marks all for a flush; how many.
    pub(super) fn mark_for_flush(&mut self) -> usize {
        let all: Vec<u32> = self.items.iter().map(|(index, _)| index).collect();
        for index in &all {
            self.items[*index].flush = true;
        }
        all.len()
    }
}

impl std::ops::Index<u32> for WriteBackBuffer {
    type Output = WriteBack;

    fn index(&self, index: u32) -> &WriteBack {
        &self.items[index]
    }
}

impl std::ops::IndexMut<u32> for WriteBackBuffer {
    fn index_mut(&mut self, index: u32) -> &mut WriteBack {
        &mut self.items[index]
    }
}
