//! Hearing of the program's death by a signal before QEMU dies of it.
//!
//! Where a signal kills the program, QEMU takes its own handler away and kills itself with that
//! signal (linux-user/signal.c: `dump_core_and_abort` up to 8.0, `die_with_signal` from 8.1 on);
//! plugins of QEMU 7.2 are told nothing. It calls the C library's `kill` for it, whose address
//! stands in the table of functions that the executable imports (System V ABI, AMD64 supplement,
//! "Procedure Linkage Table"). There we put a function of our own, which brings the recording to
//! its end first. The program's own calls of kill(2) do not come this way.

use crate::capture::{Recorder, guarded};
use crate::signals::ends_by_default;
use libc::{Elf64_Phdr, Elf64_Rela, Elf64_Sym, c_char, c_int, c_void, pid_t};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether [`hear_of`] has succeeded.
static HEARD_OF: AtomicBool = AtomicBool::new(false);

/// Arranges that a recording ends properly where a signal kills the program. An error says why
/// that cannot be, for people.
pub fn hear_of() -> Result<(), String> {
    let mut places = Vec::<Place>::new();
    // SAFETY: the callback takes `data` for what it is, and is called before this returns.
    unsafe {
        let data = (&raw mut places).cast::<c_void>();
        libc::dl_iterate_phdr(Some(find_in_executable), data);
    }
    if places.is_empty() {
        return Err("this QEMU does not import the function kill".into());
    }
    places.iter().try_for_each(Place::replace)?;
    HEARD_OF.store(true, Ordering::Relaxed);
    Ok(())
}

/// Whether deaths are heard of.
pub fn is_heard_of() -> bool {
    HEARD_OF.load(Ordering::Relaxed)
}

/// Takes the place of the C library's `kill` in QEMU's executable.
extern "C" fn kill(pid: pid_t, signal: c_int) -> c_int {
    // SAFETY: it always succeeds and touches no memory.
    if pid == unsafe { libc::getpid() } && ends_by_default(signal) && is_default(signal) {
        // Once more, it must not kill the machines at their work.
        set_disposition(signal, libc::SIG_IGN);
        guarded(|recorder: &Recorder| recorder.finish_for_signal(signal));
        set_disposition(signal, libc::SIG_DFL);
    }
    // SAFETY: the call that the caller wanted; it touches no memory.
    unsafe { libc::syscall(libc::SYS_kill, pid, signal) as c_int }
}

/// Whether the process has no handler for a signal.
fn is_default(signal: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `action` has room for what the call writes; all zero is a valid value of it.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_DFL
    }
}

fn set_disposition(signal: c_int, to: libc::sighandler_t) {
    // SAFETY: installs no handler. SIGKILL is refused, which is as well.
    unsafe { libc::signal(signal, to) };
}

/// An entry of the executable's table of imported functions.
struct Place {
    entry: *mut *const c_void,
    /// The table is read-only (`PT_GNU_RELRO`).
    read_only: bool,
}

impl Place {
    fn replace(&self) -> Result<(), String> {
        // SAFETY: the entry lies in the executable's writable segment, part of which the loader
        // has made read-only; it is written whole, and no other thread calls `kill` meanwhile.
        unsafe {
            if self.read_only {
                self.protect(libc::PROT_READ | libc::PROT_WRITE)?;
            }
            self.entry
                .write_volatile(kill as extern "C" fn(pid_t, c_int) -> c_int as *const c_void);
            if self.read_only {
                self.protect(libc::PROT_READ)?;
            }
        }
        Ok(())
    }

    /// # Safety
    /// Whoever uses the entry's page can do so with this protection.
    unsafe fn protect(&self, protection: c_int) -> Result<(), String> {
        // SAFETY: as the caller promises.
        unsafe {
            let page_bytes = libc::sysconf(libc::_SC_PAGESIZE) as usize;
            let page = self.entry.map_addr(|address| address & !(page_bytes - 1));
            if libc::mprotect(page.cast(), page_bytes, protection) == 0 {
                return Ok(());
            }
        }
        let error = std::io::Error::last_os_error();
        Err(format!("the table of its functions cannot be changed: {error}"))
    }
}

/// Tags of the dynamic section (System V ABI, "Dynamic Section").
mod tag {
    pub const END: i64 = 0;
    pub const PLT_BYTES: i64 = 2;
    pub const STRINGS: i64 = 5;
    pub const SYMBOLS: i64 = 6;
    pub const RELOCATIONS: i64 = 7;
    pub const RELOCATION_BYTES: i64 = 8;
    pub const PLT: i64 = 23;
}

/// An entry of the dynamic section, `Elf64_Dyn`.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

/// The executable comes first: finds its places and looks no further.
unsafe extern "C" fn find_in_executable(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    places: *mut c_void,
) -> c_int {
    // SAFETY: the loader describes an object that is loaded; `places` is what `hear_of` gave.
    unsafe {
        let places = &mut *places.cast::<Vec<Place>>();
        places
            .extend(Executable::new(&*info).and_then(|e| e.places_of(c"kill")).unwrap_or_default());
    }
    1
}

/// A loaded object, by its program headers.
struct Executable<'a> {
    base: u64,
    headers: &'a [Elf64_Phdr],
}

impl<'a> Executable<'a> {
    /// # Safety
    /// What `info` describes is loaded and stays so.
    unsafe fn new(info: &'a libc::dl_phdr_info) -> Option<Executable<'a>> {
        if info.dlpi_phdr.is_null() {
            return None;
        }
        let count = usize::from(info.dlpi_phnum);
        // SAFETY: the loader's own array.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, count) };
        Some(Executable { base: info.dlpi_addr, headers })
    }

    fn header(&self, kind: u32) -> Option<&Elf64_Phdr> {
        self.headers.iter().find(|header| header.p_type == kind)
    }

    /// The value of a tag; 0 where there is none.
    unsafe fn dynamic(&self, wanted: i64) -> Option<u64> {
        let section = self.base.wrapping_add(self.header(libc::PT_DYNAMIC)?.p_vaddr);
        let mut entry = section as *const Dynamic;
        // SAFETY: the section ends with an entry of its own.
        unsafe {
            while (*entry).tag != tag::END {
                if (*entry).tag == wanted {
                    return Some((*entry).value);
                }
                entry = entry.add(1);
            }
        }
        None
    }

    /// An address in the dynamic section, which loaders relocate (glibc) or leave (musl).
    unsafe fn address(&self, wanted: i64) -> Option<u64> {
        // SAFETY: as the caller promises.
        let value = unsafe { self.dynamic(wanted)? };
        Some(if value < self.base { value + self.base } else { value })
    }

    /// Where the address of an imported function stands.
    unsafe fn places_of(&self, name: &CStr) -> Option<Vec<Place>> {
        let mut places = Vec::new();
        // SAFETY: the tables are the loader's, of the sizes that it used.
        unsafe {
            let symbols = self.address(tag::SYMBOLS)? as *const Elf64_Sym;
            let strings = self.address(tag::STRINGS)? as *const c_char;
            let tables = [(tag::PLT, tag::PLT_BYTES), (tag::RELOCATIONS, tag::RELOCATION_BYTES)];
            for (table, bytes) in tables {
                let (Some(table), Some(bytes)) = (self.address(table), self.dynamic(bytes)) else {
                    continue;
                };
                let count = bytes as usize / size_of::<Elf64_Rela>();
                let entries = std::slice::from_raw_parts(table as *const Elf64_Rela, count);
                for relocation in entries {
                    let symbol = &*symbols.add((relocation.r_info >> 32) as usize);
                    if CStr::from_ptr(strings.add(symbol.st_name as usize)) == name {
                        places.push(self.place(relocation.r_offset));
                    }
                }
            }
        }
        Some(places)
    }

    fn place(&self, offset: u64) -> Place {
        let protected = self.header(libc::PT_GNU_RELRO).is_some_and(|header| {
            (header.p_vaddr..header.p_vaddr + header.p_memsz).contains(&offset)
        });
        Place { entry: self.base.wrapping_add(offset) as *mut *const c_void, read_only: protected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test's own executable imports functions as QEMU's does.
    unsafe extern "C" fn collect(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: as in `find_in_executable`.
        unsafe {
            let found = Executable::new(&*info).and_then(|e| e.places_of(c"getpid"));
            *data.cast::<Vec<Place>>() = found.unwrap();
        }
        1
    }

    #[test]
    fn the_place_of_an_imported_function_holds_its_address() {
        let mut places = Vec::<Place>::new();
        // SAFETY: the callback takes `data` for what it is; the entries are aligned and readable.
        unsafe {
            assert!(libc::getpid() > 0);
            libc::dl_iterate_phdr(Some(collect), (&raw mut places).cast());
            assert!(!places.is_empty());
            let address = libc::dlsym(libc::RTLD_DEFAULT, c"getpid".as_ptr());
            for place in places {
                assert_eq!(place.entry.read(), address.cast_const());
            }
        }
    }

    #[test]
    fn a_handled_signal_is_not_taken_for_one_that_kills() {
        assert!(is_default(libc::SIGXCPU));
        set_disposition(libc::SIGXCPU, libc::SIG_IGN);
        assert!(!is_default(libc::SIGXCPU));
        set_disposition(libc::SIGXCPU, libc::SIG_DFL);
    }
}
