//! Objects that stay as they came until somebody reads them.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, Weak};

use kinformer_core::{KeyRef, Labels, Object, ResourceVersion};
use parking_lot::Mutex;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::{Encoding, Error, FieldPath, ObjectDecoder};

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
        decoder.decode(bytes)
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

impl<K> Typed<K> for K {
    fn typed(&self) -> Result<impl Deref<Target = K>, Error> {
        Ok(self)
    }
}

impl<K: DeserializeOwned> Typed<K> for Packed<K> {
    fn typed(&self) -> Result<impl Deref<Target = K>, Error> {
        Self::typed(self)
    }
}

/// An object of type `K` kept as the bytes that it came in, JSON or protobuf.
///
/// Key, UID, version and labels are ready. [`typed`](Self::typed) decodes the whole when it is asked for and shares the
/// result for as long as anyone holds it; [`at`](Self::at) decodes one member without the rest. A pod takes about a
/// tenth of the memory of its type, and costs nothing to decode if it is never read.
///
/// That an object does not make sense beyond its metadata is therefore found by who reads it, and not when it arrives.
pub struct Packed<K> {
    head: Head,
    bytes: Box<[u8]>,
    decoder: ObjectDecoder,
    typed: Mutex<Weak<K>>,
}

/// Namespace, name, UID, and the keys and values of labels, one behind the other.
struct Head {
    text: Box<str>,
    /// Where each ends.
    ends: Box<[u32]>,
    version: ResourceVersion,
}

const NAMESPACE: usize = 0;
const NAME: usize = 1;
const UID: usize = 2;
const LABELS: usize = 3;

impl<K> FromWire for Packed<K> {
    fn from_wire(bytes: &[u8], decoder: &ObjectDecoder) -> Result<Self, Error> {
        Ok(Self {
            head: Head::new(decoder.decode(bytes)?),
            bytes: bytes.into(),
            decoder: decoder.clone(),
            typed: Mutex::default(),
        })
    }
}

impl<K: DeserializeOwned> Packed<K> {
    /// The object as its type. Decoded if nobody holds what was decoded before; O(size) then, and O(1) else.
    ///
    /// # Errors
    /// The bytes are broken, or not what the type wants.
    pub fn typed(&self) -> Result<Arc<K>, Error> {
        if let Some(typed) = self.typed.lock().upgrade() {
            return Ok(typed);
        }
        // Without the lock: decoding is the type's own code.
        let decoded = Arc::new(self.decoder.decode(&self.bytes)?);
        let mut held = self.typed.lock();
        if let Some(first) = held.upgrade() {
            drop(held);
            return Ok(first);
        }
        let before = std::mem::replace(&mut *held, Arc::downgrade(&decoded));
        drop(held);
        drop(before);
        Ok(decoded)
    }
}

impl<K> Packed<K> {
    /// One member of the object, decoded without the rest. None if the object does not have it. In protobuf it takes
    /// tens of nanoseconds, in JSON all of the object is looked at.
    ///
    /// # Errors
    /// The bytes on the way are broken, or not what the type wants.
    pub fn at<'de, M: Deserialize<'de>>(&'de self, path: &MemberPath) -> Result<Option<M>, Error> {
        match path.of(&self.decoder) {
            Some(path) => self.decoder.decode_at(&self.bytes, path),
            None => Ok(None),
        }
    }

    /// How it came.
    pub fn encoding(&self) -> Encoding {
        self.decoder.encoding()
    }

    /// Its bytes: its JSON, or its protobuf message.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl<K: Send + Sync + 'static> Object for Packed<K> {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::new(self.head.part(NAMESPACE), self.head.part(NAME))
    }

    fn resource_version(&self) -> ResourceVersion {
        self.head.version.clone()
    }

    fn uid(&self) -> Option<&str> {
        Some(self.head.part(UID)).filter(|uid| !uid.is_empty())
    }

    fn labels(&self) -> Labels<'_> {
        Labels::from_iterator(self.head.labels())
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.head.labels().find_map(|(known, value)| (known == key).then_some(value))
    }
}

impl<K> fmt::Debug for Packed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packed")
            .field("namespace", &self.head.part(NAMESPACE))
            .field("name", &self.head.part(NAME))
            .field("resource_version", &self.head.version)
            .field("encoding", &self.encoding())
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

/// The way to one member of packed objects, by the names in JSON: `["spec", "nodeName"]`. Made once, for objects of one
/// kind; what leads to it is looked up once for protobuf.
#[derive(Debug)]
pub struct MemberPath {
    names: Box<[Box<str>]>,
    protobuf: OnceLock<Option<FieldPath>>,
    json: OnceLock<Option<FieldPath>>,
}

impl MemberPath {
    /// The way by these names.
    pub fn new(names: &[&str]) -> Self {
        let names = names.iter().map(|name| (*name).into()).collect();
        Self { names, protobuf: OnceLock::new(), json: OnceLock::new() }
    }

    fn of(&self, decoder: &ObjectDecoder) -> Option<&FieldPath> {
        let known = match decoder.encoding() {
            Encoding::Json => &self.json,
            Encoding::Protobuf => &self.protobuf,
        };
        let look_up = || {
            let names: Vec<&str> = self.names.iter().map(|name| &**name).collect();
            decoder.field_path(&names)
        };
        known.get_or_init(look_up).as_ref()
    }
}

impl Head {
    fn new(metadata: Whole<'_>) -> Self {
        let Metadata { namespace, name, uid, resource_version, labels } = metadata.metadata;
        let mut text = String::new();
        let mut ends = Vec::with_capacity(LABELS + 2 * labels.0.len());
        let mut put = |part: &str| {
            text.push_str(part);
            // An object is not as long as that.
            ends.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
        };
        for part in [namespace, name, uid] {
            put(part.as_ref().map_or("", |part| &part.0));
        }
        for (key, value) in &labels.0 {
            put(&key.0);
            put(&value.0);
        }
        let version = resource_version.map(|version| ResourceVersion::from(&*version.0)).unwrap_or_default();
        Self { text: text.into(), ends: ends.into(), version }
    }

    fn part(&self, number: usize) -> &str {
        let end = |number: usize| self.ends.get(number).map(|end| *end as usize);
        let begin = number.checked_sub(1).and_then(end).unwrap_or(0);
        end(number).and_then(|end| self.text.get(begin..end)).unwrap_or("")
    }

    fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        (LABELS..self.ends.len()).step_by(2).map(|number| (self.part(number), self.part(number + 1)))
    }
}

/// What is read of every object.
#[derive(Deserialize)]
struct Whole<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    namespace: Option<Text<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    #[serde(borrow)]
    resource_version: Option<Text<'a>>,
    #[serde(borrow, default)]
    labels: Pairs<'a>,
}

/// Text that is not copied where it stands as it is.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The entries of a map in their order; none for null.
#[derive(Default)]
struct Pairs<'a>(Vec<(Text<'a>, Text<'a>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<'a>(PhantomData<&'a ()>);

        impl<'de: 'a, 'a> Visitor<'de> for Entries<'a> {
            type Value = Pairs<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of texts")
            }

            fn visit_none<E>(self) -> Result<Self::Value, E> {
                Ok(Pairs::default())
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
                deserializer.deserialize_map(self)
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(0).min(64));
                while let Some(entry) = map.next_entry()? {
                    pairs.push(entry);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_option(Entries(PhantomData))
    }
}
