//! Tag and data in one unit (TAD) of the rows of DRAM: an Alloy cache (Qureshi & Loh, MICRO 2012).

use super::{DramCacheSpec, TagStore};
use crate::medium::DramSpec;
use tierscope_units::{Problems, Size};

/// Bytes of a line in a TAD.
pub(super) const LINE_BYTES: u64 = 64;
/// Bytes of a TAD: its tag takes eight.
const TAD_BYTES: u64 = LINE_BYTES + 8;

/// How TADs lie in DRAM: side by side from the start of each row, none of them in two, so that a row of
/// 2 KiB has 28 and 32 bytes that stay free. DRAM moves whole bursts, and a TAD that begins at any multiple
/// of eight bytes takes the same number of them: two of 64 bytes, three of 32, five of 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TadLayout {
    row_bytes: u64,
    tads_of_row: u64,
    /// Bytes of a burst.
    burst_bytes: u64,
}

impl TadLayout {
    /// Where `cache` has its tags in TADs; in rows of so many bytes, a TAD at least.
    pub fn new(cache: &DramCacheSpec, row_bytes: u64, burst_bytes: u64) -> Option<Self> {
        let tads_of_row = row_bytes / TAD_BYTES;
        let made = cache.tags == TagStore::Tad && tads_of_row > 0;
        made.then_some(TadLayout { row_bytes, tads_of_row, burst_bytes })
    }

    /// In the rows and bursts of a DRAM whose part is known.
    pub(super) fn of(cache: &DramCacheSpec, dram: &DramSpec) -> Option<Self> {
        let (_, row) = dram.banks_and_row()?;
        TadLayout::new(cache, row.bytes(), dram.burst_bytes()?)
    }

    /// Bytes of DRAM for so many bytes of lines: whole rows.
    pub fn dram_bytes(&self, data_bytes: u64) -> u64 {
        (data_bytes / LINE_BYTES).div_ceil(self.tads_of_row) * self.row_bytes
    }

    /// What the DRAM is asked for at once.
    pub fn burst_bytes(&self) -> u64 {
        self.burst_bytes
    }

    /// The bursts of the TAD whose line holds this byte of the cache: first byte in DRAM, and bytes.
    #[inline]
    pub(super) fn bursts(&self, address: u64) -> (u64, u32) {
        let frame = address / LINE_BYTES;
        let (row, place) = (frame / self.tads_of_row, frame % self.tads_of_row);
        let first = place * TAD_BYTES;
        let begin = first / self.burst_bytes * self.burst_bytes;
        let end = (first + TAD_BYTES).next_multiple_of(self.burst_bytes);
        (row * self.row_bytes + begin, (end - begin) as u32)
    }

    /// Collects what of a DRAM does not fit TADs: they lie in rows, which follow each other.
    pub(super) fn check(path: &str, dram: &DramSpec, problems: &mut Problems) {
        let Some((_, row)) = dram.banks_and_row() else { return };
        if row.bytes() < 2 * LINE_BYTES {
            problems.add(
                "contradiction",
                "dram.row".into(),
                row.to_string(),
                format!("a line with its tag ({path}.tags) has {TAD_BYTES} B"),
                "write at least \"128B\", such as \"2KiB\"".into(),
            );
            return;
        }
        let Some(burst_bytes) = dram.burst_bytes() else { return };
        if problems.is_empty() {
            dram.check_line("dram", burst_bytes, problems);
        }
        if problems.is_empty() && !dram.rows_follow_each_other(burst_bytes) {
            problems.add(
                "contradiction",
                "dram.mapping".into(),
                format!("\"{}\"", dram.mapping),
                format!(
                    "a line and its tag ({path}.tags) lie in one row, so that the lowest part of an address \
                     is the column"
                ),
                "write \"ro-ra-ba-bg-ch-co\"".into(),
            );
        }
    }
}

impl DramCacheSpec {
    /// A TAD is a line with its tag.
    pub(super) fn check_tad(&self, path: &str, problems: &mut Problems) {
        if self.tags == TagStore::Tad && self.page.bytes() != LINE_BYTES {
            problems.add(
                "contradiction",
                format!("{path}.page"),
                self.page.to_string(),
                format!("a tag beside each line ({path}.tags) is that of a line of 64 B"),
                format!(
                    "write \"{}\", or tags = \"with-data\", whose tags need no bytes of their own",
                    Size::from_bytes(LINE_BYTES)
                ),
            );
        }
    }
}
