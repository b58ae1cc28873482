//! A store in DRAM (`ddr-block`): whoever hands a request over copies it, and nothing interrupts.

use super::support::*;
use tierscope_workload::Op;
use tierscope_workload::generator;
use tierscope_workload::op::Call;

/// One core, a kernel that costs nothing, memory of its own for what is read into.
const BARE: Sets<'static> = &[
    ("storage.readahead", "0B"),
    ("storage.dirty_writeback", "0s"),
    ("os.paths.driver", "{ instructions = 0, lines = 0 }"),
    ("processor.caches.L3.capacity", "1MiB"),
];
const READS: u64 = 200;

/// Direct reads, or writes, of pages of a file, each once; the caller's buffer is as large as the on-chip caches
/// are not.
fn direct(write: bool) -> Vec<Op> {
    let length = PAGE;
    let mut ops = call(Call::Open { file: 0, size: READS * PAGE });
    ops.extend((0..READS).map(|page| Op::store(ANONYMOUS + page * PAGE, 8, 4)));
    for page in 0..READS {
        let (offset, address) = (page * PAGE, ANONYMOUS + page * PAGE);
        ops.extend(call(match write {
            false => Call::ReadDirect { file: 0, offset, length, address },
            true => Call::WriteDirect { file: 0, offset, length, address },
        }));
    }
    ops
}

fn run_direct(write: bool, changes: Sets<'_>) -> Sums {
    run(&system("ddr-block", &[FREE_KERNEL, BARE, changes]), &[direct(write)])
}

#[test]
fn nothing_interrupts_and_each_line_of_the_disk_is_read_once() {
    let found = run_direct(false, &[]);
    assert_eq!((found.counter("interrupts"), found.counter("context_switches")), (0, 0));
    assert_eq!(found.result.store_bytes.read, READS * PAGE);
    assert_eq!(found.counter("direct_read_bytes"), READS * PAGE);
    // A copy writes whole lines, which are not read before.
    assert_eq!(run_direct(true, &[]).result.store_bytes.read, 0);
}

/// Time of a read beyond that of a disk as quick as DRAM.
fn longer_ns(write: bool, changes: Sets<'_>) -> f64 {
    let (quick, slow) = (run_direct(write, &[]), run_direct(write, changes));
    (slow.time_ps - quick.time_ps) as f64 / READS as f64 / 1e3
}

#[test]
fn the_driver_s_own_delay_is_paid_for_each_line_one_after_the_other() {
    for write in [false, true] {
        let latency = if write { "ramdisk.write_latency" } else { "ramdisk.read_latency" };
        let longer = longer_ns(write, &[(latency, "35ns"), ("ramdisk.delays", "driver")]);
        // The last misses of a copy go on meanwhile.
        assert!((540.0..=641.0).contains(&longer), "{longer} ns of 64 lines of 10 ns");
    }
}

/// A page is 64 lines, ten of which a core has under way: with a delay far above DRAM's time, seven rounds of it at
/// most, and six where the last copy goes on beside the next.
#[test]
fn delays_of_memory_overlap_as_far_as_a_core_has_misses_under_way() {
    let longer = longer_ns(false, &[("ramdisk.read_latency", "10025ns")]);
    assert!((60_000.0..=71_000.0).contains(&longer), "{longer} ns");
    let one =
        longer_ns(false, &[("ramdisk.read_latency", "10025ns"), ("processor.miss_registers", "1")]);
    assert!((one / 640_000.0 - 1.0).abs() < 0.02, "{one} ns with one miss at a time");
}

/// What is copied to the disk leaves the caches behind the writer's back, as far as it leaves them: its delay is felt
/// where lines push back.
#[test]
fn delays_of_writes_are_felt_by_their_rate() {
    let hidden = longer_ns(true, &[("ramdisk.write_latency", "1025ns")]);
    assert!(hidden < 64.0, "{hidden} ns a page with room for all");
    let spare = ("ramdisk.lines", "4");
    let bound = longer_ns(true, &[("ramdisk.write_latency", "10025ns"), spare]);
    assert!(bound > 10_000.0, "{bound} ns a page");
}

#[test]
fn threads_wait_for_a_page_that_another_copies() {
    let file = call(Call::Open { file: 0, size: 64 * PAGE });
    let read = |thread: u64| {
        let address = ANONYMOUS + thread * 64 * PAGE;
        (0..64u64)
            .flat_map(move |page| {
                call(Call::Read { file: 0, offset: page * PAGE, length: PAGE, address })
            })
            .collect::<Vec<Op>>()
    };
    let spawn: Vec<Op> = (1..4).flat_map(|thread| call(Call::Spawn { thread })).collect();
    let mut threads: Vec<Vec<Op>> = (0..4).map(read).collect();
    threads[0] = [file, spawn, threads[0].clone()].concat();
    let found = run(&system("ddr-block", &[BARE, &[("check_data", "true")]]), &threads);
    assert_eq!(found.result.store_bytes.read, 64 * PAGE, "each page is copied once");
    assert_eq!(found.counter("interrupts"), 0);
}

/// XDD on a machine, of so many threads: time and bytes moved.
fn xdd(name: &str, system_name: &str, threads: u32, requests: u32) -> (f64, f64) {
    let parameters =
        [("threads", threads.into()), ("requests", requests.into()), ("size", "64MiB".into())]
            .map(|(name, value): (&str, serde_json::Value)| (name.to_owned(), value));
    let stream = generator::find(name).unwrap().make(&parameters, 1).unwrap().0;
    let found = run_stream(&system(system_name, &[]), stream);
    let bytes = found.counter("file_read_bytes") + found.counter("file_written_bytes");
    (found.time_ps as f64 / 1e12, bytes as f64)
}

/// [NVM10] §V-A: 3 us for 4 KB read or written by one thread, most of which the driver's instructions put in; 7.1 GB/s
/// at most.
#[test]
fn ddr_block_against_published_figures() {
    for name in ["xdd/random-read", "xdd/random-write"] {
        let (one_s, bytes) = xdd(name, "ddr-block", 1, 1_000);
        let (few_s, few) = xdd(name, "ddr-block", 1, 200);
        let us = (one_s - few_s) / (bytes - few) * 4096.0 * 1e6;
        let (all_s, all) = xdd(name, "ddr-block", 16, 1_600);
        println!("{name}: {us:.2} us by one thread, {:.2} GB/s by 16", all / all_s / 1e9);
        assert!((2.5..3.5).contains(&us), "{us} us");
        assert!((7.0..14.0).contains(&(all / all_s / 1e9)), "{} GB/s", all / all_s / 1e9);
    }
}
