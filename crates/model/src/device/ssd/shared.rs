//! Parts of a page that are asked for while the page is being read from flash: they wait for it, instead of
//! reading it again.
//!
//! Whoever asks for whole pages asks for each once. A host that reads and writes line by line asks for many
//! lines of a page, one behind the other.

use super::Ssd;
use crate::device::linked::DonePage;
use std::collections::BTreeMap;
use tierscope_kernel::Stage;

/// Pages that are being read from flash for a part of them, each with the accesses that wait for it.
pub(super) type Shared = BTreeMap<u64, Vec<u32>>;

impl Ssd {
    /// Whether an access that needs its page from flash waits for a read that is under way. If not, the
    /// read that follows is for all who come behind it.
    pub(super) fn joins(&mut self, index: u32) -> bool {
        let access = &self.accesses[index].access;
        if access.whole {
            return false;
        }
        let waiting = self.shared.get_mut(&access.page);
        let joins = waiting.is_some();
        match waiting {
            Some(waiting) => waiting.push(index),
            None => drop(self.shared.insert(access.page, Vec::new())),
        }
        joins
    }

    /// The page of an access has been read from flash: those that have waited for it.
    pub(super) fn take_joined(&mut self, index: u32) -> Vec<u32> {
        let access = &self.accesses[index].access;
        if access.whole {
            return Vec::new();
        }
        self.shared.remove(&access.page).unwrap_or_default()
    }

    /// Goes on with those, in their order: reads are answered when the page has been decoded, writes go to the
    /// buffer.
    pub(super) fn serve_joined(
        &mut self,
        now_ps: u64,
        decoded_ps: u64,
        joined: Vec<u32>,
        out: &mut Vec<DonePage>,
    ) {
        for index in joined {
            let it = &mut self.accesses[index];
            it.pass(Stage::StoreQueue, now_ps);
            if it.access.write {
                self.store(now_ps, index, out);
            } else {
                it.pass(Stage::Device, decoded_ps);
                self.decoded(now_ps, decoded_ps, index, out);
            }
        }
    }
}
