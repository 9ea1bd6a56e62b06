//! A world with a cache: clients that write through it and read from it, and a judge of what they read.
//!
//! A read may be older than the server, but never older than a write that had returned before the read began (C-08), and
//! never older than an earlier read of the same informer. The judge finds a place in the history for each read, as a
//! linearizability checker does.
//!
//! A place is the number of changes before it. Each key has two floors, below which no place may be: one by writes that have
//! returned, and one by earlier gets and lists. Reads in progress keep the floors that they began with. Reads of the next
//! informer after a removal keep only the floors by writes. A list has a place for each key, and one for all keys of a part of
//! the informer if its queue is atomic. While a restored backup is not noticed by all informers, there are no floors (C-08h).
//!
//! The client of the cache is that of a service account: no request of a cache of namespaces is at the cluster scope (C-08j).
//! In some worlds the versions move on all the time by writes of other resources. In some the questions of the cache about
//! writes are refused for a while, or in the whole run: all of them, or those about one resource or one namespace.

mod clients;
mod judge;
mod refusals;
mod world;

pub(crate) use world::live;
