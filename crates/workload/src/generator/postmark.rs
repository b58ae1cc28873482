//! `postmark`: a pool of files that are created, read, appended to and deleted at random, as by a server of
//! mail or news (J. Katcher, "PostMark: A New File System Benchmark", NetApp TR3022, 1997; its version 1.5
//! has the parameters below). `postmark/series` has those of \[EBC11\]: five processes, one after the other.
//!
//! Files are created first. Each transaction is then two things: a file is read whole or appended to, and a
//! file is created or deleted; which, and of which file, is drawn. In the end all files are deleted, unless
//! that is asked not to be. What is written is text from a place drawn in a table of twice the largest file.
//! With buffering, calls move a block of the file system, by way of a buffer of the C library; without,
//! they move what the program asks for. All processes draw the same numbers, so that they use the same names.

use super::prelude::{BASE_ADDRESS, Prelude, TOUCHED};
use super::units::{Units, in_units};
use super::{Generator, Made, PAGE_BYTES, Parameter, find_value, flag, integer, size, wrong};
use crate::op::{Call, MAP_WRITABLE, NO_FILE, Op, ThreadId};
use crate::stream::{FileInfo, Footprint};
use serde_json::Value;
use std::sync::Arc;
use tierscope_kernel::random::Random;

/// Parameters in which the two differ.
macro_rules! parameters {
    ($processes:literal, $files:literal, $transactions:literal, $least:literal, $most:literal, $read:literal,
     $create:literal, $seed:literal) => {
        &[
            Parameter {
                name: "processes",
                default: $processes,
                meaning: "processes that do all of it, one after the other",
            },
            Parameter { name: "files", default: $files, meaning: "files created first (`set number`)" },
            Parameter {
                name: "transactions",
                default: $transactions,
                meaning: "transactions (`set transactions`)",
            },
            Parameter { name: "least", default: $least, meaning: "smallest file (`set size`)" },
            Parameter { name: "most", default: $most, meaning: "largest file (`set size`)" },
            Parameter {
                name: "subdirectories",
                default: "0",
                meaning: "folders that the files are in, which are made and removed (`set subdirectories`)",
            },
            Parameter {
                name: "read_block",
                default: "\"512B\"",
                meaning: "what the program reads at once (`set read`)",
            },
            Parameter {
                name: "write_block",
                default: "\"512B\"",
                meaning: "what the program writes at once (`set write`)",
            },
            Parameter {
                name: "bias_read",
                default: $read,
                meaning: "transactions of ten that read; the others append, with -1 none does either \
                          (`set bias read`)",
            },
            Parameter {
                name: "bias_create",
                default: $create,
                meaning: "transactions of ten that create a file; the others delete one, with -1 none does \
                          either (`set bias create`)",
            },
            Parameter {
                name: "buffered",
                default: "true",
                meaning: "whether the C library buffers (`set buffering`)",
            },
            DIRECT,
            Parameter {
                name: "delete",
                default: "true",
                meaning: "whether the files that are left are deleted in the end, as PostMark does",
            },
            Parameter {
                name: "seed",
                default: $seed,
                meaning: "of the numbers that are drawn (`set seed`)",
            },
            INSTRUCTIONS,
            TOUCHED,
        ]
    };
}

const DIRECT: Parameter = Parameter {
    name: "direct",
    default: "false",
    meaning: "whether calls go past the page cache (O_DIRECT), of whole pages of 4KiB and without the C library's buffer; \
              [NVM10] §IV-A tries both",
};
const INSTRUCTIONS: Parameter = Parameter {
    name: "instructions",
    default: "200",
    meaning: "the program's own instructions of each call; assumption: a loop around it, its share of \
              names and draws",
};

/// Registration.
pub const GENERATORS: &[Generator] = &[
    Generator {
        name: "postmark",
        summary: "files created, read, appended to and deleted at random (PostMark 1.5)",
        dependences: "",
        parameters: parameters!("1", "500", "500", "\"500B\"", "\"10000B\"", "5", "5", "42"),
        build,
    },
    Generator {
        name: "postmark/series",
        summary: "five PostMark processes one after the other, of 10,000 files each ([EBC11])",
        dependences: "",
        // The talk's; favoured: our reading, by the least that does.
        parameters: parameters!(
            "5",
            "10000",
            "50000",
            "\"400000B\"",
            "\"800000B\"",
            "6",
            "6",
            "42"
        ),
        build,
    },
];

const LINE_BYTES: u64 = 64;
/// What the C library's buffer holds: a block of the file system (`st_blksize`).
const BUFFER_BYTES: u64 = 4096;
/// Instructions of copying a line in the program: a string operation, our assumption.
const COPY_INSTRUCTIONS: u32 = 4;
const MOST_FILES: u64 = 1 << 20;

/// What is done to one file, or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    MakeFolder(u32),
    RemoveFolder(u32),
    /// It comes to have so many bytes, of the text from this place on, in a folder, where there are any.
    Create {
        file: u32,
        folder: Option<u32>,
        bytes: u64,
        text: u64,
    },
    /// So many bytes of it are read: all.
    Read {
        file: u32,
        bytes: u64,
    },
    /// Bytes are added behind those that it has.
    Append {
        file: u32,
        has: u64,
        bytes: u64,
        text: u64,
    },
    Delete {
        file: u32,
    },
}

struct Pool {
    random: Random,
    least: u64,
    most: u64,
    /// Files that exist, and their sizes.
    files: Vec<(u32, u64)>,
    next: u32,
    folders: u32,
    /// Bytes that they have, and the most that they had at once.
    bytes: u64,
    peak_bytes: u64,
    deeds: Vec<Deed>,
}

impl Pool {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound.max(1))
    }

    fn create(&mut self) {
        let bytes = self.least + self.below(self.most - self.least + 1);
        let text = self.below(self.most + 1);
        let file = self.next;
        self.next += 1;
        self.files.push((file, bytes));
        // Of one folder nothing is drawn (`location_index`).
        let folder = (self.folders > 1).then(|| self.below(self.folders.into()) as u32);
        let folder = folder.or((self.folders == 1).then_some(0));
        self.deeds.push(Deed::Create { file, folder, bytes, text });
        self.grow(bytes);
    }

    fn any(&mut self) -> Option<usize> {
        let count = self.files.len() as u64;
        (count > 0).then(|| self.below(count) as usize)
    }

    fn read(&mut self) {
        let Some(at) = self.any() else { return };
        let (file, bytes) = self.files[at];
        self.deeds.push(Deed::Read { file, bytes });
    }

    fn append(&mut self) {
        let Some(at) = self.any() else { return };
        let (file, has) = self.files[at];
        if has < self.most {
            let bytes = 1 + self.below(self.most - has);
            let text = self.below(self.most + 1);
            self.files[at].1 += bytes;
            self.deeds.push(Deed::Append { file, has, bytes, text });
            self.grow(bytes);
        }
    }

    fn delete(&mut self, at: usize) {
        let (file, has) = self.files.swap_remove(at);
        self.bytes -= has;
        self.deeds.push(Deed::Delete { file });
    }

    fn grow(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.bytes);
    }
}

/// A bias: transactions of ten, or none.
fn bias(parameters: &[(String, Value)], name: &str) -> Result<Option<u64>, super::ParameterError> {
    let value = find_value(parameters, name);
    match value.as_i64() {
        Some(-1) => Ok(None),
        Some(of_ten @ 0..=10) => Ok(Some(of_ten as u64)),
        _ => {
            Err(wrong(name, value, "no number of ten", "write one from 0 to 10, or -1 for neither"))
        }
    }
}

fn build(parameters: &[(String, Value)], seed: u64) -> Made {
    let bytes = |name: &str, most: u64| {
        let bytes = size(parameters, name)?;
        if (1..=most).contains(&bytes) {
            return Ok(bytes);
        }
        let reason = format!("not from 1B to {}MiB", most >> 20);
        Err(wrong(name, find_value(parameters, name), &reason, "write a size such as 512B"))
    };
    let (least, most) = (bytes("least", 1 << 30)?, bytes("most", 1 << 30)?);
    if least > most {
        let reason = "less than workload.least";
        return Err(wrong("most", find_value(parameters, "most"), reason, "write as much or more"));
    }
    let (read_block, write_block) = (bytes("read_block", 1 << 24)?, bytes("write_block", 1 << 24)?);
    let files = integer(parameters, "files", 1..=MOST_FILES / 2)?;
    let transactions = integer(parameters, "transactions", 0..=MOST_FILES / 2)?;
    let (reads, creates) = (bias(parameters, "bias_read")?, bias(parameters, "bias_create")?);
    let folders = integer(parameters, "subdirectories", 0..=1 << 20)?;
    let direct = flag(parameters, "direct")?;
    let own = integer(parameters, "seed", 0..=u64::from(u32::MAX))?;
    let mut pool = Pool {
        random: Random::stream(seed ^ own, "postmark"),
        least,
        most,
        files: Vec::new(),
        next: 0,
        folders: folders as u32,
        bytes: 0,
        peak_bytes: 0,
        deeds: (0..folders as u32).map(Deed::MakeFolder).collect(),
    };
    for _ in 0..files {
        pool.create();
    }
    for _ in 0..transactions {
        if let Some(reads) = reads {
            if pool.below(10) < reads { pool.read() } else { pool.append() }
        }
        if let Some(creates) = creates {
            if pool.below(10) < creates {
                pool.create();
            } else if let Some(at) = pool.any() {
                pool.delete(at);
            }
        }
    }
    if flag(parameters, "delete")? {
        while !pool.files.is_empty() {
            pool.delete(0);
        }
        pool.deeds.extend((0..folders as u32).map(Deed::RemoveFolder));
    }
    let postmark = PostMark {
        processes: integer(parameters, "processes", 1..=1 << 20)?,
        files: pool.next,
        folders: folders as u32,
        peak_bytes: pool.peak_bytes,
        deeds: Arc::new(pool.deeds),
        text_bytes: (2 * most).next_multiple_of(PAGE_BYTES),
        read_block,
        write_block,
        buffered: flag(parameters, "buffered")? && !direct,
        direct,
        instructions: integer(parameters, "instructions", 1..=1_000_000)? as u32,
        touched: flag(parameters, "touched")?,
    };
    Ok(in_units(postmark))
}

#[derive(Clone)]
struct PostMark {
    processes: u64,
    files: u32,
    folders: u32,
    peak_bytes: u64,
    /// What a process does.
    deeds: Arc<Vec<Deed>>,
    text_bytes: u64,
    read_block: u64,
    write_block: u64,
    buffered: bool,
    direct: bool,
    instructions: u32,
    touched: bool,
}

impl PostMark {
    /// Where the C library buffers, and where the program has what it reads.
    fn buffer(&self) -> u64 {
        BASE_ADDRESS + self.text_bytes
    }

    fn block(&self) -> u64 {
        self.buffer() + BUFFER_BYTES
    }

    /// Text, the C library's buffer, and the program's own.
    fn memory_bytes(&self) -> u64 {
        let block_bytes = self.read_block.max(BUFFER_BYTES).next_multiple_of(PAGE_BYTES);
        self.text_bytes + BUFFER_BYTES + block_bytes
    }

    /// Bytes of a call where the program asks for so many.
    fn call_bytes(&self, block: u64) -> u64 {
        if self.buffered { block.max(BUFFER_BYTES) } else { block }
    }

    /// Whether what the program asks for goes by way of the C library's buffer.
    fn copies(&self, block: u64) -> bool {
        self.buffered && block < BUFFER_BYTES
    }

    fn copy(from: u64, to: u64, bytes: u64, out: &mut Vec<Op>) {
        for at in (0..bytes).step_by(LINE_BYTES as usize) {
            let part = LINE_BYTES.min(bytes - at) as u16;
            out.push(Op::load(from + at, part, COPY_INSTRUCTIONS / 2));
            out.push(Op::store(to + at, part, COPY_INSTRUCTIONS / 2));
        }
    }

    /// Direct calls of whole pages, which cover some bytes of a file.
    fn direct(&self, file: u32, bytes: std::ops::Range<u64>, write: bool, out: &mut Vec<Op>) {
        let block = if write { self.write_block } else { self.read_block };
        let until = bytes.end.next_multiple_of(PAGE_BYTES);
        let mut offset = bytes.start / PAGE_BYTES * PAGE_BYTES;
        while offset < until {
            let length = block.next_multiple_of(PAGE_BYTES).min(until - offset);
            let call = if write {
                Call::WriteDirect { file, offset, length, address: BASE_ADDRESS }
            } else {
                Call::ReadDirect { file, offset, length, address: self.block() }
            };
            call.encode(self.instructions, out);
            offset += length;
        }
    }

    fn write(&self, file: u32, from: u64, bytes: u64, text: u64, out: &mut Vec<Op>) {
        if self.direct {
            return self.direct(file, from..from + bytes, true, out);
        }
        let most = self.call_bytes(self.write_block);
        let mut at = 0;
        while at < bytes {
            let length = most.min(bytes - at);
            let mut address = BASE_ADDRESS + text + at;
            if self.copies(self.write_block) {
                Self::copy(address, self.buffer(), length, out);
                address = self.buffer();
            }
            let offset = from + at;
            Call::Write { file, offset, length, address }.encode(self.instructions, out);
            at += length;
        }
    }

    fn read(&self, file: u32, bytes: u64, out: &mut Vec<Op>) {
        if self.direct {
            return self.direct(file, 0..bytes, false, out);
        }
        let length = self.call_bytes(self.read_block);
        let copies = self.copies(self.read_block);
        let address = if copies { self.buffer() } else { self.block() };
        // The last call finds the end.
        for offset in (0..bytes + 1).step_by(length as usize) {
            Call::Read { file, offset, length, address }.encode(self.instructions, out);
            if copies {
                let read = length.min(bytes.saturating_sub(offset));
                Self::copy(self.buffer(), self.block(), read, out);
            }
        }
    }

    fn deed(&self, deed: Deed, process: u64, out: &mut Vec<Op>) {
        let instructions = self.instructions;
        let call = |call: Call, out: &mut Vec<Op>| call.encode(instructions, out);
        match deed {
            Deed::MakeFolder(folder) => {
                let file = self.files + folder;
                call(Call::MakeDirectory { file, parent: NO_FILE }, out);
            }
            Deed::RemoveFolder(folder) => {
                call(Call::RemoveDirectory { file: self.files + folder }, out);
            }
            Deed::Create { file, folder, bytes, text } => {
                if let Some(folder) = folder {
                    call(Call::Within { file, parent: self.files + folder, size: 0 }, out);
                }
                call(Call::Open { file, size: 0 }, out);
                if process > 0 && self.buffered {
                    // What an earlier process left under this name is cut off (`fopen`, "w+").
                    call(Call::Truncate { file, length: 0 }, out);
                }
                self.write(file, 0, bytes, text, out);
                call(Call::Close { file }, out);
            }
            Deed::Read { file, bytes } => {
                call(Call::Open { file, size: bytes }, out);
                self.read(file, bytes, out);
                call(Call::Close { file }, out);
            }
            Deed::Append { file, has, bytes, text } => {
                call(Call::Open { file, size: has }, out);
                self.write(file, has, bytes, text, out);
                call(Call::Close { file }, out);
            }
            Deed::Delete { file } => {
                call(Call::Truncate { file, length: 0 }, out);
                call(Call::Unlink { file, size: 0 }, out);
            }
        }
    }
}

impl Units for PostMark {
    fn threads(&self) -> u32 {
        1
    }

    fn prelude(&self) -> Prelude {
        let bytes = self.memory_bytes();
        let mapped = Prelude::default().map(BASE_ADDRESS, bytes, MAP_WRITABLE, NO_FILE);
        mapped.touch(BASE_ADDRESS, bytes, self.touched)
    }

    fn units(&self, _thread: ThreadId) -> u64 {
        self.processes * self.deeds.len() as u64
    }

    fn unit(&self, _thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        let deeds = self.deeds.len() as u64;
        self.deed(self.deeds[(unit % deeds) as usize], unit / deeds, out);
    }

    fn longest(&self) -> u64 {
        /// Of a call, with its arguments.
        const CALL: u64 = 6;
        let of = |block: u64| {
            let (bytes, lines) = (self.call_bytes(block), if self.copies(block) { 2 } else { 0 });
            self.text_bytes / 2 / bytes * (CALL + lines * bytes.div_ceil(LINE_BYTES))
        };
        of(self.read_block).max(of(self.write_block))
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: self.peak_bytes + self.memory_bytes(), parameter: "files" }
    }

    fn files(&self) -> Vec<FileInfo> {
        let file = |number| FileInfo { name: format!("postmark/{number}"), size_bytes: 0 };
        let folder = |number| FileInfo { name: format!("postmark/s{number}/"), size_bytes: 0 };
        (0..self.files).map(file).chain((0..self.folders).map(folder)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{calls_of_thread, stream_laws};
    use crate::generator::find;
    use crate::goodness;
    use std::collections::BTreeMap;

    fn sets(all: &[(&str, Value)]) -> Vec<(String, Value)> {
        let small =
            [("files", Value::from(8)), ("transactions", 40.into()), ("touched", false.into())];
        let given = small.iter().chain(all);
        given.map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    fn calls(name: &str, all: &[(&str, Value)]) -> Vec<Call> {
        let (mut stream, _) = find(name).unwrap().make(&sets(all), 1).unwrap();
        calls_of_thread(stream.as_mut(), 0)
    }

    /// Sizes of the files that are left, by what the calls did; reads stay within files.
    fn left(calls: &[Call]) -> BTreeMap<u32, u64> {
        let mut files = BTreeMap::new();
        let mut cut = None;
        for call in calls {
            match *call {
                Call::Open { file, .. } => drop(files.entry(file).or_insert(0)),
                Call::Write { file, offset, length, .. } => {
                    let size = files.get_mut(&file).expect("it is open");
                    assert!(offset <= *size, "without holes");
                    *size = (offset + length).max(*size);
                }
                Call::Read { file, offset, .. } => assert!(offset <= files[&file]),
                Call::Truncate { file, length } => {
                    files.insert(file, length);
                    cut = Some(file);
                }
                Call::Unlink { .. } => drop(files.remove(&cut.expect("it was cut"))),
                _ => {}
            }
        }
        files
    }

    #[test]
    fn the_streams_laws_hold() {
        for buffered in [true, false] {
            let given = sets(&[("buffered", buffered.into()), ("processes", 2.into())]);
            stream_laws(|| find("postmark").unwrap().make(&given, 7).unwrap().0);
        }
    }

    #[test]
    fn all_files_are_deleted_unless_they_are_to_stay() {
        assert!(left(&calls("postmark", &[])).is_empty());
        let stay =
            left(&calls("postmark", &[("delete", false.into()), ("bias_create", 10.into())]));
        assert_eq!(stay.len(), 48, "8 at first, and one each transaction");
        assert!(stay.values().all(|size| (500..=10_000).contains(size)), "{stay:?}");
    }

    #[test]
    fn biases_say_what_transactions_do() {
        let count = |all: &[(&str, Value)], what: fn(&Call) -> bool| {
            calls("postmark", all).iter().filter(|call| what(call)).count()
        };
        let opens = |call: &Call| matches!(call, Call::Open { .. });
        let reads = |call: &Call| matches!(call, Call::Read { offset: 0, .. });
        let neither = [("bias_read", Value::from(-1)), ("bias_create", (-1).into())];
        assert_eq!((count(&neither, opens), count(&neither, reads)), (8, 0));
        let only_reads = [("bias_read", Value::from(10)), ("bias_create", (-1).into())];
        assert_eq!((count(&only_reads, opens), count(&only_reads, reads)), (48, 40));
        let many = [("transactions", Value::from(1000)), ("bias_read", 6.into())];
        assert!((550..650).contains(&count(&many, reads)));
    }

    #[test]
    fn buffered_calls_move_blocks_of_the_file_system_and_others_what_is_asked() {
        let longest = |buffered: bool, block: &str| {
            let given = [("buffered", buffered.into()), ("write_block", block.into())];
            let lengths = calls("postmark", &given).into_iter().filter_map(|call| match call {
                Call::Write { length, .. } => Some(length),
                _ => None,
            });
            lengths.max()
        };
        assert_eq!(longest(true, "512B"), Some(4096));
        assert_eq!(longest(false, "512B"), Some(512));
        assert_eq!(longest(true, "8KiB"), Some(8192));
    }

    #[test]
    fn direct_calls_are_of_whole_pages_and_cover_what_is_asked() {
        let given = [("direct", Value::from(true)), ("read_block", "8KiB".into())];
        let (mut sizes, mut most) = (BTreeMap::new(), 0);
        for call in calls("postmark", &given) {
            match call {
                Call::WriteDirect { file, offset, length, .. } => {
                    assert_eq!((offset % 4096, length), (0, 4096));
                    let size = sizes.entry(file).or_insert(0);
                    assert!(offset <= *size, "without holes");
                    *size = (offset + length).max(*size);
                }
                Call::ReadDirect { file, offset, length, .. } => {
                    assert_eq!((offset % 4096, length % 4096), (0, 0));
                    assert!(offset + length <= sizes[&file]);
                    most = most.max(length);
                }
                Call::Read { .. } | Call::Write { .. } => panic!("{call:?} is not direct"),
                _ => {}
            }
        }
        assert_eq!((sizes.len() > 8, most), (true, 8192));
        // From opening a file to closing it, the pages that calls of any bytes touch, and no others.
        let written = |given: &[(&str, Value)]| {
            let (mut all, mut runs) = (Vec::new(), BTreeMap::new());
            for call in calls("postmark", given) {
                match call {
                    Call::Write { file, offset, length, .. }
                    | Call::WriteDirect { file, offset, length, .. } => {
                        let run = runs.entry(file).or_insert((u64::MAX, 0));
                        *run =
                            (run.0.min(offset / 4096), run.1.max((offset + length).div_ceil(4096)));
                    }
                    Call::Close { file } => all.extend(runs.remove(&file).map(|run| (file, run))),
                    _ => {}
                }
            }
            all
        };
        let any = [("buffered", Value::from(false)), ("read_block", "8KiB".into())];
        assert_eq!(written(&given), written(&any));
        let laws = sets(&given);
        stream_laws(|| find("postmark").unwrap().make(&laws, 7).unwrap().0);
    }

    #[test]
    fn processes_of_a_series_do_the_same_and_find_what_was_left() {
        let one = calls("postmark", &[("delete", false.into())]);
        let two = calls("postmark", &[("delete", false.into()), ("processes", 2.into())]);
        assert_eq!(left(&one), left(&two));
        assert_eq!(two[..one.len()], one[..]);
        assert!(two.len() > 2 * one.len(), "the second cuts off what it finds");
    }

    #[test]
    fn the_series_is_that_of_the_talk() {
        let (stream, used) = find("postmark/series").unwrap().make(&[], 1).unwrap();
        let footprint = stream.footprint().unwrap();
        // 6 GB at first, and what is created beyond what is deleted.
        assert!((6 << 30..16 << 30).contains(&footprint.bytes), "{}", footprint.bytes);
        assert_eq!(used[0], ("processes".to_owned(), 5.into()));
    }

    #[test]
    fn wrong_parameters_are_refused() {
        for (name, value) in [
            ("bias_read", Value::from(11)),
            ("bias_create", "half".into()),
            ("most", "1B".into()),
            ("files", 0.into()),
            ("read_block", "0B".into()),
        ] {
            let told = find("postmark").unwrap().make(&sets(&[(name, value)]), 0).err().unwrap();
            assert_eq!(told.name, name);
        }
    }

    /// Sizes are even between the least and the most, and so are appended bytes up to the most; a file is any of those
    /// that are there; and transactions are what biases say.
    #[test]
    fn sizes_files_and_transactions_are_drawn_evenly() {
        let many = [("files", Value::from(2000)), ("transactions", 4000.into())];
        let with = |read: i64, create: i64| {
            let biases = [("bias_read", Value::from(read)), ("bias_create", create.into())];
            calls("postmark", &[&many[..], &biases].concat())
        };
        let (mut sizes, mut size) = (Vec::new(), 0);
        for call in with(-1, -1) {
            match call {
                Call::Open { size: 0, .. } => size = 0,
                Call::Write { length, .. } => size += length,
                Call::Close { .. } => sizes.push(size as f64 - 499.5),
                _ => {}
            }
        }
        assert_eq!(sizes.len(), 2000);
        goodness::follow(sizes, |size| (size / 9501.0).clamp(0.0, 1.0));

        // Of files that stay as they are, forty in a cell.
        let mut read = [0; 50];
        for call in with(10, -1) {
            if let Call::Read { file, offset: 0, .. } = call {
                read[file as usize / 40] += 1;
            }
        }
        assert_eq!(read.iter().sum::<u64>(), 4000);
        goodness::are_alike(&read);

        let (mut appended, mut has, mut bytes) = (Vec::new(), 0, 0);
        for call in with(0, -1) {
            match call {
                Call::Open { size, .. } => (has, bytes) = (size, 0),
                Call::Write { length, .. } => bytes += length,
                Call::Close { .. } if (1..9000).contains(&has) => {
                    appended.push((bytes as f64 - 0.5) / (10_000 - has) as f64);
                }
                _ => {}
            }
        }
        assert!(appended.len() > 1000, "{}", appended.len());
        goodness::follow(appended, |share| share.clamp(0.0, 1.0));

        // Behind the first 2000, a file of no size is opened to be created; the others are read or appended to.
        let (mut created, mut reads) = (0, 0);
        for call in with(6, 3) {
            created += u64::from(matches!(call, Call::Open { size: 0, .. }));
            reads += u64::from(matches!(call, Call::Read { offset: 0, .. }));
        }
        goodness::have_share(reads, 4000, 0.6);
        goodness::have_share(created - 2000, 4000, 0.3);
    }

    /// Which file is deleted does not depend on when it was created.
    #[test]
    fn any_file_is_deleted() {
        let given = [
            ("files", Value::from(1000)),
            ("transactions", 8000.into()),
            ("bias_read", (-1).into()),
            ("bias_create", 5.into()),
            ("delete", false.into()),
        ];
        let (mut there, mut ages, mut cut) = (Vec::new(), [0; 8], 0);
        for call in calls("postmark", &given) {
            match call {
                Call::Open { file, .. } => there.push(file),
                Call::Truncate { file, .. } => cut = file,
                Call::Unlink { .. } => {
                    let at = there.iter().position(|file| *file == cut).unwrap();
                    ages[8 * at / there.len()] += 1;
                    there.remove(at);
                }
                _ => {}
            }
        }
        assert!(ages.iter().sum::<u64>() > 3500, "{ages:?}");
        goodness::are_alike(&ages);
    }
}
