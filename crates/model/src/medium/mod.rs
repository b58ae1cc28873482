//! Media: what holds bits. One file each, and one line in [`crate::parts!`].
//!
//! DRAM is a device by itself ([`dram::Dram`]): its controller and its cells cannot be told apart
//! in time. An array of flash ([`nand::Nand`]) erases too, and knows channels, dies and planes; one of
//! byte-addressable cells ([`nvm::NvmArray`]) has row buffers and pulses that reads stop. The media of
//! the list are what a device's unit is made of.

pub mod backup;
pub mod dram;
mod dram_spec;
pub mod nand;
pub mod nvm;

pub use backup::BackupSpec;
pub use dram_spec::{DramSpec, PagePolicy, RefreshPolicy};
pub use nand::{MultiPlaneReads, NandPowerSpec, NandSpec, PageTimesSpec};
pub use nvm::{NvmArraySpec, NvmEnergySpec, NvmWearSpec, Preemption};

/// What is done to a page of a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It is read.
    Read,
    /// It is written.
    Write,
}

/// What holds the bits of one unit of a device (a package, a die, a bank): it does one thing at a
/// time, and how long that takes may depend on the page and on what was done before.
///
/// Law of every implementation (`conformance::medium_laws`): an operation never ends before it
/// starts, nor earlier where it starts later; every page can be read and written at any time;
/// equal calls give equal answers; `clone` goes on identically.
pub trait Medium: Clone {
    /// Bytes read or written as one.
    fn page_bytes(&self) -> u64;

    /// Pages of the unit.
    fn pages(&self) -> u64;

    /// Starts `operation` on `page`, below [`Medium::pages`], at `now_ps`, when the one before it
    /// has ended; when it ends, in picoseconds. Transfers to and from the medium are not part of
    /// it.
    fn start(&mut self, now_ps: u64, operation: Operation, page: u64) -> u64;
}

/// Makes of the list of media their modules and [`AnyMedium`].
macro_rules! register {
    (
        policies $policies:tt
        media { $( $module:ident::$medium:ident, $summary:literal; )* }
        links $links:tt
        devices $devices:tt
        organizations $organizations:tt
    ) => {
        $( pub mod $module; pub use $module::$medium; )*

        /// Every medium, in the order of the list.
        pub const MEDIA: &[crate::parts::Part] =
            &[ $( crate::parts::Part { key: stringify!($module), summary: $summary } ),* ];

        /// A medium of any kind.
        #[derive(Clone, Debug)]
        pub enum AnyMedium {
            $( #[doc = $summary] $medium($medium) ),*
        }

        $(
            impl From<$medium> for AnyMedium {
                fn from(medium: $medium) -> Self {
                    AnyMedium::$medium(medium)
                }
            }
        )*

        impl Medium for AnyMedium {
            #[inline]
            fn page_bytes(&self) -> u64 {
                match self {
                    $( AnyMedium::$medium(medium) => medium.page_bytes() ),*
                }
            }

            #[inline]
            fn pages(&self) -> u64 {
                match self {
                    $( AnyMedium::$medium(medium) => medium.pages() ),*
                }
            }

            #[inline]
            fn start(&mut self, now_ps: u64, operation: Operation, page: u64) -> u64 {
                match self {
                    $( AnyMedium::$medium(medium) => medium.start(now_ps, operation, page) ),*
                }
            }
        }
    };
}

crate::parts!(register);
