//! A stack of on-chip caches: the private levels of a core, or the levels that all cores share.
//!
//! A line comes into every level of its stack. A dirty line that a level drops goes to the next
//! one; what the last level drops dirty leaves the stack, and what it drops clean, where that is asked for. What an
//! inclusive level drops, the levels before it give up (back-invalidation; Baer and Wang, ISCA 1988): those of its own stack at once, and those of
//! other stacks before a shared one when they are told ([`Stack::recalled`]).
//!
//! The private stacks of several cores are kept coherent by whoever has them, with the states of MESI
//! (Papamarcos and Patel, ISCA 1984): a dirty line is *modified*, a clean one *exclusive* unless it has been
//! said to be *shared*, one that is not there *invalid*. A store does not hit a shared line: the others have to
//! give it up first.

use super::OnChipCacheSpec;
use crate::cache::{Gone, LruLines};
use tierscope_kernel::{Clock, CowMap};

/// A line that leaves a stack, dirty where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyLine {
    /// Line number.
    pub line: u64,
    /// Version of its data, where data are checked; otherwise 0.
    pub version: u64,
}

/// Levels of on-chip cache, from the inside outwards.
#[derive(Debug)]
pub struct Stack {
    levels: Vec<LruLines>,
    latencies_ps: Vec<u64>,
    /// Whether each level holds all that those before it hold.
    inclusive: Vec<bool>,
    /// Whether other stacks come before this one.
    is_shared_by_cores: bool,
    /// What inclusive levels of a shared stack have dropped: level and line.
    recalled: Vec<(usize, u64)>,
    /// Clean lines that the last level has dropped, where somebody wants them.
    clean: Option<Vec<DirtyLine>>,
    /// Newest version of each line in the stack; only where data are checked. It means nothing for
    /// lines that are not in the stack.
    versions: Option<CowMap<u64>>,
    /// By 64 lines: those that other stacks may hold as well. It means nothing for lines that are not in the
    /// stack.
    shared: CowMap<u64>,
    /// Whether any line ever was.
    any_shared: bool,
}

impl Stack {
    /// An empty stack.
    pub fn new<'a>(
        specs: impl Iterator<Item = &'a OnChipCacheSpec>,
        clock: Clock,
        check_data: bool,
    ) -> Self {
        let (mut levels, mut latencies_ps) = (Vec::new(), Vec::new());
        let (mut inclusive, mut is_shared_by_cores) = (Vec::new(), false);
        for spec in specs {
            inclusive.push(spec.inclusive);
            is_shared_by_cores |= spec.shared;
            levels.push(LruLines::new(spec.sets(), spec.ways as usize));
            latencies_ps.push(clock.cycles_to_ps(u64::from(spec.latency_cycles)));
        }
        let versions = check_data.then(|| CowMap::new(0));
        Stack {
            levels,
            latencies_ps,
            inclusive,
            is_shared_by_cores,
            recalled: Vec::new(),
            clean: None,
            versions,
            shared: CowMap::new(0),
            any_shared: false,
        }
    }

    /// The outermost level that holds all that the stacks before this one hold, if one does.
    pub fn inclusive_level(&self) -> Option<usize> {
        self.inclusive.iter().rposition(|inclusive| self.is_shared_by_cores && *inclusive)
    }

    /// The next line that other stacks have to give up, since an inclusive level has dropped it, and that level.
    pub fn recalled(&mut self) -> Option<(usize, u64)> {
        self.recalled.pop()
    }

    /// From now on it tells which clean lines the last level drops ([`Stack::take_clean`]).
    pub fn tell_clean(&mut self) {
        self.clean.get_or_insert_default();
    }

    /// A clean line that the last level has dropped, and its version.
    #[inline]
    pub fn take_clean(&mut self) -> Option<DirtyLine> {
        self.clean.as_mut().and_then(Vec::pop)
    }

    /// Another stack has given up a dirty line that this level had dropped: it goes where the level's own went,
    /// `out` included.
    pub fn put_recalled(&mut self, level: usize, dirty: DirtyLine, out: &mut Vec<DirtyLine>) {
        self.set_version(dirty.line, dirty.version);
        out.retain(|dropped| dropped.line != dirty.line);
        if let Some(clean) = &mut self.clean {
            clean.retain(|dropped| dropped.line != dirty.line);
        }
        self.put_at(level + 1, dirty.line, out);
    }

    /// Lines that a level before an inclusive one has, and this one has not: none, ever.
    pub fn astray(&self) -> Option<u64> {
        let outer = (1..self.depth()).filter(|level| self.inclusive[*level]);
        let mut inner = outer.flat_map(|level| {
            let lines = self.levels[..level].iter().flat_map(LruLines::iter);
            lines.filter(move |(line, _)| !self.levels[level].contains(*line))
        });
        inner.next().map(|(line, _)| line)
    }

    /// Whether a level has a line. It does not count as used.
    pub fn level_contains(&self, level: usize, line: u64) -> bool {
        self.levels[level].contains(line)
    }

    /// Number of levels.
    pub fn depth(&self) -> usize {
        self.levels.len()
    }

    /// Time from issue to data on a hit in a level of this stack.
    #[inline]
    pub fn latency_ps(&self, level: usize) -> u64 {
        self.latencies_ps[level]
    }

    /// Whether the first level has the line: the fast path. A write makes it dirty, and does not hit a
    /// line that is shared, which is clean.
    #[inline]
    pub fn hit_first(&mut self, line: u64, write: bool) -> bool {
        let (any_shared, shared) = (self.any_shared, &self.shared);
        self.levels[0].access_if(line, write, || !(any_shared && is_among(shared, line)))
    }

    /// Whether a line, if it is in the stack, may be in others.
    #[inline]
    pub fn is_shared(&self, line: u64) -> bool {
        self.any_shared && is_among(&self.shared, line)
    }

    /// A line of the stack may be in others from now on, or is in none.
    pub fn set_shared(&mut self, line: u64, shared: bool) {
        if self.is_shared(line) != shared {
            *self.shared.get_mut(line >> 6) ^= 1 << (line & 63);
            self.any_shared = true;
        }
    }

    /// Another stack reads a line: if it is in this one it becomes clean and shared. Whether it was dirty,
    /// and its version.
    pub fn yield_line(&mut self, line: u64) -> Option<(bool, u64)> {
        let dirty = self.levels.iter_mut().filter_map(|level| level.clean(line));
        let dirty = dirty.reduce(|one, other| one | other)?;
        self.set_shared(line, true);
        Some((dirty, self.version(line)))
    }

    /// A line is written to memory, and stays: it is clean. Whether it was dirty, and its version, if it is there.
    pub fn clean(&mut self, line: u64) -> Option<(bool, u64)> {
        let dirty = self.levels.iter_mut().filter_map(|level| level.clean(line));
        let dirty = dirty.reduce(|one, other| one | other)?;
        Some((dirty, self.version(line)))
    }

    /// Another stack writes a line: if it is in this one it goes. Whether it was dirty, and its version.
    pub fn give_up(&mut self, line: u64) -> Option<(bool, u64)> {
        let dirty = self.levels.iter_mut().filter_map(|level| level.remove(line));
        let dirty = dirty.reduce(|one, other| one | other)?;
        Some((dirty, self.version(line)))
    }

    /// Whether the stack has a line that was written.
    pub fn is_dirty(&self, line: u64) -> bool {
        self.levels.iter().any(|level| level.is_dirty(line))
    }

    /// Lines of the stack, and whether each is dirty, some of them several times.
    pub fn lines(&self) -> impl Iterator<Item = (u64, bool)> + '_ {
        self.levels.iter().flat_map(LruLines::iter)
    }

    /// Looks beyond the first level, which has missed; on a hit the line moves into the levels
    /// before. The level that had it. A write does not hit a line that is shared.
    #[inline]
    pub fn hit_beyond(
        &mut self,
        line: u64,
        write: bool,
        out: &mut Vec<DirtyLine>,
    ) -> Option<usize> {
        if write && self.is_shared(line) {
            return None;
        }
        let beyond = self.levels.iter_mut().skip(1);
        let level = 1 + beyond.into_iter().position(|level| level.access(line, false))?;
        self.insert_before(level, line, write, out);
        Some(level)
    }

    /// Looks in all levels. The level that had it.
    pub fn access(&mut self, line: u64, out: &mut Vec<DirtyLine>) -> Option<usize> {
        if self.levels.is_empty() {
            return None;
        }
        if self.hit_first(line, false) { Some(0) } else { self.hit_beyond(line, false, out) }
    }

    /// Whether any level has a line. It does not count as used.
    pub fn contains(&self, line: u64) -> bool {
        self.levels.iter().any(|level| level.contains(line))
    }

    /// A line arrives from outside, and comes into every level. Where the stack has the line by
    /// now, its own version stays.
    pub fn fill(&mut self, line: u64, write: bool, version: u64, out: &mut Vec<DirtyLine>) {
        self.fill_from(0, (line, write), version, out);
    }

    /// The same where nobody has asked for the line yet: it comes into all levels but the first, or the only one.
    pub fn fill_ahead(&mut self, line: u64, version: u64, out: &mut Vec<DirtyLine>) {
        let first = 1.min(self.levels.len().saturating_sub(1));
        self.fill_from(first, (line, false), version, out);
    }

    fn fill_from(
        &mut self,
        first: usize,
        (line, write): (u64, bool),
        version: u64,
        out: &mut Vec<DirtyLine>,
    ) {
        if self.versions.is_some() && !self.contains(line) {
            self.set_version(line, version);
        }
        for level in (first..self.levels.len()).rev() {
            let dirty = write && level == 0;
            let there = if dirty {
                self.levels[0].set_dirty(line)
            } else {
                self.levels[level].contains(line)
            };
            if !there {
                self.insert(level, line, dirty, out);
            }
        }
    }

    /// A line that every level has just missed arrives, or is written as a whole.
    pub fn fill_absent(&mut self, line: u64, write: bool, version: u64, out: &mut Vec<DirtyLine>) {
        self.set_version(line, version);
        self.insert_before(self.levels.len(), line, write, out);
    }

    /// A dirty line arrives from the stack before this one.
    pub fn put_dirty(&mut self, dirty: DirtyLine, out: &mut Vec<DirtyLine>) {
        if self.levels.is_empty() {
            out.push(dirty);
            return;
        }
        self.set_version(dirty.line, dirty.version);
        self.put_at(0, dirty.line, out);
    }

    /// Puts the line into levels `0..until`, none of which has it.
    #[inline]
    fn insert_before(&mut self, until: usize, line: u64, write: bool, out: &mut Vec<DirtyLine>) {
        for level in (0..until).rev() {
            self.insert(level, line, write && level == 0, out);
        }
    }

    /// Puts the line into a level that does not have it.
    #[inline]
    fn insert(&mut self, level: usize, line: u64, dirty: bool, out: &mut Vec<DirtyLine>) {
        if let Some(gone) = self.levels[level].insert(line, dirty) {
            self.dropped(level, gone, out);
        }
    }

    /// A level has dropped a line: those before an inclusive one give it up, and what is dirty goes to the next.
    #[inline]
    fn dropped(&mut self, level: usize, gone: Gone, out: &mut Vec<DirtyLine>) {
        let Gone { line, mut dirty } = gone;
        if self.inclusive[level] {
            for inner in &mut self.levels[..level] {
                dirty |= inner.remove(line).unwrap_or(false);
            }
            if self.is_shared_by_cores {
                self.recalled.push((level, line));
            }
        }
        if dirty {
            self.put_at(level + 1, line, out);
        } else if level + 1 == self.levels.len() {
            let version = self.version(line);
            if let Some(clean) = &mut self.clean {
                clean.push(DirtyLine { line, version });
            }
        }
    }

    /// A dirty line comes down to `level`.
    fn put_at(&mut self, level: usize, line: u64, out: &mut Vec<DirtyLine>) {
        let Some(lines) = self.levels.get_mut(level) else {
            out.push(DirtyLine { line, version: self.version(line) });
            return;
        };
        if lines.set_dirty(line) {
            return;
        }
        for outer in (level + 1..self.levels.len()).rev() {
            if self.inclusive[outer] && !self.levels[outer].contains(line) {
                self.insert(outer, line, false, out);
            }
        }
        self.insert(level, line, true, out);
    }

    /// Takes a line out of every level; whether any had it dirty, and its version.
    pub fn take(&mut self, line: u64) -> (bool, u64) {
        self.give_up(line).unwrap_or((false, 0))
    }

    /// Version of a line that is in the stack.
    #[inline]
    pub fn version(&self, line: u64) -> u64 {
        self.versions.as_ref().map_or(0, |versions| versions.get(line))
    }

    /// A line that is in the stack was written.
    #[inline]
    pub fn set_version(&mut self, line: u64, version: u64) {
        if let Some(versions) = &mut self.versions {
            versions.set(line, version);
        }
    }

    /// A second one.
    pub fn fork(&mut self) -> Self {
        Stack {
            levels: self.levels.clone(),
            latencies_ps: self.latencies_ps.clone(),
            inclusive: self.inclusive.clone(),
            is_shared_by_cores: self.is_shared_by_cores,
            recalled: self.recalled.clone(),
            clean: self.clean.clone(),
            versions: self.versions.as_mut().map(CowMap::fork),
            shared: self.shared.fork(),
            any_shared: self.any_shared,
        }
    }
}

/// Whether a line is among those that are kept by 64.
#[inline]
fn is_among(lines: &CowMap<u64>, line: u64) -> bool {
    lines.get(line >> 6) >> (line & 63) & 1 != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use tierscope_units::Size;

    fn stack(sizes: &[u64]) -> Stack {
        inclusive_stack(sizes, false)
    }

    fn inclusive_stack(sizes: &[u64], inclusive: bool) -> Stack {
        let specs: Vec<OnChipCacheSpec> = sizes
            .iter()
            .enumerate()
            .map(|(level, lines)| OnChipCacheSpec {
                name: format!("L{}", level + 1),
                capacity: Size::from_bytes(lines * 64),
                ways: 2,
                line: Size::from_bytes(64),
                latency_cycles: 4 * (level as u32 + 1),
                shared: false,
                inclusive: inclusive && level > 0,
                access_energy: None,
            })
            .collect();
        Stack::new(specs.iter(), Clock::from_hertz(2_000_000_000), true)
    }

    #[test]
    fn latencies_count_from_issue() {
        let stack = stack(&[8, 32]);
        assert_eq!((stack.latency_ps(0), stack.latency_ps(1)), (2000, 4000));
    }

    proptest! {
        /// Against one plain map of what memory would hold: no write is lost, none is invented.
        #[test]
        fn no_write_is_lost_on_its_way_through_the_levels(
            sizes in prop_oneof![Just(vec![4u64]), Just(vec![4, 8]), Just(vec![2, 4, 16])],
            inclusive in any::<bool>(),
            steps in proptest::collection::vec((0u64..40, any::<bool>(), 0u8..10), 1..400)
        ) {
            let mut stack = inclusive_stack(&sizes, inclusive);
            let mut memory: BTreeMap<u64, u64> = BTreeMap::new();
            let mut newest: BTreeMap<u64, u64> = BTreeMap::new();
            let mut out = Vec::new();
            for (step, (line, write, what)) in steps.into_iter().enumerate() {
                let version = step as u64 + 1;
                if what == 0 {
                    let (dirty, version) = stack.take(line);
                    if dirty {
                        memory.insert(line, version);
                    }
                } else {
                    let hit = stack.hit_first(line, write)
                        || stack.hit_beyond(line, write, &mut out).is_some();
                    if !hit {
                        let held = memory.get(&line).copied().unwrap_or(0);
                        stack.fill(line, write, held, &mut out);
                    }
                    prop_assert_eq!(stack.version(line), newest.get(&line).copied().unwrap_or(0));
                    if write {
                        stack.set_version(line, version);
                        newest.insert(line, version);
                    }
                }
                for dirty in out.drain(..) {
                    memory.insert(dirty.line, dirty.version);
                }
                prop_assert_eq!(stack.astray(), None);
            }
        }
    }
}
