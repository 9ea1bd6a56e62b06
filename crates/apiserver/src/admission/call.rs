//! One call of a webhook.

use bytes::Bytes;
use tokio::time::Instant;

use crate::status::Status;

use super::attributes::Attributes;
use super::client::Endpoint;
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
    (services, end): (&Services, Instant),
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
    let rest = end.saturating_duration_since(Instant::now());
    let rest = rest.as_secs() + u64::from(rest.subsec_nanos() > 0);
    let seconds = hook.timeout().as_secs().min(rest);
    let body = endpoint.exchange(services, seconds, Bytes::from(request.to_string())).await;
    let body = body.map_err(|why| Failure::Call(format!("failed to call webhook: {why}")))?;
    review::answer(version, &uid, mutating, &body).map_err(Failure::Call)
}
