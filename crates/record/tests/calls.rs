//! System calls become the calls that a machine has to know, in program order.

mod common;

use common::{guest, record, scratch_file};
use tierscope_workload::op::{
    Advice, LOCK_ON_FAULT, MAP_LOCKED, MAP_NO_ACCESS, MAP_POPULATE, MAP_SHARED, MAP_WRITABLE,
    NO_FILE, POPULATE,
};
use tierscope_workload::{Call, FileId};

/// What guests say that lack something, by their exit statuses.
const NO_FLAGS_OF_A_CALL: i32 = 76;
const NO_DIRECT_CALLS: i32 = 77;

/// A guest's exit status, and its calls from the first on its own file to the end.
fn calls_of(name: &str) -> (i32, FileId, Vec<Call>) {
    let path = scratch_file("data");
    let recording = record(&guest(name), &[path.to_str().unwrap()]);
    std::fs::remove_file(&path).unwrap();
    let status = recording.report.exit_status;
    assert!([0, NO_FLAGS_OF_A_CALL, NO_DIRECT_CALLS].contains(&status), "{name}: {status}");
    let file = recording
        .files
        .iter()
        .position(|file| file.name == path.to_str().unwrap())
        .expect("the file is in the table") as FileId;
    let calls = recording.calls();
    let first = calls
        .iter()
        .position(|call| matches!(call, Call::Open { file: opened, .. } if *opened == file))
        .expect("it is opened");
    (status, file, calls[first..].to_vec())
}

fn calls_on_the_file() -> (FileId, Vec<Call>) {
    let (status, file, calls) = calls_of("files");
    assert_eq!(status, 0);
    (file, calls)
}

#[test]
fn direct_calls_and_writes_that_are_synced_are_recorded_as_such() {
    needs_qemu!();
    let (status, file, calls) = calls_of("direct");
    if status == NO_DIRECT_CALLS {
        eprintln!("the scratch directory's file system has no direct I/O: nothing to be recorded");
        return;
    }
    let told = |call: &Call| match *call {
        Call::Read { file: f, offset, length, .. } if f == file => Some(("read", offset, length)),
        Call::Write { file: f, offset, length, .. } if f == file => Some(("write", offset, length)),
        Call::ReadDirect { file: f, offset, length, .. } if f == file => {
            Some(("read past the cache", offset, length))
        }
        Call::WriteDirect { file: f, offset, length, .. } if f == file => {
            Some(("write past the cache", offset, length))
        }
        Call::Sync { file: f } if f == file => Some(("sync", 0, 0)),
        Call::SyncData { file: f } if f == file => Some(("sync its data", 0, 0)),
        _ => None,
    };
    let told: Vec<_> = calls.iter().filter_map(told).collect();
    let all = [
        ("write", 0, 8292),
        ("read past the cache", 4096, 4096),
        // As it was asked for, and not as far as the file goes.
        ("read past the cache", 4096, 8192),
        ("write past the cache", 0, 4096),
        ("write", 20, 10),
        ("sync its data", 0, 0),
        ("write", 40, 30),
        ("sync", 0, 0),
        // Behind the file's end, as it is appended to.
        ("write", 8292, 30),
        // Those with flags of their own, which an emulator may refuse.
        ("write", 60, 50),
        ("write", 110, 6),
        ("sync its data", 0, 0),
        ("write", 70, 50),
        ("sync", 0, 0),
        ("write", 8322, 50),
        ("read", 80, 50),
    ];
    assert_eq!(told, if status == NO_FLAGS_OF_A_CALL { &all[..9] } else { &all[..] });
}

#[test]
fn syncs_of_a_range_of_a_file_system_and_of_all_are_recorded_as_such() {
    needs_qemu!();
    let (status, file, calls) = calls_of("syncs");
    assert_eq!(status, 0);
    let syncs = |call: &&Call| {
        matches!(call, Call::Sync { .. } | Call::SyncData { .. } | Call::SyncAll {})
            || matches!(call, Call::SyncRange { .. } | Call::SyncFileRange { .. })
    };
    let syncs: Vec<Call> = calls.iter().filter(syncs).copied().collect();
    let range = |offset, length, flags| Call::SyncFileRange { file, offset, length, flags };
    let all = Call::SyncAll {};
    let Some((Call::SyncRange { address, length }, rest)) = syncs.split_last() else {
        panic!("msync comes last: {syncs:?}");
    };
    assert_eq!((address % 4096, *length), (0, 4096), "what begins to be written later is none");
    assert_eq!(rest, [range(4096, 8192, 2), range(8192, 0, 7), all, all, all]);
}

/// Of an emulator or a computer that does not lock memory.
const NO_LOCKS: i32 = 77;

#[test]
fn advice_on_a_file_and_memory_that_is_locked_or_asked_for_are_recorded_as_such() {
    needs_qemu!();
    let (status, file, calls) = calls_of("advice");
    assert!([0, NO_LOCKS].contains(&status), "{status}");
    let mut base = None;
    let told: Vec<Call> = calls
        .into_iter()
        .filter(|call| match *call {
            Call::Map { address, length, flags, .. } => {
                let is_it = (length, flags) == (1 << 20, MAP_NO_ACCESS);
                base = base.or(Some(address).filter(|_| is_it));
                base.is_some()
            }
            Call::Advise { .. } | Call::Protect { .. } => base.is_some(),
            Call::AdviseFile { .. } | Call::Lock { .. } | Call::Unlock { .. } => true,
            Call::LockAll { .. } | Call::Populate { .. } => true,
            _ => false,
        })
        .collect();
    let advised = |offset, length, advice| {
        let advice = advice as u64;
        Call::AdviseFile { file, offset, length, advice }
    };
    let Some(address) = base else { panic!("memory is mapped: {told:?}") };
    let map = |call: &Call| match *call {
        Call::Map { length, flags, .. } => (length, flags),
        _ => panic!("not a mapping: {call:?}"),
    };
    let (files, memory) = told.split_at(7);
    assert_eq!(
        files,
        [
            advised(0, 0, Advice::Normal),
            advised(4096, 100, Advice::Random),
            advised(8192, 200, Advice::Sequential),
            advised(12288, 300, Advice::WillNeed),
            advised(16384, 400, Advice::DontNeed),
            advised(20480, 500, Advice::NoReuse),
            advised(8192, 12288, Advice::WillNeed),
        ],
        "what fails, or asks for nothing, is none"
    );
    let [read, write] = POPULATE;
    assert_eq!(map(&memory[0]), (1 << 20, MAP_NO_ACCESS));
    assert_eq!(
        memory[1..8],
        [
            Call::Protect { address, length: 65536, flags: MAP_WRITABLE },
            Call::Protect { address: address + 65536, length: 4096, flags: 0 },
            Call::Populate { address, length: 8192, how: read },
            Call::Populate { address, length: 4096, how: write },
            Call::Advise { address, length: 8192, advice: Advice::Free as u64 },
            Call::Advise { address, length: 4096, advice: Advice::Cold as u64 },
            Call::Advise { address: address + 4096, length: 4096, advice: Advice::PageOut as u64 },
        ]
    );
    if status == NO_LOCKS {
        return;
    }
    assert_eq!(
        memory[8..11],
        [
            Call::Lock { address, length: 8192, flags: 0 },
            Call::Lock { address: address + 8192, length: 4096, flags: LOCK_ON_FAULT },
            Call::Unlock { address, length: 8192 },
        ],
        "whole pages"
    );
    assert_eq!(map(&memory[11]), (8192, MAP_WRITABLE | MAP_LOCKED | MAP_POPULATE));
    assert_eq!(map(&memory[12]), (8192, MAP_WRITABLE));
    let all = |flags| Call::LockAll { process: 0, flags };
    assert_eq!(memory[13..], [all(1), all(0)]);
}

/// Of a file system that cannot allocate blocks.
const NO_FALLOCATE: i32 = 78;

#[test]
fn names_taken_away_files_emptied_copies_and_allocation_are_recorded_as_such() {
    needs_qemu!();
    let path = scratch_file("removed");
    let path = path.to_str().unwrap();
    let recording = record(&guest("removals"), &[path]);
    std::fs::remove_file(path).unwrap();
    let status = recording.report.exit_status;
    assert!([0, NO_FALLOCATE].contains(&status), "{status}");
    let names: Vec<&str> = recording.files.iter().map(|file| file.name.as_str()).collect();
    // Which of the files that had a name one is, from 0.
    let which = |file: FileId| {
        let name = names[file as usize].strip_prefix(path)?;
        let before = names[..file as usize].iter().filter(|it| it.strip_prefix(path) == Some(name));
        let short = if name.is_empty() { "it" } else { name };
        Some(format!("{short} {}", before.count()))
    };
    // The directory that has them.
    let is_above = |file: FileId| {
        let above = std::path::Path::new(path).parent().and_then(|it| it.to_str());
        names[file as usize].strip_suffix('/') == above
    };
    let told = |call: &Call| match *call {
        Call::Open { file, size } => which(file).map(|file| format!("open {file} of {size}")),
        Call::Truncate { file, length } => {
            which(file).map(|file| format!("cut {file} at {length}"))
        }
        Call::Unlink { file, size } => which(file).map(|file| format!("delete {file} of {size}")),
        Call::Link { file, parent } if is_above(parent) => {
            which(file).map(|file| format!("link {file}"))
        }
        Call::Unname { file, parent } if is_above(parent) => {
            which(file).map(|file| format!("take a name of {file}"))
        }
        Call::Rename { file, parent, replaced: NO_FILE, .. } if is_above(parent) => {
            which(file).map(|file| format!("rename {file}"))
        }
        Call::Rename { file, parent, replaced, size, names: 0 } if is_above(parent) => {
            let (file, replaced) = (which(file)?, which(replaced)?);
            Some(format!("rename {file} over {replaced} of {size}"))
        }
        Call::MakeDirectory { file, parent } if is_above(parent) => {
            which(file).map(|file| format!("make directory {file}"))
        }
        Call::ReadDirectory { file, length } if length >= 48 => {
            which(file).map(|file| format!("list {file}"))
        }
        Call::RemoveDirectory { file } => which(file).map(|file| format!("remove {file}")),
        Call::Sync { file } => which(file).map(|file| format!("sync {file}")),
        Call::Within { file, parent, size: 0 } if !is_above(parent) => {
            let (file, parent) = (which(file)?, which(parent)?);
            Some(format!("{file} is in {parent}"))
        }
        Call::Write { file, offset, length, .. } => {
            which(file).map(|file| format!("write {file} {offset}+{length}"))
        }
        Call::CopyRange { source, source_offset, file, offset, length } => {
            let (source, file) = (which(source)?, which(file)?);
            Some(format!("copy {source} {source_offset}+{length} to {file} {offset}"))
        }
        Call::SpliceRead { file, offset, length } => {
            which(file).map(|file| format!("send {file} {offset}+{length}"))
        }
        Call::SpliceWrite { file, offset, length } => {
            which(file).map(|file| format!("receive {file} {offset}+{length}"))
        }
        Call::Allocate { file, mode, offset, length } => {
            which(file).map(|file| format!("allocate {file} {offset}+{length} mode {mode}"))
        }
        _ => None,
    };
    let told: Vec<String> = recording.calls().iter().filter_map(told).collect();
    let expected = [
        "open it 0 of 0",
        "write it 0 0+100",
        "delete it 0 of 100",
        "open it 1 of 0",
        "write it 1 0+101",
        "delete it 1 of 101",
        "open it 2 of 0",
        "write it 2 0+102",
        "delete it 2 of 102",
        "open it 3 of 0",
        "write it 3 0+5000",
        "open it 3 of 5000",
        "cut it 3 at 0",
        "write it 3 0+40000",
        "link it 3",
        "take a name of it 3",
        "open .other 0 of 0",
        "write .other 0 0+300",
        "rename .other 0",
        "open .other 1 of 0",
        "write .other 1 0+700",
        "rename .other 1 over .other 0 of 300",
        "copy it 3 4096+9000 to .other 0 8192",
        "copy it 3 100+50 to .other 0 300",
        "send it 3 200+60",
        "send it 3 300+70",
        "receive .other 0 20+70",
        "cut .other 1 at 10",
        "delete .other 1 of 10",
        "make directory .third/ 0",
        ".third/a 0 is in .third/ 0",
        "open .third/a 0 of 0",
        "write .third/a 0 0+10",
        "rename .third/a 0",
        "list .third/ 0",
        "sync .third/ 0",
        "remove .third/ 0",
        "delete .third/a 0 of 10",
        "allocate it 3 0+65536 mode 0",
        "allocate it 3 65536+4096 mode 1",
        "allocate it 3 4096+8192 mode 3",
    ];
    assert_eq!(
        told,
        if status == NO_FALLOCATE { &expected[..expected.len() - 3] } else { &expected[..] }
    );
}

#[test]
fn calls_on_files_are_recorded_with_their_places() {
    needs_qemu!();
    let (file, calls) = calls_on_the_file();
    let places: Vec<(&str, u64, u64)> = calls
        .iter()
        .filter_map(|call| match *call {
            Call::Open { file: f, size } if f == file => Some(("open", size, 0)),
            Call::Read { file: f, offset, length, .. } if f == file => {
                Some(("read", offset, length))
            }
            Call::Write { file: f, offset, length, .. } if f == file => {
                Some(("write", offset, length))
            }
            Call::Sync { file: f } if f == file => Some(("sync", 0, 0)),
            Call::SyncData { file: f } if f == file => Some(("sync its data", 0, 0)),
            Call::Truncate { file: f, length } if f == file => Some(("truncate", 0, length)),
            Call::Close { file: f } if f == file => Some(("close", 0, 0)),
            _ => None,
        })
        .collect();
    assert_eq!(
        places,
        vec![
            ("open", 0, 0),
            ("write", 0, 8192),
            ("write", 20000, 100),
            ("read", 4096, 1000),
            ("read", 64, 96),
            ("read", 5096, 40),
            ("write", 5136, 40),
            ("sync", 0, 0),
            ("sync its data", 0, 0),
            ("truncate", 0, 65536),
            ("close", 0, 0),
        ],
        "a file is closed with its last descriptor"
    );
}

#[test]
fn mappings_are_recorded_with_their_files_and_ranges() {
    needs_qemu!();
    let (file, calls) = calls_on_the_file();
    let mapped = calls
        .iter()
        .position(|call| matches!(call, Call::Map { file: f, .. } if *f == file))
        .expect("the file is mapped");
    let Call::Map { address, length, flags, offset, .. } = calls[mapped] else { unreachable!() };
    assert_eq!((length, flags, offset), (65536, MAP_SHARED | MAP_WRITABLE, 0));
    assert!(calls[mapped..].starts_with(&[
        calls[mapped],
        Call::Advise { address, length: 65536, advice: Advice::Random as u64 },
        Call::SyncRange { address, length: 8192 },
        Call::Close { file },
        Call::Unmap { address, length: 65536 },
    ]));
    let Call::Map { address: memory, length, flags, file: none, .. } = calls[mapped + 5] else {
        panic!("anonymous memory follows, not {:?}", calls[mapped + 5]);
    };
    assert_eq!((length, flags, none), (1 << 20, MAP_WRITABLE, NO_FILE));
    let advice = Advice::Huge as u64;
    assert_eq!(calls[mapped + 6], Call::Advise { address: memory, length: 1 << 20, advice });
    let Call::Remap { old_address, old_length, new_address, new_length } = calls[mapped + 7] else {
        panic!("it is resized, not {:?}", calls[mapped + 7]);
    };
    assert_eq!((old_address, old_length, new_length), (memory, 1 << 20, 2 << 20));
    assert_eq!(calls[mapped + 8], Call::Unmap { address: new_address, length: 2 << 20 });
}

#[test]
fn the_heap_grows_like_a_mapping_and_sleep_has_its_length() {
    needs_qemu!();
    let (_, calls) = calls_on_the_file();
    let grown = calls.iter().any(|call| {
        matches!(call, Call::Map { length, flags: MAP_WRITABLE, file: NO_FILE, .. }
            if *length == 1 << 20)
    });
    assert!(grown, "sbrk of a MiB: {calls:?}");
    assert!(calls.contains(&Call::Sleep { duration_ps: 5_000_000_000 }));
}

#[test]
fn what_is_asked_of_files_is_recorded_and_an_empty_one_that_is_there_is_not_made() {
    needs_qemu!();
    let directory = scratch_file("asked");
    std::fs::create_dir(&directory).unwrap();
    for (name, bytes) in [("empty", 0), ("some", 100), ("also", 0), ("linked", 0)] {
        std::fs::write(directory.join(name), vec![0; bytes]).unwrap();
    }
    let recording = record(&guest("asked"), &[directory.to_str().unwrap()]);
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(recording.report.exit_status, 0);
    let whole = directory.to_str().unwrap();
    let names: Vec<&str> = recording.files.iter().map(|file| file.name.as_str()).collect();
    let which = |file: FileId| names[file as usize].strip_prefix(whole);
    let told = |call: &Call| match *call {
        Call::Exists { file, parent, size, directory } => {
            let kind = if directory == 0 { "file" } else { "directory" };
            let above = which(parent).map_or(String::new(), |above| format!(" in {above}"));
            which(file).map(|file| format!("{kind} {file} of {size}{above}"))
        }
        Call::Within { file, parent, size } => {
            let (file, above) = (which(file)?, which(parent)?);
            Some(format!("new {file} of {size} in {above}"))
        }
        Call::Open { file, size } => which(file).map(|file| format!("open {file} of {size}")),
        Call::Stat { file } => which(file).map(|file| format!("ask of {file}")),
        _ => None,
    };
    // The file without a name has one that says which inode it is, on file systems that have such.
    let all = recording.calls();
    let (unnamed, found): (Vec<String>, Vec<String>) =
        all.iter().filter_map(told).partition(|told| told.contains('#'));
    assert_eq!(
        found,
        [
            "file /empty of 0 in /",
            "open /empty of 0",
            "file /also of 0 in /",
            "open /also of 0",
            "new /made of 0 in /",
            "open /made of 0",
            "file /some of 100 in /",
            "ask of /some",
            "ask of /some",
            "ask of /",
            "ask of /empty",
            "file /linked of 0 in /",
            "ask of /linked",
            "ask of /",
        ],
        "not of a link itself, and by no other name"
    );
    assert!(unnamed.iter().all(|told| !told.starts_with("file")), "it is new: {unnamed:?}");
}
