//! Objects as those of one kind.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::{Decoded, DecodedRef, FieldPath, FromWire, PackedObject};
use crate::{Error, ObjectDecoder};

/// A shared object of the kind `K`: a [`PackedObject`] that is [decoded](Self::decode) as a `K`. Cheap to clone.
///
/// It has the methods of [`PackedObject`]: key, UID, version and labels are ready, and
/// [one field](PackedObject::field) or the [metadata](PackedObject::metadata) can be read without the rest.
///
/// ```
/// use kinformer_wire::{FromWire, FieldPath, ObjectDecoder, Packed};
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
/// assert_eq!((pod.namespace(), pod.name()), (Some("b"), "a"));
/// let node = FieldPath::new(&["spec", "nodeName"]);
/// assert_eq!(pod.field::<&str>(&node)?, Some("node-1"));
/// assert!(!pod.is_decoded());
/// assert_eq!(pod.decode()?.spec.priority, 7);
/// # Ok::<(), kinformer_wire::Error>(())
/// ```
pub struct Packed<K> {
    object: Arc<PackedObject>,
    kind: PhantomData<fn() -> K>,
}

/// A borrowed object of the kind `K`: what a [`Packed`] is without a count of its own. Cheap to copy.
pub struct PackedRef<'a, K> {
    object: &'a Arc<PackedObject>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Packed<K> {
    /// The object as one of the kind `K`. Nothing is checked: what does not decode as a `K` is an error of
    /// [`Self::decode`].
    #[inline]
    pub fn new(object: Arc<PackedObject>) -> Self {
        Self { object, kind: PhantomData }
    }

    /// The object without its kind.
    #[inline]
    pub fn object(&self) -> &Arc<PackedObject> {
        &self.object
    }

    /// The object without its kind.
    #[inline]
    pub fn into_object(self) -> Arc<PackedObject> {
        self.object
    }

    /// The same object as one of another kind: as a dynamic object, its metadata, or a type of one's own with some of
    /// its fields.
    #[inline]
    pub fn cast<M>(self) -> Packed<M> {
        Packed::new(self.object)
    }

    /// The object, borrowed.
    #[inline]
    pub fn as_ref(&self) -> PackedRef<'_, K> {
        PackedRef::new(&self.object)
    }

    /// Whether both are the same object in memory, and not only equal.
    #[inline]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.object, &other.object)
    }

    /// The same object without these fields; see [`PackedObject::without_fields`].
    ///
    /// # Errors
    /// The bytes are broken, or [`Error::NotRemovable`].
    pub fn without_fields(&self, fields: &[&FieldPath]) -> Result<Self, Error> {
        self.object.without_fields(fields).map(|object| Self::new(Arc::new(object)))
    }
}

impl<K: DeserializeOwned + Send + Sync + 'static> Packed<K> {
    /// The object as its type: decoded if no value of it is held; see [`PackedObject::decode_as`].
    ///
    /// # Errors
    /// The bytes are broken, or not what the type wants.
    #[inline]
    pub fn decode(&self) -> Result<DecodedRef<'_, K>, Error> {
        self.object.decode_as()
    }

    /// As [`Self::decode`], without a borrow of this object.
    ///
    /// # Errors
    /// The bytes are broken, or not what the type wants.
    #[inline]
    pub fn decode_owned(&self) -> Result<Decoded<K>, Error> {
        self.decode().map(DecodedRef::into_owned)
    }
}

impl<K> FromWire for Packed<K> {
    fn from_wire(bytes: &[u8], decoder: &ObjectDecoder) -> Result<Self, Error> {
        PackedObject::from_wire(bytes, decoder).map(|object| Self::new(Arc::new(object)))
    }
}

impl<K> Deref for Packed<K> {
    type Target = PackedObject;

    #[inline]
    fn deref(&self) -> &PackedObject {
        &self.object
    }
}

impl<K> Clone for Packed<K> {
    #[inline]
    fn clone(&self) -> Self {
        Self::new(self.object.clone())
    }
}

impl<K> fmt::Debug for Packed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(f)
    }
}

impl<'a, K> PackedRef<'a, K> {
    /// The object as one of the kind `K`.
    #[inline]
    pub fn new(object: &'a Arc<PackedObject>) -> Self {
        Self { object, kind: PhantomData }
    }

    /// The object without its kind.
    #[inline]
    pub fn object(self) -> &'a Arc<PackedObject> {
        self.object
    }

    /// The object, to be kept. O(1).
    #[inline]
    pub fn into_owned(self) -> Packed<K> {
        Packed::new(self.object.clone())
    }

    /// The same object as one of another kind.
    #[inline]
    pub fn cast<M>(self) -> PackedRef<'a, M> {
        PackedRef::new(self.object)
    }
}

impl<'a, K: DeserializeOwned + Send + Sync + 'static> PackedRef<'a, K> {
    /// The object as its type: decoded if no value of it is held; see [`PackedObject::decode_as`].
    ///
    /// # Errors
    /// The bytes are broken, or not what the type wants.
    #[inline]
    pub fn decode(self) -> Result<DecodedRef<'a, K>, Error> {
        self.object.decode_as()
    }
}

impl<K> Deref for PackedRef<'_, K> {
    type Target = PackedObject;

    #[inline]
    fn deref(&self) -> &PackedObject {
        self.object
    }
}

impl<K> Clone for PackedRef<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for PackedRef<'_, K> {}

impl<K> fmt::Debug for PackedRef<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(f)
    }
}
