//! Reference pages and schemas.

use schemars::schema_for;
use std::fmt::Write;
use tierscope_model::device::DEVICES;
use tierscope_model::link::LINKS;
use tierscope_model::medium::MEDIA;
use tierscope_model::organization::ORGANIZATIONS;
use tierscope_model::parts::Part;
use tierscope_model::replacement::POLICIES;
use tierscope_system::result::RunResult;
use tierscope_system::spec::{self, Field, Shape, Table};
use tierscope_units::{CODES, KINDS, Kind};
use tierscope_workload::Pull;
use tierscope_workload::generator::{GENERATORS, Generator};
use tierscope_workload::op::{FLAG_DEPENDENT, Op, OpKind, operations};

/// The JSON schema of a machine's description.
pub fn system_schema() -> String {
    pretty(&spec::json_schema())
}

/// The JSON schema of a result.
pub fn result_schema() -> String {
    pretty(&schema_for!(RunResult).to_value())
}

fn pretty(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}

/// The page of error codes.
pub fn errors_page() -> String {
    let mut page = String::from(
        "# Error codes\n\n\
         A description that is wrong is refused with every mistake at once. Each line gives the\n\
         mistake's code, its path, what was written, why it is wrong and what to do; the next line\n\
         says where it was written:\n\n\
         ```text\n\
         error[ambiguous-unit]: hybrid.cache.capacity = \"64GB\": `GB` is read as 10^9 and as 2^30 \
         bytes; write \"64GiB\" or \"64000000000B\"\n  --> my-machine.toml:4:12\n\
         ```\n\n\
         Mistakes of form (syntax, keys, types, units) are told together, and mistakes of meaning \
         (values and\ncontradictions) once the form is right. The codes are a closed list.\n\n\
         | code | meaning |\n|---|---|\n",
    );
    for (code, meaning) in CODES {
        line(&mut page, &format!("| `{code}` | {meaning} |"));
    }
    page
}

/// The page of all parts.
pub fn parts_page() -> String {
    let mut page = String::from(
        "# Parts\n\n\
         What a machine can be made of, and what can run on it. `CONTRIBUTING.md` says how to add \
         one.\n",
    );
    for (heading, note, rows) in [
        ("Organizations", "A machine has exactly one.", described(ORGANIZATIONS)),
        ("Stores", "A machine has one where its organization needs it.", described(DEVICES)),
        ("Links", "A machine has one where it has a store.", described(LINKS)),
        ("Media", "What a unit of a device holds.", named(MEDIA)),
        ("Replacement policies", "Which line of a set goes.", named(POLICIES)),
    ] {
        page.push_str(&format!("\n## {heading}\n\n{note}\n\n| part | what it is |\n|---|---|\n"));
        page.push_str(&rows);
    }
    line(
        &mut page,
        "\n## Generated workloads\n\n[Their parameters](workloads.md).\n\n\
         | workload | what it does |\n|---|---|",
    );
    for generator in GENERATORS {
        line(&mut page, &format!("| `{}` | {} |", generator.name, generator.summary));
    }
    page
}

/// Parts that are tables of a description, with what their types say.
fn described(parts: &[Part]) -> String {
    let row = |part: &Part| match spec::shape().field(part.key).map(|field| &field.shape) {
        Some(Shape::Table(table)) => format!("| `[{}]` | {} |\n", part.key, table.description),
        _ => String::new(),
    };
    parts.iter().map(row).collect()
}

fn named(parts: &[Part]) -> String {
    parts.iter().map(|part| format!("| `{}` | {} |\n", part.key, part.summary)).collect()
}

/// The page of generated workloads and their parameters.
pub fn workloads_page() -> String {
    let mut page = String::from(
        "# Generated workloads\n\n\
         What `-w NAME` takes beside programs, recordings and traces. `--set workload.PARAMETER=VALUE` \
         sets a\nparameter, or `tierscope.workload(NAME, PARAMETER=VALUE)`. \
         [Workloads](../models/workloads.md) says what they do.\n\n\
         A count may be a text with a decimal factor: `2M` is 2,000,000 (`k`, `M`, `G`, `T`). A share may be \
         in percent: `20%` is 0.2.\nA size has its unit: `512MiB`.\n",
    );
    for generator in GENERATORS {
        page.push_str(&format!(
            "\n## {}\n\n{}.\n\n| parameter | default | meaning |\n|---|---|---|\n",
            generator.name,
            capital(generator.summary)
        ));
        for one in generator.parameters {
            let meaning = capital(one.meaning.trim_end_matches('.'));
            line(&mut page, &format!("| `{}` | `{}` | {meaning}. |", one.name, one.default));
        }
        page.push_str(&format!("\n{}\n", Mix::of(generator).told()));
        let waits = match generator.dependences {
            "" => "No access waits for another".to_owned(),
            told => capital(told),
        };
        page.push_str(&format!(
            "\n{waits}.\n\n[What it does, and its source](../models/workloads.md).\n"
        ));
        page.push_str(&format!(
            "\n![{0}: what it accesses and reuse distances](../images/workloads/{1}.png)\n",
            generator.name,
            generator.name.replace('/', "-"),
        ));
    }
    page
}

/// What operations of a workload are, counted.
#[derive(Default)]
struct Mix {
    loads: u64,
    stores: u64,
    calls: u64,
    instructions: u64,
    waiting: u64,
}

impl Mix {
    /// Operations of a thread that are counted at a place …
    const MOST: usize = 5_000;
    /// … behind so many …
    const PLACES: [u64; 4] = [0, 100_000, 1_000_000, 10_000_000];
    /// … of so many threads.
    const THREADS: u32 = 8;

    /// Of a workload with its defaults, without what fills its memory first.
    fn of(generator: &Generator) -> Mix {
        let touches = generator.parameters.iter().any(|one| one.name == "touched");
        let sets: Vec<_> =
            touches.then(|| ("touched".to_owned(), false.into())).into_iter().collect();
        let mut mix = Mix::default();
        let Ok((stream, _)) = generator.make(&sets, 0) else { return mix };
        for (thread, place) in
            (0..Mix::THREADS).flat_map(|thread| Mix::PLACES.map(|place| (thread, place)))
        {
            let (mut ops, mut stream) = (Vec::new(), stream.fork());
            if stream.skip(thread, place).ok() != Some(place) {
                continue;
            }
            while let left @ 1.. = Mix::MOST.saturating_sub(ops.len()) {
                if stream.pull(thread, left, &mut ops) != Ok(Pull::More) {
                    break;
                }
            }
            operations(&ops).for_each(|(op, _)| mix.take(op));
        }
        mix
    }

    fn take(&mut self, op: Op) {
        self.instructions += u64::from(op.instructions());
        match op.kind() {
            Some(OpKind::Load) => self.loads += 1,
            Some(OpKind::Store) => self.stores += 1,
            Some(OpKind::Call) => return self.calls += 1,
            _ => return,
        }
        self.waiting += u64::from(op.flags() & FLAG_DEPENDENT != 0);
    }

    fn told(&self) -> String {
        let all = (self.loads + self.stores + self.calls).max(1) as f64;
        let percent = |count: u64| format!("{:.1} %", 100.0 * count as f64 / all);
        format!(
            "As it is by default, of 5,000 operations of a thread each at its beginning and behind 10⁵, 10⁶ and 10⁷, \
             as far as it has them, {} are loads, {} stores and {} calls, with {:.1} instructions each; {} wait \
             for the load before them.",
            percent(self.loads),
            percent(self.stores),
            percent(self.calls),
            self.instructions as f64 / all,
            percent(self.waiting),
        )
    }
}

/// A text with its first letter as a capital.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The page of a machine's keys.
pub fn system_page() -> String {
    let mut page = String::from(
        "# Describing a machine\n\n\
         A machine is a TOML file, or Python objects of the same names. A file may begin with\n\
         `base = \"hybrid\"` (a preset, or another file, relative to this one) and then say only \
         what differs:\n\
         tables merge, lists and values are replaced, and another kind of store or link takes the \
         place of\nthe base's. Without a base every key is required, except that of the \
         [organizations](parts.md)\nexactly one is given, and that one without a store, such as \
         `oracle`, needs neither `store` nor\n`link`. A file with a base and no `name` is called as \
         the file.\n\n\
         Several bases are a list, each laid over those before it: with\n\
         `base = [\"hybrid\", \"nvm10-host\"]` the machine has the processor and the operating system \
         of a\nhost, instead of those of `hybrid`. The hosts are:\n\n| host | what |\n|---|---|\n",
    );
    for (host, summary) in spec::hosts() {
        page.push_str(&format!("| `{host}` | {summary} |\n"));
    }
    page.push_str(
        "\nA kernel comes last, over any machine and host: with \
         `base = [\"storage/z-ssd\", \"linux-6.18\"]` the machine\nreads ahead, reclaims, writes back \
         and hands requests over as that kernel, at its costs; a machine whose operating\nsystem does \
         not page takes its costs alone. What depends on the drive, such as its hardware queues, the \
         machine says.\nThe kernels are:\n\n| kernel | what |\n|---|---|\n",
    );
    for (kernel, summary) in spec::kernels() {
        page.push_str(&format!("| `{kernel}` | {summary} |\n"));
    }
    page.push_str(
        "\n`--set path=value` changes one value: `--set hybrid.cache.ways=64`,\n\
         `--set processor.caches.L2.capacity=1MiB`.\n\n\
         The comment behind a value is its source: `tierscope show` prints it, and a result keeps \
         it.\n\n",
    );
    let mut tables = Vec::new();
    collect("", spec::shape(), &mut tables);
    for (path, heading, table) in &tables {
        section(&mut page, path, heading, table);
    }
    kinds(&mut page);
    page
}

/// Each table with its path, in order; a type that occurs again is not repeated.
fn collect<'a>(path: &str, table: &'a Table, all: &mut Vec<(String, String, &'a Table)>) {
    if all.iter().any(|(.., known)| known.name == table.name) {
        return;
    }
    all.push((path.to_owned(), heading(path, table), table));
    for field in &table.fields {
        let below =
            if path.is_empty() { field.name.clone() } else { format!("{path}.{}", field.name) };
        match &field.shape {
            Shape::Table(inner) => collect(&below, inner, all),
            Shape::List(items) => {
                if let Shape::Table(inner) = &**items {
                    collect(&below, inner, all);
                }
            }
            _ => {}
        }
    }
}

fn heading(path: &str, table: &Table) -> String {
    match (path, table.name.as_str()) {
        ("", _) => "Top level".into(),
        ("processor.caches", _) => format!("`[[{path}]]`"),
        (_, "Path") => "Each path of `[os.paths]`".into(),
        _ => format!("`[{path}]`"),
    }
}

fn section(page: &mut String, path: &str, heading: &str, table: &Table) {
    line(page, &format!("## {heading}\n"));
    line(page, &format!("{} In Python: `{}`.\n", table.description, table.name));
    line(page, "| key | type | meaning |\n|---|---|---|");
    for field in &table.fields {
        let meaning = meaning(field);
        line(page, &format!("| `{}` | {} | {meaning} |", field.name, kind_of(field, path)));
    }
    page.push('\n');
}

fn meaning(field: &Field) -> String {
    let mut meaning = field.description.clone();
    if let Shape::Word(words) = &field.shape {
        for word in words {
            meaning.push_str(&format!(" `\"{}\"`: {}", word.name, word.description));
        }
    }
    meaning.replace('|', "\\|")
}

fn kind_of(field: &Field, path: &str) -> String {
    let below = if path.is_empty() { field.name.clone() } else { format!("{path}.{}", field.name) };
    let kind = match &field.shape {
        Shape::Quantity(kind) => format!("[{}](#{})", kind.name, kind.name),
        Shape::Integer { .. } => "integer".into(),
        Shape::Number => "number".into(),
        Shape::Boolean => "`true` or `false`".into(),
        Shape::Text => "text".into(),
        Shape::Word(_) => "word".into(),
        Shape::Table(table) if table.name == "Path" => "`{ instructions, lines }`".into(),
        Shape::Table(_) => format!("table `[{below}]`"),
        Shape::List(_) => format!("tables `[[{below}]]`"),
    };
    if field.required { kind } else { format!("{kind}, if any") }
}

fn kinds(page: &mut String) {
    line(
        page,
        "## Quantities\n\n\
         A number with a dimension is a text with a unit, taken exactly: what would have to be \
         rounded is an\nerror, and so is a number without a unit.\n",
    );
    for kind in KINDS {
        line(page, &format!("### {}\n", kind.name));
        line(
            page,
            &format!("{} Units: {}. Such as {}.\n", kind.description, units(kind), such(kind)),
        );
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
}

fn units(kind: &Kind) -> String {
    kind.units.iter().map(|unit| format!("`{}`", unit.symbol)).collect::<Vec<_>>().join(", ")
}

fn such(kind: &Kind) -> String {
    kind.examples.map(|example| format!("`\"{example}\"`")).join(", ")
}

fn line(page: &mut String, text: &str) {
    let written = writeln!(page, "{text}");
    debug_assert!(written.is_ok(), "writing to a text cannot fail");
}
