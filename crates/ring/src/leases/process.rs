//! The processes of a ring, for people.

use std::sync::Arc;
use std::time::SystemTime;

use crate::member::Member;
use crate::slots::Slots;

/// A process of a ring, as this process has read its Lease last; from [`Ring::processes`](super::Ring::processes).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingProcess {
    /// Its name in the ring.
    pub identity: Arc<str>,
    /// What its Lease says; `None` if that cannot be read.
    pub member: Option<Member>,
    /// When it has renewed its Lease last, by its own clock. No process decides by it.
    pub renewed: Option<SystemTime>,
    /// The slots that the table gives to it. It may have stopped its work on them.
    pub slots: Slots,
}
