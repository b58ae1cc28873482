//! The generated files: what is in each, writing them, and whether they are current.

use crate::{presets, python, reference};
use std::path::Path;

const COMMAND: &str = "cargo run -p tierscope-xtask -- generate";

/// Path below the root, and content, of each generated file.
fn files(root: &Path) -> Result<Vec<(String, String)>, String> {
    let fixed = [
        ("docs/reference/system.schema.json", reference::system_schema()),
        ("docs/reference/system.md", reference::system_page()),
        ("docs/reference/result.schema.json", reference::result_schema()),
        ("docs/reference/errors.md", reference::errors_page()),
        ("docs/reference/parts.md", reference::parts_page()),
        ("docs/reference/workloads.md", reference::workloads_page()),
        ("python/tierscope/_spec.py", python::classes()),
    ];
    let fixed = fixed.map(|(path, content)| (path.to_owned(), content));
    Ok(fixed.into_iter().chain(presets::pages(root)?).collect())
}

/// Writes those that are not current.
///
/// # Errors
/// Which file cannot be written, and why.
pub fn write(root: &Path) -> Result<String, String> {
    let mut written = Vec::new();
    for (path, content) in files(root)? {
        let full = root.join(&path);
        if std::fs::read_to_string(&full).is_ok_and(|there| there == content) {
            continue;
        }
        let folder = full.parent().unwrap_or(root);
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&full, content))
            .map_err(|error| format!("{path} cannot be written: {error}"))?;
        written.push(path);
    }
    match written.as_slice() {
        [] => Ok("all generated files are current".into()),
        written => Ok(format!("wrote {}", written.join(", "))),
    }
}

/// Whether all are current.
///
/// # Errors
/// Which files are not, and the command that writes them.
pub fn check(root: &Path) -> Result<String, String> {
    let stale: Vec<_> = files(root)?
        .into_iter()
        .filter(|(path, content)| {
            !std::fs::read_to_string(root.join(path)).is_ok_and(|there| there == *content)
        })
        .map(|(path, _)| format!("{path} is stale"))
        .collect();
    match stale.as_slice() {
        [] => Ok("all generated files are current".into()),
        stale => Err(format!("{}\nrun: {COMMAND}", stale.join("\n"))),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn generated_files_are_current() {
        assert_eq!(
            super::check(&crate::root()).map_err(|why| println!("{why}")),
            Ok("all generated files are current".to_owned())
        );
    }
}
