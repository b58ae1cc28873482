//! Sets of pages: of memory, with what is known of each, and of files.

use crate::op::FileId;
use std::collections::HashMap;

const PAGES_IN_A_CHUNK: u64 = 4096;
const WORDS: usize = (PAGES_IN_A_CHUNK / 64) as usize;

/// What has happened to pages since they were mapped, a bit each.
#[derive(Clone)]
struct Chunk {
    read: [u64; WORDS],
    written: [u64; WORDS],
    /// They are no file's: memory of their own.
    anonymous: [u64; WORDS],
}

impl Chunk {
    fn new() -> Box<Chunk> {
        Box::new(Chunk { read: [0; WORDS], written: [0; WORDS], anonymous: [0; WORDS] })
    }

    /// Forgets the pages from one on to before another; how many of them were anonymous.
    fn forget(&mut self, from: u64, to: u64) -> u64 {
        let mut forgotten = 0;
        for word in 0..WORDS as u64 {
            let (low, high) = (from.max(word * 64), to.min(word * 64 + 64));
            if low >= high {
                continue;
            }
            let bits = u64::MAX >> (64 - (high - low)) << (low % 64);
            let word = word as usize;
            forgotten += u64::from((self.anonymous[word] & bits).count_ones());
            for set in [&mut self.read, &mut self.written, &mut self.anonymous] {
                set[word] &= !bits;
            }
        }
        forgotten
    }
}

/// Where a page's bit is: its chunk, word and bit.
fn place(page: u64) -> (u64, usize, u64) {
    let at = page % PAGES_IN_A_CHUNK;
    (page / PAGES_IN_A_CHUNK, (at / 64) as usize, 1 << (at % 64))
}

/// Pages of memory by address.
#[derive(Default)]
pub(super) struct Memory {
    chunks: HashMap<u64, Box<Chunk>>,
    /// The page that was accessed last, and whether it was written: most accesses are to the same.
    last: Option<(u64, bool)>,
    /// Anonymous pages that there are now.
    pub(super) anonymous: u64,
}

impl Memory {
    /// Whether the access before was of the same page and kind.
    #[inline]
    pub(super) fn was_last(&self, page: u64, write: bool) -> bool {
        self.last == Some((page, write))
    }

    /// Notes an access; whether nothing of the kind had come to the page since it was mapped.
    pub(super) fn is_new(&mut self, page: u64, write: bool) -> bool {
        self.last = Some((page, write));
        let (chunk, word, bit) = place(page);
        let chunk = self.chunks.entry(chunk).or_insert_with(Chunk::new);
        let known = if write { &mut chunk.written } else { &mut chunk.read };
        let is_new = known[word] & bit == 0;
        known[word] |= bit;
        is_new
    }

    /// The page is memory of its own.
    pub(super) fn make_anonymous(&mut self, page: u64) {
        let (chunk, word, bit) = place(page);
        let chunk = self.chunks.entry(chunk).or_insert_with(Chunk::new);
        self.anonymous += u64::from(chunk.anonymous[word] & bit == 0);
        chunk.anonymous[word] |= bit;
    }

    /// Whether a page is memory of its own.
    pub(super) fn is_anonymous(&self, page: u64) -> bool {
        let (chunk, word, bit) = place(page);
        self.chunks.get(&chunk).is_some_and(|chunk| chunk.anonymous[word] & bit != 0)
    }

    /// Pages from one on to before another are gone.
    pub(super) fn forget(&mut self, start: u64, end: u64) {
        self.last = None;
        let mut forgotten = 0;
        let mut forget = |number: u64, chunk: &mut Chunk| {
            let first = number * PAGES_IN_A_CHUNK;
            let from = start.max(first) - first;
            forgotten +=
                chunk.forget(from, end.min(first + PAGES_IN_A_CHUNK).saturating_sub(first));
        };
        let chunks = start / PAGES_IN_A_CHUNK..end.div_ceil(PAGES_IN_A_CHUNK);
        if chunks.end.saturating_sub(chunks.start) < self.chunks.len() as u64 {
            for number in chunks {
                self.chunks.get_mut(&number).into_iter().for_each(|chunk| forget(number, chunk));
            }
        } else {
            let within = self.chunks.iter_mut().filter(|(number, _)| chunks.contains(number));
            within.for_each(|(number, chunk)| forget(*number, chunk));
        }
        self.anonymous -= forgotten;
    }

    /// Pages of one range, from one on to before another, are moved to the beginning of the other,
    /// whatever is longer is cut.
    pub(super) fn remap(&mut self, old: (u64, u64), new: (u64, u64)) {
        let kept = (old.1.saturating_sub(old.0)).min(new.1.saturating_sub(new.0));
        if old.0 == new.0 {
            return self.forget(old.0 + kept, old.1);
        }
        let moved = self.known_in(old.0, old.0 + kept);
        self.forget(old.0, old.1);
        self.forget(new.0, new.1);
        for (page, read, written, anonymous) in moved {
            let to = new.0 + (page - old.0);
            let (chunk, word, bit) = place(to);
            let chunk = self.chunks.entry(chunk).or_insert_with(Chunk::new);
            chunk.read[word] |= if read { bit } else { 0 };
            chunk.written[word] |= if written { bit } else { 0 };
            if anonymous {
                self.make_anonymous(to);
            }
        }
    }

    /// The pages of a range of which anything is known: whether they were read, were written, and are
    /// anonymous.
    fn known_in(&self, start: u64, end: u64) -> Vec<(u64, bool, bool, bool)> {
        let chunks = start / PAGES_IN_A_CHUNK..end.div_ceil(PAGES_IN_A_CHUNK);
        let mut known = Vec::new();
        for (number, chunk) in self.chunks.iter().filter(|(number, _)| chunks.contains(number)) {
            for at in 0..PAGES_IN_A_CHUNK {
                let (word, bit) = ((at / 64) as usize, 1_u64 << (at % 64));
                let told =
                    [&chunk.read, &chunk.written, &chunk.anonymous].map(|set| set[word] & bit != 0);
                let page = number * PAGES_IN_A_CHUNK + at;
                if told != [false; 3] && (start..end).contains(&page) {
                    known.push((page, told[0], told[1], told[2]));
                }
            }
        }
        known
    }
}

/// Pages of files that were touched.
#[derive(Default)]
pub(super) struct FilePages {
    chunks: HashMap<(FileId, u64), Box<[u64; WORDS]>>,
    last: Option<(FileId, u64)>,
    count: u64,
}

impl FilePages {
    pub(super) fn add(&mut self, file: FileId, page: u64) {
        if self.last == Some((file, page)) {
            return;
        }
        self.last = Some((file, page));
        let (chunk, word, bit) = place(page);
        let chunk = self.chunks.entry((file, chunk)).or_insert_with(|| Box::new([0; WORDS]));
        self.count += u64::from(chunk[word] & bit == 0);
        chunk[word] |= bit;
    }

    /// How many they are.
    pub(super) fn count(&self) -> u64 {
        self.count
    }
}
