//! Committed counts of fixed runs, so that nothing moves unnoticed.
//!
//! A change that is meant to move them regenerates the files by one command and is reviewed with
//! them:
//!
//! ```text
//! TIERSCOPE_BLESS=1 cargo test -p tierscope-system --test validation golden
//! ```

use super::sensitivity::{Feel, PRESETS, SMALL, fitting};
use super::support::*;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use tierscope_workload::generator;

fn path(preset: &str) -> PathBuf {
    let name = format!("{}.json", preset.replace('/', "-"));
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

/// All that is counted, and the times that follow from it: whole numbers only.
fn counts(sums: &Sums) -> Value {
    let result = &sums.result;
    let mut all = Map::new();
    for (name, count) in [
        ("time_ps", sums.time_ps),
        ("instructions", result.instructions),
        ("kernel_instructions", result.kernel_instructions),
        ("accesses", sums.accesses),
        ("latency_ps", sums.latency_ps),
        ("store_bytes_read", result.store_bytes.read),
        ("store_bytes_written", result.store_bytes.written),
        ("dram_bytes_read", result.dram_bytes.read),
        ("dram_bytes_written", result.dram_bytes.written),
    ] {
        all.insert(name.into(), count.into());
    }
    let counters = result.counters.iter().filter(|(_, count)| **count > 0);
    all.extend(counters.map(|(name, count)| (name.clone(), (*count).into())));
    Value::Object(all)
}

/// Random and sequential updates by four threads, on the preset as it is.
fn gups(preset: &str) -> Value {
    let parameters = [("random", json!(0.5)), ("threads", json!(4))];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value));
    let (stream, all) = generator::find("gups").unwrap().make(&parameters, 1).unwrap();
    let counts = counts(&run_stream(&system(preset, &[]), stream));
    json!({ "workload": Map::from_iter(all), "changes": {}, "counts": counts })
}

/// A script, on the preset made small.
fn script(preset: &str, feel: Feel) -> Value {
    let changes: Map<_, _> =
        fitting(preset, SMALL).into_iter().map(|(path, value)| (path, value.into())).collect();
    let sets: Vec<(&str, &str)> =
        changes.iter().map(|(path, value)| (path.as_str(), value.as_str().unwrap())).collect();
    let counts = counts(&run(&system(preset, &[&sets]), &feel.threads()));
    json!({ "workload": format!("{feel:?}"), "changes": changes, "counts": counts })
}

/// Where two texts differ, line by line.
fn difference(was: &str, is: &str) -> String {
    let lines = was.lines().zip(is.lines()).filter(|(was, is)| was != is);
    lines.map(|(was, is)| format!("- {was}\n+ {is}\n")).collect()
}

#[test]
fn fixed_runs_count_what_they_counted_before() {
    for preset in PRESETS {
        let all = json!({
            "gups": gups(preset),
            "files": script(preset, Feel::Files),
            "parallel": script(preset, Feel::Parallel),
        });
        let is = format!("{all:#}\n");
        let path = path(preset);
        if std::env::var_os("TIERSCOPE_BLESS").is_some() {
            std::fs::write(&path, is).expect("the golden files can be written");
            continue;
        }
        let was = std::fs::read_to_string(&path).expect("the golden files are in the repository");
        let differ = difference(&was, &is);
        assert!(was == is, "{preset}: if that is meant, see {}:\n{differ}", file!());
    }
}
