//! Shared test support of kinformer, also for users' tests: a test suite for stores, scripted sources, an in-memory
//! server, a recording sink, and user code that detects locks held around it.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

pub mod fake_source;
pub mod reentrant;
pub mod spans;
pub mod store_suite;

pub use fake_source::{FakeSource, Item, RecordingSink, ScriptedSource};
