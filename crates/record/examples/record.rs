//! Runs a program and records it: to nothing, or to a `.tst` file.
//!
//! ```text
//! cargo run --release -p tierscope-record --example record -- [-o FILE.tst] PROGRAM [ARGUMENTS]
//! ```

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use tierscope_record::job::SinkJob;
use tierscope_record::launch::{LIBRARY, LaunchError, LaunchJob, Output, launch};
use tierscope_record::sink::tst::TstJob;
use tierscope_record::symbols::Region;
use tierscope_workload::trace::TstMetadata;

fn main() -> ExitCode {
    match run() {
        Ok(status) => ExitCode::from(status as u8),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(125)
        }
    }
}

fn run() -> Result<i32, LaunchError> {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut sink = SinkJob::Discard { sites: None };
    if arguments.first().is_some_and(|first| first == "-o") && arguments.len() > 2 {
        arguments.remove(0);
        let path = PathBuf::from(arguments.remove(0));
        sink = SinkJob::Tst(TstJob { path, metadata: TstMetadata::default(), max_bytes: None });
    }
    if arguments.is_empty() {
        eprintln!("usage: record [-o FILE.tst] PROGRAM [ARGUMENTS]");
        return Ok(125);
    }
    // The library is built beside the directory of the examples.
    let beside = std::env::current_exe().ok();
    let target = beside.as_deref().and_then(|exe| exe.parent()?.parent());
    let library = target.map(|target| target.join(LIBRARY)).unwrap_or_default();
    let program = arguments.remove(0);
    let report = launch(&LaunchJob {
        program,
        arguments,
        sink,
        library,
        scratch_dir: std::env::temp_dir(),
        output: Output::Inherit,
        native: std::env::var_os("NATIVE").is_some(),
        region: Region::default(),
    })?
    .finish()?;
    eprintln!("{report:#?}");
    if let Some(result) = &report.result {
        let accesses = result["recorded"]["accesses"].as_f64().unwrap_or(0.0);
        let seconds = result["recorded_s"].as_f64().unwrap_or(0.0);
        eprintln!("{:.1} M accesses/s", accesses / seconds / 1e6);
    }
    Ok(report.exit_status)
}
