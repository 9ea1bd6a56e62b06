//! The rules of built-in kinds: the defaults that Kubernetes sets, and what it refuses.
//!
//! Pure functions over JSON objects whose types have been checked. They follow Kubernetes 1.37 (`pkg/apis`): `defaults` the
//! defaulting functions and the form of the Go types, `strategy` what the storage of a kind sets, and `validation` the
//! validation functions, with their fields, messages and order.

mod check;
mod defaults;
mod names;
mod quantity;
mod strategy;
mod validation;

use serde_json::{Map, Value, json};

use crate::status::Cause;

pub(crate) use quantity::NotAQuantity;
pub(crate) use strategy::{created, status_updated, updated};
pub(crate) use validation::Changed;

/// Whether objects of built-in kinds get the defaults of Kubernetes and are validated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validation {
    /// As in Kubernetes.
    #[default]
    On,
    /// Objects are stored as they are. Writes are faster, and objects may be incomplete.
    Off,
}

/// Returns the smallest pod that Kubernetes accepts: it has one container.
///
/// ```
/// let pod = kinformer_apiserver::valid_pod("web");
/// assert_eq!(pod["spec"]["containers"][0]["name"], "main");
/// ```
pub fn valid_pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "registry.example.com/main:1"}]}})
}

/// Brings an object into the form that Kubernetes stores. Objects of other kinds stay as they are.
pub(crate) fn complete(api_version: &str, kind: &str, object: &mut Map<String, Value>) {
    defaults::complete(api_version, kind, object);
}

/// Returns what is wrong with an object, apart from its metadata.
pub(crate) fn faults(
    api_version: &str,
    kind: &str,
    object: &Map<String, Value>,
    before: Option<&Map<String, Value>>,
    changed: Changed,
) -> Vec<Cause> {
    validation::faults(api_version, kind, object, before, changed)
}

/// Why a text is not a quantity.
pub(crate) fn quantity_fault(text: &str) -> Option<NotAQuantity> {
    quantity::Quantity::parse(text.trim()).err().filter(|fault| *fault != NotAQuantity::TooLarge)
}
