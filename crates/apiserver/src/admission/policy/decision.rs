//! Denials, and the answer to a request that is denied.

use crate::status::{Cause, Status};

use super::super::attributes::{Attributes, text};

/// Why a policy denies a request.
#[derive(Debug)]
pub(super) struct Denial {
    pub(super) message: String,
    /// Empty for the default.
    pub(super) reason: String,
}

impl Denial {
    pub(super) fn error(message: String) -> Self {
        Self { message, reason: String::new() }
    }

    /// Returns the answer to the request.
    ///
    /// Follows Kubernetes 1.37 (`dispatcher.Dispatch`).
    pub(super) fn status(&self, policy: &str, binding: Option<&str>, attributes: &Attributes) -> Status {
        let with = binding.map(|binding| format!(" with binding '{binding}'")).unwrap_or_default();
        let message = format!("ValidatingAdmissionPolicy '{policy}'{with} denied request: {}", self.message);
        let (code, reason) = match self.reason.as_str() {
            "Forbidden" => (403, "Forbidden"),
            "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
            _ => (422, "Invalid"),
        };
        let cause = Cause { reason: "", message: message.clone(), field: None };
        let subject = attributes.resource().kind.resource_subject();
        Status::forbidden(subject, name(attributes), &message).recoded(code, reason).because(cause)
    }
}

/// Follows Kubernetes 1.37 (`extractResourceName`).
fn name(attributes: &Attributes) -> &str {
    let own = |field| attributes.object.as_ref().map_or("", |object| text(object, field));
    let names = [attributes.name.as_str(), own("name"), own("generateName")];
    names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown")
}
