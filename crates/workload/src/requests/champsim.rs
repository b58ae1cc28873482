//! `champsim`: the instructions of a program, in records of 64 bytes, little-endian: address, whether
//! it is a branch and was taken, registers (2 written, 4 read), two addresses written and four read; 0
//! for none. There are no times.
//!
//! Each instruction gives a read for each address that it reads, then a write for each that it writes.
//! The trace does not say how many bytes: the line that holds the address is meant.

use super::{Extent, Format, Marks, Out, Parse, Times, TraceRequest};

/// The format.
pub const FORMAT: Format = Format {
    name: "champsim",
    summary: "Accesses of a program, from an instruction trace of ChampSim (records of 64 bytes); \
              requests come as fast as they are taken",
    grammar: "64 bytes: u64 instruction, u8 branch, u8 taken, u8 registers written[2] and read[4], \
              u64 addresses written[2] and read[4]",
    example: "",
    heading: "",
    opening: "",
    times: Times::Absent,
    epoch: false,
    extent: Extent::Line,
    marks: Marks { flush: false, trim: false },
    only_reads: false,
    nought_is_none: true,
    left_out: None,
    options: &[],
    source: "ChampSim/ChampSim:inc/trace_instruction.h, input_instr",
    parse: Parse::Records(64, parse),
    write: Some(write),
};

const FIRST_WRITTEN: usize = 16;
const FIRST_READ: usize = 32;

#[inline]
fn word(record: &[u8], at: usize) -> u64 {
    record[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn parse(record: &[u8], out: &mut Out) -> Result<(), String> {
    let [branch, taken] = [record[8], record[9]];
    if branch > 1 || taken > 1 {
        return Err(format!("it says of a branch {branch} and {taken}, neither 0 nor 1"));
    }
    let places = [(FIRST_READ, 4, false), (FIRST_WRITTEN, 2, true)];
    for (first, count, write) in places {
        for number in 0..count {
            let address = word(record, first + 8 * number);
            if address != 0 {
                out.push_back(TraceRequest::line(address, write, None));
            }
        }
    }
    Ok(())
}

fn write(request: &TraceRequest, to: &mut Vec<u8>) {
    let mut record = [0u8; 64];
    let at = if request.is_write() { FIRST_WRITTEN } else { FIRST_READ };
    record[at..at + 8].copy_from_slice(&request.address.to_le_bytes());
    to.extend_from_slice(&record);
}
