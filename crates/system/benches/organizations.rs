//! The tag store of a DRAM cache, and organizations by themselves, driven by line requests without
//! a processor: look-ups and requests in a second of wall-clock time, on one core, of the
//! full-scale presets.
//!
//! `cargo bench -p tierscope-system --bench organizations [-- [smoke] [PART OF A NAME]]`; prints
//! one JSON object a line.

use std::time::Instant;
use tierscope_kernel::{Counter, Random};
use tierscope_model::cache::{LineAccess, TagStore};
use tierscope_model::organization::Organization;
use tierscope_model::replacement::Lru;
use tierscope_model::request::{LineRequest, Response};
use tierscope_system::spec::{SystemSpec, load};

const PAGE_BYTES: u64 = 4096;
const GIB: u64 = 1 << 30;

fn wanted(name: &str) -> bool {
    let only = std::env::args().skip(1).find(|a| a != "smoke" && !a.starts_with("--"));
    only.is_none_or(|only| name.contains(&only))
}

fn report(name: &str, count: u64, start: Instant, more: &str) {
    let wall_s = start.elapsed().as_secs_f64();
    let rate = count as f64 / wall_s;
    println!(
        "{{\"name\": \"{name}\", \"count\": {count}, \"wall_s\": {wall_s:.3}, \
         \"per_s\": {rate:.0}{more}}}"
    );
}

/// Accesses that hit a DRAM cache, tags and statistics only.
fn tags(name: &str, footprint_bytes: u64, count: u64) {
    if !wanted(name) {
        return;
    }
    let ways = 16;
    let mut tags: TagStore<Lru> =
        TagStore::new(64 * GIB / PAGE_BYTES / ways, ways as usize, false, 0);
    let pages = footprint_bytes / PAGE_BYTES;
    for page in 0..pages {
        tags.insert(page, 0);
    }
    let draws = Counter::stream(1, "tags");
    let accesses: Vec<LineAccess> = (0..1 << 16)
        .map(|i| LineAccess::new(draws.below_at(i, pages), draws.at(i) % 10 < 3))
        .collect();
    let start = Instant::now();
    let (mut done, mut hits) = (0, 0u64);
    while done < count {
        hits += tags.hit_run(&accesses) as u64;
        done += accesses.len() as u64;
    }
    assert_eq!(hits, done, "every page is there");
    report(name, done, start, "");
}

/// Random lines of a footprint, 30 % writes, `outstanding` at a time, after every page was touched
/// once.
fn organization(
    name: &str,
    spec: &SystemSpec,
    footprint_bytes: u64,
    outstanding: usize,
    count: u64,
) {
    if !wanted(name) {
        return;
    }
    let Some(mut organization) = spec.build_organization() else { return };
    let mut random = Random::stream(1, "lines");
    let pages = footprint_bytes / PAGE_BYTES;
    let touch: Vec<u64> = (0..pages).map(|page| page * PAGE_BYTES).collect();
    let mut now_ps = drive(organization.as_mut(), 0, outstanding, touch.len() as u64, |i| {
        (touch[i as usize], false)
    });
    let before = organization.report();
    let start = Instant::now();
    now_ps = drive(organization.as_mut(), now_ps, outstanding, count, |_| {
        (random.below(footprint_bytes / 64) * 64, random.chance(0.3))
    });
    let after = organization.report();
    let lookups = (after.lookups - before.lookups).max(1);
    let misses = (after.misses - before.misses) as f64 / lookups as f64;
    report(name, count, start, &format!(", \"miss_rate\": {misses:.3}, \"end_ps\": {now_ps}"));
}

/// Keeps `outstanding` requests under way until `count` are answered; the time then.
fn drive(
    organization: &mut dyn Organization,
    mut now_ps: u64,
    outstanding: usize,
    count: u64,
    mut next: impl FnMut(u64) -> (u64, bool),
) -> u64 {
    let mut responses: Vec<Response> = Vec::new();
    let (mut submitted, mut answered, mut refused) = (0, 0, None);
    while answered < count {
        while submitted < count && submitted - answered < outstanding as u64 {
            let (address, write) = refused.take().unwrap_or_else(|| next(submitted));
            let request = LineRequest { id: submitted as u32, core: 0, address, write, version: 0 };
            if organization.submit(now_ps, request).is_err() {
                refused = Some((address, write));
                break;
            }
            submitted += 1;
        }
        now_ps = organization.next_event_ps().expect("requests are under way");
        organization.advance(now_ps, &mut responses);
        answered += responses.len() as u64;
        responses.clear();
    }
    now_ps
}

fn main() {
    let scale = if std::env::args().any(|a| a == "smoke") { 100 } else { 1 };
    tags("tags, 64 GiB, uniform over 256 MiB, hits", GIB / 4, 100_000_000 / scale);
    tags("tags, 64 GiB, uniform over 4 GiB, hits", 4 * GIB, 100_000_000 / scale);
    for name in ["oracle", "hybrid", "storage"] {
        let Ok(resolved) = load(name, &[]) else { panic!("the preset {name} is gone") };
        let case = |what: &str| format!("{name}: {what}");
        let spec = &resolved.spec;
        organization(&case("all hits, 16 outstanding"), spec, GIB / 16, 16, 4_000_000 / scale);
    }
    // Half of the lines lie in pages that the cache has no room for.
    let smaller = ("hybrid.cache.capacity".to_string(), "64MiB".to_string());
    let without = ("hybrid.prefetch_pages".to_string(), "0".to_string());
    for (what, sets) in [
        ("half missing, no prefetch", vec![smaller.clone(), without]),
        ("half missing, 16 pages prefetched for each", vec![smaller]),
    ] {
        let Ok(resolved) = load("hybrid", &sets) else { panic!("the preset hybrid is gone") };
        let name = format!("hybrid: {what}, 16 outstanding");
        organization(&name, &resolved.spec, GIB / 8, 16, 2_000_000 / scale);
    }
    for (page, misses) in [("4KiB", 200_000), ("128KiB", 20_000)] {
        hams(page, misses, scale);
    }
    for (name, capacity, misses) in OTHERS {
        other(name, capacity, *misses, scale);
    }
}

/// Other presets whose memory is read and written line by line: the key of what is to have room for all of 64 MiB or for
/// half of 128 MiB, where there is one, and how many accesses there are where half of them miss it.
const OTHERS: &[(&str, Option<&str>, u64)] = &[
    ("hybrid/alloy", Some("hybrid.cache.capacity"), 1_000_000),
    ("optane-m", Some("hybrid.cache.capacity"), 1_000_000),
    ("nvdimm-c", Some("hybrid.cache.capacity"), 50_000),
    ("ull-buff", Some("hybrid.cache.capacity"), 100_000),
    ("flatflash-m", Some("tiered.promotion.capacity"), 100_000),
    ("flatflash-p", Some("ssd.buffer.capacity"), 200_000),
    ("cxl-ssd", Some("ssd.buffer.capacity"), 200_000),
    ("cxl-tiering", Some("tiering.capacity"), 2_000_000),
    ("ull", None, 0),
    ("optane-p", None, 0),
    ("direct", None, 0),
];

/// A preset of [`OTHERS`]: what has room for 128 MiB, and for half of the footprint; or, where it keeps nothing, all.
fn other(name: &str, capacity: &Option<&str>, misses: u64, scale: u64) {
    let spec = |room: &str| {
        let set = |path: &str, value: &str| (path.to_string(), value.to_string());
        let mut sets: Vec<_> = capacity.iter().map(|key| set(key, room)).collect();
        if *capacity == Some("ssd.buffer.capacity") {
            sets.push(set("ssd.buffer.dirty", "32MiB"));
        }
        if name == "flatflash-m" {
            // Each access promotes.
            sets.push(set("tiered.promotion.most_threshold", "1"));
        }
        match load(name, &sets) {
            Ok(resolved) => resolved.spec,
            Err(problems) => panic!("{name}: {problems:?}"),
        }
    };
    let Some(key) = capacity else {
        let name = format!("{name}: 16 outstanding");
        return organization(&name, &spec(""), GIB / 16, 16, 500_000 / scale);
    };
    let hits = format!("{name}: all hits ({key}), 16 outstanding");
    organization(&hits, &spec("112MiB"), GIB / 16, 16, 2_000_000 / scale);
    let half = format!("{name}: half missing, 16 outstanding");
    organization(&half, &spec("56MiB"), GIB * 7 / 64, 16, misses / scale);
}

/// HAMS with pages of a size: all hits, and a cache of half of the footprint.
fn hams(page: &str, misses: u64, scale: u64) {
    let set = |path: &str, value: &str| (path.to_string(), value.to_string());
    let smaller = [
        set("hams.page", page),
        set("hams.capacity", "80MiB"),
        set("hams.pinned", "16MiB"),
        set("hams.queue_entries", "1024"),
        set("hams.prp_slots", "64"),
        set("dram.backup.module", "16MiB"),
    ];
    for (what, sets, footprint, count) in [
        ("all hits", &smaller[..1], GIB / 16, 4_000_000),
        ("half missing", &smaller[..], GIB / 8, misses),
    ] {
        let Ok(resolved) = load("hams-le", sets) else { panic!("the preset hams-le is gone") };
        let name = format!("hams-le: {what}, pages of {page}, 16 outstanding");
        organization(&name, &resolved.spec, footprint, 16, count / scale);
    }
}
