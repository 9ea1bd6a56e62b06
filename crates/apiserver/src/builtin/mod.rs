//! The rules of built-in kinds: the defaults that Kubernetes sets, and what it refuses.
//!
//! Pure functions over JSON objects whose types have been checked. They follow Kubernetes 1.37 (`pkg/apis`): `defaults` the
//! defaulting functions and the form of the Go types, `strategy` what the storage of a kind sets, and `validation` the
//! validation functions, with their fields, messages and order.

mod check;
mod defaults;
mod event_fields;
pub(crate) mod names;
mod quantity;
mod service_type;
mod strategy;
mod validation;

use serde_json::{Value, json};

pub(crate) use check::{copy, member};
pub(crate) use defaults::{complete, complete_status, decode};
pub(crate) use event_fields::EVENT_FIELDS;
pub(crate) use quantity::NotAQuantity;
pub(crate) use strategy::{created, sets_unmanaged, status_updated, status_written, updated};
pub(crate) use validation::{
    MAX_ANNOTATIONS, duration_fault, faults, status_faults, warnings, webhook_client_faults,
};

/// Whether objects of built-in kinds get the defaults of Kubernetes and are validated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validation {
    /// As in Kubernetes.
    #[default]
    On,
    /// Objects are not validated, and keep their form. They get only the few defaults that clients rely on: no address is
    /// allocated, for example. Writes are faster, and objects may be incomplete.
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

/// Returns the billionths of a quantity.
#[cfg(feature = "cel")]
pub(crate) fn quantity_nanos(text: &str) -> Result<i128, NotAQuantity> {
    quantity::Quantity::parse(text).map(quantity::Quantity::nanos)
}

/// Returns the number and the power of ten of a quantity, if Go has it in this form, which has no large numbers.
#[cfg(feature = "cel")]
pub(crate) fn quantity_form(text: &str) -> Option<(i64, i32)> {
    quantity::form(text)
}

/// Why a text is not a quantity.
pub(crate) fn quantity_fault(text: &str) -> Option<NotAQuantity> {
    quantity::Quantity::parse(text.trim()).err().filter(|fault| *fault != NotAQuantity::TooLarge)
}
