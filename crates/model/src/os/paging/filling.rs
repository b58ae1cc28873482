//! The page cache as readahead sees it, and the pages that it has read.

use super::cached_pages::CachedNear;
use super::*;
use crate::os::address_space::TableEntries;
use crate::os::frames::Cached;
use crate::os::readahead::{Filling, Folio, PageCache, around};

/// Where and for what pages are brought into the page cache.
pub(super) struct Need<'a> {
    pub file: InodeId,
    /// Pages that are asked for; others are read ahead.
    pub wanted: Range<u64>,
    pub work: &'a mut Vec<Work>,
    pub held: &'a dyn Fn(u64) -> bool,
}

/// The page cache of a file, while readahead adds to it.
pub(super) struct Filler<'a, 'b> {
    paging: &'a mut Paging,
    need: Need<'b>,
    /// A frame kept for the first wanted page, so that the others cannot take the last.
    reserve: Option<u64>,
    /// Frames of the folio that is being added, in the order of its pages.
    frames: Vec<u64>,
    /// Pages of the request that is being made.
    request: Vec<PageTransfer>,
    /// Folios that have been added, where that is watched.
    added: Vec<Folio>,
    error: Option<OsError>,
}

impl PageCache for Filler<'_, '_> {
    fn file_pages(&self) -> u64 {
        self.paging.file_pages(self.need.file)
    }

    fn folio(&self, page: u64) -> Option<Folio> {
        self.paging.folio(self.need.file, page)
    }
}

impl Filling for Filler<'_, '_> {
    fn add(&mut self, folio: Folio) -> bool {
        let pages = folio.first..folio.first + folio.pages();
        if self.paging.spares(self.need.file, pages.clone()) {
            return true;
        }
        let mut frames = std::mem::take(&mut self.frames);
        frames.extend(pages.clone().map_while(|page| self.frame_for(page)));
        let is_room = frames.len() as u64 == folio.pages();
        if is_room {
            if self.paging.watched.is_some() {
                self.added.push(folio);
            }
            pages.zip(&frames).for_each(|(page, frame)| self.enter(page, *frame, folio));
        } else {
            self.give_back(pages.start, &frames);
        }
        frames.clear();
        self.frames = frames;
        is_room
    }

    fn submit(&mut self) {
        let folios = std::mem::take(&mut self.added);
        if let Some(watched) = &mut self.paging.watched
            && !folios.is_empty()
        {
            watched.push((self.need.file, folios));
        }
        let mut pages = std::mem::take(&mut self.request);
        if !pages.is_empty() {
            self.paging.counters.readahead_requests += 1;
            pages.sort_by_key(|page| page.store_address);
            self.paging.start_transfer(pages, false, false, self.need.work);
        }
    }

    fn unmark(&mut self, folio: Folio) {
        if let Some(frame) = self.paging.cached(self.need.file, folio.first) {
            self.paging.frames.get_mut(frame).cached.marked = false;
        }
    }

    fn sane_pages(&self) -> u64 {
        (self.paging.frames.free() + self.paging.reclaim.inactive_file_pages()) / 2
    }

    fn is_congested(&self) -> bool {
        self.paging.reads_are_congested
    }
}

impl Paging {
    /// From now on it is written down what readahead adds to the page cache.
    pub fn watch_readahead(&mut self) {
        self.watched = Some(Vec::new());
    }

    /// What readahead has added since: requests in their order, each with its folios, by files.
    pub fn readahead_seen(&self) -> impl Iterator<Item = (FileId, &[Folio])> {
        let requests = self.watched.iter().flatten();
        requests.map(|(file, folios)| (self.name_of(*file), folios.as_slice()))
    }

    /// Tells whether the device's queue is full of reads, until it is told otherwise.
    pub fn tell_congestion(&mut self, reads_are_congested: bool) {
        self.reads_are_congested = reads_are_congested;
    }
}

impl Filler<'_, '_> {
    fn frame_for(&mut self, page: u64) -> Option<u64> {
        if page == self.need.wanted.start
            && let Some(frame) = self.reserve.take()
        {
            return Some(frame);
        }
        let owner = Owner::File(self.need.file, page);
        let Need { work, held, .. } = &mut self.need;
        match self.paging.allocate(owner, work, held) {
            Ok(frame) => {
                frame.inspect(|frame| self.paging.hold(*frame));
                frame
            }
            Err(error) => {
                self.error.get_or_insert(error);
                None
            }
        }
    }

    /// A folio found no room as a whole.
    fn give_back(&mut self, first: u64, frames: &[u64]) {
        for (page, frame) in (first..).zip(frames) {
            if page == self.need.wanted.start {
                self.reserve = Some(*frame);
            } else {
                self.paging.release(*frame);
            }
        }
    }

    /// A page has its frame: it is read, or cleared where the file has a hole.
    fn enter(&mut self, page: u64, frame: u64, folio: Folio) {
        let Need { file, wanted, work, .. } = &mut self.need;
        let ahead = !wanted.contains(&page);
        let marked = folio.marked && page == folio.first;
        let info = self.paging.frames.get_mut(frame);
        info.cached = Cached { order: folio.order as u8, marked, ahead };
        self.paging.cache.set(file_key(*file, page), frame);
        self.paging.counters.readahead_pages += u64::from(ahead);
        match self.paging.store_address(*file, page) {
            Some(store_address) => {
                if wanted.is_empty() || page != wanted.start {
                    self.paging.note_bypass(store_address);
                }
                self.request.push(PageTransfer { frame, store_address });
            }
            None => {
                self.paging.frames.get_mut(frame).transfer = 0;
                self.paging.clear(frame, work);
                work.push(Work::Path(Stage::PageCache, 1));
            }
        }
    }
}

impl Paging {
    /// Pages of a file, the last of which may be incomplete.
    pub(super) fn file_pages(&self, file: InodeId) -> u64 {
        self.file_size(file).div_ceil(self.page_bytes)
    }

    /// The frame of a page in the page cache, also of one that is being read.
    pub(super) fn cached(&self, file: InodeId, page: u64) -> Option<u64> {
        self.cache.frame(file_key(file, page))
    }

    /// A frame of the page cache whose page can be mapped around a fault: it has been read, and is not in the swap cache.
    fn mappable(&self, frame: u64) -> Option<Frame> {
        let info = self.frames.get(frame);
        let in_swap_cache = info.slot != 0 && matches!(info.owner, Owner::File(..));
        (!info.reading && !in_swap_cache).then_some(info)
    }

    /// The folio that a page in the page cache belongs to.
    pub(super) fn folio(&self, file: InodeId, page: u64) -> Option<Folio> {
        let frame = self.cached(file, page)?;
        Some(self.folio_of(file, page, self.frames.get(frame).cached))
    }

    /// The folio that a page belongs to, of which the page cache knows so much. Its first page has the mark.
    fn folio_of(&self, file: InodeId, page: u64, cached: Cached) -> Folio {
        let order = u32::from(cached.order);
        let first = page >> order << order;
        let marked = if first == page {
            cached.marked
        } else {
            self.cached(file, first).is_some_and(|frame| self.frames.get(frame).cached.marked)
        };
        Folio { first, order, marked }
    }

    /// A file is opened: calls and mappings by it have a readahead of their own ([`Paging::reads_by`]).
    pub fn new_opening(&mut self) -> u32 {
        // Numbers come round after more openings than a run has; then one has two.
        self.openings = self.openings.wrapping_add(1).max(1);
        self.openings
    }

    /// The calls that follow are by this opening of their file: 0 where nothing has opened it.
    #[inline]
    pub fn reads_by(&mut self, opening: u32) {
        self.opening = opening;
    }

    /// It is a machine of so many hardware threads.
    pub fn set_processors(&mut self, processors: usize) {
        self.pace.set_processors(processors as u64);
    }

    /// What follows is asked for by this thread, which can pause if it makes too much dirty, or cannot.
    #[inline]
    pub fn asked_by(&mut self, thread: u32, pauses: bool) {
        (self.thread, self.pauses) = (thread, pauses);
    }

    /// An opening is closed; a mapping that was made by it keeps its readahead.
    pub fn close_opening(&mut self, file: InodeId, number: u32) {
        let Some(state) = self.files.get_mut(&file) else { return };
        if let Some(opening) = state.openings.iter_mut().find(|it| it.number == number) {
            opening.closed = true;
            self.forget_closed(file);
        }
    }

    /// Openings of a file that are closed, and by which nothing is mapped any more, go.
    fn forget_closed(&mut self, file: InodeId) {
        let Some(state) = self.files.get_mut(&file) else { return };
        let space = &self.space;
        state.openings.retain(|it| !it.closed || space.maps_by(file, it.number));
    }

    /// Readahead of a file by the opening that is in use.
    pub(super) fn readahead_of(&mut self, file: InodeId) -> &mut Readahead {
        &mut self.opening_of(file).readahead
    }

    /// The opening of a file that is in use.
    #[inline]
    pub(super) fn opening_of(&mut self, file: InodeId) -> &mut Opening {
        let number = self.opening;
        let has_it = |state: &FileState| state.openings.iter().position(|it| it.number == number);
        let at = self.files.get(&file).and_then(has_it);
        let at = at.unwrap_or_else(|| self.add_opening(file));
        &mut self.file(file).openings[at]
    }

    #[cold]
    fn add_opening(&mut self, file: InodeId) -> usize {
        /// More than that are looked through for what mappings have let go of since.
        const FEW: usize = 8;
        let (number, readahead) = (self.opening, Readahead::new(self.readahead));
        if self.file(file).openings.len() > FEW {
            self.forget_closed(file);
        }
        let openings = &mut self.file(file).openings;
        openings.push(Opening { number, readahead, last_read: None, closed: false });
        openings.len() - 1
    }

    /// Lets readahead read what it finds right. Afterwards the first wanted page is in the page
    /// cache, or being read, where true is returned; else all frames are in transfer.
    pub(super) fn fill(
        &mut self,
        need: Need<'_>,
        decide: impl FnOnce(&mut Readahead, &mut Filler<'_, '_>),
    ) -> Result<bool, OsError> {
        let (file, first) = (need.file, need.wanted.start);
        let mut filler = Filler {
            paging: self,
            need,
            reserve: None,
            frames: Vec::new(),
            request: Vec::new(),
            added: Vec::new(),
            error: None,
        };
        if !filler.need.wanted.is_empty() && filler.paging.cached(file, first).is_none() {
            filler.reserve = filler.frame_for(first);
            if filler.reserve.is_none() {
                return filler.error.map_or(Ok(false), Err);
            }
        }
        let mut readahead = filler.paging.readahead_of(file).clone();
        decide(&mut readahead, &mut filler);
        if filler.reserve.is_some() {
            filler.submit();
            filler.add(Folio { first, order: 0, marked: false });
            filler.submit();
        }
        let error = filler.error;
        *self.readahead_of(file) = readahead;
        error.map_or(Ok(true), Err)
    }

    /// Maps what is in the page cache around a fault, as [`around::map`] says; whether the page
    /// itself is mapped now: not where reclaim has taken it out of its folio.
    pub(super) fn map_around(&mut self, file: InodeId, vma: &around::Vma, page: u64) -> bool {
        let around = self.limits.as_ref().map_or(1, |limits| limits.fault_around);
        let mut readahead = self.readahead_of(file).clone();
        let read = Read::near(self, file, page);
        let mut entries = Entries::near(self, file, vma, page);
        let mapped = readahead.map_around(&read, &mut entries, vma, page, around);
        let new = entries.new;
        *self.readahead_of(file) = readahead;
        self.map_file_pages(file, vma, &new);
        mapped && new.iter().any(|(near, _)| *near == page)
    }

    /// Maps the folio of a page that faulted, as [`around::map_folio`] says.
    pub(super) fn map_folio(&mut self, file: InodeId, vma: &around::Vma, page: u64) {
        let Some(folio) = self.folio(file, page) else { return };
        let mut entries = Entries::near(self, file, vma, page);
        around::map_folio(&Read::near(self, file, page), &mut entries, vma, page, folio);
        let new = entries.new;
        self.map_file_pages(file, vma, &new);
    }

    /// Maps pages of a file, each in its frame.
    fn map_file_pages(&mut self, file: InodeId, vma: &around::Vma, pages: &[(u64, u64)]) {
        let shared = || self.space.find(vma.address).is_some_and(|(_, mapping)| mapping.shared);
        let writable = self.is_in_swap(file) && shared();
        let is_locked = self.is_locked(vma.address);
        for &(index, frame) in pages {
            let page = vma.address + index - vma.first;
            self.map_file_frame(frame, page);
            self.space.set(page, Pte::Present { frame, writable });
            if is_locked {
                self.lock_frame(frame);
            }
        }
    }
}

/// The page cache of a file without what is still being read, which cannot be mapped.
struct Read<'a> {
    paging: &'a Paging,
    file: InodeId,
    /// What is looked at lies there, most of it.
    near: CachedNear<'a>,
}

impl Read<'_> {
    fn near(paging: &Paging, file: InodeId, page: u64) -> Read<'_> {
        Read { paging, file, near: paging.cache.near(file_key(file, page)) }
    }
}

impl PageCache for Read<'_> {
    fn file_pages(&self) -> u64 {
        self.paging.file_pages(self.file)
    }

    fn folio(&self, page: u64) -> Option<Folio> {
        let (frame, is_plain) = self.near.frame(file_key(self.file, page))?;
        if is_plain {
            return Some(Folio { first: page, order: 0, marked: false });
        }
        let info = self.paging.mappable(frame)?;
        Some(self.paging.folio_of(self.file, page, info.cached))
    }
}

/// New entries of the page table for pages of a file.
struct Entries<'a> {
    paging: &'a Paging,
    file: InodeId,
    vma: &'a around::Vma,
    /// Entries of the page-table page that has them all.
    table: TableEntries<'a>,
    /// Each page, and its frame.
    new: Vec<(u64, u64)>,
}

impl Entries<'_> {
    fn near<'a>(paging: &'a Paging, file: InodeId, vma: &'a around::Vma, page: u64) -> Entries<'a> {
        let table = paging.space.table_of(vma.address + page - vma.first);
        Entries { paging, file, vma, table, new: Vec::new() }
    }
}

impl around::PageTable for Entries<'_> {
    fn mapped(&self, page: u64) -> bool {
        self.table.get(self.vma.address + page - self.vma.first) != Pte::None
    }

    fn map(&mut self, page: u64) {
        // Reclaim takes single pages, so that a folio may lack some.
        if let Some(frame) = self.paging.cached(self.file, page)
            && self.paging.mappable(frame).is_some()
        {
            self.new.push((page, frame));
        }
    }
}

#[cfg(test)]
mod tests;
