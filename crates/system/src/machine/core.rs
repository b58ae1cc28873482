//! What a hardware thread does by itself: instructions, and accesses that its own core serves.

use super::causes::Cause;
use super::dependence::Behind;
use super::faults::{Ended, FaultKind};
use super::memory::{Merged, Miss};
use super::thread::{
    Access, BUSY, Begun, Fault, Flush, Half, NOT_OFFERED, Place, State, Step, Thread, Trap, Way,
};
use super::{
    COPY_INSTRUCTIONS, Context, Core, Doing, Event, Fixed, KERNEL_LINES, Machine, MachineError,
};
use tierscope_kernel::{Stage, StageTimes};
use tierscope_model::os::address_space::Pte;
use tierscope_model::os::paging::Paging;
use tierscope_model::processor::on_chip::DirtyLine;
use tierscope_model::processor::tlb::{Tlb, TlbHit, Translation};
use tierscope_model::processor::window::{
    Block, Gives, Holds, LOADS, NO_MISS, Outstanding, Sizes, Start, UNKNOWN, WALKED,
};
use tierscope_workload::op::{
    FLAG_KEEP, FLAG_NON_TEMPORAL, FLAG_ORDERED, FLAG_STORES, FLAG_WRITTEN, MOST_DEPENDENCE,
};
use tierscope_workload::runs::{RING_BYTES, RUN, Run};
use tierscope_workload::{Op, OpKind, Pull, SiteId};

// As far back as operations tell.
const _: () = assert!(LOADS == MOST_DEPENDENCE as usize);

/// Operations pulled from the stream at once.
const PULL: usize = 4096;
/// The same where accesses are told together: few, as they are soon simulated in detail.
const PULL_CONDENSED: usize = 512;

/// Of an operation's `meta`, the kind and what tells a store past the caches.
const BEYOND_CACHES: u64 = 0xff | (FLAG_NON_TEMPORAL as u64) << 8;

/// Whether a hardware thread can go on with its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    Stop,
}

/// Where a translation comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    FirstTlb,
    SecondTlb,
    /// The page table, which a walk reads.
    Walk,
}

/// The translation of a page for an access, unless the kernel has to come first.
#[inline]
pub(super) fn translate(
    tlb: &mut Tlb,
    paging: &mut Paging,
    page: u64,
    write: bool,
) -> Option<(Translation, Source)> {
    let (found, source) = look_up(tlb, paging, page)?;
    if found.writable || !write {
        return Some((found, source));
    }
    // A walk sets the dirty bit, where that is all there is to do; another hardware thread may have done so.
    let is_set = match paging.entry(page) {
        Pte::Present { frame, writable } if frame == found.frame => writable,
        _ => return None,
    };
    (is_set || paging.sets_dirty_bit(page)).then(|| {
        tlb.invalidate(page);
        (Translation { writable: true, ..found }, Source::Walk)
    })
}

#[inline]
fn look_up(tlb: &mut Tlb, paging: &Paging, page: u64) -> Option<(Translation, Source)> {
    Some(match tlb.lookup(page) {
        TlbHit::First(found) => (found, Source::FirstTlb),
        TlbHit::Second(found) => (found, Source::SecondTlb),
        TlbHit::None => match paging.entry(page) {
            Pte::Present { frame, writable }
                if paging.tables_exist(page) && !paging.is_protected(frame) =>
            {
                (Translation { frame, writable }, Source::Walk)
            }
            _ => return None,
        },
    })
}

/// Whether all accesses of a run hit the first-level TLB and cache, which note that they were used; so they do of those
/// before the first that does not. Who goes round a ring more than once finds what the first round has found.
#[inline]
fn hits_first_level(core: &mut Core, mut run: Run, (page_shift, line_shift): (u32, u32)) -> bool {
    if run.ring {
        run.count = run.count.min(RING_BYTES / run.bytes);
    }
    while run.count > 0 {
        let hits = core.tlb.lookup_first(run.address >> page_shift).is_some_and(|found| {
            let in_page = run.address & ((1 << page_shift) - 1);
            let line = (found.frame << page_shift | in_page) >> line_shift;
            (found.writable || !run.write) && core.caches.hit_first(line, run.write)
        });
        if !hits {
            return false;
        }
        run.pass(run.in_line(1 << line_shift));
    }
    true
}

impl Machine {
    /// Runs a hardware thread until `horizon_ps`, or until it has to wait.
    pub(super) fn run_batch(&mut self, index: usize, horizon_ps: u64) -> Result<(), MachineError> {
        self.contexts[index].share = self.share(index);
        let parts = self.divide(index);
        let Context { window, share, .. } = &mut self.contexts[index];
        window.set_reach((self.fixed.window_ps / parts).saturating_mul(*share));
        let accesses = self.accesses();
        let budget = self.region.budget(accesses, self.instructions());
        let budget = self.windows.as_ref().map_or(budget, |it| it.budget(accesses).min(budget));
        let mut left = self.fixed.batch_limit.min(budget);
        let mut horizon_ps = if self.ready.is_empty() {
            horizon_ps
        } else {
            let context = &mut self.contexts[index];
            if context.now_ps >= context.slice_end_ps && context.trap.is_none() {
                context.trap = Some(Trap::Slice);
            }
            horizon_ps.min(context.slice_end_ps.max(context.now_ps + 1))
        };
        while self.contexts[index].now_ps < horizon_ps && left > 0 {
            if self.run_hits(index, horizon_ps, &mut left) {
                horizon_ps = self.before_events(horizon_ps);
            }
            if self.contexts[index].now_ps >= horizon_ps || left == 0 {
                break;
            }
            left -= 1;
            if self.batch_step(index, horizon_ps)? == Flow::Stop {
                break;
            }
            horizon_ps = self.before_events(horizon_ps);
        }
        Ok(())
    }

    /// Up to when a batch may go on: what it has sent out itself may come back to it.
    #[inline]
    fn before_events(&self, horizon_ps: u64) -> u64 {
        self.queue.peek_ps().map_or(horizon_ps, |at_ps| at_ps.min(horizon_ps))
    }

    /// Hardware threads of a core that have instructions to run. While one waits for a miss, or has no
    /// software thread, the others have its part of the width.
    fn share(&self, index: usize) -> u64 {
        let threads = self.fixed.threads_per_core;
        if threads == 1 {
            return 1;
        }
        let first = index / threads * threads;
        let runs = |context: &&Context| {
            matches!(context.doing, Doing::Running | Doing::Entering | Doing::Polling)
        };
        self.contexts[first..first + threads].iter().filter(runs).count() as u64
    }

    /// Where hardware threads of a core share what it has in flight, one has its part of them, those without a
    /// software thread having none; among how many it is divided.
    #[inline]
    fn divide(&mut self, index: usize) -> u64 {
        self.fixed.divided.map_or(1, |whole| self.divide_among(index, whole))
    }

    fn divide_among(&mut self, index: usize, whole: Sizes) -> u64 {
        let threads = self.fixed.threads_per_core;
        let first = index / threads * threads;
        let siblings = &self.contexts[first..first + threads];
        let active = siblings.iter().filter(|context| context.doing != Doing::Idle).count().max(1);
        self.contexts[index].window.set_sizes(whole.part(active));
        active as u64
    }

    #[inline]
    fn batch_step(&mut self, index: usize, horizon_ps: u64) -> Result<Flow, MachineError> {
        let context = &mut self.contexts[index];
        let thread = &mut self.threads[context.thread];
        if context.trap.is_some() {
            return Ok(self.drain(index));
        }
        if thread.access.is_some() {
            return Ok(self.perform(index));
        }
        if let Some(step) = thread.steps.pop_front() {
            return Ok(self.begin_step(index, step, horizon_ps));
        }
        if thread.called_at_ps.is_some() {
            let id = context.thread;
            self.end_call_of_windows(id);
            return Ok(Flow::Continue);
        }
        if let Some(access) = thread.again.pop_front() {
            thread.access = Some(access);
            return Ok(Flow::Continue);
        }
        let Some(op) = thread.buffer.get(thread.position).copied() else {
            return self.refill(index);
        };
        let (kind, id) = (op.kind_code(), context.thread);
        if kind == OpKind::Call as u8 {
            let instructions = u64::from(op.instructions());
            self.account.instructions += instructions;
            spend_program(context, thread, instructions);
            context.trap = Some(Trap::Call);
            return Ok(Flow::Continue);
        }
        if kind == OpKind::Site as u8 {
            thread.position += 1;
            thread.site = op.word as SiteId;
            return Ok(Flow::Continue);
        }
        if kind == OpKind::Used as u8 {
            thread.position += 1;
            let write = op.flags() & FLAG_WRITTEN != 0;
            thread.access = Some(Access::kernel(Place::Virtual(op.word), write));
            return Ok(Flow::Continue);
        }
        if thread.between {
            let now_ps = context.now_ps;
            let duration_ps = self.leave_between(id, now_ps);
            self.threads[id].do_first(&[Step::StandStill { duration_ps }]);
            return Ok(Flow::Continue);
        }
        if kind == OpKind::Flush as u8 || kind == OpKind::Fence as u8 {
            self.order(index, op);
            return Ok(Flow::Continue);
        }
        if kind == RUN {
            self.take_of_run(index);
            return Ok(Flow::Continue);
        }
        if kind > OpKind::Store as u8 {
            let thread = context.thread as u32;
            let reason = format!("an operation of kind {kind}");
            return Err(MachineError::BadOperation { thread, reason });
        }
        thread.position += 1;
        let instructions = u64::from(op.instructions());
        self.account.instructions += instructions;
        spend_program(context, thread, instructions);
        if kind == OpKind::Compute as u8 {
            return Ok(Flow::Continue);
        }
        let line_bytes = 1u64 << self.fixed.line_shift;
        let write = kind == OpKind::Store as u8;
        let last_byte = op.word.saturating_add(u64::from(op.size().max(1)) - 1);
        if last_byte / line_bytes != op.word / line_bytes {
            let address = last_byte & !(line_bytes - 1);
            thread.half = Some(Half { address, write, loads_back: op.dependence() });
        }
        let access = Access::program(op.word, write, op.dependence());
        let past = write && op.flags() & FLAG_NON_TEMPORAL != 0;
        let way = if past { Way::Past } else { Way::Caches };
        thread.access = Some(Access { way, bytes: op.size(), ..access });
        Ok(Flow::Continue)
    }

    /// A flush, or a fence, whose buffers go.
    #[inline(never)]
    fn order(&mut self, index: usize, op: Op) {
        let context = &mut self.contexts[index];
        let thread = &mut self.threads[context.thread];
        thread.position += 1;
        let instructions = u64::from(op.instructions());
        self.account.instructions += instructions;
        spend_program(context, thread, instructions);
        if op.kind_code() == OpKind::Fence as u8 {
            context.window.fence(op.flags() & FLAG_STORES != 0);
            return self.send_buffers(index);
        }
        let (keeps, ordered) = (op.flags() & FLAG_KEEP != 0, op.flags() & FLAG_ORDERED != 0);
        if ordered {
            context.window.fence(true);
        }
        let way = Way::Flush(Flush::new(keeps, ordered));
        let access = Access::program(op.word, false, 0);
        thread.access = Some(Access { way, gives: Gives::Nothing, measured: false, ..access });
    }

    /// Runs operations as long as each is an access that hits the first-level TLB and a cache of its core, or no
    /// access at all; one that is anything else is left as the thread's access. Nothing here that
    /// [`Machine::perform`] would not do, in a tight loop. Data are checked there alone. Whether something was sent out.
    #[inline]
    fn run_hits(&mut self, index: usize, horizon_ps: u64, left: &mut u64) -> bool {
        let done = if self.functional { (self.accesses(), self.instructions()) } else { (0, 0) };
        let context = &mut self.contexts[index];
        let thread = &mut self.threads[context.thread];
        let waiting = thread.access.is_some() || !thread.steps.is_empty() || context.trap.is_some();
        let waiting = waiting || !thread.again.is_empty();
        let apart = thread.between || thread.called_at_ps.is_some();
        if waiting || apart || self.fixed.check_data {
            return false;
        }
        let core = &mut self.cores[context.core];
        let line_shift = self.fixed.line_shift;
        let in_page = (1u64 << self.fixed.page_shift) - 1;
        let (mut hits, mut instructions, mut taken) = (0, 0, 0);
        let (start_ps, share) = (context.now_ps, context.share);
        let mut now_ps = start_ps;
        let (mut site, mut hits_before, mut sends) = (thread.site, 0, false);
        let latency_ps = core.caches.latency_ps(0);
        for op in &thread.buffer[thread.position..] {
            let kind = op.kind_code();
            if now_ps >= horizon_ps || *left == 0 {
                break;
            }
            // Anything else than an access through the caches.
            if op.meta & BEYOND_CACHES > OpKind::Store as u64 {
                if kind == RUN && self.functional {
                    let run = Run::of(*op);
                    let shifts = (self.fixed.page_shift, line_shift);
                    // Batches end anywhere, without any effect; only the region ends at a count.
                    let accesses = done.0 + hits + run.count;
                    let all = done.1 + instructions + run.instructions;
                    if !self.region.has_room(accesses, all) || !hits_first_level(core, run, shifts)
                    {
                        break;
                    }
                    *left = left.saturating_sub(run.count);
                    taken += 1;
                    hits += run.count;
                    instructions += run.instructions;
                    now_ps += context.pace.advance(run.instructions * share);
                    continue;
                }
                if kind != OpKind::Site as u8 {
                    break;
                }
                *left -= 1;
                taken += 1;
                self.account.hits_of_site(site, hits - hits_before);
                (site, hits_before) = (op.word as SiteId, hits);
                continue;
            }
            *left -= 1;
            taken += 1;
            let count = u64::from(op.instructions());
            instructions += count;
            now_ps += context.pace.advance(count * share);
            if kind == OpKind::Compute as u8 {
                continue;
            }
            let write = kind == OpKind::Store as u8;
            let loads_back = op.dependence();
            let last_byte = op.word.saturating_add(u64::from(op.size().max(1)) - 1);
            let crosses = op.word >> line_shift != last_byte >> line_shift;
            let position = thread.position_instructions + instructions;
            let free = !crosses && now_ps < horizon_ps && {
                context.window.retire(now_ps);
                context.window.blocks(position, write, now_ps) == Block::None
            };
            let found =
                if free { core.tlb.lookup_first(op.word >> self.fixed.page_shift) } else { None };
            let line = found.filter(|found| found.writable || !write).map(|found| {
                (found.frame << self.fixed.page_shift | op.word & in_page) >> line_shift
            });
            let gives = if write { Gives::Nothing } else { Gives::Load };
            if line.is_some_and(|line| core.caches.hit_first(line, write)) {
                let window = &mut context.window;
                let start = window.start(loads_back, now_ps);
                let (kind, times) = ((write, position), (now_ps, latency_ps));
                now_ps = window.was_immediate((start, gives), kind, times);
                hits += 1;
                continue;
            }
            if let Some(line) = line.filter(|_| !self.functional)
                && let Some((start, level)) =
                    hit_own(context, core, (line, write), (loads_back, now_ps), &mut self.evicted)
            {
                self.account.beyond_first += 1;
                self.account.hit(true, level, false, site);
                let times = (start, core.caches.latency_ps(level));
                context.window.push(Outstanding::served(position, write, times), gives);
                let looks_ahead = core.looks_ahead(line, &mut self.ahead);
                if self.evicted.is_empty() && !looks_ahead {
                    continue;
                }
                sends = true;
                break;
            }
            let address = last_byte & !((1u64 << line_shift) - 1);
            thread.half = crosses.then_some(Half { address, write, loads_back });
            thread.access = Some(Access::program(op.word, write, loads_back));
            break;
        }
        thread.position += taken;
        thread.position_instructions += instructions;
        thread.times[BUSY] += now_ps - start_ps;
        thread.clock_ps = now_ps;
        context.now_ps = now_ps;
        self.account.instructions += instructions;
        self.account.hits_of_first_level(hits);
        self.account.hits_of_site(site, hits - hits_before);
        thread.site = site;
        if sends {
            self.post_evicted(index, now_ps);
            self.post_ahead(index, now_ps);
        }
        sends
    }

    /// The first access of a run, whose rest stays.
    fn take_of_run(&mut self, index: usize) {
        let context = &mut self.contexts[index];
        let thread = &mut self.threads[context.thread];
        let mut run = Run::of(thread.buffer[thread.position]);
        let access = Access::program(run.address, run.write, 0);
        thread.access = Some(Access { bytes: run.bytes as u16, ..access });
        let instructions = run.take(1);
        self.account.instructions += instructions;
        spend_program(context, thread, instructions);
        if run.count == 0 {
            thread.position += 1;
        } else {
            thread.buffer[thread.position] = run.op();
        }
    }

    /// Gets more operations, or finds that there are none.
    fn refill(&mut self, index: usize) -> Result<Flow, MachineError> {
        let context = &mut self.contexts[index];
        if !self.stream.wait(context.thread as u32) {
            self.starved = true;
            return Ok(Flow::Stop);
        }
        let thread = &mut self.threads[context.thread];
        thread.buffer.clear();
        thread.position = 0;
        let (id, buffer) = (context.thread as u32, &mut thread.buffer);
        let pulled = if self.functional {
            self.stream.pull_condensed(id, PULL_CONDENSED, buffer)?
        } else {
            self.stream.pull(id, PULL, buffer)?
        };
        if pulled == Pull::End {
            thread.exhausted = true;
            context.trap = Some(Trap::End);
        }
        Ok(Flow::Continue)
    }

    fn begin_step(&mut self, index: usize, step: Step, horizon_ps: u64) -> Flow {
        let context = &mut self.contexts[index];
        let thread = &mut self.threads[context.thread];
        match step {
            Step::Run { stage, instructions } => {
                self.account.kernel_instructions += instructions;
                spend_kernel(context, thread, stage, instructions);
            }
            Step::Touch { stage, lines } if self.functional => {
                return self.warm_touch(index, (stage, lines), horizon_ps);
            }
            Step::Copy { stage, from, to, bytes } if self.functional => {
                return self.warm_copy(index, stage, (from, to), bytes, horizon_ps);
            }
            Step::Touch { stage, lines } => {
                if lines > 1 {
                    thread.steps.push_front(Step::Touch { stage, lines: lines - 1 });
                }
                let by = (context.thread, &*thread);
                thread.access = Some(kernel_access(&self.fixed, by, stage, lines));
            }
            Step::Copy { stage, from, to, bytes } => {
                let part = self.copy_line(index, stage, (from, to), bytes);
                if bytes > part {
                    let (from, to, bytes) = (from.after(part), to.after(part), bytes - part);
                    let thread = &mut self.threads[self.contexts[index].thread];
                    thread.steps.push_front(Step::Copy { stage, from, to, bytes });
                }
            }
            Step::WriteBack { stage, address, bytes } => {
                let line_bytes = 1u64 << self.fixed.line_shift;
                if bytes > line_bytes {
                    let (address, bytes) = (address + line_bytes, bytes - line_bytes);
                    thread.steps.push_front(Step::WriteBack { stage, address, bytes });
                }
                self.account.kernel_instructions += 1;
                spend_kernel(context, thread, stage, 1);
                let access = Access::kernel(Place::Physical(address), false);
                thread.access = Some(Access { way: Way::Flush(Flush::Keeps), ..access });
            }
            Step::Stall { stage, duration_ps } => {
                if !self.nobody_waits() {
                    let context = &mut self.contexts[index];
                    context.now_ps += duration_ps;
                    self.threads[context.thread].charge_until(stage as usize, context.now_ps);
                }
            }
            Step::Act(action) => context.trap = Some(Trap::Act(action)),
            Step::LetGo(frame) => self.paging.let_go(frame),
            Step::Retry => thread.retry(),
            Step::StandStill { duration_ps } => self.stand_still(index, duration_ps),
            Step::Return => {
                if let Some(called) = thread.called.take().filter(|_| !self.functional) {
                    let now_ps = context.now_ps;
                    self.account.returned.record(&called, now_ps, &thread.times);
                    self.log_call(index, &called, now_ps);
                }
            }
            Step::StartSlice => {
                context.window.retire(context.now_ps);
                if thread.away.is_some() && !context.window.is_empty() {
                    // What the switch itself has touched comes first.
                    thread.steps.push_front(step);
                    let block = context.window.drain_block(context.now_ps);
                    return self.wait(index, block);
                }
                self.come_back(index);
                let context = &mut self.contexts[index];
                // How far the batch may go depends on it.
                context.slice_end_ps = context.now_ps + self.fixed.time_slice_ps;
                return Flow::Stop;
            }
        }
        Flow::Continue
    }

    /// Copies a line by two instructions' worth of a string operation; how much of the bytes lies in it.
    #[inline]
    pub(super) fn copy_line(
        &mut self,
        index: usize,
        stage: Stage,
        (from, to): (Place, Place),
        bytes: u64,
    ) -> u64 {
        let line_bytes = 1u64 << self.fixed.line_shift;
        let context = &mut self.contexts[index];
        let thread = &mut self.threads[context.thread];
        let offset = match to {
            Place::Physical(address) | Place::Virtual(address) => address % line_bytes,
            Place::Nowhere => 0,
        };
        let part = bytes.min(line_bytes - offset);
        self.account.kernel_instructions += COPY_INSTRUCTIONS;
        spend_kernel(context, thread, stage, COPY_INSTRUCTIONS);
        let whole_line = part == line_bytes;
        let store = Access { whole_line, ..Access::kernel(to, true) };
        if from == Place::Nowhere {
            thread.access = Some(store);
        } else {
            thread.access = Some(Access::kernel(from, false));
            thread.store_after = Some(store);
        }
        part
    }

    /// Offers the thread's access to its core.
    fn perform(&mut self, index: usize) -> Flow {
        if self.functional {
            return self.warm(index);
        }
        let context = &mut self.contexts[index];
        let thread = &mut self.threads[context.thread];
        let Some(access) = &mut thread.access else { return Flow::Continue };
        let issue_ps = access.offered_at(context.now_ps);
        access.offered_ps = issue_ps;
        let access = *access;
        if !context.window.is_empty() {
            context.window.retire(context.now_ps);
            let position = thread.position_instructions;
            let stores = access.write || access.way != Way::Caches;
            match context.window.blocks(position, stores, context.now_ps) {
                Block::None => {}
                block => return self.wait_on(index, block),
            }
        }
        let start = context.window.start(access.loads_back, context.now_ps);
        if let Start::BehindBoth(of, _) = start {
            return self.wait_for_address(index, Block::On(of));
        }
        // Whose address is known later is told from then on, however long it has been here.
        let is_told_whole = issue_ps != context.now_ps && start == Start::At(context.now_ps);
        let slow = access.after_fault || is_told_whole;
        let core = &mut self.cores[context.core];
        let (physical, tlb_ps, walk) = match access.place {
            Place::Physical(address) => (address, 0, false),
            Place::Nowhere => return Flow::Continue,
            Place::Virtual(address) => {
                let page = address >> self.fixed.page_shift;
                let found = translate(&mut core.tlb, &mut self.paging, page, access.write);
                let Some((translation, source)) = found else {
                    return match start.block(context.now_ps) {
                        Block::None => fault(context, thread, page, access, issue_ps),
                        block => self.wait_for_address(index, block),
                    };
                };
                if let (Source::SecondTlb, Some(access)) = (source, &mut thread.access) {
                    // It may have to wait, and is found by the first level then.
                    access.asks_second_tlb = true;
                }
                let second = access.asks_second_tlb || source == Source::SecondTlb;
                let tlb_ps = if second { self.fixed.second_tlb_ps } else { 0 };
                let walk = source == Source::Walk;
                let offset = address & ((1 << self.fixed.page_shift) - 1);
                (translation.frame << self.fixed.page_shift | offset, tlb_ps, walk)
            }
        };
        let line = physical >> self.fixed.line_shift;
        if access.way != Way::Caches {
            return match (start, walk) {
                (Start::Behind(of, _), _) => self.wait_for_address(index, Block::On(of)),
                (_, true) => self.walk_first(index, access),
                (_, false) => self.perform_past(index, access, (line, physical), tlb_ps),
            };
        }
        if walk {
            return self.walk(index, (access, start), line);
        }
        if core.caches.hit_first(line, access.write) {
            let kind = (access.write, thread.position_instructions);
            let times = (context.now_ps, tlb_ps + core.caches.latency_ps(0));
            let until_ps = context.window.was_immediate((start, access.gives), kind, times);
            self.account.hit(access.measured, 0, tlb_ps != 0, thread.site);
            if slow {
                let stages = (tlb_ps, core.caches.latency_ps(0));
                let area = context.area_of(&self.paging, &self.fixed, &access);
                let cause = Cause { area, site: thread.site };
                let told =
                    self.account.slow_hit((access, cause), thread, 0, context.now_ps, stages);
                self.log_hit(index, line, told);
            }
            if self.fixed.check_data {
                self.check(index, line, access.write);
            }
            self.keep_back(index, until_ps);
            self.access_done(index);
            return Flow::Continue;
        }
        // Beyond the first level a miss register is needed.
        let pending = context
            .pending
            .iter()
            .find(|(pending, id)| *pending == line && !self.misses[*id].is_served);
        if let Some((_, miss)) = pending.copied() {
            if self.misses[miss].way != Way::Caches {
                return self.wait_on(index, Block::On(miss));
            }
            // Two fields of a node wait for the same, and come with its line.
            let waits_for = self.misses[miss].behind.map(|behind| behind.of);
            return match start {
                Start::Behind(of, _) if of != miss && Some(of) != waits_for => {
                    self.wait_for_address(index, Block::On(of))
                }
                _ => self.merge(index, access, miss, tlb_ps),
            };
        }
        if let Some(miss) = core.coming(line) {
            return match start {
                Start::Behind(of, _) => self.wait_for_address(index, Block::On(of)),
                _ => self.join_ahead(index, access, miss, tlb_ps),
            };
        }
        match register_block(context, start) {
            Block::None => {}
            block => return self.wait_on(index, block),
        }
        let mut level = core.caches.hit_beyond(line, access.write, &mut self.evicted);
        if level.is_none() && access.whole_line && self.coherence.active_cores <= 1 {
            core.caches.fill_absent(line, true, self.account.newest(line), &mut self.evicted);
            level = Some(0);
            self.include_soon(index, line);
        }
        if access.whole_line && level == Some(0) {
            self.note_on_chip(line);
        }
        let now_ps = self.contexts[index].now_ps;
        self.post_evicted(index, now_ps);
        let context = &mut self.contexts[index];
        let thread = &mut self.threads[context.thread];
        let core = &mut self.cores[context.core];
        // What waits for its address is counted as it begins.
        self.account.beyond_first += u64::from(level.is_some() || start.known().is_ok());
        if let Some(level) = level {
            let looks_ahead =
                level > 0 && !access.whole_line && core.looks_ahead(line, &mut self.ahead);
            let latency_ps = core.caches.latency_ps(level);
            let times = (start, tlb_ps + latency_ps);
            let entry = Outstanding::served(thread.position_instructions, access.write, times);
            context.window.push(entry, access.gives);
            self.account.hit(access.measured, level, tlb_ps != 0, thread.site);
            if slow {
                let stages = (tlb_ps, latency_ps);
                let area = context.area_of(&self.paging, &self.fixed, &access);
                let cause = Cause { area, site: thread.site };
                let told =
                    self.account.slow_hit((access, cause), thread, level, context.now_ps, stages);
                self.log_hit(index, line, told);
            }
            if self.fixed.check_data {
                self.check(index, line, access.write);
            }
            if looks_ahead {
                self.post_ahead(index, now_ps);
            }
            self.access_done(index);
            return Flow::Continue;
        }
        let latency_ps = core.caches.latency_ps(core.caches.depth() - 1);
        let area = context.area_of(&self.paging, &self.fixed, &access);
        let cause = Cause { area, site: thread.site };
        let begun = begin(thread, access, (start, context.now_ps), &mut self.account.ended);
        let mut miss = Miss::new((index, context.thread), line, (access, cause), begun);
        match start.known() {
            Ok(at_ps) => {
                miss.timeline.push(Stage::Tlb, tlb_ps);
                miss.timeline.push(Stage::Cache, latency_ps);
                miss.clock_ps = at_ps + tlb_ps + latency_ps;
                self.start_miss(index, miss, access.gives);
            }
            Err((of, after_ps)) => {
                miss.behind = Some(Behind { of, after_ps, tlb_ps });
                miss.clock_ps = context.now_ps;
                self.start_behind(index, (miss, access.gives), of);
            }
        }
        self.access_done(index);
        Flow::Continue
    }

    /// The access waits until its address is known; it is offered then.
    fn wait_for_address(&mut self, index: usize, block: Block) -> Flow {
        if let Some(access) = &mut self.threads[self.contexts[index].thread].access {
            access.offered_ps = NOT_OFFERED;
        }
        self.wait_on(index, block)
    }

    /// A chain of hits keeps the thread back until then.
    #[inline]
    fn keep_back(&mut self, index: usize, until_ps: u64) {
        let context = &mut self.contexts[index];
        let duration_ps = until_ps - context.now_ps;
        if duration_ps > 0 {
            keep_busy(context, &mut self.threads[context.thread], duration_ps);
        }
    }

    /// Enters a miss in the window and sends it to the shared caches.
    fn start_miss(&mut self, index: usize, miss: Miss, gives: Gives) {
        let at_ps = miss.clock_ps;
        let id = self.enter_miss(index, (miss, gives), true);
        self.queue.push(at_ps, index as u16, Event::Shared(id));
    }

    pub(super) fn enter_miss(
        &mut self,
        index: usize,
        (miss, gives): (Miss, Gives),
        takes_register: bool,
    ) -> u32 {
        let (line, write) = (miss.line, miss.write);
        let id = self.misses.insert(miss);
        let context = &mut self.contexts[index];
        let thread = &self.threads[context.thread];
        context.pending.push((line, id));
        let entry = Outstanding {
            instruction: thread.position_instructions,
            done_ps: UNKNOWN,
            miss: id,
            after_ps: 0,
            holds: Holds::of(write),
            takes_register,
        };
        context.window.push(entry, gives);
        id
    }

    /// The translation is in no TLB: once the second level has been asked, a walk reads the page table through the
    /// caches, and then the access itself follows.
    fn walk(&mut self, index: usize, (access, start): (Access, Start), line: u64) -> Flow {
        let context = &mut self.contexts[index];
        match register_block(context, start) {
            Block::None => {}
            block => return self.wait_on(index, block),
        }
        let thread = &mut self.threads[context.thread];
        let Place::Virtual(address) = access.place else { return Flow::Continue };
        let page = address >> self.fixed.page_shift;
        let core = &mut self.cores[context.core];
        let Pte::Present { frame, writable } = self.paging.entry(page) else {
            return Flow::Continue;
        };
        self.paging.touch(frame);
        let is_huge = self.paging.is_huge(frame);
        core.tlb.insert_of(page, Translation { frame, writable }, is_huge);
        let upper_cached = core.tlb.upper_levels_cached(page, is_huge);
        let area = context.area_of(&self.paging, &self.fixed, &access);
        let cause = Cause { area, site: thread.site };
        let begun = begin(thread, access, (start, context.now_ps), &mut self.account.ended);
        let mut miss = Miss::new((index, context.thread), line, (access, cause), begun);
        miss.whole_line = false;
        let (entries, levels) = self.paging.walk_addresses(page, is_huge);
        miss.walk = entries.map(|entry| entry >> self.fixed.line_shift);
        miss.walk_left = if upper_cached { 1 } else { levels as u8 };
        let begins = u64::from(start.known().is_ok());
        self.account.walks += begins;
        self.account.beyond_first += begins;
        let tlb_ps = self.fixed.second_tlb_ps;
        let at_ps = match start.known() {
            Ok(at_ps) => at_ps,
            Err((of, after_ps)) => {
                miss.behind = Some(Behind { of, after_ps, tlb_ps });
                miss.clock_ps = context.now_ps;
                self.start_behind(index, (miss, access.gives), of);
                self.access_done(index);
                return Flow::Continue;
            }
        };
        miss.timeline.push(Stage::Tlb, tlb_ps);
        miss.clock_ps = at_ps + tlb_ps;
        let finished = miss.advance(&mut core.caches, &mut self.evicted);
        let now_ps = self.contexts[index].now_ps;
        self.post_evicted(index, now_ps);
        if finished {
            self.finish_private(index, &miss, access);
        } else {
            self.start_miss(index, miss, access.gives);
        }
        self.access_done(index);
        Flow::Continue
    }

    /// An access that goes past the caches waits for the second level of the TLB and a walk first, which reads the entry
    /// of the page table.
    #[inline(never)]
    fn walk_first(&mut self, index: usize, access: Access) -> Flow {
        let context = &mut self.contexts[index];
        let thread = &mut self.threads[context.thread];
        let Place::Virtual(address) = access.place else { return Flow::Continue };
        let page = address >> self.fixed.page_shift;
        let Pte::Present { frame, writable } = self.paging.entry(page) else {
            return Flow::Continue;
        };
        self.paging.touch(frame);
        let is_huge = self.paging.is_huge(frame);
        let tlb = &mut self.cores[context.core].tlb;
        tlb.insert_of(page, Translation { frame, writable }, is_huge);
        tlb.upper_levels_cached(page, is_huge);
        context.now_ps += self.fixed.second_tlb_ps;
        thread.charge_until(Stage::Tlb as usize, context.now_ps);
        self.account.walks += 1;
        let ([entry, ..], _) = self.paging.walk_addresses(page, is_huge);
        let entry = Access::kernel(Place::Physical(entry), false);
        thread.access = Some(Access { gives: Gives::Walked, ..entry });
        thread.store_after = Some(Access { loads_back: WALKED, ..access });
        Flow::Continue
    }

    /// A walk and its access were served by the core's own caches: their time is known.
    fn finish_private(&mut self, index: usize, miss: &Miss, access: Access) {
        let context = &mut self.contexts[index];
        let thread = &self.threads[context.thread];
        let entry = Outstanding {
            instruction: thread.position_instructions,
            done_ps: miss.clock_ps,
            miss: NO_MISS,
            after_ps: 0,
            holds: Holds::of(access.write),
            takes_register: true,
        };
        context.window.push(entry, access.gives);
        if self.fixed.check_data {
            self.check(index, miss.line, access.write);
        }
        self.account.finish(miss, miss.clock_ps);
        self.log_miss(miss, miss.clock_ps);
        // What leaves a core leaves it no sooner than an access does.
        let at_ps = miss.clock_ps.max(self.contexts[index].now_ps + self.fixed.lookahead_ps);
        self.served_by_own(index, miss.level, (miss.line, at_ps));
    }

    /// The line is on its way for an earlier access of the same hardware thread.
    pub(super) fn merge(&mut self, index: usize, access: Access, id: u32, tlb_ps: u64) -> Flow {
        let context = &mut self.contexts[index];
        let thread = &mut self.threads[context.thread];
        if context.window.len() >= 4096 {
            return self.wait(index, Block::On(id));
        }
        let Begun { mut timeline, fault, .. } =
            thread.begin(access, context.now_ps, &mut self.account.ended);
        timeline.push(Stage::Tlb, tlb_ps);
        let since_ps = context.now_ps + tlb_ps;
        let address = access.place.address();
        let (site, write) = (thread.site, access.write);
        let merged = Merged { site, address, write, since_ps, timeline, fault };
        self.misses[id].merge(access, merged, &mut self.spare);
        let entry = Outstanding {
            instruction: thread.position_instructions,
            done_ps: UNKNOWN,
            miss: id,
            after_ps: 0,
            holds: Holds::of(access.write),
            takes_register: false,
        };
        context.window.push(entry, access.gives);
        self.access_done(index);
        Flow::Continue
    }

    /// The thread's access is under way or done: the next may come.
    #[inline]
    pub(super) fn access_done(&mut self, index: usize) {
        let thread = &mut self.threads[self.contexts[index].thread];
        thread.access = thread.store_after.take();
        if thread.access.is_none()
            && let Some(half) = thread.half.take()
        {
            thread.access = Some(half.access());
        }
    }

    /// Dirty lines that left the core's caches go to the shared ones.
    #[inline]
    pub(super) fn post_evicted(&mut self, index: usize, now_ps: u64) {
        if self.evicted.is_empty() {
            return;
        }
        let at_ps = now_ps + self.fixed.lookahead_ps;
        for line in self.evicted.drain(..) {
            self.posts = self.posts.wrapping_add(1);
            self.posted.push((self.posts, line));
            self.queue.push(at_ps, index as u16, Event::PutDirty(self.posts));
        }
    }

    /// The hardware thread has to wait; a buffer that it waits for goes.
    #[inline]
    pub(super) fn wait_on(&mut self, index: usize, block: Block) -> Flow {
        if let Block::On(id) = block {
            self.send_buffer(index, id);
        }
        self.wait(index, block)
    }

    /// Before the kernel is entered all that is outstanding has to be finished.
    fn drain(&mut self, index: usize) -> Flow {
        self.send_buffers(index);
        let context = &mut self.contexts[index];
        context.window.retire(context.now_ps);
        match context.window.drain_block(context.now_ps) {
            Block::None => {
                context.doing = Doing::Entering;
                let at_ps = context.now_ps + self.fixed.lookahead_ps;
                self.queue.push(at_ps, index as u16, Event::Trap(index));
                Flow::Stop
            }
            block => self.wait(index, block),
        }
    }

    fn wait(&mut self, index: usize, block: Block) -> Flow {
        let block = match block {
            Block::On(miss) => Block::On(self.first_of(miss)),
            known => known,
        };
        let context = &mut self.contexts[index];
        let flow = wait(context, &mut self.threads[context.thread], block);
        if let Block::On(miss) = block {
            self.mind_long_read(index, miss);
        }
        flow
    }
}

/// What an access has behind it when it is performed at `now_ps`. Where its address is known later, it is told from then on.
#[inline]
fn begin(
    thread: &mut Thread,
    access: Access,
    (start, now_ps): (Start, u64),
    ended: &mut Ended,
) -> Begun {
    match start {
        Start::At(at_ps) if at_ps > now_ps => {
            thread.begin(Access { offered_ps: NOT_OFFERED, ..access }, at_ps, ended)
        }
        _ => thread.begin(access, now_ps, ended),
    }
}

/// When an access begins that misses the first level and is served by another of its core's own caches, and by which, if
/// nothing keeps it back.
#[inline]
fn hit_own(
    context: &Context,
    core: &mut Core,
    (line, write): (u64, bool),
    (loads_back, now_ps): (u8, u64),
    evicted: &mut Vec<DirtyLine>,
) -> Option<(Start, usize)> {
    if context.pending.iter().any(|(pending, _)| *pending == line) {
        return None;
    }
    let start = context.window.start(loads_back, now_ps);
    if matches!(start, Start::BehindBoth(..)) || register_block(context, start) != Block::None {
        return None;
    }
    Some((start, core.caches.hit_beyond(line, write, evicted)?))
}

/// What keeps an access that needs a miss register from getting one, where it needs it now.
#[inline]
fn register_block(context: &Context, start: Start) -> Block {
    match start.known() {
        Ok(_) => context.window.register_block(),
        Err(_) => Block::None,
    }
}

/// The access by which a path of the kernel, for the thread with this number, touches the first of `left` lines.
#[inline]
pub(super) fn kernel_access(
    fixed: &Fixed,
    (number, thread): (usize, &Thread),
    stage: Stage,
    left: u32,
) -> Access {
    let pass = (number, thread.position_instructions);
    let line = fixed.kernel_line + kernel_line(pass, stage, left);
    Access::kernel(Place::Physical(line << fixed.line_shift), false)
}

/// Which line of the kernel's data a path touches when `left` of its lines are left, this one
/// included, for a thread that has come so far. Half of them are its own, which every pass uses again, and which do not
/// all begin in the same sets of a cache; the others are descriptors of pages and requests, spread over the kernel's
/// data. Each thread counts for itself, so that the choice does not depend on how batches interleave.
fn kernel_line((thread, position): (usize, u64), stage: Stage, left: u32) -> u64 {
    const OWN_LINES: u64 = KERNEL_LINES / 32;
    const _: () = assert!(Stage::ALL.len() <= 32);
    let (stage, left) = (stage as u64, u64::from(left));
    if left.is_multiple_of(2) {
        return stage * OWN_LINES + (left / 2 + stage * OWN_LINES / 32) % OWN_LINES;
    }
    scattered((position + left) ^ (stage << 56) ^ ((thread as u64) << 44)) % KERNEL_LINES
}

/// A number as if drawn for this one. Passes that come at equal distances, as a program's do that faults again and again,
/// must not meet the same few lines, as they would with a multiplication alone.
#[inline]
fn scattered(of: u64) -> u64 {
    let folded = |value: u64| value ^ value >> 32;
    folded(folded(of.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93))
}

/// Instructions of the program take their time.
#[inline]
fn spend_program(context: &mut Context, thread: &mut Thread, instructions: u64) {
    let duration_ps = context.pace.advance(instructions * context.share);
    thread.position_instructions += instructions;
    keep_busy(context, thread, duration_ps);
}

#[inline]
fn keep_busy(context: &mut Context, thread: &mut Thread, duration_ps: u64) {
    context.now_ps += duration_ps;
    thread.times[BUSY] += duration_ps;
    thread.clock_ps += duration_ps;
}

/// Instructions of a kernel path take theirs.
#[inline]
pub(super) fn spend_kernel(
    context: &mut Context,
    thread: &mut Thread,
    stage: Stage,
    instructions: u64,
) {
    context.now_ps += context.kernel_pace.advance(instructions * context.share);
    thread.position_instructions += instructions;
    thread.charge_until(stage as usize, context.now_ps);
}

/// The hardware thread has to wait before it can issue its access.
fn wait(context: &mut Context, thread: &mut Thread, block: Block) -> Flow {
    match block {
        Block::None => Flow::Continue,
        Block::Until(at_ps) => {
            context.now_ps = at_ps;
            thread.charge_until(Stage::Cache as usize, at_ps);
            context.window.retire(at_ps);
            Flow::Continue
        }
        Block::On(miss) => {
            context.doing = Doing::Stalled(miss);
            Flow::Stop
        }
    }
}

/// The page is not there, or not for stores: the access has to be repeated after the kernel.
pub(super) fn fault(
    context: &mut Context,
    thread: &mut Thread,
    page: u64,
    access: Access,
    start_ps: u64,
) -> Flow {
    thread.access = None;
    // What follows the access waits with it, so that the kernel's own accesses do not take it along.
    let (store_after, half) = (thread.store_after.take(), thread.half.take());
    match &mut thread.fault {
        // The page was gone again before it could be used.
        Some(fault) if access.after_fault => {
            (fault.store_after, fault.half) = (store_after, half);
            fault.repeats += 1;
        }
        _ => {
            let mut times = Box::new(StageTimes::default());
            times[Stage::Core as usize] = context.now_ps - start_ps;
            let kind = FaultKind::default();
            let (repeats, held) = (0, None);
            thread.fault =
                Some(Fault { start_ps, times, access, store_after, half, repeats, kind, held });
        }
    }
    let write = access.write;
    context.trap = Some(Trap::Fault { page, write });
    debug_assert!(matches!(thread.state, State::Running(_)));
    Flow::Continue
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::load;
    use tierscope_model::os::paging::{Next, Work};
    use tierscope_workload::op::{Advice, MAP_WRITABLE, NO_FILE};

    const PAGE: u64 = 7;

    fn fault(paging: &mut Paging, write: bool) -> u64 {
        let mut work = Vec::new();
        loop {
            let next = paging.fault(PAGE, write, 0, &mut work, &|_| false).expect("there is room");
            for work in work.drain(..) {
                match work {
                    Work::Submit(id) => {
                        paging.submitted(id);
                        while !paging.page_moved(id) {}
                        paging.finish_transfer(id);
                    }
                    Work::Clear(frame) => paging.let_go(frame),
                    _ => {}
                }
            }
            if let Next::Ready(frame) = next {
                return frame;
            }
        }
    }

    /// A load has brought a page from swap, so that its entry has no dirty bit.
    fn a_page_from_swap() -> (Paging, [Tlb; 2], u64) {
        let sets = [("storage.reclaim".to_string(), "active-inactive".to_string())];
        let spec = load("storage/quick", &sets).expect("the preset is right").spec;
        let (os, tlb) = (spec.os.as_ref().unwrap(), &spec.processor.as_ref().unwrap().tlb);
        let mut paging = Paging::new(os, tlb.levels, 1 << 22, spec.paging(), 0);
        let bytes = 16 * paging.page_bytes();
        paging.map(0, bytes, MAP_WRITABLE, NO_FILE, 0);
        fault(&mut paging, true);
        let mut work = Vec::new();
        paging.advise(0, bytes, Advice::PageOut as u64, &mut work, &|_| false).unwrap();
        for work in work {
            if let Work::Submit(id) = work {
                paging.submitted(id);
                while !paging.page_moved(id) {}
                paging.finish_transfer(id);
            }
        }
        assert!(matches!(paging.entry(PAGE), Pte::Swapped(_)), "it has gone");
        let frame = fault(&mut paging, false);
        (paging, [Tlb::new(tlb), Tlb::new(tlb)], frame)
    }

    #[test]
    fn an_entry_that_allows_stores_by_now_is_seen_by_all_whose_tlb_has_an_older_one() {
        let (mut paging, mut tlbs, frame) = a_page_from_swap();
        for tlb in &mut tlbs {
            tlb.insert_of(PAGE, Translation { frame, writable: false }, false);
        }
        for tlb in &mut tlbs {
            let (found, source) = translate(tlb, &mut paging, PAGE, true).expect("it is no fault");
            assert_eq!((found.frame, found.writable, source), (frame, true, Source::Walk));
        }
    }

    #[test]
    fn an_entry_that_the_kernel_has_made_to_allow_stores_is_seen_too() {
        let (mut paging, [mut tlb, _], frame) = a_page_from_swap();
        tlb.insert_of(PAGE, Translation { frame, writable: false }, false);
        // As a call does that brings pages to be stored to.
        assert_eq!(fault(&mut paging, true), frame);
        let (found, _) = translate(&mut tlb, &mut paging, PAGE, true).expect("it is no fault");
        assert!(found.writable);
    }
}
