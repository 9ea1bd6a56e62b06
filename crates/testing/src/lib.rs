//! What the tests of kinformer share, and yours may use.

pub mod store_suite;
