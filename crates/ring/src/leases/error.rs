//! The errors of a run.

use crate::slots::Slots;

/// A run has ended although its token was not cancelled, or without having handed its slots over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The ring is running already, by this value or a clone.
    #[error("ring {ring}: it is running already")]
    Running {
        /// Namespace and name.
        ring: String,
    },
    /// The function of [`Shards`](crate::Shards) with this name has panicked. The slots were stopped; other processes own
    /// them when the Lease has expired.
    #[error("ring {ring}: Shards::{function} has panicked; slots {slots} were stopped")]
    Panicked {
        /// Namespace and name.
        ring: String,
        /// `own`, `release` or `stop`.
        function: &'static str,
        /// The slots that were owned.
        slots: Slots,
    },
    /// The process was to end, and has not handed its slots over in time, since work on them did not end or the API server
    /// did not answer. Other processes own them when the Lease has expired.
    #[error("ring {ring}: slots {slots} were not handed over in time")]
    NotHandedOver {
        /// Namespace and name.
        ring: String,
        /// The slots.
        slots: Slots,
    },
}
