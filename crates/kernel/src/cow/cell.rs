//! A value of its own that is forked, not copied.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A value that a fork shares with its origin until one of the two writes to it: then it is copied, whole.
/// Writes to a value of one's own do no atomic operations.
///
/// ```
/// use tierscope_kernel::CowCell;
/// let mut list = CowCell::new(vec![1, 2]);
/// let mut fork = list.fork();
/// fork.push(3);
/// assert_eq!((list.len(), fork.len()), (2, 3));
/// ```
#[derive(Clone, Debug)]
pub struct CowCell<T>(Held<T>);

#[derive(Clone, Debug)]
enum Held<T> {
    Owned(T),
    Shared(Arc<T>),
    /// Never seen from outside: the value is being moved.
    Moving,
}

impl<T> CowCell<T> {
    /// A cell with this value.
    pub fn new(value: T) -> Self {
        CowCell(Held::Owned(value))
    }

    /// A second cell with the same value, which is shared until one of the two is written to.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        let shared = match std::mem::replace(&mut self.0, Held::Moving) {
            Held::Owned(value) => Arc::new(value),
            Held::Shared(value) => value,
            Held::Moving => unreachable!("nobody sees a value that is being moved"),
        };
        self.0 = Held::Shared(Arc::clone(&shared));
        CowCell(Held::Shared(shared))
    }
}

impl<T: Clone> CowCell<T> {
    #[cold]
    #[inline(never)]
    fn own(&mut self) {
        if let Held::Shared(value) = std::mem::replace(&mut self.0, Held::Moving) {
            self.0 = Held::Owned(Arc::unwrap_or_clone(value));
        }
    }
}

impl<T: Default> Default for CowCell<T> {
    fn default() -> Self {
        CowCell::new(T::default())
    }
}

impl<T> Deref for CowCell<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.0 {
            Held::Owned(value) => value,
            Held::Shared(value) => value,
            Held::Moving => unreachable!("nobody sees a value that is being moved"),
        }
    }
}

impl<T: Clone> DerefMut for CowCell<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        if !matches!(self.0, Held::Owned(_)) {
            self.own();
        }
        match &mut self.0 {
            Held::Owned(value) => value,
            _ => unreachable!("the value is owned by now"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forks_share_until_one_writes_and_the_last_takes_the_value_without_a_copy() {
        let mut one = CowCell::new(vec![1, 2, 3]);
        let at = one.as_ptr();
        let other = one.fork();
        assert_eq!((one.as_ptr(), other.as_ptr()), (at, at));
        one[0] = 7;
        assert_eq!((&*one, &*other), (&vec![7, 2, 3], &vec![1, 2, 3]));
        assert_ne!(one.as_ptr(), at);
        drop(one);
        let mut last = other;
        last[1] = 9;
        assert_eq!((last.as_ptr(), &*last), (at, &vec![1, 9, 3]));
    }
}
