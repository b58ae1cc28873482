//! Through which registers of an x86-64 instruction values flow: which form its addresses, and what it
//! makes of memory and of registers.
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: sections 2.1 (prefixes, ModRM
//! and SIB bytes), 2.2.1 (REX), 2.3.5 (VEX), 2.3.12 (VSIB) and 2.7.1 (EVEX), appendix A (opcode maps), and the
//! pages of the instructions.
//!
//! Values are meant, not what a processor waits for: `xor` of a register with itself gives nothing of it.
//! A register that is written in part keeps what it had. Where an opcode is not known here, what its ModRM
//! byte names is taken to be read, and the register of its `reg` field to be made of all that.
//! Branches pass nothing on: processors run ahead of them.

/// A set of registers: of general ones that of number *n* has bit *n*, of vector ones bit 16 + *n*.
pub type Set = u64;

const RAX: Set = 1;
const RCX: Set = 1 << 1;
const RDX: Set = 1 << 2;
const RBX: Set = 1 << 3;
/// The stack pointer.
pub const RSP: Set = 1 << 4;
const RBP: Set = 1 << 5;
const RSI: Set = 1 << 6;
const RDI: Set = 1 << 7;
const R11: Set = 1 << 11;
/// The first of 32 vector registers.
const VECTOR_SHIFT: u32 = 16;
const VECTORS: Set = 0xffff_ffff << VECTOR_SHIFT;
/// The status flags.
pub const FLAGS: Set = 1 << 48;
/// The registers of x87 and MMX, which are the same, as one.
const X87: Set = 1 << 49;
/// The first of eight mask registers.
const MASK_SHIFT: u32 = 50;

/// A value that an instruction makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Where it goes.
    pub to: Set,
    /// Of which registers it is made.
    pub from: Set,
    /// Whether it is made of what the instruction loads.
    pub of_load: bool,
}

/// What an instruction does with registers. The stack pointer is in none of these sets: what pushes and pops
/// make of it depends on no load, and other uses are rare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Those that form its address, or both its addresses.
    pub address: Set,
    /// It loads.
    pub loads: bool,
    /// It stores.
    pub stores: bool,
    /// How often it does so is not told by its bytes, or not once: a repeated string instruction, which may repeat no time,
    /// one of masked elements, CMPS, or one that moves much of a processor's state.
    pub varies: bool,
    /// General registers that it changes into what is made of nothing but themselves.
    pub steps: Set,
    /// Values that it makes, of what registers had before it; `to` of none overlap.
    pub flows: [Flow; 3],
    count: usize,
}

impl Registers {
    /// Those of the instruction that `bytes` are.
    pub fn of(bytes: &[u8]) -> Registers {
        let mut decoder = Decoder::new(bytes);
        decoder.decode();
        let mut found = decoder.found;
        found.address &= !RSP;
        for flow in &mut found.flows {
            flow.to &= !RSP;
            flow.from &= !RSP;
        }
        found
    }

    /// All registers that it writes.
    pub fn written(&self) -> Set {
        self.flows.iter().fold(self.steps, |all, flow| all | flow.to)
    }

    fn flow(&mut self, to: Set, value: Value) {
        if to != 0 && self.count < self.flows.len() {
            self.flows[self.count] = Flow { to, from: value.from, of_load: value.of_load };
            self.count += 1;
        }
    }
}

/// What an operand has, or several together.
#[derive(Clone, Copy, Default)]
struct Value {
    from: Set,
    of_load: bool,
}

const NOTHING: Value = Value { from: 0, of_load: false };

impl Value {
    fn of(from: Set) -> Value {
        Value { from, of_load: false }
    }

    fn and(self, from: Set) -> Value {
        Value { from: self.from | from, ..self }
    }
}

/// How wide a general operand is, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    Byte,
    /// 16 bits with the prefix 66, otherwise 32 or 64.
    Full,
}
use Width::{Byte, Full};

/// Which table an opcode is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Map {
    One,
    Two,
    Of38,
    Of3a,
    Unknown,
}

/// An operand in memory, as the instruction's bytes tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The base, or none.
    pub base: Set,
    /// The index, or none, and its power of two.
    pub index: Set,
    pub scale: u8,
    pub displacement: i32,
    /// The displacement counts from the next instruction.
    pub is_relative: bool,
    /// The instruction accesses this operand, in any case, and before any other memory.
    pub is_first: bool,
}

/// The operand of the instruction that `bytes` are; `None` where there is none, or where further things than base,
/// index and displacement form its address.
pub fn operand(bytes: &[u8]) -> Option<Operand> {
    let decoder = Decoder::new(bytes);
    let has_modrm = match (decoder.map, decoder.opcode) {
        (Map::One, 0x00..=0x3f) => decoder.opcode & 7 < 4,
        (Map::One, opcode) => matches!(
            opcode,
            0x63 | 0x69 | 0x6b | 0x80..=0x8f | 0xc0 | 0xc1 | 0xc6 | 0xc7 | 0xd0..=0xd3 | 0xf6 | 0xf7 | 0xfe | 0xff
        ),
        (Map::Two, opcode) => matches!(
            opcode,
            0x10..=0x17 | 0x28..=0x2b | 0x40..=0x4f | 0x51..=0x70 | 0x74..=0x76 | 0x7e | 0x7f | 0x90..=0x9f
                | 0xae | 0xaf | 0xb0 | 0xb1 | 0xb6 | 0xb7 | 0xbe..=0xc1 | 0xc3 | 0xd1..=0xfe
        ),
        _ => false,
    };
    let further = bytes.iter().take_while(|byte| {
        matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3)
    });
    let plain = !further.into_iter().any(|prefix| matches!(prefix, 0x64 | 0x65 | 0x67));
    if !has_modrm || !decoder.is_memory() || !plain || decoder.evex {
        return None;
    }
    let (mode, rm) = (decoder.modrm() >> 6, decoder.modrm() & 7);
    let sib = if rm == 4 { Some(*decoder.rest.get(1)?) } else { None };
    let is_relative = mode == 0 && rm == 5;
    let index = sib.map_or(0, |sib| match sib >> 3 & 7 | decoder.x {
        4 => 0,
        index => 1 << index,
    });
    let lacks_base = mode == 0 && sib.is_some_and(|sib| sib & 7 == 5);
    let base = match sib {
        _ if is_relative || lacks_base => 0,
        Some(sib) => 1 << (sib & 7 | decoder.b),
        None => 1 << (rm | decoder.b),
    };
    let rest = decoder.rest.get(1 + usize::from(sib.is_some())..)?;
    let displacement = match mode {
        1 => i32::from(*rest.first()? as i8),
        0 if !is_relative && !lacks_base => 0,
        _ => i32::from_le_bytes(*rest.first_chunk()?),
    };
    let flushes = decoder.map == Map::Two && decoder.opcode == 0xae;
    // LEA, the masked store, and what takes its operand from the stack.
    let other = match decoder.map {
        Map::One => matches!(decoder.opcode, 0x8d | 0x8f),
        _ => decoder.opcode == 0xf7,
    };
    Some(Operand {
        base,
        index,
        scale: sib.map_or(0, |sib| sib >> 6),
        displacement,
        is_relative,
        is_first: !flushes && !other,
    })
}

struct Decoder<'a> {
    /// All of it.
    bytes: &'a [u8],
    /// From the ModRM byte on, where there is one.
    rest: &'a [u8],
    map: Map,
    opcode: u8,
    /// Prefix 66 (1), F3 (2), F2 (3) or none, as VEX numbers them.
    prefix: u8,
    /// Whether prefix 66 is there beside another.
    narrow: bool,
    repeated: bool,
    has_rex: bool,
    wide: bool,
    /// Further bits of the numbers of registers: of `reg` with bit 4 for vectors, of an index, of `rm` or a base.
    r: u8,
    r_high: u8,
    x: u8,
    b: u8,
    /// With VEX or EVEX: the further register.
    v: Option<u8>,
    v_high: u8,
    evex: bool,
    /// The mask register of EVEX.
    mask: u8,
    found: Registers,
}

impl<'a> Decoder<'a> {
    fn new(bytes: &'a [u8]) -> Decoder<'a> {
        let mut decoder = Decoder {
            bytes,
            rest: &[],
            map: Map::One,
            opcode: 0x90,
            prefix: 0,
            narrow: false,
            repeated: false,
            has_rex: false,
            wide: false,
            r: 0,
            r_high: 0,
            x: 0,
            b: 0,
            v: None,
            v_high: 0,
            evex: false,
            mask: 0,
            found: Registers::default(),
        };
        decoder.begin();
        decoder
    }

    /// Prefixes, and the opcode with its map.
    fn begin(&mut self) {
        let mut rest = self.bytes;
        while let Some((byte, after)) = rest.split_first() {
            match byte {
                0x66 => self.narrow = true,
                0xf3 => (self.prefix, self.repeated) = (2, true),
                0xf2 => (self.prefix, self.repeated) = (3, true),
                0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x67 | 0xf0 => {}
                _ => break,
            }
            rest = after;
        }
        if self.narrow && self.prefix == 0 {
            self.prefix = 1;
        }
        if let [rex @ 0x40..=0x4f, after @ ..] = rest {
            self.has_rex = true;
            self.wide = rex & 8 != 0;
            (self.r, self.x, self.b) = (rex << 1 & 8, rex << 2 & 8, rex << 3 & 8);
            rest = after;
        }
        let of_number = |number| match number {
            1 => Map::Two,
            2 => Map::Of38,
            3 => Map::Of3a,
            _ => Map::Unknown,
        };
        (self.map, self.opcode, self.rest) = match *rest {
            [0xc5, one, opcode, ref after @ ..] => {
                self.r = !one >> 4 & 8;
                self.vex(one);
                (Map::Two, opcode, after)
            }
            [0xc4, one, two, opcode, ref after @ ..] => {
                (self.r, self.x, self.b) = (!one >> 4 & 8, !one >> 3 & 8, !one >> 2 & 8);
                self.wide = two & 0x80 != 0;
                self.vex(two);
                (of_number(one & 0x1f), opcode, after)
            }
            [0x62, one, two, three, opcode, ref after @ ..] => {
                (self.r, self.x, self.b) = (!one >> 4 & 8, !one >> 3 & 8, !one >> 2 & 8);
                self.r_high = !one & 0x10;
                self.wide = two & 0x80 != 0;
                self.vex(two);
                self.evex = true;
                self.v_high = !three << 1 & 0x10;
                self.mask = three & 7;
                (of_number(one & 7), opcode, after)
            }
            [0x0f, 0x38, opcode, ref after @ ..] => (Map::Of38, opcode, after),
            [0x0f, 0x3a, opcode, ref after @ ..] => (Map::Of3a, opcode, after),
            [0x0f, opcode, ref after @ ..] => (Map::Two, opcode, after),
            [opcode, ref after @ ..] => (Map::One, opcode, after),
            [] => (Map::Unknown, 0, rest),
        };
    }

    /// What VEX's last byte and EVEX's second have in the same places.
    fn vex(&mut self, byte: u8) {
        self.v = Some(!byte >> 3 & 15);
        self.prefix = byte & 3;
    }

    fn modrm(&self) -> u8 {
        self.rest.first().copied().unwrap_or(0xc0)
    }

    fn is_memory(&self) -> bool {
        self.modrm() >> 6 != 3
    }

    /// The `reg` field without its further bit: in some opcodes a part of these.
    fn digit(&self) -> u8 {
        self.modrm() >> 3 & 7
    }

    /// The registers of the address that ModRM tells.
    fn operand(&self) -> Set {
        let modrm = self.modrm();
        let (mode, rm) = (modrm >> 6, modrm & 7);
        match rm {
            // The instruction pointer, and a displacement.
            5 if mode == 0 => 0,
            4 => {
                let sib = self.rest.get(1).copied().unwrap_or(0x25);
                let (index, base) = (sib >> 3 & 7 | self.x, sib & 7);
                let of_base = if base == 5 && mode == 0 { 0 } else { 1 << (base | self.b) };
                let of_index = match index {
                    _ if self.has_vector_index() => self.vector(index | self.v_high),
                    4 => 0,
                    _ => 1 << index,
                };
                of_base | of_index
            }
            _ => 1 << (rm | self.b),
        }
    }

    /// Gathers and scatters.
    fn has_vector_index(&self) -> bool {
        let of_vex = matches!(self.opcode, 0x90..=0x93);
        self.map == Map::Of38
            && self.v.is_some()
            && (of_vex || self.evex && matches!(self.opcode, 0xa0..=0xa3 | 0xc6 | 0xc7))
    }

    fn vector(&self, number: u8) -> Set {
        1 << (VECTOR_SHIFT + u32::from(number))
    }

    /// A general register by its number, of which a byte may be the second of one of the first four.
    fn general(&self, number: u8, width: Width) -> Set {
        let second = width == Byte && !self.has_rex && (4..8).contains(&number);
        1 << if second { number - 4 } else { number }
    }

    fn g(&self, width: Width) -> Set {
        self.general(self.digit() | self.r, width)
    }

    /// The register of `rm`; to be asked where there is no memory.
    fn e(&self, width: Width) -> Set {
        self.general(self.modrm() & 7 | self.b, width)
    }

    /// A register that is the low bits of the opcode.
    fn of_opcode(&self, width: Width) -> Set {
        self.general(self.opcode & 7 | self.b, width)
    }

    fn v_general(&self) -> Set {
        self.v.map_or(0, |number| 1 << number)
    }

    fn load(&mut self) -> Value {
        self.found.loads = true;
        self.found.address |= self.operand();
        Value { from: 0, of_load: true }
    }

    fn store(&mut self) {
        self.found.stores = true;
        self.found.address |= self.operand();
    }

    /// The value of the operand `rm`.
    fn read_e(&mut self, width: Width) -> Value {
        if self.is_memory() { self.load() } else { Value::of(self.e(width)) }
    }

    /// Writes a general register: narrow ones keep the rest.
    fn write(&mut self, to: Set, width: Width, value: Value) {
        let in_part = width == Byte || self.narrow && !self.wide && self.v.is_none();
        let kept = if in_part { to } else { 0 };
        self.found.flow(to, value.and(kept));
    }

    /// Writes the operand `rm`.
    fn write_e(&mut self, width: Width, value: Value) {
        if self.is_memory() {
            self.store();
        } else {
            self.write(self.e(width), width, value);
        }
    }

    fn write_flags(&mut self, value: Value) {
        self.found.flow(FLAGS, value);
    }

    /// An operation of two operands: its number, where the result goes, and both.
    fn arithmetic(&mut self, operation: u8, to_e: bool, width: Width) {
        let (g, same) = (self.g(width), !self.is_memory() && self.g(width) == self.e(width));
        let full = Value::of(if self.is_memory() { g } else { g | self.e(width) });
        let value = if self.is_memory() { self.load().and(g) } else { full };
        self.finish_arithmetic(operation, same, width, value, |decoder, value| {
            if to_e { decoder.write_e(width, value) } else { decoder.write(g, width, value) }
        });
    }

    /// Of ADD, OR, ADC, SBB, AND, SUB, XOR and CMP, by their number.
    fn finish_arithmetic(
        &mut self,
        operation: u8,
        same: bool,
        width: Width,
        value: Value,
        write: impl FnOnce(&mut Self, Value),
    ) {
        // SUB, XOR and CMP of a register with itself; SBB gives the carry alone. Of second bytes it may be another.
        let same = same && (width == Full || self.modrm() >> 3 & 7 == self.modrm() & 7);
        let value = match operation {
            3 if same => Value::of(FLAGS),
            2 | 3 => value.and(FLAGS),
            5..=7 if same => NOTHING,
            _ => value,
        };
        if operation != 7 {
            write(self, value);
        }
        self.write_flags(value);
    }

    fn decode(&mut self) {
        match self.map {
            Map::One => self.one(),
            Map::Two if self.v.is_none() => self.two(),
            Map::Two => self.vector_two(),
            Map::Of38 => self.of_38(),
            Map::Of3a => self.of_3a(),
            Map::Unknown => {}
        }
    }

    /// Opcodes of one byte.
    fn one(&mut self) {
        let opcode = self.opcode;
        let width = if opcode & 1 == 0 { Byte } else { Full };
        match opcode {
            0x00..=0x3f if opcode & 7 < 4 => {
                self.arithmetic(opcode >> 3, opcode & 2 == 0, width);
            }
            0x00..=0x3f if opcode & 7 < 6 => {
                let value = Value::of(RAX);
                self.finish_arithmetic(opcode >> 3, false, width, value, |decoder, value| {
                    decoder.write(RAX, width, value);
                });
            }
            // PUSH, PUSHF and CALL store, and have the stack pointer for their address.
            0x50..=0x57 | 0x68 | 0x6a | 0x9c | 0xe8 => self.found.stores = true,
            0x58..=0x5f => {
                self.found.loads = true;
                self.write(self.of_opcode(Full), Full, Value { from: 0, of_load: true });
            }
            // MOVSXD.
            0x63 => self.move_to_g(Full, Full),
            0x69 | 0x6b => {
                let value = self.read_e(Full);
                self.write(self.g(Full), Full, value);
                self.write_flags(value);
            }
            // INS, OUTS.
            0x6c | 0x6d => self.string(RDI, false, true),
            0x6e | 0x6f => self.string(RSI, true, false),
            0x80 | 0x81 | 0x83 => {
                let width = if opcode == 0x80 { Byte } else { Full };
                let value = self.read_e(width);
                self.finish_arithmetic(self.digit(), false, width, value, |decoder, value| {
                    decoder.write_e(width, value);
                });
            }
            0x84 | 0x85 => {
                let value = self.read_e(width).and(self.g(width));
                self.write_flags(value);
            }
            0x86 | 0x87 => self.exchange(width),
            0x88 | 0x89 => self.write_e(width, Value::of(self.g(width))),
            0x8a | 0x8b => self.move_to_g(width, width),
            // MOV of segment registers.
            0x8c => self.write_e(Full, NOTHING),
            0x8e => _ = self.read_e(Full),
            0x8d => self.write(self.g(Full), Full, Value::of(self.operand())),
            // POP to memory, or a register.
            0x8f if self.digit() == 0 => {
                self.found.loads = true;
                self.write_e(Full, Value { from: 0, of_load: true });
            }
            0x90 if self.b == 0 => {}
            0x90..=0x97 => self.swap(RAX, self.of_opcode(Full), Full),
            // CBW, CWDE, CDQE.
            0x98 => self.found.steps = RAX,
            0x99 => self.write(RDX, Full, Value::of(RAX)),
            0x9d => {
                self.found.loads = true;
                self.write_flags(Value { from: 0, of_load: true });
            }
            0x9e => self.write_flags(Value::of(RAX | FLAGS)),
            0x9f => self.write(RAX, Byte, Value::of(FLAGS)),
            // MOV between the accumulator and an address that the instruction has.
            0xa0 | 0xa1 => {
                self.found.loads = true;
                self.write(RAX, width, Value { from: 0, of_load: true });
            }
            0xa2 | 0xa3 => self.found.stores = true,
            0xa4 | 0xa5 => self.string(RSI | RDI, true, true),
            0xa6 | 0xa7 => {
                self.string(RSI | RDI, true, false);
                self.found.varies = true;
                self.write_flags(Value { from: 0, of_load: true });
            }
            0xa8 | 0xa9 => self.write_flags(Value::of(RAX)),
            0xaa | 0xab => self.string(RDI, false, true),
            0xac | 0xad => {
                self.string(RSI, true, false);
                self.write(RAX, width, Value { from: 0, of_load: true });
            }
            0xae | 0xaf => {
                self.string(RDI, true, false);
                self.write_flags(Value { from: RAX, of_load: true });
            }
            // MOV of a constant to a byte keeps the rest.
            0xb0..=0xb7 => self.found.steps = self.of_opcode(Byte),
            // LOOP.
            0xe0..=0xe2 => self.found.steps = RCX,
            0xb8..=0xbf => self.write(self.of_opcode(Full), Full, NOTHING),
            0xc0 | 0xc1 | 0xd0 | 0xd1 => self.shift(width, 0),
            0xd2 | 0xd3 => self.shift(width, RCX),
            // RET near and far, IRET.
            0xc2 | 0xc3 | 0xca | 0xcb | 0xcf => self.found.loads = true,
            0xc6 | 0xc7 if self.digit() == 0 => self.write_e(width, NOTHING),
            // XBEGIN, XABORT.
            0xc6 | 0xc7 => {}
            0xc8 => {
                self.found.stores = true;
                self.write(RBP, Full, NOTHING);
            }
            0xc9 => {
                self.found.loads = true;
                self.found.address = RBP;
                self.write(RBP, Full, Value { from: 0, of_load: true });
            }
            0xd7 => {
                self.found.loads = true;
                self.found.address = RBX | RAX;
                self.write(RAX, Byte, Value { from: RAX, of_load: true });
            }
            0xd8..=0xdf => self.x87(),
            // IN.
            0xe4 | 0xe5 | 0xec | 0xed => self.write(RAX, width, NOTHING),
            0xf5 => {}
            0xf6 | 0xf7 => self.group_3(width),
            0xf8 | 0xf9 => self.write_flags(NOTHING),
            0xfe | 0xff => match self.digit() {
                0 | 1 => {
                    let value = self.read_e(width);
                    self.write_e(width, value);
                    self.write_flags(value.and(FLAGS));
                }
                // CALL and JMP through an operand, and PUSH.
                digit @ 2..=6 => {
                    _ = self.read_e(Full);
                    self.found.stores = matches!(digit, 2 | 3 | 6);
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn move_to_g(&mut self, from: Width, to: Width) {
        let value = self.read_e(from);
        self.write(self.g(to), to, value);
    }

    /// A string instruction. What it makes of its pointers and its counter depends on these alone.
    fn string(&mut self, address: Set, loads: bool, stores: bool) {
        self.found.address = address;
        self.found.steps = address | if self.repeated { RCX } else { 0 };
        (self.found.loads, self.found.stores) = (loads, stores);
        self.found.varies = self.repeated;
    }

    fn exchange(&mut self, width: Width) {
        if self.is_memory() {
            self.found.stores = true;
            let value = self.load();
            self.write(self.g(width), width, value);
        } else {
            self.swap(self.g(width), self.e(width), width);
        }
    }

    fn swap(&mut self, one: Set, other: Set, width: Width) {
        if one != other {
            self.write(one, width, Value::of(other));
            self.write(other, width, Value::of(one));
        }
    }

    /// Shifts and rotations, of which RCL and RCR rotate the carry, too.
    fn shift(&mut self, width: Width, count: Set) {
        let carry = if matches!(self.digit(), 2 | 3) { FLAGS } else { 0 };
        let value = self.read_e(width).and(count | carry);
        self.write_e(width, value);
        self.write_flags(value.and(FLAGS));
    }

    /// TEST, NOT, NEG, MUL, IMUL, DIV and IDIV.
    fn group_3(&mut self, width: Width) {
        let value = self.read_e(width);
        match self.digit() {
            0 | 1 => self.write_flags(value),
            2 => self.write_e(width, value),
            3 => {
                self.write_e(width, value);
                self.write_flags(value);
            }
            digit => {
                let before = if digit >= 6 && width == Full { RAX | RDX } else { RAX };
                let value = value.and(before);
                self.write(if width == Full { RAX | RDX } else { RAX }, width, value);
                self.write_flags(value);
            }
        }
    }

    /// Floating point of x87.
    fn x87(&mut self) {
        let (opcode, digit) = (self.opcode, self.digit());
        if !self.is_memory() {
            match (opcode, self.modrm()) {
                // FNSTSW to the accumulator; FCMOV; FCOMI and FUCOMI, with pops too.
                (0xdf, 0xe0) => self.write(RAX, Byte, Value::of(X87)),
                (0xda | 0xdb, 0xc0..=0xdf) => self.found.flow(X87, Value::of(X87 | FLAGS)),
                (0xdb | 0xdf, 0xe8..=0xf7) => self.write_flags(Value::of(X87)),
                _ => {}
            }
            return;
        }
        // Its environment and its state, and decimals.
        self.found.varies = matches!((opcode, digit), (0xd9 | 0xdd | 0xdf, 4 | 6));
        let stores = match opcode {
            0xd9 => matches!(digit, 2 | 3 | 6 | 7),
            0xdb => matches!(digit, 1..=3 | 7),
            0xdd => matches!(digit, 1..=3 | 6 | 7),
            0xdf => matches!(digit, 1..=3 | 6 | 7),
            _ => false,
        };
        if stores {
            return self.store();
        }
        let value = self.load();
        // Words that control it are no data.
        if !(opcode == 0xd9 && digit == 5) {
            self.found.flow(X87, value.and(X87));
        }
    }

    /// Opcodes of two bytes.
    fn two(&mut self) {
        let opcode = self.opcode;
        let width = if opcode & 1 == 0 { Byte } else { Full };
        match opcode {
            // SLDT, STR; VERR, VERW.
            0x00 if self.digit() < 2 => self.write_e(Full, NOTHING),
            0x00 => {
                let value = self.read_e(Full);
                self.write_flags(value);
            }
            0x01 => match self.modrm() {
                // XGETBV and RDPKRU, RDTSCP, SMSW.
                0xe0..=0xe7 => self.write(self.e(Full), Full, NOTHING),
                0xd0 | 0xee => self.found.flow(RAX | RDX, NOTHING),
                0xf9 => self.found.flow(RAX | RDX | RCX, NOTHING),
                _ if !self.is_memory() => {}
                _ if matches!(self.digit(), 0 | 1 | 4) => self.store(),
                _ if matches!(self.digit(), 2 | 3 | 6) => _ = self.load(),
                _ => {}
            },
            // LAR, LSL.
            0x02 | 0x03 => {
                let value = self.read_e(Full);
                self.write(self.g(Full), Full, value.and(self.g(Full)));
                self.write_flags(value);
            }
            0x05 => self.found.flow(RAX | RCX | R11, NOTHING),
            // CLTS to UD2, prefetches and other hints, moves of control registers.
            0x04 | 0x06..=0x09 | 0x0b | 0x0d | 0x18..=0x27 => {}
            // RDTSC, RDMSR, RDPMC.
            0x31..=0x33 => self.found.flow(RAX | RDX, NOTHING),
            0x30 | 0x34..=0x37 | 0x77 | 0x80..=0x8f | 0xaa => {}
            // PUSH of a segment register.
            0xa0 | 0xa8 => self.found.stores = true,
            0x40..=0x4f => {
                let value = self.read_e(Full);
                self.write(self.g(Full), Full, value.and(self.g(Full) | FLAGS));
            }
            0x90..=0x9f => self.write_e(Byte, Value::of(FLAGS)),
            // POP of a segment register.
            0xa1 | 0xa9 => self.found.loads = true,
            0xa2 => self.found.flow(RAX | RBX | RCX | RDX, NOTHING),
            // BT, BTS, BTR, BTC: a bit's number may lead to other memory.
            0xa3 | 0xab | 0xb3 | 0xbb => self.bit(self.g(Full), opcode != 0xa3),
            0xba => self.bit(0, self.digit() != 4),
            // SHLD, SHRD.
            0xa4 | 0xa5 | 0xac | 0xad => {
                let count = if opcode & 1 == 1 { RCX } else { 0 };
                let value = self.read_e(Full).and(self.g(Full) | count);
                self.write_e(Full, value);
                self.write_flags(value.and(FLAGS));
            }
            0xae => self.group_15(),
            0xaf => {
                let value = self.read_e(Full).and(self.g(Full));
                self.write(self.g(Full), Full, value);
                self.write_flags(value);
            }
            0xb0 | 0xb1 => {
                let value = self.read_e(width);
                self.write_flags(value.and(RAX));
                let e = if self.is_memory() { 0 } else { self.e(width) };
                if e != RAX {
                    self.write(RAX, width, value.and(RAX));
                }
                self.write_e(width, value.and(self.g(width) | RAX));
            }
            // LSS, LFS, LGS.
            0xb2 | 0xb4 | 0xb5 => self.move_to_g(Full, Full),
            0xb6 | 0xbe => self.move_to_g(Byte, Full),
            0xb7 | 0xbf => self.move_to_g(Full, Full),
            // POPCNT; TZCNT, LZCNT; BSF and BSR, which keep what was there for 0.
            0xb8 | 0xbc | 0xbd => {
                let value = self.read_e(Full);
                let kept = if self.prefix == 2 { 0 } else { self.g(Full) };
                self.write(self.g(Full), Full, value.and(kept));
                self.write_flags(value);
            }
            0xb9 | 0xff => {}
            // XADD.
            0xc0 | 0xc1 => {
                let value = self.read_e(width);
                self.write_flags(value.and(self.g(width)));
                let (g, same) =
                    (self.g(width), !self.is_memory() && self.g(width) == self.e(width));
                if !same {
                    self.write(g, width, value);
                }
                self.write_e(width, value.and(g));
            }
            // MOVNTI.
            0xc3 => self.store(),
            0xc7 => self.group_9(),
            0xc8..=0xcf => {
                let register = self.of_opcode(Full);
                self.write(register, Full, Value::of(register));
            }
            _ => self.vector_two(),
        }
    }

    fn bit(&mut self, number: Set, writes: bool) {
        let value = self.read_e(Full).and(number);
        if self.is_memory() {
            self.found.address |= number;
        }
        if writes {
            self.write_e(Full, value);
        }
        self.write_flags(value.and(FLAGS));
    }

    /// State of floating point and vectors as a whole, fences, flushes, bases of segments.
    fn group_15(&mut self) {
        let digit = self.digit();
        self.found.varies = self.is_memory() && self.prefix == 0 && !matches!(digit, 2 | 3 | 7);
        match (self.is_memory(), self.prefix, digit) {
            (true, 0, 0 | 3 | 4 | 6) => self.store(),
            (true, 0, 1 | 5) => {
                let value = self.load();
                self.found.flow(X87 | VECTORS, value);
            }
            (true, 0, 2) => _ = self.load(),
            (false, 2, 0 | 1) => self.write(self.e(Full), Full, NOTHING),
            _ => {}
        }
    }

    /// CMPXCHG8B and CMPXCHG16B; RDRAND, RDSEED, RDPID.
    fn group_9(&mut self) {
        self.found.varies = self.is_memory() && matches!(self.digit(), 3..=5);
        match (self.is_memory(), self.digit()) {
            (true, 1) => {
                let value = self.load().and(RAX | RDX);
                self.found.stores = true;
                self.found.flow(RAX | RDX, value);
                self.write_flags(value);
            }
            (true, 3) => _ = self.load(),
            (true, 4 | 5 | 7) => self.store(),
            (false, 6 | 7) => {
                self.write(self.e(Full), Full, NOTHING);
                self.write_flags(NOTHING);
            }
            _ => {}
        }
    }

    /// The vector of `reg`, or its register of MMX.
    fn g_vector(&self, mmx: bool) -> Set {
        if mmx { X87 } else { self.vector(self.digit() | self.r | self.r_high) }
    }

    /// The vector of `rm`, or its register of MMX; to be asked where there is no memory.
    fn e_vector(&self, mmx: bool) -> Set {
        let high = if self.evex { self.x << 1 } else { 0 };
        if mmx { X87 } else { self.vector(self.modrm() & 7 | self.b | high) }
    }

    fn v_vector(&self) -> Set {
        self.v.map_or(0, |number| self.vector(number | self.v_high))
    }

    /// The mask register by which EVEX chooses elements; 0 is none.
    fn mask(&self) -> Set {
        if self.mask == 0 { 0 } else { 1 << (MASK_SHIFT + u32::from(self.mask)) }
    }

    fn read_e_vector(&mut self, mmx: bool) -> Value {
        if self.is_memory() { self.load() } else { Value::of(self.e_vector(mmx)) }
    }

    fn write_e_vector(&mut self, mmx: bool, value: Value) {
        if self.is_memory() {
            self.store();
        } else {
            let kept = if self.mask == 0 { 0 } else { self.e_vector(mmx) | self.mask() };
            self.found.flow(self.e_vector(mmx), value.and(kept));
        }
    }

    /// Writes the vector of `reg`, made of `rm`, with VEX of the further register, and of what it was where
    /// it is not overwritten.
    fn compute(&mut self, mmx: bool, overwrites: bool) {
        let g = self.g_vector(mmx);
        let same = !self.is_memory() && {
            let other = if self.v.is_some() { self.v_vector() } else { g };
            other == self.e_vector(mmx)
        };
        let whole = !mmx && self.mask == 0 && !(self.evex && self.compares());
        if same && !overwrites && whole && self.cancels() {
            return self.found.flow(g, NOTHING);
        }
        let kept = match self.v {
            _ if overwrites => 0,
            Some(_) => self.v_vector(),
            None => g,
        };
        let of_mask = if self.mask == 0 { 0 } else { g | self.mask() };
        let value = self.read_e_vector(mmx).and(kept | of_mask);
        let to = if self.evex && self.compares() { self.mask_of_g() } else { g };
        self.found.flow(to, value);
    }

    /// With EVEX a mask register takes the result: PCMPGT, PCMPEQ, VCMPPS, VPTESTM, VPCMP.
    fn compares(&self) -> bool {
        match self.map {
            Map::Two => matches!(self.opcode, 0x64..=0x66 | 0x74..=0x76 | 0xc2),
            Map::Of38 => matches!(self.opcode, 0x26 | 0x27 | 0x29 | 0x37),
            Map::Of3a => matches!(self.opcode, 0x1e | 0x1f | 0x3e | 0x3f),
            _ => false,
        }
    }

    /// The mask register of `reg`.
    fn mask_of_g(&self) -> Set {
        1 << (MASK_SHIFT + u32::from(self.digit()))
    }

    /// Of two equal operands the result is the same, whatever they are: XORPS, PXOR, PSUB, PCMPGT, PCMPEQ.
    fn cancels(&self) -> bool {
        match self.map {
            Map::Two => matches!(
                self.opcode,
                0x57 | 0x64..=0x66 | 0x74..=0x76 | 0xd8 | 0xd9 | 0xe8 | 0xe9 | 0xef | 0xf8..=0xfb
            ),
            Map::Of38 => matches!(self.opcode, 0x29 | 0x37),
            _ => false,
        }
    }

    /// Opcodes of two bytes of MMX and SSE, and their forms with VEX and EVEX.
    fn vector_two(&mut self) {
        let (opcode, prefix, memory) = (self.opcode, self.prefix, self.is_memory());
        // Whole registers, of no prefix or 66.
        let packed = prefix < 2;
        let may_be_mmx = matches!(opcode, 0x60..=0x7f | 0xc4 | 0xc5 | 0xd1..=0xff);
        let mmx = self.v.is_none() && prefix == 0 && may_be_mmx;
        match opcode {
            0x11 if prefix >= 2 && !memory => {
                let (kept, g) = (
                    self.v.map_or(self.e_vector(false), |_| self.v_vector()),
                    self.g_vector(false),
                );
                self.write_e_vector(false, Value::of(kept | g));
            }
            0x11 | 0x13 | 0x17 | 0x29 | 0x2b | 0x7f | 0xd6 | 0xe7 => {
                // MOVQ2DQ and MOVDQ2Q.
                match (opcode, prefix) {
                    (0xd6, 2) => return self.found.flow(self.g_vector(false), Value::of(X87)),
                    (0xd6, 3) => return self.found.flow(X87, Value::of(self.e_vector(false))),
                    _ => {}
                }
                self.write_e_vector(mmx, Value::of(self.g_vector(mmx)));
            }
            // MOVD and MOVQ from a general register, and to one; of F3 between vectors.
            0x6e => {
                let value = self.read_e(Full);
                self.found.flow(self.g_vector(mmx), value);
            }
            0x7e if prefix == 2 => self.compute(false, true),
            0x7e if memory => self.store(),
            0x7e => self.found.flow(self.e(Full), Value::of(self.g_vector(mmx))),
            // CVTPI2PS and CVTSI2SS; CVTTPS2PI, CVTTSS2SI and their like.
            0x2a => {
                let value = match () {
                    () if memory => self.load(),
                    () if prefix < 2 => Value::of(X87),
                    () => Value::of(self.e(Full)),
                };
                let kept = self.v.map_or(self.g_vector(false), |_| self.v_vector());
                self.found.flow(self.g_vector(false), value.and(kept));
            }
            0x2c | 0x2d => {
                let value = self.read_e_vector(false);
                let to = if prefix < 2 { X87 } else { self.g(Full) };
                self.found.flow(to, value);
            }
            0x2e | 0x2f => {
                let value = self.read_e_vector(false).and(self.g_vector(false));
                self.write_flags(value);
            }
            // Instructions of mask registers.
            0x41..=0x4b | 0x90..=0x93 | 0x98 | 0x99 if self.v.is_some() => self.masks(),
            // MOVMSKPS, PMOVMSKB, PEXTRW.
            0x50 | 0xd7 | 0xc5 => {
                self.found.flow(self.g(Full), Value::of(self.e_vector(mmx)));
            }
            0xc4 => {
                let kept = self.v.map_or(self.g_vector(mmx), |_| self.v_vector());
                let value = self.read_e(Full).and(kept);
                self.found.flow(self.g_vector(mmx), value);
            }
            // Shifts by a constant: of `rm`, with VEX to the further register.
            0x71..=0x73 => {
                let (from, to) = (self.e_vector(mmx), self.v.map(|_| self.v_vector()));
                self.found.flow(to.unwrap_or(from), Value::of(from));
            }
            0x77 => {}
            0xae => self.group_15(),
            // MASKMOVDQU.
            0xf7 => {
                self.found = Registers { address: RDI, stores: true, varies: true, ..self.found };
            }
            0x10 => self.compute(mmx, packed || memory),
            0x12 | 0x16 => self.compute(mmx, prefix >= 2),
            0x28 | 0x5b | 0x6f | 0x70 | 0xe6 | 0xf0 => self.compute(mmx, true),
            0x51..=0x53 | 0x5a => self.compute(mmx, packed),
            _ => self.compute(mmx, false),
        }
    }

    /// Instructions of mask registers.
    fn masks(&mut self) {
        let of = |number: u8| 1 << (MASK_SHIFT + u32::from(number & 7));
        let (g, e) = (self.mask_of_g(), of(self.modrm()));
        match self.opcode {
            0x90 => {
                let value = if self.is_memory() { self.load() } else { Value::of(e) };
                self.found.flow(g, value);
            }
            0x91 => self.store(),
            0x92 => self.found.flow(g, Value::of(self.e(Full))),
            0x93 => self.found.flow(self.g(Full), Value::of(e)),
            0x98 | 0x99 => self.write_flags(Value::of(g | e)),
            0x44 => self.found.flow(g, Value::of(e)),
            _ => self.found.flow(g, Value::of(e | self.v.map_or(0, of))),
        }
    }

    /// Opcodes behind 0F 38.
    fn of_38(&mut self) {
        let (opcode, prefix) = (self.opcode, self.prefix);
        let mmx = self.v.is_none() && prefix == 0 && matches!(opcode, 0x00..=0x0b | 0x1c..=0x1e);
        match opcode {
            // PTEST, VTESTPS.
            0x17 | 0x0e | 0x0f if !(self.evex) => {
                let value = self.read_e_vector(false).and(self.g_vector(false));
                self.write_flags(value);
            }
            // PBLENDVB and its like choose by the first vector.
            0x10 | 0x14 | 0x15 if self.v.is_none() => {
                let g = self.g_vector(false);
                let value = self.read_e_vector(false).and(g | self.vector(0));
                self.found.flow(g, value);
            }
            // Broadcasts, absolute values, extensions, MOVNTDQA.
            0x18..=0x1e | 0x20..=0x25 | 0x2a | 0x30..=0x35 | 0x41 | 0x58..=0x5a | 0x78 | 0x79 => {
                self.compute(mmx, true);
            }
            // Broadcasts of general registers.
            0x7a..=0x7c if self.evex => {
                self.found.flow(self.g_vector(false), Value::of(self.e(Full)));
            }
            // VMASKMOVPS and VPMASKMOV.
            0x2c | 0x2d | 0x8c if !self.evex && self.v.is_some() => {
                self.found.varies = true;
                let value = self.load().and(self.v_vector());
                self.found.flow(self.g_vector(false), value);
            }
            0x2e | 0x2f | 0x8e if !self.evex && self.v.is_some() => {
                self.found.varies = true;
                self.store();
            }
            // Gathers leave of their mask nothing.
            0x90..=0x93 if self.v.is_some() => {
                self.found.varies = true;
                let (g, mask) = (self.g_vector(false), self.v_vector());
                let chooses = if self.evex { self.mask() } else { mask };
                let value = self.load().and(g | chooses);
                self.found.flow(g, value);
                self.found.flow(chooses & !g, NOTHING);
            }
            0xa0..=0xa3 if self.evex => {
                self.found.varies = true;
                self.store();
            }
            0x80..=0x82 => {}
            // CRC32, MOVBE.
            0xf0 | 0xf1 if self.v.is_none() && prefix == 3 => {
                let width = if opcode == 0xf0 { Byte } else { Full };
                let value = self.read_e(width).and(self.g(Full));
                self.found.flow(self.g(Full), value);
            }
            0xf0 if self.v.is_none() => self.move_to_g(Full, Full),
            0xf1 | 0xf9 if self.v.is_none() => self.store(),
            // ADCX, ADOX.
            0xf6 if self.v.is_none() => {
                let value = self.read_e(Full).and(self.g(Full) | FLAGS);
                self.found.flow(self.g(Full), value);
                self.write_flags(value);
            }
            // ANDN; BLSR, BLSMSK, BLSI; BZHI, PDEP, PEXT; MULX; BEXTR, SARX, SHLX, SHRX.
            0xf2 | 0xf5 | 0xf7 if self.v.is_some() => {
                let value = self.read_e(Full).and(self.v_general());
                self.found.flow(self.g(Full), value);
                let sets = opcode == 0xf2 || prefix == 0;
                self.found.flow(if sets { FLAGS } else { 0 }, value);
            }
            0xf3 if self.v.is_some() => {
                let value = self.read_e(Full);
                self.found.flow(self.v_general(), value);
                self.write_flags(value);
            }
            0xf6 if self.v.is_some() => {
                let value = self.read_e(Full).and(RDX);
                self.found.flow(self.g(Full) | self.v_general(), value);
            }
            _ => self.compute(mmx, false),
        }
    }

    /// Opcodes behind 0F 3A.
    fn of_3a(&mut self) {
        let mmx = self.v.is_none() && self.prefix == 0 && self.opcode == 0x0f;
        match self.opcode {
            // PEXTRB, PEXTRW, PEXTRD, EXTRACTPS.
            0x14..=0x17 if self.is_memory() => self.store(),
            0x14..=0x17 => self.found.flow(self.e(Full), Value::of(self.g_vector(false))),
            // VEXTRACTF128, VCVTPS2PH.
            0x19 | 0x1b | 0x1d | 0x39 | 0x3b => {
                self.write_e_vector(false, Value::of(self.g_vector(false)));
            }
            // PINSRB, PINSRD.
            0x20 | 0x22 => {
                let kept = self.v.map_or(self.g_vector(false), |_| self.v_vector());
                let value = self.read_e(Full).and(kept);
                self.found.flow(self.g_vector(false), value);
            }
            // Choices by a fourth register, which the last byte tells.
            0x4a..=0x4c | 0x5c..=0x5f | 0x68..=0x6f | 0x78..=0x7f if self.v.is_some() => {
                let fourth = self.vector(self.bytes.last().map_or(0, |byte| byte >> 4));
                let value = self.read_e_vector(false).and(self.v_vector() | fourth);
                self.found.flow(self.g_vector(false), value);
            }
            // PCMPESTRM, PCMPESTRI, PCMPISTRM, PCMPISTRI.
            0x60..=0x63 => {
                let lengths = if self.opcode < 0x62 { RAX | RDX } else { 0 };
                let value = self.read_e_vector(false).and(self.g_vector(false) | lengths);
                self.found.flow(if self.opcode & 1 == 1 { RCX } else { self.vector(0) }, value);
                self.write_flags(value);
            }
            // RORX.
            0xf0 => {
                let value = self.read_e(Full);
                self.found.flow(self.g(Full), value);
            }
            // VPERMQ, VPERMILPS, VPERMILPD, ROUNDPS, ROUNDPD, AESKEYGENASSIST.
            0x00 | 0x01 | 0x04 | 0x05 | 0x08 | 0x09 | 0xdf => self.compute(mmx, true),
            _ => self.compute(mmx, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RSI_RDI: Set = RSI | RDI;
    const R8: Set = 1 << 8;
    const R9: Set = 1 << 9;
    const X0: Set = 1 << VECTOR_SHIFT;
    const X1: Set = 2 << VECTOR_SHIFT;
    const X2: Set = 4 << VECTOR_SHIFT;
    const X9: Set = 1 << (VECTOR_SHIFT + 9);

    /// Address; registers with what each is made of, `true` for memory.
    type Expected = (Set, &'static [(Set, Set, bool)]);

    #[test]
    fn flows_are_those_of_the_manual() {
        let cases: &[(&[u8], Expected)] = &[
            (&[0x48, 0x8b, 0x00], (RAX, &[(RAX, 0, true)])), // mov (%rax),%rax
            (&[0x8b, 0x44, 0x8e, 0x10], (RSI | RCX, &[(RAX, 0, true)])), // mov 16(%rsi,%rcx,4),%eax
            (&[0x4d, 0x8b, 0x04, 0xc1], (R9 | RAX, &[(R8, 0, true)])), // mov (%r9,%rax,8),%r8
            (&[0x42, 0x8b, 0x04, 0x05, 0, 0, 0, 0], (R8, &[(RAX, 0, true)])), // mov 0(,%r8,1),%eax
            (&[0x8b, 0x05, 0, 0, 0, 0], (0, &[(RAX, 0, true)])), // mov 0(%rip),%eax
            (&[0x41, 0x8b, 0x45, 0], (1 << 13, &[(RAX, 0, true)])), // mov 0(%r13),%eax
            (&[0x41, 0x8b, 0x04, 0x24], (1 << 12, &[(RAX, 0, true)])), // mov (%r12),%eax
            (&[0x42, 0x8b, 0x04, 0x20], (RAX | 1 << 12, &[(RAX, 0, true)])), // mov (%rax,%r12),%eax
            (&[0x48, 0x8b, 0x44, 0x24, 8], (0, &[(RAX, 0, true)])), // mov 8(%rsp),%rax
            (&[0x64, 0x48, 0x8b, 4, 0x25, 0x28, 0, 0, 0], (0, &[(RAX, 0, true)])), // mov %fs:40,%rax
            (&[0x67, 0x8b, 0x00], (RAX, &[(RAX, 0, true)])), // mov (%eax),%eax
            (&[0x8a, 0x26], (RSI, &[(RAX, RAX, true)])),     // mov (%rsi),%ah
            (&[0x40, 0x8a, 0x26], (RSI, &[(0, 0, true)])),   // mov (%rsi),%spl
            (&[0x66, 0x8b, 0x06], (RSI, &[(RAX, RAX, true)])), // mov (%rsi),%ax
            (&[0x48, 0x89, 0x07], (RDI, &[])),               // mov %rax,(%rdi)
            (&[0x48, 0x89, 0xc7], (0, &[(RDI, RAX, false)])), // mov %rax,%rdi
            (&[0xc6, 0x07, 1], (RDI, &[])),                  // movb $1,(%rdi)
            (&[0xb8, 1, 0, 0, 0], (0, &[(RAX, 0, false)])),  // mov $1,%eax
            (&[0x41, 0xb8, 1, 0, 0, 0], (0, &[(R8, 0, false)])), // mov $1,%r8d
            (&[0x48, 0xc7, 0xc0, 1, 0, 0, 0], (0, &[(RAX, 0, false)])), // mov $1,%rax
            (&[0xb0, 1], (0, &[])),                          // mov $1,%al
            (&[0xa1, 0, 0, 0, 0, 0, 0, 0, 0], (0, &[(RAX, 0, true)])), // movabs 0,%eax
            (&[0xa3, 0, 0, 0, 0, 0, 0, 0, 0], (0, &[])),     // movabs %eax,0
            (&[0x48, 0x8d, 0x04, 0x4b], (0, &[(RAX, RBX | RCX, false)])), // lea (%rbx,%rcx,2),%rax
            (&[0x48, 0x8d, 0x05, 0, 0, 0, 0], (0, &[(RAX, 0, false)])), // lea 0(%rip),%rax
            (&[0x31, 0xc0], (0, &[(RAX, 0, false), (FLAGS, 0, false)])), // xor %eax,%eax
            (&[0x48, 0x29, 0xdb], (0, &[(RBX, 0, false), (FLAGS, 0, false)])), // sub %rbx,%rbx
            (&[0x31, 0xd8], (0, &[(RAX, RAX | RBX, false), (FLAGS, RAX | RBX, false)])), // xor %ebx,%eax
            (&[0x30, 0xe0], (0, &[(RAX, RAX, false), (FLAGS, RAX, false)])), // xor %ah,%al
            (&[0x19, 0xc0], (0, &[(RAX, FLAGS, false), (FLAGS, FLAGS, false)])), // sbb %eax,%eax
            (&[0x48, 0x03, 0x03], (RBX, &[(RAX, RAX, true), (FLAGS, RAX, true)])), // add (%rbx),%rax
            (&[0x48, 0x01, 0x03], (RBX, &[(FLAGS, RAX, true)])), // add %rax,(%rbx)
            (&[0x48, 0x83, 0x03, 1], (RBX, &[(FLAGS, 0, true)])), // addq $1,(%rbx)
            (&[0x83, 0xd0, 1], (0, &[(RAX, RAX | FLAGS, false), (FLAGS, RAX | FLAGS, false)])), // adc $1,%eax
            (&[0x48, 0x3b, 0x07], (RDI, &[(FLAGS, RAX, true)])), // cmp (%rdi),%rax
            (&[0x3d, 1, 0, 0, 0], (0, &[(FLAGS, RAX, false)])),  // cmp $1,%eax
            (&[0x85, 0xc0], (0, &[(FLAGS, RAX, false)])),        // test %eax,%eax
            (&[0x48, 0x0f, 0x44, 0xc3], (0, &[(RAX, RAX | RBX | FLAGS, false)])), // cmove %rbx,%rax
            (&[0x48, 0x0f, 0x4f, 0x07], (RDI, &[(RAX, RAX | FLAGS, true)])), // cmovg (%rdi),%rax
            (&[0x0f, 0x94, 0xc0], (0, &[(RAX, RAX | FLAGS, false)])), // sete %al
            (&[0x0f, 0xb6, 0xc4], (0, &[(RAX, RAX, false)])),    // movzbl %ah,%eax
            (&[0x0f, 0xb6, 0x17], (RDI, &[(RDX, 0, true)])),     // movzbl (%rdi),%edx
            (&[0x48, 0x63, 0xd7], (0, &[(RDX, RDI, false)])),    // movslq %edi,%rdx
            (&[0x48, 0x0f, 0xbf, 0x17], (RDI, &[(RDX, 0, true)])), // movswq (%rdi),%rdx
            (&[0x48, 0x6b, 0xd1, 3], (0, &[(RDX, RCX, false), (FLAGS, RCX, false)])), // imul $3,%rcx,%rdx
            (&[0x48, 0x0f, 0xaf, 0xd1], (0, &[(RDX, RCX | RDX, false), (FLAGS, RCX | RDX, false)])), // imul %rcx,%rdx
            (&[0x48, 0xf7, 0xe1], (0, &[(RAX | RDX, RAX | RCX, false), (FLAGS, RAX | RCX, false)])), // mul %rcx
            (&[0x48, 0xf7, 0x36], (RSI, &[(RAX | RDX, RAX | RDX, true), (FLAGS, RAX | RDX, true)])), // divq (%rsi)
            (&[0x48, 0xf7, 0xd8], (0, &[(RAX, RAX, false), (FLAGS, RAX, false)])), // neg %rax
            (
                &[0x48, 0xd3, 0xe0],
                (0, &[(RAX, RAX | RCX, false), (FLAGS, RAX | RCX | FLAGS, false)]),
            ), // shl %cl,%rax
            (&[0x48, 0x99], (0, &[(RDX, RAX, false)])),                            // cqto
            (&[0x48, 0x0f, 0xc8], (0, &[(RAX, RAX, false)])),                      // bswap %rax
            (&[0x48, 0x87, 0xd8], (0, &[(RBX, RAX, false), (RAX, RBX, false)])),   // xchg %rbx,%rax
            (&[0x87, 0x07], (RDI, &[(RAX, 0, true)])), // xchg %eax,(%rdi)
            (&[0x48, 0x93], (0, &[(RAX, RBX, false), (RBX, RAX, false)])), // xchg %rax,%rbx
            (&[0x90], (0, &[])),                       // nop
            (&[0xf3, 0x90], (0, &[])),                 // pause
            (&[0x0f, 0x1f, 0x44, 0, 0], (0, &[])),     // nopl 0(%rax,%rax)
            (&[0xf3, 0x0f, 0x1e, 0xfa], (0, &[])),     // endbr64
            (&[0x0f, 0x18, 0x0f], (0, &[])),           // prefetcht0 (%rdi)
            (&[0x0f, 0xae, 0x3f], (0, &[])),           // clflush (%rdi)
            (&[0x55], (0, &[])),                       // push %rbp
            (&[0x5d], (0, &[(RBP, 0, true)])),         // pop %rbp
            (&[0x41, 0x58], (0, &[(R8, 0, true)])),    // pop %r8
            (&[0xff, 0x37], (RDI, &[])),               // push (%rdi)
            (&[0xe8, 0, 0, 0, 0], (0, &[])),           // call
            (&[0xff, 0x50, 8], (RAX, &[])),            // call *8(%rax)
            (&[0xff, 0xe0], (0, &[])),                 // jmp *%rax
            (&[0xff, 0x24, 0xc5, 0, 0, 0, 0], (RAX, &[])), // jmp *0(,%rax,8)
            (&[0xc3], (0, &[])),                       // ret
            (&[0xc9], (RBP, &[(RBP, 0, true)])),       // leave
            (&[0x48, 0xa5], (RSI_RDI, &[])),           // movsq
            (&[0xf3, 0xa6], (RSI_RDI, &[(FLAGS, 0, true)])), // repe cmpsb
            (&[0xf3, 0x48, 0xab], (RDI, &[])),         // rep stosq
            (&[0x48, 0xad], (RSI, &[(RAX, 0, true)])), // lodsq
            (&[0xf2, 0xae], (RDI, &[(FLAGS, RAX, true)])), // repne scasb
            (&[0xd7], (RAX | RBX, &[(RAX, RAX, true)])), // xlat
            (&[0x0f, 0xa3, 0x0f], (RDI | RCX, &[(FLAGS, RCX | FLAGS, true)])), // bt %ecx,(%rdi)
            (&[0xf0, 0x48, 0x0f, 0xb1, 0x0f], (RDI, &[(FLAGS, RAX, true), (RAX, RAX, true)])), // lock cmpxchg %rcx,(%rdi)
            (&[0xf0, 0x0f, 0xc1, 0x07], (RDI, &[(FLAGS, RAX, true), (RAX, 0, true)])), // lock xadd %eax,(%rdi)
            (
                &[0x48, 0x0f, 0xc7, 0x0f],
                (RDI, &[(RAX | RDX, RAX | RDX, true), (FLAGS, RAX | RDX, true)]),
            ), // cmpxchg16b (%rdi)
            (&[0x0f, 0xa2], (0, &[(RAX | RBX | RCX | RDX, 0, false)])),                // cpuid
            (&[0x0f, 0x31], (0, &[(RAX | RDX, 0, false)])),                            // rdtsc
            (&[0x0f, 0x05], (0, &[(RAX | RCX | R11, 0, false)])),                      // syscall
            (&[0xf3, 0x0f, 0xb8, 0xc1], (0, &[(RAX, RCX, false), (FLAGS, RCX, false)])), // popcnt %ecx,%eax
            (&[0x0f, 0xbc, 0xc1], (0, &[(RAX, RAX | RCX, false), (FLAGS, RCX, false)])), // bsf %ecx,%eax
            (&[0xf2, 0x48, 0x0f, 0x38, 0xf1, 0x07], (RDI, &[(RAX, RAX, true)])), // crc32q (%rdi),%rax
            (&[0x0f, 0x38, 0xf0, 0x07], (RDI, &[(RAX, 0, true)])), // movbe (%rdi),%eax
            (&[0xdd, 0x07], (RDI, &[(X87, X87, true)])),           // fldl (%rdi)
            (&[0xdd, 0x1f], (RDI, &[])),                           // fstpl (%rdi)
            (&[0x0f, 0x10, 0x07], (RDI, &[(X0, 0, true)])),        // movups (%rdi),%xmm0
            (&[0xf3, 0x0f, 0x10, 0xc1], (0, &[(X0, X0 | X1, false)])), // movss %xmm1,%xmm0
            (&[0x66, 0x0f, 0x6f, 0xc1], (0, &[(X0, X1, false)])),  // movdqa %xmm1,%xmm0
            (&[0x66, 0x48, 0x0f, 0x6e, 0xc0], (0, &[(X0, RAX, false)])), // movq %rax,%xmm0
            (&[0x66, 0x48, 0x0f, 0x7e, 0xc0], (0, &[(RAX, X0, false)])), // movq %xmm0,%rax
            (&[0x66, 0x0f, 0xd6, 0x07], (RDI, &[])),               // movq %xmm0,(%rdi)
            (&[0xf3, 0x0f, 0x7e, 0x07], (RDI, &[(X0, 0, true)])),  // movq (%rdi),%xmm0
            (&[0x0f, 0x6e, 0xc0], (0, &[(X87, RAX, false)])),      // movd %eax,%mm0
            (&[0x66, 0x0f, 0xef, 0xc0], (0, &[(X0, 0, false)])),   // pxor %xmm0,%xmm0
            (&[0x66, 0x0f, 0x76, 0xc0], (0, &[(X0, 0, false)])),   // pcmpeqd %xmm0,%xmm0
            (&[0x66, 0x0f, 0xfe, 0xc1], (0, &[(X0, X0 | X1, false)])), // paddd %xmm1,%xmm0
            (&[0xf2, 0x0f, 0x58, 0x07], (RDI, &[(X0, X0, true)])), // addsd (%rdi),%xmm0
            (&[0xf2, 0x0f, 0x2a, 0xc0], (0, &[(X0, X0 | RAX, false)])), // cvtsi2sd %eax,%xmm0
            (&[0xf2, 0x48, 0x0f, 0x2c, 0xc1], (0, &[(RAX, X1, false)])), // cvttsd2si %xmm1,%rax
            (&[0x66, 0x0f, 0x2f, 0x07], (RDI, &[(FLAGS, X0, true)])), // comisd (%rdi),%xmm0
            (&[0x66, 0x0f, 0xd7, 0xc1], (0, &[(RAX, X1, false)])), // pmovmskb %xmm1,%eax
            (&[0x66, 0x48, 0x0f, 0x3a, 0x16, 0xc0, 1], (0, &[(RAX, X0, false)])), // pextrq $1,%xmm0,%rax
            (&[0x66, 0x48, 0x0f, 0x3a, 0x22, 0x07, 1], (RDI, &[(X0, X0, true)])), // pinsrq $1,(%rdi),%xmm0
            (
                &[0x66, 0x0f, 0x3a, 0x63, 0xc1, 0],
                (0, &[(RCX, X0 | X1, false), (FLAGS, X0 | X1, false)]),
            ), // pcmpistri
            (&[0xc5, 0xfe, 0x6f, 0x07], (RDI, &[(X0, 0, true)])), // vmovdqu (%rdi),%ymm0
            (&[0xc4, 0x41, 0x7e, 0x6f, 0x08], (R8, &[(X9, 0, true)])), // vmovdqu (%r8),%ymm9
            (&[0xc5, 0xf5, 0xfe, 0xc2], (0, &[(X0, X1 | X2, false)])), // vpaddd %ymm2,%ymm1,%ymm0
            (&[0xc5, 0xf1, 0xef, 0xc1], (0, &[(X0, 0, false)])),  // vpxor %xmm1,%xmm1,%xmm0
            (&[0xc4, 0xe1, 0xf9, 0x6e, 0xc0], (0, &[(X0, RAX, false)])), // vmovq %rax,%xmm0
            (&[0xc4, 0xe1, 0xf9, 0x7e, 0xc0], (0, &[(RAX, X0, false)])), // vmovq %xmm0,%rax
            (&[0xc4, 0xe3, 0x7d, 0x39, 0xc1, 1], (0, &[(X1, X0, false)])), // vextracti128 $1,%ymm0,%xmm1
            (
                &[0xc4, 0xe2, 0x6d, 0x90, 0x04, 0x8f],
                (RDI | X1, &[(X0, X0 | X2, true), (X2, 0, false)]),
            ), // vpgatherdd %ymm2,(%rdi,%ymm1,4),%ymm0
            (&[0xc4, 0xe2, 0x75, 0x2c, 0x07], (RDI, &[(X0, X1, true)])), // vmaskmovps (%rdi),%ymm1,%ymm0
            (
                &[0xc4, 0xe2, 0xf0, 0xf2, 0xc2],
                (0, &[(RAX, RCX | RDX, false), (FLAGS, RCX | RDX, false)]),
            ), // andn %rdx,%rcx,%rax
            (&[0xc4, 0xe2, 0xf1, 0xf7, 0xc2], (0, &[(RAX, RCX | RDX, false)])), // shlx %rcx,%rdx,%rax
            (&[0xc4, 0xe2, 0xf8, 0xf3, 0xca], (0, &[(RAX, RDX, false), (FLAGS, RDX, false)])), // blsr %rdx,%rax
            (&[0xc4, 0xe2, 0xf3, 0xf6, 0xc6], (0, &[(RAX | RCX, RDX | RSI, false)])), // mulx %rsi,%rcx,%rax
            (&[0xc4, 0xe3, 0xfb, 0xf0, 0xc2, 7], (0, &[(RAX, RDX, false)])), // rorx $7,%rdx,%rax
            (&[0x62, 0xf1, 0x7e, 0x48, 0x6f, 0x07], (RDI, &[(X0, 0, true)])), // vmovdqu32 (%rdi),%zmm0
            (&[0x62, 0xf3, 0x7d, 0x48, 0x3f, 0xc2, 0], (0, &[(1 << MASK_SHIFT, X0 | X2, false)])), // vpcmpeqb %zmm2,%zmm0,%k0
            (&[0x0f, 0x0b], (0, &[])), // ud2
            (&[], (0, &[])),
        ];
        for (bytes, (address, flows)) in cases {
            let found = Registers::of(bytes);
            let told: Vec<_> = (found.flows.iter().take(found.count))
                .map(|flow| (flow.to, flow.from, flow.of_load))
                .collect();
            assert_eq!((found.address, &told[..]), (*address, *flows), "{bytes:02x?}");
        }
    }

    #[test]
    fn loads_and_stores_are_told_apart() {
        for (bytes, loads, stores, varies) in [
            (&[0x48, 0x8b, 0x00][..], true, false, false), // mov (%rax),%rax
            (&[0x48, 0x89, 0x07], false, true, false),     // mov %rax,(%rdi)
            (&[0x48, 0x01, 0x03], true, true, false),      // add %rax,(%rbx)
            (&[0x48, 0x3b, 0x07], true, false, false),     // cmp (%rdi),%rax
            (&[0x55], false, true, false),                 // push %rbp
            (&[0xff, 0x37], true, true, false),            // push (%rdi)
            (&[0xe8, 0, 0, 0, 0], false, true, false),     // call
            (&[0xff, 0xd0], false, true, false),           // call *%rax
            (&[0xff, 0x20], true, false, false),           // jmp *(%rax)
            (&[0xc3], true, false, false),                 // ret
            (&[0x87, 0x07], true, true, false),            // xchg %eax,(%rdi)
            (&[0xc5, 0xf8, 0xae, 0x17], true, false, false), // vldmxcsr (%rdi)
            (&[0xa4], true, true, false),                  // movsb
            (&[0xf3, 0xa4], true, true, true),             // rep movsb
            (&[0xa6], true, false, true),                  // cmpsb
            (&[0x0f, 0xae, 0x0f], true, false, true),      // fxrstor (%rdi)
            (&[0xdd, 0x27], true, false, true),            // frstor (%rdi)
            (&[0x0f, 0xc7, 0x0f], true, true, false),      // cmpxchg8b (%rdi)
            (&[0xf3, 0xaa], false, true, true),            // rep stosb
            (&[0xd9, 0x3f], false, true, false),           // fnstcw (%rdi)
            (&[0xd9, 0x2f], true, false, false),           // fldcw (%rdi)
            (&[0x0f, 0xae, 0x1f], false, true, false),     // stmxcsr (%rdi)
            (&[0xc4, 0xe2, 0x75, 0x2e, 0x07], false, true, true), // vmaskmovps %ymm0,%ymm1,(%rdi)
            (&[0xc4, 0xe2, 0x6d, 0x90, 0x04, 0x8f], true, false, true), // vpgatherdd
            (&[0x0f, 0xae, 0x3f], false, false, false),    // clflush (%rdi)
            (&[0x0f, 0x1f, 0x00], false, false, false),    // nopl (%rax)
        ] {
            let found = Registers::of(bytes);
            let told = (found.loads, found.stores, found.varies);
            assert_eq!(told, (loads, stores, varies), "{bytes:02x?}");
        }
    }

    /// The number of a register that a disassembly names; that of none of the sets is 0.
    fn named(name: &str) -> Set {
        const NAMES: [&str; 8] = ["ax", "cx", "dx", "bx", "sp", "bp", "si", "di"];
        let vector = ["xmm", "ymm", "zmm"].iter().find_map(|kind| name.strip_prefix(kind));
        if let Some(number) = vector {
            return 1 << (VECTOR_SHIFT + number.parse::<u32>().unwrap());
        }
        let rest = &name[1..];
        let number = NAMES.iter().position(|name| *name == rest);
        let number = number.or_else(|| rest.trim_end_matches('d').parse().ok());
        number.map_or(0, |number| 1 << number) & !RSP
    }

    /// What an assembler's operands, `-8(%rax,%rcx,4),%rdx`, name between parentheses.
    fn between_parentheses(operands: &str) -> Set {
        let inner = operands.split('(').skip(1).filter_map(|part| part.split(')').next());
        let names =
            inner.flat_map(|inner| inner.split(',')).filter_map(|name| name.strip_prefix('%'));
        names.fold(0, |all, name| all | named(name))
    }

    /// Words before a mnemonic.
    const PREFIXES: [&str; 8] = ["rep", "repz", "repnz", "lock", "bnd", "notrack", "data16", "cs"];

    /// Where `objdump` (binutils) is there, much of the C library is compared with what it says; where it is
    /// not, which is printed, the tables above are all that is checked.
    #[test]
    fn addresses_are_of_the_registers_that_a_disassembler_names() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let paths = maps.lines().filter_map(|line| Some(&line[line.find('/')?..]));
        let library = paths.into_iter().find(|path| path.contains("/libc"));
        let told = std::process::Command::new("objdump")
            .args(library.map_or(vec![], |it| vec!["-dw", it]))
            .output();
        let Some((told, library)) = told.ok().zip(library) else {
            return eprintln!("objdump or a C library is missing: not compared");
        };
        let told = String::from_utf8_lossy(&told.stdout);
        let mut compared = 0;
        for line in told.lines().take(200_000) {
            let mut parts = line.split('\t').skip(1);
            let (Some(bytes), Some(text)) = (parts.next(), parts.next()) else { continue };
            let text = text.split(['#', '<']).next().unwrap_or_default();
            let bytes: Vec<u8> = bytes
                .split_whitespace()
                .map(|byte| u8::from_str_radix(byte, 16).unwrap())
                .collect();
            let (expected, mut words) = (between_parentheses(text), text.split_whitespace());
            let mnemonic = words.find(|word| !PREFIXES.contains(word)).unwrap_or_default();
            // No access, or one that goes by a further register.
            let touches_none = ["lea", "nop", "prefetch", "clflush", "cldemote", "clwb"];
            let bits = mnemonic.starts_with("bt") && text.contains(",(");
            let found = if touches_none.iter().any(|start| mnemonic.starts_with(start)) || bits {
                let decoder = Decoder::new(&bytes);
                if decoder.is_memory() { decoder.operand() & !RSP } else { 0 }
            } else if mnemonic.starts_with("leave")
                || mnemonic.starts_with("xbegin")
                || text.contains("(bad)")
            {
                continue;
            } else {
                Registers::of(&bytes).address
            };
            assert_eq!(found, expected, "{bytes:02x?} {text}");
            if let Some(told) = operand(&bytes) {
                assert_eq!((told.base | told.index) & !RSP, expected, "{bytes:02x?} {text}");
            }
            compared += 1;
        }
        assert!(compared > 100_000, "{compared} instructions of {library}");
    }
}
