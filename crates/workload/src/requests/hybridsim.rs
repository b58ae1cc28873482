//! `hybridsim`: the cycle, 0 to read or 1 to write, and an address, all decimal: the traces of HybridSim
//! and of PCI_SSD. What follows a `#` is left out.
//!
//! The simulators take any odd number for a write; here only 0 and 1 are known.

use super::words::{cycle, split, whole};
use super::{Format, Parse, Times, TraceRequest};
use std::io::Write;

/// The format.
pub const FORMAT: Format = Format {
    name: "hybridsim",
    summary: "Memory trace of HybridSim and PCI_SSD: cycle, 0 to read or 1 to write, address",
    grammar: "CYCLE 0|1 ADDRESS",
    example: "120 0 8000",
    times: Times::Cycles,
    source: "jimstevens2001/HybridSim@0105561:TraceBasedSim.cpp, and PCI_SSD@01f9c9e:TraceBasedSim.cpp",
    parse: Parse::Lines(parse),
    write: Some(write),
    ..Format::PLAIN
};

fn parse(line: &str) -> Result<TraceRequest, String> {
    let line = line.split('#').next().unwrap_or(line);
    let [when, what, address] = split(line)?;
    let write = match what {
        "0" => false,
        "1" => true,
        _ => return Err(format!("`{what}` is neither 0, to read, nor 1, to write")),
    };
    let address = whole(address, "a decimal address")?;
    Ok(TraceRequest::line(address, write, Some(cycle(when)?)))
}

fn write(request: &TraceRequest, to: &mut Vec<u8>) {
    let (what, cycle) = (u8::from(request.is_write()), request.ticks.unwrap_or(0));
    let _ = writeln!(to, "{cycle} {what} {}", request.address);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_a_write_and_all_is_decimal() {
        assert_eq!(parse("7 0 4096 # a page"), Ok(TraceRequest::line(4096, false, Some(7))));
        assert_eq!(parse("8 1 64"), Ok(TraceRequest::line(64, true, Some(8))));
        assert!(parse("8 2 64").unwrap_err().contains("neither 0"));
        assert!(parse("8 1 0x40").unwrap_err().contains("decimal address"));
    }
}
