//! Demand paging, page cache and swap: what the operating system decides on a fault or a file
//! call. It decides and keeps its tables; the machine carries out the transfers, charges the
//! paths and stops the threads.

mod allocation;
mod buffer_cache;
mod cached_pages;
mod direct;
mod extents;
mod faults;
mod file_calls;
mod file_system;
mod filling;
mod going;
mod huge;
mod inodes;
#[cfg(test)]
mod laws;
mod locked;
mod mappings;
mod pauses;
mod processes;
mod reclaim;
mod shmem;
#[cfg(test)]
pub(crate) mod small;
mod swap;
mod swap_area;
mod swap_discard;
mod tiers;
mod transfers;
mod used;
mod write_back;

use crate::organization::{InitialContent, StorageSpec};
use crate::os::address_space::{AddressSpace, Lock, Mapping, Pte, Rights};
use crate::os::buffer_cache::BufferCache;
use crate::os::file_system::FileSystem;
use crate::os::frames::{Frame, Frames, Owner};
use crate::os::readahead::{self, Folio, Pattern, Readahead};
use crate::os::reclaim::{Kind, Reclaim, ReclaimCounters, ReclaimPolicy, Shadow};
use crate::os::{InodeId, OsSpec, PathSpec};
use crate::request::Control;
use cached_pages::CachedPages;
pub use direct::{DirectCall, DirectNext};
use huge::{Huge, Room};
use inodes::Names;
use locked::Locks;
pub use locked::Populate;
pub use mappings::Unneeded;
use pauses::{Pace, Position};
use processes::Sharing;
pub use reclaim::Wakes;
use reclaim::Watermarks;
use shmem::Tmpfs;
pub use shmem::TmpfsSpec;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
pub use swap::SwapReadahead;
use swap::SwapWindow;
use swap_area::SwapArea;
use swap_discard::SwapClusters;
use tiers::Tiers;
pub use tiers::{Demoted, Scanned};
use tierscope_kernel::cow::CowMap;
use tierscope_kernel::slab::Slab;
use tierscope_kernel::stage::Stage;
use tierscope_units::Size;
use tierscope_workload::op::{
    Advice, FileId, MAP_HEAP, MAP_LOCKED, MAP_NO_ACCESS, MAP_SHARED, MAP_WRITABLE, NO_FILE,
};
use write_back::Dirty;
pub use write_back::FilePage;

/// Why the operating system cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OsError {
    /// What the memory control group may have is full, and nothing of it may be paged out.
    #[error(
        "the workload needs more than the {} of its memory control group (storage.memory_limit), and nothing of that may \
         leave{}{}; give it a larger value or the workload a smaller footprint",
        Size::from_bytes(*capacity_bytes), stays(*.swap_bytes), is_locked(*.locked_bytes)
    )]
    LimitReached {
        /// The limit.
        capacity_bytes: u64,
        /// Swap, where it is full.
        swap_bytes: Option<u64>,
        /// What the program has locked.
        locked_bytes: u64,
    },
    /// Main memory is full, and nothing may be paged out.
    #[error(
        "the workload needs more than the machine's main memory of {}{}{}; give \
         the system more capacity or the workload a smaller footprint",
        Size::from_bytes(*capacity_bytes), stays(*.swap_bytes), is_locked(*.locked_bytes)
    )]
    OutOfMemory {
        /// Main memory.
        capacity_bytes: u64,
        /// Swap, where it is full.
        swap_bytes: Option<u64>,
        /// What the program has locked.
        locked_bytes: u64,
    },
    /// Files and swap have met.
    #[error(
        "files and swap need more than the store's {}; give the store a larger capacity or the workload a smaller \
         footprint",
        Size::from_bytes(*capacity_bytes)
    )]
    StoreFull {
        /// The store.
        capacity_bytes: u64,
    },
    /// Files have met swap, which has a size of its own.
    #[error(
        "files need more than the {} that swap (storage.swap_capacity) leaves of the store's {}; give swap less, the \
         store a larger capacity or the workload a smaller footprint",
        Size::from_bytes(*left_bytes), Size::from_bytes(*capacity_bytes)
    )]
    SwapReached {
        /// What is left for files.
        left_bytes: u64,
        /// The store.
        capacity_bytes: u64,
    },
    /// What files of memory have at the start is more than swap.
    #[error(
        "files have more at the start than the {} of swap; give storage.swap_capacity a larger value or the workload a \
         smaller footprint",
        Size::from_bytes(*capacity_bytes)
    )]
    SwapFull {
        /// Swap.
        capacity_bytes: u64,
    },
    /// Files of a file system in memory have become too large.
    #[error(
        "files need more than the tmpfs's {}; give storage.tmpfs.capacity a larger value or the workload a smaller \
         footprint",
        Size::from_bytes(*capacity_bytes)
    )]
    TmpfsFull {
        /// What they may hold.
        capacity_bytes: u64,
    },
    /// What is to become durable at once is more than the journal has room for.
    #[error(
        "one transaction needs more than the journal's {}; give storage.file_system.journal_capacity a larger value",
        Size::from_bytes(*capacity_bytes)
    )]
    JournalFull {
        /// The journal.
        capacity_bytes: u64,
    },
}

/// Why anonymous memory stays, where swap is full.
fn stays(swap_bytes: Option<u64>) -> String {
    let full =
        |bytes| format!(", and swap is full: storage.swap_capacity, {}", Size::from_bytes(bytes));
    swap_bytes.map(full).unwrap_or_default()
}

/// Why memory stays that the program has locked.
fn is_locked(bytes: u64) -> String {
    if bytes == 0 {
        return String::new();
    }
    format!(", {} of it locked there (mlock)", Size::from_bytes(bytes))
}

/// A group of page transfers that one request makes; its threads wait for all of them.
pub type TransferId = u32;

/// One page of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageTransfer {
    /// Frame in main memory.
    pub frame: u64,
    /// Byte address in the store.
    pub store_address: u64,
}

/// A request to the store for one or several pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Its pages.
    pub pages: Vec<PageTransfer>,
    /// To the store.
    pub write: bool,
    /// Pages not yet moved.
    pub left: u32,
    /// Whether its paths through the kernel have been paid and it may go to the device.
    pub submitted: bool,
    /// It belongs to swap, not to a file: no file system in its path.
    pub swap: bool,
    /// What it is for.
    pub moves: Moves,
    /// Pages that reclaim has it write, to have their frames.
    leaving: u32,
    /// Files of which it writes pages that have been cut off meanwhile.
    cut_files: Vec<InodeId>,
}

impl Transfer {
    /// What it asks of the store instead of moving pages, where it does.
    pub fn control(&self) -> Option<Control> {
        match self.moves {
            Moves::Nothing => Some(Control::Flush),
            Moves::Discard { address, bytes } => Some(Control::Trim { address, bytes }),
            _ => None,
        }
    }
}

/// What a transfer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moves {
    /// Pages of files and of swap.
    Pages,
    /// Pages of a file, between the first and the one past the last, to or from a caller's buffer.
    Direct {
        /// The file.
        file: InodeId,
        /// Its first page.
        first: u64,
        /// The one past its last.
        past: u64,
    },
    /// Metadata of the file system.
    Metadata {
        /// With force unit access.
        forced: bool,
    },
    /// Nothing: the device writes what it has buffered.
    Nothing,
    /// Nothing: the device may forget these bytes.
    Discard {
        /// First byte on the store.
        address: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Nothing: it stands for a commit of the journal, and goes to no device.
    Commit,
    /// A page from the slower of two memories to DRAM, by whoever has accessed it.
    Promotion,
    /// Pages from DRAM to the slower memory.
    Demotion,
}

impl Transfer {
    /// Whether it writes pages of files.
    fn writes_files(&self) -> bool {
        self.write && !self.swap && self.moves == Moves::Pages
    }
}

/// Kernel work that a decision costs, to be done by the thread in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A path through the kernel, `times` over.
    Path(Stage, u32),
    /// Zeroing a frame, and then letting go of it.
    Clear(u64),
    /// Copying one frame to another, and then letting go of both.
    CopyFrame(u64, u64),
    /// A path of moving pages between memories, so many times over.
    Own(PathSpec, u32),
    /// Copying a page to the frame that it moves to, and then letting go of both; the transfer ends.
    MovePage {
        /// The transfer, which is of this page.
        transfer: TransferId,
        /// Frame that it leaves.
        from: u64,
        /// Frame that it moves to.
        to: u64,
    },
    /// Handing a transfer to the device.
    Submit(TransferId),
    /// Programming a page into the extended buffer cache, for which the thread stands still.
    Program {
        /// Frame that holds it, unless it has left that already.
        frame: Option<u64>,
        /// Byte address of its place in the store.
        store_address: u64,
        /// Picoseconds.
        stall_ps: u64,
    },
    /// Reading the page of a transfer from the extended buffer cache, for which the thread stands
    /// still; it fills the frame, and the transfer ends.
    Fetch {
        /// The transfer, which is of this page.
        transfer: TransferId,
        /// Frame that it fills.
        frame: u64,
        /// Picoseconds.
        stall_ps: u64,
    },
}

/// What is to be done next for a fault or a file page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The page is there, in this frame: go on.
    Ready(u64),
    /// Wait for the transfer, then ask again.
    Wait(TransferId),
    /// Sleep until this time, then ask again.
    Pause(u64),
    /// The page comes to this frame by the transfer: keep the frame, wait, and ask again.
    Arrives(TransferId, u64),
    /// All frames are in transfer: wait for any of them, then ask again.
    WaitForFrame,
}

/// What the hardware has to forget or to be told, as a consequence of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A translation is no longer valid.
    Shootdown(u64),
    /// No translation of these virtual pages is valid any more (`flush_tlb_mm`, arch/x86/mm/tlb.c).
    Flush(Range<u64>),
    /// The extended buffer cache has the page of this place in the store, as the store has it now.
    Kept(u64),
    /// It gives the page of this place.
    Given(u64),
}

counters! {
    /// Counters for the result.
    pub struct OsCounters {
        /// Faults served without the store.
        pub minor_faults,
        /// Faults that read from the store.
        pub major_faults,
        /// Requests for pages of files, those that were asked for alone included.
        pub readahead_requests,
        /// Pages read ahead of need, of files and from swap.
        pub readahead_pages,
        /// Of these, pages that were used afterwards.
        pub readahead_hits,
        /// Of these, pages that were reclaimed before they were used.
        pub readahead_wasted,
        /// Pages that a file call found in the page cache.
        pub page_cache_hits,
        /// Pages that a file call did not find there.
        pub page_cache_misses,
        /// Pages copied by stores to memory that processes share since a fork.
        pub fork_copies,
        /// Pages reclaimed.
        pub reclaimed_pages,
        /// Of these, pages that the kernel's own thread reclaimed.
        pub background_reclaimed_pages,
        /// Times that a writer had to wait because too much was dirty.
        pub throttled_writes,
        /// Pages written to the store: swap.
        pub swap_outs,
        /// Pages read from swap.
        pub swap_ins,
        /// File pages written to the store.
        pub file_write_backs,
        /// Page-table entries that scans for hot pages looked at.
        pub scanned_entries,
        /// Of these, entries that were taken away.
        pub protected_pages,
        /// Faults of pages whose entries had been taken away.
        pub hint_faults,
        /// Of these, pages that were hot enough to move, beside those that moved since there was much room.
        pub promotion_candidates,
        /// Pages moved to DRAM from the slower memory.
        pub promoted_pages,
        /// Pages moved out of DRAM to the slower memory.
        pub demoted_pages,
        /// Faults that made a huge page (`thp_fault_alloc`, /proc/vmstat).
        pub huge_page_faults,
        /// Faults that could have, and made a page (`thp_fault_fallback`).
        pub huge_page_fallbacks,
        /// Huge pages that became pages, not to leave as a whole.
        pub huge_page_splits,
        /// Huge pages that were written to swap as a whole (`thp_swpout`).
        pub huge_page_swap_outs,
        /// Pages that were locked in memory, each time they were (`unevictable_pgs_mlocked`, /proc/vmstat).
        pub locked_pages,
    }
}

/// What a range of virtual pages is to the program: one of its files, its heap, other anonymous
/// memory, or what it had without asking for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Area {
    /// A number for it; all ranges of the same sort, or of the same file, share it.
    pub index: u32,
    /// A range that it covers.
    pub pages: Range<u64>,
}

impl Area {
    /// Not mapped by a call: the program's image and its stack; and what the kernel touches on
    /// behalf of no file.
    pub const REST: u32 = 0;
    /// Grown by brk.
    pub const HEAP: u32 = 1;
    /// Other anonymous memory.
    pub const ANONYMOUS: u32 = 2;
    /// The first file; the others follow.
    pub const FILES: u32 = 3;
    /// Names of those that are no files.
    pub const NAMES: [&str; Area::FILES as usize] =
        ["image, stack and kernel", "heap", "anonymous memory"];

    /// The file of an index that stands for one, by its name.
    pub fn file(index: u32) -> Option<FileId> {
        index.checked_sub(Area::FILES)
    }
}

/// Limits of paging, in pages.
#[derive(Clone, Debug)]
struct Limits {
    fault_around: u64,
    largest_request: u64,
    swap_cluster: u64,
    swap_readahead: SwapReadahead,
    dirty_ratio: f64,
    dirty_background_ratio: f64,
    dirty_writeback_ps: u64,
    dirty_expire_ps: u64,
    watermark_scale: f64,
    store_bytes: u64,
    /// What the memory control group of the program may have.
    memory: u64,
    /// Drives over which the host deals what is asked for, and pages of a stripe.
    dealt: Option<(u64, u64)>,
}

#[derive(Clone, Debug)]
struct FileState {
    /// The name that it has, or had.
    name: FileId,
    /// How many have it open, or have calls of it under way.
    users: u32,
    size_bytes: u64,
    /// Pages that the store had when the file was first seen.
    stored_pages: u64,
    base_address: u64,
    /// Openings that it has been read by.
    openings: Vec<Opening>,
    /// Uses of it keep it in memory: not where it is said that nothing is used again (`FMODE_NOREUSE`, since 6.3).
    reused: bool,
    /// Since when it has dirty pages, if it has.
    dirtied_ps: Option<u64>,
    /// Where the flusher goes on with it (`writeback_index`).
    written_up_to: u64,
    /// The page behind the last that has been allocated without being written (fallocate).
    allocated_pages: u64,
    /// Pages that were allocated behind its end, of XFS.
    ahead: Range<u64>,
    /// It has been cut off since it was closed: who closes it has its new data written, so that a failure of power leaves no
    /// empty file where an old one was.
    cut_off: bool,
}

/// An opening of a file (`struct file`), as far as reads of it go.
#[derive(Clone, Debug)]
struct Opening {
    number: u32,
    readahead: Readahead,
    /// The page that the last read call by it ended in (`prev_pos`).
    last_read: Option<u64>,
    /// It has been closed, and mappings that were made by it have it still.
    closed: bool,
}

/// The operating system's memory management.
#[derive(Clone, Debug)]
pub struct Paging {
    page_bytes: u64,
    levels: u32,
    space: AddressSpace,
    frames: Frames,
    /// Frame of each cached file page, by [`file_key`].
    cache: CachedPages,
    /// Place in the store of each file page beyond what the store had at first; see [`extent`].
    extents: CowMap<u64>,
    names: Names,
    files: BTreeMap<InodeId, FileState>,
    store_end: u64,
    swap_start: u64,
    free_slots: Vec<u64>,
    /// Where swap has a size of its own.
    swap_area: Option<Box<SwapArea>>,
    /// Virtual page of each swap slot of anonymous memory, plus 1; and of one of a file [`file_key`], plus 1.
    slot_pages: CowMap<u64>,
    slot_files: CowMap<u64>,
    /// Frame that holds a slot's content, plus 1: the swap cache.
    slot_frames: CowMap<u64>,
    /// What is left of evicted pages: of files by [`file_key`], of anonymous memory by slot.
    shadows: CowMap<u64>,
    slot_shadows: CowMap<u64>,
    swap_windows: BTreeMap<u64, SwapWindow>,
    dirty: Dirty,
    /// How quickly the store writes, and pages become dirty.
    pace: Pace,
    /// Whoever asks can pause.
    pauses: bool,
    /// Whoever makes too much dirty has to wait.
    holds_back: bool,
    sharing: Sharing,
    policy: ReclaimPolicy,
    reclaim: Reclaim,
    /// Where there are huge pages beside others.
    huge: Option<Box<Huge>>,
    /// Once any memory was locked.
    locks: Option<Box<Locks>>,
    /// What comes into memory does so in a fault of a mapping whose uses count (`in_lru_fault`).
    in_fault: bool,
    watermarks: Watermarks,
    /// Frames that were not the kernel's from the start.
    managed: u64,
    wakes: Wakes,
    limits: Option<Limits>,
    /// Nodes of memory, one or two, and how pages move between two.
    nodes: usize,
    tiers: Option<Box<Tiers>>,
    readahead: readahead::Limits,
    /// The opening of a file by which calls and faults read at the moment, and how many there have been.
    opening: u32,
    openings: u32,
    /// The thread that asks at the moment, and by threads the page of a fault that has read what it needs, and comes again
    /// (`FAULT_FLAG_TRIED`).
    thread: u32,
    tried: BTreeMap<u32, FilePage>,
    prefilled: bool,
    transfers: Slab<Transfer>,
    /// Direct calls of which a transfer is under way.
    direct_calls: u32,
    /// Pages that reclaim has being written.
    leaving: u64,
    /// The level between page cache and store, where there is one.
    buffer_cache: Option<BufferCache>,
    file_system: Option<FileSystem>,
    /// All files are in memory and swap.
    tmpfs: Option<Tmpfs>,
    /// What is being discarded: pages that may get their places again, and the places.
    discarded: BTreeMap<TransferId, Vec<(FilePage, u64)>>,
    /// Where swap is discarded.
    swap_clusters: Option<Box<SwapClusters>>,
    /// Without one, files are the device's own pages: a sync of them asks it to flush what it buffers.
    flushes_device: bool,
    /// Work for it that nobody was there to do.
    owed: Vec<Work>,
    /// The time, as far as it has been told.
    now_ps: u64,
    /// The device's queue is full of reads.
    reads_are_congested: bool,
    effects: Vec<Effect>,
    /// Requests of readahead, where they are watched.
    watched: Option<Vec<(InodeId, Vec<Folio>)>>,
    /// Counters for the result.
    pub counters: OsCounters,
}

/// The transfer of a frame that is about to enter one.
const HELD: u32 = u32::MAX;

/// What a word says of a page's place in the store, beside the place's address.
mod extent {
    /// The place holds the page, or is being written with it.
    pub const HOLDS: u64 = 1;
    /// The page was cut off: the place holds nothing that counts.
    pub const FREE: u64 = 2;
    /// The place is the page's, and has not been written: the page reads as zeros.
    pub const UNWRITTEN: u64 = 4;
    /// All; addresses are whole pages.
    pub const FLAGS: u64 = HOLDS | FREE | UNWRITTEN;
}

fn file_key(file: InodeId, index: u64) -> u64 {
    u64::from(file) << 36 | index
}

impl Paging {
    /// All pages of a file.
    pub const ALL_PAGES: Range<u64> = 0..u64::MAX;

    /// The host deals what is asked for over so many drives, in stripes: what each is asked for is a request of its own, with
    /// its paths (`raid0_make_request`, drivers/md/raid0.c).
    pub fn deal(&mut self, drives: u64, stripe_bytes: u64) {
        let stripe_pages = (stripe_bytes / self.page_bytes).max(1);
        if let Some(limits) = &mut self.limits {
            limits.dealt = Some((drives, stripe_pages));
        }
    }

    /// Memory management over `memory_bytes` of main memory. Without `storage` nothing is ever
    /// paged out, and files lie in memory.
    pub fn new(
        os: &OsSpec,
        levels: u32,
        memory_bytes: u64,
        storage: Option<(&StorageSpec, u64)>,
        seed: u64,
    ) -> Self {
        let page_bytes = os.page.bytes();
        let total = memory_bytes / page_bytes;
        let limits = storage.map(|(spec, store_bytes)| Limits {
            fault_around: (spec.fault_around.bytes() / page_bytes).max(1),
            largest_request: (spec.largest_request.bytes() / page_bytes).max(1),
            swap_cluster: u64::from(spec.swap_cluster_pages),
            swap_readahead: spec.swap_readahead,
            dirty_ratio: spec.dirty_ratio,
            dirty_background_ratio: spec.dirty_background_ratio,
            dirty_writeback_ps: spec.dirty_writeback.picoseconds(),
            dirty_expire_ps: spec.dirty_expire.picoseconds(),
            watermark_scale: spec.watermark_scale,
            store_bytes,
            memory: spec.memory_limit.map_or(u64::MAX, |limit| limit.bytes() / page_bytes),
            dealt: None,
        });
        let policy = storage.map_or(ReclaimPolicy::Fifo, |(spec, _)| spec.reclaim);
        let reclaim = storage.map_or_else(Reclaim::nothing, |(spec, _)| {
            Reclaim::new(policy, spec.swappiness, total, page_bytes)
        });
        let scale = storage.map_or(0.0, |(spec, _)| spec.watermark_scale);
        let allocation = os.allocation;
        let huge = Huge::of(os, policy);
        let mut frames = Frames::new(total, allocation, storage.is_none(), seed);
        if huge.is_some() {
            frames.keep_blocks();
        }
        Paging {
            page_bytes,
            levels,
            space: AddressSpace::default(),
            frames,
            cache: CachedPages::new(),
            extents: CowMap::new(0),
            names: Names::default(),
            files: BTreeMap::new(),
            store_end: 0,
            swap_start: storage.map_or(0, |(spec, store_bytes)| {
                store_bytes - spec.swap_capacity.map_or(0, Size::bytes)
            }),
            free_slots: Vec::new(),
            swap_area: storage
                .and_then(|(spec, _)| spec.swap_capacity)
                .map(|capacity| Box::new(SwapArea::new(capacity.bytes() / page_bytes))),
            slot_pages: CowMap::new(0),
            slot_files: CowMap::new(0),
            slot_frames: CowMap::new(0),
            shadows: CowMap::new(0),
            slot_shadows: CowMap::new(0),
            swap_windows: BTreeMap::new(),
            dirty: Dirty::default(),
            pace: Pace::new(page_bytes),
            pauses: false,
            policy,
            reclaim,
            in_fault: false,
            watermarks: Watermarks::new(total, page_bytes, (scale, huge.is_some())),
            huge,
            locks: None,
            managed: total,
            wakes: Wakes::default(),
            sharing: Sharing::new(),
            limits,
            nodes: 1,
            tiers: None,
            readahead: storage
                .map_or(readahead::Limits::NONE, |(spec, _)| spec.readahead_limits(page_bytes)),
            opening: 0,
            openings: 0,
            thread: 0,
            tried: BTreeMap::new(),
            prefilled: storage.is_some_and(|(s, _)| s.initial == InitialContent::Prefilled),
            transfers: Slab::new(),
            direct_calls: 0,
            effects: Vec::new(),
            leaving: 0,
            buffer_cache: None,
            file_system: None,
            tmpfs: storage.and_then(|(spec, _)| Tmpfs::of(spec.tmpfs.as_ref()?, page_bytes)),
            discarded: BTreeMap::new(),
            swap_clusters: None,
            flushes_device: false,
            owed: Vec::new(),
            now_ps: 0,
            reads_are_congested: false,
            holds_back: true,
            watched: None,
            counters: OsCounters::default(),
        }
    }

    /// About the bytes that this computer needs for a page that is used: its frame, its entry in the
    /// page table, its places among files and swap slots, in their reverse maps and among what is left
    /// of evicted pages (8 bytes each), its place in the lists of reclaim, and its entry among dirty
    /// pages (16 bytes in a tree at least half full).
    pub const BYTES_PER_PAGE: u64 = size_of::<Frame>() as u64 + 7 * 8 + 12 + 32;

    /// Bytes of a page.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// The most that was in use at once, in bytes.
    pub fn most_used_bytes(&self) -> u64 {
        self.frames.most_used() * self.page_bytes
    }

    /// The entry of a virtual page.
    #[inline]
    pub fn entry(&self, page: u64) -> Pte {
        self.space.get(page)
    }

    /// A translation was read by the hardware: its frame counts as used.
    #[inline]
    pub fn touch(&mut self, frame: u64) {
        if self.ages_pages() {
            self.use_frame(frame);
        }
    }

    /// Whether reclaim looks at pages, to page them out or to move them to another node.
    #[inline]
    fn ages_pages(&self) -> bool {
        self.limits.is_some() || self.tiers.is_some()
    }

    /// A page-table entry of a frame is used.
    #[inline]
    fn use_frame(&mut self, frame: u64) {
        let frame = if self.huge.is_some() { self.frames.get(frame).head(frame) } else { frame };
        self.frames.get_mut(frame).young = true;
        self.note_use(frame);
    }

    /// A frame is used: if it was read ahead, that was right.
    #[inline]
    fn note_use(&mut self, frame: u64) {
        if self.frames.get(frame).cached.ahead {
            self.frames.get_mut(frame).cached.ahead = false;
            self.counters.readahead_hits += 1;
        }
        if self.reclaim.is_told_of_uses() {
            self.reclaim.used(frame);
        }
    }

    /// What reclaim has done.
    pub fn reclaim_counters(&self) -> ReclaimCounters {
        self.reclaim.counters()
    }

    /// Frames that are free now, and pages that reclaim has taken so far.
    pub fn free_and_reclaimed(&self) -> (u64, u64) {
        (self.frames.free(), self.counters.reclaimed_pages)
    }

    /// Takes what the hardware has to be told.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// A transfer under way.
    pub fn transfer(&self, id: TransferId) -> &Transfer {
        &self.transfers[id]
    }

    /// Whether a transfer is under way: ids are used again after its end.
    pub fn transfer_exists(&self, id: TransferId) -> bool {
        self.transfers.get(id).is_some()
    }

    /// Whether any transfer is under way.
    pub fn transfers_under_way(&self) -> bool {
        !self.transfers.is_empty()
    }

    /// The pages of files that stores to a range of bytes reach, mapping by mapping: what msync is about.
    pub fn shared_in(&self, address: u64, length: u64) -> Vec<(InodeId, Range<u64>)> {
        let mut files = self.all_shared_in(address, length);
        files.retain(|(file, _)| !processes::is_object(*file));
        files
    }

    /// The same, and of memory that processes share.
    pub fn all_shared_in(&self, address: u64, length: u64) -> Vec<(InodeId, Range<u64>)> {
        let first = address / self.page_bytes;
        let past = address.saturating_add(length).div_ceil(self.page_bytes);
        self.space.shared_in(first, past.saturating_sub(first))
    }

    /// Whether anything is mapped within so many bytes from an address on.
    pub fn maps(&self, address: u64, length: u64) -> bool {
        let past = address.saturating_add(length).div_ceil(self.page_bytes);
        self.mappings_within(address / self.page_bytes..past).next().is_some()
    }

    /// Physical addresses of the entries that a walk for `page` reads, from the last level to the first, and how many
    /// they are: of a huge page one less. The page-table pages have to exist.
    pub fn walk_addresses(&self, page: u64, is_huge: bool) -> ([u64; 5], usize) {
        let mut addresses = [0; 5];
        let levels = u32::from(is_huge).min(self.levels - 1)..self.levels;
        for (address, level) in addresses.iter_mut().zip(levels.clone()) {
            let frame = self.space.table_frame(level, page).unwrap_or(0);
            let index = page >> (9 * level) & 511;
            *address = frame * self.page_bytes + index * 8;
        }
        (addresses, levels.len())
    }

    /// Whether any access to a frame faults, however it is mapped.
    #[inline]
    pub fn is_protected(&self, frame: u64) -> bool {
        self.tiers.is_some() && self.frames.get(frame).protected
    }

    /// Whether all page-table pages for `page` exist, so that it can be walked.
    pub fn tables_exist(&self, page: u64) -> bool {
        (0..self.levels).all(|level| self.space.table_frame(level, page).is_some())
    }

    fn make_tables(
        &mut self,
        page: u64,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<bool, OsError> {
        // Where huge pages may come, a table of entries says that one may not: it is made last.
        let from_top = self.huge.is_some();
        for nth in 0..self.levels {
            let level = if from_top { self.levels - 1 - nth } else { nth };
            if self.space.table_frame(level, page).is_none() {
                let Some(frame) = self.allocate(Owner::Kernel, work, held)? else {
                    return Ok(false);
                };
                self.space.set_table_frame(level, page, frame);
            }
        }
        Ok(true)
    }

    /// Frames beside each other for the kernel's own data, taken before anything runs; the first.
    pub fn reserve_for_kernel(&mut self, frames: u64) -> Result<u64, OsError> {
        let first = self.frames.reserve(frames).ok_or(self.out_of_memory())?;
        self.managed -= frames;
        let scale = self.limits.as_ref().map_or(0.0, |limits| limits.watermark_scale);
        let makes_huge = self.huge.is_some();
        self.watermarks = Watermarks::new(self.managed, self.page_bytes, (scale, makes_huge));
        self.set_marks();
        Ok(first)
    }

    fn out_of_memory(&self) -> OsError {
        OsError::OutOfMemory {
            capacity_bytes: self.frames.total() * self.page_bytes,
            swap_bytes: self.full_swap_bytes(),
            locked_bytes: self.locked_bytes(),
        }
    }

    /// A second one; large tables are shared until written.
    pub fn fork(&mut self) -> Self {
        Paging {
            space: self.space.fork(),
            frames: self.frames.fork(),
            discarded: self.discarded.clone(),
            swap_clusters: self.swap_clusters.clone(),
            cache: self.cache.fork(),
            extents: self.extents.fork(),
            names: self.names.clone(),
            files: self.files.clone(),
            free_slots: self.free_slots.clone(),
            swap_area: self.swap_area.as_mut().map(|area| Box::new(area.fork())),
            slot_pages: self.slot_pages.fork(),
            slot_files: self.slot_files.fork(),
            slot_frames: self.slot_frames.fork(),
            shadows: self.shadows.fork(),
            slot_shadows: self.slot_shadows.fork(),
            swap_windows: self.swap_windows.clone(),
            reclaim: self.reclaim.fork(),
            huge: self.huge.clone(),
            locks: self.locks.clone(),
            dirty: self.dirty.clone(),
            pace: self.pace.clone(),
            sharing: self.sharing.fork(),
            limits: self.limits.clone(),
            tiers: self.tiers.as_mut().map(|tiers| Box::new(tiers.fork())),
            transfers: self.transfers.clone(),
            effects: self.effects.clone(),
            buffer_cache: self.buffer_cache.as_mut().map(BufferCache::fork),
            file_system: self.file_system.clone(),
            owed: self.owed.clone(),
            watched: self.watched.clone(),
            tried: self.tried.clone(),
            ..*self
        }
    }
}
