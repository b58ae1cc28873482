//! `llm/weights` and `llm/kv-cache`: what the decoding of a large language model reads for each token: all
//! weights of every layer, and the keys and values of every earlier token (Vaswani and others, "Attention Is
//! All You Need", NeurIPS 2017; layers of Touvron and others, "Llama 2", 2023, Table 1 and §2.2).
//!
//! Numbers have 2 bytes. Weights are read row by row, each matrix by a vector; threads have a part of each
//! matrix's rows and wait for each other after it. Keys and values of a sequence lie in pages of 16 tokens
//! at random places, as of Kwon and others ("Efficient Memory Management for Large Language Model Serving
//! with PagedAttention", SOSP 2023); sequences are dealt to the threads in turn. Loads are of a line.

use super::indexed::{first_of, share_of};
use super::prelude::{BASE_ADDRESS, Prelude};
use super::units::{Units, barrier, barrier_length, in_units};
use super::{
    Generator, Made, PAGE_BYTES, Parameter, ParameterError, find_value, flag, integer, text,
    threads_of, wrong,
};
use crate::op::{Op, ThreadId};
use crate::stream::Footprint;
use serde_json::Value;
use std::sync::Arc;
use tierscope_kernel::Permutation;

const MODEL: Parameter = Parameter {
    name: "model",
    default: "\"quick\"",
    meaning: "quick (4 layers of width 1024), full or llama-2-7b, llama-2-13b, llama-2-70b",
};
const TOUCHED: Parameter = Parameter {
    name: "touched",
    default: "true",
    meaning: "whether each page is written to once before the region of interest, which then begins, \
              as what loads a model does",
};
const INSTRUCTIONS: Parameter = Parameter {
    name: "instructions",
    default: "4",
    meaning: "of a line of weights, keys or values, its load left out; assumption: two that convert, \
              two that multiply and add",
};

/// Registration.
pub const GENERATORS: &[Generator] = &[
    Generator {
        name: "llm/weights",
        summary: "the weights of a language model, read once for each token",
        dependences: "",
        parameters: &[
            MODEL,
            Parameter { name: "tokens", default: "1", meaning: "tokens made. Our choice." },
            Parameter { name: "threads", default: "4", meaning: "threads. Our choice." },
            INSTRUCTIONS,
            TOUCHED,
        ],
        build: weights,
    },
    Generator {
        name: "llm/kv-cache",
        summary: "keys and values of earlier tokens, read for each new one",
        dependences: "",
        parameters: &[
            MODEL,
            Parameter {
                name: "sequences",
                default: "8",
                meaning: "sequences that are continued at once. Our choice.",
            },
            Parameter {
                name: "context",
                default: "1024",
                meaning: "tokens of a sequence at first; Llama 2 takes up to 4096",
            },
            Parameter { name: "tokens", default: "4", meaning: "made of each. Our choice." },
            Parameter { name: "threads", default: "4", meaning: "threads. Our choice." },
            INSTRUCTIONS,
            TOUCHED,
        ],
        build: cache,
    },
];

const NUMBER_BYTES: u64 = 2;
const LINE_BYTES: u64 = 64;
/// Tokens of a page of keys and values (Kwon and others, §4.2: 16 is the default).
const PAGE_TOKENS: u64 = 16;

/// The shape of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Model {
    layers: u64,
    width: u64,
    /// Of the inner layer.
    inner: u64,
    /// Width of keys, and of values: less where heads share them.
    shared: u64,
}

fn model(parameters: &[(String, Value)]) -> Result<Model, ParameterError> {
    let of = |layers, width, inner, shared| Ok(Model { layers, width, inner, shared });
    match text(parameters, "model") {
        Some("quick") => of(4, 1024, 2816, 1024),
        Some("full" | "llama-2-7b") => of(32, 4096, 11_008, 4096),
        Some("llama-2-13b") => of(40, 5120, 13_824, 5120),
        Some("llama-2-70b") => of(80, 8192, 28_672, 1024),
        _ => {
            let mend = "write quick, full, llama-2-7b, llama-2-13b or llama-2-70b";
            Err(wrong("model", find_value(parameters, "model"), "no model that is known", mend))
        }
    }
}

fn weights(parameters: &[(String, Value)], _seed: u64) -> Made {
    let Model { layers, width, inner, shared } = model(parameters)?;
    // Rows and columns: query, key, value, output; gate, up, down.
    let matrices = [
        (width, width),
        (shared, width),
        (shared, width),
        (width, width),
        (inner, width),
        (inner, width),
        (width, inner),
    ];
    Ok(in_units(Weights {
        layers,
        matrices,
        tokens: integer(parameters, "tokens", 0..=1_000_000)?,
        threads: threads_of(parameters)?,
        instructions: integer(parameters, "instructions", 0..=1_000_000)? as u32,
        touched: flag(parameters, "touched")?,
    }))
}

const MATRICES: u64 = 7;

#[derive(Clone)]
struct Weights {
    layers: u64,
    /// Rows and columns of a layer's matrices.
    matrices: [(u64, u64); MATRICES as usize],
    tokens: u64,
    threads: u32,
    instructions: u32,
    touched: bool,
}

impl Weights {
    fn layer_bytes(&self) -> u64 {
        self.matrices.iter().map(|(rows, columns)| rows * columns * NUMBER_BYTES).sum()
    }

    fn bytes(&self) -> u64 {
        (self.layers * self.layer_bytes()).next_multiple_of(PAGE_BYTES)
    }

    /// Where activations are, behind the weights: two vectors, by turns.
    fn activations(&self, matrix: u64) -> u64 {
        let widest = self.matrices.iter().map(|(rows, columns)| *rows.max(columns)).max();
        let bytes = widest.unwrap_or(0) * NUMBER_BYTES;
        BASE_ADDRESS + self.bytes() + matrix % 2 * bytes.next_multiple_of(PAGE_BYTES)
    }

    fn memory_bytes(&self) -> u64 {
        2 * self.activations(1) - self.activations(0) - BASE_ADDRESS
    }

    fn rows(&self, thread: ThreadId, matrix: u64) -> u64 {
        share_of(self.matrices[matrix as usize].0, self.threads, thread)
    }

    /// Of a matrix, or all of a layer before it: pieces of work, rows and a barrier; and operations.
    fn so_far(&self, thread: ThreadId, until: u64) -> (u64, u64) {
        (0..until).fold((0, 0), |(units, operations), matrix| {
            let rows = self.rows(thread, matrix);
            let own = rows * self.of_a_row(matrix) + barrier_length(self.threads);
            (units + rows + 1, operations + own)
        })
    }

    /// Accesses of a row: loads of weights and activations, and a store.
    fn of_a_row(&self, matrix: u64) -> u64 {
        2 * (self.matrices[matrix as usize].1 * NUMBER_BYTES / LINE_BYTES) + 1
    }

    /// The layer of all tokens, the matrix, and the row of a piece of work.
    fn find(&self, thread: ThreadId, unit: u64) -> (u64, u64, u64) {
        let (of_layer, _) = self.so_far(thread, MATRICES);
        let (layer, mut rest) = (unit / of_layer, unit % of_layer);
        for matrix in 0..MATRICES {
            let units = self.rows(thread, matrix) + 1;
            if rest < units {
                return (layer, matrix, rest);
            }
            rest -= units;
        }
        unreachable!("a piece of work is of one of the matrices")
    }
}

impl Units for Weights {
    fn threads(&self) -> u32 {
        self.threads
    }

    fn prelude(&self) -> Prelude {
        let bytes = self.memory_bytes();
        Prelude::table(bytes).touch(BASE_ADDRESS, bytes, self.touched)
    }

    fn units(&self, thread: ThreadId) -> u64 {
        self.tokens * self.layers * self.so_far(thread, MATRICES).0
    }

    fn unit(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        let (layer, matrix, row) = self.find(thread, unit);
        if row == self.rows(thread, matrix) {
            return barrier(thread, self.threads, layer * MATRICES + matrix + 1, out);
        }
        let before = &self.matrices[..matrix as usize];
        let before: u64 = before.iter().map(|(rows, columns)| rows * columns * NUMBER_BYTES).sum();
        let (rows, columns) = self.matrices[matrix as usize];
        let row = first_of(rows, self.threads, thread) + row;
        let weights = BASE_ADDRESS
            + layer % self.layers * self.layer_bytes()
            + before
            + row * columns * NUMBER_BYTES;
        let activations = self.activations(matrix);
        for offset in (0..columns * NUMBER_BYTES).step_by(LINE_BYTES as usize) {
            out.push(Op::load(activations + offset, LINE_BYTES as u16, 1));
            out.push(Op::load(weights + offset, LINE_BYTES as u16, 1 + self.instructions));
        }
        let result = self.activations(matrix + 1) + row * NUMBER_BYTES;
        out.push(Op::store(result, NUMBER_BYTES as u16, 10));
    }

    fn before(&self, thread: ThreadId, unit: u64) -> Option<u64> {
        let (layer, matrix, row) = self.find(thread, unit);
        let (_, of_layer) = self.so_far(thread, MATRICES);
        let (_, before) = self.so_far(thread, matrix);
        Some(layer * of_layer + before + row * self.of_a_row(matrix))
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: self.memory_bytes(), parameter: "model" }
    }

    fn accesses(&self) -> Option<u64> {
        let of_layer: u64 =
            (0..MATRICES).map(|m| self.matrices[m as usize].0 * self.of_a_row(m)).sum();
        self.tokens.checked_mul(self.layers * of_layer)
    }
}

fn cache(parameters: &[(String, Value)], seed: u64) -> Made {
    let Model { layers, shared, .. } = model(parameters)?;
    let sequences = integer(parameters, "sequences", 1..=4096)?;
    let context = integer(parameters, "context", 1..=1 << 20)?;
    let tokens = integer(parameters, "tokens", 0..=1 << 20)?;
    let pages = layers * 2 * sequences * (context + tokens).div_ceil(PAGE_TOKENS);
    Ok(in_units(Cache {
        layers,
        token_bytes: shared * NUMBER_BYTES,
        sequences,
        context,
        tokens,
        threads: threads_of(parameters)?,
        instructions: integer(parameters, "instructions", 0..=1_000_000)? as u32,
        touched: flag(parameters, "touched")?,
        places: Arc::new(Permutation::new(seed, "llm/kv-cache", pages)),
        pages,
    }))
}

#[derive(Clone)]
struct Cache {
    layers: u64,
    /// Bytes of a token's keys, or values, of a layer.
    token_bytes: u64,
    sequences: u64,
    context: u64,
    tokens: u64,
    threads: u32,
    instructions: u32,
    touched: bool,
    pages: u64,
    /// Where each page of keys or values lies.
    places: Arc<Permutation>,
}

impl Cache {
    fn lines(&self) -> u64 {
        self.token_bytes / LINE_BYTES
    }

    fn own(&self, thread: ThreadId) -> u64 {
        share_of(self.sequences, self.threads, thread)
    }

    fn bytes(&self) -> u64 {
        (self.pages * PAGE_TOKENS * self.token_bytes).next_multiple_of(PAGE_BYTES)
    }

    /// Where keys (0) or values (1) of a token are.
    fn address(&self, layer: u64, values: u64, sequence: u64, token: u64) -> u64 {
        let of_a_sequence = (self.context + self.tokens).div_ceil(PAGE_TOKENS);
        let page = ((layer * 2 + values) * self.sequences + sequence) * of_a_sequence
            + token / PAGE_TOKENS;
        let slot = self.places.at(page) * PAGE_TOKENS + token % PAGE_TOKENS;
        BASE_ADDRESS + slot * self.token_bytes
    }

    /// Accesses of a layer and a sequence for the token that is made: its keys and values are stored, and
    /// those of all tokens up to it loaded.
    fn accesses_of(&self, made: u64) -> u64 {
        2 * self.lines() * (1 + self.context + made + 1)
    }

    /// As above, of all tokens before, one layer and sequence each.
    fn accesses_before(&self, made: u64) -> u64 {
        let sum = made * (2 + self.context) + made * made.saturating_sub(1) / 2;
        2 * self.lines() * sum
    }
}

impl Units for Cache {
    fn threads(&self) -> u32 {
        self.threads
    }

    fn prelude(&self) -> Prelude {
        Prelude::table(self.bytes()).touch(BASE_ADDRESS, self.bytes(), self.touched)
    }

    fn units(&self, thread: ThreadId) -> u64 {
        self.tokens * self.layers * self.own(thread)
    }

    fn unit(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        let own = self.own(thread);
        let (made, rest) = (unit / (self.layers * own), unit % (self.layers * own));
        let (layer, number) = (rest / own, rest % own);
        let sequence = number * u64::from(self.threads) + u64::from(thread);
        let last = self.context + made;
        let lines = || (0..self.token_bytes).step_by(LINE_BYTES as usize);
        for values in [0, 1] {
            let new = self.address(layer, values, sequence, last);
            out.extend(lines().map(|offset| Op::store(new + offset, LINE_BYTES as u16, 2)));
        }
        for values in [0, 1] {
            for token in 0..=last {
                let at = self.address(layer, values, sequence, token);
                let instructions = 1 + self.instructions;
                out.extend(
                    lines().map(|offset| Op::load(at + offset, LINE_BYTES as u16, instructions)),
                );
            }
        }
    }

    fn before(&self, thread: ThreadId, unit: u64) -> Option<u64> {
        let each = self.layers * self.own(thread);
        let (made, rest) =
            (unit.checked_div(each).unwrap_or(0), unit.checked_rem(each).unwrap_or(0));
        Some(each * self.accesses_before(made) + rest * self.accesses_of(made))
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: self.bytes(), parameter: "model" }
    }

    fn accesses(&self) -> Option<u64> {
        let each = self.layers * self.sequences;
        each.checked_mul(self.accesses_before(self.tokens))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::stream_laws;
    use crate::generator::find;
    use crate::stream::Pull;
    use std::collections::BTreeSet;

    fn small(threads: u32) -> Weights {
        let of = |rows, columns| (rows, columns);
        Weights {
            layers: 2,
            matrices: [
                of(32, 32),
                of(8, 32),
                of(8, 32),
                of(32, 32),
                of(64, 32),
                of(64, 32),
                of(32, 64),
            ],
            tokens: 2,
            threads,
            instructions: 4,
            touched: true,
        }
    }

    #[test]
    fn the_streams_laws_hold() {
        for threads in [1, 3] {
            stream_laws(|| in_units(small(threads)));
            stream_laws(|| {
                in_units(Cache {
                    layers: 2,
                    token_bytes: 128,
                    sequences: 4,
                    context: 5,
                    tokens: 3,
                    threads,
                    instructions: 4,
                    touched: false,
                    pages: 16,
                    places: Arc::new(Permutation::new(1, "test", 16)),
                })
            });
        }
    }

    #[test]
    fn each_line_of_the_weights_is_read_once_for_each_token() {
        let weights = small(3);
        let end = BASE_ADDRESS + weights.layers * weights.layer_bytes();
        let mut stream = in_units(Weights { tokens: 1, touched: false, ..weights.clone() });
        let mut lines = Vec::new();
        for thread in 0..3 {
            let mut ops = Vec::new();
            while stream.pull(thread, 1000, &mut ops).unwrap() == Pull::More {}
            let loads = ops.iter().filter(|op| op.kind_code() == 1 && op.size() == 64);
            lines.extend(loads.map(|op| op.word).filter(|at| (BASE_ADDRESS..end).contains(at)));
        }
        let different: BTreeSet<u64> = lines.iter().copied().collect();
        assert_eq!(lines.len(), different.len());
        assert_eq!(lines.len() as u64, weights.layers * weights.layer_bytes() / 64);
    }

    /// 6.5 of the 7 billion parameters of Llama 2 7B are in its layers, the rest in its vocabulary.
    #[test]
    fn models_are_as_large_as_they_are_called() {
        for (name, billions) in [("full", 6.48), ("llama-2-13b", 12.69), ("llama-2-70b", 68.45)] {
            let sets = [("model".to_owned(), Value::from(name))];
            let (stream, _) = find("llm/weights").unwrap().make(&sets, 0).unwrap();
            let found = stream.footprint().unwrap().bytes as f64 / 2e9;
            assert!((found - billions).abs() < 0.01, "{name}: {found}");
        }
        let told = find("llm/weights").unwrap().make(&[("model".into(), "gpt".into())], 0);
        assert!(told.err().unwrap().to_string().contains("llama-2-7b"));
    }

    /// For each token that is made, keys and values of it are stored once, and those of all tokens up to it
    /// are loaded once, in each layer and of each sequence; no two share a line.
    #[test]
    fn keys_and_values_of_all_tokens_are_read_for_each_that_is_made() {
        let cache = Cache {
            layers: 2,
            token_bytes: 128,
            sequences: 3,
            context: 5,
            tokens: 1,
            threads: 2,
            instructions: 4,
            touched: false,
            pages: 2 * 2 * 3,
            places: Arc::new(Permutation::new(1, "test", 12)),
        };
        for tokens in [1, 4] {
            let mut stream = in_units(Cache { tokens, ..cache.clone() });
            let (mut loads, mut stores) = (Vec::new(), Vec::new());
            for thread in 0..2 {
                let mut ops = Vec::new();
                while stream.pull(thread, 1000, &mut ops).unwrap() == Pull::More {}
                loads.extend(ops.iter().filter(|op| op.kind_code() == 1).map(|op| op.word));
                let stored = ops.iter().filter(|op| op.kind_code() == 2 && op.size() == 64);
                stores.extend(stored.map(|op| op.word));
            }
            // Lines of keys and values, of layers and sequences.
            let each = 2 * 2 * 2 * 3;
            let read: u64 = (0..tokens).map(|made| each * (5 + made + 1)).sum();
            assert_eq!((loads.len() as u64, stores.len() as u64), (read, each * tokens));
            let different: BTreeSet<u64> = stores.iter().copied().collect();
            assert_eq!(different.len(), stores.len(), "each is stored once");
            let different: BTreeSet<u64> = loads.into_iter().collect();
            assert_eq!(different.len() as u64, each * (5 + tokens));
            assert!(different.is_superset(&stores.into_iter().collect()));
        }
    }
}
