//! A small memory for tests.

use super::*;
use crate::os::{KernelPathsSpec, PathSpec};
use tierscope_units::{Duration, Size};

/// Frames of main memory.
pub const FRAMES: u64 = 1024;
/// Dirty file pages above which they are written in the background.
pub const SOFT: u64 = 8;

/// Paging of [`FRAMES`] frames, without readahead but for what is changed.
pub fn small(change: impl FnOnce(&mut StorageSpec)) -> Paging {
    let path = PathSpec { instructions: 0, lines: 0 };
    let os = OsSpec {
        page: Size::from_bytes(4096),
        allocation: crate::os::Allocation::Contiguous,
        time_slice: Duration::from_picoseconds(1_000_000_000),
        kernel_cpi: 1.0,
        paths: KernelPathsSpec {
            fault: path,
            page_cache: path,
            file_system: path,
            block_layer: path,
            driver: path,
            interrupt: path,
            wake_up: path,
            context_switch: path,
            system_call: path,
            fork: path,
            fork_page: path,
        },
    };
    let mut storage = StorageSpec {
        dram_capacity: Size::from_bytes(FRAMES * 4096),
        initial: InitialContent::Empty,
        readahead: Size::from_bytes(0),
        largest_folio: Size::from_bytes(4096),
        largest_request: Size::from_bytes(1 << 17),
        fault_around: Size::from_bytes(4096),
        swap_cluster_pages: 1,
        dirty_ratio: 0.5,
        dirty_background_ratio: SOFT as f64 / FRAMES as f64,
        host_queue_depth: 32,
    };
    change(&mut storage);
    Paging::new(&os, 1, FRAMES * 4096, Some((&storage, 1 << 30)), 1)
}
