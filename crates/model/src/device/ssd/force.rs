//! Force unit access: what bypasses the buffer (NVM Express Base Specification, Read and Write, FUA).
//!
//! A forced write is answered once it is in flash, though the drive has a buffer and capacitors. A forced
//! read comes from flash: what the buffer has of it that is not there yet goes there first.

use super::{NONE, Ssd};
use crate::device::linked::DonePage;

impl Ssd {
    /// A forced read; whether it is under way. Where nothing of the page is in flash, and nothing in the
    /// buffer, it is a read as any other.
    pub(super) fn read_forced(&mut self, index: u32) -> bool {
        let page = self.accesses[index].access.page;
        if let Some(entry) = self.buffer.unsaved(page) {
            self.forced += u32::from(self.write_back);
            let before = self.buffer.wait_to_read(entry, index);
            self.accesses[index].next = before.unwrap_or(NONE);
            self.flush();
            return true;
        }
        if !self.knows_place(index) {
            return true;
        }
        let place = self.layer.place(page).filter(|place| self.layer.is_programmed(*place));
        if let Some(place) = place {
            self.read_flash(index, self.layer.geometry().page_of(place));
        }
        place.is_some()
    }

    /// What a forced read has waited for is in flash, unless it was written again meanwhile.
    pub(super) fn read_kept(&mut self, now_ps: u64, index: u32, out: &mut Vec<DonePage>) {
        if !self.read_forced(index) {
            self.answer(now_ps, index, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::device::PageAccess;
    use crate::device::ssd::tests::{checked, drain, page_access, run, spec};
    use crate::device::ssd::{Ssd, SsdSpec};

    /// A drive with capacitors that keeps what was written in its buffer as long as it can.
    fn keeping() -> SsdSpec {
        let mut it = spec();
        it.buffer.capacitors = true;
        it.buffer.read_cache = true;
        it.buffer.flush_above = it.buffer.dirty;
        checked(it)
    }

    fn forced(access: PageAccess) -> PageAccess {
        PageAccess { force_unit_access: true, ..access }
    }

    fn times_ps(spec: &SsdSpec, accesses: &[(u64, PageAccess)]) -> Vec<u64> {
        run(&mut Ssd::new(spec), accesses).iter().map(|done| done.at_ps).collect()
    }

    #[test]
    fn a_forced_write_is_answered_once_it_is_in_flash_and_not_before() {
        let spec = keeping();
        let (write, program_ps) = (page_access(0, 7, true), program_ps(&spec));
        let plain_ps = times_ps(&spec, &[(0, write)])[0];
        let forced_ps = times_ps(&spec, &[(0, forced(write))])[0];
        assert!(forced_ps >= plain_ps + program_ps, "{forced_ps} {plain_ps} {program_ps}");
        // A drive that writes through does the same for every write.
        let mut through = spec.clone();
        through.buffer.write_back = false;
        assert_eq!(times_ps(&through, &[(0, write)])[0], forced_ps);
        let mut drive = Ssd::new(&spec);
        run(&mut drive, &[(0, forced(write))]);
        assert_eq!(drive.buffer.dirty(), 0);
    }

    fn program_ps(spec: &SsdSpec) -> u64 {
        spec.nand.lower.program_latency.picoseconds()
    }

    #[test]
    fn a_forced_read_comes_from_flash_and_waits_for_what_the_buffer_has_of_it() {
        let spec = keeping();
        let (write, read) = (page_access(0, 7, true), page_access(1, 7, false));
        let later_ps = 1_000_000_000;
        let took = |accesses: &[(u64, PageAccess)]| times_ps(&spec, accesses)[1] - later_ps;
        let from_buffer_ps = took(&[(0, write), (later_ps, read)]);
        let dirty_ps = took(&[(0, write), (later_ps, forced(read))]);
        let clean_ps = took(&[(0, forced(write)), (later_ps, forced(read))]);
        let array_ps = spec.nand.lower.read_latency.picoseconds();
        assert!(clean_ps >= from_buffer_ps + array_ps - 200_000, "{clean_ps} {from_buffer_ps}");
        assert!(dirty_ps >= clean_ps + program_ps(&spec), "{dirty_ps} {clean_ps}");
    }

    #[test]
    fn a_forced_read_of_what_is_being_programmed_waits_for_it() {
        let spec = keeping();
        let (write, read) = (forced(page_access(0, 7, true)), forced(page_access(1, 7, false)));
        let written_ps = times_ps(&spec, &[(0, write)])[0];
        let times = times_ps(&spec, &[(0, write), (written_ps - program_ps(&spec) / 2, read)]);
        assert_eq!(times[0], written_ps);
        assert!(times[1] > written_ps);
        // Written again while it is being programmed: the read waits for that, too.
        let half_ps = written_ps - program_ps(&spec) / 2;
        let again = [(0, write), (half_ps, page_access(2, 7, true)), (half_ps + 20_000_000, read)];
        let mut drive = Ssd::new(&spec);
        let done = run(&mut drive, &again);
        assert_eq!((done.len(), drive.buffer.dirty()), (3, 0));
        drain(&mut drive, &mut Vec::new());
        assert_eq!(drive.forced, 0);
    }
}
