//! Conditions without the feature `cel`.

use super::super::attributes::Attributes;
use super::super::invocation::Invocation;
use super::condition::Condition;

/// The conditions of a webhook.
#[derive(Debug, Default)]
pub(in crate::admission) struct Conditions {
    first: Option<String>,
}

impl Conditions {
    pub(in crate::admission) fn compile(conditions: &[Condition]) -> Self {
        Self { first: conditions.first().map(|condition| condition.name.clone()) }
    }

    pub(in crate::admission) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// # Errors
    /// The conditions are not evaluated.
    pub(in crate::admission) fn of_webhook(&self, _: &Invocation, _: &Attributes) -> Result<bool, String> {
        match &self.first {
            None => Ok(true),
            Some(name) => Err(format!("matchCondition {name:?}: kinformer-apiserver has no feature `cel`")),
        }
    }
}
