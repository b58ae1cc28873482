//! Flushes of lines are recorded where their addresses are known, and counted where not.

mod common;

use common::{Event, guest, record};
use tierscope_workload::op::{FLAG_KEEP, FLAG_ORDERED};
use tierscope_workload::{Op, OpKind};

#[test]
fn a_flush_is_recorded_where_its_address_is_known_and_counted_where_not() {
    needs_qemu!();
    let recording = record(&guest("flushed"), &["5"]);
    let ops: Vec<Op> = recording.threads[&0]
        .iter()
        .filter_map(|event| match event {
            Event::Op(op) => Some(*op),
            Event::Call(_) => None,
        })
        .collect();
    let mut flushed = Vec::new();
    for two in ops.windows(2) {
        if two[1].kind() == Some(OpKind::Flush) {
            assert_eq!(two[0].kind(), Some(OpKind::Store));
            // Each is behind its store; that of the loop is 8 bytes behind the line's beginning.
            let behind = two[1].word.wrapping_sub(two[0].word);
            flushed.push((behind, two[1].flags(), two[1].instructions()));
        }
    }
    assert_eq!(flushed, [[(32, FLAG_ORDERED, 1)].repeat(5), vec![(0, FLAG_KEEP, 1)]].concat());
    let left_out = &recording.report.unseen;
    assert!(left_out.iter().any(|what| what.ends_with(": 1 CLFLUSHOPT")), "{left_out:?}");
}
