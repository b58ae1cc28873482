//! Which file a program is, and whether it can be recorded.

use super::LaunchError;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A program that can be run: an ELF file of x86-64, with its arguments. A script has become its
/// interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The file that is run.
    pub path: PathBuf,
    /// What it is told that it is called.
    pub name: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// Interpreters of interpreters that are followed, as the kernel does (`BINPRM_MAX_RECURSION`).
const MAX_INTERPRETERS: usize = 5;
/// Bytes of a script's first line that count (`BINPRM_BUF_SIZE`).
const FIRST_LINE_BYTES: usize = 256;

impl Program {
    /// Finds `name` as a shell would, and checks that it can be run.
    pub fn resolve(name: &OsStr, arguments: &[OsString]) -> Result<Program, LaunchError> {
        Program::at(find(name)?, name.into(), arguments.to_vec())
    }

    /// What a file is, run under a name and with arguments: a script becomes its interpreter. Checks
    /// that it can be recorded.
    pub(crate) fn at(
        path: PathBuf,
        name: OsString,
        arguments: Vec<OsString>,
    ) -> Result<Program, LaunchError> {
        let mut program = Program { path, name, arguments };
        for _ in 0..MAX_INTERPRETERS {
            let start = first_bytes(&program.path)?;
            let Some(line) = start.strip_prefix(b"#!") else {
                check_elf(&program.path, &start)?;
                return Ok(program);
            };
            program = program.under_interpreter(line)?;
        }
        Err(unfit(&program.path, "its interpreter is a script of a script of a script …"))
    }

    /// The interpreter that a script's first line names, with the script as its argument.
    fn under_interpreter(self, line: &[u8]) -> Result<Program, LaunchError> {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
        let mut parts = line.splitn(2, |byte| matches!(byte, b' ' | b'\t'));
        let interpreter = parts.next().filter(|part| !part.is_empty());
        let interpreter = OsStr::from_bytes(
            interpreter.ok_or_else(|| unfit(&self.path, "its first line names no interpreter"))?,
        );
        let argument = parts.next().map(<[u8]>::trim_ascii).filter(|part| !part.is_empty());
        let mut arguments: Vec<OsString> =
            argument.map(|part| OsString::from_vec(part.to_vec())).into_iter().collect();
        arguments.push(self.path.clone().into());
        arguments.extend(self.arguments);
        let path = PathBuf::from(interpreter);
        check_executable(&path).map_err(|_| {
            unfit(&self.path, &format!("its interpreter {} cannot be run", path.display()))
        })?;
        Ok(Program { name: path.clone().into(), path, arguments })
    }
}

fn unfit(path: &Path, reason: &str) -> LaunchError {
    LaunchError::ProgramUnfit { path: path.to_owned(), reason: reason.to_owned() }
}

fn find(name: &OsStr) -> Result<PathBuf, LaunchError> {
    if name.is_empty() {
        return Err(LaunchError::ProgramUnnamed);
    }
    let shown = || name.to_string_lossy().into_owned();
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        if !path.exists() {
            return Err(LaunchError::ProgramMissing { name: shown(), hint: "" });
        }
        return check_executable(&path).map(|()| path);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|candidate| check_executable(candidate).is_ok())
        .ok_or_else(|| {
            let here = Path::new(".").join(name).is_file();
            let hint = if here {
                " in PATH; for the one in this directory write ./ before it"
            } else {
                " in PATH"
            };
            LaunchError::ProgramMissing { name: shown(), hint }
        })
}

fn check_executable(path: &Path) -> Result<(), LaunchError> {
    let status = path.metadata().map_err(|error| unfit(path, &error.to_string()))?;
    if status.is_dir() {
        return Err(unfit(path, "a directory, not a program"));
    }
    if status.permissions().mode() & 0o111 == 0 {
        return Err(unfit(path, "not executable: chmod +x makes it so"));
    }
    Ok(())
}

fn first_bytes(path: &Path) -> Result<Vec<u8>, LaunchError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FIRST_LINE_BYTES as u64).read_to_end(&mut bytes))
        .map_err(|error| unfit(path, &error.to_string()))?;
    Ok(bytes)
}

/// Checks the head of an ELF file (System V ABI, chapter 4; machine numbers of its supplements).
fn check_elf(path: &Path, start: &[u8]) -> Result<(), LaunchError> {
    const EXECUTABLE: u16 = 2;
    const SHARED_OBJECT: u16 = 3;
    const X86_64: u16 = 62;
    if !start.starts_with(b"\x7fELF") {
        return Err(unfit(path, "neither an ELF program nor a script that begins with #!"));
    }
    let half = |at: usize| start.get(at..at + 2).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]));
    let (bits, kind, machine) = (start.get(4).copied().unwrap_or(0), half(16), half(18));
    if machine != X86_64 || bits != 2 {
        let machine = match machine {
            3 => "32-bit x86",
            40 => "32-bit ARM",
            183 => "64-bit ARM",
            243 => "RISC-V",
            X86_64 => "x86-64 with 32-bit pointers (x32)",
            _ => "another architecture",
        };
        return Err(unfit(
            path,
            &format!("a program for {machine}; the recorder takes x86-64 programs"),
        ));
    }
    if !matches!(kind, EXECUTABLE | SHARED_OBJECT) {
        return Err(unfit(path, "an ELF file that is not a program"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("tierscope-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }

        fn file(&self, name: &str, content: &[u8], mode: u32) -> PathBuf {
            let path = self.0.join(name);
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn resolve(path: &Path) -> Result<Program, LaunchError> {
        Program::resolve(path.as_os_str(), &["x".into()])
    }

    #[test]
    fn a_script_runs_its_interpreter_with_one_argument_as_the_kernel_does() {
        let scratch = Scratch::new("script");
        let script = scratch.file("s", b"#!  /bin/sh -e -u\necho\n", 0o755);
        let program = resolve(&script).unwrap();
        assert_eq!(program.path, Path::new("/bin/sh"));
        let expected: Vec<OsString> = vec!["-e -u".into(), script.into(), "x".into()];
        assert_eq!(program.arguments, expected);
    }

    #[test]
    fn what_cannot_be_recorded_is_refused_with_the_reason() {
        let scratch = Scratch::new("unfit");
        let mut arm = b"\x7fELF\x02\x01\x01".to_vec();
        arm.resize(64, 0);
        arm[16] = 3;
        arm[18] = 183;
        let message = |path: &Path| resolve(path).unwrap_err().to_string();
        for (content, mode, expected) in [
            (&arm[..], 0o755, "a program for 64-bit ARM"),
            (b"#!/nonexistent/interpreter\n", 0o755, "interpreter /nonexistent/interpreter cannot"),
            (b"#!\n", 0o755, "names no interpreter"),
            (b"hello", 0o755, "neither an ELF program nor a script"),
            (b"", 0o755, "neither an ELF program nor a script"),
            (b"#!/bin/sh", 0o644, "not executable"),
        ] {
            let path = scratch.file("p", content, mode);
            assert!(message(&path).contains(expected), "{}", message(&path));
        }
        assert!(message(&scratch.0).contains("a directory"));
        assert!(message(Path::new("/nonexistent")).contains("no such program"));
        assert_eq!(
            message(Path::new("")),
            "the program's name is empty: give the path of a program, or a name in PATH"
        );
        let unknown = Program::resolve(OsStr::new("no-such-program-here"), &[]).unwrap_err();
        assert_eq!(unknown.to_string(), "no-such-program-here: no such program in PATH");
    }

    #[test]
    fn a_program_is_found_in_path() {
        let program = Program::resolve(OsStr::new("sh"), &[]).unwrap();
        assert!(program.path.ends_with("sh") && program.path.is_absolute());
        assert_eq!(program.name, "sh");
    }
}
