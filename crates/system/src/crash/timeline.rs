//! What came before a failure of power, request by request.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use tierscope_kernel::CowMap;
use tierscope_model::power::{Fault, PowerFailure, STALE, Step, shown};

/// Writes of lines that are told, those before the cut.
const MOST_WRITES: usize = 12;
/// Writes of lines that are told because they were lost.
const MOST_FAULTS: usize = 4;
/// What ended before the cut and is told.
const MOST_ENDED: usize = 8;

/// A request, or something else that was under way, as far as it had come when power failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Track {
    /// `write` of a line, or what an organization does for itself: `evict`, `fill`, `clone`.
    pub what: &'static str,
    /// The first byte that it concerns.
    pub address: u64,
    /// Of a write, what it concerns, where its address does not say it.
    pub of: Option<String>,
    /// Of a write, which version of its line it brings.
    pub version: Option<u64>,
    /// When it began, in picoseconds of simulated time.
    pub issued_ps: u64,
    /// When its requester was told that it was done.
    pub acknowledged_ps: Option<u64>,
    /// From when on it was promised to survive.
    pub durable_ps: Option<u64>,
    /// Of a write, what recovery has left of it: `kept`, `gone`, which nobody had promised, or how it is harmed: `lost`,
    /// `unreadable`, `invented` or `stale`. Of others `cut`, where they were under way.
    pub outcome: Option<&'static str>,
}

/// A time that has not come.
const NEVER: u64 = u64::MAX;

/// The newest write of a line.
#[derive(Clone, Copy, Debug)]
struct Write {
    version: u64,
    issued_ps: u64,
    acknowledged_ps: u64,
    durable_ps: u64,
}

const NOTHING: Write =
    Write { version: 0, issued_ps: 0, acknowledged_ps: NEVER, durable_ps: NEVER };

/// The last requests of a run.
#[derive(Debug)]
pub(super) struct Timeline {
    line_bytes: u64,
    writes: CowMap<Write>,
    /// The lines that were written last.
    lines: VecDeque<u64>,
    open: BTreeMap<(&'static str, u64), Track>,
    ended: VecDeque<Track>,
}

impl Timeline {
    pub(super) fn new(line_bytes: u64) -> Self {
        Timeline {
            line_bytes,
            writes: CowMap::new(NOTHING),
            lines: VecDeque::new(),
            open: BTreeMap::new(),
            ended: VecDeque::new(),
        }
    }

    /// Sees what has become of requests, where `touched` lines may have changed.
    pub(super) fn look(&mut self, at_ps: u64, power: &dyn PowerFailure, touched: &[Range<u64>]) {
        for line in touched.iter().cloned().flatten() {
            let newest = power.written(line);
            if newest == 0 {
                continue;
            }
            let write = self.writes.get_mut(line);
            if newest > write.version {
                *write = Write { version: newest, issued_ps: at_ps, ..NOTHING };
                self.lines.retain(|other| *other != line);
                push(&mut self.lines, MOST_WRITES, line);
            }
            if power.answered(line) >= newest {
                write.acknowledged_ps = write.acknowledged_ps.min(at_ps);
            }
            if power.promised(line) >= newest {
                write.durable_ps = write.durable_ps.min(at_ps);
            }
        }
        self.look_at_steps(at_ps, &power.steps());
    }

    fn look_at_steps(&mut self, at_ps: u64, steps: &[Step]) {
        let is_open = |key: &(&str, u64)| steps.iter().any(|step| (step.what, step.number) == *key);
        let over: Vec<_> = self.open.keys().copied().filter(|key| !is_open(key)).collect();
        for key in over {
            if let Some(track) = self.open.remove(&key) {
                push(&mut self.ended, MOST_ENDED, Track { acknowledged_ps: Some(at_ps), ..track });
            }
        }
        for step in steps {
            let track = || begun(step.what, step.address, at_ps);
            self.open.entry((step.what, step.number)).or_insert_with(track);
        }
    }

    /// What there is to tell of a failure from which `power` has recovered, in the order of beginnings; what
    /// was lost is among it.
    pub(super) fn end(mut self, power: &dyn PowerFailure, faults: &[Fault]) -> Vec<Track> {
        let mut lines: BTreeSet<u64> = std::mem::take(&mut self.lines).into_iter().collect();
        lines.extend(faults.iter().take(MOST_FAULTS).map(|fault| fault.line));
        let harm = |line| faults.iter().find(|fault| fault.line == line).map(|it| it.harm.name());
        let writes = lines.into_iter().map(|line| self.write(line, harm(line), power));
        let writes: Vec<Track> = writes.collect();
        let cut = self.open.into_values().map(|track| Track { outcome: Some("cut"), ..track });
        let mut tracks: Vec<Track> = writes.into_iter().chain(self.ended).chain(cut).collect();
        tracks.sort_by_key(|track| (track.issued_ps, track.what, track.address));
        tracks
    }

    /// What there is to tell of the newest write of a line, of which something may be wrong.
    fn write(&self, line: u64, harm: Option<&'static str>, power: &dyn PowerFailure) -> Track {
        let Write { version, issued_ps, acknowledged_ps, durable_ps } = self.writes.get(line);
        let address = line * self.line_bytes;
        let some = |time_ps| (time_ps != NEVER).then_some(time_ps);
        // What was there before, or belongs to something else, is no version of it.
        let found = power.found(address).map(|(found, _)| found).filter(|found| *found < STALE);
        let outcome = harm.unwrap_or_else(|| match found {
            Some(found) if found >= version => "kept",
            // What was cut off or deleted is promised no more.
            found if power.promised(line) > found.unwrap_or(0) => "lost",
            _ => "gone",
        });
        Track {
            version: shown(version),
            of: power.name(address),
            acknowledged_ps: some(acknowledged_ps),
            durable_ps: some(durable_ps),
            outcome: Some(outcome),
            ..begun("write", address, issued_ps)
        }
    }
}

fn begun(what: &'static str, address: u64, issued_ps: u64) -> Track {
    Track {
        what,
        address,
        of: None,
        version: None,
        issued_ps,
        acknowledged_ps: None,
        durable_ps: None,
        outcome: None,
    }
}

fn push<T>(last: &mut VecDeque<T>, most: usize, one: T) {
    if last.len() >= most {
        last.pop_front();
    }
    last.push_back(one);
}
