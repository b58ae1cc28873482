//! One tag store for on-chip caches, DRAM caches and page caches.

mod modulo;
mod tag_store;
#[cfg(test)]
mod tests;

pub use modulo::Modulo;
pub use tag_store::{Evicted, Hit, LineAccess, Place, TagStore, WayRef, flag};
