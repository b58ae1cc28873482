//! The steps of CONTRIBUTING.md, carried out as they stand there, in a copy of the repository:
//! one new file and one line make a part of each kind.
//!
//! The copy is kept below the target directory, with a target directory of its own, so that only what has changed is
//! built again; what the repository depends on is taken from where the repository's tests were built.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SECTION: &str = "\n## Adding a part\n";
/// Beyond what the steps check by themselves: a machine with the parts that were added.
const MACHINE: (&str, &str) = ("crates/system/tests/scaffolded.rs", include_str!("machine.rs"));

#[test]
fn the_steps_of_contributing_make_a_part_of_each_kind() {
    let root = root();
    let steps = steps(&read(&root.join("CONTRIBUTING.md")));
    let (making, checking): (Vec<_>, Vec<_>) =
        steps.into_iter().partition(|step| step.starts_with("sed "));
    assert!(making.len() >= 14 && checking.len() >= 9, "{making:#?}\n{checking:#?}");
    let below = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (fresh, copy) = (below.join("scaffold-fresh"), below.join("scaffold"));
    make_tree(&root, &fresh, &making);
    synchronize(&fresh, &copy);
    lend_packages(&root, &copy);
    lend_dependencies();
    for step in &checking {
        let said = run(&copy, step);
        if step.contains("cargo test") {
            assert!(tests_passed(&said) > 0, "`{step}` runs no test:\n{said}");
        }
    }
    let said = run(&copy, "cargo test -p tierscope-system --test scaffolded");
    assert_eq!(tests_passed(&said), 1, "{said}");
    every_part_is_listed(&copy);
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// The lines of the section's blocks of shell commands.
fn steps(contributing: &str) -> Vec<String> {
    let (_, section) = contributing.split_once(SECTION).expect("CONTRIBUTING.md has the section");
    let section = section.split("\n## ").next().unwrap_or(section);
    let blocks = section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.flat_map(|block| block.lines().map(str::to_owned)).collect()
}

/// The repository's files, and what the steps make of them.
fn make_tree(root: &Path, fresh: &Path, making: &[String]) {
    fs::remove_dir_all(fresh).ok();
    for path in repository_files(root) {
        let to = fresh.join(&path);
        fs::create_dir_all(to.parent().unwrap_or(fresh)).expect("a folder of the copy");
        fs::copy(root.join(&path), &to).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    }
    for step in making {
        let before = contents(fresh);
        run(fresh, step);
        assert_ne!(before, contents(fresh), "`{step}` changes nothing");
    }
    fs::create_dir_all(fresh.join(".cargo")).expect("a folder of the copy");
    let config = cargo_config(fresh);
    for (path, text) in [(".cargo/config.toml", &*config), MACHINE] {
        fs::write(fresh.join(path), text).expect("a file of the copy");
    }
}

/// Crates whose code is not optimized are built faster. It is said of each by its name: what is said of all others
/// (`package."*"`) holds for build scripts and macros, too, and all that depends on those would be built anew.
fn cargo_config(fresh: &Path) -> String {
    let crates = fs::read_dir(fresh.join("crates")).expect("the crates of the copy").flatten();
    let plain = |name: &str| format!("[profile.dev.package.tierscope-{name}]\nopt-level = 0\n");
    crates.map(|entry| plain(&entry.file_name().to_string_lossy())).collect()
}

/// Files of the repository that are there, those not yet committed included.
fn repository_files(root: &Path) -> Vec<PathBuf> {
    let said = run(root, "git ls-files --cached --others --exclude-standard");
    said.lines().map(PathBuf::from).filter(|path| root.join(path).is_file()).collect()
}

/// Sizes and times do not tell whether a step has done something: contents of the files that steps
/// change do.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let is_changed = |path: &PathBuf| {
        path.extension().is_some_and(|end| end == "rs" || end == "toml" || end == "md")
    };
    let files = files_below(folder).into_iter().filter(is_changed);
    files.map(|path| (path.clone(), fs::read(folder.join(path)).unwrap_or_default())).collect()
}

fn files_below(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                _ => found.extend(entry.path().strip_prefix(folder).map(Path::to_owned)),
            }
        }
    }
    found
}

/// Makes `copy` equal to `fresh`; files that are equal keep their times, so that cargo builds only
/// what has changed.
fn synchronize(fresh: &Path, copy: &Path) {
    let wanted = files_below(fresh);
    for path in files_below(copy).difference(&wanted) {
        fs::remove_file(copy.join(path)).expect("a stale file of the copy");
    }
    for path in wanted {
        let (from, to) = (fresh.join(&path), copy.join(&path));
        let text = fs::read(&from).expect("a file of the copy");
        if fs::read(&to).is_ok_and(|there| there == text) {
            continue;
        }
        fs::create_dir_all(to.parent().unwrap_or(copy)).expect("a folder of the copy");
        fs::remove_file(&to).ok();
        fs::copy(&from, &to).expect("a file of the copy");
        // The time of the copy, not of the original: it may be older than what was built.
        let file = fs::File::options().append(true).open(&to).expect("a file of the copy");
        file.set_modified(std::time::SystemTime::now()).expect("the time of a file");
    }
    fs::remove_dir_all(fresh).ok();
}

/// An environment of Python for the copy, which has the packages of the original's, where there is one; where there is
/// none, `make` installs them.
fn lend_packages(root: &Path, copy: &Path) {
    if !root.join(".venv/run-packages").is_file() {
        return;
    }
    let lent = root.join(".venv");
    let making = "python3 -m venv --without-pip .venv; ln -s \"$LENT/bin/maturin\" .venv/bin; \
         echo \"$LENT\"/lib/python3*/site-packages > \"$(echo .venv/lib/python3*/site-packages)/lent.pth\"; \
         touch .venv/run-packages";
    run(copy, &format!("LENT='{}'; {making}", lent.display()));
}

/// Where the copy is built. Libraries that are loaded have the same names in each build: in the repository's own place
/// the copy's would stand for its.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("scaffold-target")
}

/// Links into the copy's target directory what is built there of crates that are not the repository's.
fn lend_dependencies() {
    let tests = std::env::current_exe().expect("the place of this test");
    let profile = tests.ancestors().nth(2).expect("it lies among what is built");
    for folder in ["deps", "build", ".fingerprint"] {
        let (from, to) = (profile.join(folder), target().join("debug").join(folder));
        for path in files_below(&from) {
            if path.to_string_lossy().contains("tierscope") || to.join(&path).exists() {
                continue;
            }
            fs::create_dir_all(to.join(&path).parent().unwrap_or(&to))
                .expect("a folder to build in");
            // What cannot be lent is built.
            fs::hard_link(from.join(&path), to.join(&path)).ok();
        }
    }
}

/// Runs a command of the shell; what it said, and an end of the test if it failed. `--nocapture` shows how long each
/// takes.
fn run(folder: &Path, command: &str) -> String {
    let mut shell = Command::new("bash");
    shell.args(["-euc", command]).current_dir(folder);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        let of_cargo = name.starts_with("CARGO")
            && !["CARGO_HOME", "CARGO_BUILD_JOBS", "CARGO_INCREMENTAL"].contains(&&*name);
        if of_cargo || name.starts_with("MAKE") || name == "MFLAGS" || name == "RUST_BACKTRACE" {
            shell.env_remove(&*name);
        }
    }
    shell.env("CARGO_TARGET_DIR", target()).env("CARGO_NET_OFFLINE", "true");
    // The package for Python is built as the tests are.
    shell.env("PROFILE", "dev");
    let begun = std::time::Instant::now();
    let output = shell.output().unwrap_or_else(|why| panic!("bash: {why}"));
    println!("{:6.1} s: {command}", begun.elapsed().as_secs_f64());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`{command}` fails:\n{said}\n{errors}");
    said
}

/// How many tests passed in all that cargo ran.
fn tests_passed(said: &str) -> u32 {
    let counts = said.split("test result: ok. ").skip(1);
    counts.filter_map(|rest| rest.split(' ').next()?.parse::<u32>().ok()).sum()
}

/// What a user sees of the parts: reference pages, schema and Python classes.
fn every_part_is_listed(copy: &Path) {
    let page = read(&copy.join("docs/reference/parts.md"));
    let parts = ["my_policy", "my_workload", "my_medium", "[my_link]", "[my_store]", "[mine]"];
    for part in parts {
        assert!(page.contains(&format!("`{part}`")), "{part} is not in the list of parts:\n{page}");
    }
    let machine = read(&copy.join("docs/reference/system.md"));
    let schema = read(&copy.join("docs/reference/system.schema.json"));
    let python = read(&copy.join("python/tierscope/_spec.py"));
    for (table, class) in [("my_link", "MyLink"), ("my_store", "MyStore"), ("mine", "Mine")] {
        assert!(machine.contains(&format!("## `[{table}]`")), "{table} is in no reference");
        assert!(schema.contains(&format!("\"{table}\"")), "{table} is not in the schema");
        assert!(python.contains(&format!("class {class}(_Spec)")), "{class} is no Python class");
    }
    assert!(python.contains("\"mine\": Mine,"), "Python does not know the organization");
}
