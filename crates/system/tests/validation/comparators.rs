//! The comparators of \[HAMS21\], and the drive behind CXL.mem, against the figures that their sources give:
//! what docs/models/tiered.md says of them.

use super::support::*;
use tierscope_model::organization::Organization;
use tierscope_model::request::{LineRequest, Response};
use tierscope_workload::Op;

const US: u64 = 1_000_000;

/// The memory of a preset, alone.
fn memory(preset: &str) -> Box<dyn Organization> {
    system(preset, &[]).build_organization().expect("it has a memory")
}

/// What a line takes while nothing else is under way, in nanoseconds.
fn unloaded_ns(memory: &mut dyn Organization, now_ps: u64, address: u64, write: bool) -> f64 {
    let mut out = Vec::new();
    memory.advance(now_ps, &mut out);
    memory.submit(now_ps, LineRequest { id: 0, core: 0, address, write, version: 0 }).unwrap();
    memory.advance(now_ps + 900 * US, &mut out);
    match out.as_slice() {
        [Response::Line(one)] => one.stages.total_ps() as f64 / 1e3,
        other => panic!("{other:?}"),
    }
}

/// The second of two reads of a page, 5 ms later, and a write of it after that.
fn in_the_buffer(preset: &str) -> (f64, f64) {
    let mut memory = memory(preset);
    unloaded_ns(&mut *memory, 0, 1 << 30, false);
    let read_ns = unloaded_ns(&mut *memory, 5_000 * US, (1 << 30) + 64, false);
    (read_ns, unloaded_ns(&mut *memory, 10_000 * US, (1 << 30) + 128, true))
}

#[test]
fn lines_of_flatflash_take_what_was_measured() {
    // Input.
    let (read_ns, write_ns) = in_the_buffer("flatflash-p");
    assert!((read_ns / 4_800.0 - 1.0).abs() < 0.005, "{read_ns} ns");
    // Predicted: 0.6 us.
    assert!((0.98..1.05).contains(&(write_ns / 600.0)), "{write_ns} ns");
}

#[test]
fn a_page_of_flatflash_comes_to_dram_with_its_seventh_access_and_takes_what_was_measured() {
    let mut memory = memory("flatflash-m");
    for access in 0..7 {
        assert_eq!(memory.report().fetched_pages, 0, "{access}");
        unloaded_ns(&mut *memory, access * 1_000 * US, 1 << 30, false);
    }
    assert_eq!(memory.report().fetched_pages, 1);
    let dram_ns = unloaded_ns(&mut *memory, 8_000 * US, 1 << 30, false);
    assert!(dram_ns < 100.0, "{dram_ns} ns");
}

#[test]
fn lines_behind_cxl_take_protocol_look_up_and_the_drives_dram() {
    // SkyByte (HPCA 2025): 40 ns, 72 ns and 46 ns; what the flits take is not in it.
    let (read_ns, _) = in_the_buffer("cxl-ssd");
    assert!((158.0..175.0).contains(&read_ns), "{read_ns} ns");
}

#[test]
fn lines_of_flash_loaded_directly_take_what_pages_of_it_take() {
    // [HAMS21] Fig. 5a: 8 us to read 4 KiB; 9 % more here.
    let mut memory = memory("ull");
    let read_ns = unloaded_ns(&mut *memory, 0, 1 << 30, false);
    assert!((0.0..0.1).contains(&(read_ns / 8_000.0 - 1.0)), "{read_ns} ns");
    // No page is kept.
    let again_ns = unloaded_ns(&mut *memory, 1_000 * US, 1 << 30, false);
    assert!((again_ns / read_ns - 1.0).abs() < 0.01, "{again_ns} ns after {read_ns}");
}

#[test]
fn a_module_of_optane_takes_what_was_measured() {
    let mut memory = memory("optane-p");
    let read_ns = unloaded_ns(&mut *memory, 0, 1 << 30, false);
    assert!((read_ns / 305.0 - 1.0).abs() < 0.03, "{read_ns} ns");
}

#[test]
fn a_page_of_nvdimm_c_comes_in_refresh_windows() {
    // [HAMS21] §VI-B: up to 48 us to move it; the flash, a window for the command and one for its end more.
    let mut memory = memory("nvdimm-c");
    let miss_ns = unloaded_ns(&mut *memory, 0, 1 << 30, false);
    let windows = 7_800.0;
    assert!((48_000.0..48_000.0 + 3.0 * windows).contains(&miss_ns), "{miss_ns} ns");
    let hit_ns = unloaded_ns(&mut *memory, 1_000 * US, (1 << 30) + 64, false);
    assert!(hit_ns < 100.0, "{hit_ns} ns");
}

const FEW_CACHES: Sets<'static> =
    &[("processor.caches.L2.capacity", "64KiB"), ("check_data", "true")];

/// Updates of random lines of 8 MiB.
fn updates() -> Vec<Vec<Op>> {
    let update = |i| {
        let address = ANONYMOUS + mixed(i) % (8 << 20) / LINE * LINE;
        [Op::load(address, 8, 40), Op::store(address, 8, 40).with_flags(1)]
    };
    vec![(0..1_500).flat_map(update).collect()]
}

#[test]
fn each_comparator_runs_a_program_and_reads_what_it_wrote() {
    let time = |name: &str, ops: &[Vec<Op>]| run(&system(name, &[FEW_CACHES]), ops).time_ps;
    let random = |name: &str| time(name, &updates());
    let fast = random("optane-m/quick").max(random("optane-p/quick"));
    // What does not fit goes to swap and comes back.
    random("mmap/quick");
    for flash in ["flatflash-p/quick", "flatflash-m/quick", "ull/quick", "nvdimm-c/quick"] {
        assert!(random(flash) > fast, "{flash}");
    }
    // Another host: it only reads what it wrote.
    random("cxl-ssd/quick");
    // Lines in a row, one after the other, three times: pages are promoted, or buffered.
    let row = vec![repeat(&chase(&every(LINE, 64 * 64), 4), 3)];
    let [plain, promoting] = ["flatflash-p/quick", "flatflash-m/quick"].map(|it| time(it, &row));
    assert!(promoting < plain, "{promoting} of {plain}");
    let [plain, buffered] = ["ull/quick", "ull-buff/quick"].map(|it| time(it, &row));
    assert!(buffered < plain / 3, "{buffered} of {plain}");
}
