//! Random workloads of several threads, over memory and a file, by every call that concerns them.

use super::{ANONYMOUS, MAPPED, PAGE, call};
use proptest::prelude::*;
use tierscope_workload::Op;
use tierscope_workload::op::{
    Advice, Buffer, Call, FLAG_DEPENDENT, FLAG_KEEP, FLAG_ORDERED, FLAG_STORES, LOCK_ON_FAULT,
    MAP_NO_ACCESS, MAP_SHARED, MAP_WRITABLE, NO_FILE, POPULATE, fallocate,
};

/// What a thread may do.
#[derive(Clone, Debug)]
pub enum Do {
    Access { region: u8, page: u64, offset: u64, write: bool, dependent: bool, work: u32 },
    Order { page: u64, offset: u64, what: u8, work: u32 },
    Read { page: u64, length: u64 },
    Write { page: u64, length: u64 },
    Sync,
    Advise { page: u64, pages: u64, advice: u64 },
    Unmap(u64),
    Move(u64),
    Truncate(u64),
    Kernel { what: u8, page: u64, length: u64 },
    Sleep(u64),
    Hand,
}

/// Anything of it.
pub fn doing() -> impl Strategy<Value = Do> {
    prop_oneof![
        30 => (0u8..5, 0u64..700, 0u64..4090, any::<bool>(), any::<bool>(), 1u32..200).prop_map(
            |(region, page, offset, write, dependent, work)| Do::Access {
                region, page, offset, write, dependent, work
            }
        ),
        4 => (0u64..700, 0u64..4090, 0u8..8, 1u32..200).prop_map(
            |(page, offset, what, work)| Do::Order { page, offset, what, work }
        ),
        2 => (0u64..300, 1u64..20_000).prop_map(|(page, length)| Do::Read { page, length }),
        2 => (0u64..320, 1u64..20_000).prop_map(|(page, length)| Do::Write { page, length }),
        1 => Just(Do::Sync),
        1 => (0u64..700, 1u64..40, 0..=Advice::DontNeed as u64).prop_map(
            |(page, pages, advice)| Do::Advise { page, pages, advice }
        ),
        1 => (0u64..700).prop_map(Do::Unmap),
        1 => (0u64..700).prop_map(Do::Move),
        1 => (200u64..330).prop_map(Do::Truncate),
        4 => (0u8..14, 0u64..300, 1u64..100_000).prop_map(
            |(what, page, length)| Do::Kernel { what, page, length }
        ),
        1 => (1u64..2_000_000).prop_map(Do::Sleep),
        1 => Just(Do::Hand),
    ]
}

/// Mappings of the same file beside [`MAPPED`]: private, and shared once more.
pub const PRIVATE: u64 = 1 << 42;
const MAPPED_AGAIN: u64 = 1 << 43;

/// A store past the caches, of eight bytes or of a line, a flush of any sort, or a fence.
pub fn past(what: u8, address: u64, work: u32) -> Op {
    match what {
        0 | 1 => Op::non_temporal_store(address & !7, 8, work),
        2 => Op::non_temporal_store(address & !63, 64, work),
        3 => Op::flush(address, 0, work),
        4 => Op::flush(address, FLAG_KEEP, work),
        5 => Op::flush(address, FLAG_ORDERED, work),
        6 => Op::fence(0, work),
        _ => Op::fence(FLAG_STORES, work),
    }
}

/// Threads that share files and memory and wait for each other, in an order that can happen; or of a
/// process each.
pub fn script(threads: &[Vec<Do>], of_processes: bool) -> Vec<Vec<Op>> {
    if of_processes { family(threads) } else { of_threads(threads) }
}

fn of_threads(threads: &[Vec<Do>]) -> Vec<Vec<Op>> {
    let mut signals = vec![0u64; threads.len()];
    let mut all: Vec<Vec<Op>> = vec![Vec::new(); threads.len()];
    let (flags, length) = (MAP_WRITABLE, 300 * PAGE);
    let shared = flags | MAP_SHARED;
    let anonymous =
        Call::Map { address: ANONYMOUS, length: 2000 * PAGE, flags, file: NO_FILE, offset: 0 };
    let start = [
        Call::Open { file: 0, size: length + 100 },
        anonymous,
        Call::Map { address: MAPPED, length, flags: shared, file: 0, offset: 0 },
        Call::Map { address: PRIVATE, length, flags, file: 0, offset: PAGE },
        Call::Map { address: MAPPED_AGAIN, length, flags: shared, file: 0, offset: 0 },
    ];
    let others = (1..threads.len() as u32).map(|thread| Call::Spawn { thread });
    all[0].extend(start.into_iter().chain(others).flat_map(call));
    for (index, todo) in threads.iter().enumerate() {
        for what in todo {
            let ops = operations(0, index as u64, what);
            all[index].extend(ops);
            if let Do::Hand = what {
                signals[index] += 1;
                let sequence = signals[index];
                all[index].extend(call(Call::Signal { sequence }));
                if let Some(next) = all.get_mut(index + 1) {
                    next.extend(call(Call::Wait { thread: index as u32, sequence }));
                }
            }
        }
    }
    all
}

/// The first process does all of what it has to do, and each forks the next after a third. Half of them
/// run another program in their place before they end.
fn family(threads: &[Vec<Do>]) -> Vec<Vec<Op>> {
    let mut all = of_threads(&threads[..1]);
    for (index, todo) in threads.iter().enumerate() {
        let process = index as u64;
        let (before, behind) = todo.split_at(todo.len() / 3);
        let done = |part: &[Do]| -> Vec<Op> {
            part.iter().flat_map(|what| operations(process, process, what)).collect()
        };
        let mut ops = if index == 0 { std::mem::take(&mut all[0]) } else { done(before) };
        if index + 1 < threads.len() {
            let (thread, next) = (index as u32 + 1, process + 1);
            ops.extend(call(Call::Fork { parent: process, process: next, thread }));
            ops.extend(call(Call::Spawn { thread }));
        }
        ops.extend(done(behind));
        if index % 2 == 1 {
            ops.extend(call(Call::Exec { process }));
            ops.extend(done(before));
        }
        if index > 0 {
            ops.extend(call(Call::Exit { process }));
            all.push(ops);
        } else {
            all[0] = ops;
        }
    }
    all
}

/// What the kernel does to a file without the program's memory, and reads of several buffers.
fn in_kernel(what: u8, page: u64, length: u64, buffers: u64) -> Vec<Op> {
    let offset = page * PAGE + length % 700;
    let range = |mode, pages: u64| {
        call(Call::Allocate { file: 0, mode, offset: page * PAGE, length: pages * PAGE })
    };
    match what {
        0 => {
            let source_offset = offset + 5;
            call(Call::CopyRange { source: 0, source_offset, file: 1, offset, length })
        }
        1 => {
            let source_offset = (page * 7 % 300) * PAGE;
            call(Call::CopyRange { source: 1, source_offset, file: 0, offset, length })
        }
        2 => call(Call::SpliceRead { file: 0, offset, length }),
        3 => call(Call::SpliceWrite { file: 0, offset, length: length % 20_000 + 1 }),
        4 => call(Call::Allocate { file: 0, mode: length % 2, offset, length }),
        5 => {
            let mode = fallocate::PUNCH_HOLE | fallocate::KEEP_SIZE;
            call(Call::Allocate { file: 0, mode, offset, length })
        }
        6 => call(Call::Allocate { file: 0, mode: fallocate::ZERO_RANGE, offset, length }),
        7 if length.is_multiple_of(2) => range(fallocate::COLLAPSE_RANGE, 1 + length % 5),
        7 => range(fallocate::INSERT_RANGE, 1 + length % 5),
        8 => {
            let unlink = call(Call::Unlink { file: 1, size: 0 });
            [unlink, call(Call::Open { file: 1, size: 0 })].concat()
        }
        _ => {
            let piece = length % 5000 + 1;
            let further = [(3 * PAGE, piece), (6 * PAGE + 100, 30)]
                .map(|(at, length)| Buffer { address: buffers + at, length });
            let (length, address) = (2 * piece + 30, buffers + 10);
            let mut ops = Vec::new();
            let call = match length % 3 {
                0 => Call::Write { file: 0, offset, length, address },
                _ => Call::Read { file: 0, offset, length, address },
            };
            call.encode_with(&further, 1, &mut ops);
            ops
        }
    }
}

/// What brings pages to memory, keeps them there, or lets them go: of the first few of anonymous memory or of a mapping of
/// the file, so that there is room for others beside those that are locked.
fn in_memory(what: u8, page: u64, length: u64, space: u64) -> Vec<Op> {
    let base = space + if page.is_multiple_of(2) { ANONYMOUS } else { MAPPED };
    let (address, bytes) = (base + page % 24 * PAGE, length % 20_000 + 1);
    let [read, write] = POPULATE;
    match (what, length % 4) {
        (10, _) => {
            let (offset, advice) = (page * PAGE + length % 3 * 100, page % 6);
            let advice = if advice == 5 { Advice::NoReuse as u64 } else { advice };
            call(Call::AdviseFile { file: 0, offset, length: length / 7 * 7, advice })
        }
        (11, 0) => call(Call::Lock { address, length: bytes, flags: LOCK_ON_FAULT }),
        (11, _) => call(Call::Lock { address, length: bytes, flags: 0 }),
        (12, _) => call(Call::Unlock { address: base, length: bytes + page % 24 * PAGE }),
        (_, 0) => call(Call::Protect { address, length: bytes, flags: MAP_NO_ACCESS }),
        (_, 1) => call(Call::Protect { address, length: bytes, flags: MAP_WRITABLE }),
        (_, 2) => call(Call::Populate { address, length: bytes, how: read }),
        _ => call(Call::Populate { address, length: bytes, how: write }),
    }
}

fn operations(process: u64, thread: u64, what: &Do) -> Vec<Op> {
    let space = process << 48;
    // Half of the anonymous pages belong to a thread each.
    let own = |page: u64| {
        if page.is_multiple_of(2) { page } else { page / 12 * 12 + 2 * (thread % 6) + 1 }
    };
    let anonymous = |page: u64| space + ANONYMOUS + own(page) * PAGE;
    match *what {
        Do::Access { region, page, offset, write, dependent, work } => {
            let address = match region {
                0 | 1 => anonymous(page),
                2 => space + MAPPED + page % 290 * PAGE,
                3 => space + PRIVATE + page % 290 * PAGE,
                _ => space + MAPPED_AGAIN + page % 290 * PAGE,
            } + offset;
            let op = if write { Op::store(address, 8, work) } else { Op::load(address, 8, work) };
            vec![op.with_flags(if dependent { FLAG_DEPENDENT } else { 0 })]
        }
        Do::Order { page, offset, what, work } => {
            let address = match page % 3 {
                0 => space + MAPPED + page % 290 * PAGE,
                _ => anonymous(page),
            } + offset;
            vec![past(what, address, work)]
        }
        Do::Read { page, length } => {
            let (offset, address) = (page * PAGE, anonymous(900 + 8 * thread));
            let read = |length| call(Call::ReadDirect { file: 0, offset, length, address });
            match length % 4 {
                0 => read(length.next_multiple_of(PAGE)),
                1 => read(length.next_multiple_of(512)),
                _ => call(Call::Read { file: 0, offset: offset + 7, length, address }),
            }
        }
        Do::Write { page, length } => {
            let (offset, address) = (page * PAGE, anonymous(1000 + 8 * thread));
            let write = |length| call(Call::WriteDirect { file: 0, offset, length, address });
            match length % 4 {
                0 => write(length.next_multiple_of(PAGE)),
                1 => write(length.next_multiple_of(512)),
                _ => call(Call::Write { file: 0, offset, length, address: address + 8 }),
            }
        }
        Do::Sync => call(Call::Sync { file: 0 }),
        Do::Advise { page, pages, advice } => {
            let address = anonymous(page);
            call(Call::Advise { address, length: pages * PAGE, advice })
        }
        Do::Unmap(page) => call(Call::Unmap { address: anonymous(page), length: PAGE }),
        Do::Move(page) => call(Call::Remap {
            old_address: anonymous(page),
            old_length: 2 * PAGE,
            new_address: anonymous(page) + 800 * PAGE,
            new_length: 3 * PAGE,
        }),
        Do::Truncate(pages) => call(Call::Truncate { file: 0, length: pages * PAGE + 50 }),
        Do::Kernel { what, page, length } if what >= 10 => in_memory(what, page, length, space),
        Do::Kernel { what, page, length } => {
            in_kernel(what, page, length, anonymous(1100 + 16 * thread) / 2 * 2)
        }
        Do::Sleep(duration_ps) => call(Call::Sleep { duration_ps }),
        Do::Hand => Vec::new(),
    }
}
