//! Whole machines against what they have to be: closed formulas, each other, every option, and
//! committed counts. `docs/explanation/validation.md` says what each of these proves.

mod advice;
mod block_layer;
mod block_requests;
mod buffer_cache;
mod calls;
mod cold_reads;
#[path = "../common/mod.rs"]
mod common;
mod comparators;
mod controllers;
mod direct;
mod discard;
mod disk;
mod dramsim3;
mod driver;
mod drives;
mod equivalence;
mod faults;
mod formulas;
mod golden;
mod huge_pages;
mod hybrid;
mod journal;
mod limited;
mod long_reads;
mod metadata;
mod nvm;
mod nvme;
mod raid;
mod ramdisk;
mod ramulator2;
mod readahead;
mod readahead_at_once;
mod reclaim;
mod sensitivity;
mod shmem;
mod support;
mod swap;
mod tiering;
mod transfers;
mod variations;
mod write_back;
mod writers;
