use super::*;
use crate::device::linked::{PageAccess, Pages};
use crate::device::ssd::tests::{US, checked, nand, page_access, spec};
use crate::device::ssd::{SsdBufferSpec, SsdSpec};
use crate::medium::NandSpec;
use tierscope_kernel::Random;
use tierscope_units::Size;

const PAGES: u64 = 256;
const WRITES: u64 = 600;

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

/// Pages that a command programs in the mean while as much is written without time.
fn warmed(drive: &mut Ssd, random: &mut Random, now_ps: u64) -> f64 {
    let before = (drive.layer.counts().host_units, drive.late_commands.turns);
    (0..WRITES).for_each(|nth| drive.warm(now_ps + nth * US, write(random)));
    let pages = drive.layer.counts().host_units - before.0;
    pages as f64 / (drive.late_commands.turns - before.1) as f64
}

/// Where writes wait for room, commands program the few pages that there are, and so they do without time afterwards.
#[test]
fn a_command_without_time_programs_as_many_pages_as_the_latest_in_detail() {
    let nand = NandSpec { planes: 4, blocks: 64, multi_plane_programs: true, ..nand() };
    for dirty_pages in [4, 48] {
        let dirty = Size::from_bytes(dirty_pages * 4096);
        let buffer =
            SsdBufferSpec { dirty, capacity: Size::from_bytes(64 * 4096), ..spec().buffer };
        let spec = checked(SsdSpec { nand: nand.clone(), buffer, ..spec() });
        let (mut drive, mut random) = (Ssd::new(&spec), Random::stream(1, "pages"));
        assert_eq!(drive.late_commands.next(), None);
        let now_ps = written_in_detail(&mut drive, &mut random);
        let noted = drive.late_commands.noted;
        assert!(noted > LateCommands::KEPT, "{noted}");
        let in_detail = drive.layer.counts().host_units as f64 / noted as f64;
        let warmed = warmed(&mut drive, &mut random, now_ps);
        println!("{dirty_pages} dirty pages: {in_detail} a command, {warmed} without time");
        assert!((warmed / in_detail - 1.0).abs() < 0.1, "{warmed} for {in_detail}");
        assert_eq!(in_detail < 2.0, dirty_pages == 4, "{in_detail}");
    }
}
