//! Replacement policies, shared by every cache.
//!
//! A policy says which way of a set goes when a new line needs a place. It is the one thing over
//! which the tag store's inner loop is generic (see [`crate::cache::TagStore`]). A new policy is
//! one file here and one line in the list below.

/// Lists the policies. Each line is a module, its type, and what is said of it to a user.
macro_rules! policies {
    ($( $(#[$doc:meta])* $module:ident :: $policy:ident ),* $(,)?) => {
        $( mod $module; pub use $module::$policy; )*

        /// The replacement policies, by the name that a user writes.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize,
            schemars::JsonSchema,
        )]
        #[serde(rename_all = "kebab-case")]
        pub enum PolicyKind {
            $( $(#[$doc])* $policy ),*
        }

        impl PolicyKind {
            /// Every policy, in the order of the list.
            pub const ALL: &[PolicyKind] = &[ $( PolicyKind::$policy ),* ];

            /// Calls `visitor` with the type of this policy: the one place where a name becomes a
            /// type, so that each inner loop is compiled for its policy.
            pub fn visit<V: PolicyVisitor>(self, visitor: V) -> V::Output {
                match self {
                    $( PolicyKind::$policy => visitor.visit::<$policy>() ),*
                }
            }
        }
    };
}

policies! {
    /// Least recently used, exactly.
    lru::Lru,
    /// First in, first out: a hit changes nothing.
    fifo::Fifo,
    /// Any way with equal chance, from a seed.
    random::Random,
}

mod recency;

/// The greatest number of ways of a set.
pub const MAX_WAYS: usize = 64;

/// Which way of a set goes when a new line needs a place.
///
/// A set's own state is `words(ways)` words that lie beside the set's tags, so that one access
/// touches one place in memory; they are all zero at the start, which must be a valid state. What
/// a policy keeps for the whole cache lives in the policy itself.
///
/// Law of every implementation: equal calls give equal answers; `victim` changes nothing, so that
/// asking twice gives the same way, and the way it gives is one of the candidates; `clone` goes on
/// identically.
pub trait Policy: Clone + Send {
    /// A policy for sets of `ways` ways (1 to [`MAX_WAYS`]). Policies that draw lots draw them
    /// from `seed`; the others ignore it.
    fn new(ways: usize, seed: u64) -> Self;

    /// Words of state of each set.
    fn words(ways: usize) -> usize;

    /// The line in `way` was used.
    fn on_hit(&mut self, state: &mut [u64], set: usize, way: usize);

    /// A new line was put into `way`.
    fn on_fill(&mut self, state: &mut [u64], set: usize, way: usize);

    /// The way that goes next, among the `candidates` (bit w is way w; at least one is set). Never
    /// asked while the set has an invalid way.
    fn victim(&self, state: &[u64], set: usize, candidates: u64) -> usize;

    /// The way whose hit is most likely and changes nothing, for the tag store to try first; any
    /// valid way number is right.
    fn first_guess(state: &[u64]) -> usize;
}

/// Something that is to be done with the type of a policy; see [`PolicyKind::visit`].
pub trait PolicyVisitor {
    /// What it gives.
    type Output;
    /// Does it with the policy `P`.
    fn visit<P: Policy>(self) -> Self::Output;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a step of a random history does to one set.
    #[derive(Clone, Debug)]
    enum Step {
        Hit(usize),
        Fill(usize),
        Victim(u64),
    }

    fn steps() -> impl Strategy<Value = (usize, Vec<Step>)> {
        (1usize..=MAX_WAYS).prop_flat_map(|ways| {
            let all = if ways == 64 { u64::MAX } else { (1 << ways) - 1 };
            let step = prop_oneof![
                (0..ways).prop_map(Step::Hit),
                (0..ways).prop_map(Step::Fill),
                any::<u64>().prop_map(move |mask| {
                    Step::Victim(if mask & all == 0 { all } else { mask & all })
                }),
            ];
            (Just(ways), proptest::collection::vec(step, 0..300))
        })
    }

    /// The obvious implementation: ways in order, the next to go at the end.
    struct Naive {
        order: Vec<usize>,
        hits_count: bool,
    }

    impl Naive {
        fn front(&mut self, way: usize) {
            self.order.retain(|&w| w != way);
            self.order.insert(0, way);
        }
    }

    fn follows_a_list<P: Policy>(ways: usize, steps: &[Step], hits_count: bool) {
        let mut policy = P::new(ways, 1);
        let mut state = vec![0; P::words(ways)];
        let mut naive = Naive { order: (0..ways).collect(), hits_count };
        for step in steps {
            match *step {
                Step::Hit(way) => {
                    policy.on_hit(&mut state, 0, way);
                    if naive.hits_count {
                        naive.front(way);
                    }
                }
                Step::Fill(way) => {
                    policy.on_fill(&mut state, 0, way);
                    naive.front(way);
                }
                Step::Victim(candidates) => {
                    let expected = naive.order.iter().rev().find(|&&w| candidates >> w & 1 == 1);
                    assert_eq!(Some(&policy.victim(&state, 0, candidates)), expected);
                }
            }
        }
    }

    struct Laws<'a>(usize, &'a [Step]);

    impl PolicyVisitor for Laws<'_> {
        type Output = ();
        fn visit<P: Policy>(self) {
            let Laws(ways, steps) = self;
            let mut policy = P::new(ways, 7);
            let mut state = vec![0; P::words(ways)];
            for (i, step) in steps.iter().enumerate() {
                let mut twin = (policy.clone(), state.clone());
                match *step {
                    Step::Hit(way) => policy.on_hit(&mut state, 0, way),
                    Step::Fill(way) => policy.on_fill(&mut state, 0, way),
                    Step::Victim(candidates) => {
                        let way = policy.victim(&state, 0, candidates);
                        assert_eq!(candidates >> way & 1, 1, "step {i}: {way} is no candidate");
                        assert_eq!(way, policy.victim(&state, 0, candidates));
                        assert_eq!(way, twin.0.victim(&twin.1, 0, candidates));
                    }
                }
                assert!(P::first_guess(&state) < ways);
                match *step {
                    Step::Hit(way) => twin.0.on_hit(&mut twin.1, 0, way),
                    Step::Fill(way) => twin.0.on_fill(&mut twin.1, 0, way),
                    Step::Victim(_) => {}
                }
                assert_eq!(state, twin.1, "step {i}: a clone goes on identically");
            }
        }
    }

    proptest! {
        #[test]
        fn lru_gives_the_least_recently_used_candidate((ways, steps) in steps()) {
            follows_a_list::<Lru>(ways, &steps, true);
        }

        #[test]
        fn fifo_gives_the_candidate_filled_first((ways, steps) in steps()) {
            follows_a_list::<Fifo>(ways, &steps, false);
        }

        #[test]
        fn every_policy_gives_candidates_only_and_repeats_itself((ways, steps) in steps()) {
            for kind in PolicyKind::ALL {
                kind.visit(Laws(ways, &steps));
            }
        }
    }

    #[test]
    fn random_takes_every_way_about_equally_often() {
        let mut policy = Random::new(16, 3);
        let mut counts = [0u32; 16];
        for _ in 0..16_000 {
            let way = policy.victim(&[], 5, 0xffff);
            counts[way] += 1;
            policy.on_fill(&mut [], 5, way);
        }
        assert!(counts.iter().all(|&n| (800..1200).contains(&n)), "{counts:?}");
    }
}
