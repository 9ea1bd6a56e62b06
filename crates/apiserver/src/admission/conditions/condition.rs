//! A condition as it is written.

use serde::Deserialize;

/// An expression that a request has to meet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::admission) struct Condition {
    #[cfg(not(feature = "cel"))]
    pub(super) name: String,
    #[cfg(feature = "cel")]
    pub(super) expression: String,
}
