//! `lackey`: what Valgrind's tool of that name prints with `--trace-mem=yes`: a letter, a hexadecimal
//! address and a size in bytes. There are no times.
//!
//! `L` is a load and `S` a store; `M` is both, one after the other. Instructions (`I`) and what
//! Valgrind says of itself (`==`) are left out.

use super::words::{bytes, hexadecimal};
use super::{
    ChoiceError, Choices, Extent, Format, Marks, Out, Parse, Read, RequestKind, Script, Times,
    TraceRequest,
};
use std::io::Write;

/// The format.
pub const FORMAT: Format = Format {
    name: "lackey",
    summary: "Accesses of a program, by Valgrind's lackey --trace-mem=yes; requests come as fast as \
              they are taken",
    grammar: "L|S|M|I ADDRESS,SIZE",
    example: "L be801950,4",
    heading: "",
    opening: "",
    times: Times::Absent,
    epoch: false,
    extent: Extent::Bytes,
    marks: Marks { flush: false, trim: false },
    only_reads: false,
    nought_is_none: false,
    left_out: None,
    options: &[],
    source: "Valgrind manual, Lackey: memory tracing; lackey/lk_main.c",
    parse: Parse::Script(script),
    write: Some(write),
};

fn script(_: &Choices) -> Result<Box<dyn Script>, ChoiceError> {
    Ok(Box::new(Lackey))
}

struct Lackey;

impl Script for Lackey {
    fn read(&mut self, line: &str, out: &mut Out) -> Result<Read, String> {
        if line.starts_with("==") {
            return Ok(Read::Goes);
        }
        let (what, place) = line.split_once(' ').ok_or("it has 1 word, not 2")?;
        let kinds: &[RequestKind] = match what {
            "I" => &[],
            "L" => &[RequestKind::Read],
            "S" => &[RequestKind::Write],
            "M" => &[RequestKind::Read, RequestKind::Write],
            _ => return Err(format!("`{what}` is none of L, S, M and I")),
        };
        let (address, size) =
            place.trim_ascii_start().split_once(',').ok_or("it has no ADDRESS,SIZE")?;
        let (address, bytes) = (hexadecimal(address)?, bytes(size)?);
        for kind in kinds {
            out.push_back(TraceRequest { address, bytes, kind: *kind, ticks: None });
        }
        Ok(Read::Goes)
    }

    fn fork(&self) -> Box<dyn Script> {
        Box::new(Lackey)
    }
}

fn write(request: &TraceRequest, to: &mut Vec<u8>) {
    let what = if request.is_write() { 'S' } else { 'L' };
    let _ = writeln!(to, " {what} {:08x},{}", request.address, request.bytes);
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read_all, said};

    #[test]
    fn what_modifies_loads_and_stores() {
        let text = "==7== Lackey\nI  0023C790,2\n S BE80199C,4\n M 0025747C,1\n L BE801950,8\n";
        let read = read_all("lackey", text, &[]);
        let told: Vec<_> =
            read.iter().map(|one| (one.is_write(), one.address, one.bytes)).collect();
        let (s, m, l) = (0xbe80_199c, 0x25_747c, 0xbe80_1950);
        assert_eq!(told, [(true, s, 4), (false, m, 1), (true, m, 1), (false, l, 8)]);
        assert!(said("lackey", " X 10,4\n").contains("none of L, S, M and I"));
        assert!(said("lackey", " L 10\n").contains("no ADDRESS,SIZE"));
    }
}
