//! What the pages of a drive alone were given, and what of it was promised to survive a failure of power.

use super::super::versions::History;
use crate::power::Content;
use crate::request::Control;
use std::collections::BTreeMap;
use std::ops::Range;
use tierscope_kernel::CowMap;

/// Of so many writes one is forced (FUA), as nobody else asks for that.
const FORCED_ONE_IN: u64 = 8;

/// What a write brings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Brings {
    /// To its first page; one more to each that follows. 0 where no failure of power is to come.
    pub content: Content,
    /// It is answered once it is in flash.
    pub forced: bool,
}

impl Brings {
    /// Whether the device has to know.
    pub fn is_told(self) -> bool {
        self.forced || self.content != 0
    }
}

/// Versions of pages, each of which a write has brought.
#[derive(Debug)]
pub(super) struct Pages {
    pub history: History,
    /// By page: the newest version that was promised.
    pub promised: CowMap<u64>,
    /// The drive keeps what it has answered.
    at_once: bool,
    next: Content,
    writes: u64,
    /// What was answered since a flush began, and is promised with the next.
    answered: BTreeMap<u64, u64>,
    /// What each flush under way promises, by its command.
    flushes: BTreeMap<u32, BTreeMap<u64, u64>>,
}

impl Pages {
    /// Of a drive to which nothing was written, that keeps what it has answered, or does not.
    pub fn new(at_once: bool) -> Self {
        let mut history = History::new();
        history.follow();
        Pages {
            history,
            promised: CowMap::new(0),
            at_once,
            next: 1,
            writes: 0,
            answered: BTreeMap::new(),
            flushes: BTreeMap::new(),
        }
    }

    pub fn fork(&mut self) -> Self {
        Pages {
            history: self.history.fork(),
            promised: self.promised.fork(),
            answered: self.answered.clone(),
            flushes: self.flushes.clone(),
            ..*self
        }
    }

    /// These pages are written.
    pub fn submit(&mut self, pages: Range<u64>) -> Brings {
        let content = self.next;
        self.writes += 1;
        for page in pages {
            self.history.submit(page, self.next);
            self.next += 1;
        }
        Brings { content, forced: self.writes.is_multiple_of(FORCED_ONE_IN) }
    }

    /// They have been.
    pub fn answer(&mut self, pages: Range<u64>, brings: Brings) {
        for (page, version) in pages.zip(brings.content..) {
            self.history.answer(page, version);
            if self.at_once || brings.forced {
                promise(&mut self.promised, &mut self.history, page, version);
            } else {
                self.answered.insert(page, version);
            }
        }
    }

    /// A flush begins, or pages are given back: nothing of them is promised any more.
    pub fn begin_control(&mut self, command: u32, control: Control, page_bytes: u64) {
        let (address, bytes) = match control {
            Control::Flush => {
                self.flushes.insert(command, std::mem::take(&mut self.answered));
                return;
            }
            Control::Trim { address, bytes } => (address, bytes),
        };
        let trimmed = address / page_bytes..address.saturating_add(bytes).div_ceil(page_bytes);
        let known = self.history.answered().iter().map(|(page, _)| page);
        let known: Vec<u64> = known.filter(|page| trimmed.contains(page)).collect();
        for page in known {
            self.history.retract(page);
            self.promised.set(page, 0);
            self.answered.remove(&page);
            for flush in self.flushes.values_mut() {
                flush.remove(&page);
            }
        }
    }

    /// A flush or a trim has ended.
    pub fn end_control(&mut self, command: u32) {
        for (page, version) in self.flushes.remove(&command).unwrap_or_default() {
            promise(&mut self.promised, &mut self.history, page, version);
        }
    }
}

fn promise(promised: &mut CowMap<u64>, history: &mut History, page: u64, version: u64) {
    let newest = promised.get_mut(page);
    *newest = version.max(*newest);
    history.touch(page, 1);
}
