//! Kubernetes lists and watches off the wire, in JSON and in protobuf.
//!
//! A list answer can be hundreds of megabytes. It is never held as a whole here: [`ListDecoder`] takes the
//! body in chunks of any size and delivers each object's bytes as soon as they are complete;
//! [`WatchDecoder`] does the same for the events of a watch. Both drop `metadata.managedFields` on the way,
//! unless they are to [keep](ManagedFields::Keep) it: on a real cluster it is often half of an object, and it
//! would cost memory and time in every layer above. An [`ObjectDecoder`] makes a type of an object's bytes, in
//! each [`Encoding`] the same, or of [one field](ObjectDecoder::decode_field) of it.
//!
//! # How it works
//!
//! In JSON, a scanner follows the structure (strings, nesting) without looking at values, and copies the
//! bytes of each object into one buffer that is used again for the next. In protobuf, lengths say where an object
//! ends. Whether the object makes sense is for serde to say afterwards, one object at a time: so one that does not
//! decode is an error of that object alone, with its key ([`ObjectDecoder::identify`]), and neither the list nor the
//! watch ends.
//!
//! Protobuf has numbers in the place of names, and so needs tables: they are written from the Go types of Kubernetes
//! 1.37 and hold every built-in kind (60 KB for all). By them a message looks to serde as the JSON of the same
//! object would, and any type that decodes from the JSON decodes from protobuf. Of other kinds, and of kinds that
//! 1.37 has no more, there is no [`ObjectDecoder`] for protobuf: a server is then asked for JSON. Fields that a newer
//! server adds are skipped and [counted](ObjectDecoder::unknown_fields).
//!
//! A [`Packed`] object stays the bytes that it came in, with its key, version and labels ready. The whole, its metadata
//! or [one field](PackedObject::field) of it is decoded when it is read.
//!
//! # Trade-offs
//!
//! Every byte of JSON is looked at twice, once by the scanner and once by serde; the scanner is many times the
//! faster of the two and saves serde the managed fields. Broken JSON inside a list can hide where the next object
//! starts, and then the list fails as a whole; in a watch the next line starts afresh. Broken protobuf fails as
//! little as it can in the same way.
//!
//! Protobuf without its managed fields decodes in half of the time that JSON with them takes, and no less: most of
//! what is left is the memory that the types ask for. The server is spared more. Messages are read as Go writes them,
//! with their fields in ascending order and each once; all else, which protobuf allows, is an error and not a slow path.
//!
//! Bytes can be anything: there is no panic. Decoding takes at most 64 times an object's bytes and 1 MiB of memory, and
//! 1.5 MiB of the stack, else it is a typed error: what a type is about to allocate is counted before it does, and what
//! the levels of an object take of the stack is estimated from the sizes of their types. A type can be large: a map of
//! `JSONSchemaProps` with one entry is 10 KB. So the definition of a custom resource may not decode, if its schema has
//! hundreds of levels without descriptions and with one or two properties each. It is stored as [`Packed`] all the same,
//! and its fields can be read.
//!
//! Both limits hold for types whose values are built of the fields as they are read, as those of Kubernetes are. They are not
//! exact for a type of one's own that holds itself and either has hundreds of fields, whose frames on the stack are larger
//! than the type, or has serde buffer its fields (`flatten`, `untagged` and internally tagged enums), which copies them on
//! each level. With such a type a hostile object can exhaust the stack, as it can with serde_json.
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
mod json;
mod limits;
mod list;
mod object_decoder;
mod packed;
mod protobuf;
mod received;
mod watch;

pub use answer::{EventType, Identity, ListEnvelope, ManagedFields, RawEvent, TypeMeta};
pub use encoding::Encoding;
pub use error::Error;
pub use field_path::FieldPath;
pub use list::ListDecoder;
pub use object_decoder::{ObjectDecoder, decode_answer};
pub use packed::{DecodeAs, Decoded, DecodedRef, FromWire, Packed, PackedObject, PackedRef};
pub use protobuf::{ProtobufProblem, is_built_in};
pub use received::{Undecodable, WireEvent};
pub use watch::WatchDecoder;
