//! `storage`: main memory is DRAM, and the operating system pages between it and a store
//! (\[HYB15\] §2.2, Fig. 2a). What the operating system does is in [`crate::os::paging`]; here is
//! the hardware that it drives: DRAM, the store behind its link, and the DMA between them.
//!
//! A page from the store is written to DRAM once it has crossed the link, and only then is the
//! interrupt raised; a page to the store is read from DRAM first. Both compete with the lines of
//! the on-chip caches for the channels. All the time that a page spends at DRAM is the stage
//! [`Stage::Dma`].
//!
//! Where the store lies in DRAM itself, behind main memory, the processor copies, line by line; a page
//! that is moved here as one is copied by a thread of the kernel.

mod passing;
mod power;
mod ramdisk;
mod requests;

use super::{
    DramSize, InitialContent, Organization, OrganizationDescription, OrganizationReport,
    PagesMoved, Surroundings, bus, whole,
};
use crate::activity::Activity;
use crate::device::{AnyDevice, InDram};
use crate::medium::{DramSpec, dram::Dram};
use crate::os::block_layer::BlockLayerSpec;
use crate::os::buffer_cache::BufferCacheSpec;
use crate::os::driver::DriverSpec;
use crate::os::file_system::FileSystemSpec;
use crate::os::paging::{SwapReadahead, TmpfsSpec};
use crate::os::readahead;
use crate::os::reclaim::{ReclaimPolicy, lists::Lists};
use crate::os::release::Release;
use crate::power::PowerFailure;
use crate::request::{
    Completion, Control, Device, Full, LineRequest, LineResponse, Manner, PageRequest,
    PageResponse, Request, Response, Tell, Tie, Traffic, earlier,
};
use passing::{Class, Passing};
use power::{OF_RECOVERY, OnStore, Power};
use ramdisk::InMemory;
use requests::{Commands, is_of_request};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::collections::VecDeque;
use tierscope_kernel::{CowMap, Slab, Stage, Timeline};
use tierscope_units::{Duration, Problems, Size};

/// The least that a memory control group may have here: 128 pages of 4 KiB.
const LEAST_LIMIT: Size = Size::from_bytes(512 << 10);

/// `storage`: the operating system pages between DRAM and the store (\[HYB15\] §2.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StorageSpec {
    /// Main memory.
    pub dram_capacity: Size,
    /// What the program may have of it, with the pages of files that it uses: the limit of its memory control group
    /// (`memory.max`); none, where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<Size>,
    /// What DRAM holds at the start.
    pub initial: InitialContent,
    /// Largest readahead window for files; 0 for none.
    pub readahead: Size,
    /// The release of Linux by whose rules files are read ahead, and have calls past the page cache side by side;
    /// where it is not said, 6.18. Before it no call is given more than the window, and with 2.6.32 faults in a row are
    /// read ahead of as calls are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readahead_release: Option<Release>,
    /// Largest folio of the page cache; a page or less where it has single pages only.
    pub largest_folio: Size,
    /// Largest request of the block layer; a read call that asks for more than the readahead window
    /// gets up to this.
    pub largest_request: Size,
    /// Pages of a file that are mapped at once by a fault, where they are in the page cache; a page or
    /// less for none but its own.
    pub fault_around: Size,
    /// Pages read at once from swap, a power of two (`page_cluster`); 1 for no readahead.
    pub swap_cluster_pages: u32,
    /// Which slots are read with one that is needed.
    pub swap_readahead: SwapReadahead,
    /// Size of swap, at the end of the store; where it is not said, swap takes of the store's free room what it needs, and
    /// a slot that is given up is the next to be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap_capacity: Option<Size>,
    /// Whether the device is told of swap that has become free (`swapon --discard=pages`, TRIM).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub swap_discard: bool,
    /// Which pages leave memory when it gets full.
    pub reclaim: ReclaimPolicy,
    /// How readily anonymous memory leaves: 0 hardly, 100 as readily as files, 200 alone.
    pub swappiness: u32,
    /// Share of DRAM between one watermark of free memory and the next (`watermark_scale_factor`); not
    /// less than a quarter of the lowest watermark, which is that of Linux before 4.6.
    pub watermark_scale: f64,
    /// Share of what is free or holds files that may be dirty file pages. Writers are held back from
    /// the middle between this and `dirty_background_ratio` on.
    pub dirty_ratio: f64,
    /// Share of what is free or holds files above which dirty file pages are written in the
    /// background.
    pub dirty_background_ratio: f64,
    /// Time between two looks for file pages that have been dirty for long, 1 us at least; 0 for none.
    pub dirty_writeback: Duration,
    /// How long a file may have dirty pages before they are written.
    pub dirty_expire: Duration,
    /// Page requests that the host has at the device at once (NCQ tags, NVMe queue).
    pub host_queue_depth: u32,
    /// A second level of the page cache, in flash on the memory bus; none, where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_cache: Option<BufferCacheSpec>,
    /// The file system; none, where it is not said: then metadata costs nothing, and a sync is done once
    /// the data are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<FileSystemSpec>,
    /// A tmpfs that has all files, which then are in memory and in swap; none, where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmpfs: Option<TmpfsSpec>,
    /// The driver of the store; where it is not said, one that waits for interrupts, without a lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<DriverSpec>,
    /// The block layer, which makes requests of several pages; where it is not said, each page goes to the store by
    /// itself, in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_layer: Option<BlockLayerSpec>,
}

impl OrganizationDescription for StorageSpec {
    fn name(&self) -> &'static str {
        "storage"
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        // The data of the kernel itself take 1 MiB.
        problems.at_least(path, "dram_capacity", self.dram_capacity, Size::from_bytes(2 << 20));
        if let Some(limit) = self.memory_limit {
            problems.at_least(path, "memory_limit", limit, LEAST_LIMIT);
            problems.at_most(path, "memory_limit", limit, self.dram_capacity);
        }
        problems.at_least(path, "host_queue_depth", self.host_queue_depth, 1);
        problems.at_least(path, "swap_cluster_pages", self.swap_cluster_pages, 1);
        problems.at_least(path, "largest_request", self.largest_request, Size::from_bytes(1));
        for (name, ratio, mend) in [
            ("dirty_ratio", self.dirty_ratio, "write 0.2"),
            ("dirty_background_ratio", self.dirty_background_ratio, "write 0.2"),
        ] {
            if !(0.0..=1.0).contains(&ratio) {
                problems.add(
                    "impossible-value",
                    format!("{path}.{name}"),
                    ratio.to_string(),
                    "a share of DRAM lies between 0 and 1".into(),
                    mend.into(),
                );
            }
        }
        if !(0.0..=0.3).contains(&self.watermark_scale) {
            problems.add(
                "impossible-value",
                format!("{path}.watermark_scale"),
                self.watermark_scale.to_string(),
                "the kernel takes a share of up to 0.3, a watermark_scale_factor of 3000".into(),
                "write 0.001".into(),
            );
        }
        if self.dirty_writeback != Duration::default() {
            let least = Duration::from_picoseconds(1_000_000);
            problems.at_least(path, "dirty_writeback", self.dirty_writeback, least);
        }
        if self.swappiness > 200 {
            problems.add(
                "impossible-value",
                format!("{path}.swappiness"),
                self.swappiness.to_string(),
                "the kernel takes 0 to 200".into(),
                "write 60".into(),
            );
        }
        if !self.swap_cluster_pages.is_power_of_two() {
            problems.add(
                "impossible-value",
                format!("{path}.swap_cluster_pages"),
                self.swap_cluster_pages.to_string(),
                "the kernel reads swap in clusters of a power of two".into(),
                "write 8".into(),
            );
        }
        if let Some(cache) = &self.buffer_cache {
            cache.check(&format!("{path}.buffer_cache"), problems);
        }
        if let Some(system) = &self.file_system {
            system.check(&format!("{path}.file_system"), problems);
        }
        if self.tmpfs.is_some() {
            for (name, is_there, reason) in [
                ("file_system", self.file_system.is_some(), "keeps files on the store"),
                (
                    "buffer_cache",
                    self.buffer_cache.is_some(),
                    "keeps pages of files that are on the store",
                ),
            ] {
                if is_there {
                    problems.add(
                        "contradiction",
                        format!("{path}.tmpfs"),
                        "a table".into(),
                        format!("all files are in memory and swap, and {path}.{name} {reason}"),
                        format!("remove [{path}.tmpfs] or [{path}.{name}]"),
                    );
                }
            }
        }
        if let Some(driver) = &self.driver {
            driver.check(&format!("{path}.driver"), problems);
        }
        if let Some(layer) = &self.block_layer {
            layer.check(&format!("{path}.block_layer"), problems);
        }
    }

    fn check_with(&self, path: &str, machine: &Surroundings<'_>, problems: &mut Problems) {
        let Some(page) = machine.page() else { return }; // Said already.
        machine.check_memory(&format!("{path}.dram_capacity"), self.dram_capacity, problems);
        let most = Size::from_bytes(Lists::<1>::MOST_FRAMES.saturating_mul(page.bytes()));
        problems.at_most(path, "dram_capacity", self.dram_capacity, most);
        // The base pages of ARMv8-A, of which x86-64 has the smallest.
        let most_page = Size::from_bytes(64 << 10);
        if page > most_page {
            problems.add(
                "impossible-value",
                "os.page".into(),
                page.to_string(),
                "page cache and swap are of base pages, of which huge pages are made".into(),
                format!(
                    "write {most_page} or less, or 4KiB and os.transparent_huge_pages = \"always\" for huge pages"
                ),
            );
        }
        whole(&format!("{path}.readahead"), self.readahead, "pages (os.page)", page, problems);
        let key = format!("{path}.largest_request");
        whole(&key, self.largest_request, "pages (os.page)", page, problems);
        for (name, size) in
            [("largest_folio", self.largest_folio), ("fault_around", self.fault_around)]
        {
            check_group(&format!("{path}.{name}"), size, page, problems);
        }
        if self.readahead_release.is_some_and(|release| release < Release::V6_18)
            && self.largest_folio > page
        {
            problems.add(
                "contradiction",
                format!("{path}.largest_folio"),
                self.largest_folio.to_string(),
                format!("the page cache had single pages when files were read ahead so ({path}.readahead_release)"),
                format!("write {page}, or 6.18 as {path}.readahead_release"),
            );
        }
        if let Some(cache) = &self.buffer_cache {
            cache.check_with(&format!("{path}.buffer_cache"), page, problems);
        }
        if let Some(system) = &self.file_system {
            let store = machine.store.map(|(_, device)| device.capacity());
            system.check_with(&format!("{path}.file_system"), page, store, problems);
        }
        if let Some(capacity) = self.swap_capacity {
            if capacity < page {
                problems.at_least(path, "swap_capacity", capacity, page);
            } else {
                let key = format!("{path}.swap_capacity");
                whole(&key, capacity, "pages (os.page)", page, problems);
            }
            if let Some((_, device)) = machine.store.filter(|_| page.bytes().is_power_of_two()) {
                let system = self.file_system.as_ref();
                let reserved =
                    system.map_or(0, |system| system.reserved_bytes(page, device.capacity()));
                let most = device.capacity().bytes().saturating_sub(reserved) / page.bytes()
                    * page.bytes();
                problems.at_most(path, "swap_capacity", capacity, Size::from_bytes(most));
            }
        }
        if let Some(tmpfs) = &self.tmpfs {
            let key = format!("{path}.tmpfs.capacity");
            if tmpfs.capacity < page {
                problems.at_least(&format!("{path}.tmpfs"), "capacity", tmpfs.capacity, page);
            } else {
                whole(&key, tmpfs.capacity, "pages (os.page)", page, problems);
            }
        }
        if self.block_layer.is_some() && machine.store_in_dram().is_some() {
            problems.add(
                "contradiction",
                format!("{path}.block_layer"),
                "a table".into(),
                "the store lies in DRAM, from and to which the kernel copies page by page".into(),
                format!("remove [{path}.block_layer], or take another store"),
            );
        }
        if let Some((store, device)) = machine.store {
            let what = format!("pages of the store ({store}.page)");
            whole("os.page", page, &what, device.page(), problems);
            machine.check_store(page, "pages (os.page)", problems);
        }
        if self.dirty_background_ratio > self.dirty_ratio {
            problems.add(
                "contradiction",
                format!("{path}.dirty_background_ratio"),
                self.dirty_background_ratio.to_string(),
                format!("writers wait at dirty_ratio = {} already", self.dirty_ratio),
                format!("write {} or less", self.dirty_ratio),
            );
        }
    }

    fn dram_size(&self) -> Option<DramSize> {
        let capacity = self.dram_capacity;
        Some(DramSize { key: "dram_capacity", capacity, part: Size::from_bytes(1) })
    }

    fn build(&self, machine: &Surroundings<'_>) -> Option<Box<dyn Organization>> {
        let store = machine.build_store()?;
        let line_bytes = machine.line?.bytes();
        let in_dram = machine.store_in_dram();
        let mut storage =
            Storage::with(self, machine.dram?, store, in_dram, line_bytes, machine.check_data);
        let (page, (_, device)) = (machine.page()?, machine.store?);
        storage.store_page_bytes = device.page().bytes();
        let on_store = OnStore {
            spec: self.file_system.clone(),
            page_bytes: page.bytes(),
            store_page_bytes: device.page().bytes(),
        };
        Some(Box::new(Storage { on_store: Some(on_store), ..storage }))
    }

    fn paging(&self) -> Option<&StorageSpec> {
        Some(self)
    }
}

/// Pages that are kept or mapped together are a power of two, and lie in one page-table page of 512
/// entries.
fn check_group(path: &str, size: Size, page: Size, problems: &mut Problems) {
    if size.bytes().is_power_of_two() && size.bytes() / page.bytes() <= 512 {
        return;
    }
    problems.add(
        "impossible-value",
        path.into(),
        size.to_string(),
        format!("it is a power of two, and at most 512 pages (os.page) of {page}"),
        format!("write {page}"),
    );
}

impl StorageSpec {
    /// What readahead may do, with pages of this size.
    pub fn readahead_limits(&self, page_bytes: u64) -> readahead::Limits {
        readahead::Limits {
            window: self.readahead.bytes() / page_bytes,
            io: self.largest_request.bytes() / page_bytes,
            largest_order: (self.largest_folio.bytes() / page_bytes).max(1).ilog2(),
            chunk: ((2 << 20) / page_bytes).max(1),
            release: self.readahead_release.unwrap_or(Release::V6_18),
        }
    }
}

/// What a request at the DRAM is for.
#[derive(Clone, Copy, Debug)]
enum AtDram {
    /// A line, and the oldest version that a read of it may return.
    Line(LineRequest, u64),
    /// The DMA of a page.
    Page(u32),
}

/// A page on its way.
#[derive(Clone, Debug)]
struct Page {
    request: PageRequest,
    /// What it is instead of a page.
    control: Option<Control>,
    /// Time up to which `stages` reaches.
    clock_ps: u64,
    stages: Timeline,
    /// Which of the store's interrupts told of it.
    interrupt: u32,
    /// As what it is at DRAM, or waits to be there.
    at_dram: Option<Class>,
    /// Its next access to DRAM is to its place in the store, which lies there.
    at_place: bool,
    /// The request of several pages that it is of; and how many pages of the store are still to come of it, or to be
    /// read from DRAM.
    command: Option<u32>,
    parts_left: u32,
    /// Versions of its lines, where data are checked and the page goes to the store.
    versions: Vec<u64>,
}

impl Page {
    fn new(
        now_ps: u64,
        request: PageRequest,
        control: Option<Control>,
        versions: Vec<u64>,
    ) -> Self {
        Page {
            request,
            control,
            clock_ps: now_ps,
            stages: Timeline::new(),
            interrupt: 0,
            at_dram: None,
            at_place: false,
            command: None,
            parts_left: 0,
            versions,
        }
    }
}

/// What waits for room at the store.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    Page(u32),
    Request(u32),
}

/// Versions of lines, where data are checked.
#[derive(Debug)]
struct Data {
    /// Last written by whoever submits.
    latest: CowMap<u64>,
    /// What DRAM holds.
    dram: CowMap<u64>,
    /// What the store holds.
    store: CowMap<u64>,
    stale_reads: u64,
}

/// DRAM, a store and the DMA between them.
#[derive(Debug)]
pub struct Storage {
    dram: Dram,
    store: AnyDevice,
    /// Main memory, and what of DRAM is the store instead.
    memory_bytes: u64,
    in_memory: Option<InMemory>,
    /// What the store shares with the DRAM.
    tie: Option<Tie>,
    line_bytes: u64,
    at_dram: Slab<AtDram>,
    pages: Slab<Page>,
    /// Requests of several pages.
    commands: Commands,
    /// A page of the store.
    store_page_bytes: u64,
    /// Requests at once.
    most_pages: usize,
    /// Pages that wait for room at the DRAM, and what waits for room at the store.
    for_dram: VecDeque<u32>,
    for_store: VecDeque<Waiting>,
    traffic: Traffic,
    /// Bytes of DRAM that were moved in functional warming.
    warmed: Traffic,
    passing: Passing,
    data: Option<Data>,
    /// What is on the store, and what of it is followed, where power may fail.
    on_store: Option<OnStore>,
    power: Option<Box<Power>>,
    done: Vec<Completion>,
}

impl Storage {
    /// An idle machine's memory side. The descriptions have been checked.
    pub fn new(
        spec: &StorageSpec,
        dram: &DramSpec,
        store: AnyDevice,
        line_bytes: u64,
        check_data: bool,
    ) -> Self {
        Storage::with(spec, dram, store, None, line_bytes, check_data)
    }

    /// As [`Storage::new`], of a store that may lie in DRAM.
    fn with(
        spec: &StorageSpec,
        dram: &DramSpec,
        store: AnyDevice,
        in_dram: Option<InDram>,
        line_bytes: u64,
        check_data: bool,
    ) -> Self {
        let memory_bytes = spec.dram_capacity.bytes();
        let beside_bytes = in_dram.map_or(0, |it| it.capacity_bytes);
        Storage {
            dram: Dram::new(dram, memory_bytes.saturating_add(beside_bytes), line_bytes),
            memory_bytes,
            in_memory: in_dram.map(|it| InMemory::new(it, memory_bytes)),
            tie: store.tie(),
            store,
            line_bytes,
            at_dram: Slab::new(),
            pages: Slab::new(),
            commands: Commands::default(),
            store_page_bytes: u64::MAX,
            most_pages: spec.host_queue_depth as usize
                * spec.block_layer.as_ref().map_or(1, |it| it.hardware_queues as usize),
            for_dram: VecDeque::new(),
            for_store: VecDeque::new(),
            traffic: Traffic::default(),
            warmed: Traffic::default(),
            passing: Passing::default(),
            data: check_data.then(|| Data {
                latest: CowMap::new(0),
                dram: CowMap::new(0),
                store: CowMap::new(0),
                stale_reads: 0,
            }),
            on_store: None,
            power: None,
            done: Vec::new(),
        }
    }

    /// The versions of the lines of a page that goes to the store, where data are checked.
    fn versions_to_store(&self, request: &PageRequest) -> Vec<u64> {
        let Some(data) = self.data.as_ref().filter(|_| request.write) else { return Vec::new() };
        let first = request.memory_address / self.line_bytes;
        let lines = u64::from(request.bytes) / self.line_bytes;
        (first..first + lines).map(|line| data.latest.get(line)).collect()
    }

    /// Offers a page's DMA to the DRAM; false where it is full.
    fn start_dma(&mut self, now_ps: u64, id: u32) -> bool {
        let Page { request, at_place, .. } = &self.pages[id];
        let PageRequest { memory_address, store_address, bytes, write, .. } = *request;
        let address = match (&self.in_memory, *at_place) {
            (Some(store), true) => store.first_byte() + store_address,
            _ => memory_address,
        };
        let (into_dram, background) = (write == *at_place, write);
        let entered = self.pages[id].at_dram;
        let class = entered.unwrap_or_else(|| self.passing.enter(write));
        self.pages[id].at_dram = Some(class);
        if self.passing.on {
            self.warmed.move_dram(u64::from(bytes), into_dram);
            self.passing.begin(now_ps, (id, class), bytes);
            return true;
        }
        let number = self.at_dram.insert(AtDram::Page(id));
        let request = Request { id: number, address, bytes, write: into_dram, background };
        if self.dram.submit(now_ps, request).is_err() {
            self.at_dram.remove(number);
            return false;
        }
        true
    }

    /// Lets the store do something at `now_ps`, with the bus that it may share with the DRAM.
    #[inline]
    fn with_bus<T>(&mut self, now_ps: u64, act: impl FnOnce(&mut AnyDevice) -> T) -> T {
        let Storage { dram, store, tie, .. } = self;
        bus::pass_to_store(now_ps, *tie, dram, store);
        let done = act(store);
        bus::pass_to_dram(now_ps, *tie, dram, store);
        done
    }

    /// Offers a page to the store; false where it is full.
    fn start_store(&mut self, now_ps: u64, id: u32) -> bool {
        let Page { request, control, .. } = &self.pages[id];
        let (control, content) = (*control, self.carried(request.content));
        let force_unit_access = request.force_unit_access;
        let PageRequest { store_address, bytes, write, background, .. } = *request;
        let request = Request { id, address: store_address, bytes, write, background };
        let taken = self.with_bus(now_ps, |store| match control {
            Some(control) => store.submit_control(now_ps, id, control),
            None if force_unit_access || content != 0 => {
                let manner = Manner { force_unit_access, content, ..Manner::default() };
                store.submit_as(now_ps, request, manner)
            }
            None => store.submit(now_ps, request),
        });
        if taken.is_err() {
            return false;
        }
        let page = &mut self.pages[id];
        page.stages.push(Stage::StoreQueue, now_ps - page.clock_ps);
        page.clock_ps = now_ps;
        true
    }

    fn retry(&mut self, now_ps: u64) {
        while let Some(id) = self.for_dram.front().copied() {
            if !self.start_dma(now_ps, id) {
                break;
            }
            self.for_dram.pop_front();
        }
        while let Some(waiting) = self.for_store.front().copied() {
            let taken = match waiting {
                Waiting::Page(id) => self.start_store(now_ps, id),
                Waiting::Request(command) => self.start_request(now_ps, command),
            };
            if !taken {
                break;
            }
            self.for_store.pop_front();
        }
    }

    fn dram_done(&mut self, done: Completion, out: &mut Vec<Response>) {
        match self.at_dram.remove(done.id) {
            AtDram::Line(request, oldest) => {
                let version = self.complete_line(request, oldest);
                let (id, at_ps, stages) = (request.id, done.at_ps, done.stages);
                let response = LineResponse { id, at_ps, stages, version };
                match &mut self.in_memory {
                    Some(store) if store.has(request.address) => {
                        store.delay(response, request.write);
                    }
                    _ => out.push(Response::Line(response)),
                }
            }
            AtDram::Page(id) => {
                let page = &self.pages[id];
                if let Some(class) = page.at_dram {
                    self.passing.took(class, done.at_ps - page.clock_ps, page.request.bytes);
                }
                self.page_was_at_dram(id, done.at_ps, out);
            }
        }
    }

    /// A page has been written to DRAM, or read from there.
    fn page_was_at_dram(&mut self, id: u32, at_ps: u64, out: &mut Vec<Response>) {
        let page = &mut self.pages[id];
        page.at_dram = None;
        page.stages.push(Stage::Dma, at_ps - page.clock_ps);
        page.clock_ps = at_ps;
        if let Some(command) = page.command {
            return self.moved_at_dram(command, id, out);
        }
        if page.request.write == page.at_place {
            return self.end_page(id, out);
        }
        page.at_place = false;
        if !self.start_store(at_ps, id) {
            self.for_store.push_back(Waiting::Page(id));
        }
    }

    fn complete_line(&mut self, request: LineRequest, oldest: u64) -> u64 {
        let Some(data) = &mut self.data else { return 0 };
        let line = request.address / self.line_bytes;
        if request.write {
            data.dram.set(line, request.version);
            self.note_line(&request);
            return 0;
        }
        let version = data.dram.get(line);
        data.stale_reads += u64::from(version < oldest);
        version
    }

    fn store_done(&mut self, done: Completion, out: &mut Vec<Response>) {
        if is_of_request(done.id) {
            return self.request_done(&done, out);
        }
        let page = &mut self.pages[done.id];
        page.stages.append(&done.stages);
        page.clock_ps = done.at_ps;
        page.interrupt = done.interrupt;
        let (request, control) = (page.request, page.control);
        let PageRequest { id, write, bytes, .. } = request;
        // One in memory has it when that has been written.
        if write && control.is_none() && (self.in_memory.is_none() || id == OF_RECOVERY) {
            self.note_stored(&request);
        }
        if id == OF_RECOVERY {
            self.pages.remove(done.id);
            return;
        }
        if write {
            self.traffic.store_written_bytes += u64::from(bytes);
            if self.in_memory.is_none() || control.is_some() {
                return self.end_page(done.id, out);
            }
            self.pages[done.id].at_place = true;
        } else {
            self.traffic.store_read_bytes += u64::from(bytes);
        }
        if !self.start_dma(done.at_ps, done.id) {
            self.for_dram.push_back(done.id);
        }
    }

    /// The page is where it had to go: its data are there from now on.
    fn end_page(&mut self, id: u32, out: &mut Vec<Response>) {
        let Page { request, clock_ps: at_ps, stages, interrupt, versions, .. } =
            self.pages.remove(id);
        if let Some(data) = &mut self.data {
            let lines = u64::from(request.bytes) / self.line_bytes;
            let memory = request.memory_address / self.line_bytes;
            let store = request.store_address / self.line_bytes;
            for line in 0..lines {
                if request.write {
                    data.store.set(store + line, versions[line as usize]);
                } else {
                    let version = data.store.get(store + line);
                    data.dram.set(memory + line, version);
                    data.latest.set(memory + line, version);
                }
            }
        }
        if request.write && self.in_memory.is_some() {
            self.note_stored(&request);
        }
        out.push(Response::Page(PageResponse { id: request.id, at_ps, stages, interrupt }));
    }

    /// Does what happens at `now_ps`, the time of the next event.
    fn step(&mut self, now_ps: u64, out: &mut Vec<Response>) {
        let mut done = std::mem::take(&mut self.done);
        if self.dram.next_event_ps().is_some_and(|at_ps| at_ps <= now_ps) {
            self.dram.advance(now_ps, &mut done);
            done.drain(..).for_each(|completion| self.dram_done(completion, out));
        }
        while let Some((at_ps, id)) = self.passing.ended(now_ps) {
            self.page_was_at_dram(id, at_ps, out);
        }
        if self.store.next_event_ps().is_some_and(|at_ps| at_ps <= now_ps) {
            self.with_bus(now_ps, |store| store.advance(now_ps, &mut done));
            done.drain(..).for_each(|completion| self.store_done(completion, out));
        }
        if let Some(store) = &mut self.in_memory {
            store.answer(now_ps, out);
        }
        self.done = done;
        self.retry(now_ps);
        self.go_on_recovering(now_ps);
    }
}

impl Organization for Storage {
    fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// Takes a request for a line of main memory, or of a store that lies in DRAM, which is behind it.
    fn submit(&mut self, now_ps: u64, request: LineRequest) -> Result<(), Full> {
        let stored = self.in_memory.as_ref().filter(|store| store.has(request.address));
        let stored = stored.map(InMemory::is_full);
        if stored == Some(true) {
            return Err(Full);
        }
        let line = request.address / self.line_bytes;
        let oldest = self.data.as_ref().map_or(0, |data| data.latest.get(line));
        let id = self.at_dram.insert(AtDram::Line(request, oldest));
        let (address, write) = (request.address, request.write);
        let bytes = self.line_bytes as u32;
        let access = Request { id, address, bytes, write, background: false };
        if self.dram.submit(now_ps, access).is_err() {
            self.at_dram.remove(id);
            return Err(Full);
        }
        if let (Some(store), Some(_)) = (&mut self.in_memory, stored) {
            store.take();
            self.traffic.move_store(self.line_bytes, write);
        }
        if let (Some(data), true) = (&mut self.data, write) {
            data.latest.set(line, request.version);
        }
        Ok(())
    }

    fn submit_page(&mut self, now_ps: u64, request: PageRequest) -> Result<(), Full> {
        if self.requests() >= self.most_pages {
            return Err(Full);
        }
        let versions = self.versions_to_store(&request);
        let page = Page::new(now_ps, request, None, versions);
        let id = self.pages.insert(page);
        let dram_first = request.write || self.in_memory.is_some();
        self.pages[id].at_place = dram_first && !request.write;
        let started = if dram_first {
            self.for_dram.is_empty() && self.start_dma(now_ps, id)
        } else {
            self.for_store.is_empty() && self.start_store(now_ps, id)
        };
        if !started {
            match dram_first {
                true => self.for_dram.push_back(id),
                false => self.for_store.push_back(Waiting::Page(id)),
            }
        }
        Ok(())
    }

    fn submit_request(&mut self, now_ps: u64, pages: &[PageRequest]) -> Result<(), Full> {
        match pages {
            [page] => self.submit_page(now_ps, *page),
            pages => self.take_request(now_ps, pages),
        }
    }

    fn takes_control(&self) -> bool {
        self.store.takes_control()
    }

    fn submit_control(&mut self, now_ps: u64, id: u32, control: Control) -> Result<(), Full> {
        if self.requests() >= self.most_pages || !self.takes_control() {
            return Err(Full);
        }
        let request = PageRequest {
            id,
            store_address: 0,
            memory_address: 0,
            bytes: 0,
            write: true,
            background: false,
            force_unit_access: false,
            content: 0,
        };
        let control = Some(control);
        let id = self.pages.insert(Page::new(now_ps, request, control, Vec::new()));
        if !self.for_store.is_empty() || !self.start_store(now_ps, id) {
            self.for_store.push_back(Waiting::Page(id));
        }
        Ok(())
    }

    fn next_event_ps(&self) -> Option<u64> {
        let delayed_ps = self.in_memory.as_ref().and_then(InMemory::next_event_ps);
        let own_ps = earlier(delayed_ps, self.passing.next_event_ps());
        earlier(own_ps, earlier(self.dram.next_event_ps(), self.store.next_event_ps()))
    }

    fn advance(&mut self, now_ps: u64, out: &mut Vec<Response>) {
        while let Some(at_ps) = self.next_event_ps()
            && at_ps <= now_ps
        {
            self.step(at_ps, out);
        }
    }

    fn depths(&self, tell: &mut Tell<'_>) {
        tell("host.pages", self.pages.len());
        self.dram.depths(tell);
        self.store.depths(tell);
    }

    fn in_flight(&self) -> usize {
        let lines = self.at_dram.iter().filter(|(_, at)| matches!(at, AtDram::Line(..))).count();
        lines + self.pages.len() + self.in_memory.as_ref().map_or(0, InMemory::delayed)
    }

    /// Only counts: where a line lies does not depend on who was used.
    #[inline]
    fn warm(&mut self, _now_ps: u64, _core: u16, address: u64, write: bool) -> PagesMoved {
        self.warmed.move_dram(self.line_bytes, write);
        if address >= self.memory_bytes {
            self.traffic.move_store(self.line_bytes, write);
        }
        PagesMoved::default()
    }

    fn warm_page(&mut self, now_ps: u64, request: PageRequest) {
        let (bytes, write) = (u64::from(request.bytes), request.write);
        self.traffic.move_store(bytes, write);
        self.warmed.move_dram(bytes, !write);
        if self.in_memory.is_some() {
            // It comes from, or goes to, its place there, too.
            self.warmed.move_dram(bytes, write);
        }
        let manner = Manner { force_unit_access: request.force_unit_access, ..Manner::default() };
        let request = Request::of(request.store_address, request.bytes, write);
        self.store.warm(now_ps, request, manner);
    }

    fn pass_by_memory(&mut self, on: bool) {
        self.passing.on = on;
    }

    fn warm_control(&mut self, now_ps: u64, control: Control) {
        self.store.warm_control(now_ps, control);
    }

    fn take_over_warmed(&mut self, warmed: &mut dyn Organization) -> bool {
        let warmed = warmed.as_warmed().and_then(|it| it.downcast_mut::<Storage>());
        let Some(warmed) = warmed else { return false };
        (self.traffic, self.warmed) = (warmed.traffic, warmed.warmed);
        self.store.take_over_warmed(&mut warmed.store);
        true
    }

    fn as_warmed(&mut self) -> Option<&mut dyn Any> {
        Some(self)
    }

    /// Nothing here is dirty: the operating system writes back.
    fn flush(&mut self, _now_ps: u64) -> bool {
        true
    }

    fn power(&self) -> Option<&dyn PowerFailure> {
        Some(self)
    }

    fn power_mut(&mut self) -> Option<&mut dyn PowerFailure> {
        Some(self)
    }

    fn report(&self) -> OrganizationReport {
        let (dram_read_bytes, dram_written_bytes) = self.dram.moved_bytes();
        let dram_read_bytes = dram_read_bytes + self.warmed.dram_read_bytes;
        let dram_written_bytes = dram_written_bytes + self.warmed.dram_written_bytes;
        OrganizationReport {
            traffic: Traffic { dram_read_bytes, dram_written_bytes, ..self.traffic },
            stale_reads: self.data.as_ref().map_or(0, |data| data.stale_reads),
            ..OrganizationReport::default()
        }
    }

    fn activity(&self, now_ps: u64) -> Activity {
        self.dram.activity(now_ps).with_store(self.store.activity(now_ps))
    }

    fn fork(&mut self) -> Box<dyn Organization> {
        Box::new(Storage {
            dram: self.dram.clone(),
            store: self.store.fork(),
            memory_bytes: self.memory_bytes,
            in_memory: self.in_memory.clone(),
            tie: self.tie,
            line_bytes: self.line_bytes,
            at_dram: self.at_dram.clone(),
            pages: self.pages.clone(),
            commands: self.commands.clone(),
            store_page_bytes: self.store_page_bytes,
            most_pages: self.most_pages,
            for_dram: self.for_dram.clone(),
            for_store: self.for_store.clone(),
            traffic: self.traffic,
            warmed: self.warmed,
            passing: self.passing.clone(),
            data: self.data.as_mut().map(|data| Data {
                latest: data.latest.fork(),
                dram: data.dram.fork(),
                store: data.store.fork(),
                stale_reads: data.stale_reads,
            }),
            on_store: self.on_store.clone(),
            power: self.power.as_mut().map(|power| Box::new(power.fork())),
            done: Vec::new(),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::conformance::{organization_laws, page_organization_laws};
    use crate::device::{DeviceDescription, StoreSpec};
    use crate::link::{LinkDescription, LinkSpec};
    use crate::medium::dram::tests::spec as dram_spec;
    use proptest::prelude::*;
    use tierscope_units::{Bandwidth, Duration};

    fn storage(depth: u32, check_data: bool) -> Storage {
        let link = LinkSpec {
            bandwidth: "16GB/s".parse::<Bandwidth>().unwrap(),
            payload: Size::from_bytes(256),
            packet_overhead: Size::from_bytes(24),
            latency: Duration::from_picoseconds(1_000_000),
            energy: None,
        };
        storage_behind(depth, &link, check_data)
    }

    /// A store behind any link.
    pub fn behind(link: &dyn LinkDescription, check_data: bool) -> Box<dyn Organization> {
        Box::new(storage_behind(4, link, check_data))
    }

    fn storage_behind(depth: u32, link: &dyn LinkDescription, check_data: bool) -> Storage {
        let spec = StorageSpec {
            dram_capacity: Size::from_bytes(1 << 20),
            memory_limit: None,
            host_queue_depth: depth,
            ..crate::os::paging::small::storage()
        };
        let us = |n: u64| Duration::from_picoseconds(n * 1_000_000);
        let store = StoreSpec {
            capacity: Size::from_bytes(1 << 22),
            page: Size::from_bytes(4096),
            read_latency: us(25),
            write_latency: us(250),
            units: 4,
            unit_bandwidth: "400MB/s".parse::<Bandwidth>().unwrap(),
            controller_latency: us(1),
            queue_depth: 3,
            power: None,
        };
        Storage::new(&spec, &dram_spec(), store.build(link), 64, check_data)
    }

    pub fn page(id: u32, write: bool, frame: u64, place: u64) -> PageRequest {
        PageRequest {
            id,
            store_address: place * 4096,
            memory_address: frame * 4096,
            bytes: 4096,
            write,
            background: write,
            force_unit_access: false,
            content: 0,
        }
    }

    #[test]
    fn the_organizations_laws_hold() {
        organization_laws(|check_data| Box::new(storage(8, check_data)));
        page_organization_laws(|check_data| Box::new(storage(2, check_data)));
    }

    #[test]
    fn what_was_written_comes_back_through_the_store() {
        let mut storage = storage(8, true);
        let mut out = Vec::new();
        let write = LineRequest { id: 9, core: 0, address: 4096 + 64, write: true, version: 77 };
        storage.submit(0, write).unwrap();
        storage.submit_page(0, page(1, true, 1, 5)).unwrap();
        storage.advance(1 << 50, &mut out);
        storage.submit_page(1 << 50, page(2, false, 3, 5)).unwrap();
        storage.advance(1 << 51, &mut out);
        let read =
            LineRequest { id: 10, core: 0, address: 3 * 4096 + 64, write: false, version: 0 };
        storage.submit(1 << 51, read).unwrap();
        storage.advance(1 << 52, &mut out);
        let Some(Response::Line(line)) = out.last() else { panic!("{out:?}") };
        assert_eq!((line.id, line.version), (10, 77));
        assert_eq!((storage.in_flight(), storage.report().stale_reads), (0, 0));
    }

    #[test]
    fn a_page_read_takes_device_link_and_dma_and_nothing_else() {
        let mut storage = storage(8, false);
        let mut out = Vec::new();
        storage.submit_page(0, page(1, false, 1, 5)).unwrap();
        storage.advance(u64::MAX, &mut out);
        let [Response::Page(done)] = out.as_slice() else { panic!("{out:?}") };
        assert_eq!(done.stages.total_ps(), done.at_ps);
        let stage =
            |stage| done.stages.iter().filter(|(s, _)| *s == stage).map(|(_, t)| t).sum::<u64>();
        assert_eq!(stage(Stage::Medium), 25_000_000);
        assert_eq!(stage(Stage::StoreQueue), 0);
        assert!(stage(Stage::Dma) > 0 && stage(Stage::Link) > 2_000_000);
    }

    /// Page responses, in order.
    fn page_responses(out: &[Response]) -> Vec<PageResponse> {
        let page = |response: &Response| match response {
            Response::Page(page) => Some(*page),
            Response::Line(_) => None,
        };
        out.iter().filter_map(page).collect()
    }

    #[test]
    fn a_request_of_several_pages_is_one_command_that_is_answered_once() {
        for write in [false, true] {
            let mut storage = storage(1, false);
            let pages: Vec<_> =
                (0..6).map(|at| page(at, write, 10 - u64::from(at), 5 + u64::from(at))).collect();
            storage.submit_request(0, &pages).unwrap();
            assert_eq!(
                storage.submit_page(0, page(9, write, 20, 20)),
                Err(Full),
                "it is one of one"
            );
            let mut out = Vec::new();
            storage.advance(u64::MAX, &mut out);
            let answers = page_responses(&out);
            assert_eq!(answers.iter().map(|it| it.id).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
            let first = answers[0];
            assert!(first.interrupt != 0);
            for one in &answers {
                assert_eq!((one.at_ps, one.interrupt), (first.at_ps, first.interrupt));
                assert_eq!(one.stages.total_ps(), one.at_ps);
            }
            let moved = storage.report().traffic;
            let bytes = if write { moved.store_written_bytes } else { moved.store_read_bytes };
            assert_eq!((bytes, storage.in_flight()), (6 * 4096, 0));
        }
    }

    #[test]
    fn pages_of_a_request_share_the_store_as_single_ones_do_and_its_command_is_sent_once() {
        let end = |as_one: bool| {
            let mut storage = storage(8, false);
            let pages: Vec<_> =
                (0..4).map(|at| page(at, false, u64::from(at), u64::from(at))).collect();
            match as_one {
                true => storage.submit_request(0, &pages).unwrap(),
                false => pages.iter().for_each(|page| storage.submit_page(0, *page).unwrap()),
            }
            let mut out = Vec::new();
            storage.advance(u64::MAX, &mut out);
            page_responses(&out).iter().map(|it| it.at_ps).max().unwrap()
        };
        let (apart_ps, together_ps) = (end(false), end(true));
        // Three pages are in the store at once, of the single ones; the request is one, whatever its size.
        assert!(together_ps < apart_ps, "{together_ps} and {apart_ps}");
        assert!(together_ps > apart_ps / 2, "{together_ps} and {apart_ps}");
    }

    #[test]
    fn a_request_to_write_goes_with_its_first_page_and_ends_no_sooner_than_dram_has_given_all() {
        let end_ps = |pages: u64| {
            let mut storage = storage(1, false);
            let all: Vec<_> = (0..pages).map(|at| page(at as u32, true, at, at)).collect();
            storage.submit_request(0, &all).unwrap();
            let mut out = Vec::new();
            storage.advance(u64::MAX, &mut out);
            page_responses(&out)[0].at_ps
        };
        // Four pages are programmed at once; what is read from DRAM meanwhile is no longer waited for.
        let (one_ps, four_ps) = (end_ps(1), end_ps(4));
        let of_link_ps = 4 * 4096 * 1_000 / 16;
        assert!(four_ps - one_ps < 2 * of_link_ps, "{one_ps} and {four_ps}");
        assert!(four_ps > one_ps);
    }

    #[test]
    fn what_was_written_as_one_request_comes_back_as_another() {
        let mut storage = storage(8, true);
        let (mut out, step_ps) = (Vec::new(), 1 << 50);
        for at in 0..4 {
            let (address, version) = (at * 4096 + 128, 100 + at);
            let id = at as u32;
            let write = LineRequest { id, core: 0, address, write: true, version };
            storage.submit(0, write).unwrap();
        }
        storage.advance(step_ps, &mut out);
        let pages = |write, frame| {
            (0..4)
                .map(|at| page(at, write, frame + u64::from(at), 40 + u64::from(at)))
                .collect::<Vec<_>>()
        };
        storage.submit_request(step_ps, &pages(true, 0)).unwrap();
        storage.advance(2 * step_ps, &mut out);
        storage.submit_request(2 * step_ps, &pages(false, 8)).unwrap();
        storage.advance(3 * step_ps, &mut out);
        for at in 0..4 {
            let address = (8 + at) * 4096 + 128;
            let id = 50 + at as u32;
            let read = LineRequest { id, core: 0, address, write: false, version: 0 };
            storage.submit(3 * step_ps, read).unwrap();
        }
        out.clear();
        storage.advance(4 * step_ps, &mut out);
        let mut found: Vec<_> = out
            .iter()
            .map(|response| match response {
                Response::Line(line) => (line.id, line.version),
                Response::Page(page) => panic!("{page:?}"),
            })
            .collect();
        found.sort_unstable();
        assert_eq!(found, [(50, 100), (51, 101), (52, 102), (53, 103)]);
        assert_eq!(storage.report().stale_reads, 0);
    }

    proptest! {
        /// Lines, pages and requests of several: each is answered once, in order of time, and stages are its latency.
        #[test]
        fn requests_are_answered_once(
            depth in 1..6u32,
            asks in proptest::collection::vec((0..100_000_000u64, 0..9u32, any::<bool>(), 0..64u64), 1..80),
        ) {
            let mut storage = storage(depth, false);
            storage.store_page_bytes = 4096;
            let (mut out, mut asked, mut now_ps) = (Vec::new(), std::collections::BTreeMap::new(), 0);
            for (elapsed_ps, count, write, place) in asks {
                now_ps += elapsed_ps;
                storage.advance(now_ps, &mut out);
                let first = asked.len() as u32;
                let taken = if count == 0 {
                    let address = place * 4096;
                    let line = LineRequest { id: first, core: 0, address, write, version: 0 };
                    storage.submit(now_ps, line)
                } else {
                    let pages: Vec<_> = (0..count)
                        .map(|at| page(first + at, write, u64::from(7 * at % 64), place + u64::from(at)))
                        .collect();
                    storage.submit_request(now_ps, &pages)
                };
                if taken.is_ok() {
                    asked.extend((first..first + count.max(1)).map(|id| (id, now_ps)));
                }
            }
            storage.advance(u64::MAX, &mut out);
            prop_assert_eq!((storage.in_flight(), out.len()), (0, asked.len()));
            let mut last_ps = 0;
            for response in out {
                let (id, at_ps, stages) = match response {
                    Response::Line(it) => (it.id, it.at_ps, it.stages),
                    Response::Page(it) => (it.id, it.at_ps, it.stages),
                };
                prop_assert!(at_ps >= last_ps);
                last_ps = at_ps;
                prop_assert_eq!(asked.remove(&id).map(|since_ps| since_ps + stages.total_ps()), Some(at_ps));
            }
        }
    }

    #[test]
    fn pages_at_once_are_bounded() {
        let mut storage = storage(2, false);
        assert!(storage.submit_page(0, page(0, false, 0, 0)).is_ok());
        assert!(storage.submit_page(0, page(1, true, 1, 1)).is_ok());
        assert_eq!(storage.submit_page(0, page(2, false, 2, 2)), Err(Full));
        let mut out = Vec::new();
        storage.advance(u64::MAX, &mut out);
        assert_eq!(out.len(), 2);
    }
}
