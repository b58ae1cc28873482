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
