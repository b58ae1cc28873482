//! Machines run on a program while it runs, in a process beside it, and come to the end with it.

mod common;

use common::{guest, start};
use serde_json::Value;
use std::time::{Duration, Instant};
use tierscope_record::job::{MachinesJob, SinkJob};
use tierscope_record::launch::Report;
use tierscope_system::run::{Bound, RunOptions};
use tierscope_system::spec::load;

fn machines(names: &[&str], memory_bound_bytes: u64, access_limit: u64) -> SinkJob {
    let systems = names.iter().map(|name| load(name, &[]).expect("a preset").spec).collect();
    SinkJob::Machines(MachinesJob {
        systems,
        options: RunOptions {
            stops: (access_limit > 0)
                .then_some(Bound::Accesses(access_limit))
                .into_iter()
                .collect(),
            ..RunOptions::default()
        },
        memory_bound_bytes,
        spill_dir: common::scratch(),
    })
}

fn run(program: &str, arguments: &[&str], sink: SinkJob) -> Report {
    start(&guest(program), arguments, sink).unwrap().finish().unwrap()
}

fn outcomes(report: &Report) -> Vec<Value> {
    let result = report.result.as_ref().unwrap_or_else(|| panic!("no result: {report:?}"));
    result["sink"]["outcomes"].as_array().unwrap_or_else(|| panic!("{result}")).clone()
}

const QUICK: [&str; 3] = ["oracle/quick", "hybrid/quick", "storage/quick"];

#[test]
fn each_machine_takes_every_instruction_of_the_program() {
    needs_qemu!();
    for (program, arguments) in [
        ("counted", &["100000"][..]),
        ("producer_consumer", &["300"]),
        ("barrier", &["4", "10"]),
        ("join", &["16"]),
    ] {
        let report = run(program, arguments, machines(&QUICK, 64 << 20, 0));
        assert!(report.is_complete(), "{program}: {report:?}");
        let recorded = &report.result.as_ref().unwrap()["recorded"];
        for outcome in outcomes(&report) {
            assert_eq!(outcome["partial_reason"], Value::Null, "{program}: {outcome}");
            let instructions = &outcome["result"]["instructions"];
            assert_eq!(instructions, &recorded["instructions"], "{program}");
        }
    }
}

#[test]
fn a_tight_bound_spills_and_changes_nothing() {
    needs_qemu!();
    let names = &QUICK[..1];
    let wide = run("barrier", &["4", "3"], machines(names, 256 << 20, 0));
    let tight = run("barrier", &["4", "3"], machines(names, 1 << 12, 0));
    for report in [&wide, &tight] {
        assert!(report.is_complete(), "{report:?}");
    }
    let accesses = |report: &Report| outcomes(report)[0]["result"]["accesses"].as_u64().unwrap();
    // The threads' interleaving, and so their spins, differ a little from run to run.
    let (wide, tight) = (accesses(&wide), accesses(&tight));
    assert!(wide.abs_diff(tight) < wide / 10, "{wide} and {tight}");
}

#[test]
fn machines_that_have_enough_let_the_program_go_on() {
    needs_qemu!();
    let report = run("ends", &["closes"], machines(&QUICK[..1], 1 << 20, 50_000));
    assert_eq!(report.exit_status, 5, "the program came to its own end");
    let outcome = &outcomes(&report)[0];
    assert_ne!(outcome["partial_reason"], Value::Null);
    assert!(outcome["result"]["accesses"].as_u64().unwrap() >= 50_000);
}

#[test]
fn machines_take_what_a_killed_program_did() {
    needs_qemu!();
    for (how, number) in [("crash", 11), ("abort", 6), ("kill", 9)] {
        let report = run("ends", &[how], machines(&QUICK, 64 << 20, 0));
        assert_eq!(report.exit_status, 128 + number, "{how}");
        let result = report.result.as_ref().unwrap();
        assert_eq!(result["ended"]["number"], number, "{how}");
        for outcome in outcomes(&report) {
            assert_eq!(outcome["partial_reason"], Value::Null, "{how}: {outcome}");
            let instructions = &outcome["result"]["instructions"];
            assert_eq!(instructions, &result["recorded"]["instructions"], "{how}");
        }
    }
}

#[test]
fn machines_of_a_killed_program_can_be_stopped_and_are_not_killed_by_a_second_signal() {
    needs_qemu!();
    // Much is held for the machines to work off.
    let mut run =
        start(&guest("ends"), &["threads-forever"], machines(&QUICK, 1 << 30, 0)).unwrap();
    assert_eq!(run.wait_for(Duration::from_millis(2000)).unwrap(), None);
    run.signal(libc::SIGTERM).unwrap();
    while !run.poll().iter().any(|record| record["type"] == "ended") {
        std::thread::sleep(Duration::from_millis(1));
    }
    run.signal(libc::SIGTERM).unwrap();
    run.stop().unwrap();
    let stopped = Instant::now();
    let report = run.finish().unwrap();
    assert!(stopped.elapsed() < Duration::from_secs(10), "{:?}", stopped.elapsed());
    assert_eq!(report.exit_status, 128 + 15);
    for outcome in outcomes(&report) {
        assert_eq!(outcome["failed"], false, "{outcome}");
        assert!(outcome["result"]["accesses"].as_u64().unwrap() > 100_000, "{outcome}");
    }
}

#[test]
fn machines_that_wait_for_the_program_report_all_that_it_did() {
    needs_qemu!();
    let mut run = start(&guest("ends"), &["waits"], machines(&QUICK[..1], 1 << 20, 0)).unwrap();
    let mut recorded = Value::Null;
    let mut simulated = Value::Null;
    let begun = Instant::now();
    while recorded.is_null() || recorded != simulated {
        assert!(begun.elapsed() < Duration::from_secs(60), "{recorded} and {simulated}");
        assert_eq!(run.wait_for(Duration::from_millis(20)).unwrap(), None);
        for record in run.poll() {
            match record["type"].as_str() {
                Some("progress") => recorded = record["recorded"]["instructions"].clone(),
                Some("outcome") => {
                    simulated = record["outcome"]["result"]["instructions"].clone();
                }
                _ => {}
            }
        }
    }
    run.kill().unwrap();
}

#[test]
fn what_machines_have_reported_survives_a_kill() {
    needs_qemu!();
    let mut run = start(&guest("ends"), &["forever"], machines(&QUICK, 1 << 20, 0)).unwrap();
    let mut last = vec![Value::Null; QUICK.len()];
    while last.contains(&Value::Null) {
        assert_eq!(run.wait_for(Duration::from_millis(20)).unwrap(), None);
        for record in run.poll().into_iter().filter(|record| record["type"] == "outcome") {
            last[record["system"].as_u64().unwrap() as usize] = record["outcome"].clone();
        }
    }
    run.kill().unwrap();
    assert!(run.finish().unwrap().result.is_none());
    for outcome in last {
        let result = &outcome["result"];
        assert!(result["accesses"].as_u64().unwrap() > 0);
        assert!(result["latency_ns"]["p999"].as_f64().unwrap() > 0.0);
        let stages = result["stages_ns"].as_object().unwrap();
        let sum: f64 = stages.values().map(|stage| stage.as_f64().unwrap()).sum();
        let mean = result["latency_ns"]["mean"].as_f64().unwrap();
        assert!((sum - mean).abs() < 1e-6 * mean, "stages sum to the latency: {sum} and {mean}");
    }
}
