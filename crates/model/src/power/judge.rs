//! The judge: what an organization has after recovery against what was promised, and what was ever written.

use super::touched::{Touched, join};
use super::{Origin, Outage, PowerFailure, Recovery, STALE};
use crate::organization::Organization;
use std::collections::BTreeMap;
use std::ops::Range;
use tierscope_kernel::CowMap;

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Harm {
    /// It is older than what was promised to survive.
    Lost,
    /// It cannot be read.
    Unreadable,
    /// It was never written there.
    Invented,
    /// It is what its block held before it was the file's.
    Stale,
}

impl Harm {
    /// Every one.
    pub const ALL: [Harm; 4] = [Harm::Lost, Harm::Unreadable, Harm::Invented, Harm::Stale];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Harm::Lost => "lost",
            Harm::Unreadable => "unreadable",
            Harm::Invented => "invented",
            Harm::Stale => "stale",
        }
    }
}

/// A line that is not as it was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its number: its address, by the bytes of a line.
    pub line: u64,
    /// What is wrong.
    pub harm: Harm,
    /// The newest version that was promised; 0 for what was there at the start.
    pub promised: u64,
    /// The version that is there.
    pub found: Option<u64>,
}

/// Faults that a verdict tells one by one.
const MOST_FAULTS: usize = 64;

/// What the judge found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Lines that were compared: those that were ever written.
    pub lines: u64,
    /// Of these, those of which a version was promised.
    pub promised: u64,
    /// Of these, those that were found in memory that was saved.
    pub in_memory: u64,
    /// Lines that are not as they were promised, by what is wrong.
    pub harmed: [u64; 4],
    /// Lines that show what their blocks held before they were the file's, which is permitted.
    pub stale: u64,
    /// The first of them, by number.
    pub faults: Vec<Fault>,
}

impl Verdict {
    /// Lines that are not as they were promised.
    pub fn broken(&self) -> u64 {
        self.harmed.iter().sum()
    }

    /// Lines of which this is wrong.
    pub fn of(&self, harm: Harm) -> u64 {
        self.harmed[harm as usize]
    }

    fn count(&mut self, finding: Finding) {
        self.lines += 1;
        self.promised += u64::from(finding.promised);
        self.in_memory += u64::from(finding.in_memory);
        self.stale += u64::from(finding.stale);
        if let Some(harm) = finding.harm {
            self.harmed[harm as usize] += 1;
        }
    }

    fn forget(&mut self, finding: Finding) {
        self.lines -= 1;
        self.promised -= u64::from(finding.promised);
        self.in_memory -= u64::from(finding.in_memory);
        self.stale -= u64::from(finding.stale);
        if let Some(harm) = finding.harm {
            self.harmed[harm as usize] -= 1;
        }
    }
}

/// What the judge found of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Finding {
    /// A version of it was promised.
    promised: bool,
    /// That was found in memory that was saved.
    in_memory: bool,
    /// It shows what its block held before it was the file's, and may.
    stale: bool,
    harm: Option<Harm>,
}

/// Looks at a line, of which `newest` was written last.
fn look(
    organization: &dyn PowerFailure,
    line: u64,
    newest: u64,
    line_bytes: u64,
) -> (Finding, Option<Fault>) {
    let promised = organization.promised(line).max(organization.synced(line));
    let found = organization.found(line * line_bytes);
    let is_own = |version| version == newest || organization.line_of(version) == Some(line);
    let harm = match found {
        None => Some(Harm::Unreadable),
        Some((0, _)) => (promised > 0).then_some(Harm::Lost),
        Some((STALE, _)) if promised > 0 => Some(Harm::Lost),
        Some((STALE, _)) => (!organization.permits_stale()).then_some(Harm::Stale),
        // What is older may be another line's, too, which is worse.
        Some((version, _)) if version > newest || !is_own(version) => Some(Harm::Invented),
        Some((version, _)) => (version < promised).then_some(Harm::Lost),
    };
    let saved = matches!(found, Some((version, Origin::Memory)) if version > 0);
    let in_memory = promised > 0 && saved && harm.is_none();
    let found = found.map(|(version, _)| version);
    let stale = found == Some(STALE) && harm.is_none();
    let found = found.filter(|version| *version < STALE);
    let fault = harm.map(|harm| Fault { line, harm, promised, found });
    (Finding { promised: promised > 0, in_memory, stale, harm }, fault)
}

/// Compares every line that was ever written.
pub fn judge(organization: &dyn PowerFailure, line_bytes: u64) -> Verdict {
    let mut verdict = Verdict::default();
    let mut faults = BTreeMap::new();
    organization.each_written(&mut |line, newest| {
        let (finding, fault) = look(organization, line, newest, line_bytes);
        verdict.count(finding);
        faults.extend(fault.map(|fault| (line, fault)));
    });
    verdict.faults.extend(faults.into_values().take(MOST_FAULTS));
    verdict
}

/// Judges one failure after the other of forks of one run: only lines that changed since the last are looked
/// at, and what is found is the same as by [`judge`].
#[derive(Debug)]
pub struct Judge {
    line_bytes: u64,
    /// What was found of each line last.
    findings: CowMap<Option<Finding>>,
    faults: BTreeMap<u64, Fault>,
    verdict: Verdict,
    /// What failure and recovery changed in the last fork.
    again: Vec<Range<u64>>,
    /// What changed in the run.
    since: Touched,
}

impl Judge {
    /// Of a run that has not begun.
    pub fn new(line_bytes: u64) -> Self {
        Judge {
            line_bytes,
            findings: CowMap::new(None),
            faults: BTreeMap::new(),
            verdict: Verdict::default(),
            again: Vec::new(),
            since: Touched::following(),
        }
    }

    /// What the first faults of a verdict concern, where their addresses do not say it.
    pub fn names(&self, verdict: &Verdict, power: &dyn PowerFailure) -> Vec<Option<String>> {
        verdict.faults.iter().map(|fault| power.name(fault.line * self.line_bytes)).collect()
    }

    /// What changed in the run up to now: to be told before each fork, and at any time besides.
    pub fn follow(&mut self, run: &mut dyn PowerFailure) -> Vec<Range<u64>> {
        let lines = run.touched();
        self.since.extend(&lines);
        lines
    }

    /// What changed in the run since the last call: what the judge wants to know with a fork that is made now.
    pub fn since(&mut self) -> Vec<Range<u64>> {
        self.since.take()
    }

    /// Compares the lines of a fork that has recovered; forks come in the order in which they were made.
    pub fn judge(&mut self, since: &[Range<u64>], fork: &mut dyn PowerFailure) -> Verdict {
        let of_fork = fork.touched();
        let mut lines = std::mem::replace(&mut self.again, of_fork.clone());
        lines.extend(of_fork);
        lines.extend_from_slice(since);
        join(&mut lines);
        for line in lines.into_iter().flatten() {
            let newest = fork.written(line);
            if newest > 0 {
                self.look(fork, line, newest);
            }
        }
        self.verdict.faults.clear();
        self.verdict.faults.extend(self.faults.values().take(MOST_FAULTS));
        self.verdict.clone()
    }

    fn look(&mut self, fork: &dyn PowerFailure, line: u64, newest: u64) {
        let (finding, fault) = look(fork, line, newest, self.line_bytes);
        let before = self.findings.get(line);
        if before != Some(finding) {
            before.into_iter().for_each(|before| self.verdict.forget(before));
            self.verdict.count(finding);
            self.findings.set(line, Some(finding));
        }
        match fault {
            Some(fault) => drop(self.faults.insert(line, fault)),
            None if before.is_some_and(|before| before.harm.is_some()) => {
                self.faults.remove(&line);
            }
            None => {}
        }
    }
}

/// A failure of power, and what came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Failure {
    /// What the parts did at the last cut, and take until they are there again.
    pub outage: Outage,
    /// What recovery did.
    pub recovery: Recovery,
    /// Picoseconds in which it carried out again what was interrupted.
    pub reissue_ps: u64,
    /// Events in which recovery carried out again what was interrupted, those before a second cut among them.
    pub events: u64,
    /// Times that power failed: two where the second came in the middle of recovery.
    pub cuts: u32,
    /// What the judge found.
    pub verdict: Verdict,
}

impl Failure {
    /// Picoseconds from the return of power until memory serves requests and nothing is to be done again.
    pub fn recovery_ps(&self) -> u64 {
        self.outage.ready_ps + self.recovery.scan_ps + self.reissue_ps
    }

    /// Joules from the failure to then, as far as parts know them.
    pub fn energy_j(&self) -> Option<f64> {
        Some(self.outage.hold_j? + self.outage.ready_j?)
    }
}

/// Lets power fail at `now_ps`, recovers, and judges; with `second`, power fails again after so many events of
/// the recovery, if it has as many. `None` where the organization's power cannot fail.
pub fn fail(
    organization: &mut dyn Organization,
    now_ps: u64,
    second: Option<u64>,
    line_bytes: u64,
) -> Option<Failure> {
    let failure = cut_and_recover(organization, now_ps, second)?;
    let verdict = judge(organization.power()?, line_bytes);
    Some(Failure { verdict, ..failure })
}

/// As [`fail`], without the verdict.
pub fn cut_and_recover(
    organization: &mut dyn Organization,
    now_ps: u64,
    second: Option<u64>,
) -> Option<Failure> {
    let mut failure = Failure { cuts: 1, ..Failure::default() };
    let (mut since_ps, mut left) = (now_ps, second);
    failure.outage = organization.power_mut()?.cut(now_ps);
    failure.recovery = organization.power_mut()?.recover(now_ps);
    let (mut at_ps, mut out) = (now_ps, Vec::new());
    while organization.in_flight() > 0
        && let Some(next_ps) = organization.next_event_ps()
    {
        at_ps = next_ps.max(at_ps);
        organization.advance(at_ps, &mut out);
        left = left.map(|events| events.saturating_sub(1));
        failure.events += 1;
        if left == Some(0) {
            left = None;
            failure.cuts += 1;
            let again = organization.power_mut()?.cut(at_ps);
            let saved_pages = failure.outage.saved_pages + again.saved_pages;
            let short = failure.outage.short || again.short;
            failure.outage = Outage { saved_pages, short, ..again };
            let before = failure.recovery;
            failure.recovery = organization.power_mut()?.recover(at_ps);
            failure.recovery.reissued += before.reissued;
            failure.recovery.reissued_lines =
                failure.recovery.reissued_lines.max(before.reissued_lines);
            since_ps = at_ps;
        }
    }
    failure.reissue_ps = at_ps - since_ps;
    Some(failure)
}
