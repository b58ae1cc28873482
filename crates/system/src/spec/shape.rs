//! The shape of a description: what the JSON schema says, as a tree that is easy to walk.
//!
//! The schema is made from the Rust types (serde and schemars), so that walker, reference pages and
//! Python classes cannot differ from them.

use super::SystemSpec;
use serde_json::Value;
use std::sync::OnceLock;
use tierscope_units::Kind;

/// What a value must be.
#[derive(Clone, Debug)]
pub enum Shape {
    /// A text with a unit.
    Quantity(&'static Kind),
    /// An integer within bounds, both included.
    Integer {
        /// Least.
        min: i128,
        /// Most.
        max: i128,
    },
    /// A finite number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// Any text.
    Text,
    /// One of some words.
    Word(Vec<Word>),
    /// A table of known keys.
    Table(Table),
    /// Any number of one shape.
    List(Box<Shape>),
}

/// A word that a value may be.
#[derive(Clone, Debug)]
pub struct Word {
    /// As it is written.
    pub name: String,
    /// What it means.
    pub description: String,
}

/// A table of known keys.
#[derive(Clone, Debug)]
pub struct Table {
    /// Name of the Rust type, without its `Spec`.
    pub name: String,
    /// What it is.
    pub description: String,
    /// Its keys, in order.
    pub fields: Vec<Field>,
}

/// A key of a table.
#[derive(Clone, Debug)]
pub struct Field {
    /// The key.
    pub name: String,
    /// What it means.
    pub description: String,
    /// Whether a complete description has it.
    pub required: bool,
    /// What its value must be.
    pub shape: Shape,
}

impl Table {
    /// The key of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Shape {
    /// What it is in words: `an integer`, `a size` …
    pub fn words(&self) -> String {
        match self {
            Shape::Quantity(kind) => kind.with_article(),
            Shape::Integer { .. } => "an integer".into(),
            Shape::Number => "a number".into(),
            Shape::Boolean => "true or false".into(),
            Shape::Text | Shape::Word(_) => "a text".into(),
            Shape::Table(_) => "a table".into(),
            Shape::List(_) => "a list".into(),
        }
    }
}

/// The JSON schema of a machine's description.
pub fn json_schema() -> Value {
    let mut schema = schemars::schema_for!(SystemSpec).to_value();
    unescape(&mut schema);
    schema
}

/// Documentation of Rust writes `\[HYB15\]`, lest the citation be taken for a link; all else does
/// not.
fn unescape(schema: &mut Value) {
    match schema {
        Value::Object(fields) => fields.values_mut().for_each(unescape),
        Value::Array(items) => items.iter_mut().for_each(unescape),
        Value::String(text) => *text = text.replace("\\[", "[").replace("\\]", "]"),
        _ => {}
    }
}

/// The shape of a machine's description.
pub fn shape() -> &'static Table {
    static SHAPE: OnceLock<Table> = OnceLock::new();
    SHAPE.get_or_init(|| {
        let root = json_schema();
        Reader { root: &root }.table(&root, "SystemSpec", "")
    })
}

/// Reads the subset of JSON schema that schemars writes for the types of a description. What it
/// does not know is a broken invariant: a test reads the whole schema.
struct Reader<'a> {
    root: &'a Value,
}

impl Reader<'_> {
    fn table(&self, schema: &Value, type_name: &str, description: &str) -> Table {
        let required: Vec<_> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let fields = schema["properties"].as_object().into_iter().flatten();
        let own = text(schema, "description");
        Table {
            name: type_name.strip_suffix("Spec").unwrap_or(type_name).to_owned(),
            description: if own.is_empty() { description.to_owned() } else { own },
            fields: fields
                .map(|(name, schema)| Field {
                    name: name.clone(),
                    description: text(schema, "description"),
                    required: required.contains(&name.as_str()),
                    shape: self.shape(schema),
                })
                .collect(),
        }
    }

    fn shape(&self, schema: &Value) -> Shape {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.trim_start_matches("#/$defs/");
            let target = &self.root["$defs"][name];
            return match target["type"].as_str() {
                Some("object") => Shape::Table(self.table(target, name, "")),
                _ => self.shape(target),
            };
        }
        if let Some(some) = schema["anyOf"].as_array() {
            let given = some.iter().find(|one| one["type"] != "null");
            return self.shape(given.expect("an optional key has a shape besides null"));
        }
        if let Some(words) = schema["oneOf"].as_array() {
            return Shape::Word(words.iter().map(word).collect());
        }
        if let Some(words) = schema["enum"].as_array() {
            let plain = words.iter().filter_map(Value::as_str);
            return Shape::Word(
                plain
                    .map(|name| Word { name: name.to_owned(), description: String::new() })
                    .collect(),
            );
        }
        match type_name(schema) {
            Some("string") => match schema["format"].as_str().and_then(tierscope_units::kind) {
                Some(kind) => Shape::Quantity(kind),
                None => Shape::Text,
            },
            Some("integer") => integer(schema),
            Some("number") => Shape::Number,
            Some("boolean") => Shape::Boolean,
            Some("array") => Shape::List(Box::new(self.shape(&schema["items"]))),
            other => unreachable!("the schema of a description holds {other:?}: {schema}"),
        }
    }
}

/// The type of a schema; of a key that may be left out, the one that is not `null`.
fn type_name(schema: &Value) -> Option<&str> {
    match &schema["type"] {
        Value::Array(some) => some.iter().filter_map(Value::as_str).find(|one| *one != "null"),
        one => one.as_str(),
    }
}

fn integer(schema: &Value) -> Shape {
    let (min, max) = match schema["format"].as_str() {
        Some("uint8") => (0, u8::MAX.into()),
        Some("uint16") => (0, u16::MAX.into()),
        Some("uint32") => (0, u32::MAX.into()),
        Some("uint64") => (0, u64::MAX.into()),
        _ => (i64::MIN.into(), i64::MAX.into()),
    };
    Shape::Integer { min, max }
}

fn word(schema: &Value) -> Word {
    Word { name: text(schema, "const"), description: text(schema, "description") }
}

/// A text of the schema, its line breaks (those of the source) taken out.
fn text(schema: &Value, key: &str) -> String {
    let text = schema[key].as_str().unwrap_or_default();
    text.split("\n\n").map(|part| part.replace('\n', " ")).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each<'a>(path: &str, table: &'a Table, see: &mut impl FnMut(&str, &'a Field)) {
        for field in &table.fields {
            let path = format!("{path}.{}", field.name);
            see(&path, field);
            match &field.shape {
                Shape::Table(inner) => each(&path, inner, see),
                Shape::List(items) => {
                    if let Shape::Table(inner) = &**items {
                        each(&path, inner, see);
                    }
                }
                _ => {}
            }
        }
    }

    #[test]
    fn every_key_of_the_schema_is_known_and_described() {
        let mut count = 0;
        each("", shape(), &mut |path, field| {
            count += 1;
            assert!(field.description.ends_with('.'), "{path}: {}", field.description);
            if let Shape::Word(words) = &field.shape {
                assert!(words.iter().all(|word| !word.name.is_empty()), "{path}");
                assert!(words.iter().all(|word| word.description.ends_with('.')), "{path}");
            }
        });
        assert!(count > 90, "{count}");
    }
}
