//! Stored objects: the serialized bytes, and the values that reads and selectors need without parsing.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::apply::pack_with;
use crate::protobuf;
use crate::registry::FieldPath;

use super::EventType;
use super::ownership::{DELETE_DEPENDENTS, ORPHAN_DEPENDENTS, OwnerReference, Ownership};
use super::serialize::{Shared, Writer, write_json};
use super::texts::Texts;

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

/// Whether `managedFields` are a part of what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManagedFields {
    Sent,
    /// The client asked for objects without them.
    Dropped,
}

/// One immutable state of one object.
///
/// It is serialized once, as the frame for its watches; lists and gets use parts of the same bytes. `apiVersion`,
/// `kind` and `metadata` are the first fields, so that another version of the same kind, list items without their
/// type, and metadata-only responses are parts that need no parsing. The fields of managers are stored apart, since most
/// objects of a resource have the same; they are put in when the object is sent.
pub(crate) struct Stored {
    key: Key,
    version: u64,
    uid: Box<str>,
    labels: Box<[(Box<str>, Box<str>)]>,
    fields: Box<[Box<str>]>,
    /// The frame without the shared parts.
    own: Bytes,
    /// The shared parts, all of them in `metadata`, in the order of their places.
    shared: Box<[Shared]>,
    object: Range<usize>,
    /// From the `"metadata"` field to before the closing brace of the object.
    members: Range<usize>,
    /// The value of `metadata`.
    metadata: Range<usize>,
    /// The field `managedFields` of `metadata`, with a comma; empty if there is none.
    managed_fields: Range<usize>,
    terminating: bool,
    ownership: Option<Box<Ownership>>,
    protobuf: OnceLock<Option<Bytes>>,
}

impl Stored {
    /// Serializes `object`, which must be complete and have its version set. `texts` are those of its resource, if the
    /// object is stored for long.
    pub(crate) fn new(
        key: Key,
        version: u64,
        event_type: EventType,
        object: &Map<String, Value>,
        fields: &[FieldPath],
        texts: Option<&Texts>,
    ) -> Self {
        let metadata = object.get("metadata").and_then(Value::as_object);
        let text = |field: &str| metadata.and_then(|m| m.get(field)).and_then(Value::as_str).unwrap_or("");
        let mut writer = Writer { out: Vec::with_capacity(1024), texts, ..Writer::default() };
        writer.out.extend_from_slice(event_type.frame_start());
        let start = writer.out.len();
        writer.out.extend_from_slice(b"{\"apiVersion\":");
        write_json(&mut writer.out, object.get("apiVersion").unwrap_or(&Value::Null));
        writer.out.extend_from_slice(b",\"kind\":");
        write_json(&mut writer.out, object.get("kind").unwrap_or(&Value::Null));
        writer.out.push(b',');
        let members_start = writer.out.len();
        writer.out.extend_from_slice(b"\"metadata\":");
        let metadata_start = writer.out.len();
        match metadata {
            Some(metadata) => writer.metadata(metadata),
            None => write_json(&mut writer.out, object.get("metadata").unwrap_or(&Value::Null)),
        }
        let Writer { mut out, shared, managed_fields, .. } = writer;
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
        Self {
            version,
            uid: text("uid").into(),
            labels: labels_of(metadata),
            fields: fields.iter().map(|field| field.read(object).into()).collect(),
            own: out.into_boxed_slice().into(),
            shared: shared.into(),
            object: start..end,
            members,
            metadata: metadata_range,
            managed_fields,
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
        self.own.len() + self.shared_len()
    }

    fn shared_len(&self) -> usize {
        self.shared.iter().map(|shared| shared.text.len()).sum()
    }

    /// Returns the complete object.
    pub(crate) fn object(&self) -> Bytes {
        self.part(self.object.clone())
    }

    /// Appends `"metadata":{…},…`: all fields but the type, without the braces.
    pub(crate) fn write_members(&self, out: &mut Vec<u8>, managed_fields: ManagedFields) {
        self.write_with(out, self.members.clone(), managed_fields);
    }

    /// Appends the value of `metadata`.
    pub(crate) fn write_metadata(&self, out: &mut Vec<u8>, managed_fields: ManagedFields) {
        self.write_with(out, self.metadata.clone(), managed_fields);
    }

    /// Returns the value of `metadata`.
    pub(crate) fn metadata(&self) -> Bytes {
        self.part(self.metadata.clone())
    }

    /// Returns the watch line of the event that created this state.
    pub(crate) fn frame(&self) -> Frame {
        self.part(0..self.own.len())
    }

    /// Returns a part of the frame that includes the shared parts; without a copy if there are none.
    fn part(&self, range: Range<usize>) -> Bytes {
        if self.shared.is_empty() {
            return self.own.slice(range);
        }
        let mut out = Vec::with_capacity(range.len() + self.shared_len());
        self.write(&mut out, range);
        out.into()
    }

    /// Appends a part that includes the metadata. All shared parts are in `managedFields`.
    fn write_with(&self, out: &mut Vec<u8>, range: Range<usize>, managed_fields: ManagedFields) {
        if managed_fields == ManagedFields::Sent || self.managed_fields.is_empty() {
            return self.write(out, range);
        }
        let Range { start, end } = self.managed_fields;
        out.extend_from_slice(self.own.get(range.start..start).unwrap_or_default());
        out.extend_from_slice(self.own.get(end..range.end).unwrap_or_default());
    }

    fn write(&self, out: &mut Vec<u8>, range: Range<usize>) {
        let mut from = range.start;
        for Shared { at, text } in &self.shared {
            out.extend_from_slice(self.own.get(from..*at).unwrap_or_default());
            out.extend_from_slice(text.as_bytes());
            from = *at;
        }
        out.extend_from_slice(self.own.get(from..range.end).unwrap_or_default());
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

    /// Parses the object, with packed entries of managers.
    pub(crate) fn parse_packed(&self) -> Map<String, Value> {
        let texts = self.shared.iter().map(|shared| &*shared.text);
        let mut out = Vec::with_capacity(self.object.len() + 2 * self.shared.len());
        let mut from = self.object.start;
        for Shared { at, .. } in &self.shared {
            out.extend_from_slice(self.own.get(from..*at).unwrap_or_default());
            out.extend_from_slice(b"{}");
            from = *at;
        }
        out.extend_from_slice(self.own.get(from..self.object.end).unwrap_or_default());
        let mut object = match serde_json::from_slice(&out) {
            Ok(Value::Object(map)) => map,
            _ => Map::new(),
        };
        pack_with(&mut object, texts);
        object
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stored(name: &str, texts: Option<&Texts>) -> Stored {
        let fields: Map<String, Value> = (0..20).map(|n| (format!("f:field-{n}"), json!({}))).collect();
        let entry = |manager: &str| json!({"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": fields}});
        let object = json!({"apiVersion": "v1", "kind": "T", "spec": {"a": 1}, "metadata": {"name": name, "uid": "u",
            "managedFields": [entry("a"), "no entry", entry("b"), {"fieldsV1": {"f:a": {}}, "manager": "c"}]}});
        let object = object.as_object().unwrap();
        Stored::new(Key::new("", name), 1, EventType::Added, object, &[], texts)
    }

    /// The bytes are the same whether parts of them are shared or not.
    // contract: E-19a
    #[test]
    fn fields_of_managers_are_shared() {
        let texts = Texts::default();
        let (alone, shared, other) =
            (stored("x", None), stored("x", Some(&texts)), stored("other", Some(&texts)));
        assert_eq!(shared.object(), alone.object());
        assert_eq!(shared.frame(), alone.frame());
        assert_eq!(shared.metadata(), alone.metadata());
        assert_eq!((shared.parse(), shared.len()), (alone.parse(), alone.len()));
        let parts = |stored: &Stored| {
            let (mut members, mut metadata) = (Vec::new(), Vec::new());
            stored.write_members(&mut members, ManagedFields::Sent);
            stored.write_metadata(&mut metadata, ManagedFields::Sent);
            (members, metadata)
        };
        assert_eq!(parts(&shared), parts(&alone));
        assert_eq!(shared.shared.len(), 3);
        let pointers = shared.shared.iter().chain(&other.shared).map(|shared| shared.text.as_ptr());
        assert_eq!(pointers.collect::<std::collections::HashSet<_>>().len(), 2);

        let packed = shared.parse_packed();
        assert_eq!(packed, alone.parse_packed());
        assert!(packed["metadata"]["managedFields"][0]["fieldsV1"].is_string());
        for texts in [None, Some(&texts)] {
            let again = Stored::new(Key::new("", "x"), 1, EventType::Added, &packed, &[], texts);
            assert_eq!(again.frame(), alone.frame());
        }
    }

    // contract: E-02f
    #[test]
    fn managed_fields_are_dropped_wherever_they_are() {
        let entry = json!({"manager": "a", "fieldsV1": {"f:a": {}}});
        for (others, dropped) in [
            (json!({}), "{}"),
            (json!({"name": "x"}), r#"{"name":"x"}"#),
            (json!({"labels": {}}), r#"{"labels":{}}"#),
            (json!({"labels": {}, "name": "x"}), r#"{"labels":{},"name":"x"}"#),
        ] {
            for texts in [None, Some(&Texts::default())] {
                for managed in [None, Some(json!([])), Some(json!([entry, entry]))] {
                    let mut object = json!({"apiVersion": "v1", "kind": "T", "metadata": others, "spec": 1});
                    if let Some(managed) = managed {
                        object["metadata"]["managedFields"] = managed;
                    }
                    let object = object.as_object().unwrap();
                    let stored = Stored::new(Key::raw("a"), 1, EventType::Added, object, &[], texts);
                    let (mut members, mut metadata) = (Vec::new(), Vec::new());
                    stored.write_members(&mut members, ManagedFields::Dropped);
                    stored.write_metadata(&mut metadata, ManagedFields::Dropped);
                    assert_eq!(String::from_utf8(metadata).unwrap(), dropped);
                    let members = String::from_utf8(members).unwrap();
                    assert_eq!(members, format!(r#""metadata":{dropped},"spec":1"#));
                    assert_eq!(stored.parse(), *object);
                }
            }
        }
    }

    /// Texts that are no sets are written as texts, and do not break the lines of watches.
    // contract: E-19a
    #[test]
    fn other_texts_are_written_as_they_are() {
        for text in ["", "x", "{", "{}\n", "{\n}", "[]", "{}{}"] {
            let object =
                json!({"apiVersion": "v1", "kind": "T", "metadata": {"managedFields": [{"fieldsV1": text}]}});
            let object = object.as_object().unwrap();
            for texts in [None, Some(&Texts::default())] {
                let stored = Stored::new(Key::raw("a"), 1, EventType::Added, object, &[], texts);
                assert_eq!(stored.parse(), *object);
                assert_eq!(stored.parse_packed(), *object);
                assert_eq!(stored.frame().iter().filter(|byte| **byte == b'\n').count(), 1);
            }
        }
    }
}
