//! Kubernetes objects that are decoded when they arrive.

use k8s_openapi::api::core::v1::{Node, Pod};
use kinformer_core::{KeyRef, Object, ResourceVersion};
use kinformer_kube::KubeObject;
use kube_core::metadata::PartialObjectMeta;
use kube_core::{DynamicObject, ObjectMeta, Resource, ResourceExt};
use serde_json::json;

fn meta(namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta {
        name: Some("web".into()),
        namespace: namespace.map(Into::into),
        uid: Some("u1".into()),
        resource_version: Some("42".into()),
        labels: Some([("app".to_owned(), "web".to_owned())].into()),
        ..Default::default()
    }
}

fn pod() -> KubeObject<Pod> {
    KubeObject(Pod { metadata: meta(Some("default")), ..Default::default() })
}

// contract: O-01a, O-01b
#[test]
fn every_resource_is_an_object() {
    let pod = pod();
    assert_eq!(pod.key(), KeyRef::new("default", "web"));
    assert_eq!(Object::uid(&pod), Some("u1"));
    assert_eq!(Object::resource_version(&pod), ResourceVersion::number(42));
    assert_eq!(Object::labels(&pod).collect::<Vec<_>>(), [("app", "web")]);
    assert_eq!((pod.label("app"), pod.label("x")), (Some("web"), None));
    let node = KubeObject(Node { metadata: meta(None), ..Default::default() });
    assert_eq!(node.key().to_string(), "web");
    assert!(KubeObject(Node::default()).key().check().is_err());
}

fn labelled(label: &str) -> ObjectMeta {
    let labels = [("app".to_owned(), label.to_owned())].into();
    ObjectMeta { name: Some("web".into()), labels: Some(labels), ..Default::default() }
}

fn partial<K: Resource>(label: &str) -> KubeObject<PartialObjectMeta<K>> {
    let _phantom = std::marker::PhantomData;
    KubeObject(PartialObjectMeta { types: None, metadata: labelled(label), _phantom })
}

fn compares_metadata<K: Resource + Send + Sync + 'static>() {
    assert_eq!(partial::<K>("a").has_same_content(&partial("a")), Some(true));
    assert_eq!(partial::<K>("a").has_same_content(&partial("b")), Some(false));
}

/// Two dynamic objects, or two objects of metadata only, are compared field by field.
// contract: I-14d
#[test]
fn dynamic_objects_and_metadata_compare_content() {
    let dynamic = |label: &str, value: i32| {
        let data = json!({"spec": {"value": value}});
        KubeObject(DynamicObject { types: None, metadata: labelled(label), data })
    };
    assert_eq!(dynamic("a", 1).has_same_content(&dynamic("a", 1)), Some(true));
    assert_eq!(dynamic("a", 1).has_same_content(&dynamic("a", 2)), Some(false));
    assert_eq!(dynamic("a", 1).has_same_content(&dynamic("b", 1)), Some(false));
    compares_metadata::<DynamicObject>();
    compares_metadata::<Pod>();
    // For other types the result is unknown.
    assert_eq!(pod().has_same_content(&pod()), None);
}

/// With both traits imported, each method call is unambiguous.
// contract: L-35a, L-35b
#[test]
fn kube_and_object_methods_are_unambiguous() {
    let mut pod = pod();
    // Only kube has these.
    assert_eq!((pod.name_any().as_str(), pod.namespace().as_deref()), ("web", Some("default")));
    assert!(pod.annotations().is_empty());
    // Both have these: on the wrapper those of `Object` are called, on the inner object those of kube.
    assert_eq!((pod.uid(), pod.0.uid()), (Some("u1"), Some("u1".to_owned())));
    assert_eq!(pod.resource_version(), ResourceVersion::number(42));
    assert_eq!(pod.0.resource_version().as_deref(), Some("42"));
    assert_eq!(pod.labels().count(), pod.0.labels().len());
    pod.0.labels_mut().clear();
    assert_eq!(pod.label("app"), None);
}

/// A program that imports only kube's trait.
mod beside_kube {
    use kube_core::ResourceExt;

    /// If only kube's trait is imported, its methods are called on the wrapped type.
    // contract: L-35a, L-35b
    #[test]
    fn kube_methods_without_object_trait() {
        let pod = super::pod();
        assert_eq!((pod.uid().as_deref(), pod.resource_version().as_deref()), (Some("u1"), Some("42")));
        assert_eq!(pod.labels().get("app").map(String::as_str), Some("web"));
    }
}

/// The wrapper serializes and deserializes as the wrapped object.
// contract: L-35c
#[test]
fn wrapper_serializes_as_inner_object() {
    let pod = pod();
    let json = serde_json::to_value(&pod).unwrap();
    assert_eq!(json, serde_json::to_value(&pod.0).unwrap());
    let decoded: KubeObject<Pod> = serde_json::from_value(json).unwrap();
    assert_eq!(decoded, pod);
    assert_eq!(decoded.into_inner(), pod.0);
}
