//! Generations alone: what the kernel's documentation says of them (Documentation/mm/multigen_lru.rst), and a
//! reference of plain vectors under random inputs.

mod naive;

use super::*;
use naive::Naive;
use proptest::prelude::*;

const FRAMES: u64 = 1 << 14;
const TABLE: u64 = 512;

/// A memory in which each folio is mapped at the page of its number, in tables of 512, and of which all goes
/// that reclaim wants, but what is noted otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
struct Tables {
    /// Pages with an entry, and of them, those that were used.
    mapped: BTreeSet<u64>,
    young: BTreeSet<u64>,
    /// Pages whose mapping is of anonymous memory.
    anonymous: BTreeSet<u64>,
    dirty: BTreeSet<u64>,
    busy: BTreeSet<u64>,
    /// Swap has a copy, so that no write is needed.
    swapped: BTreeSet<u64>,
    gone: Vec<(u64, Shadow)>,
    /// Being written, to go then.
    writing: BTreeSet<u64>,
    free: u64,
}

impl Memory for Tables {
    fn take_references(&mut self, folio: u64) -> u64 {
        u64::from(self.young.remove(&folio))
    }

    fn held(&self, _: u64) -> bool {
        false
    }

    fn evict(&mut self, folio: u64, shadow: Shadow, _: bool) -> Evicted {
        if self.busy.contains(&folio) || self.writing.contains(&folio) {
            return Evicted::Busy;
        }
        self.mapped.remove(&folio);
        if self.anonymous.contains(&folio) && !self.swapped.contains(&folio) {
            self.writing.insert(folio);
            return Evicted::Writing;
        }
        self.forget(folio);
        self.gone.push((folio, shadow));
        self.free += 1;
        Evicted::Freed
    }

    fn free_pages(&self) -> u64 {
        self.free
    }

    fn walk(
        &mut self,
        tables: Option<&BTreeSet<u64>>,
        anonymous: bool,
        visit: &mut dyn FnMut(Walked),
    ) {
        let all: BTreeSet<u64> = self.mapped.iter().map(|page| page / TABLE).collect();
        for table in all.iter().filter(|table| tables.is_none_or(|some| some.contains(table))) {
            let pages = table * TABLE..(table + 1) * TABLE;
            let young = self.young.range(pages).copied();
            let young: Vec<u64> =
                young.filter(|page| anonymous || !self.anonymous.contains(page)).collect();
            young.iter().for_each(|page| assert!(self.young.remove(page)));
            visit(Walked { table: *table, entries: TABLE, young });
        }
    }

    fn look_around(
        &mut self,
        folio: u64,
        entries: u64,
        listed: &dyn Fn(u64) -> bool,
    ) -> Option<Walked> {
        let first = folio / entries * entries;
        let young = self.young.range(first..first + entries).copied();
        let young: Vec<u64> = young.filter(|page| listed(*page)).collect();
        young.iter().for_each(|page| assert!(self.young.remove(page)));
        Some(Walked { table: folio / TABLE, entries, young })
    }

    fn waits_for_write(&mut self, folio: u64) -> bool {
        let file = !self.anonymous.contains(&folio);
        self.writing.contains(&folio) || file && self.dirty.contains(&folio)
    }

    fn is_in_swap_cache(&self, folio: u64) -> bool {
        self.swapped.contains(&folio)
    }
}

impl Tables {
    fn forget(&mut self, folio: u64) {
        for set in [&mut self.mapped, &mut self.young, &mut self.dirty, &mut self.swapped] {
            set.remove(&folio);
        }
        self.writing.remove(&folio);
        self.anonymous.remove(&folio);
    }

    fn touch(&mut self, pages: std::ops::Range<u64>) {
        self.mapped.extend(pages.clone());
        self.young.extend(pages);
    }

    fn gone(&self) -> Vec<u64> {
        self.gone.iter().map(|(folio, _)| *folio).collect()
    }
}

fn read(lists: &mut Generations, folios: std::ops::Range<u64>) {
    folios.for_each(|folio| lists.add(folio, 0, Kind::File, Shadow::default(), false));
}

fn fault(lists: &mut Generations, memory: &mut Tables, kind: Kind, folios: std::ops::Range<u64>) {
    for folio in folios.clone() {
        lists.add(folio, 0, kind, Shadow::default(), true);
        if kind == Kind::Anonymous {
            memory.anonymous.insert(folio);
        }
    }
    memory.touch(folios);
}

#[test]
fn what_is_read_is_the_oldest_and_what_faults_is_the_second_youngest() {
    let (mut lists, mut memory) = (Generations::new(60, FRAMES), Tables::default());
    read(&mut lists, 0..1);
    fault(&mut lists, &mut memory, Kind::File, 1..2);
    fault(&mut lists, &mut memory, Kind::Anonymous, 2..3);
    // From swap, but read ahead by advice alone.
    lists.add(3, 0, Kind::Anonymous, Shadow::default(), false);
    assert_eq!(lists.sequences(Kind::File), 0..=3);
    assert_eq!([0, 1, 2, 3].map(|folio| lists.sequence_of(folio)), [0, 2, 2, 0].map(Some));
}

#[test]
fn file_calls_make_tiers_and_then_the_working_set() {
    let mut lists = Generations::new(60, FRAMES);
    read(&mut lists, 0..1);
    let mut tiers = Vec::new();
    for _ in 0..6 {
        tiers.push((tier_of(lists.lists.flags(0)), is_saturated(lists.lists.flags(0))));
        lists.mark_accessed(0);
    }
    let expected = [(0, false), (0, false), (1, false), (2, false), (2, false), (3, true)];
    assert_eq!(tiers, expected, "no use, the first, a second, a third and a fourth, and more");
    assert_eq!(lists.sequence_of(0), Some(0), "it moves when reclaim comes past it");
}

/// A page that page tables use is noted at the first walk and the youngest from the second on.
#[test]
fn walks_promote_what_is_used_again() {
    let (mut lists, mut memory) = (Generations::new(60, FRAMES), Tables::default());
    fault(&mut lists, &mut memory, Kind::Anonymous, 0..512);
    lists.age(&mut memory);
    assert_eq!((lists.youngest, lists.sequence_of(0)), (4, Some(2)), "noted");
    memory.touch(0..256);
    lists.age(&mut memory);
    assert_eq!((lists.sequence_of(0), lists.sequence_of(256)), (Some(4), Some(2)));
    assert_eq!(lists.lists.list_of(0), Some(list(Kind::Anonymous, 2)), "but it is not moved yet");
    assert_eq!((lists.counters.activations, lists.counters.deactivations), (256, 512));
    assert!(memory.young.is_empty());
}

/// The next walk leaves out a table of which fewer than one entry in eight was used, until reclaim comes past a
/// used page there (the Bloom filter of lru_gen_mm_state).
#[test]
fn a_walk_looks_at_tables_in_which_much_was_used() {
    let (mut lists, mut memory) = (Generations::new(60, FRAMES), Tables::default());
    fault(&mut lists, &mut memory, Kind::File, 0..64);
    fault(&mut lists, &mut memory, Kind::File, 512..512 + 63);
    lists.age(&mut memory);
    assert_eq!(lists.tables, Some(BTreeSet::from([0])));
    memory.touch(0..64);
    memory.touch(512..512 + 8);
    lists.age(&mut memory);
    assert_eq!(memory.young, (512..520).collect());
    let scan = Scan::new(Reclaimer::Group, 1);
    lists.take(512);
    memory.young.remove(&512);
    lists.look_around(&scan, 512, &mut memory);
    assert_eq!(lists.tables, Some(BTreeSet::from([0, 1])), "8 of 64 entries were used");
}

/// Pages around a used one are taken for used as well (lru_gen_look_around).
#[test]
fn neighbours_of_a_used_page_are_promoted_with_it() {
    for (who, in_place) in
        [(Reclaimer::Group, false), (Reclaimer::Background { high_pages: 1 }, true)]
    {
        let (mut lists, mut memory) = (Generations::new(60, FRAMES), Tables::default());
        read(&mut lists, 0..64);
        (0..64).for_each(|folio| lists.mark_accessed(folio));
        memory.touch(0..64);
        lists.look_around(&Scan::new(who, 1), 0, &mut memory);
        assert!((0..64).all(|folio| lists.sequence_of(folio) == Some(3)));
        let place = if in_place { 0 } else { 3 };
        assert_eq!(lists.lists.list_of(1), Some(list(Kind::File, place)));
        assert_eq!(lists.pages[3], [0, 64]);
    }
}

/// Reclaim with nothing to reclaim begins generations, up to four.
#[test]
fn a_kind_has_two_to_four_generations() {
    let (mut lists, mut memory) = (Generations::new(60, FRAMES), Tables::default());
    fault(&mut lists, &mut memory, Kind::Anonymous, 0..300);
    for round in 0..50 {
        memory.touch(0..300);
        read(&mut lists, 1000 + 64 * round..1064 + 64 * round);
        lists.shrink(Reclaimer::Group, 10, &mut memory);
        for kind in KINDS {
            assert!((2..=4).contains(&lists.sequences(kind).count()));
        }
    }
    assert!(memory.writing.is_empty(), "what is used all the time stays");
}

/// A tier whose pages come back more often than those of the first is kept; the first is what goes.
#[test]
fn a_tier_that_comes_back_more_often_is_protected() {
    let (mut lists, mut memory) = (Generations::new(0, FRAMES), Tables::default());
    let twice = |lists: &mut Generations, folio| (0..2).for_each(|_| lists.mark_accessed(folio));
    read(&mut lists, 0..400);
    (0..200).for_each(|folio| twice(&mut lists, folio));
    assert_eq!(lists.last_unprotected(Kind::File), TIERS - 1, "nothing has come back");
    while lists.pages_of(Kind::File) > 0 {
        lists.shrink(Reclaimer::Group, 400, &mut memory);
    }
    for (folio, shadow) in std::mem::take(&mut memory.gone) {
        if folio < 200 {
            lists.add(folio, 0, Kind::File, shadow, false);
            twice(&mut lists, folio);
        }
    }
    assert_eq!(lists.counters.refaults, 200);
    assert_eq!(lists.last_unprotected(Kind::File), 0);
    read(&mut lists, 400..600);
    lists.shrink(Reclaimer::Group, 100, &mut memory);
    assert!(memory.gone.len() >= 100);
    assert!(memory.gone().iter().all(|folio| *folio >= 400), "{:?}", memory.gone());
}

/// A page that comes back within as many generations as there may be is told from what is new.
#[test]
fn refaults_count_while_they_are_recent() {
    for (generations, recent) in [(3, true), (4, false)] {
        let mut lists = Generations::new(60, FRAMES);
        read(&mut lists, 0..1);
        (0..5).for_each(|_| lists.mark_accessed(0));
        let shadow = lists.leave(0);
        lists.youngest = generations;
        lists.oldest = [generations - 3; 2];
        lists.add(0, 0, Kind::File, shadow, true);
        assert_eq!(lists.counters.refaults, 1);
        assert_eq!(lists.counters.refaults_activated, u64::from(recent));
        let expected = if recent { generations } else { generations - 1 };
        assert_eq!(lists.sequence_of(0), Some(expected), "the working set is the youngest");
    }
}

#[test]
fn swappiness_says_which_kind_goes() {
    let share = |swappiness| {
        let (mut lists, mut memory) = (Generations::new(swappiness, FRAMES), Tables::default());
        fault(&mut lists, &mut memory, Kind::Anonymous, 0..1000);
        fault(&mut lists, &mut memory, Kind::File, 1024..2024);
        memory.young.clear();
        let wanted = 800;
        lists.shrink(Reclaimer::Group, wanted, &mut memory);
        assert!(memory.gone.len() as u64 + memory.writing.len() as u64 >= wanted);
        memory.writing.len()
    };
    assert_eq!(share(0), 0);
    assert_eq!(share(1), 0, "files first, as long as there are any");
    assert!(share(200) >= 800);
}

#[test]
fn dirty_pages_of_files_wait_in_the_next_generation_and_go_once_written() {
    let (mut lists, mut memory) = (Generations::new(60, FRAMES), Tables::default());
    read(&mut lists, 0..100);
    memory.dirty = (0..50).collect();
    lists.shrink(Reclaimer::Group, 50, &mut memory);
    assert_eq!(memory.gone(), (50..100).collect::<Vec<_>>());
    assert!((0..50).all(|folio| lists.sequence_of(folio) == Some(1)));
    memory.dirty.clear();
    lists.rotate(49);
    assert_eq!(lists.lists.tail(list(Kind::File, lists.oldest[1])), Some(49));
    // Seven of eight passes look at less than one page of the few that are left.
    lists.shrink(Reclaimer::Group, 1, &mut memory);
    assert_eq!(memory.gone()[50], 49);
}

#[test]
fn the_kernels_thread_goes_on_until_enough_is_free() {
    let (mut lists, mut memory) = (Generations::new(60, FRAMES), Tables::default());
    read(&mut lists, 0..2000);
    memory.free = 5;
    lists.shrink(Reclaimer::Background { high_pages: 170 }, 0, &mut memory);
    assert!((170..170 + 2 * BATCH).contains(&memory.free), "{}", memory.free);
    assert!(!lists.balance(170, &mut memory));
}

#[derive(Clone, Debug)]
enum Step {
    Read { first: u64, pages: u64 },
    Fault { first: u64, pages: u64, anonymous: bool },
    Again { pages: u64, in_fault: bool },
    Call { first: u64, pages: u64, times: u64 },
    Touch { first: u64, pages: u64 },
    Dirty { first: u64, pages: u64 },
    Busy { first: u64, pages: u64 },
    Remove { first: u64, pages: u64 },
    Written,
    Shrink { pages: u64, direct: bool },
    Balance { high: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = || (0u64..2000, 1u64..300);
    let step = prop_oneof![
        6 => range().prop_map(|(first, pages)| Step::Read { first, pages }),
        4 => (range(), any::<bool>()).prop_map(|((first, pages), anonymous)| Step::Fault { first, pages, anonymous }),
        4 => (1u64..200, any::<bool>()).prop_map(|(pages, in_fault)| Step::Again { pages, in_fault }),
        4 => (range(), 1u64..6).prop_map(|((first, pages), times)| Step::Call { first, pages, times }),
        4 => range().prop_map(|(first, pages)| Step::Touch { first, pages }),
        1 => range().prop_map(|(first, pages)| Step::Dirty { first, pages }),
        1 => (0u64..2000, 1u64..30).prop_map(|(first, pages)| Step::Busy { first, pages }),
        1 => (0u64..2000, 1u64..50).prop_map(|(first, pages)| Step::Remove { first, pages }),
        2 => Just(Step::Written),
        6 => (1u64..300, any::<bool>()).prop_map(|(pages, direct)| Step::Shrink { pages, direct }),
        4 => (1u64..300).prop_map(|high| Step::Balance { high }),
    ];
    prop::collection::vec(step, 1..60)
}

/// Both with what they work on.
struct Both {
    lists: Generations,
    memory: Tables,
    naive: Naive,
    naive_memory: Tables,
}

impl Both {
    fn add(&mut self, folio: u64, kind: Kind, shadow: Shadow, in_fault: bool) {
        if self.lists.lists.list_of(folio).is_none() {
            self.lists.add(folio, 0, kind, shadow, in_fault);
            self.naive.add(folio, kind, shadow, in_fault);
            for memory in [&mut self.memory, &mut self.naive_memory] {
                memory.free = memory.free.saturating_sub(1);
                if kind == Kind::Anonymous {
                    memory.anonymous.insert(folio);
                    if shadow != Shadow::default() {
                        memory.swapped.insert(folio);
                    }
                }
                if in_fault {
                    memory.touch(folio..folio + 1);
                }
            }
        }
    }

    fn listed(&self, first: u64, pages: u64) -> Vec<u64> {
        (first..first + pages).filter(|folio| self.lists.lists.list_of(*folio).is_some()).collect()
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Read { first, pages } => (first..first + pages)
                .for_each(|folio| self.add(folio, Kind::File, Shadow::default(), false)),
            Step::Fault { first, pages, anonymous } => {
                let kind = KINDS[usize::from(!anonymous)];
                (first..first + pages)
                    .for_each(|folio| self.add(folio, kind, Shadow::default(), true));
            }
            Step::Again { pages, in_fault } => {
                let gone: Vec<(u64, Shadow)> =
                    self.memory.gone.iter().rev().take(pages as usize).copied().collect();
                for (folio, shadow) in gone {
                    // Pages of anonymous memory have no number of their own in `gone`.
                    let kind = KINDS[usize::from(folio % 3 > 0)];
                    self.add(folio, kind, shadow, in_fault);
                }
            }
            Step::Call { first, pages, times } => {
                for folio in (first..first + pages).flat_map(|folio| vec![folio; times as usize]) {
                    self.lists.mark_accessed(folio);
                    self.naive.mark_accessed(folio);
                }
            }
            Step::Touch { first, pages } => {
                for folio in self.listed(first, pages) {
                    if !self.memory.writing.contains(&folio) {
                        self.memory.touch(folio..folio + 1);
                        self.naive_memory.touch(folio..folio + 1);
                    }
                }
            }
            Step::Dirty { first, pages } => {
                let listed = self.listed(first, pages);
                self.memory.dirty.extend(&listed);
                self.naive_memory.dirty.extend(&listed);
            }
            Step::Busy { first, pages } => {
                self.memory.busy = (first..first + pages).collect();
                self.naive_memory.busy = (first..first + pages).collect();
            }
            Step::Remove { first, pages } => {
                for folio in self.listed(first, pages) {
                    self.lists.remove(folio);
                    self.naive.remove(folio);
                    self.memory.forget(folio);
                    self.naive_memory.forget(folio);
                }
            }
            Step::Written => self.written(),
            Step::Shrink { pages, direct } => {
                let who = match direct {
                    true => Reclaimer::Direct { high_pages: pages },
                    false => Reclaimer::Group,
                };
                let found = self.lists.shrink(who, pages, &mut self.memory);
                assert_eq!(found, self.naive.shrink(who, pages, &mut self.naive_memory));
            }
            Step::Balance { high } => {
                let goes_on = self.lists.balance(high, &mut self.memory);
                assert_eq!(goes_on, self.naive.balance(high, &mut self.naive_memory));
            }
        }
    }

    /// What was dirty is clean and the next to go, and what was to leave leaves.
    fn written(&mut self) {
        for folio in std::mem::take(&mut self.memory.dirty) {
            self.lists.rotate(folio);
            self.naive.rotate(folio);
        }
        self.naive_memory.dirty.clear();
        for folio in std::mem::take(&mut self.memory.writing) {
            let shadow = self.lists.leave(folio);
            assert_eq!(shadow, self.naive.leave(folio));
            for memory in [&mut self.memory, &mut self.naive_memory] {
                memory.forget(folio);
                memory.gone.push((folio, shadow));
                memory.free += 1;
            }
        }
    }

    fn check(&self) {
        assert_eq!(self.memory.gone.len(), self.naive_memory.gone.len());
        assert!(self.memory == self.naive_memory, "memory is used in another way");
        for kind in KINDS {
            assert_eq!(self.lists.sequences(kind), self.naive.sequences(kind));
            let mut pages = 0;
            for sequence in self.lists.sequences(kind) {
                let folios: Vec<u64> = self.lists.lists.tail_first(list(kind, sequence)).collect();
                assert_eq!(folios, self.naive.list(kind, sequence), "{kind:?} {sequence}");
                for folio in &folios {
                    assert_eq!(self.lists.sequence_of(*folio), self.naive.sequence_of(*folio));
                }
                pages += folios.len() as u64;
                let number = (sequence % MOST) as usize;
                let counted = self.lists.pages[number][kind as usize];
                assert_eq!(counted, self.naive.pages(kind, sequence));
            }
            assert_eq!(self.lists.pages_of(kind), pages);
        }
        assert_eq!(self.lists.counters, self.naive.counters);
    }
}

proptest! {
    #[test]
    fn generations_are_as_plain_vectors_say(
        swappiness in prop::sample::select(vec![0, 1, 20, 60, 100, 200]),
        steps in steps(),
    ) {
        let mut both = Both {
            lists: Generations::new(swappiness, FRAMES),
            memory: Tables::default(),
            naive: Naive::new(swappiness),
            naive_memory: Tables::default(),
        };
        for step in &steps {
            both.step(step);
            both.check();
        }
    }

    /// Folios of all sizes come, are used, are split, and go: each is in one list, and generations know their
    /// sizes.
    #[test]
    fn generations_know_what_is_in_them(
        steps in prop::collection::vec((0u8..8, 0u64..60, 0u8..4), 1..300)
    ) {
        let mut lists = Generations::new(60, FRAMES);
        let mut memory = Tables::default();
        let mut all: std::collections::BTreeMap<u64, u8> = Default::default();
        for (what, number, order) in steps {
            let folio = number * 8;
            match (what, all.get(&folio).copied()) {
                (0 | 1, None) if all.range(folio..folio + (1 << order)).next().is_none() => {
                    let shadow = memory.gone.last().map_or(Shadow(0), |gone| gone.1);
                    let kind = KINDS[usize::from(number % 3 > 0)];
                    lists.add(folio, order, kind, shadow, what == 0);
                    all.insert(folio, order);
                }
                (2, _) => lists.mark_accessed(folio),
                (3, Some(_)) => {
                    lists.remove(folio);
                    all.remove(&folio);
                }
                (4, Some(order)) if order > 0 => {
                    let others: Vec<u64> = (folio + 1..folio + (1 << order)).collect();
                    lists.split(folio, &others);
                    all.insert(folio, 0);
                    all.extend(others.into_iter().map(|folio| (folio, 0)));
                }
                (5, Some(_)) => memory.touch(folio..folio + 1),
                (6, _) => {
                    let before = memory.gone.len();
                    lists.shrink(Reclaimer::Group, number, &mut memory);
                    for (folio, _) in &memory.gone[before..] {
                        prop_assert!(all.remove(folio).is_some(), "{} was not there", folio);
                    }
                }
                (7, _) => lists.age(&mut memory),
                _ => {}
            }
            let mut found = Vec::new();
            let mut pages = [[0; 2]; MOST as usize];
            for kind in KINDS {
                for folio in (0..MOST).flat_map(|number| lists.lists.tail_first(list(kind, number))) {
                    let number = generation(lists.lists.flags(folio)) as usize;
                    pages[number][kind as usize] += 1u64 << all[&folio];
                    found.push(folio);
                }
            }
            prop_assert_eq!(lists.pages, pages);
            found.sort_unstable();
            prop_assert_eq!(found, all.keys().copied().collect::<Vec<_>>());
        }
    }
}
