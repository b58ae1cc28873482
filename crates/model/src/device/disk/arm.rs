//! What moves: the arm with the heads, and the platters below them.

use super::geometry::{Geometry, REVOLUTION, ticks_of};
use super::spec::{ArmSpec, PlattersSpec};

/// Times of seeks by distance: that of a single cylinder, a part that grows with the root of the distance
/// (while the arm speeds up and slows down), and one that grows with it (while it is at full speed).
/// The three are such that a seek over one cylinder, the mean over all pairs of cylinders, and a seek over
/// all of them take what data sheets say (E. K. Lee, R. H. Katz, "An Analytic Performance Model of
/// Disk Arrays", SIGMETRICS 1993).
#[derive(Clone, Copy, Debug)]
pub struct SeekCurve {
    single_ps: i128,
    /// At the full stroke, in picoseconds.
    root_ps: i128,
    linear_ps: i128,
    /// Cylinders of a full stroke, less one.
    stroke: i128,
}

impl SeekCurve {
    /// Through the three points of a description.
    pub fn new(arm: &ArmSpec, cylinders: u32) -> Self {
        let [single, average, full] = [arm.single_seek, arm.average_seek, arm.full_seek]
            .map(|seek| i128::from(seek.picoseconds()));
        SeekCurve {
            single_ps: single,
            root_ps: (15 * average - 10 * single - 5 * full) / 3,
            linear_ps: (7 * single - 15 * average + 8 * full) / 3,
            stroke: i128::from(cylinders.saturating_sub(2).max(1)),
        }
    }

    /// Whether a longer way never takes less time.
    pub fn is_monotone(&self) -> bool {
        // The slope at the end of the stroke is half the root's part and the linear one; at its
        // beginning the root's part decides.
        self.root_ps >= 0 && self.root_ps + 2 * self.linear_ps >= 0
    }

    /// Time of a seek over `distance` cylinders, one or more, in picoseconds.
    pub fn time_ps(&self, distance: u32) -> u64 {
        let beyond = i128::from(distance) - 1;
        let square = (self.root_ps * self.root_ps * beyond / self.stroke).unsigned_abs();
        let root_ps = square.isqrt() as i128;
        (self.single_ps + root_ps + self.linear_ps * beyond / self.stroke) as u64
    }
}

/// Where the heads are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heads {
    pub cylinder: u32,
    /// The one in use.
    pub head: u32,
}

/// A time, in picoseconds and in ticks, which are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instant {
    pub ps: u64,
    pub ticks: u128,
}

/// How an access goes: sectors that follow each other are read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The arm has come, and the head is switched.
    pub positioned_ps: u64,
    /// The first sector comes below the head.
    pub reached_ps: u64,
    /// The last sector has passed.
    pub end: Instant,
    /// Where the heads are then.
    pub heads: Heads,
    /// Whether the arm has moved before the first sector.
    pub seeks: bool,
}

/// The mechanism: geometry and times, without what is under way.
#[derive(Clone, Debug)]
pub struct Mechanism {
    geometry: Geometry,
    seeks: SeekCurve,
    rpm: u64,
    head_switch_ps: u64,
    write_settle_ps: u64,
}

impl Mechanism {
    /// Of a description that has been checked.
    pub fn new(platters: &PlattersSpec, arm: &ArmSpec) -> Self {
        Mechanism {
            geometry: Geometry::new(platters),
            seeks: SeekCurve::new(arm, platters.cylinders),
            rpm: u64::from(platters.rpm),
            head_switch_ps: arm.head_switch.picoseconds(),
            write_settle_ps: arm.write_settle.picoseconds(),
        }
    }

    /// A time that is whole picoseconds.
    pub fn instant(&self, ps: u64) -> Instant {
        Instant { ps, ticks: u128::from(ps) * u128::from(self.rpm) }
    }

    fn round_up(&self, ticks: u128) -> Instant {
        Instant { ps: ticks.div_ceil(u128::from(self.rpm)) as u64, ticks }
    }

    /// Time until the heads are on another track: arm and switch work at the same time. Writes want the
    /// head quieter; tracks that follow each other are near enough.
    fn positioning_ps(&self, from: Heads, to: Heads, write: bool) -> u64 {
        let switch_ps = if from.head == to.head { 0 } else { self.head_switch_ps };
        match from.cylinder.abs_diff(to.cylinder) {
            0 => switch_ps,
            distance => {
                let settle_ps = if write && distance > 1 { self.write_settle_ps } else { 0 };
                switch_ps.max(self.seeks.time_ps(distance) + settle_ps)
            }
        }
    }

    /// Time from `start` until the sector is below its head.
    pub fn reach_ps(&self, start: Instant, from: Heads, sector: u64, write: bool) -> u64 {
        self.reach(start, from, sector, write).1.div_ceil(u128::from(self.rpm)) as u64 - start.ps
    }

    /// When the heads are on the track of a sector, and when they reach it, in ticks; and what the track
    /// still holds from there on, in sectors and ticks of one.
    fn reach(
        &self,
        start: Instant,
        from: Heads,
        sector: u64,
        write: bool,
    ) -> (u128, u128, Heads, u64, u32) {
        let place = self.geometry.place(sector);
        let to = Heads { cylinder: place.cylinder, head: place.head };
        let positioning_ps = self.positioning_ps(from, to, write);
        let positioned = start.ticks + u128::from(positioning_ps) * u128::from(self.rpm);
        let phase = (positioned % u128::from(REVOLUTION)) as u64;
        let angle = self.geometry.angle(place);
        let wait = if angle >= phase { angle - phase } else { angle + REVOLUTION - phase };
        let left = u64::from(place.sectors - place.sector);
        (positioned, positioned + u128::from(wait), to, left, place.sectors)
    }

    /// The way of an access to `count` sectors from `sector` on.
    pub fn way(&self, start: Instant, from: Heads, sector: u64, count: u64, write: bool) -> Way {
        let (positioned, reached, mut heads, on_track, sectors) =
            self.reach(start, from, sector, write);
        let seeks = heads.cylinder != from.cylinder;
        let mut moved = on_track.min(count);
        let mut end = reached + u128::from(self.passing(sector, moved, sectors));
        while moved < count {
            let at = Instant { ps: 0, ticks: end };
            let (_, next, to, on_track, sectors) = self.reach(at, heads, sector + moved, write);
            let more = on_track.min(count - moved);
            end = next + u128::from(self.passing(sector + moved, more, sectors));
            (heads, moved) = (to, moved + more);
        }
        Way {
            positioned_ps: self.round_up(positioned).ps,
            reached_ps: self.round_up(reached).ps,
            end: self.round_up(end),
            heads,
            seeks,
        }
    }

    /// Ticks in which `count` sectors of a track pass, so that those of neighbours add up.
    fn passing(&self, sector: u64, count: u64, sectors: u32) -> u64 {
        let first = u64::from(self.geometry.place(sector).sector);
        ticks_of(first + count, sectors) - ticks_of(first, sectors)
    }
}
