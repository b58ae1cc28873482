//! Which block is collected next.

use serde::{Deserialize, Serialize};
use tierscope_kernel::CowTable;

/// By what a block is chosen for collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VictimPolicy {
    /// The fewest valid units; of those with as few, the one that has waited longest.
    Greedy,
    /// The greatest gain for its cost, weighed by age: (1 - u) / 2u × time since it was filled, for a
    /// share u of valid units (Kawaguchi, Nishioka and Motoda, "A flash-memory based file system",
    /// USENIX 1995).
    CostBenefit,
}

const NONE: u32 = u32::MAX;
/// Entries that are copied together when a fork first changes one of them.
const CHUNK: u64 = 128;

/// Blocks that have been filled, in the order in which they were, or, for the greedy choice among
/// all, by valid units.
#[derive(Clone, Debug)]
pub struct Victims {
    policy: VictimPolicy,
    /// How many of the oldest are looked at; 0 for all.
    window: u32,
    block_units: u32,
    /// The most valid units of a block that is worth collecting.
    most_gaining: u32,
    /// First and last of each list.
    ends: CowTable<(u32, u32)>,
    /// Neighbours of each block in its list.
    links: CowTable<(u32, u32)>,
    /// When each was filled, in units written by then. Empty where nobody asks.
    filled: CowTable<u64>,
    /// No block of the lane has fewer valid units.
    least: Vec<u32>,
}

impl Victims {
    /// No blocks, of `blocks` in all, that have so many units, and are worth collecting with so many
    /// valid ones at most.
    pub fn new(
        policy: VictimPolicy,
        window: u32,
        lanes: u32,
        blocks: u32,
        (block_units, most_gaining): (u32, u32),
    ) -> Self {
        let by_units = policy == VictimPolicy::Greedy && window == 0;
        let lists = if by_units { lanes * (block_units + 1) } else { lanes };
        let aged = policy == VictimPolicy::CostBenefit;
        Victims {
            policy,
            window,
            block_units,
            most_gaining,
            ends: CowTable::in_chunks(u64::from(lists), (NONE, NONE), CHUNK),
            links: CowTable::in_chunks(u64::from(blocks), (NONE, NONE), CHUNK),
            filled: CowTable::in_chunks(if aged { u64::from(blocks) } else { 0 }, 0, CHUNK),
            least: vec![block_units; lanes as usize],
        }
    }

    /// The same, shared until one of the two changes it.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Victims {
            ends: self.ends.fork(),
            links: self.links.fork(),
            filled: self.filled.fork(),
            least: self.least.clone(),
            ..*self
        }
    }

    #[inline]
    fn by_units(&self) -> bool {
        self.policy == VictimPolicy::Greedy && self.window == 0
    }

    #[inline]
    fn list(&self, lane: u32, valid: u32) -> u64 {
        u64::from(if self.by_units() { lane * (self.block_units + 1) + valid } else { lane })
    }

    /// Adds a block that has been filled with `valid` units when so many had been written.
    pub fn insert(&mut self, lane: u32, block: u32, valid: u32, written: u64) {
        if self.policy == VictimPolicy::CostBenefit {
            *self.filled.get_mut(u64::from(block)) = written;
        }
        self.push(lane, block, valid);
    }

    fn push(&mut self, lane: u32, block: u32, valid: u32) {
        let list = self.list(lane, valid);
        let (_, last) = self.ends.get(list);
        *self.links.get_mut(u64::from(block)) = (last, NONE);
        match last {
            NONE => *self.ends.get_mut(list) = (block, block),
            _ => {
                self.links.get_mut(u64::from(last)).1 = block;
                self.ends.get_mut(list).1 = block;
            }
        }
        let least = &mut self.least[lane as usize];
        *least = valid.min(*least);
    }

    /// Takes a block out that has `valid` units.
    pub fn remove(&mut self, lane: u32, block: u32, valid: u32) {
        let list = self.list(lane, valid);
        let (before, behind) = self.links.get(u64::from(block));
        match before {
            NONE => self.ends.get_mut(list).0 = behind,
            _ => self.links.get_mut(u64::from(before)).1 = behind,
        }
        match behind {
            NONE => self.ends.get_mut(list).1 = before,
            _ => self.links.get_mut(u64::from(behind)).0 = before,
        }
    }

    /// A block in it has lost one of `valid` units.
    #[inline]
    pub fn lose(&mut self, lane: u32, block: u32, valid: u32) {
        if self.by_units() {
            self.remove(lane, block, valid);
            self.push(lane, block, valid - 1);
        }
    }

    /// The block of a lane to collect, where `valid` tells how many units a block has, and so many
    /// have been written by now; none that would gain nothing.
    pub fn choose(&mut self, lane: u32, written: u64, valid: impl Fn(u32) -> u32) -> Option<u32> {
        if self.by_units() {
            return self.fewest(lane);
        }
        let most = if self.window == 0 { usize::MAX } else { self.window as usize };
        let gains = |&block: &u32| valid(block) <= self.most_gaining;
        let blocks = self.iter(lane).filter(gains).take(most);
        match self.policy {
            VictimPolicy::Greedy => blocks.min_by_key(|&block| valid(block)),
            VictimPolicy::CostBenefit => {
                let worth = |block: u32| {
                    let age = u128::from(written - self.filled.get(u64::from(block))) + 1;
                    let (units, all) = (valid(block), self.block_units);
                    (age * u128::from(all - units), u128::from(units))
                };
                blocks.reduce(|best, block| {
                    let ((best_gain, best_cost), (gain, cost)) = (worth(best), worth(block));
                    if gain * best_cost > best_gain * cost { block } else { best }
                })
            }
        }
    }

    fn fewest(&mut self, lane: u32) -> Option<u32> {
        while self.least[lane as usize] <= self.most_gaining {
            let (first, _) = self.ends.get(self.list(lane, self.least[lane as usize]));
            if first != NONE {
                return Some(first);
            }
            self.least[lane as usize] += 1;
        }
        None
    }

    /// The blocks of a lane's list, the oldest first; not where they lie by units.
    fn iter(&self, lane: u32) -> impl Iterator<Item = u32> {
        let some = |block| (block != NONE).then_some(block);
        let first = some(self.ends.get(u64::from(lane)).0);
        std::iter::successors(first, move |&block| some(self.links.get(u64::from(block)).1))
    }
}
