//! Files as they are, or as gzip, xz, zstd or zip have compressed them, which is seen from their first
//! bytes. Whatever a file is, it takes bounded memory: of what it holds, a buffer, and what its
//! compression looks back to.

use super::gzip::{self, Gzip};
use super::zip::{self, Zip};
use liblzma::bufread::XzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use tierscope_units::reason;

/// Why a trace cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be read.
    #[error("{0} cannot be read: {1}")]
    Unreadable(String, String),
    /// It is no file of the format, or its beginning is wrong.
    #[error("{0}")]
    Wrong(String),
    /// What was said of how it is to be read makes no sense.
    #[error(transparent)]
    Choice(#[from] super::ChoiceError),
}

/// Bytes read at a time.
const BUFFER_BYTES: usize = 1 << 16;
/// Memory that a decoder may take: what xz and zstd look back to at their default settings is 8 MiB,
/// and at their highest, without "ultra" or a window of one's own, 64 MiB and 8 MiB.
const MOST_DECODER_BYTES: u64 = 256 << 20;
/// The same for zstd, as the power of two that its window is at most.
const MOST_WINDOW_LOG: u32 = 27;

const XZ: &[u8] = b"\xfd7zXZ\0";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
/// What a frame begins with that decoders skip, behind a byte from 0x50 to 0x5f (RFC 8878, §3.1.2);
/// pzstd has one before each of its own.
const SKIPPABLE: &[u8] = b"\x2a\x4d\x18";
/// What else a file may begin with that is no trace by itself.
const FOREIGN: [(&[u8], &str); 3] =
    [(b"BZh", "bzip2"), (b"7z\xbc\xaf", "7-Zip"), (b"LZIP", "lzip")];

type Plain = BufReader<Counted>;

/// A file, and how much of it has been read.
pub(super) struct Counted {
    file: File,
    read_bytes: u64,
    file_bytes: u64,
}

impl Read for Counted {
    fn read(&mut self, to: &mut [u8]) -> Result<usize, Error> {
        let read = self.file.read(to)?;
        self.read_bytes += read as u64;
        Ok(read)
    }
}

impl Seek for Counted {
    fn seek(&mut self, to: SeekFrom) -> Result<u64, Error> {
        self.read_bytes = self.file.seek(to)?;
        Ok(self.read_bytes)
    }
}

/// A file being read, decompressed on the way.
pub(super) enum Input {
    /// As it is.
    Plain(Plain),
    /// Compressed by gzip, in any number of members.
    Gzip(Box<BufReader<Gzip<Plain>>>),
    /// Compressed by xz, in any number of streams.
    Xz(Box<BufReader<XzDecoder<Plain>>>),
    /// Compressed by zstd, in any number of frames.
    Zstd(Box<BufReader<zstd::stream::read::Decoder<'static, Plain>>>),
    /// In a zip archive.
    Zip(Box<BufReader<Zip<Plain>>>),
}

impl Input {
    /// What a file holds from byte `offset` on: for one that is compressed, of what it holds.
    ///
    /// # Errors
    /// Where it cannot be read, or is compressed by something else.
    pub fn open(path: &Path, offset: u64) -> Result<Input, OpenError> {
        let name = path.display().to_string();
        let unreadable = |why: String| OpenError::Unreadable(name.clone(), why);
        let io = |why: Error| unreadable(told(&why));
        if path.as_os_str().is_empty() {
            let why = "a file has no name; name one, or leave out the comma";
            return Err(OpenError::Wrong(why.into()));
        }
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
        if let Some((_, by)) = FOREIGN.iter().find(|(start, _)| magic.starts_with(start)) {
            return Err(OpenError::Wrong(format!(
                "{name} is compressed by {by}, which is not read here; \
                 decompress it, or compress it by gzip, xz or zstd instead"
            )));
        }
        file.rewind().map_err(io)?;
        let mut input = Input::of(file, &magic).map_err(io)?;
        input.skip(offset).map_err(io)?;
        Ok(input)
    }

    fn of(file: File, magic: &[u8]) -> Result<Input, Error> {
        let file_bytes = file.metadata()?.len();
        let counted = Counted { file, read_bytes: 0, file_bytes };
        let plain = BufReader::with_capacity(BUFFER_BYTES, counted);
        Ok(if magic.starts_with(gzip::MAGIC) {
            Input::Gzip(Box::new(buffered(Gzip::new(plain))))
        } else if magic.starts_with(XZ) {
            let all = liblzma::stream::CONCATENATED;
            let stream = liblzma::stream::Stream::new_stream_decoder(MOST_DECODER_BYTES, all)?;
            Input::Xz(Box::new(buffered(XzDecoder::new_stream(plain, stream))))
        } else if magic.starts_with(ZSTD) || is_skippable(magic) {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(plain)?;
            decoder.window_log_max(MOST_WINDOW_LOG)?;
            Input::Zstd(Box::new(buffered(decoder)))
        } else if magic.starts_with(zip::MAGIC) {
            Input::Zip(Box::new(buffered(Zip::new(plain)?)))
        } else {
            Input::Plain(plain)
        })
    }

    fn skip(&mut self, offset: u64) -> Result<(), Error> {
        if let Input::Plain(file) = self {
            file.seek(SeekFrom::Start(offset))?;
            return Ok(());
        }
        std::io::copy(&mut self.bytes().take(offset), &mut std::io::sink())?;
        Ok(())
    }

    #[inline]
    fn bytes(&mut self) -> &mut dyn BufRead {
        match self {
            Input::Plain(bytes) => bytes,
            Input::Gzip(bytes) => bytes,
            Input::Xz(bytes) => bytes,
            Input::Zstd(bytes) => bytes,
            Input::Zip(bytes) => bytes,
        }
    }

    /// Share of the file that has been read, buffers included.
    pub fn share(&self) -> f64 {
        let file = match self {
            Input::Plain(file) => Some(file),
            Input::Gzip(file) => file.get_ref().file(),
            Input::Xz(file) => Some(file.get_ref().get_ref()),
            Input::Zstd(file) => Some(file.get_ref().get_ref()),
            Input::Zip(file) => file.get_ref().file(),
        };
        file.map_or(1.0, |file| {
            let Counted { read_bytes, file_bytes, .. } = file.get_ref();
            (*read_bytes as f64 / (*file_bytes).max(1) as f64).min(1.0)
        })
    }

    /// Appends what there is up to the end of the line, that included, or up to `most` bytes; how many
    /// there were.
    ///
    /// # Errors
    /// Where it cannot be read; what is wrong is told by [`told`].
    #[inline]
    pub fn read_line(&mut self, most: usize, to: &mut Vec<u8>) -> Result<usize, Error> {
        match self {
            Input::Plain(bytes) => line_of(bytes, most, to),
            Input::Gzip(bytes) => line_of(bytes, most, to),
            Input::Xz(bytes) => line_of(bytes, most, to),
            Input::Zstd(bytes) => line_of(bytes, most, to),
            Input::Zip(bytes) => line_of(bytes, most, to),
        }
    }

    /// What has been read ahead, some bytes at least unless there are none.
    ///
    /// # Errors
    /// Where it cannot be read; what is wrong is told by [`told`].
    #[inline]
    pub fn ahead(&mut self) -> Result<&[u8], Error> {
        match self {
            Input::Plain(bytes) => bytes.fill_buf(),
            Input::Gzip(bytes) => bytes.fill_buf(),
            Input::Xz(bytes) => bytes.fill_buf(),
            Input::Zstd(bytes) => bytes.fill_buf(),
            Input::Zip(bytes) => bytes.fill_buf(),
        }
    }

    /// The same as far as it is there, without reading.
    #[inline]
    pub fn held(&self) -> &[u8] {
        match self {
            Input::Plain(bytes) => bytes.buffer(),
            Input::Gzip(bytes) => bytes.buffer(),
            Input::Xz(bytes) => bytes.buffer(),
            Input::Zstd(bytes) => bytes.buffer(),
            Input::Zip(bytes) => bytes.buffer(),
        }
    }

    /// Takes so many of the bytes that were read ahead.
    #[inline]
    pub fn take(&mut self, bytes: usize) {
        match self {
            Input::Plain(held) => held.consume(bytes),
            Input::Gzip(held) => held.consume(bytes),
            Input::Xz(held) => held.consume(bytes),
            Input::Zstd(held) => held.consume(bytes),
            Input::Zip(held) => held.consume(bytes),
        }
    }

    /// Fills `to` as far as there is something; how many bytes there were.
    ///
    /// # Errors
    /// Where it cannot be read; what is wrong is told by [`told`].
    pub fn read_up_to(&mut self, to: &mut [u8]) -> Result<usize, Error> {
        let mut filled = 0;
        while filled < to.len() {
            match self.bytes().read(&mut to[filled..]) {
                Ok(0) => break,
                Ok(some) => filled += some,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
        Ok(filled)
    }
}

/// Whether a frame of zstd begins that decoders skip.
fn is_skippable(magic: &[u8]) -> bool {
    matches!(magic, [0x50..=0x5f, rest @ ..] if rest.starts_with(SKIPPABLE))
}

fn buffered<R: Read>(reader: R) -> BufReader<R> {
    BufReader::with_capacity(BUFFER_BYTES, reader)
}

#[inline]
fn line_of(bytes: &mut impl BufRead, most: usize, to: &mut Vec<u8>) -> Result<usize, Error> {
    bytes.take(most as u64).read_until(b'\n', to)
}

/// What is wrong with a file, in words: decoders have theirs for what is cut short or too large.
pub(super) fn told(why: &Error) -> String {
    let text = why.to_string();
    if why.kind() == ErrorKind::UnexpectedEof || text.contains("premature eof") {
        return "its compressed data are cut short; fetch or compress it again".into();
    }
    if text.contains("memory usage limit") || text.contains("memory limit") {
        let mib = MOST_DECODER_BYTES >> 20;
        return format!("decompressing it takes more than {mib} MiB; compress it at a lower level");
    }
    if text.contains("too much memory") {
        let mib = 1u64 << MOST_WINDOW_LOG >> 20;
        return format!(
            "its window is larger than {mib} MiB; compress it without --ultra or --long above \
             {MOST_WINDOW_LOG}"
        );
    }
    match why.kind() {
        ErrorKind::InvalidInput | ErrorKind::InvalidData | ErrorKind::Other => {
            format!("its compressed data are damaged ({text}); fetch or compress it again")
        }
        _ => reason(why),
    }
}
