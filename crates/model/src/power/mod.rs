//! Failures of power: what of a part's state survives one, and what it takes to go on.
//!
//! Nothing here is on the path of a request. A device or an organization that was told to follow what it holds
//! ([`Device::follow_contents`], [`PowerFailure::prepare`]) can
//! lose its power at any time; `docs/models/power-failure.md` says what is modelled.

mod files;
mod judge;
mod saving;
mod touched;

pub use files::{Files, Note};
pub(crate) use files::{Replay, oldest};
pub use judge::{Failure, Fault, Harm, Judge, Verdict, cut_and_recover, fail, judge};
pub(crate) use saving::Saving;
pub(crate) use touched::Touched;

use crate::request::Device;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What is left out on purpose, so that a check of recovery has something to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weakness {
    /// Submission entries carry no journal tags.
    NoJournalTags,
    /// The capacitors of a drive hold nothing, though it relies on them.
    NoCapacitors,
    /// A victim is written from its frame, not from a clone.
    NoClones,
    /// Requests do not look at the busy bit.
    NoBusyBits,
    /// A drive says that a write is done before it is safe.
    EarlyCompletion,
    /// The energy source of an NVDIMM is empty.
    NoBackup,
    /// Whoever waits for a transaction is told that it is committed when its log is on its way.
    EarlyCommit,
    /// A commit in ordered mode does not wait for data.
    UnorderedData,
    /// The battery of an adapter's cache is empty, though the adapter relies on it.
    NoBattery,
    /// A sync of a file in main memory leaves its dirty lines in on-chip caches.
    NoLineWriteBack,
}

impl Weakness {
    /// Every one.
    pub const ALL: [Weakness; 10] = [
        Weakness::NoJournalTags,
        Weakness::NoCapacitors,
        Weakness::NoClones,
        Weakness::NoBusyBits,
        Weakness::EarlyCompletion,
        Weakness::NoBackup,
        Weakness::EarlyCommit,
        Weakness::UnorderedData,
        Weakness::NoBattery,
        Weakness::NoLineWriteBack,
    ];

    /// Its name in commands and results.
    pub fn name(self) -> &'static str {
        match self {
            Weakness::NoJournalTags => "no-journal-tags",
            Weakness::NoCapacitors => "no-capacitors",
            Weakness::NoClones => "no-clones",
            Weakness::NoBusyBits => "no-busy-bits",
            Weakness::EarlyCompletion => "early-completion",
            Weakness::NoBackup => "no-backup",
            Weakness::EarlyCommit => "early-commit",
            Weakness::UnorderedData => "unordered-data",
            Weakness::NoBattery => "no-battery",
            Weakness::NoLineWriteBack => "no-line-write-back",
        }
    }
}

/// Some weaknesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weaknesses(u16);

impl Weaknesses {
    /// Whether this is among them.
    #[inline]
    pub fn has(self, weakness: Weakness) -> bool {
        self.0 >> weakness as u8 & 1 == 1
    }
}

impl FromIterator<Weakness> for Weaknesses {
    fn from_iter<T: IntoIterator<Item = Weakness>>(all: T) -> Self {
        Weaknesses(all.into_iter().fold(0, |bits, one| bits | 1 << one as u8))
    }
}

/// The content of a page: 0 for what it held at the start, else what its writer called it.
pub type Content = u64;
/// The content of a page that is nowhere any more.
pub const LOST: Content = u64::MAX;
/// As a version that is found: what is there belongs to something else.
pub const ALIEN: u64 = u64::MAX;
/// As a version that is found: what the block of a page held before it was the page's.
pub const STALE: u64 = u64::MAX - 1;

/// A version as people are told it: of files and metadata, without what tells these apart. `None` for one that never
/// comes: a sync has promised a size that no change of its file has.
pub fn shown(version: u64) -> Option<u64> {
    Some(version & files::NUMBER).filter(|number| *number < files::NUMBER)
}

/// What a failure of power did to a device, and what it takes until it is there again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outage {
    /// Picoseconds for which it goes on after the failure, on energy of its own.
    pub hold_ps: u64,
    /// What that takes, in joules; `None` where that is not known.
    pub hold_j: Option<f64>,
    /// Picoseconds from the return of power until it takes requests.
    pub ready_ps: u64,
    /// What that takes beyond what it takes while it waits, in joules; `None` where that is not known.
    pub ready_j: Option<f64>,
    /// Pages in its volatile memory that its own energy has saved.
    pub saved_pages: u64,
    /// Pages in its volatile memory that are gone.
    pub lost_pages: u64,
    /// Pages that were being written, and cannot be read, or are the old and the new one in parts.
    pub torn_pages: u64,
    /// Its own energy was used up before all was saved.
    pub short: bool,
    /// Why times and energies are not told, where they are not: 0 stands for them.
    pub untold: Option<&'static str>,
    /// First bytes of pages that may hold something else than was written to them last and taken.
    pub touched: Vec<u64>,
}

impl Outage {
    /// Of two parts that lose their power together.
    #[must_use]
    pub fn with(self, other: Outage) -> Outage {
        let sum = |one: Option<f64>, other: Option<f64>| Some(one? + other?);
        let mut touched = self.touched;
        touched.extend(other.touched);
        Outage {
            hold_ps: self.hold_ps.max(other.hold_ps),
            hold_j: sum(self.hold_j, other.hold_j),
            ready_ps: self.ready_ps.max(other.ready_ps),
            ready_j: sum(self.ready_j, other.ready_j),
            saved_pages: self.saved_pages + other.saved_pages,
            lost_pages: self.lost_pages + other.lost_pages,
            torn_pages: self.torn_pages + other.torn_pages,
            short: self.short || other.short,
            untold: self.untold.or(other.untold),
            touched,
        }
    }

    /// Of what keeps its content, or loses it, in times that nobody knows.
    pub(crate) fn untold(why: &'static str) -> Self {
        Outage { untold: Some(why), ..Outage::default() }
    }

    /// Of a store that keeps what it has answered, and whose start nothing describes.
    pub(crate) fn of_undescribed_start() -> Self {
        Outage::untold("how long the store takes to start is not described")
    }
}

/// Power of a store fails that keeps what it has answered: nothing else of it is told to anybody.
pub(crate) fn cut_store<S: Device>(store: &mut S, now_ps: u64) -> Outage {
    let outage = store.cut_power(now_ps);
    let mut dropped = Vec::new();
    while let Some(at_ps) = store.next_event_ps().filter(|_| store.in_flight() > 0) {
        store.advance(at_ps, &mut dropped);
    }
    outage
}

counters! {
    /// What is under way: where a failure of power could do harm.
    pub struct UnderWay {
        /// Commands between issue and completion.
        pub commands,
        /// Pages that are being cloned.
        pub clones,
        /// Pages that are on their way into a cache.
        pub fills,
        /// Commands of which others wait for the end, so that one at most is under way; and flushes.
        pub barriers,
        /// Pages that a drive is programming.
        pub programs,
        /// Blocks that a drive is collecting.
        pub collections,
        /// Pages in a drive's memory that are not in flash.
        pub buffered,
        /// Transactions of a journal between the first block of their log and the end of their record.
        pub commits,
        /// Blocks of metadata on their way to their places.
        pub checkpoints,
    }
}

impl UnderWay {
    /// The kinds, by name, in a fixed order.
    pub const KINDS: [&'static str; 9] = [
        "command",
        "clone",
        "fill",
        "barrier",
        "program",
        "collection",
        "buffered",
        "commit",
        "checkpoint",
    ];

    /// How many there are of each kind.
    pub fn counts(&self) -> [u64; 9] {
        [
            self.commands,
            self.clones,
            self.fills,
            self.barriers,
            self.programs,
            self.collections,
            self.buffered,
            self.commits,
            self.checkpoints,
        ]
    }

    /// Which kinds are under way, a bit each.
    pub fn kinds(&self) -> u16 {
        let counts = (0..).zip(self.counts());
        counts.fold(0, |bits, (kind, count)| bits | u16::from(count > 0) << kind)
    }
}

/// Where a line is found after recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// In memory that was saved.
    Memory,
    /// In the store.
    Store,
}

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Picoseconds to look through what survived, before anything is done again.
    pub scan_ps: u64,
    /// Commands that were given again.
    pub reissued: u64,
    /// Lines that only those commands bring to the store.
    pub reissued_lines: u64,
    /// Transactions of a journal that were carried out again.
    pub transactions: u64,
}

impl Recovery {
    /// Of two parts that recover at the same time.
    #[must_use]
    pub(crate) fn beside(self, other: Recovery) -> Recovery {
        Recovery {
            scan_ps: self.scan_ps.max(other.scan_ps),
            reissued: self.reissued + other.reissued,
            reissued_lines: self.reissued_lines + other.reissued_lines,
            transactions: self.transactions + other.transactions,
        }
    }
}

/// Something that is under way, as a timeline shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// What it is.
    pub what: &'static str,
    /// Which one: no two that are under way at a time have the same.
    pub number: u64,
    /// The first byte that it concerns.
    pub address: u64,
}

/// What an organization promises to survive a failure of power, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Guarantees {
    /// Of a plain store.
    pub store: &'static str,
    /// Of a store whose line was flushed, with a fence behind it.
    pub flush: &'static str,
    /// Of what goes to the store with force unit access.
    pub fua: &'static str,
}

/// An organization whose power may fail.
///
/// The order of calls is [`PowerFailure::prepare`] before the first request; then, at any time and any number
/// of times, [`PowerFailure::cut`] and [`PowerFailure::recover`], after which the organization is advanced
/// until nothing is in flight. A second cut may come meanwhile.
pub trait PowerFailure {
    /// Follows what each part holds from now on, with these weaknesses.
    ///
    /// # Errors
    /// The first weakness that means nothing here, or `None` where the store cannot lose its power yet.
    fn prepare(&mut self, weaknesses: &[Weakness]) -> Result<(), Option<Weakness>>;

    /// Whether only a flush of the organization makes a promise ([`Organization::flush`]).
    ///
    /// [`Organization::flush`]: crate::organization::Organization::flush
    fn promises_by_flush(&self) -> bool {
        false
    }

    /// Bytes of what is judged, where these are not lines of the on-chip caches.
    fn unit_bytes(&self) -> Option<u64> {
        None
    }

    /// What its file system has on the store, where it has one: whoever runs it tells what happens to files.
    fn files(&mut self) -> Option<&mut Files> {
        None
    }

    /// Whether a page of a file may show what its block held before it was the page's.
    fn permits_stale(&self) -> bool {
        false
    }

    /// What a line is, in words, where its address does not say it.
    fn name(&self, _address: u64) -> Option<String> {
        None
    }

    /// What it promises. The judge holds it to that of a flush.
    fn guarantees(&self) -> Guarantees;

    /// What is under way.
    fn under_way(&self) -> UnderWay;

    /// What is under way, one by one, as far as it can be told.
    fn steps(&self) -> Vec<Step> {
        Vec::new()
    }

    /// Power fails at `now_ps`. What does not survive is gone, requests in flight among it.
    fn cut(&mut self, now_ps: u64) -> Outage;

    /// Power is there again, and the parts are ready: recovery begins. Time goes on from the cut.
    fn recover(&mut self, now_ps: u64) -> Recovery;

    /// The version that a read of this line would find, and where; `None` where an error would come, as
    /// what was there is torn or gone.
    fn found(&self, address: u64) -> Option<(u64, Origin)>;

    /// The newest version of a line, by its number, that was promised to survive; 0 for none.
    fn promised(&self, line: u64) -> u64;

    /// The newest version of a line whose writer was told that it was done, promised or not; 0 for none.
    fn answered(&self, line: u64) -> u64 {
        self.promised(line)
    }

    /// A sync of a file has returned that promises this version of a line, by its number: what the machine says, which
    /// knows what files hold, and not what the organization believes to have kept.
    fn promise(&mut self, _line: u64, _version: u64) {}

    /// The newest version of a line that syncs of files have promised so; 0 for none.
    fn synced(&self, _line: u64) -> u64 {
        0
    }

    /// The newest version of a line that was written; 0 for none.
    fn written(&self, line: u64) -> u64;

    /// Each line that was ever written, by its number, with the newest version.
    fn each_written(&self, tell: &mut dyn FnMut(u64, u64));

    /// Lines, by number, of which what is found, promised or written may have changed since the last call,
    /// or since [`PowerFailure::prepare`]: as it is right after a recovery, with respect to such a state.
    fn touched(&mut self) -> Vec<Range<u64>>;

    /// The line that a version was written to, if any. Versions are never given twice.
    fn line_of(&self, version: u64) -> Option<u64>;
}
