//! Recordings that tell where in the program's code accesses come from.

mod common;

use common::{Event, Recording, guest, record_sites, scratch_file};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tierscope_record::job::{MachinesJob, SinkJob};
use tierscope_system::result::CodeCost;
use tierscope_system::run::{Outcome, RunOptions};
use tierscope_system::spec::load;
use tierscope_workload::{OpKind, Site, SiteGrain, SiteTable};

const ROUNDS: u64 = 400;
const SMALL: u64 = 512;
const STEPS: u64 = 40;

/// Accesses of the first thread by site.
fn accesses(recording: &Recording, sites: &SiteTable) -> BTreeMap<(String, String, u64), u64> {
    let mut site: Option<&Site> = None;
    let mut counts = BTreeMap::new();
    for event in &recording.threads[&0] {
        let Event::Op(op) = event else { continue };
        match op.kind() {
            Some(OpKind::Site) => site = Some(sites.get(op.word as u32).unwrap()),
            Some(OpKind::Load | OpKind::Store) => {
                let site = site.expect("a thread's first access has a site");
                let file = Path::new(&*site.file).file_name().unwrap_or_default();
                let file = file.to_string_lossy().into_owned();
                *counts.entry((file, site.function.to_string(), site.address)).or_insert(0) += 1;
            }
            _ => {}
        }
    }
    counts
}

fn by_function(recording: &Recording, sites: &SiteTable) -> BTreeMap<String, u64> {
    let mut functions = BTreeMap::new();
    for ((_, function, _), count) in accesses(recording, sites) {
        *functions.entry(function).or_insert(0) += count;
    }
    functions
}

/// The loads that two functions make, and their returns.
fn check_functions(functions: &BTreeMap<String, u64>) {
    let near = |name: &str, expected: u64| {
        let found = functions.get(name).copied().unwrap_or(0);
        // Returns, and what the compiler keeps on the stack.
        assert!((expected..expected * 3 + 20 * ROUNDS).contains(&found), "{name}: {functions:?}");
    };
    near("stream_small", ROUNDS * SMALL);
    near("chase_far", ROUNDS * STEPS);
}

#[test]
fn accesses_are_told_by_function() {
    needs_qemu!();
    let (recording, sites) = record_sites(&guest("blame"), &[], SiteGrain::Function);
    assert_eq!(sites.grain, Some(SiteGrain::Function));
    check_functions(&by_function(&recording, &sites));
    let files: Vec<_> = accesses(&recording, &sites).into_keys().map(|(file, ..)| file).collect();
    for library in ["libc.so.6", "ld-linux-x86-64.so.2"] {
        assert!(files.iter().any(|file| file == library), "{library} in {files:?}");
    }
}

#[test]
fn accesses_are_told_by_address() {
    needs_qemu!();
    let program = guest("blame");
    let (recording, sites) = record_sites(&program, &[], SiteGrain::Address);
    check_functions(&by_function(&recording, &sites));
    // The load of the loop is one instruction, within its function.
    let counts = accesses(&recording, &sites);
    let streams = counts.iter().filter(|((_, function, _), _)| function == "stream_small");
    let ((_, _, address), count) = streams.max_by_key(|(_, count)| **count).unwrap();
    assert_eq!(*count, ROUNDS * SMALL);
    let listing = Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(&program).output();
    if let Ok(listing) = listing {
        let listing = String::from_utf8_lossy(&listing.stdout).into_owned();
        let line =
            listing.lines().find(|line| line.trim_start().starts_with(&format!("{address:x}:")));
        assert!(line.is_some_and(|line| line.contains('(')), "a load at {address:#x}: {line:?}");
    }
    // The same accesses as without sites.
    let plain = common::record(&program, &[]);
    // Pieces of an access that emulation splits are joined but where a buffer ends between them.
    let bytes = |recording: &Recording| -> u64 {
        let accesses = recording.threads[&0].iter().filter_map(|event| match event {
            Event::Op(op) if op.kind() != Some(OpKind::Site) => Some(u64::from(op.size())),
            _ => None,
        });
        accesses.sum()
    };
    assert_eq!(bytes(&recording), bytes(&plain));
    assert_eq!(recording.calls(), plain.calls());
    assert_eq!(recording.totals.instructions, plain.totals.instructions);
}

/// A copy of a program without its symbols.
fn stripped(program: &Path) -> PathBuf {
    let copy = scratch_file("stripped");
    let status = Command::new("strip").arg("-o").args([&copy, program]).status();
    assert!(status.is_ok_and(|status| status.success()), "strip comes with the compiler");
    copy
}

#[test]
fn functions_of_a_stripped_program_are_told_by_where_they_begin() {
    needs_qemu!();
    let program = guest("blame");
    let (recording, sites) = record_sites(&program, &[], SiteGrain::Function);
    let named = accesses(&recording, &sites);
    let (recording, sites) = record_sites(&stripped(&program), &[], SiteGrain::Function);
    let unnamed = accesses(&recording, &sites);
    for name in ["stream_small", "chase_far"] {
        let ((_, _, start), count) = named.iter().find(|((_, one, _), _)| one == name).unwrap();
        let same = unnamed
            .iter()
            .find(|((_, function, address), _)| function.is_empty() && address == start);
        assert_eq!(same.map(|(_, count)| count), Some(count), "{name} begins at {start:#x}");
    }
}

#[test]
fn a_program_that_does_not_tell_its_functions_is_said_to_have_no_symbols() {
    needs_qemu!();
    let program = stripped(&common::guest_with("blame", &["-static", "-pthread"]));
    // Some linkers write this for static programs too.
    let hidden = ["--remove-section=.eh_frame_hdr", "--remove-section=.eh_frame"];
    let status = Command::new("strip").args(hidden).arg(&program).status();
    assert!(status.is_ok_and(|status| status.success()), "strip comes with the compiler");
    let (recording, sites) = record_sites(&program, &[], SiteGrain::Function);
    let functions = by_function(&recording, &sites);
    let of_none = functions.get("[no symbols]").copied().unwrap_or(0);
    assert!(of_none > ROUNDS * (SMALL + STEPS), "{functions:?}");
    assert_eq!(functions.get(""), None, "nothing is taken for a function without a name");
    let (recording, sites) = record_sites(&program, &[], SiteGrain::Address);
    let counts = accesses(&recording, &sites);
    let load = counts.iter().find(|(_, count)| **count == ROUNDS * SMALL);
    assert_eq!(load.unwrap().0.1, "[no symbols]", "each instruction is told all the same");
}

#[test]
fn code_that_a_program_makes_is_told_as_such() {
    needs_qemu!();
    let (recording, sites) = record_sites(&guest("blame"), &["made"], SiteGrain::Address);
    let counts = accesses(&recording, &sites);
    let made: Vec<_> = counts.iter().filter(|((file, ..), _)| file == "[anonymous code]").collect();
    // A load, and a return from the stack.
    assert_eq!(made.len(), 2, "{made:?}");
    assert!(made.iter().all(|(_, count)| **count == ROUNDS), "{made:?}");
    let (recording, sites) = record_sites(&guest("blame"), &["made"], SiteGrain::Function);
    let counts = accesses(&recording, &sites);
    let made: Vec<_> = counts.iter().filter(|((file, ..), _)| file == "[anonymous code]").collect();
    assert!(made.len() == 1 && *made[0].1 == 2 * ROUNDS, "{made:?}");
}

#[test]
fn processes_and_threads_agree_on_what_their_sites_are() {
    needs_qemu!();
    for name in ["forks", "producer_consumer"] {
        let (recording, sites) = record_sites(&guest(name), &[], SiteGrain::Address);
        assert!(recording.threads.len() > 1, "{name}");
        for (thread, events) in &recording.threads {
            let ops = events.iter().filter_map(|event| match event {
                Event::Op(op) => Some(op),
                Event::Call(_) => None,
            });
            let mut known = false;
            for op in ops {
                match op.kind() {
                    Some(OpKind::Site) => known = sites.get(op.word as u32).is_some(),
                    Some(OpKind::Load | OpKind::Store) => assert!(known, "{name}, thread {thread}"),
                    _ => {}
                }
            }
        }
    }
}

#[test]
fn programs_that_a_program_runs_have_sites_of_their_own() {
    needs_qemu!();
    let program = guest("blame");
    let script = format!("{0}; exec {0}", program.display());
    let (recording, sites) =
        record_sites(Path::new("/bin/sh"), &["-c", &script], SiteGrain::Address);
    assert_eq!(recording.threads.len(), 2, "a child, and the shell, which becomes the program");
    let mut loads = 0;
    for events in recording.threads.values() {
        let mut site = None;
        for event in events {
            let Event::Op(op) = event else { continue };
            match op.kind() {
                Some(OpKind::Site) => site = sites.get(op.word as u32),
                Some(OpKind::Load) if site.is_some_and(|s| &*s.function == "stream_small") => {
                    loads += u64::from(op.size() == 8);
                }
                _ => {}
            }
        }
    }
    // Each program's, and returns.
    assert_eq!(loads, 2 * ROUNDS * (SMALL + 1));
}

#[test]
fn machines_blame_the_function_that_misses() {
    needs_qemu!();
    let options = RunOptions { sites: Some(SiteGrain::Address), ..RunOptions::default() };
    let sets = [("processor.caches.L3.capacity", "320KiB"), ("hybrid.cache.capacity", "2MiB")];
    let sets = sets.map(|(path, value)| (path.to_owned(), value.to_owned()));
    let systems = vec![load("hybrid/quick", &sets).unwrap().spec];
    let (memory_bound_bytes, spill_dir) = (64 << 20, common::scratch());
    let sink = SinkJob::Machines(MachinesJob { systems, options, memory_bound_bytes, spill_dir });
    let report = common::start(&guest("blame"), &[], sink).unwrap().finish().unwrap();
    let outcome = report.result.expect("the run is complete")["sink"]["outcomes"][0].clone();
    let outcome: Outcome = serde_json::from_value(outcome).unwrap();
    let code = outcome.result.code.unwrap();
    let worst = &code.functions[0];
    assert_eq!(worst.function, "chase_far", "{worst:?}");
    assert!(worst.cost.store_accesses > ROUNDS * STEPS / 2, "{worst:?}");
    let streams = code.functions.iter().find(|row| row.function == "stream_small").unwrap();
    assert!(streams.cost.store_accesses < 100, "{streams:?}");
    assert!(streams.hits + streams.cost.accesses >= ROUNDS * SMALL, "{streams:?}");
    let accesses =
        |rows: &[CodeCost]| -> u64 { rows.iter().map(|row| row.hits + row.cost.accesses).sum() };
    assert_eq!(accesses(&code.functions), outcome.result.accesses);
    let addresses = code.addresses.unwrap();
    assert_eq!(accesses(&addresses), outcome.result.accesses);
    assert_eq!(addresses[0].function, "chase_far");
    assert!(addresses[0].cost.stall_ns > 0.8 * worst.cost.stall_ns, "one load does it all");
}
