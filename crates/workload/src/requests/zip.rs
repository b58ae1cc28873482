//! zip archives of one trace (PKWARE's APPNOTE 6.3.10): a single file, stored or deflated, or the parts
//! `chunk.0000`, `chunk.0001` and so on into which DynamoRIO divides a trace.

use flate2::Crc;
use flate2::bufread::DeflateDecoder;
use std::collections::VecDeque;
use std::io::{BufRead, Error, ErrorKind, Read, Seek, SeekFrom, Take};

/// What an archive that holds anything begins with.
pub(super) const MAGIC: &[u8] = LOCAL;
const LOCAL: &[u8] = b"PK\x03\x04";
const CENTRAL: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";
const END_64: &[u8] = b"PK\x06\x06";
const LOCATOR_64: &[u8] = b"PK\x06\x07";
const LOCAL_BYTES: usize = 30;
const CENTRAL_BYTES: usize = 46;
const END_BYTES: usize = 22;
const END_64_BYTES: usize = 56;
const LOCATOR_64_BYTES: usize = 20;
/// A comment behind the end has at most so many bytes.
const MOST_COMMENT_BYTES: u64 = (1 << 16) - 1;
/// Bytes of a directory at most: half a million parts.
const MOST_DIRECTORY_BYTES: u64 = 32 << 20;
/// Stands for a number that is in the field of 64 bits.
const IN_64: u64 = 0xffff_ffff;
const ENCRYPTED: u16 = 1;
/// What DynamoRIO calls the parts of a trace.
const CHUNK: &[u8] = b"chunk.";

/// A file of an archive.
#[derive(Clone, Debug)]
struct Part {
    /// Where its own header is.
    offset: u64,
    packed_bytes: u64,
    bytes: u64,
    crc: u32,
    deflated: bool,
}

/// A part being read.
enum Decoder<R> {
    Stored(Take<R>),
    Deflated(DeflateDecoder<Take<R>>),
}

impl<R: BufRead> Decoder<R> {
    fn file(&self) -> &R {
        match self {
            Decoder::Stored(file) => file.get_ref(),
            Decoder::Deflated(decoder) => decoder.get_ref().get_ref(),
        }
    }

    fn into_file(self) -> R {
        match self {
            Decoder::Stored(file) => file.into_inner(),
            Decoder::Deflated(decoder) => decoder.into_inner().into_inner(),
        }
    }
}

/// The trace that an archive holds.
pub(super) struct Zip<R> {
    /// `None` once it has failed.
    decoder: Option<Decoder<R>>,
    part: Part,
    next: VecDeque<Part>,
    read_bytes: u64,
    crc: Crc,
}

impl<R: BufRead + Seek> Zip<R> {
    /// What `file` holds.
    ///
    /// # Errors
    /// Where it cannot be read, or holds no trace or several.
    pub fn new(mut file: R) -> Result<Self, Error> {
        let mut next = parts(&mut file)?;
        let part = next.pop_front().ok_or_else(|| unfit("it holds no file".into()))?;
        let decoder = Some(begin(file, &part)?);
        Ok(Zip { decoder, part, next, read_bytes: 0, crc: Crc::new() })
    }
}

impl<R: BufRead> Zip<R> {
    /// The archive itself, until reading it has failed.
    pub fn file(&self) -> Option<&R> {
        self.decoder.as_ref().map(Decoder::file)
    }
}

impl<R: BufRead + Seek> Read for Zip<R> {
    fn read(&mut self, to: &mut [u8]) -> Result<usize, Error> {
        loop {
            let read = match &mut self.decoder {
                None => return Ok(0),
                Some(Decoder::Stored(bytes)) => bytes.read(to)?,
                Some(Decoder::Deflated(bytes)) => bytes.read(to)?,
            };
            if read > 0 || to.is_empty() {
                self.crc.update(&to[..read]);
                self.read_bytes += read as u64;
                return Ok(read);
            }
            if self.read_bytes != self.part.bytes {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if self.crc.sum() != self.part.crc {
                return Err(invalid("the check sum of a part is wrong"));
            }
            let Some(part) = self.next.pop_front() else { return Ok(0) };
            let Some(decoder) = self.decoder.take() else { return Ok(0) };
            self.decoder = Some(begin(decoder.into_file(), &part)?);
            (self.part, self.read_bytes, self.crc) = (part, 0, Crc::new());
        }
    }
}

fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

/// What is a zip archive, and none that is read here.
fn unfit(what: String) -> Error {
    Error::new(ErrorKind::Unsupported, what)
}

fn number<const BYTES: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut all = [0; 8];
    all[..BYTES].copy_from_slice(&bytes[at..at + BYTES]);
    u64::from_le_bytes(all)
}

/// Reads so many bytes from a place on.
fn read_at(file: &mut (impl Read + Seek), at: u64, bytes: usize) -> Result<Vec<u8>, Error> {
    file.seek(SeekFrom::Start(at))?;
    let mut all = vec![0; bytes];
    file.read_exact(&mut all)?;
    Ok(all)
}

/// Begins to read a part.
fn begin<R: BufRead + Seek>(mut file: R, part: &Part) -> Result<Decoder<R>, Error> {
    let header = read_at(&mut file, part.offset, LOCAL_BYTES)?;
    if !header.starts_with(LOCAL) {
        return Err(invalid("a part is not where its directory says"));
    }
    let names = number::<2>(&header, 26) + number::<2>(&header, 28);
    file.seek_relative(names as i64)?;
    let packed = file.take(part.packed_bytes);
    Ok(if part.deflated {
        Decoder::Deflated(DeflateDecoder::new(packed))
    } else {
        Decoder::Stored(packed)
    })
}

/// Where the directory is, and how many bytes it has.
fn directory(file: &mut (impl Read + Seek)) -> Result<(u64, u64), Error> {
    let length = file.seek(SeekFrom::End(0))?;
    let start = length.saturating_sub(MOST_COMMENT_BYTES + END_BYTES as u64);
    let tail = read_at(file, start, (length - start) as usize)?;
    let found = (0..tail.len().saturating_sub(END_BYTES - 1)).rev().find(|at| {
        tail[*at..].starts_with(END)
            && number::<2>(&tail, at + 20) == (tail.len() - at - END_BYTES) as u64
    });
    let at = found.ok_or_else(|| Error::from(ErrorKind::UnexpectedEof))?;
    let (bytes, offset) = (number::<4>(&tail, at + 12), number::<4>(&tail, at + 16));
    if bytes != IN_64 && offset != IN_64 {
        return Ok((offset, bytes));
    }
    let wrong = || invalid("its directory is not where its end says");
    let locator = (start + at as u64).checked_sub(LOCATOR_64_BYTES as u64).ok_or_else(wrong)?;
    let locator = read_at(file, locator, LOCATOR_64_BYTES)?;
    let end = read_at(file, number::<8>(&locator, 8).min(length), END_64_BYTES)?;
    if !locator.starts_with(LOCATOR_64) || !end.starts_with(END_64) {
        return Err(wrong());
    }
    Ok((number::<8>(&end, 48), number::<8>(&end, 40)))
}

/// The parts of the trace that an archive holds, in the order of its directory.
fn parts(file: &mut (impl Read + Seek)) -> Result<VecDeque<Part>, Error> {
    let (offset, bytes) = directory(file)?;
    if bytes > MOST_DIRECTORY_BYTES {
        return Err(invalid("its directory has more than 32 MiB"));
    }
    let directory = read_at(file, offset, bytes as usize)?;
    let mut rest = &directory[..];
    let mut parts = VecDeque::new();
    let mut all_chunks = true;
    while rest.starts_with(CENTRAL) && rest.len() >= CENTRAL_BYTES {
        let lengths = [28, 30, 32].map(|at| number::<2>(rest, at) as usize);
        let end = CENTRAL_BYTES + lengths.iter().sum::<usize>();
        let entry = rest.get(..end).ok_or_else(|| Error::from(ErrorKind::UnexpectedEof))?;
        rest = &rest[end..];
        let (name, others) = entry[CENTRAL_BYTES..].split_at(lengths[0]);
        if name.ends_with(b"/") {
            continue;
        }
        if number::<2>(entry, 8) as u16 & ENCRYPTED != 0 {
            return Err(unfit("it is encrypted; decrypt it before".into()));
        }
        let deflated = match number::<2>(entry, 10) {
            0 => false,
            8 => true,
            other => {
                return Err(unfit(format!("its method {other} is not deflate; unpack it before")));
            }
        };
        let mut numbers = [number::<4>(entry, 24), number::<4>(entry, 20), number::<4>(entry, 42)];
        in_64(&others[..lengths[1]], &mut numbers)?;
        let [bytes, packed_bytes, offset] = numbers;
        let crc = number::<4>(entry, 16) as u32;
        all_chunks &= name.starts_with(CHUNK);
        parts.push_back(Part { offset, packed_bytes, bytes, crc, deflated });
    }
    if !rest.is_empty() {
        return Err(invalid("its directory is damaged"));
    }
    if parts.len() > 1 && !all_chunks {
        let count = parts.len();
        return Err(unfit(format!("it holds {count} files; unpack the one that is meant")));
    }
    Ok(parts)
}

/// Replaces numbers of 32 bits by those of the field of 64, which has only these, in order.
fn in_64(mut fields: &[u8], numbers: &mut [u64; 3]) -> Result<(), Error> {
    let cut = || Error::from(ErrorKind::UnexpectedEof);
    while fields.len() >= 4 {
        let (kind, bytes) = (number::<2>(fields, 0), number::<2>(fields, 2) as usize);
        let mut field = fields.get(4..4 + bytes).ok_or_else(cut)?;
        if kind == 1 {
            for number_32 in numbers.iter_mut().filter(|one| **one == IN_64) {
                *number_32 = number::<8>(field.get(..8).ok_or_else(cut)?, 0);
                field = &field[8..];
            }
        }
        fields = &fields[4 + bytes..];
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use flate2::write::DeflateEncoder;
    use std::io::{Cursor, Write};

    /// An archive of files, deflated or not, with numbers of 64 bits or of 32.
    pub fn archive(files: &[(&str, &[u8])], deflate: bool, wide: bool) -> Vec<u8> {
        let mut all = Vec::new();
        let mut directory = Vec::new();
        for (name, bytes) in files {
            let offset = all.len() as u64;
            let packed = if deflate {
                let mut to = DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
                to.write_all(bytes).unwrap();
                to.finish().unwrap()
            } else {
                bytes.to_vec()
            };
            let mut crc = Crc::new();
            crc.update(bytes);
            let method = if deflate { 8u16 } else { 0 };
            let wide_numbers = [bytes.len() as u64, packed.len() as u64, offset];
            let narrow = wide_numbers.map(|one| if wide { u32::MAX } else { one as u32 });
            let field: Vec<u8> = if wide {
                let numbers = wide_numbers.iter().flat_map(|one| one.to_le_bytes());
                [1, 0, 24, 0].into_iter().chain(numbers).collect()
            } else {
                Vec::new()
            };
            // Version and flags, method, and no date.
            let middle =
                [&20u16.to_le_bytes()[..], &[0, 0], &method.to_le_bytes(), &[0; 4]].concat();
            let sum = crc.sum().to_le_bytes();
            let name_bytes = (name.len() as u16).to_le_bytes();
            all.extend([LOCAL, &middle, &sum, &narrow[1].to_le_bytes()].concat());
            all.extend([&narrow[0].to_le_bytes()[..], &name_bytes, &[0, 0]].concat());
            all.extend(name.as_bytes());
            all.extend(packed);
            directory.extend([CENTRAL, &[20, 0], &middle, &sum, &narrow[1].to_le_bytes()].concat());
            let field_bytes = (field.len() as u16).to_le_bytes();
            directory.extend([&narrow[0].to_le_bytes()[..], &name_bytes, &field_bytes].concat());
            directory.extend([0; 10]);
            directory.extend(narrow[2].to_le_bytes());
            directory.extend(name.as_bytes());
            directory.extend(field);
        }
        let (offset, bytes) = (all.len() as u64, directory.len() as u64);
        all.extend(directory);
        if wide {
            let end = all.len() as u64;
            all.extend(END_64);
            all.extend([0; 36]);
            all.extend([bytes.to_le_bytes(), offset.to_le_bytes()].concat());
            all.extend([LOCATOR_64, &[0; 4], &end.to_le_bytes(), &[1, 0, 0, 0]].concat());
        }
        let count = (files.len() as u16).to_le_bytes();
        let narrow = |one: u64| if wide { u32::MAX } else { one as u32 }.to_le_bytes();
        all.extend([END, &[0; 4], &count, &count, &narrow(bytes), &narrow(offset)].concat());
        all.extend([9, 0]);
        all.extend(b"a comment");
        all
    }

    fn read(bytes: &[u8]) -> Result<Vec<u8>, String> {
        let mut all = Vec::new();
        let mut zip = Zip::new(Cursor::new(bytes)).map_err(|why| why.to_string())?;
        zip.read_to_end(&mut all).map_err(|why| why.to_string())?;
        Ok(all)
    }

    const TEXT: &[u8] = b"0x40 READ 1\n0x80 WRITE 2\n";

    #[test]
    fn a_file_or_the_chunks_of_one_are_read_however_they_are_kept() {
        for deflate in [false, true] {
            for wide in [false, true] {
                assert_eq!(read(&archive(&[("a.trc", TEXT)], deflate, wide)).unwrap(), TEXT);
                let chunks =
                    [("chunk.0000", &TEXT[..7]), ("chunk.0001", &[]), ("chunk.0002", &TEXT[7..])];
                assert_eq!(read(&archive(&chunks, deflate, wide)).unwrap(), TEXT);
            }
        }
    }

    #[test]
    fn an_archive_of_something_else_is_told() {
        let two = archive(&[("a", TEXT), ("b", TEXT)], true, false);
        assert_eq!(read(&two).unwrap_err(), "it holds 2 files; unpack the one that is meant");
        assert_eq!(read(&archive(&[("a/", b"")], true, false)).unwrap_err(), "it holds no file");
        let whole = archive(&[("a", TEXT)], false, false);
        let mut wrong = whole.clone();
        wrong[LOCAL_BYTES + 3] ^= 1;
        assert_eq!(read(&wrong).unwrap_err(), "the check sum of a part is wrong");
        let at = whole.windows(4).position(|four| four == CENTRAL).unwrap();
        for (place, value, told) in [
            (8, 1, "it is encrypted; decrypt it before"),
            (10, 12, "its method 12 is not deflate; unpack it before"),
        ] {
            let mut other = whole.clone();
            other[at + place] = value;
            assert_eq!(read(&other).unwrap_err(), told);
        }
    }

    /// Whatever stands in an archive, reading it ends, and ends in an error or in bytes.
    #[test]
    fn an_archive_with_a_fault_anywhere_is_never_more_than_an_error() {
        for wide in [false, true] {
            let whole = archive(&[("chunk.0", TEXT), ("chunk.1", TEXT)], true, wide);
            let right = read(&whole).unwrap();
            for at in 0..whole.len() {
                assert!(read(&whole[..at]).is_err(), "cut at {at}");
                for value in [0, 1, 0x7f, 0xff] {
                    let mut other = whole.clone();
                    other[at] = value;
                    if let Ok(bytes) = read(&other) {
                        assert_eq!(bytes, right, "{value} at {at}");
                    }
                }
            }
        }
    }
}
