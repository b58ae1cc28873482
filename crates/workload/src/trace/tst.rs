//! tierscope's own recording, `.tst`: compact, compressed, in checksummed blocks.
//!
//! `docs/formats/tst.md` specifies the format. A recording is written to a temporary name and
//! renamed when it is complete. Damage is an error that names the block; what precedes it can be
//! replayed on request.

mod block;
mod fields;
mod reader;
mod recording;
mod tables;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::TstReader;
pub use writer::{TstWriter, partial_path};

use crate::counts::Counts;
use crate::filter::FilterSpec;
use crate::op::ThreadId;
use crate::site::{Site, SiteGrain, SiteId};
use crate::stream::FileInfo;
use crate::trace::codec::MOST_MARKS;
use crate::windows::WindowSpec;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use tierscope_units::reason;

/// The first bytes of every recording. The high bit and the line ends show whether a transfer
/// took it for text.
pub const MAGIC: [u8; 8] = *b"\x89TST\r\n\x1a\n";
/// The version of the format that is written, and the newest that is read.
pub const VERSION: u32 = DEPENDENCE_VERSION;
/// The oldest version that tells of loads before the last on which accesses depend.
pub const DEPENDENCE_VERSION: u32 = 11;
/// The oldest version that tells of files that were there before, and of what is asked of them.
pub const STAT_VERSION: u32 = 10;
/// The oldest version that tells of advice on files, of memory that is locked or asked for, and of what may be done with it.
pub const ADVICE_VERSION: u32 = 9;
/// The oldest version that tells of directories, and of files renamed and linked.
pub const NAMES_VERSION: u32 = 8;
/// The oldest version that tells what becomes of files besides reads and writes of one buffer: files deleted and emptied,
/// copies in the kernel, allocation, and calls of several buffers.
pub const FILES_VERSION: u32 = 7;
/// The oldest version that tells what was used between windows.
pub const USES_VERSION: u32 = 6;
/// The oldest version that may hold windows of a program.
pub const WINDOWS_VERSION: u32 = 5;
/// The oldest version that is read: without sites, and without a filter.
pub const OLDEST_VERSION: u32 = 1;
/// The version of a recording that tells its sites, and has no filter.
pub const SITES_VERSION: u32 = 2;
/// The version of a recording with a filter.
pub const FILTER_VERSION: u32 = 3;
/// The oldest version whose end says what of the program is missing, and which marks it gives.
pub const MISSING_VERSION: u32 = 4;
/// What a command line calls the permission to replay what precedes the damage.
pub const ALLOW_TRUNCATED_FLAG: &str = "--allow-truncated";

const END_MAGIC: [u8; 8] = *b"TST-END\n";
const BLOCK_MAGIC: [u8; 4] = *b"TBLK";
const BLOCK_HEADER_BYTES: usize = 40;
const TRAILER_BYTES: usize = 32;
const INDEX_ENTRY_BYTES: usize = 16;
const INDEX_ENTRIES_IN_A_BLOCK: usize = 1 << 16;
/// Bytes of metadata at most, before compression.
const MAX_METADATA_BYTES: usize = 1 << 20;
/// Bytes of the table of files at most, before compression.
const MAX_FILE_TABLE_BYTES: usize = 64 << 20;
/// Sites that are written together.
const SITES_IN_A_BLOCK: usize = 4096;
/// Bytes of a block of sites at most, before compression.
const MAX_SITE_BLOCK_BYTES: usize = 64 << 20;
/// Bytes of the table of sites at most, before compression: what exceeds it is left out, and its
/// sites are without names.
const MAX_SITE_TABLE_BYTES: usize = 512 << 20;
/// Bytes of a text of the totals at most: how the program ended, or what is missing.
const MOST_TEXT_BYTES: usize = 1 << 10;
/// Texts at most that say what is missing, the one that counts what has no room included.
const MOST_MISSING: usize = 9;
/// Compression level of zstd: the fastest of the ordinary ones, whose ratio suffices.
const LEVEL: i32 = 1;

/// What a recording says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TstMetadata {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Version of tierscope that wrote it.
    pub tierscope_version: String,
    /// What observed the program, with its version.
    pub recorder: String,
    /// How finely it tells the sites of the program's code, if it does: version 2 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sites: Option<SiteGrain>,
    /// The cache whose hits were left out, if they were: version 3 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<FilterSpec>,
    /// The windows of the program that are in it, where what lies between them is not: version 5 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<WindowSpec>,
}

impl TstMetadata {
    /// Checks what a recording of a version says about itself. An error says what cannot be.
    fn check(&self, version: u32) -> Result<(), String> {
        let (sites, filter) = (self.sites.is_some(), self.filter.is_some());
        let told = match version {
            OLDEST_VERSION if sites => "it tells sites, which version 1 has not",
            OLDEST_VERSION | SITES_VERSION if filter => {
                "it has a filter, which comes with version 3"
            }
            SITES_VERSION if !sites => "it is of version 2, and says of no sites",
            FILTER_VERSION if !filter => "it is of version 3, and says of no filter",
            OLDEST_VERSION..WINDOWS_VERSION if self.windows.is_some() => {
                "it holds windows, which come with version 5"
            }
            ..USES_VERSION if self.windows.is_some_and(|it| it.start_accesses > 0) => {
                "the start is whole (`windows.start_accesses`), which comes with version 6"
            }
            _ => "",
        };
        if !told.is_empty() {
            return Err(told.into());
        }
        match (self.filter, self.windows) {
            (Some(filter), _) if !filter.is_one() => Err(format!("there is no filter of {filter}")),
            (_, Some(windows)) if !windows.is_one() => {
                Err(format!("there are no windows of {windows}"))
            }
            _ => Ok(()),
        }
    }
}

/// What a complete recording holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TstTotals {
    /// Threads that have operations.
    pub threads: u64,
    /// Operations, arguments of calls included.
    pub operations: u64,
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Calls on the operating system and marks of synchronization.
    pub calls: u64,
    /// Instructions.
    pub instructions: u64,
    /// How the program ended, in words.
    pub ended: String,
    /// Whether threads may end before what others wait for: the program was recorded up to a
    /// moment in the middle of what it did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Loads that the filter's cache served, and that are in none of the above.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out_loads: u64,
    /// The same of stores.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out_stores: u64,
    /// Of a recording of windows, how many began, and what lay between them and is in none of the above.
    /// Version 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<SkippedTotals>,
    /// The program's marks, each once; not told where there are 64 or more. Version 4.
    #[serde(default, deserialize_with = "once", skip_serializing_if = "Option::is_none")]
    pub marks: Option<BTreeSet<u64>>,
    /// What of the program is not in it, in words: processes and programs that were not recorded, and
    /// what went wrong. Version 4.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// What a recording of windows passes over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedTotals {
    /// Windows that began.
    pub windows: u64,
    /// Loads between them.
    pub loads: u64,
    /// Stores between them.
    pub stores: u64,
    /// Instructions between them.
    pub instructions: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Marks, none of them twice.
fn once<'de, D: Deserializer<'de>>(from: D) -> Result<Option<BTreeSet<u64>>, D::Error> {
    let Some(told) = Option::<Vec<u64>>::deserialize(from)? else { return Ok(None) };
    let count = told.len();
    let marks: BTreeSet<u64> = told.into_iter().collect();
    if marks.len() < count {
        return Err(D::Error::custom("a mark is told twice"));
    }
    Ok(Some(marks))
}

impl TstTotals {
    /// Loads and stores.
    pub fn accesses(&self) -> u64 {
        self.loads + self.stores
    }

    /// Checks totals against what the blocks hold. An error says what cannot be.
    fn check(&self, metadata: &TstMetadata, threads: usize, operations: u64) -> Result<(), String> {
        let filtered = metadata.filter.is_some();
        let differ = |what: &str, said: u64, found: u64| {
            Err(format!("the totals say {said} {what}, and the index {found}"))
        };
        if self.threads != threads as u64 {
            return differ("threads", self.threads, threads as u64);
        }
        if self.operations != operations {
            return differ("operations", self.operations, operations);
        }
        let counted = [self.loads, self.stores, self.calls].map(u128::from);
        if counted.iter().sum::<u128>() > u128::from(operations)
            || u128::from(self.instructions) > u128::from(operations) * u128::from(u32::MAX)
        {
            return Err("the totals count more than the operations can be".into());
        }
        if self
            .left_out_loads
            .checked_add(self.left_out_stores)
            .is_none_or(|sum| sum > 0 && !filtered)
        {
            return Err("the totals count what no filter has left out".into());
        }
        let Some(skipped) = self.skipped else { return Ok(()) };
        let accesses = u128::from(skipped.loads) + u128::from(skipped.stores);
        let most = (accesses + u128::from(operations)) * u128::from(u32::MAX);
        if accesses > u128::from(u64::MAX) || u128::from(skipped.instructions) > most {
            return Err("the totals count more than a program can do".into());
        }
        if accesses > 0 && skipped.instructions == 0 {
            return Err("the totals count accesses between windows, and no instructions".into());
        }
        Ok(())
    }

    /// Checks the windows that the header says against what is there. An error says what differs.
    fn check_windows(&self, windows: Option<WindowSpec>) -> Result<(), String> {
        let (windows, skipped) = match (windows, self.skipped) {
            (Some(windows), Some(skipped)) => (windows, skipped),
            (None, None) => return Ok(()),
            (Some(_), None) => return Err("it says of windows, and the totals do not".into()),
            (None, Some(_)) => return Err("it says of no windows, and the totals do".into()),
        };
        let kept = [self.loads, self.stores, self.left_out_loads, self.left_out_stores]
            .map(u128::from)
            .iter()
            .sum::<u128>();
        let in_all = kept + u128::from(skipped.loads) + u128::from(skipped.stores);
        let share = u64::try_from(in_all).map(|in_all| windows.share(in_all));
        match share {
            Ok((right, begun)) if u128::from(right) == kept && begun == skipped.windows => Ok(()),
            Ok((right, begun)) => Err(format!(
                "it says of windows of {windows}, the first {} whole: of {in_all} accesses these have \
                 {right}, in {begun} windows and the start, and {kept} are there, in {}",
                windows.start_accesses, skipped.windows
            )),
            Err(_) => Err("the totals count more than a program can do".into()),
        }
    }

    /// Checks what version 4 has beside counts. An error says what cannot be.
    fn check_texts(&self) -> Result<(), String> {
        if self.missing.len() > MOST_MISSING {
            return Err(format!("the totals say more than {MOST_MISSING} times what is missing"));
        }
        if self.missing.iter().chain([&self.ended]).any(|text| text.len() > MOST_TEXT_BYTES) {
            return Err(format!("a text of the totals is longer than {MOST_TEXT_BYTES} bytes"));
        }
        if self.marks.as_ref().is_some_and(|marks| marks.len() >= MOST_MARKS) {
            return Err(format!("the totals tell {MOST_MARKS} marks or more"));
        }
        Ok(())
    }

    /// Checks what was counted while all operations were decoded. An error says what differs.
    fn check_counts(&self, found: Counts, skipped: Counts) -> Result<(), String> {
        let pairs = [
            ("loads", self.loads, found.loads),
            ("stores", self.stores, found.stores),
            ("calls", self.calls, found.calls),
            ("instructions", self.instructions, found.instructions),
        ];
        match pairs.into_iter().find(|(_, said, found)| said != found) {
            Some((what, said, found)) => {
                Err(format!("the totals say {said} {what}, and the blocks have {found}"))
            }
            None => self.check_skipped(skipped),
        }
    }

    /// The same of what lies between windows.
    fn check_skipped(&self, found: Counts) -> Result<(), String> {
        let said = self.skipped.unwrap_or_default();
        let pairs = [
            ("loads", said.loads, found.loads),
            ("stores", said.stores, found.stores),
            ("instructions", said.instructions, found.instructions),
        ];
        match pairs.into_iter().find(|(_, said, found)| said != found) {
            Some((what, said, found)) => Err(format!(
                "the totals say {said} {what} between windows, and the blocks have {found}"
            )),
            None => Ok(()),
        }
    }

    fn add(&mut self, counts: Counts) {
        self.loads += counts.loads;
        self.stores += counts.stores;
        self.calls += counts.calls;
        self.instructions += counts.instructions;
    }
}

/// Why a recording cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum TstError {
    /// The operating system refused.
    #[error("{}: {}", path.display(), reason(source))]
    Io {
        /// The recording.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Not a recording of this format at all.
    #[error(
        "{}: not a .tst recording: it does not begin as one; \
         name another format as FORMAT:FILE", path.display()
    )]
    NotARecording {
        /// The file.
        path: PathBuf,
    },
    /// Of a version that this program does not read.
    #[error(
        "{}: a .tst recording of version {found}; this tierscope reads versions \
         {OLDEST_VERSION} to {VERSION}: \
         record it again, or use the tierscope that wrote it", path.display()
    )]
    Version {
        /// The recording.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The header, which says what the recording is, is damaged: nothing can be replayed.
    #[error(
        "{}: the header is damaged: {what}; nothing of it can be replayed: record it again",
        path.display()
    )]
    Header {
        /// The recording.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Truncated or damaged from a block on.
    #[error("{}: {damage}; {ALLOW_TRUNCATED_FLAG} replays what precedes it", path.display())]
    Damaged {
        /// The recording.
        path: PathBuf,
        /// Where and what.
        damage: Damage,
    },
    /// What was to be written breaks the format's rules.
    #[error("{}: cannot record {what}", path.display())]
    Unfit {
        /// The recording.
        path: PathBuf,
        /// What it was.
        what: String,
    },
}

/// The first block of a recording that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Number of the block, from 0.
    pub block: u64,
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// What is wrong with it.
    pub what: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "block {} at byte {}: {}", self.block, self.offset, self.what)
    }
}
