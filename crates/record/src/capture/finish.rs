//! How a recording ends: the ways a program's process ends, and what is done in each.

use super::{CAPACITY, Recorder, Role, Slot, current_tid, recorder, slot};
use crate::publish::Urgency;
use crate::signals;
use crate::sink::Sink;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How the program's first process ended, as far as it tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "lowercase")]
pub enum Ended {
    /// It called for its end.
    Exit {
        /// Its status, if it is known.
        status: Option<i32>,
    },
    /// Another program took its place, which is not recorded.
    Exec {
        /// That program.
        program: String,
    },
    /// A signal killed it.
    Signal {
        /// Which one.
        number: i32,
    },
    /// It goes on, but the recording was stopped or had all that was wanted.
    Stopped,
    /// It goes on, but the recorder has failed.
    Broken,
    /// Its emulator ended, and had said nothing of an end of the program.
    Unsaid {
        /// The emulator's status as a shell gives it: 128+n for a signal.
        status: i32,
    },
}

impl Ended {
    /// Whether every thread was recorded to its end. Otherwise threads may end before what others
    /// wait for.
    pub fn is_whole(&self) -> bool {
        matches!(self, Ended::Exit { .. })
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Ended::Exit { status: Some(status) } => write!(f, "exit status {status}"),
            Ended::Exit { status: None } => write!(f, "exit"),
            Ended::Exec { program } => write!(f, "exec of {program}"),
            Ended::Signal { number } => write!(f, "{}", signals::describe(*number)),
            Ended::Stopped => write!(f, "stopped"),
            Ended::Broken => write!(f, "failure of the recorder"),
            Ended::Unsaid { status } if *status > 128 => {
                write!(f, "end of its emulator by {}", signals::describe(status - 128))
            }
            Ended::Unsaid { status } => write!(f, "end of its emulator with status {status}"),
        }
    }
}

impl Recorder {
    /// Ends the recording: all that was noted goes to the sink, which comes to its end, and the
    /// result is published. Only the first call does anything; another waits until that is done.
    ///
    /// No thread but the caller may note anything any more.
    pub fn finish(&self) {
        if self.finished.swap(true, Ordering::AcqRel) {
            return self.wait_until_published();
        }
        self.end_all_threads();
        let status = *self.exit_status.lock().unwrap_or_else(PoisonError::into_inner);
        self.publish_result(Ended::Exit { status });
    }

    /// Gives what all threads have noted to the sink. No thread but the caller may note anything
    /// any more.
    pub(crate) fn end_all_threads(&self) {
        let mut last_signal = None;
        for index in self.slot_indices() {
            // SAFETY: other threads note nothing any more; one that is in a call's callback is
            // waited for.
            let slot = unsafe { &mut *slot(index) };
            wait_while_busy(slot);
            if slot.in_use {
                last_signal = last_signal.or_else(|| self.make_last_calls(slot));
                self.end_thread(slot);
            }
        }
        self.tell_end(last_signal);
    }

    /// Where the slot is that of a process's first thread, has it let its memory go and signal to who
    /// waits for the process. The number of that signal.
    fn make_last_calls(&self, slot: &mut Slot) -> Option<u64> {
        let child = self.as_child()?;
        if slot.thread(self) != 0 {
            return None;
        }
        let signal = slot.signals() + 1;
        child.last_calls(signal)?.iter().for_each(|call| slot.call(call));
        Some(slot.next_signal(self).sequence)
    }

    /// What [`Recorder::make_last_calls`] made has gone to the host.
    fn tell_end(&self, last_signal: Option<u64>) {
        if let (Some(child), Some(signal)) = (self.as_child(), last_signal) {
            child.has_ended(signal);
        }
    }

    /// Whether the process ends although no thread called for it: by a signal.
    pub(crate) fn ends_uncalled(&self) -> bool {
        let status = *self.exit_status.lock().unwrap_or_else(PoisonError::into_inner);
        status.is_none() && self.slots_in_use().next().is_some()
    }

    /// Ends the recording because the running thread is about to end the process by a signal.
    /// See [`Recorder::finish_in`].
    pub(crate) fn finish_for_signal(&self, number: i32) {
        // SAFETY: the slot is the running thread's own.
        let own = self.own_slot().map(|index| unsafe { &mut *slot(index) });
        self.finish_in(own, Ended::Signal { number });
    }

    /// Ends the recording because the thread of `slot`, which runs, is about to end the process
    /// in some way. What other threads have in their buffers is lost: they still run. Where the
    /// recording has ended or is about to, waits until the result is published.
    pub(crate) fn finish_in(&self, slot: Option<&mut Slot>, ended: Ended) {
        if self.finished.swap(true, Ordering::AcqRel) {
            if let Some(slot) = slot {
                // Whoever ends the recording need not wait for this thread.
                slot.busy.store(false, Ordering::SeqCst);
            }
            return self.wait_until_published();
        }
        let flushed = usize::from(slot.is_some());
        if let Some(slot) = slot {
            let last_signal = self.make_last_calls(slot);
            slot.flush_rest();
            self.tell_end(last_signal);
        }
        let others = self.slots_in_use().count().saturating_sub(flushed);
        if others > 0 {
            self.publish_notice(&format!(
                "up to {CAPACITY} operations of each of {others} other threads, the last before \
                 the end, are missing"
            ));
        }
        self.publish_result(ended);
    }

    fn slot_indices(&self) -> std::ops::Range<u32> {
        0..self.slots.load(Ordering::Relaxed)
    }

    fn slots_in_use(&self) -> impl Iterator<Item = u32> {
        // SAFETY: the slots exist. The field changes only as threads come and go; a thread that
        // does so at this moment may be counted or not.
        self.slot_indices().filter(|index| unsafe { (&raw const (*slot(*index)).in_use).read() })
    }

    /// Threads that run.
    pub(crate) fn threads_in_use(&self) -> usize {
        self.slots_in_use().count()
    }

    /// The running thread's slot: the one whose calls it makes, or the only one in use.
    pub(crate) fn own_slot(&self) -> Option<u32> {
        let tid = current_tid();
        // SAFETY: as in `slots_in_use`; only its own thread writes this number to a slot.
        let tid_of = |index: u32| unsafe { (&raw const (*slot(index)).tid).read() };
        let mine = self.slots_in_use().find(|index| tid_of(*index) == tid);
        mine.or_else(|| {
            let mut all = self.slots_in_use();
            let only = all.next()?;
            (all.next().is_none() && tid_of(only) == 0).then_some(only)
        })
    }

    /// Ends the run: its result is published. For the host.
    pub(crate) fn finish_run(&self, ended: Ended) {
        if self.finished.swap(true, Ordering::AcqRel) {
            return self.wait_until_published();
        }
        self.publish_result(ended);
    }

    fn publish_result(&self, ended: Ended) {
        if let Some(child) = self.as_child() {
            child.finish(&ended);
            self.published.store(true, Ordering::Release);
            return;
        }
        self.wait_for_family(&ended);
        let recorded_s = self.begun.elapsed().as_secs_f64();
        self.publish(
            Urgency::Needed,
            &json!({
                "type": "ended",
                "ended": ended,
                "recorded": self.recorded(),
                "recorded_s": recorded_s,
                "alive": self.family().alive(),
            }),
        );
        let result = self.sink().finish(&ended);
        self.publish(
            Urgency::Needed,
            &json!({
                "type": "result",
                "ended": ended,
                "recorded": self.recorded(),
                "recorded_s": recorded_s,
                "finished_s": self.begun.elapsed().as_secs_f64(),
                "sink": result,
            }),
        );
        self.published.store(true, Ordering::Release);
    }

    /// Other processes of the program may go on after the first. Where that is killed, or runs a
    /// program in its place that is not recorded, they are cut off.
    fn wait_for_family(&self, ended: &Ended) {
        let family = self.family();
        if matches!(ended, Ended::Exit { .. }) {
            family.wait(|| self.sink().is_done());
        }
        let cut_off = family.close();
        if cut_off > 0 && !matches!(ended, Ended::Stopped | Ended::Broken) {
            self.publish_notice(&format!(
                "{cut_off} other processes of the program are recorded only until its first one ended"
            ));
        }
        if let Some(unrecorded) = family.unrecorded() {
            self.publish_unseen(&unrecorded);
        }
        if let Some(untold) = family.untold() {
            self.publish_unseen(&untold);
        }
        if let Some(flushes) = family.flushes() {
            self.publish_unseen(&flushes);
        }
    }

    /// Whether the result is out.
    pub(crate) fn has_published(&self) -> bool {
        self.published.load(Ordering::Acquire)
    }

    /// Somebody else publishes the result: the process must not end before that is done.
    fn wait_until_published(&self) {
        while !self.published.load(Ordering::Acquire) && recorder().is_some() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether the recording has ended.
    pub(crate) fn has_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// Publishes the state of affairs now and then, and ends the recording early if that is asked
    /// for or the sink has enough. It goes on until the result is published: a sink that comes to
    /// its end can be stopped too. Body of a thread of the host.
    pub fn watch(&self, every: Duration) {
        while !self.published.load(Ordering::Acquire) && recorder().is_some() {
            std::thread::sleep(every);
            if !self.has_finished() {
                self.publish_progress();
            }
            if self.stop_requested() {
                self.sink().stop();
            }
            if self.sink().is_done() {
                self.finish_run(self.family().first_ended().unwrap_or(Ended::Stopped));
            }
        }
    }

    fn publish_progress(&self) {
        let record = json!({
            "type": "progress",
            "recorded": self.recorded(),
            "recorded_s": self.begun.elapsed().as_secs_f64(),
            "sink": self.sink().progress(),
        });
        self.publish(Urgency::Routine, &record);
    }

    fn stop_requested(&self) -> bool {
        match &self.role {
            Role::Host { log, .. } => {
                log.lock().unwrap_or_else(PoisonError::into_inner).stop_requested()
            }
            Role::Program { .. } => false,
        }
    }
}

fn wait_while_busy(slot: &Slot) {
    let begun = Instant::now();
    while slot.busy.load(Ordering::SeqCst) && begun.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_micros(100));
    }
}
