//! Recording to a `.tst` file, which a thread of its own writes.

use super::Sink;
use crate::capture::Ended;
use crate::isolate;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tierscope_workload::trace::{TstError, TstMetadata, TstTotals, TstWriter};
use tierscope_workload::{FileInfo, Op, Site, SiteId, ThreadId};

/// A recording to be written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TstJob {
    /// Where it is to be.
    pub path: PathBuf,
    /// What it is to say about itself.
    pub metadata: TstMetadata,
}

/// Buffers under way to the writer: enough to even out, little enough to stay in cache.
const QUEUE: usize = 32;
/// What a process that is killed had recorded longer ago than this is in the file.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

enum Message {
    Ops(ThreadId, Vec<Op>),
    File(FileInfo),
    Site(SiteId, Site),
    Finish(Ended),
    Cut(String),
}

/// Sends operations to the thread that writes the file.
pub struct TstSink {
    sender: SyncSender<Message>,
    writer: Mutex<Option<JoinHandle<Result<TstTotals, String>>>>,
    written_bytes: Arc<AtomicU64>,
    stopped: AtomicBool,
    job: TstJob,
}

impl TstSink {
    /// Begins the recording. An error says why it cannot, for people.
    pub fn start(mut job: TstJob) -> Result<TstSink, String> {
        // The program may change the working directory, which is the process's.
        job.path = std::path::absolute(&job.path)
            .map_err(|error| format!("{}: {error}", job.path.display()))?;
        let (sender, receiver) = sync_channel(QUEUE);
        let (opened, is_open) = sync_channel(1);
        let written_bytes = Arc::new(AtomicU64::new(0));
        let (theirs, count) = (job.clone(), written_bytes.clone());
        let writer = isolate::spawn("tst-writer", move || {
            let writer = match TstWriter::create(&theirs.path, &theirs.metadata) {
                Ok(writer) => writer,
                Err(error) => {
                    // The starter hears of it by the thread's result as well.
                    let _ = opened.send(Err(error.to_string()));
                    return Err(error.to_string());
                }
            };
            let _ = opened.send(Ok(()));
            write(writer, &receiver, &count)
        })
        .map_err(|error| format!("cannot start the thread that writes the recording: {error}"))?;
        is_open.recv().map_err(|_| "the recording's thread died".to_owned())??;
        let writer = Mutex::new(Some(writer));
        Ok(TstSink { sender, writer, written_bytes, stopped: AtomicBool::new(false), job })
    }

    /// A writer that has failed receives nothing any more, and the result tells why.
    fn send(&self, message: Message) {
        let _ = self.sender.send(message);
    }

    fn wait(&self) -> Result<TstTotals, String> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(writer) = writer else { return Err("the recording has ended before".into()) };
        writer.join().unwrap_or_else(|_| Err("a broken invariant stopped the recording".into()))
    }
}

/// Body of the writing thread.
fn write(
    mut writer: TstWriter,
    receiver: &Receiver<Message>,
    written_bytes: &AtomicU64,
) -> Result<TstTotals, String> {
    let told = |error: TstError| error.to_string();
    let mut flushed = Instant::now();
    loop {
        match receiver.recv_timeout(FLUSH_EVERY) {
            Ok(Message::Ops(thread, ops)) => writer.append(thread, &ops).map_err(told)?,
            Ok(Message::File(file)) => {
                writer.add_file(&file).map_err(told)?;
            }
            Ok(Message::Site(number, site)) => writer.add_site(number, site).map_err(told)?,
            Ok(Message::Finish(ended)) if ended.is_whole() => {
                return writer.finish(&ended.to_string()).map_err(told);
            }
            Ok(Message::Finish(ended)) => {
                return writer.finish_cut(&ended.to_string()).map_err(told);
            }
            Ok(Message::Cut(reason)) => return writer.finish_cut(&reason).map_err(told),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err("the recorder went away".into()),
        }
        if flushed.elapsed() >= FLUSH_EVERY {
            writer.flush().map_err(told)?;
            flushed = Instant::now();
        }
        written_bytes.store(writer.written_bytes(), Ordering::Relaxed);
    }
}

impl Sink for TstSink {
    fn accept(&self, thread: ThreadId, ops: &[Op]) {
        self.send(Message::Ops(thread, ops.to_vec()));
    }

    fn take(&self, thread: ThreadId, ops: Vec<Op>) {
        self.send(Message::Ops(thread, ops));
    }

    fn add_file(&self, file: &FileInfo) {
        self.send(Message::File(file.clone()));
    }

    fn add_site(&self, number: SiteId, site: &Site) {
        self.send(Message::Site(number, site.clone()));
    }

    fn end_thread(&self, _thread: ThreadId) {}

    fn finish(&self, ended: &Ended) -> Value {
        self.send(Message::Finish(ended.clone()));
        let path = self.job.path.to_string_lossy();
        match self.wait() {
            Ok(totals) => {
                let size = std::fs::metadata(&self.job.path).map_or(0, |status| status.len());
                json!({"kind": "tst", "path": path, "totals": totals, "file_bytes": size})
            }
            Err(error) => json!({"kind": "tst", "path": path, "error": error}),
        }
    }

    fn cut(&self, reason: &str) {
        self.send(Message::Cut(reason.to_owned()));
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn is_done(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn progress(&self) -> Value {
        json!({"kind": "tst", "written_bytes": self.written_bytes.load(Ordering::Relaxed)})
    }
}
