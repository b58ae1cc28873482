//! How often the intervals of sampled runs hold what the complete run gives: one machine, one workload, many
//! seeds, which decide where units lie.
//!
//! `cargo bench -p tierscope-system --bench coverage -- SYSTEM WORKLOAD [--set PATH=VALUE]... [--with
//! PARAMETER=VALUE]... [--limit ACCESSES] [--time-ms N] [--skip ACCESSES] [--unit-us N] [--every N] [--seeds FIRST-LAST]`;
//! prints one JSON object a line: the complete run, and each sampled one. `tools/coverage` runs a series and
//! makes a table of it. Without arguments, a small one, as a test.

use serde_json::{Value, json};
use std::sync::atomic::AtomicBool;
use tierscope_system::result::SystemResult;
use tierscope_system::run::{Bound, RunOptions, Sampling, begin_at_mark, run_machines};
use tierscope_system::spec::{SystemSpec, load};
use tierscope_workload::{Stream, generator};

/// What is asked for.
struct Asked {
    words: Vec<String>,
    options: Vec<(String, String)>,
}

impl Asked {
    fn new(arguments: impl Iterator<Item = String>) -> Self {
        let mut asked = Asked { words: Vec::new(), options: Vec::new() };
        let mut arguments = arguments.filter(|one| one != "--bench");
        while let Some(one) = arguments.next() {
            match one.strip_prefix("--") {
                Some(name) => {
                    let value =
                        arguments.next().unwrap_or_else(|| panic!("--{name} needs a value"));
                    asked.options.push((name.to_owned(), value));
                }
                None => asked.words.push(one),
            }
        }
        asked
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.options.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn pairs(&self, name: &str) -> Vec<(String, String)> {
        let pair = |one: &str| one.split_once('=').map(|(key, value)| (key.into(), value.into()));
        self.all(name)
            .map(|one| pair(one).unwrap_or_else(|| panic!("{one}: write KEY=VALUE")))
            .collect()
    }

    fn number(&self, name: &str) -> Option<u64> {
        let value = self.all(name).last()?;
        Some(value.parse().unwrap_or_else(|_| panic!("--{name} {value}: write a number")))
    }

    fn system(&self) -> SystemSpec {
        let sets = self.pairs("set");
        load(&self.words[0], &sets).unwrap_or_else(|problems| panic!("{problems}")).spec
    }

    fn stream(&self) -> Box<dyn Stream> {
        let value = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
        let with = self.pairs("with").into_iter();
        let parameters: Vec<_> = with.map(|(key, text)| (key, value(&text))).collect();
        let name = &self.words[1];
        let found = generator::find(name).unwrap_or_else(|| panic!("no workload {name}"));
        found.make(&parameters, 1).unwrap_or_else(|problems| panic!("{problems:?}")).0
    }

    fn run(&self, sampling: Option<Sampling>, limit: Option<u64>) -> SystemResult {
        let (system, stream) = (self.system(), self.stream());
        let mut options = RunOptions { sampling, ..RunOptions::default() };
        options.start = self.number("skip").map(Bound::Accesses);
        begin_at_mark(stream.as_ref(), &mut options);
        options.stops = limit.map(Bound::Accesses).into_iter().collect();
        if sampling.is_none() {
            let most = self.number("time-ms").map(|ms| Bound::TimePs(ms * 1_000_000_000));
            options.stops.extend(most);
        }
        let never = AtomicBool::new(false);
        let outcome = run_machines(&[system], vec![stream], &options, &(), &never).remove(0);
        assert!(!outcome.failed, "{:?}", outcome.partial_reason);
        outcome.result
    }
}

/// What is estimated, of a run.
fn figures(result: &SystemResult) -> [(&'static str, f64); 4] {
    [
        ("time", result.time_s),
        ("latency", result.latency_ns.as_ref().map_or(0.0, |it| it.mean)),
        ("energy", result.energy.total_j.unwrap_or(0.0)),
        ("miss_rate", result.miss_rate),
    ]
}

fn main() {
    let mut asked = Asked::new(std::env::args().skip(1));
    if asked.words.len() < 2 {
        let small = "hybrid/quick gups --set hybrid.cache.capacity=2MiB --with table=8MiB --with updates=20000 \
                     --set store.read_latency=500ns --set store.write_latency=5us --unit-us 50 --every 10 \
                     --seeds 1-2";
        asked = Asked::new(small.split_whitespace().map(str::to_owned));
    }
    let whole = asked.run(None, asked.number("limit"));
    let mut told = json!({ "run": "complete", "accesses": whole.accesses, "wall_s": whole.wall_s });
    for (name, figure) in figures(&whole) {
        told[name] = figure.into();
    }
    println!("{told}");
    let seeds = asked.all("seeds").last().unwrap_or("1-20").split_once('-');
    let (first, last) = seeds.expect("--seeds FIRST-LAST");
    let number = |text: &str| text.parse::<u64>().expect("--seeds FIRST-LAST");
    let unit_ps = asked.number("unit-us").map(|us| us * 1_000_000);
    for seed in number(first)..=number(last) {
        let every = asked.number("every");
        let sampling = Some(Sampling { unit_ps, every, seed: Some(seed) });
        let sampled = asked.run(sampling, Some(whole.accesses));
        println!("{}", tell(seed, &whole, &sampled));
    }
}

fn tell(seed: u64, whole: &SystemResult, sampled: &SystemResult) -> Value {
    let mut told = json!({ "run": "sampled", "seed": seed, "wall_s": sampled.wall_s });
    let Some(sampling) = &sampled.sampling else { return told };
    told["units"] = sampling.units.into();
    told["detailed"] = sampling.detailed_share.into();
    let half = sampling.half_widths;
    let widths = [half.time, half.mean_latency, half.energy, half.miss_rate];
    for ((name, of_whole), ((_, found), width)) in
        figures(whole).into_iter().zip(figures(sampled).into_iter().zip(widths))
    {
        if of_whole > 0.0 {
            told[name] = json!({ "off": found / of_whole - 1.0, "half": width });
        }
    }
    let counters = whole.counters.iter().filter(|(_, count)| **count > 1000);
    let off: serde_json::Map<_, _> = counters
        .map(|(name, count)| {
            let found = sampled.counters.get(name).copied().unwrap_or(0) as f64;
            (name.clone(), (found / *count as f64 - 1.0).into())
        })
        .collect();
    told["counters"] = off.into();
    told
}
