//! Reads that take long: a device that has to read its flash for a line says so at once, and whoever asked does
//! something else meanwhile (SkyByte: H. Zhang et al., HPCA 2025, section III-A). The page comes into the
//! device's own memory all the same, where the line is found when it is asked for again.

use super::{LongReadsSpec, Tiered, Timer};
use crate::request::{Device, LineResponse};
use tierscope_kernel::Stage;

/// What is told of reads that take long.
#[derive(Clone, Debug)]
pub(super) struct LongReads {
    threshold_ps: u64,
    latency_ps: u64,
    /// Those of which it was told, and not yet asked.
    pub(super) told: Vec<LineResponse>,
}

impl LongReads {
    pub(super) fn new(spec: &LongReadsSpec) -> Self {
        let (threshold_ps, latency_ps) = (spec.above.picoseconds(), spec.latency.picoseconds());
        LongReads { threshold_ps, latency_ps, told: Vec::new() }
    }
}

impl<D: Device, S: Device> Tiered<D, S> {
    /// A line is about to be asked for at the store. Where its device expects to wait for long, the host learns of
    /// it; and where its page is on its way already, that is all.
    pub(super) fn tells_only(&mut self, now_ps: u64, slot: u32, address: u64) -> bool {
        let Some(long_reads) = self.long_reads.as_ref().filter(|_| self.held[slot].tells) else {
            return false;
        };
        let wait = self.store.device().medium_wait(address);
        if wait.duration_ps <= long_reads.threshold_ps {
            return false;
        }
        let at_ps = now_ps + long_reads.latency_ps;
        let turn = self.held[slot].turn;
        self.timers.push(at_ps, 0, Timer::Tell(slot, turn, !wait.is_under_way));
        wait.is_under_way
    }

    /// The host learns that a line takes long, if it has not come meanwhile.
    pub(super) fn tell(&mut self, now_ps: u64, (slot, turn): (u32, u64), asked: bool) {
        let Some(long_reads) = &mut self.long_reads else { return };
        let Some(held) = self.held.get_mut(slot).filter(|held| held.turn == turn) else { return };
        held.told = true;
        let it = *held;
        let mut stages = it.stages;
        stages.push(Stage::Device, now_ps - it.clock_ps);
        long_reads.told.push(LineResponse { id: it.request.id, at_ps: now_ps, stages, version: 0 });
        if !asked {
            self.held.remove(slot);
            self.unblock(now_ps, &it);
        }
    }
}
