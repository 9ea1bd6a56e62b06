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

use super::attributes::Attributes;
use super::invocation::Invocation;

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
