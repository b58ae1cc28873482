//! Laws of every generator that is registered, with its defaults and with each parameter changed: what
//! follows from parameters and seed is always the same, and can be gone on with from any place; accesses
//! are within what is mapped, and as much is mapped as is told beforehand.
//!
//! A generator is tested by being in the list. Its changed parameters are found in what it says of them.

use super::{GENERATORS, Generator, Parameter};
use crate::conformance::laws_of_cases;
use crate::generator::prelude::{REGION_BEGINS, length_of};
use crate::op::{Call, FLAG_DEPENDENT, NO_FILE, Op, OpKind, ThreadId, operations};
use crate::stream::{FileInfo, Pull, Stream, StreamError};
use serde_json::Value;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use tierscope_units::Size;

/// Operations of each thread that the laws are tested on, of the beginning and from where the region of
/// interest begins on.
const BEGINNING: u64 = 80;
const MOST: u64 = 500;
/// Threads whose accesses are looked at.
const MOST_THREADS: ThreadId = 8;
/// Random orders of pulls of each law.
const CASES: u32 = 4;

/// A stream that ends early, after so many operations of each thread, as the laws take short ones.
struct Part {
    stream: Box<dyn Stream>,
    most: u64,
    taken: BTreeMap<ThreadId, u64>,
}

impl Part {
    /// What comes behind `passed` operations of the first thread.
    fn new(mut stream: Box<dyn Stream>, passed: u64, most: u64) -> Part {
        stream.skip(0, passed).unwrap();
        Part { stream, most, taken: BTreeMap::new() }
    }

    fn left(&self, thread: ThreadId) -> u64 {
        self.most.saturating_sub(self.taken.get(&thread).copied().unwrap_or(0))
    }
}

impl Stream for Part {
    fn pull(
        &mut self,
        thread: ThreadId,
        limit: usize,
        out: &mut Vec<Op>,
    ) -> Result<Pull, StreamError> {
        let left = self.left(thread);
        if left == 0 {
            return Ok(Pull::End);
        }
        let before = out.len();
        let pulled = self.stream.pull(thread, limit.min(left as usize), out)?;
        *self.taken.entry(thread).or_default() += (out.len() - before) as u64;
        Ok(pulled)
    }

    fn skip(&mut self, thread: ThreadId, count: u64) -> Result<u64, StreamError> {
        let skipped = self.stream.skip(thread, count.min(self.left(thread)))?;
        *self.taken.entry(thread).or_default() += skipped;
        Ok(skipped)
    }

    fn fork(&self) -> Box<dyn Stream> {
        Box::new(Part { stream: self.stream.fork(), most: self.most, taken: self.taken.clone() })
    }

    fn files(&self) -> Arc<Vec<FileInfo>> {
        self.stream.files()
    }
}

type Sets = Vec<(String, Value)>;

/// The defaults; three threads; and each parameter changed to what its meaning names, and to others of its kind.
/// What a generator refuses is left out.
fn changed(generator: &Generator) -> Vec<Sets> {
    let mut all: Vec<Sets> = vec![Vec::new()];
    for parameter in generator.parameters {
        let values = others(parameter).into_iter();
        let set = |value: Value| vec![(parameter.name.to_owned(), value)];
        let taken: Vec<Sets> =
            values.map(set).filter(|set| generator.make(set, 0).is_ok()).collect();
        all.extend(taken);
    }
    assert!(all.len() > generator.parameters.len(), "{}: {all:?}", generator.name);
    all
}

/// Values that a parameter may have beside its default.
fn others(parameter: &Parameter) -> Vec<Value> {
    let default = serde_json::from_str(parameter.default).unwrap_or(Value::Null);
    let mut all: Vec<Value> = match &default {
        Value::Bool(is) => vec![(!is).into()],
        Value::Number(number) => match number.as_u64() {
            Some(n) => vec![(n / 2).max(1).into(), (n + 1).into(), 3.into()],
            None => vec![0.5.into(), 1.0.into()],
        },
        Value::String(text) => match text.parse::<Size>() {
            Ok(size) => [size.bytes() / 2, size.bytes() * 2].map(|n| format!("{n}B").into()).into(),
            // Words that are named, but for those of sizes beyond a test.
            Err(_) => {
                let words = parameter.meaning.split(|c: char| !(c.is_alphanumeric() || c == '-'));
                let is_small = |word: &&str| {
                    !(*word == "full" || word.starts_with("llama") || word.parse::<u64>().is_ok())
                        && (word.len() > 1 || ["S", "W"].contains(word))
                };
                let sizes = ["1MiB", "8MiB"].map(Value::from);
                words.filter(is_small).map(Value::from).chain(sizes).chain([5.into()]).collect()
            }
        },
        other => panic!("{}: no value is like {other}", parameter.name),
    };
    all.retain(|value| *value != default);
    all.dedup();
    all
}

/// Operations of the first thread up to just before the region of interest, where it is marked.
fn before_the_region(mut stream: Box<dyn Stream>) -> u64 {
    if stream.gives_mark(REGION_BEGINS) != Some(true) {
        return 0;
    }
    let (mut passed, mut ops) = (0, Vec::new());
    loop {
        ops.clear();
        assert_eq!(stream.pull(0, 1 << 12, &mut ops), Ok(Pull::More), "the mark is given");
        let mut at = 0;
        while at < ops.len() {
            if let Some(Call::Marker { mark: REGION_BEGINS }) =
                Call::decode(ops[at], &ops[at + 1..])
                && ops[at].kind() == Some(OpKind::Call)
            {
                return (passed + at as u64).saturating_sub(5);
            }
            at += length_of(ops[at]);
        }
        passed += ops.len() as u64;
    }
}

#[test]
fn what_a_generator_makes_follows_from_parameters_and_seed_and_goes_on_from_any_place() {
    for generator in GENERATORS {
        for sets in changed(generator) {
            let told = std::panic::catch_unwind(|| {
                // Two that know nothing of each other are taken in turn.
                let both = [(); 2].map(|()| generator.make(&sets, 7).unwrap().0);
                let turn = Cell::new(0);
                let make = || {
                    turn.set(turn.get() + 1);
                    both[turn.get() % 2].fork()
                };
                let before = before_the_region(make());
                for (passed, most) in [(0, BEGINNING), (before, MOST)] {
                    laws_of_cases(CASES, || Box::new(Part::new(make(), passed, most)));
                }
            });
            assert!(told.is_ok(), "{} {sets:?}", generator.name);
        }
    }
}

/// Operations before those that are looked at for dependences.
const FAR: [u64; 4] = [0, 100_000, 1_000_000, 10_000_000];

/// What a generator says of dependences is there where accesses have them, and there alone.
#[test]
fn dependences_are_told_of_those_that_have_them_and_of_no_others() {
    for generator in GENERATORS {
        let mut stream = generator.make(&[], 7).unwrap().0;
        let before = before_the_region(stream.fork());
        stream.skip(0, before).unwrap();
        let mut found = false;
        // Some have them only once they are far on.
        for (thread, far) in (0..MOST_THREADS).flat_map(|thread| FAR.map(|far| (thread, far))) {
            let mut ops = Vec::new();
            let mut fork = stream.fork();
            fork.skip(thread, far).unwrap();
            while ops.len() < 1 << 14 && fork.pull(thread, 1 << 12, &mut ops) == Ok(Pull::More) {}
            for (op, _) in operations(&ops) {
                let accesses = matches!(op.kind(), Some(OpKind::Load | OpKind::Store));
                found |= accesses && op.flags() & FLAG_DEPENDENT != 0;
            }
        }
        let told = generator.dependences;
        assert_eq!(found, !told.is_empty(), "{}", generator.name);
        assert!(!told.ends_with('.'), "{}", generator.name);
    }
}

/// What is mapped, first byte and length, and what of it has no file.
#[derive(Default)]
struct Mapped {
    areas: BTreeMap<u64, u64>,
    anonymous_bytes: u64,
}

impl Mapped {
    fn call(&mut self, call: Call) {
        match call {
            Call::Map { address, length, file, .. } => {
                assert!(
                    self.areas.insert(address, length).is_none(),
                    "{address:#x} is mapped twice"
                );
                if file == NO_FILE {
                    self.anonymous_bytes += length;
                }
            }
            Call::Read { address, length, .. }
            | Call::Write { address, length, .. }
            | Call::ReadDirect { address, length, .. }
            | Call::WriteDirect { address, length, .. } => self.has(address, length),
            Call::Unmap { .. } | Call::Remap { .. } => panic!("{call:?}: tell the law of it"),
            _ => {}
        }
    }

    fn has(&self, address: u64, bytes: u64) {
        let (first, length) = self.areas.range(..=address).next_back().unwrap_or((&0, &0));
        let inside = address + bytes <= first + length;
        assert!(inside, "{bytes} B at {address:#x} are beyond what is mapped, {:x?}", self.areas);
    }
}

/// Accesses, and what calls move, are within what was mapped before; in all that is what is told, with the
/// files that are there at first, and with what others grow to where some are made.
#[test]
fn what_is_used_is_mapped_and_as_much_as_is_told() {
    for generator in GENERATORS {
        for sets in changed(generator) {
            let name = generator.name;
            let mut stream = generator.make(&sets, 7).unwrap().0;
            let (passed, mut mapped) = (before_the_region(stream.fork()), Mapped::default());
            let mut ops = Vec::new();
            for thread in 0..MOST_THREADS {
                let most = if thread == 0 { passed + 20 * MOST } else { 4 * MOST };
                ops.clear();
                while ops.len() < most as usize {
                    if stream.pull(thread, 1 << 12, &mut ops) == Ok(Pull::End) {
                        break;
                    }
                }
                let mut at = 0;
                while let Some(op) = ops.get(at) {
                    match op.kind() {
                        Some(OpKind::Call) => {
                            mapped.call(Call::decode(*op, &ops[at + 1..]).unwrap());
                        }
                        Some(OpKind::Load | OpKind::Store) => {
                            mapped.has(op.word, u64::from(op.size()));
                        }
                        _ => {}
                    }
                    at += length_of(*op);
                }
            }
            let files_bytes: u64 = stream.files().iter().map(|file| file.size_bytes).sum();
            let told = stream.footprint().unwrap().bytes;
            let used = mapped.anonymous_bytes + files_bytes;
            let makes_some = stream.files().iter().any(|file| file.size_bytes == 0);
            let is_told = if makes_some { told >= used } else { told == used };
            assert!(is_told, "{name} {sets:?} is said to use {told} B, and uses {used}");
        }
    }
}

/// Rows of the table of docs/models/workloads.md: workloads, tests of what they draw, tests of what they count.
fn proofs() -> Vec<[Vec<String>; 3]> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let page = std::fs::read_to_string(format!("{root}/docs/models/workloads.md")).unwrap();
    let (_, table) = page.split_once("\n## How they are proved\n").unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        let [workloads, draws, counts] = cells[..] else { panic!("not three columns: {line}") };
        assert!(draws.contains('`') != draws.contains("nothing"), "{line}");
        [workloads, draws, counts].map(names)
    };
    rows.map(row).collect()
}

#[test]
fn the_table_of_proofs_has_each_workload_and_tests_that_there_are() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let mut sources = BTreeMap::new();
    let mut folders = vec![std::path::PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            // Tests in a file of their own are of the module that the folder is of.
            let module = if path.ends_with("tests.rs") { path.parent().unwrap() } else { &path };
            let module = module.file_stem().unwrap().to_string_lossy().into_owned();
            *sources.entry(module).or_insert_with(String::new) +=
                &std::fs::read_to_string(&path).unwrap();
        }
    }
    let mut named = Vec::new();
    for [workloads, draws, counts] in proofs() {
        assert!(!counts.is_empty(), "{workloads:?} are counted by no test");
        for test in draws.iter().chain(&counts) {
            let (module, name) = test.split_once("::").unwrap();
            let is_there = sources.get(module).is_some_and(|text| {
                text.contains(&format!("#[test]\n    fn {name}()"))
                    || text.contains(&format!("#[test]\nfn {name}()"))
            });
            assert!(is_there, "{workloads:?}: there is no test {test}");
        }
        named.extend(workloads);
    }
    let mut all: Vec<&str> = GENERATORS.iter().map(|generator| generator.name).collect();
    all.sort_unstable();
    named.sort_unstable();
    assert_eq!(named, all);
}

/// How many accesses there are about, where that alone is known, and how many instructions, is told within a quarter.
#[test]
fn about_as_many_accesses_are_made_as_is_told() {
    let small: [(&str, &[(&str, u64)]); 4] = [
        ("postmark", &[("files", 100), ("transactions", 2000)]),
        ("bdb/btree", &[("transactions", 500)]),
        ("bdb/hash", &[("transactions", 500)]),
        ("ptf", &[("queries", 200)]),
    ];
    for (name, sets) in small {
        let sets: Vec<_> =
            sets.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect();
        let mut stream = super::find(name).unwrap().make(&sets, 7).unwrap().0;
        let about = stream.about().unwrap();
        assert_eq!(stream.accesses(), None, "{name}: it is known exactly");
        let (mut ops, mut made, mut instructions) = (Vec::new(), 0.0, 0);
        for thread in 0..MOST_THREADS {
            let mut pulled = Pull::More;
            while pulled == Pull::More {
                ops.clear();
                pulled = stream.pull(thread, 1 << 12, &mut ops).unwrap();
                for (op, _) in operations(&ops) {
                    instructions += u64::from(op.instructions());
                    if op.kind_code() == OpKind::Load as u8 || op.kind_code() == OpKind::Store as u8
                    {
                        let last = op.word + u64::from(op.size()) - 1;
                        made += if op.word / 64 == last / 64 { 1.0 } else { 2.0 };
                    }
                }
            }
        }
        let near = |told: f64| (0.75..1.25).contains(&told);
        assert!(near(about.accesses as f64 / made), "{name}: about {about:?}, and {made}");
        let told = about.instructions.unwrap() as f64;
        assert!(near(told / instructions as f64), "{name}: {about:?}, and {instructions}");
    }
}

/// Of a workload whose pieces of work may be as long as one likes, none is made to say about how much it does.
#[test]
fn a_piece_of_work_that_is_too_long_is_not_looked_at() {
    let of = |name: &str, sets: &[(&str, Value)]| {
        let sets: Vec<_> =
            sets.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        super::find(name).unwrap().make(&sets, 7).unwrap().0
    };
    let begun = std::time::Instant::now();
    for (name, sets) in [
        ("ptf", [("scan", Value::from(10_000_000)), ("size", "full".into())]),
        ("bionet", [("scan", Value::from(10_000_000)), ("size", "full".into())]),
        ("postmark", [("most", Value::from("1GiB")), ("read_block", "1B".into())]),
        ("postmark", [("most", Value::from("1GiB")), ("write_block", "64B".into())]),
    ] {
        assert_eq!(of(name, &sets).about(), None, "{name} {sets:?}");
    }
    assert!(begun.elapsed().as_secs() < 20, "gigabytes take longer");
    // What is as long as it is by default is looked at.
    for name in ["ptf", "bionet", "postmark", "postmark/series"] {
        assert!(of(name, &[]).about().is_some(), "{name}");
    }
}

/// What comes before the mark of the region is told: a store to each page.
#[test]
fn accesses_before_the_region_are_those_before_its_mark() {
    for (name, sets) in [("chase", "table"), ("nas/is", "class"), ("filebench/varmail", "")] {
        let sets: Vec<(String, Value)> = match sets {
            "table" => vec![("table".into(), "1MiB".into())],
            "class" => vec![("class".into(), "S".into())],
            _ => Vec::new(),
        };
        let mut stream = super::find(name).unwrap().make(&sets, 7).unwrap().0;
        let (mut ops, mut stores, mut marked) = (Vec::new(), 0, false);
        while !marked {
            ops.clear();
            assert_eq!(stream.fork().accesses_before_region(), stream.accesses_before_region());
            assert_eq!(stream.pull(0, 1 << 10, &mut ops), Ok(Pull::More));
            for (op, call) in operations(&ops) {
                marked |= matches!(call, Some(Call::Marker { .. }));
                stores += u64::from(!marked && op.kind() == Some(OpKind::Store));
            }
        }
        assert_eq!(stream.accesses_before_region(), Some(stores), "{name}");
    }
    let untouched = [("touched".to_owned(), Value::from(false))];
    let stream = super::find("chase").unwrap().make(&untouched, 7).unwrap().0;
    assert_eq!(stream.accesses_before_region(), None);
}

/// Of two seeds, the operations differ where something is drawn, and nowhere else.
#[test]
fn seeds_make_a_difference_where_something_is_drawn() {
    for [workloads, draws, _] in proofs() {
        for name in workloads {
            let generator = super::find(&name).unwrap();
            let ops = |sets: &Sets, seed: u64| {
                let mut stream = generator.make(sets, seed).unwrap().0;
                let passed = before_the_region(stream.fork());
                let mut ops = Vec::new();
                stream.skip(0, passed).unwrap();
                for thread in 0..2 {
                    // The rest of a prelude comes by itself.
                    for _ in 0..2 {
                        stream.pull(thread, 20 * MOST as usize, &mut ops).unwrap();
                    }
                }
                (ops, stream.files().iter().map(|file| file.size_bytes).collect::<Vec<_>>())
            };
            let differs = changed(generator).iter().any(|sets| ops(sets, 1) != ops(sets, 2));
            assert_eq!(differs, !draws.is_empty(), "{name}");
        }
    }
}
