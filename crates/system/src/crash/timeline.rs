//! What came before a failure of power, request by request.

use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use tierscope_kernel::CowMap;
use tierscope_model::power::{PowerFailure, Step};

/// Writes of lines that are told, those before the cut.
const MOST_WRITES: usize = 12;
/// What ended before the cut and is told.
const MOST_ENDED: usize = 8;

/// A request, or something else that was under way, as far as it had come when power failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Track {
    /// `write` of a line, or what an organization does for itself: `evict`, `fill`, `clone`.
    pub what: &'static str,
    /// The first byte that it concerns.
    pub address: u64,
    /// Of a write, which version of its line it brings.
    pub version: Option<u64>,
    /// When it began, in picoseconds of simulated time.
    pub issued_ps: u64,
    /// When its requester was told that it was done.
    pub acknowledged_ps: Option<u64>,
    /// From when on it was promised to survive.
    pub durable_ps: Option<u64>,
    /// Of a write, what recovery has left of it: `kept`, `gone`, which nobody had promised, or `lost`. Of others
    /// `cut`, where they were under way.
    pub outcome: Option<&'static str>,
}

/// The last requests of a run.
#[derive(Debug)]
pub(super) struct Timeline {
    line_bytes: u64,
    /// The newest version of each line that has been seen.
    seen: CowMap<u64>,
    writes: VecDeque<Track>,
    open: BTreeMap<(&'static str, u64), Track>,
    ended: VecDeque<Track>,
}

impl Timeline {
    pub(super) fn new(line_bytes: u64) -> Self {
        Timeline {
            line_bytes,
            seen: CowMap::new(0),
            writes: VecDeque::new(),
            open: BTreeMap::new(),
            ended: VecDeque::new(),
        }
    }

    /// Sees what has become of requests, where `touched` lines may have changed.
    pub(super) fn look(&mut self, at_ps: u64, power: &dyn PowerFailure, touched: &[Range<u64>]) {
        for line in touched.iter().cloned().flatten() {
            let newest = power.written().get(line);
            if newest > self.seen.get(line) {
                self.seen.set(line, newest);
                let address = line * self.line_bytes;
                let version = Some(newest);
                push(
                    &mut self.writes,
                    MOST_WRITES,
                    Track { version, ..begun("write", address, at_ps) },
                );
            }
        }
        for write in self.writes.iter_mut().filter(|write| write.durable_ps.is_none()) {
            let (line, version) = (write.address / self.line_bytes, write.version.unwrap_or(0));
            let has = |all: &CowMap<u64>| (all.get(line) >= version).then_some(at_ps);
            write.acknowledged_ps = write.acknowledged_ps.or_else(|| has(power.answered()));
            write.durable_ps = has(power.promised());
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

    /// What there is to tell of a failure from which `power` has recovered, in the order of beginnings.
    pub(super) fn end(self, power: &dyn PowerFailure) -> Vec<Track> {
        let line_bytes = self.line_bytes;
        let writes = self.writes.into_iter().map(|track| {
            let version = track.version.unwrap_or(0);
            let found = power.found(track.address / line_bytes * line_bytes);
            let outcome = match found {
                Some((found, _)) if found >= version => "kept",
                _ if track.durable_ps.is_some() => "lost",
                _ => "gone",
            };
            Track { outcome: Some(outcome), ..track }
        });
        let cut = self.open.into_values().map(|track| Track { outcome: Some("cut"), ..track });
        let mut tracks: Vec<Track> = writes.chain(self.ended).chain(cut).collect();
        tracks.sort_by_key(|track| (track.issued_ps, track.what, track.address));
        tracks
    }
}

fn begun(what: &'static str, address: u64, issued_ps: u64) -> Track {
    Track {
        what,
        address,
        version: None,
        issued_ps,
        acknowledged_ps: None,
        durable_ps: None,
        outcome: None,
    }
}

fn push(tracks: &mut VecDeque<Track>, most: usize, track: Track) {
    if tracks.len() >= most {
        tracks.pop_front();
    }
    tracks.push_back(track);
}
