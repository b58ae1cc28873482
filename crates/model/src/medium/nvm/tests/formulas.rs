//! Unloaded latencies, and rates that a bus and banks give.

use super::*;

const NS: u64 = 1000;

#[test]
fn an_unloaded_read_takes_row_column_and_burst_and_a_row_hit_no_row() {
    let mut memory = memory(&array());
    let script = [(0, access(0, 0, false)), (1_000 * NS, access(1, 3, false))];
    let done = play(&mut memory, &script);
    assert_eq!(done[0].at_ps, (50 + 10 + 5) * NS);
    assert_eq!(done[1].at_ps - 1_000 * NS, (10 + 5) * NS);
    let counts = memory.counts();
    assert_eq!((counts.row_reads, counts.row_hits, counts.line_writes), (1, 1, 0));
}

#[test]
fn a_read_behind_a_pulse_waits_for_its_end_and_a_write_is_done_when_it_is_taken() {
    let mut memory = memory(&array());
    // The write has its data after column and burst, 15 ns, and its pulse until 175 ns.
    let script = [(0, access(0, 0, true)), (20 * NS, access(1, 1, false))];
    let done = play(&mut memory, &script);
    assert_eq!(done[0].at_ps, 0);
    assert_eq!(done[1].started_ps, 175 * NS);
    assert_eq!(done[1].at_ps, (175 + 65) * NS);
}

#[test]
fn a_read_of_a_line_that_waits_to_be_written_gets_it_at_once() {
    let mut memory = memory(&array());
    let script = [(0, access(0, 0, true)), (20 * NS, access(1, 0, false))];
    let done = play(&mut memory, &script);
    assert_eq!(done[1].at_ps, 20 * NS);
    assert_eq!(memory.counts().forwarded_lines, 1);
}

#[test]
fn writes_of_one_line_that_waits_are_one_pulse() {
    let mut memory = memory(&array());
    let all: Vec<_> = (0..20).map(|token| (0, access(token, 0, true))).collect();
    play(&mut memory, &all);
    // The first has begun; all others are one.
    assert_eq!((memory.counts().line_writes, memory.counts().merged_lines), (2, 18));
}

/// Bytes a nanosecond of many lines, one every so many, reads or writes.
fn rate(spec: &NvmArraySpec, step: u64, write: bool) -> f64 {
    let mut memory = memory(spec);
    let count = 4_000u32;
    let lines = (0..count).map(|i| u64::from(i) * step % memory.lines());
    let script: Vec<_> =
        lines.zip(0..).map(|(line, token)| (0, access(token, line, write))).collect();
    let mut out = Vec::new();
    for (_, access) in script {
        memory.submit(0, access);
    }
    let mut end_ps = 0;
    while let Some(at_ps) = memory.next_event_ps() {
        memory.advance(at_ps, &mut out);
        end_ps = at_ps;
    }
    assert_eq!(out.len(), count as usize);
    f64::from(count) * 64.0 * 1000.0 / end_ps as f64
}

#[test]
fn the_rate_of_writes_is_banks_by_pulse_until_the_bus_is_full() {
    // Each bank takes column, burst and pulse for a line, one after another: 175 ns.
    for banks in [1, 2, 4, 8, 16] {
        let spec = NvmArraySpec {
            banks,
            bank_interleave: Size::from_bytes(64),
            write_queue_depth: 64,
            write_high: 48,
            ..array()
        };
        let ideal = f64::from(banks) * 64.0 / 175.0;
        let found = rate(&spec, 1, true);
        assert!((found / ideal - 1.0).abs() < 0.02, "{banks} banks: {found} of {ideal} GB/s");
    }
    let fast = NvmArraySpec {
        banks: 64,
        bank_interleave: Size::from_bytes(64),
        write_queue_depth: 256,
        write_high: 200,
        ..array()
    };
    let found = rate(&fast, 1, true);
    assert!((found / 12.8 - 1.0).abs() < 0.02, "{found} of 12.8 GB/s");
}

#[test]
fn the_rate_of_reads_is_that_of_the_bus_in_open_rows_and_banks_by_row_otherwise() {
    let deep = NvmArraySpec { banks: 8, read_queue_depth: 64, ..array() };
    let found = rate(&deep, 1, false);
    assert!(found > 0.97 * 12.8, "{found} of 12.8 GB/s");
    // A row a read, one bank: row, then the column command's burst, before the next row.
    let one = NvmArraySpec { banks: 1, ..array() };
    let (found, ideal) = (rate(&one, 4, false), 64.0 / 55.0);
    assert!((found / ideal - 1.0).abs() < 0.02, "{found} of {ideal} GB/s");
}

#[test]
fn no_more_banks_work_than_the_write_queue_has_places() {
    let spec = NvmArraySpec { banks: 16, bank_interleave: Size::from_bytes(64), ..array() };
    let (found, ideal) = (rate(&spec, 1, true), 8.0 * 64.0 / 175.0);
    assert!((found / ideal - 1.0).abs() < 0.02, "{found} of {ideal} GB/s");
}

#[test]
fn channels_multiply_the_rate() {
    let two = NvmArraySpec { channels: 2, ..array() };
    let ratio = rate(&two, 1, false) / rate(&array(), 1, false);
    assert!((1.95..=2.01).contains(&ratio), "{ratio}");
}

#[test]
fn gap_moves_take_time_and_pulses() {
    let wear = NvmWearSpec { gap_interval: 10, ..no_levelling() };
    let spec = NvmArraySpec { banks: 1, write_high: 8, ..array() };
    let end_ps = |wear: &NvmWearSpec| {
        let mut memory = NvmArray::new(&spec, wear, None, 1 << 20);
        (0..1000).for_each(|i| memory.submit(0, access(i, u64::from(i), true)));
        let (mut out, mut end_ps) = (Vec::new(), 0);
        while let Some(at_ps) = memory.next_event_ps() {
            memory.advance(at_ps, &mut out);
            end_ps = at_ps;
        }
        (end_ps, memory.counts(), memory.wear())
    };
    let (plain_ps, plain, _) = end_ps(&no_levelling());
    let (moved_ps, moved, wear) = end_ps(&wear);
    assert_eq!((plain.line_writes, moved.line_writes, moved.gap_moves), (1000, 1100, 100));
    assert_eq!(moved_ps - plain_ps, 100 * (50 + 160) * NS);
    assert_eq!(wear.total, 1100);
    assert_eq!(moved.pulse_ps, 1100 * 160 * NS);
}

#[test]
fn energy_is_counts_by_energy_of_each_and_standby() {
    let energy = NvmEnergySpec {
        array_read: "2pJ".parse().unwrap(),
        array_write: "17pJ".parse().unwrap(),
        buffer_read: "1pJ".parse().unwrap(),
        buffer_write: "3pJ".parse().unwrap(),
        standby: "1W".parse().unwrap(),
    };
    let mut memory = NvmArray::new(&array(), &no_levelling(), Some(&energy), 1 << 20);
    let script = [
        (0, access(0, 0, false)),
        (1_000 * NS, access(1, 1, false)),
        (2_000 * NS, access(2, 8, true)),
    ];
    play(&mut memory, &script);
    let found = memory.energy(4_000 * NS).unwrap();
    let (line, row, pj) = (512.0, 2048.0, 1e-12);
    for (found, right) in [
        (found.array_read_j, 2.0 * row * pj),
        (found.array_write_j, 17.0 * line * pj),
        (found.buffer_j, (2.0 + 3.0) * line * pj),
        (found.standby_j, 4e-6),
    ] {
        assert!((found / right - 1.0).abs() < 1e-9, "{found} for {right}");
    }
}
