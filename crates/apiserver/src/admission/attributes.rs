//! What webhooks are asked about.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::registry::{Kind, Resource};

pub(super) type Object = Map<String, Value>;

/// What a write does with its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }

    pub(super) fn options(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Delete => "DeleteOptions",
        }
    }
}

/// The type of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gvk {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

impl Gvk {
    pub(crate) fn of(kind: &Kind) -> Self {
        Self { group: kind.group.clone(), version: kind.version.clone(), kind: kind.kind.clone() }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({"group": self.group, "version": self.version, "kind": self.kind})
    }
}

/// A request, which is the same at each of its points.
pub(crate) struct Asked {
    pub(crate) resource: Arc<Resource>,
    pub(crate) subresource: String,
    /// The type of the objects that are written: that of the subresource, if it has one of its own.
    pub(crate) kind: Gvk,
    pub(crate) namespace: String,
    /// Empty if the object has none yet.
    pub(crate) name: String,
    /// The options of a create or an update, without their type.
    pub(crate) options: Object,
    pub(crate) is_dry_run: bool,
    /// The `UserInfo` of the user.
    pub(crate) user: Value,
}

/// A request at a point.
#[derive(Clone)]
pub(super) struct Attributes {
    pub(super) asked: Arc<Asked>,
    pub(super) operation: Operation,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) object: Option<Object>,
    pub(super) old: Option<Object>,
    pub(super) options: Value,
    pub(super) is_dry_run: bool,
    /// Whether a webhook has patched the object.
    pub(super) is_patched: bool,
}

impl Attributes {
    pub(super) fn resource(&self) -> &Resource {
        &self.asked.resource
    }

    /// Whether the request is about a namespace itself.
    pub(super) fn is_namespace(&self) -> bool {
        self.resource().kind.is("", "namespaces")
    }
}

/// Returns a label of an object.
pub(super) fn label<'a>(object: &'a Object, name: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(name)?.as_str()
}

/// Returns a text of the metadata; empty if it is missing.
pub(super) fn text<'a>(object: &'a Object, field: &str) -> &'a str {
    object.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or("")
}
