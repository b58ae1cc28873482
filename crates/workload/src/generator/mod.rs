//! Generated workloads: one file each, and one line in the list below. A file's `GENERATORS` are a
//! workload, or the variants of one, `NAME/VARIANT`.

/// Makes of the list of generators their modules and [`GENERATORS`].
macro_rules! generators {
    ($( $module:ident; )*) => {
        $( pub mod $module; )*

        const MODULES: &[&[Generator]] = &[ $( $module::GENERATORS ),* ];
    };
}

generators! {
    gups;
    mmap;
    chase;
    stream;
    strided;
    zipf;
    dd;
    filebench;
    postmark;
    save;
    kernel;
    mmap_benchmark;
    sqlite;
    rodinia_bfs;
    rodinia_kmeans;
    rodinia_nn;
    graph_walk;
    thrash;
    xdd;
    dgemm;
    bdb;
    science;
    ycsb;
    llm;
    nas;
    nas_cg;
    nas_is;
    nas_ua;
}

mod indexed;
#[cfg(test)]
mod laws;
mod mix;
mod nest;
pub(crate) mod prelude;
mod units;
mod zipfian;

/// Every generated workload, in the order of lists: those of all modules.
pub const GENERATORS: &[Generator] = &joined::<{ count(MODULES) }>(MODULES);

const fn count(modules: &[&[Generator]]) -> usize {
    let (mut all, mut module) = (0, 0);
    while module < modules.len() {
        all += modules[module].len();
        module += 1;
    }
    all
}

const fn joined<const N: usize>(modules: &[&[Generator]]) -> [Generator; N] {
    let mut all = [modules[0][0]; N];
    let (mut at, mut module) = (0, 0);
    while module < modules.len() {
        let mut variant = 0;
        while variant < modules[module].len() {
            all[at] = modules[module][variant];
            at += 1;
            variant += 1;
        }
        module += 1;
    }
    all
}

use crate::Stream;
use serde::Serialize;
use serde_json::Value;
use tierscope_units::{count as count_in, nearest, percent};

/// A generator's stream, or what is wrong with its parameters.
pub type Made = Result<Box<dyn Stream>, ParameterError>;

/// Parameters by name, as they are used.
pub type Parameters = Vec<(String, Value)>;

/// A generated workload, as `tierscope show workloads` lists it.
#[derive(Clone, Copy)]
pub struct Generator {
    /// Name that a user types.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Which accesses wait for which, since what one loads is where the other goes; empty where none does.
    pub dependences: &'static str,
    /// Parameters with their defaults.
    pub parameters: &'static [Parameter],
    /// Makes the stream from parameters (all present, types as in the defaults) and a seed.
    pub build: fn(&[(String, Value)], u64) -> Made,
}

/// A parameter of a generated workload.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Parameter {
    /// Name, set by `--set workload.NAME=VALUE`.
    pub name: &'static str,
    /// Default, as TOML.
    pub default: &'static str,
    /// Meaning, unit and source.
    pub meaning: &'static str,
}

/// A parameter is unknown or its value impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("workload.{name} = {value}: {reason}; {mend}")]
pub struct ParameterError {
    /// Whether there is no such parameter; else its value is wrong.
    pub unknown: bool,
    /// The parameter.
    pub name: String,
    /// The value as given.
    pub value: String,
    /// What is wrong.
    pub reason: String,
    /// What to write.
    pub mend: String,
}

/// Other names of generators, which are found but not listed.
pub const ALIASES: &[(&str, &str)] = &[("kernel/build", "build"), ("kernel/patch", "patch")];

/// The generator of that name.
pub fn find(name: &str) -> Option<&'static Generator> {
    let other = ALIASES.iter().find(|(other, _)| *other == name);
    let name = other.map_or(name, |(_, name)| name);
    GENERATORS.iter().find(|g| g.name == name)
}

impl Generator {
    /// Fills in defaults, refuses unknown names, and makes the stream. Also gives the parameters
    /// as they are used.
    pub fn make(
        &self,
        given: &[(String, Value)],
        seed: u64,
    ) -> Result<(Box<dyn Stream>, Parameters), ParameterError> {
        for (name, value) in given {
            if !self.parameters.iter().any(|p| p.name == name) {
                return Err(self.unknown(name, value));
            }
        }
        let all = filled(self.parameters, given);
        let stream = (self.build)(&all, seed)?;
        Ok((stream, all))
    }
}

impl Generator {
    fn unknown(&self, name: &str, value: &Value) -> ParameterError {
        let names: Vec<&str> = self.parameters.iter().map(|p| p.name).collect();
        ParameterError {
            unknown: true,
            name: name.to_owned(),
            value: value.to_string(),
            reason: format!("the workload {} has no such parameter", self.name),
            mend: match nearest(name, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it has {}", names.join(", ")),
            },
        }
    }
}

/// All parameters: those that are given, and the defaults of the others. A number that is given as a text,
/// such as `2M` or `20%`, is a number then.
pub(crate) fn filled(all: &[Parameter], given: &[(String, Value)]) -> Parameters {
    let each = all.iter().map(|Parameter { name, default, .. }| {
        let default = serde_json::from_str(default).unwrap_or_else(|_| Value::from(*default));
        let value = match given.iter().rev().find(|(of, _)| of == name) {
            Some((_, value)) => match number(value) {
                // A percentage is no count: the error of one shows what was written.
                number if default.is_f64() || default.is_u64() && number.is_u64() => number,
                _ => value.clone(),
            },
            None => default,
        };
        ((*name).to_owned(), value)
    });
    each.collect()
}

/// A text that says a count or a percentage as a number; all else as it is.
fn number(value: &Value) -> Value {
    let text = value.as_str().unwrap_or_default();
    let number = count_in(text).map(Value::from).or_else(|| percent(text).map(Value::from));
    number.unwrap_or_else(|| value.clone())
}

fn find_value<'a>(parameters: &'a [(String, Value)], name: &str) -> &'a Value {
    parameters.iter().find(|(n, _)| n == name).map_or(&Value::Null, |(_, v)| v)
}

pub(crate) fn wrong(name: &str, value: &Value, reason: &str, mend: &str) -> ParameterError {
    ParameterError {
        unknown: false,
        name: name.into(),
        value: value.to_string(),
        reason: reason.into(),
        mend: mend.into(),
    }
}

/// What is written for a whole number in a range, which may be shortened where it may be long.
fn whole_number(range: &std::ops::RangeInclusive<u64>) -> String {
    let (least, most) = (range.start(), range.end());
    let forms = if *most < 2_000_000 { "" } else { ", such as 2000000 or 2M (k, M, G, T)" };
    format!("write a whole number from {least} to {most}{forms}")
}

/// A whole number in a range, which may be a text with a decimal factor.
pub(crate) fn integer(
    parameters: &[(String, Value)],
    name: &str,
    range: std::ops::RangeInclusive<u64>,
) -> Result<u64, ParameterError> {
    let value = find_value(parameters, name);
    number(value).as_u64().filter(|n| range.contains(n)).ok_or_else(|| {
        let mend = whole_number(&range);
        wrong(name, value, "not a whole number in its range", &mend)
    })
}

/// A share between 0 and 1, which may be a text in percent.
pub(crate) fn share(parameters: &[(String, Value)], name: &str) -> Result<f64, ParameterError> {
    let value = find_value(parameters, name);
    number(value).as_f64().filter(|p| (0.0..=1.0).contains(p)).ok_or_else(|| {
        wrong(name, value, "not a probability", "write a number from 0 to 1, such as 0.1 or 10%")
    })
}

/// A size with its unit.
pub(crate) fn size(parameters: &[(String, Value)], name: &str) -> Result<u64, ParameterError> {
    let value = find_value(parameters, name);
    let text = value.as_str().ok_or_else(|| {
        wrong(name, value, "a size needs its unit", "write it as a string, such as \"512MiB\"")
    })?;
    match text.parse::<tierscope_units::Size>() {
        Ok(size) => Ok(size.bytes()),
        Err(error) => Err(wrong(name, value, &error.to_string(), "write a size such as 512MiB")),
    }
}

/// Bytes of a page, in which data are sized.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Threads of a workload: from 1 to 4096.
pub(crate) fn threads_of(parameters: &[(String, Value)]) -> Result<u32, ParameterError> {
    Ok(integer(parameters, "threads", 1..=4096)? as u32)
}

/// A size in whole pages, from one to 2⁵⁰ bytes: given so, or `quick` or `full`, which stand for
/// sizes of the workload's own.
pub(crate) fn data_set(
    parameters: &[(String, Value)],
    name: &str,
    quick_bytes: u64,
    full_bytes: u64,
) -> Result<u64, ParameterError> {
    let bytes = match text(parameters, name) {
        Some("quick") => quick_bytes,
        Some("full") => full_bytes,
        _ => size(parameters, name)?,
    };
    if (PAGE_BYTES..=1 << 50).contains(&bytes) && bytes.is_multiple_of(PAGE_BYTES) {
        return Ok(bytes);
    }
    let reason = "not a whole number of pages of 4KiB, of 1PiB at most";
    Err(wrong(
        name,
        find_value(parameters, name),
        reason,
        "write quick, full or a size such as 64MiB",
    ))
}

/// A whole number in a range, or `auto`.
pub(crate) fn integer_or_auto(
    parameters: &[(String, Value)],
    name: &str,
    range: std::ops::RangeInclusive<u64>,
) -> Result<Option<u64>, ParameterError> {
    if text(parameters, name) == Some("auto") {
        return Ok(None);
    }
    let mend = format!("{}; or auto", whole_number(&range));
    integer(parameters, name, range).map(Some).map_err(|error| ParameterError { mend, ..error })
}

/// A text, where it is one.
pub(crate) fn text<'a>(parameters: &'a [(String, Value)], name: &str) -> Option<&'a str> {
    find_value(parameters, name).as_str()
}

/// A truth value.
pub(crate) fn flag(parameters: &[(String, Value)], name: &str) -> Result<bool, ParameterError> {
    let value = find_value(parameters, name);
    value.as_bool().ok_or_else(|| wrong(name, value, "not a truth value", "write true or false"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_generator_calls_the_laws_of_streams() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/generator");
        let list = std::fs::read_to_string(format!("{folder}/mod.rs")).unwrap();
        let (_, list) = list.split_once("\ngenerators! {\n").unwrap();
        let (list, _) = list.split_once('}').unwrap();
        for module in list.lines().filter_map(|line| line.trim().strip_suffix(';')) {
            let read = |file: &str| std::fs::read_to_string(format!("{folder}/{module}{file}"));
            // Tests lie in the module or in a file of their own.
            let text = read(".rs").unwrap() + &read("/tests.rs").unwrap_or_default();
            assert!(text.contains("stream_laws("), "no test of {module} calls conformance");
        }
    }

    #[test]
    fn numbers_are_taken_as_texts_and_told_as_numbers() {
        let used = |name: &str, given: &[(&str, &str)]| {
            let given: Parameters =
                given.iter().map(|(name, text)| ((*name).into(), Value::from(*text))).collect();
            find(name).unwrap().make(&given, 0).map(|(_, used)| used)
        };
        let gups =
            used("gups", &[("updates", "2M"), ("random", "20%"), ("table", "1MiB")]).unwrap();
        let value = |name: &str| &gups.iter().find(|(one, _)| one == name).unwrap().1;
        assert_eq!(*value("updates"), Value::from(2_000_000));
        assert_eq!(*value("random"), Value::from(0.2));
        assert_eq!(*value("table"), Value::from("1MiB"));
        // Where the default is a word, too.
        assert!(used("sqlite/rnd-insert", &[("transactions", "1.5k")]).is_ok());
        let refused = |given| used("gups", &[given]).unwrap_err().to_string();
        assert_eq!(
            refused(("updates", "2K")),
            "workload.updates = \"2K\": not a whole number in its range; write a whole number from 0 to \
             4611686018427387903, such as 2000000 or 2M (k, M, G, T)"
        );
        assert!(refused(("threads", "20%")).contains("not a whole number"));
        assert!(refused(("random", "200%")).ends_with("from 0 to 1, such as 0.1 or 10%"));
        // A size has its own units, in which M is read in two ways.
        assert!(refused(("table", "2M")).contains("is read as 10^6 and as 2^20 bytes"));
    }

    #[test]
    fn generators_have_names_and_summaries_of_their_own_and_run_as_they_are() {
        let mut names: Vec<&str> = GENERATORS.iter().map(|generator| generator.name).collect();
        for Generator { name, summary, parameters, .. } in GENERATORS {
            let of_a_name =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_/".contains(c);
            assert!(name.chars().all(of_a_name), "{name}");
            assert!(!summary.is_empty() && !summary.ends_with('.'), "{name}: {summary}");
            for Parameter { name: of, meaning, .. } in *parameters {
                assert!(!meaning.is_empty(), "{name}: {of}");
            }
            let (mut stream, used) = find(name).unwrap().make(&[], 0).unwrap();
            assert_eq!(used.len(), parameters.len(), "{name}");
            let footprint = stream.footprint().unwrap();
            assert!(parameters.iter().any(|one| one.name == footprint.parameter), "{name}");
            let mut ops = Vec::new();
            assert_eq!(stream.pull(0, 10, &mut ops), Ok(crate::Pull::More), "{name}");
        }
        for (other, name) in ALIASES {
            assert!(!names.contains(other) && find(other).unwrap().name == *name);
        }
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
