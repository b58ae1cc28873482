//! What a check of failures of power needs of a machine.

use super::{Machine, MachineError};
use tierscope_model::organization::Organization;

impl Machine {
    /// Whatever lies below the caches.
    pub fn organization_mut(&mut self) -> &mut dyn Organization {
        self.organization.as_mut()
    }

    /// Bytes of a line of the on-chip caches.
    pub fn line_bytes(&self) -> u64 {
        1 << self.fixed.line_shift
    }

    /// Goes on until something happens to the organization: when; `None` once the workload has ended.
    pub fn go_on(&mut self) -> Result<Option<u64>, MachineError> {
        while !self.finished() {
            let (before_ps, at_ps) = (self.organization.next_event_ps(), self.next_event_ps());
            self.turn()?;
            if self.organization.next_event_ps() != before_ps {
                return Ok(at_ps);
            }
        }
        Ok(None)
    }
}
