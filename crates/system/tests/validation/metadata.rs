//! Metadata that is read, against the real kernel. `tests/kernel/observe_metadata.py` mounted file systems with nothing in
//! memory on a loop device, and wrote what each step read of them; here the model takes the same steps.
//!
//! With the fixed steps the model was developed; what was drawn by a seed judges it.
//!
//! `TIERSCOPE_OBSERVED_METADATA=FILE` and `TIERSCOPE_OBSERVED_DRAWN_METADATA=FILE` compare with what was observed on this
//! computer instead (`make kernel`).

use super::support::*;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use tierscope_model::os::file_system::FileSystemSpec;
use tierscope_model::os::paging::{Moves, Next, Paging, TransferId, Work};
use tierscope_workload::FileId;
use tierscope_workload::op::NO_FILE;

const STORE_BYTES: u64 = 512 << 20;
const BIG_BYTES: u64 = 64 << 20;
/// Files, of which XFS has inodes of so many beside each other in clusters of 32, and two directories.
const F3: FileId = 3;
const F4: FileId = 4;
const F5: FileId = 2;
const A: FileId = 21;
const G7: FileId = 22;
const G8: FileId = 23;
const B: FileId = 53;
const DEEP: FileId = 54;
const BIG: FileId = 0;
const N1: FileId = 1;

#[derive(Deserialize)]
struct Observed {
    kernel: String,
    systems: Vec<System>,
}

#[derive(Deserialize)]
struct System {
    name: String,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    name: String,
    requests: u64,
    blocks: u64,
}

/// Inodes of a group of ext3, as the first of the second of which Linux makes the first directory; ext4 has 16 groups
/// together (`flex_bg`).
const GROUP_INODES: FileId = 8192;

/// A kernel whose device takes no time, and how often and how much metadata is read.
struct Host {
    paging: Paging,
    read: (u64, u64),
    /// What a directory and what is in it have beyond their numbers.
    beyond: FileId,
}

impl Host {
    fn new(kind: &str) -> Host {
        let described = format!(
            "kind = \"{kind}\"\njournal = \"ordered\"\ncommit_interval = \"0s\"\njournal_capacity = \"16MiB\"\n\
             barrier = \"flush\"\ntimestamp_interval = \"4ms\""
        );
        let spec: FileSystemSpec = toml::from_str(&described).unwrap();
        let sets = [("storage.initial", "empty"), ("storage.readahead_release", "6.18")];
        let machine = system("storage/quick", &[&sets]);
        let (os, (storage, _)) = (machine.os.as_ref().unwrap(), machine.paging().unwrap());
        let mut paging = Paging::new(os, 4, STORE_BYTES / 4, Some((storage, STORE_BYTES)), 1);
        paging.add_file_system(&spec, true).unwrap();
        let beyond = if kind == "ext3" { GROUP_INODES - FIRST_FILE as FileId - A } else { 0 };
        Host { paging, read: (0, 0), beyond }
    }

    /// With the files of the fixed steps.
    fn of_fixed_files(kind: &str) -> Host {
        let mut host = Host::new(kind);
        // Where they are, before anybody asks for them.
        for (file, parent, size) in [(G7, A, PAGE), (G8, A, PAGE), (DEEP, B, PAGE), (B, A, 0)] {
            let [file, parent] = [file, parent].map(|it| it + host.beyond);
            host.paging.tell_parent(file, parent, size).unwrap();
        }
        host
    }

    fn submit(&mut self, id: TransferId) {
        let transfer = self.paging.transfer(id);
        if matches!(transfer.moves, Moves::Metadata { .. }) && !transfer.write {
            self.read.0 += 1;
            self.read.1 += transfer.pages.len() as u64;
        }
        self.paging.submitted(id);
        while !self.paging.page_moved(id) {}
        self.paging.finish_transfer(id);
    }

    fn work(&mut self, work: Vec<Work>) {
        for item in work {
            if let Work::Submit(id) = item {
                self.submit(id);
            }
        }
        self.wanted();
    }

    /// What a call waits for before it goes on.
    fn wanted(&mut self) {
        for run in self.paging.wanted_metadata() {
            let mut work = Vec::new();
            self.paging.read_metadata(run, &mut work);
            self.work(work);
        }
    }

    fn open(&mut self, file: FileId, size_bytes: u64) {
        self.paging.open(file, size_bytes).unwrap();
        self.wanted();
    }

    fn list(&mut self, directory: FileId, bytes: u64) {
        self.paging.list_directory(directory, bytes).unwrap();
        self.wanted();
    }

    fn unlink(&mut self, file: FileId, size_bytes: u64) {
        self.paging.unlink(file, size_bytes).unwrap();
        self.wanted();
    }

    fn read(&mut self, file: FileId, page: u64) {
        loop {
            let mut work = Vec::new();
            let next = self.paging.read_page(file, page, page, &mut work, &|_| false).unwrap();
            self.work(work);
            if matches!(next, Next::Ready(_)) {
                return;
            }
        }
    }

    fn write(&mut self, file: FileId, page: u64) {
        let mut work = Vec::new();
        let next = self.paging.write_page(file, page, true, &mut work, &|_| false).unwrap();
        let Next::Ready(frame) = next else { panic!("there is room: {next:?}") };
        self.work(work);
        self.paging.copied_to(frame, 0).unwrap();
        self.paging.extend_file(file, (page + 1) * PAGE);
        self.wanted();
        let mut work = Vec::new();
        while self.paging.sync(file, Paging::ALL_PAGES, &mut work).unwrap().is_some() {
            let begun = std::mem::take(&mut work);
            self.work(begun);
        }
    }

    fn take(&mut self, step: &str) -> (u64, u64) {
        match step {
            "open f3" => self.open(F3, PAGE),
            "open f4" => self.open(F4, PAGE),
            "open a/g7" => self.open(G7 + self.beyond, PAGE),
            "open a/g8" => self.open(G8 + self.beyond, PAGE),
            "list a" => self.list(A + self.beyond, PAGE),
            "open a/b/deep" => self.open(DEEP + self.beyond, PAGE),
            "open big" => self.open(BIG, BIG_BYTES),
            "create n1" => self.open(N1, 0),
            "write n1" => self.write(N1, 0),
            "unlink f5" => self.unlink(F5, PAGE),
            _ => {
                let page = step.strip_prefix("read big ").expect("a step").parse().unwrap();
                self.read(BIG, page);
            }
        }
        std::mem::take(&mut self.read)
    }
}

#[test]
fn as_much_metadata_is_read_as_linux_reads() {
    let observed: Observed = observation("TIERSCOPE_OBSERVED_METADATA", "metadata-6.18.json");
    let mut compared = 0;
    for System { name: kind, steps } in &observed.systems {
        let mut host = Host::of_fixed_files(kind);
        for Step { name, requests, blocks } in steps {
            let read = host.take(name);
            assert_eq!(read, (*requests, *blocks), "{kind}, {name}, Linux {}", observed.kernel);
            compared += 1;
        }
    }
    assert_eq!(compared, 45);
}

#[test]
fn nothing_is_read_of_what_was_made() {
    for kind in ["ext4", "ext3", "xfs"] {
        let mut host = Host::new(kind);
        for file in 1000..1400 {
            host.open(file, 0);
            host.write(file, 0);
            host.open(file, 0);
        }
        // But for the topmost directory, and bitmaps or trees of inodes and blocks, as of a file system that had some.
        assert!(host.read.0 <= 5, "{kind}: {:?}", host.read);
    }
}

// ---- What was drawn ---------------------------------------------------------------------------

/// Bits of an inode's number within its allocation group, of four groups in 512 MiB, and inodes of one that the model has.
const XFS_GROUP_BITS: u32 = 18;
const XFS_GROUP_INODES: u64 = 4096;
/// The first inode of a group that is one, and inodes of a cluster.
const XFS_FIRST_INODE: u64 = 128;
const XFS_CLUSTER: u64 = 32;
/// The first number that the model gives to a file, counted from 0.
const FIRST_FILE: u64 = 11;
/// Files that no step is about.
const OTHERS: FileId = 15_000;

#[derive(Deserialize)]
struct Drawn {
    kernel: String,
    systems: Vec<DrawnSystem>,
}

/// By path: inodes that steps are about, and how many names directories have; a larger file, and its blocks.
#[derive(Deserialize)]
struct DrawnSystem {
    name: String,
    inodes: BTreeMap<String, u64>,
    names: BTreeMap<String, u64>,
    big: (String, u64),
    steps: Vec<Step>,
}

fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// A host with drawn files: which number each has, and how many pages.
struct DrawnHost {
    host: Host,
    files: BTreeMap<String, FileId>,
    pages: BTreeMap<String, u64>,
    others: FileId,
}

impl DrawnHost {
    fn new(system: &DrawnSystem) -> DrawnHost {
        let mut taken = BTreeSet::new();
        let mut number = |inode: u64| -> FileId {
            if system.name != "xfs" {
                // Inodes are counted from 1, and the first that a file gets is the twelfth.
                return (inode - 1 - FIRST_FILE) as FileId;
            }
            // The same cluster of its group, and there the next that is free.
            let within = (inode & ((1 << XFS_GROUP_BITS) - 1)) - XFS_FIRST_INODE;
            let first = (inode >> XFS_GROUP_BITS) * XFS_GROUP_INODES + within % XFS_GROUP_INODES;
            let cluster = first / XFS_CLUSTER * XFS_CLUSTER;
            let mut places = (first..cluster + XFS_CLUSTER).chain(cluster..first);
            let is_free = |place: &u64| *place >= FIRST_FILE && taken.insert(*place);
            (places.find(is_free).expect("a cluster has room") - FIRST_FILE) as FileId
        };
        let inodes = system.inodes.iter().filter(|(path, _)| !path.is_empty());
        let mut files: BTreeMap<String, FileId> = BTreeMap::new();
        files.extend(inodes.map(|(path, inode)| (path.clone(), number(*inode))));
        files.insert(String::new(), NO_FILE);
        let (pages, host) = (BTreeMap::new(), Host::new(&system.name));
        let mut drawn = DrawnHost { host, files, pages, others: OTHERS };
        // Directories before what is in them.
        for path in system.names.keys().filter(|path| !path.is_empty()) {
            drawn.is_there(path, None);
        }
        let is_new = |path: &str| path.rsplit('/').next().is_some_and(|it| it.starts_with('n'));
        for path in system.inodes.keys().filter(|it| !system.names.contains_key(*it)) {
            let pages = if *path == system.big.0 { system.big.1 } else { 1 };
            if !is_new(path) {
                drawn.is_there(path, Some(pages));
            }
        }
        for (directory, names) in &system.names {
            let told = drawn.pages.keys().filter(|path| parent_of(path) == directory).count();
            let inside = |it: &&String| !it.is_empty() && parent_of(it) == directory;
            let told = told + system.names.keys().filter(inside).count();
            for _ in told as u64..*names {
                let (file, parent) = (drawn.other(), drawn.files[directory]);
                drawn.host.paging.tell_parent(file, parent, PAGE).unwrap();
            }
        }
        drawn
    }

    fn other(&mut self) -> FileId {
        self.others += 1;
        self.others
    }

    /// A file of so many pages, or a directory, has been there from the start.
    fn is_there(&mut self, path: &str, pages: Option<u64>) {
        let (file, parent) = (self.files[path], self.files[parent_of(path)]);
        let size = pages.unwrap_or(0) * PAGE;
        self.host.paging.tell_there((file, pages.is_none()), parent, size).unwrap();
        self.pages.extend(pages.map(|pages| (path.to_owned(), pages)));
    }

    fn open(&mut self, path: &str) -> FileId {
        let file = self.files[path];
        self.host.open(file, self.pages[path] * PAGE);
        file
    }

    fn take(&mut self, system: &DrawnSystem, step: &str) -> (u64, u64) {
        let (kind, path) = step.split_once(' ').expect("a kind, and of what");
        match kind {
            "open" => {
                self.open(path);
            }
            "stat" => {
                self.host.paging.stat(self.files[path]);
                self.host.wanted();
            }
            "list" => self.host.list(self.files[path], 32 * system.names[path]),
            "read" => {
                let file = self.open(&system.big.0);
                self.host.read(file, path.parse().expect("a page"));
            }
            "create" => {
                // One that is deleted later has an inode that nobody knows.
                let other = self.other();
                let file = *self.files.entry(path.to_owned()).or_insert(other);
                let parent = self.files[parent_of(path)];
                self.host.paging.tell_parent(file, parent, 0).unwrap();
                self.pages.insert(path.to_owned(), 0);
                self.host.open(file, 0);
            }
            "append" => {
                let file = self.open(path);
                let pages = self.pages.get_mut(path).expect("it is there");
                *pages += 1;
                self.host.write(file, *pages - 1);
            }
            "unlink" => {
                let pages = self.pages.remove(path).expect("it is there");
                self.host.unlink(self.files[path], pages * PAGE);
            }
            kind => panic!("no step is called {kind}"),
        }
        std::mem::take(&mut self.host.read)
    }
}

/// As many blocks with as many requests in 95 steps of 100. What differs: Linux reads inodes of ext4 ahead no further than
/// their group has had any (`__ext4_get_inode_loc`, fs/ext4/inode.c), has a file of XFS in the allocation group of its
/// directory, and gives a new file of ext3 an inode of its directory's group, though another group has one that is free.
#[test]
fn drawn_steps_that_judge_read_as_much_metadata_as_linux_reads() {
    let observed: Drawn =
        observation("TIERSCOPE_OBSERVED_DRAWN_METADATA", "metadata-drawn-6.18.json");
    // Of each kind: compared, as many blocks with as many requests, blocks of the kernel and of the model.
    let mut counts: BTreeMap<&str, [u64; 4]> = BTreeMap::new();
    for system in &observed.systems {
        let mut host = DrawnHost::new(system);
        for step in &system.steps {
            let read = host.take(system, &step.name);
            let same = read == (step.requests, step.blocks);
            if !same {
                println!(
                    "{}, {}: {read:?}, of Linux {} {:?}",
                    system.name,
                    step.name,
                    observed.kernel,
                    (step.requests, step.blocks)
                );
            }
            let count = counts.entry(&system.name).or_default();
            let more = [1, u64::from(same), step.blocks, read.1];
            count.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
    }
    println!("compared, the same, blocks of the kernel and of the model: {counts:?}");
    for (kind, [compared, same, kernel, model]) in counts {
        assert!(compared >= 80 && 100 * same >= 95 * compared, "{kind}: {same} of {compared}");
        if kind != "ext4" {
            assert!(
                kernel.abs_diff(model) * 10 <= kernel,
                "{model} blocks, of the kernel {kernel}"
            );
        }
    }
}
