//! Counters that only grow: what came between two times is their difference, field by field.

/// Makes a structure of counters (`u64` each), and its `since`.
macro_rules! counters {
    (
        $( #[$about:meta] )*
        pub struct $name:ident { $( $( #[$what:meta] )* pub $field:ident, )* }
    ) => {
        $( #[$about] )*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $( $( #[$what] )* pub $field: u64, )*
        }

        impl $name {
            /// What was counted since `before`, which is an earlier state of the same counters.
            #[must_use]
            pub fn since(&self, before: &$name) -> $name {
                $name { $( $field: self.$field - before.$field, )* }
            }

            /// Every count by its name.
            #[allow(dead_code, reason = "not every part's counts are told under their own names")]
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$( (stringify!($field), self.$field), )*].into_iter()
            }

            /// These counts and those of another part of the same kind, together.
            #[must_use]
            #[allow(dead_code, reason = "not every part has others of its kind beside it")]
            pub fn together(&self, other: &$name) -> $name {
                $name { $( $field: self.$field + other.$field, )* }
            }
        }
    };
}
