//! Data checking: which version of each line lies where.

use super::action::{Action, Place, Token};
use crate::organization::versions::RequestVersions;
use tierscope_kernel::CowMap;

/// The version of every line, wherever a copy of it is: DRAM, store, the controller's buffers and
/// the requests themselves.
///
/// A line moves when it is given out. The lines of a page move at any time until the move is
/// complete, as a driver may see it: the first of every three at once, the second is taken at once
/// and put down at the end, the third moves at the end. What a controller must not rely on shows
/// in at least one of them.
#[derive(Debug)]
pub(super) struct Versions {
    line_bytes: u64,
    page_lines: usize,
    dram: CowMap<u64>,
    store: CowMap<u64>,
    /// Those of the requests.
    pub(super) requests: RequestVersions,
    fills: Vec<u64>,
    write_backs: Vec<u64>,
    /// Moves under way, by token.
    moves: Vec<Option<Move>>,
}

/// Where the first line of a move lies.
#[derive(Clone, Copy, Debug)]
enum Spot {
    /// At this line of DRAM.
    Dram(u64),
    /// At this line of the store.
    Store(u64),
    /// In the controller.
    Inside(Place),
}

/// A move of a page under way, or of the line that comes ahead of it.
#[derive(Clone, Debug)]
struct Move {
    from: Spot,
    into: Spot,
    /// Versions of its lines as they were when it was given out.
    early: Vec<u64>,
}

impl Versions {
    pub(super) fn new(line_bytes: u32, page_bytes: u32, tokens: usize) -> Self {
        Versions {
            line_bytes: u64::from(line_bytes),
            page_lines: (page_bytes / line_bytes) as usize,
            dram: CowMap::new(0),
            store: CowMap::new(0),
            requests: RequestVersions::new(line_bytes),
            fills: Vec::new(),
            write_backs: Vec::new(),
            moves: vec![None; tokens],
        }
    }

    pub(super) fn fork(&mut self) -> Self {
        Versions {
            dram: self.dram.fork(),
            store: self.store.fork(),
            requests: self.requests.fork(),
            fills: self.fills.clone(),
            write_backs: self.write_backs.clone(),
            moves: self.moves.clone(),
            ..*self
        }
    }

    /// An action has been given out.
    pub(super) fn give_out(&mut self, action: &Action) {
        let line_bytes = self.line_bytes;
        let line = |address: u64| address / line_bytes;
        match *action {
            Action::ReadStore { token, address, bytes, into, critical, .. } => {
                let from = Spot::Store(line(address));
                self.start(token, from, Spot::Inside(into), bytes);
                let Place::Fill { buffer, offset } = into else { return };
                if let Some(critical) = critical {
                    let from = Spot::Store(line(address + u64::from(critical.offset)));
                    let offset = offset + critical.offset;
                    let into = Spot::Inside(Place::Fill { buffer, offset });
                    let early = vec![self.get(from, 0)];
                    self.moves[critical.token.number() as usize] = Some(Move { from, into, early });
                }
            }
            Action::WriteStore { token, address, bytes, from } => {
                let into = Spot::Store(line(address));
                self.start(token, Spot::Inside(from), into, bytes);
            }
            Action::ReadDram { token, address, bytes, into, .. } => {
                let from = Spot::Dram(line(address));
                self.start(token, from, Spot::Inside(into), bytes);
            }
            Action::WriteDram { token, address, bytes, from, .. } => {
                let into = Spot::Dram(line(address));
                self.start(token, Spot::Inside(from), into, bytes);
            }
            Action::Copy { from, into, bytes } => {
                for i in 0..bytes as usize / self.line_bytes as usize {
                    let version = self.get(Spot::Inside(from), i);
                    self.put(Spot::Inside(into), i, version);
                }
            }
            Action::Respond { .. } => {}
        }
    }

    /// An action is complete.
    pub(super) fn complete(&mut self, token: Token) {
        let Some(Move { from, into, early }) = self.moves[token.number() as usize].take() else {
            return;
        };
        let alone = early.len() == 1;
        for (i, early) in early.into_iter().enumerate() {
            match i % 3 {
                0 if !alone => {}
                0 | 1 => self.put(into, i, early),
                _ => {
                    let version = self.get(from, i);
                    self.put(into, i, version);
                }
            }
        }
    }

    /// Power fails: all but the store is lost, and pages stay as they stand there.
    pub(super) fn cut(&mut self) {
        self.dram = CowMap::new(0);
        self.fills.clear();
        self.write_backs.clear();
        self.moves.fill(None);
    }

    /// A line is put into a buffer of the controller.
    pub(super) fn place(&mut self, place: Place, version: u64) {
        self.put(Spot::Inside(place), 0, version);
    }

    /// The version of the line at this byte of DRAM.
    pub(super) fn cached(&self, place: u64) -> u64 {
        self.dram.get(place / self.line_bytes)
    }

    /// The version of the line at this byte in the store.
    pub(super) fn stored(&self, address: u64) -> u64 {
        self.store.get(address / self.line_bytes)
    }

    fn start(&mut self, token: Token, from: Spot, into: Spot, bytes: u32) {
        let lines = bytes as usize / self.line_bytes as usize;
        let early: Vec<u64> = (0..lines).map(|i| self.get(from, i)).collect();
        for i in (0..lines).step_by(3) {
            self.put(into, i, early[i]);
        }
        if lines > 1 {
            self.moves[token.number() as usize] = Some(Move { from, into, early });
        }
    }

    fn get(&mut self, spot: Spot, i: usize) -> u64 {
        match spot {
            Spot::Dram(line) => self.dram.get(line + i as u64),
            Spot::Store(line) => self.store.get(line + i as u64),
            Spot::Inside(Place::Request(request)) => self.requests.carried(request),
            Spot::Inside(place) => self.buffer(place, i).map_or(0, |version| *version),
        }
    }

    fn put(&mut self, spot: Spot, i: usize, version: u64) {
        match spot {
            Spot::Dram(line) => self.dram.set(line + i as u64, version),
            Spot::Store(line) => {
                self.store.set(line + i as u64, version);
                self.requests.history.touch(line + i as u64, 1);
            }
            Spot::Inside(Place::Request(request)) => self.requests.find(request, version),
            Spot::Inside(place) => {
                if let Some(place) = self.buffer(place, i) {
                    *place = version;
                }
            }
        }
    }

    /// Line `i` from a place in a buffer on.
    fn buffer(&mut self, place: Place, i: usize) -> Option<&mut u64> {
        let (array, index, offset) = match place {
            Place::Fill { buffer, offset } => (&mut self.fills, buffer, offset),
            Place::WriteBack { buffer, offset } => (&mut self.write_backs, buffer, offset),
            Place::Request(_) | Place::Nowhere => return None,
        };
        let line = offset as usize / self.line_bytes as usize;
        let index = index as usize * self.page_lines + line + i;
        if array.len() <= index {
            array.resize(index + 1, 0);
        }
        array.get_mut(index)
    }
}
