//! Decoded values of packed objects.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A decoded object, either borrowed from a [`PackedObject`](crate::PackedObject) that keeps the value or shared with
/// other readers.
pub struct DecodedRef<'a, K>(pub(super) Read<'a, K>);

pub(super) enum Read<'a, K> {
    /// Decoded on arrival.
    Kept {
        value: &'a K,
        shared: &'a Arc<dyn Any + Send + Sync>,
    },
    Shared(Decoded<K>),
}

/// A [decoded](crate::Packed::decode_owned) object, shared by all its readers. Cheap to clone.
///
/// Converts from a `K` or an `Arc<K>`, for code that reads an object or else creates it, and [into an
/// `Arc<K>`](Self::into_arc). No conversion copies the value.
pub struct Decoded<K>(Arc<Boxed<K>>);

/// In an `Arc` of its own, so that a `Weak` of the `Arc` around it does not retain the memory of the value.
pub(super) struct Boxed<K>(pub(super) Arc<K>);

impl<K> DecodedRef<'_, K> {
    /// Returns the shared value, without the borrow. O(1).
    #[inline]
    pub fn into_owned(self) -> Decoded<K>
    where
        K: Send + Sync + 'static,
    {
        match self.0 {
            Read::Kept { shared, .. } => Decoded::of(shared.clone()),
            Read::Shared(shared) => shared,
        }
    }
}

impl<K> Deref for DecodedRef<'_, K> {
    type Target = K;

    #[inline]
    fn deref(&self) -> &K {
        match &self.0 {
            Read::Kept { value, .. } => value,
            Read::Shared(shared) => shared,
        }
    }
}

impl<K: fmt::Debug> fmt::Debug for DecodedRef<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        K::fmt(self, f)
    }
}

impl<K: Send + Sync + 'static> Decoded<K> {
    #[inline]
    pub(super) fn of(value: Arc<dyn Any + Send + Sync>) -> Self {
        Self(value.downcast().unwrap_or_else(|_| unreachable!("callers look up the value by its type")))
    }
}

impl<K> Decoded<K> {
    /// Returns the value as an `Arc`, which all conversions of the same value share. O(1): the value is not copied.
    ///
    /// Later reads of the object share the value while it is cached or a `Decoded` of it exists. An `Arc` alone does
    /// not count as such a reader.
    pub fn into_arc(self) -> Arc<K> {
        self.0.0.clone()
    }
}

impl<K> From<Decoded<K>> for Arc<K> {
    fn from(decoded: Decoded<K>) -> Self {
        decoded.into_arc()
    }
}

impl<K> From<Arc<K>> for Decoded<K> {
    fn from(value: Arc<K>) -> Self {
        Self(Arc::new(Boxed(value)))
    }
}

impl<K> From<K> for Decoded<K> {
    fn from(value: K) -> Self {
        Self::from(Arc::new(value))
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

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use serde::{Deserialize, Deserializer};
    use serde_json::Value;

    use super::*;
    use crate::{DecodeAs, FromWire, ObjectDecoder, PackedObject};

    static OBJECT: OnceLock<PackedObject> = OnceLock::new();

    /// Reads the kept value from another thread while this type is decoded.
    struct ReadsKept;

    impl<'de> Deserialize<'de> for ReadsKept {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let (send, receive) = channel();
            std::thread::spawn(move || {
                let value = OBJECT.get().unwrap().decode_as::<Value>().unwrap();
                send.send(value["kind"].clone()).unwrap();
            });
            assert_eq!(receive.recv_timeout(Duration::from_secs(60)).unwrap(), "Pod");
            serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
        }
    }

    /// A read of the kept value only borrows it: it has one owner, and a decoding of another type does not block it.
    // contract: L-34b
    #[test]
    fn kept_value_is_read_without_lock_or_count() {
        let json = br#"{"kind":"Pod","metadata":{"name":"a"}}"#;
        let object = OBJECT.get_or_init(|| PackedObject::from_wire(json, &ObjectDecoder::json()).unwrap());
        object.keep_decoded(DecodeAs::of::<Value>()).unwrap();
        let [first, second] = [(); 2].map(|()| object.decode_as::<Value>().unwrap());
        let (Read::Kept { shared, .. }, Read::Kept { value, .. }) = (&first.0, &second.0) else {
            panic!("not borrowed")
        };
        assert_eq!((Arc::strong_count(shared), Arc::weak_count(shared)), (1, 0));
        assert_eq!(value["kind"], "Pod");
        assert!(object.decode_as::<ReadsKept>().is_ok());
    }
}
