//! Objects that stay as they came until somebody reads them.

mod content;
mod layout;
mod member;
mod metadata;
mod recent;

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use kinformer_core::{KeyRef, Labels, Object, ResourceVersion};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::json::Within;
use crate::{Encoding, Error, ObjectDecoder};
use layout::Layout;
pub use member::MemberPath;
use metadata::Identified;
pub(crate) use recent::Recent;

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
        match decoder.without_cut(bytes) {
            Ok(bytes) => decoder.decode(&bytes),
            // What is wrong with it is better said by decoding it.
            Err(error) => decoder.decode::<K>(bytes).and(Err(error)),
        }
    }
}

/// What can be read as a `K`: a `K`, and a `K` that is [`Packed`]. For code that is written once for both.
pub trait Typed<K> {
    /// The object as its type.
    ///
    /// # Errors
    /// Of what is packed, those of [`Packed::typed`]; else none.
    fn typed(&self) -> Result<impl Deref<Target = K>, Error>;
}

// Of what can be decoded: so that an `Arc` of an object is not taken for one itself.
impl<K: DeserializeOwned> Typed<K> for K {
    fn typed(&self) -> Result<impl Deref<Target = K>, Error> {
        Ok(self)
    }
}

impl<K: DeserializeOwned + Send + Sync + 'static> Typed<K> for Packed<K> {
    fn typed(&self) -> Result<impl Deref<Target = K>, Error> {
        Self::typed(self)
    }
}

/// An object of type `K` kept as the bytes that it came in, JSON or protobuf.
///
/// Key, UID, version and labels are ready. [`typed`](Self::typed) decodes the whole when it is asked for and shares the
/// result for as long as anyone holds it; [`at`](Self::at) decodes one member without the rest, and
/// [`metadata`](Self::metadata) and its like only the metadata. A pod takes about a tenth of the memory of its type, and
/// costs nothing to decode if it is never read.
///
/// What is read often stays decoded: of the objects of one [`ObjectDecoder`], which is one informer, those that were read
/// last are [kept](ObjectDecoder::keeping), up to a number. So handlers that are told of an object one behind the other
/// have it decoded once.
///
/// That an object does not make sense beyond its metadata is found by who reads it, and not when it arrives.
///
/// ```
/// use kinformer_core::Object;
/// use kinformer_wire::{FromWire, MemberPath, ObjectDecoder, Packed};
///
/// #[derive(serde::Deserialize)]
/// struct Pod {
///     spec: Spec,
/// }
/// #[derive(serde::Deserialize)]
/// struct Spec {
///     priority: i32,
/// }
///
/// let json = br#"{"metadata":{"name":"a","namespace":"b"},"spec":{"nodeName":"node-1","priority":7}}"#;
/// let pod: Packed<Pod> = Packed::from_wire(json, &ObjectDecoder::json())?;
/// assert_eq!(pod.key().to_string(), "b/a");
/// let node = MemberPath::new(&["spec", "nodeName"]);
/// assert_eq!(pod.at::<&str>(&node)?, Some("node-1"));
/// assert!(!pod.is_decoded());
/// assert_eq!(pod.typed()?.spec.priority, 7);
/// # Ok::<(), kinformer_wire::Error>(())
/// ```
pub struct Packed<K> {
    layout: Layout,
    version: ResourceVersion,
    decoder: ObjectDecoder,
    decoded: Mutex<Last<K>>,
}

/// What was decoded last.
struct Last<K> {
    decoded: Weak<Apart<K>>,
    /// Where it is among those that are kept; beyond all places if it is not.
    place: u32,
}

/// An object that was [decoded](Packed::typed), shared by all who hold it. Cheap to clone.
pub struct Decoded<K>(Arc<Apart<K>>);

/// Apart from what counts its holders, so that when nobody has it any more little of it is left.
struct Apart<K>(Box<K>);

/// The parts that are ready; labels follow, key and value.
const NAMESPACE: usize = 0;
const NAME: usize = 1;
const UID: usize = 2;
const LABELS: usize = 3;

impl<K> FromWire for Packed<K> {
    fn from_wire(bytes: &[u8], decoder: &ObjectDecoder) -> Result<Self, Error> {
        match decoder.without_cut(bytes) {
            Ok(bytes) => Self::new(&bytes, decoder),
            Err(error) => Self::new(bytes, decoder).and(Err(error)),
        }
    }
}

impl<K> Packed<K> {
    fn new(bytes: &[u8], decoder: &ObjectDecoder) -> Result<Self, Error> {
        let metadata = Within::<_, Identified<'_>>::new(&["metadata"]);
        let identified = decoder.decode_seed(bytes, metadata)?.unwrap_or_default();
        Ok(Self {
            layout: Layout::new(bytes, &identified.parts())?,
            version: identified.version(),
            decoder: decoder.clone(),
            decoded: Mutex::new(Last { decoded: Weak::new(), place: u32::MAX }),
        })
    }
}

impl<K: DeserializeOwned + Send + Sync + 'static> Packed<K> {
    /// The object as its type. Decoded if nobody holds what was decoded before; O(size) then, and O(1) else. Of several
    /// that ask at the same time one decodes, and the others wait for it.
    ///
    /// # Errors
    /// The bytes are broken, or not what the type wants.
    pub fn typed(&self) -> Result<Decoded<K>, Error> {
        let recent = self.decoder.recent();
        // Decoding is the type's own code, and runs under this lock, which is the object's alone: who waits for it would
        // do the same work a second time.
        let mut last = self.decoded.lock();
        if let Some(decoded) = last.decoded.upgrade() {
            recent.read(last.place as usize);
            return Ok(Decoded(decoded));
        }
        let decoded = Arc::new(Apart(Box::new(self.decoder.decode(self.layout.object())?)));
        let (place, gone) = recent.keep(decoded.clone());
        let place = place.and_then(|place| u32::try_from(place).ok()).unwrap_or(u32::MAX);
        let before = std::mem::replace(&mut *last, Last { decoded: Arc::downgrade(&decoded), place });
        drop(last);
        drop((before.decoded, gone));
        Ok(Decoded(decoded))
    }
}

impl<K> Packed<K> {
    /// One field of the object, decoded without the rest, the same as it is in the whole object. None if the object does
    /// not have it, or has null there. In protobuf it takes tens of nanoseconds, in JSON all of the object is looked at.
    ///
    /// # Errors
    /// Those of [`ObjectDecoder::decode_at`].
    pub fn at<'de, M: Deserialize<'de>>(&'de self, path: &MemberPath) -> Result<Option<M>, Error> {
        match path.of(&self.decoder) {
            Some(path) => self.decoder.decode_at(self.layout.object(), &path),
            None => Ok(None),
        }
    }

    /// The same object without these fields, as a transform gives it that is about some objects only. To leave fields
    /// out of every object, let the decoder [cut](ObjectDecoder::cutting) them: then they are never stored. O(size)
    ///
    /// # Errors
    /// The bytes are broken, or [`Error::NotRemovable`].
    pub fn without(&self, members: &[&MemberPath]) -> Result<Self, Error> {
        if let Some(kept) = members.iter().find(|member| member.is_kept()) {
            return Err(Error::NotRemovable { path: kept.text() });
        }
        let paths: Vec<_> = members.iter().filter_map(|member| member.of(&self.decoder)).collect();
        let paths: Vec<_> = paths.iter().map(AsRef::as_ref).collect();
        let decoder = self.decoder.for_objects_without(&paths);
        Self::new(&self.decoder.cut(self.layout.object(), &paths)?, &decoder)
    }

    /// How it came.
    pub fn encoding(&self) -> Encoding {
        self.decoder.encoding()
    }

    /// Its bytes: its JSON, or its protobuf message.
    pub fn bytes(&self) -> &[u8] {
        self.layout.object()
    }

    /// Whether somebody holds it decoded, or it is kept so.
    pub fn is_decoded(&self) -> bool {
        self.decoded.lock().decoded.strong_count() > 0
    }

    fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        (LABELS..self.layout.parts()).step_by(2).map(|at| (self.layout.part(at), self.layout.part(at + 1)))
    }
}

/// What was decoded of it is of no more use.
impl<K> Drop for Packed<K> {
    fn drop(&mut self) {
        let Last { decoded, place } = self.decoded.get_mut();
        if decoded.strong_count() > 0 {
            drop(self.decoder.recent().take(*place as usize, decoded.as_ptr().cast()));
        }
    }
}

impl<K: Send + Sync + 'static> Object for Packed<K> {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::new(self.layout.part(NAMESPACE), self.layout.part(NAME))
    }

    fn resource_version(&self) -> ResourceVersion {
        self.version.clone()
    }

    fn uid(&self) -> Option<&str> {
        Some(self.layout.part(UID)).filter(|uid| !uid.is_empty())
    }

    /// By the bytes within protobuf, else by the fields, so that it does not matter in which encoding each has come.
    fn has_same_content(&self, other: &Self) -> Option<bool> {
        Some(content::is_same((&self.decoder, self.bytes()), (&other.decoder, other.bytes())))
    }

    fn labels(&self) -> Labels<'_> {
        Labels::from_iterator(self.labels())
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels().find_map(|(known, value)| (known == key).then_some(value))
    }
}

impl<K> Deref for Decoded<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.0.0
    }
}

impl<K> Clone for Decoded<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: fmt::Debug> fmt::Debug for Decoded<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        K::fmt(self, f)
    }
}

impl<K> fmt::Debug for Packed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packed")
            .field("namespace", &self.layout.part(NAMESPACE))
            .field("name", &self.layout.part(NAME))
            .field("resource_version", &self.version)
            .field("encoding", &self.encoding())
            .field("bytes", &self.bytes().len())
            .finish()
    }
}
