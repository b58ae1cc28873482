//! Organizations: how DRAM, store and software are arranged to serve an access. One file each, and
//! one line in [`crate::parts!`].

pub(crate) mod bus;
pub mod interleaved;
#[cfg(test)]
mod literate;
mod surroundings;
mod versions;

pub use hams::{HamsCounts, HamsReport};
pub use hybrid::{
    DramCacheSpec, FillPolicy, FillReport, MissPredictorKind, MissPredictorReport, PrefetcherKind,
    TagCacheReport, TagCacheSpec, TagStore,
};
pub use interleaved::{ControllersSpec, Interleaved};
pub use surroundings::Surroundings;
pub use tiered::PromotionSpec;

use crate::activity::Activity;
use crate::os::tiering::BalancingSpec;
use crate::power::PowerFailure;
use crate::request::{
    Control, Full, LineRequest, LineResponse, PageRequest, Response, Tell, Traffic,
};
use serde::{Deserialize, Serialize};
use std::any::Any;
use surroundings::{check_number_of_sets, whole};
use tierscope_kernel::Timeline;
use tierscope_units::{Problems, Size};

/// What lies below the on-chip caches and the memory-management unit.
///
/// Law of every implementation: each request is answered once; responses come in order of their
/// time; stages sum to the latency; queues are bounded and push back; equal calls give equal
/// answers; a fork goes on identically; with data checked, a read returns a version no older than
/// the last write submitted before it.
pub trait Organization: Send {
    /// What the operating system sees as main memory, in bytes.
    fn memory_bytes(&self) -> u64;

    /// Takes a line request at `now_ps`, which never goes back between calls.
    fn submit(&mut self, now_ps: u64, request: LineRequest) -> Result<(), Full>;

    /// Whether it tells of reads that take long, as by default none does.
    fn tells_of_long_reads(&self) -> bool {
        false
    }

    /// Takes a read whose requester can do something else where that takes long: then it may be told so, and is not
    /// answered. By default it is answered, however long that takes.
    fn submit_telling(&mut self, now_ps: u64, request: LineRequest) -> Result<(), Full> {
        self.submit(now_ps, request)
    }

    /// Those reads of which the requester was told, until the last [`Organization::advance`], that they take long: when,
    /// and after which stages. They are over.
    fn take_told(&mut self, _out: &mut Vec<LineResponse>) {}

    /// Takes a request to move a page between memory and the store. Only organizations whose
    /// memory the operating system pages have one.
    fn submit_page(&mut self, now_ps: u64, request: PageRequest) -> Result<(), Full>;

    /// Takes pages that lie side by side on the store, at least one, all to be read or all to be written, as one
    /// request of the store: all are answered at once. By default what pages takes them one by one only.
    fn submit_request(&mut self, now_ps: u64, pages: &[PageRequest]) -> Result<(), Full> {
        match pages {
            [page] => self.submit_page(now_ps, *page),
            _ => Err(Full),
        }
    }

    /// Whether flushes and trims can be given to it, for its store.
    fn takes_control(&self) -> bool {
        false
    }

    /// Takes a flush or a trim, where that can be; it is answered as a page request is.
    fn submit_control(&mut self, _now_ps: u64, _id: u32, _control: Control) -> Result<(), Full> {
        Err(Full)
    }

    /// When something happens next, if anything will without a further request.
    fn next_event_ps(&self) -> Option<u64>;

    /// Does all that is due until `now_ps` and appends what was answered by then.
    fn advance(&mut self, now_ps: u64, out: &mut Vec<Response>);

    /// Requests taken and not yet answered, and background work under way.
    fn in_flight(&self) -> usize;

    /// Tells how much each queue of it and of its devices holds, by name: the same names in the same order each
    /// time.
    fn depths(&self, tell: &mut Tell<'_>) {
        tell("organization", self.in_flight());
    }

    /// Whether [`Organization::warm`] leaves what line requests would leave: not where that depends on
    /// when they come.
    fn can_warm(&self) -> bool {
        true
    }

    /// An access in functional warming: what is where, and who was used last, become as they would by
    /// a line request of `core` at `now_ps`, which never goes back, at once and without a device. Look-ups, pages
    /// and bytes are counted as they would be. Not to be called while data are checked.
    fn warm(&mut self, now_ps: u64, core: u16, address: u64, write: bool) -> PagesMoved;

    /// Whether it wants the clean lines that the last on-chip cache gives up, as by default none do.
    fn takes_clean(&self) -> bool {
        false
    }

    /// The last on-chip cache has given up a clean line, at `now_ps`: it may keep it, and never answers. It holds
    /// no other data than what is read there, and no write of the line that was submitted before is younger.
    fn put_clean(&mut self, _now_ps: u64, _address: u64, _version: u64) {}

    /// The same in functional warming.
    fn warm_clean(&mut self, _now_ps: u64, _address: u64) {}

    /// A page moves in functional warming, as by a page request: at once.
    fn warm_page(&mut self, _now_ps: u64, _request: PageRequest) {}

    /// From now on, or no longer, pages that are submitted go to the store or come from there in detail, but pass by main
    /// memory: there each takes what those like it took before.
    fn pass_by_memory(&mut self, _on: bool) {}

    /// The store is given a flush or a trim in functional warming.
    fn warm_control(&mut self, _now_ps: u64, _control: Control) {}

    /// Takes over what functional warming has left in another of the same kind, whose description differs in
    /// nothing but what its devices, and the link to them, take: as if it had been warmed itself. Nothing has been
    /// asked of the devices of either. False where it cannot, as by default none can.
    fn take_over_warmed(&mut self, _warmed: &mut dyn Organization) -> bool {
        false
    }

    /// Itself, where what functional warming has left in it can be taken over.
    fn as_warmed(&mut self) -> Option<&mut dyn Any> {
        None
    }

    /// Software will need these bytes soon, and hardware that prefetches may bring them; false where no
    /// more of them would be remembered, as by default none are.
    fn will_need(&mut self, _now_ps: u64, _address: u64, _bytes: u64) -> bool {
        false
    }

    /// Whether [`Organization::will_need`] does anything.
    fn takes_hints(&self) -> bool {
        false
    }

    /// From now on, or no longer, begins nothing that nobody has asked for, such as prefetches that wait for room: who
    /// asks for lines waits until nothing is under way, and what would begin meanwhile would find more room than ever.
    fn hold_ahead(&mut self, _holds: bool) {}

    /// Writes every page to the store that is dirty now; true once that is done. The first call begins the flush, and
    /// it is to be repeated, at any later time, until it says true. It is for what was answered before it began.
    fn flush(&mut self, now_ps: u64) -> bool;

    /// What the flush that is under way, or was done last, has waited for since it began: how its time divides into
    /// stages, as far as it tells that.
    fn flush_stages(&self) -> Timeline {
        Timeline::new()
    }

    /// How long a flush that begins now would take, in writes of a page that the store does one after another.
    fn flush_writes(&self) -> u64 {
        0
    }

    /// The same as [`Organization::flush`] in functional warming, at once. Pages that were written to the store.
    fn warm_flush(&mut self, _now_ps: u64) -> PagesMoved {
        PagesMoved::default()
    }

    /// When what it has taken outlives a failure of power, if its store keeps its word ([`Organization::keeps`]): by
    /// default never.
    fn durable(&self) -> Durable {
        Durable::Never
    }

    /// Whether its store keeps what it has answered when power fails.
    fn keeps(&self) -> bool {
        true
    }

    /// Itself, where its power may fail.
    fn power(&self) -> Option<&dyn PowerFailure> {
        None
    }

    /// The same, to let it fail.
    fn power_mut(&mut self) -> Option<&mut dyn PowerFailure> {
        None
    }

    /// Counters for the result.
    fn report(&self) -> OrganizationReport;

    /// What its media did and took up to `now_ps`, which is not before the last call.
    fn activity(&self, now_ps: u64) -> Activity;

    /// A second one that stands where this one stands. Large state is shared until written.
    fn fork(&mut self) -> Box<dyn Organization>;
}

/// When a line that an organization has taken outlives a failure of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// Never, as far as its memory holds it: that is volatile, and nobody can have it written elsewhere.
    Never,
    /// Once it is answered: memory itself is non-volatile.
    Answered,
    /// Once a flush is done that has begun after it was answered.
    Flushed,
}

/// Pages that moved between DRAM and the store for a request: not those prefetched, nor what went for
/// these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagesMoved {
    /// From the store.
    pub read: u64,
    /// To the store.
    pub written: u64,
}

/// What an organization counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OrganizationReport {
    /// Look-ups of the DRAM cache (hybrid), by demand.
    pub lookups: u64,
    /// Demand look-ups that found no page (a page in flight counts as a miss).
    pub misses: u64,
    /// Pages that demand asked of the store.
    pub fetched_pages: u64,
    /// Dirty pages that had to go to the store for these.
    pub displaced_pages: u64,
    /// Pages prefetched.
    pub prefetched_pages: u64,
    /// Pages prefetched that were used before they were evicted.
    pub prefetch_hits: u64,
    /// Dirty pages written to the store.
    pub write_backs: u64,
    /// Size of the tag store in bytes, 0 where there is none.
    pub tag_store_bytes: u64,
    /// What the cache of tags that lie in DRAM counted, where there is one.
    pub tag_cache: Option<TagCacheReport>,
    /// What the predictor of misses counted, where there is one.
    pub miss_predictor: Option<MissPredictorReport>,
    /// What a cache counted that not every miss fills.
    pub fill: Option<FillReport>,
    /// Bytes moved.
    pub traffic: Traffic,
    /// Reads that returned an older version than they had to: 0 unless data checking found a fault.
    pub stale_reads: u64,
    /// What HAMS counted of itself, where it is it.
    pub hams: Option<HamsReport>,
    /// What a memory behind a link counted of pages that came to DRAM, where pages do.
    pub promotion: Option<PromotionReport>,
}

/// What a memory whose pages are promoted to DRAM counted of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromotionReport {
    /// Pages that were promoted.
    pub promotions: u64,
    /// Pages that left DRAM for these, written or not.
    pub demotions: u64,
    /// Accesses after which a page was promoted at last.
    pub threshold: u32,
    /// The fewest, over the whole run, after which one would have been.
    pub least_threshold: u32,
}

impl PromotionReport {
    /// What was counted since `before`; thresholds are as they are.
    fn since(self, before: PromotionReport) -> Self {
        PromotionReport {
            promotions: self.promotions - before.promotions,
            demotions: self.demotions - before.demotions,
            ..self
        }
    }

    /// What two counted together, and the lower thresholds of the two.
    fn together(self, other: PromotionReport) -> Self {
        PromotionReport {
            promotions: self.promotions + other.promotions,
            demotions: self.demotions + other.demotions,
            threshold: self.threshold.min(other.threshold),
            least_threshold: self.least_threshold.min(other.least_threshold),
        }
    }

    /// Each count by its name in results.
    pub fn named(&self) -> [(&'static str, u64); 4] {
        [
            ("promoted_pages", self.promotions),
            ("demoted_pages", self.demotions),
            ("promotion_threshold", self.threshold.into()),
            ("promotion_threshold_least", self.least_threshold.into()),
        ]
    }
}

impl OrganizationReport {
    /// What was counted since `before`. The size of the tag store, and stale reads, which are
    /// faults whenever they happen, stay.
    pub fn since(&self, before: &OrganizationReport) -> OrganizationReport {
        OrganizationReport {
            lookups: self.lookups - before.lookups,
            misses: self.misses - before.misses,
            fetched_pages: self.fetched_pages - before.fetched_pages,
            displaced_pages: self.displaced_pages - before.displaced_pages,
            prefetched_pages: self.prefetched_pages - before.prefetched_pages,
            prefetch_hits: self.prefetch_hits - before.prefetch_hits,
            write_backs: self.write_backs - before.write_backs,
            tag_cache: self.tag_cache.map(|it| it.since(&before.tag_cache.unwrap_or_default())),
            miss_predictor: self
                .miss_predictor
                .map(|it| it.since(&before.miss_predictor.unwrap_or_default())),
            fill: self.fill.map(|it| it.since(&before.fill.unwrap_or_default())),
            traffic: self.traffic.since(&before.traffic),
            hams: self.hams.map(|hams| hams.since(&before.hams.unwrap_or_default())),
            promotion: self.promotion.map(|it| it.since(before.promotion.unwrap_or_default())),
            ..*self
        }
    }

    /// What it and another of the same kind counted together.
    #[must_use]
    pub fn together(&self, other: &OrganizationReport) -> OrganizationReport {
        let of = |report: &OrganizationReport| report.hams.unwrap_or_default();
        OrganizationReport {
            lookups: self.lookups + other.lookups,
            misses: self.misses + other.misses,
            fetched_pages: self.fetched_pages + other.fetched_pages,
            displaced_pages: self.displaced_pages + other.displaced_pages,
            prefetched_pages: self.prefetched_pages + other.prefetched_pages,
            prefetch_hits: self.prefetch_hits + other.prefetch_hits,
            write_backs: self.write_backs + other.write_backs,
            tag_store_bytes: self.tag_store_bytes + other.tag_store_bytes,
            tag_cache: self.tag_cache.map(|it| it.together(&other.tag_cache.unwrap_or_default())),
            miss_predictor: self
                .miss_predictor
                .map(|it| it.together(&other.miss_predictor.unwrap_or_default())),
            fill: self.fill.map(|it| it.together(&other.fill.unwrap_or_default())),
            traffic: self.traffic.together(&other.traffic),
            stale_reads: self.stale_reads + other.stale_reads,
            hams: self.hams.map(|_| of(self).together(&of(other))),
            promotion: self.promotion.zip(other.promotion).map(|(one, two)| one.together(two)),
        }
    }
}

/// What a user says of an organization.
pub trait OrganizationDescription {
    /// Its name in results: its table's, with hyphens for underscores.
    fn name(&self) -> &'static str;

    /// Whether it has a store, behind a link.
    fn needs_store(&self) -> bool {
        true
    }

    /// Whether it has DRAM.
    fn needs_dram(&self) -> bool {
        true
    }

    /// Whether it is given requests directly: the machine has neither processor nor operating system.
    fn stands_alone(&self) -> bool {
        false
    }

    /// The line that it is asked for, where it says so by itself; else it is that of the on-chip
    /// caches.
    fn line(&self) -> Option<Size> {
        None
    }

    /// Collects every semantic mistake of the description by itself, below `path`.
    fn check(&self, path: &str, problems: &mut Problems);

    /// Collects every contradiction between it and the machine around it, below `path`.
    fn check_with(&self, path: &str, machine: &Surroundings<'_>, problems: &mut Problems);

    /// Builds it, of descriptions that have been checked; `None` where the machine lacks what it
    /// needs.
    fn build(&self, machine: &Surroundings<'_>) -> Option<Box<dyn Organization>>;

    /// The DRAM that it has, of a description that has been checked.
    fn dram_size(&self) -> Option<DramSize> {
        None
    }

    /// The two nodes of memory that the operating system sees, where there are two.
    fn nodes(&self) -> Option<Nodes<'_>> {
        None
    }

    /// How the operating system pages its memory, where it does.
    fn paging(&self) -> Option<&StorageSpec> {
        None
    }
}

/// Two nodes of memory, DRAM before a slower one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nodes<'a> {
    /// DRAM; the slower memory follows in the addresses.
    pub near: Size,
    /// How the kernel moves pages between the two, if it does.
    pub balancing: Option<&'a BalancingSpec>,
}

/// How much DRAM an organization has, and where its description says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DramSize {
    /// The key, below the organization's table.
    pub key: &'static str,
    /// What it says.
    pub capacity: Size,
    /// What the capacity is a whole number of, besides pages of the operating system.
    pub part: Size,
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

/// Makes of the list of organizations their modules.
macro_rules! register {
    (
        policies $policies:tt
        media $media:tt
        links $links:tt
        devices $devices:tt
        organizations {
            $( $key:ident = $module:ident::$organization:ident($spec:ident), $summary:literal; )*
        }
    ) => {
        $( pub mod $module; pub use $module::{$organization, $spec}; )*

        /// Every organization, in the order of the list.
        pub const ORGANIZATIONS: &[crate::parts::Part] =
            &[ $( crate::parts::Part { key: stringify!($key), summary: $summary } ),* ];
    };
}

crate::parts!(register);
