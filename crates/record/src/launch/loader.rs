//! Which program loads a program.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The loader that an ELF file of 64 bits names for itself (System V ABI, "Program Header"); `None` where
/// it is linked statically. An error where its head cannot be read, or is damaged.
pub(crate) fn loader_of(path: &Path) -> io::Result<Option<PathBuf>> {
    const HEADER_BYTES: u16 = 56;
    const MOST_HEADERS: u16 = 1024;
    let file = File::open(path)?;
    let mut head = [0; 64];
    file.read_exact_at(&mut head, 0)?;
    let half = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let (start, size, count) = (long(&head, 32), half(54), half(56));
    if size != HEADER_BYTES || !(1..MOST_HEADERS).contains(&count) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "its program headers are damaged"));
    }
    let mut headers = vec![0; usize::from(size) * usize::from(count)];
    file.read_exact_at(&mut headers, start)?;
    let kind = |header: &&[u8]| {
        u32::from_le_bytes([header[0], header[1], header[2], header[3]]) == libc::PT_INTERP
    };
    let Some(header) = headers.chunks_exact(usize::from(size)).find(kind) else { return Ok(None) };
    let (offset, length) = (long(header, 8), long(header, 32));
    let mut name = vec![0; length.min(libc::PATH_MAX as u64) as usize];
    file.read_exact_at(&mut name, offset)?;
    name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
    Ok(Some(PathBuf::from(OsString::from_vec(name))))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_names_its_loader() {
        let loader = loader_of(&std::env::current_exe().unwrap()).unwrap();
        assert!(loader.is_some_and(|path| path.is_absolute()));
        assert!(loader_of(Path::new("/nonexistent")).is_err());
    }
}
