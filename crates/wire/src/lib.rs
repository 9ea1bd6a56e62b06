//! Kubernetes lists and watches off the wire.
//!
//! A list answer can be hundreds of megabytes. It is never held as a whole here: [`ListDecoder`] takes the
//! body in chunks of any size and gives out each object's bytes as soon as they are complete;
//! [`WatchDecoder`] does the same for the lines of a watch. Both cut `metadata.managedFields` out on the way,
//! unless told to [keep](ManagedFields::Keep) it: on a real cluster it is often half of an object, and it
//! would cost memory and time in every layer above.
//!
//! # How it works
//!
//! A scanner follows the structure of the JSON (strings, nesting) without looking at values, and copies the
//! bytes of each object into one buffer that is used again for the next. Whether the object makes sense is
//! for serde to say afterwards, one object at a time: so one that does not decode is an error of that object
//! alone, with its key ([`identify`]), and neither the list nor the watch ends.
//!
//! # Trade-offs
//!
//! Every byte is looked at twice, once by the scanner and once by serde; the scanner is many times the
//! faster of the two and saves serde the managed fields. Broken JSON inside a list can hide where the next object starts, and then
//! the list fails as a whole; in a watch the next line starts afresh.
//!
//! # Example
//!
//! ```
//! use kinformer_wire::{ListDecoder, ManagedFields};
//!
//! let body = br#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[
//!     {"metadata":{"name":"a","managedFields":[{"manager":"kubelet"}]}},{"metadata":{"name":"b"}}]}"#;
//! let mut decoder = ListDecoder::new(ManagedFields::Cut);
//! let mut items = Vec::new();
//! for chunk in body.chunks(5) {
//!     decoder.feed(chunk, |item| items.push(String::from_utf8_lossy(item).into_owned()))?;
//! }
//! assert_eq!(items, [r#"{"metadata":{"name":"a"}}"#, r#"{"metadata":{"name":"b"}}"#]);
//! assert_eq!(decoder.finish()?.resource_version, "7");
//! # Ok::<(), kinformer_wire::Error>(())
//! ```

mod encoding;
mod error;
mod identity;
mod json;
mod list;
mod managed_fields;
mod object_decoder;
mod protobuf;
mod watch;

pub use encoding::Encoding;
pub use error::Error;
pub use identity::{Identity, identify};
pub use list::{ListDecoder, ListEnvelope};
pub use managed_fields::ManagedFields;
pub use object_decoder::{ObjectDecoder, decode_answer};
pub use protobuf::ProtobufProblem;
pub use watch::{EventType, RawEvent, TypeMeta, WatchDecoder};
