//! Compares a description with the shape that it must have, and finds every mistake.

use super::load::{is_said, preset_value};
use super::shape::{Field, Shape, Table, Word, shape};
use super::tree::{Data, Node};
use tierscope_model::organization::ORGANIZATIONS;
use tierscope_units::{Problem, Problems, nearest, percent};

/// Adds every mistake of form in `root`: unknown and missing keys, wrong types, bad units.
pub(super) fn walk(root: &Node, problems: &mut Problems) {
    Walker { problems }.table(shape(), root, "");
}

struct Walker<'a> {
    problems: &'a mut Problems,
}

impl Walker<'_> {
    fn table(&mut self, table: &Table, node: &Node, path: &str) {
        let Data::Table(fields) = &node.data else {
            return self.wrong_type(&Shape::Table(table.clone()), node, path);
        };
        for (key, value) in fields {
            let below = join(path, key);
            match table.field(key) {
                Some(field) => self.value(&field.shape, value, &below),
                None => self.unknown_key(table, key, value, below),
            }
        }
        for field in table.fields.iter().filter(|field| field.required) {
            if node.get(&field.name).is_none() {
                self.missing_key(field, node, path);
            }
        }
    }

    fn value(&mut self, shape: &Shape, node: &Node, path: &str) {
        match (shape, &node.data) {
            (Shape::Table(table), _) => self.table(table, node, path),
            (Shape::List(shape), Data::List(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.value(shape, item, &format!("{path}[{index}]"));
                }
            }
            (Shape::Quantity(kind), Data::Text(text)) => {
                if let Err(error) = kind.parse(text) {
                    self.add(error.code, node, path, error.reason, error.mend);
                }
            }
            (Shape::Quantity(kind), Data::Integer(_) | Data::Float(_)) => {
                let error = kind.bare(&node.written);
                self.add(error.code, node, path, error.reason, error.mend);
            }
            (Shape::Quantity(kind), _) => {
                let error = kind.not_a_text();
                self.add(error.code, node, path, error.reason, error.mend);
            }
            (Shape::Integer { min, .. }, Data::Integer(value)) if value < min => {
                let reason = format!("the least that makes sense is {min}");
                self.add("impossible-value", node, path, reason, format!("write {min} or more"));
            }
            (Shape::Integer { max, .. }, Data::Integer(value)) if value > max => {
                let reason = format!("the most that makes sense is {max}");
                self.add("impossible-value", node, path, reason, format!("write {max} or less"));
            }
            (Shape::Number, Data::Float(value)) if !value.is_finite() => {
                let mend = "write a number such as 0.5".into();
                self.add("impossible-value", node, path, "it must be finite".into(), mend);
            }
            (Shape::Word(words), Data::Text(text)) => self.word(words, text, node, path),
            (Shape::Integer { .. }, Data::Integer(_))
            | (Shape::Number, Data::Float(_) | Data::Integer(_))
            | (Shape::Boolean, Data::Boolean(_))
            | (Shape::Text, Data::Text(_)) => {}
            _ => self.wrong_type(shape, node, path),
        }
    }

    fn word(&mut self, words: &[Word], text: &str, node: &Node, path: &str) {
        let names = || words.iter().map(|word| word.name.as_str());
        if names().any(|name| name == text) {
            return;
        }
        let all = quoted(words).join(", ");
        let mend = match nearest(text, names()) {
            Some(name) => format!("did you mean \"{name}\"?"),
            None if text.parse::<f64>().is_ok() => {
                format!("write one of them: {}", meanings(words))
            }
            None => "write one of them".into(),
        };
        self.add("unknown-value", node, path, format!("the words here are {all}"), mend);
    }

    fn unknown_key(&mut self, table: &Table, key: &str, node: &Node, path: String) {
        let mend = match nearest(key, table.fields.iter().map(|field| field.name.as_str())) {
            Some(name) => format!("did you mean `{name}`?"),
            None => match elsewhere(key, &path) {
                Some(mend) => mend,
                None => format!("the keys here are {}", keys(table)),
            },
        };
        let mut problem = problem("unknown-key", node, &path, "there is no such key".into(), mend);
        problem.place = node.key_place.clone();
        self.problems.push(problem);
    }

    fn missing_key(&mut self, field: &Field, node: &Node, path: &str) {
        let path = join(path, &field.name);
        let preset = preset_with(&path);
        let what = match &field.shape {
            Shape::Table(_) => format!("add the table [{path}]"),
            Shape::List(_) => format!("add tables [[{path}]]"),
            Shape::Word(words) if preset.is_none() => format!("add {}", one_of(words)),
            other => match preset.and_then(|preset| preset_value(preset, &path)) {
                Some(value) => format!("add it, such as {} = {value}", field.name),
                None => format!("add {}", other.words()),
            },
        };
        // No base gives a part that no preset has.
        let of_a_part =
            path.split_once('.').is_some_and(|(part, _)| !is_said(base_for(&path), part));
        let mend = match preset.filter(|_| !of_a_part) {
            None => what,
            Some(preset) => format!("{what}, or begin the file with base = \"{preset}\""),
        };
        let reason = "it is required, and no base gives it".into();
        let mut problem = problem("missing-key", node, &path, reason, mend);
        problem.value = String::new();
        self.problems.push(problem);
    }

    fn wrong_type(&mut self, shape: &Shape, node: &Node, path: &str) {
        let reason = match (shape, &node.data) {
            (Shape::Integer { .. }, Data::Float(_)) => "a whole number is needed".into(),
            _ => format!("{} is needed, not {}", shape.words(), node.data.words()),
        };
        let mend = match (shape, &node.data) {
            (Shape::Integer { .. }, Data::Text(text)) if text.parse::<u64>().is_ok() => {
                format!("write {text}, without quotes")
            }
            (Shape::Number, Data::Text(text)) if text.parse::<f64>().is_ok() => {
                format!("write {text}, without quotes")
            }
            (Shape::Number, Data::Text(text)) => match percent(text) {
                Some(share) => format!("write {share}"),
                None => "write a number such as 0.5".into(),
            },
            (Shape::Boolean, Data::Text(text)) if ["true", "false"].contains(&text.as_str()) => {
                format!("write {text}, without quotes")
            }
            (Shape::Integer { .. }, Data::Float(value)) if !value.is_finite() => {
                "write a whole number".into()
            }
            (Shape::Integer { min, max }, Data::Float(value)) => {
                format!("write {}", (value.trunc() as i128).clamp(*min, *max))
            }
            (Shape::Boolean, _) => "write true or false, without quotes".into(),
            (Shape::Text, _) => "write it in quotes".into(),
            (Shape::Word(words), Data::Integer(_) | Data::Float(_)) => {
                format!("write one of these words: {}", meanings(words))
            }
            (Shape::Word(words), _) => format!("write {}, in quotes", one_of(words)),
            (Shape::Table(table), _) => format!("its keys are {}", keys_to_write(table)),
            (Shape::List(_), _) => format!("write [[{path}]] tables"),
            (other, _) => format!("write {}", other.words()),
        };
        self.add("wrong-type", node, path, reason, mend);
    }

    fn add(&mut self, code: &'static str, node: &Node, path: &str, reason: String, mend: String) {
        self.problems.push(problem(code, node, path, reason, mend));
    }
}

/// The preset that has the part at `path`.
pub(super) fn base_for(path: &str) -> &'static str {
    super::presets::with_organization(path.split('.').next().unwrap_or_default())
}

/// A preset that says something at `path`, that of its part before others.
pub(super) fn preset_with(path: &str) -> Option<&'static str> {
    let others = super::presets::list().into_iter().map(|(name, _)| name);
    std::iter::once(base_for(path)).chain(others).find(|preset| is_said(preset, path))
}

/// A mistake in what `node` says.
pub(super) fn problem(
    code: &'static str,
    node: &Node,
    path: &str,
    reason: String,
    mend: String,
) -> Problem {
    Problem {
        code,
        path: path.to_owned(),
        value: node.written.clone(),
        reason,
        mend,
        place: node.place.clone(),
    }
}

pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// The keys of a table, for a message.
pub(super) fn keys(table: &Table) -> String {
    table.fields.iter().map(|field| field.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// The keys of a table that has to be written: with them the words that those which it must have may be.
fn keys_to_write(table: &Table) -> String {
    let told = table.fields.iter().map(|field| match &field.shape {
        Shape::Word(words) if field.required => format!("{} ({})", field.name, one_of(words)),
        _ => field.name.clone(),
    });
    told.collect::<Vec<_>>().join(", ")
}

fn quoted(words: &[Word]) -> Vec<String> {
    words.iter().map(|word| format!("\"{}\"", word.name)).collect()
}

/// Words to choose from, for a message.
fn one_of(words: &[Word]) -> String {
    match quoted(words).as_slice() {
        [all @ .., last] if !all.is_empty() => format!("{} or {last}", all.join(", ")),
        all => all.concat(),
    }
}

/// Words to choose from with what they mean: who writes a number knows the choices by numbers of Linux or of
/// a data sheet.
fn meanings(words: &[Word]) -> String {
    let told = words.iter().map(|word| match word.description.trim_end_matches('.') {
        "" => format!("\"{}\"", word.name),
        meaning => format!("\"{}\": {meaning}", word.name),
    });
    told.collect::<Vec<_>>().join("; ")
}

/// What to do about a key that other tables have, if they are few. `path` is where it was looked for: what
/// another organization has is not meant within one.
pub(super) fn elsewhere(key: &str, path: &str) -> Option<String> {
    const FEW: usize = 4;
    let mut found = Vec::new();
    find(shape(), "", key, &mut found);
    let top = |path: &str| path.split(['.', '[']).next().unwrap_or_default().to_owned();
    let is_organization = |key: &str| ORGANIZATIONS.iter().any(|part| part.key == key);
    let own = top(path);
    if is_organization(&own) {
        found.retain(|other| top(other) == own || !is_organization(&top(other)));
    }
    match found.as_slice() {
        [one] => Some(format!("did you mean `{one}`?")),
        [all @ .., last] if found.len() <= FEW => {
            Some(format!("it is a key of other parts: `{}` or `{last}`", all.join("`, `")))
        }
        _ => None,
    }
}

fn find(table: &Table, path: &str, key: &str, found: &mut Vec<String>) {
    for field in &table.fields {
        let path = join(path, &field.name);
        if field.name == key {
            found.push(path.clone());
        }
        match &field.shape {
            Shape::Table(inner) => find(inner, &path, key, found),
            Shape::List(items) => {
                if let Shape::Table(inner) = &**items {
                    find(inner, &format!("{path}[0]"), key, found);
                }
            }
            _ => {}
        }
    }
}
