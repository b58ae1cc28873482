//! `ramulator2`: what is done, and an address, decimal or behind `0x` hexadecimal: the load and store
//! trace of Ramulator 2. There are no times.
//!
//! Its other traces are `ramulator2-vector` and `ramulator-cpu`.

use super::words::{address, split};
use super::{Format, Parse, TraceRequest};
use std::io::Write;

/// The format.
pub const FORMAT: Format = Format {
    name: "ramulator2",
    summary: "Load and store trace of Ramulator 2: LD or ST, address; requests come as fast as they \
              are taken",
    grammar: "LD|ST ADDRESS",
    example: "LD 0x12345680",
    source: "CMU-SAFARI/ramulator2@2b9b3ae:src/frontend/impl/memory_trace/loadstore_trace.cpp",
    parse: Parse::Lines(parse),
    write: Some(write),
    ..Format::PLAIN
};

fn parse(line: &str) -> Result<TraceRequest, String> {
    let [what, place] = split(line)?;
    let write = match what {
        "LD" => false,
        "ST" => true,
        "R" | "W" if place.contains(',') => {
            return Err("it names a place in Ramulator's organization, not an address: that is \
                        ramulator2-vector"
                .into());
        }
        _ => return Err(format!("`{what}` is neither LD nor ST")),
    };
    Ok(TraceRequest::line(address(place)?, write, None))
}

fn write(request: &TraceRequest, to: &mut Vec<u8>) {
    let what = if request.is_write() { "ST" } else { "LD" };
    let _ = writeln!(to, "{what} {:#x}", request.address);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_decimal_unless_they_say_otherwise() {
        let request = |address, write| Ok(TraceRequest::line(address, write, None));
        assert_eq!(parse("LD 0x40"), request(64, false));
        assert_eq!(parse("ST 40"), request(40, true));
        assert!(parse("R 0,0,1,2,77,0").unwrap_err().contains("organization"));
        assert_eq!(parse("R 64").unwrap_err(), "`R` is neither LD nor ST");
    }
}
