//! Changes as they are sent.

use std::ops::Range;

use bytes::Bytes;
use kinformer::PackedObject;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::diff::{self, ShownEntry};
use crate::format::rfc3339;
use crate::hidden::HiddenFields;
use crate::memory::{ChangeKind, Recorded};

/// The most entries of a difference.
const ENTRIES: usize = 50;
/// The most bytes of one value in a difference.
const VALUE_BYTES: usize = 4 * 1024;
/// Fields that differ in every version, and say nothing that the change does not say.
const NOISE: [&[&str]; 2] = [&["metadata", "resourceVersion"], &["metadata", "managedFields"]];

/// A change as it is sent.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Change<'a> {
    id: u64,
    informer: &'a str,
    cluster: &'a str,
    scope: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    /// Always `false`: the objects of the initial list are not recorded.
    initial: bool,
    key: String,
    namespace: Option<&'a str>,
    name: &'a str,
    uid: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    old_resource_version: Option<String>,
    resource_version: Option<String>,
    time: String,
    final_state_unknown: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<Vec<ShownEntry>>,
    diff_truncated: bool,
}

/// The names of an informer, as in each of its changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    pub(crate) informer: &'a str,
    pub(crate) cluster: &'a str,
    pub(crate) scope: &'a str,
}

impl<'a> Change<'a> {
    /// Computes the difference of an update: decodes both states, O(size).
    fn of(change: &'a Recorded, names: Names<'a>, hidden: &HiddenFields) -> Self {
        let version = |object: &PackedObject| object.resource_version().to_string();
        let difference = (change.kind == ChangeKind::Updated)
            .then(|| difference(change.old.as_deref()?, change.new.as_deref()?, hidden))
            .flatten();
        let (diff, diff_truncated) = match difference {
            Some((entries, truncated)) => (Some(entries), truncated),
            None => (None, false),
        };
        Self {
            id: change.id,
            informer: names.informer,
            cluster: names.cluster,
            scope: names.scope,
            kind: change.kind.name(),
            initial: false,
            key: change.key.to_string(),
            namespace: change.key.namespace(),
            name: change.key.name(),
            uid: change.new.as_deref().and_then(PackedObject::uid),
            old_resource_version: change.old.as_deref().map(version),
            resource_version: change.new.as_deref().map(version),
            time: rfc3339(change.time),
            final_state_unknown: change.final_state_unknown,
            diff,
            diff_truncated,
        }
    }
}

/// A change as an event of a stream, in which is its JSON.
#[derive(Clone, Debug)]
pub(crate) struct Encoded {
    event: Bytes,
    json: Range<usize>,
}

impl Encoded {
    /// Computes the difference of an update: decodes both states, O(size).
    pub(crate) fn of(change: &Recorded, names: Names<'_>, hidden: &HiddenFields) -> Self {
        let mut event = format!("id: {}\nevent: change\ndata: ", change.id).into_bytes();
        let start = event.len();
        if let Err(error) = serde_json::to_writer(&mut event, &Change::of(change, names, hidden)) {
            // No change fails to serialize.
            tracing::error!(%error, "a change could not be serialized");
        }
        let json = start..event.len();
        event.extend_from_slice(b"\n\n");
        Self { event: event.into(), json }
    }

    /// The event, in the form of server-sent events.
    pub(crate) fn event(&self) -> Bytes {
        self.event.clone()
    }

    /// The JSON.
    pub(crate) fn json(&self) -> Option<&RawValue> {
        serde_json::from_slice(self.event.get(self.json.clone())?).ok()
    }

    pub(crate) fn len(&self) -> usize {
        self.event.len()
    }

    #[cfg(test)]
    pub(crate) fn raw(event: Vec<u8>) -> Self {
        Self { json: 0..event.len(), event: event.into() }
    }
}

/// The entries of an update as the page has them, and whether some were left out. `None` if a state cannot be decoded.
pub fn differences(old: &PackedObject, new: &PackedObject) -> Option<(Vec<ShownEntry>, bool)> {
    difference(old, new, &HiddenFields::default())
}

/// Returns `None` if a state cannot be decoded.
fn difference(
    old: &PackedObject,
    new: &PackedObject,
    hidden: &HiddenFields,
) -> Option<(Vec<ShownEntry>, bool)> {
    let value = |object: &PackedObject| {
        let mut value: Value = object.decode_new().ok()?;
        hidden.remove_from(&mut value);
        NOISE.iter().for_each(|path| diff::remove(&mut value, path));
        Some(value)
    };
    Some(diff::shown(diff::diff(&value(old)?, &value(new)?), ENTRIES, VALUE_BYTES))
}
