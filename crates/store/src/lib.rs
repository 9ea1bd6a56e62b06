//! Stores.

mod store;

pub use store::Store;
