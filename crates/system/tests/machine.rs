//! Whole machines under generated workloads: the laws that hold whatever they do.

use serde_json::Value;
use std::sync::atomic::AtomicBool;
use tierscope_system::machine::Machine;
use tierscope_system::result::{Interval, SystemResult};
use tierscope_system::run::{Observer, Progress, RunOptions, run_machines};
use tierscope_system::spec::{SystemSpec, load};
use tierscope_workload::Stream;
use tierscope_workload::generator::find;

fn system(name: &str, sets: &[(&str, &str)]) -> SystemSpec {
    let sets: Vec<_> = sets.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    load(name, &sets).unwrap_or_else(|problems| panic!("{problems}")).spec
}

fn gups(sets: &[(&str, Value)]) -> Box<dyn Stream> {
    let sets: Vec<_> = sets.iter().map(|(n, v)| (n.to_string(), v.clone())).collect();
    find("gups").unwrap().make(&sets, 7).unwrap().0
}

struct Quiet;

impl Observer for Quiet {
    fn progress(&self, _: usize, _: Progress) {}
    fn interval(&self, _: usize, _: &Interval) {}
}

fn run(spec: &SystemSpec, stream: Box<dyn Stream>, options: &RunOptions) -> SystemResult {
    let stop = AtomicBool::new(false);
    let mut outcomes =
        run_machines(std::slice::from_ref(spec), vec![stream], options, &Quiet, &stop);
    let outcome = outcomes.remove(0);
    assert_eq!(outcome.partial_reason, None);
    let mut result = outcome.result;
    (result.wall_s, result.accesses_per_wall_s) = (0.0, 0.0);
    result
}

const ALL: [&str; 3] = ["oracle/quick", "hybrid/quick", "storage/quick"];

#[test]
fn look() {
    for name in ALL {
        let sets = [("table", "512MiB".into()), ("updates", 20000.into()), ("threads", 4.into())];
        let start = std::time::Instant::now();
        let result = run(&system(name, &[]), gups(&sets), &RunOptions::default());
        println!("{name} {:?}\n{}", start.elapsed(), serde_json::to_string_pretty(&result).unwrap());
    }
}
