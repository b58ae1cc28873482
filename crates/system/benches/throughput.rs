//! Simulated accesses in a second of wall-clock time, of whole machines on one core.
//!
//! `cargo bench -p tierscope-system --bench throughput [-- [smoke] [PART OF A NAME]]`; prints one JSON object a line.

use std::sync::atomic::AtomicBool;
use std::time::Instant;
use tierscope_system::run::{RunOptions, run_machines};
use tierscope_system::spec::{SystemSpec, load};
use tierscope_workload::op::{Call, MAP_WRITABLE, NO_FILE};
use tierscope_workload::{Op, Pull, Stream, StreamError, ThreadId};

/// Loads and stores over a footprint, in lines drawn by a fixed generator or in order.
#[derive(Clone)]
struct Walk {
    footprint_bytes: u64,
    random: bool,
    /// Touch every page once before the accesses that count.
    left: u64,
    state: u64,
    position: u64,
    mapped: bool,
}

impl Stream for Walk {
    fn pull(&mut self, _: ThreadId, limit: usize, out: &mut Vec<Op>) -> Result<Pull, StreamError> {
        const BASE: u64 = 1 << 40;
        if !self.mapped {
            self.mapped = true;
            let length = self.footprint_bytes;
            let map =
                Call::Map { address: BASE, length, flags: MAP_WRITABLE, file: NO_FILE, offset: 0 };
            map.encode(1, out);
            return Ok(Pull::More);
        }
        let count = self.left.min(limit as u64);
        self.left -= count;
        let lines = self.footprint_bytes / 64;
        for i in 0..count {
            let line = if self.random {
                self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1);
                (self.state >> 33) % lines
            } else {
                self.position = (self.position + 1) % (lines * 8);
                self.position / 8
            };
            let address = BASE + line * 64;
            out.push(if i % 4 == 0 { Op::store(address, 8, 3) } else { Op::load(address, 8, 3) });
        }
        Ok(if count > 0 { Pull::More } else { Pull::End })
    }

    fn fork(&self) -> Box<dyn Stream> {
        Box::new(self.clone())
    }
}

fn measure(name: &str, spec: &SystemSpec, footprint_bytes: u64, random: bool, accesses: u64) {
    let only = std::env::args().skip(1).find(|a| a != "smoke" && !a.starts_with("--"));
    if only.is_some_and(|only| !name.contains(&only)) {
        return;
    }
    let state = 88172645463325252;
    let walk = Walk { footprint_bytes, random, left: accesses, state, position: 0, mapped: false };
    let start = Instant::now();
    let stop = AtomicBool::new(false);
    let outcomes = run_machines(
        std::slice::from_ref(spec),
        vec![Box::new(walk)],
        &RunOptions::default(),
        &(),
        &stop,
    );
    let wall_s = start.elapsed().as_secs_f64();
    let result = &outcomes[0].result;
    assert_eq!(outcomes[0].partial_reason, None);
    println!(
        "{{\"name\": \"{name}\", \"accesses\": {}, \"wall_s\": {wall_s:.3}, \
         \"accesses_per_s\": {:.0}, \"memory_reads\": {}, \"memory_reads_per_s\": {:.0}, \
         \"miss_rate\": {:.4}, \"faults\": {}}}",
        result.accesses,
        result.accesses as f64 / wall_s,
        result.counters["memory_reads"],
        result.counters["memory_reads"] as f64 / wall_s,
        result.miss_rate,
        result.counters["faults"],
    );
}

fn system(name: &str, sets: &[(&str, &str)]) -> SystemSpec {
    let sets: Vec<_> = sets.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    load(name, &sets).unwrap_or_else(|problems| panic!("{problems}")).spec
}

fn main() {
    let scale = if std::env::args().any(|a| a == "smoke") { 100 } else { 1 };
    for name in ["oracle/quick", "hybrid/quick", "storage/quick"] {
        let spec = system(name, &[]);
        measure(&format!("{name}: on-chip hits"), &spec, 64 << 10, false, 100_000_000 / scale);
        measure(&format!("{name}: sequential 64 MiB"), &spec, 64 << 20, false, 20_000_000 / scale);
        measure(&format!("{name}: random 64 MiB"), &spec, 64 << 20, true, 4_000_000 / scale);
        measure(&format!("{name}: random 512 MiB"), &spec, 512 << 20, true, 1_000_000 / scale);
    }
}
