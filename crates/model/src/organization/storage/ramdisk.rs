//! A store that lies in DRAM behind main memory: its lines, each of which may take longer than DRAM does.

use crate::device::InDram;
use crate::request::{LineResponse, Response};
use tierscope_kernel::{EventQueue, Stage};

/// The lines under way of a store in DRAM.
#[derive(Clone, Debug)]
pub(super) struct InMemory {
    store: InDram,
    /// Its first byte, and the one behind its last.
    first: u64,
    end: u64,
    /// Lines taken and not answered.
    under_way: usize,
    /// What DRAM has done, by the time when it is answered.
    delayed: EventQueue<LineResponse>,
}

impl InMemory {
    /// A store behind so many bytes of main memory.
    pub fn new(store: InDram, memory_bytes: u64) -> Self {
        let end = memory_bytes.saturating_add(store.capacity_bytes);
        InMemory { store, first: memory_bytes, end, under_way: 0, delayed: EventQueue::new() }
    }

    /// Its first byte in DRAM.
    pub fn first_byte(&self) -> u64 {
        self.first
    }

    /// Whether this byte of DRAM is its.
    pub fn has(&self, address: u64) -> bool {
        (self.first..self.end).contains(&address)
    }

    /// Whether it takes no line for now.
    pub fn is_full(&self) -> bool {
        self.under_way >= self.store.lines as usize
    }

    /// A line of it has been taken.
    pub fn take(&mut self) {
        self.under_way += 1;
    }

    /// DRAM has done a line, which takes longer here.
    pub fn delay(&mut self, mut response: LineResponse, write: bool) {
        let delay_ps = self.store.line_ps(write);
        response.at_ps += delay_ps;
        response.stages.push(Stage::Medium, delay_ps);
        self.delayed.push(response.at_ps, 0, response);
    }

    /// Answers what is due by `now_ps`.
    pub fn answer(&mut self, now_ps: u64, out: &mut Vec<Response>) {
        while self.delayed.peek_ps().is_some_and(|at_ps| at_ps <= now_ps) {
            out.extend(self.delayed.pop().map(|(_, response)| Response::Line(response)));
            self.under_way -= 1;
        }
    }

    pub fn next_event_ps(&self) -> Option<u64> {
        self.delayed.peek_ps()
    }

    /// Lines that DRAM has done and that are not answered.
    pub fn delayed(&self) -> usize {
        self.delayed.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::page;
    use super::super::*;
    use crate::conformance::{organization_laws, page_organization_laws};
    use crate::device::DeviceDescription;
    use crate::device::ramdisk::tests::spec as ramdisk;
    use crate::medium::dram::tests::spec as dram;

    const MEMORY: u64 = 1 << 20;

    /// 1 MiB of main memory before a disk in the same DRAM, whose reads take 300 ns longer and writes 500 ns.
    fn storage(lines: u32, check_data: bool) -> Storage {
        let disk = ramdisk(300, 500, lines);
        let spec = StorageSpec {
            dram_capacity: Size::from_bytes(MEMORY),
            host_queue_depth: 4,
            ..crate::os::paging::small::storage()
        };
        let device = disk.build_in_dram().expect("it lies there");
        Storage::with(&spec, &dram(), device, disk.lies_in_dram(), 64, check_data)
    }

    fn line(id: u32, address: u64, write: bool) -> LineRequest {
        LineRequest { id, core: 0, address, write, version: u64::from(write) }
    }

    fn ends(storage: &mut Storage, all: &[LineRequest]) -> Vec<(u32, u64)> {
        let now_ps = 1 << 40;
        let mut out = Vec::new();
        storage.advance(now_ps, &mut out);
        all.iter().for_each(|one| storage.submit(now_ps, *one).unwrap());
        storage.advance(u64::MAX, &mut out);
        let end = |response: &Response| match response {
            Response::Line(line) => {
                assert_eq!(line.stages.total_ps(), line.at_ps - now_ps);
                (line.id, line.at_ps - now_ps)
            }
            Response::Page(page) => panic!("{page:?}"),
        };
        out.iter().map(end).collect()
    }

    #[test]
    fn the_organizations_laws_hold() {
        organization_laws(|check_data| Box::new(storage(3, check_data)));
        page_organization_laws(|check_data| Box::new(storage(3, check_data)));
    }

    #[test]
    fn main_memory_ends_where_the_disk_begins() {
        assert_eq!(storage(1, false).memory_bytes(), MEMORY);
    }

    #[test]
    fn a_line_of_the_disk_takes_its_delay_longer_than_one_of_main_memory() {
        for (write, delay_ps) in [(false, 300_000), (true, 500_000)] {
            let memory = ends(&mut storage(8, false), &[line(1, 0, write)]);
            let disk = ends(&mut storage(8, false), &[line(1, MEMORY, write)]);
            assert_eq!(disk[0].1, memory[0].1 + delay_ps);
        }
    }

    #[test]
    fn delays_overlap_and_lines_of_main_memory_pass() {
        let all = [line(1, MEMORY, false), line(2, MEMORY + 64, false), line(3, 0, false)];
        let found = ends(&mut storage(8, false), &all);
        assert_eq!(found.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [3, 1, 2]);
        assert!(found[2].1 < found[1].1 + 300_000, "{found:?}");
    }

    #[test]
    fn lines_beyond_those_at_once_push_back() {
        let mut storage = storage(2, false);
        assert!(storage.submit(0, line(1, MEMORY, false)).is_ok());
        assert!(storage.submit(0, line(2, MEMORY + 64, true)).is_ok());
        assert_eq!(storage.submit(0, line(3, MEMORY + 128, false)), Err(Full));
        assert!(storage.submit(0, line(4, 0, false)).is_ok(), "main memory has room");
        let mut out = Vec::new();
        storage.advance(1 << 40, &mut out);
        assert!(storage.submit(1 << 40, line(3, MEMORY + 128, false)).is_ok());
        let Traffic { store_read_bytes, store_written_bytes, .. } = storage.report().traffic;
        assert_eq!((store_read_bytes, store_written_bytes), (128, 64));
    }

    #[test]
    fn a_page_that_a_thread_of_the_kernel_copies_is_read_and_written_in_dram() {
        for write in [false, true] {
            let mut storage = storage(64, false);
            let mut out = Vec::new();
            storage.submit_page(0, page(1, write, 1, 5)).unwrap();
            storage.advance(u64::MAX, &mut out);
            let [Response::Page(done)] = out.as_slice() else { panic!("{out:?}") };
            assert_eq!(done.stages.total_ps(), done.at_ps);
            let Traffic { dram_read_bytes, dram_written_bytes, .. } = storage.report().traffic;
            assert_eq!((dram_read_bytes, dram_written_bytes), (4096, 4096));
        }
    }
}
