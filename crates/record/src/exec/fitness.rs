//! Whether a program can be recorded that another one runs in its place.

use crate::launch::{LaunchError, loader_of};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Checks that the emulator's files can be reached: a program may have changed its root or its user.
pub fn check_files(files: &[PathBuf]) -> Result<(), String> {
    let missing = files.iter().find(|file| !may(file, libc::R_OK));
    missing.map_or(Ok(()), |file| Err(format!("{} cannot be reached any more", file.display())))
}

/// Why a program cannot be recorded, without its name.
pub fn reason(error: &LaunchError) -> String {
    match error {
        LaunchError::ProgramUnfit { reason, .. } => reason.clone(),
        other => other.to_string(),
    }
}

/// Checks a program of x86-64. An error says why it cannot be recorded.
pub fn check(path: &Path) -> Result<(), String> {
    if !may(path, libc::R_OK) {
        return Err("it cannot be read".into());
    }
    check_rights(path)?;
    let loader = loader_of(path).map_err(|error| format!("its head cannot be read: {error}"))?;
    match loader {
        Some(loader) if !may(&loader, libc::R_OK | libc::X_OK) => {
            Err(format!("its loader {} cannot be run", loader.display()))
        }
        _ => Ok(()),
    }
}

fn may(path: &Path, how: libc::c_int) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: the path ends in a zero byte.
    unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), how, libc::AT_EACCESS) == 0 }
}

/// A program that would run with other rights than this process's (execve(2), capabilities(7)) would
/// not get them under an emulator. An error says which. The kernel gives it none itself where its file
/// system (mount(8), `nosuid`) or this process (prctl(2), `PR_SET_NO_NEW_PRIVS`) forbids it.
pub(crate) fn check_rights(path: &Path) -> Result<(), String> {
    if gains_nothing(path) {
        return Ok(());
    }
    const RUNS_AS_GROUP: u32 = libc::S_ISGID | libc::S_IXGRP;
    let status = path.metadata().map_err(|error| error.to_string())?;
    // SAFETY: these always succeed and touch no memory.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    if status.mode() & libc::S_ISUID != 0 && status.uid() != user {
        return Err("it runs as another user".into());
    }
    if status.mode() & RUNS_AS_GROUP == RUNS_AS_GROUP && status.gid() != group {
        return Err("it runs as another group".into());
    }
    if user != 0 && has_capabilities(path) {
        return Err("it has capabilities of its own".into());
    }
    Ok(())
}

fn gains_nothing(path: &Path) -> bool {
    // SAFETY: asks for a property of this process, and touches no memory.
    if unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) } == 1 {
        return true;
    }
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    let mut status = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends in a zero byte; `status` has room for what the call writes, and is read only
    // if it succeeded.
    unsafe {
        libc::statvfs(path.as_ptr(), status.as_mut_ptr()) == 0
            && status.assume_init().f_flag & libc::ST_NOSUID != 0
    }
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    let name = c"security.capability".as_ptr();
    // SAFETY: both strings end in a zero byte, and nothing is written.
    unsafe { libc::getxattr(path.as_ptr(), name, std::ptr::null_mut(), 0) > 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    /// An ELF file whose loader is `loader`, as far as it is looked at here.
    fn elf(loader: &str) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        bytes[..4].copy_from_slice(b"\x7fELF");
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = 1;
        bytes[64] = libc::PT_INTERP as u8;
        bytes[72] = 64 + 56;
        bytes[96] = loader.len() as u8 + 1;
        bytes.extend(loader.as_bytes());
        bytes.push(0);
        bytes
    }

    #[test]
    fn a_program_whose_loader_is_missing_or_whose_head_is_damaged_is_left_to_the_kernel() {
        let path = std::env::temp_dir().join(format!("tierscope-fit-{}", std::process::id()));
        let checked = |content: &[u8]| {
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
            check(&path)
        };
        assert_eq!(checked(&elf("/bin/sh")), Ok(()));
        assert_eq!(
            checked(&elf("/nonexistent/ld.so")).unwrap_err(),
            "its loader /nonexistent/ld.so cannot be run"
        );
        assert!(checked(&elf("/bin/sh")[..80]).unwrap_err().starts_with("its head cannot"));
        assert!(checked(&[0; 64]).unwrap_err().contains("damaged"));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_program_of_another_user_or_group_is_told() {
        // SAFETY: always succeeds and touches no memory.
        if unsafe { libc::geteuid() } != 0 || gains_nothing(&std::env::temp_dir()) {
            // Only root can give files to another user, and only here it means something.
            return;
        }
        let path = std::env::temp_dir().join(format!("tierscope-rights-{}", std::process::id()));
        let checked = |user: u32, group: u32, mode: u32| {
            std::fs::write(&path, elf("/bin/sh")).unwrap();
            std::os::unix::fs::chown(&path, Some(user), Some(group)).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            check_rights(&path)
        };
        assert_eq!(checked(65534, 65534, 0o4755).unwrap_err(), "it runs as another user");
        assert_eq!(checked(0, 65534, 0o2755).unwrap_err(), "it runs as another group");
        assert_eq!(checked(65534, 65534, 0o2745), Ok(()), "without execution by the group: a lock");
        assert_eq!(checked(65534, 65534, 0o755), Ok(()));
        assert_eq!(checked(0, 0, 0o6755), Ok(()), "this process's own");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn programs_of_this_computer_can_be_recorded() {
        for program in ["/bin/sh", "/bin/ls", "/usr/bin/env"] {
            assert_eq!(check(Path::new(program)), Ok(()), "{program}");
        }
        assert!(check_files(&["/bin/sh".into()]).is_ok());
        assert!(check_files(&["/bin/sh".into(), "/nonexistent".into()]).is_err());
    }
}
