//! The side of the first process: takes what the others do.

use super::channel::{Channel, Frame, Kind, Shared, state, wait};
use super::{SHARED, shared, translate};
use crate::capture::{Recorder, recorder};
use crate::isolate;
use crate::publish::Urgency;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tierscope_workload::{Call, FileId, FileInfo, Op, OpKind, ThreadId};
use translate::Translator;

/// How long a fork may be under way before nobody waits for it any more.
const LONGEST_FORK: Duration = Duration::from_secs(1);

/// What the first process knows of the others.
#[derive(Default)]
pub struct Family {
    serving: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Threads by process and that process's number; its first thread also by its parent's.
    threads: HashMap<(u32, ThreadId), ThreadId>,
    /// Programs that processes have taken up, which are not recorded, and how often.
    unrecorded: BTreeMap<String, u64>,
}

/// A file as a process announces it.
#[derive(Deserialize)]
struct Told {
    number: FileId,
    key: (u64, u64),
    file: FileInfo,
}

impl Family {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sees to it that processes are served from now on.
    pub fn serve(&self) -> bool {
        if self.serving.swap(true, Ordering::AcqRel) {
            return true;
        }
        let Ok(shared) = shared() else { return false };
        isolate::spawn("family", move || welcome(shared)).is_ok()
    }

    /// Waits until every process has ended, or until `is_enough`. True where there was one to wait
    /// for. `before` runs once before that.
    pub fn wait(&self, is_enough: impl Fn() -> bool, before: impl FnOnce()) {
        let Some(shared) = SHARED.get() else { return };
        let begun = Instant::now();
        let lives = |channel: &Channel| match channel.state.load(Ordering::Acquire) {
            state::FREE => false,
            state::CLAIMED => begun.elapsed() < LONGEST_FORK,
            _ => true,
        };
        let any_lives = || shared.channels.iter().any(lives);
        if any_lives() {
            before();
        }
        while any_lives() && !is_enough() && recorder().is_some() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Takes nothing any more. How many processes are cut off by that.
    pub fn close(&self) -> usize {
        let Some(shared) = SHARED.get() else { return 0 };
        let used =
            shared.channels.iter().filter(|c| c.state.load(Ordering::Acquire) != state::FREE);
        used.map(Channel::close).count()
    }

    /// The programs that processes have taken up and that were not recorded, in words.
    pub fn unrecorded(&self) -> Option<String> {
        const MOST: usize = 8;
        let known = self.known();
        let all = known.unrecorded.iter();
        let mut named: Vec<String> = all
            .take(MOST)
            .map(|(program, count)| match count {
                1 => program.clone(),
                count => format!("{program} ({count} times)"),
            })
            .collect();
        if known.unrecorded.len() > MOST {
            named.push(format!("{} others", known.unrecorded.len() - MOST));
        }
        (!named.is_empty()).then(|| {
            format!(
                "programs that its processes ran in their place are not recorded: {}",
                named.join(", ")
            )
        })
    }

    /// The number in the whole program of a thread that process `process` calls `thread`.
    fn thread(&self, recorder: &Recorder, process: u32, thread: ThreadId) -> ThreadId {
        if process == 0 {
            return thread;
        }
        *self.known().threads.entry((process, thread)).or_insert_with(|| recorder.new_thread())
    }
}

/// Gives each process that is born a thread that serves it. Body of a thread.
fn welcome(shared: &'static Shared) {
    while let Some(recorder) = recorder() {
        let bell = shared.births.load(Ordering::Acquire);
        let mut any = false;
        for channel in &shared.channels {
            let (from, to) = (state::BORN, state::SERVED);
            let born =
                channel.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
            if born.is_ok() {
                any = true;
                if isolate::spawn("process", move || Server::of(recorder, channel).serve()).is_err()
                {
                    channel.close();
                    channel.state.store(state::FREE, Ordering::Release);
                    recorder
                        .publish_notice("a process is not recorded: there are too many threads");
                }
            }
        }
        if recorder.has_published() {
            return;
        }
        if !any {
            wait(&shared.births, bell);
        }
    }
}

/// Serves one process.
struct Server<F> {
    recorder: &'static Recorder,
    channel: &'static Channel,
    translator: Translator<F>,
    /// Threads that have operations and have not ended.
    threads: BTreeSet<ThreadId>,
    over: bool,
}

impl Server<()> {
    fn of(
        recorder: &'static Recorder,
        channel: &'static Channel,
    ) -> Server<impl FnMut(ThreadId) -> ThreadId> {
        let family = recorder.family();
        let process = channel.process.load(Ordering::Relaxed);
        let parent = channel.parent.load(Ordering::Relaxed);
        let first = family.thread(recorder, parent, channel.thread.load(Ordering::Relaxed));
        family.known().threads.insert((process, 0), first);
        let translator =
            Translator::new(process, move |thread| family.thread(recorder, process, thread));
        Server { recorder, channel, translator, threads: BTreeSet::from([first]), over: false }
    }
}

impl<F: FnMut(ThreadId) -> ThreadId> Server<F> {
    fn serve(mut self) {
        let life = Life::of(self.channel.pid.load(Ordering::Relaxed));
        let mut killed = false;
        while !self.over && !killed {
            match self.channel.read() {
                Some(frame) => self.take(frame),
                None if life.is_over() => match self.channel.read() {
                    Some(frame) => self.take(frame),
                    None => killed = true,
                },
                None => {}
            }
            if self.recorder.sink().is_done() || self.channel.is_closed() {
                break;
            }
        }
        if killed {
            self.unmap_all();
        }
        self.channel.close();
        for thread in std::mem::take(&mut self.threads) {
            self.recorder.sink().end_thread(thread);
        }
        self.channel.state.store(state::FREE, Ordering::Release);
    }

    fn take(&mut self, frame: Frame) {
        match frame.kind {
            Kind::Ops => {
                let ops = self.translator.ops(&frame.bytes);
                let thread = self.translator.thread(frame.thread);
                self.threads.insert(thread);
                self.pass_on(thread, &ops);
            }
            Kind::File => self.take_file(&frame.bytes),
            Kind::EndThread => {
                let thread = self.translator.thread(frame.thread);
                if self.threads.remove(&thread) {
                    self.recorder.sink().end_thread(thread);
                }
            }
            Kind::Record => {
                if let Ok(record) = serde_json::from_slice::<Value>(&frame.bytes) {
                    self.recorder.publish(Urgency::Needed, &record);
                }
            }
            Kind::Exec => {
                let program = String::from_utf8_lossy(&frame.bytes).into_owned();
                *self.recorder.family().known().unrecorded.entry(program).or_default() += 1;
            }
            Kind::End => self.over = true,
        }
    }

    fn pass_on(&self, thread: ThreadId, ops: &[Op]) {
        let is_access = |op: &&Op| matches!(op.kind(), Some(OpKind::Load | OpKind::Store));
        let (mut instructions, mut others, mut arguments) = (0, 0, 0);
        for op in ops {
            if arguments > 0 {
                (arguments, others) = (arguments - 1, others + 1);
                continue;
            }
            instructions += u64::from(op.instructions());
            if op.kind() == Some(OpKind::Call) {
                arguments = op.size();
            }
            others += u32::from(!is_access(&op));
        }
        self.recorder.take(thread, ops, others, instructions);
    }

    fn take_file(&mut self, bytes: &[u8]) {
        let Ok(Told { number, key, file }) = serde_json::from_slice(bytes) else { return };
        let ours = self.recorder.file_at(key, file);
        self.translator.files.insert(number, ours);
    }

    /// The process was killed before it could let its memory go.
    fn unmap_all(&mut self) {
        let thread = self.translator.thread(0);
        if self.threads.contains(&thread) {
            let mut bytes = Vec::new();
            let mut ops = Vec::new();
            Call::Unmap { address: 0, length: translate::ADDRESSES }.encode(0, &mut ops);
            for op in ops {
                bytes.extend(op.word.to_le_bytes());
                bytes.extend(op.meta.to_le_bytes());
            }
            let ops = self.translator.ops(&bytes);
            self.pass_on(thread, &ops);
        }
    }
}

/// Whether a process lives.
struct Life(libc::c_int);

impl Life {
    fn of(pid: libc::pid_t) -> Life {
        // SAFETY: touches no memory.
        Life(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as libc::c_int)
    }

    fn is_over(&self) -> bool {
        if self.0 < 0 {
            // It had ended by then.
            return true;
        }
        let mut poll = libc::pollfd { fd: self.0, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which lives through the call.
        unsafe { libc::poll(&mut poll, 1, 0) == 1 }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this thread's own.
        unsafe { libc::close(self.0) };
    }
}
