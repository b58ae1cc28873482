//! Page faults, and hits of the page cache, through the kernel model, on one core: what it decides and keeps in its tables,
//! without the machine that executes the paths and moves the pages. Of the full-scale preset
//! `storage`, with a smaller DRAM.
//!
//! `cargo bench -p tierscope-system --bench faults [-- [smoke] [PART OF A NAME]]`; prints one JSON object a line.

use std::time::Instant;
use tierscope_kernel::Random;
use tierscope_model::os::address_space::Pte;
use tierscope_model::os::paging::{Next, Paging, Work};
use tierscope_system::spec::{SystemSpec, load};
use tierscope_workload::op::{Advice, MAP_SHARED, MAP_WRITABLE, NO_FILE};

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

    /// The program says how it uses the pages of its mapping.
    fn advise(&mut self, pages: u64, advice: Advice) {
        let length = pages * PAGE_BYTES;
        self.paging
            .advise(BASE, length, advice as u64, &mut self.work, &|_| false)
            .expect("advice reads nothing");
    }

    /// A call reads a page of the file; whether that was there.
    fn reads(&mut self, index: u64) -> bool {
        let next = self.paging.read_page(0, index, index, &mut self.work, &|_| false);
        self.work.clear();
        self.paging.end_of_read(0, (index + 1) * PAGE_BYTES);
        matches!(next, Ok(Next::Ready(_)))
    }

    /// The hardware walks to a page; whether that was there.
    fn walks(&mut self, page: u64) -> bool {
        let Pte::Present { frame, .. } = self.paging.entry(BASE / PAGE_BYTES + page) else {
            return false;
        };
        self.paging.touch(frame);
        true
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

fn measure_hits(name: &str, count: u64, mut hits: impl FnMut(u64) -> bool) {
    let start = Instant::now();
    let found = (0..count).filter(|i| hits(*i)).count() as u64;
    let wall_s = start.elapsed().as_secs_f64();
    assert_eq!(found, count, "all of it is there");
    println!(
        "{{\"name\": \"{name}\", \"hits\": {count}, \"wall_s\": {wall_s:.3}, \"hits_per_s\": {:.0}}}",
        count as f64 / wall_s
    );
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
    // A file that is all there: what the hardware's walk finds, and what calls find.
    let resident = pages / 4;
    let mut file = Kernel::new(&spec, (0, false), resident * PAGE_BYTES);
    (0..resident).for_each(|page| file.touch(page, false));
    for (name, is_random) in [("random", true), ("in order", false)] {
        let mut index = |i| if is_random { random.below(resident) } else { i % resident };
        let mapped = format!("file in the page cache, mapped, {name}, hits");
        if asked(&mapped) {
            measure_hits(&mapped, 4 * count, |i| file.walks(index(i)));
        }
        let called = format!("file in the page cache, calls, {name}, hits");
        if asked(&called) {
            measure_hits(&called, 4 * count, |i| file.reads(index(i)));
        }
    }
    for (name, count) in [("random", count / 4), ("random, advised so", count), ("in order", count)]
    {
        let name = format!("file, twice the DRAM, {name}");
        if asked(&name) {
            let mut file = Kernel::new(&spec, (0, false), pages * PAGE_BYTES);
            let is_random = name.contains("random");
            if name.ends_with("advised so") {
                file.advise(pages, Advice::Random);
            }
            measure(&name, &mut file, count, |i| {
                (if is_random { random.below(pages) } else { i % pages }, false)
            });
        }
    }
}
