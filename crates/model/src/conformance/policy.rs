//! Laws of replacement policies.

use super::check;
use crate::cache::{Place, TagStore, flag};
use crate::replacement::{MAX_WAYS, Policy};
use proptest::prelude::*;
use std::ops::RangeInclusive;

/// Sets of every script: enough to mix them up.
const SETS: usize = 3;
/// Steps of the longest script.
const LONGEST: usize = 300;
/// Words of state that a set may have for each of its ways: beyond it, state costs more than tags.
const WORDS_A_WAY: usize = 2;
/// Seed of policies that draw lots.
const SEED: u64 = 7;

/// The obvious implementation of a policy, for one set.
pub trait Reference {
    /// The line in `way` was used.
    fn on_hit(&mut self, way: usize);
    /// A new line was put into `way`.
    fn on_fill(&mut self, way: usize);
    /// The way that goes next, among the `candidates`.
    fn victim(&self, candidates: u64) -> usize;
}

/// Checks every law of [`Policy`] on `P`, for all numbers of ways.
///
/// # Panics
/// When a law is broken, with the shortest history that breaks it.
pub fn policy_laws<P: Policy>() {
    for ways in 1..=MAX_WAYS {
        let words = P::words(ways);
        assert!(words <= WORDS_A_WAY * ways, "{words} words of state for {ways} ways");
        let bits = P::hardware_bits(ways as u32) as usize;
        assert!(bits <= u64::BITS as usize * words, "{bits} bits in {words} words");
    }
    check(
        "a victim is a candidate, and asking twice gives it again",
        histories(1..=MAX_WAYS),
        |history| {
            let mut run = Run::<P>::new(history.ways);
            for step in &history.steps {
                let victim = run.take(step);
                assert_eq!(victim, run.clone().look(step), "{step:?} asked again");
            }
        },
    );
    check("equal calls give equal answers", histories(1..=MAX_WAYS), |history| {
        let victims = || Run::<P>::new(history.ways).take_all(&history.steps);
        assert_eq!(victims(), victims());
    });
    check("a clone goes on identically", histories(1..=MAX_WAYS), |history| {
        let (head, tail) = history.steps.split_at(history.steps.len() / 2);
        let mut original = Run::<P>::new(history.ways);
        original.take_all(head);
        let mut clone = original.clone();
        let waiting = original.clone();
        let after = clone.take_all(tail);
        assert_eq!(original.take_all(tail), after, "the original");
        assert_eq!(waiting.clone().take_all(tail), after, "the clone that waited");
        assert_eq!(original.states, clone.states);
    });
    check("a hit of the first guess changes nothing", histories(1..=MAX_WAYS), |history| {
        let mut plain = Run::<P>::new(history.ways);
        let mut eager = plain.clone();
        for step in &history.steps {
            assert_eq!(plain.take(step), eager.take(step), "{step:?}");
            for set in 0..SETS {
                if let Some(guess) = P::first_guess(&eager.states[set]) {
                    assert!(guess < history.ways, "way {guess} of {}", history.ways);
                    eager.take(&Step::Hit(set, guess));
                }
            }
        }
        assert_eq!(plain.states, eager.states);
    });
    check("a pinned way is never taken", pins(), |(ways, lines)| {
        pinned_ways_stay::<P>(*ways, lines);
    });
}

/// Checks that `P` gives the very victims that `reference`, made for a number of ways, gives.
///
/// # Panics
/// When they differ, with the shortest history that shows it.
pub fn policy_follows<P: Policy, R: Reference>(reference: impl Fn(usize) -> R) {
    follows::<P, R>(histories(1..=MAX_WAYS), reference);
}

/// As [`policy_follows`], for sets of `ways` ways that are one set each: for policies that keep
/// something for all their sets together.
///
/// # Panics
/// When they differ, with the shortest history that shows it.
pub fn policy_follows_for<P: Policy, R: Reference>(ways: usize, reference: impl Fn(usize) -> R) {
    let of_one_set = histories(ways..=ways).prop_map(|mut history| {
        history
            .steps
            .retain(|step| matches!(step, Step::Hit(0, _) | Step::Fill(0, _) | Step::Victim(0, _)));
        history
    });
    follows::<P, R>(of_one_set, reference);
}

fn follows<P: Policy, R: Reference>(
    histories: impl Strategy<Value = History>,
    reference: impl Fn(usize) -> R,
) {
    check("the reference gives the same victims", histories, |history| {
        let mut run = Run::<P>::new(history.ways);
        let mut references: Vec<R> = (0..SETS).map(|_| reference(history.ways)).collect();
        for step in &history.steps {
            let victim = run.take(step);
            match *step {
                Step::Hit(set, way) => references[set].on_hit(way),
                Step::Fill(set, way) => references[set].on_fill(way),
                Step::Victim(set, candidates) => {
                    assert_eq!(victim, Some(references[set].victim(candidates)), "{step:?}");
                }
            }
        }
    });
}

/// What is done to one set.
#[derive(Clone, Copy, Debug)]
enum Step {
    Hit(usize, usize),
    Fill(usize, usize),
    Victim(usize, u64),
}

#[derive(Clone, Debug)]
struct History {
    ways: usize,
    steps: Vec<Step>,
}

fn histories(ways: RangeInclusive<usize>) -> impl Strategy<Value = History> {
    ways.prop_flat_map(|ways| {
        let all = u64::MAX >> (MAX_WAYS - ways);
        let candidates = any::<u64>().prop_map(move |mask| match mask & all {
            0 => all,
            some => some,
        });
        let step = prop_oneof![
            (0..SETS, 0..ways).prop_map(|(set, way)| Step::Hit(set, way)),
            (0..SETS, 0..ways).prop_map(|(set, way)| Step::Fill(set, way)),
            (0..SETS, candidates).prop_map(|(set, mask)| Step::Victim(set, mask)),
            (0..SETS).prop_map(move |set| Step::Victim(set, all)),
        ];
        proptest::collection::vec(step, 1..LONGEST).prop_map(move |steps| History { ways, steps })
    })
}

/// A policy with the state of a few sets.
#[derive(Clone)]
struct Run<P> {
    policy: P,
    states: Vec<Vec<u64>>,
}

impl<P: Policy> Run<P> {
    fn new(ways: usize) -> Self {
        Run { policy: P::new(ways, SEED), states: vec![vec![0; P::words(ways)]; SETS] }
    }

    /// Takes a step; the victim, where it asks for one.
    fn take(&mut self, step: &Step) -> Option<usize> {
        match *step {
            Step::Hit(set, way) => self.policy.on_hit(&mut self.states[set], set, way),
            Step::Fill(set, way) => self.policy.on_fill(&mut self.states[set], set, way),
            Step::Victim(..) => return self.look(step),
        }
        None
    }

    fn look(&self, step: &Step) -> Option<usize> {
        let Step::Victim(set, candidates) = *step else { return None };
        let way = self.policy.victim(&self.states[set], set, candidates);
        assert!(
            way < MAX_WAYS && candidates >> way & 1 == 1,
            "way {way} is no candidate: {step:?}"
        );
        Some(way)
    }

    fn take_all(&mut self, steps: &[Step]) -> Vec<Option<usize>> {
        steps.iter().map(|step| self.take(step)).collect()
    }
}

/// Lines to use, and whether to pin them when they come.
fn pins() -> impl Strategy<Value = (usize, Vec<(u64, bool)>)> {
    let lines = proptest::collection::vec((0..400u64, any::<bool>()), 1..LONGEST);
    (prop_oneof![1..9usize, 1..=MAX_WAYS], lines)
}

fn pinned_ways_stay<P: Policy>(ways: usize, lines: &[(u64, bool)]) {
    let mut tags = TagStore::<P>::new(SETS as u64, ways, false, SEED);
    let mut pinned: Vec<u64> = Vec::new();
    for &(line, pin) in lines {
        if tags.access(line, false).is_some() {
            continue;
        }
        let at = match tags.place(line) {
            Place::Free(at) | Place::Taken(at, _) => at,
            Place::Pinned => {
                let set = tags.set_of(line);
                let unpinned = pinned.iter().position(|other| tags.set_of(*other) == set);
                let Some(unpinned) = unpinned else { panic!("set {set} has no pinned way") };
                let at = tags.lookup(pinned.remove(unpinned));
                tags.clear_flags(at.expect("a pinned line is present"), flag::PINNED);
                continue;
            }
        };
        assert_eq!(tags.flags(at) & flag::PINNED, 0, "line {line} would take a pinned way");
        tags.insert_at(at, line, if pin { flag::PINNED } else { 0 });
        if pin {
            pinned.push(line);
        }
        for line in &pinned {
            assert!(tags.lookup(*line).is_some(), "the pinned line {line} is gone");
        }
    }
}

#[cfg(test)]
mod tests {
    //! The suite finds what it is for: policies broken in one way each.

    use super::*;
    use crate::replacement::Lru;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The least recently used, but for `FAULT`.
    struct Broken<const FAULT: u8> {
        lru: Lru,
        ways: usize,
        hits: Arc<AtomicU64>,
    }

    /// Looks at no candidates.
    const IGNORES_CANDIDATES: u8 = 0;
    /// A clone and its original count hits together.
    const SHARES_STATE: u8 = 1;
    /// A hit of the first guess counts.
    const COUNTS_GUESSES: u8 = 2;
    /// The first guess is no way.
    const GUESSES_WILDLY: u8 = 3;
    /// A set's state is as large as its data.
    const IS_LARGE: u8 = 4;
    /// The last in goes first.
    const IS_ANOTHER: u8 = 5;

    impl<const FAULT: u8> Clone for Broken<FAULT> {
        fn clone(&self) -> Self {
            let own = || Arc::new(AtomicU64::new(self.hits.load(Ordering::Relaxed)));
            let hits = if FAULT == SHARES_STATE { self.hits.clone() } else { own() };
            Broken { lru: self.lru, ways: self.ways, hits }
        }
    }

    impl<const FAULT: u8> Policy for Broken<FAULT> {
        fn new(ways: usize, seed: u64) -> Self {
            Broken { lru: Lru::new(ways, seed), ways, hits: Default::default() }
        }

        fn words(ways: usize) -> usize {
            if FAULT == IS_LARGE { 512 * ways } else { Lru::words(ways) }
        }

        fn hardware_bits(ways: u32) -> u32 {
            Lru::hardware_bits(ways)
        }

        fn on_hit(&mut self, state: &mut [u64], set: usize, way: usize) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            self.lru.on_hit(state, set, way);
        }

        fn on_fill(&mut self, state: &mut [u64], set: usize, way: usize) {
            self.lru.on_fill(state, set, way);
        }

        fn victim(&self, state: &[u64], set: usize, candidates: u64) -> usize {
            let all = u64::MAX >> (MAX_WAYS - self.ways);
            match FAULT {
                IGNORES_CANDIDATES => self.lru.victim(state, set, all),
                SHARES_STATE | COUNTS_GUESSES if self.hits.load(Ordering::Relaxed) % 5 == 2 => {
                    candidates.trailing_zeros() as usize
                }
                IS_ANOTHER
                    if let Some(way) = Lru::first_guess(state)
                        && candidates >> way & 1 == 1 =>
                {
                    way
                }
                _ => self.lru.victim(state, set, candidates),
            }
        }

        fn first_guess(state: &[u64]) -> Option<usize> {
            if FAULT == GUESSES_WILDLY { Some(99) } else { Lru::first_guess(state) }
        }
    }

    fn is_found<const FAULT: u8>() -> bool {
        std::panic::catch_unwind(policy_laws::<Broken<FAULT>>).is_err()
    }

    #[test]
    fn each_fault_is_found() {
        assert!(is_found::<IGNORES_CANDIDATES>());
        assert!(is_found::<SHARES_STATE>());
        assert!(is_found::<COUNTS_GUESSES>());
        assert!(is_found::<GUESSES_WILDLY>());
        assert!(is_found::<IS_LARGE>());
        assert!(!is_found::<IS_ANOTHER>(), "it is a policy, though not the reference's");
    }
}
