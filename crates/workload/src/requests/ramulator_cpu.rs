//! `ramulator-cpu`: instructions of a core that do not touch memory, then the address that one reads, and
//! what is written back for it: the processor traces of Ramulator 1 and 2. There are no times.
//!
//! Ramulator 1 has them filtered, by caches, as above, and unfiltered, where `R` or `W` stands behind the
//! only address. Addresses are decimal unless `0x` stands before them.

use super::format::{
    Instruction, OfInstructions, OfProgram, Program, ReadInstructions, Several, WriteInstructions,
};
use super::told::bytes_in_line;
use super::words::{address, whole};
use super::{ChoiceError, Choices, Format, Out, Parse, Read, Script, Told, TraceRequest};
use std::collections::VecDeque;
use std::io::Write;

/// The format.
pub const FORMAT: Format = Format {
    name: "ramulator-cpu",
    summary: "Processor trace of Ramulator: instructions between, address read, and written back; \
              requests come as fast as they are taken",
    grammar: "INSTRUCTIONS ADDRESS [WRITTEN|R|W]",
    example: "3 20734016",
    source: "CMU-SAFARI/ramulator:src/Processor.cpp, get_filtered_request and get_unfiltered_request; \
             CMU-SAFARI/ramulator2@2b9b3ae:src/frontend/impl/processor/simpleO3/trace.cpp",
    parse: Parse::Script(script),
    write: Some(write),
    write_instructions: Some(WriteInstructions {
        write: write_instructions,
        most_at_once: MOST_INSTRUCTIONS,
    }),
    program: Some(OfProgram { new: || Box::new(Accesses), several: Several::Processes }),
    instructions: Some(OfInstructions::counted(|| Box::new(Accesses))),
    ..Format::PLAIN
};

/// Instructions of a line at most: beyond lie slips.
const MOST_INSTRUCTIONS: u64 = 1 << 30;

/// What a line says: instructions before the access, the address, whether it is written, and an address that
/// is written back.
fn line(line: &str) -> Result<(u32, u64, bool, Option<u64>), String> {
    let mut words = line.split_ascii_whitespace();
    let mut word = |what: &str| words.next().ok_or_else(|| format!("it has no {what}"));
    let instructions = whole(word("instructions")?, "a number of instructions")?;
    if instructions > MOST_INSTRUCTIONS {
        return Err(format!("{instructions} instructions are more than 2^30; look at its columns"));
    }
    let place = address(word("address")?)?;
    let (write, back) = match words.next() {
        None | Some("R") => (false, None),
        Some("W") => (true, None),
        Some(back) => (false, Some(address(back)?)),
    };
    match words.count() {
        0 => Ok((instructions as u32, place, write, back)),
        more => Err(format!("it has {} words, not 2 or 3", more + 3)),
    }
}

fn script(_: &Choices) -> Result<Box<dyn Script>, ChoiceError> {
    Ok(Box::new(Lines))
}

struct Lines;

impl Script for Lines {
    fn read(&mut self, text: &str, out: &mut Out) -> Result<Read, String> {
        let (_, place, write, back) = line(text)?;
        out.push_back(TraceRequest::line(place, write, None));
        out.extend(back.map(|back| TraceRequest::line(back, true, None)));
        Ok(Read::Goes)
    }

    fn fork(&self) -> Box<dyn Script> {
        Box::new(Lines)
    }
}

/// A trace on its way to a processor.
struct Accesses;

impl Program for Accesses {
    /// What reads is an instruction too; what is written back is none.
    fn read(&mut self, text: &[u8], told: &mut Told) -> Result<(), String> {
        let text = std::str::from_utf8(text).map_err(|_| "the line is not text")?;
        let (instructions, place, write, back) = line(text)?;
        told.instructions(instructions + 1);
        told.access(write, place, bytes_in_line(place), 0);
        if let Some(back) = back {
            told.access(true, back, bytes_in_line(back), 0);
        }
        Ok(())
    }

    fn fork(&self) -> Box<dyn Program> {
        Box::new(Accesses)
    }
}

impl ReadInstructions for Accesses {
    fn read(&mut self, text: &[u8], out: &mut VecDeque<Instruction>) -> Result<(), String> {
        let text = std::str::from_utf8(text).map_err(|_| "the line is not text")?;
        let (before, place, write, back) = line(text)?;
        let mut accesses = vec![TraceRequest::line(place, write, None)];
        accesses.extend(back.map(|back| TraceRequest::line(back, true, None)));
        let before = before.into();
        out.push_back(Instruction { before, counts: true, accesses, ..Instruction::default() });
        Ok(())
    }
}

fn write(request: &TraceRequest, to: &mut Vec<u8>) {
    write_instructions(1, Some(request), to);
}

/// A line is an instruction, and tells how many came before it. None are told without an access.
fn write_instructions(count: u64, request: Option<&TraceRequest>, to: &mut Vec<u8>) -> u64 {
    let Some(request) = request else { return 0 };
    let what = if request.is_write() { " W" } else { "" };
    let _ = writeln!(to, "{} {:#x}{what}", count.saturating_sub(1), request.address);
    count.max(1)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read_all, said};

    #[test]
    fn what_is_written_back_comes_behind_what_is_read() {
        let read = read_all("ramulator-cpu", "3 64\n0 0x80 4096\n1 192 W\n2 256 R\n", &[]);
        let told: Vec<_> = read.iter().map(|one| (one.is_write(), one.address)).collect();
        let all = [(false, 64), (false, 128), (true, 4096), (true, 192), (false, 256)];
        assert_eq!(told, all);
        for (wrong, why) in [
            ("3", "no address"),
            ("0x3 64", "not a number of instructions"),
            ("3 64 X", "not an address"),
            ("3 64 128 R", "4 words, not 2 or 3"),
            ("1073741825 64", "more than 2^30"),
        ] {
            let said = said("ramulator-cpu", wrong);
            assert!(said.contains(why), "{wrong}: {said}");
        }
    }
}
