//! `gem5`: the packet traces of gem5's communication monitor and traffic generators, in protocol buffers:
//! `gem5`, a header, then packets, each behind its length.
//!
//! Packets of the commands ReadReq (1) and WriteReq (4) are requests; all others are left out, and their
//! number is told. Flags and addresses of instructions are left out. gem5 compresses what is named `.gz`.
//!
//! Where the header names requestors (`id_strings`), as a MemTraceProbe's does, the identifier of a packet
//! is that of its requestor (`src/mem/probes/mem_trace.cc`), and each is a thread on a machine with a
//! processor: a core's data cache is one, and its instruction cache another. There each packet counts as
//! an instruction, and ticks are left out. A packet without an identifier is of 0, as a number that is absent
//! has its default in protocol buffers (proto2). Traces without names are of one thread. Addresses are those of one
//! memory, which all threads share.

use super::format::{Messages, OfProgram, Program, Several};
use super::{
    ChoiceError, Choices, Extent, Format, MOST_REQUEST_BYTES, Out, Parse, RequestKind, Times, Told,
    TraceRequest,
};

/// The format.
pub const FORMAT: Format = Format {
    name: "gem5",
    summary: "Packet trace of gem5 (protocol buffers): tick, command, address, bytes",
    grammar: "`gem5`, a PacketHeader, and Packets, each behind its length, as gem5 writes them",
    // A header: the object `tierscope`, and 10^12 ticks a second.
    opening: b"gem5\x12\x0a\x09tierscope\x18\x80\xa0\x94\xa5\x8d\x1d",
    times: Times::Ps(1),
    epoch: true,
    extent: Extent::Bytes,
    left_out: Some("packets that are neither ReadReq nor WriteReq"),
    source: "gem5/gem5@0cf61bf:src/proto/packet.proto, src/proto/protoio.hh, \
             util/decode_packet_trace.py",
    parse: Parse::Messages(messages),
    write: Some(write),
    program: Some(OfProgram { new: || Box::new(Requestors::default()), several: Several::No }),
    ..Format::PLAIN
};

const MAGIC: &[u8] = b"gem5";
/// A second has so many picoseconds.
const SECOND_PS: u64 = 1_000_000_000_000;
/// Bytes of a message at most: headers name the objects of a simulation.
const MOST_MESSAGE_BYTES: u64 = 1 << 24;
/// Fields of a header, and of a packet.
const TICKS_A_SECOND: usize = 3;
const COMMAND: usize = 2;
const READ_REQUEST: u64 = 1;
const WRITE_REQUEST: u64 = 4;

fn messages(_: &Choices) -> Result<Box<dyn Messages>, ChoiceError> {
    Ok(Box::new(Gem5 { tick_ps: None, begun: false }))
}

#[derive(Clone)]
struct Gem5 {
    /// What the header says.
    tick_ps: Option<u64>,
    /// Whether the magic number was read.
    begun: bool,
}

/// Why there is no number.
#[derive(Clone, Copy)]
enum No {
    /// It goes on behind the bytes.
    End,
    TooLong,
}

impl From<No> for String {
    fn from(no: No) -> String {
        match no {
            No::End => "it ends in the middle of a number".into(),
            No::TooLong => "a number of it has more than 64 bits".into(),
        }
    }
}

/// A number in groups of seven bits, the lowest first, and the bytes that it took.
#[inline]
fn varint(bytes: &[u8]) -> Result<(u64, usize), No> {
    let mut value = 0u64;
    for (place, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * place);
        if *byte < 0x80 {
            // Of the tenth byte one bit is left.
            return if place == 9 && *byte > 1 { Err(No::TooLong) } else { Ok((value, place + 1)) };
        }
    }
    Err(if bytes.len() < 10 { No::End } else { No::TooLong })
}

/// A number that ends within the eight bytes of a word, the lowest first, and how many it takes; without a branch for
/// each, as numbers are of any length.
#[inline]
fn short_varint(word: u64) -> Option<(u64, usize)> {
    let ends = !word & 0x8080_8080_8080_8080;
    // All bits up to the first byte that ends it; then neighbours are pushed together.
    let groups = word & (ends ^ ends.wrapping_sub(1)) & 0x7f7f_7f7f_7f7f_7f7f;
    let pairs = groups & 0x007f_007f_007f_007f | (groups & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = pairs & 0x0000_3fff_0000_3fff | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    let value = fours & 0x0fff_ffff | (fours >> 32 & 0x0fff_ffff) << 28;
    (ends != 0).then_some((value, ends.trailing_zeros() as usize / 8 + 1))
}

/// Finds the first four fields of a packet, where they are what all writers begin with: numbers in order, of up to 56
/// bits. How many bytes they take.
#[inline]
fn first_fields(message: &[u8], found: &mut [u64; 8]) -> Option<usize> {
    let last = message.len().checked_sub(8)?;
    let mut at = 0;
    for (field, place) in (1..5).zip(&mut found[1..5]) {
        if message.get(at).is_none_or(|tag| *tag != field << 3) || at + 1 == message.len() {
            return None;
        }
        // Near the end, the last eight bytes, of which the first are behind us already.
        let start = last.min(at + 1);
        let word = u64::from_le_bytes(*message[start..].first_chunk()?);
        let (value, length) = short_varint(word >> (8 * (at + 1 - start)))?;
        *place = value;
        at += 1 + length;
    }
    (at <= message.len()).then_some(at)
}

/// Takes a number off the front of a message.
#[inline]
fn take(message: &mut &[u8]) -> Result<u64, No> {
    let (value, length) = varint(message)?;
    *message = &message[length..];
    Ok(value)
}

/// The last numbers of each field up to 7 of a message.
struct Fields {
    values: [u64; 8],
    /// Which of them there are, a bit each.
    there: u8,
}

impl Fields {
    #[inline(always)]
    fn of(message: &[u8]) -> Result<Fields, String> {
        let mut found = Fields { values: [0; 8], there: 0 };
        let mut rest = message;
        if let Some(length) = first_fields(message, &mut found.values) {
            found.there = 0b1_1110;
            rest = &message[length..];
        }
        each_field(rest, |tag, value| {
            if tag & 7 == 0
                && let Some(place) = found.values.get_mut((tag >> 3) as usize)
            {
                *place = value;
                found.there |= 1 << (tag >> 3);
            }
        })?;
        Ok(found)
    }

    #[inline]
    fn get(&self, field: usize) -> Option<u64> {
        (self.there >> field & 1 == 1).then_some(self.values[field])
    }
}

/// Hands over number and kind of each field of a message, and the value of those that are numbers.
#[inline]
fn each_field(mut message: &[u8], mut field: impl FnMut(u64, u64)) -> Result<(), String> {
    while !message.is_empty() {
        let tag = take(&mut message)?;
        let skipped = match tag & 7 {
            0 => {
                field(tag, take(&mut message)?);
                continue;
            }
            1 => 8,
            2 => take(&mut message)?,
            5 => 4,
            other => return Err(format!("it has a field of the unknown kind {other}")),
        };
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        message = message.get(skipped..).ok_or("a field of it goes beyond its end")?;
        field(tag, 0);
    }
    Ok(())
}

/// A trace on its way to a processor.
#[derive(Clone, Default)]
struct Requestors {
    /// Messages read, up to the header.
    read: u8,
    /// Whether the header names them.
    named: bool,
}

impl Program for Requestors {
    fn read(&mut self, message: &[u8], told: &mut Told) -> Result<(), String> {
        const ID_STRINGS: u64 = 4;
        if self.read == 0 {
            self.read = 1;
            return Ok(());
        }
        let (_, before) = varint(message)?;
        let message = &message[before..];
        if self.read == 1 {
            self.read = 2;
            return each_field(message, |tag, _| self.named |= tag >> 3 == ID_STRINGS);
        }
        if !self.named {
            return Ok(());
        }
        const REQUESTOR: usize = 6;
        let found = Fields::of(message)?;
        match found.get(COMMAND) {
            Some(READ_REQUEST | WRITE_REQUEST) => told.thread(found.get(REQUESTOR).unwrap_or(0)),
            _ => Ok(()),
        }
    }

    fn of_requests(&self) -> bool {
        true
    }

    fn fork(&self) -> Box<dyn Program> {
        Box::new(self.clone())
    }
}

/// Appends a number in groups of seven bits, the lowest first.
fn put(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn write(request: &TraceRequest, to: &mut Vec<u8>) {
    let command = if request.is_write() { WRITE_REQUEST } else { READ_REQUEST };
    let numbers = [request.ticks.unwrap_or(0), command, request.address, u64::from(request.bytes)];
    // Four fields of 11 bytes at most: the length takes one byte.
    let start = to.len();
    to.push(0);
    for (field, number) in (1..).zip(numbers) {
        put(field << 3, to);
        put(number, to);
    }
    to[start] = (to.len() - start - 1) as u8;
}

impl Messages for Gem5 {
    fn needs(&self, begun: &[u8]) -> Result<usize, String> {
        if !self.begun {
            return Ok(MAGIC.len());
        }
        match varint(begun) {
            Err(No::End) => Ok(begun.len() + 1),
            Err(no) => Err(no.into()),
            Ok((length, _)) if length > MOST_MESSAGE_BYTES => {
                Err(format!("it says that it has {length} bytes, more than 16 MiB"))
            }
            Ok((length, before)) => Ok(before + length as usize),
        }
    }

    fn read(&mut self, message: &[u8], out: &mut Out) -> Result<bool, String> {
        if !self.begun {
            self.begun = true;
            let right = message == MAGIC;
            return if right { Ok(true) } else { Err("it does not begin with `gem5`".into()) };
        }
        let (_, before) = varint(message)?;
        let found = Fields::of(&message[before..])?;
        if self.tick_ps.is_none() {
            let per_second =
                found.get(TICKS_A_SECOND).ok_or("its header has no frequency of ticks")?;
            let whole = per_second > 0 && SECOND_PS.is_multiple_of(per_second);
            self.tick_ps = Some(if whole { SECOND_PS / per_second } else { 0 });
            return if whole {
                Ok(true)
            } else {
                Err(format!("its ticks, {per_second} a second, are not of whole picoseconds"))
            };
        }
        if found.there & 0b1_1110 != 0b1_1110 {
            return Err("it lacks its tick, command, address or size".into());
        }
        let [_, tick, command, address, bytes, ..] = found.values;
        // Which of both it is, is not to be guessed by a branch.
        if command & !(READ_REQUEST | WRITE_REQUEST) != 0 || command.count_ones() != 1 {
            return Ok(false);
        }
        let kind = RequestKind::of(command == WRITE_REQUEST);
        if bytes == 0 || bytes > u64::from(MOST_REQUEST_BYTES) {
            return Err(format!("its size is {bytes} bytes, not from 1 to 2^30"));
        }
        out.push_back(TraceRequest { address, bytes: bytes as u32, kind, ticks: Some(tick) });
        Ok(true)
    }

    fn times(&self) -> Option<Times> {
        self.tick_ps.map(Times::Ps)
    }

    fn fork(&self) -> Box<dyn Messages> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Scratch;
    use super::super::{ProgramTrace, RequestSource};
    use super::*;
    use crate::op::Op;
    use crate::stream::{Pull, Stream};

    #[test]
    fn a_number_of_any_length_is_read_as_it_was_written() {
        for bits in 0..=64 {
            let number = if bits == 0 { 0 } else { u64::MAX >> (64 - bits) };
            for number in [number, number & 0x5555_5555_5555_5555] {
                let mut bytes = Vec::new();
                put(number, &mut bytes);
                let length = bytes.len();
                assert!(matches!(varint(&bytes), Ok((it, l)) if it == number && l == length));
                assert!(matches!(varint(&bytes[..length - 1]), Err(No::End)));
                if length <= 8 {
                    let mut eight = [0xff; 8];
                    eight[..length].copy_from_slice(&bytes);
                    assert_eq!(short_varint(u64::from_le_bytes(eight)), Some((number, length)));
                } else {
                    assert_eq!(
                        short_varint(u64::from_le_bytes(*bytes.first_chunk().unwrap())),
                        None
                    );
                }
                bytes.extend([0xff; 9]);
                assert!(matches!(varint(&bytes), Ok((it, l)) if it == number && l == length));
            }
        }
        let beyond = [[0x80; 9].to_vec(), vec![2]].concat();
        assert!(matches!(varint(&beyond), Err(No::TooLong)));
    }

    #[test]
    fn fields_are_found_in_whatever_order_and_length_they_come() {
        let inner = |fields: &[(u64, u64)]| message(fields, "")[1..].to_vec();
        for tick in [0, 127, 128, u64::from(u32::MAX), 1 << 55, 1 << 56, u64::MAX] {
            for more in [&[][..], &[(5, 9)], &[(5, 9), (6, tick)]] {
                let first = [(1, tick), (2, 1), (3, tick / 3), (4, 64)];
                let all = [&first[..], more].concat();
                let mut turned = all.clone();
                turned.reverse();
                for bytes in [inner(&all), inner(&turned)] {
                    let found = Fields::of(&bytes).unwrap();
                    let expected = [Some(tick), Some(1), Some(tick / 3), Some(64)];
                    assert_eq!([1, 2, 3, 4].map(|field| found.get(field)), expected);
                    assert_eq!(found.get(6), (more.len() == 2).then_some(tick));
                }
            }
        }
        // The last of a field that comes twice counts; a message that is cut has none.
        let twice = inner(&[(1, 1), (2, 1), (3, 1), (4, 8), (3, 700)]);
        assert_eq!(Fields::of(&twice).unwrap().get(3), Some(700));
        assert!(Fields::of(&twice[..twice.len() - 1]).is_err());
        let cut = inner(&[(1, 1), (2, 1), (3, 1), (4, 300)]);
        assert!(Fields::of(&cut[..cut.len() - 1]).is_err());
    }

    /// A message of number fields, behind its length.
    fn message(fields: &[(u64, u64)], text: &str) -> Vec<u8> {
        let mut inner = Vec::new();
        if !text.is_empty() {
            inner.extend([1 << 3 | 2, text.len() as u8]);
            inner.extend(text.as_bytes());
        }
        for (field, value) in fields {
            put(field << 3, &mut inner);
            put(*value, &mut inner);
        }
        let mut all = Vec::new();
        put(inner.len() as u64, &mut all);
        all.extend(inner);
        all
    }

    fn packet(tick: u64, command: u64, address: u64, bytes: u64) -> Vec<u8> {
        message(&[(1, tick), (2, command), (3, address), (4, bytes), (6, 99)], "")
    }

    fn trace(per_second: u64, packets: &[Vec<u8>]) -> Vec<u8> {
        [MAGIC.to_vec(), message(&[(3, per_second)], "system.monitor"), packets.concat()].concat()
    }

    #[test]
    fn packets_that_read_or_write_are_requests() {
        let packets = [
            packet(5_000, 1, 0x1234_5678_9abc, 64),
            packet(6_000, 2, 0, 8),
            packet(7_500, 4, 1 << 40, 300),
        ];
        let file = Scratch::new(&trace(1_000_000_000, &packets));
        let mut reader = file.open("gem5").unwrap();
        assert_eq!(reader.times(), Times::Ps(1000), "known before the first is read");
        let read: Vec<_> = std::iter::from_fn(|| reader.next().unwrap()).collect();
        let told: Vec<_> =
            read.iter().map(|one| (one.is_write(), one.address, one.bytes, one.ticks)).collect();
        let expected = [(false, 0x1234_5678_9abc, 64, Some(0)), (true, 1 << 40, 300, Some(2500))];
        assert_eq!(told, expected);
        let remarks = reader.remarks();
        assert!(remarks[0].starts_with("1 packets that are neither"), "{remarks:?}");
    }

    #[test]
    fn requestors_are_threads_where_the_header_names_them() {
        let of = |requestor: u64, at: u64| {
            message(&[(1, 5), (2, 1), (3, at), (4, 64), (6, requestor)], "")
        };
        let nobodys = message(&[(1, 5), (2, 1), (3, 256), (4, 64)], "");
        let packets = [of(7, 64), nobodys, of(2, 128), of(7, 192), of(0, 320)].concat();
        for (names, expected) in [
            (0, vec![vec![64, 256, 128, 192, 320], vec![], vec![]]),
            (2, vec![vec![64, 192], vec![256, 320], vec![128]]),
        ] {
            let mut header = message(&[(3, 1_000_000_000)], "probe");
            for _ in 0..names {
                header.extend([4 << 3 | 2, 2, 1 << 3, 7]);
            }
            header[0] = (header.len() - 1) as u8;
            let file = Scratch::new(&[MAGIC.to_vec(), header, packets.clone()].concat());
            let choices = Choices::new();
            let files = [file.0.clone()];
            let mut stream = ProgramTrace::open(&files, &FORMAT, &choices, 3).unwrap();
            let found = [0, 1, 2].map(|thread| {
                let mut ops = Vec::new();
                while stream.pull(thread, 9, &mut ops).unwrap() == Pull::More {}
                let loads = ops.iter().filter(|op| **op == Op::load(op.word, 64, 1));
                loads.map(|op| op.word).collect::<Vec<u64>>()
            });
            assert_eq!(found.to_vec(), expected);
        }
    }

    /// What is written is what gem5's own tools would write of the same packets, flags left out.
    #[test]
    fn a_packet_is_written_as_a_message() {
        let mut written = FORMAT.opening.to_vec();
        let (kind, ticks) = (RequestKind::Write, Some(7_500));
        write(&TraceRequest { address: 1 << 40, bytes: 300, kind, ticks }, &mut written);
        let of = message(&[(1, 7_500), (2, 4), (3, 1 << 40), (4, 300)], "");
        let header = message(&[(3, 1_000_000_000_000)], "tierscope");
        assert_eq!(written, [MAGIC.to_vec(), header, of].concat());
    }

    #[test]
    fn what_is_no_such_trace_is_told() {
        let one = [packet(1, 1, 64, 64)];
        let cut = trace(1_000_000_000_000, &one);
        for (bytes, why) in [
            (b"gem4 and more".to_vec(), "it does not begin with `gem5`"),
            (cut[..cut.len() - 1].to_vec(), "ends in the middle of a record"),
            (trace(7, &one), "not of whole picoseconds"),
            (trace(1, &[message(&[(1, 5)], "")]), "it lacks its tick, command"),
            (trace(1, &[vec![0xff; 12]]), "more than 64 bits"),
            (trace(1, &[vec![0xff, 0xff, 0xff, 0x7f]]), "more than 16 MiB"),
            (trace(1, &[vec![2, 0x0b, 0]]), "of the unknown kind 3"),
        ] {
            let told = Scratch::new(&bytes).said("gem5");
            assert!(told.contains(why), "{told}");
        }
    }
}
