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
pub struct Decoded<K>(Arc<Boxed<K>>);

/// Boxed, so that a `Weak` of the `Arc` around it does not retain the memory of the value.
pub(super) struct Boxed<K>(pub(super) Box<K>);

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
        #[expect(clippy::expect_used, reason = "callers look up the value by its type")]
        Self(value.downcast().expect("a value of its own type"))
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
