//! Organizations: how DRAM, store and software are arranged to serve an access. One file each.

pub mod hybrid;
pub mod oracle;
mod spec;
pub mod storage;

pub use spec::*;

use crate::device::store::StoreDevice;
use crate::device::{LinkSpec, StoreSpec};
use crate::medium::{DramSpec, dram::Dram};
use crate::request::{Full, LineRequest, PageRequest, Response, Traffic};
use serde::Serialize;

/// What lies below the on-chip caches and the memory-management unit.
///
/// Law of every implementation: each request is answered once; responses come in order of their
/// time; stages sum to the latency; queues are bounded and push back; equal calls give equal
/// answers; a fork goes on identically; with data checked, a read returns a version no older than
/// the last write submitted before it.
pub trait Organization: Send {
    /// What the operating system sees as main memory, in bytes.
    fn memory_bytes(&self) -> u64;

    /// Takes a line request at `now_ps`, which never goes back between calls.
    fn submit(&mut self, now_ps: u64, request: LineRequest) -> Result<(), Full>;

    /// Takes a request to move a page between memory and the store. Only organizations whose
    /// memory the operating system pages have one.
    fn submit_page(&mut self, now_ps: u64, request: PageRequest) -> Result<(), Full>;

    /// When something happens next, if anything will without a further request.
    fn next_event_ps(&self) -> Option<u64>;

    /// Does all that is due until `now_ps` and appends what was answered by then.
    fn advance(&mut self, now_ps: u64, out: &mut Vec<Response>);

    /// Requests taken and not yet answered, and background work under way.
    fn in_flight(&self) -> usize;

    /// Writes every dirty page to the store from now on; true once none is left.
    fn flush(&mut self, now_ps: u64) -> bool;

    /// Counters for the result.
    fn report(&self) -> OrganizationReport;

    /// A second one that stands where this one stands. Large state is shared until written.
    fn fork(&mut self) -> Box<dyn Organization>;
}

/// What an organization counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OrganizationReport {
    /// Look-ups of the DRAM cache (hybrid), by demand.
    pub lookups: u64,
    /// Demand look-ups that found no page (a page in flight counts as a miss).
    pub misses: u64,
    /// Pages prefetched.
    pub prefetched_pages: u64,
    /// Pages prefetched that were used before they were evicted.
    pub prefetch_hits: u64,
    /// Dirty pages written to the store.
    pub write_backs: u64,
    /// Size of the tag store in bytes, 0 where there is none.
    pub tag_store_bytes: u64,
    /// Bytes moved.
    pub traffic: Traffic,
    /// Reads that returned an older version than they had to: 0 unless data checking found a fault.
    pub stale_reads: u64,
}

/// The parts of a description that an organization is built from.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// `oracle`, where it is that.
    pub oracle: Option<&'a OracleSpec>,
    /// `hybrid`, where it is that.
    pub hybrid: Option<&'a HybridSpec>,
    /// `storage`, where it is that.
    pub storage: Option<&'a StorageSpec>,
    /// DRAM.
    pub dram: &'a DramSpec,
    /// The store and its link, where there is one.
    pub store: Option<(&'a StoreSpec, &'a LinkSpec)>,
    /// Bytes of a line of the on-chip caches.
    pub line_bytes: u64,
    /// Whether versions of data are carried and checked.
    pub check_data: bool,
}

/// Builds the organization of a description that has been checked; `None` where the description
/// names none or lacks its store.
pub fn build_organization(parts: &Parts<'_>) -> Option<Box<dyn Organization>> {
    let Parts { dram, line_bytes, check_data, .. } = *parts;
    if let Some(spec) = parts.oracle {
        return Some(Box::new(oracle::Oracle::new(spec, dram, line_bytes, check_data)));
    }
    let (store, link) = parts.store?;
    if let Some(spec) = parts.hybrid {
        let cache = Dram::new(dram, spec.cache.capacity.bytes(), line_bytes);
        let (bytes, device) = (store.capacity.bytes(), StoreDevice::new(store, link));
        let line = line_bytes as u32;
        let hybrid = hybrid::Hybrid::new(spec, bytes, line, cache, device, check_data);
        return Some(Box::new(hybrid));
    }
    let spec = parts.storage?;
    Some(Box::new(storage::Storage::new(spec, dram, store, link, line_bytes, check_data)))
}
