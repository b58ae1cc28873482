//! How long a writer pauses where too much is dirty: until 3.1 it waited for what was being written, since then for as long
//! as the pages that it has made dirty take the device, the longer the nearer dirty pages are to what may be
//! (`balance_dirty_pages`, mm/page-writeback.c, here as of Linux 6.18 with one device).

use super::*;

/// Ticks of the kernel's clock, in which it pauses, counts and estimates (`HZ`, kernel/Kconfig.hz: the default).
const HZ: u64 = 250;
const TICK_PS: u64 = 1_000_000_000_000 / HZ;
/// Time between two estimates, and the longest pause (`BANDWIDTH_INTERVAL`, `MAX_PAUSE`).
const INTERVAL: u64 = HZ / 5;
const MOST_PAUSE: u64 = HZ / 5;
/// After so long without estimates what lies between is no sign (`WB_BANDWIDTH_IDLE_JIF`).
const IDLE: u64 = HZ;
/// Time over which bandwidth is averaged (`wb_update_write_bandwidth`).
const PERIOD: u64 = (3 * HZ).next_power_of_two();
/// What a device is held for at first, each second (`INIT_BW`).
const FIRST_BYTES: u64 = 100 << 20;
/// A writer looks after so many bytes at first, and pauses for as many where it can (`DIRTY_POLL_THRESH`); where more is
/// dirty than may be, after so many (`balance_dirty_pages_ratelimited_flags`).
const LOOK_BYTES: u64 = 128 << 10;
const SOON_BYTES: u64 = 32 << 10;
/// Ratios are parts of 1,024 (`RATELIMIT_CALC_SHIFT`).
const ONE: i128 = 1 << 10;

/// A thread that makes pages dirty (`struct task_struct`).
#[derive(Clone, Copy, Debug)]
struct Writer {
    /// Pages that it has made dirty since it paused last or need not have, and after how many it looks again.
    dirtied: u64,
    looks_after: u64,
    /// Pages since it looked: the kernel counts them by processor (`bdp_ratelimits`).
    counted: u64,
    /// The end of its last pause, in ticks (`dirty_paused_when`).
    paused: Option<u64>,
    /// It has paused because nothing may become dirty.
    held: bool,
}

/// How quickly a device writes, and how quickly pages may become dirty (`struct bdi_writeback`), in pages a second.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    page_bytes: u64,
    /// Hardware threads.
    processors: u64,
    bandwidth: u64,
    average: u64,
    rate: u64,
    balanced: u64,
    /// Pages that have become dirty, and that have been written; the same when it was estimated last, and that tick.
    dirtied: u64,
    written: u64,
    dirtied_then: u64,
    written_then: u64,
    then: u64,
    /// What may be dirty, which falls slowly, and when that was looked at.
    limit: u64,
    limited: u64,
    /// More was dirty than may be when somebody looked.
    exceeded: bool,
    writers: BTreeMap<u32, Writer>,
}

/// How much is dirty, on its way to the device included, and how much may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    /// Pages.
    pub dirty: u64,
    /// Up to here nobody pauses.
    pub free_run: u64,
    /// What may be.
    pub most: u64,
}

/// The tick at a time.
fn tick(now_ps: u64) -> u64 {
    now_ps / TICK_PS
}

impl Pace {
    pub fn new(page_bytes: u64) -> Self {
        let first = FIRST_BYTES / page_bytes;
        Pace {
            page_bytes,
            processors: 1,
            bandwidth: first,
            average: first,
            rate: first,
            balanced: first,
            dirtied: 0,
            written: 0,
            dirtied_then: 0,
            written_then: 0,
            then: 0,
            limit: 0,
            limited: 0,
            exceeded: false,
            writers: BTreeMap::new(),
        }
    }

    /// It is a machine of so many hardware threads.
    pub fn set_processors(&mut self, processors: u64) {
        self.processors = processors.max(1);
    }

    fn look_pages(&self) -> u64 {
        (LOOK_BYTES / self.page_bytes).max(1)
    }

    fn writer(&mut self, thread: u32) -> &mut Writer {
        let looks_after = self.look_pages();
        let new = Writer { dirtied: 0, looks_after, counted: 0, paused: None, held: false };
        self.writers.entry(thread).or_insert(new)
    }

    /// A thread has made a page dirty.
    pub fn dirtied(&mut self, thread: u32) {
        self.dirtied += 1;
        let writer = self.writer(thread);
        (writer.dirtied, writer.counted) = (writer.dirtied + 1, writer.counted + 1);
    }

    /// Pages begin to be written while as many are under way.
    pub fn begin(&mut self, under_way: u64, now_ps: u64) {
        let now = tick(now_ps);
        if under_way == 0 && now.saturating_sub(self.then) > IDLE {
            (self.dirtied_then, self.written_then, self.then) = (self.dirtied, self.written, now);
        }
    }

    /// Pages have been written.
    pub fn written(&mut self, pages: u64, now_ps: u64) {
        self.written += pages;
        if tick(now_ps) > self.then + INTERVAL {
            self.estimate(tick(now_ps), None);
        }
    }

    /// Time passes in which nobody can pause and what is written takes none: it is no sign of how quick the device is.
    pub fn pass(&mut self, now_ps: u64) {
        (self.dirtied_then, self.written_then, self.then) =
            (self.dirtied, self.written, tick(now_ps));
    }

    /// Pages that counts of processors may be off by, for so few of which nobody is held (`wb_stat_error`).
    fn error(&self) -> u64 {
        self.processors * 8 * u64::from(1 + self.processors.ilog2())
    }

    /// What may be dirty, as it is felt (`hard_dirty_limit`).
    fn limit(&self, at: Position) -> u64 {
        at.most.max(self.limit)
    }

    /// How quickly pages may become dirty, in parts of what would keep them as many: none at the limit, all in the midst
    /// between it and where nobody pauses, up to twice as much below; a little less the longer the device takes for what
    /// is above (`wb_position_ratio`, `pos_ratio_polynom`).
    fn ratio(&self, at: Position) -> u64 {
        let limit = self.limit(at);
        if at.dirty >= limit {
            return 0;
        }
        let middle = u64::midpoint(at.free_run, limit);
        let off =
            (i128::from(middle) - i128::from(at.dirty)) * ONE / i128::from((limit - middle) | 1);
        let cubed = (off * off / ONE * off).div_euclid(ONE);
        let ratio = (ONE + cubed).clamp(0, 2 * ONE) as u64;
        let span = 8 * self.average;
        if at.dirty < middle + span - span / 4 {
            ratio * (middle + span - at.dirty) / (span | 1)
        } else {
            ratio / 4
        }
    }

    /// Estimates anew, where it is told how much is dirty, and the ratio there, also how quickly more may become
    /// (`__wb_update_bandwidth`).
    fn estimate(&mut self, now: u64, at: Option<(Position, u64)>) {
        let elapsed = now.saturating_sub(self.then).max(1);
        if let Some((at, ratio)) = at {
            self.lower_limit(now, at);
            self.balance(elapsed, at, ratio);
        }
        let written = (self.written - self.written_then) * HZ;
        (self.bandwidth, self.average) = if elapsed > PERIOD {
            (written / elapsed, written / elapsed)
        } else {
            let (old, average) = (self.bandwidth, self.average);
            let new = (written + old * (PERIOD - elapsed)) / PERIOD;
            // Smoothed once more: it follows what has a direction.
            let average = match average {
                _ if average > old && old >= new => average - (average - old) / 8,
                _ if average < old && old <= new => average + (old - average) / 8,
                _ => average,
            };
            (new, average)
        };
        self.average = self.average.max(1);
        (self.dirtied_then, self.written_then, self.then) = (self.dirtied, self.written, now);
    }

    /// What may be dirty follows what is described at once upwards, and slowly downwards (`update_dirty_limit`).
    fn lower_limit(&mut self, now: u64, at: Position) {
        if now < self.limited + INTERVAL {
            return;
        }
        self.limited = now;
        let least = at.most.max(at.dirty);
        if self.limit < at.most {
            self.limit = at.most;
        } else if self.limit > least {
            self.limit -= (self.limit - least) / 32;
        }
    }

    /// The rate follows that at which as many pages become dirty as are written, by small steps, and not away from the
    /// middle (`wb_update_dirty_ratelimit`).
    fn balance(&mut self, elapsed: u64, at: Position, ratio: u64) {
        let middle = u64::midpoint(at.free_run, self.limit(at));
        let dirtied = (self.dirtied - self.dirtied_then) * HZ / elapsed;
        let of_task = self.rate * ratio / ONE as u64 + 1;
        let balanced = (of_task * self.average / (dirtied | 1)).min(self.average);
        let three = [self.balanced, balanced, of_task];
        let step = if at.dirty < middle {
            three.iter().min().map_or(0, |least| least.saturating_sub(self.rate))
        } else {
            three.iter().max().map_or(0, |most| self.rate.saturating_sub(*most))
        };
        let shift = self.rate / (2 * step + 1);
        let step = if shift < u64::from(u64::BITS) { (step >> shift).div_ceil(8) } else { 0 };
        self.rate =
            if self.rate < balanced { self.rate + step } else { self.rate.saturating_sub(step) };
        (self.rate, self.balanced) = (self.rate.max(1), balanced);
    }

    /// The longest pause (`wb_max_pause`).
    fn most_pause(&self, at: Position) -> u64 {
        let of_it = self.average / (1 + HZ / 8).next_power_of_two();
        (at.dirty / (1 + of_it) + 1).min(MOST_PAUSE)
    }

    /// The shortest pause that is worth it, and after how many pages a writer is to look again (`wb_min_pause`).
    fn least_pause(&self, most: u64, of_task: u64) -> (u64, u64) {
        let second = HZ.next_power_of_two();
        let slower = self.average.ilog2().saturating_sub(self.rate.ilog2());
        let mut ticks = (HZ / 100).max(1) + u64::from(slower) * (10 * HZ) / 1024;
        ticks = ticks.min(1 + most / 2);
        let mut pages = self.rate * ticks / second;
        let few = self.look_pages();
        if pages < few {
            ticks = most;
            pages = self.rate * ticks / second;
            if pages > few {
                (pages, ticks) = (few, HZ * few / self.rate);
            }
        }
        if HZ * pages / (of_task + 1) > most {
            (ticks, pages) = (most, of_task * most / second);
        }
        (if pages >= few { 1 + ticks / 2 } else { ticks }, pages)
    }

    /// A thread is about to make one more page dirty. Until when it pauses before, if it does.
    pub fn pause(&mut self, thread: u32, at: Position, now_ps: u64) -> Option<u64> {
        let now = tick(now_ps);
        let soon = (SOON_BYTES / self.page_bytes).max(1);
        let exceeded = self.exceeded;
        // So many that all processors together are no more than a 32nd behind (`writeback_set_ratelimit`).
        let most_counted = (at.most / (32 * self.processors)).max(16);
        let writer = self.writer(thread);
        let looks_after = if exceeded { writer.looks_after.min(soon) } else { writer.looks_after };
        if writer.dirtied < looks_after && writer.counted < most_counted {
            return None;
        }
        writer.counted = 0;
        if at.dirty <= at.free_run {
            // The more room there is, the later it looks again (`dirty_poll_interval`).
            let room = at.most.saturating_sub(at.dirty).max(1);
            (writer.dirtied, writer.looks_after) = (0, 1 << (room.ilog2() / 2));
            writer.paused = Some(now);
            self.exceeded = false;
            return None;
        }
        let Writer { dirtied, paused, .. } = *writer;
        self.exceeded = at.dirty > at.most;
        let ratio = self.ratio(at);
        if now > self.then + INTERVAL {
            self.estimate(now, Some((at, ratio)));
        }
        let of_task = self.rate * ratio / ONE as u64;
        let most = self.most_pause(at);
        let (least, pages) = self.least_pause(most, of_task);
        let few = at.dirty <= self.error();
        let writer = self.writer(thread);
        if of_task == 0 && std::mem::take(&mut writer.held) && few {
            return None;
        }
        if of_task == 0 {
            // It looks again behind that, and goes on only when less is dirty, or little is.
            let paused = Some(now + most);
            *writer = Writer { dirtied: 0, looks_after: pages, paused, held: true, ..*writer };
            return Some((now + most + 1) * TICK_PS);
        }
        writer.held = false;
        let period = HZ * dirtied / of_task;
        let since = paused.map_or(0, |paused| now as i64 - paused as i64);
        let pause = period as i64 - since;
        if pause < least as i64 {
            if pause < -(HZ as i64) {
                (writer.paused, writer.dirtied) = (Some(now), 0);
            } else if period > 0 {
                (writer.paused, writer.dirtied) = (Some(paused.map_or(now, |at| at + period)), 0);
            } else if writer.looks_after <= dirtied {
                writer.looks_after += dirtied;
            }
            return None;
        }
        // What is longer counts as waited for, as far as that is no longer than the longest pause.
        let beyond = (pause as u64).saturating_sub(most).min(most);
        let pause = (pause as u64).min(most);
        (writer.dirtied, writer.looks_after) = (0, pages);
        writer.paused = Some(now + beyond + pause);
        // A timer ends behind the tick that it was set for (`calc_index`, kernel/time/timer.c).
        Some((now + pause + 1) * TICK_PS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Position = Position { dirty: 0, free_run: 2000, most: 3200 };

    fn dirty(dirty: u64) -> Position {
        Position { dirty, ..AT }
    }

    #[test]
    fn pages_may_become_dirty_as_quickly_as_they_are_written_in_the_middle_and_not_at_all_at_the_limit()
     {
        let pace = Pace::new(4096);
        assert_eq!(pace.ratio(dirty(2600)), 1023);
        assert_eq!(pace.ratio(dirty(3200)), 0);
        assert!(pace.ratio(dirty(2001)) > 2000);
        let ratios: Vec<u64> = (2000..=3200).map(|pages| pace.ratio(dirty(pages))).collect();
        assert!(ratios.is_sorted_by(|one, other| one >= other));
    }

    #[test]
    fn a_writer_that_nothing_is_written_for_goes_on_where_little_is_dirty() {
        // As much as may be, but no more than counts are off by.
        let mut pace = Pace::new(4096);
        let at = Position { dirty: 3, free_run: 1, most: 2 };
        for _ in 0..LOOK_BYTES / 4096 {
            pace.dirtied(1);
        }
        let until_ps = pace.pause(1, at, 0).unwrap();
        assert_eq!(pace.pause(1, at, until_ps), None);
        // Of more it waits for what is written.
        let (at, mut now_ps) = (Position { dirty: 400, free_run: 150, most: 200 }, until_ps);
        for _ in 0..20 {
            pace.dirtied(1);
            pace.writer(1).counted = 100;
            now_ps = pace.pause(1, at, now_ps).unwrap();
        }
    }

    #[test]
    fn a_writer_makes_as_many_pages_dirty_as_a_device_writes_that_is_slower() {
        // A device of 2,500 pages a second, and a writer that never does anything else.
        const SLOW: u64 = 2500;
        const PAGE_PS: u64 = 1_000_000_000_000 / SLOW;
        let mut pace = Pace::new(4096);
        let (mut now_ps, mut made, mut done, mut later) = (0, 0u64, 0u64, Vec::new());
        while now_ps < 60 * 1_000_000_000_000 {
            let at = dirty(made - done);
            match pace.pause(1, at, now_ps) {
                Some(until_ps) => now_ps = until_ps,
                None => {
                    pace.dirtied(1);
                    (made, now_ps) = (made + 1, now_ps + 2_000_000);
                }
            }
            let written = (now_ps / PAGE_PS).min(made).max(done);
            pace.written(written - done, now_ps);
            done = written;
            if now_ps > 40 * 1_000_000_000_000 {
                later.push(made - done);
            }
        }
        let mean = later.iter().sum::<u64>() / later.len() as u64;
        assert!((2000..=3200).contains(&mean), "{mean}");
        assert!(later.iter().all(|pages| *pages <= AT.most + 64), "{:?}", later.iter().max());
        assert!(pace.average.abs_diff(SLOW) < SLOW / 10, "{}", pace.average);
    }
}
