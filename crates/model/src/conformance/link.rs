//! Laws of links.

use super::{check, gaps};
use crate::link::{Direction, Kind, Link, Message};
use proptest::prelude::*;

const PS_PER_SECOND: u128 = 1_000_000_000_000;
/// Transfers of the longest script.
const LONGEST: usize = 120;
/// Repetitions over which rounding would add up.
const REPETITIONS: u64 = 2_000;

/// Checks every law of [`Link`] on links made by `make`, each direction of which moves at most
/// `bytes_per_second` bytes in a second, packets' overhead included; both together where they
/// share the link. A fraction is rounded up.
///
/// # Panics
/// When a law is broken, with the shortest script of transfers that breaks it.
pub fn link_laws<L: Link>(bytes_per_second: u64, make: impl Fn() -> L) {
    let duplex = make().is_duplex();
    let scripts = || proptest::collection::vec(asks(), 1..LONGEST);
    check(
        "the wire carries the payload, and more for more",
        (kinds(), sizes()),
        |&(kind, bytes)| {
            let link = make();
            let wire_bytes = |bytes| link.wire_bytes(Message::new(kind, bytes));
            assert!(wire_bytes(bytes) >= Message::new(kind, bytes).payload_bytes());
            assert!(wire_bytes(bytes + 1) >= wire_bytes(bytes));
        },
    );
    check("a transfer starts as soon as it can, and arrives in order", scripts(), |script| {
        let sent = Run::new(make()).play(script);
        for direction in [Direction::Down, Direction::Up] {
            let ends_ps = sent.iter().filter(|s| s.ask.direction == direction).map(|s| s.end_ps);
            assert!(ends_ps.is_sorted(), "{sent:?}");
        }
    });
    check("no window of time carries more than the bandwidth", scripts(), |script| {
        let sent = Run::new(make()).play(script);
        if duplex {
            for direction in [Direction::Down, Direction::Up] {
                let one_way = sent.iter().filter(|s| s.ask.direction == direction).copied();
                within_bandwidth(&one_way.collect::<Vec<_>>(), bytes_per_second);
            }
        } else {
            within_bandwidth(&sent, bytes_per_second);
        }
    });
    check("times of transfers in a row add up without rounding", rows(), |row| {
        add_up(&make, row);
    });
    if duplex {
        check("the directions do not see each other", scripts(), |script| {
            let both = Run::new(make()).play(script);
            for direction in [Direction::Down, Direction::Up] {
                let alone = alone(make(), script, direction);
                let shared = both.iter().filter(|s| s.ask.direction == direction).copied();
                assert_eq!(alone, shared.collect::<Vec<_>>(), "{direction:?}");
            }
        });
    }
    check("equal calls give equal answers", scripts(), |script| {
        assert_eq!(Run::new(make()).play(script), Run::new(make()).play(script));
    });
    check("a clone goes on identically", scripts(), |script| {
        let (head, tail) = script.split_at(script.len() / 2);
        let mut original = Run::new(make());
        original.play(head);
        let (mut clone, mut waiting) = (original.clone(), original.clone());
        let sent = clone.play(tail);
        assert_eq!(original.play(tail), sent, "the original");
        assert_eq!(waiting.play(tail), sent, "the clone that waited");
    });
}

/// A transfer, a while after the one before it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ask {
    gap_ps: u64,
    message: Message,
    direction: Direction,
}

/// Commands, lines, pages and larger.
fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(64), Just(4096), 1..9_000u64, 1..1u64 << 21]
}

fn asks() -> impl Strategy<Value = Ask> {
    let direction = prop_oneof![Just(Direction::Down), Just(Direction::Up)];
    (gaps(), kinds(), sizes(), direction).prop_map(|(gap_ps, kind, bytes, direction)| Ask {
        gap_ps,
        message: Message::new(kind, bytes),
        direction,
    })
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Request),
        Just(Kind::Answer),
        Just(Kind::Data),
        Just(Kind::Control),
        Just(Kind::Done),
    ]
}

/// A few sizes in one direction, to be sent over and over.
fn rows() -> impl Strategy<Value = (Vec<Message>, Direction)> {
    let direction = prop_oneof![Just(Direction::Down), Just(Direction::Up)];
    let message = (kinds(), 0..9_000u64).prop_map(|(kind, bytes)| Message::new(kind, bytes));
    (proptest::collection::vec(message, 1..4), direction)
}

/// What became of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sent {
    ask: Ask,
    start_ps: u64,
    end_ps: u64,
    /// When its direction was free again.
    free_ps: u64,
    wire_bytes: u64,
}

#[derive(Clone)]
struct Run<L> {
    link: L,
    now_ps: u64,
}

impl<L: Link> Run<L> {
    fn new(link: L) -> Self {
        Run { link, now_ps: 0 }
    }

    fn send(&mut self, ask: Ask) -> Sent {
        self.now_ps += ask.gap_ps;
        let first_ps = self.link.free_ps(ask.direction).max(self.now_ps);
        let (start_ps, end_ps) = self.link.transfer(self.now_ps, ask.message, ask.direction);
        assert_eq!(start_ps, first_ps, "{ask:?} at {} ps", self.now_ps);
        assert!(end_ps >= start_ps, "{ask:?} arrives at {end_ps} ps, sent at {start_ps} ps");
        let free_ps = self.link.free_ps(ask.direction);
        assert!(
            free_ps >= start_ps,
            "free at {free_ps} ps, though {ask:?} starts at {start_ps} ps"
        );
        Sent { ask, start_ps, end_ps, free_ps, wire_bytes: self.link.wire_bytes(ask.message) }
    }

    fn play(&mut self, script: &[Ask]) -> Vec<Sent> {
        script.iter().map(|ask| self.send(*ask)).collect()
    }
}

/// The transfers of one direction by themselves, at the times that they have among all.
fn alone<L: Link>(link: L, script: &[Ask], direction: Direction) -> Vec<Sent> {
    let mut run = Run::new(link);
    let mut sent = Vec::new();
    for ask in script {
        if ask.direction == direction {
            sent.push(run.send(*ask));
        } else {
            run.now_ps += ask.gap_ps;
        }
    }
    sent
}

/// Starts are whole picoseconds, so that a window may seem one shorter than it is.
fn within_bandwidth(sent: &[Sent], bytes_per_second: u64) {
    for (first, from) in sent.iter().enumerate() {
        let mut wire_bytes = 0;
        for until in &sent[first..] {
            wire_bytes += u128::from(until.wire_bytes);
            let window_ps = u128::from(until.free_ps - from.start_ps) + 1;
            assert!(
                wire_bytes * PS_PER_SECOND <= u128::from(bytes_per_second) * window_ps,
                "{wire_bytes} bytes in {window_ps} ps, from {from:?} to {until:?}"
            );
        }
    }
}

/// The time of `k` repetitions is `k` times that of one, to the next picosecond, whatever `k`, and
/// whether each is asked for at once or as the one before it has left.
fn add_up<L: Link>(make: impl Fn() -> L, (row, direction): &(Vec<Message>, Direction)) {
    let (mut at_once, mut in_turn) = (make(), make());
    let mut ends_ps = Vec::new();
    for _ in 0..REPETITIONS {
        for &message in row {
            at_once.transfer(0, message, *direction);
            in_turn.transfer(in_turn.free_ps(*direction), message, *direction);
        }
        assert_eq!(at_once.free_ps(*direction), in_turn.free_ps(*direction), "{row:?}");
        ends_ps.push(u128::from(at_once.free_ps(*direction)));
    }
    let (all, all_ps) = (u128::from(REPETITIONS), ends_ps[ends_ps.len() - 1]);
    for (repetitions, end_ps) in (1..).zip(ends_ps) {
        let off = (end_ps * all).abs_diff(repetitions * all_ps);
        assert!(off <= all, "{repetitions} times {row:?} take {end_ps} ps, {all} take {all_ps} ps");
    }
}

#[cfg(test)]
mod tests {
    //! The suite finds what it is for: links broken in one way each.

    use super::*;
    use crate::link::Lane;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Fault {
        /// None: a half-duplex link.
        None,
        /// Each transfer is rounded to whole nanoseconds.
        Rounds,
        /// A command takes no time.
        SendsCommandsForFree,
        /// It says that it is duplex, and is not.
        IsNotDuplex,
        /// A transfer starts later than it could.
        IsLazy,
        /// Long transfers arrive late, and are overtaken.
        Reorders,
    }

    const BYTES_PER_SECOND: u64 = 700_000_001;

    #[derive(Clone)]
    struct Broken {
        fault: Fault,
        lane: Lane,
    }

    impl Broken {
        fn new(fault: Fault) -> Self {
            Broken { fault, lane: Lane::new(BYTES_PER_SECOND) }
        }
    }

    impl Link for Broken {
        fn transfer(&mut self, now_ps: u64, message: Message, _: Direction) -> (u64, u64) {
            let now_ps = if self.fault == Fault::IsLazy { now_ps + 1 } else { now_ps };
            let command = message.kind == Kind::Request;
            let free = self.fault == Fault::SendsCommandsForFree && command;
            let wire_bytes = if free { 0 } else { self.wire_bytes(message) };
            let (start_ps, end_ps) = self.lane.transfer(now_ps, wire_bytes);
            if self.fault == Fault::Rounds {
                let lost_ps = end_ps.next_multiple_of(1_000) - end_ps;
                self.lane.transfer(end_ps, lost_ps * BYTES_PER_SECOND / 1_000_000_000_000);
            }
            let late_ps = if self.fault == Fault::Reorders { 3 * (end_ps - start_ps) } else { 0 };
            (start_ps, end_ps + late_ps)
        }

        fn free_ps(&self, _: Direction) -> u64 {
            let free_ps = self.lane.free_ps();
            if self.fault == Fault::Rounds { free_ps.next_multiple_of(1_000) } else { free_ps }
        }

        fn wire_bytes(&self, message: Message) -> u64 {
            message.payload_bytes() + 8
        }

        fn is_duplex(&self) -> bool {
            self.fault == Fault::IsNotDuplex
        }
    }

    fn is_found(fault: Fault) -> bool {
        let checked = || link_laws(BYTES_PER_SECOND, || Broken::new(fault));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(checked)).is_err()
    }

    #[test]
    fn each_fault_is_found() {
        assert!(!is_found(Fault::None), "a link need not be duplex");
        for fault in [
            Fault::Rounds,
            Fault::SendsCommandsForFree,
            Fault::IsNotDuplex,
            Fault::IsLazy,
            Fault::Reorders,
        ] {
            assert!(is_found(fault), "the suite passes a link that {fault:?}");
        }
    }
}
