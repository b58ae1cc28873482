//! Failures of power of a machine whose operating system pages: memory is lost, and the file system on the store
//! carries out its journal again, in time, with the machine's own store.

use super::{Page, Storage, Waiting};
use crate::os::file_system::{Barrier, FileSystemKind, FileSystemSpec, JournalMode};
use crate::power::{
    Content, Files, Guarantees, LOST, Origin, Outage, PowerFailure, Recovery, Replay, Step,
    UnderWay, Weakness, cut_store, oldest,
};
use crate::request::{Control, Device, LineRequest, PageRequest};
use std::collections::VecDeque;
use std::ops::Range;
use tierscope_kernel::Slab;

/// What is on the store.
#[derive(Clone, Debug)]
pub(super) struct OnStore {
    /// None where the file is the device itself.
    pub spec: Option<FileSystemSpec>,
    /// Its blocks are pages of the operating system.
    pub page_bytes: u64,
    /// What the store writes whole or not at all: a block, or a part of one.
    pub store_page_bytes: u64,
}

/// What is followed.
#[derive(Debug)]
pub(super) struct Power {
    pub files: Files,
    page_bytes: u64,
    /// Pages of the store in a block.
    parts: u64,
    /// The store tells what it holds; else it keeps what it has answered.
    follows: bool,
    /// When the store takes requests again, of one whose requests in flight cannot be dropped.
    ready_ps: u64,
    /// What a recovery has yet to ask for: each group once all before it has been answered.
    recovery: VecDeque<VecDeque<Ask>>,
}

/// What a recovery asks the store for.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Read(u64),
    Write { address: u64, content: Content, forced: bool },
    Flush,
}

/// The requests of a recovery, which nobody else waits for.
pub(super) const OF_RECOVERY: u32 = u32::MAX;

impl Power {
    pub(super) fn fork(&mut self) -> Self {
        Power { files: self.files.fork(), recovery: self.recovery.clone(), ..*self }
    }

    /// What a block holds of which `content` tells what the store has at a byte.
    fn block(&self, place: u64, content: impl Fn(u64) -> Content) -> Content {
        let part_bytes = self.page_bytes / self.parts;
        oldest((0..self.parts).map(|part| match content(place + part * part_bytes) {
            LOST => LOST,
            content => content / self.parts,
        }))
    }

    /// What a recovery asks for next, where it may: so many of its requests are under way.
    fn next(&mut self, under_way: usize) -> Option<Ask> {
        while self.recovery.front()?.is_empty() {
            if under_way > 0 {
                return None;
            }
            self.recovery.pop_front();
        }
        self.recovery.front()?.front().copied()
    }
}

/// What the recovery of a file system asks for, after fs/jbd2 (`jbd2_journal_recover`, `journal_reset`): the
/// superblock is read, then the log; blocks go to their places, and are flushed before the superblock says so. So does
/// that of XFS, whose log says so itself (`xlog_do_recover`, fs/xfs/xfs_log_recover.c).
fn asks(replay: &Replay, barrier: Barrier) -> VecDeque<VecDeque<Ask>> {
    let mut groups: Vec<Vec<Ask>> = Vec::new();
    let (first, log) = replay.reads.split_at(replay.reads.len().min(1));
    groups.extend([first, log].map(|reads| reads.iter().map(|at| Ask::Read(*at)).collect()));
    let write = |(address, content), forced| Ask::Write { address, content, forced };
    if replay.transactions > 0 {
        groups.push(replay.writes.iter().map(|one| write(*one, false)).collect());
        let flushes = barrier != Barrier::None;
        groups.extend(flushes.then(|| vec![Ask::Flush]));
        groups.push(vec![write(replay.superblock, barrier == Barrier::ForceUnitAccess)]);
        groups.extend((barrier == Barrier::Flush).then(|| vec![Ask::Flush]));
    }
    groups.into_iter().map(VecDeque::from).collect()
}

impl Storage {
    fn followed(&self) -> &Power {
        match &self.power {
            Some(power) => power,
            None => unreachable!("whoever lets power fail has prepared it"),
        }
    }

    /// The store loses its power. One that keeps what it has answered ends what it is at, which nobody is told of:
    /// what that was may be there or not, and counts as not there.
    fn cut_store(&mut self, now_ps: u64) -> Outage {
        let Some(power) = self.power.as_mut().filter(|power| !power.follows) else {
            return cut_store(&mut self.store, now_ps);
        };
        let mut dropped = Vec::new();
        while let Some(at_ps) = self.store.next_event_ps().filter(|_| self.store.in_flight() > 0) {
            self.store.advance(at_ps, &mut dropped);
            power.ready_ps = at_ps;
        }
        Outage::of_undescribed_start()
    }

    /// What a write of blocks carries to the store: a number for each page of it.
    pub(super) fn carried(&self, content: Content) -> Content {
        self.power.as_ref().map_or(content, |power| content * power.parts)
    }

    /// A write has been answered: reads find it from now on.
    pub(super) fn note_stored(&mut self, request: &PageRequest) {
        let Some(power) = &mut self.power else { return };
        match self.in_memory {
            None => power.files.see(request.store_address, request.content),
            Some(_) => {
                power.files.see_block(request.store_address, self.line_bytes, request.content);
            }
        }
    }

    /// A line of a store in memory has come there from the on-chip caches.
    pub(super) fn note_line(&mut self, request: &LineRequest) {
        let store = self.in_memory.as_ref().filter(|store| store.has(request.address));
        if let (Some(store), Some(power)) = (store, &mut self.power) {
            let address = request.address - store.first_byte();
            power.files.see_line(address, self.line_bytes, request.version);
        }
    }

    /// A recovery asks for what it may ask for now.
    pub(super) fn go_on_recovering(&mut self, now_ps: u64) {
        while let Some(power) = &mut self.power
            && self.pages.len() < self.most_pages
            && let Some(ask) = power.next(self.pages.len())
        {
            power.recovery.front_mut().map(VecDeque::pop_front);
            self.ask(now_ps, ask);
        }
    }

    fn ask(&mut self, now_ps: u64, ask: Ask) {
        let (store_address, write) = match ask {
            Ask::Read(address) => (address, false),
            Ask::Write { address, .. } => (address, true),
            Ask::Flush => (0, true),
        };
        let (content, force_unit_access) = match ask {
            Ask::Write { content, forced, .. } => (content, forced && self.store.takes_control()),
            _ => (0, false),
        };
        let control = matches!(ask, Ask::Flush).then_some(Control::Flush);
        let bytes = if control.is_some() { 0 } else { self.followed().page_bytes as u32 };
        let request = PageRequest {
            id: OF_RECOVERY,
            store_address,
            memory_address: 0,
            bytes,
            write,
            background: false,
            force_unit_access,
            content,
        };
        let id = self.pages.insert(Page::new(now_ps, request, control, Vec::new()));
        if !self.for_store.is_empty() || !self.start_store(now_ps, id) {
            self.for_store.push_back(Waiting::Page(id));
        }
    }
}

impl PowerFailure for Storage {
    fn prepare(&mut self, weaknesses: &[Weakness]) -> Result<(), Option<Weakness>> {
        let Some(OnStore { spec, page_bytes, store_page_bytes }) = self.on_store.clone() else {
            return Err(None);
        };
        let ordered = spec.as_ref().is_some_and(|it| it.journal == JournalMode::Ordered);
        let means_nothing = |one: &&Weakness| match one {
            Weakness::EarlyCommit => spec.is_none(),
            Weakness::UnorderedData => !ordered,
            other => !self.store.can_lack(**other),
        };
        if let Some(&one) = weaknesses.iter().find(means_nothing) {
            return Err(Some(one));
        }
        let follows = self.store.follow_contents(weaknesses.iter().copied().collect());
        if !follows && !self.store.keeps_answered() {
            return Err(None);
        }
        let parts = if follows { page_bytes / store_page_bytes } else { 1 };
        let files = match spec {
            Some(spec) => Files::new(page_bytes, spec.journal != JournalMode::Writeback),
            None => Files::raw(page_bytes),
        };
        let recovery = VecDeque::new();
        let power = Power { files, page_bytes, parts, follows, ready_ps: 0, recovery };
        self.power = Some(Box::new(power));
        Ok(())
    }

    fn unit_bytes(&self) -> Option<u64> {
        self.on_store.as_ref().map(|it| it.page_bytes)
    }

    fn files(&mut self) -> Option<&mut Files> {
        self.power.as_mut().map(|power| &mut power.files)
    }

    fn permits_stale(&self) -> bool {
        self.followed().files.permits_stale()
    }

    fn name(&self, address: u64) -> Option<String> {
        let Power { files, page_bytes, .. } = self.followed();
        Some(files.name(address / page_bytes))
    }

    fn guarantees(&self) -> Guarantees {
        let ordered = !self.permits_stale();
        let spec = self.on_store.as_ref().and_then(|it| it.spec.as_ref());
        let is_xfs = spec.is_some_and(|spec| spec.kind == FileSystemKind::Xfs);
        let journals_data = spec.is_some_and(|spec| spec.journal == JournalMode::Data);
        if self.followed().files.is_raw() {
            return Guarantees {
                store: "nothing before a sync, and nothing at all of what has no file: swap is worth nothing \
                        after a restart",
                flush: match self.store.keeps_answered() {
                    true => {
                        "a sync (fsync, fdatasync, msync, sync) that has returned: the pages of its file"
                    }
                    false => {
                        "a sync of a file (fsync, fdatasync, msync) that has returned, which flushes the \
                         drive: its pages; of sync nothing, as it flushes no drive without a file system"
                    }
                },
                fua: "not used",
            };
        }
        Guarantees {
            store: match ordered {
                true => "nothing before a sync; but no file shows what its blocks held before",
                false => "nothing before a sync; files may show what their blocks held before",
            },
            flush: match is_xfs {
                true => {
                    "a sync of a file (fsync, fdatasync, msync) that has returned: the file, its size and its pages; \
                     of sync only what its log tells of, as it flushes no drive where the log has nothing"
                }
                false => {
                    "a sync (fsync, fdatasync, msync, sync) that has returned: the file, its size and its pages"
                }
            },
            fua: match journals_data {
                true => "the record of a commit: metadata and data as of that transaction",
                false => "the record of a commit: metadata as of that transaction",
            },
        }
    }

    fn under_way(&self) -> UnderWay {
        let (mut barriers, mut checkpoints) = (0, 0);
        for (_, Page { request, control, .. }) in self.pages.iter() {
            let forced = request.force_unit_access || control.is_some();
            barriers += u64::from(forced);
            let files = self.power.as_ref().map(|power| &power.files);
            checkpoints += u64::from(files.is_some_and(|it| it.is_checkpoint(request.content)));
        }
        let of_store = self.store.under_way();
        UnderWay {
            commands: self.pages.len() as u64,
            barriers: barriers.max(of_store.barriers),
            commits: u64::from(self.power.as_ref().is_some_and(|it| it.files.is_committing())),
            checkpoints,
            ..of_store
        }
    }

    fn steps(&self) -> Vec<Step> {
        let steps = self.pages.iter().map(|(id, Page { request, control, .. })| {
            let what = match control {
                Some(_) => "flush",
                None if request.write => "write-back",
                None => "fill",
            };
            Step { what, number: u64::from(id), address: request.store_address }
        });
        steps.collect()
    }

    fn cut(&mut self, now_ps: u64) -> Outage {
        let outage = self.cut_store(now_ps);
        let _of_dram = cut_store(&mut self.dram, now_ps);
        let cut: Vec<PageRequest> = self.pages.iter().map(|(_, page)| page.request).collect();
        (self.pages, self.at_dram) = (Slab::new(), Slab::new());
        self.commands.drop_all();
        self.passing.drop_all();
        self.for_dram.clear();
        self.for_store.clear();
        if let Some(power) = &mut self.power {
            power.recovery.clear();
            if power.follows {
                // What was on its way may be there.
                let written = cut.iter().filter(|request| request.write && request.bytes > 0);
                let pages = written.flat_map(|request| {
                    let first = request.store_address;
                    (first..first + u64::from(request.bytes)).step_by(power.page_bytes as usize)
                });
                let places: Vec<u64> = pages.chain(outage.touched.iter().copied()).collect();
                let blocks = places.iter().map(|place| place / power.page_bytes * power.page_bytes);
                let store = |at| self.store.content(at);
                let held: Vec<_> = blocks.map(|at| (at, power.block(at, store))).collect();
                power.files.look(held.into_iter());
            }
        }
        outage
    }

    fn recover(&mut self, now_ps: u64) -> Recovery {
        let barrier = match (&self.on_store, self.store.takes_control()) {
            (Some(it), true) => it.spec.as_ref().map_or(Barrier::None, |spec| spec.barrier),
            _ => Barrier::None,
        };
        let Some(power) = self.power.as_mut().filter(|power| !power.files.is_raw()) else {
            return Recovery::default();
        };
        let replay = power.files.replay();
        power.recovery = asks(&replay, barrier);
        let ready_ps = power.ready_ps.max(now_ps);
        self.go_on_recovering(ready_ps);
        let writes = replay.writes.len() as u64;
        Recovery {
            scan_ps: 0,
            reissued: writes,
            reissued_lines: writes,
            transactions: replay.transactions,
        }
    }

    fn found(&self, address: u64) -> Option<(u64, Origin)> {
        let Power { files, page_bytes, .. } = self.followed();
        Some((files.found(address / page_bytes)?, Origin::Store))
    }

    fn promised(&self, line: u64) -> u64 {
        self.followed().files.promised().get(line)
    }

    fn written(&self, line: u64) -> u64 {
        self.followed().files.written().get(line)
    }

    fn each_written(&self, tell: &mut dyn FnMut(u64, u64)) {
        self.followed().files.written().iter().for_each(|(line, newest)| tell(line, newest));
    }

    fn touched(&mut self) -> Vec<Range<u64>> {
        self.files().map(Files::take_touched).unwrap_or_default()
    }

    fn line_of(&self, version: u64) -> Option<u64> {
        self.followed().files.line_of(version)
    }
}
