//! What a file of a trace of a program tells of its threads, as operations that wait to be taken.

use super::TraceRequest;
use super::program::too_many;
use crate::op::{Call, Op, ThreadId};
use std::collections::VecDeque;

/// Instructions without an access after which an operation tells them.
const MOST_INSTRUCTIONS: u32 = 1 << 20;
/// The number of a process stands above so many bits of its addresses.
const PROCESS_SHIFT: u32 = 48;
/// Processes of a trace at most.
const MOST_PROCESSES: usize = 1 << 15;
const LINE_BYTES: u64 = 64;
/// Bytes of an access whose size the trace does not tell.
const ACCESS_BYTES: u64 = 8;

/// What the records of a file have told so far.
#[derive(Clone)]
pub struct Told {
    file: ThreadId,
    files: ThreadId,
    most_threads: usize,
    threads: Vec<Thread>,
    /// The thread that what follows is of.
    current: usize,
    /// Names of processes, in the order of their numbers; a name that is not there is none.
    processes: Vec<Option<u64>>,
    /// Whether each has been started.
    begun: Vec<bool>,
    /// Whether a process that is not known yet is an error, as its number would not be sure.
    all_known: bool,
    /// The only thread whose operations are kept, where it is one.
    only: Option<usize>,
    /// How often a record has said what a thread does.
    pub(super) operations: u64,
    /// Whether the file has ended.
    pub(super) ended: bool,
    /// An address that no process has.
    pub(super) beyond: Option<u64>,
}

#[derive(Clone, Default)]
struct Thread {
    name: Option<u64>,
    process: usize,
    started: bool,
    /// Instructions since the last operation.
    instructions: u32,
    waiting: VecDeque<Op>,
    /// Whether somebody else reads its operations.
    left_out: bool,
}

/// Bytes of an access within a line, where the trace does not tell them.
pub(super) fn bytes_in_line(address: u64) -> u16 {
    ACCESS_BYTES.min(LINE_BYTES - address % LINE_BYTES) as u16
}

impl Told {
    /// Of a file of so many, which may have so many threads.
    pub(super) fn new(file: ThreadId, files: ThreadId, most_threads: usize) -> Self {
        Told {
            file,
            files,
            most_threads,
            threads: vec![Thread::default()],
            current: 0,
            processes: vec![None],
            begun: vec![true],
            all_known: false,
            only: None,
            operations: 0,
            ended: false,
            beyond: None,
        }
    }

    /// The same, where the files are of these processes: one a file, in their order.
    ///
    /// The first file's first thread exists; it starts the first threads of all others.
    pub(super) fn among(mut self, of_files: &[Option<u64>]) -> Self {
        let Some(own) = of_files.get(self.file as usize) else {
            self.threads[0].started = true;
            return self;
        };
        self.all_known = true;
        self.processes.clear();
        let mut starts = Vec::new();
        for (file, name) in (0..).zip(of_files) {
            let (process, new) = match self.processes.iter().position(|known| known == name) {
                Some(process) => (process, false),
                None => {
                    self.processes.push(*name);
                    (self.processes.len() - 1, true)
                }
            };
            if file == self.file {
                self.threads[0].process = process;
                if new && process > 0 {
                    Call::Exec { process: process as u64 }.encode(0, &mut starts);
                    self.threads[0].waiting.extend(starts.drain(..));
                }
            }
            if self.file == 0 && file > 0 {
                start(file, (new && process > 0).then_some(process), &mut starts);
                self.threads[0].waiting.extend(starts.drain(..));
            }
        }
        self.threads[0].name = None;
        debug_assert!(self.processes.contains(own));
        self.begun = vec![true; self.processes.len()];
        self.threads[0].started = true;
        self
    }

    /// What follows is of the thread of this name.
    ///
    /// # Errors
    /// Where that is a thread more than may be.
    #[inline]
    pub fn thread(&mut self, name: u64) -> Result<(), String> {
        if self.threads[self.current].name == Some(name) {
            return Ok(());
        }
        // What came before any name is of the first that is named.
        let known = self.threads.iter().position(|thread| thread.name.is_none_or(|it| it == name));
        self.current = known.unwrap_or(self.threads.len());
        if self.current == self.threads.len() {
            if self.threads.len() == self.most_threads {
                let files = self.files as usize;
                return Err(too_many(
                    &format!("it is of thread {name}, and {} others come before it", self.current),
                    self.most_threads * files,
                    "take a trace of fewer threads",
                ));
            }
            let process = self.threads[0].process;
            self.threads.push(Thread { process, ..Thread::default() });
        }
        self.threads[self.current].name = Some(name);
        Ok(())
    }

    /// The thread that what follows is of belongs to the process of this name.
    ///
    /// # Errors
    /// Where its number is not sure, or it is one too many.
    pub fn process(&mut self, name: u64) -> Result<(), String> {
        let number = match self.processes.iter().position(|known| known.is_none_or(|it| it == name))
        {
            Some(number) => number,
            None if self.all_known => {
                return Err(format!(
                    "it is of process {name}, which is of none of the files' first threads; give that \
                     process's files too, or this file alone"
                ));
            }
            None if self.processes.len() == MOST_PROCESSES => {
                return Err(format!("it is of more than {MOST_PROCESSES} processes"));
            }
            None => {
                self.processes.push(None);
                self.begun.push(false);
                self.processes.len() - 1
            }
        };
        self.processes[number] = Some(name);
        self.threads[self.current].process = number;
        Ok(())
    }

    /// The process of the first thread, where it is named.
    pub(super) fn first_process(&self) -> Option<u64> {
        self.processes[self.threads[self.current].process]
    }

    /// So many instructions without an access.
    #[inline]
    pub fn instructions(&mut self, count: u32) {
        self.operations += 1;
        let thread = &mut self.threads[self.current];
        thread.instructions += count;
        if thread.instructions >= MOST_INSTRUCTIONS {
            self.put(Op::compute(0));
        }
    }

    /// An access, with the instructions since the one before, whose address is made of the load so many loads back, if of any.
    #[inline]
    pub fn access(&mut self, write: bool, address: u64, bytes: u16, loads_back: u64) {
        self.operations += 1;
        let process = (self.threads[self.current].process as u64) << PROCESS_SHIFT;
        // Of a kernel's addresses all bits from the 48th on are set: they stay apart from others.
        if !matches!(address >> PROCESS_SHIFT, 0 | 0xffff) {
            self.beyond = Some(address);
        }
        let address = address & ((1 << PROCESS_SHIFT) - 1) | process;
        let op = if write { Op::store(address, bytes, 0) } else { Op::load(address, bytes, 0) };
        self.put(op.depending_on(loads_back));
    }

    /// A request of a trace of no instructions: an access of one.
    #[inline]
    pub(super) fn request(&mut self, request: &TraceRequest) -> Result<(), String> {
        let bytes = match request.bytes {
            0 => bytes_in_line(request.address),
            bytes => u16::try_from(bytes)
                .map_err(|_| format!("an instruction moves no {bytes} bytes, but 65535 at most"))?,
        };
        if request.moves() {
            self.instructions(1);
            self.access(request.is_write(), request.address, bytes, 0);
        }
        Ok(())
    }

    /// The file has ended: what instructions are left are told.
    pub(super) fn end(&mut self) {
        for thread in 0..self.threads.len() {
            self.current = thread;
            if self.threads[thread].instructions > 0 {
                self.put(Op::compute(0));
            }
        }
        self.ended = true;
    }

    /// Operations of a thread that wait; nothing where it is not known yet.
    pub(super) fn waiting(&mut self, thread: usize) -> Option<&mut VecDeque<Op>> {
        self.threads.get_mut(thread).map(|thread| &mut thread.waiting)
    }

    /// Operations that wait of the thread of which most do.
    pub(super) fn most_waiting(&self) -> usize {
        self.threads.iter().map(|thread| thread.waiting.len()).max().unwrap_or(0)
    }

    /// Keeps nothing but one thread's operations from now on.
    pub(super) fn keep_only(&mut self, thread: usize) {
        self.only = Some(thread);
        for (number, other) in self.threads.iter_mut().enumerate() {
            if number != thread {
                other.waiting = VecDeque::new();
            }
        }
    }

    /// Keeps nothing of one thread from now on.
    pub(super) fn leave_out(&mut self, thread: usize) {
        if let Some(it) = self.threads.get_mut(thread) {
            (it.left_out, it.waiting) = (true, VecDeque::new());
        }
    }

    /// Lets an operation of the current thread wait, with the instructions up to it.
    #[inline]
    fn put(&mut self, op: Op) {
        let number = self.current;
        if !self.threads[number].started {
            self.begin(number);
        }
        let thread = &mut self.threads[number];
        let instructions = u64::from(std::mem::take(&mut thread.instructions));
        if self.only.is_none_or(|only| only == number) && !thread.left_out {
            thread.waiting.push_back(Op { meta: op.meta | instructions << 32, ..op });
        }
    }

    /// The file's first thread starts another, with its process where that is a new one.
    fn begin(&mut self, number: usize) {
        let process = self.threads[number].process;
        let new = !std::mem::replace(&mut self.begun[process], true);
        let thread = number as ThreadId * self.files + self.file;
        let mut ops = Vec::new();
        if number > 0 {
            start(thread, new.then_some(process), &mut ops);
            self.keep(0, &mut ops);
        }
        if new {
            Call::Exec { process: process as u64 }.encode(0, &mut ops);
            self.keep(number, &mut ops);
        }
        self.threads[number].started = true;
    }

    fn keep(&mut self, number: usize, ops: &mut Vec<Op>) {
        let thread = &mut self.threads[number];
        if self.only.is_none_or(|only| only == number) && !thread.left_out {
            thread.waiting.extend(ops.iter());
        }
        ops.clear();
    }
}

/// Starts a thread, and the process that it is the first of, if it is one.
fn start(thread: ThreadId, process: Option<usize>, ops: &mut Vec<Op>) {
    if let Some(process) = process {
        Call::Fork { parent: 0, process: process as u64, thread }.encode(0, ops);
    }
    Call::Spawn { thread }.encode(0, ops);
}
