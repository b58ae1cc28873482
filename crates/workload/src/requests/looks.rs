//! When a pass asks whether to go on: each time that so much work was done. Requests are no measure of it, since one
//! may be of millions of blocks or lines.

use super::Passed;

/// Work between two looks: blocks touched, or lines written, and requests that are neither.
pub(super) const LOOK_EVERY: u64 = 1 << 14;

/// Whether to go on, as whoever asked for a pass says.
pub(super) struct Looks<F> {
    goes_on: F,
    done: u64,
    ended: bool,
}

impl<F: FnMut(Passed) -> bool> Looks<F> {
    /// `goes_on` is asked each time that [`LOOK_EVERY`] was done, and not again once it has said no.
    pub fn new(goes_on: F) -> Self {
        Looks { goes_on, done: 0, ended: false }
    }

    /// So much was done, and the pass is so far; whether to go on.
    #[inline]
    pub fn go_on(&mut self, work: u64, passed: impl FnOnce() -> Passed) -> bool {
        self.done += work;
        if self.done >= LOOK_EVERY && !self.ended {
            self.done = 0;
            self.ended = !(self.goes_on)(passed());
        }
        !self.ended
    }

    /// Whether it was said not to go on.
    pub fn have_ended(&self) -> bool {
        self.ended
    }
}
