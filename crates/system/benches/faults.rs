//! Page faults through the kernel model, on one core: what it decides and keeps in its tables,
//! without the machine that executes the paths and moves the pages. Of the full-scale preset
//! `storage`, with a smaller DRAM.
//!
//! `cargo bench -p tierscope-system --bench faults [-- [smoke] [PART OF A NAME]]`; prints one JSON object a line.

use std::time::Instant;
use tierscope_kernel::Random;
use tierscope_model::os::paging::{Next, Paging, Work};
use tierscope_system::spec::{SystemSpec, load};
use tierscope_workload::op::{MAP_SHARED, MAP_WRITABLE, NO_FILE};

const PAGE_BYTES: u64 = 4096;
const BASE: u64 = 1 << 40;
const DRAM_BYTES: u64 = 256 << 20;

/// A kernel whose transfers, cleared pages and copies end at once.
struct Kernel {
    paging: Paging,
    work: Vec<Work>,
    now_ps: u64,
}

impl Kernel {
    fn new(spec: &SystemSpec, (file, private): (u32, bool), bytes: u64) -> Kernel {
        let levels = spec.processor.as_ref().expect("a machine has one").tlb.levels;
        let os = spec.os.as_ref().expect("a machine has one");
        let mut paging = Paging::new(os, levels, DRAM_BYTES, spec.paging(), 0);
        if file != NO_FILE {
            paging.open(file, bytes).expect("the store holds the file");
        }
        let sharing = if private { 0 } else { MAP_SHARED };
        paging.map(BASE, bytes, MAP_WRITABLE | sharing, file, 0);
        Kernel { paging, work: Vec::new(), now_ps: 0 }
    }

    /// Faults until the page is there.
    fn touch(&mut self, page: u64, write: bool) {
        self.now_ps += 1_000;
        loop {
            let next = self
                .paging
                .fault(BASE / PAGE_BYTES + page, write, self.now_ps, &mut self.work, &|_| false)
                .expect("memory and store suffice");
            for work in self.work.drain(..) {
                match work {
                    Work::Submit(id) => {
                        self.paging.submitted(id);
                        while !self.paging.page_moved(id) {}
                        self.paging.finish_transfer(id);
                    }
                    Work::Clear(frame) => self.paging.let_go(frame),
                    Work::CopyFrame(from, to) => {
                        self.paging.let_go(from);
                        self.paging.let_go(to);
                    }
                    _ => {}
                }
            }
            drop(self.paging.take_effects());
            if matches!(next, Next::Ready(_)) {
                return;
            }
        }
    }
}

fn measure(name: &str, kernel: &mut Kernel, count: u64, mut page: impl FnMut(u64) -> (u64, bool)) {
    let before = kernel.paging.counters;
    let start = Instant::now();
    for i in 0..count {
        let (page, write) = page(i);
        kernel.touch(page, write);
    }
    let wall_s = start.elapsed().as_secs_f64();
    let after = kernel.paging.counters;
    let (major, minor) =
        (after.major_faults - before.major_faults, after.minor_faults - before.minor_faults);
    println!(
        "{{\"name\": \"{name}\", \"touches\": {count}, \"major_faults\": {major}, \
         \"minor_faults\": {minor}, \"wall_s\": {wall_s:.3}, \"touches_per_s\": {:.0}}}",
        count as f64 / wall_s
    );
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let scale = if arguments.iter().any(|a| a == "smoke") { 100 } else { 1 };
    let part = arguments.into_iter().find(|a| a != "smoke").unwrap_or_default();
    let asked = |name: &str| name.contains(&part);
    let sets = [("storage.swap_cluster_pages".to_string(), "1".to_string())];
    let spec = load("storage", &sets).unwrap_or_else(|problems| panic!("{problems}")).spec;
    let pages = 2 * DRAM_BYTES / PAGE_BYTES;
    let mut random = Random::stream(1, "pages");
    let count = 4_000_000 / scale;
    for (memory, private) in [("anonymous", true), ("shared memory", false)] {
        if asked(memory) {
            let mut kernel = Kernel::new(&spec, (NO_FILE, private), pages * PAGE_BYTES);
            measure(&format!("{memory}, first touch"), &mut kernel, pages, |i| (i, true));
            let name = format!("{memory}, twice the DRAM, random, 30 % writes");
            measure(&name, &mut kernel, count, |_| (random.below(pages), random.chance(0.3)));
        }
    }
    for (name, count) in [("random", count / 4), ("in order", count)] {
        let name = format!("file, twice the DRAM, {name}");
        if asked(&name) {
            let mut file = Kernel::new(&spec, (0, false), pages * PAGE_BYTES);
            let is_random = name.ends_with("random");
            measure(&name, &mut file, count, |i| {
                (if is_random { random.below(pages) } else { i % pages }, false)
            });
        }
    }
}
