//! The JSON that a recording has of itself: which keys with what behind them. What else is there is told by
//! key, in the format's words.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// What is behind a key.
pub(super) enum Kind {
    Text,
    /// Any of these.
    OneOf(&'static [&'static str]),
    Count,
    Flag,
    Object(&'static [Field]),
    List(&'static Kind),
}

/// A key, whether it has to be there, and what is behind it.
pub(super) struct Field(&'static str, bool, Kind);

use Kind::{Count, Flag, List, Object, OneOf, Text};

pub(super) const HEADER: &Kind = &Object(&[
    Field("command", true, List(&Text)),
    Field("tierscope_version", true, Text),
    Field("recorder", true, Text),
    Field("sites", false, OneOf(&["function", "address"])),
    Field("filter", false, FILTER),
    Field("windows", false, WINDOWS),
]);

const FILTER: Kind = Object(&[
    Field("capacity_bytes", true, Count),
    Field("ways", true, Count),
    Field("line_bytes", true, Count),
]);

const WINDOWS: Kind = Object(&[
    Field("window_accesses", true, Count),
    Field("period_accesses", true, Count),
    Field("start_accesses", false, Count),
]);

pub(super) const TOTALS: &Kind = &Object(&[
    Field("threads", true, Count),
    Field("operations", true, Count),
    Field("loads", true, Count),
    Field("stores", true, Count),
    Field("calls", true, Count),
    Field("instructions", true, Count),
    Field("ended", true, Text),
    Field("cut", false, Flag),
    Field("left_out_loads", false, Count),
    Field("left_out_stores", false, Count),
    Field("skipped", false, SKIPPED),
    Field("marks", false, List(&Count)),
    Field("missing", false, List(&Text)),
]);

const SKIPPED: Kind = Object(&[
    Field("windows", true, Count),
    Field("loads", true, Count),
    Field("stores", true, Count),
    Field("instructions", true, Count),
]);

pub(super) const FILES: &Kind =
    &List(&Object(&[Field("name", true, Text), Field("size_bytes", true, Count)]));

pub(super) const SITES: &Kind = &List(&Object(&[
    Field("number", true, Count),
    Field("file", true, Text),
    Field("function", true, Text),
    Field("start", true, Count),
    Field("address", true, Count),
]));

/// What JSON says, which is to be of this kind. An error says what is not.
pub(super) fn parse<T: DeserializeOwned>(raw: &[u8], kind: &Kind) -> Result<T, String> {
    // Serde takes an array for an object too.
    check(raw, kind)?;
    serde_json::from_slice(raw).map_err(|error| error.to_string())
}

/// What is wrong with JSON that serde did not take.
pub(super) fn told(what: &str, raw: &[u8], kind: &Kind, error: &serde_json::Error) -> String {
    let why = check(raw, kind).err().unwrap_or_else(|| error.to_string());
    format!("{what}: {why}")
}

fn check(raw: &[u8], kind: &Kind) -> Result<(), String> {
    let value: Value = serde_json::from_slice(raw).map_err(|error| {
        format!("it is no JSON (line {}, column {})", error.line(), error.column())
    })?;
    kind.check("", &value)
}

impl Kind {
    /// Checks what is at a path.
    fn check(&self, path: &str, value: &Value) -> Result<(), String> {
        let fits = match (self, value) {
            (Object(fields), Value::Object(said)) => {
                let dot = if path.is_empty() { "" } else { "." };
                for Field(key, needed, kind) in *fields {
                    let at = format!("{path}{dot}{key}");
                    match said.get(*key) {
                        None if !needed => {}
                        None => return Err(format!("`{at}` is missing")),
                        Some(value) => kind.check(&at, value)?,
                    }
                }
                true
            }
            (List(kind), Value::Array(values)) => {
                for (index, value) in values.iter().enumerate() {
                    kind.check(&format!("{path}[{index}]"), value)?;
                }
                true
            }
            (Text, Value::String(_)) | (Flag, Value::Bool(_)) => true,
            (OneOf(words), Value::String(said)) => words.contains(&said.as_str()),
            (Count, value) => value.is_u64(),
            _ => false,
        };
        if fits { Ok(()) } else { Err(self.differs(path, value)) }
    }

    fn differs(&self, path: &str, value: &Value) -> String {
        const SHOWN: usize = 40;
        let mut said = value.to_string();
        if said.len() > SHOWN {
            said.truncate(said.floor_char_boundary(SHOWN));
            said.push('…');
        }
        let what = if path.is_empty() { "it".into() } else { format!("`{path}`") };
        let right = match self {
            Text => "a text".into(),
            OneOf(words) => words.join(" or "),
            Count => "a whole number".into(),
            Flag => "true or false".into(),
            Object(fields) => {
                let keys = fields.iter().filter(|Field(_, needed, _)| *needed);
                let keys: Vec<_> = keys.map(|Field(key, ..)| *key).collect();
                format!("an object with {}", keys.join(", "))
            }
            List(_) => "an array".into(),
        };
        format!("{what} is {said}, and is to be {right}")
    }
}
