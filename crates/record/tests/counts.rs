//! What is recorded of accesses and instructions is exact.

mod common;

use common::{Event, count, guest, record};
use serde_json::Value;
use tierscope_record::launch::Report;
use tierscope_workload::OpKind;
use tierscope_workload::op::FLAG_ATOMIC;

fn number(report: &Report, path: &str) -> i64 {
    let result = report.result.as_ref().expect("the run is complete");
    result.pointer(path).and_then(Value::as_i64).unwrap_or_else(|| panic!("{path} in {result}"))
}

/// Loads, stores and instructions.
fn counts(report: &Report) -> [i64; 3] {
    ["/sink/loads", "/sink/stores", "/recorded/instructions"].map(|path| number(report, path))
}

fn difference(program: &std::path::Path, arguments: &[&str]) -> [i64; 3] {
    let with = counts(&count(program, arguments));
    // The other arguments have the same length, so that start-up is the same.
    let zeros: Vec<String> = arguments.iter().map(|argument| "0".repeat(argument.len())).collect();
    let zeros: Vec<&str> = zeros.iter().map(String::as_str).collect();
    let without = counts(&count(program, &zeros));
    [with[0] - without[0], with[1] - without[1], with[2] - without[2]]
}

#[test]
fn each_access_and_instruction_of_a_loop_is_counted_once() {
    needs_qemu!();
    let program = guest("counted");
    let [loads, stores, instructions] = difference(&program, &["100000"]);
    // Start-up parses the number: a few accesses more or less.
    assert!((loads - 100_000).abs() < 100, "{loads} loads");
    assert!((stores - 100_000).abs() < 100, "{stores} stores");
    assert!((instructions - 600_000).abs() < 500, "{instructions} instructions");
}

#[test]
fn an_atomic_addition_is_a_load_and_a_store_marked_so() {
    needs_qemu!();
    let recording = record(&guest("counted"), &["0", "5000"]);
    let atomic: Vec<_> = recording.threads[&0]
        .iter()
        .filter_map(|event| match event {
            Event::Op(op) if op.flags() & FLAG_ATOMIC != 0 => Some(*op),
            _ => None,
        })
        .collect();
    let of = |kind| atomic.iter().filter(|op| op.kind() == Some(kind) && op.size() == 8).count();
    assert!((5000..5100).contains(&of(OpKind::Load)), "{} loads", of(OpKind::Load));
    assert!((5000..5100).contains(&of(OpKind::Store)), "{} stores", of(OpKind::Store));
}

#[test]
fn instructions_without_accesses_are_counted_too() {
    needs_qemu!();
    let [_, _, instructions] = difference(&guest("counted"), &["0", "0", "1000000"]);
    assert!((instructions - 2_000_000).abs() < 500, "{instructions} instructions");
}

#[test]
fn a_repeated_string_instruction_is_one_instruction() {
    needs_qemu!();
    let [loads, stores, instructions] = difference(&guest("repeated"), &["1000"]);
    assert!((loads - 512_000).abs() < 100, "{loads} loads");
    // The stores of 512 words of `rep stosq` join to lines of 64 bytes.
    assert!((stores - (512_000 + 64_000)).abs() < 100, "{stores} stores");
    assert!(instructions < 30_000, "{instructions} instructions");
}

#[test]
fn a_recording_holds_what_was_counted() {
    needs_qemu!();
    let program = guest("counted");
    let counted = count(&program, &["30000"]);
    let recording = record(&program, &["30000"]);
    let recorded = [recording.totals.loads, recording.totals.stores, recording.totals.instructions];
    assert_eq!(recorded.map(|count| count as i64), counts(&counted));
    let sum: u64 = recording.totals.accesses();
    assert_eq!(number(&counted, "/recorded/accesses"), sum as i64);
    assert_eq!(recording.totals.ended, "exit status 0");
}

#[test]
fn two_runs_of_a_program_record_the_same() {
    needs_qemu!();
    let program = guest("repeated");
    let (first, second) = (record(&program, &["50"]), record(&program, &["50"]));
    assert!(first.threads[&0] == second.threads[&0], "every operation is the same");
}
