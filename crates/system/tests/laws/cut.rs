//! A workload that was cut off may lack what its threads wait for: that is its end, and no error.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use tierscope_system::run::{Outcome, RunOptions, run_machines};
use tierscope_system::spec::load;
use tierscope_workload::feed::{Feed, FeedOptions};
use tierscope_workload::trace::{TstMetadata, TstReader, TstWriter, partial_path};
use tierscope_workload::{Call, Op, Stream};

fn run(stream: Box<dyn Stream>) -> Outcome {
    let system = load("oracle/quick", &[]).expect("a preset").spec;
    let stop = AtomicBool::new(false);
    run_machines(&[system], vec![stream], &RunOptions::default(), &(), &stop).remove(0)
}

/// 100 loads, and a wait for a thread that was never started.
fn waits_for_ever() -> Vec<Op> {
    let mut ops: Vec<Op> = (0..100).map(|line| Op::load(1 << 30 | line << 6, 8, 1)).collect();
    Call::Wait { thread: 1, sequence: 1 }.encode(1, &mut ops);
    ops
}

fn is_at_its_end(outcome: &Outcome) {
    assert!(!outcome.failed, "{:?}", outcome.partial_reason);
    assert!(outcome.partial_reason.as_ref().unwrap().contains("cut off"));
    assert_eq!(outcome.result.accesses, 100);
    assert!(outcome.result.latency_ns.as_ref().unwrap().p99 > 0.0, "its figures are there");
}

fn is_a_deadlock(outcome: &Outcome) {
    assert!(outcome.failed);
    assert!(outcome.partial_reason.as_ref().unwrap().contains("waits for ever"));
}

#[test]
fn a_program_that_was_cut_off() {
    for early in [true, false] {
        let (feed, mut streams) = Feed::new(1, FeedOptions::default());
        feed.push(0, waits_for_ever());
        if early {
            feed.close_early();
        } else {
            feed.close();
        }
        let outcome = run(Box::new(streams.remove(0)));
        if early { is_at_its_end(&outcome) } else { is_a_deadlock(&outcome) }
    }
}

#[test]
fn a_recording_of_a_program_that_was_cut_off() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cut.tst");
    for cut in [true, false] {
        let mut writer = TstWriter::create(&path, &TstMetadata::default()).unwrap();
        writer.append(0, &waits_for_ever()).unwrap();
        let ended = if cut { writer.finish_cut("a signal") } else { writer.finish("exit") };
        assert_eq!(ended.unwrap().cut, cut);
        let outcome = run(Box::new(TstReader::open(&path, false).unwrap()));
        if cut { is_at_its_end(&outcome) } else { is_a_deadlock(&outcome) }
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_recording_that_was_never_completed() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("never-completed.tst");
    let mut writer = TstWriter::create(&path, &TstMetadata::default()).unwrap();
    writer.append(0, &waits_for_ever()).unwrap();
    writer.flush().unwrap();
    // As its writer's process is killed: nothing of it is dropped.
    std::mem::forget(writer);
    let reader = TstReader::open(&partial_path(&path), true).unwrap();
    assert!(reader.damage().is_some());
    is_at_its_end(&run(Box::new(reader)));
    std::fs::remove_file(partial_path(&path)).unwrap();
}
