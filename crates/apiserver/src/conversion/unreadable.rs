//! Stored objects that cannot be converted.
//!
//! Follows Kubernetes 1.37 (`apiserver/pkg/storage`: `NewCorruptObjError`, `corruptObjErrAggregator`).

use std::sync::Arc;

use crate::registry::Kind;
use crate::status::{Cause, Status};
use crate::storage::Stored;

/// A list ends after this many objects that cannot be converted (`maxCorruptObjErrsToAggregate`).
pub(crate) const MAX_UNREADABLE: usize = 100;

/// A stored object, and the error of its conversion.
pub(crate) struct Unreadable {
    pub(crate) stored: Arc<Stored>,
    pub(crate) error: Status,
}

impl Unreadable {
    /// Returns the answer to a request that reads the object.
    pub(crate) fn status(&self, kind: &Kind) -> Status {
        unreadable(kind, &self.stored, &self.error)
    }
}

fn message(stored: &Stored, error: &Status) -> String {
    format!("object not decodable revision={}: {}", stored.version(), error.message())
}

/// Returns the answer to a write of an object that cannot be converted.
pub(crate) fn unwritable(stored: &Stored, error: &Status) -> Status {
    Status::new(500, "", message(stored, error))
}

/// Returns the answer to a request that reads or deletes an object that cannot be converted.
pub(crate) fn unreadable(kind: &Kind, stored: &Stored, error: &Status) -> Status {
    Status::internal(corrupt(&key(kind, stored), stored, error))
}

/// Returns the answer to a list with objects that cannot be converted.
pub(crate) fn unlistable(kind: &Kind, failures: &[Unreadable]) -> Status {
    let cause = |Unreadable { stored, error }: &Unreadable| {
        let field = format!("/registry{}", key(kind, stored));
        let message = corrupt(&field, stored, error);
        Cause { reason: "UnexpectedServerResponse", message, field: Some(field) }
    };
    let status = Status::unlistable(kind.resource_subject(), failures.iter().map(cause).collect());
    if failures.len() < MAX_UNREADABLE {
        return status;
    }
    let message = "too many errors, the list is truncated".to_owned();
    status.because(Cause { reason: "FieldValueTooMany", message, field: None })
}

fn key(kind: &Kind, stored: &Stored) -> String {
    kind.storage_key(stored.key().namespace(), stored.key().name())
}

fn corrupt(key: &str, stored: &Stored, error: &Status) -> String {
    let why = message(stored, error);
    format!(
        "StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
    )
}
