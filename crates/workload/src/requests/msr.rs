//! `msr`: the block traces of Microsoft Research Cambridge: when a request was issued (in units of
//! 100 ns since 1601), host, disk, what was done, offset and size in bytes, and how long it took,
//! which is left out. A volume is host and disk: `hm,1`.

use super::words::{bytes, cells, whole};
use super::{
    ChoiceError, Choices, Extent, Format, OF_VOLUMES, Out, Parse, Read, RequestKind, Script, Times,
    TraceRequest, Volume,
};
use std::io::Write;

/// The format.
pub const FORMAT: Format = Format {
    name: "msr",
    summary: "Block trace of Microsoft Research Cambridge (SNIA 388): CSV, in bytes and 100 ns",
    grammar: "TIMESTAMP,HOST,DISK,Read|Write,OFFSET,SIZE,RESPONSETIME",
    example: "128166372003061629,hm,1,Read,383496192,32768,413",
    heading: "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime",
    times: Times::Ps(100_000),
    epoch: true,
    extent: Extent::Bytes,
    options: OF_VOLUMES,
    source: "README of the traces at SNIA IOTTA; Narayanan et al., FAST 2008",
    parse: Parse::Script(script),
    write: Some(write),
    ..Format::PLAIN
};

fn script(choices: &Choices) -> Result<Box<dyn Script>, ChoiceError> {
    Ok(Box::new(Msr(Volume::of(choices)?)))
}

#[derive(Clone)]
struct Msr(Volume);

impl Script for Msr {
    fn read(&mut self, line: &str, out: &mut Out) -> Result<Read, String> {
        let [when, host, _disk, what, offset, size, took] = cells(line)?;
        let kind = match what {
            "Read" => RequestKind::Read,
            "Write" => RequestKind::Write,
            _ => return Err(format!("`{what}` is neither Read nor Write")),
        };
        whole(took, "a response time")?;
        let request = TraceRequest {
            address: whole(offset, "an offset in bytes")?,
            bytes: bytes(size)?,
            kind,
            ticks: Some(whole(when, "a time in units of 100 ns")?),
        };
        let volume = line.split_once(',').map_or(host, |(_, behind)| behind);
        let disk_ends = volume.match_indices(',').nth(1).map_or(volume.len(), |(at, _)| at);
        let (name, bytes) = (&volume[..disk_ends], request.bytes.into());
        if let Some(address) = self.0.place(name, request.address, bytes)? {
            out.push_back(TraceRequest { address, ..request });
        }
        Ok(Read::Goes)
    }

    fn volume(&mut self) -> Option<&mut Volume> {
        Some(&mut self.0)
    }

    fn fork(&self) -> Box<dyn Script> {
        Box::new(self.clone())
    }
}

fn write(request: &TraceRequest, to: &mut Vec<u8>) {
    let what = if request.is_write() { "Write" } else { "Read" };
    let (when, TraceRequest { address, bytes, .. }) = (request.ticks.unwrap_or(0), request);
    let _ = writeln!(to, "{when},tierscope,0,{what},{address},{bytes},0");
}
