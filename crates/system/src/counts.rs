//! Counts alone, without times: what caches hit and miss, of many machines from one functional pass.
//!
//! A machine that only warms functionally ([`crate::machine`]) waits for no device: which access
//! comes after which is a function of the operations, the processor, the operating system and the seed. What the
//! on-chip caches let through is then the same for all machines that have these in common, and each line of it is
//! looked up in the DRAM cache of every one: their on-chip caches, TLBs and page tables are simulated once. A point's
//! counts are those of a functional run of its own, to the last digit, whatever its capacity, ways, page, sectors,
//! policy and place of tags.

use crate::machine::{Bound, Machine, MachineError, Warming};
use crate::result::Skipped;
use crate::run::{Observer, Outcome, RunOptions, follow};
use crate::spec::SystemSpec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use tierscope_workload::Stream;

/// What one machine counted in its region. Nothing of it takes time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// The organization's name.
    pub organization: String,
    /// What came before the region, where something did.
    pub skipped: Option<Skipped>,
    /// Instructions of the program.
    pub instructions: u64,
    /// Loads and stores of the program; one that crosses a line counts twice.
    pub accesses: u64,
    /// What `misses` are of: look-ups of a DRAM cache; where the operating system pages, lines read from main memory
    /// and faults that read from the store.
    pub lookups: u64,
    /// Those that found what they looked for.
    pub hits: u64,
    /// Those that did not.
    pub misses: u64,
    /// `misses` over `lookups`; 0 where there were none.
    pub miss_rate: f64,
    /// What `miss_rate` is a rate of, as in a result.
    pub miss_kind: String,
    /// Counters of a result that are no times, by its names; and bytes from and to DRAM and store.
    pub counters: BTreeMap<String, u64>,
}

/// What machines of one pass counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Each machine's, in the order given. None where the pass could not begin.
    pub counts: Vec<Counts>,
    /// Why the pass ended before the workload did, if so.
    pub partial_reason: Option<String>,
    /// Whether `partial_reason` is an error.
    pub failed: bool,
    /// Threads that ran.
    pub threads: u32,
    /// Whether the pass ended where the region does, and not with the workload.
    pub region_ended: bool,
}

/// Machines that one pass counts, by their places, each in one group: those with the same processor, operating
/// system, seed and bytes of memory, which the operating system does not page. Of each of the others a pass is made.
pub fn together(systems: &[SystemSpec]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, system) in systems.iter().enumerate() {
        let same = |group: &&mut Vec<usize>| asks_as(system, &systems[group[0]]);
        match groups.iter_mut().find(same) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

/// Whether what leaves the on-chip caches in a functional pass is the same in both.
fn asks_as(system: &SystemSpec, other: &SystemSpec) -> bool {
    let alike = (&system.processor, &system.os, system.seed)
        == (&other.processor, &other.os, other.seed)
        && !system.check_data
        && !other.check_data;
    let bytes = |one: &SystemSpec| {
        let organization = one.build_organization().filter(|it| !it.takes_control())?;
        // What a sync writes back of on-chip caches is the organization's to say.
        one.paging().is_none().then(|| (organization.memory_bytes(), organization.durable()))
    };
    alike && bytes(system).is_some_and(|own| bytes(other) == Some(own))
}

/// Checks that each machine can be counted without times. An error says which cannot, and why, for people.
pub fn check(systems: &[SystemSpec], options: &RunOptions) -> Result<(), String> {
    let by_time = |bound: &Bound| matches!(bound, Bound::TimePs(_));
    if options.start.iter().chain(&options.stops).any(by_time) {
        return Err(
            "counts alone take no time: say what is skipped, and the limit, in accesses or \
                    instructions"
                .into(),
        );
    }
    if options.windows.is_some() {
        return Err(
            "the recording has windows of its program, and what lies between them is in no count; \
                    count a recording of the whole program"
                .into(),
        );
    }
    for system in systems {
        let promotes = system.tiered.as_ref().is_some_and(|tiered| tiered.promotion.is_some());
        let in_time = promotes
            || system.build_organization().is_none_or(|organization| !organization.can_warm());
        let why = match (system.stands_alone(), system.check_data, in_time) {
            (true, _, _) => "is a device alone, which has no caches",
            (_, true, _) => "checks data, which needs every request; leave check_data out",
            (_, _, true) if system.prefetches() => {
                "has a DRAM cache that prefetches, and what comes in time depends on times; set \
                 hybrid.prefetch_pages = 0"
            }
            (_, _, true) => "moves pages between two memories as time goes; ask for times",
            _ if system.processor.as_ref().is_some_and(|it| it.prefetch.is_some()) => {
                "has a prefetcher of lines, and what comes in time depends on times; leave \
                 processor.prefetch out"
            }
            _ => continue,
        };
        return Err(format!("{} cannot be counted without times: it {why}", system.name));
    }
    Ok(())
}

/// Counts what machines of one group ([`together`]) do with a workload, in one pass. `stop` ends it early, marked
/// partial.
pub fn count(
    systems: &[SystemSpec],
    stream: Box<dyn Stream>,
    options: &RunOptions,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Counted {
    let options =
        RunOptions { counts_alone: true, warming: Warming::Functional, ..options.clone() };
    let made = || -> Result<Machine, MachineError> {
        let (first, others) = systems.split_first().ok_or(MachineError::Incomplete)?;
        let mut machine = Machine::new(first, stream, &options)?;
        others.iter().try_for_each(|other| machine.count_beside(other))?;
        Ok(machine)
    };
    match made() {
        Ok(mut machine) => {
            let outcome = follow(&mut machine, 0, observer, stop);
            let Outcome { partial_reason, failed, threads, region_ended, .. } = outcome;
            Counted { counts: machine.counts(), partial_reason, failed, threads, region_ended }
        }
        Err(error) => {
            Counted { partial_reason: Some(error.to_string()), failed: true, ..Counted::default() }
        }
    }
}
