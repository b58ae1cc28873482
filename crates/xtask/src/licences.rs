//! Whether everything in the recorder's library may be loaded into QEMU, which is under GPLv2.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const RECORDER: &str = "tierscope-record";

/// Licences that can be combined with GPLv2. Apache-2.0 alone cannot.
const ALLOWED: &[&str] = &[
    "0BSD",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

/// Reads the recorder's dependencies from cargo, and checks the licence of each.
///
/// # Errors
/// Each crate whose licence does not do, or why cargo's answer could not be had.
pub fn check(root: &Path) -> Result<String, String> {
    let metadata = metadata(root)?;
    let packages = reachable(&metadata)?;
    let refused: Vec<_> = packages
        .iter()
        .filter_map(|package| {
            let name = package["name"].as_str().unwrap_or_default();
            match package["license"].as_str() {
                Some(licence) if allows(licence) => None,
                Some(licence) => Some(format!("{name}: {licence}")),
                None => Some(format!("{name}: no licence is named")),
            }
        })
        .collect();
    match refused.as_slice() {
        [] => Ok(format!("{} crates, all compatible with GPLv2", packages.len())),
        refused => Err(format!(
            "{RECORDER} is loaded into QEMU (GPLv2) and may not depend on\n  {}\n\
             use another crate, or none",
            refused.join("\n  ")
        )),
    }
}

fn metadata(root: &Path) -> Result<Value, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo cannot be run: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

/// The recorder and all that is linked into it: neither build scripts nor tests.
fn reachable(metadata: &Value) -> Result<Vec<&Value>, String> {
    let each = |list: &'static str| metadata[list].as_array().into_iter().flatten();
    let packages: BTreeMap<_, _> =
        each("packages").filter_map(|package| Some((package["id"].as_str()?, package))).collect();
    let nodes: BTreeMap<_, _> = metadata["resolve"]["nodes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let start = packages.iter().find(|(_, package)| package["name"] == RECORDER);
    let (start, _) = start.ok_or(format!("there is no crate {RECORDER}"))?;
    let mut open = vec![*start];
    let mut found = BTreeMap::new();
    while let Some(id) = open.pop() {
        let Some(package) = packages.get(id) else { continue };
        if found.insert(id, *package).is_none() {
            open.extend(nodes.get(id).into_iter().flat_map(|node| linked(node)));
        }
    }
    Ok(found.into_values().collect())
}

fn linked(node: &Value) -> impl Iterator<Item = &str> {
    let dependencies = node["deps"].as_array().into_iter().flatten();
    dependencies
        .filter(|dependency| {
            let kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
            kinds.into_iter().any(|kind| kind["kind"].is_null())
        })
        .filter_map(|dependency| dependency["pkg"].as_str())
}

/// Whether a licence expression (SPDX, or the older form with `/` for `OR`) leaves a choice that
/// is allowed throughout.
fn allows(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<_> = spaced.split_whitespace().collect();
    let mut reader = Reader { tokens: &tokens };
    let allowed = reader.either();
    allowed && reader.tokens.is_empty()
}

struct Reader<'a> {
    tokens: &'a [&'a str],
}

impl Reader<'_> {
    fn take(&mut self, word: &str) -> bool {
        let here = self.tokens.first() == Some(&word);
        if here {
            self.tokens = &self.tokens[1..];
        }
        here
    }

    fn either(&mut self) -> bool {
        let mut allowed = self.both();
        while self.take("OR") {
            allowed |= self.both();
        }
        allowed
    }

    fn both(&mut self) -> bool {
        let mut allowed = self.one();
        while self.take("AND") {
            allowed &= self.one();
        }
        allowed
    }

    fn one(&mut self) -> bool {
        if self.take("(") {
            let allowed = self.either();
            return self.take(")") && allowed;
        }
        let Some((name, rest)) = self.tokens.split_first() else { return false };
        self.tokens = rest;
        if self.take("WITH") {
            self.tokens = self.tokens.get(1..).unwrap_or_default();
            return false;
        }
        ALLOWED.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_that_gplv2_allows_is_needed() {
        for good in [
            "MIT",
            "MIT OR Apache-2.0",
            "Apache-2.0/MIT",
            "Unlicense OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "BSD-3-Clause AND MIT",
        ] {
            assert!(allows(good), "{good}");
        }
        for bad in [
            "Apache-2.0",
            "MIT AND Apache-2.0",
            "MPL-2.0",
            "GPL-3.0-only",
            "Apache-2.0 WITH LLVM-exception",
            "(MIT OR Apache-2.0",
            "MIT MIT",
            "",
        ] {
            assert!(!allows(bad), "{bad}");
        }
    }
}
