//! From a name or a file to a resolved machine, or to every mistake at once.

use super::presets::{self, Part, Preset};
use super::tree::{self, Data, Node};
use super::{SystemSpec, foreign, repair, sets, walk};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use tierscope_model::device::{DEVICES, IN_DRAM};
use tierscope_model::link::LINKS;
use tierscope_units::{Problem, Problems, nearest, reason};

/// A machine, checked, with where each of its values comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resolved {
    /// The machine.
    pub spec: SystemSpec,
    /// The source of each value by its path, such as `processor.caches[0].ways`.
    pub sources: BTreeMap<String, Source>,
    /// What was laid over what: the name or file asked for first, its base next, and so on.
    pub origin: Vec<String>,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// What the comment behind the value says: paper, standard, file; empty where there is none.
    pub text: String,
    /// Where the value was written: file, line and column, or `--set …`.
    pub place: String,
}

/// Loads a preset (`hybrid`, `hybrid/quick`) or a TOML file, and changes it by `sets` (path and
/// value of each `--set`).
///
/// A file may name a `base`, a preset or another file (relative to itself), and then say only what
/// differs: tables merge, all else is replaced. Several bases are a list, each laid over those before it; a
/// host takes the place of their processor and operating system. A file with a base and no `name` is called
/// as the file.
///
/// # Errors
/// Every mistake: of form, in file order, and of meaning, as far as what is wrong in form allows.
pub fn load(reference: &str, sets: &[(String, String)]) -> Result<Resolved, Problems> {
    resolve(layers(reference)?, sets)
}

/// Loads TOML that is not in a file, called `name` in messages. Its base is a preset, or a file
/// relative to the working directory.
///
/// # Errors
/// As [`load`].
pub fn load_text(name: &str, text: &str, sets: &[(String, String)]) -> Result<Resolved, Problems> {
    let mut loader = Loader::default();
    let root = loader.text(name, text, Path::new(""), None)?;
    resolve(Layered { root, origin: loader.origin }, sets)
}

/// Loads what `over` says laid over `base`, or `over` alone. Null means that nothing is said.
///
/// # Errors
/// As [`load`]. Places are `who`.
pub fn load_json(
    base: Option<&str>,
    over: &serde_json::Value,
    who: &str,
    sets: &[(String, String)],
) -> Result<Resolved, Problems> {
    let mut layered = match base {
        Some(base) => layers(base)?,
        None => {
            Layered { root: Node::new(Data::Table(Vec::new()), "", who, who), origin: Vec::new() }
        }
    };
    layered.origin.insert(0, who.to_owned());
    lay_over(&mut layered.root, Node::from_json(over, who))?;
    resolve(layered, sets)
}

/// A description with its bases below it, not yet checked.
#[derive(Clone, Debug)]
pub(super) struct Layered {
    pub root: Node,
    origin: Vec<String>,
}

pub(super) fn layers(reference: &str) -> Result<Layered, Problems> {
    let mut loader = Loader::default();
    let root = match presets::find(reference) {
        Some(preset) => loader.preset(&preset)?,
        None if names_a_file(reference, Path::new("")) => loader.file(Path::new(reference))?,
        None => return Err(one(unknown_system(reference, String::new(), ""))),
    };
    Ok(Layered { root, origin: loader.origin })
}

/// What the preset that has the part at `path` says there.
pub(super) fn preset_node(path: &str) -> Option<Node> {
    let layered = layers(walk::base_for(path)).ok()?;
    let (node, exact) = layered.root.at(path);
    exact.then(|| node.clone())
}

/// What a preset says at `path`, as it is written there.
pub(super) fn preset_value(preset: &str, path: &str) -> Option<String> {
    let layered = layers(preset).ok()?;
    let (node, exact) = layered.root.at(path);
    let whole = exact && node.is_leaf() && !node.written.ends_with('…');
    whole.then(|| node.written.clone())
}

/// Whether a preset says anything at `path`.
pub(super) fn is_said(preset: &str, path: &str) -> bool {
    layers(preset).is_ok_and(|layered| layered.root.at(path).1)
}

/// Whether a file is meant, and not a preset: its name says so, or it is there.
fn names_a_file(reference: &str, folder: &Path) -> bool {
    let path = Path::new(reference);
    let said = reference.ends_with(".toml") || path.is_absolute() || reference.starts_with('.');
    said || reference.contains(std::path::MAIN_SEPARATOR) && folder.join(path).exists()
}

/// Reads a description and its bases, from the top down.
#[derive(Default)]
struct Loader {
    /// Names of what was read, as they are shown.
    origin: Vec<String>,
    /// The files that are being read, each the base of the one before, in a form that is equal for equal files.
    seen: Vec<PathBuf>,
}

impl Loader {
    fn preset(&mut self, preset: &Preset) -> Result<Node, Problems> {
        self.text(&format!("preset {}", preset.name), preset.text, Path::new(""), Some(preset))
    }

    fn file(&mut self, path: &Path) -> Result<Node, Problems> {
        let name = path.display().to_string();
        let text = read(path).map_err(|error| one(unreadable(&name, &error)))?;
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let same = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if self.seen.contains(&same) {
            return Err(one(cycle(&name, &self.origin)));
        }
        self.seen.push(same);
        let read = self.text(&name, &text, &folder, None);
        self.seen.pop();
        let mut node = read?;
        if let (None, Some(stem)) = (own_name(&name, &text), stem.filter(|_| self.origin.len() > 1))
        {
            let named = Node::new(
                Data::Text(stem.clone()),
                &format!("\"{stem}\""),
                &name,
                "the file's name",
            );
            node.put("name", named);
        }
        Ok(node)
    }

    fn text(
        &mut self,
        name: &str,
        text: &str,
        folder: &Path,
        preset: Option<&Preset>,
    ) -> Result<Node, Problems> {
        self.origin.push(name.to_owned());
        let mut top = tree::read(name, text)
            .map_err(|(reason, place)| one(bad_syntax(name, reason, place)))?;
        let Some(base) = top.remove("base") else { return Ok(top) };
        let Data::List(bases) = &base.data else {
            let mut below = self.base(&base, folder, preset)?;
            lay_over(&mut below, top)?;
            return Ok(below);
        };
        let mut layers = bases.iter();
        let Some(first) = layers.next() else {
            let mend = "write base = [\"hybrid\", \"nvm10-host\"], or leave it out".into();
            return Err(one(walk::problem(
                "wrong-type",
                &base,
                "base",
                "it names none".into(),
                mend,
            )));
        };
        let mut below = self.base(first, folder, preset)?;
        let mut host = is_host(first).then_some(first);
        let mut kernel = is_kernel(first).then_some(first);
        for layer in layers {
            let node = self.base(layer, folder, preset)?;
            if let Some(kernel) = kernel.filter(|_| is_host(layer) || has_a_host(&node)) {
                return Err(one(kernel_below(layer, kernel)));
            }
            if is_host(layer) {
                HOST_PARTS.iter().for_each(|part| drop(below.remove(part)));
            }
            if is_kernel(layer) {
                kernel = Some(layer);
                make_place_for_kernel(&mut below);
            }
            match host {
                Some(host) if is_host(layer) => return Err(one(second_host(layer, host))),
                Some(host) if has_a_host(&node) => return Err(one(host_below(layer, host))),
                Some(_) => {}
                None => host = is_host(layer).then_some(layer),
            }
            lay_over(&mut below, node)?;
        }
        lay_over(&mut below, top)?;
        Ok(below)
    }

    fn base(
        &mut self,
        base: &Node,
        folder: &Path,
        within: Option<&Preset>,
    ) -> Result<Node, Problems> {
        let Data::Text(name) = &base.data else {
            let reason = format!("a base is a text, or a list of them, not {}", base.data.words());
            let mend = "write a preset or a file, such as base = \"hybrid\"".into();
            return Err(one(walk::problem("wrong-type", base, "base", reason, mend)));
        };
        if within.is_none() && self.origin.len() > MOST_BASES {
            let reason = format!("with it, more than {MOST_BASES} descriptions would be read");
            let mend = "name each base once".into();
            return Err(one(walk::problem("impossible-value", base, "base", reason, mend)));
        }
        let preset = match within {
            Some(_) => presets::find_base(name),
            None => presets::find_users_base(name),
        };
        match preset {
            Some(preset) => self.preset(&preset),
            None if names_a_file(name, folder) => {
                let path: PathBuf = folder.join(name);
                self.file(&path).map_err(|problems| placed(problems, base))
            }
            None => Err(one(unknown_system(name, base.place.clone(), "base"))),
        }
    }
}

/// Bases that a description may have in all, bases of bases counted each time that they are named.
const MOST_BASES: usize = 64;

/// What a host brings, all of it: nothing of another's processor is left.
const HOST_PARTS: [&str; 2] = ["processor", "os"];

/// How much of a machine a base that comes with the program is.
fn part_of(base: &Node) -> Option<Part> {
    let Data::Text(name) = &base.data else { return None };
    presets::find_users_base(name).map(|preset| preset.part)
}

fn is_host(base: &Node) -> bool {
    part_of(base) == Some(Part::Host)
}

fn is_kernel(base: &Node) -> bool {
    part_of(base) == Some(Part::Kernel)
}

/// Nothing is left of how another kernel hands requests over: a scheduler's options mean nothing to another.
fn make_place_for_kernel(below: &mut Node) {
    if let Some(storage) = below.get_mut("storage") {
        drop(storage.remove("block_layer"));
    }
}

/// What a kernel says where a machine has no place for it is left out: all of `[storage]` where nobody else says
/// anything of it, as nothing pages there, and the block layer before a store in DRAM, which goes past it
/// (`brd_make_request`, drivers/block/brd.c).
fn leave_out_idle_kernel(root: &mut Node) {
    let in_dram = root.get(IN_DRAM).is_some();
    let Some(storage) = root.get_mut("storage") else { return };
    if in_dram && storage.get("block_layer").is_some_and(is_of_kernels) {
        drop(storage.remove("block_layer"));
    }
    if !storage.is_leaf() && is_of_kernels(storage) {
        root.remove("storage");
    }
}

/// Whether kernels alone have said all that is below a node.
fn is_of_kernels(node: &Node) -> bool {
    let mut of_kernels = true;
    node.leaves("", &mut |_, leaf| {
        let mut kernels = presets::kernels().into_iter();
        of_kernels &=
            kernels.any(|(kernel, _)| leaf.place.starts_with(&format!("preset {kernel}:")));
    });
    of_kernels
}

/// Whether a description has a whole processor, and not only what differs in one.
fn has_a_host(node: &Node) -> bool {
    ["processor.clock", "processor.cores", "processor.caches"].iter().all(|path| node.at(path).1)
}

fn second_host(layer: &Node, host: &Node) -> Problem {
    let reason = format!("it takes the place of all of {}, a host too", host.written);
    walk::problem("contradiction", layer, "base", reason, "name one host".into())
}

fn kernel_below(layer: &Node, kernel: &Node) -> Problem {
    let reason = format!(
        "it lays costs of its own, and what it says of paging, over those of the kernel {}, of which nothing \
         whole is left",
        kernel.written
    );
    let mend =
        format!("name the kernel last, as in base = [{}, {}]", layer.written, kernel.written);
    walk::problem("contradiction", layer, "base", reason, mend)
}

fn host_below(layer: &Node, host: &Node) -> Problem {
    let reason = format!(
        "it lays a processor and an operating system of its own over those of the host {}, of which \
         nothing whole is left",
        host.written
    );
    let mend = format!("name the host last, as in base = [{}, {}]", layer.written, host.written);
    walk::problem("contradiction", layer, "base", reason, mend)
}

/// Lays a description over its base. Another kind of store or link takes the place of the base's.
fn lay_over(base: &mut Node, top: Node) -> Result<(), Problems> {
    if let Some(problem) = foreign::part_of_another_link(base, &top) {
        return Err(one(problem));
    }
    for part in DEVICES.iter().chain(LINKS).filter(|part| top.get(part.key).is_some()) {
        let of_top = |key: &str| top.get(key).is_some();
        displaced_by(part.key).filter(|key| !of_top(key)).for_each(|key| drop(base.remove(key)));
    }
    base.merge(top);
    Ok(())
}

/// A store or a link that comes takes the place of any other.
pub(super) fn make_place_for(root: &mut Node, key: &str) {
    displaced_by(key).for_each(|other| drop(root.remove(other)));
}

/// What goes where the table of a store or a link comes: a store that lies in DRAM is behind no link.
fn displaced_by(key: &str) -> impl Iterator<Item = &'static str> {
    let links = LINKS.iter().filter(move |_| key == IN_DRAM).map(|link| link.key);
    others_of_its_kind(key).chain(links)
}

/// Whether a machine has a store, where `key` is the table of one, or a link, where it is that of a link.
pub(super) fn has_one_like(root: &Node, key: &str) -> bool {
    root.get(key).is_some() || others_of_its_kind(key).any(|other| root.get(other).is_some())
}

/// The other tables of stores, or of links.
fn others_of_its_kind(key: &str) -> impl Iterator<Item = &'static str> {
    let parts = [DEVICES, LINKS].into_iter().find(|parts| parts.iter().any(|it| it.key == key));
    let keys = parts.into_iter().flatten().map(|part| part.key);
    keys.filter(move |other| *other != key)
}

/// The name that a file itself gives, its base aside.
fn own_name(file: &str, text: &str) -> Option<Node> {
    tree::read(file, text).ok()?.remove("name")
}

/// A base that cannot be read is a mistake of the file that names it.
fn placed(mut problems: Problems, base: &Node) -> Problems {
    for problem in problems.iter_mut().filter(|problem| problem.place.is_empty()) {
        problem.path = "base".into();
        problem.place = base.place.clone();
    }
    problems
}

/// Where a host or a kernel is all that a description is based on, the base that would give what is missing comes before
/// it, and not in its place.
fn keep_part(problems: &mut Problems, origin: &[String]) {
    let presets = || origin.iter().filter_map(|name| name.strip_prefix("preset "));
    let is_based_on_a_machine = presets().any(|name| presets::find(name).is_some());
    let part = presets().find(|name| presets::part_text(name).is_some());
    let Some(part) = part.filter(|_| !is_based_on_a_machine) else { return };
    for problem in problems.iter_mut().filter(|problem| problem.code == "missing-key") {
        if let Some((before, machine)) = problem.mend.split_once("base = ") {
            problem.mend = format!("{before}base = [{machine}, \"{part}\"]");
        }
    }
}

pub(super) fn resolve(layered: Layered, sets: &[(String, String)]) -> Result<Resolved, Problems> {
    let Layered { mut root, origin } = layered;
    let before = (!sets.is_empty()).then(|| root.clone());
    let mut problems = Problems::new();
    for (path, value) in sets {
        sets::set(&mut root, (path, value), sets, &mut problems);
    }
    leave_out_idle_kernel(&mut root);
    foreign::take_out(&mut root, &mut problems);
    walk::walk(&root, &mut problems);
    if !problems.is_empty() {
        keep_part(&mut problems, &origin);
        let also = of_meaning(&root, &mut problems);
        append_new(&mut problems, also);
        return Err(problems);
    }
    let spec = deserialize(&root)?;
    let mut problems = spec.check();
    if !problems.is_empty() {
        for problem in problems.iter_mut() {
            add_place(problem, &root);
        }
        return Err(problems);
    }
    let mut sources = sources(&root);
    if let Some(before) = before {
        keep_sources(&mut sources, &before, &spec);
    }
    Ok(Resolved { spec, sources, origin })
}

/// Mistakes of meaning in a description with mistakes of form, as far as they do not come of these.
fn of_meaning(root: &Node, form: &mut Problems) -> Problems {
    let mut found = Problems::new();
    let Ok(spec) = deserialize(&repair::repaired(root, form)) else { return found };
    let all = if repair::is_whole(form) { spec.check() } else { spec.check_each() };
    repair::narrow(form, &all);
    let own =
        |problem: &Problem| !repair::may_come_of(problem, form) || is_of_value_alone(problem, root);
    for mut problem in all.into_iter().filter(own) {
        add_place(&mut problem, root);
        found.push(problem);
    }
    found
}

/// Whether a mistake of meaning is that of its value, whatever stands beside it: the preset that has the
/// part makes it, too, once it has that value.
fn is_of_value_alone(problem: &Problem, root: &Node) -> bool {
    let (node, exact) = root.at(&problem.path);
    if problem.code != "impossible-value" || !exact || !node.is_leaf() {
        return false;
    }
    let Ok(mut preset) = layers(walk::base_for(&problem.path)).map(|layered| layered.root) else {
        return false;
    };
    let steps: Vec<&str> = problem.path.split(['.', '[']).collect();
    repair::replace(&mut preset, &steps, Some(node.clone()));
    let same =
        |of_preset: &Problem| of_preset.path == problem.path && of_preset.reason == problem.reason;
    deserialize(&preset).is_ok_and(|spec| spec.check_each().iter().any(same))
}

fn deserialize(root: &Node) -> Result<SystemSpec, Problems> {
    serde_path_to_error::deserialize(root.to_json()).map_err(|error| {
        let path = error.path().to_string();
        let (node, _) = root.at(&path);
        let mend = "compare it with the reference".into();
        one(walk::problem("wrong-type", node, &path, error.inner().to_string(), mend))
    })
}

/// Says of a mistake of meaning where the value was written, and how.
fn add_place(problem: &mut Problem, root: &Node) {
    let (node, exact) = root.at(&problem.path);
    problem.place = node.place.clone();
    if exact && node.is_leaf() {
        problem.value = node.written.clone();
    }
}

/// A value that is set to what it was already is not changed: its source is what it was.
fn keep_sources(all: &mut BTreeMap<String, Source>, before: &Node, spec: &SystemSpec) {
    let Ok(was) = deserialize(before) else { return };
    let [was, is] = [&was, spec].map(|spec| serde_json::to_value(spec).unwrap_or_default());
    let pointer = |path: &str| format!("/{}", path.replace(['.', '['], "/").replace(']', ""));
    for (path, source) in sources(before) {
        let pointer = pointer(&path);
        let value = was.pointer(&pointer);
        if let Some(known) = all.get_mut(&path)
            && value.is_some()
            && value == is.pointer(&pointer)
        {
            *known = source;
        }
    }
    // What is set to what it is where nothing says it.
    all.retain(|path, _| [&was, &is].iter().any(|spec| spec.pointer(&pointer(path)).is_some()));
}

fn sources(root: &Node) -> BTreeMap<String, Source> {
    let mut all = BTreeMap::new();
    root.leaves("", &mut |path, node| {
        let source = Source { text: node.source.clone(), place: node.place.clone() };
        all.insert(path.to_owned(), source);
    });
    all
}

fn one(problem: Problem) -> Problems {
    let mut problems = Problems::new();
    problems.push(problem);
    problems
}

pub(super) fn append_new(problems: &mut Problems, found: Problems) {
    for problem in found {
        if !problems.iter().any(|known| *known == problem) {
            problems.push(problem);
        }
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    presets::list().into_iter().map(|(name, _)| name)
}

fn unknown_system(name: &str, place: String, path: &str) -> Problem {
    let parts = || presets::hosts().into_iter().chain(presets::kernels()).map(|(part, _)| part);
    let near = nearest(name, names().chain(parts().filter(|_| !path.is_empty())))
        .map(|near| format!("did you mean \"{near}\"?"));
    let all = || {
        let systems = names().collect::<Vec<_>>().join(", ");
        let called = |parts: Vec<(&'static str, _)>| {
            let names: Vec<_> = parts.into_iter().map(|(part, _): (_, &str)| part).collect();
            names.join(", ")
        };
        if path.is_empty() {
            format!("the presets are {systems}")
        } else {
            let (hosts, kernels) = (called(presets::hosts()), called(presets::kernels()));
            format!("the presets are {systems}; the hosts {hosts}; the kernels {kernels}")
        }
    };
    let is_one_of = |parts: Vec<(&str, _)>| parts.iter().any(|(part, _): &(_, &str)| *part == name);
    let (host, kernel) = (is_one_of(presets::hosts()), is_one_of(presets::kernels()));
    let as_base = |machine: &str| format!("write a file with base = [\"{machine}\", \"{name}\"]");
    Problem {
        code: "unknown-system",
        path: if path.is_empty() { "system".into() } else { path.to_owned() },
        value: format!("\"{name}\""),
        reason: if host {
            "it is a host, a processor and an operating system without memory".into()
        } else if kernel {
            "it is a kernel, what an operating system does with pages, without a machine".into()
        } else if name.contains(std::path::MAIN_SEPARATOR) {
            "there is neither a preset nor a file of that name".into()
        } else {
            "it is no preset, and a file's name ends with .toml".into()
        },
        mend: match (host, kernel) {
            (true, _) => as_base("hybrid"),
            (_, true) => as_base("storage"),
            _ if name == "pcie-block" => {
                "machines over a device behind PCI Express are \"haste\", \"fusion-io\", \"ssd-raid\" and \
                 \"disk-raid\""
                    .into()
            }
            _ => near.unwrap_or_else(all),
        },
        place,
    }
}

/// Bytes of a description at most: a device such as /dev/zero has no end.
const MOST_BYTES: u64 = 16 << 20;

/// The text of a file, or of a pipe that a shell has opened (`<(...)`). To open another pipe would
/// never end where nobody writes to it.
fn read(path: &Path) -> std::io::Result<String> {
    let is_pipe = std::fs::metadata(path)?.file_type().is_fifo();
    if is_pipe && !["/dev", "/proc"].iter().any(|root| path.starts_with(root)) {
        return Err(std::io::Error::other("it is a named pipe"));
    }
    let mut text = String::new();
    std::fs::File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(std::io::Error::other("it is longer than any description"));
    }
    Ok(text)
}

fn unreadable(name: &str, error: &std::io::Error) -> Problem {
    let path = Path::new(name);
    let missing = error.kind() == std::io::ErrorKind::NotFound;
    Problem {
        code: "unreadable-file",
        path: "system".into(),
        value: format!("\"{name}\""),
        reason: format!("the file cannot be read: {}", reason(error)),
        mend: match meant(path).as_slice() {
            _ if path.is_dir() => "name the file in it".into(),
            _ if !missing => "name a preset, or a file that can be read".into(),
            [] => {
                "name a preset (tierscope show systems lists them), or a file that is there".into()
            }
            near => format!("did you mean {}?", near.join(" or ")),
        },
        place: String::new(),
    }
}

/// What may be meant by the path of a file that is not there: a description beside it, a preset.
fn meant(path: &Path) -> Vec<String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let listed = std::fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten();
    let mut files: Vec<String> = listed
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|file| file.ends_with(".toml"))
        .collect();
    files.sort();
    let stem = |name: &str| name.trim_end_matches(".toml").to_owned();
    let given = path.file_name().map(|name| stem(&name.to_string_lossy())).unwrap_or_default();
    let stems: Vec<String> = files.iter().map(|file| stem(file)).collect();
    let file = nearest(&given, stems.iter().map(String::as_str));
    let file = file.map(|near| folder.unwrap_or(Path::new("")).join(format!("{near}.toml")));
    let whole = stem(&path.to_string_lossy());
    let preset = nearest(&whole, names()).or_else(|| nearest(&given, names()));
    let file = file.map(|file| format!("\"{}\"", file.display()));
    file.into_iter().chain(preset.map(|near| format!("the preset \"{near}\""))).collect()
}

fn cycle(name: &str, origin: &[String]) -> Problem {
    Problem {
        code: "base-cycle",
        path: "base".into(),
        value: format!("\"{name}\""),
        reason: format!("the bases lead back to it: {} → {name}", origin.join(" → ")),
        mend: "give one of them another base, or none".into(),
        place: String::new(),
    }
}

fn bad_syntax(name: &str, reason: String, place: String) -> Problem {
    Problem {
        code: "bad-syntax",
        path: name.to_owned(),
        value: String::new(),
        reason: format!("this is not TOML: {reason}"),
        mend: "mend it at the place named".into(),
        place,
    }
}
