//! Recording to nothing: operations are counted by kind and dropped.

use super::{Counts, Sink};
use crate::capture::Ended;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tierscope_workload::{FileInfo, Op, Site, SiteId, ThreadId};

/// Counts loads, stores and calls.
#[derive(Default)]
pub struct DiscardSink {
    loads: AtomicU64,
    stores: AtomicU64,
    calls: AtomicU64,
    files: AtomicU64,
    sites: AtomicU64,
    stopped: AtomicBool,
}

impl Sink for DiscardSink {
    fn accept(&self, _thread: ThreadId, ops: &[Op]) {
        self.add_counts(&Counts::of(ops));
    }

    fn counts_only(&self) -> bool {
        true
    }

    fn add_counts(&self, counts: &Counts) {
        self.loads.fetch_add(counts.loads, Ordering::Relaxed);
        self.stores.fetch_add(counts.stores, Ordering::Relaxed);
        self.calls.fetch_add(counts.calls, Ordering::Relaxed);
    }

    fn add_file(&self, _file: &FileInfo) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    fn add_site(&self, _number: SiteId, _site: &Site) {
        self.sites.fetch_add(1, Ordering::Relaxed);
    }

    fn end_thread(&self, _thread: ThreadId) {}

    fn finish(&self, _ended: &Ended) -> Value {
        json!({
            "kind": "discard",
            "loads": self.loads.load(Ordering::Relaxed),
            "stores": self.stores.load(Ordering::Relaxed),
            "calls": self.calls.load(Ordering::Relaxed),
            "files": self.files.load(Ordering::Relaxed),
            "sites": self.sites.load(Ordering::Relaxed),
        })
    }

    fn cut(&self, _reason: &str) {}

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn is_done(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}
