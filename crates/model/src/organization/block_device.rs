//! `block-device`: a store alone, behind its link, without processor, DRAM and operating system. What
//! it is given are requests of any size, at any address.
//!
//! The host hands each to the device as it is, but for writes that do not fill their pages: as a page
//! cache does, it first reads the pages that a write begins or ends in the middle of, and then writes
//! all pages whole. What concerns a page that is being written, or is about to be, waits until that is
//! done; the wait, and the one for a place at the device, is the stage [`Stage::HostQueue`]. A device that
//! knows flushes and trims is given them.

mod claims;
mod pages;
mod power;

use super::versions::History;
use super::{
    Durable, Organization, OrganizationDescription, OrganizationReport, PagesMoved, Surroundings,
};
use crate::activity::Activity;
use crate::device::AnyDevice;
use crate::power::PowerFailure;
use crate::request::Manner;
use crate::request::{
    Completion, Control, Device, Full, LineRequest, LineResponse, PageRequest, PageResponse,
    Request, Response, Tell, Traffic,
};
use claims::Claims;
use pages::{Brings, Pages};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::collections::VecDeque;
use tierscope_kernel::{CowMap, Slab, Stage, Timeline};
use tierscope_units::Problems;

/// Bytes of a line request.
const LINE_BYTES: u64 = 64;

/// `block-device`: a store alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlockDeviceSpec {
    /// Requests that the host has under way at the device at once (NCQ tags, NVMe queue).
    pub host_queue_depth: u32,
}

impl OrganizationDescription for BlockDeviceSpec {
    fn name(&self) -> &'static str {
        "block-device"
    }

    fn needs_dram(&self) -> bool {
        false
    }

    fn stands_alone(&self) -> bool {
        true
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "host_queue_depth", self.host_queue_depth, 1);
    }

    fn check_with(&self, _path: &str, _machine: &Surroundings<'_>, _problems: &mut Problems) {}

    fn build(&self, machine: &Surroundings<'_>) -> Option<Box<dyn Organization>> {
        let (_, store) = machine.store?;
        let (page_bytes, capacity_bytes) = (store.page().bytes(), store.capacity().bytes());
        let device = machine.build_store()?;
        let made = BlockDevice::new(self, device, page_bytes, capacity_bytes, machine.check_data);
        Some(Box::new(made))
    }
}

/// Who asked.
#[derive(Clone, Copy, Debug)]
enum Asked {
    /// A line, and the oldest version that a read of it may return.
    Line(LineRequest, u64),
    /// Any number of bytes.
    Bytes(PageRequest),
    /// A flush or a trim, under this number.
    Control(u32, Control),
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Command {
    asked: Asked,
    /// Its place in the order of requests.
    turn: u64,
    /// First byte, and the one behind the last.
    start: u64,
    end: u64,
    write: bool,
    background: bool,
    /// What a write brings, where a failure of power is to come, and whether it is forced.
    brings: Brings,
    /// Earlier requests that must end first.
    blocked_by: u32,
    /// Pages that are still to be read before it is written.
    reads_left: u32,
    /// Time up to which `stages` reaches.
    clock_ps: u64,
    stages: Timeline,
}

/// What a request at the device is for.
#[derive(Clone, Copy, Debug)]
struct Access {
    command: u32,
    request: Request,
    /// What is asked for instead of a read or a write.
    control: Option<Control>,
    /// Whether it reads the rest of a page that is about to be written.
    rest: bool,
    submitted_ps: u64,
}

/// Versions of lines, where data are checked.
#[derive(Debug)]
struct Data {
    history: History,
    /// What the store holds.
    content: CowMap<u64>,
    stale_reads: u64,
}

/// A store behind its link, and the host's queue before it.
#[derive(Debug)]
pub struct BlockDevice {
    device: AnyDevice,
    page_bytes: u64,
    capacity_bytes: u64,
    most: usize,
    turn: u64,
    commands: Slab<Command>,
    /// Which pages they concern, and how many of them wait for others.
    claims: Claims,
    blocked: usize,
    accesses: Slab<Access>,
    /// Accesses that wait for room at the device.
    waiting: VecDeque<u32>,
    traffic: Traffic,
    data: Option<Data>,
    /// Where a failure of power is to come, of a drive alone: what its pages hold.
    followed: Option<Box<Pages>>,
    done: Vec<Completion>,
}

impl BlockDevice {
    /// A device with nothing to do, that moves pages of `page_bytes`, a power of two.
    pub fn new(
        spec: &BlockDeviceSpec,
        device: AnyDevice,
        page_bytes: u64,
        capacity_bytes: u64,
        check_data: bool,
    ) -> Self {
        let data = || Data { history: History::new(), content: CowMap::new(0), stale_reads: 0 };
        BlockDevice {
            device,
            page_bytes,
            capacity_bytes,
            most: spec.host_queue_depth as usize,
            turn: 0,
            commands: Slab::new(),
            claims: Claims::default(),
            blocked: 0,
            accesses: Slab::new(),
            waiting: VecDeque::new(),
            traffic: Traffic::default(),
            data: check_data.then(data),
            followed: None,
            done: Vec::new(),
        }
    }

    /// First and last page that a request concerns.
    #[inline]
    fn pages(&self, command: &Command) -> (u64, u64) {
        (command.start / self.page_bytes, (command.end - 1) / self.page_bytes)
    }

    /// What a request claims: the pages that it concerns, which a flush does not, and whether it writes them.
    #[inline]
    fn claim(&self, command: &Command) -> Option<((u64, u64), bool)> {
        (command.end != command.start).then(|| (self.pages(command), command.write))
    }

    /// Whether one must wait for the other.
    #[inline]
    fn in_conflict(&self, one: &Command, other: &Command) -> bool {
        if one.end == one.start || other.end == other.start {
            return false; // A flush concerns no page.
        }
        let ((first, last), (from, to)) = (self.pages(one), self.pages(other));
        (one.write || other.write) && first <= to && from <= last
    }

    fn take(&mut self, now_ps: u64, asked: Asked, start: u64, end: u64, flags: (bool, bool)) {
        let (write, background) = flags;
        self.turn += 1;
        let mut command = Command {
            asked,
            turn: self.turn,
            start,
            end,
            write,
            background,
            brings: Brings::default(),
            blocked_by: 0,
            reads_left: 0,
            clock_ps: now_ps,
            stages: Timeline::new(),
        };
        if let (Some(pages), Asked::Bytes(_)) = (&mut self.followed, asked)
            && write
        {
            let (first, last) = (start / self.page_bytes, (end - 1) / self.page_bytes);
            command.brings = pages.submit(first..last + 1);
        }
        if let Asked::Bytes(PageRequest { force_unit_access, .. }) = asked {
            command.brings.forced |= write && force_unit_access;
        }
        let claim = self.claim(&command);
        let earlier = if claim.is_some_and(|(pages, write)| self.claims.may_conflict(pages, write))
        {
            self.commands.iter().filter(|(_, it)| self.in_conflict(&command, it)).count()
        } else {
            0
        };
        if let Some((pages, write)) = claim {
            self.claims.add(pages, write);
        }
        command.blocked_by = earlier as u32;
        self.blocked += usize::from(earlier > 0);
        let id = self.commands.insert(command);
        if earlier == 0 {
            self.start(now_ps, id);
        }
    }

    /// Nothing is in the way of a request any longer.
    fn start(&mut self, now_ps: u64, id: u32) {
        let command = self.commands[id];
        let Command { start, end, write, .. } = command;
        if let Asked::Control(_, control) = command.asked {
            if let Some(pages) = &mut self.followed {
                pages.begin_control(id, control, self.page_bytes);
            }
            return self.ask(now_ps, id, control);
        }
        if !write {
            return self.access(now_ps, id, start, end, false, false);
        }
        let (first, last) = self.pages(&command);
        let begins_inside = start % self.page_bytes != 0;
        let ends_inside = end % self.page_bytes != 0;
        let one_page = first == last && (begins_inside || ends_inside);
        let rest = [
            (begins_inside || one_page).then_some(first),
            (ends_inside && !one_page).then_some(last),
        ];
        let reads_left = rest.iter().flatten().count() as u32;
        self.commands[id].reads_left = reads_left;
        if reads_left == 0 {
            return self.access(now_ps, id, start, end, true, false);
        }
        for page in rest.into_iter().flatten() {
            let start = page * self.page_bytes;
            self.access(now_ps, id, start, start + self.page_bytes, false, true);
        }
    }

    /// Hands a flush or a trim to the device, behind what waits for it.
    fn ask(&mut self, now_ps: u64, command: u32, control: Control) {
        let (write, background) = (true, false);
        let request = Request { id: 0, address: 0, bytes: 0, write, background };
        let control = Some(control);
        let access = Access { command, request, control, rest: false, submitted_ps: now_ps };
        self.hand_over(now_ps, access);
    }

    /// Hands bytes to the device, behind those that wait for it.
    fn access(&mut self, now_ps: u64, command: u32, start: u64, end: u64, write: bool, rest: bool) {
        let background = self.commands[command].background;
        let bytes = (end - start) as u32;
        let request = Request { id: 0, address: start, bytes, write, background };
        let access = Access { command, request, control: None, rest, submitted_ps: now_ps };
        self.hand_over(now_ps, access);
    }

    fn hand_over(&mut self, now_ps: u64, access: Access) {
        let number = self.accesses.insert(access);
        if !self.waiting.is_empty() || !self.submit_access(now_ps, number) {
            self.waiting.push_back(number);
        }
    }

    /// The device is asked for bytes in functional warming.
    fn warm_device(&mut self, now_ps: u64, address: u64, bytes: u64, write: bool) {
        self.traffic.move_store(bytes, write);
        self.device.warm(now_ps, Request::of(address, bytes as u32, write), Manner::default());
    }

    /// Offers an access to the device; whether it takes it.
    fn submit_access(&mut self, now_ps: u64, number: u32) -> bool {
        let Access { request, control, command, .. } = self.accesses[number];
        let taken = match control {
            Some(control) => self.device.submit_control(now_ps, number, control),
            None if request.write && self.commands[command].brings.is_told() => {
                let Brings { content, forced: force_unit_access } = self.commands[command].brings;
                let manner = Manner { force_unit_access, content, ..Manner::default() };
                self.device.submit_as(now_ps, Request { id: number, ..request }, manner)
            }
            None => self.device.submit(now_ps, Request { id: number, ..request }),
        };
        if taken.is_err() {
            return false;
        }
        self.accesses[number].submitted_ps = now_ps;
        true
    }

    fn retry(&mut self, now_ps: u64) {
        while let Some(number) = self.waiting.front().copied()
            && self.submit_access(now_ps, number)
        {
            self.waiting.pop_front();
        }
    }

    /// The device has finished an access.
    fn finished(&mut self, done: Completion, out: &mut Vec<Response>) {
        let Access { command: id, request, rest, submitted_ps, .. } = self.accesses.remove(done.id);
        let bytes = u64::from(request.bytes);
        if request.write {
            self.traffic.store_written_bytes += bytes;
        } else {
            self.traffic.store_read_bytes += bytes;
        }
        let command = &mut self.commands[id];
        if rest {
            command.reads_left -= 1;
            // Of several, the one that comes last is what the write waits for.
            if command.reads_left > 0 {
                return;
            }
        }
        command.stages.push(Stage::HostQueue, submitted_ps - command.clock_ps);
        command.stages.append(&done.stages);
        command.clock_ps = done.at_ps;
        if rest {
            let (first, last) = self.pages(&self.commands[id]);
            let (start, end) = (first * self.page_bytes, (last + 1) * self.page_bytes);
            self.access(done.at_ps, id, start, end, true, false);
        } else {
            self.end(done.at_ps, id, out);
        }
    }

    /// A request has ended: those that waited for it may start.
    fn end(&mut self, now_ps: u64, id: u32, out: &mut Vec<Response>) {
        let command = self.commands.remove(id);
        if let Some(pages) = &mut self.followed {
            match command.asked {
                Asked::Bytes(_) if command.write => {
                    let (start, end) = (command.start / self.page_bytes, command.end - 1);
                    pages.answer(start..end / self.page_bytes + 1, command.brings);
                }
                Asked::Control(..) => pages.end_control(id),
                Asked::Bytes(_) | Asked::Line(..) => {}
            }
        }
        out.push(self.response(&command));
        if let Some((pages, write)) = self.claim(&command) {
            self.claims.remove(pages, write);
        }
        if self.blocked > 0 {
            self.unblock(now_ps, &command);
        }
    }

    /// Those that waited for a request which has ended, and for no other, start.
    fn unblock(&mut self, now_ps: u64, command: &Command) {
        let mut free: Vec<(u64, u32)> = Vec::new();
        let later = self.commands.iter().filter(|(_, it)| {
            it.turn > command.turn && it.blocked_by > 0 && self.in_conflict(it, command)
        });
        let later: Vec<u32> = later.map(|(id, _)| id).collect();
        for id in later {
            let it = &mut self.commands[id];
            it.blocked_by -= 1;
            if it.blocked_by == 0 {
                free.push((it.turn, id));
            }
        }
        self.blocked -= free.len();
        free.sort_unstable();
        free.into_iter().for_each(|(_, id)| self.start(now_ps, id));
    }

    fn response(&mut self, command: &Command) -> Response {
        let Command { clock_ps: at_ps, stages, .. } = *command;
        match command.asked {
            Asked::Bytes(PageRequest { id, .. }) | Asked::Control(id, _) => {
                Response::Page(PageResponse { id, at_ps, stages, interrupt: 0 })
            }
            Asked::Line(request, oldest) => {
                let version = self.complete_line(request, oldest);
                Response::Line(LineResponse { id: request.id, at_ps, stages, version })
            }
        }
    }

    fn complete_line(&mut self, request: LineRequest, oldest: u64) -> u64 {
        let Some(data) = &mut self.data else { return 0 };
        let line = request.address / LINE_BYTES;
        if request.write {
            data.content.set(line, request.version);
            data.history.touch(line, 1);
            data.history.answer(line, request.version);
            return 0;
        }
        let version = data.content.get(line);
        data.stale_reads += u64::from(version < oldest);
        version
    }
}

impl Organization for BlockDevice {
    /// All that the store holds.
    fn memory_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Takes a request for the 64 bytes at its address.
    fn submit(&mut self, now_ps: u64, request: LineRequest) -> Result<(), Full> {
        if self.commands.len() >= self.most {
            return Err(Full);
        }
        let line = request.address / LINE_BYTES;
        let oldest = self.data.as_ref().map_or(0, |data| data.history.submitted().get(line));
        if let (Some(data), true) = (&mut self.data, request.write) {
            data.history.submit(line, request.version);
        }
        let (start, end) = (line * LINE_BYTES, (line + 1) * LINE_BYTES);
        self.take(now_ps, Asked::Line(request, oldest), start, end, (request.write, false));
        Ok(())
    }

    /// Takes a request for any bytes of the store; there is no memory that they come from or go to.
    fn submit_page(&mut self, now_ps: u64, request: PageRequest) -> Result<(), Full> {
        if self.commands.len() >= self.most {
            return Err(Full);
        }
        let PageRequest { store_address: start, bytes, write, background, .. } = request;
        let end = start + u64::from(bytes.max(1));
        self.take(now_ps, Asked::Bytes(request), start, end, (write, background));
        Ok(())
    }

    fn takes_control(&self) -> bool {
        self.device.takes_control()
    }

    /// A trim waits for those who concern its pages, and they for it.
    fn submit_control(&mut self, now_ps: u64, id: u32, control: Control) -> Result<(), Full> {
        if self.commands.len() >= self.most {
            return Err(Full);
        }
        let (start, end) = match control {
            Control::Flush => (0, 0),
            Control::Trim { address, bytes } => {
                (address, address.saturating_add(bytes).min(self.capacity_bytes))
            }
        };
        self.take(now_ps, Asked::Control(id, control), start, end, (true, false));
        Ok(())
    }

    fn next_event_ps(&self) -> Option<u64> {
        self.device.next_event_ps()
    }

    fn advance(&mut self, now_ps: u64, out: &mut Vec<Response>) {
        while let Some(at_ps) = self.device.next_event_ps()
            && at_ps <= now_ps
        {
            let mut done = std::mem::take(&mut self.done);
            self.device.advance(at_ps, &mut done);
            done.drain(..).for_each(|completion| self.finished(completion, out));
            self.done = done;
            self.retry(at_ps);
        }
    }

    fn depths(&self, tell: &mut Tell<'_>) {
        tell("host.commands", self.commands.len());
        self.device.depths(tell);
    }

    fn in_flight(&self) -> usize {
        self.commands.len()
    }

    fn power(&self) -> Option<&dyn PowerFailure> {
        Some(self)
    }

    fn power_mut(&mut self) -> Option<&mut dyn PowerFailure> {
        Some(self)
    }

    /// The device is asked for the line; where that is part of a page, a write reads the page first.
    fn warm(&mut self, now_ps: u64, _core: u16, address: u64, write: bool) -> PagesMoved {
        let address = address / LINE_BYTES * LINE_BYTES;
        if write && self.page_bytes > LINE_BYTES {
            let page = address / self.page_bytes * self.page_bytes;
            self.warm_device(now_ps, page, self.page_bytes, false);
            self.warm_device(now_ps, page, self.page_bytes, true);
        } else {
            self.warm_device(now_ps, address, LINE_BYTES, write);
        }
        PagesMoved { read: u64::from(!write), written: u64::from(write) }
    }

    fn take_over_warmed(&mut self, warmed: &mut dyn Organization) -> bool {
        let warmed = warmed.as_warmed().and_then(|it| it.downcast_mut::<BlockDevice>());
        let Some(warmed) = warmed else { return false };
        self.traffic = warmed.traffic;
        self.device.take_over_warmed(&mut warmed.device);
        true
    }

    fn as_warmed(&mut self) -> Option<&mut dyn Any> {
        Some(self)
    }

    /// Nothing here is dirty.
    fn flush(&mut self, _now_ps: u64) -> bool {
        true
    }

    fn durable(&self) -> Durable {
        Durable::Answered
    }

    fn keeps(&self) -> bool {
        self.device.keeps_answered()
    }

    fn report(&self) -> OrganizationReport {
        OrganizationReport {
            traffic: self.traffic,
            stale_reads: self.data.as_ref().map_or(0, |data| data.stale_reads),
            ..OrganizationReport::default()
        }
    }

    fn activity(&self, now_ps: u64) -> Activity {
        Activity::default().with_store(self.device.activity(now_ps))
    }

    fn fork(&mut self) -> Box<dyn Organization> {
        Box::new(BlockDevice {
            device: self.device.fork(),
            page_bytes: self.page_bytes,
            capacity_bytes: self.capacity_bytes,
            most: self.most,
            turn: self.turn,
            commands: self.commands.clone(),
            claims: self.claims.clone(),
            blocked: self.blocked,
            accesses: self.accesses.clone(),
            waiting: self.waiting.clone(),
            traffic: self.traffic,
            data: self.data.as_mut().map(|data| Data {
                history: data.history.fork(),
                content: data.content.fork(),
                stale_reads: data.stale_reads,
            }),
            followed: self.followed.as_mut().map(|pages| Box::new(pages.fork())),
            done: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{organization_laws, page_organization_laws};
    use crate::device::{DeviceDescription, StoreSpec};
    use crate::link::LinkSpec;
    use tierscope_units::{Bandwidth, Duration, Size};

    const PAGE: u64 = 4096;

    fn us(n: u64) -> Duration {
        Duration::from_picoseconds(n * 1_000_000)
    }

    fn device(host_queue_depth: u32, queue_depth: u32, check_data: bool) -> BlockDevice {
        let store = StoreSpec {
            capacity: Size::from_bytes(1 << 22),
            page: Size::from_bytes(PAGE),
            read_latency: us(25),
            write_latency: us(250),
            units: 4,
            unit_bandwidth: "400MB/s".parse::<Bandwidth>().unwrap(),
            controller_latency: us(1),
            queue_depth,
            power: None,
        };
        let link = LinkSpec {
            bandwidth: "16GB/s".parse::<Bandwidth>().unwrap(),
            payload: Size::from_bytes(256),
            packet_overhead: Size::from_bytes(24),
            latency: us(1),
            energy: None,
        };
        let spec = BlockDeviceSpec { host_queue_depth };
        BlockDevice::new(&spec, store.build(&link), PAGE, 1 << 22, check_data)
    }

    fn bytes(id: u32, write: bool, address: u64, bytes: u32) -> PageRequest {
        PageRequest {
            id,
            store_address: address,
            memory_address: 0,
            bytes,
            write,
            background: false,
            force_unit_access: false,
            content: 0,
        }
    }

    /// When each of some requests that come at once has ended, in the order of their numbers, and
    /// what the store moved.
    fn ends(device: &mut BlockDevice, all: &[PageRequest]) -> (Vec<u64>, Traffic) {
        all.iter().for_each(|one| device.submit_page(0, *one).unwrap());
        let mut out = Vec::new();
        device.advance(u64::MAX, &mut out);
        let mut found: Vec<_> = out
            .into_iter()
            .map(|response| match response {
                Response::Page(page) => {
                    assert_eq!(page.stages.total_ps(), page.at_ps, "it came at 0");
                    (page.id, page.at_ps)
                }
                Response::Line(line) => panic!("{line:?}"),
            })
            .collect();
        found.sort_unstable();
        (found.into_iter().map(|(_, at_ps)| at_ps).collect(), device.report().traffic)
    }

    #[test]
    fn the_organizations_laws_hold() {
        organization_laws(|check_data| Box::new(device(8, 3, check_data)));
        page_organization_laws(|check_data| Box::new(device(2, 3, check_data)));
    }

    #[test]
    fn a_write_reads_the_pages_that_it_begins_or_ends_in_the_middle_of() {
        for (address, size, read_pages, written_pages) in [
            (0, PAGE, 0, 1),
            (0, 8 * PAGE, 0, 8),
            (0, 512, 1, 1),
            (PAGE - 512, 512, 1, 1),
            (512, PAGE, 2, 2),
            (512, PAGE - 512, 1, 1),
            (0, PAGE + 1, 1, 2),
            (PAGE + 64, 3 * PAGE - 64, 1, 3),
        ] {
            let one = bytes(0, true, address, size as u32);
            let (_, traffic) = ends(&mut device(8, 64, false), &[one]);
            let expected = (read_pages * PAGE, written_pages * PAGE);
            assert_eq!(
                (traffic.store_read_bytes, traffic.store_written_bytes),
                expected,
                "{size} bytes at {address}"
            );
        }
    }

    #[test]
    fn a_read_moves_its_own_bytes() {
        let (_, traffic) = ends(&mut device(8, 64, false), &[bytes(0, false, 4000, 200)]);
        assert_eq!((traffic.store_read_bytes, traffic.store_written_bytes), (200, 0));
    }

    #[test]
    fn a_part_of_a_page_takes_a_read_and_a_write_one_after_the_other() {
        let whole = ends(&mut device(8, 64, false), &[bytes(0, true, 0, 4096)]).0[0];
        let read = ends(&mut device(8, 64, false), &[bytes(0, false, 0, 4096)]).0[0];
        let part = ends(&mut device(8, 64, false), &[bytes(0, true, 0, 512)]).0[0];
        assert_eq!(part, read + whole);
    }

    #[test]
    fn requests_for_one_page_wait_for_writes_and_all_others_do_not() {
        let mut all = vec![bytes(0, true, 0, 512), bytes(1, false, 1024, 512)];
        let (found, _) = ends(&mut device(8, 64, false), &all);
        assert!(found[1] > found[0], "a read behind a write of its page: {found:?}");
        all[1].store_address += PAGE;
        let (found, _) = ends(&mut device(8, 64, false), &all);
        assert!(found[1] < found[0], "a read of another page: {found:?}");
        let reads = [bytes(0, false, 0, 512), bytes(1, false, 0, 512)];
        let (found, _) = ends(&mut device(8, 64, false), &reads);
        assert!(found[1] < 2 * found[0], "two reads share the link and the bus: {found:?}");
    }

    #[test]
    fn requests_under_way_are_bounded() {
        let mut device = device(2, 64, false);
        assert!(device.submit_page(0, bytes(0, false, 0, 4096)).is_ok());
        assert!(device.submit_page(0, bytes(1, true, 0, 1)).is_ok());
        assert_eq!(device.submit_page(0, bytes(2, false, 0, 4096)), Err(Full));
        let mut out = Vec::new();
        device.advance(u64::MAX, &mut out);
        assert_eq!((out.len(), device.in_flight()), (2, 0));
    }
}
