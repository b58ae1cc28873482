//! Several memory controllers, each with its own DRAM, store and link, over which memory is interleaved.
//!
//! Each controller is an organization that knows nothing of the others: it is asked for addresses of its
//! own, which follow each other without gaps. What is said here holds for whichever organization hardware
//! manages by itself; memory that the operating system pages is on one controller.

use super::{Durable, Organization, OrganizationReport, PagesMoved};
use crate::activity::Activity;
use crate::power::PowerFailure;
use crate::request::{Full, LineRequest, LineResponse, PageRequest, Response, Tell};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::ops::Range;
use tierscope_kernel::Timeline;
use tierscope_units::{Problems, Size};

/// Controllers of a machine, at most.
const MOST: u32 = 64;

/// Several memory controllers.
///
/// Each has DRAM, store and link as the tables of the machine say, so that memory is so many times as large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControllersSpec {
    /// How many.
    pub count: u32,
    /// Bytes that lie side by side at one controller, before the next has as many: a power of two.
    pub interleave: Size,
}

impl ControllersSpec {
    /// Collects every mistake, below `path`: of the description by itself, and beside lines of `line`.
    pub fn check(&self, path: &str, line: Option<Size>, problems: &mut Problems) {
        problems.at_least(path, "count", self.count, 1);
        problems.at_most(path, "count", self.count, MOST);
        let line = line.map_or(1, |line| line.bytes());
        if !self.interleave.bytes().is_power_of_two() || self.interleave.bytes() < line {
            problems.add(
                "impossible-value",
                format!("{path}.interleave"),
                self.interleave.to_string(),
                format!("it is a power of two, and holds a line of {}", Size::from_bytes(line)),
                "write 4KiB".into(),
            );
        }
    }

    /// That the memory of each controller, `part_bytes`, is whole parts of `interleave`: adds a mistake at `path`
    /// if it is not.
    pub fn check_memory(&self, path: &str, part_bytes: u64, problems: &mut Problems) {
        let each = self.interleave.bytes();
        if each.is_power_of_two() && !part_bytes.is_multiple_of(each) {
            problems.add(
                "contradiction",
                format!("{path}.interleave"),
                self.interleave.to_string(),
                format!(
                    "memory of a controller, {}, is not a whole number of these",
                    Size::from_bytes(part_bytes)
                ),
                "write a smaller power of two".into(),
            );
        }
    }
}

/// Where memory lies: address by address, a run of bytes at each controller in turn.
#[derive(Clone, Copy, Debug)]
struct Layout {
    count: u64,
    shift: u32,
}

impl Layout {
    /// The controller of an address, and the address there.
    #[inline]
    fn place(self, address: u64) -> (usize, u64) {
        let run = address >> self.shift;
        let within = address & ((1 << self.shift) - 1);
        ((run % self.count) as usize, (run / self.count) << self.shift | within)
    }

    /// How many of the bytes before `address` a controller has.
    fn before(self, address: u64, controller: usize) -> u64 {
        let run = address >> self.shift;
        let (turn, at) = (run / self.count, run % self.count);
        let within = address & ((1 << self.shift) - 1);
        let own = match at.cmp(&(controller as u64)) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => within,
            std::cmp::Ordering::Greater => 1 << self.shift,
        };
        (turn << self.shift) + own
    }

    /// What a controller has of some bytes: they follow each other there.
    fn part(self, bytes: &Range<u64>, controller: usize) -> Range<u64> {
        self.before(bytes.start, controller)..self.before(bytes.end, controller)
    }
}

/// Memory that is interleaved over controllers.
pub struct Interleaved {
    parts: Vec<Box<dyn Organization>>,
    /// When something happens next at each; `u64::MAX` where nothing will.
    next_ps: Vec<u64>,
    /// Which have done their part of the flush under way.
    flushed: Vec<bool>,
    /// Of bytes.
    layout: Layout,
    /// Of lines.
    lines: Layout,
}

impl Interleaved {
    /// Of controllers that are all alike, as many as `spec` says, which has been checked beside `line`.
    ///
    /// # Panics
    /// Without a controller.
    pub fn new(spec: &ControllersSpec, line: Size, parts: Vec<Box<dyn Organization>>) -> Self {
        assert!(!parts.is_empty(), "there is a controller");
        let layout =
            Layout { count: parts.len() as u64, shift: spec.interleave.bytes().trailing_zeros() };
        let line_shift = line.bytes().trailing_zeros();
        let lines = Layout { shift: layout.shift - line_shift, ..layout };
        let (next_ps, flushed) = (vec![u64::MAX; parts.len()], vec![false; parts.len()]);
        let mut interleaved = Interleaved { parts, next_ps, flushed, layout, lines };
        (0..interleaved.parts.len()).for_each(|index| interleaved.look(index));
        interleaved
    }

    /// Notes when something happens next at a controller.
    #[inline]
    fn look(&mut self, index: usize) {
        self.next_ps[index] = self.parts[index].next_event_ps().unwrap_or(u64::MAX);
    }

    /// The first time at which something happens, and the controller at which it does.
    #[inline]
    fn first(&self) -> (u64, usize) {
        let mut first = (u64::MAX, 0);
        for (index, &at_ps) in self.next_ps.iter().enumerate() {
            if at_ps < first.0 {
                first = (at_ps, index);
            }
        }
        first
    }
}

impl Organization for Interleaved {
    /// Whole runs of all controllers.
    fn memory_bytes(&self) -> u64 {
        let least = self.parts.iter().map(|part| part.memory_bytes()).min().unwrap_or(0);
        (least >> self.layout.shift << self.layout.shift) * self.layout.count
    }

    #[inline]
    fn submit(&mut self, now_ps: u64, request: LineRequest) -> Result<(), Full> {
        let (index, address) = self.layout.place(request.address);
        self.parts[index].submit(now_ps, LineRequest { address, ..request })?;
        self.look(index);
        Ok(())
    }

    fn tells_of_long_reads(&self) -> bool {
        self.parts.iter().any(|part| part.tells_of_long_reads())
    }

    #[inline]
    fn submit_telling(&mut self, now_ps: u64, request: LineRequest) -> Result<(), Full> {
        let (index, address) = self.layout.place(request.address);
        self.parts[index].submit_telling(now_ps, LineRequest { address, ..request })?;
        self.look(index);
        Ok(())
    }

    fn take_told(&mut self, out: &mut Vec<LineResponse>) {
        self.parts.iter_mut().for_each(|part| part.take_told(out));
    }

    /// Never takes one: the operating system moves no pages here.
    fn submit_page(&mut self, _now_ps: u64, _request: PageRequest) -> Result<(), Full> {
        Err(Full)
    }

    #[inline]
    fn next_event_ps(&self) -> Option<u64> {
        Some(self.first().0).filter(|&at_ps| at_ps != u64::MAX)
    }

    fn advance(&mut self, now_ps: u64, out: &mut Vec<Response>) {
        // One event at a time, so that answers come in order over all controllers.
        loop {
            let (at_ps, index) = self.first();
            if at_ps > now_ps || at_ps == u64::MAX {
                return;
            }
            self.parts[index].advance(at_ps, out);
            self.look(index);
        }
    }

    fn in_flight(&self) -> usize {
        self.parts.iter().map(|part| part.in_flight()).sum()
    }

    /// Those of all controllers together, by name.
    fn depths(&self, tell: &mut Tell<'_>) {
        let mut all: Vec<(&'static str, usize)> = Vec::new();
        for (index, part) in self.parts.iter().enumerate() {
            let mut place = 0;
            part.depths(&mut |name, depth| {
                if index == 0 {
                    all.push((name, depth));
                } else {
                    all[place].1 += depth;
                }
                place += 1;
            });
        }
        all.into_iter().for_each(|(name, depth)| tell(name, depth));
    }

    fn can_warm(&self) -> bool {
        self.parts.iter().all(|part| part.can_warm())
    }

    #[inline]
    fn warm(&mut self, now_ps: u64, core: u16, address: u64, write: bool) -> PagesMoved {
        let (index, address) = self.layout.place(address);
        let moved = self.parts[index].warm(now_ps, core, address, write);
        self.look(index);
        moved
    }

    fn takes_clean(&self) -> bool {
        self.parts.iter().any(|part| part.takes_clean())
    }

    fn put_clean(&mut self, now_ps: u64, address: u64, version: u64) {
        let (index, address) = self.layout.place(address);
        self.parts[index].put_clean(now_ps, address, version);
        self.look(index);
    }

    fn warm_clean(&mut self, now_ps: u64, address: u64) {
        let (index, address) = self.layout.place(address);
        self.parts[index].warm_clean(now_ps, address);
        self.look(index);
    }

    fn take_over_warmed(&mut self, warmed: &mut dyn Organization) -> bool {
        let warmed = warmed.as_warmed().and_then(|it| it.downcast_mut::<Self>());
        let Some(warmed) = warmed.filter(|it| it.parts.len() == self.parts.len()) else {
            return false;
        };
        let mut pairs = self.parts.iter_mut().zip(&mut warmed.parts);
        let taken = pairs.all(|(own, other)| own.take_over_warmed(&mut **other));
        (0..self.parts.len()).for_each(|index| self.look(index));
        taken
    }

    fn as_warmed(&mut self) -> Option<&mut dyn Any> {
        Some(self)
    }

    fn will_need(&mut self, now_ps: u64, address: u64, bytes: u64) -> bool {
        let bytes = address..address.saturating_add(bytes);
        let mut kept = true;
        for index in 0..self.parts.len() {
            let part = self.layout.part(&bytes, index);
            if !part.is_empty() {
                kept &= self.parts[index].will_need(now_ps, part.start, part.end - part.start);
                self.look(index);
            }
        }
        kept
    }

    fn takes_hints(&self) -> bool {
        self.parts.iter().all(|part| part.takes_hints())
    }

    fn hold_ahead(&mut self, holds: bool) {
        self.parts.iter_mut().for_each(|part| part.hold_ahead(holds));
    }

    fn flush(&mut self, now_ps: u64) -> bool {
        for index in 0..self.parts.len() {
            // Whoever has flushed waits for the others, and does not begin anew.
            if !self.flushed[index] {
                self.flushed[index] = self.parts[index].flush(now_ps);
                self.look(index);
            }
        }
        let done = self.flushed.iter().all(|flushed| *flushed);
        if done {
            self.flushed.fill(false);
        }
        done
    }

    /// All begin at once: what the one has waited for that ends last.
    fn flush_stages(&self) -> Timeline {
        let stages = self.parts.iter().map(|part| part.flush_stages());
        stages.max_by_key(Timeline::total_ps).unwrap_or_default()
    }

    fn flush_writes(&self) -> u64 {
        self.parts.iter().map(|part| part.flush_writes()).max().unwrap_or(0)
    }

    fn warm_flush(&mut self, now_ps: u64) -> PagesMoved {
        let mut all = PagesMoved::default();
        for part in &mut self.parts {
            let PagesMoved { read, written } = part.warm_flush(now_ps);
            all = PagesMoved { read: all.read + read, written: all.written + written };
        }
        all
    }

    /// They are alike.
    fn durable(&self) -> Durable {
        self.parts.first().map_or(Durable::Never, |part| part.durable())
    }

    fn keeps(&self) -> bool {
        self.parts.iter().all(|part| part.keeps())
    }

    fn power(&self) -> Option<&dyn PowerFailure> {
        self.parts.iter().all(|part| part.power().is_some()).then_some(self as _)
    }

    fn power_mut(&mut self) -> Option<&mut dyn PowerFailure> {
        let all = self.parts.iter().all(|part| part.power().is_some());
        all.then_some(self as _)
    }

    fn report(&self) -> OrganizationReport {
        let mut reports = self.parts.iter().map(|part| part.report());
        let first = reports.next().unwrap_or_default();
        reports.fold(first, |sum, report| sum.together(&report))
    }

    fn activity(&self, now_ps: u64) -> Activity {
        let mut activities = self.parts.iter().map(|part| part.activity(now_ps));
        let first = activities.next().unwrap_or_default();
        activities.fold(first, Activity::beside)
    }

    fn fork(&mut self) -> Box<dyn Organization> {
        Box::new(Interleaved {
            parts: self.parts.iter_mut().map(|part| part.fork()).collect(),
            next_ps: self.next_ps.clone(),
            flushed: self.flushed.clone(),
            layout: self.layout,
            lines: self.lines,
        })
    }
}

mod power;

#[cfg(test)]
mod tests;
