//! Pulses that reads stop.

use super::*;

const NS: u64 = 1000;

/// A pulse from 15 ns on, and a read of its bank that comes at `read_ns`.
fn beside_a_pulse(spec: &NvmArraySpec, read_ns: u64) -> (NvmArray, LineDone) {
    let mut memory = memory(spec);
    let script = [(0, access(0, 0, true)), (read_ns * NS, access(1, 1, false))];
    let done = play(&mut memory, &script);
    (memory, done[1])
}

fn pausing() -> NvmArraySpec {
    NvmArraySpec { preemption: Preemption::Pause, write_iterations: Some(4), ..array() }
}

fn cancelling(below: f64) -> NvmArraySpec {
    NvmArraySpec { preemption: Preemption::Cancel, cancel_below: Some(below), ..array() }
}

#[test]
fn a_pulse_pauses_at_the_end_of_its_iteration_and_goes_on_behind_the_read() {
    // Iterations of 40 ns end at 55, 95, 135 and 175 ns.
    for (read_ns, starts_ns) in [(16, 55), (55, 55), (56, 95), (134, 135), (135, 135), (136, 175)] {
        let (memory, read) = beside_a_pulse(&pausing(), read_ns);
        assert_eq!(read.started_ps, starts_ns * NS, "a read at {read_ns} ns");
        let counts = memory.counts();
        assert_eq!(counts.paused_writes, u64::from(starts_ns < 175), "a read at {read_ns} ns");
        assert_eq!((counts.line_writes, counts.pulse_ps), (1, 160 * NS));
    }
}

#[test]
fn the_rest_of_a_pulse_ends_behind_the_reads_that_stopped_it() {
    let mut memory = memory(&pausing());
    let mut out = Vec::new();
    memory.submit(0, access(0, 0, true));
    memory.advance(20 * NS, &mut out);
    memory.submit(20 * NS, access(1, 1, false));
    let mut end_ps = 0;
    while let Some(at_ps) = memory.next_event_ps() {
        memory.advance(at_ps, &mut out);
        if memory.waiting_writes() > 0 {
            end_ps = at_ps;
        }
    }
    // 40 ns of the pulse until 55 ns; the row until 105 ns and the bank until 110 ns; 120 ns are left. At
    // 175 ns the pulse would have ended; nothing does then.
    assert_eq!(end_ps, 175 * NS);
    assert_eq!(memory.counts().pulse_ps, 160 * NS);
}

#[test]
fn a_pulse_is_cancelled_at_once_below_the_share_and_never_above() {
    // Half of 160 ns, from 15 ns on.
    for (read_ns, starts_ns) in [(16, 16), (94, 94), (95, 175), (174, 175)] {
        let (memory, read) = beside_a_pulse(&cancelling(0.5), read_ns);
        assert_eq!(read.started_ps, starts_ns * NS, "a read at {read_ns} ns");
        let cancelled = starts_ns < 175;
        let counts = memory.counts();
        assert_eq!(counts.cancelled_writes, u64::from(cancelled));
        // The cells have worn twice, and the first pulse was on until it was given up.
        assert_eq!(counts.line_writes, 1 + u64::from(cancelled));
        let first_ps = if cancelled { (read_ns - 15) * NS } else { 0 };
        assert_eq!(counts.pulse_ps, 160 * NS + first_ps);
    }
}

#[test]
fn a_cancelled_write_whose_line_is_written_anew_is_not_written_twice() {
    let mut memory = memory(&cancelling(1.0));
    let script =
        [(0, access(0, 0, true)), (20 * NS, access(1, 0, true)), (30 * NS, access(2, 1, false))];
    play(&mut memory, &script);
    let counts = memory.counts();
    assert_eq!((counts.cancelled_writes, counts.merged_lines, counts.line_writes), (1, 1, 2));
}

#[test]
fn while_writes_are_drained_reads_stop_none() {
    for spec in [pausing(), cancelling(1.0)] {
        // Six writes of one bank begin a drain, until two are left.
        let mut memory = memory(&spec);
        let mut script: Vec<_> = (0..6).map(|i| (0, access(i, u64::from(i) * 16, true))).collect();
        script.push((20 * NS, access(9, 1, false)));
        let done = play(&mut memory, &script);
        assert_eq!(done[6].started_ps, 4 * 175 * NS);
        let counts = memory.counts();
        assert_eq!((counts.paused_writes, counts.cancelled_writes), (0, 0));
    }
}

#[test]
fn pausing_makes_reads_among_writes_faster_and_cancelling_more_so() {
    let mean_ps = |spec: NvmArraySpec| {
        let spec = NvmArraySpec { write_queue_depth: 256, write_high: 250, ..spec };
        let mut memory = memory(&spec);
        let mut script = Vec::new();
        for i in 0..2_000u32 {
            let line = u64::from(i).wrapping_mul(2_654_435_761) % memory.lines();
            script.push((u64::from(i) * 100 * NS, access(i, line, i % 2 == 0)));
        }
        let done = play(&mut memory, &script);
        let reads = || script.iter().zip(&done).filter(|((_, access), _)| !access.write);
        let sum_ps: u64 = reads().map(|((at_ps, _), done)| done.at_ps - at_ps).sum();
        sum_ps / reads().count() as u64
    };
    let [none, pause, cancel] = [array(), pausing(), cancelling(1.0)].map(mean_ps);
    assert!(none > pause + 5 * NS && pause > cancel + NS, "{none}, {pause}, {cancel} ps");
    assert!(cancel < 75 * NS, "a read alone takes 65 ns, not {cancel} ps");
}
