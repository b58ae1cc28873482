//! Releases of Linux that are told apart.

use serde::{Deserialize, Serialize};

/// A release of Linux that reads ahead and reclaims in ways of its own.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub enum Release {
    /// 2.6.32, of December 2009.
    #[serde(rename = "2.6.32")]
    V2_6_32,
    /// 4.9, of December 2016.
    #[serde(rename = "4.9")]
    V4_9,
    /// 6.18, of November 2025.
    #[serde(rename = "6.18")]
    V6_18,
}
