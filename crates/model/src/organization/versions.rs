//! Data checking: which version of a line each request carries, and which a read may return.

use crate::request::LineRequest;
use tierscope_kernel::CowMap;

/// Versions that requests carry, by a number that the organization gives each.
#[derive(Debug)]
pub(super) struct RequestVersions {
    line_bytes: u64,
    /// The last version submitted of each line.
    submitted: CowMap<u64>,
    /// By request: the version of its line, and for a read the oldest that it may return.
    requests: Vec<(u64, Option<u64>)>,
    /// Reads that returned an older version than they had to.
    pub stale_reads: u64,
}

impl RequestVersions {
    pub fn new(line_bytes: u32) -> Self {
        RequestVersions {
            line_bytes: u64::from(line_bytes),
            submitted: CowMap::new(0),
            requests: Vec::new(),
            stale_reads: 0,
        }
    }

    pub fn fork(&mut self) -> Self {
        RequestVersions {
            submitted: self.submitted.fork(),
            requests: self.requests.clone(),
            ..*self
        }
    }

    /// A request has been taken.
    pub fn submit(&mut self, number: u32, request: &LineRequest) {
        let line = request.address / self.line_bytes;
        if request.write {
            self.submitted.set(line, request.version);
        }
        let oldest = (!request.write).then(|| self.submitted.get(line));
        let number = number as usize;
        if number >= self.requests.len() {
            self.requests.resize(number + 1, (0, None));
        }
        self.requests[number] = (request.version, oldest);
    }

    /// Whether it is a read.
    pub fn is_read(&self, number: u32) -> bool {
        self.requests[number as usize].1.is_some()
    }

    /// The version that a request carries: a write from its start, a read once it has found it.
    pub fn carried(&self, number: u32) -> u64 {
        self.requests[number as usize].0
    }

    /// A request has found this version of its line.
    pub fn find(&mut self, number: u32, version: u64) {
        self.requests[number as usize].0 = version;
    }

    /// A request is answered; the version of its line, if it was a read.
    pub fn answer(&mut self, number: u32) -> u64 {
        let (version, oldest) = self.requests[number as usize];
        let Some(oldest) = oldest else { return 0 };
        self.stale_reads += u64::from(version < oldest);
        version
    }
}
