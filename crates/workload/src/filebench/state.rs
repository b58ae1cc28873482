//! The files of the sets while a program runs, and what each thread has open.

use super::{Fileset, Flowop};
use crate::op::FileId;
use std::collections::BTreeSet;
use tierscope_kernel::Random;

/// A file of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct File {
    /// The place of its set.
    pub set: usize,
    /// Its place in the set.
    pub entry: u32,
}

/// A file that a thread has open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub file: File,
    /// Where the next sequential transfer begins.
    pub position: u64,
}

/// The files of a set. Files are taken in turn, each time the next one that is there (or is not).
#[derive(Clone, Debug)]
pub(super) struct Set {
    first_file: FileId,
    /// Sizes that the model gives, and those that files have.
    nominal_bytes: Vec<u64>,
    size_bytes: Vec<u64>,
    openers: Vec<u32>,
    there: BTreeSet<u32>,
    missing: BTreeSet<u32>,
    /// From where on the next is looked for, of those that are there, and that are missing.
    rotors: [u32; 2],
}

impl Set {
    pub fn new(spec: &Fileset, first_file: FileId, seed: u64) -> Set {
        let mut sizes = Random::stream(seed, &format!("filebench/{}/sizes", spec.name));
        let mut chances = Random::stream(seed, &format!("filebench/{}/preallocated", spec.name));
        let nominal_bytes: Vec<u64> =
            (0..spec.entries).map(|_| spec.size.draw_whole(&mut sizes)).collect();
        let is_there: Vec<bool> = nominal_bytes
            .iter()
            .map(|_| chances.chance(spec.preallocated_percent / 100.0))
            .collect();
        let of =
            |there: bool| (0..spec.entries).filter(|i| is_there[*i as usize] == there).collect();
        let size = |(bytes, there): (&u64, &bool)| if *there { *bytes } else { 0 };
        Set {
            first_file,
            size_bytes: nominal_bytes.iter().zip(&is_there).map(size).collect(),
            nominal_bytes,
            openers: vec![0; spec.entries as usize],
            there: of(true),
            missing: of(false),
            rotors: [0; 2],
        }
    }

    /// The next file that is there, or that is missing.
    pub fn pick(&mut self, there: bool) -> Option<u32> {
        let (entries, rotor) = match there {
            true => (&self.there, &mut self.rotors[0]),
            false => (&self.missing, &mut self.rotors[1]),
        };
        let entry = *entries.range(*rotor..).next().or_else(|| entries.first())?;
        *rotor = entry + 1;
        Some(entry)
    }

    pub fn create(&mut self, entry: u32) {
        self.missing.remove(&entry);
        self.there.insert(entry);
        self.size_bytes[entry as usize] = 0;
    }

    pub fn delete(&mut self, entry: u32) {
        self.there.remove(&entry);
        self.missing.insert(entry);
        self.size_bytes[entry as usize] = 0;
    }

    /// Files that the set may have, and those that are there.
    pub fn entries(&self) -> u32 {
        self.nominal_bytes.len() as u32
    }

    pub fn count(&self) -> u64 {
        self.there.len() as u64
    }

    pub fn file(&self, entry: u32) -> FileId {
        self.first_file + entry
    }

    pub fn nominal_bytes(&self, entry: u32) -> u64 {
        self.nominal_bytes[entry as usize]
    }

    pub fn size_bytes(&self, entry: u32) -> u64 {
        self.size_bytes[entry as usize]
    }

    /// A write ends at this byte.
    pub fn grow(&mut self, entry: u32, end: u64) {
        let size = &mut self.size_bytes[entry as usize];
        *size = end.max(*size);
    }

    pub fn openers(&mut self, entry: u32) -> &mut u32 {
        &mut self.openers[entry as usize]
    }

    /// Sizes that the model gives.
    pub fn nominal(&self) -> impl Iterator<Item = u64> + '_ {
        self.nominal_bytes.iter().copied()
    }

    /// Bytes of all files at first.
    pub fn bytes(&self) -> u64 {
        self.size_bytes.iter().sum()
    }
}

/// What a flowop has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    pub operations: u64,
    /// Those that read or write a file's data.
    pub moves: u64,
    pub bytes: u64,
}

/// Where a thread stands.
#[derive(Clone, Debug)]
pub(super) struct ThreadState {
    /// The flowop that it does next, and how often before the one behind it.
    pub next: usize,
    pub iterations: u64,
    /// How often it has done all.
    pub loops: u64,
    pub ended: bool,
    open: Vec<Option<Open>>,
    rotor: usize,
    pub done: Vec<Done>,
    /// Of each limit: what was counted when it was last asked, and what it has in advance.
    pub limits: Vec<(u64, i64)>,
    /// Its own random choices.
    pub random: Random,
}

/// Descriptors that a thread has (Filebench's `THREADFLOW_MAXFD`).
pub(super) const DESCRIPTORS: usize = 128;

impl ThreadState {
    pub fn new(flowops: usize, seed: u64, number: usize) -> ThreadState {
        ThreadState {
            next: 0,
            iterations: 0,
            loops: 0,
            ended: flowops == 0,
            open: Vec::new(),
            rotor: 0,
            done: vec![Done::default(); flowops],
            limits: vec![(0, 0); flowops],
            random: Random::stream(seed, &format!("filebench/thread {number}")),
        }
    }

    /// The descriptor that an operation uses.
    pub fn descriptor(&mut self, flowop: &Flowop) -> usize {
        if flowop.descriptor > 0 || !flowop.rotates {
            return flowop.descriptor;
        }
        self.rotor = self.rotor.checked_sub(1).unwrap_or(DESCRIPTORS - 1);
        self.rotor
    }

    pub fn open(&mut self, descriptor: usize) -> &mut Option<Open> {
        if self.open.len() <= descriptor {
            self.open.resize(descriptor + 1, None);
        }
        &mut self.open[descriptor]
    }

    /// All that it has open.
    pub fn all_open(&self) -> impl Iterator<Item = Open> + '_ {
        self.open.iter().flatten().copied()
    }
}
