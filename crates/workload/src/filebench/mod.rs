//! Filebench's model of a workload: filesets, processes of threads, and the operations (*flowops*) that
//! each thread does over and over (filebench/filebench at 22620e6).
//!
//! [`language`] reads its workload model language, the `.f` files; a [`Model`] may also be made by hand,
//! as the built-in personalities are. `plan` turns it into the operations of threads.

pub mod language;
mod plan;
mod state;
mod variable;

pub use plan::{Options, stream};
pub use variable::{Distribution, Variable};

use serde_json::Value;
use std::fmt;

/// Why a model cannot run: what of it does not exist or would never end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There are too many files.
    Files(String),
    /// Files are too large in all.
    Sizes(String),
    /// A call moves too little of a file.
    Calls(String),
    /// A thread's memory is too large.
    Memory(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Refusal::Files(what)
        | Refusal::Sizes(what)
        | Refusal::Calls(what)
        | Refusal::Memory(what)) = self;
        f.write_str(what)
    }
}

/// What a program in the language does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    /// Files by set.
    pub filesets: Vec<Fileset>,
    /// Threads, all instances of all processes one behind the other.
    pub threads: Vec<Thread>,
    /// Events a second that limits wait for; without them limits limit nothing.
    pub event_rate: Option<f64>,
    /// Seconds that `run` names.
    pub run_s: Option<f64>,
    /// What ends where a thread finds no file.
    pub mode: Mode,
    /// Settings of the program, which a user may change, as they are used.
    pub settings: Vec<(String, Value)>,
}

/// What ends where a thread finds no file (`set mode quit`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The run, which was to last for a time: it stops early, with a warning.
    #[default]
    Timeout,
    /// The run, whose end that is.
    FirstDone,
    /// That thread.
    AllDone,
}

/// Files alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Fileset {
    /// Its name.
    pub name: String,
    /// How many.
    pub entries: u32,
    /// Their sizes, in bytes.
    pub size: Variable,
    /// The percentage of them that is there at the start.
    pub preallocated_percent: f64,
}

/// One thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// Bytes of memory that its transfers go to and come from, at random places; 0: a buffer of its own.
    pub memory_bytes: u64,
    /// What it does, over and over.
    pub flowops: Vec<Flowop>,
}

/// One operation of a thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Flowop {
    /// Its name, which targets of limits refer to.
    pub name: String,
    /// What it does.
    pub kind: Kind,
    /// The place in the list of filesets.
    pub fileset: Option<usize>,
    /// Which of the thread's open files.
    pub descriptor: usize,
    /// The open file whose size is written, of `writewholefile`.
    pub source: usize,
    /// Bytes moved at once.
    pub io_bytes: Option<Variable>,
    /// Bytes of the file that random offsets lie in; the file's nominal size, where this is none.
    pub working_set_bytes: Option<u64>,
    /// Whether offsets are random.
    pub random: bool,
    /// Whether what is written is forced to the store at once.
    pub synchronous: bool,
    /// Whether the thread takes another of its open files each time.
    pub rotates: bool,
    /// How often it is done before the next.
    pub iterations: Variable,
    /// Seconds, loops or a count, as the kind says.
    pub value: Option<Variable>,
    /// The name of the operation that is counted, of limits and ends.
    pub target: Option<String>,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are the language's names")]
pub enum Kind {
    OpenFile,
    CreateFile,
    CloseFile,
    DeleteFile,
    StatFile,
    Read,
    Write,
    ReadWholeFile,
    WriteWholeFile,
    AppendFile,
    AppendFileRand,
    Fsync,
    FsyncSet,
    MakeDir,
    RemoveDir,
    ListDir,
    Hog,
    Delay,
    EventLimit,
    OpsLimit,
    IopsLimit,
    BwLimit,
    FinishOnCount,
    FinishOnBytes,
}

impl Kind {
    /// All, by the names that the language has for them.
    pub const ALL: [(&str, Kind); 24] = [
        ("openfile", Kind::OpenFile),
        ("createfile", Kind::CreateFile),
        ("closefile", Kind::CloseFile),
        ("deletefile", Kind::DeleteFile),
        ("statfile", Kind::StatFile),
        ("read", Kind::Read),
        ("write", Kind::Write),
        ("readwholefile", Kind::ReadWholeFile),
        ("writewholefile", Kind::WriteWholeFile),
        ("appendfile", Kind::AppendFile),
        ("appendfilerand", Kind::AppendFileRand),
        ("fsync", Kind::Fsync),
        ("fsyncset", Kind::FsyncSet),
        ("makedir", Kind::MakeDir),
        ("removedir", Kind::RemoveDir),
        ("listdir", Kind::ListDir),
        ("hog", Kind::Hog),
        ("delay", Kind::Delay),
        ("eventlimit", Kind::EventLimit),
        ("opslimit", Kind::OpsLimit),
        ("iopslimit", Kind::IopsLimit),
        ("bwlimit", Kind::BwLimit),
        ("finishoncount", Kind::FinishOnCount),
        ("finishonbytes", Kind::FinishOnBytes),
    ];

    /// Whether it reads or writes a file's data.
    fn moves_data(self) -> bool {
        use Kind::*;
        matches!(self, Read | Write | ReadWholeFile | WriteWholeFile | AppendFile | AppendFileRand)
    }

    /// Whether limits and ends may ask how often it was done.
    fn is_counted(self) -> bool {
        !self.is_limit() && !matches!(self, Kind::FinishOnCount | Kind::FinishOnBytes)
    }

    /// Whether it waits for events.
    fn is_limit(self) -> bool {
        use Kind::*;
        matches!(self, EventLimit | OpsLimit | IopsLimit | BwLimit)
    }

    /// Whether it may wait for the store, for time or for a processor, so that other threads come in between.
    fn may_wait(self) -> bool {
        use Kind::*;
        self.moves_data() || matches!(self, Fsync | FsyncSet | Hog | Delay) || self.is_limit()
    }

    /// Whether it needs a set of files.
    fn needs_fileset(self) -> bool {
        use Kind::*;
        matches!(self, OpenFile | CreateFile | MakeDir | RemoveDir | ListDir | FsyncSet)
    }
}

impl Flowop {
    /// An operation with nothing but its kind said of it.
    pub fn new(kind: Kind) -> Flowop {
        let name = Kind::ALL.iter().find(|(_, of)| *of == kind).map_or("", |(name, _)| name);
        Flowop {
            name: name.to_owned(),
            kind,
            fileset: None,
            descriptor: 0,
            source: 0,
            io_bytes: None,
            working_set_bytes: None,
            random: false,
            synchronous: false,
            rotates: false,
            iterations: Variable::constant(1.0),
            value: None,
            target: None,
        }
    }
}
