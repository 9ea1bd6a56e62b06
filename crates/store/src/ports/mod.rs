//! Stores of client-go that nothing else in the workspace uses, built on the indexer.

mod expiring;
mod mutation_cache;
mod undelta;

pub use expiring::ExpiringStore;
pub use mutation_cache::{Adds, MutationCache, MutationCacheOptions};
pub use undelta::UndeltaStore;
