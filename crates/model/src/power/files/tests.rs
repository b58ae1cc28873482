use super::*;

const PAGE: u64 = 4096;
const SUPERBLOCK: u64 = 2 * PAGE;
const INODE: u64 = 100 * PAGE;
const BITMAP: u64 = 101 * PAGE;
const PLACE: u64 = 500 * PAGE;
const FILE: InodeId = 3;
const NAME: FileId = 8;

/// A file gets a page of version 7, and a sync of it returns, in transaction 1; what was written, in this order: page,
/// descriptor, two blocks, record.
fn synced(ordered: bool) -> (Files, [(u64, Content); 5]) {
    let mut files = Files::new(PAGE, ordered);
    files.note(Note::Begun { superblock: SUPERBLOCK, tail_in_records: false });
    let change = |size_bytes| Note::Changed {
        file: FILE,
        name: NAME,
        transaction: 1,
        exists: true,
        size_bytes,
        data: true,
        inode: INODE,
    };
    files.note(change(0));
    files.note(change(PAGE));
    files.note(Note::Mapped { file: FILE, index: 0, place: PLACE, written: false, transaction: 1 });
    let page = files.write_page(FILE, 0, 7, PLACE);
    let log = vec![(3 * PAGE, None), (4 * PAGE, Some(INODE)), (5 * PAGE, Some(BITMAP))];
    files.note(Note::Commit { transaction: 1, log, data: Vec::new(), record: 6 * PAGE });
    let mut written = [(PLACE, page); 5];
    for (at, place) in (1..).zip([3 * PAGE, 4 * PAGE, 5 * PAGE, 6 * PAGE]) {
        written[at] = (place, files.write_block(place));
    }
    files.note(Note::Finished { transaction: 1 });
    assert!(files.promise(FILE, 1, PAGE, [(PLACE, 7)].into_iter()));
    files.count_sync();
    (files, written)
}

/// Recovery finds these of the writes, and carries out what it does.
fn recover(files: &mut Files, there: &[(u64, Content)]) -> Replay {
    there.iter().for_each(|(place, content)| files.see(*place, *content));
    let replay = files.replay();
    replay.writes.iter().for_each(|(place, content)| files.see(*place, *content));
    replay
}

#[test]
fn a_transaction_whose_log_and_record_are_there_is_carried_out() {
    let (mut files, written) = synced(true);
    let replay = recover(&mut files, &written);
    assert_eq!((replay.transactions, replay.writes.len(), replay.reads.len()), (1, 2, 5));
    let line = PLACE / PAGE;
    assert_eq!((files.found(line), files.promised().get(line)), (Some(7), 7));
    let inode = files.inodes + u64::from(FILE);
    assert_eq!(files.found(inode), Some(OF_INODE | 2), "the change that makes it a page long");
    assert_eq!(files.promised().get(inode), OF_INODE | 2);
    assert_eq!(files.line_of(OF_INODE | 2), Some(inode));
    let bitmap = BITMAP / PAGE;
    assert_eq!(files.found(bitmap), Some(files.promised().get(bitmap)));
    assert_eq!(files.line_of(files.promised().get(bitmap)), Some(bitmap));
}

#[test]
fn without_its_record_or_its_first_block_nothing_of_a_transaction_is_there() {
    for gone in [1, 4] {
        let (mut files, written) = synced(true);
        let there = written.iter().enumerate().filter(|(at, _)| *at != gone);
        let there: Vec<_> = there.map(|(_, one)| *one).collect();
        assert_eq!(recover(&mut files, &there).transactions, 0);
        assert_eq!(files.found(PLACE / PAGE), Some(0), "no file has the page");
        assert_eq!(files.promised().get(BITMAP / PAGE), 0, "metadata is as before");
    }
}

#[test]
fn a_record_before_its_blocks_replays_none_of_them_and_is_a_fault() {
    let (mut files, written) = synced(true);
    let there = [written[0], written[1], written[2], written[4]];
    assert!(recover(&mut files, &there).writes.is_empty());
    let bitmap = BITMAP / PAGE;
    assert!(files.found(bitmap) < Some(files.promised().get(bitmap)));
}

#[test]
fn a_page_that_was_not_written_shows_what_its_block_held_before() {
    for ordered in [true, false] {
        let (mut files, written) = synced(ordered);
        recover(&mut files, &written[1..]);
        assert_eq!(files.found(PLACE / PAGE), Some(STALE));
        assert_eq!(files.permits_stale(), !ordered);
    }
}

#[test]
fn a_recovery_that_was_cut_off_anywhere_is_done_again_and_ends_the_same() {
    let (mut files, written) = synced(true);
    let first = recover(&mut files.fork(), &written);
    for done in 0..=first.writes.len() + 1 {
        let mut again = files.fork();
        written.iter().for_each(|(place, content)| again.see(*place, *content));
        let replay = again.replay();
        let all = replay.writes.iter().chain([&replay.superblock]);
        all.take(done).for_each(|(place, content)| again.see(*place, *content));
        let second = recover(&mut again, &[]);
        let over = done > first.writes.len();
        assert_eq!(second.transactions, u64::from(!over), "the superblock says that it is over");
        for line in [PLACE / PAGE, INODE / PAGE, BITMAP / PAGE] {
            let (found, promised) = (again.found(line), again.promised().get(line));
            assert!(promised > 0 && found >= Some(promised), "{line}: {found:?}");
        }
    }
}

#[test]
fn what_is_cut_off_or_deleted_is_no_longer_promised() {
    let (mut files, written) = synced(true);
    files.note(Note::Cut { file: FILE, pages: 0..1, transaction: 2 });
    assert_eq!(files.promised().get(PLACE / PAGE), 0);
    let gone = Note::Changed {
        file: FILE,
        name: NAME,
        transaction: 2,
        exists: false,
        size_bytes: 0,
        data: true,
        inode: INODE,
    };
    files.note(gone);
    assert_eq!(files.promised().get(files.inodes + u64::from(FILE)), 0);
    recover(&mut files, &written);
    assert_eq!(files.found(PLACE / PAGE), Some(7), "the second transaction is not there");
}

#[test]
fn files_are_called_by_the_names_that_the_workload_has_for_them() {
    let (mut files, _) = synced(true);
    let (inode, page) = (files.inodes + u64::from(FILE), PLACE / PAGE);
    assert_eq!(files.name(inode), "size and map of file 8", "by its name, not by its inode");
    let info = |name: &str| FileInfo { name: name.into(), size_bytes: 0 };
    let names = (0..=NAME).map(|name| info(&format!("mail/{name}"))).collect();
    files.call_them(Arc::new(names));
    assert_eq!(files.name(inode), "size and map of mail/8");
    assert_eq!(files.name(page), "page 0 of mail/8");
    assert_eq!(files.syncs(), 1);
}

#[test]
fn data_of_a_committed_transaction_are_promised_and_recovery_brings_them_to_their_place() {
    let mut files = Files::new(PAGE, true);
    files.note(Note::Begun { superblock: SUPERBLOCK, tail_in_records: false });
    files.note(Note::Changed {
        file: FILE,
        name: NAME,
        transaction: 1,
        exists: true,
        size_bytes: PAGE,
        data: true,
        inode: INODE,
    });
    files.note(Note::Mapped { file: FILE, index: 0, place: PLACE, written: false, transaction: 1 });
    let log = vec![(3 * PAGE, None), (4 * PAGE, Some(INODE)), (5 * PAGE, Some(PLACE))];
    let data = vec![(PLACE, (FILE, 0))];
    files.note(Note::Commit { transaction: 1, log, data, record: 6 * PAGE });
    assert_eq!(files.logged_page(4 * PAGE), None);
    assert_eq!(files.logged_page(5 * PAGE), Some((FILE, 0)));
    let mut written: Vec<(u64, Content)> =
        [3, 4].map(|block| (block * PAGE, files.write_block(block * PAGE))).to_vec();
    written.push((5 * PAGE, files.write_logged(5 * PAGE, 7)));
    let line = PLACE / PAGE;
    assert_eq!(files.promised().get(line), 0, "its record is not there");
    written.push((6 * PAGE, files.write_block(6 * PAGE)));
    files.note(Note::Finished { transaction: 1 });
    assert_eq!((files.promised().get(line), files.line_of(7)), (7, Some(line)));
    for (there, found) in [(4, Some(7)), (3, Some(0))] {
        let mut fork = files.fork();
        assert_eq!(recover(&mut fork, &written[..there]).transactions, u64::from(there == 4));
        assert_eq!(fork.found(line), found, "{there} of its writes are there");
    }
    // What is cut off later is promised no more, by a commit either.
    files.note(Note::Cut { file: FILE, pages: 0..1, transaction: 2 });
    files.note(Note::Finished { transaction: 1 });
    assert_eq!(files.promised().get(line), 0);
}

/// A file takes the name of another, and the log has the inode of the one, of the other, or of both.
#[test]
fn a_name_that_two_files_have_or_neither_is_a_fault() {
    const OTHER: InodeId = 4;
    for (has, harm) in [([true, true], false), ([true, false], true), ([false, true], true)] {
        let mut files = Files::new(PAGE, true);
        files.note(Note::Begun { superblock: SUPERBLOCK, tail_in_records: false });
        for (file, inode) in [(FILE, INODE), (OTHER, BITMAP)] {
            files.note(Note::Held { file, name: file, pages: (0, 0), size_bytes: 0, inode });
        }
        for (file, inode, exists) in [(OTHER, BITMAP, false), (FILE, INODE, true)] {
            files.note(Note::Changed {
                file,
                name: file,
                transaction: 1,
                exists,
                size_bytes: 0,
                data: true,
                inode,
            });
        }
        files.note(Note::Renamed { file: FILE, replaced: OTHER });
        let blocks = [(INODE, has[0]), (BITMAP, has[1])];
        let blocks = blocks.iter().filter(|(_, has)| *has).map(|(place, _)| Some(*place));
        let log: Vec<_> =
            (3..).map(|at| at * PAGE).zip(std::iter::once(None).chain(blocks)).collect();
        let places: Vec<u64> = log.iter().map(|(place, _)| *place).chain([6 * PAGE]).collect();
        files.note(Note::Commit { transaction: 1, log, data: Vec::new(), record: 6 * PAGE });
        let written: Vec<_> =
            places.iter().map(|place| (*place, files.write_block(*place))).collect();
        files.note(Note::Finished { transaction: 1 });
        recover(&mut files, &written);
        let line = files.inodes + u64::from(FILE);
        assert_eq!(files.found(line) == Some(ALIEN), harm, "{has:?}");
        let before = &written[..1];
        let mut files = files.fork();
        files.seen = CowMap::new(0);
        recover(&mut files, before);
        assert!(files.found(line) != Some(ALIEN), "nothing of it is there");
    }
}

#[test]
fn a_block_of_parts_of_several_writes_counts_as_the_oldest_of_them() {
    for (parts, held) in [
        (&[7][..], 7),
        (&[7, 7], 7),
        (&[7, 5], 5),
        (&[0, 5], 0),
        (&[7, LOST], LOST),
        (&[LOST, 0], LOST),
    ] {
        assert_eq!(oldest(parts.iter().copied()), held, "{parts:?}");
    }
}

/// Lines of a block of two come from the on-chip caches when these give them up.
#[test]
fn a_block_that_is_copied_is_there_when_all_its_lines_have_left_the_on_chip_caches() {
    const LINE: u64 = PAGE / 2;
    let mut files = Files::new(PAGE, true);
    let write = |files: &mut Files, page_version, since| {
        let content = files.write_page(FILE, 0, page_version, PLACE);
        files.begin_copy(PLACE, content, since);
        content
    };
    let seen = |files: &Files| files.seen.get(PLACE / PAGE);
    let first = write(&mut files, 7, 100);
    files.see_line(PLACE, LINE, 101);
    assert_eq!(seen(&files), 0, "a line of it is in a cache");
    files.see_line(PLACE + LINE, LINE, 102);
    assert_eq!(seen(&files), first);
    let second = write(&mut files, 8, 200);
    files.see_line(PLACE, LINE, 201);
    assert_eq!(seen(&files), first, "the other line is the older one");
    // One that the first write has brought is given up late.
    files.see_line(PLACE + LINE, LINE, 103);
    assert_eq!(seen(&files), first);
    files.see_line(PLACE + LINE, LINE, 202);
    assert_eq!(seen(&files), second);
    let moved = files.write_page(FILE, 0, 9, PLACE);
    files.see_block(PLACE, LINE, moved);
    assert_eq!(seen(&files), moved, "past the caches all comes at once");
}
