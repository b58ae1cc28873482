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
mod instructions;
mod looks;
mod merged;
mod output;
mod pattern;
pub mod profile;
mod program;
mod reader;
mod request;
mod told;
mod volume;
mod words;
mod zip;

pub use accesses::{Accesses, Step};
pub use convert::{ConvertError, Converted, How, convert};
pub use first::First;
pub use format::{
    Branch, ChoiceError, Choices, Extent, Format, FormatOption, Instruction, Marks, Messages,
    OfInstructions, OfProgram, Out, Parse, Program, Read, ReadInstructions, Script, Several, Write,
    WriteInstructions, WriteScript, Writer,
};
pub use input::OpenError;
pub use instructions::{InstructionSource, convert_instructions};
pub use merged::Merged;
pub use output::{Output, Packing, is_open_already, is_under_way};
pub use pattern::{PATTERNS, Pattern, PatternSource, Patterned, find_pattern};
pub use program::{MOST_THREADS, ProgramTrace};
pub use reader::TraceReader;
pub use request::{Beside, Passed, RequestKind, RequestSource, Times, TraceRequest};
pub use told::Told;
pub use volume::{OF_VOLUMES, Places, VOLUME, VOLUMES, Volume};

use crate::stream::StreamError;
use std::path::PathBuf;

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

/// Opens a trace of one or several files, as requests for one device. `goes_on` is asked now and then while the
/// trace is read to measure its volumes, where that is said, and ends it.
///
/// # Errors
/// Where it cannot be read, its beginning is wrong, or what was said makes no sense; where volumes are measured, what
/// is wrong anywhere.
pub fn open(
    files: &[PathBuf],
    format: &'static Format,
    choices: &Choices,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Box<dyn RequestSource>, OpenError> {
    /// Requests between two looks at whether to go on.
    const LOOK_EVERY: u64 = 1 << 16;
    let has_volumes = format.options.iter().any(|option| option.name == VOLUMES.name);
    let mut places: Option<Places> = None;
    if has_volumes && Places::are_unmeasured(choices) {
        let wrong = |error: StreamError| OpenError::Wrong(error.to_string());
        for file in files {
            let mut reader = TraceReader::open(file, format, choices)?;
            match &places {
                Some(places) => reader.lay(places),
                None => places = reader.places().cloned(),
            }
            let mut read = 0u64;
            while reader.next().map_err(wrong)?.is_some() {
                read += 1;
                if read.is_multiple_of(LOOK_EVERY) && !goes_on() {
                    return Err(OpenError::Wrong("it was interrupted".into()));
                }
            }
        }
        if let Some(places) = &places {
            places.settle().map_err(OpenError::Wrong)?;
        }
    }
    if let [file] = files {
        let mut reader = TraceReader::open(file, format, choices)?;
        if let Some(places) = &places {
            reader.lay(places);
        }
        return Ok(Box::new(reader));
    }
    let mut merged = Merged::open(files, format, choices)?;
    if let Some(places) = &places {
        merged.lay(places);
    }
    Ok(Box::new(merged))
}

/// The format of this name.
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| format.name == name)
}

#[cfg(test)]
mod tests;
