//! `AdmissionReview`: what a webhook is sent, and what it answers.
//!
//! Follows Kubernetes 1.37 (`webhook/request/admissionreview.go`, `webhook/errors/statuserror.go`).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::status::Status;

use super::attributes::{Attributes, Gvk};
use super::exchange::parse_review;
use super::invocation::Invocation;

const GROUP: &str = "admission.k8s.io";
const KIND: &str = "AdmissionReview";

/// A version of reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V1Beta1,
}

impl Version {
    /// Returns the first version that a webhook accepts and that exists.
    pub(super) fn negotiated(accepted: &[String]) -> Option<Self> {
        accepted.iter().find_map(|version| match version.as_str() {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

fn resource_json(kind: &Gvk, resource: &str) -> Value {
    json!({"group": kind.group, "version": kind.version, "resource": resource})
}

/// Returns the review that a webhook is sent. The objects have the version of the invocation.
pub(super) fn request(
    version: Version,
    uid: &str,
    invocation: &Invocation,
    attributes: &Attributes,
) -> Value {
    let asked = &attributes.asked;
    let (called, own) = (&invocation.resource.kind, &asked.resource.kind);
    let object = |object: &Option<Map<String, Value>>| object.clone().map_or(Value::Null, Value::Object);
    let mut request = json!({
        "uid": uid,
        "kind": invocation.kind.to_json(),
        "resource": resource_json(&Gvk::of(called), &called.plural),
        "requestKind": asked.kind.to_json(),
        "requestResource": resource_json(&Gvk::of(own), &own.plural),
        "operation": attributes.operation.name(),
        "userInfo": asked.user,
        "object": object(&attributes.object),
        "oldObject": object(&attributes.old),
        "dryRun": attributes.is_dry_run,
        "options": attributes.options,
    });
    if let Some(request) = request.as_object_mut() {
        let texts = [
            ("subResource", &asked.subresource),
            ("requestSubResource", &asked.subresource),
            ("name", &attributes.name),
            ("namespace", &attributes.namespace),
        ];
        for (field, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            request.insert(field.into(), text.as_str().into());
        }
    }
    json!({"kind": KIND, "apiVersion": format!("{GROUP}/{}", version.name()), "request": request})
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Review {
    api_version: Option<String>,
    kind: Option<String>,
    response: Option<Response>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Response {
    uid: Option<String>,
    allowed: Option<bool>,
    status: Option<Map<String, Value>>,
    patch: Option<String>,
    patch_type: Option<String>,
    warnings: Option<Vec<String>>,
}

/// What a webhook says.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    pub(super) status: Option<Map<String, Value>>,
    /// Empty for none.
    pub(super) patch: Vec<u8>,
    pub(super) patch_type: String,
    pub(super) warnings: Vec<String>,
}

/// Reads the answer of a webhook.
///
/// # Errors
/// Why it is no answer, in the words of kube-apiserver, as far as these do not depend on its JSON parser.
pub(super) fn answer(version: Version, uid: &str, mutating: bool, body: &[u8]) -> Result<Answer, String> {
    let invalid = |why: String| format!("received invalid webhook response: {why}");
    let review = decode(version, body).map_err(|why| format!("failed to call webhook: {why}"))?;
    let response = review.response.ok_or_else(|| invalid("webhook response was absent".into()))?;
    let bytes = response.patch.as_deref().map_or(Ok(Vec::new()), |patch| STANDARD.decode(patch));
    let patch = bytes.map_err(|error| format!("failed to call webhook: response.patch: {error}"))?;
    let mut answer = Answer {
        allowed: response.allowed.unwrap_or(false),
        status: response.status,
        warnings: response.warnings.unwrap_or_default(),
        ..Answer::default()
    };
    if version == Version::V1 {
        let given = response.uid.unwrap_or_default();
        if given != uid {
            return Err(invalid(format!("expected response.uid={uid:?}, got {given:?}")));
        }
        let of = |text: &Option<String>| text.clone().unwrap_or_default();
        let (api_version, kind) = (of(&review.api_version), of(&review.kind));
        if (api_version.as_str(), kind.as_str()) != ("admission.k8s.io/v1", KIND) {
            // Go writes an empty group as such
            let separator = if api_version.contains('/') { "" } else { "/" };
            return Err(invalid(format!(
                "expected webhook response of {GROUP}/v1, Kind={KIND}, got {separator}{api_version}, Kind={kind}"
            )));
        }
        check_patch(mutating, &patch, response.patch_type.as_deref()).map_err(invalid)?;
        answer.patch_type = response.patch_type.unwrap_or_default();
        answer.patch = patch;
    } else if mutating && !patch.is_empty() {
        "JSONPatch".clone_into(&mut answer.patch_type);
        answer.patch = patch;
    }
    Ok(answer)
}

/// # Errors
/// Why the body is no review.
fn decode(version: Version, body: &[u8]) -> Result<Review, String> {
    let value = parse_review(body, (&format!("{GROUP}/{}", version.name()), KIND), 110)?;
    Review::deserialize(value).map_err(|error| error.to_string())
}

/// # Errors
/// Why the patch or its type is not accepted.
fn check_patch(mutating: bool, patch: &[u8], patch_type: Option<&str>) -> Result<(), String> {
    Err(match (mutating, patch.is_empty(), patch_type) {
        (true, true, None) | (false, true, None) => return Ok(()),
        (true, false, None) => "webhook returned response.patch but not response.patchType".into(),
        (true, true, Some(_)) => "webhook returned response.patchType but not response.patch".into(),
        (true, false, Some("")) => "webhook returned invalid response.patchType of \"\"".into(),
        (true, false, Some(_)) => return Ok(()),
        (false, false, _) => "validating webhook may not return response.patch".into(),
        (false, true, Some(_)) => "validating webhook may not return response.patchType".into(),
    })
}

/// Returns the answer of a request that a webhook has denied.
pub(super) fn denied(hook: &str, status: Option<Map<String, Value>>) -> Status {
    let mut status = status.unwrap_or_default();
    let text = |field: &str| status.get(field).and_then(Value::as_str).unwrap_or("").to_owned();
    let (message, reason) = (text("message"), text("reason"));
    let by = format!("admission webhook {hook:?} denied the request");
    let message = match (message.as_str(), reason.as_str()) {
        ("", "") => format!("{by} without explanation"),
        ("", reason) => format!("{by}: {reason}"),
        (message, _) => format!("{by}: {message}"),
    };
    let code = status.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let code = code.filter(|code| *code >= 400).unwrap_or(400);
    if matches!(text("status").as_str(), "" | "Success") {
        status.insert("status".into(), "Failure".into());
    }
    Status::given(code, &reason, message, status)
}
