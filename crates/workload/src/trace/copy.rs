//! Workloads of threads written as recordings: generated ones, traces of programs in other formats, and recordings cut
//! short.

use super::{TstError, TstMetadata, TstTotals, TstWriter};
use crate::op::{Call, Op, OpKind, ThreadId, operations};
use crate::requests::Passed;
use crate::stream::{Pull, Stream, StreamError};
use std::collections::VecDeque;
use std::path::Path;

/// Operations of a thread's turn.
const TURN: usize = 1 << 10;
/// Accesses between two looks at whether to go on.
const LOOK_EVERY: u64 = 1 << 16;

/// How a recording is made of a workload.
#[derive(Clone, Debug, Default)]
pub struct CopyOptions {
    /// What the recording says about itself. Its windows and its filter are applied to the workload.
    pub metadata: TstMetadata,
    /// Loads and stores at most, the first ones.
    pub most: Option<u64>,
    /// What of the program is not in it, in words.
    pub missing: Vec<String>,
    /// How the program ended, in words, where the workload knows of it.
    pub ended: Option<String>,
}

/// Why no recording was made.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The workload cannot be read.
    #[error("{0}")]
    Stream(#[from] StreamError),
    /// The recording cannot be written.
    #[error("{0}")]
    Tst(#[from] TstError),
    /// Whoever was asked does not want it to go on.
    #[error("it was interrupted")]
    Stopped,
}

/// Writes what the threads of a workload do as a recording at `path`, which is there whole or not at all. Threads take turns of 1024
/// operations; which thread comes when is not part of a recording. `goes_on` is asked now and then, and ends it.
///
/// # Errors
/// Where the workload cannot be read or the recording not be written, or `goes_on` says no.
pub fn record_stream(
    mut stream: Box<dyn Stream>,
    path: &Path,
    options: &CopyOptions,
    mut goes_on: impl FnMut(Passed) -> bool,
) -> Result<TstTotals, CopyError> {
    let sites = stream.sites();
    let metadata = TstMetadata { sites: sites.grain, ..options.metadata.clone() };
    let mut writer = TstWriter::create(path, &metadata)?;
    for (number, site) in sites.all() {
        writer.add_site(number, site.clone())?;
    }
    let most = options.most.unwrap_or(u64::MAX);
    let all = stream.accesses().map(|all| all.min(most)).or(options.most);
    let mut threads = VecDeque::from([0]);
    let (mut files, mut accesses, mut looked) = (0, 0u64, 0u64);
    let mut ops = Vec::new();
    while let Some(thread) = threads.pop_front() {
        if accesses >= most {
            threads.push_front(thread);
            break;
        }
        ops.clear();
        let turn = usize::try_from(most - accesses).unwrap_or(TURN).min(TURN);
        if stream.pull(thread, turn, &mut ops)? == Pull::End {
            continue;
        }
        // Before an operation names them.
        for file in &stream.files()[files..] {
            writer.add_file(file)?;
            files += 1;
        }
        writer.append(thread, &ops)?;
        accesses += see(&ops, &mut threads);
        threads.push_back(thread);
        if accesses - looked >= LOOK_EVERY {
            looked = accesses;
            let share = all.map(|all| accesses as f64 / all.max(1) as f64);
            if !goes_on(Passed { requests: accesses, share }) {
                return Err(CopyError::Stopped);
            }
        }
    }
    options.missing.iter().for_each(|missing| writer.add_missing(missing));
    let ended = options.ended.clone().or_else(|| stream.ended_early());
    let totals = match (threads.is_empty(), ended) {
        (false, _) => writer.finish_cut(&format!("only its first {most} accesses were asked for")),
        (true, Some(ended)) if stream.is_cut() => writer.finish_cut(&ended),
        (true, None) if stream.is_cut() => writer.finish_cut("what it was made of is cut short"),
        (true, ended) => writer.finish(&ended.unwrap_or_else(|| "all threads ended".into())),
    };
    Ok(totals?)
}

/// Loads and stores among operations, whole calls only; who is started has a turn.
fn see(ops: &[Op], threads: &mut VecDeque<ThreadId>) -> u64 {
    let mut accesses = 0;
    for (op, call) in operations(ops) {
        accesses += u64::from(matches!(op.kind(), Some(OpKind::Load | OpKind::Store)));
        if let Some(Call::Spawn { thread }) = call {
            threads.push_back(thread);
        }
    }
    accesses
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::find;
    use crate::trace::TstReader;
    use serde_json::Value;
    use std::path::PathBuf;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("tierscope-copy-{}-{name}.tst", std::process::id()))
    }

    fn workload(name: &str, sets: &[(&str, Value)]) -> Box<dyn Stream> {
        let sets: Vec<_> =
            sets.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
        find(name).unwrap().make(&sets, 1).unwrap().0
    }

    fn all(stream: &mut dyn Stream, thread: ThreadId) -> Vec<Op> {
        let mut ops = Vec::new();
        while stream.pull(thread, 1000, &mut ops).unwrap() == Pull::More {}
        ops
    }

    #[test]
    fn every_operation_of_every_thread_and_every_file_is_in_it() {
        for (name, sets, threads) in [
            ("gups", vec![("updates", 50_000.into()), ("threads", 3.into())], 3),
            ("filebench/varmail", vec![("files", 50.into()), ("loops", 5.into())], 16),
            ("ycsb/a", vec![("operations", 500.into())], 4),
        ] {
            let path = scratch(&name.replace('/', "-"));
            let mut stream = workload(name, &sets);
            let totals =
                record_stream(stream.fork(), &path, &CopyOptions::default(), |_| true).unwrap();
            let mut reader = TstReader::open(&path, false).unwrap();
            let mut operations = 0;
            assert_eq!(reader.threads().len(), threads, "{name}");
            for thread in reader.threads() {
                let expected = all(&mut *stream, thread);
                operations += expected.len() as u64;
                assert!(all(&mut reader, thread) == expected, "{name}: thread {thread}");
            }
            assert_eq!((totals.operations, totals.cut), (operations, false), "{name}");
            assert_eq!(reader.files(), stream.files(), "{name}");
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn a_limit_gives_so_many_accesses_and_a_recording_that_says_so() {
        let path = scratch("limit");
        let stream = workload("gups", &[("updates", 50_000.into()), ("threads", 3.into())]);
        let options = CopyOptions { most: Some(12_345), ..CopyOptions::default() };
        let totals = record_stream(stream, &path, &options, |_| true).unwrap();
        assert_eq!((totals.accesses(), totals.cut), (12_345, true));
        // Cut again, of what was cut.
        let reader = Box::new(TstReader::open(&path, false).unwrap());
        let again = scratch("again");
        let options = CopyOptions { most: Some(345), ..CopyOptions::default() };
        let totals = record_stream(reader, &again, &options, |_| true).unwrap();
        assert_eq!(totals.accesses(), 345);
        std::fs::remove_file(path).unwrap();
        std::fs::remove_file(again).unwrap();
    }

    #[test]
    fn one_that_is_broken_off_leaves_nothing() {
        let path = scratch("broken");
        let stream = workload("gups", &[("updates", 500_000.into())]);
        let mut asked = 0;
        let done = record_stream(stream, &path, &CopyOptions::default(), |passed| {
            asked += 1;
            assert!(passed.share.is_some_and(|share| share < 0.2));
            asked < 2
        });
        assert!(matches!(done, Err(CopyError::Stopped)));
        assert!(!path.exists() && !super::super::partial_path(&path).exists());
    }
}
