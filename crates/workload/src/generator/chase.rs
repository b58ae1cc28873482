//! `chase`: pointers followed through memory, each load's address being what the load before gave.
//!
//! The nodes of a table form one cycle in random order; each thread follows it from a place of its own.
//! What a step takes is the latency of memory, which is what such loops measure (McVoy and Staelin,
//! lmbench, USENIX 1996, §6.2).

use super::indexed::{BASE_ADDRESS, Body, Indexed, first_of, share_of};
use super::prelude::{Prelude, TOUCHED};
use super::{Generator, Made, Parameter, find_value, flag, integer, size, wrong};
use crate::op::{FLAG_DEPENDENT, Op, ThreadId};
use crate::stream::Footprint;
use serde_json::Value;
use std::sync::Arc;
use tierscope_kernel::random::Permutation;

/// Registration.
pub const GENERATORS: &[Generator] = &[Generator {
    name: "chase",
    summary: "pointers followed in random order through anonymous memory",
    dependences: "each load waits for the one before, whose value is its address",
    parameters: &[
        Parameter {
            name: "table",
            default: "\"64MiB\"",
            meaning: "size of all nodes. Our choice.",
        },
        Parameter {
            name: "node",
            default: "\"64B\"",
            meaning: "size of a node, which begins with its pointer of 8 B: a line. Our choice.",
        },
        Parameter {
            name: "steps",
            default: "100000",
            meaning: "loads in all, divided over the threads. Our choice.",
        },
        Parameter { name: "threads", default: "1", meaning: "threads. Our choice." },
        Parameter {
            name: "instructions",
            default: "1",
            meaning: "instructions of a step, its load included: an unrolled loop of loads alone \
                      (lmbench, §6.2)",
        },
        TOUCHED,
    ],
    build,
}];

const POINTER_BYTES: u64 = 8;

fn build(parameters: &[(String, Value)], seed: u64) -> Made {
    let (table_bytes, node_bytes) = (size(parameters, "table")?, size(parameters, "node")?);
    if node_bytes < POINTER_BYTES || !node_bytes.is_multiple_of(POINTER_BYTES) {
        let value = find_value(parameters, "node");
        return Err(wrong("node", value, "not a whole number of pointers of 8B", "write 64B"));
    }
    if table_bytes == 0 || !table_bytes.is_multiple_of(node_bytes) {
        let value = find_value(parameters, "table");
        let reason = "not a whole number of nodes";
        return Err(wrong("table", value, reason, "write a size such as 64MiB"));
    }
    Ok(Indexed::boxed(Chase {
        table_bytes,
        node_bytes,
        steps: integer(parameters, "steps", 0..=u64::MAX / 4)?,
        threads: integer(parameters, "threads", 1..=4096)? as u32,
        touched: flag(parameters, "touched")?,
        instructions: integer(parameters, "instructions", 1..=1_000_000)? as u32,
        order: Arc::new(Permutation::new(seed, "chase", table_bytes / node_bytes)),
    }))
}

#[derive(Clone)]
struct Chase {
    table_bytes: u64,
    node_bytes: u64,
    steps: u64,
    threads: u32,
    touched: bool,
    instructions: u32,
    /// The order in which the cycle passes the nodes.
    order: Arc<Permutation>,
}

impl Body for Chase {
    fn threads(&self) -> u32 {
        self.threads
    }

    fn prelude(&self) -> Prelude {
        Prelude::table(self.table_bytes).touch(BASE_ADDRESS, self.table_bytes, self.touched)
    }

    fn operations(&self, thread: ThreadId) -> u64 {
        share_of(self.steps, self.threads, thread)
    }

    fn operation(&self, thread: ThreadId, place: u64) -> Op {
        let nodes = self.table_bytes / self.node_bytes;
        let place = (first_of(nodes, self.threads, thread) + place % nodes) % nodes;
        let address = BASE_ADDRESS + self.order.at(place) * self.node_bytes;
        Op::load(address, POINTER_BYTES as u16, self.instructions).with_flags(FLAG_DEPENDENT)
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: self.table_bytes, parameter: "table" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{ops_of_thread, stream_laws};
    use crate::generator::find;
    use crate::goodness;
    use std::collections::BTreeSet;

    #[test]
    fn the_streams_laws_hold_and_the_cycle_passes_each_node_once() {
        let sets = |threads: u32| {
            [
                ("table".to_string(), Value::from("64KiB")),
                ("steps".to_string(), 1024.into()),
                ("threads".to_string(), threads.into()),
            ]
        };
        for threads in [1, 3] {
            stream_laws(|| find("chase").unwrap().make(&sets(threads), 3).unwrap().0);
        }
        let (mut stream, _) = find("chase").unwrap().make(&sets(1), 3).unwrap();
        let ops = ops_of_thread(stream.as_mut(), 0);
        let loads: Vec<_> = ops.iter().filter(|op| op.flags() == FLAG_DEPENDENT).collect();
        let nodes: BTreeSet<u64> = loads.iter().map(|op| op.word).collect();
        assert_eq!((loads.len(), nodes.len()), (1024, 1024));
        assert!(nodes.iter().all(|node| node % 64 == 0));
        let told = find("chase").unwrap().make(&[("node".into(), "12B".into())], 0).err().unwrap();
        assert!(told.to_string().contains("pointers of 8B"), "{told}");
    }

    /// Which node follows on one does not depend on it: distances around the table are alike.
    #[test]
    fn the_cycle_is_in_a_random_order() {
        let sets = [("table", Value::from("1MiB")), ("steps", 16_384.into())];
        let sets = sets.map(|(name, value)| (name.to_owned(), value));
        let (mut stream, _) = find("chase").unwrap().make(&sets, 3).unwrap();
        let (mut ops, mut found) = (ops_of_thread(stream.as_mut(), 0), [0; 64]);
        ops.retain(|op| op.flags() == FLAG_DEPENDENT);
        for two in ops.windows(2) {
            let distance = two[1].word.wrapping_sub(two[0].word) / 64 % 16_384;
            found[(distance / 256) as usize] += 1;
        }
        goodness::are_alike(&found);
    }
}
