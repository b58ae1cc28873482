//! The reader of memory traces, common to all formats: text in bounded memory, plain or zstd.

use super::{Format, MemoryRequest, RequestSource};
use crate::stream::StreamError;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use tierscope_units::reason;

/// A line may be so long: several times what any format needs.
const MOST_LINE_BYTES: usize = 512;
/// Characters of a wrong line that an error shows.
const SHOWN: usize = 60;
/// Bytes read at a time.
const BUFFER_BYTES: usize = 1 << 16;
/// Bytes of blank lines and remarks between two requests at most: a fraction of a second's reading, in
/// which nothing else, such as an interrupt, is looked at.
const MOST_EMPTY_BYTES: u64 = 64 << 20;

/// What other compressors begin a file with.
const COMPRESSED: [(&[u8], &str); 3] =
    [(b"\x1f\x8b", "gzip"), (b"\xfd7zXZ\0", "xz"), (b"BZh", "bzip2")];
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";

/// Why a trace cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be read.
    #[error("{0} cannot be read: {1}")]
    Unreadable(String, String),
    /// It is no file of the format, or its beginning is wrong.
    #[error("{0}")]
    Wrong(String),
}

/// A memory trace being read.
pub struct TraceReader {
    format: &'static Format,
    path: PathBuf,
    text: Text,
    /// Bytes of text before the next line, and lines.
    offset: u64,
    line: u64,
    /// The line that was read last, its end included.
    buffer: Vec<u8>,
    /// Cycle of the request before.
    cycle: u64,
}

enum Text {
    Plain(BufReader<File>),
    Zstd(Box<BufReader<zstd::stream::read::Decoder<'static, BufReader<File>>>>),
}

impl Text {
    /// The text of a file from `offset` on.
    fn open(path: &Path, offset: u64) -> Result<Text, OpenError> {
        let name = path.display().to_string();
        let unreadable = |why: String| OpenError::Unreadable(name.clone(), why);
        let io = |why: std::io::Error| unreadable(reason(&why));
        // To open a pipe that nobody writes to would never end, and it could not be read twice.
        let kind = std::fs::metadata(path).map_err(io)?.file_type();
        if kind.is_dir() {
            return Err(unreadable("it is a directory; name a file in it".into()));
        }
        if kind.is_fifo() || kind.is_char_device() || kind.is_socket() {
            return Err(unreadable("it is no regular file; write the trace to one first".into()));
        }
        let mut file = File::open(path).map_err(io)?;
        let mut magic = Vec::new();
        file.by_ref().take(8).read_to_end(&mut magic).map_err(io)?;
        if let Some((_, by)) = COMPRESSED.iter().find(|(start, _)| magic.starts_with(start)) {
            return Err(OpenError::Wrong(format!(
                "{name} is compressed by {by}, which is not read here; \
                 decompress it, or compress it by zstd instead"
            )));
        }
        if !magic.starts_with(ZSTD) {
            file.seek(SeekFrom::Start(offset)).map_err(io)?;
            return Ok(Text::Plain(BufReader::with_capacity(BUFFER_BYTES, file)));
        }
        file.rewind().map_err(io)?;
        let decoder = zstd::stream::read::Decoder::new(file).map_err(io)?;
        let mut text = BufReader::with_capacity(BUFFER_BYTES, decoder);
        std::io::copy(&mut text.by_ref().take(offset), &mut std::io::sink()).map_err(io)?;
        Ok(Text::Zstd(Box::new(text)))
    }

    /// Appends what there is up to the end of the line, or up to `most` bytes.
    fn read_line(&mut self, most: usize, to: &mut Vec<u8>) -> std::io::Result<usize> {
        match self {
            Text::Plain(text) => text.take(most as u64).read_until(b'\n', to),
            Text::Zstd(text) => text.take(most as u64).read_until(b'\n', to),
        }
    }
}

impl TraceReader {
    /// Opens a trace, and looks at its first request.
    ///
    /// # Errors
    /// Where the file cannot be read, holds no request, or its first line is wrong.
    pub fn open(path: &Path, format: &'static Format) -> Result<Self, OpenError> {
        let reader = || -> Result<TraceReader, OpenError> {
            Ok(TraceReader {
                format,
                path: path.to_owned(),
                text: Text::open(path, 0)?,
                offset: 0,
                line: 0,
                buffer: Vec::new(),
                cycle: 0,
            })
        };
        match reader()?.next() {
            Ok(Some(_)) => reader(),
            Ok(None) => Err(OpenError::Wrong(format!(
                "{} holds no request; a line of {} is {}",
                path.display(),
                format.name,
                format.grammar
            ))),
            Err(error) => Err(OpenError::Wrong(error.to_string())),
        }
    }

    /// The format.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// Reads the next line to the buffer; whether there is one.
    fn read_line(&mut self) -> Result<bool, StreamError> {
        self.buffer.clear();
        let read = self.text.read_line(MOST_LINE_BYTES + 1, &mut self.buffer);
        let length = read.map_err(|error| {
            let whole = self.line;
            let name = self.path.display();
            let why = reason(&error);
            StreamError::Damaged(format!("{name} cannot be read behind line {whole}: {why}"))
        })?;
        self.offset += length as u64;
        self.line += u64::from(length > 0);
        if length > MOST_LINE_BYTES {
            return Err(self.wrong(&format!("the line is longer than {MOST_LINE_BYTES} bytes")));
        }
        Ok(length > 0)
    }

    /// An error about the line in the buffer.
    fn wrong(&self, why: &str) -> StreamError {
        let Format { name, grammar, example, .. } = self.format;
        let place = self.place();
        StreamError::Damaged(format!(
            "{place}: {why}; a line of {name} is {grammar}, such as {example}"
        ))
    }

    /// The request of the line in the buffer; `None` where it holds nothing.
    fn parse(&mut self) -> Result<Option<MemoryRequest>, StreamError> {
        let line = self.buffer.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            return Ok(None);
        }
        let Ok(text) = std::str::from_utf8(line) else {
            return Err(self.wrong("the line is not text"));
        };
        let request = (self.format.parse)(text).map_err(|why| self.wrong(&why))?;
        let cycle = request.cycle.unwrap_or(0);
        if cycle < self.cycle {
            return Err(StreamError::Damaged(format!(
                "{}: its cycle lies before {}, that of the request before; sort the trace by cycle",
                self.place(),
                self.cycle
            )));
        }
        self.cycle = cycle;
        Ok(Some(request))
    }
}

impl RequestSource for TraceReader {
    fn next(&mut self) -> Result<Option<MemoryRequest>, StreamError> {
        let begun = self.offset;
        while self.read_line()? {
            if let Some(request) = self.parse()? {
                return Ok(Some(request));
            }
            if self.offset - begun > MOST_EMPTY_BYTES {
                let mib = MOST_EMPTY_BYTES >> 20;
                return Err(self.wrong(&format!(
                    "the {mib} MiB up to here are blank lines and remarks; remove them"
                )));
            }
        }
        Ok(None)
    }

    fn place(&self) -> String {
        let line = self.buffer.trim_ascii();
        let text = String::from_utf8_lossy(&line[..line.len().min(4 * SHOWN)]).into_owned();
        let mut shown: String =
            text.chars().take(SHOWN).collect::<String>().escape_debug().collect();
        if text.chars().count() > SHOWN {
            shown.push('…');
        }
        format!("{}, line {}, `{shown}`", self.path.display(), self.line)
    }

    fn fork(&self) -> Result<Box<dyn RequestSource>, StreamError> {
        let text = Text::open(&self.path, self.offset)
            .map_err(|error| StreamError::Damaged(error.to_string()))?;
        Ok(Box::new(TraceReader {
            text,
            path: self.path.clone(),
            buffer: self.buffer.clone(),
            ..*self
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::find;
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    /// A file that goes with the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str, bytes: &[u8]) -> Scratch {
            let path = std::env::temp_dir()
                .join(format!("tierscope-requests-{}-{name}", std::process::id()));
            std::fs::write(&path, bytes).unwrap();
            Scratch(path)
        }

        fn open(&self, format: &str) -> Result<TraceReader, OpenError> {
            TraceReader::open(&self.0, find(format).unwrap())
        }

        /// What opening or reading it to the end says, without its path.
        fn said(&self, format: &str) -> String {
            let error = match self.open(format) {
                Ok(reader) => all(reader).unwrap_err().to_string(),
                Err(error) => error.to_string(),
            };
            error.replace(&self.0.display().to_string(), "FILE")
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            std::fs::remove_file(&self.0).ok();
        }
    }

    fn all(mut source: impl RequestSource) -> Result<Vec<MemoryRequest>, StreamError> {
        std::iter::from_fn(|| source.next().transpose()).collect()
    }

    fn trace(requests: &[(u64, bool, u64)]) -> (Vec<u8>, Vec<MemoryRequest>) {
        let mut text = Vec::new();
        let mut expected = Vec::new();
        let mut cycle = 0;
        for (address, write, after) in requests {
            cycle += after;
            let what = if *write { "WRITE" } else { "READ" };
            writeln!(text, "{address:#x} {what} {cycle}").unwrap();
            expected.push(MemoryRequest { address: *address, write: *write, cycle: Some(cycle) });
        }
        (text, expected)
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_plain_and_compressed_and_forked_anywhere(
            requests in proptest::collection::vec((any::<u64>(), any::<bool>(), 0u64..1000), 1..60),
            at in 0usize..60,
        ) {
            let (text, expected) = trace(&requests);
            let packed = zstd::encode_all(&text[..], 1).unwrap();
            for (name, bytes) in [("plain", &text), ("packed", &packed)] {
                let file = Scratch::new(name, bytes);
                let mut reader = file.open("dramsim3").unwrap();
                let at = at.min(expected.len());
                for one in &expected[..at] {
                    prop_assert_eq!(reader.next().unwrap(), Some(*one));
                }
                let mut fork = reader.fork().unwrap();
                for one in &expected[at..] {
                    prop_assert_eq!(fork.next().unwrap(), Some(*one));
                }
                prop_assert_eq!(fork.next().unwrap(), None);
                prop_assert_eq!(all(reader).unwrap(), &expected[at..]);
            }
        }

        #[test]
        fn no_bytes_at_all_are_more_than_an_error(
            bytes in proptest::collection::vec(any::<u8>(), 0..2000),
        ) {
            let file = Scratch::new("noise", &bytes);
            for format in super::super::FORMATS {
                if let Ok(reader) = TraceReader::open(&file.0, format) {
                    let _ = all(reader);
                }
            }
        }
    }

    #[test]
    fn blank_lines_remarks_and_carriage_returns_are_no_requests() {
        let file = Scratch::new("blank", b"# made by hand\r\n\r\n  0x40 R  \r\n\n0x80 W");
        let read = all(file.open("ramulator").unwrap()).unwrap();
        assert_eq!(read.iter().map(|one| one.address).collect::<Vec<_>>(), [64, 128]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_its_text_and_the_mend() {
        let line = "a line of dramsim3 is 0xADDRESS READ|WRITE CYCLE, such as 0x1f40 READ 120";
        for (text, expected) in [
            ("0x40 R 1", format!("FILE, line 1, `0x40 R 1`: `R` is neither READ nor WRITE; {line}")),
            ("\n0x40 READ", format!("FILE, line 2, `0x40 READ`: it has 2 words, not 3; {line}")),
            (
                "0x40 READ 9\n0x80 READ 8\n",
                "FILE, line 2, `0x80 READ 8`: its cycle lies before 9, that of the request before; \
                 sort the trace by cycle"
                    .into(),
            ),
            (
                "# nothing\n",
                "FILE holds no request; a line of dramsim3 is 0xADDRESS READ|WRITE CYCLE".into(),
            ),
            ("", "FILE holds no request; a line of dramsim3 is 0xADDRESS READ|WRITE CYCLE".into()),
        ] {
            assert_eq!(Scratch::new("wrong", text.as_bytes()).said("dramsim3"), expected);
        }
    }

    #[test]
    fn a_line_without_end_is_not_read_to_its_end() {
        let file = Scratch::new("long", &vec![b'7'; 64 << 20]);
        let said = file.said("dramsim3");
        assert!(said.starts_with("FILE, line 1, `7777"), "{said}");
        assert!(
            said.contains("…`: the line is longer than 512 bytes; a line of dramsim3"),
            "{said}"
        );
        let mut reader = opened(&file);
        assert!(reader.next().is_err() && reader.buffer.capacity() < 1 << 16);
    }

    fn opened(file: &Scratch) -> TraceReader {
        TraceReader {
            format: find("ramulator").unwrap(),
            path: file.0.clone(),
            text: Text::open(&file.0, 0).unwrap(),
            offset: 0,
            line: 0,
            buffer: Vec::new(),
            cycle: 0,
        }
    }

    #[test]
    fn no_request_is_looked_for_without_end() {
        let mut text = b"0x40 READ 1\n".to_vec();
        // Compressed, it is a few KiB.
        text.resize(text.len() + 2 * MOST_EMPTY_BYTES as usize, b'\n');
        text.extend(b"0x80 READ 2\n");
        let packed = zstd::encode_all(&text[..], 1).unwrap();
        let file = Scratch::new("empty", &packed);
        let mut reader = file.open("dramsim3").unwrap();
        assert!(reader.next().unwrap().is_some());
        let said = reader.next().unwrap_err().to_string();
        assert!(said.contains("the 64 MiB up to here are blank lines and remarks"), "{said}");
    }

    #[test]
    fn what_is_no_text_or_no_file_is_refused() {
        let said = Scratch::new("binary", b"\xff\xfe\x00\n").said("ramulator");
        assert!(said.contains("the line is not text"), "{said}");
        for (bytes, by) in
            [(&b"\x1f\x8b\x08\0"[..], "gzip"), (b"\xfd7zXZ\0\0", "xz"), (b"BZh9", "bzip2")]
        {
            let said = Scratch::new(by, bytes).said("ramulator");
            assert!(said.contains(by) && said.contains("compress it by zstd"), "{said}");
        }
        let format = find("ramulator").unwrap();
        for (path, why) in
            [("/nowhere/x.trc", "no such file"), ("/tmp", "directory"), ("/dev/zero", "no regular")]
        {
            let said =
                TraceReader::open(Path::new(path), format).map(|_| ()).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn a_compressed_trace_that_is_cut_short_tells_where() {
        let (text, _) = trace(&vec![(64, false, 1); 100_000]);
        let packed = zstd::encode_all(&text[..], 1).unwrap();
        let said = Scratch::new("cut", &packed[..packed.len() / 2]).said("dramsim3");
        assert!(said.contains("FILE cannot be read behind line"), "{said}");
    }
}
