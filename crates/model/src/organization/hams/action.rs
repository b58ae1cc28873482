//! What the address manager asks of whoever drives it.

use crate::request::{LineResponse, Manner};

/// What the driver is to do, in the order in which it is said.
///
/// The NVDIMM must keep the order of accesses that overlap, but may let demand pass what was given out
/// before it in the background. The drive need not keep any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read or write the NVDIMM.
    Memory {
        /// To be given back at completion.
        token: u32,
        /// First byte in the NVDIMM.
        address: u64,
        /// Bytes.
        bytes: u32,
        /// Whether it is written.
        write: bool,
        /// Nobody waits for it alone.
        background: bool,
    },
    /// Ring the doorbell: have the drive carry out a command.
    Command {
        /// To be given back when the drive has taken it, fetches it, with each of its pages, and at completion.
        command: u32,
        /// First byte in the drive.
        address: u64,
        /// Bytes: a page of the cache.
        bytes: u32,
        /// Whether the drive is written.
        write: bool,
        /// Force unit access.
        manner: Manner,
    },
    /// What the drive fetches of a command has been read: it may have it.
    Fetched {
        /// The command.
        command: u32,
        /// Its list of pages, by itself.
        list: bool,
    },
    /// A request is done. The response's version is left to the driver.
    Respond {
        /// The number that the manager gave it.
        request: u32,
        /// The answer.
        response: LineResponse,
    },
}

/// What an access to the NVDIMM is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// The line of a request.
    Line(u32),
    /// The line of a request that was not found, for its tag.
    Probe(u32),
    /// Part of a victim, from its frame.
    CloneRead { miss: u32, part: u32 },
    /// The same, into the slot of its clone.
    CloneWrite { miss: u32, part: u32 },
    /// A step of a command: an entry of a queue, a list, an interrupt, a mapping.
    Step(u32),
    /// Part of a page that the drive has read, into its frame.
    Fill { command: u32, part: u32 },
    /// Part of a page that the drive is to write, from its clone.
    Pull { command: u32 },
    /// Nothing waits for it.
    Posted,
}
