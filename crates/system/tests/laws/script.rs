//! Requests that a test lists, for devices alone.

use tierscope_system::alone::Requests;
use tierscope_workload::StreamError;
use tierscope_workload::requests::{RequestSource, Times, TraceRequest};

/// Requests, and what their times are.
#[derive(Clone)]
struct Script {
    requests: Vec<TraceRequest>,
    times: Times,
    at: usize,
}

impl RequestSource for Script {
    fn next(&mut self) -> Result<Option<TraceRequest>, StreamError> {
        let next = self.requests.get(self.at).copied();
        self.at += usize::from(next.is_some());
        Ok(next)
    }

    fn times(&self) -> Times {
        self.times
    }

    fn place(&self) -> String {
        format!("request {}", self.at)
    }

    fn fork(&self) -> Result<Box<dyn RequestSource>, StreamError> {
        Ok(Box::new(self.clone()))
    }
}

/// These requests, at their times, or so many at once.
pub fn requests(requests: Vec<TraceRequest>, times: Times, outstanding: Option<u32>) -> Requests {
    let source = Box::new(Script { requests, times, at: 0 });
    Requests { source, clock: None, outstanding }
}
