//! The ring of a program, as the server shows it. The program provides it.

use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::serialized::{optional_time, seconds};

/// A ring of processes, which share slots of hashes, as one of them knows it: from
/// [`Controllers::ring`](crate::Controllers::ring).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RingView {
    /// The name of the ring.
    pub name: String,
    /// The name of this process in it.
    pub identity: String,
    /// The number of slots.
    pub slots: u32,
    /// The hashed field of objects, such as `metadata.uid`.
    pub field: String,
    /// For how long a process owns its slots after a renewal. In JSON, durations are seconds.
    #[serde(serialize_with = "seconds")]
    pub lease_duration: Duration,
    /// The processes.
    pub processes: Vec<RingProcessView>,
    /// The slots that this process may process now.
    pub owned: Vec<SlotRange>,
    /// The slots that no process owns.
    pub unowned: Vec<SlotRange>,
    /// The slots that this process has begun to own, has given away, and has lost, each time counted.
    pub moved: MovedView,
    /// What prevents this process from owning its share.
    pub problem: Option<String>,
    /// The error of the last write of this process, if it has failed.
    pub error: Option<String>,
}

/// A process of a ring.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RingProcessView {
    /// Its name in the ring.
    pub identity: String,
    /// Its share, relative to the weights of the others, if it is known.
    pub weight: Option<u32>,
    /// What it does, in a word: `joined`, `leaving`, `gone`.
    pub state: String,
    /// When it has renewed its Lease last, by its own clock.
    #[serde(serialize_with = "optional_time")]
    pub renewed: Option<SystemTime>,
    /// The slots that belong to it.
    pub slots: Vec<SlotRange>,
}

/// Slots next to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SlotRange {
    /// The first slot.
    pub first: u32,
    /// The last slot.
    pub last: u32,
}

/// How many slots a process has begun to own, given away and lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MovedView {
    /// Slots that the process began to own.
    pub begun: u64,
    /// Slots that it has given away.
    pub released: u64,
    /// Slots that it had to stop.
    pub stopped: u64,
}
