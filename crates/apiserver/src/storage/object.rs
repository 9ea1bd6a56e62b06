//! Stored objects: the serialized bytes, and the values that reads and selectors need without parsing.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::protobuf;
use crate::registry::FieldPath;

use super::EventType;
use super::ownership::{DELETE_DEPENDENTS, ORPHAN_DEPENDENTS, OwnerReference, Ownership};

/// `namespace/name`, or `name` for a cluster-scoped object. Lists are in this order, as in etcd.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(Arc<str>);

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() { Self(name.into()) } else { Self(format!("{namespace}/{name}").into()) }
    }

    /// A position between keys from which a list continues; not the key of an object.
    pub(crate) fn raw(text: &str) -> Self {
        Self(text.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    pub(crate) fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A line of a watch stream: `{"type":"ADDED","object":{…}}` and a newline.
pub(crate) type Frame = Bytes;

/// One immutable state of one object.
///
/// It is serialized once, as the frame for its watches; lists and gets use slices of the same bytes. `apiVersion`,
/// `kind` and `metadata` are the first fields, so that another version of the same kind, list items without their
/// type, and metadata-only responses are slices that need no parsing.
pub(crate) struct Stored {
    key: Key,
    version: u64,
    uid: Box<str>,
    labels: Box<[(Box<str>, Box<str>)]>,
    fields: Box<[Box<str>]>,
    frame: Frame,
    object: Range<usize>,
    /// From the `"metadata"` field to before the closing brace of the object.
    members: Range<usize>,
    /// The value of `metadata`.
    metadata: Range<usize>,
    terminating: bool,
    ownership: Option<Box<Ownership>>,
    protobuf: OnceLock<Option<Bytes>>,
}

impl Stored {
    /// Serializes `object`, which must be complete and have its version set.
    pub(crate) fn new(
        key: Key,
        version: u64,
        event_type: EventType,
        object: &Map<String, Value>,
        fields: &[FieldPath],
    ) -> Self {
        let metadata = object.get("metadata").and_then(Value::as_object);
        let text = |field: &str| metadata.and_then(|m| m.get(field)).and_then(Value::as_str).unwrap_or("");
        let mut out = Vec::with_capacity(1024);
        out.extend_from_slice(event_type.frame_start());
        let start = out.len();
        out.extend_from_slice(b"{\"apiVersion\":");
        write_json(&mut out, object.get("apiVersion").unwrap_or(&Value::Null));
        out.extend_from_slice(b",\"kind\":");
        write_json(&mut out, object.get("kind").unwrap_or(&Value::Null));
        out.push(b',');
        let members_start = out.len();
        out.extend_from_slice(b"\"metadata\":");
        let metadata_start = out.len();
        write_json(&mut out, object.get("metadata").unwrap_or(&Value::Null));
        let metadata_range = metadata_start..out.len();
        for (name, value) in object {
            if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                out.push(b',');
                write_json(&mut out, name);
                out.push(b':');
                write_json(&mut out, value);
            }
        }
        let members = members_start..out.len();
        out.push(b'}');
        let end = out.len();
        out.extend_from_slice(FRAME_END);
        out.shrink_to_fit();
        Self {
            version,
            uid: text("uid").into(),
            labels: labels_of(metadata),
            fields: fields.iter().map(|field| field.read(object).into()).collect(),
            frame: out.into(),
            object: start..end,
            members,
            metadata: metadata_range,
            terminating: metadata.is_some_and(|m| m.contains_key("deletionTimestamp")),
            ownership: metadata.and_then(Ownership::of),
            protobuf: OnceLock::new(),
            key,
        }
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn uid(&self) -> &str {
        &self.uid
    }

    /// Whether the object has a `deletionTimestamp`.
    pub(crate) fn is_terminating(&self) -> bool {
        self.terminating
    }

    /// Whether the object has owners or a finalizer of garbage collection.
    pub(super) fn has_ownership(&self) -> bool {
        self.ownership.is_some()
    }

    pub(crate) fn owners(&self) -> &[OwnerReference] {
        self.ownership.as_deref().map_or(&[], |ownership| &ownership.owners)
    }

    /// Returns the finalizer of garbage collection that the object has.
    pub(crate) fn collection_finalizer(&self) -> Option<&'static str> {
        match self.ownership.as_deref()? {
            Ownership { orphans_dependents: true, .. } => Some(ORPHAN_DEPENDENTS),
            Ownership { deletes_dependents: true, .. } => Some(DELETE_DEPENDENTS),
            _ => None,
        }
    }

    /// Whether the object is being deleted in the foreground: it waits until its dependents are deleted.
    pub(crate) fn deletes_dependents(&self) -> bool {
        self.terminating && self.ownership.as_deref().is_some_and(|ownership| ownership.deletes_dependents)
    }

    /// Whether the object is being deleted, and waits until its dependents no longer refer to it.
    pub(crate) fn orphans_dependents(&self) -> bool {
        self.terminating && self.ownership.as_deref().is_some_and(|ownership| ownership.orphans_dependents)
    }

    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(key, _)| **key == *name).map(|(_, value)| &**value)
    }

    /// Returns the value of the resource's field selector number `index`.
    pub(crate) fn field(&self, index: usize) -> &str {
        self.fields.get(index).map_or("", |value| value)
    }

    /// The bytes of the frame.
    pub(crate) fn len(&self) -> usize {
        self.frame.len()
    }

    /// Returns the complete object.
    pub(crate) fn object(&self) -> Bytes {
        self.frame.slice(self.object.clone())
    }

    /// Returns `"metadata":{…},…`: all fields but the type, without the braces.
    pub(crate) fn members(&self) -> &[u8] {
        self.frame.get(self.members.clone()).unwrap_or_default()
    }

    /// Returns the value of `metadata`.
    pub(crate) fn metadata(&self) -> &[u8] {
        self.frame.get(self.metadata.clone()).unwrap_or_default()
    }

    /// Returns the watch line of the event that created this state.
    pub(crate) fn frame(&self) -> Frame {
        self.frame.clone()
    }

    /// Returns the protobuf message of the object without its type, encoded at most once; `None` for kinds without
    /// protobuf.
    pub(crate) fn protobuf(&self) -> Option<&Bytes> {
        let made = self.protobuf.get_or_init(|| {
            let object = self.parse();
            let text = |member: &str| object.get(member).and_then(Value::as_str).unwrap_or("");
            protobuf::message(text("apiVersion"), text("kind"), &object).map(Bytes::from)
        });
        made.as_ref()
    }

    /// Parses the object.
    pub(crate) fn parse(&self) -> Map<String, Value> {
        match serde_json::from_slice(&self.object()) {
            Ok(Value::Object(map)) => map,
            _ => Map::new(),
        }
    }
}

fn labels_of(metadata: Option<&Map<String, Value>>) -> Box<[(Box<str>, Box<str>)]> {
    let labels = metadata.and_then(|metadata| metadata.get("labels")).and_then(Value::as_object);
    let labels = labels.into_iter().flatten();
    labels.filter_map(|(name, value)| Some((name.as_str().into(), value.as_str()?.into()))).collect()
}

pub(crate) const FRAME_END: &[u8] = b"}\n";

/// Writes JSON into memory, which cannot fail for a `Value` or a string.
pub(crate) fn write_json<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let before = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(before);
        out.extend_from_slice(b"null");
    }
}
