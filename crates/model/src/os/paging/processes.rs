//! Processes: memory that a fork shares until it is written, and what exec and exit give back.
//!
//! The pages of a process are those whose numbers have the process's own above their addresses (48
//! bits): so each has page tables, mappings and translations of its own. A fork copies mappings and
//! page-table entries and forbids both sides to store to anonymous pages (`copy_page_range`,
//! `copy_present_ptes`, mm/memory.c of Linux 6.12); the first store of either copies the page, unless
//! nobody else has it any more (`do_wp_page`, `wp_can_reuse_anon_folio`). Entries of mappings that have
//! no anonymous page are not copied: a fault fills them (`vma_needs_copy`).

use super::*;

/// Bits of an address below a process's number.
const ADDRESS_BITS: u32 = 48;

/// Who has anonymous memory beside the process that touched it first.
#[derive(Clone, Debug)]
pub(super) struct Sharing {
    /// Processes that have memory in common with another, or have had.
    processes: BTreeSet<u64>,
    /// Pages that map a frame from another place of their process than its owner's: they were moved.
    strays: BTreeSet<(u64, u64)>,
    /// Page-table entries that name a swap slot.
    slot_entries: CowMap<u64>,
    /// Memory that several processes map with stores that all see, as files without a place.
    next_object: InodeId,
}

/// The first number of a file that stands for memory which processes share (`shmem_zero_setup`,
/// mm/shmem.c). Files of the workload have smaller ones.
const FIRST_OBJECT: InodeId = 1 << 27;

/// Whether a file is memory that processes share.
pub(super) fn is_object(file: InodeId) -> bool {
    (FIRST_OBJECT..inodes::FIRST_SPARE).contains(&file)
}

impl Sharing {
    pub(super) fn new() -> Sharing {
        Sharing {
            processes: BTreeSet::new(),
            strays: BTreeSet::new(),
            slot_entries: CowMap::new(0),
            next_object: FIRST_OBJECT,
        }
    }

    pub(super) fn fork(&mut self) -> Sharing {
        Sharing {
            processes: self.processes.clone(),
            strays: self.strays.clone(),
            slot_entries: self.slot_entries.fork(),
            next_object: self.next_object,
        }
    }

    /// Page-table entries that name a slot.
    pub(super) fn entries_of(&self, slot: u64) -> u64 {
        self.slot_entries.get(slot)
    }

    /// So many more entries name a slot.
    pub(super) fn enter_slot(&mut self, slot: u64, entries: u64) {
        *self.slot_entries.get_mut(slot) += entries;
    }

    /// One entry less names a slot. How many are left.
    pub(super) fn leave_slot(&mut self, slot: u64) -> u64 {
        let entries = self.slot_entries.get(slot).saturating_sub(1);
        self.slot_entries.set(slot, entries);
        entries
    }
}

impl Paging {
    fn process_shift(&self) -> u32 {
        ADDRESS_BITS - self.page_bytes.trailing_zeros()
    }

    /// The process that has a virtual page.
    pub fn process_of(&self, page: u64) -> u64 {
        page >> self.process_shift()
    }

    pub(super) fn pages_of_process(&self, process: u64) -> Range<u64> {
        let shift = self.process_shift();
        process << shift..(process + 1) << shift
    }

    /// Virtual pages that map a frame of anonymous memory.
    pub(super) fn mappers(&self, frame: u64) -> Vec<u64> {
        let info = self.frames.get(frame);
        if info.sharers == 0 {
            return Some(info.mapped_at)
                .filter(|page| *page != Frame::UNMAPPED)
                .into_iter()
                .collect();
        }
        self.pages_with(frame, info.owner)
    }

    /// Virtual pages whose entries name a frame of anonymous memory: at the same place in each process,
    /// as `rmap_walk_anon` looks for them, or where they were moved to.
    fn pages_with(&self, frame: u64, owner: Owner) -> Vec<u64> {
        let Owner::Anonymous(home) = owner else { return Vec::new() };
        let shift = self.process_shift();
        let place = home & ((1 << shift) - 1);
        let has = |page: &u64| matches!(self.space.get(*page), Pte::Present { frame: found, .. } if found == frame);
        let alike = self.sharing.processes.iter().map(|process| process << shift | place);
        let strays =
            self.sharing.strays.range((frame, 0)..=(frame, u64::MAX)).map(|(_, page)| *page);
        let pages: BTreeSet<u64> = alike.chain(strays).chain([home]).filter(has).collect();
        pages.into_iter().collect()
    }

    /// Whether nobody but one page has what a frame holds.
    pub(super) fn is_exclusive(&self, frame: u64) -> bool {
        let info = self.frames.get(frame);
        let swapped = |slot| self.sharing.entries_of(slot) > 0;
        info.sharers == 0 && !info.slot.checked_sub(1).is_some_and(swapped)
    }

    /// A page maps a frame of anonymous memory, too.
    pub(super) fn add_mapper(&mut self, frame: u64, page: u64) {
        let shift = self.process_shift();
        let info = self.frames.get_mut(frame);
        if info.mapped_at == Frame::UNMAPPED {
            info.mapped_at = page;
        } else {
            info.sharers += 1;
        }
        if let Owner::Anonymous(home) = info.owner
            && (home ^ page) & ((1 << shift) - 1) != 0
        {
            self.sharing.strays.insert((frame, page));
        }
    }

    /// A page, whose entry has changed, maps a frame of anonymous memory no more. Whether any does.
    pub(super) fn remove_mapper(&mut self, frame: u64, page: u64) -> bool {
        self.sharing.strays.remove(&(frame, page));
        let info = self.frames.get(frame);
        if info.sharers == 0 {
            self.frames.get_mut(frame).mapped_at = Frame::UNMAPPED;
            return false;
        }
        let left = self.pages_with(frame, info.owner);
        debug_assert_eq!(left.len() as u64, u64::from(info.sharers), "one of them has left");
        let info = self.frames.get_mut(frame);
        info.sharers = left.len().saturating_sub(1) as u32;
        info.mapped_at = left.first().copied().unwrap_or(Frame::UNMAPPED);
        !left.is_empty()
    }

    /// A frame of anonymous memory is this page's alone from now on.
    pub(super) fn own(&mut self, frame: u64, page: u64) {
        let info = self.frames.get_mut(frame);
        info.owner = Owner::Anonymous(page);
        info.mapped_at = page;
        self.forget_strays(frame);
    }

    /// A page that shares a frame with others has moved.
    pub(super) fn note_move(&mut self, frame: u64, from: u64, to: u64) {
        self.sharing.strays.remove(&(frame, from));
        self.sharing.strays.insert((frame, to));
    }

    pub(super) fn forget_strays(&mut self, frame: u64) {
        let strays = self.sharing.strays.range((frame, 0)..=(frame, u64::MAX));
        for stray in strays.copied().collect::<Vec<_>>() {
            self.sharing.strays.remove(&stray);
        }
    }

    /// A process is forked: it has what its parent has mapped, and shares what that has touched. How
    /// many page-table entries were copied.
    pub fn fork_process(
        &mut self,
        parent: u64,
        process: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<u32, OsError> {
        self.drop_process(process);
        self.sharing.processes.extend([parent, process]);
        let (from, to) = (self.pages_of_process(parent), self.pages_of_process(process).start);
        self.split_within(from.clone());
        for (at, mapping) in self.space.mappings_in(from.clone()) {
            // The child's is not locked (`dup_mmap`, mm/mmap.c).
            self.space.map(at - from.start + to, Mapping { lock: Lock::No, ..mapping });
        }
        let touched = self.space.touched(from.start, from.end - from.start);
        let mut copied = 0;
        for page in self.needing_copy(&touched) {
            let copy = page - from.start + to;
            // What finds no frame for a table now finds it in a fault.
            self.make_tables(copy, work, held)?;
            copied += u32::from(self.share(page, copy));
        }
        self.effects.push(Effect::Flush(from));
        Ok(copied)
    }

    /// Those of a process's pages with entries that a fork copies: of mappings that have anonymous
    /// pages, and of what nobody has mapped by a call.
    fn needing_copy(&self, touched: &[u64]) -> Vec<u64> {
        let mut needing = Vec::new();
        let mut rest = touched;
        while let Some(first) = rest.first() {
            let mapping = self.space.find(*first);
            let end = mapping.map_or(first + 1, |(at, mapping)| at + mapping.pages);
            let (of_mapping, others) = rest.split_at(rest.partition_point(|page| *page < end));
            let is_anonymous = |page: &u64| match self.space.get(*page) {
                Pte::None => false,
                Pte::Swapped(_) => true,
                Pte::Present { frame, .. } => {
                    matches!(self.frames.get(frame).owner, Owner::Anonymous(_))
                }
            };
            if of_mapping.iter().any(is_anonymous) {
                needing.extend(of_mapping);
            }
            rest = others;
        }
        needing
    }

    /// Copies a page's entry to another page. Whether there was one still.
    fn share(&mut self, page: u64, copy: u64) -> bool {
        match self.space.get(page) {
            Pte::None => return false,
            Pte::Swapped(slot) => {
                self.sharing.enter_slot(slot, 1);
                self.space.set(copy, Pte::Swapped(slot));
            }
            Pte::Present { frame, .. } => {
                let entry = Pte::Present { frame, writable: false };
                self.space.set(page, entry);
                self.space.set(copy, entry);
                if let Owner::Anonymous(_) = self.frames.get(frame).owner {
                    if self.frames.get(frame).lazy {
                        self.keep_after_all(frame);
                    }
                    self.add_mapper(frame, copy);
                } else {
                    self.map_file_frame(frame, copy);
                }
            }
        }
        true
    }

    /// A page maps a frame of a file, too.
    pub(super) fn map_file_frame(&mut self, frame: u64, page: u64) {
        let info = self.frames.get_mut(frame);
        if info.mapped_at == Frame::UNMAPPED {
            info.mapped_at = page;
        } else if info.mapped_at != page {
            info.mapped_twice = true;
        }
        info.young = true;
        let Frame { owner, slot, reading, cached, .. } = *info;
        let is_plain = slot == 0 && !reading && cached.order == 0 && !cached.marked;
        if let (Owner::File(file, index), true) = (owner, is_plain) {
            self.cache.note_plain(file_key(file, index), frame);
        }
    }

    /// A process runs another program, or ends: what it has mapped goes, with its page tables. What
    /// others share stays with them.
    pub fn drop_process(&mut self, process: u64) {
        let pages = self.pages_of_process(process);
        self.forget_locks(process);
        self.unmap_pages(pages.start, pages.end - pages.start);
        let tables = self.space.take_tables(pages.clone());
        if !tables.is_empty() {
            self.effects.push(Effect::Flush(pages));
        }
        tables.into_iter().for_each(|frame| self.release(frame));
    }

    /// A process has ended.
    pub fn end_process(&mut self, process: u64) {
        self.drop_process(process);
        self.sharing.processes.remove(&process);
    }

    /// A number for memory of so many pages that processes share.
    pub(super) fn new_object(&mut self, pages: u64) -> InodeId {
        let object = self.sharing.next_object;
        // Far more than a workload maps; the last number serves for all that come after.
        self.sharing.next_object = (object + 1).min(inodes::FIRST_SPARE - 1);
        let size_bytes = pages * self.page_bytes;
        let state = self.file(object);
        state.size_bytes = state.size_bytes.max(size_bytes);
        self.names.add_nameless(object);
        object
    }
}

#[cfg(test)]
mod tests;
