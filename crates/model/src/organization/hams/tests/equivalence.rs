//! Loose and tight HAMS meet where the link of the loose one takes no time.

use super::*;
use crate::link::LinkSpec;
use proptest::prelude::*;

/// Time of all accesses, one after the other, and what became of them.
fn play(hams: Hams<Dram, AnyDevice>, accesses: &[(u64, bool)]) -> (u64, [u64; 3]) {
    let mut run = Run::new(hams);
    let took_ps = |run: &mut Run<_, _>, (page, write): (u64, bool)| {
        run.ask(page * 8 * KIB, write).stages.total_ps()
    };
    let all_ps = accesses.iter().map(|access| took_ps(&mut run, *access)).sum();
    let counts = run.hams.manager().hams_report().counts;
    (all_ps, [counts.hits, counts.fills, counts.evictions])
}

fn behind(coupling: Coupling, link: &dyn LinkDescription) -> Hams<Dram, AnyDevice> {
    let (spec, ssd) = (spec(coupling, Mode::Extend), drive(Coupling::Tight));
    let memory = Dram::new(&dram_spec(), spec.capacity.bytes(), LINE_BYTES);
    let sizes = (ssd.capacity.bytes(), ssd.page.bytes(), LINE_BYTES);
    Hams::new(&spec, sizes, memory, ssd.build(link), false)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// The same drive, loose behind a link that takes no time and tight on a channel that takes none: the same hits,
    /// fills and evictions, and the same time within a hundredth: the loose one has the NVDIMM do more (command lists that
    /// the drive fetches, pages that come by its controller), the tight one looks its table of pages up.
    #[test]
    fn loose_hams_behind_an_infinitely_fast_link_approaches_tight_hams(
        accesses in prop::collection::vec((0u64..12, any::<bool>()), 20..60),
    ) {
        let at_once = LinkSpec {
            bandwidth: "1PB/s".parse().unwrap(),
            payload: Size::from_bytes(4096),
            packet_overhead: Size::from_bytes(0),
            latency: Duration::from_picoseconds(0),
            energy: None,
        };
        let channel = DdrChannelSpec {
            data_rate: TransferRate::from_transfers_per_second(1_000_000_000_000),
            hand_over: Duration::from_picoseconds(0),
            lock_latency: Duration::from_picoseconds(0),
            ..ddr_channel()
        };
        let (tight_ps, tight) = play(behind(Coupling::Tight, &channel), &accesses);
        let (loose_ps, loose) = play(behind(Coupling::Loose, &at_once), &accesses);
        let (slow_ps, slow) = play(behind(Coupling::Loose, &pcie()), &accesses);
        prop_assert_eq!(loose, tight);
        prop_assert_eq!(slow, tight);
        let off = loose_ps as f64 / tight_ps as f64 - 1.0;
        let far = slow_ps as f64 / tight_ps as f64 - 1.0;
        prop_assert!(off.abs() < 0.01, "{off} longer behind no link, {far} behind PCI Express");
        prop_assert!(far > 2.0 * off.abs(), "{off} longer behind no link, {far} behind PCI Express");
    }
}
