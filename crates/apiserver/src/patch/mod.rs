//! The patch formats: JSON patch (RFC 6902), merge patch (RFC 7386), strategic merge patch.

mod json;
mod merge;
mod node;
mod strategic;

use serde_json::{Map, Value};

use crate::apply::{refuse_packed, unpack};
use crate::status::Status;

pub(crate) use json::Operations;
use json::invalid_json;

/// A patch, decoded but not applied.
#[derive(Debug)]
pub(crate) enum Patch {
    Json(Operations),
    Merge(Map<String, Value>),
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
        if format == PatchFormat::Json {
            return Operations::decode(body).map(Self::Json);
        }
        let patch = match serde_json::from_slice(body).map_err(|_| invalid_json())? {
            Value::Object(patch) => patch,
            Value::Null if format == PatchFormat::Strategic => Map::new(),
            Value::Null => return Err(Status::bad_request("Invalid JSON Patch")),
            other => {
                let prefix = if format == PatchFormat::Merge { "error decoding patch: " } else { "" };
                return Err(Status::bad_request(format!(
                    "{prefix}json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                    type_of(&other)
                )));
            }
        };
        Ok(if format == PatchFormat::Merge { Self::Merge(patch) } else { Self::Strategic(patch) })
    }

    /// Returns the patched object, which may be another value.
    ///
    /// # Errors
    /// 422 for an operation that fails, 400 and 500 for an invalid directive, 413 for a patch that moves too much.
    pub(crate) fn apply(&self, mut object: Map<String, Value>) -> Result<Value, Status> {
        let names_managers = self.names_managers();
        if names_managers {
            unpack(&mut object);
        }
        let mut patched = match self {
            Self::Json(operations) => operations.apply(object)?,
            Self::Merge(patch) => {
                merge::merge(&mut object, patch);
                Value::Object(object)
            }
            Self::Strategic(patch) => {
                strategic::merge(&mut object, patch)?;
                Value::Object(object)
            }
        };
        if let Value::Object(object) = &mut patched
            && names_managers
        {
            refuse_packed(object);
        }
        Ok(patched)
    }

    pub(crate) fn is_strategic(&self) -> bool {
        matches!(self, Self::Strategic(_))
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

/// The type of a JSON value in the messages of Go.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::Null => "null",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // contract: E-01k
    #[test]
    fn patch_that_moves_many_items_is_refused() {
        let object = json!({"l": vec![0; 1_000_000]}).as_object().unwrap().clone();
        for operation in [
            json!({"op": "add", "path": "/l/0", "value": 1}),
            json!({"op": "remove", "path": "/l/0"}),
            json!({"op": "copy", "from": "/l/1", "path": "/l/0"}),
            json!({"op": "move", "from": "/l/1", "path": "/l/0"}),
        ] {
            let patch = |count: usize| {
                let body = serde_json::to_vec(&vec![operation.clone(); count]).unwrap();
                Patch::decode(PatchFormat::Json, &body).unwrap().apply(object.clone())
            };
            patch(3).unwrap();
            assert_eq!(patch(100).unwrap_err().code(), 413, "{operation}");
        }
    }
}
