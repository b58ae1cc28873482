//! Closed formulas of whole machines, to the picosecond where nothing overlaps.
//!
//! A workload is run with and without its last part; what that part adds is compared with what the
//! description says.

use super::support::*;
use tierscope_system::spec::SystemSpec;
use tierscope_workload::Op;
use tierscope_workload::op::{Advice, Call, MAP_SHARED, MAP_WRITABLE};

const NS: u64 = 1000;
/// Time of a cycle and of an instruction: 2 GHz, and half a cycle each.
const CYCLE_PS: u64 = 500;
const INSTRUCTION_PS: u64 = 250;
/// Latencies of the presets' on-chip caches.
const L1_PS: u64 = 4 * CYCLE_PS;
/// Until the second level of the TLB has answered, and a walk behind it whose entry the first-level cache has.
const SECOND_PS: u64 = 7 * CYCLE_PS;
const WALK_PS: u64 = SECOND_PS + L1_PS;
const L2_PS: u64 = 12 * CYCLE_PS;
const L3_PS: u64 = 40 * CYCLE_PS;
/// Of DRAM with a clock of 1 ns: the controller, then activates, columns and data in clocks.
const DRAM_CONTROLLER_PS: u64 = 10 * NS;
const ROW_HIT_PS: u64 = DRAM_CONTROLLER_PS + (10 + 4) * NS;
const ROW_CONFLICT_PS: u64 = ROW_HIT_PS + (10 + 10) * NS;
/// Long enough apart that no access waits for the one before: 50 us.
const FAR_APART: u32 = 200_000;

/// What `ops` add after `before`.
fn adds(spec: &SystemSpec, before: &[Op], ops: &[Op]) -> More {
    let all = [before, ops].concat();
    run(spec, &[all]).minus(&run(spec, &[before.to_vec()]))
}

fn oracle(sets: &[Sets<'_>]) -> SystemSpec {
    let all = [&[WHOLE_NANOSECONDS, FREE_KERNEL, SMALL_L3, LARGE_TLB], sets].concat();
    system("oracle/quick", &all)
}

/// What one more pass over `addresses` adds, once all pages up to the last of them have been touched
/// in order, so that they lie in memory as they do here, and two passes have been made.
fn pass(spec: &SystemSpec, addresses: &[u64], instructions: u32) -> More {
    let ops = chase(addresses, instructions);
    adds(spec, &[in_order(addresses), repeat(&ops, 2)].concat(), &ops)
}

/// Touches all pages up to the last of these addresses, in order.
fn in_order(addresses: &[u64]) -> Vec<Op> {
    let last = addresses.iter().max().map_or(ANONYMOUS, |last| *last);
    chase(&every(PAGE, (last - ANONYMOUS) / PAGE + 1), 4)
}

#[test]
fn a_load_takes_the_latency_of_the_level_that_its_footprint_fits_in() {
    let spec = oracle(&[]);
    for (kib, latency_ps) in [(64, L1_PS), (192, L2_PS), (768, L3_PS)] {
        let addresses = every(LINE, kib * 1024 / LINE);
        let more = pass(&spec, &addresses, 200);
        assert_eq!(more.latency_ps, more.accesses * latency_ps, "{kib} KiB: {more:?}");
        assert_eq!(more.stages_ps.keys().collect::<Vec<_>>(), ["cache"], "{kib} KiB");
    }
}

#[test]
fn a_pointer_chase_takes_a_latency_for_each_step() {
    let spec = oracle(&[]);
    for (kib, step_ps) in [(64, L1_PS), (192, L2_PS), (768, L3_PS)] {
        let more = pass(&spec, &every(LINE, kib * 1024 / LINE), 4);
        assert_eq!(more.time_ps, more.accesses * step_ps, "{kib} KiB");
    }
    // What an instruction takes is longer than the first level.
    let more = pass(&spec, &every(LINE, 1024), 20);
    assert_eq!(more.time_ps, more.accesses * 20 * INSTRUCTION_PS);
    // Another row of the same bank each time: banks repeat every 32 KiB.
    let conflicts = pass(&spec, &every(32 << 10, 256), 4);
    assert_eq!(conflicts.time_ps, conflicts.accesses * (L3_PS + ROW_CONFLICT_PS));
    // A page is a row in each of four channels: four conflicts, then sixty hits.
    let pages = 2048;
    let lines = pass(&spec, &every(LINE, pages * PAGE / LINE), 4);
    let page_ps = 64 * L3_PS + 4 * ROW_CONFLICT_PS + 60 * ROW_HIT_PS;
    assert_eq!(lines.time_ps, pages * page_ps);
}

/// By turns, each step on the last of its own chase.
#[test]
fn chases_that_do_not_depend_on_each_other_overlap() {
    for (kib, latency_ps) in [(64, L1_PS), (192, L2_PS), (768, L3_PS)] {
        let lines = every(LINE, kib * 1024 / LINE);
        for chases in [1, 2, 4, 8] {
            let step = |at: &u64| Op::load(*at, 8, 1).depending_on(chases);
            let ops: Vec<Op> = lines.iter().map(step).collect();
            let sets = [("processor.miss_registers", "16")];
            let more = adds(&oracle(&[&sets]), &repeat(&ops, 2), &ops);
            let step_ps = (latency_ps / chases).max(INSTRUCTION_PS);
            assert_eq!(more.time_ps, more.accesses * step_ps, "{chases} in {kib} KiB");
            assert_eq!(more.latency_ps, more.accesses * latency_ps, "{chases} in {kib} KiB");
        }
    }
}

/// A step waits for its registers or its window after it has asked the TLB, and takes what that took all the same.
#[test]
fn each_step_of_a_chase_through_many_pages_takes_the_second_tlb_and_the_cache() {
    let pages = 48;
    let lines: Vec<u64> =
        (0..64 * pages).map(|i| ANONYMOUS + i % pages * PAGE + i / pages * LINE).collect();
    let ops = chase(&lines, 1);
    for registers in ["2", "16"] {
        let sets = [("processor.tlb.entries", "16"), ("processor.tlb.ways", "16")];
        let registers = [("processor.miss_registers", registers)];
        let more = adds(&oracle(&[&sets, &registers]), &repeat(&ops, 2), &ops);
        assert_eq!(more.time_ps, more.accesses * (SECOND_PS + L2_PS));
    }
}

#[test]
fn a_chase_whose_pointers_cross_lines_waits_for_both_halves() {
    let spec = oracle(&[]);
    let nodes = every(2 * LINE, 6_144);
    for (at, bytes) in [(0, 8), (LINE - 4, 8)] {
        let step = |node: &u64| Op::load(node + at, bytes, 1).depending_on(1);
        let ops: Vec<Op> = nodes.iter().map(step).collect();
        let more = adds(&spec, &repeat(&ops, 2), &ops);
        assert_eq!(more.time_ps, ops.len() as u64 * L3_PS, "{at}");
    }
}

/// Of a node the pointer to the next and a value are loaded; and of what the pointer says first, a hit, comes where that lies.
#[test]
fn fields_of_a_node_come_together_and_hits_between_nodes_take_their_time() {
    let lines = every(LINE, 12_288);
    let hot = ANONYMOUS + (64 << 20);
    let spec = oracle(&[]);
    let fields =
        |at: &u64| [(at + 8, 1), (*at, 2)].map(|(at, back)| Op::load(at, 8, 1).depending_on(back));
    let through_a_hit = |at: &u64| [*at, hot].map(|at| Op::load(at, 8, 1).depending_on(1));
    for (ops, step_ps) in [
        (lines.iter().flat_map(fields).collect::<Vec<Op>>(), L3_PS),
        (lines.iter().flat_map(through_a_hit).collect(), L3_PS + L1_PS),
    ] {
        let more = adds(&spec, &repeat(&ops, 2), &ops);
        assert_eq!(more.time_ps, more.accesses / 2 * step_ps);
    }
}

/// A load for each key, and one that waits for it: what the window holds of the next keys' goes on meanwhile.
#[test]
fn a_load_that_waits_keeps_back_what_follows_only_as_far_as_the_window_reaches() {
    let lines = every(LINE, 12_288);
    let pair = |two: &[u64]| [Op::load(two[0], 8, 2), Op::load(two[1], 8, 2).depending_on(1)];
    let ops: Vec<Op> = lines.chunks_exact(2).flat_map(pair).collect();
    for keys in [1, 2, 4] {
        // So many pairs of four instructions.
        let window = (keys * 4).to_string();
        let sets = [("processor.reorder_window", &*window), FAR.1];
        let more = adds(&oracle(&[&sets]), &repeat(&ops, 2), &ops);
        // The first load of a pair waits for that of so many pairs before at least, and no pair for the end of as many.
        let pairs_ps = more.accesses / 2 * L3_PS / keys;
        let off = more.time_ps as f64 / pairs_ps as f64;
        assert!((0.98..2.0).contains(&off), "{keys}: {off}");
    }
}

#[test]
fn independent_misses_overlap_up_to_the_miss_registers() {
    let lines = every(LINE, 12_288);
    for registers in [1, 2, 8, 16] {
        let count = registers.to_string();
        let sets = [("processor.miss_registers", &*count), FAR.0, FAR.1];
        let spec = oracle(&[&sets]);
        let ops = stream(&lines, 1);
        let more = adds(&spec, &repeat(&ops, 2), &ops);
        assert_eq!(more.time_ps, more.accesses * L3_PS / registers, "{registers} registers");
    }
}

#[test]
fn independent_misses_of_memory_overlap_up_to_the_miss_registers_where_each_goes_to_another_bank() {
    // Four channels by turns, of which each has eight banks by turns, each time with another row.
    let line = |i: u64| ANONYMOUS + i / 32 * (32 << 10) + i / 4 % 8 * PAGE + i % 4 * LINE;
    let lines: Vec<u64> = (0..1 << 13).map(line).collect();
    for registers in [1, 2, 4, 8] {
        let count = registers.to_string();
        let sets = [
            ("processor.miss_registers", &*count),
            ("processor.tlb.entries", "65536"),
            FAR.0,
            FAR.1,
        ];
        let ops = stream(&lines, 1);
        let more = adds(&oracle(&[&sets]), &repeat(&ops, 2), &ops);
        let step_ps = (L3_PS + ROW_CONFLICT_PS) as f64 / registers as f64;
        let times = more.time_ps as f64 / more.accesses as f64 / step_ps;
        assert!((0.99..1.02).contains(&times), "{registers} registers: {times:.4}");
    }
}

#[test]
fn independent_misses_overlap_up_to_the_queue_for_loads_or_for_stores() {
    let lines = every(LINE, 12_288);
    for (queue, other) in [("load_queue", "store_queue"), ("store_queue", "load_queue")] {
        for entries in [1, 2, 8, 16] {
            let (own, others) = (format!("processor.{queue}"), format!("processor.{other}"));
            let count = entries.to_string();
            let sets =
                [(&*own, &*count), (&*others, "1"), ("processor.miss_registers", "64"), FAR.0];
            let spec = oracle(&[&sets]);
            let stores = queue == "store_queue";
            let op =
                |line: &u64| if stores { Op::store(*line, 8, 1) } else { Op::load(*line, 8, 1) };
            let ops: Vec<Op> = lines.iter().map(op).collect();
            let more = adds(&spec, &repeat(&ops, 2), &ops);
            assert_eq!(more.time_ps, more.accesses * L3_PS / entries, "{entries} of {queue}");
        }
    }
}

#[test]
fn what_one_instruction_stores_has_one_place_in_the_queue_whatever_it_is_stored_by() {
    let lines = every(LINE, 12_288);
    let step_ps = |bytes: u64| {
        let spec =
            oracle(&[&[("processor.store_queue", "4"), ("processor.miss_registers", "8"), FAR.0]]);
        // A string instruction each line.
        let ops: Vec<Op> = lines
            .iter()
            .flat_map(|line| {
                (0..LINE / bytes)
                    .map(move |i| Op::store(line + i * bytes, bytes as u16, u32::from(i == 0) as _))
            })
            .collect();
        let more = adds(&spec, &repeat(&ops, 2), &ops);
        more.time_ps / lines.len() as u64
    };
    assert_eq!(step_ps(LINE / 8), L3_PS / 4);
    assert_eq!(step_ps(1), L3_PS / 4);
}

#[test]
fn a_store_that_hits_waits_in_its_queue_behind_older_loads_and_loads_that_hit_wait_in_theirs() {
    let lines = every(LINE, 12_288);
    let near = ANONYMOUS + 12_288 * LINE;
    for (stores, name, latencies) in
        [(true, "processor.store_queue", 0.5), (false, "processor.load_queue", 1.0)]
    {
        let spec = oracle(&[&[(name, "4"), ("processor.miss_registers", "64"), FAR.0]]);
        // Behind each load from the third level come as many hits of the first as fill the queue. So the next load waits,
        // which has its place among loads; or the next store, and before it a second load has been sent out.
        let behind = if stores { 4 } else { 3 };
        let hit = if stores { Op::store(near, 8, 1) } else { Op::load(near, 8, 1) };
        let ops: Vec<Op> = lines
            .iter()
            .flat_map(|line| {
                std::iter::once(Op::load(*line, 8, 1)).chain([hit; 4].into_iter().take(behind))
            })
            .collect();
        let more = adds(&spec, &repeat(&ops, 2), &ops);
        let times = more.time_ps as f64 / (lines.len() as u64 * L3_PS) as f64;
        assert!((latencies..1.1 * latencies).contains(&times), "{name}: {times}");
    }
}

#[test]
fn a_stream_is_bounded_by_the_bandwidth_of_dram_and_comes_near_it() {
    let wide = [("processor.miss_registers", "256"), FAR.0, FAR.1];
    for channels in ["1", "2", "4"] {
        let spec = oracle(&[&wide, &[("dram.channels", channels)]]);
        let ops = stream(&every(LINE, 1 << 17), 1);
        let more = adds(&spec, &repeat(&ops, 2), &ops);
        let bytes_per_s = (more.accesses * LINE) as f64 / (more.time_ps as f64 * 1e-12);
        let share = bytes_per_s / spec.peak_bytes_per_s().unwrap();
        assert!((0.97..=1.0).contains(&share), "{channels} channels: {share:.3} of the peak");
    }
}

#[test]
fn a_tlb_reaches_as_far_as_its_entries_and_then_costs_its_second_level_then_a_walk() {
    let spec = system("oracle/quick", &[WHOLE_NANOSECONDS, FREE_KERNEL, SMALL_L3]);
    // The last level of the page table is in the first-level cache, as the data are.
    for (pages, translation_ps) in [(64, 0), (128, SECOND_PS), (512, SECOND_PS), (1024, WALK_PS)] {
        // One line of each page, spread over the sets of the cache.
        let line = |page: u64| ANONYMOUS + page * PAGE + page / 4 % 64 * LINE;
        let addresses: Vec<u64> = (0..pages).map(line).collect();
        let more = pass(&spec, &addresses, 400);
        assert_eq!(more.latency_ps, more.accesses * (L1_PS + translation_ps), "{pages} pages");
        let tlb_ps = more.stages_ps.get("tlb").copied().unwrap_or(0);
        assert_eq!(tlb_ps, more.accesses * translation_ps, "{pages} pages");
    }
}

#[test]
fn a_larger_reach_of_either_level_never_makes_a_chase_slower() {
    let addresses: Vec<u64> = (0..700).map(|page| ANONYMOUS + page * (PAGE + LINE)).collect();
    let takes_ps = |entries: &str, second: &str| {
        let own =
            [("processor.tlb.entries", entries), ("processor.tlb.second_level_entries", second)];
        pass(
            &system("oracle/quick", &[WHOLE_NANOSECONDS, FREE_KERNEL, SMALL_L3, &own]),
            &addresses,
            400,
        )
        .latency_ps
    };
    for entries in ["16", "64", "256", "1024"] {
        let with = ["64", "512", "1024"].map(|second| takes_ps(entries, second));
        assert!(with.is_sorted_by(|few, more| few >= more), "{entries} entries: {with:?}");
        // None is quicker than one that never hits.
        let without = takes_ps(entries, "0");
        assert!(without <= with[0], "{entries} entries: {without} without, {with:?}");
    }
}

#[test]
fn a_walk_reads_every_level_unless_the_upper_ones_are_cached() {
    let few = [("processor.tlb.entries", "4"), ("processor.tlb.second_level_entries", "0")];
    for (cached, levels_read) in [("64", 1), ("32", 4)] {
        let cache = [("processor.tlb.walk_cache_entries", cached)];
        let spec = system("oracle/quick", &[WHOLE_NANOSECONDS, FREE_KERNEL, &few, &cache]);
        // One page in each of 48 regions of 2 MiB, which each have a last-level table.
        let line = |i: u64| ANONYMOUS + i * (2 << 20) + i * (PAGE + LINE);
        let ops = chase(&(0..48).map(line).collect::<Vec<u64>>(), 400);
        let more = adds(&spec, &repeat(&ops, 2), &ops);
        assert_eq!(more.latency_ps, more.accesses * (levels_read + 1) * L1_PS, "{cached} entries");
    }
}

/// What a walk in the first-level cache adds to a load of each of so many pages, which is all the time in the TLB.
fn translation_ps(page: u64, text: &str, pages: u64, sets: Sets<'_>) -> u64 {
    let own = [
        ("os.page", text),
        ("oracle.capacity", "64GiB"),
        ("processor.tlb.entries", "16"),
        ("processor.tlb.ways", "4"),
        ("processor.tlb.second_level_entries", "32"),
        ("processor.tlb.large", LARGE),
    ];
    let spec = system("oracle/quick", &[WHOLE_NANOSECONDS, FREE_KERNEL, &own, sets]);
    let line = |number: u64| (1 << 44) + number * page + number % 64 * LINE;
    let ops = chase(&(0..pages).map(line).collect::<Vec<u64>>(), 400);
    let more = adds(&spec, &repeat(&ops, 2), &ops);
    let tlb_ps = more.stages_ps.get("tlb").copied().unwrap_or(0);
    assert_eq!(more.latency_ps, more.accesses * L1_PS + tlb_ps, "{pages} pages of {text}");
    tlb_ps / more.accesses
}

const LARGE: &str =
    "[{ page = '2MiB', entries = 4, ways = 4, second_level_entries = 8, second_level_ways = 4 }]";

#[test]
fn a_tlb_reaches_as_far_as_its_entries_for_pages_of_their_size() {
    for (text, page, first, second) in [("4KiB", 4 << 10, 16, 32), ("2MiB", 2 << 20, 4, 8)] {
        let takes = |pages| translation_ps(page, text, pages, &[]);
        assert_eq!(takes(first), 0, "{text}: the reach of the first level");
        assert_eq!(takes(second), SECOND_PS, "{text}: the reach of the second");
        // In turn, each has just been driven out; of the upper levels the cache knows.
        assert_eq!(takes(2 * second), WALK_PS, "{text}: a walk, once the second has not had it");
    }
}

#[test]
fn a_walk_is_a_level_shorter_for_pages_of_a_larger_size() {
    let none = [("processor.tlb.walk_cache_entries", "0")];
    for (text, page, pages, levels) in [("4KiB", 4 << 10, 64, 4), ("2MiB", 2 << 20, 12, 3)] {
        assert_eq!(translation_ps(page, text, pages, &none), SECOND_PS + levels * L1_PS, "{text}");
    }
    let five = [none[0], ("processor.tlb.levels", "5")];
    assert_eq!(translation_ps(2 << 20, "2MiB", 12, &five), SECOND_PS + 4 * L1_PS);
}

/// The same of huge pages that are made of pages of 4 KiB.
fn huge_translation_ps(pages: u64, sets: Sets<'_>) -> u64 {
    let huge: Vec<_> =
        [("os.transparent_huge_pages", "always")].into_iter().chain(sets.iter().copied()).collect();
    translation_ps(2 << 20, "4KiB", pages, &huge)
}

#[test]
fn huge_pages_have_entries_of_their_own_beside_those_of_pages_or_share_the_second_level() {
    assert_eq!([4, 8, 16].map(|pages| huge_translation_ps(pages, &[])), [0, SECOND_PS, WALK_PS]);
    let shared = LARGE.replace("ways = 4 }]", "ways = 4, shares_second_level = true }]");
    let shared = [("processor.tlb.large", &*shared)];
    // 32 entries, in sets by the number of the huge page.
    assert_eq!(
        [4, 32, 64].map(|pages| huge_translation_ps(pages, &shared)),
        [0, SECOND_PS, WALK_PS]
    );
    let none = [("processor.tlb.walk_cache_entries", "0")];
    assert_eq!(huge_translation_ps(12, &none), SECOND_PS + 3 * L1_PS, "a level less than of pages");
}

#[test]
fn a_load_enters_the_window_one_instruction_before_its_edge_and_not_at_it() {
    let spec = oracle(&[&[("processor.reorder_window", "32")]]);
    let lines = every(LINE, 12_288);
    let warm = repeat(&chase(&lines, 200), 2);
    // Two hits in the third level, `distance` instructions from each other.
    let pair_ps = |distance| {
        let pair = [Op::load(lines[0], 8, 200), Op::load(lines[1], 8, distance)];
        adds(&spec, &warm, &pair).latency_ps
    };
    assert_eq!(pair_ps(31), 2 * L3_PS);
    assert_eq!(pair_ps(32), 2 * L3_PS + (L3_PS - 32 * INSTRUCTION_PS));
}

/// All that may be in flight beside miss registers.
const FAR: ((&str, &str), (&str, &str)) =
    (("processor.reorder_window", "100000"), ("processor.load_queue", "100000"));

const TEST_STORE: Sets<'static> = &[
    ("store.capacity", "256MiB"),
    ("store.read_latency", "25us"),
    ("store.write_latency", "250us"),
    ("store.unit_bandwidth", "400MB/s"),
    ("store.controller_latency", "105ns"),
];
const MEDIUM_PS: u64 = 25_000 * NS;
const STORE_CONTROLLER_PS: u64 = 105 * NS;
/// 4 KiB at 400 MB/s.
const BUS_PS: u64 = 10_240 * NS;
/// A command of 16 B, and a page with its packet's 16 B, at 62.5 ps a byte and 10 ns away.
const COMMAND_PS: u64 = NS + 10 * NS;
const PAGE_ON_LINK_PS: u64 = 257 * NS + 10 * NS;

fn hybrid(sets: &[Sets<'_>]) -> SystemSpec {
    let cache = [
        ("hybrid.cache.capacity", "4MiB"),
        ("hybrid.prefetch_pages", "0"),
        ("hybrid.controller_latency", "5ns"),
        ("hybrid.cache.tag_latency", "3ns"),
    ];
    let all = [
        &[WHOLE_NANOSECONDS, FREE_KERNEL, SMALL_L3, LARGE_TLB, WHOLE_LINK, TEST_STORE, &cache],
        sets,
    ];
    system("hybrid/quick", &all.concat())
}

const HYBRID_CONTROLLER_PS: u64 = (5 + 3) * NS;

/// The first line of each page of four times the DRAM cache, in order: each misses each time, in
/// every cache, since the least recently used is always the one that comes next.
fn all_missing() -> Vec<u64> {
    every(PAGE, 4096)
}

#[test]
fn an_unloaded_hybrid_miss_is_the_sum_of_its_parts() {
    let spec = hybrid(&[]);
    let more = pass(&spec, &all_missing(), FAR_APART);
    let store_ps = COMMAND_PS + STORE_CONTROLLER_PS + MEDIUM_PS + BUS_PS + PAGE_ON_LINK_PS;
    let miss_ps = L3_PS + HYBRID_CONTROLLER_PS + store_ps;
    assert_eq!(more.latency_ps, more.accesses * miss_ps);
    for (stage, each_ps) in [
        ("cache", L3_PS),
        ("controller", HYBRID_CONTROLLER_PS),
        ("link", COMMAND_PS + PAGE_ON_LINK_PS),
        ("device", STORE_CONTROLLER_PS + BUS_PS),
        ("medium", MEDIUM_PS),
    ] {
        assert_eq!(more.stages_ps[stage], more.accesses * each_ps, "{stage}");
    }
}

#[test]
fn the_critical_line_first_saves_the_rest_of_its_page_on_bus_and_link() {
    let spec = hybrid(&[&[("hybrid.critical_line_first", "true")]]);
    let more = pass(&spec, &all_missing(), FAR_APART);
    // 64 B at 400 MB/s; 80 B at 62.5 ps each.
    let (bus_ps, link_ps) = (160 * NS, 5 * NS + 10 * NS);
    let store_ps = COMMAND_PS + STORE_CONTROLLER_PS + MEDIUM_PS + bus_ps + link_ps;
    assert_eq!(more.latency_ps, more.accesses * (L3_PS + HYBRID_CONTROLLER_PS + store_ps));
}

#[test]
fn an_unloaded_hit_of_the_dram_cache_is_a_look_up_and_a_row() {
    // Direct-mapped, a frame lies where its page lies: another row of the same bank each time.
    let direct = [("hybrid.cache.capacity", "8MiB"), ("hybrid.cache.ways", "1")];
    let spec = hybrid(&[&direct]);
    let addresses = every(32 << 10, 128);
    let more = pass(&spec, &addresses, 4);
    let hit_ps = L3_PS + HYBRID_CONTROLLER_PS + ROW_CONFLICT_PS;
    assert_eq!(more.time_ps, more.accesses * hit_ps);
    let spec = hybrid(&[&direct, &[("hybrid.cache.tags", "with-data")]]);
    let more = pass(&spec, &addresses, 4);
    assert_eq!(more.time_ps, more.accesses * (hit_ps - 3 * NS), "no time for tags in SRAM");
}

#[test]
fn a_stream_of_misses_runs_at_the_rate_of_the_stores_units() {
    let wide = [("processor.miss_registers", "64"), FAR.0, FAR.1, ("store.units", "8")];
    let spec = hybrid(&[&wide]);
    let ops = stream(&all_missing(), 40);
    let more = adds(&spec, &repeat(&ops, 2), &ops);
    // Eight units read a page each in the time of the medium; the bus works meanwhile.
    let floor_ps = more.accesses * MEDIUM_PS / 8;
    let share = floor_ps as f64 / more.time_ps as f64;
    assert!((0.99..=1.0).contains(&share), "{share:.4} of the units' rate");
}

/// A file of 4096 pages, mapped shared, without readahead.
fn map_file(pages: u64) -> Vec<Op> {
    let length = pages * PAGE;
    let flags = MAP_SHARED | MAP_WRITABLE;
    [
        call(Call::Open { file: 0, size: length }),
        call(Call::Map { address: MAPPED, length, flags, file: 0, offset: 0 }),
        call(Call::Advise { address: MAPPED, length, advice: Advice::Random as u64 }),
    ]
    .concat()
}

fn file_page(page: u64) -> u64 {
    MAPPED + page * PAGE + 2 * LINE
}

fn storage(sets: &[Sets<'_>]) -> SystemSpec {
    let memory = [("storage.dram_capacity", "16MiB")];
    let all = [
        &[WHOLE_NANOSECONDS, FREE_KERNEL, SMALL_L3, LARGE_TLB, WHOLE_LINK, TEST_STORE, &memory],
        sets,
    ];
    system("storage/quick", &all.concat())
}

#[test]
fn an_unloaded_major_fault_is_the_sum_of_its_stages() {
    // Instructions of each path, at 1.25 cycles each.
    let paths = [
        ("os.kernel_cpi", "1.25"),
        ("os.paths.fault", "{ instructions = 800, lines = 0 }"),
        ("os.paths.page_cache", "{ instructions = 1600, lines = 0 }"),
        ("os.paths.file_system", "{ instructions = 13600, lines = 0 }"),
        ("os.paths.block_layer", "{ instructions = 9600, lines = 0 }"),
        ("os.paths.driver", "{ instructions = 8800, lines = 0 }"),
        ("os.paths.interrupt", "{ instructions = 2400, lines = 0 }"),
        ("os.paths.wake_up", "{ instructions = 3200, lines = 0 }"),
        ("os.paths.context_switch", "{ instructions = 7200, lines = 0 }"),
    ];
    let path_ps = |instructions: u64| instructions * CYCLE_PS * 5 / 4;
    let spec = storage(&[&paths]);
    let touch = |pages: std::ops::Range<u64>| -> Vec<Op> {
        pages.map(|page| Op::load(file_page(page), 8, FAR_APART)).collect()
    };
    // The last access before it is a hit, so that nothing reaches into the fault.
    let before = [map_file(64), touch(0..33), touch(32..33)].concat();
    let more = adds(&spec, &before, &touch(33..34));
    // Each entry to the kernel's own decisions takes as long as an access takes to leave the core.
    let entry_ps = L2_PS;
    let expected = [
        // The exception, the decision, and the decision after waking up.
        ("fault", 3 * entry_ps + path_ps(800)),
        // Insertion for the transfer; look-up when the page is there.
        ("page_cache", 2 * path_ps(1600)),
        ("file_system", path_ps(13_600)),
        ("block_layer", path_ps(9600)),
        ("driver", path_ps(8800)),
        // The hand-over to the device, and going to sleep, which hides as much of the link.
        ("system_call", 2 * entry_ps),
        ("link", COMMAND_PS + PAGE_ON_LINK_PS - entry_ps),
        ("device", STORE_CONTROLLER_PS + BUS_PS),
        ("medium", MEDIUM_PS),
        // A page is 16 lines of a row in each channel, where another row was open.
        ("dma", DRAM_CONTROLLER_PS + (10 + 10 + 7 + 16 * 4) * NS),
        ("interrupt", path_ps(2400)),
        ("wake_up", path_ps(3200)),
        ("context_switch", path_ps(7200)),
        // The access again: the table's entry is in the first level, the page in an open row. It comes to the channel
        // between two edges of its clock.
        ("tlb", WALK_PS),
        ("cache", L3_PS),
        ("controller", DRAM_CONTROLLER_PS),
        ("dram_queue", NS - WALK_PS % NS),
        ("dram", ROW_HIT_PS - DRAM_CONTROLLER_PS),
    ];
    let expected: std::collections::BTreeMap<String, u64> =
        expected.iter().map(|(stage, time_ps)| (stage.to_string(), *time_ps)).collect();
    assert_eq!(more.stages_ps, expected);
    assert_eq!(more.latency_ps, expected.values().sum::<u64>());
    assert_eq!(more.time_ps, more.latency_ps + u64::from(FAR_APART) * INSTRUCTION_PS);
}

/// Thread 0 loads one page of a file, which is not in DRAM; thread 1 computes.
fn wait_and_compute(instructions: u32) -> [Vec<Op>; 2] {
    let load = vec![Op::load(file_page(40), 8, 4)];
    let main = [map_file(64), call(Call::Spawn { thread: 1 }), load].concat();
    [main, vec![Op::compute(instructions)]]
}

#[test]
fn storage_runs_another_thread_while_one_waits_and_a_hybrid_does_not() {
    let one_core: Sets<'_> = &[("processor.cores", "1")];
    let (short, long) = (wait_and_compute(400), wait_and_compute(80_000));
    let longer_ps = (80_000 - 400) * INSTRUCTION_PS;
    let spec = storage(&[one_core]);
    assert!(longer_ps < MEDIUM_PS);
    assert_eq!(run(&spec, &long).time_ps, run(&spec, &short).time_ps, "hidden by the wait");
    // On a hybrid a file lies in memory, and a core waits for its misses: touch anonymous memory
    // that has left DRAM.
    let spec = hybrid(&[one_core]);
    let missing = |compute: u32| {
        let warm = repeat(&chase(&all_missing(), 4), 2);
        let load = vec![Op::load(all_missing()[0], 8, 4)];
        [[warm, call(Call::Spawn { thread: 1 }), load].concat(), vec![Op::compute(compute)]]
    };
    let (short, long) = (run(&spec, &missing(400)), run(&spec, &missing(80_000)));
    assert_eq!(long.time_ps - short.time_ps, longer_ps, "nothing is hidden");
}

#[test]
fn littles_law_holds_for_accesses_under_way() {
    // A closed system of 8 registers: a register's worth of time passes between accesses, and one
    // more access than registers is under way, since the next is offered and waits for its turn.
    let registers = 8;
    let count = registers.to_string();
    let sets = [("processor.miss_registers", &*count), FAR.0, FAR.1];
    let spec = oracle(&[&sets]);
    let ops = stream(&every(LINE, 12_288), 1);
    let more = adds(&spec, &repeat(&ops, 2), &ops);
    let interval_ps = L3_PS / registers;
    assert_eq!(more.time_ps, more.accesses * interval_ps);
    let under_way_ps = more.latency_ps;
    // L = λ W: the sum of latencies is the number under way times the time.
    let waits_ps = interval_ps - INSTRUCTION_PS;
    assert_eq!(under_way_ps, more.accesses * (L3_PS + waits_ps));
    let mean = under_way_ps as f64 / more.time_ps as f64;
    assert!(mean > registers as f64 && mean <= registers as f64 + 1.0, "{mean} under way");
}

#[test]
fn every_picosecond_of_every_thread_has_one_owner() {
    for (spec, threads) in [
        (storage(&[]), wait_and_compute(40_000)),
        (hybrid(&[]), wait_and_compute(40_000)),
        (oracle(&[]), wait_and_compute(40_000)),
    ] {
        let sums = run(&spec, &threads);
        let owned_ns: f64 = sums.result.time_breakdown_ns.values().sum();
        let threads_ns = 2.0 * sums.time_ps as f64 / 1e3;
        assert!((owned_ns - threads_ns).abs() < 1e-6 * threads_ns, "{}", spec.name);
    }
}
