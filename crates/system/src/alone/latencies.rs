//! A row for each request: when it came, how long it took, and where.

use super::{Flight, Takes};
use crate::request_log::{Beside, RequestFiles, TimelineFile, Told};
use std::io::Write;
use tierscope_kernel::Stage;
use tierscope_kernel::stage::StageTimes;
use tierscope_workload::requests::RequestKind;

/// The stages that a request to a memory alone may pass, in order.
const OF_A_MEMORY: &[Stage] = &[Stage::HostQueue, Stage::Controller, Stage::DramQueue, Stage::Dram];
/// The stages that a request to a store alone may pass, in order.
const OF_A_STORE: &[Stage] = &[
    Stage::BlockLayer,
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

/// What is told of single requests: a table of comma-separated values, in the order in which they are
/// answered, and a timeline.
pub(super) struct Latencies {
    stages: &'static [Stage],
    table: Option<Beside>,
    timeline: Option<TimelineFile>,
}

impl Latencies {
    /// Begins the files that are asked for, for a memory or a store.
    ///
    /// # Errors
    /// Where one cannot be written.
    pub fn create(files: &RequestFiles<'_>, system: &str, takes: Takes) -> Result<Self, String> {
        let stages = if takes == Takes::Lines { OF_A_MEMORY } else { OF_A_STORE };
        let begin = |path| -> Result<Beside, String> {
            let mut table = Beside::create(path, "latencies")?;
            let columns: String =
                stages.iter().map(|stage| format!(",{}_ps", stage.name())).collect();
            let head = "request,address,bytes,kind,arrival_ps,latency_ps";
            table.write(|file| writeln!(file, "{head}{columns}"))?;
            Ok(table)
        };
        let tracks = RequestKind::ALL.map(|kind| kind.name().to_owned());
        let timeline = |path| TimelineFile::create(path, system, &tracks);
        Ok(Latencies {
            stages,
            table: files.table.map(begin).transpose()?,
            timeline: files.timeline.map(timeline).transpose()?,
        })
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
        let (address, kind) = (request.address, request.kind);
        if let Some(table) = &mut self.table {
            table.write(|file| {
                let name = kind.name();
                write!(file, "{number},{address:#x},{bytes},{name},{arrival_ps},{latency_ps}")?;
                for stage in self.stages {
                    write!(file, ",{}", of(stage))?;
                }
                writeln!(file)
            })?;
        }
        if let Some(timeline) = &mut self.timeline {
            let (track, name) = (kind as u32, kind.name());
            let told = Told { track, name, address, start_ps: *arrival_ps };
            timeline.request(&told, self.stages.iter().map(|stage| (*stage, of(stage))))?;
        }
        Ok(())
    }

    /// The files are complete: they take their places.
    pub fn finish(&mut self) -> Result<(), String> {
        if let Some(table) = &mut self.table {
            table.finish()?;
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.finish()?;
        }
        Ok(())
    }
}
