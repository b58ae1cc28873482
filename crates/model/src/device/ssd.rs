//! A solid-state drive: flash behind a translation layer, a buffer and firmware.
//!
//! [`Ssd`] is the drive without its link, page by page; as [`SsdDevice`] it is behind a link and takes
//! requests of any size. What lies where is decided by the translation layer ([`translation`]), which
//! knows no time; how long flash takes, by [`Nand`], which knows nothing of what it holds. What is
//! modelled is said in `docs/models/ssd.md`.

mod buffer;
mod check;
mod collect;
mod control;
mod flush;
mod force;
mod idle;
mod log;
mod map;
mod power;
mod report;
mod shared;
mod spec;
pub mod translation;
mod turns;
mod warm;

pub use buffer::BufferReplacement;
pub use idle::IdleCounts;
pub use log::LogCounts;
pub use map::MapCounts;
pub use report::{DramTraffic, HostCounts, SsdReport};
pub use spec::{
    CollectionSpec, IdleSpec, LogSpec, MapSpec, SsdBufferSpec, SsdDramPowerSpec, SsdFirmwareSpec,
    SsdSpec, WearSpec,
};
pub use translation::{InitialFlash, VictimPolicy};

use super::linked::{DonePage, Linked, PageAccess, PageControl, Pages};
use crate::activity::Activity;
use crate::link::Lane;
use crate::medium::nand::{self, Kind, Nand, NandPowerSpec};
use crate::power::{Content, Outage, UnderWay, Weakness, Weaknesses};
use crate::request::{MediumWait, Tell};
use buffer::{Buffer, Written};
use collect::Collection;
use control::Command;
use flush::LateCommands;
use idle::Idle;
use log::Log;
use map::Map;
use power::Contents;
use shared::Shared;
use std::collections::VecDeque;
use tierscope_kernel::{CowCell, EventQueue, Slab, Stage, Timeline};
use tierscope_units::{Energy, Power};
use translation::{Geometry, Initial, Page, Policy, Stripe, Translation};
use turns::Turns;

/// A drive behind its link.
pub type SsdDevice = Linked<Ssd>;

const NONE: u32 = u32::MAX;

/// A page that the host wants.
#[derive(Clone, Debug)]
struct Access {
    access: PageAccess,
    /// Time up to which `stages` reaches.
    clock_ps: u64,
    stages: Timeline,
    /// The next of those who wait for the same entry of the buffer, or [`NONE`].
    next: u32,
    /// What the map says of its page is known.
    mapped: bool,
}

impl Access {
    #[inline]
    fn pass(&mut self, stage: Stage, until_ps: u64) {
        self.stages.push(stage, until_ps - self.clock_ps);
        self.clock_ps = until_ps;
    }

    /// Passes the steps of a read of flash: command, array, and data over the channel.
    fn pass_read(&mut self, done: &nand::Done) {
        self.pass(Stage::StoreQueue, done.command_ps);
        self.pass(Stage::Device, done.first_ps);
        self.pass(Stage::Medium, done.first_end_ps);
        self.pass(Stage::StoreQueue, done.second_ps);
        self.pass(Stage::Device, done.at_ps);
    }
}

/// What operations on flash are for.
#[derive(Clone, Copy, Debug)]
enum Job {
    /// The host reads a page.
    Read { access: u32 },
    /// The host writes part of a page, of which the rest is read.
    Fill { access: u32 },
    /// A page is programmed with what the buffer had, from this entry on.
    Flush { page: Page, first: u32 },
    /// Collection reads these units of a page.
    Copy { page: Page, live: u32 },
    /// Collection programs a page.
    Move { page: Page },
    /// Collection erases a block.
    Erase { lane: u32, block: u32 },
    /// A page of the map is read.
    ReadMap { map: u32 },
    /// Pages of the map are programmed.
    WriteMap { page: Page },
    /// A page of a logical block is read to be merged.
    Gather { lane: u32, offset: u32 },
    /// A page of a logical block is programmed.
    Merge { page: Page },
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// Firmware hands on an access.
    Ready(u32),
    /// The data of a write are in the buffer's memory.
    Come(u32),
    /// An access is done.
    Answer(u32),
    /// Firmware hands on a flush or a trim.
    Control(u32),
    /// Nothing may have been asked for a while.
    Pause,
}

/// What is under way on a lane.
#[derive(Clone, Debug, Default)]
struct Work {
    /// Pages of the host that are being programmed.
    programs: u32,
    /// There is no room for more before what is being collected has been erased.
    lacks_room: bool,
    collection: Option<Collection>,
}

/// The state of a drive without its link.
#[derive(Clone, Debug)]
pub struct Ssd {
    pages: u64,
    page_bytes: u32,
    split: u32,
    /// Dies of each channel, and of all channels over which a page is split.
    channel_dies: u32,
    flash_page_bytes: u32,
    nand: Nand,
    layer: Translation,
    stripe: Stripe,
    /// The part of the map in memory, where the rest lies in flash.
    map: Option<Box<Map>>,
    /// The logs, where the map is one of blocks.
    log: Option<Box<Log>>,
    buffer: CowCell<Buffer>,
    flush_above: u32,
    write_back: bool,
    /// Whether what the buffer has survives a failure of power.
    capacitors: bool,
    /// What capacitors hold, in joules, and for how long they hold the drive up, where that is bounded.
    capacitor_j: Option<f64>,
    hold_up_ps: Option<u64>,
    /// Pages that one command programs.
    command_pages: u32,
    /// Programs of the host that a lane has under way at most: one in the array, one in the
    /// registers, in each plane.
    lane_programs: u32,
    /// The turns of the stripe whose lanes may have another page of the host.
    turns: Turns,
    free_blocks: u32,
    copies: u32,
    /// What a drive that collects in pauses knows of them.
    idle: Option<Idle>,
    endurance: u32,
    /// What flash takes, where it is known, what controller and interface take, in watts, and what the DRAM takes.
    power: Option<NandPowerSpec>,
    controller_w: Option<f64>,
    dram_power: Option<SsdDramPowerSpec>,
    /// When each processor is free, and which of them is free first.
    cores: Vec<u64>,
    core: usize,
    firmware: SsdFirmwareSpec,
    memory: Lane,
    memory_ps: u64,
    accesses: Slab<Access>,
    jobs: Slab<Job>,
    /// Of these, programs of what the host wrote or collection moves.
    programming: u32,
    work: Vec<Work>,
    /// Lanes that collect a block.
    collecting: u32,
    /// Writes that wait for room in the buffer.
    waiting: VecDeque<u32>,
    /// Accesses of a drive that writes back which wait all the same until something is in flash.
    forced: u32,
    /// Pages of flash that are being read for a part of them, and the accesses that wait for each.
    shared: Shared,
    /// Flushes and trims.
    commands: Slab<Command>,
    /// Flushes that wait for flash, each with the epoch of the buffer that it waits for.
    flushes: VecDeque<(u32, u32)>,
    /// The turn of the stripe that is next to be written.
    turn: u32,
    /// Lanes that wait to erase a block, until what is newer than its units is in flash.
    erases: Vec<u32>,
    late_commands: LateCommands,
    events: EventQueue<Event>,
    /// Room for what flash reports, kept to spare the allocation.
    done: Vec<nand::Done>,
    /// Functional warming: nothing takes time, and this is what flash does.
    is_warming: bool,
    at_once: VecDeque<u32>,
    /// Room for what is answered then, kept to spare the allocation.
    answered: Vec<DonePage>,
    host: HostCounts,
    /// What moved through the buffer's memory.
    traffic: DramTraffic,
    /// Where a failure of power is to come: what flash and buffer hold.
    contents: Option<Box<Contents>>,
    /// Writes and flushes are answered before they are safe.
    early: bool,
}

impl Ssd {
    /// A drive with nothing to do. The description has been checked.
    pub fn new(spec: &SsdSpec) -> Self {
        let geometry = Geometry::new(&spec.nand, spec.split, spec.page.bytes());
        let usable = spec.usable(&geometry);
        let stripe = Stripe::new(&spec.striping, &spec.nand, spec.split, &geometry);
        let pages = spec.capacity.bytes() / spec.page.bytes();
        let free = spec.collection.free_blocks;
        let units = (pages, spec.map_pages());
        let initial = Initial::new(spec.initial, units, &geometry, stripe.clone(), &usable, free);
        let page_bytes = spec.page.bytes();
        let map = spec.map.as_ref().map(|map| Box::new(Map::new(map, pages, page_bytes)));
        let policy = Policy {
            victims: spec.collection.policy,
            window: spec.collection.window,
            endurance: spec.wear.endurance,
            wear_difference: spec.wear.difference,
            least_blocks: spec.least_blocks(&geometry),
        };
        let layer = Translation::new(units.0 + units.1, geometry, policy, initial, &usable);
        let log = spec.log.as_ref();
        let log = log.map(|log| Box::new(Log::new(log, spec.initial, &layer, pages)));
        let entries = |bytes: u64| (bytes / spec.page.bytes()).clamp(1, 1 << 30) as u32;
        let buffer = &spec.buffer;
        Ssd {
            pages,
            page_bytes: spec.page.bytes() as u32,
            split: spec.split,
            channel_dies: spec.nand.ways * spec.nand.dies,
            flash_page_bytes: spec.nand.page.bytes() as u32,
            nand: Nand::new(&spec.nand, spec.split),
            layer,
            map,
            log,
            buffer: CowCell::new(Buffer::new(
                entries(buffer.capacity.bytes()),
                entries(buffer.dirty.bytes()),
                buffer.read_cache,
                buffer.replacement.unwrap_or_default(),
            )),
            flush_above: (buffer.flush_above.bytes() / spec.page.bytes()).min(1 << 30) as u32,
            write_back: buffer.write_back,
            capacitors: buffer.capacitors,
            capacitor_j: buffer.capacitor_energy.map(Energy::joules),
            hold_up_ps: buffer.hold_up_time.map(|it| it.picoseconds()),
            command_pages: if spec.nand.multi_plane_programs { spec.nand.planes } else { 1 },
            lane_programs: 2 * spec.nand.planes,
            turns: Turns::new(stripe.round()),
            stripe,
            free_blocks: free,
            copies: spec.collection.copies,
            idle: Idle::new(&spec.collection),
            endurance: spec.wear.endurance,
            power: spec.nand.power.clone(),
            controller_w: spec.controller_power.map(Power::watts),
            dram_power: spec.dram_power.clone(),
            cores: vec![0; spec.firmware.cores as usize],
            core: 0,
            firmware: spec.firmware.clone(),
            memory: Lane::new(buffer.bandwidth.bytes_per_second()),
            memory_ps: buffer.latency.picoseconds(),
            accesses: Slab::new(),
            jobs: Slab::new(),
            programming: 0,
            work: vec![Work::default(); geometry.lanes as usize],
            collecting: 0,
            waiting: VecDeque::new(),
            forced: 0,
            shared: Shared::default(),
            commands: Slab::new(),
            flushes: VecDeque::new(),
            turn: 0,
            erases: Vec::new(),
            late_commands: LateCommands::new(geometry.lanes),
            events: EventQueue::new(),
            done: Vec::new(),
            is_warming: false,
            at_once: VecDeque::new(),
            answered: Vec::new(),
            host: HostCounts::default(),
            traffic: DramTraffic::default(),
            contents: None,
            early: false,
        }
    }

    /// The translation layer.
    pub fn layer(&self) -> &Translation {
        &self.layer
    }

    // ---- Host -----------------------------------------------------------------------------------

    /// The processor that is free first works on a page, or a command; from when until when. As each takes the same
    /// time, that is the one that has been at work for longest.
    #[inline]
    fn occupy_core(&mut self, now_ps: u64) -> (u64, u64) {
        let free_ps = &mut self.cores[self.core];
        let start_ps = now_ps.max(*free_ps);
        *free_ps = start_ps + self.firmware.page_time.picoseconds();
        let end_ps = *free_ps;
        self.core = if self.core + 1 == self.cores.len() { 0 } else { self.core + 1 };
        (start_ps, end_ps)
    }

    /// An access goes through the buffer's memory; when that is done.
    #[inline]
    fn cross_memory(&mut self, now_ps: u64, index: u32) -> u64 {
        let access = &mut self.accesses[index];
        let PageAccess { write, bytes, .. } = access.access;
        let moved = match write {
            true => &mut self.traffic.written_bytes,
            false => &mut self.traffic.read_bytes,
        };
        *moved += u64::from(bytes);
        if self.is_warming {
            return now_ps;
        }
        let (start_ps, end_ps) = self.memory.transfer(now_ps, u64::from(bytes));
        let end_ps = end_ps + self.memory_ps;
        access.pass(Stage::StoreQueue, start_ps);
        access.pass(Stage::Device, end_ps);
        end_ps
    }

    /// Firmware hands on an access.
    #[inline(never)]
    fn ready(&mut self, now_ps: u64, index: u32, out: &mut Vec<DonePage>) {
        if self.accesses[index].access.write {
            let end_ps = self.cross_memory(now_ps, index);
            self.events.push(end_ps, 0, Event::Come(index));
            return;
        }
        self.read(now_ps, index, out);
    }

    /// Reads a page, from where it is.
    fn read(&mut self, now_ps: u64, index: u32, out: &mut Vec<DonePage>) {
        let PageAccess { page, force_unit_access, .. } = self.accesses[index].access;
        if force_unit_access && self.read_forced(index) {
            return;
        }
        if self.buffer.read(page) {
            self.host.buffer_hits += 1;
            let end_ps = self.cross_memory(now_ps, index);
            self.events.push(end_ps, 0, Event::Answer(index));
            return;
        }
        if !self.knows_place(index) {
            return;
        }
        let Some(place) = self.layer.place(page) else {
            // Nothing was written there: zeros.
            return self.answer(now_ps, index, out);
        };
        let at = self.layer.geometry().page_of(place);
        if !self.layer.is_page_programmed(at) {
            // It is on its way into flash.
            self.host.buffer_hits += 1;
            let end_ps = self.cross_memory(now_ps, index);
            self.events.push(end_ps, 0, Event::Answer(index));
            return;
        }
        if self.joins(index) {
            return;
        }
        self.read_flash(index, at);
    }

    /// Reads a page from flash.
    fn read_flash(&mut self, index: u32, page: Page) {
        let demand = !self.accesses[index].access.background;
        let job = self.jobs.insert(Job::Read { access: index });
        self.operate(job, Kind::Read, page, 1, demand);
    }

    /// The data of a write are in the buffer's memory, and want an entry.
    #[inline(never)]
    fn come(&mut self, now_ps: u64, index: u32, out: &mut Vec<DonePage>) {
        let PageAccess { page, whole, .. } = self.accesses[index].access;
        let fills = !whole && !self.buffer.holds(page);
        if fills && !self.knows_place(index) {
            return;
        }
        if fills
            && let Some(place) = self.layer.place(page)
            && self.layer.is_programmed(place)
        {
            if self.joins(index) {
                return;
            }
            let job = self.jobs.insert(Job::Fill { access: index });
            let page = self.layer.geometry().page_of(place);
            self.operate(job, Kind::Read, page, 1, true);
            return;
        }
        self.store(now_ps, index, out);
    }

    /// What was read from flash by `now_ps` is answered when it has been decoded.
    fn decoded(&mut self, now_ps: u64, at_ps: u64, index: u32, out: &mut Vec<DonePage>) {
        if at_ps > now_ps {
            self.events.push(at_ps, 0, Event::Answer(index));
        } else {
            self.answer(at_ps, index, out);
        }
    }

    /// A whole page that was written takes an entry of the buffer, or waits for one.
    fn store(&mut self, now_ps: u64, index: u32, out: &mut Vec<DonePage>) {
        if !self.waiting.is_empty() || !self.take_entry(now_ps, index, out) {
            self.waiting.push_back(index);
        }
        self.flush();
    }

    /// Whether a write has an entry of the buffer from now on.
    fn take_entry(&mut self, now_ps: u64, index: u32, out: &mut Vec<DonePage>) -> bool {
        let PageAccess { page, content, force_unit_access: forced, .. } =
            self.accesses[index].access;
        let Written::In(entry) = self.buffer.write(page) else { return false };
        self.note_buffered(page, content);
        self.accesses[index].pass(Stage::StoreQueue, now_ps);
        if self.write_back && !forced || self.early {
            self.answer(now_ps, index, out);
        } else {
            self.forced += u32::from(self.write_back);
            let before = self.buffer.wait(entry, index);
            self.accesses[index].next = before.unwrap_or(NONE);
        }
        true
    }

    /// An access is done.
    #[inline(never)]
    fn answer(&mut self, at_ps: u64, index: u32, out: &mut Vec<DonePage>) {
        let it = &self.accesses[index];
        debug_assert_eq!(it.clock_ps, at_ps);
        self.host.written_pages += u64::from(it.access.write);
        self.host.read_pages += u64::from(!it.access.write);
        out.push(DonePage { token: it.access.token, at_ps, stages: it.stages });
        let it = self.accesses.remove(index);
        self.note_page(&it.stages);
        self.begin_pause(at_ps);
    }

    // ---- Flash ----------------------------------------------------------------------------------

    /// Starts the operation of a job on a page of its lane. Reads move so many units, programs a page. The dies of a lane
    /// do the same at the same time.
    fn operate(&mut self, token: u32, kind: Kind, page: Page, units: u32, demand: bool) {
        let bytes = match kind {
            Kind::Read => units * self.page_bytes / self.split,
            Kind::Program => self.flash_page_bytes,
            Kind::Erase => 0,
        };
        let planes = self.layer.geometry().planes;
        let operation = nand::Operation {
            token,
            kind,
            die: page.lane,
            plane: page.page % planes,
            block: page.block,
            page: page.page / planes,
            bytes,
            demand,
        };
        if self.is_warming {
            self.at_once.push_back(token);
            self.nand.count(&operation);
        } else {
            self.nand.submit(operation);
        }
    }

    /// Flash has done an operation.
    #[inline(never)]
    fn done(&mut self, done: &nand::Done, out: &mut Vec<DonePage>) {
        match self.jobs.remove(done.token) {
            Job::Read { access } => {
                let decode_ps = self.firmware.decode_latency.picoseconds();
                let at_ps = done.at_ps + if self.is_warming { 0 } else { decode_ps };
                let it = &mut self.accesses[access];
                it.pass_read(done);
                it.pass(Stage::Device, at_ps);
                if self.buffer.keep(it.access.page) {
                    self.traffic.written_bytes += u64::from(self.page_bytes);
                }
                let joined = self.take_joined(access);
                self.decoded(done.at_ps, at_ps, access, out);
                self.serve_joined(done.at_ps, at_ps, joined, out);
            }
            Job::Fill { access } => {
                let it = &mut self.accesses[access];
                // The host has brought the rest.
                let missing = self.page_bytes.saturating_sub(it.access.bytes);
                self.traffic.written_bytes += u64::from(missing);
                it.pass_read(done);
                let joined = self.take_joined(access);
                self.store(done.at_ps, access, out);
                self.serve_joined(done.at_ps, done.at_ps, joined, out);
            }
            Job::Flush { page, first } => {
                self.programming -= 1;
                self.flushed(done, page, first, out);
            }
            Job::Copy { page, live } => self.copied(page, live),
            Job::Move { page } => {
                self.programming -= 1;
                self.moved(page);
            }
            Job::Erase { lane, block } => {
                self.layer.erased(lane, block);
                let collected = self.work[lane as usize].collection.take();
                self.collecting -= u32::from(collected.is_some());
                self.has_room(lane);
                self.merge_erased(lane);
                self.collect(lane);
                self.admit(done.at_ps, out);
            }
            Job::ReadMap { map } => self.loaded(done.at_ps, map, Some(done), out),
            Job::WriteMap { page } => self.map_written(page),
            Job::Gather { lane, offset } => {
                self.gathered(lane, offset);
                self.admit(done.at_ps, out);
            }
            Job::Merge { page } => {
                self.merged(page);
                self.admit(done.at_ps, out);
            }
        }
    }

    /// What was to happen at `at_ps` does.
    fn happen(&mut self, at_ps: u64, event: Event, out: &mut Vec<DonePage>) {
        match event {
            Event::Ready(index) => self.ready(at_ps, index, out),
            Event::Come(index) => self.come(at_ps, index, out),
            Event::Answer(index) => self.answer(at_ps, index, out),
            Event::Control(index) => self.control(at_ps, index, out),
            Event::Pause => self.pause(at_ps),
        }
    }

    /// Writes that wait take what room there is, and what can be programmed is.
    fn admit(&mut self, now_ps: u64, out: &mut Vec<DonePage>) {
        self.flush();
        while let Some(&index) = self.waiting.front()
            && self.take_entry(now_ps, index, out)
        {
            self.waiting.pop_front();
            self.flush();
        }
    }
}

impl Pages for Ssd {
    type Done = DonePage;

    fn depths(&self, tell: &mut Tell<'_>) {
        tell("drive.pages", self.accesses.len());
        tell("drive.dirty_pages", self.buffer.dirty() as usize);
        tell("flash.operations", self.nand.in_flight());
    }

    #[inline]
    fn pages(&self) -> u64 {
        self.pages
    }

    fn submit(&mut self, now_ps: u64, access: PageAccess) {
        let (page, pages) = (access.page, self.pages);
        assert!(page < pages, "page {page} of a drive of {pages}");
        self.end_pause();
        let (start_ps, free_ps) = self.occupy_core(now_ps);
        let firmware = &self.firmware;
        let delay = if access.write { firmware.write_latency } else { firmware.read_latency };
        let ready_ps = free_ps + delay.picoseconds();
        let (clock_ps, stages) = (now_ps, Timeline::new());
        let mut it = Access { access, clock_ps, stages, next: NONE, mapped: false };
        it.pass(Stage::StoreQueue, start_ps);
        it.pass(Stage::Device, ready_ps);
        let index = self.accesses.insert(it);
        self.events.push(ready_ps, 0, Event::Ready(index));
    }

    fn takes_control(&self) -> bool {
        true
    }

    fn submit_control(&mut self, now_ps: u64, token: u32, control: PageControl) {
        self.take_control(now_ps, token, control);
    }

    #[inline]
    fn next_event_ps(&self) -> Option<u64> {
        let first_ps = self.events.first_ps().min(self.nand.first_ps());
        (first_ps != u64::MAX).then_some(first_ps)
    }

    fn keeps_answered(&self) -> bool {
        self.capacitors || !self.write_back
    }

    fn follow_contents(&mut self, weaknesses: Weaknesses) -> bool {
        self.follow(weaknesses);
        true
    }

    fn can_lack(&self, weakness: Weakness) -> bool {
        match weakness {
            Weakness::NoCapacitors => self.capacitors && self.write_back,
            Weakness::EarlyCompletion => !self.capacitors,
            _ => false,
        }
    }

    fn cut_power(&mut self, now_ps: u64) -> Outage {
        self.fail(now_ps)
    }

    fn fork(&mut self) -> Self {
        Ssd {
            nand: self.nand.clone(),
            layer: self.layer.fork(),
            stripe: self.stripe.clone(),
            turns: self.turns.clone(),
            map: self.map.clone(),
            log: self.log.as_mut().map(|log| Box::new(log.fork())),
            idle: self.idle.clone(),
            buffer: self.buffer.fork(),
            power: self.power.clone(),
            dram_power: self.dram_power.clone(),
            cores: self.cores.clone(),
            firmware: self.firmware.clone(),
            memory: self.memory.clone(),
            accesses: self.accesses.clone(),
            jobs: self.jobs.clone(),
            work: self.work.clone(),
            waiting: self.waiting.clone(),
            shared: self.shared.clone(),
            commands: self.commands.clone(),
            flushes: self.flushes.clone(),
            erases: self.erases.clone(),
            events: self.events.clone(),
            done: Vec::new(),
            at_once: VecDeque::new(),
            answered: Vec::new(),
            contents: self.contents.as_mut().map(|contents| Box::new(contents.fork())),
            ..*self
        }
    }

    fn content(&self, page: u64) -> Content {
        self.kept_content(page)
    }

    fn warm(&mut self, now_ps: u64, access: PageAccess) {
        self.warm_page(now_ps, access);
    }

    fn warm_control(&mut self, now_ps: u64, control: PageControl) {
        self.warm_command(now_ps, control);
    }

    fn take_over_warmed(&mut self, warmed: &mut Self) {
        *self = warmed.fork();
    }

    /// None where the buffer has the page, or nothing was written there; else a read of flash, and one for each
    /// operation that the die has before it, but where it is the page's own read.
    fn medium_wait(&self, page: u64) -> MediumWait {
        let place = self.layer.place(page).filter(|place| self.layer.is_programmed(*place));
        let Some(place) = place.filter(|_| !self.buffer.holds(page)) else {
            return MediumWait::default();
        };
        let lane = self.layer.geometry().page_of(place).lane;
        let (read_ps, _) = self.nand.slowest_ps();
        let is_under_way = self.shared.contains_key(&page);
        let reads = (self.nand.waiting(lane) as u64 + u64::from(!is_under_way)).max(1);
        MediumWait { duration_ps: read_ps.saturating_mul(reads), is_under_way }
    }

    fn under_way(&self) -> UnderWay {
        self.exposed()
    }

    fn activity(&self, now_ps: u64) -> Activity {
        let report = self.report();
        Activity {
            energy: self.energy(&report, now_ps),
            drive: Some(Box::new(report)),
            ..Activity::default()
        }
    }

    /// Of what happens at the same time, flash comes first.
    fn advance(&mut self, now_ps: u64, out: &mut Vec<DonePage>) {
        loop {
            let (nand_ps, own_ps) = (self.nand.first_ps(), self.events.first_ps());
            let at_ps = nand_ps.min(own_ps);
            if at_ps > now_ps || at_ps == u64::MAX {
                return;
            }
            if nand_ps == at_ps {
                let mut done = std::mem::take(&mut self.done);
                self.nand.advance(at_ps, &mut done);
                for one in done.drain(..) {
                    self.done(&one, out);
                }
                self.done = done;
            } else if let Some((_, event)) = self.events.pop() {
                self.happen(at_ps, event, out);
            }
            self.go_on_mapping(at_ps, out);
            self.nand.start_all(at_ps);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
