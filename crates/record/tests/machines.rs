//! Machines run on a program while it runs, in its process, and come to the end with it.

mod common;

use common::{guest, start};
use serde_json::Value;
use tierscope_record::job::{MachinesJob, SinkJob};
use tierscope_record::launch::Report;
use tierscope_system::run::RunOptions;
use tierscope_system::spec::load;

fn machines(names: &[&str], memory_bound_bytes: u64, access_limit: u64) -> SinkJob {
    let systems = names.iter().map(|name| load(name, &[]).expect("a preset").spec).collect();
    SinkJob::Machines(MachinesJob {
        systems,
        options: RunOptions { access_limit, ..RunOptions::default() },
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
