//! Leaving out of a recording what lies between windows: a systematic sample of a program.
//!
//! Of each period of so many accesses of the program, all threads together, the recording holds a window
//! in the period's middle, so that a trend over the program weighs alike before and behind; the first
//! period it holds whole: a program's start is like nothing that follows, and a stratum of its own, as
//! what is rare and large is in samples (Cochran, *Sampling Techniques*, 3rd ed., ch. 5). Calls and
//! marks are kept wherever they are: what memory is mapped, what files hold and who waits for whom is as
//! in the whole. [`Call::Skip`] counts what a thread did in between, and [`OpKind::Used`] behind it tells
//! what memory it used there, so that a machine begins a window as warm as if it had done all of it.
//! Systematic samples of programs with functional warming in between: Wunderlich, Wenisch, Falsafi, Hoe,
//! SMARTS, ISCA 2003, section 3.

use crate::counts::Counts;
use crate::op::{Advice, Call, Op, OpKind, ThreadId, operations};
use crate::recency::{MOST_USE_BYTES, Ranges, Recency};
use crate::site::SiteId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Accesses of a window at least: caches of a core are warm after some of it.
const LEAST_WINDOW: u64 = 1000;

/// Address bits of a process, whose number is above them.
pub(crate) const PROCESS_SHIFT: u32 = 48;
/// Ranges of memory given up that are remembered for threads that have not looked at them yet.
const MOST_GONE: usize = 1 << 12;

/// What operations say lies between windows; of whole calls only.
pub(crate) fn skipped_in(ops: &[Op]) -> Counts {
    let mut sum = Counts::default();
    for (_, call) in operations(ops) {
        if let Some(Call::Skip { instructions, loads, stores }) = call {
            sum += Counts { loads, stores, calls: 0, instructions };
        }
    }
    sum
}

/// Which accesses of a program are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowSpec {
    /// Accesses of a window.
    pub window_accesses: u64,
    /// Accesses of a period, the window included.
    pub period_accesses: u64,
    /// Accesses at the program's start that are all recorded; 0 of recordings that begin with what lies
    /// before their first window.
    #[serde(default)]
    pub start_accesses: u64,
}

impl WindowSpec {
    /// The first period, and a window of so many accesses in each later one of so many. An error says why
    /// there is none, and what to write, for people.
    pub fn new(window_accesses: u64, period_accesses: u64) -> Result<WindowSpec, (String, String)> {
        let mend = || "write the accesses of a window and of a period, such as 1M/100M".to_owned();
        if window_accesses < LEAST_WINDOW {
            let reason =
                format!("a window, which comes first, has {LEAST_WINDOW} accesses at least");
            return Err((reason, mend()));
        }
        if window_accesses >= period_accesses {
            let reason = "the period, which comes second, is no longer than its window";
            let turned = window_accesses > period_accesses && period_accesses >= LEAST_WINDOW;
            let other = || format!("write the window first: {period_accesses}/{window_accesses}");
            return Err((reason.into(), if turned { other() } else { mend() }));
        }
        Ok(WindowSpec { window_accesses, period_accesses, start_accesses: period_accesses })
    }

    /// Whether there are such windows: not of a damaged recording, perhaps.
    pub fn is_one(self) -> bool {
        let whole_start = WindowSpec::new(self.window_accesses, self.period_accesses);
        whole_start.is_ok_and(|it| self == it || self == WindowSpec { start_accesses: 0, ..it })
    }

    /// How far into a window the access with this number, from 0, is; nothing outside of windows.
    fn place(self, access: u64) -> Option<u64> {
        let before = (self.period_accesses - self.window_accesses) / 2;
        let place = (access % self.period_accesses).checked_sub(before)?;
        (access >= self.start_accesses && place < self.window_accesses).then_some(place)
    }

    /// Of the first so many accesses of a program, how many are kept, and how many windows begin.
    pub fn share(self, accesses: u64) -> (u64, u64) {
        let start = accesses.min(self.start_accesses);
        let before = (self.period_accesses - self.window_accesses) / 2;
        // As if there were windows from the first period on.
        let until = |accesses: u64| {
            let (periods, place) =
                (accesses / self.period_accesses, accesses % self.period_accesses);
            let inside = place.saturating_sub(before).min(self.window_accesses);
            (periods * self.window_accesses + inside, periods + u64::from(place > before))
        };
        let ((kept, begun), (kept_at_start, begun_at_start)) = (until(accesses), until(start));
        (start + kept - kept_at_start, begun - begun_at_start)
    }

    /// Whether the access with this number is kept.
    fn holds(self, access: u64) -> bool {
        access < self.start_accesses || self.place(access).is_some()
    }
}

impl std::fmt::Display for WindowSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{} of each {} accesses", self.window_accesses, self.period_accesses)
    }
}

/// Keeps what is in windows.
pub struct Windows {
    spec: WindowSpec,
    threads: BTreeMap<ThreadId, Thread>,
    /// Accesses of all threads so far.
    passed: u64,
    begun: u64,
    skipped: Counts,
    /// Ranges of memory that were given up: what was used there is not told any more.
    gone: Vec<(u64, u64)>,
    /// Lines that are told of a thread at most; 0 for as many as there are by default.
    most_lines: usize,
}

/// What is known of a thread.
#[derive(Default)]
struct Thread {
    /// What it used since the last operation that was kept, and how many of the ranges that were given
    /// up are not in there any more.
    used: Recency,
    seen: usize,
    /// What it did since the last operation that was kept.
    waiting: Counts,
    /// The site at which it is, and the one that was told last; 0 where there is none.
    site: SiteId,
    told: SiteId,
}

impl Windows {
    /// Of a program about to start.
    pub fn new(spec: WindowSpec) -> Windows {
        let (passed, begun, most_lines) = (0, 0, 0);
        let (threads, skipped, gone) = (BTreeMap::new(), Counts::default(), Vec::new());
        Windows { spec, threads, passed, begun, skipped, gone, most_lines }
    }

    /// Lets what a thread used between two windows take a small part of so many bytes at most.
    pub fn bound(&mut self, most_bytes: u64) {
        const PART: u64 = 16;
        self.most_lines = (most_bytes / PART / MOST_USE_BYTES).max(1) as usize;
    }

    /// Bytes of a recording, before compression, that is told at most of what was used so far.
    pub fn most_used_bytes(&self) -> u64 {
        MOST_USE_BYTES * self.threads.values().map(|it| it.used.most_uses()).sum::<u64>()
    }

    /// Threads that it has seen.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Windows that have begun.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Loads, stores and instructions that lay between windows so far.
    pub fn skipped(&self) -> Counts {
        self.skipped
    }

    /// Appends what is kept of the next operations of a thread, whole calls only, to `kept`.
    pub fn apply(&mut self, thread: ThreadId, ops: &[Op], kept: &mut Vec<Op>) {
        self.forget_gone();
        let most = self.most_lines;
        let thread = self.threads.entry(thread).or_insert_with(|| Thread::new(most, &self.gone));
        let mut at = 0;
        while let Some(op) = ops.get(at) {
            let kind = op.kind();
            let end = match kind {
                Some(OpKind::Call) => (at + 1 + usize::from(op.size())).min(ops.len()),
                _ => at + 1,
            };
            let inside = self.spec.holds(self.passed);
            match kind {
                Some(OpKind::Load | OpKind::Store) => {
                    self.begun += u64::from(self.spec.place(self.passed) == Some(0));
                    self.passed += 1;
                    if inside {
                        thread.tell_used(&self.gone, kept);
                        thread.keep(&ops[at..end], kept);
                    } else {
                        thread.used.access(*op, kind == Some(OpKind::Store));
                        self.skipped += thread.skip(*op);
                    }
                }
                Some(OpKind::Site) => thread.site = op.word as SiteId,
                Some(OpKind::Compute | OpKind::Flush | OpKind::Fence) if inside => {
                    thread.keep(&ops[at..end], kept);
                }
                // A flush between windows is not told of: its line counts as used, and written if it was.
                Some(OpKind::Compute | OpKind::Flush | OpKind::Fence) => {
                    self.skipped += thread.skip(Op::compute(op.instructions()));
                }
                Some(OpKind::Call) => {
                    let call = Call::decode(*op, &ops[at + 1..end]);
                    if call.is_none_or(needs_what_was_used) {
                        thread.tell_used(&self.gone, kept);
                        self.gone.extend(call.and_then(gives_up));
                        thread.seen = self.gone.len();
                    }
                    if inside {
                        thread.keep(&ops[at..end], kept);
                        at = end;
                        continue;
                    }
                    // The call is one instruction; the others before it are skipped.
                    let before = op.instructions().saturating_sub(1);
                    self.skipped += thread.skip(Op::compute(before));
                    let meta = op.meta & u64::from(u32::MAX);
                    let meta = meta | u64::from(op.instructions() - before) << 32;
                    thread.keep(&[Op { word: op.word, meta }], kept);
                    kept.extend_from_slice(&ops[at + 1..end]);
                }
                _ => thread.keep(&ops[at..end], kept),
            }
            at = end;
        }
    }

    /// Lets all threads forget what is gone, where there is much of it.
    fn forget_gone(&mut self) {
        if self.gone.len() >= MOST_GONE {
            self.threads.values_mut().for_each(|thread| {
                thread.forget(&self.gone);
                thread.seen = 0;
            });
            self.gone.clear();
        }
    }

    /// What threads did since their last window and was not told of yet, as operations.
    pub fn rest(&mut self) -> Vec<(ThreadId, Vec<Op>)> {
        let mut rest = Vec::new();
        for (number, thread) in &mut self.threads {
            let mut ops = Vec::new();
            thread.tell_skipped(&mut ops);
            if !ops.is_empty() {
                rest.push((*number, ops));
            }
        }
        rest
    }
}

/// Whether a call does to memory what depends on whether it has been used before.
fn needs_what_was_used(call: Call) -> bool {
    let is_unneeded = |advice| advice == Advice::DontNeed as u64;
    let is_cold = |advice| [Advice::Cold, Advice::PageOut].iter().any(|it| advice == *it as u64);
    gives_up(call).is_some()
        || matches!(call, Call::AdviseFile { advice, .. } if is_unneeded(advice))
        || matches!(call, Call::Advise { advice, .. } if is_cold(advice))
        || matches!(
            call,
            Call::Sync { .. }
                | Call::SyncData { .. }
                | Call::SyncAll {}
                | Call::SyncRange { .. }
                | Call::SyncFileRange { .. }
                | Call::Truncate { .. }
                | Call::Allocate { .. }
                | Call::Fork { .. }
        )
}

/// Whether advice gives up what memory holds.
fn is_given_up(advice: u64) -> bool {
    [Advice::DontNeed, Advice::Free, Advice::Remove].iter().any(|it| advice == *it as u64)
}

/// The addresses whose memory a call gives up, from the first to that behind the last.
fn gives_up(call: Call) -> Option<(u64, u64)> {
    let (address, length) = match call {
        Call::Unmap { address, length } => (address, length),
        Call::Advise { address, length, advice } if is_given_up(advice) => (address, length),
        Call::Remap { old_address, old_length, .. } => (old_address, old_length),
        Call::Exec { process } | Call::Exit { process } => {
            (process << PROCESS_SHIFT, 1 << PROCESS_SHIFT)
        }
        _ => return None,
    };
    Some((address, address.saturating_add(length)))
}

impl Thread {
    /// One that begins, and whose uses are all after what is gone.
    fn new(most_lines: usize, gone: &[(u64, u64)]) -> Thread {
        let used = match most_lines {
            0 => Recency::default(),
            most => Recency::with_most(most),
        };
        Thread { used, seen: gone.len(), ..Thread::default() }
    }

    /// Tells what it used since the last operation that was kept, behind what it skipped.
    fn tell_used(&mut self, gone: &[(u64, u64)], kept: &mut Vec<Op>) {
        if self.used.most_uses() == 0 {
            return;
        }
        self.forget(gone);
        self.tell_skipped(kept);
        self.used.tell(kept);
    }

    /// Forgets what it used where memory is gone since it looked.
    fn forget(&mut self, gone: &[(u64, u64)]) {
        if let Some(new) = gone.get(self.seen..).filter(|new| !new.is_empty()) {
            self.used.forget(&Ranges::of(new.to_vec()));
            self.seen = gone.len();
        }
    }

    /// Passes over an operation that is no call; what it counts for.
    fn skip(&mut self, op: Op) -> Counts {
        let counts = Counts::of(&[op]);
        self.waiting += counts;
        counts
    }

    /// Keeps an operation, behind what was skipped, and the site that it comes from.
    fn keep(&mut self, ops: &[Op], kept: &mut Vec<Op>) {
        self.tell_skipped(kept);
        if self.site != self.told {
            self.told = self.site;
            kept.push(Op::site(self.site));
        }
        kept.extend_from_slice(ops);
    }

    fn tell_skipped(&mut self, kept: &mut Vec<Op>) {
        let Counts { instructions, loads, stores, .. } = std::mem::take(&mut self.waiting);
        if instructions + loads + stores > 0 {
            Call::Skip { instructions, loads, stores }.encode(0, kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Windows of a recording that begins before its first one.
    fn without_start(window_accesses: u64, period_accesses: u64) -> WindowSpec {
        WindowSpec { window_accesses, period_accesses, start_accesses: 0 }
    }

    fn skip(instructions: u64, loads: u64, stores: u64) -> Vec<Op> {
        let mut ops = Vec::new();
        Call::Skip { instructions, loads, stores }.encode(0, &mut ops);
        ops
    }

    /// A thread's operations: what is skipped is counted, and nothing is lost.
    fn counts_of_all(ops: &[Op]) -> (u64, u64, u64) {
        let (mut sum, mut at) = ((0, 0, 0), 0);
        while let Some(op) = ops.get(at) {
            let is_call = op.kind() == Some(OpKind::Call);
            if is_call
                && let Some(Call::Skip { instructions, loads, stores }) =
                    Call::decode(*op, &ops[at + 1..])
            {
                sum = (sum.0 + instructions, sum.1 + loads, sum.2 + stores);
            }
            sum.0 += u64::from(op.instructions());
            sum.1 += u64::from(op.kind() == Some(OpKind::Load));
            sum.2 += u64::from(op.kind() == Some(OpKind::Store));
            at += 1 + if is_call { usize::from(op.size()) } else { 0 };
        }
        sum
    }

    #[test]
    fn the_middle_of_each_period_is_kept_and_calls_wherever_they_are() {
        let mut windows = Windows::new(without_start(1000, 4000));
        let mut call = Vec::new();
        Call::Close { file: 3 }.encode(7, &mut call);
        let mut short = Vec::new();
        Call::Close { file: 3 }.encode(1, &mut short);
        let loads: Vec<Op> = (0..4000).map(|n| Op::load(n * 8, 8, 2)).collect();
        let (mut kept, mut expected) = (Vec::new(), Vec::new());
        windows.apply(0, &[Op::site(5)], &mut kept);
        windows.apply(0, &loads[..500], &mut kept);
        windows.apply(0, &call, &mut kept);
        windows.apply(0, &loads[500..2000], &mut kept);
        windows.apply(0, &call, &mut kept);
        windows.apply(0, &loads[2000..], &mut kept);
        expected.extend(skip(1006, 500, 0));
        expected.push(Op::site(5));
        expected.extend(&short);
        expected.extend(skip(2000, 1000, 0));
        expected.extend((0..188).map(|line| Op::used(line * 64, false)));
        expected.extend(&loads[1500..2000]);
        expected.extend(&call);
        expected.extend(&loads[2000..2500]);
        assert_eq!(kept, expected);
        assert_eq!(windows.rest(), [(0, skip(3000, 1500, 0))]);
        assert_eq!(windows.rest(), [], "once");
        assert_eq!(windows.begun(), 1);
        let Counts { instructions, loads, stores, .. } = windows.skipped();
        assert_eq!((instructions, loads, stores), (6006, 3000, 0));
    }

    #[test]
    fn what_was_used_is_told_before_its_memory_goes_and_others_forget_it() {
        let mut windows = Windows::new(without_start(1000, 100_000));
        let (mut one, mut other) = (Vec::new(), Vec::new());
        let mut unmap = Vec::new();
        Call::Unmap { address: 4096, length: 8192 }.encode(1, &mut unmap);
        let mut sync = Vec::new();
        Call::Sync { file: 3 }.encode(1, &mut sync);
        let uses = [Op::store(64, 8, 1), Op::load(4100, 8, 1), Op::load(12_286, 4, 1)];
        let told = [0x40, 0x1000, 0x2fc0, 0x3000].map(|line| Op::used(line, line == 0x40));
        windows.apply(1, &uses, &mut other);
        windows.apply(0, &uses, &mut one);
        windows.apply(0, &unmap, &mut one);
        assert_eq!(one, [&skip(3, 2, 1)[..], &sorted(&told), &unmap].concat());
        windows.apply(1, &sync, &mut other);
        assert_eq!(other, [&skip(3, 2, 1)[..], &[told[0], told[3]], &sync].concat());
        // What is used later, is there again.
        other.clear();
        windows.apply(1, &[uses[1]], &mut other);
        windows.apply(1, &sync, &mut other);
        assert_eq!(other, [&skip(1, 1, 0)[..], &[told[1]], &sync].concat());
        assert_eq!(windows.most_used_bytes(), 0);
    }

    /// In the order of their places in the cache in front: none of them has left it.
    fn sorted(told: &[Op]) -> Vec<Op> {
        let mut told = told.to_vec();
        told.sort_by_key(|op| op.word / 64 % 512);
        told
    }

    #[test]
    fn a_window_has_a_size_and_a_period_around_it() {
        for (window, period) in [(0, 10), (999, 10_000), (1000, 1000), (2000, 1000)] {
            assert!(WindowSpec::new(window, period).is_err(), "{window}/{period}");
            assert!(!without_start(window, period).is_one());
        }
        let spec = WindowSpec::new(1000, 1001).unwrap();
        assert!(spec.is_one() && without_start(1000, 1001).is_one());
        assert!(!WindowSpec { start_accesses: 1000, ..spec }.is_one());
    }

    #[test]
    fn windows_that_are_none_are_refused_with_what_to_write() {
        let told = |window, period| WindowSpec::new(window, period).unwrap_err();
        let (reason, mend) = told(400_000, 20_000);
        assert_eq!(reason, "the period, which comes second, is no longer than its window");
        assert_eq!(mend, "write the window first: 20000/400000");
        for (window, period) in [(1000, 1000), (20_000, 999), (100, 1_000_000)] {
            assert!(told(window, period).1.ends_with("such as 1M/100M"), "{window}/{period}");
        }
    }

    #[test]
    fn the_share_of_a_program_is_what_is_kept_of_it() {
        for spec in [WindowSpec::new(1000, 2501).unwrap(), without_start(1001, 2500)] {
            let (mut kept, mut begun) = (0, 0);
            for access in 0..9000 {
                assert_eq!(spec.share(access), (kept, begun), "{spec} {access}");
                kept += u64::from(spec.holds(access));
                begun += u64::from(spec.place(access) == Some(0));
            }
        }
    }

    #[test]
    fn the_first_period_is_kept_whole_and_no_window() {
        let mut windows = Windows::new(WindowSpec::new(1000, 4000).unwrap());
        let loads: Vec<Op> = (0..12_000).map(|n| Op::load(n * 64, 8, 2)).collect();
        let mut kept = Vec::new();
        windows.apply(0, &loads, &mut kept);
        assert_eq!(kept[..4000], loads[..4000]);
        let told = skip(3000, 1500, 0);
        assert_eq!(kept[4000..4000 + told.len()], told);
        let accesses = kept.iter().filter(|op| op.kind() == Some(OpKind::Load)).count();
        assert_eq!((accesses, windows.begun()), (6000, 2));
        assert_eq!(windows.skipped().loads, 6000);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_each_thread_is_told_of_what_it_skipped(
            steps in proptest::collection::vec((0u32..3, 0u8..5, 0u32..9, 1usize..900), 1..60)
        ) {
            let mut windows = Windows::new(without_start(1000, 2500));
            let mut given: BTreeMap<ThreadId, Vec<Op>> = BTreeMap::new();
            let mut kept: BTreeMap<ThreadId, Vec<Op>> = BTreeMap::new();
            for (thread, what, instructions, times) in steps {
                let mut ops = Vec::new();
                for n in 0..times {
                    match what {
                        0 | 1 => ops.push(Op::load(n as u64 * 64, 8, instructions)),
                        2 => ops.push(Op::store(n as u64 * 64, 4, instructions)),
                        3 => ops.push(Op::compute(instructions)),
                        _ => Call::Signal { sequence: n as u64 }.encode(instructions, &mut ops),
                    }
                }
                given.entry(thread).or_default().extend(&ops);
                windows.apply(thread, &ops, kept.entry(thread).or_default());
            }
            for (thread, ops) in windows.rest() {
                kept.entry(thread).or_default().extend(ops);
            }
            let accesses = |ops: &Vec<Op>| { let c = counts_of_all(ops); c.1 + c.2 };
            let all: u64 = given.values().map(accesses).sum();
            let inside = (0..all).filter(|n| (750..1750).contains(&(n % 2500))).count() as u64;
            let skipped = windows.skipped();
            prop_assert_eq!(all - skipped.loads - skipped.stores, inside);
            prop_assert_eq!(windows.begun(), (all + 2500 - 751) / 2500);
            prop_assert_eq!(without_start(1000, 2500).share(all), (inside, windows.begun()));
            for (thread, ops) in &given {
                prop_assert_eq!(counts_of_all(ops), counts_of_all(&kept[thread]));
                let calls = |ops: &[Op]| {
                    Counts::of(ops).calls
                };
                prop_assert!(calls(&kept[thread]) >= calls(ops));
            }
        }
    }
}
