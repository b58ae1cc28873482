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
use tierscope_units::Size;
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
    /// Bytes that it may have at most: the recording ends before there are more. At least
    /// [`LEAST_MAX_BYTES`].
    pub max_bytes: Option<u64>,
}

/// Bytes that a recording must be allowed: enough for its beginning, its end and a little between.
pub const LEAST_MAX_BYTES: u64 = 1 << 20;
/// Bytes that a message makes at most of the file: a buffer of operations, at 36 bytes each, a file or a
/// site with a name that is as long as it may be.
const MOST_MESSAGE_BYTES: u64 = 256 << 10;

/// Buffers under way to the writer: enough to even out, little enough to stay in cache.
const QUEUE: usize = 32;
/// What a process that is killed had recorded longer ago than this is in the file.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

enum Message {
    Ops(ThreadId, Vec<Op>),
    File(FileInfo),
    Site(SiteId, Site),
    Missing(String),
    Finish(Ended),
    Cut(String),
}

/// Sends operations to the thread that writes the file.
pub struct TstSink {
    sender: SyncSender<Message>,
    writer: Mutex<Option<JoinHandle<Result<TstTotals, String>>>>,
    state: Arc<State>,
    stopped: AtomicBool,
    job: TstJob,
}

/// What the writing thread tells.
#[derive(Default)]
struct State {
    written_bytes: AtomicU64,
    /// The file has the size that it may have.
    full: AtomicBool,
}

impl TstSink {
    /// Begins the recording. An error says why it cannot, for people.
    pub fn start(mut job: TstJob) -> Result<TstSink, String> {
        // The program may change the working directory, which is the process's.
        job.path = std::path::absolute(&job.path)
            .map_err(|error| format!("{}: {error}", job.path.display()))?;
        let (sender, receiver) = sync_channel(QUEUE);
        let (opened, is_open) = sync_channel(1);
        let state = Arc::new(State::default());
        let (theirs, their_state) = (job.clone(), state.clone());
        let writer = isolate::spawn("tst-writer", move || {
            let mut writer = match TstWriter::create(&theirs.path, &theirs.metadata) {
                Ok(writer) => writer,
                Err(error) => {
                    // The starter hears of it by the thread's result as well.
                    let _ = opened.send(Err(error.to_string()));
                    return Err(error.to_string());
                }
            };
            let _ = opened.send(Ok(()));
            writer.bound(theirs.max_bytes.unwrap_or(u64::MAX));
            write(writer, theirs.max_bytes, &receiver, &their_state)
        })
        .map_err(|error| format!("cannot start the thread that writes the recording: {error}"))?;
        is_open.recv().map_err(|_| "the recording's thread died".to_owned())??;
        let writer = Mutex::new(Some(writer));
        Ok(TstSink { sender, writer, state, stopped: AtomicBool::new(false), job })
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
    max_bytes: Option<u64>,
    receiver: &Receiver<Message>,
    state: &State,
) -> Result<TstTotals, String> {
    let told = |error: TstError| error.to_string();
    let mut flushed = Instant::now();
    let mut full: Option<String> = None;
    loop {
        match receiver.recv_timeout(FLUSH_EVERY) {
            Ok(Message::Missing(what)) => writer.add_missing(&what),
            // What is missing is told before the end, which follows soon: the recorder ends the
            // recording as it hears that the file is full.
            Ok(Message::Ops(..) | Message::File(_) | Message::Site(..)) if full.is_some() => {}
            Ok(Message::Finish(_) | Message::Cut(_)) if full.is_some() => {
                return writer.finish_cut(&full.unwrap_or_default()).map_err(told);
            }
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
        if let Some(max_bytes) = max_bytes
            && full.is_none()
            && is_full(&mut writer, max_bytes).map_err(told)?
        {
            full = Some(reached(max_bytes));
            state.full.store(true, Ordering::Relaxed);
        }
        state.written_bytes.store(writer.written_bytes(), Ordering::Relaxed);
    }
}

/// Whether another message could make the file larger than it may be.
fn is_full(writer: &mut TstWriter, max_bytes: u64) -> Result<bool, TstError> {
    let has_room = |writer: &TstWriter| writer.most_bytes() + MOST_MESSAGE_BYTES <= max_bytes;
    if has_room(writer) {
        return Ok(false);
    }
    // How much less compression leaves is known when it is done.
    writer.flush()?;
    Ok(!has_room(writer))
}

/// How a recording ended that has the size that it may have.
pub fn reached(max_bytes: u64) -> String {
    format!("the largest size of {} was reached", Size::from_bytes(max_bytes))
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

    fn add_missing(&self, what: &str) {
        self.send(Message::Missing(what.to_owned()));
    }

    fn finish(&self, ended: &Ended) -> Value {
        self.send(Message::Finish(ended.clone()));
        let path = self.job.path.to_string_lossy();
        match self.wait() {
            Ok(totals) => {
                let size = std::fs::metadata(&self.job.path).map_or(0, |status| status.len());
                let full = self.state.full.load(Ordering::Relaxed);
                json!({
                    "kind": "tst", "path": path, "totals": totals, "file_bytes": size, "full": full,
                })
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
        self.stopped.load(Ordering::Relaxed) || self.state.full.load(Ordering::Relaxed)
    }

    fn progress(&self) -> Value {
        json!({"kind": "tst", "written_bytes": self.state.written_bytes.load(Ordering::Relaxed)})
    }
}
