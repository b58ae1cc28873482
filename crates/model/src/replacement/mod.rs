//! Replacement policies, shared by every cache.
//!
//! A policy says which way of a set goes when a new line needs a place. It is the one thing over
//! which the tag store's inner loop is generic (see [`crate::cache::TagStore`]). A new policy is
//! one file here and one line in [`crate::parts!`].

/// Makes of the list of policies their modules and [`PolicyKind`].
macro_rules! register {
    (
        policies { $( $module:ident::$policy:ident, $summary:literal; )* }
        media $media:tt
        links $links:tt
        devices $devices:tt
        organizations $organizations:tt
    ) => {
        $( mod $module; pub use $module::$policy; )*

        /// The replacement policies, by the name that a user writes.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize,
            schemars::JsonSchema,
        )]
        #[serde(rename_all = "kebab-case")]
        pub enum PolicyKind {
            $( #[doc = $summary] $policy ),*
        }

        /// Every policy, in the order of the list.
        pub const POLICIES: &[crate::parts::Part] =
            &[ $( crate::parts::Part { key: stringify!($module), summary: $summary } ),* ];

        impl PolicyKind {
            /// Every policy, in the order of the list.
            pub const ALL: &[PolicyKind] = &[ $( PolicyKind::$policy ),* ];

            /// Bits that hardware keeps of the order of each set of `ways` ways.
            pub fn hardware_bits(self, ways: u32) -> u32 {
                match self {
                    $( PolicyKind::$policy => $policy::hardware_bits(ways) ),*
                }
            }

            /// Whether a hit changes the order of its set.
            pub fn notes_uses(self) -> bool {
                match self {
                    $( PolicyKind::$policy => $policy::notes_uses() ),*
                }
            }

            /// Calls `visitor` with the type of this policy: the one place where a name becomes a
            /// type, so that each inner loop is compiled for its policy.
            pub fn visit<V: PolicyVisitor>(self, visitor: V) -> V::Output {
                match self {
                    $( PolicyKind::$policy => visitor.visit::<$policy>() ),*
                }
            }
        }
    };
}

crate::parts!(register);

mod lot;
mod recency;
mod rereference;

/// Bits that tell `count` things apart.
pub(crate) const fn bits_for(count: u32) -> u32 {
    u32::BITS - count.saturating_sub(1).leading_zeros()
}

/// The greatest number of ways of a set.
pub const MAX_WAYS: usize = 64;

/// Which way of a set goes when a new line needs a place.
///
/// A set's own state is `words(ways)` words that lie beside the set's tags, so that one access
/// touches one place in memory; they are all zero at the start, which must be a valid state. What
/// a policy keeps for the whole cache lives in the policy itself.
///
/// Law of every implementation: equal calls give equal answers; `victim` changes nothing, so that
/// asking twice gives the same way, and the way it gives is one of the candidates; `clone` goes on
/// identically.
pub trait Policy: Clone + Send {
    /// A policy for sets of `ways` ways (1 to [`MAX_WAYS`]). Policies that draw lots draw them
    /// from `seed`; the others ignore it.
    fn new(ways: usize, seed: u64) -> Self;

    /// Words of state of each set.
    fn words(ways: usize) -> usize;

    /// Bits that hardware keeps of the order of each set, for the size of a tag store.
    fn hardware_bits(ways: u32) -> u32;

    /// Whether [`Policy::on_hit`] changes anything of the order.
    fn notes_uses() -> bool {
        true
    }

    /// The line in `way` was used.
    fn on_hit(&mut self, state: &mut [u64], set: usize, way: usize);

    /// A new line was put into `way`.
    fn on_fill(&mut self, state: &mut [u64], set: usize, way: usize);

    /// The way that goes next, among the `candidates` (bit w is way w; at least one is set). Never
    /// asked while the set has an invalid way.
    fn victim(&self, state: &[u64], set: usize, candidates: u64) -> usize;

    /// The way whose hit is most likely and changes nothing, for the tag store to try first; by
    /// default there is none.
    #[inline]
    fn first_guess(_state: &[u64]) -> Option<usize> {
        None
    }
}

/// Something that is to be done with the type of a policy; see [`PolicyKind::visit`].
pub trait PolicyVisitor {
    /// What it gives.
    type Output;
    /// Does it with the policy `P`.
    fn visit<P: Policy>(self) -> Self::Output;
}
