//! Chunks of elements, and groups of chunks: what is shared until it is written.

use std::sync::Arc;

/// A run of elements, all chunks of a structure having the same length.
enum Chunk<T> {
    /// Never written: every element is the base value.
    Base,
    Owned(Box<[T]>),
    Shared(Arc<Box<[T]>>),
}

impl<T: Copy> Clone for Chunk<T> {
    fn clone(&self) -> Self {
        match self {
            Chunk::Base => Chunk::Base,
            Chunk::Owned(elements) => Chunk::Owned(elements.clone()),
            Chunk::Shared(elements) => Chunk::Owned(elements.as_ref().clone()),
        }
    }
}

impl<T: Copy> Chunk<T> {
    /// The elements; `blank` is a chunk of base values.
    #[inline(always)]
    fn read<'a>(&'a self, blank: &'a [T]) -> &'a [T] {
        match self {
            Chunk::Owned(elements) => elements,
            Chunk::Shared(elements) => elements,
            Chunk::Base => blank,
        }
    }

    /// The elements, to be written.
    #[inline(always)]
    fn write(&mut self, blank: &[T]) -> &mut [T] {
        if !matches!(self, Chunk::Owned(_)) {
            self.own(blank);
        }
        match self {
            Chunk::Owned(elements) => elements,
            _ => unreachable!("the chunk is owned by now"),
        }
    }

    #[cold]
    #[inline(never)]
    fn own(&mut self, blank: &[T]) {
        *self = match std::mem::replace(self, Chunk::Base) {
            Chunk::Base => Chunk::Owned(blank.into()),
            Chunk::Owned(elements) => Chunk::Owned(elements),
            Chunk::Shared(elements) => Chunk::Owned(Arc::unwrap_or_clone(elements)),
        };
    }

    /// From now on there may be other handles on the same elements: who writes copies before.
    fn share(&mut self) {
        *self = match std::mem::replace(self, Chunk::Base) {
            Chunk::Owned(elements) => Chunk::Shared(Arc::new(elements)),
            other => other,
        };
    }

    /// A second handle on the same elements, of a chunk that is shared.
    fn handle(&self) -> Self {
        match self {
            Chunk::Shared(elements) => Chunk::Shared(Arc::clone(elements)),
            Chunk::Base | Chunk::Owned(_) => Chunk::Base,
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Chunk::Base => 0,
            Chunk::Owned(elements) => size_of_val::<[T]>(elements) as u64,
            Chunk::Shared(elements) => size_of_val::<[T]>(elements.as_ref()) as u64,
        }
    }
}

const GROUP_BITS: u32 = 4;
const GROUP: usize = 1 << GROUP_BITS;

/// Some neighbouring chunks, which are forked together.
enum Group<T> {
    /// No chunk was ever written.
    Base,
    Owned(Box<[Chunk<T>]>),
    /// Each chunk is the base, or shared.
    Shared(Arc<Box<[Chunk<T>]>>),
}

impl<T: Copy> Clone for Group<T> {
    fn clone(&self) -> Self {
        match self {
            Group::Base => Group::Base,
            Group::Owned(chunks) => Group::Owned(chunks.clone()),
            Group::Shared(chunks) => Group::Owned(chunks.as_ref().clone()),
        }
    }
}

impl<T: Copy> Group<T> {
    /// The chunks, unless none was ever written.
    #[inline(always)]
    fn chunks(&self) -> &[Chunk<T>] {
        match self {
            Group::Owned(chunks) => chunks,
            Group::Shared(chunks) => chunks,
            Group::Base => &[],
        }
    }

    /// The chunks, to be written.
    #[inline(always)]
    fn write(&mut self) -> &mut [Chunk<T>] {
        if !matches!(self, Group::Owned(_)) {
            self.own();
        }
        match self {
            Group::Owned(chunks) => chunks,
            _ => unreachable!("the group is owned by now"),
        }
    }

    #[cold]
    #[inline(never)]
    fn own(&mut self) {
        *self = match std::mem::replace(self, Group::Base) {
            Group::Base => Group::Owned((0..GROUP).map(|_| Chunk::Base).collect()),
            Group::Shared(chunks) => Group::Owned(match Arc::try_unwrap(chunks) {
                Ok(chunks) => chunks,
                Err(chunks) => chunks.iter().map(Chunk::handle).collect(),
            }),
            owned => owned,
        };
    }

    /// From now on whoever has it copies before it writes.
    #[inline(always)]
    fn share(&mut self) {
        *self = match std::mem::replace(self, Group::Base) {
            Group::Owned(mut chunks) => {
                chunks.iter_mut().for_each(Chunk::share);
                Group::Shared(Arc::new(chunks))
            }
            other => other,
        };
    }

    /// A second handle on the same chunks, of a group that is shared.
    #[inline(always)]
    fn handle(&self) -> Self {
        match self {
            Group::Shared(chunks) => Group::Shared(Arc::clone(chunks)),
            Group::Base => Group::Base,
            Group::Owned(_) => unreachable!("the group has been shared"),
        }
    }

    fn fork(&mut self) -> Self {
        self.share();
        self.handle()
    }
}

/// Chunks by their number.
#[derive(Clone)]
pub(super) struct Chunks<T: Copy> {
    groups: Vec<Group<T>>,
    /// How many there are.
    pub(super) len: usize,
}

impl<T: Copy> Chunks<T> {
    /// So many that were never written.
    pub(super) fn new(len: usize) -> Self {
        Chunks { groups: (0..len.div_ceil(GROUP)).map(|_| Group::Base).collect(), len }
    }

    /// One more, never written.
    pub(super) fn push(&mut self) {
        self.len += 1;
        if self.len > self.groups.len() << GROUP_BITS {
            self.groups.push(Group::Base);
        }
    }

    /// The elements of a chunk.
    #[inline(always)]
    pub(super) fn read<'a>(&'a self, number: usize, blank: &'a [T]) -> &'a [T] {
        match self.groups[number >> GROUP_BITS].chunks().get(number & (GROUP - 1)) {
            Some(chunk) => chunk.read(blank),
            None => blank,
        }
    }

    /// The elements of a chunk, to be written.
    #[inline(always)]
    pub(super) fn write(&mut self, number: usize, blank: &[T]) -> &mut [T] {
        self.groups[number >> GROUP_BITS].write()[number & (GROUP - 1)].write(blank)
    }

    pub(super) fn fork(&mut self) -> Self {
        Chunks { groups: self.groups.iter_mut().map(Group::fork).collect(), len: self.len }
    }

    pub(super) fn touched_bytes(&self) -> u64 {
        self.groups.iter().flat_map(Group::chunks).map(Chunk::bytes).sum()
    }
}

#[cfg(test)]
impl<T: Copy> Chunks<T> {
    /// Chunks that nobody shares.
    pub(super) fn owned(&self) -> usize {
        let chunks = self.groups.iter().flat_map(Group::chunks);
        chunks.filter(|chunk| matches!(chunk, Chunk::Owned(_))).count()
    }
}
