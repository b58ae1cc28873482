//! The side of a process that was forked.

use super::channel::{Channel, Kind, Shared, ring, state};
use super::{SHARED, translate};
use crate::capture::{self, Ended, Recorder, SILENT, guarded, slot};
use crate::descriptors::New;
use crate::sink::Sink;
use crate::syscalls::Process;
use serde_json::{Value, json};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tierscope_workload::{Call, FileInfo, Op, ThreadId};

/// Sends operations to the first process.
pub struct ChildSink {
    shared: &'static Shared,
    channel: &'static Channel,
    /// This process's number in the run.
    pub process: u32,
    /// One thread writes at a time.
    turn: Mutex<()>,
    /// The kernel's number of the first process.
    first: libc::pid_t,
}

impl ChildSink {
    fn send(&self, kind: Kind, thread: ThreadId, bytes: &[u8]) -> bool {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: signal 0 asks only whether there is such a process.
        let first_lives = || unsafe { libc::kill(self.first, 0) == 0 };
        self.channel.write(kind, thread, bytes, first_lives)
    }

    /// Tells the first process of a file.
    pub fn announce(&self, new: &New) {
        let told = json!({"number": new.number, "key": new.key, "file": new.info});
        self.send(Kind::File, 0, told.to_string().as_bytes());
    }

    /// Has the first process publish a record.
    pub fn publish(&self, record: &Value) {
        self.send(Kind::Record, 0, record.to_string().as_bytes());
    }

    /// What the process's first thread does last: its memory goes, and who waits for the process may
    /// go on. `signal` is the number of the thread's signal for that.
    pub fn last_calls(signal: u64) -> [Call; 2] {
        [
            Call::Unmap { address: 0, length: translate::ADDRESSES },
            Call::Signal { sequence: signal },
        ]
    }

    /// The last calls were sent.
    pub fn has_ended(&self, signal: u64) {
        self.shared.set_last_signal(self.process, signal);
    }
}

impl Sink for ChildSink {
    fn accept(&self, thread: ThreadId, ops: &[Op]) {
        let bytes: Vec<u8> = ops
            .iter()
            .flat_map(|op| [op.word.to_le_bytes(), op.meta.to_le_bytes()])
            .flatten()
            .collect();
        self.send(Kind::Ops, thread, &bytes);
    }

    fn add_file(&self, _file: &FileInfo) {
        // Files are announced with more: see `announce`.
    }

    fn end_thread(&self, thread: ThreadId) {
        self.send(Kind::EndThread, thread, &[]);
    }

    fn finish(&self, ended: &Ended) -> Value {
        if let Ended::Exec { program } = ended {
            self.send(Kind::Exec, 0, program.as_bytes());
        }
        self.send(Kind::End, 0, &[]);
        Value::Null
    }

    fn cut(&self, _reason: &str) {
        self.send(Kind::End, 0, &[]);
    }

    fn stop(&self) {}

    fn is_done(&self) -> bool {
        self.channel.is_closed()
    }
}

/// What a fork holds from before to after: the calls' state, so that the child has it whole.
struct Held {
    process: MutexGuard<'static, Process>,
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
            HELD.set(Some(Held { process: recorder.process(), slot: index }));
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
    let channel = &shared.channels[own.calls().channel()?];
    let parent = capture::parent()?;
    let sink = ChildSink {
        shared,
        channel,
        process: channel.process.load(Ordering::Relaxed),
        turn: Mutex::new(()),
        first: parent.first_pid(),
    };
    let process = held.process.forked();
    drop(held);
    let files = process.files();
    let child = Recorder::of_child(parent, sink, process);
    child.adopt(own);
    // SAFETY: always succeeds and touches no memory.
    channel.pid.store(unsafe { libc::getpid() }, Ordering::Relaxed);
    channel.state.store(state::BORN, Ordering::Release);
    ring(&shared.births);
    files.iter().for_each(|file| child.announce_file(file));
    Some(())
}
