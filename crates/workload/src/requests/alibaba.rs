//! `alibaba`: the block traces of Alibaba Cloud of 2020: volume, `R` or `W`, offset and length in
//! bytes, and microseconds since 1970.

use super::words::{bytes, cells, whole};
use super::{
    ChoiceError, Choices, Extent, Format, OF_VOLUMES, Out, Parse, Read, RequestKind, Script, Times,
    TraceRequest, Volume,
};
use std::io::Write;

/// The format.
pub const FORMAT: Format = Format {
    name: "alibaba",
    summary: "Block trace of Alibaba Cloud: CSV, in bytes and microseconds",
    grammar: "DEVICE,R|W,OFFSET,LENGTH,TIMESTAMP",
    example: "0,R,126703661056,4096,1577808000000046",
    heading: "device_id,opcode,offset,length,timestamp",
    times: Times::Ps(1_000_000),
    epoch: true,
    extent: Extent::Bytes,
    options: OF_VOLUMES,
    source: "alibaba/block-traces:README.md; Li et al., IISWC 2020",
    parse: Parse::Script(script),
    write: Some(write),
    ..Format::PLAIN
};

fn script(choices: &Choices) -> Result<Box<dyn Script>, ChoiceError> {
    Ok(Box::new(Alibaba(Volume::of(choices)?)))
}

#[derive(Clone)]
struct Alibaba(Volume);

impl Script for Alibaba {
    fn read(&mut self, line: &str, out: &mut Out) -> Result<Read, String> {
        let [volume, what, offset, length, when] = cells(line)?;
        let kind = match what {
            "R" => RequestKind::Read,
            "W" => RequestKind::Write,
            _ => return Err(format!("`{what}` is neither R nor W")),
        };
        let request = TraceRequest {
            address: whole(offset, "an offset in bytes")?,
            bytes: bytes(length)?,
            kind,
            ticks: Some(whole(when, "a time in microseconds")?),
        };
        let (name, bytes) = (volume, request.bytes.into());
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
    let what = if request.is_write() { 'W' } else { 'R' };
    let (when, TraceRequest { address, bytes, .. }) = (request.ticks.unwrap_or(0), request);
    let _ = writeln!(to, "0,{what},{address},{bytes},{when}");
}
