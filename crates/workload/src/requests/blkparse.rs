//! `blkparse`: what blkparse prints of a trace of blktrace, in its default form: device, processor,
//! number, seconds, process, event, what is done, first sector `+` sectors, and the program.
//!
//! Of the events of a request one is taken: `Q`, when it was queued, or another that is asked for,
//! such as `D`, when it was issued to the driver. Sectors are of 512 bytes; a volume is a device
//! (`8,0`). What is done is told by letters: `R`, `W`, `D` (discard: a trim); an `F` before them is a
//! flush, with the data behind it if there are any, and an `F` behind a `W` says that the write is forced
//! (`REQ_FUA`; `blk_fill_rwbs` of Linux). All other letters are left out, and so is the summary at the end.

use super::format::push_trim;
use super::words::{seconds, sectors, trimmed_sectors};
use super::{
    ChoiceError, Choices, Extent, Format, FormatOption, Marks, Out, Parse, Read, RequestKind,
    Script, Times, TraceRequest, VOLUME, VOLUMES, Volume,
};
use std::io::Write;

/// The format.
pub const FORMAT: Format = Format {
    name: "blkparse",
    summary: "Text of blkparse, of a trace of blktrace: sectors of 512 bytes, seconds",
    grammar: "MAJOR,MINOR CPU NUMBER SECONDS PID EVENT RWBS SECTOR + SECTORS [PROGRAM]",
    example: "8,0 3 11 0.009507758 697 Q W 223490 + 56 [kjournald]",
    times: Times::Ps(1_000),
    extent: Extent::Sectors(512),
    marks: Marks { flush: true, trim: true, forced: true },
    options: &[VOLUME, VOLUMES, EVENT],
    source: "axboe/blktrace:doc/blkparse.1 and blkparse_fmt.c",
    parse: Parse::Script(script),
    write: Some(write),
    ..Format::PLAIN
};

/// The option that says which event of a request counts.
const EVENT: FormatOption = FormatOption {
    name: "event",
    default: "Q",
    meaning: "Which event of blktrace is a request: Q (queued), D (issued to the driver) or I \
              (given to the scheduler).",
};

fn script(choices: &Choices) -> Result<Box<dyn Script>, ChoiceError> {
    let event = choices.get(EVENT.name).map_or("Q", String::as_str);
    let event = match event {
        "Q" => 'Q',
        "D" => 'D',
        "I" => 'I',
        other => {
            return Err(ChoiceError {
                name: EVENT.name,
                value: other.to_owned(),
                reason: "it is no event by which a request comes".into(),
                mend: "write Q, D or I".into(),
            });
        }
    };
    Ok(Box::new(Blkparse { event, volume: Volume::of(choices)? }))
}

#[derive(Clone)]
struct Blkparse {
    event: char,
    volume: Volume,
}

impl Script for Blkparse {
    fn read(&mut self, line: &str, out: &mut Out) -> Result<Read, String> {
        if is_summary(line) {
            return Ok(Read::Ends);
        }
        let mut words = line.split_ascii_whitespace();
        let mut next = || words.next().unwrap_or("");
        let [device, _, _, when, _, event, what] = std::array::from_fn(|_| next());
        let ticks = Some(seconds(when)?);
        if event.is_empty() || !device.contains(',') {
            return Err("it is no event of a device".into());
        }
        let mut letters = event.chars();
        if letters.next() != Some(self.event) || letters.next().is_some() {
            return Ok(Read::Goes);
        }
        let (first, plus, count) = (next(), next(), next());
        let extent = (plus == "+" && !count.is_empty()).then_some((first, count));
        let (flush, kind) = meaning(what);
        // What moves nothing is at the volume's beginning.
        if !(flush || kind.is_some()) || self.volume.place(device, 0, 0)?.is_none() {
            return Ok(Read::Goes);
        }
        if flush {
            out.push_back(TraceRequest {
                kind: RequestKind::Flush,
                ticks,
                ..TraceRequest::default()
            });
        }
        let moved = extent.filter(|(_, count)| !(flush && *count == "0"));
        match (kind, moved) {
            (Some(RequestKind::Trim), Some((first, count))) => {
                let (address, bytes) = trimmed_sectors(first, count)?;
                if let Some(address) = self.volume.place(device, address, bytes)? {
                    push_trim(address, bytes, ticks, out)?;
                }
            }
            (Some(kind), Some((first, count))) => {
                let (address, bytes) = sectors(first, count)?;
                if let Some(address) = self.volume.place(device, address, bytes.into())? {
                    out.push_back(TraceRequest { address, bytes, kind, ticks });
                }
            }
            (Some(_), None) if !flush => return Err("it has no SECTOR + SECTORS".into()),
            _ => {}
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

/// Whether blkparse's sums begin here: `CPU0 (8,0):`, `Total (8,0):`.
fn is_summary(line: &str) -> bool {
    line.starts_with("Total (") || line.starts_with("CPU") && line.contains(" (")
}

/// Whether letters ask for a flush first, and what else they ask for.
fn meaning(letters: &str) -> (bool, Option<RequestKind>) {
    let flush = letters.starts_with('F');
    let forced = letters.chars().skip(1).any(|letter| letter == 'F');
    let kind = letters.chars().find_map(|letter| match letter {
        'R' => Some(RequestKind::Read),
        'W' if forced => Some(RequestKind::ForcedWrite),
        'W' => Some(RequestKind::Write),
        'D' => Some(RequestKind::Trim),
        _ => None,
    });
    (flush, kind)
}

fn write(request: &TraceRequest, to: &mut Vec<u8>) {
    let ns = request.ticks.unwrap_or(0);
    let (seconds, fraction) = (ns / 1_000_000_000, ns % 1_000_000_000);
    let _ = write!(to, "8,0 0 0 {seconds}.{fraction:09} 0 Q ");
    let letters = match request.kind {
        RequestKind::Flush => {
            to.extend_from_slice(b"FN [tierscope]\n");
            return;
        }
        RequestKind::Read => "R",
        RequestKind::Write => "W",
        RequestKind::ForcedWrite => "WF",
        RequestKind::Trim => "D",
    };
    let (first, count) = (request.address / 512, request.bytes / 512);
    let _ = writeln!(to, "{letters} {first} + {count} [tierscope]");
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read_all, said};

    #[test]
    fn one_event_of_each_request_is_taken_and_the_summary_is_none() {
        let text = "\
  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001000   697  G   W 223490 + 8 [kjournald]
  8,0    3        3     0.000002000   697  D   W 223490 + 8 [kjournald]
  8,0    3        4     0.000003000   697  Q FWFSM 16 + 8 [kjournald]
  8,0    3        5     0.000004000   697  Q  FN [kjournald]
  8,0    3        6     0.000005000   697  Q  DS 64 + 128 [fstrim]
  8,0    3        7     0.000006000   697  m   N cfq697 something + 0
  8,0    3        8     0.000007000   697  Q   N [scsi]
CPU3 (8,0):
 Reads Queued:           0,        0KiB
";
        let read = read_all("blkparse", text, &[]);
        let told: Vec<_> =
            read.iter().map(|one| (one.kind.name(), one.address, one.bytes)).collect();
        let expected = [
            ("write", 223_490 * 512, 4096),
            ("flush", 0, 0),
            ("forced write", 16 * 512, 4096),
            ("flush", 0, 0),
            ("trim", 64 * 512, 65_536),
        ];
        assert_eq!(told, expected);
        assert_eq!(read_all("blkparse", text, &[("event", "D")])[0].ticks, Some(2_000));
        assert!(said("blkparse", "8,0 3 1 0.5 697 Q W x + 8 [y]\n").contains("number of a sector"));
        for cut in ["8,0 3 1 0.5 697 Q W [y]\n", "8,0 3 1 0.5 697 Q WF 8 +"] {
            assert!(said("blkparse", cut).contains("no SECTOR + SECTORS"), "{cut}");
        }
    }
}
