//! Packed objects that are created from values.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kinformer_core::Object;
use kinformer_wire::{Decoded, FieldPath, Packed};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;

fn pod() -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "web-0", "namespace": "default", "uid": "u", "resourceVersion": "7",
            "labels": {"app": "web"}, "annotations": {"a": "b"}},
        "spec": {"nodeName": "node-1", "containers": []},
    }))
    .unwrap()
}

// contract: L-38a
#[test]
fn value_becomes_a_packed_object() {
    let packed = Packed::from_value(pod()).unwrap();
    assert_eq!(packed.key().to_string(), "default/web-0");
    assert_eq!((packed.uid(), packed.label("app")), (Some("u"), Some("web")));
    assert_eq!(packed.resource_version(), "7".into());
    assert_eq!(packed.annotations().unwrap()["a"], "b");
    let node = packed.field::<String>(&FieldPath::new(&["spec", "nodeName"])).unwrap();
    assert_eq!(node.as_deref(), Some("node-1"));
    // The same object as one that was received.
    let received = Packed::<Pod>::from_value(packed.decode_new::<Pod>().unwrap()).unwrap();
    assert_eq!(received.has_same_content(&packed), Some(true));
    // It can be read as other types too.
    assert_eq!(packed.cast::<serde_json::Value>().decode().unwrap()["kind"], "Pod");
    Packed::from_value(7).expect_err("a number has no metadata");
}

/// A type that can be neither decoded nor cloned.
#[derive(Debug, Serialize)]
struct Fixed {
    metadata: Name,
}

#[derive(Debug, Serialize)]
struct Name {
    name: &'static str,
}

impl<'de> Deserialize<'de> for Fixed {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom("decoded"))
    }
}

/// The conversions from a value to a packed object and back return the same value.
// contract: L-38b
#[test]
fn conversions_neither_copy_nor_decode() {
    let value = Arc::new(Fixed { metadata: Name { name: "web-0" } });
    let packed = Packed::from_value(value.clone()).unwrap();
    assert!(std::ptr::eq(&*value, &*packed.decode().unwrap()));
    assert!(Arc::ptr_eq(&value, &packed.decode_arc().unwrap()));
    assert!(Arc::ptr_eq(&value, &Arc::from(packed.decode_owned().unwrap())));
    drop(packed);
    assert_eq!(Arc::strong_count(&value), 1);
    assert!(Arc::ptr_eq(&value, &Decoded::<Fixed>::from(value.clone()).into_arc()));
    let owned = Packed::from_value(Fixed { metadata: Name { name: "web-1" } }).unwrap();
    assert_eq!(owned.decode().unwrap().metadata.name, "web-1");
}

/// The pattern of a controller: the object of the cache, or one that the program creates.
// contract: L-38b
#[test]
fn cached_or_new_object_has_one_type() {
    let get_or_create = |cached: Option<Packed<Pod>>| -> Result<Decoded<Pod>, kinformer_wire::Error> {
        match cached {
            Some(pod) => pod.decode_owned(),
            None => Ok(Pod::default().into()),
        }
    };
    assert_eq!(get_or_create(None).unwrap().metadata.name, None);
    let cached = Packed::from_value(pod()).unwrap();
    assert_eq!(get_or_create(Some(cached)).unwrap().metadata.name.as_deref(), Some("web-0"));
}
