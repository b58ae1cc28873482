//! gzip in any number of members (RFC 1952, §2.2), one behind the other, with nothing but zeros behind
//! the last, which tapes and block devices leave there and gzip itself passes over.

use flate2::bufread::GzDecoder;
use std::io::{BufRead, Error, ErrorKind, Read};

/// What a member begins with.
pub(super) const MAGIC: &[u8] = b"\x1f\x8b";
/// Members in a row that hold nothing at most: a file of nothing else is no trace.
const MOST_EMPTY: u32 = 1 << 12;

/// All members of a file.
pub(super) struct Gzip<R> {
    /// The member being read; `None` at the end.
    member: Option<GzDecoder<R>>,
    /// Members in a row, this one included, that have held nothing so far.
    empty: u32,
}

impl<R: BufRead> Gzip<R> {
    /// What `file` holds, from its first member on.
    pub fn new(file: R) -> Self {
        Gzip { member: Some(GzDecoder::new(file)), empty: 1 }
    }

    /// The file, until its end was reached.
    pub fn file(&self) -> Option<&R> {
        self.member.as_ref().map(GzDecoder::get_ref)
    }

    /// Goes on to the next member, if there is one.
    fn go_on(&mut self) -> Result<(), Error> {
        let Some(member) = self.member.take() else { return Ok(()) };
        let mut file = member.into_inner();
        let begin = file.fill_buf()?;
        let zeros = begin.first() == Some(&0);
        // A header may begin at the end of a buffer: its first byte tells.
        if begin.first() == MAGIC.first() {
            self.empty += 1;
            if self.empty > MOST_EMPTY {
                return Err(invalid(format!("more than {MOST_EMPTY} members in a row are empty")));
            }
            self.member = Some(GzDecoder::new(file));
            return Ok(());
        }
        let rest = if zeros { padding(&mut file)? } else { begin.len() as u64 };
        match rest {
            0 => Ok(()),
            _ => Err(invalid("what follows its last member is no gzip".into())),
        }
    }
}

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, to: &mut [u8]) -> Result<usize, Error> {
        while let Some(member) = &mut self.member {
            let read = member.read(to)?;
            if read > 0 || to.is_empty() {
                self.empty = 0;
                return Ok(read);
            }
            self.go_on()?;
        }
        Ok(0)
    }
}

fn invalid(what: String) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

/// Passes over zeros; how many other bytes stand behind them in the buffer.
fn padding(file: &mut impl BufRead) -> Result<u64, Error> {
    loop {
        let bytes = file.fill_buf()?;
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        let others = bytes.len() - zeros;
        if others > 0 || zeros == 0 {
            return Ok(others as u64);
        }
        file.consume(zeros);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn member(bytes: &[u8]) -> Vec<u8> {
        let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        to.write_all(bytes).unwrap();
        to.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<Vec<u8>, String> {
        let mut all = Vec::new();
        // Two bytes at a time: every boundary lies at the end of a buffer once.
        let file = std::io::BufReader::with_capacity(2, bytes);
        Gzip::new(file).read_to_end(&mut all).map_err(|why| why.to_string())?;
        Ok(all)
    }

    #[test]
    fn members_follow_each_other_and_zeros_the_last() {
        let both = [member(b"one "), member(b""), member(b"two")].concat();
        assert_eq!(read(&both).unwrap(), b"one two");
        assert_eq!(read(&[both.clone(), vec![0; 10_240]].concat()).unwrap(), b"one two");
        for rest in [&b"junk"[..], b"\0\0junk"] {
            let told = read(&[both.clone(), rest.to_vec()].concat()).unwrap_err();
            assert!(told.contains("no gzip"), "{told}");
        }
    }

    #[test]
    fn a_file_of_nothing_but_empty_members_ends() {
        let told = read(&member(b"").repeat(5000)).unwrap_err();
        assert!(told.contains("members in a row are empty"), "{told}");
        assert_eq!(read(&[member(b"").repeat(4000), member(b"x")].concat()).unwrap(), b"x");
    }
}
