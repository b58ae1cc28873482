//! What a user says of a machine: one description, from TOML or Python objects, checked whole.
//!
//! [`load`] reads a preset or a file, lays it over its base, applies `--set`, and gives the
//! resolved machine with each value's source, or every mistake at once.

mod check;
mod limits;
mod load;
mod presets;
mod print;
mod sets;
mod shape;
#[cfg(test)]
mod tests;
mod tree;
mod walk;

pub use load::{Resolved, Source, load, load_all, load_json, load_text};
pub use presets::list;
pub use print::{show, to_toml};
pub use shape::{Field, Shape, Table, Word, json_schema, shape};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tierscope_model::device::{LinkSpec, StoreSpec};
use tierscope_model::medium::DramSpec;
use tierscope_model::organization::{HybridSpec, OracleSpec, StorageSpec};
use tierscope_model::os::OsSpec;
use tierscope_model::processor::ProcessorSpec;
use tierscope_units::Problems;

/// A machine, and how it is organized. It has a processor, an operating system, DRAM, a store behind
/// a link where the organization has one, and exactly one organization (`oracle`, `hybrid` or
/// `storage`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SystemSpec {
    /// Name in results. A file that has a base and gives no name is called as the file.
    pub name: String,
    /// What it is, in a line.
    pub description: String,
    /// Seed of every random choice that the machine makes.
    pub seed: u64,
    /// Whether every line carries the version last written to it, so that a stale or lost read is
    /// found as it happens.
    pub check_data: bool,
    /// Cores, on-chip caches and TLB.
    pub processor: ProcessorSpec,
    /// The operating system.
    pub os: OsSpec,
    /// DRAM behind its controllers.
    pub dram: DramSpec,
    /// The backing store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<StoreSpec>,
    /// What connects the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkSpec>,
    /// Organization: all in DRAM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oracle: Option<OracleSpec>,
    /// Organization: hardware manages DRAM as a cache of the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hybrid: Option<HybridSpec>,
    /// Organization: the operating system pages between DRAM and the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageSpec>,
}

impl SystemSpec {
    /// The organization's name, if there is exactly one.
    pub fn organization(&self) -> Option<&'static str> {
        match self.organizations().as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }

    fn organizations(&self) -> Vec<&'static str> {
        [
            (self.oracle.is_some(), "oracle"),
            (self.hybrid.is_some(), "hybrid"),
            (self.storage.is_some(), "storage"),
        ]
        .into_iter()
        .filter_map(|(present, name)| present.then_some(name))
        .collect()
    }

    /// Every mistake: impossible values in the parts, and contradictions between them.
    pub fn check(&self) -> Problems {
        let mut problems = Problems::new();
        self.check_parts(&mut problems);
        self.check_together(&mut problems);
        limits::check(self, &mut problems);
        problems
    }
}
