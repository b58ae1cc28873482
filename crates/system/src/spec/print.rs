//! Prints a resolved machine as TOML, each value with its source as a comment behind it, and on
//! request with its meaning above it.

use super::load::{Resolved, load};
use super::shape::{Field, Shape, Table, shape};
use serde_json::Value;
use std::fmt::Write;
use tierscope_units::Problems;

/// The machine as TOML, each value with its source as a trailing comment. It loads back to the
/// same machine.
pub fn to_toml(resolved: &Resolved) -> String {
    // A description is made of texts, integers, finite numbers and tables: it has a JSON form.
    let json = serde_json::to_value(&resolved.spec).unwrap_or_default();
    let mut printer = Printer { resolved, out: String::new(), meanings: false };
    printer.table(shape(), &json, "");
    printer.out
}

/// The machine as TOML to start another from: as [`to_toml`], and above each value its meaning.
///
/// Further items of a list go without meanings: those of the first hold for them.
pub fn to_commented_toml(resolved: &Resolved) -> String {
    let json = serde_json::to_value(&resolved.spec).unwrap_or_default();
    let mut printer = Printer { resolved, out: String::new(), meanings: true };
    printer.table(shape(), &json, "");
    printer.out
}

/// A preset or file as TOML, each value with its source.
///
/// # Errors
/// As [`load`].
pub fn show(name: &str) -> Result<String, Problems> {
    load(name, &[]).map(|resolved| to_toml(&resolved))
}

/// Characters of a line of meanings.
const WIDTH: usize = 96;

/// What a key means, with the words that it may be.
fn meaning(field: &Field) -> String {
    let mut meaning = field.description.clone();
    if let Shape::Word(words) = &field.shape {
        for word in words {
            meaning.push_str(&format!(" \"{}\": {}", word.name, word.description));
        }
    }
    meaning
}

struct Printer<'a> {
    resolved: &'a Resolved,
    out: String,
    /// Whether meanings are written above values.
    meanings: bool,
}

impl Printer<'_> {
    /// Values first, then tables: TOML wants it so.
    fn table(&mut self, table: &Table, json: &Value, path: &str) {
        let mut below = Vec::new();
        for field in &table.fields {
            let value = &json[&field.name];
            let path = super::walk::join(path, &field.name);
            if value.is_null() {
                continue;
            }
            match &field.shape {
                Shape::Table(inner) => match self.in_one_line(inner, value, &path) {
                    Some(line) => {
                        self.meaning(&meaning(field));
                        self.line(&field.name, &line, &format!("{path}.{}", inner.fields[0].name));
                    }
                    None => below.push((field, value, path)),
                },
                Shape::List(_) => below.push((field, value, path)),
                _ => {
                    self.meaning(&meaning(field));
                    self.line(&field.name, &scalar(value), &path);
                }
            }
        }
        for (field, value, path) in below {
            match &field.shape {
                Shape::Table(inner) => {
                    self.heading(&format!("[{path}]"), &meaning(field));
                    self.table(inner, value, &path);
                }
                Shape::List(items) => self.list(items, &meaning(field), value, &path),
                _ => {}
            }
        }
    }

    fn list(&mut self, items: &Shape, meaning: &str, value: &Value, path: &str) {
        let Shape::Table(table) = items else { return };
        let meanings = self.meanings;
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            self.heading(&format!("[[{}]]", without_indices(path)), meaning);
            self.table(table, item, &format!("{path}[{index}]"));
            self.meanings = false;
        }
        self.meanings = meanings;
    }

    /// A small table of plain values that share one source, such as a kernel path.
    fn in_one_line(&self, table: &Table, value: &Value, path: &str) -> Option<String> {
        let plain = |shape: &Shape| matches!(shape, Shape::Integer { .. });
        if table.fields.len() > 2 || !table.fields.iter().all(|field| plain(&field.shape)) {
            return None;
        }
        let source = |name: &str| self.source(&format!("{path}.{name}"));
        let first = source(&table.fields[0].name);
        if table.fields.iter().any(|field| source(&field.name) != first) {
            return None;
        }
        let each = table.fields.iter();
        let parts = each.map(|field| format!("{} = {}", field.name, scalar(&value[&field.name])));
        Some(format!("{{ {} }}", parts.collect::<Vec<_>>().join(", ")))
    }

    /// A comment of lines of its own: a reader takes only what stands behind a value for a source.
    fn meaning(&mut self, text: &str) {
        if !self.meanings {
            return;
        }
        let mut line = String::from("#");
        for word in text.split_whitespace() {
            if line.len() > 1 && line.chars().count() + 1 + word.chars().count() > WIDTH {
                self.out.push_str(&line);
                self.out.push('\n');
                line = String::from("#");
            }
            line.push(' ');
            line.push_str(word);
        }
        self.out.push_str(&line);
        self.out.push('\n');
    }

    fn heading(&mut self, heading: &str, meaning: &str) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.meaning(meaning);
        self.out.push_str(heading);
        self.out.push('\n');
    }

    fn line(&mut self, key: &str, value: &str, path: &str) {
        let source = self.source(path);
        let result = if source.is_empty() {
            writeln!(self.out, "{key} = {value}")
        } else {
            writeln!(self.out, "{key} = {value}  # {source}")
        };
        debug_assert!(result.is_ok(), "writing to a text cannot fail");
    }

    /// What the value's comment said, else where it was written.
    fn source(&self, path: &str) -> String {
        let Some(source) = self.resolved.sources.get(path) else { return String::new() };
        if self.meanings && source.place.starts_with("preset ") && source.text.is_empty() {
            return String::new(); // Where a preset has its name says nothing to who goes on from it.
        }
        let text = if source.text.is_empty() { &source.place } else { &source.text };
        text.replace(['\n', '\r'], " ")
    }
}

/// Tables of a list have no indices in TOML.
pub(super) fn without_indices(path: &str) -> String {
    path.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest)).collect()
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => toml_edit::Value::from(text.as_str()).to_string(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => integer.to_string(),
            (None, Some(float)) => toml_edit::Value::from(float).to_string(),
            (None, None) => String::new(),
        },
        other => other.to_string(),
    }
}
