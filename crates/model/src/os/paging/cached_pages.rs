//! Which frame has which page of a file.

use super::*;
use tierscope_kernel::cow::LEAF;

/// Set in a word where the frame's state says nothing about the page that whoever maps it has to know.
const PLAIN: u64 = 1;

/// The frames of pages of files, by [`file_key`]: one word for each page, the words of neighbours side by side.
#[derive(Clone, Debug)]
pub(super) struct CachedPages {
    words: CowMap<u64>,
}

impl CachedPages {
    pub fn new() -> CachedPages {
        CachedPages { words: CowMap::new(0) }
    }

    /// The frame of a page, also of one that is being read.
    #[inline]
    pub fn frame(&self, key: u64) -> Option<u64> {
        (self.words.get(key) >> 1).checked_sub(1)
    }

    /// A frame has a page, or is about to.
    pub fn set(&mut self, key: u64, frame: u64) {
        self.words.set(key, (frame + 1) << 1);
    }

    /// No frame has a page any more.
    pub fn remove(&mut self, key: u64) {
        self.words.set(key, 0);
    }

    /// The pages around one, to be looked at one after the other.
    #[inline]
    pub fn near(&self, key: u64) -> CachedNear<'_> {
        CachedNear { all: self, first: key & !(LEAF as u64 - 1), words: self.words.leaf_of(key) }
    }

    /// A page, if this frame has it, is as [`CachedNear::frame`] says, and stays so until it leaves or enters the
    /// swap cache.
    pub fn note_plain(&mut self, key: u64, frame: u64) {
        if self.words.get(key) == (frame + 1) << 1 {
            self.words.set(key, (frame + 1) << 1 | PLAIN);
        }
    }

    /// The pages that have a frame, by their keys.
    pub fn words(&self) -> &CowMap<u64> {
        &self.words
    }

    /// A second one; the words are shared until written.
    pub fn fork(&mut self) -> CachedPages {
        CachedPages { words: self.words.fork() }
    }
}

/// Pages of files, of which neighbours of one take no search.
#[derive(Clone, Copy, Debug)]
pub(super) struct CachedNear<'a> {
    all: &'a CachedPages,
    first: u64,
    words: &'a [u64; LEAF],
}

impl CachedNear<'_> {
    /// The frame of a page, and whether the page has been read, is a folio by itself without a mark, and is not in the swap
    /// cache, as [`CachedPages::note_plain`] has told since it has been there: without a look at the frame.
    #[inline]
    pub fn frame(&self, key: u64) -> Option<(u64, bool)> {
        let word = match key.checked_sub(self.first).and_then(|at| self.words.get(at as usize)) {
            Some(word) => *word,
            None => self.all.words.get(key),
        };
        Some(((word >> 1).checked_sub(1)?, word & PLAIN != 0))
    }
}
