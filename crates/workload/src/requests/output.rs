//! Files that are there whole or not at all, compressed as their name's ending says.

use flate2::write::GzEncoder;
use liblzma::write::XzEncoder;
use std::fs::File;
use std::io::{BufWriter, Error, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Bytes written to the file at a time.
const BUFFER_BYTES: usize = 1 << 18;
/// Levels of compression: the programs' own defaults.
const GZIP_LEVEL: u32 = 6;
const XZ_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 3;

/// What a file is compressed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Nothing.
    Plain,
    /// gzip: `.gz`.
    Gzip,
    /// xz: `.xz`.
    Xz,
    /// Zstandard: `.zst`.
    Zstd,
}

impl Packing {
    /// As the ending of a name says.
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("gz") => Packing::Gzip,
            Some("xz") => Packing::Xz,
            Some("zst") => Packing::Zstd,
            _ => Packing::Plain,
        }
    }
}

/// A file being written. Until [`Output::finish`] it has the name of the file with `.partial` after it,
/// and one that is dropped before is removed. A device or pipe is written to as it is.
pub struct Output {
    encoder: Encoder,
    /// Where the file is, and where it is to be; nothing for a device or pipe.
    renamed: Option<(PathBuf, PathBuf)>,
}

enum Encoder {
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
    Xz(XzEncoder<BufWriter<File>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<File>>),
}

/// Whether a name is of what the process has open, such as `/dev/stdout`: a file behind it is written to,
/// not replaced, since whoever has opened it goes on with that.
pub fn is_open_already(path: &Path) -> bool {
    ["/dev/stdout", "/dev/stderr"].iter().any(|name| path == Path::new(name))
        || ["/dev/fd", "/proc/self/fd"].iter().any(|directory| path.starts_with(directory))
}

/// What is said where a file that is to be written would have the name of one half written.
pub fn is_under_way(partial: &Path) -> String {
    format!(
        "{} is there, of a file that is under way or that was given up; wait for it, or remove it",
        partial.display()
    )
}

impl Output {
    /// Begins a file that is to be at `path`. One that is there stays until it is finished. To one that is open
    /// already ([`is_open_already`]) is appended.
    ///
    /// # Errors
    /// Where it cannot be made, or where there is a directory, or something that has the name until it
    /// is finished.
    pub fn create(path: &Path) -> Result<Output, Error> {
        let packing = Packing::of(path);
        let kind = std::fs::metadata(path).map(|found| found.file_type());
        if kind.as_ref().is_ok_and(std::fs::FileType::is_dir) {
            return Err(Error::from(ErrorKind::IsADirectory));
        }
        if kind.is_ok_and(|kind| !kind.is_file()) {
            // To open a pipe that nobody reads would never end.
            let mut without_waiting = File::options();
            without_waiting.write(true).custom_flags(libc::O_NONBLOCK);
            drop(without_waiting.open(path).map_err(|error| match error.raw_os_error() {
                Some(libc::ENXIO) => Error::new(ErrorKind::NotConnected, "nobody reads this pipe"),
                _ => error,
            })?);
            let file = File::options().write(true).open(path)?;
            return Ok(Output { encoder: Encoder::new(file, packing)?, renamed: None });
        }
        if is_open_already(path) {
            let file = File::options().append(true).open(path)?;
            return Ok(Output { encoder: Encoder::new(file, packing)?, renamed: None });
        }
        // Where there is a link, what it leads to is replaced, not the link.
        let place = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let partial = crate::trace::partial_path(&place);
        let file = File::create_new(&partial).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Error::other(is_under_way(&partial)),
            _ => error,
        })?;
        let encoder = Encoder::new(file, packing)?;
        Ok(Output { encoder, renamed: Some((partial, place)) })
    }

    /// Completes the file and gives it its name; how many bytes it has, where it is a file.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn finish(mut self) -> Result<Option<u64>, Error> {
        let file = self.encoder.end()?;
        let Some((partial, place)) = self.renamed.take() else { return Ok(None) };
        let bytes = file.metadata().map(|found| found.len());
        let done = bytes.and_then(|bytes| {
            std::fs::rename(&partial, &place)?;
            Ok(Some(bytes))
        });
        if done.is_err() {
            self.renamed = Some((partial, place));
        }
        done
    }
}

impl Encoder {
    fn new(file: File, packing: Packing) -> Result<Encoder, Error> {
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(match packing {
            Packing::Plain => Encoder::Plain(file),
            Packing::Gzip => {
                Encoder::Gzip(GzEncoder::new(file, flate2::Compression::new(GZIP_LEVEL)))
            }
            Packing::Xz => Encoder::Xz(XzEncoder::new(file, XZ_LEVEL)),
            Packing::Zstd => Encoder::Zstd(zstd::stream::write::Encoder::new(file, ZSTD_LEVEL)?),
        })
    }

    /// Writes what ends the compressed data, and all that is pending.
    fn end(&mut self) -> Result<&File, Error> {
        let file = match self {
            Encoder::Plain(file) => file,
            Encoder::Gzip(to) => {
                to.try_finish()?;
                to.get_mut()
            }
            Encoder::Xz(to) => {
                to.try_finish()?;
                to.get_mut()
            }
            Encoder::Zstd(to) => {
                to.do_finish()?;
                to.get_mut()
            }
        };
        file.flush()?;
        Ok(file.get_ref())
    }

    #[inline]
    fn to(&mut self) -> &mut dyn Write {
        match self {
            Encoder::Plain(to) => to,
            Encoder::Gzip(to) => to,
            Encoder::Xz(to) => to,
            Encoder::Zstd(to) => to,
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        self.encoder.to().write(bytes)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.encoder.to().flush()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some((partial, _)) = &self.renamed {
            // What is half written is not to be taken for a trace; that it cannot be removed changes
            // nothing about the failure that led here.
            let _ = std::fs::remove_file(partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::input::Input;
    use super::super::tests::Scratch;
    use super::*;

    #[test]
    fn a_file_is_there_whole_or_not_at_all_packed_as_its_name_says() {
        let old = Scratch::new(b"old");
        let name = old.0.display().to_string();
        let text = b"0x40 READ 1\n".repeat(50_000);
        for (ending, packing) in [
            ("", Packing::Plain),
            (".gz", Packing::Gzip),
            (".xz", Packing::Xz),
            (".zst", Packing::Zstd),
        ] {
            let path = Scratch(PathBuf::from(format!("{name}{ending}")));
            assert_eq!(Packing::of(&path.0), packing);
            std::fs::write(&path.0, b"old").unwrap();
            let mut given_up = Output::create(&path.0).unwrap();
            given_up.write_all(&text).unwrap();
            drop(given_up);
            assert_eq!(std::fs::read(&path.0).unwrap(), b"old");
            let mut to = Output::create(&path.0).unwrap();
            to.write_all(&text).unwrap();
            let bytes = to.finish().unwrap().unwrap();
            assert_eq!(bytes, std::fs::metadata(&path.0).unwrap().len());
            assert_eq!(bytes < text.len() as u64 / 10, packing != Packing::Plain);
            assert!(!crate::trace::partial_path(&path.0).exists());
            let mut back = vec![0; text.len() + 1];
            let read = Input::open(&path.0, 0).unwrap().read_up_to(&mut back).unwrap();
            assert_eq!(&back[..read], &text, "{ending}");
        }
    }

    #[test]
    fn a_file_that_is_open_already_is_written_to_and_not_replaced() {
        use std::os::fd::AsRawFd;
        let scratch = Scratch::new(b"first");
        let open = File::options().append(true).open(&scratch.0).unwrap();
        let name = format!("/proc/self/fd/{}", open.as_raw_fd());
        assert!(is_open_already(Path::new(&name)) && is_open_already(Path::new("/dev/stdout")));
        assert!(!is_open_already(&scratch.0));
        let mut to = Output::create(Path::new(&name)).unwrap();
        to.write_all(b", second").unwrap();
        assert_eq!(to.finish().unwrap(), None);
        assert_eq!(std::fs::read(&scratch.0).unwrap(), b"first, second");
        (&open).write_all(b", third").unwrap();
        assert_eq!(std::fs::read(&scratch.0).unwrap(), b"first, second, third");
    }

    #[test]
    fn what_cannot_be_written_is_an_error() {
        let told = |path: &str| Output::create(Path::new(path)).err().map(|why| why.kind());
        assert_eq!(told("/tmp"), Some(ErrorKind::IsADirectory));
        assert_eq!(told("/nowhere/x.trc"), Some(ErrorKind::NotFound));
        let pipe = std::env::temp_dir().join(format!("tierscope-pipe-{}", std::process::id()));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let told = Output::create(&pipe).err().unwrap();
        std::fs::remove_file(&pipe).unwrap();
        assert_eq!(told.to_string(), "nobody reads this pipe");
        let mut full = Output::create(Path::new("/dev/full")).unwrap();
        full.write_all(b"x").unwrap();
        assert!(full.finish().is_err());
    }
}
