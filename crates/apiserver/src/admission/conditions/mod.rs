//! `matchConditions`: the one place where they are evaluated.

use super::attributes::Attributes;
use super::hooks::Hook;

/// Returns whether the conditions of a webhook match a request.
///
/// They are expressions in CEL, which this server does not evaluate: each is an error, and the failure policy decides.
///
/// # Errors
/// Why they cannot be evaluated.
pub(super) fn matched(hook: &Hook, _: &Attributes) -> Result<bool, String> {
    let Some(condition) = hook.match_conditions.first() else { return Ok(true) };
    let name = condition.get("name").and_then(|name| name.as_str()).unwrap_or("");
    Err(format!("matchCondition {name:?}: kinformer-apiserver does not evaluate CEL"))
}
