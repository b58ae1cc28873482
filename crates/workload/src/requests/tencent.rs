//! `tencent`: the block traces of Tencent Cloud of 2018: seconds since 1970, offset and size in
//! sectors of 512 bytes, 0 to read or 1 to write, and the volume.
//!
//! Times are whole seconds: all requests of a second arrive at its start, so that a replay by times
//! has bursts that the system did not have. A closed loop has none.

use super::words::{cells, sectors, whole};
use super::{
    ChoiceError, Choices, Extent, Format, OF_VOLUMES, Out, Parse, Read, RequestKind, Script, Times,
    TraceRequest, Volume,
};
use std::io::Write;

/// The format.
pub const FORMAT: Format = Format {
    name: "tencent",
    summary: "Block trace of Tencent Cloud (SNIA 27917): CSV, in sectors and whole seconds",
    grammar: "TIMESTAMP,SECTOR,SECTORS,0|1,VOLUME",
    example: "1538323200,12910952,128,0,1063",
    heading: "Timestamp,Offset,Size,IOType,VolumeID",
    times: Times::Ps(1_000_000_000_000),
    epoch: true,
    extent: Extent::Sectors(512),
    options: OF_VOLUMES,
    source: "README of the traces at SNIA IOTTA; Zhang et al., USENIX ATC 2020",
    parse: Parse::Script(script),
    write: Some(write),
    ..Format::PLAIN
};

fn script(choices: &Choices) -> Result<Box<dyn Script>, ChoiceError> {
    Ok(Box::new(Tencent(Volume::of(choices)?)))
}

#[derive(Clone)]
struct Tencent(Volume);

impl Script for Tencent {
    fn read(&mut self, line: &str, out: &mut Out) -> Result<Read, String> {
        let [when, first, count, what, volume] = cells(line)?;
        let kind = match what {
            "0" => RequestKind::Read,
            "1" => RequestKind::Write,
            _ => return Err(format!("`{what}` is neither 0, to read, nor 1, to write")),
        };
        let (address, bytes) = sectors(first, count)?;
        let ticks = Some(whole(when, "a time in whole seconds")?);
        if let Some(address) = self.0.place(volume, address, bytes.into())? {
            out.push_back(TraceRequest { address, bytes, kind, ticks });
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
    let (when, first, count) =
        (request.ticks.unwrap_or(0), request.address / 512, request.bytes / 512);
    let _ = writeln!(to, "{when},{first},{count},{},0", u8::from(request.is_write()));
}
