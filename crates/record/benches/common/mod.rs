//! Runs programs under the recorder, for benchmarks.

use std::path::{Path, PathBuf};
use std::process::Command;
use tierscope_record::job::SinkJob;
use tierscope_record::launch::{LIBRARY, LaunchJob, Output, Report, launch};
use tierscope_record::symbols::Region;

/// A directory for files that go with the benchmark.
pub fn scratch() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// Compiles a program of loops over memory.
pub fn loops() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/guest/loops.c");
    let program = scratch().join(format!("loops-{}", std::process::id()));
    let compiled = Command::new("cc").args(["-O2", "-o"]).args([&program, &source]).status();
    assert!(compiled.is_ok_and(|status| status.success()), "loops.c cannot be compiled");
    program
}

/// Runs a program under the recorder.
pub fn record(program: &Path, arguments: &[&str], sink: SinkJob) -> Report {
    let bench = std::env::current_exe().expect("the bench has a path");
    let job = LaunchJob {
        program: program.into(),
        arguments: arguments.iter().map(Into::into).collect(),
        sink,
        library: bench.with_file_name(LIBRARY),
        scratch_dir: scratch(),
        output: Output::Null,
        native: false,
        region: Region::default(),
    };
    let report = launch(&job).and_then(|launched| launched.finish());
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    assert!(report.is_complete(), "{report:?}");
    report
}

/// Accesses that were recorded.
pub fn accesses(report: &Report) -> f64 {
    let result = report.result.as_ref().expect("a complete run has a result");
    result["recorded"]["accesses"].as_f64().unwrap_or(0.0)
}
