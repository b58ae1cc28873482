//! What is sent over a link for a request: protocols as messages, each by size and direction.

use super::{Direction, Kind, Message};

/// A message of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Where it goes.
    pub direction: Direction,
    /// What it is.
    pub kind: Kind,
    /// Its bytes; `None` for those of the data.
    pub bytes: Option<u64>,
    /// Time that its sender takes before it sends it, in picoseconds.
    pub after_ps: u64,
    /// Whether nobody waits until it has come: what is next goes right behind it, in the same
    /// direction.
    pub posted: bool,
}

impl Leg {
    /// A message down to the device, of `bytes` or of as many as the data have.
    pub const fn down(kind: Kind, bytes: Option<u64>) -> Self {
        Leg { direction: Direction::Down, kind, bytes, after_ps: 0, posted: false }
    }

    /// The same up to the host.
    pub const fn up(kind: Kind, bytes: Option<u64>) -> Self {
        Leg { direction: Direction::Up, ..Leg::down(kind, bytes) }
    }

    /// The same, sent so many picoseconds later.
    #[must_use]
    pub const fn after(self, after_ps: u64) -> Self {
        Leg { after_ps, ..self }
    }

    /// The same, right behind which the next one goes.
    #[must_use]
    pub const fn posted(self) -> Self {
        Leg { posted: true, ..self }
    }

    /// The message, for data of `data_bytes`.
    #[inline]
    pub fn message(&self, data_bytes: u64) -> Message {
        Message { kind: self.kind, bytes: self.bytes.unwrap_or(data_bytes) }
    }
}

/// The messages of a request, one after the other: each is sent when the one before it has come, or,
/// where that is posted, has left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// What tells the device of the request.
    pub command: Vec<Leg>,
    /// For the data of each of its pages: what brings them to the device after the command, or to
    /// the host once they have been read.
    pub data: Vec<Leg>,
    /// What tells the host, once all has been done.
    pub done: Vec<Leg>,
    /// What follows, which nobody waits for.
    pub after: Vec<Leg>,
}

impl Flow {
    /// What has to be sent: a request for data and the answer, or the data.
    pub fn plain(write: bool) -> Self {
        if write {
            Flow { data: vec![Leg::down(Kind::Data, None)], ..Flow::default() }
        } else {
            Flow {
                command: vec![Leg::down(Kind::Request, None)],
                data: vec![Leg::up(Kind::Answer, None)],
                ..Flow::default()
            }
        }
    }
}
