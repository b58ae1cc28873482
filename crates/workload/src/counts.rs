//! How many operations of which kinds there are.

use crate::op::{Op, OpKind};
use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// Counts of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Calls.
    pub calls: u64,
    /// Instructions, those of the other operations included.
    pub instructions: u64,
}

impl Counts {
    /// Those of operations, whole calls only.
    pub fn of(ops: &[Op]) -> Counts {
        let mut counts = Counts::default();
        let mut at = 0;
        while let Some(op) = ops.get(at) {
            let kind = op.kind_code();
            counts.loads += u64::from(kind == OpKind::Load as u8);
            counts.stores += u64::from(kind == OpKind::Store as u8);
            counts.instructions += u64::from(op.instructions());
            at += 1;
            if kind == OpKind::Call as u8 {
                counts.calls += 1;
                at += op.size() as usize;
            }
        }
        counts
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Counts) {
        self.loads += more.loads;
        self.stores += more.stores;
        self.calls += more.calls;
        self.instructions += more.instructions;
    }
}
