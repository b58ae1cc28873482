//! Devices: media behind a controller.

pub mod store;
mod store_spec;

pub use store_spec::{LinkSpec, StoreSpec};
