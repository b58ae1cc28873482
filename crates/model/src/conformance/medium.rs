//! Laws of media.

use super::{check, gaps};
use crate::medium::{Medium, Operation};
use proptest::prelude::*;

/// Operations of the longest script.
const LONGEST: usize = 200;

/// Checks every law of [`Medium`] on media made by `make`.
///
/// # Panics
/// When a law is broken, with the shortest script of operations that breaks it.
pub fn medium_laws<M: Medium>(make: impl Fn() -> M) {
    let medium = make();
    let (bytes, pages) = (medium.page_bytes(), medium.pages());
    assert!(bytes.is_power_of_two(), "a page of {bytes} bytes");
    assert!(pages > 0, "a medium without pages");
    let scripts = || proptest::collection::vec(asks(pages), 1..LONGEST);
    check("an operation never ends before it starts", scripts(), |script| {
        Run::new(make()).play(script);
    });
    check("an operation that starts later never ends earlier", scripts(), |script| {
        let mut run = Run::new(make());
        for ask in script {
            let mut late = run.clone();
            late.now_ps += 1 + ask.gap_ps / 2;
            let (end_ps, late_ps) = (run.take(ask), late.take(ask));
            assert!(late_ps >= end_ps, "{ask:?} ends at {end_ps} ps, started later at {late_ps}");
        }
    });
    check("equal calls give equal answers", scripts(), |script| {
        assert_eq!(Run::new(make()).play(script), Run::new(make()).play(script));
    });
    check("a clone goes on identically", scripts(), |script| {
        let (head, tail) = script.split_at(script.len() / 2);
        let mut original = Run::new(make());
        original.play(head);
        let (mut clone, mut waiting) = (original.clone(), original.clone());
        let ends_ps = clone.play(tail);
        assert_eq!(original.play(tail), ends_ps, "the original");
        assert_eq!(waiting.play(tail), ends_ps, "the clone that waited");
    });
}

/// An operation, a while after the one before it has ended.
#[derive(Clone, Copy, Debug)]
struct Ask {
    gap_ps: u64,
    operation: Operation,
    page: u64,
}

/// Pages next to each other, at both ends, and anywhere.
fn asks(pages: u64) -> impl Strategy<Value = Ask> {
    let page = prop_oneof![0..pages.min(4), pages - pages.min(4)..pages, 0..pages];
    let operation = prop_oneof![Just(Operation::Read), Just(Operation::Write)];
    (gaps(), operation, page).prop_map(|(gap_ps, operation, page)| Ask { gap_ps, operation, page })
}

#[derive(Clone)]
struct Run<M> {
    medium: M,
    now_ps: u64,
}

impl<M: Medium> Run<M> {
    fn new(medium: M) -> Self {
        Run { medium, now_ps: 0 }
    }

    fn take(&mut self, ask: &Ask) -> u64 {
        let start_ps = self.now_ps + ask.gap_ps;
        self.now_ps = self.medium.start(start_ps, ask.operation, ask.page);
        assert!(self.now_ps >= start_ps, "{ask:?} of {start_ps} ps ends at {} ps", self.now_ps);
        self.now_ps
    }

    fn play(&mut self, script: &[Ask]) -> Vec<u64> {
        script.iter().map(|ask| self.take(ask)).collect()
    }
}

#[cfg(test)]
mod tests {
    //! The suite finds what it is for: media broken in one way each.

    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Fault {
        /// None: a medium with a row buffer, whose times depend on what was read before.
        None,
        /// It ends before it starts.
        EndsEarly,
        /// What starts later, in its view of the clock, is done earlier.
        KeepsAClock,
        /// A clone and its original have one row buffer.
        SharesState,
        /// It has no pages.
        IsEmpty,
    }

    #[derive(Clone)]
    struct Broken {
        fault: Fault,
        open_page: Rc<Cell<u64>>,
    }

    impl Broken {
        fn new(fault: Fault) -> Self {
            Broken { fault, open_page: Rc::new(Cell::new(u64::MAX)) }
        }
    }

    impl Medium for Broken {
        fn page_bytes(&self) -> u64 {
            64
        }

        fn pages(&self) -> u64 {
            if self.fault == Fault::IsEmpty { 0 } else { 9 }
        }

        fn start(&mut self, now_ps: u64, operation: Operation, page: u64) -> u64 {
            if self.fault != Fault::SharesState {
                self.open_page = Rc::new(Cell::new(self.open_page.get()));
            }
            let open = self.open_page.replace(page) == page;
            let time_ps = match (operation, open) {
                (Operation::Read, true) => 10,
                (Operation::Read, false) => 100,
                (Operation::Write, _) => 1_000,
            };
            match self.fault {
                Fault::EndsEarly if page == 8 => now_ps.saturating_sub(1),
                Fault::KeepsAClock => now_ps.div_ceil(4_000_000) * 4_000_000 - now_ps / 2 + now_ps,
                _ => now_ps + time_ps,
            }
        }
    }

    fn is_found(fault: Fault) -> bool {
        let checked = || medium_laws(|| Broken::new(fault));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(checked)).is_err()
    }

    #[test]
    fn each_fault_is_found() {
        assert!(!is_found(Fault::None), "times may depend on what was done before");
        for fault in [Fault::EndsEarly, Fault::KeepsAClock, Fault::SharesState, Fault::IsEmpty] {
            assert!(is_found(fault), "the suite passes a medium that {fault:?}");
        }
    }
}
