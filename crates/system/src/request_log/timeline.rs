//! Requests through their stages, as viewers of traces draw them: the Trace Event Format, which
//! Perfetto (ui.perfetto.dev) and Chrome's `about:tracing` read.

use super::Beside;
use std::io::{self, Write};
use std::path::Path;
use tierscope_kernel::Stage;

/// Requests that a timeline tells of at most: the first ones. A viewer holds all of them in memory.
pub(crate) const MOST_REQUESTS: u64 = 100_000;

/// A timeline being written. Each request is an asynchronous slice, and its stages are slices within.
///
/// Trace Event Format: `ts` in microseconds, here with six digits behind the point, so that
/// picoseconds are exact; asynchronous events `b` and `e` of one category and `id` nest.
#[derive(Debug)]
pub(crate) struct TimelineFile {
    out: Beside,
    told: u64,
}

/// What a timeline tells of one request.
pub(crate) struct Told<'a> {
    /// The track's number; tracks are told apart, and sorted, by it.
    pub track: u32,
    /// What it is, such as `load`.
    pub name: &'a str,
    /// What it concerns, for its details.
    pub address: u64,
    /// When it began, in picoseconds.
    pub start_ps: u64,
}

impl TimelineFile {
    /// Begins the timeline of a system, with the names of its tracks.
    ///
    /// # Errors
    /// Where it cannot be written, for people.
    pub fn create(path: &Path, system: &str, tracks: &[String]) -> Result<Self, String> {
        let mut out = Beside::create(path, "the timeline")?;
        out.write(|file| {
            let system = serde_json::to_string(system)?;
            write!(
                file,
                "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n\
                 {{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{{\"name\":{system}}}}}"
            )?;
            for (track, name) in tracks.iter().enumerate() {
                let name = serde_json::to_string(name)?;
                write!(
                    file,
                    ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":{track},\
                     \"args\":{{\"name\":{name}}}}}"
                )?;
            }
            Ok(())
        })?;
        Ok(TimelineFile { out, told: 0 })
    }

    /// A request, with its stages in the order in which it passed them.
    ///
    /// # Errors
    /// Where it cannot be written, for people.
    pub fn request(
        &mut self,
        told: &Told<'_>,
        stages: impl Iterator<Item = (Stage, u64)>,
    ) -> Result<(), String> {
        if self.told == MOST_REQUESTS {
            return Ok(());
        }
        self.told += 1;
        let (id, track) = (self.told, told.track);
        self.out.write(|file| {
            let mut at_ps = told.start_ps;
            let event = |file: &mut dyn Write, phase: char, name: &str, at_ps: u64| {
                write!(
                    file,
                    ",\n{{\"name\":\"{name}\",\"cat\":\"request\",\"ph\":\"{phase}\",\"id\":{id},\
                     \"pid\":1,\"tid\":{track},\"ts\":{}",
                    Microseconds(at_ps)
                )
            };
            event(file, 'b', told.name, at_ps)?;
            write!(file, ",\"args\":{{\"address\":\"{:#x}\"}}}}", told.address)?;
            for (stage, time_ps) in stages.filter(|(_, time_ps)| *time_ps > 0) {
                event(file, 'b', stage.name(), at_ps)?;
                file.write_all(b"}")?;
                at_ps += time_ps;
                event(file, 'e', stage.name(), at_ps)?;
                file.write_all(b"}")?;
            }
            event(file, 'e', told.name, at_ps)?;
            file.write_all(b"}")
        })
    }

    /// The timeline is complete: it takes its place.
    ///
    /// # Errors
    /// Where it cannot, for people.
    pub fn finish(&mut self) -> Result<(), String> {
        self.out.write(|file| -> io::Result<()> { file.write_all(b"\n]}\n") })?;
        self.out.finish()
    }
}

/// Picoseconds, printed as microseconds.
struct Microseconds(u64);

impl std::fmt::Display for Microseconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}
