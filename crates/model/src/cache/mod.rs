//! Tags: one store for DRAM caches and page caches of any policy, and the lines of on-chip caches.

mod any_tags;
mod lru_lines;
mod modulo;
mod tag_store;
#[cfg(test)]
mod tests;

pub use any_tags::AnyTagStore;
pub use lru_lines::{Gone, LruLines};
pub use modulo::Modulo;
pub use tag_store::{Evicted, Hit, LineAccess, Place, TagStore, WayRef, flag};
