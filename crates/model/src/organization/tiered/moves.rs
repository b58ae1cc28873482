//! Pages on their way: up to DRAM, and back to make room.

use super::near::{Move, NONE, Near, Progress};
use super::{Tiered, Timer, Token};
use crate::cache::{Place, flag};
use crate::organization::PagesMoved;
use crate::request::{Completion, Device, Manner, Request};
use tierscope_kernel::{Stage, Timeline};

impl<D: Device, S: Device> Tiered<D, S> {
    /// A line of a page was asked of the far memory: the page may be promoted for it.
    pub(super) fn count(&mut self, now_ps: u64, page: u64) {
        let Some(near) = &mut self.near else { return };
        if near.moving.get(page).is_some() {
            return;
        }
        let place = near.tags.place(page);
        let room = near.has_room() && place != Place::Pinned;
        if !near.promoter.access(page, room) {
            return;
        }
        let (way, victim) = match place {
            Place::Free(way) => (way, None),
            Place::Taken(way, victim) => (way, Some(victim)),
            Place::Pinned => return,
        };
        near.tags.insert_at(way, page, flag::PINNED);
        let dirty = victim.is_some_and(|victim| victim.dirty());
        near.promotions += 1;
        near.demotions += u64::from(victim.is_some());
        let waits = dirty && near.concerns_flush();
        let index = near.moves.insert(Move {
            page: Some(page),
            victim: victim.and_then(|victim| victim.line),
            victim_dirty: dirty,
            way,
            progress: Progress::Unmapping,
            written: 0,
            flush: waits,
            blocked_by: 0,
            first: NONE,
            last: NONE,
            stages: Timeline::new(),
            clock_ps: now_ps,
            versions: Vec::new(),
        });
        near.moving.insert(page, index);
        match near.moves[index].victim {
            Some(victim) => {
                near.moving.insert(victim, index);
                self.timers.push(now_ps + near.mapping_ps, 0, Timer::Mapped(index));
            }
            None => self.fetch(now_ps, index),
        }
    }

    /// A page has been mapped, or unmapped.
    pub(super) fn mapped(&mut self, now_ps: u64, index: u32) {
        let Some(near) = &mut self.near else { return };
        let mapping_ps = near.mapping_ps;
        let it = &mut near.moves[index];
        it.stages.push(Stage::Tlb, mapping_ps);
        it.clock_ps = now_ps;
        match (it.progress, it.page) {
            (Progress::Mapping, Some(page)) => {
                let done = near.moves.remove(index);
                near.moving.remove(page);
                near.tags.clear_flags(done.way, flag::PINNED);
                self.release(now_ps, done.first, &done.stages);
            }
            _ if it.victim_dirty => self.evict(now_ps, index),
            _ => {
                self.victim_left(now_ps, index);
                self.fetch(now_ps, index);
            }
        }
    }

    /// Reads the page that leaves from DRAM. Its lines are asked for by nobody until it has left.
    fn evict(&mut self, now_ps: u64, index: u32) {
        let lines = self.page_lines();
        let Some(near) = &mut self.near else { return };
        let address = near.frame(near.moves[index].way);
        let it = &mut near.moves[index];
        it.progress = Progress::Evicting;
        if let Some(data) = &mut self.data {
            it.versions = data.read_near(address / u64::from(self.line_bytes), lines);
        }
        self.traffic.move_dram(near.page_bytes, false);
        let request = request(index, address, near.page_bytes, false, true);
        self.issue_near(now_ps, request);
    }

    /// The page that was to leave is in the far memory alone, or is there too: those who waited go on.
    fn victim_left(&mut self, now_ps: u64, index: u32) {
        let Some(near) = &mut self.near else { return };
        let it = &mut near.moves[index];
        if let Some(victim) = it.victim.take() {
            near.moving.remove(victim);
        }
        let (first, stages) = (std::mem::replace(&mut it.first, NONE), it.stages);
        it.last = NONE;
        self.release(now_ps, first, &stages);
    }

    /// The page that comes has its frame: it is read, once writes to it in the far memory have ended.
    fn fetch(&mut self, now_ps: u64, index: u32) {
        let Some(near) = &mut self.near else { return };
        let Some(page) = near.moves[index].page else { return };
        let writes = self
            .held
            .iter()
            .filter(|(_, it)| it.far && it.request.write && near.page(it.request.address) == page);
        let blocked_by = writes.count() as u32;
        let it = &mut near.moves[index];
        it.progress = Progress::Fetching;
        it.blocked_by = blocked_by;
        if blocked_by == 0 {
            self.issue_fetch(now_ps, index);
        }
    }

    fn issue_fetch(&mut self, now_ps: u64, index: u32) {
        let Some(near) = &mut self.near else { return };
        let it = &mut near.moves[index];
        it.stages.push(Stage::ControllerQueue, now_ps - it.clock_ps);
        it.clock_ps = now_ps;
        let Some(page) = it.page else { return };
        let bytes = near.page_bytes;
        self.report.fetched_pages += 1;
        self.traffic.move_store(bytes, false);
        self.issue_far(now_ps, request(index, page * bytes, bytes, false, true));
    }

    /// A write to a line of the far memory has ended: its page may be about to be fetched.
    pub(super) fn write_ended(&mut self, now_ps: u64, address: u64) {
        let Some(near) = &mut self.near else { return };
        let page = near.page(address);
        let Some(index) = near.moving.get(page) else { return };
        let it = &mut near.moves[index];
        if it.progress == Progress::Fetching && it.page == Some(page) && it.blocked_by > 0 {
            it.blocked_by -= 1;
            if it.blocked_by == 0 {
                self.issue_fetch(now_ps, index);
            }
        }
    }

    /// DRAM has read the page that leaves, or written the one that comes.
    pub(super) fn moved_near(&mut self, index: u32, done: &Completion) {
        let now_ps = done.at_ps;
        let Some(near) = &mut self.near else { return };
        let (bytes, mapping_ps) = (near.page_bytes, near.mapping_ps);
        let it = &mut near.moves[index];
        it.stages.append(&done.stages);
        it.clock_ps = now_ps;
        if it.progress == Progress::Filling {
            it.progress = Progress::Mapping;
            self.timers.push(now_ps + mapping_ps, 0, Timer::Mapped(index));
            return;
        }
        it.progress = Progress::WritingBack;
        let Some(victim) = it.victim else { return };
        self.report.write_backs += 1;
        self.report.displaced_pages += u64::from(it.page.is_some());
        self.traffic.move_store(bytes, true);
        self.issue_far(now_ps, request(index, victim * bytes, bytes, true, true));
    }

    /// The far memory has read the page that comes, or written the one that leaves.
    pub(super) fn moved_far(&mut self, index: u32, done: &Completion) {
        let now_ps = done.at_ps;
        let Some(near) = &mut self.near else { return };
        let it = &mut near.moves[index];
        it.stages.append(&done.stages);
        it.clock_ps = now_ps;
        if it.progress == Progress::Fetching {
            return self.fill(now_ps, index);
        }
        if std::mem::take(&mut it.flush) {
            let stages = it.stages;
            near.flush_goes_on(now_ps, &stages);
        }
        let it = &mut near.moves[index];
        let lines = near.page_bytes / u64::from(self.line_bytes);
        if let (Some(data), Some(victim)) = (&mut self.data, it.victim) {
            data.write_far(victim * lines, &it.versions);
        }
        if it.page.is_some() {
            self.victim_left(now_ps, index);
            return self.fetch(now_ps, index);
        }
        let (way, first, stages) = (it.way, it.first, it.stages);
        near.tags.clear_flags(way, flag::PINNED | flag::DIRTY);
        if let Some(victim) = near.moves.remove(index).victim {
            near.moving.remove(victim);
        }
        self.release(now_ps, first, &stages);
    }

    /// Writes the page that comes to its frame, but for the lines that were written there ahead of it.
    /// It goes as demand does: what comes behind it finds it there.
    fn fill(&mut self, now_ps: u64, index: u32) {
        let lines = self.page_lines();
        let Some(near) = &mut self.near else { return };
        let address = near.frame(near.moves[index].way);
        let it = &mut near.moves[index];
        it.progress = Progress::Filling;
        if let (Some(data), Some(page)) = (&mut self.data, it.page) {
            let frame = address / u64::from(self.line_bytes);
            data.promote(page * lines, frame, lines, it.written);
        }
        let bytes = near.page_bytes;
        self.traffic.move_dram(bytes, true);
        self.issue_near(now_ps, request(index, address, bytes, true, false));
    }

    /// Writes what is dirty in DRAM to the far memory, and leaves it there; whether all has come there that was dirty
    /// when the first call began the flush.
    pub(super) fn write_back_all(&mut self, now_ps: u64) -> bool {
        let Some(near) = &mut self.near else { return true };
        if near.flush.is_none() {
            near.begin_flush(now_ps);
        }
        while let Some(near) = &mut self.near
            && let Some((way, page)) = near.next_to_flush()
        {
            near.tags.set_flags(way, flag::PINNED);
            let flush = near.concerns_flush();
            let index = near.moves.insert(Move {
                page: None,
                victim: Some(page),
                victim_dirty: true,
                way,
                progress: Progress::Evicting,
                written: 0,
                flush,
                blocked_by: 0,
                first: NONE,
                last: NONE,
                stages: Timeline::new(),
                clock_ps: now_ps,
                versions: Vec::new(),
            });
            near.moving.insert(page, index);
            self.evict(now_ps, index);
        }
        self.near.as_deref_mut().is_none_or(Near::flush_is_done)
    }

    /// Writes what is dirty in DRAM to the far memory in functional warming, at once.
    pub(super) fn warm_write_back_all(&mut self, now_ps: u64) -> PagesMoved {
        let (mut from, mut written) = (0, 0);
        while let Some(near) = &mut self.near
            && let Some((way, page)) = near.tags.next_dirty(from)
        {
            from = near.tags.frame(way) + 1;
            near.tags.clear_flags(way, flag::DIRTY);
            let bytes = near.page_bytes;
            written += 1;
            self.report.write_backs += 1;
            self.traffic.move_dram(bytes, false);
            self.traffic.move_store(bytes, true);
            self.warm_store(now_ps, page * bytes, bytes, true);
        }
        PagesMoved { read: 0, written }
    }

    /// An access in functional warming: pages are counted, and promoted at once. The line that it asks of the store is
    /// told: nobody waits for pages.
    pub(super) fn warm_line(&mut self, now_ps: u64, address: u64, write: bool) -> PagesMoved {
        let line_bytes = u64::from(self.line_bytes);
        let line = PagesMoved { read: u64::from(!write), written: u64::from(write) };
        let Some(near) = &mut self.near else {
            self.traffic.move_store(line_bytes, write);
            self.warm_store(now_ps, address, line_bytes, write);
            return line;
        };
        let page = near.page(address);
        self.report.lookups += 1;
        if near.tags.access(page, write).is_some() {
            self.traffic.move_dram(line_bytes, write);
            return PagesMoved::default();
        }
        self.report.misses += 1;
        self.traffic.move_store(line_bytes, write);
        let place = near.tags.place(page);
        let bytes = near.page_bytes;
        let promoted = near.promoter.access(page, place != Place::Pinned);
        let leaves = matches!(place, Place::Taken(..));
        near.promotions += u64::from(promoted);
        near.demotions += u64::from(promoted && leaves);
        let victim = match place {
            Place::Taken(way, victim) if promoted => {
                near.tags.insert_at(way, page, 0);
                victim.line.filter(|_| victim.dirty())
            }
            Place::Free(way) if promoted => {
                near.tags.insert_at(way, page, 0);
                None
            }
            _ => None,
        };
        self.warm_store(now_ps, address, line_bytes, write);
        if !promoted {
            return line;
        }
        if let Some(victim) = victim {
            self.report.displaced_pages += 1;
            self.report.write_backs += 1;
            self.traffic.move_dram(bytes, false);
            self.traffic.move_store(bytes, true);
            self.warm_store(now_ps, victim * bytes, bytes, true);
        }
        self.report.fetched_pages += 1;
        self.traffic.move_store(bytes, false);
        self.traffic.move_dram(bytes, true);
        self.warm_store(now_ps, page * bytes, bytes, false);
        line
    }

    /// The store is asked for something in functional warming.
    fn warm_store(&mut self, now_ps: u64, address: u64, bytes: u64, write: bool) {
        let request = Request::of(address, bytes as u32, write);
        self.store.device_mut().warm(now_ps, request, Manner::default());
    }

    fn page_lines(&self) -> u64 {
        self.near.as_ref().map_or(0, |near| near.page_bytes / u64::from(self.line_bytes))
    }
}

fn request(index: u32, address: u64, bytes: u64, write: bool, background: bool) -> Request {
    Request { id: Token::Move(index).number(), address, bytes: bytes as u32, write, background }
}
