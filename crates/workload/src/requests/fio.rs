//! `fio`: what fio writes with `write_iolog` and replays with `read_iolog`, in version 2 or 3.
//!
//! Version 3 has a time in microseconds before each line. Version 2 has none; its `wait` says until how many milliseconds
//! from the start fio waits (`read_iolog_get`, as of 3.33; HOWTO.rst says microseconds since the `wait` before, which the
//! program does not do), so that requests behind one have a time, and those before the first come as fast as they are taken. Offsets and sizes are in bytes; a volume
//! is a file. Of `sync`, `datasync` and `sync_file_range` becomes a flush.

use super::format::push_trim;
use super::words::{bytes, trimmed, whole};
use super::{
    ChoiceError, Choices, Extent, Format, FormatOption, Marks, OF_VOLUMES, Out, Parse, Read,
    RequestKind, Script, Times, TraceRequest, Volume, WriteScript, Writer,
};
use std::cell::Cell;
use std::io::Write;

/// The format.
pub const FORMAT: Format = Format {
    name: "fio",
    summary: "I/O log of fio, version 2 or 3: file, what is done, offset and length in bytes",
    grammar: "[MICROSECONDS] FILE read|write|trim|sync|datasync|sync_file_range OFFSET LENGTH (and \
              add, open, close, wait)",
    example: "878 /dev/nvme0n1 write 0 16384",
    opening: b"fio version 3 iolog\n0 tierscope add\n0 tierscope open\n",
    times: Times::Ps(1_000_000),
    extent: Extent::Bytes,
    marks: Marks { flush: true, trim: true, forced: false },
    options: OF_VOLUMES,
    source: "axboe/fio:iolog.c and HOWTO.rst, trace file format v2 and v3",
    parse: Parse::Script(script),
    writer: Some(Writer {
        options: &[VERSION],
        new: |choices| Ok(Box::new(Written::of(choices)?)),
    }),
    ..Format::PLAIN
};

fn script(choices: &Choices) -> Result<Box<dyn Script>, ChoiceError> {
    Ok(Box::new(Fio { version: None, waited_us: None, volume: Volume::of(choices)? }))
}

#[derive(Clone)]
struct Fio {
    /// What the first line said.
    version: Option<u32>,
    /// Of version 2, until when was waited, once it was.
    waited_us: Option<u64>,
    volume: Volume,
}

impl Script for Fio {
    fn read(&mut self, line: &str, out: &mut Out) -> Result<Read, String> {
        match self.version {
            None => self.version = Some(version(line)?),
            Some(3) => {
                let (when, rest) = line
                    .split_once(|one: char| one.is_ascii_whitespace())
                    .ok_or("it has 1 word, not a time, a file and what is done")?;
                let ticks = Some(whole(when, "a time in microseconds")?);
                self.action(rest, ticks, out)?;
            }
            Some(_) => self.action(line, self.waited_us, out)?,
        }
        Ok(Read::Goes)
    }

    fn volume(&mut self) -> Option<&mut Volume> {
        Some(&mut self.volume)
    }

    fn fork(&self) -> Box<dyn Script> {
        Box::new(self.clone())
    }
}

fn version(line: &str) -> Result<u32, String> {
    match line {
        "fio version 2 iolog" => Ok(2),
        "fio version 3 iolog" => Ok(3),
        _ => Err("the first line is `fio version 2 iolog` or `fio version 3 iolog`".into()),
    }
}

impl Fio {
    fn action(&mut self, text: &str, ticks: Option<u64>, out: &mut Out) -> Result<(), String> {
        let mut words = text.split_ascii_whitespace();
        let (file, what) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let (first, second) = (words.next(), words.next());
        if words.next().is_some() {
            return Err("it has words behind its length".into());
        }
        let kind = match (what, first) {
            ("add" | "open" | "close", None) => return Ok(()),
            ("wait", Some(time)) if self.version == Some(2) => return self.wait(time),
            ("read", _) => RequestKind::Read,
            ("write", _) => RequestKind::Write,
            ("trim", _) => RequestKind::Trim,
            ("sync" | "datasync" | "sync_file_range", _) => RequestKind::Flush,
            _ => return Err(format!("`{what}` is nothing that a log of fio does")),
        };
        let request = if kind == RequestKind::Flush {
            TraceRequest { address: 0, bytes: 0, kind, ticks }
        } else {
            let (Some(offset), Some(length)) = (first, second) else {
                return Err(format!("{what} has no offset and length"));
            };
            let address = whole(offset, "an offset in bytes")?;
            if kind == RequestKind::Trim {
                let bytes = trimmed(length)?;
                return match self.volume.place(file, address, bytes)? {
                    Some(address) => push_trim(address, bytes, ticks, out),
                    None => Ok(()),
                };
            }
            TraceRequest { address, bytes: bytes(length)?, kind, ticks }
        };
        let bytes = request.bytes.into();
        if let Some(address) = self.volume.place(file, request.address, bytes)? {
            out.push_back(TraceRequest { address, ..request });
        }
        Ok(())
    }

    fn wait(&mut self, time: &str) -> Result<(), String> {
        let until_ms = whole(time, "a time in milliseconds")?;
        let until_us = until_ms.checked_mul(1000).ok_or("it waits for too long")?;
        // What is over is not waited for.
        self.waited_us = self.waited_us.max(Some(until_us));
        Ok(())
    }
}

/// The option that says which version is written.
const VERSION: FormatOption = FormatOption {
    name: "version",
    default: "3",
    meaning: "2 or 3: version 2 has no times, but until when fio waits, in whole milliseconds.",
};

/// How a log is written.
struct Written {
    version: u32,
    /// Of version 2, until when was waited, once it was.
    waited_ms: Cell<Option<u64>>,
}

impl Written {
    fn of(choices: &Choices) -> Result<Written, ChoiceError> {
        let version = match choices.get(VERSION.name).map_or(VERSION.default, String::as_str) {
            "2" => 2,
            "3" => 3,
            said => {
                return Err(ChoiceError {
                    name: VERSION.name,
                    value: said.into(),
                    reason: "a log of fio is of version 2 or 3".into(),
                    mend: "write 2, or 3".into(),
                });
            }
        };
        Ok(Written { version, waited_ms: Cell::new(None) })
    }

    /// Of version 2, the wait until the time of a request. fio takes it with a length alone.
    fn wait(&self, when_ms: u64, to: &mut Vec<u8>) {
        if self.waited_ms.get().is_none_or(|waited_ms| when_ms > waited_ms) {
            let _ = writeln!(to, "tierscope wait {when_ms} 0");
            self.waited_ms.set(Some(when_ms));
        }
    }
}

impl WriteScript for Written {
    fn opening(&self) -> Option<&'static [u8]> {
        (self.version == 2).then_some(b"fio version 2 iolog\ntierscope add\ntierscope open\n")
    }

    fn loses(&self) -> &'static str {
        if self.version == 2 { "times are in whole milliseconds" } else { "" }
    }

    fn write(&self, request: &TraceRequest, to: &mut Vec<u8>) {
        let what = match request.kind {
            RequestKind::Read => "read",
            RequestKind::Write | RequestKind::ForcedWrite => "write",
            RequestKind::Trim => "trim",
            RequestKind::Flush => "sync",
        };
        let TraceRequest { address, bytes, .. } = request;
        let when_us = request.ticks.unwrap_or(0);
        if self.version == 2 {
            self.wait(when_us / 1000, to);
        } else {
            let _ = write!(to, "{when_us} ");
        }
        let _ = writeln!(to, "tierscope {what} {address} {bytes}");
    }
}
