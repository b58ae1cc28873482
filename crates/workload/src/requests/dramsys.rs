//! `dramsys`: the traces of DRAMSys, `.stl`: the cycle of the player's own clock, how many bytes, what is
//! done, and a hexadecimal address.
//!
//! Bytes stand in brackets and may be left out: what the memory moves as one is meant then. Data behind
//! a write, which a simulation with storage needs, are left out. Those of `.rstl` say how long after the
//! answer before a request comes, and are no traces of this kind: their times go back.

use super::words::{bytes, hexadecimal, whole};
use super::{Extent, Format, Parse, RequestKind, Times, TraceRequest};
use std::io::Write;

/// The format.
pub const FORMAT: Format = Format {
    name: "dramsys",
    summary: "Memory trace of DRAMSys (.stl): cycle, bytes, what is done, address",
    grammar: "CYCLE: [(BYTES)] read|write 0xADDRESS [DATA]",
    example: "31: (64) read 0x400140",
    times: Times::Cycles,
    extent: Extent::Bytes,
    source: "tukl-msd/DRAMSys@8e021ea:src/simulator/simulator/player/StlPlayer.cpp, parseTraceFile",
    parse: Parse::Lines(parse),
    write: Some(write),
    ..Format::PLAIN
};

fn parse(line: &str) -> Result<TraceRequest, String> {
    let mut words = line.split_ascii_whitespace();
    let mut next = |what: &str| words.next().ok_or_else(|| format!("it has no {what}"));
    let when = next("cycle")?;
    let when = when.strip_suffix(':').ok_or("its first word is no CYCLE:")?;
    let ticks = Some(whole(when, "a cycle, a whole number from 0")?);
    let mut what = next("read or write")?;
    let mut size = 0;
    if let Some(inner) = what.strip_prefix('(') {
        size = bytes(inner.strip_suffix(')').ok_or("its size has no closing bracket")?)?;
        what = next("read or write")?;
    }
    let kind = match what {
        "read" => RequestKind::Read,
        "write" => RequestKind::Write,
        _ => return Err(format!("`{what}` is neither read nor write")),
    };
    let address = hexadecimal(next("address")?)?;
    if words.nth(1).is_some() {
        return Err("it has words behind its data".into());
    }
    Ok(TraceRequest { address, bytes: size, kind, ticks })
}

fn write(request: &TraceRequest, to: &mut Vec<u8>) {
    let what = if request.is_write() { "write" } else { "read" };
    let (when, TraceRequest { address, bytes, .. }) = (request.ticks.unwrap_or(0), request);
    let _ = writeln!(to, "{when}: ({bytes}) {what} {address:#x}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_data_may_be_left_out() {
        let request = |address, bytes, kind, when| {
            Ok(TraceRequest { address, bytes, kind, ticks: Some(when) })
        };
        assert_eq!(parse("31: read 0x400140"), request(0x40_0140, 0, RequestKind::Read, 31));
        assert_eq!(parse("31: (32) write 40 0x00ff"), request(0x40, 32, RequestKind::Write, 31));
        for (line, why) in [
            ("31 read 0x40", "its first word is no CYCLE:"),
            ("31: (64 read 0x40", "its size has no closing bracket"),
            ("31: load 0x40", "`load` is neither read nor write"),
            ("31: read", "it has no address"),
            ("31: write 0x40 0x00 0x01", "it has words behind its data"),
        ] {
            assert_eq!(parse(line).unwrap_err(), why);
        }
    }
}
