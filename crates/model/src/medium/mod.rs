//! Media: what holds bits.

pub mod dram;
mod dram_spec;

pub use dram_spec::DramSpec;
