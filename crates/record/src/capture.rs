//! From accesses and calls in program order to operations in a sink.
//!
//! A back end owns a *slot* for each thread that runs: a buffer with the thread's counts. Noting an
//! access costs an append to it; a full buffer goes to the sink. Everything of a slot is touched by
//! its thread alone, until the program has ended and its threads run no more.

mod finish;

pub use finish::Ended;

use crate::descriptors::New;
use crate::family::{self, ChildSink, Family};
use crate::file_key::FileKey;
use crate::publish::{LogWriter, Urgency};
use crate::sink::{Counts, Sink};
use crate::sites;
use crate::synchronization::Mark;
use crate::syscalls::{Process, ThreadCalls};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tierscope_workload::op::{Buffer, MOST_DEPENDENCE};
use tierscope_workload::{Call, FileId, FileInfo, Op, OpKind, Site, SiteId, ThreadId};

/// Slots, and so threads that can run at once.
pub const MAX_SLOTS: usize = 8192;
/// Operations in a slot's buffer: so many that the sink's cost is spread, so few that they stay in
/// the processor's cache.
pub const CAPACITY: usize = (SLOT_BYTES - HEAD_BYTES) / size_of::<Op>();
/// Bytes that one access may grow to when the pieces of one instruction's access are joined.
const JOINED_BYTES: u16 = 64;
/// Flushes of lines whose addresses a back end does not know: of each it leaves an instruction without an access that has
/// their place here, from 1 on, for its flags.
pub const FLUSHES: [&str; 3] = ["CLFLUSH", "CLFLUSHOPT", "CLWB"];
const SLOT_BYTES: usize = 1 << 16;
const HEAD_BYTES: usize = 512;
/// In `meta` of an operation, what tells on which load an access depends.
pub const DEPENDENCE: u32 = Op::compute(0).depending_on(MOST_DEPENDENCE as u64).meta as u32;
/// Room that a call takes at most, with its arguments.
const CALL_OPS: usize = 4;
const UNKNOWN: ThreadId = ThreadId::MAX;

/// A thread's buffer and counts.
#[repr(C, align(4096))]
pub struct Slot {
    /// Instructions of the thread up to the end of the block that runs. The back end counts here.
    pub retired: u64,
    /// Where `retired` stood for the last operation.
    noted: u64,
    length: usize,
    /// The repeated instruction that ran last: see [`Slot::retire_repeated`].
    last_repeated: u32,
    /// Index of the site that the last operation came from: see [`crate::sites`].
    site: u32,
    /// Loads, and what the back end knows of the thread's registers.
    pub followed: Followed,
    /// Addresses of accesses of the running block from which others are reckoned.
    pub anchors: [u64; 4],
    thread: ThreadId,
    /// Signals given.
    signals: u64,
    /// In a call's callback: the thread that ends the program waits for it.
    busy: AtomicBool,
    in_use: bool,
    /// The kernel's number of the thread, from its first call on; 0 before.
    tid: i32,
    calls: ThreadCalls,
    ops: [Op; CAPACITY],
}

const _: () = assert!(size_of::<Slot>() == SLOT_BYTES);
const _: () = assert!(std::mem::offset_of!(Slot, ops) <= HEAD_BYTES);

/// Of which loads the registers of a thread have been made, as a back end numbers them. That of a new thread is zero: it has
/// loaded nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Followed {
    /// Loads of the thread so far.
    pub loads: u64,
    /// From so many loads on reaches are counted.
    pub since: u64,
    /// For each register, how many loads behind that the latest load of which it was made is out of reach.
    pub until: [u8; 16],
}

impl Slot {
    /// Notes an access of the instruction that is `before_end` instructions before the end of the
    /// running block. `low` is the low half of an operation's `meta`: kind, flags and size.
    ///
    /// # Safety
    /// `slot` is the running thread's own, and nothing else refers to it meanwhile.
    #[inline(always)]
    pub unsafe fn access(slot: *mut Slot, before_end: u32, low: u32, address: u64) {
        // SAFETY: as the caller promises. `length` is always below `CAPACITY` here, because
        // whoever makes it reach that empties the buffer.
        unsafe {
            let at = (*slot).retired.wrapping_sub(u64::from(before_end));
            let instructions = at.wrapping_sub((*slot).noted);
            // Zero: a further access of the same instruction. Too many: a count that is out of
            // the ordinary in either direction.
            if instructions.wrapping_sub(1) >= u64::from(u32::MAX) {
                return (*slot).unusual_access(instructions, low, address);
            }
            (*slot).noted = at;
            (*slot).count(low);
            let meta = u64::from(low) | instructions << 32;
            (*slot).push(Op { word: address, meta });
        }
    }

    /// Whether the instruction that is `before_end` instructions before the end of the running block has
    /// noted something before.
    ///
    /// # Safety
    /// `slot` is the running thread's own, and nothing else refers to it meanwhile.
    #[inline(always)]
    pub unsafe fn has_noted(slot: *const Slot, before_end: u64) -> bool {
        // SAFETY: as the caller promises.
        unsafe { (*slot).retired.wrapping_sub(before_end) == (*slot).noted }
    }

    /// Notes that what follows comes from the site at an index that `sites::index_at` gave.
    ///
    /// # Safety
    /// `slot` is the running thread's own, and nothing else refers to it meanwhile.
    #[inline(always)]
    pub unsafe fn enter_site(slot: *mut Slot, index: u32) {
        // SAFETY: as the caller promises.
        unsafe {
            if (*slot).site != index {
                (*slot).site = index;
                let number = sites::number(index);
                (*slot).push(Op::site(number));
            }
        }
    }

    /// Counts a load, if this is one.
    #[inline(always)]
    fn count(&mut self, low: u32) {
        self.followed.loads += u64::from(low as u8 == LOAD as u8);
    }

    #[inline(always)]
    fn push(&mut self, op: Op) {
        let length = self.length;
        // SAFETY: the invariant of `length`, above.
        unsafe { *self.ops.as_mut_ptr().add(length) = op };
        self.length = length + 1;
        if length + 1 == CAPACITY {
            self.flush();
        }
    }

    /// An access of the same instruction as the one before, or after very many instructions.
    #[cold]
    #[inline(never)]
    fn unusual_access(&mut self, instructions: u64, low: u32, address: u64) {
        let mut instructions = instructions;
        if instructions as i64 <= 0 {
            instructions = 0;
            if self.join(low, address) {
                return;
            }
        }
        self.noted = self.noted.wrapping_add(instructions);
        while instructions > u64::from(u32::MAX) {
            self.push(Op::compute(u32::MAX));
            instructions -= u64::from(u32::MAX);
        }
        self.count(low);
        self.push(Op { word: address, meta: u64::from(low) | instructions << 32 });
    }

    /// Joins an access with the previous one, of the same instruction, where they are pieces of
    /// one: emulation splits wide accesses. On which load it depends the first says for all.
    fn join(&mut self, low: u32, address: u64) -> bool {
        let size = (low >> 16) as u16;
        let Some(last) = self.length.checked_sub(1).and_then(|last| self.ops.get_mut(last)) else {
            return false;
        };
        let kind_and_flags = |meta: u64| meta as u16 & !(DEPENDENCE as u16);
        let continues = kind_and_flags(last.meta) == kind_and_flags(u64::from(low))
            && last.word.wrapping_add(u64::from(last.size())) == address
            && last.size() + size <= JOINED_BYTES;
        if continues {
            last.meta += u64::from(size) << 16;
        }
        continues
    }

    /// Counts the instructions of a block that begins (`begins`) or ends with a repeated string
    /// instruction at `place`. Emulation enters the block anew for each repetition, which is no
    /// further instruction.
    pub fn retire_repeated(&mut self, instructions: u32, begins: bool, place: u32) {
        let again = begins && self.last_repeated == place;
        self.retired += u64::from(instructions) - u64::from(again);
        self.last_repeated = place;
    }

    /// Notes a call, at the end of the block that runs.
    pub(crate) fn call(&mut self, call: &Call) {
        self.call_with(call, &[]);
    }

    /// The same of a call that has further buffers behind its first.
    pub(crate) fn call_with(&mut self, call: &Call, further: &[Buffer]) {
        self.call_at(0, call, further);
    }

    /// Notes a mark after the instruction that is `before_end` instructions before the end of the
    /// running block.
    pub(crate) fn mark_at(&mut self, before_end: u64, call: &Call) {
        self.call_at(before_end, call, &[]);
    }

    fn call_at(&mut self, before_end: u64, call: &Call, further: &[Buffer]) {
        if self.length + CALL_OPS + further.len() > CAPACITY {
            self.flush();
        }
        let at = self.retired.wrapping_sub(before_end);
        // A count that is out of the ordinary goes back: see `unusual_access`.
        let instructions = (at.wrapping_sub(self.noted) as i64).max(0) as u64;
        self.noted = self.noted.wrapping_add(instructions);
        let mut ops = Vec::with_capacity(CALL_OPS + further.len());
        call.encode_with(further, instructions.min(u64::from(u32::MAX)) as u32, &mut ops);
        ops.into_iter().for_each(|op| self.push(op));
    }

    /// The thread's number; a new one where it has none yet.
    pub(crate) fn thread(&mut self, recorder: &Recorder) -> ThreadId {
        if self.thread == UNKNOWN {
            self.thread = recorder.thread_of(current_tid());
        }
        self.thread
    }

    /// Signals that the thread has given.
    pub(crate) fn signals(&self) -> u64 {
        self.signals
    }

    /// The mark of the signal that the thread gives next.
    pub(crate) fn next_signal(&mut self, recorder: &Recorder) -> Mark {
        self.signals += 1;
        Mark { thread: self.thread(recorder), sequence: self.signals }
    }

    /// Gives the buffer to the sink.
    #[cold]
    #[inline(never)]
    pub(crate) fn flush(&mut self) {
        let length = std::mem::take(&mut self.length);
        guarded(|recorder| {
            let thread = self.thread(recorder);
            recorder.sink().accept(thread, &self.ops[..length]);
        });
    }

    /// Notes the instructions after the last operation, and flushes.
    pub(crate) fn flush_rest(&mut self) {
        let rest = self.retired.wrapping_sub(self.noted);
        if rest > 0 && rest < 1 << 63 {
            self.noted = self.retired;
            self.push(Op::compute(rest.min(u64::from(u32::MAX)) as u32));
        }
        if self.length > 0 {
            self.flush();
        }
    }
}

/// The slots, in memory that exists as far as it is touched. Null until there is a recorder.
static SLOTS: std::sync::atomic::AtomicPtr<Slot> =
    std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());

/// The slot at `index`, below [`MAX_SLOTS`].
#[inline(always)]
pub fn slot(index: u32) -> *mut Slot {
    debug_assert!((index as usize) < MAX_SLOTS);
    SLOTS.load(Ordering::Relaxed).wrapping_add(index as usize)
}

fn allocate_slots() -> io::Result<()> {
    // SAFETY: a new mapping, at an address of the kernel's choice.
    let slots = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            MAX_SLOTS * SLOT_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if slots == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    SLOTS.store(slots.cast(), Ordering::Relaxed);
    Ok(())
}

/// Counts of what was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Recorded {
    /// Loads and stores.
    pub accesses: u64,
    /// Instructions.
    pub instructions: u64,
    /// Threads, of all processes.
    pub threads: u32,
    /// Processes.
    pub processes: u32,
}

/// What a process is in a run.
enum Role {
    /// The host, which has the sink and runs nothing of the program.
    Host { sink: Box<dyn Sink>, log: Mutex<LogWriter>, family: Box<Family> },
    /// One of the program's.
    Program { sink: ChildSink },
}

/// The recorder: one for each process of a run.
pub struct Recorder {
    role: Role,
    pub(crate) process: Mutex<Process>,
    threads: Mutex<Threads>,
    accesses: AtomicU64,
    instructions: AtomicU64,
    exit_status: Mutex<Option<i32>>,
    finished: AtomicBool,
    published: AtomicBool,
    begun: Instant,
    /// Signals that the first thread of the process had given when this program took its place.
    signals_before: AtomicU64,
    /// Slots below this have been in use.
    slots: AtomicU32,
}

#[derive(Default)]
struct Threads {
    /// Threads by the kernel's number, which it uses again once both their creator and they
    /// themselves are done with it.
    by_tid: HashMap<i32, Numbered>,
    count: u32,
}

#[derive(Clone, Copy)]
struct Numbered {
    thread: ThreadId,
    /// Its creator knows the number.
    announced: bool,
    ended: bool,
}

impl Threads {
    /// The thread that the kernel calls `tid`, a new one if need be.
    fn number(&mut self, tid: i32) -> &mut Numbered {
        let count = &mut self.count;
        self.by_tid.entry(tid).or_insert_with(|| {
            *count += 1;
            Numbered { thread: *count - 1, announced: false, ended: false }
        })
    }
}

/// The recorder; null until there is one. Never freed.
static RECORDER: AtomicPtr<Recorder> = AtomicPtr::new(std::ptr::null_mut());
/// This process is not the recorded one, or recording has failed: nothing is noted any more.
pub(crate) static SILENT: AtomicBool = AtomicBool::new(false);

/// The recorder, unless there is none (any more).
pub fn recorder() -> Option<&'static Recorder> {
    if SILENT.load(Ordering::Relaxed) { None } else { parent() }
}

/// The recorder, also where it is silent: that of the parent where this process was just forked.
pub(crate) fn parent() -> Option<&'static Recorder> {
    // SAFETY: null, or one that is never freed.
    unsafe { RECORDER.load(Ordering::Acquire).as_ref() }
}

/// What is said of a fault of the recorder.
pub(crate) const BROKEN: &str = "a broken invariant stopped the recorder; please report it";

/// Runs `body` with the recorder. A panic ends the recording and not the program.
pub fn guarded(body: impl FnOnce(&'static Recorder)) {
    let Some(recorder) = recorder() else { return };
    if catch_unwind(AssertUnwindSafe(|| body(recorder))).is_err() {
        SILENT.store(true, Ordering::Relaxed);
        // What it takes to say so may meet the same fault.
        let _ = catch_unwind(AssertUnwindSafe(|| recorder.give_up()));
    }
}

impl Recorder {
    /// Installs the recorder of the host.
    pub(crate) fn install_host(
        sink: Box<dyn Sink>,
        log: LogWriter,
        process: Process,
    ) -> &'static Recorder {
        let role = Role::Host { sink, log: Mutex::new(log), family: Box::default() };
        Recorder::install(Recorder::new(role, process, 0))
    }

    /// Installs the recorder of a program's process. The calling thread is its first, and has given
    /// `signals` signals before, as that of another program.
    pub(crate) fn install_in_program(
        sink: ChildSink,
        process: Process,
        signals: u64,
    ) -> io::Result<()> {
        allocate_slots()?;
        // SAFETY: the handlers are functions for this, which never go.
        let refused = unsafe {
            libc::pthread_atfork(
                Some(family::prepare_fork),
                Some(family::release_parent),
                Some(family::in_child),
            )
        };
        if refused != 0 {
            return Err(io::Error::from_raw_os_error(refused));
        }
        let recorder = Recorder::new(Role::Program { sink }, process, signals);
        recorder.announce_thread(current_tid());
        Recorder::install(recorder);
        Ok(())
    }

    /// Installs the recorder of a process that was forked, in the place of its parent's.
    pub(crate) fn of_child(sink: ChildSink, process: Process) -> &'static Recorder {
        Recorder::install(Recorder::new(Role::Program { sink }, process, 0))
    }

    fn install(recorder: Recorder) -> &'static Recorder {
        let recorder = Box::leak(Box::new(recorder));
        RECORDER.store(recorder, Ordering::Release);
        recorder
    }

    fn new(role: Role, process: Process, signals_before: u64) -> Recorder {
        Recorder {
            role,
            process: Mutex::new(process),
            threads: Mutex::default(),
            accesses: AtomicU64::new(0),
            instructions: AtomicU64::new(0),
            exit_status: Mutex::new(None),
            finished: AtomicBool::new(false),
            published: AtomicBool::new(false),
            begun: Instant::now(),
            signals_before: AtomicU64::new(signals_before),
            slots: AtomicU32::new(0),
        }
    }

    /// Makes the slot of the thread that forked this process its first thread's, and its only one.
    pub(crate) fn adopt(&self, own: &mut Slot, parent: &Recorder) {
        for index in 0..parent.slots.load(Ordering::Relaxed) {
            // SAFETY: the slots exist, and there is no other thread.
            let other = slot(index);
            // SAFETY: as above; a page that was never touched reads as zero.
            unsafe {
                if (*other).in_use && !std::ptr::eq(other, own) {
                    (*other).in_use = false;
                }
                if (*other).in_use {
                    self.slots.store(index + 1, Ordering::Relaxed);
                }
            }
        }
        own.length = 0;
        own.noted = own.retired;
        own.followed = Followed::default();
        own.signals = 0;
        own.site = sites::NO_INDEX;
        own.thread = self.announce_thread(current_tid());
        own.tid = current_tid();
        own.busy.store(false, Ordering::SeqCst);
    }

    /// What the host knows of the program's processes.
    pub(crate) fn family(&self) -> &Family {
        match &self.role {
            Role::Host { family, .. } => family,
            Role::Program { .. } => unreachable!("only the host serves processes"),
        }
    }

    /// Where a program's process sends its operations; none in the host.
    pub(crate) fn as_child(&self) -> Option<&ChildSink> {
        match &self.role {
            Role::Host { .. } => None,
            Role::Program { sink } => Some(sink),
        }
    }

    /// Takes a channel for a process that is about to be forked.
    pub(crate) fn claim_channel(&self) -> Option<usize> {
        family::claim(self.as_child()?, self.new_thread())
    }

    /// A number for a thread that the kernel's number is not known of.
    pub(crate) fn new_thread(&self) -> ThreadId {
        let mut threads = self.threads();
        threads.count += 1;
        threads.count - 1
    }

    /// Tells the sink of a file.
    pub(crate) fn announce_file(&self, file: &New) {
        match &self.role {
            Role::Host { sink, .. } => sink.add_file(&file.info),
            Role::Program { sink } => sink.announce(file),
        }
    }

    /// The number of another process's file.
    pub(crate) fn file_at(&self, key: FileKey, info: FileInfo) -> FileId {
        let mut process = self.process();
        let (file, new) = process.number_at(key, info);
        // Under the lock, so that files are announced in the order of their numbers.
        if let Some(new) = new {
            self.announce_file(&new);
        }
        file
    }

    /// Makes the slot at `index` that of a new thread. To be called before it notes anything.
    /// False where there are no more slots.
    pub fn open_slot(&self, index: u32) -> bool {
        if index as usize >= MAX_SLOTS {
            return false;
        }
        self.slots.fetch_max(index + 1, Ordering::Relaxed);
        // SAFETY: the slot's memory exists, and no thread uses it yet, or any more. All zero is a
        // valid slot. The buffer is left as it is.
        unsafe {
            let slot = slot(index);
            std::ptr::write_bytes(slot.cast::<u8>(), 0, std::mem::offset_of!(Slot, ops));
            (*slot).thread = UNKNOWN;
            (*slot).in_use = true;
            if index == 0 {
                (*slot).signals = self.signals_before.swap(0, Ordering::Relaxed);
            }
        }
        true
    }

    /// Tells the sink of a site.
    pub(crate) fn announce_site(&self, number: SiteId, site: &Site) {
        self.sink().add_site(number, site);
    }

    /// Takes the counts of operations, in the place of those.
    pub(crate) fn take_counts(&self, counts: &Counts) {
        self.count(counts);
        self.sink().add_counts(counts);
    }

    /// Counts operations that the sink is given.
    pub(crate) fn count(&self, counts: &Counts) {
        self.accesses.fetch_add(counts.loads + counts.stores, Ordering::Relaxed);
        self.instructions.fetch_add(counts.instructions, Ordering::Relaxed);
    }

    /// Ends the recording of this process, of the host that of all, because of a fault of the
    /// recorder. The program goes on.
    pub(crate) fn give_up(&self) {
        // Nothing is read behind the end of a process's recording.
        self.publish_error(BROKEN);
        self.sink().cut(BROKEN);
        if let Role::Host { family, .. } = &self.role {
            family.give_up();
        }
    }

    /// The host has failed and is about to end without a result: says so. The program goes on.
    pub(crate) fn abandon(&self) {
        if !SILENT.swap(true, Ordering::Relaxed) {
            self.give_up();
        }
        self.publish(Urgency::Needed, &json!({"type": "abandoned"}));
    }

    pub(crate) fn sink(&self) -> &dyn Sink {
        match &self.role {
            Role::Host { sink, .. } => &**sink,
            Role::Program { sink } => sink,
        }
    }

    pub(crate) fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the running thread, which the kernel calls `tid`.
    pub(crate) fn thread_of(&self, tid: i32) -> ThreadId {
        self.threads().number(tid).thread
    }

    /// The number of a thread that was created, for its creator, which asks once. The thread may
    /// have run, or even ended, before.
    pub(crate) fn announce_thread(&self, tid: i32) -> ThreadId {
        let mut threads = self.threads();
        let numbered = threads.number(tid);
        numbered.announced = true;
        let Numbered { thread, ended, .. } = *numbered;
        if ended {
            threads.by_tid.remove(&tid);
        }
        thread
    }

    /// The slot's thread has come to its end.
    pub(crate) fn end_thread(&self, slot: &mut Slot) {
        let thread = slot.thread(self);
        slot.flush_rest();
        slot.in_use = false;
        let mut threads = self.threads();
        threads.by_tid.retain(|_, numbered| {
            numbered.ended |= numbered.thread == thread;
            !(numbered.ended && numbered.announced)
        });
        drop(threads);
        self.sink().end_thread(thread);
    }

    pub(crate) fn note_exit_status(&self, status: i32) {
        *self.exit_status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    }

    /// What was recorded so far.
    pub fn recorded(&self) -> Recorded {
        let threads = self.threads().count;
        Recorded {
            accesses: self.accesses.load(Ordering::Relaxed),
            instructions: self.instructions.load(Ordering::Relaxed),
            threads,
            processes: family::processes(),
        }
    }

    /// Publishes a record.
    pub fn publish(&self, urgency: Urgency, record: &Value) {
        match &self.role {
            Role::Host { log, sink, .. } => {
                if matches!(record["type"].as_str(), Some("unseen" | "error")) {
                    sink.add_missing(record["message"].as_str().unwrap_or_default());
                }
                log.lock().unwrap_or_else(PoisonError::into_inner).append(urgency, record);
            }
            Role::Program { sink } => sink.publish(record),
        }
    }

    /// Publishes what went wrong.
    pub fn publish_error(&self, message: &str) {
        self.publish(Urgency::Needed, &json!({"type": "error", "message": message}));
    }

    /// Publishes what of the program is not recorded.
    pub fn publish_unseen(&self, message: &str) {
        self.publish(Urgency::Needed, &json!({"type": "unseen", "message": message}));
    }

    /// Publishes what is worth knowing about the recording.
    pub fn publish_notice(&self, message: &str) {
        self.publish(Urgency::Needed, &json!({"type": "notice", "message": message}));
    }
}

/// Runs `body` with the running thread's slot, marked as busy meanwhile. For calls only.
pub(crate) fn with_slot(index: u32, body: impl FnOnce(&'static Recorder, &mut Slot)) {
    if index as usize >= MAX_SLOTS {
        return;
    }
    guarded(|recorder| {
        // SAFETY: the slot is the running thread's own.
        let slot = unsafe { &mut *slot(index) };
        slot.busy.store(true, Ordering::SeqCst);
        if slot.tid == 0 {
            slot.tid = current_tid();
        }
        if !recorder.has_finished() {
            body(recorder, slot);
        }
        slot.busy.store(false, Ordering::SeqCst);
    });
}

impl Slot {
    /// What the calls of this thread have to remember.
    pub(crate) fn calls(&mut self) -> &mut ThreadCalls {
        &mut self.calls
    }
}

/// The kernel's number of the running thread.
pub(crate) fn current_tid() -> i32 {
    // SAFETY: always succeeds and touches no memory.
    unsafe { libc::gettid() }
}

/// The low bits of a load's `meta`.
pub const LOAD: u16 = OpKind::Load as u16;
/// The low bits of a store's `meta`.
pub const STORE: u16 = OpKind::Store as u16;
