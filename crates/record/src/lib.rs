//! The recorder: it captures the loads, stores and system calls of a real program and hands them,
//! live, to machines or to a recording.
//!
//! The program runs under a *back end* that observes it; the only one so far is QEMU's user-mode
//! emulation with this library loaded as a plugin ([`qemu`]). Everything else is independent of
//! the back end: [`capture`] takes accesses and calls of threads in program order and makes
//! operations of them. They go from each of the program's processes (`family`), whatever programs
//! these run in their place (`exec`), to the `host`, a process of its own with a [`sink`] that takes
//! them. What happens is published to the process that started the program ([`publish`]), which owns
//! the result. [`launch`] is that process's side.

#![allow(unsafe_code)]

pub mod capture;
mod descriptors;
mod exec;
mod family;
mod file_key;
mod host;
pub mod isolate;
pub mod job;
mod kin;
pub mod launch;
pub mod marker;
mod pidfd;
pub mod publish;
pub mod qemu;
pub mod signals;
pub mod sink;
mod sites;
pub mod symbols;
mod synchronization;
mod syscalls;
