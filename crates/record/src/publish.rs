//! What the recorded program's process publishes to the process that started it.
//!
//! A file, mapped by both, to which one only appends. The mapping outlives whatever the program
//! does to its descriptors, and what was published outlives the program, however it is killed.
//! Records are JSON objects, one a line; the length that has been committed is an atomic word at
//! the head of the file, so that a reader never sees half a record.

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
    length: usize,
    left_out: u64,
}

impl LogWriter {
    /// Opens a log that [`create`] made.
    pub fn open(path: &Path) -> io::Result<LogWriter> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let map = MmapOptions::new().map_raw(&file)?;
        check_header(&map)?;
        let length = committed(&map).load(Ordering::Acquire) as usize;
        if length > map.len() - HEADER_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the log's length is wrong"));
        }
        Ok(LogWriter { map, length, left_out: 0 })
    }

    /// Appends a record. False where there was no room for it.
    pub fn append(&mut self, urgency: Urgency, record: &impl Serialize) -> bool {
        let Ok(mut line) = serde_json::to_vec(record) else { return false };
        line.push(b'\n');
        let reserved = if urgency == Urgency::Routine { RESERVED_BYTES } else { 0 };
        let start = HEADER_BYTES + self.length;
        let end = start + line.len();
        if end > self.map.len().saturating_sub(reserved) {
            self.left_out += 1;
            return false;
        }
        // SAFETY: `start..end` is within the mapping (checked above), which `line` is no part of;
        // no reader looks beyond the committed length, and this is the only writer.
        unsafe {
            let target = self.map.as_mut_ptr().add(start);
            std::ptr::copy_nonoverlapping(line.as_ptr(), target, line.len());
        }
        self.length += line.len();
        committed(&self.map).store(self.length as u64, Ordering::Release);
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

/// The side that reads, while the writer appends or after.
pub struct LogReader {
    map: MmapRaw,
    position: usize,
}

impl LogReader {
    /// Opens a log that [`create`] made.
    pub fn open(path: &Path) -> io::Result<LogReader> {
        let file = File::open(path)?;
        let map = MmapOptions::new().map_raw_read_only(&file)?;
        check_header(&map)?;
        Ok(LogReader { map, position: 0 })
    }

    /// The records appended since the last poll, in order. One that is not JSON is left out: the
    /// program can write anywhere in its memory, and so into the log.
    pub fn poll(&mut self) -> Vec<Value> {
        let length = committed(&self.map).load(Ordering::Acquire) as usize;
        let length = length.min(self.map.len() - HEADER_BYTES);
        let new = length.saturating_sub(self.position);
        // SAFETY: the range lies within the mapping; what is committed is no longer written to.
        let new = unsafe {
            std::slice::from_raw_parts(self.map.as_ptr().add(HEADER_BYTES + self.position), new)
        };
        self.position = self.position.max(length);
        new.split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()
    }
}

fn check_header(map: &MmapRaw) -> io::Result<()> {
    if map.len() >= HEADER_BYTES {
        // SAFETY: the header is that long, and its magic is never written to again.
        let magic = unsafe { std::slice::from_raw_parts(map.as_ptr().add(8), MAGIC.len()) };
        if magic == MAGIC {
            return Ok(());
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "not a log of this version of tierscope"))
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
        assert_eq!(writer.left_out(), 1);
        assert!(writer.append(Urgency::Needed, &json!({"result": "x".repeat(1 << 20)})));
        let records = LogReader::open(&path).unwrap().poll();
        assert!(records.last().unwrap().get("result").is_some());
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
