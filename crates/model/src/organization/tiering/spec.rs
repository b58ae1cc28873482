//! What a user says of two nodes of memory.

use super::Tiering;
use crate::medium::dram::Dram;
use crate::organization::oracle::Oracle;
use crate::organization::tiered::Tiered;
use crate::organization::{
    DramSize, Nodes, OracleSpec, Organization, OrganizationDescription, Surroundings, TieredSpec,
};
use crate::os::reclaim::lists::Lists;
use crate::os::tiering::BalancingSpec;
use serde::{Deserialize, Serialize};
use tierscope_units::{Duration, Problems, Size};

/// `tiering`: DRAM and the store are two nodes of main memory; the kernel may move pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TieringSpec {
    /// DRAM, the first node: memory is it and the store together.
    pub capacity: Size,
    /// Lines that the host has under way at once in the store.
    pub host_queue_depth: u32,
    /// Time of the host for each line that it reads from the store, besides link and store.
    pub read_latency: Duration,
    /// The same for each line that it writes.
    pub write_latency: Duration,
    /// Lines of a page that the kernel's thread for reclaim has under way at once while it moves the page to the store.
    pub copy_lines: u32,
    /// How the kernel moves pages between the two; without it each stays where it came first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balancing: Option<BalancingSpec>,
}

const MOST_QUEUE: u32 = 4096;

impl TieringSpec {
    /// The store as a memory of lines.
    fn far(&self) -> TieredSpec {
        TieredSpec {
            host_queue_depth: self.host_queue_depth,
            read_latency: self.read_latency,
            write_latency: self.write_latency,
            long_reads: None,
            promotion: None,
        }
    }
}

impl TieringSpec {
    /// The kernel's lists, which it keeps where it moves pages, tell the frames of both nodes apart.
    fn check_frames(&self, path: &str, machine: &Surroundings<'_>, problems: &mut Problems) {
        let (Some((store, device)), Some(page)) = (machine.store, machine.page()) else { return };
        let most = Size::from_bytes(Lists::<1>::MOST_FRAMES.saturating_mul(page.bytes()));
        let (near, far) = (self.capacity, device.capacity());
        if near.bytes().saturating_add(far.bytes()) <= most.bytes() {
            return;
        }
        let (key, other) = (format!("{path}.capacity"), format!("{store}.capacity"));
        let (key, other, size, beside) =
            if near > far { (key, other, near, far) } else { (other, key, far, near) };
        let left = most.bytes().saturating_sub(beside.bytes()) / page.bytes() * page.bytes();
        let mend = match left {
            0 => "less for both".to_owned(),
            left => format!("{} or less", Size::from_bytes(left)),
        };
        problems.add(
            "impossible-value",
            key,
            size.to_string(),
            format!(
                "pages of {page} (os.page) that the kernel moves between two nodes are numbered with 32 bits, \
                 and with {beside} of {other} there are more"
            ),
            format!("write {mend}, or larger pages"),
        );
    }
}

impl OrganizationDescription for TieringSpec {
    fn name(&self) -> &'static str {
        "tiering"
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        problems.at_least(path, "capacity", self.capacity, Size::from_bytes(1 << 20));
        problems.at_least(path, "host_queue_depth", self.host_queue_depth, 1);
        problems.at_most(path, "host_queue_depth", self.host_queue_depth, MOST_QUEUE);
        problems.at_least(path, "copy_lines", self.copy_lines, 1);
        problems.at_most(path, "copy_lines", self.copy_lines, MOST_QUEUE);
    }

    fn check_with(&self, path: &str, machine: &Surroundings<'_>, problems: &mut Problems) {
        machine.check_memory(&format!("{path}.capacity"), self.capacity, problems);
        let line = machine.line.unwrap_or(Size::from_bytes(1));
        machine.check_store(line, "lines of the on-chip caches", problems);
        if let Some(balancing) = &self.balancing {
            balancing.check(&format!("{path}.balancing"), machine.page(), problems);
            self.check_frames(path, machine, problems);
        }
    }

    fn dram_size(&self) -> Option<DramSize> {
        Some(DramSize { key: "capacity", capacity: self.capacity, part: Size::from_bytes(1) })
    }

    fn nodes(&self) -> Option<Nodes<'_>> {
        Some(Nodes { near: self.capacity, balancing: self.balancing.as_ref() })
    }

    fn build(&self, machine: &Surroundings<'_>) -> Option<Box<dyn Organization>> {
        let far_bytes = machine.store?.1.capacity().bytes();
        let (store, line_bytes) = (machine.build_store()?, machine.line?.bytes());
        let near = OracleSpec { capacity: self.capacity };
        let near = Oracle::new(&near, machine.dram?, line_bytes, machine.check_data);
        let line = line_bytes as u32;
        let far =
            Tiered::new(&self.far(), far_bytes, line, None::<Dram>, store, machine.check_data);
        Some(Box::new(Tiering::new(self, near, far, line)))
    }
}
