//! What the tests of kinformer share, and yours may use: a test suite for stores, sources with a script, an
//! in-memory server, a sink that records, and user code that asks for everything wherever it runs.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

pub mod fake_source;
pub mod reentrant;
pub mod store_suite;

pub use fake_source::{FakeSource, Item, RecordingSink, ScriptedSource};
