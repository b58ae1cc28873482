//! Names come and go; inodes stay as long as something has them.

use super::super::small::{self, settle, small};
use super::*;
use crate::os::file_system::{Barrier, FileSystemKind, FileSystemSpec, JournalMode};
use tierscope_units::{Duration, Size};

const FILE: FileId = 20;
const PAGE: u64 = 4096;

fn host() -> Paging {
    let mut paging = small(|_| ());
    let spec = FileSystemSpec {
        kind: FileSystemKind::Ext4,
        journal: JournalMode::Ordered,
        commit_interval: Duration::from_picoseconds(5_000_000_000_000),
        journal_capacity: Size::from_bytes(1 << 20),
        barrier: Barrier::Flush,
        timestamp_interval: Duration::from_picoseconds(4_000_000_000),
        discard: false,
    };
    paging.add_file_system(&spec, true).unwrap();
    paging
}

fn write(paging: &mut Paging, inode: InodeId, page: u64) {
    assert!(matches!(small::write(paging, inode, page, 0), Next::Ready(_)));
    paging.extend_file(inode, (page + 1) * PAGE);
}

/// Pages of an inode in the page cache.
fn cached(paging: &Paging, inode: InodeId) -> usize {
    (0..8).filter(|page| paging.cached(inode, *page).is_some()).count()
}

#[test]
fn a_call_under_way_keeps_the_deleted_file_and_another_is_made_under_its_name() {
    let mut paging = host();
    let old = paging.open(FILE, 0).unwrap();
    assert_eq!(old, FILE);
    write(&mut paging, old, 0);
    paging.keep_inode(old);
    assert_eq!(paging.unlink(FILE, 0), Ok(Some(old)));
    assert_eq!((paging.find(FILE), paging.unlink(FILE, 0)), (None, Ok(None)), "it has no name");
    assert!(paging.is_nameless(old) && cached(&paging, old) == 1);
    let new = paging.open(FILE, 8 * PAGE).unwrap();
    assert!(new != old && paging.find(FILE) == Some(new) && paging.name_of(new) == FILE);
    write(&mut paging, old, 3);
    assert_eq!((paging.file_size(old), paging.file_size(new)), (4 * PAGE, 0), "it is empty");
    write(&mut paging, new, 1);
    assert_eq!((cached(&paging, old), cached(&paging, new)), (2, 1));
    let places = [old, new].map(|inode| {
        paging.sync(inode, Paging::ALL_PAGES, &mut Vec::new()).unwrap().expect("dirty pages");
        settle(&mut paging);
        paging.place_in_store(inode, if inode == old { 3 } else { 1 }).expect("it was written")
    });
    assert!(places[0] != places[1], "blocks are the inode's");
    paging.let_go_of_inode(old);
    assert_eq!((cached(&paging, old), cached(&paging, new)), (0, 1));
    assert!(!paging.is_nameless(old) && !paging.files.contains_key(&old));
    assert_eq!(paging.unlink(FILE, 0), Ok(Some(new)));
    assert_eq!((cached(&paging, new), paging.open(FILE, 0)), (0, Ok(old)), "its number is free");
    assert_eq!(paging.file_size(old), 0);
}

#[test]
fn a_file_is_kept_as_often_as_it_was_asked_for() {
    let mut paging = host();
    let inode = paging.open(FILE, 0).unwrap();
    write(&mut paging, inode, 0);
    (0..2).for_each(|_| paging.keep_inode(inode));
    paging.let_go_of_inode(inode);
    paging.unlink(FILE, 0).unwrap();
    assert_eq!(cached(&paging, inode), 1, "somebody has it");
    paging.let_go_of_inode(inode);
    assert_eq!(cached(&paging, inode), 0);
}

#[test]
fn a_mapping_keeps_the_deleted_file_until_the_last_is_gone() {
    let mut paging = host();
    let inode = paging.open(FILE, 8 * PAGE).unwrap();
    for at in [0, 100] {
        paging.map(at * PAGE, 8 * PAGE, MAP_SHARED, inode, 0);
        small::touch(&mut paging, at + 2, true);
    }
    settle(&mut paging);
    paging.unlink(FILE, 0).unwrap();
    assert_eq!((paging.file_size(inode), cached(&paging, inode)), (8 * PAGE, 1));
    let Pte::Present { frame, .. } = paging.entry(2) else { panic!("it is mapped") };
    paging.unmap(0, 8 * PAGE);
    assert_eq!(cached(&paging, inode), 1, "the other has it");
    assert!(matches!(paging.entry(102), Pte::Present { frame: other, .. } if other == frame));
    paging.unmap(100 * PAGE, 8 * PAGE);
    assert_eq!((cached(&paging, inode), paging.files.len()), (0, 0));
}

#[test]
fn a_file_that_is_only_asked_of_takes_no_room_and_has_its_pages_once_it_is_opened() {
    let mut paging = host();
    paging.tell_there((FILE, false), NO_FILE, 1 << 50).unwrap();
    paging.stat(FILE);
    let (small, empty) = (FILE + 1, FILE + 2);
    paging.tell_there((small, false), NO_FILE, 8 * PAGE).unwrap();
    paging.tell_there((empty, false), NO_FILE, 0).unwrap();
    [small, empty].into_iter().for_each(|name| paging.stat(name));
    assert_eq!(paging.find(small).and_then(|inode| paging.place_in_store(inode, 0)), None);
    let inode = paging.open(small, 8 * PAGE).unwrap();
    assert_eq!(paging.file_size(inode), 8 * PAGE);
    let places: Vec<_> = (0..8).map(|page| paging.place_in_store(inode, page)).collect();
    assert!(places.iter().all(Option::is_some), "{places:?}");
    assert_eq!(paging.open(small, 8 * PAGE), Ok(inode), "once");
    let inode = paging.open(empty, 0).unwrap();
    assert_eq!((paging.file_size(inode), paging.place_in_store(inode, 0)), (0, None));
    assert!(paging.open(FILE, 1 << 50).is_err(), "nothing holds so much");
    // One that is deleted and made anew is another.
    let gone = FILE + 3;
    paging.tell_there((gone, false), NO_FILE, 8 * PAGE).unwrap();
    paging.unlink(gone, 8 * PAGE).unwrap();
    for size in [0, 8 * PAGE] {
        let inode = paging.open(gone, size).unwrap();
        assert_eq!((paging.file_size(inode), paging.place_in_store(inode, 0)), (0, None));
    }
}
