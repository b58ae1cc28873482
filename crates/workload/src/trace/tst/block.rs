//! The blocks of a recording, and their headers.

use super::{BLOCK_HEADER_BYTES, BLOCK_MAGIC, INDEX_ENTRIES_IN_A_BLOCK, INDEX_ENTRY_BYTES};
use super::{MAX_FILE_TABLE_BYTES, MAX_METADATA_BYTES, MAX_SITE_BLOCK_BYTES};
use crate::op::ThreadId;
use crate::trace::codec::{MAX_BLOCK_BYTES, MAX_BLOCK_OPS};

/// In the index, the thread of a block of files or sites.
pub(super) const FILES_THREAD: ThreadId = ThreadId::MAX;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    /// Operations of one thread.
    Operations = 1,
    /// Further entries of the table of files.
    Files = 2,
    /// Where the blocks are.
    Index = 3,
    /// Totals.
    End = 4,
    /// Further entries of the table of sites.
    Sites = 5,
}

impl BlockKind {
    pub(super) fn of(code: u8) -> Option<Self> {
        [Self::Operations, Self::Files, Self::Index, Self::End, Self::Sites]
            .into_iter()
            .find(|kind| *kind as u8 == code)
    }

    /// Bytes before compression at most.
    pub(super) fn max_bytes(self) -> usize {
        match self {
            BlockKind::Operations => MAX_BLOCK_BYTES,
            BlockKind::Files => MAX_FILE_TABLE_BYTES,
            BlockKind::Index => INDEX_ENTRIES_IN_A_BLOCK * INDEX_ENTRY_BYTES,
            BlockKind::End => MAX_METADATA_BYTES,
            BlockKind::Sites => MAX_SITE_BLOCK_BYTES,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct BlockHeader {
    pub(super) kind: BlockKind,
    pub(super) number: u32,
    pub(super) thread: ThreadId,
    /// Operations of the thread before this block.
    pub(super) first_op: u64,
    pub(super) ops: u32,
    pub(super) raw_bytes: u32,
    pub(super) stored_bytes: u32,
    pub(super) checksum: u32,
}

impl BlockHeader {
    /// The header's bytes; the checksum covers those before it and the payload.
    pub(super) fn pack(&self, payload: &[u8]) -> [u8; BLOCK_HEADER_BYTES] {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        bytes[..4].copy_from_slice(&BLOCK_MAGIC);
        bytes[4] = self.kind as u8;
        bytes[8..12].copy_from_slice(&self.number.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.thread.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first_op.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.ops.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.raw_bytes.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.stored_bytes.to_le_bytes());
        let checksum = checksum(&bytes[..36], payload);
        bytes[36..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(super) fn unpack(bytes: &[u8; BLOCK_HEADER_BYTES]) -> Result<Self, &'static str> {
        if bytes[..4] != BLOCK_MAGIC {
            return Err("no block begins here");
        }
        let header = BlockHeader {
            kind: BlockKind::of(bytes[4]).ok_or("a block of an unknown kind")?,
            number: u32_at(bytes, 8),
            thread: u32_at(bytes, 12),
            first_op: u64_at(bytes, 16),
            ops: u32_at(bytes, 24),
            raw_bytes: u32_at(bytes, 28),
            stored_bytes: u32_at(bytes, 32),
            checksum: u32_at(bytes, 36),
        };
        let limit = header.kind.max_bytes();
        if header.raw_bytes as usize > limit || header.stored_bytes as usize > 2 * limit + 1024 {
            return Err("a block longer than its kind may be");
        }
        if header.ops as usize > MAX_BLOCK_OPS {
            return Err("a block with more operations than it may have");
        }
        Ok(header)
    }
}

pub(super) fn checksum(header: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header);
    hasher.update(payload);
    hasher.finalize()
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes(b.try_into().unwrap_or_default()))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().unwrap_or_default()))
}

/// Where a block of operations is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockPlace {
    /// Its number in the file: every block before the index is in the index, in order.
    pub(super) number: u64,
    pub(super) offset: u64,
    pub(super) thread: ThreadId,
    pub(super) ops: u32,
}
