//! One tag store for on-chip caches, DRAM caches and page caches.
