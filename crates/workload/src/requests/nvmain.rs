//! `nvmain`: the cycle, what is done, a hexadecimal address, the data and perhaps those before, and a
//! thread: the traces of NVMain. Data are left out. A first line `NVMV1` says that data from before are there.
//!
//! A line of five words or more ends with the thread, which tells threads apart on a machine with a
//! processor: there each access counts as an instruction, and cycles are left out. Addresses are those of
//! one memory, which all threads share.

use super::format::{OfProgram, Program, Several};
use super::words::{cycle, first, hexadecimal, whole};
use super::{Format, Parse, Times, Told, TraceRequest};
use std::io::Write;

/// The format.
pub const FORMAT: Format = Format {
    name: "nvmain",
    summary: "Memory trace of NVMain: cycle, R or W, address, data, thread",
    grammar: "CYCLE R|W ADDRESS [DATA...] [THREAD]",
    example: "120 R 1f40 00000000 0",
    heading: "NVMV1",
    times: Times::Cycles,
    source: "SEAL-UCSB/NVmain@0512bae:traceReader/NVMainTrace/NVMainTraceReader.cpp",
    parse: Parse::Lines(parse),
    write: Some(write),
    program: Some(OfProgram { new: || Box::new(Threads), several: Several::No }),
    ..Format::PLAIN
};

/// A trace on its way to a processor.
struct Threads;

impl Program for Threads {
    fn read(&mut self, line: &[u8], told: &mut Told) -> Result<(), String> {
        if line.eq_ignore_ascii_case(FORMAT.heading.as_bytes()) {
            return Ok(());
        }
        let mut rest = line;
        for _ in 0..3 {
            rest = rest.trim_ascii_start();
            let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
            rest = &rest[end..];
        }
        // Data are long: whether there is something behind them is looked for from the end.
        let rest = rest.trim_ascii();
        match rest.iter().rposition(u8::is_ascii_whitespace) {
            Some(blank) => {
                let thread = std::str::from_utf8(&rest[blank + 1..]).unwrap_or_default();
                told.thread(whole(thread, "the number of a thread")?)
            }
            None => told.thread(0),
        }
    }

    fn of_requests(&self) -> bool {
        true
    }

    fn fork(&self) -> Box<dyn Program> {
        Box::new(Threads)
    }
}

fn parse(line: &str) -> Result<TraceRequest, String> {
    if line.starts_with("NVMV") {
        return Err("it is the heading of a version other than NVMV1, the only one known".into());
    }
    let ([when, what, address], rest) = first(line)?;
    let write = match what {
        "R" => false,
        "W" => true,
        _ => return Err(format!("`{what}` is neither R nor W")),
    };
    let more = rest.count();
    if more > 3 {
        return Err(format!("it has {} words, not 3 to 6", 3 + more));
    }
    Ok(TraceRequest::line(hexadecimal(address)?, write, Some(cycle(when)?)))
}

fn write(request: &TraceRequest, to: &mut Vec<u8>) {
    let (what, cycle) = (if request.is_write() { 'W' } else { 'R' }, request.ticks.unwrap_or(0));
    let zeros = [b'0'; 128];
    let _ = write!(to, "{cycle} {what} {:x} ", request.address);
    to.extend_from_slice(&zeros);
    to.extend_from_slice(b" 0\n");
}

#[cfg(test)]
mod tests {
    use super::super::tests::read_all;
    use super::*;

    #[test]
    fn addresses_are_hexadecimal_and_data_left_out() {
        assert_eq!(parse("12 R 1f40 00ff 0"), Ok(TraceRequest::line(0x1f40, false, Some(12))));
        assert_eq!(parse("13 W 0x40"), Ok(TraceRequest::line(64, true, Some(13))));
        let read = read_all("nvmain", "NVMV1\n12 R 1f40 00ff 00fe 0\n", &[]);
        assert_eq!(read, [TraceRequest::line(0x1f40, false, Some(12))]);
        assert!(parse("NVMV2").unwrap_err().contains("other than NVMV1"));
        assert!(parse("13 X 40 0 0").unwrap_err().contains("neither R nor W"));
        assert!(parse("13 W 40 0 0 0 0").unwrap_err().contains("7 words"));
    }
}
