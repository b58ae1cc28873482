//! What concerns more than one thread: entries to the kernel, calls, transfers, scheduling.

use super::calls::{CallKind, Called, changes_directory, paths_of};
use super::direct::Way;
use super::faults::FaultKind;
use super::recorded_windows::Amount;
use super::thread::{Action, BLOCKED, HeldFrame, IDLE, Place, State, Step, Thread, Trap};
use super::transfers::{buffers_of, check_range, of_buffers};
use super::{Doing, Event, Machine, MachineError};
use std::ops::Range;
use tierscope_kernel::Stage;
use tierscope_model::os::address_space::Lock;
use tierscope_model::os::driver::DriverSpec;
use tierscope_model::os::inode_locks::Hold;
use tierscope_model::os::paging::{
    Area, DirectCall, Effect, Next, OsError, Paging, Populate, TransferId, Unneeded, Work,
};
use tierscope_model::os::{InodeId, PathSpec};
use tierscope_workload::op::{
    Advice, LOCK_ON_FAULT, MAP_POPULATE, NO_FILE, POPULATE, SYNC_FILE_RANGE, fallocate,
};
use tierscope_workload::{Call, OpKind, ThreadId};

impl Machine {
    /// A hardware thread enters the kernel; nothing of it is outstanding.
    pub(super) fn enter_kernel(&mut self, index: usize, now_ps: u64) -> Result<(), MachineError> {
        let context = &mut self.contexts[index];
        context.doing = Doing::Running;
        context.now_ps = now_ps;
        let Some(trap) = context.trap.take() else { return Ok(()) };
        let thread = &mut self.threads[context.thread];
        thread.charge_until(trap.stage() as usize, now_ps);
        match trap {
            Trap::Fault { page, write } => {
                self.account.faults += 1;
                let path = self.os.paths.fault;
                let mut steps = path_steps(Stage::Fault, path, 1);
                steps.push(Step::Act(Action::Resolve { page, write }));
                self.threads[self.contexts[index].thread].do_first(&steps);
            }
            Trap::Act(action) => self.act(index, action, now_ps)?,
            Trap::Call => {
                let thread = self.contexts[index].thread;
                self.call(index, now_ps)?;
                self.shoot_down(index, thread);
            }
            Trap::Slice => {
                let thread = self.contexts[index].thread;
                self.leave(index, State::Ready);
                self.ready.push_back(thread);
                self.dispatch(index, now_ps);
            }
            Trap::End => {
                let thread = self.contexts[index].thread;
                self.leave_between(thread, now_ps);
                self.paging.tell_time(now_ps);
                self.close_all_files(thread);
                self.leave(index, State::Ended);
                self.wake_for_signals(thread, now_ps);
                self.dispatch(index, now_ps);
            }
        }
        self.wake_daemons(index, now_ps);
        Ok(())
    }

    fn act(&mut self, index: usize, action: Action, now_ps: u64) -> Result<(), MachineError> {
        let kept = self.held_frame(index, action).and_then(Option::take);
        let pauses = !self.nobody_waits();
        self.paging.asked_by(self.contexts[index].thread as u32, pauses);
        if let Some(HeldFrame { frame, copied: true }) = kept {
            self.paging.copied_to(frame, now_ps)?;
        }
        let thread = self.contexts[index].thread;
        let gives_back = matches!(
            action,
            Action::Truncate { .. } | Action::Drop { .. } | Action::Allocate { .. }
        );
        let before = gives_back.then(|| self.paging.free_and_reclaimed());
        self.act_holding(index, action, now_ps)?;
        if let Some(before) = before {
            let steps = self.freeing_steps(before);
            self.threads[thread].do_first(&steps);
        }
        self.shoot_down(index, thread);
        kept.into_iter().for_each(|kept| self.paging.let_go(kept.frame));
        Ok(())
    }

    /// Where the thread has what it holds on to for an action that decides again.
    fn held_frame(&mut self, index: usize, action: Action) -> Option<&mut Option<HeldFrame>> {
        let thread = &mut self.threads[self.contexts[index].thread];
        match action {
            Action::Resolve { .. } => thread.fault.as_mut().map(|fault| &mut fault.held),
            Action::Read { .. }
            | Action::Write { .. }
            | Action::SpliceRead { .. }
            | Action::SpliceWrite { .. }
            | Action::CopyWrite { .. }
            | Action::Populate { .. }
            | Action::Direct(_) => Some(&mut thread.held),
            _ => None,
        }
    }

    fn act_holding(
        &mut self,
        index: usize,
        action: Action,
        now_ps: u64,
    ) -> Result<(), MachineError> {
        if let Action::Read { inode, .. }
        | Action::Write { inode, .. }
        | Action::SpliceRead { inode, .. }
        | Action::SpliceWrite { inode, .. }
        | Action::CopyWrite { inode, .. }
        | Action::Allocate { inode, .. }
        | Action::LockInode(inode, _)
        | Action::Direct(DirectCall { inode, .. })
        | Action::Settle(DirectCall { inode, .. })
        | Action::Sync { inode, .. }
        | Action::Commit { inode, .. }
        | Action::SyncFileRange { inode, .. }
        | Action::Drop { inode, .. } = action
        {
            let area = Area::FILES + self.paging.name_of(inode);
            self.threads[self.contexts[index].thread].call_area = area;
        }
        self.paging.tell_time(now_ps);
        self.paging.reads_by(self.threads[self.contexts[index].thread].opening);
        match action {
            Action::Arrive(id) => {
                if self.nobody_waits() {
                    self.threads[self.contexts[index].thread].carried = Some(id);
                }
                self.end_own_transfer(index, id, now_ps);
            }
            Action::Copied(id) => self.end_copies_of(index, id, now_ps),
            Action::Resolve { page, write } => {
                let before = self.paging.counters;
                let fault = self.threads[self.contexts[index].thread].fault.as_ref();
                let again = fault.is_some_and(|fault| fault.repeats > 0);
                let (next, work) = self.decide(|paging, work, held| {
                    let mut fault =
                        |paging: &mut Paging| paging.fault(page, write, now_ps, work, held);
                    if again { paging.not_held_back(fault) } else { fault(paging) }
                })?;
                let kind = FaultKind::of(&before, &self.paging.counters, &work);
                if let Some(windows) = &mut self.windows {
                    windows.fault(page, kind >= FaultKind::Major);
                }
                if let Some(fault) = &mut self.threads[self.contexts[index].thread].fault {
                    fault.kind = fault.kind.max(kind);
                }
                self.proceed(index, next, work, action, |_| vec![Step::Retry]);
            }
            Action::Lock => {
                let duration_ps = self.take_locks(index, now_ps);
                let stall = Step::Stall { stage: Stage::Driver, duration_ps };
                self.threads[self.contexts[index].thread].do_first(&[stall]);
            }
            Action::Submit(id) if self.copies() => {
                let steps = self.copy_steps(id, Stage::Driver);
                self.threads[self.contexts[index].thread].do_first(&steps);
            }
            Action::Submit(id) if self.requests_are_full(index) => {
                let thread = self.contexts[index].thread;
                self.threads[thread].do_first(&[Step::Act(Action::Submit(id))]);
                self.waiting_for_frame.push(thread);
                self.leave(index, State::OnFrame);
                self.dispatch(index, now_ps);
            }
            Action::Submit(id) => {
                self.submit_transfer(index, Some(self.contexts[index].thread), id, now_ps);
            }
            Action::Wait(id) => {
                if self.paging.transfer_exists(id) {
                    let thread = self.contexts[index].thread;
                    let polls = self.fixed.driver.as_ref().is_some_and(DriverSpec::polls);
                    let io = self.transfers.entry(id).or_default();
                    io.waiters.push(thread);
                    if polls && io.submitter == Some(thread) {
                        if !self.sleeps_first(index, id, now_ps) {
                            self.poll(index, id);
                        }
                    } else {
                        self.leave(index, State::OnTransfer(id));
                        self.dispatch(index, now_ps);
                    }
                } else if self.nobody_waits() {
                    self.warm_waited(index, id);
                }
            }
            Action::Poll(id) => self.poll_after_sleep(index, id, now_ps),
            Action::Pause(until_ps) => {
                if !self.nobody_waits() {
                    let thread = self.contexts[index].thread;
                    self.leave(index, State::Paused);
                    let source = self.memory_source();
                    self.queue.push(until_ps.max(now_ps), source, Event::Wake(thread as u32));
                    self.dispatch(index, now_ps);
                }
            }
            Action::WaitForFrame => {
                if self.paging.transfers_under_way() {
                    self.waiting_for_frame.push(self.contexts[index].thread);
                    self.leave(index, State::OnFrame);
                    self.dispatch(index, now_ps);
                }
            }
            Action::Read { .. } | Action::SpliceRead { .. } => {
                self.read_on(index, action, now_ps)?
            }
            Action::Write { .. } | Action::SpliceWrite { .. } | Action::CopyWrite { .. } => {
                self.write_on(index, action, now_ps)?;
            }
            Action::LockInode(inode, hold) => self.await_lock(index, inode, hold, now_ps),
            Action::UnlockInode(inode) => self.unlock_inode(index, inode, now_ps),
            Action::Truncate { inode, length } => {
                self.truncate(inode, length);
                self.unlock_inode(index, inode, now_ps);
                self.paging.let_go_of_inode(inode);
            }
            Action::CopyRange { .. } => self.copy_on(index, action),
            Action::Allocate { .. } => self.act_allocating(index, action, now_ps)?,
            Action::Direct(call) => self.act_directly(index, call, now_ps)?,
            Action::DirectDone(call) => {
                self.end_direct(call);
                self.unlock_inode(index, call.inode, now_ps);
            }
            Action::Settle(call) => self.act_settling(index, call)?,
            Action::Sync { inode, first, past, data_only } => {
                let mut work = Vec::new();
                let wait = self.paging.sync(inode, first..past, &mut work)?;
                self.apply_effects();
                if let Some(id) = wait {
                    self.proceed(index, Next::Wait(id), work, action, |_| Vec::new());
                    return Ok(());
                }
                let commit = Action::Commit { inode, first, past, data_only };
                let Some(lock) = self.lock_to_commit(inode, false) else {
                    return self.act_holding(index, commit, now_ps);
                };
                self.threads[self.contexts[index].thread].do_first(&[lock, Step::Act(commit)]);
            }
            Action::Commit { inode, first, past, data_only } => {
                let mut work = Vec::new();
                let commit = self.paging.sync_metadata(inode, data_only, &mut work);
                let mut steps = match commit {
                    None => self.durable_steps(Some((inode, first..past))),
                    Some((id, flush)) => {
                        let mut steps = self.work_steps(&work);
                        steps.push(Step::Act(Action::Wait(id)));
                        steps.extend(flush.then_some(Step::Act(Action::Flush)));
                        steps
                    }
                };
                if steps.is_empty() {
                    return self.act_holding(index, Action::Synced(inode), now_ps);
                }
                steps.push(Step::Act(Action::Synced(inode)));
                self.threads[self.contexts[index].thread].do_first(&steps);
            }
            Action::Flush => {
                let mut work = Vec::new();
                let id = self.paging.start_flush(&mut work);
                let mut steps = self.work_steps(&work);
                steps.push(Step::Act(Action::Wait(id)));
                self.threads[self.contexts[index].thread].do_first(&steps);
            }
            Action::ReadMetadata(run) => {
                let mut work = Vec::new();
                let id = self.paging.read_metadata(run, &mut work);
                let mut steps = self.work_steps(&work);
                steps.extend(run.awaited.then_some(Step::Act(Action::Wait(id))));
                self.threads[self.contexts[index].thread].do_first(&steps);
            }
            Action::Durable => self.await_durable(index, now_ps)?,
            Action::Synced(inode) => {
                self.unlock_inode(index, inode, now_ps);
                self.end_sync(self.contexts[index].thread, inode);
            }
            Action::SyncFileRange { .. } => self.sync_file_range(index, action)?,
            Action::Drop { inode, first, past } => {
                self.paging.drop_unneeded(inode, first..past);
                self.paging.let_go_of_inode(inode);
            }
            Action::Populate { next, past, how } => {
                self.populate(index, next..past, how, now_ps)?
            }
            Action::SyncAll { inode, page } => {
                let mut work = Vec::new();
                let all = (inode, page)..(InodeId::MAX, u64::MAX);
                let written = self.paging.write_dirty(all, true, &mut work)?;
                self.apply_effects();
                if let Some((id, (inode, page))) = written {
                    let rest = Action::SyncAll { inode, page };
                    self.proceed(index, Next::Wait(id), work, rest, |_| Vec::new());
                } else {
                    let mut steps = self.waits_for_writes();
                    steps.extend(self.durable_steps(None));
                    steps.push(Step::Act(Action::SyncAllMetadata));
                    self.threads[self.contexts[index].thread].do_first(&steps);
                }
            }
            Action::SyncAllMetadata => {
                let mut work = Vec::new();
                let commit = self.paging.sync_all_metadata(&mut work);
                let mut steps = self.work_steps(&work);
                if let Some((id, flush)) = commit {
                    steps.push(Step::Act(Action::Wait(id)));
                    steps.extend(flush.then_some(Step::Act(Action::Flush)));
                }
                steps.push(Step::Act(Action::SyncPlaces { due_ps: None }));
                self.threads[self.contexts[index].thread].do_first(&steps);
            }
            Action::SyncPlaces { due_ps } => {
                let mut work = Vec::new();
                let due_ps = due_ps.unwrap_or(now_ps);
                if let Some(id) = self.paging.sync_places(due_ps, &mut work) {
                    let rest = Action::SyncPlaces { due_ps: Some(due_ps) };
                    self.proceed(index, Next::Wait(id), work, rest, |_| Vec::new());
                } else {
                    self.end_sync_of_all(self.contexts[index].thread);
                }
            }
        }
        Ok(())
    }

    /// Writes dirty pages of a range of a file, and waits as asked (`sync_file_range`, fs/sync.c): nothing is
    /// committed, and the drive is not flushed.
    fn sync_file_range(&mut self, index: usize, action: Action) -> Result<(), MachineError> {
        let Action::SyncFileRange { inode, first, next, past, flags } = action else {
            return Ok(());
        };
        let [wait_before, write, wait_after] = SYNC_FILE_RANGE;
        let mut work = Vec::new();
        let under_way = self.paging.writing(inode, first..past);
        let waits = wait_before | if flags & write == 0 { wait_after } else { 0 };
        if let Some(id) = under_way.filter(|_| flags & waits != 0) {
            self.proceed(index, Next::Wait(id), work, action, |_| Vec::new());
        } else if flags & write != 0 {
            let pages = (inode, next)..(inode, past);
            let commits = flags & wait_after != 0;
            let written = self.paging.write_dirty(pages, commits, &mut work)?;
            self.apply_effects();
            if let Some((id, _)) = written.filter(|(_, (_, behind))| *behind == next) {
                self.proceed(index, Next::Wait(id), work, action, |_| Vec::new());
                return Ok(());
            }
            let (next, flags) = match written {
                Some((_, (_, next))) => (next, flags & !wait_before),
                None => (past, flags & wait_after),
            };
            let mut steps = self.work_steps(&work);
            let rest = Action::SyncFileRange { inode, first, next, past, flags };
            steps.push(Step::Act(rest));
            self.threads[self.contexts[index].thread].do_first(&steps);
        } else {
            self.paging.let_go_of_inode(inode);
        }
        Ok(())
    }

    /// Brings the next page of a range to memory, as a fault of it would (`faultin_page`, mm/gup.c).
    fn populate(
        &mut self,
        index: usize,
        pages: Range<u64>,
        how: Populate,
        now_ps: u64,
    ) -> Result<(), MachineError> {
        let Range { start, end: past } = pages;
        let Some((page, write)) = self.paging.next_to_populate(start..past, how) else {
            return Ok(());
        };
        let (decided, work) =
            self.decide(|paging, work, held| paging.fault(page, write, now_ps, work, held))?;
        self.account.faults += u64::from(matches!(decided, Next::Ready(_)));
        let path = self.os.paths.fault;
        self.proceed(index, decided, work, Action::Populate { next: page, past, how }, |_| {
            let mut steps = path_steps(Stage::Fault, path, 1);
            steps.push(Step::Act(Action::Populate { next: page + 1, past, how }));
            steps
        });
        Ok(())
    }

    /// Writes what is dirty of a file's pages that are needed no longer, and drops what is clean then.
    fn drop_steps(&mut self, inode: InodeId, unneeded: Unneeded) -> Vec<Step> {
        let [_, write, _] = SYNC_FILE_RANGE;
        let Unneeded { written: Range { start: first, end: past }, dropped } = unneeded;
        self.paging.keep_inode(inode);
        self.paging.keep_inode(inode);
        vec![
            Step::Act(Action::SyncFileRange { inode, first, next: first, past, flags: write }),
            Step::Act(Action::Drop { inode, first: dropped.start, past: dropped.end }),
        ]
    }

    /// The pages that have some of a range of bytes are brought to memory.
    fn populate_steps(&self, address: u64, length: u64, how: Populate) -> Option<Step> {
        populate_pages(self.pages_of(address, length), how)
    }

    /// The pages that have some of a range of bytes.
    fn pages_of(&self, first: u64, length: u64) -> Range<u64> {
        let page_bytes = 1 << self.fixed.page_shift;
        first / page_bytes..first.saturating_add(length).div_ceil(page_bytes)
    }

    /// Waiting for all that is under way to files.
    fn waits_for_writes(&self) -> Vec<Step> {
        let under_way = self.paging.writes_under_way().into_iter();
        under_way.map(|id| Step::Act(Action::Wait(id))).collect()
    }

    /// Lets the operating system decide, and tells the hardware what it has to forget.
    pub(super) fn decide<T>(
        &mut self,
        ask: impl FnOnce(&mut Paging, &mut Vec<Work>, &dyn Fn(u64) -> bool) -> Result<T, OsError>,
    ) -> Result<(T, Vec<Work>), MachineError> {
        let mut work = Vec::new();
        let cores = &self.cores;
        let held = |page| cores.iter().any(|core| core.tlb.holds(page));
        let next = ask(&mut self.paging, &mut work, &held)?;
        self.apply_effects();
        Ok((next, work))
    }

    pub(super) fn apply_effects(&mut self) {
        for effect in self.paging.take_effects() {
            match effect {
                Effect::Shootdown(page) => {
                    self.account.shootdowns += 1;
                    self.note_shot_down(page);
                    self.cores.iter_mut().for_each(|core| core.tlb.invalidate(page));
                }
                Effect::Flush(pages) => {
                    self.account.shootdowns += 1;
                    self.note_shot_down(pages.start);
                    self.cores.iter_mut().for_each(|core| core.tlb.forget(&pages));
                }
                Effect::Kept(place) => self.account.page_kept(place, &self.fixed),
                Effect::Given(place) => self.account.page_given(place, &self.fixed),
            }
        }
    }

    /// Each process once where its pages follow each other, as those of a call or of one that reclaim takes from do.
    fn note_shot_down(&mut self, page: u64) {
        let process = self.paging.process_of(page);
        if self.shot_down.last() != Some(&process) {
            self.shot_down.push(process);
        }
    }

    /// What a thread has unmapped since it was last asked for: it tells the other cores that run the process, and they
    /// answer. All of it at once, as Linux since 4.3 (`try_to_unmap_flush`, mm/rmap.c).
    fn shoot_down(&mut self, index: usize, thread: usize) {
        if self.interrupt_for_shootdown(index, Some(thread)) {
            let steps = path_steps(Stage::Fault, self.os.paths.shootdown, 1);
            self.threads[thread].do_first(&steps);
        }
    }

    /// Other cores that run a process of which something was unmapped, by a thread or by the kernel's own, are
    /// interrupted; whether there are any.
    pub(super) fn interrupt_for_shootdown(&mut self, index: usize, by: Option<usize>) -> bool {
        if self.shot_down.is_empty() {
            return false;
        }
        let processes = std::mem::take(&mut self.shot_down);
        // What moves between nodes has costs of its own.
        if self.paging.shootdown_paths().is_some() {
            return false;
        }
        if self.functional {
            return self.warm_shootdown(by);
        }
        let core = self.contexts[index].core;
        let mut told = 0;
        for other in 0..self.contexts.len() {
            let context = &self.contexts[other];
            if context.core == core || context.doing == Doing::Idle {
                continue;
            }
            let thread = &mut self.threads[context.thread];
            if !processes.contains(&thread.process.unwrap_or(0)) {
                continue;
            }
            told += 1;
            if context.doing == Doing::Running {
                let path = self.os.paths.shootdown_interrupt;
                thread.do_first(&path_steps(Stage::Interrupt, path, 1));
            }
        }
        self.shootdowns[usize::from(by.is_some())].saw(told);
        self.account.shootdown_interrupts += told;
        told > 0
    }

    /// Gives the thread the work that a decision costs, and what comes after it: the steps for a
    /// page that is ready, or waiting and asking again.
    pub(super) fn proceed(
        &mut self,
        index: usize,
        next: Next,
        work: Vec<Work>,
        again: Action,
        ready: impl FnOnce(u64) -> Vec<Step>,
    ) {
        let mut steps = self.metadata_steps();
        steps.extend(self.work_steps(&work));
        let mut kept = None;
        match next {
            Next::Ready(frame) => {
                steps.extend(ready(frame));
                let copied = matches!(
                    again,
                    Action::Write { .. } | Action::SpliceWrite { .. } | Action::CopyWrite { .. }
                );
                let copies = copied || matches!(again, Action::Read { .. });
                kept = copies.then_some(HeldFrame { frame, copied });
            }
            Next::Wait(id) => {
                steps.extend([Step::Act(Action::Wait(id)), Step::Act(again)]);
            }
            Next::Arrives(id, frame) => {
                steps.extend([Step::Act(Action::Wait(id)), Step::Act(again)]);
                kept = Some(HeldFrame { frame, copied: false });
            }
            Next::Pause(until_ps) => {
                steps.extend([Step::Act(Action::Pause(until_ps)), Step::Act(again)]);
            }
            Next::WaitForFrame => {
                steps.extend([Step::Act(Action::WaitForFrame), Step::Act(again)]);
            }
        }
        if let (Some(HeldFrame { frame, .. }), Some(place)) = (kept, self.held_frame(index, again))
        {
            *place = kept;
            self.paging.keep(frame);
        }
        self.threads[self.contexts[index].thread].do_first(&steps);
    }

    /// What has to be read of the file system's metadata before a thread goes on, block by block.
    fn metadata_steps(&mut self) -> Vec<Step> {
        let runs = self.paging.wanted_metadata().into_iter();
        runs.map(|run| Step::Act(Action::ReadMetadata(run))).collect()
    }

    pub(super) fn work_steps(&self, work: &[Work]) -> Vec<Step> {
        let shift = self.fixed.page_shift;
        let paths = &self.os.paths;
        let copy = |from: Option<u64>, to: u64| {
            let place = |frame| Place::Physical(frame << shift);
            let held = from.into_iter().chain([to]);
            let from = from.map_or(Place::Nowhere, place);
            let copy = Step::Copy { stage: Stage::Fault, from, to: place(to), bytes: 1 << shift };
            [copy].into_iter().chain(held.map(Step::LetGo))
        };
        let mut steps = Vec::new();
        for item in work {
            match *item {
                Work::Path(stage, times) => {
                    let path = match stage {
                        Stage::FileSystem => paths.file_system,
                        Stage::BlockLayer => paths.block_layer,
                        Stage::Driver => paths.driver,
                        Stage::Fault => paths.fault,
                        _ => paths.page_cache,
                    };
                    steps.extend(path_steps(stage, path, times));
                }
                Work::Own(path, times) => steps.extend(path_steps(Stage::Migration, path, times)),
                Work::MovePage { transfer, from, to } => {
                    let (stage, bytes) = (Stage::Migration, 1 << shift);
                    let place = |frame| Place::Physical(frame << shift);
                    steps.push(Step::Copy { stage, from: place(from), to: place(to), bytes });
                    steps.extend([from, to].map(Step::LetGo));
                    steps.push(Step::Act(Action::Arrive(transfer)));
                }
                Work::Clear(frame) => steps.extend(copy(None, frame)),
                Work::CopyFrame(from, to) => steps.extend(copy(Some(from), to)),
                Work::Submit(id) => {
                    steps.extend(self.has_locks().then_some(Step::Act(Action::Lock)));
                    steps.push(Step::Act(Action::Submit(id)));
                }
                Work::Program { stall_ps, .. } => steps.push(stall_at_flash(stall_ps)),
                Work::Fetch { transfer, frame, stall_ps } => steps.extend([
                    stall_at_flash(stall_ps),
                    Step::Copy {
                        stage: Stage::BufferCache,
                        from: Place::Nowhere,
                        to: Place::Physical(frame << shift),
                        bytes: 1 << shift,
                    },
                    Step::Act(Action::Arrive(transfer)),
                ]),
            }
        }
        steps
    }

    fn has_locks(&self) -> bool {
        let driver = self.fixed.driver.as_ref().is_some_and(|driver| driver.lock_ps() > 0);
        driver || self.fixed.queue_lock_ps > 0
    }

    /// Who asks for the lock of the queue of its core, and then for the driver's, gets each when those who came before
    /// have let it go; how long until it has held both as long as a request takes.
    pub(super) fn take_locks(&mut self, index: usize, now_ps: u64) -> u64 {
        if self.nobody_waits() {
            return 0;
        }
        let mut at_ps = now_ps;
        if let (Some(layer), 1..) = (&self.block_layer, self.fixed.queue_lock_ps) {
            let queue = layer.queue_of(self.contexts[index].core);
            let free_ps = self.queues_free_ps.entry(queue).or_default();
            *free_ps = (*free_ps).max(at_ps).saturating_add(self.fixed.queue_lock_ps);
            at_ps = *free_ps;
        }
        let lock_ps = self.fixed.driver.as_ref().map_or(0, DriverSpec::lock_ps);
        if lock_ps > 0 {
            self.driver_free_ps = self.driver_free_ps.max(at_ps).saturating_add(lock_ps);
            at_ps = self.driver_free_ps;
        }
        at_ps - now_ps
    }

    /// Time of a path that no thread runs: of an interrupt, or of a wake-up.
    pub(super) fn kernel_path_ps(&self, path: PathSpec) -> u64 {
        // What they take is part of what the store takes.
        if self.waits.fetch_ps > 0 && self.nobody_waits() {
            return 0;
        }
        let cycles = f64::from(path.instructions) * self.os.kernel_cpi;
        self.fixed.clock.cycles_to_ps(cycles.round() as u64)
    }

    // ---- Calls --------------------------------------------------------------------------------

    fn call(&mut self, index: usize, now_ps: u64) -> Result<(), MachineError> {
        let id = self.contexts[index].thread;
        let thread = &mut self.threads[id];
        let header = thread.buffer[thread.position];
        debug_assert_eq!(header.kind_code(), OpKind::Call as u8);
        let arguments = &thread.buffer[thread.position + 1..];
        let call = Call::decode(header, arguments).ok_or_else(|| MachineError::BadOperation {
            thread: id as u32,
            reason: format!("a call of code {} is unknown or incomplete", header.word),
        })?;
        let buffers = buffers_of(&call, header, arguments, id)?;
        thread.position += 1 + usize::from(header.size());
        let call = if buffers.is_empty() { call } else { of_buffers(call) };
        thread.buffers = buffers;
        thread.call_area = Area::REST;
        self.note_opening(id, &call);
        self.paging.tell_time(now_ps);
        let mut stands_ps = 0;
        if !matches!(call, Call::Skip { .. }) {
            stands_ps = self.leave_between(id, now_ps);
            self.begin_call_of_windows(id);
        }
        // What makes and ends threads and processes is told beside the calls that do so.
        let quiet = matches!(
            call,
            Call::Marker { .. }
                | Call::Spawn { .. }
                | Call::Skip { .. }
                | Call::Fork { .. }
                | Call::Exec { .. }
                | Call::Exit { .. }
                | Call::Within { .. }
                | Call::Exists { .. }
        );
        let kind = CallKind::of(&call).filter(|_| !self.functional);
        let thread = &mut self.threads[id];
        thread.called = kind.map(|kind| Called::new(kind, &call, now_ps, &thread.times));
        let mut steps = stand_still(stands_ps);
        if !quiet {
            self.account.calls += 1;
            steps.extend(path_steps(Stage::SystemCall, self.os.paths.system_call, 1));
        }
        if matches!(
            call,
            Call::Map { .. }
                | Call::Unmap { .. }
                | Call::Remap { .. }
                | Call::Protect { .. }
                | Call::Lock { .. }
                | Call::Unlock { .. }
                | Call::LockAll { .. }
                | Call::Fork { .. }
                | Call::Exec { .. }
                | Call::Exit { .. }
        ) {
            self.forget_areas();
        }
        if !quiet {
            let path = self.os.paths.path_lookup;
            steps.extend(path_steps(Stage::FileSystem, path, paths_of(&call)));
        }
        let before = self.paging.free_and_reclaimed();
        let begun = steps.len();
        if changes_directory(&call) {
            // Its own cost is as that of an access (docs/models/file-systems.md).
            steps.extend(path_steps(Stage::FileSystem, self.os.paths.file_system, 1));
        }
        match call {
            Call::Map { address, length, flags, file, offset } => {
                let mapped = if file == NO_FILE { file } else { self.inode_of(id, file)? };
                self.paging.map(address, length, flags, mapped, offset);
                if flags & MAP_POPULATE != 0 || self.paging.comes_at_once(address) {
                    steps.extend(self.populate_steps(address, length, Populate::AsMapped));
                }
            }
            Call::Unmap { address, length } => self.paging.unmap(address, length),
            Call::Remap { old_address, old_length, new_address, new_length } => {
                self.paging.remap(old_address, old_length, new_address, new_length);
                // `mremap_to`, mm/mremap.c.
                if new_length > old_length && self.paging.comes_at_once(new_address) {
                    steps.extend(self.populate_steps(new_address, new_length, Populate::AsMapped));
                }
            }
            Call::Protect { address, length, flags } => {
                let parts = self.paging.protect_mappings(address, length, flags);
                let brought =
                    parts.into_iter().map(|pages| populate_pages(pages, Populate::AsMapped));
                steps.extend(brought.flatten());
            }
            Call::Lock { address, length, flags } => {
                let on_fault = flags & LOCK_ON_FAULT != 0;
                let lock = if on_fault { Lock::OnFault } else { Lock::All };
                self.paging.lock(address, length, lock);
                if !on_fault {
                    steps.extend(self.populate_steps(address, length, Populate::AsMapped));
                }
            }
            Call::Unlock { address, length } => self.paging.lock(address, length, Lock::No),
            Call::LockAll { process, flags } => {
                check_process(process, id)?;
                let pages = self.paging.lock_all(process, flags);
                steps.extend(populate_pages(pages, Populate::AsMapped));
            }
            Call::Populate { address, length, how } => {
                let [read, _] = POPULATE;
                let how = if how == read { Populate::Read } else { Populate::Write };
                steps.extend(self.populate_steps(address, length, how));
            }
            Call::AdviseFile { file, offset, length, advice } => {
                if let Some(inode) = self.find_inode(id, file) {
                    let (unneeded, work) = self.decide(|paging, work, held| {
                        paging.advise_file(inode, (offset, length), advice, work, held)
                    })?;
                    steps.extend(self.work_steps(&work));
                    steps.extend(unneeded.into_iter().flat_map(|it| self.drop_steps(inode, it)));
                }
            }
            Call::Advise { address, length, advice } => {
                let ((), work) = self.decide(|paging, work, held| {
                    paging.advise(address, length, advice, work, held)
                })?;
                steps.extend(self.work_steps(&work));
                if advice == Advice::Remove as u64 {
                    // `madvise_remove`, mm/madvise.c.
                    let mode = fallocate::PUNCH_HOLE | fallocate::KEEP_SIZE;
                    for (inode, pages) in self.paging.all_shared_in(address, length) {
                        let [offset, length] = [pages.start, pages.end - pages.start]
                            .map(|pages| pages << self.fixed.page_shift);
                        steps.extend(self.allocation_steps(inode, mode, offset, length));
                    }
                }
                if advice == Advice::WillNeed as u64 {
                    self.account.hints += 1;
                    self.account.hints_unmapped += u64::from(!self.paging.maps(address, length));
                    self.will_need(address, length, now_ps);
                }
            }
            Call::Open { file, size } => {
                if self.paging.is_made(file, size) {
                    steps.extend(path_steps(Stage::FileSystem, self.os.paths.file_system, 1));
                }
                self.open_file(id, file, size)?;
            }
            Call::Truncate { file, length } => {
                let inode = self.inode_of(id, file)?;
                steps.extend(path_steps(Stage::FileSystem, self.os.paths.file_system, 1));
                // It is done at once, where nobody has the file.
                if self.is_locked(inode) {
                    self.paging.keep_inode(inode);
                    steps.push(Step::Act(Action::LockInode(inode, Hold::Exclusive)));
                    steps.push(Step::Act(Action::Truncate { inode, length }));
                } else {
                    self.truncate(inode, length);
                }
            }
            Call::Read { file, offset, length, address }
            | Call::ReadDirect { file, offset, length, address } => {
                let way = self.way_of(id, &call, [offset, length, address])?;
                let asked_end = offset.saturating_add(length);
                let inode = self.find_inode(id, file);
                let end = inode.map_or(0, |inode| self.paging.file_size(inode)).min(asked_end);
                let left = end.checked_sub(offset).filter(|left| *left > 0);
                if let (Some(inode), Some(left)) = (inode, left) {
                    self.account.file_read_bytes += left;
                    self.moves(id, left);
                    let last = (asked_end - 1) >> self.fixed.page_shift;
                    self.paging.keep_inode(inode);
                    if way == Way::Past {
                        let call = DirectCall { inode, offset, bytes: left, address, write: false };
                        steps.extend(self.lock_directly(id, &call));
                        steps.push(Step::Act(Action::Direct(call)));
                    } else {
                        steps.extend(self.lock_to_read(id, inode));
                        steps.push(Step::Act(Action::Read { inode, offset, left, address, last }));
                    }
                }
            }
            Call::Write { file, offset, length, address }
            | Call::WriteDirect { file, offset, length, address } => {
                let way = self.way_of(id, &call, [offset, length, address])?;
                if length > 0 {
                    self.account.file_written_bytes += length;
                    self.moves(id, length);
                    let inode = self.inode_of(id, file)?;
                    self.paging.keep_inode(inode);
                    let call = DirectCall { inode, offset, bytes: length, address, write: true };
                    let cached = Action::Write { inode, offset, left: length, address };
                    if way == Way::Past {
                        steps.extend(self.lock_directly(id, &call));
                        steps.push(Step::Act(Action::Direct(call)));
                    } else {
                        steps.extend(self.lock_to_write(id, inode));
                        steps.push(Step::Act(cached));
                    }
                    if way == Way::Through {
                        self.paging.keep_inode(inode);
                        steps.push(Step::Act(Action::Settle(call)));
                    }
                }
            }
            Call::Sync { file } | Call::SyncData { file } => {
                let data_only = matches!(call, Call::SyncData { .. });
                if let Some(inode) = self.find_inode(id, file) {
                    steps.extend(self.sync_steps(id, inode, Paging::ALL_PAGES, data_only));
                }
            }
            Call::Unlink { file, size } => {
                let inode = self.paging.unlink(file, size)?;
                inode.into_iter().for_each(|inode| self.forget_unsynced(inode, 0));
            }
            Call::MakeDirectory { file, parent } => self.paging.make_directory(file, parent)?,
            Call::RemoveDirectory { file } => self.paging.remove_directory(file)?,
            Call::ReadDirectory { file, length } => {
                let blocks = self.paging.list_directory(file, length)?;
                let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
                let paths = self.os.paths.file_system;
                steps.extend(path_steps(Stage::FileSystem, paths, blocks));
            }
            Call::Rename { file, parent, replaced, size, names } => {
                let (gone, work) = self.decide(|paging, work, _| {
                    paging.rename(file, parent, (replaced, size, names), work)
                })?;
                steps.extend(self.work_steps(&work));
                gone.into_iter().for_each(|inode| self.forget_unsynced(inode, 0));
            }
            Call::Link { file, parent } => self.paging.link(file, parent, true)?,
            Call::Unname { file, parent } => self.paging.link(file, parent, false)?,
            Call::Within { file, parent, size } => self.paging.tell_parent(file, parent, size)?,
            Call::Exists { file, parent, size, directory } => {
                self.paging.tell_there((file, directory != 0), parent, size)?;
            }
            Call::Stat { file } => {
                self.paging.stat(file);
            }
            // As fdatasync, mapping by mapping (mm/msync.c).
            Call::SyncRange { address, length } => {
                for (inode, pages) in self.paging.shared_in(address, length) {
                    steps.extend(self.sync_steps(id, inode, pages, true));
                }
            }
            Call::SyncFileRange { file, offset, length, flags } => {
                if let Some(inode) = self.find_inode(id, file) {
                    self.paging.keep_inode(inode);
                    let length = if length == 0 { u64::MAX } else { length };
                    let Range { start: first, end: past } = self.pages_of(offset, length);
                    steps.extend(path_steps(Stage::FileSystem, self.os.paths.file_system, 1));
                    let next = first;
                    let range = Action::SyncFileRange { inode, first, next, past, flags };
                    steps.push(Step::Act(range));
                }
            }
            Call::CopyRange { source, source_offset, file, offset, length } => {
                check_range(source_offset, length, id)?;
                check_range(offset, length, id)?;
                let [source, inode] = [self.inode_of(id, source)?, self.inode_of(id, file)?];
                self.account.file_read_bytes += length;
                self.account.file_written_bytes += length;
                self.moves(id, length);
                [source, inode].into_iter().for_each(|inode| self.paging.keep_inode(inode));
                let left = length;
                steps.push(Step::Act(Action::CopyRange {
                    source,
                    source_offset,
                    inode,
                    offset,
                    left,
                }));
            }
            Call::SpliceRead { file, offset, length } => {
                check_range(offset, length, id)?;
                if let Some(inode) = self.find_inode(id, file) {
                    let left = self.within_file(inode, offset, length);
                    self.account.file_read_bytes += left;
                    self.moves(id, left);
                    steps.extend(self.splice_read(inode, offset, left));
                }
            }
            Call::SpliceWrite { file, offset, length } => {
                check_range(offset, length, id)?;
                let inode = self.inode_of(id, file)?;
                self.account.file_written_bytes += length;
                self.moves(id, length);
                self.paging.keep_inode(inode);
                steps.extend(self.lock_to_write(id, inode));
                steps.push(Step::Act(Action::SpliceWrite { inode, offset, left: length }));
            }
            Call::Allocate { file, mode, offset, length } => {
                check_range(offset, length, id)?;
                let inode = self.inode_of(id, file)?;
                steps.extend(self.allocation_steps(inode, mode, offset, length));
            }
            Call::SyncAll {} => {
                self.account.syncs += 1;
                self.begin_sync_of_all(id);
                steps.extend(path_steps(Stage::FileSystem, self.os.paths.file_system, 1));
                // What is dirty again while it is written has to be written again.
                steps.extend(self.waits_for_writes());
                steps.push(Step::Act(Action::SyncAll { inode: 0, page: 0 }));
            }
            Call::Fork { parent, process, thread } => {
                self.thread_exists(thread, id)?;
                for named in [parent, process] {
                    check_process(named, id)?;
                }
                self.threads[thread as usize].process = Some(process);
                steps.extend(self.fork_process(parent, process)?);
            }
            Call::Exec { process } => {
                check_process(process, id)?;
                self.paging.drop_process(process);
            }
            Call::Exit { process } => {
                check_process(process, id)?;
                self.paging.end_process(process);
            }
            Call::Spawn { thread } => {
                self.thread_exists(thread, id)?;
                let process = self.threads[id].process;
                let started = &mut self.threads[thread as usize];
                started.process = started.process.or(process);
                if self.threads[thread as usize].state == State::NotStarted {
                    self.make_ready(thread as usize, now_ps);
                }
            }
            Call::Signal { sequence } => {
                let signals = &mut self.threads[id].signals;
                *signals = (*signals).max(sequence);
                if self.wake_for_signals(id, now_ps) > 0 {
                    self.threads[id].by_thread = true;
                    steps.extend(path_steps(Stage::WakeUp, self.os.paths.wake_up, 1));
                }
            }
            Call::Wait { thread, sequence } => {
                self.thread_exists(thread, id)?;
                let other = &self.threads[thread as usize];
                let blocked = other_has_not_signalled(other.state, other.signals, sequence);
                self.threads[id].do_first(&steps);
                if blocked {
                    self.leave(index, State::OnSignal(thread, sequence));
                    self.dispatch(index, now_ps);
                }
                return Ok(());
            }
            Call::Sleep { duration_ps } => {
                self.threads[id].do_first(&steps);
                self.leave(index, State::Waking);
                let source = self.memory_source();
                let at_ps = now_ps.saturating_add(duration_ps);
                self.queue.push(at_ps, source, Event::Wake(id as u32));
                self.dispatch(index, now_ps);
                return Ok(());
            }
            Call::Marker { mark } => self.pass_mark(mark, now_ps),
            Call::Skip { instructions, loads, stores } => {
                let accesses = loads.saturating_add(stores);
                self.pass_skip(Amount { instructions, accesses });
                let times_ps = self.enter_between(id, instructions, now_ps);
                steps.extend(times_ps.into_iter().flat_map(stand_still));
            }
            Call::Close { file } => {
                if let Some(inode) = self.find_inode(id, file) {
                    let ((), work) = self.decide(|paging, work, _| paging.close(inode, work))?;
                    steps.extend(self.work_steps(&work));
                }
                self.close_file(id, file);
            }
            Call::Other { .. } => {}
        }
        self.apply_effects();
        steps.extend(self.freeing_steps(before));
        if !quiet {
            steps.splice(begun..begun, self.metadata_steps());
        }
        steps.extend(kind.is_some().then_some(Step::Return));
        self.threads[id].do_first(&steps);
        Ok(())
    }

    /// What it takes to free the pages that have become free since, but for those that reclaim has paid for.
    fn freeing_steps(&self, (free, reclaimed): (u64, u64)) -> Vec<Step> {
        let (free_now, reclaimed_now) = self.paging.free_and_reclaimed();
        let by_reclaim = reclaimed_now.saturating_sub(reclaimed);
        let freed = free_now.saturating_sub(free).saturating_sub(by_reclaim);
        let times = u32::try_from(freed).unwrap_or(u32::MAX);
        path_steps(Stage::SystemCall, self.os.paths.free_page, times)
    }

    /// A file is cut off, and nothing is promised of what goes.
    fn truncate(&mut self, inode: InodeId, length: u64) {
        self.paging.truncate(inode, length);
        self.forget_unsynced(inode, length);
    }

    /// A call of the thread reads or writes so many bytes of a file.
    fn moves(&mut self, id: usize, bytes: u64) {
        if let Some(called) = &mut self.threads[id].called {
            called.bytes = bytes;
        }
    }

    /// Forks a process; what that costs whoever makes it, before it runs.
    fn fork_process(&mut self, parent: u64, process: u64) -> Result<Vec<Step>, MachineError> {
        let (copied, work) =
            self.decide(|paging, work, held| paging.fork_process(parent, process, work, held))?;
        self.account.forks += 1;
        let paths = &self.os.paths;
        let mut steps = path_steps(Stage::SystemCall, paths.fork, 1);
        steps.extend(path_steps(Stage::SystemCall, paths.fork_page, copied));
        steps.extend(self.work_steps(&work));
        Ok(steps)
    }

    fn sync_steps(
        &mut self,
        thread: usize,
        inode: InodeId,
        pages: Range<u64>,
        data_only: bool,
    ) -> Vec<Step> {
        self.account.syncs += 1;
        self.paging.keep_inode(inode);
        self.begin_sync(thread, inode, pages.clone(), data_only);
        let mut steps = Vec::new();
        // `noop_fsync`, fs/libfs.c.
        if !self.paging.keeps_files_in_memory() {
            steps = path_steps(Stage::FileSystem, self.os.paths.file_system, 1);
        }
        steps.extend(self.lock_to_commit(inode, true));
        let Range { start: first, end: past } = pages;
        steps.push(Step::Act(Action::Sync { inode, first, past, data_only }));
        steps
    }

    fn thread_exists(&mut self, thread: ThreadId, named_by: usize) -> Result<(), MachineError> {
        const MOST_THREADS: u32 = 1 << 20;
        if thread >= MOST_THREADS {
            let reason = format!("it names a thread {thread}");
            return Err(MachineError::BadOperation { thread: named_by as u32, reason });
        }
        let needed = thread as usize + 1;
        if self.threads.len() < needed {
            let clock_ps = self.counted_since_ps();
            self.threads.resize_with(needed, || Thread { clock_ps, ..Thread::new() });
        }
        Ok(())
    }

    /// A hardware thread polls for a transfer from now on.
    pub(super) fn poll(&mut self, index: usize, id: TransferId) {
        let thread = self.contexts[index].thread;
        self.threads[thread].state = State::OnTransfer(id);
        self.contexts[index].doing = Doing::Polling;
    }

    // ---- Scheduling ---------------------------------------------------------------------------

    /// Wakes the threads that wait for a signal which `id` has given by now; how many.
    fn wake_for_signals(&mut self, id: usize, now_ps: u64) -> usize {
        let (state, signals) = (self.threads[id].state, self.threads[id].signals);
        let wake_up_ps = self.kernel_path_ps(self.os.paths.wake_up);
        let source = self.memory_source();
        let mut woken = 0;
        for (index, thread) in self.threads.iter_mut().enumerate() {
            let State::OnSignal(on, sequence) = thread.state else { continue };
            if on as usize != id || other_has_not_signalled(state, signals, sequence) {
                continue;
            }
            woken += 1;
            thread.charge_until(BLOCKED, now_ps);
            let at_ps = now_ps + woken as u64 * wake_up_ps;
            thread.charge_until(Stage::WakeUp as usize, at_ps);
            thread.state = State::Waking;
            self.queue.push(at_ps, source, Event::Wake(index as u32));
        }
        woken
    }

    /// A thread that was charged up to then wakes.
    pub(super) fn wake_at(&mut self, id: usize, at_ps: u64) {
        self.threads[id].state = State::Waking;
        self.queue.push(at_ps, self.memory_source(), Event::Wake(id as u32));
    }

    /// A software thread becomes ready: it runs at once where a hardware thread is free, first of
    /// all where it ran last.
    pub(super) fn make_ready(&mut self, id: usize, now_ps: u64) {
        let thread = &mut self.threads[id];
        let owner = match thread.state {
            State::NotStarted => IDLE,
            State::Paused => Stage::HostQueue as usize,
            _ => BLOCKED,
        };
        if thread.state == State::Paused && thread.fault.is_none() {
            let waited_ps = now_ps - thread.clock_ps;
            self.account.causes.wait_in_call(thread.call_cause(), waited_ps, true);
        }
        thread.charge_until(owner, now_ps);
        let started = thread.state != State::NotStarted;
        thread.state = State::Ready;
        let last = Some(thread.last_context).filter(|_| started);
        let free = self.idle_context(last, now_ps);
        self.account.started += u64::from(!started);
        match free {
            Some(index) => self.start_on(index, id, now_ps, started),
            None => self.ready.push_back(id),
        }
    }

    /// A hardware thread that has nothing to run: the one where a thread ran last, else the first of a core that has
    /// nothing to run (two threads are not put on one core as long as another is free, `select_idle_core`,
    /// kernel/sched/fair.c), else any; one that handles interrupts only where all do.
    fn idle_context(&self, last: Option<usize>, now_ps: u64) -> Option<usize> {
        let threads = self.fixed.threads_per_core;
        let idle = |index: &usize| self.contexts[*index].doing == Doing::Idle;
        let free =
            |index: &usize| idle(index) && self.free_of_interrupts_ps(*index, now_ps) == now_ps;
        let core = |is: &dyn Fn(&usize) -> bool| {
            let mut firsts = (0..self.contexts.len()).step_by(threads);
            firsts.find(|first| is(first) && (*first..first + threads).all(|index| idle(&index)))
        };
        let among = |is: &dyn Fn(&usize) -> bool| {
            last.filter(is).or_else(|| core(is)).or_else(|| (0..self.contexts.len()).find(is))
        };
        among(&free).or_else(|| among(&idle))
    }

    /// A hardware thread takes the next ready software thread, if there is one.
    pub(super) fn dispatch(&mut self, index: usize, now_ps: u64) {
        if let Some(id) = self.ready.pop_front() {
            self.start_on(index, id, now_ps, true);
        }
    }

    fn start_on(&mut self, index: usize, id: usize, now_ps: u64, switch: bool) {
        let free_ps = self.free_of_interrupts_ps(index, now_ps);
        let thread = &mut self.threads[id];
        thread.charge_until(Stage::Ready as usize, now_ps);
        thread.charge_until(Stage::Interrupt as usize, free_ps);
        let now_ps = free_ps;
        thread.state = State::Running(index);
        thread.last_context = index;
        if switch {
            self.account.context_switches += 1;
            let path = self.os.paths.context_switch;
            let mut steps = path_steps(Stage::ContextSwitch, path, 1);
            steps.push(Step::StartSlice);
            thread.do_first(&steps);
        }
        let process = thread.process.unwrap_or(0);
        self.activate(self.contexts[index].core);
        let context = &mut self.contexts[index];
        self.cores[context.core].tlb.enter(process, self.fixed.page_shift);
        self.cores[context.core].occupancy.begin(now_ps);
        debug_assert!(context.window.is_empty() && context.pending.is_empty());
        context.thread = id;
        context.doing = Doing::Running;
        context.now_ps = now_ps;
        let slice_ps = self.fixed.time_slice_ps;
        context.slice_end_ps = if switch { u64::MAX } else { now_ps + slice_ps };
    }

    /// The running thread leaves its hardware thread.
    pub(super) fn leave(&mut self, index: usize, state: State) {
        let context = &mut self.contexts[index];
        context.doing = Doing::Idle;
        self.cores[context.core].occupancy.end(context.now_ps);
        let thread = &mut self.threads[context.thread];
        thread.by_thread = state.waits_for_store().map_or(thread.by_thread, |store| !store);
        thread.state = state;
    }
}

/// Numbers of processes lie above the addresses of one.
fn check_process(process: u64, named_by: usize) -> Result<(), MachineError> {
    if process >> 15 == 0 {
        return Ok(());
    }
    let reason = format!("it names a process {process}");
    Err(MachineError::BadOperation { thread: named_by as u32, reason })
}

fn populate_pages(pages: Range<u64>, how: Populate) -> Option<Step> {
    let Range { start: next, end: past } = pages;
    (next < past).then_some(Step::Act(Action::Populate { next, past, how }))
}

fn other_has_not_signalled(state: State, signals: u64, sequence: u64) -> bool {
    signals < sequence && state != State::Ended
}

/// What a thread does that stands still so long.
fn stand_still(duration_ps: u64) -> Vec<Step> {
    if duration_ps == 0 { Vec::new() } else { vec![Step::StandStill { duration_ps }] }
}

/// A thread stands still while the extended buffer cache reads or programs a page.
fn stall_at_flash(duration_ps: u64) -> Step {
    Step::Stall { stage: Stage::BufferCache, duration_ps }
}

pub(super) fn path_steps(stage: Stage, path: PathSpec, times: u32) -> Vec<Step> {
    let instructions = u64::from(path.instructions) * u64::from(times);
    let lines = path.lines.saturating_mul(times);
    let mut steps = Vec::new();
    if instructions > 0 {
        steps.push(Step::Run { stage, instructions });
    }
    if lines > 0 {
        steps.push(Step::Touch { stage, lines });
    }
    steps
}
