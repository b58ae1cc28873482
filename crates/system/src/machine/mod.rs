//! A machine: cores, on-chip caches, operating system and organization over one clock.
//!
//! Hardware threads run their operations in batches, ahead of all else, as far as nothing that
//! happens elsewhere could matter: up to the next event, and no further ahead of another running
//! hardware thread than the time that an access takes to leave its core (`lookahead_ps`). All that
//! concerns more than one core happens in events, ordered by time and, at equal times, by source
//! and each source's own count. So the length of batches never changes a result.

mod account;
mod areas;
mod between;
mod calls;
mod causes;
mod coherence;
mod copies;
mod core;
mod counts;
mod daemons;
mod dependence;
mod direct;
mod durable;
mod faults;
mod files;
mod interrupts;
mod kernel;
mod locks;
mod long_reads;
mod memory;
mod past;
mod polling;
mod power;
mod prefetch;
mod recorded_windows;
mod region;
mod request_log;
mod requests;
mod sample;
mod sites;
mod thread;
mod tiering;
mod timed;
mod transfer_times;
mod transfers;
mod warm;

pub use region::{Bound, Warming, mark};
use request_log::RequestLog;
pub use sample::Plan as SamplingPlan;

use self::thread::{Access, State, Thread, Trap};
use crate::run::{RunOptions, Sampling, TOO_LONG, check_sampling};
use crate::spec::SystemSpec;
use account::Account;
use between::Between;
use coherence::{Claim, Coherence};
use daemons::{Daemon, Daemons};
use durable::Syncing;
use interrupts::{Dealt, Handler, Interrupted};
use locks::LockedInodes;
use memory::{Door, Miss, PageIo, TransferIo};
use polling::ServiceTimes;
use prefetch::Prefetch;
use recorded_windows::Windows;
use region::Region;
use requests::block_layer;
use sample::{Sampler, Seen, Waits};
use std::collections::{BTreeMap, VecDeque};
use tierscope_kernel::{Clock, CowMap, EventQueue, MOST_TIME_PS, Pace, Slab, Timeline};
use tierscope_model::device::InDram;
use tierscope_model::organization::{Durable, Organization, PagesMoved};
use tierscope_model::os::OsSpec;
use tierscope_model::os::block_layer::{BlockLayer, BlockLayerSpec};
use tierscope_model::os::driver::DriverSpec;
use tierscope_model::os::file_system::FileSystemSpec;
use tierscope_model::os::inode_locks::InodeLocks;
use tierscope_model::os::paging::{Area, OsError, Paging, TransferId};
use tierscope_model::processor::ProcessorSpec;
use tierscope_model::processor::energy::Occupancy;
use tierscope_model::processor::on_chip::{DirtyLine, Stack};
use tierscope_model::processor::prefetch::LinePrefetcher;
use tierscope_model::processor::tlb::Tlb;
use tierscope_model::processor::window::{Sizes, Window};
use tierscope_model::request::Response;
use tierscope_workload::{SiteGrain, Stream, StreamError};

/// Why a machine cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// The operating system cannot serve the workload.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The workload's operations cannot be had.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// All threads wait, and nothing is under way that could wake one.
    #[error("the workload waits for ever: {0}")]
    Deadlock(String),
    /// What is under way takes longer than time is counted.
    #[error("{TOO_LONG}")]
    TooLong,
    /// What is told of single requests cannot be written.
    #[error("{0}")]
    RequestLog(String),
    /// The run cannot be sampled as asked.
    #[error("{0}")]
    CannotSample(String),
    /// The description lacks its organization or its store; a checked one does not.
    #[error("the system has no organization that can be built; check its description")]
    Incomplete,
    /// The workload's operations make no sense.
    #[error("the workload's stream of thread {thread} is damaged: {reason}")]
    BadOperation {
        /// The thread.
        thread: u32,
        /// What is wrong.
        reason: String,
    },
}

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// A miss arrives at the shared caches.
    Shared(u32),
    /// A miss arrives at main memory.
    Memory(u32),
    /// A miss's line arrives from the shared caches.
    Arrive(u32),
    /// A miss has its data, from its core's own caches.
    Finish(u32),
    /// What passes the caches by, or was flushed from them, is done.
    Passed(u32),
    /// A hardware thread waits for a miss that takes long.
    Long(u32),
    /// Cores learn, in functional warming, that a line has left all caches, or is clean there.
    Leave(u64, bool),
    /// A core's prefetcher asks for a line.
    Prefetch(u32, u64),
    /// A dirty line arrives at the shared caches.
    PutDirty(u32),
    /// Other cores learn that one has a line, and whether for itself, in functional warming.
    Claim(u64, Claim),
    /// Cores learn that a level of the shared caches, which is inclusive, has dropped a line, in functional
    /// warming.
    Recall(u32, u64),
    /// Inclusive shared caches learn of a line that a lone core has written as a whole.
    Include(u64),
    /// A hardware thread enters the kernel.
    Trap(usize),
    /// A software thread becomes ready.
    Wake(u32),
    /// A thread of the kernel goes on.
    Daemon(Daemon),
    /// A scheduler of the block layer has let the device stand still for long enough.
    Dispatch,
    /// It is time to look for pages that have been dirty for long.
    FlushOld,
    /// It is time to look for a transaction of the journal that is old.
    CommitOld,
    /// It is time to take entries of the page table away, to find hot pages.
    Scan,
    /// A transfer has ended that took no time, in functional warming.
    Transferred(TransferId),
    /// A flush for syncs would have ended that was passed over.
    Flushed,
    /// A part of an interval of the result ends.
    Interval,
    /// The region of interest begins or ends.
    Bound,
    /// A sampled machine goes on to its next phase.
    Sample,
    /// What lies between the windows of a recording begins, or ends.
    Between,
}

/// What a hardware thread does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Nothing: no thread is ready for it.
    Idle,
    /// It runs its software thread.
    Running,
    /// It waits for a miss.
    Stalled(u32),
    /// It asks the store's device again and again whether a transfer has ended.
    Polling,
    /// It is about to enter the kernel.
    Entering,
}

/// A hardware thread.
#[derive(Clone, Debug)]
struct Context {
    core: usize,
    doing: Doing,
    /// The software thread that it runs.
    thread: usize,
    now_ps: u64,
    /// Hardware threads of its core that have instructions to run, this one included: they share the pace.
    share: u64,
    /// Time of program instructions, and of the kernel's.
    pace: Pace,
    kernel_pace: Pace,
    window: Window,
    /// Lines that it waits for, each with its miss.
    pending: Vec<(u64, u32)>,
    /// The line past the caches that it has written last, in functional warming.
    past: u64,
    /// Why it is about to enter the kernel.
    trap: Option<Trap>,
    interrupted: Interrupted,
    slice_end_ps: u64,
    /// The area of the miss before, and where it lies.
    area: Area,
}

/// A core: what its hardware threads share.
#[derive(Debug)]
struct Core {
    caches: Stack,
    tlb: Tlb,
    occupancy: Occupancy,
    /// It has had a thread.
    active: bool,
    prefetcher: Option<LinePrefetcher>,
    /// Lines that it waits for, into the shared caches.
    prefetching: u32,
    /// Lines that it waits for, into the core's own, each with its miss.
    ahead: Vec<(u64, u32)>,
}

/// What does not change while a machine runs.
#[derive(Clone, Debug)]
struct Fixed {
    line_shift: u32,
    page_shift: u32,
    threads_per_core: usize,
    /// What a core has in flight, where its hardware threads share it.
    divided: Option<Sizes>,
    /// What instructions of a core's whole reorder window take, where one hardware thread has it.
    window_ps: u64,
    second_tlb_ps: u64,
    /// Time that an access takes to leave its core.
    lookahead_ps: u64,
    interval_sources: u16,
    batch_limit: u64,
    time_slice_ps: u64,
    host_queue_depth: u64,
    paging: bool,
    /// Which locks of files calls take, and whether one that reads past the page cache gives its up before its end.
    inode_locks: InodeLocks,
    reads_let_go: bool,
    /// When what memory has taken outlives a failure of power, where files lie in it.
    durable: Durable,
    /// The store is read and written line by line.
    lines_of_store: bool,
    /// What a sampled run passes over asks the store for pages in detail.
    asks_store: bool,
    /// Bytes of the pages that move beside; 0 where none do.
    promoted_page_bytes: u64,
    /// Pages move by the hand of hardware or of the kernel's own threads: on-chip caches are asked for their lines.
    snoops: bool,
    /// The driver of the store, where something is said of it.
    driver: Option<DriverSpec>,
    /// All cores share a cache.
    shares_cache: bool,
    /// Main memory tells of reads that take long.
    tells: bool,
    /// How long the lock of a queue of the block layer is held for a request; 0 where there is none.
    queue_lock_ps: u64,
    /// Where the store lies in DRAM, if it does.
    in_dram: Option<InDram>,
    /// Over which drives the host deals what it asks for, if it does.
    dealt: Option<Dealt>,
    /// First byte in DRAM of a store that lies there.
    memory_bytes: u64,
    clock: Clock,
    /// Of instructions of the program, and of the kernel's, in detail.
    pace: Pace,
    kernel_pace: Pace,
    /// First physical line of the kernel's own data.
    kernel_line: u64,
    check_data: bool,
    /// How finely sites of the program's code are told apart, if they are.
    sites: Option<SiteGrain>,
}

/// Instructions of a string operation for each line that it copies.
const COPY_INSTRUCTIONS: u64 = 2;
/// Lines of kernel data that paths touch, in turn: 1 MiB.
const KERNEL_LINES: u64 = 1 << 14;

/// A machine with the workload that runs on it.
pub struct Machine {
    spec: SystemSpec,
    os: OsSpec,
    fixed: Fixed,
    stream: Box<dyn Stream>,
    cores: Vec<Core>,
    shared: Stack,
    contexts: Vec<Context>,
    threads: Vec<Thread>,
    ready: VecDeque<usize>,
    organization: Box<dyn Organization>,
    /// Organizations that are asked beside it, where only counts are wanted.
    beside: Vec<counts::Beside>,
    paging: Paging,
    queue: EventQueue<Event>,
    misses: Slab<Miss>,
    /// What asked main memory for a line, by line: a miss, or a prefetch ([`PREFETCH`] and its number).
    line_misses: BTreeMap<u64, u32>,
    coherence: Coherence,
    prefetches: Slab<Prefetch>,
    /// Lines that a prefetcher has just named.
    ahead: Vec<u64>,
    /// Prefetches that found no room, and misses that came for a line on its way.
    refused_ahead: Seen,
    late_ahead: Seen,
    refused_left: f64,
    late_left: f64,
    outgoing: Door,
    /// What those lines have waited for whose answer makes room: all that it went through, waiting for
    /// room included.
    made_room: Timeline,
    page_queue: VecDeque<u32>,
    /// What makes requests of them, where something does; then they wait in it.
    block_layer: Option<BlockLayer>,
    /// When it is asked again, if it lets the device stand still.
    dispatch_ps: u64,
    pages: Slab<PageIo>,
    pages_at_device: u64,
    transfers: BTreeMap<TransferId, TransferIo>,
    /// How long requests have taken, where who polls sleeps before.
    service_times: Option<ServiceTimes>,
    handler: Option<Handler>,
    /// When the driver's lock is free.
    driver_free_ps: u64,
    /// When the lock of each queue of the block layer is free.
    queues_free_ps: BTreeMap<usize, u64>,
    waiting_for_frame: Vec<usize>,
    /// The processes of pages that were unmapped, of which other cores have not been told yet.
    shot_down: Vec<u64>,
    /// Those of the kernel's own threads, and of programs'; and what is left over of the former in functional warming.
    shootdowns: [Seen; 2],
    shootdowns_left: f64,
    inode_locks: LockedInodes,
    daemons: Daemons,
    /// The next scan for hot pages is among the events.
    scan_is_due: bool,
    /// Scans so far: threads take turns in them.
    scans: u64,
    /// By 64 lines: those that may be in on-chip caches.
    on_chip: CowMap<u64>,
    account: Account,
    region: Region,
    /// Accesses and transfers take no time: what is done only warms the machine.
    functional: bool,
    waits: Waits,
    /// Pages that an access in functional warming has moved.
    warm_moved: PagesMoved,
    /// Time of the store, in functional warming, for which accesses have yet to wait.
    store_debt_ps: u64,
    /// Where the run is sampled.
    sampler: Option<Box<Sampler>>,
    /// Of a recording of windows, where all of it is counted.
    windows: Option<Windows>,
    between: Between,
    responses: Vec<Response>,
    /// Dirty lines that a core's caches, and the shared ones, have just dropped.
    evicted: Vec<DirtyLine>,
    dropped: Vec<DirtyLine>,
    /// Dirty lines on their way from a core to the shared caches.
    posted: Vec<(u32, DirtyLine)>,
    /// How many there have been.
    posts: u32,
    /// Room for accesses that join a miss, kept to spare the allocation.
    spare: Vec<Vec<memory::Merged>>,
    /// How much queues hold, as they are looked at.
    depths: Vec<(&'static str, u64)>,
    /// A batch ended because the program has yet to do what comes next.
    starved: bool,
    /// Until when nothing happens but what the hardware thread of the batch does.
    alone_until_ps: u64,
    /// What is followed of files, where power may fail.
    followed: Option<Box<power::Followed>>,
    /// The same where they lie in main memory.
    followed_lines: Option<Box<power::FollowedLines>>,
    /// Those who wait for memory to keep what it has taken.
    syncing: Syncing,
    /// What is told of single requests, where that is asked for.
    request_log: Option<Box<RequestLog>>,
}

impl Machine {
    /// Builds the machine of a validated description, with a workload about to start.
    pub fn new(
        spec: &SystemSpec,
        stream: Box<dyn Stream>,
        options: &RunOptions,
    ) -> Result<Self, MachineError> {
        let (Some(processor), Some(os)) = (&spec.processor, &spec.os) else {
            return Err(MachineError::Incomplete);
        };
        let clock = Clock::from_hertz(processor.clock.hertz());
        let private = || processor.caches.iter().filter(|c| !c.shared);
        let line_shift = processor.caches[0].line.bytes().trailing_zeros();
        let page_shift = os.page.bytes().trailing_zeros();
        let tlb = processor.tlb.of_pages(os.page);
        let prefetcher = || {
            let spec = processor.prefetch.as_ref()?;
            Some(LinePrefetcher::new(spec, page_shift - line_shift))
        };
        let cores: Vec<Core> = (0..processor.cores)
            .map(|_| Core {
                caches: Stack::new(private(), clock, spec.check_data),
                tlb: match os.transparent_huge_pages.is_never() {
                    true => Tlb::new(&tlb),
                    false => Tlb::with_huge_pages(&processor.tlb, os.page),
                },
                occupancy: Occupancy::default(),
                active: false,
                prefetcher: prefetcher(),
                prefetching: 0,
                ahead: Vec::new(),
            })
            .collect();
        let shared = processor.caches.iter().filter(|c| c.shared);
        let mut shared = Stack::new(shared, clock, spec.check_data);
        let organization = spec.build_organization().ok_or(MachineError::Incomplete)?;
        if organization.takes_clean() {
            shared.tell_clean();
        }
        let pages_to = spec.paging();
        let mut paging =
            Paging::new(os, tlb.levels, organization.memory_bytes(), pages_to, spec.seed);
        if stream.tells_mappings() {
            paging.all_is_mapped();
        }
        if let Some(raid) = spec.software_raid() {
            paging.deal(u64::from(raid.drives), raid.stripe.bytes());
        }
        if let Some(cache) = spec.build_buffer_cache() {
            paging.add_buffer_cache(cache);
        }
        let buffers = organization.takes_control();
        let trims = spec.knows_trims(buffers);
        if pages_to.is_some_and(|(storage, _)| storage.swap_discard && trims) {
            paging.discard_free_swap();
        }
        if let Some(nodes) = spec.nodes() {
            paging.add_nodes(nodes.balancing, nodes.near.bytes(), os.allocation, spec.seed);
        }
        let kernel_line = reserve_kernel(&mut paging, line_shift, page_shift)?;
        if let Some(system) = pages_to.and_then(|(storage, _)| storage.file_system.clone()) {
            let discard = system.discard && trims;
            paging.add_file_system(&FileSystemSpec { discard, ..system }, buffers)?;
        } else if buffers {
            paging.flush_device_at_syncs();
        }
        let private_depth = cores[0].caches.depth();
        let driver = pages_to.and_then(|(storage, _)| storage.driver.as_ref());
        let inode_locks = InodeLocks::of(pages_to.map(|(storage, _)| storage));
        let completion = driver.map(|driver| driver.completion).unwrap_or_default();
        let sleeps_first = driver.is_some_and(DriverSpec::sleeps_first);
        let service_times = sleeps_first.then(ServiceTimes::default);
        let promotion = spec.tiered.as_ref().and_then(|tiered| tiered.promotion.as_ref());
        let pace = Pace::new(clock, millionths(processor.base_cpi), 1_000_000);
        let fixed = Fixed {
            line_shift,
            page_shift,
            threads_per_core: processor.threads_per_core as usize,
            divided: processor.partitioned.then(|| processor.in_flight()),
            window_ps: pace.clone().advance(processor.reorder_window.into()),
            second_tlb_ps: clock.cycles_to_ps(processor.tlb.second_level_cycles()),
            lookahead_ps: cores[0].caches.latency_ps(private_depth - 1),
            interval_sources: (processor.cores * processor.threads_per_core) as u16 + 1,
            batch_limit: if options.batch_limit == 0 { u64::MAX } else { options.batch_limit },
            time_slice_ps: os.time_slice.picoseconds(),
            // The kernel's thread moves a page at a time from one node to another.
            host_queue_depth: pages_to.map_or(1, |(paging, _)| u64::from(paging.host_queue_depth)),
            paging: pages_to.is_some(),
            inode_locks,
            reads_let_go: inode_locks.lets_go_early(completion),
            durable: match pages_to {
                Some(_) => Durable::Never,
                None => organization.durable(),
            },
            asks_store: spec.asks_store_throughout(),
            lines_of_store: spec.direct.is_some() || spec.tiered.is_some(),
            promoted_page_bytes: promotion.map_or(0, |it| it.page.bytes()),
            snoops: pages_to.is_some() || paging.moves_between_nodes(),
            driver: pages_to.and_then(|(storage, _)| storage.driver.clone()),
            shares_cache: processor.caches.iter().any(|cache| cache.shared),
            queue_lock_ps: pages_to
                .and_then(|(storage, _)| storage.block_layer.as_ref())
                .map_or(0, BlockLayerSpec::lock_ps),
            in_dram: pages_to.and_then(|_| spec.store_in_dram()),
            dealt: Dealt::of(spec),
            memory_bytes: organization.memory_bytes(),
            tells: organization.tells_of_long_reads(),
            clock,
            pace,
            kernel_pace: Pace::new(clock, millionths(os.kernel_cpi), 1_000_000),
            kernel_line,
            check_data: spec.check_data,
            sites: options.sites,
        };
        let ps = |cycles| clock.cycles_to_ps(u64::from(cycles));
        let coherence = Coherence::new(processor, fixed.lookahead_ps, ps);
        let can_warm = !spec.check_data && organization.can_warm();
        let quickest = match can_warm {
            true => Warming::Functional,
            false if spec.prefetches() && !spec.check_data => Warming::Untimed,
            false => Warming::Detailed,
        };
        let region = Region::new(options, quickest);
        let contexts = contexts(processor, &fixed);
        paging.set_processors(contexts.len());
        let mut machine = Machine {
            contexts,
            account: Account::new(private_depth, spec.check_data, options.sites.is_some()),
            functional: region.warms_functionally(),
            waits: Waits::default(),
            warm_moved: PagesMoved::default(),
            store_debt_ps: 0,
            region,
            sampler: sampler(spec, options, (private_depth, quickest), &fixed)?,
            windows: windows(spec, options, &fixed),
            between: Between::new(can_warm && options.sampling.is_none()),
            spec: spec.clone(),
            os: os.clone(),
            fixed,
            stream,
            cores,
            shared,
            threads: vec![Thread::new()],
            ready: VecDeque::new(),
            organization,
            beside: Vec::new(),
            paging,
            queue: EventQueue::new(),
            misses: Slab::new(),
            line_misses: BTreeMap::new(),
            coherence,
            prefetches: Slab::new(),
            ahead: Vec::new(),
            refused_ahead: Seen::default(),
            late_ahead: Seen::default(),
            refused_left: 0.0,
            late_left: 0.0,
            outgoing: Door::default(),
            made_room: Timeline::new(),
            page_queue: VecDeque::new(),
            block_layer: block_layer(spec),
            dispatch_ps: 0,
            pages: Slab::new(),
            pages_at_device: 0,
            transfers: BTreeMap::new(),
            service_times,
            handler: None,
            driver_free_ps: 0,
            queues_free_ps: BTreeMap::new(),
            waiting_for_frame: Vec::new(),
            shot_down: Vec::new(),
            shootdowns: Default::default(),
            shootdowns_left: 0.0,
            inode_locks: LockedInodes::new(),
            daemons: Daemons::default(),
            scan_is_due: false,
            scans: 0,
            on_chip: CowMap::new(0),
            responses: Vec::new(),
            evicted: Vec::new(),
            dropped: Vec::new(),
            posted: Vec::new(),
            posts: 0,
            spare: Vec::new(),
            depths: Vec::new(),
            starved: false,
            alone_until_ps: 0,
            followed: None,
            followed_lines: None,
            syncing: Syncing::default(),
            request_log: None,
        };
        machine.schedule_interval(account::FIRST_SAMPLE_PS);
        machine.schedule_scans();
        machine.schedule_bounds();
        if machine.region.has_begun() {
            machine.begin_sampling(0);
        }
        machine.make_ready(0, 0);
        Ok(machine)
    }

    /// Runs until the region of interest has just begun, warming functionally; false where it has not, because the
    /// workload or `pause` ended that, or where it has gone on in the region.
    pub(crate) fn warm_up(
        &mut self,
        mut pause: impl FnMut(&Machine) -> bool,
    ) -> Result<bool, MachineError> {
        let mut turns = 0u32;
        while self.region.warms_functionally() && !self.finished() {
            self.turn()?;
            self.mind_windows();
            if self.mind_region() {
                return Ok(false);
            }
            turns = turns.wrapping_add(1);
            let starved = std::mem::take(&mut self.starved);
            if (turns & 0xff == 0 || starved) && pause(self) {
                return Ok(false);
            }
        }
        Ok(self.region.has_begun() && self.is_just_warm())
    }

    /// Whether nothing has been asked of the organization since the region began, nor before.
    fn is_just_warm(&self) -> bool {
        self.organization.next_event_ps().is_none()
            && self.organization.in_flight() == 0
            && self.organization.report() == self.region.organization
    }

    /// A machine of another description that was warmed as this one, which is just warm, and whose description
    /// [warms as](SystemSpec::warms_as) that: none where what is warm cannot be taken over.
    pub(crate) fn fork_for(&mut self, spec: &SystemSpec) -> Option<Machine> {
        let mut organization = spec.build_organization()?;
        if !organization.take_over_warmed(&mut *self.organization) {
            return None;
        }
        let mut machine = self.fork();
        machine.region.organization = organization.report();
        machine.region.activity = organization.activity(machine.region.start_ps);
        machine.organization = organization;
        machine.spec = spec.clone();
        Some(machine)
    }

    /// Goes on with another workload, of which nothing was pulled, where it begins as this one's has up to here; whether
    /// it does.
    pub(crate) fn go_over_to(&mut self, mut stream: Box<dyn Stream>) -> Result<bool, MachineError> {
        let ended = self.threads.iter().any(|thread| thread.exhausted);
        let (Some(own), Some(others)) = (self.stream.prelude(), stream.prelude()) else {
            return Ok(false);
        };
        if ended || !own.is_as(others) || self.stream.files() != stream.files() {
            return Ok(false);
        }
        let taken = own.taken();
        stream.skip(0, taken)?;
        self.stream = stream;
        Ok(true)
    }

    /// Runs until every thread or the region of interest has ended (true), or until `pause` says so after some work (false).
    pub fn run(&mut self, mut pause: impl FnMut(&Machine) -> bool) -> Result<bool, MachineError> {
        let mut turns = 0u32;
        while !self.finished() {
            self.turn()?;
            self.mind_windows();
            if self.mind_region() {
                self.close_between();
                self.finish_request_log()?;
                return Ok(true);
            }
            turns = turns.wrapping_add(1);
            let starved = std::mem::take(&mut self.starved);
            if turns & 0xff == 0 || starved {
                self.mind_request_log()?;
                if pause(self) {
                    return Ok(false);
                }
            }
        }
        self.close_between();
        self.finish_request_log()?;
        self.close_sample();
        if self.sampler.is_none() {
            self.account.end(self.region.start_ps, &mut self.threads);
        }
        Ok(true)
    }

    /// One batch of one hardware thread, or all that happens at one time.
    fn turn(&mut self) -> Result<(), MachineError> {
        if self.settles() {
            return self.settle();
        }
        if self.between.settles() {
            return self.settle_between();
        }
        let event_ps = self.next_event_ps();
        let Some(first) = self.first_running() else {
            // The end of an interval is always among the events.
            let bounds = self.region.events + self.sampler.as_ref().map_or(0, |it| it.events);
            let bounds = bounds + usize::from(self.scan_is_due);
            let idle =
                self.queue.len() <= 1 + bounds && self.organization.next_event_ps().is_none();
            return match event_ps {
                Some(at_ps) if !idle => self.happen(at_ps),
                _ => Err(self.deadlock()),
            };
        };
        let now_ps = self.contexts[first].now_ps;
        match event_ps {
            Some(at_ps) if at_ps <= now_ps => self.happen(at_ps),
            _ => {
                let (others_ps, event_ps) = (self.horizon_ps(first), event_ps.unwrap_or(u64::MAX));
                self.alone_until_ps = if others_ps == u64::MAX { event_ps } else { 0 };
                self.run_batch(first, others_ps.min(event_ps))
            }
        }
    }

    /// How far a hardware thread, the furthest behind of those that run, may go ahead of the
    /// others: of those of other cores until it could reach them, of those of its own core, with
    /// which it shares caches and TLB, not at all.
    fn horizon_ps(&self, first: usize) -> u64 {
        let Context { core, now_ps, .. } = self.contexts[first];
        let others = self.contexts.iter().enumerate();
        let running = others.filter(|(i, c)| *i != first && c.doing == Doing::Running);
        let limits = running.map(|(_, other)| {
            if other.core == core {
                other.now_ps.max(now_ps + 1)
            } else {
                other.now_ps.saturating_add(self.fixed.lookahead_ps)
            }
        });
        limits.min().unwrap_or(u64::MAX)
    }

    /// The running hardware thread that is furthest behind.
    fn first_running(&self) -> Option<usize> {
        let running = self.contexts.iter().enumerate().filter(|(_, c)| c.doing == Doing::Running);
        running.min_by_key(|(index, c)| (c.now_ps, *index)).map(|(index, _)| index)
    }

    fn next_event_ps(&self) -> Option<u64> {
        match (self.queue.peek_ps(), self.organization.next_event_ps()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Everything that is due at a time: first the organization, then the machine's own events.
    fn happen(&mut self, at_ps: u64) -> Result<(), MachineError> {
        if at_ps > MOST_TIME_PS {
            return Err(MachineError::TooLong);
        }
        self.alone_until_ps = 0;
        if self.organization.next_event_ps().is_some_and(|next_ps| next_ps <= at_ps) {
            let mut responses = std::mem::take(&mut self.responses);
            self.organization.advance(at_ps, &mut responses);
            for response in &responses {
                match response {
                    Response::Line(line) => self.line_arrived(line),
                    Response::Page(page) => self.page_moved(*page, at_ps),
                }
            }
            responses.clear();
            self.responses = responses;
            if self.fixed.tells {
                self.long_reads(at_ps);
            }
            self.pump(at_ps);
            if self.syncing.is_waited_for() {
                self.go_on_syncing(at_ps);
            }
        }
        while self.queue.peek_ps() == Some(at_ps) {
            let Some((_, event)) = self.queue.pop() else { break };
            match event {
                Event::Shared(miss) => self.arrive_at_shared(miss, at_ps),
                Event::Memory(miss) => self.ask_memory(miss, at_ps),
                Event::Arrive(miss) => self.arrive(miss, at_ps),
                Event::Finish(miss) => self.finish_miss(miss, at_ps),
                Event::Passed(miss) => self.passed(miss, at_ps),
                Event::Long(miss) => self.switch_away(miss, at_ps),
                Event::Leave(line, keeps) => self.warm_leave(line, keeps, at_ps),
                Event::Prefetch(core, line) => self.ask_ahead(core as usize, line, at_ps),
                Event::PutDirty(number) => self.put_posted(number, at_ps),
                Event::Claim(line, claim) => self.claimed(line, claim, at_ps),
                Event::Recall(level, line) => self.recalled(level as usize, line, at_ps),
                Event::Include(line) => self.include(line, at_ps),
                Event::Trap(context) => self.enter_kernel(context, at_ps)?,
                Event::Wake(thread) => self.make_ready(thread as usize, at_ps),
                Event::Daemon(which) => self.step_daemon(which, at_ps)?,
                Event::Dispatch => self.pump(at_ps),
                Event::FlushOld => self.flush_old(at_ps),
                Event::CommitOld => self.commit_old(at_ps),
                Event::Scan => self.scan_for_hot_pages(at_ps),
                Event::Transferred(id) => self.end_warm_transfer(id, at_ps),
                Event::Flushed => self.go_on_syncing(at_ps),
                Event::Interval => self.end_part_of_interval(at_ps),
                Event::Bound => self.pass_time_bound(at_ps),
                Event::Sample => self.change_phase(at_ps),
                Event::Between => self.change_between(at_ps),
            }
        }
        Ok(())
    }

    fn finished(&self) -> bool {
        self.threads.iter().all(|t| matches!(t.state, State::Ended | State::NotStarted))
    }

    fn deadlock(&self) -> MachineError {
        let waiting: Vec<String> = self
            .threads
            .iter()
            .enumerate()
            .filter_map(|(index, thread)| match thread.state {
                State::OnSignal(on, sequence) => Some(format!(
                    "thread {index} waits for signal {sequence} of thread {on}, which has given {}",
                    self.threads.get(on as usize).map_or(0, |t| t.signals)
                )),
                State::Ended | State::NotStarted => None,
                state => Some(format!("thread {index} is {state:?}")),
            })
            .collect();
        MachineError::Deadlock(waiting.join("; "))
    }

    /// Simulated time: that of the hardware thread furthest ahead.
    pub fn now_ps(&self) -> u64 {
        self.contexts.iter().map(|c| c.now_ps).max().unwrap_or(0)
    }

    /// Accesses of the program so far.
    pub fn accesses(&self) -> u64 {
        self.in_all(Account::accesses)
    }

    /// Instructions of the program so far.
    pub fn instructions(&self) -> u64 {
        self.in_all(|account| account.instructions)
    }

    /// Whether threads of the workload may end before what others wait for.
    pub fn workload_is_cut(&self) -> bool {
        self.stream.is_cut()
    }

    /// Why the workload ended before it had done what was asked, where it has.
    pub fn workload_ended_early(&self) -> Option<String> {
        self.stream.ended_early()
    }

    /// Loads that returned an older version of their data than they had to; always 0 unless the
    /// description asks for data to be checked.
    pub fn stale_loads(&self) -> u64 {
        self.account.stale_loads + self.organization_report().stale_reads
    }

    /// A second machine that stands where this one stands, in the middle of whatever is under way,
    /// and goes on identically. Large state is shared until written. What is told of single requests
    /// goes on in this one only.
    pub fn fork(&mut self) -> Self {
        Machine {
            spec: self.spec.clone(),
            os: self.os.clone(),
            fixed: self.fixed.clone(),
            stream: self.stream.fork(),
            cores: self
                .cores
                .iter_mut()
                .map(|core| Core {
                    caches: core.caches.fork(),
                    tlb: core.tlb.clone(),
                    occupancy: core.occupancy,
                    active: core.active,
                    prefetcher: core.prefetcher.clone(),
                    prefetching: core.prefetching,
                    ahead: core.ahead.clone(),
                })
                .collect(),
            shared: self.shared.fork(),
            contexts: self.contexts.clone(),
            threads: self.threads.clone(),
            ready: self.ready.clone(),
            organization: self.organization.fork(),
            beside: self.beside.iter_mut().map(counts::Beside::fork).collect(),
            paging: self.paging.fork(),
            queue: self.queue.clone(),
            misses: self.misses.clone(),
            line_misses: self.line_misses.clone(),
            coherence: self.coherence.clone(),
            prefetches: self.prefetches.clone(),
            ahead: Vec::new(),
            refused_ahead: self.refused_ahead,
            late_ahead: self.late_ahead,
            refused_left: self.refused_left,
            late_left: self.late_left,
            outgoing: self.outgoing.clone(),
            made_room: self.made_room,
            page_queue: self.page_queue.clone(),
            block_layer: self.block_layer.clone(),
            dispatch_ps: self.dispatch_ps,
            pages: self.pages.clone(),
            pages_at_device: self.pages_at_device,
            transfers: self.transfers.clone(),
            service_times: self.service_times.clone(),
            handler: self.handler,
            driver_free_ps: self.driver_free_ps,
            queues_free_ps: self.queues_free_ps.clone(),
            waiting_for_frame: self.waiting_for_frame.clone(),
            shot_down: self.shot_down.clone(),
            shootdowns: self.shootdowns,
            shootdowns_left: self.shootdowns_left,
            inode_locks: self.inode_locks.clone(),
            daemons: self.daemons.clone(),
            scan_is_due: self.scan_is_due,
            scans: self.scans,
            on_chip: self.on_chip.fork(),
            account: self.account.fork(),
            region: self.region.clone(),
            functional: self.functional,
            waits: self.waits,
            warm_moved: self.warm_moved,
            store_debt_ps: self.store_debt_ps,
            sampler: self.sampler.as_mut().map(|sampler| Box::new(sampler.fork())),
            windows: self.windows.clone(),
            between: self.between.clone(),
            responses: Vec::new(),
            evicted: Vec::new(),
            dropped: Vec::new(),
            posted: self.posted.clone(),
            posts: self.posts,
            spare: Vec::new(),
            depths: Vec::new(),
            starved: false,
            alone_until_ps: 0,
            followed: self.followed.clone(),
            followed_lines: self.followed_lines.clone(),
            syncing: self.syncing.clone(),
            request_log: None,
        }
    }

    /// The event queue's source for events that come from no hardware thread.
    fn memory_source(&self) -> u16 {
        self.contexts.len() as u16
    }
}

/// Cycles per instruction, in millionths.
fn millionths(cpi: f64) -> u64 {
    (cpi * 1e6).round() as u64
}

/// What follows the windows of a recording, where all of it is counted.
fn windows(spec: &SystemSpec, options: &RunOptions, fixed: &Fixed) -> Option<Windows> {
    let processor = spec.processor.as_ref()?;
    let all = options.start.is_none() && options.sampling.is_none();
    // Each is an instruction of a reorder window.
    let contexts = u64::from(processor.cores * processor.threads_per_core);
    let in_flight = contexts * u64::from(processor.reorder_window);
    // What a fault takes that needs no page of the store, and one that does.
    let paths = spec.os.as_ref().filter(|_| fixed.paging).map(|os| &os.paths);
    let time_ps = |instructions: u32| fixed.kernel_pace.clone().advance(instructions.into()).max(1);
    let minor_ps = paths.map_or(1, |paths| time_ps(paths.fault.instructions));
    let store_ps = spec.store_times_ps().filter(|_| fixed.paging).map_or(0, |(read_ps, _)| read_ps);
    let faults_ps = [minor_ps, minor_ps.saturating_add(store_ps)];
    let has_store = !spec.stores().is_empty();
    let of = |windows| Windows::new(windows, in_flight, faults_ps, has_store);
    options.windows.filter(|_| all).map(of)
}

/// What samples a run, where that is asked for.
fn sampler(
    spec: &SystemSpec,
    options: &RunOptions,
    (private_levels, warming): (usize, Warming),
    fixed: &Fixed,
) -> Result<Option<Box<Sampler>>, MachineError> {
    let Some(asked) = options.sampling else { return Ok(None) };
    check_sampling(std::slice::from_ref(spec), options.warming)
        .map_err(MachineError::CannotSample)?;
    let plan = sampling_plan(spec, asked).map_err(MachineError::CannotSample)?;
    let store = spec.store_times_ps();
    let apart = [(); 2].map(|()| Account::new(private_levels, false, options.sites.is_some()));
    let flushes = fixed.durable == Durable::Flushed;
    Ok(Some(Box::new(Sampler::new((plan, warming), store, flushes, spec.seed, apart))))
}

/// The lengths in which a run of a machine is sampled, where that is asked for so.
///
/// # Errors
/// Says for people why it cannot be.
pub fn sampling_plan(spec: &SystemSpec, asked: Sampling) -> Result<SamplingPlan, String> {
    let (Some(processor), Some(os)) = (&spec.processor, &spec.os) else {
        return Err(MachineError::Incomplete.to_string());
    };
    let driver = spec.paging().and_then(|(storage, _)| storage.driver.as_ref());
    let waiting = spec.paging().map(|_| os.paths.waiting_fault_instructions(driver));
    let clock = Clock::from_hertz(processor.clock.hertz());
    let pace = Pace::new(clock, millionths(os.kernel_cpi), 1_000_000);
    let fault_ps = pace.clone().advance(waiting.unwrap_or(0));
    let read_ps = spec.usual_read_ps();
    let beyond_ps = (spec.store_settling_ps(), spec.backlog_ps());
    SamplingPlan::new(asked, read_ps.saturating_add(fault_ps), beyond_ps)
}

fn contexts(processor: &ProcessorSpec, fixed: &Fixed) -> Vec<Context> {
    (0..processor.cores * processor.threads_per_core)
        .map(|index| Context {
            core: (index / processor.threads_per_core) as usize,
            doing: Doing::Idle,
            thread: 0,
            now_ps: 0,
            share: 1,
            pace: fixed.pace,
            kernel_pace: fixed.kernel_pace,
            window: Window::new(processor.in_flight()),
            pending: Vec::new(),
            past: u64::MAX,
            trap: None,
            interrupted: Interrupted::default(),
            slice_end_ps: 0,
            area: Area::default(),
        })
        .collect()
}

/// Takes frames for the kernel's data before anything runs; the first of their lines.
fn reserve_kernel(paging: &mut Paging, line: u32, page: u32) -> Result<u64, OsError> {
    let frames = (KERNEL_LINES << line >> page).max(1);
    Ok(paging.reserve_for_kernel(frames)? << (page - line))
}

const _: () = assert!(std::mem::size_of::<Access>() <= 48);
