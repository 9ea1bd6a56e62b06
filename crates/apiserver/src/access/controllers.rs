//! What kube-controller-manager does for access: service accounts `default`, and aggregated cluster roles.
//!
//! It is done after the write that it follows from, as garbage collection.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::rules::list;
use crate::api::{Api, DryRun, Part, Write};
use crate::registry::Resource;
use crate::selectors::LabelSelector;
use crate::storage::Stored;

const MANAGER: &str = "clusterrole-aggregation-controller";
/// How often roles are aggregated that are selected by others.
const LEVELS: usize = 8;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AggregationRule {
    #[serde(deserialize_with = "list")]
    cluster_role_selectors: Vec<Selector>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Selector {
    match_labels: Option<Map<String, Value>>,
    #[serde(deserialize_with = "list")]
    match_expressions: Vec<Expression>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Expression {
    key: String,
    operator: String,
    #[serde(deserialize_with = "list")]
    values: Vec<String>,
}

impl Selector {
    /// Returns the selector; `None` for an invalid one, which selects nothing.
    fn parsed(&self) -> Option<LabelSelector> {
        let labels = self.match_labels.iter().flatten();
        let mut terms: Vec<String> =
            labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or(""))).collect();
        for Expression { key, operator, values } in &self.match_expressions {
            let values = values.join(",");
            terms.push(match operator.as_str() {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "Exists" => key.clone(),
                "DoesNotExist" => format!("!{key}"),
                _ => return None,
            });
        }
        LabelSelector::parse(&terms.join(",")).ok()
    }
}

impl Api {
    /// Does what follows from the last writes.
    pub(crate) fn finish_access(&self) {
        if !self.access.has_controllers() {
            return;
        }
        let registry = self.registry();
        let rbac = "rbac.authorization.k8s.io";
        let found = |group: &str, plural: &str| registry.get(group, "v1", plural).cloned();
        let (Some(namespaces), Some(accounts), Some(roles)) =
            (found("", "namespaces"), found("", "serviceaccounts"), found(rbac, "clusterroles"))
        else {
            return;
        };
        let last = || [&namespaces, &accounts, &roles].map(|resource| resource.store.last_write());
        self.access.unless_current(last, || {
            self.make_accounts(&namespaces, &accounts);
            for _ in 0..LEVELS {
                if !self.aggregate(&roles) {
                    break;
                }
            }
        });
    }

    fn make_accounts(&self, namespaces: &Resource, accounts: &Arc<Resource>) {
        let all = namespaces.store.snapshot().objects;
        for namespace in all.values().filter(|namespace| !namespace.is_terminating()) {
            let name = namespace.key().name();
            if accounts.store.get(&Self::key(accounts, name, "default")).is_none() {
                let object = Map::from_iter([("metadata".to_owned(), json!({"name": "default"}))]);
                // a namespace whose deletion has begun since needs none
                _ = self.create(accounts, name, object, Write::by_owner());
            }
        }
    }

    /// Sets the rules of the roles that aggregate others. Returns whether one has changed.
    ///
    /// Follows Kubernetes 1.37 (`ClusterRoleAggregationController`).
    fn aggregate(&self, roles: &Arc<Resource>) -> bool {
        let all = roles.store.snapshot().objects;
        let parsed = |stored: &Arc<Stored>| (stored.clone(), stored.parse());
        let all: Vec<(Arc<Stored>, Map<String, Value>)> = all.values().map(parsed).collect();
        let mut changed = false;
        for (stored, role) in &all {
            let rule = role.get("aggregationRule").filter(|rule| !rule.is_null());
            let rule = rule.and_then(|rule| serde_json::from_value::<AggregationRule>(rule.clone()).ok());
            let Some(rule) = rule else { continue };
            let mut rules = Vec::new();
            for selector in rule.cluster_role_selectors.iter().filter_map(Selector::parsed) {
                let selected = all.iter().filter(|(other, _)| {
                    other.key() != stored.key() && selector.matches(|label| other.label(label))
                });
                for (_, other) in selected {
                    for rule in other.get("rules").and_then(Value::as_array).into_iter().flatten() {
                        if !rules.contains(rule) {
                            rules.push(rule.clone());
                        }
                    }
                }
            }
            let present = role.get("rules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            if present == rules {
                continue;
            }
            let write = Write::of(Part::Object, DryRun::No, MANAGER);
            let written = self.modify(roles, "", stored.key().name(), write, &mut |mut role| {
                role.insert("rules".into(), rules.clone().into());
                Ok(role)
            });
            changed |= written.is_ok();
        }
        changed
    }
}
