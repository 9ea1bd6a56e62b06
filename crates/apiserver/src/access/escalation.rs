//! Writes of roles and bindings: users grant only rights that they have, unless they may escalate or bind.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::attributes::Attributes;
use super::control::AccessControl;
use super::covers::{missing, quoted_list};
use super::identity::User;
use super::policy::RoleRef;
use super::rules::{Rule, list};
use crate::apply::quoted;
use crate::registry::{Kind, Registry};
use crate::status::{Status, Subject};

const GROUP: &str = "rbac.authorization.k8s.io";

/// A write of a role or a binding.
pub(crate) struct Granted<'a> {
    pub(crate) kind: &'a Kind,
    /// Empty for the cluster.
    pub(crate) namespace: &'a str,
    /// The name in the path; empty for a create.
    pub(crate) name: &'a str,
    pub(crate) before: Option<&'a Map<String, Value>>,
    pub(crate) after: &'a Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Written {
    #[serde(deserialize_with = "list")]
    rules: Vec<Rule>,
    role_ref: RoleRef,
}

/// Checks a write of a role or a binding; other objects are allowed.
///
/// Follows Kubernetes 1.37 (`policybased.Storage` of the four kinds).
///
/// # Errors
/// 403 for rights that the user does not have; for a binding 404 without the role, 500 for another kind of role.
pub(crate) fn check_granted(
    control: &AccessControl,
    registry: &Registry,
    user: &User,
    granted: &Granted<'_>,
) -> Result<(), Status> {
    let Granted { kind, namespace, name, before, after } = *granted;
    if kind.group != GROUP || !control.has_roles() || user.is_privileged() {
        return Ok(());
    }
    if before.is_some_and(|before| is_same_but_ownership(before, after)) {
        return Ok(());
    }
    let written: Written = serde_json::from_value(Value::Object(after.clone())).unwrap_or_default();
    let may = |resource: &str, name: &str, verb: &str| {
        let asked = Attributes::of_resource(GROUP, resource, namespace, name, verb);
        control.decide(registry, user, &asked).allowed
    };
    let check = Check { control, registry, user, namespace, kind, object: after };
    match kind.plural.as_str() {
        "roles" | "clusterroles" if may(&kind.plural, name, "escalate") => Ok(()),
        "roles" => check.owns(&written.rules),
        "clusterroles" => {
            check.owns(&written.rules)?;
            if aggregates(after) || before.is_some_and(aggregates) {
                let why = "must have cluster-admin privileges to use the aggregationRule";
                return check.owns(&everything()).map_err(|_| check.forbidden(why));
            }
            Ok(())
        }
        _ => {
            let RoleRef { kind: of, name } = &written.role_ref;
            let resource = match of.as_str() {
                "ClusterRole" => "clusterroles",
                "Role" => "roles",
                _ => "",
            };
            if !resource.is_empty() && may(resource, name, "bind") {
                return Ok(());
            }
            let policy = control.policy(registry);
            // Follows Kubernetes 1.37, where the error names the resource of the request.
            let rules = policy.rules_of(&written.role_ref, namespace).map_err(|status| match status.code() {
                404 => Status::not_found(kind.resource_subject(), name),
                _ => status,
            });
            check.owns(rules?)
        }
    }
}

struct Check<'a> {
    control: &'a AccessControl,
    registry: &'a Registry,
    user: &'a User,
    namespace: &'a str,
    kind: &'a Kind,
    object: &'a Map<String, Value>,
}

impl Check<'_> {
    fn forbidden(&self, why: &str) -> Status {
        let name = self.object.get("metadata").and_then(|metadata| metadata.get("name"));
        let name = name.and_then(Value::as_str).unwrap_or("");
        let subject = Subject { group: GROUP, resource: &self.kind.plural };
        Status::not_authorized(subject, name, why)
    }

    /// Follows Kubernetes 1.37 (`ConfirmNoEscalation`).
    fn owns(&self, granted: &[Rule]) -> Result<(), Status> {
        let policy = self.control.policy(self.registry);
        let (owned, errors) = policy.rules(self.user, self.namespace);
        let missing = missing(&owned, granted);
        if missing.is_empty() {
            return Ok(());
        }
        let (name, groups) = (quoted(&self.user.name), quoted_list(&self.user.groups));
        let mut why = format!(
            "user {name} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{missing}"
        );
        let errors = errors.text();
        if !errors.is_empty() {
            why = format!("{why}; resolution errors: [{errors}]");
        }
        Err(self.forbidden(&why))
    }
}

fn aggregates(role: &Map<String, Value>) -> bool {
    let selectors = role.get("aggregationRule").and_then(|rule| rule.get("clusterRoleSelectors"));
    selectors.and_then(Value::as_array).is_some_and(|selectors| !selectors.is_empty())
}

fn everything() -> [Rule; 2] {
    let all = || vec!["*".to_owned()];
    [
        Rule { verbs: all(), api_groups: all(), resources: all(), ..Rule::default() },
        Rule { verbs: all(), non_resource_urls: all(), ..Rule::default() },
    ]
}

/// Whether two states differ only in what garbage collection writes. Follows Kubernetes 1.37 (`IsOnlyMutatingGCFields`).
fn is_same_but_ownership(before: &Map<String, Value>, after: &Map<String, Value>) -> bool {
    let rest = |object: &Map<String, Value>| {
        let mut object = object.clone();
        object.remove("apiVersion");
        object.remove("kind");
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            for field in ["ownerReferences", "finalizers", "selfLink", "managedFields"] {
                metadata.remove(field);
            }
        }
        object
    };
    rest(before) == rest(after)
}
