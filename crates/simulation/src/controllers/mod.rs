//! Worlds with controllers: a manager over the informers of a factory, in processes that begin and end.
//!
//! `world.rs` has the actors and the end, `process.rs` one process with its manager, `triggers.rs` the triggers and
//! `reconciler.rs` the reconcile function of the simulated user. `judge.rs` knows each event that a trigger receives and
//! each decision of the rate limiter: a reconciliation has a reason, at its time, and each reason leads to one.

mod exclusion;
mod judge;
mod process;
mod reconciler;
mod triggers;
mod world;

pub(crate) use world::live;
