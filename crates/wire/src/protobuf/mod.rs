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

use std::marker::PhantomData;

use kinformer_core::ObjectKey;
use serde::Deserialize;
use serde::de::DeserializeSeed;

use crate::limits::Limits;
use crate::{Error, Identity};

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
    decode_seed(schema, message, PhantomData::<K>)
}

pub(crate) fn decode_seed<'de, S: DeserializeSeed<'de>>(
    schema: Schema,
    message: &'de [u8],
    seed: S,
) -> Result<(S::Value, u64), Error> {
    let (trail, limits) = (run::Trail::new(), Limits::of(message.len()));
    let run = run::Run::new(&trail, &limits);
    let at = run::At::outermost(&run, size_of::<S::Value>());
    match seed.deserialize(object::Object::new(at, schema, message)) {
        Ok(object) => Ok((object, run.unknown())),
        Err(fault) => Err(failure(schema, run.path(), fault, &limits, message)),
    }
}

/// Decodes one field of a message of that kind, if it has it; looks at no other.
pub(crate) fn decode_at<'de, K: Deserialize<'de>>(
    schema: Schema,
    message: &'de [u8],
    path: &Path,
    names: &[Box<str>],
) -> Result<Option<K>, Error> {
    let limits = Limits::of(message.len());
    if path.is_to_plain_value() {
        let run = run::Run::without_trail(&limits);
        return path::decode(&run, schema, path, message)
            .map_err(|fault| failure(schema, names.join("."), fault, &limits, message));
    }
    let trail = run::Trail::new();
    let run = run::Run::new(&trail, &limits);
    path::decode(&run, schema, path, message).map_err(|fault| {
        let (mut path, within) = (names.join("."), run.path());
        if !path.is_empty() && !within.is_empty() && !within.starts_with('[') {
            path.push('.');
        }
        failure(schema, path + &within, fault, &limits, message)
    })
}

#[cold]
fn failure(schema: Schema, path: String, fault: run::Fault, limits: &Limits, message: &[u8]) -> Error {
    if let Some(error) = limits.error(schema.kind, || identify(message).key) {
        return error;
    }
    match fault.into_why() {
        run::Why::Bytes(problem) => Error::protobuf(schema.kind, path, problem),
        run::Why::Type(problem) => Error::Undecodable { what: schema.kind.to_owned(), path, problem },
    }
}

/// The key and the version of an object, of whatever kind.
pub(crate) fn identify(message: &[u8]) -> Identity {
    let Some(metadata) = reader::find_only(message, 1) else { return Identity::default() };
    let text = |number| reader::find_only(metadata, number).map(reader::text).unwrap_or_default();
    Identity { key: ObjectKey::new(&text(3), &text(1)).ok(), resource_version: (&*text(6)).into() }
}
