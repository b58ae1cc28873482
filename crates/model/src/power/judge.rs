//! The judge: what an organization has after recovery against what was promised, and what was ever written.

use super::{Origin, Outage, PowerFailure, Recovery};
use crate::organization::Organization;

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Harm {
    /// It is older than what was promised to survive.
    Lost,
    /// It cannot be read.
    Unreadable,
    /// It was never written there.
    Invented,
}

impl Harm {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Harm::Lost => "lost",
            Harm::Unreadable => "unreadable",
            Harm::Invented => "invented",
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

/// What the judge found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Lines that were compared: those that were ever written.
    pub lines: u64,
    /// Of these, those of which a version was promised.
    pub promised: u64,
    /// Of these, those that were found in memory that was saved.
    pub in_memory: u64,
    /// What is not as it was promised.
    pub faults: Vec<Fault>,
}

/// Compares every line that was ever written.
pub fn judge(organization: &dyn PowerFailure, line_bytes: u64) -> Verdict {
    let promises = organization.promised();
    let mut verdict = Verdict::default();
    for (line, newest) in organization.written().iter() {
        let promised = promises.get(line);
        verdict.lines += 1;
        verdict.promised += u64::from(promised > 0);
        let found = organization.found(line * line_bytes);
        let harm = match found {
            None => Harm::Unreadable,
            Some((0, _)) if promised == 0 => continue,
            Some((version, _)) if version < promised => Harm::Lost,
            Some((version, origin)) => {
                let own = version <= newest && organization.line_of(version) == Some(line);
                if own {
                    let saved = promised > 0 && origin == Origin::Memory;
                    verdict.in_memory += u64::from(saved);
                    continue;
                }
                Harm::Invented
            }
        };
        // What is older may be another line's, too, which is worse.
        let foreign = |&(version, _): &(u64, Origin)| {
            version > 0 && organization.line_of(version) != Some(line)
        };
        let harm = if found.as_ref().is_some_and(foreign) { Harm::Invented } else { harm };
        let found = found.map(|(version, _)| version);
        verdict.faults.push(Fault { line, harm, promised, found });
    }
    verdict
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
    let mut failure = Failure { cuts: 1, ..Failure::default() };
    let (mut since_ps, mut left) = (now_ps, second);
    failure.outage = organization.power()?.cut(now_ps);
    failure.recovery = organization.power()?.recover(now_ps);
    let (mut at_ps, mut out) = (now_ps, Vec::new());
    while organization.in_flight() > 0
        && let Some(next_ps) = organization.next_event_ps()
    {
        at_ps = next_ps.max(at_ps);
        organization.advance(at_ps, &mut out);
        left = left.map(|events| events.saturating_sub(1));
        if left == Some(0) {
            left = None;
            failure.cuts += 1;
            let again = organization.power()?.cut(at_ps);
            let saved_pages = failure.outage.saved_pages + again.saved_pages;
            failure.outage = Outage { saved_pages, ..again };
            let before = failure.recovery;
            failure.recovery = organization.power()?.recover(at_ps);
            failure.recovery.reissued += before.reissued;
            failure.recovery.reissued_lines =
                failure.recovery.reissued_lines.max(before.reissued_lines);
            since_ps = at_ps;
        }
    }
    failure.reissue_ps = at_ps - since_ps;
    failure.verdict = judge(organization.power()?, line_bytes);
    Some(failure)
}
