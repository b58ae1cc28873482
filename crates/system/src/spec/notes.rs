//! What of a right description has no effect, for readers of its results.

use super::SystemSpec;
use serde::Serialize;
use tierscope_model::organization::{InitialContent, PrefetcherKind};
use tierscope_model::os::file_system::Barrier;
use tierscope_model::replacement::PolicyKind;
use tierscope_units::Size;

/// `hybrid.prefetch_streams` of every preset, whether or not streams are followed.
const USUAL_STREAMS: u32 = 8;

impl SystemSpec {
    /// A remark for each value that changes nothing in this machine, whose description has been checked.
    pub fn remarks(&self) -> Vec<String> {
        let buffers = self.build_organization().is_some_and(|it| it.takes_control());
        self.without_effect(buffers).into_iter().chain(self.too_small_inclusive()).collect()
    }

    /// Inclusive levels that cannot hold all that the levels before them can: lines leave these early. Of levels that
    /// are not inclusive each may hold lines of its own.
    fn too_small_inclusive(&self) -> Vec<String> {
        let Some(processor) = &self.processor else { return Vec::new() };
        let (mut covered_bytes, mut shared) = (0u64, false);
        let mut told = Vec::new();
        for cache in &processor.caches {
            if cache.shared && !shared {
                covered_bytes = covered_bytes.saturating_mul(u64::from(processor.cores));
                shared = true;
            }
            let (name, bytes) = (&cache.name, cache.capacity.bytes());
            if cache.inclusive && bytes < covered_bytes {
                told.push(format!(
                    "processor.caches.{name}.inclusive: with {} it cannot hold the {} that the levels before it \
                     can hold in all cores, which lose lines to it early",
                    cache.capacity,
                    Size::from_bytes(covered_bytes)
                ));
            }
            covered_bytes =
                if cache.inclusive { bytes } else { covered_bytes.saturating_add(bytes) };
        }
        told
    }

    /// A remark for each value that changes nothing here. `buffers` says that the store buffers writes.
    pub(crate) fn without_effect(&self, buffers: bool) -> Vec<String> {
        let barrier = self.barrier_without_effect().filter(|_| !buffers);
        let tags =
            self.tag_cache_without_effect().into_iter().chain(self.tag_latency_without_effect());
        let of_files = barrier.into_iter().chain(self.discards_without_effect(buffers));
        let of_cache = self.prefetch_without_effect().into_iter();
        let of_cache = of_cache.chain(self.replacement_without_effect());
        let of_rest = self.partition_without_effect().into_iter();
        let of_rest = of_rest.chain(self.capacitors_without_effect());
        of_files.chain(tags).chain(of_cache).chain(of_rest).collect()
    }

    /// What is said of prefetching where nothing is prefetched, and of streams where none are followed.
    fn prefetch_without_effect(&self) -> Vec<String> {
        let Some(hybrid) = &self.hybrid else { return Vec::new() };
        let (kind, pages) = (hybrid.prefetcher, hybrid.prefetch_pages);
        let mut told = Vec::new();
        if pages == 0 && kind != PrefetcherKind::Sequential {
            told.push(format!(
                "hybrid.prefetcher, {}, has no effect: hybrid.prefetch_pages is 0, so that nothing is prefetched",
                word(kind)
            ));
        } else if pages > 0 && hybrid.fills == 1 {
            told.push(format!(
                "hybrid.prefetch_pages, {pages}, has no effect: the one fill buffer (hybrid.fills) is demand's, so \
                 that nothing is prefetched"
            ));
        }
        let follows = [PrefetcherKind::Streams, PrefetcherKind::Stride].contains(&kind);
        if !follows && hybrid.prefetch_streams != USUAL_STREAMS {
            told.push(format!(
                "hybrid.prefetch_streams, {}, has no effect: hybrid.prefetcher is {}, which follows no streams",
                hybrid.prefetch_streams,
                word(kind)
            ));
        }
        told
    }

    /// An order of replacement where a set has one way, and unrelated pages at the start that go first in any case.
    fn replacement_without_effect(&self) -> Vec<String> {
        let Some(cache) = self.hybrid.as_ref().map(|hybrid| &hybrid.cache) else {
            return Vec::new();
        };
        let mut told = Vec::new();
        if cache.ways == 1 && cache.replacement != PolicyKind::Lru {
            told.push(format!(
                "hybrid.cache.replacement, {}, has no effect: a set has one way (hybrid.cache.ways)",
                word(cache.replacement)
            ));
        }
        let goes_first = [
            PolicyKind::Lru,
            PolicyKind::Fifo,
            PolicyKind::Plru,
            PolicyKind::Clock,
            PolicyKind::Srrip,
        ];
        let first = cache.ways == 1 || goes_first.contains(&cache.replacement);
        if cache.initial == InitialContent::Prefilled && first {
            told.push(
                "hybrid.cache.initial, prefilled, has no effect: unrelated clean pages go first, as empty frames do"
                    .into(),
            );
        }
        told
    }

    fn capacitors_without_effect(&self) -> Option<String> {
        let buffer = &self.ssd.as_ref()?.buffer;
        (buffer.capacitors && !buffer.write_back).then(|| {
            "ssd.buffer.capacitors has no effect: the buffer writes through (ssd.buffer.write_back), and holds \
             nothing that power could take"
                .into()
        })
    }

    fn discards_without_effect(&self, buffers: bool) -> Vec<String> {
        let of_storage = self.paging().zip(self.stores().first().copied());
        let Some(((paging, _), (store, _))) = of_storage.filter(|_| !self.knows_trims(buffers))
        else {
            return Vec::new();
        };
        let of_files = paging.file_system.as_ref().is_some_and(|system| system.discard);
        let keys = [("swap_discard", paging.swap_discard), ("file_system.discard", of_files)];
        let told =
            |key| format!("storage.{key} has no effect: the store ([{store}]) knows no trims");
        keys.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| told(key)).collect()
    }

    fn barrier_without_effect(&self) -> Option<String> {
        let (paging, _) = self.paging()?;
        let system = paging.file_system.as_ref()?;
        let (key, _) = *self.stores().first()?;
        (system.barrier != Barrier::None).then(|| {
            format!(
                "storage.file_system.barrier has no effect: the store ([{key}]) has no buffer of writes that \
                 it could be asked to flush"
            )
        })
    }

    fn partition_without_effect(&self) -> Option<String> {
        let processor = self.processor.as_ref()?;
        (processor.partitioned && processor.threads_per_core == 1).then(|| {
            "processor.partitioned has no effect: a core has one hardware thread \
             (processor.threads_per_core), which has all of it"
                .into()
        })
    }

    fn tag_cache_without_effect(&self) -> Option<String> {
        let hybrid = self.hybrid.as_ref()?;
        let kept = hybrid.cache.tag_cache.as_ref()?.capacity;
        let (_, store) = *self.stores().first()?;
        let all = Size::from_bytes(hybrid.tag_bytes(store.capacity(), self.line()?)?);
        (kept > all).then(|| {
            format!(
                "of hybrid.cache.tag_cache.capacity, {kept}, the tags of the whole cache fill {all}: what is \
                 above that has no effect"
            )
        })
    }

    fn tag_latency_without_effect(&self) -> Option<String> {
        let cache = &self.hybrid.as_ref()?.cache;
        let unused = cache.tags.come_with_data() && cache.tag_latency.picoseconds() > 0;
        unused.then(|| {
            format!(
                "hybrid.cache.tag_latency, {}, has no effect: tags that come with the data are looked up nowhere \
                 else",
                cache.tag_latency
            )
        })
    }
}

/// A choice as a description says it.
fn word(choice: impl Serialize) -> String {
    let json = serde_json::to_value(choice).unwrap_or_default();
    json.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use crate::spec::{list, load};

    fn told(preset: &str, sets: &[(&str, &str)], buffers: bool) -> Vec<String> {
        let sets: Vec<_> = sets.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        load(preset, &sets).unwrap().spec.without_effect(buffers)
    }

    #[test]
    fn an_inclusive_cache_that_is_smaller_than_what_it_covers_is_told() {
        let told = |capacity: &str, cores: &str| {
            let sets = [
                ("processor.caches.L3.capacity", capacity),
                ("processor.caches.L3.inclusive", "true"),
                ("processor.cores", cores),
            ];
            let sets: Vec<_> = sets.map(|(p, v)| (p.to_string(), v.to_string())).into();
            load("oracle/quick", &sets).unwrap().spec.remarks()
        };
        assert!(told("8MiB", "2").is_empty());
        let small = told("512KiB", "8");
        assert!(small.len() == 1 && small[0].contains("L3.inclusive: with 512KiB"), "{small:?}");
    }

    #[test]
    fn what_is_said_of_a_dram_cache_or_a_drive_and_changes_nothing_is_told() {
        type Sets<'a> = &'a [(&'a str, &'a str)];
        let tad = ("hybrid.cache.ways", "1");
        for (preset, sets, key) in [
            ("hybrid/quick", &[("hybrid.fills", "1")] as Sets, "hybrid.prefetch_pages, 16,"),
            ("hybrid/quick", &[("hybrid.prefetch_streams", "4")], "hybrid.prefetch_streams, 4,"),
            (
                "hybrid/quick",
                &[("hybrid.prefetcher", "streams"), ("hybrid.prefetch_pages", "0")],
                "hybrid.prefetcher, streams,",
            ),
            ("hybrid/quick", &[tad, ("hybrid.cache.replacement", "fifo")], "replacement, fifo,"),
            ("hybrid/quick", &[("hybrid.cache.initial", "prefilled")], "initial, prefilled,"),
            ("hams-te/quick", &[("ssd.buffer.capacitors", "true")], "ssd.buffer.capacitors"),
        ] {
            let told = told(preset, sets, true);
            assert!(told.len() == 1 && told[0].contains(key), "{sets:?}: {told:?}");
        }
        let streams = ("hybrid.prefetcher", "streams");
        for (preset, sets) in [
            ("hybrid/quick", &[] as Sets),
            ("hybrid/quick", &[("hybrid.prefetch_pages", "0"), ("hybrid.fills", "1")]),
            ("hybrid/quick", &[streams, ("hybrid.prefetch_streams", "4")]),
            ("hybrid/quick", &[tad]),
            (
                "hybrid/quick",
                &[("hybrid.cache.initial", "prefilled"), ("hybrid.cache.replacement", "brrip")],
            ),
            ("hams-te/quick", &[]),
            ("hams-le/quick", &[]),
            ("ull-buff/quick", &[]),
            ("nvdimm-c/quick", &[]),
        ] {
            assert!(told(preset, sets, true).is_empty(), "{preset} {sets:?}");
        }
    }

    #[test]
    fn a_barrier_before_a_store_that_keeps_what_it_answers_is_told() {
        let system = |barrier: &str| {
            format!(
                "{{ kind = \"ext4\", journal = \"ordered\", commit_interval = \"5s\", journal_capacity = \
                 \"4MiB\", barrier = \"{barrier}\", timestamp_interval = \"4ms\" }}"
            )
        };
        for (barrier, buffers, count) in [
            ("flush", false, 1),
            ("force-unit-access", false, 1),
            ("none", false, 0),
            ("flush", true, 0),
        ] {
            let told = told("storage/quick", &[("storage.file_system", &system(barrier))], buffers);
            assert_eq!(told.len(), count, "{barrier}, {buffers}: {told:?}");
        }
        // Presets have barriers where their drives have buffers, and nowhere else.
        for (name, _) in list() {
            let remarks = load(name, &[]).unwrap().spec.remarks();
            assert!(!remarks.iter().any(|it| it.contains("barrier")), "{name}: {remarks:?}");
        }
    }

    #[test]
    fn discards_for_a_store_that_knows_no_trims_are_told() {
        let table = "{ kind = \"ext4\", journal = \"ordered\", commit_interval = \"5s\", journal_capacity = \
                     \"4MiB\", barrier = \"none\", timestamp_interval = \"4ms\", discard = true }";
        let sets = [("storage.file_system", table), ("storage.swap_discard", "true")];
        for (preset, told) in
            [("storage/quick", true), ("storage/disk-7200", true), ("storage/970-pro", false)]
        {
            let sets = sets.map(|(key, value)| (key.to_owned(), value.to_owned()));
            let remarks = load(preset, &sets).unwrap().spec.remarks();
            let count = remarks.iter().filter(|it| it.contains("discard has no effect")).count();
            assert_eq!(count, if told { 2 } else { 0 }, "{preset}: {remarks:?}");
        }
    }

    #[test]
    fn a_latency_of_tags_that_come_with_the_data_is_told() {
        for (preset, latency, count) in [
            ("hybrid/alloy/quick", "5ns", 1),
            ("hybrid/alloy/quick", "0s", 0),
            ("hybrid/quick", "5ns", 0),
        ] {
            let told = told(preset, &[("hybrid.cache.tag_latency", latency)], false);
            assert_eq!(told.len(), count, "{preset}, {latency}: {told:?}");
        }
        for preset in ["hybrid/alloy", "hybrid/alloy/quick"] {
            assert!(load(preset, &[]).unwrap().spec.remarks().is_empty(), "{preset}");
        }
    }

    #[test]
    fn a_tag_cache_larger_than_all_tags_is_told() {
        let with = |capacity: &str| {
            let keys = [
                ("hybrid.cache.tags", "dram"),
                ("hybrid.cache.tag_cache.capacity", capacity),
                ("hybrid.cache.tag_cache.ways", "8"),
            ];
            told("hybrid/quick", &keys, false)
        };
        let large = with("1GiB");
        assert!(large.len() == 1 && large[0].contains("fill "), "{large:?}");
        let all = large[0].split("fill ").nth(1).unwrap().split(':').next().unwrap();
        assert!(with(all).is_empty(), "as large as all tags");
        assert!(with("64KiB").is_empty());
        assert!(told("hybrid/quick", &[], false).is_empty());
    }
}
