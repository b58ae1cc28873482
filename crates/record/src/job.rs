//! What the launcher asks of the recorder: a JSON file.

use crate::sink::tst::TstJob;
use crate::symbols::Place;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tierscope_system::run::RunOptions;
use tierscope_system::spec::SystemSpec;
use tierscope_workload::SiteGrain;

/// Version of the job's layout: launcher and recorder must agree.
pub const VERSION: u32 = 6;

/// A recorder's job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// [`VERSION`].
    pub version: u32,
    /// The log to publish to, made by [`crate::publish::create`].
    pub log: PathBuf,
    /// What becomes of the operations.
    pub sink: SinkJob,
    /// Places in the program's code that give marks.
    pub places: Vec<Place>,
    /// The kernel's number of the launcher: the run ends with it.
    pub launcher: u32,
    /// What runs a program observed, with this job: the last argument, the plugin's, can be added to;
    /// `-0`, the program's name, its path and its arguments follow. For programs that a process runs in
    /// its place.
    pub emulator: Vec<String>,
}

/// What becomes of the operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum SinkJob {
    /// They are counted and dropped.
    Discard {
        /// How finely the sites of the program's code are told apart, if they are.
        sites: Option<SiteGrain>,
    },
    /// They are written to a recording.
    Tst(TstJob),
    /// They run on machines meanwhile.
    Machines(MachinesJob),
}

/// Machines to run on meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachinesJob {
    /// The machines, resolved and valid.
    pub systems: Vec<SystemSpec>,
    /// How to run them.
    pub options: RunOptions,
    /// Operations held in memory for machines that lag, in bytes.
    pub memory_bound_bytes: u64,
    /// Where what exceeds that goes.
    pub spill_dir: PathBuf,
}

impl SinkJob {
    /// How finely the sites of the program's code are to be told apart, if they are.
    pub fn sites(&self) -> Option<SiteGrain> {
        match self {
            SinkJob::Discard { sites } => *sites,
            SinkJob::Tst(job) => job.metadata.sites,
            SinkJob::Machines(job) => job.options.sites,
        }
    }
}

impl Job {
    /// Reads a job. An error says what is wrong, for people.
    pub fn read(path: &Path) -> Result<Job, String> {
        let shown = path.display();
        let text = std::fs::read(path).map_err(|error| format!("the job {shown}: {error}"))?;
        let job: Job =
            serde_json::from_slice(&text).map_err(|error| format!("the job {shown}: {error}"))?;
        if job.version != VERSION {
            return Err(format!(
                "the job {shown} has version {}, this recorder takes version {VERSION}: launcher \
                 and recorder are of different versions of tierscope",
                job.version
            ));
        }
        Ok(job)
    }
}
