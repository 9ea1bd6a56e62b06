//! What several parts of a pod need.

use std::collections::HashMap;

use serde_json::Value;

use super::super::super::check::{Check, Fields};

/// What the checks of a pod need to know of it.
pub(super) struct Pod<'a> {
    pub(super) spec: &'a Value,
    /// The valid volumes.
    pub(super) volumes: HashMap<&'a str, &'a Value>,
    pub(super) claims: Vec<&'a str>,
    pub(super) grace: Option<i64>,
    /// Whether it is a pod, not a template.
    pub(super) is_pod: bool,
}

impl Pod<'_> {
    pub(super) fn has_host_users(&self) -> bool {
        self.spec.of("hostUsers") != false
    }

    pub(super) fn os(&self) -> &str {
        self.spec.of("os").text("name")
    }
}

pub(super) fn pull_policy(c: &mut Check, field: &str, policy: &str) {
    c.one_of(field, policy, &["Always", "IfNotPresent", "Never"]);
}

pub(super) fn no_backsteps(c: &mut Check, field: &str, path: &str) {
    if path.split('/').any(|part| part == "..") {
        c.invalid(field, path, "must not contain '..'");
    }
}

/// A path below a folder.
pub(super) fn descending_path(c: &mut Check, field: &str, path: &str) {
    if path.starts_with('/') {
        c.invalid(field, path, "must be a relative path");
    }
    no_backsteps(c, field, path);
}
