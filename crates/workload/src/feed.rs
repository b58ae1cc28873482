//! A live workload: a program's threads push operations, and machines pull them.
//!
//! Every consumer sees every operation once. What is pushed is kept in chunks that consumers share;
//! a chunk is freed when the slowest has passed it. The producers' lead is bounded: over the bound
//! they wait, unless waiting could be for ever. Then they go on, and what exceeds the bound goes
//! to a file and is read back. So nothing ever waits in a cycle, whatever the order in which
//! machines pull and threads push.

use crate::op::{FileId, Op, OpKind, ThreadId};
use crate::site::{Site, SiteGrain, SiteId, SiteTable};
use crate::stream::{FileInfo, Pull, Stream, StreamError};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How a [`Feed`] buffers.
#[derive(Clone, Debug)]
pub struct FeedOptions {
    /// Operations held in memory for consumers that lag, in bytes; beyond it producers wait, or
    /// spill where waiting could be for ever.
    pub memory_bound_bytes: usize,
    /// Directory of the file that takes what must exceed the bound. The file has no name there
    /// once it is open, so that nothing is left behind.
    pub spill_dir: PathBuf,
    /// How long a consumer may starve, while no other makes progress, before the producers exceed
    /// the bound. It matters only where consumers share a host thread or one is never pulled.
    pub patience: Duration,
}

impl Default for FeedOptions {
    fn default() -> Self {
        FeedOptions {
            memory_bound_bytes: 256 << 20,
            spill_dir: std::env::temp_dir(),
            patience: Duration::from_millis(100),
        }
    }
}

/// What a [`Feed`] has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedStatistics {
    /// Operations pushed, arguments of calls included.
    pub pushed_ops: u64,
    /// Bytes held in memory now, those on their way to the file included.
    pub buffered_bytes: usize,
    /// The most that was held in memory.
    pub peak_buffered_bytes: usize,
    /// Bytes written to the file.
    pub spilled_bytes: u64,
}

/// The producers' side of a live workload. Any number of threads may push at once.
pub struct Feed {
    shared: Arc<Shared>,
    spiller: Option<JoinHandle<()>>,
}

/// The consumers' side: one machine's stream.
pub struct FeedStream {
    shared: Arc<Shared>,
    id: u64,
    cursors: BTreeMap<ThreadId, Cursor>,
}

/// Where a consumer stands in one thread.
#[derive(Clone, Default)]
struct Cursor {
    /// The chunk being read, and how far it has been.
    current: Option<(Arc<Vec<Op>>, usize)>,
    /// Index of the chunk after it.
    next_chunk: u64,
}

struct Shared {
    state: Mutex<State>,
    /// Something came that a consumer may wait for.
    data: Condvar,
    /// Something went that a producer may wait for.
    space: Condvar,
    /// Something came for the thread that writes the file.
    work: Condvar,
    options: FeedOptions,
}

#[derive(Default)]
struct State {
    queues: BTreeMap<ThreadId, Queue>,
    consumers: usize,
    next_consumer: u64,
    /// Consumers that wait for data, and the thread that they wait for.
    starving: BTreeMap<u64, ThreadId>,
    /// No chunk was freed while a consumer starved for as long as the patience.
    stalled: bool,
    freed_chunks: u64,
    end: End,
    /// Operations were lost: nobody can go on.
    failure: Option<String>,
    memory_bytes: usize,
    spill: Spill,
    statistics: FeedStatistics,
    files: Arc<Vec<FileInfo>>,
    sites: Arc<SiteTable>,
}

#[derive(Default, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    Closed,
    /// The same, but threads may have ended before what others wait for.
    ClosedEarly,
    Cut(String),
}

#[derive(Default)]
struct Queue {
    chunks: VecDeque<Chunk>,
    /// Index of the first of `chunks`.
    first_chunk: u64,
    ended: bool,
}

struct Chunk {
    place: Place,
    /// Consumers that have yet to take it.
    remaining: usize,
}

enum Place {
    Memory(Arc<Vec<Op>>),
    /// In memory until it is written.
    Spilling(Arc<Vec<Op>>),
    Spilled(Extent),
}

/// A piece of the file, in bytes.
#[derive(Clone, Copy)]
struct Extent {
    offset: u64,
    length: u64,
}

#[derive(Default)]
struct Spill {
    file: Option<Arc<File>>,
    /// Chunks to write: thread and index.
    queue: VecDeque<(ThreadId, u64)>,
    pending_bytes: usize,
    /// Free pieces below `end`, by offset.
    free: BTreeMap<u64, u64>,
    end: u64,
}

/// What [`FeedStream::next_chunk`] found.
enum Found {
    Chunk(Arc<Vec<Op>>),
    OnDisk(Arc<File>, Extent),
    End,
}

/// How long [`Stream::wait`] waits at most.
const LOOK_UP_EVERY: Duration = Duration::from_millis(200);
const OP_BYTES: usize = size_of::<Op>();
/// Bytes that may wait for the file before a producer waits for the disk.
const SPILL_BUFFER_BYTES: usize = 8 << 20;

impl Feed {
    /// A feed and one stream for each of `consumers`.
    ///
    /// Starts a thread that writes the file if need be. Streams read the file in the threads that
    /// pull them, which must share the creator's file descriptors.
    pub fn new(consumers: usize, options: FeedOptions) -> (Feed, Vec<FeedStream>) {
        let mut state = State { consumers, next_consumer: consumers as u64, ..Default::default() };
        state.queues.insert(0, Queue::default());
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            data: Condvar::new(),
            space: Condvar::new(),
            work: Condvar::new(),
            options,
        });
        let streams = (0..consumers as u64)
            .map(|id| FeedStream { shared: shared.clone(), id, cursors: BTreeMap::new() })
            .collect();
        let writer = shared.clone();
        let spiller = std::thread::Builder::new()
            .name("feed-spill".into())
            .spawn(move || writer.write_spilled_chunks())
            .map_err(|error| {
                shared.lock().failure =
                    Some(format!("cannot start the thread that sets operations aside: {error}"));
            })
            .ok();
        (Feed { shared, spiller }, streams)
    }

    /// Makes `thread` known, so that pulls on it wait for its operations even if it has none yet.
    pub fn register(&self, thread: ThreadId) {
        self.shared.lock().queues.entry(thread).or_default();
    }

    /// Appends operations of `thread`, whole calls only. Waits while the buffer is over its bound,
    /// unless that could be for ever.
    pub fn push(&self, thread: ThreadId, ops: Vec<Op>) {
        if ops.is_empty() {
            return;
        }
        let mut state = self.shared.wait_for_space(self.shared.lock());
        if state.consumers == 0 || state.end != End::Open || state.failure.is_some() {
            state.statistics.pushed_ops += ops.len() as u64;
            return;
        }
        state.append(thread, ops, self.shared.options.memory_bound_bytes);
        let spilling = !state.spill.queue.is_empty();
        drop(state);
        self.shared.data.notify_all();
        if spilling {
            self.shared.work.notify_all();
        }
    }

    /// `thread` has ended: after what it pushed comes the end.
    pub fn end(&self, thread: ThreadId) {
        self.shared.lock().queues.entry(thread).or_default().ended = true;
        self.shared.data.notify_all();
    }

    /// The program has ended: every thread has.
    pub fn close(&self) {
        self.finish(End::Closed);
    }

    /// The program has come to its end in the middle of what it did: every thread ends after what
    /// it pushed, and others may wait for more. See [`Stream::is_cut`].
    pub fn close_early(&self) {
        self.finish(End::ClosedEarly);
    }

    /// The program was cut off: after what was pushed, the threads that had not ended give the
    /// error [`StreamError::Cut`] with this reason.
    pub fn cut(&self, reason: &str) {
        self.finish(End::Cut(reason.to_owned()));
    }

    /// Adds a file that the program uses. Files are numbered in the order of the calls.
    pub fn add_file(&self, file: FileInfo) -> FileId {
        let mut state = self.shared.lock();
        let files = Arc::make_mut(&mut state.files);
        files.push(file);
        (files.len() - 1) as FileId
    }

    /// The program's operations tell their sites, so finely.
    pub fn tell_sites(&self, grain: SiteGrain) {
        Arc::make_mut(&mut self.shared.lock().sites).grain = Some(grain);
    }

    /// Says what is at a site, before any operation names it.
    pub fn add_site(&self, number: SiteId, site: Site) {
        Arc::make_mut(&mut self.shared.lock().sites).set(number, site);
    }

    /// What happened so far.
    pub fn statistics(&self) -> FeedStatistics {
        let state = self.shared.lock();
        FeedStatistics {
            buffered_bytes: state.memory_bytes + state.spill.pending_bytes,
            ..state.statistics
        }
    }

    /// Streams that still take operations.
    pub fn consumers(&self) -> usize {
        self.shared.lock().consumers
    }

    fn finish(&self, end: End) {
        let mut state = self.shared.lock();
        if state.end == End::Open {
            state.end = end;
        }
        drop(state);
        self.shared.wake_all();
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.cut("the program's feed went away before the program had ended");
        if let Some(spiller) = self.spiller.take() {
            // It ends by itself once the feed is closed and its queue is empty; its failures are
            // in the state already.
            let _ = spiller.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_all(&self) {
        self.data.notify_all();
        self.space.notify_all();
        self.work.notify_all();
    }

    fn wait_for_space<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while !state.may_push(self.options.memory_bound_bytes) {
            let freed_chunks = state.freed_chunks;
            let (next, waited) = self
                .space
                .wait_timeout(state, self.options.patience)
                .unwrap_or_else(PoisonError::into_inner);
            state = next;
            if waited.timed_out() && state.freed_chunks == freed_chunks {
                state.stalled = true;
            }
        }
        state
    }

    /// Body of the thread that writes the file.
    fn write_spilled_chunks(&self) {
        let mut state = self.lock();
        loop {
            if let Some((thread, index)) = state.spill.queue.pop_front() {
                let Some(ops) = state.spilling(thread, index) else { continue };
                let extent = state.spill.allocate((ops.len() * OP_BYTES) as u64);
                let file = state.spill.file.clone();
                drop(state);
                let written = file
                    .map_or_else(|| create_unnamed(&self.options.spill_dir).map(Arc::new), Ok)
                    .and_then(|file| {
                        file.write_all_at(&bytes_of(&ops), extent.offset).map(|()| file)
                    });
                state = self.lock();
                state.note_written(thread, index, &ops, extent, written, &self.options.spill_dir);
                self.wake_all();
            } else if state.end != End::Open || state.failure.is_some() {
                return;
            } else {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

impl State {
    /// Whether a producer may append now.
    fn may_push(&self, bound_bytes: usize) -> bool {
        if self.consumers == 0 || self.end != End::Open || self.failure.is_some() {
            return true;
        }
        // The disk takes what it is given or fails: waiting for it ends.
        if self.spill.pending_bytes > SPILL_BUFFER_BYTES {
            return false;
        }
        let within_bound = self.memory_bytes < bound_bytes;
        // With every consumer starving nobody else can make room. With some, others may, as long
        // as they are seen to.
        let nobody_else = self.starving.len() >= self.consumers;
        within_bound || nobody_else || (self.stalled && !self.starving.is_empty())
    }

    fn append(&mut self, thread: ThreadId, ops: Vec<Op>, bound_bytes: usize) {
        let bytes = ops.len() * OP_BYTES;
        let remaining = self.consumers;
        let within_bound = self.memory_bytes < bound_bytes;
        self.statistics.pushed_ops += ops.len() as u64;
        let queue = self.queues.entry(thread).or_default();
        let ops = Arc::new(ops);
        let place = if within_bound {
            self.memory_bytes += bytes;
            Place::Memory(ops)
        } else {
            self.spill.pending_bytes += bytes;
            let index = queue.first_chunk + queue.chunks.len() as u64;
            self.spill.queue.push_back((thread, index));
            Place::Spilling(ops)
        };
        queue.chunks.push_back(Chunk { place, remaining });
        let held = self.memory_bytes + self.spill.pending_bytes;
        self.statistics.peak_buffered_bytes = self.statistics.peak_buffered_bytes.max(held);
        self.starving.retain(|_, wanted| *wanted != thread);
    }

    /// The operations of a chunk that waits to be written, unless every consumer has passed it.
    fn spilling(&self, thread: ThreadId, index: u64) -> Option<Arc<Vec<Op>>> {
        match &self.chunk(thread, index)?.place {
            Place::Spilling(ops) => Some(ops.clone()),
            _ => None,
        }
    }

    fn chunk(&self, thread: ThreadId, index: u64) -> Option<&Chunk> {
        let queue = self.queues.get(&thread)?;
        queue.chunks.get(usize::try_from(index.checked_sub(queue.first_chunk)?).ok()?)
    }

    fn note_written(
        &mut self,
        thread: ThreadId,
        index: u64,
        ops: &[Op],
        extent: Extent,
        written: io::Result<Arc<File>>,
        directory: &Path,
    ) {
        match written {
            Err(error) => {
                self.failure = Some(format!(
                    "cannot write operations that machines have yet to take to a file in {}: \
                     {error}; free space there or choose another directory",
                    directory.display()
                ));
            }
            Ok(file) => {
                self.spill.file = Some(file);
                self.statistics.spilled_bytes += extent.length;
                let waits = self.spilling(thread, index).is_some();
                if let (true, Some(queue)) = (waits, self.queues.get_mut(&thread)) {
                    let place = (index - queue.first_chunk) as usize;
                    queue.chunks[place].place = Place::Spilled(extent);
                    self.spill.pending_bytes -= ops.len() * OP_BYTES;
                } else {
                    self.spill.release(extent);
                }
            }
        }
    }

    /// What a consumer that stands at chunk `index` of `thread` finds there; `None` where it has
    /// to wait.
    fn find(&self, thread: ThreadId, index: u64) -> Result<Option<Found>, StreamError> {
        if let Some(failure) = &self.failure {
            return Err(StreamError::Cut(failure.clone()));
        }
        if let Some(chunk) = self.chunk(thread, index) {
            return Ok(Some(match (&chunk.place, &self.spill.file) {
                (Place::Memory(ops) | Place::Spilling(ops), _) => Found::Chunk(ops.clone()),
                (Place::Spilled(extent), Some(file)) => Found::OnDisk(file.clone(), *extent),
                (Place::Spilled(_), None) => unreachable!("a spilled chunk has a file"),
            }));
        }
        if self.queues.get(&thread).is_some_and(|queue| queue.ended) {
            return Ok(Some(Found::End));
        }
        match &self.end {
            End::Open => Ok(None),
            End::Closed | End::ClosedEarly => Ok(Some(Found::End)),
            End::Cut(reason) => Err(StreamError::Cut(reason.clone())),
        }
    }

    /// A consumer has taken chunk `index` of `thread`.
    fn take(&mut self, thread: ThreadId, index: u64) {
        if let Some(queue) = self.queues.get_mut(&thread) {
            let place = (index - queue.first_chunk) as usize;
            queue.chunks[place].remaining -= 1;
        }
        self.free_passed(thread);
    }

    /// Frees the chunks of `thread` that no consumer has yet to take.
    fn free_passed(&mut self, thread: ThreadId) {
        let Some(queue) = self.queues.get_mut(&thread) else { return };
        while queue.chunks.front().is_some_and(|chunk| chunk.remaining == 0) {
            let Some(chunk) = queue.chunks.pop_front() else { return };
            queue.first_chunk += 1;
            self.freed_chunks += 1;
            self.stalled = false;
            match chunk.place {
                Place::Memory(ops) => self.memory_bytes -= ops.len() * OP_BYTES,
                Place::Spilling(ops) => self.spill.pending_bytes -= ops.len() * OP_BYTES,
                Place::Spilled(extent) => self.spill.release(extent),
            }
        }
    }

    /// Adds (`joins`) or removes a consumer at the places where `cursors` stand.
    fn change_consumers(&mut self, cursors: &BTreeMap<ThreadId, Cursor>, joins: bool) {
        self.consumers = if joins { self.consumers + 1 } else { self.consumers - 1 };
        let threads: Vec<ThreadId> = self.queues.keys().copied().collect();
        for thread in threads {
            let stands_at = cursors.get(&thread).map_or(0, |cursor| cursor.next_chunk);
            let Some(queue) = self.queues.get_mut(&thread) else { continue };
            let first = stands_at.saturating_sub(queue.first_chunk) as usize;
            for chunk in queue.chunks.iter_mut().skip(first) {
                chunk.remaining = if joins { chunk.remaining + 1 } else { chunk.remaining - 1 };
            }
            self.free_passed(thread);
        }
    }
}

impl Spill {
    /// The first free piece that is long enough, else a new one at the end.
    fn allocate(&mut self, length: u64) -> Extent {
        let fit = self.free.iter().find(|(_, free)| **free >= length).map(|(o, l)| (*o, *l));
        let Some((offset, free)) = fit else {
            let offset = self.end;
            self.end += length;
            return Extent { offset, length };
        };
        self.free.remove(&offset);
        if free > length {
            self.free.insert(offset + length, free - length);
        }
        Extent { offset, length }
    }

    /// Gives a piece back and joins it with its free neighbours.
    fn release(&mut self, extent: Extent) {
        let (mut offset, mut length) = (extent.offset, extent.length);
        if let Some(after) = self.free.remove(&(offset + length)) {
            length += after;
        }
        let before = self.free.range(..offset).next_back().map(|(o, l)| (*o, *l));
        if let Some((start, free)) = before.filter(|(start, free)| start + free == offset) {
            self.free.remove(&start);
            (offset, length) = (start, free + length);
        }
        if offset + length == self.end {
            self.end = offset;
        } else {
            self.free.insert(offset, length);
        }
    }
}

impl FeedStream {
    /// The next chunk of `thread`; waits until there is one. `None` at the thread's end.
    fn next_chunk(&mut self, thread: ThreadId) -> Result<Option<Arc<Vec<Op>>>, StreamError> {
        let index = self.cursors.entry(thread).or_default().next_chunk;
        let found = self.wait_for_chunk(thread, index)?;
        let ops = match found {
            Found::End => return Ok(None),
            Found::Chunk(ops) => ops,
            // The piece stays allocated until this consumer has taken the chunk.
            Found::OnDisk(file, extent) => Arc::new(read_ops(&file, extent)?),
        };
        self.shared.lock().take(thread, index);
        self.shared.space.notify_all();
        self.cursors.entry(thread).or_default().next_chunk = index + 1;
        Ok(Some(ops))
    }

    fn wait_for_chunk(&self, thread: ThreadId, index: u64) -> Result<Found, StreamError> {
        let mut state = self.shared.lock();
        loop {
            let found = state.find(thread, index);
            if !matches!(found, Ok(None)) {
                state.starving.remove(&self.id);
                return found.map(|found| found.unwrap_or(Found::End));
            }
            state.starving.insert(self.id, thread);
            self.shared.space.notify_all();
            state = self.shared.data.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Stream for FeedStream {
    fn tells_mappings(&self) -> bool {
        true
    }

    fn wait(&mut self, thread: ThreadId) -> bool {
        let cursor = self.cursors.entry(thread).or_default();
        if cursor.current.is_some() {
            return true;
        }
        let index = cursor.next_chunk;
        let mut state = self.shared.lock();
        if matches!(state.find(thread, index), Ok(None)) {
            state.starving.insert(self.id, thread);
            self.shared.space.notify_all();
            let unready = |state: &mut State| matches!(state.find(thread, index), Ok(None));
            let waited = self.shared.data.wait_timeout_while(state, LOOK_UP_EVERY, unready);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.starving.remove(&self.id);
        }
        !matches!(state.find(thread, index), Ok(None))
    }

    fn pull(
        &mut self,
        thread: ThreadId,
        limit: usize,
        out: &mut Vec<Op>,
    ) -> Result<Pull, StreamError> {
        let cursor = self.cursors.entry(thread).or_default();
        if cursor.current.is_none() {
            let Some(ops) = self.next_chunk(thread)? else { return Ok(Pull::End) };
            self.cursors.entry(thread).or_default().current = Some((ops, 0));
        }
        let cursor = self.cursors.entry(thread).or_default();
        if let Some((ops, done)) = &mut cursor.current {
            let rest = &ops[*done..];
            let taken = whole_operations(rest, limit);
            out.extend_from_slice(&rest[..taken]);
            *done += taken;
            if *done == ops.len() {
                cursor.current = None;
            }
        }
        Ok(Pull::More)
    }

    fn fork(&self) -> Box<dyn Stream> {
        let mut state = self.shared.lock();
        let id = state.next_consumer;
        state.next_consumer += 1;
        state.change_consumers(&self.cursors, true);
        drop(state);
        Box::new(FeedStream { shared: self.shared.clone(), id, cursors: self.cursors.clone() })
    }

    fn is_cut(&self) -> bool {
        matches!(self.shared.lock().end, End::ClosedEarly | End::Cut(_))
    }

    fn files(&self) -> Arc<Vec<FileInfo>> {
        self.shared.lock().files.clone()
    }

    fn sites(&self) -> Arc<SiteTable> {
        self.shared.lock().sites.clone()
    }
}

impl Drop for FeedStream {
    fn drop(&mut self) {
        self.shared.lock().change_consumers(&self.cursors, false);
        self.shared.wake_all();
    }
}

/// How many of `ops` to give out for a limit, so that no call is separated from its arguments.
pub(crate) fn whole_operations(ops: &[Op], limit: usize) -> usize {
    if ops.len() <= limit {
        return ops.len();
    }
    let mut taken = 0;
    while taken < limit.max(1) {
        let op = ops[taken];
        let arguments = if op.kind_code() == OpKind::Call as u8 { op.size() as usize } else { 0 };
        taken += 1 + arguments;
        if taken >= ops.len() {
            return ops.len();
        }
    }
    taken
}

fn bytes_of(ops: &[Op]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ops.len() * OP_BYTES);
    for op in ops {
        bytes.extend_from_slice(&op.word.to_le_bytes());
        bytes.extend_from_slice(&op.meta.to_le_bytes());
    }
    bytes
}

fn read_ops(file: &File, extent: Extent) -> Result<Vec<Op>, StreamError> {
    let mut bytes = vec![0; extent.length as usize];
    file.read_exact_at(&mut bytes, extent.offset).map_err(|error| {
        StreamError::Cut(format!(
            "cannot read back operations that were set aside on disk: {error}"
        ))
    })?;
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    Ok(bytes
        .chunks_exact(OP_BYTES)
        .map(|op| Op { word: word(&op[..8]), meta: word(&op[8..]) })
        .collect())
}

/// A new file in `directory` that no longer has a name, so that it goes with its last user.
fn create_unnamed(directory: &Path) -> io::Result<File> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!(".tierscope-feed-{}-{number}", std::process::id()));
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::stream_laws;
    use crate::op::Call;
    use proptest::prelude::*;
    use std::sync::mpsc;

    fn options(memory_bound_bytes: usize) -> FeedOptions {
        FeedOptions { memory_bound_bytes, ..FeedOptions::default() }
    }

    /// Operation `index` of `thread`: every 50th is a call with arguments.
    fn append_op(thread: ThreadId, index: u64, out: &mut Vec<Op>) {
        if index % 50 == 49 {
            Call::Map { address: index, length: 2, flags: 3, file: thread, offset: 5 }
                .encode(7, out);
        } else {
            out.push(Op::load(u64::from(thread) << 40 | index, 8, 3));
        }
    }

    fn sequence(thread: ThreadId, count: u64) -> Vec<Op> {
        let mut ops = Vec::new();
        (0..count).for_each(|index| append_op(thread, index, &mut ops));
        ops
    }

    fn push_in_chunks(feed: &Feed, thread: ThreadId, count: u64, chunk: u64) {
        let mut next = 0;
        while next < count {
            let mut ops = Vec::new();
            (next..count.min(next + chunk)).for_each(|i| append_op(thread, i, &mut ops));
            feed.push(thread, ops);
            next += chunk;
        }
        feed.end(thread);
    }

    fn drain(stream: &mut dyn Stream, thread: ThreadId, limit: usize) -> Vec<Op> {
        let mut out = Vec::new();
        while stream.pull(thread, limit, &mut out).unwrap() == Pull::More {}
        out
    }

    /// Pushes two threads, of which each waits for the other once.
    fn push_program(feed: &Feed) {
        for _ in 0..2 {
            feed.add_file(FileInfo { name: "a".into(), size_bytes: 1 });
        }
        let mut ops = [Vec::new(), Vec::new()];
        Call::Spawn { thread: 1 }.encode(1, &mut ops[0]);
        for (thread, ops) in (0..).zip(&mut ops) {
            Call::Signal { sequence: 1 }.encode(1, ops);
            ops.extend(sequence(thread, 900));
            Call::Wait { thread: 1 - thread, sequence: 1 }.encode(1, ops);
            ops.extend(sequence(thread, 100));
        }
        let mut rest = [&ops[0][..], &ops[1][..]];
        while rest.iter().any(|rest| !rest.is_empty()) {
            for (thread, rest) in (0..).zip(&mut rest) {
                let (piece, left) = rest.split_at(whole_operations(rest, 70));
                feed.push(thread, piece.to_vec());
                *rest = left;
            }
        }
        feed.close();
    }

    #[test]
    fn a_wait_ends_with_data_or_the_end_and_takes_nothing() {
        let (feed, mut streams) = Feed::new(1, FeedOptions::default());
        let stream = &mut streams[0];
        assert!(!stream.wait(0), "nothing has come");
        feed.push(0, vec![Op::compute(1), Op::compute(2)]);
        let mut out = Vec::new();
        for _ in 0..2 {
            assert!(stream.wait(0) && stream.wait(0));
            assert_eq!(stream.pull(0, 1, &mut out), Ok(Pull::More));
        }
        assert_eq!(out, [Op::compute(1), Op::compute(2)]);
        assert!(!stream.wait(0));
        feed.close();
        assert!(stream.wait(0));
        assert_eq!(stream.pull(0, 1, &mut out), Ok(Pull::End));
    }

    #[test]
    fn the_streams_laws_hold() {
        stream_laws(|| {
            let (feed, mut streams) = Feed::new(1, options(1 << 20));
            push_program(&feed);
            Box::new(streams.remove(0))
        });
    }

    /// The consumer starves on one thread while the other goes through the file, by turns.
    #[test]
    fn the_streams_laws_hold_while_the_program_runs_and_its_lead_spills() {
        stream_laws(|| {
            let patience = Duration::from_millis(1);
            let (feed, mut streams) = Feed::new(1, FeedOptions { patience, ..options(100 * 16) });
            std::thread::spawn(move || push_program(&feed));
            Box::new(streams.remove(0))
        });
    }

    /// Waits until the feed's thread has come as far as `done` says.
    fn wait_until(feed: &Feed, done: impl Fn(&State) -> bool) {
        while !done(&feed.shared.lock()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn every_consumer_sees_every_operation_in_order() {
        let (feed, mut streams) = Feed::new(3, options(1 << 12));
        std::thread::scope(|scope| {
            let feed = &feed;
            scope.spawn(move || push_in_chunks(feed, 0, 10_000, 100));
            for (index, stream) in streams.iter_mut().enumerate() {
                scope.spawn(move || {
                    assert_eq!(drain(stream, 0, 17 * (index + 1)), sequence(0, 10_000));
                });
            }
        });
        assert_eq!(feed.statistics().buffered_bytes, 0, "passed chunks are freed");
    }

    #[test]
    fn a_call_and_its_arguments_are_never_separated() {
        let (feed, mut streams) = Feed::new(1, options(1 << 20));
        push_in_chunks(&feed, 0, 200, 1000);
        loop {
            let mut out = Vec::new();
            if streams[0].pull(0, 1, &mut out).unwrap() == Pull::End {
                break;
            }
            let call = out[0].kind() == Some(OpKind::Call);
            assert_eq!(out.len(), if call { 4 } else { 1 });
        }
    }

    #[test]
    fn a_producer_that_leads_by_the_bound_waits_for_a_slow_consumer() {
        let (feed, mut streams) = Feed::new(1, options(100 * 16));
        let (sent, received) = mpsc::channel();
        std::thread::scope(|scope| {
            let feed = &feed;
            scope.spawn(move || {
                for index in 0..20 {
                    feed.push(0, vec![Op::load(index, 8, 1); 50]);
                    sent.send(index).unwrap();
                }
                feed.close();
            });
            assert_eq!(received.recv().unwrap(), 0);
            assert_eq!(received.recv().unwrap(), 1);
            assert!(
                received.recv_timeout(Duration::from_millis(300)).is_err(),
                "the bound is reached and the consumer does not starve"
            );
            assert_eq!(drain(&mut streams[0], 0, 8).len(), 1000);
        });
        assert_eq!(feed.statistics().spilled_bytes, 0);
    }

    /// Thread 1 leads by far while the consumer wants thread 0: the classic cycle.
    #[test]
    fn two_threads_that_wait_for_each_other_through_the_bound_go_on() {
        let (feed, mut streams) = Feed::new(1, options(64 * 16));
        let (go, may_go) = mpsc::channel();
        std::thread::scope(|scope| {
            let feed = &feed;
            // Thread 0 pushes nothing before thread 1 has pushed far more than the bound.
            scope.spawn(move || {
                may_go.recv().unwrap();
                push_in_chunks(feed, 0, 1000, 10);
            });
            scope.spawn(move || {
                push_in_chunks(feed, 1, 5000, 10);
                wait_until(feed, |state| state.spill.pending_bytes == 0);
                go.send(()).unwrap();
            });
            let stream = &mut streams[0];
            assert_eq!(drain(stream, 0, 100), sequence(0, 1000));
            assert_eq!(drain(stream, 1, 100), sequence(1, 5000));
        });
        let statistics = feed.statistics();
        assert!(statistics.spilled_bytes > 0, "the excess went to the file");
        assert!(statistics.peak_buffered_bytes < SPILL_BUFFER_BYTES + (1 << 16));
        assert_eq!(statistics.buffered_bytes, 0);
    }

    #[test]
    fn what_was_spilled_reads_back_identically_for_every_consumer() {
        let (feed, mut streams) = Feed::new(2, options(0));
        std::thread::scope(|scope| {
            let feed = &feed;
            let (first, second) = streams.split_at_mut(1);
            scope.spawn(move || {
                push_in_chunks(feed, 1, 60_000, 512);
                wait_until(feed, |state| state.spill.pending_bytes == 0);
                push_in_chunks(feed, 0, 10, 10);
            });
            scope.spawn(move || {
                // Both starve on thread 0, so that all of thread 1 goes through the file.
                assert_eq!(drain(&mut first[0], 0, 3), sequence(0, 10));
                assert_eq!(drain(&mut first[0], 1, 1000), sequence(1, 60_000));
            });
            assert_eq!(drain(&mut second[0], 0, 4), sequence(0, 10));
            assert_eq!(drain(&mut second[0], 1, 77), sequence(1, 60_000));
        });
        // How much depends on how soon the consumers starve.
        assert!(feed.statistics().spilled_bytes > 0);
        // Every piece of the file comes back, that of a chunk taken while it was written included.
        wait_until(&feed, |state| state.spill.end == 0 && state.spill.free.is_empty());
    }

    #[test]
    fn a_stream_that_is_never_pulled_does_not_stop_the_others() {
        let (feed, mut streams) =
            Feed::new(2, FeedOptions { patience: Duration::from_millis(5), ..options(1600) });
        std::thread::scope(|scope| {
            let feed = &feed;
            scope.spawn(move || push_in_chunks(feed, 0, 5000, 50));
            assert_eq!(drain(&mut streams[0], 0, 50), sequence(0, 5000));
        });
        assert_eq!(drain(&mut streams[1], 0, 50), sequence(0, 5000));
    }

    #[test]
    fn a_fork_goes_on_where_its_stream_stood() {
        let (feed, mut streams) = Feed::new(1, options(160));
        let mut before = Vec::new();
        std::thread::scope(|scope| {
            let feed = &feed;
            scope.spawn(move || push_in_chunks(feed, 0, 3000, 70));
            while before.len() < 1234 {
                streams[0].pull(0, 9, &mut before).unwrap();
            }
            let mut fork = streams[0].fork();
            let mut of_fork = before.clone();
            let after = scope.spawn(move || {
                of_fork.extend(drain(fork.as_mut(), 0, 31));
                of_fork
            });
            before.extend(drain(&mut streams[0], 0, 100));
            assert_eq!(after.join().unwrap(), before);
        });
        assert_eq!(before, sequence(0, 3000));
        assert_eq!(feed.statistics().buffered_bytes, 0);
    }

    #[test]
    fn a_consumer_that_is_dropped_no_longer_counts() {
        let (feed, mut streams) = Feed::new(2, options(160));
        streams.pop();
        std::thread::scope(|scope| {
            let feed = &feed;
            scope.spawn(move || push_in_chunks(feed, 0, 3000, 70));
            assert_eq!(drain(&mut streams[0], 0, 100).len(), sequence(0, 3000).len());
        });
        streams.pop();
        feed.push(1, sequence(1, 100_000));
        assert_eq!(feed.statistics().buffered_bytes, 0, "nobody is left to keep it for");
    }

    #[test]
    fn a_pull_on_a_thread_that_is_not_known_yet_waits_until_it_is() {
        let (feed, mut streams) = Feed::new(1, options(1600));
        std::thread::scope(|scope| {
            let feed = &feed;
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                push_in_chunks(feed, 5, 10, 10);
                std::thread::sleep(Duration::from_millis(20));
                feed.close();
            });
            assert_eq!(drain(&mut streams[0], 5, 100), sequence(5, 10));
            assert!(drain(&mut streams[0], 6, 100).is_empty(), "closed: it never will be");
        });
    }

    #[test]
    fn a_cut_feed_gives_what_was_pushed_and_then_the_reason() {
        let (feed, mut streams) = Feed::new(1, options(1600));
        feed.push(0, sequence(0, 10));
        feed.push(1, sequence(1, 10));
        feed.end(1);
        feed.cut("killed by signal 9");
        feed.close();
        let mut out = Vec::new();
        assert_eq!(streams[0].pull(0, 100, &mut out), Ok(Pull::More));
        let reason = StreamError::Cut("killed by signal 9".into());
        assert_eq!(streams[0].pull(0, 100, &mut out), Err(reason));
        assert_eq!(drain(&mut streams[0], 1, 100), sequence(1, 10), "thread 1 had ended");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_and_not_a_hang() {
        let options = FeedOptions { spill_dir: "/nonexistent/nowhere".into(), ..options(0) };
        let (feed, mut streams) = Feed::new(1, options);
        std::thread::scope(|scope| {
            let feed = &feed;
            scope.spawn(move || (0..100).for_each(|_| feed.push(1, sequence(1, 10_000))));
            let Err(StreamError::Cut(message)) = streams[0].pull(0, 1, &mut Vec::new()) else {
                panic!("the pull must fail");
            };
            assert!(message.contains("/nonexistent/nowhere"), "{message}");
            assert!(message.contains("No such file"), "{message}");
        });
    }

    #[test]
    fn many_threads_and_machines_end_whatever_their_order() {
        let threads = 12;
        let (feed, mut streams) = Feed::new(3, options(4096));
        std::thread::scope(|scope| {
            let feed = &feed;
            for thread in 0..threads {
                let count = 3000 + 100 * u64::from(thread);
                scope.spawn(move || push_in_chunks(feed, thread, count, 40));
            }
            for (index, stream) in streams.iter_mut().enumerate() {
                scope.spawn(move || {
                    // One forwards, one backwards, one a piece of each in turn.
                    let order: Vec<_> = (0..threads).collect();
                    if index == 2 {
                        let mut seen = vec![Vec::new(); threads as usize];
                        let mut open: Vec<_> = order;
                        while !open.is_empty() {
                            open.retain(|thread| {
                                let out = &mut seen[*thread as usize];
                                stream.pull(*thread, 60, out).unwrap() == Pull::More
                            });
                        }
                        for (thread, ops) in seen.into_iter().enumerate() {
                            assert_eq!(ops, sequence(thread as u32, 3000 + 100 * thread as u64));
                        }
                    } else {
                        for place in 0..threads {
                            let thread = if index == 0 { place } else { threads - 1 - place };
                            let count = 3000 + 100 * u64::from(thread);
                            assert_eq!(drain(stream, thread, 64), sequence(thread, count));
                        }
                    }
                });
            }
        });
        assert_eq!(feed.statistics().buffered_bytes, 0);
    }

    #[test]
    fn files_are_numbered_in_order_and_seen_by_every_stream() {
        let (feed, streams) = Feed::new(2, options(1));
        let file = |name: &str| FileInfo { name: name.into(), size_bytes: 5 };
        assert_eq!(feed.add_file(file("a")), 0);
        let early = streams[0].files();
        assert_eq!(feed.add_file(file("b")), 1);
        assert_eq!(early.len(), 1);
        assert_eq!(*streams[1].files(), vec![file("a"), file("b")]);
    }

    proptest! {
        /// Pieces never overlap, and the file is empty once all came back.
        #[test]
        fn pieces_of_the_file_never_overlap(
            steps in prop::collection::vec((0u64..100, any::<prop::sample::Index>(), any::<bool>()), 1..80)
        ) {
            let mut spill = Spill::default();
            let mut held: Vec<Extent> = Vec::new();
            for (length, index, release) in steps {
                if release && !held.is_empty() {
                    let extent = held.swap_remove(index.index(held.len()));
                    spill.release(extent);
                } else {
                    let new = spill.allocate(length + 1);
                    for old in &held {
                        let apart = new.offset + new.length <= old.offset
                            || old.offset + old.length <= new.offset;
                        prop_assert!(apart);
                    }
                    held.push(new);
                }
            }
            held.into_iter().for_each(|extent| spill.release(extent));
            prop_assert_eq!((spill.end, spill.free.len()), (0, 0));
        }
    }
}
