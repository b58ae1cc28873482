//! Traces of what a program's instructions did, as a workload of threads for machines with a processor:
//! formats that tell instructions, or let them be counted, or whose requests name a thread.
//!
//! A trace may be of several threads, which its records name, and of several files, one a core or a
//! thread. Threads of one file are read in one go as long as they are taken at about the same pace; one
//! that is [`MOST_WAITING`] operations ahead of another goes on by a reader of its own, so that memory is
//! bounded however threads lie in the file and whatever order machines take them in.

use super::Format;
use super::format::{Choices, Program, Several};
use super::input::OpenError;
use super::reader::{MOST_EMPTY_BYTES, TraceReader};
use super::told::Told;
use crate::feed::whole_operations;
use crate::op::{Op, ThreadId};
use crate::stream::{Pull, Stream, StreamError};
use std::path::PathBuf;

/// Operations of a thread that wait, of 16 bytes each, before one that is ahead reads by itself.
const MOST_WAITING: usize = 1 << 16;
/// Records that are read at once.
const AT_ONCE: usize = 1 << 10;
/// Threads of a trace at most, where no machine says how many it takes.
pub const MOST_THREADS: usize = 1 << 12;

/// A trace as a workload of threads, of which each begins where the trace first tells of it.
///
/// It maps nothing: what it touches is memory of which machines are not told before, as of a recorded
/// program's own image. Calls on the operating system are not in such traces, and neither is what threads
/// wait for: each goes on as fast as it can.
///
/// Thread `k` of file `i` of `n` has the number `k n + i`.
pub struct ProgramTrace {
    files: Vec<Threads>,
}

/// The threads of a file.
struct Threads {
    /// Those that no lane of its own has.
    all: Lane,
    /// Those that have one, by their number in the file.
    own: Vec<Option<Lane>>,
}

/// A reader of a file, and what it keeps of it.
struct Lane {
    /// Why there is none where it could not be forked.
    reader: Result<TraceReader, StreamError>,
    program: Box<dyn Program>,
    told: Told,
    /// Bytes up to the last one that said something of a thread.
    said_bytes: u64,
    /// What went wrong behind what waits to be taken.
    wrong: Option<StreamError>,
}

impl ProgramTrace {
    /// Opens a trace of a format whose traces are of programs, and looks at the first access of each of
    /// its files; `most_threads` is how many threads it may have.
    ///
    /// # Errors
    /// Where a file cannot be read, holds no access, or its beginning is wrong; where the format is of
    /// requests to devices alone, or of one file; and where there are too many files.
    pub fn open(
        files: &[PathBuf],
        format: &'static Format,
        choices: &Choices,
        most_threads: usize,
    ) -> Result<Self, OpenError> {
        let name = format.name;
        let Some(program) = format.program else {
            return Err(OpenError::Wrong(format!("a trace of {name} is of no program")));
        };
        let count = files.len();
        if count > 1 && program.several == Several::No {
            return Err(OpenError::Wrong(format!(
                "a trace of {name} is one file, whose records name its threads, and {count} are given; \
                 give one"
            )));
        }
        if count > most_threads {
            return Err(OpenError::Wrong(too_many(
                &format!("{count} files of {name} are {count} threads"),
                most_threads,
                "give fewer files",
            )));
        }
        let most = most_threads.min(MOST_THREADS) / count.max(1);
        let open = |path: &PathBuf, told: Told| -> Result<Lane, OpenError> {
            let reader = TraceReader::open(path, format, choices)?;
            Ok(Lane {
                reader: Ok(reader),
                program: (program.new)(),
                told,
                said_bytes: 0,
                wrong: None,
            })
        };
        let told = |file: usize| Told::new(file as ThreadId, count as ThreadId, most.max(1));
        let mut processes = Vec::new();
        for (number, path) in files.iter().enumerate().filter(|_| count > 1) {
            let named = match program.several {
                Several::Processes => Some(number as u64),
                Several::Named | Several::No => {
                    let mut lane = open(path, told(number))?;
                    lane.begin().map_err(|error| OpenError::Wrong(error.to_string()))?
                }
            };
            processes.push(named);
        }
        let mut traces = Vec::new();
        for (number, path) in files.iter().enumerate() {
            let all = open(path, told(number).among(&processes))?;
            traces.push(Threads { all, own: Vec::new() });
        }
        Ok(ProgramTrace { files: traces })
    }
}

/// The error of a trace of too many threads.
pub(super) fn too_many(what: &str, most: usize, instead: &str) -> String {
    format!(
        "{what}, and each runs on a hardware thread of its own, of which the machine has {most}; \
         set processor.cores (or processor.threads_per_core) to as many, or {instead}"
    )
}

impl Lane {
    /// Reads up to the first operation; the process that it is of, where that is named.
    fn begin(&mut self) -> Result<Option<u64>, StreamError> {
        while self.told.operations == 0 && self.read()? {}
        Ok(self.told.first_process())
    }

    /// Reads the next record; whether there was one.
    fn read(&mut self) -> Result<bool, StreamError> {
        let reader = self.reader.as_mut().map_err(|why| why.clone())?;
        if self.told.ended {
            return Ok(false);
        }
        let before = self.told.operations;
        let requests = self.program.of_requests();
        let goes_on = if requests { reader.read_requests()? } else { reader.read()? };
        if !goes_on {
            self.told.end();
            return Ok(true);
        }
        if let Some(record) = reader.record() {
            let read = self.program.read(record, &mut self.told);
            read.map_err(|why| reader.wrong(&why))?;
        }
        if requests {
            reader.each_request(|request| self.told.request(request))?;
        }
        if let Some(address) = self.told.beyond.take() {
            return Err(reader.wrong(&format!(
                "{address:#x} is no address of a process on a machine, which has 48 bits of them"
            )));
        }
        if self.told.operations > before {
            self.said_bytes = reader.offset();
        } else if reader.offset() - self.said_bytes > MOST_EMPTY_BYTES {
            return Err(reader.wrong("too many bytes up to here are of no instruction"));
        }
        Ok(true)
    }

    /// Reads some records, up to the end or to what is wrong, but no further than operations may wait.
    ///
    /// # Errors
    /// What is wrong with the first of them; with a later one, as it is read for again.
    fn read_some(&mut self, limit: usize) -> Result<(), StreamError> {
        if let Some(why) = &self.wrong {
            return Err(why.clone());
        }
        let free = MOST_WAITING.saturating_sub(self.told.most_waiting());
        for number in 0..limit.min(AT_ONCE).min(free).max(1) {
            match self.read() {
                Ok(_) if self.told.ended => break,
                Ok(_) => {}
                Err(why) if number == 0 => return Err(why),
                Err(why) => {
                    self.wrong = Some(why);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Appends up to `limit` operations of a thread of the file, once there are some; nothing at its end.
    fn pull(&mut self, thread: usize, limit: usize, out: &mut Vec<Op>) -> bool {
        let Some(waiting) = self.told.waiting(thread) else { return false };
        let (rest, _) = waiting.as_slices();
        let rest = if rest.len() < waiting.len() { waiting.make_contiguous() } else { rest };
        let taken = whole_operations(rest, limit.max(1));
        out.extend(waiting.drain(..taken));
        taken > 0
    }

    fn again(&self) -> Lane {
        Lane {
            reader: self.reader.as_ref().map_err(Clone::clone).and_then(TraceReader::again),
            program: self.program.fork(),
            told: self.told.clone(),
            said_bytes: self.said_bytes,
            wrong: self.wrong.clone(),
        }
    }
}

impl Threads {
    fn pull(
        &mut self,
        thread: usize,
        limit: usize,
        out: &mut Vec<Op>,
    ) -> Result<Pull, StreamError> {
        loop {
            let own = self.own.get_mut(thread).and_then(Option::as_mut);
            let is_own = own.is_some();
            let lane = own.unwrap_or(&mut self.all);
            if lane.pull(thread, limit, out) {
                return Ok(Pull::More);
            }
            if lane.told.ended {
                return Ok(Pull::End);
            }
            if !is_own && lane.told.most_waiting() >= MOST_WAITING {
                let mut own = lane.again();
                own.told.keep_only(thread);
                lane.told.leave_out(thread);
                self.own.resize_with(self.own.len().max(thread + 1), || None);
                self.own[thread] = Some(own);
                continue;
            }
            lane.read_some(limit)?;
        }
    }

    fn again(&self) -> Threads {
        let own = self.own.iter().map(|lane| lane.as_ref().map(Lane::again));
        Threads { all: self.all.again(), own: own.collect() }
    }
}

impl Stream for ProgramTrace {
    fn pull(
        &mut self,
        thread: ThreadId,
        limit: usize,
        out: &mut Vec<Op>,
    ) -> Result<Pull, StreamError> {
        let count = self.files.len();
        let (file, thread) = (thread as usize % count, thread as usize / count);
        self.files[file].pull(thread, limit, out)
    }

    fn fork(&self) -> Box<dyn Stream> {
        Box::new(ProgramTrace { files: self.files.iter().map(Threads::again).collect() })
    }

    fn gives_mark(&self, _mark: u64) -> Option<bool> {
        Some(false)
    }

    fn ended_early(&self) -> Option<String> {
        self.files.iter().find_map(|file| {
            let reader = file.all.reader.as_ref().ok()?;
            reader.is_cut_between_records().then(|| reader.without_end())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::drmemtrace::tests::record;
    use super::super::find;
    use super::super::tests::Scratch;
    use super::*;
    use crate::conformance::{calls_of, stream_laws};
    use crate::op::{Call, OpKind};

    fn open(file: &Scratch, format: &str) -> Result<ProgramTrace, OpenError> {
        open_all(&[file], format, MOST_THREADS)
    }

    fn open_all(
        files: &[&Scratch],
        format: &str,
        most_threads: usize,
    ) -> Result<ProgramTrace, OpenError> {
        let files: Vec<PathBuf> = files.iter().map(|file| file.0.clone()).collect();
        ProgramTrace::open(&files, find(format).unwrap(), &Choices::new(), most_threads)
    }

    fn of_thread(stream: &mut dyn Stream, thread: ThreadId) -> Vec<Op> {
        let mut out = Vec::new();
        while stream.pull(thread, 3, &mut out).unwrap() == Pull::More {}
        out
    }

    fn all(mut stream: impl Stream) -> Vec<Op> {
        of_thread(&mut stream, 0)
    }

    /// Accesses of a thread by their addresses, and the calls between them.
    fn told(stream: &mut dyn Stream, thread: ThreadId) -> (Vec<u64>, Vec<Call>) {
        let ops = of_thread(stream, thread);
        let calls = calls_of(&ops);
        let arguments: usize = ops
            .iter()
            .filter(|op| op.kind_code() == OpKind::Call as u8)
            .map(|op| usize::from(op.size()))
            .sum();
        assert_eq!(
            ops.iter().filter(|op| op.kind_code() == OpKind::Call as u8).count(),
            calls.len()
        );
        let is_access = |op: &&Op| matches!(op.kind_code(), 1 | 2) && op.size() > 0;
        let accesses: Vec<u64> = ops.iter().filter(is_access).map(|op| op.word).collect();
        assert!(accesses.len() + calls.len() + arguments <= ops.len());
        (accesses, calls)
    }

    const LACKEY: &str = "==7== Lackey\nI  04,3\nI  07,2\n L 1000,8\nI  09,4\n M 2000,4\n S 3000,16\n\
                          I  0d,1\nI  0e,1\n";

    /// A record of ChampSim: registers written and read, addresses written and read.
    fn instruction(written: u8, read: u8, store: u64, load: u64) -> Vec<u8> {
        let mut record = vec![0; 64];
        (record[10], record[12]) = (written, read);
        record[16..24].copy_from_slice(&store.to_le_bytes());
        record[32..40].copy_from_slice(&load.to_le_bytes());
        record
    }

    #[test]
    fn the_streams_laws_hold() {
        let lines = Scratch::new(LACKEY.repeat(40).as_bytes());
        stream_laws(|| Box::new(open(&lines, "lackey").unwrap()));
        let records = [instruction(1, 2, 0, 0x1000), instruction(0, 1, 0x40, 0)].concat();
        let records = Scratch::new(&records.repeat(60));
        stream_laws(|| Box::new(open(&records, "champsim").unwrap()));
        let entries = [record(22, 0, 7), record(10, 4, 64), record(0, 8, 4096)].concat();
        let entries = Scratch::new(&entries.repeat(50));
        stream_laws(|| Box::new(open(&entries, "drmemtrace").unwrap()));
    }

    #[test]
    fn a_trace_without_the_record_that_ends_it_has_ended_early() {
        for (end, early) in [(record(26, 0, 0), false), (record(28, 2, 5), true)] {
            let entries = [record(22, 0, 7), record(10, 4, 64), record(0, 8, 4096), end].concat();
            let file = Scratch::new(&entries);
            let mut stream = open(&file, "drmemtrace").unwrap();
            assert_eq!(stream.ended_early(), None, "nothing of it has been read");
            of_thread(&mut stream, 0);
            let told = stream.ended_early();
            assert_eq!(told.is_some_and(|told| told.contains("it was cut there")), early);
        }
    }

    #[test]
    fn the_streams_laws_hold_for_several_threads() {
        let threads = Scratch::new(NVMAIN.repeat(30).as_bytes());
        stream_laws(|| Box::new(open(&threads, "nvmain").unwrap()));
        let (one, two) = (Scratch::new(&entries(7, 100, 40)), Scratch::new(&entries(9, 200, 30)));
        stream_laws(|| Box::new(open_all(&[&one, &two, &one], "drmemtrace", 6).unwrap()));
        let both = Scratch::new(&[entries(7, 100, 40), entries(9, 200, 30)].concat());
        stream_laws(|| Box::new(open(&both, "drmemtrace").unwrap()));
        let lines = Scratch::new(LACKEY.repeat(20).as_bytes());
        stream_laws(|| Box::new(open_all(&[&lines, &lines], "lackey", 2).unwrap()));
    }

    /// Threads 4 and 9, and in the first line, which has no data, 0.
    const NVMAIN: &str = "1 R 1000\n1 W 2000 00ff 4\n1 R 3000 00 9\n1 R 2040 0 0 4\n";

    /// Of a thread of a process, so many instructions with a load each.
    fn entries(thread: u64, process: u64, count: u64) -> Vec<u8> {
        let mut entries = [record(22, 0, thread), record(24, 0, process)].concat();
        for number in 0..count {
            entries.extend(record(10, 4, 64));
            entries.extend(record(0, 8, thread << 20 | number << 6));
        }
        entries
    }

    #[test]
    fn a_thread_that_records_name_starts_where_it_first_comes_and_keeps_its_order() {
        let file = Scratch::new(NVMAIN.as_bytes());
        let mut stream = open(&file, "nvmain").unwrap();
        let spawned = vec![Call::Spawn { thread: 1 }, Call::Spawn { thread: 2 }];
        assert_eq!(told(&mut stream, 0), (vec![0x1000], spawned));
        assert_eq!(told(&mut stream, 1), (vec![0x2000, 0x2040], vec![]));
        assert_eq!(told(&mut stream, 2), (vec![0x3000], vec![]));
        assert_eq!(of_thread(&mut stream, 3), []);
        let mut ops = of_thread(&mut open(&file, "nvmain").unwrap(), 1);
        assert_eq!(ops.remove(0), Op::store(0x2000, 8, 1));
        let wrong = Scratch::new(b"1 R 40 0 0\n2 R 40 0 x\n");
        let mut stream = open(&wrong, "nvmain").unwrap();
        let mut out = Vec::new();
        let why = stream.pull(0, 9, &mut out).and_then(|_| stream.pull(0, 9, &mut out));
        assert!(why.unwrap_err().to_string().contains("the number of a thread"));
    }

    #[test]
    fn a_comma_with_no_file_behind_it_is_told() {
        let file = Scratch::new(LACKEY.as_bytes());
        let files = [file.0.clone(), PathBuf::new()];
        let opened = ProgramTrace::open(&files, find("lackey").unwrap(), &Choices::new(), 4);
        assert!(opened.err().unwrap().to_string().contains("leave out the comma"));
    }

    #[test]
    fn an_address_of_more_bits_than_a_process_has_is_an_error_and_a_kernels_is_none() {
        let kernel = Scratch::new(b"1 R ffff888000001000\n2 R 1000\n");
        let (accesses, _) = told(&mut open(&kernel, "nvmain").unwrap(), 0);
        assert_eq!(accesses, [0x8880_0000_1000, 0x1000]);
        let beyond = Scratch::new(b"1 R 1000\n2 R 1000000001000\n");
        let mut stream = open(&beyond, "nvmain").unwrap();
        let mut out = Vec::new();
        let end = std::iter::repeat_with(|| stream.pull(0, 9, &mut out))
            .find(|pulled| !matches!(pulled, Ok(Pull::More)));
        let why = end.unwrap().unwrap_err().to_string();
        assert!(why.contains("line 2, ") && why.contains("48 bits"), "{why}");
    }

    /// A thread may be gone through before another has begun: what waits is bounded, and the same.
    #[test]
    fn a_thread_far_ahead_of_another_reads_by_itself() {
        let count = MOST_WAITING as u64 + 1000;
        let last = entries(7, 1, 1);
        let bytes = [entries(7, 1, count), entries(8, 1, count), last.clone(), entries(9, 1, 5)];
        let file = Scratch::new(&bytes.concat());
        let addresses = |thread: u64, count: u64| -> Vec<u64> {
            (0..count).map(|number| thread << 20 | number << 6).collect()
        };
        let expected =
            [[addresses(7, count), addresses(7, 1)].concat(), addresses(8, count), addresses(9, 5)];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let mut stream = open(&file, "drmemtrace").unwrap();
            for thread in order {
                let mut fork = stream.fork();
                let (accesses, calls) = told(&mut stream, thread);
                assert_eq!(accesses, expected[thread as usize], "thread {thread} of {order:?}");
                let spawned = [Call::Spawn { thread: 1 }, Call::Spawn { thread: 2 }];
                assert_eq!(calls, if thread == 0 { &spawned[..] } else { &[] });
                assert_eq!(told(&mut *fork, thread), (accesses, calls));
                let waiting = stream.files[0].all.told.most_waiting();
                assert!(waiting <= MOST_WAITING + 1, "{waiting}");
            }
        }
    }

    #[test]
    fn files_are_processes_or_threads_of_one() {
        let file = Scratch::new(LACKEY.as_bytes());
        let mut stream = open_all(&[&file, &file], "lackey", 2).unwrap();
        let one = vec![0x1000, 0x2000, 0x2000, 0x3000];
        let of_second: Vec<u64> = one.iter().map(|at| at | 1 << 48).collect();
        let begun =
            vec![Call::Fork { parent: 0, process: 1, thread: 1 }, Call::Spawn { thread: 1 }];
        assert_eq!(told(&mut stream, 0), (one, begun.clone()));
        assert_eq!(told(&mut stream, 1), (of_second, vec![Call::Exec { process: 1 }]));

        let (a, b, c) = (entries(7, 100, 1), entries(8, 100, 1), entries(9, 200, 1));
        let [a, b, c] = [a, b, c].map(|bytes| Scratch::new(&bytes));
        let mut stream = open_all(&[&a, &b, &c], "drmemtrace", 3).unwrap();
        let spawned = |thread| Call::Spawn { thread };
        let fork = Call::Fork { parent: 0, process: 1, thread: 2 };
        assert_eq!(told(&mut stream, 0), (vec![7 << 20], vec![spawned(1), fork, spawned(2)]));
        assert_eq!(told(&mut stream, 1), (vec![8 << 20], vec![]));
        let exec = vec![Call::Exec { process: 1 }];
        assert_eq!(told(&mut stream, 2), (vec![9 << 20 | 1 << 48], exec));
    }

    #[test]
    fn threads_of_one_file_may_be_of_several_processes() {
        let file = Scratch::new(&[entries(7, 100, 1), entries(9, 200, 1)].concat());
        let mut stream = open(&file, "drmemtrace").unwrap();
        let begun =
            vec![Call::Fork { parent: 0, process: 1, thread: 1 }, Call::Spawn { thread: 1 }];
        assert_eq!(told(&mut stream, 0), (vec![7 << 20], begun));
        let exec = vec![Call::Exec { process: 1 }];
        assert_eq!(told(&mut stream, 1), (vec![9 << 20 | 1 << 48], exec));
        // Which number the process of a thread has that comes later would depend on what is read first.
        let (other, more) = (Scratch::new(&entries(1, 1, 1)), Scratch::new(&entries(2, 2, 1)));
        let both = Scratch::new(&[entries(1, 1, 1), entries(9, 200, 1)].concat());
        assert!(open_all(&[&other, &more], "drmemtrace", 2).is_ok());
        let mut stream = open_all(&[&both, &more], "drmemtrace", 9).unwrap();
        let mut out = Vec::new();
        let why = std::iter::repeat_with(|| stream.pull(0, 1, &mut out)).find_map(Result::err);
        let why = why.unwrap().to_string();
        assert!(why.contains("process 200, which is of none of the files' first"), "{why}");
    }

    #[test]
    fn more_threads_than_the_machine_runs_at_once_are_told_with_their_place() {
        let file = Scratch::new(NVMAIN.as_bytes());
        let mut stream = open_all(&[&file], "nvmain", 2).unwrap();
        let mut out = Vec::new();
        let why = std::iter::repeat_with(|| stream.pull(0, 1, &mut out)).find_map(Result::err);
        let why = why.unwrap().to_string();
        assert!(
            why.contains("line 3, `1 R 3000 00 9`: it is of thread 9, and 2 others come before it"),
            "{why}"
        );
        assert!(why.contains("of which the machine has 2; set processor.cores"), "{why}");
        let lines = Scratch::new(LACKEY.as_bytes());
        let why = open_all(&[&lines, &lines], "lackey", 1).err().unwrap().to_string();
        assert!(why.starts_with("2 files of lackey are 2 threads, and each runs on"), "{why}");
        let why = open_all(&[&file, &file], "nvmain", 4).err().unwrap().to_string();
        assert!(
            why.contains("is one file, whose records name its threads, and 2 are given"),
            "{why}"
        );
    }

    #[test]
    fn instructions_of_lackey_are_counted_up_to_their_access() {
        let file = Scratch::new(LACKEY.as_bytes());
        let expected = [
            Op::load(0x1000, 8, 2),
            Op::load(0x2000, 4, 1),
            Op::store(0x2000, 4, 0),
            Op::store(0x3000, 16, 0),
            Op::compute(2),
        ];
        assert_eq!(all(open(&file, "lackey").unwrap()), expected);
        let without = Scratch::new(b" L 1000,8\n M 2000,4\n");
        let expected = [Op::load(0x1000, 8, 1), Op::load(0x2000, 4, 1), Op::store(0x2000, 4, 0)];
        assert_eq!(all(open(&without, "lackey").unwrap()), expected);
    }

    #[test]
    fn a_load_of_champsim_depends_on_loads_before_by_its_registers() {
        let records = [
            instruction(1, 2, 0, 0x1000),
            // Of register 1 becomes 3, and of that the address of the next load.
            instruction(3, 1, 0, 0),
            instruction(4, 3, 0, 0x2000),
            // Register 3 is of the load before the last.
            instruction(5, 3, 0, 0x3000),
            instruction(0, 5, 0x4000, 0),
        ];
        let file = Scratch::new(&records.concat());
        let found = all(open(&file, "champsim").unwrap());
        let expected = [
            Op::load(0x1000, 8, 1),
            Op::load(0x2000, 8, 2).depending_on(1),
            Op::load(0x3000, 8, 1).depending_on(2),
            Op::store(0x4000, 8, 1).depending_on(1),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_no_trace_of_a_program_is_refused() {
        let file = Scratch::new(b"0x40 READ 1\n");
        let told = open(&file, "dramsim3").err().unwrap().to_string();
        assert_eq!(told, "a trace of dramsim3 is of no program");
    }
}
