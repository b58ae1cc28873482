//! A row for each request: when it came, how long it took, and where.

use super::{Flight, Takes};
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use tierscope_kernel::Stage;
use tierscope_kernel::stage::StageTimes;
use tierscope_units::reason;

/// The stages that a request to a memory alone may pass, in order.
const OF_A_MEMORY: &[Stage] = &[Stage::HostQueue, Stage::Controller, Stage::DramQueue, Stage::Dram];
/// The stages that a request to a store alone may pass, in order.
const OF_A_STORE: &[Stage] = &[
    Stage::HostQueue,
    Stage::Link,
    Stage::Controller,
    Stage::ControllerQueue,
    Stage::StoreQueue,
    Stage::Device,
    Stage::DramQueue,
    Stage::Dram,
    Stage::Medium,
];

/// A table of comma-separated values being written: in the order in which requests are answered.
///
/// It stands beside its place until it is complete.
pub(super) struct Latencies {
    path: PathBuf,
    partial: PathBuf,
    stages: &'static [Stage],
    file: BufWriter<File>,
}

impl Latencies {
    /// Begins the table for a memory or a store.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn create(path: &Path, takes: Takes) -> Result<Self, String> {
        let stages = if takes == Takes::Lines { OF_A_MEMORY } else { OF_A_STORE };
        let mut name = path.as_os_str().to_owned();
        name.push(".partial");
        let partial = PathBuf::from(name);
        // Only what is not there yet: it may be a link to something else, or of another run.
        let file = File::create_new(&partial).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => format!(
                "latencies cannot be written to {}: {} is there, of a run that is under way or that \
                 was ended; remove it, or name another file",
                path.display(),
                partial.display()
            ),
            _ => failed(path, &error),
        })?;
        let mut file = BufWriter::with_capacity(1 << 16, file);
        let columns: String = stages.iter().map(|stage| format!(",{}_ps", stage.name())).collect();
        writeln!(file, "request,address,bytes,kind,arrival_ps,latency_ps{columns}")
            .map_err(|error| failed(path, &error))?;
        Ok(Latencies { path: path.to_owned(), partial, stages, file })
    }

    /// A row. Requests are counted from 0 in the order of the trace.
    pub fn write(
        &mut self,
        flight: &Flight,
        latency_ps: u64,
        stages: &StageTimes,
    ) -> Result<(), String> {
        let Flight { number, request, bytes, arrival_ps, .. } = flight;
        let of = |stage: &Stage| stages[*stage as usize];
        let known_ps: u64 = self.stages.iter().map(of).sum();
        debug_assert_eq!(known_ps, latency_ps, "a stage has no column: {stages:?}");
        let (address, kind) = (request.address, request.kind.name());
        let mut write = || -> std::io::Result<()> {
            write!(self.file, "{number},{address:#x},{bytes},{kind},{arrival_ps},{latency_ps}")?;
            for stage in self.stages {
                write!(self.file, ",{}", of(stage))?;
            }
            writeln!(self.file)
        };
        write().map_err(|error| failed(&self.path, &error))
    }

    /// The table is complete: it takes its place.
    pub fn finish(&mut self) -> Result<(), String> {
        let done = self.file.flush().and_then(|()| std::fs::rename(&self.partial, &self.path));
        done.map_err(|error| failed(&self.path, &error))
    }
}

fn failed(path: &Path, error: &std::io::Error) -> String {
    format!("latencies cannot be written to {}: {}", path.display(), reason(error))
}
