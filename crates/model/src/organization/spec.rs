//! What a user says of each organization. Exactly one of them is in a system.

use serde::{Deserialize, Serialize};
use tierscope_units::{Duration, Problems, Size};

/// `oracle`: all in DRAM, however large.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OracleSpec {
    /// Main memory. A workload that needs more is an error.
    pub capacity: Size,
}

/// `hybrid`: hardware manages DRAM as a cache of the store ([HYB15] §2.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HybridSpec {
    /// The DRAM cache.
    pub cache: DramCacheSpec,
    /// Time of the controller for each request, tag look-up not included.
    pub controller_latency: Duration,
    /// Requests that the controller holds at most.
    pub queue_depth: u32,
    /// Pages in flight from the store at most, demand and prefetch.
    pub fills: u32,
    /// Dirty victims that wait for the store at most. When it is full, misses wait.
    pub write_back_buffer_pages: u32,
    /// Pages that a demand miss prefetches in physical order; 0 for none.
    pub prefetch_pages: u32,
    /// Whether the requested line goes ahead of the rest of its page.
    pub critical_line_first: bool,
}

/// DRAM as a set-associative cache of pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DramCacheSpec {
    /// Capacity.
    pub capacity: Size,
    /// Associativity, 1 to 64.
    pub ways: u32,
    /// Page: the unit of tags and fills.
    pub page: Size,
    /// Where the tags are.
    pub tags: TagStore,
    /// Time of a look-up in a tag store of SRAM; nothing where tags are with the data.
    pub tag_latency: Duration,
    /// What the cache holds at the start.
    pub initial: InitialContent,
}

/// Where a DRAM cache keeps its tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TagStore {
    /// In SRAM beside the controller.
    Sram,
    /// With the data: tag and data come in one DRAM access. Direct-mapped caches only.
    WithData,
}

/// What DRAM holds when a run starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InitialContent {
    /// Nothing: every frame is invalid.
    Empty,
    /// Unrelated clean pages in every frame.
    Prefilled,
}

/// `storage`: the operating system pages between DRAM and the store ([HYB15] §2.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StorageSpec {
    /// Main memory.
    pub dram_capacity: Size,
    /// What DRAM holds at the start.
    pub initial: InitialContent,
    /// Largest readahead window for files; 0 for none.
    pub readahead: Size,
    /// Pages read at once from swap, a power of two (`page_cluster`); 1 for no readahead.
    pub swap_cluster_pages: u32,
    /// Share of DRAM that may be dirty file pages before a writer has to wait.
    pub dirty_ratio: f64,
    /// Share of DRAM above which dirty file pages are written in the background.
    pub dirty_background_ratio: f64,
    /// Page requests that the host has at the device at once (NCQ tags, NVMe queue).
    pub host_queue_depth: u32,
}

impl OracleSpec {
    /// Collects every semantic mistake below `path`.
    pub fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "capacity", self.capacity, Size::from_bytes(1 << 20));
    }
}

impl HybridSpec {
    /// Collects every semantic mistake below `path`.
    pub fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "queue_depth", self.queue_depth, 1);
        problems.at_least(path, "fills", self.fills, 1);
        problems.at_least(path, "write_back_buffer_pages", self.write_back_buffer_pages, 1);
        problems.at_most(path, "prefetch_pages", self.prefetch_pages, 4096);
        self.cache.check(&format!("{path}.cache"), problems);
    }
}

impl DramCacheSpec {
    fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "ways", self.ways, 1);
        problems.at_most(path, "ways", self.ways, 64);
        if self.tags == TagStore::WithData && self.ways != 1 {
            problems.add(
                "contradiction",
                format!("{path}.tags"),
                "with-data".into(),
                format!("tags lie with the data only when direct-mapped; ways is {}", self.ways),
                "write ways = 1, or tags = \"sram\"".into(),
            );
        }
        if !self.page.bytes().is_power_of_two() || self.page.bytes() < 64 {
            problems.add(
                "impossible-value",
                format!("{path}.page"),
                self.page.to_string(),
                "a page is a power of two of at least 64B".into(),
                "write 4KiB".into(),
            );
            return;
        }
        let set = self.page.bytes().saturating_mul(u64::from(self.ways));
        if set == 0 || self.capacity.bytes() < set || !self.capacity.bytes().is_multiple_of(set) {
            problems.add(
                "contradiction",
                format!("{path}.capacity"),
                self.capacity.to_string(),
                format!("the capacity is not a whole number of sets of {set} bytes"),
                "write a multiple of page × ways".into(),
            );
        }
    }
}

impl StorageSpec {
    /// Collects every semantic mistake below `path`.
    pub fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "dram_capacity", self.dram_capacity, Size::from_bytes(1 << 20));
        problems.at_least(path, "host_queue_depth", self.host_queue_depth, 1);
        problems.at_least(path, "swap_cluster_pages", self.swap_cluster_pages, 1);
        for (name, ratio) in [
            ("dirty_ratio", self.dirty_ratio),
            ("dirty_background_ratio", self.dirty_background_ratio),
        ] {
            if !(0.0..=1.0).contains(&ratio) {
                problems.add(
                    "impossible-value",
                    format!("{path}.{name}"),
                    ratio.to_string(),
                    "a share of DRAM lies between 0 and 1".into(),
                    "write 0.2".into(),
                );
            }
        }
        if !self.swap_cluster_pages.is_power_of_two() {
            problems.add(
                "impossible-value",
                format!("{path}.swap_cluster_pages"),
                self.swap_cluster_pages.to_string(),
                "the kernel reads swap in clusters of a power of two".into(),
                "write 8".into(),
            );
        }
    }
}
