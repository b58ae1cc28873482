use super::*;
use crate::device::linked::Pages;
use crate::device::ssd::tests::{US, checked, nand, page_access, small_map, spec, us};
use crate::device::ssd::translation::TranslationCounts;
use crate::device::ssd::{CollectionSpec, IdleSpec, InitialFlash, LogSpec, SsdBufferSpec, SsdSpec};
use crate::medium::nand::NandCounts;
use crate::medium::{MultiPlaneReads, NandSpec};
use proptest::prelude::*;
use std::sync::LazyLock;
use tierscope_kernel::Random;
use tierscope_units::Size;

const PAGES: u64 = 256;

/// What a host may ask for.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Page { page: u64, write: bool, whole: bool, forced: bool },
    Flush,
    Trim { first: u64, count: u64 },
}

fn wish() -> impl Strategy<Value = Wish> {
    let page = (0..PAGES, any::<bool>(), any::<bool>(), 0..8u8);
    prop_oneof![
        12 => page.prop_map(|(page, write, whole, forced)| {
            Wish::Page { page, write, whole, forced: forced == 0 }
        }),
        1 => Just(Wish::Flush),
        1 => (0..PAGES, 1..20u64)
            .prop_map(|(first, count)| Wish::Trim { first, count: count.min(PAGES - first) }),
    ]
}

fn access(page: u64, write: bool, whole: bool, forced: bool) -> PageAccess {
    PageAccess { whole, force_unit_access: forced, ..page_access(0, page, write) }
}

/// In detail, until nothing more happens.
fn in_detail(drive: &mut Ssd, now_ps: u64, wish: Wish) -> u64 {
    match wish {
        Wish::Page { page, write, whole, forced } => {
            drive.submit(now_ps, access(page, write, whole, forced))
        }
        Wish::Flush => drive.submit_control(now_ps, 0, PageControl::Flush),
        Wish::Trim { first, count } => {
            drive.submit_control(now_ps, 0, PageControl::Trim { first, count })
        }
    }
    let (mut out, mut end_ps) = (Vec::new(), now_ps);
    while let Some(next_ps) = drive.next_event_ps() {
        drive.advance(next_ps, &mut out);
        end_ps = next_ps;
    }
    assert_eq!(out.len(), 1, "{wish:?} is answered");
    end_ps
}

fn warmed(drive: &mut Ssd, now_ps: u64, wish: Wish) {
    match wish {
        Wish::Page { page, write, whole, forced } => {
            drive.warm(now_ps, access(page, write, whole, forced))
        }
        Wish::Flush => drive.warm_control(now_ps, PageControl::Flush),
        Wish::Trim { first, count } => {
            drive.warm_control(now_ps, PageControl::Trim { first, count })
        }
    }
}

/// Small drives, each of another kind.
fn kinds() -> Vec<(&'static str, SsdSpec)> {
    let buffer = || spec().buffer;
    let planes = NandSpec { planes: 2, blocks: 12, multi_plane_programs: true, ..nand() };
    let split = NandSpec {
        page: Size::from_bytes(2048),
        blocks: 48,
        multi_plane_reads: MultiPlaneReads::AnyPage,
        ..nand()
    };
    let idle = IdleSpec { after: us(500), free_blocks: 6 };
    vec![
        ("plain", spec()),
        ("full", SsdSpec { initial: InitialFlash::Steady, ..spec() }),
        ("planes", SsdSpec { nand: planes, ..spec() }),
        ("split", SsdSpec { nand: split, split: 2, ..spec() }),
        (
            "written through",
            SsdSpec { buffer: SsdBufferSpec { write_back: false, ..buffer() }, ..spec() },
        ),
        (
            "kept",
            SsdSpec {
                buffer: SsdBufferSpec {
                    read_cache: true,
                    flush_above: Size::from_bytes(4 * 4096),
                    ..buffer()
                },
                ..spec()
            },
        ),
        (
            "capacitors",
            SsdSpec { buffer: SsdBufferSpec { capacitors: true, ..buffer() }, ..spec() },
        ),
        ("map", SsdSpec { map: Some(small_map(4)), ..spec() }),
        ("logs", SsdSpec { log: Some(LogSpec { blocks: 2 }), ..spec() }),
        (
            "pauses",
            SsdSpec {
                collection: CollectionSpec { idle: Some(idle), ..spec().collection },
                ..spec()
            },
        ),
    ]
}

/// What a drive holds, and what it did for it.
fn state(drive: &Ssd, spec: &SsdSpec) -> (TranslationCounts, Vec<(bool, bool)>, String) {
    drive.layer.check(PAGES + spec.map_pages());
    let pages = (0..PAGES)
        .map(|page| (drive.buffer.holds(page), drive.layer.place(page).is_some()))
        .collect();
    (drive.layer.counts(), pages, format!("{:?}", drive.host))
}

/// One of each kind that has been overwritten many times over, one by one in detail and without time; and the time then.
struct Twins {
    name: &'static str,
    spec: SsdSpec,
    detail: Ssd,
    warm: Ssd,
    now_ps: u64,
}

static TWINS: LazyLock<Vec<Twins>> = LazyLock::new(|| {
    let overwritten = |(name, spec)| {
        let spec = checked(spec);
        let (mut detail, mut warm) = (Ssd::new(&spec), Ssd::new(&spec));
        let (mut random, mut now_ps) = (Random::stream(1, name), 0);
        for _ in 0..12 * PAGES {
            let wish =
                Wish::Page { page: random.below(PAGES), write: true, whole: true, forced: false };
            warmed(&mut warm, now_ps, wish);
            now_ps = in_detail(&mut detail, now_ps, wish) + 1;
        }
        warm.at_once(now_ps, |_, _| {});
        assert!(detail.layer.counts().erases > 20, "{name}: {:?}", detail.layer.counts());
        assert_eq!(state(&warm, &spec), state(&detail, &spec), "{name}");
        let (warmed, done) = (warm.report(), detail.report());
        let times = |nand: &NandCounts| (nand.read_ps, nand.program_ps, nand.erase_ps, nand.bus_ps);
        if spec.nand.planes == 1 {
            // One command may do several planes: how many is known of what was in detail alone.
            assert_eq!(times(&warmed.nand), times(&done.nand), "{name}");
            assert_eq!(warmed.dies_busy_ps, done.dies_busy_ps, "{name}");
        }
        assert_eq!(warmed.dram, done.dram, "{name}");
        Twins { name, spec, detail, warm, now_ps }
    };
    kinds().into_iter().map(overwritten).collect()
});

proptest! {
    /// Wishes one by one leave the same, whether each takes its time or none, and so they do where they take
    /// turns.
    #[test]
    fn it_leaves_what_the_same_wishes_leave_one_by_one(
        wishes in proptest::collection::vec((wish(), any::<bool>()), 1..200),
    ) {
        for Twins { name, spec, detail, warm, now_ps } in TWINS.iter() {
            let (mut detail, mut warm, mut now_ps) = (detail.clone(), warm.clone(), *now_ps);
            for &(wish, at_once) in &wishes {
                let begin_ps = now_ps;
                now_ps = in_detail(&mut detail, begin_ps, wish) + 1;
                if at_once {
                    warmed(&mut warm, begin_ps, wish);
                } else {
                    // What a pause would have had it do, it has done.
                    warm.at_once(begin_ps, |_, _| {});
                    in_detail(&mut warm, begin_ps, wish);
                }
            }
            warm.at_once(now_ps, |_, _| {});
            let (mut warm, detail) = (state(&warm, spec), state(&detail, spec));
            if spec.map.is_some() {
                // Which changed pages of the map are in memory when room is wanted depends on what is under way.
                let near = |one: u64, other: u64| one.abs_diff(other) <= 2 + other / 50;
                let (left, right) = (&mut warm.0, &detail.0);
                for (one, other) in [
                    (&mut left.map_units, right.map_units),
                    (&mut left.moved_units, right.moved_units),
                    (&mut left.padded_units, right.padded_units),
                    (&mut left.collections, right.collections),
                    (&mut left.erases, right.erases),
                ] {
                    prop_assert!(near(*one, other), "{} for {}", one, other);
                    *one = other;
                }
            }
            prop_assert_eq!(warm, detail, "a drive of the kind {}", name);
        }
    }
}

/// Many at once, of which the buffer has room for some, leave as many copies by collection as without time, and what lies
/// where is as consistent.
#[test]
fn collection_moves_as_much_as_under_requests_that_overlap() {
    // So large that few pages of a block are written again while it is collected.
    let nand = NandSpec { blocks: 256, ..nand() };
    let spec = SsdSpec { initial: InitialFlash::Steady, capacity: FULL, nand, ..spec() };
    let spec = checked(spec);
    let pages = spec.capacity.bytes() / 4096;
    let draws = |random: &mut Random| access(random.below(pages), true, true, false);
    let (mut detail, mut out, mut now_ps) = (Ssd::new(&spec), Vec::new(), 0);
    let (mut random, mut sent) = (Random::stream(1, "pages"), 0);
    while out.len() < WRITES {
        while sent < WRITES && sent - out.len() < 16 {
            detail.submit(now_ps, PageAccess { token: sent as u32, ..draws(&mut random) });
            sent += 1;
        }
        now_ps = detail.next_event_ps().expect("writes are under way");
        detail.advance(now_ps, &mut out);
    }
    let (mut warm, mut random) = (Ssd::new(&spec), Random::stream(1, "pages"));
    (0..WRITES as u64).for_each(|at_us| warm.warm(at_us * US, draws(&mut random)));
    for drive in [&detail, &warm] {
        drive.layer.check(pages);
    }
    let moved = |drive: &Ssd| {
        let counts = drive.layer.counts();
        (counts.moved_units as f64) / counts.host_units as f64
    };
    let (detail, warm) = (moved(&detail), moved(&warm));
    assert!(
        detail > 0.5 && (warm / detail - 1.0).abs() < 0.05,
        "{warm} copies a write for {detail}"
    );
}

/// Four fifths of the flash.
const FULL: Size = Size::from_bytes(13_000 * 4096);
const WRITES: usize = 40_000;
