//! What a user says of a memory behind a link, and of the promotion of its pages.

use super::Tiered;
use crate::medium::dram::Dram;
use crate::organization::{
    DramSize, Organization, OrganizationDescription, Surroundings, check_number_of_sets, whole,
};
use serde::{Deserialize, Serialize};
use tierscope_units::{Duration, Problems, Size};

/// `tiered`: main memory is the store, line by line; pages of it may be promoted to DRAM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TieredSpec {
    /// Lines that the host has under way at once, in the store and in DRAM.
    pub host_queue_depth: u32,
    /// Time of the host for each line that it reads from the store, besides link and store.
    pub read_latency: Duration,
    /// The same for each line that it writes.
    pub write_latency: Duration,
    /// Reads that the device tells to take long, so that a core switches to another thread; without it the core waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_reads: Option<LongReadsSpec>,
    /// How pages are promoted to DRAM; without it there is no DRAM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promotion: Option<PromotionSpec>,
}

/// Reads that the device tells to take long (SkyByte's coordinated context switch).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LongReadsSpec {
    /// The wait for flash, as the device estimates it, above which a read takes long.
    pub above: Duration,
    /// Time from the request of a line to when its host knows: the protocol both ways, and the device's look-up.
    pub latency: Duration,
}

/// Promotion of pages by their number of accesses (FlatFlash's adaptive threshold).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromotionSpec {
    /// DRAM that holds promoted pages.
    pub capacity: Size,
    /// Frames of DRAM among which the page that was used least recently leaves for another, 1 to 64.
    pub ways: u32,
    /// Page that is promoted: up to 64 lines, whole pages of the operating system.
    pub page: Size,
    /// Accesses after which a page is promoted, at first and at most.
    pub most_threshold: u32,
    /// Share of accesses, those that promoted pages had had, up to which the threshold rises.
    pub low_ratio: f64,
    /// The share from which each promotion lowers it.
    pub high_ratio: f64,
    /// Accesses to the store after which the threshold and the share begin anew.
    pub epoch: u32,
    /// Pages of the store whose accesses are counted, those that were used last: up to 64, or a multiple.
    pub counted_pages: u64,
    /// Pages on their way to DRAM at once.
    pub lookaside_entries: u32,
    /// Time to change a page's entry in the page table and in the TLBs.
    pub mapping_latency: Duration,
}

/// Lines of a page that is promoted: there is a bit for each.
const MOST_LINES: u64 = 64;
const MOST_WAYS: u32 = 64;
const MOST_LOOKASIDE: u32 = 4096;
const MOST_QUEUE: u32 = 4096;
/// A table of counts in which each set has this many entries.
const COUNT_WAYS: u64 = 64;
/// Counts of all pages of a TiB.
const MOST_COUNTED: u64 = 1 << 28;

impl OrganizationDescription for TieredSpec {
    fn name(&self) -> &'static str {
        "tiered"
    }

    fn needs_dram(&self) -> bool {
        self.promotion.is_some()
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "host_queue_depth", self.host_queue_depth, 1);
        problems.at_most(path, "host_queue_depth", self.host_queue_depth, MOST_QUEUE);
        if let Some(promotion) = &self.promotion {
            promotion.check(&format!("{path}.promotion"), problems);
        }
    }

    fn check_with(&self, path: &str, machine: &Surroundings<'_>, problems: &mut Problems) {
        if let Some((store, device)) = machine.store.filter(|_| self.long_reads.is_some())
            && !device.tells_of_waits()
        {
            problems.add(
                "contradiction",
                format!("{path}.long_reads"),
                store.to_owned(),
                "only a drive of flash ([ssd]) by itself, which keeps what was read, tells that a read has to \
                 wait"
                    .into(),
                format!(
                    "remove [{path}.long_reads], or take a machine of [ssd] with buffer.read_cache and without \
                     raid"
                ),
            );
        }
        let line = machine.line.unwrap_or(Size::from_bytes(1));
        match &self.promotion {
            Some(promotion) => {
                promotion.check_with(&format!("{path}.promotion"), machine, problems);
                machine.check_store(promotion.page, "pages that are promoted", problems);
            }
            None => machine.check_store(line, "lines of the on-chip caches", problems),
        }
    }

    fn dram_size(&self) -> Option<DramSize> {
        let promotion = self.promotion.as_ref()?;
        let part = Size::from_bytes(promotion.page.bytes() * u64::from(promotion.ways));
        Some(DramSize { key: "promotion.capacity", capacity: promotion.capacity, part })
    }

    fn build(&self, machine: &Surroundings<'_>) -> Option<Box<dyn Organization>> {
        let store_bytes = machine.store?.1.capacity().bytes();
        let store = machine.build_store()?;
        let line_bytes = machine.line?.bytes();
        let dram = match &self.promotion {
            Some(promotion) => {
                Some(Dram::new(machine.dram?, promotion.capacity.bytes(), line_bytes))
            }
            None => None,
        };
        let line = line_bytes as u32;
        Some(Box::new(Tiered::new(self, store_bytes, line, dram, store, machine.check_data)))
    }
}

impl PromotionSpec {
    fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "ways", self.ways, 1);
        problems.at_most(path, "ways", self.ways, MOST_WAYS);
        problems.at_least(path, "most_threshold", self.most_threshold, 1);
        problems.at_least(path, "epoch", self.epoch, 1);
        problems.at_least(path, "counted_pages", self.counted_pages, 1);
        problems.at_most(path, "counted_pages", self.counted_pages, MOST_COUNTED);
        problems.at_least(path, "lookaside_entries", self.lookaside_entries, 1);
        problems.at_most(path, "lookaside_entries", self.lookaside_entries, MOST_LOOKASIDE);
        for (field, share) in [("low_ratio", self.low_ratio), ("high_ratio", self.high_ratio)] {
            if !(0.0..=1.0).contains(&share) {
                problems.add(
                    "impossible-value",
                    format!("{path}.{field}"),
                    share.to_string(),
                    "a share of accesses lies between 0 and 1".into(),
                    "write 0.25".into(),
                );
            }
        }
        if self.low_ratio > self.high_ratio {
            problems.add(
                "contradiction",
                format!("{path}.low_ratio"),
                self.low_ratio.to_string(),
                format!("it is more than high_ratio = {}", self.high_ratio),
                format!("write {} or less", self.high_ratio),
            );
        }
        if self.counted_pages > COUNT_WAYS && !self.counted_pages.is_multiple_of(COUNT_WAYS) {
            problems.add(
                "impossible-value",
                format!("{path}.counted_pages"),
                self.counted_pages.to_string(),
                format!("counts beyond {COUNT_WAYS} stand in sets of {COUNT_WAYS}"),
                format!("write a multiple of {COUNT_WAYS}"),
            );
        }
        self.check_pages(path, problems);
    }

    /// DRAM is whole sets of pages.
    fn check_pages(&self, path: &str, problems: &mut Problems) {
        if !self.page.bytes().is_power_of_two() {
            problems.add(
                "impossible-value",
                format!("{path}.page"),
                self.page.to_string(),
                "a page is a power of two".into(),
                "write 4KiB".into(),
            );
            return;
        }
        let set = Size::from_bytes(self.page.bytes().saturating_mul(u64::from(self.ways)));
        let odd = self.ways == 0 || self.capacity.bytes().is_multiple_of(set.bytes());
        if !odd || self.capacity.bytes() == 0 {
            let (ways, page) = (self.ways, self.page);
            problems.add(
                "contradiction",
                format!("{path}.capacity"),
                self.capacity.to_string(),
                format!("it is not a whole number of sets of {ways} pages of {page} ({path}.ways, {path}.page)"),
                format!("write a multiple of {set}"),
            );
        } else {
            let what = format!("sets of {} pages ({path}.ways)", self.ways);
            let key = format!("{path}.capacity");
            check_number_of_sets(&key, self.capacity, (&what, set), "more ways", problems);
        }
    }

    fn check_with(&self, path: &str, machine: &Surroundings<'_>, problems: &mut Problems) {
        machine.check_rows(&format!("{path}.capacity"), self.capacity, problems);
        let key = format!("{path}.page");
        if let Some(page) = machine.page() {
            whole(&key, self.page, "pages (os.page)", page, problems);
        }
        if let Some((store, device)) = machine.store {
            let what = format!("pages of the store ({store}.page)");
            whole(&key, self.page, &what, device.page(), problems);
            if device.capacity() < self.capacity {
                problems.add(
                    "contradiction",
                    format!("{store}.capacity"),
                    device.capacity().to_string(),
                    format!("the DRAM that its pages are promoted to has {}", self.capacity),
                    format!("write more, or a smaller {path}.capacity"),
                );
            }
        }
        let Some(line) = machine.line else { return };
        let most = Size::from_bytes(line.bytes().saturating_mul(MOST_LINES));
        if self.page < line || self.page > most {
            problems.add(
                "contradiction",
                key,
                self.page.to_string(),
                format!("a page that is promoted has 1 to {MOST_LINES} lines of {line}"),
                format!("write {line} to {most}"),
            );
        }
    }
}
