//! `dramsim2-k6`: a hexadecimal address, a command of the K6's bus, and the cycle: the traces of DRAMSim2
//! whose name begins with `k6`.
//!
//! Locked accesses are reads, those called `P_LOCK_WR` too, as the simulator has it.

use super::words::{cycle, hexadecimal, split};
use super::{Format, Parse, Times, TraceRequest};
use std::io::Write;

/// The format.
pub const FORMAT: Format = Format {
    name: "dramsim2-k6",
    summary: "Memory trace of DRAMSim2, k6: address, command of the bus, cycle",
    grammar: "0xADDRESS P_MEM_RD|P_MEM_WR|P_FETCH|P_LOCK_RD|P_LOCK_WR|BOFF CYCLE",
    example: "0x0003ED80 P_MEM_WR 50",
    times: Times::Cycles,
    source: "umd-memsys/DRAMSim2@0d2db1a:TraceBasedSim.cpp, parseTraceFileLine",
    parse: Parse::Lines(parse),
    write: Some(write),
    ..Format::PLAIN
};

fn parse(line: &str) -> Result<TraceRequest, String> {
    let [address, what, when] = split(line)?;
    let write = match what {
        "P_MEM_RD" | "P_FETCH" | "P_LOCK_RD" | "P_LOCK_WR" => false,
        "P_MEM_WR" | "BOFF" => true,
        _ => return Err(format!("`{what}` is no command of the K6's bus")),
    };
    Ok(TraceRequest::line(hexadecimal(address)?, write, Some(cycle(when)?)))
}

fn write(request: &TraceRequest, to: &mut Vec<u8>) {
    let what = if request.is_write() { "P_MEM_WR" } else { "P_MEM_RD" };
    let _ = writeln!(to, "{:#x} {what} {}", request.address, request.ticks.unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_accesses_are_reads() {
        let write = |line| parse(line).unwrap().is_write();
        assert_eq!(
            parse("0x0003ED80 P_MEM_WR 50"),
            Ok(TraceRequest::line(0x3_ed80, true, Some(50)))
        );
        assert!(write("0x0 BOFF 1") && !write("0x0 P_LOCK_WR 1") && !write("0x0 P_FETCH 1"));
        assert_eq!(parse("0x0 READ 1").unwrap_err(), "`READ` is no command of the K6's bus");
    }
}
