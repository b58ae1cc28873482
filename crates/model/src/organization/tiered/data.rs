//! Data checking: which version of each line lies where.

use crate::organization::versions::History;
use tierscope_kernel::CowMap;

/// Versions of lines, numbered in the far memory and in DRAM.
#[derive(Debug)]
pub(super) struct Data {
    /// What was submitted, and answered.
    pub(super) history: History,
    pub(super) far: CowMap<u64>,
    pub(super) near: CowMap<u64>,
    pub(super) stale_reads: u64,
    /// What is written to DRAM counts as promised.
    pub(super) early: bool,
}

impl Data {
    pub(super) fn new() -> Self {
        let (far, near) = (CowMap::new(0), CowMap::new(0));
        Data { history: History::new(), far, near, stale_reads: 0, early: false }
    }

    /// A line is submitted; the oldest version that a read of it may return.
    pub(super) fn submit(&mut self, line: u64, write: Option<u64>) -> u64 {
        if let Some(version) = write {
            self.history.submit(line, version);
        }
        self.history.submitted().get(line)
    }

    /// `line` is written, which lies at `place` of DRAM, or the version that a read finds there.
    pub(super) fn access_near(&mut self, line: u64, place: u64, write: Option<u64>) -> u64 {
        if let Some(version) = write.filter(|_| self.early) {
            self.history.answer(line, version);
        }
        access(&mut self.near, place, write)
    }

    /// The same of the far memory, which answers it.
    pub(super) fn access_far(&mut self, line: u64, write: Option<u64>) -> u64 {
        if let Some(version) = write {
            self.history.answer(line, version);
        }
        access(&mut self.far, line, write)
    }

    /// Moves so many lines up to DRAM, but for those that `kept` names by its bits.
    pub(super) fn promote(&mut self, far: u64, near: u64, lines: u64, kept: u64) {
        for i in (0..lines).filter(|i| kept >> i & 1 == 0) {
            let version = self.far.get(far + i);
            self.near.set(near + i, version);
        }
    }

    /// Takes so many lines out of DRAM.
    pub(super) fn read_near(&mut self, near: u64, lines: u64) -> Vec<u64> {
        (0..lines).map(|i| self.near.get(near + i)).collect()
    }

    /// Puts them into the far memory, which has answered.
    pub(super) fn write_far(&mut self, far: u64, versions: &[u64]) {
        for (line, version) in (far..).zip(versions) {
            self.far.set(line, *version);
            if *version > 0 {
                self.history.answer(line, *version);
            }
        }
    }

    /// A read has returned `version`, and was to return no older than `oldest`.
    pub(super) fn returned(&mut self, version: u64, oldest: u64) {
        self.stale_reads += u64::from(version < oldest);
    }

    pub(super) fn fork(&mut self) -> Self {
        Data { history: self.history.fork(), far: self.far.fork(), near: self.near.fork(), ..*self }
    }
}

fn access(lines: &mut CowMap<u64>, line: u64, write: Option<u64>) -> u64 {
    if let Some(version) = write {
        lines.set(line, version);
        return 0;
    }
    lines.get(line)
}
