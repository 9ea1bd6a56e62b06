//! What the tests of kinformer share, and yours may use.

pub mod fake_source;

pub use fake_source::{FakeSource, Item, RecordingSink, ScriptedSource};
