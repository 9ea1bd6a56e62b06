//! Error responses.

use serde_json::{Value, json};

/// An error response: a `Status` of `v1`.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) code: u16,
    reason: &'static str,
    message: String,
    details: Option<Value>,
    continue_token: Option<String>,
}

impl Status {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, continue_token: None }
    }

    /// Returns the error of a status code, as kube-apiserver or a proxy before it sends it.
    pub(crate) fn of_code(code: u16) -> Self {
        let (reason, message) = match code {
            400 => ("BadRequest", "the request is invalid"),
            401 => ("Unauthorized", "Unauthorized"),
            403 => ("Forbidden", "the user has no access to the resource"),
            404 => ("NotFound", "the server could not find the requested resource"),
            409 => ("Conflict", "the request conflicts with another"),
            410 => ("Expired", "too old resource version"),
            422 => ("Invalid", "the request is invalid"),
            429 => ("TooManyRequests", "too many requests, please try again later"),
            503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
            504 => ("Timeout", "the request did not complete within the allotted timeout"),
            _ => ("InternalError", "an internal error occurred"),
        };
        Self::new(code, reason, message)
    }

    pub(crate) fn too_large(requested: u64, current: u64) -> Self {
        let cause = "Too large resource version";
        let message = format!("Timeout: {cause}: {requested}, current: {current}");
        let mut status = Self::new(504, "Timeout", message);
        let causes = json!([{"reason": "ResourceVersionTooLarge", "message": cause}]);
        status.details = Some(json!({"causes": causes, "retryAfterSeconds": 1}));
        status
    }

    pub(crate) fn too_old_watch(requested: u64, oldest: u64) -> Self {
        Self::new(410, "Expired", format!("too old resource version: {requested} ({oldest})"))
    }

    pub(crate) fn too_old_list() -> Self {
        Self::new(410, "Expired", "The resourceVersion for the provided list is too old.")
    }

    /// The state of an older page is gone; the token continues at the newest state.
    pub(crate) fn too_old_page(token: String) -> Self {
        let mut status = Self::new(
            410,
            "Expired",
            "The provided continue parameter is too old to display a consistent list.",
        );
        status.continue_token = Some(token);
        status
    }

    pub(crate) fn invalid(message: &str) -> Self {
        Self::new(422, "Invalid", message)
    }

    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.details = Some(json!({"retryAfterSeconds": seconds}));
        self
    }

    pub(crate) fn to_json(&self) -> Value {
        let metadata = match &self.continue_token {
            Some(token) => json!({"continue": token}),
            None => json!({}),
        };
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let (Some(members), Some(details)) = (status.as_object_mut(), &self.details) {
            members.insert("details".into(), details.clone());
        }
        status
    }
}
