//! The side of a program's process.

use super::SHARED;
use super::channel::{Channel, Kind, Shared, ring, state};
use crate::capture::{self, Ended, Recorder, SILENT, guarded, slot};
use crate::descriptors::New;
use crate::sink::{Counts, Sink};
use crate::sites::{self, Sites};
use crate::syscalls::Process;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tierscope_workload::{Call, FileInfo, Op, Site, SiteId, ThreadId};

/// Sends operations to the host.
pub struct ChildSink {
    shared: &'static Shared,
    channel: &'static Channel,
    /// Which one that is.
    index: usize,
    /// This process's number in the run.
    pub process: u32,
    /// Programs that ran before in this process's place.
    pub image: u32,
    /// One thread writes at a time.
    turn: Mutex<()>,
}

/// A process is about to run another program in its place.
#[derive(Debug, Serialize, Deserialize)]
pub struct Replacing {
    /// Which program.
    pub program: String,
    /// Why it cannot be recorded, if it cannot.
    pub unseen: Option<String>,
    /// The thread that runs it, as the process numbers it.
    pub thread: ThreadId,
    /// The number of a signal that this thread has just given.
    pub sequence: u64,
    /// Threads that end with it and may have noted what nobody has.
    pub others: usize,
}

impl ChildSink {
    /// Of the process that has the channel of this number.
    pub fn new(shared: &'static Shared, index: usize) -> ChildSink {
        let channel = &shared.channels[index];
        ChildSink {
            shared,
            channel,
            index,
            process: channel.process.load(Ordering::Relaxed),
            image: channel.image.load(Ordering::Relaxed),
            turn: Mutex::new(()),
        }
    }

    /// Of a program that has taken another's place in the process that has the channel, and is yet to
    /// [`ChildSink::begin`]. The number of signals that its first thread has given.
    pub fn of_next_image(shared: &'static Shared, index: usize) -> (ChildSink, u64) {
        shared.channels[index].image.fetch_add(1, Ordering::Relaxed);
        (ChildSink::new(shared, index), sink_signals(shared, index))
    }

    /// The program is recorded from here on. Until this is said, the host takes it for one that is not.
    pub fn begin(&self) {
        self.send(Kind::Begin, 0, &[]);
    }

    fn send(&self, kind: Kind, thread: ThreadId, bytes: &[u8]) -> bool {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.write(kind, thread, bytes)
    }

    fn write(&self, kind: Kind, thread: ThreadId, bytes: &[u8]) -> bool {
        self.channel.write(self.process, kind, thread, bytes, || self.shared.host_lives())
    }

    /// Tells the host of a file.
    pub fn announce(&self, new: &New) {
        let told = json!({"number": new.number, "key": new.key, "file": new.info});
        self.send(Kind::File, 0, told.to_string().as_bytes());
    }

    /// Has the host publish a record.
    pub fn publish(&self, record: &Value) {
        self.send(Kind::Record, 0, record.to_string().as_bytes());
    }

    /// What the process's first thread does last: its memory goes, and who waits for the process may
    /// go on. `signal` is the number of the thread's signal for that. Nobody waits for the first
    /// process, and its memory goes with the machine.
    pub fn last_calls(&self, signal: u64) -> Option<[Call; 2]> {
        (self.process > 0).then_some([
            Call::Exit { process: u64::from(self.process) },
            Call::Signal { sequence: signal },
        ])
    }

    /// The last calls were sent.
    pub fn has_ended(&self, signal: u64) {
        self.shared.set_last_signal(self.process, signal);
    }

    /// Has `run` run another program in this process's place: one that is recorded, with the number of
    /// the channel. `signals` are those that the process's first thread has given. No other thread
    /// sends anything meanwhile. Returns where it has failed.
    pub fn replace(&self, told: &Replacing, signals: u64, run: impl FnOnce(usize)) {
        let bytes = serde_json::to_vec(told).unwrap_or_default();
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.channel.signals.store(signals, Ordering::Relaxed);
        if self.write(Kind::Exec, 0, &bytes) {
            run(self.index);
            self.write(Kind::Back, 0, &[]);
        }
    }

    /// The shared memory's file, for a program that [`ChildSink::replace`] runs to inherit.
    pub fn file(&self) -> io::Result<File> {
        self.shared.reopen()
    }

    /// The process is about to run a program in its place that is not recorded.
    pub fn leave(&self, told: &Replacing) {
        self.send(Kind::Exec, 0, &serde_json::to_vec(told).unwrap_or_default());
    }

    /// That has failed.
    pub fn come_back(&self) {
        self.send(Kind::Back, 0, &[]);
    }
}

fn sink_signals(shared: &Shared, index: usize) -> u64 {
    shared.channels[index].signals.load(Ordering::Relaxed)
}

impl Sink for ChildSink {
    fn accept(&self, thread: ThreadId, ops: &[Op]) {
        if self.shared.counts_only.load(Ordering::Relaxed) {
            let counts = serde_json::to_vec(&Counts::of(ops)).unwrap_or_default();
            self.send(Kind::Counts, thread, &counts);
            return;
        }
        // SAFETY: an operation is two words without padding, so that all its bytes are there.
        let bytes =
            unsafe { std::slice::from_raw_parts(ops.as_ptr().cast::<u8>(), size_of_val(ops)) };
        self.send(Kind::Ops, thread, bytes);
    }

    fn add_file(&self, _file: &FileInfo) {
        // Files are announced with more: see `announce`.
    }

    fn add_site(&self, number: SiteId, site: &Site) {
        self.send(Kind::Site, 0, json!([number, site]).to_string().as_bytes());
    }

    fn end_thread(&self, thread: ThreadId) {
        self.send(Kind::EndThread, thread, &[]);
    }

    fn finish(&self, ended: &Ended) -> Value {
        self.send(Kind::End, 0, &serde_json::to_vec(ended).unwrap_or_default());
        Value::Null
    }

    fn cut(&self, _reason: &str) {
        self.finish(&Ended::Broken);
    }

    fn stop(&self) {}

    fn is_done(&self) -> bool {
        self.channel.is_closed()
    }
}

/// What a fork holds from before to after: the calls' state, so that the child has it whole.
struct Held {
    process: MutexGuard<'static, Process>,
    _sites: MutexGuard<'static, Option<Sites>>,
    slot: u32,
}

thread_local! {
    /// Of the fork that this thread makes.
    static HELD: Cell<Option<Held>> = const { Cell::new(None) };
}

/// Before a fork, in the thread that forks (pthread_atfork(3)).
pub extern "C" fn prepare_fork() {
    guarded(|recorder| {
        let Some(index) = recorder.own_slot() else { return };
        // SAFETY: the slot is the running thread's own.
        if unsafe { (*slot(index)).calls().channel() }.is_some() {
            let (_sites, process) = (sites::hold(), recorder.process());
            HELD.set(Some(Held { process, _sites, slot: index }));
        }
    });
}

/// After a fork, in the process that forked.
pub extern "C" fn release_parent() {
    drop(HELD.take());
}

/// After a fork, in the new process.
pub extern "C" fn in_child() {
    let held = HELD.take();
    let was_silent = SILENT.swap(true, Ordering::Relaxed);
    let Some(held) = held.filter(|_| !was_silent) else { return };
    if catch_unwind(AssertUnwindSafe(|| become_child(held))).unwrap_or(None).is_some() {
        SILENT.store(false, Ordering::Relaxed);
    }
}

fn become_child(held: Held) -> Option<()> {
    let shared = *SHARED.get()?;
    // SAFETY: the slot is the running thread's own, and there is no other thread.
    let own = unsafe { &mut *slot(held.slot) };
    let index = own.calls().channel()?;
    let channel = &shared.channels[index];
    let parent = capture::parent()?;
    let process = held.process.forked();
    drop(held);
    let files = process.files();
    let child = Recorder::of_child(ChildSink::new(shared, index), process);
    child.adopt(own, parent);
    // SAFETY: always succeeds and touches no memory.
    channel.pid.store(unsafe { libc::getpid() }, Ordering::Relaxed);
    channel.state.store(state::BORN, Ordering::Release);
    ring(&shared.births);
    files.iter().for_each(|file| child.announce_file(file));
    Some(())
}
