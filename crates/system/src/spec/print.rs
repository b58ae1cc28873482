//! Prints a resolved machine as TOML, each value with its source as a comment.

use super::load::{Resolved, load};
use super::shape::{Shape, Table, shape};
use serde_json::Value;
use std::fmt::Write;
use tierscope_units::Problems;

/// The machine as TOML, each value with its source as a trailing comment. It loads back to the
/// same machine.
pub fn to_toml(resolved: &Resolved) -> String {
    // A description is made of texts, integers, finite numbers and tables: it has a JSON form.
    let json = serde_json::to_value(&resolved.spec).unwrap_or_default();
    let mut printer = Printer { resolved, out: String::new() };
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

struct Printer<'a> {
    resolved: &'a Resolved,
    out: String,
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
                        self.line(&field.name, &line, &format!("{path}.{}", inner.fields[0].name))
                    }
                    None => below.push((field, value, path)),
                },
                Shape::List(_) => below.push((field, value, path)),
                _ => self.line(&field.name, &scalar(value), &path),
            }
        }
        for (field, value, path) in below {
            match &field.shape {
                Shape::Table(inner) => {
                    self.heading(&format!("[{path}]"));
                    self.table(inner, value, &path);
                }
                Shape::List(items) => self.list(items, value, &path),
                _ => {}
            }
        }
    }

    fn list(&mut self, items: &Shape, value: &Value, path: &str) {
        let Shape::Table(table) = items else { return };
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            self.heading(&format!("[[{}]]", without_indices(path)));
            self.table(table, item, &format!("{path}[{index}]"));
        }
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

    fn heading(&mut self, heading: &str) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
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
