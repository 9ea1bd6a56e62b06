//! The roles and bindings of the storage, parsed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use serde::Deserialize;

use super::identity::{User, service_account_user};
use super::rules::{Rule, has, list};
use crate::apply::quoted;
use crate::registry::{Derived, Registry, Stores};
use crate::status::Status;
use crate::storage::ResourceStore;

const GROUP: &str = "rbac.authorization.k8s.io";
/// The resources that are read.
const RESOURCES: [&str; 4] = ["clusterroles", "roles", "clusterrolebindings", "rolebindings"];

/// All roles and bindings at one time.
#[derive(Debug, Default)]
pub(super) struct Policy {
    cluster_roles: HashMap<String, Vec<Rule>>,
    /// By namespace and name.
    roles: HashMap<(String, String), Vec<Rule>>,
    /// In the order of their names.
    cluster_bindings: Vec<Binding>,
    bindings: BTreeMap<String, Vec<Binding>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Role {
    #[serde(deserialize_with = "list")]
    rules: Vec<Rule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Binding {
    #[serde(skip)]
    namespace: String,
    #[serde(skip)]
    name: String,
    role_ref: RoleRef,
    #[serde(deserialize_with = "list")]
    subjects: Vec<Subject>,
}

/// The role of a binding.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct RoleRef {
    pub(super) kind: String,
    pub(super) name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

impl Subject {
    /// Follows Kubernetes 1.37 (`appliesToUser`).
    fn is(&self, user: &User, namespace: &str) -> bool {
        match self.kind.as_str() {
            "User" => self.name == user.name,
            "Group" => has(&user.groups, &self.name),
            "ServiceAccount" => {
                let namespace = if self.namespace.is_empty() { namespace } else { &self.namespace };
                !namespace.is_empty() && service_account_user(namespace, &self.name) == user.name
            }
            _ => false,
        }
    }
}

/// A rule of a user, and the binding that gives it.
pub(super) struct Bound<'a> {
    pub(super) rule: &'a Rule,
    binding: &'a Binding,
    subject: &'a Subject,
}

/// As in the reasons of decisions. Follows Kubernetes 1.37 (`roleBindingDescriber`), with its order of name and namespace.
impl std::fmt::Display for Bound<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { binding: Binding { namespace, name, role_ref, .. }, subject, .. } = self;
        match namespace.as_str() {
            "" => write!(f, "ClusterRoleBinding {}", quoted(name))?,
            namespace => write!(f, "RoleBinding {}", quoted(&format!("{name}/{namespace}")))?,
        }
        let subject_name = match (subject.kind.as_str(), subject.namespace.as_str()) {
            ("ServiceAccount", "") => format!("{}/{namespace}", subject.name),
            ("ServiceAccount", of) => format!("{}/{of}", subject.name),
            _ => subject.name.clone(),
        };
        let role = quoted(&role_ref.name);
        write!(f, " of {} {role} to {} {}", role_ref.kind, subject.kind, quoted(&subject_name))
    }
}

/// The errors of roles that do not exist, as text. Follows Kubernetes 1.37 (`NewAggregate`).
#[derive(Debug, Default)]
pub(super) struct RoleErrors(Vec<String>);

impl RoleErrors {
    pub(super) fn text(&self) -> String {
        let mut seen = BTreeSet::new();
        let texts: Vec<&str> = self.0.iter().map(String::as_str).filter(|text| seen.insert(*text)).collect();
        match texts.as_slice() {
            [] => String::new(),
            [one] => (*one).to_owned(),
            many => format!("[{}]", many.join(", ")),
        }
    }
}

impl Policy {
    fn read(stores: &Stores) -> Self {
        let mut policy = Self::default();
        let [cluster_roles, roles, cluster_bindings, bindings] = stores;
        let each = |store: &Option<Arc<ResourceStore>>, take: &mut dyn FnMut(&str, &str, &[u8])| {
            let objects = store.as_ref().map(|store| store.snapshot().objects).unwrap_or_default();
            for stored in objects.values() {
                take(stored.key().namespace(), stored.key().name(), &stored.object());
            }
        };
        // The in-process API can store an object with fields of other types. It gives no rights.
        let rules = |bytes: &[u8]| serde_json::from_slice::<Role>(bytes).unwrap_or_default().rules;
        let binding = |namespace: &str, name: &str, bytes: &[u8]| Binding {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..serde_json::from_slice(bytes).unwrap_or_default()
        };
        each(cluster_roles, &mut |_, name, bytes| {
            policy.cluster_roles.insert(name.to_owned(), rules(bytes));
        });
        each(roles, &mut |namespace, name, bytes| {
            policy.roles.insert((namespace.to_owned(), name.to_owned()), rules(bytes));
        });
        each(cluster_bindings, &mut |_, name, bytes| {
            policy.cluster_bindings.push(binding("", name, bytes));
        });
        each(bindings, &mut |namespace, name, bytes| {
            let all = policy.bindings.entry(namespace.to_owned()).or_default();
            all.push(binding(namespace, name, bytes));
        });
        policy
    }

    /// Calls `visit` with each rule of a user in a namespace, until it breaks; an empty namespace is the cluster.
    ///
    /// Follows Kubernetes 1.37 (`VisitRulesFor`), in the order of the names of the bindings.
    pub(super) fn visit<'a>(
        &'a self,
        user: &User,
        namespace: &str,
        mut visit: impl FnMut(Bound<'a>) -> ControlFlow<()>,
    ) -> RoleErrors {
        let mut errors = RoleErrors::default();
        let local = self.bindings.get(namespace).map(Vec::as_slice).unwrap_or_default();
        for binding in self.cluster_bindings.iter().chain(local) {
            let of_user = binding.subjects.iter().find(|subject| subject.is(user, &binding.namespace));
            let Some(subject) = of_user else { continue };
            match self.rules_of(&binding.role_ref, &binding.namespace) {
                Err(status) => errors.0.push(status.message().to_owned()),
                Ok(rules) => {
                    for rule in rules {
                        if visit(Bound { rule, binding, subject }).is_break() {
                            return errors;
                        }
                    }
                }
            }
        }
        errors
    }

    /// Returns all rules of a user in a namespace.
    pub(super) fn rules(&self, user: &User, namespace: &str) -> (Vec<&Rule>, RoleErrors) {
        let mut rules = Vec::new();
        let errors = self.visit(user, namespace, |bound| {
            rules.push(bound.rule);
            ControlFlow::Continue(())
        });
        (rules, errors)
    }

    /// # Errors
    /// 404 for a role that does not exist, 500 for another kind.
    pub(super) fn rules_of(&self, role: &RoleRef, namespace: &str) -> Result<&[Rule], Status> {
        let (found, resource) = match role.kind.as_str() {
            "Role" => (self.roles.get(&(namespace.to_owned(), role.name.clone())), "role"),
            "ClusterRole" => (self.cluster_roles.get(&role.name), "clusterrole"),
            kind => {
                let message = format!("unsupported role reference kind: {}", quoted(kind));
                return Err(Status::new(500, "", message));
            }
        };
        let subject = crate::status::Subject { group: GROUP, resource };
        found.map(Vec::as_slice).ok_or_else(|| Status::not_found(subject, &role.name))
    }
}

/// The policy, parsed again after a role or a binding was written.
#[derive(Default)]
pub(super) struct PolicyCache(Derived<Policy>);

impl PolicyCache {
    pub(super) fn get(&self, registry: &Registry) -> Arc<Policy> {
        self.0.get(registry, GROUP, RESOURCES, |stores, _| Policy::read(stores))
    }
}
