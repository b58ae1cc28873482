//! Maps without memory: places of the start and back.

use super::initial::steady_blocks;
use super::*;
use crate::device::ssd::tests::nand;
use crate::medium::NandSpec;
use proptest::prelude::*;

proptest! {
    #[test]
    fn the_start_maps_every_unit_to_a_place_of_its_own_and_back(
        channels in 1..4u32,
        ways in 1..3u32,
        planes in 1..4u32,
        page_units in prop_oneof![Just(1u64), Just(2), Just(4)],
        share in 0.1..0.65f64,
        steady in any::<bool>(),
        map_units in 0..20u64,
        free in 2..5u32,
        striping in prop_oneof![Just("c-w-d-p"), Just("p-w-c-d"), Just("w-p-d-c"), Just("d-c-p-w")],
    ) {
        let page = tierscope_units::Size::from_bytes(page_units * 4096);
        let nand = NandSpec { channels, ways, planes, dies: 2, blocks: 20, pages: 7, page, ..nand() };
        let geometry = Geometry::new(&nand, 1, 4096);
        let stripe = Stripe::new(striping, &nand, 1, &geometry);
        let usable = vec![geometry.blocks; geometry.lanes as usize];
        let units = (geometry.units() as f64 * share) as u64;
        let kind = if steady { InitialFlash::Steady } else { InitialFlash::Written };
        let initial = Initial::new(kind, (units, map_units), &geometry, stripe, &usable, free);
        let mut taken = vec![0; (geometry.lanes * geometry.blocks) as usize];
        for unit in 0..units + map_units {
            let place = initial.place(unit).expect("the drive is full");
            prop_assert_eq!(initial.unit(place), Some(unit));
            taken[geometry.block_of(place).0 as usize] += 1;
        }
        prop_assert_eq!(initial.place(units + map_units), None);
        let valid = (0..geometry.lanes)
            .flat_map(|lane| (0..geometry.blocks).map(move |block| (lane, block)));
        let valid: Vec<_> = valid.map(|(lane, block)| initial.valid(lane, block)).collect();
        prop_assert_eq!(taken, valid);
        let all = (0..geometry.units() as u32).filter(|&place| initial.unit(place).is_some());
        prop_assert_eq!(all.count() as u64, units + map_units);
        for place in 0..geometry.units() as u32 {
            prop_assert_eq!(initial.holds(place), initial.unit(place).is_some());
        }
        // What is being filled has its first pages full, and no others.
        for (lane, block) in (0..geometry.lanes).flat_map(|lane| (0..20).map(move |it| (lane, it))) {
            let Some((stream, pages)) = initial.filling(lane, block) else { continue };
            prop_assert!((1..geometry.block_pages()).contains(&pages));
            let first = geometry.place(Page { lane, block, page: 0 }, 0);
            let held = (0..geometry.block_units()).filter(|unit| initial.holds(first + unit));
            let dense = (0..initial.valid(lane, block)).collect::<Vec<_>>();
            prop_assert_eq!(held.collect::<Vec<_>>(), dense);
            let whole = initial.valid(lane, block) == pages * geometry.page_units;
            prop_assert!(whole || stream == Stream::Map);
        }
    }

    #[test]
    fn pages_are_dealt_to_every_plane_alike(
        text in prop_oneof![Just("c-w-d-p"), Just("p-d-w-c"), Just("d-p-c-w")],
        pages in 0..500u64,
    ) {
        let nand = NandSpec { channels: 3, ways: 2, dies: 2, planes: 2, ..nand() };
        let geometry = Geometry::new(&nand, 1, 4096);
        let stripe = Stripe::new(text, &nand, 1, &geometry);
        let mut had = vec![0u64; geometry.lanes as usize];
        for page in 0..pages {
            let (lane, nth) = stripe.deal(page);
            prop_assert_eq!(nth, had[lane as usize]);
            prop_assert_eq!(stripe.dealt(lane, nth), page);
            had[lane as usize] += 1;
        }
        for lane in 0..geometry.lanes {
            prop_assert_eq!(stripe.share(lane, pages), had[lane as usize]);
        }
    }

    #[test]
    fn the_steady_state_has_as_many_valid_units_as_the_drive(
        blocks in 1..400u32,
        block_units in 1..300u32,
        share in 0.0..=1.0f64,
    ) {
        let units = (f64::from(blocks) * f64::from(block_units) * share) as u64;
        let valid = steady_blocks(units, blocks, block_units);
        prop_assert_eq!(valid.len(), blocks as usize);
        prop_assert_eq!(valid.iter().map(|&v| u64::from(v)).sum::<u64>(), units);
        prop_assert!(valid.iter().all(|&v| v <= block_units));
    }
}

#[test]
fn an_order_names_each_dimension_once() {
    assert!(is_order("c-w-d-p") && is_order("p-d-w-c"));
    for wrong in ["", "c-w-d", "c-w-d-d", "c-w-d-p-p", "c-w-d-x", "cwdp"] {
        assert!(!is_order(wrong), "{wrong}");
    }
}
