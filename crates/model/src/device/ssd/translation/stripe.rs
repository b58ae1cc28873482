//! In which order pages are dealt to lanes.

use super::Geometry;
use crate::medium::NandSpec;

/// A dimension over which pages are striped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dimension {
    Channel,
    Way,
    Die,
    Plane,
}

/// The names of the dimensions, as a description has them.
pub const LETTERS: [&str; 4] = ["c", "w", "d", "p"];

/// Reads an order such as `c-w-d-p`: what changes first stands first.
fn parse(text: &str) -> Option<[Dimension; 4]> {
    let letters: Vec<_> = text.split('-').collect();
    let dimension = |letter: &str| match letter {
        "c" => Some(Dimension::Channel),
        "w" => Some(Dimension::Way),
        "d" => Some(Dimension::Die),
        "p" => Some(Dimension::Plane),
        _ => None,
    };
    let all: Vec<_> = letters.iter().filter_map(|letter| dimension(letter)).collect();
    let once = |letter: &str| letters.iter().filter(|other| **other == letter).count() == 1;
    let order: [Dimension; 4] = all.try_into().ok()?;
    (letters.len() == 4 && LETTERS.iter().all(|letter| once(letter))).then_some(order)
}

/// Whether `text` is an order of the four dimensions.
pub fn is_order(text: &str) -> bool {
    parse(text).is_some()
}

/// The order in which pages are dealt to lanes: a round deals one page to each plane of each lane.
#[derive(Clone, Debug)]
pub struct Stripe {
    /// The lane of each page of a round, and how many of the round's pages it has had before.
    turns: Vec<(u32, u32)>,
    /// The turn of each lane's pages, planes together.
    turn_of: Vec<u32>,
    planes: u32,
}

impl Stripe {
    /// The order `text` over the array, of which each page is split over `split` channels. The
    /// description has been checked.
    pub fn new(text: &str, nand: &NandSpec, split: u32, geometry: &Geometry) -> Self {
        let order = parse(text).unwrap_or([
            Dimension::Channel,
            Dimension::Way,
            Dimension::Die,
            Dimension::Plane,
        ]);
        let size = |dimension| match dimension {
            Dimension::Channel => nand.channels / split,
            Dimension::Way => nand.ways,
            Dimension::Die => nand.dies,
            Dimension::Plane => nand.planes,
        };
        let count = geometry.lanes * geometry.planes;
        let mut turns = Vec::with_capacity(count as usize);
        let mut turn_of = vec![0; count as usize];
        let mut had = vec![0; geometry.lanes as usize];
        for turn in 0..count {
            let [mut channel, mut way, mut die, mut left] = [0, 0, 0, turn];
            for dimension in order {
                let at = left % size(dimension);
                left /= size(dimension);
                match dimension {
                    Dimension::Channel => channel = at,
                    Dimension::Way => way = at,
                    Dimension::Die => die = at,
                    Dimension::Plane => {}
                }
            }
            let lane = (channel * nand.ways + way) * nand.dies + die;
            let nth = &mut had[lane as usize];
            turns.push((lane, *nth));
            turn_of[(lane * geometry.planes + *nth) as usize] = turn;
            *nth += 1;
        }
        Stripe { turns, turn_of, planes: geometry.planes }
    }

    /// Pages of a round.
    #[inline]
    pub fn round(&self) -> u32 {
        self.turns.len() as u32
    }

    /// The lane of the page of this turn of a round.
    #[inline]
    pub fn lane(&self, turn: u32) -> u32 {
        self.turns[turn as usize].0
    }

    /// The turns of a lane.
    #[inline]
    pub fn turns(&self, lane: u32) -> &[u32] {
        &self.turn_of[(lane * self.planes) as usize..][..self.planes as usize]
    }

    /// The lane of the n-th page of all, and which of the lane's pages it is.
    #[inline]
    pub fn deal(&self, page: u64) -> (u32, u64) {
        let round = u64::from(self.round());
        let (lane, nth) = self.turns[(page % round) as usize];
        (lane, page / round * u64::from(self.planes) + u64::from(nth))
    }

    /// Which page of all is the n-th of `lane`.
    #[inline]
    pub fn dealt(&self, lane: u32, nth: u64) -> u64 {
        let planes = u64::from(self.planes);
        let turn = self.turn_of[(lane * self.planes) as usize + (nth % planes) as usize];
        nth / planes * u64::from(self.round()) + u64::from(turn)
    }

    /// How many of the first `pages` of all are those of `lane`.
    pub fn share(&self, lane: u32, pages: u64) -> u64 {
        let rounds = pages / u64::from(self.round());
        let rest = (pages % u64::from(self.round())) as usize;
        let of_lane = self.turns[..rest].iter().filter(|(other, _)| *other == lane).count();
        rounds * u64::from(self.planes) + of_lane as u64
    }
}
