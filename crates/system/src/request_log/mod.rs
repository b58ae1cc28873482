//! What is told of single requests, in files of their own: a table with a row for each, and a timeline
//! for a viewer of traces.

mod beside;
mod timeline;

pub(crate) use beside::Beside;
pub(crate) use timeline::{TimelineFile, Told};

use crate::run::RunOptions;
use std::path::Path;

/// Which files a system's requests are told in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestFiles<'a> {
    /// A row for each request, as comma-separated values.
    pub table: Option<&'a Path>,
    /// The first requests through their stages.
    pub timeline: Option<&'a Path>,
}

impl<'a> RequestFiles<'a> {
    /// What a run asks for of its system of this number.
    pub fn of(options: &'a RunOptions, system: usize) -> Self {
        RequestFiles {
            table: options.latencies.get(system).map(|path| &**path),
            timeline: options.timelines.get(system).map(|path| &**path),
        }
    }

    /// Whether it asks for none.
    pub fn none(self) -> bool {
        self.table.is_none() && self.timeline.is_none()
    }
}
