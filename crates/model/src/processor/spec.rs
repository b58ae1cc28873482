//! What a user says of a processor.

use super::window::Sizes;
use super::{LinePrefetchSpec, PrefetchInto, ProcessorEnergySpec};
use serde::{Deserialize, Serialize};
use tierscope_units::{Energy, Frequency, Problems, Size};

/// The processor: cores, reorder window, on-chip caches and TLB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessorSpec {
    /// Number of cores.
    pub cores: u32,
    /// Hardware threads of each core. They share its private caches and TLB, and those that have
    /// instructions to run its pace, evenly.
    pub threads_per_core: u32,
    /// Instructions that a core issues in a cycle at most.
    pub width: u32,
    /// Clock frequency of the cores.
    pub clock: Frequency,
    /// Cycles per instruction when nothing waits for memory (branches, dependences, functional
    /// units), at least 1/width.
    pub base_cpi: f64,
    /// Instructions that may be in flight behind the oldest unfinished load.
    pub reorder_window: u32,
    /// Loads that may be in flight from the oldest unfinished one on, those that have been served included, of which one
    /// instruction counts once. Where it is missing there are no bounds beside the reorder window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_queue: Option<u32>,
    /// Stores that may wait, in order, to come into the caches: for older loads, and for lines; of one instruction it is
    /// one. Where it is missing there are no bounds beside miss registers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_queue: Option<u32>,
    /// Lines that a hardware thread may be waiting for at once beyond its first-level cache.
    pub miss_registers: u32,
    /// Whether reorder window, queues and miss registers are a core's, of which each of its hardware threads that has a
    /// software thread may use an even part; else each hardware thread has as many.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partitioned: bool,
    /// On-chip caches for data, from the first level outwards.
    pub caches: Vec<OnChipCacheSpec>,
    /// Translation look-aside buffer and page walks.
    pub tlb: TlbSpec,
    /// How private caches are kept coherent. A processor of one core needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coherence: Option<CoherenceSpec>,
    /// A prefetcher of each core, into the shared caches or its own. Where it is missing there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<LinePrefetchSpec>,
    /// Powers and energies. Where they are missing, the processor's energy is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<ProcessorEnergySpec>,
}

/// What it takes to keep the private caches of several cores coherent (MESI).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoherenceSpec {
    /// Cycles from an access's issue to its data, where another core's private caches have them: written
    /// there, or in no shared cache.
    pub transfer_cycles: u32,
    /// Cycles from a store's issue until other cores have given up their copies of its line.
    pub invalidation_cycles: u32,
}

/// One level of on-chip cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnChipCacheSpec {
    /// Name in results, such as `L1D`.
    pub name: String,
    /// Capacity of one such cache. The number of sets need not be a power of two; what is left
    /// over beyond whole sets is not used.
    pub capacity: Size,
    /// Associativity.
    pub ways: u32,
    /// Line size: the same at every level.
    pub line: Size,
    /// Cycles from an access's issue to its data on a hit in this level, look-ups of the levels
    /// before it included.
    pub latency_cycles: u32,
    /// Whether all cores share one such cache. Shared levels come after private ones.
    pub shared: bool,
    /// Whether it holds all that the levels before it hold, those of all its cores: what it drops, they give
    /// up (back-invalidation).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inclusive: bool,
    /// Energy of a look-up, where `processor.energy` is given and does not hold it already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_energy: Option<Energy>,
}

/// Translation look-aside buffers of a core, and page walks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlbSpec {
    /// Entries of the first level; a hit costs nothing beyond the first-level cache's latency.
    pub entries: u32,
    /// Associativity of the first level.
    pub ways: u32,
    /// Entries of the second level, 0 for none.
    pub second_level_entries: u32,
    /// Associativity of the second level.
    pub second_level_ways: u32,
    /// Cycles until the second level has answered: a hit there adds them, and a page walk begins behind them.
    pub second_level_latency_cycles: u32,
    /// Entries of the cache of upper page-table levels: with a hit there, a walk reads the last
    /// level only.
    pub walk_cache_entries: u32,
    /// Levels of the page table.
    pub levels: u32,
    /// Processes whose translations it tells apart: those of others go as a core switches to a further
    /// one. 1: all go at each switch to another process.
    pub address_spaces: u32,
    /// Entries for larger pages than the smallest, where `os.page` is one or
    /// `os.transparent_huge_pages` makes some. For a size that is not here, entries are
    /// those above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub large: Vec<LargePageTlbSpec>,
}

/// Entries of a TLB for pages of a size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LargePageTlbSpec {
    /// Size of the pages.
    pub page: Size,
    /// Entries of the first level.
    pub entries: u32,
    /// Associativity of the first level.
    pub ways: u32,
    /// Entries of the second level, 0 for none.
    pub second_level_entries: u32,
    /// Associativity of the second level.
    pub second_level_ways: u32,
    /// Its entries of the second level are those of the smallest pages, which both sizes share: it matters where huge
    /// pages lie beside small ones (`os.transparent_huge_pages`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shares_second_level: bool,
}

impl TlbSpec {
    /// Cycles until the second level has answered, 0 where pages of no size have one.
    pub fn second_level_cycles(&self) -> u64 {
        let larger = self.large.iter().map(|large| large.second_level_entries);
        let is_there = larger.chain([self.second_level_entries]).any(|entries| entries > 0);
        u64::from(self.second_level_latency_cycles) * u64::from(is_there)
    }
}

impl ProcessorSpec {
    /// What a hardware thread has in flight, one that shares it with no other.
    pub fn in_flight(&self) -> Sizes {
        let queue = |entries: Option<u32>| entries.map_or(u64::MAX, u64::from);
        Sizes {
            reorder_window: self.reorder_window.into(),
            miss_registers: self.miss_registers as usize,
            load_queue: queue(self.load_queue),
            store_queue: queue(self.store_queue),
        }
    }

    /// Collects every semantic mistake below `path`.
    pub fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "cores", self.cores, 1);
        problems.at_most(path, "cores", self.cores, 256);
        problems.at_least(path, "threads_per_core", self.threads_per_core, 1);
        problems.at_most(path, "threads_per_core", self.threads_per_core, 8);
        problems.at_least(path, "width", self.width, 1);
        problems.at_least(path, "reorder_window", self.reorder_window, 1);
        problems.at_least(path, "miss_registers", self.miss_registers, 1);
        for (name, queue) in [("load_queue", self.load_queue), ("store_queue", self.store_queue)] {
            queue.into_iter().for_each(|entries| problems.at_least(path, name, entries, 1));
        }
        let shared = [
            ("reorder_window", Some(self.reorder_window)),
            ("load_queue", self.load_queue),
            ("store_queue", self.store_queue),
            ("miss_registers", Some(self.miss_registers)),
        ];
        let few =
            shared.into_iter().find(|(_, some)| some.is_some_and(|it| it < self.threads_per_core));
        if let (true, Some((name, Some(some)))) = (self.partitioned, few) {
            problems.add(
                "contradiction",
                format!("{path}.partitioned"),
                "true".into(),
                format!(
                    "{} hardware threads share {path}.{name} of {some}, and each needs one",
                    self.threads_per_core
                ),
                format!("write partitioned = false, or a larger {name}"),
            );
        }
        problems.at_least(path, "clock", self.clock, Frequency::from_hertz(1_000_000));
        if self.width > 0
            && !(self.base_cpi * f64::from(self.width) >= 1.0 && self.base_cpi.is_finite())
        {
            problems.add(
                "impossible-value",
                format!("{path}.base_cpi"),
                self.base_cpi.to_string(),
                format!(
                    "a core of width {} needs at least 1/{0} cycles an instruction",
                    self.width
                ),
                format!("write {} or more", 1.0 / f64::from(self.width.max(1))),
            );
        }
        if self.caches.is_empty() {
            problems.add(
                "missing-part",
                format!("{path}.caches"),
                "[]".into(),
                "a processor needs at least one on-chip cache".into(),
                "add a [[processor.caches]] table".into(),
            );
        }
        let mut latency_cycles = 0;
        let mut shared = false;
        let mut largest = Size::from_bytes(0);
        for (level, cache) in self.caches.iter().enumerate() {
            let at = format!("{path}.caches[{level}]");
            cache.check(&at, problems);
            if cache.line != self.caches[0].line {
                problems.add(
                    "contradiction",
                    format!("{at}.line"),
                    cache.line.to_string(),
                    format!("the first level has lines of {}", self.caches[0].line),
                    "use one line size at every level".into(),
                );
            }
            if cache.latency_cycles <= latency_cycles {
                problems.add(
                    "contradiction",
                    format!("{at}.latency_cycles"),
                    cache.latency_cycles.to_string(),
                    format!("the latency must exceed that of the level before, {latency_cycles}"),
                    format!(
                        "write {} or more: latencies count from issue",
                        latency_cycles.saturating_add(1)
                    ),
                );
            }
            if shared && !cache.shared {
                problems.add(
                    "contradiction",
                    format!("{at}.shared"),
                    "false".into(),
                    "a private level cannot lie behind a shared one".into(),
                    "list private levels first".into(),
                );
            }
            if cache.inclusive && (level == 0 || cache.capacity < largest) {
                problems.add(
                    "contradiction",
                    format!("{at}.inclusive"),
                    "true".into(),
                    match level {
                        0 => "it would hold what the levels before it hold, and there are none"
                            .into(),
                        _ => format!(
                            "with {} it cannot hold all that a level of {largest} before it holds",
                            cache.capacity
                        ),
                    },
                    "write inclusive = false".into(),
                );
            }
            latency_cycles = cache.latency_cycles;
            shared |= cache.shared;
            largest = largest.max(cache.capacity);
        }
        if shared && self.caches.iter().all(|cache| cache.shared) {
            problems.add(
                "contradiction",
                format!("{path}.caches[0].shared"),
                "true".into(),
                "the first level belongs to a core, and no level does".into(),
                "write shared = false for it".into(),
            );
        }
        self.check_coherence(path, problems);
        self.tlb.check(&format!("{path}.tlb"), problems);
        if let Some(prefetch) = &self.prefetch {
            prefetch.check(&format!("{path}.prefetch"), problems);
            if !shared && prefetch.into == PrefetchInto::Shared {
                problems.add(
                    "contradiction",
                    format!("{path}.prefetch"),
                    String::new(),
                    "lines are brought into shared caches, and there are none".into(),
                    "write into = \"private\", or shared = true for the last cache".into(),
                );
            }
        }
        if let Some(energy) = &self.energy {
            energy.check(&format!("{path}.energy"), problems);
        }
    }
}

impl ProcessorSpec {
    /// Several cores need to say how they keep coherent; nothing of it is faster than a private cache.
    fn check_coherence(&self, path: &str, problems: &mut Problems) {
        let Some(coherence) = &self.coherence else {
            if self.cores > 1 {
                problems.add(
                    "missing-part",
                    format!("{path}.coherence"),
                    String::new(),
                    format!("the private caches of {} cores have to be kept coherent", self.cores),
                    "add [processor.coherence] with transfer_cycles and invalidation_cycles".into(),
                );
            }
            return;
        };
        let private = self.caches.iter().take_while(|cache| !cache.shared);
        let last_cycles = private.map(|cache| cache.latency_cycles).max().unwrap_or(0);
        for (key, cycles) in [
            ("transfer_cycles", coherence.transfer_cycles),
            ("invalidation_cycles", coherence.invalidation_cycles),
        ] {
            if cycles <= last_cycles {
                problems.add(
                    "contradiction",
                    format!("{path}.coherence.{key}"),
                    cycles.to_string(),
                    format!(
                        "a look-up in the last private cache takes {last_cycles} cycles already"
                    ),
                    format!("write {} or more", last_cycles.saturating_add(1)),
                );
            }
        }
    }
}

/// An on-chip cache at most: eight bytes for each line of 64, and for each core where it is private.
const LARGEST: Size = Size::from_bytes(16 << 30);

impl OnChipCacheSpec {
    fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "ways", self.ways, 1);
        problems.at_most(path, "ways", self.ways, 64);
        if !self.line.bytes().is_power_of_two() || !(16..=256).contains(&self.line.bytes()) {
            problems.add(
                "impossible-value",
                format!("{path}.line"),
                self.line.to_string(),
                "a line is a power of two from 16B to 256B".into(),
                "write 64B".into(),
            );
        }
        if let Some(energy) = self.access_energy {
            let most = Energy::from_femtojoules(1_000_000_000_000);
            problems.at_most(path, "access_energy", energy, most);
        }
        if self.capacity > LARGEST {
            problems.add(
                "impossible-value",
                format!("{path}.capacity"),
                self.capacity.to_string(),
                format!(
                    "each line of an on-chip cache takes room in this computer's memory, which reaches to {LARGEST}"
                ),
                format!("write {LARGEST} or less; a larger cache is in DRAM, as that of hybrid"),
            );
        }
        let set = self.line.bytes().saturating_mul(u64::from(self.ways));
        if self.capacity.bytes() < set {
            problems.add(
                "impossible-value",
                format!("{path}.capacity"),
                self.capacity.to_string(),
                format!("one set of {} ways takes {set} bytes", self.ways),
                format!("write at least {set}B, or fewer ways"),
            );
        }
    }

    /// Number of sets: whole sets only.
    pub fn sets(&self) -> u64 {
        self.capacity.bytes() / (self.line.bytes() * u64::from(self.ways))
    }
}

impl TlbSpec {
    /// What it is for pages of this size: its entries for them, and as many levels of the page table as a walk
    /// reads. Each level has 512 entries, so that a page 512 times as large ends the walk a level earlier
    /// (Intel SDM vol. 3, §4.5).
    pub fn of_pages(&self, page: Size) -> TlbSpec {
        let fewer = (page.bytes().max(4096) / 4096).ilog2() / 9;
        let mut own = TlbSpec { levels: self.levels.saturating_sub(fewer).max(1), ..self.clone() };
        if let Some(large) = self.large.iter().find(|large| large.page == page) {
            own.entries = large.entries;
            own.ways = large.ways;
            own.second_level_entries = large.second_level_entries;
            own.second_level_ways = large.second_level_ways;
        }
        own
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "levels", self.levels, 1);
        problems.at_most(path, "levels", self.levels, 5);
        problems.at_least(path, "address_spaces", self.address_spaces, 1);
        for (index, large) in self.large.iter().enumerate() {
            let at = format!("{path}.large[{index}]");
            if !large.page.bytes().is_power_of_two() || large.page.bytes() <= 4096 {
                problems.add(
                    "impossible-value",
                    format!("{at}.page"),
                    large.page.to_string(),
                    "a larger page is a power of two above 4KiB".into(),
                    "write 2MiB".into(),
                );
            }
            if self.large[..index].iter().any(|other| other.page == large.page) {
                problems.add(
                    "contradiction",
                    format!("{at}.page"),
                    large.page.to_string(),
                    "there are entries for pages of this size already".into(),
                    "remove one of both".into(),
                );
            }
            let own = TlbSpec { large: Vec::new(), ..self.of_pages(large.page) };
            own.check_entries(&at, problems);
        }
        self.check_entries(path, problems);
    }

    fn check_entries(&self, path: &str, problems: &mut Problems) {
        for (name, entries, ways) in [
            ("entries", self.entries, self.ways),
            ("second_level_entries", self.second_level_entries, self.second_level_ways),
        ] {
            let absent = name == "second_level_entries" && entries == 0;
            if !absent && (ways == 0 || entries == 0 || entries % ways != 0) {
                problems.add(
                    "contradiction",
                    format!("{path}.{name}"),
                    entries.to_string(),
                    format!("{entries} entries do not divide into sets of {ways} ways"),
                    "write a multiple of the ways".into(),
                );
            }
        }
    }
}
