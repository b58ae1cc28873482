//! Lots that can be looked at before they are drawn.

/// The finalizer of splitmix64 (Steele, Lea & Flood, OOPSLA 2014): every bit of the input reaches
/// every bit of the output.
#[inline]
fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// One of the `candidates` (at least one bit is set) with equal chance, by a hash of `seed`, `set`
/// and the number of `fills` so far.
#[inline]
pub(super) fn draw(seed: u64, set: usize, fills: u64, mut candidates: u64) -> usize {
    let step = fills.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let lot = mix(mix(seed ^ set as u64).wrapping_add(step));
    let count = u64::from(candidates.count_ones());
    let nth = ((u128::from(lot) * u128::from(count)) >> 64) as u64;
    for _ in 0..nth {
        candidates &= candidates - 1;
    }
    candidates.trailing_zeros() as usize
}
