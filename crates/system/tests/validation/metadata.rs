//! Metadata that is read, against the real kernel. `tests/kernel/observe_metadata.py` mounted file systems with nothing in
//! memory on a loop device, and wrote what each step read of them; here the model takes the same steps.
//!
//! `TIERSCOPE_OBSERVED_METADATA=FILE` compares with what was observed on this computer instead (`make kernel`).

use super::support::*;
use serde::Deserialize;
use tierscope_model::os::file_system::FileSystemSpec;
use tierscope_model::os::paging::{Moves, Next, Paging, TransferId, Work};
use tierscope_workload::FileId;

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

/// As ext4 does, where it stands in for ext3.
const AHEAD: &str = "Linux 6.18 reads 32 blocks of inodes ahead, ext3 of old none";
/// Steps that read something else here, by file system, and why.
const OTHERWISE: [(&str, &str, (u64, u64), &str); 4] = [
    ("ext3", "open a/g7", (2, 2), AHEAD),
    ("ext3", "open a/b/deep", (2, 2), AHEAD),
    (
        "ext3",
        "write n1",
        (1, 1),
        "Linux 6.18 reads all bitmaps of blocks after mounting, ext3 of old each when needed",
    ),
    (
        "xfs",
        "write n1",
        (2, 2),
        "the list of blocks for the trees of free space (AGFL) is not modelled",
    ),
];

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

/// A kernel whose device takes no time, and how often and how much metadata is read.
struct Host {
    paging: Paging,
    read: (u64, u64),
}

impl Host {
    fn new(kind: &str) -> Host {
        let described = format!(
            "kind = \"{kind}\"\njournal = \"ordered\"\ncommit_interval = \"0s\"\njournal_capacity = \"16MiB\"\n\
             barrier = \"flush\"\ntimestamp_interval = \"4ms\""
        );
        let spec: FileSystemSpec = toml::from_str(&described).unwrap();
        let machine = system("storage/quick", &[&[("storage.initial", "empty")]]);
        let (os, (storage, _)) = (machine.os.as_ref().unwrap(), machine.paging().unwrap());
        let mut paging = Paging::new(os, 4, STORE_BYTES / 4, Some((storage, STORE_BYTES)), 1);
        paging.add_file_system(&spec, true).unwrap();
        // Where they are, before anybody asks for them.
        for (file, parent, size) in [(G7, A, PAGE), (G8, A, PAGE), (DEEP, B, PAGE), (B, A, 0)] {
            paging.tell_parent(file, parent, size).unwrap();
        }
        Host { paging, read: (0, 0) }
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

    fn read(&mut self, page: u64) {
        loop {
            let mut work = Vec::new();
            let next = self.paging.read_page(BIG, page, page, &mut work, &|_| false).unwrap();
            self.work(work);
            if matches!(next, Next::Ready(_)) {
                return;
            }
        }
    }

    fn write(&mut self, file: FileId) {
        let mut work = Vec::new();
        let next = self.paging.write_page(file, 0, true, &mut work, &|_| false).unwrap();
        let Next::Ready(frame) = next else { panic!("there is room: {next:?}") };
        self.work(work);
        self.paging.copied_to(frame, 0).unwrap();
        self.paging.extend_file(file, PAGE);
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
            "open a/g7" => self.open(G7, PAGE),
            "open a/g8" => self.open(G8, PAGE),
            "list a" => {
                self.paging.list_directory(A, PAGE).unwrap();
                self.wanted();
            }
            "open a/b/deep" => self.open(DEEP, PAGE),
            "open big" => self.open(BIG, BIG_BYTES),
            "create n1" => self.open(N1, 0),
            "write n1" => self.write(N1),
            "unlink f5" => {
                self.paging.unlink(F5, PAGE).unwrap();
                self.wanted();
            }
            _ => {
                let page = step.strip_prefix("read big ").expect("a step").parse().unwrap();
                self.read(page);
            }
        }
        std::mem::take(&mut self.read)
    }
}

#[test]
fn as_much_metadata_is_read_as_linux_reads() {
    let observed: Observed = observation("TIERSCOPE_OBSERVED_METADATA", "metadata-6.18.json");
    let (mut compared, mut otherwise) = (0, 0);
    for System { name: kind, steps } in &observed.systems {
        let mut host = Host::new(kind);
        for Step { name, requests, blocks } in steps {
            let read = host.take(name);
            let known = OTHERWISE.iter().find(|it| (it.0, it.1) == (kind, name));
            let expected = known.map_or((*requests, *blocks), |it| it.2);
            assert_eq!(read, expected, "{kind}, {name}, Linux {}", observed.kernel);
            compared += 1;
            otherwise += usize::from(known.is_some());
        }
    }
    println!("{compared} steps compared, {otherwise} of them known to be otherwise");
    assert_eq!((compared, otherwise), (45, OTHERWISE.len()));
}

#[test]
fn nothing_is_read_of_what_was_made() {
    for kind in ["ext4", "ext3", "xfs"] {
        let mut host = Host::new(kind);
        for file in 1000..1400 {
            host.open(file, 0);
            host.write(file);
            host.open(file, 0);
        }
        // But for the topmost directory, and bitmaps or trees of inodes and blocks, as of a file system that had some.
        assert!(host.read.0 <= 5, "{kind}: {:?}", host.read);
    }
}
