//! Failures of power at every event: what was promised is there, and nothing that was never written.

use super::*;
use crate::device::PageControl;
use crate::power::{LOST, Weakness};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A page, its content and whether it was forced.
type Write = (u64, u64, bool);

/// What was asked of a drive by token, and what it has promised of each page.
#[derive(Clone, Default)]
struct Promises {
    /// A write, or none for a flush, which has the answered ones before it.
    asked: BTreeMap<u32, (Option<Write>, BTreeMap<u64, u64>)>,
    answered: BTreeMap<u64, u64>,
    promised: BTreeMap<u64, u64>,
    newest: BTreeMap<u64, u64>,
}

impl Promises {
    fn answer(&mut self, token: u32, at_once: bool) {
        let Some((write, before)) = self.asked.remove(&token) else { return };
        let raise = |map: &mut BTreeMap<u64, u64>, page, content: u64| {
            let most = map.entry(page).or_default();
            *most = content.max(*most);
        };
        match write {
            Some((page, content, forced)) => {
                raise(&mut self.answered, page, content);
                if forced || at_once {
                    raise(&mut self.promised, page, content);
                }
            }
            None => before.iter().for_each(|(&page, &c)| raise(&mut self.promised, page, c)),
        }
    }

    /// The pages of which less is there than was promised, after a failure of power now.
    fn broken(&self, drive: &Ssd, now_ps: u64) -> Vec<u64> {
        let mut drive = drive.clone();
        drive.fail(now_ps);
        drain(&mut drive, &mut Vec::new());
        let mut broken = Vec::new();
        for (&page, &newest) in &self.newest {
            let content = drive.kept_content(page);
            let promised = self.promised.get(&page).copied().unwrap_or(0);
            if content == LOST || content < promised {
                broken.push(page);
                continue;
            }
            assert!(content <= newest, "{content} of {newest}");
            assert!(content == 0 || content % 1000 == page, "{content} in page {page}");
        }
        broken
    }
}

/// What a step asks for: a page, whether forced, whether a flush comes after it, and the time before it.
type Step = (u64, bool, bool, u64);

/// Runs the steps with a failure at every event; how many failures there were, and how many pages were lost.
fn fail_everywhere(spec: &SsdSpec, weaknesses: &[Weakness], steps: &[Step]) -> (u64, u64) {
    let mut drive = Ssd::new(spec);
    drive.follow(weaknesses.iter().copied().collect());
    let at_once = spec.buffer.capacitors || !spec.buffer.write_back;
    let (mut promises, mut out, mut now_ps) = (Promises::default(), Vec::new(), 0);
    let (mut token, mut points, mut lost) = (0, 0, 0);
    let mut advance = |drive: &mut Ssd, promises: &mut Promises, until_ps: u64| {
        while let Some(at_ps) = drive.next_event_ps().filter(|at_ps| *at_ps <= until_ps) {
            drive.advance(at_ps, &mut out);
            out.drain(..).for_each(|done| promises.answer(done.token, at_once));
            points += 1;
            lost += promises.broken(drive, at_ps).len() as u64;
        }
    };
    for &(page, forced, flush, gap_ps) in steps {
        now_ps += gap_ps;
        advance(&mut drive, &mut promises, now_ps);
        token += 1;
        let content = u64::from(token) * 1000 + page;
        promises.asked.insert(token, (Some((page, content, forced)), BTreeMap::new()));
        promises.newest.insert(page, content);
        let access =
            PageAccess { force_unit_access: forced, content, ..page_access(token, page, true) };
        drive.submit(now_ps, access);
        if flush {
            token += 1;
            promises.asked.insert(token, (None, promises.answered.clone()));
            drive.submit_control(now_ps, token, PageControl::Flush);
        }
    }
    advance(&mut drive, &mut promises, u64::MAX);
    assert!(promises.asked.is_empty(), "{:?}", promises.asked);
    (points, lost)
}

/// A drive of three pages of flash for two of the host, so that it collects all the time.
fn tight(write_back: bool, capacitors: bool, initial: InitialFlash) -> SsdSpec {
    let mut it = spec();
    it.capacity = Size::from_bytes(40 * 4096);
    (it.nand.blocks, it.nand.pages, it.nand.channels, it.nand.ways) = (11, 4, 2, 1);
    (it.buffer.write_back, it.buffer.capacitors, it.initial) = (write_back, capacitors, initial);
    checked(it)
}

/// With a page of the map for eight of its pages, and two in memory.
fn with_map(mut it: SsdSpec) -> SsdSpec {
    it.nand.blocks += 4;
    it.map = Some(small_map(2));
    it.collection.idle = Some(IdleSpec { after: us(20), free_blocks: 4 });
    checked(it)
}

/// With a map of blocks, and two logs a die.
fn with_log(mut it: SsdSpec) -> SsdSpec {
    it.initial = InitialFlash::Written;
    it.log = Some(LogSpec { blocks: 2 });
    checked(it)
}

/// Many writes to few pages.
fn busy_steps(seed: u64) -> Vec<Step> {
    let draw = tierscope_kernel::Counter::stream(seed, "steps");
    let of = |n: u64| {
        let page = draw.below_at(4 * n, 40);
        let gap_ps = draw.below_at(4 * n + 3, 60 * US);
        (page, draw.below_at(4 * n + 1, 4) == 0, draw.below_at(4 * n + 2, 12) == 0, gap_ps)
    };
    (0..600).map(of).collect()
}

#[test]
fn what_a_drive_promised_survives_a_failure_at_every_event() {
    for (write_back, capacitors) in [(true, true), (true, false), (false, false)] {
        let drive = tight(write_back, capacitors, InitialFlash::Steady);
        let (points, lost) = fail_everywhere(&drive, &[], &busy_steps(1));
        assert!(points > 2_000, "{points}");
        assert_eq!(lost, 0, "write_back {write_back}, capacitors {capacitors}");
        let logged = with_log(drive.clone());
        let (points, lost) = fail_everywhere(&logged, &[], &busy_steps(1));
        assert!(points > 2_000, "{points}");
        assert_eq!(lost, 0, "write_back {write_back}, capacitors {capacitors}, logs");
        // Four pages of the map, of which two are in memory.
        let mapped = with_map(drive);
        let (points, lost) = fail_everywhere(&mapped, &[], &busy_steps(1));
        assert!(points > 2_000, "{points}");
        assert_eq!(lost, 0, "write_back {write_back}, capacitors {capacitors}, map in flash");
    }
}

#[test]
fn without_capacitors_or_with_early_answers_pages_are_lost() {
    let keeps = tight(true, true, InitialFlash::Steady);
    assert!(fail_everywhere(&keeps, &[Weakness::NoCapacitors], &busy_steps(1)).1 > 0);
    for write_back in [true, false] {
        let plain = tight(write_back, false, InitialFlash::Steady);
        assert!(fail_everywhere(&plain, &[Weakness::EarlyCompletion], &busy_steps(1)).1 > 0);
    }
}

#[test]
fn capacitors_take_time_and_energy_for_what_the_buffer_holds_and_a_torn_page_is_told() {
    let mut full = tight(true, true, InitialFlash::Erased);
    full.buffer.flush_above = full.buffer.dirty;
    let mut drive = Ssd::new(&checked(full));
    drive.follow(Default::default());
    for page in 0..4 {
        drive.submit(0, PageAccess { content: 1 + page, ..page_access(page as u32, page, true) });
    }
    drain(&mut drive, &mut Vec::new());
    let outage = drive.clone().fail(US * 1000);
    assert_eq!((outage.saved_pages, outage.lost_pages, outage.torn_pages), (4, 0, 0));
    // Two lanes program two pages each, one after the other.
    assert!((400 * US..450 * US).contains(&outage.hold_ps), "{}", outage.hold_ps);
    assert!(outage.ready_ps >= 2 * 4 * 25 * US, "{}", outage.ready_ps);
    let mut through = Ssd::new(&tight(false, false, InitialFlash::Erased));
    through.follow(Default::default());
    through.submit(0, PageAccess { content: 7, ..page_access(0, 3, true) });
    through.advance(50 * US, &mut Vec::new());
    let outage = through.fail(50 * US);
    assert_eq!((outage.lost_pages, outage.torn_pages, through.kept_content(3)), (1, 1, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn promises_hold_on_any_drive_under_any_writes(
        write_back in any::<bool>(),
        capacitors in any::<bool>(),
        steady in any::<bool>(),
        kind in 0..3u32,
        steps in prop::collection::vec(
            (0..40u64, any::<bool>(), prop::bool::weighted(0.1), 0..200 * US), 1..150),
    ) {
        let initial = if steady { InitialFlash::Steady } else { InitialFlash::Erased };
        let drive = tight(write_back, capacitors && write_back, initial);
        let drive = match kind {
            0 => drive,
            1 => with_map(drive),
            _ => with_log(drive),
        };
        prop_assert_eq!(fail_everywhere(&drive, &[], &steps).1, 0);
    }
}
