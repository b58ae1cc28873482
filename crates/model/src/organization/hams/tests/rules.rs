//! The rules of \[HAMS21\] §V: order of commands, hazards, modes, and what pushes back.

use super::*;

const PAGE: u64 = 8 * KIB;
/// Pages that lie in the same frame.
const ALIAS: u64 = 4 * PAGE;

/// Commands in order of coming to the drive: when, whether it is written, and the page.
fn commands(run: &Run<Erratic, Erratic>) -> Vec<(u64, bool, u64)> {
    let log = run.hams.drive().log.iter();
    log.map(|(at_ps, request, _)| (*at_ps, request.write, request.address / PAGE)).collect()
}

fn both_modes(test: impl Fn(Coupling, Mode)) {
    for coupling in [Coupling::Loose, Coupling::Tight] {
        for mode in [Mode::Persist, Mode::Extend] {
            test(coupling, mode);
        }
    }
}

#[test]
fn the_write_of_a_dirty_victim_goes_before_the_read_and_a_clean_one_is_neither_cloned_nor_written()
{
    both_modes(|coupling, mode| {
        let mut run = Run::new(steady(&spec(coupling, mode)));
        run.ask(0, true);
        run.ask(ALIAS, false);
        run.ask(2 * ALIAS, false);
        let order: Vec<_> = commands(&run).iter().map(|(_, write, page)| (*write, *page)).collect();
        assert_eq!(order, [(false, 0), (true, 0), (false, 4), (false, 8)]);
        let counts = run.hams.manager().hams_report().counts;
        assert_eq!((counts.fills, counts.evictions, counts.clones), (3, 1, 1));
        assert_eq!(counts.clone_bytes, 2 * PAGE);
    });
}

#[test]
fn persist_forces_every_command_and_has_one_under_way_and_extend_has_many_without() {
    both_modes(|coupling, mode| {
        let mut run = Run::new(steady(&spec(coupling, mode)));
        run.ask(0, true);
        // Another frame's miss meanwhile: the machine has one drive.
        run.submit(1, ALIAS, false);
        run.submit(2, PAGE, false);
        run.drain();
        let log = &run.hams.drive().log;
        let forced = log.iter().all(|(.., manner)| manner.force_unit_access);
        assert_eq!(forced, mode == Mode::Persist);
        let apart = log.windows(2).skip(1).all(|two| two[1].0 - two[0].0 >= DRIVE_PS);
        assert_eq!(apart, mode == Mode::Persist, "{log:?}");
        let tags = run.hams.manager().hams_report().counts.journal_tags;
        assert_eq!(tags, if mode == Mode::Extend { 4 } else { 0 });
    });
}

#[test]
fn hits_go_on_while_a_miss_is_under_way() {
    both_modes(|coupling, mode| {
        let mut run = Run::new(steady(&spec(coupling, mode)));
        run.ask(0, false);
        let start_ps = run.now_ps;
        run.submit(1, PAGE, false);
        run.submit(2, 0, false);
        run.drain();
        assert_eq!(run.answer(2).at_ps - start_ps, 1_000 + MEMORY_PS);
        assert!(run.answer(1).at_ps > start_ps + DRIVE_PS);
    });
}

#[test]
fn who_finds_the_busy_bit_set_waits_whatever_its_page_and_looks_up_anew_in_order() {
    both_modes(|coupling, mode| {
        let mut run = Run::new(steady(&spec(coupling, mode)));
        for (id, address) in [(0, 0), (1, ALIAS), (2, 64), (3, 2 * ALIAS)] {
            run.submit(id, address, false);
        }
        run.drain();
        let at_ps = |id| run.answer(id).at_ps;
        // Both of the first page are served when it has come; the others follow, one fill after another.
        assert_eq!(at_ps(0), at_ps(2));
        assert!(at_ps(1) > at_ps(0) + DRIVE_PS && at_ps(3) > at_ps(1) + DRIVE_PS);
        assert_eq!(run.hams.manager().hams_report().counts.fills, 3);
        assert_eq!(run.hams.manager().hams_report().most_waiting, 4);
        assert_eq!(commands(&run).len(), 3);
    });
}

#[test]
fn no_frame_is_evicted_twice_while_it_is_busy() {
    both_modes(|coupling, mode| {
        let mut run = Run::new(steady(&spec(coupling, mode)));
        run.ask(0, true);
        for id in 1..5 {
            run.submit(id, u64::from(id) * ALIAS, false);
        }
        run.drain();
        let written = commands(&run).iter().filter(|(_, write, _)| *write).count();
        assert_eq!(written, 1);
    });
}

#[test]
fn a_full_wait_queue_pushes_back_at_the_last_entry_and_not_before() {
    let refused = |wait_entries| {
        let spec = HamsSpec { wait_entries, ..spec(Coupling::Loose, Mode::Extend) };
        let mut run = Run::new(steady(&spec));
        for id in 0..3 {
            run.submit(id, u64::from(id) * 64, false);
        }
        // Their tags have been read by then, and their page has not come.
        run.advance(DRIVE_PS / 2);
        let pushed_back = run.hams.manager().hams_report().counts.pushed_back;
        let request = LineRequest { id: 3, core: 0, address: PAGE, write: false, version: 0 };
        let refused = run.hams.submit(run.now_ps, request).is_err();
        assert_eq!(pushed_back, u64::from(refused));
        run.drain();
        refused
    };
    assert!(refused(2) && !refused(3));
}

#[test]
fn a_full_pool_and_a_full_submission_queue_push_back() {
    let refused = |prp_slots, queue_entries| {
        let spec = HamsSpec { prp_slots, queue_entries, ..spec(Coupling::Loose, Mode::Extend) };
        let mut run = Run::new(steady(&spec));
        for page in 0..2 {
            run.ask(page * PAGE, true);
        }
        for id in 0..2 {
            run.submit(id, ALIAS + u64::from(id) * PAGE, false);
        }
        run.advance(run.now_ps + DRIVE_PS / 2);
        let request = LineRequest { id: 3, core: 0, address: 0, write: false, version: 0 };
        let refused = run.hams.submit(run.now_ps, request).is_err();
        run.drain();
        assert_eq!(run.out.len(), 4 + usize::from(!refused));
        refused
    };
    assert!(!refused(2, 5) && refused(1, 5) && refused(2, 4));
}

#[test]
fn completions_may_come_in_any_order() {
    let spec = HamsSpec { queue_depth: 4, ..spec(Coupling::Loose, Mode::Extend) };
    let memory = Erratic::new(MEMORY_PS, 0, Stage::Dram, 64, 1);
    let drive = Erratic::new(1_000_000, 30_000_000, Stage::Medium, 64, 2);
    let mut run = Run::new(Hams::new(&spec, SIZES, memory, drive, true));
    for id in 0..4 {
        run.submit(id, u64::from(id) * PAGE, false);
    }
    run.drain();
    let order: Vec<_> = run.out.iter().map(|line| line.id).collect();
    assert_ne!(order, [0, 1, 2, 3]);
    assert_eq!(run.hams.manager().queues().submissions().count(), 0);
}

#[test]
fn what_is_under_way_stands_in_the_queues_and_nothing_stays() {
    both_modes(|coupling, mode| {
        let mut run = Run::new(steady(&spec(coupling, mode)));
        run.ask(0, true);
        let slots = run.hams.manager().queues().free_slots();
        run.submit(1, ALIAS, false);
        run.advance(run.now_ps + DRIVE_PS / 2);
        let queues = run.hams.manager().queues();
        let entries: Vec<_> =
            queues.submissions().map(|it| (it.write, it.page, it.journal)).collect();
        match mode {
            Mode::Persist => assert_eq!(entries, [(true, 0, false)]),
            Mode::Extend => assert_eq!(entries, [(true, 0, true), (false, 4, true)]),
        }
        assert_eq!((queues.free_slots(), queues.completions().count()), (slots - 1, 0));
        run.drain();
        let queues = run.hams.manager().queues();
        assert_eq!((queues.submissions().count(), queues.free_slots()), (0, slots));
        assert_eq!(queues.tails(), (3, 3));
    });
}

#[test]
fn bytes_of_the_nvdimm_by_cause_are_all_that_it_moves() {
    both_modes(|coupling, mode| {
        let mut run = Run::new(steady(&spec(coupling, mode)));
        for id in 0..60 {
            run.submit(id, u64::from(id * id) % 11 * PAGE, id % 3 == 0);
        }
        run.drain();
        let counts = run.hams.manager().hams_report().counts;
        let HamsCounts { hit_bytes, tag_bytes, clone_bytes, dma_bytes, .. } = counts;
        let HamsCounts { command_bytes, wait_bytes, mapping_bytes, .. } = counts;
        let all = hit_bytes + tag_bytes + clone_bytes + dma_bytes;
        let all = all + command_bytes + wait_bytes + mapping_bytes;
        let traffic = run.hams.report().traffic;
        assert_eq!(all, traffic.dram_read_bytes + traffic.dram_written_bytes);
        assert_eq!(dma_bytes, traffic.store_read_bytes + traffic.store_written_bytes);
        assert_eq!(mapping_bytes > 0, coupling == Coupling::Tight);
    });
}
