//! Data checking: which version of each line lies where.

use crate::organization::versions::RequestVersions;
use std::collections::BTreeMap;
use tierscope_kernel::CowMap;

/// A line of the NVDIMM or of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// This byte of the NVDIMM.
    Memory(u64),
    /// This byte of the drive.
    Drive(u64),
}

/// What moves a part of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mover {
    /// The clone of a miss, and which part.
    Clone(u32, u32),
    /// A command, and which part.
    Command(u32, u32),
}

/// The version of every line, in NVDIMM and drive.
///
/// A line of a request moves when it is given out. The lines of a page move at any time until the move is
/// complete: the first of every three at once, the second is taken at once and put down at the end, the
/// third moves at the end. What the manager must not rely on shows in at least one of them.
#[derive(Debug)]
pub(super) struct Versions {
    line_bytes: u64,
    memory: CowMap<u64>,
    drive: CowMap<u64>,
    /// Those of the requests.
    pub(super) requests: RequestVersions,
    moves: BTreeMap<Mover, Move>,
}

/// A move under way.
#[derive(Clone, Debug)]
struct Move {
    from: Spot,
    into: Spot,
    /// Versions of its lines as they were when it began.
    early: Vec<u64>,
}

impl Versions {
    pub(super) fn new(line_bytes: u32) -> Self {
        Versions {
            line_bytes: u64::from(line_bytes),
            memory: CowMap::new(0),
            drive: CowMap::new(0),
            requests: RequestVersions::new(line_bytes),
            moves: BTreeMap::new(),
        }
    }

    pub(super) fn fork(&mut self) -> Self {
        Versions {
            memory: self.memory.fork(),
            drive: self.drive.fork(),
            requests: self.requests.fork(),
            moves: self.moves.clone(),
            ..*self
        }
    }

    /// The line of a request is read or written, in the NVDIMM at `address`.
    pub(super) fn access(&mut self, slot: u32, address: u64) {
        let line = address / self.line_bytes;
        if self.requests.is_read(slot) {
            self.requests.find(slot, self.memory.get(line));
        } else {
            self.memory.set(line, self.requests.carried(slot));
        }
    }

    /// A move of `bytes` begins.
    pub(super) fn begin(&mut self, mover: Mover, from: Spot, into: Spot, bytes: u64) {
        let early: Vec<u64> = (0..bytes / self.line_bytes).map(|i| self.get(from, i)).collect();
        for (i, version) in (0..).zip(&early).step_by(3) {
            self.put(into, i, *version);
        }
        self.moves.insert(mover, Move { from, into, early });
    }

    /// A move has ended.
    pub(super) fn end(&mut self, mover: Mover) {
        let Some(Move { from, into, early }) = self.moves.remove(&mover) else { return };
        for (i, early) in (0..).zip(early) {
            match i % 3 {
                0 => {}
                1 => self.put(into, i, early),
                _ => {
                    let version = self.get(from, i);
                    self.put(into, i, version);
                }
            }
        }
    }

    fn get(&self, spot: Spot, i: u64) -> u64 {
        match spot {
            Spot::Memory(address) => self.memory.get(address / self.line_bytes + i),
            Spot::Drive(address) => self.drive.get(address / self.line_bytes + i),
        }
    }

    fn put(&mut self, spot: Spot, i: u64, version: u64) {
        match spot {
            Spot::Memory(address) => self.memory.set(address / self.line_bytes + i, version),
            Spot::Drive(address) => self.drive.set(address / self.line_bytes + i, version),
        }
    }
}
