//! Patching: each file that a patch changes is read, written anew under another name, which then takes its place.

use super::{
    BUFFER_BYTES, CHANGED_FILES, CHANGED_LINES, CHMOD, Calls, MEAN_BYTES, MEMORY_BYTES, RELEASES,
    RENAME, STAT, TEXT_BYTES, TREE_FILES, mapped, memory_of, size,
};
use crate::generator::prelude::Prelude;
use crate::generator::units::Units;
use crate::op::{FileId, Op, ThreadId};
use crate::stream::{FileInfo, Footprint};
use std::sync::Arc;
use tierscope_kernel::Counter;

/// Of a patch for a file: its changed lines, and half as many around them, our assumption.
const HUNK_BYTES: u64 = CHANGED_LINES * 3 / 2 * TEXT_BYTES / CHANGED_FILES;

/// Patches, one behind the other.
#[derive(Clone)]
pub(super) struct Patch {
    files: u64,
    patches: u64,
    /// Patch, place in it, file, and how often that was changed before.
    deeds: Arc<Vec<(u32, u32, u32, u32)>>,
    sizes: Counter,
}

impl Patch {
    pub fn new(files: u64, patches: u64, seed: u64) -> Patch {
        let chances = Counter::stream(seed, "kernel/changes");
        let mut changed = vec![0; files as usize];
        let mut deeds = Vec::new();
        for patch in 0..patches {
            let mut place = 0;
            for (file, before) in (0..files).zip(&mut changed) {
                let draw = chances.below_at(patch * files + file, RELEASES * TREE_FILES);
                if draw < CHANGED_FILES {
                    deeds.push((patch as u32, place, file as u32, *before));
                    place += 1;
                    *before += 1;
                }
            }
        }
        let sizes = Counter::stream(seed, "kernel/sizes");
        Patch { files, patches, deeds: Arc::new(deeds), sizes }
    }

    fn size(&self, file: u64) -> u64 {
        size(&self.sizes, file, MEAN_BYTES)
    }

    /// The bytes of a patch.
    fn patch_bytes(&self, patch: u64) -> u64 {
        self.deeds.iter().filter(|deed| u64::from(deed.0) == patch).count() as u64 * HUNK_BYTES
    }
}

impl Units for Patch {
    fn threads(&self) -> u32 {
        1
    }

    fn prelude(&self) -> Prelude {
        (0..self.patches).fold(mapped(1), |prelude, patch| {
            prelude.open((2 * self.files + patch) as FileId, self.patch_bytes(patch))
        })
    }

    fn units(&self, _thread: ThreadId) -> u64 {
        self.deeds.len() as u64
    }

    fn unit(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        let (patch, place, file, before) = self.deeds[unit as usize];
        let calls = &mut Calls { memory: memory_of(thread), out };
        let from = u64::from(place) * HUNK_BYTES;
        // The C library reads what the next piece of the patch needs and it does not have.
        for offset in
            (from.next_multiple_of(BUFFER_BYTES)..from + HUNK_BYTES).step_by(BUFFER_BYTES as usize)
        {
            calls.read_at((2 * self.files) as FileId + patch, offset, BUFFER_BYTES);
        }
        let bytes = self.size(u64::from(file));
        let version = |number: u32| 2 * file + number % 2;
        calls.other(STAT);
        calls.read(version(before), bytes);
        calls.write(version(before + 1), bytes);
        calls.other(CHMOD);
        calls.delete(version(before));
        calls.other(RENAME);
    }

    fn footprint(&self) -> Footprint {
        let tree: u64 = (0..self.files).map(|file| self.size(file)).sum();
        let patches = self.deeds.len() as u64 * HUNK_BYTES;
        Footprint { bytes: tree + patches + MEMORY_BYTES, parameter: "files" }
    }

    fn files(&self) -> Vec<FileInfo> {
        let version = |number: u64| FileInfo {
            name: format!("tree/{}.{}", number / 2, number % 2),
            size_bytes: if number.is_multiple_of(2) { self.size(number / 2) } else { 0 },
        };
        let patch = |number: u64| FileInfo {
            name: format!("patch/{number}"),
            size_bytes: self.patch_bytes(number),
        };
        (0..2 * self.files).map(version).chain((0..self.patches).map(patch)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::kernel::tests::{calls, sets};
    use crate::op::Call;
    use std::collections::{BTreeMap, BTreeSet};

    /// Each change reads what the one before left, and leaves a file in its place.
    #[test]
    fn each_patch_changes_files_that_the_one_before_left() {
        let asked = sets(&[("files", 200.into()), ("patches", 29.into())]);
        let all = calls("patch", &asked, 0);
        let mut there: BTreeSet<FileId> = (0..400).step_by(2).collect();
        let (mut changes, mut patches) = (0, BTreeMap::new());
        for call in all {
            match call {
                Call::Open { file, size } if file < 400 && size > 0 => {
                    assert!(there.contains(&file))
                }
                Call::Open { file, .. } if file < 400 => assert!(there.insert(file)),
                Call::Unlink { file, .. } => {
                    assert!(there.remove(&file));
                    changes += 1;
                }
                Call::Read { file, offset, length, .. } if file >= 400 => {
                    let next = patches.entry(file).or_insert(0);
                    assert_eq!(offset, *next, "a patch is read once, in order");
                    *next += length;
                }
                _ => {}
            }
        }
        assert_eq!((there.len(), patches.len()), (200, 29));
        let wanted = 29.0 * 200.0 * CHANGED_FILES as f64 / (RELEASES * TREE_FILES) as f64;
        assert!((f64::from(changes) / wanted - 1.0).abs() < 0.06, "{changes} instead of {wanted}");
    }

    /// A patch changes each file with the chance that the releases' lists give.
    #[test]
    fn files_are_changed_by_the_chance_of_a_release() {
        let patch = Patch::new(2000, 29, 5);
        let chance = CHANGED_FILES as f64 / (RELEASES * TREE_FILES) as f64;
        let (mut of_patches, mut of_tenths) = ([0; 29], [0; 10]);
        for (patch, _, file, _) in patch.deeds.iter() {
            of_patches[*patch as usize] += 1;
            of_tenths[*file as usize / 200] += 1;
        }
        crate::goodness::have_share(of_patches.iter().sum(), 29 * 2000, chance);
        of_patches.iter().for_each(|count| crate::goodness::have_share(*count, 2000, chance));
        of_tenths.iter().for_each(|count| crate::goodness::have_share(*count, 29 * 200, chance));
    }
}
