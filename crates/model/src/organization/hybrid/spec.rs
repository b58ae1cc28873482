//! What a user says of a hybrid.

use super::tag_cache::TagLayout;
use super::{FillPolicy, Hybrid, MissPredictorKind, PrefetcherKind, TadLayout};
use crate::device::DeviceDescription;
use crate::medium::dram::Dram;
use crate::organization::{
    DramSize, InitialContent, Organization, OrganizationDescription, Surroundings,
    check_number_of_sets, whole,
};
use crate::power::Saving;
use crate::replacement::PolicyKind;
use crate::request::LARGEST_PAGE;
use serde::{Deserialize, Serialize};
use tierscope_units::{Duration, Problems, Size};

/// `hybrid`: hardware manages DRAM as a cache of the store (\[HYB15\] §2.2).
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
    /// What is prefetched.
    pub prefetcher: PrefetcherKind,
    /// Pages, or sectors, that prefetching goes ahead; 0 for none. `best-offset` brings one at a time,
    /// however many this says.
    pub prefetch_pages: u32,
    /// Streams that `streams` and `stride` follow at most.
    pub prefetch_streams: u32,
    /// Whether the page that would go next is written back ahead of need where it is dirty: when a page
    /// has come into its set, and the write-back buffer is at most half full.
    pub eager_write_back: bool,
    /// Whether the requested line goes ahead of the rest of its page.
    pub critical_line_first: bool,
    /// Whether a sync of a file (fsync, fdatasync, msync, sync) has the whole cache flushed, and waits until the store
    /// has it, where the cache does not save itself. Without it such a call takes its path through the kernel only, as
    /// one on tmpfs does (`noop_fsync`, fs/libfs.c).
    pub flush_at_sync: bool,
}

/// Ways of a DRAM cache at most.
const MOST_WAYS: u32 = 64;
/// Sectors of a page at most.
const MOST_SECTORS: u64 = 64;

/// DRAM as a set-associative cache of pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DramCacheSpec {
    /// Capacity, of the data alone.
    pub capacity: Size,
    /// Associativity, 1 to 64.
    pub ways: u32,
    /// Page: the unit of tags, and of fills where it has no sectors.
    pub page: Size,
    /// Sector: the part of a page that comes and goes back by itself, a 64th of the page or more.
    /// Without it, pages come and go as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sector: Option<Size>,
    /// Which page of a set goes for a new one.
    pub replacement: PolicyKind,
    /// Where the tags are.
    pub tags: TagStore,
    /// How misses are guessed, where tags are with the data; the store is asked beside DRAM where one is
    /// expected (Qureshi & Loh, MICRO 2012).
    pub miss_predictor: MissPredictorKind,
    /// Which requests bring what they miss into DRAM. All but `misses` are of sectors, or pages without them, of a
    /// line of the on-chip caches.
    pub fill: FillPolicy,
    /// Time of a look-up in a tag store of SRAM, or in the tag cache; nothing where tags are with the
    /// data.
    pub tag_latency: Duration,
    /// The tags that are kept on chip where all lie in DRAM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag_cache: Option<TagCacheSpec>,
    /// What the cache holds at the start.
    pub initial: InitialContent,
}

/// Where a DRAM cache keeps its tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TagStore {
    /// In SRAM beside the controller.
    Sram,
    /// With the data, in the bits for error correction: tag and data come in one DRAM access, of the bytes
    /// of the data. Direct-mapped caches only.
    WithData,
    /// In front of each line of 64 bytes, eight bytes of the row that has the line (TAD, of an Alloy cache:
    /// Qureshi & Loh, MICRO 2012): tag and data come in one DRAM access, of one burst more. Direct-mapped
    /// caches of such lines only; `dram.mapping` ends in the column.
    Tad,
    /// In DRAM behind the data, those of a set together, with a tag cache on chip: a look-up that does not
    /// find them there reads them from DRAM first.
    Dram,
}

/// A cache of tags that lie in DRAM, LRU and written back (Meza et al., IEEE CAL 2012).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TagCacheSpec {
    /// Capacity. Its lines are those of the on-chip caches, or a set's tags where these are larger.
    pub capacity: Size,
    /// Associativity, 1 to 64.
    pub ways: u32,
}

impl TagStore {
    /// Whether a look-up is an access to DRAM that brings the data, too.
    pub fn come_with_data(self) -> bool {
        matches!(self, TagStore::WithData | TagStore::Tad)
    }

    /// As a description says it.
    fn word(self) -> &'static str {
        match self {
            TagStore::Sram => "sram",
            TagStore::WithData => "with-data",
            TagStore::Tad => "tad",
            TagStore::Dram => "dram",
        }
    }
}

impl TagCacheSpec {
    /// Sets of lines of so many bytes.
    pub(super) fn sets(&self, line_bytes: u32) -> u64 {
        self.capacity.bytes() / (u64::from(line_bytes) * u64::from(self.ways))
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "ways", self.ways, 1);
        problems.at_most(path, "ways", self.ways, MOST_WAYS);
        problems.at_most(path, "capacity", self.capacity, Size::from_bytes(1 << 32));
    }

    /// The capacity is whole sets of lines of so many bytes.
    fn check_sets(&self, path: &str, line_bytes: u32, problems: &mut Problems) {
        let set = Size::from_bytes(u64::from(line_bytes) * u64::from(self.ways));
        if self.ways == 0
            || self.sets(line_bytes) > 0 && self.capacity.bytes().is_multiple_of(set.bytes())
        {
            return;
        }
        problems.add(
            "contradiction",
            format!("{path}.capacity"),
            self.capacity.to_string(),
            format!("it is not a whole number of sets of {} lines of tags of {line_bytes} B ({path}.ways)", self.ways),
            format!("write a multiple of {set}"),
        );
    }
}

impl OrganizationDescription for HybridSpec {
    fn name(&self) -> &'static str {
        "hybrid"
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "queue_depth", self.queue_depth, 1);
        problems.at_least(path, "fills", self.fills, 1);
        problems.at_least(path, "write_back_buffer_pages", self.write_back_buffer_pages, 1);
        problems.at_most(path, "prefetch_pages", self.prefetch_pages, 4096);
        problems.at_least(path, "prefetch_streams", self.prefetch_streams, 1);
        problems.at_most(path, "prefetch_streams", self.prefetch_streams, 256);
        self.cache.check(&format!("{path}.cache"), problems);
    }

    fn check_with(&self, path: &str, machine: &Surroundings<'_>, problems: &mut Problems) {
        if let Some((store, device)) = machine.store {
            self.cache.check_with(&format!("{path}.cache"), store, device, machine, problems);
            let store_bytes = device.capacity().bytes();
            if let Some(kept) = &self.cache.tag_cache
                && let Some(line) = machine.line.filter(|_| problems.is_empty())
                && let Some(layout) = TagLayout::new(self, store_bytes, line.bytes() as u32)
            {
                kept.check_sets(&format!("{path}.cache.tag_cache"), layout.line_bytes, problems);
            }
        }
    }

    fn dram_size(&self) -> Option<DramSize> {
        let set_bytes = self.cache.page.bytes() * u64::from(self.cache.ways);
        let part = Size::from_bytes(set_bytes);
        Some(DramSize { key: "cache.capacity", capacity: self.cache.capacity, part })
    }

    fn build(&self, machine: &Surroundings<'_>) -> Option<Box<dyn Organization>> {
        let store_bytes = machine.store?.1.capacity().bytes();
        let store = machine.build_store()?;
        let line_bytes = machine.line?.bytes();
        let tags = TagLayout::new(self, store_bytes, line_bytes as u32);
        let tads = TadLayout::of(&self.cache, machine.dram?);
        let data_bytes = self.cache.capacity.bytes();
        let dram = match tads {
            Some(tads) => Dram::new(machine.dram?, tads.dram_bytes(data_bytes), tads.burst_bytes()),
            None => {
                let dram_bytes = data_bytes + tags.map_or(0, |tags| tags.bytes);
                Dram::new(machine.dram?, dram_bytes, line_bytes)
            }
        };
        let (line, check_data) = (line_bytes as u32, machine.check_data);
        let hybrid = Hybrid::new(self, store_bytes, line, dram, store, check_data);
        // The modules that hold the cache; tags that lie in DRAM besides are in the last.
        let saving = Saving::new(machine.dram?.backup.as_ref(), data_bytes);
        Some(Box::new(hybrid.with_tads(tads).with_saving(saving)))
    }
}

impl HybridSpec {
    /// Bytes of all tags, where they lie in DRAM; of a description that has been checked.
    pub fn tag_bytes(&self, store: Size, line: Size) -> Option<u64> {
        TagLayout::new(self, store.bytes(), line.bytes() as u32).map(|layout| layout.bytes)
    }
}

impl DramCacheSpec {
    /// Bytes that come at once: a sector, or a page.
    pub(super) fn sector(&self) -> u64 {
        self.sector.unwrap_or(self.page).bytes()
    }

    /// A sector is a part of a page, and tags beside the data are of whole pages.
    fn check_sector(&self, path: &str, problems: &mut Problems) {
        let Some(sector) = self.sector else { return };
        let least = Size::from_bytes((self.page.bytes() / MOST_SECTORS).max(64));
        if !sector.bytes().is_power_of_two() || sector < least || sector > self.page {
            problems.add(
                "contradiction",
                format!("{path}.sector"),
                sector.to_string(),
                format!(
                    "a sector is a power of two from {least} to the page, {} ({path}.page): a page has \
                     up to {MOST_SECTORS}, each of at least 64B",
                    self.page
                ),
                format!("write \"{least}\", or leave it out"),
            );
        } else if self.tags.come_with_data() && sector < self.page {
            problems.add(
                "contradiction",
                format!("{path}.sector"),
                sector.to_string(),
                format!("tags lie with the data ({path}.tags), which come by whole pages"),
                format!("leave it out, write a {path}.page of {sector}, or tags = \"sram\""),
            );
        }
    }

    /// Tags in DRAM have a cache on chip, and no others do.
    fn check_tag_cache(&self, path: &str, problems: &mut Problems) {
        let key = format!("{path}.tag_cache");
        match &self.tag_cache {
            Some(kept) if self.tags == TagStore::Dram => kept.check(&key, problems),
            Some(kept) => problems.add(
                "contradiction",
                format!("{key}.capacity"),
                kept.capacity.to_string(),
                format!("only tags that lie in DRAM ({path}.tags) have a cache"),
                "leave it out, or write tags = \"dram\"".into(),
            ),
            None if self.tags == TagStore::Dram => problems.add(
                "contradiction",
                format!("{path}.tags"),
                "dram".into(),
                format!(
                    "tags that lie in DRAM have a cache on chip ({key}), which is not described"
                ),
                format!("write {key}.capacity = \"64KiB\" and {key}.ways = 8"),
            ),
            None => {}
        }
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "ways", self.ways, 1);
        problems.at_most(path, "ways", self.ways, MOST_WAYS);
        problems.at_most(path, "page", self.page, LARGEST_PAGE);
        if self.tags.come_with_data() && self.ways > 1 {
            problems.add(
                "contradiction",
                format!("{path}.tags"),
                self.tags.word().into(),
                format!("tags lie with the data only when direct-mapped; ways is {}", self.ways),
                "write ways = 1, or tags = \"sram\"".into(),
            );
        }
        self.check_tag_cache(path, problems);
        if !self.tags.come_with_data() && self.miss_predictor != MissPredictorKind::None {
            let place = if self.tags == TagStore::Sram { "in SRAM" } else { "that are looked up" };
            problems.add(
                "contradiction",
                format!("{path}.miss_predictor"),
                self.miss_predictor.word().into(),
                format!("tags {place} ({path}.tags) say what misses before anything is asked"),
                "write \"none\", or tags = \"with-data\" or \"tad\" and ways = 1".into(),
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
        self.check_tad(path, problems);
        self.check_sector(path, problems);
        if (1..=MOST_WAYS).contains(&self.ways) {
            self.check_sets(path, problems);
        }
    }

    /// The capacity is whole sets. Of the two the odd one is named: ways that are no power of two,
    /// else the capacity.
    fn check_sets(&self, path: &str, problems: &mut Problems) {
        let (page, ways) = (self.page, u64::from(self.ways));
        let set = Size::from_bytes(page.bytes().saturating_mul(ways));
        let capacity = self.capacity;
        if capacity >= set && capacity.bytes().is_multiple_of(set.bytes()) {
            let what = format!("sets of {ways} pages ({path}.ways, {path}.page)");
            let key = format!("{path}.capacity");
            check_number_of_sets(
                &key,
                capacity,
                (&what, set),
                "more ways, or larger pages",
                problems,
            );
            return;
        }
        let pages = capacity.bytes() / page.bytes();
        if pages > 0 && capacity.bytes().is_multiple_of(page.bytes()) && !ways.is_power_of_two() {
            let divides = |ways: &u64| pages.is_multiple_of(*ways);
            let below = (1..ways).rev().find(divides);
            let above = (ways + 1..=u64::from(MOST_WAYS)).find(divides);
            let near: Vec<_> = below.iter().chain(&above).map(u64::to_string).collect();
            problems.add(
                "contradiction",
                format!("{path}.ways"),
                self.ways.to_string(),
                format!(
                    "{capacity} ({path}.capacity) do not divide into sets of {ways} pages of {page}"
                ),
                format!("write {}, or a capacity that is a multiple of {set}", near.join(" or ")),
            );
            return;
        }
        problems.add(
            "contradiction",
            format!("{path}.capacity"),
            capacity.to_string(),
            format!("it is not a whole number of sets of {ways} pages of {page} ({path}.ways, {path}.page)"),
            format!("write a multiple of {set}"),
        );
    }

    fn check_with(
        &self,
        path: &str,
        store: &str,
        device: &dyn DeviceDescription,
        machine: &Surroundings<'_>,
        problems: &mut Problems,
    ) {
        machine.check_rows(&format!("{path}.capacity"), self.capacity, problems);
        if let Some(dram) = machine.dram.filter(|_| self.tags == TagStore::Tad) {
            TadLayout::check(path, dram, problems);
        }
        let what = format!("pages of the store ({store}.page)");
        whole(&format!("{path}.page"), self.page, &what, device.page(), problems);
        machine.check_store(self.page, &format!("pages of the cache ({path}.page)"), problems);
        if let Some(line) = machine.line.filter(|line| self.page < *line) {
            problems.add(
                "contradiction",
                format!("{path}.page"),
                self.page.to_string(),
                format!("a line of the on-chip caches has {line}"),
                format!("write at least \"{line}\""),
            );
        }
        if let Some(sector) = self.sector
            && let Some(line) =
                machine.line.filter(|line| (64..line.bytes()).contains(&sector.bytes()))
        {
            problems.add(
                "contradiction",
                format!("{path}.sector"),
                sector.to_string(),
                format!("a line of the on-chip caches has {line}"),
                format!("write at least \"{line}\""),
            );
        }
        let sector = Size::from_bytes(self.sector());
        if self.fill != FillPolicy::Misses
            && let Some(line) = machine.line.filter(|line| *line != sector)
        {
            let key = if self.tags.come_with_data() { "page" } else { "sector" };
            problems.add(
                "contradiction",
                format!("{path}.fill"),
                self.fill.word().into(),
                format!(
                    "lines that pass the cache by, or fill it by themselves, have {line}, and what comes at \
                     once {sector} ({path}.{key})"
                ),
                format!("write \"misses\", or {path}.{key} = \"{line}\""),
            );
        }
        if device.capacity() < self.capacity {
            problems.add(
                "contradiction",
                format!("{store}.capacity"),
                device.capacity().to_string(),
                format!("the DRAM cache in front of it has {}", self.capacity),
                format!("write more, or a smaller {path}.capacity"),
            );
        }
    }
}
