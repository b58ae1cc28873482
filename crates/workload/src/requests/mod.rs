//! Memory traces: requests for lines of memory, as other simulators write them, one a line of text.
//!
//! A format is one file, which holds its grammar, its words and their source, and one line in the
//! list below. The reader is common to all: it holds one line at a time, reads plain files and ones
//! that zstd has compressed, and says of what is wrong its number, its text and the mend.

mod pattern;
mod reader;
mod words;

pub use pattern::{Pattern, Patterned};
pub use reader::{OpenError, TraceReader};

use crate::stream::StreamError;

/// A request for the line of memory at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRequest {
    /// Byte address; the line that holds it is meant.
    pub address: u64,
    /// Whether it is written.
    pub write: bool,
    /// When it arrives, in cycles of the trace's clock from its start; `None` where the format has no
    /// times, and requests come as fast as they are taken.
    pub cycle: Option<u64>,
}

/// Where a device alone gets its requests from, in the order in which they arrive.
pub trait RequestSource: Send {
    /// The next request; `None` at the end.
    ///
    /// # Errors
    /// Where it cannot be read, or makes no sense.
    fn next(&mut self) -> Result<Option<MemoryRequest>, StreamError>;

    /// What to say of the request that came last where it makes no sense to whoever takes it.
    fn place(&self) -> String;

    /// A second source at the same place, which goes on by itself.
    ///
    /// # Errors
    /// Where what it reads from is gone.
    fn fork(&self) -> Result<Box<dyn RequestSource>, StreamError>;
}

/// A format of memory traces.
#[derive(Debug)]
pub struct Format {
    /// Name, as it stands before the file: `dramsim3:FILE`.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub summary: &'static str,
    /// A line, in words: `0xADDRESS READ|WRITE CYCLE`.
    pub grammar: &'static str,
    /// A line that is right.
    pub example: &'static str,
    /// Whether requests have times.
    pub timed: bool,
    /// Where the format is defined.
    pub source: &'static str,
    /// Reads a line, which has no blanks around it and is not empty; or says what is wrong.
    pub parse: fn(&str) -> Result<MemoryRequest, String>,
}

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
    ramulator;
    ramulator2;
}

/// The format of this name.
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| format.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_reads_its_own_example_and_no_other_nonsense() {
        for format in FORMATS {
            let request = (format.parse)(format.example).unwrap_or_else(|why| panic!("{why}"));
            assert_eq!(request.cycle.is_some(), format.timed, "{}", format.name);
            for wrong in
                ["x", "0x", "READ", "0x40", "0x40 READ WRITE 7 8", "LD", "-1 R", "\u{7f} R"]
            {
                let why = (format.parse)(wrong).unwrap_err();
                assert!(!why.is_empty() && !why.ends_with('.'), "{}: {wrong}: {why}", format.name);
            }
            let spaced = format.example.replace(' ', " \t ");
            assert_eq!((format.parse)(&spaced), Ok(request), "{}", format.name);
            assert_eq!(find(format.name).map(|found| found.name), Some(format.name));
        }
    }
}
