//! Replacement policies, shared by every cache.
