//! Devices: media behind a controller.

mod store_spec;

pub use store_spec::{LinkSpec, StoreSpec};
