use super::*;
use crate::conformance::{calls_of, calls_of_thread, stream_laws};
use crate::counts::Counts;
use crate::generator::find;
use crate::stream::Pull;
use std::collections::BTreeSet;

fn sets(all: &[(&str, Value)]) -> Vec<(String, Value)> {
    let small = [
        ("size", Value::from("256KiB")),
        ("page", "512B".into()),
        ("cache", "80KiB".into()),
        ("transactions", 60.into()),
        ("checkpoint", 25.into()),
        ("instructions", 500.into()),
        ("touched", false.into()),
    ];
    small.iter().chain(all).map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

fn ops(name: &str, all: &[(&str, Value)]) -> Vec<Op> {
    let (mut stream, _) = find(name).unwrap().make(&sets(all), 3).unwrap();
    let mut ops = Vec::new();
    while stream.pull(0, 10_000, &mut ops).unwrap() == Pull::More {}
    ops
}

const BOTH: [&str; 2] = ["bdb/btree", "bdb/hash"];

#[test]
fn the_streams_laws_hold() {
    for (name, threads, synchronous) in [(BOTH[0], 2, "full"), (BOTH[1], 1, "write")] {
        let given = sets(&[
            ("threads", threads.into()),
            ("synchronous", synchronous.into()),
            ("transactions", 30.into()),
            ("touched", true.into()),
        ]);
        stream_laws(|| find(name).unwrap().make(&given, 7).unwrap().0);
    }
}

/// What is in the buffers, by what calls and stores did, as a list.
#[derive(Default)]
struct Cache {
    /// Of each buffer, by its address: the page's place in the file, and whether the file lacks what was stored.
    buffers: BTreeMap<u64, (Option<u64>, bool)>,
    reads: u64,
    writes: u64,
}

/// Follows calls and accesses: no buffer is read into while it has what the file lacks, what is written is
/// of the page that is there, no page is read whose change is elsewhere in the cache, and after a checkpoint the file has all.
/// Nothing is written of a page that was not changed.
fn follow(name: &str, page_bytes: u64, buffers: u64, all: &[(&str, Value)]) -> Cache {
    let (stream, _) = find(name).unwrap().make(&sets(all), 3).unwrap();
    let (ops, size) = (ops(name, all), stream.files()[0].size_bytes);
    let mut cache = Cache::default();
    let all = BASE_ADDRESS..BASE_ADDRESS + buffers * page_bytes;
    let (mut at, mut synced) = (0, 0);
    while let Some(op) = ops.get(at) {
        let buffer = op.word - op.word % page_bytes;
        if op.kind() == Some(OpKind::Store) && all.contains(&op.word) {
            cache.buffers.entry(buffer).or_default().1 = true;
        }
        if op.kind() == Some(OpKind::Call) {
            match Call::decode(*op, &ops[at + 1..]) {
                Some(Call::Read { file: DATABASE, offset, address, .. }) => {
                    // What a buffer that was given back still has may not be newer than the file.
                    for held in cache.buffers.values_mut().filter(|held| held.0 == Some(offset)) {
                        assert!(!held.1, "{name}: {offset} is changed elsewhere");
                        held.0 = None;
                    }
                    let held = cache.buffers.insert(address, (Some(offset), false));
                    assert!(held.is_none_or(|held| !held.1), "{name}: a change is lost");
                    cache.reads += 1;
                }
                Some(Call::Write { file: DATABASE, offset, address, length }) => {
                    let held = cache.buffers.get_mut(&address).expect("it was used");
                    // What splits add is in no file yet, and takes the place of what was there.
                    held.0 = held.0.filter(|_| offset < size);
                    assert_eq!((*held.0.get_or_insert(offset), length), (offset, page_bytes));
                    assert!(std::mem::take(&mut held.1), "{name}: {offset} was not changed");
                    cache.writes += 1;
                }
                Some(Call::SyncData { file: DATABASE }) => {
                    synced += 1;
                    let left = cache.buffers.values().filter(|held| held.1).count();
                    assert_eq!(left, 0, "{name}: the checkpoint left pages");
                }
                _ => {}
            }
        }
        at += length_of(*op);
    }
    assert!(synced >= 2, "{name}");
    cache
}

#[test]
fn no_change_of_a_page_is_lost_and_checkpoints_leave_none() {
    for name in BOTH {
        let given = [("transactions", Value::from(600)), ("checkpoint", 100.into())];
        let cache = follow(name, 512, 160, &given);
        assert!(
            cache.reads > 300 && cache.writes > 300,
            "{name}: {} {}",
            cache.reads,
            cache.writes
        );
        // A database whose pages outside the cache are few, which are used again while they are there.
        let crowded = [("size", Value::from("100KiB")), ("transactions", 600.into())];
        follow(name, 512, 160, &crowded);
    }
}

/// A tree or a table of 512 pages, without instructions of its own.
fn made(tree: bool, threads: u64, synchronous: bool) -> Bdb {
    let given = sets(&[("threads", threads.into())]);
    let bytes = 256 << 10;
    let structure = if tree {
        Structure::Tree(BTree::new(512, 16, 100, bytes / 512, 1))
    } else {
        Structure::Table(Hash::new(512, 16, 100, bytes / 512, 1))
    };
    Bdb {
        buffers: buffers(&given, bytes, 512, &structure, threads as u32, 1).unwrap(),
        structure: Arc::new(structure),
        transactions: 1000,
        threads: threads as u32,
        pair_bytes: 116,
        checkpoint: 100,
        synchronous,
        log_file_bytes: 64 << 10,
        direct: false,
        instructions: 0,
        touched: false,
        keys: Counter::stream(1, "test"),
    }
}

/// The log is appended to without a gap, from file to file, and forced before a transaction ends.
#[test]
fn the_log_is_whole_and_forced_at_each_commit() {
    for (tree, synchronous) in [(true, true), (false, false)] {
        let bdb = made(tree, 1, synchronous);
        let file_bytes = bdb.log_file_bytes;
        let mut stream = in_units(bdb);
        let files = stream.files().len() as FileId;
        let (mut next, mut syncs, mut commits, mut opened) = ((LOG, 0), 0, 0, 0);
        let mut forced = true;
        for call in calls_of_thread(stream.as_mut(), 0) {
            match call {
                Call::Open { file, size: 0 } => {
                    assert_eq!((file, 0), next);
                    opened += 1;
                }
                Call::Write { file, offset, length, .. } if file >= LOG => {
                    assert_eq!((file, offset), next);
                    commits += 1;
                    forced = false;
                    next = (file, offset + length);
                    if offset + length == file_bytes {
                        next = (file + 1, 0);
                    }
                }
                Call::SyncData { file } if file >= LOG => {
                    // What ends at a file's end is of that file.
                    assert_eq!(file, if next.1 == 0 { next.0 - 1 } else { next.0 });
                    (syncs, forced) = (syncs + 1, true);
                }
                Call::Write { file: DATABASE, .. } => assert!(forced, "the log comes first"),
                _ => {}
            }
        }
        assert_eq!((next.0 + 1, opened), (files, files - 1));
        // Ten checkpoints, and once more at each end of a file.
        assert!((1010..1010 + files).contains(&commits) && files > 3, "{commits} in {files}");
        if synchronous {
            assert_eq!(syncs, commits);
        } else {
            // Of the end and the beginning of ten checkpoints, and of room made after every sixteen.
            assert!((20..=20 + 1000 / 16 + 2).contains(&syncs), "{syncs}");
        }
    }
}

#[test]
fn a_cache_of_an_eighth_of_the_leaves_has_an_eighth_of_them() {
    let given = [
        ("size", Value::from("32MiB")),
        ("page", "4KiB".into()),
        ("cache", "4MiB".into()),
        ("transactions", 4000.into()),
        ("checkpoint", 5000.into()),
    ];
    // Of 1024 buffers for 8192 pages some 80 are taken in turn, and of the tree 88 pages are above leaves.
    for (name, staying, expected) in [(BOTH[0], 2 * 4000, 0.105), (BOTH[1], 4000, 0.117)] {
        let all = ops(name, &given);
        let reads = calls_of(&all)
            .into_iter()
            .filter(|call| matches!(call, Call::Read { file: DATABASE, .. }))
            .count() as f64;
        // Each page is locked and counted, and given back: four atomic accesses.
        let atomics = all.iter().filter(|op| {
            op.kind() == Some(OpKind::Store) && op.size() == 8 && op.flags() & FLAG_ATOMIC != 0
        });
        let visits = atomics.count() as f64 / 4.0 - f64::from(staying);
        // Of a split, a page is new and one describes the tree.
        let visits = if name == BOTH[0] { 4000.0 } else { visits };
        let hits = 1.0 - reads / visits;
        assert!(visits > 3999.0 && (hits - expected).abs() < 0.02, "{name}: {hits} of {visits}");
    }
}

/// Chi-square of the leaves that a thousand transactions a leaf meet, at four standard deviations.
#[test]
fn keys_fall_on_all_leaves_alike() {
    let Structure::Tree(tree) = Structure::Tree(BTree::new(512, 16, 100, 64, 1)) else {
        unreachable!()
    };
    let keys = Counter::stream(9, "bdb/keys");
    let leaves = tree.pages() - tree.upper();
    let mut hits = vec![0.0f64; leaves as usize];
    for number in 0..1000 * leaves {
        let leaf = tree.leaf(keys.below_at(number, tree.rows()));
        hits[(leaf - tree.upper()) as usize] += 1.0;
    }
    let statistic: f64 = hits.iter().map(|hits| (hits - 1000.0).powi(2) / 1000.0).sum();
    let freedom = leaves as f64 - 1.0;
    assert!((statistic - freedom).abs() < 4.0 * (2.0 * freedom).sqrt(), "{statistic} of {freedom}");
}

#[test]
fn threads_insert_and_delete_in_turn_and_splits_come_with_each_leafs_inserts() {
    for threads in [1, 2] {
        let bdb = made(true, threads, true);
        let (mut inserted, mut splits, mut logged) = (0, 0, 0);
        for number in 0..1000 {
            assert_eq!(bdb.inserts(number), (number / threads) % 2 == 0);
            assert_eq!((bdb.inserted(number), bdb.splits(number)), (inserted, splits));
            assert_eq!(bdb.logged(number), logged);
            inserted += u64::from(bdb.inserts(number));
            logged += bdb.record_bytes();
            if let Some(split) = bdb.split(number) {
                assert_eq!(split, splits);
                splits += 1;
                logged += bdb.split_bytes();
            }
            logged += if (number + 1) % 100 == 0 { CHECKPOINT_RECORD_BYTES } else { 0 };
            let pages: BTreeSet<u64> = bdb.visits(number).iter().map(|visit| visit.page).collect();
            assert_eq!(pages.len(), bdb.visits(number).len(), "each once");
        }
        let Structure::Tree(tree) = &*bdb.structure else { unreachable!() };
        assert_eq!((inserted, splits), (500, 500 / tree.leaf_rows));
    }
}

#[test]
fn a_transaction_has_the_instructions_that_it_is_given() {
    for name in BOTH {
        let of = |instructions: u64| {
            let given = [("instructions", instructions.into())];
            Counts::of(&ops(name, &given)).instructions
        };
        assert_eq!(of(7000) - of(0), 60 * 7000, "{name}");
    }
}

/// \[NVM10\] §IV-B: 16 GB.
#[test]
fn the_full_size_is_that_of_the_paper() {
    for name in BOTH {
        let (stream, _) = find(name).unwrap().make(&[("size".into(), "full".into())], 0).unwrap();
        let bytes = stream.files()[0].size_bytes as f64;
        assert!((bytes / (16u64 << 30) as f64 - 1.0).abs() < 0.01, "{name}: {bytes}");
    }
}

#[test]
fn wrong_parameters_are_refused() {
    for (name, value, mend) in [
        ("cache", Value::from("4KiB"), "or more, or auto"),
        ("page", "1000B".into(), "4KiB or 8KiB"),
        ("value", 400.into(), "larger workload.page"),
        ("synchronous", "off".into(), "full or write"),
        ("size", "16KiB".into(), "write more"),
        ("direct", true.into(), "4KiB or 8KiB"),
    ] {
        let told = find("bdb/btree").unwrap().make(&sets(&[(name, value)]), 0).err().unwrap();
        assert!(told.to_string().contains(mend), "{told}");
    }
}

/// Keys of transactions fall on all leaves alike, and those that insert on the same as those that delete.
#[test]
fn transactions_meet_all_leaves_alike() {
    let bdb = made(true, 2, true);
    let Structure::Tree(tree) = &*bdb.structure else { unreachable!() };
    let leaves = (tree.pages() - tree.upper()) as usize;
    let (mut inserts, mut deletes) = (vec![0; leaves], vec![0; leaves]);
    for number in 0..40_000 {
        let visits = bdb.visits(number);
        let leaf = visits.iter().find(|visit| visit.leaf && visit.cells > 0).unwrap();
        let met = if bdb.inserts(number) { &mut inserts } else { &mut deletes };
        met[(leaf.page - tree.upper()) as usize] += 1;
    }
    for met in [&inserts, &deletes] {
        assert_eq!(met.iter().sum::<u64>(), 20_000);
        crate::goodness::are_alike(met);
    }
}
