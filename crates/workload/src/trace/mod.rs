//! Recordings on disk: readers and writers, one file a format.

mod codec;
pub mod copy;
pub mod tst;

pub use tst::{
    SkippedTotals, TstError, TstMetadata, TstReader, TstTotals, TstWriter, partial_path,
};
