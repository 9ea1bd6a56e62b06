//! Reuses stored objects in lists whose objects are mostly unchanged.

use std::sync::Arc;

use kinformer_core::internal::contain;
use kinformer_core::{Object, Transform};
use kinformer_reflector::Exchange;
use kinformer_store::Indexer;

use crate::same::is_same;

/// Replaces unchanged objects of a relist by the stored ones, so that a relist takes memory only for changed objects.
pub(crate) fn exchange<T: Object>(store: Arc<Indexer<T>>) -> Exchange<T> {
    Exchange::new(move |object| stored_if_same(&store, object, true))
}

/// Adds to a transform that unchanged results are replaced by the stored objects. A transform may return different
/// results for one version, so the contents must be known to be the same.
pub(crate) fn exchange_results<T: Object>(transform: Transform<T>, store: Arc<Indexer<T>>) -> Transform<T> {
    transform.and_then(move |object| Ok(stored_if_same(&store, object, false)))
}

/// Returns the store's object if it is the same, else this object. `if_unknown` says whether objects with a version count
/// as the same if their content is not comparable. Only objects with a UID can be the same: in other sources, equal
/// versions may not mean equal objects.
fn stored_if_same<T: Object>(store: &Indexer<T>, object: Arc<T>, if_unknown: bool) -> Arc<T> {
    if store.is_empty() {
        return object; // the first list
    }
    let known = contain(|| {
        let known = store.get(object.key())?;
        let same =
            Arc::ptr_eq(&known, &object) || object.uid().is_some() && is_same(&*known, &*object, if_unknown);
        same.then_some(known)
    });
    // An object whose accessor panics is left out when it is stored.
    known.ok().flatten().unwrap_or(object)
}
