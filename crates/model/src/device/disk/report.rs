//! What a disk did.

counters! {
    /// What a disk did since the start.
    pub struct DiskCounts {
        /// Pages that the host read.
        pub read_pages,
        /// Of these, those that the buffer had.
        pub buffer_hits,
        /// Pages that the host wrote.
        pub written_pages,
        /// Flushes.
        pub flushes,
        /// Pages read from the platters, ahead or not.
        pub platter_reads,
        /// Of these, those that nobody had asked for yet.
        pub read_ahead,
        /// Pages written to the platters.
        pub platter_writes,
        /// Times that the arm moved to another cylinder before an access.
        pub seeks,
        /// Picoseconds in which arm and heads were positioned.
        pub positioning_ps,
        /// Picoseconds of waiting for the first sector.
        pub rotation_ps,
        /// Picoseconds in which sectors passed below the head, changes of track among them included.
        pub transfer_ps,
        /// Accesses that were done first because they had waited for too long.
        pub aged,
    }
}
