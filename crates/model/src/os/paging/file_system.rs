//! What file calls mean for the file system's metadata, and its journal's thread.

use super::*;
use crate::os::file_system::cold::BlockRun;
use crate::os::file_system::journal::Request;
use crate::os::file_system::{FileSystem, FileSystemCounters, FileSystemSpec};
use crate::power::{Note, Weaknesses};

/// Places side by side that were freed: the first byte, how many, and those that are kept for whom they belonged to.
type Freed = (u64, u64, Vec<(FilePage, u64)>);

impl Paging {
    /// Puts a file system with nothing in it on the store, before anything else is there. `buffers` says
    /// that the store's device buffers writes.
    pub fn add_file_system(&mut self, spec: &FileSystemSpec, buffers: bool) -> Result<(), OsError> {
        let Some(limits) = &self.limits else { return Ok(()) };
        let store_bytes = limits.store_bytes;
        let frame = self.reserve_for_kernel(1)?;
        let mut system = FileSystem::new(spec, self.page_bytes, store_bytes, buffers, frame);
        system.of_release(self.readahead.release);
        if !self.prefilled {
            system.begin_cold();
        }
        self.grow_store(system.reserved_bytes() / self.page_bytes)?;
        self.file_system = Some(system);
        Ok(())
    }

    /// Without a file system, files are the device's own pages, and what syncs one flushes the device
    /// (`blkdev_fsync`, block/fops.c): it buffers writes.
    pub fn flush_device_at_syncs(&mut self) {
        self.flushes_device = true;
    }

    /// What happens to files and to the journal is told from now on, where there is a file system.
    pub fn follow_file_system(&mut self, weaknesses: Weaknesses) {
        self.file_system.iter_mut().for_each(|system| system.follow(weaknesses));
    }

    /// What has happened since the last call.
    pub fn take_notes(&mut self) -> Vec<Note> {
        self.file_system.as_mut().map(FileSystem::take_notes).unwrap_or_default()
    }

    /// The page of a file that a frame holds, if it does.
    pub fn page_in(&self, frame: u64) -> Option<(InodeId, u64)> {
        match self.frames.get(frame).owner {
            Owner::File(file, index) if !processes::is_object(file) => Some((file, index)),
            _ => None,
        }
    }

    /// Whether what a frame holds has to go to the store, or is on its way: not what was only cleared.
    pub fn is_to_be_written(&self, frame: u64) -> bool {
        let info = self.frames.get(frame);
        info.dirty || info.transfer != 0 && !info.reading
    }

    /// Where a page of a file lies on the store, where it has a place.
    pub fn place_in_store(&self, file: InodeId, index: u64) -> Option<u64> {
        self.store_address(file, index)
    }

    /// What the file system has done, where one is described.
    pub fn file_system_counters(&self) -> Option<FileSystemCounters> {
        self.file_system.as_ref().map(|system| system.counters)
    }

    /// The file system takes a change; its thread may have to do something, now or later.
    pub(super) fn change_metadata(&mut self, change: impl FnOnce(&mut FileSystem, u64)) {
        let Some(system) = &mut self.file_system else { return };
        change(system, self.now_ps);
        if let Some(at_ps) = system.order_look() {
            self.wakes.commit_at_ps = Some(at_ps);
        }
        self.wakes.commit |= system.journal.is_wanted();
    }

    /// A name of a file is looked up; the blocks of metadata that are read for that may be asked for
    /// ([`Paging::wanted_metadata`]).
    pub(super) fn look_up(&mut self, file: InodeId) {
        self.file_system.iter_mut().for_each(|system| system.look_up(file));
    }

    /// Runs of blocks of metadata that are to be read before a call goes on, in order.
    pub fn wanted_metadata(&mut self) -> Vec<BlockRun> {
        match self.file_system.as_mut().filter(|system| system.wants_blocks()) {
            Some(system) => system.take_wanted(),
            None => Vec::new(),
        }
    }

    /// Blocks of metadata in a row are read, as a request.
    pub fn read_metadata(&mut self, run: BlockRun, work: &mut Vec<Work>) -> TransferId {
        let BlockRun { place, blocks, .. } = run;
        let places = (0..u64::from(blocks)).map(|nth| place + nth * self.page_bytes).collect();
        self.file_system.iter_mut().for_each(|system| system.reads(blocks));
        self.start_transfer_of(places, false, Moves::Metadata { forced: false }, work)
    }

    /// All that is wanted is read; the last transfer of it, which somebody waits for.
    pub(super) fn read_wanted(&mut self, work: &mut Vec<Work>) -> Option<TransferId> {
        let runs = self.wanted_metadata();
        runs.into_iter().map(|run| self.read_metadata(run, work)).last()
    }

    /// The place of a page of a file is looked for; what has to be read first, if that is not in memory.
    pub(super) fn find_place(
        &mut self,
        file: InodeId,
        index: u64,
        work: &mut Vec<Work>,
    ) -> Option<TransferId> {
        let system = self.file_system.as_mut()?;
        system.look_for(file, index);
        match system.wants_blocks() {
            true => self.read_wanted(work),
            false => None,
        }
    }

    /// Pages of a file are about to be cut off: their places are free.
    pub(super) fn free_places(&mut self, file: InodeId, size_bytes: u64, pages: Range<u64>) {
        let Some(group_bytes) = self.file_system.as_ref().map(FileSystem::group_bytes) else {
            return;
        };
        // One place of each group tells of all.
        let places = pages.clone().filter_map(|index| self.block_of(file, index));
        let places = places.map(|place| place / group_bytes * group_bytes).collect();
        let freed = pages.clone();
        self.change_metadata(|system, now_ps| {
            system.freed(file, size_bytes, freed, &places, now_ps);
        });
    }

    /// The places of pages that are about to be cut off are discarded once that is committed, where the file system does
    /// so; of XFS not those that were never written (`xfs_bmap_del_extent_real`, fs/xfs/libxfs/xfs_bmap.c).
    pub(super) fn discard_later(&mut self, file: InodeId, pages: Range<u64>) {
        let Some(system) = self.file_system.as_ref().filter(|system| system.discards()) else {
            return;
        };
        let place = |index| match system.is_xfs() {
            true => self.store_address(file, index),
            false => self.block_of(file, index),
        };
        let places = pages.filter_map(|index| Some((index, place(index)?)));
        let places: Vec<(u64, u64)> = places.collect();
        if let Some(system) = &mut self.file_system {
            places.into_iter().for_each(|(index, place)| system.frees((file, index), place));
        }
    }

    /// The drive is told what a committed transaction has freed, run by run, but for what belongs to a file again
    /// (`ext4_process_freed_data` and `ext4_discard_work`, fs/ext4/mballoc.c; `xlog_cil_committed`, fs/xfs/xfs_log_cil.c,
    /// and `xfs_discard_extents`, fs/xfs/xfs_discard.c). Nobody gets a place meanwhile, as a write could be overtaken.
    fn discard(&mut self, freed: &BTreeMap<u64, FilePage>, work: &mut Vec<Work>) {
        let mut runs: Vec<Freed> = Vec::new();
        for (&place, &(file, index)) in freed {
            if self.block_of(file, index) == Some(place) {
                continue;
            }
            let key = file_key(file, index);
            let is_kept = self.extents.get(key) == place | extent::FREE;
            if is_kept {
                self.extents.set(key, 0);
            }
            if runs.last().is_none_or(|(address, bytes, _)| address + bytes != place) {
                runs.push((place, 0, Vec::new()));
            }
            if let Some((_, bytes, kept)) = runs.last_mut() {
                *bytes += self.page_bytes;
                kept.extend(is_kept.then_some(((file, index), place)));
            }
        }
        for (address, bytes, kept) in runs {
            let id = self.start_own_transfer(Vec::new(), Moves::Discard { address, bytes }, work);
            self.discarded.insert(id, kept);
        }
    }

    /// The drive has forgotten what lay in some places: whose these were may get them again.
    pub(super) fn finish_discard(&mut self, id: TransferId) {
        for ((file, index), place) in self.discarded.remove(&id).into_iter().flatten() {
            let key = file_key(file, index);
            if self.extents.get(key) == 0 {
                self.extents.set(key, place | extent::FREE);
            }
        }
    }

    /// A write call has ended at this byte.
    pub fn extend_file(&mut self, file: InodeId, end_bytes: u64) {
        let last = end_bytes.saturating_sub(1) / self.page_bytes;
        let grown = self.file_size(file) < end_bytes
            && self.store_address(file, last).is_some()
            && !self.is_sized_when_written(file, last);
        self.change_metadata(|system, now_ps| {
            if grown {
                system.grew(file, end_bytes);
            }
            system.wrote(file, grown, now_ps);
        });
        let state = self.file(file);
        state.size_bytes = state.size_bytes.max(end_bytes);
    }

    /// Blocks are allocated when a call writes them, where the file system does not delay that.
    pub(super) fn allocate_now(&mut self, file: InodeId, index: u64) -> Result<(), OsError> {
        match &self.file_system {
            Some(system) if !system.delays_allocation() => self.place_for(file, index).map(drop),
            _ => Ok(()),
        }
    }

    /// Whether data go through the file system's log.
    pub fn journals_data(&self) -> bool {
        self.file_system.as_ref().is_some_and(FileSystem::journals_data)
    }

    /// Whether calls that are to go past the page cache go through it: data in the log do
    /// (`ext4_should_use_dio`, fs/ext4/file.c), and files in memory are nowhere else.
    pub fn caches_direct_calls(&self) -> bool {
        self.journals_data() || self.tmpfs.is_some()
    }

    /// The frame that has a page of a file.
    pub fn frame_of(&self, file: InodeId, index: u64) -> Option<u64> {
        self.cached(file, index)
    }

    /// A page of a file has been changed: where data go through the log, it goes there, and has its place from now on
    /// (`ext4_page_mkwrite`, fs/ext4/inode.c). Where there is no room for that, its write-back says so.
    pub(super) fn journal_data(&mut self, file: InodeId, index: u64) {
        if self.journals_data()
            && let Ok(place) = self.place_for(file, index)
        {
            self.change_metadata(|system, now_ps| {
                system.changed_data((file, index), place, now_ps);
            });
        }
    }

    /// The transaction that has data of a page and is not committed.
    pub(super) fn uncommitted(&self, file: InodeId, index: u64) -> Option<u64> {
        let system = self.file_system.as_ref().filter(|system| system.journals_data())?;
        system.uncommitted(self.store_address(file, index)?)
    }

    /// A transaction is to be committed, and nobody waits for it.
    pub(super) fn ask_to_commit(&mut self, number: u64) {
        if let Some(system) = &mut self.file_system {
            self.wakes.commit |= system.journal.ask_for(number).is_some();
        }
    }

    /// What stands for the commit of data of these pages, where they are in the log and not committed
    /// (`ext4_do_writepages`, fs/ext4/inode.c).
    pub(super) fn commit_data(
        &mut self,
        pages: Range<FilePage>,
        work: &mut Vec<Work>,
    ) -> Option<TransferId> {
        if !self.journals_data() {
            return None;
        }
        let dirty = self.dirty.within(pages);
        let number = dirty.filter_map(|(file, index)| self.uncommitted(file, index)).max()?;
        self.wait_for_commit(Some(number), work).map(|(id, _)| id)
    }

    /// What stands for the commit of a transaction that has as much data as one takes.
    pub(super) fn wait_for_room_in_log(&mut self, work: &mut Vec<Work>) -> Option<TransferId> {
        let number = self.file_system.as_ref()?.is_full()?;
        self.wait_for_commit(Some(number), work).map(|(id, _)| id)
    }

    /// Data have begun to be written to their places for a sync.
    pub(super) fn begin_empty(&mut self, for_sync: bool) {
        if for_sync && self.journals_data() {
            self.change_metadata(|system, now_ps| system.begin_empty(now_ps));
        }
    }

    /// What a commit is about to write to the log does not change meanwhile
    /// (`ext4_journalled_submit_inode_data_buffers`, fs/ext4/super.c): stores fault, and join the next transaction.
    fn guard_committing(&mut self) {
        let committing = self.file_system.as_ref().and_then(|system| system.journal.committing());
        let pages: Vec<FilePage> =
            committing.map(|it| it.data.values().copied().collect()).unwrap_or_default();
        for (file, index) in pages {
            if let Some(frame) = self.cached(file, index) {
                self.guard(frame);
            }
        }
    }

    /// Data that are committed go to their places, so that the log may forget them: from the page cache, or from the
    /// log's copy where the page has been changed since, or cut off.
    fn checkpoint_data(
        &mut self,
        data: &[(u64, FilePage)],
        work: &mut Vec<Work>,
    ) -> Result<(), OsError> {
        let (mut pages, mut copies) = (Vec::new(), Vec::new());
        for &(place, (file, index)) in data {
            let is_there = self.store_address(file, index) == Some(place);
            let cached = self.cached(file, index).filter(|_| is_there);
            match cached.filter(|_| self.uncommitted(file, index).is_none()) {
                None => copies.push(place),
                Some(frame) => match self.frames.get(frame).transfer.checked_sub(1) {
                    Some(id) => self.file_system.iter_mut().for_each(|it| it.await_data(id)),
                    None => pages.push(self.clean_file_page(frame, file, index)?),
                },
            }
        }
        self.write_metadata(&copies, work);
        if !pages.is_empty() {
            let id = self.start_write(pages, work);
            self.file_system.iter_mut().for_each(|system| system.await_data(id));
        }
        Ok(())
    }

    /// The data of a file have been written: what its sync has to wait for yet, once, and whether the drive has
    /// to be flushed then, as the commit has flushed it already (`jbd2_trans_will_send_data_barrier`).
    pub fn sync_metadata(
        &mut self,
        file: InodeId,
        data_only: bool,
        work: &mut Vec<Work>,
    ) -> Option<(TransferId, bool)> {
        let Some(system) = &self.file_system else {
            let flushes = self.flushes_device && self.tmpfs.is_none();
            return flushes.then(|| (self.start_flush(work), false));
        };
        let number = system.needs(file, data_only);
        self.wait_for_commit(number, work)
    }

    /// The data of all files have been written: what a sync of them all has to wait for, as that of one file
    /// (`ext4_sync_fs`, fs/ext4/super.c).
    ///
    /// XFS forces its log, and flushes nothing where that has nothing (`xfs_fs_sync_fs`, fs/xfs/xfs_super.c).
    pub fn sync_all_metadata(&mut self, work: &mut Vec<Work>) -> Option<(TransferId, bool)> {
        let system = self.file_system.as_ref()?;
        let (number, is_xfs) = (system.journal.newest(), system.is_xfs());
        if !is_xfs {
            return self.wait_for_commit(number, work);
        }
        let (id, _) = self.wait_for_commit(Some(number?), work)?;
        Some((id, false))
    }

    fn wait_for_commit(
        &mut self,
        number: Option<u64>,
        work: &mut Vec<Work>,
    ) -> Option<(TransferId, bool)> {
        let system = self.file_system.as_mut()?;
        let Some(number) = number else {
            // What was written is made durable by a flush alone (`ext4_sync_file`).
            return system.flushes().then(|| (self.start_flush(work), false));
        };
        let (flushes, is_xfs) = (system.flushes(), system.is_xfs());
        let asked = system.journal.ask_for(number)?;
        self.wakes.commit = true;
        // Of XFS only who has the log's last buffer written knows of its flush (`log_flushed`, `xlog_force_lsn`).
        let flushed = asked.flushed || is_xfs && asked.waited_for.is_some();
        let again = flushed && flushes;
        if let Some(id) = asked.waited_for {
            return Some((id, again));
        }
        let id = self.transfers.insert(Transfer {
            left: 1,
            pages: Vec::new(),
            write: true,
            submitted: true,
            swap: false,
            moves: Moves::Commit,
            leaving: 0,
            cut_files: Vec::new(),
        });
        asked.waited_for = Some(id);
        Some((id, again))
    }

    /// What stands for the commit that is being made, and for the next, which waits for it: where somebody
    /// waits for them.
    pub fn waited_for_commits(&self) -> [Option<TransferId>; 2] {
        self.file_system.as_ref().map_or([None; 2], |system| system.journal.waited_for())
    }

    /// The time has come to look for a transaction that is old.
    pub fn commit_old(&mut self, now_ps: u64) {
        if let Some(system) = &mut self.file_system {
            system.look(now_ps);
        }
        self.change_metadata(|_, _| ());
    }

    /// The journal's thread goes on (`kjournald2`, fs/jbd2/journal.c): the transfer that it waits for, and
    /// what stood for a commit that is made. Neither, once it may sleep.
    pub fn commit(
        &mut self,
        work: &mut Vec<Work>,
    ) -> Result<(Option<TransferId>, Option<TransferId>), OsError> {
        loop {
            let Some(system) = &mut self.file_system else { return Ok((None, None)) };
            let Some(request) = system.next_request(self.now_ps)? else { return Ok((None, None)) };
            let waits = match &request {
                Request::AwaitData(file, pages) => self.writing(*file, pages.clone()),
                Request::AwaitMetadata => system.metadata_under_way(),
                Request::AwaitLog => system.journal.log_under_way(),
                Request::Flush => {
                    system.journal.begin_flush();
                    return Ok((Some(self.start_flush(work)), None));
                }
                Request::Finish => {
                    let now_ps = self.now_ps;
                    let done = system.finish().and_then(|it| {
                        self.discard(&it.freed, work);
                        it.waited_for
                    });
                    self.order_look(now_ps);
                    self.change_metadata(|_, _| ());
                    if done.is_some() {
                        return Ok((None, done));
                    }
                    None
                }
                Request::WriteData(file, pages) => {
                    while self.write_range(*file, pages.clone(), work)?.is_some() {}
                    None
                }
                Request::Data(data) => {
                    self.checkpoint_data(data, work)?;
                    None
                }
                Request::Metadata(places) => {
                    self.write_metadata(places, work);
                    None
                }
                Request::Log { blocks, forced } => {
                    self.guard_committing();
                    let Some(system) = &self.file_system else { continue };
                    let places = blocks.iter().map(|block| system.log_place(*block)).collect();
                    let id =
                        self.start_own_transfer(places, Moves::Metadata { forced: *forced }, work);
                    let count = blocks.len() as u64;
                    self.file_system.iter_mut().for_each(|system| system.begin_log(id, count));
                    None
                }
            };
            if waits.is_some() {
                self.file_system.iter_mut().for_each(|it| it.journal.again(request.clone()));
                return Ok((waits, None));
            }
        }
    }

    /// Metadata goes to its places; the transfer, where there is any.
    fn write_metadata(&mut self, places: &[u64], work: &mut Vec<Work>) -> Option<TransferId> {
        let count = places.len() as u64;
        if count == 0 {
            return None;
        }
        let moves = Moves::Metadata { forced: false };
        let id = self.start_own_transfer(places.to_vec(), moves, work);
        self.file_system.iter_mut().for_each(|system| system.begin_metadata(id, count));
        Some(id)
    }

    /// Metadata that has been dirty for as long as a file's pages may be is written by the flusher.
    pub(super) fn write_old_metadata(
        &mut self,
        most: usize,
        work: &mut Vec<Work>,
    ) -> Option<TransferId> {
        let due_ps = self.dirty.due_ps()?;
        let places = self.file_system.as_mut()?.take_old(due_ps, most);
        self.write_metadata(&places, work)
    }

    /// A batch of the metadata that has been dirty since `due_ps` or longer goes to its places, as the last thing
    /// that a sync of all files does (`sync_bdevs`, fs/sync.c); `None` once there is none.
    pub fn sync_places(&mut self, due_ps: u64, work: &mut Vec<Work>) -> Option<TransferId> {
        let places = self.file_system.as_mut()?.take_old(due_ps, write_back::FLUSH_BATCH);
        self.write_metadata(&places, work)
    }

    /// The drive is to write what it has buffered.
    pub fn start_flush(&mut self, work: &mut Vec<Work>) -> TransferId {
        self.file_system.iter_mut().for_each(|system| system.counters.store_flushes += 1);
        self.start_own_transfer(Vec::new(), Moves::Nothing, work)
    }

    /// A write, or nothing that moves, of the file system's own.
    fn start_own_transfer(
        &mut self,
        places: Vec<u64>,
        moves: Moves,
        work: &mut Vec<Work>,
    ) -> TransferId {
        self.start_transfer_of(places, true, moves, work)
    }

    /// A request of the file system's own, between its frame and these places.
    fn start_transfer_of(
        &mut self,
        places: Vec<u64>,
        write: bool,
        moves: Moves,
        work: &mut Vec<Work>,
    ) -> TransferId {
        let frame = self.file_system.as_ref().map_or(0, FileSystem::frame);
        let count = places.len().max(1) as u32;
        let page = |store_address| PageTransfer { frame, store_address };
        let id = self.transfers.insert(Transfer {
            left: count,
            pages: places.into_iter().map(page).collect(),
            write,
            submitted: false,
            swap: false,
            moves,
            leaving: 0,
            cut_files: Vec::new(),
        });
        work.push(Work::Path(Stage::FileSystem, 1));
        self.request_paths(count, work);
        work.push(Work::Submit(id));
        id
    }
}

#[cfg(test)]
mod tests;
