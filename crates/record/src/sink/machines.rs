//! Running machines on the program's operations while it runs.

use super::Sink;
use crate::capture::{Ended, recorder};
use crate::isolate;
use crate::job::MachinesJob;
use crate::publish::Urgency;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tierscope_system::result::Interval;
use tierscope_system::run::{Observer, Outcome, Progress, run_machines};
use tierscope_workload::feed::{Feed, FeedOptions};
use tierscope_workload::{FileInfo, Op, Site, SiteId, Stream, ThreadId};

/// Feeds machines, each in a thread of its own within the host.
pub struct MachinesSink {
    feed: Arc<Feed>,
    stop: Arc<AtomicBool>,
    run: Mutex<Option<JoinHandle<Vec<Outcome>>>>,
}

impl MachinesSink {
    /// Starts the machines. An error says why they cannot be, for people.
    pub fn start(job: MachinesJob) -> Result<MachinesSink, String> {
        let (made, feed) = sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let run = isolate::spawn("machines", move || {
            // Made here, so that the feed's own thread is as isolated as this one.
            let options = FeedOptions {
                memory_bound_bytes: job.memory_bound_bytes as usize,
                spill_dir: job.spill_dir,
                ..FeedOptions::default()
            };
            let (feed, streams) = Feed::new(job.systems.len(), options);
            if let Some(grain) = job.options.sites {
                feed.tell_sites(grain);
            }
            // The starter waits for it.
            let _ = made.send(Arc::new(feed));
            let streams = streams.into_iter().map(|s| Box::new(s) as Box<dyn Stream>).collect();
            run_machines(&job.systems, streams, &job.options, &Publisher, &stopped)
        })
        .map_err(|error| format!("cannot start the machines' thread: {error}"))?;
        let feed = feed.recv().map_err(|_| "the machines' thread died".to_owned())?;
        Ok(MachinesSink { feed, stop, run: Mutex::new(Some(run)) })
    }
}

impl Sink for MachinesSink {
    fn accept(&self, thread: ThreadId, ops: &[Op]) {
        self.feed.push(thread, ops.to_vec());
    }

    fn take(&self, thread: ThreadId, ops: Vec<Op>) {
        self.feed.push(thread, ops);
    }

    fn add_file(&self, file: &FileInfo) {
        self.feed.add_file(file.clone());
    }

    fn add_site(&self, number: SiteId, site: &Site) {
        self.feed.add_site(number, site.clone());
    }

    fn end_thread(&self, thread: ThreadId) {
        self.feed.end(thread);
    }

    fn finish(&self, ended: &Ended) -> Value {
        if ended.is_whole() {
            self.feed.close();
        } else {
            self.feed.close_early();
        }
        let run = self.run.lock().unwrap_or_else(PoisonError::into_inner).take();
        let outcomes = run.map(JoinHandle::join);
        match outcomes {
            Some(Ok(outcomes)) => {
                json!({"kind": "machines", "outcomes": outcomes, "feed": self.progress()})
            }
            _ => json!({
                "kind": "machines",
                "error": "a broken invariant stopped the simulation; please report it",
            }),
        }
    }

    fn cut(&self, reason: &str) {
        self.feed.cut(reason);
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.feed.cut("the run was stopped");
    }

    fn is_done(&self) -> bool {
        self.feed.consumers() == 0
    }

    fn progress(&self) -> Value {
        let statistics = self.feed.statistics();
        json!({
            "kind": "machines",
            "buffered_bytes": statistics.buffered_bytes,
            "peak_buffered_bytes": statistics.peak_buffered_bytes,
            "spilled_bytes": statistics.spilled_bytes,
        })
    }
}

/// Publishes what the machines report.
struct Publisher;

impl Observer for Publisher {
    fn progress(&self, system: usize, progress: Progress) {
        let record = json!({"type": "system_progress", "system": system, "progress": progress});
        if let Some(recorder) = recorder() {
            recorder.publish(Urgency::Routine, &record);
        }
    }

    fn outcome(&self, system: usize, outcome: &Outcome) {
        let record = json!({"type": "outcome", "system": system, "outcome": outcome});
        if let Some(recorder) = recorder() {
            recorder.publish(Urgency::Routine, &record);
        }
    }

    fn interval(&self, system: usize, interval: &Interval) {
        let record = json!({"type": "interval", "system": system, "interval": interval});
        if let Some(recorder) = recorder() {
            recorder.publish(Urgency::Routine, &record);
        }
    }
}
