//! The examples of the README, tested as documentation so that they cannot be wrong. The tasks are in `main.rs`.
#![cfg_attr(doctest, doc = include_str!("../../README.md"))]
