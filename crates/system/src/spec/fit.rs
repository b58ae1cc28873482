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
            let reserved = match system.reserved_bytes() {
                0 => String::new(),
                bytes => format!(", beside {} of its file system", Size::from_bytes(bytes)),
            };
            let reason = format!("{} has room for {room}{reserved}", system.name);
            // Of a count nothing is known but that it is too large.
            let is_size = value.trim_matches('"').parse::<Size>().is_ok();
            let (reason, less) = match is_size {
                true => (reason, format!("write {room} or less")),
                false => {
                    let mapped = Size::from_bytes(footprint.bytes);
                    (format!("the workload maps {mapped}, and {reason}"), "write less".into())
                }
            };
            problems.push(Problem {
                code: "contradiction",
                path: format!("workload.{}", footprint.parameter),
                value: value.to_owned(),
                reason,
                mend: format!(
                    "{less}, or give the machine a larger {}.capacity",
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
    /// the operating system pages, but for what its file system has there. Nothing of a description that
    /// lacks a part.
    pub(super) fn room(&self) -> Option<Size> {
        let memory_bytes = self.build_organization()?.memory_bytes();
        let store_bytes = self.paging().map_or(0, |(_, capacity_bytes)| capacity_bytes);
        let store_bytes = store_bytes.saturating_sub(self.reserved_bytes());
        Some(Size::from_bytes(memory_bytes.saturating_add(store_bytes)))
    }

    /// Bytes of the store that its file system has for itself: journal, bitmaps, inodes.
    fn reserved_bytes(&self) -> u64 {
        let of = || {
            let (paging, store_bytes) = self.paging()?;
            let system = paging.file_system.as_ref()?;
            Some(system.reserved_bytes(self.os.as_ref()?.page, Size::from_bytes(store_bytes)))
        };
        of().unwrap_or(0)
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
    use tierscope_model::os::file_system::FileSystemKind;
    use tierscope_model::os::file_system::layout::Layout;

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
    fn what_a_file_system_has_of_the_store_is_no_room() {
        let said = |sets: &[(&str, &str)], bytes: u64| {
            let sets: Vec<_> = sets.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            let machine = load("storage/quick", &sets).unwrap().spec;
            let footprint = Footprint { bytes, parameter: "table" };
            check_fit(&[machine], &footprint, "\"4GiB\"").to_string()
        };
        let system = |journal: &str| {
            format!(
                "{{ kind = \"ext4\", journal = \"ordered\", commit_interval = \"5s\", \
                 journal_capacity = \"{journal}\", barrier = \"none\", timestamp_interval = \"4ms\" }}"
            )
        };
        let (large, small) = (system("1GiB"), system("4MiB"));
        let all = [("storage.file_system", &*large)];
        // Of 2^20 blocks of 4 KiB: the journal, and 256 B for each of 2^18 inodes, at least.
        assert_eq!(said(&all, 3 << 30), "");
        let told = said(&all, (4352 << 20) - (1 << 30) - (64 << 20));
        assert!(
            told.contains("storage/quick has room for") && told.contains("its file system"),
            "{told}"
        );
        let most =
            Layout::new(FileSystemKind::Ext4, 4096, 4 << 30, (1 << 30) / 4096).reserved_bytes();
        assert_eq!(said(&all, (4352 << 20) - most), "");
        assert_eq!(said(&all, (4352 << 20) - most + 1).lines().count(), 1);
        assert_eq!(said(&[("storage.file_system", &*small)], (4352 << 20) - most + 1), "");
    }

    #[test]
    fn a_count_that_is_too_large_is_not_told_to_be_a_size() {
        let machine = load("hybrid/quick", &[]).unwrap().spec;
        let footprint = Footprint { bytes: 64 << 30, parameter: "files" };
        assert_eq!(
            check_fit(&[machine], &footprint, "100000").to_string(),
            "error[contradiction]: workload.files = 100000: the workload maps 64GiB, and hybrid/quick has \
             room for 4GiB; write less, or give the machine a larger store.capacity"
        );
    }

    #[test]
    fn a_workload_as_large_as_a_machine_is_let_in_and_a_byte_more_is_not() {
        assert_eq!(said(4 << 30), "");
        assert_eq!(said((4 << 30) + 1).lines().count(), 2, "memory and swap hold it still");
        assert_eq!(said((4352 << 20) + 1).lines().count(), 3);
    }
}
