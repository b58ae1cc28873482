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
        Some(Box::new(Oracle::new(&spec, machine.dram, self.line.bytes(), machine.check_data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::organization_laws;
    use crate::medium::DramSpec;

    #[test]
    fn the_organizations_laws_hold() {
        let spec =
            DeviceAloneSpec { capacity: Size::from_bytes(1 << 24), line: Size::from_bytes(64) };
        let dram = DramSpec::of_part("ddr4-2400-8gb-x8", 1);
        organization_laws(|check_data| {
            let machine = Surroundings {
                os: None,
                dram: &dram,
                store: None,
                link: None,
                line: spec.line(),
                check_data,
            };
            spec.build(&machine).expect("it needs nothing else")
        });
    }
}
