//! The steps of CONTRIBUTING.md, carried out as they stand there, in a copy of the repository:
//! one new file and one line make a part of each kind.
//!
//! The copy is kept below the target directory, so that only what has changed is built again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SECTION: &str = "\n## Adding a part\n";
/// Parts whose code is not optimized are built faster, and what they depend on is built already.
const CARGO_CONFIG: &str = "[profile.dev]\nopt-level = 0\n\
    [profile.dev.package.\"*\"]\nopt-level = 2\n";
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
    for (path, text) in [(".cargo/config.toml", CARGO_CONFIG), MACHINE] {
        fs::write(fresh.join(path), text).expect("a file of the copy");
    }
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

/// Runs a command of the shell; what it said, and an end of the test if it failed.
fn run(folder: &Path, command: &str) -> String {
    let mut shell = Command::new("bash");
    shell.args(["-euc", command]).current_dir(folder);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        let of_cargo =
            name.starts_with("CARGO") && !["CARGO_HOME", "CARGO_BUILD_JOBS"].contains(&&*name);
        if of_cargo || name.starts_with("MAKE") || name == "MFLAGS" || name == "RUST_BACKTRACE" {
            shell.env_remove(&*name);
        }
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
    shell.env("CARGO_TARGET_DIR", target.expect("it lies in the target directory"));
    // Profiles of their own: cargo names what it builds by profile and by place below the workspace, so that
    // the copy's crates would stand for those of the original in the target directory that they share.
    shell.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0").env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
    shell.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_NET_OFFLINE", "true");
    let output = shell.output().unwrap_or_else(|why| panic!("bash: {why}"));
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
