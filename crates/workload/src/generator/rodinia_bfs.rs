//! `rodinia/bfs`: breadth-first search of a graph, level by level, as Rodinia's OpenMP program does (Che
//! and others, "Rodinia: A Benchmark Suite for Heterogeneous Computing", IISWC 2009; \[HAMS21\] Table III).
//!
//! Each level has two loops over all nodes. The first goes through the edges of the nodes of the frontier,
//! and gives a cost to, and marks, each node that was not visited; the second makes the marked ones the
//! next frontier. Each thread has a part of the nodes, and waits for the others after each loop.
//!
//! The graph is implicit: every node has as many edges as every other; how many nodes are at which depth
//! follows the growth of a random graph (of the nodes left, a share 1 − e^(−edges × frontier / nodes) is
//! found at each level: Bollobás, "Random Graphs", 2001, ch. 10), nodes are dealt to depths at random, each
//! node is the child of one of the depth above, and all other edges lead to a random node that such a
//! search allows.

use super::indexed::{first_of, share_of};
use super::prelude::{BASE_ADDRESS, Prelude};
use super::units::{Units, barrier, in_units};
use super::zipfian::exp;
use super::{Generator, Made, PAGE_BYTES, Parameter, data_set, flag, integer, threads_of, wrong};
use crate::op::{MAP_SHARED, MAP_WRITABLE, MadeOf, NO_FILE, Op, ThreadId};
use crate::stream::{FileInfo, Footprint};
use serde_json::Value;
use std::sync::Arc;
use tierscope_kernel::{Counter, Permutation};

/// Registration.
pub const GENERATORS: &[Generator] = &[Generator {
    name: "rodinia/bfs",
    summary: "breadth-first search of a random graph, level by level",
    dependences: "whether a neighbour was visited is asked when the edge to it is there; edges do not wait for each other",
    parameters: &[
        Parameter {
            name: "size",
            default: "\"quick\"",
            meaning: "of nodes, edges, masks and costs: quick is 64MiB, full the 9GiB of [HAMS21] \
                      Table III, or a size",
        },
        Parameter {
            name: "edges",
            default: "6",
            meaning: "of each node; the mean of Rodinia's graph1MW_6",
        },
        Parameter {
            name: "threads",
            default: "4",
            meaning: "threads; [HAMS21] names none for Rodinia, its processor has four cores",
        },
        Parameter {
            name: "instructions",
            default: "4",
            meaning: "of an access, itself included: one of four is an access in [HAMS21] Table III \
                      (0.21 loads, 0.04 stores)",
        },
        Parameter {
            name: "touched",
            default: "true",
            meaning: "whether masks and costs are written before the region of interest, which then \
                      begins, as the program does",
        },
    ],
    build,
}];

const FILE_ADDRESS: u64 = 0x20_0000_0000;
/// Of a node: the place of its first edge and their number (4 B each), in the file as the edges (4 B
/// each); its cost (4 B) and three marks (1 B each), in memory.
const NODE_BYTES: u64 = 8;
const EDGE_BYTES: u64 = 4;
const COST_BYTES: u64 = 4;
const MARKS: u64 = 3;
/// Nodes of a piece of work.
const CHUNK: u64 = 256;

fn build(parameters: &[(String, Value)], seed: u64) -> Made {
    let bytes = data_set(parameters, "size", 64 << 20, 9 << 30)?;
    let edges = integer(parameters, "edges", 2..=64)?;
    let threads = threads_of(parameters)?;
    let nodes = bytes / (NODE_BYTES + edges * EDGE_BYTES + COST_BYTES + MARKS);
    // Nodes are numbered by 31 bits, as edges are there.
    if nodes < u64::from(threads) || nodes * edges > 1 << 40 {
        let value = super::find_value(parameters, "size");
        let reason = format!("it has {nodes} nodes: fewer than threads, or too many");
        return Err(wrong("size", value, &reason, "write a size such as 64MiB"));
    }
    Ok(in_units(Bfs {
        edges,
        threads,
        instructions: integer(parameters, "instructions", 1..=1_000_000)? as u32,
        touched: flag(parameters, "touched")?,
        starts: Arc::new(depths(nodes, edges)),
        order: Arc::new(Permutation::new(seed, "rodinia/bfs", nodes)),
        draws: Counter::stream(seed, "rodinia/bfs"),
        nodes,
    }))
}

/// How many nodes lie above each depth, in turn, and all of them.
fn depths(nodes: u64, edges: u64) -> Vec<u64> {
    let mut starts = vec![0, 1];
    while let [.., above, end] = starts[..] {
        let (frontier, left) = (end - above, nodes - end);
        if left == 0 {
            break;
        }
        let share = 1.0 - exp(-((edges * frontier) as f64 / nodes as f64));
        let found = (left as f64 * share).round() as u64;
        // A frontier's edges reach so many at most. Once frontiers shrink, all that is left is found: in
        // a random graph a share of e^-edges never is, in Rodinia's, whose edges go both ways, almost all is.
        let reached = (edges * frontier).min(left);
        let found = if found < frontier { reached } else { found.max(1).min(reached) };
        starts.push(end + found);
    }
    starts
}

#[derive(Clone)]
struct Bfs {
    nodes: u64,
    edges: u64,
    threads: u32,
    instructions: u32,
    touched: bool,
    /// The first rank of each depth, and the end of the last.
    starts: Arc<Vec<u64>>,
    /// Which node has a rank; ranks are in the order of depths.
    order: Arc<Permutation>,
    draws: Counter,
}

impl Bfs {
    fn levels(&self) -> u64 {
        self.starts.len() as u64 - 1
    }

    fn depth(&self, rank: u64) -> u64 {
        self.starts.partition_point(|start| *start <= rank) as u64 - 1
    }

    /// The rank of the node to which an edge leads.
    fn target(&self, rank: u64, edge: u64) -> u64 {
        let depth = self.depth(rank) as usize;
        let (start, end) = (self.starts[depth], self.starts[depth + 1]);
        let below = self.starts.get(depth + 2).copied().unwrap_or(end);
        // Of the depth below, each node is the child of one here.
        let child = end + (rank - start) + edge * (end - start);
        if child < below {
            return child;
        }
        self.draws.below_at(rank * self.edges + edge, below)
    }

    // ---- Memory -------------------------------------------------------------------------------

    fn edges_address(&self) -> u64 {
        FILE_ADDRESS + self.nodes * NODE_BYTES
    }

    fn file_bytes(&self) -> u64 {
        (self.nodes * (NODE_BYTES + self.edges * EDGE_BYTES)).next_multiple_of(PAGE_BYTES)
    }

    /// Marks of the frontier, of the next one, of what was visited, one behind the other; then costs.
    fn mark(&self, array: u64, node: u64) -> u64 {
        BASE_ADDRESS + array * self.nodes.next_multiple_of(PAGE_BYTES) + node
    }

    fn cost(&self, node: u64) -> u64 {
        self.mark(MARKS, 0) + node * COST_BYTES
    }

    fn memory_bytes(&self) -> u64 {
        (self.cost(self.nodes) - BASE_ADDRESS).next_multiple_of(PAGE_BYTES)
    }

    fn load(&self, address: u64, bytes: u16, out: &mut Vec<Op>) {
        out.push(Op::load(address, bytes, self.instructions));
    }

    fn store(&self, address: u64, bytes: u16, out: &mut Vec<Op>) {
        out.push(Op::store(address, bytes, self.instructions));
    }

    // ---- The two loops ------------------------------------------------------------------------

    fn expand(&self, node: u64, level: u64, out: &mut Vec<Op>) {
        self.load(self.mark(FRONTIER, node), 1, out);
        let rank = self.order.inverse(node);
        if self.depth(rank) != level {
            return;
        }
        self.store(self.mark(FRONTIER, node), 1, out);
        self.load(FILE_ADDRESS + node * NODE_BYTES, NODE_BYTES as u16, out);
        for edge in 0..self.edges {
            let at = self.edges_address() + (node * self.edges + edge) * EDGE_BYTES;
            self.load(at, EDGE_BYTES as u16, out);
            let rank = self.target(rank, edge);
            let next = self.order.at(rank);
            let visited = Op::load(self.mark(VISITED, next), 1, self.instructions);
            let mut target = MadeOf::LAST;
            out.push(target.next(visited));
            if self.depth(rank) > level {
                let cost = Op::load(self.cost(node), COST_BYTES as u16, self.instructions);
                target.pass(cost);
                out.push(cost);
                for (at, bytes) in [(self.cost(next), COST_BYTES), (self.mark(NEXT, next), 1)] {
                    out.push(target.next(Op::store(at, bytes as u16, self.instructions)));
                }
            }
        }
    }

    fn advance(&self, node: u64, level: u64, out: &mut Vec<Op>) {
        self.load(self.mark(NEXT, node), 1, out);
        if self.depth(self.order.inverse(node)) == level + 1 {
            for array in [FRONTIER, VISITED, NEXT] {
                self.store(self.mark(array, node), 1, out);
            }
        }
    }
}

const FRONTIER: u64 = 0;
const NEXT: u64 = 1;
const VISITED: u64 = 2;

impl Units for Bfs {
    fn threads(&self) -> u32 {
        self.threads
    }

    fn prelude(&self) -> Prelude {
        let opened = Prelude::default().open(0, self.file_bytes());
        let mapped = opened.map(FILE_ADDRESS, self.file_bytes(), MAP_SHARED, 0);
        mapped.map(BASE_ADDRESS, self.memory_bytes(), MAP_WRITABLE, NO_FILE).touch(
            BASE_ADDRESS,
            self.memory_bytes(),
            self.touched,
        )
    }

    fn units(&self, thread: ThreadId) -> u64 {
        let chunks = share_of(self.nodes, self.threads, thread).div_ceil(CHUNK);
        self.levels() * 2 * (chunks + 1)
    }

    fn unit(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        let own = share_of(self.nodes, self.threads, thread);
        let of_loop = own.div_ceil(CHUNK) + 1;
        let (number, chunk) = (unit / of_loop, unit % of_loop);
        if chunk + 1 == of_loop {
            return barrier(thread, self.threads, number + 1, out);
        }
        let first = first_of(self.nodes, self.threads, thread);
        for node in chunk * CHUNK..own.min((chunk + 1) * CHUNK) {
            if number % 2 == 0 {
                self.expand(first + node, number / 2, out);
            } else {
                self.advance(first + node, number / 2, out);
            }
        }
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: self.file_bytes() + self.memory_bytes(), parameter: "size" }
    }

    fn files(&self) -> Vec<FileInfo> {
        vec![FileInfo { name: "bfs.graph".into(), size_bytes: self.file_bytes() }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::stream_laws;
    use crate::counts::Counts;
    use crate::generator::find;
    use crate::stream::Pull;
    use std::collections::VecDeque;

    fn bfs(nodes: u64, edges: u64) -> Bfs {
        Bfs {
            nodes,
            edges,
            threads: 1,
            instructions: 4,
            touched: false,
            starts: Arc::new(depths(nodes, edges)),
            order: Arc::new(Permutation::new(7, "test", nodes)),
            draws: Counter::stream(7, "test"),
        }
    }

    #[test]
    fn the_streams_laws_hold() {
        for threads in [1u32, 3] {
            let sets =
                [("size".to_owned(), Value::from("16KiB")), ("threads".to_owned(), threads.into())];
            stream_laws(|| find("rodinia/bfs").unwrap().make(&sets, 3).unwrap().0);
        }
    }

    /// A search that keeps a queue finds each node at the depth that it was dealt.
    #[test]
    fn the_depths_are_those_of_a_search_of_the_graph() {
        for (nodes, edges) in [(1, 6), (2, 2), (5000, 6), (3001, 3)] {
            let bfs = bfs(nodes, edges);
            let mut found = vec![None; nodes as usize];
            found[0] = Some(0);
            let mut queue = VecDeque::from([0u64]);
            while let Some(rank) = queue.pop_front() {
                for edge in 0..edges {
                    let target = bfs.target(rank, edge) as usize;
                    if found[target].is_none() {
                        found[target] = found[rank as usize].map(|depth: u64| depth + 1);
                        queue.push_back(target as u64);
                    }
                }
            }
            for (rank, depth) in (0..).zip(found) {
                assert_eq!(depth, Some(bfs.depth(rank)), "rank {rank} of {nodes}");
            }
        }
    }

    /// The frontiers of a random graph of a million nodes with six edges: Rodinia's takes about twelve levels.
    #[test]
    fn frontiers_grow_as_in_a_random_graph() {
        let starts = depths(1_000_000, 6);
        assert_eq!(&starts[..4], &[0, 1, 7, 43]);
        assert!((10..=14).contains(&(starts.len() - 1)), "{starts:?}");
    }

    #[test]
    fn loads_and_stores_are_about_those_of_table_iii() {
        let (mut stream, _) = find("rodinia/bfs")
            .unwrap()
            .make(
                &[
                    ("size".to_owned(), "4MiB".into()),
                    ("threads".to_owned(), 1.into()),
                    ("touched".to_owned(), false.into()),
                ],
                3,
            )
            .unwrap();
        let mut ops = Vec::new();
        while stream.pull(0, 1 << 16, &mut ops).unwrap() == Pull::More {}
        let counts = Counts::of(&ops);
        let share = |count: u64| count as f64 / counts.instructions as f64;
        assert!((share(counts.loads) - 0.21).abs() < 0.015, "{}", share(counts.loads));
        assert!((share(counts.stores) - 0.04).abs() < 0.015, "{}", share(counts.stores));
    }

    /// Edges that lead to no child lead to any node that a search of these depths allows: as deep as the next
    /// depth, or less.
    #[test]
    fn other_edges_lead_anywhere_above() {
        let bfs = bfs(20_000, 6);
        let deepest = bfs.starts.len() - 2;
        let (start, end) = (bfs.starts[deepest], bfs.starts[deepest + 1]);
        assert!(end - start > 1000, "{:?}", bfs.starts);
        let mut met = [0; 64];
        for rank in start..end {
            (0..6).for_each(|edge| met[(bfs.target(rank, edge) * 64 / 20_000) as usize] += 1);
        }
        crate::goodness::are_alike(&met);
    }
}
