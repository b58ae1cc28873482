//! What HAMS counts of itself.

counters! {
    /// What an address manager and its NVMe engine did.
    pub struct HamsCounts {
        /// Requests whose first look-up found their page.
        pub hits,
        /// Requests that began a miss: one for each page that is filled on demand.
        pub fills,
        /// Dirty pages that were written to the drive, those of a flush included.
        pub evictions,
        /// Pages that were copied into the PRP pool before.
        pub clones,
        /// Times that a request has entered the wait queue.
        pub waits,
        /// Time that requests spent in the wait queue, all together, in picoseconds.
        pub waited_ps,
        /// Times that a request found wait queue, submission queue or PRP pool full.
        pub pushed_back,
        /// Commands that were written with a journal tag.
        pub journal_tags,
        /// Bytes of the NVDIMM for requests that hit.
        pub hit_bytes,
        /// Bytes of the NVDIMM for look-ups that found no page, and for changes of tags.
        pub tag_bytes,
        /// Bytes of the NVDIMM to copy victims.
        pub clone_bytes,
        /// Bytes that drive and NVDIMM moved between them.
        pub dma_bytes,
        /// Bytes of the NVDIMM for queues, lists, journal tags and interrupts.
        pub command_bytes,
        /// Bytes of the NVDIMM for the wait queue.
        pub wait_bytes,
        /// Bytes of the NVDIMM for the drive's table of pages.
        pub mapping_bytes,
    }
}

/// What HAMS counted, and the most that its wait queue held since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HamsReport {
    /// What only grows.
    pub counts: HamsCounts,
    /// The most requests that the wait queue ever held.
    pub most_waiting: u64,
}

impl HamsReport {
    /// Every count with its name in results.
    pub fn named(&self) -> [(&'static str, u64); 16] {
        let counts = &self.counts;
        [
            ("hams_hits", counts.hits),
            ("hams_fills", counts.fills),
            ("hams_evictions", counts.evictions),
            ("hams_clones", counts.clones),
            ("hams_waits", counts.waits),
            ("hams_waited_ns", counts.waited_ps / 1_000),
            ("hams_most_waiting", self.most_waiting),
            ("hams_pushed_back", counts.pushed_back),
            ("hams_journal_tags", counts.journal_tags),
            ("hams_hit_bytes", counts.hit_bytes),
            ("hams_tag_bytes", counts.tag_bytes),
            ("hams_clone_bytes", counts.clone_bytes),
            ("hams_dma_bytes", counts.dma_bytes),
            ("hams_command_bytes", counts.command_bytes),
            ("hams_wait_bytes", counts.wait_bytes),
            ("hams_mapping_bytes", counts.mapping_bytes),
        ]
    }

    /// What it and another counted; of the most that waited, the greater.
    #[must_use]
    pub fn together(&self, other: &HamsReport) -> HamsReport {
        HamsReport {
            counts: self.counts.together(&other.counts),
            most_waiting: self.most_waiting.max(other.most_waiting),
        }
    }

    /// What was counted since `before`; the most that waited stays.
    #[must_use]
    pub fn since(&self, before: &HamsReport) -> HamsReport {
        HamsReport { counts: self.counts.since(&before.counts), ..*self }
    }
}
