//! Pages that the kernel's thread copies from DRAM to the store, one after the other, line by line.

use crate::request::{Full, LineRequest, LineResponse, PageRequest, PageResponse};
use std::collections::VecDeque;
use tierscope_kernel::{Stage, Timeline};

/// Pages that wait or are copied, at most.
const MOST_PAGES: usize = 32;

/// A line of the page that is copied, which is to be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub line: u32,
    pub write: bool,
}

/// A line that was read, and is to be written or being written.
#[derive(Clone, Copy, Debug)]
struct Read {
    line: u32,
    version: u64,
    stages: Timeline,
}

/// The copying of pages. It asks for lines, and is told what became of them.
#[derive(Clone, Debug)]
pub(super) struct Copies {
    most_lines: u32,
    line_bytes: u32,
    /// Pages, each with when it came; the first is copied.
    queue: VecDeque<(PageRequest, u64)>,
    /// Lines of it that were asked for, and are written.
    asked: u32,
    written: u32,
    /// Lines that are read or written now.
    under_way: u32,
    /// Those that have been read, in order, and those that are being written.
    read: VecDeque<Read>,
    writing: Vec<Read>,
}

impl Copies {
    pub fn new(most_lines: u32, line_bytes: u32) -> Self {
        Copies {
            most_lines,
            line_bytes,
            queue: VecDeque::new(),
            asked: 0,
            written: 0,
            under_way: 0,
            read: VecDeque::new(),
            writing: Vec::new(),
        }
    }

    /// Pages that wait or are copied.
    pub fn pages(&self) -> usize {
        self.queue.len()
    }

    pub fn submit(&mut self, now_ps: u64, request: PageRequest) -> Result<(), Full> {
        if self.queue.len() >= MOST_PAGES {
            return Err(Full);
        }
        self.queue.push_back((request, now_ps));
        Ok(())
    }

    /// The line that is to be asked for next: what was read is written first.
    pub fn next(&self) -> Option<(Part, LineRequest)> {
        let (page, _) = self.queue.front()?;
        let request = |line: u32, from: u64, write: bool, version: u64| {
            let address = from + u64::from(line) * u64::from(self.line_bytes);
            (Part { line, write }, LineRequest { id: 0, core: 0, address, write, version })
        };
        if let Some(read) = self.read.front() {
            return Some(request(read.line, page.store_address, true, read.version));
        }
        let lines = page.bytes / self.line_bytes;
        let may_read = self.asked < lines && self.under_way < self.most_lines;
        may_read.then(|| request(self.asked, page.memory_address, false, 0))
    }

    /// A node has taken it.
    pub fn taken(&mut self, part: Part) {
        self.under_way += 1;
        if part.write {
            self.writing.extend(self.read.pop_front());
        } else {
            self.asked += 1;
        }
    }

    /// A line was read or written; the page, if it was the last of it.
    pub fn answered(&mut self, line: u32, response: &LineResponse) -> Option<PageResponse> {
        self.under_way -= 1;
        let LineResponse { at_ps, version, ref stages, .. } = *response;
        let Some(at) = self.writing.iter().position(|read| read.line == line) else {
            self.read.push_back(Read { line, version, stages: *stages });
            return None;
        };
        let read = self.writing.swap_remove(at);
        self.written += 1;
        let (page, since_ps) = *self.queue.front()?;
        if self.written < page.bytes / self.line_bytes {
            return None;
        }
        // What its last line went through, and before that its wait for the others.
        let mut last = read.stages;
        last.append(stages);
        let mut whole = Timeline::new();
        whole.append_tail(&last, Stage::ControllerQueue, at_ps - since_ps);
        (self.asked, self.written) = (0, 0);
        self.queue.pop_front();
        Some(PageResponse { id: page.id, at_ps, stages: whole, interrupt: 0 })
    }
}
