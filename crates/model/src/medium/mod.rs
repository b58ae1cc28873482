//! Media: what holds bits.

mod dram_spec;

pub use dram_spec::DramSpec;
