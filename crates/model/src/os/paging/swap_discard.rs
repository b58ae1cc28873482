//! Discards of swap, as `swapon --discard=pages` asks for them: the device is told of clusters of slots that have
//! become free (`swap_cluster_schedule_discard` and `swap_do_scheduled_discard`, mm/swapfile.c).
//!
//! A cluster of which all slots have been handed out and given back is given to nobody before the device has been told
//! of it. A worker of the kernel does so, one cluster after the other.

use super::swap_area::CLUSTER_SLOTS;
use super::*;
use std::collections::VecDeque;

/// Clusters of slots, where free ones are discarded.
#[derive(Clone, Debug, Default)]
pub(super) struct SwapClusters {
    /// How many slots are in use of each cluster that has any.
    used: BTreeMap<u64, u64>,
    /// Clusters that nobody gets before they are discarded, and those of their slots that were free when somebody wanted
    /// one, and are passed by.
    kept: BTreeMap<u64, Vec<u64>>,
    /// Those of them that the device is yet to be told of.
    waiting: VecDeque<u64>,
    /// The one that it is being told of.
    under_way: Option<(TransferId, u64)>,
}

impl SwapClusters {
    pub fn use_slot(&mut self, slot: u64) {
        *self.used.entry(slot / CLUSTER_SLOTS).or_default() += 1;
    }

    /// Whether a free slot is one that nobody gets now; it is passed by then.
    pub fn passes_by(&mut self, slot: u64) -> bool {
        let kept = self.kept.get_mut(&(slot / CLUSTER_SLOTS));
        kept.map(|slots| slots.push(slot)).is_some()
    }

    /// A slot is free again, of so many that were ever handed out.
    pub fn free_slot(&mut self, slot: u64, handed_out: u64) {
        let cluster = slot / CLUSTER_SLOTS;
        let Some(used) = self.used.get_mut(&cluster) else { return };
        *used -= 1;
        if *used == 0 {
            self.used.remove(&cluster);
            if (cluster + 1) * CLUSTER_SLOTS <= handed_out {
                self.wait(cluster);
            }
        }
    }

    /// A cluster is given to nobody before the device has been told of it.
    pub fn wait(&mut self, cluster: u64) {
        self.kept.insert(cluster, Vec::new());
        self.waiting.push_back(cluster);
    }

    /// Whether the worker has something to do.
    pub fn is_wanted(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Swap is full: what the device has not been told of yet can be had at once, the last first. The cluster, and the
    /// slots of it that were passed by.
    pub fn give_up(&mut self) -> Option<(u64, Vec<u64>)> {
        let cluster = self.waiting.pop_back()?;
        Some((cluster, self.kept.remove(&cluster).unwrap_or_default()))
    }
}

impl Paging {
    /// Slots of a cluster may be given again, those that were passed by.
    pub(super) fn give_free_cluster(&mut self, cluster: u64, passed_by: Vec<u64>) {
        match &mut self.swap_area {
            Some(area) => area.give_cluster(cluster),
            None => self.free_slots.extend(passed_by),
        }
    }

    /// The device is told of clusters of swap slots that have become free, from the start on.
    pub fn discard_free_swap(&mut self) {
        self.swap_clusters = Some(Box::default());
    }

    /// The kernel's worker goes on: what it waits for, or nothing once it may sleep.
    pub fn discard_swap(&mut self, work: &mut Vec<Work>) -> Option<TransferId> {
        let cluster = self.swap_clusters.as_mut()?.waiting.pop_front()?;
        // Swap grows downwards.
        let slots =
            self.slots_handed_out().min((cluster + 1) * CLUSTER_SLOTS) - cluster * CLUSTER_SLOTS;
        let address = self.slot_address(cluster * CLUSTER_SLOTS + slots - 1);
        let id = self.transfers.insert(Transfer {
            left: 1,
            pages: Vec::new(),
            write: true,
            submitted: false,
            swap: true,
            moves: Moves::Discard { address, bytes: slots * self.page_bytes },
            leaving: 0,
            cut_files: Vec::new(),
        });
        self.request_paths(1, work);
        work.push(Work::Submit(id));
        self.swap_clusters.as_mut()?.under_way = Some((id, cluster));
        Some(id)
    }

    /// The device has been told of a cluster, if that was what this transfer was for: its slots can be had.
    pub(super) fn finish_swap_discard(&mut self, id: TransferId) {
        let Some(clusters) = &mut self.swap_clusters else { return };
        if let Some((_, cluster)) = clusters.under_way.take_if(|(of, _)| *of == id) {
            let passed_by = clusters.kept.remove(&cluster).unwrap_or_default();
            self.give_free_cluster(cluster, passed_by);
        }
    }
}

#[cfg(test)]
mod tests;
