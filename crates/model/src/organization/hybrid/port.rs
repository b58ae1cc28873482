//! A device, and what waits for room in it.

use crate::request::{Ahead, Completion, Device, Full, Request};
use std::collections::VecDeque;
use tierscope_kernel::{Stage, Timeline};

/// Demand that may pass waiting background requests before these go first.
const PASSES: u32 = 64;

/// A device and the requests that it could not take yet.
///
/// Demand goes before what waits in the background, but background never before older demand;
/// after [`PASSES`] times the oldest goes first. What may wait is bounded by the controller, which
/// never has more actions under way than it has tokens.
#[derive(Clone, Debug)]
pub(in crate::organization) struct Port<D> {
    device: D,
    demand: VecDeque<Waiting>,
    background: VecDeque<Waiting>,
    /// Requests that ever had to wait.
    came: u64,
    passes: u32,
    /// How long the request of each id has waited here.
    waits_ps: Vec<u64>,
    /// What waiting here is charged to.
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Its place in the order of coming.
    number: u64,
    since_ps: u64,
    request: Request,
    ahead: Option<Ahead>,
}

impl<D: Device> Port<D> {
    /// Ids of requests are below `ids`.
    pub(in crate::organization) fn new(device: D, ids: usize, stage: Stage) -> Self {
        Port {
            device,
            demand: VecDeque::new(),
            background: VecDeque::new(),
            came: 0,
            passes: 0,
            waits_ps: vec![0; ids],
            stage,
        }
    }

    /// The same, with a fork of the device.
    pub(in crate::organization) fn fork(&mut self) -> Self {
        Port {
            device: self.device.fork(),
            demand: self.demand.clone(),
            background: self.background.clone(),
            waits_ps: self.waits_ps.clone(),
            ..*self
        }
    }

    pub(in crate::organization) fn device(&self) -> &D {
        &self.device
    }

    pub(in crate::organization) fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    #[inline]
    pub(in crate::organization) fn next_event_ps(&self) -> Option<u64> {
        self.device.next_event_ps()
    }

    /// Hands a request to the device, now or as soon as it has room.
    #[inline]
    pub(in crate::organization) fn issue(
        &mut self,
        now_ps: u64,
        request: Request,
        ahead: Option<Ahead>,
    ) {
        let alone = self.demand.is_empty() && self.background.is_empty();
        if alone && submit(&mut self.device, now_ps, request, ahead).is_ok() {
            return;
        }
        self.wait(now_ps, request, ahead);
        if !alone {
            self.retry(now_ps);
        }
    }

    #[cold]
    fn wait(&mut self, now_ps: u64, request: Request, ahead: Option<Ahead>) {
        self.came += 1;
        let queue = if request.background { &mut self.background } else { &mut self.demand };
        queue.push_back(Waiting { number: self.came, since_ps: now_ps, request, ahead });
    }

    /// Lets the device do what is due until `now_ps`; what completed, with the time that it
    /// waited here.
    #[inline]
    pub(in crate::organization) fn advance(&mut self, now_ps: u64, out: &mut Vec<Completion>) {
        self.device.advance(now_ps, out);
        for done in out {
            let wait_ps = std::mem::take(&mut self.waits_ps[done.id as usize]);
            if wait_ps > 0 {
                let mut stages = Timeline::new();
                stages.push(self.stage, wait_ps);
                stages.append(&done.stages);
                done.stages = stages;
            }
        }
    }

    /// Hands over as much of what waits as the device takes.
    #[inline]
    pub(in crate::organization) fn retry(&mut self, now_ps: u64) {
        while let Some(Waiting { since_ps, request, ahead, .. }) = self.first_waiting() {
            if submit(&mut self.device, now_ps, request, ahead) == Err(Full) {
                return;
            }
            self.waits_ps[request.id as usize] = now_ps - since_ps;
            if let Some(ahead) = ahead {
                self.waits_ps[ahead.id as usize] = now_ps - since_ps;
            }
            self.leave(request.background);
        }
    }

    /// The request that goes next.
    #[inline]
    fn first_waiting(&self) -> Option<Waiting> {
        match (self.demand.front(), self.background.front()) {
            (Some(demand), Some(background)) => {
                let due = self.passes >= PASSES && background.number < demand.number;
                Some(if due { *background } else { *demand })
            }
            (demand, background) => demand.or(background).copied(),
        }
    }

    fn leave(&mut self, background: bool) {
        if background {
            self.background.pop_front();
            self.passes = 0;
        } else {
            self.demand.pop_front();
            self.passes += u32::from(!self.background.is_empty());
        }
    }
}

#[inline]
fn submit<D: Device>(
    device: &mut D,
    now_ps: u64,
    request: Request,
    ahead: Option<Ahead>,
) -> Result<(), Full> {
    match ahead {
        Some(ahead) => device.submit_ahead(now_ps, request, ahead),
        None => device.submit(now_ps, request),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that is full until it is told otherwise, and logs what it takes.
    #[derive(Clone, Debug, Default)]
    struct Gate {
        room: usize,
        taken: Vec<u32>,
    }

    impl Device for Gate {
        fn submit(&mut self, _now_ps: u64, request: Request) -> Result<(), Full> {
            if self.room == 0 {
                return Err(Full);
            }
            self.room -= 1;
            self.taken.push(request.id);
            Ok(())
        }

        fn next_event_ps(&self) -> Option<u64> {
            None
        }

        fn advance(&mut self, now_ps: u64, out: &mut Vec<Completion>) {
            let stages = Timeline::new();
            out.extend(self.taken.iter().map(|id| Completion::new(*id, now_ps, stages)));
        }

        fn in_flight(&self) -> usize {
            0
        }
    }

    fn request(id: u32, background: bool) -> Request {
        Request { id, address: 0, bytes: 64, write: false, background }
    }

    #[test]
    fn demand_passes_background_a_bounded_number_of_times_and_never_the_reverse() {
        let mut port = Port::new(Gate::default(), 1000, Stage::DramQueue);
        port.issue(0, request(500, false), None);
        port.issue(0, request(900, true), None);
        for id in 0..PASSES + 5 {
            port.issue(0, request(id, false), None);
        }
        port.device.room = 1;
        port.retry(1);
        port.device.room = usize::MAX;
        port.retry(2);
        let mut expected: Vec<u32> = (0..PASSES + 5).collect();
        // The one that came before the background request counts as a pass as well.
        expected.insert(PASSES as usize - 1, 900);
        expected.insert(0, 500);
        assert_eq!(port.device.taken, expected);
    }

    #[test]
    fn background_never_passes_older_demand() {
        let mut port = Port::new(Gate::default(), 1000, Stage::DramQueue);
        for id in 0..2 * PASSES {
            port.issue(0, request(id, false), None);
        }
        port.issue(0, request(900, true), None);
        port.device.room = usize::MAX;
        port.retry(1);
        assert_eq!(port.device.taken.last(), Some(&900));
    }

    #[test]
    fn what_has_waited_says_so() {
        let mut port = Port::new(Gate::default(), 8, Stage::StoreQueue);
        port.issue(10, request(3, false), None);
        port.device.room = 1;
        port.retry(35);
        let mut out = Vec::new();
        port.advance(40, &mut out);
        assert_eq!(out[0].stages.iter().collect::<Vec<_>>(), [(Stage::StoreQueue, 25)]);
    }
}
