//! The patch formats: JSON patch (RFC 6902), merge patch (RFC 7386), strategic merge patch.

mod strategic;

use json_patch::jsonptr::PointerBuf;
use json_patch::{Patch as Operations, PatchOperation};
use serde_json::{Map, Value};

use crate::apply::{refuse_packed, unpack};
use crate::status::{Cause, Status, Subject};

/// The limit of Kubernetes.
const MAX_OPERATIONS: usize = 10_000;
/// The total size in bytes of JSON that the `copy` operations of one patch may copy.
const MAX_COPIED: usize = 3 * 1024 * 1024;
/// The total number of list items that the operations of one patch may move to make or take room.
const MAX_MOVED: usize = 20_000_000;

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
    /// Server-side apply, which is no patch of the current object.
    pub(crate) const APPLY: &str = "application/apply-patch+yaml";

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
    /// 422 for a JSON patch that does not apply, 400 for an invalid directive, 413 for a patch that copies or moves too
    /// much.
    pub(crate) fn apply(
        &self,
        mut object: Map<String, Value>,
        kind: Subject<'_>,
        name: &str,
    ) -> Result<Map<String, Value>, Status> {
        let names_managers = self.names_managers();
        if names_managers {
            unpack(&mut object);
        }
        let mut document = Value::Object(object);
        match self {
            Self::Json(operations) => apply_json(&mut document, operations, kind, name)?,
            Self::Merge(patch) => json_patch::merge(&mut document, &without_nulls_in_lists(patch)),
            Self::Strategic(patch) => {
                if let Value::Object(object) = &mut document {
                    strategic::merge(object, patch)?;
                }
            }
        }
        match document {
            Value::Object(mut object) => {
                if names_managers {
                    refuse_packed(&mut object);
                }
                Ok(object)
            }
            _ => Err(Status::bad_request("error decoding patch: the result is not a JSON object")),
        }
    }

    /// Whether the patch may read or write `managedFields`.
    fn names_managers(&self) -> bool {
        let metadata = match self {
            Self::Json(_) => return true,
            Self::Merge(patch) => patch.get("metadata"),
            Self::Strategic(patch) => patch.get("metadata"),
        };
        metadata.is_some_and(|metadata| {
            metadata.get("managedFields").is_some() || metadata.get("$patch").is_some()
        })
    }
}

fn apply_json(
    document: &mut Value,
    operations: &Operations,
    kind: Subject<'_>,
    name: &str,
) -> Result<(), Status> {
    let (mut copied, mut moved) = (0usize, 0usize);
    for operation in operations.iter() {
        if let PatchOperation::Copy(copy) = operation
            && let Ok(source) = copy.from.resolve(document)
        {
            copied = copied.saturating_add(source.to_string().len());
            if copied > MAX_COPIED {
                return Err(Status::body_too_large(MAX_COPIED));
            }
        }
        moved = moved.saturating_add(moved_by(document, operation));
        if moved > MAX_MOVED {
            let message =
                format!("The operations of the JSON patch move more than {MAX_MOVED} items of lists");
            return Err(Status::new(413, "RequestEntityTooLarge", message));
        }
        json_patch::patch(document, std::slice::from_ref(operation))
            .map_err(|error| Status::invalid(kind, name, vec![Cause::invalid("patch", error.to_string())]))?;
    }
    Ok(())
}

/// The number of items of the lists in which an operation inserts or removes one.
fn moved_by(document: &Value, operation: &PatchOperation) -> usize {
    let length = |path: &PointerBuf| {
        let list = path.parent().and_then(|list| list.resolve(document).ok());
        list.and_then(Value::as_array).map_or(0, Vec::len)
    };
    match operation {
        PatchOperation::Add(add) => length(&add.path),
        PatchOperation::Copy(copy) => length(&copy.path),
        PatchOperation::Move(moving) => length(&moving.from) + length(&moving.path),
        PatchOperation::Remove(remove) => length(&remove.path),
        PatchOperation::Replace(_) | PatchOperation::Test(_) => 0,
    }
}

/// Removes the nulls in the objects of lists, as the library of Kubernetes does.
fn without_nulls_in_lists(patch: &Value) -> Value {
    fn clean(value: &Value, is_in_list: bool) -> Value {
        match value {
            Value::Array(items) => items.iter().map(|item| clean(item, true)).collect(),
            Value::Object(fields) => {
                let kept = fields.iter().filter(|(_, value)| !(is_in_list && value.is_null()));
                kept.map(|(name, value)| (name.clone(), clean(value, is_in_list))).collect()
            }
            other => other.clone(),
        }
    }
    clean(patch, false)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // contract: E-01k
    #[test]
    fn patch_that_moves_many_items_is_refused() {
        let object = json!({"l": vec![0; 1_000_000]}).as_object().unwrap().clone();
        let subject = Subject { group: "", resource: "ConfigMap" };
        for operation in [
            json!({"op": "add", "path": "/l/0", "value": 1}),
            json!({"op": "remove", "path": "/l/0"}),
            json!({"op": "copy", "from": "/l/1", "path": "/l/0"}),
            json!({"op": "move", "from": "/l/1", "path": "/l/0"}),
        ] {
            let patch = |count: usize| {
                let body = serde_json::to_vec(&vec![operation.clone(); count]).unwrap();
                Patch::decode(PatchFormat::Json, &body).unwrap().apply(object.clone(), subject, "a")
            };
            patch(3).unwrap();
            assert_eq!(patch(100).unwrap_err().code(), 413, "{operation}");
        }
    }
}
