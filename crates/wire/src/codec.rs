//! The codecs. What depends on an encoding is in the folder of its [`Codec`]; all else asks the codec.
//!
//! This file and those folders need each other: an enum of this file holds a value of each encoding, so that there is one
//! deserializer for all, and a value of protobuf can be JSON.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Expected};

use crate::decode::{At, Fault, Run, Scratch, Text, Token, Trail, Within};
use crate::dropped::Dropped;
use crate::encoding::encodings;
use crate::limits::Limits;
use crate::{Encoding, Error, Identity, ListEnvelope, ManagedFields, RawEvent, TypeMeta};

/// Everything that depends on the encoding of an answer. A value is what is known of the objects of one kind.
pub(crate) trait Codec: Clone + fmt::Debug {
    /// What a request accepts, and an answer says of itself.
    const MEDIA_TYPE: &'static str;

    /// Whether errors say in which field they are.
    const HAS_TRAIL: bool;

    type List: DecodeList;
    type Watch: DecodeWatch;
    /// What is looked up once for a [`FieldPath`](crate::FieldPath).
    type Resolved: Clone + Default + Send + Sync;
    /// Where a field was found.
    type Found<'de>;

    /// For objects of this kind; none if this encoding of the kind is not known.
    fn of_kind(api_version: &str, kind: &str) -> Option<Self>;

    /// For an answer that is one object, and the bytes of that object.
    fn of_answer(body: &[u8]) -> Result<(Self, &[u8]), Error>;

    /// The same for an object without these fields, for what its bytes do not say themselves.
    fn without(&self, dropped: Dropped<'_>) -> Self;

    /// The kind that the bytes of an object say it is of.
    fn kind(object: &[u8]) -> Option<String>;

    /// The object with its version and kind, if it is the bytes that have them.
    fn with_types(object: &[u8], types: TypeMeta<'_>) -> Option<Vec<u8>>;

    /// An object, to be decoded.
    fn value<'a, 'de>(&'a self, at: At<'a, 'de>, object: &'de [u8]) -> AnyValue<'a, 'de>;

    /// Goes to a field of an object, as far as that can be done without decoding.
    fn find<'de>(&self, object: &'de [u8], path: Path<'_, Self>) -> Result<Option<Self::Found<'de>>, Fault>;

    /// What was found, to be decoded.
    fn found<'a, 'de>(&'a self, at: At<'a, 'de>, found: &Self::Found<'de>) -> Found<'a, 'de>;

    /// Whether nothing that was found has a place of its own.
    fn is_plain(found: &Self::Found<'_>) -> bool;

    /// The error, when an object or a field of it does not decode.
    fn failure(&self, run: &Run<'_, '_>, fault: Fault, path: &[Box<str>], object: &[u8]) -> Error;

    /// The object without these fields; adds to `dropped` the numbers of the paths to fields that it had.
    fn drop_fields(
        &self,
        object: &[u8],
        paths: &[Path<'_, Self>],
        dropped: &mut Vec<usize>,
    ) -> Result<Vec<u8>, Error>;

    /// The key and the version, as far as they can be read.
    fn identify(object: &[u8]) -> Identity;

    /// Whether two objects have the same content, but for version and kind, where their bytes say so.
    fn has_same_content(a: &[u8], b: &[u8]) -> Option<bool>;
}

/// A path: its names, and what was looked up for it.
pub(crate) struct Path<'a, C: Codec> {
    pub(crate) names: &'a [Box<str>],
    pub(crate) resolved: &'a C::Resolved,
}

/// A value, and how many names of the path lead on from it.
pub(crate) struct Found<'a, 'de> {
    pub(crate) value: AnyValue<'a, 'de>,
    pub(crate) names: usize,
}

/// What reads a value of one encoding.
pub(crate) trait ReadValue<'a, 'de: 'a>: Sized {
    /// Whether the value is null, which is taken then.
    fn take_null(&self) -> Result<bool, Fault>;

    /// What is there. What has others in it is not entered by that.
    fn token<'t>(&self, scratch: &'t mut Scratch) -> Result<Token<'t, 'de>, Fault>;

    /// Enters a value that has others in it, of which something of that size is built; `None` if it is of another kind.
    /// What is in it is too large to be moved: `make` is inlined for each kind of container.
    fn open<R>(
        &self,
        size: usize,
        make: impl FnOnce(At<'a, 'de>, AnyContainer<'a, 'de>) -> R,
    ) -> Result<Option<R>, Fault>;

    /// A text.
    fn text<'t>(&self, scratch: &'t mut Scratch, expected: &dyn Expected) -> Result<Text<'t, 'de>, Fault> {
        match self.token(scratch)? {
            Token::Text(text) => Ok(text),
            other => Err(other.unexpected(expected)),
        }
    }

    /// Passes over the value.
    fn skip(&self) -> Result<(), Fault>;

    /// The value as it stands, where that is JSON.
    fn raw_json(&self) -> Result<Option<&'de str>, Fault>;
}

/// What reads the entries of a list, or of a map or object, of one encoding.
pub(crate) trait ReadContainer<'a, 'de: 'a>: Sized {
    fn is_list(&self) -> bool;

    /// How many entries a list has, where that is known.
    fn count(&self) -> Option<usize>;

    /// Gives back what was taken of the text to open it, from which nothing else was taken.
    fn unread(&self, at: At<'a, 'de>);

    fn next_key(&mut self, at: At<'a, 'de>) -> Result<Option<Cow<'de, str>>, Fault>;

    /// Puts the value of the last key there.
    fn value(&mut self, at: At<'a, 'de>, value: &mut Option<AnyValue<'a, 'de>>) -> Result<(), Fault>;

    /// Puts the next entry of a list there; false if there is none.
    fn next_element(&mut self, at: At<'a, 'de>, value: &mut Option<AnyValue<'a, 'de>>)
    -> Result<bool, Fault>;

    /// After a type has taken what it wants: nothing may be left, where the encoding does not say before how much there is.
    fn end(&mut self, at: At<'a, 'de>) -> Result<(), Fault>;
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

/// Makes one of several codecs: what calls the codec of that name in the folder of that name.
macro_rules! codecs {
    ($($(#[$_:meta])* $name:ident in $folder:ident;)+) => {
        impl Encoding {
            /// What a request accepts, and an answer says of itself.
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

            pub(crate) fn of_answer(self, body: &[u8]) -> Result<(AnyCodec, &[u8]), Error> {
                match self {
                    $(Self::$name => {
                        crate::$folder::$name::of_answer(body).map(|(codec, object)| (AnyCodec::$name(codec), object))
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
            fn value<'a, 'de>(&'a self, at: At<'a, 'de>, object: &'de [u8]) -> AnyValue<'a, 'de> {
                match self {
                    $(Self::$name(codec) => codec.value(at, object),)+
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
            fn found<'a, 'de>(&'a self, at: At<'a, 'de>, found: &AnyFound<'de>) -> Option<Found<'a, 'de>> {
                match (self, found) {
                    $((Self::$name(codec), AnyFound::$name(found)) => Some(codec.found(at, found)),)+
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

            pub(crate) fn drop_fields(
                &self,
                object: &[u8],
                paths: &[(&[Box<str>], &AnyResolved)],
                dropped: &mut Vec<usize>,
            ) -> Result<Vec<u8>, Error> {
                match self {
                    $(Self::$name(codec) => {
                        let paths = paths.iter().map(|(names, resolved)| Path { names, resolved: &resolved.$folder });
                        codec.drop_fields(object, &paths.collect::<Vec<_>>(), dropped)
                    })+
                }
            }
        }

        /// Where a field was found.
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
                make: impl FnOnce(At<'a, 'de>, AnyContainer<'a, 'de>) -> R,
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

        /// What is in a value in any encoding.
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

            fn unread(&self, at: At<'a, 'de>) {
                match self {
                    $(Self::$name(container) => container.unread(at),)+
                }
            }

            #[inline]
            fn next_key(&mut self, at: At<'a, 'de>) -> Result<Option<Cow<'de, str>>, Fault> {
                match self {
                    $(Self::$name(container) => container.next_key(at),)+
                }
            }

            #[inline]
            fn value(&mut self, at: At<'a, 'de>, value: &mut Option<AnyValue<'a, 'de>>) -> Result<(), Fault> {
                match self {
                    $(Self::$name(container) => container.value(at, value),)+
                }
            }

            #[inline]
            fn next_element(
                &mut self,
                at: At<'a, 'de>,
                value: &mut Option<AnyValue<'a, 'de>>,
            ) -> Result<bool, Fault> {
                match self {
                    $(Self::$name(container) => container.next_element(at, value),)+
                }
            }

            #[inline]
            fn end(&mut self, at: At<'a, 'de>) -> Result<(), Fault> {
                match self {
                    $(Self::$name(container) => container.end(at),)+
                }
            }
        }

        /// What each codec has looked up for a path.
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
    /// Decodes an object; says how many of its fields were skipped because they are not known.
    pub(crate) fn decode<'de, S: DeserializeSeed<'de>>(
        &self,
        object: &'de [u8],
        seed: S,
    ) -> Result<(S::Value, u64), Error> {
        let limits = Limits::of(object.len());
        let trail = self.has_trail().then(Trail::new);
        let run = Run::new(trail.as_ref(), &limits);
        match seed.deserialize(&self.value(At::outermost(&run, size_of::<S::Value>()), object)) {
            Ok(decoded) => Ok((decoded, run.unknown())),
            Err(fault) => Err(self.failure(&run, fault, &[], object)),
        }
    }

    /// Decodes one field, if the object has it and it is not null.
    pub(crate) fn decode_field<'de, K: Deserialize<'de>>(
        &self,
        object: &'de [u8],
        names: &[Box<str>],
        resolved: &AnyResolved,
    ) -> Result<Option<K>, Error> {
        let limits = Limits::of(object.len());
        let decode = |run: &Run<'_, 'de>, found: AnyFound<'de>| {
            let Some(found) = self.found(At::outermost(run, size_of::<K>()), &found) else {
                return Ok(None);
            };
            let led = names.len().saturating_sub(found.names);
            let decoded = Within::new(names.get(led..).unwrap_or_default()).deserialize(&found.value);
            decoded.map_err(|fault| self.failure(run, fault, names, object))
        };
        match self.find(object, names, resolved) {
            Ok(None) => Ok(None),
            Ok(Some(found)) if found.is_plain() => decode(&Run::without_trail(&limits), found),
            Ok(Some(found)) => decode(&Run::new(Some(&Trail::new()), &limits), found),
            Err(fault) => Err(self.failure(&Run::without_trail(&limits), fault, names, object)),
        }
    }
}

impl Encoding {
    /// The encoding of an answer, by its `Content-Type`; parameters such as `;stream=watch` are ignored. Returns `None`
    /// for any other media type; treat a missing header as JSON.
    pub fn of_content_type(content_type: &str) -> Option<Self> {
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        Self::ALL.iter().copied().find(|known| known.media_type().eq_ignore_ascii_case(media_type))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_its_encoding() {
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
