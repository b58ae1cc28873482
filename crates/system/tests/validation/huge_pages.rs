//! Rung 6: huge pages against the real kernel. `tests/kernel/observe_huge.py` wrote anonymous memory that has asked for
//! huge pages by patterns, in a memory control group that is smaller, and wrote what the kernel counted; here whole
//! machines run the same programs. The patterns are split by a seed: with one half the model was developed, by the other
//! it is judged.
//!
//! `TIERSCOPE_OBSERVED_HUGE=FILE` compares with what was observed on this computer instead (`make kernel`).

use super::support::{ANONYMOUS, Sums, apart, call, observation, run as system_run, system};
use serde::Deserialize;
use tierscope_workload::Op;
use tierscope_workload::op::{Advice, Call, MAP_WRITABLE, NO_FILE};

const PAGE_BYTES: u64 = 4096;
const HUGE_PAGES: u64 = 512;

/// What `observe_huge.py` writes.
#[derive(Deserialize)]
struct Observed {
    kernel: String,
    runs: Vec<Run>,
}

/// A pattern, and what the kernel did.
#[derive(Deserialize)]
struct Run {
    name: String,
    half: String,
    /// Pages read at once from swap.
    cluster_pages: u64,
    pages: u64,
    /// First pages, and pages, that are to have no huge pages.
    refused: Vec<(u64, u64)>,
    /// Threes: what (a store to the first page, to each, or the advice to drop them), the first page, and pages.
    steps: Vec<u64>,
    /// In each of some runs.
    seen: Vec<Seen>,
}

/// What /proc/vmstat counted. Huge pages of other programs count as well.
#[derive(Deserialize)]
struct Seen {
    thp_fault_alloc: u64,
    thp_fault_fallback: u64,
    thp_split_page: u64,
    thp_swpout: u64,
    pswpin: u64,
    pswpout: u64,
}

/// A pattern as a program's operations.
fn program(run: &Run) -> Vec<Op> {
    let at = |page: u64| ANONYMOUS + page * PAGE_BYTES;
    let (address, length) = (ANONYMOUS, run.pages * PAGE_BYTES);
    let advise = |first, pages, advice: Advice| {
        call(Call::Advise { address: at(first), length: pages * PAGE_BYTES, advice: advice as u64 })
    };
    let flags = MAP_WRITABLE;
    let mut ops = call(Call::Map { address, length, flags, file: NO_FILE, offset: 0 });
    ops.extend(advise(0, run.pages, Advice::Huge));
    for (first, pages) in &run.refused {
        ops.extend(advise(*first, *pages, Advice::NoHuge));
    }
    for step in run.steps.chunks(3) {
        let &[what, first, pages] = step else { panic!("{}: {step:?}", run.name) };
        match what {
            0 => ops.push(Op::store(at(first), 8, 10)),
            1 => ops.extend((first..first + pages).map(|page| Op::store(at(page), 8, 10))),
            _ => ops.extend(advise(first, pages, Advice::DontNeed)),
        }
    }
    ops
}

/// What the group has beside the program's memory: the observer, page tables, and what is still to be written.
const BESIDE_PAGES: u64 = 360;
const LIMIT_PAGES: u64 = 8192;

fn machine(run: &Run) -> Sums {
    assert_eq!(ANONYMOUS % (HUGE_PAGES * PAGE_BYTES), 0, "as the observer's memory");
    let limit = format!("{}KiB", (LIMIT_PAGES - BESIDE_PAGES) * PAGE_BYTES / 1024);
    let cluster = run.cluster_pages.to_string();
    let sets = [
        ("os.transparent_huge_pages", "madvise"),
        ("storage.dram_capacity", "1GiB"),
        ("storage.memory_limit", &*limit),
        ("storage.reclaim", "active-inactive"),
        ("storage.swap_cluster_pages", &cluster),
        ("storage.swap_capacity", "256MiB"),
    ];
    system_run(&system("storage/970-pro", &[&sets]), &[program(run)])
}

/// How far a count of a pattern may lie outside.
///
/// What of a huge page is unmapped is free at once here, and its pages are single then; there that comes with the next
/// reclaim, if it comes, which has less to write then. What has been written is found again before reclaim comes past it,
/// or not, as times are. Of the huge pages that faults made, those of other programs count there.
fn near(name: &str, run: &Run) -> f64 {
    let is = |kind: &str| run.name.starts_with(kind);
    match name {
        "huge_page_splits" if is("dropped") => 1.0,
        "huge_page_swap_outs" | "swap_out_pages" if is("dropped") => 1.2,
        "swap_in_pages" if is("again_in_turn") => 2.0,
        "huge_page_swap_outs" | "swap_out_pages" | "swap_in_pages" => 0.08,
        "huge_page_faults" => 0.05,
        _ => 0.0,
    }
}

fn as_the_kernel(half: &str) {
    let observed: Observed = observation("TIERSCOPE_OBSERVED_HUGE", "huge-6.18.json");
    let (mut compared, mut differ) = (0, Vec::new());
    for run in observed.runs.iter().filter(|run| run.half == half) {
        let sums = machine(run);
        let seen = |of: fn(&Seen) -> u64| run.seen.iter().map(of).collect::<Vec<u64>>();
        let counted = [
            ("huge_page_faults", seen(|it| it.thp_fault_alloc), 1),
            ("huge_page_fallbacks", seen(|it| it.thp_fault_fallback), 1),
            ("huge_page_splits", seen(|it| it.thp_split_page), 1),
            ("huge_page_swap_outs", seen(|it| it.thp_swpout), 1),
            ("swap_in_pages", seen(|it| it.pswpin), HUGE_PAGES),
            ("swap_out_pages", seen(|it| it.pswpout), HUGE_PAGES),
        ];
        for (name, kernel, least) in counted {
            let model = sums.counter(name);
            let found = apart(model, &kernel, least);
            println!(
                "Linux {}, {half}, {}: {name} {model} ({:+.1} %), the kernel {kernel:?}",
                observed.kernel,
                run.name,
                100.0 * found
            );
            if found.abs() > near(name, run) {
                differ.push((&run.name, name, found));
            }
        }
        compared += 1;
    }
    assert!(compared >= 10 && differ.is_empty(), "{compared} compared: {differ:?}");
}

#[test]
fn huge_pages_come_and_go_as_the_kernels_do_in_the_patterns_the_model_was_developed_with() {
    as_the_kernel("development");
}

#[test]
fn huge_pages_come_and_go_as_the_kernels_do_in_the_patterns_that_judge_it() {
    as_the_kernel("judgement");
}
