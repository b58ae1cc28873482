//! Chunks that lie close together, in the order in which they were first written: those of a table of which forks
//! write little.

use std::ops::Range;
use std::sync::Arc;

/// Slots of a piece: 2 to the power of these. So there are few pieces, and finding an element takes two steps in memory
/// that is small, and one in the piece.
const PIECE_BITS: u32 = 14;
/// The slot of every chunk that was never written.
const BLANK: u32 = 0;
/// As many pieces more than are needed may be there before what they hold is put together anew.
const MORE_PIECES: usize = 256;

/// Slots beside each other, each for a chunk. It grows until it is full.
#[derive(Clone, Debug)]
enum Piece<T> {
    Owned(Vec<T>),
    Shared(Arc<Vec<T>>),
}

impl<T: Copy> Piece<T> {
    #[inline]
    fn elements(&self) -> &[T] {
        match self {
            Piece::Owned(elements) => elements,
            Piece::Shared(elements) => elements,
        }
    }

    /// Whether nobody else has it, from now on.
    fn own(&mut self) -> bool {
        if let Piece::Shared(elements) = self
            && let Some(elements) = Arc::get_mut(elements)
        {
            *self = Piece::Owned(std::mem::take(elements));
        }
        matches!(self, Piece::Owned(_))
    }
}

/// A vector of fixed length over an implicit base value, whose chunks are copied on write. Of a chunk its slot is
/// kept, four bytes, and the chunks that have been written lie in a few large pieces.
#[derive(Clone, Debug)]
pub(super) struct Pieces<T> {
    len: u64,
    /// Elements of a chunk: 2 to the power of these.
    chunk_bits: u32,
    /// The slot of each chunk.
    slots: Vec<u32>,
    /// The first has one slot, and is never written: the blank one. The last is the one that is filled.
    pieces: Vec<Piece<T>>,
    /// Chunks that have been written.
    written: usize,
}

impl<T: Copy> Pieces<T> {
    /// A vector of `len` elements, all `base`, in chunks of a power of two of elements, at least `chunk_len`.
    pub(super) fn new(len: u64, base: T, chunk_len: u64) -> Self {
        let chunk_bits = chunk_len.next_power_of_two().ilog2();
        Pieces {
            len,
            chunk_bits,
            slots: vec![BLANK; len.div_ceil(1 << chunk_bits) as usize],
            pieces: vec![Piece::Shared(Arc::new(vec![base; 1 << chunk_bits]))],
            written: 0,
        }
    }

    /// Number of elements.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The chunk of an element, and its place there.
    #[inline]
    fn place(&self, i: u64) -> (usize, usize) {
        if i >= self.len {
            outside(i, self.len);
        }
        ((i >> self.chunk_bits) as usize, i as usize & ((1 << self.chunk_bits) - 1))
    }

    /// The piece of a slot, and where the slot begins there.
    #[inline]
    fn piece(&self, slot: u32) -> (usize, usize) {
        let in_piece = slot & ((1 << PIECE_BITS) - 1);
        ((slot >> PIECE_BITS) as usize, (in_piece as usize) << self.chunk_bits)
    }

    /// Element `i`.
    #[inline]
    pub(super) fn get(&self, i: u64) -> T {
        let (chunk, place) = self.place(i);
        let (piece, first) = self.piece(self.slots[chunk]);
        self.pieces[piece].elements()[first + place]
    }

    /// Elements of these numbers, in their order: of each chunk those in it, and the number of the first.
    pub(super) fn runs(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &[T])> {
        assert!(range.end <= self.len, "elements {range:?} of {}", self.len);
        let chunk_len = 1 << self.chunk_bits;
        let mut next = range.start;
        std::iter::from_fn(move || {
            let first = next;
            if first >= range.end {
                return None;
            }
            let (chunk, place) = self.place(first);
            next = (first - place as u64 + chunk_len).min(range.end);
            let (piece, begin) = self.piece(self.slots[chunk]);
            let elements = &self.pieces[piece].elements()[begin + place..];
            Some((first, &elements[..(next - first) as usize]))
        })
    }

    /// Element `i`, to be written.
    #[inline]
    pub(super) fn get_mut(&mut self, i: u64) -> &mut T {
        let (chunk, place) = self.place(i);
        let (piece, first) = self.piece(self.slots[chunk]);
        if let Piece::Shared(_) = self.pieces[piece] {
            return self.own_mut(chunk, place);
        }
        self.owned_mut(piece, first + place)
    }

    /// An element of a piece that is owned.
    #[inline]
    fn owned_mut(&mut self, piece: usize, place: usize) -> &mut T {
        match &mut self.pieces[piece] {
            Piece::Owned(elements) => &mut elements[place],
            Piece::Shared(_) => unreachable!("the piece is owned"),
        }
    }

    /// An element of a chunk that becomes one's own.
    #[cold]
    #[inline(never)]
    fn own_mut(&mut self, chunk: usize, place: usize) -> &mut T {
        let (piece, first) = self.own(chunk);
        self.owned_mut(piece, first + place)
    }

    /// Makes a chunk one's own; where it is then.
    fn own(&mut self, chunk: usize) -> (usize, usize) {
        let slot = self.slots[chunk];
        let (from, first) = self.piece(slot);
        if slot != BLANK && self.pieces[from].own() {
            return (from, first);
        }
        self.written += usize::from(slot == BLANK);
        let chunk_len = 1 << self.chunk_bits;
        let last = self.open();
        let Ok([from, Piece::Owned(into)]) = self.pieces.get_disjoint_mut([from, last]) else {
            unreachable!("the piece that is filled is owned, and that of the chunk is not");
        };
        let place = into.len();
        into.extend_from_slice(&from.elements()[first..][..chunk_len]);
        let slot = (last << PIECE_BITS) + (place >> self.chunk_bits);
        self.slots[chunk] = u32::try_from(slot).expect("a table has fewer than 2^32 slots");
        (last, place)
    }

    /// The number of the piece that is filled, which is owned and has room.
    fn open(&mut self) -> usize {
        let last = self.pieces.len() - 1;
        let full = 1 << (PIECE_BITS + self.chunk_bits);
        if last > 0 && self.pieces[last].elements().len() < full && self.pieces[last].own() {
            return last;
        }
        // Small tables stay small: after a piece that is full comes one of which all is wanted.
        let is_large = last > 0 && self.pieces[last].elements().len() == full;
        self.pieces.push(Piece::Owned(Vec::with_capacity(if is_large { full } else { 0 })));
        last + 1
    }

    /// Makes all of it such as may be shared: a clone shares it then.
    pub(super) fn share(&mut self) {
        for piece in &mut self.pieces {
            if let Piece::Owned(elements) = piece {
                *piece = Piece::Shared(Arc::new(std::mem::take(elements)));
            }
        }
    }

    /// Of the slots of all pieces as many hold nothing that anybody sees as hold something, or there are many pieces
    /// for them: all is put together anew, in pieces of one's own.
    pub(super) fn tidy(&mut self) {
        let of_pieces = self.pieces[1..].iter().map(|piece| piece.elements().len());
        let slots = of_pieces.sum::<usize>() >> self.chunk_bits;
        let needed = self.written >> PIECE_BITS;
        if slots <= 2 * self.written && self.pieces.len() <= needed + MORE_PIECES {
            return;
        }
        let mut anew = Pieces {
            slots: vec![BLANK; self.slots.len()],
            pieces: vec![self.pieces[0].clone()],
            written: 0,
            ..*self
        };
        let chunk_len = 1 << self.chunk_bits;
        for (chunk, &slot) in self.slots.iter().enumerate().filter(|(_, slot)| **slot != BLANK) {
            let (from, first) = self.piece(slot);
            let (into, place) = anew.own(chunk);
            if let Piece::Owned(elements) = &mut anew.pieces[into] {
                let chunk = &self.pieces[from].elements()[first..][..chunk_len];
                elements[place..][..chunk_len].copy_from_slice(chunk);
            }
        }
        *self = anew;
    }
}

#[cold]
#[inline(never)]
fn outside(i: u64, len: u64) -> ! {
    panic!("element {i} of {len}")
}

#[cfg(test)]
impl<T: Copy> Pieces<T> {
    /// Bytes of all chunks that were ever written.
    pub(super) fn touched_bytes(&self) -> u64 {
        (self.written * (size_of::<T>() << self.chunk_bits)) as u64
    }

    /// Chunks that nobody shares.
    pub(super) fn owned(&self) -> usize {
        let pieces = self.slots.iter().map(|&slot| &self.pieces[self.piece(slot).0]);
        pieces.filter(|piece| matches!(piece, Piece::Owned(_))).count()
    }
}
