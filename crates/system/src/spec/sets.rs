//! `--set path=value`: changes of single values.

use super::load::{self, preset_value};
use super::print::without_indices;
use super::shape::{Field, Shape, Table, shape};
use super::tree::{Data, Node, read_value};
use super::walk::{base_for, elsewhere, join, keys, preset_with};
use tierscope_model::device::DEVICES;
use tierscope_model::link::LINKS;
use tierscope_units::{Problem, Problems, nearest, percent};

/// Changes the value at `path` of `root` to what `text` says, or adds why that cannot be. A table that may be
/// left out begins where `all` changes together say each key that it needs.
///
/// Form and meaning of the value are checked with the rest of the description.
pub(super) fn set(
    root: &mut Node,
    (path, text): (&str, &str),
    all: &[(String, String)],
    problems: &mut Problems,
) {
    let place = format!("--set {path}={text}");
    let incomplete = |reason: &str| Problem {
        code: "bad-syntax",
        path: "--set".into(),
        value: format!("{path}={text}"),
        reason: reason.into(),
        mend: "write a path and a value, such as hybrid.cache.ways=64".into(),
        place: place.clone(),
    };
    if path.trim().is_empty() {
        return problems.push(incomplete("no path stands before the ="));
    }
    if text.trim().is_empty() {
        return problems.push(incomplete("no value stands behind the ="));
    }
    match steps(path) {
        Some(steps) => {
            let leaves = leaves(root);
            let mut setter = Setter { path, text, place: &place, leaves, all };
            if let Err(problem) = setter.table(root, shape(), "", &steps) {
                problems.push(*problem);
            }
        }
        None => problems.push(Problem {
            code: "bad-syntax",
            path: path.to_owned(),
            value: text.to_owned(),
            reason: "that is no path".into(),
            mend: "write names with dots between, such as hybrid.cache.ways".into(),
            place,
        }),
    }
}

/// How many steps of `path` a machine has; nothing where it has all that the change needs. It lacks a table
/// that the description may leave out, an item of a list, and a store or a link where it has none.
pub(super) fn lacking_after(root: &Node, path: &str) -> Option<usize> {
    let steps = steps(path)?;
    let is_part = |part: &str| [DEVICES, LINKS].iter().any(|of| of.iter().any(|it| it.key == part));
    match &steps[..] {
        [part] if is_part(part) => (!load::has_one_like(root, part)).then_some(0),
        steps => table_lacks(root, shape(), steps),
    }
}

/// What a table has is also what would be told to be no key of it.
fn table_lacks(node: &Node, table: &Table, steps: &[&str]) -> Option<usize> {
    let [step, rest @ ..] = steps else { return None };
    let field = table.field(step)?;
    match node.get(step) {
        Some(below) => lacks(below, &field.shape, rest).map(|after| after + 1),
        None => (!rest.is_empty() && !field.required).then_some(0),
    }
}

fn lacks(node: &Node, shape: &Shape, steps: &[&str]) -> Option<usize> {
    match (shape, &node.data, steps) {
        (Shape::Table(table), _, _) => table_lacks(node, table, steps),
        (Shape::List(shape), Data::List(items), [step, rest @ ..]) => match item(items, step) {
            Some(index) => lacks(&items[index], shape, rest).map(|after| after + 1),
            None => Some(0),
        },
        _ => None,
    }
}

/// The place of an item that is named by its number or its name.
fn item(items: &[Node], step: &str) -> Option<usize> {
    match step.parse::<usize>() {
        Ok(index) => Some(index).filter(|index| *index < items.len()),
        Err(_) => items.iter().position(|item| name_of(item) == step),
    }
}

/// `a.b[0].c` as `a`, `b`, `0`, `c`.
fn steps(path: &str) -> Option<Vec<&str>> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let (name, indices) = match part.split_once('[') {
            Some((name, rest)) => (name, Some(rest.strip_suffix(']')?)),
            None => (part, None),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || !name.chars().all(plain) {
            return None;
        }
        steps.push(name);
        for index in indices.into_iter().flat_map(|indices| indices.split("][")) {
            index.parse::<usize>().ok()?;
            steps.push(index);
        }
    }
    Some(steps)
}

fn leaves(root: &Node) -> Vec<String> {
    let mut all = Vec::new();
    root.leaves("", &mut |path, _| all.push(path.to_owned()));
    all
}

struct Setter<'a> {
    path: &'a str,
    text: &'a str,
    place: &'a str,
    /// Paths of all values of the machine, to propose.
    leaves: Vec<String>,
    /// All changes.
    all: &'a [(String, String)],
}

impl Setter<'_> {
    fn table(
        &mut self,
        node: &mut Node,
        table: &Table,
        path: &str,
        steps: &[&str],
    ) -> Result<(), Box<Problem>> {
        let [step, rest @ ..] = steps else { return self.whole(node, "a table") };
        let Some(field) = table.field(step) else {
            let reason = format!("{} has no key `{step}`", here(path));
            // What this machine has of that very name comes before what others have.
            let own = self.leaves.iter().any(|path| tail(path) == *step);
            return Err(match elsewhere(step, self.path).filter(|_| !own) {
                Some(mend) => Box::new(self.problem("unknown-key", reason, mend)),
                None => self.unknown(reason, || {
                    // One that this machine leaves out may be meant.
                    match nearest(step, table.fields.iter().map(|field| &*field.name)) {
                        Some(name) => format!("did you mean `{}`?", join(path, name)),
                        None => format!("the keys there are {}", keys(table)),
                    }
                }),
            });
        };
        let path = join(path, step);
        let absent = !field.required && node.get(step).is_none();
        if !rest.is_empty() && absent && !self.begins(&path, &field.shape) {
            let reason = format!("this machine has no [{path}]");
            let mend = whole_part(&path, &field.shape);
            return Err(Box::new(self.problem("unknown-key", reason, mend)));
        }
        if absent && path == *step {
            load::make_place_for(node, step);
        }
        let empty = Node::new(Data::Table(Vec::new()), "", self.place, self.place);
        let below = node.entry(step, empty);
        self.value(below, &field.shape, &path, rest)
    }

    /// Whether all changes together say each key that the table at `path` needs.
    fn begins(&self, path: &str, shape: &Shape) -> bool {
        let Shape::Table(table) = shape else { return false };
        let said = |name: &str| {
            let key = join(path, name);
            self.all.iter().any(|(path, _)| {
                path.strip_prefix(&key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
        };
        table.fields.iter().filter(|field| field.required).all(|field| said(&field.name))
    }

    fn value(
        &mut self,
        node: &mut Node,
        shape: &Shape,
        path: &str,
        steps: &[&str],
    ) -> Result<(), Box<Problem>> {
        match shape {
            Shape::Table(table) => self.table(node, table, path, steps),
            Shape::List(items) => self.list(node, items, path, steps),
            _ if !steps.is_empty() => {
                let reason = format!("`{path}` is {} and has no keys", shape.words());
                Err(self.unknown(reason, || format!("set {path} itself")))
            }
            Shape::Text | Shape::Word(_) | Shape::Quantity(_) => {
                let quoted = read_value(self.place, self.text);
                let text = match quoted.map(|node| node.data) {
                    Some(Data::Text(text)) => text,
                    _ => self.text.to_owned(),
                };
                self.put(node, Data::Text(text))
            }
            _ => {
                // Integers beyond those of TOML are refused for what they are, not as texts.
                let large = self.text.parse().ok().map(Data::Integer);
                let share = percent(self.text).filter(|_| matches!(shape, Shape::Number));
                let read = read_value(self.place, self.text).map(|node| node.data).or(large);
                let read = read.or(share.map(Data::Float));
                self.put(node, read.unwrap_or_else(|| Data::Text(self.text.to_owned())))
            }
        }
    }

    fn list(
        &mut self,
        node: &mut Node,
        shape: &Shape,
        path: &str,
        steps: &[&str],
    ) -> Result<(), Box<Problem>> {
        let [step, rest @ ..] = steps else { return self.whole(node, "a list") };
        let items: &[Node] = match &node.data {
            Data::List(items) => items,
            _ => &[],
        };
        let Some(index) = item(items, step) else {
            let names: Vec<String> = items.iter().map(name_of).collect();
            let reason = format!("`{path}` has no item {step}");
            let near = match step.parse::<usize>() {
                Ok(_) => None,
                Err(_) => nearest(step, names.iter().map(String::as_str)),
            };
            let mend = match near {
                Some(name) => format!("did you mean {path}.{name}?"),
                None => format!("its items are {}", listed(&names)),
            };
            return Err(Box::new(self.problem("unknown-key", reason, mend)));
        };
        let Data::List(items) = &mut node.data else { return Ok(()) };
        self.value(&mut items[index], shape, &format!("{path}[{index}]"), rest)
    }

    /// A whole table or list: written as in TOML.
    fn whole(&mut self, node: &mut Node, what: &str) -> Result<(), Box<Problem>> {
        match read_value(self.place, self.text) {
            Some(read) => {
                node.merge(read);
                Ok(())
            }
            None => {
                let reason = format!("{what} is needed, and this is not TOML");
                let mend =
                    "set a value below it, or write { key = value, … }, texts in quotes".into();
                Err(Box::new(self.problem("bad-syntax", reason, mend)))
            }
        }
    }

    fn put(&self, node: &mut Node, data: Data) -> Result<(), Box<Problem>> {
        *node = Node::new(data, self.text, self.place, self.place);
        Ok(())
    }

    /// A path that leads nowhere: proposes the closest ones.
    fn unknown(&self, reason: String, or: impl Fn() -> String) -> Box<Problem> {
        let mend = match self.near().as_slice() {
            [] => or(),
            near => format!("did you mean {}?", near.join(", ")),
        };
        Box::new(self.problem("unknown-key", reason, mend))
    }

    /// Up to three paths whose last name is the one given or close to it, or is that of the last two
    /// in one (`dram_capacity` for `dram.capacity`), which comes first; then those that share the most
    /// names with the path.
    fn near(&self) -> Vec<String> {
        let parts: Vec<_> = self.path.split('.').collect();
        let joined = parts[parts.len().saturating_sub(2)..].join("_");
        let name = nearest(tail(self.path), self.leaves.iter().map(|path| tail(path)));
        let fits = |path: &&String| tail(path) == joined || Some(tail(path)) == name;
        let mut near: Vec<_> = self.leaves.iter().filter(fits).collect();
        near.sort_by_key(|path| {
            if tail(path) == joined {
                return std::cmp::Reverse(usize::MAX);
            }
            std::cmp::Reverse(path.split('.').filter(|part| parts.contains(part)).count())
        });
        // Of the items of a list, one is enough.
        near.dedup_by_key(|path| without_indices(path));
        near.into_iter().take(3).map(|path| format!("`{path}`")).collect()
    }

    fn problem(&self, code: &'static str, reason: String, mend: String) -> Problem {
        Problem {
            code,
            path: self.path.to_owned(),
            value: self.text.to_owned(),
            reason,
            mend,
            place: self.place.to_owned(),
        }
    }
}

/// Values of parts that no preset has, as they may be.
const EXAMPLES: [(&str, &str); 2] =
    [("controllers.count", "2"), ("controllers.interleave", "\"4KiB\"")];

/// How a machine gets a part that it does not have.
fn whole_part(path: &str, shape: &Shape) -> String {
    let (part, preset) = (base_for(path), preset_with(path));
    if preset == Some(part) {
        return format!("set {path} as a whole, or choose a machine that has it, such as {part}");
    }
    let Shape::Table(table) = shape else { return format!("set {path} as a whole") };
    let required = table.fields.iter().filter(|field| field.required);
    let all = required.map(|Field { name, shape, .. }| {
        let path = join(path, name);
        let value = preset.and_then(|preset| preset_value(preset, &path));
        let example = EXAMPLES.iter().find(|(key, _)| *key == path).map(|(_, value)| *value);
        let word = match shape {
            Shape::Word(words) => words.first().map(|word| format!("\"{}\"", word.name)),
            _ => None,
        };
        let value = value.or(example.map(str::to_owned)).or(word);
        format!("{name} = {}", value.as_deref().unwrap_or("…"))
    });
    let all = all.collect::<Vec<_>>().join(", ");
    let or = match preset {
        Some(preset) => format!("choose a machine that has it, such as {preset}"),
        None => format!("write a file with this machine as its base, and in it a table [{path}]"),
    };
    format!("set it as a whole, --set '{path}={{ {all} }}', or {or}")
}

fn tail(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

fn here(path: &str) -> String {
    if path.is_empty() { "a machine".into() } else { format!("`{path}`") }
}

fn name_of(item: &Node) -> String {
    match item.get("name").map(|name| &name.data) {
        Some(Data::Text(name)) => name.clone(),
        _ => String::new(),
    }
}

fn listed(names: &[String]) -> String {
    let items = names.iter().enumerate().map(|(index, name)| format!("[{index}] {name}"));
    items.map(|item| item.trim_end().to_owned()).collect::<Vec<_>>().join(", ")
}
