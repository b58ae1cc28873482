//! From one trace of a program's instructions to another: where instructions are, what branches are, and what each
//! loads and stores, as far as both formats tell of it.

use super::convert::{Converted, How};
use super::format::{Branch, Instruction, OfInstructions, ReadInstructions, Several};
use super::looks::Looks;
use super::{
    Choices, ConvertError, Extent, Format, OpenError, Passed, RequestSource, TraceReader,
    TraceRequest,
};
use crate::stream::StreamError;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;

/// Bytes that are written at a time.
const AT_ONCE: usize = 1 << 16;
/// Instructions without a place that are written at a time.
const PLAIN_AT_ONCE: u64 = 1 << 10;

/// Instructions of a trace, one after the other. Of a trace of several files, each of which has some of the threads of
/// one process, they come in the order of the times that their markers tell, and within one time by the order of the files.
pub struct InstructionSource {
    files: Vec<File>,
    /// The file of the instruction that came last.
    last: usize,
    /// When, and of which file, what comes next of any other file is; nothing where there are no others, or it has to be
    /// looked for.
    until: Option<(Option<u64>, usize)>,
    settled: bool,
}

struct File {
    reader: TraceReader,
    records: Box<dyn ReadInstructions>,
    /// Instructions that are whole, each with its time.
    ready: VecDeque<(Option<u64>, Instruction)>,
    whole: VecDeque<Instruction>,
    ended: bool,
}

impl InstructionSource {
    /// Opens a trace; nothing where its format, or that of the target, tells no instructions, and of several files where
    /// they are of several processes, or no order of their instructions is told.
    ///
    /// # Errors
    /// Where it cannot be read, or its beginning is wrong.
    pub fn open(
        files: &[PathBuf],
        format: &'static Format,
        target: &Format,
    ) -> Result<Option<Self>, OpenError> {
        if target.write_instructions.is_none() {
            return Ok(None);
        }
        let Some(of_source) = format.instructions else { return Ok(None) };
        let several = files.len() > 1;
        if several && format.program.is_none_or(|program| program.several != Several::Named) {
            return Ok(None);
        }
        let open = |path: &PathBuf| -> Result<File, OpenError> {
            let reader = TraceReader::open(path, format, &Choices::new())?;
            let (records, ready) = ((of_source.read)(), VecDeque::new());
            Ok(File { reader, records, ready, whole: VecDeque::new(), ended: false })
        };
        let opened: Result<Vec<File>, OpenError> = files.iter().map(open).collect();
        let mut source = InstructionSource { files: opened?, last: 0, until: None, settled: false };
        let wrong = |error: StreamError| OpenError::Wrong(error.to_string());
        let is_one = !several || source.is_of_one_process_and_tells_times().map_err(wrong)?;
        Ok(Some(source).filter(|_| is_one))
    }

    /// Reads the first instruction of each file, and sees whether they can be joined.
    fn is_of_one_process_and_tells_times(&mut self) -> Result<bool, StreamError> {
        let mut processes = BTreeSet::new();
        for file in &mut self.files {
            file.fill()?;
            processes.extend(file.records.process());
            if file.ready.front().is_some_and(|(time, _)| time.is_none()) {
                return Ok(false);
            }
        }
        Ok(processes.len() <= 1)
    }

    /// What is worth knowing of what has been read.
    pub fn remarks(&self) -> Vec<String> {
        match &self.files[..] {
            [file] => file.reader.remarks(),
            files => files.iter().flat_map(|file| file.reader.remarks_of_file()).collect(),
        }
    }

    /// The share of it that has been read, about.
    fn share(&self) -> Option<f64> {
        let shares: Option<f64> = self.files.iter().map(|file| file.reader.share()).sum();
        shares.map(|sum| sum / self.files.len() as f64)
    }

    /// Threads that there were.
    fn threads(&self) -> u64 {
        let all: BTreeSet<u64> =
            self.files.iter().flat_map(|file| file.records.threads()).collect();
        (all.len() as u64).max(1)
    }

    fn next(&mut self) -> Result<Option<Instruction>, StreamError> {
        let several = self.files.len() > 1;
        if several && !self.settled {
            self.settle()?;
        }
        let file = &mut self.files[self.last];
        file.fill()?;
        let Some((_, next)) = file.ready.pop_front() else { return Ok(None) };
        if several {
            file.fill()?;
            let own = file.ready.front().map(|(time, _)| (*time, self.last));
            // Another file is next where it is earlier.
            self.settled = match (own, self.until) {
                (Some(own), Some(until)) => own < until,
                (own, until) => until.is_none() && own.is_some(),
            };
        }
        Ok(Some(next))
    }

    /// Finds the file whose instruction is next, and how far it goes before another's.
    fn settle(&mut self) -> Result<(), StreamError> {
        for file in &mut self.files {
            file.fill()?;
        }
        let heads = (0..).zip(&self.files);
        let heads = heads.filter_map(|(at, file)| Some((file.ready.front()?.0, at)));
        let mut heads: Vec<(Option<u64>, usize)> = heads.collect();
        heads.sort_unstable();
        self.last = heads.first().map_or(0, |(_, at)| *at);
        self.until = heads.get(1).copied();
        self.settled = true;
        Ok(())
    }
}

impl File {
    /// Reads on until an instruction is whole, or to the end.
    fn fill(&mut self) -> Result<(), StreamError> {
        while self.ready.is_empty() && !self.ended {
            let time = self.records.time();
            if !self.reader.read()? {
                self.records.end(&mut self.whole);
                self.ended = true;
            } else if let Some(record) = self.reader.record() {
                let read = self.records.read(record, &mut self.whole);
                read.map_err(|why| self.reader.wrong(&why))?;
            }
            self.ready.extend(self.whole.drain(..).map(|one| (time, one)));
        }
        Ok(())
    }
}

/// Writes all instructions of `source` to `to` in `format`, and what they load and store; `most` accesses at most.
/// `goes_on` is asked now and then, and ends it.
///
/// # Errors
/// Where the source is wrong, or the target cannot be written.
pub fn convert_instructions(
    source: &mut InstructionSource,
    format: &Format,
    how: &How,
    most: Option<u64>,
    to: &mut dyn io::Write,
    goes_on: impl FnMut(Passed) -> bool,
) -> Result<Converted, ConvertError> {
    let Some(of_format) = format.write_instructions else {
        return Err(ConvertError::OnlyRead(format.name));
    };
    let most = most.unwrap_or(u64::MAX);
    let mut done = Converted::default();
    let mut buffer = Vec::from(format.opening);
    // Instructions without an access that the target tells with the next that has one.
    let mut left = 0u64;
    let mut looks = Looks::new(goes_on);
    while done.read < most
        && let Some(mut one) = source.next()?
    {
        one.accesses.truncate(usize::try_from(most - done.read).unwrap_or(usize::MAX));
        done.read += one.accesses.len() as u64;
        done.instructions += one.before + u64::from(one.counts);
        match format.instructions.and_then(|of_target| of_target.write) {
            Some(write) => {
                done.instructions_nowhere +=
                    one.before + u64::from(one.counts && one.address.is_none());
                let mut before = one.before;
                // One line may tell of so many that whoever asked for it wants to break it off.
                while before > 0 && !looks.have_ended() {
                    let some = before.min(PLAIN_AT_ONCE);
                    (of_format.write)(some, None, &mut buffer);
                    before -= some;
                    drain(&mut buffer, to)?;
                    looks.go_on(some, || Passed { requests: done.read, share: source.share() });
                }
                if looks.have_ended() {
                    break;
                }
                spread(&mut one, format.extent, how, &mut done);
                write(&one, &mut buffer, &mut done);
            }
            None => {
                left += one.before + u64::from(one.counts);
                done.branches_left_out += u64::from(one.branch.is_some());
                done.registers_left_out += u64::from(one.registers.is_some());
                done.places_left_out += u64::from(one.address.is_some());
                spread(&mut one, format.extent, how, &mut done);
                for access in one.accesses.iter().flat_map(|access| format.parts(access)) {
                    let written = (of_format.write)(left, Some(&access), &mut buffer);
                    done.instructions_left_out += left.saturating_sub(written);
                    done.instructions_added += written.saturating_sub(left);
                    done.written += 1;
                    left = 0;
                }
            }
        }
        drain(&mut buffer, to)?;
        let work = 1 + one.accesses.len() as u64;
        if !looks.go_on(work, || Passed { requests: done.read, share: source.share() }) {
            break;
        }
    }
    if left > 0 {
        let written = (of_format.write)(left, None, &mut buffer);
        done.instructions_left_out += left.saturating_sub(written);
    }
    let threads = source.threads();
    done.threads_joined = if threads > 1 { threads } else { 0 };
    buffer.extend_from_slice(format.closing);
    to.write_all(&buffer)?;
    to.flush()?;
    Ok(done)
}

fn drain(buffer: &mut Vec<u8>, to: &mut dyn io::Write) -> io::Result<()> {
    if buffer.len() >= AT_ONCE {
        to.write_all(buffer)?;
        buffer.clear();
    }
    Ok(())
}

/// Makes of accesses one for each line where the target has no sizes, and gives them a size where it has some and the
/// source tells none.
fn spread(one: &mut Instruction, extent: Extent, how: &How, done: &mut Converted) {
    if extent != Extent::Line {
        for access in one.accesses.iter_mut().filter(|access| access.bytes == 0) {
            access.bytes = super::told::bytes_in_line(access.address).into();
        }
        return;
    }
    let line_bytes = u64::from(how.line_bytes);
    for whole in std::mem::take(&mut one.accesses) {
        done.sizes_left_out += u64::from(whole.bytes > 0);
        one.accesses.push(TraceRequest { bytes: 0, ..whole });
        // The last byte may be the largest number.
        let mut next = (whole.address / line_bytes + 1).checked_mul(line_bytes);
        while let Some(address) = next.filter(|address| *address < whole.end()) {
            one.accesses.push(TraceRequest { address, bytes: 0, ..whole });
            next = address.checked_add(line_bytes);
        }
    }
}

impl Branch {
    /// Whether it is taken whenever it comes.
    pub(super) fn is_always_taken(self) -> bool {
        self != Branch::Conditional
    }
}

impl OfInstructions {
    /// Of a format of which instructions are told by their count alone.
    pub(super) const fn counted(read: fn() -> Box<dyn ReadInstructions>) -> Self {
        OfInstructions { read, write: None }
    }
}

#[cfg(test)]
mod tests {
    use super::super::drmemtrace::tests::record;
    use super::super::tests::Scratch;
    use super::super::{ProgramTrace, RequestKind, find};
    use super::*;
    use crate::stream::{Pull, Stream};
    use proptest::prelude::*;

    fn converted(file: &Scratch, from: &str, to: &str, most: Option<u64>) -> (Scratch, Converted) {
        let (source, target) = (find(from).unwrap(), find(to).unwrap());
        let mut source = InstructionSource::open(std::slice::from_ref(&file.0), source, target)
            .unwrap()
            .unwrap();
        let mut bytes = Vec::new();
        let how = How::default();
        let done = convert_instructions(&mut source, target, &how, most, &mut bytes, |_| true);
        (Scratch::new(&bytes), done.unwrap())
    }

    fn read(file: &Scratch, format: &str) -> Vec<Instruction> {
        let format = find(format).unwrap();
        let mut source = InstructionSource::open(std::slice::from_ref(&file.0), format, format)
            .unwrap()
            .unwrap();
        std::iter::from_fn(|| source.next().unwrap()).collect()
    }

    /// Instructions of a trace as a machine counts them.
    fn counted(file: &Scratch, format: &str) -> u64 {
        let files = std::slice::from_ref(&file.0);
        let format = find(format).unwrap();
        let mut trace = ProgramTrace::open(files, format, &Choices::new(), 1).unwrap();
        let mut ops = Vec::new();
        while trace.pull(0, 999, &mut ops).unwrap() == Pull::More {}
        ops.iter().map(|op| u64::from(op.instructions())).sum()
    }

    /// A trace of drmemtrace.
    fn written(all: &[Instruction]) -> Scratch {
        let format = find("drmemtrace").unwrap();
        let mut bytes = Vec::from(format.opening);
        let write = format.instructions.unwrap().write.unwrap();
        all.iter().for_each(|one| write(one, &mut bytes, &mut Converted::default()));
        bytes.extend_from_slice(format.closing);
        Scratch::new(&bytes)
    }

    fn branch() -> impl Strategy<Value = (Option<Branch>, Option<bool>)> {
        prop_oneof![
            4 => Just((None, None)),
            1 => Just((Some(Branch::Jump), Some(true))),
            1 => Just((Some(Branch::IndirectJump), Some(true))),
            1 => any::<bool>().prop_map(|taken| (Some(Branch::Conditional), Some(taken))),
            1 => Just((Some(Branch::Call), Some(true))),
            1 => Just((Some(Branch::IndirectCall), Some(true))),
            1 => Just((Some(Branch::Return), Some(true))),
        ]
    }

    fn instructions() -> impl Strategy<Value = Vec<Instruction>> {
        let access =
            (1u64..1 << 40, 1u32..100, any::<bool>()).prop_map(|(address, bytes, write)| {
                TraceRequest { address, bytes, kind: RequestKind::of(write), ticks: None }
            });
        let accesses = proptest::collection::vec(access, 0..8);
        let one = (1u64..1 << 47, 1u16..16, branch(), accesses);
        let one = one.prop_map(|(address, bytes, (branch, taken), accesses)| Instruction {
            counts: true,
            address: Some(address),
            bytes,
            branch,
            taken,
            accesses,
            ..Instruction::default()
        });
        proptest::collection::vec(one, 1..30).prop_filter("a trace has an access", |all| {
            all.iter().any(|one| !one.accesses.is_empty())
        })
    }

    /// Lines of an instruction's accesses, loads first.
    fn lines(one: &Instruction) -> Vec<(bool, u64)> {
        let mut all = Vec::new();
        for write in [false, true] {
            for access in one.accesses.iter().filter(|access| access.is_write() == write) {
                let lines = access.address / 64..=(access.end() - 1) / 64;
                all.extend(lines.map(|line| (write, line)));
            }
        }
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        #[test]
        fn what_both_formats_tell_of_instructions_comes_back(all in instructions()) {
            let file = written(&all);
            prop_assert_eq!(&read(&file, "drmemtrace"), &all);
            let count = all.len() as u64;
            let branches = all.iter().filter(|one| one.branch.is_some()).count() as u64;
            let accesses: u64 = all.iter().map(|one| one.accesses.len() as u64).sum();

            let (lackey, done) = converted(&file, "drmemtrace", "lackey", None);
            prop_assert_eq!((done.instructions, done.branches_left_out), (count, branches));
            prop_assert_eq!((done.read, done.written), (accesses, accesses));
            let (back, _) = converted(&lackey, "lackey", "drmemtrace", None);
            let plain = |one: &Instruction| Instruction { branch: None, taken: None, ..one.clone() };
            let expected: Vec<_> = all.iter().map(plain).collect();
            prop_assert_eq!(read(&back, "drmemtrace"), expected);

            let (champsim, done) = converted(&file, "drmemtrace", "champsim", None);
            let all_lines: usize = all.iter().map(|one| lines(one).len()).sum();
            prop_assert_eq!(done.written, all_lines as u64);
            prop_assert_eq!(counted(&champsim, "champsim"), count + done.instructions_added);
            let (back, _) = converted(&champsim, "champsim", "drmemtrace", None);
            // What one record has no room for stands in further ones at the same address.
            let mut found = read(&back, "drmemtrace").into_iter().peekable();
            for one in &all {
                let mut again = found.next().unwrap();
                prop_assert_eq!((again.address, again.branch), (one.address, one.branch));
                prop_assert_eq!(again.taken, one.taken);
                while lines(&again).len() < lines(one).len() {
                    let more = found.next().unwrap();
                    prop_assert_eq!((more.address, more.branch), (one.address, None));
                    again.accesses.extend(more.accesses);
                }
                prop_assert_eq!(lines(&again), lines(one));
            }
            prop_assert_eq!(found.next(), None);
        }

        #[test]
        fn instructions_that_are_counted_stay_as_many(all in instructions()) {
            let file = written(&all);
            let (cpu, done) = converted(&file, "drmemtrace", "ramulator-cpu", None);
            prop_assert_eq!(done.places_left_out, all.len() as u64);
            let told = all.len() as u64 + done.instructions_added - done.instructions_left_out;
            prop_assert_eq!(counted(&cpu, "ramulator-cpu"), told);
            for target in ["lackey", "drmemtrace", "champsim"] {
                let (again, done) = converted(&cpu, "ramulator-cpu", target, None);
                prop_assert_eq!(done.instructions_nowhere, told);
                prop_assert_eq!(counted(&again, target), told + done.instructions_added);
            }
        }
    }

    #[test]
    fn a_trace_without_instructions_has_each_access_count_as_one() {
        let file = Scratch::new(b" L 1000,8\n M 2000,4\n");
        let (champsim, done) = converted(&file, "lackey", "champsim", None);
        assert_eq!((done.instructions, done.instructions_nowhere), (2, 2));
        assert_eq!(counted(&champsim, "champsim"), counted(&file, "lackey"));
        let file = Scratch::new(b"I 400000,3\n L 1000,8\nI 400003,2\n M 2000,4\nI 400005,1\n");
        let (_, done) = converted(&file, "lackey", "drmemtrace", Some(2));
        assert_eq!((done.read, done.written, done.instructions), (2, 2, 2));
    }

    /// One line of a few bytes may tell of 2^30 instructions.
    #[test]
    fn a_conversion_ends_when_told_to_in_the_middle_of_a_line() {
        let file = Scratch::new(b"1073741824 0x40\n");
        let (source, target) = (find("ramulator-cpu").unwrap(), find("champsim").unwrap());
        let mut source = InstructionSource::open(std::slice::from_ref(&file.0), source, target)
            .unwrap()
            .unwrap();
        let (mut bytes, mut asked) = (Vec::new(), 0);
        let goes_on = |_| {
            asked += 1;
            asked < 3
        };
        let how = How::default();
        convert_instructions(&mut source, target, &how, None, &mut bytes, goes_on).unwrap();
        assert_eq!(bytes.len() as u64, 3 * super::super::looks::LOOK_EVERY * 64);
    }

    #[test]
    fn registers_are_kept_where_both_tell_them() {
        let mut record = [0u8; 64];
        record[0] = 7;
        record[10..16].copy_from_slice(&[3, 0, 4, 0, 0, 0]);
        record[32] = 64;
        let file = Scratch::new(&record);
        let (same, done) = converted(&file, "champsim", "champsim", None);
        assert_eq!(std::fs::read(&same.0).unwrap(), record);
        assert_eq!(done.registers_left_out, 0);
        let (_, done) = converted(&file, "champsim", "lackey", None);
        assert_eq!(done.registers_left_out, 1);
    }

    /// A file of a thread: what it does from each time on, one instruction with a load at each place.
    fn of_thread(thread: u64, process: u64, pieces: &[(u64, &[u64])]) -> Scratch {
        let mut all = vec![record(25, 0, 3), record(22, 0, thread), record(24, 0, process)];
        for (time, places) in pieces {
            all.extend((*time > 0).then(|| record(28, 2, *time)));
            for place in *places {
                all.extend([record(10, 4, *place), record(0, 8, place << 12)]);
            }
        }
        all.extend([record(23, 0, thread), record(26, 0, 0)]);
        Scratch::new(&all.concat())
    }

    fn several(files: &[&Scratch], format: &str) -> Option<InstructionSource> {
        let files: Vec<PathBuf> = files.iter().map(|file| file.0.clone()).collect();
        let format = find(format).unwrap();
        InstructionSource::open(&files, format, format).unwrap()
    }

    /// Instructions of several threads come in the order of their times, and of one time in that of the files. What has a
    /// time that goes back comes where it stands.
    #[test]
    fn files_of_a_processs_threads_are_joined_by_their_times() {
        let one = of_thread(1, 7, &[(10, &[0x100, 0x104]), (30, &[0x108]), (25, &[0x10c])]);
        let two = of_thread(2, 7, &[(10, &[0x200]), (20, &[0x204, 0x208])]);
        let three = of_thread(3, 7, &[(5, &[0x300]), (40, &[])]);
        let files = [&one, &two, &three];
        let mut source = several(&files, "drmemtrace").unwrap();
        let all = std::iter::from_fn(|| source.next().unwrap());
        let places: Vec<u64> = all.filter_map(|one| one.address).collect();
        assert_eq!(places, [0x300, 0x100, 0x104, 0x200, 0x204, 0x208, 0x108, 0x10c]);
        assert_eq!(source.threads(), 3);
        let mut source = several(&files, "drmemtrace").unwrap();
        let (how, mut to) = (How::default(), Vec::new());
        let lackey = find("lackey").unwrap();
        let done = convert_instructions(&mut source, lackey, &how, Some(6), &mut to, |_| true);
        let done = done.unwrap();
        assert_eq!((done.read, done.written, done.instructions, done.threads_joined), (6, 6, 6, 3));
    }

    #[test]
    fn files_without_an_order_or_of_several_processes_are_not_joined() {
        let good = of_thread(1, 7, &[(10, &[0x100]), (20, &[0x104])]);
        for other in [of_thread(2, 8, &[(10, &[0x200])]), of_thread(2, 7, &[(0, &[0x200])])] {
            assert!(several(&[&good, &other], "drmemtrace").is_none());
        }
        let text = Scratch::new(b" L 1000,8\n");
        for format in ["lackey", "ramulator-cpu", "champsim"] {
            assert!(several(&[&text, &text], format).is_none());
        }
    }
}
