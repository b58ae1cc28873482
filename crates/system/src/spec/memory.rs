//! How much of this computer's memory the simulation of a machine takes.

use super::SystemSpec;
use tierscope_model::os::paging::Paging;

/// Bytes of tags and order of use of a page in a DRAM cache, or an extended buffer cache, at most.
const TAG_BYTES: u64 = 16;
/// Maps of versions of an organization and of on-chip caches at most, where data are checked.
const VERSION_MAPS: u64 = 4;

/// What the simulation of a machine takes, of which only what a workload touches is ever taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct MemoryEstimate {
    /// Bytes of tables for each byte that a workload touches, in millionths: an estimate from the
    /// sizes of a page's entries. Pages that lie close together are kept together, so that a
    /// workload that touches little of much takes more for each; and where the operating system
    /// pages, up to twice as much was measured.
    pub bytes_per_million: u64,
    /// Bytes of memory that the machine has in all, store included where the system pages to it.
    pub room_bytes: u64,
}

impl SystemSpec {
    /// The estimate for a description that has been checked; `None` of one that lacks a part.
    pub fn memory_estimate(&self) -> Option<MemoryEstimate> {
        let page_bytes = self.os.as_ref().map_or(4096, |os| os.page.bytes());
        let cached = match self.paging() {
            Some((paging, _)) => paging.buffer_cache.is_some(),
            None => !self.stores().is_empty(),
        };
        let tags = if cached { TAG_BYTES } else { 0 };
        let lines = self.line().map_or(0, |line| page_bytes / line.bytes());
        let versions = if self.check_data { 8 * VERSION_MAPS * lines } else { 0 };
        let paging = if self.os.is_some() { Paging::BYTES_PER_PAGE } else { 0 };
        let per_page_bytes = paging + tags + versions;
        Some(MemoryEstimate {
            bytes_per_million: per_page_bytes * 1_000_000 / page_bytes,
            room_bytes: self.room()?.bytes(),
        })
    }
}
