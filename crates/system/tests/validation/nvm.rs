//! Byte-addressable memories of the presets against published figures, what docs/models/nvm.md has in
//! its table; and machines whose memory they are.

use super::support::*;
use tierscope_kernel::Random;
use tierscope_model::device::nvm::NvmReport;
use tierscope_model::device::{AnyDevice, DeviceDescription};
use tierscope_model::request::{Completion, Device, Request};
use tierscope_system::spec::SystemSpec;
use tierscope_workload::Op;

const OPTANE: &str = "device/optane-dimm";
const KIB: u64 = 1024;

/// The module of a preset.
fn module(preset: &str, sets: Sets<'_>) -> AnyDevice {
    let spec: SystemSpec = system(preset, &[sets]);
    let nvm = spec.nvm.expect("it has byte-addressable memory");
    nvm.build(&spec.link.expect("it is behind a link"))
}

fn report(module: &AnyDevice) -> NvmReport {
    let AnyDevice::NvmDevice(module) = module else { panic!("it is another device") };
    module.device().report(0)
}

/// What came of accesses of 64 bytes.
struct Measured {
    latency_ns: f64,
    gb_per_s: f64,
    /// What the host wrote for each byte that the array wrote.
    effective_write_ratio: f64,
}

/// Accesses of 64 bytes to these addresses, `depth` of them at a time, until all that follows from them
/// is done. The rate is that of the second half.
fn measure(
    mut module: AnyDevice,
    addresses: &[u64],
    write: bool,
    depth: usize,
    line_bytes: u64,
) -> Measured {
    let (mut now_ps, mut sent, mut done, mut half_ps, mut end_ps) = (0, 0, 0, 0, 0);
    let (mut latency_ps, mut out): (u64, Vec<Completion>) = (0, Vec::new());
    loop {
        while sent < addresses.len() && module.in_flight() < depth {
            let address = addresses[sent];
            let request = Request { id: sent as u32, address, bytes: 64, write, background: false };
            if module.submit(now_ps, request).is_err() {
                break;
            }
            sent += 1;
        }
        let Some(next_ps) = module.next_event_ps() else { break };
        now_ps = next_ps;
        module.advance(now_ps, &mut out);
        for one in out.drain(..) {
            done += 1;
            latency_ps += one.stages.total_ps();
            if done == addresses.len() / 2 {
                half_ps = one.at_ps;
            }
            end_ps = one.at_ps;
        }
    }
    let bytes = 64.0 * addresses.len() as f64;
    let written = (report(&module).array.line_writes * line_bytes).max(1);
    Measured {
        latency_ns: latency_ps as f64 / addresses.len() as f64 / 1e3,
        gb_per_s: bytes / 2.0 * 1e3 / (end_ps - half_ps) as f64,
        effective_write_ratio: bytes / written as f64,
    }
}

fn in_turn(count: u64) -> Vec<u64> {
    (0..count).map(|i| i * 64).collect()
}

fn scattered(count: u64) -> Vec<u64> {
    let mut random = Random::stream(1, "nvm");
    (0..count).map(|_| random.below(1 << 28) * 64).collect()
}

/// A published figure, and within which share of it the model lies, below and above.
fn against(what: &str, found: f64, published: f64, from: f64, to: f64) {
    let off = found / published - 1.0;
    println!("{what}: {found:.2}, published {published}: {:+.1} %", off * 100.0);
    assert!((from..=to).contains(&off), "{what}: {found}, published {published}");
}

fn optane(addresses: &[u64], write: bool, depth: usize) -> Measured {
    measure(module(OPTANE, &[]), addresses, write, depth, 256)
}

#[test]
fn an_optane_module_against_published_figures() {
    // Inputs, and what follows from them at once.
    let random = optane(&scattered(2_000), false, 1);
    against("random read, ns", random.latency_ns, 305.0, -0.01, 0.01);
    let reads = optane(&in_turn(40_000), false, 64);
    against("reads in sequence, GB/s", reads.gb_per_s, 6.6, -0.1, -0.05);
    let writes = optane(&in_turn(40_000), true, 64);
    against("writes in sequence, GB/s", writes.gb_per_s, 2.3, -0.01, 0.01);
    // Predictions.
    let sequence = optane(&in_turn(2_000), false, 1);
    against("read in sequence, ns", sequence.latency_ns, 169.0, 0.05, 0.08);
    against("ratio of writes in sequence", writes.effective_write_ratio, 0.98, 0.0, 0.04);
    let scattered_writes = optane(&scattered(20_000), true, 64);
    against("ratio of random writes", scattered_writes.effective_write_ratio, 0.25, -0.01, 0.02);
    let scattered_reads = optane(&scattered(20_000), false, 64);
    let ratio = reads.gb_per_s / scattered_reads.gb_per_s;
    against("reads in sequence to random reads", ratio, 4.0, -0.05, 0.05);
}

/// Yang et al., FAST 2020, §5.1: the first half of each of so many lines is written, then the other, over
/// and over; up to 64 lines nothing reaches the cells more often than it must.
#[test]
fn the_buffer_of_an_optane_module_holds_64_lines() {
    let ratio = |lines: u64| {
        let half = |second: u64| {
            (0..lines)
                .flat_map(move |line| (0..2).map(move |it| line * 256 + second * 128 + it * 64))
        };
        let round: Vec<u64> = half(0).chain(half(1)).collect();
        let all: Vec<u64> = (0..20).flat_map(|_| round.iter().copied()).collect();
        optane(&all, true, 4).effective_write_ratio
    };
    for lines in [16, 48, 64] {
        assert!(ratio(lines) > 10.0, "{lines} lines: {}", ratio(lines));
    }
    for lines in [96, 128, 256] {
        assert!(ratio(lines) < 0.8, "{lines} lines: {}", ratio(lines));
    }
}

#[test]
fn six_optane_modules_against_published_figures() {
    let six = |write| {
        let module = module("direct/optane", &[]);
        measure(module, &in_turn(120_000), write, 384, 256).gb_per_s
    };
    against("reads in sequence of six modules, GB/s", six(false), 39.4, -0.12, -0.05);
    against("writes in sequence of six modules, GB/s", six(true), 13.9, -0.03, 0.01);
}

#[test]
fn memories_of_the_presets_take_what_their_timings_say() {
    // Row, column and a burst of 10 ns; a row that is open, no row.
    for (preset, row_ns, column_ns) in
        [("device/pcm", 55.0, 12.5), ("device/stt-mram", 35.0, 15.0), ("device/reram", 25.0, 15.0)]
    {
        let burst_ns = 10.0;
        let link_ns = 0.64;
        let rows: Vec<u64> = (0..500).map(|i| i * 64 * KIB).collect();
        let read = measure(module(preset, &[]), &rows, false, 1, 64).latency_ns;
        let right = row_ns + column_ns + burst_ns + link_ns;
        assert!((read / right - 1.0).abs() < 0.001, "{preset}: {read} ns of {right}");
        let same: Vec<u64> = vec![0; 1000];
        let hit = measure(module(preset, &[]), &same, false, 1, 64).latency_ns;
        let right = column_ns + burst_ns + link_ns;
        assert!((hit / right - 1.0).abs() < 0.01, "{preset}: {hit} ns of {right}");
    }
}

#[test]
fn start_gap_costs_what_its_interval_says() {
    let writes = scattered(20_000).iter().map(|address| address % (64 * KIB)).collect::<Vec<_>>();
    let of = |interval| {
        let module = module("device/pcm", &[("nvm.wear.gap_interval", interval)]);
        measure(module, &writes, true, 64, 64).effective_write_ratio
    };
    let (plain, levelled) = (of("0"), of("100"));
    let more = plain / levelled - 1.0;
    assert!((0.009..=0.011).contains(&more), "{more} more writes");
}

const SMALL: Sets<'static> = &[
    ("processor.caches.L3.capacity", "320KiB"),
    ("nvm.capacity", "64MiB"),
    ("check_data", "true"),
];

/// Updates of random lines of 8 MiB by four threads' worth of loads in flight.
fn updates() -> Vec<Vec<Op>> {
    let update = |i| {
        let address = ANONYMOUS + mixed(i) % (8 << 20) / LINE * LINE;
        [Op::load(address, 8, 40), Op::store(address, 8, 40).with_flags(1)]
    };
    vec![(0..4_000).flat_map(update).collect()]
}

#[test]
fn a_machine_whose_memory_is_the_store_runs_and_reads_what_it_wrote() {
    let run_with = |sets: Sets<'_>| run(&system("direct", &[SMALL, sets]), &updates());
    let plain = run_with(&[]);
    assert!(plain.result.store_bytes.read > 64 * 3_000);
    assert_eq!(plain.result.dram_bytes.read, 0);
    let one = run_with(&[("direct.host_queue_depth", "1")]);
    assert!(one.time_ps > plain.time_ps, "{} ps, one at a time {}", plain.time_ps, one.time_ps);
    let slow = run_with(&[("nvm.array.read_latency", "1us")]);
    let (was_ps, is_ps) = (plain.stage_ps("medium"), slow.stage_ps("medium"));
    assert!(is_ps > was_ps, "{was_ps} {is_ps}");
}

#[test]
fn optane_modules_are_memory_by_themselves_and_behind_dram() {
    let of = |name: &str, sets: Sets<'_>| run(&system(name, &[sets]), &updates()).time_ps;
    let caches: Sets<'_> = &[("processor.caches.L3.capacity", "320KiB"), ("check_data", "true")];
    let direct_ps = of("direct/optane", caches);
    let behind_ps = of("hybrid/optane", caches);
    let dram_ps = of("oracle", caches);
    assert!(dram_ps < behind_ps && dram_ps < direct_ps, "{dram_ps} {behind_ps} {direct_ps}");
}
