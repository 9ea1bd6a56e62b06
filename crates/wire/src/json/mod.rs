//! Kubernetes' JSON.

mod cut;
mod guarded;
mod list;
mod path;
mod scan;
mod watch;

use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::DeserializeSeed;

use crate::limits::{Limits, Place};
use crate::{Error, identify};

pub(crate) use cut::{cut, cut_value};
pub(crate) use guarded::Guarded;
pub(crate) use list::ListDecoder;
pub(crate) use path::Within;
pub(crate) use watch::WatchDecoder;

const OBJECT: &str = "an object";

pub(crate) fn decode<'de, K: Deserialize<'de>>(object: &'de [u8]) -> Result<K, Error> {
    decode_seed(object, PhantomData::<K>)
}

/// Decodes one field, if the object has it and it is not null.
pub(crate) fn decode_at<'de, K: Deserialize<'de>>(
    object: &'de [u8],
    names: &[Box<str>],
) -> Result<Option<K>, Error> {
    decode_seed(object, Within::new(names))
}

pub(crate) fn decode_seed<'de, S: DeserializeSeed<'de>>(
    object: &'de [u8],
    seed: S,
) -> Result<S::Value, Error> {
    let limits = Limits::of(object.len());
    let mut json = serde_json::Deserializer::from_slice(object);
    let place = Place::outermost(size_of::<S::Value>());
    let decoded = seed.deserialize(Guarded::new(&mut json, &limits, place));
    decoded.and_then(|decoded| json.end().map(|()| decoded)).map_err(|error| failure(&limits, &error, object))
}

#[cold]
fn failure(limits: &Limits, error: &serde_json::Error, object: &[u8]) -> Error {
    if is_too_deep(error) {
        _ = limits.exceeded::<()>(crate::limits::Exceeded::Depth);
    }
    let limit = limits.error(OBJECT, || identify(object).key);
    limit.unwrap_or_else(|| Error::malformed(OBJECT, error, object))
}

/// serde_json has a limit of its own, which it says only in words.
pub(crate) fn is_too_deep(error: &serde_json::Error) -> bool {
    error.is_syntax() && error.to_string().starts_with("recursion limit exceeded")
}
