//! Counts without times: one pass for many machines tells of each what a pass of its own would.

use crate::common::random::{doing, script};
use crate::common::{ANONYMOUS, PAGE, Script, call};
use proptest::prelude::*;
use std::slice::from_ref;
use std::sync::atomic::AtomicBool;
use tierscope_system::counts::{Counted, Counts, check, count, together};
use tierscope_system::result::Bytes;
use tierscope_system::run::{Bound, RunOptions, mark, run_machines};
use tierscope_system::spec::{SystemSpec, load};
use tierscope_workload::op::{Call, FLAG_DEPENDENT, MAP_WRITABLE, NO_FILE};
use tierscope_workload::{Op, Stream};

/// So little memory that a few hundred pages are too many.
const TIGHT: [(&str, &str); 5] = [
    ("processor.caches.L3.capacity", "320KiB"),
    ("hybrid.cache.capacity", "2MiB"),
    ("hybrid.prefetch_pages", "0"),
    ("store.read_latency", "1us"),
    ("store.write_latency", "1us"),
];
/// Caches of hybrids: capacity, ways, policy, and what else there is of them.
const CACHES: [&[(&str, &str)]; 8] = [
    &[("capacity", "2MiB"), ("ways", "16")],
    &[("capacity", "1MiB"), ("ways", "16")],
    &[("capacity", "512KiB"), ("ways", "8")],
    &[("capacity", "512KiB"), ("ways", "1"), ("tags", "with-data")],
    &[("capacity", "768KiB"), ("ways", "12"), ("replacement", "fifo")],
    &[("capacity", "256KiB"), ("ways", "4"), ("replacement", "random")],
    &[("capacity", "512KiB"), ("ways", "4"), ("sector", "256B")],
    &[("capacity", "512KiB"), ("ways", "8"), ("page", "8KiB")],
];

fn system(name: &str, sets: &[(&str, &str)]) -> SystemSpec {
    let of_it = |path: &str| match name.split('/').next() {
        Some("hybrid") => true,
        Some("oracle") => !path.starts_with("hybrid") && !path.starts_with("store."),
        _ => !path.starts_with("hybrid"),
    };
    let sets: Vec<_> = sets
        .iter()
        .filter(|(path, _)| of_it(path))
        .map(|(path, value)| (path.to_string(), value.to_string()))
        .collect();
    load(name, &sets).unwrap_or_else(|problems| panic!("{problems}")).spec
}

fn hybrid(cache: &[(&str, &str)]) -> SystemSpec {
    let paths: Vec<String> = cache.iter().map(|(key, _)| format!("hybrid.cache.{key}")).collect();
    let own = paths.iter().zip(cache).map(|(path, (_, value))| (path.as_str(), *value));
    system("hybrid/quick", &TIGHT.into_iter().chain(own).collect::<Vec<_>>())
}

fn counted(systems: &[SystemSpec], stream: Box<dyn Stream>, options: &RunOptions) -> Vec<Counts> {
    let Counted { counts, partial_reason, failed, .. } =
        count(systems, stream, options, &(), &AtomicBool::new(false));
    assert!(!failed, "{partial_reason:?}");
    counts
}

/// The same, whose first thread gives the mark that the region begins at.
fn with_start(mut script: Vec<Vec<Op>>, place: usize) -> Vec<Vec<Op>> {
    let ops = &mut script[0];
    // Behind a call lie its arguments.
    let bounds: Vec<usize> = (0..ops.len())
        .scan(0, |next, index| {
            let is_op = *next == index;
            if is_op {
                let argued = ops[index].kind_code() == tierscope_workload::OpKind::Call as u8;
                *next += 1 + if argued { usize::from(ops[index].size()) } else { 0 };
            }
            Some(is_op.then_some(index))
        })
        .flatten()
        .collect();
    let at = bounds[place % bounds.len()];
    ops.splice(at..at, call(Call::Marker { mark: mark::START }));
    script
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Whatever their caches are, machines that share a pass count what each counts by itself, of all or of a region.
    #[test]
    fn a_shared_pass_counts_what_each_machine_counts_by_itself(
        threads in proptest::collection::vec(proptest::collection::vec(doing(), 1..150), 1..4),
        place in proptest::option::of(0usize..300),
        of_processes in any::<bool>(),
    ) {
        let script = script(&threads, of_processes);
        let (script, options) = match place {
            None => (script, RunOptions::default()),
            Some(place) => {
                let start = Some(Bound::Mark(mark::START));
                (with_start(script, place), RunOptions { start, ..RunOptions::default() })
            }
        };
        let mut systems: Vec<_> = CACHES.iter().map(|cache| hybrid(cache)).collect();
        systems.push(system("oracle/quick", &TIGHT));
        systems.push(system("storage/quick", &[("storage.dram_capacity", "4MiB"), TIGHT[0]]));
        let last = systems.len() - 1;
        prop_assert_eq!(check(&systems, &options), Ok(()));
        let groups = together(&systems);
        // What pages by itself shares with nobody.
        let mut expected: Vec<Vec<usize>> = vec![(0..CACHES.len()).collect()];
        // Nor do those of which a sync writes other lines back share a pass.
        let asked = |at: usize| {
            let organization = systems[at].build_organization().unwrap();
            (organization.memory_bytes(), organization.durable())
        };
        if asked(0) == asked(last - 1) {
            expected[0].push(last - 1);
        } else {
            expected.push(vec![last - 1]);
        }
        expected.push(vec![last]);
        prop_assert_eq!(&groups, &expected);
        for group in groups {
            let own: Vec<_> = group.iter().map(|index| systems[*index].clone()).collect();
            let shared = counted(&own, Script::stream(&script), &options);
            for (system, shared) in own.iter().zip(shared) {
                let alone = counted(from_ref(system), Script::stream(&script), &options);
                prop_assert_eq!(from_ref(&shared), &alone[..], "{}", &system.name);
                let skipped = shared.skipped.map_or(0, |skipped| skipped.accesses);
                let all = counted(from_ref(system), Script::stream(&script), &RunOptions::default());
                prop_assert_eq!(shared.accesses + skipped, all[0].accesses);
                prop_assert_eq!(shared.hits + shared.misses, shared.lookups);
            }
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, ..ProptestConfig::default() })]

    /// A thread whose accesses wait for each other, each for long enough, leaves nothing to time: a run in detail
    /// looks up, fetches and writes back as often.
    #[test]
    fn without_overlap_counts_are_those_of_a_run_in_detail(
        accesses in proptest::collection::vec((0u64..400, 0u64..64, any::<bool>()), 1..400),
    ) {
        let map = Call::Map {
            address: ANONYMOUS, length: 400 * PAGE, flags: MAP_WRITABLE, file: NO_FILE, offset: 0,
        };
        let access = |(page, line, write): (u64, u64, bool)| {
            let address = ANONYMOUS + page * PAGE + line * 64;
            let op = if write { Op::store(address, 8, 1 << 17) } else { Op::load(address, 8, 1 << 17) };
            op.with_flags(FLAG_DEPENDENT)
        };
        // The kernel clears pages before the region, line upon line.
        let first = (0..400).map(|page| access((page, 0, true)));
        let mark = call(Call::Marker { mark: mark::START });
        // At last nothing is under way: the second of these hits.
        let end = [(0, 0, false); 2];
        let accesses = accesses.into_iter().chain(end).map(access);
        let ops: Vec<Op> = call(map).into_iter().chain(first).chain(mark).chain(accesses).collect();
        let options =
            RunOptions { start: Some(Bound::Mark(mark::START)), ..RunOptions::default() };
        // One of a random policy takes its draws in the order of what happens.
        for cache in CACHES.iter().filter(|cache| !cache.contains(&("replacement", "random"))) {
            let mut system = hybrid(cache);
            // What the call that begins the region touches overlaps.
            if let Some(os) = &mut system.os {
                os.paths.system_call.lines = 0;
            }
            let stream = || Script::stream(from_ref(&ops));
            let counts = counted(from_ref(&system), stream(), &options).remove(0);
            let stop = AtomicBool::new(false);
            let ended =
                run_machines(from_ref(&system), vec![stream()], &options, &(), &stop);
            let detailed = &ended[0].result;
            for (name, count) in &counts.counters {
                match detailed.counters.get(name) {
                    Some(in_detail) => prop_assert_eq!(count, in_detail, "{} of {:?}", name, cache),
                    None => prop_assert!(name.ends_with("_bytes"), "{}", name),
                }
            }
            prop_assert_eq!(counts.accesses, detailed.accesses);
            // A page that is still to be written back may be had again without the store.
            let Bytes { read, written } = detailed.store_bytes;
            prop_assert!(read <= counts.counters["store_read_bytes"], "{:?}", cache);
            prop_assert!(written <= counts.counters["store_written_bytes"], "{:?}", cache);
        }
    }
}

/// Under LRU, a cache of as many sets and more ways holds what the smaller one holds (Mattson et al. 1970).
#[test]
fn more_ways_of_as_many_sets_never_miss_more_under_lru() {
    let systems: Vec<_> = [("64KiB", "1"), ("128KiB", "2"), ("256KiB", "4"), ("1MiB", "16")]
        .map(|(capacity, ways)| hybrid(&[("capacity", capacity), ("ways", ways)]))
        .into();
    let generator = tierscope_workload::generator::find("gups").unwrap();
    let parameters = [("updates".to_string(), serde_json::Value::from(3000))];
    let stream = generator.make(&parameters, 1).unwrap().0;
    let counts = counted(&systems, stream, &RunOptions::default());
    let misses: Vec<u64> = counts.iter().map(|counts| counts.misses).collect();
    assert!(
        misses.is_sorted_by(|more, fewer| more >= fewer) && misses[0] > misses[3],
        "{misses:?}"
    );
    assert!(counts.iter().all(|one| one.lookups == counts[0].lookups));
}

#[test]
fn what_cannot_be_counted_without_times_is_told_with_its_mend() {
    let told = |system: SystemSpec, options: &RunOptions| check(&[system], options).unwrap_err();
    let whole = RunOptions::default();
    for (system, why) in [
        (system("hybrid/quick", &[]), "hybrid.prefetch_pages = 0"),
        (system("hybrid/quick", &[TIGHT[2], ("check_data", "true")]), "leave check_data out"),
        (system("device/ddr4-2400", &[]), "has no caches"),
    ] {
        let told = told(system, &whole);
        assert!(told.contains("cannot be counted without times") && told.contains(why), "{told}");
    }
    let timed = RunOptions { start: Some(Bound::TimePs(5)), ..RunOptions::default() };
    assert!(told(hybrid(CACHES[0]), &timed).contains("in accesses or instructions"));
}
