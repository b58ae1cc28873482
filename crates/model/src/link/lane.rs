//! Something that moves bytes at a fixed rate, one transfer after another.

use super::Direction;

const PS_PER_SECOND: u64 = 1_000_000_000_000;

/// A resource in time: a bus, or one direction of a link. Its end of work is kept as an exact
/// fraction of picoseconds, so that transfers that follow each other take exactly what their bytes
/// take together.
#[derive(Clone, Debug)]
pub struct Lane {
    bytes_per_second: u64,
    /// Taken until here …
    free_ps: u64,
    /// … and so many `bytes_per_second`-ths of a picosecond.
    residue: u64,
}

impl Lane {
    /// A lane of `bytes_per_second`, free from the start.
    ///
    /// # Panics
    /// If the rate is 0.
    pub fn new(bytes_per_second: u64) -> Self {
        assert!(bytes_per_second > 0, "a lane without bandwidth moves nothing");
        Lane { bytes_per_second, free_ps: 0, residue: 0 }
    }

    /// The same with nothing on it.
    pub(crate) fn emptied(&self) -> Self {
        Lane::new(self.bytes_per_second)
    }

    /// The first whole picosecond at which the lane has nothing left to do.
    #[inline]
    pub fn free_ps(&self) -> u64 {
        self.free_ps + u64::from(self.residue > 0)
    }

    /// Moves `bytes` once the lane is free. Start and end, each the first whole picosecond not
    /// before it: a transfer asked for by then joins the one before without a gap.
    #[inline]
    pub fn transfer(&mut self, now_ps: u64, bytes: u64) -> (u64, u64) {
        if now_ps > self.free_ps() {
            self.free_ps = now_ps;
            self.residue = 0;
        }
        let start_ps = self.free_ps();
        let work = bytes.checked_mul(PS_PER_SECOND).and_then(|w| w.checked_add(self.residue));
        match work {
            Some(work) => {
                self.free_ps += work / self.bytes_per_second;
                self.residue = work % self.bytes_per_second;
            }
            None => self.transfer_wide(bytes),
        }
        (start_ps, self.free_ps())
    }

    /// Time of the idle lane for `bytes`, rounded up.
    #[inline]
    pub fn idle_ps(&self, bytes: u64) -> u64 {
        Lane::new(self.bytes_per_second).transfer(0, bytes).1
    }

    #[cold]
    fn transfer_wide(&mut self, bytes: u64) {
        let work = u128::from(bytes) * u128::from(PS_PER_SECOND) + u128::from(self.residue);
        let rate = u128::from(self.bytes_per_second);
        let whole_ps = u64::try_from(work / rate).unwrap_or(u64::MAX);
        self.free_ps = self.free_ps.saturating_add(whole_ps);
        self.residue = (work % rate) as u64;
    }
}

/// A full-duplex link: a lane for each direction, and the time from one end to the other.
#[derive(Clone, Debug)]
pub struct Duplex {
    lanes: [Lane; 2],
    latency_ps: u64,
}

impl Duplex {
    /// With `bytes_per_second` in each direction, free from the start.
    ///
    /// # Panics
    /// If the rate is 0.
    pub fn new(bytes_per_second: u64, latency_ps: u64) -> Self {
        let lane = Lane::new(bytes_per_second);
        Duplex { lanes: [lane.clone(), lane], latency_ps }
    }

    /// As [`Lane::transfer`], but the end is when the last byte has come to the other end.
    #[inline]
    pub fn transfer(&mut self, now_ps: u64, bytes: u64, direction: Direction) -> (u64, u64) {
        let (start_ps, end_ps) = self.lanes[direction as usize].transfer(now_ps, bytes);
        (start_ps, end_ps + self.latency_ps)
    }

    /// As [`Lane::free_ps`].
    #[inline]
    pub fn free_ps(&self, direction: Direction) -> u64 {
        self.lanes[direction as usize].free_ps()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_transfer_waits_at_t_minus_1_and_not_at_t() {
        for (now_ps, start_ps) in [(999, 1_000), (1_000, 1_000), (1_001, 1_001)] {
            let mut lane = Lane::new(1_000_000_000_000);
            assert_eq!(lane.transfer(0, 1_000), (0, 1_000));
            assert_eq!(lane.transfer(now_ps, 1), (start_ps, start_ps + 1));
        }
    }

    proptest! {
        #[test]
        fn transfers_back_to_back_take_what_their_bytes_take(
            rate in prop_oneof![10_000..20_000u64, 1..100_000_000_000u64],
            sizes in proptest::collection::vec(0..1u64 << 26, 1..60),
            waits in any::<bool>(),
        ) {
            let mut lane = Lane::new(rate);
            let mut total = 0u128;
            for &bytes in &sizes {
                // Asked for at once, or as soon as the lane is seen free: the same.
                let now_ps = if waits { lane.free_ps() } else { 0 };
                let (start_ps, end_ps) = lane.transfer(now_ps, bytes);
                prop_assert!(start_ps <= end_ps);
                total += u128::from(bytes);
            }
            let exact = (total * 1_000_000_000_000).div_ceil(u128::from(rate));
            prop_assert_eq!(u128::from(lane.free_ps()), exact);
        }

        #[test]
        fn a_lane_does_one_thing_at_a_time(
            asks in proptest::collection::vec((0..10_000u64, 0..5_000u64), 1..60),
        ) {
            let mut lane = Lane::new(700_000_000_000);
            let (mut now_ps, mut last_ps) = (0, 0);
            for (gap_ps, bytes) in asks {
                now_ps += gap_ps;
                let (start_ps, end_ps) = lane.transfer(now_ps, bytes);
                prop_assert!(start_ps >= now_ps && start_ps >= last_ps);
                prop_assert!((end_ps - start_ps) * 7 + 7 > bytes * 10);
                last_ps = end_ps;
            }
        }
    }
}
