//! The code of a `.tst` block: operations of one thread to bytes and back.
//!
//! An operation is predicted from the shapes (kind, size, instructions) of the few before it, which
//! stand for the place in the program: the shape that came next last time, and the address either
//! a stride from the place's last one or an offset from the previous operation's. What was
//! predicted costs half a byte before compression. The layout is specified in
//! `docs/formats/tst.md`; the predictors are in the manner of M. Burtscher, "VPC3: A Fast and
//! Effective Trace-Compression Algorithm" (SIGMETRICS 2004).

use crate::counts::Counts;
use crate::op::{Call, Op, OpKind};
use crate::site::SiteId;
use crate::trace::tst::{
    ADVICE_VERSION, DEPENDENCE_VERSION, FILES_VERSION, NAMES_VERSION, OLDEST_VERSION, STAT_VERSION,
    USES_VERSION,
};
use std::collections::BTreeSet;

/// Operations in a block at most, arguments included.
pub const MAX_BLOCK_OPS: usize = 1 << 16;
/// Bytes of an encoded block at most: what the decoder is ready to take.
pub const MAX_BLOCK_BYTES: usize = MAX_BLOCK_OPS * 36 + HEADER_BYTES;

const HEADER_BYTES: usize = 16;
const TABLE_BITS: u32 = 12;
const TABLE_MASK: usize = (1 << TABLE_BITS) - 1;
/// Bits by which the history moves on for each operation: it remembers three.
const HISTORY_SHIFT: u32 = 4;
const HASH_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Codes in the control column, four bits each.
mod control {
    /// Address as the stride predicts, or no address.
    pub const STRIDE: u8 = 0;
    /// Address as the offset from the previous operation predicts.
    pub const OFFSET: u8 = 1;
    /// Address given as the difference from this place's last one.
    pub const FROM_LAST: u8 = 2;
    /// Address given as the difference from the previous operation's.
    pub const FROM_PREVIOUS: u8 = 3;
    /// Added to the above: the shape was not predicted and is given.
    pub const SHAPE: u8 = 4;
    /// A call: all of it is given.
    pub const CALL: u8 = 8;
    /// A site: the one that came next here last time.
    pub const SITE: u8 = 9;
    /// A site: its number is given.
    pub const SITE_GIVEN: u8 = 10;
    /// Added to the number of bytes less one of a difference that is a multiple of 8, and is
    /// given divided by 8.
    pub const ALIGNED: u8 = 8;
}

/// A shape byte with this bit is followed by the whole `meta` word.
const WHOLE_META: u8 = 0x80;
/// History after a call.
const CALL_SHAPE: u64 = OpKind::Call as u64;

/// Why a block cannot be decoded or encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodecError(pub &'static str);

#[derive(Clone, Copy, Default)]
struct Place {
    /// Address of the last access here.
    last: u64,
    /// Its difference from the one before, here.
    stride: u64,
    /// Its difference from the previous operation's.
    offset: u64,
    /// Shape of the operation that came after this place.
    next_shape: u64,
    /// Site that came after this place.
    next_site: u64,
}

/// What the predictions stand on. Starts afresh with every block.
struct Predictor {
    places: Box<[Place; TABLE_MASK + 1]>,
    history: usize,
    previous: u64,
}

impl Predictor {
    fn new() -> Self {
        let places = vec![Place::default(); TABLE_MASK + 1].into_boxed_slice();
        let places = places.try_into().unwrap_or_else(|_| unreachable!("the length is right"));
        Predictor { places, history: 0, previous: 0 }
    }

    fn reset(&mut self) {
        self.places.fill(Place::default());
        (self.history, self.previous) = (0, 0);
    }

    /// Notes the shape that came, and moves on. True if it was predicted.
    #[inline]
    fn shape(&mut self, shape: u64) -> bool {
        let place = &mut self.places[self.history & TABLE_MASK];
        let predicted = place.next_shape == shape;
        place.next_shape = shape;
        self.advance(shape);
        predicted
    }

    #[inline]
    fn advance(&mut self, shape: u64) {
        let hash = shape.wrapping_mul(HASH_FACTOR) >> (64 - TABLE_BITS);
        self.history = (self.history << HISTORY_SHIFT ^ hash as usize) & TABLE_MASK;
    }

    /// Notes the site that came, and moves on. True if it was predicted.
    #[inline]
    fn site(&mut self, number: u64) -> bool {
        let place = &mut self.places[self.history & TABLE_MASK];
        let predicted = place.next_site == number;
        place.next_site = number;
        self.advance(number << 8 | u64::from(SITE));
        predicted
    }

    #[inline]
    fn expected_site(&self) -> u64 {
        self.places[self.history & TABLE_MASK].next_site
    }

    #[inline]
    fn expected_shape(&self) -> u64 {
        self.places[self.history & TABLE_MASK].next_shape
    }

    #[inline]
    fn place(&mut self) -> &mut Place {
        &mut self.places[self.history & TABLE_MASK]
    }

    #[inline]
    fn note_address(&mut self, address: u64) {
        let previous = self.previous;
        let place = self.place();
        place.stride = address.wrapping_sub(place.last);
        place.offset = address.wrapping_sub(previous);
        place.last = address;
        self.previous = address;
    }
}

/// Encodes the operations of one thread, block by block. Keeps its memory from block to block.
pub struct Encoder {
    predictor: Predictor,
    controls: Nibbles,
    shapes: Vec<u8>,
    /// The differences, `address_bytes` of them; the rest is room.
    addresses: Box<[u8]>,
    address_bytes: usize,
    calls: Vec<u8>,
    ops: usize,
    counts: Counts,
    /// Marks of the program, each once, as many as a recording tells.
    marks: BTreeSet<u64>,
}

/// Different marks of which a recording tells that it has them.
pub const MOST_MARKS: usize = 64;

impl Default for Encoder {
    fn default() -> Self {
        Encoder {
            predictor: Predictor::new(),
            controls: Nibbles::default(),
            shapes: Vec::new(),
            addresses: vec![0; 8 * (MAX_BLOCK_OPS + 1)].into_boxed_slice(),
            address_bytes: 0,
            calls: Vec::new(),
            ops: 0,
            counts: Counts::default(),
            marks: BTreeSet::new(),
        }
    }
}

impl Encoder {
    /// Takes as many of `ops` as the block has room for and returns how many. Calls must be whole.
    pub fn append(&mut self, ops: &[Op]) -> Result<usize, CodecError> {
        let room = MAX_BLOCK_OPS - self.ops;
        let mut at = 0;
        while at < ops.len().min(room) {
            let op = ops[at];
            match op.kind_code() {
                LOAD | STORE | USED | FLUSH => self.access(op),
                COMPUTE | FENCE => self.compute(op),
                SITE => self.site(op),
                CALL => {
                    let end = at + 1 + op.size() as usize;
                    let Some(arguments) = ops.get(at + 1..end) else {
                        self.ops += at;
                        return Err(CodecError(SPLIT_CALL));
                    };
                    if end > room {
                        break;
                    }
                    self.call(op, arguments);
                    at = end - 1;
                }
                _ => {
                    self.ops += at;
                    return Err(CodecError("an operation of an unknown kind"));
                }
            }
            at += 1;
        }
        self.ops += at;
        Ok(at)
    }

    /// Operations in the block.
    pub fn ops(&self) -> usize {
        self.ops
    }

    /// Length of the block if it were finished now.
    pub fn bytes(&self) -> usize {
        let controls = self.controls.bytes.len() + size_of::<u64>();
        HEADER_BYTES + controls + self.shapes.len() + self.address_bytes + self.calls.len()
    }

    /// What was encoded so far, in all blocks.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The program's marks so far, in all blocks, of the first [`MOST_MARKS`] different ones.
    pub fn marks(&self) -> &BTreeSet<u64> {
        &self.marks
    }

    /// Writes the block to `out`, which is cleared first, and begins another.
    pub fn finish_block(&mut self, out: &mut Vec<u8>) {
        let controls = self.controls.finish();
        out.clear();
        let addresses = &self.addresses[..self.address_bytes];
        let columns: [&[u8]; 4] = [controls, &self.shapes, addresses, &self.calls];
        for column in columns {
            out.extend_from_slice(&(column.len() as u32).to_le_bytes());
        }
        columns.iter().for_each(|column| out.extend_from_slice(column));
        self.predictor.reset();
        self.controls.reset();
        self.shapes.clear();
        self.calls.clear();
        (self.address_bytes, self.ops) = (0, 0);
    }

    #[inline]
    fn access(&mut self, op: Op) {
        self.counts.stores += u64::from(op.kind_code() == STORE);
        self.counts.loads += u64::from(op.kind_code() == LOAD);
        self.counts.instructions += u64::from(op.instructions());
        let predicted = self.predictor.shape(op.meta);
        if !predicted {
            push_shape(&mut self.shapes, op.meta);
        }
        let given = if predicted { 0 } else { control::SHAPE };
        let previous = self.predictor.previous;
        let place = *self.predictor.place();
        self.predictor.note_address(op.word);
        let by_stride = op.word == place.last.wrapping_add(place.stride);
        let by_offset = op.word == previous.wrapping_add(place.offset);
        if by_stride | by_offset {
            // The stride goes first; written so that it takes no branch.
            let code = control::OFFSET * u8::from(!by_stride);
            return self.controls.push(code | given);
        }
        let from_last = op.word.wrapping_sub(place.last) as i64;
        let from_previous = op.word.wrapping_sub(previous) as i64;
        let nearer = from_last.unsigned_abs() <= from_previous.unsigned_abs();
        let code = if nearer { control::FROM_LAST } else { control::FROM_PREVIOUS };
        self.controls.push(code | given);
        self.difference(if nearer { from_last } else { from_previous });
    }

    #[inline]
    fn difference(&mut self, difference: i64) {
        let aligned = difference & 7 == 0;
        let value = zigzag(if aligned { difference >> 3 } else { difference });
        let length = significant_bytes(value);
        let flag = if aligned { control::ALIGNED } else { 0 };
        self.controls.push((length - 1) as u8 | flag);
        // Eight bytes are written, and the next difference begins behind those that count.
        let at = self.address_bytes;
        self.addresses[at..at + 8].copy_from_slice(&value.to_le_bytes());
        self.address_bytes += length;
    }

    fn compute(&mut self, op: Op) {
        self.counts.instructions += u64::from(op.instructions());
        // The word of a computation, or of a fence, means nothing and is not kept.
        if self.predictor.shape(op.meta) {
            self.controls.push(control::STRIDE);
        } else {
            push_shape(&mut self.shapes, op.meta);
            self.controls.push(control::STRIDE | control::SHAPE);
        }
    }

    /// A site is its number; the rest of the operation means nothing and is not kept.
    fn site(&mut self, op: Op) {
        if self.predictor.site(op.word) {
            return self.controls.push(control::SITE);
        }
        self.controls.push(control::SITE_GIVEN);
        push_number(&mut self.calls, op.word);
    }

    fn call(&mut self, header: Op, arguments: &[Op]) {
        self.counts.calls += 1;
        self.counts.instructions += u64::from(header.instructions());
        if let Some(Call::Marker { mark }) = Call::decode(header, arguments)
            && self.marks.len() < MOST_MARKS
        {
            self.marks.insert(mark);
        }
        self.controls.push(control::CALL);
        self.predictor.advance(CALL_SHAPE);
        push_number(&mut self.calls, header.meta >> 8);
        push_number(&mut self.calls, header.word);
        for argument in arguments {
            push_number(&mut self.calls, argument.word);
            push_number(&mut self.calls, argument.meta);
        }
    }
}

const COMPUTE: u8 = OpKind::Compute as u8;
const LOAD: u8 = OpKind::Load as u8;
const STORE: u8 = OpKind::Store as u8;
const CALL: u8 = OpKind::Call as u8;
const SITE: u8 = OpKind::Site as u8;
const USED: u8 = OpKind::Used as u8;
const FLUSH: u8 = OpKind::Flush as u8;
const FENCE: u8 = OpKind::Fence as u8;
/// The codes of the first calls that came with versions of the format, the newest first.
const CALLS_SINCE: [(u64, u32); 4] =
    [(45, STAT_VERSION), (39, ADVICE_VERSION), (32, NAMES_VERSION), (28, FILES_VERSION)];
const SPLIT_CALL: &str = "a call without all of its arguments";

/// Four-bit codes, sixteen to a word.
#[derive(Default)]
struct Nibbles {
    bytes: Vec<u8>,
    word: u64,
    filled: u32,
}

impl Nibbles {
    fn reset(&mut self) {
        self.bytes.clear();
        (self.word, self.filled) = (0, 0);
    }

    #[inline]
    fn push(&mut self, code: u8) {
        self.word |= u64::from(code) << self.filled;
        self.filled += 4;
        if self.filled == 64 {
            self.bytes.extend_from_slice(&self.word.to_le_bytes());
            (self.word, self.filled) = (0, 0);
        }
    }

    fn finish(&mut self) -> &[u8] {
        let rest = self.filled.div_ceil(8) as usize;
        self.bytes.extend_from_slice(&self.word.to_le_bytes()[..rest]);
        (self.word, self.filled) = (0, 0);
        &self.bytes
    }
}

#[inline]
fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

#[inline]
fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Bytes that hold `value`, at least one.
#[inline]
fn significant_bytes(value: u64) -> usize {
    (8 - (value | 1).leading_zeros() / 8) as usize
}

/// A shape: kind, flags and size in one byte and the instructions after it, where they are usual;
/// else all of `meta`.
fn push_shape(out: &mut Vec<u8>, meta: u64) {
    let op = Op { word: 0, meta };
    let size = op.size();
    let usual =
        op.kind_code() < 4 && op.flags() < 4 && (size.is_power_of_two() && size <= 64 || size == 0);
    if !usual {
        out.push(WHOLE_META);
        return push_number(out, meta);
    }
    let size_code = if size == 0 { 7 } else { size.trailing_zeros() as u8 };
    out.push(op.kind_code() | op.flags() << 2 | size_code << 4);
    push_number(out, u64::from(op.instructions()));
}

/// A number, seven bits to a byte, low ones first.
fn push_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Decodes blocks. Keeps its memory from block to block.
pub struct Decoder {
    predictor: Predictor,
    /// Whether a block so far passed over a part of the program.
    pub skips: bool,
    /// The oldest version of the format that knows of all that blocks so far had, among those with operations of their own.
    pub since: u32,
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder { predictor: Predictor::new(), skips: false, since: OLDEST_VERSION }
    }
}

struct Columns<'a> {
    controls: &'a [u8],
    next_control: usize,
    shapes: &'a [u8],
    addresses: &'a [u8],
    calls: &'a [u8],
}

impl Decoder {
    /// Appends the `count` operations that `bytes` encodes to `out`.
    pub fn decode(
        &mut self,
        bytes: &[u8],
        count: usize,
        out: &mut Vec<Op>,
    ) -> Result<(), CodecError> {
        if count > MAX_BLOCK_OPS {
            return Err(CodecError("more operations than a block takes"));
        }
        self.predictor.reset();
        let mut columns = Columns::split(bytes)?;
        let end = out.len() + count;
        out.reserve(count);
        while out.len() < end {
            let code = columns.control()?;
            if code == control::CALL {
                self.call(&mut columns, end, out)?;
            } else if code < control::CALL {
                out.push(self.operation(code, &mut columns)?);
            } else if code == control::SITE || code == control::SITE_GIVEN {
                out.push(self.site(code, &mut columns)?);
            } else {
                return Err(CodecError("an unknown control code"));
            }
        }
        columns.check_empty()
    }

    #[inline]
    fn operation(&mut self, code: u8, columns: &mut Columns) -> Result<Op, CodecError> {
        let meta = if code & control::SHAPE == 0 {
            self.predictor.expected_shape()
        } else {
            columns.shape()?
        };
        self.predictor.shape(meta);
        match meta as u8 {
            LOAD | STORE if (Op { word: 0, meta }).dependence() > 1 => {
                self.since = self.since.max(DEPENDENCE_VERSION);
            }
            LOAD | STORE | FLUSH => {}
            USED => self.since = self.since.max(USES_VERSION),
            COMPUTE | FENCE if code & 3 == control::STRIDE => return Ok(Op { word: 0, meta }),
            _ => return Err(CodecError("an operation of an unknown kind")),
        }
        let previous = self.predictor.previous;
        let place = *self.predictor.place();
        let word = match code & 3 {
            control::STRIDE => place.last.wrapping_add(place.stride),
            control::OFFSET => previous.wrapping_add(place.offset),
            control::FROM_LAST => place.last.wrapping_add(columns.difference()? as u64),
            _ => previous.wrapping_add(columns.difference()? as u64),
        };
        self.predictor.note_address(word);
        Ok(Op { word, meta })
    }

    fn site(&mut self, code: u8, columns: &mut Columns) -> Result<Op, CodecError> {
        let number = if code == control::SITE {
            self.predictor.expected_site()
        } else {
            number(&mut columns.calls)?
        };
        self.predictor.site(number);
        let number =
            SiteId::try_from(number).map_err(|_| CodecError("a site's number is too long"));
        Ok(Op::site(number?))
    }

    fn call(
        &mut self,
        columns: &mut Columns,
        end: usize,
        out: &mut Vec<Op>,
    ) -> Result<(), CodecError> {
        self.predictor.advance(CALL_SHAPE);
        let rest = number(&mut columns.calls)?;
        if rest >> 56 != 0 {
            return Err(CodecError("a call's header is too long"));
        }
        let header = Op { meta: rest << 8 | u64::from(CALL), word: number(&mut columns.calls)? };
        if out.len() + 1 + header.size() as usize > end {
            return Err(CodecError(SPLIT_CALL));
        }
        let first = out.len();
        out.push(header);
        for _ in 0..header.size() {
            let word = number(&mut columns.calls)?;
            out.push(Op { word, meta: number(&mut columns.calls)? });
        }
        let call = Call::decode(header, &out[first + 1..]);
        self.skips |= matches!(call, Some(Call::Skip { .. }));
        if let Some(call) = call {
            let of_call = CALLS_SINCE.iter().find(|(first, _)| header.word >= *first);
            let has_buffers = call.further_buffers(header, &out[first + 1..]).len() > 0;
            let of_buffers = if has_buffers { FILES_VERSION } else { OLDEST_VERSION };
            let of_call = of_call.map_or(OLDEST_VERSION, |(_, version)| *version);
            self.since = self.since.max(of_call).max(of_buffers);
        }
        Ok(())
    }
}

impl<'a> Columns<'a> {
    fn split(bytes: &'a [u8]) -> Result<Self, CodecError> {
        let (lengths, mut rest) =
            bytes.split_at_checked(HEADER_BYTES).ok_or(CodecError("no column lengths"))?;
        let mut column = |index: usize| {
            let length = lengths[4 * index..4 * index + 4].try_into().unwrap_or_default();
            let (column, after) = rest
                .split_at_checked(u32::from_le_bytes(length) as usize)
                .ok_or(CodecError("a column is longer than its block"))?;
            rest = after;
            Ok(column)
        };
        let columns = Columns {
            controls: column(0)?,
            next_control: 0,
            shapes: column(1)?,
            addresses: column(2)?,
            calls: column(3)?,
        };
        if rest.is_empty() { Ok(columns) } else { Err(CodecError("bytes after the last column")) }
    }

    #[inline]
    fn control(&mut self) -> Result<u8, CodecError> {
        let byte = self
            .controls
            .get(self.next_control / 2)
            .ok_or(CodecError("the control column is too short"))?;
        let code = byte >> (4 * (self.next_control & 1)) & 15;
        self.next_control += 1;
        Ok(code)
    }

    fn shape(&mut self) -> Result<u64, CodecError> {
        let (byte, rest) =
            self.shapes.split_first().ok_or(CodecError("the shape column is too short"))?;
        self.shapes = rest;
        let number = number(&mut self.shapes)?;
        if *byte == WHOLE_META {
            return Ok(number);
        }
        let instructions =
            u32::try_from(number).map_err(|_| CodecError("more than 32 bits of instructions"))?;
        let size = match byte >> 4 & 7 {
            7 => 0,
            code => 1u64 << code,
        };
        let (kind, flags) = (u64::from(byte & 3), u64::from(byte >> 2 & 3));
        Ok(kind | flags << 8 | size << 16 | u64::from(instructions) << 32)
    }

    #[inline]
    fn difference(&mut self) -> Result<i64, CodecError> {
        let code = self.control()?;
        let length = (code & 7) as usize + 1;
        let (bytes, rest) = self
            .addresses
            .split_at_checked(length)
            .ok_or(CodecError("the address column is too short"))?;
        self.addresses = rest;
        let mut word = [0; 8];
        word[..length].copy_from_slice(bytes);
        let value = unzigzag(u64::from_le_bytes(word));
        Ok(if code & control::ALIGNED != 0 { value << 3 } else { value })
    }

    fn check_empty(&self) -> Result<(), CodecError> {
        let all_read = self.next_control.div_ceil(2) == self.controls.len()
            && self.shapes.is_empty()
            && self.addresses.is_empty()
            && self.calls.is_empty();
        if all_read { Ok(()) } else { Err(CodecError("a column is longer than its operations")) }
    }
}

/// Takes a number off the front of `bytes`.
fn number(bytes: &mut &[u8]) -> Result<u64, CodecError> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(CodecError("a number without its end"))?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            break;
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(CodecError("a number of more than 64 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Buffer, Call};
    use proptest::prelude::*;

    fn encoded(ops: &[Op]) -> Vec<u8> {
        let mut encoder = Encoder::default();
        assert_eq!(encoder.append(ops), Ok(ops.len()));
        let mut bytes = Vec::new();
        encoder.finish_block(&mut bytes);
        bytes
    }

    fn any_op() -> impl Strategy<Value = Vec<Op>> {
        let access = (1u8..5, 0u8..16, any::<u16>(), any::<u32>(), any::<u64>()).prop_map(
            |(kind, flags, size, instructions, word)| {
                vec![match kind {
                    1 => Op::new(OpKind::Load, flags, size, instructions, word),
                    2 => Op::new(OpKind::Store, flags, size, instructions, word),
                    3 => Op::flush(word, flags & 3, instructions),
                    _ => Op::fence(flags & 1, instructions),
                }]
            },
        );
        let usual =
            (0u8..2, 0u32..4, 0u32..9, 0u64..64).prop_map(|(kind, size, instructions, at)| {
                let kind = if kind == 0 { OpKind::Load } else { OpKind::Store };
                vec![Op::new(kind, 0, 1 << size, instructions, 0x7fff_0000_0000 + at * 8)]
            });
        let call = (any::<u64>(), any::<u64>(), any::<u32>(), any::<u32>()).prop_map(
            |(address, length, file, instructions)| {
                let mut ops = Vec::new();
                Call::Map { address, length, flags: 1, file, offset: length }
                    .encode(instructions, &mut ops);
                let further = vec![Buffer { address, length }; (length % 5) as usize];
                Call::Read { file, offset: length, length, address }.encode_with(
                    &further,
                    instructions,
                    &mut ops,
                );
                ops
            },
        );
        prop_oneof![
            2 => access,
            6 => usual,
            1 => any::<u32>().prop_map(|n| vec![Op::compute(n)]),
            1 => any::<u32>().prop_map(|n| vec![Op::site(n)]),
            1 => any::<(u64, bool)>().prop_map(|(at, written)| vec![Op::used(at, written)]),
            2 => (0u32..5).prop_map(|n| vec![Op::site(n)]),
            1 => call,
        ]
    }

    fn any_ops() -> impl Strategy<Value = Vec<Op>> {
        prop::collection::vec(any_op(), 0..300).prop_map(|ops| ops.concat())
    }

    proptest! {
        #[test]
        fn what_is_decoded_is_what_was_encoded(ops in any_ops()) {
            let bytes = encoded(&ops);
            prop_assert!(bytes.len() <= MAX_BLOCK_BYTES);
            let mut decoded = Vec::new();
            Decoder::default().decode(&bytes, ops.len(), &mut decoded).unwrap();
            prop_assert_eq!(decoded, ops);
        }

        #[test]
        fn random_bytes_never_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..400), count in 0usize..500
        ) {
            let mut out = Vec::new();
            let _ = Decoder::default().decode(&bytes, count, &mut out);
            prop_assert!(out.len() <= count);
        }

        #[test]
        fn flipped_bits_never_panic(
            ops in any_ops(), at in any::<prop::sample::Index>(), bit in 0u8..8
        ) {
            let mut bytes = encoded(&ops);
            let index = at.index(bytes.len());
            bytes[index] ^= 1 << bit;
            let mut out = Vec::new();
            let _ = Decoder::default().decode(&bytes, ops.len(), &mut out);
            prop_assert!(out.len() <= ops.len());
        }
    }

    #[test]
    fn a_regular_loop_costs_half_a_byte_an_access() {
        let ops: Vec<Op> = (0..20_000u64)
            .flat_map(|i| [Op::load(0x1000 + 8 * i, 8, 3), Op::store(0x90_0000 + 16 * i, 8, 2)])
            .collect();
        let bytes = encoded(&ops);
        assert!(bytes.len() < ops.len() / 2 + 200, "{} bytes", bytes.len());
    }

    #[test]
    fn the_sites_of_a_regular_loop_cost_as_little() {
        let ops: Vec<Op> = (0..10_000u64)
            .flat_map(|i| {
                let (load, store) = (Op::load(0x1000 + 8 * i, 8, 3), Op::store(0x90_0000, 8, 2));
                [Op::site(700), load, Op::site(701), store]
            })
            .collect();
        let bytes = encoded(&ops);
        assert!(bytes.len() < ops.len() / 2 + 200, "{} bytes", bytes.len());
    }

    #[test]
    fn a_call_that_lacks_arguments_is_refused() {
        let mut ops = Vec::new();
        Call::Read { file: 1, offset: 2, length: 3, address: 4 }.encode(1, &mut ops);
        ops.pop();
        let refused = Encoder::default().append(&ops);
        assert_eq!(refused, Err(CodecError(SPLIT_CALL)));
    }
}
