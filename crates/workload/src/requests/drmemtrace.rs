//! `drmemtrace`: the final traces of DynamoRIO's drmemtrace, decompressed from their zip archive or as
//! gzip: packed records of 12 bytes of a 64-bit program.
//!
//! Reads and writes are requests, at their virtual addresses. Prefetches, flushes, markers, times and
//! encodings are left out; instructions are counted on a machine with a processor, and left out else.

use super::format::Program;
use super::{
    Extent, Format, MOST_REQUEST_BYTES, Marks, Out, Parse, RequestKind, Times, TraceRequest,
};
use crate::op::Op;

/// The format.
pub const FORMAT: Format = Format {
    name: "drmemtrace",
    summary: "Accesses of a program, from a final trace of DynamoRIO's drmemtrace (records of 12 \
              bytes); on a device alone requests come as fast as they are taken",
    grammar: "12 bytes: u16 type, u16 size, u64 address",
    example: "",
    heading: "",
    opening: b"",
    times: Times::Absent,
    epoch: false,
    extent: Extent::Bytes,
    marks: Marks { flush: false, trim: false },
    only_reads: false,
    nought_is_none: false,
    left_out: None,
    options: &[],
    source: "DynamoRIO/dynamorio:clients/drcachesim/common/trace_entry.h, version 5 of the trace",
    parse: Parse::Records(12, parse),
    write: None,
    program: Some(|| Box::new(Drmemtrace::default())),
};

const READ: u16 = 0;
const WRITE: u16 = 1;
const INSTRUCTION: u16 = 10;
const RETURN: u16 = 16;
const BUNDLE: u16 = 17;
const THREAD: u16 = 22;
const SYSENTER: u16 = 31;
const TAKEN: u16 = 48;
const UNTAKEN: u16 = 49;

/// Type, size and address of a record.
fn entry(record: &[u8]) -> Result<(u16, u16, u64), String> {
    let half = |at: usize| u16::from_le_bytes([record[at], record[at + 1]]);
    let address = record[4..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    match half(0) {
        kind @ 0..=UNTAKEN => Ok((kind, half(2), address)),
        kind => Err(format!("its type is {kind}, and the last that is known is {UNTAKEN}")),
    }
}

fn parse(record: &[u8], out: &mut Out) -> Result<(), String> {
    let (kind, size, address) = entry(record)?;
    if let READ | WRITE = kind {
        let bytes = u32::from(size).clamp(1, MOST_REQUEST_BYTES);
        let kind = RequestKind::of(kind == WRITE);
        out.push_back(TraceRequest { address, bytes, kind, ticks: None });
    }
    Ok(())
}

/// A trace of one thread on its way to a processor.
#[derive(Clone, Default)]
struct Drmemtrace {
    instructions: u32,
    thread: Option<u64>,
}

impl Program for Drmemtrace {
    fn read(&mut self, record: &[u8], out: &mut Vec<Op>) -> Result<(), String> {
        let (kind, size, address) = entry(record)?;
        match kind {
            READ => {
                out.push(Op::load(address, size.max(1), std::mem::take(&mut self.instructions)))
            }
            WRITE => {
                out.push(Op::store(address, size.max(1), std::mem::take(&mut self.instructions)));
            }
            INSTRUCTION..=RETURN | SYSENTER | TAKEN | UNTAKEN => self.instructions += 1,
            BUNDLE => self.instructions += u32::from(size),
            THREAD if *self.thread.get_or_insert(address) != address => {
                return Err("it is of a second thread; give the file of one thread".into());
            }
            _ => {}
        }
        Ok(())
    }

    fn instructions(&mut self) -> &mut u32 {
        &mut self.instructions
    }

    fn fork(&self) -> Box<dyn Program> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::tests::Scratch;

    pub fn record(kind: u16, size: u16, address: u64) -> Vec<u8> {
        [&kind.to_le_bytes()[..], &size.to_le_bytes(), &address.to_le_bytes()].concat()
    }

    #[test]
    fn reads_and_writes_are_requests_and_all_else_is_left_out() {
        let bytes = [record(25, 0, 5), record(10, 4, 64), record(0, 8, 4096), record(1, 0, 64)];
        let bytes = bytes.concat();
        let file = Scratch::new(&bytes);
        let mut reader = file.open("drmemtrace").unwrap();
        let read: Vec<_> =
            std::iter::from_fn(|| super::super::RequestSource::next(&mut reader).unwrap())
                .collect();
        let told: Vec<_> =
            read.iter().map(|one| (one.is_write(), one.address, one.bytes)).collect();
        assert_eq!(told, [(false, 4096, 8), (true, 64, 1)]);
        let told = Scratch::new(&record(50, 0, 0)).said("drmemtrace");
        assert!(told.contains("its type is 50, and the last that is known is 49"), "{told}");
    }
}
