//! `dgemm`: the product of two square matrices of 8-byte numbers, added to a third, by blocks (\[NVM10\]
//! §IV-C, Table III: 30,000 × 30,000, 21 GB).
//!
//! Matrices lie row by row. For each block of the result, the products of the blocks of its row and column
//! are added, one after the other; each by rows of the result: for each number of the left block's row, the
//! right block's row is multiplied by it and added, 32 bytes at a time. Rows of blocks are dealt to the
//! threads in turn.

use super::nas::TOUCHED;
use super::prelude::{BASE_ADDRESS, Prelude};
use super::units::{Units, in_units};
use super::{
    Generator, Made, PAGE_BYTES, Parameter, data_set, find_value, flag, integer, integer_or_auto,
    text, threads_of, wrong,
};
use crate::op::{Op, ThreadId};
use crate::stream::Footprint;
use serde_json::Value;

/// Registration.
pub const GENERATORS: &[Generator] = &[Generator {
    name: "dgemm",
    summary: "the product of two square matrices, by blocks",
    dependences: "",
    parameters: &[
        Parameter {
            name: "size",
            default: "\"quick\"",
            meaning: "of three matrices: quick is 96MiB, full the 30,000 rows of [NVM10] Table III, \
                      or a size; rows are a multiple of the block",
        },
        Parameter {
            name: "block",
            default: "64",
            meaning: "rows of a block, a multiple of 4: three blocks are 96 KiB. Our choice.",
        },
        Parameter {
            name: "products",
            default: "\"auto\"",
            meaning: "products of two blocks in all; auto is 200, and of the full size all",
        },
        Parameter { name: "threads", default: "1", meaning: "threads. Our choice." },
        Parameter {
            name: "instructions",
            default: "2",
            meaning: "beside the accesses, of 32 bytes of a row: one that multiplies and adds, and one \
                      of the loop; assumption",
        },
        TOUCHED,
    ],
    build,
}];

const NUMBER_BYTES: u64 = 8;
/// Numbers that one instruction takes: 32 bytes.
const VECTOR: u64 = 4;
const FULL_ROWS: u64 = 30_000;
const QUICK_PRODUCTS: u64 = 200;

fn build(parameters: &[(String, Value)], _seed: u64) -> Made {
    let full_bytes = (3 * FULL_ROWS * FULL_ROWS * NUMBER_BYTES).next_multiple_of(PAGE_BYTES);
    let bytes = data_set(parameters, "size", 96 << 20, full_bytes)?;
    let block = integer(parameters, "block", 4..=4096)?;
    if !block.is_multiple_of(VECTOR) {
        let reason = "not a multiple of the 4 numbers that are taken at once";
        return Err(wrong("block", find_value(parameters, "block"), reason, "write 64"));
    }
    let blocks = (bytes / 3 / NUMBER_BYTES).isqrt() / block;
    if blocks == 0 {
        let reason = format!("matrices of it are smaller than a block of {block} rows");
        let value = find_value(parameters, "size");
        return Err(wrong("size", value, &reason, "write a size such as 96MiB"));
    }
    let all = blocks * blocks * blocks;
    let is_full = text(parameters, "size") == Some("full");
    let auto = if is_full { all } else { all.min(QUICK_PRODUCTS) };
    let products = integer_or_auto(parameters, "products", 0..=all)?.unwrap_or(auto);
    Ok(in_units(Dgemm {
        block,
        blocks,
        products,
        threads: threads_of(parameters)?,
        instructions: integer(parameters, "instructions", 0..=1_000_000)? as u32,
        touched: flag(parameters, "touched")?,
    }))
}

#[derive(Clone)]
struct Dgemm {
    block: u64,
    /// Blocks of a row.
    blocks: u64,
    products: u64,
    threads: u32,
    instructions: u32,
    touched: bool,
}

impl Dgemm {
    fn rows(&self) -> u64 {
        self.block * self.blocks
    }

    fn matrix_bytes(&self) -> u64 {
        (self.rows() * self.rows() * NUMBER_BYTES).next_multiple_of(PAGE_BYTES)
    }

    fn address(&self, matrix: u64, row: u64, column: u64) -> u64 {
        BASE_ADDRESS + matrix * self.matrix_bytes() + (row * self.rows() + column) * NUMBER_BYTES
    }

    /// Products of a row of blocks of the result.
    fn of_a_row(&self) -> u64 {
        self.blocks * self.blocks
    }

    /// Products of a thread: rows of blocks are dealt in turn, and the last may be cut short.
    fn own(&self, thread: ThreadId) -> u64 {
        let (threads, thread) = (u64::from(self.threads), u64::from(thread));
        let (whole, rest) = (self.products / self.of_a_row(), self.products % self.of_a_row());
        let rows = whole / threads + u64::from(thread < whole % threads);
        rows * self.of_a_row() + if whole % threads == thread { rest } else { 0 }
    }

    fn accesses_of_a_row(&self) -> u64 {
        self.block * (1 + 3 * self.block / VECTOR)
    }
}

const RESULT: u64 = 0;
const LEFT: u64 = 1;
const RIGHT: u64 = 2;

impl Units for Dgemm {
    fn threads(&self) -> u32 {
        self.threads
    }

    fn prelude(&self) -> Prelude {
        let bytes = 3 * self.matrix_bytes();
        Prelude::table(bytes).touch(BASE_ADDRESS, bytes, self.touched)
    }

    /// A row of a product of two blocks is a piece of work.
    fn units(&self, thread: ThreadId) -> u64 {
        self.own(thread) * self.block
    }

    fn unit(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        let (product, i) = (unit / self.block, unit % self.block);
        let own_row = product / self.of_a_row();
        let block_row = own_row * u64::from(self.threads) + u64::from(thread);
        let (block_column, depth) =
            (product % self.of_a_row() / self.blocks, product % self.blocks);
        let row = block_row * self.block + i;
        let size = (VECTOR * NUMBER_BYTES) as u16;
        for k in depth * self.block..(depth + 1) * self.block {
            out.push(Op::load(self.address(LEFT, row, k), NUMBER_BYTES as u16, 2));
            for j in (0..self.block).step_by(VECTOR as usize) {
                let column = block_column * self.block + j;
                out.push(Op::load(self.address(RIGHT, k, column), size, 1));
                out.push(Op::load(self.address(RESULT, row, column), size, 1));
                let instructions = 1 + self.instructions;
                out.push(Op::store(self.address(RESULT, row, column), size, instructions));
            }
        }
    }

    fn before(&self, _thread: ThreadId, unit: u64) -> Option<u64> {
        Some(unit * self.accesses_of_a_row())
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: 3 * self.matrix_bytes(), parameter: "size" }
    }

    fn accesses(&self) -> Option<u64> {
        self.products.checked_mul(self.block)?.checked_mul(self.accesses_of_a_row())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::stream_laws;
    use crate::generator::find;
    use crate::stream::Pull;
    use std::collections::BTreeMap;

    fn sets(all: &[(&str, Value)]) -> Vec<(String, Value)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    #[test]
    fn the_streams_laws_hold() {
        for (threads, products) in [(1, 20), (3, 27)] {
            let sets = sets(&[
                ("size", "8KiB".into()),
                ("block", 4.into()),
                ("threads", threads.into()),
                ("products", products.into()),
            ]);
            stream_laws(|| find("dgemm").unwrap().make(&sets, 0).unwrap().0);
        }
    }

    /// The stream's accesses are a product: each number of the left matrix is multiplied by each of its
    /// row of the right one, and each number of the result gets as many terms as there are rows.
    #[test]
    fn the_accesses_are_those_of_a_product() {
        let sets = sets(&[
            ("size", "8KiB".into()),
            ("block", 4.into()),
            ("threads", 2.into()),
            ("products", 64.into()),
            ("touched", false.into()),
        ]);
        let (mut stream, _) = find("dgemm").unwrap().make(&sets, 0).unwrap();
        let mut ops = Vec::new();
        for thread in 0..2 {
            while stream.pull(thread, 1000, &mut ops).unwrap() == Pull::More {}
        }
        let rows = 16u64;
        let number = |op: &Op| {
            let at = (op.word - BASE_ADDRESS) / 8;
            let matrix = at / 512;
            (matrix, at % 512 / rows, at % 512 % rows)
        };
        let mut terms: BTreeMap<(u64, u64, u64), u64> = BTreeMap::new();
        let (mut left, mut right) = ((0, 0), (0, 0));
        for op in
            ops.iter().filter(|op| op.kind_code() <= 2 && op.word >= BASE_ADDRESS && op.size() >= 8)
        {
            match (op.kind_code(), number(op)) {
                (1, (LEFT, i, k)) => left = (i, k),
                (1, (RIGHT, k, j)) => right = (k, j),
                (2, (RESULT, i, j)) => {
                    assert_eq!((i, left.1, j), (left.0, right.0, right.1));
                    *terms.entry((i, j, left.1)).or_default() += 1;
                }
                _ => {}
            }
        }
        assert_eq!(terms.len() as u64, rows * rows / VECTOR * rows);
        assert!(terms.values().all(|count| *count == 1));
    }

    #[test]
    fn the_full_size_is_that_of_the_paper() {
        let (stream, _) =
            find("dgemm").unwrap().make(&sets(&[("size", "full".into())]), 0).unwrap();
        let bytes = stream.footprint().unwrap().bytes as f64;
        assert!((bytes / 21.6e9 - 1.0).abs() < 0.01, "{bytes}");
        let told = find("dgemm").unwrap().make(&sets(&[("block", 6.into())]), 0).err().unwrap();
        assert!(told.to_string().contains("write 64"), "{told}");
    }
}
