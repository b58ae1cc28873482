//! `systor17`: the traces of a virtual desktop infrastructure of SYSTOR 2017: seconds since 1970,
//! how long it took (left out), `R` or `W`, the volume, offset and size in bytes.
//!
//! Lines without a type are neither reads nor writes, and are left out. The source says that times are
//! exact to the microsecond only.

use super::words::{bytes, cells, seconds, whole};
use super::{
    ChoiceError, Choices, Extent, Format, OF_VOLUMES, Out, Parse, Read, RequestKind, Script, Times,
    TraceRequest, Volume,
};
use std::io::Write;

/// The format.
pub const FORMAT: Format = Format {
    name: "systor17",
    summary: "Block trace of SYSTOR '17 (SNIA 4928): CSV, in bytes and seconds",
    grammar: "TIMESTAMP,RESPONSE,R|W|,LUN,OFFSET,SIZE",
    example: "1456095145.133076000,0.000806000,R,0,899056122368,131072",
    heading: "Timestamp,Response,IOType,LUN,Offset,Size",
    times: Times::Ps(1_000),
    epoch: true,
    extent: Extent::Bytes,
    options: OF_VOLUMES,
    source: "README of the traces at SNIA IOTTA; Lee et al., SYSTOR 2017",
    parse: Parse::Script(script),
    write: Some(write),
    ..Format::PLAIN
};

fn script(choices: &Choices) -> Result<Box<dyn Script>, ChoiceError> {
    Ok(Box::new(Systor(Volume::of(choices)?)))
}

#[derive(Clone)]
struct Systor(Volume);

impl Script for Systor {
    fn read(&mut self, line: &str, out: &mut Out) -> Result<Read, String> {
        let [when, _, what, volume, offset, size] = cells(line)?;
        let kind = match what {
            "" => return Ok(Read::Goes),
            "R" => RequestKind::Read,
            "W" => RequestKind::Write,
            _ => return Err(format!("`{what}` is neither R nor W")),
        };
        let address = whole(offset, "an offset in bytes")?;
        let request =
            TraceRequest { address, bytes: bytes(size)?, kind, ticks: Some(seconds(when)?) };
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
    let ns = request.ticks.unwrap_or(0);
    let (seconds, fraction) = (ns / 1_000_000_000, ns % 1_000_000_000);
    let what = if request.is_write() { 'W' } else { 'R' };
    let TraceRequest { address, bytes, .. } = request;
    let _ = writeln!(to, "{seconds}.{fraction:09},0.000000000,{what},0,{address},{bytes}");
}
