//! Stages: where a request spends its time. They add up to its latency, exactly.

/// One place where a request spends time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Stage {
    /// Waiting in the core: for a miss register, for an older access, for its own turn.
    Core,
    /// On-chip caches.
    Cache,
    /// TLB look-ups, and page walks as far as on-chip caches serve them: what a walk spends in
    /// main memory or waiting for the store is charged there.
    Tlb,
    /// Exception entry, look-up of the mapping, first touch, and return.
    Fault,
    /// Entry to and return from system calls.
    SystemCall,
    /// Page cache and swap cache, copies included.
    PageCache,
    /// File system.
    FileSystem,
    /// Block layer.
    BlockLayer,
    /// Device driver.
    Driver,
    /// Waiting in the host for a place at the device.
    HostQueue,
    /// Context switches.
    ContextSwitch,
    /// Interrupt handling.
    Interrupt,
    /// Making a thread ready again.
    WakeUp,
    /// Ready, but no hardware thread is free.
    Ready,
    /// A hardware controller's own time: tags, buffers.
    Controller,
    /// Waiting for a hardware controller: full queues and buffers, a page already in flight.
    ControllerQueue,
    /// Waiting at DRAM: channel queue, refresh, banks of other requests.
    DramQueue,
    /// DRAM: commands and data.
    Dram,
    /// Links between host and device.
    Link,
    /// Waiting at the device: for a unit, for its bus.
    StoreQueue,
    /// The device's controller and inner buses.
    Device,
    /// The store's medium.
    Medium,
    /// Moving data between link and DRAM.
    Dma,
    /// Extended buffer cache: look-ups, and pages read from and programmed into its flash.
    BufferCache,
    /// The kernel's search for hot pages, and its moving of pages between memories.
    Migration,
    /// Waiting for the lock of a file that another call has.
    FileLock,
}

impl Stage {
    /// All stages, in order from the core to the medium; then what few machines have. New ones are added
    /// at the end: the kernel's data of each lie where its number says.
    pub const ALL: [Stage; 26] = [
        Stage::Core,
        Stage::Cache,
        Stage::Tlb,
        Stage::Fault,
        Stage::SystemCall,
        Stage::PageCache,
        Stage::FileSystem,
        Stage::BlockLayer,
        Stage::Driver,
        Stage::HostQueue,
        Stage::ContextSwitch,
        Stage::Interrupt,
        Stage::WakeUp,
        Stage::Ready,
        Stage::Controller,
        Stage::ControllerQueue,
        Stage::DramQueue,
        Stage::Dram,
        Stage::Link,
        Stage::StoreQueue,
        Stage::Device,
        Stage::Medium,
        Stage::Dma,
        Stage::BufferCache,
        Stage::Migration,
        Stage::FileLock,
    ];

    /// The name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Core => "core",
            Stage::Cache => "cache",
            Stage::Tlb => "tlb",
            Stage::Fault => "fault",
            Stage::SystemCall => "system_call",
            Stage::PageCache => "page_cache",
            Stage::FileSystem => "file_system",
            Stage::BlockLayer => "block_layer",
            Stage::Driver => "driver",
            Stage::HostQueue => "host_queue",
            Stage::ContextSwitch => "context_switch",
            Stage::Interrupt => "interrupt",
            Stage::WakeUp => "wake_up",
            Stage::Ready => "ready",
            Stage::Controller => "controller",
            Stage::ControllerQueue => "controller_queue",
            Stage::DramQueue => "dram_queue",
            Stage::Dram => "dram",
            Stage::Link => "link",
            Stage::StoreQueue => "store_queue",
            Stage::Device => "device",
            Stage::Medium => "medium",
            Stage::Dma => "dma",
            Stage::BufferCache => "buffer_cache",
            Stage::Migration => "migration",
            Stage::FileLock => "file_lock",
        }
    }
}

/// Picoseconds by stage, in the order of [`Stage::ALL`].
pub type StageTimes = [u64; Stage::ALL.len()];

const SEGMENTS: usize = 15;
/// Bits of a segment that hold its duration; the others hold its stage.
const DURATION_BITS: u32 = 59;
const DURATION: u64 = (1 << DURATION_BITS) - 1;
const _: () = assert!(Stage::ALL.len() <= 1 << (u64::BITS - DURATION_BITS));

/// Simulated time that a run may take, in picoseconds: 6.7 days, a 32nd of what 64 bits can hold.
/// A request's time in one stage, which lies within the run's, fits a [`Timeline`] then, and nothing
/// under way can overflow. Whoever drives parts stops before an event that lies beyond.
pub const MOST_TIME_PS: u64 = DURATION;

/// The stages of one request, in the order in which it passed them.
///
/// A segment packs the stage (5 bits) and its duration (59 bits: [`MOST_TIME_PS`]).
/// Neighbours of the same stage merge; when all segments are taken, further time is added to the
/// last segment of the same stage, or two segments of another stage become one, so that the sum of each
/// stage stays exact, and their order that of time as far as there is room. (Of 16 stages and more, which
/// no request passes, the last would take the time of the others.)
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Timeline {
    length: u8,
    segments: [u64; SEGMENTS],
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline::new()
    }
}

impl Timeline {
    /// No time yet.
    #[inline]
    pub const fn new() -> Self {
        Timeline { length: 0, segments: [0; SEGMENTS] }
    }

    /// The stages of a request that passed these, no two of them the same, in this order.
    #[inline]
    pub fn of<const N: usize>(stages: [(Stage, u64); N]) -> Self {
        const { assert!(N <= SEGMENTS) };
        let mut timeline = Timeline::new();
        for (stage, duration_ps) in stages {
            debug_assert!(duration_ps <= MOST_TIME_PS, "{duration_ps} ps in {stage:?}");
            // Without a branch: a stage of no time is overwritten, and leaves nothing.
            let segment = (stage as u64) << DURATION_BITS | duration_ps;
            let passed = duration_ps > 0;
            timeline.segments[usize::from(timeline.length)] = if passed { segment } else { 0 };
            timeline.length += u8::from(passed);
        }
        timeline
    }

    /// Adds `duration_ps` in `stage` at the end.
    #[inline]
    pub fn push(&mut self, stage: Stage, duration_ps: u64) {
        debug_assert!(duration_ps <= MOST_TIME_PS, "{duration_ps} ps in {stage:?}");
        let length = usize::from(self.length);
        if length > 0 && (self.segments[length - 1] >> DURATION_BITS) as u8 == stage as u8 {
            self.segments[length - 1] += duration_ps;
        } else if length < SEGMENTS {
            // As in [`Timeline::of`]: whether a stage takes time is different each time.
            let segment = (stage as u64) << DURATION_BITS | duration_ps;
            let passed = duration_ps > 0;
            self.segments[length] = if passed { segment } else { 0 };
            self.length += u8::from(passed);
        } else if duration_ps > 0 {
            self.push_full(stage, duration_ps);
        }
    }

    /// Adds time where all segments are taken: to the last of its stage; where none is of it, two of one
    /// other stage become one, so that no time comes to stand for another stage's.
    #[cold]
    fn push_full(&mut self, stage: Stage, duration_ps: u64) {
        let of = |segment: u64| (segment >> DURATION_BITS) as u8;
        if let Some(same) = self.segments.iter().rposition(|one| of(*one) == stage as u8) {
            self.segments[same] += duration_ps;
            return;
        }
        let twice = (0..SEGMENTS).find_map(|first| {
            let rest = &self.segments[first + 1..];
            let again = rest.iter().position(|one| of(*one) == of(self.segments[first]))?;
            Some((first, first + 1 + again))
        });
        let Some((first, again)) = twice else {
            self.segments[SEGMENTS - 1] += duration_ps;
            return;
        };
        self.segments[again] += self.segments[first] & DURATION;
        let rest: Vec<u64> = self.segments[first + 1..].to_vec();
        self.length = first as u8;
        for segment in rest {
            self.push(Stage::ALL[usize::from(of(segment))], segment & DURATION);
        }
        self.push(stage, duration_ps);
    }

    /// Adds all segments of `other` at the end.
    #[inline]
    pub fn append(&mut self, other: &Timeline) {
        let (own, more) = (usize::from(self.length), usize::from(other.length));
        // Where there has been room, neighbours are of different stages: at most the first becomes one with the last.
        if own > 0 && own + more <= SEGMENTS && more < SEGMENTS {
            let (last, first) = (self.segments[own - 1], other.segments[0]);
            let same = last >> DURATION_BITS == first >> DURATION_BITS && more > 0;
            self.segments[own - 1] += if same { first & DURATION } else { 0 };
            let rest = &other.segments[usize::from(same)..more];
            self.segments[own..][..rest.len()].copy_from_slice(rest);
            self.length += rest.len() as u8;
            return;
        }
        for (stage, duration_ps) in other.iter() {
            self.push(stage, duration_ps);
        }
    }

    /// Adds the last `duration_ps` of `other` at the end, in order, exactly; what it is too short for comes
    /// first, as `before`.
    #[inline]
    pub fn append_tail(&mut self, other: &Timeline, before: Stage, duration_ps: u64) {
        if usize::from(self.length) + usize::from(other.length) < SEGMENTS {
            self.push_tail(other, before, duration_ps);
        } else {
            // Where there may be too little room, what becomes one is of the tail first.
            let mut part = Timeline::new();
            part.push_tail(other, before, duration_ps);
            self.append(&part);
        }
    }

    #[inline]
    fn push_tail(&mut self, other: &Timeline, before: Stage, duration_ps: u64) {
        let total_ps = other.total_ps();
        let mut skip_ps = total_ps.saturating_sub(duration_ps);
        self.push(before, duration_ps.saturating_sub(total_ps));
        for (stage, segment_ps) in other.iter() {
            let skipped_ps = segment_ps.min(skip_ps);
            skip_ps -= skipped_ps;
            self.push(stage, segment_ps - skipped_ps);
        }
    }

    /// Stage and duration of each segment, in order.
    #[inline]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Stage, u64)> + '_ {
        self.segments[..usize::from(self.length)]
            .iter()
            .map(|s| (Stage::ALL[(s >> DURATION_BITS) as usize], s & DURATION))
    }

    /// Sum of all segments.
    #[inline]
    pub fn total_ps(&self) -> u64 {
        self.iter().map(|(_, duration_ps)| duration_ps).sum()
    }

    /// Adds each segment to its stage in `times`.
    #[inline]
    pub fn add_to(&self, times: &mut StageTimes) {
        for (stage, duration_ps) in self.iter() {
            times[stage as usize] += duration_ps;
        }
    }

    /// Charges the last `duration_ps` of this request to its stages in `times`: what a thread that
    /// waited for the request only at its end has lost to each. What the request is too short for
    /// goes to [`Stage::Core`].
    #[inline]
    pub fn charge_tail(&self, duration_ps: u64, times: &mut StageTimes) {
        let mut left_ps = duration_ps;
        for (stage, segment_ps) in self.iter().rev() {
            let part_ps = segment_ps.min(left_ps);
            times[stage as usize] += part_ps;
            left_ps -= part_ps;
            if left_ps == 0 {
                return;
            }
        }
        times[Stage::Core as usize] += left_ps;
    }
}

impl std::fmt::Debug for Timeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter().map(|(stage, ps)| (stage.name(), ps))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_keep_their_order_and_sum() {
        let mut t = Timeline::new();
        t.push(Stage::Cache, 10);
        t.push(Stage::Dram, 20);
        t.push(Stage::Dram, 5);
        t.push(Stage::Cache, 1);
        let all: Vec<_> = t.iter().collect();
        assert_eq!(all, [(Stage::Cache, 10), (Stage::Dram, 25), (Stage::Cache, 1)]);
        assert_eq!(t.total_ps(), 36);
    }

    #[test]
    fn stages_at_once_are_those_pushed_one_after_the_other() {
        for times in [[0, 0, 0], [0, 0, 7], [0, 5, 0], [0, 5, 7], [3, 0, 0], [3, 0, 7], [3, 5, 7]] {
            let all = [Stage::Controller, Stage::DramQueue, Stage::Dram];
            let mut pushed = Timeline::new();
            for (stage, time_ps) in all.into_iter().zip(times) {
                pushed.push(stage, time_ps);
            }
            let at_once = [0, 1, 2].map(|place| (all[place], times[place]));
            assert!(Timeline::of(at_once) == pushed, "{times:?}");
        }
    }

    #[test]
    fn the_sum_stays_exact_when_segments_run_out() {
        let mut t = Timeline::new();
        for i in 0..100u64 {
            t.push(Stage::ALL[(i % 23) as usize], i + 1);
        }
        assert_eq!(t.total_ps(), 5050);
    }

    #[test]
    fn each_stages_sum_stays_exact_whatever_comes_after_what() {
        let (mut t, mut sums) = (Timeline::new(), StageTimes::default());
        for i in 0..10_000u64 {
            // Fifteen stages, in an order that repeats late.
            let stage = Stage::ALL[(i * i % 97 % 15) as usize + 3];
            t.push(stage, i + 1);
            sums[stage as usize] += i + 1;
            let mut found = StageTimes::default();
            t.iter().for_each(|(stage, time_ps)| found[stage as usize] += time_ps);
            assert_eq!(found, sums);
        }
    }

    #[test]
    fn each_stage_holds_the_longest_time_of_a_run_exactly() {
        for stage in Stage::ALL {
            let mut t = Timeline::new();
            t.push(stage, MOST_TIME_PS - 1);
            t.push(stage, 1);
            t.push(Stage::Core, 0);
            assert_eq!(t.iter().collect::<Vec<_>>(), [(stage, MOST_TIME_PS)]);
        }
    }

    #[test]
    fn a_tail_is_exact_whatever_its_length() {
        let mut whole = Timeline::new();
        whole.push(Stage::Cache, 10);
        whole.push(Stage::Dram, 20);
        let tail = |duration_ps| {
            let mut part = Timeline::new();
            part.append_tail(&whole, Stage::HostQueue, duration_ps);
            part
        };
        for duration_ps in 0..50 {
            assert_eq!(tail(duration_ps).total_ps(), duration_ps);
        }
        let part: Vec<_> = tail(25).iter().collect();
        assert_eq!(part, [(Stage::Cache, 5), (Stage::Dram, 20)]);
        let part: Vec<_> = tail(33).iter().collect();
        assert_eq!(part, [(Stage::HostQueue, 3), (Stage::Cache, 10), (Stage::Dram, 20)]);
    }

    #[test]
    fn a_tail_is_appended_as_a_timeline_of_its_own_however_little_room_there_is() {
        let of = |from: usize, count: usize| {
            let mut t = Timeline::new();
            (0..count).for_each(|i| t.push(Stage::ALL[(from + i * 3) % 11], 7 + i as u64));
            t
        };
        for own in 0..20 {
            for other in 0..20 {
                for duration_ps in [0, 5, 40, 111, 1000] {
                    let (mut at_once, whole) = (of(0, own), of(own, other));
                    let mut appended = at_once;
                    let mut part = Timeline::new();
                    part.append_tail(&whole, Stage::Core, duration_ps);
                    appended.append(&part);
                    at_once.append_tail(&whole, Stage::Core, duration_ps);
                    assert!(at_once == appended, "{own} and {other}, {duration_ps} ps");
                }
            }
        }
    }

    #[test]
    fn the_tail_is_charged_from_the_end() {
        let mut t = Timeline::new();
        t.push(Stage::Cache, 10);
        t.push(Stage::Dram, 20);
        let mut times = StageTimes::default();
        t.charge_tail(25, &mut times);
        assert_eq!((times[Stage::Cache as usize], times[Stage::Dram as usize]), (5, 20));
        t.charge_tail(40, &mut times);
        assert_eq!(times[Stage::Core as usize], 10);
    }
}
