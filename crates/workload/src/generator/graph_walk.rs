//! `graph-walk`: random walks through a graph that does not fit a cache, as those from which vertices' features
//! are learned (Perozzi, Al-Rfou and Skiena, "DeepWalk", KDD 2014: from each vertex in a random order, walks of
//! 40 vertices).
//!
//! The graph has compressed rows: for each vertex where its edges begin, and for each edge where it leads. It is
//! implicit: all vertices have as many edges, to vertices that are drawn with equal chance, and the same each time
//! that they are looked at. Each step needs what the one before has loaded: two places of the first array, which are
//! mostly of one line, and one of the second. The walk's vertices are stored one behind the other.

use super::indexed::share_of;
use super::prelude::{BASE_ADDRESS, Prelude, TOUCHED};
use super::units::{Units, in_units};
use super::{Generator, Made, PAGE_BYTES, Parameter, data_set, flag, integer, threads_of};
use crate::op::{MadeOf, Op, ThreadId};
use crate::stream::Footprint;
use serde_json::Value;
use std::sync::Arc;
use tierscope_kernel::{Counter, Permutation};

/// Registration.
pub const GENERATORS: &[Generator] = &[Generator {
    name: "graph-walk",
    summary: "random walks through a graph in memory, each step by what the one before has loaded",
    dependences: "each step's edge waits for its vertex's place, and the next vertex's place for the edge; walks do not wait for each other",
    parameters: &[
        Parameter {
            name: "size",
            default: "\"quick\"",
            meaning: "of the graph: quick is 64MiB, full 16GiB, or a size; vertices follow. Our choice",
        },
        Parameter { name: "degree", default: "16", meaning: "edges of a vertex. Our choice" },
        Parameter {
            name: "walks",
            default: "5000",
            meaning: "in all, divided over the threads, each from another vertex. Our choice",
        },
        Parameter {
            name: "length",
            default: "40",
            meaning: "vertices of a walk (DeepWalk, §5: 40)",
        },
        Parameter { name: "threads", default: "4", meaning: "threads. Our choice" },
        Parameter {
            name: "instructions",
            default: "20",
            meaning: "of a step beside its accesses: a draw and index arithmetic; assumption",
        },
        TOUCHED,
    ],
    build,
}];

const OFFSET_BYTES: u64 = 8;
const EDGE_BYTES: u64 = 4;
/// Loads and stores of a step.
const ACCESSES: u64 = 4;

fn build(parameters: &[(String, Value)], seed: u64) -> Made {
    let bytes = data_set(parameters, "size", 64 << 20, 16 << 30)?;
    let degree = integer(parameters, "degree", 1..=1 << 20)?;
    let vertices = (bytes / (OFFSET_BYTES + degree * EDGE_BYTES)).max(2);
    Ok(in_units(Walks {
        vertices,
        degree,
        walks: integer(parameters, "walks", 0..=1 << 40)?,
        length: integer(parameters, "length", 1..=1 << 16)?,
        threads: threads_of(parameters)?,
        instructions: integer(parameters, "instructions", 0..=1_000_000)? as u32,
        touched: flag(parameters, "touched")?,
        edges: Counter::stream(seed, "graph-walk/edges"),
        draws: Counter::stream(seed, "graph-walk/draws"),
        order: Arc::new(Permutation::new(seed, "graph-walk/order", vertices)),
    }))
}

#[derive(Clone)]
struct Walks {
    vertices: u64,
    degree: u64,
    walks: u64,
    length: u64,
    threads: u32,
    instructions: u32,
    touched: bool,
    edges: Counter,
    draws: Counter,
    order: Arc<Permutation>,
}

impl Walks {
    fn edges_address(&self) -> u64 {
        BASE_ADDRESS + ((self.vertices + 1) * OFFSET_BYTES).next_multiple_of(PAGE_BYTES)
    }

    /// What a thread has: the walk.
    fn own(&self, thread: ThreadId) -> u64 {
        let edges = self.vertices * self.degree * EDGE_BYTES;
        let own = (self.length * EDGE_BYTES).next_multiple_of(PAGE_BYTES);
        (self.edges_address() + edges).next_multiple_of(PAGE_BYTES) + u64::from(thread) * own
    }

    /// Where an edge leads.
    fn target(&self, edge: u64) -> u64 {
        self.edges.below_at(edge, self.vertices)
    }

    /// The vertices and edges of a walk: the edge is the one that leaves the vertex.
    fn walk(&self, number: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut at = self.order.at(number % self.vertices);
        (0..self.length).map(move |step| {
            let edge = at * self.degree + self.draws.below_at(number << 16 | step, self.degree);
            (std::mem::replace(&mut at, self.target(edge)), edge)
        })
    }
}

impl Units for Walks {
    fn threads(&self) -> u32 {
        self.threads
    }

    fn prelude(&self) -> Prelude {
        let bytes = self.own(self.threads) - BASE_ADDRESS;
        Prelude::table(bytes).touch(BASE_ADDRESS, bytes, self.touched)
    }

    fn units(&self, thread: ThreadId) -> u64 {
        share_of(self.walks, self.threads, thread)
    }

    fn unit(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        let number = unit * u64::from(self.threads) + u64::from(thread);
        for (step, (vertex, edge)) in (0..).zip(self.walk(number)) {
            let offset = BASE_ADDRESS + vertex * OFFSET_BYTES;
            // The first vertex of a walk is known without a load.
            let mut vertex = MadeOf::LAST;
            out.push(Op::store(self.own(thread) + step * EDGE_BYTES, EDGE_BYTES as u16, 1));
            for at in [offset, offset + OFFSET_BYTES] {
                let bounds = Op::load(at, OFFSET_BYTES as u16, 1);
                out.push(if step > 0 { vertex.next(bounds) } else { bounds });
            }
            let at = self.edges_address() + edge * EDGE_BYTES;
            let edge = Op::load(at, EDGE_BYTES as u16, 1 + self.instructions);
            out.push(edge.depending_on(1));
        }
    }

    fn before(&self, _thread: ThreadId, unit: u64) -> Option<u64> {
        Some(unit * self.length * ACCESSES)
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: self.own(self.threads) - BASE_ADDRESS, parameter: "size" }
    }

    fn accesses(&self) -> Option<u64> {
        self.walks.checked_mul(self.length * ACCESSES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::stream_laws;
    use crate::generator::find;
    use crate::goodness;
    use std::collections::BTreeSet;

    fn made(vertices: u64) -> Walks {
        Walks {
            vertices,
            degree: 4,
            walks: 100,
            length: 40,
            threads: 3,
            instructions: 20,
            touched: false,
            edges: Counter::stream(1, "edges"),
            draws: Counter::stream(1, "draws"),
            order: Arc::new(Permutation::new(1, "order", vertices)),
        }
    }

    #[test]
    fn the_streams_laws_hold() {
        let given = [("size", Value::from("64KiB")), ("walks", 20.into()), ("length", 9.into())];
        let given = given.map(|(name, value)| (name.to_owned(), value));
        stream_laws(|| find("graph-walk").unwrap().make(&given, 7).unwrap().0);
    }

    /// Each step goes along an edge of the vertex, walks begin at other vertices each, and vertices are met with
    /// equal chance: chi-square at four standard deviations.
    #[test]
    fn walks_go_along_edges_and_meet_all_vertices_alike() {
        let walks = Walks { degree: 64, ..made(500) };
        let mut met = vec![0.0f64; 500];
        let mut first = BTreeSet::new();
        for number in 0..500 {
            let way: Vec<(u64, u64)> = walks.walk(number).collect();
            assert!(first.insert(way[0].0), "each begins at another");
            for two in way.windows(2) {
                assert_eq!((two[0].1 / 64, walks.target(two[0].1)), (two[0].0, two[1].0));
                met[two[1].0 as usize] += 1.0;
            }
        }
        // A vertex is met by its edges from elsewhere, which are drawn: their number adds to the variance.
        let mean = 500.0 * 39.0 / 500.0;
        let statistic: f64 = met.iter().map(|met| (met - mean).powi(2) / mean).sum::<f64>() / 499.0;
        let expected = 1.0 + mean / 64.0;
        assert!((statistic / expected - 1.0).abs() < 0.4, "{statistic}, not {expected}");
    }

    /// Edges lead to all vertices alike, and a walk takes each edge of a vertex alike.
    #[test]
    fn edges_and_steps_along_them_are_drawn_alike() {
        let walks = made(64);
        let (mut targets, mut edges) = ([0; 64], [0; 16]);
        let walks = Walks { degree: 1000, ..walks };
        (0..64_000).for_each(|edge| targets[walks.target(edge) as usize] += 1);
        goodness::are_alike(&targets);
        let walks = Walks { degree: 16, ..walks };
        for number in 0..400 {
            for (vertex, edge) in walks.walk(number) {
                edges[(edge - vertex * 16) as usize] += 1;
            }
        }
        goodness::are_alike(&edges);
    }
}
