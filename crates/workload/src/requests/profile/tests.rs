//! The one pass against the plainest lists, and the sample against all blocks.

use super::super::looks::LOOK_EVERY;
use super::super::tests::OneThread;
use super::*;
use crate::op::{Call, Op};
use crate::requests::{Pattern, Patterned};
use proptest::prelude::*;
use std::collections::BTreeSet;

struct Listed(std::vec::IntoIter<TraceRequest>);

impl RequestSource for Listed {
    fn next(&mut self) -> Result<Option<TraceRequest>, StreamError> {
        Ok(self.0.next())
    }

    fn times(&self) -> Times {
        Times::Absent
    }

    fn place(&self) -> String {
        String::new()
    }

    fn fork(&self) -> Result<Box<dyn RequestSource>, StreamError> {
        Ok(Box::new(Listed(self.0.clone())))
    }
}

fn of_blocks(blocks: &[u64], most: usize) -> Profile {
    let requests: Vec<_> =
        blocks.iter().map(|block| TraceRequest::line(block * 64, false, None)).collect();
    profile_of(&mut Listed(requests.into_iter()), 64, most, None, |_| true).unwrap()
}

/// Touches that hit a list of the blocks touched last, of so many.
fn hits_of_a_list(blocks: &[u64], size: usize) -> usize {
    let mut list: Vec<u64> = Vec::new();
    let mut hits = 0;
    for block in blocks {
        if let Some(at) = list.iter().position(|held| held == block) {
            list.remove(at);
            hits += 1;
        }
        list.insert(0, *block);
        list.truncate(size);
    }
    hits
}

proptest! {
    #[test]
    fn the_curve_is_that_of_a_list(
        blocks in proptest::collection::vec(prop_oneof![0u64..8, 0u64..100], 1..400),
    ) {
        let found = of_blocks(&blocks, 1 << 20);
        prop_assert_eq!(found.sample, None);
        let different: BTreeSet<u64> = blocks.iter().copied().collect();
        prop_assert_eq!(found.blocks, different.len() as u64);
        prop_assert_eq!(found.touches, blocks.len() as u64);
        for one in &found.miss_ratio {
            let size = (one.cache_bytes / 64) as usize;
            let misses = blocks.len() - hits_of_a_list(&blocks, size);
            prop_assert!((one.miss_ratio - misses as f64 / blocks.len() as f64).abs() < 1e-9);
        }
        let counted: f64 = found.reuse.iter().map(|row| row.touches).sum();
        prop_assert!((counted - blocks.len() as f64).abs() < 1e-6);
    }

    #[test]
    fn windows_hold_what_sets_hold(
        blocks in proptest::collection::vec(prop_oneof![0u64..8, 0u64..1000], 1..3000),
    ) {
        let found = of_blocks(&blocks, 1 << 20);
        prop_assert!(found.working_set.len() <= 128);
        let mut begin = 0;
        for window in &found.working_set {
            let end = window.end_touches as usize;
            let set: BTreeSet<u64> = blocks[begin..end].iter().copied().collect();
            prop_assert_eq!(window.blocks, set.len() as f64, "{}..{}", begin, end);
            begin = end;
        }
        prop_assert_eq!(begin, blocks.len());
    }
}

#[test]
fn the_slots_of_touches_are_numbered_anew_without_a_change() {
    // Far more touches than slots, of blocks that come again at fixed distances.
    let blocks: Vec<u64> = (0..200_000u64).map(|touch| touch % 300).collect();
    let found = of_blocks(&blocks, 1 << 20);
    let rows: Vec<_> = found.reuse.iter().map(|row| (row.distance_blocks, row.touches)).collect();
    assert_eq!(rows, [(Some(320), 199_700.0), (None, 300.0)]);
}

#[test]
fn a_sample_is_as_near_as_it_says() {
    for (pattern, seed) in [(Pattern::Random, 1), (Pattern::Zipf, 2), (Pattern::Zipf, 3)] {
        let trace = || Patterned::new(pattern, 400_000, 1 << 23, 1, 30, seed);
        let exact = profile_of(&mut trace(), 64, 1 << 20, None, |_| true).unwrap();
        let sampled = profile_of(&mut trace(), 64, 4096, None, |_| true).unwrap();
        let sample = sampled.sample.unwrap();
        assert!(exact.sample.is_none() && sample.blocks <= 4096 && sample.rate < 0.1);
        let ratio = sampled.blocks as f64 / exact.blocks as f64;
        assert!((ratio - 1.0).abs() < 2.0 * sample.error, "{ratio} of the blocks: {sample:?}");
        let at = |profile: &Profile, bytes: u64| {
            let rows = profile.miss_ratio.iter();
            rows.take_while(|row| row.cache_bytes <= bytes).last().map_or(1.0, |row| row.miss_ratio)
        };
        for log in 14..23 {
            let (there, here) = (at(&exact, 1 << log), at(&sampled, 1 << log));
            assert!(
                (there - here).abs() <= sample.error,
                "{pattern:?}, 2^{log} bytes: {here} instead of {there}, {sample:?}"
            );
        }
    }
}

#[test]
fn what_requests_ask_for_is_counted() {
    let request = |kind, address, bytes| TraceRequest { address, bytes, kind, ticks: None };
    let requests = vec![
        request(RequestKind::Read, 100, 5000),
        request(RequestKind::Write, 8192, 512),
        request(RequestKind::Write, u64::MAX - 10, 0),
        request(RequestKind::Flush, 0, 0),
        request(RequestKind::Trim, 0, 4096),
    ];
    let found =
        profile_of(&mut Listed(requests.into_iter()), 4096, 1 << 20, None, |_| true).unwrap();
    assert_eq!((found.reads, found.writes, found.flushes, found.trims), (1, 2, 1, 1));
    assert_eq!((found.read_bytes, found.written_bytes), (5000, 4608));
    assert_eq!((found.touches, found.blocks, found.written_blocks), (4, 4, 2));
    assert_eq!(found.sizes, [(512, 1), (4096, 2)]);
    assert_eq!((found.first_byte, found.last_byte), (Some(100), Some(u64::MAX - 10)));
}

#[test]
fn a_limit_leaves_a_trace_incomplete_where_more_of_it_comes_and_alone_then() {
    let requests = |count: u64| {
        let all = (0..count).map(|at| TraceRequest { address: at * 64, ..REQUEST });
        Listed(all.collect::<Vec<_>>().into_iter())
    };
    for (count, most, complete, reads) in [
        (10, Some(5), false, 5),
        (10, Some(10), true, 10),
        (10, Some(11), true, 10),
        (10, None, true, 10),
    ] {
        let found = profile_of(&mut requests(count), 64, 1 << 20, most, |_| true).unwrap();
        assert_eq!((found.complete, found.interrupted, found.reads), (complete, false, reads));
    }
}

#[test]
fn a_pass_over_large_requests_asks_for_their_blocks_whether_to_go_on() {
    let request = TraceRequest { bytes: 1 << 30, ..REQUEST };
    for block_bytes in [64, 4096] {
        let mut asked = Vec::new();
        let mut source = Listed(vec![request; 3].into_iter());
        let found = profile(&mut source, block_bytes, None, |passed| {
            asked.push(passed.requests);
            asked.len() < 3
        });
        let found = found.unwrap();
        assert_eq!(asked, [1; 3]);
        assert_eq!((found.complete, found.interrupted), (false, true));
        assert_eq!((found.reads, found.touches), (1, 3 * LOOK_EVERY));
    }
}

#[test]
fn a_pass_over_threads_asks_for_their_blocks_and_calls_whether_to_go_on() {
    let accesses: Vec<Op> = (0..50).map(|at| Op::load(at << 16, 65_528, 0)).collect();
    let mut calls = Vec::new();
    for _ in 0..LOOK_EVERY {
        Call::Sync { file: 0 }.encode(0, &mut calls);
    }
    let mut reads = Vec::new();
    Call::Read { file: 0, offset: 0, length: 1 << 30, address: 0 }.encode(0, &mut reads);
    for (ops, touches, pages) in
        [(accesses, LOOK_EVERY, None), (calls, 0, Some(0)), (reads, 0, Some(LOOK_EVERY))]
    {
        let mut asked = 0;
        let mut source = Accesses::of(Box::new(OneThread(ops.into())), None);
        let found = profile_threads(&mut source, 8, None, |_| {
            asked += 1;
            false
        });
        let OfThreads { profile, files, .. } = found.unwrap();
        assert_eq!((asked, profile.interrupted), (1, true));
        assert_eq!((profile.touches, files.map(|files| files.touches)), (touches, pages));
    }
}

const REQUEST: TraceRequest =
    TraceRequest { address: 0, bytes: 64, kind: RequestKind::Read, ticks: None };
