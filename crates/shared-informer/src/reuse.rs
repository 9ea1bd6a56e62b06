//! Lists of what is mostly known already.

use std::sync::Arc;

use kinformer_core::Object;
use kinformer_core::internal::ask;
use kinformer_reflector::Exchange;
use kinformer_store::Indexer;

use crate::same::is_same_version;

/// Exchanges an object for the store's own wherever it has not changed: so that listing everything again takes the memory
/// of what has.
pub(crate) fn exchange<T: Object>(store: Arc<Indexer<T>>) -> Exchange<T> {
    Exchange::new(move |object| known(&store, object))
}

/// The store's object if it is known to be the same, which takes a UID and a version: other sources may mean less by a
/// version than an API server does.
fn known<T: Object>(store: &Indexer<T>, object: Arc<T>) -> Arc<T> {
    let known = ask(|| {
        let known = store.get(object.key())?;
        let same = Arc::ptr_eq(&known, &object)
            || object.uid().is_some()
                && is_same_version(&*known, &*object)
                && known.has_same_content(&object) != Some(false);
        same.then_some(known)
    });
    // One that panics when it is asked is left out where it is stored.
    known.ok().flatten().unwrap_or(object)
}
