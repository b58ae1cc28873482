//! A guess at whether tags that lie with the data will say no, so that the store is asked meanwhile.

use super::action::{Action, Place, Purpose, Token};
use super::controller::Controller;
use tierscope_kernel::Slab;

/// Counters (Qureshi & Loh, MICRO 2012, MAP-I: 256 of three bits).
const COUNTERS: usize = 256;
/// The greatest value of a counter.
const MOST: u8 = 7;
/// Bytes whose accesses share a counter.
const REGION_BITS: u32 = 12;

/// Counters of misses by where in memory they were. The paper's are by the instruction that misses,
/// which no memory controller is told; of its alternatives this is the one that needs the address alone
/// (our reading).
#[derive(Clone, Debug)]
pub(super) struct MissPredictor {
    counters: Vec<u8>,
    /// Accesses that turned out to be of no use and are still under way.
    spares: Slab<()>,
    /// Of those at most.
    most: usize,
}

impl MissPredictor {
    pub(super) fn new(most: usize) -> Self {
        MissPredictor { counters: vec![0; COUNTERS], spares: Slab::new(), most }
    }

    /// Whether an access is expected to miss; and learns whether it does.
    pub(super) fn expects_miss(&mut self, address: u64, misses: bool) -> bool {
        let region = address >> REGION_BITS;
        let folded = region ^ region >> 8 ^ region >> 16;
        let counter = &mut self.counters[folded as usize % COUNTERS];
        let expects = *counter > MOST / 2;
        *counter = if misses { MOST.min(*counter + 1) } else { counter.saturating_sub(1) };
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
        let address = self.held[slot].address;
        let Some(predictor) = &mut self.miss_predictor else { return false };
        if !predictor.expects_miss(address, !found) || predictor.spares.len() == predictor.most {
            return false;
        }
        let token = Token::new(Purpose::Spare, predictor.spares.insert(()));
        let page = address >> self.page_shift;
        if found {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_that_misses_is_expected_to_until_it_has_hit_as_often() {
        let mut predictor = MissPredictor::new(1);
        let expected: Vec<_> =
            [true; 6].into_iter().map(|misses| predictor.expects_miss(4096, misses)).collect();
        assert_eq!(expected, [false, false, false, false, true, true]);
        assert!(!predictor.expects_miss(0, true), "another region");
        let expected: Vec<_> =
            [false; 4].into_iter().map(|misses| predictor.expects_miss(5000, misses)).collect();
        assert_eq!(expected, [true, true, true, false], "six above, three below");
    }
}
