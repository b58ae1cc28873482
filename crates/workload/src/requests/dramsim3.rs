//! `dramsim3`: a hexadecimal address, what is done, and the cycle of its arrival.
//!
//! Besides `READ` and `WRITE` the words of DRAMSim2's k6 traces are known; the simulator takes any
//! other for a read, and here it is an error.

use super::words::{cycle, hexadecimal, split};
use super::{Format, Parse, Times, TraceRequest};
use std::io::Write;

/// The format.
pub const FORMAT: Format = Format {
    name: "dramsim3",
    summary: "Memory trace of DRAMsim3: address, READ or WRITE, cycle",
    grammar: "0xADDRESS READ|WRITE CYCLE",
    example: "0x1f40 READ 120",
    times: Times::Cycles,
    source: "umd-memsys/DRAMsim3@2981759:src/common.cc, which reads a Transaction",
    parse: Parse::Lines(parse),
    write: Some(write),
    ..Format::PLAIN
};

fn parse(line: &str) -> Result<TraceRequest, String> {
    let [address, what, when] = split(line)?;
    let write = match what {
        "READ" | "read" | "P_MEM_RD" | "P_FETCH" => false,
        "WRITE" | "write" | "P_MEM_WR" | "BOFF" => true,
        _ => return Err(format!("`{what}` is neither READ nor WRITE")),
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
    fn addresses_are_hexadecimal_and_cycles_decimal() {
        let request = |address, write, cycle| Ok(TraceRequest::line(address, write, cycle));
        assert_eq!(parse("0x10 READ 10"), request(16, false, Some(10)));
        assert_eq!(parse("10 WRITE 0"), request(16, true, Some(0)), "as the simulator reads it");
        assert_eq!(parse("0xFFC0 BOFF 7"), request(0xffc0, true, Some(7)));
        assert_eq!(parse("0x10 LOAD 1").unwrap_err(), "`LOAD` is neither READ nor WRITE");
    }
}
