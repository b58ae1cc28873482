//! `lackey`: what Valgrind's tool of that name prints with `--trace-mem=yes`: a letter, a hexadecimal
//! address and a size in bytes. There are no times.
//!
//! `L` is a load and `S` a store; `M` is both, one after the other. What Valgrind says of itself (`==`)
//! is left out. Instructions (`I`) are counted on a machine with a processor, up to the access that
//! follows, and left out on a device alone; where a trace has none, each line counts as one.

use super::format::{
    Instruction, OfInstructions, OfProgram, Program, ReadInstructions, Several, WriteInstructions,
};
use super::words::{bytes, hexadecimal};
use super::{
    ChoiceError, Choices, Converted, Extent, Format, Out, Parse, Read, RequestKind, Script, Told,
    TraceRequest,
};
use std::collections::VecDeque;
use std::io::Write;

/// The format.
pub const FORMAT: Format = Format {
    name: "lackey",
    summary: "Accesses of a program, by Valgrind's lackey --trace-mem=yes; requests come as fast as \
              they are taken",
    grammar: "L|S|M|I ADDRESS,SIZE",
    example: "L be801950,4",
    extent: Extent::Bytes,
    source: "Valgrind manual, Lackey: memory tracing; lackey/lk_main.c",
    parse: Parse::Script(script),
    write: Some(write),
    write_instructions: Some(WriteInstructions {
        write: write_instructions,
        most_at_once: 1 << 12,
    }),
    program: Some(OfProgram { new: || Box::new(Accesses::default()), several: Several::Processes }),
    instructions: Some(OfInstructions {
        read: || Box::new(Lines::default()),
        write: Some(write_instruction),
    }),
    ..Format::PLAIN
};

fn script(_: &Choices) -> Result<Box<dyn Script>, ChoiceError> {
    Ok(Box::new(Lackey))
}

struct Lackey;

impl Script for Lackey {
    fn read(&mut self, line: &str, out: &mut Out) -> Result<Read, String> {
        let Some((kinds, address, bytes)) = accesses(line)? else { return Ok(Read::Goes) };
        for kind in kinds {
            out.push_back(TraceRequest { address, bytes, kind: *kind, ticks: None });
        }
        Ok(Read::Goes)
    }

    fn fork(&self) -> Box<dyn Script> {
        Box::new(Lackey)
    }
}

/// What a line does, one after the other, its address and its bytes.
type Line = (&'static [RequestKind], u64, u32);

/// What a line does, where, and with how many bytes; nothing for what Valgrind says of itself. An
/// instruction does nothing.
fn accesses(line: &str) -> Result<Option<Line>, String> {
    if line.starts_with("==") {
        return Ok(None);
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
    Ok(Some((kinds, hexadecimal(address)?, bytes(size)?)))
}

/// A trace on its way to a processor.
#[derive(Clone, Default)]
struct Accesses {
    /// Whether the trace tells instructions: one that does begins with one. Of others each line is one.
    tells: bool,
}

impl Program for Accesses {
    fn read(&mut self, line: &[u8], told: &mut Told) -> Result<(), String> {
        let line = std::str::from_utf8(line).map_err(|_| "the line is not text")?;
        let Some((kinds, address, bytes)) = accesses(line)? else { return Ok(()) };
        let size = u16::try_from(bytes)
            .map_err(|_| format!("an instruction moves no {bytes} bytes, but 65535 at most"))?;
        self.tells |= kinds.is_empty();
        if kinds.is_empty() || !self.tells {
            told.instructions(1);
        }
        for kind in kinds {
            told.access(*kind == RequestKind::Write, address, size, 0);
        }
        Ok(())
    }

    fn fork(&self) -> Box<dyn Program> {
        Box::new(self.clone())
    }
}

/// A trace on its way to another of instructions.
#[derive(Default)]
struct Lines {
    /// Whether the trace tells instructions; of others each line is one.
    tells: bool,
    /// The instruction whose accesses come.
    current: Option<Instruction>,
}

impl ReadInstructions for Lines {
    fn read(&mut self, line: &[u8], out: &mut VecDeque<Instruction>) -> Result<(), String> {
        let line = std::str::from_utf8(line).map_err(|_| "the line is not text")?;
        let Some((kinds, address, bytes)) = accesses(line)? else { return Ok(()) };
        if kinds.is_empty() {
            self.tells = true;
            out.extend(self.current.take());
            let bytes = u16::try_from(bytes)
                .map_err(|_| format!("an instruction has no {bytes} bytes, but 65535 at most"))?;
            let (address, counts) = (Some(address), true);
            self.current = Some(Instruction { address, bytes, counts, ..Instruction::default() });
            return Ok(());
        }
        if !self.tells {
            out.extend(self.current.take());
        }
        let counts = !self.tells;
        let current =
            self.current.get_or_insert_with(|| Instruction { counts, ..Instruction::default() });
        let access = |kind: &RequestKind| TraceRequest { address, bytes, kind: *kind, ticks: None };
        current.accesses.extend(kinds.iter().map(access));
        Ok(())
    }

    fn end(&mut self, out: &mut VecDeque<Instruction>) {
        out.extend(self.current.take());
    }
}

fn write_instruction(one: &Instruction, to: &mut Vec<u8>, done: &mut Converted) {
    if one.counts {
        let bytes = if one.bytes > 0 { one.bytes } else { INSTRUCTION_BYTES };
        let _ = writeln!(to, "I  {:08x},{bytes}", one.address.unwrap_or(INSTRUCTION_ADDRESS));
    }
    for access in &one.accesses {
        write(access, to);
    }
    done.written += one.accesses.len() as u64;
    done.branches_left_out += u64::from(one.branch.is_some());
    done.registers_left_out += u64::from(one.registers.is_some());
}

/// Where instructions are of which that is not known, and the bytes of each.
const INSTRUCTION_ADDRESS: u64 = 0x40_0000;
const INSTRUCTION_BYTES: u16 = 4;

fn write(request: &TraceRequest, to: &mut Vec<u8>) {
    let what = if request.is_write() { 'S' } else { 'L' };
    let _ = writeln!(to, " {what} {:08x},{}", request.address, request.bytes);
}

/// Lackey's lines of instructions, all at one address: which ones they are is not known.
fn write_instructions(count: u64, request: Option<&TraceRequest>, to: &mut Vec<u8>) -> u64 {
    for _ in 0..count {
        to.extend_from_slice(b"I  00400000,4\n");
    }
    request.inspect(|request| write(request, to));
    count
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
