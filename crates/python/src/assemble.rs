//! One result of the outcomes of all machines.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use tierscope_system::result::{
    Completeness, ProgramInfo, RunResult, SCHEMA, SystemResult, WorkloadInfo,
};
use tierscope_system::run::Outcome;
use tierscope_system::spec::SystemSpec;

/// What is known of a run beyond its machines' outcomes.
pub struct Known {
    /// What ran; the threads are filled in from the outcomes.
    pub workload: WorkloadInfo,
    /// The program, where one ran.
    pub program: Option<ProgramInfo>,
    /// Why the result is partial on every machine, if that is known.
    pub reasons: Vec<String>,
}

/// The result, and which machines failed and why, as JSON.
pub fn assemble(known: Known, systems: &[SystemSpec], outcomes: Vec<Outcome>) -> Value {
    let threads = outcomes.iter().map(|outcome| outcome.threads).max().unwrap_or(0);
    let mut reasons = known.reasons;
    let explained = !reasons.is_empty();
    let mut failures: Vec<(String, String)> = Vec::new();
    let mut results = BTreeMap::new();
    for (system, outcome) in systems.iter().zip(outcomes) {
        match outcome.partial_reason {
            Some(reason) if outcome.failed => {
                reasons.push(format!("{}: {reason}", system.name));
                failures.push((system.name.clone(), reason));
            }
            Some(reason) if !explained && !reasons.contains(&reason) => reasons.push(reason),
            _ => {}
        }
        results.insert(system.name.clone(), outcome.result);
    }
    compare_with_oracle(systems, &mut results);
    let complete = reasons.is_empty();
    let result = RunResult {
        version: crate::VERSION.into(),
        schema: SCHEMA,
        workload: WorkloadInfo { threads, ..known.workload },
        completeness: if complete { Completeness::Complete } else { Completeness::Partial },
        partial_reason: (!complete).then(|| reasons.join("; ")),
        program: known.program,
        systems: results,
    };
    json!({"result": result, "failures": failures})
}

/// Fills in the slowdown against the machine named `oracle`, else the first that is one.
fn compare_with_oracle(systems: &[SystemSpec], results: &mut BTreeMap<String, SystemResult>) {
    let named = systems.iter().find(|system| system.name == "oracle");
    let oracle = named.or_else(|| systems.iter().find(|system| system.oracle.is_some()));
    let time_s = oracle.and_then(|oracle| results.get(&oracle.name)).map(|result| result.time_s);
    let Some(time_s) = time_s.filter(|time_s| *time_s > 0.0) else { return };
    for result in results.values_mut() {
        result.slowdown = Some(result.time_s / time_s);
    }
}
