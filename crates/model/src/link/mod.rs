//! Links: what carries data. One file each, and one line in [`crate::parts!`].

mod energy;
mod flow;
mod lane;
pub mod nvme;

pub use energy::LinkEnergySpec;
pub use flow::{Flow, Leg};
pub use lane::{Duplex, Lane};
pub use nvme::NvmeSpec;

use crate::request::{Refreshes, Tie};
use tierscope_units::{Bandwidth, Problems};

/// The component of a link in accounts of energy.
pub const LINK: &str = "link";

/// A direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From host to device.
    Down,
    /// From device to host.
    Up,
}

/// What a message is: each link packs each kind in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Asks for bytes, which come back as an answer. It carries none itself.
    Request,
    /// Bytes that were asked for.
    Answer,
    /// Bytes that nobody asked for: what is written.
    Data,
    /// A few bytes of the protocol in a packet of their own: a doorbell, a completion entry, an
    /// interrupt, a frame of a command.
    Control,
    /// Says that bytes have been written. It carries none itself.
    Done,
}

/// Something to be sent over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it is.
    pub kind: Kind,
    /// Bytes that it carries, or that it asks for or tells of.
    pub bytes: u64,
}

impl Message {
    /// A message of `bytes`.
    pub const fn new(kind: Kind, bytes: u64) -> Self {
        Message { kind, bytes }
    }

    /// Bytes of payload that it carries itself.
    pub fn payload_bytes(&self) -> u64 {
        match self.kind {
            Kind::Request | Kind::Done => 0,
            Kind::Answer | Kind::Data | Kind::Control => self.bytes,
        }
    }
}

/// What became of a message that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When it has come to the other end, or has left, if nobody waits until it has come.
    pub at_ps: u64,
    /// By what the end of the transfer is found again ([`Link::left_ps`]).
    pub mark: u64,
    /// How much later than its last byte has left that is.
    pub after_ps: u64,
    /// Bytes that the link has moved for it.
    pub moved_bytes: u64,
}

/// What carries messages between a host and a device: bandwidth as a resource in time.
///
/// Law of every implementation (`conformance::link_laws`): what is sent in one direction arrives
/// in that order; a transfer starts as soon as its direction is free, and not before; no window of
/// time carries more than the bandwidth; times of transfers that follow each other add up without
/// rounding; the directions of a duplex link do not see each other, and those of any other share
/// its bandwidth; equal calls give equal answers; `clone` goes on identically.
pub trait Link: Clone {
    /// Sends a message once the direction is free, asked at `now_ps`, which never goes back between
    /// calls for a direction. When the first byte leaves, and when the last has come to the other
    /// end, in picoseconds.
    fn transfer(&mut self, now_ps: u64, message: Message, direction: Direction) -> (u64, u64);

    /// The same, and all that is to be known of it; of a message that is posted, nobody waits until it has come.
    #[inline]
    fn send(&mut self, now_ps: u64, message: Message, direction: Direction, posted: bool) -> Sent {
        let (_, come_ps) = self.transfer(now_ps, message, direction);
        let at_ps = if posted { self.free_ps(direction) } else { come_ps };
        let mark = self.mark();
        let after_ps = at_ps.saturating_sub(self.left_ps(mark));
        Sent { at_ps, mark, after_ps, moved_bytes: self.moved_bytes(message) }
    }

    /// From when on the direction has nothing left to send, in picoseconds.
    fn free_ps(&self, direction: Direction) -> u64;

    /// Bytes that the link moves for a message.
    fn wire_bytes(&self, message: Message) -> u64;

    /// Of these, the bytes that are moved; by default all. The rest is time that passes.
    fn moved_bytes(&self, message: Message) -> u64 {
        self.wire_bytes(message)
    }

    /// What is sent for a request to read a device, or to write it; by default what has to be: a
    /// request and its answer, or the data.
    fn flow(&self, write: bool) -> Flow {
        Flow::plain(write)
    }

    /// Whether each direction has a bandwidth of its own.
    fn is_duplex(&self) -> bool {
        true
    }

    /// What a device behind it shares with DRAM, where it does.
    fn tie(&self) -> Option<Tie> {
        None
    }

    /// The refreshes that it goes by, if it does, are these now.
    fn tell_refreshes(&mut self, _refreshes: Refreshes) {}

    /// By what the end of the last transfer is found again ([`Link::left_ps`]).
    fn mark(&self) -> u64 {
        0
    }

    /// When the last byte of the transfer with this mark has left, or can have left at the soonest, by what is known
    /// now: not sooner than was said before. By default all is known at once, and this is 0.
    fn left_ps(&self, _mark: u64) -> u64 {
        0
    }

    /// DRAM has that bus until `until_ps`, as far as is known: no transfer starts before. What is told
    /// later takes its place.
    fn keep_off(&mut self, _until_ps: u64) {}
}

/// The least bandwidth of whatever carries data. Simulated time ends after 2^59 ps, 6.6 days: at
/// 1 MB/s, 576 GB have been moved by then, more than any workload that is simulated in practice,
/// and whatever is slower could end time before it ends its work. (PIO mode 0 of ATA, the slowest
/// interface of a disk, moves 3.3 MB/s.)
pub const LEAST_BANDWIDTH: Bandwidth = Bandwidth::from_bytes_per_second(1_000_000);

/// Adds a mistake if `value`, which stands at `path`, is below [`LEAST_BANDWIDTH`].
pub fn check_bandwidth(path: &str, value: Bandwidth, problems: &mut Problems) {
    if value < LEAST_BANDWIDTH {
        problems.add(
            "impossible-value",
            path.to_owned(),
            value.to_string(),
            "simulated time ends after 6.6 days (2^59 ps), and 576GB could not be moved by then"
                .into(),
            format!("write {LEAST_BANDWIDTH} or more"),
        );
    }
}

/// Adds a mistake if `lanes`, below `path`, are not those of a link of PCI Express.
fn check_lanes(path: &str, lanes: u32, problems: &mut Problems) {
    if ![1, 2, 4, 8, 16].contains(&lanes) {
        problems.add(
            "impossible-value",
            format!("{path}.lanes"),
            lanes.to_string(),
            "a link has 1, 2, 4, 8 or 16 lanes".into(),
            "write 4".into(),
        );
    }
}

/// What a user says of a link.
pub trait LinkDescription {
    /// Collects every semantic mistake below `path`.
    fn check(&self, path: &str, problems: &mut Problems);

    /// A link with nothing on it, of a description that has been checked.
    fn build(&self) -> AnyLink;

    /// What it takes, where that is said.
    fn energy(&self) -> Option<&LinkEnergySpec> {
        None
    }

    /// The channel of DRAM whose bus it is, where it is one.
    fn shared_channel(&self) -> Option<&DdrChannelSpec> {
        None
    }

    /// The windows of time in which it moves data, where these are those of refreshes.
    fn refresh_windows(&self) -> Option<&RefreshWindowSpec> {
        None
    }

    /// Whether NVM Express drives the device behind it.
    fn is_nvme(&self) -> bool {
        false
    }

    /// The queues by which a device behind it is told of requests, where these are described.
    fn queues(&self) -> Option<nvme::NvmeQueues> {
        None
    }
}

/// Makes of the list of links their modules and [`AnyLink`].
macro_rules! register {
    (
        policies $policies:tt
        media $media:tt
        links { $( $key:ident = $module:ident::$link:ident($spec:ident), $summary:literal; )* }
        devices $devices:tt
        organizations $organizations:tt
    ) => {
        $( pub mod $module; pub use $module::{$link, $spec}; )*

        /// Every link, in the order of the list.
        pub const LINKS: &[crate::parts::Part] =
            &[ $( crate::parts::Part { key: stringify!($key), summary: $summary } ),* ];

        /// A link of any kind.
        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant, reason = "a machine has one")]
        pub enum AnyLink {
            $( #[doc = $summary] $link($link) ),*
        }

        $(
            impl From<$link> for AnyLink {
                fn from(link: $link) -> Self {
                    AnyLink::$link(link)
                }
            }
        )*

        impl Link for AnyLink {
            #[inline]
            fn transfer(
                &mut self,
                now_ps: u64,
                message: Message,
                direction: Direction,
            ) -> (u64, u64) {
                match self {
                    $( AnyLink::$link(link) => link.transfer(now_ps, message, direction) ),*
                }
            }

            #[inline]
            fn send(
                &mut self,
                now_ps: u64,
                message: Message,
                direction: Direction,
                posted: bool,
            ) -> Sent {
                match self {
                    $( AnyLink::$link(link) => link.send(now_ps, message, direction, posted) ),*
                }
            }

            #[inline]
            fn free_ps(&self, direction: Direction) -> u64 {
                match self {
                    $( AnyLink::$link(link) => link.free_ps(direction) ),*
                }
            }

            #[inline]
            fn wire_bytes(&self, message: Message) -> u64 {
                match self {
                    $( AnyLink::$link(link) => link.wire_bytes(message) ),*
                }
            }

            #[inline]
            fn moved_bytes(&self, message: Message) -> u64 {
                match self {
                    $( AnyLink::$link(link) => link.moved_bytes(message) ),*
                }
            }

            fn flow(&self, write: bool) -> Flow {
                match self {
                    $( AnyLink::$link(link) => link.flow(write) ),*
                }
            }

            #[inline]
            fn is_duplex(&self) -> bool {
                match self {
                    $( AnyLink::$link(link) => link.is_duplex() ),*
                }
            }

            fn tie(&self) -> Option<Tie> {
                match self {
                    $( AnyLink::$link(link) => link.tie() ),*
                }
            }

            #[inline]
            fn tell_refreshes(&mut self, refreshes: Refreshes) {
                match self {
                    $( AnyLink::$link(link) => link.tell_refreshes(refreshes) ),*
                }
            }

            #[inline]
            fn mark(&self) -> u64 {
                match self {
                    $( AnyLink::$link(link) => link.mark() ),*
                }
            }

            #[inline]
            fn left_ps(&self, mark: u64) -> u64 {
                match self {
                    $( AnyLink::$link(link) => link.left_ps(mark) ),*
                }
            }

            #[inline]
            fn keep_off(&mut self, until_ps: u64) {
                match self {
                    $( AnyLink::$link(link) => link.keep_off(until_ps) ),*
                }
            }
        }
    };
}

crate::parts!(register);
