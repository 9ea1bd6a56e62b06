//! `matchConditions` of webhooks and policies: the one place where they are evaluated.

#[cfg(feature = "cel")]
mod compiled;
mod condition;
#[cfg(not(feature = "cel"))]
mod unsupported;

#[cfg(feature = "cel")]
pub(super) use compiled::{Conditions, request};
#[cfg(not(feature = "cel"))]
pub(super) use unsupported::Conditions;

pub(super) use condition::Condition;
