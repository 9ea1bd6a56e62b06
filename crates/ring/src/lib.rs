//! Shares the objects of a Kubernetes cluster out among processes, by Leases: who owns which ranges of hashes, and how a range
//! moves to another process.
//!
//! A ring has 1,024 slots, equal ranges of the 64-bit FNV-1a hash that the server's shard selector uses (KEP-5866). Each
//! process owns its weight's share to within one slot, as at most [`MAX_RANGES`] ranges.
//!
//! [`Ring::leases`] is a process on an API server: it calls the [`Shards`] of the program for the slots that it owns. Controllers use
//! it by `Sharding` of `kinformer-controller`.
//!
//! The rest is the protocol without I/O. A [`Machine`] is one process: [`Machine::step`] takes an [`Input`] and returns
//! [`Output`]s.
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::time::Duration;
//! use kinformer_ring::{Config, Input, Machine, Output, Params, View};
//!
//! let mut process = Machine::new(Config::new("pod-a", "0c5b5a8e"))?;
//! let empty = View { version: 1, table: None, members: BTreeMap::new() };
//! let outputs = process.step(Duration::ZERO, Input::View(empty));
//! // the first process creates the table, and its own Lease
//! assert!(matches!(&outputs[..], [Output::Write(_), Output::Write(_)]));
//! # Ok::<(), kinformer_ring::InvalidConfig>(())
//! ```
//!
//! # The protocol
//!
//! 1. One Lease, the [`Table`], has the owner of each slot. It is the only authority: it changes by writes that require the
//!    version that was read, so of two processes that have seen a slot free one gets it.
//! 2. Each process has a Lease of its own ([`Member`]), which it renews. An owner in the table is a Lease, by its UID.
//! 3. A process owns a slot while the table gives it to its Lease, and for the renew deadline (10 s) since it *sent* the last
//!    renewal that a read has shown. The read has the table too, so its knowledge of the table is not older.
//! 4. From the Leases each process calculates who should own what ([`assign`]). It releases only its own slots: it ends their
//!    work, and then gives them to others by one write of the table, which has the resource version of the release. The new
//!    owner lists at this version or later, and goes on. There is no write for each object.
//! 5. A Lease that a process has seen unchanged for the lease duration and the allowed skew (15.5 s) by its own clock, has
//!    expired. It is closed by a write ([`MemberPhase::Gone`]) that requires the version that was seen. A closed Lease never owns
//!    anything again. Then its slots can be given to others.
//! 6. A Lease that does not exist, though the table names it, counts as closed after the same time.
//! 7. A table with another UID than the one before is followed after the same time, unless the process is new and all Leases
//!    follow it.
//!
//! # Why no slot has two owners
//!
//! The states of the table have one order. A slot passes from A to B by a write of A, which has ended its work before it sends the
//! write, and resumes it only when a newer table says that the write was not applied. Or it passes after the Lease of A was closed.
//! The closing write requires the version of A's last renewal, so A has no later one. A sent this one before the
//! observer saw it, and stops 10 s after; the observer waits 15.5 s after. The difference allows that one clock runs 1.5
//! times as fast, and writes in flight. Wall clocks are never compared.
//!
//! | what happens | what follows |
//! |---|---|
//! | a process is killed | its slots have another owner after at most the lease duration and 1 s |
//! | a process pauses for longer than the lease | [`Machine::valid_for`] is over when it goes on; it stops, and lists again |
//! | a process is isolated, or its reads are old | it stops after the renew deadline, also if its renewals still arrive |
//! | a wall clock jumps | nothing |
//! | a response is lost | the write may be applied later: the slots stay released until the table has another version |
//! | somebody deletes a Lease | its process stops when it sees this; the slots wait as in 6 |
//! | somebody edits or deletes the table | all processes stop; it is replaced, and followed as in 7: [`Problem`] |
//! | a process has other [parameters](Params) | it does not join before the others are gone: [`Problem::ParametersDiffer`] |
//! | two processes have one identity | the second waits for the Lease of the first: [`Problem::IdentityInUse`] |
//!
//! Not covered: somebody who deletes the table and all Leases of running processes just before another process starts, or who
//! writes a table with a correct checksum. Then two processes may act on a slot until the first one reads the change, at most for
//! the renew deadline. As with
//! every lease, a process that is stopped between the check of its deadline and a write can send this one write late: make
//! writes conditional.
//!
//! # Why a table
//!
//! Without one, the owners would be in the processes' own Leases, and each handover would name its receiver. But two processes
//! that start together see the same slots free, so one common object is needed in any case; and with it a handover is one
//! write. The price: if many processes release slots at the same time, their writes wait for each other. So at most four do that
//! at a time, in the order of their identities, and the others work on until it is their turn: a slot has no owner for at most
//! 100 ms when a process joins 20 others (round trips of 20 ms). A process that does not release its slots delays the
//! others by at most 2 s.
//!
//! # What a program must do that runs the protocol itself
//!
//! [`Ring`] does all of this. Give each start its own [`Config::incarnation`]. Read the Leases in the order of their versions. Answer each write once, also if
//! there is no response, within less than the renew period. Compare the clock with [`Machine::valid_for`] before each write to an
//! owned object. Use a clock that counts the time during which the computer is suspended.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod assignment;
mod config;
mod leases;
mod machine;
mod member;
mod slots;
mod table;
mod view;

pub use assignment::{Holder, assign};
pub use config::{Config, InvalidConfig, MAX_RANGES, MAX_SLOTS, Params};
pub use kinformer_kube::{ShardField, ShardSelector, fnv1a64};
pub use leases::{LABEL, Ring, RingBuilder, RingMetrics, RingProcess, RunError, Shards};
pub use machine::{Machine, Problem, Status};
pub use member::{InvalidMember, MEMBER, Member, MemberId, MemberPhase, Uid};
pub use slots::{InvalidSlots, Slots};
pub use table::{Slot, TABLE, Table, TableError};
pub use view::{Change, Input, ListFrom, Object, Output, StopReason, Target, View, Write, WriteResult};
