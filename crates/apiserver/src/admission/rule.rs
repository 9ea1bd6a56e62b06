//! The rules of webhooks and policies.

use serde::Deserialize;

use super::attributes::Operation;

/// What a webhook or a policy matches. Follows Kubernetes 1.37 (`RuleWithOperations`).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Rule {
    operations: Vec<String>,
    pub(super) api_groups: Vec<String>,
    pub(super) api_versions: Vec<String>,
    pub(super) resources: Vec<String>,
    pub(super) scope: String,
}

impl Rule {
    /// The rule of a webhook that could not be read.
    pub(super) fn of_all() -> Self {
        let all = || vec!["*".to_owned()];
        Self {
            operations: all(),
            api_groups: all(),
            api_versions: all(),
            resources: vec!["*/*".into()],
            scope: "*".into(),
        }
    }

    pub(super) fn has_operation(&self, operation: Operation) -> bool {
        self.operations.iter().any(|name| name == "*" || name == operation.name())
    }
}
