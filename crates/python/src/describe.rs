//! Presets, descriptions and workloads: listed, resolved and checked.

use crate::error::{run_error, spec_error};
use crate::job::{Source, Workload};
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tierscope_record::launch::QemuBackend;
use tierscope_system::counts;
use tierscope_system::machine::{SamplingPlan, sampling_plan};
use tierscope_system::result::RunResult;
use tierscope_system::run::{self, RunOptions, Sampling};
use tierscope_system::spec::{self, Resolved, SystemSpec};
use tierscope_units::{KINDS, Size};
use tierscope_workload::Stream;
use tierscope_workload::generator::GENERATORS;
use tierscope_workload::trace::TstReader;

/// Version of tierscope.
#[pyfunction]
pub fn version() -> &'static str {
    crate::VERSION
}

/// The JSON schema of `system` (descriptions) or `result`.
#[pyfunction]
pub fn schema(of: &str) -> PyResult<String> {
    match of {
        "system" => Ok(spec::json_schema().to_string()),
        "result" => Ok(schemars::schema_for!(RunResult).to_value().to_string()),
        _ => Err(run_error("no-schema", format!("no schema of `{of}`: system or result"))),
    }
}

/// Name and summary of each preset, as a JSON list of pairs.
#[pyfunction]
pub fn list_systems() -> String {
    json!(spec::list()).to_string()
}

/// Name and one-line description of each host, a processor with an operating system, as JSON.
#[pyfunction]
pub fn list_hosts() -> String {
    json!(spec::hosts()).to_string()
}

/// Name and one-line description of each kernel, which a machine may have, as JSON.
#[pyfunction]
pub fn list_kernels() -> String {
    json!(spec::kernels()).to_string()
}

/// A host or a kernel of this name as it is written, each value with its source.
#[pyfunction]
pub fn part_text(name: &str) -> Option<&'static str> {
    spec::part_text(name)
}

/// Name, summary, dependences and parameters (name, default, meaning) of each generated workload, as JSON; and
/// whether it is requests for devices alone.
#[pyfunction]
pub fn list_workloads() -> String {
    let all = GENERATORS
        .iter()
        .map(|g| {
            json!({
                "name": g.name,
                "summary": g.summary,
                "dependences": g.dependences,
                "parameters": g.parameters,
                "alone": false,
            })
        })
        .chain(crate::requests::patterns());
    Value::from_iter(all).to_string()
}

/// Name, summary, grammar, example and parameters of each format of traces of requests, as JSON.
#[pyfunction]
pub fn list_formats() -> String {
    crate::requests::formats().to_string()
}

/// Resolves what `over` (JSON) says laid over `base`, a preset or a file, or `over` alone.
///
/// Gives JSON: the machine, its description with sources as TOML, what was laid over what, and the
/// paths of the values that `--set` or Python changed.
#[pyfunction]
#[pyo3(signature = (base, over = "{}", sets = Vec::new()))]
pub fn resolve(base: Option<&str>, over: &str, sets: Vec<(String, String)>) -> PyResult<String> {
    let over: Value = serde_json::from_str(over).map_err(|e| run_error("bad-json", e))?;
    let nothing_over = over.as_object().is_some_and(serde_json::Map::is_empty);
    let resolved = match base {
        Some(base) if nothing_over => spec::load(base, &sets),
        _ => spec::load_json(base, &over, PYTHON, &sets),
    };
    resolved.map(|resolved| machine(&resolved).to_string()).map_err(|p| spec_error(&p))
}

/// A preset or a file as TOML to start another machine from: each value with its meaning above it
/// and its source behind it.
#[pyfunction]
pub fn commented(reference: &str) -> PyResult<String> {
    let resolved = spec::load(reference, &[]).map_err(|p| spec_error(&p))?;
    Ok(spec::to_commented_toml(&resolved))
}

/// The QEMU that would run programs, as JSON: its path and version, or `missing` with the reason.
#[pyfunction]
pub fn qemu() -> String {
    let found = QemuBackend::find();
    match found {
        Ok(qemu) => json!({"path": qemu.path(), "version": qemu.version()}),
        Err(why) => json!({"missing": why.to_string()}),
    }
    .to_string()
}

/// What gives machines (resolved, as JSON) so much DRAM before their stores, and the rest in
/// proportion: a JSON list of path and value of each change, for each machine.
#[pyfunction]
pub fn scale(systems: &str, dram_bytes: u64) -> PyResult<String> {
    let systems = machines(systems)?;
    let sets = spec::scale(&systems, dram_bytes).map_err(|p| spec_error(&p))?;
    Ok(json!(sets).to_string())
}

/// How much DRAM a machine (resolved, as JSON) has, and what memory its simulation takes,
/// as JSON.
#[pyfunction]
pub fn sizes(system: &str) -> PyResult<String> {
    let system: SystemSpec =
        serde_json::from_str(system).map_err(|error| run_error("bad-systems", error))?;
    Ok(json!({"dram": system.dram_sizes(), "memory": system.memory_estimate()}).to_string())
}

/// Refuses machines (resolved, as JSON) that what comes before the region, which begins at `start`
/// (JSON), cannot warm functionally.
#[pyfunction]
pub fn check_functional(systems: &str, start: &str, warming: &str) -> PyResult<()> {
    let systems = machines(systems)?;
    let start = serde_json::from_str(start).map_err(|error| run_error("bad-region", error))?;
    let warming = serde_json::from_str(warming).map_err(|error| run_error("bad-region", error))?;
    run::check_functional(&systems, start, warming).map_err(|why| run_error("usage", why))
}

/// Machines, resolved, from JSON.
fn machines(systems: &str) -> PyResult<Vec<SystemSpec>> {
    serde_json::from_str(systems).map_err(|error| run_error("bad-systems", error))
}

/// Which of these machines (resolved, as JSON) functional warming leaves alike, so that one warm-up serves them:
/// their places, group by group, as JSON.
#[pyfunction]
pub fn warmed_alike(systems: &str) -> PyResult<String> {
    let systems = machines(systems)?;
    let options = RunOptions { shares_warming: true, ..RunOptions::default() };
    let groups = run::alike(&systems, &options);
    serde_json::to_string(&groups).map_err(|error| run_error("bad-systems", error))
}

/// By what a generated workload (as JSON) can be warmed together with others, where what comes before the region (its
/// start, as JSON) is what its first thread does before its own part: a word that is the same for those that begin so.
#[pyfunction]
pub fn prelude(workload: &str, start: &str) -> PyResult<Option<String>> {
    let wrong = |error: serde_json::Error| run_error("bad-workload", error);
    let workload: Workload = serde_json::from_str(workload).map_err(wrong)?;
    let start: Option<run::Bound> = serde_json::from_str(start).map_err(wrong)?;
    let Workload::Generated { .. } = &workload else { return Ok(None) };
    let Source::Stream(stream) = workload.prepare()?.source else { return Ok(None) };
    let Some(prelude) = stream.prelude() else { return Ok(None) };
    let all_of_it = match start {
        Some(run::Bound::Accesses(skipped)) => skipped <= prelude.pages(),
        Some(run::Bound::Mark(run::mark::START)) | None => {
            stream.gives_mark(run::mark::START) == Some(true)
        }
        _ => false,
    };
    Ok(all_of_it.then(|| format!("{:016x}", prelude.hash())))
}

/// Which of these machines (resolved, as JSON) one pass counts without times: their places, group by group, as JSON.
#[pyfunction]
pub fn counted_together(systems: &str) -> PyResult<String> {
    let systems = machines(systems)?;
    serde_json::to_string(&counts::together(&systems))
        .map_err(|error| run_error("bad-systems", error))
}

/// Refuses machines (resolved, as JSON) that cannot be counted without times.
#[pyfunction]
pub fn check_counts(systems: &str) -> PyResult<()> {
    let systems = machines(systems)?;
    counts::check(&systems, &RunOptions::default()).map_err(|why| run_error("usage", why))
}

/// Refuses machines (resolved, as JSON) that cannot be sampled where they are warmed so (as JSON).
#[pyfunction]
pub fn check_sampling(systems: &str, warming: &str) -> PyResult<()> {
    let systems = machines(systems)?;
    let warming = serde_json::from_str(warming).map_err(|error| run_error("bad-region", error))?;
    run::check_sampling(&systems, warming).map_err(|why| run_error("usage", why))
}

/// Whether a workload, given as in a job, is itself a sample: of windows of its program.
#[pyfunction]
pub fn is_sample(py: Python<'_>, workload: &str) -> PyResult<bool> {
    let workload: Workload =
        serde_json::from_str(workload).map_err(|error| run_error("bad-workload", error))?;
    Ok(py.detach(|| workload.prepare())?.windows.is_some())
}

/// What is known of a workload, given as in a job, before it runs, as JSON: accesses, about how many they are where that
/// alone is known, about how many instructions, accesses before its region, and bytes that it maps.
#[pyfunction]
pub fn foreseen(py: Python<'_>, workload: &str) -> PyResult<String> {
    let workload: Workload =
        serde_json::from_str(workload).map_err(|error| run_error("bad-workload", error))?;
    let stream = match py.detach(|| workload.prepare())?.source {
        Source::Stream(stream) => stream,
        Source::Requests(arrivals) => {
            let count = arrivals.count();
            let (accesses, none) = (json!(count), Value::Null);
            return Ok(known_of([accesses.clone(), accesses, none.clone(), none.clone(), none]));
        }
    };
    let mapped_bytes = stream.footprint().map(|footprint| footprint.bytes);
    let before = stream.accesses_before_region();
    let (accesses, about) = py.detach(move || (stream.accesses(), stream.about()));
    let instructions = about.and_then(|about| about.instructions);
    let about = about.map(|about| about.accesses);
    Ok(known_of([
        json!(accesses),
        json!(about),
        json!(instructions),
        json!(before),
        json!(mapped_bytes),
    ]))
}

fn known_of(known: [Value; 5]) -> String {
    let names = [
        "accesses",
        "accesses_about",
        "instructions_about",
        "accesses_before_region",
        "mapped_bytes",
    ];
    json!(names.into_iter().zip(known).collect::<BTreeMap<_, _>>()).to_string()
}

/// Of each machine (resolved, as JSON), how a run of it is sampled: simulated picoseconds of a unit, of what is in detail
/// before it in the mean, and of a period; nothing where it cannot be.
#[pyfunction]
pub fn sampling_plans(systems: &str) -> PyResult<Vec<Option<(u64, u64, u64)>>> {
    let plan = |system: &SystemSpec| {
        let SamplingPlan { unit_ps, refill_ps, period_ps } =
            sampling_plan(system, Sampling::default()).ok()?;
        // Up to a unit more where what is under way begins anew.
        let more_ps = if system.paging().is_none() { unit_ps / 2 } else { 0 };
        Some((unit_ps, refill_ps.saturating_add(more_ps), period_ps))
    };
    Ok(machines(systems)?.iter().map(plan).collect())
}

/// Why nothing is scaled to requests.
const NOT_SCALED: &str = "a device alone has no store that its DRAM could be scaled before; set \
                          device.capacity instead, or store.capacity";

/// Bytes that a workload, given as in a job, touches: it is gone through once, on no machine.
#[pyfunction]
pub fn touched(py: Python<'_>, workload: &str) -> PyResult<u64> {
    const ASK_EVERY: Duration = Duration::from_millis(100);
    let workload: Workload =
        serde_json::from_str(workload).map_err(|error| run_error("bad-workload", error))?;
    let mut interrupt = None;
    let counted = py.detach(|| {
        let Source::Stream(mut stream) = workload.prepare_for(&[])?.source else {
            return Err(run_error("no-footprint", NOT_SCALED));
        };
        let mut asked = Instant::now();
        let mut goes_on = || {
            if asked.elapsed() >= ASK_EVERY {
                asked = Instant::now();
                interrupt = Python::attach(|py| py.check_signals()).err();
            }
            interrupt.is_none()
        };
        tierscope_workload::touched::touched(&mut *stream, &mut goes_on)
            .map_err(|error| run_error("unreadable-recording", error))
    })?;
    match (counted, interrupt) {
        (_, Some(interrupt)) => Err(interrupt),
        (counted, None) => Ok(counted.unwrap_or_default().bytes()),
    }
}

/// Resolves several presets or files. A change applies to each machine that has the part.
///
/// Gives a JSON list of what [`resolve`] gives.
#[pyfunction]
#[pyo3(signature = (references, sets = Vec::new()))]
pub fn resolve_all(references: Vec<String>, sets: Vec<(String, String)>) -> PyResult<String> {
    let resolved = spec::load_all(&references, &sets).map_err(|p| spec_error(&p))?;
    Ok(Value::from_iter(resolved.iter().map(machine)).to_string())
}

/// Which of several machines, a JSON list, a change of a path applies to; `lost` says that there are more, which
/// cannot be read.
#[pyfunction]
pub fn applies_to(machines: &str, path: &str, lost: bool) -> PyResult<Vec<bool>> {
    let specs: Vec<_> = serde_json::from_str(machines).map_err(|e| run_error("bad-systems", e))?;
    Ok(spec::applies_to(&specs, path, lost))
}

/// Resolves a description given as TOML, called `name` in messages. Gives what [`resolve`] gives.
#[pyfunction]
#[pyo3(signature = (name, text, sets = Vec::new()))]
pub fn resolve_text(name: &str, text: &str, sets: Vec<(String, String)>) -> PyResult<String> {
    let resolved = spec::load_text(name, text, &sets).map_err(|p| spec_error(&p))?;
    Ok(machine(&resolved).to_string())
}

/// Raises every mistake of a description; of one that has none, what in it has no effect.
#[pyfunction]
pub fn check_file(path: &str) -> PyResult<Vec<String>> {
    spec::load(path, &[]).map(|it| it.spec.remarks()).map_err(|p| spec_error(&p))
}

/// Raises what is wrong with a workload, given as in a job, as far as it shows before it runs on a
/// machine.
#[pyfunction]
pub fn check_workload(py: Python<'_>, workload: &str) -> PyResult<()> {
    let workload: Workload =
        serde_json::from_str(workload).map_err(|error| run_error("bad-workload", error))?;
    py.detach(|| workload.prepare()).map(|_| ())
}

/// The files that a recording says its program used, by the paths that it has of them.
#[pyfunction]
pub fn recorded_files(py: Python<'_>, path: PathBuf) -> PyResult<Vec<String>> {
    let reader = py
        .detach(|| TstReader::open(&path, false))
        .map_err(|error| run_error("unreadable-recording", error))?;
    Ok(reader.files().iter().map(|file| file.name.clone()).collect())
}

/// The files that the path of a trace of requests names: itself, or, where there is none of that name, those
/// between its commas.
#[pyfunction]
pub fn trace_files(path: PathBuf) -> Vec<PathBuf> {
    crate::requests::files(&path)
}

/// The name that was most likely meant by `word`, if any was.
#[pyfunction]
pub fn nearest(word: &str, names: Vec<String>) -> Option<String> {
    tierscope_units::nearest(word, names.iter().map(String::as_str)).map(str::to_owned)
}

/// Who lays values over a description from Python: the source of each of them.
const PYTHON: &str = "Python";

fn machine(resolved: &Resolved) -> Value {
    // A description that was kept has as its source what the source was then.
    let is_changed = |source: &spec::Source| {
        let said = if source.text.is_empty() { &source.place } else { &source.text };
        said == PYTHON || said.starts_with("--set ")
    };
    let changed = resolved.sources.iter().filter(|(_, source)| is_changed(source));
    json!({
        "changed": changed.map(|(path, _)| path).collect::<Vec<_>>(),
        "spec": resolved.spec,
        "organization": resolved.spec.organization(),
        "toml": spec::to_toml(resolved),
        "origin": resolved.origin,
    })
}

/// The bytes of a size with its unit; an error has a code, a reason and a mend, as a JSON list.
#[pyfunction]
pub fn size_bytes(text: &str) -> PyResult<u64> {
    text.parse::<Size>()
        .map(Size::bytes)
        .map_err(|error| run_error(error.code, json!([error.reason, error.mend])))
}

/// Kind and value, in the kind's smallest unit, of a text that is a number with a unit of any kind;
/// nothing where it is none.
#[pyfunction]
pub fn quantity(text: &str) -> Option<(&'static str, u64)> {
    KINDS.iter().find_map(|kind| kind.parse(text).ok().map(|value| (kind.name, value)))
}

/// A value, in its kind's smallest unit, in the shortest text that says it exactly.
#[pyfunction]
pub fn print_quantity(kind: &str, value: u64) -> PyResult<String> {
    let known = tierscope_units::kind(kind)
        .ok_or_else(|| run_error("no-kind", format!("there is no kind of quantity `{kind}`")))?;
    Ok(known.print(value))
}

/// What a recording says about itself and holds, as JSON.
#[pyfunction]
#[pyo3(signature = (path, allow_truncated = false))]
pub fn trace_info(py: Python<'_>, path: PathBuf, allow_truncated: bool) -> PyResult<String> {
    let reader = py
        .detach(|| TstReader::open(&path, allow_truncated))
        .map_err(|e| run_error("unreadable-recording", e))?;
    let totals = reader.totals();
    Ok(json!({
        "command": reader.metadata().command,
        "recorder": reader.metadata().recorder,
        "sites": reader.metadata().sites,
        "version": reader.metadata().tierscope_version,
        "file_bytes": reader.file_bytes(),
        "threads": reader.threads().len(),
        "operations": reader.operations(),
        "loads": totals.map(|t| t.loads),
        "stores": totals.map(|t| t.stores),
        "calls": totals.map(|t| t.calls),
        "instructions": totals.map(|t| t.instructions),
        "filter": reader.metadata().filter.map(|filter| filter.to_string()),
        "left_out": totals.map(|t| t.left_out_loads + t.left_out_stores),
        "windows": reader.metadata().windows.map(|windows| windows.to_string()),
        "skipped": totals.and_then(|t| t.skipped),
        "ended": totals.map(|t| t.ended.clone()),
        "marks": totals.and_then(|t| t.marks.as_ref()),
        "missing": reader.missing(),
        "tells_missing": reader.tells_missing(),
        "format": reader.version(),
        "damage": reader.damage().map(ToString::to_string),
    })
    .to_string())
}
