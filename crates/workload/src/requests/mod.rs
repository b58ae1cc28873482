//! Traces of requests: for lines of memory or pieces of a store, as other simulators and tracers write
//! them; and patterns that make requests.
//!
//! A format is one file, which holds its grammar, its words and their source, and one line in the
//! list below. The reader is common to all: it holds one line or record at a time, reads files as they
//! are and ones that gzip, xz or zstd have compressed, and says of what is wrong its number, its text
//! and the mend. So is the writer.

mod accesses;
mod convert;
mod first;
mod format;
mod gzip;
mod input;
mod merged;
mod output;
mod pattern;
pub mod profile;
mod program;
mod reader;
mod request;
mod told;
mod words;
mod zip;

pub use accesses::{Accesses, Step};
pub use convert::{ConvertError, Converted, How, convert};
pub use first::First;
pub use format::{
    ChoiceError, Choices, Extent, Format, FormatOption, Marks, Messages, OfProgram, Out, Parse,
    Program, Read, Script, Several, VOLUME, Volume, Write, WriteInstructions, WriteScript, Writer,
};
pub use input::OpenError;
pub use merged::Merged;
pub use output::{Output, Packing};
pub use pattern::{PATTERNS, Pattern, PatternSource, Patterned, find_pattern};
pub use program::{MOST_THREADS, ProgramTrace};
pub use reader::TraceReader;
pub use request::{Beside, Passed, RequestKind, RequestSource, Times, TraceRequest};
pub use told::Told;

/// Bytes of a request at most: 1 GiB.
pub const MOST_REQUEST_BYTES: u32 = 1 << 30;

/// Makes of the list of formats their modules, and [`FORMATS`].
macro_rules! formats {
    ($( $module:ident; )*) => {
        $( mod $module; )*

        /// Every format, in the order of lists.
        pub const FORMATS: &[&Format] = &[ $( &$module::FORMAT ),* ];
    };
}

formats! {
    dramsim3;
    dramsys;
    ramulator;
    ramulator2;
    ramulator2_vector;
    ramulator_cpu;
    dramsim2_k6;
    dramsim2_mase;
    dramsim2_misc;
    hybridsim;
    nvmain;
    lackey;
    champsim;
    drmemtrace;
    gem5;
    msr;
    fio;
    blkparse;
    blktrace;
    mqsim;
    systor17;
    alibaba;
    tencent;
    oracle_general;
    libcachesim_csv;
}

/// The format of this name.
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| format.name == name)
}

#[cfg(test)]
mod tests;
