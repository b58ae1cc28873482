//! Rung 6: the block layer against the real kernel. `tests/kernel/observe_block.py` ran patterns of requests on a loop
//! device, and wrote which requests the device got, in order; here the model gets the same pages. The patterns are
//! split by a seed: with one half the model was developed, by the other it is judged.
//!
//! `TIERSCOPE_OBSERVED_BLOCK=FILE` compares with what was observed on this computer instead (`make kernel`).

use super::support::observation;
use serde::Deserialize;
use tierscope_model::os::block_layer::{Bio, BlockLayer, BlockLayerSpec, Pick};

/// Vectors of a bio (`BIO_MAX_VECS`).
const MOST_VECTORS: u64 = 256;

/// What `observe_block.py` writes.
#[derive(Deserialize)]
struct Observed {
    kernel: String,
    page_bytes: u64,
    times: u32,
    gates: u64,
    max_segments: u32,
    runs: Vec<Run>,
}

/// A pattern, and which requests the device got: first page, pages, and 1 for a write.
#[derive(Deserialize)]
struct Run {
    name: String,
    half: String,
    scheduler: String,
    largest_kib: u64,
    nomerges: bool,
    gate_page: u64,
    fifo_batch: u32,
    writes_starved: u32,
    front_merges: bool,
    late: bool,
    /// The call, the thread, and pieces.
    steps: Vec<(String, u32, Vec<Piece>)>,
    asked: Vec<Asked>,
    so_often: u32,
}

/// First page, pages, and whether they are written.
type Piece = (u64, u64, bool);

type Asked = (u64, u64, u8);

/// The model, and what it has handed over.
struct Model {
    layer: BlockLayer,
    page_bytes: u64,
    pages: u32,
    asked: Vec<Asked>,
    at_device: Vec<u32>,
}

impl Model {
    fn new(run: &Run, observed: &Observed) -> Self {
        let expire = if run.late { "0s" } else { "100s" };
        let spec = serde_json::json!({
            "scheduler": run.scheduler,
            "merges": !run.nomerges,
            "segments": observed.max_segments,
            "requests": 1024,
            "deadline": {
                "read_expire": expire,
                "write_expire": expire,
                "fifo_batch": run.fifo_batch,
                "writes_starved": run.writes_starved,
                "front_merges": run.front_merges,
            },
        });
        let spec: BlockLayerSpec = serde_json::from_value(spec).expect("a block layer");
        // Without a scheduler nothing waits; else all that the device takes, and one more, are gates.
        let depth = if run.scheduler == "none" { u32::MAX } else { observed.gates as u32 };
        let layer = BlockLayer::new(&spec, run.largest_kib << 10, depth, true);
        Model {
            layer,
            page_bytes: observed.page_bytes,
            pages: 0,
            asked: Vec::new(),
            at_device: Vec::new(),
        }
    }

    /// Pages as the kernel asks for them: a bio of each page that is written back, which lies in memory anywhere; one
    /// of a direct request, or several of as many pages as a bio has vectors for.
    fn bios(&mut self, call: &str, thread: u32, pieces: &[Piece]) -> Vec<Bio> {
        let page_bytes = self.page_bytes;
        let stride = if call == "aio" { 1 } else { 2 };
        let mut bios = Vec::new();
        for &(first, pages, write) in pieces {
            for at in 0..pages {
                self.pages += 1;
                bios.push(Bio {
                    id: self.pages,
                    address: (first + at) * page_bytes,
                    bytes: page_bytes,
                    memory_address: at * stride * page_bytes,
                    write,
                    sync: call != "writeback",
                    alone: false,
                    first: false,
                    content: 0,
                    thread,
                    continues: match call {
                        "aio" => at > 0,
                        "scattered" => at % MOST_VECTORS > 0,
                        _ => false,
                    },
                });
            }
        }
        bios
    }

    /// Hands a step over. A call of one or two direct requests has no plug (`AIO_PLUG_THRESHOLD`, fs/aio.c).
    fn step(&mut self, call: &str, thread: u32, pieces: &[Piece]) {
        if call == "writeback" || pieces.len() > 2 {
            let bios = self.bios(call, thread, pieces);
            self.layer.submit(0, 0, &bios);
            self.take();
        } else {
            for piece in pieces {
                let bios = self.bios(call, thread, &[*piece]);
                self.layer.submit(0, 0, &bios);
                self.take();
            }
        }
    }

    /// The device takes what it may.
    fn take(&mut self) {
        while let Pick::Request(id) = self.layer.next(0) {
            let request = self.layer.request(id);
            let bytes = request.end - request.address;
            let (page, pages) = (request.address / self.page_bytes, bytes / self.page_bytes);
            self.asked.push((page, pages, u8::from(request.write)));
            self.at_device.push(id);
        }
    }

    /// All that the device has ends, one after another.
    fn finish(&mut self) {
        while !self.at_device.is_empty() {
            let id = self.at_device.remove(0);
            while self.layer.moved(0, id, true).is_none() {}
            self.take();
        }
    }
}

/// What the model asks the device for.
fn asked(run: &Run, observed: &Observed) -> Vec<Asked> {
    let mut model = Model::new(run, observed);
    let gates = if run.scheduler == "none" { 0 } else { observed.gates };
    for gate in 0..gates {
        model.step("aio", 0, &[(run.gate_page + 2 * gate, 1, true)]);
    }
    for (call, thread, pieces) in &run.steps {
        model.step(call, *thread, pieces);
    }
    model.finish();
    model.asked.split_off(gates as usize)
}

fn observed() -> Observed {
    observation("TIERSCOPE_OBSERVED_BLOCK", "block-6.18.json")
}

fn the_same(half: &str) {
    let observed = observed();
    let runs: Vec<&Run> = observed.runs.iter().filter(|run| run.half == half).collect();
    assert!(runs.len() > 5, "patterns to compare");
    let (mut wrong, mut requests) = (Vec::new(), 0);
    for run in &runs {
        let found = asked(run, &observed);
        requests += run.asked.len();
        if found != run.asked {
            let at = found.iter().zip(&run.asked).take_while(|(one, other)| one == other).count();
            let tail =
                |all: &[Asked]| format!("{:?}", all.iter().skip(at).take(6).collect::<Vec<_>>());
            wrong.push(format!(
                "{} ({} of {} times), from request {at}:\n  kernel {}\n  model  {}",
                run.name,
                run.so_often,
                observed.times,
                tail(&run.asked),
                tail(&found)
            ));
        }
    }
    println!(
        "Linux {}, {half}: {} of {} patterns, {requests} requests, are identical",
        observed.kernel,
        runs.len() - wrong.len(),
        runs.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn requests_are_the_kernels_in_the_patterns_they_were_developed_with() {
    the_same("development");
}

#[test]
fn requests_are_the_kernels_in_the_patterns_that_judge_them() {
    the_same("judgement");
}
