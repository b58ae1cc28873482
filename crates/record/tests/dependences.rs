//! On which load each access of a program depends is recorded.

mod common;

use common::{Event, guest, record};
use tierscope_workload::{Call, Op, OpKind};

const STEPS: usize = 20_000;
const NODES: usize = 1000;
const NODE_BYTES: u64 = 64;

/// Accesses between the marks of `depend.c`.
fn marked(way: &str) -> Vec<Op> {
    let recording = record(&guest("depend"), &[way, &NODES.to_string(), &STEPS.to_string()]);
    let events = &recording.threads[&0];
    let mark = |event: &&Event| matches!(event, Event::Call(Call::Marker { .. }));
    let inside = events.iter().skip_while(|event| !mark(event)).skip(1);
    inside
        .take_while(|event| !mark(event))
        .filter_map(|event| match event {
            Event::Op(op) if matches!(op.kind(), Some(OpKind::Load | OpKind::Store)) => Some(*op),
            _ => None,
        })
        .collect()
}

fn is_load(op: &Op) -> bool {
    op.kind() == Some(OpKind::Load)
}

/// How many loads there are, and how many depend on one so many loads back, from 0, for none, to 3.
fn loads(way: &str) -> (usize, [usize; 4]) {
    let ops = marked(way);
    let back = |back| ops.iter().filter(|op| is_load(op) && op.dependence() == back).count();
    (ops.iter().filter(|op| is_load(op)).count(), [0, 1, 2, 3].map(back))
}

/// So many for each step, but for a few around the loop.
fn nearly(counts: &[usize], steps: &[usize]) -> bool {
    counts.iter().zip(steps).all(|(count, steps)| count.abs_diff(steps * STEPS) < 20)
}

#[test]
fn each_load_of_a_chase_depends_on_the_one_before() {
    needs_qemu!();
    let (all, back) = loads("chase");
    assert!(nearly(&[all], &[1]), "{all}");
    assert!(nearly(&back, &[0, 1, 0, 0]), "{back:?}");
}

#[test]
fn both_loads_of_a_node_wait_for_the_one_that_gave_it() {
    needs_qemu!();
    let (all, back) = loads("list");
    assert!(nearly(&[all], &[2]), "{all}");
    assert!(nearly(&back, &[0, 1, 1, 0]), "{back:?}");
}

#[test]
fn loads_in_order_depend_on_nothing() {
    needs_qemu!();
    let (all, back) = loads("sum");
    assert!(all >= STEPS, "{all}");
    assert!(nearly(&back[1..], &[0, 0, 0]), "{back:?}");
}

#[test]
fn of_a_gather_each_element_depends_on_its_number() {
    needs_qemu!();
    let (all, back) = loads("gather");
    assert!(nearly(&[all], &[2]), "{all}");
    assert!(nearly(&back, &[1, 1, 0, 0]), "{back:?}");
    let ops = marked("gather");
    let of_numbers = ops.iter().filter(|op| op.size() == 4);
    assert_eq!(of_numbers.filter(|op| op.dependence() != 0).count(), 0);
}

#[test]
fn what_a_comparison_of_loaded_values_chooses_depends_on_them() {
    needs_qemu!();
    let (all, back) = loads("branchless");
    assert!(nearly(&[all], &[2]), "{all}");
    assert!(nearly(&back, &[0, 2, 0, 0]), "{back:?}");
}

#[test]
fn a_return_from_a_function_comes_between_and_forgets_nothing() {
    needs_qemu!();
    let (all, back) = loads("call");
    assert!(nearly(&[all], &[2]), "{all}");
    assert!(nearly(&back, &[1, 0, 1, 0]), "{back:?}");
}

#[test]
fn in_a_tree_each_node_waits_for_the_one_above_it() {
    needs_qemu!();
    let ops: Vec<Op> = marked("tree").into_iter().filter(is_load).collect();
    let words: Vec<u64> = ops.iter().map(|op| op.word).collect();
    // The lowest place that gives what the next load goes by is the root's left field: the stack is above.
    let loads = words.iter().zip(&ops[1..]);
    let givers = loads.filter(|(_, next)| next.dependence() == 1).map(|(giver, _)| *giver);
    let root = givers.min().expect("nodes");
    let node = |word: u64| Some((word.checked_sub(root)? / NODE_BYTES) as usize);
    let in_tree = |word: u64| node(word).filter(|node| *node < NODES);
    let (mut by_parent, mut by_stack) = (0, 0);
    for (at, op) in ops.iter().enumerate() {
        let Some(own) = in_tree(op.word).filter(|node| *node > 0) else { continue };
        assert_ne!(op.dependence(), 0, "node {own}");
        let giver = words[at - usize::from(op.dependence())];
        match in_tree(giver) {
            // The right or the left field of the node above.
            Some(parent) => {
                assert_eq!(parent, (own - 1) / 2);
                assert_eq!(giver % NODE_BYTES, 8 * ((own as u64 - 1) % 2));
                by_parent += 1;
            }
            // A register that a call kept on the stack.
            None => by_stack += 1,
        }
    }
    let walked = STEPS.div_ceil(NODES) * (NODES - 1);
    assert!(by_parent >= 2 * walked, "value and left: {by_parent}");
    assert!(by_stack <= walked, "right: {by_stack}");
}
