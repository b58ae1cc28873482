//! `blktrace`: the binary trace of Linux' blktrace, merged from its processors by `blkparse -d FILE`:
//! records of 48 bytes, each with what its length says behind it.
//!
//! What counts is as of `blkparse`: of the events of a request one, `Q` unless another is asked for;
//! reads, writes, discards (trims) and flushes, with the data behind a flush if there are any. Records
//! of the kernel itself (messages, names of processes) are left out. Sectors are of 512 bytes.

use super::format::{Messages, push_trim};
use super::{
    ChoiceError, Choices, Extent, Format, FormatOption, MOST_REQUEST_BYTES, Marks, Out, Parse,
    RequestKind, Times, TraceRequest, VOLUME, VOLUMES, Volume,
};

/// The format.
pub const FORMAT: Format = Format {
    name: "blktrace",
    summary: "Binary trace of blktrace, merged by blkparse -d: sectors of 512 bytes, nanoseconds",
    grammar: "48 bytes: u32 magic and version 7, u32 number, u64 nanoseconds, u64 sector, u32 bytes, \
              u32 action, u32 process, u32 device, u32 processor, u16 error, u16 bytes behind it",
    times: Times::Ps(1_000),
    epoch: true,
    extent: Extent::Sectors(512),
    marks: Marks { flush: true, trim: true, forced: true },
    options: &[VOLUME, VOLUMES, EVENT],
    source: "Linux include/uapi/linux/blktrace_api.h, struct blk_io_trace",
    parse: Parse::Messages(messages),
    write: Some(write),
    ..Format::PLAIN
};

const EVENT: FormatOption = FormatOption {
    name: "event",
    default: "Q",
    meaning: "Which event of blktrace is a request: Q (queued), D (issued to the driver) or I \
              (given to the scheduler).",
};

const HEAD_BYTES: usize = 48;
const MAGIC: u32 = 0x6561_7407;
/// The disk that is written: major number 8, minor 0.
const DISK: u32 = 8 << 20;
/// Events: the lower half of an action, without the flag of a control group.
const QUEUE: u32 = 1;
const ISSUE: u32 = 7;
const INSERT: u32 = 12;
const CGROUP: u32 = 1 << 8;
/// Categories: its upper half.
const READ: u32 = 1 << 16;
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const QUEUE_CATEGORY: u32 = 1 << 20;
const NOTIFY: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;
const FORCED: u32 = 1 << 31;

fn messages(choices: &Choices) -> Result<Box<dyn Messages>, ChoiceError> {
    let event = match choices.get(EVENT.name).map_or("Q", String::as_str) {
        "Q" => QUEUE,
        "D" => ISSUE,
        "I" => INSERT,
        other => {
            return Err(ChoiceError {
                name: EVENT.name,
                value: other.to_owned(),
                reason: "it is no event by which a request comes".into(),
                mend: "write Q, D or I".into(),
            });
        }
    };
    Ok(Box::new(Blktrace {
        event,
        volume: Volume::of(choices)?,
        before: None,
        name: String::new(),
    }))
}

#[derive(Clone)]
struct Blktrace {
    event: u32,
    volume: Volume,
    /// The device of the request before, and its name.
    before: Option<u32>,
    name: String,
}

impl Blktrace {
    #[inline]
    fn place(&mut self, device: u32, address: u64, bytes: u64) -> Result<Option<u64>, String> {
        if self.before != Some(device) {
            self.name = format!("{},{}", device >> 20, device & 0xf_ffff);
            self.before = Some(device);
        }
        self.volume.place(&self.name, address, bytes)
    }
}

fn short(record: &[u8], at: usize) -> u32 {
    record.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn long(record: &[u8], at: usize) -> u64 {
    u64::from(short(record, at)) | u64::from(short(record, at + 4)) << 32
}

/// A queued request of the disk 8,0, by process 0 on processor 0; numbers of the kernel's own are 0.
fn write(request: &TraceRequest, to: &mut Vec<u8>) {
    let category = match request.kind {
        RequestKind::Read => READ,
        RequestKind::Write => WRITE,
        RequestKind::ForcedWrite => WRITE | FORCED,
        RequestKind::Flush => WRITE | FLUSH,
        RequestKind::Trim => WRITE | DISCARD,
    };
    let action = category | QUEUE_CATEGORY | QUEUE;
    to.extend_from_slice(&MAGIC.to_le_bytes());
    to.extend_from_slice(&0u32.to_le_bytes());
    to.extend_from_slice(&request.ticks.unwrap_or(0).to_le_bytes());
    to.extend_from_slice(&(request.address / 512).to_le_bytes());
    for word in [request.bytes, action, 0, DISK, 0, 0] {
        to.extend_from_slice(&word.to_le_bytes());
    }
}

impl Messages for Blktrace {
    fn needs(&self, begun: &[u8]) -> Result<usize, String> {
        if begun.len() < HEAD_BYTES {
            return Ok(HEAD_BYTES);
        }
        let magic = short(begun, 0);
        if magic == MAGIC.swap_bytes() {
            return Err("it is of a computer of the other order of bytes".into());
        }
        if magic != MAGIC {
            return Err("it does not begin with the magic number and version 7 of blktrace".into());
        }
        Ok(HEAD_BYTES + (short(begun, 44) >> 16) as usize)
    }

    fn read(&mut self, record: &[u8], out: &mut Out) -> Result<bool, String> {
        let action = short(record, 28);
        if action & NOTIFY != 0 || action & 0xffff & !CGROUP != self.event {
            return Ok(true);
        }
        let kind = match action {
            _ if action & DISCARD != 0 => Some(RequestKind::Trim),
            _ if action & WRITE != 0 && action & FORCED != 0 => Some(RequestKind::ForcedWrite),
            _ if action & WRITE != 0 => Some(RequestKind::Write),
            _ if action & READ != 0 => Some(RequestKind::Read),
            _ => None,
        };
        let flush = action & FLUSH != 0;
        let device = short(record, 36);
        // What moves nothing is at the volume's beginning.
        if !(flush || kind.is_some()) || self.place(device, 0, 0)?.is_none() {
            return Ok(true);
        }
        let ticks = Some(long(record, 8));
        if flush {
            let kind = RequestKind::Flush;
            out.push_back(TraceRequest { kind, ticks, ..TraceRequest::default() });
        }
        let (sector, bytes) = (long(record, 16), short(record, 24));
        let address = sector.checked_mul(512).ok_or("its sector lies beyond 2^64 - 1 bytes")?;
        // A flush, or a command without data.
        if bytes == 0 {
            return Ok(true);
        }
        let Some(address) = self.place(device, address, bytes.into())? else { return Ok(true) };
        match kind {
            Some(RequestKind::Trim) => push_trim(address, u64::from(bytes), ticks, out)?,
            Some(_) if bytes > MOST_REQUEST_BYTES => {
                return Err(format!("it has {bytes} bytes, more than 1 GiB"));
            }
            Some(kind) => out.push_back(TraceRequest { address, bytes, kind, ticks }),
            None => {}
        }
        Ok(true)
    }

    fn volume(&mut self) -> Option<&mut Volume> {
        Some(&mut self.volume)
    }

    fn fork(&self) -> Box<dyn Messages> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::RequestSource;
    use super::super::tests::Scratch;
    use super::*;

    /// A record, with so many bytes behind it.
    fn record(action: u32, ns: u64, sector: u64, bytes: u32, device: u32, behind: u16) -> Vec<u8> {
        let mut record = MAGIC.to_le_bytes().to_vec();
        record.extend(7u32.to_le_bytes());
        record.extend(ns.to_le_bytes());
        record.extend(sector.to_le_bytes());
        for word in [bytes, action, 697, device, 0] {
            record.extend(word.to_le_bytes());
        }
        record.extend([0, 0]);
        record.extend(behind.to_le_bytes());
        record.resize(HEAD_BYTES + usize::from(behind), 0xee);
        record
    }

    #[test]
    fn one_event_of_each_request_is_taken() {
        let disk = 8 << 20;
        let queue = 1 << 20;
        let bytes = [
            record(NOTIFY, 1, 0, 0, 0, 16),
            record(QUEUE | queue | READ, 100, 8, 4096, disk, 0),
            record(ISSUE | READ, 150, 8, 4096, disk, 0),
            record(QUEUE | CGROUP | queue | WRITE | FLUSH | FORCED, 200, 16, 512, disk, 8),
            record(QUEUE | queue | WRITE | FLUSH, 300, 0, 0, disk, 0),
            record(QUEUE | queue | WRITE | DISCARD, 400, 64, 1 << 20, disk, 0),
        ]
        .concat();
        let file = Scratch::new(&bytes);
        let read = |said: &[(&str, &str)]| {
            let mut reader = file.open_with("blktrace", said).unwrap();
            std::iter::from_fn(|| reader.next().unwrap()).collect::<Vec<_>>()
        };
        let told: Vec<_> = read(&[])
            .iter()
            .map(|one| (one.kind.name(), one.address, one.bytes, one.ticks))
            .collect();
        let expected = [
            ("read", 4096, 4096, Some(0)),
            ("flush", 0, 0, Some(100)),
            ("forced write", 8192, 512, Some(100)),
            ("flush", 0, 0, Some(200)),
            ("trim", 64 * 512, 1 << 20, Some(300)),
        ];
        assert_eq!(told, expected);
        assert_eq!(read(&[("event", "D"), ("volume", "8,0")]).len(), 1);
        let mut written = Vec::new();
        for one in read(&[]) {
            write(&one, &mut written);
        }
        let expected = [
            record(QUEUE | queue | READ, 0, 8, 4096, disk, 0),
            record(QUEUE | queue | WRITE | FLUSH, 100, 0, 0, disk, 0),
            record(QUEUE | queue | WRITE | FORCED, 100, 16, 512, disk, 0),
            record(QUEUE | queue | WRITE | FLUSH, 200, 0, 0, disk, 0),
            record(QUEUE | queue | WRITE | DISCARD, 300, 64, 1 << 20, disk, 0),
        ];
        let bare = expected.map(|mut record| {
            // Neither number nor process.
            record[4..8].fill(0);
            record[32..36].fill(0);
            record
        });
        assert_eq!(written, bare.concat());
        let mut other = bytes[..64].to_vec();
        other[..4].reverse();
        let told = Scratch::new(&other).said("blktrace");
        assert!(told.contains("other order of bytes"), "{told}");
        let told = Scratch::new(&bytes[..bytes.len() - 1]).said("blktrace");
        assert!(told.contains("ends in the middle of a record, after 47 of 48 bytes"), "{told}");
    }
}
