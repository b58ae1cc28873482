//! Data checking: which version of each line lies where.

use crate::organization::versions::RequestVersions;
use crate::power::{Content, LOST};
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
    /// Where a failure of power is to come: what each page written to the drive has carried.
    contents: Option<Contents>,
}

/// Versions of lines by [`Content`], page by page of the drive.
#[derive(Debug)]
struct Contents {
    page_lines: u64,
    next: Content,
    lines: CowMap<u64>,
}

/// The version of a line that is nowhere any more.
pub(super) const GONE: u64 = u64::MAX;

/// A move under way.
#[derive(Clone, Debug)]
struct Move {
    from: Spot,
    into: Spot,
    /// Versions of its lines as they were when it began.
    early: Vec<u64>,
    /// What the drive calls it, of a write to the drive.
    content: Content,
}

impl Versions {
    pub(super) fn new(line_bytes: u32) -> Self {
        Versions {
            line_bytes: u64::from(line_bytes),
            memory: CowMap::new(0),
            drive: CowMap::new(0),
            requests: RequestVersions::new(line_bytes),
            moves: BTreeMap::new(),
            contents: None,
        }
    }

    pub(super) fn fork(&mut self) -> Self {
        Versions {
            memory: self.memory.fork(),
            drive: self.drive.fork(),
            requests: self.requests.fork(),
            moves: self.moves.clone(),
            contents: self.contents.as_mut().map(|it| Contents { lines: it.lines.fork(), ..*it }),
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
            self.requests.history.touch(self.requests.line(slot), 1);
        }
    }

    /// A move of `bytes` begins; `content` is what the drive calls it, of a write to the drive.
    pub(super) fn begin(
        &mut self,
        mover: Mover,
        (from, into): (Spot, Spot),
        bytes: u64,
        content: Content,
    ) {
        let early: Vec<u64> = (0..bytes / self.line_bytes).map(|i| self.get(from, i)).collect();
        for (i, version) in (0..).zip(&early).step_by(3) {
            self.put(into, i, *version);
            self.carry(content, i, *version);
        }
        self.touch(into, early.len());
        self.moves.insert(mover, Move { from, into, early, content });
    }

    /// A move has ended.
    pub(super) fn end(&mut self, mover: Mover) {
        let Some(Move { from, into, early, content }) = self.moves.remove(&mover) else { return };
        self.touch(into, early.len());
        for (i, early) in (0..).zip(early).filter(|(i, _)| i % 3 != 0) {
            let version = if i % 3 == 1 { early } else { self.get(from, i) };
            self.put(into, i, version);
            self.carry(content, i, version);
        }
    }

    // ---- Failures of power ----------------------------------------------------------------------

    /// What pages of `page_bytes` that are written to the drive carry is kept from now on.
    pub(super) fn follow(&mut self, page_bytes: u64) {
        let page_lines = page_bytes / self.line_bytes;
        self.requests.history.follow();
        self.contents = Some(Contents { page_lines, next: 1, lines: CowMap::new(0) });
    }

    /// Names for the contents of so many pages, one after the other.
    pub(super) fn name(&mut self, pages: u32) -> Content {
        let Some(contents) = &mut self.contents else { return 0 };
        let first = contents.next;
        contents.next += u64::from(pages);
        first
    }

    /// So many lines at a spot change; those of the NVDIMM are its frame's, and change with its tag.
    fn touch(&mut self, spot: Spot, lines: usize) {
        if let Spot::Drive(address) = spot {
            self.requests.history.touch(address / self.line_bytes, lines as u64);
        }
    }

    /// A line of what is called `content`.
    fn carry(&mut self, content: Content, i: u64, version: u64) {
        if let Some(contents) = self.contents.as_mut().filter(|_| content > 0) {
            contents.lines.set(content * contents.page_lines + i, version);
        }
    }

    /// Moves end where they stand. What a page of the drive holds is what `kept` names, of those that were
    /// being written and of those in `touched`, by their first bytes.
    pub(super) fn cut(&mut self, touched: &[u64], kept: impl Fn(u64) -> Content) {
        let mut pages = touched.to_vec();
        for (_, Move { from, into, early, content }) in std::mem::take(&mut self.moves) {
            if let Spot::Drive(address) = into {
                pages.push(address);
                for (i, early) in (0..).zip(early).filter(|(i, _)| i % 3 != 0) {
                    let version = if i % 3 == 1 { early } else { self.get(from, i) };
                    self.carry(content, i, version);
                }
            }
        }
        for address in pages {
            self.hold(address, kept(address));
        }
    }

    /// A page of the drive holds what is called `content`.
    fn hold(&mut self, address: u64, content: Content) {
        let Some(contents) = &self.contents else { return };
        self.requests.history.touch(address / self.line_bytes, contents.page_lines);
        for i in 0..contents.page_lines {
            let version = match content {
                0 => 0,
                LOST => GONE,
                content => contents.lines.get(content * contents.page_lines + i),
            };
            self.drive.set(address / self.line_bytes + i, version);
        }
    }

    /// Nothing of the NVDIMM is there any more.
    pub(super) fn forget_memory(&mut self) {
        self.memory = CowMap::new(0);
    }

    /// The version at a spot.
    pub(super) fn at(&self, spot: Spot) -> u64 {
        self.get(spot, 0)
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
