//! Threads, and the order that synchronization gives them.

mod common;

use common::{guest, record, run_through};
use tierscope_workload::Call;

#[test]
fn producer_and_consumer_wait_for_each_other_and_come_to_the_end() {
    needs_qemu!();
    let recording = record(&guest("producer_consumer"), &["2000"]);
    assert_eq!(recording.threads.len(), 2);
    assert!(run_through(&recording) > 0, "at least one wait was ended by the other thread");
    assert!(recording.report.is_complete());
}

#[test]
fn threads_that_meet_at_a_barrier_come_to_the_end() {
    needs_qemu!();
    let recording = record(&guest("barrier"), &["8", "25"]);
    assert_eq!(recording.threads.len(), 9);
    assert!(run_through(&recording) >= 25, "each round some thread waited");
}

#[test]
fn sixteen_threads_are_numbered_in_order_and_joined() {
    needs_qemu!();
    let recording = record(&guest("join"), &["16", "1", "50"]);
    let spawned: Vec<u32> = recording
        .calls()
        .iter()
        .filter_map(|call| match call {
            Call::Spawn { thread } => Some(*thread),
            _ => None,
        })
        .collect();
    assert_eq!(spawned, (1..=16).collect::<Vec<_>>());
    assert_eq!(recording.report.result.as_ref().unwrap()["recorded"]["threads"], 17);
    for thread in 1..=16 {
        let last_signal =
            recording.calls_of(thread).into_iter().rev().find_map(|call| match call {
                Call::Signal { sequence } => Some(sequence),
                _ => None,
            });
        assert!(last_signal.is_some(), "thread {thread} signals its end");
    }
    let joins = recording.calls().iter().filter(|call| matches!(call, Call::Wait { .. })).count();
    assert!(joins >= 1, "the first thread waited for one of them at least");
    run_through(&recording);
}

#[test]
fn threads_that_come_and_go_have_numbers_of_their_own() {
    needs_qemu!();
    let recording = record(&guest("join"), &["8", "10"]);
    assert_eq!(recording.threads.len(), 81);
    run_through(&recording);
    let accesses = |thread: u32| recording.threads[&thread].len();
    for thread in 1..=80 {
        assert!(accesses(thread) >= 40_000, "thread {thread} has {} operations", accesses(thread));
    }
}
