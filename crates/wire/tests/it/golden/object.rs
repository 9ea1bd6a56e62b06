//! Packed objects of any kind.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Pod;
use kinformer_core::Object;
use kinformer_wire::{DecodeAs, Encoding, FromWire, ObjectDecoder, PackedObject};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::counted::{Counted, decoded};
use super::paths::message;
use super::streams::body;

/// A pod in both encodings, with decoders that cache this number of objects.
fn pods(cached: usize) -> [PackedObject; 2] {
    let decoder = ObjectDecoder::new(Encoding::Protobuf, "v1", "Pod").unwrap();
    [
        (message(body("pod", Encoding::Protobuf)), decoder),
        (body("pod", Encoding::Json), ObjectDecoder::json()),
    ]
    .map(|(bytes, decoder)| PackedObject::from_wire(bytes, &decoder.decoded_cache_size(cached)).unwrap())
}

fn is_same<T>(a: &T, b: &T) -> bool {
    std::ptr::eq(a, b)
}

/// An object can be decoded as several types at the same time, and each value is shared.
// contract: L-33c
#[test]
fn object_decodes_as_several_types() {
    let eager: Pod = serde_json::from_slice(body("pod", Encoding::Json)).unwrap();
    for object in pods(256) {
        let (pod, value) = (object.decode_as::<Pod>().unwrap(), object.decode_as::<Value>().unwrap());
        assert_eq!((&*pod, &value["kind"]), (&eager, &Value::from("Pod")));
        // Each value is shared, and neither replaces the other.
        assert!(is_same(&*pod, &*object.decode_as::<Pod>().unwrap()));
        assert!(is_same(&*value, &*object.decode_as::<Value>().unwrap()));
    }
}

/// Threads that read an object as two types at the same time decode each type once.
// contract: L-33c
#[test]
fn concurrent_readers_decode_each_type_once() {
    let [object, _] = pods(0);
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (object, barrier) = (&object, &barrier);
            scope.spawn(move || match number % 2 {
                0 => {
                    let read = object.decode_as::<Counted<4>>().unwrap();
                    barrier.wait();
                    drop(read);
                }
                _ => {
                    let read = object.decode_as::<Counted<5>>().unwrap();
                    barrier.wait();
                    drop(read);
                }
            });
        }
    });
    assert_eq!((decoded::<4>(), decoded::<5>()), (1, 1));
}

/// A kept value is borrowed, and lives as long as its object. Only the first type is kept.
// contract: L-34a
#[test]
fn kept_value_is_borrowed_from_its_object() {
    for object in pods(0) {
        let before = decoded::<6>();
        object.keep_decoded(DecodeAs::of::<Counted<6>>()).unwrap();
        object.keep_decoded(DecodeAs::of::<Counted<6>>()).unwrap();
        let first = std::ptr::from_ref(&*object.decode_as::<Counted<6>>().unwrap());
        let owned = object.decode_as::<Counted<6>>().unwrap().into_owned();
        assert_eq!((decoded::<6>() - before, std::ptr::from_ref(&*owned)), (1, first));
        assert!(object.is_decoded());
        // Another type is decoded when it is read, and is not kept.
        object.keep_decoded(DecodeAs::of::<Value>()).unwrap();
        assert_eq!(object.decode_as::<Value>().unwrap()["kind"], "Pod");
        drop(object);
        drop(owned);
    }
}

/// A value that was read before is kept without decoding it again.
// contract: L-34a
#[test]
fn cached_value_is_kept_without_decoding() {
    let [object, _] = pods(1);
    let read = std::ptr::from_ref(&*object.decode_as::<Counted<7>>().unwrap());
    object.keep_decoded(DecodeAs::of::<Counted<7>>()).unwrap();
    let kept = std::ptr::from_ref(&*object.decode_as::<Counted<7>>().unwrap());
    assert_eq!((decoded::<7>(), read), (1, kept));
}

/// An object that cannot be decoded as one type can be read and kept as another.
// contract: L-34c
#[test]
fn failed_type_does_not_affect_other_types() {
    let json = br#"{"metadata":{"name":"a"},"spec":7}"#;
    let object = PackedObject::from_wire(json, &ObjectDecoder::json()).unwrap();
    let problem = object.keep_decoded(DecodeAs::of::<Pod>()).unwrap_err().to_string();
    assert!(problem.contains("invalid type"), "{problem}");
    assert!(!object.is_decoded());
    assert_eq!(object.decode_as::<Pod>().unwrap_err().to_string(), problem);
    assert_eq!(object.decode_as::<Value>().unwrap()["spec"], 7);
    object.keep_decoded(DecodeAs::of::<Value>()).unwrap();
    assert_eq!(object.decode_as::<Value>().unwrap()["spec"], 7);
}

/// Counts the dropped values of this number.
struct Dropped<const NUMBER: usize>;

static DROPPED: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

impl<const NUMBER: usize> Drop for Dropped<NUMBER> {
    fn drop(&mut self) {
        DROPPED[NUMBER].fetch_add(1, Ordering::Relaxed);
    }
}

impl<'de, const NUMBER: usize> Deserialize<'de> for Dropped<NUMBER> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

/// The values of a dropped object are removed from the cache.
// contract: L-33d
#[test]
fn dropped_object_leaves_the_cache() {
    let [object, _] = pods(256);
    let held = object.decode_as::<Dropped<0>>().unwrap().into_owned();
    object.decode_as::<Dropped<1>>().unwrap();
    let dropped = || [0, 1].map(|number: usize| DROPPED[number].load(Ordering::Relaxed));
    assert_eq!(dropped(), [0, 0], "both are cached");
    drop(object);
    assert_eq!(dropped(), [0, 1]);
    drop(held);
    assert_eq!(dropped(), [1, 1]);
}

/// The methods of `Object` can be called without importing the trait.
// contract: L-33a
#[test]
fn identity_methods_need_no_trait() {
    for object in pods(0) {
        let by_trait: &dyn Object = &object;
        assert_eq!((object.key(), object.uid()), (by_trait.key(), by_trait.uid()));
        assert_eq!(object.namespace(), by_trait.key().namespace());
        assert_eq!(object.name(), by_trait.key().name());
        assert_eq!(object.resource_version(), by_trait.resource_version());
        assert_eq!(object.labels().collect::<Vec<_>>(), by_trait.labels().collect::<Vec<_>>());
    }
    let cluster_wide =
        PackedObject::from_wire(br#"{"metadata":{"name":"a"}}"#, &ObjectDecoder::json()).unwrap();
    assert_eq!((cluster_wide.namespace(), cluster_wide.uid(), cluster_wide.label("a")), (None, None, None));
}

/// An object that is not decoded takes only its bytes, a handle of its decoder and its version.
// contract: L-33b
#[test]
fn packed_object_is_small() {
    assert!(size_of::<PackedObject>() <= 72, "{}", size_of::<PackedObject>());
}

/// The memory of an object is known unless a decoded value is kept. One that is only cached changes nothing.
// contract: L-33e
#[test]
fn memory_of_a_packed_object_is_known() {
    let of = |json: &str| PackedObject::from_wire(json.as_bytes(), &ObjectDecoder::json()).unwrap();
    let json = r#"{"metadata":{"name":"a","labels":{"b":"c\"d"}}}"#;
    let object = of(json);
    // Positions of namespace, name, UID, and of the key and the value of a label, which has an escape.
    let bytes = size_of::<PackedObject>() + json.len() + 5 * 8 + "c\"d".len();
    assert_eq!(object.memory_size(), Some(bytes));
    object.decode_as::<Value>().unwrap();
    assert_eq!((object.memory_size(), object.is_decoded()), (Some(bytes), true));
    object.keep_decoded(DecodeAs::of::<Value>()).unwrap();
    assert_eq!(object.memory_size(), None);
}
