//! The four personalities of Filebench that \[HYB15\] §3.2 runs, with the parameters of its own files
//! (filebench/filebench at 22620e6, `workloads/`): servers of mail, web pages, a web cache and files.
//!
//! What their threads do is made of the same parts as what [`crate::filebench`] reads from a user's file.

use super::prelude::TOUCHED;
use super::{Generator, Made, Parameter, flag, integer, size, threads_of, wrong};
use crate::filebench::{
    Distribution, Fileset, Flowop, Kind, Model, Options, Refusal, Thread, Variable, stream,
};
use serde_json::Value;
use std::sync::Arc;
use tierscope_units::Size;

const LOOPS: Parameter = Parameter {
    name: "loops",
    default: "20",
    meaning: "how often each thread does its operations, 0 for as long as the run lasts: Filebench runs for \
              a time, [HYB15] for 250 ms (`--limit 250ms`)",
};
const IO: Parameter = Parameter {
    name: "io",
    default: "\"1MiB\"",
    meaning: "most bytes of a call that reads or writes a whole file ($iosize)",
};
const APPEND: Parameter = Parameter {
    name: "append",
    default: "\"16KiB\"",
    meaning: "bound of what is appended at once, evenly drawn below it ($meanappendsize)",
};
const MEMORY: Parameter = Parameter {
    name: "memory",
    default: "\"10MiB\"",
    meaning: "memory of each thread, at random places of which its transfers are (memsize)",
};
const INSTRUCTIONS: Parameter = Parameter {
    name: "instructions",
    default: "1000",
    meaning: "the program's own instructions of each call; assumption: choice of the file, two readings of \
              the clock and counters",
};

/// Parameters in which the personalities differ.
macro_rules! parameters {
    ($files:literal, $size:literal, $threads:literal) => {
        &[
            Parameter { name: "files", default: $files, meaning: "files of the set ($nfiles)" },
            Parameter { name: "size", default: $size, meaning: "mean size of a file" },
            Parameter { name: "threads", default: $threads, meaning: "threads ($nthreads)" },
            LOOPS,
            IO,
            APPEND,
            MEMORY,
            INSTRUCTIONS,
            TOUCHED,
        ]
    };
}

/// Registration.
pub const GENERATORS: &[Generator] = &[
    Generator {
        name: "filebench/varmail",
        summary: "a mail server: files deleted, created, appended to and forced, read (Filebench)",
        dependences: "",
        parameters: parameters!("1000", "\"16KiB\"", "16"),
        build: |parameters, seed| build(parameters, seed, varmail),
    },
    Generator {
        name: "filebench/webserver",
        summary: "a web server: files read whole, and a log appended to (Filebench)",
        dependences: "",
        parameters: parameters!("1000", "\"16KiB\"", "100"),
        build: |parameters, seed| build(parameters, seed, webserver),
    },
    Generator {
        name: "filebench/webproxy",
        summary: "a web cache: a file replaced, then five read whole (Filebench)",
        dependences: "",
        parameters: parameters!("10000", "\"16KiB\"", "100"),
        build: |parameters, seed| build(parameters, seed, webproxy),
    },
    Generator {
        name: "filebench/fileserver",
        summary: "a file server: files written whole, appended to, read, deleted (Filebench)",
        dependences: "",
        parameters: parameters!("10000", "\"128KiB\"", "50"),
        build: |parameters, seed| build(parameters, seed, fileserver),
    },
];

/// What personalities are made of.
struct Parts {
    files: u32,
    mean_bytes: u64,
    io_bytes: u64,
    append_bytes: u64,
}

/// The set that all personalities have.
const FILES: usize = 0;
/// That of the web server's log.
const LOG: usize = 1;

fn build(
    parameters: &[(String, Value)],
    seed: u64,
    personality: fn(&Parts) -> (Vec<Fileset>, Vec<Flowop>),
) -> Made {
    let refuse = |name: &str, reason: &str, mend: &str| {
        wrong(name, super::find_value(parameters, name), reason, mend)
    };
    let bytes = |name: &str, most: u64| {
        let bytes = size(parameters, name)?;
        let most = Size::from_bytes(most);
        let mend =
            if bytes == 0 { "write 1B or more".into() } else { format!("write {most} or less") };
        let reason = format!("not from 1B to {most}");
        let within = (1..=most.bytes()).contains(&bytes);
        if within { Ok(bytes) } else { Err(refuse(name, &reason, &mend)) }
    };
    let memory_bytes = bytes("memory", 1 << 30)?;
    let moved = |name: &str| {
        let (bytes, memory) = (bytes(name, 1 << 30)?, Size::from_bytes(memory_bytes));
        let reason =
            format!("a thread's memory, of which it is a part, has {memory} (workload.memory)");
        let mend = format!("write {memory} or less, or a larger workload.memory");
        if bytes <= memory_bytes { Ok(bytes) } else { Err(refuse(name, &reason, &mend)) }
    };
    let parts = Parts {
        files: integer(parameters, "files", 1..=(1 << 20) - 1)? as u32,
        mean_bytes: bytes("size", 1 << 40)?,
        io_bytes: moved("io")?,
        append_bytes: moved("append")?,
    };
    let (filesets, flowops) = personality(&parts);
    let thread = Thread { memory_bytes, flowops };
    let threads = threads_of(parameters)? as usize;
    let model = Model { filesets, threads: vec![thread; threads], ..Model::default() };
    let options = Options {
        seed,
        loops: integer(parameters, "loops", 0..=1 << 40)?,
        instructions: integer(parameters, "instructions", 1..=1_000_000)? as u32,
        touched: flag(parameters, "touched")?,
    };
    stream(Arc::new(model), options, "files").map_err(|why| {
        let (name, mend) = match why {
            Refusal::Files(_) => ("files", "write fewer"),
            Refusal::Sizes(_) => ("size", "write less, or fewer workload.files"),
            Refusal::Calls(_) => ("io", "write more, or a smaller workload.size"),
            Refusal::Memory(_) => ("memory", "write less"),
        };
        refuse(name, &why.to_string(), mend)
    })
}

impl Parts {
    /// Sizes of the gamma distribution of shape 1.5, as three of the personalities have them.
    fn gamma(&self) -> Variable {
        let gamma = Distribution::Gamma { mean: self.mean_bytes as f64, shape: 1.5 };
        Variable::of(gamma).between(0.0, (1u64 << 50) as f64)
    }

    fn set(&self, size: Variable, preallocated_percent: f64) -> Fileset {
        Fileset { name: "bigfileset".into(), entries: self.files, size, preallocated_percent }
    }

    /// An operation on a file of the set, opened as descriptor 1.
    fn of(&self, kind: Kind) -> Flowop {
        let io_bytes = match kind {
            Kind::AppendFileRand => Some(self.append_bytes),
            Kind::ReadWholeFile | Kind::WriteWholeFile => Some(self.io_bytes),
            _ => None,
        };
        let io_bytes = io_bytes.map(|bytes| Variable::constant(bytes as f64));
        // A file to be deleted or asked about is the next of the set.
        let descriptor = usize::from(!matches!(kind, Kind::DeleteFile | Kind::StatFile));
        let source = usize::from(kind == Kind::WriteWholeFile);
        Flowop { fileset: Some(FILES), descriptor, source, io_bytes, ..Flowop::new(kind) }
    }

    fn all(&self, kinds: &[Kind]) -> Vec<Flowop> {
        kinds.iter().map(|kind| self.of(*kind)).collect()
    }
}

use Kind::{
    AppendFileRand, CloseFile, CreateFile, DeleteFile, Fsync, OpenFile, ReadWholeFile, StatFile,
    WriteWholeFile,
};

const READ: [Kind; 3] = [OpenFile, ReadWholeFile, CloseFile];

fn varmail(parts: &Parts) -> (Vec<Fileset>, Vec<Flowop>) {
    let new = [DeleteFile, CreateFile, AppendFileRand, Fsync, CloseFile];
    let answered = [OpenFile, ReadWholeFile, AppendFileRand, Fsync, CloseFile];
    (vec![parts.set(parts.gamma(), 80.0)], parts.all(&[&new[..], &answered, &READ].concat()))
}

fn webserver(parts: &Parts) -> (Vec<Fileset>, Vec<Flowop>) {
    let log = Fileset { name: "logfiles".into(), entries: 1, ..parts.set(parts.gamma(), 100.0) };
    let mut flowops = parts.all(&READ.repeat(10));
    flowops.push(Flowop { fileset: Some(LOG), descriptor: 2, ..parts.of(AppendFileRand) });
    (vec![parts.set(parts.gamma(), 100.0), log], flowops)
}

fn webproxy(parts: &Parts) -> (Vec<Fileset>, Vec<Flowop>) {
    let replaced = [DeleteFile, CreateFile, AppendFileRand, CloseFile];
    let flowops = parts.all(&[&replaced[..], &READ.repeat(5)].concat());
    // Its limit of operations limits nothing without a rate of events, which it does not have.
    (vec![parts.set(Variable::constant(parts.mean_bytes as f64), 80.0)], flowops)
}

fn fileserver(parts: &Parts) -> (Vec<Fileset>, Vec<Flowop>) {
    let new = [CreateFile, WriteWholeFile, CloseFile];
    let grown = [OpenFile, AppendFileRand, CloseFile];
    let flowops = parts.all(&[&new[..], &grown, &READ, &[DeleteFile, StatFile]].concat());
    (vec![parts.set(parts.gamma(), 80.0)], flowops)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{calls_of_thread, stream_laws};
    use crate::generator::find;
    use crate::generator::prelude::BASE_ADDRESS;
    use crate::goodness;
    use crate::op::Call;
    use crate::stream::Pull;

    fn sets(all: &[(&str, Value)]) -> Vec<(String, Value)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    fn small() -> Vec<(String, Value)> {
        sets(&[
            ("files", 50.into()),
            ("threads", 3.into()),
            ("loops", 4.into()),
            ("memory", "2MiB".into()),
            ("touched", false.into()),
        ])
    }

    /// Calls of a thread.
    fn calls(name: &str, thread: u32, sets: &[(String, Value)]) -> Vec<Call> {
        let (mut stream, _) = find(name).unwrap().make(sets, 1).unwrap();
        calls_of_thread(stream.as_mut(), thread)
    }

    #[test]
    fn the_streams_laws_hold() {
        for generator in GENERATORS {
            stream_laws(|| generator.make(&small(), 7).unwrap().0);
        }
    }

    /// What is told of a value, and its mend.
    fn refused(name: &str, changes: &[(&str, Value)]) -> (String, String, String) {
        let all = [small(), sets(changes)].concat();
        let error = find(name).unwrap().make(&all, 1).err().expect("it is refused");
        (error.name, error.reason, error.mend)
    }

    #[test]
    fn what_is_refused_is_told_of_the_value_that_mends_it() {
        let name = "filebench/varmail";
        let told = |name: &str, reason: &str, mend: &str| (name.into(), reason.into(), mend.into());
        let memory = "a thread's memory, of which it is a part, has 8KiB (workload.memory)";
        let mend = "write 8KiB or less, or a larger workload.memory";
        assert_eq!(refused(name, &[("memory", "8KiB".into())]), told("io", memory, mend));
        let small = [("memory", Value::from("8KiB")), ("io", "4KiB".into())];
        assert_eq!(refused(name, &small), told("append", memory, mend));
        let large = refused(name, &[("memory", "2GiB".into())]);
        assert_eq!(large, told("memory", "not from 1B to 1GiB", "write 1GiB or less"));
        let none = refused(name, &[("io", "0B".into())]);
        assert_eq!(none, told("io", "not from 1B to 1GiB", "write 1B or more"));
        // Calls of a byte, for files of a gigabyte.
        let (at, reason, mend) = refused(name, &[("size", "1GiB".into()), ("io", "1B".into())]);
        assert!(at == "io" && reason.contains("calls for a file"), "{at}: {reason}");
        assert_eq!(mend, "write more, or a smaller workload.size");
    }

    /// What a thread does, a letter a call.
    fn letters(name: &str) -> String {
        let letter = |call: &Call| match call {
            Call::Open { .. } => 'o',
            Call::Close { .. } => 'c',
            Call::Read { .. } => 'r',
            Call::Write { .. } => 'w',
            Call::Sync { .. } => 's',
            Call::Truncate { .. } => 't',
            Call::Unlink { .. } => 'u',
            Call::Exists { .. } => 'e',
            Call::Stat { .. } => 'i',
            other => panic!("{other:?}"),
        };
        let once = [small(), sets(&[("loops", 1.into())])].concat();
        calls(name, 2, &once).iter().map(letter).collect()
    }

    #[test]
    fn each_thread_does_what_the_personality_says() {
        // Files are below 1 MiB: one read has all, and one finds the end.
        assert_eq!(letters("filebench/varmail"), "tuowscorrwscorrc");
        assert_eq!(letters("filebench/webserver"), format!("{}ow", "orrc".repeat(10)));
        assert_eq!(letters("filebench/webproxy"), format!("tuowc{}", "orrc".repeat(5)));
        assert_eq!(letters("filebench/fileserver"), "owcowcorrctuei");
    }

    #[test]
    fn a_file_that_is_read_whole_is_read_to_its_end() {
        let mut size = 0;
        for call in calls("filebench/webserver", 1, &small()) {
            match call {
                Call::Open { size: of, .. } => size = of,
                Call::Read { offset, length, .. } => {
                    assert!(offset == 0 || offset == size, "{offset} of {size}");
                    assert_eq!(length, 1 << 20);
                }
                _ => {}
            }
        }
    }

    #[test]
    fn sizes_are_as_the_mean_says() {
        let (stream, _) = find("filebench/webserver").unwrap().make(&[], 5).unwrap();
        let files = stream.files();
        assert_eq!(files.len(), 1001);
        let mean = files.iter().map(|file| file.size_bytes).sum::<u64>() as f64 / 1001.0;
        assert!((mean / 16384.0 - 1.0).abs() < 0.1, "{mean}");
        let (stream, _) = find("filebench/webproxy").unwrap().make(&[], 5).unwrap();
        let there = stream.files().iter().filter(|file| file.size_bytes == 16384).count();
        assert!((7_800..8_200).contains(&there), "{there} of 10000 files are there at first");
    }

    /// The files that are there or not do not last for all threads, and a run without an end tells it.
    #[test]
    fn a_run_that_stops_for_want_of_files_tells_why_and_one_that_does_not_says_nothing() {
        let told = |name: &str, files: u64, threads: u64| {
            let few = [("files", files.into()), ("threads", threads.into()), ("loops", 6.into())];
            let all = [small(), sets(&few)].concat();
            let (mut stream, _) = find(name).unwrap().make(&all, 1).unwrap();
            let mut ops = Vec::new();
            for thread in 0..threads as u32 {
                while stream.pull(thread, 1000, &mut ops).unwrap() == Pull::More {}
            }
            stream.ended_early()
        };
        let why = told("filebench/fileserver", 64, 64).expect("each thread wants a new file");
        let begins = "the workload stopped early, as Filebench does: createfile of thread ";
        let ends = " found none of the 64 files of bigfileset to create: all are there; set more \
                    workload.files, or fewer workload.threads";
        assert!(why.starts_with(begins) && why.ends_with(ends), "{why}");
        for (name, files, threads) in [
            ("filebench/fileserver", 640, 64),
            ("filebench/varmail", 640, 64),
            ("filebench/webproxy", 640, 64),
            ("filebench/webserver", 1, 64),
        ] {
            assert_eq!(told(name, files, threads), None, "{name}");
        }
    }

    /// Threads that delete a file and create one need one that is there at a time, not one each: none waits
    /// between the two.
    #[test]
    fn a_thread_goes_on_until_it_may_wait() {
        let few = [("files", 72.into()), ("threads", 64.into()), ("loops", 1.into())];
        let all = [small(), sets(&few)].concat();
        let (mut stream, _) = find("filebench/webproxy").unwrap().make(&all, 1).unwrap();
        let mut ops = Vec::new();
        let there = stream.files().iter().filter(|file| file.size_bytes > 0).count();
        assert!(there < 64, "{there} are there at first");
        stream.pull(40, 1, &mut ops).unwrap();
        assert_eq!(stream.ended_early(), None);
    }

    #[test]
    fn wrong_parameters_are_refused() {
        for (name, value) in
            [("io", Value::from("4GiB")), ("files", 0.into()), ("size", "0B".into())]
        {
            let given = [(name.to_owned(), value)];
            let told = find("filebench/varmail").unwrap().make(&given, 0).err().unwrap();
            assert_eq!(told.name, name);
        }
    }

    /// Sizes by the gamma distribution of shape 1.5, of four files of five at the start; what is appended is even below
    /// its bound, and random places of a thread's memory hold what is moved.
    #[test]
    fn sizes_follow_the_gamma_distribution_and_appends_are_even() {
        use statrs::distribution::{ContinuousCDF, Gamma};
        let many = [("files", Value::from(20_000)), ("touched", false.into())];
        for (name, mean, share) in [
            ("filebench/varmail", 16_384.0, 0.8),
            ("filebench/webserver", 16_384.0, 1.0),
            ("filebench/fileserver", 131_072.0, 0.8),
            ("filebench/webproxy", 16_384.0, 0.8),
        ] {
            let (stream, _) = find(name).unwrap().make(&sets(&many), 5).unwrap();
            let all = stream.files();
            let set = all.iter().filter(|file| file.name.starts_with("bigfileset"));
            let there: Vec<f64> =
                set.filter(|file| file.size_bytes > 0).map(|file| file.size_bytes as f64).collect();
            if name.ends_with("webproxy") {
                assert!(there.iter().all(|size| *size == mean));
            } else {
                let gamma = Gamma::new(1.5, 1.5 / mean).unwrap();
                // Sizes are cut to whole bytes.
                goodness::follow(there.clone(), |size| gamma.cdf(size + 0.5));
            }
            match share {
                1.0 => assert_eq!(there.len(), 20_000),
                share => goodness::have_share(there.len() as u64, 20_000, share),
            }
        }
        let given = [small(), sets(&[("loops", 3000.into()), ("memory", "64KiB".into())])].concat();
        let (mut appended, mut places) = (Vec::new(), [0; 16]);
        let given = [given, sets(&[("io", "4KiB".into())])].concat();
        for call in calls("filebench/webserver", 1, &given) {
            match call {
                Call::Write { length, .. } => appended.push(length as f64 - 0.5),
                Call::Read { address, .. } => {
                    places[((address - BASE_ADDRESS) % (1 << 36) / 4096) as usize] += 1;
                }
                _ => {}
            }
        }
        assert!(appended.len() > 2900, "{}", appended.len());
        // From 1 to the bound less one: nothing is appended where 0 was drawn.
        goodness::follow(appended, |length| (length / 16_383.0).clamp(0.0, 1.0));
        goodness::are_alike(&places);
    }
}
