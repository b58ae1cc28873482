//! How long a thread sleeps before it polls: half of the time that requests of the kind have taken lately
//! (`blk_mq_poll_nsecs`, `blk_mq_poll_hybrid`, block/blk-mq.c, Linux 4.10 to 6.3).

use super::kernel::path_steps;
use super::memory::TransferIo;
use super::thread::{Action, State, Step};
use super::{Event, Machine};
use tierscope_kernel::Stage;
use tierscope_model::os::paging::TransferId;

/// Kinds of requests: by direction, and by the power of two of their sectors (`blk_mq_poll_stats_bkt`,
/// `BLK_MQ_POLL_STATS_BKTS`).
const KINDS: usize = 16;
const SECTOR_BYTES: u64 = 512;
/// How long times are gathered, from when somebody polls (`blk_mq_poll_nsecs`: 100 ms).
const WINDOW_PS: u64 = 100_000_000_000;

/// What requests have taken.
#[derive(Clone, Debug, Default)]
pub(super) struct ServiceTimes {
    /// The mean of each kind in the last window that had some, in picoseconds.
    means_ps: [Option<u64>; KINDS],
    /// When the window under way ends, and the sum and the number of each kind in it.
    window: Option<(u64, [(u64, u64); KINDS])>,
}

/// A request that may be polled for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Polled {
    kind: usize,
    submitted_ps: u64,
    /// What its thread slept, or sleeps, before it polls.
    pub sleep: Option<Sleep>,
}

/// A sleep before polling.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sleep {
    pub from_ps: u64,
    pub duration_ps: u64,
    over: bool,
}

impl Polled {
    /// One that writes or reads so many bytes, and is handed over now.
    pub fn new(write: bool, bytes: u64, submitted_ps: u64) -> Polled {
        Polled { kind: kind_of(write, bytes), submitted_ps, sleep: None }
    }
}

impl TransferIo {
    /// Whether the thread that has handed it over sleeps, and will look for it by itself.
    pub(super) fn is_slept_for(&self) -> bool {
        self.polled.and_then(|it| it.sleep).is_some_and(|sleep| !sleep.over)
    }
}

/// The kind of a request that writes or reads so many bytes.
fn kind_of(write: bool, bytes: u64) -> usize {
    let direction = usize::from(write);
    let sectors = (bytes / SECTOR_BYTES).max(1);
    (direction + 2 * sectors.ilog2() as usize).min(direction + KINDS - 2)
}

impl ServiceTimes {
    /// Ends the window where its time is over.
    fn close(&mut self, now_ps: u64) {
        let Some((_, sums)) = self.window.take_if(|(end_ps, _)| *end_ps <= now_ps) else { return };
        for (mean_ps, (sum_ps, count)) in self.means_ps.iter_mut().zip(sums) {
            *mean_ps = sum_ps.checked_div(count).or(*mean_ps);
        }
    }

    /// A request of a kind has ended.
    pub fn ended(&mut self, kind: usize, took_ps: u64, now_ps: u64) {
        self.close(now_ps);
        if let Some((_, sums)) = &mut self.window {
            sums[kind].0 += took_ps;
            sums[kind].1 += 1;
        }
    }

    /// How long to sleep before polling for a request of a kind; `None` where nothing is known of it.
    pub fn sleep_ps(&mut self, kind: usize, now_ps: u64) -> Option<u64> {
        self.close(now_ps);
        self.window.get_or_insert((now_ps + WINDOW_PS, [(0, 0); KINDS]));
        self.means_ps[kind].map(|mean_ps| mean_ps.div_ceil(2)).filter(|&sleep_ps| sleep_ps > 0)
    }
}

impl Machine {
    /// Before it polls for the first time for a transfer, the thread of a hardware thread sleeps, where it knows how
    /// long; whether it does. A timer wakes it.
    pub(super) fn sleeps_first(&mut self, index: usize, id: TransferId, now_ps: u64) -> bool {
        let skips = self.skips_store();
        let Some(times) = self.service_times.as_mut().filter(|_| !skips) else {
            return false;
        };
        let thread = self.contexts[index].thread;
        let polled = self.transfers.get_mut(&id).and_then(|io| io.polled.as_mut());
        let Some(polled) = polled.filter(|it| it.sleep.is_none()) else { return false };
        let Some(sleep_ps) = times.sleep_ps(polled.kind, now_ps) else { return false };
        polled.sleep = Some(Sleep { from_ps: now_ps, duration_ps: sleep_ps, over: false });
        let mut steps = path_steps(Stage::Interrupt, self.os.paths.interrupt, 1);
        steps.extend(path_steps(Stage::WakeUp, self.os.paths.wake_up, 1));
        steps.push(Step::Act(Action::Poll(id)));
        self.threads[thread].do_first(&steps);
        self.leave(index, State::Waking);
        let source = self.memory_source();
        let at_ps = now_ps.saturating_add(sleep_ps);
        self.queue.push(at_ps, source, Event::Wake(thread as u32));
        self.account.interrupts += 1;
        self.dispatch(index, now_ps);
        true
    }

    /// A thread that has slept looks for its transfer: it is done, or polled for from now on.
    pub(super) fn poll_after_sleep(&mut self, index: usize, id: TransferId, now_ps: u64) {
        let thread = self.contexts[index].thread;
        if let Some(slept_through) = self.threads[thread].slept_through.take() {
            let (io, ended_ps) = &*slept_through;
            self.threads[thread].charge_slept(io, *ended_ps);
            return self.found(index, io, now_ps);
        }
        let polled = self.transfers.get_mut(&id).and_then(|io| io.polled.as_mut());
        if let Some(sleep) = polled.and_then(|it| it.sleep.as_mut()) {
            sleep.over = true;
        }
        self.poll(index, id);
    }

    /// A transfer has ended: how long it has taken is kept, and whether the thread that waits for it sleeps, and will
    /// look for it by itself.
    pub(super) fn ended_asleep(&mut self, io: &TransferIo, now_ps: u64) -> bool {
        let skips = self.skips_store();
        if let Some(times) = self.service_times.as_mut().filter(|_| !skips)
            && let Some(polled) = io.polled
        {
            times.ended(polled.kind, now_ps - polled.submitted_ps, now_ps);
        }
        let Some(thread) = io.submitter.filter(|_| io.is_slept_for()) else { return false };
        self.threads[thread].slept_through = Some(Box::new((io.clone(), now_ps)));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_mean_of_the_last_window_is_slept() {
        let (page, large) = (kind_of(false, 4096), kind_of(false, 1 << 30));
        let mut times = ServiceTimes::default();
        times.ended(page, 50, 0);
        assert_eq!(times.sleep_ps(page, 0), None, "nobody had asked, and nothing was gathered");
        times.ended(page, 10_000, 1);
        times.ended(page, 20_001, 2);
        assert_eq!(times.sleep_ps(page, WINDOW_PS - 1), None);
        assert_eq!(times.sleep_ps(page, WINDOW_PS), Some(7_500));
        assert_eq!(times.sleep_ps(kind_of(true, 4096), WINDOW_PS), None);
        // A window without any leaves what was known.
        assert_eq!(times.sleep_ps(page, 3 * WINDOW_PS), Some(7_500));
        times.ended(large, 8, 3 * WINDOW_PS);
        times.ended(page, 4, 3 * WINDOW_PS + 1);
        assert_eq!(times.sleep_ps(page, 4 * WINDOW_PS), Some(2));
        assert_eq!(times.sleep_ps(large, 4 * WINDOW_PS), Some(4));
    }

    #[test]
    fn kinds_are_powers_of_two_of_sectors_in_each_direction() {
        assert_eq!((kind_of(false, 512), kind_of(true, 512)), (0, 1));
        assert_eq!((kind_of(false, 4096), kind_of(true, 8191)), (6, 7));
        assert_eq!((kind_of(false, 1 << 40), kind_of(true, 64 << 10)), (14, 15));
    }
}
