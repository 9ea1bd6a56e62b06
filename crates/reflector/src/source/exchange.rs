//! Replaces objects of a list by equal ones that are known.

use std::fmt;
use std::sync::Arc;

/// A function that exchanges an object from the source for the identical one that the receiver already holds, so that a
/// relist takes memory only for changed objects.
///
/// Clones share the function.
pub struct Exchange<T>(Option<Arc<ExchangeFunction<T>>>);

type ExchangeFunction<T> = dyn Fn(Arc<T>) -> Arc<T> + Send + Sync;

impl<T> Exchange<T> {
    /// Creates an exchange that returns every object unchanged.
    pub fn none() -> Self {
        Self(None)
    }

    /// Creates an exchange from a function. The function returns its argument, or an object that its users cannot
    /// distinguish from it. It must not panic.
    pub fn new(function: impl Fn(Arc<T>) -> Arc<T> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(function)))
    }

    /// Returns the identical object that is already held, or else this one.
    pub fn apply(&self, object: Arc<T>) -> Arc<T> {
        match &self.0 {
            Some(function) => function(object),
            None => object,
        }
    }

    /// Exchanges all objects of a list.
    pub(crate) fn apply_all(&self, objects: &mut [Arc<T>]) {
        let Some(function) = &self.0 else { return };
        for object in objects {
            *object = function(object.clone());
        }
    }
}

impl<T> Clone for Exchange<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Exchange<T> {
    fn default() -> Self {
        Self::none()
    }
}

impl<T> fmt::Debug for Exchange<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Exchange" } else { "Exchange::none()" })
    }
}
