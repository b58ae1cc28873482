//! Sampled runs: their laws, and what they give against complete runs.

mod windows;
#[allow(dead_code, reason = "the benchmark names them all")]
mod work;

use crate::thorough::of_many;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tierscope_system::machine::{Machine, MachineError, sampling_plan};
use tierscope_system::result::SystemResult;
use tierscope_system::run::{
    Bound, Outcome, RunOptions, Sampling, Warming, check_sampling, run_machines,
};
use tierscope_system::spec::{self, SystemSpec};
use tierscope_workload::{Stream, generator};

const US: u64 = 1_000_000;

fn system(name: &str, sets: &[(&str, &str)]) -> SystemSpec {
    let sets: Vec<_> =
        sets.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    spec::load(name, &sets).unwrap().spec
}

/// Machines whose DRAM holds less than half of the table, but for the first two, over a quick store.
fn machines() -> Vec<(&'static str, SystemSpec)> {
    let store = [("store.read_latency", "500ns"), ("store.write_latency", "5us")];
    let shared = ("processor.caches.2.capacity", "320KiB");
    let behind = |name: &str, sets: &[(&'static str, &'static str)]| {
        system(name, &[&store[..], &[shared], sets].concat())
    };
    let alone = ("hybrid.prefetch_pages", "0");
    vec![
        ("oracle", system("oracle/quick", &[shared])),
        ("hybrid, all fits", behind("hybrid/quick", &[alone])),
        ("hybrid", behind("hybrid/quick", &[alone, ("hybrid.cache.capacity", "2MiB")])),
        ("storage", behind("storage/quick", &[("storage.dram_capacity", "6MiB")])),
    ]
}

/// Machines with a drive, whose DRAM holds less than half of the table: of HAMS, of the operating system, the
/// drive's own, and such as pages are promoted to; and one whose memory is of cells that wear.
fn drives() -> Vec<(&'static str, SystemSpec)> {
    vec![
        (
            "hams",
            system(
                "hams-le/quick",
                &[
                    ("processor.caches.1.capacity", "320KiB"),
                    ("hams.page", "4KiB"),
                    ("hams.capacity", "4MiB"),
                    ("hams.pinned", "1MiB"),
                    ("dram.backup.module", "4MiB"),
                ],
            ),
        ),
        (
            "mmap",
            system(
                "mmap/quick",
                &[("processor.caches.1.capacity", "320KiB"), ("storage.dram_capacity", "6MiB")],
            ),
        ),
        (
            "cxl-ssd",
            system(
                "cxl-ssd/quick",
                &[
                    ("processor.caches.1.capacity", "256KiB"),
                    ("processor.caches.2.capacity", "480KiB"),
                    ("ssd.buffer.capacity", "3MiB"),
                    ("ssd.buffer.dirty", "512KiB"),
                ],
            ),
        ),
        ("optane-p", system("optane-p/quick", &[("processor.caches.1.capacity", "320KiB")])),
        (
            "flatflash-m",
            system(
                "flatflash-m/quick",
                &[
                    ("processor.caches.1.capacity", "256KiB"),
                    ("tiered.promotion.capacity", "3MiB"),
                    ("tiered.promotion.counted_pages", "1024"),
                    ("ssd.buffer.capacity", "2MiB"),
                    ("ssd.buffer.dirty", "512KiB"),
                ],
            ),
        ),
    ]
}

fn gups(updates: u64, threads: u64) -> Box<dyn Stream> {
    let parameters = [
        ("updates".to_owned(), updates.into()),
        ("table".to_owned(), "8MiB".into()),
        ("threads".to_owned(), threads.into()),
    ];
    generator::find("gups").unwrap().make(&parameters, 1).unwrap().0
}

fn run(system: &SystemSpec, stream: Box<dyn Stream>, options: &RunOptions) -> Outcome {
    let never = AtomicBool::new(false);
    run_machines(std::slice::from_ref(system), vec![stream], options, &(), &never).remove(0)
}

/// One unit, so long, in so many.
fn sampling(unit_ps: u64, every: u64) -> RunOptions {
    let sampling = Some(Sampling { unit_ps: Some(unit_ps), every: Some(every) });
    RunOptions { sampling, ..RunOptions::default() }
}

/// A thread that waits for pages is switched away from and to, and what that touches is touched between units, too.
#[test]
fn the_kernels_paths_touch_as_many_lines_in_a_sampled_run_as_in_the_complete_one() {
    let paging = machines().into_iter().chain(drives());
    for (name, system) in paging.filter(|(name, _)| ["storage", "mmap"].contains(name)) {
        let chase = || {
            let parameters = [
                ("steps".to_owned(), 30_000.into()),
                ("table".to_owned(), "8MiB".into()),
                ("touched".to_owned(), false.into()),
            ];
            generator::find("chase").unwrap().make(&parameters, 1).unwrap().0
        };
        let whole = run(&system, chase(), &RunOptions::default()).result;
        let sampled = run(&system, chase(), &sampling(1_000 * US, 60)).result;
        let told = sampled.sampling.as_ref().unwrap();
        assert!(told.detailed_share < 0.35, "{name}: {told:?}");
        for counter in ["memory_reads", "shared_cache_hits"] {
            let (found, expected) = (sampled.counters[counter], whole.counters[counter]);
            let off = found as f64 / expected as f64 - 1.0;
            assert!(off.abs() < 0.02, "{name}: {counter}: {found}, not {expected}");
        }
    }
}

/// As many cores are interrupted for what is unmapped.
#[test]
fn as_many_cores_are_interrupted_in_a_sampled_run_as_in_the_complete_one() {
    let (_, system) = drives().swap_remove(1);
    let whole = run(&system, gups(70_000, 2), &RunOptions::default()).result;
    let sampled = run(&system, gups(70_000, 2), &sampling(1_000 * US, 60)).result;
    let told = sampled.sampling.as_ref().unwrap();
    assert!(told.detailed_share < 0.35, "{told:?}");
    let of = |result: &SystemResult, counter: &str| result.counters[counter] as f64;
    assert!(of(&whole, "shootdown_interrupts") > 1_000.0);
    for (counter, most) in [("shootdown_interrupts", 0.1), ("memory_reads", 0.02)] {
        let (found, expected) = (of(&sampled, counter), of(&whole, counter));
        let off = found / expected - 1.0;
        assert!(off.abs() < most, "{counter}: {found}, not {expected}");
    }
}

/// Where pages lie in swap follows when slots become free and are taken, and what is read ahead follows that. Faults in
/// order scatter them as fast between units as in detail, where reclaim goes on beside the program and pages come and
/// go in their time: with transfers that took none a fifth of the faults that read was missing.
#[test]
fn faults_in_order_read_as_often_in_a_sampled_run_as_in_the_complete_one() {
    let system = system(
        "storage/quick",
        &[("processor.caches.2.capacity", "320KiB"), ("storage.dram_capacity", "6MiB")],
    );
    let in_order = || {
        let parameters = [
            ("updates".to_owned(), 35_000.into()),
            ("table".to_owned(), "16MiB".into()),
            ("random".to_owned(), 0.into()),
            ("step".to_owned(), "4KiB".into()),
        ];
        generator::find("gups").unwrap().make(&parameters, 1).unwrap().0
    };
    let whole = run(&system, in_order(), &RunOptions::default()).result;
    let sampled = run(&system, in_order(), &sampling(4_000 * US, 20)).result;
    let told = sampled.sampling.as_ref().unwrap();
    assert!(told.detailed_share < 0.25, "{told:?}");
    let off = |found: u64, expected: u64| found as f64 / expected as f64 - 1.0;
    let of = |counter: &str| off(sampled.counters[counter], whole.counters[counter]);
    let (reads, time) = (of("major_faults"), sampled.time_s / whole.time_s - 1.0);
    if std::env::var_os("TIERSCOPE_SHOW").is_some() {
        println!("{} units, faults that read {reads:+.4}, time {time:+.4}", told.units);
    }
    assert!(reads.abs() < 0.1, "{reads:+.3} of the faults that read");
    assert!(time.abs() < 0.06, "time is {time:+.3}");
}

/// A disk's heads and an adapter's cache come from one request to the next, so that the store is asked for each page between
/// units, too; threads wait for locks of drivers, and for the flash of an extended buffer cache, and copy what lies in
/// DRAM. What of it the store did is
/// told of the whole run.
#[test]
fn a_store_that_is_asked_throughout_takes_what_it_takes_in_the_complete_run() {
    let l3 = ("processor.caches.2.capacity", "320KiB");
    let small = ("storage.dram_capacity", "6MiB");
    let flash = ("storage.buffer_cache.capacity", "6MiB");
    let large = || work::work("uniform", 16 << 20, 1);
    let postmark = || {
        let parameters = [
            ("files".to_owned(), 20.into()),
            ("transactions".to_owned(), 100.into()),
            ("processes".to_owned(), 1.into()),
            ("buffered".to_owned(), false.into()),
            ("read_block".to_owned(), "4KiB".into()),
            ("write_block".to_owned(), "4KiB".into()),
        ];
        generator::find("postmark/series").unwrap().make(&parameters, 1).unwrap().0
    };
    type Work<'a> = &'a dyn Fn() -> Box<dyn Stream>;
    let machines: [(&str, SystemSpec, u64, Work<'_>); 5] = [
        ("disk", system("storage/disk-7200", &[l3, small]), 50_000, &large),
        ("raid", system("disk-raid", &[l3, small]), 2_000, &|| gups(20_000, 2)),
        ("haste", system("haste", &[l3, small]), 2_000, &|| gups(40_000, 2)),
        ("memory", system("ddr-block", &[l3, small]), 200, &|| gups(10_000, 1)),
        ("flash", system("buffer-cache/quick", &[small, flash]), 10_000, &postmark),
    ];
    for (name, system, unit_us, work) in machines {
        let most = if name == "disk" { 25_000 } else { 80_000 };
        let stops = || vec![Bound::Accesses(most)];
        let whole = RunOptions { stops: stops(), ..RunOptions::default() };
        let whole = run(&system, work(), &whole).result;
        let sampled = RunOptions { stops: stops(), ..sampling(unit_us * US, 10) };
        let sampled = run(&system, work(), &sampled).result;
        let told = sampled.sampling.clone().unwrap();
        assert!(told.units >= 8 && told.detailed_share < 0.4, "{name}: {told:?}");
        let off = |found: f64, expected: f64| found / expected - 1.0;
        let time = off(sampled.time_s, whole.time_s);
        let read = off(sampled.store_bytes.read as f64, whole.store_bytes.read as f64);
        let half = told.half_widths.time.unwrap();
        if std::env::var_os("TIERSCOPE_SHOW").is_some() {
            println!("{name}: {} units, time {time:+.4} of {half:.4}, read {read:+.4}", told.units);
        }
        assert!(time.abs() < half + 0.02, "{name}: time is {time:+.4}, half width {half:.4}");
        // Windows of readahead from swap follow their hits, by chance in so short a run.
        assert!(read.abs() < 0.06, "{name}: bytes read are {read:+.4}");
        assert!(half > 0.0, "{name}: what the store takes is as of a run that differs by chance");
        let bytes = |of: fn(&SystemResult) -> u64| off(of(&sampled) as f64, of(&whole) as f64);
        let of_dram = [bytes(|it| it.dram_bytes.read), bytes(|it| it.dram_bytes.written)];
        let first = format!("hits_{}", system.processor.as_ref().unwrap().caches[0].name);
        let first = first.to_lowercase();
        let counters = [
            "buffer_cache_hits",
            "adapter_cached_writes",
            "memory_reads",
            "dram_read_lines",
            "dram_written_lines",
            &first,
        ];
        for counter in counters {
            let expected = whole.counters.get(counter).filter(|count| **count > 1_000);
            let Some(expected) = expected else { continue };
            let found = off(sampled.counters[counter] as f64, *expected as f64);
            if std::env::var_os("TIERSCOPE_SHOW").is_some() {
                println!("    {counter} {found:+.4}");
            }
            // Hits are of units, which have no first touches.
            let most = if counter == first { 0.2 } else { 0.08 };
            assert!(found.abs() < most, "{name}: {counter} {found:+.4}");
        }
        assert!(of_dram.iter().all(|off| off.abs() < 0.05), "{name}: bytes of DRAM {of_dram:?}");
        // What the adapter's cache holds is read from no platter.
        if let (Some(found), Some(expected)) = (&sampled.disk, &whole.disk)
            && expected.platter_reads > 0
        {
            if std::env::var_os("TIERSCOPE_SHOW").is_some() {
                println!("    platters {} for {}", found.platter_reads, expected.platter_reads);
            }
            let reads = off(found.platter_reads as f64, expected.platter_reads as f64);
            let moves = found.positioning_share - expected.positioning_share;
            // A disk that is asked by one thread reads ahead by itself while it waits, longer between units.
            let most = if name == "flash" { 0.3 } else { 0.06 };
            assert!(
                reads.abs() < most,
                "{name}: {reads:+.4} of {} that are read from platters",
                expected.platter_reads
            );
            assert!(moves.abs() < 0.05, "{name}: heads are moved {moves:+.4} more of the time");
        }
    }
}

/// What is counted throughout does not depend on where units lie, and times come near those of the
/// complete run: as near as the intervals say, and a few per cent more where DRAM overflows, for what
/// warming leaves out.
#[test]
fn a_sampled_run_gives_what_the_complete_run_gives() {
    for (name, system) in machines().into_iter().chain(drives()) {
        // A fault takes 20 us of paths and more.
        let (updates, unit_ps, every) = match name {
            "storage" | "mmap" => (60_000, 2_000 * US, 5),
            "hybrid" => (20_000, 50 * US, 10),
            "hams" => (130_000, 1_000 * US, 15),
            "cxl-ssd" | "flatflash-m" => (200_000, 1_000 * US, 15),
            _ => (1_500_000, 50 * US, 10),
        };
        let whole = run(&system, gups(updates, 1), &RunOptions::default()).result;
        let sampled = run(&system, gups(updates, 1), &sampling(unit_ps, every));
        assert!(!sampled.failed && sampled.partial_reason.is_none(), "{name}: {sampled:?}");
        let sampled = sampled.result;
        assert!(
            sampled.sampling.is_some(),
            "{name}: nothing was passed over in {} s",
            whole.time_s
        );
        let told = sampled.sampling.clone().unwrap();
        assert_eq!(
            (sampled.instructions, sampled.accesses),
            (whole.instructions, whole.accesses),
            "{name}"
        );
        assert!(told.units >= 30, "{name}: {told:?}");
        let off = |of: fn(&SystemResult) -> f64| of(&sampled) / of(&whole) - 1.0;
        let half = told.half_widths;
        let (time, latency) = (off(|r| r.time_s), off(|r| r.latency_ns.as_ref().unwrap().mean));
        let (bound, wide) = (half.time.unwrap(), half.mean_latency.unwrap());
        if std::env::var_os("TIERSCOPE_SHOW").is_some() {
            println!(
                "{name}: {} units, time {time:+.4} of {bound:.4}, latency {latency:+.4} of {wide:.4}",
                told.units
            );
        }
        assert!(time.abs() < bound + 0.03, "{name}: time is {time:+.3}, half width {bound:.3}");
        assert!(latency.abs() < wide + 0.03, "{name}: latency {latency:+.3} of {wide:.3}");
        if whole.store_bytes.read > 0 {
            let read = off(|r| r.store_bytes.read as f64);
            // Windows of readahead from swap follow their hits, which are few and by chance: complete runs with other
            // seeds read up to 11 % more or less.
            let most = if ["storage", "mmap"].contains(&name) { 0.12 } else { 0.06 };
            assert!(read.abs() < most, "{name}: bytes read are {read:+.3}");
        }
        // What flash and cells did is counted between units, too.
        type Count = fn(&SystemResult) -> Option<u64>;
        let counts: [(&str, Count); 4] = [
            ("programs", |it| it.drive.as_ref().map(|drive| drive.flash_programs)),
            ("erases", |it| it.drive.as_ref().map(|drive| drive.flash_erases)),
            ("reads of flash", |it| it.drive.as_ref().map(|drive| drive.flash_reads)),
            ("lines written", |it| it.nvm.as_ref().map(|nvm| nvm.line_writes)),
        ];
        for (what, count) in counts {
            let Some(expected) = count(&whole).filter(|count| *count > 1_000) else { continue };
            let found = count(&sampled).unwrap() as f64 / expected as f64 - 1.0;
            if std::env::var_os("TIERSCOPE_SHOW").is_some() {
                println!("    {what} {found:+.4} of {expected}");
            }
            // Lines that would wait together come one after the other: a small buffer merges fewer of them.
            let most = match name {
                "cxl-ssd" => 0.15,
                // As many as are read by chance.
                "mmap" => 0.12,
                _ => 0.05,
            };
            assert!(found.abs() < most, "{name}: {what} {found:+.4} of {expected}");
        }
        if let Some(total_j) = sampled.energy.total_j {
            let parts_j: f64 = sampled.energy.parts_j.values().sum();
            assert!((parts_j / total_j - 1.0).abs() < 1e-9, "{name}: {parts_j} of {total_j}");
            let (energy, half) = (off(|r| r.energy.total_j.unwrap()), half.energy.unwrap());
            if std::env::var_os("TIERSCOPE_SHOW").is_some() {
                println!("    energy {energy:+.4} of {half:.4}");
            }
            assert!(energy.abs() < half + 0.03, "{name}: energy {energy:+.4} of {half:.4}");
        }
    }
}

/// What warming leaves out, and the rest that an interval is made of, was set by runs of other sizes, draws and places of
/// units than these. Units are as long as such a run takes them by itself, and a dozen at most. They begin where all pages have
/// been touched: of so short a run first touches would be an eighth, which units have none of.
#[test]
fn intervals_of_runs_by_which_nothing_was_set_hold_the_truth_as_often_as_they_say() {
    let works = [
        "uniform",
        "zipf",
        "mixed",
        "strided",
        "two threads",
        "small",
        "writes",
        "phases",
        "filter",
        "chase",
    ];
    let machines: Vec<_> = machines().into_iter().chain(drives()).collect();
    let (works, few, least) = of_many((&works[..2], true, 6), (&works[..], false, 110));
    let judged = machines.iter().filter(|(name, _)| !few || ["hybrid", "cxl-ssd"].contains(name));
    let pairs: Vec<_> =
        judged.flat_map(|machine| works.iter().map(move |work| (machine, *work))).collect();
    // Two at a time; each is by itself.
    let next = AtomicUsize::new(0);
    let take = || pairs.get(next.fetch_add(1, Ordering::Relaxed));
    let judge = || {
        std::iter::from_fn(take).flat_map(|((name, system), work)| judged_by(name, system, work))
    };
    let told: Vec<_> = std::thread::scope(|scope| {
        let threads = [(); 2].map(|()| scope.spawn(|| judge().collect::<Vec<_>>()));
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    // A run that is too short for an interval has none.
    let (compared, held) = (told.len() as u32, told.iter().filter(|told| told.1).count());
    let missed: Vec<_> = told.iter().filter(|told| !told.1).map(|told| told.0.as_str()).collect();
    let missed = missed.join("\n");
    if std::env::var_os("TIERSCOPE_SHOW").is_some() {
        println!("{held} of {compared}; not\n{missed}");
    }
    // 95 in 100, less three standard errors of so many: those of one run are alike.
    let claimed = 0.95 * f64::from(compared);
    let bound = claimed - 3.0 * (0.05 * claimed).sqrt();
    assert!(compared >= least && held as f64 >= bound, "{held} of {compared} hold; not\n{missed}");
}

/// A run and samples of it, each with whether its interval holds.
fn judged_by(name: &str, system: &SystemSpec, work_name: &str) -> Vec<(String, bool)> {
    let asked = Sampling { unit_ps: None, every: None };
    let plan = sampling_plan(system, asked).unwrap();
    let work = || work::work(work_name, 12 << 20, 77);
    let region = |stops: Vec<Bound>, sampling: Option<Sampling>| {
        let start = Some(Bound::Accesses(80_000));
        RunOptions { start, stops, sampling, ..RunOptions::default() }
    };
    let stops = vec![Bound::TimePs(13 * plan.period_ps), Bound::Accesses(4_000_000)];
    let whole = run(system, work(), &region(stops, None)).result;
    let judge = |seed: u64| {
        let system = SystemSpec { seed, ..system.clone() };
        let stops = vec![Bound::Accesses(whole.accesses)];
        let sampled = run(&system, work(), &region(stops, Some(asked))).result;
        let told = sampled.sampling.as_ref()?;
        let half = told.half_widths.time?;
        let off = sampled.time_s / whole.time_s - 1.0;
        let tell =
            format!("{name}, {work_name}, {seed}: {off:+.4} of {half:.4}, {} units", told.units);
        if std::env::var_os("TIERSCOPE_SHOW").is_some() {
            println!("{tell}; whole {:.4} s in {:.2} s", whole.time_s, whole.wall_s);
        }
        Some((tell, off.abs() <= half))
    };
    (201..203).filter_map(judge).collect()
}

/// Detail before a unit begins with nothing under way: a buffer of writes fills there, for which nobody waits. Of what was taken
/// back each access waits again for what its address is made of, and walks again.
#[test]
fn what_begins_anew_before_a_unit_takes_what_it_takes_in_the_complete_run() {
    let (_, system) = machines().into_iter().find(|(name, _)| *name == "hybrid").unwrap();
    for (work_name, accesses, unit_us) in [("two threads", 60_000, 100), ("chase", 20_000, 50)] {
        let region = |options: RunOptions| RunOptions {
            start: Some(Bound::Accesses(80_000)),
            stops: vec![Bound::Accesses(accesses)],
            ..options
        };
        let work = || work::work(work_name, 12 << 20, 77);
        let whole = run(&system, work(), &region(RunOptions::default())).result;
        // Nearly half of the time is in detail before units.
        let sampled = run(&system, work(), &region(sampling(unit_us * US, 5))).result;
        let told = sampled.sampling.as_ref().expect("it passes some over");
        let (off, half) = (sampled.time_s / whole.time_s - 1.0, told.half_widths.time.unwrap());
        if std::env::var_os("TIERSCOPE_SHOW").is_some() {
            println!("{work_name}: {} units, {off:+.4} of {half:.4}", told.units);
        }
        let reads = |result: &SystemResult| result.counters["memory_reads"] as f64;
        let more = reads(&sampled) / reads(&whole) - 1.0;
        assert!(more.abs() < 0.005, "{work_name}: {more:+.4} of the reads of memory");
        assert!(told.units >= 30, "{work_name}: {told:?}");
        // What waits where a unit ends is told as what waited before, and not as a queue where nobody waits.
        let waits = |result: &SystemResult, stage: &str| {
            let of = |(name, ns): (&String, &f64)| if name == stage { *ns } else { 0.0 };
            result.time_breakdown_ns.iter().map(of).sum::<f64>()
                / result.time_breakdown_ns.values().sum::<f64>()
        };
        for stage in ["controller_queue", "store_queue", "device", "medium"] {
            let (found, expected) = (waits(&sampled, stage), waits(&whole, stage));
            let more = found - expected;
            assert!(more.abs() < 0.08, "{work_name}: {stage} {found:.3} for {expected:.3}");
            assert!(stage != "controller_queue" || found < 0.01, "{work_name}: {found:.3}");
        }
        // A unit of the chase has five misses, of which what is under way at its ends is a fifth.
        assert!(off.abs() < 0.04, "{work_name}: {off:+.4} of {half:.4}");
    }
}

/// Programs of flash that begin together end together, and so once more: for longer than a unit, and each unit that began as
/// long after would meet the same turn of it.
#[test]
fn units_do_not_all_meet_the_same_turn_of_what_begins_anew_before_them() {
    let sets = [
        ("hybrid.prefetch_pages", "0"),
        ("hybrid.cache.capacity", "32MiB"),
        ("processor.caches.2.capacity", "1280KiB"),
    ];
    let system = system("hybrid/quick", &sets);
    let first_touches = || {
        let parameters = [
            ("updates".to_owned(), 4.into()),
            ("table".to_owned(), "256MiB".into()),
            ("touched".to_owned(), true.into()),
        ];
        generator::find("gups").unwrap().make(&parameters, 1).unwrap().0
    };
    let whole = run(&system, first_touches(), &RunOptions::default()).result;
    let densest = Sampling { unit_ps: None, every: Some(3) };
    let options = RunOptions { sampling: Some(densest), ..RunOptions::default() };
    for seed in 1..3 {
        let system = SystemSpec { seed, ..system.clone() };
        let sampled = run(&system, first_touches(), &options).result;
        let told = sampled.sampling.as_ref().expect("it passes some over");
        let (off, half) = (sampled.time_s / whole.time_s - 1.0, told.half_widths.time.unwrap());
        if std::env::var_os("TIERSCOPE_SHOW").is_some() {
            println!("{seed}: {} units, {off:+.4} of {half:.4}", told.units);
        }
        assert!(told.units >= 80 && half < 0.02, "{told:?}");
        assert!(off.abs() <= half, "{off:+.4} of {half:.4}");
    }
}

/// Threads wait for a file that another has to itself between units, too: else what is passed over has sixteen calls under
/// way where units have one. Where files lie in memory, what it takes to wake a thread and to switch to it is no store's, which
/// does nothing there.
#[test]
fn calls_that_have_a_file_one_after_the_other_do_so_between_units() {
    for (name, generator, requests, (unit_us, off_by)) in [
        ("haste/ext3", "xdd/random-read", 4000, (1000, 0.03)),
        ("oracle/quick", "xdd/random-write", 6000, (200, 0.01)),
    ] {
        let calls = || {
            let mut parameters = vec![("requests".to_string(), requests.into())];
            if name == "oracle/quick" {
                let more = [("direct", false.into()), ("threads", 4.into())];
                let sizes = [("request", "16KiB".into()), ("size", "64MiB".into())];
                let more = more.into_iter().chain(sizes);
                parameters.extend(more.map(|(name, value)| (name.to_string(), value)));
            }
            generator::find(generator).unwrap().make(&parameters, 0).unwrap().0
        };
        let system = system(name, &[]);
        let whole = run(&system, calls(), &RunOptions::default()).result;
        let sampled = run(&system, calls(), &sampling(unit_us * US, 10)).result;
        assert!(whole.counters["file_lock_waits"] > 1000, "{name}");
        let told = sampled.sampling.clone().expect("it passes some over");
        assert!(told.units >= 3, "{told:?}");
        let off = sampled.time_s / whole.time_s - 1.0;
        let half = told.half_widths.time.unwrap_or(0.0);
        assert!(off.abs() < half + off_by, "{name}: {off:+.3} of {told:?}");
    }
}

/// What waits for its address when a unit ends is done all the same, once, with what joined it.
#[test]
fn nothing_that_waits_is_lost_or_done_twice_where_a_unit_ends() {
    for (name, system) in machines() {
        // A unit has many times as many accesses as wait for each other.
        let (accesses, unit_ps) = match name {
            "storage" => (60_000, 2_000 * US),
            "hybrid" => (60_000, 1_500 * US),
            _ => (400_000, 50 * US),
        };
        let stops = || vec![Bound::Accesses(accesses)];
        let work = || work::work("nodes", 8 << 20, 1);
        let whole = run(&system, work(), &RunOptions { stops: stops(), ..RunOptions::default() });
        let options = RunOptions { stops: stops(), ..sampling(unit_ps, 5) };
        let (whole, sampled) = (whole.result, run(&system, work(), &options).result);
        let told = sampled.sampling.clone().expect("it passes some over");
        assert!(told.units >= 20, "{name}: {told:?}");
        // Of what is under way at the end the instructions have been counted, a window of them at most.
        let off = whole.instructions.abs_diff(sampled.instructions);
        assert!(off < 200, "{name}: {} for {}", sampled.instructions, whole.instructions);
        let (off, half) = (sampled.time_s / whole.time_s - 1.0, told.half_widths.time.unwrap());
        assert!(off.abs() < half + 0.02, "{name}: {off:+.4} of {half:.4}");
    }
}

#[test]
fn every_sum_of_a_sampled_result_is_complete() {
    for (name, system) in machines() {
        for threads in [1, 3] {
            let result = run(&system, gups(30_000, threads), &sampling(20 * US, 10)).result;
            assert_sums(name, &result, threads as f64);
        }
    }
}

fn assert_sums(name: &str, result: &SystemResult, threads: f64) {
    let stages: f64 = result.stages_ns.values().sum();
    let mean = result.latency_ns.as_ref().unwrap().mean;
    assert!((stages - mean).abs() < 1e-6 * stages, "{name}: {stages} of {mean}");
    let owners: f64 = result.time_breakdown_ns.values().sum();
    let spans = owners / (result.time_s * 1e9);
    // Each thread has its time, but for what instructions under way at a unit's ends took.
    assert!((spans / threads - 1.0).abs() < 0.02, "{name}: {spans} of {threads} threads");
    let parts: f64 = result.energy.parts_j.values().sum();
    let total = result.energy.total_j.unwrap_or(0.0);
    assert!((parts - total).abs() <= 1e-9 * total, "{name}");
    let told = result.sampling.as_ref().unwrap();
    assert!(told.measured_time_ps >= (told.units - 1) * told.unit_ps, "{name}");
}

/// A machine whose DRAM cache prefetches, to be passed over without times.
fn prefetching(unit_ps: u64, every: u64) -> (SystemSpec, RunOptions) {
    let sets = [
        ("store.read_latency", "500ns"),
        ("store.write_latency", "5us"),
        ("processor.caches.2.capacity", "320KiB"),
        ("hybrid.cache.capacity", "2MiB"),
        // What is written back is under way again soon.
        ("hybrid.write_back_buffer_pages", "4"),
    ];
    let options = RunOptions { warming: Warming::Untimed, ..sampling(unit_ps, every) };
    (system("hybrid/quick", &sets), options)
}

#[test]
fn every_figure_of_a_run_passed_over_without_times_is_finite_and_every_sum_complete() {
    for (name, threads) in [("uniform", 1.0), ("two threads", 2.0), ("filter", 1.0), ("chase", 1.0)]
    {
        let (system, options) = prefetching(20 * US, 10);
        let options = RunOptions { stops: vec![Bound::Accesses(100_000)], ..options };
        let outcome = run(&system, work::work(name, 16 << 20, 1), &options);
        assert!(!outcome.failed, "{name}: {:?}", outcome.partial_reason);
        let result = outcome.result;
        assert_sums(name, &result, threads);
        let told = result.sampling.as_ref().unwrap();
        assert_eq!(told.warming, Warming::Untimed);
        let half = told.half_widths;
        let figures = [Some(result.time_s), Some(result.miss_rate), result.energy.total_j];
        let halves = [half.time, half.mean_latency, half.miss_rate, half.energy];
        let mut all = figures.iter().chain(&halves).flatten();
        assert!(all.all(|figure| figure.is_finite() && *figure >= 0.0), "{name}: {told:?}");
        assert!(result.time_s > 0.0 && result.miss_rate <= 1.0, "{name}");
    }
}

/// A machine whose cores prefetch lines, a few at a time.
fn ahead(outstanding: u32) -> SystemSpec {
    let prefetch = format!(
        "{{ kind = \"stream\", degree = 4, distance = 16, trackers = 16, outstanding = {outstanding} }}"
    );
    let sets = [("processor.caches.2.capacity", "320KiB"), ("processor.prefetch", &prefetch)];
    system("oracle/quick", &sets)
}

/// What is asked for ahead finds room, or does not, as in detail: so much of it comes between units, too.
#[test]
fn as_many_lines_are_prefetched_in_a_sampled_run_as_in_the_complete_one() {
    let stops = || vec![Bound::Accesses(2_500_000)];
    let mut shares = Vec::new();
    for outstanding in [1, 16] {
        let system = ahead(outstanding);
        let work = || work::work("mixed", 16 << 20, 1);
        let whole = RunOptions { stops: stops(), ..RunOptions::default() };
        let whole = run(&system, work(), &whole).result;
        let sampled = RunOptions { stops: stops(), ..sampling(100 * US, 10) };
        let sampled = run(&system, work(), &sampled).result;
        let told = sampled.sampling.clone().unwrap();
        assert!(told.units >= 10, "{told:?}");
        let prefetches = |one: &SystemResult| one.counters["line_prefetches"] as f64;
        let (of_whole, of_sampled) = (prefetches(&whole), prefetches(&sampled));
        // Misses that come together in detail find places taken more often than those that come one by one.
        let most = 0.35;
        let off = (of_sampled / of_whole - 1.0).abs();
        assert!(off < most, "{outstanding}: {of_sampled} of {of_whole}");
        let off = sampled.time_s / whole.time_s - 1.0;
        let half = told.half_widths.time.unwrap();
        assert!(off.abs() < half + 0.02, "{outstanding}: {off:+.4} of {half:.4}");
        shares.push(of_whole);
    }
    assert!(shares[0] < 0.8 * shares[1], "most find room whatever it is: {shares:?}");
}

/// What cores ask each other for, and what comes of prefetches, counts between units as in them.
#[test]
fn cores_share_lines_in_a_sampled_run_as_in_the_complete_one() {
    let alone = system("oracle/quick", &[("processor.caches.2.capacity", "320KiB")]);
    for (name, system) in [("no prefetcher", alone), ("few", ahead(1)), ("many", ahead(16))] {
        for (table, random) in [("1MiB", 1.0), ("16MiB", 0.1)] {
            let work = || {
                let parameters = [
                    ("updates".to_owned(), 1_500_000.into()),
                    ("table".to_owned(), table.into()),
                    ("threads".to_owned(), 4.into()),
                    ("random".to_owned(), random.into()),
                ];
                generator::find("gups").unwrap().make(&parameters, 1).unwrap().0
            };
            let whole = run(&system, work(), &RunOptions::default()).result;
            let sampled = run(&system, work(), &sampling(20 * US, 10)).result;
            let told = sampled.sampling.as_ref().unwrap();
            assert!(told.units >= 10 && told.detailed_share < 0.35, "{told:?}");
            for counter in [
                "tlb_walks",
                "shared_cache_hits",
                "cache_invalidations",
                "cache_transfers",
                "cache_upgrades",
                "memory_reads",
                "line_prefetches",
                "line_prefetches_late",
            ] {
                let (found, expected) = (sampled.counters[counter], whole.counters[counter]);
                let off = found as f64 / expected.max(1) as f64 - 1.0;
                // Misses that come together in detail find places for what they prefetch taken more often than those
                // that come one by one, and lines on their way.
                let most = match (name, counter) {
                    ("no prefetcher", _) => 0.05,
                    (_, "shared_cache_hits") => 1.0,
                    (_, "line_prefetches" | "line_prefetches_late") => 0.3,
                    _ => 0.05,
                };
                // So many are by chance.
                let few = expected.max(found) < 500;
                assert!(
                    few || off.abs() < most || expected.abs_diff(found) < 20,
                    "{name} {random}: {counter}: {found}, not {expected}"
                );
            }
        }
    }
}

/// What waits to be prefetched when a unit ends is there when the next begins, and no more room is found between.
#[test]
fn as_many_pages_are_prefetched_in_a_sampled_run_as_in_the_complete_one() {
    let sets = [
        ("store.read_latency", "2us"),
        ("store.write_latency", "20us"),
        ("processor.caches.2.capacity", "320KiB"),
        ("hybrid.cache.capacity", "4MiB"),
        ("hybrid.write_back_buffer_pages", "16"),
    ];
    let system = system("hybrid/quick", &sets);
    let work = || work::work("chase", 16 << 20, 1);
    let stops = vec![Bound::Accesses(40_000)];
    let whole = RunOptions { stops: stops.clone(), ..RunOptions::default() };
    let whole = run(&system, work(), &whole).result;
    let sampled = RunOptions { stops, warming: Warming::Untimed, ..sampling(400 * US, 15) };
    let sampled = run(&system, work(), &sampled).result;
    let told = sampled.sampling.clone().unwrap();
    assert!(told.units >= 20, "{told:?}");
    let prefetched = |one: &SystemResult| one.counters["prefetched_pages"] as f64;
    let pages = prefetched(&sampled) / prefetched(&whole) - 1.0;
    let time = sampled.time_s / whole.time_s - 1.0;
    let half = told.half_widths.time.unwrap();
    assert!(pages.abs() < 0.04, "pages {pages:+.4}, time {time:+.4} of {half:.4}");
    assert!(time.abs() < half + 0.03, "pages {pages:+.4}, time {time:+.4} of {half:.4}");
}

#[test]
fn batches_and_forks_change_no_sampled_run_of_cores_that_prefetch() {
    same_in_batches_and_forks("ahead", &ahead(2), 15_000, &sampling(20 * US, 7));
}

#[test]
fn batches_and_forks_change_no_run_passed_over_without_times() {
    let (system, options) = prefetching(20 * US, 7);
    same_in_batches_and_forks("hybrid", &system, 15_000, &options);
    let skipped = RunOptions { start: Some(Bound::Accesses(10_000)), ..options };
    same_in_batches_and_forks("hybrid, after what is skipped", &system, 20_000, &skipped);
}

#[test]
fn machines_without_prefetches_are_passed_over_alike_whatever_warming_is_asked_for() {
    for (name, system) in machines() {
        let of = |warming| {
            let options = RunOptions { warming, ..sampling(20 * US, 7) };
            let mut result = run(&system, gups(10_000, 1), &options).result;
            (result.wall_s, result.accesses_per_wall_s) = (0.0, 0.0);
            result
        };
        assert_eq!(of(Warming::Untimed), of(Warming::Functional), "{name}");
    }
}

#[test]
fn batches_and_forks_change_no_sampled_result() {
    for (name, system) in machines() {
        // Before a unit comes what may wait for the store to be written.
        let every = if name == "storage" { 12 } else { 7 };
        same_in_batches_and_forks(name, &system, 15_000, &sampling(20 * US, every));
    }
}

/// What a drive, or a memory, holds goes with its fork, in units and between them.
#[test]
fn batches_and_forks_change_no_sampled_result_of_a_drive() {
    for (name, system) in drives() {
        same_in_batches_and_forks(name, &system, 10_000, &sampling(500 * US, 13));
    }
}

fn same_in_batches_and_forks(name: &str, system: &SystemSpec, updates: u64, options: &RunOptions) {
    let one = |batch_limit: u64| {
        let options = RunOptions { batch_limit, ..options.clone() };
        let mut result = run(system, gups(updates, 2), &options).result;
        (result.wall_s, result.accesses_per_wall_s) = (0.0, 0.0);
        result
    };
    let whole = one(0);
    assert!(whole.sampling.is_some(), "{name}");
    assert_eq!(one(7), whole, "{name}");
    let mut machine = Machine::new(system, gups(updates, 2), options).unwrap();
    let mut turns = 0;
    while !machine
        .run(|_| {
            turns += 1;
            turns % 40 == 0
        })
        .unwrap()
    {
        machine = machine.fork();
    }
    assert_eq!(machine.result(), whole, "{name}");
}

#[test]
fn what_comes_before_a_region_and_after_it_is_not_sampled() {
    let (_, system) = machines().remove(0);
    let options = RunOptions {
        start: Some(Bound::Accesses(50_000)),
        stops: vec![Bound::Accesses(100_000)],
        ..sampling(10 * US, 6)
    };
    let outcome = run(&system, gups(200_000, 1), &options);
    assert_eq!(outcome.partial_reason.as_deref(), Some("the limit of 100000 accesses was reached"));
    let result = outcome.result;
    assert_eq!(result.skipped.unwrap().accesses, 50_000);
    assert!((100_000..100_010).contains(&result.accesses), "{}", result.accesses);
    assert!(result.sampling.unwrap().units > 5);
}

#[test]
fn a_run_that_ends_before_anything_is_passed_over_is_the_complete_run() {
    for (name, system) in machines() {
        let run = |options: &RunOptions| {
            let mut outcome = run(&system, gups(2_000, 2), options);
            (outcome.result.wall_s, outcome.result.accesses_per_wall_s) = (0.0, 0.0);
            outcome
        };
        let sampled = run(&sampling(1_000_000 * US, 10));
        assert_eq!(sampled.result.sampling, None, "{name}");
        assert_eq!(sampled, run(&RunOptions::default()), "{name}");
    }
}

/// What the start took tells of what was passed over after it, and all of it is counted.
#[test]
fn a_run_that_ends_before_its_first_unit_is_told_by_its_start() {
    for (name, system) in machines() {
        let stops = vec![Bound::Accesses(10_000)];
        let bounded = |options: RunOptions| RunOptions { stops: stops.clone(), ..options };
        let whole = run(&system, gups(1_000_000, 2), &bounded(RunOptions::default())).result;
        // The start is nine tenths of the run: whether the first unit, which the seed places, lies in the rest, varies.
        let period_us = whole.time_ps * 9 / 10 / US;
        let options = bounded(sampling(period_us * US / 10, 10));
        let found = (1..20).find_map(|seed| {
            let seeded = SystemSpec { seed, ..system.clone() };
            let outcome = run(&seeded, gups(1_000_000, 2), &options);
            let none = outcome.result.sampling.as_ref().is_some_and(|told| told.units == 0);
            none.then_some(outcome)
        });
        let outcome = found.unwrap_or_else(|| panic!("{name}: each run met a unit"));
        assert!(!outcome.failed, "{name}: {:?}", outcome.partial_reason);
        let result = outcome.result;
        assert!(result.notes[0].contains("no unit was measured beyond"), "{:?}", result.notes);
        assert_eq!(result.sampling.as_ref().unwrap().half_widths.time, None);
        assert_eq!(result.accesses, whole.accesses, "{name}");
        let off = result.instructions as f64 / whole.instructions as f64 - 1.0;
        // Of what is under way at the end the instructions have been counted.
        assert!(off.abs() < 0.003, "{name}: instructions are {off}, at one limit");
        let off = result.time_s / whole.time_s - 1.0;
        assert!(off.abs() < 0.05, "{name}: {off}");
        let of_threads: f64 = result.time_breakdown_ns.values().sum();
        let of_whole: f64 = whole.time_breakdown_ns.values().sum();
        assert!((of_threads / of_whole - 1.0).abs() < 0.05, "{name}: {of_threads} of {of_whole}");
    }
}

#[test]
fn what_cannot_be_sampled_is_refused() {
    let refused = |system: &SystemSpec, options: &RunOptions| match Machine::new(
        system,
        gups(100, 1),
        options,
    ) {
        Err(MachineError::CannotSample(reason)) => reason,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was accepted"),
    };
    let checked = system("oracle/quick", &[("check_data", "true")]);
    assert!(refused(&checked, &sampling(US, 10)).contains("checks data"));
    let (_, plain) = machines().remove(0);
    assert!(refused(&plain, &sampling(10 * US, 2)).contains("measure one in 3 at most"));
    assert!(refused(&plain, &sampling(US - 1, 100)).contains("too short"));
    assert!(Machine::new(&plain, gups(100, 1), &sampling(10 * US, 3)).is_ok());
    let raid = "{ drives = 2, stripe = \"64KiB\", queue_depth = 128, latency = \"2us\", bandwidth = \"2GB/s\", \
                cache = { capacity = \"1MiB\", write_back = true, write_backs = 4 } }";
    let behind_cache = system("cxl-ssd/quick", &[("ssd.raid", raid)]);
    assert!(refused(&behind_cache, &sampling(US, 10)).contains("has a store whose state"));
    let tells = system("cxl-ssd/switching/quick", &[]);
    assert!(refused(&tells, &sampling(US, 10)).contains("tells of long reads"));
    let nodes = system("cxl-tiering/quick", &[]);
    let untimed = RunOptions { warming: Warming::Untimed, ..sampling(US, 10) };
    for options in [&sampling(US, 10), &untimed] {
        assert!(refused(&nodes, options).contains("two nodes of memory"));
    }
    let huge = [("os.transparent_huge_pages", "always")];
    assert!(refused(&system("storage/quick", &huge), &sampling(US, 10)).contains("huge pages"));
    assert!(Machine::new(&system("oracle/quick", &huge), gups(9, 1), &sampling(US, 10)).is_ok());
    let prefetches = system("hybrid/quick", &[]);
    let told = refused(&prefetches, &sampling(US, 10));
    assert!(told.contains("a DRAM cache that prefetches") && told.contains("--warming untimed"));
    let detailed = RunOptions { warming: Warming::Detailed, ..sampling(US, 10) };
    assert!(refused(&prefetches, &detailed).contains("a DRAM cache that prefetches"));
    assert!(refused(&prefetches, &untimed).contains("takes 16 ms to be as it was"));
    let longer = RunOptions { warming: Warming::Untimed, ..sampling(16_000 * US, 3) };
    assert!(Machine::new(&prefetches, gups(100, 1), &longer).is_ok());
    let alone = system("device/ddr4-2400", &[]);
    let other = system("device/ddr5-4800", &[]);
    let told = check_sampling(&[plain, alone, nodes, other], Warming::Untimed).unwrap_err();
    assert!(told.starts_with("device/ddr4-2400 and device/ddr5-4800 cannot"), "{told}");
    assert!(told.contains("run them without sampling; cxl-tiering/quick cannot"), "{told}");
}
