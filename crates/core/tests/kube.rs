//! Kubernetes resources as objects.
#![cfg(feature = "kube")]
#![allow(clippy::unwrap_used)]

use k8s_openapi::api::core::v1::{Node, Pod};
use kinformer_core::{KeyRef, Object, ResourceVersion};
use kube_core::ObjectMeta;

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

// contract: O-01
#[test]
fn every_resource_is_an_object() {
    let pod = Pod { metadata: meta(Some("default")), ..Default::default() };
    assert_eq!(pod.key(), KeyRef::new("default", "web"));
    assert_eq!(Object::uid(&pod), Some("u1"));
    assert_eq!(Object::resource_version(&pod), ResourceVersion::number(42));
    assert_eq!(Object::labels(&pod).collect::<Vec<_>>(), [("app", "web")]);
    assert_eq!((pod.label("app"), pod.label("x")), (Some("web"), None));
    let node = Node { metadata: meta(None), ..Default::default() };
    assert_eq!(node.key().to_string(), "web");
    assert!(Node::default().key().check().is_err());
}

// contract: I-14
#[test]
fn dynamic_objects_and_metadata_are_compared_by_their_fields() {
    use kube_core::DynamicObject;
    use kube_core::metadata::PartialObjectMeta;

    let with = |label: &str| {
        let labels = [("app".to_owned(), label.to_owned())].into();
        ObjectMeta { name: Some("web".into()), labels: Some(labels), ..Default::default() }
    };
    let dynamic = |label: &str, value: i32| DynamicObject {
        types: None,
        metadata: with(label),
        data: serde_json::json!({"spec": {"value": value}}),
    };
    assert_eq!(dynamic("a", 1).has_same_content(&dynamic("a", 1)), Some(true));
    assert_eq!(dynamic("a", 1).has_same_content(&dynamic("a", 2)), Some(false));
    assert_eq!(dynamic("a", 1).has_same_content(&dynamic("b", 1)), Some(false));
    let partial = |label: &str| PartialObjectMeta::<DynamicObject> {
        types: None,
        metadata: with(label),
        _phantom: std::marker::PhantomData,
    };
    assert_eq!(partial("a").has_same_content(&partial("a")), Some(true));
    assert_eq!(partial("a").has_same_content(&partial("b")), Some(false));
}
