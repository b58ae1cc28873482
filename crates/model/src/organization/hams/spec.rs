//! What a user says of HAMS.

use super::Hams;
use super::layout::{Layout, PRP_PAGE_BYTES, Parts, mapping_bytes};
use crate::device::DeviceDescription;
use crate::link::LinkDescription;
use crate::medium::dram::Dram;
use crate::organization::{
    DramSize, InitialContent, Organization, OrganizationDescription, Surroundings,
    check_number_of_sets, whole,
};
use serde::{Deserialize, Serialize};
use tierscope_units::{Duration, Problems, Size};

/// `hams`: hardware joins an NVDIMM and a drive into one persistent memory (\[HAMS21\]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HamsSpec {
    /// How the drive is connected.
    pub coupling: Coupling,
    /// What a command may rely on when power fails.
    pub mode: Mode,
    /// The NVDIMM: the cache, the pinned region behind it, and the drive's table where that lies there.
    pub capacity: Size,
    /// Page: the unit of tags, of fills and of evictions. A power of two from 4 KiB to 1 MiB.
    pub page: Size,
    /// The pinned region: queues, PRP pool, interrupts, wait queue. A whole number of pages.
    pub pinned: Size,
    /// Entries of the submission queue, and of the completion queue; one stays free.
    pub queue_entries: u32,
    /// Slots of the PRP pool, each of which holds the clone of a page.
    pub prp_slots: u32,
    /// Requests that may wait for a busy entry.
    pub wait_entries: u32,
    /// Time of the address manager for each request.
    pub controller_latency: Duration,
    /// Requests that the address manager holds at most.
    pub queue_depth: u32,
    /// Whether a write reads the tag first even where its page is there.
    pub tag_before_write: bool,
    /// What the cache holds at the start.
    pub initial: InitialContent,
}

/// How a drive is connected to the memory controller hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Coupling {
    /// Behind a link of its own, with a memory of its own (\[HAMS21\] §IV-B).
    Loose,
    /// On the NVDIMM's channel, without a memory of its own: commands go into its registers, and its table
    /// of pages lies in the NVDIMM (\[HAMS21\] §IV-C).
    Tight,
}

/// What a command may rely on when power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Every command carries force unit access, and one is under way at a time.
    Persist,
    /// Commands are under way together, each with a journal tag until it is complete.
    Extend,
}

/// A description, resolved: what the manager works with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    pub coupling: Coupling,
    pub mode: Mode,
    pub page_shift: u32,
    pub line_bytes: u32,
    /// Bytes of what moves between NVDIMM and drive at a time.
    pub part_bytes: u32,
    pub queue_entries: u32,
    pub slots: u32,
    pub wait_entries: usize,
    pub latency_ps: u64,
    pub queue_depth: usize,
    pub tag_before_write: bool,
    pub initial: InitialContent,
}

impl Shape {
    /// Parts of a page.
    #[inline]
    pub(super) fn parts(&self) -> u32 {
        (1 << self.page_shift) / self.part_bytes
    }
}

impl HamsSpec {
    /// Of a description that has been checked, before a drive of pages of so many bytes.
    pub(super) fn shape(&self, line_bytes: u64, store_page_bytes: u64) -> Shape {
        Shape {
            coupling: self.coupling,
            mode: self.mode,
            page_shift: self.page.bytes().trailing_zeros(),
            line_bytes: line_bytes as u32,
            part_bytes: store_page_bytes.max(line_bytes) as u32,
            queue_entries: self.queue_entries,
            slots: self.prp_slots,
            wait_entries: self.wait_entries as usize,
            latency_ps: self.controller_latency.picoseconds(),
            queue_depth: self.queue_depth as usize,
            tag_before_write: self.tag_before_write,
            initial: self.initial,
        }
    }

    fn parts(&self) -> Parts {
        let entries = u64::from(self.queue_entries);
        let (slots, waiting) = (u64::from(self.prp_slots), u64::from(self.wait_entries));
        Parts::new(self.page.bytes(), slots, entries, waiting)
    }

    /// Bytes of the drive's table in the NVDIMM.
    fn mapping_bytes(&self, store_bytes: u64, store_page_bytes: u64) -> u64 {
        match self.coupling {
            Coupling::Loose => 0,
            Coupling::Tight => mapping_bytes(store_bytes, store_page_bytes, self.page.bytes()),
        }
    }

    /// What is left of the NVDIMM for the cache, in pages, before such a drive.
    fn frames(&self, store_bytes: u64, store_page_bytes: u64) -> u64 {
        let taken =
            self.pinned.bytes().saturating_add(self.mapping_bytes(store_bytes, store_page_bytes));
        self.capacity.bytes().saturating_sub(taken) / self.page.bytes()
    }

    /// Of a description that has been checked, before such a drive.
    pub(super) fn layout(&self, store_bytes: u64, store_page_bytes: u64) -> Layout {
        let mapping = self.mapping_bytes(store_bytes, store_page_bytes);
        Layout::new(
            (self.frames(store_bytes, store_page_bytes), self.page.bytes()),
            u64::from(self.prp_slots),
            u64::from(self.queue_entries),
            u64::from(self.wait_entries),
            store_page_bytes,
            self.capacity.bytes() - mapping,
        )
    }

    fn check_page(&self, path: &str, problems: &mut Problems) -> bool {
        let page = self.page.bytes();
        let right = page.is_power_of_two() && (PRP_PAGE_BYTES..=1 << 20).contains(&page);
        if !right {
            problems.add(
                "impossible-value",
                format!("{path}.page"),
                self.page.to_string(),
                "a page is a power of two from 4KiB to 1MiB".into(),
                "write 128KiB".into(),
            );
        }
        right
    }

    fn check_pinned(&self, path: &str, problems: &mut Problems) {
        let needed = Size::from_bytes(self.parts().total().next_multiple_of(self.page.bytes()));
        if self.pinned < needed {
            problems.add(
                "contradiction",
                format!("{path}.pinned"),
                self.pinned.to_string(),
                format!(
                    "{} slots of {} (prp_slots, page), queues of {} and the wait queue take {needed}",
                    self.prp_slots, self.page, self.queue_entries
                ),
                format!("write \"{needed}\" or more, or fewer slots"),
            );
        }
        let what = format!("pages ({path}.page)");
        whole(&format!("{path}.pinned"), self.pinned, &what, self.page, problems);
        let key = format!("{path}.capacity");
        whole(&key, self.capacity, &what, self.page, problems);
        let larger = format!("a larger {path}.page");
        check_number_of_sets(&key, self.capacity, ("frames", self.page), &larger, problems);
    }

    /// The link is the NVDIMM's channel where the drive is on it, and a link of its own where it is not.
    fn check_link(&self, path: &str, link: &dyn LinkDescription, problems: &mut Problems) {
        let shares = link.shared_channel().is_some();
        let (word, reason, mend) = match (self.coupling, shares) {
            (Coupling::Loose, true) => (
                "loose",
                "the drive is on a channel of the NVDIMM (ddr_channel)",
                "write \"tight\", or connect it by [pcie]",
            ),
            (Coupling::Tight, false) => (
                "tight",
                "the drive is behind a link of its own",
                "write \"loose\", or connect it by [ddr_channel]",
            ),
            _ => return,
        };
        problems.add(
            "contradiction",
            format!("{path}.coupling"),
            word.into(),
            reason.into(),
            mend.into(),
        );
    }

    fn check_store(
        &self,
        path: &str,
        (key, store): (&str, &dyn DeviceDescription),
        machine: &Surroundings<'_>,
        problems: &mut Problems,
    ) {
        let what = format!("pages of the store ({key}.page)");
        whole(&format!("{path}.page"), self.page, &what, store.page(), problems);
        machine.check_store(self.page, &format!("pages ({path}.page)"), problems);
        let (store_bytes, page_bytes) = (store.capacity().bytes(), store.page().bytes());
        if page_bytes == 0 || self.frames(store_bytes, page_bytes) == 0 {
            let table = Size::from_bytes(match page_bytes {
                0 => 0,
                _ => self.mapping_bytes(store_bytes, page_bytes),
            });
            problems.add(
                "contradiction",
                format!("{path}.capacity"),
                self.capacity.to_string(),
                format!(
                    "the pinned region ({path}.pinned) takes {} and the drive's table {table}, which \
                     leaves no page for the cache",
                    self.pinned
                ),
                "write more, or less for the pinned region".into(),
            );
        }
        if store.capacity() < self.capacity {
            problems.add(
                "contradiction",
                format!("{key}.capacity"),
                store.capacity().to_string(),
                format!("the NVDIMM in front of it has {}", self.capacity),
                format!("write more, or a smaller {path}.capacity"),
            );
        }
    }
}

impl OrganizationDescription for HamsSpec {
    fn name(&self) -> &'static str {
        "hams"
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "capacity", self.capacity, Size::from_bytes(1 << 20));
        // An eviction and a fill, and the entry that stays free.
        problems.at_least(path, "queue_entries", self.queue_entries, 3);
        problems.at_most(path, "queue_entries", self.queue_entries, 1 << 16);
        problems.at_least(path, "prp_slots", self.prp_slots, 1);
        problems.at_least(path, "wait_entries", self.wait_entries, 1);
        problems.at_least(path, "queue_depth", self.queue_depth, 1);
        problems.at_most(path, "queue_depth", self.queue_depth, 1 << 12);
        if self.check_page(path, problems) {
            self.check_pinned(path, problems);
        }
    }

    fn check_with(&self, path: &str, machine: &Surroundings<'_>, problems: &mut Problems) {
        machine.check_rows(&format!("{path}.capacity"), self.capacity, problems);
        if let Some(link) = machine.link {
            self.check_link(path, link, problems);
        }
        let page = self.page.bytes();
        if let Some(store) = machine.store
            && page.is_power_of_two()
            && page >= PRP_PAGE_BYTES
        {
            self.check_store(path, store, machine, problems);
        }
    }

    fn dram_size(&self) -> Option<DramSize> {
        Some(DramSize { key: "capacity", capacity: self.capacity, part: self.page })
    }

    fn build(&self, machine: &Surroundings<'_>) -> Option<Box<dyn Organization>> {
        let (_, store) = machine.store?;
        let (store_bytes, store_page_bytes) = (store.capacity().bytes(), store.page().bytes());
        let line_bytes = machine.line?.bytes();
        let memory = Dram::new(machine.dram?, self.capacity.bytes(), line_bytes);
        let drive = machine.build_store()?;
        let sizes = (store_bytes, store_page_bytes, line_bytes);
        let hams = Hams::new(self, sizes, memory, drive, machine.check_data);
        Some(Box::new(hams.with_backup(machine.dram?.backup.as_ref(), self.capacity.bytes())))
    }
}
