//! `oracle`: everything is in DRAM, however large. The machine that others are measured against.

mod power;

use super::versions::RequestVersions;
use super::{
    DramSize, Durable, Organization, OrganizationDescription, OrganizationReport, PagesMoved,
    Surroundings,
};
use crate::activity::Activity;
use crate::medium::{DramSpec, dram::Dram};
use crate::power::PowerFailure;
use crate::request::{
    Completion, Device, Full, LineRequest, LineResponse, PageRequest, Request, Response, Tell,
    Traffic,
};
use power::Power;
use serde::{Deserialize, Serialize};
use std::any::Any;
use tierscope_kernel::{CowMap, Slab};
use tierscope_units::{Problems, Size};

/// `oracle`: all in DRAM, however large.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OracleSpec {
    /// Main memory. A workload that needs more is an error.
    pub capacity: Size,
}

impl OrganizationDescription for OracleSpec {
    fn name(&self) -> &'static str {
        "oracle"
    }

    fn needs_store(&self) -> bool {
        false
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "capacity", self.capacity, Size::from_bytes(1 << 20));
    }

    fn check_with(&self, path: &str, machine: &Surroundings<'_>, problems: &mut Problems) {
        machine.check_memory(&format!("{path}.capacity"), self.capacity, problems);
    }

    fn dram_size(&self) -> Option<DramSize> {
        Some(DramSize { key: "capacity", capacity: self.capacity, part: Size::from_bytes(1) })
    }

    fn build(&self, machine: &Surroundings<'_>) -> Option<Box<dyn Organization>> {
        let line_bytes = machine.line?.bytes();
        Some(Box::new(Oracle::new(self, machine.dram?, line_bytes, machine.check_data)))
    }
}

/// All of main memory in DRAM; there is no store.
pub struct Oracle {
    dram: Dram,
    line_bytes: u32,
    /// Bytes that were moved in functional warming.
    warmed: Traffic,
    data: Option<Data>,
    /// What becomes of it when power fails.
    power: Box<Power>,
    /// Room for what the DRAM reports, kept to spare the allocation.
    done: Vec<Completion>,
}

/// Versions of lines, where data are checked.
struct Data {
    /// Those of requests.
    versions: RequestVersions,
    /// What DRAM holds: changed when a write is done.
    content: CowMap<u64>,
    /// Requests at the DRAM, which knows each by its number in the slab.
    pending: Slab<LineRequest>,
}

impl Oracle {
    /// An oracle with all rows closed. With `check_data` every line's version is followed, and the
    /// descriptions have been checked.
    pub fn new(spec: &OracleSpec, dram: &DramSpec, line_bytes: u64, check_data: bool) -> Self {
        Oracle {
            dram: Dram::new(dram, spec.capacity.bytes(), line_bytes),
            line_bytes: line_bytes as u32,
            warmed: Traffic::default(),
            data: check_data.then(|| Data::new(line_bytes as u32)),
            power: Box::new(Power::new(dram.backup.as_ref(), spec.capacity.bytes())),
            done: Vec::new(),
        }
    }
}

impl Data {
    fn new(line_bytes: u32) -> Self {
        Data {
            versions: RequestVersions::new(line_bytes),
            content: CowMap::new(0),
            pending: Slab::new(),
        }
    }

    fn fork(&mut self) -> Self {
        Data {
            versions: self.versions.fork(),
            content: self.content.fork(),
            pending: self.pending.clone(),
        }
    }

    /// Notes whether the DRAM has taken the request of this number: one refused leaves no trace.
    fn settle(&mut self, number: u32, taken: bool) {
        if taken {
            self.versions.submit(number, &self.pending[number]);
        } else {
            self.pending.remove(number);
        }
    }

    /// The requester's id, and the version that the DRAM returns.
    fn complete(&mut self, number: u32, line_bytes: u32) -> (u32, u64) {
        let LineRequest { id, address, write, version, .. } = self.pending.remove(number);
        let line = address / u64::from(line_bytes);
        if write {
            self.content.set(line, version);
            self.versions.history.touch(line, 1);
        } else {
            self.versions.find(number, self.content.get(line));
        }
        (id, self.versions.answer(number))
    }
}

impl Organization for Oracle {
    fn memory_bytes(&self) -> u64 {
        self.dram.capacity_bytes()
    }

    fn submit(&mut self, now_ps: u64, request: LineRequest) -> Result<(), Full> {
        let LineRequest { id, address, write, .. } = request;
        let id = self.data.as_mut().map_or(id, |data| data.pending.insert(request));
        let bytes = self.line_bytes;
        let access = Request { id, address, bytes, write, background: false };
        let outcome = self.dram.submit(now_ps, access);
        if let Some(data) = &mut self.data {
            data.settle(id, outcome.is_ok());
        }
        outcome
    }

    /// Never called: there is no store, so the operating system has nothing to page.
    fn submit_page(&mut self, _now_ps: u64, request: PageRequest) -> Result<(), Full> {
        debug_assert!(false, "{request:?} to a machine without a store");
        Err(Full)
    }

    fn next_event_ps(&self) -> Option<u64> {
        self.dram.next_event_ps()
    }

    fn advance(&mut self, now_ps: u64, out: &mut Vec<Response>) {
        self.dram.advance(now_ps, &mut self.done);
        for &Completion { id, at_ps, ref stages, .. } in &self.done {
            let (id, version) =
                self.data.as_mut().map_or((id, 0), |data| data.complete(id, self.line_bytes));
            out.push(Response::Line(LineResponse { id, at_ps, stages: *stages, version }));
        }
        self.done.clear();
    }

    fn depths(&self, tell: &mut Tell<'_>) {
        self.dram.depths(tell);
    }

    fn in_flight(&self) -> usize {
        self.dram.in_flight()
    }

    /// Only counts: where a line lies does not depend on who was used.
    #[inline]
    fn warm(&mut self, _now_ps: u64, _core: u16, _address: u64, write: bool) -> PagesMoved {
        self.warmed.move_dram(u64::from(self.line_bytes), write);
        PagesMoved::default()
    }

    fn take_over_warmed(&mut self, warmed: &mut dyn Organization) -> bool {
        let warmed = warmed.as_warmed().and_then(|it| it.downcast_mut::<Oracle>());
        let Some(warmed) = warmed else { return false };
        self.warmed = warmed.warmed;
        true
    }

    fn as_warmed(&mut self) -> Option<&mut dyn Any> {
        Some(self)
    }

    /// Nothing is ever dirty: there is no store.
    fn flush(&mut self, _now_ps: u64) -> bool {
        true
    }

    fn durable(&self) -> Durable {
        if self.saves() { Durable::Answered } else { Durable::Never }
    }

    fn power(&self) -> Option<&dyn PowerFailure> {
        Some(self)
    }

    fn power_mut(&mut self) -> Option<&mut dyn PowerFailure> {
        Some(self)
    }

    fn report(&self) -> OrganizationReport {
        let (dram_read_bytes, dram_written_bytes) = self.dram.moved_bytes();
        let dram_read_bytes = dram_read_bytes + self.warmed.dram_read_bytes;
        let dram_written_bytes = dram_written_bytes + self.warmed.dram_written_bytes;
        OrganizationReport {
            traffic: Traffic { dram_read_bytes, dram_written_bytes, ..Traffic::default() },
            stale_reads: self.data.as_ref().map_or(0, |data| data.versions.stale_reads),
            ..OrganizationReport::default()
        }
    }

    fn activity(&self, now_ps: u64) -> Activity {
        self.dram.activity(now_ps)
    }

    fn fork(&mut self) -> Box<dyn Organization> {
        Box::new(self.fork_itself())
    }
}

impl Oracle {
    /// A second one that stands where this one stands.
    pub(super) fn fork_itself(&mut self) -> Self {
        Oracle {
            dram: self.dram.clone(),
            line_bytes: self.line_bytes,
            warmed: self.warmed,
            data: self.data.as_mut().map(Data::fork),
            power: self.power.clone(),
            done: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::organization_laws;
    use crate::medium::dram::tests::spec as dram_spec;

    fn oracle(capacity_bytes: u64, dram: &DramSpec, check_data: bool) -> Oracle {
        let spec = OracleSpec { capacity: Size::from_bytes(capacity_bytes) };
        Oracle::new(&spec, dram, 64, check_data)
    }

    fn line(id: u32, address: u64, write: bool) -> LineRequest {
        LineRequest {
            id,
            core: 0,
            address,
            write,
            version: if write { u64::from(id) + 100 } else { 0 },
        }
    }

    #[test]
    fn the_organizations_laws_hold() {
        organization_laws(|check_data| Box::new(oracle(1 << 20, &dram_spec(), check_data)));
        let tight = DramSpec {
            channels: 2,
            read_queue_depth: 2,
            write_queue_depth: 2,
            write_high: 2,
            write_low: 1,
            ..dram_spec()
        };
        organization_laws(|check_data| Box::new(oracle(64 << 30, &tight, check_data)));
    }

    #[test]
    fn a_read_returns_the_version_written_before_it_and_every_byte_is_counted() {
        let mut oracle = oracle(1 << 20, &dram_spec(), true);
        let mut out = Vec::new();
        for (id, write) in [(0, false), (1, true), (2, false), (3, true), (4, false)] {
            let now_ps = u64::from(id) * 100_000;
            oracle.advance(now_ps, &mut out);
            assert!(oracle.submit(now_ps, line(id, 4096, write)).is_ok());
        }
        oracle.advance(u64::MAX, &mut out);
        let versions: Vec<_> = out
            .iter()
            .map(|response| match response {
                Response::Line(line) => (line.id, line.version),
                Response::Page(page) => panic!("{page:?}"),
            })
            .collect();
        assert_eq!(versions, [(0, 0), (1, 0), (2, 101), (3, 0), (4, 103)]);
        let report = oracle.report();
        assert_eq!(report.stale_reads, 0);
        assert_eq!(report.traffic.dram_read_bytes, 3 * 64);
        assert_eq!(report.traffic.dram_written_bytes, 2 * 64);
        assert_eq!(report.traffic.store_read_bytes + report.traffic.store_written_bytes, 0);
    }

    #[test]
    fn a_refused_write_leaves_no_version() {
        let mut oracle = oracle(1 << 20, &DramSpec { write_queue_depth: 1, ..dram_spec() }, true);
        assert!(oracle.submit(0, line(0, 0, true)).is_ok());
        assert_eq!(oracle.submit(0, line(1, 64, true)), Err(Full));
        let mut out = Vec::new();
        oracle.advance(u64::MAX / 2, &mut out);
        assert!(oracle.submit(u64::MAX / 2, line(2, 64, false)).is_ok());
        oracle.advance(u64::MAX, &mut out);
        assert_eq!((oracle.in_flight(), oracle.report().stale_reads), (0, 0));
    }

    #[test]
    #[should_panic(expected = "without a store")]
    #[cfg(debug_assertions)]
    fn there_is_no_store_to_page_to() {
        let request = PageRequest {
            id: 0,
            store_address: 0,
            memory_address: 0,
            bytes: 4096,
            write: false,
            background: false,
            force_unit_access: false,
            content: 0,
        };
        let _ = oracle(1 << 20, &dram_spec(), false).submit_page(0, request);
    }
}
