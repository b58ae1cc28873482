//! Runs guest programs under the recorder and reads what was recorded.

#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tierscope_record::job::SinkJob;
use tierscope_record::launch::{
    LIBRARY, LaunchError, LaunchJob, Launched, Output, QemuBackend, Report, launch,
};
use tierscope_record::sink::tst::TstJob;
use tierscope_record::symbols::Region;
use tierscope_workload::trace::{TstMetadata, TstReader, TstTotals};
use tierscope_workload::{
    Call, FileInfo, Op, OpKind, Pull, SiteGrain, SiteTable, Stream, ThreadId,
};

/// Whether there is a QEMU to test with. Without one the test fails, unless `TIERSCOPE_NO_QEMU=1`
/// says that this is known.
pub fn qemu_is_there() -> bool {
    match QemuBackend::find() {
        Ok(_) => true,
        Err(error) if std::env::var_os("TIERSCOPE_NO_QEMU").is_some_and(|value| value == "1") => {
            eprintln!("NOT TESTED, because TIERSCOPE_NO_QEMU=1: {error}");
            false
        }
        Err(error) => panic!("the recorder cannot be tested: {error}\nTIERSCOPE_NO_QEMU=1 skips"),
    }
}

/// Skips a test where there is no QEMU.
#[macro_export]
macro_rules! needs_qemu {
    () => {
        if !common::qemu_is_there() {
            return;
        }
    };
}

/// Compiles `tests/guest/NAME.c`, once for each state of the source.
pub fn guest(name: &str) -> PathBuf {
    let program = scratch().join(format!("guest-{name}-{}", unique()));
    compile(name, &program, &["-pthread"], &["-lm", "-ldl"]);
    program
}

/// The same, with options of its own.
pub fn guest_with(name: &str, options: &[&str]) -> PathBuf {
    let program = scratch().join(format!("guest-{name}-{}", unique()));
    compile(name, &program, options, &[]);
    program
}

/// Compiles `tests/guest/NAME.c` to a library.
pub fn guest_library(name: &str) -> PathBuf {
    let library = scratch().join(format!("libguest-{name}-{}.so", unique()));
    compile(name, &library, &["-shared", "-fPIC"], &[]);
    library
}

fn compile(name: &str, to: &Path, options: &[&str], libraries: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let source = root.join("tests/guest").join(name).with_extension("c");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let status = Command::new(&compiler)
        .args(["-O1", "-g"])
        .args(options)
        .arg("-I")
        .arg(root.join("python/tierscope/include"))
        .arg("-o")
        .args([to, &source])
        .args(libraries)
        .status()
        .unwrap_or_else(|error| panic!("{} compiles the guests: {error}", compiler.display()));
    assert!(status.success(), "{} does not compile", source.display());
}

fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A directory for the tests' files, within the target directory.
pub fn scratch() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// A name for a file of a test's own.
pub fn scratch_file(name: &str) -> PathBuf {
    scratch().join(format!("{}-{name}", unique()))
}

/// The recorder's library, which is built beside the tests.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().join(LIBRARY)
}

pub fn job(program: &Path, arguments: &[&str], sink: SinkJob) -> LaunchJob {
    LaunchJob {
        program: program.into(),
        arguments: arguments.iter().map(Into::into).collect(),
        sink,
        library: library(),
        scratch_dir: scratch(),
        output: Output::Null,
        native: false,
        region: Region::default(),
    }
}

pub fn start(program: &Path, arguments: &[&str], sink: SinkJob) -> Result<Launched, LaunchError> {
    launch(&job(program, arguments, sink))
}

/// Runs a program to nothing.
pub fn count(program: &Path, arguments: &[&str]) -> Report {
    start(program, arguments, SinkJob::Discard { sites: None }).unwrap().finish().unwrap()
}

/// An operation or a call, as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    Op(Op),
    Call(Call),
}

/// What was recorded of a program.
pub struct Recording {
    pub report: Report,
    pub totals: TstTotals,
    pub files: Vec<FileInfo>,
    pub threads: BTreeMap<ThreadId, Vec<Event>>,
}

impl Recording {
    /// All calls of the first thread.
    pub fn calls(&self) -> Vec<Call> {
        self.calls_of(0)
    }

    pub fn calls_of(&self, thread: ThreadId) -> Vec<Call> {
        let call = |event: &Event| match event {
            Event::Call(call) => Some(*call),
            Event::Op(_) => None,
        };
        self.threads[&thread].iter().filter_map(call).collect()
    }
}

/// Runs a program and reads its recording.
pub fn record(program: &Path, arguments: &[&str]) -> Recording {
    record_region(program, arguments, Region::default())
}

/// The same, with the sites of the program's code.
pub fn record_sites(
    program: &Path,
    arguments: &[&str],
    grain: SiteGrain,
) -> (Recording, Arc<SiteTable>) {
    let metadata = TstMetadata { sites: Some(grain), ..TstMetadata::default() };
    record_as(program, arguments, Region::default(), metadata)
}

/// The same, with a region of interest.
pub fn record_region(program: &Path, arguments: &[&str], region: Region) -> Recording {
    record_as(program, arguments, region, TstMetadata::default()).0
}

/// The same, with what the recording says of itself.
pub fn record_as(
    program: &Path,
    arguments: &[&str],
    region: Region,
    metadata: TstMetadata,
) -> (Recording, Arc<SiteTable>) {
    let path = scratch_file("recording.tst");
    let sink = SinkJob::Tst(TstJob { path: path.clone(), metadata, max_bytes: None });
    let mut job = job(program, arguments, sink);
    job.region = region;
    let report = launch(&job).unwrap().finish().unwrap();
    assert_eq!(report.errors, Vec::<String>::new());
    let mut reader = TstReader::open(&path, false).unwrap();
    let threads =
        reader.threads().into_iter().map(|thread| (thread, read(&mut reader, thread))).collect();
    let totals = reader.totals().unwrap().clone();
    assert_eq!(totals.missing, report.unseen, "the recording says what is missing");
    let files = reader.files().to_vec();
    let sites = reader.sites();
    std::fs::remove_file(path).unwrap();
    (Recording { report, totals, files, threads }, sites)
}

/// All that a stream has of a thread.
pub fn read(stream: &mut dyn Stream, thread: ThreadId) -> Vec<Event> {
    let mut ops = Vec::new();
    while stream.pull(thread, 4096, &mut ops).unwrap() == Pull::More {}
    let mut events = Vec::new();
    let mut at = 0;
    while at < ops.len() {
        let op = ops[at];
        at += 1;
        if op.kind() == Some(OpKind::Call) {
            let call = Call::decode(op, &ops[at..]).expect("a call that was recorded decodes");
            events.push(Event::Call(call));
            at += op.size() as usize;
        } else {
            events.push(Event::Op(op));
        }
    }
    events
}

/// Runs through a recording as a machine would: each thread as far as its waits allow. Returns
/// the number of waits; fails where threads wait for each other for ever.
pub fn run_through(recording: &Recording) -> usize {
    let mut places: BTreeMap<ThreadId, usize> = recording.threads.keys().map(|t| (*t, 0)).collect();
    let mut signals: BTreeMap<ThreadId, u64> = BTreeMap::new();
    let mut started = BTreeSet::from([0]);
    let mut waits = 0;
    loop {
        let mut moved = false;
        for thread in started.clone() {
            let events = recording.threads.get(&thread).map_or(&[][..], Vec::as_slice);
            let place = places.entry(thread).or_insert(0);
            while let Some(event) = events.get(*place) {
                match event {
                    Event::Call(Call::Spawn { thread }) => {
                        assert!(started.insert(*thread), "thread {thread} is started once");
                    }
                    Event::Call(Call::Signal { sequence }) => {
                        let passed = signals.entry(thread).or_insert(0);
                        assert_eq!(*sequence, *passed + 1, "signals are counted from 1");
                        *passed = *sequence;
                    }
                    Event::Call(Call::Wait { thread, sequence }) => {
                        if signals.get(thread).copied().unwrap_or(0) < *sequence {
                            break;
                        }
                        waits += 1;
                    }
                    _ => {}
                }
                *place += 1;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    for (thread, events) in &recording.threads {
        assert!(started.contains(thread), "thread {thread} was never started");
        let place = places[thread];
        assert_eq!(place, events.len(), "thread {thread} waits for ever: {:?}", events.get(place));
    }
    waits
}
