//! Whether machines can hold a workload, as far as that is known before it runs.

use super::SystemSpec;
use tierscope_units::{Problem, Problems, Size};
use tierscope_workload::Footprint;

/// A mistake for each machine that cannot hold what a workload maps. `value` is what the user said
/// of the workload's size.
///
/// A machine that is not refused may still run out of memory: for page tables, for files.
pub fn check_fit(systems: &[SystemSpec], footprint: &Footprint, value: &str) -> Problems {
    let mut problems = Problems::new();
    for system in systems {
        let Some(room) = system.room() else { continue };
        if footprint.bytes > room.bytes() {
            problems.push(Problem {
                code: "contradiction",
                path: format!("workload.{}", footprint.parameter),
                value: value.to_owned(),
                reason: format!("{} has room for {room}", system.name),
                mend: format!(
                    "write {room} or less, or give the machine a larger {}.capacity",
                    system.room_key()
                ),
                place: String::new(),
            });
        }
    }
    problems
}

impl SystemSpec {
    /// The most that a workload can map here, in whole units: main memory, and the store to which
    /// the operating system pages. Nothing of a description that lacks a part.
    pub(super) fn room(&self) -> Option<Size> {
        let memory_bytes = self.build_organization()?.memory_bytes();
        let store_bytes = self.paging().map_or(0, |(_, capacity_bytes)| capacity_bytes);
        Some(Size::from_bytes(memory_bytes.saturating_add(store_bytes)))
    }

    /// The table whose capacity decides the room.
    pub(crate) fn room_key(&self) -> &'static str {
        let store = self.stores().first().map(|(key, _)| *key);
        let own = || self.organizations().first().map(|(key, _)| *key);
        store.or_else(own).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::load;

    fn said(bytes: u64) -> String {
        let names = ["oracle/quick", "hybrid/quick", "storage/quick"];
        let systems: Vec<_> = names.iter().map(|name| load(name, &[]).unwrap().spec).collect();
        let footprint = Footprint { bytes, parameter: "table" };
        check_fit(&systems, &footprint, "\"64GiB\"").to_string()
    }

    #[test]
    fn a_workload_that_no_machine_can_hold_is_refused_for_each() {
        assert_eq!(
            said(64 << 30),
            "error[contradiction]: workload.table = \"64GiB\": oracle/quick has room for 4GiB; \
             write 4GiB or less, or give the machine a larger oracle.capacity\n\
             error[contradiction]: workload.table = \"64GiB\": hybrid/quick has room for 4GiB; \
             write 4GiB or less, or give the machine a larger store.capacity\n\
             error[contradiction]: workload.table = \"64GiB\": storage/quick has room for \
             4352MiB; write 4352MiB or less, or give the machine a larger store.capacity"
        );
    }

    #[test]
    fn a_workload_as_large_as_a_machine_is_let_in_and_a_byte_more_is_not() {
        assert_eq!(said(4 << 30), "");
        assert_eq!(said((4 << 30) + 1).lines().count(), 2, "memory and swap hold it still");
        assert_eq!(said((4352 << 20) + 1).lines().count(), 3);
    }
}
