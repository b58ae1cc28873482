//! The processor: reorder window, on-chip caches, translation look-aside buffers.

mod spec;
pub mod on_chip;
pub mod tlb;
pub mod window;

pub use spec::*;
