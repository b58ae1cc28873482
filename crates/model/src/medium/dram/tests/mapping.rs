//! The address mapping: one to one, whatever its parts, and requests of many lines split right.

use super::*;
use crate::medium::dram::description::Description;
use crate::medium::dram::mapping::{Mapping, Place, Run};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

const MAPPINGS: [&str; 8] = [
    "ro-ra-ba-bg-co-ch",
    "ro-ba-ra-co-bg-ch",
    "ro-co-ra-ba-bg-ch",
    "ro-ch-ra-bg-ba-co",
    "ro-ra-ba-co-bg-co2-ch",
    "ro-co1-ba-co-bg-co2-ra-ch",
    "rkbbccccggch",
    "ro-ra-ba1-co-ba-bg-ch",
];

fn mapping(text: &str, channels: u32, ranks: u32) -> (DramSpec, Mapping) {
    let row = Some(Size::from_bytes(2048));
    let spec = DramSpec {
        mapping: text.into(),
        ranks,
        row,
        ..DramSpec::of_part("ddr4-2400-8gb-x8", channels)
    };
    let mapping = Mapping::new(&spec, &Description::new(&spec), 64);
    (spec, mapping)
}

#[test]
fn every_mapping_places_each_line_elsewhere_and_fills_each_row() {
    for text in MAPPINGS {
        let (spec, mapping) = mapping(text, 2, 2);
        let d = Description::new(&spec);
        let mut lines_of: HashMap<_, u32> = HashMap::new();
        // Two rows of every bank.
        let all = 2 * 32 * 2 * u64::from(d.ranks * d.banks_of_rank());
        for line in 0..all {
            let Place { channel, bank, row } = mapping.place(line);
            assert!(channel < 2 && bank < d.ranks * d.banks_of_rank());
            *lines_of.entry((channel, bank, row)).or_default() += 1;
        }
        assert_eq!(lines_of.len() as u64, all / 32, "{text}");
        assert!(lines_of.values().all(|lines| *lines == 32), "{text}");
        let rows: HashSet<_> = lines_of.keys().map(|(.., row)| row).collect();
        assert_eq!(rows.len(), 2, "{text}");
    }
}

#[test]
fn parts_of_an_address_choose_what_their_names_say() {
    let (_, by_name) = mapping("ro-ra-ba-bg-co-ch", 2, 2);
    let place = |line| by_name.place(line);
    assert_eq!(place(1), Place { channel: 1, bank: 0, row: 0 });
    assert_eq!(place(62), Place { channel: 0, bank: 0, row: 0 });
    assert_eq!(place(64), Place { channel: 0, bank: 4, row: 0 }, "the next bank group");
    assert_eq!(place(256), Place { channel: 0, bank: 1, row: 0 }, "the next bank");
    assert_eq!(place(1024), Place { channel: 0, bank: 16, row: 0 }, "the next rank");
    assert_eq!(place(2048), Place { channel: 0, bank: 0, row: 1 }, "the next row");
    let (_, by_letter) = mapping("rkbbggccccch", 2, 2);
    for line in (0..1 << 20).step_by(977) {
        assert_eq!(by_letter.place(line), by_name.place(line));
    }
}

#[test]
fn counts_need_not_be_powers_of_two() {
    let plain = DramSpec::of_part("ddr4-2400-8gb-x8", 3);
    let spec = DramSpec { banks: Some(3), ranks: 3, ..plain };
    let mapping = Mapping::new(&spec, &Description::new(&spec), 64);
    let mut seen = HashSet::new();
    for row in 0..3u64 * 3 * 3 * 4 {
        let Place { channel, bank, row } = mapping.place(row * 128);
        seen.insert((channel, bank, row));
    }
    assert!(seen.iter().all(|&(channel, bank, _)| channel < 3 && bank < 36));
}

proptest! {
    #[test]
    fn a_request_of_many_lines_is_split_into_the_rows_of_its_lines(
        text in prop::sample::select(&MAPPINGS[..]),
        first in 0..1u64 << 20,
        lines in 1..300u64,
        aligned in any::<bool>(),
    ) {
        let (_, mapping) = mapping(text, 2, 2);
        let lines = if aligned { lines.next_power_of_two() } else { lines };
        let first = if aligned { first / lines * lines } else { first };
        let mut runs = Vec::new();
        mapping.runs(first, first + lines - 1, &mut runs);
        let mut expected: Vec<Run> = Vec::new();
        for line in first..first + lines {
            let place = mapping.place(line);
            match expected.iter_mut().find(|run| run.place == place) {
                Some(run) => run.lines += 1,
                None => expected.push(Run { place, lines: 1 }),
            }
        }
        // A row that was left and comes again may be a run of its own.
        let mut joined: Vec<Run> = Vec::new();
        for run in runs {
            match joined.iter_mut().find(|known| known.place == run.place) {
                Some(known) => known.lines += run.lines,
                None => joined.push(run),
            }
        }
        let key = |run: &Run| (run.place.channel, run.place.bank, run.place.row);
        joined.sort_by_key(key);
        expected.sort_by_key(key);
        prop_assert_eq!(joined, expected);
    }
}
