//! Memory that the processes of a program share with the host: how a process hands over what it does.
//!
//! A file without a name (memfd_create(2)), made before the program begins. Processes that are forked
//! inherit its mapping; a program that takes another's place maps it anew. It holds [`CHANNELS`]
//! channels, each a ring of bytes that one process writes and the host reads. Words that both sides
//! use are atomic; who has nothing to do waits on a futex, and looks up from time to time whether the
//! other side still lives.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tierscope_workload::Op;

/// Processes that can run at once.
pub const CHANNELS: usize = 128;
/// Processes that can be told apart in a run.
pub const MAX_PROCESSES: u32 = 1 << 15;
/// Bytes of a channel's ring: a few of the largest frames.
const RING_BYTES: usize = 1 << 18;
/// Length of a frame's head.
const HEAD_BYTES: usize = 16;
/// How often a waiting side looks up whether the other one lives.
pub const LOOK_UP_EVERY: Duration = Duration::from_millis(50);

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Operations of a thread.
    Ops = 1,
    /// A file: its number in this process, device, inode and [`tierscope_workload::FileInfo`].
    File = 2,
    /// A thread has ended.
    EndThread = 3,
    /// A record for the log.
    Record = 4,
    /// The process is about to run another program in its place: [`super::child::Replacing`].
    Exec = 5,
    /// That has failed: the process goes on as before.
    Back = 6,
    /// The other program begins, and is recorded.
    Begin = 7,
    /// The recording of the process is over: [`crate::capture::Ended`].
    End = 8,
    /// Counts in the place of operations of a thread: [`crate::sink::Counts`].
    Counts = 9,
    /// A site: its number in the run, and [`tierscope_workload::Site`].
    Site = 10,
}

impl Kind {
    fn of(code: u32) -> Option<Kind> {
        use Kind::{Back, Begin, Counts, End, EndThread, Exec, File, Ops, Record, Site};
        [Ops, File, EndThread, Record, Exec, Back, Begin, End, Counts, Site]
            .into_iter()
            .find(|kind| *kind as u32 == code)
    }
}

/// What a channel is in.
pub mod state {
    /// Nobody uses it.
    pub const FREE: u32 = 0;
    /// A process is about to fork.
    pub const CLAIMED: u32 = 1;
    /// There is a process that writes.
    pub const BORN: u32 = 2;
    /// The host reads.
    pub const SERVED: u32 = 3;
    /// The host reads no more. The process may still write, which it does in vain.
    pub const OVER: u32 = 4;
}

/// How far the host has come.
pub mod host {
    /// It is about to begin.
    pub const BEGINNING: u32 = 0;
    /// It takes what processes do.
    pub const READY: u32 = 1;
    /// It could not begin; the log says why.
    pub const FAILED: u32 = 2;
}

/// One process's channel.
#[repr(C, align(4096))]
pub struct Channel {
    /// See [`state`].
    pub state: AtomicU32,
    /// The process, numbered from 1 in the order of forks; 0 is the first.
    pub process: AtomicU32,
    /// Programs that the process has run in its place so far.
    pub image: AtomicU32,
    /// The process that forked it, its image then, and its number for the first thread.
    pub parent: AtomicU32,
    pub parent_image: AtomicU32,
    pub thread: AtomicU32,
    /// Signals that its first thread had given when it last ran a program in its place.
    pub signals: AtomicU64,
    /// The kernel's number of the process.
    pub pid: AtomicI32,
    /// The reader wants nothing any more.
    closed: AtomicU32,
    /// Bytes written and read so far, and what waiters wait on.
    written: AtomicU64,
    read: AtomicU64,
    written_bell: AtomicU32,
    read_bell: AtomicU32,
    ring: [u8; RING_BYTES],
}

/// What all processes share.
#[repr(C, align(4096))]
pub struct Shared {
    /// See [`host`], and what is rung when it changes.
    pub host: AtomicU32,
    /// The kernel's number of the host, and the host's descriptor of this file.
    host_pid: AtomicI32,
    host_descriptor: AtomicI32,
    /// The host wants counts and no operations.
    pub counts_only: AtomicBool,
    /// Processes so far, the first not counted.
    pub processes: AtomicU32,
    /// Sites of the program's code so far: see [`crate::sites`].
    pub sites: AtomicU32,
    /// Rung when a channel is born.
    pub births: AtomicU32,
    /// By process: the number of the signal that its first thread gave as it ended.
    last_signals: [AtomicU64; MAX_PROCESSES as usize],
    pub channels: [Channel; CHANNELS],
}

impl Shared {
    /// New shared memory, which the process keeps to its end, and its file.
    pub fn new() -> io::Result<(&'static Shared, OwnedFd)> {
        // SAFETY: the name ends in a zero byte.
        let file = unsafe { libc::memfd_create(c"tierscope".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        // Its number may be that of a standard stream which whoever started the program had closed. Those
        // are not kept: this one is 3 or more.
        let file = file.try_clone()?;
        File::from(file.try_clone()?).set_len(size_of::<Shared>() as u64)?;
        Ok((Shared::map(&file)?, file))
    }

    /// The shared memory of a file that [`Shared::new`] made, which the process keeps to its end.
    pub fn map(file: &impl AsRawFd) -> io::Result<&'static Shared> {
        let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: `status` has room for what the call writes, and is read only if it succeeded.
        let bytes = unsafe {
            if libc::fstat(file.as_raw_fd(), status.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            status.assume_init().st_size
        };
        if bytes != size_of::<Shared>() as i64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it has another length"));
        }
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Shared>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping is aligned to a page, of the file's length and never removed; all zero
        // is a valid value, as is whatever another process has made of it.
        Ok(unsafe { &*memory.cast::<Shared>() })
    }

    /// The host's descriptor of the shared memory, which it keeps.
    pub fn set_host_descriptor(&self, file: &OwnedFd) {
        self.host_descriptor.store(file.as_raw_fd(), Ordering::Release);
    }

    /// The kernel's number of the host; -1 where there is none.
    pub fn set_host_pid(&self, pid: libc::pid_t) {
        self.host_pid.store(pid, Ordering::Release);
    }

    /// The kernel's number of the host.
    pub fn host_pid(&self) -> libc::pid_t {
        self.host_pid.load(Ordering::Acquire)
    }

    /// Whether the host lives.
    pub fn host_lives(&self) -> bool {
        let pid = self.host_pid();
        // A process that has ended is there until somebody waits for it (proc(5), `stat`).
        if let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            let state = status.rsplit(") ").next().and_then(|rest| rest.chars().next());
            return !matches!(state, Some('Z' | 'X'));
        }
        // SAFETY: signal 0 asks only whether there is such a process; -1 would be all.
        let refused = pid <= 0 || unsafe { libc::kill(pid, 0) } != 0;
        // A process that has changed its user may not signal it.
        !refused || pid > 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
    }

    /// Opens the file once more, for a program to inherit. It closes at exec until that is changed.
    pub fn reopen(&self) -> io::Result<File> {
        let descriptor = self.host_descriptor.load(Ordering::Relaxed);
        let path = format!("/proc/{}/fd/{descriptor}", self.host_pid());
        OpenOptions::new().read(true).write(true).open(path)
    }

    /// Takes no process any more, those that are yet to be forked included: they run unrecorded.
    pub fn give_up(&self) {
        self.set_state(host::FAILED);
        self.channels.iter().for_each(Channel::close);
    }

    /// The host has come to a state of [`host`].
    pub fn set_state(&self, state: u32) {
        self.host.store(state, Ordering::Release);
        // SAFETY: the word lives through the call.
        unsafe { libc::syscall(libc::SYS_futex, self.host.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }

    /// Makes the first channel that of the program's first process, `pid`, which is process 0.
    pub fn begin_first(&self, pid: libc::pid_t) {
        let channel = &self.channels[0];
        channel.pid.store(pid, Ordering::Relaxed);
        channel.state.store(state::BORN, Ordering::Release);
    }

    /// Takes a free channel for a process that is about to be forked. None where there are too many
    /// processes, or nobody takes them any more.
    pub fn claim(&self) -> Option<usize> {
        if self.host.load(Ordering::Acquire) == host::FAILED {
            return None;
        }
        if self.processes.load(Ordering::Relaxed) + 1 >= MAX_PROCESSES {
            return None;
        }
        let free = |channel: &Channel| {
            let claimed = (state::FREE, state::CLAIMED);
            let (from, to) = claimed;
            channel.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let index = self.channels.iter().position(free)?;
        let channel = &self.channels[index];
        let process = self.processes.fetch_add(1, Ordering::AcqRel) + 1;
        channel.process.store(process, Ordering::Relaxed);
        channel.image.store(0, Ordering::Relaxed);
        channel.signals.store(0, Ordering::Relaxed);
        channel.closed.store(0, Ordering::Relaxed);
        channel.written.store(0, Ordering::Relaxed);
        channel.read.store(0, Ordering::Relaxed);
        Some(index)
    }

    /// The signal that ends the first thread of a process; `None` until then.
    pub fn last_signal(&self, process: u32) -> Option<u64> {
        let signal = self.last_signals[process as usize].load(Ordering::Acquire);
        (signal > 0).then_some(signal)
    }

    /// The first thread of `process` has given its last signal.
    pub fn set_last_signal(&self, process: u32, signal: u64) {
        self.last_signals[process as usize].store(signal, Ordering::Release);
    }
}

/// What was read from a channel.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: Kind,
    /// A thread, as the writing process numbers it.
    pub thread: u32,
    /// What it holds, but for operations.
    pub bytes: Vec<u8>,
    /// Its operations, as the writing process has them.
    pub ops: Vec<Op>,
}

impl Channel {
    /// Writes a frame of the process with the number `owner`. Where the ring is full, waits for the
    /// reader as long as `go_on` says so. False where the frame was not written: also where the channel
    /// is another process's now. One thread at a time.
    pub fn write(
        &self,
        owner: u32,
        kind: Kind,
        thread: u32,
        bytes: &[u8],
        go_on: impl Fn() -> bool,
    ) -> bool {
        let padded = bytes.len().next_multiple_of(HEAD_BYTES);
        if HEAD_BYTES + padded > RING_BYTES {
            return false;
        }
        let at = self.written.load(Ordering::Relaxed);
        loop {
            if self.is_closed() || self.process.load(Ordering::Acquire) != owner {
                return false;
            }
            let bell = self.read_bell.load(Ordering::Acquire);
            let used = at - self.read.load(Ordering::Acquire);
            if used as usize + HEAD_BYTES + padded <= RING_BYTES {
                break;
            }
            if !go_on() {
                return false;
            }
            wait(&self.read_bell, bell);
        }
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&(kind as u32).to_le_bytes());
        head[4..8].copy_from_slice(&thread.to_le_bytes());
        head[8..].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.put(at, &head);
        self.put(at + HEAD_BYTES as u64, bytes);
        self.written.store(at + (HEAD_BYTES + padded) as u64, Ordering::Release);
        ring(&self.written_bell);
        true
    }

    /// The next frame; `None` where there is none, after a while.
    pub fn read(&self) -> Option<Frame> {
        let at = self.read.load(Ordering::Relaxed);
        let bell = self.written_bell.load(Ordering::Acquire);
        if self.written.load(Ordering::Acquire) == at {
            wait(&self.written_bell, bell);
            if self.written.load(Ordering::Acquire) == at {
                return None;
            }
        }
        let mut head = [0; HEAD_BYTES];
        self.get(at, &mut head);
        let half =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let length = half(8) as usize;
        // The program can write anywhere in its memory, and so here.
        let kind = Kind::of(half(0)).filter(|_| length + HEAD_BYTES <= RING_BYTES);
        let length = if kind.is_some() { length } else { 0 };
        let (mut bytes, mut ops) = (Vec::new(), Vec::new());
        if kind == Some(Kind::Ops) {
            ops = self.get_ops(at + HEAD_BYTES as u64, length / size_of::<Op>());
        } else {
            bytes.resize(length, 0);
            self.get(at + HEAD_BYTES as u64, &mut bytes);
        }
        let next = at + (HEAD_BYTES + length.next_multiple_of(HEAD_BYTES)) as u64;
        self.read.store(next, Ordering::Release);
        ring(&self.read_bell);
        Some(Frame { kind: kind.unwrap_or(Kind::End), thread: half(4), bytes, ops })
    }

    /// Nobody reads any more: what is written from now on is dropped.
    pub fn close(&self) {
        self.closed.store(1, Ordering::Release);
        ring(&self.read_bell);
    }

    /// Whether the reader wants nothing any more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire) != 0
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        let start = at as usize % RING_BYTES;
        let (until_end, from_start) = bytes.split_at(bytes.len().min(RING_BYTES - start));
        let ring = self.ring.as_ptr().cast_mut();
        // SAFETY: both pieces lie within the ring, which is in memory that is written to; the reader
        // does not look there before `written` says so, and there is one writer.
        unsafe {
            std::ptr::copy_nonoverlapping(until_end.as_ptr(), ring.add(start), until_end.len());
            std::ptr::copy_nonoverlapping(from_start.as_ptr(), ring, from_start.len());
        }
    }

    fn get(&self, at: u64, bytes: &mut [u8]) {
        // SAFETY: there is room for as many bytes as there are.
        unsafe { self.copy_to(at, bytes.as_mut_ptr(), bytes.len()) };
    }

    fn get_ops(&self, at: u64, count: usize) -> Vec<Op> {
        let mut ops: Vec<Op> = Vec::with_capacity(count);
        // SAFETY: there is room for as many, and whatever is in the ring is two words each.
        unsafe {
            self.copy_to(at, ops.as_mut_ptr().cast(), count * size_of::<Op>());
            ops.set_len(count);
        }
        ops
    }

    /// # Safety
    /// At `to` is room for `length` bytes, which are at most those of the ring.
    unsafe fn copy_to(&self, at: u64, to: *mut u8, length: usize) {
        let start = at as usize % RING_BYTES;
        let until_end = length.min(RING_BYTES - start);
        let ring = self.ring.as_ptr();
        // SAFETY: both pieces lie within the ring; the writer changes nothing before `read` says so.
        unsafe {
            std::ptr::copy_nonoverlapping(ring.add(start), to, until_end);
            std::ptr::copy_nonoverlapping(ring, to.add(until_end), length - until_end);
        }
    }
}

/// Waits until a bell is rung that was at `value`, for [`LOOK_UP_EVERY`] at most.
pub fn wait(bell: &AtomicU32, value: u32) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: i64::from(LOOK_UP_EVERY.subsec_nanos()) };
    // SAFETY: the word and the time live through the call.
    unsafe { libc::syscall(libc::SYS_futex, bell.as_ptr(), libc::FUTEX_WAIT, value, &time) };
}

/// Wakes who waits for a bell.
pub fn ring(bell: &AtomicU32) {
    bell.fetch_add(1, Ordering::AcqRel);
    // SAFETY: the word lives through the call.
    unsafe { libc::syscall(libc::SYS_futex, bell.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in_however_often_the_ring_wraps() {
        let (shared, _file) = Shared::new().unwrap();
        let index = shared.claim().unwrap();
        let channel = &shared.channels[index];
        let owner = channel.process.load(Ordering::Relaxed);
        let payload = |n: usize| vec![n as u8; n * 977 % 70_000];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..200 {
                    assert!(channel.write(owner, Kind::File, n as u32, &payload(n), || true));
                    let op = Op::load(n as u64, 8, 1);
                    let bytes = [op.word.to_le_bytes(), op.meta.to_le_bytes()].concat();
                    assert!(channel.write(owner, Kind::Ops, 0, &bytes.repeat(n % 700), || true));
                }
            });
            for n in 0..200 {
                let next = || std::iter::repeat_with(|| channel.read()).flatten().next().unwrap();
                let frame = next();
                assert_eq!((frame.kind, frame.thread as usize), (Kind::File, n));
                assert_eq!(frame.bytes, payload(n));
                assert_eq!(next().ops, vec![Op::load(n as u64, 8, 1); n % 700]);
            }
        });
        assert_eq!(channel.read(), None);
    }

    #[test]
    fn a_full_ring_holds_its_writer_until_it_is_closed_or_given_up() {
        let (shared, _file) = Shared::new().unwrap();
        let channel = &shared.channels[shared.claim().unwrap()];
        let large = vec![0; RING_BYTES - HEAD_BYTES];
        assert!(channel.write(1, Kind::Ops, 0, &large, || true));
        assert!(!channel.write(1, Kind::End, 0, &[], || false), "given up");
        assert!(
            !channel.write(1, Kind::Ops, 0, &vec![0; RING_BYTES], || true),
            "larger than the ring"
        );
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| channel.write(1, Kind::End, 0, &[], || true));
            std::thread::sleep(Duration::from_millis(20));
            channel.close();
            assert!(!writer.join().unwrap());
        });
    }

    #[test]
    fn who_gave_up_takes_no_process_any_more() {
        let (shared, _file) = Shared::new().unwrap();
        let channel = &shared.channels[shared.claim().unwrap()];
        assert!(channel.write(1, Kind::Ops, 0, &[], || true));
        shared.give_up();
        assert!(!channel.write(1, Kind::Ops, 0, &[], || true));
        assert_eq!(shared.claim(), None);
    }

    #[test]
    fn a_program_that_takes_anothers_place_maps_the_same_memory() {
        let (shared, file) = Shared::new().unwrap();
        shared.set_host_descriptor(&file);
        shared.set_host_pid(std::process::id() as libc::pid_t);
        assert!(shared.host_lives());
        let again = Shared::map(&shared.reopen().unwrap()).unwrap();
        again.set_last_signal(3, 9);
        assert_eq!(shared.last_signal(3), Some(9));
        assert!(!std::ptr::eq(shared, again));
        let other = File::open("/dev/null").unwrap();
        assert!(Shared::map(&other).is_err());
    }

    #[test]
    fn each_process_has_a_channel_and_a_number_of_its_own() {
        let (shared, _file) = Shared::new().unwrap();
        let claimed: Vec<usize> = (0..CHANNELS).map(|_| shared.claim().unwrap()).collect();
        assert_eq!(claimed, (0..CHANNELS).collect::<Vec<_>>());
        assert_eq!(shared.claim(), None);
        shared.channels[5].state.store(state::FREE, Ordering::Release);
        assert_eq!(shared.claim(), Some(5));
        let (before, after) = (6, CHANNELS as u32 + 1);
        assert_eq!(shared.channels[5].process.load(Ordering::Relaxed), after);
        assert!(!shared.channels[5].write(before, Kind::End, 0, &[], || true), "it is another's");
        assert!(shared.channels[5].write(after, Kind::End, 0, &[], || true));
        assert_eq!(shared.last_signal(7), None);
        shared.set_last_signal(7, 3);
        assert_eq!(shared.last_signal(7), Some(3));
    }
}
