//! Where power fails: events below the caches, by their number since the start of the run.

use super::CrashOptions;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use tierscope_kernel::Random;
use tierscope_model::power::UnderWay;

/// The longest recovery, in events, of which a second cut is drawn, as a power of two.
const MOST_EVENTS_LOG2: u64 = 12;

/// A point: `EVENT`, or `EVENT+SECOND` where power fails again after so many events of the recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Point {
    /// The number of the event right after which power fails.
    pub event: u64,
    /// Events of the recovery until it fails again.
    pub second: Option<u64>,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.second {
            Some(second) => write!(f, "{}+{second}", self.event),
            None => write!(f, "{}", self.event),
        }
    }
}

impl From<Point> for String {
    fn from(point: Point) -> String {
        point.to_string()
    }
}

impl FromStr for Point {
    type Err = String;

    fn from_str(text: &str) -> Result<Point, String> {
        let (event, second) = match text.split_once('+') {
            Some((event, second)) => (event, Some(second)),
            None => (text, None),
        };
        let number = |text: &str| text.parse::<u64>().ok();
        let second = match second.map(number) {
            Some(Some(second)) if second > 0 => Some(second),
            None => None,
            Some(_) => return Err(not_a_point(text)),
        };
        let event = number(event).ok_or_else(|| not_a_point(text))?;
        Ok(Point { event, second })
    }
}

fn not_a_point(text: &str) -> String {
    format!("`{text}` is no point; write EVENT or EVENT+EVENTS, as in 1200 or 1200+37")
}

impl TryFrom<String> for Point {
    type Error = String;

    fn try_from(text: String) -> Result<Point, String> {
        text.parse()
    }
}

/// How points were chosen, for the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Points {
    /// Every event.
    Every,
    /// By seed, among all events.
    Random,
    /// By seed, each kind of what is under way as often as others.
    Adversarial,
    /// One.
    Replay,
}

/// Which events are points, and after how many events of recovery power fails again.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// `None` for every event of the window.
    drawn: Option<BTreeMap<u64, Option<u64>>>,
    window_ps: (u64, u64),
    adversarial: bool,
    draws: Random,
    events: Option<u64>,
}

impl Choice {
    pub(super) fn every(options: &CrashOptions) -> Self {
        Choice {
            drawn: None,
            window_ps: options.window_ps.unwrap_or((0, u64::MAX)),
            adversarial: options.adversarial,
            draws: Random::stream(options.seed, "crash.second"),
            events: None,
        }
    }

    pub(super) fn one(point: Point) -> Self {
        let drawn = BTreeMap::from([(point.event, point.second)]);
        Choice { drawn: Some(drawn), ..Choice::every(&CrashOptions::default()) }
    }

    /// So many of the events from `first` on, of which each of `kinds` tells what is under way. One in two has
    /// a second cut.
    pub(super) fn drawn(options: &CrashOptions, points: u64, first: u64, kinds: &[u16]) -> Self {
        let mut draws = Random::stream(options.seed, "crash.points");
        let pools: Vec<Vec<u64>> = match options.adversarial {
            false => vec![(first..first + kinds.len() as u64).collect()],
            true => (0..UnderWay::KINDS.len())
                .map(|kind| {
                    let events = (first..).zip(kinds).filter(|(_, bits)| **bits >> kind & 1 == 1);
                    events.map(|(event, _)| event).collect()
                })
                .filter(|pool: &Vec<u64>| !pool.is_empty())
                .collect(),
        };
        let pools = if pools.is_empty() { vec![(first..first + 1).collect()] } else { pools };
        let mut drawn = BTreeMap::new();
        // An event may be drawn again: as long as there are others, it is not.
        for n in 0..points.saturating_mul(4) {
            if drawn.len() as u64 >= points {
                break;
            }
            let pool = &pools[n as usize % pools.len()];
            let event = pool[draws.below(pool.len() as u64) as usize];
            let second = second(&mut draws);
            drawn.entry(event).or_insert(second);
        }
        let events = Some(kinds.len() as u64);
        Choice { drawn: Some(drawn), events, ..Choice::every(options) }
    }

    /// Whether power may fail after this event.
    pub(super) fn may_take(&self, event: u64, at_ps: u64) -> bool {
        match &self.drawn {
            Some(drawn) => drawn.contains_key(&event),
            None => (self.window_ps.0..self.window_ps.1).contains(&at_ps),
        }
    }

    /// Whether power fails after this event, and when it does again.
    pub(super) fn take(
        &mut self,
        event: u64,
        at_ps: u64,
        under_way: &UnderWay,
    ) -> Option<Option<u64>> {
        if let Some(drawn) = &self.drawn {
            return drawn.get(&event).copied();
        }
        let inside = (self.window_ps.0..self.window_ps.1).contains(&at_ps);
        let exposed = !self.adversarial || under_way.kinds() != 0;
        (inside && exposed).then(|| second(&mut self.draws))
    }

    /// Whether no point comes any more.
    pub(super) fn is_done(&self, events: u64, at_ps: u64) -> bool {
        match &self.drawn {
            Some(drawn) => drawn.last_key_value().is_none_or(|(last, _)| *last < events),
            None => at_ps >= self.window_ps.1,
        }
    }

    /// Events of the window, where they have been counted.
    pub(super) fn events(&self) -> Option<u64> {
        self.events
    }
}

/// Every other point has a second cut, after any number of events: as often early as late.
fn second(draws: &mut Random) -> Option<u64> {
    let log2 = draws.below(2 * MOST_EVENTS_LOG2);
    (log2 < MOST_EVENTS_LOG2).then(|| (1 << log2) + draws.below(1 << log2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_read_as_it_is_told_and_anything_else_is_refused() {
        for point in [Point { event: 0, second: None }, Point { event: 12, second: Some(3) }] {
            assert_eq!(point.to_string().parse(), Ok(point));
        }
        for wrong in ["", "x", "1+", "+1", "1+0", "-1", "1+2+3"] {
            assert!(wrong.parse::<Point>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn adversarial_points_lie_where_something_is_under_way_and_every_kind_has_its_share() {
        let kinds: Vec<u16> =
            (0..1000).map(|n| u16::from(n % 100 == 7) << 1 | u16::from(n % 2 == 0)).collect();
        let options = CrashOptions { adversarial: true, seed: 3, ..CrashOptions::default() };
        let choice = Choice::drawn(&options, 20, 50, &kinds);
        let drawn = choice.drawn.unwrap();
        assert_eq!(drawn.len(), 20);
        assert!(drawn.keys().all(|event| kinds[(event - 50) as usize] != 0));
        let rare = drawn.keys().filter(|event| (*event - 50) % 100 == 7).count();
        assert!(rare >= 5, "{rare}");
        assert!(drawn.values().any(Option::is_some) && drawn.values().any(Option::is_none));
    }
}
