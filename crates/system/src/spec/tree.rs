//! A description as it was written: values with their places and sources.

use std::ops::Range;
use toml_edit::{Item, Table, TableLike, Value};

/// A value with where and why it was written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub data: Data,
    /// The text of the value, as it was written.
    pub written: String,
    /// Where the value is, such as `my-machine.toml:12:8`.
    pub place: String,
    /// Where the value's key is.
    pub key_place: String,
    /// The comment behind the value: where it comes from.
    pub source: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Data {
    Table(Vec<(String, Node)>),
    List(Vec<Node>),
    Text(String),
    Integer(i128),
    Float(f64),
    Boolean(bool),
    /// A date or time, which no description has.
    Date,
}

impl Data {
    pub fn words(&self) -> &'static str {
        match self {
            Data::Table(_) => "a table",
            Data::List(_) => "a list",
            Data::Text(_) => "a text",
            Data::Integer(_) => "an integer",
            Data::Float(_) => "a number",
            Data::Boolean(_) => "true or false",
            Data::Date => "a date",
        }
    }
}

impl Node {
    /// A node that was not written in a file.
    pub fn new(data: Data, written: &str, place: &str, source: &str) -> Self {
        Node {
            data,
            written: written.to_owned(),
            place: place.to_owned(),
            key_place: place.to_owned(),
            source: source.to_owned(),
        }
    }

    pub fn is_leaf(&self) -> bool {
        !matches!(self.data, Data::Table(_) | Data::List(_))
    }

    /// The value of `key`, if this is a table that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.data {
            Data::Table(fields) => fields.iter().find(|(name, _)| name == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// The value of `key`, put in if it was not there. Whatever this was, it is a table then.
    pub fn entry(&mut self, key: &str, or: Node) -> &mut Node {
        if !matches!(self.data, Data::Table(_)) {
            self.data = Data::Table(Vec::new());
        }
        let Data::Table(fields) = &mut self.data else { unreachable!("it is a table now") };
        let index = fields.iter().position(|(name, _)| name == key).unwrap_or_else(|| {
            fields.push((key.to_owned(), or));
            fields.len() - 1
        });
        &mut fields[index].1
    }

    /// Puts `value` under `key`, in the place of what was there.
    pub fn put(&mut self, key: &str, value: Node) {
        self.remove(key);
        self.entry(key, value);
    }

    pub fn remove(&mut self, key: &str) -> Option<Node> {
        let Data::Table(fields) = &mut self.data else { return None };
        let index = fields.iter().position(|(name, _)| name == key)?;
        Some(fields.remove(index).1)
    }

    /// Lays `over` over this: tables merge, all else is replaced.
    pub fn merge(&mut self, over: Node) {
        match (&mut self.data, over.data) {
            (Data::Table(_), Data::Table(fields)) => {
                self.place = over.place;
                self.key_place = over.key_place;
                for (key, value) in fields {
                    match self.get_mut(&key) {
                        Some(below) => below.merge(value),
                        None => drop(self.entry(&key, value)),
                    }
                }
            }
            (_, data) => *self = Node { data, ..over },
        }
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        match &mut self.data {
            Data::Table(fields) => fields.iter_mut().find(|(name, _)| name == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// Calls `see` with each leaf and its path, in order.
    pub fn leaves<'a>(&'a self, path: &str, see: &mut impl FnMut(&str, &'a Node)) {
        match &self.data {
            Data::Table(fields) => {
                for (key, value) in fields {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    value.leaves(&path, see);
                }
            }
            Data::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    item.leaves(&format!("{path}[{index}]"), see);
                }
            }
            _ => see(path, self),
        }
    }

    /// The node at `path`, or the closest one above it, and whether it is exactly there.
    pub fn at(&self, path: &str) -> (&Node, bool) {
        let mut node = self;
        for part in path.split(['.', '[']) {
            let next = match (&node.data, part.strip_suffix(']')) {
                (Data::List(items), Some(index)) => {
                    index.parse::<usize>().ok().and_then(|index| items.get(index))
                }
                _ => node.get(part),
            };
            match next {
                Some(below) => node = below,
                None => return (node, false),
            }
        }
        (node, true)
    }

    /// The value as JSON, for serde. Integers beyond 64 bits fit fractions only.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.data {
            Data::Table(fields) => {
                Json::Object(fields.iter().map(|(key, v)| (key.clone(), v.to_json())).collect())
            }
            Data::List(items) => Json::Array(items.iter().map(Node::to_json).collect()),
            Data::Text(text) => Json::String(text.clone()),
            Data::Integer(value) => match (u64::try_from(*value), i64::try_from(*value)) {
                (Ok(value), _) => value.into(),
                (_, Ok(value)) => value.into(),
                _ => (*value as f64).into(),
            },
            Data::Float(value) => (*value).into(),
            Data::Boolean(value) => Json::Bool(*value),
            Data::Date => Json::Null,
        }
    }

    /// A tree from JSON, every value of which is said to come from `source`. Null is left out of
    /// tables: it means that nothing is said.
    pub fn from_json(json: &serde_json::Value, source: &str) -> Node {
        use serde_json::Value as Json;
        let data = match json {
            Json::Object(fields) => Data::Table(
                fields
                    .iter()
                    .filter(|(_, value)| !value.is_null())
                    .map(|(key, value)| (key.clone(), Node::from_json(value, source)))
                    .collect(),
            ),
            Json::Array(items) => {
                Data::List(items.iter().map(|item| Node::from_json(item, source)).collect())
            }
            Json::String(text) => Data::Text(text.clone()),
            Json::Bool(value) => Data::Boolean(*value),
            Json::Null => Data::Date,
            Json::Number(number) => match (number.as_i128(), number.as_f64()) {
                (Some(value), _) => Data::Integer(value),
                (None, Some(value)) => Data::Float(value),
                (None, None) => Data::Date,
            },
        };
        Node::new(data, &json.to_string(), source, source)
    }
}

/// Reads TOML.
///
/// # Errors
/// What is wrong with the syntax, and where.
pub(super) fn read(file: &str, text: &str) -> Result<Node, (String, String)> {
    let reader = Reader { file, text };
    match toml_edit::Document::parse(text) {
        Ok(document) => Ok(reader.table(document.as_table(), 0..0, "")),
        Err(error) => {
            let reason = error.message().replace('\n', ", ");
            Err((reason, reader.place(error.span().unwrap_or(0..0).start)))
        }
    }
}

/// Reads one value of TOML, as behind a `=`. Nothing if it is not one.
pub(super) fn read_value(place: &str, text: &str) -> Option<Node> {
    let line = format!("value = {text}");
    let mut node = read(place, &line).ok()?.remove("value")?;
    node.relocate(place);
    Some(node)
}

impl Node {
    /// Says of this and of all below that they were written at `place`, which is their source too.
    fn relocate(&mut self, place: &str) {
        self.place = place.to_owned();
        self.key_place = place.to_owned();
        self.source = place.to_owned();
        match &mut self.data {
            Data::Table(fields) => fields.iter_mut().for_each(|(_, node)| node.relocate(place)),
            Data::List(items) => items.iter_mut().for_each(|node| node.relocate(place)),
            _ => {}
        }
    }
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
}

impl Reader<'_> {
    fn table(&self, table: &dyn TableLike, span: Range<usize>, source: &str) -> Node {
        let fields = table
            .iter()
            .filter_map(|(key, item)| {
                let key_span = table.key(key).and_then(|key| key.span());
                let mut node = self.item(item, source)?;
                let start = key_span.or(item.span()).unwrap_or(0..0).start;
                node.key_place = self.place(start);
                Some((key.to_owned(), node))
            })
            .collect();
        self.node(Data::Table(fields), span, source)
    }

    fn item(&self, item: &Item, source: &str) -> Option<Node> {
        match item {
            Item::None => None,
            Item::Value(value) => Some(self.value(value, source)),
            Item::Table(table) => {
                let node = self.table(table, item.span().unwrap_or(0..0), source);
                Some(Node { written: String::new(), ..node })
            }
            Item::ArrayOfTables(tables) => {
                let each = |table: &Table| self.table(table, table.span().unwrap_or(0..0), source);
                let items = tables.iter().map(each).collect();
                let node = self.node(Data::List(items), item.span().unwrap_or(0..0), source);
                Some(Node { written: String::new(), ..node })
            }
        }
    }

    fn value(&self, value: &Value, source: &str) -> Node {
        let span = value.span().unwrap_or(0..0);
        let comment = self.comment(span.end);
        let source = if comment.is_empty() { source } else { comment };
        let data = match value {
            Value::String(text) => Data::Text(text.value().clone()),
            Value::Integer(number) => Data::Integer((*number.value()).into()),
            Value::Float(number) => Data::Float(*number.value()),
            Value::Boolean(truth) => Data::Boolean(*truth.value()),
            Value::Datetime(_) => Data::Date,
            Value::Array(items) => {
                Data::List(items.iter().map(|item| self.value(item, source)).collect())
            }
            Value::InlineTable(table) => return self.table(table, span, source),
        };
        self.node(data, span, source)
    }

    fn node(&self, data: Data, span: Range<usize>, source: &str) -> Node {
        let place = self.place(span.start);
        let written = self.text.get(span).unwrap_or_default();
        Node {
            data,
            written: shorten(written),
            key_place: place.clone(),
            place,
            source: source.to_owned(),
        }
    }

    /// The comment that ends the line on which a value ends, if only a comma stands between.
    fn comment(&self, end: usize) -> &str {
        let rest = self.text.get(end..).unwrap_or_default();
        let line = rest.lines().next().unwrap_or_default().trim_start();
        let line = line.strip_prefix(',').unwrap_or(line).trim_start();
        line.strip_prefix('#').unwrap_or_default().trim()
    }

    fn place(&self, offset: usize) -> String {
        let before = self.text.get(..offset).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        format!("{}:{line}:{column}", self.file)
    }
}

/// A value in a line of a message: its start, if it is long.
fn shorten(written: &str) -> String {
    const MOST: usize = 60;
    let line = written.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{} …", &line[..end]),
        None => line,
    }
}
