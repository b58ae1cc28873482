//! Large state that is forked, not copied.
//!
//! A vector and a map over an implicit base value. Memory is taken in chunks, when they are first
//! written; a fork shares all chunks with its origin, and each copies a chunk when it first writes
//! to it. Chunks are shared by groups, so that a fork of much costs little. Reads never allocate, and
//! writes to a chunk of one's own do no atomic operations.

mod cell;
mod chunks;
mod pieces;
mod table;

pub use cell::CowCell;
pub use table::CowTable;

use chunks::Chunks;
use std::fmt;
use std::sync::Arc;

const CHUNK_ELEMENTS: u64 = 4096;
const LEAF_BITS: u32 = 9;
/// Keys whose values lie beside each other in a [`CowMap`].
pub const LEAF: usize = 1 << LEAF_BITS;
const LEAF_MASK: u64 = LEAF as u64 - 1;

/// A vector of fixed length over an implicit base value, in chunks that are copied on write.
///
/// `clone` copies all touched chunks; [`fork`](CowVec::fork) shares them.
///
/// ```
/// use tierscope_kernel::CowVec;
/// let mut tags = CowVec::with_group(1 << 30, 0u32, 16);
/// tags.slice_mut(16 * 5, 16)[3] = 7;
/// let mut fork = tags.fork();
/// *fork.get_mut(16 * 5 + 3) = 8;
/// assert_eq!((tags.get(16 * 5 + 3), fork.get(16 * 5 + 3)), (7, 8));
/// ```
#[derive(Clone)]
pub struct CowVec<T: Copy> {
    len: u64,
    chunk_len: u64,
    /// ⌈2⁶⁴ / `chunk_len`⌉: division by multiplication.
    reciprocal: u64,
    blank: Arc<[T]>,
    chunks: Chunks<T>,
}

impl<T: Copy> CowVec<T> {
    /// A vector of `len` elements, all `base`, in chunks of a power of two of elements.
    pub fn new(len: u64, base: T) -> Self {
        CowVec::with_group(len, base, 1)
    }

    /// A vector of `len` elements, all `base`, whose chunks have `group` times a power of two
    /// elements, about 4,096 and at least one group: so groups (the ways of a set) never lie
    /// across chunks.
    ///
    /// # Panics
    /// If `group` is 0, or if `len` times the length of a chunk is not below 2⁶⁴.
    pub fn with_group(len: u64, base: T, group: u64) -> Self {
        assert!(group > 0, "a group has at least one element");
        CowVec::of(len, base, chunk_len(len, group))
    }

    fn of(len: u64, base: T, chunk_len: u64) -> Self {
        assert!(
            u128::from(len) * u128::from(chunk_len) < 1 << 64,
            "{len} elements in chunks of {chunk_len} are too many"
        );
        let chunks = len.div_ceil(chunk_len) as usize;
        CowVec {
            len,
            chunk_len,
            reciprocal: reciprocal(chunk_len),
            blank: vec![base; chunk_len as usize].into(),
            chunks: Chunks::new(chunks),
        }
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Element `i`.
    ///
    /// # Panics
    /// If `i` is not below the length.
    #[inline(always)]
    pub fn get(&self, i: u64) -> T {
        let (chunk, place) = self.place(i, 1);
        self.chunks.read(chunk, &self.blank)[place]
    }

    /// Element `i`, to be written: its chunk is copied first if it is shared, allocated if it was
    /// never written.
    ///
    /// # Panics
    /// If `i` is not below the length.
    #[inline(always)]
    pub fn get_mut(&mut self, i: u64) -> &mut T {
        let (chunk, place) = self.place(i, 1);
        &mut self.chunks.write(chunk, &self.blank)[place]
    }

    /// Elements `i` to `i + n` − 1. They lie in one chunk where `n` divides the length of a chunk
    /// (for instance the group, a divisor of it, or its double) and `i` is a multiple of `n`.
    ///
    /// # Panics
    /// If the elements are not all in the vector, or not in one chunk.
    #[inline]
    pub fn slice(&self, i: u64, n: u64) -> &[T] {
        let (chunk, place) = self.place(i, n);
        &self.chunks.read(chunk, &self.blank)[place..][..n as usize]
    }

    /// Elements `i` to `i + n` − 1, to be written. As for [`slice`](CowVec::slice) and
    /// [`get_mut`](CowVec::get_mut).
    ///
    /// # Panics
    /// If the elements are not all in the vector, or not in one chunk.
    #[inline]
    pub fn slice_mut(&mut self, i: u64, n: u64) -> &mut [T] {
        let (chunk, place) = self.place(i, n);
        &mut self.chunks.write(chunk, &self.blank)[place..][..n as usize]
    }

    /// A second vector with the same elements: all chunks are shared until one of the two writes
    /// to them. Costs a few nanoseconds per 64 chunks, and as much per chunk of those written since the last.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        CowVec { blank: Arc::clone(&self.blank), chunks: self.chunks.fork(), ..*self }
    }

    /// All elements, from the first on.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        let all = (0..self.chunks.len).flat_map(|chunk| self.chunks.read(chunk, &self.blank));
        all.copied().take(self.len as usize)
    }

    /// Bytes of all chunks that were ever written, those shared with forks included.
    pub fn touched_bytes(&self) -> u64 {
        self.chunks.touched_bytes()
    }

    /// Chunk, and place in it, of element `i`, the first of `n`.
    #[inline(always)]
    fn place(&self, i: u64, n: u64) -> (usize, usize) {
        assert!(i < self.len && n <= self.len - i, "elements {i} + {n} of {}", self.len);
        let chunk = ((u128::from(i) * u128::from(self.reciprocal)) >> 64) as u64;
        (chunk as usize, (i - chunk * self.chunk_len) as usize)
    }
}

impl<T: Copy> fmt::Debug for CowVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CowVec")
            .field("len", &self.len)
            .field("touched_bytes", &self.touched_bytes())
            .finish_non_exhaustive()
    }
}

/// `group` times a power of two, about [`CHUNK_ELEMENTS`], but not much more than `len`. At least
/// two, so that its reciprocal fits 64 bits.
fn chunk_len(len: u64, group: u64) -> u64 {
    let mut chunk_len = group;
    while chunk_len < 2 || chunk_len * 2 <= CHUNK_ELEMENTS && chunk_len < len {
        chunk_len *= 2;
    }
    chunk_len
}

/// ⌈2⁶⁴ / `chunk_len`⌉. Its product with `i` is too great by less than `i` × `chunk_len`, so that
/// the upper half is exactly `i` / `chunk_len` while `i` × `chunk_len` is below 2⁶⁴ (Granlund and
/// Montgomery, "Division by invariant integers using multiplication", PLDI 1994).
fn reciprocal(chunk_len: u64) -> u64 {
    (1u128 << 64).div_ceil(u128::from(chunk_len)) as u64
}

/// A map from all numbers of 64 bits to values, of which all but some are an implicit default.
///
/// Values lie in leaves of 512 neighbours, which are copied on write; a hash table finds them. `clone` copies all
/// leaves; [`fork`](CowMap::fork) shares them.
#[derive(Clone)]
pub struct CowMap<T: Copy> {
    blank: Arc<[T]>,
    index: Arc<Index>,
    /// Leaf 0 is never written.
    leaves: Chunks<T>,
    /// The keys of each leaf, without their lowest bits.
    prefixes: Arc<Vec<u64>>,
}

impl<T: Copy> CowMap<T> {
    /// A map in which each key has the value `default`.
    pub fn new(default: T) -> Self {
        CowMap {
            blank: vec![default; LEAF].into(),
            index: Arc::new(Index::default()),
            leaves: Chunks::new(1),
            prefixes: Arc::new(vec![0]),
        }
    }

    /// The value of `key`.
    #[inline(always)]
    pub fn get(&self, key: u64) -> T {
        let leaf = self.index.leaf(key >> LEAF_BITS);
        self.leaves.read(leaf as usize, &self.blank)[place(key)]
    }

    /// The values of the 512 keys that `key` is among, of which the first is a multiple of 512: one look-up for all of them.
    #[inline]
    pub fn leaf_of(&self, key: u64) -> &[T; LEAF] {
        let leaf = self.index.leaf(key >> LEAF_BITS);
        let values = self.leaves.read(leaf as usize, &self.blank);
        values.try_into().expect("a leaf has as many values as any")
    }

    /// Gives `key` the value `value`.
    #[inline]
    pub fn set(&mut self, key: u64, value: T) {
        *self.get_mut(key) = value;
    }

    /// The value of `key`, to be written: its leaf is copied first if it is shared, allocated if
    /// it was never written.
    #[inline(always)]
    pub fn get_mut(&mut self, key: u64) -> &mut T {
        let prefix = key >> LEAF_BITS;
        let mut leaf = self.index.leaf(prefix);
        if leaf == 0 {
            leaf = self.add_leaf(prefix);
        }
        &mut self.leaves.write(leaf as usize, &self.blank)[place(key)]
    }

    /// A second map with the same values: all leaves are shared until one of the two writes to
    /// them. Costs a few nanoseconds per 64 leaves, and as much per leaf of those written since the last.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        CowMap {
            blank: Arc::clone(&self.blank),
            index: Arc::clone(&self.index),
            leaves: self.leaves.fork(),
            prefixes: Arc::clone(&self.prefixes),
        }
    }

    /// Bytes of all leaves that were ever written, those shared with forks included.
    pub fn touched_bytes(&self) -> u64 {
        self.leaves.touched_bytes()
    }

    /// Whether no key was ever written.
    pub fn is_blank(&self) -> bool {
        self.leaves.len == 1
    }

    /// Keys and values, in order of the keys, where the value is not the default.
    pub fn iter(&self) -> impl Iterator<Item = (u64, T)> + '_
    where
        T: PartialEq,
    {
        self.iter_from(0)
    }

    /// The same, of keys from `first` on.
    pub fn iter_from(&self, first: u64) -> impl Iterator<Item = (u64, T)> + '_
    where
        T: PartialEq,
    {
        let within = |leaf: &usize| self.prefixes[*leaf] >= first >> LEAF_BITS;
        let mut order: Vec<usize> = (1..self.leaves.len).filter(within).collect();
        order.sort_unstable_by_key(|&leaf| self.prefixes[leaf]);
        order
            .into_iter()
            .flat_map(|leaf| self.leaf(leaf))
            .filter(move |(key, value)| *key >= first && *value != self.blank[0])
    }

    fn leaf(&self, leaf: usize) -> impl Iterator<Item = (u64, T)> + '_ {
        let first = self.prefixes[leaf] << LEAF_BITS;
        (first..=first | LEAF_MASK).zip(self.leaves.read(leaf, &self.blank).iter().copied())
    }

    /// Makes the leaf of `prefix`; its number.
    #[cold]
    #[inline(never)]
    fn add_leaf(&mut self, prefix: u64) -> u32 {
        let leaf = u32::try_from(self.leaves.len).expect("a map has fewer than 2^32 leaves");
        self.leaves.push();
        Arc::make_mut(&mut self.prefixes).push(prefix);
        Arc::make_mut(&mut self.index).insert(prefix, leaf);
        leaf
    }
}

impl<T: Copy> fmt::Debug for CowMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CowMap")
            .field("leaves", &(self.leaves.len - 1))
            .field("touched_bytes", &self.touched_bytes())
            .finish_non_exhaustive()
    }
}

/// The leaf of each prefix. A prefix takes the first free place from where its hash points; no more than half of the
/// places are taken, and none becomes free again.
#[derive(Clone)]
struct Index {
    /// Prefix and leaf; leaf 0 where the place is free. As many as a power of two, at least two.
    places: Vec<(u64, u32)>,
    taken: usize,
}

impl Default for Index {
    fn default() -> Self {
        Index { places: vec![(0, 0); 2], taken: 0 }
    }
}

impl Index {
    /// The leaf of a prefix; 0 for one that has none.
    #[inline(always)]
    fn leaf(&self, prefix: u64) -> u32 {
        self.places[self.place(prefix)].1
    }

    /// Where a prefix is, or may be put.
    #[inline(always)]
    fn place(&self, prefix: u64) -> usize {
        let last = self.places.len() - 1;
        // The highest bits of the product depend on all of the prefix (Knuth, TAOCP 3, 6.4).
        let mut place = (prefix.wrapping_mul(GOLDEN) >> (last as u64).leading_zeros()) as usize;
        while self.places[place].1 != 0 && self.places[place].0 != prefix {
            place = (place + 1) & last;
        }
        place
    }

    fn insert(&mut self, prefix: u64, leaf: u32) {
        if 2 * (self.taken + 1) > self.places.len() {
            let places = vec![(0, 0); 2 * self.places.len()];
            let small = std::mem::replace(self, Index { places, taken: 0 });
            for (prefix, leaf) in small.places.into_iter().filter(|(_, leaf)| *leaf != 0) {
                self.insert(prefix, leaf);
            }
        }
        let place = self.place(prefix);
        self.places[place] = (prefix, leaf);
        self.taken += 1;
    }
}

/// 2⁶⁴ by the golden ratio, odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline]
fn place(key: u64) -> usize {
    (key & LEAF_MASK) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// What is done to one of several forks.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Write(u64, u32),
        WriteGroup(u64, u32),
        Fork,
        Clone,
        Drop,
    }

    fn steps() -> impl Strategy<Value = Vec<(prop::sample::Index, Step)>> {
        let step = prop_oneof![
            6 => any::<(u64, u32)>().prop_map(|(i, value)| Step::Write(i, value)),
            4 => any::<(u64, u32)>().prop_map(|(i, value)| Step::WriteGroup(i, value)),
            2 => Just(Step::Fork),
            1 => Just(Step::Clone),
            1 => Just(Step::Drop),
        ];
        prop::collection::vec((any::<prop::sample::Index>(), step), 0..60)
    }

    fn check_vec(vec: &CowVec<u32>, model: &[u32], group: u64) {
        assert_eq!((vec.len(), vec.is_empty()), (model.len() as u64, model.is_empty()));
        for (i, &value) in model.iter().enumerate() {
            assert_eq!(vec.get(i as u64), value);
        }
        for (number, values) in model.chunks_exact(group as usize).enumerate() {
            assert_eq!(vec.slice(number as u64 * group, group), values);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn forks_equal_plain_vectors_that_are_copied(
            len in 1..20_000u64, group in prop_oneof![Just(1), 2..40u64, Just(5000)], steps in steps(),
        ) {
            let mut forks = vec![(CowVec::with_group(len, 7, group), vec![7; len as usize])];
            for (choice, step) in steps {
                let chosen = choice.index(forks.len());
                let (vec, model) = &mut forks[chosen];
                match step {
                    Step::Write(i, value) => {
                        *vec.get_mut(i % len) = value;
                        model[(i % len) as usize] = value;
                    }
                    Step::WriteGroup(i, value) if len >= group => {
                        let first = i % (len / group) * group;
                        vec.slice_mut(first, group).fill(value);
                        model[first as usize..][..group as usize].fill(value);
                    }
                    Step::WriteGroup(..) => {}
                    Step::Fork => {
                        let fork = (vec.fork(), model.clone());
                        forks.push(fork);
                    }
                    Step::Clone => {
                        let copy = (vec.clone(), model.clone());
                        forks.push(copy);
                    }
                    Step::Drop if forks.len() > 1 => drop(forks.swap_remove(chosen)),
                    Step::Drop => {}
                }
            }
            for (vec, model) in &forks {
                check_vec(vec, model, group);
            }
        }

        #[test]
        fn groups_and_their_divisors_never_lie_across_chunks(len in 1..1u64 << 40, group in 1..10_000u64) {
            let chunk_len = chunk_len(len, group);
            prop_assert!(chunk_len.is_multiple_of(group) && (chunk_len / group).is_power_of_two());
            prop_assert!(chunk_len <= CHUNK_ELEMENTS.max(group));
        }

        #[test]
        fn division_by_multiplication_is_exact(i in 0..1u64 << 49, group in 1..10_000u64) {
            let chunk_len = chunk_len(1 << 49, group);
            let vec = CowVec {
                len: 1 << 49,
                chunk_len,
                reciprocal: reciprocal(chunk_len),
                blank: vec![(); 0].into(),
                chunks: Chunks::new(0),
            };
            let expected = ((i / chunk_len) as usize, (i % chunk_len) as usize);
            prop_assert_eq!(vec.place(i, 1), expected);
            let edge = i / chunk_len * chunk_len;
            prop_assert_eq!(vec.place(edge, 1), (expected.0, 0));
        }

        #[test]
        fn forks_equal_ordered_maps_that_are_copied(bits in 0..=64u32, steps in steps()) {
            let mask = u64::MAX.checked_shr(64 - bits).unwrap_or(0);
            let mut forks = vec![(CowMap::new(7), BTreeMap::new())];
            let mut keys = vec![0, u64::MAX];
            for (choice, step) in steps {
                let chosen = choice.index(forks.len());
                let (map, model) = &mut forks[chosen];
                match step {
                    Step::Write(key, value) => {
                        map.set(key & mask, value);
                        model.insert(key & mask, value);
                        keys.push(key & mask);
                    }
                    Step::WriteGroup(key, value) => {
                        for key in (key & mask)..=(key & mask | 3) {
                            *map.get_mut(key) = value % 8;
                            model.insert(key, value % 8);
                            keys.push(key);
                        }
                    }
                    Step::Fork => {
                        let fork = (map.fork(), model.clone());
                        forks.push(fork);
                    }
                    Step::Clone => {
                        let copy = (map.clone(), model.clone());
                        forks.push(copy);
                    }
                    Step::Drop if forks.len() > 1 => drop(forks.swap_remove(chosen)),
                    Step::Drop => {}
                }
            }
            for (map, model) in &forks {
                for key in keys.iter().flat_map(|&key| [key, key ^ 1, key ^ 1 << 40]) {
                    prop_assert_eq!(map.get(key), model.get(&key).copied().unwrap_or(7));
                }
                let others = model.iter().map(|(&key, &value)| (key, value)).filter(|e| e.1 != 7);
                prop_assert!(map.iter().eq(others));
            }
        }
    }

    #[test]
    fn only_what_is_written_takes_memory() {
        let mut vec = CowVec::new(1 << 30, 0u64);
        assert_eq!(vec.get(1 << 29), 0);
        assert_eq!(vec.slice(4096, 4096), [0; 4096]);
        assert_eq!(vec.touched_bytes(), 0);
        *vec.get_mut(1 << 29) = 1;
        *vec.get_mut((1 << 29) + 1) = 1;
        assert_eq!(vec.touched_bytes(), 8 * CHUNK_ELEMENTS);

        let mut map = CowMap::new(0u32);
        assert_eq!(map.get(u64::MAX), 0);
        assert_eq!(map.touched_bytes(), 0);
        map.set(u64::MAX, 1);
        map.set(0, 1);
        assert_eq!(map.touched_bytes(), 2 * 4 * LEAF as u64);
    }

    #[test]
    fn a_fork_copies_only_the_chunks_that_it_writes() {
        let mut vec = CowVec::new(1 << 20, 0u64);
        (0..1 << 20).step_by(4096).for_each(|i| *vec.get_mut(i) = i);
        let mut fork = vec.fork();
        *fork.get_mut(5) = 1;
        assert_eq!((vec.chunks.owned(), fork.chunks.owned()), (0, 1));
        assert_eq!(fork.touched_bytes(), 8 << 20);
    }

    #[test]
    fn the_last_holder_of_a_chunk_takes_it_without_a_copy() {
        let mut vec = CowVec::new(4096, 0u64);
        *vec.get_mut(0) = 1;
        drop(vec.fork());
        let before = vec.slice(0, 4096).as_ptr();
        *vec.get_mut(0) = 2;
        assert_eq!(vec.slice(0, 4096).as_ptr(), before);
    }

    #[test]
    fn small_vectors_take_small_chunks() {
        let mut vec = CowVec::with_group(24, 0u8, 12);
        *vec.get_mut(23) = 1;
        assert_eq!(vec.touched_bytes(), 24);
    }

    #[test]
    #[should_panic(expected = "elements 8 + 4 of 10")]
    fn a_slice_past_the_end_is_refused() {
        CowVec::new(10, 0u8).slice(8, 4);
    }

    #[test]
    fn forks_may_run_on_other_threads() {
        fn is_send_and_sync<T: Send + Sync>() {}
        is_send_and_sync::<CowVec<u64>>();
        is_send_and_sync::<CowMap<u64>>();
    }
}
