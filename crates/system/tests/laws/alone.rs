//! Laws of devices alone: memory traces on a memory without a processor.

use super::script;
use proptest::prelude::*;
use std::slice::from_ref;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tierscope_kernel::Clock;
use tierscope_model::medium::dram::Dram;
use tierscope_model::medium::dram::description::Description;
use tierscope_model::request::{Completion, Device, Request};
use tierscope_system::alone::{Alone, Requests};
use tierscope_system::result::{DeviceResult, Interval, SystemResult};
use tierscope_system::run::{Bound, Observer, Outcome, Progress, RunOptions, run_alone};
use tierscope_system::spec::{self, SystemSpec};
use tierscope_workload::requests::{Times, TraceRequest};

// ---- Scripts ----------------------------------------------------------------------------------

fn given(requests: &[TraceRequest]) -> Requests {
    script::requests(requests.to_vec(), Times::Cycles, None)
}

fn read(address: u64, cycle: u64) -> TraceRequest {
    TraceRequest::line(address, false, Some(cycle))
}

fn write(address: u64, cycle: u64) -> TraceRequest {
    TraceRequest::line(address, true, Some(cycle))
}

/// A line far from that of the number before.
fn far(number: u64) -> u64 {
    number.wrapping_mul(2_654_435_761) % (1 << 26) * 64
}

fn untimed(request: TraceRequest) -> TraceRequest {
    TraceRequest { ticks: None, ..request }
}

// ---- Runs -------------------------------------------------------------------------------------

fn system(name: &str, sets: &[(&str, &str)]) -> SystemSpec {
    let sets: Vec<_> = sets.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
    spec::load(name, &sets).unwrap_or_else(|problems| panic!("{problems}")).spec
}

fn outcome(spec: &SystemSpec, requests: Requests, options: &RunOptions) -> Outcome {
    let never = AtomicBool::new(false);
    run_alone(from_ref(spec), vec![requests], options, &(), &never).remove(0)
}

/// The result of a run that must be complete.
fn result(spec: &SystemSpec, requests: Requests) -> SystemResult {
    let outcome = outcome(spec, requests, &RunOptions::default());
    assert_eq!(outcome.partial_reason, None);
    outcome.result
}

fn device(result: &SystemResult) -> &DeviceResult {
    result.device.as_ref().expect("a device alone has figures of its own")
}

const DDR4: &str = "device/ddr4-2400";

/// Whether a preset is of a memory alone; the other devices are stores.
fn is_memory(name: &str) -> bool {
    name.starts_with("device/") && system(name, &[]).dram.is_some()
}

// ---- Formulas ---------------------------------------------------------------------------------

#[test]
fn one_read_takes_activate_column_and_burst() {
    for (name, _) in spec::list().into_iter().filter(|(name, _)| is_memory(name)) {
        let spec = system(name, &[]);
        let d = Description::new(spec.dram.as_ref().unwrap());
        let bursts = 64u64.div_ceil(d.burst_bytes);
        // Further bursts of a line go to the same row of the same bank.
        let gap = d.timings.ccd_l.max(d.timings.ccd_s).max(d.timings.burst);
        let clocks = d.standard.activate_clocks - 1
            + d.timings.rcd
            + d.timings.cl
            + (bursts - 1) * gap
            + d.timings.burst;
        let found = result(&spec, given(&[read(0, 0)]));
        let expected_ns = d.clock.cycles_to_ps(clocks) as f64 / 1e3;
        assert_eq!(found.latency_ns.as_ref().unwrap().mean, expected_ns, "{name}");
        assert_eq!(device(&found).reads, 1);
        assert_eq!((device(&found).row_closed, device(&found).activates), (1, 1), "{name}");
    }
}

#[test]
fn a_stream_reaches_the_peak_of_every_device() {
    for (name, _) in spec::list().into_iter().filter(|(name, _)| is_memory(name)) {
        let lines: Vec<_> = (0..60_000).map(|line| untimed(read(line * 64, 0))).collect();
        let found = result(&system(name, &[("dram.t_refi", "900s")]), given(&lines));
        let share = device(&found).peak_share.unwrap();
        assert!((0.97..=1.0).contains(&share), "{name} reaches {share} of its peak");
    }
}

#[test]
fn requests_come_at_their_cycles_of_the_clock_that_is_said() {
    let far = [read(0, 0), read(64, 1_000_000)];
    let own = result(&system(DDR4, &[]), given(&far));
    let d = Description::new(system(DDR4, &[]).dram.as_ref().unwrap());
    let mut latency_ps = (own.latency_ns.as_ref().unwrap().max * 1e3) as u64;
    assert!(own.time_ps > d.clock.cycles_to_ps(1_000_000));
    assert!(own.time_ps <= d.clock.cycles_to_ps(1_000_000) + latency_ps);
    let clock = Some(Clock::from_hertz(1_000_000_000));
    let said = result(&system(DDR4, &[]), Requests { clock, ..given(&far) });
    latency_ps = (said.latency_ns.as_ref().unwrap().max * 1e3) as u64;
    assert!((1_000_000_000..=1_000_000_000 + latency_ps).contains(&said.time_ps));
}

#[test]
fn a_wait_at_the_door_is_part_of_the_latency_and_has_its_stage() {
    let sets = [("dram.read_queue_depth", "1"), ("dram.mapping", "ro-ra-ba-bg-co-ch")];
    let spec = system(DDR4, &sets);
    let row: Vec<_> = (0..4).map(|line| read(line * 64, 0)).collect();
    let found = result(&spec, given(&row));
    let once = result(&spec, given(&row[..1])).latency_ns.as_ref().unwrap().max;
    assert_eq!(device(&found).waited_at_door, 3);
    // One after the other: the first opens the row, and each of the others waits for all before it.
    assert!(found.stages_ns["host_queue"] > once, "{:?}", found.stages_ns);
    assert!(found.latency_ns.as_ref().unwrap().max > 1.9 * once, "{:?}", found.latency_ns);
    let sum_ns: f64 = found.stages_ns.values().sum();
    assert!((sum_ns - found.latency_ns.as_ref().unwrap().mean).abs() < 1e-6);
}

#[test]
fn so_many_are_under_way_at_most() {
    let lines: Vec<_> = (0..1000).map(|line| untimed(read(far(line), 0))).collect();
    let with = |outstanding| {
        let found = result(&system(DDR4, &[]), Requests { outstanding, ..given(&lines) });
        (found.time_ps, found.latency_ns.as_ref().unwrap().mean * 1e3 * 1000.0)
    };
    for most in [1, 2, 8] {
        let (time_ps, sum_ps) = with(Some(most));
        // Little: requests under way on average are the sum of latencies over the time.
        let mean = sum_ps / time_ps as f64;
        assert!(mean <= f64::from(most) && mean > 0.9 * f64::from(most), "{mean} of {most}");
    }
    assert!(with(Some(1)).0 > with(Some(8)).0);
    assert_eq!(with(None), with(Some(tierscope_system::alone::OUTSTANDING)));
    let timed: Vec<_> = (0..1000).map(|line| read(far(line), line * 1000)).collect();
    let closed = Requests { outstanding: Some(8), ..given(&timed) };
    assert_eq!(result(&system(DDR4, &[]), closed).time_ps, with(Some(8)).0, "times are left out");
}

#[test]
fn the_share_of_the_peak_is_of_whole_lines() {
    let words = (0..2000).map(|n| untimed(TraceRequest { bytes: 8, ..read(n * 64, 0) }));
    let words: Vec<_> = words.collect();
    let lines: Vec<_> = (0..2000).map(|n| untimed(read(n * 64, 0))).collect();
    let share = |requests: &[TraceRequest]| {
        let found = result(&system(DDR4, &[]), given(requests)).device.unwrap();
        (found.peak_share.unwrap(), found.bytes_per_s / found.peak_bytes_per_s.unwrap())
    };
    let (of_words, asked) = share(&words);
    assert!(of_words > 0.8 && (asked * 8.0 / of_words - 1.0).abs() < 1e-9, "{of_words}, {asked}");
    assert_eq!(share(&lines).0, of_words);
}

#[test]
fn energy_is_the_sum_of_its_parts_and_nothing_is_left_out() {
    let lines: Vec<_> = (0..2000).map(|n| untimed(read(n * 4096, 0))).collect();
    for device in [DDR4, "device/ddr5-4800"] {
        let known = result(&system(device, &[]), given(&lines)).energy;
        let sum_j: f64 = known.parts_j.values().sum();
        assert!((known.total_j.unwrap() - sum_j).abs() < 1e-12 && sum_j > 0.0);
        for part in ["dram.activate", "dram.read", "dram_interface.read"] {
            assert!(known.parts_j[part] > 0.0, "{device}: {part}");
        }
        assert!(known.not_counted.is_empty(), "{device}: {:?}", known.not_counted);
    }
}

#[test]
fn power_is_that_of_the_data_sheet_at_rest() {
    // Two reads a second apart: all between is precharge standby or an open row, and refreshes.
    let spec = system(DDR4, &[]);
    let found = result(&spec, given(&[read(0, 0), read(64, 1_200_000_000)]));
    let d = Description::new(spec.dram.as_ref().unwrap());
    let c = d.currents;
    let chips = d.chips as f64;
    let watts = |microamperes: f64| c.vdd_mv as f64 * microamperes * 1e-9 * chips;
    let refreshes = device(&found).refreshes as f64;
    assert!((refreshes - 1e12 / d.timings.refi_ps as f64).abs() <= 1.0, "{refreshes}");
    let share = refreshes * d.timings.rfc_ps as f64 * 1e-12 / found.time_s;
    let pump = c.vpp_mv as f64 * c.ipp_ua as f64 * 1e-9 * chips;
    let expected =
        watts(c.idd2n_ua as f64) + share * watts((c.idd5b_ua - c.idd3n_ua) as f64) + pump;
    let power = found.energy.average_w.unwrap();
    assert!((power / expected - 1.0).abs() < 1e-3, "{power} W, and {expected} W by hand");
}

#[test]
fn a_line_is_what_a_request_moves() {
    let lines: Vec<_> = (0..512).map(|n| untimed(read(n * 64, 0))).collect();
    let of = |line| result(&system(DDR4, &[("device.line", line)]), given(&lines));
    let (short, long) = (of("64B"), of("256B"));
    assert_eq!(long.dram_bytes.read, 4 * short.dram_bytes.read);
    assert!(long.latency_ns.as_ref().unwrap().mean > short.latency_ns.as_ref().unwrap().mean);
    assert!(long.energy.parts_j["dram.read"] > 3.9 * short.energy.parts_j["dram.read"]);
}

// ---- A second driver --------------------------------------------------------------------------

/// The same requests, given to the DRAM by the plainest loop that keeps the contract.
fn by_hand(spec: &SystemSpec, requests: &[TraceRequest]) -> Vec<(usize, u64)> {
    let capacity_bytes = spec.device.as_ref().unwrap().capacity.bytes();
    let clock = Description::new(spec.dram.as_ref().unwrap()).clock;
    let mut dram = Dram::new(spec.dram.as_ref().unwrap(), capacity_bytes, 64);
    let mut done: Vec<Completion> = Vec::new();
    let mut now_ps = 0;
    let mut arrivals = Vec::new();
    for (id, one) in requests.iter().enumerate() {
        let arrival_ps = clock.cycles_to_ps(one.ticks.unwrap());
        arrivals.push(arrival_ps);
        now_ps = arrival_ps.max(now_ps);
        dram.advance(now_ps, &mut done);
        let request = Request {
            id: id as u32,
            address: one.address / 64 * 64,
            bytes: 64,
            write: one.is_write(),
            background: false,
        };
        while dram.submit(now_ps, request).is_err() {
            now_ps = dram.next_event_ps().unwrap();
            dram.advance(now_ps, &mut done);
        }
    }
    dram.advance(u64::MAX / 2, &mut done);
    done.iter().map(|one| (one.id as usize, one.at_ps - arrivals[one.id as usize])).collect()
}

/// Bursts and pauses, near lines and far ones.
fn scripts() -> impl Strategy<Value = Vec<TraceRequest>> {
    let one = (
        0u64..8,
        0u64..64,
        any::<bool>(),
        prop_oneof![4 => Just(0u64), 2 => 0u64..20, 1 => 0u64..20_000],
    );
    proptest::collection::vec(one, 1..300).prop_map(|all| {
        let mut cycle = 0;
        let mut requests = Vec::new();
        for (far, near, is_write, after) in all {
            cycle += after;
            let address = (far << 20) + (near << 6) + (far + near) % 64;
            requests.push(if is_write { write(address, cycle) } else { read(address, cycle) });
        }
        requests
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn latencies_are_those_of_the_plainest_driver(script in scripts(), depth in 1u32..9) {
        let depth = depth.to_string();
        let sets = [
            ("dram.read_queue_depth", depth.as_str()),
            ("dram.write_queue_depth", depth.as_str()),
            ("dram.write_high", "1"),
            ("dram.write_low", "0"),
            ("check_data", "true"),
        ];
        let spec = system(DDR4, &sets);
        let mut expected = by_hand(&spec, &script);
        expected.sort_unstable();
        let folder = std::env::temp_dir();
        let file = folder.join(format!("tierscope-alone-{}-{:?}.csv", std::process::id(), std::thread::current().id()));
        let options = RunOptions { latencies: vec![file.clone()], ..RunOptions::default() };
        let found = outcome(&spec, given(&script), &options);
        let table = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).ok();
        prop_assert_eq!(found.partial_reason, None);
        let mut rows: Vec<(usize, u64)> = Vec::new();
        for row in table.lines().skip(1) {
            let cells: Vec<&str> = row.split(',').collect();
            let number: usize = cells[0].parse().unwrap();
            let latency_ps: u64 = cells[5].parse().unwrap();
            let stages_ps: u64 = cells[6..].iter().map(|cell| cell.parse::<u64>().unwrap()).sum();
            prop_assert_eq!(stages_ps, latency_ps);
            prop_assert_eq!(cells[1], format!("{:#x}", script[number].address));
            prop_assert_eq!(cells[3], if script[number].is_write() { "write" } else { "read" });
            rows.push((number, latency_ps));
        }
        rows.sort_unstable();
        prop_assert_eq!(rows, expected);
        let figures = found.result.device.unwrap();
        let writes = script.iter().filter(|one| one.is_write()).count() as u64;
        prop_assert_eq!((figures.reads, figures.writes), (script.len() as u64 - writes, writes));
        prop_assert_eq!(found.result.counters["stale_loads"], 0);
        let lines = found.result.dram_bytes;
        prop_assert_eq!(lines.read + lines.written, 64 * script.len() as u64);
    }

    #[test]
    fn a_limit_and_a_skip_cut_the_same_run(script in scripts(), at in 0usize..300) {
        let spec = system(DDR4, &[]);
        let whole = result(&spec, given(&script));
        let at = (at % script.len()) as u64;
        let cut = |start, stops: Vec<Bound>| {
            let options = RunOptions { start, stops, ..RunOptions::default() };
            outcome(&spec, given(&script), &options)
        };
        let behind = cut(Some(Bound::Accesses(at)), Vec::new());
        prop_assert_eq!(behind.partial_reason, None);
        prop_assert_eq!(behind.result.accesses, script.len() as u64 - at);
        let skipped = behind.result.skipped.unwrap();
        prop_assert_eq!(skipped.accesses, at);
        prop_assert_eq!(skipped.time_ps + behind.result.time_ps, whole.time_ps);
        let before = cut(None, vec![Bound::Accesses(at + 1)]);
        prop_assert_eq!(before.result.accesses, at + 1);
        prop_assert_eq!(before.partial_reason.is_some(), at + 1 < script.len() as u64);
    }

    #[test]
    fn a_time_parts_a_run_into_what_is_before_it_and_what_is_behind(
        script in scripts(),
        share in 0.0f64..1.2,
    ) {
        let spec = system(DDR4, &[]);
        let whole = result(&spec, given(&script));
        let time_ps = (whole.time_ps as f64 * share) as u64;
        let cut = |start, stops: Vec<Bound>| {
            let options = RunOptions { start, stops, ..RunOptions::default() };
            outcome(&spec, given(&script), &options)
        };
        let before = cut(None, vec![Bound::TimePs(time_ps)]);
        let behind = cut(Some(Bound::TimePs(time_ps)), Vec::new());
        prop_assert_eq!(before.partial_reason.is_some(), !behind.failed);
        if behind.failed {
            prop_assert_eq!(before.result.time_ps, whole.time_ps);
        } else {
            prop_assert!(before.result.time_ps >= time_ps);
            let skipped = behind.result.skipped.unwrap();
            prop_assert_eq!(skipped.accesses, before.result.accesses);
            prop_assert_eq!(skipped.accesses + behind.result.accesses, whole.accesses);
            prop_assert_eq!(skipped.time_ps + behind.result.time_ps, whole.time_ps);
            prop_assert!(skipped.time_ps >= time_ps);
        }
    }

    #[test]
    fn intervals_are_all_of_a_run(script in scripts(), apart in 1u64..200_000) {
        let spaced: Vec<_> = (0..)
            .zip(&script)
            .map(|(number, one)| TraceRequest { ticks: Some(number * apart), ..*one })
            .collect();
        let (spec, stop) = (system(DDR4, &[]), AtomicBool::new(false));
        let told = Told::default();
        let requests = vec![given(&spaced)];
        let ended =
            run_alone(from_ref(&spec), requests, &RunOptions::default(), &told, &stop).remove(0);
        let intervals = told.0.into_inner().unwrap();
        prop_assert!(intervals.is_sorted_by(|one, next| one.end_ps < next.end_ps));
        prop_assert_eq!(intervals.last().unwrap().end_ps, ended.result.time_ps);
        let accesses: u64 = intervals.iter().map(|one| one.accesses).sum();
        prop_assert_eq!(accesses, ended.result.accesses);
        let latency_ps: u64 = intervals.iter().map(|one| one.latency_ps).sum();
        let mean_ps = ended.result.latency_ns.as_ref().unwrap().mean * 1e3;
        prop_assert!((latency_ps as f64 / accesses as f64 - mean_ps).abs() <= 1e-6 * mean_ps);
    }
}

/// The intervals of a run.
#[derive(Default)]
struct Told(Mutex<Vec<Interval>>);

impl Observer for Told {
    fn progress(&self, _: usize, _: Progress) {}
    fn interval(&self, _: usize, interval: &Interval) {
        self.0.lock().unwrap().push(interval.clone());
    }
}

#[test]
fn a_bound_ends_a_run_when_its_time_has_come_or_its_last_request_is_answered() {
    let spec = system(DDR4, &[]);
    // A millisecond apart, at 1.2 GHz.
    let rare: Vec<_> = (0..4).map(|number| read(number * 64, number * 1_200_000)).collect();
    let until = |requests: &[TraceRequest], bound| {
        let options = RunOptions { stops: vec![bound], ..RunOptions::default() };
        outcome(&spec, given(requests), &options).result
    };
    let one = until(&rare, Bound::Accesses(1));
    assert_eq!(
        (one.accesses, one.time_ps),
        (1, (one.latency_ns.as_ref().unwrap().max * 1e3) as u64)
    );
    assert_eq!(device(&one).bytes_per_s, 64.0 / one.time_s);
    assert_eq!(device(&one).refreshes, 0, "what comes later is not counted");
    let some = until(&rare, Bound::TimePs(2_500_000_000));
    assert_eq!((some.accesses, some.time_ps), (3, 2_500_000_000));
    // All at once: what the device has not taken by then is not taken.
    let crowd: Vec<_> = (0..10_000).map(|number| read(far(number), 0)).collect();
    let some = until(&crowd, Bound::TimePs(1_000_000));
    assert!(some.accesses < 1_000, "{} of 10000 in a microsecond", some.accesses);
    let latest_ps = 1_000_000 + result(&spec, given(&crowd[..64])).time_ps;
    assert!((1_000_000..latest_ps).contains(&some.time_ps), "{}", some.time_ps);
}

// ---- Mistakes ---------------------------------------------------------------------------------

#[test]
fn what_a_trace_cannot_mean_is_told() {
    let spec = system(DDR4, &[]);
    let beyond = outcome(&spec, given(&[read(0, 0), read(9 << 30, 1)]), &RunOptions::default());
    assert!(beyond.failed);
    assert_eq!(
        beyond.partial_reason.unwrap(),
        "request 2: it lies beyond the 8GiB of device/ddr4-2400; give it \
         device.capacity = \"16GiB\" or more"
    );
    assert_eq!(beyond.result.accesses, 1, "what is under way is answered");
    let many: Vec<_> = (0..500).map(|at| read(at * 4096, at)).collect();
    for outstanding in [None, Some(40)] {
        let asked = [&many[..], &[read(9 << 30, 500)]].concat();
        let wrong =
            outcome(&spec, Requests { outstanding, ..given(&asked) }, &RunOptions::default());
        let whole = result(&spec, Requests { outstanding, ..given(&many) });
        assert!(wrong.failed);
        assert_eq!((wrong.result.accesses, wrong.result.time_ps), (500, whole.time_ps));
        assert_eq!(wrong.result.latency_ns, whole.latency_ns);
    }
    let nowhere = outcome(&spec, given(&[read(1 << 56, 0)]), &RunOptions::default());
    assert_eq!(
        nowhere.partial_reason.unwrap(),
        "request 1: it lies beyond the 8GiB of device/ddr4-2400; no device is as large"
    );
    let last = read((8 << 30) - 1, 0);
    assert_eq!(result(&spec, given(&[last])).accesses, 1, "the last byte is there");
    let late = outcome(&spec, given(&[read(0, u64::MAX)]), &RunOptions::default());
    assert!(late.partial_reason.unwrap().contains("6.6 days"));
    for (bound, what) in [(Bound::Mark(1), "marks"), (Bound::Instructions(5), "instructions")] {
        let options = RunOptions { start: Some(bound), ..RunOptions::default() };
        let told = outcome(&spec, given(&[last]), &options).partial_reason.unwrap();
        assert_eq!(
            told,
            format!(
                "what a device alone is given has no {what}; count its requests, or simulated time"
            )
        );
    }
    let options = RunOptions { start: Some(Bound::Accesses(7)), ..RunOptions::default() };
    let never = outcome(&spec, given(&[last]), &options);
    assert!(never.failed && never.partial_reason.unwrap().contains("never began"));
    let hybrid = Alone::new(&system("hybrid/quick", &[]), given(&[last]), &RunOptions::default());
    assert!(hybrid.map(|_| ()).unwrap_err().to_string().contains("no device"));
    let nowhere = RunOptions { latencies: vec!["/nowhere/x.csv".into()], ..RunOptions::default() };
    let told = outcome(&spec, given(&[last]), &nowhere).partial_reason.unwrap();
    assert!(
        told.starts_with("latencies cannot be written to /nowhere/x.csv: no such file"),
        "{told}"
    );
}

#[test]
fn a_run_that_is_stopped_tells_how_far_it_came() {
    let lines: Vec<_> = (0..50_000).map(|line| untimed(read(line * 64, 0))).collect();
    let stop = AtomicBool::new(false);
    stop.store(true, Ordering::Relaxed);
    let options = RunOptions::default();
    let ended = run_alone(&[system(DDR4, &[])], vec![given(&lines)], &options, &(), &stop);
    assert_eq!(ended[0].partial_reason.as_deref(), Some("the run was interrupted"));
    assert!((1..50_000).contains(&ended[0].result.accesses));
}
