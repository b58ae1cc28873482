//! `ramulator2`: what is done, and an address, decimal or behind `0x` hexadecimal: the load and store
//! trace of Ramulator 2. There are no times.
//!
//! Its other trace (`R` or `W` and a vector of channel, rank, bank …) names places of its own
//! organization instead of addresses, and is not read.

use super::words::{address, split};
use super::{Format, MemoryRequest};

/// The format.
pub const FORMAT: Format = Format {
    name: "ramulator2",
    summary: "Load and store trace of Ramulator 2: LD or ST, address; requests come as fast as they \
              are taken",
    grammar: "LD|ST ADDRESS",
    example: "LD 0x12345680",
    timed: false,
    source: "CMU-SAFARI/ramulator2@2b9b3ae:src/frontend/impl/memory_trace/loadstore_trace.cpp",
    parse,
};

fn parse(line: &str) -> Result<MemoryRequest, String> {
    let [what, place] = split(line)?;
    let write = match what {
        "LD" => false,
        "ST" => true,
        "R" | "W" if place.contains(',') => {
            return Err("it names a place in Ramulator's organization, not an address".into());
        }
        _ => return Err(format!("`{what}` is neither LD nor ST")),
    };
    Ok(MemoryRequest { address: address(place)?, write, cycle: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_decimal_unless_they_say_otherwise() {
        let request = |address, write| Ok(MemoryRequest { address, write, cycle: None });
        assert_eq!(parse("LD 0x40"), request(64, false));
        assert_eq!(parse("ST 40"), request(40, true));
        assert!(parse("R 0,0,1,2,77,0").unwrap_err().contains("organization"));
        assert_eq!(parse("R 64").unwrap_err(), "`R` is neither LD nor ST");
    }
}
