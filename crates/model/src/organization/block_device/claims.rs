//! Which pages requests under way concern, by a hash: where none concerns the same, none need be looked for.

/// How many requests read and write what falls into each place.
#[derive(Clone, Debug)]
pub struct Claims {
    /// By page, of requests of one page: those that read, and those that write.
    pages: Box<[[u32; 2]; Self::PLACES]>,
    /// How many are of more pages.
    larger: u32,
}

impl Default for Claims {
    fn default() -> Self {
        Claims { pages: Box::new([[0; 2]; Self::PLACES]), larger: 0 }
    }
}

impl Claims {
    const BITS: u32 = 11;
    const PLACES: usize = 1 << Self::BITS;

    /// Where a page is counted (Knuth, "The Art of Computer Programming", vol. 3, section 6.4: multiplication by the
    /// golden ratio).
    #[inline]
    fn place(page: u64) -> usize {
        (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - Self::BITS)) as usize
    }

    #[inline]
    fn count(&mut self, (first, last): (u64, u64), write: bool) -> &mut u32 {
        if first == last {
            &mut self.pages[Self::place(first)][usize::from(write)]
        } else {
            &mut self.larger
        }
    }

    /// A request comes for these pages, the first and the last.
    #[inline]
    pub fn add(&mut self, pages: (u64, u64), write: bool) {
        *self.count(pages, write) += 1;
    }

    /// It has ended.
    #[inline]
    pub fn remove(&mut self, pages: (u64, u64), write: bool) {
        *self.count(pages, write) -= 1;
    }

    /// Whether a request that is counted may write what one for these pages touches, or touch what that writes.
    #[inline]
    pub fn may_conflict(&self, (first, last): (u64, u64), write: bool) -> bool {
        let [reads, writes] = self.pages[Self::place(first)];
        first != last || self.larger > 0 || writes > 0 || write && reads > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What conflicts with a request under way is never passed over, and of nothing under way nothing is left.
        #[test]
        fn no_conflict_is_passed_over(
            steps in prop::collection::vec((0..40u64, 1..3u64, any::<bool>(), any::<bool>()), 1..200),
        ) {
            let mut claims = Claims::default();
            let mut plain: Vec<((u64, u64), bool)> = Vec::new();
            for (first, count, write, ends) in steps {
                if ends && !plain.is_empty() {
                    let (pages, write) = plain.remove(first as usize % plain.len());
                    claims.remove(pages, write);
                    continue;
                }
                let pages = (first, first + count - 1);
                let conflicts = plain.iter().any(|&((from, to), writes)| {
                    (write || writes) && from <= pages.1 && pages.0 <= to
                });
                prop_assert!(!conflicts || claims.may_conflict(pages, write));
                claims.add(pages, write);
                plain.push((pages, write));
            }
            plain.into_iter().for_each(|(pages, write)| claims.remove(pages, write));
            prop_assert!((0..40).all(|page| !claims.may_conflict((page, page), true)));
        }
    }
}
