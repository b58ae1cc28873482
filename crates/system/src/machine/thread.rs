//! A software thread of the workload as the machine runs it.

use super::calls::Called;
use super::causes::Cause;
use super::faults::{Ended, FaultKind};
use super::files::OpenFiles;
use super::memory::TransferIo;
use super::polling::Sleep;
use crate::sampling::{self, ByCause};
use std::collections::VecDeque;
use tierscope_kernel::{Stage, StageTimes, Timeline};
use tierscope_model::os::InodeId;
use tierscope_model::os::file_system::cold::BlockRun;
use tierscope_model::os::inode_locks::Hold;
use tierscope_model::os::paging::{DirectCall, Populate, TransferId};
use tierscope_model::processor::window::{Gives, Window};
use tierscope_workload::op::{Buffer, FLAG_NON_TEMPORAL};
use tierscope_workload::site::UNKNOWN_SITE;
use tierscope_workload::{Op, OpKind, SiteId, ThreadId};

/// Who a picosecond of a software thread is charged to: a stage, or one of these.
pub const BUSY: usize = Stage::ALL.len();
/// Waiting for another thread, or asleep.
pub const BLOCKED: usize = BUSY + 1;
/// Not started yet, or ended.
pub const IDLE: usize = BUSY + 2;
/// Number of owners.
pub const OWNERS: usize = BUSY + 3;

/// Whether a thread does nothing meanwhile but wait for another thread, or is not there.
pub fn is_asleep(owner: usize) -> bool {
    matches!(owner, BLOCKED | IDLE) || owner == Stage::FileLock as usize
}

/// Whether it is time in which a hardware thread goes from one thread to another.
fn hands_over(owner: usize) -> bool {
    owner == Stage::WakeUp as usize || owner == Stage::ContextSwitch as usize
}

/// Name of an owner in results.
pub fn owner_name(owner: usize) -> &'static str {
    match owner {
        BUSY => "busy",
        BLOCKED => "blocked",
        IDLE => "idle",
        stage => Stage::ALL[stage].name(),
    }
}

/// What a thread does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not started.
    NotStarted,
    /// Ready: waits for a hardware thread.
    Ready,
    /// Runs on this hardware thread.
    Running(usize),
    /// Waits for a transfer.
    OnTransfer(TransferId),
    /// Waits for a free frame.
    OnFrame,
    /// Waits until memory keeps what it has taken.
    OnMemory,
    /// Waits for the lock of an inode.
    OnInode,
    /// Waits for another thread's signal.
    OnSignal(ThreadId, u64),
    /// Pauses, as too much is dirty.
    Paused,
    /// Asleep, or about to be woken.
    Waking,
    /// Ended.
    Ended,
}

impl State {
    /// Whether a thread that is so goes on by the store's doing, or by other threads'; nothing where it is neither.
    pub fn waits_for_store(self) -> Option<bool> {
        match self {
            State::OnTransfer(_) | State::OnFrame | State::OnMemory | State::Paused => Some(true),
            State::Ready | State::OnInode | State::OnSignal(..) => Some(false),
            State::NotStarted | State::Running(_) | State::Waking | State::Ended => None,
        }
    }
}

/// An end of a copy by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nothing is read (zeroing).
    Nowhere,
    /// A physical address.
    Physical(u64),
    /// An address of the program.
    Virtual(u64),
}

impl Place {
    /// The place `bytes` further.
    pub fn after(self, bytes: u64) -> Place {
        match self {
            Place::Nowhere => Place::Nowhere,
            Place::Physical(address) => Place::Physical(address + bytes),
            Place::Virtual(address) => Place::Virtual(address + bytes),
        }
    }

    /// Its address, of whichever kind.
    #[inline]
    pub fn address(self) -> u64 {
        match self {
            Place::Nowhere => 0,
            Place::Physical(address) | Place::Virtual(address) => address,
        }
    }
}

/// A step of kernel work that a thread has to do before its next operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Instructions of a path.
    Run { stage: Stage, instructions: u64 },
    /// Loads of lines of kernel data.
    Touch { stage: Stage, lines: u32 },
    /// A copy, line by line.
    Copy { stage: Stage, from: Place, to: Place, bytes: u64 },
    /// Flushes of lines, one after the other, which stay in the caches, clean.
    WriteBack { stage: Stage, address: u64, bytes: u64 },
    /// Standing still at a memory that nothing else waits for.
    Stall { stage: Stage, duration_ps: u64 },
    /// Something that concerns others: done as an event.
    Act(Action),
    /// Lets go of a frame that it has cleared or copied.
    LetGo(u64),
    /// The access that faulted is repeated.
    Retry,
    /// The thread stands still: what it did in this time is not recorded.
    StandStill { duration_ps: u64 },
    /// The time slice begins, once the thread has been switched to: however short it is, the
    /// thread gets on.
    StartSlice,
    /// The call that the thread is in returns.
    Return,
}

/// What a step does as an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Decides what a fault needs.
    Resolve { page: u64, write: bool },
    /// Takes the driver's lock, and holds it for a while.
    Lock,
    /// Hands a transfer to the device.
    Submit(TransferId),
    /// Waits for a transfer.
    Wait(TransferId),
    /// Polls for a transfer, having slept before.
    Poll(TransferId),
    /// Sleeps until this time, as too much is dirty.
    Pause(u64),
    /// Waits for a free frame.
    WaitForFrame,
    /// A transfer that the thread has carried out itself ends.
    Arrive(TransferId),
    /// A transfer whose pages the thread has copied ends.
    Copied(TransferId),
    /// A read call goes on.
    Read { inode: InodeId, offset: u64, left: u64, address: u64, last: u64 },
    /// A write call goes on.
    Write { inode: InodeId, offset: u64, left: u64, address: u64 },
    /// A call that brings pages to the page cache, and hands them on without copying them, goes on.
    SpliceRead { inode: InodeId, offset: u64, left: u64, last: u64 },
    /// A call that writes what the kernel has goes on.
    SpliceWrite { inode: InodeId, offset: u64, left: u64 },
    /// The same, of what a page of another file holds.
    CopyWrite { inode: InodeId, offset: u64, left: u64, source: InodeId, source_offset: u64 },
    /// A copy from one file to another goes on.
    CopyRange { source: InodeId, source_offset: u64, inode: InodeId, offset: u64, left: u64 },
    /// Blocks of metadata in a row are read.
    ReadMetadata(BlockRun),
    /// The lock of a file is taken, before a call on it.
    LockInode(InodeId, Hold),
    /// It is given up before the call's end.
    UnlockInode(InodeId),
    /// A file whose lock is had is cut off.
    Truncate { inode: InodeId, length: u64 },
    /// Blocks of a file are allocated, or freed (fallocate), once the parts of pages at the range's ends are cleared.
    Allocate { inode: InodeId, mode: u64, offset: u64, length: u64, cleared: bool },
    /// A call past the page cache goes on.
    Direct(DirectCall),
    /// It has moved all its pages.
    DirectDone(DirectCall),
    /// What a write past the page cache had to leave there, as it was not of whole pages, is written and goes.
    Settle(DirectCall),
    /// A sync of pages of a file goes on, from the first to the one past the last.
    Sync { inode: InodeId, first: u64, past: u64, data_only: bool },
    /// What a sync commits, once the pages are written.
    Commit { inode: InodeId, first: u64, past: u64, data_only: bool },
    /// The drive is flushed for a sync.
    Flush,
    /// Waits until memory keeps what it has taken.
    Durable,
    /// A sync has returned.
    Synced(InodeId),
    /// Dirty pages of a file, from the next of a range on, are written, and those of the range waited for, as these
    /// flags say ([`tierscope_workload::op::SYNC_FILE_RANGE`]).
    SyncFileRange { inode: InodeId, first: u64, next: u64, past: u64, flags: u64 },
    /// Pages of a file that are needed no longer are dropped.
    Drop { inode: InodeId, first: u64, past: u64 },
    /// Pages of a range are brought to memory, from the next one on.
    Populate { next: u64, past: u64, how: Populate },
    /// A sync of all files goes on, with this page of this file.
    SyncAll { inode: InodeId, page: u64 },
    /// It has written their data.
    SyncAllMetadata,
    /// It writes the metadata that has been dirty since then, or since now, to its places.
    SyncPlaces { due_ps: Option<u64> },
}

/// Why a thread enters the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    /// A page fault.
    Fault { page: u64, write: bool },
    /// A call, whose operations start at this place of the buffer.
    Call,
    /// A step that concerns others.
    Act(Action),
    /// The time slice is over.
    Slice,
    /// The stream has ended.
    End,
}

impl Access {
    /// An access of the program.
    pub fn program(address: u64, write: bool, loads_back: u8) -> Self {
        let place = Place::Virtual(address);
        let gives = if write { Gives::Nothing } else { Gives::Load };
        Access { loads_back, gives, measured: true, ..Access::kernel(place, write) }
    }

    /// When it was first offered: now, where it has not been before.
    #[inline]
    pub fn offered_at(&self, now_ps: u64) -> u64 {
        if self.offered_ps == NOT_OFFERED { now_ps } else { self.offered_ps }
    }

    /// An access of the kernel.
    pub fn kernel(place: Place, write: bool) -> Self {
        Access {
            place,
            write,
            way: Way::Caches,
            bytes: 0,
            loads_back: 0,
            gives: Gives::Nothing,
            measured: false,
            whole_line: false,
            offered_ps: NOT_OFFERED,
            after_fault: false,
            asks_second_tlb: false,
        }
    }
}

/// An access has not been offered to its core.
pub const NOT_OFFERED: u64 = u64::MAX;

// It is copied with each access: what a program does most.
const _: () = assert!(size_of::<Access>() <= 40);

impl Trap {
    /// The stage that entering the kernel is charged to.
    pub fn stage(self) -> Stage {
        match self {
            Trap::Fault { .. } | Trap::Act(Action::Resolve { .. }) => Stage::Fault,
            Trap::Call | Trap::Act(_) | Trap::End => Stage::SystemCall,
            Trap::Slice => Stage::ContextSwitch,
        }
    }
}

/// Which way an access takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Through the caches, as any.
    Caches,
    /// A store past them.
    Past,
    /// A flush of its line from all caches, which goes or stays there, clean.
    Flush(Flush),
}

/// What a flush leaves, and among what it is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// The line goes.
    Drops,
    /// The line stays, clean.
    Keeps,
    /// The line goes, in the order of stores and other such flushes.
    DropsInOrder,
    /// The line stays, in that order.
    KeepsInOrder,
}

impl Flush {
    /// Of these properties.
    pub fn new(keeps: bool, ordered: bool) -> Self {
        match (keeps, ordered) {
            (false, false) => Flush::Drops,
            (true, false) => Flush::Keeps,
            (false, true) => Flush::DropsInOrder,
            (true, true) => Flush::KeepsInOrder,
        }
    }
}

impl Way {
    /// Whether it leaves the line in the caches.
    pub fn keeps(self) -> bool {
        matches!(self, Way::Flush(Flush::Keeps | Flush::KeepsInOrder))
    }

    /// Whether it is a flush in the order of stores.
    pub fn is_ordered(self) -> bool {
        matches!(self, Way::Flush(Flush::DropsInOrder | Flush::KeepsInOrder))
    }
}

/// An access whose instructions have been issued, but which has not been performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Where.
    pub place: Place,
    /// A store.
    pub write: bool,
    /// Which way it takes.
    pub way: Way,
    /// Bytes of a store past the caches.
    pub bytes: u16,
    /// How many loads back the one lies on which its address depends; 0 for none.
    pub loads_back: u8,
    /// What it gives to those that depend on it.
    pub gives: Gives,
    /// It is one of the program's: counted, and its latency recorded.
    pub measured: bool,
    /// It overwrites its whole line, which need not be read: string instructions do so without
    /// asking for the line's data (Intel SDM vol. 1, fast-string operation).
    pub whole_line: bool,
    /// When it was first offered, or [`NOT_OFFERED`].
    pub offered_ps: u64,
    /// It is repeated after a fault, whose time is its own.
    pub after_fault: bool,
    /// The second level of the TLB has had its translation.
    pub asks_second_tlb: bool,
}

/// The other half of an access that crosses a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Half {
    pub address: u64,
    pub write: bool,
    /// As of the first half.
    pub loads_back: u8,
}

impl Half {
    /// It goes where the first half went, and waits for the same load, which is one further back behind a half that was a load.
    pub fn access(self) -> Access {
        let Half { address, write, loads_back } = self;
        let further = u8::from(!write && loads_back > 0);
        let access = Access::program(address, write, loads_back + further);
        let gives = if write { Gives::Nothing } else { Gives::RestOfLoad };
        Access { gives, ..access }
    }
}

/// An access that faulted, while the kernel works on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When the access was first offered.
    pub start_ps: u64,
    /// Its time since then by stage: of more stages than a timeline can hold.
    pub times: Box<StageTimes>,
    /// The access.
    pub access: Access,
    /// The store that follows it, where it is part of a copy.
    pub store_after: Option<Access>,
    /// Its other half, where it crosses a line.
    pub half: Option<Half>,
    /// How many times its page was gone again before it could be used.
    pub repeats: u32,
    /// What it has needed so far.
    pub kind: FaultKind,
    /// What it holds on to until the page is there.
    pub held: Option<HeldFrame>,
}

/// A frame that a thread holds on to until it decides again what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldFrame {
    pub frame: u64,
    /// It has copied to it.
    pub copied: bool,
}

/// What an access has behind it when it is performed.
#[derive(Clone, Debug)]
pub struct Begun {
    /// When it was first offered.
    pub start_ps: u64,
    /// Its stages since then, or since the end of its fault.
    pub timeline: Timeline,
    /// Time of its fault by stage, where it has caused one.
    pub fault: Option<Box<StageTimes>>,
}

/// What a hardware thread has under way for its software thread, which has left it.
#[derive(Clone, Debug)]
pub struct Away {
    pub window: Window,
    /// Lines that it waits for, each with its miss.
    pub pending: Vec<(u64, u32)>,
    /// Why it was about to enter the kernel.
    pub trap: Option<Trap>,
    /// The access that it could not issue, and what follows that.
    pub access: Option<Access>,
    pub store_after: Option<Access>,
    pub half: Option<Half>,
}

impl Away {
    /// Whether a miss is among what is under way: not one of the switch itself.
    pub fn has(&self, miss: u32) -> bool {
        self.pending.iter().any(|(_, pending)| *pending == miss)
    }
}

/// A software thread.
#[derive(Clone, Debug)]
pub struct Thread {
    /// What it does now.
    pub state: State,
    /// The process that it belongs to, once that is known; else the first.
    pub process: Option<u64>,
    /// Accesses that it does before its next operation.
    pub again: VecDeque<Access>,
    /// Operations pulled and not all consumed.
    pub buffer: Vec<Op>,
    /// Next operation in `buffer`.
    pub position: usize,
    /// The stream has no more.
    pub exhausted: bool,
    /// The call on a file that it is in.
    pub called: Option<Called>,
    /// Kernel work to do first.
    pub steps: VecDeque<Step>,
    /// Access to perform before anything else.
    pub access: Option<Access>,
    /// The store that follows it, where it is part of a copy.
    pub store_after: Option<Access>,
    /// The other half of an access that crosses a line.
    pub half: Option<Half>,
    /// Instructions so far, the kernel's included: the measure of the reorder window.
    pub position_instructions: u64,
    /// Time up to which it is charged.
    pub clock_ps: u64,
    /// Time by owner.
    pub times: [u64; OWNERS],
    /// Time of syncs that wait for memory, by causes.
    pub synced_ps: ByCause<u64>,
    /// What wakes it, or switches to it, has been another thread, not the store, since it last waited for that.
    pub by_thread: bool,
    /// Of its time, waking up and switching by another thread.
    pub handed_ps: u64,
    /// Signals passed.
    pub signals: u64,
    /// The fault under way.
    pub fault: Option<Fault>,
    /// Where in the program's code what it does comes from.
    pub site: SiteId,
    /// The file that a call works on, as an area.
    pub call_area: u32,
    /// The opening of the file by which a call reads.
    pub opening: u32,
    /// Files that it has open.
    pub open_files: OpenFiles,
    /// What its read or write call holds on to.
    pub held: Option<HeldFrame>,
    /// The buffers of its read or write call, where there are several: an address of the call is then that of the
    /// byte of all of them, one behind the other.
    pub buffers: Vec<Buffer>,
    /// Frames of the buffer of its direct call, until that is under way.
    pub pinned: Vec<u64>,
    /// In functional warming, the transfer that it has carried itself, and for which it does not wait then.
    pub carried: Option<TransferId>,
    /// What is left over of cores that it would have interrupted in functional warming.
    pub shootdowns_left: f64,
    /// Hardware thread on which it ran last.
    pub last_context: usize,
    /// It is between the windows of a recording.
    pub between: bool,
    /// The time that it had been live when the call under way began, where windows tell calls apart.
    pub called_at_ps: Option<u64>,
    /// What it had under way when it was switched away from, as a read takes long, until it goes on.
    pub away: Option<Box<Away>>,
    /// The transfer that ended while it slept before it would have polled, and when.
    pub slept_through: Option<Box<(TransferIo, u64)>>,
}

impl Thread {
    /// What a call of it is counted for.
    pub fn call_cause(&self) -> Cause {
        Cause { area: self.call_area, site: self.site }
    }

    /// A thread that has not started.
    pub fn new() -> Self {
        Thread {
            state: State::NotStarted,
            process: None,
            again: VecDeque::new(),
            buffer: Vec::new(),
            position: 0,
            exhausted: false,
            called: None,
            steps: VecDeque::new(),
            access: None,
            store_after: None,
            half: None,
            position_instructions: 0,
            clock_ps: 0,
            times: [0; OWNERS],
            synced_ps: ByCause::default(),
            by_thread: true,
            handed_ps: 0,
            signals: 0,
            fault: None,
            site: UNKNOWN_SITE,
            call_area: 0,
            opening: 0,
            open_files: OpenFiles::new(),
            held: None,
            buffers: Vec::new(),
            pinned: Vec::new(),
            carried: None,
            shootdowns_left: 0.0,
            last_context: 0,
            between: false,
            called_at_ps: None,
            away: None,
            slept_through: None,
        }
    }

    /// Its time by owner is counted from another place on.
    pub fn set_times(&mut self, times: [u64; OWNERS]) {
        if let Some(called) = &mut self.called {
            called.shift(&self.times, &times);
        }
        self.times = times;
    }

    /// The owner of its time while it does what it does now, as far as that is known.
    pub fn waits_on(&self) -> usize {
        match self.state {
            State::NotStarted | State::Ended => IDLE,
            State::Ready => Stage::Ready as usize,
            State::OnSignal(..) | State::Waking => BLOCKED,
            State::OnInode => Stage::FileLock as usize,
            State::OnTransfer(_) | State::OnFrame | State::Paused => Stage::HostQueue as usize,
            State::OnMemory => Stage::ControllerQueue as usize,
            State::Running(_) => Stage::Cache as usize,
        }
    }

    /// Charges all time until `until_ps` to an owner.
    #[inline]
    pub fn charge_until(&mut self, owner: usize, until_ps: u64) {
        let duration_ps = until_ps - self.clock_ps;
        self.times[owner] += duration_ps;
        self.clock_ps = until_ps;
        if self.by_thread && hands_over(owner) {
            self.handed_ps += duration_ps;
        }
        if let Some(fault) = &mut self.fault {
            let stage = Stage::ALL.get(owner).copied().unwrap_or(Stage::Core);
            fault.times[stage as usize] += duration_ps;
        }
    }

    /// Charges all time until `until_ps` to these stages, in proportion to what each has been charged so far; to the
    /// controller's queue where that is nothing.
    pub fn charge_as_before(&mut self, stages: &[Stage], until_ps: u64) {
        let before = |stage: &Stage| u128::from(self.times[*stage as usize]);
        let (duration_ps, all) =
            (until_ps - self.clock_ps, stages.iter().map(before).sum::<u128>());
        let mut request = Timeline::new();
        for stage in stages {
            let part_ps = (u128::from(duration_ps) * before(stage)).checked_div(all);
            request.push(*stage, part_ps.unwrap_or(0) as u64);
        }
        // What is left of the division goes there, too.
        self.charge_tail(&request, Stage::ControllerQueue, until_ps);
    }

    /// Charges all time until `until_ps` to the last stages of a request that ended then; what the
    /// request is too short for goes to `before`.
    pub fn charge_tail(&mut self, request: &Timeline, before: Stage, until_ps: u64) {
        let duration_ps = until_ps - self.clock_ps;
        let part = tail(request, before, duration_ps);
        for (stage, ps) in part.iter() {
            self.times[stage as usize] += ps;
        }
        self.clock_ps = until_ps;
        if let Some(fault) = &mut self.fault {
            part.add_to(&mut fault.times);
        }
    }

    /// Charges all time until `until_ps` of a sync that waits for memory, as [`Thread::charge_tail`] does.
    pub fn charge_sync(&mut self, request: &Timeline, until_ps: u64) {
        let before = Stage::ControllerQueue;
        for (stage, ps) in tail(request, before, until_ps - self.clock_ps).iter() {
            self.synced_ps[sampling::Cause::of(stage) as usize] += ps;
        }
        self.charge_tail(request, before, until_ps);
    }

    /// What it slept before it polled for a transfer that ended then, and was charged as blocked, goes to the stages
    /// in which the transfer was meanwhile, as far as that took so long.
    pub fn charge_slept(&mut self, io: &TransferIo, ended_ps: u64) {
        let Some(Sleep { from_ps, duration_ps, .. }) = io.polled.and_then(|it| it.sleep) else {
            return;
        };
        // Where counting began meanwhile, it is charged with less.
        let mut left_ps = duration_ps.min(self.times[BLOCKED]);
        if let Some(fault) = &self.fault {
            left_ps = left_ps.min(fault.times[Stage::Core as usize]);
        }
        for (stage, ps) in tail(&io.timeline, Stage::HostQueue, ended_ps - from_ps).iter() {
            let part_ps = ps.min(left_ps);
            left_ps -= part_ps;
            self.times[BLOCKED] -= part_ps;
            self.times[stage as usize] += part_ps;
            if let Some(fault) = &mut self.fault {
                fault.times[Stage::Core as usize] -= part_ps;
                fault.times[stage as usize] += part_ps;
            }
        }
    }

    /// What an access has behind it when it is performed at `now_ps`. A fault that it has caused
    /// ends here.
    pub fn begin(&mut self, access: Access, now_ps: u64, ended: &mut Ended) -> Begun {
        if access.after_fault
            && let Some(fault) = self.fault.take()
        {
            ended.record(fault.kind, &fault.times);
            let (start_ps, timeline) = (fault.start_ps, Timeline::new());
            return Begun { start_ps, timeline, fault: Some(fault.times) };
        }
        let start_ps = access.offered_at(now_ps);
        let mut timeline = Timeline::new();
        timeline.push(Stage::Core, now_ps - start_ps);
        Begun { start_ps, timeline, fault: None }
    }

    /// Whether its next operation is a store to the line of this load, which asks for the line with it.
    #[inline]
    pub fn stores_next(&self, load: &Access, line_shift: u32) -> bool {
        let next = self.buffer.get(self.position);
        let line = load.place.address() >> line_shift;
        load.measured
            && next.is_some_and(|op| {
                let past = op.flags() & FLAG_NON_TEMPORAL != 0;
                op.kind_code() == OpKind::Store as u8 && !past && op.word >> line_shift == line
            })
    }

    /// The access that faulted is offered again.
    pub fn retry(&mut self) {
        let Some(fault) = &mut self.fault else { return };
        self.access = Some(Access { after_fault: true, offered_ps: NOT_OFFERED, ..fault.access });
        self.store_after = fault.store_after.take();
        self.half = fault.half.take();
    }

    /// Puts steps before those that are there, in their order.
    pub fn do_first(&mut self, steps: &[Step]) {
        for step in steps.iter().rev() {
            self.steps.push_front(*step);
        }
    }
}

/// The last `duration_ps` of a timeline, in order, exactly; what it is too short for comes first,
/// as `before`.
pub fn tail(timeline: &Timeline, before: Stage, duration_ps: u64) -> Timeline {
    let mut part = Timeline::new();
    part.append_tail(timeline, before, duration_ps);
    part
}
