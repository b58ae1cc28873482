//! `dramsim2-misc`: a hexadecimal address, what is done, and of a write perhaps its data, which are
//! left out: the traces of DRAMSim2 whose name begins with `misc`. There are no times.

use super::words::{first, hexadecimal};
use super::{Format, Parse, TraceRequest};
use std::io::Write;

/// The format.
pub const FORMAT: Format = Format {
    name: "dramsim2-misc",
    summary: "Memory trace of DRAMSim2, misc: address, read or write, data; requests come as fast as they \
              are taken",
    grammar: "0xADDRESS read|write [DATA]",
    example: "0x3ed80 read",
    source: "umd-memsys/DRAMSim2@0d2db1a:TraceBasedSim.cpp, parseTraceFileLine",
    parse: Parse::Lines(parse),
    write: Some(write),
    ..Format::PLAIN
};

fn parse(line: &str) -> Result<TraceRequest, String> {
    let ([address, what], mut data) = first(line)?;
    let write = match what {
        "read" => false,
        "write" => true,
        _ => return Err(format!("`{what}` is neither read nor write")),
    };
    if let Some(data) = data.find(|data| hexadecimal(data).is_err()) {
        return Err(format!("`{data}` is no data, in hexadecimal words of 64 bits"));
    }
    Ok(TraceRequest::line(hexadecimal(address)?, write, None))
}

fn write(request: &TraceRequest, to: &mut Vec<u8>) {
    let what = if request.is_write() { "write" } else { "read" };
    let _ = writeln!(to, "{:#x} {what}", request.address);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_left_out() {
        assert_eq!(parse("0x40 read"), Ok(TraceRequest::line(64, false, None)));
        assert_eq!(parse("0x40 write deadbeef 0 1"), Ok(TraceRequest::line(64, true, None)));
        assert!(parse("0x40 write zero").unwrap_err().contains("no data"));
        assert_eq!(parse("0x40").unwrap_err(), "it has 1 word, not 2 or more");
    }
}
