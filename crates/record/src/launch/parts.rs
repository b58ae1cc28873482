//! Which libraries a program is linked with, as its own loader says.

use super::{Backend, LaunchError, Program, io_error, loader_of};
use crate::symbols::Parts;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Asks the program's loader, under the back end, where it may choose other variants of libraries
/// than on this computer. It loads the program and its libraries, and runs nothing of them.
pub fn parts(backend: &dyn Backend, program: &Program) -> Result<Parts, LaunchError> {
    let shown = program.path.display();
    let path = program.path.canonicalize().map_err(io_error(&format!("{shown}")))?;
    let unreadable = |error: std::io::Error| LaunchError::ProgramUnfit {
        path: path.clone(),
        reason: format!("its head cannot be read: {error}"),
    };
    let Some(loader) = loader_of(&path).map_err(unreadable)? else {
        return Ok(Parts { program: path, libraries: Vec::new(), loader: None });
    };
    // The loaders of glibc and of musl both list a program's libraries so.
    let asked = Program {
        path: loader.clone(),
        name: loader.clone().into(),
        arguments: vec!["--list".into(), path.clone().into()],
    };
    let output =
        backend.unobserved(&asked).stdin(Stdio::null()).stderr(Stdio::null()).output().map_err(
            io_error(&format!("asking {} for the libraries of {shown}", loader.display())),
        )?;
    let loader = loader.canonicalize().unwrap_or(loader);
    let mut libraries: Vec<PathBuf> =
        output.stdout.split(|b| *b == b'\n').filter_map(listed).collect();
    libraries.retain(|library| *library != loader && *library != path);
    Ok(Parts { program: path, libraries, loader: Some(loader) })
}

/// The file in a line of a loader's list: `name => path (address)`, or `path (address)`.
fn listed(line: &[u8]) -> Option<PathBuf> {
    let line = line.trim_ascii();
    let end = line.windows(2).rposition(|two| two == b" (")?;
    let line = &line[..end];
    let arrow = line.windows(4).position(|four| four == b" => ");
    let path = Path::new(OsStr::from_bytes(arrow.map_or(line, |at| &line[at + 4..])));
    // What the kernel provides is no file.
    path.is_absolute().then(|| path.canonicalize().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_from_what_loaders_list() {
        let here = std::env::current_exe().unwrap().canonicalize().unwrap();
        let shown = here.display();
        for (line, expected) in [
            (format!("\tlibx.so.6 => {shown} (0x0000004002830000)"), Some(&here)),
            (format!("\t{shown} (0x0000004000000000)"), Some(&here)),
            ("\tlinux-vdso.so.1 (0x00007ffd)".into(), None),
            ("\tlibz.so.1 => not found".into(), None),
            ("\tstatically linked".into(), None),
            (String::new(), None),
        ] {
            assert_eq!(listed(line.as_bytes()).as_ref(), expected, "{line}");
        }
    }
}
