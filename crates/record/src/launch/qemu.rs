//! Finding and commanding QEMU's user-mode emulation.

use super::{Backend, LaunchError, Program};
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The oldest version that was tried.
const OLDEST: (u32, u32) = (7, 0);
pub(super) const OLDEST_NAME: &str = "7.0";
/// Seed of what the emulated kernel gives the program as random bytes.
const SEED: &str = "1";
/// The emulated processor: everything that QEMU can do, but without fast string instructions,
/// which programs would use for copies and QEMU runs byte by byte.
const PROCESSOR: &str = "max,erms=off,fsrm=off";
/// How long an emulator may take to tell its version.
const LONGEST_ANSWER: Duration = Duration::from_secs(10);
/// Bytes of its answer that count: of all versions, the help is a few kilobytes.
const MOST_SAID_BYTES: u64 = 1 << 20;
/// What every program finds itself in.
const SURROUNDINGS: [&str; 4] = ["-seed", SEED, "-cpu", PROCESSOR];

/// A `qemu-x86_64` that can load plugins.
#[derive(Clone, Debug)]
pub struct QemuBackend {
    path: PathBuf,
    version: String,
}

impl QemuBackend {
    /// Finds it: `TIERSCOPE_QEMU`, else `qemu-x86_64` in `PATH`.
    pub fn find() -> Result<QemuBackend, LaunchError> {
        let named = std::env::var_os("TIERSCOPE_QEMU").filter(|path| !path.is_empty());
        if let Some(path) = named.map(PathBuf::from) {
            // The program may change its directory before it runs another one.
            let known = in_path(&path).or_else(|| std::path::absolute(&path).ok());
            return Self::at(known.unwrap_or(path));
        }
        if let Some(path) = in_path("qemu-x86_64") {
            return Self::at(path);
        }
        Err(match in_path("qemu-x86_64-static") {
            Some(path) => LaunchError::QemuWithoutPlugins {
                path,
                reason: ": it is statically linked (package qemu-user-static)",
            },
            None => LaunchError::QemuMissing,
        })
    }

    /// The one at `path`, if it will do.
    pub fn at(path: PathBuf) -> Result<QemuBackend, LaunchError> {
        let said = output(&path, "--version");
        let version = said.as_ref().ok().and_then(|said| version_in(said));
        let Some(version) = version else {
            return Err(LaunchError::NotQemu { path, answer: answer(said) });
        };
        if parsed(&version) < OLDEST {
            return Err(LaunchError::QemuTooOld { path, version });
        }
        let help = output(&path, "-h").unwrap_or_default();
        if !help.contains("-plugin") {
            return Err(LaunchError::QemuWithoutPlugins { path, reason: "" });
        }
        Ok(QemuBackend { path, version })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its version, such as `7.2.11`.
    pub fn version(&self) -> &str {
        &self.version
    }
}

impl Backend for QemuBackend {
    fn describe(&self) -> String {
        format!("QEMU {}", self.version)
    }

    fn emulator(&self, library: &Path, job: &Path) -> Vec<OsString> {
        let mut plugin = doubling_commas(library);
        plugin.push(",job=");
        plugin.push(doubling_commas(job));
        let surroundings = SURROUNDINGS.map(OsString::from);
        let mut command = vec![self.path.clone().into_os_string()];
        command.extend(surroundings.into_iter().chain(["-plugin".into(), plugin]));
        command
    }

    fn command(&self, program: &Program, library: &Path, job: &Path) -> Command {
        let emulator = self.emulator(library, job);
        let mut command = Command::new(&emulator[0]);
        command.args(&emulator[1..]);
        run(&mut command, program);
        command
    }

    fn unobserved(&self, program: &Program) -> Command {
        let mut command = Command::new(&self.path);
        command.args(SURROUNDINGS);
        run(&mut command, program);
        command
    }
}

fn run(command: &mut Command, program: &Program) {
    command.arg("-0").arg(&program.name);
    command.arg(&program.path).args(&program.arguments);
    // SAFETY: one system call between fork and exec, which allocates nothing.
    unsafe { command.pre_exec(fix_addresses) };
}

/// Turns the randomization of addresses off, for this process and what it runs.
fn fix_addresses() -> std::io::Result<()> {
    // SAFETY: changes a property of the process only. Where that is forbidden, addresses differ
    // from run to run, and no more.
    unsafe {
        let now = libc::personality(0xffff_ffff);
        if now >= 0 {
            libc::personality((now | libc::ADDR_NO_RANDOMIZE) as libc::c_ulong);
        }
    }
    Ok(())
}

/// In a list of options a comma is written twice.
fn doubling_commas(path: &Path) -> OsString {
    let bytes = path.as_os_str().as_bytes();
    let doubled =
        bytes.iter().flat_map(|byte| std::iter::repeat_n(*byte, if *byte == b',' { 2 } else { 1 }));
    OsString::from_vec(doubled.collect())
}

/// Where a name is in `PATH`, if it is a name alone.
fn in_path(name: impl AsRef<Path>) -> Option<PathBuf> {
    let name = name.as_ref();
    let path = std::env::var_os("PATH").filter(|_| name.components().count() == 1)?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .map(|found| std::path::absolute(&found).unwrap_or(found))
        .find(|candidate| candidate.is_file())
}

/// What a program prints that answers at once, if it does.
fn output(path: &Path, argument: &str) -> std::io::Result<String> {
    let mut command = Command::new(path);
    command.arg(argument).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let pipe = child.stdout.take();
    // It is left to itself where somebody keeps the pipe open.
    std::thread::Builder::new().spawn(move || {
        let mut said = Vec::new();
        let read = pipe.map_or(Ok(0), |pipe| pipe.take(MOST_SAID_BYTES).read_to_end(&mut said));
        // Nobody waits any more where it took too long.
        let _ = sender.send(read.map(|_| said));
    })?;
    let said = receiver.recv_timeout(LONGEST_ANSWER);
    // It may have ended, and may not.
    let _ = child.kill();
    child.wait()?;
    let late = || std::io::Error::other(format!("no answer in {} s", LONGEST_ANSWER.as_secs()));
    Ok(String::from_utf8_lossy(&said.map_err(|_| late())??).into_owned())
}

/// What became of asking something that is no QEMU for its version, in words.
fn answer(said: std::io::Result<String>) -> String {
    const LONGEST: usize = 60;
    let said = match said {
        Ok(said) => said,
        Err(error) => return format!("cannot be run ({})", tierscope_units::reason(&error)),
    };
    let first: String = said.lines().next().unwrap_or_default().chars().take(LONGEST).collect();
    if first.trim().is_empty() {
        "answers nothing".into()
    } else {
        format!("answers \"{}\"", first.escape_debug())
    }
}

/// The version in what `--version` prints: `qemu-x86_64 version 7.2.22 (…)`.
fn version_in(text: &str) -> Option<String> {
    let version = text.strip_prefix("qemu-x86_64 version ")?;
    version.split_whitespace().next().map(str::to_owned)
}

fn parsed(version: &str) -> (u32, u32) {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_version_is_read_from_what_qemu_prints() {
        let text = "qemu-x86_64 version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright (c) 2003";
        assert_eq!(version_in(text).unwrap(), "7.2.22");
        assert_eq!(parsed("7.2.22"), (7, 2));
        assert!(parsed("10.0.2") > OLDEST && parsed("6.1.0") < OLDEST);
        assert_eq!(version_in("something else"), None);
    }

    #[test]
    fn commas_in_paths_are_doubled() {
        assert_eq!(doubling_commas(Path::new("/a,b/c")), OsString::from("/a,,b/c"));
    }

    #[test]
    fn an_emulator_that_will_not_do_is_refused_with_the_reason() {
        let said = |path: &str| QemuBackend::at(path.into()).unwrap_err().to_string();
        let needed = ", and a qemu-x86_64 answers \"qemu-x86_64 version ...\": name one by \
                      TIERSCOPE_QEMU, or a script that ends with exec qemu-x86_64 \"$@\"";
        let missing = "cannot be run (no such file or directory)";
        for (path, answer) in
            [("/nonexistent/qemu", missing), ("/bin/echo", "answers \"echo (GNU coreutils) ")]
        {
            assert!(
                said(path).starts_with(&format!("{path} --version {answer}")),
                "{}",
                said(path)
            );
            assert!(said(path).ends_with(needed), "{}", said(path));
        }
        assert_eq!(answer(Ok("\n".into())), "answers nothing");
        let silent = std::env::temp_dir().join(format!("tierscope-silent-{}", std::process::id()));
        std::fs::write(&silent, "#!/bin/sh\nsleep 100 & wait\n").unwrap();
        std::fs::set_permissions(&silent, std::fs::Permissions::from_mode(0o755)).unwrap();
        let begun = std::time::Instant::now();
        let told = said(&silent.display().to_string());
        std::fs::remove_file(silent).unwrap();
        assert!(told.contains("--version cannot be run (no answer in 10 s)"), "{told}");
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
