//! Accessed bits, taken by walks and around a page.

use super::*;
use crate::os::paging::small::{small, touch};
use tierscope_workload::op::{Advice, MAP_SHARED, MAP_WRITABLE};

const FILE: FileId = 1;
const PAGE: u64 = 4096;

/// A file's mapping of some pages from a page on, all of which are touched, and then those of anonymous memory
/// that no call has mapped.
fn touched(file: Range<u64>, anonymous: Range<u64>) -> Paging {
    let mut paging = small(|_| {});
    paging.open(FILE, 1024 * PAGE).expect("the store has room");
    paging.map(file.start * PAGE, (file.end - file.start) * PAGE, MAP_SHARED, FILE, 0);
    for (pages, write) in [(file, false), (anonymous, true)] {
        for page in pages {
            touch(&mut paging, page, write);
        }
    }
    paging
}

fn pages_of(paging: &Paging, walked: &Walked) -> Vec<u64> {
    walked.young.iter().map(|frame| paging.frames.get(*frame).mapped_at).collect()
}

fn walk(paging: &mut Paging, tables: Option<&[u64]>, anonymous: bool) -> Vec<(u64, u64, u64)> {
    let tables: Option<BTreeSet<u64>> = tables.map(|tables| tables.iter().copied().collect());
    let mut found = Vec::new();
    paging.walk_tables(tables.as_ref(), anonymous, &mut |walked| {
        found.push((walked.table, walked.entries, walked.young.len() as u64));
    });
    found
}

#[test]
fn a_walk_takes_each_bit_once_table_by_table() {
    let mut paging = touched(500..600, 1030..1040);
    let all = [(0, 12, 12), (1, 88, 88), (2, 10, 10)];
    assert_eq!(walk(&mut paging, None, true), all, "entries of mappings, and those without one");
    assert_eq!(walk(&mut paging, None, true), all.map(|(table, entries, _)| (table, entries, 0)));
    let Pte::Present { frame, .. } = paging.entry(520) else { panic!("it was touched") };
    paging.touch(frame);
    assert_eq!(walk(&mut paging, Some(&[0, 2]), true), [(0, 12, 0), (2, 10, 0)]);
    assert_eq!(walk(&mut paging, Some(&[1]), true), [(1, 88, 1)]);
}

#[test]
fn a_walk_leaves_out_what_has_no_recency_and_what_may_not_go() {
    let mut paging = touched(512..612, 1030..1040);
    paging.map(2048 * PAGE, 10 * PAGE, MAP_WRITABLE, NO_FILE, 0);
    assert_eq!(walk(&mut paging, None, false), [(1, 100, 100), (2, 0, 0)]);
    let mut paging = touched(512..612, 0..0);
    let advice = Advice::Random as u64;
    paging
        .advise(512 * PAGE, 50 * PAGE, advice, &mut Vec::new(), &|_| false)
        .expect("it is mapped");
    assert_eq!(walk(&mut paging, None, true), [(1, 50, 50)]);
}

#[test]
fn what_lies_around_a_page_ends_with_its_mapping_and_its_table() {
    let mut paging = touched(500..900, 0..0);
    let frame_of = |paging: &Paging, page| match paging.entry(page) {
        Pte::Present { frame, .. } => frame,
        other => panic!("{page} is {other:?}"),
    };
    for (page, expected) in [(505, 500..512), (512, 512..576), (700, 668..732), (899, 836..900)] {
        let frame = frame_of(&paging, page);
        let walked = paging.look_around(frame, 64, &|_| true).expect("there is more than it");
        assert_eq!(walked.entries, expected.end - expected.start);
        assert_eq!(pages_of(&paging, &walked), expected.collect::<Vec<_>>(), "around {page}");
    }
    assert_eq!(walk(&mut paging, None, true).iter().map(|table| table.2).sum::<u64>(), 400 - 204);
}

#[test]
fn bits_of_what_is_in_no_list_stay() {
    let mut paging = touched(512..612, 0..0);
    let Pte::Present { frame, .. } = paging.entry(520) else { panic!("it was touched") };
    let walked = paging.look_around(frame, 64, &|other| other == frame).expect("there are others");
    assert_eq!(walked.young, [frame]);
    assert_eq!(walk(&mut paging, None, true), [(1, 100, 99)]);
}
