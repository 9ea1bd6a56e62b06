//! What the response of a write says.

use http::Method;
use kinformer::generic::FromWire as _;
use kinformer::{ObjectDecoder, ObjectKey, Packed, ResourceVersion};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::ledger::Write;
use super::request::Target;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    details: Option<Details>,
    /// Of a list: the objects of a collection that was deleted.
    #[serde(default)]
    items: Option<Vec<Item>>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    deletion_timestamp: Option<IgnoredAny>,
    deletion_grace_period_seconds: Option<i64>,
    finalizers: Option<Vec<IgnoredAny>>,
}

impl Metadata {
    fn key(&self) -> Option<ObjectKey> {
        key(self.namespace.as_deref(), self.name.as_deref()?)
    }

    /// Whether the object may be gone, because nothing keeps it any more. kube-apiserver deletes an object with its last
    /// finalizer, and its response is the update, with the version before.
    fn may_be_gone(&self) -> bool {
        self.deletion_timestamp.is_some()
            && self.finalizers.as_ref().is_none_or(Vec::is_empty)
            && self.deletion_grace_period_seconds.unwrap_or_default() == 0
    }

    fn deleted(&self, uid: &str, is_gone: bool) -> Write {
        let existed = self.resource_version.as_deref().map(ResourceVersion::from);
        Write::Deleted { uid: uid.into(), is_gone, existed }
    }
}

/// The details of a status.
#[derive(Deserialize)]
struct Details {
    uid: Option<String>,
}

fn key(namespace: Option<&str>, name: &str) -> Option<ObjectKey> {
    match namespace.filter(|namespace| !namespace.is_empty()) {
        Some(namespace) => ObjectKey::new(namespace, name).ok(),
        None => ObjectKey::named(name).ok(),
    }
}

impl Target {
    pub(crate) fn key(&self) -> Option<ObjectKey> {
        key(self.namespace.as_deref(), self.name.as_deref()?)
    }

    /// Whether the object is a Namespace, whatever its response is.
    fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.plural == "namespaces"
    }

    /// Returns what was written; a key of `None` if the response does not say which objects were. `body` is `None` if the
    /// response was not received to its end.
    pub(crate) fn writes(&self, method: &Method, body: Option<&[u8]>) -> Vec<(Option<ObjectKey>, Write)> {
        let Some((body, envelope)) =
            body.and_then(|body| Some((body, serde_json::from_slice::<Envelope>(body).ok()?)))
        else {
            return vec![(self.key(), Write::Unversioned)];
        };
        if *method == Method::DELETE && self.name.is_none() {
            return self.collection(&envelope);
        }
        let write = match &envelope.kind[..] {
            "Status" => {
                let version =
                    envelope.metadata.resource_version.as_deref().filter(|version| !version.is_empty());
                let is_gone = *method == Method::DELETE;
                match (version.map(ResourceVersion::from), envelope.details.and_then(|details| details.uid)) {
                    // Of Kubernetes 1.38.
                    (Some(version), _) if is_gone => Write::Absent(version),
                    (Some(version), _) => Write::Version(version),
                    (None, Some(uid)) if is_gone => {
                        Write::Deleted { uid: uid.into(), is_gone: true, existed: None }
                    }
                    (None, _) => Write::Unversioned,
                }
            }
            kind => match &envelope.metadata {
                // A resource that is not stored, such as a review of access or a token.
                Metadata { uid: None, .. } | Metadata { resource_version: None, .. } => return Vec::new(),
                // It is gone: no finalizer and no grace period keep it.
                Metadata { uid: Some(uid), deletion_timestamp: None, .. } if *method == Method::DELETE => {
                    envelope.metadata.deleted(uid, true)
                }
                // A namespace has other finalizers as well.
                metadata if metadata.may_be_gone() && self.is_namespace() => Write::Unversioned,
                metadata @ Metadata { uid: Some(uid), .. } if metadata.may_be_gone() => {
                    metadata.deleted(uid, true)
                }
                // It has the version of its object, and no labels or no other fields.
                Metadata { resource_version: Some(version), .. }
                    if kind == "Scale" && self.subresource.is_some() || kind == "PartialObjectMetadata" =>
                {
                    Write::Version(ResourceVersion::from(version.as_str()))
                }
                _ => match Packed::<()>::from_wire(body, &ObjectDecoder::json()) {
                    Ok(object) => Write::State(object),
                    Err(_) => Write::Unversioned,
                },
            },
        };
        vec![(self.key().or_else(|| envelope.metadata.key()), write)]
    }

    /// The response of a deleted collection has the objects as they were before.
    fn collection(&self, envelope: &Envelope) -> Vec<(Option<ObjectKey>, Write)> {
        let Some(items) = &envelope.items else { return vec![(None, Write::Unversioned)] };
        let deleted = items.iter().map(|Item { metadata }| match (metadata.key(), &metadata.uid) {
            (Some(key), Some(uid)) => (Some(key), metadata.deleted(uid, false)),
            (key, _) => (key, Write::Unversioned),
        });
        deleted.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The writes of a response, as `key: write`.
    fn writes(method: Method, path: &str, body: Option<&str>) -> Vec<String> {
        let target = Target::of(&path.parse().unwrap()).unwrap();
        let writes = target.writes(&method, body.map(str::as_bytes));
        let text = |(key, write): (Option<ObjectKey>, Write)| {
            let key = key.map_or_else(|| "-".to_owned(), |key| key.to_string());
            match write {
                Write::State(object) => {
                    format!("{key}: state {} {}", object.key(), object.resource_version())
                }
                Write::Absent(version) => format!("{key}: absent {version}"),
                Write::Version(version) | Write::Reached(version) => format!("{key}: version {version}"),
                Write::Deleted { uid, is_gone, .. } => format!("{key}: deleted {uid} {is_gone}"),
                Write::Unversioned | Write::AtLeast(_) | Write::Unconfirmed(_) => {
                    format!("{key}: unversioned")
                }
            }
        };
        writes.into_iter().map(text).collect()
    }

    const PODS: &str = "/api/v1/namespaces/a/pods";
    const POD: &str = "/api/v1/namespaces/a/pods/web";

    // contract: C-08b, C-08i
    #[test]
    fn responses_with_an_object_have_its_state() {
        let pod = r#"{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web", "namespace": "a", "uid": "u", "resourceVersion": "7"}}"#;
        assert_eq!(writes(Method::POST, PODS, Some(pod)), ["a/web: state a/web 7"]);
        assert_eq!(writes(Method::DELETE, POD, Some(pod)), ["a/web: deleted u true"], "the last state");
        let ending =
            pod.replace(r#""uid": "u""#, r#""uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z""#);
        for kept in [r#""uid": "u", "finalizers": ["f"]"#, r#""uid": "u", "deletionGracePeriodSeconds": 30"#]
        {
            let pod = ending.replace(r#""uid": "u""#, kept);
            assert_eq!(writes(Method::DELETE, POD, Some(&pod)), ["a/web: state a/web 7"], "{kept}");
        }
        // Without its last finalizer it is gone, and the response has the version before.
        for method in [Method::PUT, Method::PATCH, Method::DELETE] {
            assert_eq!(writes(method.clone(), POD, Some(&ending)), ["a/web: deleted u true"]);
            // A namespace has finalizers in its specification, also if the response has only its metadata.
            for kind in ["Namespace", "PartialObjectMetadata"] {
                let namespace = ending.replace(r#""kind": "Pod""#, &format!(r#""kind": "{kind}""#));
                let namespace = namespace.replace(r#""namespace": "a", "#, "");
                assert_eq!(
                    writes(method.clone(), "/api/v1/namespaces/web", Some(&namespace)),
                    ["web: unversioned"],
                    "{kind}"
                );
            }
        }
        // The other fields are not known, so lists by fields wait for the version.
        let metadata = pod.replace(r#""kind": "Pod""#, r#""kind": "PartialObjectMetadata""#);
        assert_eq!(writes(Method::PATCH, POD, Some(&metadata)), ["a/web: version 7"]);
        let scale = r#"{"kind": "Scale", "metadata": {"name": "web", "namespace": "a", "uid": "u", "resourceVersion": "8"}}"#;
        let path = "/apis/apps/v1/namespaces/a/deployments/web/scale";
        assert_eq!(writes(Method::PATCH, path, Some(scale)), ["a/web: version 8"]);
        let review = r#"{"kind": "TokenReview", "metadata": {}, "status": {}}"#;
        assert!(writes(Method::POST, "/apis/authentication.k8s.io/v1/tokenreviews", Some(review)).is_empty());
    }

    // contract: C-08b, C-08c
    #[test]
    fn other_responses_have_no_version() {
        let status = r#"{"kind": "Status", "status": "Success", "details": {"name": "web", "uid": "u"}}"#;
        assert_eq!(writes(Method::DELETE, POD, Some(status)), ["a/web: deleted u true"]);
        let eviction = format!("{POD}/eviction");
        assert_eq!(writes(Method::POST, &eviction, Some(status)), ["a/web: unversioned"]);
        // Kubernetes 1.38 has a version in them.
        let with_version = |version: &str| {
            format!(r#"{{"kind": "Status", "metadata": {{"resourceVersion": "{version}"}}}}"#)
        };
        assert_eq!(writes(Method::DELETE, POD, Some(&with_version("9"))), ["a/web: absent 9"]);
        for path in [&*eviction, "/api/v1/namespaces/a/pods/web/binding"] {
            assert_eq!(writes(Method::POST, path, Some(&with_version("9"))), ["a/web: version 9"]);
            assert_eq!(writes(Method::POST, path, Some(&with_version(""))), ["a/web: unversioned"]);
        }
        let status = r#"{"kind": "Status", "status": "Success"}"#;
        assert_eq!(writes(Method::DELETE, POD, Some(status)), ["a/web: unversioned"]);
        for lost in [None, Some(""), Some("k8s\0protobuf")] {
            assert_eq!(writes(Method::PUT, POD, lost), ["a/web: unversioned"]);
            assert_eq!(writes(Method::POST, PODS, lost), ["-: unversioned"]);
        }
    }

    // contract: C-08c
    #[test]
    fn deleted_collection_names_its_objects() {
        let list = r#"{"kind": "PodList", "items": [{"metadata": {"name": "x", "namespace": "a", "uid": "1"}},
            {"metadata": {"name": "y", "namespace": "b", "uid": "2"}}]}"#;
        assert_eq!(
            writes(Method::DELETE, "/api/v1/pods", Some(list)),
            ["a/x: deleted 1 false", "b/y: deleted 2 false"]
        );
        let status = r#"{"kind": "Status", "status": "Success"}"#;
        assert_eq!(writes(Method::DELETE, PODS, Some(status)), ["-: unversioned"]);
    }
}
