//! The processor: reorder window, on-chip caches, translation look-aside buffers.

pub mod energy;
pub mod on_chip;
pub mod prefetch;
mod spec;
pub mod tlb;
pub mod window;

pub use energy::ProcessorEnergySpec;
pub use prefetch::{LinePrefetchSpec, PrefetchInto, PrefetchKind};
pub use spec::*;
