//! Flushes and trims.
//!
//! A flush is done once all that was written, and answered, is in flash: at once where capacitors would
//! see to it, or where nothing is missing. A trim takes pages out of buffer and map; what they held is
//! not moved by collection any more.

use super::{Event, Ssd};
use crate::device::PageControl;
use crate::device::linked::DonePage;
use tierscope_kernel::{Stage, Timeline};

/// A flush or a trim under way.
#[derive(Clone, Debug)]
pub struct Command {
    token: u32,
    control: PageControl,
    /// Time up to which `stages` reaches.
    clock_ps: u64,
    stages: Timeline,
}

impl Command {
    /// One that comes at `now_ps`.
    pub(super) fn new(now_ps: u64, token: u32, control: PageControl) -> Self {
        Command { token, control, clock_ps: now_ps, stages: Timeline::new() }
    }

    fn pass(&mut self, stage: Stage, until_ps: u64) {
        self.stages.push(stage, until_ps - self.clock_ps);
        self.clock_ps = until_ps;
    }
}

impl Ssd {
    /// Takes a flush or a trim: firmware is busy with it as with a page that is written.
    pub(super) fn take_control(&mut self, now_ps: u64, token: u32, control: PageControl) {
        self.end_pause();
        let (start_ps, free_ps) = self.occupy_core(now_ps);
        let ready_ps = free_ps + self.firmware.write_latency.picoseconds();
        let mut command = Command::new(now_ps, token, control);
        command.pass(Stage::StoreQueue, start_ps);
        command.pass(Stage::Device, ready_ps);
        let index = self.commands.insert(command);
        self.events.push(ready_ps, 0, Event::Control(index));
    }

    /// Firmware hands on a flush or a trim.
    pub(super) fn control(&mut self, now_ps: u64, index: u32, out: &mut Vec<DonePage>) {
        match self.commands[index].control {
            PageControl::Trim { first, count } => {
                for page in first..first + count {
                    self.buffer.drop_unit(page);
                    self.layer.trim(page);
                    self.note_trim(page);
                }
                self.trim_map(first, count);
                self.end_control(now_ps, index, out);
                // Entries have become free, and flushes may wait for nothing more.
                self.end_flushes(now_ps, out);
                self.admit(now_ps, out);
            }
            PageControl::Flush if self.capacitors || self.early => {
                self.host.flushes += 1;
                self.end_control(now_ps, index, out);
            }
            PageControl::Flush => {
                self.host.flushes += 1;
                match self.buffer.end_epoch() {
                    Some(epoch) => self.flushes.push_back((epoch, index)),
                    None => self.end_control(now_ps, index, out),
                }
                self.flush();
            }
        }
    }

    fn end_control(&mut self, at_ps: u64, index: u32, out: &mut Vec<DonePage>) {
        let mut command = self.commands.remove(index);
        command.pass(Stage::StoreQueue, at_ps);
        out.push(DonePage { token: command.token, at_ps, stages: command.stages });
        self.begin_pause(at_ps);
    }

    /// Flushes end for which nothing is missing in flash any more.
    pub(super) fn end_flushes(&mut self, at_ps: u64, out: &mut Vec<DonePage>) {
        while let Some(&(epoch, index)) = self.flushes.front()
            && self.buffer.is_kept(epoch)
        {
            self.flushes.pop_front();
            self.end_control(at_ps, index, out);
        }
    }
}
