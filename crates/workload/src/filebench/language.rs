//! The workload model language: text to a [`Model`].
//!
//! A statement is words, attributes and a body in braces: `define fileset name=set,entries=100`. It ends
//! with its line, unless a comma or a brace comes next. `syntax` reads statements; this module knows
//! what they mean. What has no effect on a simulated run (`echo`, `usage`, `stats`, paths, widths of
//! directories) is read and passed over; what is not simulated is refused.

mod syntax;

use super::{Distribution, Fileset, Flowop, Kind, Mode, Model, Thread, Variable};
use serde_json::Value;
use std::collections::BTreeMap;
use syntax::{Attribute, Said, Statement};
use tierscope_units::nearest;

/// What is wrong with a text, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}; {mend}")]
pub struct LanguageError {
    /// Its line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub mend: String,
}

fn wrong(line: usize, what: impl Into<String>, mend: impl Into<String>) -> LanguageError {
    LanguageError { line, what: what.into(), mend: mend.into() }
}

/// Most threads of a model, as of other workloads.
const MOST_THREADS: u64 = 4096;
/// Most files of a set.
const MOST_ENTRIES: u64 = 1 << 20;
/// Most bytes of a working set.
const MOST_WORKING_SET: f64 = (1u64 << 40) as f64;
/// Bounds of a rate of events, per second.
const EVENT_RATES: std::ops::RangeInclusive<f64> = 1e-3..=1e9;
/// Most turns of `hog`, and seconds of `delay`.
const MOST_VALUE: [f64; 2] = [1e12, 1e6];

/// Statements that change nothing of what is simulated.
const WITHOUT_EFFECT: [&str; 9] =
    ["echo", "usage", "stats", "create", "enable", "version", "help", "quit", "psrun"];

/// Reads a text. `given` are settings (`$nfiles` by the name `nfiles`) that go before those of the text.
pub fn read(text: &str, given: &[(String, Value)]) -> Result<Model, LanguageError> {
    let mut reader =
        Reader { given, settings: BTreeMap::new(), model: Model::default(), processes: 0 };
    for statement in syntax::parse(text)? {
        reader.statement(&statement)?;
    }
    reader.finish(text)
}

struct Reader<'a> {
    given: &'a [(String, Value)],
    settings: BTreeMap<String, Said>,
    model: Model,
    /// Processes that are defined, those without instances too.
    processes: usize,
}

impl Reader<'_> {
    fn finish(mut self, text: &str) -> Result<Model, LanguageError> {
        let last = text.lines().count().max(1);
        if let Some((name, _)) =
            self.given.iter().find(|(name, _)| !self.settings.contains_key(name))
        {
            let known = || self.settings.keys().map(String::as_str);
            let mend = match nearest(name, known()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("it sets {}", known().collect::<Vec<_>>().join(", ")),
            };
            return Err(wrong(last, format!("nothing sets ${name}"), mend));
        }
        if self.model.threads.is_empty() && self.processes > 0 {
            let mend = "write instances=1 or more, of one at least";
            return Err(wrong(last, "all processes or their threads have 0 instances", mend));
        }
        if self.model.threads.is_empty() {
            let mend = "add define process name=p { thread name=t { flowop … } }";
            return Err(wrong(last, "no process is defined", mend));
        }
        let shown = |said: &Said| match said {
            Said::Bare(text) | Said::Quoted(text) => Value::from(text.as_str()),
            Said::Drawn { kind, parameters } => {
                let all: Vec<String> = parameters.iter().map(|(k, v)| format!("{k}:{v}")).collect();
                format!("cvar(type={kind},parameters={})", all.join(";")).into()
            }
        };
        let settings = self.settings.iter();
        self.model.settings = settings.map(|(name, said)| (name.clone(), shown(said))).collect();
        Ok(self.model)
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), LanguageError> {
        let words: Vec<&str> = statement.words.iter().map(String::as_str).collect();
        let line = statement.line;
        match words.as_slice() {
            ["set", "mode", "quit", mode] => self.mode(line, mode),
            ["set"] => self.set(statement),
            ["define", "fileset"] => self.fileset(statement, None),
            ["define", "file"] => self.fileset(statement, Some(1)),
            ["define", "process"] => self.process(statement),
            ["eventgen"] => {
                let rate = Attributes::new(self, statement, &["rate"])?.number("rate")?;
                let rate = rate.filter(|rate| *rate > 0.0);
                if let Some(rate) = rate.filter(|rate| !EVENT_RATES.contains(rate)) {
                    let what = format!("there are {rate} events a second");
                    return Err(wrong(line, what, "write a rate from 0.001 to 1000000000, or 0"));
                }
                self.model.event_rate = rate;
                Ok(())
            }
            ["run"] => Ok(()),
            ["run", seconds] => {
                let seconds = Said::Bare((*seconds).to_owned());
                self.model.run_s = Some(self.number(line, "run", &seconds)?);
                Ok(())
            }
            [first, ..] if WITHOUT_EFFECT.contains(first) => Ok(()),
            _ => {
                let said = words.join(" ");
                let mend =
                    "what is read: set, define fileset, define file, define process, eventgen, run";
                Err(wrong(line, format!("`{said}` is not simulated"), mend))
            }
        }
    }

    fn mode(&mut self, line: usize, mode: &str) -> Result<(), LanguageError> {
        self.model.mode = match mode {
            "timeout" => Mode::Timeout,
            "firstdone" => Mode::FirstDone,
            "alldone" => Mode::AllDone,
            _ => {
                let what = format!("there is no mode {mode} to quit in");
                return Err(wrong(line, what, "write timeout, firstdone or alldone"));
            }
        };
        Ok(())
    }

    fn set(&mut self, statement: &Statement) -> Result<(), LanguageError> {
        let line = statement.line;
        for Attribute { name, value } in &statement.attributes {
            let (Some(name), Some(value)) = (name.strip_prefix('$'), value) else {
                return Err(wrong(
                    line,
                    format!("`set {name}` sets nothing"),
                    "write set $NAME=VALUE",
                ));
            };
            let given = self.given.iter().rev().find(|(given, _)| given == name);
            let value = match given {
                Some((_, Value::String(text))) => syntax::value(text, line)?,
                Some((_, value)) => Said::Bare(value.to_string()),
                None => self.resolve(line, value)?,
            };
            self.settings.insert(name.to_owned(), value);
        }
        Ok(())
    }

    /// A value, of a setting where it names one.
    fn resolve(&self, line: usize, said: &Said) -> Result<Said, LanguageError> {
        let Said::Bare(text) = said else { return Ok(said.clone()) };
        let Some(name) = text.strip_prefix('$') else { return Ok(said.clone()) };
        self.settings.get(name).cloned().ok_or_else(|| {
            let near = nearest(name, self.settings.keys().map(String::as_str));
            let mend = match near {
                Some(near) => format!("did you mean ${near}?"),
                None => format!("write set ${name}=… before it"),
            };
            wrong(line, format!("${name} is not set"), mend)
        })
    }

    fn number(&self, line: usize, of: &str, said: &Said) -> Result<f64, LanguageError> {
        let said = self.resolve(line, said)?;
        let constant = self.variable(line, of, &said)?.as_constant();
        constant.ok_or_else(|| {
            wrong(line, format!("{of} is drawn from a distribution"), "write a number here")
        })
    }

    fn variable(&self, line: usize, of: &str, said: &Said) -> Result<Variable, LanguageError> {
        match self.resolve(line, said)? {
            Said::Drawn { kind, parameters } => drawn(line, &kind, &parameters),
            Said::Bare(text) | Said::Quoted(text) => {
                amount(&text).map(Variable::constant).ok_or_else(|| {
                    let what = format!("{of} = {text} is no number");
                    wrong(
                        line,
                        what,
                        "write a number such as 16384 or 16k (k, m, g, t: powers of 1024)",
                    )
                })
            }
        }
    }

    fn fileset(
        &mut self,
        statement: &Statement,
        entries: Option<u64>,
    ) -> Result<(), LanguageError> {
        const NAMES: [&str; 16] = [
            "name",
            "path",
            "entries",
            "size",
            "prealloc",
            "paralloc",
            "reuse",
            "trusttree",
            "readonly",
            "writeonly",
            "dirwidth",
            "dirdepthrv",
            "dirgamma",
            "leafdirs",
            "cached",
            "filesizegamma",
        ];
        let line = statement.line;
        let said = Attributes::new(self, statement, &NAMES)?;
        let name = said.text("name")?;
        let entries = match entries {
            Some(entries) => entries,
            None => said.number("entries")?.unwrap_or(0.0) as u64,
        };
        if !(1..=MOST_ENTRIES).contains(&entries) {
            let what = format!("{name} has {entries} files");
            return Err(wrong(line, what, format!("write entries from 1 to {MOST_ENTRIES}")));
        }
        let preallocated = match said.find("prealloc") {
            None => 0.0,
            Some(Attribute { value: None, .. }) => 100.0,
            Some(_) => match said.flag("prealloc") {
                Ok(all) => 100.0 * f64::from(u8::from(all)),
                Err(_) => said.number("prealloc")?.unwrap_or(0.0),
            },
        };
        if !(0.0..=100.0).contains(&preallocated) {
            let what = format!("prealloc = {preallocated} is no percentage");
            return Err(wrong(line, what, "write a number from 0 to 100"));
        }
        if self.model.filesets.iter().any(|other| other.name == name) {
            return Err(wrong(
                line,
                format!("{name} is defined twice"),
                "give each set its own name",
            ));
        }
        let size = said.variable("size")?.unwrap_or(Variable::constant(0.0));
        let set =
            Fileset { name, entries: entries as u32, size, preallocated_percent: preallocated };
        self.model.filesets.push(set);
        Ok(())
    }

    fn process(&mut self, statement: &Statement) -> Result<(), LanguageError> {
        let said = Attributes::new(self, statement, &["name", "instances", "nice"])?;
        let instances = said.number("instances")?.unwrap_or(1.0) as u64;
        self.processes += 1;
        let mut threads = Vec::new();
        for inner in &statement.body {
            if inner.words != ["thread"] {
                let what = format!("`{}` stands in a process", inner.words.join(" "));
                return Err(wrong(inner.line, what, "a process consists of thread … { … }"));
            }
            threads.extend(self.thread(inner)?);
        }
        let all = threads.len() as u64 * instances + self.model.threads.len() as u64;
        if all > MOST_THREADS {
            let what = format!("it has {all} threads");
            return Err(wrong(statement.line, what, format!("define {MOST_THREADS} at most")));
        }
        for _ in 0..instances {
            self.model.threads.extend(threads.iter().cloned());
        }
        Ok(())
    }

    fn thread(&self, statement: &Statement) -> Result<Vec<Thread>, LanguageError> {
        let names = ["name", "instances", "memsize", "useism", "ioprio"];
        let said = Attributes::new(self, statement, &names)?;
        let instances = said.number("instances")?.unwrap_or(1.0) as u64;
        if instances > MOST_THREADS {
            let what = format!("it has {instances} instances");
            return Err(wrong(statement.line, what, format!("write {MOST_THREADS} at most")));
        }
        let memory_bytes = said.number("memsize")?.unwrap_or(0.0) as u64;
        let mut flowops = Vec::new();
        for inner in &statement.body {
            flowops.push(self.flowop(inner, memory_bytes)?);
        }
        for (flowop, inner) in flowops.iter().zip(&statement.body) {
            let Some(target) = &flowop.target else { continue };
            let moves = flowop.kind == Kind::BwLimit || flowop.kind == Kind::FinishOnBytes;
            let found = flowops.iter().find(|other| other.name == *target);
            if found
                .is_none_or(|other| !other.kind.is_counted() || moves && !other.kind.moves_data())
            {
                let what = format!("there is nothing in this thread to count by the name {target}");
                return Err(wrong(
                    inner.line,
                    what,
                    "name a flowop of the same thread, or leave target out",
                ));
            }
        }
        if flowops.is_empty() {
            return Err(wrong(statement.line, "a thread does nothing", "add flowop … to it"));
        }
        Ok(vec![Thread { memory_bytes, flowops }; instances as usize])
    }

    fn flowop(&self, statement: &Statement, memory_bytes: u64) -> Result<Flowop, LanguageError> {
        const NAMES: [&str; 20] = [
            "name",
            "filesetname",
            "filename",
            "fd",
            "srcfd",
            "iosize",
            "wss",
            "workingset",
            "random",
            "dsync",
            "directio",
            "iters",
            "value",
            "opennext",
            "rotatefd",
            "target",
            "blocking",
            "highwater",
            "noreadahead",
            "indexed",
        ];
        let line = statement.line;
        let [flowop, kind] = statement.words.as_slice() else {
            let mend = "a thread consists of flowop KIND name=…,…";
            return Err(wrong(
                line,
                format!("`{}` stands in a thread", statement.words.join(" ")),
                mend,
            ));
        };
        if flowop != "flowop" {
            let mend = "a thread consists of flowop KIND name=…,…";
            return Err(wrong(line, format!("`{flowop}` stands in a thread"), mend));
        }
        let Some((_, kind)) = Kind::ALL.iter().find(|(name, _)| name == kind) else {
            let names = || Kind::ALL.iter().map(|(name, _)| *name);
            let mend = match nearest(kind, names()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("what is simulated: {}", names().collect::<Vec<_>>().join(", ")),
            };
            return Err(wrong(line, format!("flowop {kind} is not simulated"), mend));
        };
        let said = Attributes::new(self, statement, &NAMES)?;
        for name in ["directio", "noreadahead"] {
            if said.flag(name)? {
                let mend = format!("leave {name} out, or say {name}=0");
                return Err(wrong(line, format!("{name} of Filebench is not simulated"), mend));
            }
        }
        if let Some(Attribute { name, .. }) = said.find("indexed").or(said.find("blocking")) {
            return Err(wrong(line, format!("{name} is not simulated"), "leave it out"));
        }
        let fileset = match said.find("filesetname").or(said.find("filename")) {
            None => None,
            Some(attribute) => Some(self.fileset_of(line, &said, &attribute.name)?),
        };
        let descriptor = |name: &str| -> Result<usize, LanguageError> {
            let number = said.number(name)?.unwrap_or(0.0);
            let most = super::state::DESCRIPTORS - 1;
            if number < 0.0 || number as usize > most {
                let what = format!("{name} = {number} is no descriptor");
                return Err(wrong(line, what, format!("write a number from 0 to {most}")));
            }
            Ok(number as usize)
        };
        let needs = kind.needs_fileset();
        if fileset.is_none() && (needs || kind.moves_data() && descriptor("fd")? == 0) {
            let what = format!("{} has no set of files", said.text("name").unwrap_or_default());
            return Err(wrong(line, what, "add filesetname=NAME"));
        }
        let io_bytes = said.variable("iosize")?;
        let io = io_bytes.as_ref().and_then(Variable::as_constant);
        let one_io = !matches!(kind, Kind::ReadWholeFile | Kind::WriteWholeFile);
        if kind.moves_data()
            && one_io
            && io.unwrap_or(0.0) < 1.0
            && io_bytes.as_ref().is_none_or(|_| io.is_some())
        {
            return Err(wrong(
                line,
                "nothing is moved at once",
                "add iosize=SIZE, such as iosize=16k",
            ));
        }
        if memory_bytes > 0 && io.is_some_and(|bytes| bytes > memory_bytes as f64) {
            let what = format!("iosize is above the thread's memsize of {memory_bytes} bytes");
            return Err(wrong(line, what, "write a larger memsize"));
        }
        let iterations = said.variable("iters")?.unwrap_or(Variable::constant(1.0));
        if iterations.as_constant().is_some_and(|times| times < 1.0) {
            return Err(wrong(
                line,
                "it is done less than once",
                "write iters=1 or more, or leave it out",
            ));
        }
        let value = said.variable("value")?;
        let most = MOST_VALUE[usize::from(*kind == Kind::Delay)];
        let bounded = matches!(kind, Kind::Hog | Kind::Delay);
        if bounded && value.as_ref().is_some_and(|value| value.most() > most) {
            return Err(wrong(line, format!("value may be above {most}"), "write a smaller value"));
        }
        let working_set = match said.find("workingset") {
            Some(_) => said.number("workingset")?,
            None => said.number("wss")?,
        };
        if working_set.is_some_and(|bytes| bytes > MOST_WORKING_SET) {
            return Err(wrong(line, "the working set is above 1t", "write a smaller one"));
        }
        Ok(Flowop {
            name: said.text("name").unwrap_or_default(),
            fileset,
            descriptor: descriptor("fd")?,
            source: descriptor("srcfd")?,
            io_bytes,
            working_set_bytes: working_set.map(|bytes| bytes as u64),
            random: said.flag("random")?,
            synchronous: said.flag("dsync")?,
            rotates: said.flag("rotatefd")? || said.flag("opennext")?,
            iterations,
            value,
            target: match said.find("target") {
                Some(_) => Some(said.text("target")?),
                None => None,
            },
            ..Flowop::new(*kind)
        })
    }

    fn fileset_of(
        &self,
        line: usize,
        said: &Attributes,
        name: &str,
    ) -> Result<usize, LanguageError> {
        let set = said.text(name)?;
        let sets = || self.model.filesets.iter().map(|set| set.name.as_str());
        sets().position(|name| name == set).ok_or_else(|| {
            let mend = match nearest(&set, sets()) {
                Some(near) => format!("did you mean {near}?"),
                None => "define the set before the process".into(),
            };
            wrong(line, format!("there is no set of files {set}"), mend)
        })
    }
}

/// A statement's attributes, of which all are known.
struct Attributes<'a> {
    reader: &'a Reader<'a>,
    statement: &'a Statement,
}

impl<'a> Attributes<'a> {
    fn new(
        reader: &'a Reader<'a>,
        statement: &'a Statement,
        names: &[&str],
    ) -> Result<Attributes<'a>, LanguageError> {
        for Attribute { name, .. } in &statement.attributes {
            if !names.contains(&name.as_str()) {
                let mend = match nearest(name, names.iter().copied()) {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("it has {}", names.join(", ")),
                };
                let what = format!("{} has no attribute {name}", statement.words.join(" "));
                return Err(wrong(statement.line, what, mend));
            }
        }
        Ok(Attributes { reader, statement })
    }

    fn find(&self, name: &str) -> Option<&'a Attribute> {
        self.statement.attributes.iter().find(|attribute| attribute.name == name)
    }

    fn variable(&self, name: &str) -> Result<Option<Variable>, LanguageError> {
        let line = self.statement.line;
        match self.find(name).and_then(|attribute| attribute.value.as_ref()) {
            Some(said) => self.reader.variable(line, name, said).map(Some),
            None => Ok(None),
        }
    }

    fn number(&self, name: &str) -> Result<Option<f64>, LanguageError> {
        let line = self.statement.line;
        match self.find(name).and_then(|attribute| attribute.value.as_ref()) {
            Some(said) => self.reader.number(line, name, said).map(Some),
            None => Ok(None),
        }
    }

    fn flag(&self, name: &str) -> Result<bool, LanguageError> {
        let line = self.statement.line;
        let Some(attribute) = self.find(name) else { return Ok(false) };
        let Some(value) = &attribute.value else { return Ok(true) };
        match self.reader.resolve(line, value)? {
            Said::Bare(text) | Said::Quoted(text) if text == "true" || text == "1" => Ok(true),
            Said::Bare(text) | Said::Quoted(text) if text == "false" || text == "0" => Ok(false),
            _ => {
                Err(wrong(line, format!("{name} is neither true nor false"), "write true or false"))
            }
        }
    }

    fn text(&self, name: &str) -> Result<String, LanguageError> {
        let line = self.statement.line;
        let value = self.find(name).and_then(|attribute| attribute.value.as_ref());
        let Some(value) = value else {
            let what = format!("{} has no {name}", self.statement.words.join(" "));
            return Err(wrong(line, what, format!("add {name}=…")));
        };
        match self.reader.resolve(line, value)? {
            Said::Bare(text) | Said::Quoted(text) => Ok(text),
            Said::Drawn { .. } => Err(wrong(line, format!("{name} is no text"), "write a name")),
        }
    }
}

/// A number, perhaps with a power of 1024.
fn amount(text: &str) -> Option<f64> {
    let (digits, unit) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1u64 << 10),
        (at, 'm' | 'M') => (&text[..at], 1 << 20),
        (at, 'g' | 'G') => (&text[..at], 1 << 30),
        (at, 't' | 'T') => (&text[..at], 1 << 40),
        _ => (text, 1),
    };
    let number =
        digits.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)?;
    Some(number * unit as f64).filter(|number| *number < 2f64.powi(62))
}

/// A custom variable: its type, and its parameters with the defaults of Filebench's `cvars/`.
fn drawn(line: usize, kind: &str, parameters: &[(String, f64)]) -> Result<Variable, LanguageError> {
    const KINDS: [(&str, &[&str]); 7] = [
        ("cvar-gamma", &["mean", "gamma"]),
        ("cvar-exponential", &["mean"]),
        ("cvar-uniform", &["lower", "upper"]),
        ("cvar-normal", &["mean", "sigma"]),
        ("cvar-lognormal", &["scale", "shape"]),
        ("cvar-triangular", &["lower", "upper", "mode"]),
        ("cvar-weibull", &["scale", "shape"]),
    ];
    let Some((_, names)) = KINDS.iter().find(|(name, _)| *name == kind) else {
        let all: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
        let mend = format!("write {}", all.join(", "));
        return Err(wrong(line, format!("there is no distribution {kind}"), mend));
    };
    if let Some((name, _)) = parameters.iter().find(|(name, _)| !names.contains(&name.as_str())) {
        let mend = format!("it has {}", names.join(", "));
        return Err(wrong(line, format!("{kind} has no parameter {name}"), mend));
    }
    let missing = names.iter().find(|name| parameters.iter().all(|(said, _)| said != *name));
    if let Some(name) = missing.filter(|name| **name != "gamma") {
        let mend = format!("add {name}:NUMBER to parameters=");
        return Err(wrong(line, format!("{kind} lacks {name}"), mend));
    }
    let of = |name: &str| parameters.iter().find(|(said, _)| said == name).map_or(1.5, |(_, v)| *v);
    let variable = Variable::of(match kind {
        "cvar-gamma" => Distribution::Gamma { mean: of("mean"), shape: of("gamma") },
        "cvar-exponential" => Distribution::Exponential { mean: of("mean") },
        "cvar-uniform" => Distribution::Uniform { lower: of("lower"), upper: of("upper") },
        "cvar-normal" => Distribution::Normal { mean: of("mean"), deviation: of("sigma") },
        "cvar-lognormal" => Distribution::LogNormal { scale: of("scale"), shape: of("shape") },
        "cvar-triangular" => {
            Distribution::Triangular { lower: of("lower"), upper: of("upper"), mode: of("mode") }
        }
        _ => Distribution::Weibull { scale: of("scale"), shape: of("shape") },
    });
    variable.check().map_err(|why| {
        wrong(line, format!("{kind} has impossible parameters: {why}"), "write others")
    })?;
    Ok(variable.between(0.0, (1u64 << 50) as f64))
}

#[cfg(test)]
mod tests;
