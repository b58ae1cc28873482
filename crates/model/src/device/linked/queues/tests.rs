//! Whose turn it is, when a queue is full, and when completions interrupt.

use super::*;
use crate::link::nvme::{NvmeCoalescingSpec, NvmePrioritiesSpec, NvmeSpec};
use tierscope_units::{Duration, Size};

const US: u64 = 1_000_000;

fn spec() -> NvmeSpec {
    NvmeSpec {
        queues: 1,
        entries: 64,
        burst: 1,
        fetches: 64,
        memory_page: Size::from_bytes(4096),
        vectors: 1,
        priorities: None,
        coalescing: None,
    }
}

fn queues(spec: NvmeSpec) -> Queues {
    Queues::new(NvmeQueues::new(spec, 0))
}

/// The queues of all batches in their order, each with how many commands it has.
fn served(queues: &mut Queues) -> Vec<(u32, u32)> {
    let mut all = Vec::new();
    while let Some((queue, most)) = queues.turn() {
        let count = queues.waiting(queue).count().min(most as usize) as u32;
        let batch = queues.fetch(queue, count);
        assert_eq!(queues.fetched(batch).len(), count as usize);
        all.push((queue, count));
    }
    all
}

#[test]
fn queues_have_turns_alike_of_a_burst_each() {
    let mut it = queues(NvmeSpec { queues: 3, burst: 2, ..spec() });
    // Twelve commands are dealt to three queues, and one more to the first.
    for command in 0..13 {
        let queue = it.submit(command % 2 == 0, command % 5 == 0).expect("room");
        assert_eq!(queue, command % 3);
        it.tell(queue, command);
    }
    let expected = [(0, 2), (1, 2), (2, 2), (0, 2), (1, 2), (2, 2), (0, 1)];
    assert_eq!(served(&mut it), expected);
}

#[test]
fn a_queue_keeps_its_turn_until_its_burst_is_fetched_or_nothing_waits() {
    let mut it = queues(NvmeSpec { queues: 2, burst: 4, fetches: 2, ..spec() });
    for command in 0..16 {
        let queue = it.submit(false, false).expect("room");
        it.tell(queue, command);
    }
    // One place at a time: the burst goes on all the same.
    let mut all = Vec::new();
    for _ in 0..12 {
        let (queue, most) = it.turn().expect("commands wait");
        all.push((queue, most));
        let batch = it.fetch(queue, 1);
        it.fetched(batch);
    }
    let of = |queue| [(queue, 4), (queue, 3), (queue, 2), (queue, 1)];
    assert_eq!(all, [of(0), of(1), of(0)].concat());
    let first = it.fetch(1, 1);
    it.fetch(1, 1);
    assert_eq!(it.turn(), None, "two fetches are under way");
    it.fetched(first);
    assert_eq!(it.turn(), Some((1, 2)));
}

fn weighted(burst: u32) -> Queues {
    let priorities = Some(NvmePrioritiesSpec {
        reads: NvmePriority::High,
        writes: NvmePriority::Medium,
        background: NvmePriority::Low,
        high_weight: 4,
        medium_weight: 2,
        low_weight: 1,
    });
    queues(NvmeSpec { priorities, burst, ..spec() })
}

#[test]
fn classes_are_served_by_their_weights_in_every_round() {
    for burst in [1, 2, 64] {
        let mut it = weighted(burst);
        for command in 0..28 {
            for (write, background) in [(false, false), (true, false), (true, true)] {
                let queue = it.submit(write, background).expect("room");
                assert_eq!(queue, u32::from(write) + u32::from(background));
                it.tell(queue, command);
            }
        }
        let mut count = [0; 3];
        let mut rounds = 0;
        for (queue, commands) in served(&mut it) {
            count[queue as usize] += commands;
            // Seven rounds serve all reads; up to there each is as the weights have it.
            if queue == 2 && count[0] < 28 {
                rounds += 1;
                assert_eq!(count, [4 * rounds, 2 * rounds, rounds], "bursts of {burst}");
            }
        }
        assert_eq!((rounds, count), (6, [28; 3]));
    }
}

#[test]
fn what_is_urgent_comes_first_and_a_round_waits_for_no_empty_class() {
    let mut flow = weighted(1).flow;
    if let Some(it) = &mut flow.spec.priorities {
        it.background = NvmePriority::Urgent;
    }
    let mut it = Queues::new(flow);
    for (write, background) in [(true, false), (true, false), (true, false), (false, true)] {
        let queue = it.submit(write, background).expect("room");
        it.tell(queue, 0);
    }
    // Urgent is the first class; of the others only writes are there, more than their weight.
    assert_eq!(served(&mut it), [(0, 1), (2, 1), (2, 1), (2, 1)]);
}

#[test]
fn a_queue_has_room_for_all_entries_but_one_until_the_host_knows() {
    let mut it = queues(NvmeSpec { entries: 3, ..spec() });
    assert_eq!([it.submit(false, false), it.submit(true, false)], [Some(0); 2]);
    assert_eq!(it.submit(false, false), None);
    it.tell(0, 7);
    let batch = it.fetch(0, 1);
    assert_eq!((it.fetched(batch), it.submit(false, false)), (vec![7], None));
    assert!(it.complete(US, 0, 7).is_some());
    assert_eq!(it.submit(false, false), None);
    it.leave(0);
    assert_eq!(it.submit(false, false), Some(0));
}

#[test]
fn completions_interrupt_by_threshold_or_time_each_vector_for_itself() {
    let coalescing =
        Some(NvmeCoalescingSpec { threshold: 3, time: Duration::from_picoseconds(100 * US) });
    let mut it = queues(NvmeSpec { queues: 4, vectors: 2, coalescing, ..spec() });
    it.working = 8;
    // Queues 0 and 2 have the first vector, 1 and 3 the second.
    assert_eq!(it.complete(10 * US, 0, 0), None);
    assert_eq!(it.complete(20 * US, 1, 1), None);
    assert_eq!(it.timer_ps(), Some(110 * US));
    assert_eq!(it.complete(30 * US, 2, 2), None);
    let batch = it.complete(40 * US, 0, 3).expect("the third of its vector");
    assert_eq!(it.told(batch), [0, 2, 3]);
    // The timer of the first vector has gone with its round.
    assert_eq!(it.timer_ps(), Some(120 * US));
    assert_eq!(it.complete(50 * US, 2, 4), None);
    let batch = it.expire().expect("the second vector has one");
    assert_eq!((it.told(batch), it.timer_ps()), (vec![1], Some(150 * US)));
    let batch = it.expire().expect("the first vector has one");
    assert_eq!((it.told(batch), it.timer_ps()), (vec![4], None));
}
