//! `oracle-general`: the traces of libCacheSim, in records of 24 bytes, little-endian: seconds, the
//! object's number, its size in bytes, and when it is next used, which is left out.
//!
//! All requests read: the format does not tell writes. An object's number is taken for its first byte,
//! which it is in traces of block devices; numbers that are hashes lie beyond every device.

use super::{Extent, Format, MOST_REQUEST_BYTES, Out, Parse, RequestKind, Times, TraceRequest};

/// The format.
pub const FORMAT: Format = Format {
    name: "oracle-general",
    summary: "Cache trace of libCacheSim, oracleGeneral (records of 24 bytes): reads of objects",
    grammar: "24 bytes: u32 seconds, u64 object, u32 size, i64 next use",
    times: Times::Ps(1_000_000_000_000),
    epoch: true,
    extent: Extent::Bytes,
    only_reads: true,
    left_out: Some("records of size 0"),
    loses: "when an object is next used was left out: each record says never",
    source: "1a1a11a/libCacheSim:libCacheSim/traceReader/customizedReader/oracle/oracleGeneralBin.h",
    parse: Parse::Records(24, parse),
    write: Some(write),
    ..Format::PLAIN
};

fn parse(record: &[u8], out: &mut Out) -> Result<(), String> {
    let short =
        |at: usize| record[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let address = record[4..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let (seconds, bytes) = (short(0), short(12));
    // As the simulator does.
    if bytes == 0 {
        return Ok(());
    }
    if bytes > MOST_REQUEST_BYTES {
        return Err(format!("its size is {bytes} bytes, more than 1 GiB"));
    }
    let (kind, ticks) = (RequestKind::Read, Some(u64::from(seconds)));
    out.push_back(TraceRequest { address, bytes, kind, ticks });
    Ok(())
}

fn write(request: &TraceRequest, to: &mut Vec<u8>) {
    let seconds = u32::try_from(request.ticks.unwrap_or(0)).unwrap_or(u32::MAX);
    to.extend_from_slice(&seconds.to_le_bytes());
    to.extend_from_slice(&request.address.to_le_bytes());
    to.extend_from_slice(&request.bytes.to_le_bytes());
    to.extend_from_slice(&(-1i64).to_le_bytes());
}
