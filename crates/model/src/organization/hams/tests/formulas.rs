//! Unloaded latencies by formula, stage by stage.

use super::*;
use crate::link::nvme::NvmeSpec;

/// Accesses to the NVDIMM, one after the other, that a command takes besides its data: its entry is
/// written, and fetched by a drive behind a link; the completion is written, and read.
fn command_accesses(coupling: Coupling) -> u64 {
    match coupling {
        Coupling::Loose => 4,
        Coupling::Tight => 3,
    }
}

fn stages(response: &LineResponse) -> Vec<(Stage, u64)> {
    response.stages.iter().collect()
}

fn total(response: &LineResponse, stage: Stage) -> u64 {
    response.stages.iter().filter(|(one, _)| *one == stage).map(|(_, ps)| ps).sum()
}

const ALL: [(Coupling, Mode); 4] = [
    (Coupling::Loose, Mode::Persist),
    (Coupling::Loose, Mode::Extend),
    (Coupling::Tight, Mode::Persist),
    (Coupling::Tight, Mode::Extend),
];

#[test]
fn a_hit_is_the_controllers_latency_and_one_access_of_the_nvdimm() {
    for (coupling, mode) in ALL {
        let mut run = Run::new(steady(&spec(coupling, mode)));
        run.ask(0, false);
        for write in [false, true] {
            let hit = run.ask(64, write);
            assert_eq!(stages(&hit), [(Stage::Controller, 1_000), (Stage::Dram, MEMORY_PS)]);
        }
    }
}

#[test]
fn a_write_that_reads_the_tag_first_takes_a_second_access() {
    let spec = HamsSpec { tag_before_write: true, ..spec(Coupling::Loose, Mode::Extend) };
    let mut run = Run::new(steady(&spec));
    run.ask(0, false);
    let took = |answer: LineResponse| total(&answer, Stage::Dram);
    assert_eq!((took(run.ask(64, true)), took(run.ask(64, false))), (2 * MEMORY_PS, MEMORY_PS));
}

#[test]
fn a_clean_miss_reads_the_tag_has_its_page_read_and_is_a_hit_then() {
    for (coupling, mode) in ALL {
        let mut run = Run::new(steady(&spec(coupling, mode)));
        let miss = run.ask(0, false);
        assert_eq!(total(&miss, Stage::Medium), DRIVE_PS);
        // The page has come as a whole: its parts go to the NVDIMM together.
        let dma_ps = if coupling == Coupling::Tight { 0 } else { MEMORY_PS };
        assert_eq!(total(&miss, Stage::Dma), dma_ps);
        let accesses = 1 + command_accesses(coupling) + 1;
        assert_eq!(total(&miss, Stage::Dram), accesses * MEMORY_PS);
        assert_eq!(miss.stages.total_ps(), 1_000 + DRIVE_PS + dma_ps + accesses * MEMORY_PS);
        assert!(miss.at_ps > 0);
    }
}

#[test]
fn a_dirty_miss_takes_a_clone_and_two_commands_together_or_one_after_the_other() {
    for (coupling, mode) in ALL {
        let spec = spec(coupling, mode);
        let mut run = Run::new(steady(&spec));
        run.ask(0, true);
        let miss = run.ask(4 * spec.page.bytes(), false);
        // A page is two parts, which are copied together: read, and written.
        let clone_ps = 2 * MEMORY_PS;
        let commands = if mode == Mode::Persist { 2 } else { 1 };
        let dma_ps = if coupling == Coupling::Tight { 0 } else { MEMORY_PS };
        let command_ps = command_accesses(coupling) * MEMORY_PS;
        assert_eq!(total(&miss, Stage::Medium), commands * DRIVE_PS);
        assert_eq!(total(&miss, Stage::Dma), dma_ps);
        assert_eq!(total(&miss, Stage::Dram), 2 * MEMORY_PS + clone_ps + commands * command_ps);
        let drive_ps = commands * (DRIVE_PS + command_ps) + dma_ps;
        assert_eq!(miss.stages.total_ps(), 1_000 + 2 * MEMORY_PS + clone_ps + drive_ps);
    }
}

#[test]
fn a_fill_of_the_machines_devices_takes_link_flash_and_nvdimm() {
    for coupling in [Coupling::Loose, Coupling::Tight] {
        let spec = spec(coupling, Mode::Persist);
        let ssd = drive(coupling);
        let mut run = Run::new(real(&spec, &ssd, true));
        // Forced into flash, and from there.
        run.ask(0, true);
        run.ask(4 * spec.page.bytes(), false);
        let miss = run.ask(0, false);
        let medium_ps = ssd.nand.lower.read_latency.picoseconds();
        assert!(total(&miss, Stage::Medium) >= medium_ps, "{miss:?}");
        // Doorbell, fetch and its answer, data, completion and interrupt; or a command and data.
        let link_ps = match coupling {
            Coupling::Loose => 5 * 115_000 + 300_000,
            Coupling::Tight => 4 * 1_875 + 2 * 5_000,
        };
        assert!(total(&miss, Stage::Link) > link_ps, "{miss:?}");
        assert_eq!(total(&miss, Stage::Dma) > 0, coupling == Coupling::Loose, "{miss:?}");
        assert_eq!(total(&miss, Stage::ControllerQueue), 0, "{miss:?}");
    }
}

#[test]
fn a_loose_drive_reads_its_command_from_the_nvdimm_when_its_doorbell_and_fetch_have_come() {
    let queues = NvmeSpec {
        queues: 1,
        entries: 64,
        burst: 1,
        fetches: 1,
        memory_page: Size::from_bytes(4 * KIB),
        vectors: 1,
        priorities: None,
        coalescing: None,
    };
    for link in [pcie(), PcieSpec { nvme: Some(queues), ..pcie() }] {
        let spec =
            HamsSpec { page: Size::from_bytes(16 * KIB), ..spec(Coupling::Loose, Mode::Extend) };
        let spec = HamsSpec { capacity: Size::from_bytes(2 * spec.capacity.bytes()), ..spec };
        let ssd = drive(Coupling::Loose);
        let memory = Erratic::new(MEMORY_PS, 0, Stage::Dram, 64, 1);
        let sizes = (ssd.capacity.bytes(), ssd.page.bytes(), LINE_BYTES);
        let mut run = Run::new(Hams::new(&spec, sizes, memory, ssd.build(&link), true));
        let fill = run.ask(0, false);
        let memory = run.hams.memory();
        let entry = run.hams.manager().layout.submission(0);
        let list = run.hams.manager().layout.list(0).unwrap();
        let at = |(address, _): (u64, u32), write: bool| {
            let is_it = |(_, asked, _): &&(u64, Request, Manner)| {
                asked.address == address && asked.write == write
            };
            memory.log.iter().find(is_it).map(|(at_ps, ..)| *at_ps).unwrap()
        };
        // The link takes 115 ns each way, and what is sent.
        let written_ps = at(entry, true) + MEMORY_PS;
        let fetched_ps = at(entry, false);
        let took_ps = fetched_ps - written_ps;
        assert!((230_000..260_000).contains(&took_ps), "{took_ps} ps");
        // Queues have a fetch of their own for it: the command comes down behind the root complex, and the request goes up.
        let listed_ps = at(list, false) - fetched_ps;
        match link.nvme {
            None => assert_eq!(listed_ps, 0),
            Some(_) => {
                let took_ps = listed_ps - MEMORY_PS - 300_000;
                assert!((230_000..260_000).contains(&took_ps), "{took_ps} ps");
            }
        }
        // Look-up, entry written and fetched, completion written and read, the line.
        assert_eq!(total(&fill, Stage::Dram), 6 * MEMORY_PS);
        assert_eq!(total(&fill, Stage::ControllerQueue), 0, "{fill:?}");
    }
}

#[test]
fn commands_that_wait_for_their_turn_are_charged_the_stages_of_those_before() {
    const QUEUED: u32 = 24;
    for coupling in [Coupling::Loose, Coupling::Tight] {
        let mut spec = spec(coupling, Mode::Persist);
        (spec.queue_entries, spec.queue_depth, spec.wait_entries) = (64, 64, 64);
        // A frame for each.
        let more = u64::from(QUEUED) * spec.page.bytes() + spec.pinned.bytes();
        spec.pinned = Size::from_bytes(2 * spec.pinned.bytes());
        spec.capacity = Size::from_bytes(spec.capacity.bytes() + more);
        let mut run = Run::new(real(&spec, &drive(coupling), true));
        for number in 0..QUEUED {
            run.submit(number, u64::from(number) * spec.page.bytes(), false);
        }
        run.drain();
        let answers = &run.out;
        assert_eq!(answers.len(), QUEUED as usize);
        let alone = |stage| total(&answers[0], stage) as f64;
        // All are alike: the last one's time is that of one, as often as there were commands, in each stage.
        for stage in [Stage::Link, Stage::Device, Stage::Medium, Stage::StoreQueue, Stage::Dma] {
            let (one, all) = (alone(stage), total(&answers[answers.len() - 1], stage) as f64);
            let expected = one * f64::from(QUEUED);
            let whole = answers[answers.len() - 1].stages.total_ps() as f64;
            assert!((all - expected).abs() < 0.05 * whole, "{stage:?}: {all} of {expected}");
        }
    }
}
