//! `device`: a memory alone, without processor, caches and operating system. What it is given are
//! the requests of a memory trace.

use super::oracle::{Oracle, OracleSpec};
use super::{DramSize, Organization, OrganizationDescription, Surroundings, whole};
use serde::{Deserialize, Serialize};
use tierscope_units::{Problems, Size};

/// `device`: a memory alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceAloneSpec {
    /// Its capacity. A request beyond it is an error.
    pub capacity: Size,
    /// What a request moves: the line that holds its address.
    pub line: Size,
}

/// A memory alone does what that of an oracle does.
pub type DeviceAlone = Oracle;

impl OrganizationDescription for DeviceAloneSpec {
    fn name(&self) -> &'static str {
        "device"
    }

    fn needs_store(&self) -> bool {
        false
    }

    fn stands_alone(&self) -> bool {
        true
    }

    fn line(&self) -> Option<Size> {
        Some(self.line)
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "capacity", self.capacity, Size::from_bytes(1 << 20));
        if !self.line.bytes().is_power_of_two() || !(16..=4096).contains(&self.line.bytes()) {
            problems.add(
                "impossible-value",
                format!("{path}.line"),
                self.line.to_string(),
                "a line is a power of two from 16B to 4KiB".into(),
                "write 64B".into(),
            );
        }
    }

    fn check_with(&self, path: &str, machine: &Surroundings<'_>, problems: &mut Problems) {
        whole(
            &format!("{path}.capacity"),
            self.capacity,
            "lines (device.line)",
            self.line,
            problems,
        );
        machine.check_rows(&format!("{path}.capacity"), self.capacity, problems);
    }

    fn dram_size(&self) -> Option<DramSize> {
        Some(DramSize { key: "capacity", capacity: self.capacity, part: self.line })
    }

    fn build(&self, machine: &Surroundings<'_>) -> Option<Box<dyn Organization>> {
        let spec = OracleSpec { capacity: self.capacity };
        Some(Box::new(Oracle::new(&spec, machine.dram?, self.line.bytes(), machine.check_data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{device_laws, organization_laws};
    use crate::medium::DramSpec;
    use crate::medium::dram::Dram;
    use crate::request::{Device, Request};
    use proptest::prelude::*;

    #[test]
    fn the_organizations_laws_hold() {
        let spec =
            DeviceAloneSpec { capacity: Size::from_bytes(1 << 24), line: Size::from_bytes(64) };
        let dram = DramSpec::of_part("ddr4-2400-8gb-x8", 1);
        organization_laws(|check_data| {
            let machine = Surroundings {
                os: None,
                dram: Some(&dram),
                store: None,
                link: None,
                line: spec.line(),
                check_data,
            };
            spec.build(&machine).expect("it needs nothing else")
        });
    }

    #[test]
    fn a_memory_whose_controller_takes_no_time_keeps_the_laws() {
        device_laws(|| Dram::new(&without_latency(), 1 << 24, 64));
    }

    /// A memory whose clock is 1 ns, and whose controller takes no time.
    fn without_latency() -> DramSpec {
        DramSpec {
            controller_latency: tierscope_units::Duration::from_picoseconds(0),
            data_rate: Some("2000MT/s".parse().unwrap()),
            ..DramSpec::of_part("ddr4-2400-8gb-x8", 1)
        }
    }

    proptest! {
        #[test]
        fn what_is_due_at_the_time_of_a_request_may_be_done_before_it_or_with_it(
            script in proptest::collection::vec((0..60u64, 0..2_000u64, any::<bool>()), 1..200),
        ) {
            let spec = without_latency();
            let play = |first: bool| {
                let mut dram = Dram::new(&spec, 1 << 24, 64);
                let (mut now_ps, mut out) = (0, Vec::new());
                for (id, (gap, line, write)) in (0..).zip(&script) {
                    now_ps += gap * 1_000;
                    dram.advance(if first { now_ps } else { now_ps.saturating_sub(1) }, &mut out);
                    let (address, bytes) = (line * 64, 64);
                    let one = Request { id, address, bytes, write: *write, background: false };
                    while dram.submit(now_ps, one).is_err() {
                        let next_ps = dram.next_event_ps().unwrap();
                        now_ps = next_ps.next_multiple_of(1_000).max(now_ps);
                        dram.advance(now_ps, &mut out);
                    }
                }
                dram.advance(u64::MAX / 2, &mut out);
                let mut ends: Vec<_> = out.iter().map(|done| (done.id, done.at_ps)).collect();
                ends.sort_unstable();
                ends
            };
            prop_assert_eq!(play(true), play(false));
        }
    }
}
