//! Users and their groups.

use crate::dns::has_label_form;
use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The user of the token of the server, and of every request without access control.
pub(crate) const ADMINISTRATOR: &str = "kinformer";

pub(super) const ANONYMOUS: &str = "system:anonymous";
pub(super) const MASTERS: &str = "system:masters";
pub(super) const AUTHENTICATED: &str = "system:authenticated";
pub(super) const UNAUTHENTICATED: &str = "system:unauthenticated";
pub(super) const NODES: &str = "system:nodes";
/// The extra value with the node of the pod of a service account.
pub(super) const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const NODE: &str = "system:node:";

/// Who sends a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(super) uid: String,
    pub(super) groups: Vec<String>,
    pub(super) extra: BTreeMap<String, Vec<String>>,
}

impl User {
    pub(super) fn anonymous() -> Self {
        Self { name: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()], ..Self::default() }
    }

    /// A user with all rights.
    pub(super) fn administrator() -> Self {
        Self::authenticated(ADMINISTRATOR, "", vec![MASTERS.into()])
    }

    pub(super) fn authenticated(name: &str, uid: &str, groups: Vec<String>) -> Self {
        let mut user = Self { name: name.into(), uid: uid.into(), groups, ..Self::default() };
        user.complete();
        user
    }

    pub(super) fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        let groups = service_account_groups(namespace);
        Self::authenticated(&service_account_user(namespace, name), uid, groups)
    }

    /// Adds the group of users who are known. Follows Kubernetes 1.37 (`AuthenticatedGroupAdder`).
    fn complete(&mut self) {
        let is_complete = self.is_in(AUTHENTICATED) || self.is_in(UNAUTHENTICATED);
        if self.name != ANONYMOUS && !is_complete {
            self.groups.push(AUTHENTICATED.into());
        }
    }

    pub(super) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|other| other == group)
    }

    /// Whether the user may do everything, whatever the roles say.
    pub(crate) fn is_privileged(&self) -> bool {
        self.is_in(MASTERS)
    }

    /// The `UserInfo` of reviews.
    pub(crate) fn to_json(&self) -> Value {
        let mut info = serde_json::Map::new();
        for (field, text) in [("username", &self.name), ("uid", &self.uid)] {
            if !text.is_empty() {
                info.insert(field.into(), text.as_str().into());
            }
        }
        if !self.groups.is_empty() {
            info.insert("groups".into(), json!(self.groups));
        }
        if !self.extra.is_empty() {
            info.insert("extra".into(), json!(self.extra));
        }
        Value::Object(info)
    }
}

pub(super) fn service_account_user(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT}{namespace}:{name}")
}

pub(super) fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![SERVICE_ACCOUNTS.into(), format!("{SERVICE_ACCOUNTS}:{namespace}")]
}

/// Returns the namespace and the name of a service account. Follows Kubernetes 1.37 (`SplitUsername`).
pub(super) fn as_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    (is_label(namespace) && is_subdomain(name)).then_some((namespace, name))
}

/// Returns the name of a node.
pub(super) fn as_node(user: &str) -> Option<&str> {
    user.strip_prefix(NODE).filter(|name| is_subdomain(name))
}

fn is_label(text: &str) -> bool {
    text.len() <= 63 && has_label_form(text)
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(has_label_form)
}
