//! `tierscope._core`: what the Python package needs of the simulator, and no more.
//!
//! Thin on purpose: JSON texts go in and come out, and the Python side gives them types. Nothing
//! here simulates, validates or prints.

mod assemble;
mod crash;
mod describe;
mod error;
mod filebench;
mod job;
mod kept;
mod live;
mod region;
mod requests;
mod run;
mod traces;

use mimalloc::MiMalloc;
use pyo3::prelude::*;

/// Forks of machines come and go in several threads, a hundred thousand small pieces a second: the C library's
/// allocator takes a quarter of a processor for that, and gives memory back that is taken again at once.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Version of tierscope.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The simulator behind the package `tierscope`. Private: use the package.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::crash::crash;
    #[pymodule_export]
    use crate::describe::{
        applies_to, check_counts, check_file, check_functional, check_sampling, check_workload,
        commented, counted_together, foreseen, is_sample, list_formats, list_hosts, list_kernels,
        list_systems, list_workloads, nearest, part_text, prelude, print_quantity, qemu, quantity,
        recorded_files, resolve, resolve_all, resolve_text, sampling_plans, scale, schema,
        size_bytes, sizes, touched, trace_files, trace_info, version, warmed_alike,
    };
    #[pymodule_export]
    use crate::error::{RunError, SpecError};
    #[pymodule_export]
    use crate::kept::read_result;
    #[pymodule_export]
    use crate::live::check_program;
    #[pymodule_export]
    use crate::region::{roi_begin, roi_end};
    #[pymodule_export]
    use crate::run::{Run, check_job};
    #[pymodule_export]
    use crate::traces::Pass;
}
