//! Memory that the processes of a program share: how a process that was forked hands over what it
//! does.
//!
//! One mapping, made before the first fork and inherited by all. It holds [`CHANNELS`] channels, each
//! a ring of bytes that one process writes and the first process reads. Words that both sides use are
//! atomic; who has nothing to do waits on a futex, and looks up from time to time whether the other
//! side still lives.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Processes beside the first that can run at once.
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
    /// The process has taken up another program, which is not recorded: its name.
    Exec = 5,
    /// The recording of the process is over.
    End = 6,
}

impl Kind {
    fn of(code: u32) -> Option<Kind> {
        [Kind::Ops, Kind::File, Kind::EndThread, Kind::Record, Kind::Exec, Kind::End]
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
    /// The first process reads.
    pub const SERVED: u32 = 3;
}

/// One process's channel.
#[repr(C, align(4096))]
pub struct Channel {
    /// See [`state`].
    pub state: AtomicU32,
    /// The process, numbered from 1 in the order of forks; 0 is the first.
    pub process: AtomicU32,
    /// The process that forked it, and that one's number for its first thread.
    pub parent: AtomicU32,
    pub thread: AtomicU32,
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
    /// Processes so far, the first not counted.
    pub processes: AtomicU32,
    /// Rung when a channel is born.
    pub births: AtomicU32,
    /// By process: the number of the signal that its first thread gave as it ended.
    last_signals: [AtomicU64; MAX_PROCESSES as usize],
    pub channels: [Channel; CHANNELS],
}

impl Shared {
    /// New shared memory, which the process keeps to its end.
    pub fn new() -> io::Result<&'static Shared> {
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Shared>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping is aligned to a page, as long as needed and never removed; all zero is
        // a valid value.
        Ok(unsafe { &*memory.cast::<Shared>() })
    }

    /// Takes a free channel for a process that is about to be forked. None where there are too many
    /// processes.
    pub fn claim(&self) -> Option<usize> {
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
    pub bytes: Vec<u8>,
}

impl Channel {
    /// Writes a frame. Where the ring is full, waits for the reader as long as `go_on` says so.
    /// False where the frame was not written. One thread at a time.
    pub fn write(&self, kind: Kind, thread: u32, bytes: &[u8], go_on: impl Fn() -> bool) -> bool {
        let padded = bytes.len().next_multiple_of(HEAD_BYTES);
        if HEAD_BYTES + padded > RING_BYTES {
            return false;
        }
        let at = self.written.load(Ordering::Relaxed);
        loop {
            if self.closed.load(Ordering::Acquire) != 0 {
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
        let mut bytes = vec![0; if kind.is_some() { length } else { 0 }];
        self.get(at + HEAD_BYTES as u64, &mut bytes);
        let next = at + (HEAD_BYTES + bytes.len().next_multiple_of(HEAD_BYTES)) as u64;
        self.read.store(next, Ordering::Release);
        ring(&self.read_bell);
        Some(Frame { kind: kind.unwrap_or(Kind::End), thread: half(4), bytes })
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
        let start = at as usize % RING_BYTES;
        let until_end = bytes.len().min(RING_BYTES - start);
        let (first, second) = bytes.split_at_mut(until_end);
        let ring = self.ring.as_ptr();
        // SAFETY: both pieces lie within the ring; the writer changes nothing before `read` says so.
        unsafe {
            std::ptr::copy_nonoverlapping(ring.add(start), first.as_mut_ptr(), first.len());
            std::ptr::copy_nonoverlapping(ring, second.as_mut_ptr(), second.len());
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
        let shared = Shared::new().unwrap();
        let index = shared.claim().unwrap();
        let channel = &shared.channels[index];
        let payload = |n: usize| vec![n as u8; n * 977 % 70_000];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..200 {
                    assert!(channel.write(Kind::Ops, n as u32, &payload(n), || true));
                }
            });
            for n in 0..200 {
                let frame = std::iter::repeat_with(|| channel.read()).flatten().next().unwrap();
                assert_eq!((frame.kind, frame.thread as usize), (Kind::Ops, n));
                assert_eq!(frame.bytes, payload(n));
            }
        });
        assert_eq!(channel.read(), None);
    }

    #[test]
    fn a_full_ring_holds_its_writer_until_it_is_closed_or_given_up() {
        let shared = Shared::new().unwrap();
        let channel = &shared.channels[shared.claim().unwrap()];
        let large = vec![0; RING_BYTES - HEAD_BYTES];
        assert!(channel.write(Kind::Ops, 0, &large, || true));
        assert!(!channel.write(Kind::End, 0, &[], || false), "given up");
        assert!(
            !channel.write(Kind::Ops, 0, &vec![0; RING_BYTES], || true),
            "larger than the ring"
        );
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| channel.write(Kind::End, 0, &[], || true));
            std::thread::sleep(Duration::from_millis(20));
            channel.close();
            assert!(!writer.join().unwrap());
        });
    }

    #[test]
    fn each_process_has_a_channel_and_a_number_of_its_own() {
        let shared = Shared::new().unwrap();
        let claimed: Vec<usize> = (0..CHANNELS).map(|_| shared.claim().unwrap()).collect();
        assert_eq!(claimed, (0..CHANNELS).collect::<Vec<_>>());
        assert_eq!(shared.claim(), None);
        shared.channels[5].state.store(state::FREE, Ordering::Release);
        assert_eq!(shared.claim(), Some(5));
        assert_eq!(shared.channels[5].process.load(Ordering::Relaxed), CHANNELS as u32 + 1);
        assert_eq!(shared.last_signal(7), None);
        shared.set_last_signal(7, 3);
        assert_eq!(shared.last_signal(7), Some(3));
    }
}
