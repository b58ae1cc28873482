//! Directories against a naive list of names, and what changes with names.

use super::*;
use proptest::prelude::*;
use tierscope_units::{Duration, Size};

const PAGE: u64 = 4096;
const MOST: usize = 170;

fn system(kind: FileSystemKind, journal: JournalMode) -> FileSystem {
    let spec = FileSystemSpec {
        kind,
        journal,
        commit_interval: Duration::from_picoseconds(5_000_000_000_000),
        journal_capacity: Size::from_bytes(1024 * PAGE),
        barrier: Barrier::Flush,
        timestamp_interval: Duration::from_picoseconds(4_000_000_000),
        discard: false,
    };
    FileSystem::new(&spec, PAGE, 1 << 30, true, 0)
}

fn ext4() -> FileSystem {
    system(FileSystemKind::Ext4, JournalMode::Ordered)
}

/// Blocks that the running transaction has beside these, and it is committed.
fn changed(system: &mut FileSystem, change: impl FnOnce(&mut FileSystem)) -> BTreeSet<u64> {
    commit(system);
    change(system);
    let number = system.journal.newest().expect("it has changed something");
    assert!(system.journal.ask_for(number).is_some());
    assert!(system.next_request(0).unwrap().is_some(), "a commit");
    let blocks = system.journal.committing().expect("it is under way").blocks.clone();
    commit(system);
    blocks
}

/// All is committed; blocks of the log that were written.
fn commit(system: &mut FileSystem) -> u64 {
    if let Some(number) = system.journal.newest() {
        system.journal.ask_for(number);
    }
    let mut logged = 0;
    while let Some(request) = system.next_request(0).unwrap() {
        match request {
            journal::Request::Finish => drop(system.finish()),
            journal::Request::Log { blocks, .. } => logged += blocks.len() as u64,
            _ => {}
        }
    }
    logged
}

fn exists(system: &FileSystem, file: InodeId) -> bool {
    system.files[&file].exists
}

/// The block that has an inode.
fn inode(system: &FileSystem, file: InodeId) -> u64 {
    system.layout.inode(file, false).place() / PAGE * PAGE
}

/// The block of a directory that has names, of one with one.
fn names(system: &FileSystem, directory: InodeId) -> u64 {
    system.directory_block(&system.directories.all[&directory], 0)
}

proptest! {
    #[test]
    fn a_directory_has_the_names_that_a_list_has(
        turns in prop::collection::vec((0u32..3, any::<u32>()), 1..1500),
    ) {
        for kind in [FileSystemKind::Ext4, FileSystemKind::Xfs] {
            let mut system = system(kind, JournalMode::Ordered);
            let (mut list, mut leaves) = (Vec::new(), 1);
            for (what, which) in &turns {
                if *what == 0 && !list.is_empty() {
                    let name = list.swap_remove(*which as usize % list.len());
                    system.remove_name(TOP, name);
                } else {
                    list.push(system.add_name(TOP).0);
                }
                let all = &system.directories.all[&TOP];
                prop_assert_eq!(all.is_empty(), list.is_empty());
                // A split has two blocks where there was one, and the first has an index besides.
                let count = all.leaves.len();
                prop_assert!(count == leaves || count == leaves + 1);
                leaves = count;
            }
            let all = &system.directories.all[&TOP];
            list.sort_unstable();
            if kind == FileSystemKind::Xfs {
                prop_assert!(all.places.keys().eq(list.iter()));
                let places: BTreeSet<u64> = all.places.values().copied().collect();
                prop_assert_eq!(places.len(), list.len());
                prop_assert!(places.iter().all(|place| place / 126 < all.blocks.len() as u64));
                continue;
            }
            let mut found = Vec::new();
            let mut least = all.leaves.keys().copied().skip(1);
            for (from, (block, names)) in &all.leaves {
                let past = least.next().unwrap_or(u64::MAX);
                prop_assert!(names.len() <= MOST && *block < all.blocks.len());
                prop_assert!(names.iter().all(|it| (*from..past).contains(&it.0)));
                found.extend(names.iter().map(|it| it.1));
            }
            found.sort_unstable();
            prop_assert_eq!(found, list);
            let index = u64::from(all.leaves.len() > 1);
            prop_assert_eq!(all.blocks.len() as u64, all.leaves.len() as u64 + index);
        }
    }
}

#[test]
fn a_full_block_becomes_an_index_over_two() {
    let mut system = ext4();
    (0..MOST as u32).for_each(|file| system.create(file, (file, TOP), 0));
    assert_eq!(system.directory_blocks(TOP), 1);
    system.create(500, (500, TOP), 0);
    assert_eq!(system.directory_blocks(TOP), 3);
}

#[test]
fn a_rename_changes_both_directories_and_whose_the_name_was_in_one_transaction() {
    // A block of inodes each: 16 share one.
    let (here, there, moved, taken) = (5, 100, 200, 300);
    let mut system = ext4();
    system.held_directory(0, (here, TOP));
    system.held_directory(1, (there, TOP));
    system.held(2, (moved, here), (1 << 29, 4), 4 * PAGE);
    system.held(3, (taken, there), (1 << 28, 4), 4 * PAGE);
    let both = [here, there].map(|it| [inode(&system, it), names(&system, it)]).concat();
    let blocks = changed(&mut system, |system| system.rename(moved, here, None, 0));
    let own = inode(&system, moved);
    assert_eq!(blocks, BTreeSet::from([inode(&system, here), names(&system, here), own]));
    let blocks = changed(&mut system, |system| {
        let replaced = Replaced { file: taken, pages: 4, goes: true };
        system.rename(moved, there, Some(replaced), 0);
        let number = system.needs(moved, true);
        assert!(
            number.is_some()
                && [taken, here, there].iter().all(|it| system.needs(*it, true) == number)
        );
    });
    let orphans = system.layout.orphans(taken).place();
    let more = [own, inode(&system, taken), orphans];
    assert_eq!(blocks, both.into_iter().chain(more).collect());
    assert!(system.is_empty_directory(here) && !system.is_empty_directory(there));
    assert!(!exists(&system, taken) && system.name(moved).0 == there);
}

#[test]
fn a_directory_that_moves_gets_another_above_it() {
    let mut system = ext4();
    let (here, there, moved) = (5, 100, 200);
    system.held_directory(0, (here, TOP));
    system.held_directory(1, (there, TOP));
    system.held_directory(2, (moved, here));
    for (to, above) in [(here, false), (there, true)] {
        let blocks = changed(&mut system, |system| system.rename(moved, to, None, 0));
        assert_eq!(blocks.contains(&names(&system, moved)), above);
    }
}

#[test]
fn another_name_is_one_more_and_the_file_stays_with_the_last() {
    let mut system = ext4();
    system.held_directory(0, (5, TOP));
    system.create(1, (100, TOP), 0);
    system.link(100, 5, 0);
    assert!(!system.is_empty_directory(5));
    system.unname(100, 5, 0);
    assert!(system.is_empty_directory(5) && exists(&system, 100));
    system.unname(100, 5, 0);
    assert!(exists(&system, 100), "what is told of a name that there is not");
    system.unlink(100, 0, 0);
    assert!(!exists(&system, 100) && !system.is_empty_directory(TOP), "a directory is there");
}

#[test]
fn a_directory_that_is_removed_is_not_to_be_carried_out_again() {
    for (mode, revoked) in [(JournalMode::Ordered, 1), (JournalMode::Data, 0)] {
        let mut system = system(FileSystemKind::Ext4, mode);
        system.make_directory(0, (5, TOP), 0);
        let (bitmaps, place) = (system.layout.space(0), names(&system, 5));
        assert!(commit(&mut system) > 2);
        system.remove_directory(5, 0);
        system.remove(5, 0);
        // The directory above, its inode and that of 5, orphans, two bitmaps, the group, and around them a descriptor and a
        // record.
        assert_eq!(commit(&mut system), 7 + 2 + revoked, "{mode:?}");
        assert_eq!(bitmaps.len(), 2);
        system.make_directory(1, (6, TOP), 0);
        assert_eq!(names(&system, 6), place, "its block is free");
    }
    assert_eq!([0, 1, 509, 510].map(|count| journal::revoke_blocks(PAGE, count)), [0, 1, 1, 2]);
}

#[test]
fn a_new_directory_of_xfs_has_its_first_names_in_its_inode() {
    // Sixteen, until inodes are made with room for attributes.
    for (release, most) in [(Release::V4_9, 16), (Release::V6_18, 9)] {
        let mut system = system(FileSystemKind::Xfs, JournalMode::Ordered);
        system.of_release(release);
        system.make_directory(0, (5, TOP), 0);
        (100..100 + most).for_each(|file| system.create(file, (file, 5), 0));
        assert_eq!(system.directory_blocks(5), 0, "{release:?}");
        system.create(99, (99, 5), 0);
        assert_eq!(system.directory_blocks(5), 1, "{release:?}");
    }
}
