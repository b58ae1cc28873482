//! Semantic checks: each part alone, and contradictions between parts.

use super::SystemSpec;
use super::presets;
use tierscope_model::device::DeviceDescription;
use tierscope_model::organization::{FillPolicy, HybridSpec, ORGANIZATIONS};
use tierscope_model::os::driver::InterruptSteering;
use tierscope_model::os::reclaim::ReclaimPolicy;
use tierscope_model::parts::Part;
use tierscope_units::{Problems, Size};

impl SystemSpec {
    pub(super) fn check_parts(&self, problems: &mut Problems) {
        self.check_name(problems);
        // TOML holds integers up to 2^63 − 1, and a resolved machine must print as TOML.
        problems.at_most("", "seed", self.seed, i64::MAX as u64);
        if let Some(processor) = &self.processor {
            processor.check("processor", problems);
        }
        if let Some(os) = &self.os {
            os.check("os", problems);
        }
        if let Some(dram) = &self.dram {
            dram.check("dram", problems);
        }
        if let Some(controllers) = &self.controllers {
            controllers.check("controllers", self.line(), problems);
        }
        for (key, store) in self.stores() {
            store.check(key, problems);
        }
        for (key, link) in self.links() {
            link.check(key, problems);
        }
        for (key, organization) in self.organizations() {
            organization.check(key, problems);
        }
    }

    pub(super) fn check_together(&self, problems: &mut Problems) {
        self.check_organization(problems);
        self.check_processor(problems);
        self.check_dram(problems);
        self.check_cache_names(problems);
        self.check_lines(problems);
        self.check_polling(problems);
        self.check_interrupts(problems);
        self.check_huge_pages(problems);
        self.check_controllers(problems);
        self.check_victims(problems);
        for (key, organization) in self.organizations() {
            organization.check_with(key, &self.surroundings(), problems);
        }
        self.surroundings().check_shared_channel(problems);
        self.surroundings().check_refresh_windows(problems);
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

    /// A cache of victims is told what shared on-chip caches give up.
    fn check_victims(&self, problems: &mut Problems) {
        let fills = |hybrid: &HybridSpec| hybrid.cache.fill == FillPolicy::Victims;
        let shared = self.processor.iter().flat_map(|it| &it.caches).any(|cache| cache.shared);
        if shared || self.processor.is_none() || !self.hybrid.as_ref().is_some_and(fills) {
            return;
        }
        problems.add(
            "contradiction",
            "hybrid.cache.fill".into(),
            "victims".into(),
            "no on-chip cache is shared (processor.caches), and only what such a one gives up is told".into(),
            "write \"writes\" for dirty lines alone, or add a shared cache".into(),
        );
    }

    fn check_organization(&self, problems: &mut Problems) {
        let all = self.organizations();
        let keys = keys_of(&all);
        if keys.is_empty() {
            let tables: Vec<_> =
                ORGANIZATIONS.iter().map(|Part { key, .. }| bracketed(key)).collect();
            problems.add(
                "missing-part",
                "system".into(),
                String::new(),
                "it has no organization".into(),
                format!("add one of the tables {}", tables.join(", ")),
            );
        }
        only_one("organization", &keys, problems);
        only_one("store", &keys_of(&self.stores()), problems);
        only_one("link", &keys_of(&self.links()), problems);
        for (key, _) in all.iter().filter(|(_, organization)| organization.needs_store()) {
            self.check_store_is_there(key, problems);
        }
        self.check_store_in_dram(problems);
        if let [(_, only)] = &all[..]
            && !only.needs_store()
        {
            for key in keys_of(&self.stores()).into_iter().chain(keys_of(&self.links())) {
                let reason = format!("`{}` has no store, and no link to one", only.name());
                let mend = "remove it".to_owned();
                problems.add("contradiction", key.into(), String::new(), reason, mend);
            }
        }
    }

    /// A store that lies in DRAM is behind no link, and only software that copies can use it.
    fn check_store_in_dram(&self, problems: &mut Problems) {
        let in_dram = |(_, store): &(&str, &dyn DeviceDescription)| store.lies_in_dram().is_some();
        let Some((key, _)) = self.stores().into_iter().find(in_dram) else { return };
        for link in keys_of(&self.links()) {
            let reason = format!("the store ({}) lies in DRAM, behind no link", bracketed(key));
            problems.add("contradiction", link.into(), String::new(), reason, "remove it".into());
        }
        let Some((table, one)) = self
            .organizations()
            .into_iter()
            .find(|(_, it)| it.needs_store() && it.paging().is_none())
        else {
            return;
        };
        problems.add(
            "contradiction",
            key.into(),
            String::new(),
            format!(
                "it is memory to which the operating system copies, and that of `{}` ([{table}]) is managed by \
                 hardware",
                one.name()
            ),
            "use another store, or start from base = \"ddr-block\"".into(),
        );
    }

    /// A machine has a processor and an operating system; a device alone has neither.
    fn check_processor(&self, problems: &mut Problems) {
        let Some(organization) = self.the_organization() else { return };
        let alone = organization.stands_alone();
        for (part, present) in [("processor", self.processor.is_some()), ("os", self.os.is_some())]
        {
            if present == alone {
                let base = presets::with_organization(organization.name());
                let (code, reason, mend) = if alone {
                    ("contradiction", "a device alone has none", "remove it".to_owned())
                } else {
                    let mend = format!("add the table [{part}], or start from base = \"{base}\"");
                    ("missing-part", "a machine has one", mend)
                };
                problems.add(code, part.into(), String::new(), reason.into(), mend);
            }
        }
    }

    /// Memory is interleaved where hardware manages it; what the operating system pages, and a device alone, has one
    /// controller.
    fn check_controllers(&self, problems: &mut Problems) {
        let (Some(controllers), Some(organization)) = (&self.controllers, self.the_organization())
        else {
            return;
        };
        let reason = match (organization.stands_alone(), organization.paging().is_some()) {
            (true, _) => "a device alone has none",
            (_, true) => "the operating system pages between one DRAM and one store",
            _ if organization.nodes().is_some() => "its nodes are one DRAM and one store",
            _ => {
                let store = self.stores().first().map(|(_, store)| store.capacity());
                let own = || organization.dram_size().map(|size| size.capacity);
                if let Some(capacity) = store.or_else(own) {
                    controllers.check_memory("controllers", capacity.bytes(), problems);
                }
                return;
            }
        };
        problems.add(
            "contradiction",
            "controllers".into(),
            String::new(),
            reason.into(),
            "remove it; channels of DRAM are dram.channels, drives side by side ssd.raid".into(),
        );
    }

    /// Who polls is told of nothing by an interrupt that could be held back.
    fn check_polling(&self, problems: &mut Problems) {
        let Some((key, paging)) = self
            .organizations()
            .into_iter()
            .find_map(|(key, organization)| Some((key, organization.paging()?)))
        else {
            return;
        };
        let nvme = self.pcie.as_ref().and_then(|pcie| pcie.nvme.as_ref());
        let held_back = nvme.is_some_and(|nvme| nvme.coalescing.is_some());
        if held_back && let Some(driver) = paging.driver.as_ref().filter(|driver| driver.polls()) {
            problems.add(
                "contradiction",
                format!("{key}.driver.completion"),
                if driver.sleeps_first() { "\"hybrid\"" } else { "\"polling\"" }.into(),
                "the device holds completions back for one interrupt (pcie.nvme.coalescing), and who polls \
                 waits for none"
                    .into(),
                "remove [pcie.nvme.coalescing], or write \"interrupt\"".into(),
            );
        }
    }

    /// A driver names hardware threads and queues that are there.
    fn check_interrupts(&self, problems: &mut Problems) {
        for (key, organization) in self.organizations() {
            let Some(paging) = organization.paging() else { continue };
            let Some(driver) = &paging.driver else { continue };
            if driver.interrupts == InterruptSteering::Queue && paging.block_layer.is_none() {
                problems.add(
                    "missing-part",
                    format!("{key}.driver.interrupts"),
                    "\"queue\"".into(),
                    "without a block layer nothing says what queues the device has".into(),
                    format!("add the table [{key}.block_layer], or write \"submitter\" or \"one\""),
                );
            }
            let threads =
                self.processor.as_ref().map(|it| it.cores.saturating_mul(it.threads_per_core));
            if let (InterruptSteering::One, Some(threads @ 1..), Some(thread)) =
                (driver.interrupts, threads, driver.interrupt_thread)
                && thread >= threads
            {
                problems.add(
                    "impossible-value",
                    format!("{key}.driver.interrupt_thread"),
                    thread.to_string(),
                    format!("the processor has {threads} hardware threads, counted from 0"),
                    format!("write at most {}", threads - 1),
                );
            }
        }
    }

    /// Huge pages are made of base pages, in one memory, by an operating system that has them.
    fn check_huge_pages(&self, problems: &mut Problems) {
        let Some(os) = self.os.as_ref().filter(|os| !os.transparent_huge_pages.is_never()) else {
            return;
        };
        let mut add = |key: &str, value: String, reason: &str, mend: &str| {
            problems.add("contradiction", key.into(), value, reason.into(), mend.into());
        };
        const KEY: &str = "os.transparent_huge_pages";
        const BASE: Size = Size::from_bytes(4096);
        if os.page != BASE {
            add(
                "os.page",
                os.page.to_string(),
                &format!("huge pages ({KEY}) are made of pages of {BASE}"),
                &format!("write {BASE}, or remove {KEY}"),
            );
        }
        if self.organizations().iter().any(|(_, organization)| organization.nodes().is_some()) {
            let reason = "pages move one by one between two nodes of memory";
            add(KEY, String::new(), reason, "remove it, or take a machine of one memory");
        }
        if let Some(processor) = self.processor.as_ref().filter(|it| it.tlb.levels < 2) {
            let reason = format!("an entry above the last level is that of a huge page ({KEY})");
            add("processor.tlb.levels", processor.tlb.levels.to_string(), &reason, "write 4");
        }
        for (key, organization) in self.organizations() {
            let reclaim = organization.paging().map(|paging| paging.reclaim);
            if reclaim == Some(ReclaimPolicy::ActiveInactive2632) {
                let reason =
                    format!("Linux 2.6.32 had no huge pages yet ({KEY}): they came with 2.6.38");
                add(
                    &format!("{key}.reclaim"),
                    "\"active-inactive-2.6.32\"".into(),
                    &reason,
                    &format!("write \"active-inactive-4.9\", or remove {KEY}"),
                );
            }
        }
    }

    /// All but stores alone, and machines whose memory is the store, have DRAM.
    fn check_dram(&self, problems: &mut Problems) {
        let Some(organization) = self.the_organization() else { return };
        if self.dram.is_some() == organization.needs_dram() {
            return;
        }
        let base = presets::with_organization(organization.name());
        let (code, reason, mend) = if self.dram.is_some() {
            let who = match organization.stands_alone() {
                true => "a store alone has none".to_owned(),
                false => format!("memory of `{}` is the store, without any", organization.name()),
            };
            ("contradiction", who, "remove it".to_owned())
        } else {
            let reason = format!("`{}` needs DRAM", organization.name());
            let mend = format!("add the table [dram], or start from base = \"{base}\"");
            ("missing-part", reason, mend)
        };
        problems.add(code, "dram".into(), String::new(), reason, mend);
    }

    fn check_store_is_there(&self, organization: &str, problems: &mut Problems) {
        let behind_link = !self.stores().iter().any(|(_, store)| store.lies_in_dram().is_some());
        for (part, present) in [
            ("store", !self.stores().is_empty()),
            ("link", !self.links().is_empty() || !behind_link),
        ] {
            if !present {
                let base = presets::with_organization(organization);
                problems.add(
                    "missing-part",
                    part.into(),
                    String::new(),
                    format!("`{organization}` needs a {part}"),
                    format!("add a [{part}] table, or start from base = \"{base}\""),
                );
            }
        }
    }

    /// Caches are addressed by their names, in results and in `--set`.
    fn check_cache_names(&self, problems: &mut Problems) {
        let Some(processor) = &self.processor else { return };
        for (level, cache) in processor.caches.iter().enumerate() {
            let earlier = &processor.caches[..level];
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

    /// Lines are whole bursts, a row holds whole lines, and the mapping places all of them.
    fn check_lines(&self, problems: &mut Problems) {
        let line = self.line().map_or(0, |line| line.bytes());
        if let Some(dram) = &self.dram
            && problems.iter().all(|known| !known.path.starts_with("dram."))
        {
            dram.check_line("dram", line, problems);
        }
    }
}

fn bracketed(key: &str) -> String {
    format!("[{key}]")
}

fn keys_of<T>(tables: &[(&'static str, T)]) -> Vec<&'static str> {
    tables.iter().map(|(key, _)| *key).collect()
}

/// Of the tables of one kind a machine has one at most: the others are mistakes.
fn only_one(kind: &str, keys: &[&str], problems: &mut Problems) {
    for one in keys.iter().filter(|_| keys.len() > 1) {
        let others = keys.iter().filter(|other| *other != one).map(|other| bracketed(other));
        problems.add(
            "contradiction",
            (*one).into(),
            String::new(),
            format!(
                "the machine has {} too, and one {kind}",
                others.collect::<Vec<_>>().join(", ")
            ),
            "keep one of the tables, or choose another base".into(),
        );
    }
}
