//! From one format to another: requests one by one, with what the other has no place for counted.

use super::looks::Looks;
use super::{
    ChoiceError, Choices, Extent, Format, Passed, RequestKind, RequestSource, Times, TraceRequest,
    Write, WriteInstructions, WriteScript,
};
use crate::stream::StreamError;
use serde::Serialize;
use std::io;
use tierscope_kernel::Clock;
use tierscope_units::reason;

/// What the formats leave open.
#[derive(Clone, Debug)]
pub struct How {
    /// The clock that cycles are of, where one side has cycles and the other times.
    pub clock: Option<Clock>,
    /// Picoseconds from one request to the next, where only the target has times.
    pub interval_ps: Option<u64>,
    /// Bytes of a line: what a request without a size moves, and what requests are split into for a
    /// format whose requests have none.
    pub line_bytes: u32,
    /// What was said of how the target is written.
    pub choices: Choices,
}

impl Default for How {
    fn default() -> Self {
        How { clock: None, interval_ps: None, line_bytes: 64, choices: Choices::new() }
    }
}

/// What was converted, and what was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Converted {
    /// Requests read.
    pub read: u64,
    /// Requests written, as reading what was written would count them: more than were read where lines, or requests
    /// as large as the target's may be, had to be made of larger ones.
    pub written: u64,
    /// Flushes that the target has no word for, left out.
    pub flushes_left_out: u64,
    /// Trims that the target has no word for, left out.
    pub trims_left_out: u64,
    /// Writes that became reads, since the target knows no writes.
    pub writes_as_reads: u64,
    /// Requests for address 0 that the target, in which it means none, cannot tell, left out.
    pub nowhere: u64,
    /// Requests that have no size in the target, which are for whole lines, and had one that is no
    /// whole number of lines.
    pub sizes_left_out: u64,
    /// Requests that were made larger, to whole sectors of the target.
    pub widened: u64,
    /// Requests whose time is not a whole number of the target's ticks, and was cut to one.
    pub times_cut: u64,
    /// Reads and writes of files by calls, which are no requests, left out.
    pub file_calls_left_out: u64,
    /// Stores past the caches, which became plain ones.
    pub non_temporal_as_plain: u64,
    /// Forced writes that became plain ones, as the target does not tell them apart.
    pub forced_as_plain: u64,
    /// Flushes of lines of the caches, left out.
    pub line_flushes_left_out: u64,
    /// Fences, left out.
    pub fences_left_out: u64,
    /// Threads that became one, where there were several.
    pub threads_joined: u64,
    /// Instructions that the target, which tells some, cannot tell, as there is no request behind them.
    pub instructions_left_out: u64,
    /// Instructions that were added, since each request is one in the target.
    pub instructions_added: u64,
    /// Instructions that were carried over one by one.
    pub instructions: u64,
    /// Those of them that had no address, and have the same one in the target.
    pub instructions_nowhere: u64,
    /// Those whose address the target cannot tell.
    pub places_left_out: u64,
    /// Branches that the target does not tell from other instructions.
    pub branches_left_out: u64,
    /// Instructions whose registers the target does not tell.
    pub registers_left_out: u64,
    /// Whether the source had times and the target has none.
    pub times_left_out: bool,
}

impl Converted {
    /// A request that was left out, as this was before it, has lost nothing else.
    fn forget_if_left_out(&mut self, before: &Converted) {
        if self.written == before.written {
            self.times_cut = before.times_cut;
            self.writes_as_reads = before.writes_as_reads;
            self.forced_as_plain = before.forced_as_plain;
            self.sizes_left_out = before.sizes_left_out;
            self.widened = before.widened;
        }
    }
}

/// Why a trace cannot be converted.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// The source is wrong, or cannot be read.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// What was said of the target makes no sense.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// The target is only read.
    #[error("{0} is only read here, not written")]
    OnlyRead(&'static str),
    /// One side has cycles, and the other times.
    #[error(
        "cycles and times are told apart by a clock, and none is said; say --clock 1.2GHz or another"
    )]
    NoClock,
    /// The target has times, and the source none.
    #[error(
        "{0} has times and the source has none; say how far apart requests are, as in --interval 10ns"
    )]
    NoTimes(&'static str),
    /// The target has cycles, and the source no times at all.
    #[error(
        "{0} has cycles and the source has no times; say how far apart requests are, and the clock, as in \
         --interval 10ns --clock 1.2GHz"
    )]
    NoTimesAndNoClock(&'static str),
    /// A time or address has no place in the target.
    #[error("{place}: {why}")]
    TooLarge {
        /// Which request.
        place: String,
        /// Why not.
        why: &'static str,
    },
    /// The target cannot be written.
    #[error("it cannot be written: {0}")]
    Unwritable(String),
}

impl From<io::Error> for ConvertError {
    fn from(error: io::Error) -> Self {
        ConvertError::Unwritable(reason(&error))
    }
}

/// Bytes that are written at a time.
const AT_ONCE: usize = 1 << 16;
/// Bytes of a line that is written, about.
const LINE_BYTES: u64 = 16;

/// Writes all requests of `source` to `to` in `format`. `goes_on` is asked now and then, and ends it.
///
/// # Errors
/// Where the source is wrong, the target cannot be written, or the formats leave open what `how` does
/// not say.
pub fn convert(
    source: &mut dyn RequestSource,
    format: &Format,
    how: &How,
    to: &mut dyn io::Write,
    goes_on: impl FnMut(Passed) -> bool,
) -> Result<Converted, ConvertError> {
    let write = match (format.writer, format.write) {
        (Some(writer), _) => Words::Script((writer.new)(&how.choices)?),
        (None, Some(write)) => Words::Plain(write),
        (None, None) => return Err(ConvertError::OnlyRead(format.name)),
    };
    let mut target = Target {
        format,
        how,
        write,
        buffer: Vec::new(),
        to,
        converted: Converted::default(),
        told: false,
        left: 0,
    };
    let opening = match &target.write {
        Words::Script(script) => script.opening(),
        Words::Plain(_) => None,
    };
    target.buffer.extend_from_slice(opening.unwrap_or(format.opening));
    let mut looks = Looks::new(goes_on);
    while let Some(request) = source.next()? {
        let before = target.converted;
        let number = before.read;
        target.converted.read += 1;
        let times = source.times();
        let ticks = target
            .ticks(times, request.ticks, number)
            .map_err(|error| error.at(|| source.place()))?;
        let far = || Passed { requests: number + 1, share: source.share() };
        let mut goes_on = |work| looks.go_on(work, far);
        target.instructions(source.instructions(), &mut goes_on)?;
        target
            .take(TraceRequest { ticks, ..request }, &mut goes_on)
            .map_err(|error| error.at(|| source.place()))?;
        target.converted.forget_if_left_out(&before);
        if looks.have_ended() {
            break;
        }
    }
    let passed = Passed { requests: target.converted.read, share: source.share() };
    target.instructions(source.instructions(), &mut |work| looks.go_on(work, || passed))?;
    target.write_left();
    target.buffer.extend_from_slice(format.closing);
    target.to.write_all(&target.buffer)?;
    target.to.flush()?;
    let beside = source.beside();
    Ok(Converted {
        file_calls_left_out: beside.file_calls,
        non_temporal_as_plain: beside.non_temporal_stores,
        line_flushes_left_out: beside.line_flushes,
        fences_left_out: beside.fences,
        threads_joined: if beside.threads > 1 { beside.threads } else { 0 },
        ..target.converted
    })
}

impl ConvertError {
    fn at(self, place: impl FnOnce() -> String) -> Self {
        match self {
            ConvertError::TooLarge { why, .. } => ConvertError::TooLarge { place: place(), why },
            other => other,
        }
    }
}

fn too_large(why: &'static str) -> ConvertError {
    ConvertError::TooLarge { place: String::new(), why }
}

/// What writes a request.
enum Words {
    Plain(Write),
    Script(Box<dyn WriteScript>),
}

struct Target<'a> {
    format: &'a Format,
    how: &'a How,
    write: Words,
    buffer: Vec<u8>,
    to: &'a mut dyn io::Write,
    converted: Converted,
    /// Whether instructions are told …
    told: bool,
    /// … and those up to the request that is written next.
    left: u64,
}

impl Target<'_> {
    /// Takes the instructions up to the request that comes next, where source and target tell them. Of
    /// more than are written with a request the first are written at once.
    fn instructions(
        &mut self,
        count: Option<u64>,
        goes_on: &mut impl FnMut(u64) -> bool,
    ) -> io::Result<()> {
        let (Some(of_format), Some(count)) = (self.format.write_instructions, count) else {
            return Ok(());
        };
        self.told = true;
        self.left += count;
        while self.left > of_format.most_at_once {
            let before = self.buffer.len();
            self.write_instructions(of_format, of_format.most_at_once, None);
            let lines = (self.buffer.len() - before) as u64 / LINE_BYTES;
            self.drain()?;
            if !goes_on(lines.max(1)) {
                // Nobody wants the rest.
                self.left = 0;
                break;
            }
        }
        Ok(())
    }

    fn write_instructions(
        &mut self,
        of_format: WriteInstructions,
        count: u64,
        request: Option<&TraceRequest>,
    ) {
        let written = (of_format.write)(count, request, &mut self.buffer);
        self.converted.instructions_left_out += count.saturating_sub(written);
        self.converted.instructions_added += written.saturating_sub(count);
        self.left -= count;
    }

    /// Writes what instructions are left, where there is no request behind them.
    fn write_left(&mut self) {
        if let Some(of_format) = self.format.write_instructions.filter(|_| self.left > 0) {
            self.write_instructions(of_format, self.left, None);
        }
    }

    /// Writes what has come together.
    fn drain(&mut self) -> io::Result<()> {
        if self.buffer.len() >= AT_ONCE {
            self.to.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// A time of the source in the target's ticks.
    fn ticks(
        &mut self,
        times: Times,
        ticks: Option<u64>,
        number: u64,
    ) -> Result<Option<u64>, ConvertError> {
        const LATE: &str = "its time is too large for the target";
        let ps_of = |ticks: u64, from: Times| -> Result<u64, ConvertError> {
            let clock = || self.how.clock.ok_or(ConvertError::NoClock);
            match from {
                Times::Ps(unit_ps) => ticks.checked_mul(unit_ps).ok_or(too_large(LATE)),
                Times::Cycles | Times::Absent => {
                    let clock = clock()?;
                    if ticks > clock.ps_to_cycles_ceil(u64::MAX / 4) {
                        return Err(too_large(LATE));
                    }
                    Ok(clock.cycles_to_ps(ticks))
                }
            }
        };
        let at_ps = match (ticks, self.format.times) {
            (None, Times::Absent) => return Ok(None),
            (Some(_), Times::Absent) => {
                self.converted.times_left_out = true;
                return Ok(None);
            }
            (Some(ticks), to) if times == to => return Ok(Some(ticks)),
            (Some(ticks), _) => ps_of(ticks, times)?,
            (None, _) => {
                let cycles = self.format.times == Times::Cycles;
                let missing = match self.how.clock {
                    None if cycles => ConvertError::NoTimesAndNoClock(self.format.name),
                    _ => ConvertError::NoTimes(self.format.name),
                };
                let apart_ps = self.how.interval_ps.ok_or(missing)?;
                number.checked_mul(apart_ps).ok_or(too_large(LATE))?
            }
        };
        let (ticks, exact) = match self.format.times {
            Times::Ps(unit_ps) => (at_ps / unit_ps, at_ps % unit_ps == 0),
            Times::Cycles | Times::Absent => {
                let clock = self.how.clock.ok_or(ConvertError::NoClock)?;
                if at_ps > u64::MAX / 4 {
                    return Err(too_large(LATE));
                }
                let above = clock.ps_to_cycles_ceil(at_ps);
                let exact = clock.cycles_to_ps(above) == at_ps;
                (if exact { above } else { above.saturating_sub(1) }, exact)
            }
        };
        self.converted.times_cut += u64::from(!exact);
        Ok(Some(ticks))
    }

    /// Writes a request, whose time is the target's, as far as the target has words for it, up to where `goes_on`,
    /// which is asked for each line, says no.
    fn take(
        &mut self,
        mut request: TraceRequest,
        goes_on: &mut impl FnMut(u64) -> bool,
    ) -> Result<(), ConvertError> {
        let marks = self.format.marks;
        if request.kind == RequestKind::ForcedWrite && !marks.forced {
            request.kind = RequestKind::Write;
            self.converted.forced_as_plain += 1;
        }
        match request.kind {
            RequestKind::Flush if !marks.flush => self.converted.flushes_left_out += 1,
            RequestKind::Trim if !marks.trim => self.converted.trims_left_out += 1,
            RequestKind::Flush => self.put(&request, goes_on)?,
            _ => {
                if request.is_write() && self.format.only_reads {
                    self.converted.writes_as_reads += 1;
                }
                match self.format.extent {
                    Extent::Line => self.put_lines(request, goes_on)?,
                    Extent::Bytes => {
                        if request.bytes == 0 {
                            request.bytes = self.how.line_bytes;
                        }
                        if !request.is_within_addresses() {
                            return Err(too_large("it ends beyond the last address"));
                        }
                        self.put(&request, goes_on)?;
                    }
                    Extent::Sectors(bytes) => {
                        self.put_sectors(request, u64::from(bytes), goes_on)?;
                    }
                }
            }
        }
        // What was left out was work, too.
        goes_on(1);
        Ok(())
    }

    fn put_lines(
        &mut self,
        request: TraceRequest,
        goes_on: &mut impl FnMut(u64) -> bool,
    ) -> io::Result<()> {
        let line_bytes = u64::from(self.how.line_bytes);
        let whole = request.address.is_multiple_of(line_bytes)
            && u64::from(request.bytes).is_multiple_of(line_bytes);
        self.converted.sizes_left_out += u64::from(request.bytes > 0 && !whole);
        self.put(&TraceRequest { bytes: 0, ..request }, goes_on)?;
        // The last byte may be the largest number.
        let last = request.end() - 1;
        let mut next = request.address / line_bytes + 1;
        while next <= last / line_bytes && goes_on(1) {
            let line = TraceRequest { address: next * line_bytes, bytes: 0, ..request };
            self.put(&line, goes_on)?;
            next += 1;
        }
        Ok(())
    }

    fn put_sectors(
        &mut self,
        request: TraceRequest,
        sector_bytes: u64,
        goes_on: &mut impl FnMut(u64) -> bool,
    ) -> Result<(), ConvertError> {
        let bytes = if request.bytes == 0 { self.how.line_bytes } else { request.bytes };
        let end = request.address.checked_add(u64::from(bytes));
        let end = end.and_then(|end| end.checked_next_multiple_of(sector_bytes));
        let end = end.ok_or(too_large("it ends beyond the last address"))?;
        let address = request.address / sector_bytes * sector_bytes;
        let wide = u32::try_from(end - address).map_err(|_| too_large("it has too many bytes"))?;
        self.converted.widened += u64::from(wide != bytes);
        self.put(&TraceRequest { address, bytes: wide, ..request }, goes_on)?;
        Ok(())
    }

    #[inline]
    fn put(
        &mut self,
        request: &TraceRequest,
        goes_on: &mut impl FnMut(u64) -> bool,
    ) -> io::Result<()> {
        if self.format.nought_is_none && request.address == 0 {
            self.converted.nowhere += 1;
            return Ok(());
        }
        if request.bytes <= self.format.most_bytes {
            return self.put_one(request);
        }
        for part in self.format.parts(request) {
            self.put_one(&part)?;
            if !goes_on(1) {
                break;
            }
        }
        Ok(())
    }

    #[inline]
    fn put_one(&mut self, request: &TraceRequest) -> io::Result<()> {
        match self.format.write_instructions.filter(|_| self.told) {
            Some(of_format) => self.write_instructions(of_format, self.left, Some(request)),
            None => match &self.write {
                Words::Plain(write) => write(request, &mut self.buffer),
                Words::Script(script) => script.write(request, &mut self.buffer),
            },
        }
        self.converted.written += 1;
        self.drain()
    }
}
