//! What a check of failures of power needs of a device alone.

use super::{Alone, AloneError, Requests};
use std::collections::VecDeque;
use tierscope_model::organization::Organization;
use tierscope_workload::StreamError;
use tierscope_workload::requests::{RequestKind, RequestSource, Times, TraceRequest};

/// Requests between two flushes.
const FLUSH_EVERY: u64 = 64;
/// Requests between two trims, and writes from what is trimmed to the last.
const TRIM_EVERY: u64 = 24;
const TRIM_BEHIND: usize = 12;

impl Alone {
    /// The device.
    pub fn organization_mut(&mut self) -> &mut dyn Organization {
        self.organization.as_mut()
    }

    /// Bytes that it moves as one.
    pub fn unit_bytes(&self) -> u64 {
        self.unit_bytes
    }

    /// Goes on until something happens to the device: when; `None` once there is nothing left to do.
    pub fn go_on(&mut self) -> Result<Option<u64>, AloneError> {
        loop {
            let before_ps = self.organization.next_event_ps();
            if !self.turn()? {
                return Ok(None);
            }
            if self.organization.next_event_ps() != before_ps {
                return Ok(Some(self.now_ps));
            }
        }
    }
}

/// The same requests with flushes and trims among them, which few workloads have.
pub(crate) fn with_barriers(requests: Requests) -> Requests {
    let source = Barriers {
        source: requests.source,
        count: 0,
        written: VecDeque::new(),
        waiting: VecDeque::new(),
    };
    Requests { source: Box::new(source), ..requests }
}

struct Barriers {
    source: Box<dyn RequestSource>,
    count: u64,
    /// The last writes.
    written: VecDeque<TraceRequest>,
    /// What comes before the next of the source's.
    waiting: VecDeque<TraceRequest>,
}

impl RequestSource for Barriers {
    fn next(&mut self) -> Result<Option<TraceRequest>, StreamError> {
        if let Some(request) = self.waiting.pop_front() {
            return Ok(Some(request));
        }
        let Some(request) = self.source.next()? else { return Ok(None) };
        self.count += 1;
        if request.is_write() {
            self.written.push_back(request);
        }
        if self.count.is_multiple_of(TRIM_EVERY) && self.written.len() >= TRIM_BEHIND {
            let trimmed = self.written[self.written.len() - TRIM_BEHIND];
            let kind = RequestKind::Trim;
            self.waiting.push_back(TraceRequest { kind, ticks: request.ticks, ..trimmed });
        }
        while self.written.len() > TRIM_BEHIND {
            self.written.pop_front();
        }
        if self.count.is_multiple_of(FLUSH_EVERY) {
            let kind = RequestKind::Flush;
            self.waiting.push_back(TraceRequest {
                kind,
                ticks: request.ticks,
                ..TraceRequest::default()
            });
        }
        Ok(Some(request))
    }

    fn times(&self) -> Times {
        self.source.times()
    }

    fn fit(&mut self, unit_bytes: u64) -> Result<(), StreamError> {
        self.source.fit(unit_bytes)
    }

    fn place(&self) -> String {
        self.source.place()
    }

    fn fork(&self) -> Result<Box<dyn RequestSource>, StreamError> {
        Ok(Box::new(Barriers {
            source: self.source.fork()?,
            count: self.count,
            written: self.written.clone(),
            waiting: self.waiting.clone(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Few(u64);

    impl RequestSource for Few {
        fn next(&mut self) -> Result<Option<TraceRequest>, StreamError> {
            self.0 += 1;
            let request = TraceRequest::line(4096 * self.0, self.0.is_multiple_of(2), Some(self.0));
            Ok((self.0 <= 130).then_some(request))
        }

        fn times(&self) -> Times {
            Times::Ps(1000)
        }

        fn place(&self) -> String {
            String::new()
        }

        fn fork(&self) -> Result<Box<dyn RequestSource>, StreamError> {
            Ok(Box::new(Few(self.0)))
        }
    }

    #[test]
    fn flushes_and_trims_come_among_requests_and_change_none() {
        let few = Requests { source: Box::new(Few(0)), clock: None, outstanding: None };
        let mut source = with_barriers(few).source;
        let mut all = Vec::new();
        while let Some(request) = source.next().unwrap() {
            all.push(request);
        }
        let of = |kind| all.iter().filter(move |request| request.kind == kind);
        assert_eq!((of(RequestKind::Flush).count(), of(RequestKind::Trim).count()), (2, 5));
        assert_eq!(of(RequestKind::Read).count() + of(RequestKind::Write).count(), 130);
        assert!(all.windows(2).all(|two| two[0].ticks <= two[1].ticks));
        let is_write =
            |trim: &TraceRequest| of(RequestKind::Write).any(|it| it.address == trim.address);
        assert!(of(RequestKind::Trim).all(is_write));
    }
}
