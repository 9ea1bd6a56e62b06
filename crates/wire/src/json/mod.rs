//! Kubernetes' JSON.

mod drop_fields;
mod field;
mod guarded;
mod identity;
mod list;
mod same;
mod scan;
mod types;
mod watch;

use serde::Deserialize;
use serde::de::DeserializeSeed;

use crate::codec::{Codec, Path};
use crate::dropped::Dropped;
use crate::limits::{Exceeded, Limits, Place};
use crate::{Error, Identity, TypeMeta};

pub(crate) use drop_fields::drop_fields_of_value;
pub(crate) use field::Within;
pub(crate) use guarded::Guarded;

const OBJECT: &str = "an object";

/// JSON, which says itself what it is.
#[derive(Clone, Debug)]
pub(crate) struct Json;

impl Codec for Json {
    const MEDIA_TYPE: &'static str = "application/json";

    type List = list::ListDecoder;
    type Watch = watch::WatchDecoder;
    type Resolved = ();

    fn of_kind(_: &str, _: &str) -> Option<Self> {
        Some(Self)
    }

    fn of_answer(body: &[u8]) -> Result<(Self, &[u8]), Error> {
        Ok((Self, body))
    }

    fn without(&self, _: Dropped<'_>) -> Self {
        Self
    }

    fn kind(object: &[u8]) -> Option<String> {
        types::kind(object)
    }

    fn with_types(object: &[u8], types: TypeMeta<'_>) -> Option<Vec<u8>> {
        types::with_types(object, types)
    }

    #[inline]
    fn decode<'de, S: DeserializeSeed<'de>>(
        &self,
        object: &'de [u8],
        seed: S,
    ) -> Result<(S::Value, u64), Error> {
        decode(object, seed).map(|decoded| (decoded, 0))
    }

    #[inline]
    fn decode_field<'de, K: Deserialize<'de>>(
        &self,
        object: &'de [u8],
        path: Path<'_, Self>,
    ) -> Result<Option<K>, Error> {
        decode(object, Within::new(path.names))
    }

    fn drop_fields(
        &self,
        object: &[u8],
        paths: &[Path<'_, Self>],
        dropped: &mut Vec<usize>,
    ) -> Result<Vec<u8>, Error> {
        drop_fields::drop_fields(object, paths.iter().map(|path| path.names), dropped)
    }

    fn identify(object: &[u8]) -> Identity {
        identity::identify(object)
    }

    fn has_same_content(a: &[u8], b: &[u8]) -> Option<bool> {
        same::has_same_bytes(a, b).then_some(true)
    }
}

fn decode<'de, S: DeserializeSeed<'de>>(object: &'de [u8], seed: S) -> Result<S::Value, Error> {
    let limits = Limits::of(object.len());
    let mut json = serde_json::Deserializer::from_slice(object);
    let place = Place::outermost(size_of::<S::Value>());
    let decoded = seed.deserialize(Guarded::new(&mut json, &limits, place));
    decoded.and_then(|decoded| json.end().map(|()| decoded)).map_err(|error| failure(&limits, &error, object))
}

#[cold]
fn failure(limits: &Limits, error: &serde_json::Error, object: &[u8]) -> Error {
    if is_too_deep(error) {
        _ = limits.exceeded::<()>(Exceeded::Depth);
    }
    let limit = limits.error(OBJECT, || Json::identify(object).key);
    limit.unwrap_or_else(|| Error::malformed(OBJECT, error, object))
}

/// serde_json has a limit of its own, which it says only in words.
pub(crate) fn is_too_deep(error: &serde_json::Error) -> bool {
    error.is_syntax() && error.to_string().starts_with("recursion limit exceeded")
}
