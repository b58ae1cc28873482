//! `gups`: random updates of a table in anonymous memory (\[HYB15\] §3.2; the DIS benchmark's
//! giga-updates per second).
//!
//! An update loads an element of 8 B, modifies it and stores it. With probability `random` the
//! element is drawn uniformly from the whole table; otherwise it is the next one after the
//! thread's own last element, `step` further. Updates are a total, divided over the threads.

use super::prelude::{BASE_ADDRESS, Prelude};
use super::{Generator, Parameter, ParameterError, flag, integer, share, size};
use crate::op::{Op, ThreadId};
use crate::stream::{Footprint, Pull, Stream, StreamError};
use serde_json::Value;
use tierscope_kernel::random::Counter;

/// Registration.
pub const GENERATORS: &[Generator] = &[Generator {
    name: "gups",
    summary: "random and sequential updates of a table in anonymous memory",
    dependences: "",
    parameters: &[
        Parameter {
            name: "table",
            default: "\"512MiB\"",
            meaning: "table size; [HYB15] §3.2 takes 1/8 of the store (128GiB at full scale)",
        },
        Parameter {
            name: "updates",
            default: "5000",
            meaning: "updates in all, divided over the threads ([HYB15] §3.2)",
        },
        Parameter {
            name: "random",
            default: "1.0",
            meaning: "probability that an update goes to a random element ([HYB15] §4.3)",
        },
        Parameter {
            name: "step",
            default: "\"8B\"",
            meaning: "distance of a sequential update from the one before: 8B or a page",
        },
        Parameter { name: "threads", default: "1", meaning: "threads, 1 to 16 in [HYB15] §4.1" },
        Parameter {
            name: "instructions",
            default: "10",
            meaning: "instructions of an update, its load and store included; assumption: \
                      index arithmetic, random step, modification",
        },
        Parameter {
            name: "touched",
            default: "false",
            meaning: "whether the table is walked once in address order before the updates",
        },
    ],
    build,
}];

const ELEMENT_BYTES: u64 = 8;
const PAGE_BYTES: u64 = 4096;

fn build(parameters: &[(String, Value)], seed: u64) -> Result<Box<dyn Stream>, ParameterError> {
    let table_bytes = size(parameters, "table")?;
    let step_bytes = size(parameters, "step")?;
    let threads = integer(parameters, "threads", 1..=4096)? as u32;
    let per_thread_bytes = table_bytes / ELEMENT_BYTES;
    if per_thread_bytes == 0 || !table_bytes.is_multiple_of(PAGE_BYTES) {
        return Err(super::wrong(
            "table",
            super::find_value(parameters, "table"),
            "not a whole number of pages of 4KiB",
            "write a size such as 512MiB",
        ));
    }
    if step_bytes == 0 || !step_bytes.is_multiple_of(ELEMENT_BYTES) || step_bytes > table_bytes {
        return Err(super::wrong(
            "step",
            super::find_value(parameters, "step"),
            "not a whole number of elements of 8B within the table",
            "write 8B or 4KiB",
        ));
    }
    let gups = Gups {
        table_bytes,
        updates: integer(parameters, "updates", 0..=u64::MAX / 4)?,
        random: share(parameters, "random")?,
        step_bytes,
        threads,
        instructions: integer(parameters, "instructions", 2..=1_000_000)? as u32,
        prelude: Prelude::table(table_bytes)
            .touch(BASE_ADDRESS, table_bytes, flag(parameters, "touched")?)
            .finish_unmarked(threads),
        seed,
        states: Vec::new(),
    };
    let states = (0..threads).map(|thread| gups.start(thread)).collect();
    Ok(Box::new(Gups { states, ..gups }))
}

/// The stream; its state is one position and one element a thread, so that it can be forked and
/// sought at no cost.
#[derive(Clone)]
struct Gups {
    table_bytes: u64,
    updates: u64,
    random: f64,
    step_bytes: u64,
    threads: u32,
    instructions: u32,
    prelude: Prelude,
    seed: u64,
    states: Vec<ThreadState>,
}

#[derive(Clone)]
struct ThreadState {
    draws: Counter,
    /// Operations of updates so far: a load and a store each.
    position: u64,
    /// Element of the update under way, or of the last one.
    element_bytes: u64,
}

impl Gups {
    fn start(&self, thread: ThreadId) -> ThreadState {
        let share_bytes = self.table_bytes / u64::from(self.threads) / PAGE_BYTES * PAGE_BYTES;
        ThreadState {
            draws: Counter::stream(self.seed, &format!("gups/{thread}")),
            position: 0,
            element_bytes: share_bytes * u64::from(thread) % self.table_bytes,
        }
    }

    /// Operations of a thread's updates.
    fn operations_of(&self, thread: ThreadId) -> u64 {
        let threads = u64::from(self.threads);
        let updates =
            self.updates / threads + u64::from(u64::from(thread) < self.updates % threads);
        2 * updates
    }

    /// The element to which update `index` jumps, if it does.
    fn jump(&self, draws: &Counter, index: u64) -> Option<u64> {
        let elements = self.table_bytes / ELEMENT_BYTES;
        let jumps = draws.unit_at(2 * index) < self.random;
        jumps.then(|| draws.below_at(2 * index + 1, elements) * ELEMENT_BYTES)
    }

    fn next_operation(&mut self, thread: ThreadId) -> Op {
        let state = &self.states[thread as usize];
        let store = state.position % 2 == 1;
        let next_bytes = (state.element_bytes + self.step_bytes) % self.table_bytes;
        let element_bytes = if store {
            state.element_bytes
        } else {
            self.jump(&state.draws, state.position / 2).unwrap_or(next_bytes)
        };
        let state = &mut self.states[thread as usize];
        state.position += 1;
        state.element_bytes = element_bytes;
        let address = BASE_ADDRESS + element_bytes;
        if store { Op::store(address, 8, 1) } else { Op::load(address, 8, self.instructions - 1) }
    }

    /// Stands after `position` operations of updates. The last random update before decides; it is
    /// sought backwards, 1/`random` draws away on average.
    fn seek(&mut self, thread: ThreadId, position: u64) {
        let state = &self.states[thread as usize];
        let (from, until) = (state.position.div_ceil(2), position.div_ceil(2));
        let last = (from..until).rev().filter(|_| self.random > 0.0);
        let last = last.filter_map(|i| Some((i, self.jump(&state.draws, i)?))).next();
        let (base_bytes, steps) = match last {
            Some((index, element_bytes)) => (element_bytes, until - 1 - index),
            None => (state.element_bytes, until - from),
        };
        let walked = u128::from(base_bytes) + u128::from(steps) * u128::from(self.step_bytes);
        let state = &mut self.states[thread as usize];
        state.element_bytes = (walked % u128::from(self.table_bytes)) as u64;
        state.position = position;
    }
}

impl Stream for Gups {
    fn pull(
        &mut self,
        thread: ThreadId,
        limit: usize,
        out: &mut Vec<Op>,
    ) -> Result<Pull, StreamError> {
        if thread >= self.threads {
            return Ok(Pull::End);
        }
        let before = out.len();
        let target = before + limit.max(1);
        if thread == 0 && self.prelude.go_on(limit.max(1) as u64, Some(out)) > 0 {
            return Ok(Pull::More);
        }
        let total = self.operations_of(thread);
        while out.len() < target && self.states[thread as usize].position < total {
            let op = self.next_operation(thread);
            out.push(op);
        }
        Ok(if out.len() > before { Pull::More } else { Pull::End })
    }

    fn skip(&mut self, thread: ThreadId, count: u64) -> Result<u64, StreamError> {
        if thread >= self.threads {
            return Ok(0);
        }
        let skipped = if thread == 0 { self.prelude.go_on(count, None) } else { 0 };
        let position = self.states[thread as usize].position;
        let left = self.operations_of(thread) - position;
        let jumped = left.min(count.saturating_sub(skipped));
        self.seek(thread, position + jumped);
        Ok(skipped + jumped)
    }

    fn prelude(&self) -> Option<&Prelude> {
        self.states.iter().all(|state| state.position == 0).then_some(&self.prelude)
    }

    fn fork(&self) -> Box<dyn Stream> {
        Box::new(self.clone())
    }

    fn gives_mark(&self, _mark: u64) -> Option<bool> {
        Some(false)
    }

    fn footprint(&self) -> Option<Footprint> {
        Some(Footprint { bytes: self.table_bytes, parameter: "table" })
    }

    fn accesses(&self) -> Option<u64> {
        Some(2 * self.updates + self.prelude.pages())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::stream_laws;
    use crate::generator::find;
    use crate::goodness;
    use crate::op::OpKind;

    fn all(thread: ThreadId, limit: usize, sets: &[(&str, Value)]) -> Vec<Op> {
        let sets: Vec<_> = sets.iter().map(|(n, v)| (n.to_string(), v.clone())).collect();
        let (mut stream, _) = find("gups").unwrap().make(&sets, 1).unwrap();
        let mut out = Vec::new();
        while stream.pull(thread, limit, &mut out).unwrap() == Pull::More {}
        out
    }

    #[test]
    fn the_streams_laws_hold() {
        for (random, threads, touched) in
            [(0.0, 1, true), (0.01, 2, false), (0.5, 5, true), (1.0, 3, false)]
        {
            let sets = [
                ("table".to_string(), Value::from("256KiB")),
                ("updates".to_string(), 333.into()),
                ("random".to_string(), random.into()),
                ("threads".to_string(), threads.into()),
                ("touched".to_string(), touched.into()),
            ];
            stream_laws(|| find("gups").unwrap().make(&sets, 3).unwrap().0);
        }
    }

    #[test]
    fn updates_are_divided_over_the_threads() {
        let sets = [("updates", 1000.into()), ("threads", 3.into())];
        let loads =
            |t| all(t, 64, &sets).iter().filter(|op| op.kind() == Some(OpKind::Load)).count();
        assert_eq!((loads(0), loads(1), loads(2)), (334, 333, 333));
    }

    #[test]
    fn the_share_of_random_updates_is_as_asked() {
        let sets = [("updates", 20_000.into()), ("random", 0.25.into())];
        let ops = all(0, 64, &sets);
        let addresses: Vec<u64> =
            ops.iter().filter(|op| op.kind() == Some(OpKind::Load)).map(|op| op.word).collect();
        let jumps = addresses.windows(2).filter(|w| w[1] != w[0] + 8).count() as f64;
        // 20,000 draws at 0.25: six standard deviations are 368.
        assert!((jumps - 5000.0).abs() < 368.0, "{jumps} jumps");
    }

    #[test]
    fn a_walked_table_is_touched_once_in_address_order() {
        let sets = [("table", "1MiB".into()), ("updates", 0.into()), ("touched", true.into())];
        let stores: Vec<u64> = all(0, 7, &sets)
            .iter()
            .filter(|op| op.kind_code() == OpKind::Store as u8)
            .map(|op| op.word - BASE_ADDRESS)
            .collect();
        assert_eq!(stores, (0..256).map(|page| page * 4096).collect::<Vec<u64>>());
    }

    #[test]
    fn wrong_parameters_are_refused_with_their_mend() {
        let gups = find("gups").unwrap();
        let error = gups.make(&[("tabel".into(), 1.into())], 1).err().unwrap();
        assert_eq!(
            error.to_string(),
            "workload.tabel = 1: the workload gups has no such parameter; did you mean `table`?"
        );
        let error = gups.make(&[("size".into(), 1.into())], 1).err().unwrap();
        assert!(error.to_string().contains("it has table, updates"), "{error}");
        let error = gups.make(&[("random".into(), 2.into())], 1).err().unwrap();
        assert!(error.to_string().contains("write a number from 0 to 1"), "{error}");
        assert!(gups.make(&[("table".into(), 512.into())], 1).is_err());
    }

    /// Random updates meet all elements alike: in 64 parts of the table, and within a line.
    #[test]
    fn random_updates_meet_all_elements_alike() {
        let sets = [("table", "256KiB".into()), ("updates", 60_000.into()), ("threads", 2.into())];
        for thread in [0, 1] {
            let (mut parts, mut words) = ([0; 64], [0; 8]);
            for op in all(thread, 1000, &sets) {
                if op.kind() == Some(OpKind::Load) {
                    let element = (op.word - BASE_ADDRESS) / ELEMENT_BYTES;
                    parts[(element / 512) as usize] += 1;
                    words[(element % 8) as usize] += 1;
                }
            }
            goodness::are_alike(&parts);
            goodness::are_alike(&words);
        }
    }
}
