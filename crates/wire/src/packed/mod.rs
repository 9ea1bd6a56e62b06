//! Objects that stay as they came until somebody reads them.

mod content;
mod decoded;
mod encoded;
mod identified;
mod layout;
mod metadata;
mod recent;
mod slots;
mod view;

use std::any::{Any, type_name};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use kinformer_core::{KeyRef, Labels, Object, ResourceVersion};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::dropped::Dropped;
use crate::json::Within;
use crate::object_decoder::drop_fields;
use crate::{Encoding, Error, FieldPath, ObjectDecoder};
use decoded::{Apart, Read};
pub use decoded::{Decoded, DecodedRef};
use encoded::{Encoded, LABELS, NAME, NAMESPACE, UID};
use identified::Identified;
use layout::Layout;
pub(crate) use recent::Recent;
pub use slots::DecodeAs;
use slots::Slots;
pub use view::{Packed, PackedRef};

/// What can be made of an object's bytes: every type that serde decodes, at once, and [`Packed`] later.
pub trait FromWire: Sized {
    /// Makes it.
    ///
    /// # Errors
    /// The bytes are broken, or not what the type wants.
    fn from_wire(bytes: &[u8], decoder: &ObjectDecoder) -> Result<Self, Error>;
}

impl<K: DeserializeOwned> FromWire for K {
    fn from_wire(bytes: &[u8], decoder: &ObjectDecoder) -> Result<Self, Error> {
        match decoder.without_fields(bytes) {
            Ok((bytes, dropped)) if dropped.is_empty() => decoder.decode(&bytes),
            Ok((bytes, dropped)) => {
                let codec = decoder.codec().without(Dropped(&dropped));
                // A copy that lives no longer than this: the type owns what it takes of it.
                decoder.decode_seed(&codec, &bytes, PhantomData::<K>)
            }
            // Decoding gives the better error.
            Err(error) => decoder.decode::<K>(bytes).and(Err(error)),
        }
    }
}

/// An object of any kind kept as the bytes that it came in, JSON or protobuf; as an object of one kind it is a
/// [`Packed`].
///
/// All objects of Kubernetes are of this one type, so that what stores and delivers them is compiled once.
///
/// Key, UID, version and labels are ready. [`decode_as`](Self::decode_as) decodes the whole when it is asked for and
/// shares the result for as long as anyone holds it; [`field`](Self::field) decodes one field without the rest, and
/// [`metadata`](Self::metadata) and its like only the metadata. It can be decoded as several types side by side, as its own
/// and as one that takes any kind. A pod takes about a tenth of the memory of its type, and costs nothing to decode if it
/// is never read.
///
/// What is read often stays decoded: of the objects of one [`ObjectDecoder`], which is one informer, those that were read
/// last are [cached](ObjectDecoder::decoded_cache_size), up to a number. So handlers that receive an object one after the other
/// have it decoded once. [`keep_decoded`](Self::keep_decoded) keeps the value of one object for as long as it lives.
///
/// That an object does not decode is found when it is read, and not when it arrives.
pub struct PackedObject {
    encoded: Encoded,
    version: ResourceVersion,
    /// Empty until the object is decoded for the first time.
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
        let metadata = Within::<_, Identified<'_>>::new(&["metadata"]);
        let identified = decoder.decode_seed(decoder.codec(), bytes, metadata)?.unwrap_or_default();
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
    /// The object as a `K`. Decoded if no value of that type is held; O(size) then, and O(1) otherwise. Concurrent calls
    /// decode it once.
    ///
    /// A value that is [kept](Self::keep_decoded) is borrowed: reading it takes a few nanoseconds, and no lock.
    ///
    /// # Errors
    /// The bytes are broken, or not what the type wants.
    #[inline]
    pub fn decode_as<K: DeserializeOwned + Send + Sync + 'static>(&self) -> Result<DecodedRef<'_, K>, Error> {
        if let Some(shared) = self.decoded.get().and_then(|slots| slots.kept())
            && let Some(value) = shared.downcast_ref::<Apart<K>>()
        {
            return Ok(DecodedRef(Read::Kept { value: &value.0, shared }));
        }
        let value = self.value(DecodeAs::of::<K>())?;
        Ok(DecodedRef(Read::Shared(Decoded::of(value))))
    }

    /// Decodes the object now, and keeps the value for as long as the object lives. Of several types only the first is
    /// kept; the others are decoded when they are read.
    ///
    /// # Errors
    /// The bytes are broken, or not what the type wants. The object stays as it was.
    pub fn keep_decoded(&self, to: DecodeAs) -> Result<(), Error> {
        self.slots().keep(&self.encoded, to)
    }

    fn value(&self, to: DecodeAs) -> Result<Arc<dyn Any + Send + Sync>, Error> {
        self.slots().value(&self.encoded, to)
    }

    /// The object that is this value, in JSON. The decoder is one of JSON.
    ///
    /// # Errors
    /// The value is not an object with metadata, or cannot be encoded.
    pub fn encode<K: Serialize>(value: &K, decoder: &ObjectDecoder) -> Result<Self, Error> {
        let json = serde_json::to_vec(value)
            .map_err(|error| Error::Unencodable { what: type_name::<K>(), problem: error.to_string() })?;
        Self::new(&json, decoder, "")
    }

    fn slots(&self) -> &Slots {
        self.decoded.get_or_init(Box::default)
    }

    /// Decodes the whole anew, for a value of one's own.
    ///
    /// # Errors
    /// The bytes are broken, or not what the type wants.
    pub fn decode_new<'de, K: Deserialize<'de>>(&'de self) -> Result<K, Error> {
        self.encoded.decode(PhantomData)
    }

    /// One field of the object, decoded without the rest, the same as it is in the whole object. `None` if the object does
    /// not have it, or has null there. In protobuf it takes tens of nanoseconds, in JSON all of the object is looked at.
    ///
    /// # Errors
    /// Those of [`ObjectDecoder::decode_field`].
    pub fn field<'de, M: Deserialize<'de>>(&'de self, path: &FieldPath) -> Result<Option<M>, Error> {
        let (names, resolved) = path.parts();
        self.encoded.codec().decode_field(self.bytes(), names, resolved)
    }

    /// The same object without these fields, for a transform of some objects only. To drop fields from every object,
    /// let the decoder [drop](ObjectDecoder::drop_fields) them: then they are never stored. O(size)
    ///
    /// # Errors
    /// The bytes are broken, or [`Error::NotRemovable`].
    pub fn without_fields(&self, fields: &[&FieldPath]) -> Result<Self, Error> {
        if let Some(identifies) = fields.iter().find(|field| field.identifies()) {
            return Err(Error::NotRemovable { path: identifies.to_string() });
        }
        let encoded = &self.encoded;
        let (bytes, dropped) = drop_fields(&encoded.codec(), encoded.bytes(), encoded.dropped(), fields)?;
        Self::new(&bytes, &encoded.decoder, &dropped)
    }

    /// The fields that were dropped from this object, by [`Self::without_fields`] or when it
    /// [arrived](ObjectDecoder::drop_fields): those that it had, each once. The rest of it is as the server sent it, but for
    /// [managed fields](crate::ManagedFields).
    pub fn dropped_fields(&self) -> Vec<FieldPath> {
        self.encoded.dropped().paths().map(FieldPath::of).collect()
    }

    /// Its encoding.
    pub fn encoding(&self) -> Encoding {
        self.encoded.decoder.encoding()
    }

    /// The object as it is encoded: its JSON, or its protobuf message. How it is kept is not promised: today nothing is copied.
    pub fn encoded(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.bytes())
    }

    /// How many bytes [`Self::encoded`] has.
    pub fn encoded_len(&self) -> usize {
        self.bytes().len()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.encoded.bytes()
    }

    /// Whether somebody holds it decoded, or it is kept so.
    pub fn is_decoded(&self) -> bool {
        self.decoded.get().is_some_and(|slots| slots.is_any_held())
    }

    fn label_pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = (LABELS..self.encoded.layout.parts().saturating_sub(1)).step_by(2);
        pairs.map(|at| (self.encoded.part(at), self.encoded.part(at + 1)))
    }
}

/// Those of [`Object`], so that they are at hand without the trait.
impl PackedObject {
    /// Its key.
    #[inline]
    pub fn key(&self) -> KeyRef<'_> {
        Object::key(self)
    }

    /// Its name.
    #[inline]
    pub fn name(&self) -> &str {
        self.encoded.part(NAME)
    }

    /// Its namespace; `None` if it is cluster-scoped.
    #[inline]
    pub fn namespace(&self) -> Option<&str> {
        Some(self.encoded.part(NAMESPACE)).filter(|namespace| !namespace.is_empty())
    }

    /// Its UID.
    #[inline]
    pub fn uid(&self) -> Option<&str> {
        Some(self.encoded.part(UID)).filter(|uid| !uid.is_empty())
    }

    /// The version of this state.
    pub fn resource_version(&self) -> ResourceVersion {
        self.version.clone()
    }

    /// Its labels.
    pub fn labels(&self) -> Labels<'_> {
        Object::labels(self)
    }

    /// The value of one label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.label_pairs().find_map(|(known, value)| (known == key).then_some(value))
    }
}

/// Nothing reads its decoded values any more.
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

    /// By the bytes within protobuf, else by the fields, so that it does not matter in which encoding each has come.
    /// Metadata alone is never the same as a whole object, even one that has nothing else.
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
        f.debug_struct("Packed")
            .field("namespace", &self.encoded.part(NAMESPACE))
            .field("name", &self.encoded.part(NAME))
            .field("resource_version", &self.version)
            .field("encoding", &self.encoding())
            .field("bytes", &self.bytes().len())
            .finish()
    }
}
