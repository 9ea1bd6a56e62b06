//! The fields of an object that the program displays, beside its identity.
//!
//! All other fields are skipped while an object is decoded.

use std::fmt;
use std::marker::PhantomData;

use kinformer::PackedObject;
use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The displayed fields of an object of any kind. In a custom resource a field of the same name may have another
/// type; it is then ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DisplayFields {
    spec: Map<Spec>,
    status: Map<Status>,
}

impl DisplayFields {
    /// The node of a pod.
    pub(crate) fn node(&self) -> Option<&str> {
        self.spec.0.node_name.0.as_deref()
    }

    /// The phase of a pod, namespace or volume.
    pub(crate) fn phase(&self) -> Option<&str> {
        self.status.0.phase.0.as_deref()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: Text,
}

/// Large fields that `kinformer watch` never displays. They are dropped on arrival.
pub(crate) const DROPPED_FIELDS: [&[&str]; 10] = [
    &["metadata", "annotations"],
    &["spec", "containers"],
    &["spec", "initContainers"],
    &["spec", "template"],
    &["spec", "volumes"],
    &["status", "conditions"],
    &["status", "containerStatuses"],
    &["status", "images"],
    &["binaryData"],
    &["data"],
];

/// Fields of a Secret whose values `kinformer watch` does not print.
pub(crate) const SECRET_FIELDS: [&[&str]; 3] = [&["metadata", "annotations"], &["data"], &["stringData"]];

/// The owners of an object, each as `Kind/name`.
pub(crate) fn owners(object: &PackedObject) -> Vec<String> {
    let owners = object.owner_references_as::<Owner>().unwrap_or_default();
    owners.into_iter().map(|Owner { kind, name }| format!("{kind}/{name}")).collect()
}

#[derive(Deserialize)]
struct Owner {
    kind: String,
    name: String,
}

/// A string; `None` for a value of any other type.
#[derive(Debug, Default)]
pub(crate) struct Text(pub(crate) Option<Box<str>>);

/// A map with some fields; the default for a value of any other type.
#[derive(Debug, Default)]
struct Map<T>(T);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Lenient(PhantomData))
    }
}

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for Map<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Lenient(PhantomData))
    }
}

/// Conversion from a string or a map; by default, both are ignored.
trait Shape<'de>: Default {
    fn text(text: &str) -> Self {
        let _ = text;
        Self::default()
    }

    fn map<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
}

impl Shape<'_> for Text {
    fn text(text: &str) -> Self {
        Self(Some(text.into()))
    }
}

impl<'de, T: Deserialize<'de> + Default> Shape<'de> for Map<T> {
    fn map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Self)
    }
}

/// Accepts a value of any type.
struct Lenient<S>(PhantomData<S>);

impl<'de, S: Shape<'de>> Visitor<'de> for Lenient<S> {
    type Value = S;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<S, E> {
        Ok(S::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<S, E> {
        Ok(S::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<S, E> {
        Ok(S::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<S, E> {
        Ok(S::default())
    }

    fn visit_str<E>(self, text: &str) -> Result<S, E> {
        Ok(S::text(text))
    }

    fn visit_unit<E>(self) -> Result<S, E> {
        Ok(S::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<S, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(S::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<S, A::Error> {
        S::map(map)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use kinformer::Packed;
    use kinformer_wire::{FromWire, ObjectDecoder};
    use serde_json::{Value, json};

    use super::*;

    /// An object as it arrives.
    pub(crate) fn packed(object: &Value) -> Packed<DisplayFields> {
        Packed::from_wire(object.to_string().as_bytes(), &ObjectDecoder::json()).expect("an object")
    }

    #[test]
    fn displayed_fields_are_decoded() {
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "b", "uid": "u"});
        let object = packed(&json!({
            "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [owner]},
            "spec": {"nodeName": "n", "containers": [{"name": "c"}]}, "status": {"phase": "Running"},
        }));
        let shown = object.decode().expect("of any kind");
        assert_eq!((shown.phase(), shown.node()), (Some("Running"), Some("n")));
        assert_eq!(owners(&object), ["Job/b"]);
    }

    #[test]
    fn fields_of_other_types_are_ignored() {
        for object in [
            json!({"metadata": {"name": "a"}}),
            json!({"metadata": {"name": "a"}, "spec": null, "status": {"phase": {"a": 1}}}),
            json!({"metadata": {"name": "a", "ownerReferences": 7}, "spec": {"nodeName": 7}, "status": "good"}),
            json!({"metadata": {"name": "a", "creationTimestamp": "soon"}, "spec": [1, {}], "status": {"phase": [null]}}),
            json!({"metadata": {"name": "a", "creationTimestamp": null}, "spec": -1.5, "status": true}),
        ] {
            let object = packed(&object);
            let shown = object.decode().expect("of any kind");
            assert_eq!((shown.phase(), shown.node()), (None, None));
            assert_eq!(owners(&object), Vec::<String>::new());
        }
        let object = packed(&json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n"}, "status": "good"}));
        assert_eq!(object.decode().expect("of any kind").node(), Some("n"));
    }
}
