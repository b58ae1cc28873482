//! What a user says of a machine: one description, from TOML or Python objects, checked whole.
//!
//! [`load`] reads a preset or a file, lays it over its base, applies `--set`, and gives the
//! resolved machine with each value's source, or every mistake at once.

mod check;
mod fit;
mod foreign;
pub(crate) mod limits;
mod load;
mod memory;
mod notes;
mod presets;
mod print;
mod repair;
mod scale;
mod sets;
mod several;
mod shape;
#[cfg(test)]
mod tests;
mod tree;
mod walk;

pub use fit::check_fit;
pub use load::{Resolved, Source, load, load_json, load_text};
pub use memory::MemoryEstimate;
pub use presets::{hosts, kernels, list, part_text};
pub use print::{show, to_commented_toml, to_toml};

pub use scale::{DramSizes, Sets, scale};
pub use several::{applies_to, load_all};
pub use shape::{Field, Shape, Table, Word, json_schema, shape};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tierscope_kernel::Clock;
use tierscope_model::device::{self, DeviceDescription, InDram, RaidSpec};
use tierscope_model::link::{self, LinkDescription};
use tierscope_model::medium::DramSpec;
use tierscope_model::medium::dram::description::Description;
use tierscope_model::organization::{
    self, ControllersSpec, Interleaved, Nodes, Organization, OrganizationDescription, StorageSpec,
    Surroundings,
};
use tierscope_model::os::OsSpec;
use tierscope_model::os::buffer_cache::BufferCache;
use tierscope_model::processor::ProcessorSpec;
use tierscope_units::{Problems, Size};

/// Makes [`SystemSpec`] of what every machine has and of the list of parts that it may have.
macro_rules! describe {
    (
        policies $policies:tt
        media $media:tt
        links {
            $( $link:ident = $link_module:ident::$link_type:ident($link_spec:ident),
                $link_summary:literal; )*
        }
        devices {
            $( $device:ident = $device_module:ident::$device_type:ident($device_spec:ident),
                $device_summary:literal; )*
        }
        organizations {
            $( $organization:ident = $module:ident::$type:ident($spec:ident), $summary:literal; )*
        }
    ) => {
        /// A machine, and how it is organized. It has a processor, an operating system, DRAM, a
        /// store behind a link where the organization has one, and exactly one organization. A
        /// device alone has neither processor nor operating system, and a store alone no DRAM.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct SystemSpec {
            /// Name in results. A file that has a base and gives no name is called as the file.
            pub name: String,
            /// What it is, in a line.
            pub description: String,
            /// Seed of every random choice that the machine makes.
            pub seed: u64,
            /// Whether every line carries the version last written to it, so that a stale or lost
            /// read is found as it happens.
            pub check_data: bool,
            /// Cores, on-chip caches and TLB. A device alone has none.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub processor: Option<ProcessorSpec>,
            /// The operating system. A device alone has none.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub os: Option<OsSpec>,
            /// DRAM behind its controllers. A store alone has none.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub dram: Option<DramSpec>,
            /// Several memory controllers, each with DRAM, store and link as the tables say, over which memory
            /// is interleaved. Without it there is one.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub controllers: Option<ControllersSpec>,
            $(
                #[doc = $device_summary]
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $device: Option<device::$device_spec>,
            )*
            $(
                #[doc = $link_summary]
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $link: Option<link::$link_spec>,
            )*
            $(
                #[doc = $summary]
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $organization: Option<organization::$spec>,
            )*
        }

        impl SystemSpec {
            /// The stores that the description has, with their tables: one at most if it is right.
            pub fn stores(&self) -> Vec<(&'static str, &dyn DeviceDescription)> {
                let mut all: Vec<(&'static str, &dyn DeviceDescription)> = Vec::new();
                $( all.extend(self.$device.as_ref().map(|it| (stringify!($device), it as _))); )*
                all
            }

            /// The links that the description has, with their tables: one at most if it is right.
            pub fn links(&self) -> Vec<(&'static str, &dyn LinkDescription)> {
                let mut all: Vec<(&'static str, &dyn LinkDescription)> = Vec::new();
                $( all.extend(self.$link.as_ref().map(|it| (stringify!($link), it as _))); )*
                all
            }

            /// The organizations that the description has, with their tables: one if it is right.
            fn organizations(&self) -> Vec<(&'static str, &dyn OrganizationDescription)> {
                let mut all: Vec<(&'static str, &dyn OrganizationDescription)> = Vec::new();
                $(
                    let it = self.$organization.as_ref();
                    all.extend(it.map(|it| (stringify!($organization), it as _)));
                )*
                all
            }
        }
    };
}

tierscope_model::parts!(describe);

impl SystemSpec {
    /// The organization's name, if there is exactly one.
    pub fn organization(&self) -> Option<&'static str> {
        self.the_organization().map(OrganizationDescription::name)
    }

    fn the_organization(&self) -> Option<&dyn OrganizationDescription> {
        match self.organizations().as_slice() {
            [(_, one)] => Some(*one),
            _ => None,
        }
    }

    /// Whether functional warming leaves the same in a machine of this description as in one of the other: they
    /// differ in nothing but names and what DRAM, link and a store of constant times take, which changes nothing in it.
    pub fn warms_as(&self, other: &SystemSpec) -> bool {
        let mut own = self.clone();
        own.name.clone_from(&other.name);
        own.description.clone_from(&other.description);
        if let (Some(own), Some(others)) = (&mut own.dram, &other.dram) {
            own.clone_from(others);
        }
        if let (Some(own), Some(others)) = (&mut own.link, &other.link) {
            own.clone_from(others);
        }
        if let (Some(own), Some(others)) = (&mut own.store, &other.store)
            && (own.capacity, own.page) == (others.capacity, others.page)
        {
            own.clone_from(others);
        }
        own == *other
    }

    /// Times that the store takes to read and to write a page, in picoseconds, where there is one that
    /// tells.
    pub fn store_times_ps(&self) -> Option<(u64, u64)> {
        self.stores().first().and_then(|(_, store)| store.page_times_ps())
    }

    /// Whether the operating system pages to a store that nothing but requests in detail can warm: between the units of a
    /// sampled run it is asked for each page all the same.
    pub(crate) fn asks_store_throughout(&self) -> bool {
        let in_detail = self.stores().first().is_some_and(|(_, store)| store.is_warmed_in_detail());
        in_detail && self.paging().is_some()
    }

    /// About the time that the store takes to read a page at a random place, in picoseconds.
    pub(crate) fn usual_read_ps(&self) -> u64 {
        self.stores().first().map_or(0, |(_, store)| store.usual_read_ps())
    }

    /// How long what the store begins by itself goes on at most, in picoseconds.
    pub fn store_settling_ps(&self) -> u64 {
        self.stores().first().map_or(0, |(_, store)| store.settling_ps())
    }

    /// How long the last of what waits to be written to the store waits at most, in picoseconds, behind all the rest for
    /// one unit of it: a whole buffer of pages of a DRAM cache that prefetches, and, where the operating system pages, as
    /// many as reclaim writes at a time, at least, whether they wait at the store or before it. Where nothing is prefetched
    /// as much waits as demand has displaced, which how long units take to settle tells; what a drive takes is in what it begins
    /// by itself.
    pub(crate) fn backlog_ps(&self) -> u64 {
        /// `SWAP_CLUSTER_MAX` of Linux; and so many that a unit is not longer for what may be there.
        const AT_A_TIME: std::ops::RangeInclusive<u64> = 32..=64;
        let cache = self.hybrid.as_ref().filter(|_| self.prefetches());
        let paging = self.paging().filter(|_| self.store_settling_ps() == 0);
        let pages = match (cache, paging) {
            (Some(hybrid), _) => u64::from(hybrid.write_back_buffer_pages),
            (None, Some((storage, _))) => {
                u64::from(storage.host_queue_depth).clamp(*AT_A_TIME.start(), *AT_A_TIME.end())
            }
            (None, None) => return 0,
        };
        let (_, write_ps) = self.store_times_ps().unwrap_or_default();
        write_ps.saturating_mul(pages)
    }

    /// That the store lies in DRAM, where it does.
    pub fn store_in_dram(&self) -> Option<InDram> {
        self.surroundings().store_in_dram()
    }

    /// Whether the store seeks and turns.
    pub(crate) fn store_rotates(&self) -> bool {
        self.stores().first().is_some_and(|(_, store)| store.rotates())
    }

    /// How the operating system pages main memory, and the capacity of the store to which it
    /// does; nothing where it does not.
    pub fn paging(&self) -> Option<(&StorageSpec, u64)> {
        let paging = self.the_organization()?.paging()?;
        let (_, store) = *self.stores().first()?;
        Some((paging, store.capacity().bytes()))
    }

    /// Whether the store has something to win by being told what is free, where it knows flushes: a disk has not.
    pub(crate) fn knows_trims(&self, buffers: bool) -> bool {
        buffers && self.disk.is_none()
    }

    /// The two nodes of memory that the operating system sees, where there are two.
    pub fn nodes(&self) -> Option<Nodes<'_>> {
        self.the_organization()?.nodes()
    }

    /// Drives that the host deals what it asks for over, without an adapter that does.
    pub fn software_raid(&self) -> Option<&RaidSpec> {
        let of_ssd = self.ssd.as_ref().and_then(|it| it.raid.as_ref());
        let of_disk = self.disk.as_ref().and_then(|it| it.raid.as_ref());
        let of_nvm = self.nvm.as_ref().and_then(|it| it.raid.as_ref());
        of_ssd.or(of_disk).or(of_nvm).filter(|raid| raid.bandwidth.is_none())
    }

    /// The level between page cache and store, of a description that has been checked; `None` where there
    /// is none.
    pub fn build_buffer_cache(&self) -> Option<BufferCache> {
        let spec = self.paging()?.0.buffer_cache.as_ref()?;
        let page_bytes = self.os.as_ref()?.page.bytes();
        BufferCache::new(spec, page_bytes, self.peak_bytes_per_s()?, self.seed)
    }

    /// Builds the organization of a description that has been checked; `None` where it has none, or
    /// lacks what the organization needs.
    pub fn build_organization(&self) -> Option<Box<dyn Organization>> {
        let one = || self.the_organization()?.build(&self.surroundings());
        let Some(controllers) = &self.controllers else { return one() };
        let parts = (0..controllers.count).map(|_| one()).collect::<Option<Vec<_>>>()?;
        Some(Box::new(Interleaved::new(controllers, self.line()?, parts)))
    }

    /// How many memory controllers it has.
    pub fn controllers(&self) -> u64 {
        self.controllers.map_or(1, |controllers| u64::from(controllers.count))
    }

    /// Whether it has a DRAM cache that prefetches.
    pub(crate) fn prefetches(&self) -> bool {
        self.hybrid.as_ref().is_some_and(|hybrid| hybrid.prefetch_pages > 0)
    }

    /// Whether it makes huge pages, and pages them out.
    pub(crate) fn pages_huge_pages(&self) -> bool {
        let makes = self.os.as_ref().is_some_and(|os| !os.transparent_huge_pages.is_never());
        makes && self.paging().is_some()
    }

    /// Whether it is a device alone: it has no processor, and is given the requests of a memory trace.
    pub fn stands_alone(&self) -> bool {
        self.the_organization().is_some_and(OrganizationDescription::stands_alone)
    }

    /// The line that main memory is asked for, where there is one.
    pub fn line(&self) -> Option<Size> {
        let own = self.the_organization().and_then(OrganizationDescription::line);
        own.or_else(|| Some(self.processor.as_ref()?.caches.first()?.line))
    }

    /// Bytes that a device alone moves as one: a line, or a page of the store.
    pub fn unit_bytes(&self) -> Option<u64> {
        let page = || self.stores().first().map(|(_, store)| store.page());
        self.line().or_else(page).map(|unit| unit.bytes())
    }

    /// The command clock of the DRAM, where there is any, of a description that has been checked.
    pub fn dram_clock(&self) -> Option<Clock> {
        Some(Description::new(self.dram.as_ref()?).clock)
    }

    /// What the data buses of the DRAM can move at most, in bytes a second, of a description that has
    /// been checked; nothing where there is none.
    pub fn peak_bytes_per_s(&self) -> Option<f64> {
        let controllers = self.controllers() as f64;
        Some(controllers * Description::new(self.dram.as_ref()?).peak_bytes_per_s())
    }

    /// The machine around the organization.
    fn surroundings(&self) -> Surroundings<'_> {
        Surroundings {
            os: self.os.as_ref(),
            dram: self.dram.as_ref(),
            store: self.stores().first().copied(),
            link: self.links().first().map(|(_, link)| *link),
            line: self.line(),
            check_data: self.check_data,
        }
    }

    /// Every mistake: impossible values in the parts, and contradictions between them.
    pub fn check(&self) -> Problems {
        let mut problems = Problems::new();
        self.check_parts(&mut problems);
        self.check_together(&mut problems);
        limits::check(self, &mut problems);
        problems
    }

    /// Impossible values in the parts, each looked at by itself.
    fn check_each(&self) -> Problems {
        let mut problems = Problems::new();
        self.check_parts(&mut problems);
        limits::check(self, &mut problems);
        problems
    }
}
