//! `matchConditions` of webhooks and policies: the one place where they are evaluated.

#[cfg(feature = "cel")]
mod compiled;
#[cfg(not(feature = "cel"))]
mod unsupported;

use serde::Deserialize;

#[cfg(feature = "cel")]
pub(super) use compiled::{Conditions, request};
#[cfg(not(feature = "cel"))]
pub(super) use unsupported::Conditions;

use super::attributes::Attributes;
use super::invocation::Invocation;

/// An expression that a request has to meet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Condition {
    #[cfg(not(feature = "cel"))]
    name: String,
    #[cfg(feature = "cel")]
    expression: String,
}

/// Returns whether the conditions of a webhook match a request in the version of the webhook.
///
/// # Errors
/// Why they cannot be evaluated. The failure policy decides.
pub(super) fn matched(
    conditions: &Conditions,
    invocation: &Invocation,
    shown: &Attributes,
) -> Result<bool, String> {
    conditions.of_webhook(invocation, shown)
}
