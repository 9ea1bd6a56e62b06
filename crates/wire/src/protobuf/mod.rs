//! Kubernetes' protobuf.
//!
//! An object's bytes are walked once, front to back, and look to serde as the JSON of the same object would: names
//! in the place of numbers, embedded messages flattened, zeros left out where JSON has none. What the numbers mean
//! is in tables, written from the Go types of Kubernetes.

mod access;
mod cut;
mod envelope;
mod gather;
mod list;
mod object;
mod path;
mod reader;
mod run;
mod schema;
mod tables;
mod time;
mod value;
mod watch;

use serde::Deserialize;

use crate::{Error, Identity};
use kinformer_core::ObjectKey;

pub(crate) use cut::cut;
pub(crate) use envelope::Envelope;
pub(crate) use list::ListDecoder;
pub(crate) use path::Path;
pub use reader::ProtobufProblem;
pub(crate) use schema::Schema;
pub(crate) use watch::WatchDecoder;

/// Decodes a message of that kind; says how many of its fields were skipped because they are not known.
pub(crate) fn decode<'de, K: Deserialize<'de>>(
    schema: Schema,
    message: &'de [u8],
) -> Result<(K, u64), Error> {
    let trail = run::Trail::new();
    let run = run::Run::new(&trail);
    let decoded = object::Object::new(&run, schema, message).and_then(K::deserialize);
    match decoded {
        Ok(object) => Ok((object, run.unknown())),
        Err(fault) => Err(failure(schema, run.path(), fault)),
    }
}

/// Decodes one member of a message of that kind, if it has it; looks at no other.
pub(crate) fn decode_at<'de, K: Deserialize<'de>>(
    schema: Schema,
    message: &'de [u8],
    path: &Path,
    names: &[Box<str>],
) -> Result<Option<K>, Error> {
    if path.is_to_plain_value() {
        let run = run::Run::without_trail();
        return path::decode(&run, path, message).map_err(|fault| failure(schema, names.join("."), fault));
    }
    let trail = run::Trail::new();
    let run = run::Run::new(&trail);
    path::decode(&run, path, message).map_err(|fault| {
        let (mut path, within) = (names.join("."), run.path());
        if !within.is_empty() && !within.starts_with('[') {
            path.push('.');
        }
        failure(schema, path + &within, fault)
    })
}

#[cold]
fn failure(schema: Schema, path: String, fault: run::Fault) -> Error {
    match fault.into_why() {
        run::Why::Bytes(problem) => Error::protobuf(schema.kind, path, problem),
        run::Why::Type(problem) => Error::Undecodable { what: schema.kind.to_owned(), path, problem },
    }
}

/// The key and the version of an object, of whatever kind.
pub(crate) fn identify(message: &[u8]) -> Identity {
    let Ok(metadata) = reader::find_bytes(message, 1) else { return Identity::default() };
    let text = |number| std::str::from_utf8(reader::find_bytes(metadata, number).ok()?).ok();
    let key = text(1).zip(text(3)).and_then(|(name, namespace)| ObjectKey::new(namespace, name).ok());
    Identity { key, resource_version: text(6).unwrap_or_default().into() }
}
