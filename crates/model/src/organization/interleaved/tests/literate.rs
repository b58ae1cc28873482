//! The sequence of `docs/models/machine.md` in which controllers work side by side.

use super::*;
use crate::organization::hybrid::tests::controller_of;
use crate::organization::literate::{Scene, all_or_none, page_says_what_happens};
use std::collections::VecDeque;

struct Watched {
    memory: Interleaved,
    seen: OrganizationReport,
    /// Requests that have not been looked up.
    coming: VecDeque<u32>,
}

impl Scene for Watched {
    fn memory(&mut self) -> &mut dyn Organization {
        &mut self.memory
    }

    fn page_bytes(&self) -> u64 {
        4096
    }

    fn asks(&mut self, id: u32, _address: u64) {
        self.coming.push_back(id);
    }

    fn after(&mut self) -> Vec<(u32, String)> {
        let now = self.memory.report();
        let since = now.since(&self.seen);
        self.seen = now;
        let what = if all_or_none(since.misses, since.lookups as usize) { "miss" } else { "hit" };
        self.coming.drain(..since.lookups as usize).map(|id| (id, what.to_owned())).collect()
    }
}

#[test]
fn the_sequence_of_the_documentation_is_what_happens() {
    let kinds = ["1 controller,", "2 controllers,"];
    page_says_what_happens("machine", &kinds, |first| {
        let count = first.split_once(" controller")?.0.parse().ok()?;
        let shape = first.split_once(", ").unwrap_or_default().1;
        let parts = (0..count).map(|_| controller_of(shape)).collect();
        let spec = controllers(count, 4096);
        let memory = Interleaved::new(&spec, Size::from_bytes(64), parts);
        let (seen, coming) = (OrganizationReport::default(), VecDeque::new());
        Some(Box::new(Watched { memory, seen, coming }))
    });
}
