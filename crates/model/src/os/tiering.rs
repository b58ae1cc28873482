//! Which pages of a slower memory the kernel moves to a faster one: those that are accessed soon after it has
//! taken their entries away (`NUMA_BALANCING_MEMORY_TIERING`, kernel/sched/fair.c of Linux 6.18).
//!
//! [`BalancingSpec`] is what a user says of it, [`Balancer`] decides on a page; what scans, moves and demotes is
//! [`crate::os::paging`].

use super::PathSpec;
use serde::{Deserialize, Serialize};
use tierscope_units::{Bandwidth, Duration, Problems, Size};

/// How the kernel moves pages between DRAM and the slower memory.
///
/// Pages of the slower memory have their entries taken away now and then, so that the next access to each faults. How
/// long that takes says how hot the page is. A page that is hot moves to DRAM; where DRAM is full, the kernel's thread
/// for reclaim makes room by moving pages to the slower memory that have not been used of late.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BalancingSpec {
    /// Time until the first scan (`scan_delay_ms`).
    pub scan_delay: Duration,
    /// Time between two scans of memory of no more than `scan_size`; of more the shorter, so that all of it is looked
    /// at in this time (`scan_period_min_ms`).
    pub scan_period: Duration,
    /// Memory whose entries a scan looks at (`scan_size_mb`).
    pub scan_size: Size,
    /// What scans look at in a second, at most (`MAX_SCAN_WINDOW`).
    pub scan_limit: Bandwidth,
    /// A page is hot if it is accessed sooner than this after its entry was taken away; adapted to the rate of
    /// candidates, between an eighth and twice of it (`hot_threshold_ms`).
    pub hot_threshold: Duration,
    /// Time after which the threshold is adapted (`scan_period_max_ms`).
    pub threshold_period: Duration,
    /// Pages that become candidates in a second, in bytes, after which none is moved to DRAM until the second is over
    /// (`numa_balancing_promote_rate_limit_MBps`).
    pub promote_rate_limit: Bandwidth,
    /// DRAM that is free beyond its watermarks, or a sixteenth of it if that is more, from which on each page that is
    /// accessed moves there, however hot (`pgdat_free_space_enough`).
    pub free_enough: Size,
    /// Pages that have not been used of late are moved out of DRAM where it gets full (`demotion_enabled`).
    pub demotion: bool,
    /// Share of DRAM between two of its watermarks, if that is more than a quarter of the lowest
    /// (`watermark_scale_factor`).
    pub watermark_scale: f64,
    /// What looking at a page's entry costs.
    pub scan_entry: PathSpec,
    /// What moving a page costs whoever moves it, besides copying it.
    pub migrate: PathSpec,
    /// What telling all cores to forget translations costs the one that tells.
    pub shootdown: PathSpec,
    /// What it costs each of the others that runs a thread.
    pub shootdown_interrupt: PathSpec,
}

impl BalancingSpec {
    /// Collects every semantic mistake below `path`.
    pub fn check(&self, path: &str, page: Option<Size>, problems: &mut Problems) {
        let least = Duration::from_picoseconds(1_000_000);
        for (field, value) in [
            ("scan_period", self.scan_period),
            ("hot_threshold", self.hot_threshold),
            ("threshold_period", self.threshold_period),
        ] {
            problems.at_least(path, field, value, least);
        }
        let page = page.unwrap_or(Size::from_bytes(1));
        problems.at_least(path, "scan_size", self.scan_size, page);
        let rate = Bandwidth::from_bytes_per_second(page.bytes());
        problems.at_least(path, "scan_limit", self.scan_limit, rate);
        problems.at_least(path, "promote_rate_limit", self.promote_rate_limit, rate);
        if !(0.0..=0.1).contains(&self.watermark_scale) {
            problems.add(
                "impossible-value",
                format!("{path}.watermark_scale"),
                self.watermark_scale.to_string(),
                "a share of memory between 0 and 0.1, as Linux takes it".into(),
                "write 0.001".into(),
            );
        }
    }
}

/// Steps in which the threshold comes to twice what it begins with (`NUMA_MIGRATION_ADJUST_STEPS`).
const ADJUST_STEPS: u64 = 16;
/// Candidates are counted anew after a second (`MSEC_PER_SEC`).
const RATE_PERIOD_PS: u64 = 1_000_000_000_000;

/// Decides which pages move to DRAM, by when they are accessed and how many there are.
#[derive(Clone, Copy, Debug)]
pub struct Balancer {
    /// What a user says, in picoseconds and pages.
    hot_threshold_ps: u64,
    threshold_period_ps: u64,
    rate_limit_pages: u64,
    /// The threshold, once it has been adapted.
    threshold_ps: Option<u64>,
    threshold_since_ps: u64,
    threshold_candidates: u64,
    rate_since_ps: u64,
    rate_candidates: u64,
    /// Pages so far that were hot, whether they could move or not (`PGPROMOTE_CANDIDATE`).
    candidates: u64,
}

impl Balancer {
    /// One that has seen nothing yet.
    pub fn new(spec: &BalancingSpec, page_bytes: u64) -> Self {
        Balancer {
            hot_threshold_ps: spec.hot_threshold.picoseconds(),
            threshold_period_ps: spec.threshold_period.picoseconds(),
            rate_limit_pages: spec.promote_rate_limit.bytes_per_second() / page_bytes,
            threshold_ps: None,
            threshold_since_ps: 0,
            threshold_candidates: 0,
            rate_since_ps: 0,
            rate_candidates: 0,
            candidates: 0,
        }
    }

    /// Pages so far that were hot.
    pub fn candidates(&self) -> u64 {
        self.candidates
    }

    /// Whether a page moves that is accessed at `now_ps`, `latency_ps` after its entry was taken away
    /// (`should_numa_migrate_memory`); `much_is_free` where DRAM has room for whatever comes.
    pub fn promotes(&mut self, now_ps: u64, latency_ps: u64, much_is_free: bool) -> bool {
        if much_is_free {
            self.threshold_ps = None;
            return true;
        }
        self.adapt(now_ps);
        latency_ps < self.threshold_ps.unwrap_or(self.hot_threshold_ps) && !self.is_limited(now_ps)
    }

    /// `numa_promotion_adjust_threshold`.
    fn adapt(&mut self, now_ps: u64) {
        if now_ps - self.threshold_since_ps <= self.threshold_period_ps {
            return;
        }
        self.threshold_since_ps = now_ps;
        let expected = u128::from(self.rate_limit_pages) * u128::from(self.threshold_period_ps)
            / u128::from(RATE_PERIOD_PS);
        let found = u128::from(self.candidates - self.threshold_candidates);
        let step_ps = self.hot_threshold_ps * 2 / ADJUST_STEPS;
        let mut threshold_ps = self.threshold_ps.unwrap_or(self.hot_threshold_ps);
        if found > expected * 11 / 10 {
            threshold_ps = threshold_ps.saturating_sub(step_ps).max(step_ps);
        } else if found < expected * 9 / 10 {
            threshold_ps = (threshold_ps + step_ps).min(self.hot_threshold_ps * 2);
        }
        self.threshold_candidates = self.candidates;
        self.threshold_ps = Some(threshold_ps);
    }

    /// Counts a candidate; whether there have been too many of late (`numa_promotion_rate_limit`).
    fn is_limited(&mut self, now_ps: u64) -> bool {
        self.candidates += 1;
        if now_ps - self.rate_since_ps > RATE_PERIOD_PS {
            self.rate_since_ps = now_ps;
            self.rate_candidates = self.candidates;
        }
        self.candidates - self.rate_candidates >= self.rate_limit_pages
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000_000;

    /// Everything is scanned each millisecond, and hot within one.
    pub fn spec() -> BalancingSpec {
        BalancingSpec {
            scan_delay: "1ms".parse().unwrap(),
            scan_period: "1ms".parse().unwrap(),
            scan_size: "64KiB".parse().unwrap(),
            scan_limit: "1GB/s".parse().unwrap(),
            hot_threshold: "1ms".parse().unwrap(),
            threshold_period: "60ms".parse().unwrap(),
            promote_rate_limit: "1GB/s".parse().unwrap(),
            free_enough: "1GiB".parse().unwrap(),
            demotion: true,
            watermark_scale: 0.001,
            scan_entry: PathSpec { instructions: 20, lines: 0 },
            migrate: PathSpec { instructions: 1000, lines: 2 },
            shootdown: PathSpec { instructions: 2000, lines: 1 },
            shootdown_interrupt: PathSpec { instructions: 1000, lines: 0 },
        }
    }

    #[test]
    fn a_page_is_hot_if_it_is_accessed_before_the_threshold() {
        let mut balancer = Balancer::new(&spec(), 4096);
        assert!(balancer.promotes(2 * MS, MS - 1, false));
        assert!(!balancer.promotes(2 * MS, MS, false));
        assert!(balancer.promotes(2 * MS, 50 * MS, true), "there is room for all");
        assert_eq!(balancer.candidates(), 1, "what was not too cold, and not let in for the room");
    }

    #[test]
    fn few_candidates_raise_the_threshold_in_steps_up_to_twice_of_it() {
        let mut balancer = Balancer::new(&spec(), 4096);
        for step in 1..20u64 {
            let now_ps = step * 61 * MS;
            let threshold_ps = MS + MS / 8 * step.min(8);
            assert!(!balancer.promotes(now_ps, threshold_ps, false), "{step}");
            assert!(balancer.promotes(now_ps, threshold_ps - 1, false), "{step}");
        }
        balancer.promotes(2000 * MS, 0, true);
        assert!(!balancer.promotes(2000 * MS, MS + MS / 8, false), "it begins anew with much room");
    }

    #[test]
    fn beyond_the_limit_none_moves_until_the_second_is_over() {
        let slow = BalancingSpec { promote_rate_limit: "40960B/s".parse().unwrap(), ..spec() };
        let mut balancer = Balancer::new(&slow, 4096);
        let moved = |balancer: &mut Balancer, now_ps| {
            (0..100).filter(|_| balancer.promotes(now_ps, 0, false)).count()
        };
        assert_eq!(moved(&mut balancer, MS), 9);
        assert_eq!(moved(&mut balancer, 999 * MS), 0);
        assert_eq!(moved(&mut balancer, 1001 * MS), 10, "the first of them begins the second");
    }

    /// The kernel's functions word by word, in the kernel's units: milliseconds and pages.
    #[derive(Default)]
    struct Naive {
        nbp_threshold: u64,
        nbp_th_start: u64,
        nbp_th_nr_cand: u64,
        nbp_rl_start: u64,
        nbp_rl_nr_cand: u64,
        pgpromote_candidate: u64,
    }

    impl Naive {
        fn should_migrate(
            &mut self,
            now: u64,
            latency: u64,
            enough: bool,
            def_th: u64,
            limit: u64,
        ) -> bool {
            if enough {
                self.nbp_threshold = 0;
                return true;
            }
            let th_period = 60;
            if now - self.nbp_th_start > th_period {
                self.nbp_th_start = now;
                let ref_cand = limit * th_period / 1000;
                let diff_cand = self.pgpromote_candidate - self.nbp_th_nr_cand;
                let unit_th = def_th * 2 / 16;
                let mut th = if self.nbp_threshold > 0 { self.nbp_threshold } else { def_th };
                if diff_cand > ref_cand * 11 / 10 {
                    th = if th > 2 * unit_th { th - unit_th } else { unit_th };
                } else if diff_cand < ref_cand * 9 / 10 {
                    th = (th + unit_th).min(def_th * 2);
                }
                self.nbp_th_nr_cand = self.pgpromote_candidate;
                self.nbp_threshold = th;
            }
            let th = if self.nbp_threshold > 0 { self.nbp_threshold } else { def_th };
            if latency >= th {
                return false;
            }
            self.pgpromote_candidate += 1;
            if now - self.nbp_rl_start > 1000 {
                self.nbp_rl_start = now;
                self.nbp_rl_nr_cand = self.pgpromote_candidate;
            }
            self.pgpromote_candidate - self.nbp_rl_nr_cand < limit
        }
    }

    proptest! {
        #[test]
        fn it_decides_as_the_kernels_functions_word_by_word(
            script in proptest::collection::vec((0..40u64, 0..40u64, 0..20u32), 1..400),
            limit in 1..200u64,
        ) {
            let spec = BalancingSpec {
                hot_threshold: Duration::from_picoseconds(16 * MS),
                promote_rate_limit: Bandwidth::from_bytes_per_second(limit * 4096),
                ..spec()
            };
            let mut balancer = Balancer::new(&spec, 4096);
            let mut naive = Naive::default();
            let mut now = 0;
            for (pause, latency, enough) in script {
                now += pause;
                let enough = enough == 0;
                let found = balancer.promotes(now * MS, latency * MS, enough);
                prop_assert_eq!(found, naive.should_migrate(now, latency, enough, 16, limit));
                prop_assert_eq!(balancer.candidates(), naive.pgpromote_candidate);
            }
        }
    }

    #[test]
    fn wrong_values_are_refused_each_with_its_path() {
        let paths = |change: fn(&mut BalancingSpec)| {
            let mut spec = spec();
            change(&mut spec);
            let mut problems = Problems::new();
            spec.check("balancing", Some(Size::from_bytes(4096)), &mut problems);
            problems.iter().map(|one| one.path.clone()).collect::<Vec<_>>()
        };
        assert!(paths(|_| {}).is_empty());
        assert_eq!(paths(|it| it.scan_period = Duration::default()), ["balancing.scan_period"]);
        assert_eq!(paths(|it| it.scan_size = Size::from_bytes(64)), ["balancing.scan_size"]);
        assert_eq!(paths(|it| it.watermark_scale = 0.5), ["balancing.watermark_scale"]);
        assert_eq!(paths(|it| it.watermark_scale = f64::NAN), ["balancing.watermark_scale"]);
        assert_eq!(
            paths(|it| it.promote_rate_limit = Bandwidth::from_bytes_per_second(1)),
            ["balancing.promote_rate_limit"]
        );
    }
}
