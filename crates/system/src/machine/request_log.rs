//! What is told of single requests: accesses that the private caches did not serve at once, and pages
//! that move between memory and store.

use super::account::SlowHit;
use super::calls::Called;
use super::memory::{Miss, PageIo};
use super::{Machine, MachineError};
use crate::request_log::{Beside, RequestFiles, TimelineFile, Told};
use std::io::Write;
use tierscope_kernel::{Stage, StageTimes, Timeline};
use tierscope_model::os::paging::Area;
use tierscope_model::request::Control;

/// The files of a machine, and the first error in writing them.
pub(super) struct RequestLog {
    table: Option<Beside>,
    timeline: Option<TimelineFile>,
    number: u64,
    failed: Option<String>,
}

/// What is told of one.
struct Row<'a> {
    kind: &'static str,
    /// Hardware thread; None for pages.
    thread: Option<usize>,
    address: u64,
    area: &'a str,
    end_ps: u64,
    stages: &'a Timeline,
    /// Time by stage of a fault before these.
    fault: Option<&'a StageTimes>,
}

impl RequestLog {
    fn create(files: &RequestFiles<'_>, system: &str, threads: usize) -> Result<Self, String> {
        let begin = |path| -> Result<Beside, String> {
            let mut table = Beside::create(path, "latencies")?;
            let columns: String =
                Stage::ALL.iter().map(|stage| format!(",{}_ps", stage.name())).collect();
            let head = "request,kind,hardware_thread,address,area,arrival_ps,latency_ps";
            table.write(|file| writeln!(file, "{head}{columns}"))?;
            Ok(table)
        };
        let mut tracks: Vec<_> = (0..threads).map(|at| format!("hardware thread {at}")).collect();
        tracks.push("pages".into());
        let timeline = |path| TimelineFile::create(path, system, &tracks);
        Ok(RequestLog {
            table: files.table.map(begin).transpose()?,
            timeline: files.timeline.map(timeline).transpose()?,
            number: 0,
            failed: None,
        })
    }

    fn tell(&mut self, row: &Row<'_>, tracks: usize) -> Result<(), String> {
        let mut times: StageTimes = row.fault.copied().unwrap_or_default();
        let fault_ps: u64 = times.iter().sum();
        row.stages.iter().for_each(|(stage, time_ps)| times[stage as usize] += time_ps);
        let latency_ps: u64 = times.iter().sum();
        let start_ps = row.end_ps - latency_ps;
        let address = format!("{:#x}", row.address);
        self.write_row(row.kind, row.thread, (&address, row.area), row.end_ps, &times)?;
        if let Some(timeline) = &mut self.timeline {
            // What a fault took is known by stage, not in order: it is drawn in the order of stages.
            let fault = row.fault.into_iter().flatten().copied();
            let before = Stage::ALL.into_iter().zip(fault);
            let track = row.thread.unwrap_or(tracks) as u32;
            let told = Told { track, name: row.kind, address: row.address, start_ps };
            debug_assert!(fault_ps <= latency_ps);
            timeline.request(&told, before.chain(row.stages.iter()))?;
        }
        Ok(())
    }

    /// A row of the table, of what took so much time by stage.
    fn write_row(
        &mut self,
        kind: &str,
        thread: Option<usize>,
        (address, area): (&str, &str),
        end_ps: u64,
        times: &StageTimes,
    ) -> Result<(), String> {
        let (number, area) = (self.number, quoted(area));
        self.number += 1;
        let Some(table) = &mut self.table else { return Ok(()) };
        let latency_ps: u64 = times.iter().sum();
        let start_ps = end_ps - latency_ps;
        let thread = thread.map(|thread| thread.to_string()).unwrap_or_default();
        table.write(|file| {
            write!(file, "{number},{kind},{thread},{address},{area},{start_ps},{latency_ps}")?;
            times.iter().try_for_each(|time_ps| write!(file, ",{time_ps}"))?;
            writeln!(file)
        })
    }

    fn finish(&mut self) -> Result<(), String> {
        if let Some(table) = &mut self.table {
            table.finish()?;
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.finish()?;
        }
        Ok(())
    }
}

/// A field of comma-separated values (RFC 4180): in quotation marks where it must be.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

impl Machine {
    /// Tells of each request in these files.
    ///
    /// # Errors
    /// Where one cannot be made, or where the run is sampled: most of its requests are passed over.
    pub(crate) fn log_requests(&mut self, files: &RequestFiles<'_>) -> Result<(), MachineError> {
        if self.sampler.is_some() {
            return Err(MachineError::RequestLog(
                "a sampled run passes most requests over, and cannot tell each; run it without \
                 sampling, or with a region of interest"
                    .into(),
            ));
        }
        let log = RequestLog::create(files, &self.spec.name, self.contexts.len());
        self.request_log = Some(Box::new(log.map_err(MachineError::RequestLog)?));
        Ok(())
    }

    /// Fails where the log could not be written.
    pub(super) fn mind_request_log(&mut self) -> Result<(), MachineError> {
        match self.request_log.as_mut().and_then(|log| log.failed.take()) {
            Some(failed) => Err(MachineError::RequestLog(failed)),
            None => Ok(()),
        }
    }

    /// The log is complete, where there is one.
    pub(super) fn finish_request_log(&mut self) -> Result<(), MachineError> {
        self.mind_request_log()?;
        match self.request_log.take() {
            Some(mut log) => log.finish().map_err(MachineError::RequestLog),
            None => Ok(()),
        }
    }

    /// An access has ended that the private caches did not serve at once.
    #[inline]
    pub(super) fn log_miss(&mut self, miss: &Miss, end_ps: u64) {
        if self.request_log.is_some() && self.region.has_begun() {
            self.tell_miss(miss, end_ps);
        }
    }

    /// A hit of a private cache has ended that waited, walked or faulted before.
    #[inline]
    pub(super) fn log_hit(&mut self, context: usize, line: u64, hit: Option<SlowHit>) {
        if self.request_log.is_some()
            && self.region.has_begun()
            && let Some(hit) = hit
        {
            self.tell_hit(context, line, &hit);
        }
    }

    #[cold]
    fn tell_hit(&mut self, context: usize, line: u64, hit: &SlowHit) {
        let area = self.area_name(hit.area);
        let Some(log) = &mut self.request_log else { return };
        let row = Row {
            kind: if hit.write { "store" } else { "load" },
            thread: Some(context),
            address: line << self.fixed.line_shift,
            area: &area,
            end_ps: hit.end_ps,
            stages: &hit.timeline,
            fault: hit.fault.as_deref(),
        };
        if log.failed.is_none() {
            log.failed = log.tell(&row, self.contexts.len()).err();
        }
    }

    fn area_name(&self, index: u32) -> String {
        match Area::file(index) {
            Some(file) => self
                .stream
                .files()
                .get(file as usize)
                .map_or_else(|| format!("file {file}"), |file| file.name.clone()),
            None => Area::NAMES[index as usize].to_owned(),
        }
    }

    #[cold]
    fn tell_miss(&mut self, miss: &Miss, end_ps: u64) {
        let area = self.area_name(miss.cause.area);
        let Some(log) = &mut self.request_log else { return };
        let tracks = self.contexts.len();
        let address = miss.line << self.fixed.line_shift;
        let mut tell = |kind, stages: &Timeline, fault: Option<&StageTimes>| {
            if log.failed.is_none() {
                let (thread, area) = (Some(miss.context), area.as_str());
                let row = Row { kind, thread, address, area, end_ps, stages, fault };
                log.failed = log.tell(&row, tracks).err();
            }
        };
        if miss.measured {
            let kind = if miss.write { "store" } else { "load" };
            tell(kind, &miss.timeline, miss.fault.as_deref());
        }
        for (_, timeline, fault) in miss.finished_merged(end_ps) {
            tell("joined", &timeline, fault);
        }
    }

    /// The call of a hardware thread's thread has returned.
    #[inline]
    pub(super) fn log_call(&mut self, context: usize, called: &Called, end_ps: u64) {
        if self.request_log.is_some() && self.region.has_begun() {
            self.tell_call(context, called, end_ps);
        }
    }

    #[cold]
    fn tell_call(&mut self, context: usize, called: &Called, end_ps: u64) {
        let thread = &self.threads[self.contexts[context].thread];
        let mut times = StageTimes::default();
        for (owner, own_ps) in called.took(&thread.times).into_iter().enumerate() {
            let stage = Stage::ALL.get(owner).copied().unwrap_or(Stage::Core);
            times[stage as usize] += own_ps;
        }
        let area = called.file.map_or(String::new(), |file| self.area_name(Area::FILES + file));
        let Some(log) = &mut self.request_log else { return };
        if log.failed.is_none() {
            // Accesses within it have rows of their own, and slices in the timeline.
            let kind = format!("call_{}", called.name());
            let told = log.write_row(&kind, Some(context), ("", &area), end_ps, &times);
            log.failed = told.err();
        }
    }

    /// A page has moved.
    #[inline]
    pub(super) fn log_page(&mut self, page: &PageIo, timeline: &Timeline, end_ps: u64) {
        if self.request_log.is_some() && self.region.has_begun() && !self.passes_over() {
            self.tell_page(page, timeline, end_ps);
        }
    }

    #[cold]
    fn tell_page(&mut self, page: &PageIo, timeline: &Timeline, end_ps: u64) {
        let Some(log) = &mut self.request_log else { return };
        let row = Row {
            kind: match (page.background, page.write) {
                _ if page.control == Some(Control::Flush) => "flush",
                _ if page.control.is_some() => "trim",
                (false, false) => "page_read",
                (false, true) => "page_write",
                (true, false) => "background_page_read",
                (true, true) => "background_page_write",
            },
            thread: None,
            address: page.store_address,
            area: "",
            end_ps,
            stages: timeline,
            fault: None,
        };
        if log.failed.is_none() {
            log.failed = log.tell(&row, self.contexts.len()).err();
        }
    }
}
