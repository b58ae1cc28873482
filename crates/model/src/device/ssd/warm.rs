//! Functional warming: what the drive holds, and where, becomes as it would by requests, at once.
//!
//! The drive goes through the same steps as ever, but each operation on flash ends as it begins, and
//! nothing else takes time: map, buffer, logs, collection and wear are those of the same requests one by
//! one. Behind detail in which writes waited for room, commands program as much as they did there
//! (`flush.rs`). What flash has under way when warming begins ends then.

use super::control::Command;
use super::{Access, NONE, Ssd};
use crate::device::linked::{DonePage, PageAccess, PageControl};
use crate::medium::nand;
use tierscope_kernel::Timeline;

impl Ssd {
    /// A page is read or written at `now_ps`, which never goes back between calls of any kind.
    pub(super) fn warm_page(&mut self, now_ps: u64, access: PageAccess) {
        debug_assert!(self.contents.is_none(), "warming moves no data");
        self.at_once(now_ps, |drive, out| {
            let (clock_ps, stages) = (now_ps, Timeline::new());
            let it = Access { access, clock_ps, stages, next: NONE, mapped: false };
            let index = drive.accesses.insert(it);
            if access.write {
                drive.cross_memory(now_ps, index);
                drive.come(now_ps, index, out);
            } else {
                drive.read(now_ps, index, out);
            }
        });
        debug_assert!(self.accesses.is_empty(), "a page is answered at once");
    }

    /// A flush or a trim.
    pub(super) fn warm_command(&mut self, now_ps: u64, control: PageControl) {
        self.at_once(now_ps, |drive, out| {
            let index = drive.commands.insert(Command::new(now_ps, 0, control));
            drive.control(now_ps, index, out);
        });
        debug_assert!(self.commands.is_empty(), "a flush ends at once");
    }

    /// Does something at `now_ps`, and all that was due before it or follows from it, without time.
    fn at_once(&mut self, now_ps: u64, act: impl FnOnce(&mut Self, &mut Vec<DonePage>)) {
        let at_once = &mut self.at_once;
        self.nand.end_all(|token| at_once.push_back(token));
        self.is_warming = true;
        let mut out = std::mem::take(&mut self.answered);
        self.go_on_at_once(now_ps, &mut out);
        self.end_pause();
        act(self, &mut out);
        self.go_on_at_once(now_ps, &mut out);
        (self.is_warming, self.answered) = (false, out);
    }

    fn go_on_at_once(&mut self, now_ps: u64, out: &mut Vec<DonePage>) {
        // Of what is late, each thing happens when it was to.
        let mut at_ps = self.events.peek_ps().map_or(now_ps, |event_ps| event_ps.min(now_ps));
        loop {
            self.go_on_mapping(at_ps, out);
            if let Some(token) = self.at_once.pop_front() {
                self.done(&nand::Done::at(token, at_ps), out);
            } else if self.events.peek_ps().is_some_and(|event_ps| event_ps <= now_ps)
                && let Some((event_ps, event)) = self.events.pop()
            {
                at_ps = at_ps.max(event_ps);
                self.happen(at_ps, event, out);
            } else {
                return out.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests;
