//! NAND flash: an array of channels, ways, dies and planes, operation by operation.
//!
//! [`Nand`] knows of time only. It is given reads and programs of pages, and erases, each for a die;
//! it says when each is done. Which page holds what, and that a page is programmed once between two
//! erases of its block, is its user's affair (`device::ssd`).
//!
//! Sources: Open NAND Flash Interface Specification 4.2 (commands, multi-plane operations, read
//! cache, page cache program); G. Wu and X. He, "Reducing SSD read latency via NAND flash program and
//! erase suspension", FAST 2012. What is modelled is said in `docs/models/nand.md`.

mod bus;
mod die;
mod spec;

pub use spec::{MultiPlaneReads, NandPowerSpec, NandSpec, PageTimesSpec};

use bus::{Bus, Turn};
use die::{Abilities, Die, Next, Phase, Registers, Working};
use tierscope_kernel::{EventQueue, Slab};

/// What is done to a page, or a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A page is read, and so many of its bytes cross the channel.
    Read,
    /// A page crosses the channel and is programmed.
    Program,
    /// A block of each plane is erased.
    Erase,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Chosen by the requester, returned when it is done.
    pub token: u32,
    /// What is done.
    pub kind: Kind,
    /// The die. Dies are numbered channel by channel: die / dies of a channel is the channel.
    pub die: u32,
    /// The plane; of no meaning for an erase, which concerns all.
    pub plane: u32,
    /// The block in the plane.
    pub block: u32,
    /// The page in the block; of no meaning for an erase.
    pub page: u32,
    /// Bytes that cross the channel.
    pub bytes: u32,
    /// A read that somebody waits for. All else waits its turn.
    pub demand: bool,
}

/// An operation is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The operation's.
    pub token: u32,
    /// When: a read, when its data have crossed the channel; else when the array has ended.
    pub at_ps: u64,
    /// When its command began to cross the channel.
    pub command_ps: u64,
    /// When its first step began: a read's in the array, a program's on the channel.
    pub first_ps: u64,
    /// When its first step ended.
    pub first_end_ps: u64,
    /// When its second step began: a read's on the channel, a program's in the array. An erase has
    /// one step.
    pub second_ps: u64,
}

impl Done {
    /// An operation that took no time.
    pub const fn at(token: u32, at_ps: u64) -> Self {
        let [command_ps, first_ps, first_end_ps, second_ps] = [at_ps; 4];
        Done { token, at_ps, command_ps, first_ps, first_end_ps, second_ps }
    }
}

counters! {
    /// What an array did.
    pub struct NandCounts {
        /// Pages read from the array.
        pub reads,
        /// Pages programmed.
        pub programs,
        /// Erase commands: a block of each plane.
        pub erases,
        /// Commands that read, each of one page in some planes.
        pub read_commands,
        /// Commands that program, each of one page in some planes.
        pub program_commands,
        /// Times that reads suspended a program or an erase.
        pub suspends,
        /// Time in which arrays read, in picoseconds, summed over dies.
        pub read_ps,
        /// Time in which arrays programmed.
        pub program_ps,
        /// Time in which arrays erased.
        pub erase_ps,
        /// Time in which channels were taken, in picoseconds, summed over channels.
        pub bus_ps,
    }
}

impl NandCounts {
    /// A command for so many pages takes an array so long.
    fn add(&mut self, kind: Kind, pages: u64, time_ps: u64) {
        match kind {
            Kind::Read => {
                self.reads += pages;
                self.read_commands += 1;
                self.read_ps += time_ps;
            }
            Kind::Program => {
                self.programs += pages;
                self.program_commands += 1;
                self.program_ps += time_ps;
            }
            Kind::Erase => {
                self.erases += 1;
                self.erase_ps += time_ps;
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Held {
    operation: Operation,
    /// Its number in the order of coming.
    order: u64,
    /// The next of the same group, or [`NONE`].
    next: u32,
    command_ps: u64,
    first_ps: u64,
    first_end_ps: u64,
    second_ps: u64,
}

const NONE: u32 = u32::MAX;
/// Reads that wait are looked through so far for what the same command can read.
const LOOK: usize = 16;
/// The most planes of a die ([`NandSpec::check`]).
const MOST_PLANES: usize = 16;

/// Command and address cycles before the array reads: 00h, five of address, 30h.
const READ_CYCLES: u64 = 7;
/// Before data are taken from a register: 06h, five of address, E0h.
const SELECT_CYCLES: u64 = 7;
/// Around the data of a program: 80h, five of address, 10h.
const PROGRAM_CYCLES: u64 = 7;
/// Before an erase: 60h, three of address, D0h.
const ERASE_CYCLES: u64 = 5;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The array of a die ends, unless its generation is another by now.
    Array { die: u32, generation: u32 },
    /// A die has suspended what it did, unless its generation is another by now.
    Suspended { die: u32, generation: u32 },
    /// A program's data are in the registers of a die.
    Loaded { die: u32 },
    /// An operation's data have left.
    Left { operation: u32 },
    /// A channel is free, and something waits.
    Free { channel: u32 },
}

/// The state of an array of flash.
#[derive(Clone, Debug)]
pub struct Nand {
    /// Dies that do the same at the same time, each on a channel of its own: one of them stands for all.
    twins: u32,
    dies: Vec<Die>,
    buses: Vec<Bus>,
    dies_of_channel: u32,
    planes: u32,
    /// Times of the types of pages to read, and to program.
    page_ps: Vec<(u64, u64)>,
    erase_ps: u64,
    cycle_ps: u64,
    bus_bytes_per_second: u64,
    /// Bytes of a page, and the time of the channel for them.
    page_data_ps: (u32, u64),
    multi_plane_reads: MultiPlaneReads,
    multi_plane_programs: bool,
    abilities: Abilities,
    held: Slab<Held>,
    /// Operations taken so far.
    taken: u64,
    /// Dies that have been given something since.
    given: Vec<u32>,
    events: EventQueue<Event>,
    counts: NandCounts,
    in_detail: InDetail,
}

/// Pages that were read and programmed in detail, and the time of arrays for them.
#[derive(Clone, Copy, Debug, Default)]
struct InDetail {
    read: (u64, u64),
    programmed: (u64, u64),
}

impl InDetail {
    /// So many pages tell what one takes, and about so many of the latest do: how many go together changes with the load.
    const ENOUGH: u64 = 100;
    const LATEST: u64 = 8192;

    fn add(&mut self, kind: Kind, pages: u64, time_ps: u64) {
        let sums = match kind {
            Kind::Read => &mut self.read,
            Kind::Program => &mut self.programmed,
            Kind::Erase => return,
        };
        *sums = (sums.0 + pages, sums.1 + time_ps);
        if sums.0 > 2 * Self::LATEST {
            *sums = (sums.0 / 2, sums.1 / 2);
        }
    }

    /// What a page takes in the mean; nothing before enough of them, and of erases.
    fn mean_ps(&self, kind: Kind) -> Option<u64> {
        let (pages, time_ps) = match kind {
            Kind::Read => self.read,
            Kind::Program => self.programmed,
            Kind::Erase => return None,
        };
        (pages >= Self::ENOUGH).then(|| time_ps / pages)
    }
}

impl Nand {
    /// An array with nothing to do. The description has been checked.
    ///
    /// An operation concerns `twins` dies at once, one on each of as many neighbouring channels, which so have the same to
    /// do at all times. They are numbered together, and the operation's bytes are those that cross each channel.
    pub fn new(spec: &NandSpec, twins: u32) -> Self {
        let times = |times: &PageTimesSpec| {
            (times.read_latency.picoseconds(), times.program_latency.picoseconds())
        };
        let mut nand = Nand {
            twins,
            dies: vec![Die::default(); spec.all_dies() as usize / twins as usize],
            buses: vec![Bus::default(); (spec.channels / twins) as usize],
            dies_of_channel: spec.ways * spec.dies,
            planes: spec.planes,
            page_ps: spec.page_types().map(times).collect(),
            erase_ps: spec.erase_latency.picoseconds(),
            cycle_ps: spec.command_cycle.picoseconds(),
            bus_bytes_per_second: spec.bus_bandwidth().bytes_per_second(),
            page_data_ps: (0, 0),
            multi_plane_reads: spec.multi_plane_reads,
            multi_plane_programs: spec.multi_plane_programs,
            abilities: Abilities {
                cache_read: spec.cache_read,
                cache_program: spec.cache_program,
                reads_ahead: spec.reads_ahead,
                suspends: spec.suspends,
                suspend_ps: spec.suspend_latency.picoseconds(),
            },
            held: Slab::new(),
            taken: 0,
            given: Vec::new(),
            events: EventQueue::new(),
            counts: NandCounts::default(),
            in_detail: InDetail::default(),
        };
        let page_bytes = spec.page.bytes() as u32;
        nand.page_data_ps = (page_bytes, nand.data_ps(page_bytes));
        nand
    }

    /// Takes an operation, which starts with the next call of [`Nand::start_all`]: what is given
    /// together can go into one command.
    pub fn submit(&mut self, operation: Operation) {
        debug_assert!(operation.plane < self.planes || operation.kind == Kind::Erase);
        let order = self.taken;
        self.taken += 1;
        let index = self.held.insert(Held {
            operation,
            order,
            next: NONE,
            command_ps: 0,
            first_ps: 0,
            first_end_ps: 0,
            second_ps: 0,
        });
        let die = &mut self.dies[operation.die as usize];
        let demand = operation.demand && operation.kind == Kind::Read;
        if demand {
            die.reads.push_back(index)
        } else {
            die.others.push_back(index)
        }
        self.given.push(operation.die);
    }

    /// Starts what can start of all that was given, at `now_ps`, which never goes back between calls.
    pub fn start_all(&mut self, now_ps: u64) {
        for place in 0..self.given.len() {
            self.start(now_ps, self.given[place]);
        }
        self.given.clear();
    }

    /// When something happens next, if anything will.
    #[inline]
    pub fn next_event_ps(&self) -> Option<u64> {
        self.events.peek_ps()
    }

    /// The same, or `u64::MAX` if nothing will.
    #[inline]
    pub fn first_ps(&self) -> u64 {
        self.events.first_ps()
    }

    /// Does all that is due until `now_ps` and appends what was done by then, in order of time.
    pub fn advance(&mut self, now_ps: u64, out: &mut Vec<Done>) {
        while self.events.first_ps() <= now_ps
            && let Some((at_ps, event)) = self.events.pop()
        {
            self.happen(at_ps, event, out);
        }
    }

    /// Power fails: what waits, or is under way, never ends. What it did so far stays counted.
    pub fn cut_power(&mut self) {
        for die in &mut self.dies {
            *die = Die { busy_ps: die.busy_ps, ..Die::default() };
        }
        for bus in &mut self.buses {
            let busy_ps = bus.busy_ps;
            *bus = Bus::default();
            bus.busy_ps = busy_ps;
        }
        (self.held, self.events) = (Slab::new(), EventQueue::new());
        self.given.clear();
    }

    /// Ends at once all that waits or is under way, and tells each token, in the order of coming. Time that arrays
    /// and channels have been taken for already stays counted.
    pub fn end_all(&mut self, mut tell: impl FnMut(u32)) {
        if self.held.is_empty() {
            return;
        }
        let mut all: Vec<_> =
            self.held.iter().map(|(_, held)| (held.order, held.operation.token)).collect();
        all.sort_unstable();
        all.into_iter().for_each(|(_, token)| tell(token));
        self.cut_power();
    }

    /// Counts an operation that is done at once. It takes what a page took of those in detail, in the mean of the latest, as one
    /// command may do several planes, or pages in part; before there were enough what it takes by itself.
    pub fn count(&mut self, operation: &Operation) {
        let own_ps = self.array_ps(operation);
        let work_ps = self.in_detail.mean_ps(operation.kind).unwrap_or(own_ps);
        let bus_ps = self.channel_ps(operation);
        self.dies[operation.die as usize].busy_ps += work_ps;
        self.buses[(operation.die / self.dies_of_channel) as usize].busy_ps += bus_ps;
        self.counts.add(operation.kind, 1, work_ps);
    }

    /// How long an operation takes its channel by itself.
    fn channel_ps(&self, operation: &Operation) -> u64 {
        let cycles = match operation.kind {
            Kind::Read => READ_CYCLES + SELECT_CYCLES,
            Kind::Program => PROGRAM_CYCLES,
            Kind::Erase => ERASE_CYCLES * u64::from(self.planes),
        };
        let data_ps = if operation.kind == Kind::Erase { 0 } else { self.data_ps(operation.bytes) };
        cycles * self.cycle_ps + data_ps
    }

    /// Picoseconds to read a page of the slowest type in the array, and to program one.
    pub fn slowest_ps(&self) -> (u64, u64) {
        let most = |time: fn(&(u64, u64)) -> u64| self.page_ps.iter().map(time).max().unwrap_or(0);
        (most(|times| times.0), most(|times| times.1))
    }

    /// Bytes that all channels move in a second.
    pub fn bytes_per_second(&self) -> u64 {
        self.bus_bytes_per_second.saturating_mul(self.buses.len() as u64 * u64::from(self.twins))
    }

    /// Operations taken and not yet done, of each die.
    pub fn in_flight(&self) -> usize {
        self.held.len() * self.twins as usize
    }

    /// Operations that wait for a die or are under way in it.
    pub fn waiting(&self, die: u32) -> usize {
        let die = &self.dies[die as usize];
        die.reads.len() + die.others.len()
    }

    /// What all dies did.
    pub fn counts(&self) -> NandCounts {
        let bus_ps = self.buses.iter().map(|bus| bus.busy_ps).sum();
        let each = NandCounts { bus_ps, ..self.counts };
        (1..self.twins).fold(each, |sum, _| sum.together(&each))
    }

    /// Picoseconds in which each channel was taken.
    pub fn channels_busy_ps(&self) -> impl Iterator<Item = u64> + '_ {
        let each = move |bus: &Bus| std::iter::repeat_n(bus.busy_ps, self.twins as usize);
        self.buses.iter().flat_map(each)
    }

    /// Picoseconds in which the array of each die worked, channel by channel.
    pub fn dies_busy_ps(&self) -> impl Iterator<Item = u64> + '_ {
        let of_channel = self.dies.chunks(self.dies_of_channel as usize);
        let twins = of_channel.flat_map(|dies| std::iter::repeat_n(dies, self.twins as usize));
        twins.flatten().map(|die| die.busy_ps)
    }

    /// Time of the channel for so many bytes, rounded up.
    #[inline]
    pub fn data_ps(&self, bytes: u32) -> u64 {
        let (known_bytes, known_ps) = self.page_data_ps;
        if bytes == known_bytes {
            return known_ps;
        }
        (u64::from(bytes) * 1_000_000_000_000).div_ceil(self.bus_bytes_per_second)
    }

    #[inline]
    fn array_ps(&self, operation: &Operation) -> u64 {
        let (read_ps, program_ps) = match self.page_ps[..] {
            [all] => all,
            _ => self.page_ps[operation.page as usize % self.page_ps.len()],
        };
        match operation.kind {
            Kind::Read => read_ps,
            Kind::Program => program_ps,
            Kind::Erase if self.multi_plane_programs => self.erase_ps,
            Kind::Erase => self.erase_ps * u64::from(self.planes),
        }
    }

    fn happen(&mut self, at_ps: u64, event: Event, out: &mut Vec<Done>) {
        match event {
            Event::Array { die, generation } => {
                if self.dies[die as usize].generation == generation {
                    self.end_array(at_ps, die, out);
                }
            }
            Event::Suspended { die, generation } => {
                let state = &mut self.dies[die as usize];
                if state.generation == generation {
                    state.suspended = state.array.take();
                    self.start(at_ps, die);
                }
            }
            Event::Loaded { die } => {
                if let Some(registers) = &mut self.dies[die as usize].registers {
                    registers.loaded = true;
                }
                self.start(at_ps, die);
            }
            Event::Left { operation } => self.leave(at_ps, operation, out),
            Event::Free { channel } => {
                self.buses[channel as usize].announced = false;
                self.go_on(at_ps, channel);
            }
        }
    }

    // ---- Dies -----------------------------------------------------------------------------------

    /// Starts all that a die can start at `now_ps`.
    fn start(&mut self, now_ps: u64, die: u32) {
        let state = &self.dies[die as usize];
        if state.is_full() {
            return;
        }
        if state.registers.is_some_and(|it| it.loaded) {
            self.program_loaded(now_ps, die);
        }
        if self.dies[die as usize].resumes(&self.abilities) {
            self.resume(now_ps, die);
        }
        if self.dies[die as usize].is_idle() {
            return;
        }
        let held = &self.held;
        let next = self.dies[die as usize]
            .next(&self.abilities, |index| (held[index].operation.kind, held[index].order));
        match next {
            Some(Next::Read { demand, passes }) => {
                let state = &mut self.dies[die as usize];
                state.passed = if demand { state.passed + u32::from(passes) } else { 0 };
                let group = self.group_reads(die, demand);
                self.command(now_ps, die, group, Kind::Read, demand);
            }
            Some(Next::Program) => {
                let group = self.group_programs(die);
                let registers = Registers { group, kind: Kind::Program, loaded: false, left: 0 };
                self.dies[die as usize].registers = Some(registers);
                self.want(now_ps, die, Turn::In(die), false);
            }
            Some(Next::Erase) => {
                if let Some(group) = self.take_other(die) {
                    self.command(now_ps, die, group, Kind::Erase, false);
                }
            }
            None if self.dies[die as usize].suspends(&self.abilities, now_ps) => {
                self.suspend(now_ps, die);
            }
            None => {}
        }
    }

    /// Takes the first of the others; reads that waited pass again.
    fn take_other(&mut self, die: u32) -> Option<u32> {
        let die = &mut self.dies[die as usize];
        die.passed = 0;
        die.others.pop_front()
    }

    /// What a group begins with stands in the array, and its command is to cross the channel.
    fn command(&mut self, now_ps: u64, die: u32, group: u32, kind: Kind, demand: bool) {
        let phase = Phase::Command;
        let working = Working { group, kind, phase, time_ps: 0, suspends: 0 };
        self.dies[die as usize].array = Some(working);
        self.want(now_ps, die, Turn::Command(die), demand);
    }

    /// The first of the reads that wait, and with it those that one command reads: of the same page,
    /// and of other planes.
    fn group_reads(&mut self, die: u32, demand: bool) -> u32 {
        let state = &mut self.dies[die as usize];
        let queue = if demand { &mut state.reads } else { &mut state.others };
        let Some(first) = queue.pop_front() else { return NONE };
        let lead = self.held[first].operation;
        let mut read = [None; MOST_PLANES];
        read[lead.plane as usize] = Some((lead.block, lead.page));
        let (mut last, mut place) = (first, 0);
        while place < queue.len().min(LOOK) {
            let index = queue[place];
            let other = self.held[index].operation;
            let page = (other.block, other.page);
            let joins = other.kind == Kind::Read
                && match read[other.plane as usize] {
                    Some(known) => known == page,
                    None => match self.multi_plane_reads {
                        MultiPlaneReads::None => false,
                        MultiPlaneReads::SamePage => page == (lead.block, lead.page),
                        MultiPlaneReads::AnyPage => true,
                    },
                };
            if joins {
                queue.remove(place);
                read[other.plane as usize] = Some(page);
                self.held[last].next = index;
                last = index;
            } else if demand {
                place += 1;
            } else {
                break;
            }
        }
        first
    }

    /// The first of the programs that wait, and those behind it that one command programs.
    fn group_programs(&mut self, die: u32) -> u32 {
        let Some(first) = self.take_other(die) else { return NONE };
        if self.planes == 1 || !self.multi_plane_programs {
            return first;
        }
        let lead = self.held[first].operation;
        let queue = &mut self.dies[die as usize].others;
        let (mut planes, mut last) = (1u32 << lead.plane, first);
        while let Some(&index) = queue.front() {
            let other = self.held[index].operation;
            let same = (other.kind, other.block, other.page) == (lead.kind, lead.block, lead.page);
            if !same || planes >> other.plane & 1 == 1 {
                break;
            }
            queue.pop_front();
            planes |= 1 << other.plane;
            self.held[last].next = index;
            last = index;
        }
        first
    }

    /// A program whose data have come goes into the array, if that is free.
    fn program_loaded(&mut self, now_ps: u64, die: u32) {
        let state = &mut self.dies[die as usize];
        let ready = state.array.is_none() && state.suspended.is_none();
        let loaded = |registers: &mut Registers| ready && registers.loaded;
        if let Some(Registers { group, kind, .. }) = state.registers.take_if(loaded) {
            let phase = Phase::Command;
            state.array = Some(Working { group, kind, phase, time_ps: 0, suspends: 0 });
            self.work(now_ps, now_ps, die);
        }
    }

    /// The array begins at `now_ps`, for what the command of a read or an erase has crossed the channel
    /// since `command_ps`.
    fn work(&mut self, command_ps: u64, now_ps: u64, die: u32) {
        let Some(Working { group, kind, .. }) = self.dies[die as usize].array else { return };
        let pages = self.pages(group);
        let (mut longest_ps, mut index) = (0, group);
        while index != NONE {
            longest_ps = longest_ps.max(self.array_ps(&self.held[index].operation));
            let held = &mut self.held[index];
            match kind {
                Kind::Program => held.second_ps = now_ps,
                Kind::Read | Kind::Erase => {
                    (held.command_ps, held.first_ps) = (command_ps, now_ps);
                }
            }
            index = held.next;
        }
        self.in_detail.add(kind, pages, longest_ps);
        self.counts.add(kind, pages, longest_ps);
        self.run_array(die, now_ps + longest_ps);
        self.dies[die as usize].busy_ps += longest_ps;
    }

    /// The array works until `end_ps`.
    fn run_array(&mut self, die: u32, end_ps: u64) {
        let state = &mut self.dies[die as usize];
        state.generation = state.generation.wrapping_add(1);
        if let Some(working) = &mut state.array {
            working.phase = Phase::Busy;
            working.time_ps = end_ps;
        }
        self.events.push(end_ps, 0, Event::Array { die, generation: state.generation });
    }

    fn suspend(&mut self, now_ps: u64, die: u32) {
        let at_ps = now_ps + self.abilities.suspend_ps;
        let state = &mut self.dies[die as usize];
        state.generation = state.generation.wrapping_add(1);
        if let Some(working) = &mut state.array {
            working.phase = Phase::Suspending;
            working.time_ps -= now_ps;
            working.suspends += 1;
        }
        self.counts.suspends += 1;
        self.events.push(at_ps, 0, Event::Suspended { die, generation: state.generation });
    }

    fn resume(&mut self, now_ps: u64, die: u32) {
        let state = &mut self.dies[die as usize];
        state.passed = 0;
        state.array = state.suspended.take();
        let left_ps = state.array.map_or(0, |working| working.time_ps);
        self.run_array(die, now_ps + self.abilities.suspend_ps + left_ps);
    }

    /// The array of a die has ended.
    fn end_array(&mut self, at_ps: u64, die: u32, out: &mut Vec<Done>) {
        let state = &mut self.dies[die as usize];
        let Some(working) = &mut state.array else { return };
        if working.kind == Kind::Read {
            working.phase = Phase::Finished;
            let mut index = working.group;
            while index != NONE {
                let held = &mut self.held[index];
                held.first_end_ps = at_ps;
                index = held.next;
            }
            self.hand_out(at_ps, die);
            return;
        }
        let (mut index, kind) = (working.group, working.kind);
        state.array = None;
        while index != NONE {
            let mut held = self.held.remove(index);
            if kind == Kind::Erase {
                (held.first_end_ps, held.second_ps) = (at_ps, at_ps);
            }
            out.push(held.done(at_ps));
            index = held.next;
        }
        self.start(at_ps, die);
    }

    /// What has been read goes into the cache registers, if there is something and they are free, and is to leave; whether
    /// it does. The die has started what it can start then.
    fn hand_out(&mut self, now_ps: u64, die: u32) -> bool {
        let state = &mut self.dies[die as usize];
        let finished = |working: &mut Working| working.phase == Phase::Finished;
        if state.registers.is_some() {
            return false;
        }
        let Some(Working { group, kind, .. }) = state.array.take_if(finished) else { return false };
        let left = self.group(group).count() as u32;
        let registers = Registers { group, kind, loaded: false, left };
        self.dies[die as usize].registers = Some(registers);
        // Where the flash reads meanwhile, the next command goes before the data.
        self.start(now_ps, die);
        let mut index = group;
        while index != NONE {
            let Held { operation, next, .. } = self.held[index];
            self.want(now_ps, die, Turn::Out(index), operation.demand);
            index = next;
        }
        true
    }

    /// The data of an operation have left its die.
    fn leave(&mut self, at_ps: u64, index: u32, out: &mut Vec<Done>) {
        let held = self.held.remove(index);
        out.push(held.done(at_ps));
        let die = held.operation.die;
        let state = &mut self.dies[die as usize];
        if let Some(registers) = &mut state.registers {
            registers.left -= 1;
            if registers.left == 0 {
                state.registers = None;
                if !self.hand_out(at_ps, die) {
                    self.start(at_ps, die);
                }
            }
        }
    }

    // ---- Channels -------------------------------------------------------------------------------

    /// Something of a die wants its channel.
    fn want(&mut self, now_ps: u64, die: u32, turn: Turn, is_read: bool) {
        let channel = die / self.dies_of_channel;
        let bus = &mut self.buses[channel as usize];
        if bus.free_ps <= now_ps && !bus.announced {
            // Nothing else waits.
            bus.pass(is_read);
            return self.take(now_ps, channel, turn);
        }
        bus.push(turn, is_read);
        if !bus.announced {
            bus.announced = true;
            self.events.push(bus.free_ps, 1, Event::Free { channel });
        }
    }

    /// A channel that is free takes what is next.
    fn go_on(&mut self, now_ps: u64, channel: u32) {
        let reads_ahead = self.abilities.reads_ahead;
        if let Some(turn) = self.buses[channel as usize].pop(reads_ahead) {
            self.take(now_ps, channel, turn);
        }
    }

    /// A channel that is free is taken from `now_ps` on.
    fn take(&mut self, now_ps: u64, channel: u32, turn: Turn) {
        let duration_ps = self.duration_ps(turn);
        let bus = &mut self.buses[channel as usize];
        let end_ps = bus.take(now_ps, duration_ps);
        if !bus.is_empty() {
            bus.announced = true;
            self.events.push(end_ps, 1, Event::Free { channel });
        }
        match turn {
            Turn::Command(die) => self.work(now_ps, end_ps, die),
            Turn::In(die) => {
                self.note_load(die, now_ps, end_ps);
                self.events.push(end_ps, 0, Event::Loaded { die });
            }
            Turn::Out(operation) => {
                self.held[operation].second_ps = now_ps;
                self.events.push(end_ps, 0, Event::Left { operation });
            }
        }
    }

    /// How long a turn takes the channel.
    fn duration_ps(&self, turn: Turn) -> u64 {
        match turn {
            Turn::Command(die) => {
                let Some(working) = &self.dies[die as usize].array else { return 0 };
                let cycles = if working.kind == Kind::Read { READ_CYCLES } else { ERASE_CYCLES };
                let parts = match working.kind {
                    Kind::Erase => u64::from(self.planes),
                    _ => self.pages(working.group),
                };
                parts * cycles * self.cycle_ps
            }
            Turn::In(die) => {
                let Some(registers) = &self.dies[die as usize].registers else { return 0 };
                let parts = self.group(registers.group);
                let part_ps = |held: &Held| {
                    PROGRAM_CYCLES * self.cycle_ps + self.data_ps(held.operation.bytes)
                };
                parts.map(part_ps).sum()
            }
            Turn::Out(operation) => {
                let bytes = self.held[operation].operation.bytes;
                SELECT_CYCLES * self.cycle_ps + self.data_ps(bytes)
            }
        }
    }

    /// The operations of a group.
    fn group(&self, first: u32) -> impl Iterator<Item = &Held> {
        let at = |index: u32| (index != NONE).then(|| &self.held[index]);
        std::iter::successors(at(first), move |held| at(held.next))
    }

    /// How many pages a group has: one in each of its planes.
    fn pages(&self, first: u32) -> u64 {
        let planes = self.group(first).fold(0u32, |planes, it| planes | 1 << it.operation.plane);
        u64::from(planes.count_ones())
    }

    /// The data of a program cross the channel in this time.
    fn note_load(&mut self, die: u32, start_ps: u64, end_ps: u64) {
        let mut index = self.dies[die as usize].registers.map_or(NONE, |it| it.group);
        while index != NONE {
            let held = &mut self.held[index];
            (held.command_ps, held.first_ps, held.first_end_ps) = (start_ps, start_ps, end_ps);
            index = held.next;
        }
    }
}

impl Held {
    fn done(&self, at_ps: u64) -> Done {
        Done {
            token: self.operation.token,
            at_ps,
            command_ps: self.command_ps,
            first_ps: self.first_ps,
            first_end_ps: self.first_end_ps,
            second_ps: self.second_ps,
        }
    }
}

#[cfg(test)]
mod tests;
