//! First-in first-out queues with a bound.

use std::collections::VecDeque;

/// A queue that holds at most `capacity` items and gives back what does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundedQueue<T> {
    items: VecDeque<T>,
    capacity: usize,
}

impl<T> BoundedQueue<T> {
    /// An empty queue with room for `capacity` items. With 0 it takes nothing.
    pub fn with_capacity(capacity: usize) -> Self {
        BoundedQueue { items: VecDeque::with_capacity(capacity), capacity }
    }

    /// Adds `item` at the end.
    ///
    /// # Errors
    /// Gives `item` back when the queue is full.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.is_full() {
            return Err(item);
        }
        self.items.push_back(item);
        Ok(())
    }

    /// Takes the oldest item.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.items.pop_front()
    }

    /// Takes the item at `index`, counted from the oldest; those behind it keep their order.
    /// `None` if there are not so many.
    #[inline]
    pub fn remove(&mut self, index: usize) -> Option<T> {
        self.items.remove(index)
    }

    /// The oldest item.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.items.front()
    }

    /// The oldest item, to be changed in place.
    #[inline]
    pub fn front_mut(&mut self) -> Option<&mut T> {
        self.items.front_mut()
    }

    /// Number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is no item.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether a push would fail.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.items.len() >= self.capacity
    }

    /// The bound.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// All items, oldest first.
    #[inline]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.items.iter()
    }

    /// All items, oldest first, to be changed in place.
    #[inline]
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> + ExactSizeIterator {
        self.items.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Push,
        Pop,
        Remove(usize),
        Change,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => Just(Step::Push),
            2 => Just(Step::Pop),
            1 => (0..10usize).prop_map(Step::Remove),
            1 => Just(Step::Change),
        ]
    }

    proptest! {
        #[test]
        fn the_queue_equals_a_list_with_a_bound(
            capacity in 0..8usize, steps in prop::collection::vec(step(), 0..200),
        ) {
            let mut queue = BoundedQueue::with_capacity(capacity);
            let mut list: Vec<usize> = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Push if list.len() < capacity => {
                        prop_assert_eq!(queue.push(number), Ok(()));
                        list.push(number);
                    }
                    Step::Push => prop_assert_eq!(queue.push(number), Err(number)),
                    Step::Pop => {
                        let expected = (!list.is_empty()).then(|| list.remove(0));
                        prop_assert_eq!(queue.pop(), expected);
                    }
                    Step::Remove(index) => {
                        let expected = (index < list.len()).then(|| list.remove(index));
                        prop_assert_eq!(queue.remove(index), expected);
                    }
                    Step::Change => {
                        queue.iter_mut().chain([&mut 0]).for_each(|item| *item += 1);
                        list.iter_mut().for_each(|item| *item += 1);
                        if let Some(front) = queue.front_mut() {
                            *front += 1;
                            list[0] += 1;
                        }
                    }
                }
                prop_assert_eq!(queue.front(), list.first());
                prop_assert!(queue.iter().eq(list.iter()));
                prop_assert_eq!((queue.len(), queue.is_empty()), (list.len(), list.is_empty()));
                prop_assert_eq!(queue.is_full(), list.len() == capacity);
                prop_assert_eq!(queue.capacity(), capacity);
            }
        }
    }
}
