//! The reader of traces, common to all formats: text or records, in bounded memory.

use super::format::{Choices, Messages, Parse, Read, Script};
use super::input::{Input, OpenError, told};
use super::{Format, Out, Places, RequestSource, Times, TraceRequest, Volume};
use crate::stream::StreamError;
use std::path::{Path, PathBuf};

/// A line may be so long without its end: several times what any format needs.
const MOST_LINE_BYTES: usize = 512;
/// Characters of a wrong line that an error shows.
const SHOWN: usize = 60;
/// Bytes of a wrong record that an error shows.
const SHOWN_BYTES: usize = 16;
/// Bytes without a request between two at most: a fraction of a second's reading, in which nothing
/// else, such as an interrupt, is looked at.
pub(super) const MOST_EMPTY_BYTES: u64 = 64 << 20;

/// A trace being read.
pub struct TraceReader {
    format: &'static Format,
    path: PathBuf,
    input: Input,
    /// What is known of the lines so far, of formats whose lines depend on others.
    script: Option<Box<dyn Script>>,
    /// The same, of formats whose records say their length.
    messages: Option<Box<dyn Messages>>,
    /// The volume of its first request, where the format names them.
    volume: Option<String>,
    /// Where volumes lie, where several do.
    places: Option<Places>,
    /// Whether its first request has no time, though the format has some.
    begins_without_time: bool,
    /// What times are counted in, where the beginning of the file says so.
    times: Option<Times>,
    /// Bytes before the next line or record, and lines or records.
    offset: u64,
    number: u64,
    /// The line that was read last, its end included, or the record: so many bytes of the input, which has not given
    /// them away yet …
    held: usize,
    /// … or, where they were not there at once, these.
    buffer: Vec<u8>,
    /// Requests of it that have not been given yet.
    pending: Out,
    /// Time of the first request, where times count from somewhere else, and of the one before.
    begun: Option<u64>,
    ticks: u64,
    /// Whether nothing of the file's rest is part of the trace.
    ended: bool,
    /// Whether the last line was read, and had no end.
    cut: bool,
    /// Whether the record that was read last ends a trace.
    at_end: bool,
    /// Records that gave no request.
    empty_records: u64,
}

impl TraceReader {
    /// Opens a trace, and looks at its first request.
    ///
    /// # Errors
    /// Where the file cannot be read, holds no request, or its first line is wrong; of choices, one
    /// that makes no sense.
    pub fn open(
        path: &Path,
        format: &'static Format,
        choices: &Choices,
    ) -> Result<Self, OpenError> {
        let reader = || -> Result<TraceReader, OpenError> {
            let (mut script, mut messages) = (None, None);
            match format.parse {
                Parse::Script(new) => script = Some(new(choices)?),
                Parse::Messages(new) => messages = Some(new(choices)?),
                Parse::Lines(_) | Parse::Records(..) => {}
            }
            let reader = TraceReader::new(format, path, Input::open(path, 0)?, script);
            Ok(TraceReader { messages, ..reader })
        };
        let mut first = reader()?;
        match first.next() {
            Ok(Some(request)) => {
                let (times, begun) = (Some(first.times()), first.begun);
                let volume = first.volumes().and_then(|volume| volume.name().map(str::to_owned));
                let begins_without_time = request.ticks.is_none() && first.times() != Times::Absent;
                let mut reader = reader()?;
                let places = reader.volumes().and_then(|volume| volume.places().cloned());
                Ok(TraceReader { times, begun, volume, places, begins_without_time, ..reader })
            }
            Ok(None) => Err(OpenError::Wrong(nothing_in(path, format, choices))),
            Err(error) => Err(OpenError::Wrong(error.to_string())),
        }
    }

    fn new(
        format: &'static Format,
        path: &Path,
        input: Input,
        script: Option<Box<dyn Script>>,
    ) -> Self {
        TraceReader {
            format,
            path: path.to_owned(),
            input,
            script,
            messages: None,
            volume: None,
            places: None,
            begins_without_time: false,
            times: None,
            offset: 0,
            number: 0,
            held: 0,
            buffer: Vec::new(),
            pending: Out::new(),
            begun: None,
            ticks: 0,
            ended: false,
            cut: false,
            at_end: false,
            empty_records: 0,
        }
    }

    /// The time of its first request, where times count from somewhere before the trace.
    pub(super) fn start(&self) -> Option<u64> {
        self.begun
    }

    /// The volume of its first request, where the format names them.
    pub(super) fn volume(&self) -> Option<&str> {
        self.volume.as_deref()
    }

    fn volumes(&mut self) -> Option<&mut Volume> {
        match (&mut self.script, &mut self.messages) {
            (Some(script), _) => script.volume(),
            (None, Some(messages)) => messages.volume(),
            (None, None) => None,
        }
    }

    /// Where volumes lie, where several do.
    pub(super) fn places(&self) -> Option<&Places> {
        self.places.as_ref()
    }

    /// Lays volumes where those of other files are laid, before the first request is asked for.
    pub(super) fn lay(&mut self, places: &Places) {
        if let Some(volume) = self.volumes() {
            volume.share(places);
        }
        self.places = Some(places.clone());
    }

    /// Whether its first request has no time, though the format has some.
    pub(super) fn begins_without_time(&self) -> bool {
        self.begins_without_time
    }

    /// Lets times count from another, which is not later.
    pub(super) fn count_from(&mut self, start: u64) {
        self.begun = Some(start);
    }

    /// The format.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// Whether the format is text.
    fn has_lines(&self) -> bool {
        matches!(self.format.parse, Parse::Lines(_) | Parse::Script(_))
    }

    /// Bytes of the trace that were read.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The line that was read last, without blanks around it, or the record; nothing where it is empty or
    /// a remark.
    pub(super) fn record(&self) -> Option<&[u8]> {
        if self.has_lines() { content(self.bytes()) } else { Some(self.bytes()) }
    }

    /// The line that was read last, its end included, or the record.
    #[inline]
    fn bytes(&self) -> &[u8] {
        bytes_of(&self.input, self.held, &self.buffer)
    }

    /// Lets the input give away what was read last.
    #[inline]
    fn let_go(&mut self) {
        self.input.take(std::mem::take(&mut self.held));
        self.buffer.clear();
    }

    /// A second reader at the same place, which goes on by itself.
    ///
    /// # Errors
    /// Where the file is gone.
    pub(super) fn again(&self) -> Result<TraceReader, StreamError> {
        let input = Input::open(&self.path, self.offset)
            .map_err(|error| StreamError::Damaged(error.to_string()))?;
        Ok(TraceReader {
            input,
            script: self.script.as_ref().map(|script| script.fork()),
            messages: self.messages.as_ref().map(|messages| messages.fork()),
            path: self.path.clone(),
            volume: self.volume.clone(),
            places: self.places.clone(),
            held: 0,
            buffer: self.bytes().to_vec(),
            pending: self.pending.clone(),
            ..*self
        })
    }

    /// Reads the next record of a format whose records say their length; how many bytes it has.
    fn read_message(&mut self) -> Result<usize, StreamError> {
        // Most are read ahead as a whole.
        if let Some(messages) = &self.messages
            && let Ok(ahead) = self.input.ahead()
            && let Ok(needs) = messages.needs(ahead)
            && needs <= ahead.len()
        {
            self.held = needs;
            return Ok(needs);
        }
        loop {
            let begun = self.buffer.len();
            let Some(messages) = &self.messages else { return Ok(begun) };
            let needs = messages.needs(&self.buffer).map_err(|why| {
                self.number += 1;
                self.wrong(&why)
            })?;
            if needs <= begun {
                return Ok(begun);
            }
            self.buffer.resize(needs, 0);
            let read = self.input.read_up_to(&mut self.buffer[begun..]);
            let read = read.map_err(|error| self.unreadable(&error))?;
            if begun + read < needs {
                self.buffer.truncate(begun + read);
                self.number += u64::from(begun + read > 0);
                return match begun + read {
                    0 => Ok(0),
                    there => Err(self.cut_short(there, needs)),
                };
            }
        }
    }

    fn cut_short(&self, there: usize, bytes: usize) -> StreamError {
        self.wrong(&format!(
            "the file ends in the middle of a record, after {there} of {bytes} bytes"
        ))
    }

    /// Reads the next line or record to the buffer; whether there is one.
    pub(super) fn read(&mut self) -> Result<bool, StreamError> {
        self.let_go();
        if let Parse::Messages(_) = self.format.parse {
            let length = self.read_message()?;
            self.offset += length as u64;
            self.number += u64::from(length > 0);
            return Ok(length > 0);
        }
        let read = match self.format.parse {
            Parse::Records(bytes, _) => {
                if self.input.held().len() >= bytes {
                    self.held = bytes;
                    Ok(bytes)
                } else {
                    self.buffer.resize(bytes, 0);
                    self.input.read_up_to(&mut self.buffer)
                }
            }
            Parse::Lines(_) | Parse::Script(_) | Parse::Messages(_) => {
                match memchr::memchr(b'\n', self.input.held()) {
                    Some(end) if end <= MOST_LINE_BYTES + 1 => {
                        self.held = end + 1;
                        Ok(end + 1)
                    }
                    // Its end is one byte, or two.
                    _ => self.input.read_line(MOST_LINE_BYTES + 2, &mut self.buffer),
                }
            }
        };
        let length = read.map_err(|error| self.unreadable(&error))?;
        self.cut |= self.has_lines() && length > 0 && !self.bytes().ends_with(b"\n");
        self.offset += length as u64;
        self.number += u64::from(length > 0);
        if let Parse::Records(bytes, _) = self.format.parse
            && length > 0
            && length < bytes
        {
            self.buffer.truncate(length);
            return Err(self.cut_short(length, bytes));
        }
        if let Some(is_end) = self.format.end {
            // The last record is the one before there is none.
            match length {
                0 => self.cut = !self.at_end,
                _ => self.at_end = is_end(self.bytes()),
            }
        }
        if self.has_lines() && self.line().len() > MOST_LINE_BYTES {
            return Err(self.wrong(&format!("the line is longer than {MOST_LINE_BYTES} bytes")));
        }
        Ok(length > 0)
    }

    /// Reads the next line or record and gets its requests; whether there is one.
    pub(super) fn read_requests(&mut self) -> Result<bool, StreamError> {
        let there = !self.ended && self.read()?;
        if there {
            self.parse()?;
        }
        Ok(there)
    }

    /// Hands over the requests of the line or record that was read last, with the times that they have in it, once those
    /// are seen to be in order.
    ///
    /// # Errors
    /// What is wrong with one, also by whom it is handed to.
    #[inline]
    pub(super) fn each_request(
        &mut self,
        mut each: impl FnMut(&TraceRequest) -> Result<(), String>,
    ) -> Result<(), StreamError> {
        // They are looked at where they lie: most records have one.
        for number in 0..self.pending.len() {
            let one = &self.pending[number];
            let (within, ticks) = (one.is_within_addresses(), one.ticks);
            self.ticks_of(within, ticks)?;
            each(&self.pending[number]).map_err(|why| self.wrong(&why))?;
        }
        self.pending.clear();
        Ok(())
    }

    /// The line in the buffer, without its end.
    fn line(&self) -> &[u8] {
        let line = self.bytes();
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    /// What is worth knowing of the file by itself.
    pub(super) fn remarks_of_file(&self) -> Vec<String> {
        let path = self.path.display();
        let mut remarks = Vec::new();
        if self.cut && self.has_lines() {
            remarks.push(format!(
                "the last line of {path} has no end: if the trace was cut there, that line is not as \
                 it was"
            ));
        } else if self.cut {
            remarks.push(self.without_end());
        }
        if let Some(what) = self.format.left_out
            && self.empty_records > 0
        {
            remarks.push(format!("{} {what} of {path} were left out", self.empty_records));
        }
        remarks
    }

    /// That the record is missing with which a trace of the format ends.
    pub(super) fn without_end(&self) -> String {
        let path = self.path.display();
        format!("{path} ends without the record that a whole trace ends with: it was cut there")
    }

    /// Whether the file has ended without the record with which a trace of the format ends.
    pub(super) fn is_cut_between_records(&self) -> bool {
        self.cut && !self.has_lines()
    }

    fn unreadable(&self, error: &std::io::Error) -> StreamError {
        let unit = if self.has_lines() { "line" } else { "record" };
        let (name, whole) = (self.path.display(), self.number);
        StreamError::Damaged(format!(
            "{name} cannot be read behind {unit} {whole}: {}",
            told(error)
        ))
    }

    /// An error about the line or record in the buffer.
    pub(super) fn wrong(&self, why: &str) -> StreamError {
        let Format { name, grammar, example, .. } = self.format;
        let place = self.place();
        StreamError::Damaged(if example.is_empty() {
            format!("{place}: {why}; a record of {name} is {grammar}")
        } else {
            format!("{place}: {why}; a line of {name} is {grammar}, such as {example}")
        })
    }

    /// Gets the requests of the line or record in the buffer.
    fn parse(&mut self) -> Result<(), StreamError> {
        let bytes = bytes_of(&self.input, self.held, &self.buffer);
        if let Some(messages) = &mut self.messages {
            let told = messages.read(bytes, &mut self.pending);
            self.empty_records += u64::from(!told.map_err(|why| self.wrong(&why))?);
            return Ok(());
        }
        if let Parse::Records(_, parse) = self.format.parse {
            parse(bytes, &mut self.pending).map_err(|why| self.wrong(&why))?;
            self.empty_records += u64::from(self.pending.is_empty());
            return Ok(());
        }
        let Some(line) = content(bytes) else { return Ok(()) };
        let Ok(text) = std::str::from_utf8(line) else {
            return Err(self.wrong("the line is not text"));
        };
        if self.number == 1 && text.eq_ignore_ascii_case(self.format.heading) {
            return Ok(());
        }
        let read = match (&mut self.script, self.format.parse) {
            (Some(script), _) => script.read(text, &mut self.pending),
            (None, Parse::Lines(parse)) => parse(text).map(|request| {
                self.pending.push_back(request);
                Read::Goes
            }),
            (None, _) => Ok(Read::Goes),
        };
        match read {
            Ok(read) => self.ended = read == Read::Ends,
            // A format that knows no heading has none that could be told from a wrong line.
            Err(why)
                if self.number == 1
                    && self.format.heading.is_empty()
                    && !line.iter().any(u8::is_ascii_digit) =>
            {
                return Err(self.wrong(&format!("{why} (a line of names begins with #)")));
            }
            Err(why) => return Err(self.wrong(&why)),
        }
        Ok(())
    }

    /// A request with its time counted from the start of the trace.
    #[inline]
    fn timed(&mut self, mut request: TraceRequest) -> Result<TraceRequest, StreamError> {
        request.ticks = self.ticks_of(request.is_within_addresses(), request.ticks)?;
        Ok(request)
    }

    /// The ticks of a request, counted from the start of the trace; it lies within the addresses, or is wrong.
    #[inline]
    fn ticks_of(&mut self, within: bool, ticks: Option<u64>) -> Result<Option<u64>, StreamError> {
        if !within {
            return Err(self.wrong("it ends beyond the last address"));
        }
        let Some(ticks) = ticks else { return Ok(None) };
        let since = if self.format.epoch {
            ticks.checked_sub(*self.begun.get_or_insert(ticks))
        } else {
            Some(ticks)
        };
        match since {
            Some(ticks) if ticks >= self.ticks => {
                self.ticks = ticks;
                Ok(since)
            }
            _ => {
                let what = if self.format.times == Times::Cycles { "cycle" } else { "time" };
                Err(StreamError::Damaged(format!(
                    "{}: its {what} lies before {}, that of the request before; sort the trace by {what}",
                    self.place(),
                    self.ticks + self.begun.unwrap_or(0)
                )))
            }
        }
    }
}

/// What was read last: bytes of the input, or of a buffer where the input does not hold them.
#[inline]
fn bytes_of<'a>(input: &'a Input, held: usize, buffer: &'a [u8]) -> &'a [u8] {
    if held > 0 { input.held().get(..held).unwrap_or_default() } else { buffer }
}

/// A line without blanks around it; nothing where it is empty or a remark.
fn content(line: &[u8]) -> Option<&[u8]> {
    let line = line.trim_ascii();
    (!line.is_empty() && !line.starts_with(b"#")).then_some(line)
}

fn nothing_in(path: &Path, format: &Format, choices: &Choices) -> String {
    let unit = if format.example.is_empty() { "record" } else { "line" };
    let chosen: Vec<_> = choices.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let of =
        if chosen.is_empty() { String::new() } else { format!(" of {}", chosen.join(" and ")) };
    format!(
        "{} holds no request{of}; a {unit} of {} is {}",
        path.display(),
        format.name,
        format.grammar
    )
}

impl RequestSource for TraceReader {
    #[inline]
    fn next(&mut self) -> Result<Option<TraceRequest>, StreamError> {
        if let Some(request) = self.pending.pop_front() {
            return self.timed(request).map(Some);
        }
        let begun = self.offset;
        while !self.ended && self.read()? {
            self.parse()?;
            if let Some(request) = self.pending.pop_front() {
                return self.timed(request).map(Some);
            }
            if self.offset - begun > MOST_EMPTY_BYTES {
                let mib = MOST_EMPTY_BYTES >> 20;
                return Err(self.wrong(&format!(
                    "the {mib} MiB up to here hold no request, but remarks or what was not asked for; \
                     remove them"
                )));
            }
        }
        Ok(None)
    }

    fn times(&self) -> Times {
        let script = self.script.as_ref().and_then(|script| script.times());
        let messages = || self.messages.as_ref().and_then(|messages| messages.times());
        self.times.or(script).or_else(messages).unwrap_or(self.format.times)
    }

    fn share(&self) -> Option<f64> {
        Some(self.input.share())
    }

    fn remarks(&self) -> Vec<String> {
        let places = self.places.as_ref().and_then(Places::remark);
        places.into_iter().chain(self.remarks_of_file()).collect()
    }

    fn place(&self) -> String {
        let (path, number) = (self.path.display(), self.number);
        if !self.has_lines() {
            let bytes = self.bytes();
            let first = bytes.iter().take(SHOWN_BYTES);
            let shown: Vec<String> = first.map(|byte| format!("{byte:02x}")).collect();
            let more = if bytes.len() > SHOWN_BYTES { " …" } else { "" };
            return format!("{path}, record {number}, `{}{more}`", shown.join(" "));
        }
        let line = self.bytes().trim_ascii();
        let text = String::from_utf8_lossy(&line[..line.len().min(4 * SHOWN)]).into_owned();
        let mut shown: String =
            text.chars().take(SHOWN).collect::<String>().escape_debug().collect();
        if text.chars().count() > SHOWN {
            shown.push('…');
        }
        format!("{path}, line {number}, `{shown}`")
    }

    fn fork(&self) -> Result<Box<dyn RequestSource>, StreamError> {
        Ok(Box::new(self.again()?))
    }
}
