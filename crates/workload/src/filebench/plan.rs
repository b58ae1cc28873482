//! From a model to the operations of threads: as though threads took turns, each up to an operation that may
//! wait. Which file a thread takes depends on what others did before; so the turns are fixed, and no
//! machine's time changes them.

use super::state::{DESCRIPTORS, Done, File, Open, Set, ThreadState};
use super::{Flowop, Kind, Mode, Model, Refusal, Variable};
use crate::generator::PAGE_BYTES;
use crate::generator::prelude::{BASE_ADDRESS, Prelude, REGION_BEGINS, length_of};
use crate::op::{Call, FileId, MAP_WRITABLE, NO_FILE, Op, ThreadId};
use crate::stream::{FileInfo, Footprint, Pull, Stream, StreamError};
use std::collections::VecDeque;
use std::sync::Arc;

/// How a model is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seed of sizes, places and of which files are there at first.
    pub seed: u64,
    /// How often each thread does its operations; 0 is for ever.
    pub loops: u64,
    /// Instructions of the program between two calls.
    pub instructions: u32,
    /// Whether each thread first fills its memory, as Filebench does, before the region of interest.
    pub touched: bool,
}

/// Numbers of system calls (Linux, x86-64).
/// Bytes of a name of 8 characters that a call returns (`struct linux_dirent64`, in whole words).
const LISTED_BYTES: u64 = 32;
/// Instructions of a turn of `hog`: a store and the loop around it.
const HOG_INSTRUCTIONS: u64 = 3;
const PICOSECONDS_PER_SECOND: f64 = 1e12;
/// What an event of a limit of bandwidth stands for.
const LIMIT_BYTES: u64 = 1 << 20;
/// Most bytes of all files, and calls that a whole file is read or written by.
const MOST_BYTES: f64 = (1u64 << 60) as f64;
const MOST_CALLS: u64 = 1 << 20;
/// Turns within which every thread has something to do.
const MOST_TURNS: u32 = 1 << 14;
/// Memory of a thread that has none of its own, if no transfer needs more.
const LEAST_BUFFER_BYTES: u64 = 1 << 20;
/// Counts of an operation: their bytes (a line), operations that have some, instructions of a count.
const COUNT_BYTES: u64 = 64;
const COUNTED: u64 = PAGE_BYTES / COUNT_BYTES;
const COUNT_INSTRUCTIONS: u32 = 20;
/// Distance of the threads' memory.
const MEMORY_STRIDE: u64 = 1 << 36;

/// The stream of a model; `parameter` is the one that its footprint follows from. Errors say what it
/// needs that does not exist.
pub fn stream(
    model: Arc<Model>,
    options: Options,
    parameter: &'static str,
) -> Result<Box<dyn Stream>, Refusal> {
    let mut sets = Vec::new();
    let mut files: u64 = 0;
    for spec in &model.filesets {
        let first = FileId::try_from(files).ok().filter(|first| *first < NO_FILE);
        let first = first.ok_or_else(|| {
            Refusal::Files("the sets have more files than 2^32 - 1 in all".into())
        })?;
        sets.push(Set::new(spec, first, options.seed));
        files += u64::from(spec.entries);
    }
    if sets.iter().map(|set| set.nominal().map(|bytes| bytes as f64).sum::<f64>()).sum::<f64>()
        > MOST_BYTES
    {
        return Err(Refusal::Sizes("its files are above 1 EiB in all".into()));
    }
    if files > 1 << 20 {
        let what = format!("the sets have {files} files; 2^20 are the most");
        return Err(Refusal::Files(what));
    }
    let largest = sets.iter().flat_map(Set::nominal).max().unwrap_or(0);
    let whole =
        |flowop: &&Flowop| matches!(flowop.kind, Kind::ReadWholeFile | Kind::WriteWholeFile);
    for flowop in model.threads.iter().flat_map(|thread| &thread.flowops).filter(whole) {
        let largest = flowop.fileset.map_or(largest, |set| sets[set].nominal().max().unwrap_or(0));
        let largest = largest.max(flowop.working_set_bytes.unwrap_or(0));
        let io = flowop.io_bytes.as_ref().and_then(Variable::as_constant).unwrap_or(0.0) as u64;
        if io > 0 && largest / io > MOST_CALLS {
            let name = &flowop.name;
            return Err(Refusal::Calls(format!(
                "{name} takes {} calls for a file of {largest} bytes; 2^20 are the most",
                largest / io
            )));
        }
    }
    let info = model.filesets.iter().zip(&sets).flat_map(|(spec, set)| {
        let file = |entry| FileInfo {
            name: format!("{}/{entry:08}", spec.name),
            size_bytes: set.size_bytes(entry),
        };
        (0..spec.entries).map(file)
    });
    let directory = |spec: &super::Fileset| FileInfo {
        name: format!("{}/directory/", spec.name),
        size_bytes: 0,
    };
    let makes = |flowop: &Flowop| matches!(flowop.kind, Kind::MakeDir | Kind::RemoveDir);
    let has_directories = model.threads.iter().any(|thread| thread.flowops.iter().any(makes));
    let directories = model.filesets.iter().filter(|_| has_directories).map(directory);
    let info = info.chain(directories);
    let buffers: Vec<u64> = model
        .threads
        .iter()
        .map(|thread| buffer_bytes(&thread.flowops, thread.memory_bytes, &sets))
        .collect();
    if buffers.iter().any(|bytes| *bytes > MEMORY_STRIDE / 2) {
        let most = MEMORY_STRIDE >> 31;
        return Err(Refusal::Memory(format!("a thread's memory or transfer is above {most} GiB")));
    }
    let mut prelude = Prelude::default();
    for (thread, bytes) in buffers.iter().enumerate() {
        let address = memory_of(thread);
        prelude = prelude.map(address, bytes + PAGE_BYTES, MAP_WRITABLE, NO_FILE);
        prelude = prelude.touch(address, *bytes, options.touched);
    }
    let limits = |flowop: &Flowop| flowop.kind.is_limit();
    let limited = model.threads.iter().any(|thread| thread.flowops.iter().any(limits));
    let event_ps = model
        .event_rate
        .filter(|rate| limited && *rate > 0.0)
        .map(|rate| (PICOSECONDS_PER_SECOND / rate) as u64);
    let threads = model.threads.len() + usize::from(event_ps.is_some());
    // Behind each thread's memory is a page of counts.
    let memory: u64 = buffers.iter().map(|bytes| bytes + PAGE_BYTES).sum();
    let footprint = memory + sets.iter().map(Set::bytes).sum::<u64>();
    Ok(Box::new(FilebenchStream {
        prelude: prelude.finish(threads as u32),
        footprint: Footprint { bytes: footprint, parameter },
        files: Arc::new(info.collect()),
        states: (model.threads.iter().enumerate())
            .map(|(number, thread)| ThreadState::new(thread.flowops.len(), options.seed, number))
            .collect(),
        queues: vec![VecDeque::new(); model.threads.len()],
        buffers: Arc::new(buffers),
        sets,
        event_ps,
        events: 0,
        sent: 0,
        ended: false,
        early: None,
        parameter,
        all: Done::default(),
        made: Vec::new(),
        model,
        options,
    }))
}

fn memory_of(thread: usize) -> u64 {
    BASE_ADDRESS + thread as u64 * MEMORY_STRIDE
}

/// Memory that a thread's transfers need.
fn buffer_bytes(flowops: &[Flowop], memory_bytes: u64, sets: &[Set]) -> u64 {
    if memory_bytes > 0 {
        return memory_bytes.next_multiple_of(PAGE_BYTES);
    }
    let largest = sets.iter().map(|set| set.bytes()).max().unwrap_or(0);
    let most = |flowop: &Flowop| match &flowop.io_bytes {
        Some(size) => size.as_constant().map_or(LEAST_BUFFER_BYTES, |bytes| bytes as u64),
        None => largest.min(MEMORY_STRIDE / 2),
    };
    let data = flowops.iter().filter(|flowop| flowop.kind.moves_data());
    data.map(most).fold(LEAST_BUFFER_BYTES, u64::max).next_multiple_of(PAGE_BYTES)
}

#[derive(Clone)]
struct FilebenchStream {
    model: Arc<Model>,
    options: Options,
    prelude: Prelude,
    footprint: Footprint,
    files: Arc<Vec<FileInfo>>,
    buffers: Arc<Vec<u64>>,
    sets: Vec<Set>,
    states: Vec<ThreadState>,
    /// What threads have not taken yet.
    queues: Vec<VecDeque<Op>>,
    /// The time of an event, and how many threads wait for in all, and were sent.
    event_ps: Option<u64>,
    events: u64,
    sent: u64,
    /// Whether the whole run has ended.
    ended: bool,
    /// Why it did before its time.
    early: Option<String>,
    /// What the number of files follows from.
    parameter: &'static str,
    /// Done by all threads.
    all: Done,
    made: Vec<Op>,
}

/// How an operation ends for its thread.
#[derive(PartialEq)]
enum End {
    Done,
    /// There is no such file (`FILEBENCH_NORSC`).
    NoFile,
    /// It cannot be (`FILEBENCH_ERROR`).
    Failed(&'static str),
    /// The run has done what it was to do (`FILEBENCH_DONE`).
    Finished,
}

impl FilebenchStream {
    /// A turn of every thread: up to an operation that may wait, of as many as it has at most.
    fn turn(&mut self) {
        let model = self.model.clone();
        for (thread, of) in model.threads.iter().enumerate() {
            for _ in 0..of.flowops.len() {
                let state = &self.states[thread];
                let kind = of.flowops[state.next].kind;
                if state.ended || self.ended {
                    break;
                }
                self.step(thread);
                if kind.may_wait() {
                    break;
                }
            }
        }
    }

    /// One operation of a thread.
    fn step(&mut self, thread: usize) {
        let model = self.model.clone();
        let flowops = &model.threads[thread].flowops;
        let number = self.states[thread].next;
        let flowop = &flowops[number];
        let state = &mut self.states[thread];
        if state.iterations == 0 {
            state.iterations = flowop.iterations.draw_whole(&mut state.random);
        }
        let end =
            if state.iterations > 0 { self.operate(thread, number, flowop) } else { End::Done };
        self.queues[thread].extend(self.made.drain(..));
        let state = &mut self.states[thread];
        if end != End::Done {
            state.ended = true;
            self.end(thread, flowop, &end);
            return;
        }
        state.iterations = state.iterations.saturating_sub(1);
        if state.iterations == 0 {
            state.next = (number + 1) % flowops.len();
            state.loops += u64::from(state.next == 0);
            state.ended = state.next == 0 && state.loops == self.options.loops;
        }
    }

    /// What the end of a thread is for the run, as of `flowop_start` (`flowop.c`).
    fn end(&mut self, thread: usize, flowop: &Flowop, end: &End) {
        let mode = self.model.mode;
        self.ended |= *end != End::NoFile || mode != Mode::AllDone;
        let Flowop { name, kind, fileset, .. } = flowop;
        let why = match (end, fileset) {
            (End::Failed(why), _) => format!("{name} of thread {thread} failed: {why}"),
            (End::NoFile, Some(set)) if mode == Mode::Timeout => {
                let set = &self.model.filesets[*set];
                let lacking = match kind {
                    Kind::CreateFile => "to create: all are there",
                    _ => "that is there",
                };
                let empty = set.preallocated_percent == 0.0 && *kind != Kind::CreateFile;
                let mend = match self.parameter {
                    _ if empty => format!("let {} have files at the start (prealloc)", set.name),
                    "files" => "set more workload.files, or fewer workload.threads".to_owned(),
                    _ => format!("give {} more entries, or let fewer threads take them", set.name),
                };
                format!(
                    "{name} of thread {thread} found none of the {} files of {} {lacking}; {mend}",
                    set.entries, set.name
                )
            }
            _ => return,
        };
        self.early = Some(format!("the workload stopped early, as Filebench does: {why}"));
    }

    fn operate(&mut self, thread: usize, number: usize, flowop: &Flowop) -> End {
        use Kind::*;
        let before = self.states[thread].done[number].bytes;
        let counts = self.counts(thread, number, flowop.kind);
        let end = match flowop.kind {
            OpenFile => self.open(thread, flowop, true).map_or(End::NoFile, |_| End::Done),
            CreateFile => self.open(thread, flowop, false).map_or(End::NoFile, |_| End::Done),
            CloseFile => self.close(thread, flowop),
            DeleteFile => self.delete(thread, flowop),
            StatFile => self.stat(thread, flowop),
            Fsync => self.fsync(thread, flowop),
            FsyncSet => self.fsync_set(thread, flowop),
            // Each set has a directory that is made and removed; its files are in the topmost, which is listed.
            MakeDir | RemoveDir => {
                let files = self.sets.last().map_or(0, |set| set.file(set.entries()));
                let file = files + flowop.fileset.unwrap_or(0) as FileId;
                self.call(match flowop.kind {
                    MakeDir => Call::MakeDirectory { file, parent: NO_FILE },
                    _ => Call::RemoveDirectory { file },
                })
            }
            ListDir => {
                let names = flowop.fileset.map_or(0, |set| self.sets[set].count());
                self.call(Call::ReadDirectory { file: NO_FILE, length: LISTED_BYTES * names })
            }
            Hog => self.hog(thread, flowop),
            Delay => {
                let seconds = self.value(thread, flowop);
                self.call(Call::Sleep { duration_ps: (seconds * PICOSECONDS_PER_SECOND) as u64 })
            }
            EventLimit => self.wait_for_events(thread, 1),
            OpsLimit | IopsLimit | BwLimit => self.limit(thread, number, flowop),
            FinishOnCount | FinishOnBytes => self.finish(thread, flowop),
            _ => self.transfer(thread, number, flowop),
        };
        if end == End::Done && counts {
            let moves = u64::from(flowop.kind.moves_data());
            let done = &mut self.states[thread].done[number];
            done.operations += 1;
            done.moves += moves;
            self.all.operations += 1;
            self.all.moves += moves;
            self.all.bytes += done.bytes - before;
            // What the program counts of it, in a page behind the thread's memory.
            let at =
                memory_of(thread) + self.buffers[thread] + number as u64 % COUNTED * COUNT_BYTES;
            self.made.push(Op::load(at, 8, COUNT_INSTRUCTIONS));
            self.made.push(Op::store(at, 8, 1));
        }
        end
    }

    /// Whether an operation counts as one: all do but composites, ends and limits among them, as the program asks
    /// for a bit that the types of these have as well (`fo_type & FLOW_TYPE_IO`, flowop.c, `flowop_endop`);
    /// limits do where there are events, but for the first time that they ask.
    fn counts(&self, thread: usize, number: usize, kind: Kind) -> bool {
        let (last, _) = self.states[thread].limits[number];
        !kind.is_limit() || self.event_ps.is_some() && (kind == Kind::EventLimit || last > 0)
    }

    fn call(&mut self, call: Call) -> End {
        call.encode(self.options.instructions, &mut self.made);
        End::Done
    }

    fn value(&mut self, thread: usize, flowop: &Flowop) -> f64 {
        let random = &mut self.states[thread].random;
        flowop.value.as_ref().map_or(0.0, |value| value.draw(random))
    }

    // ---- Files -----------------------------------------------------------------------------------

    /// Opens the next file of the set that is there, or makes the next one that is not.
    fn open(&mut self, thread: usize, flowop: &Flowop, there: bool) -> Option<File> {
        let set = flowop.fileset?;
        let descriptor = self.states[thread].descriptor(flowop);
        // A descriptor that rotates round to an open one closes that, as nothing else would.
        self.close_descriptor(thread, descriptor);
        let entry = self.sets[set].pick(there)?;
        if !there {
            self.sets[set].create(entry);
        }
        let file = File { set, entry };
        let (id, size) = (self.sets[set].file(entry), self.sets[set].size_bytes(entry));
        *self.sets[set].openers(entry) += 1;
        *self.states[thread].open(descriptor) = Some(Open { file, position: 0 });
        self.call(Call::Open { file: id, size });
        Some(file)
    }

    fn close(&mut self, thread: usize, flowop: &Flowop) -> End {
        let descriptor = self.states[thread].descriptor(flowop);
        self.close_descriptor(thread, descriptor);
        End::Done
    }

    fn close_descriptor(&mut self, thread: usize, descriptor: usize) {
        if let Some(open) = self.states[thread].open(descriptor).take() {
            let set = &mut self.sets[open.file.set];
            *set.openers(open.file.entry) -= 1;
            let file = set.file(open.file.entry);
            self.call(Call::Close { file });
        }
    }

    /// Deletes the file of a descriptor, or the next one, unless another has it open.
    fn delete(&mut self, thread: usize, flowop: &Flowop) -> End {
        let descriptor = self.states[thread].descriptor(flowop);
        let mine = if descriptor > 0 { *self.states[thread].open(descriptor) } else { None };
        let file = match (mine, flowop.fileset) {
            (Some(open), _) => open.file,
            (None, Some(set)) => match self.sets[set].pick(true) {
                Some(entry) => File { set, entry },
                None => return End::NoFile,
            },
            (None, None) => {
                return End::Failed("it has neither an open file nor a set; name a set");
            }
        };
        let set = &mut self.sets[file.set];
        if *set.openers(file.entry) > u32::from(mine.is_some()) {
            return End::Done;
        }
        let id = set.file(file.entry);
        set.delete(file.entry);
        if mine.is_some() {
            *set.openers(file.entry) -= 1;
            *self.states[thread].open(descriptor) = None;
        }
        self.call(Call::Truncate { file: id, length: 0 });
        self.call(Call::Unlink { file: id, size: 0 })
    }

    fn stat(&mut self, thread: usize, flowop: &Flowop) -> End {
        let descriptor = self.states[thread].descriptor(flowop);
        let open =
            if descriptor > 0 { self.states[thread].open(descriptor).as_ref() } else { None };
        let file = match (open.map(|open| open.file), flowop.fileset) {
            (Some(file), _) => file,
            (None, Some(set)) => match self.sets[set].pick(true) {
                Some(entry) => File { set, entry },
                None => return End::NoFile,
            },
            (None, None) => return End::NoFile,
        };
        let set = &self.sets[file.set];
        let (id, size) = (set.file(file.entry), set.size_bytes(file.entry));
        // By its name (`FB_STAT`), whether it is open or not.
        self.call(Call::Exists { file: id, parent: NO_FILE, size, directory: 0 });
        self.call(Call::Stat { file: id })
    }

    fn fsync(&mut self, thread: usize, flowop: &Flowop) -> End {
        let descriptor = self.states[thread].descriptor(flowop);
        match *self.states[thread].open(descriptor) {
            Some(Open { file, .. }) => {
                let file = self.sets[file.set].file(file.entry);
                self.call(Call::Sync { file })
            }
            None => End::Failed("it forces a file that is not open; open one before"),
        }
    }

    fn fsync_set(&mut self, thread: usize, flowop: &Flowop) -> End {
        let open: Vec<File> = self.states[thread].all_open().map(|open| open.file).collect();
        for file in open.into_iter().filter(|file| Some(file.set) == flowop.fileset) {
            let file = self.sets[file.set].file(file.entry);
            self.call(Call::Sync { file });
        }
        End::Done
    }

    // ---- Data ------------------------------------------------------------------------------------

    fn transfer(&mut self, thread: usize, number: usize, flowop: &Flowop) -> End {
        let state = &mut self.states[thread];
        let drawn = flowop.io_bytes.as_ref().map_or(0, |size| size.draw_whole(&mut state.random));
        // A random append is of 0 to so many bytes less one, as of `fb_random64`.
        let append = flowop.kind == Kind::AppendFileRand;
        let io_bytes = if append { state.random.below(drawn.max(1)) } else { drawn };
        if append && io_bytes == 0 {
            return End::Done;
        }
        let descriptor = state.descriptor(flowop);
        if state.open(descriptor).is_none() {
            let at = Flowop { descriptor, rotates: false, ..flowop.clone() };
            if self.open(thread, &at, true).is_none() {
                return End::NoFile;
            }
        }
        let Some(Open { file, position }) = *self.states[thread].open(descriptor) else {
            return End::NoFile;
        };
        let set = &self.sets[file.set];
        let (size, nominal) = (set.size_bytes(file.entry), set.nominal_bytes(file.entry));
        let working_set = flowop.working_set_bytes.filter(|bytes| *bytes > 0).unwrap_or(nominal);
        let at_once = if io_bytes == 0 { working_set } else { io_bytes };
        let at_once = at_once
            .max(size.max(nominal).max(working_set) / MOST_CALLS)
            .clamp(1, self.buffers[thread]);
        let moved = match flowop.kind {
            Kind::ReadWholeFile => {
                let mut offset = 0;
                // The call that finds the end as well.
                while offset <= size {
                    self.read(thread, file, offset, at_once);
                    offset += at_once;
                    if offset > size && offset - at_once < size {
                        self.read(thread, file, size, at_once);
                    }
                }
                self.moves_to(thread, descriptor, size);
                size
            }
            Kind::WriteWholeFile => {
                let source = match flowop.source {
                    0 => None,
                    source => *self.states[thread].open(source),
                };
                let whole = source.map_or(working_set, |Open { file, .. }| {
                    self.sets[file.set].nominal_bytes(file.entry)
                });
                // Filebench writes the last piece as large as the others.
                let piece = at_once.min(whole).max(1);
                let pieces = whole.div_ceil(piece);
                for i in 0..pieces {
                    self.write(thread, file, position + i * piece, piece, flowop.synchronous);
                }
                self.moves_to(thread, descriptor, position + pieces * piece);
                pieces * piece
            }
            Kind::AppendFile | Kind::AppendFileRand => {
                self.write(thread, file, size, at_once, flowop.synchronous);
                self.moves_to(thread, descriptor, size + at_once);
                at_once
            }
            Kind::Read if flowop.random => {
                let offset = self.random_offset(thread, working_set, at_once);
                self.read(thread, file, offset, at_once);
                at_once
            }
            Kind::Read => {
                self.read(thread, file, position, at_once);
                let end = position + at_once.min(size.saturating_sub(position));
                self.moves_to(thread, descriptor, if end == position { 0 } else { end });
                end - position
            }
            _ if flowop.random => {
                let offset = self.random_offset(thread, working_set, at_once);
                self.write(thread, file, offset, at_once, flowop.synchronous);
                at_once
            }
            _ => {
                self.write(thread, file, position, at_once, flowop.synchronous);
                self.moves_to(thread, descriptor, position + at_once);
                at_once
            }
        };
        self.states[thread].done[number].bytes += moved;
        End::Done
    }

    /// A multiple of what is moved, within the working set.
    fn random_offset(&mut self, thread: usize, working_set: u64, bytes: u64) -> u64 {
        let places = (working_set / bytes).max(1);
        self.states[thread].random.below(places) * bytes
    }

    /// A place in the thread's memory: a multiple of what is moved.
    fn address(&mut self, thread: usize, bytes: u64) -> u64 {
        memory_of(thread) + self.random_offset(thread, self.buffers[thread], bytes)
    }

    fn read(&mut self, thread: usize, file: File, offset: u64, length: u64) {
        let address = self.address(thread, length);
        let file = self.sets[file.set].file(file.entry);
        self.call(Call::Read { file, offset, length, address });
    }

    fn write(&mut self, thread: usize, file: File, offset: u64, length: u64, synchronous: bool) {
        let address = self.address(thread, length);
        let set = &mut self.sets[file.set];
        set.grow(file.entry, offset + length);
        let file = set.file(file.entry);
        self.call(Call::Write { file, offset, length, address });
        if synchronous {
            self.call(Call::Sync { file });
        }
    }

    fn moves_to(&mut self, thread: usize, descriptor: usize, to: u64) {
        if let Some(open) = self.states[thread].open(descriptor) {
            open.position = to;
        }
    }

    // ---- Time ------------------------------------------------------------------------------------

    fn hog(&mut self, thread: usize, flowop: &Flowop) -> End {
        let mut left = (self.value(thread, flowop) as u64).saturating_mul(HOG_INSTRUCTIONS);
        let address = memory_of(thread);
        while left > 0 {
            let instructions = left.min(1 << 30);
            self.made.push(Op::store(address, 8, instructions as u32));
            left -= instructions;
        }
        End::Done
    }

    fn wait_for_events(&mut self, _thread: usize, events: u64) -> End {
        if self.event_ps.is_some() && events > 0 {
            self.events += events;
            let generator = self.states.len() as ThreadId;
            return self.call(Call::Wait { thread: generator, sequence: self.events });
        }
        End::Done
    }

    /// What the target of an operation has done, or all threads without one.
    fn counted(&self, thread: usize, flowop: &Flowop) -> Done {
        let Some(target) = &flowop.target else { return self.all };
        let named = |flowop: &Flowop| flowop.name == *target;
        let at = self.model.threads[thread].flowops.iter().position(named);
        at.map_or(self.all, |at| self.states[thread].done[at])
    }

    /// An event for each operation, or mebibyte, since the last time.
    fn limit(&mut self, thread: usize, number: usize, flowop: &Flowop) -> End {
        if self.event_ps.is_none() {
            return End::Done;
        }
        let Done { operations, moves, bytes } = self.counted(thread, flowop);
        let bandwidth = flowop.kind == Kind::BwLimit;
        let now = match flowop.kind {
            Kind::BwLimit => bytes,
            Kind::IopsLimit => moves,
            _ => operations,
        };
        let (last, advance) = &mut self.states[thread].limits[number];
        let since = now - std::mem::replace(last, now);
        if since == now {
            return End::Done; // the first time
        }
        *advance -= since as i64;
        if *advance >= 0 {
            return End::Done;
        }
        let lacks = advance.unsigned_abs();
        let events = if bandwidth { lacks / LIMIT_BYTES + 1 } else { lacks };
        *advance += (events * if bandwidth { LIMIT_BYTES } else { 1 }) as i64;
        self.wait_for_events(thread, events)
    }

    fn finish(&mut self, thread: usize, flowop: &Flowop) -> End {
        let most = self.value(thread, flowop) as u64;
        let Done { operations, bytes, .. } = self.counted(thread, flowop);
        let counted =
            if flowop.kind == Kind::FinishOnBytes { bytes > most } else { operations >= most };
        if counted { End::Finished } else { End::Done }
    }

    /// Operations of the thread that sends events, one event at a time.
    fn event(&mut self, out: &mut Vec<Op>) -> bool {
        let Some(duration_ps) = self.event_ps else { return false };
        // Where nobody asks for long, events come all the same.
        for _ in 0..MOST_TURNS {
            if self.sent < self.events {
                break;
            }
            if self.ended || self.states.iter().all(|state| state.ended) {
                return false;
            }
            self.turn();
        }
        self.sent += 1;
        Call::Sleep { duration_ps }.encode(1, out);
        Call::Signal { sequence: self.sent }.encode(1, out);
        true
    }
}

impl Stream for FilebenchStream {
    fn pull(
        &mut self,
        thread: ThreadId,
        limit: usize,
        out: &mut Vec<Op>,
    ) -> Result<Pull, StreamError> {
        let index = thread as usize;
        let from = out.len();
        if index == self.states.len() {
            while out.len() - from < limit.max(1) && self.event(out) {}
        } else if index < self.states.len() {
            if index == 0 {
                self.prelude.go_on(limit.max(1) as u64, Some(out));
            }
            while out.len() - from < limit.max(1) {
                let mut turns = 0;
                while self.queues[index].is_empty() && !self.states[index].ended && !self.ended {
                    self.turn();
                    turns += 1;
                    if turns == MOST_TURNS {
                        let what = format!(
                            "thread {thread} has found nothing to do {turns} times in turn"
                        );
                        return Err(StreamError::Cut(what));
                    }
                }
                let Some(op) = self.queues[index].pop_front() else { break };
                out.push(op);
                out.extend((1..length_of(op)).filter_map(|_| self.queues[index].pop_front()));
            }
        }
        Ok(if out.len() > from { Pull::More } else { Pull::End })
    }

    fn fork(&self) -> Box<dyn Stream> {
        Box::new(self.clone())
    }

    fn gives_mark(&self, mark: u64) -> Option<bool> {
        Some(mark == REGION_BEGINS && self.prelude.marks())
    }

    fn accesses_before_region(&self) -> Option<u64> {
        self.prelude.before_region()
    }

    fn footprint(&self) -> Option<Footprint> {
        Some(self.footprint)
    }

    fn ended_early(&self) -> Option<String> {
        self.early.clone()
    }

    fn files(&self) -> Arc<Vec<FileInfo>> {
        self.files.clone()
    }
}

const _: () = assert!(DESCRIPTORS > 1);
