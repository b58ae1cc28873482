//! Recording to nothing: operations are counted by kind and dropped.

use super::Sink;
use crate::capture::Ended;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tierscope_workload::{FileInfo, Op, OpKind, ThreadId};

/// Counts loads, stores and calls.
#[derive(Default)]
pub struct DiscardSink {
    loads: AtomicU64,
    stores: AtomicU64,
    calls: AtomicU64,
    files: AtomicU64,
    stopped: AtomicBool,
}

impl Sink for DiscardSink {
    fn accept(&self, _thread: ThreadId, ops: &[Op]) {
        let (mut loads, mut stores, mut calls) = (0, 0, 0);
        let mut at = 0;
        while let Some(op) = ops.get(at) {
            let kind = op.kind_code();
            loads += u64::from(kind == OpKind::Load as u8);
            stores += u64::from(kind == OpKind::Store as u8);
            at += 1;
            if kind == OpKind::Call as u8 {
                calls += 1;
                at += op.size() as usize;
            }
        }
        self.loads.fetch_add(loads, Ordering::Relaxed);
        self.stores.fetch_add(stores, Ordering::Relaxed);
        self.calls.fetch_add(calls, Ordering::Relaxed);
    }

    fn add_file(&self, _file: &FileInfo) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    fn end_thread(&self, _thread: ThreadId) {}

    fn finish(&self, _ended: &Ended) -> Value {
        json!({
            "kind": "discard",
            "loads": self.loads.load(Ordering::Relaxed),
            "stores": self.stores.load(Ordering::Relaxed),
            "calls": self.calls.load(Ordering::Relaxed),
            "files": self.files.load(Ordering::Relaxed),
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
