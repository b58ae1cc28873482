//! Where sectors lie on the platters, and at which angle.
//!
//! Angles and times of rotation are counted in ticks: a picosecond has as many as the disk makes
//! revolutions a minute, and a revolution always [`REVOLUTION`]. So both are exact, whatever the speed.

use super::spec::PlattersSpec;

/// Ticks of a revolution: picoseconds of a minute.
pub const REVOLUTION: u64 = 60_000_000_000_000;

/// A track, and where on it a sector lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Counted from the outside.
    pub cylinder: u32,
    /// Of which surface.
    pub head: u32,
    /// Sector of the track.
    pub sector: u32,
    /// Sectors of the track.
    pub sectors: u32,
}

/// Neighbouring cylinders with as many sectors on each track.
#[derive(Clone, Copy, Debug)]
struct Zone {
    /// Number of its first sector.
    first: u64,
    /// Its first cylinder.
    cylinder: u32,
    /// Sectors of a track.
    sectors: u32,
}

/// How the platters are divided: sectors are numbered along a track, then over the heads of a cylinder,
/// then cylinder by cylinder from the outside.
#[derive(Clone, Debug)]
pub struct Geometry {
    heads: u32,
    zones: Vec<Zone>,
    sectors: u64,
    /// Ticks by which the first sector lies behind that of the track before it on the same cylinder.
    track_skew: u64,
    /// Ticks by which cylinders follow each other, over all their heads.
    cylinder_step: u64,
}

impl Geometry {
    /// Of a description that has been checked.
    pub fn new(spec: &PlattersSpec) -> Self {
        let (count, last) = (u64::from(spec.zones), u64::from(spec.zones - 1).max(1));
        let difference = u64::from(spec.outer_sectors - spec.inner_sectors);
        let mut zones = Vec::new();
        let mut first = 0;
        for zone in 0..count {
            let cylinder = |zone| (u64::from(spec.cylinders) * zone / count) as u32;
            let fewer = (difference * zone + last / 2) / last;
            let sectors = spec.outer_sectors - fewer as u32;
            zones.push(Zone { first, cylinder: cylinder(zone), sectors });
            let tracks = u64::from(cylinder(zone + 1) - cylinder(zone)) * u64::from(spec.heads);
            first += tracks * u64::from(sectors);
        }
        let ticks = |skew_ps: u64| {
            (u128::from(skew_ps) * u128::from(spec.rpm) % u128::from(REVOLUTION)) as u64
        };
        let track_skew = ticks(spec.track_skew.picoseconds());
        let over_heads = u128::from(track_skew) * u128::from(spec.heads - 1)
            + u128::from(ticks(spec.cylinder_skew.picoseconds()));
        Geometry {
            heads: spec.heads,
            zones,
            sectors: first,
            track_skew,
            cylinder_step: (over_heads % u128::from(REVOLUTION)) as u64,
        }
    }

    /// Sectors of all tracks.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Where a sector lies. There must be one of this number.
    pub fn place(&self, sector: u64) -> Place {
        let zone = &self.zones[self.zones.partition_point(|zone| zone.first <= sector) - 1];
        let (track, on_track) = (
            (sector - zone.first) / u64::from(zone.sectors),
            (sector - zone.first) % u64::from(zone.sectors),
        );
        Place {
            cylinder: zone.cylinder + (track / u64::from(self.heads)) as u32,
            head: (track % u64::from(self.heads)) as u32,
            sector: on_track as u32,
            sectors: zone.sectors,
        }
    }

    /// Angle at which a sector begins; that of the one behind the last of a track is where it ends.
    pub fn angle(&self, place: Place) -> u64 {
        let skew = u128::from(place.cylinder) * u128::from(self.cylinder_step)
            + u128::from(place.head) * u128::from(self.track_skew);
        let along = ticks_of(u64::from(place.sector), place.sectors);
        ((skew + u128::from(along)) % u128::from(REVOLUTION)) as u64
    }
}

/// Ticks of so many sectors of a track that has `sectors`.
#[inline]
pub fn ticks_of(count: u64, sectors: u32) -> u64 {
    (u128::from(count) * u128::from(REVOLUTION) / u128::from(sectors)) as u64
}
