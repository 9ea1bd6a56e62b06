//! What the tests of kinformer share, and yours may use: a test suite for stores, sources with a script, an
//! in-memory server, and a sink that records.

pub mod fake_source;
pub mod store_suite;

pub use fake_source::{FakeSource, Item, RecordingSink, ScriptedSource};
