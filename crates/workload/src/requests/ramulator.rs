//! `ramulator`: a hexadecimal address and what is done. There are no times.

use super::words::{hexadecimal, split};
use super::{Format, Parse, TraceRequest};
use std::io::Write;

/// The format.
pub const FORMAT: Format = Format {
    name: "ramulator",
    summary: "Memory trace of Ramulator: address, R or W; requests come as fast as they are taken",
    grammar: "0xADDRESS R|W",
    example: "0x12345680 R",
    source: "CMU-SAFARI/ramulator:README.md, memory-trace driven",
    parse: Parse::Lines(parse),
    write: Some(write),
    ..Format::PLAIN
};

fn parse(line: &str) -> Result<TraceRequest, String> {
    let [address, what] = split(line)?;
    let write = match what {
        "R" => false,
        "W" => true,
        _ => return Err(format!("`{what}` is neither R nor W")),
    };
    Ok(TraceRequest::line(hexadecimal(address)?, write, None))
}

fn write(request: &TraceRequest, to: &mut Vec<u8>) {
    let what = if request.is_write() { 'W' } else { 'R' };
    let _ = writeln!(to, "{:#x} {what}", request.address);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_its_manual_are_read() {
        let request = |address, write| Ok(TraceRequest::line(address, write, None));
        assert_eq!(parse("0x12345680 R"), request(0x1234_5680, false));
        assert_eq!(parse("0x4cbd56c0 W"), request(0x4cbd_56c0, true));
        assert_eq!(parse("0x4cbd56c0 w").unwrap_err(), "`w` is neither R nor W");
    }
}
