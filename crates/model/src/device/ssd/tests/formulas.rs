//! Unloaded times and peak rates against closed formulas.

use super::*;
use crate::medium::NandPowerSpec;
use crate::medium::nand::Nand;

const CYCLE_PS: u64 = 25_000;
/// 4 KiB at 400 MB/s, with the cycles that select it, or that precede a program.
const DATA_PS: u64 = 10_240_000;
const AROUND_PS: u64 = 7 * CYCLE_PS;
/// 4 KiB at 4.096 GB/s, and the latency.
const MEMORY_PS: u64 = US + 100_000;

fn latency(spec: SsdSpec, accesses: &[(u64, PageAccess)]) -> Vec<u64> {
    let done = run(&mut Ssd::new(&checked(spec)), accesses);
    done.iter().map(|one| one.stages.total_ps()).collect()
}

fn written() -> SsdSpec {
    SsdSpec { initial: InitialFlash::Written, ..spec() }
}

#[test]
fn an_unloaded_read_takes_firmware_command_array_transfer_and_decoding() {
    let expected = 3 * US + AROUND_PS + 25 * US + AROUND_PS + DATA_PS + 4 * US;
    assert_eq!(latency(written(), &[(0, page_access(0, 7, false))]), [expected]);
}

#[test]
fn a_read_of_what_was_never_written_takes_firmware_alone() {
    assert_eq!(latency(spec(), &[(0, page_access(0, 7, false))]), [3 * US]);
}

#[test]
fn an_unloaded_write_takes_firmware_and_the_buffer() {
    assert_eq!(latency(spec(), &[(0, page_access(0, 7, true))]), [4 * US + MEMORY_PS]);
}

#[test]
fn a_write_through_takes_firmware_buffer_transfer_and_program() {
    let buffer = SsdBufferSpec { write_back: false, ..spec().buffer };
    let expected = 4 * US + MEMORY_PS + AROUND_PS + DATA_PS + 200 * US;
    let found = latency(SsdSpec { buffer, ..spec() }, &[(0, page_access(0, 7, true))]);
    assert_eq!(found, [expected]);
}

fn stages(spec: SsdSpec, access: PageAccess) -> Vec<(Stage, u64)> {
    let done = run(&mut Ssd::new(&checked(spec)), &[(0, access)]);
    done[0].stages.iter().collect()
}

#[test]
fn an_unloaded_read_waits_for_nothing() {
    let found = stages(written(), page_access(0, 7, false));
    let around = (Stage::Device, 3 * US + AROUND_PS);
    let data = (Stage::Device, AROUND_PS + DATA_PS + 4 * US);
    assert_eq!(found, [around, (Stage::Medium, 25 * US), data]);
}

#[test]
fn a_write_through_is_the_mediums_only_while_the_array_programs() {
    let buffer = SsdBufferSpec { write_back: false, ..spec().buffer };
    let found = stages(SsdSpec { buffer, ..spec() }, page_access(0, 7, true));
    let device = (Stage::Device, 4 * US + MEMORY_PS + AROUND_PS + DATA_PS);
    assert_eq!(found, [device, (Stage::Medium, 200 * US)]);
}

#[test]
fn part_of_a_page_reads_the_rest_first() {
    let access = PageAccess { whole: false, ..page_access(0, 7, true) };
    let fill = AROUND_PS + 25 * US + AROUND_PS + DATA_PS;
    assert_eq!(latency(written(), &[(0, access)]), [4 * US + MEMORY_PS + fill]);
    assert_eq!(latency(spec(), &[(0, access)]), [4 * US + MEMORY_PS], "nothing to be read");
}

#[test]
fn parts_of_a_page_move_their_own_bytes() {
    let buffer = SsdBufferSpec { read_cache: true, ..spec().buffer };
    let line =
        |token, write| PageAccess { whole: false, bytes: 64, ..page_access(token, 7, write) };
    let accesses = [(0, line(0, false)), (500 * US, line(1, false)), (600 * US, line(2, true))];
    let found = latency(SsdSpec { buffer, ..written() }, &accesses);
    // 64 B at 4.096 GB/s, and the latency.
    let memory_ps = 15_625 + 100_000;
    assert_eq!(found[1..], [3 * US + memory_ps, 4 * US + memory_ps]);
}

#[test]
fn parts_of_a_page_wait_for_one_read_of_it() {
    let line = |token, page, write| PageAccess {
        whole: false,
        bytes: 64,
        ..page_access(token, page, write)
    };
    let firmware = SsdFirmwareSpec { cores: 4, ..spec().firmware };
    let of = |accesses: &[(u64, PageAccess)]| {
        let mut drive = Ssd::new(&checked(SsdSpec { firmware: firmware.clone(), ..written() }));
        let done = run(&mut drive, accesses);
        let latencies: Vec<u64> = done.iter().map(|one| one.stages.total_ps()).collect();
        (latencies, drive.report().nand.reads)
    };
    let alone = of(&[(0, line(0, 7, false))]);
    let read_ps = alone.0[0];
    // A second read, a write and a read of another page; the last needs a read of its own.
    let (found, reads) = of(&[
        (0, line(0, 7, false)),
        (5 * US, line(1, 7, false)),
        (5 * US, line(2, 7, true)),
        (5 * US, line(3, 6, false)),
    ]);
    assert_eq!(reads, 2 * alone.1);
    assert_eq!(found[..2], [read_ps, read_ps - 5 * US]);
    assert_eq!(found[2], read_ps - 5 * US - 4 * US, "a write has nothing to decode");
    // Whole pages are read each by itself.
    let (_, reads) = of(&[(0, page_access(0, 7, false)), (0, page_access(1, 7, false))]);
    assert_eq!(reads, 2 * alone.1);
}

#[test]
fn what_is_in_the_buffer_is_read_from_there() {
    let found =
        latency(spec(), &[(0, page_access(0, 7, true)), (50 * US, page_access(1, 7, false))]);
    assert_eq!(found[1], 3 * US + MEMORY_PS, "it is being programmed");
    let buffer = SsdBufferSpec { read_cache: true, ..spec().buffer };
    let accesses = [(0, page_access(0, 7, false)), (500 * US, page_access(1, 7, false))];
    let found = latency(SsdSpec { buffer, ..written() }, &accesses);
    assert_eq!(found[1], 3 * US + MEMORY_PS, "it was read before");
}

#[test]
fn a_page_over_two_channels_halves_its_transfer() {
    let nand = NandSpec { page: Size::from_bytes(2048), ..nand() };
    let found = latency(SsdSpec { split: 2, nand, ..written() }, &[(0, page_access(0, 7, false))]);
    assert_eq!(found, [3 * US + AROUND_PS + 25 * US + AROUND_PS + DATA_PS / 2 + 4 * US]);
}

/// Pages a second of `count` reads, or writes, of all pages in turn, with as many waiting as can be.
fn rate(spec: SsdSpec, count: u32, write: bool) -> f64 {
    let pages = spec.capacity.bytes() / spec.page.bytes();
    let firmware = SsdFirmwareSpec {
        cores: 1,
        page_time: us(0),
        read_latency: us(0),
        write_latency: us(0),
        decode_latency: us(0),
    };
    let mut drive = Ssd::new(&checked(SsdSpec { firmware, ..spec }));
    let mut out = Vec::new();
    let (mut next, mut now_ps) = (0, 0);
    while out.len() < count as usize {
        while next < count && next < out.len() as u32 + 64 {
            drive.submit(now_ps, page_access(next, u64::from(next) % pages, write));
            next += 1;
        }
        now_ps = drive.next_event_ps().expect("something is under way");
        drive.advance(now_ps, &mut out);
    }
    f64::from(count) / now_ps as f64 * 1e12
}

fn assert_near(found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() < tolerance, "{found}/s, {expected}/s by the formula");
}

#[test]
fn reads_are_bounded_by_channels_or_by_dies() {
    for (channels, ways, cache_read) in [(1, 1, false), (1, 1, true), (2, 4, true), (4, 1, false)] {
        let nand = NandSpec { channels, ways, cache_read, ..nand() };
        let spec = SsdSpec { nand, ..written() };
        let transfer_s = (DATA_PS + AROUND_PS) as f64 * 1e-12;
        let array_s = (25 * US + AROUND_PS) as f64 * 1e-12;
        let die_s = if cache_read { array_s.max(transfer_s) } else { array_s + transfer_s };
        let channel_s = transfer_s + AROUND_PS as f64 * 1e-12;
        let per_channel = (f64::from(ways) / die_s).min(1.0 / channel_s);
        let found = rate(spec, 4000, false);
        assert_near(found, f64::from(channels) * per_channel, 0.02);
    }
}

#[test]
fn writes_are_bounded_by_programs_and_planes_and_caches_multiply_them() {
    for (planes, multi, cache) in
        [(1, false, false), (1, false, true), (2, true, false), (2, true, true)]
    {
        let nand = NandSpec {
            planes,
            blocks: 400,
            multi_plane_programs: multi,
            cache_program: cache,
            ..nand()
        };
        let dirty = Size::from_bytes(64 * 4096);
        let buffer = SsdBufferSpec { capacity: dirty, dirty, ..spec().buffer };
        let spec = SsdSpec { nand, buffer, striping: "p-c-w-d".into(), ..spec() };
        let transfer_s = f64::from(planes) * (DATA_PS + AROUND_PS) as f64 * 1e-12;
        let die_s = 200e-6 + if cache { 0.0 } else { transfer_s };
        // Fewer than fit into flash that is erased at the start.
        let found = rate(spec, 16_000, true);
        assert_near(found, 4.0 * f64::from(planes) / die_s, 0.02);
    }
}

#[test]
fn types_of_pages_take_their_own_times_in_turn() {
    let times = |read, program| {
        Some(PageTimesSpec { read_latency: us(read), program_latency: us(program) })
    };
    let nand = NandSpec { middle: times(50, 500), upper: times(80, 900), ..nand() };
    let spec = SsdSpec { nand, ..written() };
    // Four lanes: pages 0 to 3 are the first of theirs, 4 to 7 the second.
    let reads: Vec<_> = [0, 5, 10, 15]
        .iter()
        .map(|&page| (page * 1000 * US, page_access(page as u32, page, false)))
        .collect();
    let found = latency(spec, &reads);
    let rest = 3 * US + 2 * AROUND_PS + DATA_PS + 4 * US;
    assert_eq!(found, [25, 50, 80, 25].map(|array| rest + array * US));
}

#[test]
fn energy_is_current_times_voltage_times_time() {
    let power = NandPowerSpec {
        voltage: "3V".parse().unwrap(),
        read_current: "20mA".parse().unwrap(),
        program_current: "30mA".parse().unwrap(),
        erase_current: "40mA".parse().unwrap(),
        transfer_current: "10mA".parse().unwrap(),
        standby_current: "100uA".parse().unwrap(),
    };
    let nand = NandSpec { power: Some(power), ..nand() };
    let controller_power = Some("2W".parse().unwrap());
    let mut drive = Ssd::new(&checked(SsdSpec { nand, controller_power, ..written() }));
    let read = page_access(0, 7, false);
    run(&mut drive, &[(0, read), (1000 * US, page_access(1, 7, true))]);
    let energy = drive.activity(10_000 * US).energy;
    let find = |part| energy.parts.iter().find(|it| it.part == part).unwrap().energy_j;
    for (part, expected_j) in [
        ("read", 3.0 * 20e-3 * 25e-6),
        ("program", 3.0 * 30e-3 * 200e-6),
        ("erase", 0.0),
        ("transfer", 3.0 * 10e-3 * (3 * AROUND_PS + 2 * DATA_PS) as f64 * 1e-12),
        ("standby", 3.0 * 100e-6 * 4.0 * 10e-3),
        ("all_times", 2.0 * 10e-3),
    ] {
        let found = find(part);
        assert!((found - expected_j).abs() < 1e-12, "{part}: {found} J, not {expected_j}");
    }
    let not_counted: Vec<_> = energy.not_counted.iter().map(|it| it.component).collect();
    assert_eq!(not_counted, ["drive_dram"]);
    let unknown = Ssd::new(&spec()).activity(US).energy;
    assert_eq!((unknown.parts.len(), unknown.not_counted.len()), (0, 3));
}

/// What moves through the drive's memory: pages of the host, those that are read from flash and kept or completed, and
/// those that are programmed.
#[test]
fn the_drives_dram_takes_standby_and_what_moves_through_it() {
    let dram_power = Some(SsdDramPowerSpec {
        standby: "40mW".parse().unwrap(),
        read_per_bit: "5pJ".parse().unwrap(),
        write_per_bit: "4pJ".parse().unwrap(),
    });
    let mut it = SsdSpec { dram_power, ..written() };
    it.buffer.read_cache = true;
    let mut drive = Ssd::new(&checked(it));
    let part = PageAccess { whole: false, bytes: 512, ..page_access(3, 9, true) };
    run(
        &mut drive,
        &[
            (0, page_access(0, 7, false)),         // from flash, and kept: 4 KiB in
            (1000 * US, page_access(1, 7, false)), // from the buffer: 4 KiB out
            (2000 * US, page_access(2, 8, true)), // into the buffer, and into flash: 4 KiB in, 4 KiB out
            (3000 * US, part), // 512 B in, the rest of the page from flash in, the page into flash out
        ],
    );
    let (page, now_ps) = (4096, 10_000 * US);
    let report = drive.report();
    let traffic = (report.dram.read_bytes, report.dram.written_bytes);
    assert_eq!(traffic, (3 * page, 3 * page));
    let energy = drive.activity(now_ps).energy;
    let of_dram = |part| {
        let named = energy.parts.iter().find(|it| (it.component, it.part) == ("drive_dram", part));
        named.unwrap().energy_j
    };
    let bits = 8.0 * 3.0 * page as f64;
    for (part, expected_j) in
        [("standby", 40e-3 * 10e-3), ("read", 5e-12 * bits), ("write", 4e-12 * bits)]
    {
        let found = of_dram(part);
        assert!((found - expected_j).abs() < 1e-15, "{part}: {found} J, not {expected_j}");
    }
    let sum_j: f64 = energy.parts.iter().map(|it| it.energy_j).sum();
    assert_eq!(energy.total_j(), Some(sum_j));
    let later = drive.activity(2 * now_ps);
    let since = later.since(&drive.activity(now_ps)).energy;
    assert_eq!(since.parts.iter().map(|it| it.energy_j).sum::<f64>(), since.total_j().unwrap());
    assert!((since.total_j().unwrap() - 40e-3 * 10e-3).abs() < 1e-12, "standby alone goes on");
}

#[test]
fn an_idle_array_announces_nothing() {
    assert_eq!(Nand::new(&nand(), 1).next_event_ps(), None);
    assert_eq!(Ssd::new(&spec()).next_event_ps(), None);
}
