//! The tag store of a cache whose policy is chosen when it is built.

use super::{Hit, Place, TagStore, WayRef};
use crate::replacement::{self, PolicyKind};

/// Makes of the list of policies [`AnyTagStore`] and its dispatch to them.
macro_rules! any {
    (
        policies { $( $module:ident::$policy:ident, $summary:literal; )* }
        media $media:tt
        links $links:tt
        devices $devices:tt
        organizations $organizations:tt
    ) => {
        /// A [`TagStore`] of any policy. Each inner loop is that of its policy: what is chosen by a
        /// branch, always the same, is which.
        #[derive(Clone, Debug)]
        pub enum AnyTagStore {
            $( #[doc = $summary] $policy(TagStore<replacement::$policy>) ),*
        }

        impl AnyTagStore {
            /// As [`TagStore::new`], with this policy.
            pub fn new(
                policy: PolicyKind,
                sets: u64,
                ways: usize,
                prefilled: bool,
                seed: u64,
            ) -> Self {
                match policy {
                    $( PolicyKind::$policy => {
                        AnyTagStore::$policy(TagStore::new(sets, ways, prefilled, seed))
                    } ),*
                }
            }

            /// As [`TagStore::fork`].
            pub fn fork(&mut self) -> Self {
                match self {
                    $( AnyTagStore::$policy(tags) => AnyTagStore::$policy(tags.fork()) ),*
                }
            }
        }

        /// Calls a method of the store, whichever it is.
        macro_rules! of_any {
            ($this:expr, $tags:ident => $call:expr) => {
                match $this {
                    $( AnyTagStore::$policy($tags) => $call ),*
                }
            };
        }
    };
}

crate::parts!(any);

/// Makes methods that are those of [`TagStore`].
macro_rules! as_tag_store {
    ($( fn $method:ident(&self $(, $name:ident: $kind:ty)*) $(-> $gives:ty)?; )*) => {
        $(
            #[doc = concat!("As [`TagStore::", stringify!($method), "`].")]
            #[inline]
            pub fn $method(&self $(, $name: $kind)*) $(-> $gives)? {
                of_any!(self, tags => tags.$method($($name),*))
            }
        )*
    };
    (mut $( fn $method:ident($($name:ident: $kind:ty),*) $(-> $gives:ty)?; )*) => {
        $(
            #[doc = concat!("As [`TagStore::", stringify!($method), "`].")]
            #[inline]
            pub fn $method(&mut self $(, $name: $kind)*) $(-> $gives)? {
                of_any!(self, tags => tags.$method($($name),*))
            }
        )*
    };
}

impl AnyTagStore {
    as_tag_store! {
        fn sets(&self) -> u64;
        fn dirty_lines(&self) -> u64;
        fn set_of(&self, line: u64) -> u32;
        fn frame(&self, at: WayRef) -> u64;
        fn lookup(&self, line: u64) -> Option<WayRef>;
        fn place(&self, line: u64) -> Place;
        fn flags(&self, at: WayRef) -> u8;
        fn next_dirty(&self, from: u64) -> Option<(WayRef, u64)>;
    }
    as_tag_store! {
        mut
        fn access(line: u64, write: bool) -> Option<Hit>;
        fn insert_at(at: WayRef, line: u64, flags: u8);
        fn invalidate(line: u64) -> Option<u8>;
        fn set_flags(at: WayRef, flags: u8);
        fn clear_flags(at: WayRef, flags: u8);
        fn set_dirty(at: WayRef);
        fn clear_dirty(at: WayRef);
    }
}
