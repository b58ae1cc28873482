//! What the host publishes to the process that started the program.
//!
//! A file, mapped by both, that is a ring: one side appends, the other takes. The mapping outlives
//! whatever the program does to its descriptors, and what was published and not yet taken outlives
//! the program, however it is killed. Records are JSON objects, one a line. How many bytes have
//! been committed, and how many taken, are atomic words at the head of the file, so that a reader
//! never sees half a record and a writer never replaces one that has not been read.

use memmap2::{MmapOptions, MmapRaw};
use serde::Serialize;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Size of a log in bytes, unless told otherwise.
pub const DEFAULT_CAPACITY_BYTES: u64 = 64 << 20;
/// What [`Urgency::Routine`] records leave free for the others.
const RESERVED_BYTES: usize = 8 << 20;
const HEADER_BYTES: usize = 64;
const STOP_OFFSET: usize = 24;
const TAKEN_OFFSET: usize = 32;
const MAGIC: [u8; 8] = *b"TSLOG\0\0\x01";

/// Whether a record may be left out when the log is nearly full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Progress: a later one replaces it.
    Routine,
    /// A result, an error: must not be lost.
    Needed,
}

/// Creates an empty log of `capacity_bytes` at `path`, for a writer to open.
///
/// The space is allocated at once where the file system can do that, so that a full disk is an
/// error here and not a fault of the program later.
pub fn create(path: &Path, capacity_bytes: u64) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    file.set_len(capacity_bytes)?;
    allocate(&file, capacity_bytes)?;
    let mut header = [0; 24];
    header[8..16].copy_from_slice(&MAGIC);
    header[16..].copy_from_slice(&capacity_bytes.to_le_bytes());
    file.write_all_at(&header, 0)
}

fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    // SAFETY: the descriptor is open; the call touches no memory of ours.
    let failed = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes as libc::off_t) } != 0;
    let error = io::Error::last_os_error();
    let unsupported = matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS));
    if failed && !unsupported { Err(error) } else { Ok(()) }
}

/// The side that appends. Holds no descriptor.
pub struct LogWriter {
    map: MmapRaw,
    /// Bytes of records so far.
    length: u64,
    left_out: u64,
}

impl LogWriter {
    /// Opens a log that [`create`] made.
    pub fn open(path: &Path) -> io::Result<LogWriter> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let map = MmapOptions::new().map_raw(&file)?;
        check_header(&map)?;
        let length = committed(&map).load(Ordering::Acquire);
        if pending(&map, length) > room(&map) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the log's length is wrong"));
        }
        Ok(LogWriter { map, length, left_out: 0 })
    }

    /// Appends a record. False where there was no room for it.
    pub fn append(&mut self, urgency: Urgency, record: &impl Serialize) -> bool {
        let Ok(mut line) = serde_json::to_vec(record) else { return false };
        line.push(b'\n');
        let reserved = if urgency == Urgency::Routine { RESERVED_BYTES } else { 0 };
        let room = room(&self.map);
        if pending(&self.map, self.length) + line.len() > room.saturating_sub(reserved) {
            self.left_out += 1;
            return false;
        }
        let start = (self.length % room as u64) as usize;
        let (until_end, from_start) = line.split_at(line.len().min(room - start));
        // SAFETY: both pieces lie within the mapping, which `line` is no part of; no reader looks
        // beyond the committed length nor before what it has taken, and this is the only writer.
        unsafe {
            let ring = self.map.as_mut_ptr().add(HEADER_BYTES);
            std::ptr::copy_nonoverlapping(until_end.as_ptr(), ring.add(start), until_end.len());
            std::ptr::copy_nonoverlapping(from_start.as_ptr(), ring, from_start.len());
        }
        self.length += line.len() as u64;
        committed(&self.map).store(self.length, Ordering::Release);
        true
    }

    /// Whether the reader has asked for an early end: see [`request_stop`].
    pub fn stop_requested(&self) -> bool {
        word(&self.map, STOP_OFFSET).load(Ordering::Acquire) != 0
    }

    /// Records for which there was no room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// The side that reads, while the writer appends or after. A log has one at a time.
pub struct LogReader {
    map: MmapRaw,
    position: u64,
}

impl LogReader {
    /// Opens a log that [`create`] made.
    pub fn open(path: &Path) -> io::Result<LogReader> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let map = MmapOptions::new().map_raw(&file)?;
        check_header(&map)?;
        let position = word(&map, TAKEN_OFFSET).load(Ordering::Acquire);
        Ok(LogReader { map, position })
    }

    /// The records appended since the last poll, in order. One that is not JSON is left out: the
    /// program can write anywhere in its memory, and so into the log.
    pub fn poll(&mut self) -> Vec<Value> {
        let length = committed(&self.map).load(Ordering::Acquire);
        let room = room(&self.map);
        let start = (self.position % room as u64) as usize;
        let count = length.saturating_sub(self.position).min(room as u64) as usize;
        let until_end = count.min(room - start);
        let mut new = Vec::with_capacity(count);
        // SAFETY: both ranges lie within the mapping; what is committed and not taken is not
        // written to.
        unsafe {
            let ring = self.map.as_ptr().add(HEADER_BYTES);
            new.extend_from_slice(std::slice::from_raw_parts(ring.add(start), until_end));
            new.extend_from_slice(std::slice::from_raw_parts(ring, count - until_end));
        }
        self.position += count as u64;
        word(&self.map, TAKEN_OFFSET).store(self.position, Ordering::Release);
        new.split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()
    }
}

fn check_header(map: &MmapRaw) -> io::Result<()> {
    if map.len() > HEADER_BYTES {
        // SAFETY: the header is that long, and its magic is never written to again.
        let magic = unsafe { std::slice::from_raw_parts(map.as_ptr().add(8), MAGIC.len()) };
        if magic == MAGIC {
            return Ok(());
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "not a log of this version of tierscope"))
}

/// Bytes of records that the ring has room for.
fn room(map: &MmapRaw) -> usize {
    map.len() - HEADER_BYTES
}

/// Of `length` bytes of records so far, those that have not been taken.
fn pending(map: &MmapRaw, length: u64) -> usize {
    length.saturating_sub(word(map, TAKEN_OFFSET).load(Ordering::Acquire)) as usize
}

fn committed(map: &MmapRaw) -> &AtomicU64 {
    word(map, 0)
}

/// A word of the header that both sides access.
fn word(map: &MmapRaw, offset: usize) -> &AtomicU64 {
    assert!(map.len() >= HEADER_BYTES && offset.is_multiple_of(8), "checked at opening");
    // SAFETY: the mapping begins at a page, so the word is aligned, and it is long enough; both
    // sides access these words by this function alone.
    unsafe { AtomicU64::from_ptr(map.as_mut_ptr().add(offset).cast::<u64>()) }
}

/// Asks the writer of the log at `path` to bring its run to an early end, with a result marked so.
pub fn request_stop(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let map = MmapOptions::new().map_raw(&file)?;
    check_header(&map)?;
    word(&map, STOP_OFFSET).store(1, Ordering::Release);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::path::PathBuf;

    fn scratch(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("tierscope-log-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    #[test]
    fn a_reader_sees_each_record_once_in_order_as_it_comes() {
        let path = scratch("order");
        create(&path, 64 << 20).unwrap();
        let mut reader = LogReader::open(&path).unwrap();
        let mut writer = LogWriter::open(&path).unwrap();
        assert!(reader.poll().is_empty());
        assert!(writer.append(Urgency::Routine, &json!({"a": 1})));
        assert!(writer.append(Urgency::Needed, &json!({"a": 2})));
        assert_eq!(reader.poll(), vec![json!({"a": 1}), json!({"a": 2})]);
        assert!(reader.poll().is_empty());
        drop(writer);
        let mut second = LogWriter::open(&path).unwrap();
        second.append(Urgency::Needed, &json!({"a": 3}));
        assert_eq!(reader.poll(), vec![json!({"a": 3})], "a reopened log goes on");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_log_that_fills_keeps_room_for_what_is_needed() {
        let path = scratch("full");
        create(&path, RESERVED_BYTES as u64 + 4096).unwrap();
        let mut writer = LogWriter::open(&path).unwrap();
        while writer.append(Urgency::Routine, &json!({"progress": "some"})) {}
        assert_eq!(writer.left_out(), 1, "nobody takes anything");
        assert!(writer.append(Urgency::Needed, &json!({"result": "x".repeat(1 << 20)})));
        let records = LogReader::open(&path).unwrap().poll();
        assert!(records.last().unwrap().get("result").is_some());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_log_that_is_read_never_fills() {
        let path = scratch("ring");
        create(&path, RESERVED_BYTES as u64 + 4096).unwrap();
        let mut reader = LogReader::open(&path).unwrap();
        let mut writer = LogWriter::open(&path).unwrap();
        let text = "x".repeat(3000);
        for number in 0..4000 {
            assert!(writer.append(Urgency::Routine, &json!({"number": number, "text": text})));
            let records = reader.poll();
            assert_eq!(records.len(), 1);
            assert_eq!(
                (&records[0]["number"], &records[0]["text"]),
                (&json!(number), &json!(text))
            );
        }
        assert_eq!(writer.left_out(), 0);
        let mut again = LogWriter::open(&path).unwrap();
        again.append(Urgency::Needed, &json!({"a": 1}));
        assert_eq!(LogReader::open(&path).unwrap().poll(), vec![json!({"a": 1})]);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_reader_can_ask_for_an_early_end() {
        let path = scratch("stop");
        create(&path, 1 << 20).unwrap();
        let writer = LogWriter::open(&path).unwrap();
        assert!(!writer.stop_requested());
        request_stop(&path).unwrap();
        assert!(writer.stop_requested());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn another_file_is_refused() {
        let path = scratch("other");
        std::fs::write(&path, [0; 4096]).unwrap();
        assert!(LogReader::open(&path).is_err());
        assert!(LogWriter::open(&path).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
