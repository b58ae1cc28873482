//! What a user says of the operating system.

use super::driver::DriverSpec;
use crate::request::LARGEST_PAGE;
use serde::{Deserialize, Serialize};
use tierscope_units::{Duration, Problems, Size};

/// The operating system: pages, scheduler, and what its paths cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OsSpec {
    /// Page size of translation and of the page cache.
    pub page: Size,
    /// Whether anonymous memory gets huge pages, of 512 pages each, where it can.
    #[serde(default, skip_serializing_if = "TransparentHugePages::is_never")]
    pub transparent_huge_pages: TransparentHugePages,
    /// How frames are given out on first touch.
    pub allocation: Allocation,
    /// A thread runs this long at most while others are ready.
    pub time_slice: Duration,
    /// Cycles per instruction of kernel code.
    pub kernel_cpi: f64,
    /// What each path through the kernel costs.
    pub paths: KernelPathsSpec,
}

/// Where anonymous memory gets huge pages (/sys/kernel/mm/transparent_hugepage/enabled).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum TransparentHugePages {
    /// Nowhere.
    #[default]
    Never,
    /// Where the program has asked for them (madvise(2), `MADV_HUGEPAGE`).
    Madvise,
    /// Wherever the program has not refused them (`MADV_NOHUGEPAGE`).
    Always,
}

impl TransparentHugePages {
    /// Whether there are none.
    pub fn is_never(&self) -> bool {
        *self == TransparentHugePages::Never
    }
}

/// How physical frames are given out on first touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Allocation {
    /// In ascending order, as on a machine just started.
    Contiguous,
    /// In a seeded random order, as on a machine that has run for long.
    Fragmented,
}

/// One path through the kernel: processor work, and lines of kernel data that it touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathSpec {
    /// Instructions executed.
    pub instructions: u32,
    /// Lines of kernel data touched, which displace the program's in the on-chip caches.
    pub lines: u32,
}

impl PathSpec {
    /// A path that is not taken.
    pub const NONE: PathSpec = PathSpec { instructions: 0, lines: 0 };

    fn none() -> PathSpec {
        PathSpec::NONE
    }

    fn is_none(&self) -> bool {
        *self == PathSpec::NONE
    }
}

/// The kernel's paths, each charged to the stage of its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelPathsSpec {
    /// Exception entry, look-up of the mapping, and return.
    pub fault: PathSpec,
    /// Look-up in, insertion into and removal from the page cache or swap cache, for a page.
    pub page_cache: PathSpec,
    /// File system: from file offset to block, for a request.
    pub file_system: PathSpec,
    /// Block layer: building, queueing and completing a request.
    pub block_layer: PathSpec,
    /// Driver: command set-up and doorbell, for a request.
    pub driver: PathSpec,
    /// Interrupt entry, completion and return.
    pub interrupt: PathSpec,
    /// Passing a completion on to the hardware thread that asked, by an interrupt there, where the device's comes to
    /// another (`storage.driver.rq_affinity`). Nothing where it is not said.
    #[serde(default = "PathSpec::none", skip_serializing_if = "PathSpec::is_none")]
    pub completion_interrupt: PathSpec,
    /// Making a blocked thread ready.
    pub wake_up: PathSpec,
    /// Switching a core to another thread.
    pub context_switch: PathSpec,
    /// Entry to and return from a system call, its own work not included.
    pub system_call: PathSpec,
    /// Looking up a name that a call gives: its copy, and the walk through the directory cache (`filename_lookup`,
    /// fs/namei.c), charged to the file system. Nothing where it is not said.
    #[serde(default = "PathSpec::none", skip_serializing_if = "PathSpec::is_none")]
    pub path_lookup: PathSpec,
    /// Making a process, but for its page table's entries.
    pub fork: PathSpec,
    /// Copying a page-table entry to a process that is made.
    pub fork_page: PathSpec,
    /// Freeing a page of memory that a call gives back: unmapped, cut off a file, or said to be of no more use
    /// (`free_pages_and_swap_cache`, mm/swap_state.c). Nothing where it is not said.
    #[serde(default = "PathSpec::none", skip_serializing_if = "PathSpec::is_none")]
    pub free_page: PathSpec,
    /// Telling other cores that run the process to forget translations, until all have answered; once for what
    /// is unmapped together (`flush_tlb_mm_range`, `try_to_unmap_flush`). Nothing where it is not said.
    #[serde(default = "PathSpec::none", skip_serializing_if = "PathSpec::is_none")]
    pub shootdown: PathSpec,
    /// What that costs each of the others that runs a thread.
    #[serde(default = "PathSpec::none", skip_serializing_if = "PathSpec::is_none")]
    pub shootdown_interrupt: PathSpec,
}

impl KernelPathsSpec {
    /// Instructions of a fault that waits for a page from the store while another thread runs, or polls: the
    /// paths that [`crate::os::paging`] takes for it, once each.
    pub fn waiting_fault_instructions(&self, driver: Option<&DriverSpec>) -> u64 {
        let asks = [self.fault, self.page_cache, self.block_layer, self.driver];
        let sleeps = [self.context_switch, self.interrupt, self.wake_up, self.context_switch];
        let waits = match driver.filter(|driver| driver.polls()) {
            Some(driver) if driver.sleeps_first() => [&sleeps[..], &[driver.poll]].concat(),
            Some(driver) => vec![driver.poll],
            None => sleeps.to_vec(),
        };
        asks.iter().chain(&waits).map(|path| u64::from(path.instructions)).sum()
    }
}

impl OsSpec {
    /// Collects every semantic mistake below `path`.
    pub fn check(&self, path: &str, problems: &mut Problems) {
        if !self.page.bytes().is_power_of_two() || self.page.bytes() < 4096 {
            problems.add(
                "impossible-value",
                format!("{path}.page"),
                self.page.to_string(),
                "a page is a power of two of at least 4KiB".into(),
                "write 4KiB".into(),
            );
        }
        problems.at_most(path, "page", self.page, LARGEST_PAGE);
        problems.at_least(
            path,
            "time_slice",
            self.time_slice,
            Duration::from_picoseconds(1_000_000),
        );
        if !(self.kernel_cpi.is_finite() && self.kernel_cpi > 0.0) {
            problems.add(
                "impossible-value",
                format!("{path}.kernel_cpi"),
                self.kernel_cpi.to_string(),
                "cycles per instruction are above zero".into(),
                "write 1.0".into(),
            );
        }
    }
}
