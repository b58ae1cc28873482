//! Sizes, times, rates and energies with units: parsed, printed and typed.
//!
//! Every value is an integer of its smallest unit (bytes, picoseconds, hertz …). Text such as
//! `"64GiB"`, `"25us"` or `"1333MT/s"` is taken exactly or refused: nothing is rounded, a bare
//! number has no meaning, and a unit that people read in two ways (`GB` of a memory) is an error
//! that says what to write.
//!
//! [`Problems`] collects the mistakes of a description, so that all of them are told at once.

mod plain;
mod problems;
mod quantity;

pub use plain::{count, percent};
pub use problems::{CODES, Problem, Problems, nearest, reason};
pub use quantity::{
    Bandwidth, Current, Duration, Energy, Frequency, KINDS, Kind, Power, Size, TransferRate, Unit,
    UnitError, Voltage, kind,
};
