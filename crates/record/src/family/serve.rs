//! The side of the host: takes what the program's processes do.

use super::channel::{Channel, Frame, Kind, LOOK_UP_EVERY, Shared, state, wait};
use super::{Replacing, SHARED, translate};
use crate::capture::{CAPACITY, Ended, Recorder, guarded, recorder};
use crate::file_key::FileKey;
use crate::isolate;
use crate::kin::ProcessId;
use crate::pidfd::Pidfd;
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
    /// What calls did that is not recorded, and how often.
    untold: BTreeMap<&'static str, u64>,
    /// Flushes of lines that are not recorded, by their instruction, and how often.
    flushes: BTreeMap<&'static str, u64>,
    /// Processes that were served.
    served: Vec<ProcessId>,
}

/// A file as a process announces it.
#[derive(Deserialize)]
struct Told {
    number: FileId,
    key: FileKey,
    file: FileInfo,
}

impl Family {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sees to it that processes are served from now on.
    pub fn serve(&self) -> std::io::Result<()> {
        let shared = *SHARED.get().ok_or_else(|| std::io::Error::other("nothing is shared"))?;
        isolate::spawn("family", move || guarded(|_| welcome(shared))).map(drop)
    }

    /// The host has failed: no process is served any more, and the run is over.
    pub fn give_up(&self) {
        if let Some(shared) = SHARED.get() {
            shared.give_up();
        }
        self.set_first_ended(Ended::Broken);
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

    /// What is said first holds.
    fn set_first_ended(&self, ended: Ended) {
        let mut first = self.first_ended.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(ended);
        drop(first);
        self.first_bell.notify_all();
    }

    /// Waits until every process has ended, or until `is_enough`.
    pub fn wait(&self, is_enough: impl Fn() -> bool) {
        let Some(shared) = SHARED.get() else { return };
        let begun = Instant::now();
        let lives = |channel: &Channel| match channel.state.load(Ordering::Acquire) {
            state::FREE | state::OVER => false,
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
        let is_used = |channel: &&Channel| {
            !matches!(channel.state.load(Ordering::Acquire), state::FREE | state::OVER)
        };
        let used = shared.channels.iter().filter(is_used);
        used.inspect(|channel| channel.close())
            .filter(|channel| channel.process.load(Ordering::Relaxed) > 0)
            .count()
    }

    /// The processes that were served and that still live, whatever programs they run now.
    pub fn alive(&self) -> Vec<ProcessId> {
        let served = self.known().served.clone();
        served.into_iter().filter(|one| ProcessId::of(one.pid) == Some(*one)).collect()
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

    /// What calls did that is not recorded, in words.
    pub fn untold(&self) -> Option<String> {
        let what = "what calls did to files and memory is not recorded, but that they were made";
        listed(what, &self.known().untold)
    }

    /// Flushes of lines that are not recorded, in words.
    pub fn flushes(&self) -> Option<String> {
        let what =
            "flushes of lines from caches are left out, as QEMU does not tell their addresses";
        listed(what, &self.known().flushes)
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

/// What there was, each with how often; nothing where there was none.
fn listed(what: &str, counts: &BTreeMap<&'static str, u64>) -> Option<String> {
    let named: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    (!named.is_empty()).then(|| format!("{what}: {}", named.join(", ")))
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
                let serve = move || guarded(|recorder| Server::of(recorder, channel).serve());
                if isolate::spawn("process", serve).is_err() {
                    channel.close();
                    // For good: nobody looks whether the process still writes.
                    channel.state.store(state::OVER, Ordering::Release);
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
        self.recorder.family().known().served.extend(ProcessId::of(life.pid));
        let mut gone = false;
        while self.ended.is_none() && !gone {
            match self.channel.read() {
                Some(frame) => self.take(frame),
                None if life.is_over(Duration::ZERO) || self.has_left(&life) => {
                    match self.channel.read() {
                        Some(frame) => self.take(frame),
                        None => gone = true,
                    }
                }
                None => {}
            }
            if self.recorder.sink().is_done() || self.channel.is_closed() {
                break;
            }
        }
        if gone {
            self.start_all();
            self.let_memory_go(Call::Exit { process: self.translator.process() });
        }
        self.channel.close();
        if gone || self.ended.is_some() {
            // Before its threads end, for with the last one machines come to their end.
            self.tell_end(&life);
        }
        for thread in std::mem::take(&mut self.threads) {
            self.recorder.sink().end_thread(thread);
        }
        if !gone {
            self.channel.state.store(state::OVER, Ordering::Release);
            life.wait_until_it_writes_no_more();
        }
        self.channel.state.store(state::FREE, Ordering::Release);
    }

    /// Whether the process runs a program now that is not recorded.
    fn has_left(&self, life: &Life) -> bool {
        self.replacing.as_ref().is_some_and(|told| told.unseen.is_some()) && life.has_changed()
    }

    /// Says how the process ended, where that matters.
    fn tell_end(&mut self, life: &Life) {
        let family = self.recorder.family();
        let program = self.replacing.take().map(|told| {
            let program = told.program.clone();
            family.add_unrecorded(told);
            program
        });
        if self.process > 0 {
            return;
        }
        let unsaid =
            || program.map_or_else(|| life.how_it_ended(), |program| Ended::Exec { program });
        family.set_first_ended(self.ended.take().unwrap_or_else(unsaid));
    }

    fn take(&mut self, frame: Frame) {
        match frame.kind {
            Kind::Ops => {
                let mut ops = frame.ops;
                let counts = self.translator.translate(&mut ops);
                for (name, count) in std::mem::take(&mut self.translator.flushes) {
                    *self.recorder.family().known().flushes.entry(name).or_default() += count;
                }
                for (words, count) in std::mem::take(&mut self.translator.untold) {
                    *self.recorder.family().known().untold.entry(words).or_default() += count;
                }
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
        self.let_memory_go(Call::Exec { process: self.translator.process() });
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

    /// All memory of the process goes, by a call of its first thread.
    fn let_memory_go(&mut self, call: Call) {
        let first = self.translator.thread(0);
        if self.threads.contains(&first) {
            self.pass_on_call(first, &call);
        }
    }
}

/// Whether a process lives, and which program it runs.
struct Life {
    pid: libc::pid_t,
    /// `None` where it had ended before this was asked.
    process: Option<Pidfd>,
    /// What the kernel named its program at first.
    program: Option<PathBuf>,
}

impl Life {
    fn of(pid: libc::pid_t) -> Life {
        Life { pid, process: Pidfd::open(pid).ok(), program: program_of(pid) }
    }

    /// Waits for `time` at most. Whether it has ended.
    fn is_over(&self, time: Duration) -> bool {
        self.process.as_ref().is_none_or(|process| process.is_over(time))
    }

    /// Whether it runs another program than at first, or one that may not be known.
    fn has_changed(&self) -> bool {
        program_of(self.pid) != self.program
    }

    /// Waits until what the process has mapped is gone: it has ended, or runs a program that is not
    /// recorded.
    fn wait_until_it_writes_no_more(&self) {
        while !self.is_over(LOOK_UP_EVERY) && !self.has_changed() {}
    }

    /// How it has ended that said nothing of it. Its status stays until the launcher asks for it, which
    /// is after this process's end.
    fn how_it_ended(&self) -> Ended {
        const KILLED: i32 = 128 + libc::SIGKILL;
        match exit_status(self.pid).unwrap_or(KILLED) {
            KILLED => Ended::Signal { number: libc::SIGKILL },
            status => Ended::Unsaid { status },
        }
    }
}

/// The file of the program that a process runs.
fn program_of(pid: libc::pid_t) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// The status of a process that has ended and that nobody has waited for, as a shell gives it. Field 52
/// of proc(5)'s `stat`, in the form of waitpid(2); `None` where this process may not know it.
fn exit_status(pid: libc::pid_t) -> Option<i32> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, which is in brackets and may hold anything, the third field comes.
    let mut fields = line.rsplit(") ").next()?.split_ascii_whitespace();
    let (state, status) = (fields.next()?, fields.nth(48)?.parse().ok()?);
    if state != "Z" {
        return None;
    }
    let (signal, code) = (libc::WTERMSIG(status), libc::WEXITSTATUS(status));
    // Whoever may not know it is told 0, with which no emulator ends without a word.
    match if libc::WIFSIGNALED(status) { 128 + signal } else { code } {
        0 => None,
        status => Some(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_status_of_a_process_is_known_until_somebody_waits_for_it() {
        for (script, status) in [("exit 3", Some(3)), ("kill -SEGV $$", Some(139)), ("", None)] {
            let mut shell = Command::new("sh");
            let mut child = shell.args(["-c", script]).stderr(Stdio::null()).spawn().unwrap();
            let life = Life::of(child.id() as libc::pid_t);
            assert!(life.is_over(Duration::from_secs(20)), "{script}");
            assert_eq!(exit_status(life.pid), status, "{script}");
            let expected =
                status.map_or(Ended::Signal { number: 9 }, |status| Ended::Unsaid { status });
            assert_eq!(life.how_it_ended(), expected, "{script}");
            if let (Some(139), how) = (status, life.how_it_ended()) {
                assert_eq!(how.to_string(), "end of its emulator by signal 11 (SIGSEGV)");
            }
            child.wait().unwrap();
            assert_eq!(exit_status(life.pid), None, "{script}");
            life.wait_until_it_writes_no_more();
        }
    }
}
