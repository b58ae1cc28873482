//! The side of the host: takes what the program's processes do.

use super::channel::{Channel, Frame, Kind, Shared, state, wait};
use super::{Replacing, SHARED, translate};
use crate::capture::{CAPACITY, Ended, Recorder, recorder};
use crate::isolate;
use crate::publish::Urgency;
use crate::sink::Counts;
use serde::Deserialize;
use serde_json::Value;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tierscope_workload::{Call, FileId, FileInfo, Site, SiteId, ThreadId};
use translate::Translator;

/// How long a fork may be under way before nobody waits for it any more.
const LONGEST_FORK: Duration = Duration::from_secs(1);

/// What the host knows of the processes.
#[derive(Default)]
pub struct Family {
    known: Mutex<Known>,
    /// How the first process ended, and what is rung then.
    first_ended: Mutex<Option<Ended>>,
    first_bell: Condvar,
}

#[derive(Default)]
struct Known {
    /// Threads by process, image, and that one's number; a process's first thread also by its
    /// parent's.
    threads: HashMap<(u32, u32, ThreadId), ThreadId>,
    /// Programs that processes ran in their place and that are not recorded: why, and how often.
    unrecorded: BTreeMap<(String, String), u64>,
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
    pub fn serve(&self) -> std::io::Result<()> {
        let shared = *SHARED.get().ok_or_else(|| std::io::Error::other("nothing is shared"))?;
        isolate::spawn("family", move || welcome(shared)).map(drop)
    }

    /// Waits until the first process has ended, and says how; `None` where `is_enough` was first.
    pub fn wait_for_first(&self, is_enough: impl Fn() -> bool) -> Option<Ended> {
        const LOOK_UP_EVERY: Duration = Duration::from_millis(20);
        let mut ended = self.first_ended.lock().unwrap_or_else(PoisonError::into_inner);
        while ended.is_none() && !is_enough() {
            let waited = self.first_bell.wait_timeout(ended, LOOK_UP_EVERY);
            ended = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        ended.clone()
    }

    /// How the first process ended, once it has.
    pub fn first_ended(&self) -> Option<Ended> {
        self.first_ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_first_ended(&self, ended: Ended) {
        *self.first_ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
        self.first_bell.notify_all();
    }

    /// Waits until every process has ended, or until `is_enough`.
    pub fn wait(&self, is_enough: impl Fn() -> bool) {
        let Some(shared) = SHARED.get() else { return };
        let begun = Instant::now();
        let lives = |channel: &Channel| match channel.state.load(Ordering::Acquire) {
            state::FREE => false,
            state::CLAIMED => begun.elapsed() < LONGEST_FORK,
            _ => true,
        };
        let any_lives = || shared.channels.iter().any(lives);
        while any_lives() && !is_enough() && recorder().is_some() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Takes nothing any more. How many processes beside the first are cut off by that.
    pub fn close(&self) -> usize {
        let Some(shared) = SHARED.get() else { return 0 };
        let is_used = |channel: &&Channel| channel.state.load(Ordering::Acquire) != state::FREE;
        let used = shared.channels.iter().filter(is_used);
        used.inspect(|channel| channel.close())
            .filter(|channel| channel.process.load(Ordering::Relaxed) > 0)
            .count()
    }

    /// The programs that processes ran in their place and that were not recorded, in words.
    pub fn unrecorded(&self) -> Option<String> {
        const MOST: usize = 8;
        let known = self.known();
        let all = known.unrecorded.iter();
        let mut named: Vec<String> = all
            .take(MOST)
            .map(|((program, why), count)| match count {
                1 => format!("{program} ({why})"),
                count => format!("{program} ({why}; {count} times)"),
            })
            .collect();
        if known.unrecorded.len() > MOST {
            named.push(format!("{} others", known.unrecorded.len() - MOST));
        }
        (!named.is_empty()).then(|| {
            format!("programs that its processes ran are not recorded: {}", named.join(", "))
        })
    }

    /// The number in the whole run of a thread that an image of a process calls `thread`.
    fn thread(&self, recorder: &Recorder, of: (u32, u32), thread: ThreadId) -> ThreadId {
        let key = (of.0, of.1, thread);
        *self.known().threads.entry(key).or_insert_with(|| recorder.new_thread())
    }

    /// Notes that a process ran a program in its place that is not recorded.
    fn add_unrecorded(&self, told: Replacing) {
        let why = told.unseen.unwrap_or_else(|| "QEMU could not run it".into());
        *self.known().unrecorded.entry((told.program, why)).or_default() += 1;
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
                        .publish_unseen("a process is not recorded: there are too many threads");
                    if channel.process.load(Ordering::Relaxed) == 0 {
                        recorder.family().set_first_ended(Ended::Stopped);
                    }
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
    /// Its number.
    process: u32,
    /// Programs that have run in its place so far.
    image: Rc<Cell<u32>>,
    translator: Translator<F>,
    /// Threads that have operations and have not ended.
    threads: BTreeSet<ThreadId>,
    /// It is running a program in its place, and nobody has heard of that program yet.
    replacing: Option<Replacing>,
    ended: Option<Ended>,
}

impl Server<()> {
    fn of(
        recorder: &'static Recorder,
        channel: &'static Channel,
    ) -> Server<impl FnMut(ThreadId) -> ThreadId> {
        let family = recorder.family();
        let read = |word: &std::sync::atomic::AtomicU32| word.load(Ordering::Relaxed);
        let process = read(&channel.process);
        let parent = (read(&channel.parent), read(&channel.parent_image));
        let first = family.thread(recorder, parent, read(&channel.thread));
        family.known().threads.insert((process, 0, 0), first);
        let image = Rc::new(Cell::new(0));
        let current = image.clone();
        let translator = Translator::new(process, move |thread| {
            family.thread(recorder, (process, current.get()), thread)
        });
        let threads = BTreeSet::from([first]);
        Server {
            recorder,
            channel,
            process,
            image,
            translator,
            threads,
            replacing: None,
            ended: None,
        }
    }
}

impl<F: FnMut(ThreadId) -> ThreadId> Server<F> {
    fn serve(mut self) {
        let life = Life::of(self.channel.pid.load(Ordering::Relaxed));
        let mut gone = false;
        while self.ended.is_none() && !gone {
            match self.channel.read() {
                Some(frame) => self.take(frame),
                None if life.is_over() || self.has_left(&life) => match self.channel.read() {
                    Some(frame) => self.take(frame),
                    None => gone = true,
                },
                None => {}
            }
            if self.recorder.sink().is_done() || self.channel.is_closed() {
                break;
            }
        }
        if gone {
            self.start_all();
            self.unmap_all();
        }
        self.channel.close();
        if gone || self.ended.is_some() {
            // Before its threads end, for with the last one machines come to their end.
            self.tell_end();
        }
        for thread in std::mem::take(&mut self.threads) {
            self.recorder.sink().end_thread(thread);
        }
        self.channel.state.store(state::FREE, Ordering::Release);
    }

    /// Whether the process runs a program now that is not recorded.
    fn has_left(&self, life: &Life) -> bool {
        self.replacing.as_ref().is_some_and(|told| told.unseen.is_some()) && life.has_changed()
    }

    /// Says how the process ended, where that matters.
    fn tell_end(&mut self) {
        let family = self.recorder.family();
        let program = self.replacing.take().map(|told| {
            let program = told.program.clone();
            family.add_unrecorded(told);
            program
        });
        if self.process > 0 {
            return;
        }
        let killed = Ended::Signal { number: libc::SIGKILL };
        let unseen = program.map_or(killed, |program| Ended::Exec { program });
        family.set_first_ended(self.ended.take().unwrap_or(unseen));
    }

    fn take(&mut self, frame: Frame) {
        match frame.kind {
            Kind::Ops => {
                let mut ops = frame.ops;
                let counts = self.translator.translate(&mut ops);
                let thread = self.translator.thread(frame.thread);
                self.threads.insert(thread);
                self.recorder.count(&counts);
                self.recorder.sink().take(thread, ops);
            }
            Kind::Counts => {
                let thread = self.translator.thread(frame.thread);
                self.threads.insert(thread);
                if let Ok(counts) = serde_json::from_slice(&frame.bytes) {
                    self.recorder.take_counts(&counts);
                }
            }
            Kind::File => self.take_file(&frame.bytes),
            Kind::EndThread => {
                let thread = self.translator.thread(frame.thread);
                // The last one ends with the process.
                if self.threads.len() > 1 && self.threads.remove(&thread) {
                    self.recorder.sink().end_thread(thread);
                }
            }
            Kind::Record => {
                if let Ok(record) = serde_json::from_slice::<Value>(&frame.bytes) {
                    self.recorder.publish(Urgency::Needed, &record);
                }
            }
            Kind::Exec => self.replacing = serde_json::from_slice(&frame.bytes).ok(),
            Kind::Back => self.replacing = None,
            Kind::Begin => self.begin_next_image(),
            Kind::End => {
                self.ended = Some(serde_json::from_slice(&frame.bytes).unwrap_or(Ended::Stopped));
            }
            Kind::Site => {
                if let Ok((number, site)) = serde_json::from_slice::<(SiteId, Site)>(&frame.bytes) {
                    self.recorder.announce_site(number, &site);
                }
            }
        }
    }

    fn pass_on_call(&self, thread: ThreadId, call: &Call) {
        let mut ops = Vec::new();
        call.encode(0, &mut ops);
        self.recorder.count(&Counts::of(&ops));
        self.recorder.sink().take(thread, ops);
    }

    fn take_file(&mut self, bytes: &[u8]) {
        let Ok(Told { number, key, file }) = serde_json::from_slice(bytes) else { return };
        let ours = self.recorder.file_at(key, file);
        self.translator.files.insert(number, ours);
    }

    /// Another program begins in the process's place. As in the kernel, the thread that ran it goes on
    /// as the process's first, and all others end (execve(2)).
    fn begin_next_image(&mut self) {
        let Some(told) = self.replacing.take() else { return };
        let by = self.translator.thread(told.thread);
        self.start_all();
        let first = self.first_of_next_image(by, told.sequence);
        for thread in std::mem::replace(&mut self.threads, BTreeSet::from([first])) {
            if thread != first {
                self.recorder.sink().end_thread(thread);
            }
        }
        self.image.set(self.image.get() + 1);
        let key = (self.process, self.image.get(), 0);
        self.recorder.family().known().threads.insert(key, first);
        self.translator.files.clear();
        self.unmap_all();
        if told.others > 0 {
            self.recorder.publish_notice(&format!(
                "up to {CAPACITY} operations of each of {} other threads, the last before {} took \
                 their program's place, are missing",
                told.others, told.program
            ));
        }
    }

    /// Starts those threads whose start their creator had noted and not yet handed over as it ended: what
    /// they did would wait for it for ever.
    fn start_all(&mut self) {
        let first = self.translator.thread(0);
        if !self.threads.contains(&first) {
            return;
        }
        for thread in self.threads.clone() {
            if thread != first && self.translator.started.insert(thread) {
                self.pass_on_call(first, &Call::Spawn { thread });
            }
        }
    }

    /// The thread that goes on as the first; thread `by`, whose last signal has the number
    /// `sequence`, comes before it.
    fn first_of_next_image(&mut self, by: ThreadId, sequence: u64) -> ThreadId {
        let first = self.translator.thread(0);
        if first == by {
            return first;
        }
        if self.threads.contains(&first) {
            self.pass_on_call(first, &Call::Wait { thread: by, sequence });
            return first;
        }
        let first = self.recorder.new_thread();
        self.pass_on_call(by, &Call::Spawn { thread: first });
        first
    }

    /// All memory of the process goes.
    fn unmap_all(&mut self) {
        let first = self.translator.thread(0);
        if self.threads.contains(&first) {
            let all = self.translator.all_addresses();
            self.pass_on_call(
                first,
                &Call::Unmap { address: all.start, length: all.end - all.start },
            );
        }
    }
}

/// Whether a process lives, and which program it runs.
struct Life {
    descriptor: libc::c_int,
    /// Its program, as the kernel names it, and what it was at first.
    link: PathBuf,
    program: Option<PathBuf>,
}

impl Life {
    fn of(pid: libc::pid_t) -> Life {
        // SAFETY: touches no memory.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as libc::c_int;
        let link = PathBuf::from(format!("/proc/{pid}/exe"));
        let program = std::fs::read_link(&link).ok();
        Life { descriptor, link, program }
    }

    fn is_over(&self) -> bool {
        if self.descriptor < 0 {
            // It had ended by then.
            return true;
        }
        let mut poll = libc::pollfd { fd: self.descriptor, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which lives through the call.
        unsafe { libc::poll(&mut poll, 1, 0) == 1 }
    }

    /// Whether it runs another program than at first, or one that may not be known.
    fn has_changed(&self) -> bool {
        std::fs::read_link(&self.link).ok() != self.program
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this thread's own.
        unsafe { libc::close(self.descriptor) };
    }
}
