//! Files, mappings, and what calls do to them.

use super::filling::Need;
use super::*;
use crate::os::release::Release;

/// Pages of a file that a program needs no longer: those to be written, and those to be dropped afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unneeded {
    /// Dirty ones of these are written.
    pub written: Range<u64>,
    /// Clean ones of these go.
    pub dropped: Range<u64>,
}

/// What the flags of a call let a program do with a mapping.
pub(super) fn rights_of(flags: u64) -> Rights {
    match flags & (MAP_WRITABLE | MAP_NO_ACCESS) {
        0 => Rights::Read,
        MAP_WRITABLE => Rights::Write,
        _ => Rights::None,
    }
}

impl Paging {
    pub(super) fn grow_store(&mut self, pages: u64) -> Result<u64, OsError> {
        let address = self.store_end;
        if self.limits.is_some() {
            let end = address.saturating_add(pages.saturating_mul(self.page_bytes));
            if end > self.swap_start {
                return Err(self.store_full());
            }
        }
        self.store_end = address.saturating_add(pages.saturating_mul(self.page_bytes));
        Ok(address)
    }

    pub(super) fn file(&mut self, file: InodeId) -> &mut FileState {
        self.files.entry(file).or_insert_with(|| FileState {
            name: file,
            users: 0,
            size_bytes: 0,
            stored_pages: 0,
            base_address: 0,
            openings: Vec::new(),
            reused: true,
            dirtied_ps: None,
            written_up_to: 0,
            allocated_pages: 0,
            ahead: 0..0,
            cut_off: false,
        })
    }

    /// Size of a file, in bytes.
    pub fn file_size(&self, file: InodeId) -> u64 {
        self.files.get(&file).map_or(0, |state| state.size_bytes)
    }

    /// Maps a range. Lengths are rounded up to whole pages.
    pub fn map(&mut self, address: u64, length: u64, flags: u64, file: InodeId, offset: u64) {
        let start = address / self.page_bytes;
        let pages = length.div_ceil(self.page_bytes);
        if pages == 0 {
            return;
        }
        self.unmap(address, length);
        let shared = flags & MAP_SHARED != 0;
        let file = match (file, shared) {
            (NO_FILE, false) => None,
            (NO_FILE, true) => Some((self.new_object(pages), 0)),
            (file, _) => Some((file, offset / self.page_bytes)),
        };
        let mapping = Mapping {
            file,
            shared,
            heap: flags & MAP_HEAP != 0,
            rights: rights_of(flags),
            lock: self.lock_of_new(start, flags),
            opening: self.opening,
            ..Mapping::anonymous(pages)
        };
        self.space.map(start, mapping);
    }

    /// The area that a virtual page belongs to.
    pub fn area(&self, page: u64) -> Area {
        let Some((first, mapping)) = self.space.find(page) else {
            return Area { index: Area::REST, pages: page..page + 1 };
        };
        let index = match mapping.file {
            Some((file, _)) if !processes::is_object(file) => Area::FILES + self.name_of(file),
            None if mapping.heap => Area::HEAP,
            _ => Area::ANONYMOUS,
        };
        Area { index, pages: first..first + mapping.pages }
    }

    /// Unmaps a range and frees what only it used.
    pub fn unmap(&mut self, address: u64, length: u64) {
        let start = address / self.page_bytes;
        self.unmap_pages(start, length.div_ceil(self.page_bytes));
    }

    pub(super) fn unmap_pages(&mut self, start: u64, pages: u64) {
        self.forget_unmapped_in(start..start.saturating_add(pages));
        let nameless = self.nameless_in(start, pages);
        self.release_range(start, pages);
        self.space.unmap(start, pages);
        self.drop_tables(start..start.saturating_add(pages));
        self.drop_unmapped(nameless);
    }

    pub(super) fn release_range(&mut self, start: u64, pages: u64) {
        let huge = self.split_for_unmapping(start..start.saturating_add(pages));
        for page in self.space.touched(start, pages) {
            match self.space.take(page) {
                Pte::None => {}
                Pte::Swapped(slot) => self.free_slot(slot),
                Pte::Present { frame, .. } => {
                    self.effects.push(Effect::Shootdown(page));
                    self.unmap_frame(frame, page);
                }
            }
        }
        huge.into_iter().for_each(|first| self.drop_table(first));
    }

    pub(super) fn unmap_frame(&mut self, frame: u64, page: u64) {
        let info = self.frames.get_mut(frame);
        if let Owner::Anonymous(_) = info.owner {
            if self.remove_mapper(frame, page) || !self.is_exclusive(frame) {
                self.unlock_unneeded(frame);
                return;
            }
            let info = self.frames.get_mut(frame);
            let slot = std::mem::take(&mut info.slot);
            info.owner = Owner::Free;
            if info.transfer == 0 {
                self.release(frame);
            }
            if let Some(slot) = slot.checked_sub(1) {
                self.forget_slot(slot);
            }
        } else {
            info.mapped_at = Frame::UNMAPPED;
            if std::mem::take(&mut info.young) && self.uses_count(page) {
                // `zap_present_folio_ptes`, mm/memory.c.
                self.reclaim.mark_accessed(frame);
            }
            self.unlock_unneeded(frame);
        }
    }

    /// Moves or resizes a mapping; pages keep their content.
    pub fn remap(&mut self, old: u64, old_length: u64, new: u64, new_length: u64) {
        let page_bytes = self.page_bytes;
        let (from, to) = (old / page_bytes, new / page_bytes);
        let (old_pages, new_pages) =
            (old_length.div_ceil(page_bytes), new_length.div_ceil(page_bytes));
        if new_pages == 0 {
            return;
        }
        let mapping = self.space.find(from).map(|(at, m)| {
            let file = m.file.map(|(file, first)| (file, first + from - at));
            Mapping { file, pages: new_pages, ..m }
        });
        let mapping = mapping.unwrap_or(Mapping::anonymous(new_pages));
        if from == to {
            if new_pages < old_pages {
                return self.unmap_pages(from + new_pages, old_pages - new_pages);
            }
            return self.grow_mapping(from, old_pages, mapping);
        }
        self.forget_unmapped_in(from..from.saturating_add(old_pages));
        self.unmap(new, new_length);
        let nameless = self.nameless_in(from, old_pages);
        let kept = old_pages.min(new_pages);
        let by = to.wrapping_sub(from);
        let huge = self.lift_huge(from..from.saturating_add(kept), by);
        let entries: Vec<Pte> = (0..kept).map(|i| self.space.take(from + i)).collect();
        // What the old place mapped is not gone, but mapped by the new one in a moment.
        self.release_range(from, old_pages);
        self.space.unmap(from, old_pages);
        self.drop_tables(from..from.saturating_add(old_pages));
        self.space.map(to, mapping);
        self.drop_unmapped(nameless);
        self.put_huge(huge, by);
        for (i, pte) in entries.into_iter().enumerate() {
            self.move_entry(from + i as u64, to + i as u64, pte);
        }
    }

    /// A mapping of so many pages becomes this, which is as long or longer: what is new of it is as its begin.
    fn grow_mapping(&mut self, first: u64, old_pages: u64, mapping: Mapping) {
        let (new, more) = (first.saturating_add(old_pages), mapping.pages - old_pages);
        if old_pages == 0 || self.space.find(first).is_none() {
            return self.space.map(first, mapping);
        }
        if more > 0 {
            self.forget_unmapped_in(new..new.saturating_add(more));
            let file = mapping.file.map(|(file, page)| (file, page + old_pages));
            self.space.map(new, Mapping { pages: more, file, ..mapping });
            self.space.advise(new, more, |_| {});
        }
    }

    pub(super) fn move_entry(&mut self, from: u64, to: u64, pte: Pte) {
        match pte {
            Pte::None => return,
            Pte::Swapped(slot) if self.sharing.entries_of(slot) > 1 => {}
            Pte::Swapped(slot) => self.slot_pages.set(slot, to + 1),
            Pte::Present { frame, .. } => {
                let info = self.frames.get_mut(frame);
                if info.head(frame) == frame {
                    self.effects.push(Effect::Shootdown(from));
                }
                if info.mapped_at == from {
                    info.mapped_at = to;
                }
                let Frame { owner, sharers, slot, .. } = *info;
                match owner {
                    Owner::Anonymous(_) if sharers > 0 => self.note_move(frame, from, to),
                    Owner::Anonymous(_) => {
                        self.own(frame, to);
                        if let Some(slot) = slot.checked_sub(1) {
                            self.slot_pages.set(slot, to + 1);
                        }
                    }
                    _ => {}
                }
            }
        }
        self.space.set(to, pte);
        if let Pte::Present { frame, .. } = pte {
            // Parts of what has moved may have been locked otherwise.
            self.lock_as_mapped(to, frame);
        }
    }

    /// Takes advice on a range.
    pub fn advise(
        &mut self,
        address: u64,
        length: u64,
        advice: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<(), OsError> {
        let start = address / self.page_bytes;
        let pages = length.div_ceil(self.page_bytes);
        if advice == Advice::DontNeed as u64
            || advice == Advice::Free as u64 && self.going(advice).is_none()
        {
            if self.has_locked(start, pages) {
                // It is refused (`can_madv_lru_vma`, mm/internal.h).
                return Ok(());
            }
            self.release_range(start, pages);
            self.drop_tables_of_advice(start..start.saturating_add(pages));
            return Ok(());
        }
        if advice == Advice::Random as u64 {
            self.advise_mappings(start, pages, |mapping| mapping.pattern = Pattern::Random);
        } else if advice == Advice::Sequential as u64 {
            self.advise_mappings(start, pages, |mapping| mapping.pattern = Pattern::Sequential);
        } else if advice == Advice::Normal as u64 {
            self.advise_mappings(start, pages, |mapping| mapping.pattern = Pattern::Normal);
        } else if advice == Advice::Huge as u64 || advice == Advice::NoHuge as u64 {
            let is_wanted = advice == Advice::Huge as u64;
            self.advise_mappings(start, pages, |mapping| mapping.huge = Some(is_wanted));
        } else if let Some(going) = self.going(advice) {
            self.let_go_of_range(start..start.saturating_add(pages), going, work, held)?;
        } else if advice == Advice::WillNeed as u64 && self.limits.is_some() {
            for (file, pages) in self.space.files_in(start, pages) {
                if self.is_in_swap(file) {
                    self.need_shmem(file, pages, work, held)?;
                } else {
                    self.need_pages(file, pages, work, held)?;
                }
            }
            if self.readahead.release > Release::V2_6_32 {
                self.need_swapped(start..start.saturating_add(pages), work, held)?;
            }
        }
        Ok(())
    }

    fn need_pages(
        &mut self,
        file: InodeId,
        pages: Range<u64>,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<(), OsError> {
        let need = Need { file, wanted: 0..0, work, held };
        let count = pages.end - pages.start;
        self.fill(need, |readahead, cache| readahead.need(cache, pages.start, count))?;
        Ok(())
    }

    /// Takes advice on a range of a file, up to its end where `length` is 0 (`generic_fadvise`, mm/fadvise.c). What a file of
    /// memory is advised does nothing. The pages that are to be written and then dropped, where the program needs them no
    /// longer.
    pub fn advise_file(
        &mut self,
        file: InodeId,
        (offset, length): (u64, u64),
        advice: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<Option<Unneeded>, OsError> {
        if self.limits.is_none() || self.is_in_swap(file) {
            return Ok(None);
        }
        let release = self.readahead.release;
        let is = |of: Advice| advice == of as u64;
        if !self.files.contains_key(&file) {
            return Ok(None);
        }
        if is(Advice::Normal) {
            self.readahead_of(file).advise(Pattern::Normal);
            self.file(file).reused = true;
        } else if is(Advice::Random) {
            self.readahead_of(file).advise(Pattern::Random);
        } else if is(Advice::Sequential) {
            self.readahead_of(file).advise(Pattern::Sequential);
        } else if is(Advice::NoReuse) && release == Release::V6_18 {
            self.file(file).reused = false;
        }
        let end = if length == 0 { u64::MAX } else { offset.saturating_add(length) };
        let (size, page_bytes) = (self.file_size(file), self.page_bytes);
        if is(Advice::WillNeed) {
            let pages = offset / page_bytes..end.min(size).div_ceil(page_bytes);
            if !pages.is_empty() {
                self.need_pages(file, pages, work, held)?;
            }
        }
        if !is(Advice::DontNeed) || size == 0 {
            return Ok(None);
        }
        // The last page stays where only some of it was told of: since 4.17 not where that is all there is (its end is the
        // file's), and in 2.6.32 never. That also writes all that is dirty.
        let is_to_end = end == size && release == Release::V6_18;
        let past = match release {
            _ if is_to_end => end.div_ceil(page_bytes),
            Release::V2_6_32 => end.div_ceil(page_bytes),
            _ => end / page_bytes,
        };
        let written = match release {
            Release::V2_6_32 => 0..u64::MAX,
            _ => offset / page_bytes..end.div_ceil(page_bytes),
        };
        Ok(Some(Unneeded { written, dropped: offset.div_ceil(page_bytes)..past }))
    }

    /// Drops the clean pages of a range of a file that nobody uses, folio by folio where one is all within it
    /// (`mapping_try_invalidate`, mm/truncate.c).
    pub fn drop_unneeded(&mut self, file: InodeId, pages: Range<u64>) {
        let (first, past) = (file_key(file, pages.start), file_key(file, self.file_pages(file)));
        let past = past.min(file_key(file, 0).saturating_add(pages.end));
        // Of a long range of a file of which little is there, what is there.
        const FEW: u64 = 1 << 12;
        let within = |map: &CowMap<u64>| -> Vec<u64> {
            let keys: Vec<u64> = if past.saturating_sub(first) <= FEW {
                (first..past).filter(|key| map.get(*key) != 0).collect()
            } else {
                map.iter_from(first).map(|(key, _)| key).take_while(|key| *key < past).collect()
            };
            keys.into_iter().map(|key| key - file_key(file, 0)).collect()
        };
        let (cached, gone) = (within(self.cache.words()), within(&self.shadows));
        // What is known of pages that reclaim has taken goes as well (`clear_shadow_entries`, mm/truncate.c).
        gone.into_iter().for_each(|index| self.shadows.set(file_key(file, index), 0));
        let mut next = pages.start;
        for index in cached {
            if index < next {
                continue;
            }
            let folio = self
                .folio(file, index)
                .map_or(index..index + 1, |folio| folio.first..folio.first + folio.pages());
            next = folio.end;
            if folio.start < pages.start || folio.end > pages.end {
                continue;
            }
            let frames: Vec<(u64, u64)> =
                folio.filter_map(|page| Some((page, self.cached(file, page)?))).collect();
            if frames.iter().all(|(page, frame)| self.is_unused((file, *page), *frame)) {
                frames.into_iter().for_each(|(page, frame)| self.drop_clean((file, page), frame));
            } else if self.readahead.release == Release::V4_9 {
                frames.into_iter().for_each(|(_, frame)| self.leave_once_written(frame));
            }
        }
    }

    /// Whether a page of the page cache is clean, and nobody maps it or waits for it.
    fn is_unused(&self, (file, index): FilePage, frame: u64) -> bool {
        let Frame { dirty, transfer, users, .. } = self.frames.get(frame);
        let is_clean = !dirty && transfer == 0 && self.uncommitted(file, index).is_none();
        is_clean && users == 0 && !self.is_mapped(frame)
    }

    fn drop_clean(&mut self, (file, index): FilePage, frame: u64) {
        let is_ahead = self.frames.get(frame).cached.ahead;
        self.counters.readahead_wasted += u64::from(is_ahead);
        self.cache.remove(file_key(file, index));
        self.release(frame);
    }

    /// A page that cannot go yet is the next to, unless it is mapped (`deactivate_file_page`, mm/swap.c).
    fn leave_once_written(&mut self, frame: u64) {
        if !self.is_mapped(frame) {
            self.reclaim.make_inactive(frame, None);
            self.frames.get_mut(frame).leaves = true;
        }
    }

    /// Whether any page maps a frame of a file.
    pub(super) fn is_mapped(&self, frame: u64) -> bool {
        let info = self.frames.get(frame);
        info.mapped_at != Frame::UNMAPPED
            || info.mapped_twice && !self.other_mappings(frame, Frame::UNMAPPED).is_empty()
    }

    /// What is advised otherwise than what lies around it is a mapping of its own from now on.
    pub(super) fn advise_mappings(&mut self, start: u64, pages: u64, set: impl Fn(&mut Mapping)) {
        for end in [start, start.saturating_add(pages)] {
            let changes = self.space.find(end).is_some_and(|(_, mapping)| {
                let mut advised = mapping;
                set(&mut advised);
                advised != mapping
            });
            if changes {
                self.split_at(end);
            }
        }
        self.space.advise(start, pages, set);
    }

    /// Sets a file's size; pages beyond it are dropped.
    pub fn truncate(&mut self, file: InodeId, length: u64) {
        let pages = length.div_ceil(self.page_bytes);
        let allocated = self.file(file).allocated_pages;
        let old = self.file_size(file).div_ceil(self.page_bytes).max(allocated);
        self.free_places(file, length, pages..old);
        self.discard_later(file, pages..old);
        self.cut_pages(file, pages..old);
        let writes = self.file_system.as_ref().is_some_and(|it| it.writes_cut_off(length));
        let state = self.file(file);
        state.cut_off |= writes && state.size_bytes >= length;
        state.size_bytes = length;
        state.stored_pages = state.stored_pages.min(pages);
        state.allocated_pages = state.allocated_pages.min(pages);
    }

    /// Pages of a file are dropped, and their places are free.
    pub(super) fn cut_pages(&mut self, file: InodeId, pages: Range<u64>) {
        for index in pages {
            let key = file_key(file, index);
            if self.shadows.get(key) != 0 {
                self.shadows.set(key, 0);
            }
            if self.is_in_swap(file) {
                self.cut_shmem(file, index);
                continue;
            }
            self.invalidate_buffered(file, index);
            let cached = self.cache.frame(key).map(|frame| self.frames.get(frame));
            self.cut_off(file, index, cached.is_some_and(|info| info.transfer != 0));
            if let Some(frame) = self.cache.frame(key) {
                self.unmap_everywhere(frame);
                self.forget_dirty(file, index);
                self.cache.remove(key);
                let info = self.frames.get_mut(frame);
                info.owner = Owner::Free;
                match info.transfer.checked_sub(1) {
                    None => self.release(frame),
                    // Its write goes on, and whoever waits for the file's data waits for it.
                    Some(id) => self.transfers[id].cut_files.push(file),
                }
            }
        }
    }
}
