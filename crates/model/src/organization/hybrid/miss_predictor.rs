//! A guess at whether tags that lie with the data will say no, so that the store is asked meanwhile
//! (memory access predictor: Qureshi & Loh, MICRO 2012).

use super::action::{Action, Place, Purpose, Token};
use super::controller::{Controller, Held};
use serde::{Deserialize, Serialize};
use tierscope_kernel::Slab;

/// Counters of `region`, as many as the paper's by instruction (MAP-I: 256 of three bits), and of `global`,
/// one for each core that there may be.
const COUNTERS: usize = 256;
/// The greatest value of a counter.
const MOST: u8 = 7;
/// Bytes whose accesses share a counter.
const REGION_BITS: u32 = 12;

/// How misses are guessed where tags lie with the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MissPredictorKind {
    /// They are not: the store is asked once the tag has come.
    None,
    /// By one counter of three bits for each core, which a miss raises and a hit lowers (MAP-G).
    Global,
    /// By 256 such counters, each of some regions of 4 KiB. MAP-I has one for each instruction, which no
    /// memory controller is told; this needs the address alone (our reading).
    Region,
    /// Every guess is right: a bound that nobody can build.
    Perfect,
}

impl MissPredictorKind {
    /// As a description says it.
    pub(super) fn word(self) -> &'static str {
        match self {
            MissPredictorKind::None => "none",
            MissPredictorKind::Global => "global",
            MissPredictorKind::Region => "region",
            MissPredictorKind::Perfect => "perfect",
        }
    }
}

counters! {
    /// What the predictor of misses counted of itself.
    pub struct MissPredictorReport {
        /// Reads that it was asked about.
        pub predicted_reads,
        /// Of these, hits that were taken for misses: the store was asked in vain, if there was room.
        pub predicted_misses_that_hit,
        /// Of these, misses that were taken for hits: the store was asked once the tag had come.
        pub predicted_hits_that_missed,
        /// Reads of the store that nobody needed.
        pub wasted_store_reads,
    }
}

/// Counters of misses, and accesses that turned out to be of no use.
#[derive(Clone, Debug)]
pub(super) struct MissPredictor {
    kind: MissPredictorKind,
    counters: [u8; COUNTERS],
    /// Accesses that turned out to be of no use and are still under way.
    spares: Slab<()>,
    /// Of those at most.
    most: usize,
    pub(super) report: MissPredictorReport,
}

impl MissPredictor {
    /// One of `kind`, where that is one, with so many accesses of no use under way at most.
    pub(super) fn new(kind: MissPredictorKind, most: usize) -> Option<Self> {
        let (counters, report) = ([0; COUNTERS], MissPredictorReport::default());
        let predictor = MissPredictor { kind, counters, spares: Slab::new(), most, report };
        (kind != MissPredictorKind::None).then_some(predictor)
    }

    /// Whether an access is expected to miss; and learns whether it does.
    fn expects_miss(&mut self, core: u16, address: u64, misses: bool) -> bool {
        let region = address >> REGION_BITS;
        let counter = match self.kind {
            MissPredictorKind::Global => u64::from(core),
            MissPredictorKind::Region => region ^ region >> 8 ^ region >> 16,
            MissPredictorKind::None | MissPredictorKind::Perfect => return misses,
        };
        let counter = &mut self.counters[counter as usize % COUNTERS];
        let expects = *counter > MOST / 2;
        *counter = if misses { MOST.min(*counter + 1) } else { counter.saturating_sub(1) };
        expects
    }

    /// Guesses whether a read misses, and counts whether that was right.
    pub(super) fn guess(&mut self, core: u16, address: u64, misses: bool) -> bool {
        let expects = self.expects_miss(core, address, misses);
        self.report.predicted_reads += 1;
        self.report.predicted_misses_that_hit += u64::from(expects && !misses);
        self.report.predicted_hits_that_missed += u64::from(!expects && misses);
        expects
    }

    /// Accesses of no use that are under way.
    pub(super) fn spares(&self) -> usize {
        self.spares.len()
    }
}

impl Controller {
    /// A read whose page is there, or not, is on its way to DRAM: where a miss is expected, the store
    /// is asked at once. True if that is all: it is a miss, and goes on as one.
    pub(super) fn asks_store_at_once(
        &mut self,
        now_ps: u64,
        slot: u32,
        found: bool,
        actions: &mut Vec<Action>,
    ) -> bool {
        let Held { address, core, .. } = self.held[slot];
        let Some(predictor) = &mut self.miss_predictor else { return false };
        if !predictor.guess(core, address, !found) || predictor.spares.len() == predictor.most {
            return false;
        }
        let token = Token::new(Purpose::Spare, predictor.spares.insert(()));
        let page = address >> self.page_shift;
        if found {
            predictor.report.wasted_store_reads += 1;
            let address = page << self.page_shift;
            let (bytes, into) = (self.page_bytes, Place::Nowhere);
            let (critical, background) = (None, false);
            actions.push(Action::ReadStore { token, address, bytes, into, critical, background });
            return false;
        }
        let offset = u64::from(self.line_offset(address));
        actions.push(Action::ReadDram {
            token,
            address: self.direct_mapped(page) + offset,
            bytes: self.line_bytes,
            into: Place::Nowhere,
            background: false,
        });
        self.report.lookups += 1;
        self.report.misses += 1;
        self.miss(now_ps, page, slot, actions);
        true
    }

    /// An access of no use has ended.
    pub(super) fn spare_ended(&mut self, index: u32) {
        if let Some(predictor) = &mut self.miss_predictor {
            predictor.spares.remove(index);
        }
    }

    /// The predictor learns from a read in functional warming.
    #[inline]
    pub(super) fn foresee(&mut self, core: u16, (address, write): (u64, bool), found: bool) {
        if let Some(predictor) = self.miss_predictor.as_mut().filter(|_| !write) {
            let expects = predictor.guess(core, address, !found);
            predictor.report.wasted_store_reads += u64::from(expects && found);
        }
    }

    /// Bytes that were read from the store in vain so far.
    #[inline]
    pub(super) fn wasted_bytes(&self) -> u64 {
        let wasted = self.miss_predictor.as_ref().map_or(0, |it| it.report.wasted_store_reads);
        wasted * u64::from(self.page_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(predictor: &mut MissPredictor, address: u64, misses: &[bool]) -> Vec<bool> {
        misses.iter().map(|misses| predictor.expects_miss(0, address, *misses)).collect()
    }

    #[test]
    fn a_region_that_misses_is_expected_to_until_it_has_hit_as_often() {
        let mut predictor = MissPredictor::new(MissPredictorKind::Region, 1).unwrap();
        let of_misses = expected(&mut predictor, 4096, &[true; 6]);
        assert_eq!(of_misses, [false, false, false, false, true, true]);
        assert!(!predictor.expects_miss(0, 0, true), "another region");
        let of_hits = expected(&mut predictor, 5000, &[false; 4]);
        assert_eq!(of_hits, [true, true, true, false], "six above, three below");
    }

    #[test]
    fn one_counter_is_for_all_of_a_core_and_saturates() {
        let mut predictor = MissPredictor::new(MissPredictorKind::Global, 1).unwrap();
        for region in 0..20 {
            assert_eq!(predictor.expects_miss(0, region << REGION_BITS, true), region >= 4);
        }
        assert!(!predictor.expects_miss(1, 0, true), "another core");
        // From seven, whatever more missed.
        assert_eq!(expected(&mut predictor, 0, &[false; 5]), [true, true, true, true, false]);
    }

    #[test]
    fn what_is_perfect_expects_what_comes() {
        let mut predictor = MissPredictor::new(MissPredictorKind::Perfect, 1).unwrap();
        for misses in [true, false, false, true] {
            assert_eq!(predictor.guess(0, 4096, misses), misses);
        }
        let report = MissPredictorReport { predicted_reads: 4, ..Default::default() };
        assert_eq!(predictor.report, report);
        assert!(MissPredictor::new(MissPredictorKind::None, 1).is_none());
    }

    #[test]
    fn wrong_guesses_are_counted_by_what_they_took_it_for() {
        let mut predictor = MissPredictor::new(MissPredictorKind::Global, 1).unwrap();
        for misses in [true, true, true, true, true, false, false, false] {
            predictor.guess(0, 0, misses);
        }
        // Four misses until a miss is expected, and hits from five down to four.
        let MissPredictorReport {
            predicted_reads,
            predicted_misses_that_hit,
            predicted_hits_that_missed,
            ..
        } = predictor.report;
        assert_eq!(predicted_reads, 8);
        assert_eq!((predicted_misses_that_hit, predicted_hits_that_missed), (2, 4));
    }
}
