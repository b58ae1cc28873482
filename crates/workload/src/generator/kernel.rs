//! `build` and `patch`: a tree of Linux is compiled, and patched from release to release, as the
//! calls on files that make, the compiler, the assembler, the linker and patch do (\[NVM10\] §IV-A: 2.6.23.1
//! with all options, and 2.6.0 to 2.6.29).
//!
//! Files and lines of the tree, and files that a release changes, are those of T. Leemhuis' Kernel Log
//! (heise open, "The innovations of Linux 2.6.28", 2008: 22,530 files with 8,566,554 lines in 2.6.23; 82,042
//! changes of files and 9,386,813 of lines in the nine releases 2.6.20 to 2.6.28). What is assumed is said where
//! it stands. Instructions of the compiler have no accesses but to what is read and written.

use super::prelude::{BASE_ADDRESS, Prelude};
use super::units::{Units, barrier, in_units};
use super::{Generator, Parameter, ParameterError, find_value, integer, text, threads_of, wrong};
use crate::op::{Call, FileId, MAP_WRITABLE, NO_FILE, Op, ThreadId};
use crate::stream::{FileInfo, Footprint};
use patch::Patch;
use serde_json::Value;
use tierscope_kernel::Counter;

mod patch;

const TREE_FILES: u64 = 22_530;
const TREE_LINES: u64 = 8_566_554;
const RELEASES: u64 = 9;
const CHANGED_FILES: u64 = 82_042;
const CHANGED_LINES: u64 = 9_386_813;
/// Releases from 2.6.0 to 2.6.29.
const PATCHES: u64 = 29;
/// Bytes of a line of C: our assumption.
const TEXT_BYTES: u64 = 30;
const MEAN_BYTES: u64 = TREE_LINES * TEXT_BYTES / TREE_FILES;
/// Of the tree's files, one of so many is compiled, and one of so many is a header: our assumptions.
const FILES_PER_SOURCE: u64 = 3;
const FILES_PER_HEADER: u64 = 3;
/// Headers that all sources include: our assumption.
const COMMON_HEADERS: u64 = 64;
/// Sources of a folder: our assumption.
const FOLDER: u64 = 16;
/// Bytes of text of the assembler for one of the object: our assumption.
const ASSEMBLER: u64 = 4;
/// Mean bytes of an object: what makes 0.5 GB (\[NVM10\] Table III) with the text of the tree.
const OBJECT_BYTES: u64 = (500_000_000 - TREE_LINES * TEXT_BYTES) / (TREE_FILES / FILES_PER_SOURCE);
/// What the C library writes and reads at once (`st_blksize`).
const BUFFER_BYTES: u64 = 4096;
const DEPENDENCY_BYTES: u64 = 4096;
const LINE_BYTES: u64 = 64;
/// Numbers of system calls (Linux, x86-64).
const STAT: u64 = 4;
const RENAME: u64 = 82;
const CHMOD: u64 = 90;
/// Instructions of a call's surroundings, and of each line of text that is read or written (some of each
/// byte): our assumptions.
const CALL_INSTRUCTIONS: u32 = 500;
const LINE_INSTRUCTIONS: u32 = 64;
const MEMORY_STRIDE: u64 = 1 << 32;
const MEMORY_BYTES: u64 = 1 << 20;

const FILES: Parameter = Parameter {
    name: "files",
    default: "\"quick\"",
    meaning: "files of the tree: quick is 300, full the 22530 of Linux 2.6.23 (Kernel Log), or a number",
};

/// Registration.
pub const GENERATORS: &[Generator] = &[
    Generator {
        name: "build",
        summary: "a tree of Linux compiled and linked, as calls on its files",
        dependences: "",
        parameters: &[
            FILES,
            Parameter {
                name: "threads",
                default: "8",
                meaning: "jobs at a time (`make -j`), each of which has whole folders; [NVM10]'s host has 8 cores, its number is not stated",
            },
            Parameter {
                name: "headers",
                default: "200",
                meaning: "headers that a source includes, of a third of the files; assumption",
            },
            Parameter {
                name: "instructions",
                default: "50000000",
                meaning: "of a compilation beside those of reading and writing; assumption",
            },
        ],
        build: |parameters, seed| {
            let files = files_of(parameters)?;
            Ok(in_units(Build {
                sources: (files / FILES_PER_SOURCE).max(1),
                headers: (files / FILES_PER_HEADER).max(1),
                threads: threads_of(parameters)?,
                included: integer(parameters, "headers", 0..=10_000)?,
                instructions: integer(parameters, "instructions", 0..=1 << 40)?,
                sizes: Counter::stream(seed, "kernel/sizes"),
                draws: Counter::stream(seed, "kernel/headers"),
            }))
        },
    },
    Generator {
        name: "patch",
        summary: "a tree of Linux patched from release to release, as calls on its files",
        dependences: "",
        parameters: &[
            FILES,
            Parameter {
                name: "patches",
                default: "2",
                meaning: "patches, one behind the other; [NVM10] goes from 2.6.0 to 2.6.29: 29",
            },
        ],
        build: |parameters, seed| {
            let files = files_of(parameters)?;
            let patches = integer(parameters, "patches", 1..=PATCHES)?;
            Ok(in_units(Patch::new(files, patches, seed)))
        },
    },
];

fn files_of(parameters: &[(String, Value)]) -> Result<u64, ParameterError> {
    match text(parameters, "files") {
        Some("quick") => Ok(300),
        Some("full") => Ok(TREE_FILES),
        Some(_) => {
            let value = find_value(parameters, "files");
            Err(wrong("files", value, "not a number", "write quick, full or a number such as 300"))
        }
        None => integer(parameters, "files", 3..=1 << 20),
    }
}

/// A size of this mean, from 1 on, more often small than large (a product of two even draws): our assumption.
fn size(sizes: &Counter, file: u64, mean_bytes: u64) -> u64 {
    let [one, other] = [2 * file, 2 * file + 1].map(|draw| sizes.below_at(draw, 2 * mean_bytes));
    (u128::from(one) * u128::from(other) / u128::from(mean_bytes)) as u64 + 1
}

/// The thread's buffer.
fn memory_of(thread: ThreadId) -> u64 {
    BASE_ADDRESS + u64::from(thread) * MEMORY_STRIDE
}

/// What a process does to files, by way of its thread's buffer.
struct Calls<'a> {
    memory: u64,
    out: &'a mut Vec<Op>,
}

impl Calls<'_> {
    fn call(&mut self, call: Call) {
        call.encode(CALL_INSTRUCTIONS, self.out);
    }

    fn other(&mut self, number: u64) {
        self.call(Call::Other { number });
    }

    /// Each line of the buffer that so many bytes take is loaded, or stored to.
    fn lines(&mut self, bytes: u64, access: fn(u64, u16, u32) -> Op) {
        for at in (0..bytes).step_by(LINE_BYTES as usize) {
            self.out.push(access(self.memory + at, 8, LINE_INSTRUCTIONS));
        }
    }

    /// Reads from a place of an open file, and what was read.
    fn read_at(&mut self, file: FileId, offset: u64, length: u64) {
        let address = self.memory;
        self.call(Call::Read { file, offset, length, address });
        self.lines(length, Op::load);
    }

    /// Reads a file of this size whole, by calls of the buffer.
    fn read(&mut self, file: FileId, size: u64) {
        self.call(Call::Open { file, size });
        self.other(STAT);
        for offset in (0..size).step_by(MEMORY_BYTES as usize) {
            self.read_at(file, offset, MEMORY_BYTES.min(size - offset));
        }
        self.call(Call::Close { file });
    }

    /// Makes a file of this size, by way of the C library's buffer.
    fn write(&mut self, file: FileId, size: u64) {
        self.call(Call::Open { file, size: 0 });
        let address = self.memory;
        for offset in (0..size).step_by(BUFFER_BYTES as usize) {
            let length = BUFFER_BYTES.min(size - offset);
            self.lines(length, Op::store);
            self.call(Call::Write { file, offset, length, address });
        }
        self.call(Call::Close { file });
    }

    fn delete(&mut self, file: FileId) {
        self.call(Call::Truncate { file, length: 0 });
        self.call(Call::Unlink { file, size: 0 });
    }

    fn compute(&mut self, instructions: u64) {
        let mut left = instructions;
        while left > 0 {
            let some = left.min(1 << 30);
            self.out.push(Op::compute(some as u32));
            left -= some;
        }
    }
}

fn mapped(threads: u32) -> Prelude {
    (0..threads).fold(Prelude::default(), |prelude, thread| {
        prelude.map(memory_of(thread), MEMORY_BYTES, MAP_WRITABLE, NO_FILE)
    })
}

// ---- Building ------------------------------------------------------------------------------------

/// Folders are dealt to threads in turn. A thread compiles the sources of each of its folders, links them
/// (`built-in.o`), and goes on; when all are done, the first links all folders.
#[derive(Clone)]
struct Build {
    sources: u64,
    headers: u64,
    threads: u32,
    included: u64,
    instructions: u64,
    sizes: Counter,
    draws: Counter,
}

/// A file of the build.
#[derive(Clone, Copy, Debug)]
enum File {
    Source(u64),
    Header(u64),
    Object(u64),
    /// Dependencies of a source, from which make knows what to do the next time.
    Dependencies(u64),
    /// The objects of a folder.
    Folder(u64),
    /// Text for the assembler, and dependencies as the compiler tells them, of a thread.
    Assembler(u64),
    Told(u64),
    Kernel,
}

impl Build {
    fn folders(&self) -> u64 {
        self.sources.div_ceil(FOLDER)
    }

    fn id(&self, file: File) -> FileId {
        let threads = u64::from(self.threads);
        let (sources, headers, folders) = (self.sources, self.headers, self.folders());
        let counts = [sources, headers, sources, sources, folders, threads, threads];
        let (place, number) = match file {
            File::Source(number) => (0, number),
            File::Header(number) => (1, number),
            File::Object(number) => (2, number),
            File::Dependencies(number) => (3, number),
            File::Folder(number) => (4, number),
            File::Assembler(number) => (5, number),
            File::Told(number) => (6, number),
            File::Kernel => (7, 0),
        };
        (counts[..place].iter().sum::<u64>() + number) as FileId
    }

    fn size(&self, file: File) -> u64 {
        match file {
            File::Source(number) => size(&self.sizes, number, MEAN_BYTES),
            File::Header(number) => size(&self.sizes, self.sources + number, MEAN_BYTES),
            // A larger source has a larger object.
            File::Object(number) => self.size(File::Source(number)) * OBJECT_BYTES / MEAN_BYTES + 1,
            File::Folder(number) => {
                self.of_folder(number).map(|source| self.size(File::Object(source))).sum()
            }
            File::Kernel => (0..self.folders()).map(|folder| self.size(File::Folder(folder))).sum(),
            File::Dependencies(_) | File::Told(_) | File::Assembler(_) => DEPENDENCY_BYTES,
        }
    }

    fn of_folder(&self, folder: u64) -> std::ops::Range<u64> {
        folder * FOLDER..((folder + 1) * FOLDER).min(self.sources)
    }

    /// The headers of a source: those that all have, and others, more often the first of them.
    fn included(&self, source: u64) -> impl Iterator<Item = u64> + '_ {
        let common = COMMON_HEADERS.min(self.headers).min(self.included);
        let rest = self.headers - common;
        let others = if rest == 0 { 0 } else { self.included - common };
        let other = move |number: u64| {
            let draw = 2 * (source * self.included + number);
            let [one, other] = [draw, draw + 1].map(|draw| self.draws.below_at(draw, rest.max(1)));
            common + (u128::from(one) * u128::from(other) / u128::from(rest.max(1))) as u64
        };
        (0..common).chain((0..others).map(other))
    }

    fn compile(&self, source: u64, thread: ThreadId, out: &mut Vec<Op>) {
        let calls = &mut Calls { memory: memory_of(thread), out };
        let id = |file| self.id(file);
        let thread = u64::from(thread);
        // make looks whether there is something to do.
        calls.other(STAT);
        calls.other(STAT);
        calls.read(id(File::Source(source)), self.size(File::Source(source)));
        for header in self.included(source) {
            // The folder that is searched first does not have it.
            calls.other(STAT);
            calls.read(id(File::Header(header)), self.size(File::Header(header)));
        }
        calls.compute(self.instructions);
        let (object, text) = (File::Object(source), File::Assembler(thread));
        let text_bytes = self.size(object) * ASSEMBLER;
        calls.write(id(text), text_bytes);
        calls.write(id(File::Told(thread)), DEPENDENCY_BYTES);
        // The assembler.
        calls.read(id(text), text_bytes);
        calls.write(id(object), self.size(object));
        calls.delete(id(text));
        // `fixdep`.
        calls.read(id(File::Told(thread)), DEPENDENCY_BYTES);
        calls.write(id(File::Dependencies(source)), DEPENDENCY_BYTES);
        calls.delete(id(File::Told(thread)));
    }

    fn link(
        &self,
        parts: impl Iterator<Item = File>,
        whole: File,
        thread: ThreadId,
        out: &mut Vec<Op>,
    ) {
        let calls = &mut Calls { memory: memory_of(thread), out };
        for part in parts {
            calls.read(self.id(part), self.size(part));
        }
        calls.write(self.id(whole), self.size(whole));
    }

    /// Folders of a thread.
    fn dealt(&self, thread: ThreadId) -> u64 {
        (self.folders() + u64::from(self.threads - 1 - thread)) / u64::from(self.threads)
    }
}

impl Units for Build {
    fn threads(&self) -> u32 {
        self.threads
    }

    fn prelude(&self) -> Prelude {
        mapped(self.threads)
    }

    /// Sources and the link of each folder, and the end.
    fn units(&self, thread: ThreadId) -> u64 {
        self.dealt(thread) * (FOLDER + 1) + 1
    }

    fn unit(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        if unit + 1 == self.units(thread) {
            barrier(thread, self.threads, 1, out);
            if thread == 0 {
                self.link((0..self.folders()).map(File::Folder), File::Kernel, thread, out);
            }
            return;
        }
        let folder = unit / (FOLDER + 1) * u64::from(self.threads) + u64::from(thread);
        let (sources, place) = (self.of_folder(folder), unit % (FOLDER + 1));
        if place == FOLDER {
            self.link(sources.map(File::Object), File::Folder(folder), thread, out);
        } else if sources.start + place < sources.end {
            self.compile(sources.start + place, thread, out);
        }
    }

    fn footprint(&self) -> Footprint {
        let of =
            |file: fn(u64) -> File, count| (0..count).map(move |n| self.size(file(n))).sum::<u64>();
        let objects = of(File::Object, self.sources);
        let files = of(File::Source, self.sources) + of(File::Header, self.headers) + 3 * objects;
        let memory = MEMORY_BYTES * u64::from(self.threads);
        Footprint { bytes: files + memory, parameter: "files" }
    }

    fn files(&self) -> Vec<FileInfo> {
        let there = |name: &str, count, file: fn(u64) -> File| {
            let info = |n| FileInfo { name: format!("{name}/{n}"), size_bytes: self.size(file(n)) };
            (0..count).map(info).collect::<Vec<_>>()
        };
        let made = |name: &str, count: u64| {
            let info = |n| FileInfo { name: format!("{name}/{n}"), size_bytes: 0 };
            (0..count).map(info).collect::<Vec<_>>()
        };
        let threads = u64::from(self.threads);
        let sets = [
            there("source", self.sources, File::Source),
            there("header", self.headers, File::Header),
            made("object", self.sources),
            made("dependencies", self.sources),
            made("folder", self.folders()),
            made("assembler", threads),
            made("told", threads),
            made("kernel", 1),
        ];
        sets.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{calls_of_thread, stream_laws};
    use crate::generator::find;
    use crate::goodness;
    use std::collections::{BTreeMap, BTreeSet};

    pub fn sets(all: &[(&str, Value)]) -> Vec<(String, Value)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    fn small() -> Vec<(String, Value)> {
        sets(&[("files", 120.into()), ("threads", 3.into()), ("headers", 30.into())])
    }

    /// Calls of a thread, and its instructions.
    pub fn calls(name: &str, sets: &[(String, Value)], thread: u32) -> Vec<Call> {
        let (mut stream, _) = find(name).unwrap().make(sets, 5).unwrap();
        calls_of_thread(stream.as_mut(), thread)
    }

    #[test]
    fn the_streams_laws_hold() {
        let few = sets(&[("files", 12.into()), ("threads", 3.into()), ("headers", 3.into())]);
        stream_laws(|| find("build").unwrap().make(&few, 7).unwrap().0);
        let few = sets(&[("files", 60.into()), ("patches", 3.into())]);
        stream_laws(|| find("patch").unwrap().make(&few, 7).unwrap().0);
    }

    /// What there was and what was made: reads stay within, nothing is read before it is made, and each
    /// source has its object, each folder its own, and the kernel all.
    #[test]
    fn a_build_reads_what_is_there_and_makes_all_objects() {
        let (stream, _) = find("build").unwrap().make(&small(), 5).unwrap();
        let files = stream.files();
        let named = |id: FileId| files[id as usize].name.as_str();
        let mut sizes: BTreeMap<FileId, u64> = BTreeMap::new();
        let mut opened = BTreeSet::new();
        // Thread 0 comes last, as it links what the others have made.
        for thread in [1, 2, 0] {
            for call in calls("build", &small(), thread) {
                match call {
                    Call::Open { file, size } => {
                        opened.insert(file);
                        let at_first = files[file as usize].size_bytes;
                        let has = sizes.get(&file).copied().unwrap_or(at_first);
                        assert!(size == has || size == 0, "{}: {size} of {has}", named(file));
                    }
                    Call::Write { file, offset, length, .. } => {
                        assert_eq!(offset, if offset == 0 { 0 } else { sizes[&file] });
                        sizes.insert(file, offset + length);
                    }
                    Call::Read { file, offset, length, .. } => {
                        let at_first = files[file as usize].size_bytes;
                        let has = sizes.get(&file).copied().unwrap_or(at_first);
                        assert!(offset + length <= has, "{}", named(file));
                    }
                    Call::Unlink { file, .. } => drop(sizes.remove(&file)),
                    _ => {}
                }
            }
        }
        let made = |kind: &'static str| {
            sizes.iter().filter(move |(file, _)| named(**file).starts_with(kind))
        };
        assert_eq!(made("object").count(), 40);
        assert_eq!((made("folder").count(), made("dependencies").count()), (3, 40));
        let objects: u64 = made("object").map(|(_, bytes)| bytes).sum();
        let kernel: u64 = made("kernel").map(|(_, bytes)| bytes).sum();
        assert_eq!(objects, kernel);
        assert_eq!(made("assembler").count() + made("told").count(), 0, "they are deleted");
        assert!(opened.iter().filter(|file| named(**file).starts_with("header")).count() == 30);
    }

    #[test]
    fn the_full_tree_is_that_of_the_sources() {
        let full = sets(&[("files", "full".into())]);
        let (stream, _) = find("build").unwrap().make(&full, 1).unwrap();
        let of = |kind: &str| {
            let all =
                stream.files().iter().filter(|file| file.name.starts_with(kind)).cloned().collect();
            let all: Vec<FileInfo> = all;
            let bytes = all.iter().map(|file| file.size_bytes).sum::<u64>() as f64;
            (all.len() as u64, bytes / all.len() as f64)
        };
        let (sources, mean) = of("source");
        assert_eq!(sources, TREE_FILES / 3);
        let wanted = 30.0 * TREE_LINES as f64 / TREE_FILES as f64;
        assert!((mean / wanted - 1.0).abs() < 0.03, "{mean} instead of {wanted}");
        let footprint = stream.footprint().unwrap().bytes;
        // Two thirds of the tree, and objects as such, in folders and in the kernel.
        assert!((800_000_000..1_000_000_000).contains(&footprint), "{footprint}");
    }

    #[test]
    fn wrong_parameters_are_refused() {
        for (workload, name, value) in [
            ("build", "files", Value::from("all")),
            ("build", "threads", 0.into()),
            ("patch", "patches", 30.into()),
            ("patch", "files", 1.into()),
        ] {
            let told = find(workload).unwrap().make(&sets(&[(name, value)]), 0).err().unwrap();
            assert_eq!(told.name, name);
        }
    }

    /// Sizes are products of two even draws, x of which have x (1 - ln x); a source includes the headers that all
    /// have, and others by the same law, each of its files at the size that it was given.
    #[test]
    fn sizes_and_headers_are_products_of_even_draws() {
        let sizes = Counter::stream(5, "test");
        let all = (0..20_000).map(|file| (size(&sizes, file, 10_000) - 1) as f64 / 40_000.0);
        goodness::follow(all.collect(), |x| if x > 0.0 { x * (1.0 - x.ln()) } else { 0.0 });
        let build = Build {
            sources: 1000,
            headers: COMMON_HEADERS + 50,
            threads: 1,
            included: COMMON_HEADERS + 30,
            instructions: 0,
            sizes,
            draws: sizes,
        };
        let mut found = [0; 50];
        for source in 0..1000 {
            let all: Vec<u64> = build.included(source).collect();
            let (common, others) = all.split_at(COMMON_HEADERS as usize);
            assert_eq!((common, others.len()), (&*(0..64).collect::<Vec<_>>(), 30));
            others.iter().for_each(|header| found[(header - 64) as usize] += 1);
        }
        let of = |header: u64| {
            let pairs = (0..50 * 50).filter(|pair| (pair / 50) * (pair % 50) / 50 == header);
            pairs.count() as f64
        };
        goodness::have_weights(&found, (0..50).map(of));
    }
}
