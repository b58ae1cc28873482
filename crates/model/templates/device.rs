//! `template`: a store that takes the same time for each request, however many there are.
//!
//! The smallest device that keeps all laws, to start a device of your own from. It is compiled and
//! tested by the test that follows CONTRIBUTING.md.

use super::{AnyDevice, DeviceDescription, check_pages};
use crate::link::{AnyLink, Direction, Kind, Link, LinkDescription, Message};
use crate::request::{Completion, Device, Full, Request};
use serde::{Deserialize, Serialize};
use tierscope_kernel::{EventQueue, Stage, Timeline};
use tierscope_units::{Duration, Problems, Size};

/// A store that takes the same time for each request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateSpec {
    /// Capacity.
    pub capacity: Size,
    /// Bytes read or written as one: a power of two.
    pub page: Size,
    /// Time of each request, its way over the link not included.
    pub latency: Duration,
    /// Requests that the device holds at most.
    pub queue_depth: u32,
}

impl DeviceDescription for TemplateSpec {
    fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "queue_depth", self.queue_depth, 1);
        check_pages(path, self.page, Size::from_bytes(64), self.capacity, problems);
    }

    fn capacity(&self) -> Size {
        self.capacity
    }

    fn page(&self) -> Size {
        self.page
    }

    fn build(&self, link: &dyn LinkDescription) -> AnyDevice {
        Template::new(self, link).into()
    }
}

/// The state of the device: what is on its way, by the time when it is done.
#[derive(Clone, Debug)]
pub struct Template {
    link: AnyLink,
    latency_ps: u64,
    queue_depth: usize,
    done: EventQueue<Completion>,
}

impl Template {
    /// A device with nothing to do, behind an empty link. The descriptions have been checked.
    pub fn new(spec: &TemplateSpec, link: &dyn LinkDescription) -> Self {
        Template {
            link: link.build(),
            latency_ps: spec.latency.picoseconds(),
            queue_depth: spec.queue_depth as usize,
            done: EventQueue::new(),
        }
    }
}

impl Device for Template {
    /// A read sends a request down the link and its data up; a write its data down. Requests pass
    /// the device in the order of their coming, so that the whole way is known at once.
    fn submit(&mut self, now_ps: u64, request: Request) -> Result<(), Full> {
        if self.done.len() == self.queue_depth {
            return Err(Full);
        }
        let message = |kind| Message::new(kind, u64::from(request.bytes));
        let down = message(if request.write { Kind::Data } else { Kind::Request });
        let (_, arrived_ps) = self.link.transfer(now_ps, down, Direction::Down);
        let served_ps = arrived_ps + self.latency_ps;
        let at_ps = match request.write {
            true => served_ps,
            false => self.link.transfer(served_ps, message(Kind::Answer), Direction::Up).1,
        };
        let mut stages = Timeline::new();
        stages.push(Stage::Link, arrived_ps - now_ps);
        stages.push(Stage::Medium, self.latency_ps);
        stages.push(Stage::Link, at_ps - served_ps);
        self.done.push(at_ps, 0, Completion::new(request.id, at_ps, stages));
        Ok(())
    }

    fn next_event_ps(&self) -> Option<u64> {
        self.done.peek_ps()
    }

    fn advance(&mut self, now_ps: u64, out: &mut Vec<Completion>) {
        while self.done.peek_ps().is_some_and(|at_ps| at_ps <= now_ps) {
            out.extend(self.done.pop().map(|(_, completion)| completion));
        }
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{SPACE_BYTES, device_laws};
    use crate::link::packet::tests::spec as link;

    #[test]
    fn the_devices_laws_hold() {
        let spec = TemplateSpec {
            capacity: Size::from_bytes(SPACE_BYTES),
            page: Size::from_bytes(64),
            latency: Duration::from_picoseconds(300_000),
            queue_depth: 7,
        };
        device_laws(|| Template::new(&spec, &link()));
    }
}
