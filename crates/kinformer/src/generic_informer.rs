//! What an accessor gives.

use std::fmt;
use std::marker::PhantomData;

use crate::SharedInformerFactory;

/// The informer of one kind, as the factory has it.
pub struct GenericInformer<K> {
    factory: SharedInformerFactory,
    kind: PhantomData<fn() -> K>,
}

impl<K> GenericInformer<K> {
    pub(crate) fn new(factory: &SharedInformerFactory) -> Self {
        Self { factory: factory.clone(), kind: PhantomData }
    }
}

impl<K> Clone for GenericInformer<K> {
    fn clone(&self) -> Self {
        Self::new(&self.factory)
    }
}

impl<K> fmt::Debug for GenericInformer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GenericInformer").field("kind", &std::any::type_name::<K>()).finish_non_exhaustive()
    }
}
