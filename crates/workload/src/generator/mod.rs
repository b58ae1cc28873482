//! Generated workloads: one file each, and one line in the list below.

/// Makes of the list of generators their modules and [`GENERATORS`].
macro_rules! generators {
    ($( $module:ident; )*) => {
        $( pub mod $module; )*

        /// Every generated workload.
        pub const GENERATORS: &[Generator] = &[ $( $module::GENERATOR ),* ];
    };
}

generators! {
    gups;
    mmap;
    chase;
    stream;
    strided;
}

mod indexed;

use crate::Stream;
use serde::Serialize;
use serde_json::Value;
use tierscope_units::nearest;

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

/// The generator of that name.
pub fn find(name: &str) -> Option<&'static Generator> {
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
        let all: Vec<(String, Value)> = self
            .parameters
            .iter()
            .map(|p| {
                let value = given.iter().rev().find(|(name, _)| name == p.name);
                let default = || {
                    serde_json::from_str(p.default)
                        .unwrap_or_else(|_| Value::String(p.default.to_string()))
                };
                (p.name.to_string(), value.map_or_else(default, |(_, v)| v.clone()))
            })
            .collect();
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

/// A whole number in a range.
pub(crate) fn integer(
    parameters: &[(String, Value)],
    name: &str,
    range: std::ops::RangeInclusive<u64>,
) -> Result<u64, ParameterError> {
    let value = find_value(parameters, name);
    value.as_u64().filter(|n| range.contains(n)).ok_or_else(|| {
        let mend = format!("write a whole number from {} to {}", range.start(), range.end());
        wrong(name, value, "not a whole number in its range", &mend)
    })
}

/// A share between 0 and 1.
pub(crate) fn share(parameters: &[(String, Value)], name: &str) -> Result<f64, ParameterError> {
    let value = find_value(parameters, name);
    value.as_f64().filter(|p| (0.0..=1.0).contains(p)).ok_or_else(|| {
        wrong(name, value, "not a probability", "write a number from 0 to 1, such as 0.1")
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
        for Generator { name, summary, .. } in GENERATORS {
            let module = name.split('/').next().unwrap_or(name).replace('-', "_");
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/generator");
            let text = std::fs::read_to_string(format!("{folder}/{module}.rs")).unwrap_or_default();
            assert!(text.contains("stream_laws("), "no test of {name} calls conformance");
            assert!(!summary.is_empty() && !summary.ends_with('.'), "{name}: {summary}");
        }
    }
}
