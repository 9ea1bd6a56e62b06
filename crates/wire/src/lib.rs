//! Decodes Kubernetes list and watch responses, in JSON and in protobuf.
//!
//! The response to a list can be hundreds of megabytes and is never held in memory as one piece: [`ListDecoder`] reads
//! the body in chunks of any size and delivers each object's bytes as soon as they are complete. [`WatchDecoder`] does
//! the same for the events of a watch. Both drop `metadata.managedFields`, unless [`ManagedFields::Keep`] is set: on a
//! real cluster it is often half of an object, and would take memory and time in every layer above. An
//! [`ObjectDecoder`] decodes an object, or [one field](ObjectDecoder::decode_field) of it, into any type, with the same
//! result in each [`Encoding`].
//!
//! # How it works
//!
//! In JSON, a scanner follows the structure (strings, nesting) without parsing values, and copies the bytes of each
//! object into one buffer that is reused for the next object. In protobuf, lengths delimit the objects. serde then
//! decodes one object at a time, so a decoding error concerns one object only. The error has the object's key
//! ([`ObjectDecoder::identify`]) and ends neither the list nor the watch.
//!
//! Protobuf has numbers in place of names, so decoding needs tables. They are generated from the Go types of Kubernetes
//! 1.37 and cover every built-in kind (60 KB for all). With the tables, a message is presented to serde as the JSON of
//! the same object, so any type that decodes from the JSON decodes from protobuf. Other kinds, and kinds that were
//! removed before 1.37, have no [`ObjectDecoder`] for protobuf and are requested in JSON. Fields that a newer server
//! adds are skipped and [counted](ObjectDecoder::unknown_fields).
//!
//! A [`Packed`] object is stored as the received bytes, beside its key, version and labels. The whole object, its
//! metadata or [one field](PackedObject::field) is decoded on read.
//!
//! # Trade-offs
//!
//! Every byte of JSON is read twice, once by the scanner and once by serde. The scanner is many times faster and
//! removes the managed fields before serde. Broken JSON inside a list can hide the start of the next object, and then
//! the whole list fails; in a watch, parsing resumes at a later line. Broken protobuf is handled in the same way, with
//! as little loss as possible.
//!
//! Protobuf without managed fields decodes in half the time of JSON with them; most of the rest is memory allocation
//! for the types. The server saves more. Messages are read as Go writes them, with fields in ascending order and each
//! field once. Other forms, which protobuf allows, are an error and not a slow path.
//!
//! No input causes a panic. Decoding takes at most 64 times an object's size plus 1 MiB of memory, and 1.5 MiB of the
//! stack; exceeding a limit is a typed error. Allocations are counted before they are made, and the stack use of nested
//! values is estimated from the sizes of their types. A type can be large: a map of `JSONSchemaProps` with one entry
//! takes 10 KB. So a CustomResourceDefinition may exceed the limits if its schema has hundreds of levels without
//! descriptions and with one or two properties each. It is stored as [`Packed`] anyway, and its fields can be read.
//!
//! Both limits hold for types that are built from the fields as they are read, as the Kubernetes types are. They are
//! not exact for a custom recursive type that either has hundreds of fields, since its stack frames are larger than the
//! type, or makes serde buffer its fields (`flatten`, `untagged` and internally tagged enums), since they are copied on
//! each level. With such a type a hostile object can exhaust the stack, as with serde_json.
//!
//! # Example
//!
//! ```
//! use kinformer_wire::{Encoding, ListDecoder, ManagedFields, ObjectDecoder};
//!
//! #[derive(serde::Deserialize)]
//! struct Pod {
//!     metadata: Metadata,
//! }
//! #[derive(serde::Deserialize)]
//! struct Metadata {
//!     name: String,
//! }
//!
//! let json = br#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[
//!     {"metadata":{"name":"a","managedFields":[{"manager":"kubelet"}]}},{"metadata":{"name":"b"}}]}"#;
//! let protobuf = b"k8s\0\n\x0d\n\x02v1\x12\x07PodList\x12\x13\n\x03\x12\x017\
//!     \x12\x05\n\x03\n\x01a\x12\x05\n\x03\n\x01b";
//! for (content_type, body) in
//!     [("application/json", json.as_slice()), ("application/vnd.kubernetes.protobuf", protobuf)]
//! {
//!     let encoding = Encoding::of_content_type(content_type).ok_or("neither JSON nor protobuf")?;
//!     let objects = ObjectDecoder::new(encoding, "v1", "Pod").ok_or("not a built-in kind")?;
//!     let mut decoder = ListDecoder::of(encoding, ManagedFields::Drop);
//!     let mut names = Vec::new();
//!     for chunk in body.chunks(5) {
//!         decoder.feed(chunk, |item| names.push(objects.decode::<Pod>(item).map(|pod| pod.metadata.name)))?;
//!     }
//!     assert_eq!(names.into_iter().collect::<Result<Vec<_>, _>>()?, ["a", "b"]);
//!     assert_eq!(decoder.finish()?.resource_version, "7");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod answer;
mod codec;
mod decode;
mod dropped;
mod encoding;
mod error;
mod field_path;
mod generated;
#[doc(hidden)]
pub mod internal;
mod json;
mod limits;
mod list;
mod object_decoder;
mod packed;
mod protobuf;
mod received;
mod recent;
mod schema;
mod watch;

// What users of this crate need of other crates.
#[doc(no_inline)]
pub use kinformer_core::{DecodeError, KeyRef, Labels, Object, ObjectKey, ResourceVersion, WatchEvent};

pub use answer::{Identity, ListEnvelope, ManagedFields, RawEvent, RawEventType, TypeMeta};
pub use encoding::Encoding;
pub use error::Error;
pub use field_path::FieldPath;
pub use list::ListDecoder;
pub use object_decoder::{ObjectDecoder, decode_response};
pub use packed::{DecodeAs, Decoded, DecodedRef, FromWire, Packed, PackedObject, PackedRef};
pub use protobuf::{ProtobufProblem, is_built_in};
pub use recent::DecodedCache;
pub use watch::WatchDecoder;
