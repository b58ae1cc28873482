//! Pages that a program gives back, or says that it does not use soon (madvise).

use super::*;
use crate::os::reclaim::Kind;
use crate::os::release::Release;

/// How pages go of which the program says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Going {
    /// Once memory is short, unless they are written before.
    Lazily,
    /// Before others.
    First,
    AtOnce,
}

impl Paging {
    /// How advice has pages go, where the release knows it: to give them back since 4.5, the others since 5.4. Without a
    /// store nothing goes so.
    pub(super) fn going(&self, advice: u64) -> Option<Going> {
        self.limits.as_ref()?;
        let (going, since) = match advice {
            _ if advice == Advice::Free as u64 => (Going::Lazily, Release::V4_9),
            _ if advice == Advice::Cold as u64 => (Going::First, Release::V6_18),
            _ if advice == Advice::PageOut as u64 => (Going::AtOnce, Release::V6_18),
            _ => return None,
        };
        self.policy.release().is_none_or(|release| release >= since).then_some(going)
    }

    /// The pages of a range go as advice says, those that one page-table entry alone maps (`madvise_free_pte_range`,
    /// `madvise_cold_or_pageout_pte_range`, mm/madvise.c). Huge pages of it become pages where they go.
    pub(super) fn let_go_of_range(
        &mut self,
        pages: Range<u64>,
        going: Going,
        work: &mut Vec<Work>,
        held: &dyn Fn(u64) -> bool,
    ) -> Result<(), OsError> {
        if self.has_locked(pages.start, pages.end - pages.start) {
            return Ok(());
        }
        if going != Going::First {
            self.split_within(pages.clone());
        }
        let mut going_out = Vec::new();
        for page in self.space.touched(pages.start, pages.end - pages.start) {
            let is_of_file = self.space.find(page).is_some_and(|(_, it)| it.file.is_some());
            match self.space.get(page) {
                Pte::Swapped(slot) if going == Going::Lazily && !is_of_file => {
                    self.space.take(page);
                    self.free_slot(slot);
                }
                Pte::Present { frame, .. } if self.is_mapped_once(frame) => {
                    let is_exclusive = self.is_exclusive(frame);
                    let info = self.frames.get_mut(frame);
                    let is_anonymous = matches!(info.owner, Owner::Anonymous(_));
                    let is_own = is_anonymous && is_exclusive && !is_of_file && info.transfer == 0;
                    match going {
                        Going::Lazily if is_own => self.free_lazily(page, frame),
                        Going::Lazily => {}
                        Going::First => {
                            info.young = false;
                            let head = info.head(frame);
                            self.reclaim.make_inactive(head, None);
                        }
                        Going::AtOnce => {
                            info.young = false;
                            going_out.push(frame);
                        }
                    }
                }
                _ => {}
            }
        }
        if going_out.is_empty() { Ok(()) } else { self.page_out(&going_out, work, held) }
    }

    /// Whether one page-table entry alone maps a frame.
    fn is_mapped_once(&self, frame: u64) -> bool {
        let info = self.frames.get(frame);
        info.sharers == 0 && !info.mapped_twice
    }

    /// A page of anonymous memory is given back. Its entry tells nobody of the next store to it but the hardware
    /// ([`Paging::sets_dirty_bit`]).
    fn free_lazily(&mut self, page: u64, frame: u64) {
        let info = self.frames.get_mut(frame);
        (info.dirty, info.young, info.lazy) = (false, false, true);
        if let Some(slot) = std::mem::take(&mut info.slot).checked_sub(1) {
            self.forget_slot(slot);
        }
        self.own(frame, page);
        self.space.set(page, Pte::Present { frame, writable: false });
        self.effects.push(Effect::Shootdown(page));
        self.reclaim.make_inactive(frame, Some(Kind::File));
    }

    /// A page that was given back is not: it is written, or shared.
    pub(super) fn keep_after_all(&mut self, frame: u64) {
        let info = self.frames.get_mut(frame);
        (info.lazy, info.dirty) = (false, true);
        self.reclaim.make_inactive(frame, Some(Kind::Anonymous));
    }
}

#[cfg(test)]
mod tests;
