//! The codecs. Code that depends on an encoding is in the folder of its [`Codec`]; all other code calls the codec.
//!
//! This file and those folders depend on each other: an enum of this file holds a value of any encoding, so that
//! there is one deserializer for all encodings, and a value of protobuf can be JSON.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Expected};

use crate::decode::{Fault, Position, Run, Scratch, Text, Token, Trail, Within};
use crate::dropped::Dropped;
use crate::encoding::encodings;
use crate::limits::Limits;
use crate::{Encoding, Error, Identity, ListEnvelope, ManagedFields, RawEvent, TypeMeta};

/// The operations that depend on the encoding of a response. A value is the codec for objects of one kind.
pub(crate) trait Codec: Clone + fmt::Debug {
    /// The media type of requests and responses.
    const MEDIA_TYPE: &'static str;

    /// Whether errors have the path of the field.
    const HAS_TRAIL: bool;

    type List: DecodeList;
    type Watch: DecodeWatch;
    /// A [`FieldPath`](crate::FieldPath) that was resolved for this encoding.
    type Resolved: Clone + Default + Send + Sync;
    /// A found field.
    type Found<'de>;

    /// Returns the codec for objects of a kind; `None` if the kind is unknown in this encoding.
    fn of_kind(api_version: &str, kind: &str) -> Option<Self>;

    /// Returns the codec for a response that is a single object, and the bytes of the object.
    fn of_response(body: &[u8]) -> Result<(Self, &[u8]), Error>;

    /// Returns the codec for an object without these fields. Some of them may not be part of the bytes.
    fn without(&self, dropped: Dropped<'_>) -> Self;

    /// Returns the kind of an object, if it is part of the bytes.
    fn kind(object: &[u8]) -> Option<String>;

    /// Returns the object with its API version and kind; `None` if they are not part of the bytes in this encoding.
    fn with_types(object: &[u8], types: TypeMeta<'_>) -> Option<Vec<u8>>;

    /// Returns the value of an object.
    fn value<'a, 'de>(&'a self, position: Position<'a, 'de>, object: &'de [u8]) -> AnyValue<'a, 'de>;

    /// Finds a field of an object, as far as possible without decoding.
    fn find<'de>(&self, object: &'de [u8], path: Path<'_, Self>) -> Result<Option<Self::Found<'de>>, Fault>;

    /// Returns the value of a found field.
    fn found<'a, 'de>(&'a self, position: Position<'a, 'de>, found: &Self::Found<'de>) -> Found<'a, 'de>;

    /// Whether the found field is a scalar, in which errors need no path.
    fn is_plain(found: &Self::Found<'_>) -> bool;

    /// Returns the error for an object, or a field of it, that cannot be decoded.
    fn failure(&self, run: &Run<'_, '_>, fault: Fault, path: &[Box<str>], object: &[u8]) -> Error;

    /// Returns the object without these fields. Adds to `dropped` the number of each path whose field the object had.
    fn drop_fields<'p>(
        &self,
        object: &[u8],
        paths: impl Iterator<Item = Path<'p, Self>>,
        dropped: &mut Vec<usize>,
    ) -> Result<Vec<u8>, Error>
    where
        Self: 'p;

    /// Reads the key and the resource version, as far as possible.
    fn identify(object: &[u8]) -> Identity;

    /// Whether two objects have the same content apart from API version and kind; `None` if the bytes are not
    /// conclusive.
    fn has_same_content(a: &[u8], b: &[u8]) -> Option<bool>;
}

/// A path: its names, and its resolved form.
pub(crate) struct Path<'a, C: Codec> {
    pub(crate) names: &'a [Box<str>],
    pub(crate) resolved: &'a C::Resolved,
}

/// A value, and the number of names of the path that remain after it.
pub(crate) struct Found<'a, 'de> {
    pub(crate) value: AnyValue<'a, 'de>,
    pub(crate) names: usize,
}

/// Reads a value of one encoding.
pub(crate) trait ReadValue<'a, 'de: 'a>: Sized {
    /// Whether the value is null. A null is consumed.
    fn take_null(&self) -> Result<bool, Fault>;

    /// Returns the value, or the kind of a container without opening it.
    fn token<'t>(&self, scratch: &'t mut Scratch) -> Result<Token<'t, 'de>, Fault>;

    /// Opens a container, from which a value of this size is built; `None` if the value is not a container. The
    /// content is too large to be moved, so `make` is inlined for each kind of container.
    fn open<R>(
        &self,
        size: usize,
        make: impl FnOnce(Position<'a, 'de>, AnyContainer<'a, 'de>) -> R,
    ) -> Result<Option<R>, Fault>;

    /// Returns a string.
    fn text<'t>(&self, scratch: &'t mut Scratch, expected: &dyn Expected) -> Result<Text<'t, 'de>, Fault> {
        match self.token(scratch)? {
            Token::Text(text) => Ok(text),
            other => Err(other.unexpected(expected)),
        }
    }

    /// Skips the value.
    fn skip(&self) -> Result<(), Fault>;

    /// Returns the unparsed value, if it is JSON.
    fn raw_json(&self) -> Result<Option<&'de str>, Fault>;
}

/// Reads the entries of a list, map or object of one encoding.
pub(crate) trait ReadContainer<'a, 'de: 'a>: Sized {
    fn is_list(&self) -> bool;

    /// The number of entries of a list, if known.
    fn count(&self) -> Option<usize>;

    /// Undoes the opening of the container, from which nothing was read.
    fn unread(&self, position: Position<'a, 'de>);

    fn next_key(&mut self, position: Position<'a, 'de>) -> Result<Option<Cow<'de, str>>, Fault>;

    /// Writes the value of the last key to `value`.
    fn value(
        &mut self,
        position: Position<'a, 'de>,
        value: &mut Option<AnyValue<'a, 'de>>,
    ) -> Result<(), Fault>;

    /// Writes the next entry of a list to `value`. Returns `false` if there is none.
    fn next_element(
        &mut self,
        position: Position<'a, 'de>,
        value: &mut Option<AnyValue<'a, 'de>>,
    ) -> Result<bool, Fault>;

    /// Checks that no entries are left, if the encoding does not announce the length of a container.
    fn end(&mut self, position: Position<'a, 'de>) -> Result<(), Fault>;
}

/// See [`ListDecoder`](crate::ListDecoder).
pub(crate) trait DecodeList: fmt::Debug {
    fn new(managed_fields: ManagedFields, limit: usize) -> Self;
    fn feed(&mut self, chunk: &[u8], on_item: impl FnMut(&[u8])) -> Result<(), Error>;
    fn finish(self) -> Result<ListEnvelope, Error>;
}

/// See [`WatchDecoder`](crate::WatchDecoder).
pub(crate) trait DecodeWatch: fmt::Debug {
    fn new(managed_fields: ManagedFields, limit: usize) -> Self;
    fn feed(&mut self, chunk: &[u8], on_event: impl FnMut(Result<RawEvent<'_>, Error>)) -> Result<(), Error>;
    fn finish(self, on_event: impl FnMut(Result<RawEvent<'_>, Error>)) -> Result<(), Error>;
}

/// Combines the codecs: each generated function calls the codec with the name of the encoding.
macro_rules! codecs {
    ($($(#[$_:meta])* $name:ident in $folder:ident;)+) => {
        impl Encoding {
            /// The media type, as in the `Accept` header of requests and the `Content-Type` header of responses.
            pub fn media_type(self) -> &'static str {
                match self {
                    $(Self::$name => crate::$folder::$name::MEDIA_TYPE,)+
                }
            }

            pub(crate) fn list(self, managed_fields: ManagedFields, limit: usize) -> AnyList {
                match self {
                    $(Self::$name => AnyList::$name(DecodeList::new(managed_fields, limit)),)+
                }
            }

            pub(crate) fn watch(self, managed_fields: ManagedFields, limit: usize) -> AnyWatch {
                match self {
                    $(Self::$name => AnyWatch::$name(DecodeWatch::new(managed_fields, limit)),)+
                }
            }

            pub(crate) fn of_kind(self, api_version: &str, kind: &str) -> Option<AnyCodec> {
                match self {
                    $(Self::$name => crate::$folder::$name::of_kind(api_version, kind).map(AnyCodec::$name),)+
                }
            }

            pub(crate) fn of_response(self, body: &[u8]) -> Result<(AnyCodec, &[u8]), Error> {
                match self {
                    $(Self::$name => {
                        crate::$folder::$name::of_response(body).map(|(codec, object)| (AnyCodec::$name(codec), object))
                    })+
                }
            }

            pub(crate) fn kind(self, object: &[u8]) -> Option<String> {
                match self {
                    $(Self::$name => crate::$folder::$name::kind(object),)+
                }
            }

            pub(crate) fn with_types(self, object: &[u8], types: TypeMeta<'_>) -> Option<Vec<u8>> {
                match self {
                    $(Self::$name => crate::$folder::$name::with_types(object, types),)+
                }
            }

            pub(crate) fn identify(self, object: &[u8]) -> Identity {
                match self {
                    $(Self::$name => crate::$folder::$name::identify(object),)+
                }
            }

            pub(crate) fn has_same_content(self, a: &[u8], b: &[u8]) -> Option<bool> {
                match self {
                    $(Self::$name => crate::$folder::$name::has_same_content(a, b),)+
                }
            }
        }

        /// A codec of any encoding.
        #[derive(Clone, Debug)]
        pub(crate) enum AnyCodec {
            $($name(crate::$folder::$name),)+
        }

        impl AnyCodec {
            pub(crate) fn encoding(&self) -> Encoding {
                match self {
                    $(Self::$name(_) => Encoding::$name,)+
                }
            }

            pub(crate) fn without(&self, dropped: Dropped<'_>) -> Self {
                match self {
                    $(Self::$name(codec) => Self::$name(codec.without(dropped)),)+
                }
            }

            fn has_trail(&self) -> bool {
                match self {
                    $(Self::$name(_) => <crate::$folder::$name as Codec>::HAS_TRAIL,)+
                }
            }

            #[inline(never)]
            fn value<'a, 'de>(&'a self, position: Position<'a, 'de>, object: &'de [u8]) -> AnyValue<'a, 'de> {
                match self {
                    $(Self::$name(codec) => codec.value(position, object),)+
                }
            }

            #[inline(never)]
            fn find<'de>(
                &self,
                object: &'de [u8],
                names: &[Box<str>],
                resolved: &AnyResolved,
            ) -> Result<Option<AnyFound<'de>>, Fault> {
                match self {
                    $(Self::$name(codec) => {
                        let found = codec.find(object, Path { names, resolved: &resolved.$folder })?;
                        Ok(found.map(AnyFound::$name))
                    })+
                }
            }

            #[inline]
            fn found<'a, 'de>(&'a self, position: Position<'a, 'de>, found: &AnyFound<'de>) -> Option<Found<'a, 'de>> {
                match (self, found) {
                    $((Self::$name(codec), AnyFound::$name(found)) => Some(codec.found(position, found)),)+
                    _ => None,
                }
            }

            #[cold]
            #[inline(never)]
            fn failure(&self, run: &Run<'_, '_>, fault: Fault, path: &[Box<str>], object: &[u8]) -> Error {
                match self {
                    $(Self::$name(codec) => codec.failure(run, fault, path, object),)+
                }
            }

            pub(crate) fn drop_fields<'p>(
                &self,
                object: &[u8],
                paths: impl Iterator<Item = (&'p [Box<str>], &'p AnyResolved)>,
                dropped: &mut Vec<usize>,
            ) -> Result<Vec<u8>, Error> {
                match self {
                    $(Self::$name(codec) => {
                        let paths = paths.map(|(names, resolved)| Path { names, resolved: &resolved.$folder });
                        codec.drop_fields(object, paths, dropped)
                    })+
                }
            }
        }

        /// A found field.
        enum AnyFound<'de> {
            $($name(<crate::$folder::$name as Codec>::Found<'de>),)+
        }

        impl AnyFound<'_> {
            fn is_plain(&self) -> bool {
                match self {
                    $(Self::$name(found) => <crate::$folder::$name as Codec>::is_plain(found),)+
                }
            }
        }

        /// A value in any encoding.
        pub(crate) enum AnyValue<'a, 'de> {
            $($name(crate::$folder::Value<'a, 'de>),)+
        }

        impl<'a, 'de> ReadValue<'a, 'de> for AnyValue<'a, 'de> {
            #[inline]
            fn take_null(&self) -> Result<bool, Fault> {
                match self {
                    $(Self::$name(value) => value.take_null(),)+
                }
            }

            #[inline(never)]
            fn token<'t>(&self, scratch: &'t mut Scratch) -> Result<Token<'t, 'de>, Fault> {
                match self {
                    $(Self::$name(value) => value.token(scratch),)+
                }
            }

            #[inline(always)]
            fn open<R>(
                &self,
                size: usize,
                make: impl FnOnce(Position<'a, 'de>, AnyContainer<'a, 'de>) -> R,
            ) -> Result<Option<R>, Fault> {
                match self {
                    $(Self::$name(value) => value.open(size, make),)+
                }
            }

            #[inline(never)]
            fn text<'t>(
                &self,
                scratch: &'t mut Scratch,
                expected: &dyn Expected,
            ) -> Result<Text<'t, 'de>, Fault> {
                match self {
                    $(Self::$name(value) => value.text(scratch, expected),)+
                }
            }

            #[inline(never)]
            fn skip(&self) -> Result<(), Fault> {
                match self {
                    $(Self::$name(value) => value.skip(),)+
                }
            }

            fn raw_json(&self) -> Result<Option<&'de str>, Fault> {
                match self {
                    $(Self::$name(value) => value.raw_json(),)+
                }
            }
        }

        /// A container in any encoding.
        pub(crate) enum AnyContainer<'a, 'de> {
            $($name(crate::$folder::Container<'a, 'de>),)+
        }

        impl<'a, 'de> ReadContainer<'a, 'de> for AnyContainer<'a, 'de> {
            #[inline]
            fn is_list(&self) -> bool {
                match self {
                    $(Self::$name(container) => container.is_list(),)+
                }
            }

            #[inline]
            fn count(&self) -> Option<usize> {
                match self {
                    $(Self::$name(container) => container.count(),)+
                }
            }

            fn unread(&self, position: Position<'a, 'de>) {
                match self {
                    $(Self::$name(container) => container.unread(position),)+
                }
            }

            #[inline]
            fn next_key(&mut self, position: Position<'a, 'de>) -> Result<Option<Cow<'de, str>>, Fault> {
                match self {
                    $(Self::$name(container) => container.next_key(position),)+
                }
            }

            #[inline]
            fn value(&mut self, position: Position<'a, 'de>, value: &mut Option<AnyValue<'a, 'de>>) -> Result<(), Fault> {
                match self {
                    $(Self::$name(container) => container.value(position, value),)+
                }
            }

            #[inline]
            fn next_element(
                &mut self,
                position: Position<'a, 'de>,
                value: &mut Option<AnyValue<'a, 'de>>,
            ) -> Result<bool, Fault> {
                match self {
                    $(Self::$name(container) => container.next_element(position, value),)+
                }
            }

            #[inline]
            fn end(&mut self, position: Position<'a, 'de>) -> Result<(), Fault> {
                match self {
                    $(Self::$name(container) => container.end(position),)+
                }
            }
        }

        /// A path, resolved for each encoding.
        #[derive(Clone, Default)]
        pub(crate) struct AnyResolved {
            $($folder: <crate::$folder::$name as Codec>::Resolved,)+
        }

        #[derive(Debug)]
        pub(crate) enum AnyList {
            $($name(<crate::$folder::$name as Codec>::List),)+
        }

        impl AnyList {
            pub(crate) fn feed(&mut self, chunk: &[u8], on_item: impl FnMut(&[u8])) -> Result<(), Error> {
                match self {
                    $(Self::$name(list) => list.feed(chunk, on_item),)+
                }
            }

            pub(crate) fn finish(self) -> Result<ListEnvelope, Error> {
                match self {
                    $(Self::$name(list) => list.finish(),)+
                }
            }
        }

        #[derive(Debug)]
        pub(crate) enum AnyWatch {
            $($name(<crate::$folder::$name as Codec>::Watch),)+
        }

        impl AnyWatch {
            pub(crate) fn feed(
                &mut self,
                chunk: &[u8],
                on_event: impl FnMut(Result<RawEvent<'_>, Error>),
            ) -> Result<(), Error> {
                match self {
                    $(Self::$name(watch) => watch.feed(chunk, on_event),)+
                }
            }

            pub(crate) fn finish(self, on_event: impl FnMut(Result<RawEvent<'_>, Error>)) -> Result<(), Error> {
                match self {
                    $(Self::$name(watch) => watch.finish(on_event),)+
                }
            }
        }
    };
}

encodings!(codecs);

impl AnyCodec {
    /// Decodes an object. Also returns the number of skipped unknown fields.
    pub(crate) fn decode<'de, S: DeserializeSeed<'de>>(
        &self,
        object: &'de [u8],
        seed: S,
    ) -> Result<(S::Value, u64), Error> {
        let limits = Limits::of(object.len());
        let trail = self.has_trail().then(Trail::new);
        let run = Run::new(trail.as_ref(), &limits);
        match seed.deserialize(&self.value(Position::outermost(&run, size_of::<S::Value>()), object)) {
            Ok(decoded) => Ok((decoded, run.unknown())),
            Err(fault) => Err(self.failure(&run, fault, &[], object)),
        }
    }

    /// Decodes one field; `None` if it is missing or null. Also returns the number of skipped unknown fields in it.
    pub(crate) fn decode_field<'de, K: Deserialize<'de>>(
        &self,
        object: &'de [u8],
        names: &[Box<str>],
        resolved: &AnyResolved,
    ) -> Result<(Option<K>, u64), Error> {
        let limits = Limits::of(object.len());
        let decode = |run: &Run<'_, 'de>, found: AnyFound<'de>| {
            let Some(found) = self.found(Position::outermost(run, size_of::<K>()), &found) else {
                return Ok((None, 0));
            };
            let first = names.len().saturating_sub(found.names);
            let decoded = Within::new(names.get(first..).unwrap_or_default()).deserialize(&found.value);
            let decoded = decoded.map_err(|fault| self.failure(run, fault, names, object))?;
            Ok((decoded, run.unknown()))
        };
        match self.find(object, names, resolved) {
            Ok(None) => Ok((None, 0)),
            Ok(Some(found)) if found.is_plain() => decode(&Run::without_trail(&limits), found),
            Ok(Some(found)) => decode(&Run::new(Some(&Trail::new()), &limits), found),
            Err(fault) => Err(self.failure(&Run::without_trail(&limits), fault, names, object)),
        }
    }
}

impl Encoding {
    /// Returns the encoding of a response with this `Content-Type`. Parameters such as `;stream=watch` are ignored.
    /// Returns `None` for any other media type; treat a missing header as JSON.
    pub fn of_content_type(content_type: &str) -> Option<Self> {
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        Self::ALL.iter().copied().find(|known| known.media_type().eq_ignore_ascii_case(media_type))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_type_determines_the_encoding() {
        let of = Encoding::of_content_type;
        assert_eq!(of("application/json"), Some(Encoding::Json));
        assert_eq!(of("Application/JSON; charset=utf-8"), Some(Encoding::Json));
        assert_eq!(of("application/vnd.kubernetes.protobuf;stream=watch"), Some(Encoding::Protobuf));
        assert_eq!((of("text/html"), of(""), of("application/cbor")), (None, None, None));
        assert_eq!(
            Encoding::ALL.iter().map(|encoding| encoding.name()).collect::<Vec<_>>(),
            ["json", "protobuf"]
        );
    }
}
