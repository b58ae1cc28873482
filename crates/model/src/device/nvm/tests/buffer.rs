//! What the buffer combines, and what it costs where there is nothing to combine.

use super::*;

/// Lines written to the array for each 256 bytes that the host wrote, when addresses are written in turn.
fn amplification(addresses: impl Iterator<Item = u64>) -> f64 {
    let mut device = NvmDevice::new(&buffered(), &link());
    let script: Vec<_> = addresses.map(|address| (0, address, 64, true)).collect();
    let host_bytes = 64.0 * script.len() as f64;
    play(&mut device, &script);
    device.device().report(0).array.line_writes as f64 * 256.0 / host_bytes
}

fn scattered(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (SPACE_BYTES / 64) * 64)
}

#[test]
fn writes_in_sequence_are_combined_and_scattered_ones_take_a_line_each() {
    let sequence = amplification((0..4_000).map(|i| i * 64));
    assert!((0.98..=1.0).contains(&sequence), "{sequence}");
    let random = amplification(scattered(4_000));
    assert!((3.8..=4.0).contains(&random), "{random}");
}

/// The experiment by which FAST 2020 finds the buffer's size (§5.1, "Inferring XPBuffer capacity"): the
/// first half of each of so many lines is written, then the other half, over and over.
#[test]
fn halves_are_combined_up_to_the_size_of_the_buffer_and_not_beyond() {
    let halves = |lines: u64| {
        let half = move |line: u64, second: u64| {
            (0..2).map(move |part| line * 256 + second * 128 + part * 64)
        };
        let round = move |_| {
            (0..2u64).flat_map(move |second| (0..lines).flat_map(move |line| half(line, second)))
        };
        amplification((0..50u64).flat_map(round))
    };
    for lines in [1, 4, 8] {
        assert!(halves(lines) < 0.1, "{lines} lines fit: {}", halves(lines));
    }
    // Some of what leaves is combined with what waits in the write queue of the array.
    for lines in [12, 16, 64] {
        assert!(halves(lines) > 1.2, "{lines} lines do not: {}", halves(lines));
    }
}

#[test]
fn a_read_brings_its_line_and_the_rest_of_it_is_there() {
    let mut device = NvmDevice::new(&buffered(), &link());
    let script: Vec<_> = (0..64).map(|i| (i * 1_000_000, i * 64, 64, false)).collect();
    let done = play(&mut device, &script);
    let latency_ps = |i: usize| done[i].at_ps - script[i].0;
    // A line takes row, column and bus: 50, 10 and 20 ns; a hit nothing of it.
    assert_eq!(latency_ps(4) - latency_ps(5), 80_000);
    assert_eq!(latency_ps(5), latency_ps(7));
    let counts = device.device().report(0).buffer.unwrap();
    assert_eq!((counts.read_hits, counts.read_misses), (48, 16));
}

#[test]
fn a_line_that_was_written_in_part_is_read_before_it_leaves() {
    let mut device = NvmDevice::new(&buffered(), &link());
    let script: Vec<_> = (0..9).map(|i| (i * 1_000_000, i * 256, 64, true)).collect();
    play(&mut device, &script);
    let report = device.device().report(0);
    let counts = report.buffer.unwrap();
    assert_eq!((counts.partial_evictions, counts.full_evictions), (1, 0));
    assert_eq!((report.array.read_lines, report.array.line_writes), (1, 1));
}

#[test]
fn a_read_of_what_is_being_evicted_is_served() {
    let mut device = NvmDevice::new(&buffered(), &link());
    let mut script: Vec<_> = (0..9).map(|i| (0, i * 256, 64, true)).collect();
    script.extend((0..9).map(|i| (1, i * 256, 256, false)));
    let done = play(&mut device, &script);
    assert_eq!(done.len(), 18);
}
