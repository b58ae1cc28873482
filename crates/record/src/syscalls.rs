//! The system calls of an x86-64 Linux program, as operations.
//!
//! A back end reports each call before it runs and after it returned. What a machine has to know
//! becomes a [`Call`] of its own; every other call is [`Call::Other`] with its number.

use crate::capture::{Ended, Recorder, Slot, current_tid};
use crate::descriptors::{self, Descriptors, Mode, New, NewFile};
use crate::exec;
use crate::family::channel::{CHANNELS, MAX_PROCESSES};
use crate::family::{self, Forked};
use crate::file_key::{FileKey, Target};
use crate::synchronization::{Mark, Order};
use std::collections::HashMap;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::sync::Arc;
use tierscope_workload::op::{
    Advice, Buffer, LOCK_ON_FAULT, MAP_HEAP, MAP_LOCKED, MAP_NO_ACCESS, MAP_POPULATE, MAP_SHARED,
    MAP_WRITABLE, MOST_FURTHER_BUFFERS, NO_FILE, POPULATE,
};
use tierscope_workload::{Call, FileId, FileInfo, ThreadId};

/// Reads the program's memory.
pub trait GuestMemory: Send + Sync {
    /// Fills `bytes` from the program's address; false where it cannot be read.
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool;
}

/// What the calls of all threads have to remember.
pub struct Process {
    memory: Arc<dyn GuestMemory>,
    descriptors: Descriptors,
    order: Order,
    /// End of the heap; 0 until the first call on it.
    heap_end: u64,
    /// Words to clear and wake at when a thread ends, by the kernel's number of the thread.
    cleared_at_end: HashMap<i32, u64>,
    /// The same of threads that are being created: their word's address.
    creating: Vec<u64>,
    /// Processes that were forked, by the kernel's number.
    forked: HashMap<i32, Forked>,
    /// A process that cannot be recorded was told of.
    fork_noticed: bool,
}

/// What the calls of one thread have to remember. All zero at first.
#[derive(Clone, Copy, Default)]
pub struct ThreadCalls {
    /// Number of the call that runs, and its arguments.
    number: i64,
    arguments: [u64; 6],
    /// When the wait that runs began: see [`Order::begin_wait`].
    wait_begun: u64,
    /// How long the call that runs may sleep.
    sleep_ps: u64,
    /// File being closed, plus one.
    closing: u64,
    /// Channel of the process that is being forked, plus one.
    channel: u32,
    /// The host was told that another program may run in this one's place.
    leaving: bool,
    /// File that the call takes a name away from, plus one, its device and inode, and names that it has besides.
    deleting: u64,
    inode: (u64, u64),
    names: u64,
    /// File that the call gives another name, plus one, and the directory of the name that it gives or takes, plus one.
    moving: u64,
    parent: u64,
    /// The call makes the file that it opens, if that is not there; and that was there already.
    makes: bool,
    existed: bool,
    /// Of a file that the call empties as it opens it, its size plus one; of one that it deletes its size.
    size: u64,
}

impl ThreadCalls {
    /// The channel of the process that is being forked, if one is.
    pub(crate) fn channel(&self) -> Option<usize> {
        (self.channel as usize).checked_sub(1)
    }
}

/// Bits of a clone's flags, and what makes it a thread of this process.
const CLONE_VM: u64 = libc::CLONE_VM as u64;
const CLONE_CHILD_CLEARTID: u64 = libc::CLONE_CHILD_CLEARTID as u64;
/// Futex operations and the bits beside them (include/uapi/linux/futex.h).
mod futex {
    pub const WAIT: u64 = 0;
    pub const WAKE: u64 = 1;
    pub const REQUEUE: u64 = 3;
    pub const CMP_REQUEUE: u64 = 4;
    pub const WAKE_OP: u64 = 5;
    pub const LOCK_PI: u64 = 6;
    pub const UNLOCK_PI: u64 = 7;
    pub const WAIT_BITSET: u64 = 9;
    pub const WAKE_BITSET: u64 = 10;
    pub const WAIT_REQUEUE_PI: u64 = 11;
    pub const CMP_REQUEUE_PI: u64 = 12;
    pub const LOCK_PI2: u64 = 13;
    pub const OPERATION: u64 = 0x7f;
    pub const CLOCK_REALTIME: u64 = 256;
}
const PAGE_BYTES: u64 = 4096;
const PICOSECONDS: u64 = 1_000_000_000_000;

impl Process {
    /// The state of a program that has made no call yet.
    pub fn new(memory: Arc<dyn GuestMemory>) -> Process {
        Process {
            memory,
            descriptors: Descriptors::default(),
            order: Order::default(),
            heap_end: 0,
            cleared_at_end: HashMap::new(),
            creating: Vec::new(),
            forked: HashMap::new(),
            fork_noticed: false,
        }
    }

    /// The state of a process that is forked from this one.
    pub(crate) fn forked(&self) -> Process {
        let fresh = Process::new(self.memory.clone());
        Process { descriptors: self.descriptors.clone(), heap_end: self.heap_end, ..fresh }
    }

    /// The files that are known.
    pub(crate) fn files(&self) -> Vec<New> {
        self.descriptors.files()
    }

    /// The number of the file at a device and inode.
    pub(crate) fn number_at(&mut self, key: FileKey, info: FileInfo) -> (FileId, NewFile) {
        self.descriptors.number_at(key, || info)
    }

    pub(crate) fn read_words<const N: usize>(&self, address: u64) -> Option<[u64; N]> {
        let mut words = [0; N];
        for (index, word) in words.iter_mut().enumerate() {
            let mut bytes = [0; 8];
            if !self.memory.read(address.wrapping_add(8 * index as u64), &mut bytes) {
                return None;
            }
            *word = u64::from_le_bytes(bytes);
        }
        Some(words)
    }

    fn read_path(&self, address: u64) -> Option<CString> {
        CString::new(self.read_string(address, libc::PATH_MAX as usize)?).ok()
    }

    /// A string of fewer than `most` bytes, without the zero byte that ends it.
    pub(crate) fn read_string(&self, address: u64, most: usize) -> Option<Vec<u8>> {
        let mut string = Vec::new();
        while string.len() < most {
            // What follows in the same page can be read at once.
            let at = address.wrapping_add(string.len() as u64);
            let mut piece = vec![0; (PAGE_BYTES - at % PAGE_BYTES) as usize];
            if !self.memory.read(at, &mut piece) {
                return None;
            }
            if let Some(end) = piece.iter().position(|byte| *byte == 0) {
                string.extend(&piece[..end]);
                return (string.len() < most).then_some(string);
            }
            string.extend(piece);
        }
        None
    }

    /// A time span in memory (`struct timespec`), in picoseconds.
    fn read_span_ps(&self, address: u64) -> Option<u64> {
        let [seconds, nanoseconds] = self.read_words::<2>(address)?;
        Some(seconds.saturating_mul(PICOSECONDS).saturating_add(nanoseconds.saturating_mul(1000)))
    }

    /// How far away a moment in memory is by a clock, in picoseconds.
    fn read_moment_ps(&self, address: u64, clock: i32) -> Option<u64> {
        let mut now = MaybeUninit::<libc::timespec>::uninit();
        // SAFETY: `now` has room for what the call writes, and is read only if it succeeded.
        let now = unsafe {
            if libc::clock_gettime(clock, now.as_mut_ptr()) != 0 {
                return None;
            }
            now.assume_init()
        };
        let now_ps = (now.tv_sec as u64) * PICOSECONDS + now.tv_nsec as u64 * 1000;
        Some(self.read_span_ps(address)?.saturating_sub(now_ps))
    }
}

/// A call runs next in the thread of `slot`.
pub fn enter(recorder: &Recorder, slot: &mut Slot, number: i64, arguments: [u64; 6]) {
    let clean = ThreadCalls { number, arguments, ..ThreadCalls::default() };
    *slot.calls() = clean;
    match number {
        libc::SYS_futex => enter_futex(recorder, slot),
        libc::SYS_exit => return exit_thread(recorder, slot),
        libc::SYS_exit_group => {
            recorder.note_exit_status(arguments[0] as i32 & 0xff);
            return slot.flush();
        }
        libc::SYS_execve | libc::SYS_execveat => {
            let request = exec::Request::read(&recorder.process(), number, arguments);
            slot.calls().leaving = exec::enter(recorder, slot, request);
        }
        libc::SYS_kill | libc::SYS_tkill | libc::SYS_tgkill => {
            enter_kill(recorder, slot, number, arguments);
        }
        libc::SYS_clone if makes_thread(arguments[0]) => {
            enter_clone(recorder, arguments[0], arguments[3]);
        }
        libc::SYS_clone | libc::SYS_fork | libc::SYS_vfork => enter_fork(recorder, slot),
        libc::SYS_clone3 => {
            let flags = recorder.process().read_words::<1>(arguments[0]);
            if flags.is_some_and(|[flags]| !makes_thread(flags)) {
                enter_fork(recorder, slot);
            }
        }
        libc::SYS_set_tid_address => {
            recorder.process().cleared_at_end.insert(current_tid(), arguments[0]);
        }
        libc::SYS_open | libc::SYS_openat | libc::SYS_openat2 | libc::SYS_creat => {
            enter_open(recorder, slot);
        }
        libc::SYS_unlink
        | libc::SYS_unlinkat
        | libc::SYS_rmdir
        | libc::SYS_rename
        | libc::SYS_renameat
        | libc::SYS_renameat2 => enter_removal(recorder, slot),
        libc::SYS_close => enter_close(recorder, slot, arguments[0] as i32),
        libc::SYS_dup2 | libc::SYS_dup3 if arguments[0] != arguments[1] => {
            enter_close(recorder, slot, arguments[1] as i32);
        }
        libc::SYS_close_range => enter_close_range(recorder, arguments),
        libc::SYS_nanosleep => {
            slot.calls().sleep_ps =
                recorder.process().read_span_ps(arguments[0]).unwrap_or_default();
        }
        libc::SYS_clock_nanosleep => enter_clock_nanosleep(recorder, slot),
        _ => {}
    }
    if may_block(recorder, number, arguments) {
        slot.flush();
    }
}

/// Whether a call may take long, so that machines should have what precedes it.
fn may_block(recorder: &Recorder, number: i64, arguments: [u64; 6]) -> bool {
    match number {
        libc::SYS_mmap
        | libc::SYS_munmap
        | libc::SYS_mprotect
        | libc::SYS_mremap
        | libc::SYS_madvise
        | libc::SYS_fadvise64
        | libc::SYS_munlock
        | libc::SYS_brk
        | libc::SYS_open
        | libc::SYS_openat
        | libc::SYS_close
        | libc::SYS_lseek
        | libc::SYS_stat
        | libc::SYS_fstat
        | libc::SYS_lstat
        | libc::SYS_newfstatat
        | libc::SYS_access
        | libc::SYS_getpid
        | libc::SYS_gettid
        | libc::SYS_getcwd
        | libc::SYS_fcntl
        | libc::SYS_geteuid
        | libc::SYS_getuid
        | libc::SYS_unlink
        | libc::SYS_unlinkat
        | libc::SYS_rename
        | libc::SYS_renameat
        | libc::SYS_renameat2
        | libc::SYS_rmdir
        | libc::SYS_mkdir
        | libc::SYS_mkdirat
        | libc::SYS_link
        | libc::SYS_linkat
        | libc::SYS_getdents64
        | libc::SYS_fallocate
        | libc::SYS_ftruncate
        | libc::SYS_clock_gettime
        | libc::SYS_gettimeofday
        | libc::SYS_rt_sigaction
        | libc::SYS_rt_sigprocmask => false,
        _ => Form::of(number).is_none_or(|_| file_of(recorder, arguments[0] as i32).is_none()),
    }
}

/// The call of the thread of `slot` has returned `result`: a value, or an error number negated.
pub fn leave(recorder: &Recorder, slot: &mut Slot, number: i64, result: i64) {
    let calls = *slot.calls();
    if calls.number != number {
        // A return without its call: the thread was created by it.
        return;
    }
    if calls.leaving
        && let Some(child) = recorder.as_child()
    {
        child.come_back();
    }
    if number == libc::SYS_futex {
        return leave_futex(recorder, slot, result);
    }
    let mut out = Vec::new();
    if let (Some(channel), true) = (calls.channel(), result < 0) {
        family::disclaim(channel);
    }
    if let (true, Some(form)) = (result >= 0, Form::of(number)) {
        if transferred(recorder, slot, form, result as u64) {
            return;
        }
    } else if result >= 0 {
        leave_successful(recorder, slot, result as u64, &mut out);
    }
    if out.is_empty() {
        let mark = if result >= 0 { untold(number, calls.arguments) } else { None };
        out.push(Call::Other { number: number as u64 | mark.unwrap_or(0) });
    }
    out.iter().for_each(|call| slot.call(call));
}

/// What calls do that succeed and of which no call of a recording tells: their number, the command of an ioctl
/// (linux/fs.h), and what it is in words.
const UNTOLD: [(i64, Option<u64>, &str); 7] = [
    (libc::SYS_ioctl, Some(0x4004_9409), "clones of a file's blocks (FICLONE)"),
    (libc::SYS_ioctl, Some(0x4020_940d), "clones of blocks of files (FICLONERANGE)"),
    (libc::SYS_io_uring_enter, None, "calls on rings of requests (io_uring_enter)"),
    (libc::SYS_io_submit, None, "submissions of reads and writes (io_submit)"),
    (libc::SYS_shmat, None, "attached segments of shared memory (shmat)"),
    (libc::SYS_process_vm_readv, None, "reads of another process's memory (process_vm_readv)"),
    (libc::SYS_process_vm_writev, None, "writes to another process's memory (process_vm_writev)"),
];
/// A call of the list is marked by its place in it, from 1 on, above so many bits of its number.
const UNTOLD_SHIFT: u32 = 32;

/// The mark of a call that has succeeded and does something that is not recorded.
fn untold(number: i64, arguments: [u64; 6]) -> Option<u64> {
    let is_it = |(of, command, _): &(i64, Option<u64>, &str)| {
        *of == number && command.is_none_or(|command| command == arguments[1] & 0xffff_ffff)
    };
    Some((UNTOLD.iter().position(is_it)? as u64 + 1) << UNTOLD_SHIFT)
}

/// What a call does that is not recorded, in words; nothing of one that is like others.
pub fn untold_in_words(number: u64) -> Option<&'static str> {
    let place = (number >> UNTOLD_SHIFT).checked_sub(1)?;
    UNTOLD.get(usize::try_from(place).ok()?).map(|(.., words)| *words)
}

fn leave_successful(recorder: &Recorder, slot: &mut Slot, result: u64, out: &mut Vec<Call>) {
    let ThreadCalls { number, arguments: a, closing, sleep_ps, .. } = *slot.calls();
    let descriptor = a[0] as i32;
    match number {
        libc::SYS_mmap => out.push(mapping(recorder, a, result)),
        libc::SYS_munmap => {
            out.push(Call::Unmap { address: a[0], length: whole_pages(a[1]) });
        }
        libc::SYS_mremap => out.push(Call::Remap {
            old_address: a[0],
            old_length: whole_pages(a[1]),
            new_address: result,
            new_length: whole_pages(a[2]),
        }),
        libc::SYS_brk => move_heap_end(recorder, result, out),
        libc::SYS_madvise => out.extend(advice(a)),
        libc::SYS_mprotect | libc::SYS_pkey_mprotect => {
            let flags = rights(a[2] as i32);
            out.push(Call::Protect { address: a[0], length: whole_pages(a[1]), flags });
        }
        libc::SYS_mlock | libc::SYS_mlock2 | libc::SYS_munlock => {
            let (address, length) = pages_around(a[0], a[1]);
            let flags = if number == libc::SYS_mlock2 { a[2] & LOCK_ON_FAULT } else { 0 };
            out.push(match number {
                libc::SYS_munlock => Call::Unlock { address, length },
                _ => Call::Lock { address, length, flags },
            });
        }
        libc::SYS_mlockall => out.push(Call::LockAll { process: 0, flags: a[0] }),
        libc::SYS_munlockall => out.push(Call::LockAll { process: 0, flags: 0 }),
        libc::SYS_fadvise64 => {
            let advice = advice_on_file(a[3] as i32);
            out.extend(advice.zip(file_of(recorder, descriptor)).map(|(advice, file)| {
                Call::AdviseFile { file, offset: a[1], length: a[2], advice: advice as u64 }
            }));
        }
        // `ksys_readahead`, mm/readahead.c.
        libc::SYS_readahead if a[2] > 0 => {
            let [offset, length, advice] = [a[1], a[2], Advice::WillNeed as u64];
            let file = file_of(recorder, descriptor);
            out.extend(file.map(|file| Call::AdviseFile { file, offset, length, advice }));
        }
        libc::SYS_open | libc::SYS_openat | libc::SYS_openat2 | libc::SYS_creat => {
            opened(recorder, slot.calls(), result as i32, out);
        }
        libc::SYS_stat | libc::SYS_lstat | libc::SYS_access => {
            let follows = number != libc::SYS_lstat;
            asked(recorder, (libc::AT_FDCWD, a[0]), follows, out);
        }
        libc::SYS_newfstatat | libc::SYS_faccessat | libc::SYS_faccessat2 | libc::SYS_statx => {
            let flags = match number {
                libc::SYS_statx => a[2],
                libc::SYS_faccessat => 0,
                _ => a[3],
            };
            let follows = flags & libc::AT_SYMLINK_NOFOLLOW as u64 == 0;
            asked(recorder, (descriptor, a[1]), follows, out);
        }
        libc::SYS_unlink
        | libc::SYS_unlinkat
        | libc::SYS_rmdir
        | libc::SYS_rename
        | libc::SYS_renameat
        | libc::SYS_renameat2 => removed(recorder, slot.calls(), out),
        libc::SYS_mkdir => out.extend(named(recorder, (libc::AT_FDCWD, a[0]))),
        libc::SYS_mkdirat => out.extend(named(recorder, (descriptor, a[1]))),
        libc::SYS_link => out.extend(named(recorder, (libc::AT_FDCWD, a[1]))),
        libc::SYS_linkat => out.extend(named(recorder, (a[2] as i32, a[3]))),
        libc::SYS_getdents64 if result > 0 => {
            let file = directory_of(recorder, descriptor);
            out.extend(file.map(|file| Call::ReadDirectory { file, length: result }));
        }
        libc::SYS_copy_file_range | libc::SYS_splice => {
            spliced(recorder, (a[0] as i32, a[1]), (a[2] as i32, a[3]), result, out);
        }
        libc::SYS_sendfile => spliced(recorder, (a[1] as i32, a[2]), (descriptor, 0), result, out),
        libc::SYS_fallocate => {
            let [mode, offset, length] = [a[1], a[2], a[3]];
            let file = file_of(recorder, descriptor);
            out.extend(file.map(|file| Call::Allocate { file, mode, offset, length }));
        }
        libc::SYS_close => {
            if closing > 0 {
                out.push(Call::Close { file: (closing - 1) as FileId });
            }
        }
        libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 => duplicated(recorder, descriptor, result),
        libc::SYS_fcntl if matches!(a[1] as i32, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => {
            duplicated(recorder, descriptor, result);
        }
        libc::SYS_sync => out.push(Call::SyncAll {}),
        libc::SYS_syncfs => {
            out.extend(descriptors::is_in_store(descriptor).then_some(Call::SyncAll {}))
        }
        libc::SYS_sync_file_range => {
            let [offset, length, flags] = [a[1], a[2], a[3]];
            let file = file_of(recorder, descriptor);
            out.extend(file.map(|file| Call::SyncFileRange { file, offset, length, flags }));
        }
        libc::SYS_fsync => {
            let file = file_of(recorder, descriptor);
            let file = file.or_else(|| directory_of(recorder, descriptor));
            out.extend(file.map(|file| Call::Sync { file }));
        }
        libc::SYS_fdatasync => {
            out.extend(file_of(recorder, descriptor).map(|file| Call::SyncData { file }));
        }
        // Without, nothing is written (mm/msync.c).
        libc::SYS_msync if a[2] as i32 & libc::MS_SYNC != 0 => {
            out.push(Call::SyncRange { address: a[0], length: whole_pages(a[1]) });
        }
        libc::SYS_ftruncate => {
            let file = file_of(recorder, descriptor);
            out.extend(file.map(|file| Call::Truncate { file, length: a[1] }));
        }
        libc::SYS_truncate => truncated(recorder, a, out),
        libc::SYS_clone | libc::SYS_clone3 | libc::SYS_fork | libc::SYS_vfork => {
            created(recorder, slot.calls(), result, out);
        }
        libc::SYS_wait4 => out.extend(awaited(recorder, result as i32)),
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => {
            out.push(Call::Sleep { duration_ps: sleep_ps });
        }
        libc::SYS_poll if result == 0 => sleep_of_milliseconds(a[2], out),
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait if result == 0 => {
            sleep_of_milliseconds(a[3], out);
        }
        _ => forget_new_descriptors(recorder, number, result),
    }
}

fn whole_pages(length: u64) -> u64 {
    length.checked_next_multiple_of(PAGE_BYTES).unwrap_or(length)
}

/// The whole pages that have some of a range: where they begin, and their bytes (`do_mlock`, mm/mlock.c).
fn pages_around(address: u64, length: u64) -> (u64, u64) {
    let within = address % PAGE_BYTES;
    (address - within, whole_pages(length.saturating_add(within)))
}

/// What a protection lets a program do, as flags of a mapping.
fn rights(protection: i32) -> u64 {
    match protection & (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) {
        libc::PROT_NONE => MAP_NO_ACCESS,
        some if some & libc::PROT_WRITE != 0 => MAP_WRITABLE,
        _ => 0,
    }
}

/// Tells the sink of a new file. Files are announced in the order of their numbers, because the
/// process is locked from the one to the other.
fn announce(recorder: &Recorder, new: NewFile) {
    if let Some(file) = new {
        recorder.announce_file(&file);
    }
}

fn file_of(recorder: &Recorder, descriptor: i32) -> Option<FileId> {
    let mut process = recorder.process();
    let (open, new) = process.descriptors.look_up(descriptor);
    announce(recorder, new);
    open.file
}

fn mapping(recorder: &Recorder, a: [u64; 6], address: u64) -> Call {
    let flags = a[3] as i32;
    let file = if flags & libc::MAP_ANONYMOUS != 0 { None } else { file_of(recorder, a[4] as i32) };
    let shared = if flags & libc::MAP_SHARED != 0 { MAP_SHARED } else { 0 };
    let locked = if flags & libc::MAP_LOCKED != 0 { MAP_LOCKED } else { 0 };
    // With the second nothing comes at once since 2.6.23 (mmap(2)).
    let populates = flags & (libc::MAP_POPULATE | libc::MAP_NONBLOCK) == libc::MAP_POPULATE;
    let populated = if populates { MAP_POPULATE } else { 0 };
    Call::Map {
        address,
        length: whole_pages(a[1]),
        flags: shared | rights(a[2] as i32) | locked | populated,
        file: file.unwrap_or(NO_FILE),
        offset: if file.is_some() { a[5] } else { 0 },
    }
}

/// The heap grows and shrinks like a mapping.
fn move_heap_end(recorder: &Recorder, end: u64, out: &mut Vec<Call>) {
    let mut process = recorder.process();
    let old = std::mem::replace(&mut process.heap_end, end);
    let (old_page, new_page) = (whole_pages(old), whole_pages(end));
    if old == 0 || old_page == new_page {
        return;
    }
    out.push(if new_page > old_page {
        Call::Map {
            address: old_page,
            length: new_page - old_page,
            flags: MAP_WRITABLE | MAP_HEAP,
            file: NO_FILE,
            offset: 0,
        }
    } else {
        Call::Unmap { address: new_page, length: old_page - new_page }
    });
}

fn advice_on_file(advice: i32) -> Option<Advice> {
    Some(match advice {
        libc::POSIX_FADV_NORMAL => Advice::Normal,
        libc::POSIX_FADV_RANDOM => Advice::Random,
        libc::POSIX_FADV_SEQUENTIAL => Advice::Sequential,
        libc::POSIX_FADV_WILLNEED => Advice::WillNeed,
        libc::POSIX_FADV_DONTNEED => Advice::DontNeed,
        libc::POSIX_FADV_NOREUSE => Advice::NoReuse,
        _ => return None,
    })
}

fn advice(a: [u64; 6]) -> Option<Call> {
    let [read, write] = POPULATE;
    let how = match a[2] as i32 {
        libc::MADV_POPULATE_READ => Some(read),
        libc::MADV_POPULATE_WRITE => Some(write),
        _ => None,
    };
    if let Some(how) = how {
        return Some(Call::Populate { address: a[0], length: whole_pages(a[1]), how });
    }
    let advice = match a[2] as i32 {
        libc::MADV_NORMAL => Advice::Normal,
        libc::MADV_RANDOM => Advice::Random,
        libc::MADV_SEQUENTIAL => Advice::Sequential,
        libc::MADV_WILLNEED => Advice::WillNeed,
        libc::MADV_DONTNEED => Advice::DontNeed,
        libc::MADV_FREE => Advice::Free,
        libc::MADV_COLD => Advice::Cold,
        libc::MADV_PAGEOUT => Advice::PageOut,
        libc::MADV_REMOVE => Advice::Remove,
        libc::MADV_HUGEPAGE => Advice::Huge,
        libc::MADV_NOHUGEPAGE => Advice::NoHuge,
        _ => return None,
    };
    Some(Call::Advise { address: a[0], length: whole_pages(a[1]), advice: advice as u64 })
}

/// Before the kernel opens a file: afterwards nothing tells whether it has emptied it.
fn enter_open(recorder: &Recorder, slot: &mut Slot) {
    let ThreadCalls { number, arguments: a, .. } = *slot.calls();
    let process = recorder.process();
    let (directory, path, flags) = match number {
        libc::SYS_open => (libc::AT_FDCWD, a[0], a[1]),
        libc::SYS_creat => (libc::AT_FDCWD, a[0], libc::O_TRUNC as u64),
        libc::SYS_openat => (a[0] as i32, a[1], a[2]),
        // struct open_how: flags, mode, resolve.
        _ => match process.read_words::<1>(a[2]) {
            Some([flags]) => (a[0] as i32, a[1], flags),
            None => return,
        },
    };
    drop(process);
    let has = |flag: i32| flags & flag as u64 != 0;
    // A file without a name is new, and its path that of a directory.
    let unnamed = flags & libc::O_TMPFILE as u64 == libc::O_TMPFILE as u64;
    let makes = has(libc::O_CREAT) || unnamed || number == libc::SYS_creat;
    (slot.calls().makes, slot.calls().existed) = (makes, !makes);
    if !has(libc::O_TRUNC) && (!makes || has(libc::O_EXCL)) {
        return;
    }
    let process = recorder.process();
    let path = process.read_path(path);
    let target = path.and_then(|path| Target::find(directory, &path, true));
    slot.calls().existed = target.is_some();
    if !has(libc::O_TRUNC) {
        return;
    }
    slot.calls().size = target.map_or(0, |target| target.status.st_size.max(0) as u64 + 1);
}

fn opened(recorder: &Recorder, calls: &ThreadCalls, descriptor: i32, out: &mut Vec<Call>) {
    let emptied = calls.size.checked_sub(1);
    let (file, above) = {
        let mut process = recorder.process();
        process.descriptors.forget(descriptor);
        let (open, new) = process.descriptors.look_up_of(descriptor, emptied);
        let is_told = new.is_some() && (calls.makes || calls.existed);
        announce(recorder, new);
        let above = if is_told { descriptors::directory_above(descriptor) } else { None };
        (open.file, above.map(|above| number_of(recorder, &mut process, &above)))
    };
    let Some(file) = file else { return };
    let size = emptied.unwrap_or_else(|| descriptors::size_bytes(descriptor));
    out.extend(above.map(|parent| match calls.existed {
        true => Call::Exists { file, parent, size, directory: 0 },
        false => Call::Within { file, parent, size: 0 },
    }));
    out.push(Call::Open { file, size });
    out.extend(emptied.map(|_| Call::Truncate { file, length: 0 }));
}

/// A call has asked by a path what a file or a directory is; an empty path asks of the descriptor itself, whose inode is
/// in memory.
fn asked(recorder: &Recorder, (directory, path): (i32, u64), follows: bool, out: &mut Vec<Call>) {
    let mut process = recorder.process();
    let Some(path) = process.read_path(path).filter(|path| !path.is_empty()) else { return };
    let Some(mut target) = Target::find_either(directory, &path, follows) else { return };
    target.resolve(follows);
    let (file, is_new) = tell(recorder, &mut process, &target);
    if is_new {
        let above = target.above();
        let parent = above.map_or(NO_FILE, |above| number_of(recorder, &mut process, &above));
        let (size, directory) = (target.size_bytes(), u64::from(target.is_directory()));
        out.push(Call::Exists { file, parent, size, directory });
    }
    out.push(Call::Stat { file });
}

/// The number of a file or directory, which is announced where it is new.
fn number_of(recorder: &Recorder, process: &mut Process, target: &Target) -> FileId {
    tell(recorder, process, target).0
}

/// The same, and whether it is new.
fn tell(recorder: &Recorder, process: &mut Process, target: &Target) -> (FileId, bool) {
    let (file, new) = process.descriptors.number_of(target);
    let is_new = new.is_some();
    announce(recorder, new);
    (file, is_new)
}

/// The number of the directory that a descriptor stands for.
fn directory_of(recorder: &Recorder, descriptor: i32) -> Option<FileId> {
    let directory = descriptors::directory(descriptor)?;
    Some(number_of(recorder, &mut recorder.process(), &directory))
}

/// A call has given a file a further name, or made a directory.
fn named(recorder: &Recorder, (directory, path): (i32, u64)) -> Option<Call> {
    let mut process = recorder.process();
    let path = process.read_path(path)?;
    let target = Target::find_any(directory, &path)?;
    let parent = Target::parent(directory, &path)?;
    let parent = number_of(recorder, &mut process, &parent);
    let file = number_of(recorder, &mut process, &target);
    Some(match target.is_directory() {
        true => Call::MakeDirectory { file, parent },
        false => Call::Link { file, parent },
    })
}

/// Before the kernel takes a name away: afterwards nothing tells what it named.
fn enter_removal(recorder: &Recorder, slot: &mut Slot) {
    const RENAME_EXCHANGE: u64 = libc::RENAME_EXCHANGE as u64;
    let (number, a, here) = (slot.calls().number, slot.calls().arguments, libc::AT_FDCWD);
    let mut process = recorder.process();
    let (renamed, removed) = match number {
        libc::SYS_unlink | libc::SYS_rmdir => (None, (here, a[0])),
        libc::SYS_unlinkat => (None, (a[0] as i32, a[1])),
        libc::SYS_rename => (Some((here, a[0])), (here, a[1])),
        libc::SYS_renameat2 if a[4] & RENAME_EXCHANGE != 0 => return,
        _ => (Some((a[0] as i32, a[1])), (a[2] as i32, a[3])),
    };
    let find = |(directory, path)| Target::find_any(directory, &process.read_path(path)?);
    let (target, moved) = (find(removed), renamed.and_then(find));
    // What two names of one file are renamed to each other does nothing (rename(2)).
    let of = |target: &Target| (target.status.st_dev, target.status.st_ino);
    if let (Some(target), Some(moved)) = (&target, &moved)
        && of(target) == of(moved)
    {
        return;
    }
    let above = |(directory, path)| Target::parent(directory, &process.read_path(path)?);
    let (parent, before) = (above(removed), renamed.and_then(above));
    let mut told = |target: &Target| tell(recorder, &mut process, target);
    let parent = parent.map_or(0, |parent| u64::from(told(&parent).0) + 1);
    let before = before.map(|before| told(&before).0);
    let moving = moved.as_ref().map(|moved| (told(moved), moved.size_bytes()));
    let deleting = target.as_ref().map_or(0, |target| u64::from(told(target).0) + 1);
    drop(process);
    // A file that is renamed before anything else is done to it is told of first.
    if let (Some(((file, true), size)), Some(parent)) = (moving, before) {
        slot.call(&Call::Within { file, parent, size });
    }
    let calls = slot.calls();
    (calls.deleting, calls.parent) = (deleting, parent);
    calls.moving = moving.map_or(0, |((file, _), _)| u64::from(file) + 1);
    if let Some(target) = target {
        (calls.size, calls.names) = (target.size_bytes(), target.other_names());
        calls.inode = of(&target);
    }
}

fn removed(recorder: &Recorder, calls: &ThreadCalls, out: &mut Vec<Call>) {
    let file = |number: u64| number.checked_sub(1).map_or(NO_FILE, |file| file as FileId);
    let (parent, size, names) = (file(calls.parent), calls.size, calls.names);
    if calls.deleting > 0 && names == 0 {
        recorder.process().descriptors.delete(calls.inode);
    }
    let is_directory = calls.number == libc::SYS_rmdir
        || calls.number == libc::SYS_unlinkat
            && calls.arguments[2] as i32 & libc::AT_REMOVEDIR != 0;
    out.extend(match (file(calls.moving), file(calls.deleting)) {
        (NO_FILE, NO_FILE) => None,
        (NO_FILE, file) if is_directory => Some(Call::RemoveDirectory { file }),
        (NO_FILE, file) if names == 0 => Some(Call::Unlink { file, size }),
        (NO_FILE, file) => Some(Call::Unname { file, parent }),
        (file, replaced) => Some(Call::Rename { file, parent, replaced, size, names }),
    });
}

/// A call has moved `done` bytes within the kernel: from a descriptor to another, each with the address of an offset, or
/// none where it is the file's position.
fn spliced(
    recorder: &Recorder,
    source: (i32, u64),
    target: (i32, u64),
    done: u64,
    out: &mut Vec<Call>,
) {
    let end = |(descriptor, at): (i32, u64)| match at {
        0 => descriptors::position(descriptor),
        at => recorder.process().read_words::<1>(at).map(|[offset]| offset),
    };
    // A call that moves nothing may still be one on a file; the offset is behind what was moved.
    let of = |place: (i32, u64)| {
        let file = file_of(recorder, place.0)?;
        Some((file, end(place)?.saturating_sub(done)))
    };
    if done == 0 {
        return;
    }
    let length = done;
    let target_file = of(target);
    out.extend(match (of(source), target_file) {
        (Some((source, source_offset)), Some((file, offset))) => {
            Some(Call::CopyRange { source, source_offset, file, offset, length })
        }
        (Some((file, offset)), None) => Some(Call::SpliceRead { file, offset, length }),
        (None, Some((file, offset))) => Some(Call::SpliceWrite { file, offset, length }),
        (None, None) => None,
    });
    out.extend(target_file.and_then(|(file, _)| Mode::of(target.0).sync(file)));
}

fn duplicated(recorder: &Recorder, old: i32, new: u64) {
    let mut process = recorder.process();
    if old != new as i32 {
        let file = process.descriptors.duplicate(old, new as i32);
        announce(recorder, file);
    }
}

/// Before the kernel closes a descriptor: afterwards another thread may have been given it.
fn enter_close(recorder: &Recorder, slot: &mut Slot, descriptor: i32) {
    let mut process = recorder.process();
    let (_, new) = process.descriptors.look_up(descriptor);
    announce(recorder, new);
    let file = process.descriptors.close(descriptor);
    slot.calls().closing = file.map_or(0, |file| u64::from(file) + 1);
}

fn enter_close_range(recorder: &Recorder, a: [u64; 6]) {
    if a[2] != 0 {
        return;
    }
    let mut process = recorder.process();
    for descriptor in process.descriptors.in_range(a[0] as u32, a[1] as u32) {
        process.descriptors.close(descriptor);
    }
}

/// Calls that make descriptors of no interest: what was known of their numbers no longer holds.
fn forget_new_descriptors(recorder: &Recorder, number: i64, result: u64) {
    let makes_one = matches!(
        number,
        libc::SYS_socket
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_epoll_create
            | libc::SYS_epoll_create1
            | libc::SYS_eventfd
            | libc::SYS_eventfd2
            | libc::SYS_signalfd4
            | libc::SYS_timerfd_create
            | libc::SYS_inotify_init1
            | libc::SYS_memfd_create
            | libc::SYS_pidfd_open
    );
    if makes_one {
        recorder.process().descriptors.forget(result as i32);
    }
}

/// What direct calls are made of.
const SECTOR_BYTES: u64 = 512;

/// What a call that reads or writes an open file is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    reads: bool,
    /// A vector of pieces, in the place of an address and a length.
    vectored: bool,
    /// An offset, in the place of the file's position.
    placed: bool,
    /// Flags of this call alone; an offset of -1 then stands for the file's position (preadv2(2)).
    has_flags: bool,
}

impl Form {
    /// That of the call of this number, if it is one that reads or writes.
    fn of(number: i64) -> Option<Self> {
        let (vectored, placed, has_flags) = match number {
            libc::SYS_read | libc::SYS_write => (false, false, false),
            libc::SYS_pread64 | libc::SYS_pwrite64 => (false, true, false),
            libc::SYS_readv | libc::SYS_writev => (true, false, false),
            libc::SYS_preadv | libc::SYS_pwritev => (true, true, false),
            libc::SYS_preadv2 | libc::SYS_pwritev2 => (true, true, true),
            _ => return None,
        };
        let reads = matches!(
            number,
            libc::SYS_read
                | libc::SYS_pread64
                | libc::SYS_readv
                | libc::SYS_preadv
                | libc::SYS_preadv2
        );
        Some(Form { reads, vectored, placed, has_flags })
    }

    /// The offset that the call names.
    fn offset(self, arguments: &[u64; 6]) -> Option<u64> {
        let named = arguments[3];
        (self.placed && !(self.has_flags && named == u64::MAX)).then_some(named)
    }

    /// How the call goes on a descriptor in this mode.
    fn mode(self, mode: Mode, arguments: &[u64; 6]) -> Mode {
        if self.has_flags { mode.with(arguments[5] as i32) } else { mode }
    }
}

/// A read or write of `done` bytes at the place where it happened. Whether it is one of a file, and was noted.
fn transferred(recorder: &Recorder, slot: &mut Slot, form: Form, done: u64) -> bool {
    let a = slot.calls().arguments;
    let descriptor = a[0] as i32;
    let Some(file) = file_of(recorder, descriptor) else { return false };
    if done == 0 {
        return false;
    }
    let mode = form.mode(Mode::of(descriptor), &a);
    let start = match form.offset(&a) {
        // Linux appends wherever the call says (pwrite(2)), and leaves the position where it was.
        Some(_) if !form.reads && mode.appends() => {
            Some(descriptors::size_bytes(descriptor).saturating_sub(done))
        }
        Some(offset) => Some(offset),
        None => descriptors::position(descriptor).map(|end| end.saturating_sub(done)),
    };
    let Some(offset) = start else { return false };
    let asked = if form.vectored {
        buffers(recorder, a[1], a[2])
    } else {
        vec![Buffer { address: a[1], length: a[2] }]
    };
    let whole = asked.iter().fold(0u64, |sum, buffer| sum.saturating_add(buffer.length));
    // A direct read that met the file's end asked for whole sectors. What went well without is no direct call:
    // its file system has none, and took it for another.
    let length = if form.reads { whole } else { done };
    let direct = mode.is_direct() && (offset | length).is_multiple_of(SECTOR_BYTES);
    let length = if direct { length } else { done };
    let used = used_of(asked, length);
    let Some((Buffer { address, .. }, further)) = used.split_first() else { return false };
    let address = *address;
    let call = match (form.reads, direct) {
        (true, false) => Call::Read { file, offset, length, address },
        (false, false) => Call::Write { file, offset, length, address },
        (true, true) => Call::ReadDirect { file, offset, length, address },
        (false, true) => Call::WriteDirect { file, offset, length, address },
    };
    slot.call_with(&call, further);
    if !form.reads {
        mode.sync(file).into_iter().for_each(|call| slot.call(&call));
    }
    true
}

/// Those of buffers that so many bytes fill, the last as far as they do.
fn used_of(buffers: Vec<Buffer>, bytes: u64) -> Vec<Buffer> {
    let mut left = bytes;
    let cut = buffers.into_iter().map(|buffer| {
        let length = buffer.length.min(left);
        left -= length;
        Buffer { length, ..buffer }
    });
    cut.filter(|buffer| buffer.length > 0).collect()
}

/// The buffers of a vectored call.
fn buffers(recorder: &Recorder, vector: u64, count: u64) -> Vec<Buffer> {
    let process = recorder.process();
    (0..count.min(1 + MOST_FURTHER_BUFFERS as u64))
        .map_while(|index| process.read_words::<2>(vector.wrapping_add(16 * index)))
        .map(|[address, length]| Buffer { address, length })
        .collect()
}

fn truncated(recorder: &Recorder, a: [u64; 6], out: &mut Vec<Call>) {
    let mut process = recorder.process();
    let path = process.read_path(a[0]);
    let Some(target) = path.and_then(|path| Target::find(libc::AT_FDCWD, &path, true)) else {
        return;
    };
    let file = number_of(recorder, &mut process, &target);
    out.push(Call::Truncate { file, length: a[1] });
}

fn sleep_of_milliseconds(timeout: u64, out: &mut Vec<Call>) {
    let milliseconds = timeout as i32;
    if milliseconds > 0 {
        out.push(Call::Sleep { duration_ps: milliseconds as u64 * (PICOSECONDS / 1000) });
    }
}

fn enter_clock_nanosleep(recorder: &Recorder, slot: &mut Slot) {
    let [clock, flags, request, ..] = slot.calls().arguments;
    let process = recorder.process();
    let span = if flags as i32 & libc::TIMER_ABSTIME != 0 {
        process.read_moment_ps(request, clock as i32)
    } else {
        process.read_span_ps(request)
    };
    slot.calls().sleep_ps = span.unwrap_or_default();
}

/// Notes a signal at `address` before the call that gives it runs, and lets machines have it.
fn signal(recorder: &Recorder, slot: &mut Slot, address: u64) {
    let mark = slot.next_signal(recorder);
    recorder.process().order.begin_signal(address, mark);
    slot.call(&Call::Signal { sequence: mark.sequence });
}

fn enter_futex(recorder: &Recorder, slot: &mut Slot) {
    let [address, operation, _, timeout, second, _] = slot.calls().arguments;
    match operation & futex::OPERATION {
        futex::WAKE | futex::WAKE_BITSET | futex::UNLOCK_PI => signal(recorder, slot, address),
        futex::WAKE_OP => {
            signal(recorder, slot, address);
            signal(recorder, slot, second);
        }
        futex::REQUEUE | futex::CMP_REQUEUE | futex::CMP_REQUEUE_PI => {
            signal(recorder, slot, address);
            recorder.process().order.move_waiters(address, second);
        }
        futex::WAIT => begin_wait(recorder, slot, timeout, None),
        futex::WAIT_BITSET | futex::WAIT_REQUEUE_PI | futex::LOCK_PI | futex::LOCK_PI2 => {
            let realtime = operation & futex::CLOCK_REALTIME != 0
                || operation & futex::OPERATION == futex::LOCK_PI;
            let clock = if realtime { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
            begin_wait(recorder, slot, timeout, Some(clock));
        }
        _ => {}
    }
}

/// `clock` is that of a timeout given as a moment; without one it is a span.
fn begin_wait(recorder: &Recorder, slot: &mut Slot, timeout: u64, clock: Option<i32>) {
    let mut process = recorder.process();
    let span = match clock {
        _ if timeout == 0 => None,
        Some(clock) => process.read_moment_ps(timeout, clock),
        None => process.read_span_ps(timeout),
    };
    let begun = process.order.begin_wait();
    let calls = slot.calls();
    (calls.wait_begun, calls.sleep_ps) = (begun, span.unwrap_or_default());
}

fn leave_futex(recorder: &Recorder, slot: &mut Slot, result: i64) {
    let ThreadCalls { arguments, wait_begun, sleep_ps, number, .. } = *slot.calls();
    let [address, operation, _, _, second, _] = arguments;
    let thread = slot.thread(recorder);
    let call = match operation & futex::OPERATION {
        futex::WAKE | futex::WAKE_BITSET | futex::UNLOCK_PI => {
            return completed(recorder, thread, &[address]);
        }
        futex::WAKE_OP => return completed(recorder, thread, &[address, second]),
        futex::REQUEUE | futex::CMP_REQUEUE | futex::CMP_REQUEUE_PI => {
            return completed(recorder, thread, &[address]);
        }
        _ if wait_begun == 0 => None,
        // Woken, or the word had changed before: in either case by a signal since, if there is one.
        _ if result == 0 || result == -i64::from(libc::EAGAIN) => {
            let mark = recorder.process().order.end_wait(address, wait_begun, thread);
            mark.map(|Mark { thread, sequence }| Call::Wait { thread, sequence })
        }
        _ if result == -i64::from(libc::ETIMEDOUT) => Some(Call::Sleep { duration_ps: sleep_ps }),
        _ => None,
    };
    slot.call(&call.unwrap_or(Call::Other { number: number as u64 }));
}

fn completed(recorder: &Recorder, thread: ThreadId, addresses: &[u64]) {
    let mut process = recorder.process();
    addresses.iter().for_each(|address| process.order.complete_signal(*address, thread));
}

fn enter_clone(recorder: &Recorder, flags: u64, cleared: u64) {
    if flags & CLONE_CHILD_CLEARTID != 0 {
        recorder.process().creating.push(cleared);
    }
}

fn created(recorder: &Recorder, calls: &ThreadCalls, result: u64, out: &mut Vec<Call>) {
    let a = calls.arguments;
    let (flags, cleared) = match calls.number {
        libc::SYS_clone => (a[0], a[3]),
        // struct clone_args: flags, pidfd, child_tid, ...
        libc::SYS_clone3 => match recorder.process().read_words::<3>(a[0]) {
            Some([flags, _, cleared]) => (flags, cleared),
            None => (0, 0),
        },
        _ => (0, 0),
    };
    let thread_of_ours = makes_thread(flags);
    {
        let mut process = recorder.process();
        if let Some(place) = process.creating.iter().position(|address| *address == cleared) {
            process.creating.swap_remove(place);
        }
        if thread_of_ours && flags & CLONE_CHILD_CLEARTID != 0 {
            process.cleared_at_end.insert(result as i32, cleared);
        }
    }
    if thread_of_ours {
        out.push(Call::Spawn { thread: recorder.announce_thread(result as i32) });
    } else if result > 0 {
        out.extend(forked(recorder, calls, result as i32).into_iter().flatten());
    }
}

/// Whether these flags of a clone make a thread of this process, and not another process.
fn makes_thread(flags: u64) -> bool {
    flags & CLONE_VM != 0 && flags & libc::CLONE_THREAD as u64 != 0
}

/// A process is about to be forked.
fn enter_fork(recorder: &Recorder, slot: &mut Slot) {
    let claimed = recorder.claim_channel();
    slot.calls().channel = claimed.map_or(0, |index| index as u32 + 1);
    if claimed.is_none() && !std::mem::replace(&mut recorder.process().fork_noticed, true) {
        recorder.publish_unseen(&format!(
            "the program had more than {CHANNELS} processes at once, or {MAX_PROCESSES} in all: some \
             are not recorded"
        ));
    }
}

/// A process was forked, whose first thread begins here.
fn forked(recorder: &Recorder, calls: &ThreadCalls, pid: i32) -> Option<[Call; 2]> {
    let forked = family::forked(calls.channel()?)?;
    recorder.process().forked.insert(pid, forked);
    let (process, thread) = (u64::from(forked.process), forked.thread);
    // Which process forks it, the host knows.
    Some([Call::Fork { parent: 0, process, thread }, Call::Spawn { thread }])
}

/// A process that was forked has ended, or was stopped, and this thread has waited for it.
fn awaited(recorder: &Recorder, pid: i32) -> Option<Call> {
    let mut process = recorder.process();
    let Forked { process: number, thread } = *process.forked.get(&pid)?;
    let sequence = family::last_signal(number)?;
    process.forked.remove(&pid);
    Some(Call::Wait { thread, sequence })
}

/// The thread ends: the kernel clears a word and wakes who waits for it, as `pthread_join` does.
fn exit_thread(recorder: &Recorder, slot: &mut Slot) {
    let tid = current_tid();
    let address = {
        let mut process = recorder.process();
        let known = process.cleared_at_end.remove(&tid);
        known.or_else(|| process.word_of_new_thread(tid))
    };
    if let Some(address) = address.filter(|address| *address != 0) {
        signal(recorder, slot, address);
    }
    recorder.end_thread(slot);
}

impl Process {
    /// The word of a thread that ends before its creation has returned in its creator: it holds
    /// the thread's number.
    fn word_of_new_thread(&self, tid: i32) -> Option<u64> {
        self.creating.iter().copied().find(|address| {
            let mut word = [0; 4];
            self.memory.read(*address, &mut word) && i32::from_le_bytes(word) == tid
        })
    }
}

/// The program kills itself by the signal that nothing can catch.
fn enter_kill(recorder: &Recorder, slot: &mut Slot, number: i64, a: [u64; 6]) {
    let signal = if number == libc::SYS_tgkill { a[2] } else { a[1] } as i32;
    let whom = a[0] as i32;
    // SAFETY: these calls always succeed and touch no memory.
    let (ours, group) = unsafe { (libc::getpid(), libc::getpgrp()) };
    let kills_us = match number {
        // Itself, its group, everybody.
        libc::SYS_kill => whom == ours || whom == 0 || whom == -group || whom == -1,
        libc::SYS_tkill => whom == current_tid(),
        _ => whom == ours,
    };
    if signal == libc::SIGKILL && kills_us {
        recorder.finish_in(Some(slot), Ended::Signal { number: signal });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_read_and_write_have_their_forms() {
        let form = |number| {
            let it: Form = Form::of(number)?;
            Some((it.reads, it.vectored, it.placed, it.has_flags))
        };
        assert_eq!(form(libc::SYS_read), Some((true, false, false, false)));
        assert_eq!(form(libc::SYS_pwrite64), Some((false, false, true, false)));
        assert_eq!(form(libc::SYS_writev), Some((false, true, false, false)));
        assert_eq!(form(libc::SYS_preadv), Some((true, true, true, false)));
        assert_eq!(form(libc::SYS_preadv2), Some((true, true, true, true)));
        assert_eq!(form(libc::SYS_pwritev2), Some((false, true, true, true)));
        assert_eq!(form(libc::SYS_fsync), None);
    }

    #[test]
    fn buffers_are_used_as_far_as_bytes_were_moved() {
        let of = |pairs: &[(u64, u64)]| -> Vec<Buffer> {
            pairs
                .iter()
                .map(|(address, length)| Buffer { address: *address, length: *length })
                .collect()
        };
        let asked = [(100, 10), (200, 0), (300, 5), (400, 20)];
        assert_eq!(used_of(of(&asked), 12), of(&[(100, 10), (300, 2)]));
        assert_eq!(used_of(of(&asked), 100), of(&[(100, 10), (300, 5), (400, 20)]));
        assert_eq!(used_of(of(&asked), 0), []);
    }

    #[test]
    fn an_offset_stands_for_the_position_only_where_flags_can() {
        let offset = |number, named| Form::of(number)?.offset(&[3, 0, 1, named, 0, 0]);
        assert_eq!(offset(libc::SYS_pwritev2, 40), Some(40));
        assert_eq!(offset(libc::SYS_pwritev2, u64::MAX), None);
        assert_eq!(offset(libc::SYS_pwrite64, 40), Some(40));
        assert_eq!(offset(libc::SYS_write, 40), None);
    }
}
