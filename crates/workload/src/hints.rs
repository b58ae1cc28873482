//! Hints of what will be needed, replayed from a file of their own beside a workload: application-directed
//! prefetching of programs that have no calls for it (\[HYB15\] §2.4 names it as an extension).
//!
//! Each is carried out as if the program had called `madvise(MADV_WILLNEED)` there, with what that costs: the
//! kernel of a machine that pages reads the range ahead, and a hybrid asks for its pages.

use crate::op::{Advice, Call, Op, OpKind, ThreadId};
use crate::site::SiteTable;
use crate::stream::{About, FileInfo, Footprint, Pull, Stream, StreamError};
use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::Arc;
use tierscope_units::Size;

/// The longest line: what is longer is no file of hints.
const LONGEST: usize = 1 << 12;

/// A range that will be needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hint {
    /// Loads and stores of its thread that come before it.
    accesses: u64,
    address: u64,
    bytes: u64,
}

/// The hints of a file, by thread, each thread's in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    threads: BTreeMap<ThreadId, Vec<Hint>>,
}

/// Why a file of hints cannot be read: the line, counted from 1, and what is wrong with it, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct HintError {
    /// The line.
    pub line: u64,
    /// What is wrong, and what to write.
    pub reason: String,
}

impl Hints {
    /// Reads hints, one a line: `ACCESSES ADDRESS BYTES [THREAD]`. `ACCESSES` are loads and stores of the thread
    /// (0 unless it is said) that come before it: at least one, as nothing is mapped before, and never fewer than those
    /// of the line before. `ADDRESS` is the program's, decimal or, behind 0x, hexadecimal; `BYTES` a number or a size,
    /// such as 64KiB. What follows `#` is left out, as are empty lines.
    ///
    /// # Errors
    /// The first line that is none of these, or that cannot be read.
    pub fn read(mut from: impl BufRead) -> Result<Hints, HintError> {
        let mut hints = Hints::default();
        let mut text = Vec::new();
        for line in 1.. {
            text.clear();
            let error = |reason: String| HintError { line, reason };
            let mut limited = std::io::Read::take(&mut from, LONGEST as u64);
            let read = limited.read_until(b'\n', &mut text).map_err(|e| error(e.to_string()))?;
            if read == 0 {
                break;
            }
            if read == LONGEST && text.last() != Some(&b'\n') {
                return Err(error(format!("it is longer than {LONGEST} bytes")));
            }
            let text = std::str::from_utf8(&text).map_err(|_| error("it is no text".into()))?;
            let words = text.split('#').next().unwrap_or("").split_ascii_whitespace();
            let words: Vec<&str> = words.collect();
            if !words.is_empty() {
                let (thread, hint) = hint(&words).map_err(error)?;
                hints.add(thread, hint).map_err(error)?;
            }
        }
        Ok(hints)
    }

    fn add(&mut self, thread: ThreadId, hint: Hint) -> Result<(), String> {
        let of_thread = self.threads.entry(thread).or_default();
        if let Some(last) = of_thread.last().filter(|last| last.accesses > hint.accesses) {
            return Err(format!(
                "{} accesses come after the {} of the hint before it of thread {thread}; sort the lines",
                hint.accesses, last.accesses
            ));
        }
        of_thread.push(hint);
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.threads.values().map(Vec::len).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }
}

fn hint(words: &[&str]) -> Result<(ThreadId, Hint), String> {
    let (accesses, address, bytes, thread) = match *words {
        [accesses, address, bytes] => (accesses, address, bytes, "0"),
        [accesses, address, bytes, thread] => (accesses, address, bytes, thread),
        _ => {
            return Err(format!(
                "it has {} words; write ACCESSES ADDRESS BYTES, and THREAD where that is not 0",
                words.len()
            ));
        }
    };
    let number = |what: &str, text: &str| {
        let hexadecimal = text.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
        let read = hexadecimal.unwrap_or_else(|| text.parse());
        read.map_err(|_| format!("{what} `{text}` is no number; write 4096 or 0x1000"))
    };
    let length = match bytes.parse::<u64>() {
        Ok(bytes) => bytes,
        Err(_) => {
            let size: Result<Size, _> = bytes.parse();
            size.map_err(|_| format!("BYTES `{bytes}` is no size; write 4096 or 4KiB"))?.bytes()
        }
    };
    let (accesses, address) = (number("ACCESSES", accesses)?, number("ADDRESS", address)?);
    if accesses == 0 {
        return Err(
            "it comes before the first access, when nothing is mapped; write 1 or more ACCESSES"
                .into(),
        );
    }
    if length == 0 || address.checked_add(length).is_none() {
        return Err(format!("{length} bytes from {address:#x} on are no range of memory"));
    }
    let id = ThreadId::try_from(number("THREAD", thread)?);
    let thread = id.map_err(|_| format!("THREAD `{thread}` is beyond any"))?;
    Ok((thread, Hint { accesses, address, bytes: length }))
}

/// How far a thread has come.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    accesses: u64,
    /// Hints that were given.
    given: usize,
}

/// A workload beside which hints are replayed.
pub struct Hinted {
    inner: Box<dyn Stream>,
    hints: Arc<Hints>,
    threads: BTreeMap<ThreadId, Progress>,
}

impl Hinted {
    /// A workload at its start, with hints.
    pub fn new(inner: Box<dyn Stream>, hints: Arc<Hints>) -> Hinted {
        Hinted { inner, hints, threads: BTreeMap::new() }
    }
}

impl Stream for Hinted {
    fn tells_mappings(&self) -> bool {
        self.inner.tells_mappings()
    }

    fn pull(
        &mut self,
        thread: ThreadId,
        limit: usize,
        out: &mut Vec<Op>,
    ) -> Result<Pull, StreamError> {
        let Some(hints) = self.hints.threads.get(&thread) else {
            return self.inner.pull(thread, limit, out);
        };
        let progress = self.threads.entry(thread).or_default();
        let mut limit = limit.max(1) as u64;
        if let Some(hint) = hints.get(progress.given) {
            if hint.accesses <= progress.accesses {
                progress.given += 1;
                let advice = Advice::WillNeed as u64;
                Call::Advise { address: hint.address, length: hint.bytes, advice }.encode(0, out);
                return Ok(Pull::More);
            }
            // So few operations have no more accesses than come before it.
            limit = limit.min(hint.accesses - progress.accesses);
        }
        let first = out.len();
        let pulled = self.inner.pull(thread, limit as usize, out)?;
        let access = |op: &&Op| [OpKind::Load as u8, OpKind::Store as u8].contains(&op.kind_code());
        progress.accesses += out[first..].iter().filter(access).count() as u64;
        Ok(pulled)
    }

    fn wait(&mut self, thread: ThreadId) -> bool {
        self.inner.wait(thread)
    }

    fn fork(&self) -> Box<dyn Stream> {
        Box::new(Hinted {
            inner: self.inner.fork(),
            hints: self.hints.clone(),
            threads: self.threads.clone(),
        })
    }

    fn footprint(&self) -> Option<Footprint> {
        self.inner.footprint()
    }

    fn accesses(&self) -> Option<u64> {
        self.inner.accesses()
    }

    fn about(&self) -> Option<About> {
        self.inner.about()
    }

    fn accesses_before_region(&self) -> Option<u64> {
        self.inner.accesses_before_region()
    }

    fn gives_mark(&self, mark: u64) -> Option<bool> {
        self.inner.gives_mark(mark)
    }

    fn is_cut(&self) -> bool {
        self.inner.is_cut()
    }

    fn ended_early(&self) -> Option<String> {
        self.inner.ended_early()
    }

    fn remarks(&self) -> Vec<String> {
        let absent = self.hints.threads.iter().filter(|(id, _)| !self.threads.contains_key(id));
        let absent = absent.map(|(thread, hints)| {
            let (count, s) = (hints.len(), if hints.len() == 1 { "" } else { "s" });
            format!(
                "{count} hint{s} (--hints) of thread {thread} had no effect: no such thread has run"
            )
        });
        self.inner.remarks().into_iter().chain(absent).collect()
    }

    fn files(&self) -> Arc<Vec<FileInfo>> {
        self.inner.files()
    }

    fn sites(&self) -> Arc<SiteTable> {
        self.inner.sites()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{calls_of_thread, stream_laws};
    use crate::generator::find;

    fn read(text: &str) -> Result<Hints, String> {
        Hints::read(text.as_bytes()).map_err(|error| error.to_string())
    }

    fn hinted(text: &str) -> Box<dyn Stream> {
        let of = |name: &str, value| (name.to_owned(), value);
        let parameters = [of("table", "1MiB".into()), of("updates", serde_json::Value::from(500))];
        let (stream, _) = find("gups").unwrap().make(&parameters, 7).unwrap();
        Box::new(Hinted::new(stream, Arc::new(read(text).unwrap())))
    }

    #[test]
    fn hints_of_threads_that_never_run_are_told() {
        let mut stream = hinted("1 0x1000 4096\n1 0x1000 4096 7\n2 0x1000 4096 7");
        let mut out = Vec::new();
        while stream.pull(0, 100, &mut out).unwrap() == Pull::More {}
        assert_eq!(
            stream.remarks(),
            ["2 hints (--hints) of thread 7 had no effect: no such thread has run"]
        );
        assert!(hinted("1 0x1000 4096").fork().remarks().len() == 1, "nothing has run yet");
    }

    #[test]
    fn the_streams_laws_hold() {
        stream_laws(|| {
            hinted("1 0x1000 64KiB\n1 8192 4096\n40 1 1\n# none\n\n700 0x10 1KiB 0\n5 5 5 3")
        });
    }

    #[test]
    fn a_hint_comes_behind_so_many_accesses() {
        let mut stream = hinted("3 0x1000 64KiB\n3 8192 1\n1000000 1 1");
        let mut ops = Vec::new();
        while stream.pull(0, 7, &mut ops).unwrap() == Pull::More {}
        let (mut accesses, mut found) = (0, Vec::new());
        for (place, op) in ops.iter().enumerate() {
            let kind = op.kind_code();
            accesses += u64::from(kind == OpKind::Load as u8 || kind == OpKind::Store as u8);
            if kind == OpKind::Call as u8 && op.word == 4 {
                found.push((accesses, ops[place + 1].word));
            }
        }
        // Its address is the first argument.
        assert_eq!(found, [(3, 0x1000), (3, 8192)]);
        let advised =
            Call::Advise { address: 0x1000, length: 65536, advice: Advice::WillNeed as u64 };
        let calls = calls_of_thread(&mut *hinted("3 0x1000 64KiB"), 0);
        assert_eq!(calls.iter().filter(|call| **call == advised).count(), 1);
    }

    #[test]
    fn what_is_no_hint_is_told_with_its_line() {
        for (text, told) in [
            ("1 2", "line 1: it has 2 words"),
            ("# x\n\n1 2 3 4 5", "line 3: it has 5 words"),
            ("a 2 3", "line 1: ACCESSES `a` is no number"),
            ("1 0xg 3", "line 1: ADDRESS `0xg` is no number"),
            ("1 2 3KB4", "line 1: BYTES `3KB4` is no size"),
            ("1 2 0", "line 1: 0 bytes from 0x2 on are no range"),
            ("1 0xffffffffffffffff 2", "line 1: 2 bytes from 0xffffffffffffffff on are no range"),
            ("1 2 3 4294967296", "line 1: THREAD `4294967296` is beyond any"),
            ("0 2 3", "line 1: it comes before the first access"),
            (
                "5 2 3\n4 2 3",
                "line 2: 4 accesses come after the 5 of the hint before it of thread 0",
            ),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.starts_with(told), "{text:?}: {found}");
        }
        let long = format!("1 2 3 #{}\n", "x".repeat(1 << 13));
        assert_eq!(read(&long).unwrap_err(), "line 1: it is longer than 4096 bytes");
        assert!(Hints::read(&b"1 2 \xff"[..]).unwrap_err().to_string().contains("no text"));
        assert!(read("# nothing\n").unwrap().is_empty());
        assert_eq!(read("1 2 3 1\n1 2 3").unwrap().len(), 2);
    }
}
