//! `dramsim2-mase`: a hexadecimal address, what is done, and the cycle: the traces of DRAMSim2 whose name
//! begins with `mase`.

use super::words::{cycle, hexadecimal, split};
use super::{Format, Parse, Times, TraceRequest};
use std::io::Write;

/// The format.
pub const FORMAT: Format = Format {
    name: "dramsim2-mase",
    summary: "Memory trace of DRAMSim2, mase: address, IFETCH, READ or WRITE, cycle",
    grammar: "0xADDRESS IFETCH|READ|WRITE CYCLE",
    example: "0x3ed80 IFETCH 50",
    times: Times::Cycles,
    source: "umd-memsys/DRAMSim2@0d2db1a:TraceBasedSim.cpp, parseTraceFileLine",
    parse: Parse::Lines(parse),
    write: Some(write),
    ..Format::PLAIN
};

fn parse(line: &str) -> Result<TraceRequest, String> {
    let [address, what, when] = split(line)?;
    let write = match what {
        "IFETCH" | "READ" => false,
        "WRITE" => true,
        _ => return Err(format!("`{what}` is none of IFETCH, READ and WRITE")),
    };
    Ok(TraceRequest::line(hexadecimal(address)?, write, Some(cycle(when)?)))
}

fn write(request: &TraceRequest, to: &mut Vec<u8>) {
    let what = if request.is_write() { "WRITE" } else { "READ" };
    let _ = writeln!(to, "{:#x} {what} {}", request.address, request.ticks.unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetches_are_reads() {
        assert_eq!(parse("0x40 IFETCH 5"), Ok(TraceRequest::line(64, false, Some(5))));
        assert_eq!(parse("0x40 WRITE 6"), Ok(TraceRequest::line(64, true, Some(6))));
        assert!(parse("0x40 BOFF 7").unwrap_err().contains("none of"));
    }
}
