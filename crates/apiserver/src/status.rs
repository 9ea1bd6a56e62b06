//! Error responses of the API: `Status` with code, reason and details.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value, json};

/// An API error: a `Status` object of `v1` with HTTP code, reason and message.
///
/// Messages and shapes follow Kubernetes 1.37 (`k8s.io/apimachinery/pkg/api/errors`).
#[derive(Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    code: u16,
    reason: Cow<'static, str>,
    message: String,
    details: Option<Box<Details>>,
    continue_token: Option<String>,
    /// The fields of a status that a webhook has given.
    given: Option<Box<Map<String, Value>>>,
}

/// Formats the message, which Rust prints if `main` returns the error.
impl std::fmt::Debug for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Details {
    name: String,
    group: String,
    kind: String,
    uid: String,
    causes: Vec<Cause>,
    retry_after_seconds: Option<u32>,
}

/// One entry of `details.causes`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cause {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) field: Option<String>,
}

impl Cause {
    /// A cause with a whole message; [`crate::causes`] has those of Kubernetes.
    pub(crate) fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self { reason: "FieldValueInvalid", message: message.into(), field: Some(field.into()) }
    }
}

/// The resource (or kind) and group in a message: `deployments.apps`, `pods`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
}

impl std::fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.resource)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

impl Status {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        let (reason, message) = (Cow::Borrowed(reason), message.into());
        Self { code, reason, message, details: None, continue_token: None, given: None }
    }

    /// A status with more fields, which a webhook has given.
    pub(crate) fn given(code: u16, reason: &str, message: String, fields: Map<String, Value>) -> Self {
        let (reason, given) = (Cow::Owned(reason.to_owned()), Some(Box::new(fields)));
        Self { reason, given, ..Self::new(code, "", message) }
    }

    fn about(mut self, subject: Subject<'_>, name: &str) -> Self {
        let details = self.details.get_or_insert_default();
        details.name = name.into();
        details.group = subject.group.into();
        details.kind = subject.resource.into();
        self
    }

    /// Puts a text before the message.
    pub(crate) fn prefixed(mut self, prefix: &str) -> Self {
        self.message.insert_str(0, prefix);
        self
    }

    /// Changes the code and the reason.
    #[cfg(feature = "cel")]
    pub(crate) fn recoded(self, code: u16, reason: &'static str) -> Self {
        Self { code, reason: Cow::Borrowed(reason), ..self }
    }

    /// Adds a cause.
    pub(crate) fn because(mut self, cause: Cause) -> Self {
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = Some(seconds);
        self
    }

    pub(crate) fn not_found(subject: Subject<'_>, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{subject} {name:?} not found")).about(subject, name)
    }

    pub(crate) fn no_such_path() -> Self {
        let mut status = Self::new(404, "NotFound", "the server could not find the requested resource");
        status.details = Some(Box::default());
        status
    }

    pub(crate) fn already_exists(subject: Subject<'_>, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{subject} {name:?} already exists")).about(subject, name)
    }

    pub(crate) fn conflict(subject: Subject<'_>, name: &str, why: &str) -> Self {
        Self::new(409, "Conflict", format!("Operation cannot be fulfilled on {subject} {name:?}: {why}"))
            .about(subject, name)
    }

    pub(crate) fn modified(subject: Subject<'_>, name: &str) -> Self {
        Self::conflict(
            subject,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 409 for fields that other managers own. A cause is a message and the path of a field.
    pub(crate) fn apply_conflict(message: String, causes: Vec<(String, String)>) -> Self {
        let mut status = Self::new(409, "Conflict", message);
        let causes = causes.into_iter().map(|(message, field)| Cause {
            reason: "FieldManagerConflict",
            message,
            field: Some(field),
        });
        status.details.get_or_insert_default().causes = causes.collect();
        status
    }

    pub(crate) fn forbidden(subject: Subject<'_>, name: &str, why: &str) -> Self {
        let message = match name {
            "" => format!("{subject} is forbidden: {why}"),
            _ => format!("{subject} {name:?} is forbidden: {why}"),
        };
        Self::new(403, "Forbidden", message).about(subject, name)
    }

    /// 403 for a user without the required role; without a resource for a path.
    pub(crate) fn not_authorized(subject: Subject<'_>, name: &str, why: &str) -> Self {
        match subject.resource {
            "" => Self::new(403, "Forbidden", format!("forbidden: {why}")).about(subject, name),
            _ => Self::forbidden(subject, name, why),
        }
    }

    /// 500 for a list with objects that cannot be read, one cause each.
    pub(crate) fn unlistable(subject: Subject<'_>, causes: Vec<Cause>) -> Self {
        let first = causes.first().map_or("", |cause| &cause.message);
        let more = match causes.len() {
            0 | 1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        let message = format!("failed to read one or more {subject} from the storage: {first}{more}");
        let mut status = Self::new(500, "StorageReadError", message).about(subject, "list");
        status.details.get_or_insert_default().causes = causes;
        status
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 422; `kind` is the kind with its group (`Pod`, `Deployment.apps`).
    pub(crate) fn invalid(kind: Subject<'_>, name: &str, causes: Vec<Cause>) -> Self {
        let part = |cause: &Cause| format!("{}: {}", cause.field.as_deref().unwrap_or(""), cause.message);
        let mut seen = HashSet::new();
        let distinct = causes.iter().filter(|cause| seen.insert((cause.field.as_deref(), &cause.message)));
        let parts: Vec<String> = distinct.map(part).collect();
        let all = match parts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut status =
            Self::new(422, "Invalid", format!("{kind} {name:?} is invalid: {all}")).about(kind, name);
        status.details.get_or_insert_default().causes = causes;
        status
    }

    /// 422 without causes.
    pub(crate) fn rejected_request() -> Self {
        let message = "the server rejected our request due to an error in our request";
        let mut status = Self::new(422, "Invalid", message);
        status.details = Some(Box::default());
        status
    }

    pub(crate) fn method_not_allowed() -> Self {
        let mut status = Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
        status.details = Some(Box::default());
        status
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn too_large_version(requested: u64, current: u64) -> Self {
        let mut status = Self::new(
            504,
            "Timeout",
            format!("Timeout: Too large resource version: {requested}, current: {current}"),
        )
        .retry_after(1);
        status.details.get_or_insert_default().causes = vec![Cause {
            reason: "ResourceVersionTooLarge",
            message: "Too large resource version".into(),
            field: None,
        }];
        status
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn with_continue(mut self, token: String) -> Self {
        self.continue_token = Some(token);
        self
    }

    pub(crate) fn too_many_requests(seconds: u32) -> Self {
        Self::new(429, "TooManyRequests", "Too many requests, please try again later.").retry_after(seconds)
    }

    pub(crate) fn internal(message: impl AsRef<str>) -> Self {
        let text = message.as_ref();
        let mut status = Self::new(500, "InternalError", format!("Internal error occurred: {text}"));
        status.details.get_or_insert_default().causes =
            vec![Cause { reason: "", message: text.into(), field: None }];
        status
    }

    pub(crate) fn body_too_large(limit: usize) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"))
    }

    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        Self::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {accepted}"
            ),
        )
    }

    pub(crate) fn not_acceptable(accepted: &str) -> Self {
        Self::new(406, "NotAcceptable", format!("only the following media types are accepted: {accepted}"))
    }

    /// Returns the HTTP status code, such as 404.
    pub fn code(&self) -> u16 {
        self.code
    }

    /// Returns the reason, such as `NotFound`.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Returns the human-readable message.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn retry_after_seconds(&self) -> Option<u32> {
        let given = || self.given.as_ref()?.get("details")?.get("retryAfterSeconds")?.as_u64();
        let own = self.details.as_ref().and_then(|details| details.retry_after_seconds);
        own.or_else(|| given().and_then(|seconds| u32::try_from(seconds).ok()).filter(|seconds| *seconds > 0))
    }

    /// Returns the `Status` object as JSON.
    pub fn to_json(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".into(), token.as_str().into());
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata,
            "status": "Failure", "message": self.message, "code": self.code,
        });
        if let (false, Some(map)) = (self.reason.is_empty(), status.as_object_mut()) {
            map.insert("reason".into(), self.reason.as_ref().into());
        }
        if let (Some(details), Some(map)) = (&self.details, status.as_object_mut()) {
            map.insert("details".into(), details.to_json());
        }
        if let (Some(given), Some(map)) = (&self.given, status.as_object_mut()) {
            for field in ["details", "metadata", "status"] {
                let value = given.get(field).filter(|value| !value.is_null());
                map.extend(value.map(|value| (field.to_owned(), value.clone())));
            }
        }
        status
    }
}

impl Details {
    fn to_json(&self) -> Value {
        let mut map = Map::new();
        for (field, text) in
            [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)]
        {
            if !text.is_empty() {
                map.insert(field.into(), text.as_str().into());
            }
        }
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(|cause| {
                let mut map = Map::new();
                if !cause.reason.is_empty() {
                    map.insert("reason".into(), cause.reason.into());
                }
                map.insert("message".into(), cause.message.as_str().into());
                if let Some(field) = &cause.field {
                    map.insert("field".into(), field.as_str().into());
                }
                Value::Object(map)
            });
            map.insert("causes".into(), causes.collect());
        }
        if let Some(seconds) = self.retry_after_seconds {
            map.insert("retryAfterSeconds".into(), seconds.into());
        }
        Value::Object(map)
    }
}

/// The response to a write that answers with no object. `version` is that of the write, since Kubernetes 1.38.
pub(crate) fn success(version: Option<u64>) -> Value {
    let mut metadata = Map::new();
    if let Some(version) = version {
        metadata.insert("resourceVersion".into(), version.to_string().into());
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Success"})
}

/// The response to a deletion that removed the object.
pub(crate) fn deleted(subject: Subject<'_>, name: &str, uid: &str, version: Option<u64>) -> Value {
    let details = Details {
        name: name.into(),
        group: subject.group.into(),
        kind: subject.resource.into(),
        uid: uid.into(),
        ..Details::default()
    };
    let mut status = success(version);
    if let Some(status) = status.as_object_mut() {
        status.insert("details".into(), details.to_json());
    }
    status
}
