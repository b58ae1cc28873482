//! Devices: media behind a controller. One file each, and one line in [`crate::parts!`].
//!
//! What stands here may be a machine's store. DRAM is a device too, and lies with the media
//! ([`crate::medium::dram`]).

mod arrivals;
mod linked;
pub mod raid;

pub use raid::RaidSpec;

pub use linked::{Linked, PageAccess, PageControl, PageDone, Pages};

use crate::activity::Activity;
use crate::link::LinkDescription;
use crate::power::{Content, Outage, UnderWay, Weakness, Weaknesses};
use crate::request::{
    Ahead, Completion, Control, Device, Fetching, Full, LARGEST_PAGE, Manner, MediumWait,
    Refreshes, Request, Tell, Tie,
};
use tierscope_units::{Problems, Size};

/// What a user says of a device that may be a machine's store.
pub trait DeviceDescription {
    /// Collects every semantic mistake below `path`.
    fn check(&self, path: &str, problems: &mut Problems);

    /// Bytes that it holds.
    fn capacity(&self) -> Size;

    /// Bytes that it reads or writes as one: a power of two.
    fn page(&self) -> Size;

    /// Times that a read and a write of a page take while nothing else is under way, in picoseconds,
    /// where the description tells them at once; transfers need not be in them.
    fn page_times_ps(&self) -> Option<(u64, u64)> {
        None
    }

    /// Whether its state changes with every request in a way that it has to be asked for in detail: heads and a buffer of a
    /// disk, an adapter's cache. Nothing else can warm it.
    fn is_warmed_in_detail(&self) -> bool {
        false
    }

    /// About the time that a read of a page at a random place takes while nothing else is under way, in picoseconds.
    fn usual_read_ps(&self) -> u64 {
        self.page_times_ps().map_or(0, |(read_ps, _)| read_ps)
    }

    /// How long what it begins by itself goes on at most, and is in the way of requests, in picoseconds: so long it is
    /// under way anew once it has come to an end.
    fn settling_ps(&self) -> u64 {
        0
    }

    /// Whether it seeks, and turns: what schedulers ask for (`/sys/block/…/queue/rotational`).
    fn rotates(&self) -> bool {
        false
    }

    /// Whether it can tell how long a read would wait for its medium ([`crate::request::Device::medium_wait`]), and
    /// keeps what was read.
    fn tells_of_waits(&self) -> bool {
        false
    }

    /// That its bytes lie in the machine's DRAM, where they do: then it is behind no link, and whoever uses it copies.
    fn lies_in_dram(&self) -> Option<InDram> {
        None
    }

    /// The device with nothing to do, behind an empty link. Both descriptions have been checked.
    fn build(&self, link: &dyn LinkDescription) -> AnyDevice;

    /// The same of one that lies in DRAM.
    fn build_in_dram(&self) -> Option<AnyDevice> {
        None
    }
}

/// Collects mistakes of a store of pages below `path`: a page is a power of two, not less than `least`, and the capacity
/// whole pages.
fn check_pages(path: &str, page: Size, least: Size, capacity: Size, problems: &mut Problems) {
    problems.at_most(path, "page", page, LARGEST_PAGE);
    if !page.bytes().is_power_of_two() || page < least {
        problems.add(
            "impossible-value",
            format!("{path}.page"),
            page.to_string(),
            format!("a store's page is a power of two of at least {least}"),
            "write 4KiB".into(),
        );
    } else if capacity < page || !capacity.bytes().is_multiple_of(page.bytes()) {
        problems.add(
            "contradiction",
            format!("{path}.capacity"),
            capacity.to_string(),
            format!("the capacity is not a whole number of pages of {page}"),
            "write a multiple of the page".into(),
        );
    }
}

/// The table of the store that lies in DRAM.
pub const IN_DRAM: &str = "ramdisk";

/// A store whose bytes lie in the machine's DRAM, behind main memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InDram {
    /// Bytes.
    pub capacity_bytes: u64,
    /// How much longer than in DRAM a line takes to be read, and to be written, in picoseconds.
    pub memory_ps: (u64, u64),
    /// What the driver waits for each line that it reads, or writes, in picoseconds.
    pub driver_ps: (u64, u64),
    /// Lines that are read and written at once.
    pub lines: u32,
}

/// Makes of the list of devices their modules and [`AnyDevice`].
macro_rules! register {
    (
        policies $policies:tt
        media $media:tt
        links $links:tt
        devices { $( $key:ident = $module:ident::$device:ident($spec:ident), $summary:literal; )* }
        organizations $organizations:tt
    ) => {
        $( pub mod $module; pub use $module::{$device, $spec}; )*

        /// Every device that may be a store, in the order of the list.
        pub const DEVICES: &[crate::parts::Part] =
            &[ $( crate::parts::Part { key: stringify!($key), summary: $summary } ),* ];

        /// A device of any kind that may be a store.
        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant, reason = "a machine has one")]
        pub enum AnyDevice {
            $( #[doc = $summary] $device($device), )*
            /// Several of one kind side by side.
            Raid(raid::Raid),
        }

        $(
            impl From<$device> for AnyDevice {
                fn from(device: $device) -> Self {
                    AnyDevice::$device(device)
                }
            }
        )*

        impl From<raid::Raid> for AnyDevice {
            fn from(raid: raid::Raid) -> Self {
                AnyDevice::Raid(raid)
            }
        }

        impl Device for AnyDevice {
            #[inline]
            fn submit(&mut self, now_ps: u64, request: Request) -> Result<(), Full> {
                match self {
                    $( AnyDevice::$device(device) => device.submit(now_ps, request), )*
                    AnyDevice::Raid(device) => device.submit(now_ps, request),
                }
            }

            #[inline]
            fn submit_ahead(
                &mut self,
                now_ps: u64,
                request: Request,
                ahead: Ahead,
            ) -> Result<(), Full> {
                match self {
                    $( AnyDevice::$device(device) => device.submit_ahead(now_ps, request, ahead), )*
                    AnyDevice::Raid(device) => device.submit_ahead(now_ps, request, ahead),
                }
            }

            #[inline]
            fn submit_as(
                &mut self,
                now_ps: u64,
                request: Request,
                manner: Manner,
            ) -> Result<(), Full> {
                match self {
                    $( AnyDevice::$device(device) => device.submit_as(now_ps, request, manner), )*
                    AnyDevice::Raid(device) => device.submit_as(now_ps, request, manner),
                }
            }

            fn takes_control(&self) -> bool {
                match self {
                    $( AnyDevice::$device(device) => device.takes_control(), )*
                    AnyDevice::Raid(device) => device.takes_control(),
                }
            }

            fn submit_control(
                &mut self,
                now_ps: u64,
                id: u32,
                control: Control,
            ) -> Result<(), Full> {
                match self {
                    $( AnyDevice::$device(device) => device.submit_control(now_ps, id, control), )*
                    AnyDevice::Raid(device) => device.submit_control(now_ps, id, control),
                }
            }

            #[inline]
            fn next_event_ps(&self) -> Option<u64> {
                match self {
                    $( AnyDevice::$device(device) => device.next_event_ps(), )*
                    AnyDevice::Raid(device) => device.next_event_ps(),
                }
            }

            #[inline]
            fn advance(&mut self, now_ps: u64, out: &mut Vec<Completion>) {
                match self {
                    $( AnyDevice::$device(device) => device.advance(now_ps, out), )*
                    AnyDevice::Raid(device) => device.advance(now_ps, out),
                }
            }

            #[inline]
            fn in_flight(&self) -> usize {
                match self {
                    $( AnyDevice::$device(device) => device.in_flight(), )*
                    AnyDevice::Raid(device) => device.in_flight(),
                }
            }

            fn depths(&self, tell: &mut Tell<'_>) {
                match self {
                    $( AnyDevice::$device(device) => device.depths(tell), )*
                    AnyDevice::Raid(device) => device.depths(tell),
                }
            }

            fn activity(&self, now_ps: u64) -> Activity {
                match self {
                    $( AnyDevice::$device(device) => device.activity(now_ps), )*
                    AnyDevice::Raid(device) => device.activity(now_ps),
                }
            }

            fn fetching(&self) -> Fetching {
                match self {
                    $( AnyDevice::$device(device) => device.fetching(), )*
                    AnyDevice::Raid(device) => device.fetching(),
                }
            }

            fn memory_read(&mut self, now_ps: u64, fetch: u32) {
                match self {
                    $( AnyDevice::$device(device) => device.memory_read(now_ps, fetch), )*
                    AnyDevice::Raid(device) => device.memory_read(now_ps, fetch),
                }
            }

            fn units(&self) -> u64 {
                match self {
                    $( AnyDevice::$device(device) => device.units(), )*
                    AnyDevice::Raid(device) => device.units(),
                }
            }

            fn keeps_answered(&self) -> bool {
                match self {
                    $( AnyDevice::$device(device) => device.keeps_answered(), )*
                    AnyDevice::Raid(device) => device.keeps_answered(),
                }
            }

            fn follow_contents(&mut self, weaknesses: Weaknesses) -> bool {
                match self {
                    $( AnyDevice::$device(device) => device.follow_contents(weaknesses), )*
                    AnyDevice::Raid(device) => device.follow_contents(weaknesses),
                }
            }

            fn cut_power(&mut self, now_ps: u64) -> Outage {
                match self {
                    $( AnyDevice::$device(device) => device.cut_power(now_ps), )*
                    AnyDevice::Raid(device) => device.cut_power(now_ps),
                }
            }

            fn can_lack(&self, weakness: Weakness) -> bool {
                match self {
                    $( AnyDevice::$device(device) => device.can_lack(weakness), )*
                    AnyDevice::Raid(device) => device.can_lack(weakness),
                }
            }

            fn fork(&mut self) -> Self {
                match self {
                    $( AnyDevice::$device(device) => AnyDevice::$device(device.fork()), )*
                    AnyDevice::Raid(device) => AnyDevice::Raid(device.fork()),
                }
            }

            fn content(&self, address: u64) -> Content {
                match self {
                    $( AnyDevice::$device(device) => device.content(address), )*
                    AnyDevice::Raid(device) => device.content(address),
                }
            }

            fn medium_wait(&self, address: u64) -> MediumWait {
                match self {
                    $( AnyDevice::$device(device) => device.medium_wait(address), )*
                    AnyDevice::Raid(device) => device.medium_wait(address),
                }
            }

            fn warm(&mut self, now_ps: u64, request: Request, manner: Manner) {
                match self {
                    $( AnyDevice::$device(device) => device.warm(now_ps, request, manner), )*
                    AnyDevice::Raid(device) => device.warm(now_ps, request, manner),
                }
            }

            fn warm_control(&mut self, now_ps: u64, control: Control) {
                match self {
                    $( AnyDevice::$device(device) => device.warm_control(now_ps, control), )*
                    AnyDevice::Raid(device) => device.warm_control(now_ps, control),
                }
            }

            fn take_over_warmed(&mut self, warmed: &mut Self) {
                match (self, warmed) {
                    $( (AnyDevice::$device(own), AnyDevice::$device(warmed)) => {
                        own.take_over_warmed(warmed)
                    } )*
                    (AnyDevice::Raid(own), AnyDevice::Raid(warmed)) => {
                        own.take_over_warmed(warmed)
                    }
                    (own, _) => unreachable!("{own:?} is of another kind"),
                }
            }

            fn under_way(&self) -> UnderWay {
                match self {
                    $( AnyDevice::$device(device) => device.under_way(), )*
                    AnyDevice::Raid(device) => device.under_way(),
                }
            }

            fn tie(&self) -> Option<Tie> {
                match self {
                    $( AnyDevice::$device(device) => device.tie(), )*
                    AnyDevice::Raid(device) => device.tie(),
                }
            }

            fn tell_refreshes(&mut self, refreshes: Refreshes) {
                match self {
                    $( AnyDevice::$device(device) => device.tell_refreshes(refreshes), )*
                    AnyDevice::Raid(device) => device.tell_refreshes(refreshes),
                }
            }

            fn bus_free_ps(&mut self, now_ps: u64, channel: usize) -> u64 {
                match self {
                    $( AnyDevice::$device(device) => device.bus_free_ps(now_ps, channel), )*
                    AnyDevice::Raid(device) => device.bus_free_ps(now_ps, channel),
                }
            }

            fn keep_off_bus(&mut self, now_ps: u64, until_ps: u64, channel: usize) {
                match self {
                    $( AnyDevice::$device(device) => {
                        device.keep_off_bus(now_ps, until_ps, channel)
                    } )*
                    AnyDevice::Raid(device) => device.keep_off_bus(now_ps, until_ps, channel),
                }
            }
        }
    };
}

crate::parts!(register);
