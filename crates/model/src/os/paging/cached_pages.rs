//! Which frame has which page of a file.

use super::*;

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

    /// The frame of a page that has been read, is a folio by itself without a mark, and is not in the swap cache, as
    /// [`CachedPages::note_plain`] has told since it has been there: without a look at the frame.
    #[inline]
    pub fn plain_frame(&self, key: u64) -> Option<u64> {
        let word = self.words.get(key);
        (word & PLAIN != 0).then(|| (word >> 1) - 1)
    }

    /// A page, if this frame has it, is as [`CachedPages::plain_frame`] says, and stays so until it leaves or enters the
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
