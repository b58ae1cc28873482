//! Devices of pages, without their link.

use crate::activity::Activity;
use crate::power::{Content, Outage, UnderWay, Weakness, Weaknesses};
use crate::request::{MediumWait, Tell};
use std::fmt;
use tierscope_kernel::Timeline;

/// A page to read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageAccess {
    /// Chosen by the requester, returned when it is done.
    pub token: u32,
    /// Number of the page in the device.
    pub page: u64,
    /// Whether it is written.
    pub write: bool,
    /// Whether nobody waits for it.
    pub background: bool,
    /// Whether the whole page is wanted, or written.
    pub whole: bool,
    /// Bytes of it that are.
    pub bytes: u32,
    /// Bytes of a read that the device hands up before the rest and reports by themselves; 0 for
    /// none.
    pub ahead_bytes: u32,
    /// Whether a write is done only once it is in the medium, and a read comes from there.
    pub force_unit_access: bool,
    /// What a write carries, where contents are followed.
    pub content: Content,
}

/// What is asked of a device of pages that moves no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageControl {
    /// That all that was written, and reported, is kept whatever happens to its power.
    Flush,
    /// That pages may be forgotten.
    Trim {
        /// The first.
        first: u64,
        /// How many.
        count: u64,
    },
}

/// What a device says when a page has been read into its controller, or has been written.
pub trait PageDone: Copy + fmt::Debug {
    /// The access's.
    fn token(&self) -> u32;

    /// When it was done.
    fn at_ps(&self) -> u64;

    /// Whether only the bytes wanted ahead have come so far: the page is reported again. By default pages
    /// come whole.
    fn is_ahead(&self) -> bool {
        false
    }

    /// Whether the device has room for the data of a write and fetches them now: the page is reported again. By
    /// default they come before it is asked for.
    fn fetches(&self) -> bool {
        false
    }

    /// Adds the stages from submission to [`PageDone::at_ps`].
    fn write_stages(&self, stages: &mut Timeline);
}

/// What a device says of a page whose stages it has kept one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DonePage {
    /// The access's.
    pub token: u32,
    /// When it was done.
    pub at_ps: u64,
    /// From submission to then.
    pub stages: Timeline,
}

impl PageDone for DonePage {
    #[inline]
    fn token(&self) -> u32 {
        self.token
    }

    #[inline]
    fn at_ps(&self) -> u64 {
        self.at_ps
    }

    #[inline]
    fn write_stages(&self, stages: &mut Timeline) {
        stages.append(&self.stages);
    }
}

/// A device of pages, without its link. What it holds is bounded by whoever submits.
pub trait Pages: Clone {
    /// What it says of a page.
    type Done: PageDone;

    /// How many pages it has.
    fn pages(&self) -> u64;

    /// Over so many units they are interleaved, each of which takes one after another.
    fn units(&self) -> u64 {
        1
    }

    /// Takes a page at `now_ps`, which never goes back between calls.
    ///
    /// # Panics
    /// If there is no such page: callers know what they own.
    fn submit(&mut self, now_ps: u64, access: PageAccess);

    /// Whether it knows what is asked for by [`Pages::submit_control`].
    fn takes_control(&self) -> bool {
        false
    }

    /// Takes a flush or a trim at `now_ps`, where it knows them; it is reported as a page is, under this
    /// token.
    fn submit_control(&mut self, _now_ps: u64, _token: u32, _control: PageControl) {}

    /// Whether it is asked for a write before it has the data, and says when it fetches them
    /// ([`PageDone::fetches`]).
    fn fetches(&self) -> bool {
        false
    }

    /// The data of a write have come that it fetches.
    fn fetched(&mut self, _now_ps: u64, _token: u32) {}

    /// What was read of a page has been sent up: its room is free.
    fn sent(&mut self, _now_ps: u64, _token: u32) {}

    /// When something happens next, if anything will.
    fn next_event_ps(&self) -> Option<u64>;

    /// Does all that is due until `now_ps` and appends what was done by then, in order of time.
    fn advance(&mut self, now_ps: u64, out: &mut Vec<Self::Done>);

    /// A page is read or written in functional warming; nothing is reported.
    fn warm(&mut self, _now_ps: u64, _access: PageAccess) {}

    /// A flush or a trim in functional warming; nothing is reported.
    fn warm_control(&mut self, _now_ps: u64, _control: PageControl) {}

    /// As [`Device::take_over_warmed`](crate::request::Device::take_over_warmed).
    fn take_over_warmed(&mut self, _warmed: &mut Self) {}

    /// As [`Device::depths`](crate::request::Device::depths).
    fn depths(&self, _tell: &mut Tell<'_>) {}

    /// What it did and took up to `now_ps`, which is not before the last call; by default nothing is
    /// known of it.
    fn activity(&self, _now_ps: u64) -> Activity {
        Activity::default()
    }

    /// As [`Device::keeps_answered`](crate::request::Device::keeps_answered).
    fn keeps_answered(&self) -> bool {
        false
    }

    /// As [`Device::follow_contents`](crate::request::Device::follow_contents).
    fn follow_contents(&mut self, _weaknesses: Weaknesses) -> bool {
        false
    }

    /// As [`Device::cut_power`](crate::request::Device::cut_power); what is touched is told in pages.
    fn cut_power(&mut self, _now_ps: u64) -> Outage {
        Outage::of_undescribed_start()
    }

    /// As [`Device::can_lack`](crate::request::Device::can_lack).
    fn can_lack(&self, _weakness: Weakness) -> bool {
        false
    }

    /// As [`Device::fork`](crate::request::Device::fork).
    #[must_use]
    fn fork(&mut self) -> Self {
        self.clone()
    }

    /// As [`Device::medium_wait`](crate::request::Device::medium_wait), of a page.
    fn medium_wait(&self, _page: u64) -> MediumWait {
        MediumWait::default()
    }

    /// What a page holds for good.
    fn content(&self, _page: u64) -> Content {
        0
    }

    /// As [`Device::under_way`](crate::request::Device::under_way).
    fn under_way(&self) -> UnderWay {
        UnderWay::default()
    }
}
