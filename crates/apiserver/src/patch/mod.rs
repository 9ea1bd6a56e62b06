//! The patch formats: JSON patch (RFC 6902), merge patch (RFC 7386), strategic merge patch.

mod strategic;

use json_patch::{Patch as Operations, PatchOperation};
use serde_json::{Map, Value};

use crate::status::{Cause, Status, Subject};

/// The limit of Kubernetes.
const MAX_OPERATIONS: usize = 10_000;
/// The total size in bytes of JSON that the `copy` operations of one patch may copy.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// A patch, decoded but not applied.
#[derive(Debug)]
pub(crate) enum Patch {
    Json(Operations),
    Merge(Value),
    Strategic(Map<String, Value>),
}

/// Selects the format by media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchFormat {
    Json,
    Merge,
    Strategic,
}

impl PatchFormat {
    pub(crate) const JSON: &str = "application/json-patch+json";
    pub(crate) const MERGE: &str = "application/merge-patch+json";
    pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";

    pub(crate) fn of(media_type: &str) -> Option<Self> {
        match media_type {
            Self::JSON => Some(Self::Json),
            Self::MERGE => Some(Self::Merge),
            Self::STRATEGIC => Some(Self::Strategic),
            _ => None,
        }
    }
}

impl Patch {
    /// # Errors
    /// 400 for an invalid patch, 413 for too many operations.
    pub(crate) fn decode(format: PatchFormat, body: &[u8]) -> Result<Self, Status> {
        let bad = |error: serde_json::Error| Status::bad_request(format!("error decoding patch: {error}"));
        match format {
            PatchFormat::Json => {
                let operations: Operations = serde_json::from_slice(body).map_err(bad)?;
                if operations.len() > MAX_OPERATIONS {
                    let message = format!(
                        "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                        operations.len()
                    );
                    return Err(Status::new(413, "RequestEntityTooLarge", message));
                }
                Ok(Self::Json(operations))
            }
            PatchFormat::Merge => match serde_json::from_slice(body).map_err(bad)? {
                patch @ Value::Object(_) => Ok(Self::Merge(patch)),
                _ => Err(Status::bad_request("error decoding patch: a merge patch is a JSON object")),
            },
            PatchFormat::Strategic => match serde_json::from_slice(body).map_err(bad)? {
                Value::Object(patch) => Ok(Self::Strategic(patch)),
                _ => {
                    Err(Status::bad_request("error decoding patch: a strategic merge patch is a JSON object"))
                }
            },
        }
    }

    /// Returns the patched object.
    ///
    /// # Errors
    /// 422 for a JSON patch that does not apply, 400 for an invalid directive, 413 for a patch that copies too much.
    pub(crate) fn apply(
        &self,
        object: Map<String, Value>,
        kind: Subject<'_>,
        name: &str,
    ) -> Result<Map<String, Value>, Status> {
        let mut document = Value::Object(object);
        match self {
            Self::Json(operations) => apply_json(&mut document, operations, kind, name)?,
            Self::Merge(patch) => json_patch::merge(&mut document, patch),
            Self::Strategic(patch) => {
                if let Value::Object(object) = &mut document {
                    strategic::merge(object, patch)?;
                }
            }
        }
        match document {
            Value::Object(object) => Ok(object),
            _ => Err(Status::bad_request("error decoding patch: the result is not a JSON object")),
        }
    }
}

fn apply_json(
    document: &mut Value,
    operations: &Operations,
    kind: Subject<'_>,
    name: &str,
) -> Result<(), Status> {
    let mut copied = 0usize;
    for operation in operations.iter() {
        if let PatchOperation::Copy(copy) = operation
            && let Ok(source) = copy.from.resolve(document)
        {
            copied = copied.saturating_add(source.to_string().len());
            if copied > MAX_COPIED {
                return Err(Status::body_too_large(MAX_COPIED));
            }
        }
        json_patch::patch(document, std::slice::from_ref(operation))
            .map_err(|error| Status::invalid(kind, name, vec![Cause::invalid("patch", error.to_string())]))?;
    }
    Ok(())
}
