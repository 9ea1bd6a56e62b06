//! From the bytes of one object to a type.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;
use serde::de::DeserializeSeed;

use crate::codec::AnyCodec;
use crate::dropped::Dropped;
use crate::packed::Recent;
use crate::{Encoding, Error, FieldPath, Identity, TypeMeta};

/// How many decoded objects are [cached](ObjectDecoder::decoded_cache_size) by default: as much as handlers of the same
/// events, which run side by side, are apart.
const CACHED: usize = 256;

/// Decodes objects of one kind, as a [`ListDecoder`](crate::ListDecoder) or [`WatchDecoder`](crate::WatchDecoder)
/// delivers them, into any type that serde decodes from the JSON of that kind.
///
/// Cheap to clone. A clone counts into the same [`Self::unknown_fields`], and the packed objects of both share one cache
/// of what was decoded.
#[derive(Clone, Debug)]
pub struct ObjectDecoder {
    inner: Arc<Inner>,
}

#[derive(Clone, Debug)]
struct Inner {
    codec: AnyCodec,
    /// What the objects are; unset if they may be anything.
    types: Option<Types>,
    /// The type takes objects of any kind.
    checks_kind: bool,
    unknown_fields: Arc<AtomicU64>,
    dropped_fields: Arc<[FieldPath]>,
    recent: Arc<Recent>,
}

#[derive(Clone, Debug)]
struct Types {
    api_version: String,
    kind: String,
}

impl ObjectDecoder {
    /// A decoder for objects of that kind in that encoding. Returns `None` if the kind is not known in it, as in protobuf
    /// those that are not built in: request JSON then. What a server sends when only the metadata is requested is
    /// the kind `PartialObjectMetadata` of `meta.k8s.io/v1`.
    pub fn new(encoding: Encoding, api_version: &str, kind: &str) -> Option<Self> {
        let types = Types { api_version: api_version.to_owned(), kind: kind.to_owned() };
        Some(Self::of(
            encoding.of_kind(api_version, kind)?,
            Some(types).filter(|types| !types.kind.is_empty()),
        ))
    }

    /// A decoder for objects of any kind in JSON.
    pub fn json() -> Self {
        Self::of(AnyCodec::Json(crate::json::Json), None)
    }

    fn of(codec: AnyCodec, types: Option<Types>) -> Self {
        let recent = Arc::new(Recent::new(CACHED));
        let inner = Inner {
            codec,
            types,
            checks_kind: false,
            unknown_fields: Arc::default(),
            dropped_fields: Arc::default(),
            recent,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Drops these fields as well from every object that is made [from the wire](crate::FromWire), before any of it is
    /// decoded or stored: as a transform that clears them, and cheaper. JSON within protobuf (`["data", "replicas"]` of
    /// a `ControllerRevision`), `["kind"]` and `["apiVersion"]` are dropped as well. What identifies an object (its name,
    /// namespace, UID and version) is never dropped, and a field that the kind does not have is ignored.
    #[must_use]
    pub fn drop_fields(mut self, fields: impl IntoIterator<Item = FieldPath>) -> Self {
        let fields = fields.into_iter().filter(|field| !field.identifies());
        let inner = Arc::make_mut(&mut self.inner);
        inner.dropped_fields = inner.dropped_fields.iter().cloned().chain(fields).collect();
        self
    }

    /// Checks the kind of every object when it arrives, for types that take objects of any kind. Of a type that checks
    /// its own kind while it is decoded, only the first object of a list is checked.
    #[must_use]
    pub fn check_kind(mut self) -> Self {
        Arc::make_mut(&mut self.inner).checks_kind = true;
        self
    }

    /// How many of the [packed](crate::Packed) objects that it makes stay decoded after they were read, though nobody
    /// holds what was decoded; 256 by default, none with 0. Eviction is CLOCK (second chance).
    #[must_use]
    pub fn decoded_cache_size(mut self, objects: usize) -> Self {
        Arc::make_mut(&mut self.inner).recent = Arc::new(Recent::new(objects));
        self
    }

    pub(crate) fn recent(&self) -> &Recent {
        &self.inner.recent
    }

    pub(crate) fn codec(&self) -> &AnyCodec {
        &self.inner.codec
    }

    /// What the objects are, unless they may be anything.
    pub(crate) fn types(&self) -> Option<TypeMeta<'_>> {
        let types = self.inner.types.as_ref();
        types.map(|Types { api_version, kind }| TypeMeta { api_version, kind })
    }

    pub(crate) fn checks_kind(&self) -> bool {
        self.inner.checks_kind
    }

    /// The encoding of the objects.
    pub fn encoding(&self) -> Encoding {
        self.inner.codec.encoding()
    }

    /// The object without the fields that are [dropped](Self::drop_fields), and which of these it had.
    pub(crate) fn without_fields<'a>(&self, object: &'a [u8]) -> Result<(Cow<'a, [u8]>, String), Error> {
        let inner = &self.inner;
        if inner.dropped_fields.is_empty() {
            return Ok((Cow::Borrowed(object), String::new()));
        }
        let fields: Vec<&FieldPath> = inner.dropped_fields.iter().collect();
        let (bytes, dropped) = drop_fields(&inner.codec, object, Dropped::default(), &fields)?;
        Ok((Cow::Owned(bytes), dropped))
    }

    /// Decodes an object. What the type does not know is skipped in every encoding; in protobuf the version and the
    /// kind are given to the type although the message does not have them.
    ///
    /// Takes at most 64 times the object's bytes and 1 MiB of memory, and at most 1.5 MiB of the stack; see the
    /// [crate](crate) for types of which that is not known. Of equal names in an object of JSON, and of equal keys in a map
    /// of protobuf, the last one counts.
    ///
    /// # Errors
    /// The bytes are broken, or not what the type wants, and say where in the object; or a limit is exceeded.
    pub fn decode<'de, K: Deserialize<'de>>(&self, object: &'de [u8]) -> Result<K, Error> {
        self.decode_seed(&self.inner.codec, object, PhantomData::<K>)
    }

    pub(crate) fn decode_seed<'de, S: DeserializeSeed<'de>>(
        &self,
        codec: &AnyCodec,
        object: &'de [u8],
        seed: S,
    ) -> Result<S::Value, Error> {
        let (decoded, unknown) = codec.decode(object, seed)?;
        if unknown > 0 {
            self.inner.unknown_fields.fetch_add(unknown, Ordering::Relaxed);
        }
        Ok(decoded)
    }

    /// Decodes one field of an object, the same as it is in the whole object. `None` if the object does not have it, or
    /// has null there. In protobuf only the messages that lead to it are looked at (tens of nanoseconds for
    /// `spec.nodeName`), in JSON everything.
    ///
    /// # Errors
    /// The bytes on the way are broken, or not what the type wants, or the names lead through what has no fields, such as
    /// a list; or a limit is exceeded, as [`Self::decode`] says.
    pub fn decode_field<'de, K: Deserialize<'de>>(
        &self,
        object: &'de [u8],
        path: &FieldPath,
    ) -> Result<Option<K>, Error> {
        let (names, resolved) = path.parts();
        self.inner.codec.decode_field(object, names, resolved)
    }

    /// Reads the key and the version and ignores everything else in the object. Where even that is not possible,
    /// the result is empty: the object stays unnamed.
    pub fn identify(&self, object: &[u8]) -> Identity {
        self.encoding().identify(object)
    }

    /// How many fields were skipped so far because nothing is known of their numbers: a newer server has them. In
    /// JSON they are not counted.
    pub fn unknown_fields(&self) -> u64 {
        self.inner.unknown_fields.load(Ordering::Relaxed)
    }
}

/// The object without these fields, and the record of what was dropped from it now and before.
pub(crate) fn drop_fields(
    codec: &AnyCodec,
    object: &[u8],
    before: Dropped<'_>,
    fields: &[&FieldPath],
) -> Result<(Vec<u8>, String), Error> {
    let paths: Vec<_> = fields.iter().map(|field| field.parts()).collect();
    let mut numbers = Vec::new();
    let bytes = codec.drop_fields(object, &paths, &mut numbers)?;
    let dropped = numbers.iter().filter_map(|number| paths.get(*number));
    Ok((bytes, before.and(dropped.map(|(names, _)| *names))))
}

/// Decodes an answer that is one object, such as the `Status` that says why there is no list.
///
/// # Errors
/// The bytes are broken, not what the type wants, or of a kind that is not known in this encoding.
pub fn decode_answer<K: for<'de> Deserialize<'de>>(encoding: Encoding, body: &[u8]) -> Result<K, Error> {
    let (codec, object) = encoding.of_answer(body)?;
    Ok(codec.decode(object, PhantomData::<K>)?.0)
}
