//! Decoding of single objects.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;
use serde::de::DeserializeSeed;

use crate::codec::AnyCodec;
use crate::dropped::Dropped;
use crate::recent::{DecodedCache, Recent};
use crate::{Encoding, Error, FieldPath, Identity, TypeMeta};

/// Decodes objects of one kind, which a [`ListDecoder`](crate::ListDecoder) or [`WatchDecoder`](crate::WatchDecoder)
/// delivers, into any type that serde decodes from the JSON of that kind.
///
/// Cheap to clone. Clones share the counter of [`Self::unknown_fields`], and their packed objects share one
/// [cache](Self::decoded_cache) of decoded values.
#[derive(Clone, Debug)]
pub struct ObjectDecoder {
    inner: Arc<Inner>,
}

#[derive(Clone, Debug)]
struct Inner {
    codec: AnyCodec,
    /// The API version and kind of the objects; `None` for any kind.
    types: Option<Types>,
    /// Whether the kind of every object is checked, because its type accepts any kind.
    checks_kind: bool,
    unknown_fields: Arc<AtomicU64>,
    dropped_fields: Arc<[FieldPath]>,
    decoded: DecodedCache,
    /// The path to the metadata, which is resolved once.
    metadata: FieldPath,
}

#[derive(Clone, Debug)]
struct Types {
    api_version: String,
    kind: String,
}

impl ObjectDecoder {
    /// Creates a decoder for objects of a kind in an encoding. Returns `None` if the kind is unknown in the encoding:
    /// in protobuf, kinds that are not built in, which have to be requested as JSON. For responses to metadata-only
    /// requests, use the kind `PartialObjectMetadata` of `meta.k8s.io/v1`.
    pub fn new(encoding: Encoding, api_version: &str, kind: &str) -> Option<Self> {
        let types = Types { api_version: api_version.to_owned(), kind: kind.to_owned() };
        Some(Self::of(
            encoding.of_kind(api_version, kind)?,
            Some(types).filter(|types| !types.kind.is_empty()),
        ))
    }

    /// Creates a decoder for objects of any kind in JSON.
    pub fn json() -> Self {
        Self::of(AnyCodec::Json(crate::json::Json), None)
    }

    fn of(codec: AnyCodec, types: Option<Types>) -> Self {
        let inner = Inner {
            codec,
            types,
            checks_kind: false,
            unknown_fields: Arc::default(),
            dropped_fields: Arc::default(),
            decoded: DecodedCache::default(),
            metadata: FieldPath::new(&["metadata"]),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Drops these fields, in addition to those of earlier calls, from every object that is created by
    /// [`FromWire`](crate::FromWire), before it is decoded or stored. Cheaper than a transform that clears the fields.
    /// Fields of JSON within protobuf (`["data", "replicas"]` of a `ControllerRevision`), `["kind"]` and
    /// `["apiVersion"]` can be dropped too. The fields that identify an object (name, namespace, UID and resource
    /// version) are never dropped, and fields that the kind does not have are ignored.
    ///
    /// ```
    /// # #[derive(serde::Deserialize)]
    /// # struct Pod { spec: Spec }
    /// # #[derive(serde::Deserialize)]
    /// # struct Spec { priority: i32 }
    /// # use kinformer_wire::{FromWire, ObjectDecoder, Packed};
    /// # let json = br#"{"metadata":{"name":"a","namespace":"b"},"spec":{"nodeName":"node-1","priority":7}}"#;
    /// # let pod = Packed::<Pod>::from_wire(json, &ObjectDecoder::json())?;
    /// use kinformer_wire::FieldPath;
    ///
    /// let decoder = ObjectDecoder::json().drop_fields([FieldPath::new(&["spec", "nodeName"])]);
    /// let dropped = Packed::<Pod>::from_wire(json, &decoder)?;
    /// assert!(dropped.encoded_len() < pod.encoded_len());
    /// assert_eq!(dropped.dropped_fields().len(), 1);
    /// # Ok::<(), kinformer_wire::Error>(())
    /// ```
    #[must_use]
    pub fn drop_fields(mut self, fields: impl IntoIterator<Item = FieldPath>) -> Self {
        let fields = fields.into_iter().filter(|field| !field.identifies());
        let inner = Arc::make_mut(&mut self.inner);
        inner.dropped_fields = inner.dropped_fields.iter().cloned().chain(fields).collect();
        self
    }

    /// Checks the kind of every object on arrival, for types that accept any kind. By default only the first object of
    /// a list is checked, for types that check their own kind while they are decoded.
    #[must_use]
    pub fn check_kind(mut self) -> Self {
        Arc::make_mut(&mut self.inner).checks_kind = true;
        self
    }

    /// Sets how many of this decoder's [packed](crate::Packed) objects stay decoded after they were read, even if no
    /// reader holds the value; 256 by default, none with 0. Eviction is CLOCK (second chance).
    #[must_use]
    pub fn decoded_cache_size(self, objects: usize) -> Self {
        self.decoded_cache(DecodedCache::new(objects))
    }

    /// Sets the cache of decoded values, which several decoders can share: its size then limits all their packed objects
    /// together.
    #[must_use]
    pub fn decoded_cache(mut self, cache: DecodedCache) -> Self {
        Arc::make_mut(&mut self.inner).decoded = cache;
        self
    }

    pub(crate) fn recent(&self) -> &Recent {
        &self.inner.decoded.recent
    }

    pub(crate) fn codec(&self) -> &AnyCodec {
        &self.inner.codec
    }

    /// The API version and kind of the objects; `None` for any kind.
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

    /// Returns the object without the [dropped](Self::drop_fields) fields, and the record of those that it had.
    pub(crate) fn without_fields<'a>(&self, object: &'a [u8]) -> Result<(Cow<'a, [u8]>, String), Error> {
        let inner = &self.inner;
        if inner.dropped_fields.is_empty() {
            return Ok((Cow::Borrowed(object), String::new()));
        }
        let fields = inner.dropped_fields.iter();
        let (bytes, dropped) = drop_fields(&inner.codec, object, Dropped::default(), fields)?;
        Ok((Cow::Owned(bytes), dropped))
    }

    /// Decodes an object. Fields that the type does not have are skipped in every encoding. In protobuf the type also
    /// receives `apiVersion` and `kind`, which are not part of the message.
    ///
    /// Takes at most 64 times the object's size plus 1 MiB of memory, and at most 1.5 MiB of the stack; see the
    /// [crate](crate) documentation for types without this guarantee. Of duplicate names in a JSON object, and of
    /// duplicate keys in a protobuf map, the last one is used.
    ///
    /// # Errors
    /// The bytes are broken or do not match the type; the error has the position within the object. Or a limit is
    /// exceeded.
    pub fn decode<'de, K: Deserialize<'de>>(&self, object: &'de [u8]) -> Result<K, Error> {
        self.decode_seed(&self.inner.codec, object, PhantomData::<K>)
    }

    pub(crate) fn decode_seed<'de, S: DeserializeSeed<'de>>(
        &self,
        codec: &AnyCodec,
        object: &'de [u8],
        seed: S,
    ) -> Result<S::Value, Error> {
        Ok(self.counted(codec.decode(object, seed)?))
    }

    /// Counts the skipped unknown fields of a decoded value.
    fn counted<K>(&self, (decoded, unknown): (K, u64)) -> K {
        if unknown > 0 {
            self.inner.unknown_fields.fetch_add(unknown, Ordering::Relaxed);
        }
        decoded
    }

    /// Decodes the metadata of an object.
    pub(crate) fn decode_metadata<'de, K: Deserialize<'de>>(
        &self,
        object: &'de [u8],
    ) -> Result<Option<K>, Error> {
        self.decode_field(object, &self.inner.metadata)
    }

    /// Decodes one field of an object, with the same result as in the whole object. Returns `None` if the field is
    /// missing or null. In protobuf, only the messages on the path are read (tens of nanoseconds for `spec.nodeName`);
    /// in JSON, the whole object.
    ///
    /// # Errors
    /// The bytes on the path are broken, the field does not match the type, the path leads through a value without
    /// fields, such as a list, or a limit of [`Self::decode`] is exceeded.
    pub fn decode_field<'de, K: Deserialize<'de>>(
        &self,
        object: &'de [u8],
        path: &FieldPath,
    ) -> Result<Option<K>, Error> {
        let (names, resolved) = path.parts();
        Ok(self.counted(self.inner.codec.decode_field(object, names, resolved)?))
    }

    /// Reads the key and the resource version and ignores all other fields. Returns an empty identity if they cannot be
    /// read.
    pub fn identify(&self, object: &[u8]) -> Identity {
        self.encoding().identify(object)
    }

    /// The number of protobuf fields skipped so far because their numbers are unknown: the server is newer. Unknown
    /// fields of JSON are not counted.
    pub fn unknown_fields(&self) -> u64 {
        self.inner.unknown_fields.load(Ordering::Relaxed)
    }
}

/// Returns the object without these fields, and the record of all fields dropped from it so far.
pub(crate) fn drop_fields<'f>(
    codec: &AnyCodec,
    object: &[u8],
    before: Dropped<'_>,
    fields: impl Iterator<Item = &'f FieldPath> + Clone,
) -> Result<(Vec<u8>, String), Error> {
    let mut numbers = Vec::new();
    let bytes = codec.drop_fields(object, fields.clone().map(FieldPath::parts), &mut numbers)?;
    let entries = numbers.iter().filter_map(|number| Some(fields.clone().nth(*number)?.entry()));
    Ok((bytes, before.and(&entries.collect::<Vec<_>>())))
}

/// Decodes a response that is a single object, such as the `Status` of a failed request.
///
/// # Errors
/// The bytes are broken, do not match the type, or are of a kind that is unknown in this encoding.
pub fn decode_response<K: for<'de> Deserialize<'de>>(encoding: Encoding, body: &[u8]) -> Result<K, Error> {
    let (codec, object) = encoding.of_response(body)?;
    Ok(codec.decode(object, PhantomData::<K>)?.0)
}
