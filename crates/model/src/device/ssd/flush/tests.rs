use super::*;
use crate::device::linked::{PageAccess, Pages};
use crate::device::ssd::tests::{US, checked, nand, page_access, spec};
use crate::device::ssd::{InitialFlash, SsdBufferSpec, SsdSpec};
use crate::medium::NandSpec;
use tierscope_kernel::Random;
use tierscope_units::Size;

const PAGES: u64 = 256;
const WRITES: u64 = 20_000;

fn write(random: &mut Random) -> PageAccess {
    PageAccess { whole: true, ..page_access(0, random.below(PAGES), true) }
}

/// Sixteen writes at a time in detail; when the last of them has ended.
fn written_in_detail(drive: &mut Ssd, random: &mut Random) -> u64 {
    let (mut out, mut now_ps, mut sent) = (Vec::new(), 0, 0);
    while (out.len() as u64) < WRITES {
        while sent < WRITES && sent - (out.len() as u64) < 16 {
            drive.submit(now_ps, PageAccess { token: sent as u32, ..write(random) });
            sent += 1;
        }
        now_ps = drive.next_event_ps().expect("writes are under way");
        drive.advance(now_ps, &mut out);
    }
    now_ps
}

/// A drive whose flash programs pages of so much by four planes, and whose buffer may have so many writes.
fn drive(flash_page: u64, dirty_pages: u64) -> Ssd {
    let page = Size::from_bytes(flash_page);
    let nand = NandSpec { page, planes: 4, blocks: 64, multi_plane_programs: true, ..nand() };
    let [dirty, capacity] = [dirty_pages, 64].map(|pages| Size::from_bytes(pages * 4096));
    let buffer = SsdBufferSpec { dirty, capacity, ..spec().buffer };
    Ssd::new(&checked(SsdSpec { nand, buffer, ..spec() }))
}

/// Where writes wait for room, commands program the few units that there are, and so they do without time afterwards.
#[test]
fn a_command_without_time_programs_as_much_as_the_latest_in_detail() {
    for (flash_page, dirty_pages, fills) in
        [(4096, 4, false), (4096, 48, true), (16384, 4, false), (16384, 6, false)]
    {
        let (mut drive, mut random) = (drive(flash_page, dirty_pages), Random::stream(1, "pages"));
        let written = |drive: &Ssd| {
            let counts = drive.layer.counts();
            counts.host_units as f64 / (counts.host_units + counts.padded_units) as f64
        };
        assert_eq!(drive.late_commands.next(), None);
        let now_ps = written_in_detail(&mut drive, &mut random);
        let commands = drive.late_commands.noted;
        assert!(commands > LateCommands::KEPT, "{commands}");
        let units = drive.layer.counts().host_units;
        let (in_detail, share) = (units as f64 / commands as f64, written(&drive));
        let padded = drive.layer.counts().padded_units;

        let turns = drive.late_commands.turns;
        (0..WRITES).for_each(|nth| drive.warm(now_ps + nth * US, write(&mut random)));
        let warmed_units = (drive.layer.counts().host_units - units) as f64;
        let warmed_padded = (drive.layer.counts().padded_units - padded) as f64;
        let warmed = warmed_units / (drive.late_commands.turns - turns) as f64;
        let warmed_share = warmed_units / (warmed_units + warmed_padded);
        let name = format!("{flash_page} B, {dirty_pages} dirty pages");
        assert!((warmed / in_detail - 1.0).abs() < 0.1, "{name}: {warmed} for {in_detail}");
        assert!((warmed_share / share - 1.0).abs() < 0.1, "{name}: {warmed_share} for {share}");
        assert_eq!(in_detail > 3.0, fills, "{name}: {in_detail}");
    }
}

/// Writes in bursts, between which all ends that they began.
fn written_in_bursts(drive: &mut Ssd, random: &mut Random) -> u64 {
    const PERIOD_PS: u64 = 200_000 * US;
    let (mut out, mut now_ps) = (Vec::new(), 0);
    for start_ps in (0..2000).map(|burst| burst * PERIOD_PS) {
        (0..64).for_each(|_| drive.submit(start_ps, write(random)));
        while let Some(next_ps) = drive.next_event_ps() {
            now_ps = next_ps;
            drive.advance(now_ps, &mut out);
        }
        assert!(now_ps < start_ps + PERIOD_PS);
    }
    now_ps
}

/// Where few pages are written over and over, what collection moves hangs on the block that it begins with: that which has
/// just been filled, or one before, as the last pages of that one are still on their way when the next is begun.
#[test]
fn collection_without_time_begins_with_such_blocks_as_in_detail() {
    for (dirty_pages, overlapping) in [(8, 0.0..0.05), (32, 0.9..1.0), (64, 0.3..0.7)] {
        let nand =
            NandSpec { channels: 4, planes: 4, pages: 32, multi_plane_programs: true, ..nand() };
        let [dirty, capacity] = [dirty_pages, 64].map(|pages| Size::from_bytes(pages * 4096));
        let buffer = SsdBufferSpec { dirty, capacity, ..spec().buffer };
        let (capacity, initial) = (Size::from_bytes(75 << 20), InitialFlash::Steady);
        let spec = SsdSpec { nand, buffer, capacity, initial, ..spec() };
        let (mut drive, mut random) = (Ssd::new(&checked(spec)), Random::stream(1, "pages"));
        let mut counts = drive.layer.counts();
        let mut moved = |drive: &Ssd| {
            let before = std::mem::replace(&mut counts, drive.layer.counts());
            let since = counts.since(&before);
            since.moved_units as f64 / since.host_units as f64
        };
        let now_ps = written_in_bursts(&mut drive, &mut random);
        let in_detail = moved(&drive);
        let LateCommands { overlapping: those, openings, .. } = drive.late_commands;
        let share = f64::from(those) / f64::from(openings);
        assert!(overlapping.contains(&share), "{dirty_pages} dirty pages: {share}");
        (0..128_000).for_each(|nth| drive.warm(now_ps + nth * US, write(&mut random)));
        let warmed = moved(&drive);
        let off = warmed / in_detail - 1.0;
        assert!(off.abs() < 0.15, "{dirty_pages} dirty pages: {warmed} for {in_detail}");
    }
}

/// A lane that has less than others, turn after turn, would have its blocks full later.
#[test]
fn all_lanes_do_as_much_in_a_round_of_turns() {
    let mut late = LateCommands::new(4);
    [2, 5].into_iter().for_each(|units| late.note(units));
    let mut next = || {
        let units = late.next().expect("two are known");
        late.turn();
        units
    };
    let turns: Vec<u32> = (0..12).map(|_| next()).collect();
    assert_eq!(turns, [[2; 4], [5; 4], [2; 4]].concat());
}
