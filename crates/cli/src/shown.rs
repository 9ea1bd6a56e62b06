//! What the program shows of an object, and where it stands.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kinformer::{FieldPath, FromWire, KubeListerWatcher, Object, PackedObject};
use kube_client::Client;
use kube_core::discovery::ApiResource;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

/// An object of any kind as the server sent it.
pub(crate) type Whole = PackedObject;

/// An object of which the program shows something.
pub(crate) trait Shown: Object + FromWire {
    /// Where they come from to be watched.
    fn source(client: Client, resource: ApiResource) -> KubeListerWatcher<Self>;

    /// How pods, namespaces and volumes are.
    fn phase(&self, fields: &Fields) -> Option<Cow<'_, str>>;

    /// Where a pod is.
    fn node(&self, fields: &Fields) -> Option<Cow<'_, str>>;
}

/// Where in the objects of one resource stands what is shown.
#[derive(Debug)]
pub(crate) struct Fields {
    phase: FieldPath,
    node: FieldPath,
    created: FieldPath,
}

impl Default for Fields {
    fn default() -> Self {
        Self {
            phase: FieldPath::new(&["status", "phase"]),
            node: FieldPath::new(&["spec", "nodeName"]),
            created: FieldPath::new(&["metadata", "creationTimestamp"]),
        }
    }
}

/// What makes objects large and is never shown while they are watched.
const UNSHOWN: [&[&str]; 10] = [
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

/// Nothing is decoded but what is shown, when it is.
impl Shown for Whole {
    fn source(client: Client, resource: ApiResource) -> KubeListerWatcher<Self> {
        let source = KubeListerWatcher::packed_dynamic(client, resource);
        source.drop_fields(UNSHOWN.map(FieldPath::new))
    }

    fn phase(&self, fields: &Fields) -> Option<Cow<'_, str>> {
        text_at(self, &fields.phase)
    }

    fn node(&self, fields: &Fields) -> Option<Cow<'_, str>> {
        text_at(self, &fields.node)
    }
}

impl Fields {
    /// Since when it is there.
    pub(crate) fn created(&self, object: &Whole) -> Option<Timestamp> {
        object.field::<Time>(&self.created).ok()?.map(|time| time.0)
    }
}

/// The owners of an object, each as `Kind/name`.
pub(crate) fn owners(object: &Whole) -> Vec<String> {
    let owners = object.owner_references::<Owner>().unwrap_or_default();
    owners.into_iter().map(|Owner { kind, name }| format!("{kind}/{name}")).collect()
}

#[derive(Deserialize)]
struct Owner {
    kind: String,
    name: String,
}

fn text_at<'a>(object: &Whole, path: &FieldPath) -> Option<Cow<'a, str>> {
    // Custom resources may have anything there.
    let Text(text) = object.field(path).ok()??;
    Some(String::from(text?).into())
}

/// A text, or nothing where a custom resource has something else under that name.
#[derive(Default)]
pub(crate) struct Text(pub(crate) Option<Box<str>>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Any {
            Text(Box<str>),
            Other(IgnoredAny),
        }
        Ok(Self(match Any::deserialize(deserializer)? {
            Any::Text(text) => Some(text),
            Any::Other(_) => None,
        }))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use kinformer_wire::ObjectDecoder;
    use serde_json::{Value, json};

    use super::*;

    /// As it comes.
    pub(crate) fn whole(object: &Value) -> Whole {
        Whole::from_wire(object.to_string().as_bytes(), &ObjectDecoder::json()).expect("an object")
    }

    #[test]
    fn what_is_shown_is_found_and_the_rest_is_left() {
        let fields = Fields::default();
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "b", "uid": "u"});
        let object = whole(&json!({
            "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [owner]},
            "spec": {"nodeName": "n"}, "status": {"phase": "Running"},
        }));
        assert_eq!((object.phase(&fields), object.node(&fields)), (Some("Running".into()), Some("n".into())));
        assert_eq!(owners(&object), ["Job/b"]);
        assert_eq!(
            fields.created(&object).map(|time| time.to_string()).as_deref(),
            Some("2026-01-01T00:00:00Z")
        );
    }

    #[test]
    fn what_is_something_else_is_not_shown() {
        let fields = Fields::default();
        for object in [
            json!({"metadata": {"name": "a"}}),
            json!({"metadata": {"name": "a"}, "spec": null, "status": {"phase": {"a": 1}}}),
            json!({"metadata": {"name": "a", "ownerReferences": 7}, "spec": {"nodeName": 7}, "status": "good"}),
        ] {
            let object = whole(&object);
            assert_eq!((object.phase(&fields), object.node(&fields)), (None, None));
            assert_eq!((owners(&object), fields.created(&object)), (Vec::new(), None));
        }
    }
}
