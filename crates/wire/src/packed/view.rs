//! Views of packed objects with a type.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Decoded, DecodedRef, FieldPath, FromWire, PackedObject};
use crate::{Error, ObjectDecoder};

/// A shared object of the type `K`: a [`PackedObject`] that is [decoded](Self::decode) as a `K`. Cheap to clone.
///
/// Has the methods of [`PackedObject`]: key, UID, version and labels are parsed, and [one field](PackedObject::field)
/// or the [metadata](PackedObject::metadata_as) can be decoded without the rest.
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
/// assert_eq!(pod.field::<String>(&node)?.as_deref(), Some("node-1"));
/// assert!(!pod.is_decoded());
/// assert_eq!(pod.decode()?.spec.priority, 7);
/// # Ok::<(), kinformer_wire::Error>(())
/// ```
pub struct Packed<K> {
    object: Arc<PackedObject>,
    kind: PhantomData<fn() -> K>,
}

/// A borrowed [`Packed`] without a reference count of its own. Cheap to copy.
pub struct PackedRef<'a, K> {
    object: &'a Arc<PackedObject>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Packed<K> {
    /// Creates a view of an object as a `K`. Checks nothing: an object that is not a `K` is an error of
    /// [`Self::decode`].
    #[inline]
    pub fn new(object: Arc<PackedObject>) -> Self {
        Self { object, kind: PhantomData }
    }

    /// Returns the object without its type.
    #[inline]
    pub fn object(&self) -> &Arc<PackedObject> {
        &self.object
    }

    /// Returns the object without its type.
    #[inline]
    pub fn into_object(self) -> Arc<PackedObject> {
        self.object
    }

    /// Returns a view of the same object with another type: a dynamic object, its metadata, or a custom type with some
    /// of its fields.
    ///
    /// ```
    /// # #[derive(serde::Deserialize)]
    /// # struct Pod { spec: Spec }
    /// # #[derive(serde::Deserialize)]
    /// # struct Spec { priority: i32 }
    /// # use kinformer_wire::{FromWire, ObjectDecoder, Packed};
    /// # let json = br#"{"metadata":{"name":"a","namespace":"b"},"spec":{"nodeName":"node-1","priority":7}}"#;
    /// # let pod = Packed::<Pod>::from_wire(json, &ObjectDecoder::json())?;
    /// let pod = pod.cast::<serde_json::Value>();
    /// assert_eq!(pod.decode()?["spec"]["nodeName"], "node-1");
    /// # Ok::<(), kinformer_wire::Error>(())
    /// ```
    #[inline]
    pub fn cast<M>(self) -> Packed<M> {
        Packed::new(self.object)
    }

    /// Borrows the object.
    #[inline]
    pub fn as_ref(&self) -> PackedRef<'_, K> {
        PackedRef::new(&self.object)
    }

    /// Whether both are the same object in memory.
    #[inline]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.object, &other.object)
    }

    /// Returns the object without these fields; see [`PackedObject::without_fields`].
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
    /// let node = FieldPath::new(&["spec", "nodeName"]);
    /// let pod = pod.without_fields(&[&node])?;
    /// assert!(pod.field::<String>(&node)?.is_none());
    /// assert_eq!(pod.decode()?.spec.priority, 7);
    /// # Ok::<(), kinformer_wire::Error>(())
    /// ```
    ///
    /// # Errors
    /// The bytes are broken; [`Error::NotRemovable`] for fields that identify the object.
    pub fn without_fields(&self, fields: &[&FieldPath]) -> Result<Self, Error> {
        self.object.without_fields(fields).map(|object| Self::new(Arc::new(object)))
    }
}

impl<K: DeserializeOwned + Send + Sync + 'static> Packed<K> {
    /// Returns the decoded object, and decodes it if no value is held or cached; see [`PackedObject::decode_as`].
    ///
    /// ```
    /// # #[derive(serde::Deserialize)]
    /// # struct Pod { spec: Spec }
    /// # #[derive(serde::Deserialize)]
    /// # struct Spec { priority: i32 }
    /// # use kinformer_wire::{FromWire, ObjectDecoder, Packed};
    /// # let json = br#"{"metadata":{"name":"a","namespace":"b"},"spec":{"nodeName":"node-1","priority":7}}"#;
    /// # let pod = Packed::<Pod>::from_wire(json, &ObjectDecoder::json())?;
    /// assert_eq!(pod.decode()?.spec.priority, 7);
    /// # Ok::<(), kinformer_wire::Error>(())
    /// ```
    ///
    /// # Errors
    /// The bytes are broken or do not match the type, or a limit is exceeded; see [`ObjectDecoder::decode`].
    #[inline]
    pub fn decode(&self) -> Result<DecodedRef<'_, K>, Error> {
        self.object.decode_as()
    }

    /// As [`Self::decode`], without borrowing this object.
    ///
    /// ```
    /// # #[derive(serde::Deserialize)]
    /// # struct Pod { spec: Spec }
    /// # #[derive(serde::Deserialize)]
    /// # struct Spec { priority: i32 }
    /// # use kinformer_wire::{FromWire, ObjectDecoder, Packed};
    /// # let json = br#"{"metadata":{"name":"a","namespace":"b"},"spec":{"nodeName":"node-1","priority":7}}"#;
    /// # let pod = Packed::<Pod>::from_wire(json, &ObjectDecoder::json())?;
    /// let decoded = pod.decode_owned()?;
    /// drop(pod);
    /// assert_eq!(decoded.spec.priority, 7);
    /// # Ok::<(), kinformer_wire::Error>(())
    /// ```
    ///
    /// # Errors
    /// The bytes are broken or do not match the type, or a limit is exceeded; see [`ObjectDecoder::decode`].
    #[inline]
    pub fn decode_owned(&self) -> Result<Decoded<K>, Error> {
        self.decode().map(DecodedRef::into_owned)
    }

    /// As [`Self::decode_owned`], as an `Arc`; see [`Decoded::into_arc`].
    ///
    /// ```
    /// # #[derive(serde::Deserialize)]
    /// # struct Pod { spec: Spec }
    /// # #[derive(serde::Deserialize)]
    /// # struct Spec { priority: i32 }
    /// # use kinformer_wire::{FromWire, ObjectDecoder, Packed};
    /// # let json = br#"{"metadata":{"name":"a","namespace":"b"},"spec":{"nodeName":"node-1","priority":7}}"#;
    /// # let pod = Packed::<Pod>::from_wire(json, &ObjectDecoder::json())?;
    /// let decoded: std::sync::Arc<Pod> = pod.decode_arc()?;
    /// assert_eq!(decoded.spec.priority, 7);
    /// # Ok::<(), kinformer_wire::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn decode_arc(&self) -> Result<Arc<K>, Error> {
        self.decode_owned().map(Decoded::into_arc)
    }
}

impl<K: Serialize + Send + Sync + 'static> Packed<K> {
    /// Creates a packed object from a value, for unit tests of functions that take packed objects.
    ///
    /// The object has the key, UID, resource version, labels and fields that the value has when it is encoded as JSON.
    /// [`decode`](Self::decode) returns the value itself: it is neither copied nor decoded. O(size).
    ///
    /// ```
    /// use kinformer_wire::Packed;
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Pod {
    ///     metadata: Metadata,
    /// }
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Metadata {
    ///     name: String,
    /// }
    ///
    /// fn describe(pod: &Packed<Pod>) -> String {
    ///     format!("pod {}", pod.name())
    /// }
    ///
    /// let pod = Packed::from_value(Pod { metadata: Metadata { name: "web-0".into() } })?;
    /// assert_eq!(describe(&pod), "pod web-0");
    /// assert_eq!(pod.decode()?.metadata.name, "web-0");
    /// # Ok::<(), kinformer_wire::Error>(())
    /// ```
    ///
    /// # Errors
    /// The value cannot be encoded, or is not an object with metadata.
    pub fn from_value(value: impl Into<Arc<K>>) -> Result<Self, Error> {
        PackedObject::from_arc(value.into()).map(|object| Self::new(Arc::new(object)))
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
    /// Creates a view of an object as a `K`.
    #[inline]
    pub fn new(object: &'a Arc<PackedObject>) -> Self {
        Self { object, kind: PhantomData }
    }

    /// Returns the object without its type.
    #[inline]
    pub fn object(self) -> &'a Arc<PackedObject> {
        self.object
    }

    /// Returns a shared reference to the object. O(1).
    #[inline]
    pub fn into_owned(self) -> Packed<K> {
        Packed::new(self.object.clone())
    }

    /// Returns a view of the same object with another type.
    #[inline]
    pub fn cast<M>(self) -> PackedRef<'a, M> {
        PackedRef::new(self.object)
    }
}

impl<'a, K: DeserializeOwned + Send + Sync + 'static> PackedRef<'a, K> {
    /// Returns the decoded object, and decodes it if no value is held or cached; see [`PackedObject::decode_as`].
    ///
    /// # Errors
    /// The bytes are broken or do not match the type, or a limit is exceeded; see [`ObjectDecoder::decode`].
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
