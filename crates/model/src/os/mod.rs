//! The operating system: address spaces, frames, page cache, swap.

pub mod address_space;
pub mod block_layer;
pub mod buffer_cache;
pub mod driver;
pub mod file_system;
pub mod frames;
pub mod inode_locks;
pub mod paging;
pub mod readahead;
pub mod reclaim;
pub mod release;
mod spec;
pub mod tiering;

pub use spec::*;

/// A file itself, whatever its name: the number of its inode.
pub type InodeId = u32;
