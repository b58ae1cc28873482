//! Clusters of slots that have become free.

use super::*;
use crate::os::paging::small::{FRAMES, finish, settle, small, touch};
use tierscope_kernel::Counter;
use tierscope_workload::op::MAP_WRITABLE;

const PAGE: u64 = 4096;
const CLUSTER_BYTES: u64 = CLUSTER_SLOTS * PAGE;

fn host() -> Paging {
    let mut paging = small(|_| ());
    paging.discard_free_swap();
    paging
}

/// What the device is being told of.
fn told(paging: &Paging, id: TransferId) -> Range<u64> {
    let Moves::Discard { address, bytes } = paging.transfer(id).moves else { panic!("no discard") };
    address..address + bytes
}

#[test]
fn what_is_unmapped_is_discarded_cluster_by_cluster_and_what_is_mapped_is_not() {
    let mut paging = host();
    paging.map(0, 8 * FRAMES * PAGE, MAP_WRITABLE, NO_FILE, 0);
    for page in 0..6 * FRAMES {
        touch(&mut paging, page, true);
    }
    settle(&mut paging);
    assert_eq!(paging.discard_swap(&mut Vec::new()), None, "all of it is used");
    paging.take_wakes();
    paging.unmap(0, 3 * FRAMES * PAGE);
    assert!(paging.take_wakes().discard);
    let in_use: Vec<u64> = (3 * FRAMES..6 * FRAMES)
        .filter_map(|page| match paging.entry(page) {
            Pte::Swapped(slot) => Some(paging.slot_address(slot)),
            _ => None,
        })
        .collect();
    let mut clusters = 0;
    let mut work = Vec::new();
    while let Some(id) = paging.discard_swap(&mut work) {
        let range = told(&paging, id);
        assert!(
            range.end - range.start == CLUSTER_BYTES && range.end.is_multiple_of(CLUSTER_BYTES)
        );
        assert!(in_use.iter().all(|address| !range.contains(address)), "{range:?}");
        assert!(work.contains(&Work::Submit(id)));
        // Nobody gets its slots meanwhile.
        let slots: Vec<u64> = (0..600)
            .map(|page| paging.take_slot(Owner::Anonymous(page)).unwrap().unwrap())
            .collect();
        assert!(slots.iter().all(|slot| !range.contains(&paging.slot_address(*slot))));
        slots.into_iter().for_each(|slot| paging.forget_slot(slot));
        finish(&mut paging, id);
        clusters += 1;
        if clusters > 8 {
            break;
        }
    }
    assert!(clusters >= 5, "{clusters}");
}

/// Slots are taken and given back at random while the worker goes on or does not: none is had twice, none is lost, and
/// swap is full when all are used, but for the cluster that is being discarded.
#[test]
fn each_slot_is_used_or_can_be_had_whatever_is_discarded() {
    let slots = 8 * CLUSTER_SLOTS;
    let mut paging = host();
    paging.store_end = (1 << 30) - slots * PAGE;
    let draw = Counter::stream(3, "swap.clusters");
    let mut used: Vec<u64> = Vec::new();
    let (mut under_way, mut told_of, mut full) = (None, 0, 0);
    for turn in 0..600 {
        let at = |n: u64, most: u64| draw.below_at(8 * turn + n, most);
        let fills = turn / 40 % 2 == 0;
        for n in 0..at(0, 300) {
            if fills || n % 8 == 7 {
                match paging.take_slot(Owner::Anonymous(n)) {
                    Ok(Some(slot)) => {
                        assert!(!used.contains(&slot), "{slot} twice");
                        used.push(slot);
                    }
                    _ => {
                        let away = if under_way.is_some() { CLUSTER_SLOTS } else { 0 };
                        assert_eq!(used.len() as u64 + away, slots, "turn {turn}");
                        full += 1;
                        break;
                    }
                }
            } else if let Some(last) = used.len().checked_sub(1) {
                // Those that lie together go together, as those of a mapping do.
                let which =
                    if at(1, 16) > 0 { last } else { draw.below_at(n, last as u64 + 1) as usize };
                paging.forget_slot(used.swap_remove(which));
            }
        }
        match under_way.take() {
            None => under_way = paging.discard_swap(&mut Vec::new()),
            Some(id) if at(2, 3) == 0 => finish(&mut paging, id),
            again => under_way = again,
        }
        if let Some(id) = under_way {
            let range = told(&paging, id);
            let within = |slot: &&u64| range.contains(&paging.slot_address(**slot));
            assert_eq!(used.iter().find(within), None, "it is used");
            told_of += 1;
        }
    }
    assert!(told_of > 20 && full > 5, "{told_of}, {full}");
}
