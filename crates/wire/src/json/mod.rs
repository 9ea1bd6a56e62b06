//! The JSON encoding.

mod drop_fields;
mod identity;
mod list;
mod object_end;
mod same;
mod scan;
mod text;
mod types;
mod value;
mod watch;

use crate::codec::{AnyCodec, AnyValue, Codec, Found, Path};
use crate::decode::{Fault, Position, Run};
use crate::dropped::Dropped;
use crate::{Error, Identity, TypeMeta};

pub(crate) use drop_fields::drop_fields_of_value;
pub(crate) use value::{Container, Value};

/// The codec of JSON, in which objects have their kind.
#[derive(Clone, Debug)]
pub(crate) struct Json;

impl Codec for Json {
    const MEDIA_TYPE: &'static str = "application/json";

    const HAS_TRAIL: bool = false;

    type List = list::ListDecoder;
    type Watch = watch::WatchDecoder;
    type Resolved = ();
    type Found<'de> = (&'de [u8], usize);

    fn of_kind(_: &str, _: &str) -> Option<Self> {
        Some(Self)
    }

    fn of_response(body: &[u8]) -> Result<(Self, &[u8]), Error> {
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

    fn value<'a, 'de>(&'a self, position: Position<'a, 'de>, object: &'de [u8]) -> AnyValue<'a, 'de> {
        AnyValue::Json(Value::of(position, object))
    }

    /// Returns the whole object, which is searched while it is decoded.
    fn find<'de>(&self, object: &'de [u8], path: Path<'_, Self>) -> Result<Option<Self::Found<'de>>, Fault> {
        Ok(Some((object, path.names.len())))
    }

    fn found<'a, 'de>(&'a self, position: Position<'a, 'de>, found: &Self::Found<'de>) -> Found<'a, 'de> {
        Found { value: self.value(position, found.0), names: found.1 }
    }

    fn is_plain(_: &Self::Found<'_>) -> bool {
        true
    }

    #[cold]
    fn failure(&self, run: &Run<'_, '_>, fault: Fault, _: &[Box<str>], object: &[u8]) -> Error {
        let limit = run.limits.error(types::OBJECT, || Self::identify(object).key);
        limit.unwrap_or_else(|| Error::malformed(types::OBJECT, run.with_position(&fault), object))
    }

    fn drop_fields<'p>(
        &self,
        object: &[u8],
        paths: impl Iterator<Item = Path<'p, Self>>,
        dropped: &mut Vec<usize>,
    ) -> Result<Vec<u8>, Error> {
        drop_fields::drop_fields(object, paths.map(|path| path.names), dropped)
    }

    fn identify(object: &[u8]) -> Identity {
        identity::identify(&AnyCodec::Json(Self), object)
    }

    fn has_same_content(a: &[u8], b: &[u8]) -> Option<bool> {
        same::has_same_bytes(a, b).then_some(true)
    }
}
