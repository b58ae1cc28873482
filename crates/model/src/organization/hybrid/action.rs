//! What the hybrid controller asks of whoever drives it.

use crate::request::LineResponse;

/// Names an action to a device, for [`super::Controller::complete`].
///
/// Tokens are small numbers: [`super::Controller::tokens`] bounds them. At any time no two actions
/// under way have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(u32);

/// What an action is for; the number beside it says for which request, miss or write-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A line of a request, to or from DRAM.
    Line,
    /// A line and its tag from DRAM, for a read.
    Probe,
    /// A tag from DRAM, for a write or a prefetch.
    Tag,
    /// The page of a miss, from the store.
    Fetch,
    /// The line of that page that is wanted first.
    Critical,
    /// The page of a miss, to DRAM.
    Fill,
    /// A page to be written back, from DRAM.
    Evict,
    /// A page to be written back, to the store.
    WriteBack,
    /// A line of tags, from DRAM.
    TagRead,
    /// A line of tags, to DRAM.
    TagWrite,
    /// Nothing any more: a guess was wrong, or only the tag was to be seen.
    Spare,
}

const PURPOSES: [Purpose; 11] = [
    Purpose::Line,
    Purpose::Probe,
    Purpose::Tag,
    Purpose::Fetch,
    Purpose::Critical,
    Purpose::Fill,
    Purpose::Evict,
    Purpose::WriteBack,
    Purpose::TagRead,
    Purpose::TagWrite,
    Purpose::Spare,
];
const PURPOSE_BITS: u32 = 4;

impl Token {
    pub(super) fn new(purpose: Purpose, index: u32) -> Self {
        Token(index << PURPOSE_BITS | purpose as u32)
    }

    pub(super) fn parts(self) -> (Purpose, u32) {
        (PURPOSES[(self.0 & ((1 << PURPOSE_BITS) - 1)) as usize], self.0 >> PURPOSE_BITS)
    }

    /// The token as a number, for a device's request.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The token of a number that [`Token::number`] gave.
    pub const fn from_number(number: u32) -> Self {
        Token(number)
    }
}

/// A place inside the controller that holds data. All places are numbered from 0, and a driver
/// that moves real data keeps an array of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The line of a request, by the number that [`super::Controller::submit`] gave.
    Request(u32),
    /// A fill buffer (a page), from this byte on.
    Fill {
        /// Which buffer.
        buffer: u32,
        /// Bytes from the start of the page.
        offset: u32,
    },
    /// A place in the write-back buffer (a page), from this byte on.
    WriteBack {
        /// Which place.
        buffer: u32,
        /// Bytes from the start of the page.
        offset: u32,
    },
    /// Nowhere: only the tag counts.
    Nowhere,
}

/// The line of a page that is wanted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Critical {
    /// To be given back when the line is in its buffer, before the page's token. A driver whose
    /// store brings pages only as a whole never gives it back.
    pub token: Token,
    /// Bytes from the start of what is read.
    pub offset: u32,
}

/// What the driver is to do, in the order in which the controller says it.
///
/// DRAM must keep the order of accesses that overlap, but may let demand pass what was given out
/// before it in the background. The store need not keep any order: the controller never has two
/// accesses to the same bytes under way there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read a page from the store, or a sector.
    ReadStore {
        /// To be given back at completion.
        token: Token,
        /// First byte in the store.
        address: u64,
        /// Bytes.
        bytes: u32,
        /// Where the data go.
        into: Place,
        /// The line that should come first, where critical lines do.
        critical: Option<Critical>,
        /// Nobody waits for it.
        background: bool,
    },
    /// Write a page to the store, or sectors of one, in the background.
    WriteStore {
        /// To be given back at completion.
        token: Token,
        /// First byte in the store.
        address: u64,
        /// Bytes.
        bytes: u32,
        /// Where the data come from; they stay there until completion.
        from: Place,
    },
    /// Read a line, a page or sectors of one from DRAM.
    ReadDram {
        /// To be given back at completion.
        token: Token,
        /// First byte in DRAM.
        address: u64,
        /// Bytes.
        bytes: u32,
        /// Where the data go.
        into: Place,
        /// Nobody waits for it.
        background: bool,
    },
    /// Write a line, a page or a sector to DRAM.
    WriteDram {
        /// To be given back at completion.
        token: Token,
        /// First byte in DRAM.
        address: u64,
        /// Bytes.
        bytes: u32,
        /// Where the data come from; they stay there until completion.
        from: Place,
        /// Nobody waits for it.
        background: bool,
    },
    /// Move data inside the controller; takes no time.
    Copy {
        /// From here.
        from: Place,
        /// To there.
        into: Place,
        /// Bytes: a line or a page.
        bytes: u32,
    },
    /// A request is done. For a read, the data are at the request's place, which is free again
    /// once this action is dealt with. The response's version is left to the driver.
    Respond {
        /// The number that [`super::Controller::submit`] gave.
        request: u32,
        /// The answer.
        response: LineResponse,
    },
}
