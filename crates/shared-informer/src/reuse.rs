//! Reuses stored objects in lists whose objects are mostly unchanged.

use std::sync::Arc;

use kinformer_core::Object;
use kinformer_core::internal::try_accessors;
use kinformer_reflector::Exchange;
use kinformer_store::Indexer;

use crate::same::is_same_version;

/// Returns an exchange of unchanged objects for those of the store, so that a relist takes memory only for changed
/// objects.
pub(crate) fn exchange<T: Object>(store: Arc<Indexer<T>>) -> Exchange<T> {
    Exchange::new(move |object| known(&store, object))
}

/// Returns the store's object if it is known to be the same, else this object. Only objects with a UID and a version
/// can be known to be the same: the versions of other sources may prove less than those of an API server.
fn known<T: Object>(store: &Indexer<T>, object: Arc<T>) -> Arc<T> {
    let known = try_accessors(|| {
        let known = store.get(object.key())?;
        let same = Arc::ptr_eq(&known, &object)
            || object.uid().is_some()
                && is_same_version(&*known, &*object)
                && known.has_same_content(&object) != Some(false);
        same.then_some(known)
    });
    // An object whose accessor panics is left out when it is stored.
    known.ok().flatten().unwrap_or(object)
}
