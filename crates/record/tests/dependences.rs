//! Which loads of a program depend on the one before is recorded.

mod common;

use common::{Event, guest, record};
use tierscope_workload::op::FLAG_DEPENDENT;
use tierscope_workload::{Call, Op, OpKind};

const STEPS: usize = 20_000;

/// Accesses between the marks of `depend.c`.
fn marked(way: &str) -> Vec<Op> {
    let recording = record(&guest("depend"), &[way, "1000", &STEPS.to_string()]);
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

fn depends(op: &Op) -> bool {
    op.flags() & FLAG_DEPENDENT != 0
}

/// Loads, and those of them that depend on the one before.
fn loads(way: &str) -> (usize, usize) {
    let ops = marked(way);
    let loads = ops.iter().filter(|op| op.kind() == Some(OpKind::Load));
    (loads.clone().count(), loads.filter(|op| depends(op)).count())
}

/// So many for each step, but for a few around the loop.
fn nearly(count: usize, steps: usize) -> bool {
    count.abs_diff(steps * STEPS) < 20
}

#[test]
fn each_load_of_a_chase_depends_on_the_one_before() {
    needs_qemu!();
    let (all, dependent) = loads("chase");
    assert!(nearly(all, 1), "{all}");
    assert!(nearly(dependent, 1), "{dependent}");
}

#[test]
fn a_list_waits_at_the_first_load_of_each_node() {
    needs_qemu!();
    // The second is of the same node, behind the first.
    let (all, dependent) = loads("list");
    assert!(nearly(all, 2), "{all}");
    assert!(nearly(dependent, 1), "{dependent}");
}

#[test]
fn loads_in_order_depend_on_nothing() {
    needs_qemu!();
    let (all, dependent) = loads("sum");
    assert!(all >= STEPS, "{all}");
    assert!(nearly(dependent, 0), "{dependent}");
}

#[test]
fn of_a_gather_each_element_depends_on_its_number() {
    needs_qemu!();
    let (all, dependent) = loads("gather");
    assert!(nearly(all, 2), "{all}");
    assert!(nearly(dependent, 1), "{dependent}");
    let ops = marked("gather");
    let of_numbers = ops.iter().filter(|op| op.size() == 4);
    assert_eq!(of_numbers.filter(|op| depends(op)).count(), 0);
}

#[test]
fn what_a_comparison_of_loaded_values_chooses_depends_on_them() {
    needs_qemu!();
    let (all, dependent) = loads("branchless");
    assert!(nearly(all, 2), "{all}");
    assert!(nearly(dependent, 2), "{dependent}");
}

#[test]
fn a_return_from_a_function_is_a_load_that_comes_between() {
    needs_qemu!();
    // What is told of a load is whether it depends on the last one: the return's.
    let (all, dependent) = loads("call");
    assert!(nearly(all, 2), "{all}");
    assert!(nearly(dependent, 0), "{dependent}");
}
