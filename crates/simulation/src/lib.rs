//! A cluster in a seed: runs the whole pipeline against a model API server in simulated time, and replays it exactly.
//!
//! [`run`] creates a world from a seed: a model of kube-apiserver ([`server`]), a [`SharedInformerFactory`] whose client
//! is a `tower::Service` of that server, handlers of all forms, and actors that write objects, break connections, and add and
//! remove handlers. Some seeds have controllers or a cache instead of handlers, processes that elect a leader, or processes that share objects out. Everything
//! that happens is a line of its [`Trace`]. Violations are lines of the actor `judge`.
//!
//! ```text
//! cargo xtask simulate --seeds 10000   # runs seeds on all cores, prints violations
//! cargo xtask simulate --trace 42      # prints the trace of a seed
//! cargo xtask simulate --shrink 42     # prints a shorter trace of a seed that fails, with fewer actors
//! cargo xtask simulate --mutants       # runs each mutant of the folder mutants until a seed finds it
//! ```
//!
//! # How it works
//!
//! A run is one thread, one current-thread runtime and a paused clock, which tokio advances to the next timer when no
//! task is ready. Every actor and the server have a generator of their own, forked from one that the seed creates, so
//! that a change of one actor does not change the choices of the others. The pipeline draws from fastrand's generator
//! of the thread, which [`Stepping`] seeds, and blocking handlers run on the thread of the runtime;
//! [`kinformer_processor::stepping`] lists what makes the pipeline deterministic. The tests run the seeds in two
//! processes and compare the hashes of the traces, because addresses and hash seeds differ between processes.
//!
//! # Why not a simulation framework
//!
//! tokio can seed the order of its `select!` (`Builder::rng_seed`), but only with `--cfg tokio_unstable` for the whole
//! build, which users do not have; with `biased` there is no order to seed, and a paused clock on a
//! current-thread runtime is deterministic as it is. madsim replaces the runtime by a package renamed to `tokio`, and
//! the C functions for time and random numbers, for every crate of the build: kube-client, hyper and tower-http would
//! have to follow, and it would not be the runtime that users have. turmoil simulates hosts and sockets on a paused
//! tokio runtime, but leaves hash seeds and `select!` as they are; here the transport is a `tower::Service`, so there is
//! no socket to simulate. shuttle schedules threads at each synchronisation operation, through replacements of the types
//! of std: it is for code with threads, where this workspace has loom. What carries over is the method: one source of
//! entropy, faults as actors, and a check of each seed in two runs.
//!
//! # Trade-offs
//!
//! Tasks run in tokio's order, which is one of many: the seed varies the order of tasks only by delays. Code on several
//! threads is out of scope, and so are sockets, TLS and HTTP framing.
//!
//! [`SharedInformerFactory`]: kinformer::SharedInformerFactory
//! [`Stepping`]: kinformer_processor::stepping::Stepping

mod actors;
mod api_server;
mod behind;
mod cached;
mod clock;
mod controllers;
mod crowd;
mod election;
mod ending;
mod factory;
mod foreign;
mod guests;
mod judge;
mod limits;
mod random;
mod record;
pub mod reference;
mod request_rate;
mod restores;
mod runtime;
mod scopes;
pub mod server;
mod sharding;
mod shrink;
mod snapshots;
mod state;
mod trace;
mod view;
mod world;

pub use limits::Limits;
pub use shrink::shrink;
pub use state::State;
pub use trace::{Line, Trace};
pub use world::run;
