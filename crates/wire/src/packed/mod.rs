//! Objects that are stored encoded and decoded on read.

mod content;
mod decoded;
mod encoded;
mod identified;
mod layout;
mod metadata;
mod slots;
mod view;

use std::any::{Any, type_name};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, LazyLock, OnceLock};

use kinformer_core::{KeyRef, Labels, Object, ResourceVersion};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::dropped::Dropped;
use crate::object_decoder::drop_fields;
use crate::{Encoding, Error, FieldPath, ObjectDecoder};
use decoded::{Boxed, Read};
pub use decoded::{Decoded, DecodedRef};
use encoded::{Encoded, LABELS, NAME, NAMESPACE, UID};
use identified::Identified;
use layout::Layout;
pub use slots::DecodeAs;
use slots::Slots;
pub use view::{Packed, PackedRef};

/// A type that can be created from an object's bytes: all types that serde decodes, which are decoded immediately, and
/// [`Packed`], which is decoded later.
pub trait FromWire: Sized {
    /// Creates the value from the bytes of an object.
    ///
    /// # Errors
    /// The bytes are broken or do not match the type, or a limit is exceeded; see [`ObjectDecoder::decode`].
    fn from_wire(bytes: &[u8], decoder: &ObjectDecoder) -> Result<Self, Error>;
}

impl<K: DeserializeOwned> FromWire for K {
    fn from_wire(bytes: &[u8], decoder: &ObjectDecoder) -> Result<Self, Error> {
        match decoder.without_fields(bytes) {
            Ok((bytes, dropped)) if dropped.is_empty() => decoder.decode(&bytes),
            Ok((bytes, dropped)) => {
                let codec = decoder.codec().without(Dropped(&dropped));
                // The copy is dropped after this call: the type owns its fields.
                decoder.decode_seed(&codec, &bytes, PhantomData::<K>)
            }
            // Decodes the original bytes, because that error is more specific.
            Err(error) => decoder.decode::<K>(bytes).and(Err(error)),
        }
    }
}

/// An object of any kind, stored as the received bytes, JSON or protobuf. [`Packed`] is the view of such an object with
/// a type.
///
/// All Kubernetes objects have this type, so the code that stores and delivers them is compiled once.
///
/// Key, UID, resource version and labels are parsed on arrival. [`decode_as`](Self::decode_as) decodes the whole object
/// on demand and shares the value for as long as a reader holds it; [`field`](Self::field) decodes one field without
/// the rest, and [`metadata_as`](Self::metadata_as) and related methods only the metadata. An object can be decoded as
/// several types at the same time, for example as its own type and as a dynamic object. A packed pod takes about a
/// tenth of the memory of the decoded type, and is never decoded if it is never read.
///
/// The most recently read objects of an [`ObjectDecoder`], and so of an informer, stay decoded in a
/// [cache](ObjectDecoder::decoded_cache_size) of limited size. Several handlers that receive an object one after the
/// other thus decode it once. [`keep_decoded`](Self::keep_decoded) keeps the value of an object as long as the object.
///
/// A decoding error is found on read, not on arrival.
pub struct PackedObject {
    encoded: Encoded,
    version: ResourceVersion,
    /// Set when the object is decoded for the first time.
    decoded: OnceLock<Box<Slots>>,
}

impl FromWire for PackedObject {
    fn from_wire(bytes: &[u8], decoder: &ObjectDecoder) -> Result<Self, Error> {
        match decoder.without_fields(bytes) {
            Ok((bytes, dropped)) => Self::new(&bytes, decoder, &dropped),
            Err(error) => Self::new(bytes, decoder, "").and(Err(error)),
        }
    }
}

impl PackedObject {
    fn new(bytes: &[u8], decoder: &ObjectDecoder, dropped: &str) -> Result<Self, Error> {
        let identified: Identified<'_> = decoder.decode_metadata(bytes)?.unwrap_or_default();
        let dropped = Some(dropped).filter(|dropped| !dropped.is_empty());
        Ok(Self {
            encoded: Encoded {
                layout: Layout::new(bytes, &identified.parts(dropped))?,
                decoder: decoder.clone(),
            },
            version: identified.version(),
            decoded: OnceLock::new(),
        })
    }
}

impl PackedObject {
    /// Returns the object as a `K`. O(1) if a value of this type is held or cached, else decodes the object in O(size).
    /// Concurrent calls decode it once.
    ///
    /// A value that is [kept](Self::keep_decoded) is borrowed, in a few nanoseconds and without a lock.
    ///
    /// # Errors
    /// The bytes are broken or do not match the type, or a limit is exceeded; see [`ObjectDecoder::decode`].
    #[inline]
    pub fn decode_as<K: DeserializeOwned + Send + Sync + 'static>(&self) -> Result<DecodedRef<'_, K>, Error> {
        if let Some(shared) = self.decoded.get().and_then(|slots| slots.kept())
            && let Some(value) = shared.downcast_ref::<Boxed<K>>()
        {
            return Ok(DecodedRef(Read::Kept { value: &value.0, shared }));
        }
        let value = self.value(DecodeAs::of::<K>())?;
        Ok(DecodedRef(Read::Shared(Decoded::of(value))))
    }

    /// Decodes the object now, and keeps the value as long as the object. Only the first type is kept; other types are
    /// decoded on read.
    ///
    /// # Errors
    /// The bytes are broken or do not match the type, or a limit is exceeded; see [`ObjectDecoder::decode`]. The object
    /// is unchanged.
    pub fn keep_decoded(&self, to: DecodeAs) -> Result<(), Error> {
        self.slots().keep(&self.encoded, to)
    }

    fn value(&self, to: DecodeAs) -> Result<Arc<dyn Any + Send + Sync>, Error> {
        self.slots().value(&self.encoded, to)
    }

    /// Encodes a value as JSON. `decoder` must be a decoder of JSON.
    ///
    /// # Errors
    /// The value cannot be encoded, or is not an object with metadata.
    pub fn encode<K: Serialize>(value: &K, decoder: &ObjectDecoder) -> Result<Self, Error> {
        Self::encode_with(value, decoder, "")
    }

    /// Encodes a changed value of this object as JSON, with the record of this object's [dropped
    /// fields](Self::dropped_fields). `decoder` must be a decoder of JSON. For transforms that change a decoded object.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn encode_changed<K: Serialize>(&self, value: &K, decoder: &ObjectDecoder) -> Result<Self, Error> {
        Self::encode_with(value, decoder, self.encoded.dropped().0)
    }

    fn encode_with<K: Serialize>(value: &K, decoder: &ObjectDecoder, dropped: &str) -> Result<Self, Error> {
        let json = serde_json::to_vec(value)
            .map_err(|error| Error::Unencodable { what: type_name::<K>(), problem: error.to_string() })?;
        Self::new(&json, decoder, dropped)
    }

    /// Creates an object from a value, in JSON, and keeps the value as [decoded](Self::keep_decoded): see
    /// [`Packed::from_value`].
    fn from_arc<K: Serialize + Send + Sync + 'static>(value: Arc<K>) -> Result<Self, Error> {
        // One decoder, so that these objects share one cache of a limited size.
        static JSON: LazyLock<ObjectDecoder> = LazyLock::new(ObjectDecoder::json);
        let mut object = Self::encode(&*value, &JSON)?;
        object.decoded = OnceLock::from(Box::new(Slots::of(Arc::new(Boxed(value)))));
        Ok(object)
    }

    fn slots(&self) -> &Slots {
        self.decoded.get_or_init(Box::default)
    }

    /// Decodes the whole object into a new value that is not shared.
    ///
    /// # Errors
    /// The bytes are broken or do not match the type, or a limit is exceeded; see [`ObjectDecoder::decode`].
    pub fn decode_new<K: DeserializeOwned>(&self) -> Result<K, Error> {
        self.encoded.decode(PhantomData)
    }

    /// Decodes one field without the rest of the object, with the same result as in the whole object. Returns `None` if
    /// the field is missing or null. In protobuf it takes tens of nanoseconds; in JSON the whole object is read.
    /// The value owns its data: it does not borrow from the object.
    ///
    /// # Errors
    /// As [`ObjectDecoder::decode_field`].
    pub fn field<M: DeserializeOwned>(&self, path: &FieldPath) -> Result<Option<M>, Error> {
        self.borrowed_field(path)
    }

    pub(crate) fn borrowed_field<'de, M: Deserialize<'de>>(
        &'de self,
        path: &FieldPath,
    ) -> Result<Option<M>, Error> {
        let (names, resolved) = path.parts();
        Ok(self.encoded.codec().decode_field(self.bytes(), names, resolved)?.0)
    }

    /// Returns the object without these fields, for transforms of some objects. To drop fields from every object, use
    /// [`ObjectDecoder::drop_fields`], so that they are never stored. O(size).
    ///
    /// # Errors
    /// The bytes are broken; [`Error::NotRemovable`] for fields that identify the object.
    pub fn without_fields(&self, fields: &[&FieldPath]) -> Result<Self, Error> {
        if let Some(identifies) = fields.iter().find(|field| field.identifies()) {
            return Err(Error::NotRemovable { path: identifies.to_string() });
        }
        let encoded = &self.encoded;
        let (codec, fields) = (encoded.codec(), fields.iter().copied());
        let (bytes, dropped) = drop_fields(&codec, encoded.bytes(), encoded.dropped(), fields)?;
        Self::new(&bytes, &encoded.decoder, &dropped)
    }

    /// The fields that were dropped from this object, by [`Self::without_fields`] or on
    /// [arrival](ObjectDecoder::drop_fields): each field that the object had, once. All other fields but the [managed
    /// fields](crate::ManagedFields) are as the server sent them, unless the object was
    /// [encoded again](Self::encode_changed).
    pub fn dropped_fields(&self) -> Vec<FieldPath> {
        self.encoded.dropped().paths().map(FieldPath::of).collect()
    }

    /// The encoding of the object.
    pub fn encoding(&self) -> Encoding {
        self.encoded.decoder.encoding()
    }

    /// The encoded object: its JSON, or its protobuf message. The representation in memory is not guaranteed; currently
    /// nothing is copied.
    pub fn encoded(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.bytes())
    }

    /// The number of bytes of [`Self::encoded`].
    pub fn encoded_len(&self) -> usize {
        self.bytes().len()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.encoded.bytes()
    }

    /// Whether a decoded value is held by a reader, cached or kept.
    pub fn is_decoded(&self) -> bool {
        self.decoded.get().is_some_and(|slots| slots.is_any_held())
    }

    fn label_pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = (LABELS..self.encoded.layout.parts().saturating_sub(1)).step_by(2);
        pairs.map(|index| (self.encoded.part(index), self.encoded.part(index + 1)))
    }
}

/// The methods of [`Object`], callable without the trait.
impl PackedObject {
    /// The key.
    #[inline]
    pub fn key(&self) -> KeyRef<'_> {
        Object::key(self)
    }

    /// The name.
    #[inline]
    pub fn name(&self) -> &str {
        self.encoded.part(NAME)
    }

    /// The namespace; `None` for a cluster-scoped object.
    #[inline]
    pub fn namespace(&self) -> Option<&str> {
        Some(self.encoded.part(NAMESPACE)).filter(|namespace| !namespace.is_empty())
    }

    /// The UID.
    #[inline]
    pub fn uid(&self) -> Option<&str> {
        Some(self.encoded.part(UID)).filter(|uid| !uid.is_empty())
    }

    /// The resource version of this state.
    pub fn resource_version(&self) -> ResourceVersion {
        self.version.clone()
    }

    /// The labels.
    pub fn labels(&self) -> Labels<'_> {
        Object::labels(self)
    }

    /// Returns the value of one label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.label_pairs().find_map(|(known, value)| (known == key).then_some(value))
    }
}

/// Evicts the decoded values from the cache, since nothing can read them any more.
impl Drop for PackedObject {
    fn drop(&mut self) {
        if let Some(slots) = self.decoded.get_mut() {
            slots.evict(self.encoded.recent());
        }
    }
}

impl Object for PackedObject {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::new(self.encoded.part(NAMESPACE), self.encoded.part(NAME))
    }

    fn resource_version(&self) -> ResourceVersion {
        self.resource_version()
    }

    fn uid(&self) -> Option<&str> {
        self.uid()
    }

    /// The size of this type, the encoded object and its parsed parts: a position of 8 bytes for namespace, name, UID, each key
    /// and each value of a label, and a copy of those with escapes. A value in the
    /// [cache](ObjectDecoder::decoded_cache_size) is not counted. `None` if a value is [kept](Self::keep_decoded), whose size
    /// is unknown. O(1).
    fn memory_size(&self) -> Option<usize> {
        let is_kept = self.decoded.get().is_some_and(|slots| slots.kept().is_some());
        (!is_kept).then(|| size_of::<Self>() + self.encoded.layout.size())
    }

    /// Compares two objects in protobuf by their bytes, others by their fields, independent of the encodings. A
    /// metadata-only object is never equal to a whole object, even to one without other fields.
    fn has_same_content(&self, other: &Self) -> Option<bool> {
        Some(
            self.is_metadata_only() == other.is_metadata_only()
                && content::is_same(
                    (&self.encoded.codec(), self.bytes()),
                    (&other.encoded.codec(), other.bytes()),
                ),
        )
    }

    fn labels(&self) -> Labels<'_> {
        Labels::from_iterator(self.label_pairs())
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.label(key)
    }
}

impl fmt::Debug for PackedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackedObject")
            .field("namespace", &self.encoded.part(NAMESPACE))
            .field("name", &self.encoded.part(NAME))
            .field("resource_version", &self.version)
            .field("encoding", &self.encoding())
            .field("bytes", &self.bytes().len())
            .finish()
    }
}
