//! Where things lie in the NVDIMM: the frames of the cache, and behind them the pinned region, which the
//! memory-management unit does not see (\[HAMS21\] §IV-B).

/// A page of host memory, for which a command has an entry of PRP (NVM Express: the memory page size).
pub(super) const PRP_PAGE_BYTES: u64 = 4096;
/// An entry of a PRP list (NVM Express Base Specification, Physical Region Page Entry and List).
const PRP_BYTES: u64 = 8;
/// An entry of the submission queue (NVM Express Base Specification; \[HAMS21\] §II-C).
pub(super) const SUBMISSION_BYTES: u64 = 64;
/// An entry of the completion queue (NVM Express Base Specification).
pub(super) const COMPLETION_BYTES: u64 = 16;
/// An entry of the table of message-signalled interrupts (PCI Express: MSI-X table entry), and how many
/// vectors there are: one for each queue pair of a host with 64 cores, of which one is in use.
pub(super) const MSI_BYTES: u64 = 16;
const MSI_ENTRIES: u64 = 64;
/// An entry of the wait queue: address, kind and requester of a request.
pub(super) const WAIT_BYTES: u64 = 16;
/// An entry of the drive's table of pages, where that lies in the NVDIMM: four bytes name any page of a
/// drive of 16 TiB.
const MAPPING_BYTES: u64 = 4;

/// Addresses in the NVDIMM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Frames of the cache, from address 0.
    pub frames: u64,
    pub page_bytes: u64,
    clones: u64,
    submissions: u64,
    completions: u64,
    lists: u64,
    msi: u64,
    waiting: u64,
    mapping: u64,
    queue_entries: u64,
    wait_entries: u64,
    list_bytes: u64,
    /// Bytes of the drive for which the table has an entry.
    mapped_bytes: u64,
}

/// What the pinned region holds, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub clones: u64,
    pub submissions: u64,
    pub completions: u64,
    pub lists: u64,
    pub msi: u64,
    pub waiting: u64,
}

impl Parts {
    pub(super) fn new(page_bytes: u64, slots: u64, queue_entries: u64, wait_entries: u64) -> Self {
        Parts {
            clones: slots.saturating_mul(page_bytes),
            submissions: queue_entries * SUBMISSION_BYTES,
            completions: queue_entries * COMPLETION_BYTES,
            lists: queue_entries.saturating_mul(list_bytes(page_bytes)),
            msi: MSI_ENTRIES * MSI_BYTES,
            waiting: wait_entries * WAIT_BYTES,
        }
    }

    pub(super) fn total(&self) -> u64 {
        let Parts { clones, submissions, completions, lists, msi, waiting } = *self;
        [submissions, completions, lists, msi, waiting]
            .iter()
            .fold(clones, |sum, part| sum.saturating_add(part.next_multiple_of(SUBMISSION_BYTES)))
    }
}

/// Bytes of the PRP list of a page: none where the command itself has room for its entry.
fn list_bytes(page_bytes: u64) -> u64 {
    if page_bytes > PRP_PAGE_BYTES { page_bytes / PRP_PAGE_BYTES * PRP_BYTES } else { 0 }
}

/// Bytes that the drive's table takes in the NVDIMM, in whole pages of the cache.
pub(super) fn mapping_bytes(store_bytes: u64, store_page_bytes: u64, page_bytes: u64) -> u64 {
    (store_bytes / store_page_bytes * MAPPING_BYTES).next_multiple_of(page_bytes)
}

impl Layout {
    /// Of a cache of `frames` with so many slots for clones, entries of the queues and of the wait queue,
    /// before a drive whose table has an entry for each `mapped_bytes`.
    pub(super) fn new(
        (frames, page_bytes): (u64, u64),
        slots: u64,
        queue_entries: u64,
        wait_entries: u64,
        mapped_bytes: u64,
        mapping: u64,
    ) -> Self {
        let parts = Parts::new(page_bytes, slots, queue_entries, wait_entries);
        let mut end = frames * page_bytes;
        let mut next = |bytes: u64| {
            let start = end;
            end += bytes.next_multiple_of(SUBMISSION_BYTES);
            start
        };
        Layout {
            frames,
            page_bytes,
            clones: next(parts.clones),
            submissions: next(parts.submissions),
            completions: next(parts.completions),
            lists: next(parts.lists),
            msi: next(parts.msi),
            waiting: next(parts.waiting),
            mapping,
            queue_entries,
            wait_entries,
            list_bytes: list_bytes(page_bytes),
            mapped_bytes,
        }
    }

    #[inline]
    pub(super) fn frame(&self, frame: u32) -> u64 {
        u64::from(frame) * self.page_bytes
    }

    pub(super) fn slot(&self, slot: u32) -> u64 {
        self.clones + u64::from(slot) * self.page_bytes
    }

    /// Where both queues lie, and their bytes.
    pub(super) fn queue_pair(&self) -> (u64, u64) {
        (self.submissions, self.queue_entries * (SUBMISSION_BYTES + COMPLETION_BYTES))
    }

    /// The entry of the command with this number since the start.
    pub(super) fn submission(&self, number: u64) -> (u64, u32) {
        let place = self.submissions + number % self.queue_entries * SUBMISSION_BYTES;
        (place, SUBMISSION_BYTES as u32)
    }

    pub(super) fn completion(&self, number: u64) -> (u64, u32) {
        let place = self.completions + number % self.queue_entries * COMPLETION_BYTES;
        (place, COMPLETION_BYTES as u32)
    }

    /// The PRP list of the command with this number, where a page needs one.
    pub(super) fn list(&self, number: u64) -> Option<(u64, u32)> {
        let place = self.lists + number % self.queue_entries * self.list_bytes;
        (self.list_bytes > 0).then_some((place, self.list_bytes as u32))
    }

    /// The vector of the one queue pair.
    pub(super) fn interrupt(&self) -> (u64, u32) {
        (self.msi, MSI_BYTES as u32)
    }

    /// The entry of the request that was the so many-th to wait.
    pub(super) fn waiting(&self, number: u64) -> (u64, u32) {
        (self.waiting + number % self.wait_entries * WAIT_BYTES, WAIT_BYTES as u32)
    }

    /// Where the drive's table says where a page of the cache lies.
    pub(super) fn mapping(&self, page: u64) -> (u64, u32) {
        let entries = (self.page_bytes / self.mapped_bytes).max(1);
        (self.mapping + page * entries * MAPPING_BYTES, (entries * MAPPING_BYTES) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_the_pinned_region_lies_on_top_of_anything_else() {
        for page_bytes in [4096, 131_072, 1 << 20] {
            let (frames, slots, queue, wait) = (10, 3, 8, 5);
            let parts = Parts::new(page_bytes, slots, queue, wait);
            let pinned = frames * page_bytes;
            let mapping = pinned + parts.total();
            let layout = Layout::new((frames, page_bytes), slots, queue, wait, 4096, mapping);
            let mut all = vec![(layout.frame(9), page_bytes), layout_end(layout.interrupt())];
            all.extend((0..3).map(|slot| (layout.slot(slot), page_bytes)));
            all.extend((0..8).map(|n| layout_end(layout.submission(n))));
            all.extend((0..8).map(|n| layout_end(layout.completion(n))));
            all.extend((0..8).filter_map(|n| layout.list(n)).map(layout_end));
            all.extend((0..5).map(|n| layout_end(layout.waiting(n))));
            all.extend((0..4).map(|page| layout_end(layout.mapping(page))));
            all.sort_unstable();
            assert!(all.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0), "{all:?}");
            assert_eq!(layout.submission(8), layout.submission(0));
            assert_eq!(layout.waiting(5), layout.waiting(0));
        }
    }

    fn layout_end((address, bytes): (u64, u32)) -> (u64, u64) {
        (address, u64::from(bytes))
    }

    #[test]
    fn a_page_of_128_kib_has_a_list_of_32_entries_and_one_of_4_kib_none() {
        let of = |page_bytes| Parts::new(page_bytes, 1, 1, 1).lists;
        assert_eq!((of(131_072), of(4096)), (32 * 8, 0));
    }
}
