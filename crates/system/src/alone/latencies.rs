//! A row for each request: when it came, how long it took, and where.

use super::Flight;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use tierscope_kernel::Stage;
use tierscope_kernel::stage::StageTimes;
use tierscope_units::reason;

/// The stages that a request to a device alone may pass, in order.
const STAGES: [Stage; 4] = [Stage::HostQueue, Stage::Controller, Stage::DramQueue, Stage::Dram];

/// A table of comma-separated values being written: in the order in which requests are answered.
///
/// It stands beside its place until it is complete.
pub(super) struct Latencies {
    path: PathBuf,
    partial: PathBuf,
    file: BufWriter<File>,
}

impl Latencies {
    /// Begins the table.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn create(path: &Path) -> Result<Self, String> {
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
        let stages: String = STAGES.iter().map(|stage| format!(",{}_ps", stage.name())).collect();
        writeln!(file, "request,address,kind,arrival_ps,latency_ps{stages}")
            .map_err(|error| failed(path, &error))?;
        Ok(Latencies { path: path.to_owned(), partial, file })
    }

    /// A row. Requests are counted from 0 in the order of the trace.
    pub fn write(
        &mut self,
        flight: &Flight,
        latency_ps: u64,
        stages: &StageTimes,
    ) -> Result<(), String> {
        let Flight { number, request, arrival_ps, .. } = flight;
        let kind = if request.write { "write" } else { "read" };
        let [door, controller, queue, dram] = STAGES.map(|stage| stages[stage as usize]);
        debug_assert_eq!(door + controller + queue + dram, latency_ps, "a stage has no column");
        writeln!(
            self.file,
            "{number},{:#x},{kind},{arrival_ps},{latency_ps},{door},{controller},{queue},{dram}",
            request.address
        )
        .map_err(|error| failed(&self.path, &error))
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
