//! Laws of recordings.

mod headers;

use super::block::{BlockPlace, checksum, u32_at, u64_at};
use super::*;
use crate::conformance::stream_laws;
use crate::feed::whole_operations;
use crate::op::Op;
use crate::op::{Call, OpKind};
use crate::requests::RequestSource;
use crate::stream::{Pull, Stream, StreamError};
use crate::windows::PROCESS_SHIFT;
use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use tierscope_units::Size;

/// A directory that is removed with its value.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tierscope-tst-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("recording.tst")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn sequence(thread: ThreadId, count: u64) -> Vec<Op> {
    let mut ops = Vec::new();
    for index in 0..count {
        if (thread, index) == (0, 0) {
            Call::Spawn { thread: 1 }.encode(9, &mut ops);
        } else if index % 97 == 13 {
            Call::Read { file: 1, offset: index, length: 5, address: 1 << 40 }.encode(9, &mut ops);
        } else {
            let random = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            ops.push(Op::load(u64::from(thread) << 32 | random, 8, (index % 5) as u32));
        }
    }
    ops
}

fn metadata() -> TstMetadata {
    TstMetadata {
        command: vec!["sqlite3".into(), "test.db".into()],
        tierscope_version: "0.1.0".into(),
        recorder: "test".into(),
        ..TstMetadata::default()
    }
}

/// Two threads in pieces, and two files.
fn record(path: &Path, counts: [u64; 2], piece: usize) -> TstTotals {
    let mut writer = TstWriter::create(path, &metadata()).unwrap();
    let sequences = [sequence(0, counts[0]), sequence(1, counts[1])];
    let mut done = [0, 0];
    writer.add_file(&FileInfo { name: "test.db".into(), size_bytes: 4096 }).unwrap();
    while (0..2).any(|t| done[t] < sequences[t].len()) {
        for thread in 0..2 {
            let rest = &sequences[thread][done[thread]..];
            let taken = whole_operations(rest, piece);
            writer.append(thread as u32, &rest[..taken]).unwrap();
            done[thread] += taken;
        }
    }
    let second = FileInfo { name: "test.db-wal".into(), size_bytes: 0 };
    assert_eq!(writer.add_file(&second).unwrap(), 1);
    writer.finish("exit status 0").unwrap()
}

fn replay(reader: &mut dyn Stream, thread: ThreadId) -> Result<Vec<Op>, StreamError> {
    let mut out = Vec::new();
    while reader.pull(thread, 1000, &mut out)? == Pull::More {}
    Ok(out)
}

#[test]
fn the_streams_laws_hold() {
    let scratch = Scratch::new();
    let mut writer = TstWriter::create(&scratch.file(), &metadata()).unwrap();
    for name in ["a", "b"] {
        writer.add_file(&FileInfo { name: name.into(), size_bytes: 4096 }).unwrap();
    }
    let mut first = Vec::new();
    Call::Spawn { thread: 1 }.encode(1, &mut first);
    first.extend(sequence(0, 3000));
    Call::Wait { thread: 1, sequence: 1 }.encode(1, &mut first);
    let mut second = sequence(1, 5000);
    Call::Signal { sequence: 1 }.encode(1, &mut second);
    for (thread, ops) in [(1, second), (0, first)] {
        let mut rest = &ops[..];
        while !rest.is_empty() {
            let (piece, left) = rest.split_at(whole_operations(rest, 700));
            writer.append(thread, piece).unwrap();
            rest = left;
        }
    }
    writer.finish("exit status 0").unwrap();
    stream_laws(|| Box::new(TstReader::open(&scratch.file(), false).unwrap()));
}

#[test]
fn a_replay_gives_what_was_recorded() {
    let scratch = Scratch::new();
    let totals = record(&scratch.file(), [200_000, 70_000], 5000);
    let mut reader = TstReader::open(&scratch.file(), false).unwrap();
    assert_eq!(reader.metadata(), &metadata());
    assert_eq!(reader.totals(), Some(&totals));
    assert_eq!(reader.damage(), None);
    assert_eq!(reader.threads(), vec![0, 1]);
    assert_eq!(totals.threads, 2);
    let calls = |count: u64| (0..count).filter(|index| index % 97 == 13).count() as u64;
    assert_eq!(totals.calls, 1 + calls(200_000) + calls(70_000));
    assert_eq!(totals.loads + totals.calls, 270_000);
    assert_eq!(reader.operations(), totals.operations);
    assert_eq!(reader.files()[1].name, "test.db-wal");
    assert_eq!(replay(&mut reader, 1).unwrap(), sequence(1, 70_000));
    assert_eq!(replay(&mut reader, 0).unwrap(), sequence(0, 200_000));
    assert!(replay(&mut reader, 7).unwrap().is_empty());
    assert!(!scratch.file().with_extension("tst.partial").exists());
}

#[test]
fn a_recording_with_sites_gives_them_back_and_one_without_has_none() {
    let scratch = Scratch::new();
    let site = |number: u64| Site {
        file: "/bin/app".into(),
        function: format!("f{}", number / 10).into(),
        start: 0x1000,
        address: 0x1000 + number,
    };
    let metadata = TstMetadata { sites: Some(SiteGrain::Address), ..metadata() };
    let mut writer = TstWriter::create(&scratch.file(), &metadata).unwrap();
    let mut ops = Vec::new();
    for number in 2..10_000u32 {
        writer.add_site(number, site(number.into())).unwrap();
        ops.extend([Op::site(number), Op::load(u64::from(number) << 12, 8, 3)]);
    }
    writer.append(0, &ops).unwrap();
    let totals = writer.finish("exit status 0").unwrap();
    assert_eq!((totals.loads, totals.operations), (9998, 2 * 9998));
    let whole = std::fs::read(scratch.file()).unwrap();
    let mut reader = TstReader::open(&scratch.file(), false).unwrap();
    assert_eq!(reader.sites().grain, Some(SiteGrain::Address));
    assert_eq!((reader.sites().len(), reader.sites().get(9999)), (9998, Some(&site(9999))));
    assert_eq!(replay(&mut reader, 0).unwrap(), ops);
    std::fs::write(scratch.file(), &whole[..whole.len() - 1]).unwrap();
    let truncated = TstReader::open(&scratch.file(), true).unwrap();
    assert_eq!(truncated.sites(), reader.sites());
    record(&scratch.file(), [10, 10], 5);
    let without = TstReader::open(&scratch.file(), false).unwrap().sites();
    assert_eq!((without.grain, without.len()), (None, 0));
}

#[test]
fn a_filtered_recording_says_so_and_keeps_instructions() {
    let scratch = Scratch::new();
    let filter = FilterSpec::new(Size::from_bytes(32 << 10)).unwrap();
    let metadata = TstMetadata { filter: Some(filter), ..metadata() };
    let mut writer = TstWriter::create(&scratch.file(), &metadata).unwrap();
    let ops: Vec<Op> = (0..100_000).map(|at| Op::load(at % 1000 * 8, 8, 3)).collect();
    ops.chunks(777).for_each(|piece| writer.append(0, piece).unwrap());
    let totals = writer.finish("exit status 0").unwrap();
    assert_eq!((totals.loads, totals.left_out_loads), (125, 100_000 - 125), "one a line");
    assert_eq!((totals.instructions, totals.left_out_stores), (300_000, 0));
    let whole = std::fs::read(scratch.file()).unwrap();
    assert_eq!(u32_at(&whole, 8), VERSION);
    let mut reader = TstReader::open(&scratch.file(), false).unwrap();
    assert_eq!((reader.metadata(), reader.totals()), (&metadata, Some(&totals)));
    assert_eq!(Counts::of(&replay(&mut reader, 0).unwrap()).instructions, 300_000);
}

proptest! {
    #[test]
    fn a_recording_is_never_larger_than_was_foreseen(
        threads in 1u32..6, count in 1u64..3000, hostile in any::<bool>(), sites in 0u64..40,
        filtered in any::<bool>(),
    ) {
        let scratch = Scratch::new();
        let filter = filtered.then(|| FilterSpec::new(Size::from_bytes(512)).unwrap());
        let metadata = TstMetadata { filter, sites: Some(SiteGrain::Address), ..metadata() };
        let mut writer = TstWriter::create(&scratch.file(), &metadata).unwrap();
        for number in 0..sites {
            let name = if hostile { "\u{1}\u{2}" } else { "name" }.repeat(number as usize);
            let site = Site { file: name.as_str().into(), function: name.as_str().into(), start: u64::MAX, address: number };
            writer.add_site(2 + number as u32, site).unwrap();
        }
        for thread in 0..threads {
            let ops: Vec<Op> = if hostile {
                // Nothing of it can be predicted or compressed.
                (0..count)
                    .map(|at| (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ u64::from(thread)))
                    .map(|noise| Op::new(OpKind::Load, 0, noise as u16, (noise >> 20) as u32, noise))
                    .collect()
            } else {
                sequence(thread, count)
            };
            writer.append(thread, &ops).unwrap();
        }
        let foreseen = writer.most_bytes();
        writer.finish("exit status 0").unwrap();
        let found = std::fs::metadata(scratch.file()).unwrap().len();
        prop_assert!(found <= foreseen, "{} bytes, and {} were foreseen", found, foreseen);
    }
}

#[test]
fn a_fork_goes_on_where_its_reader_stood() {
    let scratch = Scratch::new();
    record(&scratch.file(), [100_000, 10], 5000);
    let mut reader = TstReader::open(&scratch.file(), false).unwrap();
    let mut before = Vec::new();
    while before.len() < 70_000 {
        reader.pull(0, 777, &mut before).unwrap();
    }
    let mut fork = reader.fork();
    let rest = replay(&mut reader, 0).unwrap();
    assert_eq!(replay(fork.as_mut(), 0).unwrap(), rest);
    before.extend(rest);
    assert_eq!(before, sequence(0, 100_000));
}

#[test]
fn an_unfinished_recording_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let mut writer = TstWriter::create(&scratch.file(), &metadata()).unwrap();
    writer.append(0, &sequence(0, 100)).unwrap();
    drop(writer);
    assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 0);
}

#[test]
fn other_files_and_versions_are_refused_with_a_reason() {
    let scratch = Scratch::new();
    let message = |bytes: &[u8]| {
        std::fs::write(scratch.file(), bytes).unwrap();
        TstReader::open(&scratch.file(), true).err().unwrap().to_string()
    };
    assert!(message(b"").contains("not a .tst recording"));
    assert!(message(b"0x1234 R 17").contains("not a .tst recording"));
    let mut newer = MAGIC.to_vec();
    newer.extend_from_slice(&[12, 0, 0, 0, 0, 0, 0, 0]);
    assert!(message(&newer).contains("version 12; this tierscope reads versions 1 to 11"));
    newer[8] = 1;
    assert!(message(&newer).contains("nothing of it can be replayed"));
    let missing = TstReader::open(&scratch.0.join("none"), false).err().unwrap();
    assert!(missing.to_string().contains("no such file"), "{missing}");
}

/// A recording with another version and other metadata in its header, whose checksum is right.
fn with_header(bytes: &[u8], version: u32, metadata: &str) -> Vec<u8> {
    let after = 20 + u32_at(bytes, 12) as usize;
    let mut forged = MAGIC.to_vec();
    forged.extend_from_slice(&version.to_le_bytes());
    forged.extend_from_slice(&(metadata.len() as u32).to_le_bytes());
    forged.extend_from_slice(metadata.as_bytes());
    let sum = checksum(&forged, &[]);
    forged.extend_from_slice(&sum.to_le_bytes());
    forged.extend_from_slice(&bytes[after..]);
    forged
}

/// The totals of a recording replaced, with right checksums and lengths behind them.
fn with_totals(bytes: &[u8], totals: &TstTotals) -> Vec<u8> {
    let (kept, trailer) = bytes.split_at(bytes.len() - 32);
    let at = (0..kept.len()).rev().find(|at| kept[*at..].starts_with(b"TBLK")).unwrap();
    let text = serde_json::to_vec(totals).unwrap();
    let payload = zstd::bulk::compress(&text, 1).unwrap();
    let mut header = kept[at..at + 36].to_vec();
    header[28..32].copy_from_slice(&(text.len() as u32).to_le_bytes());
    header[32..36].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    let sum = checksum(&header, &payload);
    [&kept[..at], &header, &sum.to_le_bytes(), &payload, trailer].concat()
}

#[test]
fn totals_that_contradict_the_index_are_damage() {
    let scratch = Scratch::new();
    let totals = record(&scratch.file(), [100, 10], 50);
    let whole = std::fs::read(scratch.file()).unwrap();
    std::fs::write(scratch.file(), with_totals(&whole, &totals)).unwrap();
    assert_eq!(TstReader::open(&scratch.file(), false).unwrap().totals(), Some(&totals));
    let more = u64::MAX;
    for (forged, refused) in [
        (TstTotals { threads: 7, ..totals.clone() }, "the totals say 7 threads, and the index 2"),
        (
            TstTotals { operations: 3, ..totals.clone() },
            "the totals say 3 operations, and the index",
        ),
        (TstTotals { loads: more, stores: more, ..totals.clone() }, "more than the operations"),
        (TstTotals { instructions: more, ..totals.clone() }, "more than the operations can be"),
        (TstTotals { left_out_loads: 1, ..totals.clone() }, "what no filter has left out"),
        (
            TstTotals { left_out_loads: more, left_out_stores: more, ..totals.clone() },
            "what no filter has left out",
        ),
    ] {
        std::fs::write(scratch.file(), with_totals(&whole, &forged)).unwrap();
        let told = TstReader::open(&scratch.file(), false).err().unwrap().to_string();
        assert!(told.contains(refused), "{told}");
        let reader = TstReader::open(&scratch.file(), true).unwrap();
        assert!(reader.damage().unwrap().what.contains(refused));
        assert_eq!((reader.totals(), reader.operations()), (None, totals.operations));
    }
}

#[test]
fn totals_that_contradict_the_blocks_are_damage() {
    let scratch = Scratch::new();
    let totals = record(&scratch.file(), [100, 10], 50);
    let whole = std::fs::read(scratch.file()).unwrap();
    for (forged, refused) in [
        (TstTotals { loads: totals.loads - 1, ..totals.clone() }, "loads, and the blocks have"),
        (TstTotals { stores: totals.stores + 1, ..totals.clone() }, "the totals say 1 stores"),
        (TstTotals { calls: totals.calls + 1, ..totals.clone() }, "calls, and the blocks have"),
        (TstTotals { instructions: 5, ..totals.clone() }, "the totals say 5 instructions"),
    ] {
        std::fs::write(scratch.file(), with_totals(&whole, &forged)).unwrap();
        let mut reader = TstReader::open(&scratch.file(), false).unwrap();
        replay(&mut reader, 0).unwrap();
        let told = replay(&mut *reader.fork(), 1).unwrap_err().to_string();
        assert!(told.contains(refused), "a fork has counted what its reader has: {told}");
        let told = replay(&mut reader, 1).unwrap_err().to_string();
        assert!(told.contains(refused), "{told}");
        let reader = TstReader::open(&scratch.file(), true).unwrap();
        assert!(reader.damage().unwrap().what.contains(refused));
        assert_eq!((reader.totals(), reader.operations()), (None, totals.operations));
    }
}

#[test]
fn totals_longer_than_they_may_be_are_damage() {
    let scratch = Scratch::new();
    let totals = record(&scratch.file(), [100, 10], 50);
    let whole = std::fs::read(scratch.file()).unwrap();
    let told = |count| (0..count).map(|number| format!("process {number}")).collect();
    for (forged, refused) in [
        (TstTotals { missing: told(10), ..totals.clone() }, "more than 9 times what is missing"),
        (TstTotals { missing: vec!["x".repeat(1025)], ..totals.clone() }, "longer than 1024"),
        (TstTotals { ended: "x".repeat(1025), ..totals.clone() }, "longer than 1024"),
        (TstTotals { marks: Some((0..64).collect()), ..totals.clone() }, "tell 64 marks or more"),
    ] {
        std::fs::write(scratch.file(), with_totals(&whole, &forged)).unwrap();
        let told = TstReader::open(&scratch.file(), false).err().unwrap().to_string();
        assert!(told.contains(refused), "{told}");
    }
    let most = TstTotals { missing: told(9), marks: Some((0..63).collect()), ..totals.clone() };
    std::fs::write(scratch.file(), with_totals(&whole, &most)).unwrap();
    assert_eq!(TstReader::open(&scratch.file(), false).unwrap().totals(), Some(&most));
    let twice: Result<TstTotals, _> = serde_json::from_str(
        r#"{"threads":0,"operations":0,"loads":0,"stores":0,"calls":0,"instructions":0,
            "ended":"","marks":[7,7]}"#,
    );
    assert!(twice.unwrap_err().to_string().contains("a mark is told twice"));
}

#[test]
fn an_index_that_names_other_blocks_is_damage() {
    let scratch = Scratch::new();
    record(&scratch.file(), [200_000, 70_000], 5000);
    let whole = std::fs::read(scratch.file()).unwrap();
    let trailer = whole.len() - 32;
    let at = u64_at(&whole, trailer) as usize;
    let stored = u32_at(&whole, at + 32) as usize;
    let index = zstd::bulk::decompress(&whole[at + 40..at + 40 + stored], 1 << 20).unwrap();
    let forge = |index: &[u8]| {
        let payload = zstd::bulk::compress(index, 1).unwrap();
        let mut header = whole[at..at + 36].to_vec();
        header[28..32].copy_from_slice(&(index.len() as u32).to_le_bytes());
        header[32..36].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        let sum = checksum(&header, &payload);
        [&whole[..at], &header, &sum.to_le_bytes(), &payload, &whole[at + 40 + stored..]].concat()
    };
    std::fs::write(scratch.file(), forge(&index)).unwrap();
    assert!(TstReader::open(&scratch.file(), false).is_ok());
    let mut twice = index.clone();
    twice.copy_within(16..32, 32);
    for forged in [&index[16..], &index[..index.len() - 16], &twice] {
        std::fs::write(scratch.file(), forge(forged)).unwrap();
        let told = TstReader::open(&scratch.file(), false).err().unwrap().to_string();
        assert!(told.contains("the index names") || told.contains("the index does not"), "{told}");
    }
}

#[test]
fn a_recording_says_which_marks_it_has_unless_there_are_too_many() {
    let scratch = Scratch::new();
    let marked = |marks: std::ops::Range<u64>| {
        let mut writer = TstWriter::create(&scratch.file(), &metadata()).unwrap();
        for mark in marks {
            let mut ops = vec![Op::load(64, 8, 1)];
            Call::Marker { mark }.encode(1, &mut ops);
            writer.append((mark % 2) as u32, &ops).unwrap();
        }
        writer.finish("exit status 0").unwrap();
        let reader = TstReader::open(&scratch.file(), false).unwrap();
        [0, 1, 2, 70].map(|mark| reader.gives_mark(mark))
    };
    assert_eq!(marked(0..0), [Some(false); 4]);
    assert_eq!(marked(1..2), [Some(false), Some(true), Some(false), Some(false)]);
    assert_eq!(marked(1..64), [Some(false), Some(true), Some(true), Some(false)]);
    assert_eq!(marked(0..70), [None; 4]);
}

#[test]
fn a_recording_says_what_is_missing_and_how_it_was_cut() {
    let scratch = Scratch::new();
    let mut writer = TstWriter::create(&scratch.file(), &metadata()).unwrap();
    writer.append(0, &sequence(0, 10)).unwrap();
    for what in ["a process", "a process", "sudo (it runs as another user)"] {
        writer.add_missing(what);
    }
    writer.finish_cut("signal 9 (SIGKILL)").unwrap();
    let reader = TstReader::open(&scratch.file(), false).unwrap();
    assert_eq!(reader.missing(), ["a process", "sudo (it runs as another user)"]);
    assert_eq!((reader.cut(), reader.is_cut()), (Some("signal 9 (SIGKILL)"), true));
    assert!(reader.tells_missing());
    let mut writer = TstWriter::create(&scratch.file(), &metadata()).unwrap();
    (0..40).for_each(|number| writer.add_missing(&format!("{number}{}", "ä\u{1}".repeat(4000))));
    let foreseen = writer.most_bytes();
    writer.finish(&"\u{1}".repeat(1 << 20)).unwrap();
    let reader = TstReader::open(&scratch.file(), false).unwrap();
    assert_eq!(reader.missing().len(), 9);
    assert_eq!(reader.missing()[8], "32 further parts of the program");
    assert!(reader.missing().iter().all(|what| what.len() < 1100));
    assert!(reader.file_bytes() <= foreseen);
}

/// A recording as it was before there was a version 4.
#[test]
fn a_recording_of_version_1_is_read_and_does_not_tell_what_is_missing() {
    let scratch = Scratch::new();
    let totals = record(&scratch.file(), [100, 10], 50);
    let whole = std::fs::read(scratch.file()).unwrap();
    let text = &whole[16..16 + u32_at(&whole, 12) as usize];
    let totals = TstTotals { marks: None, ..totals };
    let older = with_totals(&whole, &totals);
    let first = with_header(&older, 1, std::str::from_utf8(text).unwrap());
    std::fs::write(scratch.file(), first).unwrap();
    let mut reader = TstReader::open(&scratch.file(), false).unwrap();
    assert_eq!((reader.version(), reader.totals()), (1, Some(&totals)));
    assert_eq!(reader.gives_mark(1), None);
    assert!(!reader.tells_missing());
    assert_eq!(replay(&mut reader, 1).unwrap(), sequence(1, 10));
    let missing = TstTotals { missing: vec!["a process".into()], ..totals };
    let forged = with_header(&with_totals(&whole, &missing), 1, std::str::from_utf8(text).unwrap());
    std::fs::write(scratch.file(), forged).unwrap();
    let told = TstReader::open(&scratch.file(), false).err().unwrap().to_string();
    assert!(told.contains("which comes with version 4"), "{told}");
}

/// Cut anywhere, a recording is an error that names the block, and its whole blocks replay.
#[test]
fn a_recording_cut_anywhere_names_the_block_and_replays_what_precedes_it() {
    let scratch = Scratch::new();
    record(&scratch.file(), [1200, 300], 100_000);
    let whole = std::fs::read(scratch.file()).unwrap();
    let complete = TstReader::open(&scratch.file(), false).unwrap();
    let blocks: Vec<BlockPlace> = complete.recording.blocks.values().flatten().copied().collect();
    let first_block = complete.recording.first_block as usize;
    for length in 0..whole.len() {
        std::fs::write(scratch.file(), &whole[..length]).unwrap();
        let strict = TstReader::open(&scratch.file(), false).err().unwrap();
        if length < first_block {
            assert!(TstReader::open(&scratch.file(), true).is_err());
            continue;
        }
        let message = strict.to_string();
        assert!(message.contains(": block ") && message.contains(" at byte "), "{message}");
        assert!(message.contains("--allow-truncated replays what precedes it"), "{message}");
        let mut partial = TstReader::open(&scratch.file(), true).unwrap();
        assert!(partial.damage().is_some());
        for block in &blocks {
            let end = whole[block.offset as usize..].len();
            let stored = u32_at(&whole, block.offset as usize + 32) as usize;
            let kept = length >= whole.len() - end + BLOCK_HEADER_BYTES + stored;
            let expected = if kept {
                sequence(block.thread, [1200, 300][block.thread as usize])
            } else {
                Vec::new()
            };
            assert_eq!(replay(&mut partial, block.thread).unwrap(), expected);
        }
    }
}

#[test]
fn a_block_damaged_in_the_middle_is_named_when_it_is_reached() {
    let scratch = Scratch::new();
    record(&scratch.file(), [200_000, 10], 5000);
    let place = {
        let reader = TstReader::open(&scratch.file(), false).unwrap();
        reader.recording.blocks[&0][2]
    };
    let mut bytes = std::fs::read(scratch.file()).unwrap();
    bytes[place.offset as usize + 1000] ^= 0x10;
    std::fs::write(scratch.file(), &bytes).unwrap();
    let mut reader = TstReader::open(&scratch.file(), false).unwrap();
    let Err(StreamError::Damaged(message)) = replay(&mut reader, 0) else {
        panic!("damage must be found");
    };
    let expected = format!(
        "block {} at byte {}: its checksum does not match; --allow-truncated",
        place.number, place.offset
    );
    assert!(message.contains(&expected), "{message}");
    let mut reader = TstReader::open(&scratch.file(), true).unwrap();
    let replayed = replay(&mut reader, 0).unwrap();
    assert_eq!(reader.damage().unwrap().block, place.number);
    assert_eq!(replayed, sequence(0, 200_000)[..replayed.len()]);
    assert!(replayed.len() > 100_000);
}

/// Flips a bit in the middle of what a block stores.
fn flip_in(path: &Path, place: BlockPlace) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = place.offset as usize;
    let middle = at + BLOCK_HEADER_BYTES + u32_at(&bytes, at + 32) as usize / 2;
    bytes[middle] ^= 0x10;
    std::fs::write(path, &bytes).unwrap();
}

#[test]
fn damage_of_a_thread_cuts_that_thread_alone_where_the_index_is_intact() {
    let scratch = Scratch::new();
    record(&scratch.file(), [200_000, 200_000], 5000);
    let places = TstReader::open(&scratch.file(), false).unwrap().recording.blocks.clone();
    for (thread, block) in [(0, 1), (1, 0), (1, places[&1].len() - 1)] {
        let whole = std::fs::read(scratch.file()).unwrap();
        flip_in(&scratch.file(), places[&thread][block]);
        let mut reader = TstReader::open(&scratch.file(), true).unwrap();
        let damage = reader.damage().unwrap().clone();
        assert_eq!(damage.block, places[&thread][block].number);
        let lost = &places[&thread][block..];
        let ops: u64 = lost.iter().map(|place| u64::from(place.ops)).sum();
        let told = format!("{ops} operations in {} blocks of 1 of the threads", lost.len());
        assert!(damage.what.ends_with(&told), "{damage}");
        assert_eq!((reader.totals(), reader.is_cut()), (None, true));
        let other = 1 - thread;
        assert_eq!(replay(&mut reader, other).unwrap(), sequence(other, 200_000));
        let kept = sequence(thread, 200_000);
        let kept = &kept[..kept.len() - ops as usize];
        assert_eq!(replay(&mut reader, thread).unwrap(), kept);
        std::fs::write(scratch.file(), whole).unwrap();
    }
}

#[test]
fn threads_whose_start_is_lost_start_where_the_first_one_ends() {
    let scratch = Scratch::new();
    let mut writer = TstWriter::create(&scratch.file(), &metadata()).unwrap();
    let process = 3u64 << PROCESS_SHIFT;
    let mut first = vec![Op::load(64, 8, 0)];
    Call::Spawn { thread: 1 }.encode(1, &mut first);
    Call::Fork { parent: 0, process: 3, thread: 2 }.encode(1, &mut first);
    Call::Spawn { thread: 2 }.encode(1, &mut first);
    writer.append(1, &[Op::load(128, 8, 0), Op::store(192, 8, 0)]).unwrap();
    writer.append(2, &[Op::load(process | 256, 8, 0)]).unwrap();
    writer.flush().unwrap();
    writer.append(0, &first).unwrap();
    writer.finish("exit status 0").unwrap();
    let places = TstReader::open(&scratch.file(), false).unwrap().recording.blocks.clone();
    let whole = std::fs::read(scratch.file()).unwrap();
    let flipped = || flip_in(&scratch.file(), places[&0][0]);
    let cut = || {
        std::fs::write(scratch.file(), &whole[..places[&0][0].offset as usize + 50]).unwrap();
    };
    for harm in [&flipped as &dyn Fn(), &cut] {
        std::fs::write(scratch.file(), &whole).unwrap();
        harm();
        let reader = TstReader::open(&scratch.file(), true).unwrap();
        let starts = replay(&mut *reader.fork(), 0).unwrap();
        let expected = [
            Call::Spawn { thread: 1 },
            Call::Fork { parent: 0, process: 3, thread: 2 },
            Call::Spawn { thread: 2 },
        ];
        assert_eq!(crate::conformance::calls_of(&starts), expected);
        let mut all = crate::requests::Accesses::of(reader.fork(), None);
        let addresses: Vec<u64> =
            std::iter::from_fn(|| all.next().unwrap()).map(|request| request.address).collect();
        assert_eq!(addresses, [128, 192, process | 256]);
    }
}

fn read_all(path: &Path, allow_truncated: bool) {
    let Ok(mut reader) = TstReader::open(path, allow_truncated) else { return };
    for thread in reader.threads() {
        let _ = replay(&mut reader, thread);
    }
}

proptest! {
    #[test]
    fn random_bytes_after_a_right_beginning_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300), magic in any::<bool>()
    ) {
        let scratch = Scratch::new();
        let mut content = if magic { MAGIC.to_vec() } else { Vec::new() };
        if magic {
            content.extend_from_slice(&VERSION.to_le_bytes());
        }
        content.extend_from_slice(&bytes);
        std::fs::write(scratch.file(), &content).unwrap();
        read_all(&scratch.file(), false);
        read_all(&scratch.file(), true);
    }

    /// Bits flipped, with checksums mended so that what is behind them is reached.
    #[test]
    fn flipped_bits_never_panic_even_behind_right_checksums(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..4),
        mend in any::<bool>(),
    ) {
        let scratch = Scratch::new();
        record(&scratch.file(), [300, 50], 100);
        let mut bytes = std::fs::read(scratch.file()).unwrap();
        for (at, bit) in flips {
            let index = at.index(bytes.len());
            bytes[index] ^= 1 << bit;
        }
        if mend {
            mend_checksums(&mut bytes);
        }
        std::fs::write(scratch.file(), &bytes).unwrap();
        read_all(&scratch.file(), false);
        read_all(&scratch.file(), true);
    }
}

/// Makes the checksum of every block that can still be found right.
fn mend_checksums(bytes: &mut [u8]) {
    let places: Vec<usize> = (0..bytes.len().saturating_sub(40))
        .filter(|at| bytes[*at..].starts_with(b"TBLK"))
        .collect();
    for at in places {
        let stored = u32_at(bytes, at + 32) as usize;
        let Some(payload) = bytes.get(at + 40..at.saturating_add(40 + stored)) else {
            continue;
        };
        let sum = checksum(&bytes[at..at + 36], payload);
        bytes[at + 36..at + 40].copy_from_slice(&sum.to_le_bytes());
    }
}
