//! One result of the outcomes of all machines.

use crate::job::Windows;
use crate::requests::{CLOCK, OUTSTANDING_AT_MOST};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tierscope_system::result::{
    Completeness, ProgramInfo, RunResult, SCHEMA, SystemResult, WorkloadInfo,
};
use tierscope_system::run::Outcome;
use tierscope_system::spec::SystemSpec;
use tierscope_units::Size;
use tierscope_workload::filter::FilterSpec;
use tierscope_workload::requests::{Times, find};
use tierscope_workload::windows::WindowSpec;

/// Share of the instructions by which two machines may differ that stand at the same place: they
/// look for the end of a limited run now and then.
const SAME_PLACE: f64 = 0.01;

/// What is known of a run beyond its machines' outcomes.
pub struct Known {
    /// What ran; the threads are filled in from the outcomes.
    pub workload: WorkloadInfo,
    /// The program, where one ran.
    pub program: Option<ProgramInfo>,
    /// Why the run ended before the workload did on every machine, if that is known.
    pub ended: Vec<String>,
    /// What of the workload the machines were not given.
    pub missing: Vec<String>,
    /// What a reader must know of the workload before the figures.
    pub remarks: Vec<String>,
    /// Whether the workload itself is a sample of its program.
    pub is_sample: bool,
}

/// The result, and which machines failed and why, as JSON. A machine without an outcome has no
/// figures, and is left out.
pub fn assemble(known: Known, systems: &[SystemSpec], outcomes: Vec<Option<Outcome>>) -> Value {
    let threads = outcomes.iter().flatten().map(|outcome| outcome.threads).max().unwrap_or(0);
    let explained = !known.ended.is_empty();
    let mut reasons = [known.ended, known.missing].concat();
    let mut failures: Vec<(String, String)> = Vec::new();
    let mut results = BTreeMap::new();
    for (system, outcome) in systems.iter().zip(outcomes) {
        let Some(outcome) = outcome else {
            reasons.push(format!("{} is left out: it had not reported anything", system.name));
            continue;
        };
        match outcome.partial_reason {
            Some(reason) if outcome.failed => {
                reasons.push(format!("{}: {reason}", system.name));
                failures.push((system.name.clone(), reason));
            }
            Some(reason) if !(explained && !outcome.region_ended || reasons.contains(&reason)) => {
                reasons.push(reason);
            }
            _ => {}
        }
        results.insert(system.name.clone(), outcome.result);
    }
    compare_with_oracle(systems, &mut results, known.is_sample);
    let complete = reasons.is_empty();
    let remarks = known.remarks.into_iter().chain(all_fits(systems, &results));
    let remarks = remarks.chain(own_clocks(systems, &known.workload)).collect();
    let result = RunResult {
        version: crate::VERSION.into(),
        schema: SCHEMA,
        workload: WorkloadInfo { threads, ..known.workload },
        completeness: completeness(complete, known.is_sample, &results),
        partial_reason: (!complete).then(|| reasons.join("; ")),
        remarks,
        program: known.program,
        systems: results,
    };
    json!({"result": result, "failures": failures})
}

/// How much of the workload a result is of.
fn completeness(
    complete: bool,
    is_sample: bool,
    results: &BTreeMap<String, SystemResult>,
) -> Completeness {
    match (complete, is_sample || results.values().any(|result| result.sampling.is_some())) {
        (false, _) => Completeness::Partial,
        (true, true) => Completeness::Sampled,
        (true, false) => Completeness::Complete,
    }
}

/// Counters of what leaves DRAM, or passes it by.
const PRESSED: [&str; 7] = [
    "write_back_pages",
    "file_write_back_pages",
    "reclaimed_pages",
    "swap_out_pages",
    "demoted_pages",
    "direct_read_bytes",
    "direct_written_bytes",
];

/// A remark where everything that ran fitted into the DRAM of each machine, so that none had to
/// choose what to keep there.
///
/// By the end some memory may have been given back, so that what is in use then is not all: no
/// machine may have read more than its DRAM holds, nor written back, nor reclaimed, either.
fn all_fits(systems: &[SystemSpec], results: &BTreeMap<String, SystemResult>) -> Option<String> {
    let counter = |result: &SystemResult, name: &str| *result.counters.get(name).unwrap_or(&0);
    let (mut footprint_bytes, mut least_bytes, mut stores) = (0, u64::MAX, 0);
    for system in systems {
        let (result, dram) = (results.get(&system.name)?, system.dram_sizes()?);
        footprint_bytes = footprint_bytes.max(counter(result, "footprint_bytes"));
        least_bytes = least_bytes.min(dram.bytes);
        stores += usize::from(dram.before_store);
        let pressed = PRESSED.iter().any(|name| counter(result, name) > 0);
        if pressed || result.store_bytes.read > dram.bytes {
            return None;
        }
    }
    let told = stores > 0 && footprint_bytes > 0;
    let used = in_mib(footprint_bytes);
    (told && footprint_bytes <= least_bytes).then(|| match results.iter().next() {
        Some((name, result)) if results.len() == 1 => {
            let tells = match result.counters.contains_key("protected_pages") {
                true => "nothing of the memory behind it",
                false => "of the store only how it fills the DRAM at first",
            };
            format!(
                "All {used} that this run used fit into the DRAM of {name}: nothing had to leave it, and the \
                 run tells {tells}."
            )
        }
        _ => format!(
            "All {used} that this run used fit into the DRAM of every system: it cannot tell them \
             apart, but for how each fills its DRAM at first."
        ),
    })
}

/// A remark where a trace's times were counted by the clock of each device, and these differ, so that
/// each was given another load.
fn own_clocks(systems: &[SystemSpec], workload: &WorkloadInfo) -> Option<String> {
    let said = |name: &str| workload.parameters.get(name);
    let format = said("format").and_then(Value::as_str).and_then(find)?;
    let times_count = format.times == Times::Cycles
        && [CLOCK, OUTSTANDING_AT_MOST].iter().all(|name| said(name).is_none());
    let own = |system: &SystemSpec| Some((system.name.clone(), system.dram_clock()?));
    let clocks: Vec<_> = systems.iter().filter_map(own).collect();
    let differ = clocks.windows(2).any(|pair| pair[0].1 != pair[1].1);
    (times_count && differ).then(|| {
        let loads = clocks.iter().map(|(name, clock)| {
            let megahertz = 1e12 / clock.cycles_to_ps(1_000_000) as f64;
            format!("{name} at {megahertz:.0} MHz")
        });
        format!(
            "The times of this trace are cycles of a clock that was not said, and were counted by \
             each device's own: {}. They were given different loads; to compare them, say the \
             trace's clock with --set workload.clock=1.2GHz or another.",
            loads.collect::<Vec<_>>().join(", ")
        )
    })
}

/// Remarks on a workload from which the hits of a first-level cache were left out.
pub fn filtered(filter: FilterSpec, systems: &[SystemSpec]) -> Vec<String> {
    let size = Size::from_bytes(filter.capacity_bytes);
    let mut remarks = vec![format!(
        "The recording was filtered: it leaves out the accesses that a first-level cache of {size} \
         serves. What reaches main memory and the store is nearly that of all accesses; counts and \
         latencies of accesses, and hits of on-chip caches, are of those that are left."
    )];
    let first = |system: &SystemSpec| Some(system.processor.as_ref()?.caches.first()?.capacity);
    let smaller: Vec<String> = systems
        .iter()
        .filter_map(|system| first(system).filter(|one| *one < size).map(|one| (system, one)))
        .map(|(system, one)| format!("{} ({one})", system.name))
        .collect();
    if !smaller.is_empty() {
        remarks.push(format!(
            "First-level caches smaller than that would have missed more, and the recording does not \
             tell what: {}.",
            smaller.join(", ")
        ));
    }
    remarks
}

/// What is in a recording that holds windows of its program, and what follows for what is counted of it.
pub fn of_windows(windows: &Windows) -> String {
    let WindowSpec { window_accesses, period_accesses, start_accesses } = windows.spec;
    let start = match start_accesses {
        0 => "its start is in no window, and counts as the rest".into(),
        _ => format!("its first {start_accesses} accesses are there whole"),
    };
    let share = windows.totals.as_ref().and_then(|totals| {
        let skipped = totals.skipped?;
        let of = |part: u64, rest: u64| 100.0 * part as f64 / (part as f64 + rest as f64).max(1.0);
        let accesses = totals.accesses() + totals.left_out_loads + totals.left_out_stores;
        Some(format!(
            ", {} windows, {:.3} % of all accesses and {:.3} % of all {} instructions",
            skipped.windows,
            of(accesses, skipped.loads.saturating_add(skipped.stores)),
            of(totals.instructions, skipped.instructions),
            totals.instructions.saturating_add(skipped.instructions),
        ))
    });
    format!(
        "The recording is a sample of its program: {window_accesses} of each {period_accesses} \
         accesses{}; {start}.",
        share.unwrap_or_default()
    )
}

/// A remark on the replay of such a recording: of all of it, or of a region that begins later.
pub fn in_windows(windows: &Windows, region: bool) -> String {
    let told = if region {
        "Figures are of what is recorded of the region of interest, where --skip and --limit count what \
         is there. Nothing is extrapolated, neither the time of the whole region nor how much slower \
         one system is than another: a run without --skip and --roi tells both of the whole program."
    } else {
        "Times, energies and counts are of what is there; what is told of the whole program is \
         extrapolated, as far as the run came, and ± is sampling's error alone."
    };
    let warm = if windows.warm {
        "What was used between windows has warmed caches and memory, where a machine can be warmed so."
    } else {
        "A window begins with caches and memory as the one before has left them, so that times are too \
         long, the more so the shorter windows are: record it again, for this version tells what was \
         used in between."
    };
    format!("{} {told} {warm}", of_windows(windows))
}

fn in_mib(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if mib < 10.0 { format!("{mib:.1} MiB") } else { format!("{mib:.0} MiB") }
}

/// The time of a machine, to be compared with others': where the workload is a sample, of all threads of the
/// whole program, and none where that is not told.
fn compared_time_s(result: &SystemResult, is_sample: bool) -> Option<f64> {
    match &result.recorded_windows {
        Some(windows) => windows.thread_time_s,
        None => Some(result.time_s).filter(|_| !is_sample),
    }
}

/// Fills in the slowdown against the machine named `oracle`, else the first that is one, of those
/// that came as far as it did: of a run that ended early, machines stand at different places.
fn compare_with_oracle(
    systems: &[SystemSpec],
    results: &mut BTreeMap<String, SystemResult>,
    is_sample: bool,
) {
    let named = systems.iter().find(|system| system.name == "oracle");
    let oracle = named.or_else(|| systems.iter().find(|system| system.oracle.is_some()));
    let oracle = oracle.and_then(|oracle| results.get(&oracle.name));
    let Some((time_s, instructions)) =
        oracle.and_then(|r| Some((compared_time_s(r, is_sample)?, r.instructions)))
    else {
        return;
    };
    let as_far = |result: &&mut SystemResult| {
        let apart = result.instructions.abs_diff(instructions);
        apart as f64 <= SAME_PLACE * instructions as f64
    };
    for result in results.values_mut().filter(as_far).filter(|_| time_s > 0.0) {
        result.slowdown = compared_time_s(result, is_sample).map(|of_it| of_it / time_s);
    }
}
