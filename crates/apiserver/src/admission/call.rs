//! One call of a webhook.

use bytes::Bytes;
use serde_json::Value;

use crate::status::Status;

use super::attributes::Attributes;
use super::client::{Endpoint, Response};
use super::hooks::Hook;
use super::invocation::Invocation;
use super::review::{self, Answer, Version};
use super::services::Services;

/// Why a webhook does not let a write pass.
#[derive(Debug)]
pub(super) enum Failure {
    /// It could not be called, or its answer is none. The failure policy decides.
    Call(String),
    /// The write ends with this status.
    Refused(Status),
}

impl Failure {
    /// Returns the answer of the write; `None` if it goes on.
    pub(super) fn status(self, hook: &Hook) -> Option<Status> {
        match self {
            Self::Call(why) if hook.ignores_failures() => {
                tracing::warn!(webhook = hook.name, why, "webhook not called; its failure policy is Ignore");
                None
            }
            Self::Call(why) => {
                Some(Status::internal(format!("failed calling webhook {:?}: {why}", hook.name)))
            }
            Self::Refused(status) => Some(status),
        }
    }
}

/// Calls a webhook. The objects have the version of the invocation.
///
/// # Errors
/// [`Failure`]; a denial is no error.
pub(super) async fn call(
    hook: &Hook,
    invocation: &Invocation,
    attributes: &Attributes,
    mutating: bool,
    services: &Services,
) -> Result<Answer, Failure> {
    if let Some(why) = &hook.fault {
        return Err(Failure::Call(format!("the webhook cannot be read: {why}")));
    }
    if attributes.is_dry_run && !hook.allows_dry_run() {
        let why = format!("admission webhook {:?} does not support dry run", hook.name);
        return Err(Failure::Refused(Status::bad_request(why)));
    }
    let version = Version::negotiated(&hook.admission_review_versions).ok_or_else(|| {
        let why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
        Failure::Call(format!("could not create admission objects: {why}"))
    })?;
    let uid = uuid::Uuid::new_v4().to_string();
    let request = review::request(version, &uid, invocation, attributes);
    let endpoint = Endpoint::of(&hook.client_config).map_err(Failure::Call)?;
    let seconds = hook.timeout().as_secs();
    let post = endpoint.post(services, seconds, Bytes::from(request.to_string()));
    let response = match tokio::time::timeout(hook.timeout(), post).await {
        Ok(response) => response,
        Err(_) => Err("context deadline exceeded".into()),
    };
    let response = response.map_err(|why| Failure::Call(endpoint.failed(seconds, &why)))?;
    if !(200..=206).contains(&response.code) {
        return Err(Failure::Call(format!("failed to call webhook: {}", unexpected(&response))));
    }
    if response.body.is_empty() {
        let why = format!("0-length response with status code: {} and content type: ", response.code);
        return Err(Failure::Call(format!("failed to call webhook: {why}")));
    }
    review::answer(version, &uid, mutating, &response.body).map_err(Failure::Call)
}

/// Describes a response with an error code. Follows client-go 1.37 (`NewGenericServerResponse`).
pub(crate) fn unexpected(response: &Response) -> String {
    if let Ok(status) = serde_json::from_slice::<Value>(&response.body)
        && status.get("kind").is_some_and(|kind| kind == "Status")
        && let Some(message) = status.get("message").and_then(Value::as_str)
    {
        return message.to_owned();
    }
    let text = String::from_utf8_lossy(&response.body);
    let text = if response.is_text { text.trim() } else { "unknown" };
    let known = match response.code {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 415 => text,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 if matches!(text, "" | "unknown") => {
            "the server was unable to respond with a content type that the client supports"
        }
        406 => text,
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        code if code >= 500 => {
            return format!("an error on the server ({text:?}) has prevented the request from succeeding");
        }
        code => {
            return format!(
                "the server responded with the status code {code} but did not return more information"
            );
        }
    };
    known.to_owned()
}
