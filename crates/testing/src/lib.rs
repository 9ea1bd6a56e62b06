//! Shared test support of kinformer, also for users' tests: a test suite for stores, scripted sources and HTTP
//! servers, an in-memory source, a recording sink, bounded waits, logs, and user code that detects locks held around it.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test fails by a panic")]

pub mod fake_source;
pub mod logs;
pub mod panics;
#[cfg(feature = "http")]
#[cfg_attr(docsrs, doc(cfg(feature = "http")))]
pub mod pod_bytes;
pub mod reentrant;
#[cfg(feature = "http")]
#[cfg_attr(docsrs, doc(cfg(feature = "http")))]
pub mod scripted_http;
pub mod spans;
pub mod store_suite;
pub mod tasks;
pub mod wait;
#[cfg(feature = "http")]
#[cfg_attr(docsrs, doc(cfg(feature = "http")))]
pub mod widget;

pub use fake_source::{FakeSource, Item, RecordingSink, ScriptedSource};
