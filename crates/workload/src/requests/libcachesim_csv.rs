//! `libcachesim-csv`: a cache trace of libCacheSim as columns, of which three count: when, which object,
//! and how large it is. Which columns those are, and what is between columns, is said, as to libCacheSim.
//!
//! All requests read. An object's number, decimal or hexadecimal behind `0x`, is taken for its first
//! byte. Seconds may have a fraction, which libCacheSim leaves out and is kept here.

use super::words::{address, bytes, seconds};
use super::{
    ChoiceError, Choices, Extent, Format, FormatOption, Out, Parse, Read, RequestKind, Script,
    Times, TraceRequest,
};
use std::io::Write;

/// The format.
pub const FORMAT: Format = Format {
    name: "libcachesim-csv",
    summary: "Cache trace of libCacheSim as columns: seconds, object, size; reads",
    grammar: "columns, of which workload.time, workload.object and workload.size say which count",
    example: "5633898,73,512",
    times: Times::Ps(1_000),
    epoch: true,
    extent: Extent::Bytes,
    only_reads: true,
    options: &[TIME, OBJECT, SIZE, DELIMITER, HEADER],
    source: "1a1a11a/libCacheSim@106a6b6:libCacheSim/traceReader/generalReader/csv.c",
    parse: Parse::Script(script),
    write: Some(write),
    ..Format::PLAIN
};

const TIME: FormatOption =
    column("time", "1", "Number of the column, from 1, of the time in seconds.");
const OBJECT: FormatOption = column("object", "2", "Number of the column of the object.");
const SIZE: FormatOption = column("size", "3", "Number of the column of the size in bytes.");
const DELIMITER: FormatOption =
    column("delimiter", "comma", "What is between columns: comma, tab, bar or colon.");
const HEADER: FormatOption =
    column("header", "no", "Whether the first line names the columns: yes or no.");

const fn column(name: &'static str, default: &'static str, meaning: &'static str) -> FormatOption {
    FormatOption { name, default, meaning }
}

/// Columns that a line may have.
const MOST_COLUMNS: usize = 64;

fn script(choices: &Choices) -> Result<Box<dyn Script>, ChoiceError> {
    let said = |option: &FormatOption| {
        choices.get(option.name).map_or(option.default, String::as_str).to_owned()
    };
    let wrong = |option: &FormatOption, reason: &str, mend: &str| ChoiceError {
        name: option.name,
        value: said(option),
        reason: reason.into(),
        mend: mend.into(),
    };
    let number = |option: &FormatOption| match said(option).parse() {
        Ok(number @ 1..=MOST_COLUMNS) => Ok(number - 1),
        _ => Err(wrong(option, "it is no column", "write a number from 1 to 64")),
    };
    let delimiter = match said(&DELIMITER).as_str() {
        "comma" => ',',
        "tab" => '\t',
        "bar" => '|',
        "colon" => ':',
        _ => return Err(wrong(&DELIMITER, "it is none", "write comma, tab, bar or colon")),
    };
    let header = match said(&HEADER).as_str() {
        "yes" => true,
        "no" => false,
        _ => return Err(wrong(&HEADER, "it is neither", "write yes or no")),
    };
    let columns = [number(&TIME)?, number(&OBJECT)?, number(&SIZE)?];
    Ok(Box::new(Csv { columns, delimiter, header }))
}

#[derive(Clone)]
struct Csv {
    /// Those of time, object and size, from 0.
    columns: [usize; 3],
    delimiter: char,
    /// Whether the next line names the columns.
    header: bool,
}

impl Script for Csv {
    fn read(&mut self, line: &str, out: &mut Out) -> Result<Read, String> {
        if std::mem::take(&mut self.header) {
            return Ok(Read::Goes);
        }
        let mut found = [""; 3];
        let mut count = 0;
        for (number, cell) in line.split(self.delimiter).enumerate() {
            count = number + 1;
            for (place, column) in found.iter_mut().zip(self.columns) {
                if column == number {
                    *place = cell.trim_ascii();
                }
            }
        }
        let most = self.columns.iter().max().map_or(0, |last| last + 1);
        if count < most {
            return Err(format!("it has {count} columns, and column {most} is to be read"));
        }
        let [when, object, size] = found;
        let ticks = Some(seconds(when)?);
        let kind = RequestKind::Read;
        out.push_back(TraceRequest { address: address(object)?, bytes: bytes(size)?, kind, ticks });
        Ok(Read::Goes)
    }

    fn fork(&self) -> Box<dyn Script> {
        Box::new(self.clone())
    }
}

fn write(request: &TraceRequest, to: &mut Vec<u8>) {
    let ns = request.ticks.unwrap_or(0);
    let (seconds, fraction) = (ns / 1_000_000_000, ns % 1_000_000_000);
    let TraceRequest { address, bytes, .. } = request;
    let _ = writeln!(to, "{seconds}.{fraction:09},{address},{bytes}");
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read_all, said};

    #[test]
    fn columns_are_those_that_are_said() {
        let text = "op|bytes|id|when\nget|512|0x49|7\nget|4096|100|9.5\n";
        let given = [
            ("time", "4"),
            ("object", "3"),
            ("size", "2"),
            ("delimiter", "bar"),
            ("header", "yes"),
        ];
        let read = read_all("libcachesim-csv", text, &given);
        let told: Vec<_> = read.iter().map(|one| (one.address, one.bytes, one.ticks)).collect();
        assert_eq!(told, [(0x49, 512, Some(0)), (100, 4096, Some(2_500_000_000))]);
        assert!(
            said("libcachesim-csv", "1,2\n").contains("it has 2 columns, and column 3 is to be")
        );
    }
}
