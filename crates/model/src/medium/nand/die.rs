//! A die: what waits for it, what its array does, and what is in its registers.
//!
//! The array does one thing at a time, in all planes together. Beside it are page registers, and
//! cache registers, through which one group of pages crosses the channel while the array works on
//! the next of the same kind, where the flash has the commands for that (ONFI: read cache, page
//! cache program).

use super::Kind;
use std::collections::VecDeque;

/// What the array does.
#[derive(Clone, Copy, Debug)]
pub struct Working {
    /// The first operation of the group.
    pub group: u32,
    pub kind: Kind,
    pub phase: Phase,
    /// When the array ends, in [`Phase::Busy`]; what is left of it, in [`Phase::Suspending`].
    pub time_ps: u64,
    /// How often it has been suspended.
    pub suspends: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its command has not crossed the channel.
    Command,
    Busy,
    /// It is being suspended.
    Suspending,
    /// It has been read, and its data wait for the cache register.
    Finished,
}

/// A group of pages in the cache registers.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    /// The first operation of the group.
    pub group: u32,
    pub kind: Kind,
    /// A program: whether its data have come. A read: unused.
    pub loaded: bool,
    /// A read: operations whose data have not left.
    pub left: u32,
}

/// The state of a die.
#[derive(Clone, Debug, Default)]
pub struct Die {
    /// Reads that somebody waits for.
    pub reads: VecDeque<u32>,
    /// All else, in the order in which it came.
    pub others: VecDeque<u32>,
    pub array: Option<Working>,
    pub registers: Option<Registers>,
    /// What reads have interrupted.
    pub suspended: Option<Working>,
    /// Reads since the last of the others.
    pub passed: u32,
    /// Counts what makes an announced end of the array void.
    pub generation: u32,
    /// Picoseconds in which the array worked.
    pub busy_ps: u64,
}

/// What a die may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Read { demand: bool, passes: bool },
    Program,
    Erase,
}

/// What of a die's abilities matters for what may start.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    pub cache_read: bool,
    pub cache_program: bool,
    pub reads_ahead: u32,
    pub suspends: u32,
    pub suspend_ps: u64,
}

/// Which of two queues is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// That of reads; whether this one passes what has waited longer.
    Read {
        passes: bool,
    },
    Other,
}

impl Die {
    /// Whether nothing waits.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.reads.is_empty() && self.others.is_empty()
    }

    /// Whether array and registers are such that nothing can start, whatever waits: the array reads, which nothing
    /// suspends, or both have something.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.array.is_some_and(|it| it.kind == Kind::Read || self.registers.is_some())
    }

    /// Which queue is next, where `order_of` numbers operations as they came.
    #[inline]
    fn choose(&self, reads_ahead: u32, order_of: impl Fn(u32) -> u64) -> Option<Choice> {
        let other = self.others.front();
        let Some(&read) = self.reads.front() else { return other.map(|_| Choice::Other) };
        let older = other.is_some_and(|&other| order_of(other) < order_of(read));
        let passes = older || self.suspended.is_some();
        if passes && self.passed >= reads_ahead {
            return other.map(|_| Choice::Other);
        }
        Some(Choice::Read { passes })
    }

    /// Whether what is suspended goes on: no read may interrupt it any more.
    #[inline]
    pub fn resumes(&self, abilities: &Abilities) -> bool {
        let idle = self.array.is_none() && self.registers.is_none();
        let reads = !self.reads.is_empty() && self.passed < abilities.reads_ahead;
        self.suspended.is_some() && idle && !reads
    }

    /// Whether a read that waits interrupts what the array does at `now_ps`.
    #[inline]
    pub fn suspends(&self, abilities: &Abilities, now_ps: u64) -> bool {
        let Some(Working { kind, phase: Phase::Busy, time_ps, suspends, .. }) = self.array else {
            return false;
        };
        kind != Kind::Read
            && suspends < abilities.suspends
            && !self.reads.is_empty()
            && self.passed < abilities.reads_ahead
            && self.registers.is_none()
            && time_ps - now_ps > abilities.suspend_ps
    }

    /// What the die can start now, where `of` tells what an operation is, and numbers operations as
    /// they came.
    #[inline]
    pub fn next(&self, abilities: &Abilities, of: impl Fn(u32) -> (Kind, u64)) -> Option<Next> {
        let free = self.array.is_none();
        let unused = self.registers.is_none();
        let reading = self.registers.is_some_and(|registers| registers.kind == Kind::Read);
        let may_read = free && (unused || abilities.cache_read && reading);
        match self.choose(abilities.reads_ahead, |index| of(index).1)? {
            Choice::Read { passes } => may_read.then_some(Next::Read { demand: true, passes }),
            Choice::Other if self.suspended.is_some() => None,
            Choice::Other => match of(*self.others.front()?).0 {
                Kind::Read => may_read.then_some(Next::Read { demand: false, passes: false }),
                Kind::Program => {
                    let open = free || abilities.cache_program && self.is_programming();
                    (unused && open).then_some(Next::Program)
                }
                Kind::Erase => (free && unused).then_some(Next::Erase),
            },
        }
    }

    #[inline]
    fn is_programming(&self) -> bool {
        let programs = |array: Working| array.kind == Kind::Program && array.phase == Phase::Busy;
        self.array.is_some_and(programs)
    }
}
