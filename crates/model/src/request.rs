//! Requests between the parts of a machine below its on-chip caches.
//!
//! Every part is a state machine without I/O: it takes a request and the time, and says when it
//! wants to be asked again. It never sleeps, spawns or reads a clock.

use crate::activity::Activity;
use crate::power::{Content, Outage, UnderWay, Weakness, Weaknesses};
use tierscope_kernel::stage::Timeline;
use tierscope_units::Size;

/// Who is told how much a queue holds: its name, and how much.
pub type Tell<'a> = dyn FnMut(&'static str, usize) + 'a;

/// A part cannot take the request now. Offer it again after the part's next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The largest page that is moved as one: the bytes of a request are 32 bits, and no processor has a
/// larger one (x86-64 and Arm with pages of 4 KiB: 1 GiB).
pub const LARGEST_PAGE: Size = Size::from_bytes(1 << 30);

/// A request to a device: DRAM or a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Chosen by the requester, returned with the completion.
    pub id: u32,
    /// First byte, in the device's own address space.
    pub address: u64,
    /// Bytes: one line for demand, a page for fills and evictions.
    pub bytes: u32,
    /// Whether the device is written.
    pub write: bool,
    /// Whether nobody waits for it (write-back, prefetch): counted apart, queued behind demand
    /// where the device has a choice.
    pub background: bool,
}

impl Request {
    /// Of bytes that somebody waits for, under no number: for whoever asks for one thing at a time.
    pub const fn of(address: u64, bytes: u32, write: bool) -> Self {
        Request { id: 0, address, bytes, write, background: false }
    }
}

/// What a drive is asked for that moves no data (NVM Express: Flush, and Deallocate of Dataset
/// Management; ATA: FLUSH CACHE EXT, and TRIM of DATA SET MANAGEMENT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// That all writes that were answered before are kept whatever happens to its power.
    Flush,
    /// That what is there may be forgotten: all pages that lie within.
    Trim {
        /// First byte.
        address: u64,
        /// Bytes from there on.
        bytes: u64,
    },
}

/// A part of a read that is wanted ahead of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Chosen by the requester, returned with a completion of its own.
    pub id: u32,
    /// Bytes from the start of the request.
    pub offset: u32,
    /// Bytes: one line.
    pub bytes: u32,
}

/// How a drive is to serve a request, besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// A write is answered once it is in the medium, whatever buffers there are, and a read comes from
    /// there (NVM Express: Force Unit Access).
    pub force_unit_access: bool,
    /// Each page of a read is completed by itself as it comes, before the request: page `k` of it under
    /// this id plus `k`.
    pub pages: Option<u32>,
    /// What a write carries, where the contents of pages are followed: page `k` of it this number plus `k`.
    pub content: Content,
    /// Its command, and what it has of a list of pages, lie in memory that the requester reads: each fetch is told,
    /// when it has come there, by a completion under the first or the second of these ids, and goes on when the
    /// requester says so ([`Device::memory_read`]). What follows is timed from then on; the completion has the stages
    /// up to the fetch, but where others went on meanwhile, as those of a read do while its list is fetched. Nothing
    /// is told by a device that fetches nothing ([`Device::fetching`]).
    pub fetches: Option<[u32; 2]>,
}

/// What a device fetches from memory before it does what it was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fetching {
    /// Nothing: it is told all.
    #[default]
    Nothing,
    /// Commands.
    Commands,
    /// Commands, and lists of pages.
    CommandsAndLists,
}

impl Manner {
    /// The same, with `mark` set in the ids of pages.
    #[must_use]
    pub fn with_mark(self, mark: u32) -> Self {
        Manner { pages: self.pages.map(|first| first | mark), ..self }
    }
}

/// What a device tells of a read that would have to wait for its medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediumWait {
    /// How long, at a guess.
    pub duration_ps: u64,
    /// Whether the medium is being read for it already.
    pub is_under_way: bool,
}

/// A device has finished a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's.
    pub id: u32,
    /// When the last byte had moved; or when a write was taken for good, so that reads see it.
    pub at_ps: u64,
    /// The request's stages from submission to `at_ps`: their sum is exactly that time.
    pub stages: Timeline,
    /// Which of the device's interrupts told of it, where it told of several; else 0.
    pub interrupt: u32,
}

impl Completion {
    /// Of a request of which no interrupt tells together with others.
    pub const fn new(id: u32, at_ps: u64, stages: Timeline) -> Self {
        Completion { id, at_ps, stages, interrupt: 0 }
    }
}

/// What a device shares with DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tie {
    /// The bus of this channel.
    Bus(usize),
    /// The refreshes of the first rank of this channel, which it sees, and after which it has the module for itself.
    Refreshes(usize),
}

/// Refreshes of a rank, as far as they are known at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refreshes {
    /// When this was so.
    pub told_ps: u64,
    /// How many have been begun.
    pub done: u64,
    /// When the last of them was; anything while there is none.
    pub last_ps: u64,
    /// When the first falls due, or sooner by less than a clock, and how long after each the next does: none comes
    /// before it is due.
    pub first_ps: u64,
    /// From one to the next.
    pub interval_ps: u64,
    /// How long the memory controller keeps away after each (tRFC).
    pub busy_ps: u64,
}

/// The earlier of two times at which something happens, if anything does.
#[inline]
pub fn earlier(one_ps: Option<u64>, other_ps: Option<u64>) -> Option<u64> {
    // As whole numbers: which comes first nobody can foretell, and optional times are looked at slowly.
    let at_ps = one_ps.unwrap_or(u64::MAX).min(other_ps.unwrap_or(u64::MAX));
    (at_ps != u64::MAX).then_some(at_ps)
}

/// A device: media behind a controller.
///
/// Law of every implementation: requests in = completions out + in flight; completions come in
/// order of `at_ps`; stages sum to `at_ps` − submission; equal calls give equal answers; `clone`
/// gives a device that goes on identically.
pub trait Device: Clone {
    /// Takes a request at `now_ps`, which never goes back between calls.
    fn submit(&mut self, now_ps: u64, request: Request) -> Result<(), Full>;

    /// Takes a read of which a part is wanted first. A device that can bring it early completes it
    /// by itself, under its own id, before the request; by default it comes with the rest and is
    /// never completed by itself.
    fn submit_ahead(&mut self, now_ps: u64, request: Request, _ahead: Ahead) -> Result<(), Full> {
        self.submit(now_ps, request)
    }

    /// Takes a request that is to be served in this manner. By default a device needs none: what it has
    /// answered is in its medium, and its pages come with the last.
    fn submit_as(&mut self, now_ps: u64, request: Request, _manner: Manner) -> Result<(), Full> {
        self.submit(now_ps, request)
    }

    /// Whether it knows flushes and trims. Where it does not, a write is kept once it is answered, and
    /// nothing is won by forgetting.
    fn takes_control(&self) -> bool {
        false
    }

    /// Takes a flush or a trim at `now_ps`, where it knows them; it is completed as a request is.
    fn submit_control(&mut self, _now_ps: u64, _id: u32, _control: Control) -> Result<(), Full> {
        Err(Full)
    }

    /// When something happens next (a completion, room in a queue), if anything will without a
    /// further request.
    fn next_event_ps(&self) -> Option<u64>;

    /// Does all that is due until `now_ps` and appends what completed by then.
    fn advance(&mut self, now_ps: u64, out: &mut Vec<Completion>);

    /// Requests taken and not yet reported complete.
    fn in_flight(&self) -> usize;

    /// What it shares with DRAM, where it does.
    fn tie(&self) -> Option<Tie> {
        None
    }

    /// The refreshes that it goes by, if it does, are these at the time of what it is asked next.
    fn tell_refreshes(&mut self, _refreshes: Refreshes) {}

    /// From when on it has nothing left to move over the bus of a channel that two devices share, as far
    /// as it has begun by `now_ps`; by default it takes no such bus.
    fn bus_free_ps(&mut self, _now_ps: u64, _channel: usize) -> u64 {
        0
    }

    /// The refreshes of the first rank of a channel by `now_ps`, of DRAM; by default it has none.
    fn refreshes(&mut self, _now_ps: u64, _channel: usize) -> Refreshes {
        Refreshes::default()
    }

    /// The other of the two has that bus until `until_ps`: nothing is begun at `now_ps` or later that
    /// would be on it before.
    fn keep_off_bus(&mut self, _now_ps: u64, _until_ps: u64, _channel: usize) {}

    /// Tells how much each of its queues holds, by name: the same names in the same order each time. By default
    /// there are none to tell of.
    fn depths(&self, _tell: &mut Tell<'_>) {}

    /// What its medium did and took up to `now_ps`, which is not before the last call; by default
    /// nothing is known of it.
    fn activity(&self, _now_ps: u64) -> Activity {
        Activity::default()
    }

    /// What it fetches from memory, and can tell of ([`Manner::fetches`]).
    fn fetching(&self) -> Fetching {
        Fetching::Nothing
    }

    /// What a fetch asks for has been read from memory at `now_ps`; `fetch` is the id by which it was told.
    fn memory_read(&mut self, _now_ps: u64, _fetch: u32) {}

    /// Over so many units its pages are interleaved, each of which takes one after another.
    fn units(&self) -> u64 {
        1
    }

    /// Whether what it has answered survives a failure of power.
    fn keeps_answered(&self) -> bool {
        false
    }

    /// Follows from now on, with nothing in it yet, what its pages hold, so that its power may fail;
    /// whether it can.
    fn follow_contents(&mut self, _weaknesses: Weaknesses) -> bool {
        false
    }

    /// Power fails at `now_ps`: requests in flight are gone. Only of a device that follows contents.
    fn cut_power(&mut self, _now_ps: u64) -> Outage {
        Outage::of_undescribed_start()
    }

    /// Whether it has a safeguard that this would take away.
    fn can_lack(&self, _weakness: Weakness) -> bool {
        false
    }

    /// The same as a clone, of which what is large is shared until one of the two changes it.
    #[must_use]
    fn fork(&mut self) -> Self {
        self.clone()
    }

    /// A request in functional warming: what the device holds, and where, becomes as it would by it, at once.
    /// Nothing is in flight that was asked for otherwise. By default nothing that a device holds depends on what it
    /// was asked for.
    fn warm(&mut self, _now_ps: u64, _request: Request, _manner: Manner) {}

    /// A flush or a trim in functional warming, where the device knows them.
    fn warm_control(&mut self, _now_ps: u64, _control: Control) {}

    /// Takes over what functional warming has left in another of the same description, but for links.
    fn take_over_warmed(&mut self, _warmed: &mut Self) {}

    /// How long a read of the line at this byte would have to wait for the medium, as far as the device can tell; by
    /// default it tells nothing.
    fn medium_wait(&self, _address: u64) -> MediumWait {
        MediumWait::default()
    }

    /// What the page at this byte holds for good, of a device that follows contents.
    fn content(&self, _address: u64) -> Content {
        0
    }

    /// What is under way in it.
    fn under_way(&self) -> UnderWay {
        UnderWay::default()
    }
}

/// A request for one line of physical memory, from the on-chip caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRequest {
    /// Chosen by the requester, returned with the response. Writes are answered too.
    pub id: u32,
    /// The core that reads; of write-backs, and where there are no cores, 0.
    pub core: u16,
    /// Physical address of the line.
    pub address: u64,
    /// A write-back of a dirty line, or a read.
    pub write: bool,
    /// Version of the line's data, for writes, where data are checked; otherwise 0.
    pub version: u64,
}

/// The answer to a [`LineRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineResponse {
    /// The request's.
    pub id: u32,
    /// When the data had reached the on-chip caches, or the write was accepted for good.
    pub at_ps: u64,
    /// Stages from submission to `at_ps`, exactly.
    pub stages: Timeline,
    /// Version of the line's data, for reads, where data are checked; otherwise 0.
    pub version: u64,
}

/// A request of the operating system to move one page between main memory and the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// Chosen by the requester, returned with the response.
    pub id: u32,
    /// Byte address in the store.
    pub store_address: u64,
    /// Physical address in main memory.
    pub memory_address: u64,
    /// Bytes: a whole number of pages.
    pub bytes: u32,
    /// From memory to the store (true), or from the store to memory.
    pub write: bool,
    /// Whether nobody waits for it.
    pub background: bool,
    /// A write is answered once it is in the medium, whatever buffers the store has.
    pub force_unit_access: bool,
    /// What a write carries, where the contents of blocks are followed.
    pub content: Content,
}

/// The answer to a [`PageRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageResponse {
    /// The request's.
    pub id: u32,
    /// When the device raised its interrupt.
    pub at_ps: u64,
    /// Stages from submission to `at_ps`, exactly.
    pub stages: Timeline,
    /// Which of the device's interrupts told of it, as of a [`Completion`].
    pub interrupt: u32,
}

/// What an organization answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// To a line request.
    Line(LineResponse),
    /// To a page request.
    Page(PageResponse),
}

counters! {
    /// Bytes that an organization has moved, for results and conservation.
    pub struct Traffic {
        /// Bytes read from the store.
        pub store_read_bytes,
        /// Bytes written to the store.
        pub store_written_bytes,
        /// Bytes read from DRAM.
        pub dram_read_bytes,
        /// Bytes written to DRAM.
        pub dram_written_bytes,
    }
}

impl Traffic {
    /// Bytes move from or to DRAM.
    #[inline]
    pub fn move_dram(&mut self, bytes: u64, write: bool) {
        let moved = if write { &mut self.dram_written_bytes } else { &mut self.dram_read_bytes };
        *moved += bytes;
    }

    /// Bytes move from or to the store.
    #[inline]
    pub fn move_store(&mut self, bytes: u64, write: bool) {
        let moved = if write { &mut self.store_written_bytes } else { &mut self.store_read_bytes };
        *moved += bytes;
    }
}
