//! The first requests of a source.

use super::{Beside, RequestSource, Times, TraceRequest};
use crate::stream::{Footprint, StreamError};

/// So many requests of a source at most, from where it stands.
pub struct First {
    source: Box<dyn RequestSource>,
    most: u64,
    given: u64,
}

impl First {
    /// The first `most` of a source.
    pub fn new(source: Box<dyn RequestSource>, most: u64) -> Self {
        First { source, most, given: 0 }
    }
}

impl RequestSource for First {
    fn next(&mut self) -> Result<Option<TraceRequest>, StreamError> {
        if self.given >= self.most {
            // What is behind the last is of no request any more.
            self.given = self.most.saturating_add(1);
            return Ok(None);
        }
        self.given += 1;
        self.source.next()
    }

    fn times(&self) -> Times {
        self.source.times()
    }

    fn fit(&mut self, unit_bytes: u64) -> Result<(), StreamError> {
        self.source.fit(unit_bytes)
    }

    fn count(&self) -> Option<u64> {
        self.source.count().map(|count| count.min(self.most))
    }

    fn footprint(&self) -> Option<Footprint> {
        self.source.footprint()
    }

    fn share(&self) -> Option<f64> {
        let of_these = self.given as f64 / self.most.max(1) as f64;
        Some(self.source.share().map_or(of_these, |share| share.max(of_these)))
    }

    fn instructions(&self) -> Option<u64> {
        self.source.instructions().map(|count| if self.given > self.most { 0 } else { count })
    }

    fn beside(&self) -> Beside {
        self.source.beside()
    }

    fn remarks(&self) -> Vec<String> {
        self.source.remarks()
    }

    fn place(&self) -> String {
        self.source.place()
    }

    fn fork(&self) -> Result<Box<dyn RequestSource>, StreamError> {
        Ok(Box::new(First { source: self.source.fork()?, ..*self }))
    }
}
