//! `champsim`: the instructions of a program, in records of 64 bytes, little-endian: address, whether
//! it is a branch and was taken, registers (2 written, 4 read), two addresses written and four read; 0
//! for none. There are no times.
//!
//! Each instruction gives a read for each address that it reads, then a write for each that it writes.
//! The trace does not say how many bytes: on a device alone the line that holds the address is meant, and
//! on a machine with a processor 8 bytes within a line of 64.
//!
//! There each record is an instruction, and an access depends on the load before it where one of the
//! registers that its instruction reads has been made of that load, by any number of instructions. That is
//! an upper bound: the trace does not tell registers of an address from those of data.

use super::format::{
    Branch, Instruction, OfInstructions, OfProgram, Program, ReadInstructions, Several,
    WriteInstructions,
};
use super::told::bytes_in_line;
use super::{Converted, Format, Out, Parse, Told, TraceRequest};
use std::collections::VecDeque;

/// The format.
pub const FORMAT: Format = Format {
    name: "champsim",
    summary: "Accesses of a program, from an instruction trace of ChampSim (records of 64 bytes); \
              requests come as fast as they are taken",
    grammar: "64 bytes: u64 instruction, u8 branch, u8 taken, u8 registers written[2] and read[4], \
              u64 addresses written[2] and read[4]",
    nought_is_none: true,
    source: "ChampSim/ChampSim:inc/trace_instruction.h, input_instr",
    parse: Parse::Records(RECORD_BYTES, parse),
    write: Some(write),
    write_instructions: Some(WriteInstructions {
        write: write_instructions,
        most_at_once: 1 << 10,
    }),
    program: Some(OfProgram {
        new: || Box::new(Instructions::default()),
        several: Several::Processes,
    }),
    instructions: Some(OfInstructions {
        read: || Box::new(Records),
        write: Some(write_instruction),
    }),
    ..Format::PLAIN
};

const RECORD_BYTES: usize = 64;
const FIRST_WRITTEN: usize = 16;
const FIRST_READ: usize = 32;

#[inline]
fn word(record: &[u8], at: usize) -> u64 {
    record[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Refuses what is no record of this kind.
fn check(record: &[u8]) -> Result<(), String> {
    let [branch, taken] = [record[8], record[9]];
    if branch > 1 || taken > 1 {
        return Err(format!("it says of a branch {branch} and {taken}, neither 0 nor 1"));
    }
    Ok(())
}

fn parse(record: &[u8], out: &mut Out) -> Result<(), String> {
    check(record)?;
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

/// Registers that addresses and data do not flow through: none, and by ChampSim's numbers the stack
/// pointer, flags and the instruction pointer (`inc/instruction.h`).
const NO_DATA: [u8; 4] = [0, 6, 25, 26];

/// A trace on its way to a processor.
#[derive(Clone)]
struct Instructions {
    /// Of which load, by its number, each register has been made last; 0 for none.
    made_of: [u64; 256],
    loads: u64,
}

impl Default for Instructions {
    fn default() -> Self {
        Instructions { made_of: [0; 256], loads: 0 }
    }
}

impl Program for Instructions {
    fn read(&mut self, record: &[u8], told: &mut Told) -> Result<(), String> {
        check(record)?;
        told.instructions(1);
        let flows = |register: &&u8| !NO_DATA.contains(register);
        let (written, read) = (&record[10..12], &record[12..16]);
        let read = read.iter().filter(flows).map(|register| self.made_of[usize::from(*register)]);
        let depends_on = read.max().unwrap_or(0);
        let back_to = |load: u64, loads: u64| if load == 0 { 0 } else { loads - load + 1 };
        let before = self.loads;
        for address in (0..4).map(|number| word(record, FIRST_READ + 8 * number)) {
            if address != 0 {
                // Loads of one instruction do not wait for each other.
                let loads_back = back_to(depends_on, self.loads);
                told.access(false, address, bytes_in_line(address), loads_back);
                self.loads += 1;
            }
        }
        let made_of = if self.loads > before { self.loads } else { depends_on };
        for address in (0..2).map(|number| word(record, FIRST_WRITTEN + 8 * number)) {
            if address != 0 {
                told.access(true, address, bytes_in_line(address), back_to(made_of, self.loads));
            }
        }
        for register in written.iter().filter(flows) {
            self.made_of[usize::from(*register)] = made_of;
        }
        Ok(())
    }

    fn fork(&self) -> Box<dyn Program> {
        Box::new(self.clone())
    }
}

/// ChampSim's numbers of the registers by which it tells branches apart: stack pointer, flags, instruction pointer
/// (`inc/instruction.h`), and one that stands for any other.
const STACK: u8 = 6;
const FLAGS: u8 = 25;
const POINTER: u8 = 26;
const OTHER: u8 = 1;

/// Registers, written and read, by which ChampSim knows a branch (`inc/instruction.h`, the constructor of
/// `ooo_model_instr`).
fn registers_of(branch: Branch) -> [u8; 6] {
    match branch {
        Branch::Jump | Branch::Other => [POINTER, 0, POINTER, 0, 0, 0],
        Branch::IndirectJump => [POINTER, 0, OTHER, 0, 0, 0],
        Branch::Conditional => [POINTER, 0, POINTER, FLAGS, 0, 0],
        Branch::Call => [POINTER, STACK, POINTER, STACK, 0, 0],
        Branch::IndirectCall => [POINTER, STACK, POINTER, STACK, OTHER, 0],
        Branch::Return => [POINTER, STACK, STACK, 0, 0, 0],
    }
}

/// Which branch ChampSim takes one for that has these registers.
fn branch_of(registers: &[u8; 6]) -> Branch {
    let (written, read) = registers.split_at(2);
    let (writes_stack, writes_pointer) = (written.contains(&STACK), written.contains(&POINTER));
    let (reads_stack, reads_flags) = (read.contains(&STACK), read.contains(&FLAGS));
    let reads_pointer = read.contains(&POINTER);
    let reads_other = read.iter().any(|register| !NO_DATA.contains(register));
    match (reads_stack, reads_flags, reads_pointer, reads_other) {
        _ if !writes_pointer => Branch::Other,
        (true, false, true, false) if writes_stack => Branch::Call,
        (true, false, true, true) if writes_stack => Branch::IndirectCall,
        (true, false, false, _) if writes_stack => Branch::Return,
        (false, false, _, false) => Branch::Jump,
        (false, false, false, true) => Branch::IndirectJump,
        (false, true, true, _) | (false, false, true, true) => Branch::Conditional,
        _ => Branch::Other,
    }
}

/// A trace on its way to another of instructions.
struct Records;

impl ReadInstructions for Records {
    fn read(&mut self, record: &[u8], out: &mut VecDeque<Instruction>) -> Result<(), String> {
        check(record)?;
        let registers = *record[10..].first_chunk().ok_or("it has no registers")?;
        let branch = (record[8] > 0).then(|| branch_of(&registers));
        let mut requests = Out::new();
        parse(record, &mut requests)?;
        out.push_back(Instruction {
            counts: true,
            address: Some(word(record, 0)).filter(|address| *address > 0),
            branch,
            taken: branch.map(|_| record[9] > 0),
            registers: (registers != [0; 6]).then_some(registers),
            accesses: requests.into(),
            ..Instruction::default()
        });
        Ok(())
    }
}

/// A record, and further ones at the same address for what it loads and stores more than a record tells.
fn write_instruction(one: &Instruction, to: &mut Vec<u8>, done: &mut Converted) {
    let (stores, loads): (Vec<u64>, Vec<u64>) = {
        let there = |access: &&TraceRequest| access.address != 0;
        done.nowhere += one.accesses.iter().filter(|access| !there(access)).count() as u64;
        let of = |write: bool| {
            let those = one.accesses.iter().filter(there).filter(move |it| it.is_write() == write);
            those.map(|access| access.address).collect()
        };
        (of(true), of(false))
    };
    done.written += (stores.len() + loads.len()) as u64;
    let records = stores.len().div_ceil(2).max(loads.len().div_ceil(4));
    let counted = records.max(usize::from(one.counts));
    done.instructions_added += (counted - usize::from(one.counts)) as u64;
    for number in 0..counted {
        let mut record = [0u8; RECORD_BYTES];
        record[..8].copy_from_slice(&one.address.unwrap_or(0).to_le_bytes());
        if number == 0 {
            let of_branch = one.branch.map(registers_of);
            record[8] = u8::from(one.branch.is_some());
            let always = one.branch.is_some_and(Branch::is_always_taken);
            record[9] = u8::from(one.taken.unwrap_or(always));
            record[10..16].copy_from_slice(&one.registers.or(of_branch).unwrap_or([0; 6]));
        }
        for (first, most, all) in [(FIRST_WRITTEN, 2, &stores), (FIRST_READ, 4, &loads)] {
            let some = all.iter().skip(most * number).take(most);
            for (place, address) in record[first..].chunks_exact_mut(8).zip(some) {
                place.copy_from_slice(&address.to_le_bytes());
            }
        }
        to.extend_from_slice(&record);
    }
}

fn write(request: &TraceRequest, to: &mut Vec<u8>) {
    let mut record = [0u8; RECORD_BYTES];
    let at = if request.is_write() { FIRST_WRITTEN } else { FIRST_READ };
    record[at..at + 8].copy_from_slice(&request.address.to_le_bytes());
    to.extend_from_slice(&record);
}

/// Each record is an instruction, that of a request too.
fn write_instructions(count: u64, request: Option<&TraceRequest>, to: &mut Vec<u8>) -> u64 {
    let alone = count.saturating_sub(u64::from(request.is_some()));
    to.resize(to.len() + RECORD_BYTES * alone as usize, 0);
    request.inspect(|request| write(request, to));
    alone + u64::from(request.is_some())
}
