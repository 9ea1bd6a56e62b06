//! A world with a cache: clients that write through it and read from it, and a judge of what they read.
//!
//! A read may be older than the server, but never older than a write that had returned before the read began (C-08), and
//! never older than an earlier read of the same informer. The judge finds a place in the history for each read, as a
//! linearizability checker does.

mod clients;
mod judge;
mod world;

pub(crate) use world::live;
