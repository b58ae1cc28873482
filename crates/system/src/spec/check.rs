//! Semantic checks: each part alone, and contradictions between parts.

use super::SystemSpec;
use tierscope_model::device::StoreSpec;
use tierscope_model::organization::{HybridSpec, StorageSpec};
use tierscope_units::{Problems, Size};

impl SystemSpec {
    pub(super) fn check_parts(&self, problems: &mut Problems) {
        self.check_name(problems);
        // TOML holds integers up to 2^63 − 1, and a resolved machine must print as TOML.
        problems.at_most("", "seed", self.seed, i64::MAX as u64);
        self.processor.check("processor", problems);
        self.os.check("os", problems);
        self.dram.check("dram", problems);
        if let Some(store) = &self.store {
            store.check("store", problems);
        }
        if let Some(link) = &self.link {
            link.check("link", problems);
        }
        if let Some(oracle) = &self.oracle {
            oracle.check("oracle", problems);
        }
        if let Some(hybrid) = &self.hybrid {
            hybrid.check("hybrid", problems);
        }
        if let Some(storage) = &self.storage {
            storage.check("storage", problems);
        }
    }

    pub(super) fn check_together(&self, problems: &mut Problems) {
        self.check_organization(problems);
        self.check_cache_names(problems);
        self.check_burst(problems);
        if let Some(oracle) = &self.oracle {
            self.check_memory("oracle.capacity", oracle.capacity, problems);
        }
        if let (Some(hybrid), Some(store)) = (&self.hybrid, &self.store) {
            self.check_hybrid(hybrid, store, problems);
        }
        if let Some(storage) = &self.storage {
            self.check_storage(storage, problems);
        }
    }

    /// Names are keys of results, parts of file names and items of `-s` lists.
    fn check_name(&self, problems: &mut Problems) {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_./+@".contains(c);
        if self.name.is_empty() || !self.name.chars().all(allowed) {
            problems.add(
                "impossible-value",
                "name".into(),
                format!("\"{}\"", self.name.escape_debug()),
                "a name is made of letters, digits and - _ . / + @".into(),
                "write a name such as \"my-machine\"".into(),
            );
        }
    }

    fn check_organization(&self, problems: &mut Problems) {
        let all = self.organizations();
        match all.as_slice() {
            [] => problems.add(
                "missing-part",
                "system".into(),
                String::new(),
                "it has no organization".into(),
                "add one of the tables [oracle], [hybrid], [storage]".into(),
            ),
            [_] => {}
            several => {
                for one in several {
                    let others = several.iter().filter(|other| *other != one);
                    let others: Vec<_> = others.map(|other| format!("[{other}]")).collect();
                    problems.add(
                        "contradiction",
                        (*one).into(),
                        String::new(),
                        format!("the machine has {} too, and one organization", others.join(", ")),
                        "keep one of the tables, or choose another base".into(),
                    );
                }
            }
        }
        for needs in all.iter().filter(|name| **name != "oracle") {
            for (part, present) in [("store", self.store.is_some()), ("link", self.link.is_some())]
            {
                if !present {
                    problems.add(
                        "missing-part",
                        part.into(),
                        String::new(),
                        format!("`{needs}` needs a {part}"),
                        format!("add a [{part}] table, or start from base = \"{needs}\""),
                    );
                }
            }
        }
    }

    /// Caches are addressed by their names, in results and in `--set`.
    fn check_cache_names(&self, problems: &mut Problems) {
        for (level, cache) in self.processor.caches.iter().enumerate() {
            let earlier = &self.processor.caches[..level];
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            let (reason, mend) = if cache.name.is_empty() || !cache.name.chars().all(plain) {
                ("a cache's name is made of letters, digits, - and _", "write \"L1D\"")
            } else if earlier.iter().any(|other| other.name == cache.name) {
                ("another level has that name", "give each level a name of its own")
            } else {
                continue;
            };
            problems.add(
                "contradiction",
                format!("processor.caches[{level}].name"),
                format!("\"{}\"", cache.name.escape_debug()),
                reason.into(),
                mend.into(),
            );
        }
    }

    /// A burst moves one line, and a row holds whole lines.
    fn check_burst(&self, problems: &mut Problems) {
        let dram = &self.dram;
        let line = self.processor.caches.first().map_or(0, |cache| cache.line.bytes());
        if !line.is_power_of_two() || !dram.bus_bits.is_multiple_of(8) {
            return; // Said of the part already.
        }
        let burst = u64::from(dram.bus_bits / 8) * u64::from(dram.burst_length);
        if burst != line {
            let length = line * 8 / u64::from(dram.bus_bits.max(8));
            problems.add(
                "contradiction",
                "dram.burst_length".into(),
                dram.burst_length.to_string(),
                format!(
                    "a burst over {} bits moves {burst} bytes, and a line has {line}",
                    dram.bus_bits
                ),
                format!("write {}, or change the line or the bus", length.max(1)),
            );
        }
        if dram.row.bytes() < line {
            problems.add(
                "contradiction",
                "dram.row".into(),
                dram.row.to_string(),
                format!("a row must hold a line of {line} bytes"),
                format!("write at least \"{}\"", Size::from_bytes(line)),
            );
        }
    }

    /// What the operating system sees as memory is whole pages, and DRAM has a row in each bank.
    fn check_memory(&self, path: &str, capacity: Size, problems: &mut Problems) {
        whole(path, capacity, "pages (os.page)", self.os.page, problems);
        self.check_rows(path, capacity, problems);
    }

    fn check_rows(&self, path: &str, capacity: Size, problems: &mut Problems) {
        let dram = &self.dram;
        let banks = [dram.ranks, dram.banks]
            .iter()
            .fold(u64::from(dram.channels), |all, n| all.saturating_mul(u64::from(*n)));
        let least = banks.saturating_mul(dram.row.bytes());
        if capacity.bytes() < least {
            problems.add(
                "contradiction",
                path.into(),
                capacity.to_string(),
                format!("{banks} banks with a row of {} need more", dram.row),
                format!("write at least \"{}\", or fewer channels", Size::from_bytes(least)),
            );
        }
    }

    fn check_hybrid(&self, hybrid: &HybridSpec, store: &StoreSpec, problems: &mut Problems) {
        let cache = &hybrid.cache;
        self.check_rows("hybrid.cache.capacity", cache.capacity, problems);
        whole(
            "hybrid.cache.page",
            cache.page,
            "pages of the store (store.page)",
            store.page,
            problems,
        );
        self.check_store(store, cache.page, problems);
        let line = self.processor.caches.first().map(|level| level.line);
        if let Some(line) = line.filter(|line| cache.page < *line) {
            problems.add(
                "contradiction",
                "hybrid.cache.page".into(),
                cache.page.to_string(),
                format!("a line of the on-chip caches has {line}"),
                format!("write at least \"{line}\""),
            );
        }
        if store.capacity < cache.capacity {
            problems.add(
                "contradiction",
                "store.capacity".into(),
                store.capacity.to_string(),
                format!("the DRAM cache in front of it has {}", cache.capacity),
                "write more, or a smaller hybrid.cache.capacity".into(),
            );
        }
    }

    /// The store is whole pages of those who use it; of its own pages it is, or that is said.
    fn check_store(&self, store: &StoreSpec, page: Size, problems: &mut Problems) {
        let (what, largest) = if page > self.os.page {
            ("pages of the cache (hybrid.cache.page)", page)
        } else {
            ("pages (os.page)", self.os.page)
        };
        if largest > store.page {
            whole("store.capacity", store.capacity, what, largest, problems);
        }
    }

    fn check_storage(&self, storage: &StorageSpec, problems: &mut Problems) {
        self.check_memory("storage.dram_capacity", storage.dram_capacity, problems);
        whole("storage.readahead", storage.readahead, "pages (os.page)", self.os.page, problems);
        if let Some(store) = &self.store {
            whole("os.page", self.os.page, "pages of the store (store.page)", store.page, problems);
            self.check_store(store, self.os.page, problems);
        }
        if storage.dirty_background_ratio > storage.dirty_ratio {
            problems.add(
                "contradiction",
                "storage.dirty_background_ratio".into(),
                storage.dirty_background_ratio.to_string(),
                format!("writers wait at dirty_ratio = {} already", storage.dirty_ratio),
                format!("write {} or less", storage.dirty_ratio),
            );
        }
    }
}

/// Adds a mistake if `value` is not a whole number of `part`s. Zero is one. Pages that are no power
/// of two are a mistake themselves, and all others follow from it.
fn whole(path: &str, value: Size, what: &str, part: Size, problems: &mut Problems) {
    if part.bytes().is_power_of_two() && !value.bytes().is_multiple_of(part.bytes()) {
        problems.add(
            "contradiction",
            path.into(),
            value.to_string(),
            format!("it is not a whole number of {what} of {part}"),
            format!("write a multiple of {part}"),
        );
    }
}
