//! The processor: reorder window, on-chip caches, translation look-aside buffers.

pub mod on_chip;
mod spec;
pub mod tlb;
pub mod window;

pub use spec::*;
