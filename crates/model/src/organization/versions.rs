//! Data checking: which version of a line each request carries, and which a read may return.

use crate::power::Touched;
use crate::request::LineRequest;
use std::ops::Range;
use tierscope_kernel::CowMap;

/// Which versions of lines were ever submitted, and answered.
#[derive(Debug)]
pub(super) struct History {
    /// The last version submitted of each line.
    submitted: CowMap<u64>,
    /// The newest version of each line whose write was answered.
    answered: CowMap<u64>,
    /// The newest version of each line that a sync of a file has promised.
    synced: CowMap<u64>,
    /// The line of each version, and one more; 0 for those that were not submitted.
    lines: CowMap<u64>,
    /// Where a failure of power is to come: what the judge has to look at anew.
    touched: Touched,
}

impl History {
    pub fn new() -> Self {
        History {
            submitted: CowMap::new(0),
            answered: CowMap::new(0),
            synced: CowMap::new(0),
            lines: CowMap::new(0),
            touched: Touched::default(),
        }
    }

    pub fn fork(&mut self) -> Self {
        History {
            submitted: self.submitted.fork(),
            answered: self.answered.fork(),
            synced: self.synced.fork(),
            lines: self.lines.fork(),
            touched: self.touched.clone(),
        }
    }

    /// A write of a line has been taken.
    pub fn submit(&mut self, line: u64, version: u64) {
        self.submitted.set(line, version);
        self.lines.set(version, line + 1);
        self.touched.add(line, 1);
    }

    /// It has been answered.
    pub fn answer(&mut self, line: u64, version: u64) {
        let newest = self.answered.get_mut(line);
        *newest = version.max(*newest);
        self.touched.add(line, 1);
    }

    /// A sync of a file has returned, which promises this version of a line, whether or not that has ever left the
    /// on-chip caches.
    pub fn promise(&mut self, line: u64, version: u64) {
        if version > self.submitted.get(line) {
            self.submit(line, version);
        }
        let newest = self.synced.get_mut(line);
        *newest = version.max(*newest);
        self.touched.add(line, 1);
    }

    /// The newest version of a line that syncs have promised; 0 for none.
    pub fn synced(&self, line: u64) -> u64 {
        self.synced.get(line)
    }

    /// What was answered of a line is nothing that its requester relies on.
    pub fn retract(&mut self, line: u64) {
        self.answered.set(line, 0);
        self.touched.add(line, 1);
    }

    /// What changes is noted from now on, as [`PowerFailure::touched`](crate::power::PowerFailure::touched)
    /// wants it.
    pub fn follow(&mut self) {
        self.touched.begin();
    }

    /// Something else of so many lines may have changed.
    #[inline]
    pub fn touch(&mut self, first: u64, lines: u64) {
        self.touched.add(first, lines);
    }

    /// As [`History::touch`], of all that `lines` has.
    pub fn touch_all(&mut self, lines: &mut Touched) {
        self.touched.append(lines);
    }

    /// Lines of which something may have changed since the last call.
    pub fn take_touched(&mut self) -> Vec<Range<u64>> {
        self.touched.take()
    }

    /// By line: the newest version that was submitted.
    pub fn submitted(&self) -> &CowMap<u64> {
        &self.submitted
    }

    /// By line: the newest version whose write was answered.
    pub fn answered(&self) -> &CowMap<u64> {
        &self.answered
    }

    /// The same, as it is now, to be kept.
    pub fn fork_answered(&mut self) -> CowMap<u64> {
        self.answered.fork()
    }

    /// The line that a version was submitted for.
    pub fn line_of(&self, version: u64) -> Option<u64> {
        self.lines.get(version).checked_sub(1)
    }
}

/// Versions that requests carry, by a number that the organization gives each.
#[derive(Debug)]
pub(super) struct RequestVersions {
    line_bytes: u64,
    pub history: History,
    requests: Vec<Carried>,
    /// Reads that returned an older version than they had to.
    pub stale_reads: u64,
}

/// What a request carries.
#[derive(Clone, Copy, Debug, Default)]
struct Carried {
    line: u64,
    version: u64,
    /// The oldest version that it may return, of a read.
    oldest: Option<u64>,
}

impl RequestVersions {
    pub fn new(line_bytes: u32) -> Self {
        RequestVersions {
            line_bytes: u64::from(line_bytes),
            history: History::new(),
            requests: Vec::new(),
            stale_reads: 0,
        }
    }

    pub fn fork(&mut self) -> Self {
        RequestVersions { history: self.history.fork(), requests: self.requests.clone(), ..*self }
    }

    /// A request has been taken.
    pub fn submit(&mut self, number: u32, request: &LineRequest) {
        let line = request.address / self.line_bytes;
        if request.write {
            self.history.submit(line, request.version);
        }
        let oldest = (!request.write).then(|| self.history.submitted().get(line));
        let number = number as usize;
        if number >= self.requests.len() {
            self.requests.resize(number + 1, Carried::default());
        }
        self.requests[number] = Carried { line, version: request.version, oldest };
    }

    /// Whether it is a read.
    pub fn is_read(&self, number: u32) -> bool {
        self.requests[number as usize].oldest.is_some()
    }

    /// The line that a request concerns.
    pub fn line(&self, number: u32) -> u64 {
        self.requests[number as usize].line
    }

    /// The version that a request carries: a write from its start, a read once it has found it.
    pub fn carried(&self, number: u32) -> u64 {
        self.requests[number as usize].version
    }

    /// A request has found this version of its line.
    pub fn find(&mut self, number: u32, version: u64) {
        self.requests[number as usize].version = version;
    }

    /// A request is answered; the version of its line, if it was a read.
    pub fn answer(&mut self, number: u32) -> u64 {
        let Carried { line, version, oldest } = self.requests[number as usize];
        let Some(oldest) = oldest else {
            self.history.answer(line, version);
            return 0;
        };
        self.stale_reads += u64::from(version < oldest);
        version
    }
}
