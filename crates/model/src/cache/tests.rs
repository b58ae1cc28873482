//! Laws of the tag store, most of them against the obvious implementation.

use super::*;
use crate::replacement::{MAX_WAYS, Policy, PolicyKind, PolicyVisitor};
use proptest::prelude::*;

/// The obvious cache: for each set a list of what each way holds, and the policy's own words.
struct Naive<P> {
    sets: Vec<Vec<Option<(u64, u8)>>>,
    state: Vec<Vec<u64>>,
    policy: P,
}

/// Stands for an unrelated line of a prefilled store.
const UNRELATED: u64 = u64::MAX;

impl<P: Policy> Naive<P> {
    fn new(sets: u64, ways: usize, prefilled: bool) -> Self {
        let content = prefilled.then_some((UNRELATED, flag::VALID));
        Naive {
            sets: vec![vec![content; ways]; sets as usize],
            state: vec![vec![0; P::words(ways)]; sets as usize],
            policy: P::new(ways, 5),
        }
    }

    fn set(&self, line: u64) -> usize {
        (line % self.sets.len() as u64) as usize
    }

    fn find(&self, line: u64) -> Option<usize> {
        self.sets[self.set(line)].iter().position(|way| way.is_some_and(|(l, _)| l == line))
    }

    fn access(&mut self, line: u64, write: bool) -> Option<(usize, u8)> {
        let set = self.set(line);
        let way = self.find(line)?;
        self.policy.on_hit(&mut self.state[set], set, way);
        let flags = &mut self.sets[set][way].as_mut()?.1;
        let before = *flags;
        *flags |= if write { flag::DIRTY } else { 0 };
        Some((way, before))
    }

    fn place(&self, line: u64) -> Option<usize> {
        let set = self.set(line);
        if let Some(way) = self.sets[set].iter().position(Option::is_none) {
            return Some(way);
        }
        let pinned = |way: &Option<(u64, u8)>| way.is_some_and(|(_, f)| f & flag::PINNED != 0);
        let candidates: u64 = self.sets[set]
            .iter()
            .enumerate()
            .map(|(way, entry)| u64::from(!pinned(entry)) << way)
            .sum();
        (candidates != 0).then(|| self.policy.victim(&self.state[set], set, candidates))
    }

    fn insert(&mut self, way: usize, line: u64, flags: u8) -> Option<(u64, u8)> {
        let set = self.set(line);
        self.policy.on_fill(&mut self.state[set], set, way);
        self.sets[set][way].replace((line, flags | flag::VALID))
    }

    fn dirty(&self) -> Vec<(usize, usize, u64)> {
        let mut all = Vec::new();
        for (set, ways) in self.sets.iter().enumerate() {
            for (way, entry) in ways.iter().enumerate() {
                if let Some((line, _)) = entry.filter(|(_, f)| f & flag::DIRTY != 0) {
                    all.push((set, way, line));
                }
            }
        }
        all
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Access(u64, bool),
    Insert(u64, u8),
    Invalidate(u64),
    Flags(u64, bool, u8),
    Touch(u64),
    Fork(bool),
}

fn step(lines: u64) -> impl Strategy<Value = Step> {
    let line = 0..lines;
    prop_oneof![
        6 => (line.clone(), any::<bool>()).prop_map(|(l, w)| Step::Access(l, w)),
        6 => (line.clone(), 0u8..16).prop_map(|(l, f)| Step::Insert(l, f << 1 & !flag::PINNED)),
        1 => line.clone().prop_map(Step::Invalidate),
        2 => (line.clone(), any::<bool>(), 1u8..128)
            .prop_map(|(l, set, f)| Step::Flags(l, set, f << 1)),
        1 => line.prop_map(Step::Touch),
        1 => any::<bool>().prop_map(Step::Fork),
    ]
}

fn cases() -> impl Strategy<Value = (u64, usize, bool, Vec<Step>)> {
    let ways = prop_oneof![2 => 1usize..=4, 1 => 1usize..=MAX_WAYS];
    (1u64..12, ways, any::<bool>()).prop_flat_map(|(sets, ways, prefilled)| {
        let lines = sets * ways as u64 * 2 + 3;
        let steps = proptest::collection::vec(step(lines), 0..400);
        (Just(sets), Just(ways), Just(prefilled), steps)
    })
}

struct FollowsNaive<'a>(u64, usize, bool, &'a [Step]);

impl PolicyVisitor for FollowsNaive<'_> {
    type Output = ();

    fn visit<P: Policy>(self) {
        let FollowsNaive(sets, ways, prefilled, steps) = self;
        let mut store = TagStore::<P>::new(sets, ways, prefilled, 5);
        let mut naive = Naive::<P>::new(sets, ways, prefilled);
        let mut forks = Vec::new();
        for step in steps {
            apply(&mut store, &mut naive, &mut forks, *step);
            let dirty: Vec<_> = store
                .iter_dirty()
                .map(|(at, line)| (at.set() as usize, at.way() as usize, line))
                .collect();
            assert_eq!(dirty, naive.dirty());
            assert_eq!(store.dirty_lines(), dirty.len() as u64);
        }
        for (fork, dirty) in forks {
            let kept: Vec<_> = fork.iter_dirty().collect();
            assert_eq!(kept, dirty, "a fork keeps what it was forked from");
        }
    }
}

type Fork<P> = (TagStore<P>, Vec<(WayRef, u64)>);

fn apply<P: Policy>(
    store: &mut TagStore<P>,
    naive: &mut Naive<P>,
    forks: &mut Vec<Fork<P>>,
    step: Step,
) {
    match step {
        Step::Access(line, write) => {
            let found = store.access(line, write).map(|h| (h.way.way() as usize, h.flags));
            assert_eq!(found, naive.access(line, write), "line {line}");
        }
        Step::Insert(line, flags) => {
            if store.lookup(line).is_some() {
                return;
            }
            let Some(way) = naive.place(line) else {
                assert_eq!(store.place(line), Place::Pinned);
                assert_eq!(store.victim(line), None);
                return;
            };
            let preview = store.victim(line);
            let evicted = store.insert(line, flags);
            assert_eq!(evicted, preview);
            let went = evicted.map(|e| (e.line.unwrap_or(UNRELATED), e.flags));
            assert_eq!(went, naive.insert(way, line, flags));
        }
        Step::Invalidate(line) => {
            let set = naive.set(line);
            let gone = naive.find(line).and_then(|way| naive.sets[set][way].take());
            assert_eq!(store.invalidate(line), gone.map(|(_, flags)| flags));
        }
        Step::Flags(line, set, flags) => {
            let at = store.lookup(line);
            let way = naive.find(line);
            assert_eq!(at.map(|at| at.way() as usize), way);
            let (Some(at), Some(way)) = (at, way) else { return };
            let index = naive.set(line);
            let Some((_, kept)) = &mut naive.sets[index][way] else { return };
            if set {
                store.set_flags(at, flags);
                *kept |= flags;
            } else {
                store.clear_flags(at, flags);
                *kept &= !flags;
            }
            assert_eq!((store.flags(at), store.line(at)), (*kept, Some(line)));
        }
        Step::Touch(line) => {
            let Some(at) = store.lookup(line) else { return };
            store.touch(at);
            let set = naive.set(line);
            naive.policy.on_hit(&mut naive.state[set], set, at.way() as usize);
        }
        Step::Fork(swap) => {
            let mut other = store.fork();
            if swap {
                std::mem::swap(store, &mut other);
            }
            let dirty = other.iter_dirty().collect();
            forks.push((other, dirty));
        }
    }
}

proptest! {
    #[test]
    fn the_store_equals_a_list_for_every_policy((sets, ways, prefilled, steps) in cases()) {
        for kind in PolicyKind::ALL {
            kind.visit(FollowsNaive(sets, ways, prefilled, &steps));
        }
    }

    #[test]
    fn a_run_of_hits_equals_single_accesses(
        (sets, ways, _, steps) in cases(), lines in proptest::collection::vec((0u64..40, any::<bool>()), 0..60),
    ) {
        let mut single = TagStore::<crate::replacement::Lru>::new(sets, ways, false, 0);
        for step in steps {
            if let Step::Access(line, _) = step && single.lookup(line).is_none() {
                single.insert(line, 0);
            }
        }
        let mut batch = single.fork();
        let accesses: Vec<_> = lines.iter().map(|&(l, w)| LineAccess::new(l, w)).collect();
        let hits = accesses.iter().take_while(|a| single.access(a.line(), a.write()).is_some()).count();
        prop_assert_eq!(batch.hit_run(&accesses), hits);
        prop_assert!(batch.iter_dirty().eq(single.iter_dirty()));
        for line in 0..64 {
            prop_assert_eq!(batch.place(line), single.place(line));
        }
    }
}

#[test]
fn a_large_store_costs_what_it_touches() {
    let mut store = TagStore::<crate::replacement::Lru>::new(1 << 20, 16, true, 0);
    assert_eq!(store.touched_bytes(), 0);
    for line in 0..1000 {
        assert_eq!(store.insert(line, 0), Some(Evicted { line: None, flags: flag::VALID }));
    }
    assert!(store.touched_bytes() < 1 << 20, "{} bytes", store.touched_bytes());
}
