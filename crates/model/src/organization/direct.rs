//! `direct`: main memory is the store itself, without DRAM before it: a machine whose memory is
//! non-volatile, or Intel's Optane modules in App Direct mode.

use super::block_device::{BlockDevice, BlockDeviceSpec};
use super::{Organization, OrganizationDescription, Surroundings, whole};
use serde::{Deserialize, Serialize};
use tierscope_units::{Problems, Size};

/// `direct`: main memory is the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DirectSpec {
    /// Lines that the processor's memory controller has under way at once. What concerns a line that is
    /// being written waits for it there.
    pub host_queue_depth: u32,
}

/// Line requests go to the store as they are, and where its pages are larger than a line, a write reads
/// the rest of its page first: what a store alone does.
pub type Direct = BlockDevice;

/// Bytes of a line of whatever asks.
const LINE: Size = Size::from_bytes(64);

impl OrganizationDescription for DirectSpec {
    fn name(&self) -> &'static str {
        "direct"
    }

    fn needs_dram(&self) -> bool {
        false
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "host_queue_depth", self.host_queue_depth, 1);
        problems.at_most(path, "host_queue_depth", self.host_queue_depth, 4096);
    }

    fn check_with(&self, path: &str, machine: &Surroundings<'_>, problems: &mut Problems) {
        if let Some(line) = machine.line.filter(|line| *line != LINE) {
            problems.add(
                "contradiction",
                path.to_owned(),
                String::new(),
                format!("lines of the on-chip caches have {line}, and memory is asked for {LINE}"),
                format!("write {LINE} for the line of every cache"),
            );
        }
        if let (Some((key, store)), Some(page)) = (machine.store, machine.page()) {
            whole(&format!("{key}.capacity"), store.capacity(), "pages (os.page)", page, problems);
        }
    }

    fn build(&self, machine: &Surroundings<'_>) -> Option<Box<dyn Organization>> {
        let spec = BlockDeviceSpec { host_queue_depth: self.host_queue_depth };
        let (_, store) = machine.store?;
        let (page_bytes, capacity_bytes) = (store.page().bytes(), store.capacity().bytes());
        let device = machine.build_store()?;
        let made = BlockDevice::new(&spec, device, page_bytes, capacity_bytes, machine.check_data);
        Some(Box::new(made))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::organization_laws;
    use crate::device::DeviceDescription;
    use crate::device::nvm::tests::{buffered, spec};
    use crate::link::packet::tests::spec as link;

    #[test]
    fn the_organizations_laws_hold() {
        for (store, depth) in [(spec(), 32), (buffered(), 3)] {
            let link = link();
            organization_laws(|check_data| {
                let machine = Surroundings {
                    os: None,
                    dram: None,
                    store: Some(("nvm", &store as &dyn DeviceDescription)),
                    link: Some(&link),
                    line: Some(LINE),
                    check_data,
                };
                DirectSpec { host_queue_depth: depth }.build(&machine).expect("it has a store")
            });
        }
    }

    #[test]
    fn lines_of_other_sizes_are_refused() {
        let (store, link) = (spec(), link());
        let said = |line| {
            let machine = Surroundings {
                os: None,
                dram: None,
                store: Some(("nvm", &store as &dyn DeviceDescription)),
                link: Some(&link),
                line: Some(Size::from_bytes(line)),
                check_data: false,
            };
            let mut problems = Problems::new();
            DirectSpec { host_queue_depth: 8 }.check_with("direct", &machine, &mut problems);
            problems.len()
        };
        assert_eq!((said(64), said(128), said(32)), (0, 1, 1));
    }
}
