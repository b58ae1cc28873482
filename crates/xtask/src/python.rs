//! The Python classes of descriptions.

use std::collections::BTreeSet;
use tierscope_model::organization::ORGANIZATIONS;
use tierscope_system::spec::{self, Field, Shape, Table};

/// Width of a line of Python, as the linter has it.
const WIDTH: usize = 100;

const HEADER: &str = "\
# Generated from the Rust types by `cargo run -p tierscope-xtask -- generate`. Do not edit.
\"\"\"Descriptions of machines, typed. None means: as the base has it.\"\"\"

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from tierscope import _check

";

const BASE: &str = "

def _plain(value: object) -> object:
    if isinstance(value, _Spec):
        return value.to_dict()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


@dataclass(frozen=True, kw_only=True)
class _Spec:
    \"\"\"A part of a description.\"\"\"

    if not TYPE_CHECKING:

        def __new__(cls, *given: object, **said: object) -> _Spec:
            _check.keys(cls.__name__, given, said, [field.name for field in fields(cls)])
            return super().__new__(cls)

    def to_dict(self) -> dict[str, Any]:
        \"\"\"What is said, as plain dictionaries, lists, texts and numbers; None is left out.\"\"\"
        said = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: _plain(value) for name, value in said if value is not None}
";

/// The module of Python classes.
pub fn classes() -> String {
    let mut tables = Vec::new();
    collect(spec::shape(), &mut tables);
    let whole = spec::shape().name.as_str();
    let names = tables.iter().map(|table| table.name.as_str()).filter(|name| *name != whole);
    let names: BTreeSet<_> = names.collect();
    let mut module = String::from(HEADER);
    module.push_str("__all__ = [\n");
    for name in names {
        module.push_str(&format!("    \"{name}\",\n"));
    }
    module.push_str("]\n");
    module.push_str(BASE);
    for table in tables {
        class(&mut module, table);
    }
    organizations(&mut module);
    module
}

/// The class of each organization's table.
fn organizations(module: &mut String) {
    module.push_str("\n\nORGANIZATIONS: dict[str, type[_Spec]] = {\n");
    for part in ORGANIZATIONS {
        let Some(Shape::Table(table)) = spec::shape().field(part.key).map(|field| &field.shape)
        else {
            continue;
        };
        module.push_str(&format!("    \"{}\": {},\n", part.key, table.name));
    }
    module.push_str("}\n");
}

/// Each table once, parts before what they are parts of.
fn collect<'a>(table: &'a Table, all: &mut Vec<&'a Table>) {
    for field in &table.fields {
        match &field.shape {
            Shape::Table(inner) => collect(inner, all),
            Shape::List(items) => {
                if let Shape::Table(inner) = &**items {
                    collect(inner, all);
                }
            }
            _ => {}
        }
    }
    if !all.iter().any(|known| known.name == table.name) {
        all.push(table);
    }
}

fn class(module: &mut String, table: &Table) {
    module.push_str("\n\n@dataclass(frozen=True, kw_only=True)\n");
    module.push_str(&format!("class {}(_Spec):\n", table.name));
    docstring(module, &table.description);
    for field in &table.fields {
        module.push('\n');
        module.push_str(&declaration(field));
        docstring(module, &meaning(field));
    }
}

fn declaration(field: &Field) -> String {
    let (name, of) = (&field.name, python_type(&field.shape));
    let line = format!("    {name}: {of} | None = None\n");
    if line.len() <= WIDTH + 1 {
        return line;
    }
    let words = of.strip_prefix("Literal[").and_then(|of| of.strip_suffix(']'));
    let words = words.unwrap_or_else(|| panic!("{name}: {of} needs a line of its own kind"));
    let mut items = format!("            {words}\n");
    if items.len() > WIDTH + 1 {
        let one = |word: &str| format!("            {word},\n");
        items = words.split(", ").map(one).collect();
    }
    format!("    {name}: (\n        Literal[\n{items}        ]\n        | None\n    ) = None\n")
}

fn python_type(shape: &Shape) -> String {
    match shape {
        Shape::Quantity(_) | Shape::Text => "str".into(),
        Shape::Integer { .. } => "int".into(),
        Shape::Number => "float".into(),
        Shape::Boolean => "bool".into(),
        Shape::Word(words) => {
            let words: Vec<_> = words.iter().map(|word| format!("\"{}\"", word.name)).collect();
            format!("Literal[{}]", words.join(", "))
        }
        Shape::Table(table) => table.name.clone(),
        Shape::List(items) => format!("Sequence[{}]", python_type(items)),
    }
}

fn meaning(field: &Field) -> String {
    let mut meaning = field.description.clone();
    match &field.shape {
        Shape::Quantity(kind) => {
            meaning.push_str(&format!(
                " {} such as ``\"{}\"``.",
                article(kind.name),
                kind.examples[0]
            ));
        }
        Shape::Word(words) => {
            for word in words {
                meaning.push_str(&format!(" ``\"{}\"``: {}", word.name, word.description));
            }
        }
        _ => {}
    }
    meaning
}

fn article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "An" } else { "A" };
    format!("{article} {kind}")
}

/// A docstring: its first sentence on a line of its own if all does not fit on one.
fn docstring(module: &mut String, text: &str) {
    let text = text.replace('\\', "\\\\").replace("\"\"\"", "'''");
    let whole = format!("    \"\"\"{text}\"\"\"\n");
    if whole.chars().count() <= WIDTH + 1 {
        return module.push_str(&whole);
    }
    let (first, rest) = first_sentence(&text);
    let head = wrap(&format!("\"\"\"{first}"));
    module.push_str(&head);
    if !rest.is_empty() {
        module.push('\n');
        module.push_str(&wrap(rest));
    }
    module.push_str("    \"\"\"\n");
}

fn first_sentence(text: &str) -> (&str, &str) {
    let ends = [". ", ".\n"].map(|end| text.find(end));
    match ends.into_iter().flatten().min() {
        Some(stop) => (&text[..=stop], text[stop + 1..].trim_start()),
        None => (text, ""),
    }
}

fn wrap(text: &str) -> String {
    let mut out = String::new();
    let mut line = String::from("   ");
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH && line.trim() != "" {
            out.push_str(&line);
            out.push('\n');
            line = String::from("   ");
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
    out
}
