//! Links: what carries data.
